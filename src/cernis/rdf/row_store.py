"""The rows and events that matches refer to, by number.

Numbers continue from batch to batch. A run that is collected as a whole keeps every row; one that
is delivered batch by batch drops the batches that no partial match reaches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from cernis.rdf.reading.events import GraphEvents, Int64s
from cernis.rdf.reading.terms import UNBOUND, Codes
from cernis.rdf.solving.rows import StoredRows


class _EventNumbers(NamedTuple):
    first: int
    streams: Codes
    numbers: Int64s


class RowStore:
    """Rows and events by number."""

    def __init__(self) -> None:
        self._rows: list[StoredRows] = []
        self._events: list[_EventNumbers] = []

    def add(self, rows: StoredRows, events: GraphEvents, first_event: int) -> None:
        """Store the rows of a batch; the batch's first event has the number `first_event`."""
        if len(rows.time):
            self._rows.append(rows)
            self._events.append(_EventNumbers(first_event, events.streams, events.numbers))

    @property
    def size(self) -> int:
        """The number of rows stored."""
        return sum(len(rows.time) for rows in self._rows)

    def copy(self, first_row: int = 0) -> RowStore:
        """Return a copy without the batches that lie wholly before `first_row`."""
        other = RowStore()
        for rows, events in zip(self._rows, self._events, strict=True):
            if rows.first + len(rows.time) > first_row:
                other._rows.append(rows)
                other._events.append(events)
        return other

    def find_row(self, time: int) -> int:
        """Return the number of the first row at or after a time, or one before it."""
        for rows in self._rows:
            if rows.time[-1] >= time:
                return rows.first
        return self._rows[-1].first + len(self._rows[-1].time) if self._rows else 0

    def codes(self) -> Iterator[Codes]:
        """Yield the codes of the terms in the rows."""
        return (rows.codes for rows in self._rows)

    def recode(self, new_codes: Codes) -> RowStore:
        """Return a copy in which each term has its new code."""
        other = self.copy()
        other._rows = [
            rows._replace(codes=np.where(rows.codes >= 0, new_codes[rows.codes], UNBOUND))
            for rows in other._rows
        ]
        return other

    def rows(self, numbers: Int64s) -> StoredRows:
        """Return the rows with these numbers."""
        return StoredRows(0, *_look_up(self._rows, numbers))

    def events(self, numbers: Int64s) -> tuple[Codes, Int64s]:
        """Return the stream of each of these events, and its number in the stream."""
        streams, own = _look_up(self._events, numbers)
        return streams, own


def _look_up(batches: Sequence[StoredRows | _EventNumbers], numbers: Int64s) -> list[Any]:
    """Return the columns of some batches, which follow `first`, at these numbers."""
    firsts = np.array([batch.first for batch in batches], np.int64)
    where = np.searchsorted(firsts, numbers, side="right") - 1
    found = [np.empty((len(numbers), *column.shape[1:]), column.dtype) for column in batches[0][1:]]
    for i in np.unique(where):
        mine, (first, *columns) = where == i, batches[i]
        for target, column in zip(found, columns, strict=True):
            target[mine] = column[numbers[mine] - first]
    return found
