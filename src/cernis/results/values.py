"""Arrow values as Python objects and as JSON text.

Timestamps become `datetime` and durations `timedelta` where microseconds hold them exactly,
`numpy.datetime64` and `numpy.timedelta64` where they do not, whether or not pandas is installed. In
JSON they are ISO 8601 strings: timestamps in UTC (`Z`) when they have a time zone, durations in
seconds (`PT90.5S`), whatever their unit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from json.encoder import encode_basestring
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cernis.errors import DataError
from cernis.events.times import UNITS

_FEW = 8
"""So many values become text one by one, sooner than by several calls of Arrow."""


def python_values(column: pa.Array) -> list[Any]:
    """Return the column as a list.

    >>> python_values(pa.array([0], pa.timestamp("ns")))
    [datetime.datetime(1970, 1, 1, 0, 0)]
    >>> python_values(pa.array([1], pa.timestamp("ns")))
    [np.datetime64('1970-01-01T00:00:00.000000001')]
    """
    kind = column.type
    if pa.types.is_struct(kind):
        there = column.is_valid().to_pylist()
        pairs = zip(python_records(column), there, strict=True)
        return [record if is_there else None for record, is_there in pairs]
    if pa.types.is_timestamp(kind) and kind.tz is None and kind.unit != "ns":
        return column.to_numpy(zero_copy_only=False).astype("M8[us]").tolist()  # type: ignore[no-any-return]
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        try:
            return _to_list(column.cast(pa.timestamp("us", kind.tz)))
        except pa.ArrowInvalid:
            ticks = column.cast(pa.int64()).to_pylist()
            return [None if tick is None else np.datetime64(tick, "ns") for tick in ticks]
    if pa.types.is_duration(kind) and kind.unit == "ns":
        try:
            return column.cast(pa.duration("us")).to_pylist()  # type: ignore[no-any-return]
        except pa.ArrowInvalid:
            ticks = column.cast(pa.int64()).to_pylist()
            return [None if tick is None else np.timedelta64(tick, "ns") for tick in ticks]
    return _to_list(column)


def _to_list(column: pa.Array) -> list[Any]:
    try:
        return column.to_pylist()  # type: ignore[no-any-return]
    except (KeyError, UnicodeDecodeError) as error:
        raise DataError(
            f"a time has the zone {error.args[0]!r}, which is unknown here; convert it to UTC"
        ) from error


def python_records(structs: pa.StructArray) -> list[dict[str, Any]]:
    """Return each struct as a dictionary."""
    names = [field.name for field in structs.type]
    columns = [python_values(column) for column in structs.flatten()]
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def json_texts(column: pa.Array) -> pa.Array:
    """Return each value as JSON text.

    >>> json_texts(pa.array(['a"b', None])).to_pylist()
    ['"a\\\\"b"', 'null']
    >>> json_texts(pa.array([0], pa.timestamp("ms", "Europe/Rome"))).to_pylist()
    ['"1970-01-01T00:00:00.000Z"']
    """
    kind = column.type
    if len(column) <= _FEW and (pa.types.is_integer(kind) or pa.types.is_string(kind)):
        write = str if pa.types.is_integer(kind) else encode_basestring
        few = ["null" if value is None else write(value) for value in column.to_pylist()]
        return pa.array(few, pa.string())
    if pa.types.is_dictionary(kind):
        return json_texts(column.dictionary_decode())
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        texts = column.cast(pa.string())
    elif pa.types.is_floating(kind):
        texts = pc.if_else(pc.is_finite(column), column.cast(pa.string()), None)
    elif pa.types.is_timestamp(kind):
        texts = pc.binary_join_element_wise('"', iso_texts(column), '"', "")
    elif pa.types.is_duration(kind):
        ticks = column.cast(pa.int64()).to_pylist()
        words = [None if tick is None else f'"{iso_duration(tick, kind.unit)}"' for tick in ticks]
        texts = pa.array(words, pa.string())
    elif pa.types.is_nested(kind) or pa.types.is_null(kind):
        texts = pa.array([json_text(value) for value in python_values(column)], pa.string())
    else:
        distinct = column.dictionary_encode()
        words = [json_text(value) for value in distinct.dictionary.to_pylist()]
        texts = pa.array(words, pa.string()).take(distinct.indices)
    return pc.fill_null(texts, "null")


def iso_texts(column: pa.Array) -> pa.Array:
    """Return timestamps in ISO 8601."""
    kind = column.type
    if kind.tz is not None:
        column = column.cast(pa.timestamp(kind.unit, "UTC"))
    return pc.replace_substring(column.cast(pa.string()), " ", "T", max_replacements=1)


def iso_duration(ticks: int, unit: str) -> str:
    """Return a duration in ISO 8601, in seconds.

    >>> iso_duration(90, "s"), iso_duration(-1500, "ms")
    ('PT90S', '-PT1.5S')
    """
    whole, rest = divmod(abs(ticks) * UNITS[unit], UNITS["s"])
    seconds = f"{whole}.{rest:09}".rstrip("0").rstrip(".")
    return f"{'-' if ticks < 0 else ''}PT{seconds}S"


def json_text(value: Any) -> str:
    """Return one Python value as JSON text; a value that JSON lacks becomes its string."""
    return _ENCODER.encode(value)


def _encode_other(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, timedelta):
        return iso_duration(value // timedelta(microseconds=1), "us")
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return str(value)


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_encode_other)
"""One for all values: `json.dumps` would make one for each."""
