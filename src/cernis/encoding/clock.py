"""Window clocks: an int64 `clock` and an int64 `bound` for each event, such that

    the event at s lies in the window that ends at e  ⇔  clock[s] >= bound[e]

This is exactly `a(e) - a(s) <= n` in the attribute's own arithmetic: integers exactly,
fractions in float64. So an engine tests a window with one comparison of integers.

Numbers without a sign (uint64) are moved down by 2^63. Floats become integers that sort alike. The
bound of a float is found by search, not by `e - n`: rounding makes `1.0 - s <= 1.0` true for
s = -1e-20 as well.

The attribute must never decrease (within its partition). The first event that breaks this is
an error. Cost: a few nanoseconds per event.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import floor
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cernis.compiled import kernel
from cernis.errors import DataError
from cernis.events.batch import Bools, EventBatch, Int64s
from cernis.events.column_types import is_fraction, value_type
from cernis.events.evaluation.attributes import attribute
from cernis.events.evaluation.evaluate import float_at_most
from cernis.events.times import as_floats
from cernis.pattern.predicate import RANK
from cernis.state import (
    Sizes,
    Tree,
    array,
    at_least_one,
    choice,
    frozen_record,
    optional,
    read,
    require,
    write,
)

_SMALLEST = -(2**63)
_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True, eq=False)
class Clock:
    """The reading of each event, the least reading in its window, and whether it has one."""

    clock: Int64s
    bound: Int64s
    usable: npt.NDArray[np.uint8] | None = None  # None: all

    def cut(self, piece: slice) -> Clock:
        """Return the clock of some of the events."""
        usable = None if self.usable is None else self.usable[piece]
        return Clock(self.clock[piece], self.bound[piece], usable)


def read_time_clock(batch: EventBatch, ticks: int) -> Clock:
    """Return the clock of a time window of some ticks."""
    if batch.time is None:
        raise DataError(
            "a time window needs a time column: no input has a column 'ts', and none was named"
        )
    return Clock(batch.time, subtract(batch.time, ticks))


def read_time_clocks(batch: EventBatch, ticks: Int64s) -> Clock:
    """Return the clock of time windows of some ticks, at least 0, for each event its own."""
    assert batch.time is not None
    bound = batch.time - ticks
    return Clock(batch.time, np.where(bound > batch.time, _SMALLEST, bound))


def read_plain_clock(batch: EventBatch, ticks: int) -> Clock:
    """Return the clock of some ticks, or of as many positions where there is no time column."""
    if batch.time is not None:
        return read_time_clock(batch, ticks)
    positions = np.arange(batch.base, batch.base + len(batch), dtype=np.int64)
    return Clock(positions, subtract(positions, ticks))


def read_rank_clock(batch: EventBatch, size: int) -> Clock:
    """Return the clock of some events, by the position that each event carries."""
    ranks = batch.interleave(lambda _, table: np.asarray(table.column(RANK.name), np.int64))
    return Clock(ranks, subtract(ranks, size))


@frozen_record
class FrozenTimes:
    """The times inside the window, and the position of the first event of each."""

    times: Int64s = array(np.int64, "times")
    first: Int64s = array(np.int64, "times", low=0, below=at_least_one("position"))

    def check(self, sizes: Sizes) -> None:
        is_rising = bool((np.diff(self.times) > 0).all() and (np.diff(self.first) > 0).all())
        require(is_rising, "the window's times are not in order")


class PositionClock:
    """A clock that never decreases, read as positions: two events never have the same reading.

    It keeps the times inside the window, each with the position of its first event.

    >>> clock = PositionClock()
    >>> times = np.array([10, 10, 25])
    >>> made = clock.read(Clock(times, times - 15), 0)
    >>> made.clock.tolist(), made.bound.tolist()
    ([0, 1, 2], [0, 0, 0])
    >>> clock.read(Clock(np.array([26]), np.array([11])), 3).bound.tolist()
    [2]
    """

    def __init__(self) -> None:
        self._times = np.empty(0, np.int64)
        self._first = np.empty(0, np.int64)

    def read(self, clock: Clock, base: int) -> Clock:
        """Return the clock of a batch whose first event has the position `base`."""
        positions = np.arange(base, base + len(clock.clock), dtype=np.int64)
        if not len(positions):
            return Clock(positions, positions)
        times = np.concatenate([self._times, clock.clock])
        first = np.concatenate([self._first, positions])
        new = np.concatenate([[True], times[1:] != times[:-1]])
        times, first = times[new], first[new]
        bound = np.append(first, base + len(positions))[np.searchsorted(times, clock.bound)]
        inside = times >= clock.bound[-1]
        self._times, self._first = times[inside], first[inside]
        return Clock(positions, bound)

    def freeze(self) -> Tree:
        """Return the state."""
        return write(FrozenTimes(self._times, self._first))

    def thaw(self, tree: Tree, position: int) -> None:
        """Restore the state that `freeze` returned after so many events."""
        frozen = read(FrozenTimes, tree, position=position)
        self._times, self._first = frozen.times, frozen.first


@frozen_record
class FrozenReadings:
    """The kind of a clock's readings, and the last one of each partition."""

    kind: str | None = optional(choice(("int", "uint", "float")))
    last: Int64s = array(np.int64, "partitions")


