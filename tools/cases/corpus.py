"""The corpus: queries with their events and the answers worked out by hand.

Every executor must give these answers. The cases stand in `corpus/*.toml`, one file per
topic, and name nothing of the engine, so that any implementation can read them:

* `query`: CEQL text, or with `lang = "cq"` the text of a conjunctive query, whose
  variables are the atoms by their index.
* `events`: on one line, a type per event; on several, a table with a header. In a table
  `-` is a key that is missing, `null` is NULL, `10:02` is that time in milliseconds,
  and quotes make a string of anything.
* `matches`: one a line, `start..end variable=rows … @key,…`, in row numbers. With
  `per_end = n` (LIMIT and ANY) these are the ones to choose from, n for every end.
* `counts`: [row of the end, number of matches], in time order.
* `values`: the values for each of the matches.
* `tables`: the tables of JOIN by name, each written as events are.
* `suppressed`: for a query with SUPPRESS BY, the number silenced before each of the matches.
* `groups`: for a query with GROUP BY, one a line, `when name=value … @component,…`, where
  `when` is `from..to` of EVERY, the row of END, or `-`.
* `answers`: for a conjunctive query whose head drops variables, `row variable=value …`
  for each distinct tuple, with the row at which it first appears, in that order.

`Case.check` compares an answer with these; `tools.cases.differential` compares with
the oracle.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from cernis.languages import ceql, conjunctive
from cernis.pattern.query import Pattern
from cernis.testing.oracle import OracleMatch
from tools.cases.differential import (
    MatchLike,
    MatchTriple,
    comparable_match,
    find_wrong_ends,
    write_table,
    write_value,
)

_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?")
_GROUP = re.compile(r"(?:(\S+)\.\.(\S+)|(\d+)|-)((?:\s+[^\s@]+=\S+)*)(?:\s+@(.*))?")
_MATCH = re.compile(r"(\d+)\.\.(\d+)((?:\s+[^\s@]+=[\d,]+)*)(?:\s+@(.*))?")
_CELL = re.compile(r"'[^']*'|\S+")


class CorpusGroup(NamedTuple):
    """A group of matches: its interval or its end, its components of the partition, its values."""

    when: tuple[Any, ...]
    partition: tuple[Any, ...]
    values: Mapping[str, Any]

    @classmethod
    def of(cls, when: Iterable[Any], partition: Mapping[str, Any], values: Any) -> CorpusGroup:
        """Return a group as executors have it."""
        return cls(tuple(when), tuple(partition.values()), values)


@dataclass(frozen=True, slots=True)
class CorpusCase:
    """A query, its events, and its expected answer."""

    topic: str
    name: str
    query: str
    events: tuple[Mapping[str, Any], ...]
    matches: tuple[OracleMatch, ...] | None = None
    per_end: int | None = None
    counts: tuple[tuple[int, int], ...] | None = None
    values: tuple[tuple[Any, ...], ...] | None = None
    note: str = ""
    lang: str = "ceql"
    answers: tuple[tuple[int, Mapping[str, Any]], ...] | None = None
    groups: tuple[CorpusGroup, ...] | None = None
    suppressed: tuple[int, ...] | None = None
    tables: Mapping[str, tuple[Mapping[str, Any], ...]] = field(default_factory=dict)

    def pattern(self) -> Pattern:
        """Parse the query in its language."""
        if self.lang == "cq":
            return conjunctive.lower(conjunctive.parse(self.query))
        return ceql.parse(self.query)

    def check(self, got: Iterable[MatchLike | MatchTriple]) -> None:
        """Raise unless these are the matches (or, with `per_end`, a right choice)."""
        found = Counter(map(comparable_match, got))
        allowed = Counter(map(comparable_match, self.matches or ()))
        missing = sorted((allowed - found).elements()) if self.per_end is None else []
        surplus = sorted((found - allowed).elements())
        lines = [f"missing {each}" for each in missing] + [f"surplus {each}" for each in surplus]
        if self.per_end is not None:
            lines += find_wrong_ends(allowed.elements(), found.elements(), self.per_end)
        if lines:
            head = f"{self.topic}: {self.name}\n{self.query}\n\n{write_table(self.events)}\n"
            raise AssertionError("\n".join([head, *lines]))

    def check_values(self, got: Iterable[tuple[MatchLike | MatchTriple, tuple[Any, ...]]]) -> None:
        """Raise unless each match has its values."""
        assert self.matches is not None
        assert self.values is not None
        expected = zip(map(comparable_match, self.matches), self.values, strict=True)
        found = [(comparable_match(match), values) for match, values in got]
        assert Counter(found) == Counter(expected), (self.topic, self.name)

    def check_suppressed(self, got: Iterable[tuple[MatchLike | MatchTriple, int | None]]) -> None:
        """Raise unless each match has the number of matches that were silenced before it."""
        assert self.suppressed is not None
        expected = zip(map(comparable_match, self.matches or ()), self.suppressed, strict=True)
        found = [(comparable_match(match), number) for match, number in got]
        assert Counter(found) == Counter(expected), (self.topic, self.name)

    def check_groups(self, got: Iterable[CorpusGroup]) -> None:
        """Raise unless these are the groups, in any order."""
        found, expected = (sorted(map(_write_group, groups)) for groups in (got, self.groups or ()))
        assert found == expected, f"{self.topic}: {self.name}\n{self.query}\n{found}\n{expected}"


@cache
def read_cases() -> tuple[CorpusCase, ...]:
    """Return every case of the corpus, by topic.

    >>> len(read_cases()) > 60
    True
    """
    keys = {each.name for each in fields(CorpusCase)} - {"topic"}
    return tuple(_read_case(topic, entry) for topic, entry in read_case_files("corpus", keys))


def read_case_files(folder: str, keys: Collection[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the entries of a folder's files, each with its topic: the name of its file."""
    place = files("tools.cases") / folder
    for file in sorted(place.iterdir(), key=lambda entry: entry.name):
        if not file.name.endswith(".toml"):
            continue
        topic = file.name.removesuffix(".toml")
        for entry in tomllib.loads(file.read_text(encoding="utf-8"))["case"]:
            if unknown := entry.keys() - set(keys):
                name, words = entry.get("name"), ", ".join(sorted(unknown))
                raise ValueError(f"{topic}: {name}: unknown {words}")
            yield topic, entry


