"""From a `Job` on streams to the streaming DataFrame of its matches.

Spark keeps the watermark: the largest time among all rows of a stream, relevant or not, less
the allowed lateness; of several streams, the smallest. Events too far ahead of the clock are
set aside and do not count for it, since one of them would make all others late.

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
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from cernis.errors import DataError
from cernis.events.times import UNITS
from cernis.plan.explain import WAITS_UNBOUNDED, why_idle_stay
from cernis.spark.frame import Frame
from cernis.spark.options import DEFAULT_TASKS, shuffle_partitions
from cernis.spark.prepare import Job, make_work
from cernis.spark.rows import key_bucket, read_condition, travelling_columns
from cernis.spark.streaming.balance import choose_balanced
from cernis.spark.streaming.bucket import StreamWork
from cernis.spark.streaming.checkpoint import claim, read_note
from cernis.spark.streaming.interval import parse_milliseconds
from cernis.spark.streaming.packing import PACKED, Packing, pack_rows, read_blob
from cernis.spark.streaming.processor import ANSWER, FOUND, REPORTED, BucketProcessor
from cernis.spark.streaming.progress import BUCKETS, GAUGES, ROWS
from cernis.spark.streaming.side_output import AHEAD, EVENT, REASON, UNDECODABLE, UNTIMED
from cernis.spark.unify import quote_name
from cernis.spark.worker import BUCKET, ROW, STREAM, Work

MARK = "@mark"
SHIFT = 2**43
"""Milliseconds added to times that are plain numbers: Spark's watermark begins at 0."""

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
"""Settings that a query needs: Spark's default, and the value that replaces it."""


@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """How a query runs on a stream; `recognize` documents the options."""

    lateness: str | timedelta = "0 seconds"
    ahead: str | timedelta | None = "1 hour"
    late_output: str | None = None
    checkpoint: str | None = None


def recognize_stream(job: Job, options: StreamOptions) -> Any:
    """Return the streaming DataFrame of the matches."""
    _check(job)
    stream = _make_stream_work(job, options)
    if options.checkpoint is not None:
        claim(options.checkpoint, _note(job, stream))
    side_output = options.late_output or None
    streams = tuple(frame.stream for frame in job.frames)
    packing = Packing(streams, side_output is not None, fails=job.options.on_error == "fail")
    name = secrets.token_hex(4)  # Spark wants all names of metrics in a query to differ
    rows = _select_rows(job, options, stream, f"{ROWS}{name}")
    found = (
        rows.mapInArrow(partial(pack_rows, packing), PACKED)
        .groupBy("bucket")
        .transformWithState(
            BucketProcessor(stream, side_output),
            outputStructType=T.StructType.fromDDL(ANSWER),
            outputMode="Append",
            timeMode="EventTime",
        )
        .observe(f"{BUCKETS}{name}", *_bucket_metrics(stream))
    )
    schema = from_arrow_schema(stream.work.schema, prefer_timestamp_ntz=True)
    return found.filter(F.col(FOUND).isNotNull()).select(FOUND).mapInArrow(_unpack, schema)


# ---------------------------------------------------------------- decisions


def _check(job: Job) -> None:
    first, spark = job.frames[0], job.frames[0].source.sparkSession
    if first.time is None:
        raise DataError(
            f"stream {first.stream!r}: a stream is read in order of time, and has no time "
            "column; name it with time=, or add one (current_timestamp() is when rows came)"
        )
    zone = spark.conf.get("spark.sql.session.timeZone")
    if isinstance(first.time_type, T.TimestampNTZType) and zone not in ("UTC", "Etc/UTC", "Z"):
        raise DataError(
            f"stream {first.stream!r}: the time column {first.time!r} has no zone, and the "
            f"session's is {zone}; cast it to timestamp, or set spark.sql.session.timeZone "
            "to UTC"
        )
    if job.plan.keeps_idle:
        why = why_idle_stay(job.plan.pattern)
        warnings.warn(f"the state grows with the number of keys: {why}", stacklevel=4)
    if job.plan.pattern.waits_unbounded:
        warnings.warn(f"LONGEST, and nothing bounds a match: {WAITS_UNBOUNDED}", stacklevel=4)
    for name, (default, value) in _SETTINGS.items():
        if spark.conf.get(name, "") in ("", default):
            spark.conf.set(name, value)
    partitions = shuffle_partitions(spark)
    if partitions == DEFAULT_TASKS:
        warnings.warn(
            f"spark.sql.shuffle.partitions is {partitions}, and every micro-batch will start so "
            "many tasks; set it to the number of cores before the first run (it stays what "
            "it was for a checkpoint)",
            stacklevel=4,
        )


