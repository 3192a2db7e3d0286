"""`EventLog`: a few numbers for each recent event, by position.

Cost contract: reading is a search per batch of events that the positions fall into. Memory is that
of the events since the last `forget_before`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.engine.renumber import find_indices
from cernis.state import (
    MOST_EVENTS,
    Sizes,
    Tree,
    array,
    frozen_record,
    is_inside,
    read,
    require,
    write,
)

Numbers = NDArray[np.int64]


_SMALL = 1 << 12
"""Batches smaller than this are joined with the next, so that there are few."""


@frozen_record
class FrozenLog:
    """The position of the first event, and a column of numbers for each event from there."""

    base: Numbers = array(np.int64, 1, low=0, below=MOST_EVENTS)
    values: Numbers = array(np.int64, "rows", "events")

    def check(self, sizes: Sizes) -> None:
        end = int(self.base[0]) + sizes["events"]
        is_whole = not sizes["events"] or end == sizes["position"]
        require(is_whole, "numbers of events are missing")


class _Logged(NamedTuple):
    base: int
    values: Numbers


class EventLog:
    """Rows of numbers, a column for each event.

    >>> log = EventLog(1)
    >>> log.append(0, np.array([[7, 8]]))
    >>> log.append(2, np.array([[9]]))
    >>> log.read(0, np.array([2, 0])).tolist()
    [9, 7]
    """

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self._logged: list[_Logged] = []

    def append(self, base: int, values: Numbers) -> None:
        """Add the numbers of a batch whose first event has the position `base`."""
        if not values.shape[1]:
            return
        if self._logged and self._logged[-1].values.shape[1] < _SMALL:
            base, before = self._logged.pop()
            values = np.concatenate([before, values], axis=1)
        self._logged.append(_Logged(base, values))

    def read(self, row: int, positions: Numbers) -> Numbers:
        """Return the numbers of a row at these positions."""
        found = np.empty(len(positions), np.int64)
        bases = [logged.base for logged in self._logged]
        owner = np.searchsorted(bases, positions, side="right") - 1
        for number in np.flatnonzero(np.bincount(owner, minlength=1)).tolist():
            at = np.flatnonzero(owner == number)
            logged = self._logged[number]
            found[at] = logged.values[row, positions[at] - logged.base]
        return found

    def list_from(self, row: int, position: int) -> Numbers:
        """Return the numbers of a row from a position on."""
        parts = [
            logged.values[row, max(0, position - logged.base) :]
            for logged in self._logged
            if logged.base + logged.values.shape[1] > position
        ]
        return np.concatenate([np.empty(0, np.int64), *parts])

    def read_from(self, row: int, position: int) -> Numbers:
        """Return the number of a row at a position, or else the last one, alone in an array."""
        last = self._logged[-1]
        at = min(position, last.base + last.values.shape[1] - 1)
        return self.read(row, np.array([at], np.int64))

    def forget_before(self, position: int) -> None:
        """Drop the batches that end before this position."""
        last = bisect_right(self._logged, position, key=lambda logged: logged.base) - 1
        del self._logged[: max(0, last)]

    def renumber(self, row: int, kept: Numbers) -> None:
        """Replace the numbers of a row, which are codes: kept[i] becomes i, others -1."""
        most = max((int(logged.values[row].max()) for logged in self._logged), default=-1)
        indices = find_indices(kept, max(most, int(kept.max(initial=-1))) + 1)
        for logged in self._logged:
            logged.values[row] = indices[logged.values[row]]

    def mark(self, row: int, marks: NDArray[np.bool_]) -> None:
        """Mark the numbers that a row has."""
        for logged in self._logged:
            marks[logged.values[row]] = True

    def freeze(self) -> Tree:
        """Return the numbers."""
        base = self._logged[0].base if self._logged else 0
        none = np.empty((self.rows, 0), np.int64)
        values = np.concatenate([none, *(logged.values for logged in self._logged)], axis=1)
        return write(FrozenLog(np.array([base]), values))

    def thaw(self, tree: Tree, position: int, codes: Mapping[int, int]) -> None:
        """Restore what `freeze` returned; the next event has this position.

        `codes` has the rows that hold codes, or -1, and how many there are.
        """
        frozen = read(FrozenLog, tree, rows=self.rows, position=position)
        for row, number in codes.items():
            is_known = is_inside(frozen.values[row], -1, number)
            require(is_known, "an event has a code that is not there")
        self.append(int(frozen.base[0]), frozen.values.copy())
