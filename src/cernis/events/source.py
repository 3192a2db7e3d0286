"""`open_events`: files, frames and tables of events as a list of `Source`s.

A source is one stream: its name, its Arrow schema, and `chunks()`, which reads it from
the start in bounded memory and gives tables, row numbers, and times as whole ticks.
Frames and tables are not copied; files are read batch by batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from cernis.errors import DataError
from cernis.events import column_types, times
from cernis.events.batch import TIMES, TYPES, Bools, Int64s, is_computed
from cernis.events.event_types import convert_types, type_of_types
from cernis.events.reading.csv_form import Columns, columns_of, make_form
from cernis.events.reading.files import Opening, stem_of
from cernis.events.reading.folders import FilesReader, expand_path, open_path, open_paths
from cernis.events.reading.mistakes import Mistakes, OnError, check_names, did_you_mean, no_column
from cernis.events.reading.pipe import is_standard_input
from cernis.events.reading.reader import (
    BatchReader,
    EmptyReader,
    LastSchema,
    Piece,
    Reader,
    TableReader,
    check_columns,
    to_table,
)
from cernis.events.reading.records import make_table
from cernis.events.reading.text import TextReader
from cernis.output import input_files
from cernis.schema import Kind, Schema, Stream

__all__ = ["Chunk", "OnError", "Source", "kind_of", "open_events", "schema_of", "stream_of"]

DEFAULT_TYPE = "type"
DEFAULT_TIME = "ts"
DEFAULT_NAME = "S"
OTHERS = "*"

TimeColumns = str | Mapping[str, str] | None
"""The column of times: of all streams, or by stream; None: `ts`, if there is one."""
TypeColumns = str | Mapping[str, str | None] | None
"""The column of types: of all streams, or by stream. None: the stream's name is the type."""


class Chunk(NamedTuple):
    """Some rows of a source: the table, their row numbers, their times in ticks."""

    table: pa.Table
    rows: Int64s
    time: Int64s | None


@runtime_checkable
class OpensItself(Protocol):
    """An input that is no frame and no file, such as one that grows."""

    def open_reader(self, opening: Opening) -> Reader: ...


class DescribedStream(Protocol):
    """The name and the columns of a stream, whatever it is read from."""

    @property
    def name(self) -> str: ...
    @property
    def schema(self) -> pa.Schema: ...
    @property
    def is_blank(self) -> bool: ...


