"""From a MATCH_RECOGNIZE clause over a streaming DataFrame to a streaming DataFrame of its result.

The buckets, the watermark and the state are those of all queries (`dataflow`). Rows travel with
the columns that the clause names. A bucket has the rows of some partitions, and DuckDB in its
worker computes masks and measures (`work.row_stream`): Spark cannot look at the row before in a
stream.
"""

from __future__ import annotations

import secrets
import warnings
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from cernis.errors import DataError
from cernis.plan.rows.plan import RowPlan
from cernis.run.rows.statement import SqlQuery, find_result_schema
from cernis.spark.options import JobOptions
from cernis.spark.streaming.dataflow import (
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
from cernis.spark.streaming.progress import ROWS
from cernis.work.bucket import BucketWork
from cernis.work.carriers import carrier_of
from cernis.work.checkpoint import claim
from cernis.work.columns import BUCKET, EVENT, REASON
from cernis.work.row_stream import UNBOUNDED, RowStreamWork, check_stream_clause


def recognize_row_stream(
    rows: Any, plan: RowPlan, query: SqlQuery, options: JobOptions, budget: int
) -> Any:
    """Return the result of a clause over a streaming DataFrame."""
    spark = rows.sparkSession
    time = _find_time(rows, check_stream_clause(plan))
    prepare_session(spark)
    if plan.clause.within is None:
        warnings.warn(UNBOUNDED, stacklevel=4)
    names = {column.name.lower() for _, column in plan.list_columns()}
    columns = tuple(name for name in rows.columns if name.lower() in names)
    schema = _describe_rows(rows.select(*(f"`{name}`" for name in columns)))
    buckets = choose_buckets(spark, options, single=not plan.clause.partition)
    work = RowStreamWork(
        text=query.text,
        dialect=query.dialect,
        number=[*query.plans].index(plan),
        columns=columns,
        time=time,
        budget=budget,
        schema=_carry(find_result_schema(plan, schema)),
    )
    state = digest_state(work.text, work.dialect, repr(work.number), str(schema), repr(buckets))
    stream = BucketWork(work=work, query=state, buckets=buckets, numbered=False, window=None)
    if options.checkpoint is not None:
        note = {"query": work.text, "answer": describe_answer(work), "buckets": [*buckets]}
        claim(options.checkpoint, {**note, "state": state}, options.secret)
    name = secrets.token_hex(4)
    micros = F.unix_micros(F.col(f"`{time}`").cast("timestamp"))
    reason = explain_rejection(micros, micros.isNull(), None, options, 0)
    data = add_watermark(rows.withColumn(REASON, reason), micros, options, 0)
    data = data.observe(f"{ROWS}{name}.0", *row_metrics())
    keys = [F.col(part.tree.name) for part in plan.clause.partition]
    index = F.pmod(F.xxhash64(*keys), F.lit(len(buckets))).cast("int") if keys else F.lit(0)
    bucket = F.element_at(F.array(*map(F.lit, buckets)), index + 1)
    sent = [F.col(f"`{name}`") for name in columns]
    sent += [bucket.alias(BUCKET), F.col(REASON)]
    if options.late_output:
        sent.append(F.to_json(F.struct(*rows.columns)).alias(EVENT))
    data = data.filter(goes_on(F.col(REASON).isNull(), options)).select(*sent)
    return find_matches(data, stream, options, name)


def _find_time(rows: Any, name: str) -> str:
    """Return the column of event time, which is a timestamp."""
    for field in rows.schema:
        if field.name.lower() == name.lower():
            if not isinstance(field.dataType, T.TimestampType | T.TimestampNTZType):
                raise DataError(f"column {name!r}: a stream is ordered by timestamps")
            return str(field.name)
    raise DataError(f"the rows have no column {name!r}")


def _describe_rows(rows: Any) -> pa.Schema:
    return to_arrow_schema(rows.schema, timezone="UTC")


def _carry(schema: pa.Schema) -> pa.Schema:
    """Return the columns of a result in types that Spark has."""
    return pa.schema([pa.field(one.name, carrier_of(one.type) or one.type) for one in schema])
