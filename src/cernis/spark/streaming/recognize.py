"""From a job on streams to the streaming DataFrame of its matches.

`dataflow` has what all queries share: the watermark, the buckets, the matches.

One query runs all rules of a set: the rows are read once, and one shuffle takes each to the buckets
of the keys of rules that it can move (`packing.RuleSpreader`). A bucket has the rules of one key,
and one session for all of them. The rules of a micro-batch read the events that the watermark
passes in it. So a rule that is new begins with these events, whichever micro-batch they came in.
How rules change while the stream goes on: `versions`.
"""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Callable, Iterator
from functools import partial, reduce
from operator import or_
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from cernis.errors import DataError
from cernis.plan.explain import describe_unbounded_wait, why_idle_stay
from cernis.plan.plan import Distribution, Plan
from cernis.run.freeze import list_versions
from cernis.spark.frame import Frame, arrow_type
from cernis.spark.keys import KeyedRules
from cernis.spark.notes import Notes, WatchedQuery
from cernis.spark.options import JobOptions, count_tasks, shuffle_partitions
from cernis.spark.prepare import Job, QueryJob, RuleJob, make_work
from cernis.spark.rows import key_bucket, read_condition, spread_by_key, travelling_columns
from cernis.spark.streaming.dataflow import (
    SHIFT,
    add_watermark,
    choose_buckets,
    describe_answer,
    digest_state,
    explain_rejection,
    find_matches,
    goes_on,
    prepare_session,
    row_metrics,
)
from cernis.spark.streaming.packing import RuleSpreader, bucket_column
from cernis.spark.streaming.progress import ROWS
from cernis.spark.streaming.versions import record_rules
from cernis.work.bucket import BucketWork
from cernis.work.checkpoint import FUNCTIONS, claim
from cernis.work.columns import BUCKET, EVENT, REASON, ROW, STREAM
from cernis.work.query import QueryWork
from cernis.work.rule_record import BucketGroup, RuleRecord
from cernis.work.rules import make_rules

Selected = tuple[Column | None, list[Column]]
"""Where the rows of a frame are read (None: everywhere), and the columns that only these have."""


def recognize_stream(job: QueryJob, notes: Notes | None = None) -> Any:
    """Return the streaming DataFrame of the matches."""
    check_frames(job)
    _warn_about_state(job.plan)
    work, options = make_work(job), job.options
    single = job.layout.distribution is Distribution.SINGLE
    buckets = choose_buckets(job.frames[0].source.sparkSession, options, single=single)
    stream = BucketWork(
        work=work,
        query=_fingerprint_query(work, buckets),
        buckets=buckets,
        numbered=options.row is not None,
        shift=_choose_shift(job.frames[0]),
        window=job.window,
    )
    if options.checkpoint is not None:
        claim(options.checkpoint, _describe_query(job, stream), options.secret)
    name = _watch(notes, [WatchedQuery(job.plan)], job)
    rows = _select_rows(job, stream, notes, name, partial(_select_frame, job, stream))
    return find_matches(rows, stream, options, name)


def recognize_rule_stream(job: RuleJob, notes: Notes | None = None) -> Any:
    """Return the streaming DataFrame of the lines of all rules."""
    check_frames(job)
    for rule in job.rules:
        _warn_about_state(rule.query.plan, f"rule {rule.name}: ")
    record = _record(job)
    stream = BucketWork(
        work=job.work,
        query=_fingerprint_rules(job),
        buckets=record.buckets,
        numbered=job.options.row is not None,
        shift=_choose_shift(job.frames[0]),
        record=record,
    )
    versions = range(len(record.versions))
    equalities = tuple(tuple(_list_equalities(record, number)) for number in versions)
    name = _watch(notes, list(_list_watched(job)), job)
    rows = _select_rows(job, stream, notes, name, partial(_select_for_rules, job, record))
    spread = RuleSpreader(job.work, record, equalities)
    return find_matches(rows, stream, job.options, name, spread)


# ---------------------------------------------------------------- decisions


def check_frames(job: Job) -> None:
    """Raise an error for frames that cannot be streamed, and set what the state store needs."""
    first = job.frames[0]
    if first.time is None:
        raise DataError(
            f"stream {first.stream!r}: a stream is read in order of time, and has no time "
            "column; name it with time=, or add one (current_timestamp() is when rows came)"
        )
    prepare_session(first.source.sparkSession)


