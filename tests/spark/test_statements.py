"""Statements with MATCH_RECOGNIZE on Spark, against the oracle."""

from __future__ import annotations

import json
import os
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import cernis
from cernis import spark as cernis_spark
from tools.cases.row_patterns import RowCase, draw_case

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASES = int(os.environ.get("CERNIS_FUZZ_N", "4"))
PRICES = [12, 17, 25, 12, 15, 20, 25, 19, 15, 25, 25, 14, 12, 15]
VEE = """PARTITION BY symbol ORDER BY ts
  MEASURES strt.ts AS first, LAST(up.ts) AS last
  AFTER MATCH SKIP TO LAST up
  PATTERN (strt down+ up+)
  DEFINE down AS price < PREV(price), up AS price > PREV(price)"""


def run(spark: SparkSession, case: RowCase) -> list[tuple[Any, ...]]:
    frame = spark.createDataFrame(
        [tuple(row.values()) for row in case.rows], "g string, t long, x long"
    )
    rows = cernis_spark.sql(spark, case.statement, t=frame).collect()
    return sorted((tuple(row) for row in rows), key=repr)


@pytest.mark.parametrize("dependent", [False, True])
def test_random_statements_return_what_the_standard_says(
    spark: SparkSession, dependent: bool
) -> None:
    """Several of the oracle's cases; those that are mistakes of SKIP TO are left to DuckDB."""
    cases = (draw_case(seed, dependent=dependent) for seed in range(10_000))
    wanted = [case for case in (next(cases) for _ in range(CASES * 4)) if case.expected]
    for case in wanted[:CASES]:
        assert case.expected is not None
        assert run(spark, case) == sorted(case.expected, key=repr), case.statement


def test_a_clause_of_a_data_frame(spark: SparkSession) -> None:
    rows = [("ACME", price, ts, Decimal(price)) for ts, price in enumerate(PRICES)]
    frame = spark.createDataFrame(rows, "symbol string, price int, ts int, exact decimal(10, 2)")
    found = cernis_spark.match_recognize(frame, VEE)
    assert found.columns == ["symbol", "first", "last"]
    assert sorted(tuple(row)[1:] for row in found.collect()) == [(2, 6), (6, 9), (10, 13)]
    frame.createOrReplaceTempView("ticks")
    text = f"WITH v AS (SELECT * FROM ticks MATCH_RECOGNIZE ({VEE})) SELECT count(*) FROM v"
    assert cernis_spark.sql(spark, text).collect()[0][0] == 3


@pytest.mark.parametrize("partition", ["", "PARTITION BY k"])
def test_slices_of_time_have_the_matches_of_the_whole(spark: SparkSession, partition: str) -> None:
    """One of the keys has most rows; conditions and measures look beyond the slices."""
    rows = [("a" if i % 9 else str(i), i + i // 40 * 7, i * 7 % 11 % 5) for i in range(400)]
    clause = f"""{partition} ORDER BY t
      MEASURES MATCH_NUMBER() AS n, FIRST(t) AS first, COUNT(*) AS rows, PREV(FIRST(x), 2) AS p,
        NEXT(LAST(x), 2) AS q
      PATTERN (low up{{1,3}} down*) WITHIN 12
      DEFINE up AS x > PREV(x), down AS x < PREV(x, 2) OR x > NEXT(x)"""
    frame = spark.createDataFrame(rows, "k string, t long, x long")
    found = cernis_spark.match_recognize(frame, clause, tasks=4, sample=1.0)
    names = ("k", "t", "x")
    table = [dict(zip(names, row, strict=True)) for row in rows]
    whole = cernis.sql(f"SELECT * FROM t MATCH_RECOGNIZE ({clause})", t=table)
    expected = [tuple(row.values()) for row in whole]
    assert len(expected) > 40
    assert sorted(map(tuple, found.collect())) == sorted(expected)


def test_mistakes_are_those_of_the_statement(spark: SparkSession) -> None:
    frame = spark.range(3)
    with pytest.raises(cernis.QueryError, match=r"line 1, column 37: unknown column 'ix'"):
        cernis_spark.match_recognize(frame, "ORDER BY id PATTERN (a) DEFINE a AS ix > 1")
    with pytest.raises(cernis.DataError, match="nowhere"):
        cernis_spark.sql(spark, "SELECT * FROM nowhere MATCH_RECOGNIZE (ORDER BY t PATTERN (a))")


def test_a_stream_gives_what_a_batch_gives(spark: SparkSession, tmp_path: Path) -> None:
    """Two micro-batches; the watermark decides what WITHIN leaves open."""
    clause = """PARTITION BY k ORDER BY ts
      MEASURES FIRST(a.v) AS v, COUNT(*) AS n, LAST(ts) AS last
      PATTERN (a b+) WITHIN INTERVAL '10' SECOND
      DEFINE b AS v > PREV(v)"""
    rows = [("x", 0, 1), ("y", 1, 5), ("x", 2, 2), ("x", 3, 3), ("y", 4, 4), ("y", 5, 6)]
    later = [("x", 6, 1), ("x", 7, 2), ("y", 30, 0), ("x", 50, 0), ("y", 50, 0)]
    source, checkpoint = tmp_path / "in", str(tmp_path / "checkpoint")
    source.mkdir()
    for number, piece in enumerate([rows, later]):
        events = ({"k": k, "ts": f"2026-01-01T00:00:{t:02}Z", "v": v} for k, t, v in piece)
        (source / f"{number}.json").write_text("\n".join(map(json.dumps, events)))
        os.utime(source / f"{number}.json", (number + 1, number + 1))  # Spark reads old files first
    schema = "k string, ts timestamp, v int"
    frame = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(source))
    stream = {"checkpoint": checkpoint, "tasks": 2, "ahead": None}
    found = cernis_spark.match_recognize(frame, clause, stream=stream)
    writing = found.writeStream.format("memory").queryName("vees").trigger(availableNow=True)
    writing.option("checkpointLocation", checkpoint).start().awaitTermination()
    told = sorted((row["k"], row["v"], row["n"]) for row in spark.table("vees").collect())
    whole = cernis_spark.match_recognize(spark.read.schema(schema).json(str(source)), clause)
    assert told == [("x", 1, 2), ("x", 1, 3), ("y", 4, 2)]
    assert told == sorted((row["k"], row["v"], row["n"]) for row in whole.collect())
