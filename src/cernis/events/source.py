"""`open_events`: files, frames and tables of events as a list of `Source`s.

A source is one stream: its name, its Arrow schema, and `chunks()`, which reads it from
the start in bounded memory and gives tables, row numbers, and times as whole ticks.
Frames and tables are not copied; files are read batch by batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from cernis.errors import DataError
from cernis.events import times
from cernis.events.batch import Int64s
from cernis.events.files import open_file, stem_of
from cernis.events.mistakes import Mistakes, OnError, check_names, did_you_mean, no_column
from cernis.events.reader import (
    BatchReader,
    Piece,
    Reader,
    TableReader,
    check_columns,
    to_table,
)
from cernis.events.text import TextReader, make_table
from cernis.output import input_files
from cernis.schema import Kind, Schema, Stream

__all__ = ["Chunk", "OnError", "Source", "kind_of", "open_events", "schema_of", "stream_of"]

DEFAULT_TYPE = "type"
DEFAULT_TIME = "ts"
DEFAULT_NAME = "S"


class Chunk(NamedTuple):
    """Some rows of a source: the table, their row numbers, their times in ticks."""

    table: pa.Table
    rows: Int64s
    time: Int64s | None


class Source:
    """One stream of events.

    `tick` is the size in nanoseconds of the unit that its times are exact in, None
    without a time column. `reopens` says whether it can be read more than once.
    """

    def __init__(
        self,
        name: str,
        reader: Reader,
        *,
        time: str | None = None,
        type: str = "type",
        time_unit: str = "ms",
        mistakes: Mistakes | None = None,
        default_type: str | None = None,
    ) -> None:
        self.name = name
        self.reader = reader
        self.mistakes = mistakes or Mistakes()
        self.type_column = type
        self.time_unit = time_unit
        self._default_type = default_type
        self.schema = self._check_schema(reader.schema)
        self.time_column = self._find_time_column(time)
        self.tick = None if self.time_column is None else self._find_tick(self.time_column)

    @property
    def unit(self) -> int:
        """Nanoseconds in the unit of plain numbers in the time column."""
        if self.time_column is None:
            return 1
        return times.own_unit(self.schema.field(self.time_column).type, self.time_unit)

    @property
    def reopens(self) -> bool:
        return self.reader.reopens

    @property
    def label(self) -> str:
        return self.reader.label

    @property
    def in_memory(self) -> bool:
        return isinstance(self.reader, TableReader)

    @property
    def skipped(self) -> int:
        """How many bad rows the last pass over the source left out."""
        return self.mistakes.skipped.get(self.label, 0)

    def batches(self) -> Iterator[pa.Table]:
        """Return the rows, in the order given."""
        return (chunk.table for chunk in self.chunks())

    def chunks(self, *, tick: int | None = None, only_time: bool = False) -> Iterator[Chunk]:
        """Read the source once; with `only_time`, no other column, and without reports."""
        columns = None
        if only_time:
            columns = [] if self.time_column is None else [self.time_column]
        self.mistakes.begin(self.label, quiet=only_time)
        for piece in self.reader.pieces(columns):
            if self._default_type is not None and not only_time:
                piece = piece._replace(table=self._add_type(piece.table))
            if self.time_column is None:
                yield Chunk(piece.table, piece.rows, None)
            else:
                yield self._read_times(piece, self.time_column, tick or self.tick or 1)

    def _read_times(self, piece: Piece, column: str, tick: int) -> Chunk:
        """Return the rows that have a usable time; report the others."""
        values = piece.table.column(column)
        ticks, bad = times.to_ticks(values, self.time_unit, tick)
        if bad is None:
            return Chunk(piece.table, piece.rows, ticks)
        for i in np.flatnonzero(bad):
            place = piece.place(int(i))
            reason = times.describe_bad_time(_to_python(values[int(i)]))
            row = int(piece.rows[i])
            self.mistakes.bad(self.label, row, column, reason, text=place.text, where=place.where)
        return Chunk(piece.table.filter(pa.array(~bad)), piece.rows[~bad], ticks[~bad])

    def _add_type(self, table: pa.Table) -> pa.Table:
        """Return the table with a type column that holds the default type."""
        indices = pa.array(np.zeros(table.num_rows, np.int8))
        column = pa.DictionaryArray.from_arrays(indices, pa.array([self._default_type]))
        return table.append_column(self.type_column, column)

    def _check_schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns of the source; raise where names repeat or the type is no text."""
        names = schema.names
        check_names(self.label, names)
        if self.type_column in names:
            self._default_type = None
            type_ = times.value_type(schema.field(self.type_column).type)
            if not times.is_text(type_) and not pa.types.is_null(type_):
                raise DataError(
                    f"{self.label}: the type column {self.type_column!r} holds {type_}, not text"
                )
        elif self._default_type is not None:
            schema = schema.append(
                pa.field(self.type_column, pa.dictionary(pa.int8(), pa.string()))
            )
        elif names or self.reader.count != 0:
            raise DataError(no_column(self.label, self.type_column, "the event type", names))
        return schema

    def _find_time_column(self, time: str | None) -> str | None:
        if time is None:
            return DEFAULT_TIME if DEFAULT_TIME in self.schema.names else None
        if time not in self.schema.names:
            raise DataError(no_column(self.label, time, "the time", self.schema.names))
        return time

    def _find_tick(self, column: str) -> int:
        type_ = self.schema.field(column).type
        tick = times.tick_of(type_, self.time_unit)
        if tick is None:
            raise DataError(f"{self.label}: the column {column!r} holds {type_}, not times")
        if isinstance(self.reader, TextReader) and pa.types.is_temporal(type_):
            return 1  # a later block may be finer than the first
        return tick