def _warn_about_state(plan: Plan, rule: str = "") -> None:
    """Warn about state that time does not bound."""
    if plan.keeps_idle:
        why = why_idle_stay(plan.pattern)
        warnings.warn(f"{rule}the state grows with the number of keys: {why}", stacklevel=4)
    waits = describe_unbounded_wait(plan)
    if waits:
        bound = f"LONGEST, and nothing bounds a match: {waits}"
        warnings.warn(f"{rule}{bound}", stacklevel=4)


def _choose_shift(frame: Frame) -> int:
    """Return how many milliseconds are added to the times of events."""
    dated = (T.TimestampType, T.TimestampNTZType, T.DateType)
    return 0 if isinstance(frame.time_type, dated) else SHIFT


def _watch(notes: Notes | None, queries: list[WatchedQuery], job: Job) -> str:
    """Let notes watch the rows; return a name for their metrics, which no other query has."""
    name = secrets.token_hex(4)
    if notes is not None:
        notes.watch_stream(queries, job.frames, name)
    return name


def _list_watched(job: RuleJob) -> Iterator[WatchedQuery]:
    """Yield the rules whose events come from outside."""
    made = {rule.query.pattern.into for rule in job.rules}
    for rule in job.rules:
        if made.isdisjoint(rule.query.pattern.streams):
            yield WatchedQuery(rule.query.plan, rule)


def _record(job: RuleJob) -> RuleRecord:
    """Return which rules hold from which micro-batch on, and note it in the checkpoint."""
    spark, options = job.frames[0].source.sparkSession, job.options
    note = {
        "columns": _describe_columns(job),
        "answer": describe_answer(job.work),
        "state": _fingerprint_rules(job),
        **_note_functions(*(rule.text for rule in job.rules)),
    }
    sizes = options.tasks or count_tasks(spark), int(shuffle_partitions(spark))
    return record_rules(options.checkpoint, note, job.keyed, sizes, options.secret)


def _list_equalities(record: RuleRecord, version: int) -> Iterator[Any]:
    """Yield for each group what `RuleSpreader` needs of its rules."""
    for group, texts in zip(record.groups, record.versions[version].rules, strict=True):
        rules = make_rules(texts).rules
        yield KeyedRules(group.key, rules).equalities if rules else frozenset()


# --------------------------------------------------------------- checkpoints


def _describe_query(job: QueryJob, stream: BucketWork) -> dict[str, Any]:
    """Describe the query, for the note in its checkpoint."""
    return {
        "query": str(job.plan.conjunctive or job.plan.pattern),
        "columns": _describe_columns(job),
        "answer": describe_answer(stream.work),
        "buckets": [*stream.buckets],
        "state": stream.query,
        **_note_functions(str(job.plan.conjunctive or job.plan.pattern)),
    }


def _note_functions(*queries: str) -> dict[str, dict[str, str]]:
    """Return the versions of the functions of users, if there are any."""
    versions = list_versions(*queries)
    return {FUNCTIONS: versions} if versions else {}


def _describe_columns(job: Job) -> dict[str, dict[str, str]]:
    """Return the types of the columns that travel, for the note in a checkpoint."""
    return {
        frame.stream: {
            name: str(frame.own_type(name) or arrow_type(found[1]))
            for name in sorted(job.columns[frame.stream])
            if (found := frame.attribute(name)) is not None
        }
        for frame in job.frames
    }


def _fingerprint_query(work: QueryWork, buckets: tuple[int, ...]) -> str:
    """Return a digest of what a state belongs to: the query, its columns and its buckets."""
    reading = work.reading
    return digest_state(
        str(work.plan.pattern),
        str(work.plan.conjunctive),
        repr(work.plan.unindexed.write_names()),
        repr([(own.name, sorted(own.columns.items())) for own in work.streams]),
        repr((reading.time, reading.type, reading.time_unit, work.scale, work.form)),
        repr(sorted((str(atom), bit) for atom, bit in work.bits.items())),
        str(work.schema),
        repr(buckets),
    )


