"""From a `Job` on streams to the streaming DataFrame of its matches.

`dataflow` has what the languages share: the watermark, the buckets, the matches.
"""

from __future__ import annotations

import hashlib
import secrets
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from cernis.errors import DataError
from cernis.plan.explain import describe_unbounded_wait, why_idle_stay
from cernis.plan.plan import Plan
from cernis.spark.frame import Frame, arrow_type
from cernis.spark.notes import WatchedQuery
from cernis.spark.options import JobOptions
from cernis.spark.prepare import Job, make_work
from cernis.spark.rows import key_bucket, read_condition, travelling_columns
from cernis.spark.streaming.checkpoint import claim
from cernis.spark.streaming.dataflow import (
    SHIFT,
    StreamOptions,
    add_watermark,
    choose_buckets,
    explain_rejection,
    find_matches,
    prepare_session,
    row_metrics,
)
from cernis.spark.streaming.packing import PACKED, Packing, pack_rows
from cernis.spark.streaming.progress import ROWS
from cernis.spark.streaming.side_output import AHEAD, EVENT, REASON
from cernis.spark.streaming.work import StreamWork
from cernis.spark.worker import BUCKET, ROW, STREAM, Work


def recognize_stream(job: Job, options: StreamOptions) -> Any:
    """Return the streaming DataFrame of the matches."""
    check_frames(job.frames)
    warn_about_state(job.plan)
    stream = _make_stream_work(job, options)
    if options.checkpoint is not None:
        claim(options.checkpoint, _note(job, stream), options.secret)
    side_output = options.late_output or None
    streams = tuple(frame.stream for frame in job.frames)
    packing = Packing(streams, side_output is not None, fails=job.options.on_error == "fail")
    name = secrets.token_hex(4)  # Spark wants all names of metrics in a query to differ
    if options.notes is not None:
        options.notes.watch_stream([WatchedQuery(job.plan)], job.frames, name)
    rows = _select_rows(job, options, stream, f"{ROWS}{name}")
    packed = rows.mapInArrow(partial(pack_rows, packing), PACKED)
    return find_matches(packed, stream, options, name)


# ---------------------------------------------------------------- decisions


def check_frames(frames: Sequence[Frame]) -> None:
    """Raise an error for frames that cannot be streamed, and set what the state store needs."""
    first, spark = frames[0], frames[0].source.sparkSession
    if first.time is None:
        raise DataError(
            f"stream {first.stream!r}: a stream is read in order of time, and has no time "
            "column; name it with time=, or add one (current_timestamp() is when rows came)"
        )
    prepare_session(spark)


def warn_about_state(plan: Plan, rule: str = "") -> None:
    """Warn about state that time does not bound."""
    if plan.keeps_idle:
        why = why_idle_stay(plan.pattern)
        warnings.warn(f"{rule}the state grows with the number of keys: {why}", stacklevel=4)
    waits = describe_unbounded_wait(plan)
    if waits:
        bound = f"LONGEST, and nothing bounds a match: {waits}"
        warnings.warn(f"{rule}{bound}", stacklevel=4)


def _make_stream_work(job: Job, options: StreamOptions) -> StreamWork:
    spark, work = job.frames[0].source.sparkSession, make_work(job)
    buckets = choose_buckets(spark, job.tasks, job.options.tasks, options)
    return StreamWork(
        work=work,
        query=_fingerprint(work, buckets),
        buckets=buckets,
        numbered=job.options.row is not None,
        shift=choose_shift(job.frames[0]),
        window=job.window,
    )


def choose_shift(frame: Frame) -> int:
    """Return how many milliseconds are added to the times of events."""
    dated = (T.TimestampType, T.TimestampNTZType, T.DateType)
    return 0 if isinstance(frame.time_type, dated) else SHIFT


def _note(job: Job, stream: StreamWork) -> dict[str, Any]:
    """Describe the query, for the note in its checkpoint."""
    return {
        "query": str(job.plan.conjunctive or job.plan.pattern),
        "columns": describe_columns(job.frames, job.columns),
        "answer": [f"{field.name}: {field.type}" for field in stream.work.schema or ()],
        "buckets": [*stream.buckets],
        "state": stream.query,
    }


