"""The corpus of SQL: statements with MATCH_RECOGNIZE and the rows worked out by hand.

Every executor must give these rows. The cases stand in `corpus/sql/*.toml`, one file per manual
whose examples they are (the data are our own), and name nothing of the engine:

* `tables`, before the cases: each a table with a header. `null` is NULL, `10:02` and `10:02:30`
  are timestamps of one day, and quotes make a string of anything.
* `query`: the statement, in the dialect that the file is named after; `standard` is any.
* `answer`: the rows of the statement as a table, in any order.
* `error`: what an executor says instead.

`SqlCase.check` compares rows with the answer.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import Any

import pyarrow as pa

MIDNIGHT = datetime(2026, 1, 1)
_KEYS = frozenset({"name", "query", "answer", "error", "note"})
_CELL = re.compile(r"'[^']*'|\S+")
_CLOCK = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d))?")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d")


@dataclass(frozen=True)
class SqlCase:
    """A statement, its tables, and its rows or its error."""

    topic: str
    name: str
    query: str
    tables: Mapping[str, pa.Table]
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    error: str = ""

    @property
    def dialect(self) -> str:
        return "duckdb" if self.topic == "standard" else self.topic

    def check(self, found: Iterable[Mapping[str, Any]], *, whole: bool = True) -> None:
        """Raise unless these are the rows, in any order; names of columns in any case.

        `whole`: all of them.
        """
        wanted = Counter(map(_make_comparable, self.rows))
        got = []
        for row in found:
            assert [name.lower() for name in row] == [name.lower() for name in self.columns]
            got.append(_make_comparable(tuple(row.values())))
        missing, surplus = wanted - Counter(got), Counter(got) - wanted
        told = [f"missing {row}" for row in missing.elements() if whole]
        told += [f"surplus {row}" for row in surplus.elements()]
        assert not told, "\n".join([f"{self.topic}: {self.name}", self.query, *told])


def _make_comparable(row: Sequence[Any]) -> tuple[Any, ...]:
    """Return a row with numbers and times in one form each; JSON has times as texts."""
    return tuple(map(_compare_value, row))


def _compare_value(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, str) and _TIME.match(value):
        value = datetime.fromisoformat(value)
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


@cache
def read_cases() -> tuple[SqlCase, ...]:
    """Return every case, by the manual whose example it is.

    >>> len(read_cases()) > 100
    True
    """
    found: list[SqlCase] = []
    place = files("tools.cases") / "corpus" / "sql"
    for file in sorted(place.iterdir(), key=lambda entry: entry.name):
        whole = tomllib.loads(file.read_text(encoding="utf-8"))
        tables = {name: _make_table(text) for name, text in whole["tables"].items()}
        topic = file.name.removesuffix(".toml")
        found += [_read_case(topic, entry, tables) for entry in whole["case"]]
    return tuple(found)


def _read_case(topic: str, entry: Mapping[str, str], tables: Mapping[str, pa.Table]) -> SqlCase:
    if unknown := entry.keys() - _KEYS:
        raise ValueError(f"{topic}: {entry.get('name')}: unknown {', '.join(sorted(unknown))}")
    query = entry["query"].strip()
    used = {name: table for name, table in tables.items() if re.search(rf"\b{name}\b", query)}
    columns, rows = _read_rows(entry["answer"]) if "answer" in entry else ((), ())
    return SqlCase(topic, entry["name"], query, used, columns, rows, entry.get("error", ""))


def _make_table(text: str) -> pa.Table:
    names, rows = _read_rows(text)
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows])


def _read_rows(text: str) -> tuple[tuple[str, ...], tuple[tuple[Any, ...], ...]]:
    header, *lines = (_CELL.findall(line) for line in text.strip().splitlines())
    names = tuple(name.strip("'") for name in header)
    return names, tuple(tuple(map(_read_cell, line)) for line in lines)


def _read_cell(cell: str) -> Any:
    """Return the value of a cell.

    >>> [_read_cell(cell) for cell in ("3", "0.5", "A", "'3'", "null", "true")]
    [3, 0.5, 'A', '3', None, True]
    >>> _read_cell("9:05")
    datetime.datetime(2026, 1, 1, 9, 5)
    """
    words = {"null": None, "true": True, "false": False}
    if cell in words:
        return words[cell]
    if cell.startswith("'"):
        return cell.strip("'")
    if clock := _CLOCK.fullmatch(cell):
        hours, minutes, seconds = (int(part or 0) for part in clock.groups())
        return MIDNIGHT + timedelta(hours=hours, minutes=minutes, seconds=seconds)
    for number in (int, float):
        try:
            return number(cell)
        except ValueError:
            continue
    return cell
