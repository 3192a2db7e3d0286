"""A query on streaming DataFrames, as a streaming DataFrame.

Spark keeps the watermark: the largest time that it has seen in all the rows of a stream
(whether a query can use them or not), less the lateness that is allowed; of several streams
the smallest. Events of a clock too far ahead do not count for it and are set aside, since one
of them would make all others late.

Buckets are numbered so that Spark's own hash of the number spreads them evenly over its
partitions: the numbers 0, 1, 2, … can all fall into one.
"""

from __future__ import annotations

import hashlib
import secrets
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property, partial
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from cernis.errors import DataError
from cernis.events.times import UNITS
from cernis.spark.frame import Frame, quoted
from cernis.spark.job import DEFAULT_TASKS, Job
from cernis.spark.streaming.aside import AHEAD, ASIDE, UNDECODABLE, UNTIMED, WHOLE, Aside
from cernis.spark.streaming.bucket import Course
from cernis.spark.streaming.checkpoint import claim, noted
from cernis.spark.streaming.interval import milliseconds
from cernis.spark.streaming.packing import PACKED, Packing, packed_rows, read_blob
from cernis.spark.streaming.processor import ANSWER, FOUND, REPORTED, BucketProcessor
from cernis.spark.streaming.progress import BUCKETS, ROWS
from cernis.spark.worker import BUCKET, ROW, STREAM, Work

MARK = "@mark"
SHIFT = 2**43
"""Milliseconds that times given as plain numbers are moved by: Spark's watermark begins at 0."""

_FIRST_TIME = "0001-01-01 00:00:00"
_STORE = "spark.sql.streaming.stateStore."
_PROVIDERS = "org.apache.spark.sql.execution.streaming.state."
_SETTINGS = {
    f"{_STORE}providerClass": (
        f"{_PROVIDERS}HDFSBackedStateStoreProvider",
        f"{_PROVIDERS}RocksDBStateStoreProvider",
    ),
    f"{_STORE}rocksdb.changelogCheckpointing.enabled": ("false", "true"),
}
"""What the query cannot run without: Spark's default, and ours unless the user chose another."""


@dataclass(frozen=True, kw_only=True)
class Live:
    """How a query is run on a stream."""

    lateness: str | timedelta = "0 seconds"
    ahead: str | timedelta | None = "1 hour"
    late_output: str | None = None
    checkpoint: str | None = None


