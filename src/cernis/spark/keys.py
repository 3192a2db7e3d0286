"""Hash keys to buckets: equal keys get equal buckets, in any column and of any type.

Buckets only spread the work; the engine compares keys exactly. So numbers hash as float64 (two
large integers may share a bucket, 1 and 1.0 must), and dates as instants. An event without a
key belongs to no partition of PARTITION BY and is dropped. If comparisons imply the key, such
an event may still match alone, in any bucket.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from cernis.errors import DataError
from cernis.pattern.predicate import TIME, TIME_NS
from cernis.spark.frame import Frame
from cernis.spark.worker import ROW


def partition_hash(frame: Frame, groups: Sequence[Sequence[str]]) -> Column:
    """Hash an event's key of PARTITION BY; NULL if it has none."""
    hashes = []
    for group in groups:
        known = [hash_ for name in group if (hash_ := _hash(frame, name)) is not None]
        hashes.append(F.coalesce(*known) if known else F.lit(None).cast("bigint"))
    lacking = hashes[0].isNull()
    for hash_ in hashes[1:]:
        lacking = lacking | hash_.isNull()
    return F.when(~lacking, F.xxhash64(*hashes) if len(hashes) > 1 else hashes[0])


def has_key(frame: Frame, groups: Sequence[Sequence[str]]) -> Column:
    """Return whether an event has a key, in a form that file sources understand."""
    whole: Column | None = None
    for group in groups:
        some: Column | None = None
        for name in group:
            found = frame.attribute(name)
            if found is not None:
                there = found[0].isNotNull()
                some = there if some is None else some | there
        part = F.lit(False) if some is None else some
        whole = part if whole is None else whole & part
    return F.lit(True) if whole is None else whole


def implied_hash(frame: Frame, key: Mapping[str, str]) -> Column:
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
        moment = frame.moment
        return None if moment is None else F.when(moment.isNotNull(), F.xxhash64(moment))
    found = frame.attribute(name)
    if found is None:
        return None
    column, type_ = found
    match type_:
        case T.NullType():
            return None
        case T.TimestampType():
            value = F.unix_micros(column)
        case T.DateType():
            value = F.unix_date(column).cast("bigint") * F.lit(86_400_000_000)
        case T.TimestampNTZType():
            # an interval hashes as its microseconds, and knows no time zone
            value = column - F.lit("1970-01-01").cast("timestamp_ntz")
        case T.StringType():
            value = column.cast("binary")
        case T.BooleanType() | T.BinaryType():
            value = column
        case _ if isinstance(type_, T.NumericType):
            value = column.cast("double") + F.lit(0.0)  # one zero
        case _:
            raise DataError(
                f"stream {frame.stream!r}: {name!r} holds {type_.simpleString()}, by which "
                "events cannot be spread over tasks; take one of its parts as the key"
            )
    return F.when(column.isNotNull(), F.xxhash64(value))
