"""Event types as text: every form that a column of types may have.

Whole numbers, booleans and enumerations are types too: the number 3 is the type `3`, as it would
be in a CSV file. Fractions are types where they are whole, because pandas makes fractions of whole
numbers beside missing values. Cost: no copy for text, one pass otherwise.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from cernis.errors import DataError
from cernis.events.batch import Bools
from cernis.events.column_types import is_text, value_type


def type_of_types(type_: pa.DataType) -> pa.DataType | None:
    """Return the type that a column of event types gets; None if it cannot hold any.

    >>> type_of_types(pa.int32()), type_of_types(pa.timestamp("s"))
    (DataType(string), None)
    """
    own = value_type(type_)
    if is_text(own) or pa.types.is_null(own):
        return type_
    if not _is_usable(own):
        return None
    if pa.types.is_dictionary(type_):
        return pa.dictionary(type_.index_type, pa.string(), type_.ordered)
    return pa.string()


def _is_usable(own: pa.DataType) -> bool:
    t = pa.types
    if t.is_decimal(own):
        return bool(own.scale <= 0)
    tests = (t.is_integer, t.is_boolean, t.is_floating, t.is_binary, t.is_large_binary)
    return any(test(own) for test in tests)


def convert_types(column: pa.ChunkedArray) -> tuple[pa.ChunkedArray, Bools | None]:
    """Return a column of types as text, and marks where a value is no type.

    >>> convert_types(pa.chunked_array([[3.0, None, 2.5]]))[0].to_pylist()
    ['3', None, None]
    """
    target = type_of_types(column.type)
    if target == column.type or target is None:
        return column, None
    if pa.types.is_dictionary(column.type):
        chunks = [_convert_dictionary(chunk) for chunk in column.chunks]
        return pa.chunked_array(chunks, target), None
    if not pa.types.is_floating(column.type):
        return _as_text(column), None
    values = column.cast(pa.float64()).fill_null(np.nan).to_numpy()
    whole = (values == np.floor(values)) & (np.abs(values) < float(2**63))
    numbers = pa.array(np.where(whole, values, 0.0).astype(np.int64), mask=~whole)
    bad = ~whole & ~np.isnan(values)
    return _as_text(pa.chunked_array([numbers])), bad if bad.any() else None


def _convert_dictionary(values: pa.DictionaryArray) -> pa.DictionaryArray:
    types, bad = convert_types(pa.chunked_array([values.dictionary]))
    if bad is not None:
        raise DataError(f"{values.dictionary[int(bad.argmax())]} is no event type")
    return pa.DictionaryArray.from_arrays(values.indices, types.combine_chunks())


def _as_text(values: Any) -> Any:
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid as error:
        raise DataError(f"an event type cannot be read: {error}") from error
