"""The rows of one stream that travel to the workers: which, with which columns, in which bucket.

Batches and streams share these expressions. Nothing runs here.

Equal keys get equal buckets, in any column and of any type. Buckets only spread the work; the
engine compares keys exactly. So numbers hash as float64 (two large integers may share a bucket, 1
and 1.0 must), dates as instants, structs and arrays by their parts, and maps all alike. An event
without a key belongs to no partition of PARTITION BY and is dropped. If comparisons imply the key,
such an event may still match alone, in any bucket.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_, or_

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from cernis.encoding.masks import mask_column
from cernis.pattern.predicate import TIME, TIME_NS
from cernis.plan.plan import Plan
from cernis.spark.frame import Frame
from cernis.spark.relevance import Pushdown
from cernis.work.columns import ROW
from cernis.work.layout import Layout


def read_condition(
    frame: Frame, plan: Plan, layout: Layout, relevance: Column | None
) -> Column | None:
    """Return the condition under which an event is read at all; None: every event is."""
    conditions = [*frame.present]
    if relevance is not None and not (layout.why_all or layout.ranked):
        conditions.append(relevance)
    if plan.pattern.partition:
        conditions.append(_has_key(frame, plan.pattern.partition))
    return reduce(and_, conditions) if conditions else None


def travelling_columns(
    frame: Frame, plan: Plan, layout: Layout, pushdown: Pushdown, columns: Mapping[str, str]
) -> list[Column]:
    """Return attributes and masks.

    Where irrelevant events travel because their positions count, their attributes are NULL.
    """
    shown = pushdown.relevance[frame.stream] if layout.why_all or layout.ranked else None
    key = {name for group in plan.pattern.partition for name in group}
    travelling = []
    for name, column in columns.items():
        found = frame.attribute(name)
        assert found is not None
        value = found[0]
        if shown is not None and name != frame.time and name not in key:
            value = F.when(shown, value)
        travelling.append(value.alias(column))
    bits = pushdown.masks[frame.stream]
    return [*travelling, *(bit.alias(mask_column(i)) for i, bit in enumerate(bits))]


def key_bucket(frame: Frame, plan: Plan, buckets: int) -> Column:
    """Return the bucket of an event's key, of so many."""
    groups = plan.pattern.spreading_groups if plan.pattern.partition else ()
    bucket = spread_by_key(frame, groups, plan.key or {}, buckets)
    return F.coalesce(bucket, F.lit(0))


def spread_by_key(
    frame: Frame, groups: Sequence[Sequence[str]], implied: Mapping[str, str], buckets: int
) -> Column:
    """Return which of so many buckets a key falls into, of PARTITION BY or implied.

    NULL where an event has no key of PARTITION BY.
    """
    key = _hash_partition(frame, groups) if groups else _hash_implied(frame, implied)
    return F.pmod(key, F.lit(buckets)).cast("int")


# -------------------------------------------------------------------- keys


def _hash_partition(frame: Frame, groups: Sequence[Sequence[str]]) -> Column:
    """Hash an event's key of PARTITION BY; NULL if it has none."""
    hashes = []
    for group in groups:
        known = [hash_ for name in group if (hash_ := _hash(frame, name)) is not None]
        hashes.append(F.coalesce(*known) if known else F.lit(None).cast("bigint"))
    lacking = reduce(or_, (hash_.isNull() for hash_ in hashes))
    return F.when(~lacking, F.xxhash64(*hashes) if len(hashes) > 1 else hashes[0])


def _has_key(frame: Frame, groups: Sequence[Sequence[str]]) -> Column:
    """Return whether an event has a key, in a form that file sources understand."""
    parts = []
    for group in groups:
        found = (frame.attribute(name) for name in group)
        there = [attribute[0].isNotNull() for attribute in found if attribute is not None]
        parts.append(reduce(or_, there) if there else F.lit(False))
    return reduce(and_, parts)


def _hash_implied(frame: Frame, key: Mapping[str, str]) -> Column:
    """Hash the key that a query implies: an attribute for each type of event."""
    column, _ = frame.columns[frame.type]
    anywhere = F.xxhash64(F.col(ROW))
    chosen: Column | None = None
    for type_, name in key.items():
        hash_ = _hash(frame, name)
        value = anywhere if hash_ is None else F.coalesce(hash_, anywhere)
        is_type = column == F.lit(type_)
        chosen = F.when(is_type, value) if chosen is None else chosen.when(is_type, value)
    return anywhere if chosen is None else chosen.otherwise(anywhere)


def _hash(frame: Frame, name: str) -> Column | None:
    """Hash one attribute; NULL where it is NULL, None if the frame lacks it."""
    if name in (TIME.name, TIME_NS.name):
        timestamp = frame.timestamp
        return None if timestamp is None else F.when(timestamp.isNotNull(), F.xxhash64(timestamp))
    found = frame.attribute(name)
    if found is None:
        return None
    column, type_ = found
    return None if isinstance(type_, T.NullType) else _hash_value(column, type_)


def _hash_value(column: Column, type_: T.DataType) -> Column:
    """Hash a value, equal ones alike, of whatever type; NULL where it is NULL."""
    match type_:
        case T.TimestampType():
            value = F.unix_micros(column)
        case T.DateType():
            value = F.unix_date(column).cast("bigint") * F.lit(86_400_000_000)
        case T.TimestampNTZType():
            # an interval hashes as its microseconds, and knows no time zone
            value = column - F.lit("1970-01-01").cast("timestamp_ntz")
        case T.StringType():
            value = column.cast("binary")
        case T.BooleanType() | T.BinaryType() | T.DayTimeIntervalType():
            value = column
        case T.StructType(fields=fields) if fields:
            # casts go by position, so that capitals do not matter
            positional = [T.StructField(str(i), field.dataType) for i, field in enumerate(fields)]
            parts = column.cast(T.StructType(positional))
            value = F.array(*(_hash_part(parts.getField(f.name), f.dataType) for f in positional))
        case T.ArrayType(elementType=inner):
            value = F.transform(column, lambda item: _hash_part(item, inner))
        case _ if isinstance(type_, T.NumericType):
            value = column.cast("double") + F.lit(0.0)  # one zero
        case _:
            value = F.lit(0)  # the engine tells them apart
    return F.when(column.isNotNull(), F.xxhash64(value))


def _hash_part(column: Column, type_: T.DataType) -> Column:
    return F.coalesce(_hash_value(column, type_), F.lit(0).cast("bigint"))