class Source:
    """One stream of events.

    `tick` is the size in nanoseconds of the unit that its times are exact in, None
    without a time column. `reopens` says whether it can be read more than once.
    `type_column` and `time_column` are the names under which events have their types and times,
    `columns` the columns of the input, and `timed_by` the one of times among them.
    """

    def __init__(
        self,
        name: str,
        reader: Reader,
        *,
        time: str | None = None,
        type: str | None = "type",
        type_as: str | None = None,
        time_unit: str = "ms",
        mistakes: Mistakes | None = None,
        default_type: str | None = None,
    ) -> None:
        self.name = name
        self.reader = reader
        self.mistakes = mistakes or Mistakes()
        self.type_column = type_as or type or TYPES
        self.time_unit = time_unit
        self.columns = reader.schema
        if not LastSchema.is_like(self.columns):
            check_names(self.label, self.columns.names)
        self._type = name if type is None else default_type
        """The type of all events, if no column has it."""
        self.blank_rows = 0
        """How many rows the last pass left out because they have no value at all."""
        self._typed_by = self._find_types(type)
        self.timed_by = self.time_column = self._find_times(time)
        self.tick = None if self.timed_by is None else self._find_tick(self.timed_by)

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of the events, with those of their types and times."""
        schema = self.columns
        if self.is_blank and self._type is None:
            return schema
        type_: pa.DataType = pa.dictionary(pa.int8(), pa.string())
        if self._typed_by is not None:
            own = schema.field(self._typed_by).type
            type_ = type_of_types(own) or pa.string()
            if type_ is own and self._typed_by == self.type_column and self.time_column != TIMES:
                return schema
        schema = _set_field(schema, pa.field(self.type_column, type_))
        if self.timed_by is not None and self.time_column == TIMES:
            schema = _set_field(schema, pa.field(TIMES, schema.field(self.timed_by).type))
        return schema

    @property
    def is_blank(self) -> bool:
        """Whether the source has neither columns nor rows that can be read."""
        reader = self.reader
        has_rows = reader.has_rows if isinstance(reader, TextReader) else reader.count != 0
        return not len(self.columns) and not has_rows

    @property
    def _readers(self) -> tuple[Reader, ...]:
        """The readers of its files."""
        return self.reader.readers if isinstance(self.reader, FilesReader) else (self.reader,)

    @property
    def is_text(self) -> bool:
        """Whether its values, or those of one of its files, are written as text."""
        return any(isinstance(reader, TextReader) for reader in self._readers)

    @property
    def notes(self) -> Iterator[str]:
        """Why files of the source have no events, and how many rows have no value."""
        if self.blank_rows:
            rows = "1 row was" if self.blank_rows == 1 else f"{self.blank_rows:,} rows were"
            yield f"{self.label}: {rows} left out, without a value in any column"
        for reader in self._readers:
            if isinstance(reader, EmptyReader):
                yield f"{reader.label}: {reader.why}"
            elif isinstance(reader, TextReader) and reader.count == 0:
                yield f"{reader.label}: has no events"

    def share_times(self) -> None:
        """Give the times in the column that all streams have in common."""
        if self.timed_by is not None:
            self.time_column = TIMES
            self.__dict__.pop("schema", None)

    @property
    def aside(self) -> frozenset[str | None]:
        """The columns of types and times."""
        return frozenset((self._typed_by or self.type_column, self.timed_by))

    @property
    def unit(self) -> int:
        """Nanoseconds in the unit of plain numbers in the time column."""
        if self.timed_by is None:
            return 1
        return times.own_unit(self.columns.field(self.timed_by).type, self.time_unit)

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
    def is_pipe(self) -> bool:
        """Whether the source is text that comes through a pipe."""
        return isinstance(self.reader, TextReader) and not self.reopens

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Its name in messages, and those of its files."""
        return tuple(dict.fromkeys([self.label, *(reader.label for reader in self._readers)]))

    @property
    def skips(self) -> dict[str, int]:
        """How many bad rows of each file the last pass over the source left out."""
        return {label: n for label in self.labels if (n := self.mistakes.skipped.get(label, 0))}

    @property
    def skipped(self) -> int:
        """How many bad rows the last pass over the source left out."""
        return sum(self.skips.values())

    def batches(self) -> Iterator[pa.Table]:
        """Return the rows, in the order given."""
        return (chunk.table for chunk in self.chunks())

    def chunks(self, *, tick: int | None = None, only_time: bool = False) -> Iterator[Chunk]:
        """Read the source once; with `only_time`, no other column, and without reports."""
        columns = None
        if only_time:
            columns = [] if self.timed_by is None else [self.timed_by]
        self.blank_rows = 0
        for label in self.labels:
            self.mistakes.begin(label, quiet=only_time)
        for piece in self.reader.pieces(columns):
            if not only_time:
                piece = self._add_types(piece)
            if self.timed_by is None:
                yield Chunk(piece.table, piece.rows, None)
            else:
                yield self._read_times(piece, self.timed_by, tick or self.tick or 1)

    def _read_times(self, piece: Piece, column: str, tick: int) -> Chunk:
        """Return the rows that have a usable time; report the others."""
        values = piece.table.column(column)
        if self.time_column == TIMES:
            piece = piece._replace(table=piece.table.append_column(TIMES, values))
        ticks, bad = times.to_ticks(values, self.time_unit, tick)
        if bad is None:
            return Chunk(piece.table, piece.rows, ticks)
        wrong = bad
        if self.mistakes.fails:
            wrong = bad & ~self._find_blank(piece.table)
            self.blank_rows += int((bad & ~wrong).sum())
        self._report(piece, column, wrong, lambda i: times.describe_bad_time(_to_python(values[i])))
        return Chunk(piece.table.filter(pa.array(~bad)), piece.rows[~bad], ticks[~bad])

    def _find_blank(self, table: pa.Table) -> Bools:
        """Return which rows have no value in any column: these are no events.

        A pass over times alone takes every row without a time for one; the pass over all columns
        that follows tells them apart.
        """
        blank = np.ones(table.num_rows, np.bool_)
        for name in self.columns.names:
            if name in table.column_names:
                blank &= table.column(name).is_null().to_numpy()
        return blank

    def _report(
        self, piece: Piece, column: str, bad: Bools, describe: Callable[[int], str]
    ) -> None:
        for i in np.flatnonzero(bad).tolist():
            where, text = piece.source(i)
            file, row = piece.file or self.label, int(piece.rows[i]) - piece.first
            self.mistakes.bad(file, row, column, describe(i), text=text, where=where)

    def _add_types(self, piece: Piece) -> Piece:
        """Return the rows with their types as text."""
        table = piece.table
        if self._typed_by is None:
            indices = pa.array(np.zeros(table.num_rows, np.int8))
            column = pa.DictionaryArray.from_arrays(indices, pa.array([self._type]))
            return piece._replace(table=_set_column(table, self.type_column, column))
        if self._typed_by not in table.column_names:
            return piece  # a batch without types has no event of any type
        given = table.column(self._typed_by)
        values, bad = convert_types(given)
        if bad is not None:
            reason = "is no type: expected text or a whole number"
            self._report(piece, self._typed_by, bad, lambda i: f"{_to_python(given[i])!r} {reason}")
            kept = pa.array(~bad)
            table, values = table.filter(kept), values.filter(kept)
            source, at = piece.source, np.flatnonzero(~bad)
            piece = piece._replace(rows=piece.rows[~bad], source=lambda i: source(int(at[i])))
        if values is not given or self.type_column != self._typed_by:
            table = _set_column(table, self.type_column, values)
        return piece._replace(table=table)

    def _find_types(self, column: str | None) -> str | None:
        """Return the column of types; None where the name of the stream is the type."""
        names = self.columns.names
        if column is None or (column not in names and self._type is not None):
            return None
        if column not in names:
            if not self.is_blank:
                raise DataError(no_column(self.label, column, "the event type", names))
            return None
        self._check_files(column, "the event type")
        type_ = self.columns.field(column).type
        if type_of_types(type_) is None:
            raise DataError(
                f"{self.label}: the type column {column!r} holds {column_types.value_type(type_)}, "
                "not text or whole numbers"
            )
        return column

    def _find_times(self, column: str | None) -> str | None:
        names = self.columns.names
        if column is None:
            column = DEFAULT_TIME if DEFAULT_TIME in names else None
        elif column not in names:
            if not self.is_blank:
                raise DataError(no_column(self.label, column, "the time", names))
            return None
        if column is not None:
            self._check_files(column, "the time")
        return column

    def _check_files(self, column: str, purpose: str) -> None:
        """Raise if one of several files has no such column."""
        for reader in self._readers:
            names = reader.schema.names
            if names and column not in names:
                raise DataError(no_column(reader.label, column, purpose, names))

    def _find_tick(self, column: str) -> int:
        type_ = self.columns.field(column).type
        tick = times.tick_of(type_, self.time_unit)
        if tick is None:
            raise DataError(f"{self.label}: the column {column!r} holds {type_}, not times")
        if self.is_text and pa.types.is_temporal(type_):
            return 1  # a later block may be finer than the first
        return tick


