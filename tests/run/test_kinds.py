"""Text in one stream and numbers in another, in one attribute: each value keeps its kind."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

import cernis
from cernis import DataError
from cernis.languages.ceql import parse
from tools.cases.differential import assert_agrees
from tools.cases.tables import split_by_stream

_TERMS = (
    "b[v] + 1 AS t1",
    "a[v] - b[v] AS t2",
    "SUM(c[v]) AS t3",
    "AVG(c[v]) / 2 AS t4",
    "COUNT(DISTINCT c[v]) AS t5",
    "MAX(c[v]) - 1 AS t6",
    "FIRST(c[v]) + LAST(c[v]) AS t7",
    "COUNT(c[v]) AS t8",
)
_CONDITIONS = (
    "a[v] != b[v]",
    "c[v] != a[v]",
    "a[v] = b[v]",
    "a[v] < b[v]",
    "a[v] + 1 > b[v]",
    "2 * b[v] != LAST(c[v])",
    "SUM(c[v]) > 2",
    "MIN(c[v]) != b[v]",
    "c INCREASING BY v",
    "COUNT(DISTINCT c[v]) > 1",
    "b[v != 2]",
    "c[v > 1 OR v = 'x']",
)
_ENDS = ("", " WITHIN 4 EVENTS", " PARTITION BY [k]", " UNLESS (A AS d FILTER d[v] != b[v])")


def make_case(seed: int) -> tuple[str, list[dict[str, Any]]]:
    """Return a random query over two streams, and events of both, in order."""
    pick = random.Random(seed)
    terms = ", ".join(pick.sample(_TERMS, 2))
    conditions = " AND ".join(pick.sample(_CONDITIONS, pick.randrange(1, 3)))
    end, link = pick.choice(_ENDS), pick.choice([";", ":"])
    formula = f"(A AS a ; B+ AS c {link} B AS b)"
    if "UNLESS" in end:
        formula, end = f"({formula}{end})", ""
    text = f"SELECT a, b, c, {terms} FROM N, T WHERE {formula} FILTER {conditions}{end}"
    events = []
    for at in range(pick.randrange(4, 9)):
        stream = pick.choice("NT")
        values = (1, 2, 3, None) if stream == "N" else ("1", "2", "x", None)
        key = pick.choice((1, 2))
        own = {"type": pick.choice("ABB"), "ts": at, "v": pick.choice(values), "k": key}
        events.append({**own, "_stream": stream})
    return text, events


def make_tables(events: list[dict[str, Any]]) -> dict[str, pa.Table]:
    """Return the events of each stream as a table."""
    apart = split_by_stream(events)[1]
    columns = {"type": pa.string(), "ts": pa.int64(), "v": pa.string(), "k": pa.int64()}
    schemas = {"N": pa.schema({**columns, "v": pa.int64()}), "T": pa.schema(columns)}
    return {
        name: pa.Table.from_pylist(apart.get(name, []), schema) for name, schema in schemas.items()
    }


@pytest.mark.parametrize("first", range(0, 120, 20))
def test_values_of_two_kinds_agree_with_the_oracle(first: int) -> None:
    for seed in range(first, first + 20):
        text, events = make_case(seed)
        found = list(cernis.query(text).run(make_tables(events)))
        assert_agrees(parse(text), split_by_stream(events)[0], found)


NUMBERS = pa.table({"type": ["A", "B", "B"], "ts": [1, 2, 4], "v": [3, 3, 5]})
TEXTS = pa.table({"type": ["A", "B", "B"], "ts": [0, 3, 5], "v": ["3", "y", "3"]})
BOTH = {"N": NUMBERS, "T": TEXTS}


def test_the_type_of_a_column_does_not_depend_on_the_matches() -> None:
    query = cernis.query("SELECT b[v] + 1 AS n, b[v] FROM N, T WHERE A AS a ; B AS b")
    table = query.run(BOTH).to_arrow()
    assert table["n"].to_pylist() == [4, 4, None, None, 6, 6, None, None]
    assert table["b[v]"].to_pylist() == ["3", "3", "y", "y", "5", "5", "3", "3"]
    types = [query.run({**BOTH, "N": NUMBERS[:1]}).to_arrow().schema.field("n").type]
    types += [query.run({**BOTH, "T": TEXTS[:0]}).to_arrow().schema.field("n").type]
    assert types == [pa.int64()] * 2


def test_values_of_different_kinds_do_not_differ() -> None:
    text = "SELECT a, b FROM N, T WHERE (A AS a ; B AS b) FILTER a[v] != b[v]"
    found = [(match.start_ts, match.end_ts) for match in cernis.query(text).run(BOTH)]
    assert found == [(0, 3), (1, 4)]


def test_groups_say_that_they_add_up_values_of_one_kind() -> None:
    query = cernis.query("SELECT MAX(b[v]) AS most FROM N, T WHERE A AS a ; B AS b GROUP BY END")
    with pytest.raises(DataError, match="GROUP BY aggregates values of one type"):
        list(query.run(BOTH))


def test_a_sum_of_numbers_that_no_double_holds_keeps_its_matches() -> None:
    events = pa.table({"type": ["A", "B", "B"], "v": [0, 2**60 + 1, 1]})
    text = "SELECT a, c WHERE (A AS a ; B+ AS c : B AS b) FILTER SUM(c[v]) > 5"
    assert len(list(cernis.query(text).run(events))) == 1


def test_bytes_and_numbers_are_neither_equal_nor_different() -> None:
    events = pa.table({"type": ["A", "B"], "x": [b"u", b"v"], "y": [1, 2]})
    text = "SELECT * WHERE (A AS a ; B AS b) FILTER a[x] {} b[{}]"
    counts = [cernis.query(text.format(op, "y")).run(events).count() for op in ("=", "!=")]
    assert counts == [0, 0]
    assert cernis.query(text.format("!=", "x")).run(events).count() == 1
