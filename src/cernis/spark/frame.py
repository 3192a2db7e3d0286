"""`Frame`: a DataFrame as a stream of events, checked before any job starts.

Columns are renamed by their index (c0, c1, …), so that names with dots, backticks or
other capitals, which Spark would resolve in its own way, mean what they mean in a query:
exactly themselves. Spark prunes unused columns afterwards. The type and time columns are
checked, and that no name occurs twice.

Events are ordered and cut by their *timestamp*: microseconds for times, the number itself
for integers, nanoseconds for fractions. Timestamps without a zone stay as they are: any way
to number them in Spark depends on the session's time zone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_type

from cernis.errors import DataError
from cernis.events.batch import is_computed
from cernis.events.order import Scale
from cernis.events.source import (
    DEFAULT_TIME,
    DEFAULT_TYPE,
    check_streams,
    choose_inputs,
    column_for,
)
from cernis.events.times import UNITS, check_unit, own_unit, tick_of
from cernis.pattern.predicate import TIME, TIME_NS
from cernis.spark.catalyst import Columns, attribute
from cernis.spark.options import JobOptions
from cernis.spark.unify import (
    FRACTIONS,
    WHOLE,
    find_column,
    micros_since_1970,
    set_column,
    set_types,
    share_times,
)
from cernis.work.carriers import noted_type
from cernis.work.columns import ROW, TICKS

HIDDEN = (ROW, TICKS)
"""Columns that are no attributes: row numbers, and times as ticks, where Spark has no type for
the time column. Metadata has the nanoseconds of a tick."""


@dataclass(frozen=True)
class Frame:
    """A DataFrame as a stream of events."""

    stream: str
    source: Any
    """The DataFrame as it was given."""
    data: Any
    """The same DataFrame, its columns renamed by index."""
    fields: Mapping[str, T.StructField]
    columns: Columns
    type: str
    time: str | None
    time_unit: str
    tick: int | None = None
    """Nanoseconds in a tick, if times come as ticks."""
    joined: bool = False
    """Whether the data has row numbers already: tables were joined to it."""
    present: tuple[Column, ...] = ()
    """On a stream: what an event of JOIN must have to be in it. All events move the watermark."""
    is_blank: bool = False
    """Whether the DataFrame has no columns."""

    def attribute(self, name: str) -> tuple[Column, T.DataType] | None:
        """Return the column of a (dotted) attribute; None if there is none."""
        return attribute(self.columns, tuple(name.split(".")))

    @property
    def arrow(self) -> pa.Schema:
        """The columns in the types of Python; those that cannot travel are left out."""
        types = {
            name: noted_type(field.metadata) or arrow_type(field.dataType)
            for name, field in self.fields.items()
        }
        return pa.schema({name: type_ for name, type_ in types.items() if type_ is not None})

    def own_type(self, name: str) -> pa.DataType | None:
        """Return the original type of a (dotted) attribute that travels in a carrier."""
        top, *inside = (name,) if name in self.fields else name.split(".")
        type_ = noted_type(self.fields[top].metadata) if top in self.fields else None
        for step in inside:
            type_ = type_.field(step).type if type_ is not None else None
        return type_

    @property
    def scale(self) -> Scale:
        """How times are counted in ticks."""
        if self.time is None:
            return Scale(None)
        own = own_unit(self.arrow.field(self.time).type, self.time_unit)
        if self.tick is not None:
            return Scale(self.tick, own)
        return Scale(tick_of(arrow_type(self.fields[self.time].dataType), self.time_unit), own)

    @property
    def time_type(self) -> T.DataType | None:
        return None if self.time is None else self.columns[self._timed_by][1]

    @property
    def _timed_by(self) -> str:
        return TICKS if TICKS in self.columns else self.time or ""

    @property
    def timestamp(self) -> Column | None:
        """The timestamps of events; NULL where an event has no usable time."""
        if self.time is None:
            return None
        column, type_ = self.columns[self._timed_by]
        match type_:
            case T.TimestampType():
                return F.unix_micros(column)
            case T.DateType():
                return F.unix_date(column).cast("bigint")
            case T.TimestampNTZType():
                return column
        if isinstance(type_, FRACTIONS):
            scaled = F.rint(column.cast("double") * F.lit(float(UNITS[self.time_unit])))
            return F.when(F.abs(scaled) < F.lit(float(2**63)), scaled.cast("bigint"))
        return column.cast("bigint")

    @property
    def micros(self) -> Column | None:
        """The times of events in microseconds; NULL where they do not fit."""
        timestamp, tick = self.timestamp, self.scale.unit_ns
        if timestamp is None or tick is None:
            return None
        match self.time_type:
            case T.TimestampType():
                return timestamp
            case T.TimestampNTZType():
                return micros_since_1970(timestamp)
            case T.DateType():
                return timestamp * F.lit(86_400_000_000)
        if tick < UNITS["us"]:
            return F.floor(timestamp / F.lit(UNITS["us"] // tick)).cast("bigint")
        return F.try_multiply(timestamp, F.lit(tick // UNITS["us"]))

    @property
    def untimed(self) -> Column | None:
        """Where an event has no usable time, in a form that file sources understand."""
        if self.time is None:
            return None
        column, type_ = self.columns[self._timed_by]
        timestamp = self.timestamp
        if isinstance(type_, FRACTIONS) and timestamp is not None:
            return timestamp.isNull()
        return column.isNull()

    def later(self, timestamp: Column, ticks: int) -> Column:
        """Return a later timestamp, or the last possible one; NULL before the first."""
        last, by = F.lit(2**63 - 1), F.lit(ticks)
        if isinstance(self.time_type, T.TimestampNTZType):
            last = F.lit(_LAST).cast("timestamp_ntz")
            by = F.lit(timedelta(microseconds=max(-(2**62), min(ticks, 2**62))))
        found = F.try_add(timestamp, by)
        return found if ticks < 0 else F.coalesce(found, last)


_LAST = "+294247-01-10 04:00:54.775807"


def make_frame(
    stream: str, df: Any, time: str | None, options: JobOptions, *, is_blank: bool = False
) -> Frame:
    """Check a DataFrame whose types and times are set, and return it as a stream."""
    row, corrupt = options.row, options.corrupt
    label, schema = f"stream {stream!r}", df.schema
    names = schema.names
    fields = {f.name: f for f in schema if f.name not in HIDDEN and f.name != corrupt}
    by_name = {name: F.col(f"c{i}") for i, name in enumerate(names)}
    if time is not None and TICKS not in names:
        _check_time(label, time, fields)
    if row is not None and row not in HIDDEN:
        _check_row(label, row, fields)
    return Frame(
        stream=stream,
        source=df,
        data=rename_by_index(df),
        fields=fields,
        columns={field.name: (by_name[field.name], field.dataType) for field in schema},
        type=options.type_column,
        time=time,
        time_unit=options.time_unit,
        tick=schema[TICKS].metadata["tick"] if TICKS in names else None,
        is_blank=is_blank,
    )


def _check_columns(stream: str, df: Any, options: JobOptions) -> None:
    """Raise an error for what is no DataFrame, and for names that it cannot have."""
    row, corrupt = options.row, options.corrupt
    label = f"stream {stream!r}"
    if not hasattr(df, "toDF") or not hasattr(df, "isStreaming"):
        found = f"{df.__class__.__module__}.{df.__class__.__name__}"
        raise DataError(f"{label}: expected a Spark DataFrame, found {found}")
    names = df.columns
    for i, name in enumerate(names):
        if name in names[:i]:
            raise DataError(
                f"{label}: the column name {name!r} occurs twice; rename or drop one of them"
            )
        hidden = name in HIDDEN and row != ROW
        if name in (TIME.name, TIME_NS.name) or is_computed(name) or hidden:
            raise DataError(f"{label}: the column name {name!r} is taken; rename it")
    if corrupt is not None and corrupt not in names:
        raise DataError(f"{label}: no column {corrupt!r} for what could not be decoded")


def rename_by_index(df: Any, *more: Column) -> Any:
    """Name the columns of a DataFrame by their index, and add more columns after them.

    Drops their metadata, by which Spark pads constants beside columns of type CHAR.
    """
    names = [f"c{i}" for i in range(len(df.columns))]
    renamed = df.select("*", *more).toDF(*names, *(f"m{i}" for i in range(len(more))))
    kept = [F.col(name).alias(name, metadata={}) for name in names]
    return renamed.select(*kept, *(f"m{i}" for i in range(len(more))))


def make_frames(events: Any, names: tuple[str, ...], options: JobOptions) -> tuple[Frame, ...]:
    """Check the streams of a query: one DataFrame, or a dictionary of them by name."""
    if isinstance(events, Mapping) and not events:
        raise DataError("no events: the dict of streams is empty")
    given: list[tuple[str | None, Any]] = [(None, events)]
    if isinstance(events, Mapping):
        given = [(str(name), df) for name, df in events.items()]
    chosen = choose_inputs(given, names)
    known = [*dict.fromkeys(name for name, _ in [*given, *chosen] if name is not None)]
    for option, columns in (("time", options.time), ("type", options.type)):
        check_streams(option, columns, known)
    has_name = bool(names) or given[0][0] is not None
    for stream, df in chosen:
        _check_columns(stream, df, options)
    blank = [not {*df.columns} - {*HIDDEN, options.corrupt} for _, df in chosen]
    timed = [
        _set_types_and_times(stream, df, options, has_name=has_name, is_blank=empty)
        for (stream, df), empty in zip(chosen, blank, strict=True)
    ]
    timed = _time_blank(timed, blank)
    shared = share_times(timed, is_ticked=any(TICKS in df.columns for df, _ in timed))
    frames = tuple(
        make_frame(stream, df, time, options, is_blank=empty)
        for (stream, _), (df, time), empty in zip(chosen, shared, blank, strict=True)
    )
    _check_alike(frames)
    if len({bool(frame.source.isStreaming) for frame in frames}) > 1:
        raise DataError("some streams are streaming DataFrames and some are not: make them alike")
    return frames


def _time_blank(
    timed: Sequence[tuple[Any, str | None]], blank: Sequence[bool]
) -> list[tuple[Any, str | None]]:
    """Give streams without columns the time column that the others have, so that they merge."""
    known = [each for each, empty in zip(timed, blank, strict=True) if not empty]
    if not known:
        return [*timed]
    df, time = known[0]
    fields = [df.schema[name] for name in (time, TICKS) if name in df.columns]
    return [
        (_add_nulls(own, fields), time) if empty else (own, own_time)
        for (own, own_time), empty in zip(timed, blank, strict=True)
    ]


def _add_nulls(df: Any, fields: Sequence[T.StructField]) -> Any:
    for field in fields:
        df = set_column(df, field.name, F.lit(None).cast(field.dataType), field.metadata)
    return df


def _set_types_and_times(
    stream: str, df: Any, options: JobOptions, *, has_name: bool, is_blank: bool
) -> tuple[Any, str | None]:
    """Return a DataFrame with the types of its events, and its time column."""
    check_unit(options.time_unit)
    label = f"stream {stream!r}"
    time = column_for(options.time, stream, None)
    if is_blank:
        time = time or DEFAULT_TIME
        df = df.select("*", F.lit(None).cast("timestamp").alias(time))
    elif time is None:
        time = DEFAULT_TIME if DEFAULT_TIME in df.columns else None
    else:
        find_column(label, time, "the time", {f.name: f.dataType for f in df.schema})
    if time is not None and isinstance(df.schema[time].dataType, T.NullType):
        df = set_column(df, time, F.lit(None).cast("timestamp"))
    column = column_for(options.type, stream, DEFAULT_TYPE)
    is_named = is_blank or column is None or (has_name and column == DEFAULT_TYPE)
    typed = set_types(label, df, column, options.type_column, stream if is_named else None)
    return typed, time


def arrow_type(type_: T.DataType) -> pa.DataType | None:
    """Return the type in which values travel to Python; None if they cannot."""
    try:
        return to_arrow_type(type_, timezone="UTC")
    except (PySparkException, TypeError):
        return None


def _check_time(label: str, name: str, fields: Mapping[str, T.StructField]) -> None:
    found = fields[name].dataType
    usable = (T.TimestampType, T.TimestampNTZType, T.DateType, *WHOLE, *FRACTIONS)
    if isinstance(found, usable):
        return
    advice = "; turn it into one with to_timestamp" if isinstance(found, T.StringType) else ""
    raise DataError(
        f"{label}: the time column {name!r} holds {found.simpleString()}, not a timestamp, "
        f"a date or a number{advice}"
    )


def _check_row(label: str, name: str, fields: Mapping[str, T.StructField]) -> None:
    types = {field.name: field.dataType for field in fields.values()}
    found = find_column(label, name, "the row number", types)
    if not isinstance(found, WHOLE):
        held = found.simpleString()
        raise DataError(f"{label}: the row column {name!r} holds {held}, not whole numbers")


def _check_alike(frames: Sequence[Frame]) -> None:
    """Check that all streams have one type of times, by which they are merged."""
    kinds = {
        frame.stream: frame.time_type.simpleString() if frame.time_type else "none"
        for frame in frames
    }
    if len(set(kinds.values())) > 1:
        told = ", ".join(f"{stream!r} has {kind}" for stream, kind in kinds.items())
        raise DataError(f"streams are merged by time and need one type for it: {told}")
