"""`recognize` as a user meets it: what comes back, what is refused, what Spark is asked to do."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import cernis
from cernis.errors import CernisError, DataError, QueryError, list_warnings
from cernis.generators.stock import stock_stream
from cernis.spark.batch import travelling_rows
from cernis.spark.explanation import explain
from cernis.spark.notes import Notes
from cernis.spark.options import JobOptions
from cernis.spark.prepare import prepare_job
from cernis.spark.recognition import recognize, recognizer

SEQUENCE = (
    "SELECT * FROM Stock WHERE SELL AS a ; BUY AS b FILTER a[volume > 900] AND b[volume > 900]"
)
SLICED = f"{SEQUENCE} WITHIN 2 SECONDS"
KEYED = f"{SEQUENCE} PARTITION BY [name] WITHIN 20 SECONDS"
CHAIN = f"{SEQUENCE} AND a[name] = b[name] WITHIN 20 SECONDS"


@pytest.fixture(autouse=True)
def _single_tasks_may_warn() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "this query runs in a single task")
        yield


@pytest.fixture(scope="module")
def events() -> pa.Table:
    table = stock_stream(3000, seed=3)
    at = table.schema.get_field_index("ts")
    return table.set_column(at, "ts", table.column("ts").cast(pa.timestamp("us", "UTC")))


@pytest.fixture(scope="module")
def trades(spark: Any, events: pa.Table) -> Any:
    return spark.createDataFrame(events).repartition(3).cache()


@pytest.fixture(scope="module")
def files(spark: Any, events: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = str(tmp_path_factory.mktemp("trades"))
    spark.createDataFrame(events).coalesce(1).sortWithinPartitions("ts").write.mode(
        "overwrite"
    ).option("maxRecordsPerFile", 700).parquet(folder)
    return folder


# ------------------------------------------------------------------ answers


def test_the_columns_are_typed_as_in_the_source(trades: Any) -> None:
    query = KEYED.replace("SELECT *", "SELECT a[price, volume], b, COUNT(b), MAX(b[price])")
    found = recognize(trades, query)
    kinds = {field.name: field.dataType.simpleString() for field in found.schema}
    assert kinds == {
        "start": "bigint",
        "end": "bigint",
        "start_ts": "timestamp",
        "end_ts": "timestamp",
        "name": "string",
        "a": "array<struct<price:double,volume:bigint>>",
        "b": "array<struct<type:string,ts:timestamp,name:string,price:double,volume:bigint>>",
        "COUNT(b)": "bigint",
        "MAX(b[price])": "double",
    }
    row = found.first()
    assert row.a[0].volume > 900
    assert row.b[0].ts == row.end_ts


def test_the_matches_are_those_of_the_embedded_engine_with_their_events(
    spark: Any, events: pa.Table
) -> None:
    df = spark.createDataFrame(events)  # in order: row numbers are the embedded engine's
    for query in (KEYED, SLICED, CHAIN):
        found = recognize(df, query).orderBy("end_ts", "end", "start").toArrow()
        expected = cernis.query(query).run(events).to_arrow()
        order = [("end_ts", "ascending"), ("end", "ascending"), ("start", "ascending")]
        assert found.num_rows > 10
        assert found.to_pylist() == expected.sort_by(order).to_pylist()


def test_the_best_of_an_interval_are_those_of_the_embedded_engine(
    spark: Any, events: pa.Table
) -> None:
    best = f"{KEYED} ORDER BY b[price] - a[price] DESC LIMIT 2 EVERY 1 MINUTE"
    expected = cernis.query(best).run(events).to_arrow()
    found = recognize(spark.createDataFrame(events), best, tasks=3).toArrow()
    assert 4 < expected.num_rows < cernis.query(KEYED).run(events).count()
    order = [("end", "ascending"), ("start", "ascending")]
    assert found.sort_by(order).to_pylist() == expected.sort_by(order).to_pylist()


OVERALL = {
    "keys": (f"{KEYED} ORDER BY b[price] - a[price] DESC LIMIT 7 OVERALL", {"tasks": 3}),
    "parts of keys": (f"{KEYED} ORDER BY END - START LIMIT 9 OVERALL", {"tasks": 3, "sample": 1.0}),
    "slices": (f"{SLICED} ORDER BY a[volume] + b[volume] DESC LIMIT 7 OVERALL", {"tasks": 5}),
    "ties": (f"{SLICED} ORDER BY COUNT(b) LIMIT 20 OVERALL", {"tasks": 5}),
    "one task": (f"{SEQUENCE} ORDER BY a[name] DESC LIMIT 5 OVERALL", {}),
    "partitions": (f"{KEYED} ORDER BY a[volume] LIMIT 1 OVERALL PER PARTITION", {"tasks": 3}),
    "none": (f"{SLICED} ORDER BY COUNT(b) LIMIT 0 OVERALL", {"tasks": 5}),
}


@pytest.mark.parametrize("kind", OVERALL)
def test_the_best_of_all_are_those_of_the_embedded_engine(
    kind: str, spark: Any, events: pa.Table
) -> None:
    query, options = OVERALL[kind]
    here = cernis.query(query).run(events)
    df = spark.createDataFrame(events)
    found = recognize(df, query, matches="lines", **options).orderBy("place").collect()
    assert [row.line for row in found] == [
        line for part in here.lines() for line in part["line"].to_pylist()
    ]
    if kind == "slices":
        counts = recognize(df, query, matches="count", **options).toArrow().sort_by("end")
        assert counts.to_pydict()["count"] == here.counts().sort_by("end").to_pydict()["count"]


@pytest.mark.parametrize(
    "clauses",
    [
        "s[ts] - PREV(s)[ts] < 50 MILLISECONDS PARTITION BY [name] WITHIN 1 SECOND",
        "PREV(s)[price] * 1.5 < s[price] WITHIN 100 MILLISECONDS",
    ],
)
def test_arithmetic_on_neighbours_gives_the_matches_of_the_embedded_engine(
    spark: Any, events: pa.Table, clauses: str
) -> None:
    query = f"SELECT s FROM S WHERE SELL{{2,3}} AS s FILTER {clauses}"
    expected = cernis.query(query).run(events).to_arrow().select(["start", "end"])
    found = recognize(spark.createDataFrame(events), query, tasks=3).select("start", "end")
    order = [("end", "ascending"), ("start", "ascending")]
    assert expected.num_rows > 4
    assert found.toArrow().sort_by(order).to_pylist() == expected.sort_by(order).to_pylist()


def test_values_are_flat_columns_and_durations_are_intervals(spark: Any, events: pa.Table) -> None:
    terms = "b[price] - a[price] AS rise, END - START AS length, (END - START) / 7 AS part"
    query = KEYED.replace("*", f"{terms}, START AS began")
    with pytest.warns(UserWarning, match=r"columns 'start' and 'START' apart; .*: START AS …"):
        recognize(spark.createDataFrame(events), KEYED.replace("*", "START"))
    found = recognize(spark.createDataFrame(events), query)
    kinds = [field.dataType.simpleString() for field in found.schema.fields[-4:]]
    assert kinds == ["double", "interval day to second", "interval day to second", "timestamp"]
    expected = cernis.query(query).run(events).to_arrow()
    order = [("end", "ascending"), ("start", "ascending")]
    assert expected.num_rows > 10
    assert (
        found.orderBy("end", "start").toArrow().to_pylist() == expected.sort_by(order).to_pylist()
    )


def test_counts_per_end_need_no_matches(spark: Any, events: pa.Table) -> None:
    query = "SELECT * FROM S WHERE SELL AS a ; BUY+ AS b ; SELL AS c WITHIN 60 EVENTS"
    found = recognize(spark.createDataFrame(events), query, matches="count").toArrow()
    expected = cernis.query(query).run(events).counts()
    assert found.column_names == ["end", "end_ts", "count"]
    counted = dict(zip(*found.select(["end", "count"]).to_pydict().values(), strict=True))
    assert counted == dict(
        zip(*expected.select(["end", "count"]).to_pydict().values(), strict=True)
    )
    assert max(counted.values()) > 2**25


def grouped(*keys: str, pattern: str = KEYED) -> str:
    terms = "COUNT(*) AS n, SUM(b[volume]) AS total, AVG(a[price]) AS mean, MAX(b[price]) AS most"
    return f"{pattern.replace('*', terms, 1)} GROUP BY {', '.join(keys)}"


GROUPED = {
    "parts of keys": (grouped("[name]", "EVERY 30 SECONDS"), {"sample": 1.0}),
    "whole keys": (grouped("[name]", "EVERY 30 SECONDS"), {"sample": 0}),
    "across keys": (grouped("EVERY 1 MINUTE"), {"sample": 0}),
    "without a time": (grouped("[name]"), {}),
    "slices": (grouped("EVERY 10 SECONDS", pattern=SLICED), {"tasks": 5}),
    "ends of slices": (grouped("END", pattern=SLICED), {"tasks": 5}),
    "having": (grouped("EVERY 20 SECONDS HAVING COUNT(*) >= 3", pattern=SLICED), {}),
    "compared": (grouped("EVERY 10 SECONDS", pattern=CHAIN), {}),
    "listed": (grouped("EVERY 10 SECONDS").replace("b[price]", "b[ts]"), {}),
    "starts": (grouped("EVERY 10 SECONDS OF START"), {}),
    "starts in slices": (grouped("EVERY 10 SECONDS OF START", pattern=SLICED), {"tasks": 5}),
    "different values": (
        grouped("EVERY 10 SECONDS OF START").replace("SUM(b[volume])", "COUNT(DISTINCT a[name])"),
        {"tasks": 5},
    ),
}


@pytest.mark.parametrize("name", GROUPED)
def test_groups_are_those_of_the_embedded_engine(spark: Any, events: pa.Table, name: str) -> None:
    query, options = GROUPED[name]
    found = recognize(spark.createDataFrame(events), query, **options)
    kinds = [field.dataType.simpleString() for field in found.schema.fields[-4:]]
    last = "timestamp" if name == "listed" else "double"
    assert kinds == ["decimal(38,0)", "decimal(38,0)", "double", last]
    expected = cernis.query(query).run(events).to_arrow()
    assert expected.num_rows > 2
    assert found.columns == expected.column_names
    assert_same_groups(found.toArrow(), expected)


def assert_same_groups(found: pa.Table, expected: pa.Table) -> None:
    """Compare groups in any order; Spark adds floats up in an order of its own."""
    assert found.num_rows == expected.num_rows
    for ours, theirs in zip(_sort_groups(found), _sort_groups(expected), strict=True):
        for value, other in zip(ours, theirs, strict=True):
            if isinstance(value, float) and isinstance(other, float):
                assert math.isclose(value, other, rel_tol=1e-9)
            else:
                assert value == other


def _sort_groups(groups: pa.Table) -> list[list[Any]]:
    rows = [list(row.values()) for row in groups.to_pylist()]
    return sorted(rows, key=lambda row: [str(v) for v in row if not isinstance(v, float)])


def test_numbers_of_any_length_are_text(spark: Any) -> None:
    events = pa.table({"type": ["A"] * 300, "ts": pa.array(range(300))})
    matches = "FROM S WHERE A+ WITHIN 200 EVENTS"
    query = f"SELECT COUNT(*) AS n, COUNT(A) AS m {matches} GROUP BY EVERY 1 HOUR"
    (expected,) = cernis.query(query).run(events).to_arrow().to_pylist()
    df = spark.createDataFrame(events)
    (row,) = recognize(df, query, numbers="text", tasks=3).collect()
    assert (row.n, row.m) == (str(expected["n"]), str(expected["m"]))
    assert len(row.n) > 60
    with pytest.raises(Exception, match="a number has 39 digits or more"):
        recognize(df, query, tasks=3).collect()
    counted = recognize(df, "SELECT * FROM S WHERE A+", matches="count", numbers="text").collect()
    assert {int(row["count"]) for row in counted} == {2**i for i in range(300)}


def test_what_does_not_go_with_groups_is_refused_before_any_job(spark: Any, trades: Any) -> None:
    for options, message in (
        ({"matches": "count"}, "does not go with GROUP BY: select COUNT"),
        ({"ids": True}, "groups have no names"),
        ({"numbers": "int"}, "expected 'decimal' or 'text'"),
    ):
        with pytest.raises(CernisError, match=message):
            recognize(trades, grouped("END"), **options)
    with pytest.raises(DataError, match="GROUP BY EVERY needs a column of times"):
        recognize(trades.drop("ts"), "SELECT COUNT(*) WHERE SELL GROUP BY EVERY 1 HOUR")


def test_sql_groups_as_well(spark: Any, trades: Any) -> None:
    from cernis.spark.table_function import register

    register(spark)
    trades.createOrReplaceTempView("trades")
    for query in (grouped("EVERY 1 MINUTE"), grouped("[name]", "EVERY 30 SECONDS")):
        found = spark.sql(f"SELECT * FROM cernis_all(TABLE(trades), query => '{query}')")
        assert_same_groups(found.toArrow(), recognize(trades, query).toArrow())


def test_an_explosive_query_is_read_only_as_far_as_it_is_asked_for(trades: Any) -> None:
    query = "SELECT * FROM S WHERE SELL AS a ; BUY+ AS b ; SELL AS c"
    assert len(recognize(trades, query).limit(7).collect()) == 7


def test_it_is_a_transformation_that_runs_when_asked(trades: Any) -> None:
    found = trades.transform(recognizer(KEYED)).filter("start_ts < '2024-01-02 09:01:00'")
    assert 0 < found.count() < recognize(trades, KEYED).count()


def test_several_frames_are_several_streams(spark: Any, events: pa.Table) -> None:
    query = "SELECT * FROM Sold, Bought WHERE Sold>SELL AS a ; Bought>BUY AS b WITHIN 1 SECONDS"
    kinds = events.column("type")
    apart = {
        "Sold": events.filter(pa.compute.equal(kinds, "SELL")),
        "Bought": events.filter(pa.compute.equal(kinds, "BUY")).drop_columns(["price"]),
    }
    frames = {name: spark.createDataFrame(table) for name, table in apart.items()}
    found = recognize(frames, query)
    expected = cernis.query(query).run(apart)
    assert found.count() == expected.count() > 10
    pairs = sorted((row.start, row.end) for row in found.collect())
    assert pairs == sorted((match.start, match.end) for match in expected)


@pytest.mark.parametrize("query", [KEYED, SLICED])
def test_a_key_with_nearly_all_events_is_cut_into_slices(spark: Any, query: str) -> None:
    events = stock_stream(20_000, seed=5, symbols=1)
    other = stock_stream(40, seed=6, symbols=5)
    table = pa.concat_tables([events, other])
    df = spark.createDataFrame(table)
    options = JobOptions(tasks=4, sample=1.0)
    parts = travelling_rows(prepare_job(df, query, options)).groupBy("@part").count().collect()
    assert len(parts) >= 4
    assert max(row["count"] for row in parts) < 0.6 * sum(row["count"] for row in parts)
    assert (
        recognize(df, query, tasks=4, sample=1.0).count() == cernis.query(query).run(table).count()
    )


# ----------------------------------------------------- what Spark is asked to do


def physical(df: Any) -> str:
    return str(df._jdf.queryExecution().executedPlan().toString())


def test_predicates_and_columns_reach_the_files(spark: Any, files: str) -> None:
    query = KEYED.replace("SELECT *", "SELECT a[name]")
    plan = physical(recognize(spark.read.parquet(files), query, sample=0, read_files=False))
    scans = [line for line in plan.splitlines() if "FileScan" in line]
    assert any("GreaterThan(volume,900)" in line for line in scans)
    assert not any("price" in line for line in scans)


def test_rows_of_files_are_numbered_in_their_order(
    spark: Any, files: str, events: pa.Table
) -> None:
    found = recognize(spark.read.parquet(files), SLICED, read_files=False)
    expected = cernis.query(SLICED).run(events)
    pairs = sorted((row.start, row.end) for row in found.collect())
    assert pairs == sorted((match.start, match.end) for match in expected)


def test_rows_have_numbers_however_the_frame_came_about(spark: Any, events: pa.Table) -> None:
    expected = cernis.query(KEYED).run(events).count()
    df = spark.createDataFrame(events)
    alone = df.select("name").distinct()
    for given in (
        df.repartition("name"),  # tasks are joined by size, at run time
        df.join(alone, "name"),
        df.union(df.limit(0)),
        df.repartition(5),
        df.groupBy(*df.columns).count().drop("count"),
    ):
        found = recognize(given, KEYED, tasks=3)
        assert found.count() == expected
        assert found.select("start", "end").distinct().count() == expected
    assert "with gaps" in str(explain(df.repartition("name"), KEYED))


def test_events_that_no_test_passes_do_not_travel(trades: Any) -> None:
    travelling = travelling_rows(prepare_job(trades, KEYED, JobOptions(sample=0)))
    assert travelling.count() == trades.filter("volume > 900").count()
    contiguous = travelling_rows(prepare_job(trades, KEYED.replace(";", ":"), JobOptions(sample=0)))
    assert contiguous.count() == trades.count()


def test_rows_that_lie_together_are_not_moved_again(
    spark: Any, events: pa.Table, tmp_path: Path
) -> None:
    expected = cernis.query(KEYED).run(events).count()
    df = spark.createDataFrame(events)
    for given, sorts in (
        (df.repartition(3, "name"), 1),
        (df.repartition(3, "name").sortWithinPartitions("ts"), 0),
    ):
        found = recognize(given.filter("volume > 0"), KEYED)
        assert "shufflepartitionid" not in physical(found)
        assert physical(found).count("Sort [@moment") == sorts
        assert found.count() == expected
        assert "rows lie together already" in str(explain(given, KEYED))
    apart = df.repartition(3, "name", "type")
    assert "shufflepartitionid" in physical(recognize(apart, KEYED, tasks=3))
    assert recognize(apart, KEYED, tasks=3).count() == expected
    buckets = "spark.sql.sources.bucketing.autoBucketedScan.enabled"
    df.write.bucketBy(3, "name").option("path", str(tmp_path)).saveAsTable("bucketed")
    try:
        spark.conf.set(buckets, "false")
        found = recognize(spark.table("bucketed"), KEYED)
        assert "Exchange shufflepartition" not in physical(found)
        assert found.count() == expected
    finally:
        spark.conf.unset(buckets)
        spark.sql("DROP TABLE bucketed")


def test_one_task_reads_a_few_rows_in_one_pass(spark: Any, trades: Any, tmp_path: Path) -> None:
    trades.coalesce(1).write.parquet(str(tmp_path / "one"))
    few = spark.read.parquet(str(tmp_path / "one"))
    for query in (KEYED, SLICED):
        found = recognize(few, query, read_files=False)
        plan = physical(found)
        assert plan.count("FileScan") == 1
        assert "Exchange SinglePartition" in plan
        assert found.count() == recognize(few, query, tasks=3).count() > 0
        assert "on Spark     1 task: the rows are few" in str(explain(few, query, read_files=False))


def test_explain_says_what_spark_will_do(trades: Any) -> None:
    told = str(explain(trades, KEYED, measure=True, tasks=4))
    assert "keyed: by a hash of name, 4 tasks" in told
    assert "3 of 3 predicates" in told
    assert "% of the events here" in told
    sliced = str(explain(trades, SLICED, tasks=4))
    assert "sliced: 4 tasks" in sliced
    assert "the 2 seconds before it" in sliced
    every = "SELECT * FROM S WHERE SELL AS a ; NOT (BUY FILTER BUY[name LIKE 'M(S|Q)+']) ; BUY AS b"
    assert "NOT looks at every event" in str(explain(trades, f"{every} WITHIN 1 SECONDS"))
    kept = explain(trades, SLICED.replace("a[volume > 900]", "a[name LIKE 'M(S|Q)+.*']"))
    assert "in Python: [name LIKE 'M(S|Q)+.*']" in str(kept)


def test_a_single_task_warns_and_says_what_would_help(trades: Any) -> None:
    with pytest.warns(UserWarning, match=r"single task; .*PARTITION BY.* or a WITHIN"):
        recognize(trades, SEQUENCE)
    with pytest.warns(UserWarning, match="CONSUME BY ANY looks at the whole stream"):
        recognize(trades, f"{SLICED} CONSUME BY ANY")


# ---------------------------------------------------------------- warnings

MISSPELT = "SELECT * FROM S WHERE SEL AS a ; BUY AS b FILTER b[volume > 900] AND b[name = 'x']"


def test_explain_has_the_warnings_of_an_embedded_run(trades: Any, events: pa.Table) -> None:
    query = f"{MISSPELT} WITHIN 2 SECONDS"
    told = explain(trades, query, measure=True)
    embedded = list_warnings(cernis.query(query).run(events).notes)
    assert [*map(str, told.notes)] == [*map(str, embedded)]
    assert [note.code for note in told.notes] == ["absent-type", "unmet-condition"]
    assert "warning      line 1, column 23: no event has the type 'SEL'\n" in str(told)
    assert explain(trades, SLICED, measure=True).notes == []
    with pytest.raises(CernisError, match="notes= is for streams"):
        recognize(trades, query, notes=Notes())


def test_explain_says_that_times_are_of_another_unit_and_that_rows_are_skipped(spark: Any) -> None:
    rows = [("A", 1_700_000_000), ("B", 1_700_000_060), *((name, None) for name in "XYZ")]
    frame = spark.createDataFrame(rows, "type string, ts bigint")
    query = "SELECT * FROM S WHERE A ; B WITHIN 5 SECONDS"
    told = explain(frame, query, on_error="skip", measure=True)
    assert [*map(str, told.notes)] == [
        (
            "the times lie in January 1970, if 'ts' counts milliseconds\n"
            "  help: in seconds they begin on 2023-11-14: write --time-unit s, in Python "
            'time_unit="s"'
        ),
        (
            "3 of 5 rows were skipped: 3 without a time\n"
            '  help: --on-error fail (on_error="fail") says what is wrong with the first one'
        ),
    ]
    good = explain(frame, query, on_error="skip", time_unit="s", measure=True)
    assert [note.code for note in good.notes] == ["most-skipped"]


# --------------------------------------------------------------- bad input


@pytest.fixture(scope="module")
def odd(spark: Any) -> Any:
    return spark.createDataFrame(
        pa.table(
            {
                "type": ["A", "B"],
                "ts": pa.array([1, 2], pa.int64()),
                "Price": pa.array([Decimal("1.50"), Decimal("2.50")], pa.decimal128(9, 2)),
                "day": pa.array([date(2024, 1, 1), date(2024, 1, 2)]),
                "user": [{"id": 7, "tags": ["x"]}, {"id": 7, "tags": []}],
                "a.b": [1, 2],
            }
        )
    )


def refused(df: Any, query: str, error: type[CernisError], *words: str, **options: Any) -> None:
    with pytest.raises(error) as caught:
        recognize(df, query, **options)
    for word in words:
        assert word in str(caught.value)


def test_what_is_wrong_is_said_before_the_job_starts(odd: Any) -> None:
    two = "SELECT * FROM S WHERE A AS x ; B AS y"
    refused(odd, two, DataError, "no column 'kind'", "event type", type="kind")
    refused(odd, two, DataError, "no column 'Ts'", "there is 'ts', and capitals count", time="Ts")
    refused(odd, two, DataError, "'type' holds string, not a timestamp", time="type")
    refused(odd, two, DataError, "'day' holds date, not text", type="day")
    refused(odd, two, DataError, "no column 'n'", "row number", row="n")
    refused(odd, f"{two} FILTER x[price > 1]", QueryError, "price", "Price")
    refused(odd, f"{two} FILTER x[Price > 'dear']", QueryError, "clash")
    refused(odd, two + " [", QueryError, "line 1")
    refused([{"type": "A"}], two, DataError, "expected a Spark DataFrame")
    refused(odd, two, CernisError, "matches='some'", matches="some")
    refused({"S": odd, "T": odd}, "SELECT * FROM S, U WHERE A", DataError, "reads from 'U'")


def test_regular_expressions_are_checked_before_the_job_starts(odd: Any) -> None:
    refused(odd, "SELECT * FROM S WHERE A AS x FILTER x[type LIKE '(']", QueryError, "expression")


def test_names_that_occur_twice_are_refused_and_other_capitals_are_not(
    spark: Any, odd: Any
) -> None:
    twice = odd.selectExpr("*", "ts AS ts")
    refused(twice, "SELECT * FROM S WHERE A", DataError, "'ts' occurs twice")
    both = spark.createDataFrame(
        pa.table({"type": ["A", "A"], "ts": [1, 2], "price": [1, 2], "PRICE": [9, 1]})
    )
    query = "SELECT x FROM S WHERE A AS x FILTER x[PRICE > price] WITHIN 5 EVENTS"
    assert [row.x[0].asDict()["PRICE"] for row in recognize(both, query).collect()] == [9]
    columns = {"type": [1, 2], "TYPE": [*"xy"], "ts": [1, 2], "Ts": [9, 8], "TS": [5.5, 0.5]}
    alike = spark.createDataFrame(pa.table(columns))
    found = recognize(
        {"S": alike, "T": alike},
        "SELECT s[TS] AS x, t[TYPE] AS y FROM S, T WHERE S>`1` AS s ; T>`2` AS t",
        time={"S": "ts", "T": "TS"},
    )
    assert [(row.x, row.y) for row in found.collect()] == []
    found = recognize(alike, "SELECT a[TYPE] AS x FROM S WHERE `1` AS a ; `2` AS b")
    assert [row.x for row in found.collect()] == ["x"]


def test_a_column_that_cannot_travel_is_named(spark: Any) -> None:
    months = spark.sql("SELECT 'A' AS type, 1L AS ts, INTERVAL '3' MONTH AS age")
    for query in ("x[age] AS y FROM S WHERE A AS x", "* FROM S WHERE A AS x PARTITION BY [age]"):
        refused(months, f"SELECT {query}", DataError, "'age' holds interval month", "cannot travel")


def test_decimals_dates_and_nested_attributes_are_what_they_are(odd: Any) -> None:
    query = """SELECT x[Price, day, user.id], y[user] AS of FROM S WHERE A AS x ; B AS y
               FILTER x[Price = 1.5 AND day < '2024-01-02' AND user.id = 7] AND y[Price > 2]
               WITHIN 1 SECONDS"""
    [row] = recognize(odd, query).collect()
    assert row.x[0][0] == Decimal("1.50")
    assert row.x[0][1] == date(2024, 1, 1)
    assert row.x[0][2] == 7
    assert row.of.tags == []
    keyed = "SELECT * FROM S WHERE A AS x ; B AS y PARTITION BY [user.id] WITHIN 5 EVENTS"
    [match] = recognize(odd, keyed).collect()
    assert match["user.id"] == 7


@pytest.mark.parametrize("clause", ["PARTITION BY [k]", "FILTER a[k] = b[k]"])
def test_values_of_any_type_are_keys(spark: Any, clause: str) -> None:
    times = [timedelta(hours=hours) for hours in (1, 1, 2, 1)]
    users = [{"id": i, "ID": None, "tags": [i]} for i in (1, 2, 2, 1)]
    query = f"SELECT a[ts] AS x FROM S WHERE A AS a ; B AS b {clause} WITHIN 5 SECONDS"
    for values in (times, users, [user["tags"] for user in users]):
        table = pa.table({"type": [*"ABBB"], "ts": range(4), "k": values})
        found = recognize(spark.createDataFrame(table), query, tasks=3).orderBy("end").toArrow()
        assert (
            found.column("end").to_pylist()
            == cernis.query(query).run(table).to_arrow().column("end").to_pylist()
        )
        assert found.num_rows > 0


def test_padded_text_is_compared_as_it_is(spark: Any) -> None:
    spark.sql("CREATE OR REPLACE TEMP VIEW v AS SELECT 'A' AS type, 1L AS ts")
    spark.sql("CREATE TABLE padded (type STRING, ts BIGINT, c CHAR(4)) USING parquet")
    try:
        spark.sql("INSERT INTO padded SELECT type, ts, 'ab' FROM v")
        query = "SELECT * FROM S WHERE A AS x FILTER x[c = '{}'] WITHIN 5 EVENTS"
        assert recognize(spark.table("padded"), query.format("ab  ")).count() == 1
        assert recognize(spark.table("padded"), query.format("ab")).count() == 0
    finally:
        spark.sql("DROP TABLE padded")


@pytest.mark.parametrize(
    "query", ["", " WITHIN 5 EVENTS", " WITHIN 5 SECONDS", " PARTITION BY [k]"]
)
def test_an_event_without_a_time_fails_the_job_or_is_skipped(spark: Any, query: str) -> None:
    table = pa.table({"type": ["A", "C", "B"], "ts": [1, None, 3], "k": [1, 1, 1]})
    df = spark.createDataFrame(table)
    query = f"SELECT * FROM S WHERE A AS x ; B AS y{query}"
    assert recognize(df, query, on_error="skip").count() == 1
    with pytest.raises(Exception, match="row 1, column 'ts': the time is missing"):
        recognize(df, query).count()


def test_an_event_without_a_row_number_fails_the_job(spark: Any) -> None:
    df = spark.createDataFrame(pa.table({"type": ["A", "B"], "ts": [1, 2], "n": [0, None]}))
    with pytest.raises(Exception, match=r"row numbers .* has no number in some row"):
        recognize(df, "SELECT * FROM S WHERE A ; B WITHIN 5 SECONDS", row="n").count()


def test_the_time_zone_of_the_session_changes_nothing(spark: Any) -> None:
    moments = [datetime(2024, 3, 10, hour, tzinfo=UTC) for hour in (6, 7, 8)]
    plain = [moment.replace(tzinfo=None) for moment in moments]
    columns = {"type": ["A", "B", "B"], "zoned": moments, "plain": plain}
    df = spark.createDataFrame(pa.table(columns))
    query = """SELECT * FROM S WHERE A AS x ; B AS y
               FILTER y[{} < '2024-03-10T07:30:00'] WITHIN 1 HOURS"""
    before = spark.conf.get("spark.sql.session.timeZone")
    try:
        for zone in ("America/New_York", "UTC", "Asia/Tokyo"):
            spark.conf.set("spark.sql.session.timeZone", zone)
            for column in ("zoned", "plain"):
                assert recognize(df, query.format(column), time=column, tasks=3).count() == 1
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_a_budget_holds_for_each_task(trades: Any) -> None:
    far = f"{SEQUENCE.replace('BUY AS b', 'BUY AS b ; SELL AS c')} AND a[price] + b[price] < 400"
    with pytest.raises(Exception, match="budget of 3"):
        recognize(trades, f"{far} WITHIN 2 SECONDS", budget=3).count()
    assert recognize(trades, f"{far} WITHIN 2 SECONDS").count() > 0


# ---------------------------------------------------------------------- SQL


def test_sql_has_a_table_function(spark: Any, trades: Any) -> None:
    from cernis.spark.table_function import register

    register(spark)
    trades.createOrReplaceTempView("trades")
    within = f"{SEQUENCE} WITHIN 20 SECONDS".replace("'", "''")
    found = spark.sql(
        f"SELECT * FROM cernis(TABLE(trades) PARTITION BY name ORDER BY (ts), '{within}')"
    )
    assert found.schema["b"].dataType == recognize(trades, KEYED).schema["b"].dataType
    assert found.count() == recognize(trades, KEYED).count()
    everything = spark.sql(f"SELECT * FROM cernis_all(TABLE(trades), query => '{KEYED}')")
    assert everything.count() == found.count()
    with pytest.raises(Exception, match="'\\[' is never closed"):
        spark.sql("SELECT * FROM cernis_all(TABLE(trades), 'SELECT * FROM S WHERE A[')")


def test_sql_counts_as_well(spark: Any, trades: Any) -> None:
    from cernis.spark.table_function import register

    register(spark)
    trades.createOrReplaceTempView("trades")
    query = KEYED.replace("SELECT *", "SELECT COUNT(*)")
    found = spark.sql(f"SELECT sum(count) FROM cernis_all(TABLE(trades), query => '{query}')")
    assert found.first()[0] == recognize(trades, KEYED).count()


def test_sql_keeps_keys_together_where_they_concern_each_other(spark: Any) -> None:
    from cernis.spark.table_function import register

    register(spark)
    users = [{"id": key} for key in (1, 2, 2, 1)]
    table = pa.table({"type": [*"AABB"], "ts": range(4), "user": users})
    spark.createDataFrame(table).createOrReplaceTempView("keyed")
    sequence = "SELECT END AS last FROM S WHERE A ; B PARTITION BY [user.id]"
    absence = (
        "SELECT END AS last FROM S WHERE B WITHOUT B FOR 0 MILLISECONDS PARTITION BY [user.id]"
    )
    for query in (sequence, f"{sequence} CONSUME BY ANY", absence):
        found = spark.sql(f"SELECT last FROM cernis_all(TABLE(keyed), '{query}')").collect()
        expected = cernis.query(query).run(table).to_arrow().column("last").to_pylist()
        assert sorted(row.last for row in found) == sorted(expected) != []
    with pytest.raises(Exception, match="'age' holds interval month, which cannot travel"):
        spark.sql(
            "SELECT * FROM cernis_all(TABLE(SELECT *, INTERVAL '3' MONTH AS age FROM keyed), "
            f"query => '{sequence}')"
        )


def test_sql_gives_the_last_match_of_longest_and_reads_tables_without_types(
    spark: Any, trades: Any
) -> None:
    from cernis.spark.table_function import register

    register(spark)
    trades.createOrReplaceTempView("trades")
    query = "SELECT LONGEST s FROM trades WHERE (trades+[2 SECONDS]) AS s PARTITION BY [name]"
    expected = recognize(trades, query, type=None).count()
    keyed = "cernis(TABLE(trades) PARTITION BY name ORDER BY (ts)"
    for call in ("cernis_all(TABLE(trades)", keyed):
        found = spark.sql(f"SELECT * FROM {call}, query => '{query}', type => NULL)")
        assert found.count() == expected


@pytest.mark.parametrize("steady", [True, False])
def test_without_a_time_column_rows_are_in_their_own_order(
    spark: Any, events: pa.Table, steady: bool
) -> None:
    untimed = events.drop_columns(["ts"])
    query = f"{SEQUENCE} WITHIN 20 EVENTS"
    df = spark.createDataFrame(untimed)
    given = df if steady else df.coalesce(1)
    expected = cernis.query(query).run(untimed)
    assert recognize(given, query, tasks=3).count() == expected.count()


def test_names_that_are_taken_are_refused(odd: Any) -> None:
    for name in ("@row", "@ticks", "@rank", "@time", "@mask0"):
        taken = odd.withColumnRenamed("day", name)
        refused(taken, "SELECT * FROM S WHERE A", DataError, f"{name!r} is taken")


def test_queries_run_on_spark_frames_without_spark_as_well(trades: Any) -> None:
    assert cernis.query(KEYED).run(trades).count() == recognize(trades, KEYED).count()


def test_files_that_are_gone_are_missed_when_the_answer_is_asked_for(
    spark: Any, tmp_path: Path, events: pa.Table
) -> None:
    folder = str(tmp_path / "gone")
    spark.createDataFrame(events.slice(0, 50)).write.parquet(folder)
    df = spark.read.parquet(folder)
    for file in Path(folder).iterdir():
        file.unlink()
    found = recognize(df, KEYED)
    with pytest.raises(Exception, match=r"(?i)no such file|does not exist|not exist"):
        found.count()


def test_long_decimals_are_exact_or_refused(spark: Any) -> None:
    rows = [Decimal(f"99999999999999999999.99999999999999999{digit}") for digit in "789"]
    table = pa.table({"type": ["A", "A", "A"], "ts": [1, 2, 3], "v": pa.array(rows)})
    df = spark.createDataFrame(table)
    assert df.schema["v"].dataType.simpleString() == "decimal(38,18)"
    for condition in (
        "a[v < 99999999999999999999.9999999999999999985]",
        "a[v] < b[v]",
        "MAX(b[v]) > 99999999999999999999.9999999999999999985 AND a[v] != b[v]",
    ):
        query = f"SELECT * FROM S WHERE (A AS a ; A AS b) FILTER {condition}"
        expected = cernis.query(query).run(table)
        found = recognize(df, query).toArrow()
        assert found.num_rows == expected.count() > 0
        assert {*found["start"].to_pylist()} == {match.start for match in expected}
    with pytest.raises(Exception, match="a sum has more than 38 digits"):
        recognize(df, "SELECT SUM(a[v]) AS s FROM S WHERE (A:A) AS a").collect()
    total = "SELECT SUM(a[v]) AS s FROM S WHERE A AS a GROUP BY EVERY 1 DAY"
    with pytest.raises(Exception, match='numbers="text" gives numbers as text'):
        recognize(df, total).collect()
    (group,) = recognize(df, total, numbers="text").collect()
    assert group.s == "299999999999999999999.999999999999999994"


def test_maps_are_no_keys_of_a_join(spark: Any) -> None:
    events = spark.createDataFrame([("A", {"a": 1})], "type string, m map<string, int>")
    table = spark.createDataFrame([({"a": 1}, 5)], "k map<string, int>, w int")
    query = "SELECT * FROM S JOIN t ON m = t.k WHERE A AS a"
    with pytest.raises(cernis.QueryError, match="m holds maps, which cannot be compared"):
        recognize(events, query, tables={"t": table})