def _fingerprint_rules(job: RuleJob) -> str:
    """Return a digest of what a state belongs to: the columns of events, and how they are read."""
    work, reading = job.work, job.work.reading
    return digest_state(
        repr([(own.name, sorted(own.columns.items())) for own in work.streams]),
        repr((reading.time, reading.type, reading.time_unit, work.scale)),
        str(work.rows),
        str(work.schema),
    )


# --------------------------------------------------------------------- rows


def _select_rows(
    job: Job,
    stream: BucketWork,
    notes: Notes | None,
    name: str,
    select: Callable[[Frame], Selected],
) -> Any:
    """Return the rows of all streams that travel."""
    rows = None
    for i, frame in enumerate(job.frames):
        data = _watch_times(job, frame, stream.shift, f"{ROWS}{name}.{i}", notes)
        read, columns = select(frame)
        wanted = F.col(REASON).isNull() if read is None else F.col(REASON).isNull() & read
        number = i if len(job.frames) > 1 else None
        own = data.filter(goes_on(wanted, job.options)).select(
            *columns, *_describing_columns(frame, job.options, number)
        )
        rows = own if rows is None else rows.unionByName(own, allowMissingColumns=True)
    return rows


def _watch_times(job: Job, frame: Frame, shift: int, metrics: str, notes: Notes | None) -> Any:
    """Add why a row is set aside, its number, and the watermark; count rows as `metrics`."""
    options = job.options
    number = F.lit(0) if options.row is None else frame.columns[options.row][0]
    micros, untimed = frame.micros, frame.untimed
    assert micros is not None
    assert untimed is not None
    corrupt = options.corrupt
    undecoded = None if corrupt is None else frame.columns[corrupt][0].isNotNull()
    reason = explain_rejection(micros, untimed, undecoded, options, shift)
    rows = frame.data.withColumn(REASON, reason).withColumn(ROW, number.cast("bigint"))
    sights = () if notes is None else notes.columns(frame)
    return add_watermark(rows, micros, options, shift).observe(metrics, *row_metrics(), *sights)


def _select_frame(job: QueryJob, stream: BucketWork, frame: Frame) -> Selected:
    relevance = job.pushdown.relevance[frame.stream]
    columns = travelling_columns(
        frame, job.plan, job.layout, job.pushdown, job.columns[frame.stream]
    )
    bucket = F.lit(stream.buckets[0])
    if len(stream.buckets) > 1:
        bucket = _find_number(stream.buckets, key_bucket(frame, job.plan, len(stream.buckets)))
    read = read_condition(frame, job.plan, job.layout, relevance)
    return read, [*columns, bucket.alias(BUCKET)]


def _select_for_rules(job: RuleJob, record: RuleRecord, frame: Frame) -> Selected:
    """Return where an event has the key of some rule, and its bucket for each key."""
    buckets = [_find_bucket(frame, group) for group in record.groups]
    columns = [frame.columns[n][0].alias(c) for n, c in job.columns[frame.stream].items()]
    columns += [bucket.alias(bucket_column(g)) for g, bucket in enumerate(buckets)]
    read = reduce(or_, (bucket.isNotNull() for bucket in buckets))
    return read, [*columns, F.lit(record.buckets[0]).alias(BUCKET)]


def _find_bucket(frame: Frame, group: BucketGroup) -> Column:
    """Return the bucket of an event for the rules of a key; NULL where it has no key."""
    if group.key.is_single:
        return F.lit(group.buckets[0])
    key, buckets = group.key, group.buckets
    return _find_number(
        buckets, spread_by_key(frame, key.partition, dict(key.implied), len(buckets))
    )


def _find_number(buckets: tuple[int, ...], index: Column) -> Column:
    """Return the number of the bucket with an index."""
    return F.element_at(F.array(*(F.lit(number) for number in buckets)), index + 1)


def _describing_columns(frame: Frame, options: JobOptions, number: int | None) -> Iterator[Column]:
    """Yield the columns beside attributes: row, stream, why a row is set aside, its whole text."""
    if options.row is not None:
        yield F.col(ROW)
    if number is not None:
        yield F.lit(number).alias(STREAM)
    yield F.col(REASON)
    if options.late_output:
        whole = F.struct(*(column.alias(name) for name, (column, _) in frame.columns.items()))
        yield F.to_json(whole).alias(EVENT)
