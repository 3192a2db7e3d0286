"""The types of columns: what they hold, and the type that holds the values of several.

Dictionaries have the type of their values. Cost: one cast where types differ, and a copy where
chunks are joined.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

_UNITS = ("s", "ms", "us", "ns")


def value_type(type_: pa.DataType) -> pa.DataType:
    """Return the type of the values: of a dictionary, the type of its entries."""
    return type_.value_type if pa.types.is_dictionary(type_) else type_


def is_text(type_: pa.DataType) -> bool:
    """Return whether a column of this type holds strings."""
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_))


def is_fraction(type_: pa.DataType) -> bool:
    """Return whether a column of this type holds floats or decimals."""
    return bool(pa.types.is_floating(type_) or pa.types.is_decimal(type_))


def is_number(type_: pa.DataType) -> bool:
    """Return whether a column of this type holds integers, floats or decimals."""
    return bool(pa.types.is_integer(type_)) or is_fraction(type_)


MOST_ORDERED_DIGITS = 34
"""Decimals of so many digits keep their order in the two words of an index."""


def is_long_decimal(type_: pa.DataType) -> bool:
    """Return whether a column of this type may hold decimals that no index keeps in order."""
    return bool(pa.types.is_decimal(type_)) and type_.precision > MOST_ORDERED_DIGITS


def common_type(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """Return the type that holds values of both; text where nothing else does.

    >>> common_type(pa.int32(), pa.float32()), common_type(pa.int8(), pa.string())
    (DataType(double), DataType(string))
    """
    if a == b or pa.types.is_null(b):
        return a
    if pa.types.is_null(a):
        return b

    def both(test: Callable[[pa.DataType], bool]) -> bool:
        return test(a) and test(b)

    if both(pa.types.is_integer):
        wide = {a, b} & {pa.uint64()}
        return pa.uint64() if wide and both(pa.types.is_unsigned_integer) else pa.int64()
    if both(is_number):
        return pa.float64()
    if both(is_text):
        return pa.large_string()
    if both(_is_instant):
        return _common_timestamp(a, b)
    if both(pa.types.is_struct):
        fields = {f.name: f for f in (a.field(i) for i in range(a.num_fields))}
        for field in (b.field(i) for i in range(b.num_fields)):
            known = fields.get(field.name, field)
            fields[field.name] = field.with_type(common_type(known.type, field.type))
        return pa.struct(list(fields.values()))
    return pa.string()


def _is_instant(type_: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(type_) or pa.types.is_date(type_))


def _common_timestamp(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    units = [t.unit if pa.types.is_timestamp(t) else "ms" for t in (a, b)]
    zones = {t.tz for t in (a, b) if pa.types.is_timestamp(t)}
    zone = zones.pop() if len(zones) == 1 else "UTC"
    return pa.timestamp(max(units, key=_UNITS.index), zone)


def cast_to(values: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return the values in a type that `common_type` chose."""
    if values.type == type_:
        return values
    if pa.types.is_struct(type_) and pa.types.is_struct(values.type):
        return _cast_struct(values, type_)
    try:
        return values.cast(type_, safe=False)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return pa.array([None if v is None else str(v) for v in values.to_pylist()]).cast(type_)


def _cast_struct(values: pa.StructArray, type_: pa.StructType) -> pa.StructArray:
    children, fields = [], [type_.field(i) for i in range(type_.num_fields)]
    for field in fields:
        here = values.type.get_field_index(field.name)
        child = pa.nulls(len(values), field.type) if here < 0 else values.flatten()[here]
        children.append(cast_to(child, field.type))
    return pa.StructArray.from_arrays(children, fields=fields, mask=values.is_null())


def cast_table(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Cast each column of a table to a schema of such types."""
    columns = [
        cast_to(make_contiguous(column), field.type)
        for column, field in zip(table.columns, schema, strict=True)
    ]
    return pa.table(columns, schema=schema)


def join_chunks(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the column as one chunk; dictionaries are unified, or decoded where Arrow cannot."""
    if column.num_chunks <= 1:
        return column
    try:
        chunks = column.unify_dictionaries().chunks
    except pa.ArrowNotImplementedError:
        chunks = [chunk.dictionary_decode() for chunk in column.chunks]
    return pa.chunked_array([pa.concat_arrays(chunks)])


def make_contiguous(column: pa.ChunkedArray) -> pa.Array:
    """Return the values of a column as one array, dictionaries decoded."""
    if pa.types.is_dictionary(column.type):
        chunks = [chunk.dictionary_decode() for chunk in column.chunks]
        column = pa.chunked_array(chunks, column.type.value_type)
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)
