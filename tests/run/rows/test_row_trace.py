"""Why some rows are no match of a MATCH_RECOGNIZE clause, against the oracle."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("duckdb")
pytest.importorskip("sqlglot")

import cernis
from cernis.languages.sql.host_errors import explain_host_error
from cernis.testing.row_patterns import list_words, make_rows
from tools.cases.row_patterns import draw_case

SCHEMA = pa.schema({"g": pa.string(), "t": pa.int64(), "x": pa.int64()})
PRICES = (12, 17, 25, 12, 15, 20, 25, 19, 15, 25, 25, 14)
CHOICES = ("AFTER MATCH SKIP", "WITHIN")


@given(seed=st.integers(0, 10**9), dependent=st.booleans())
@settings(max_examples=settings.default.max_examples // 8)
def test_rows_can_be_read_as_the_pattern_exactly_where_the_oracle_reads_them(
    seed: int, dependent: bool
) -> None:
    case = draw_case(seed, dependent=dependent)
    if case.expected is None or "<= MATCH_NUMBER()" in case.statement:
        return  # the number depends on the search
    trace = cernis.SqlQuery(case.statement).trace({"t": pa.Table.from_pylist(case.rows, SCHEMA)})
    for key in sorted({row["g"] for row in case.rows}):
        partition = sorted((row for row in case.rows if row["g"] == key), key=lambda row: row["t"])
        numbers = [case.rows.index(row) for row in partition]

        def fits(
            start: int, names: tuple[str, ...], number: int, partition: Any = partition
        ) -> bool:
            return case.fits(partition, start, names, number)

        for first in range(len(partition) - 1):
            rows = make_rows(first, len(partition), fits)
            ends = {first + len(word) for word in list_words(case.pattern, rows)}
            for last in range(first + 1, len(partition)):
                found = trace.why([numbers[first], numbers[last]])
                told = "; ".join(f"{step.condition}: {step.reason}" for step in found.steps)
                chosen = "is preferred" in told or told.lstrip("; :").startswith(CHOICES)
                if not found.matches:
                    assert chosen == (last + 1 in ends), (case.statement, found)


def trace_prices(pattern: str) -> Any:
    rows = [{"ts": i, "price": price} for i, price in enumerate(PRICES)]
    text = f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts {pattern})"
    return cernis.SqlQuery(text).trace({"t": pa.Table.from_pylist(rows)})


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([0, 1], "DOWN AS price < PREV(price): row 1 does not fit: price = 17, PREV(price) = 12"),
        ([0], "DOWN AS price < PREV(price): row 1 does not fit: price = 17, PREV(price) = 12"),
        ([2, 3], "a match has row 2 to row 6"),
        ([6, 9], "AFTER MATCH SKIP PAST LAST ROW: row 2 to row 6 are a match, and the search"),
        ([10, 11], "it is not complete after row 11: it still needs DOWN or UP"),
        ([10], "it still needs DOWN or UP, and no row of the partition follows"),
    ],
)
def test_what_is_said_of_rows(rows: list[int], told: str) -> None:
    trace = trace_prices(
        "PATTERN (strt down+ up+) DEFINE down AS price < PREV(price), up AS price > PREV(price)"
    )
    assert told in str(trace.why(rows))


def test_conditions_on_other_rows_show_what_they_see() -> None:
    trace = trace_prices(
        "PATTERN (a b+ c) DEFINE b AS price < a.price, c AS price > FIRST(b.price)"
    )
    assert (
        str(trace.why([1, 2]))
        == "B AS price < a.price: row 2 does not fit: price = 25, A.price = 17"
    )
    late = trace_prices("PATTERN (a+ b) WITHIN 3 DEFINE b AS price = 25")
    assert str(late.why([2, 6])) == "WITHIN 3: row 6 is too late for a match from row 2 on"


def test_the_host_is_quoted_with_the_place_of_what_it_names() -> None:
    with pytest.raises(cernis.QueryError, match="line 1, column 8: scalar Function with name frob"):
        cernis.sql("SELECT frob(x) FROM t", t=[{"x": 1}])
    with pytest.raises(cernis.QueryError, match="column 48: no function matches"):
        cernis.sql(
            "SELECT * FROM t MATCH_RECOGNIZE (MEASURES LAST(strlen(x)) AS x PATTERN (a))",
            t=[{"x": 1}],
        )
    spark = (
        "[UNRESOLVED_ROUTINE] Cannot resolve routine `frob` on search path [`system`.`builtin`]."
    )
    assert "column 8: cannot resolve routine" in str(explain_host_error(spark, "SELECT frob(x)"))
    assert isinstance(explain_host_error("Conversion Error: no", "SELECT x"), cernis.DataError)
