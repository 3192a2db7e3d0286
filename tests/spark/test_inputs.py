"""DataFrames and files as they lie around: types, times and forms that differ, nothing at all.

A job costs Spark about a second, so each test asks for many things at once.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cernis
from cernis.cli.main import main
from cernis.errors import DataError
from cernis.run.query import Query
from cernis.spark.recognition import recognize
from cernis.spark.table_function import _answer_schema

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "this query runs in a single task")
        yield


def lines(found: Any) -> list[Any]:
    return [
        json.loads(row.line)["vars"] for row in found.orderBy("end_ts", "end", "place").collect()
    ]


def embedded(query: str, events: Any, **options: Any) -> list[Any]:
    return [match.vars for match in cernis.query(query).run(events, **options)]


# ----------------------------------------------------------------- DataFrames


def test_streams_with_their_own_columns_of_times_and_types_are_merged(spark: Any) -> None:
    """One has its times with a zone, the other without, in a session far from UTC."""
    seconds = pa.array([0, 3_600, 7_200], pa.timestamp("s"))
    tables = {
        "parking": pa.table({"code": [7, 8, 7], "seen": seconds.cast(pa.timestamp("us"))}),
        "roads": pa.table({"at": seconds.cast(pa.timestamp("us", "UTC")), "type": ["x", "y", "x"]}),
    }
    query = (
        "SELECT * FROM parking, roads WHERE `7` AS p ; roads AS j FILTER j[type = 'x'] "
        "WITHIN 1 HOUR"
    )
    options: dict[str, Any] = {
        "time": {"parking": "seen", "roads": "at"},
        "type": {"parking": "code", "roads": None},
    }
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        frames = {name: spark.createDataFrame(table) for name, table in tables.items()}
        text = pa.array(["1970-01-01 00:00", "1970-01-01 01:00", "1970-01-01 02:00"])
        parked = spark.createDataFrame(tables["parking"].set_column(1, "seen", text))
        frames["parking"] = parked.withColumn("seen", parked.seen.cast("timestamp_ntz"))
        kinds = [
            field.dataType.simpleString() for frame in frames.values() for field in frame.schema
        ]
        assert kinds == ["bigint", "timestamp_ntz", "timestamp", "string"]
        found = recognize(frames, query, matches="lines", **options)
        expected = [{"p": [0], "j": [3]}, {"p": [2], "j": [5]}]
        assert lines(found) == embedded(query, tables, **options) == expected
        row = recognize(frames, query, **options).first()
        assert [*row.p[0].asDict()] == ["code", "seen", "at", "type"]
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    with pytest.raises(DataError, match=r"^time is given for 'road', which is no stream; did you"):
        recognize(frames, query, time={"road": "at"})


def test_numbers_of_any_width_and_days_go_together(spark: Any) -> None:
    day = pa.table({"type": [True, False], "ts": pa.array([0, 1], pa.date32())})
    hour = pa.table({"type": [b"A", b"B"], "ts": pa.array([0, 10**9], pa.timestamp("us", "UTC"))})
    query = "SELECT * FROM D, H WHERE `true` AS a ; B AS b ; `false` AS c WITHIN 1 DAY"
    tables = {"D": day, "H": hour}
    frames = {name: spark.createDataFrame(table) for name, table in tables.items()}
    found = recognize(frames, query, matches="lines")
    assert lines(found) == embedded(query, tables) == [{"a": [0], "b": [3], "c": [1]}]
    narrow = pa.table({"type": ["A"], "ts": pa.array([1], pa.int32())})
    wide = pa.table({"type": ["B"], "ts": pa.array([2], pa.int64())})
    frames = {"D": spark.createDataFrame(narrow), "H": spark.createDataFrame(wide)}
    query = "SELECT * FROM D, H WHERE A AS a ; B AS b WITHIN 1 SECOND"
    assert lines(recognize(frames, query, matches="lines")) == [{"a": [0], "b": [1]}]
    with pytest.raises(DataError, match="need one type for it: 'D' has int, 'H' has timestamp"):
        recognize({"D": frames["D"], "H": spark.createDataFrame(hour)}, query)


ODD = {
    "filters": "SELECT * FROM S WHERE A AS a ; B AS b FILTER a[price > 3] AND b[name = 'x'] "
    "PARTITION BY [name] WITHIN 5 MINUTES",
    "values": "SELECT a[price] AS p, SUM(a[price]) AS s, END - START AS d FROM S WHERE A AS a "
    "WITHIN 5 MINUTES",
    "groups": "SELECT [name], SUM(a[price]) AS s FROM S WHERE A AS a PARTITION BY [name] "
    "GROUP BY [name], EVERY 1 HOUR",
}


def test_nothing_at_all_has_an_answer_with_the_right_columns(spark: Any) -> None:
    columns = "type string, price double, name string, ts timestamp"
    void = ", ".join(f"cast(null AS void) AS {name}" for name in ("type", "price", "name", "ts"))
    frames = {
        "no columns": spark.createDataFrame([], "struct<>"),
        "no rows": spark.createDataFrame([], columns),
        "no types": spark.sql(f"SELECT {void}"),
        "no values": spark.createDataFrame([("A", None, None, None)], columns),
    }
    for name, query in ODD.items():
        expected = recognize(frames["no rows"], query)
        for frame in frames.values():
            found = recognize(frame, query, on_error="skip")
            assert found.columns == expected.columns
            if name == "values":
                assert found.collect() == []


@pytest.mark.parametrize("time", ["timestamp", "timestamp_ntz", "date", "bigint", "double"])
def test_a_stream_without_columns_stands_beside_one_with_times(spark: Any, time: str) -> None:
    value = "DATE '2026-01-01'" if time not in ("bigint", "double") else "1"
    frames = {
        "S": spark.sql(f"SELECT CAST({value} AS {time}) AS ts, 3 AS v"),
        "T": spark.createDataFrame([], "struct<>"),
    }
    query = "SELECT * FROM S, T WHERE (S AS a OR T AS b) FILTER a[v > 2] AND b[w > 2]"
    for streams in (frames, dict(reversed(frames.items()))):
        assert len(recognize(streams, query).collect()) == 1


@pytest.mark.parametrize(
    "columns",
    [{"type": pa.int64()}, {"x": pa.int64()}, {"type": pa.string(), "x": pa.bool_()}],
    ids=["numbers", "no types", "text"],
)
def test_the_function_of_sql_has_the_types_of_its_answer(columns: dict[str, pa.DataType]) -> None:
    query, schema = Query("SELECT * FROM S WHERE `3` AS a ; S AS b"), pa.schema(columns)
    answer, _ = _answer_schema(query, schema)
    assert answer == query.session().push(schema.empty_table()).to_arrow().schema


# ---------------------------------------------------------------------- files


def test_the_command_reads_the_same_files_on_spark(spark: Any, capfd: Capture) -> None:
    Path("days").mkdir()
    Path("days/1.csv").write_text("A;1;1000\n")
    Path("days/2.csv").write_text("A;2.5;2000\nB;3;3000\n")
    Path("parts").mkdir()
    for i in (1, 2):
        pq.write_table(pa.table({"code": [i], "at": [500 * i]}), f"parts/{i}.parquet")
    Path("none").mkdir()
    query = "SELECT * FROM D, P WHERE P AS p ; A AS a ; B AS b WITHIN 1 HOUR"
    files = ["-e", "D=days", "-e", "P=parts", "--columns", "D=type,price,ts", "--time", "P=at"]
    odd = "SELECT * FROM S WHERE A AS a FILTER a[price > 3] WITHIN 1 HOUR"
    codes = "SELECT * FROM P WHERE `1` AS a ; `2` AS b WITHIN 1 HOUR"
    for arguments in (
        [query, *files],
        [codes, "-e", "parts/*.parquet", "--type", "code", "--time", "at"],
        [
            codes.replace("`1`", "P").replace("`2`", "P"),
            "-e",
            "P=parts",
            "--no-type",
            "--time",
            "at",
        ],
        [odd, "-e", "none"],
    ):
        found = []
        for engine in ("local", "spark"):
            assert main(["run", *arguments, "--output", "-", "--engine", engine]) == 0
            found.append(capfd.readouterr())
        assert found[0] == found[1]
    assert found[1].err == "note: none: the folder is empty\n"


def test_a_pipe_is_staged_for_spark(spark: Any, capfd: Capture) -> None:
    before = os.dup(0)
    end, start = os.pipe()
    os.write(start, b"type,ts\nB,2\nA,1\n")
    os.close(start)
    os.dup2(end, 0)
    try:
        query = "SELECT * FROM S WHERE A AS a ; B AS b"
        assert main(["run", query, "-e", "-", "--output", "-", "--engine", "spark"]) == 0
    finally:
        os.dup2(before, 0)
        os.close(before)
        os.close(end)
    assert json.loads(capfd.readouterr().out)["vars"] == {"a": [1], "b": [0]}


def test_streams_read_folders_with_columns_of_their_own(spark: Any) -> None:
    """One without a header and without types, whose times have a zone, and one with all of that."""
    Path("meter").mkdir()
    Path("meter/1.csv").write_text("1;2024-01-02 10:00:00Z;'a;b'\n9;2024-01-02 11:00:00Z;c\n")
    Path("roads").mkdir()
    Path("roads/1.csv").write_text(
        "type,ts,v\nJAM,2024-01-02 10:00:01,2\nJAM,2024-01-02 11:00:00,3\n"
    )
    query = (
        "SELECT * FROM meter, roads WHERE meter AS a ; JAM AS b FILTER a[v = 1] AND b[v = 2] "
        "WITHIN 1 MINUTE"
    )
    options = ["--columns", "meter=v,at,note", "--time", "meter=at", "--quote", "'", "--once"]
    places = ["-s", "meter", "-s", "roads", "--checkpoint", "cp", "--sink", "out"]
    assert main(["stream", query, "--engine", "spark", *places, *options]) == 0
    [row] = spark.read.parquet(str(Path("out").absolute())).collect()
    assert (row.a[0].note, row.b[0].v) == ("a;b", 2)