def _to_python(value: pa.Scalar) -> object:
    try:
        return value.as_py()
    except (ValueError, OverflowError):
        return f"{value.value} {value.type}"


# ------------------------------------------------------------------ opening


def open_events(
    events: Any,
    *,
    names: Sequence[str] | None = None,
    time: str | None = None,
    type: str = "type",
    time_unit: str = "ms",
    format: str | None = None,
    on_error: OnError | Mistakes = "fail",
    declared: Schema | None = None,
) -> list[Source]:
    """Return the streams in `events`, in the order given.

    `events` is a pandas or polars frame, anything with the Arrow stream interface, a
    list of dicts, an iterable of Arrow batches, a path or several, or a dict of names
    to any of these. `names` are the streams that the query reads; without names, all
    inputs are read. One input and one name need not agree. `on_error` is the policy for bad
    rows: "fail", "skip", a path, a function, or `Mistakes` to share among several
    calls. `declared` fixes the types of columns read from text. Where a stream in `names` has no
    column of types, its name is the type of all its events.

    >>> [source] = open_events([{"type": "A", "ts": 5}, {"type": "B", "ts": 7}])
    >>> [table.num_rows for table in source.batches()]
    [2]
    """
    times.check_unit(time_unit)
    mistakes = on_error if isinstance(on_error, Mistakes) else Mistakes(on_error)
    inputs = _inputs(events)
    wanted = choose_inputs(inputs, list(names or ()))
    mistakes.open(input_files(value for _, value in inputs))
    streams = [declared.stream(name) if declared is not None else None for name, _ in wanted]
    return [
        Source(
            name,
            _reader(name, value, format, mistakes, _declared_types(stream), type),
            time=time,
            type=type,
            time_unit=time_unit,
            mistakes=mistakes,
            default_type=name if names and type == DEFAULT_TYPE else None,
        )
        for (name, value), stream in zip(wanted, streams, strict=True)
    ]


def read_table(name: str, value: Any) -> pa.Table:
    """Return a table that is joined to events: what `open_events` takes, without types and times.

    >>> read_table("t", [{"ticker": "MSFT", "sector": "tech"}]).column_names
    ['ticker', 'sector']
    """
    value = Path(value) if isinstance(value, str) else value
    reader = _reader(name, value, None, Mistakes(), {}, DEFAULT_TYPE, "table")
    check_names(reader.label, reader.schema.names)
    pieces = [piece.table for piece in reader.pieces(None)]
    if not pieces:
        return reader.schema.empty_table()
    return pa.concat_tables(pieces, promote_options="permissive")


