"""From a `RuleJob` on streams to the streaming DataFrame of the lines of its rules.

One query runs all rules: the rows are read once, and one shuffle takes each to the buckets of the
keys of rules that it can move (`packing.RulePacking`). A bucket has the rules of one key, and
one session for all of them. How rules change while the stream goes on: `versions`.

The rules of a micro-batch read the events that the watermark passes in it. So a rule that is new
begins with these events, whichever micro-batch they came in.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator
from functools import partial, reduce
from operator import or_
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from cernis.spark.frame import Frame
from cernis.spark.notes import WatchedQuery
from cernis.spark.options import count_tasks, shuffle_partitions
from cernis.spark.rows import spread_by_key
from cernis.spark.rules.keys import KeyedRules
from cernis.spark.rules.packing import RulePacking, bucket_column
from cernis.spark.rules.prepare import RuleJob
from cernis.spark.rules.stream_worker import RuleStreamWork
from cernis.spark.rules.versions import BucketGroup, RuleRecord, record_rules
from cernis.spark.rules.worker import make_rules
from cernis.spark.streaming.dataflow import StreamOptions, find_matches
from cernis.spark.streaming.packing import PACKED, pack_rows
from cernis.spark.streaming.progress import ROWS
from cernis.spark.streaming.recognize import (
    check_frames,
    choose_shift,
    describe_columns,
    describing_columns,
    goes_on,
    warn_about_state,
    watch_times,
)
from cernis.spark.streaming.side_output import REASON
from cernis.spark.worker import BUCKET


def recognize_rule_stream(job: RuleJob, options: StreamOptions) -> Any:
    """Return the streaming DataFrame of the lines of all rules."""
    check_frames(job.frames)
    for rule in job.rules:
        warn_about_state(rule.query.plan, f"rule {rule.name}: ")
    record = _record(job, options)
    stream = RuleStreamWork(
        work=job.work,
        query=_fingerprint(job),
        buckets=record.buckets,
        numbered=job.options.row is not None,
        shift=choose_shift(job.frames[0]),
        record=record,
    )
    packing = RulePacking(
        streams=stream.stream_names,
        side_output=bool(options.late_output),
        fails=job.options.on_error == "fail",
        reading=job.work,
        record=record,
        equalities=tuple(
            tuple(_list_equalities(record, number)) for number in range(len(record.versions))
        ),
    )
    name = secrets.token_hex(4)  # Spark wants all names of metrics in a query to differ
    if options.notes is not None:
        options.notes.watch_stream(list(_list_watched(job)), job.frames, name)
    rows = _select_rows(job, options, stream, f"{ROWS}{name}")
    packed = rows.mapInArrow(partial(pack_rows, packing), PACKED)
    return find_matches(packed, stream, options, name)


def _list_watched(job: RuleJob) -> Iterator[WatchedQuery]:
    """Yield the rules whose events come from outside."""
    made = {rule.query.pattern.into for rule in job.rules}
    for rule in job.rules:
        if made.isdisjoint(rule.query.pattern.streams):
            yield WatchedQuery(rule.query.plan, rule)


def _record(job: RuleJob, options: StreamOptions) -> RuleRecord:
    spark = job.frames[0].source.sparkSession
    note = {
        "columns": describe_columns(job.frames, job.columns),
        "answer": [f"{field.name}: {field.type}" for field in job.work.schema],
        "state": _fingerprint(job),
    }
    sizes = job.options.tasks or count_tasks(spark), int(shuffle_partitions(spark))
    return record_rules(options.checkpoint, note, job.keyed, sizes, options.secret)


def _list_equalities(record: RuleRecord, version: int) -> Iterator[Any]:
    """Yield for each group what `RulePacking` needs of its rules."""
    for group, texts in zip(record.groups, record.versions[version].rules, strict=True):
        rules = make_rules(texts).rules
        yield KeyedRules(group.key, rules).equalities if rules else frozenset()


# --------------------------------------------------------------------- rows


def _select_rows(job: RuleJob, options: StreamOptions, stream: RuleStreamWork, metrics: str) -> Any:
    """Return the rows of all streams that travel, each with its bucket for each key."""
    rows, record = None, stream.record
    for i, frame in enumerate(job.frames):
        data = watch_times(frame, job.options, options, stream.shift, f"{metrics}.{i}")
        buckets = [_find_bucket(frame, group) for group in record.groups]
        read = reduce(or_, (bucket.isNotNull() for bucket in buckets))
        wanted = F.col(REASON).isNull() & read
        number = i if len(job.frames) > 1 else None
        own = data.filter(goes_on(wanted, job.options, options)).select(
            *(frame.columns[n][0].alias(c) for n, c in job.columns[frame.stream].items()),
            *(bucket.alias(bucket_column(g)) for g, bucket in enumerate(buckets)),
            F.lit(record.buckets[0]).alias(BUCKET),
            *describing_columns(frame, job.options, options, number),
        )
        rows = own if rows is None else rows.unionByName(own, allowMissingColumns=True)
    return rows


def _find_bucket(frame: Frame, group: BucketGroup) -> Column:
    """Return the bucket of an event for the rules of a key; NULL where it has no key."""
    if group.key.is_single:
        return F.lit(group.buckets[0])
    numbers = F.array(*(F.lit(number) for number in group.buckets))
    place = spread_by_key(frame, group.key.partition, dict(group.key.implied), len(group.buckets))
    return F.element_at(numbers, place + 1)


def _fingerprint(job: RuleJob) -> str:
    """Return a digest of what a state belongs to: the columns of events, and how they are read."""
    work, reading = job.work, job.work.reading
    described = [
        repr([(own.name, sorted(own.columns.items())) for own in work.streams]),
        repr((reading.time, reading.type, reading.time_unit, work.scale)),
        str(work.rows),
        str(work.schema),
    ]
    return hashlib.sha256("\n".join(described).encode()).hexdigest()[:32]
