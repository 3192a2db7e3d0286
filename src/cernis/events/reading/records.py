"""Values of Python and cells of text as columns, with the reasons why some do not fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cernis.events.batch import Bools
from cernis.events.column_types import is_fraction, is_text
from cernis.events.times import UNITS, cast_text, parse_timestamps

_REFUSED = (pa.ArrowException, OverflowError, TypeError, ValueError)
_PLAIN = frozenset({bool, int, float, str, bytes, list, dict, Decimal, type(None)})
_NOTHING = frozenset({"NaTType", "NAType"})
"""The values of pandas for no value."""
_NAMES = (
    (pa.types.is_integer, "a whole number"),
    (is_fraction, "a number"),
    (pa.types.is_boolean, "true or false"),
    (pa.types.is_temporal, "a time"),
    (is_text, "text"),
)


def describe_type(type_: pa.DataType) -> str:
    """Return what a person would call a type.

    >>> describe_type(pa.int32()), describe_type(pa.timestamp("ns"))
    ('a whole number', 'a time')
    """
    return next((name for test, name in _NAMES if test(type_)), f"a {type_}")


def make_table(
    records: Sequence[Mapping[str, Any]],
    known: Mapping[str, pa.DataType],
    fixed: frozenset[str] = frozenset(),
) -> tuple[pa.Table, dict[int, tuple[str, str]]]:
    """Return records as a table, and why some do not fit, by row.

    It has a column for every known name and every name that occurs. A column has its known type,
    or else the type of its first value; integers are promoted to doubles unless the column is
    `fixed`.

    >>> table, failed = make_table([{"a": 1}, {"a": 2.5}, {"a": "x", "b": True}], {})
    >>> table.column("a").to_pylist(), failed
    ([1.0, 2.5, None], {2: ('a', "'x' is not a number")})
    """
    names = list(dict.fromkeys([*known, *(name for record in records for name in record)]))
    arrays: list[pa.Array] = []
    failed: dict[int, tuple[str, str]] = {}
    for name in names:
        values = _to_plain([record.get(name) for record in records])
        array, bad = _make_column(values, known.get(name, pa.null()), name in fixed)
        arrays.append(array)
        for i in bad:
            shown = show_short(values[i])
            failed.setdefault(i, (name, f"{shown!r} is not {describe_type(array.type)}"))
    if not names:
        return pa.table({}), {}
    return pa.table(arrays, names=names), failed


def _to_plain(values: list[Any]) -> list[Any]:
    """Return values as Python and Arrow have them: those of NumPy and pandas have other types."""
    if _PLAIN.issuperset(map(type, values)):
        return values
    return [_make_plain(value) for value in values]


def _make_plain(value: Any) -> Any:
    if isinstance(value, np.datetime64 | np.timedelta64):
        if np.isnat(value):
            return None
        unit = np.datetime_data(value.dtype)[0]
        return value if unit in UNITS else value.astype(f"{value.dtype.kind}8[us]").item()
    if isinstance(value, np.generic):
        return value.item()
    return None if type(value).__name__ in _NOTHING else value


def _make_column(values: list[Any], known: pa.DataType, fixed: bool) -> tuple[pa.Array, list[int]]:
    if pa.types.is_null(known):
        try:
            array = pa.array(values)
        except _REFUSED:
            array = None
        if array is not None and not _is_forced(values, array.type):
            return array, []
        first = next((v for v in values if v is not None), None)
        known = pa.float64() if isinstance(first, float) else _scalar_type(first)
    tries = [known]
    if pa.types.is_integer(known) and not fixed:
        tries.append(pa.float64())
    if pa.types.is_timestamp(known) and not fixed:
        tries.append(pa.timestamp("ns", known.tz))
    return min((_make_array(values, type_) for type_ in tries), key=lambda made: len(made[1]))


def _scalar_type(value: Any) -> pa.DataType:
    try:
        return pa.scalar(value).type
    except _REFUSED:
        return pa.float64() if isinstance(value, int) else pa.string()


def _is_forced(values: list[Any], type_: pa.DataType) -> bool:
    """Return whether Arrow would make other values of some: 0 of 0.5, 1.0 of True, 1970 of 5."""
    kinds = set(map(type, values)) - {type(None)}
    if pa.types.is_integer(type_):
        return not kinds <= {int}
    if pa.types.is_floating(type_):
        return not kinds <= {int, float}
    return pa.types.is_temporal(type_) and not kinds.isdisjoint((int, float, Decimal))


def _make_array(values: list[Any], type_: pa.DataType) -> tuple[pa.Array, list[int]]:
    if not _is_forced(values, type_):
        try:
            return pa.array(values, type_), []
        except _REFUSED:
            pass
    if pa.types.is_temporal(type_):
        return _make_times(values, type_)
    fitted = [_fit(value, type_) for value in values]
    bad = [i for i, v in enumerate(values) if v is not None and fitted[i] is None]
    return pa.array(fitted, type_), bad


def _make_times(values: list[Any], type_: pa.DataType) -> tuple[pa.Array, list[int]]:
    """Return times and texts as a column of times."""
    texts = pa.array([v if isinstance(v, str) else None for v in values], pa.string())
    array, failed = convert_text(texts, type_)
    others = [None if isinstance(v, str) else _fit(v, type_) for v in values]
    odd = (
        i
        for i, v in enumerate(values)
        if v is not None and not isinstance(v, str) and others[i] is None
    )
    times = pc.coalesce(array, pa.array(others, type_))
    return times, sorted({*np.flatnonzero(failed).tolist(), *odd})


def _fit(value: Any, type_: pa.DataType) -> Any:
    """Return the value if the type can hold it, else None."""
    if isinstance(value, bool) and not pa.types.is_boolean(type_):
        return None
    if isinstance(value, int | float | Decimal) and pa.types.is_temporal(type_):
        return None
    try:
        if isinstance(value, float | Decimal) and pa.types.is_integer(type_):
            whole = int(value)
            value = whole if whole == value else None
        if isinstance(value, int | Decimal) and pa.types.is_floating(type_):
            value = float(value)
        pa.scalar(value, type_)
    except _REFUSED:
        return None
    return value


def convert_text(text: pa.Array, type_: pa.DataType) -> tuple[pa.Array, Bools]:
    """Convert text to a type, with marks where a value does not convert."""
    if is_text(type_):
        return text, np.zeros(len(text), np.bool_)
    if pa.types.is_null(type_):
        return text.cast(pa.string()), np.zeros(len(text), np.bool_)
    trimmed = pc.utf8_trim_whitespace(text)
    if pa.types.is_timestamp(type_):
        parsed = parse_timestamps(trimmed, type_.unit).cast(type_)
        bad = pc.and_not(parsed.is_null(), text.is_null())
        return parsed, bad.to_numpy(zero_copy_only=False)
    return cast_text(trimmed, type_)


def show_short(text: object) -> str:
    """Return the beginning of a text, short enough for a message."""
    line = str(text)
    return line if len(line) <= 80 else line[:79] + "…"
