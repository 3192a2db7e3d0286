"""Arrow types beside Spark's own: in what Spark holds the values of a file, and back.

Spark has one precision of times, no unsigned integers and no times of day. Values of such
columns are *carried* in a type that holds them exactly, or not at all; what the type was is
noted in the metadata of the DataFrame's column. Workers turn the columns back, so that
numbers of a time column count what they counted in the file (`WITHIN`, `x.time`), and what
is written is written as the embedded engine writes it.

Turned down: leaving it at Spark's types. Then 5 units of a column in milliseconds would be 5
microseconds, and every time would come out with six more digits.

Knows nothing of Spark, which workers need not load.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cernis.events.times import plain

READ_AS = "cernis.arrow"
"""In the metadata of a column: the type that it was read in."""

_LARGEST_PRECISION = 38
_UNSIGNED = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
}


def carried(type_: pa.DataType) -> pa.DataType | None:
    """The type, of those that Spark has, that holds values of this one; None if there is none.

    >>> carried(pa.timestamp("ms")), carried(pa.uint8()), carried(pa.decimal256(50, 0))
    (TimestampType(timestamp[us]), DataType(int16), None)
    """
    type_ = plain(type_)
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
        key, item = carried(type_.key_type), carried(type_.item_type)
        return None if key is None or item is None else pa.map_(key, item)
    if pa.types.is_struct(type_):
        fields = [(f.name, carried(f.type)) for f in type_.fields]
        return None if any(t is None for _, t in fields) or not fields else pa.struct(fields)
    if _is_list(type_):
        value = carried(type_.value_type)
        return None if value is None else pa.list_(value)
    return type_ if _is_common(type_) else None


def _is_list(type_: pa.DataType) -> bool:
    t = pa.types
    return bool(t.is_list(type_) or t.is_large_list(type_) or t.is_fixed_size_list(type_))


def _is_common(type_: pa.DataType) -> bool:
    t = pa.types
    tests = (t.is_signed_integer, t.is_float32, t.is_float64, t.is_string, t.is_boolean)
    return t.is_binary(type_) or any(test(type_) for test in tests)


def converted(column: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    """A column in the type that carries it, or back; ArrowInvalid for a value that does not fit.

    >>> hour = pa.chunked_array([[3600]], pa.time32("s"))
    >>> converted(converted(hour, carried(hour.type)), hour.type).equals(hour)
    True
    """
    if column.type == type_:
        return column
    own = plain(column.type)
    column = column if own == column.type else column.cast(own)
    return pa.chunked_array([_converted(chunk, type_) for chunk in column.chunks], type_)


def _converted(array: pa.Array, type_: pa.DataType) -> pa.Array:
    own = array.type
    if own == type_ or not _is_beyond_casts(own, type_):
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
        children = [_converted(child, field.type) for child, field in pairs]
        return pa.StructArray.from_arrays(children, fields=type_.fields, mask=array.is_null())
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    values = _converted(array.flatten(), type_.value_type)
    lists = pa.ListArray.from_arrays(offsets, values, mask=array.is_null())
    return lists.cast(type_)


def _is_beyond_casts(own: pa.DataType, type_: pa.DataType) -> bool:
    """Whether Arrow's own casts do not lead from the one to the other."""
    if pa.types.is_struct(own) and pa.types.is_struct(type_):
        pairs = zip(own.fields, type_.fields, strict=True)
        return any(_is_beyond_casts(a.type, b.type) for a, b in pairs)
    if _is_list(own) and _is_list(type_):
        return _is_beyond_casts(own.value_type, type_.value_type)
    nothing = pa.types.is_null(own) != pa.types.is_null(type_)
    return bool(nothing or pa.types.is_time(own) != pa.types.is_time(type_))


# ---------------------------------------------------------------- metadata


def note_of(type_: pa.DataType) -> dict[str, str]:
    """Metadata that says what a column was read as."""
    held = pa.schema([("", plain(type_))]).serialize().to_pybytes()
    return {READ_AS: b64encode(held).decode()}


def read_as(metadata: Mapping[str, Any] | None) -> pa.DataType | None:
    """What metadata says of a column; None where it says nothing.

    >>> read_as(note_of(pa.timestamp("ms"))), read_as({})
    (TimestampType(timestamp[ms]), None)
    """
    held = (metadata or {}).get(READ_AS)
    if held is None:
        return None
    return pa.ipc.read_schema(pa.py_buffer(b64decode(held))).field(0).type
