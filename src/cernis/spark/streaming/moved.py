"""A stream that one process began, on Spark.

    paths, or messages ─ tasks read them as a process does ─▶ blobs ─▶ bucket

Spark plans micro-batches and keeps offsets, state and sinks, as for any stream. Its tasks read the
files and messages with the readers of the process (`read`), so that the rows that travel, the log
and the matches are the same. The first micro-batch begins with the state of the process, and the
sources begin behind its positions.

The bucket is one, as in the process: reading and parsing spread over tasks, the engine does not.
Turned down: rows that Catalyst has evaluated, as in a stream that began on Spark. Their log has
masks in place of columns, which no process could go on with.

The way back reads the state by Spark's own reader of state stores, and the offsets and the files of
sources from the checkpoint: that of a stream which has ended after a whole micro-batch.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import time
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from cernis.errors import CernisError
from cernis.events.batch import Int64s
from cernis.spark.options import JobOptions
from cernis.spark.streaming.dataflow import MARK, prepare_session, run_buckets
from cernis.spark.streaming.kafka import load_records
from cernis.spark.streaming.packing import PACKED, PIECES, pack_buckets
from cernis.spark.streaming.progress import ROWS
from cernis.spark.streaming.sources import choose_starting
from cernis.spark.unify import quote_name
from cernis.work.bucket import BucketWork
from cernis.work.columns import AHEAD, BUCKET, REASON, UNDECODABLE, UNTIMED
from cernis.work.endpoints import Folder, Topic
from cernis.work.interval import parse_milliseconds
from cernis.work.moving import StatePiece, StatePieces
from cernis.work.side_output import select_aside

ReadArrivals = Callable[[int, pa.RecordBatch], Iterator[tuple[pa.Table, Int64s]]]
"""Reads a batch of paths, or of messages, of a source: its rows, and their times in ticks."""

_FILES = "path string, modificationTime timestamp, length bigint, content binary"
_ROWS, _AHEAD = "rows", "ahead"
_ARRIVED = f"{PACKED}, `{MARK}` timestamp, {_ROWS} bigint, {_AHEAD} bigint"
_STATE = pa.schema(
    {"bucket": pa.int32(), "kind": pa.string(), "number": pa.int64(), "content": pa.binary()}
)
_OWN = ("offsets", "commits", "state", "sources", "metadata")
"""What Spark writes into a checkpoint."""


class MovedSource(NamedTuple):
    """A source, and where it goes on: the offsets of a topic."""

    endpoint: Folder | Topic
    position: Mapping[str, int] | None
    per_trigger: int | None


@dataclass(frozen=True)
class _Packer:
    """The work of a task that reads one source."""

    number: int
    read: ReadArrivals
    tick: int
    shift: int
    ahead: int | None
    """Milliseconds; None: any time."""
    has_text: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        arrival = (context.partitionId() if context is not None else 0) * PIECES
        for batch in batches:
            for table, ticks in self.read(self.number, batch) if batch.num_rows else ():
                for packed in self._pack(table, ticks, arrival):
                    yield packed
                    arrival += 1

    def _pack(self, table: pa.Table, ticks: Int64s, arrival: int) -> Iterator[pa.RecordBatch]:
        rows, ahead = table.num_rows, 0
        if not rows:
            return
        table = table.append_column(BUCKET, pa.array(np.zeros(rows, np.int32)))
        if self.ahead is not None:
            bound = int(time() * 1000 + self.ahead) * 1_000_000 // self.tick
            late = ticks > bound
            ahead = int(late.sum())
            if ahead and self.has_text:
                aside = table.filter(pa.array(late))
                aside = aside.append_column(REASON, pa.array([AHEAD] * ahead))
                for packed in pack_buckets(select_aside(aside, BUCKET), arrival):
                    yield self._measure(packed, None, 0, 0)
            table, ticks = table.filter(pa.array(~late)), ticks[~late]
        if len(ticks):
            for packed in pack_buckets(table, arrival):
                yield self._measure(packed, int(ticks.max()), rows, ahead)

    def _measure(
        self, packed: pa.RecordBatch, last: int | None, rows: int, ahead: int
    ) -> pa.RecordBatch:
        """Return a blob with the last time of its rows, which moves Spark's watermark."""
        mark = None if last is None else last * self.tick // 1000 + 1000 * self.shift
        columns = {
            MARK: pa.array([mark], pa.timestamp("us", "UTC")),
            _ROWS: pa.array([rows]),
            _AHEAD: pa.array([ahead]),
        }
        for name, column in columns.items():
            packed = packed.append_column(name, column)
        return packed


def recognize_moved(
    spark: Any,
    sources: Sequence[MovedSource],
    read: ReadArrivals,
    stream: BucketWork,
    state: Sequence[StatePiece] | None,
    options: JobOptions,
    name: str,
) -> Any:
    """Return the matches; `state` is the state of the process before the first micro-batch."""
    prepare_session(spark)
    ahead = None if options.ahead is None else parse_milliseconds("ahead", options.ahead)
    lateness = parse_milliseconds("lateness", options.lateness)
    arrived = None
    for number, source in enumerate(sources):
        has_text = bool(options.late_output)
        pack = _Packer(number, read, stream.work.tick, stream.shift, ahead, has_text)
        own = _open(spark, source).mapInArrow(pack, _ARRIVED)
        own = own.withWatermark(quote_name(MARK), f"{lateness} milliseconds")
        own = own.observe(f"{ROWS}{name}.{number}", *_count_rows())
        arrived = own if arrived is None else arrived.unionByName(own)
    assert arrived is not None
    begins = None
    if state is not None:
        rows = [{"bucket": stream.buckets[0], **piece._asdict()} for piece in state]
        begins = spark.createDataFrame(pa.Table.from_pylist(rows, _STATE)).groupBy("bucket")
    packed = arrived.drop(MARK, _ROWS, _AHEAD)
    return run_buckets(packed, stream, options, name, begins)


