"""From a `RuleJob` on batches to the DataFrame of all its matches: one shuffle for each key.

    rows ─ bucket of the key ─ shuffle ─ sort by time ─▶ worker: `RuleSession` ─▶ named matches

The rules of one key share the rows and a session in each task. Rules without a key are spread over
the tasks, which all get the rows. Spark filters the rows that can move some rule, if the rules are
not too many. Nothing runs until the result is asked for; then one job runs all rules.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from cernis.spark.batch import find_last_moment, number_frame, sort_rows
from cernis.spark.frame import MOMENT, Frame
from cernis.spark.options import count_tasks
from cernis.spark.relevance import relevance_condition
from cernis.spark.requirements import tests_and_atoms
from cernis.spark.rows import spread_by_key
from cernis.spark.rules.keys import KeyedRules, spread_rules
from cernis.spark.rules.prepare import RuleJob
from cernis.spark.rules.worker import MEASURES, RuleText, measure_rule_rows, recognize_rule_rows
from cernis.spark.worker import BUCKET, NOW, ROW, STREAM


def recognize_rule_batch(job: RuleJob) -> Any:
    """Return the matches of all rules.

    Lines have the columns `rule`, `end`, `end_ts`, `line`, `place`, other forms `rule` and the
    columns of all rules.
    """
    return _run(job, recognize_rule_rows, job.work.schema)


def measure_rule_batch(job: RuleJob) -> Any:
    """Return the numbers of all rules in each task, without listing a match."""
    return _run(job, measure_rule_rows, MEASURES)


def _run(job: RuleJob, work: Callable[..., Any], schema: pa.Schema) -> Any:
    """Return what the tasks of all keys give, in one DataFrame."""
    found = [
        _collect_rows(job, keyed, work, from_arrow_schema(schema, prefer_timestamp_ntz=True))
        for keyed in job.keyed
    ]
    return reduce(lambda one, other: one.union(other), found)


def _collect_rows(job: RuleJob, keyed: KeyedRules, work: Callable[..., Any], schema: Any) -> Any:
    """Return what the tasks give for the rules of one key."""
    tasks = job.options.tasks or count_tasks(job.frames[0].source.sparkSession)
    lots = spread_rules(keyed.rules, tasks) if keyed.key.is_single else (keyed.rules,)
    tasks = len(lots) if keyed.key.is_single else tasks
    rows = None
    for i, frame in enumerate(job.frames):
        if not keyed.streams or frame.stream in keyed.streams:
            own = _select_rows(job, keyed, i, frame, tasks)
            rows = own if rows is None else rows.unionByName(own, allowMissingColumns=True)
    assert rows is not None
    rows = rows.repartition(1) if tasks == 1 else rows.repartitionById(tasks, F.col(BUCKET))
    rows = sort_rows(job.frames, rows if len(lots) > 1 else rows.drop(BUCKET))
    patterns = [rule.query.pattern for rule in keyed.rules]
    if any(pattern.absent_after is not None for pattern in patterns) and job.frames[0].time:
        rows = rows.withColumn(NOW, find_last_moment(job.frames))
    texts = tuple(tuple(RuleText(rule.name, rule.text) for rule in lot) for lot in lots)
    return rows.mapInArrow(partial(work, job.work, texts), schema)


def _select_rows(job: RuleJob, keyed: KeyedRules, i: int, frame: Frame, tasks: int) -> Any:
    """Return the rows of one stream, each with its number, its moment and its bucket."""
    data, moment, untimed = number_frame(job.options, job.frames, i), frame.moment, frame.untimed
    if job.options.on_error == "skip" and untimed is not None:
        data, untimed = data.filter(~untimed), None
    key, relevance = keyed.key, _find_relevance(job, keyed, frame)
    if relevance is not None:
        data = data.filter(relevance if untimed is None else relevance | untimed)
    bucket = F.lit(0) if tasks == 1 else F.explode(F.array(*map(F.lit, range(tasks))))
    if not key.is_single:
        bucket = spread_by_key(frame, key.partition, dict(key.implied), tasks)
        has_key = bucket.isNotNull()
        data = data.filter(has_key if untimed is None else has_key | untimed)
        bucket = F.coalesce(bucket, F.lit(0))
    columns = [frame.columns[n][0].alias(c) for n, c in job.columns[frame.stream].items()]
    columns += [F.col(ROW), (F.col(ROW) if moment is None else moment).alias(MOMENT)]
    if len(job.frames) > 1:
        columns.append(F.lit(i).alias(STREAM))
    return data.select(*columns, bucket.alias(BUCKET))


def _find_relevance(job: RuleJob, keyed: KeyedRules, frame: Frame) -> Column | None:
    """Return where some rule of a key may be moved, for Spark to filter; None: anywhere."""
    if keyed.equalities is None or frame.time is None or len(keyed.rules) > _PUSHED_RULES:
        return None
    tests = [test for rule in keyed.rules for test in tests_and_atoms(rule.query.plan)[0]]
    return relevance_condition(tests, frame.columns, frame.type, frame.stream)


_PUSHED_RULES = 64
"""Of more rules, tasks look up the constants: so many conditions would cost more than they save."""
