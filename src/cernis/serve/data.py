"""The events that a worker holds: samples, uploads and files, as tables or RDF streams.

A source is read once, whole, and kept: queries, pages of rows and the density of events all read
the same tables. The path of a file never reaches a message; the name that the visitor gave does.

Times are numbers that a page can draw: dates are milliseconds since 1970, plain numbers stay what
they are, and without a column of times the position of an event is its time.

Cost contract: reading is linear in the file; a page of rows is linear in the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cernis.errors import DataError
from cernis.events.column_types import is_number, is_text, value_type
from cernis.events.reading.mistakes import Mistakes, no_column
from cernis.events.source import open_events, schema_of
from cernis.events.times import to_ticks
from cernis.integers import count_noun
from cernis.results.values import python_values

Floats = NDArray[np.float64]

BINS = 120
MOST_ROWS = 1000
_MOST_TYPES = 100
_TYPE_NAMES = ("type", "event", "event_type", "kind", "activity")
_TIME_NAMES = ("ts", "time", "timestamp", "datetime", "date", "at")
_MILLISECOND = 1_000_000


class SourceFile(NamedTuple):
    """A file of a source: where it is, what its stream is called, what people call it."""

    path: str
    stream: str
    label: str
    format: str | None = None


@dataclass(frozen=True)
class EventData:
    """Streams of events as tables, and how they are read."""

    tables: Mapping[str, pa.Table]
    time: Mapping[str, str] = field(default_factory=dict)
    """The column of times of each stream that has one."""
    type: Mapping[str, str | None] = field(default_factory=dict)
    """The column of types of each stream; None: its name is the type."""
    time_unit: str = "ms"
    notes: tuple[str, ...] = ()

    language = "ceql"

    @classmethod
    def of(cls, tables: Mapping[str, pa.Table], time_unit: str = "ms") -> EventData:
        """Return tables with the columns of types and times that their names and kinds suggest."""
        time = {name: guess_time(table.schema) for name, table in tables.items()}
        return cls(
            tables,
            {name: column for name, column in time.items() if column is not None},
            {name: guess_type(table.schema) for name, table in tables.items()},
            time_unit,
        )

    @property
    def reading(self) -> dict[str, Any]:
        """The options with which a query reads these tables."""
        types = set(self.type.values())
        times = {self.time.get(name) for name in self.tables}
        one_time = times.pop() if len(times) == 1 else None
        return {
            "time": one_time if one_time is not None or not self.time else dict(self.time),
            "type": types.pop() if len(types) == 1 else dict(self.type),
            "time_unit": self.time_unit,
        }

    @property
    def axis(self) -> Axis:
        """The axis that all streams share."""
        kinds = {self._axis_of(name) for name in self.tables}
        return kinds.pop() if len(kinds) == 1 else Axis("row", self.time_unit)

    def _axis_of(self, name: str) -> Axis:
        column = self.time.get(name)
        type_ = None if column is None else self.tables[name].schema.field(column).type
        return Axis.of(type_, self.time_unit)

    def times(self, name: str) -> Floats:
        """Return the times of a stream on the axis."""
        table, axis = self.tables[name], self.axis
        if axis.unit == "row":
            return np.arange(table.num_rows, dtype=np.float64)
        return axis.numbers(table.column(self.time[name]))

    def describe(self) -> dict[str, Any]:
        """Return the streams, their columns, types and times, and the density of events."""
        times = {name: self.times(name) for name in self.tables}
        streams = [self._describe_stream(name, times[name]) for name in self.tables]
        return {
            "language": self.language,
            "streams": streams,
            "density": _find_density(list(times.values()), self.axis.unit),
            "notes": list(self.notes),
            "schema": self.write_schema(),
        }

    def _describe_stream(self, name: str, times: Floats) -> dict[str, Any]:
        table, column = self.tables[name], self.time.get(name)
        span = None
        if column is not None and (found := find_range(times)) is not None:
            first, last = map(to_number, found)
            span = {"column": column, "first": first, "last": last, "unit": self.axis.unit}
        return {
            "name": name,
            "rows": table.num_rows,
            "columns": [{"name": f.name, "type": write_type(f.type)} for f in table.schema],
            "type": self.type.get(name),
            "types": self._count_types(name),
            "time": span,
        }

    def _count_types(self, name: str) -> list[dict[str, Any]]:
        column = self.type.get(name)
        if column is None:
            return [{"name": name, "count": self.tables[name].num_rows}]
        counted = pc.value_counts(self.tables[name].column(column)).to_pylist()
        known = [
            (str(one["values"]), one["counts"]) for one in counted if one["values"] is not None
        ]
        known.sort(key=lambda pair: (-pair[1], pair[0]))
        return [{"name": type_, "count": count} for type_, count in known[:_MOST_TYPES]]

    def write_schema(self) -> dict[str, Any]:
        """Return what a query is checked against, as JSON."""
        sources = open_events(dict(self.tables), **self.reading)
        return {
            "streams": [
                {"name": one.name, "attributes": {n: k.value for n, k in one.attributes.items()}}
                for one in schema_of(sources).streams
            ],
            "types": {
                name: [one["name"] for one in self._count_types(name)] for name in self.tables
            },
            "aside": {source.name: sorted(filter(None, source.aside)) for source in sources},
        }

    def page(self, stream: str, offset: int, limit: int) -> dict[str, Any]:
        """Return some rows of a stream."""
        table = self.tables[stream]
        first = min(offset, table.num_rows)
        part = table.slice(first, min(limit, MOST_ROWS)).combine_chunks()
        columns = [python_values(_to_array(column)) for column in part.columns]
        return {
            "columns": part.column_names,
            "rows": [list(row) for row in zip(*columns, strict=True)],
            "offset": offset,
            "total": table.num_rows,
        }


def _to_array(column: pa.ChunkedArray) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)


def _find_density(times: Sequence[Floats], unit: str) -> dict[str, Any]:
    every = np.concatenate([np.empty(0), *times])
    first, last = find_range(every) or (0.0, 0.0)
    bins = count_bins(every, first, last, BINS)
    return {"from": to_number(first), "to": to_number(last), "unit": unit, "bins": bins}


def guess_type(schema: pa.Schema) -> str | None:
    """Return the column that holds the types of events; None where no column does.

    >>> guess_type(pa.schema({"Event": pa.string(), "x": pa.int64()}))
    'Event'
    """
    for wanted in _TYPE_NAMES:
        for column in schema:
            if column.name.lower() == wanted and is_text(value_type(column.type)):
                return str(column.name)
    return None


def guess_time(schema: pa.Schema) -> str | None:
    """Return the column of times: one called so, or the first that holds dates.

    >>> guess_time(pa.schema({"x": pa.int64(), "seen": pa.timestamp("s")}))
    'seen'
    """
    dates = [f.name for f in schema if pa.types.is_timestamp(f.type) or pa.types.is_date(f.type)]
    for wanted in _TIME_NAMES:
        for column in schema:
            is_usable = column.name in dates or pa.types.is_integer(column.type) or wanted == "ts"
            if column.name.lower() == wanted and is_usable:
                return str(column.name)
    return dates[0] if dates else None


def write_type(type_: pa.DataType) -> str:
    """Return the type of a column as people say it.

    >>> write_type(pa.dictionary(pa.int8(), pa.string())), write_type(pa.float64())
    ('text', 'number')
    """
    type_ = value_type(type_)
    if is_text(type_):
        return "text"
    if pa.types.is_integer(type_):
        return "whole number"
    if pa.types.is_floating(type_) or pa.types.is_decimal(type_):
        return "number"
    if pa.types.is_boolean(type_):
        return "true or false"
    if pa.types.is_timestamp(type_) or pa.types.is_date(type_):
        return "time"
    return str(type_)


def read_events(
    files: Sequence[SourceFile],
    time: str | None = None,
    type: str | None = None,
    time_unit: str = "ms",
) -> EventData:
    """Read files of events; rows that cannot be read are left out, and counted in a note.

    `time` and `type` name the columns of those files that have them; others are guessed.
    """
    mistakes = Mistakes("skip")
    tables = {file.stream: _read_table(file, mistakes) for file in files}
    skipped = sum(mistakes.skipped.values())
    was = count_noun(skipped, "row could not be read and was", "rows could not be read and were")
    notes = (f"{was} left out",) if skipped else ()
    guessed = EventData.of(tables, time_unit)
    return EventData(
        tables,
        {**guessed.time, **_find_column(time, "the time", tables, files)},
        {**guessed.type, **_find_column(type, "the event type", tables, files)},
        time_unit,
        notes,
    )


def _read_table(file: SourceFile, mistakes: Mistakes) -> pa.Table:
    [source] = open_events(
        {file.stream: Path(file.path)}, type=None, format=file.format, on_error=mistakes
    )
    for label in source.labels:
        mistakes.begin(label, quiet=False)
    pieces = [piece.table for piece in source.reader.pieces(None)]
    try:
        return pa.concat_tables(
            [*pieces, source.columns.empty_table()], promote_options="permissive"
        )
    except pa.ArrowInvalid as error:
        raise DataError(f"{file.label}: the columns change along the file: {error}") from None


def _find_column(
    name: str | None, purpose: str, tables: Mapping[str, pa.Table], files: Sequence[SourceFile]
) -> dict[str, str]:
    """Return the streams that have a column; an error where none has."""
    if name is None:
        return {}
    found = {stream: name for stream, table in tables.items() if name in table.column_names}
    if not found:
        names = next(iter(tables.values())).column_names
        raise DataError(no_column(files[0].label, name, purpose, names))
    return found


# ---------------------------------------------------------------- the axis of time


class Axis(NamedTuple):
    """The unit of an axis (`ms`, `number` or `row`), and the unit of plain numbers."""

    unit: str
    time_unit: str = "ms"

    @classmethod
    def of(cls, type_: pa.DataType | None, time_unit: str) -> Axis:
        """Return the axis of a column of times; None: there is none."""
        if type_ is None:
            return cls("row", time_unit)
        return cls("number" if is_number(type_) else "ms", time_unit)

    def numbers(self, column: pa.Array | pa.ChunkedArray) -> Floats:
        """Return the times of a column; NaN where there is none.

        >>> Axis("ms").numbers(pa.array([1, None], pa.timestamp("s"))).tolist()
        [1000.0, nan]
        """
        chunked = pa.chunked_array([column]) if isinstance(column, pa.Array) else column
        if self.unit != "ms":
            return np.asarray(chunked.cast(pa.float64(), safe=False).to_numpy(), np.float64)
        ticks, bad = to_ticks(chunked, self.time_unit, 1)
        numbers = to_milliseconds(ticks)
        if bad is not None:
            numbers[bad] = np.nan
        return numbers


def to_milliseconds(nanoseconds: NDArray[np.int64]) -> Floats:
    """Return nanoseconds as milliseconds; whole ones stay exact."""
    return nanoseconds // _MILLISECOND + nanoseconds % _MILLISECOND / 1e6


def find_range(numbers: Floats) -> tuple[float, float] | None:
    """Return the least and the greatest number; None where there is none."""
    usable = numbers[np.isfinite(numbers)]
    return (float(usable.min()), float(usable.max())) if len(usable) else None


def count_bins(numbers: Floats, first: float, last: float, bins: int) -> list[int]:
    """Return how many numbers lie in each of some equal parts of a range.

    >>> count_bins(np.array([0.0, 1.0, 9.0, 10.0]), 0, 10, 2)
    [2, 2]
    """
    usable = numbers[np.isfinite(numbers)]
    high = last if last > first else first + 1
    counted: list[int] = np.histogram(usable, bins, (first, high))[0].tolist()
    return counted


def to_number(value: Any) -> float | int | None:
    """Return a float as JSON has it: whole numbers without a point."""
    if value is None or not np.isfinite(value):
        return None
    return int(value) if float(value).is_integer() else float(value)
