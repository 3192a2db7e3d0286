"""Rows that can be part of no match are dropped, and no match is won or lost by it."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cernis
from cernis.errors import CernisError
from cernis.plan.rows.matcher import ROW
from cernis.plan.rows.write import QueryWriter
from cernis.run.rows.feed import RowFeed
from tools.cases.row_patterns import draw_case

SCHEMA = pa.schema({"g": pa.string(), "t": pa.int64(), "x": pa.int64()})


@pytest.fixture(scope="module")
def database() -> Any:
    with duckdb.connect() as connection:
        yield connection


def read_rows(database: Any, plan: Any, rows: pa.Table) -> tuple[pa.Table, pa.Table | None]:
    """Return the rows of a clause with their masks: all, and the possible ones."""
    writer = QueryWriter(plan, "duckdb", tuple(rows.schema.names))
    database.register("given", rows)
    numbered = f'(SELECT *, row_number() OVER (ORDER BY g, t) AS "{ROW}" FROM given)'
    text = f"({writer.write_rows(numbered)})"
    whole = database.sql(f'SELECT * FROM {text} ORDER BY "{ROW}"').to_arrow_table()
    if (possible := writer.write_possible()) is None:
        return whole, None
    text = f"(SELECT *, {possible} AS possible FROM {text})"
    kept = database.sql(f'SELECT * FROM {text} WHERE possible ORDER BY "{ROW}"')
    return whole, kept.to_arrow_table()


def find(plan: Any, rows: pa.Table) -> Any:
    try:
        found = RowFeed(plan.matcher).match(rows)
    except CernisError as error:
        return str(error)
    ids = np.asarray(rows.column(ROW))
    told = {**found._asdict(), "rows": ids[found.rows], "starts": ids[found.starts]}
    return {name: values.tolist() for name, values in told.items()}


@pytest.mark.parametrize("dependent", [False, True])
@given(seed=st.integers(0, 10**9))
@settings(max_examples=settings.default.max_examples // 2)
def test_dropping_rows_changes_no_match(database: Any, dependent: bool, seed: int) -> None:
    case = draw_case(seed, dependent=dependent)
    [plan] = cernis.SqlQuery(case.statement).plans
    whole, kept = read_rows(database, plan, pa.Table.from_pylist(case.rows, SCHEMA))
    if kept is not None:
        assert find(plan, kept) == find(plan, whole)


@pytest.mark.parametrize(
    ("pattern", "kept"),
    [
        ("low high", [3, 4, 8, 9]),
        ("low high low", [3, 4, 5, 8]),
        ("high+", [4, 9]),
        ("low low high", None),
        ("low* high", None),
        ("^ high", None),
        ("high?", None),
    ],
)
def test_rows_beside_none_that_they_need_are_dropped(
    database: Any, pattern: str, kept: list[int] | None
) -> None:
    """`low` has no condition, so every row fits it."""
    text = f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY t PATTERN ({pattern}) DEFINE high AS x > 5)"
    [plan] = cernis.SqlQuery(text).plans
    rows = [{"g": "a", "t": t, "x": 9 if t in (4, 9) else 1} for t in range(10)]
    whole, found = read_rows(database, plan, pa.Table.from_pylist(rows, SCHEMA))
    assert whole.num_rows == 10
    assert (None if found is None else found.column("t").to_pylist()) == kept