def _set_field(schema: pa.Schema, field: pa.Field) -> pa.Schema:
    at = schema.get_field_index(field.name)
    return schema.append(field) if at < 0 else schema.set(at, field)


def _set_column(table: pa.Table, name: str, values: Any) -> pa.Table:
    at = table.schema.get_field_index(name)
    return table.append_column(name, values) if at < 0 else table.set_column(at, name, values)


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
    time: TimeColumns = None,
    type: TypeColumns = "type",
    time_unit: str = "ms",
    format: str | None = None,
    columns: Columns | None = None,
    delimiter: str | None = None,
    quote: str | None = None,
    on_error: OnError | Mistakes = "fail",
    declared: Schema | None = None,
    in_order: bool = False,
) -> list[Source]:
    """Return the streams in `events`, in the order given.

    `events` is a pandas or polars frame, anything with the Arrow stream interface, a
    list of dicts, an iterable of Arrow batches, a path or several, or a dict of names
    to any of these. A path is a file, a folder, a glob (`trips-*.csv`), or `-`, which is
    standard input. `names` are the streams that the query reads; without names, all
    inputs are read. One input and one name need not agree, and several files that are not named
    otherwise are the files of the one stream that is read. `time` and `type` name the columns of
    times and types, of all streams or by stream. Where a stream with a name has no column `type`,
    or its type column is None, its name is the type of all its events. `columns`, `delimiter` and
    `quote` are those of CSV. `on_error` is the policy for bad rows: "fail", "skip", a path, a
    function, or `Mistakes` to share among several calls. `declared` fixes the types of columns
    read from text. With `in_order`, pipes are read as their rows come.

    >>> [source] = open_events([{"type": "A", "ts": 5}, {"type": "B", "ts": 7}])
    >>> [table.num_rows for table in source.batches()]
    [2]
    """
    times.check_unit(time_unit)
    mistakes = on_error if isinstance(on_error, Mistakes) else Mistakes(on_error)
    inputs = _join_files(events, _inputs(events), list(names or ()))
    wanted = choose_inputs(inputs, list(names or ()))
    known = {*(own for own, _ in inputs), *(name for name, _ in wanted)}
    for option, given in (("time", time), ("type", type), ("columns", columns)):
        check_streams(option, given, [name for name in known if name is not None])
    mistakes.open(input_files(_paths(value for _, value in inputs)))
    type_as = type if isinstance(type, str) else TYPES
    has_name = bool(names) or inputs[0][0] is not None
    sources = []
    for name, value in wanted:
        own_type = column_for(type, name, DEFAULT_TYPE)
        opening = Opening(
            format,
            mistakes,
            _declared_types(None if declared is None else declared.stream(name)),
            own_type,
            make_form(columns_of(columns, name), delimiter, quote),
            in_order,
        )
        sources.append(
            Source(
                name,
                _reader(name, value, opening),
                time=column_for(time, name, None),
                type=own_type,
                type_as=type_as,
                time_unit=time_unit,
                mistakes=mistakes,
                default_type=name if has_name and own_type == DEFAULT_TYPE else None,
            )
        )
    if len({source.timed_by for source in sources} - {None}) > 1:
        for source in sources:
            source.share_times()
    return sources


