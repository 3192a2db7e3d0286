"""What is kept of the stream for those who look at matches: rows, and the events behind them.

Rows and events have numbers that go on from batch to batch. A run that is looked at as a whole
keeps all of them; one that is delivered batch by batch lets go of what no partial match reaches.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.rdf.reading.events import GraphEvents
from cernis.rdf.reading.terms import UNBOUND, Codes
from cernis.rdf.solving.rows import Int64s, Sheet


class Looked(NamedTuple):
    """Rows that somebody asked for."""

    codes: Codes
    alternative: Codes
    event: Int64s
    time: Int64s


class _Events(NamedTuple):
    first: int
    streams: Codes
    numbers: Int64s


class Kept:
    """Rows and events by number."""

    def __init__(self) -> None:
        self._sheets: list[Sheet] = []
        self._events: list[_Events] = []

    def add(self, sheet: Sheet, events: GraphEvents, first_event: int) -> None:
        if len(sheet.time):
            self._sheets.append(sheet)
            self._events.append(_Events(first_event, events.streams, events.numbers))

    @property
    def size(self) -> int:
        """How many rows are kept."""
        return sum(len(sheet.time) for sheet in self._sheets)

    def forget_before(self, row: int) -> Kept:
        """A Kept without the batches that lie wholly before a row; this one stays as it is."""
        left = Kept()
        for sheet, events in zip(self._sheets, self._events, strict=True):
            if sheet.first + len(sheet.time) > row:
                left._sheets.append(sheet)
                left._events.append(events)
        return left

    def snapshot(self) -> Kept:
        """What is kept now; what comes later is not in it."""
        return self.forget_before(0)

    def held(self) -> Iterator[Codes]:
        """The codes of terms in the rows."""
        return (sheet.codes for sheet in self._sheets)

    def renumbered(self, moved: Codes) -> Kept:
        """The same rows, with terms whose codes have changed; this one stays as it is."""
        other = self.snapshot()
        other._sheets = [
            sheet._replace(codes=np.where(sheet.codes >= 0, moved[sheet.codes], UNBOUND))
            for sheet in other._sheets
        ]
        return other

    def rows(self, numbers: Int64s) -> Looked:
        """Some rows, by their numbers."""
        firsts = np.array([sheet.first for sheet in self._sheets], np.int64)
        where = np.searchsorted(firsts, numbers, side="right") - 1
        width, columns = self._sheets[0].event.shape[1], self._sheets[0].codes.shape[1]
        found = Looked(
            np.empty((len(numbers), columns), np.int32),
            np.empty(len(numbers), np.int32),
            np.empty((len(numbers), width), np.int64),
            np.empty(len(numbers), np.int64),
        )
        for i in np.unique(where):
            mine, sheet = where == i, self._sheets[i]
            at = numbers[mine] - sheet.first
            found.codes[mine] = sheet.codes[at]
            found.alternative[mine] = sheet.alternative[at]
            found.event[mine] = sheet.event[at]
            found.time[mine] = sheet.time[at]
        return found

    def events(self, numbers: Int64s) -> tuple[NDArray[np.int32], Int64s]:
        """The stream and the number in it of some events."""
        firsts = np.array([events.first for events in self._events], np.int64)
        where = np.searchsorted(firsts, numbers, side="right") - 1
        streams = np.empty(len(numbers), np.int32)
        own = np.empty(len(numbers), np.int64)
        for i in np.unique(where):
            mine, events = where == i, self._events[i]
            at = numbers[mine] - events.first
            streams[mine], own[mine] = events.streams[at], events.numbers[at]
        return streams, own