def _read_case(topic: str, entry: Mapping[str, Any]) -> CorpusCase:
    return CorpusCase(
        topic=topic,
        name=entry["name"],
        query=entry["query"].strip(),
        events=_read_events(entry["events"]),
        matches=tuple(map(_read_match, entry["matches"])) if "matches" in entry else None,
        per_end=entry.get("per_end"),
        counts=tuple(map(tuple, entry["counts"])) if "counts" in entry else None,
        values=tuple(map(_read_values, entry["values"])) if "values" in entry else None,
        note=entry.get("note", ""),
        lang=entry.get("lang", "ceql"),
        answers=tuple(map(_read_answer, entry["answers"])) if "answers" in entry else None,
        groups=tuple(map(_read_group, entry["groups"])) if "groups" in entry else None,
        suppressed=tuple(entry["suppressed"]) if "suppressed" in entry else None,
        tables={name: _read_events(text) for name, text in entry.get("tables", {}).items()},
    )


def _read_events(text: str) -> tuple[Mapping[str, Any], ...]:
    if "\n" not in text:
        return tuple({"type": name} for name in text.split())
    header, *lines = (_CELL.findall(line) for line in text.strip().splitlines())
    return tuple(
        {name: _read_value(cell) for name, cell in zip(header, line, strict=True) if cell != "-"}
        for line in lines
    )


def _read_value(cell: str) -> Any:
    """Return the value of a cell.

    >>> [_read_value(cell) for cell in ("3", "0.5", "MSFT", "'3'", "null", "true", "0:01")]
    [3, 0.5, 'MSFT', '3', None, True, 60000]
    """
    words = {"null": None, "true": True, "false": False}
    if cell in words:
        return words[cell]
    if cell.startswith("'"):
        return cell.strip("'")
    if clock := _CLOCK.fullmatch(cell):
        hours, minutes, seconds = (int(part or 0) for part in clock.groups())
        return ((hours * 60 + minutes) * 60 + seconds) * 1000
    for number in (int, float):
        try:
            return number(cell)
        except ValueError:
            continue
    return cell


def _read_values(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(None if value == "null" else value for value in values)


def _read_answer(text: str) -> tuple[int, Mapping[str, Any]]:
    """Return the row and the values of an answer.

    >>> _read_answer("4 y=9 z=null")
    (4, {'y': 9, 'z': None})
    """
    row, *values = text.split()
    return int(row), {
        name: _read_value(cell) for name, cell in (word.split("=") for word in values)
    }


def _read_group(text: str) -> CorpusGroup:
    """Return a group.

    >>> _read_group("0:00..0:01 n=2 s=null @u,3")
    CorpusGroup(when=(0, 60000), partition=('u', 3), values={'n': 2, 's': None})
    """
    parts = _GROUP.fullmatch(text)
    if not parts:
        raise ValueError(f"not a group: {text}")
    *when, values, key = parts.groups()
    return CorpusGroup(
        tuple(_read_value(part) for part in when if part),
        tuple(map(_read_value, key.split(","))) if key else (),
        {name: _read_value(cell) for name, cell in (word.split("=") for word in values.split())},
    )


def _write_group(group: CorpusGroup) -> str:
    """Write a group such that equal numbers are equal texts."""
    when, partition, values = group
    held = [f"{name}={write_value(value)}" for name, value in values.items()]
    return " ".join([*map(write_value, when), *held, *map(write_value, partition)])


def _read_match(text: str) -> OracleMatch:
    parts = _MATCH.fullmatch(text)
    if not parts:
        raise ValueError(f"not a match: {text}")
    start, end, held, key = parts.groups()
    pairs = (word.split("=") for word in held.split())
    return OracleMatch(
        int(start),
        int(end),
        {x: tuple(map(int, rows.split(","))) for x, rows in pairs},
        tuple(map(_read_value, key.split(","))) if key else (),
    )