@dataclass(frozen=True)
class StreamJob:
    """A query on streaming DataFrames, decided and not yet run."""

    job: Job
    live: Live

    @cached_property
    def name(self) -> str:
        """What its numbers are called; Spark wants all names in a query to differ."""
        return secrets.token_hex(4)

    @property
    def spark(self) -> Any:
        return self.job.frames[0].source.sparkSession

    def matches(self) -> Any:
        """The streaming DataFrame of the answer."""
        self._check()
        course = self.course()
        if self.live.checkpoint is not None:
            claim(self.live.checkpoint, self._note(course))
        aside = Aside(self.live.late_output) if self.live.late_output else None
        packing = Packing(
            tuple(frame.stream for frame in self.job.frames),
            aside,
            fails=self.job.options.on_error == "fail",
        )
        packed = self._rows(course).mapInArrow(partial(packed_rows, packing), PACKED)
        found = packed.groupBy("bucket").transformWithState(
            BucketProcessor(course, aside),
            outputStructType=T.StructType.fromDDL(ANSWER),
            outputMode="Append",
            timeMode="EventTime",
        )
        work = course.work
        assert work.schema is not None
        schema = from_arrow_schema(work.schema, prefer_timestamp_ntz=True)
        told = found.observe(f"{BUCKETS}{self.name}", *_reports(course))
        return told.filter(F.col(FOUND).isNotNull()).select(FOUND).mapInArrow(_unpacked, schema)

    # ------------------------------------------------------------ decisions

    def course(self) -> Course:
        """What the buckets are told."""
        job = self.job
        buckets = self._buckets()
        timed_by_number = not isinstance(job.frames[0].time_type, _DATED)
        return Course(
            work=job.work,
            query=_name(job.work, buckets),
            buckets=buckets,
            numbered=job.options.row is not None,
            shift=SHIFT if timed_by_number else 0,
            window=job.window,
        )

    def _buckets(self) -> tuple[int, ...]:
        """Those of the checkpoint, unless their number is asked for."""
        note = None if self.live.checkpoint is None else noted(self.live.checkpoint)
        if note is not None and self.job.options.tasks in (None, len(note["buckets"])):
            return tuple(note["buckets"])
        return _balanced(self.spark, self.job.tasks)

    def _note(self, course: Course) -> dict[str, Any]:
        work = course.work
        return {
            "query": str(work.plan.conjunctive or work.plan.pattern),
            "columns": {
                frame.stream: {
                    name: str(frame.arrow.field(name).type) if name in frame.arrow.names else ""
                    for name in sorted(self.job.columns[frame.stream])
                }
                for frame in self.job.frames
            },
            "answer": [f"{field.name}: {field.type}" for field in work.schema or ()],
            "buckets": [*course.buckets],
            "state": course.query,
        }

    def _check(self) -> None:
        first = self.job.frames[0]
        if first.time is None:
            raise DataError(
                f"stream {first.stream!r}: a stream is read in order of time, and has no time "
                "column; name it with time=, or add one (current_timestamp() is when rows came)"
            )
        zone = self.spark.conf.get("spark.sql.session.timeZone")
        if isinstance(first.time_type, T.TimestampNTZType) and zone not in ("UTC", "Etc/UTC", "Z"):
            raise DataError(
                f"stream {first.stream!r}: the time column {first.time!r} has no zone, and the "
                f"session's is {zone}; cast it to timestamp, or set spark.sql.session.timeZone "
                "to UTC"
            )
        for name, (default, value) in _SETTINGS.items():
            if self.spark.conf.get(name, "") in ("", default):
                self.spark.conf.set(name, value)
        told = self.spark.conf.get("spark.sql.shuffle.partitions", DEFAULT_TASKS)
        if told == DEFAULT_TASKS:
            warnings.warn(
                f"spark.sql.shuffle.partitions is {told}, and every micro-batch will start so "
                "many tasks; set it to the number of cores before the first run (it stays what "
                "it was for a checkpoint)",
                stacklevel=4,
            )

    # ----------------------------------------------------------- DataFrames

    def _rows(self, course: Course) -> Any:
        rows = None
        for i, frame in enumerate(self.job.frames):
            some = self._of_frame(i, frame, course)
            rows = some if rows is None else rows.unionByName(some, allowMissingColumns=True)
        return rows

    def _of_frame(self, i: int, frame: Frame, course: Course) -> Any:
        job = self.job
        fits = job.relevance(frame)
        kept = job.kept(frame, fits)
        told = F.col(ASIDE)
        data = frame.data.withColumn(ASIDE, self._reason(frame, course))
        if job.options.row is not None:
            data = data.withColumn(ROW, frame.columns[job.options.row][0].cast("bigint"))
        else:
            data = data.withColumn(ROW, F.lit(0).cast("bigint"))
        mark = F.when(told.isNull(), _shifted(_micros(frame), course.shift))
        first = F.lit(_FIRST_TIME).cast("timestamp")
        data = data.withColumn(MARK, F.coalesce(F.timestamp_micros(mark), first))
        lateness = milliseconds("lateness", self.live.lateness)
        data = data.withWatermark(quoted(MARK), f"{lateness} milliseconds")
        data = data.observe(f"{ROWS}{self.name}.{i}", *_counted(told))
        wanted = told.isNull() if kept is None else told.isNull() & kept
        data = data.filter(wanted | self._needed_aside(told))
        columns = job.travelling(frame, fits if kept is None or job.layout.places else None)
        extra = [F.lit(course.buckets[0]).alias(BUCKET)]
        if len(course.buckets) > 1:
            ids = F.array(*(F.lit(number) for number in course.buckets))
            extra = [F.element_at(ids, job.bucket(frame, len(course.buckets)) + 1).alias(BUCKET)]
        if job.options.row is not None:
            extra.append(F.col(ROW))
        if len(job.frames) > 1:
            extra.append(F.lit(i).alias(STREAM))
        extra.append(told)
        if self.live.late_output:
            extra.append(_whole(frame))
        return data.select(*columns, *extra)

    def _needed_aside(self, reason: Column) -> Column:
        """Of the events that are not read, those that go on: to be written, or to be an error."""
        if self.live.late_output:
            return reason.isNotNull()
        if self.job.options.on_error == "fail":
            return reason.isNotNull() & (reason != AHEAD)
        return F.lit(False)

    def _reason(self, frame: Frame, course: Course) -> Column:
        """Why an event cannot be read; NULL where it can."""
        untimed, micros = frame.untimed, _micros(frame)
        assert untimed is not None
        reason = F.when(untimed, UNTIMED)
        if (corrupt := self.job.options.corrupt) is not None:
            undecoded = frame.columns[corrupt][0].isNotNull()
            reason = F.when(undecoded, UNDECODABLE).when(untimed, UNTIMED)
        if self.live.ahead is not None:
            reason = reason.when(
                micros > _clock_and(1000 * milliseconds("ahead", self.live.ahead)), AHEAD
            )
        return reason.when(_shifted(micros, course.shift).isNull(), UNTIMED)


