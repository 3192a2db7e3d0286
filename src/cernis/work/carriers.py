"""Carriers: the Spark types that carry Arrow values which Spark has no type for.

Spark has one precision of times, no unsigned integers and no times of day. A *carrier* is a
type of Spark's that holds the values of such a column exactly. The metadata of the DataFrame's
column notes the original type, and workers convert the column back. So the numbers of a time
column keep their unit (`WITHIN`, `x.time`), and output is the embedded engine's.

Turned down: Spark's own types alone. Then 5 units of a column in milliseconds would be 5
microseconds, and every time would be written with six more digits.

Tables travel to and from the buckets of streams as *blobs*: one value for many rows.

Does not import Spark, so that workers need not load it.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cernis.events.column_types import value_type

READ_AS = "cernis.arrow"
"""The key in a column's metadata under which its original type stands."""

_LARGEST_PRECISION = 38
_UNSIGNED = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
}


def carrier_of(type_: pa.DataType) -> pa.DataType | None:
    """Return the Spark type that carries values of this type; None if there is none.

    >>> carrier_of(pa.timestamp("ms")), carrier_of(pa.uint8()), carrier_of(pa.decimal256(50, 0))
    (TimestampType(timestamp[us]), DataType(int16), None)
    """
    type_ = value_type(type_)
    if type_ in _UNSIGNED:
        return _UNSIGNED[type_]
    if pa.types.is_timestamp(type_):
        return pa.timestamp("us", None if type_.tz is None else "UTC")
    if pa.types.is_date(type_):
        return pa.date32()
    if pa.types.is_time(type_) or pa.types.is_duration(type_):
        return pa.duration("us")  # an interval, which is compared with nothing in Spark
    if pa.types.is_null(type_) or pa.types.is_large_string(type_):
        return pa.string()
    if pa.types.is_large_binary(type_) or pa.types.is_fixed_size_binary(type_):
        return pa.binary()
    if pa.types.is_decimal(type_):
        fits = type_.precision <= _LARGEST_PRECISION and 0 <= type_.scale <= type_.precision
        return pa.decimal128(type_.precision, type_.scale) if fits else None
    if pa.types.is_map(type_):
        key, item = carrier_of(type_.key_type), carrier_of(type_.item_type)
        return None if key is None or item is None else pa.map_(key, item)
    if pa.types.is_struct(type_):
        fields = [(f.name, carrier_of(f.type)) for f in type_.fields]
        return None if any(t is None for _, t in fields) or not fields else pa.struct(fields)
    if _is_list(type_):
        value = carrier_of(type_.value_type)
        return None if value is None else pa.list_(value)
    return type_ if _is_common(type_) else None


def _is_list(type_: pa.DataType) -> bool:
    t = pa.types
    return bool(t.is_list(type_) or t.is_large_list(type_) or t.is_fixed_size_list(type_))


def _is_common(type_: pa.DataType) -> bool:
    t = pa.types
    tests = (t.is_signed_integer, t.is_float32, t.is_float64, t.is_string, t.is_boolean)
    return t.is_binary(type_) or any(test(type_) for test in tests)


def convert(column: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    """Convert a column to its carrier, or back; ArrowInvalid for a value that does not fit.

    >>> hour = pa.chunked_array([[3600]], pa.time32("s"))
    >>> convert(convert(hour, carrier_of(hour.type)), hour.type).equals(hour)
    True
    """
    if column.type == type_:
        return column
    own = value_type(column.type)
    column = column if own == column.type else column.cast(own)
    return pa.chunked_array([_convert(chunk, type_) for chunk in column.chunks], type_)


def _convert(array: pa.Array, type_: pa.DataType) -> pa.Array:
    own = array.type
    if own == type_ or not _lacks_cast(own, type_):
        return array.cast(type_)
    if pa.types.is_null(own) or pa.types.is_null(type_):
        return pa.nulls(len(array), type_)
    if pa.types.is_time(own):
        whole = array.cast(pa.int32() if pa.types.is_time32(own) else pa.int64())
        return whole.cast(pa.int64()).cast(pa.duration(own.unit)).cast(type_)
    if pa.types.is_time(type_):
        whole = array.cast(pa.duration(type_.unit)).cast(pa.int64())
        return whole.cast(pa.int32() if pa.types.is_time32(type_) else pa.int64()).cast(type_)
    if pa.types.is_struct(own):
        pairs = zip(array.flatten(), type_.fields, strict=True)
        children = [_convert(child, field.type) for child, field in pairs]
        return pa.StructArray.from_arrays(children, fields=type_.fields, mask=array.is_null())
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    values = _convert(array.flatten(), type_.value_type)
    lists = pa.ListArray.from_arrays(offsets, values, mask=array.is_null())
    return lists.cast(type_)


def _lacks_cast(own: pa.DataType, type_: pa.DataType) -> bool:
    """Return whether Arrow has no cast from the one type to the other."""
    if pa.types.is_struct(own) and pa.types.is_struct(type_):
        pairs = zip(own.fields, type_.fields, strict=True)
        return any(_lacks_cast(a.type, b.type) for a, b in pairs)
    if _is_list(own) and _is_list(type_):
        return _lacks_cast(own.value_type, type_.value_type)
    nothing = pa.types.is_null(own) != pa.types.is_null(type_)
    return bool(nothing or pa.types.is_time(own) != pa.types.is_time(type_))


def note_type(type_: pa.DataType) -> dict[str, str]:
    """Return metadata that notes the original type of a column."""
    note = pa.schema([("", value_type(type_))]).serialize().to_pybytes()
    return {READ_AS: b64encode(note).decode()}


def noted_type(metadata: Mapping[str, Any] | None) -> pa.DataType | None:
    """Return the original type that a column's metadata notes; None if it notes none.

    >>> noted_type(note_type(pa.timestamp("ms"))), noted_type({})
    (TimestampType(timestamp[ms]), None)
    """
    note = (metadata or {}).get(READ_AS)
    if note is None:
        return None
    return pa.ipc.read_schema(pa.py_buffer(b64decode(note))).field(0).type


# -------------------------------------------------------------------- blobs

_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)


def write_blob(table: pa.Table, notes: dict[str, str] | None = None) -> bytes:
    """Write a table as an Arrow stream, with notes in the metadata of its schema."""
    sink = pa.BufferOutputStream()
    table = table.replace_schema_metadata(notes)
    with pa.ipc.new_stream(sink, table.schema, options=_COMPRESSED) as writer:
        writer.write_table(table)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def read_blob(blob: bytes) -> pa.Table:
    """Read the table of a blob."""
    return pa.ipc.open_stream(pa.py_buffer(blob)).read_all()