class AttributeClock:
    """The clock of `WITHIN n [a]`; keeps the last reading of each partition.

    >>> clock = AttributeClock("seq", Fraction(10))
    >>> made = clock.read(EventBatch.of(pa.table({"type": ["A", "A"], "seq": [3, 15]})))
    >>> made.clock.tolist(), made.bound.tolist()
    ([3, 15], [-7, 5])
    """

    def __init__(self, attribute: str, size: Fraction) -> None:
        self.attribute = attribute
        self.size = size
        self._path = tuple(attribute.split("."))
        self._kind: str | None = None
        self._last = np.empty(0, np.int64)

    def read(self, batch: EventBatch, keys: Int64s | None = None) -> Clock:
        """Return the clock of a batch; `keys` are partition codes, -1 for none."""
        self._learn_kind(batch)
        readings = batch.interleave(self._part)
        clock, usable = np.ascontiguousarray(readings["clock"]), readings["usable"]
        marks = None if usable.all() else np.ascontiguousarray(usable).view(np.uint8)
        self._check(batch, clock, usable, keys)
        return Clock(clock, self._bound(clock), marks)

    def keep_only(self, keys: Int64s) -> None:
        """Forget the partitions that are not among these keys; keys[i] becomes i."""
        self._last = self._last[keys]

    def freeze(self) -> Tree:
        """Return the state."""
        return write(FrozenReadings(self._kind, self._last))

    def thaw(self, tree: Tree, keys: int = 0) -> None:
        """Restore the state that `freeze` returned, for so many keys; some may have no reading."""
        frozen = read(FrozenReadings, tree)
        room = np.full(max(0, keys - len(frozen.last)), _SMALLEST, np.int64)
        self._last = np.concatenate([frozen.last, room])
        self._kind = frozen.kind

    def _learn_kind(self, batch: EventBatch) -> None:
        """Decide whether readings are integers or floats, once for all batches."""
        kinds = {
            kind
            for _, table in batch.parts
            if (column := attribute(table, self._path)) is not None
            and (kind := self._kind_of(column.type)) is not None
        }
        if self._kind is not None:
            kinds.add(self._kind)
        if "float" in kinds and self._kind in (None, "float"):
            kinds = {"float"}
        elif kinds == {"int", "uint"}:
            kinds = {self._kind or "int"}
        if len(kinds) > 1:
            raise DataError(
                f"{self._title()}: {self.attribute!r} is {' and '.join(sorted(kinds))} in turn; "
                "a window needs one kind of values"
            )
        self._kind = kinds.pop() if kinds else None

    def _kind_of(self, type_: pa.DataType) -> str | None:
        type_ = value_type(type_)
        if pa.types.is_null(type_):
            return None
        if pa.types.is_integer(type_):
            return "uint" if pa.types.is_uint64(type_) else "int"
        if is_fraction(type_):
            return "float"
        raise DataError(
            f"{self._title()}: {self.attribute!r} holds {type_}; a window needs numbers"
        )

    def _part(self, _: str, table: pa.Table) -> npt.NDArray[Any]:
        out = np.zeros(table.num_rows, np.dtype([("clock", np.int64), ("usable", np.bool_)]))
        column = attribute(table, self._path)
        if column is None or pa.types.is_null(column.type):
            return out
        if self._kind == "int":
            numbers = column.cast(value_type(column.type))
            if pa.types.is_uint64(numbers.type):
                self._refuse((pc.max(numbers).as_py() or 0) > _LARGEST, "above 2^63 - 1")
            out["usable"] = numbers.is_valid().to_numpy()
            out["clock"] = numbers.fill_null(0).cast(pa.int64()).to_numpy()
            return out
        if self._kind == "uint":
            out["usable"] = column.is_valid().to_numpy()
            numbers = column.cast(value_type(column.type)).fill_null(0)
            if not pa.types.is_uint64(numbers.type):
                self._refuse((pc.min(numbers).as_py() or 0) < 0, "below 0")
            out["clock"] = numbers.cast(pa.uint64()).to_numpy().view(np.int64) ^ _SMALLEST
            return out
        numbers = as_floats(column).fill_null(np.nan).to_numpy()
        out["clock"], out["usable"] = to_sortable(numbers), ~np.isnan(numbers)
        return out

    def _refuse(self, is_out_of_range: bool, where: str) -> None:
        if is_out_of_range:
            raise DataError(
                f"{self._title()}: {self.attribute!r} has numbers {where}, and whole numbers with "
                "a sign and without one in turn; a window needs one kind of values"
            )

    def _bound(self, clock: Int64s) -> Int64s:
        if self._kind != "float":
            return subtract(clock, floor(self.size))
        bound = np.empty_like(clock)
        _float_bounds(clock, float_at_most(self.size), bound)
        return bound

    def _check(self, batch: EventBatch, clock: Int64s, usable: Bools, keys: Int64s | None) -> None:
        codes = np.zeros(len(clock), np.int64) if keys is None else keys
        most = int(codes.max(initial=-1))
        if most >= len(self._last):
            size = most + 1 if most == 0 else 2 * (most + 1)
            room = np.full(size - len(self._last), _SMALLEST, np.int64)
            self._last = np.concatenate([self._last, room])
        at, before = _first_fall(clock, usable, codes, self._last)
        if at < 0:
            return
        now, then = (self._show(v) for v in (int(clock[at]), int(before)))
        where = "" if keys is None else " within its partition"
        raise DataError(
            f"{self._title()}: {self.attribute!r} decreases at row {batch.rows[at]} "
            f"({now} after {then}){where}; the attribute of a window must never decrease"
        )

    def _show(self, reading: int) -> str:
        if self._kind != "float":
            return str(reading - _SMALLEST if self._kind == "uint" else reading)
        return repr(float(from_sortable(np.array([reading]))[0]))

    def _title(self) -> str:
        size = str(self.size) if self.size.denominator == 1 else repr(float(self.size))
        return f"WITHIN {size} [{self.attribute}]"