def column_for(given: Any, stream: str, default: str | None) -> Any:
    """Return the column that is given for a stream.

    >>> column_for({"parking": "ts1", "*": "at"}, "roads", None)
    'at'
    """
    if isinstance(given, Mapping):
        return given.get(stream, given.get(OTHERS, default))
    return given


def check_streams(option: str, given: object, known: Sequence[str]) -> None:
    """Raise if something is given for a stream that there is not."""
    for name in given if isinstance(given, Mapping) else ():
        if name != OTHERS and name not in known:
            help_ = did_you_mean(str(name), known) or f"; there is {', '.join(map(repr, known))}"
            raise DataError(f"{option} is given for {name!r}, which is no stream{help_}")


def read_table(name: str, value: Any) -> pa.Table:
    """Return a table that is joined to events: what `open_events` takes, without types and times.

    >>> read_table("t", [{"ticker": "MSFT", "sector": "tech"}]).column_names
    ['ticker', 'sector']
    """
    reader = _reader(name, _as_paths(value), Opening(None, Mistakes(), {}, None), "table")
    check_names(reader.label, reader.schema.names)
    pieces = [piece.table for piece in reader.pieces(None)]
    if not pieces:
        return reader.schema.empty_table()
    return pa.concat_tables(pieces, promote_options="permissive")


def _inputs(events: Any) -> list[tuple[str | None, Any]]:
    """Return the inputs with their names; None where an input has no name of its own."""
    if isinstance(events, (str, Path)):
        path = _path(events)
        return [(stem_of(path), path)]
    if isinstance(events, Mapping):
        if not events:
            raise DataError("no events: the dict of streams is empty")
        if any(isinstance(value, int | float | date) for value in events.values()):
            raise DataError(
                "a dict maps the names of streams to their events, and this looks like one event; "
                "put it into a list: [{…}]"
            )
        return [(str(k), _as_paths(v)) for k, v in events.items()]
    if _are_paths(events):
        return [(stem_of(path), path) for path in map(_path, events)]
    return [(None, events)]


def _path(name: str | Path) -> Path:
    """Return a path; an empty text is none, though Python takes it for the present folder."""
    if name == "":
        raise DataError("the path of the events is empty; '.' is the folder where you are")
    return Path(name)


def _are_paths(value: object) -> bool:
    return isinstance(value, (list, tuple)) and bool(value) and isinstance(value[0], (str, Path))


def _as_paths(value: Any) -> Any:
    """Return text as a path, and a list of texts as several."""
    if isinstance(value, str):
        return _path(value)
    return tuple(map(_path, value)) if _are_paths(value) else value


def _join_files(
    events: Any, inputs: list[tuple[str | None, Any]], names: Sequence[str]
) -> list[tuple[str | None, Any]]:
    """Return the inputs; files that are not named are one input, if the query reads one stream."""
    if not _are_paths(events) or len(inputs) == 1:
        return inputs
    stems = [stem for stem, _ in inputs]
    if len(names) == 1 and names[0] not in stems:
        return [(names[0], tuple(path for _, path in inputs))]
    for i, (stem, path) in enumerate(inputs):
        if stem in stems[:i]:
            raise DataError(
                f"two files give a stream named {stem!r}: "
                f"{inputs[stems.index(stem)][1]} and {path}; name them apart"
            )
    return inputs


def _paths(values: Iterable[Any]) -> list[Path]:
    """Return the files and folders among some inputs."""
    paths: list[Path] = []
    for value in values:
        several = value if isinstance(value, tuple) else (value,)
        paths += [file for one in several if isinstance(one, Path) for file in expand_path(one)]
    if sum(map(is_standard_input, paths)) > 1:
        raise DataError("standard input is given twice, and can be read only once")
    return paths


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