def _make_stream_work(job: Job, options: StreamOptions) -> StreamWork:
    work, buckets = make_work(job), _choose_buckets(job, options.checkpoint)
    return StreamWork(
        work=work,
        query=_fingerprint(work, buckets),
        buckets=buckets,
        numbered=job.options.row is not None,
        shift=0 if isinstance(job.frames[0].time_type, _DATED) else SHIFT,
        window=job.window,
    )


def _choose_buckets(job: Job, checkpoint: str | None) -> tuple[int, ...]:
    """Return the checkpoint's buckets, unless the user asks for another number."""
    note = None if checkpoint is None else read_note(checkpoint)
    if note is not None and job.options.tasks in (None, len(note["buckets"])):
        return tuple(note["buckets"])
    partitions = int(shuffle_partitions(job.frames[0].source.sparkSession))
    return choose_balanced(job.tasks, partitions)


def _note(job: Job, stream: StreamWork) -> dict[str, Any]:
    """Describe the query, for the note in its checkpoint."""
    work = stream.work
    return {
        "query": str(work.plan.conjunctive or work.plan.pattern),
        "columns": {
            frame.stream: {
                name: str(frame.arrow.field(name).type) if name in frame.arrow.names else ""
                for name in sorted(job.columns[frame.stream])
            }
            for frame in job.frames
        },
        "answer": [f"{field.name}: {field.type}" for field in work.schema or ()],
        "buckets": [*stream.buckets],
        "state": stream.query,
    }


# --------------------------------------------------------------------- rows


def _select_rows(job: Job, options: StreamOptions, stream: StreamWork, metrics: str) -> Any:
    """Return the rows of all streams that travel to the buckets."""
    rows = None
    for i, frame in enumerate(job.frames):
        data = _watch_times(job, options, stream, frame).observe(
            f"{metrics}.{i}", *_row_metrics(F.col(REASON))
        )
        own = data.filter(_goes_on(job, options, frame)).select(
            *_columns(job, options, stream, i, frame)
        )
        rows = own if rows is None else rows.unionByName(own, allowMissingColumns=True)
    return rows


def _watch_times(job: Job, options: StreamOptions, stream: StreamWork, frame: Frame) -> Any:
    """Add why a row is set aside, its number, and the watermark."""
    row = job.options.row
    number = F.lit(0) if row is None else frame.columns[row][0]
    mark = F.when(F.col(REASON).isNull(), _shifted(_micros(frame), stream.shift))
    first = F.lit(_FIRST_TIME).cast("timestamp")
    lateness = parse_milliseconds("lateness", options.lateness)
    return (
        frame.data.withColumn(REASON, _reason(job.options.corrupt, options, stream, frame))
        .withColumn(ROW, number.cast("bigint"))
        .withColumn(MARK, F.coalesce(F.timestamp_micros(mark), first))
        .withWatermark(quote_name(MARK), f"{lateness} milliseconds")
    )


