"""From a `Job` on batches to the DataFrame of its matches.

    rows ─ masks, relevance (Catalyst) ─▶ bucket or slice ─ shuffle ─ sort by time ─▶ worker

Where several tasks find matches of one group (GROUP BY), each gives its part, and Spark adds the
parts up (`group_parts`).

Nothing runs until the result is asked for. Only relevant events reach Python, with one integer
for all predicates and the columns that are shown or compared.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import takewhile
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from cernis.pattern.predicate import RANK
from cernis.pattern.query import Unit
from cernis.plan.plan import Distribution
from cernis.spark import slices
from cernis.spark.frame import MOMENT, Frame
from cernis.spark.group_parts import list_columns, spark_schema
from cernis.spark.numbering import count_rows, number_rows
from cernis.spark.options import SAMPLE, JobOptions
from cernis.spark.prepare import Job, empty_rows, is_sliced
from cernis.spark.rows import key_bucket, read_condition, travelling_columns
from cernis.spark.slices import Line
from cernis.spark.worker import (
    BUCKET,
    NOW,
    PLACE,
    RANKING,
    ROW,
    STREAM,
    TICKS,
    Work,
    finish_groups,
    recognize_rows,
)


def recognize_batch(job: Job, work: Work) -> Any:
    """Return the DataFrame of the matches."""
    if job.layout.distribution is Distribution.SINGLE:
        warnings.warn(
            f"this query runs in a single task; what would make it parallel: {job.layout.parallel}",
            stacklevel=3,
        )
    assert work.schema is not None
    schema = from_arrow_schema(work.schema, prefer_timestamp_ntz=True)
    rows, recognize = travelling_rows(job), partial(recognize_rows, work)
    if work.parts is not None:
        parts = from_arrow_schema(spark_schema(work.parts), prefer_timestamp_ntz=True)
        added = _add_up(rows.mapInArrow(recognize, parts), work.parts)
        if work.placed or work.form == "lines":
            added = added.repartition(1)
        return added.mapInArrow(partial(finish_groups, work, empty_rows(job).schema), schema)
    if work.ranked:
        ranked = pa.schema([*work.schema, *RANKING])
        ranked = from_arrow_schema(ranked, prefer_timestamp_ntz=True)
        return _merge_best(job, work, rows.mapInArrow(recognize, ranked))
    found = rows.mapInArrow(recognize, schema)
    return found if job.plan.head is None else _distinct(found, placed=job.options.placed)


def _merge_best(job: Job, work: Work, found: Any) -> Any:
    """Return the best of what all tasks have found, in their order where places are asked for."""
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


def travelling_rows(job: Job) -> Any:
    """Return the rows that travel to the workers, each in its task, sorted by time."""
    rows = _sort(job, _spread(job, select_rows(job)))
    after = job.plan.pattern.absent_after
    if after is None or after.within.unit is not Unit.TIME:
        return rows
    return rows.withColumn(NOW, find_last_moment(job.frames))


def find_last_moment(frames: Sequence[Frame]) -> Column:
    """Return the last moment of the whole input: a deadline has passed when it is later."""
    lasts: list[Column] = [
        frame.data.agg(F.max(moment).alias("t")).scalar()
        for frame in frames
        if (moment := frame.moment) is not None
    ]
    return lasts[0] if len(lasts) == 1 else F.greatest(*lasts)


def select_rows(job: Job, *, numbers: bool = True) -> Any:
    """Return the events of all streams, each with its mask, row, moment and bucket.

    Without row numbers where only moments and buckets are looked at: numbers cost a join,
    which Spark would carry out for nothing.
    """
    rows = None
    for i, frame in enumerate(job.frames):
        own = _select_of_frame(job, i, frame, numbers or frame.moment is None)
        rows = own if rows is None else rows.unionByName(own, allowMissingColumns=True)
    return rows


def _select_of_frame(job: Job, i: int, frame: Frame, numbers: bool) -> Any:
    data = frame.data.withColumn(ROW, F.lit(0).cast("bigint"))
    if numbers:
        data = number_frame(job.options, job.frames, i)
    moment, untimed = frame.moment, frame.untimed
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
    columns += [F.col(ROW), (F.col(ROW) if moment is None else moment).alias(MOMENT)]
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


def number_frame(options: JobOptions, frames: Sequence[Frame], i: int) -> Any:
    """Add row numbers to a frame that go on after those of the frames before."""
    data = number_rows(frames[i], options.row)
    if options.row is None:
        for before in _find_before(options, frames, i):
            data = data.withColumn(ROW, F.col(ROW) + count_rows(before))
    return data


def _find_before(options: JobOptions, frames: Sequence[Frame], i: int) -> Iterable[Any]:
    """Return the DataFrames whose rows are numbered before those of a frame."""
    own, streams = frames[i].stream, options.streams
    if streams:
        return [streams[name] for name in takewhile(lambda name: name != own, streams)]
    return [before.source for before in frames[:i]]


def _spread(job: Job, data: Any) -> Any:
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


def _sample(job: Job, data: Any) -> Any:
    """Return some of the events, always the same ones."""
    share = job.options.sample or SAMPLE
    return data if share >= 1 else data.sample(share, seed=1)


def _sort(job: Job, data: Any) -> Any:
    """Sort by time within each task, and drop the columns that workers do not read."""
    if job.arrangement.ordered and job.options.row is None:
        return data.drop(MOMENT)  # rows are numbered as they lie
    return sort_rows(job.frames, data)


def sort_rows(frames: Sequence[Frame], data: Any) -> Any:
    """Sort by moments, and drop these, or let them be the times."""
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
    place = [PLACE] if placed else []
    first = F.min(F.struct(F.col(end_ts), F.col(end), *place)).alias("@first")
    grouped = found.groupBy(*names).agg(first) if names else found.agg(first).dropna()
    return grouped.select(
        *names, *(F.col("@first")[name].alias(name) for name in (end, end_ts, *place))
    )