def _reader(name: str, value: Any, opening: Opening, what: str = "stream") -> Reader:
    if isinstance(value, OpensItself):
        return value.open_reader(opening)
    if isinstance(value, Path):
        return open_path(value, opening)
    if _are_paths(value):
        return open_paths(value, opening)
    label, mistakes, types = f"{what} {name!r}", opening.mistakes, opening.types
    if isinstance(value, pa.RecordBatchReader):
        return BatchReader(label, value.schema, value)
    if isinstance(value, (pa.Table, pa.RecordBatch)):
        return TableReader(label, check_columns(label, to_table(value)))
    kind = f"{value.__class__.__module__}.{value.__class__.__name__}"
    if kind.startswith("pandas."):
        return TableReader(label, check_columns(label, _from_pandas(label, value)))
    if kind.startswith("polars.") and kind.endswith("LazyFrame"):
        value = value.collect()
    if kind.startswith("polars."):
        _check_objects(label, value)
    if kind.startswith("pyspark.") and hasattr(value, "toArrow"):
        value = value.toArrow()  # its Arrow interface knows no timestamps
    if hasattr(value, "__arrow_c_stream__"):
        return _from_stream(label, value)
    if isinstance(value, (list, tuple)):
        return _from_list(label, value, mistakes, types)
    if isinstance(value, Iterable) and not isinstance(value, bytes | bytearray | memoryview):
        return _from_iterator(label, iter(value), mistakes, types)
    raise DataError(
        f"cannot read events from {kind!r}; expected a frame, an Arrow table, "
        "a list of dicts, a path, or a dict of names to these"
    )


def read_events(label: str, events: Any, opening: Opening) -> Reader:
    """Return the reader of events that are in memory: a frame, a table, a list of dicts."""
    return _reader(label, events, opening)


def _check_objects(label: str, frame: Any) -> None:
    """Raise DataError for a column of Python objects: the Arrow interface has their addresses."""
    schema = getattr(frame, "schema", {})
    for name, kind in schema.items():
        if str(kind) == "Object":
            raise DataError(f"{label}, column {name!r}: holds Python objects, which are no values")


def _from_pandas(label: str, frame: Any) -> pa.Table:
    check_names(label, [str(c) for c in frame.columns])
    try:
        table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        for column in frame.columns:
            values = frame[column].tolist()
            _, failed = make_table([{str(column): _no_nan(v)} for v in values], {})
            for row, (name, reason) in failed.items():
                raise DataError(f"{label}, row {row}, column {name!r}: {reason}") from error
        raise DataError(f"{label}: cannot be read: {error}") from error
    for i, column in enumerate(table.columns):
        # pandas makes fractions of a column without values
        if column.type == pa.float64() and column.null_count == len(column):
            table = table.set_column(i, table.schema.names[i], pa.nulls(len(column)))
    return table


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
    (column_types.is_fraction, Kind.FLOAT),
    (column_types.is_text, Kind.STRING),
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
    type_ = column_types.value_type(type_)
    return next((kind for test, kind in _KINDS if test(type_)), Kind.OTHER)


def schema_of(sources: Sequence[Source]) -> Schema:
    """Return the schema that the columns of the sources give."""
    return Schema(tuple(stream_of(source.name, source.schema) for source in sources))


@lru_cache(maxsize=64)
def stream_of(name: str, schema: pa.Schema) -> Stream:
    """Return the stream that some columns give; nested attributes get dotted names.

    Its event types are unknown.

    >>> stream_of("S", pa.schema({"user": pa.struct({"id": pa.int64()})})).attributes["user.id"]
    <Kind.INT: 'int'>
    """
    types = {n: type_ for n, type_ in list_attributes(schema) if not is_computed(n)}
    return Stream(
        name,
        {n: kind_of(type_) for n, type_ in types.items()},
        long_decimals=frozenset(
            n for n, type_ in types.items() if column_types.is_long_decimal(type_)
        ),
        decimals=frozenset(n for n, type_ in types.items() if pa.types.is_decimal(type_)),
    )


def list_attributes(
    schema: Iterable[pa.Field], inside: str = ""
) -> Iterator[tuple[str, pa.DataType]]:
    """Yield the attributes that some columns have, by their dotted names, with their types."""
    for field in schema:
        name, type_ = f"{inside}{field.name}", column_types.value_type(field.type)
        yield name, type_
        if pa.types.is_struct(type_):
            yield from list_attributes(type_.fields, f"{name}.")


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
