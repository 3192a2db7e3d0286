"""A task finds in chunks of rows what it finds in whole partitions; without Spark."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import cernis
from cernis.plan.rows.matcher import ROW
from cernis.run.rows.statement import DuckClause
from cernis.work import row_patterns
from cernis.work.row_patterns import PartitionWork
from tools.cases.row_patterns import draw_case

SCHEMA = pa.schema({"g": pa.string(), "t": pa.int64(), "x": pa.int64()})


def run(work: PartitionWork, pieces: list[pa.Table], chunk: int) -> list[Any]:
    """Return the rows of matches; so many rows are matched at once."""
    before, row_patterns._CHUNK = row_patterns._CHUNK, chunk
    try:
        recognizer = work.open()
        batches = [batch for piece in pieces for batch in recognizer.take(piece)]
        batches += recognizer.finish()
    finally:
        row_patterns._CHUNK = before
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


@given(seed=st.integers(0, 10**9))
@settings(max_examples=settings.default.max_examples // 2)
def test_chunks_give_what_whole_partitions_give(seed: int) -> None:
    chance = Random(seed)
    case = draw_case(seed, dependent=bool(seed % 2))
    if case.expected is None:
        return
    [plan] = cernis.SqlQuery(case.statement).plans
    with duckdb.connect() as cursor:
        cursor.register("t", pa.Table.from_pylist(case.rows, SCHEMA))
        clause = DuckClause(cursor, plan, ("g", "t", "x"))
        numbered = f'(SELECT *, row_number() OVER () AS "{ROW}" FROM t)'
        table = clause.hold_rows(numbered, also=["g", "t"])
    work = PartitionWork(matcher=plan.matcher, kept=("g", "t"))
    whole = run(work, [table], 1 << 17)
    cuts = sorted(chance.choices(range(table.num_rows + 1), k=4))
    bounds = [0, *cuts, table.num_rows]
    pieces = [table.slice(a, b - a) for a, b in pairwise(bounds) if b > a]
    assert run(work, pieces, chance.randrange(1, 5)) == whole
