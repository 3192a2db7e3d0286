"""Readers: one per kind of input, all giving `Piece`s of a table with row numbers.

A piece has the row number of each of its rows in the input as given (broken rows that were
left out count), and knows where in the input a row stands, for messages. A reader holds one
piece at a time: memory is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cernis.errors import DataError
from cernis.events.batch import Int64s

BATCH_ROWS = 1 << 17
_FEW_ROWS = 1 << 11
"""Tables with fewer rows are checked as a whole."""


class RowSource(NamedTuple):
    """Where a row stands (`trades.csv, line 4 (row 2)`) and its text where there is one."""

    where: str
    text: str | None = None


class Piece(NamedTuple):
    """Some rows of an input; `source(i)` says where the i-th of them stands."""

    table: pa.Table
    rows: Int64s
    source: Callable[[int], RowSource]
    file: str | None = None
    """The file that they are in, if the input has several; its rows count from `first` on."""
    first: int = 0


class Reader(Protocol):
    """One input, whose rows come piece by piece, in order."""

    label: str
    reopens: bool

    @property
    def count(self) -> int | None:
        """The rows of the input, broken ones too; None until known."""

    @property
    def nbytes(self) -> int | None:
        """About how much memory all of it takes; None where unknown."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the input."""

    def pieces(self, columns: Sequence[str] | None) -> Iterator[Piece]:
        """Read all columns, or some of them."""


def number_rows(label: str, table: pa.Table, first: int) -> Piece:
    """Return a piece of consecutive rows from `first` on."""
    rows = np.arange(first, first + table.num_rows, dtype=np.int64)
    return Piece(table, rows, lambda i: RowSource(f"{label}, row {first + i}"))


def number_slices(label: str, table: pa.Table, first: int) -> Iterator[Piece]:
    """Yield the rows of a table, from `first` on, as pieces of at most `BATCH_ROWS`."""
    for start in range(0, table.num_rows, BATCH_ROWS):
        yield number_rows(label, table.slice(start, BATCH_ROWS), first + start)


def _row_of(label: str, rows: Int64s, i: int) -> RowSource:
    return RowSource(f"{label}, row {rows[i]}")


class TableReader:
    """A table in memory; pieces are slices of it."""

    reopens = True

    def __init__(self, label: str, table: pa.Table, rows: Int64s | None = None) -> None:
        self.label = label
        self.table = simplify_table(table)
        self.schema = self.table.schema
        self.count: int | None = table.num_rows if rows is None else int(rows[-1]) + 1
        self.nbytes: int | None = 0
        self._rows = rows

    def pieces(self, columns: Sequence[str] | None) -> Iterator[Piece]:
        table = self.table if columns is None else self.table.select(list(columns))
        for first in range(0, table.num_rows, BATCH_ROWS):
            # a slice of a wide table costs as much as a few hundred of its rows
            some = table if table.num_rows <= BATCH_ROWS else table.slice(first, BATCH_ROWS)
            piece = number_rows(self.label, some, first)
            if self._rows is not None:
                rows = self._rows[first : first + BATCH_ROWS]
                piece = Piece(piece.table, rows, partial(_row_of, self.label, rows))
            yield piece


class EmptyReader:
    """An input without rows and columns, and why it has none."""

    reopens = True
    schema = pa.schema([])
    nbytes: int | None = 0

    def __init__(self, label: str, why: str) -> None:
        self.label = label
        self.why = why
        self.count: int | None = 0

    def pieces(self, columns: Sequence[str] | None) -> Iterator[Piece]:
        return iter(())


class BatchReader:
    """Arrow batches from an iterator: read once, in order."""

    reopens = False
    nbytes: int | None = None

    def __init__(self, label: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        self.label = label
        self.schema = read_schema(label, schema)
        self.count: int | None = None
        self._batches: Iterable[pa.RecordBatch] | None = batches

    def pieces(self, columns: Sequence[str] | None) -> Iterator[Piece]:
        batches, self._batches = self._batches, None
        if batches is None:
            raise DataError(f"{self.label}: the events were read already and cannot be read again")
        first = 0
        try:
            for batch in batches:
                table = to_table(batch)
                if columns is not None:
                    table = table.select(list(columns))
                table = simplify_table(check_columns(self.label, table))
                yield from number_slices(self.label, table, first)
                first += table.num_rows
        except pa.ArrowException as error:
            raise DataError(
                f"{self.label}: the batch from row {first} on cannot be read: {error}"
            ) from error
        self.count = first


def to_table(batch: pa.Table | pa.RecordBatch) -> pa.Table:
    """Return a batch as a table."""
    return batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch])


def read_schema(label: str, schema: pa.Schema) -> pa.Schema:
    """Return the schema that `simplify_table` gives a table from outside."""
    _check_names(label, schema)
    return simplify_schema(schema)


class LastSchema:
    """The last schema without an odd layout, whose names are different texts.

    Pushes have the same one again and again.
    """

    plain: pa.Schema | None = None

    @classmethod
    def is_like(cls, schema: pa.Schema) -> bool:
        """Return whether a schema is the same; microseconds, also with hundreds of columns."""
        return cls.plain is not None and schema.equals(cls.plain, check_metadata=True)

    @classmethod
    def check_names(cls, label: str, schema: pa.Schema) -> list[str]:
        """Like `_check_names`, once for schemas that are the same."""
        if cls.is_like(schema):
            return list(schema.names)
        names = _check_names(label, schema)
        if simplify_schema(schema) == schema and len({*names}) == len(names):
            cls.plain = schema
        return names


