"""Times as whole ticks: every form a time column may have, turned into int64.

A source's tick is the unit that its column is exact in: the unit of the Arrow type, `time_unit`
for integers, one nanosecond for fractions and for text. Streams are merged in the
finest tick among them, so only fractions are ever rounded, to nanoseconds. A time is at most
`LARGEST_TICK` ticks before or after 1970: some 292 years of nanoseconds, 292,000 years of
microseconds. The few numbers of 64 bits beyond it have a meaning of their own in engines.
Times without a zone count as UTC. Cost: no copy for one int64 or timestamp chunk in
the common tick, one pass otherwise.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cernis.errors import DataError
from cernis.events.batch import Bools, Int64s
from cernis.events.column_types import is_fraction, is_text, value_type

UNITS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
DAY = 86_400 * UNITS["s"]

_ZONED = r"[T ]\d\d(:?\d\d)?(:?\d\d)?([.,]\d+)?(Z|z|[+-]\d\d(:?\d\d)?)$"
LARGEST_TICK = 9_223_372_036_854_775_800


def tick_of(type_: pa.DataType, time_unit: str) -> int | None:
    """Return the nanoseconds in one tick of a time column; None where it cannot hold times.

    >>> tick_of(pa.timestamp("us"), "ms"), tick_of(pa.int32(), "ms"), tick_of(pa.bool_(), "ms")
    (1000, 1000000, None)
    """
    type_ = value_type(type_)
    if pa.types.is_integer(type_):
        return UNITS[time_unit]
    if pa.types.is_date32(type_):
        return DAY
    if pa.types.is_date64(type_):
        return UNITS["ms"]
    if pa.types.is_temporal(type_) and hasattr(type_, "unit"):
        return UNITS[type_.unit]
    return 1 if is_fraction(type_) or is_text(type_) or pa.types.is_null(type_) else None


def as_floats(values: pa.Array | pa.ChunkedArray) -> Any:
    """Return numbers as the nearest float64.

    Arrow's own cast of decimals is off by a bit for one value in ten; their text is not. Its safe
    cast of integers refuses those that are no float64.

    >>> as_floats(pa.array([2**60 + 1]))[0].as_py() == 2**60
    True
    >>> as_floats(pa.array(["0.57"]).cast(pa.decimal128(9, 2)))[0].as_py()
    0.57
    """
    if pa.types.is_decimal(values.type):
        values = values.cast(pa.string())
    return values.cast(pa.float64(), safe=not pa.types.is_integer(values.type))


def own_unit(type_: pa.DataType, time_unit: str) -> int:
    """Return the nanoseconds in the unit of plain numbers in a time column.

    >>> own_unit(pa.float64(), "s"), own_unit(pa.timestamp("us"), "s")
    (1000000000, 1000)
    """
    type_ = value_type(type_)
    return UNITS[time_unit] if is_fraction(type_) else tick_of(type_, time_unit) or 1


def to_ticks(column: pa.ChunkedArray, time_unit: str, tick: int) -> tuple[Int64s, Bools | None]:
    """Return ticks of `tick` nanoseconds, and marks where there is no usable time.

    The marks are None where all times are usable.
    """
    chunks = [_chunk_ticks(chunk, time_unit, tick) for chunk in column.chunks]
    if not chunks:
        return np.empty(0, np.int64), None
    if len(chunks) == 1:
        return chunks[0]
    bad = None
    if any(b is not None for _, b in chunks):
        bad = np.concatenate([np.zeros(len(t), np.bool_) if b is None else b for t, b in chunks])
    return np.concatenate([t for t, _ in chunks]), bad


def describe_bad_time(value: object) -> str:
    """Describe the mistake in a time that `to_ticks` marked."""
    if value is None:
        return "the time is missing"
    if isinstance(value, str) and parse_timestamps(pa.array([value]), "us")[0].is_valid:
        return (
            f"{value!r} is out of range: times in text count nanoseconds, from 1677-09-21 to "
            "2262-04-11; a column of type timestamp[us] or timestamp[s] reaches further"
        )
    return f"{str(value)!r} is not a usable time"


def _chunk_ticks(values: pa.Array, time_unit: str, tick: int) -> tuple[Int64s, Bools | None]:
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    own = tick_of(values.type, time_unit)
    if own is None or pa.types.is_null(values.type):
        return np.zeros(len(values), np.int64), np.ones(len(values), np.bool_) if len(
            values
        ) else None
    bad = None
    if values.null_count:
        bad = values.is_null().to_numpy(zero_copy_only=False)
    if is_text(values.type):
        parsed = parse_timestamps(values)
        bad = parsed.is_null().to_numpy(zero_copy_only=False) if parsed.null_count else None
        return _scale(_integers(parsed), 1, tick, bad)
    if is_fraction(values.type):
        return _round(values, UNITS[time_unit], tick, bad)
    if pa.types.is_uint64(values.type):
        wide = values.fill_null(0).to_numpy()
        bad = _either(bad, wide > np.uint64(LARGEST_TICK))
        return _scale(wide.astype(np.int64), own, tick, bad)
    return _scale(_integers(values), own, tick, bad)


def to_integers(values: pa.Array) -> pa.Array:
    """Return integers, or times and durations in their own unit, as int64."""
    if pa.types.is_date32(values.type) or pa.types.is_time32(values.type):
        values = values.view(pa.int32())
    elif not pa.types.is_integer(values.type):
        values = values.view(pa.int64())
    return values.cast(pa.int64())


def _integers(values: pa.Array) -> Int64s:
    integers = to_integers(values)
    return np.asarray(integers.fill_null(0) if integers.null_count else integers)


def _scale(ticks: Int64s, own: int, tick: int, bad: Bools | None) -> tuple[Int64s, Bools | None]:
    if own == tick:
        return ticks, _either(bad, _find_beyond(ticks, LARGEST_TICK))
    if own % tick == 0:
        factor = own // tick
        return ticks * factor, _either(bad, _find_beyond(ticks, LARGEST_TICK // factor))
    factor = tick // own
    whole = ticks // factor
    uneven = whole * factor != ticks
    return whole, _either(bad, uneven)


def _find_beyond(ticks: Int64s, limit: int) -> Bools | None:
    """Return which ticks are larger than a limit; None: none is."""
    if not len(ticks) or (ticks.max() <= limit and ticks.min() >= -limit):
        return None
    return (ticks > limit) | (ticks < -limit)


def _round(
    values: pa.Array, unit: int, tick: int, bad: Bools | None
) -> tuple[Int64s, Bools | None]:
    floats = as_floats(values).fill_null(0.0).to_numpy() * float(unit)
    unusable = ~(np.abs(floats) < float(2**63))
    if unusable.any():
        bad = _either(bad, unusable)
        floats = np.where(unusable, 0.0, floats)
    return _scale(np.rint(floats).astype(np.int64), 1, tick, bad)


def _either(bad: Bools | None, more: Bools | None) -> Bools | None:
    if more is None:
        return bad
    if bad is None:
        return more if more.any() else None
    return bad | more


def parse_timestamps(values: pa.Array, unit: str = "ns") -> pa.Array:
    """Parse ISO 8601 text to timestamps in UTC; null where it is not one.

    >>> text = pa.array(["1970-01-01T00:00:01+00:00", "1970-01-01", "?"])
    >>> parse_timestamps(text).cast("int64").to_pylist()
    [1000000000, 0, None]
    """
    values = values.cast(pa.string())
    zoned, naive = pa.timestamp(unit, "UTC"), pa.timestamp(unit)
    for target in (naive, zoned):
        try:
            return values.cast(target).cast(zoned)
        except pa.ArrowInvalid:
            continue
    has_zone = pc.match_substring_regex(values, _ZONED)
    with_zone, _ = cast_text(pc.if_else(has_zone, values, None), zoned)
    without, _ = cast_text(pc.if_else(has_zone, None, values), naive)
    return pc.coalesce(with_zone, without.cast(zoned))


def cast_text(values: pa.Array, target: pa.DataType) -> tuple[pa.Array, Bools]:
    """Cast text; where a value does not convert, null and a mark.

    Arrow's casts fail as a whole. Halving finds the failing values in
    O(failures · log n) casts.
    """
    try:
        return values.cast(target), np.zeros(len(values), np.bool_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        if len(values) == 1:
            return pa.nulls(1, target), np.ones(1, np.bool_)
    middle = len(values) // 2
    left, bad_left = cast_text(values.slice(0, middle), target)
    right, bad_right = cast_text(values.slice(middle), target)
    return pa.concat_arrays([left, right]), np.concatenate([bad_left, bad_right])


def check_unit(time_unit: str) -> None:
    """Raise if there is no such unit of time."""
    if time_unit not in UNITS:
        raise DataError(f"unknown time unit {time_unit!r}; expected one of s, ms, us, ns")
