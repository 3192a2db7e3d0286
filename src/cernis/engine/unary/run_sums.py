"""Sums over the later part of a run of events, against a bound: `AVG(x[a]) > c` of `E->+ AS x`.

A run is the events of a partition from the earliest start in the window to the end. One more event
may make a sum larger or smaller, so the question at each end is: which is the earliest event from
which on the sum reaches the bound? With the sum of all events before each one, that is the earliest
event before which this sum is small enough.

Each event knows another one before it, its *jump*, and the least such sum from there on. Jumps are
those of a skew-binary list: some lead to the event before, some twice as far as the last one. So
two logarithms of steps lead back over a window, and as many to the earliest event in it.

An event may be a *bar*, which no part may have in it: one that is too small for MIN, and NaN.

Numbers are pairs of floats, the second of which is what the first one rounds off, so sums have
thirty digits; differences beyond 24 digits of the largest sum count as none.

Cost contract: O(log n) for each event of a run, n of which the window reaches. Memory: 80 bytes for
each event that a window still reaches.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import inner, kernel

Numbers = NDArray[np.int64]
Floats = NDArray[np.float64]

_FIRST_ENTRIES = 256
_NOTHING = 2.0**-80
"""What part of the largest sum counts as no difference."""


class SumBound(NamedTuple):
    """What sums have to reach: at least `least`, with what it rounds off, or more than that."""

    least: float = 0.0
    rest: float = 0.0
    is_strict: bool = False


class SumLog(NamedTuple):
    """The events of runs, and the sums before them."""

    depth: Numbers
    """How many events of the partition there are up to each."""
    before: Numbers
    """The event of the partition before it; -1: there is none."""
    jump: Numbers
    least: Numbers
    """The event with the least sum before it, of those from the jump on."""
    sum: Floats
    """The sum of all events before it."""
    rest: Floats


class SumStates(NamedTuple):
    """Per partition, the last events of some kinds; -1: there is none."""

    last: Numbers
    window: Numbers
    """The first that the window reaches."""
    bar: Numbers
    up: Numbers
    """The last that is infinite."""
    down: Numbers
    """The last that is minus infinity."""
    sum: Floats
    rest: Floats


class PartSums:
    """The sums of the runs of one stream.

    >>> log = np.array([0, 0, 0]), np.array([0, 1, 2]), np.zeros(3, np.int64)
    >>> values = np.array([[4.0, 2.0, 4.0], [0.0, 0.0, 0.0]])
    >>> PartSums().add(*log, values, SumBound(5.0)).tolist()
    [-1, 0, 0]
    """

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Forget all events."""
        self._size = 0
        self._positions, self._following, depth, before, jump, least = (
            np.full(_FIRST_ENTRIES, -1) for _ in range(6)
        )
        zeros = np.zeros((2, _FIRST_ENTRIES))
        self._log = SumLog(depth, before, jump, least, *zeros)
        last, window, bar, up, down = np.full((5, 1), -1)
        self._states = SumStates(last, window, bar, up, down, *np.zeros((2, 1)))

    def add(
        self, keys: Numbers, ends: Numbers, starts: Numbers, values: Floats, bound: SumBound
    ) -> Numbers:
        """Add events, and return from which position on the sum up to each reaches the bound.

        -1: it does from none. `values` are numbers, and what they round off; NaN is a bar.
        """
        size = self._size + len(keys)
        self._positions = lengthen(self._positions, size)
        self._following = lengthen(self._following, size)
        self._log = SumLog(*(lengthen(array, size) for array in self._log))
        most = int(keys.max(initial=0)) + 1
        self._states = SumStates(*(lengthen(array, most) for array in self._states))
        self._positions[self._size : size] = ends
        found = np.full(len(keys), -1)
        events = (keys, starts, np.ascontiguousarray(values))
        links = (self._positions, self._following)
        limit = np.array(bound, np.float64)
        _add_sums(self._log, self._states, links, events, limit, self._size, found)
        self._size = size
        return found


def lengthen(array: NDArray, size: int) -> NDArray:  # type: ignore[type-arg]
    """Return an array with room for so many numbers in its last dimension."""
    room = array.shape[-1]
    if size <= room:
        return array
    fill = 0 if array.dtype == np.float64 else -1
    longer = np.full((*array.shape[:-1], max(size, 2 * room)), fill, array.dtype)
    longer[..., :room] = array
    return longer


