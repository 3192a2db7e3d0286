"""From a job on batches to the DataFrame of its matches.

    rows ─ masks, relevance (Catalyst) ─▶ bucket or slice ─ shuffle ─ sort by time ─▶ worker

Where several tasks find matches of one group (GROUP BY), each gives its part, and Spark adds the
parts up (`group_parts`).

Parquet files in order of time are read by the tasks themselves (`row_groups`): no row is moved.

Nothing runs until the result is asked for. Only relevant events reach Python, with one integer
for all predicates and the columns that are shown or compared.

A rule set has one shuffle for each key: the rules of one key share the rows and a session in each
task. Rules without a key are spread over the tasks, which all get the rows. Spark filters the rows
that can move some rule (`rule_relevance` for large sets); one job runs all rules.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce
from itertools import takewhile
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from cernis.pattern.predicate import RANK
from cernis.pattern.query import Unit
from cernis.plan.plan import Distribution
from cernis.run.requirements import tests_and_atoms
from cernis.spark import slices
from cernis.spark.frame import Frame
from cernis.spark.keys import KeyedRules, spread_rules
from cernis.spark.numbering import count_rows, number_rows
from cernis.spark.options import SAMPLE, count_tasks
from cernis.spark.prepare import Job, QueryJob, RuleJob, empty_rows, is_sliced
from cernis.spark.relevance import relevance_condition
from cernis.spark.rows import key_bucket, read_condition, spread_by_key, travelling_columns
from cernis.spark.rule_relevance import SAMPLED, find_relevant
from cernis.spark.slices import Line
from cernis.work.columns import BUCKET, MOMENT, NOW, PLACE, ROW, STREAM, TICKS
from cernis.work.group_parts import list_columns, spark_schema
from cernis.work.query import RANKING, QueryWork, finish_groups
from cernis.work.reading import Work, recognize_rows
from cernis.work.row_groups import recognize_groups
from cernis.work.rule_record import RuleText

_PUSHED_RULES = 64
"""Of more rules, the constants are indexed by column: so many conditions outgrow compiled code."""


def recognize_batch(job: QueryJob, work: QueryWork) -> Any:
    """Return the DataFrame of the matches."""
    if job.layout.distribution is Distribution.SINGLE:
        warnings.warn(
            f"this query runs in a single task; what would make it parallel: {job.layout.parallel}",
            stacklevel=3,
        )
    assert work.schema is not None
    if work.parts is not None:
        parts = _find_matches(job, work, spark_schema(work.parts))
        added = _add_up(parts, work.parts)
        if work.placed or work.form == "lines":
            added = added.repartition(1)
        finish = partial(finish_groups, work, empty_rows(job).schema)
        return added.mapInArrow(finish, from_arrow_schema(work.schema, prefer_timestamp_ntz=True))
    if work.ranked:
        ranked = pa.schema([*work.schema, *RANKING])
        return _merge_best(job, work, _find_matches(job, work, ranked))
    found = _find_matches(job, work)
    return found if job.plan.head is None else _distinct(found, placed=job.options.placed)


def _find_matches(job: QueryJob, work: QueryWork, schema: pa.Schema | None = None) -> Any:
    """Return what tasks find in the rows that Spark sends them, or in the files that they read."""
    if job.groups is None:
        return map_rows(travelling_rows(job), work, schema)
    numbers = job.frames[0].data.sparkSession.range(0, job.tasks, 1, job.tasks)
    columns = from_arrow_schema(schema or work.schema, prefer_timestamp_ntz=True)
    return numbers.mapInArrow(partial(recognize_groups, work, job.groups), columns)


def map_rows(rows: Any, work: Work, schema: pa.Schema | None = None) -> Any:
    """Return what tasks find in their rows, in the columns of the answer, or of a schema."""
    columns = from_arrow_schema(schema or work.schema, prefer_timestamp_ntz=True)
    return rows.mapInArrow(partial(recognize_rows, work), columns)


def _merge_best(job: QueryJob, work: QueryWork, found: Any) -> Any:
    """Return the best of what all tasks have found, in their order where it is asked for."""
    pattern, (value, tie) = job.plan.pattern, (field.name for field in RANKING)
    assert pattern.order is not None
    by_value = F.desc_nulls_last(value) if pattern.order.descending else F.asc_nulls_last(value)
    is_placed = work.placed or work.form == "lines"
    if pattern.merges_best:
        most = min(pattern.limit or 0, 2**31 - 1)
        found = found.orderBy(by_value, F.asc(tie)).limit(most)
    elif is_placed:
        found = found.repartition(1).sortWithinPartitions(by_value, F.asc(tie))
    found = found.drop(value, tie)
    if is_placed:  # one task has them all, in order
        found = found.withColumn(found.columns[-1], F.monotonically_increasing_id())
    return found


def travelling_rows(job: QueryJob) -> Any:
    """Return the rows that travel to the workers, each in its task, sorted by time."""
    rows = _sort(job, _spread(job, select_rows(job)))
    after = job.plan.pattern.absent_after
    if after is None or after.within.unit is not Unit.TIME:
        return rows
    return rows.withColumn(NOW, _find_last_time(job.frames))


def _find_last_time(frames: Sequence[Frame]) -> Column:
    """Return the last time of the whole input: a deadline has passed when it is later."""
    lasts: list[Column] = [
        frame.data.agg(F.max(timestamp).alias("t")).scalar()
        for frame in frames
        if (timestamp := frame.timestamp) is not None
    ]
    return lasts[0] if len(lasts) == 1 else F.greatest(*lasts)


def select_rows(job: QueryJob, *, numbers: bool = True) -> Any:
    """Return the events of all streams, each with its mask, row, timestamp and bucket.

    Without row numbers where only timestamps and buckets are looked at: numbers cost a join,
    which Spark would carry out for nothing.
    """
    rows = None
    for i, frame in enumerate(job.frames):
        own = _select_of_frame(job, i, frame, numbers or frame.timestamp is None)
        rows = own if rows is None else rows.unionByName(own, allowMissingColumns=True)
    return rows


def _select_of_frame(job: QueryJob, i: int, frame: Frame, numbers: bool) -> Any:
    data = frame.data.withColumn(ROW, F.lit(0).cast("bigint"))
    if numbers:
        data = _number_frame(job, i)
    timestamp, untimed = frame.timestamp, frame.untimed
    relevance = job.pushdown.relevance[frame.stream]
    read = read_condition(frame, job.plan, job.layout, relevance)
    if job.options.on_error == "skip" and untimed is not None:
        data = data.filter(~untimed)
        untimed = None
    if read is not None:
        data = data.filter(read if untimed is None else read | untimed)
    columns = travelling_columns(
        frame, job.plan, job.layout, job.pushdown, job.columns[frame.stream]
    )
    columns += [F.col(ROW), (F.col(ROW) if timestamp is None else timestamp).alias(MOMENT)]
    if len(job.frames) > 1:
        columns.append(F.lit(i).alias(STREAM))
    keyed = job.layout.distribution is Distribution.KEYED
    if keyed and not job.arrangement.together:
        bucket = key_bucket(frame, job.plan, job.tasks)  # refuses a key on any number of tasks
        if job.tasks > 1:
            columns.append(bucket.alias(BUCKET))
    if job.layout.ranked:
        fits = F.lit(True)
        if relevance is not None and not job.layout.counts_in_slices:
            fits = F.coalesce(relevance, F.lit(False))
        columns.append((fits if untimed is None else fits | untimed).alias(slices.FITS))
    return data.select(*columns)


def _number_frame(job: Job, i: int) -> Any:
    """Add row numbers to a frame that go on after those of the frames before."""
    options, frame = job.options, job.frames[i]
    data = number_rows(frame, options.row)
    if options.row is None:
        before = [each.source for each in job.frames[:i]]
        if streams := options.streams:
            names = takewhile(lambda name: name != frame.stream, streams)
            before = [streams[name] for name in names]
        for source in before:
            data = data.withColumn(ROW, F.col(ROW) + count_rows(source))
    return data


def _spread(job: QueryJob, data: Any) -> Any:
    """Send each event to the task (or tasks) that read it."""
    if job.arrangement.together:
        return data
    tasks, ranked = job.tasks, job.layout.ranked
    line = Line(
        RANK.name if ranked else MOMENT,
        job.window or 0,
        slices.later_position if ranked else job.frames[0].later,
        job.ahead,
    )
    cuts: Column | None = None
    if ranked:
        bare = select_rows(job, numbers=False)
        some = _sample(job, bare)
        data, cuts = slices.rank_rows(data, bare, some, line, tasks, job.layout.gaps)
    if tasks == 1:
        return data.repartition(1)
    if is_sliced(job):
        if cuts is None:
            some = _sample(job, select_rows(job, numbers=False))
            keyed = job.layout.distribution is Distribution.KEYED
            cuts = (slices.choose_hot_cuts if keyed else slices.choose_cuts)(some, line, tasks)
        data = slices.slice_rows(data, cuts, line, tasks)
    return data.repartitionById(tasks, F.col(BUCKET)).drop(BUCKET)


def _sample(job: QueryJob, data: Any) -> Any:
    """Return some of the events, always the same ones."""
    share = job.options.sample or SAMPLE
    return data if share >= 1 else data.sample(share, seed=1)


def _sort(job: QueryJob, data: Any) -> Any:
    """Sort by time within each task, and drop the columns that workers do not read."""
    if job.arrangement.ordered and job.options.row is None:
        return data.drop(MOMENT)  # rows are numbered as they lie
    return _sort_rows(job.frames, data)


def _sort_rows(frames: Sequence[Frame], data: Any) -> Any:
    """Sort by timestamps, and drop these, or let them be the times."""
    ties = [ROW, STREAM] if STREAM in data.columns else [ROW]
    if frames[0].time is None:
        return data.sortWithinPartitions(*ties).drop(MOMENT)
    data = data.sortWithinPartitions(MOMENT, *ties)
    if TICKS in frames[0].columns:
        return data.withColumnRenamed(MOMENT, TICKS)
    return data.drop(MOMENT)


def _add_up(parts: Any, schema: pa.Schema) -> Any:
    """Add up the parts of each group."""
    columns = list_columns(schema)
    sums: list[Column] = []
    for column in columns:
        part = F.col(column.name)
        match column.added:
            case "integer":
                sums.append(F.sum(part).alias(column.name))
                sums.append(F.collect_list(column.texts).alias(column.texts))
            case "sum":
                sums.append(F.sum(part).alias(column.name))
            case "min":
                sums.append(F.min(part).alias(column.name))
            case "max":
                most = F.max(part)
                if pa.types.is_floating(schema.field(column.source).type):
                    # NaN is the greatest in Spark, and no value here unless there is no other
                    most = F.coalesce(F.max(F.when(~F.isnan(part), part)), most)
                sums.append(most.alias(column.name))
            case "set":
                values = F.array_distinct(F.flatten(F.collect_list(part)))
                sums.append(values.alias(column.name))
    keys = [column.name for column in columns if column.added == "key"]
    return parts.groupBy(*keys).agg(*sums)


def _distinct(found: Any, *, placed: bool) -> Any:
    """Keep each answer once: at the first match that has it, whichever task found it."""
    *names, end, end_ts = (name for name in found.columns if name != PLACE)
    rank = [PLACE] if placed else []
    first = F.min(F.struct(F.col(end_ts), F.col(end), *rank)).alias("@first")
    grouped = found.groupBy(*names).agg(first) if names else found.agg(first).dropna()
    return grouped.select(
        *names, *(F.col("@first")[name].alias(name) for name in (end, end_ts, *rank))
    )


# -------------------------------------------------------------------- rules


def recognize_rule_batch(job: RuleJob) -> Any:
    """Return what the tasks of all keys find: the matches of all rules, or their numbers.

    Lines have the columns `rule`, `end`, `end_ts`, `line`, `place`, other forms `rule` and the
    columns of all rules.
    """
    found = [_recognize_keyed(job, keyed) for keyed in job.keyed]
    return reduce(lambda one, other: one.union(other), found)


def _recognize_keyed(job: RuleJob, keyed: KeyedRules) -> Any:
    """Return what the tasks find for the rules of one key."""
    tasks = job.options.tasks or count_tasks(job.frames[0].source.sparkSession)
    lots = spread_rules(keyed.rules, tasks) if keyed.key.is_single else (keyed.rules,)
    tasks = len(lots) if keyed.key.is_single else tasks
    rows = None
    for i, frame in enumerate(job.frames):
        if not keyed.streams or frame.stream in keyed.streams:
            own = _select_keyed(job, keyed, i, frame, tasks)
            rows = own if rows is None else rows.unionByName(own, allowMissingColumns=True)
    assert rows is not None
    rows = rows.repartition(1) if tasks == 1 else rows.repartitionById(tasks, F.col(BUCKET))
    rows = _sort_rows(job.frames, rows if len(lots) > 1 else rows.drop(BUCKET))
    patterns = [rule.query.pattern for rule in keyed.rules]
    if any(pattern.absent_after is not None for pattern in patterns) and job.frames[0].time:
        rows = rows.withColumn(NOW, _find_last_time(job.frames))
    texts = tuple(tuple(RuleText(rule.name, rule.text) for rule in lot) for lot in lots)
    return map_rows(rows, replace(job.work, lots=texts))


def _select_keyed(job: RuleJob, keyed: KeyedRules, i: int, frame: Frame, tasks: int) -> Any:
    """Return the rows of one stream, each with its number, its timestamp and its bucket."""
    data, timestamp, untimed = _number_frame(job, i), frame.timestamp, frame.untimed
    if job.options.on_error == "skip" and untimed is not None:
        data, untimed = data.filter(~untimed), None
    key, relevance = keyed.key, find_relevance(job, keyed, i)
    if relevance is not None:
        data = data.filter(relevance if untimed is None else relevance | untimed)
    bucket = F.lit(0) if tasks == 1 else F.explode(F.array(*map(F.lit, range(tasks))))
    if not key.is_single:
        bucket = spread_by_key(frame, key.partition, dict(key.implied), tasks)
        has_key = bucket.isNotNull()
        data = data.filter(has_key if untimed is None else has_key | untimed)
        bucket = F.coalesce(bucket, F.lit(0))
    columns = [frame.columns[n][0].alias(c) for n, c in job.columns[frame.stream].items()]
    columns += [F.col(ROW), (F.col(ROW) if timestamp is None else timestamp).alias(MOMENT)]
    if len(job.frames) > 1:
        columns.append(F.lit(i).alias(STREAM))
    return data.select(*columns, bucket.alias(BUCKET))


def find_relevance(job: RuleJob, keyed: KeyedRules, i: int) -> Column | None:
    """Return where some rule of a key may be moved, for Spark to filter; None: anywhere."""
    frame = job.frames[i]
    if frame.time is None or not job.options.pushdown:
        return None
    if len(keyed.rules) > _PUSHED_RULES:
        needed = keyed.find_needed(frame.stream)
        return None if needed is None else find_relevant(needed, frame, _take_some(job, i))
    if keyed.equalities is None:
        return None
    tests = [test for rule in keyed.rules for test in tests_and_atoms(rule.query.plan)[0]]
    return relevance_condition(tests, frame.columns, frame.type, frame.stream)


def _take_some(job: RuleJob, i: int) -> pa.Table:
    """Return some events of a stream, with the columns that travel."""
    frame = job.frames[i]
    columns = [frame.columns[n][0].alias(c) for n, c in job.columns[frame.stream].items()]
    rows: pa.Table = frame.data.limit(SAMPLED).select(*columns, F.lit(0).alias(ROW)).toArrow()
    return job.work.streams[i].select(rows)