def _reason(
    corrupt: str | None, options: StreamOptions, stream: StreamWork, frame: Frame
) -> Column:
    """Return why a row is set aside; NULL where it is read."""
    untimed, micros = frame.untimed, _micros(frame)
    assert untimed is not None
    reason = F.when(untimed, UNTIMED)
    if corrupt is not None:
        undecoded = frame.columns[corrupt][0].isNotNull()
        reason = F.when(undecoded, UNDECODABLE).when(untimed, UNTIMED)
    if options.ahead is not None:
        limit = _clock_and(1000 * parse_milliseconds("ahead", options.ahead))
        reason = reason.when(micros > limit, AHEAD)
    return reason.when(_shifted(micros, stream.shift).isNull(), UNTIMED)


def _goes_on(job: Job, options: StreamOptions, frame: Frame) -> Column:
    """Return which rows travel: to be read, to be written to the side output, or to be an error."""
    reason = F.col(REASON)
    relevance = job.pushdown.relevance[frame.stream]
    read = read_condition(frame, job.plan, job.layout, relevance)
    wanted = reason.isNull() if read is None else reason.isNull() & read
    if options.late_output:
        return wanted | reason.isNotNull()
    if job.options.on_error == "fail":
        return wanted | (reason.isNotNull() & (reason != AHEAD))
    return wanted


def _columns(
    job: Job, options: StreamOptions, stream: StreamWork, i: int, frame: Frame
) -> Iterator[Column]:
    yield from travelling_columns(
        frame, job.plan, job.layout, job.pushdown, job.columns[frame.stream]
    )
    bucket = F.lit(stream.buckets[0])
    if len(stream.buckets) > 1:
        numbers = F.array(*(F.lit(number) for number in stream.buckets))
        place = key_bucket(frame, job.plan, len(stream.buckets))
        bucket = F.element_at(numbers, place + 1)
    yield bucket.alias(BUCKET)
    if job.options.row is not None:
        yield F.col(ROW)
    if len(job.frames) > 1:
        yield F.lit(i).alias(STREAM)
    yield F.col(REASON)
    if options.late_output:
        whole = F.struct(*(column.alias(name) for name, (column, _) in frame.columns.items()))
        yield F.to_json(whole).alias(EVENT)


_DATED = (T.TimestampType, T.TimestampNTZType, T.DateType)


def _bucket_metrics(stream: StreamWork) -> Iterator[Column]:
    for name in REPORTED:
        yield F.sum(name).alias(name)
    for number in stream.buckets[:64]:
        for name in GAUGES:
            own = F.when(F.col("bucket") == number, F.col(name))
            yield F.max(own).alias(f"{name} in {number}")


def _row_metrics(reason: Column) -> Iterator[Column]:
    yield F.count(F.lit(1)).alias("rows")
    for name in (UNTIMED, UNDECODABLE, AHEAD):
        yield F.count_if(reason == name).alias(name)


def _micros(frame: Frame) -> Column:
    """Return the time of an event in microseconds; NULL where they do not fit."""
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
    """Return the machine's time plus `ahead`, in microseconds, rounded up to a coarse step.

    A time that differs in each micro-batch would make Spark compile the query anew each time.
    """
    step = max(ahead // 4, 60_000_000)
    later = F.unix_micros(F.current_timestamp()) + F.lit(ahead)
    return (F.floor(later / F.lit(step)) + F.lit(1)) * F.lit(step)


def _unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for blob in batch.column(0):
            yield from read_blob(blob.as_py()).to_batches()


def _fingerprint(work: Work, buckets: tuple[int, ...]) -> str:
    """Return a digest of what a state belongs to: the query, its columns and its buckets."""
    reading = work.reading
    described = [
        str(work.plan.pattern),
        str(work.plan.conjunctive),
        repr(sorted(work.plan.unordered)),
        repr([(own.name, sorted(own.columns.items())) for own in work.streams]),
        repr((reading.time, reading.type, reading.time_unit, work.scale, work.form)),
        repr(sorted((str(atom), bit) for atom, bit in work.bits.items())),
        str(work.schema),
        repr(buckets),
    ]
    return hashlib.sha256("\n".join(described).encode()).hexdigest()[:32]