_DATED = (T.TimestampType, T.TimestampNTZType, T.DateType)


def _reports(course: Course) -> Iterator[Column]:
    for name in REPORTED:
        yield F.sum(name).alias(name)
    for number in course.buckets[:64]:
        for name in ("kept", "waiting"):
            own = F.when(F.col("bucket") == number, F.col(name))
            yield F.max(own).alias(f"{name} in {number}")


def _counted(reason: Column) -> Iterator[Column]:
    yield F.count(F.lit(1)).alias("rows")
    for name in (UNTIMED, UNDECODABLE, AHEAD):
        yield F.count_if(reason == name).alias(name)


def _micros(frame: Frame) -> Column:
    """The time of an event in microseconds, NULL where that is too far away."""
    moment = frame.moment
    assert moment is not None
    match frame.time_type:
        case T.TimestampType():
            return moment
        case T.TimestampNTZType():
            return F.unix_micros(moment.cast("timestamp"))
        case T.DateType():
            return moment * F.lit(86_400_000_000)
    tick = frame.scale.unit_ns
    assert tick is not None
    if tick < UNITS["us"]:
        return F.floor(moment / F.lit(UNITS["us"] // tick)).cast("bigint")
    return F.try_multiply(moment, F.lit(tick // UNITS["us"]))


def _shifted(micros: Column, shift: int) -> Column:
    moved = F.try_add(micros, F.lit(1000 * shift)) if shift else micros
    return F.when(moved.between(F.lit(-(2**57)), F.lit(2**57)), moved)


def _clock_and(ahead: int) -> Column:
    """The time of the machine and so much more, in microseconds; rounded up by a part of that.

    A time that differs in each micro-batch would have Spark compile the query anew each time.
    """
    step = max(ahead // 4, 60_000_000)
    later = F.unix_micros(F.current_timestamp()) + F.lit(ahead)
    return (F.floor(later / F.lit(step)) + F.lit(1)) * F.lit(step)


def _whole(frame: Frame) -> Column:
    """An event as it came."""
    fields = [column.alias(name) for name, (column, _) in frame.columns.items()]
    return F.to_json(F.struct(*fields)).alias(WHOLE)


def _unpacked(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for blob in batch.column(0):
            yield from read_blob(blob.as_py()).to_batches()


def _balanced(spark: Any, number: int) -> tuple[int, ...]:
    """Numbers of buckets that Spark's hash spreads evenly over its partitions."""
    if number == 1:
        return (0,)
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions", DEFAULT_TASKS))
    place = F.pmod(F.hash(F.col("id").cast("int")), F.lit(partitions))
    candidates = spark.range(64 * max(number, partitions)).select(place.alias("place")).collect()
    found: dict[int, list[int]] = {}
    for number_, row in enumerate(candidates):
        found.setdefault(row["place"], []).append(number_)
    rounds = [found.get(i % partitions, []) for i in range(number)]
    taken = [ids.pop(0) for ids in rounds if ids]
    spare = (number_ for ids in found.values() for number_ in ids)
    while len(taken) < number:
        taken.append(next(spare))
    return tuple(taken)


def _name(work: Work, buckets: tuple[int, ...]) -> str:
    """What a state belongs to: the query, what it reads, and how it is spread."""
    described = [
        str(work.plan.pattern),
        str(work.plan.conjunctive),
        repr(sorted(work.plan.unordered)),
        repr([(part.stream, sorted(part.columns.items())) for part in work.parts]),
        repr((work.time, work.type, work.time_unit, work.scale, work.wanted)),
        repr(sorted((str(atom), bit) for atom, bit in work.bits.items())),
        str(work.schema),
        repr(buckets),
    ]
    return hashlib.sha256("\n".join(described).encode()).hexdigest()[:32]