def subtract(clock: Int64s, by: int) -> Int64s:
    """Return `clock - by`, clipped to the range of int64."""
    if abs(by) > 2**64:  # more than two readings can differ by
        return np.full(len(clock), _SMALLEST if by > 0 else _LARGEST, np.int64)
    if abs(by) > _LARGEST:
        part = _LARGEST if by > 0 else -_LARGEST
        return subtract(subtract(clock, part), by - part)
    bound = clock - np.int64(by)
    if by > 0:
        return np.where(bound > clock, _SMALLEST, bound)
    return np.where(bound < clock, _LARGEST, bound) if by < 0 else bound


# ------------------------------------------------------------------- floats


def to_sortable(floats: npt.NDArray[np.float64]) -> Int64s:
    """Return integers in the order of the floats; both zeros give the same one.

    >>> to_sortable(np.array([-1.0, -0.0, 0.0, 2.0])).argsort(kind="stable").tolist()
    [0, 1, 2, 3]
    """
    bits = (floats + 0.0).view(np.int64)
    return bits ^ ((bits >> 63) & _LARGEST)


def from_sortable(keys: Int64s) -> npt.NDArray[np.float64]:
    """Return the floats that `to_sortable` made integers of."""
    return (keys ^ ((keys >> 63) & _LARGEST)).view(np.float64)


@kernel
def _float_bounds(clock: Int64s, size: float, bound: Int64s) -> None:
    """Write for each e the least key whose float s has `e - s <= size`.

    The difference only falls as s grows, so a search works: by doubling steps down
    from e, then by halving.
    """
    scratch = np.empty(1, np.int64)
    floats = scratch.view(np.float64)
    lowest = np.int64(-0x7FF0000000000001)  # the key of -inf
    for i in range(len(clock)):
        key = clock[i]
        scratch[0] = key ^ ((key >> 63) & 0x7FFFFFFFFFFFFFFF)
        e = floats[0]
        if not e - e <= size:
            bound[i] = 0x7FFFFFFFFFFFFFFF
            continue
        floats[0] = e - size + 0.0
        inside = scratch[0] ^ ((scratch[0] >> 63) & 0x7FFFFFFFFFFFFFFF)
        if not e - floats[0] <= size:
            inside = key
        # invariant: inside is in the window; find an outside below it
        step = np.int64(1)
        outside = inside
        while True:
            room = np.uint64(outside) - np.uint64(lowest)
            if room <= np.uint64(step):
                outside = lowest
            else:
                outside -= step
            scratch[0] = outside ^ ((outside >> 63) & 0x7FFFFFFFFFFFFFFF)
            if outside == lowest or not e - floats[0] <= size:
                break
            inside = outside
            if step < np.int64(1) << 60:
                step <<= 1
        while np.uint64(inside) - np.uint64(outside) > np.uint64(1):
            half = (np.uint64(inside) - np.uint64(outside)) >> np.uint64(1)
            middle = outside + np.int64(half)
            scratch[0] = middle ^ ((middle >> 63) & 0x7FFFFFFFFFFFFFFF)
            if e - floats[0] <= size:
                inside = middle
            else:
                outside = middle
        bound[i] = inside


@kernel
def _first_fall(clock: Int64s, usable: Bools, codes: Int64s, last: Int64s) -> tuple[int, int]:
    """Return the first event that is below the one before it with its code, and the reading of
    that one."""
    for i in range(len(clock)):
        code = codes[i]
        if code < 0 or not usable[i]:
            continue
        if clock[i] < last[code]:
            return i, last[code]
        last[code] = clock[i]
    return -1, 0
