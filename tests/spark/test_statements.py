"""Statements with MATCH_RECOGNIZE on Spark, against the oracle."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from decimal import Decimal
from functools import reduce
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

import cernis
from cernis import spark as cernis_spark
from tools.cases.row_patterns import RowCase, draw_case
from tools.cases.sql import SqlCase, read_cases

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROUNDS = max(1, int(os.environ.get("CERNIS_FUZZ_N", "1")) // 100)
"""How many jobs the random tests run; one has many cases."""
PRICES = [12, 17, 25, 12, 15, 20, 25, 19, 15, 25, 25, 14, 12, 15]
VEE = """PARTITION BY symbol ORDER BY ts
  MEASURES strt.ts AS first, LAST(up.ts) AS last
  AFTER MATCH SKIP TO LAST up
  PATTERN (strt down+ up+)
  DEFINE down AS price < PREV(price), up AS price > PREV(price)"""


def unite(frames: Iterable[Any]) -> Any:
    """Return the rows of several results as lines of JSON, with the number of the result."""
    lines = [
        frame.select(
            F.lit(number).alias("case"),
            F.to_json(F.struct("*"), {"ignoreNullFields": "false"}).alias("line"),
        )
        for number, frame in enumerate(frames)
    ]
    return reduce(lambda one, other: one.unionAll(other), lines)


def assert_expected(cases: Sequence[RowCase], rows: Iterable[Any]) -> None:
    """Check the rows of cases that ran together."""
    found: dict[int, list[tuple[Any, ...]]] = {number: [] for number in range(len(cases))}
    for row in rows:
        found[row["case"]].append(tuple(json.loads(row["line"]).values()))
    for number, case in enumerate(cases):
        assert case.expected is not None
        assert sorted(found[number], key=repr) == sorted(case.expected, key=repr), case.statement


@pytest.mark.parametrize("first", range(0, 10_000 * ROUNDS, 10_000))
def test_random_statements_return_what_the_standard_says(spark: SparkSession, first: int) -> None:
    """Cases of the oracle in one job; those that are mistakes of SKIP TO are left to DuckDB."""
    drawn = (draw_case(seed, dependent=bool(seed % 2)) for seed in range(first, first + 10_000))
    cases = [*islice((case for case in drawn if case.expected), 10)]
    frames = [
        cernis_spark.sql(
            spark,
            case.statement,
            t=spark.createDataFrame(
                [tuple(row.values()) for row in case.rows], "g string, t long, x long"
            ),
        )
        for case in cases
    ]
    assert_expected(cases, unite(frames).collect())


CASES = [case for case in read_cases() if not case.error]
AT_ONCE = 10


@pytest.mark.parametrize(
    "chosen",
    [
        CASES[::12],
        *(
            pytest.param(CASES[first : first + AT_ONCE], marks=pytest.mark.fuzz)
            for first in range(0, len(CASES), AT_ONCE)
        ),
    ],
    ids=lambda chosen: chosen[0].name,
)
def test_cases_of_the_corpus_have_the_rows_worked_out_by_hand(
    spark: SparkSession, chosen: Sequence[SqlCase]
) -> None:
    frames = []
    for case in chosen:
        tables = {name: spark.createDataFrame(table) for name, table in case.tables.items()}
        dialect = "spark" if case.topic == "standard" else case.dialect
        frames.append(cernis_spark.sql(spark, case.query, tables, dialect=dialect))
    found: list[list[Any]] = [[] for _ in chosen]
    for row in unite(frames).collect():
        found[row["case"]].append(json.loads(row["line"]))
    for case, rows in zip(chosen, found, strict=True):
        case.check(rows)


def test_a_clause_of_a_data_frame(spark: SparkSession) -> None:
    rows = [("ACME", price, ts, Decimal(price)) for ts, price in enumerate(PRICES)]
    frame = spark.createDataFrame(rows, "symbol string, price int, ts int, exact decimal(10, 2)")
    found = cernis_spark.match_recognize(frame, VEE)
    assert found.columns == ["symbol", "first", "last"]
    assert sorted(tuple(row)[1:] for row in found.collect()) == [(2, 6), (6, 9), (10, 13)]
    frame.createOrReplaceTempView("ticks")
    text = f"WITH v AS (SELECT * FROM ticks MATCH_RECOGNIZE ({VEE})) SELECT count(*) FROM v"
    assert cernis_spark.sql(spark, text).collect()[0][0] == 3


def test_whole_numbers_are_divided_as_in_trino(spark: SparkSession) -> None:
    """In DEFINE, by Spark and by the matcher, in MEASURES, and around the clause."""
    text = """SELECT m.n, m.q / 2 AS q, m.f / 2 AS f FROM t MATCH_RECOGNIZE (ORDER BY ts
      MEASURES COUNT(*) AS n, SUM(x) AS q, LAST(f) AS f PATTERN (a b*)
      DEFINE a AS x / 2 = 1, b AS SUM(x) / COUNT(*) = 3 AND SUM(f) / COUNT(*) = 3.5) m"""
    frame = spark.createDataFrame([(0, 3, 3.0), (1, 4, 4.0)], "ts int, x int, f double")
    found = cernis_spark.sql(spark, text, t=frame, dialect="trino").collect()
    assert [tuple(row) for row in found] == [(2, 3.0, 2.0)]


def test_lists_and_joined_texts_have_the_order_of_the_rows(spark: SparkSession) -> None:
    """A task of Spark hashes 128 lists, then sorts: it collects one match in two parts."""
    clause = """ORDER BY t MEASURES {measures} {rows} PATTERN (a b{{6}}) SUBSET u = (a, b)"""
    known = "FIRST(t) AS t, list(u.x) AS l, string_agg(t, ',') AS s, list(b.x) AS b"
    frame = spark.range(2000).selectExpr(
        "id AS t", "if(id % 5 = 0, null, id) AS x", "map('x', id) AS m"
    )
    table = [{"t": t, "x": None if t % 5 == 0 else t} for t in range(2000)]

    def compare(measures: str, rows: str) -> None:
        text = f"SELECT * FROM t MATCH_RECOGNIZE ({clause.format(measures=measures, rows=rows)})"
        found = cernis_spark.sql(spark, text, t=frame.drop("m"), dialect="duckdb").collect()
        whole = cernis.sql(text, t=table)
        expected = [tuple(row.values()) for row in whole]
        assert len(expected) >= 285
        assert sorted((tuple(row) for row in found), key=repr) == sorted(expected, key=repr)

    compare(known, "")
    compare("list(u.x) AS l, string_agg(b.x, ',') AS s, FINAL list(x) AS f", "ALL ROWS PER MATCH")
    text = clause.format(measures="collect_list(x) AS l, array_agg(m) AS m", rows="")
    first, *_ = sorted(cernis_spark.match_recognize(frame, text).collect())
    assert first["l"] == [1, 2, 3, 4, 6]
    assert first["m"] == [{"x": t} for t in range(7)]


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
    text = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY id MEASURES {} PATTERN (A B) DEFINE {})"
    for measure, condition, marked in [
        ("SUM(id) AS s", "A AS id > 1, B AS array(id)", "array(id)"),
        ("MAX(id) AS m, SUM(array(id)) AS s", "B AS id > 1", "SUM"),
    ]:
        with pytest.raises(cernis.QueryError) as raised:
            cernis_spark.sql(spark, text.format(measure, condition), t=frame)
        _, shown, carets, *_ = str(raised.value).split("\n")
        assert shown[carets.index("^") : carets.rindex("^") + 1] == marked
    with pytest.raises(cernis.DataError, match="nowhere"):
        cernis_spark.sql(spark, "SELECT * FROM nowhere MATCH_RECOGNIZE (ORDER BY t PATTERN (a))")
