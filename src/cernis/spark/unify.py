"""Unify the types and times of events: columns of DataFrames in one form for all streams.

Types become text: whole numbers, booleans and bytes are cast, and a stream without a column of
types gets its name. Times of several streams that differ in name or type become one more column,
`@ts`, of one type: timestamps, whole numbers or fractions. Everything else stays as it is, so that
file sources still see their own columns.

Timestamps without a zone count as UTC, whatever the zone of the session is: their distance from
1970 in microseconds has no zone, and makes a timestamp.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from cernis.errors import DataError
from cernis.events.batch import TIMES
from cernis.events.reading.mistakes import no_column

WHOLE = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
FRACTIONS = (T.FloatType, T.DoubleType, T.DecimalType)
_TEXT = (T.StringType, T.CharType, T.VarcharType)
_DATED = (T.TimestampType, T.TimestampNTZType, T.DateType)
_DAY = 86_400_000_000

Fields = Mapping[str, T.DataType]


def quote_name(name: str) -> str:
    """Quote a name for Spark's expressions."""
    return "`" + name.replace("`", "``") + "`"


def find_column(label: str, name: str, purpose: str, fields: Fields) -> T.DataType:
    """Return the type of a column, or raise an error; Spark itself would ignore capitals."""
    if name in fields:
        return fields[name]
    for other in fields:
        if other.lower() == name.lower():
            there = f"there is {other!r}, and capitals count"
            raise DataError(f"{label}: no column {name!r} for {purpose}; {there}")
    raise DataError(no_column(label, name, purpose, [*fields]))


def set_types(label: str, df: Any, column: str | None, name: str, stream: str | None) -> Any:
    """Return the DataFrame with the types of its events as text in the column `name`.

    `column` has them; if there is none, `stream` is the type of all events.
    """
    fields = {field.name: field.dataType for field in df.schema}
    if column is None or (column not in fields and stream is not None):
        return set_column(df, name, F.lit(stream))
    found = find_column(label, column, "the event type", fields)
    if isinstance(found, _TEXT):
        return df if column == name else set_column(df, name, column_by_index(df, column))
    whole = isinstance(found, T.DecimalType) and found.scale <= 0
    if not whole and not isinstance(found, (*WHOLE, T.BooleanType, T.BinaryType, T.NullType)):
        raise DataError(
            f"{label}: the type column {column!r} holds {found.simpleString()}, not text or whole "
            "numbers"
        )
    return set_column(df, name, column_by_index(df, column).cast("string"))


def column_by_index(df: Any, name: str) -> Column:
    """Return a column of a DataFrame for `set_column`, by its index: Spark ignores capitals."""
    return F.col(f"c{df.columns.index(name)}")


def set_column(df: Any, name: str, value: Column, metadata: Any = None) -> Any:
    """Return the DataFrame with a column set, or added, to an expression over `column_by_index`."""
    new = value.alias(name, metadata=metadata or {})
    named = {other: F.col(f"c{i}").alias(other) for i, other in enumerate(df.columns)} | {name: new}
    return df.toDF(*(f"c{i}" for i in range(len(df.columns)))).select(*named.values())


def share_times(
    frames: Sequence[tuple[Any, str | None]], *, is_ticked: bool
) -> list[tuple[Any, str | None]]:
    """Return DataFrames with their time columns, so that these have one name and one type.

    `is_ticked`: some have their times as ticks, too.
    """
    timed = [(df, time) for df, time in frames if time is not None]
    if len(timed) < len(frames) or len(frames) < 2:
        return [*frames]
    kinds = [df.schema[time].dataType for df, time in timed]
    same = is_ticked or len({kind.simpleString() for kind in kinds}) == 1
    if len({time for _, time in timed}) == 1 and same:
        return [*frames]
    target = None if same else _common_type(kinds)
    if target is None and not same:
        return [*frames]
    shared: list[tuple[Any, str | None]] = []
    for (df, time), kind in zip(timed, kinds, strict=True):
        column = column_by_index(df, time)
        value = column if target is None else _convert(column, kind, target)
        metadata = df.schema[time].metadata if target is None else {}
        shared.append((set_column(df, TIMES, value, metadata), TIMES))
    return shared


def _common_type(kinds: Sequence[T.DataType]) -> str | None:
    """Return the type that all times can have; None if there is none."""
    known = [kind for kind in kinds if not isinstance(kind, T.NullType)]
    for types, target in ((_DATED, "timestamp"), (WHOLE, "bigint"), (WHOLE + FRACTIONS, "double")):
        if all(isinstance(kind, types) for kind in known):
            return target
    return None


def _convert(column: Column, kind: T.DataType, target: str) -> Column:
    match kind:
        case T.TimestampNTZType():
            return F.timestamp_micros(micros_since_1970(column))
        case T.DateType() if target == "timestamp":
            return F.timestamp_micros(F.unix_date(column).cast("bigint") * F.lit(_DAY))
    return column.cast(target)


def micros_since_1970(column: Column) -> Column:
    """Return the microseconds of a timestamp without a zone; no session's zone is asked."""
    gap = column - F.lit("1970-01-01 00:00:00").cast("timestamp_ntz")
    days, hours, minutes, seconds = (
        F.extract(F.lit(part), gap) for part in ("DAY", "HOUR", "MINUTE", "SECOND")
    )
    whole = ((days.cast("bigint") * 24 + hours) * 60 + minutes) * F.lit(60_000_000)
    return whole + (seconds * F.lit(1_000_000)).cast("bigint")