def _inputs(events: Any) -> list[tuple[str | None, Any]]:
    """Return the inputs with their names; None where an input has no name of its own."""
    if isinstance(events, (str, Path)):
        return [(stem_of(Path(events)), Path(events))]
    if isinstance(events, Mapping):
        if not events:
            raise DataError("no events: the dict of streams is empty")
        return [(str(k), Path(v) if isinstance(v, str) else v) for k, v in events.items()]
    if isinstance(events, (list, tuple)) and events and isinstance(events[0], (str, Path)):
        paths = [Path(path) for path in events]
        stems = [stem_of(path) for path in paths]
        for i, stem in enumerate(stems):
            if stem in stems[:i]:
                raise DataError(
                    f"two files give a stream named {stem!r}: "
                    f"{paths[stems.index(stem)]} and {paths[i]}; name them apart"
                )
        return list(zip(stems, paths, strict=True))
    return [(None, events)]


def choose_inputs(
    inputs: list[tuple[str | None, Any]], names: Sequence[str]
) -> list[tuple[str, Any]]:
    """Return the inputs that a query reads, by its names; a single input may have any name."""
    if len(inputs) == 1 and len(names) <= 1:
        own, value = inputs[0]
        return [(names[0] if names else own or DEFAULT_NAME, value)]
    named = [(own or DEFAULT_NAME, value) for own, value in inputs]
    have = [name for name, _ in named]
    for name in names:
        if name not in have:
            raise DataError(
                f"the query reads from {name!r}, but the events are those of "
                f"{', '.join(map(repr, have))}{did_you_mean(name, have)}"
            )
    return [(name, value) for name, value in named if not names or name in names]


def _reader(
    name: str,
    value: Any,
    format_: str | None,
    mistakes: Mistakes,
    types: Mapping[str, pa.DataType],
    type_column: str,
    what: str = "stream",
) -> Reader:
    if isinstance(value, Path):
        return open_file(value, format_, mistakes, types, type_column)
    label = f"{what} {name!r}"
    if isinstance(value, pa.RecordBatchReader):
        return BatchReader(label, value.schema, value)
    if isinstance(value, (pa.Table, pa.RecordBatch)):
        return TableReader(label, check_columns(label, to_table(value)))
    kind = f"{value.__class__.__module__}.{value.__class__.__name__}"
    if kind.startswith("pandas."):
        return TableReader(label, check_columns(label, _from_pandas(label, value)))
    if kind.startswith("polars.") and kind.endswith("LazyFrame"):
        value = value.collect()
    if kind.startswith("pyspark.") and hasattr(value, "toArrow"):
        value = value.toArrow()  # its Arrow interface knows no timestamps
    if hasattr(value, "__arrow_c_stream__"):
        return _from_stream(label, value)
    if isinstance(value, (list, tuple)):
        return _from_list(label, value, mistakes, types)
    if isinstance(value, Iterable):
        return _from_iterator(label, iter(value), mistakes, types)
    raise DataError(
        f"cannot read events from {kind!r}; expected a frame, an Arrow table, "
        "a list of dicts, a path, or a dict of names to these"
    )


def _from_pandas(label: str, frame: Any) -> pa.Table:
    check_names(label, [str(c) for c in frame.columns])
    try:
        return pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
    except (pa.ArrowException, OverflowError) as error:
        for column in frame.columns:
            values = frame[column].tolist()
            _, failed = make_table([{str(column): _no_nan(v)} for v in values], {})
            for row, (name, reason) in failed.items():
                raise DataError(f"{label}, row {row}, column {name!r}: {reason}") from error
        raise DataError(f"{label}: cannot be read: {error}") from error


def _no_nan(value: Any) -> Any:
    return None if isinstance(value, float) and value != value else value


def _from_stream(label: str, value: Any) -> Reader:
    try:
        return TableReader(label, check_columns(label, pa.table(value)))
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DataError(f"{label}: cannot be read through the Arrow interface: {error}") from error