def describe_columns(
    frames: Sequence[Frame], columns: Mapping[str, Mapping[str, str]]
) -> dict[str, dict[str, str]]:
    """Return the types of the columns that travel, for the note in a checkpoint."""
    return {
        frame.stream: {
            name: str(frame.own_type(name) or arrow_type(found[1]))
            for name in sorted(columns[frame.stream])
            if (found := frame.attribute(name)) is not None
        }
        for frame in frames
    }


# --------------------------------------------------------------------- rows


def _select_rows(job: Job, options: StreamOptions, stream: StreamWork, metrics: str) -> Any:
    """Return the rows of all streams that travel to the buckets."""
    rows = None
    for i, frame in enumerate(job.frames):
        data = watch_times(frame, job.options, options, stream.shift, f"{metrics}.{i}")
        own = data.filter(_goes_on(job, options, frame)).select(
            *_columns(job, options, stream, i, frame)
        )
        rows = own if rows is None else rows.unionByName(own, allowMissingColumns=True)
    return rows


def watch_times(
    frame: Frame, reading: JobOptions, options: StreamOptions, shift: int, metrics: str
) -> Any:
    """Add why a row is set aside, its number, and the watermark; count rows as `metrics`."""
    row, corrupt = reading.row, reading.corrupt
    number = F.lit(0) if row is None else frame.columns[row][0]
    micros, untimed, notes = frame.micros, frame.untimed, options.notes
    assert micros is not None
    assert untimed is not None
    undecoded = None if corrupt is None else frame.columns[corrupt][0].isNotNull()
    reason = explain_rejection(micros, untimed, undecoded, options, shift)
    rows = frame.data.withColumn(REASON, reason).withColumn(ROW, number.cast("bigint"))
    sights = () if notes is None else notes.columns(frame)
    return add_watermark(rows, micros, options, shift).observe(metrics, *row_metrics(), *sights)


def _goes_on(job: Job, options: StreamOptions, frame: Frame) -> Column:
    """Return which rows travel: to be read, to be written to the side output, or to be an error."""
    reason = F.col(REASON)
    relevance = job.pushdown.relevance[frame.stream]
    read = read_condition(frame, job.plan, job.layout, relevance)
    wanted = reason.isNull() if read is None else reason.isNull() & read
    return goes_on(wanted, job.options, options)


def goes_on(wanted: Column, reading: JobOptions, options: StreamOptions) -> Column:
    """Return which rows travel, if these are read."""
    reason = F.col(REASON)
    if options.late_output:
        return wanted | reason.isNotNull()
    if reading.on_error == "fail":
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
    yield from describing_columns(frame, job.options, options, i if len(job.frames) > 1 else None)


def describing_columns(
    frame: Frame, reading: JobOptions, options: StreamOptions, number: int | None
) -> Iterator[Column]:
    """Yield the columns beside attributes: row, stream, why a row is set aside, its whole text."""
    if reading.row is not None:
        yield F.col(ROW)
    if number is not None:
        yield F.lit(number).alias(STREAM)
    yield F.col(REASON)
    if options.late_output:
        whole = F.struct(*(column.alias(name) for name, (column, _) in frame.columns.items()))
        yield F.to_json(whole).alias(EVENT)


def _fingerprint(work: Work, buckets: tuple[int, ...]) -> str:
    """Return a digest of what a state belongs to: the query, its columns and its buckets."""
    reading = work.reading
    described = [
        str(work.plan.pattern),
        str(work.plan.conjunctive),
        repr(work.plan.unindexed.write_names()),
        repr([(own.name, sorted(own.columns.items())) for own in work.streams]),
        repr((reading.time, reading.type, reading.time_unit, work.scale, work.form)),
        repr(sorted((str(atom), bit) for atom, bit in work.bits.items())),
        str(work.schema),
        repr(buckets),
    ]
    return hashlib.sha256("\n".join(described).encode()).hexdigest()[:32]