def _open(spark: Any, source: MovedSource) -> Any:
    endpoint = source.endpoint
    if isinstance(endpoint, Folder):
        reader = spark.readStream.format("binaryFile").schema(_FILES)
        if source.per_trigger is not None:
            reader = reader.option("maxFilesPerTrigger", source.per_trigger)
        return reader.load(f"file://{endpoint.path}").select("path")
    starting, more = choose_starting(endpoint)
    if source.position:
        starting, more = json.dumps({endpoint.topic: source.position}), dict(more)
        more.pop("startingTimestamp", None)
    records = load_records(spark, endpoint.servers, endpoint.topic, starting=starting, options=more)
    return records.filter("value IS NOT NULL").select("value", "timestamp")


def _count_rows() -> Iterator[Any]:
    yield F.sum(_ROWS).alias(_ROWS)
    yield F.sum(_AHEAD).alias(AHEAD)
    for name in (UNTIMED, UNDECODABLE):
        yield F.count_if(F.lit(False)).alias(name)


# ------------------------------------------------------------------ the way back


class EndedStream(NamedTuple):
    """Where a stream on Spark has come to."""

    run: str
    state: StatePieces
    positions: list[tuple[Any, list[str]]]
    """For each source: the offsets of a topic, or the files that were read."""
    watermark: int
    """In milliseconds, as Spark has it."""


def is_begun(checkpoint: Path, *, committed: bool = False) -> bool:
    """Return whether Spark has planned, or committed, a micro-batch."""
    return _find_last(checkpoint / ("commits" if committed else "offsets")) >= 0


def read_run(checkpoint: Path) -> str:
    """Return the name of the run of a checkpoint."""
    return str(json.loads((checkpoint / "metadata").read_text())["id"])


def read_ended(spark: Any, checkpoint: Path) -> EndedStream:
    """Read a checkpoint of Spark's whose last micro-batch has ended."""
    last = _find_last(checkpoint / "offsets")
    if last != _find_last(checkpoint / "commits"):
        raise CernisError(
            f"--checkpoint {checkpoint}: the last micro-batch on Spark has not ended; let it: run "
            "the command once more with --engine spark --once"
        )
    state = StatePieces()
    for row in _read_state(spark, checkpoint, "header"):
        state.put(StatePiece("header", 0, bytes(row.value[0])))
    for row in _read_state(spark, checkpoint, "chunks"):
        state.put(StatePiece("chunk", row.user_map_key[0], bytes(row.user_map_value[0])))
    for row in _read_state(spark, checkpoint, "snapshot"):
        kind = ("session", "waiting")[row.user_map_key[0]]
        state.put(StatePiece(kind, 0, bytes(row.user_map_value[0])))
    lines = (checkpoint / "offsets" / str(last)).read_text().splitlines()[2:]
    positions = [
        _read_position(checkpoint / "sources" / str(number), json.loads(line))
        for number, line in enumerate(lines)
    ]
    watermark = json.loads((checkpoint / "commits" / str(last)).read_text().splitlines()[1])
    return EndedStream(read_run(checkpoint), state, positions, watermark["nextBatchWatermarkMs"])


def _read_state(spark: Any, checkpoint: Path, variable: str) -> list[Any]:
    reader = spark.read.format("statestore").option("path", f"file://{checkpoint}")
    found: list[Any] = reader.option("stateVarName", variable).load().collect()
    return found


def _read_position(log: Path, offset: Any) -> tuple[Any, list[str]]:
    if "logOffset" not in offset:
        [partitions] = offset.values()
        return {str(number): int(next_) for number, next_ in partitions.items()}, []
    files = set()
    for path in log.iterdir():
        if path.name.split(".")[0].isdecimal():
            for line in path.read_text().splitlines()[1:]:
                entry = json.loads(line)
                if int(entry["batchId"]) <= int(offset["logOffset"]):
                    files.add(Path(unquote(urlsplit(entry["path"]).path)).name)
    return ["", 0], sorted(files)


def _find_last(log: Path) -> int:
    names = (path.name for path in log.iterdir()) if log.is_dir() else ()
    return max((int(name) for name in names if name.isdecimal()), default=-1)


def remove_spark(checkpoint: Path) -> None:
    """Remove what Spark has written into a checkpoint, the offsets first."""
    for name in _OWN:
        path = checkpoint / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
            (checkpoint / f".{name}.crc").unlink(missing_ok=True)


def settle_folder(sink: Path) -> None:
    """Keep the files of whole micro-batches in a folder of matches, and drop the notes on them.

    They get other names: a later stream on Spark has its own notes, which do not name them.
    """
    notes = sink / "_spark_metadata"
    if not notes.is_dir():
        return
    for note in notes.iterdir():
        if note.name.removesuffix(".compact").isdecimal():
            for line in note.read_text().splitlines()[1:]:
                path = sink / Path(unquote(urlsplit(json.loads(line)["path"]).path)).name
                if path.exists():
                    path.rename(sink / f"moved-{path.name}")
    for path in sink.glob("part-*"):
        path.unlink()
    shutil.rmtree(notes)