def _from_list(
    label: str, values: Sequence[Any], mistakes: Mistakes, types: Mapping[str, pa.DataType]
) -> Reader:
    if not values:
        return TableReader(label, pa.table({}))
    if isinstance(values[0], (pa.Table, pa.RecordBatch)):
        try:
            tables = [check_columns(label, to_table(value)) for value in values]
            return TableReader(label, pa.concat_tables(tables, promote_options="permissive"))
        except (pa.ArrowException, TypeError) as error:
            raise DataError(f"{label}: the batches do not fit together: {error}") from error
    for row, record in enumerate(values):
        if not isinstance(record, Mapping):
            found = record.__class__.__name__
            raise DataError(f"{label}, row {row}: expected a dict, found {found}")
    check_names(label, list(dict.fromkeys(name for record in values for name in record)))
    table, failed = make_table(values, types, frozenset(types))
    if not failed:
        return TableReader(label, table)
    mistakes.begin(label, quiet=False)
    for row, (column, reason) in sorted(failed.items()):
        where = f"{label}, row {row}"
        mistakes.bad(label, row, column, reason, text=str(values[row]), where=where)
    keep = np.ones(len(values), np.bool_)
    keep[list(failed)] = False
    return TableReader(label, table.filter(pa.array(keep)), np.flatnonzero(keep).astype(np.int64))


def _from_iterator(
    label: str, values: Iterator[Any], mistakes: Mistakes, types: Mapping[str, pa.DataType]
) -> Reader:
    first = next(values, None)
    if first is None or isinstance(first, Mapping):
        records = [] if first is None else [first, *values]
        return _from_list(label, records, mistakes, types)
    if not isinstance(first, (pa.Table, pa.RecordBatch)):
        found = first.__class__.__name__
        raise DataError(f"{label}: expected Arrow batches or dicts, found {found}")
    return BatchReader(label, first.schema, chain([first], values))


# ------------------------------------------------------------------- schema

_KINDS = (
    (pa.types.is_integer, Kind.INT),
    (times.is_fraction, Kind.FLOAT),
    (times.is_text, Kind.STRING),
    (pa.types.is_boolean, Kind.BOOL),
    (pa.types.is_timestamp, Kind.TIMESTAMP),
    (pa.types.is_date, Kind.TIMESTAMP),
)
_DECLARED = {
    Kind.INT: pa.int64(),
    Kind.FLOAT: pa.float64(),
    Kind.STRING: pa.string(),
    Kind.BOOL: pa.bool_(),
}


def kind_of(type_: pa.DataType) -> Kind:
    """Return the kind of values that predicates see in a column.

    >>> kind_of(pa.dictionary(pa.int8(), pa.string())), kind_of(pa.decimal128(9, 2))
    (<Kind.STRING: 'string'>, <Kind.FLOAT: 'double'>)
    """
    type_ = times.value_type(type_)
    return next((kind for test, kind in _KINDS if test(type_)), Kind.OTHER)


def schema_of(sources: Sequence[Source]) -> Schema:
    """Return the schema that the columns of the sources give."""
    return Schema(tuple(stream_of(source.name, source.schema) for source in sources))


def stream_of(name: str, schema: pa.Schema) -> Stream:
    """Return the stream that some columns give; nested attributes get dotted names.

    Its event types are unknown.

    >>> stream_of("S", pa.schema({"user": pa.struct({"id": pa.int64()})})).attributes["user.id"]
    <Kind.INT: 'int'>
    """
    return Stream(name, {n: k for f in schema for n, k in _attributes(f.name, f.type)})


def _attributes(name: str, type_: pa.DataType) -> Iterator[tuple[str, Kind]]:
    yield name, kind_of(type_)
    type_ = times.value_type(type_)
    if pa.types.is_struct(type_):
        for i in range(type_.num_fields):
            field = type_.field(i)
            yield from _attributes(f"{name}.{field.name}", field.type)


def _declared_types(stream: Stream | None) -> dict[str, pa.DataType]:
    """Return the column types that a declaration fixes."""
    if stream is None:
        return {}
    kinds: dict[str, Kind] = dict(stream.attributes)
    for attributes in stream.events.values():
        for name, kind in attributes.items():
            known = kinds.setdefault(name, kind)
            if known != kind:
                kinds[name] = Kind.FLOAT if known.numeric and kind.numeric else Kind.OTHER
    return {n: _DECLARED[k] for n, k in kinds.items() if k in _DECLARED and "." not in n}
