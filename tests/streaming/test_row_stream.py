"""MATCH_RECOGNIZE on a stream finds what a batch finds, however rows come; without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cernis
from cernis.work.bucket import Bucket, BucketWork, restore_bucket
from cernis.work.carriers import write_blob
from cernis.work.row_stream import RowStreamWork, check_around, check_stream_clause
from tools.cases.row_patterns import draw_stream_case
from tools.cases.sql import SqlCase, read_cases
from tools.cases.state_store import MemoryStore


def list_streamed() -> list[SqlCase]:
    """Return the cases of the corpus that one process can run on a stream."""
    found = []
    for case in read_cases():
        with suppress(cernis.QueryError):
            query = cernis.SqlQuery(case.query, case.dialect)
            check_around(query)
            check_stream_clause(query.plans[0])
            found += [case] if not case.error else []
    return found


SCHEMA = pa.schema([("g", pa.string()), ("t", pa.timestamp("us")), ("x", pa.int64())])


def make_work(text: str) -> RowStreamWork:
    [plan] = cernis.SqlQuery(text).plans
    time = check_stream_clause(plan)
    return RowStreamWork(text=text, dialect="duckdb", number=0, columns=("g", "t", "x"), time=time)


def run(
    work: RowStreamWork, pieces: list[list[dict[str, Any]]], *, ends: bool = False
) -> list[Any]:
    """Return what a bucket reports of rows whose times are seconds: see `report`."""
    tables = [
        pa.Table.from_pylist([{**row, "t": row["t"] * 10**6} for row in piece], SCHEMA)
        for piece in pieces
    ]
    return [tuple(_plain(value) for value in row.values()) for row in report(work, tables, ends)]


def report(
    work: RowStreamWork, tables: list[pa.Table], ends: bool, *, after: int = 2
) -> list[dict[str, Any]]:
    """Return what a bucket reports: each table is a micro-batch, after which the worker is lost.

    `ends`: no row comes any more. `after`: how many micro-batches without rows follow, of which
    each but the first comes a thousand seconds after the one before.
    """
    stream = BucketWork(work=work, query="q", buckets=(0,), numbered=False, window=None)
    store, found = MemoryStore(), []
    watermark: int | None = None
    for table in [*tables, *[None] * after]:
        blobs = [write_blob(table)] if table else []
        bucket: Bucket = restore_bucket(stream, 0, store, None)
        for batch in bucket.take(store, blobs, watermark, lambda old, new: None):
            found += pa.Table.from_batches([batch]).to_pylist()
        bucket._write_snapshot(store)
        bucket._close(store, lambda old, new: None)
        last = (watermark or 0) + 10**6
        if table:
            last = pc.max(table.column(work.time).cast(pa.int64())).as_py() // 1000
        watermark = max(watermark or 0, last)
    if ends:
        for batch in restore_bucket(stream, 0, store, None).recognizer.finish():
            found += pa.Table.from_batches([batch]).to_pylist()
    return found


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, Decimal) else value


def cut(rows: list[dict[str, Any]], chance: Random) -> Iterator[list[dict[str, Any]]]:
    ordered = sorted(rows, key=lambda row: row["t"])
    while ordered:
        size = chance.randrange(1, 4)
        yield ordered[:size]
        ordered = ordered[size:]


@given(seed=st.integers(0, 10**9))
@settings(max_examples=settings.default.max_examples // 4)
def test_a_stream_reports_what_a_batch_finds(seed: int) -> None:
    case = draw_stream_case(seed)
    assert case.expected is not None
    text = case.statement
    pieces = list(cut(case.rows, Random(seed)))
    found = run(make_work(text), pieces)
    whole = run(make_work(text), [[row for piece in pieces for row in piece]])
    assert sorted(found, key=repr) == sorted(whole, key=repr)
    every = run(make_work(text), pieces, ends=True)
    assert sorted(every, key=repr) == sorted(case.expected, key=repr)
    if "WITHIN" in text:
        assert sorted(found, key=repr) == sorted(case.expected, key=repr)
    else:  # what rows to come could change is not reported
        for key in "ab":
            own = [row for row in found if row[0] == key]
            assert own == [row for row in case.expected if row[0] == key][: len(own)]


@pytest.mark.parametrize(
    ("clause", "message"),
    [
        ("ORDER BY x DESC PATTERN (a)", "ORDER BY is the column of event time, ascending"),
        ("ORDER BY t ALL ROWS PER MATCH PATTERN (a)", "ONE ROW PER MATCH"),
        ("ORDER BY t PATTERN (a $)", "no partition ends"),
        ("ORDER BY t PATTERN (a) DEFINE a AS NEXT(x) > 1", "NEXT looks at rows"),
    ],
)
def test_what_a_stream_cannot_decide_is_refused(clause: str, message: str) -> None:
    with pytest.raises(cernis.QueryError, match=message):
        make_work(f"SELECT * FROM t MATCH_RECOGNIZE ({clause})")


@given(seed=st.integers(0, 10**9))
@settings(max_examples=settings.default.max_examples // 8)
def test_a_worker_that_lives_on_reports_the_same(seed: int) -> None:
    """Only the partitions of new rows, and those whose time has come, are looked at."""
    case = draw_stream_case(seed)
    work = make_work(case.statement)
    pieces = list(cut(case.rows, Random(seed)))
    stream = BucketWork(work=work, query="q", buckets=(0,), numbered=False, window=None)
    store, found = MemoryStore(), []
    bucket: Bucket | None = None
    watermark: int | None = None
    for piece in [*pieces, [], []]:
        table = pa.Table.from_pylist([{**row, "t": row["t"] * 10**6} for row in piece], SCHEMA)
        bucket = restore_bucket(stream, 0, store, bucket)
        blobs = [write_blob(table)] if piece else []
        for batch in bucket.take(store, blobs, watermark, lambda old, new: None):
            found += pa.Table.from_batches([batch]).to_pylist()
        last = max(row["t"] for row in piece) * 1000 + 1 if piece else (watermark or 0) + 10**6
        watermark = max(watermark or 0, last)
    plain = [tuple(_plain(value) for value in row.values()) for row in found]
    assert sorted(plain, key=repr) == sorted(run(work, pieces), key=repr)


def make_case_work(case: SqlCase) -> RowStreamWork:
    """Return the work of a case of the corpus that has one clause over a table."""
    [plan] = cernis.SqlQuery(case.query, case.dialect).plans
    [table] = case.tables.values()
    return RowStreamWork(
        text=case.query,
        dialect=case.dialect,
        number=0,
        columns=tuple(table.column_names),
        time=check_stream_clause(plan),
        around=True,
    )


@pytest.mark.parametrize("case", list_streamed(), ids=lambda case: f"{case.topic}: {case.name}")
def test_a_stream_gives_the_rows_of_the_corpus(case: SqlCase) -> None:
    work = make_case_work(case)
    [table] = case.tables.values()
    table = table.sort_by(work.time)
    pieces = [table.slice(at, 4) for at in range(0, table.num_rows, 4)]
    case.check(report(work, pieces, True))
