"""Statements with MATCH_RECOGNIZE on streams of Spark: the corpus, random cases and restarts.

Many cases share a stream: a micro-batch costs about a second, whatever it reads.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cernis
from cernis import spark as cernis_spark
from cernis.work.row_stream import check_around
from tests.spark.test_statements import ROUNDS, assert_expected, unite
from tests.streaming.test_row_stream import list_streamed, make_case_work, report
from tools.cases.row_patterns import draw_stream_case
from tools.cases.sql import MIDNIGHT, SqlCase

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FAR = MIDNIGHT + timedelta(days=9)
"""After all rows of the corpus: the time of a last row, which lets time pass."""
STREAM = {"tasks": 1, "ahead": None}
AT_ONCE = 10


class CorpusStream:
    """Cases that share one stream, each with a folder of its own for its tables."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.cases: list[SqlCase] = []
        self.frames: list[Any] = []

    def add(self, case: SqlCase) -> None:
        """Make the case's DataFrame; raises what Cernis says where a stream cannot have it."""
        own = self.folder / f"in{len(self.cases)}"
        tables = {name: self.write(own / name, pieces) for name, pieces in cut(case).items()}
        dialect = "spark" if case.topic == "standard" else case.dialect
        found = cernis_spark.sql(self.spark, case.query, tables, dialect=dialect, stream=STREAM)
        self.cases.append(case)
        self.frames.append(found)

    def write(self, source: Path, pieces: Sequence[pa.Table]) -> Any:
        """Return a stream that reads the pieces of a table one after the other."""
        source.mkdir(parents=True, exist_ok=True)
        for at, piece in enumerate(pieces):
            pq.write_table(piece, source / f"{at}.parquet")
            os.utime(source / f"{at}.parquet", (at + 1, at + 1))
        schema = self.spark.createDataFrame(pieces[0]).schema
        read = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        return read.parquet(str(source))

    def run(self) -> list[list[dict[str, Any]]]:
        """Return the rows of each case."""
        writing = unite(self.frames).writeStream.format("json").trigger(availableNow=True)
        writing = writing.option("checkpointLocation", str(self.folder / "kept"))
        writing.start(str(self.folder / "out")).awaitTermination()
        found: list[list[dict[str, Any]]] = [[] for _ in self.cases]
        read = self.spark.read.schema("case int, line string").json(str(self.folder / "out"))
        for row in read.collect():
            found[row["case"]].append(json.loads(row["line"]))
        return found


def cut(case: SqlCase) -> dict[str, list[pa.Table]]:
    """Return the tables of a case, each in order of time, in two pieces and a last row."""
    found = {}
    for name, table in case.tables.items():
        times = [each.name for each in table.schema if pa.types.is_timestamp(each.type)]
        table = table.sort_by(times[0])
        far = [{**row, times[0]: FAR} for row in table.to_pylist()[:1]]
        last = pa.Table.from_pylist(far, table.schema)
        found[name] = [table.slice(0, 4), table.slice(4), last]
    return found


def find_certain(case: SqlCase) -> SqlCase | None:
    """Return a case with the rows that a bucket alone reports of its pieces.

    None: one process refuses what Spark does around the clause.
    """
    with suppress(cernis.QueryError):
        check_around(cernis.SqlQuery(case.query, case.dialect))
        [pieces] = cut(case).values()
        rows = report(make_case_work(case), pieces, False, after=1)
        return replace(case, rows=tuple(tuple(row.values()) for row in rows))
    return None


def check_cases(spark: SparkSession, folder: Path, cases: Sequence[SqlCase]) -> None:
    """Check that a stream reports the rows of some cases that are certain, and no others."""
    stream = CorpusStream(spark, folder)
    for case in cases:
        stream.add(case)
    for case, rows in zip(cases, stream.run(), strict=True):
        case.check(rows, whole=False)
        certain = find_certain(case)
        if certain is not None:
            certain.check(rows)


@pytest.mark.parametrize(
    "chosen",
    [list_streamed()[::20], pytest.param(list_streamed(), marks=pytest.mark.fuzz)],
    ids=("some", "all"),
)
def test_streams_report_rows_of_the_corpus(
    spark: SparkSession, few_partitions: None, tmp_path: Path, chosen: Sequence[SqlCase]
) -> None:
    for first in range(0, len(chosen), AT_ONCE):
        check_cases(spark, tmp_path / str(first), chosen[first : first + AT_ONCE])


STREAMED = "c int, g string, t timestamp, x long"


@pytest.mark.parametrize("first", range(0, 10_000 * ROUNDS, 10_000))
def test_random_statements_on_a_stream_that_starts_anew(
    spark: SparkSession, tmp_path: Path, first: int
) -> None:
    """Cases of the oracle in one stream; after half of the rows, another run goes on with it."""
    cases = [draw_stream_case(first + 1000 * number, bounded=True) for number in range(3)]
    source, kept, sink = (tmp_path / name for name in ("in", "kept", "out"))
    source.mkdir()

    def write(piece: str, chosen: Callable[[int], bool], last: int | None = None) -> None:
        rows = [
            {"c": number, "g": row["g"], "t": row["t"], "x": row["x"]}
            for number, case in enumerate(cases)
            for row in case.rows
            if chosen(row["t"])
        ]
        if last is not None:  # time passes
            rows += [{"c": number, "g": "z", "t": last, "x": 0} for number in range(len(cases))]
        begin = datetime(2026, 1, 1, tzinfo=UTC)
        told = [{**row, "t": str(begin + timedelta(seconds=row["t"]))} for row in rows]
        (source / f"{piece}.json").write_text("\n".join(map(json.dumps, told)))

    def run() -> None:
        """Run the stream until it has read what there is, as a new driver would."""
        frames = []
        for number, case in enumerate(cases):
            read = spark.readStream.schema(STREAMED).json(str(source))
            rows = read.filter(f"c = {number}").drop("c")
            frames.append(cernis_spark.sql(spark, case.statement, t=rows, stream=STREAM))
        writing = unite(frames).filter("get_json_object(line, '$.g') <> 'z'").writeStream
        writing = writing.format("json").option("checkpointLocation", str(kept))
        writing.trigger(availableNow=True).start(str(sink)).awaitTermination()

    write("0", lambda t: t < 10)
    run()
    write("1", lambda t: t >= 10, last=1000)
    run()
    assert_expected(cases, spark.read.schema("case int, line string").json(str(sink)).collect())


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
    endless = clause.replace("WITHIN INTERVAL '10' SECOND", "")
    with pytest.warns(UserWarning, match="without WITHIN: the state keeps the rows"):
        cernis_spark.match_recognize(frame, endless, stream={"tasks": 2})
    found = cernis_spark.match_recognize(frame, clause, stream=stream)
    writing = found.writeStream.format("memory").queryName("vees").trigger(availableNow=True)
    writing.option("checkpointLocation", checkpoint).start().awaitTermination()
    told = sorted((row["k"], row["v"], row["n"]) for row in spark.table("vees").collect())
    whole = cernis_spark.match_recognize(spark.read.schema(schema).json(str(source)), clause)
    assert told == [("x", 1, 2), ("x", 1, 3), ("y", 4, 2)]
    assert told == sorted((row["k"], row["v"], row["n"]) for row in whole.collect())
