"""From a `GraphJob` to the DataFrame of its matches.

    files ─ parts ─▶ read, solve (worker) ─ shuffle by key or cell of time ─ sort ─▶ engine (worker)

Nothing runs until the result is asked for. Tasks solve the graph patterns where they read the
events; only solutions travel. `layout` says how these are spread.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from cernis.errors import CernisError
from cernis.plan.plan import Distribution
from cernis.rdf.exchange import TS
from cernis.spark.graphs import worker
from cernis.spark.graphs.prepare import COLUMNS, GraphJob, make_graph_work
from cernis.spark.graphs.worker import GraphAnswerForm, GraphWork
from cernis.spark.options import check_tasks, count_tasks
from cernis.spark.worker import BUCKET


def recognize_graph_batch(
    spark: SparkSession,
    job: GraphJob,
    form: GraphAnswerForm = "events",
    *,
    tasks: int | None = None,
    limit: int | None = None,
) -> DataFrame:
    """Return the DataFrame of the matches."""
    if form not in ("events", "lines", "count", "placed", "quads"):
        raise CernisError(f"matches={form!r}: expected 'events', 'lines' or 'count'")
    layout = job.layout
    single = layout.distribution is Distribution.SINGLE
    if single:
        warnings.warn(
            f"this query runs in a single task; what would make it parallel: {layout.parallel}",
            stacklevel=3,
        )
    else:
        check_tasks(tasks)
    number = 1 if single else tasks or count_tasks(spark)
    counts = form == "count" and layout.repeats
    work = make_graph_work(job, number, "lines" if counts else form, limit)
    rows = _solve(spark, job, work).repartitionById(work.tasks, F.col(BUCKET)).drop(BUCKET)
    found = rows.sortWithinPartitions(TS).mapInArrow(
        partial(worker.recognize_solutions, work), _spark_schema(work.schema)
    )
    if layout.repeats:
        found = found.dropDuplicates()
    return found.agg(F.count(F.lit(1)).cast("string").alias("count")) if counts else found


def _solve(spark: SparkSession, job: GraphJob, work: GraphWork) -> DataFrame:
    """Return the solutions of all graph patterns, each with its task."""
    schema = _spark_schema(work.solution_schema())
    if job.frame is None:
        number = len(job.files.parts)
        ids = spark.range(0, number, 1, max(number, 1))
        return ids.mapInArrow(partial(worker.solve_parts, work, job.files.parts), schema)
    rows = job.frame.select(*COLUMNS)
    if job.layout.distribution is Distribution.SLICED:
        span = job.frame.agg(F.struct(F.min(TS).alias("low"), F.max(TS).alias("high")))
        ends = span.scalar()
        rows = rows.withColumns({worker.LOW: ends["low"], worker.HIGH: ends["high"]})
    return rows.mapInArrow(partial(worker.solve_rows, work), schema)


def _spark_schema(schema: pa.Schema | None) -> Any:
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)