@kernel
def _add_sums(log, states, links, events, bound, size, found):
    """Link the new events from `size` on; write from where on their sums reach the bound."""
    positions, following = links
    keys, starts, values = events
    for i in range(len(keys)):
        entry, key = size + i, keys[i]
        before = states.last[key]
        if before >= 0:
            following[before] = entry
        else:
            states.window[key] = entry
        states.last[key] = entry
        log.sum[entry], log.rest[entry] = states.sum[key], states.rest[key]
        _link(log, entry, before)
        value, rest = values[0, i], values[1, i]
        if value != value:
            states.bar[key] = entry
        elif value == np.inf:
            states.up[key] = entry
        elif value == -np.inf:
            states.down[key] = entry
        else:
            states.sum[key], states.rest[key] = _add(states.sum[key], states.rest[key], value, rest)
        first = states.window[key]
        while first != entry and positions[first] < starts[i]:
            first = following[first]
        states.window[key] = first
        begin = max(first, states.bar[key] + 1)  # entries of a partition ascend
        up, down = states.up[key], states.down[key]
        if max(up, down) >= begin:
            if up > down:
                earliest = _find_next(log, entry, max(begin, down + 1))
                found[i] = positions[earliest]
                continue
            begin = max(up, down) + 1
        if begin <= entry:
            least, left = _add(states.sum[key], states.rest[key], -bound[0], -bound[1])
            nothing = _NOTHING * max(abs(states.sum[key]), abs(bound[0]))
            limit = (least, left, nothing, bound[2] != 0)
            earliest = _find_earliest(log, entry, begin, limit)
            if earliest >= 0:
                found[i] = positions[earliest]


@inner
def _link(log, entry, before):
    """Write the jump of an event, and the least sum from there on."""
    log.before[entry] = before
    log.depth[entry] = 1 if before < 0 else log.depth[before] + 1
    log.jump[entry], log.least[entry] = before, entry
    if before < 0:
        return
    near = log.jump[before]
    far = -1 if near < 0 else log.jump[near]
    depth = 0 if near < 0 else log.depth[near]
    beyond = 0 if far < 0 else log.depth[far]
    if near >= 0 and log.depth[before] - depth == depth - beyond:
        log.jump[entry] = far
        for other in (before, near):
            least, own = log.least[other], log.least[entry]
            if log.sum[least] < log.sum[own] or (
                log.sum[least] == log.sum[own] and log.rest[least] < log.rest[own]
            ):
                log.least[entry] = least


@inner
def _add(high, low, other, rest):
    """Return the sum of two pairs of floats."""
    total = high + other
    part = total - high
    left = (high - (total - part)) + (other - part) + low + rest
    whole = total + left
    return whole, left - (whole - total)


@inner
def _reaches(log, entry, limit):
    """Return whether the sum before an event is small enough."""
    least, left, nothing, is_strict = limit
    high, low = log.sum[entry], log.rest[entry]
    difference = (least - high) + (left - low)
    nothing = max(nothing, _NOTHING * abs(high))
    return difference > nothing if is_strict else difference >= -nothing


@inner
def _find_next(log, entry, begin):
    """Return the first event of the partition from an entry on, up to another one."""
    while log.before[entry] >= begin:
        jump = log.jump[entry]
        entry = jump if jump >= begin else log.before[entry]
    return entry


@inner
def _find_earliest(log, entry, begin, limit):
    """Return the earliest event from `begin` up to `entry` before which the sum is small enough."""
    found = -1
    while entry >= begin:
        best, is_part = -1, False
        while entry >= begin:
            jump = log.jump[entry]
            before = log.before[entry]
            if jump + 1 >= begin:
                if _reaches(log, log.least[entry], limit):
                    best, is_part = entry, jump != before
                entry = jump
            else:
                if _reaches(log, entry, limit):
                    best, is_part = entry, False
                entry = before
        if best < 0:
            return found
        if not is_part:
            return best
        if _reaches(log, best, limit):
            found = best
        entry, begin = log.before[best], max(begin, log.jump[best] + 1)
    return found