def _check_names(label: str, schema: pa.Schema) -> list[str]:
    """Return the names of the columns, which pyarrow decodes when it is asked for them."""
    try:
        nested = [field for field in schema if pa.types.is_nested(field.type)]
        for field in nested:
            nested += [field.type.field(i) for i in range(field.type.num_fields)]
        return [*schema.names, *(field.name for field in nested)][: len(schema.names)]
    except UnicodeDecodeError as error:
        raise DataError(f"{label}: the name of a column is not UTF-8") from error


def check_columns(label: str, table: pa.Table) -> pa.Table:
    """Return Arrow data from outside if it is sound: the kernels follow its offsets.

    Arrow itself trusts offsets, indices of dictionaries and the encoding of text.
    """
    where = label
    try:
        names = LastSchema.check_names(label, table.schema)
        if table.num_rows < _FEW_ROWS and _is_valid(table):
            return table
        table.validate()  # the sizes of all buffers; numbers need no more
        for name, column in zip(names, table.columns, strict=True):
            if not pa.types.is_primitive(column.type):
                where = f"{label}, column {name!r}"
                if not all(map(_is_plainly_sound, column.chunks)):
                    column.validate(full=True)
    except pa.ArrowException as error:
        raise DataError(f"{where}: the Arrow data is damaged: {first_line(error)}") from error
    return table


def _is_valid(table: pa.Table) -> bool:
    """Return whether Arrow finds a table sound: one call, whatever the number of columns."""
    try:
        table.validate(full=True)
    except pa.ArrowException:
        return False
    return True


def _is_plainly_sound(values: pa.Array) -> bool:
    """Return whether an array is sound text in ASCII, or refers to a dictionary of such text.

    Several times faster than Arrow's check, which is for all that this one cannot tell.

    >>> _is_plainly_sound(pa.array(["a", None, "bc"])), _is_plainly_sound(pa.array(["é"]))
    (True, False)
    """
    if pa.types.is_dictionary(values.type):
        if values.indices.null_count or not len(values):
            return False
        index = values.indices.to_numpy()
        inside = index.min() >= 0 and index.max() < len(values.dictionary)
        return bool(inside) and _is_plainly_sound(values.dictionary)
    wide = pa.types.is_large_string(values.type)
    if not (wide or pa.types.is_string(values.type)) or not len(values):
        return False
    _, ends, data = values.buffers()
    if ends is None or data is None:
        return False
    width = np.dtype(np.int64 if wide else np.int32)
    offsets = np.frombuffer(ends, width, len(values) + 1, values.offset * width.itemsize)
    return (
        0 <= int(offsets[0]) <= int(offsets[-1]) <= data.size
        and bool((offsets[1:] >= offsets[:-1]).all())
        and int(np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]].max(initial=0)) < 0x80
    )


def read_stream(stream: bytes) -> pa.Table:
    """Return the table in an Arrow IPC stream, if it is sound."""
    try:
        table = pa.ipc.open_stream(pa.py_buffer(stream)).read_all()
        return check_columns("an Arrow stream", table)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(f"an Arrow stream cannot be read: {first_line(error)}") from error


def first_line(error: Exception) -> str:
    """Return the first line of an error."""
    return str(error).strip().split("\n")[0].rstrip(".")


def simplify_table(table: pa.Table) -> pa.Table:
    """Return the table without the layouts that few compute functions know."""
    if LastSchema.is_like(table.schema):
        return table
    schema = simplify_schema(table.schema)
    if schema == table.schema:
        return table
    columns = []
    for column, type_ in zip(table.columns, schema.types, strict=True):
        if isinstance(column.type, pa.BaseExtensionType):
            column = column.cast(column.type.storage_type)
        if pa.types.is_run_end_encoded(column.type):
            column = pc.run_end_decode(column)
        if pa.types.is_null(type_):
            column = pa.nulls(len(column))
        columns.append(column if column.type == type_ else column.cast(type_))
    return pa.Table.from_arrays(columns, schema=schema)


def simplify_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema that `simplify_table` gives a table."""
    fields = [field.with_type(simplify_type(field.type)) for field in schema]
    return pa.schema(fields)


def simplify_type(type_: pa.DataType) -> pa.DataType:
    """Return the plain form of a view, a run-end encoding, a half float or an extension.

    >>> simplify_type(pa.string_view()), simplify_type(pa.float16())
    (DataType(large_string), DataType(float))
    """
    if isinstance(type_, pa.BaseExtensionType):
        return simplify_type(type_.storage_type)
    if pa.types.is_string_view(type_):
        return pa.large_string()
    if pa.types.is_binary_view(type_):
        return pa.large_binary()
    if pa.types.is_float16(type_):
        return pa.float32()
    if pa.types.is_run_end_encoded(type_):
        return simplify_type(type_.value_type)
    if pa.types.is_dictionary(type_):
        value = simplify_type(type_.value_type)
        if pa.types.is_null(value):
            return value
        return pa.dictionary(type_.index_type, value, type_.ordered)
    if pa.types.is_struct(type_):
        fields = (type_.field(i) for i in range(type_.num_fields))
        return pa.struct([f.with_type(simplify_type(f.type)) for f in fields])
    return type_
