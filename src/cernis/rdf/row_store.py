"""The rows and events that matches refer to, by number.

Numbers continue from batch to batch. A run that is collected as a whole keeps every row; one that
is delivered batch by batch drops the batches that no partial match reaches. Small batches are
merged, so that a copy of the store and a lookup cost little beside many pieces.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.rdf.reading.events import GraphEvents, Int64s
from cernis.rdf.reading.terms import UNBOUND, Codes
from cernis.rdf.solving.rows import StoredRows
from cernis.state import MOST_EVENTS, Arrays, read_array, require


class _EventNumbers(NamedTuple):
    first: int
    streams: Codes
    numbers: Int64s
    versions: Codes
    """The version of the background that each was solved with, by its index."""


_SMALL = 1024
"""The most rows of a batch that is merged of others."""
_FROZEN = ("batches", "codes", "alternative", "event", "time", "streams", "numbers", "versions")


class StoredShape(NamedTuple):
    """The numbers that bound those in a frozen store."""

    rows: int
    events: int
    """How many rows and events there have been."""
    terms: int
    columns: int
    alternatives: int
    patterns: int
    streams: int
    versions: int


class RowStore:
    """Rows and events by number."""

    def __init__(self) -> None:
        self._rows: list[StoredRows] = []
        self._events: list[_EventNumbers] = []

    def add(self, rows: StoredRows, events: GraphEvents, first_event: int, versions: Codes) -> None:
        """Store the rows of a batch; the batch's first event has the number `first_event`."""
        if len(rows.time):
            numbers = _EventNumbers(first_event, events.streams, events.numbers, versions)
            self._rows.append(rows)
            self._events.append(numbers)
            self._merge_small()

    def _merge_small(self) -> None:
        """Merge the last batches while they are small and one is no larger than the next.

        Streams in pieces have many small batches; each row is copied O(log) times.
        """
        while len(self._rows) > 1:
            one, two = self._rows[-2:]
            first, last = self._events[-2:]
            span = last.first + len(last.streams) - first.first
            rows = len(one.time) + len(two.time)
            if len(one.time) > len(two.time) or rows > _SMALL or span > 4 * _SMALL:
                return
            gap = last.first - first.first - len(first.streams)
            # events between the batches have no rows: nobody asks for their numbers
            both: Any = zip(first[1:], last[1:], strict=True)
            events = (np.concatenate([a, np.zeros(gap, a.dtype), b]) for a, b in both)
            columns: Any = zip(one[1:], two[1:], strict=True)
            self._rows[-2:] = [StoredRows(one.first, *map(np.concatenate, columns))]
            self._events[-2:] = [_EventNumbers(first.first, *events)]

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

    def freeze(self, first_row: int) -> dict[str, NDArray[Any]]:
        """Return the rows from `first_row` on, and their events, as arrays."""
        columns: dict[str, list[NDArray[Any]]] = {name: [] for name in _FROZEN}
        for rows, events in zip(self._rows, self._events, strict=True):
            stay = slice(max(first_row - rows.first, 0), None)
            codes, alternative, event, time = (column[stay] for column in rows[1:])
            if len(time):
                needed = event[event >= 0]
                first, end = int(needed.min()), int(needed.max()) + 1
                own = slice(first - events.first, end - events.first)
                sizes = np.array([[len(time), first, end - first]], np.int64)
                parts = (sizes, codes, alternative, event, time, *(one[own] for one in events[1:]))
                for name, column in zip(_FROZEN, parts, strict=True):
                    columns[name].append(column)
        return {name: np.concatenate(found) for name, found in columns.items() if found}

    @classmethod
    def thaw(cls, arrays: Arrays, shape: StoredShape) -> RowStore:
        """Return the rows of a frozen store, after checking them."""
        store = cls()
        if not arrays:
            return store
        batches = read_array(arrays, "batches", np.int64, (None, 3), low=0, below=MOST_EVENTS)
        n, m = (sum(batches[:, i].tolist()) for i in (0, 2))
        codes = read_array(
            arrays, "codes", np.int32, (n, shape.columns), low=UNBOUND, below=shape.terms
        )
        ways = read_array(arrays, "alternative", np.int32, (n,), low=0, below=shape.alternatives)
        event = read_array(
            arrays, "event", np.int64, (n, shape.patterns), low=-1, below=shape.events
        )
        time = read_array(arrays, "time", np.int64, (n,))
        streams = read_array(arrays, "streams", np.int32, (m,), low=0, below=shape.streams)
        numbers = read_array(arrays, "numbers", np.int64, (m,), low=-1, below=MOST_EVENTS)
        versions = np.zeros(m, np.int32)  # states of other sessions have none
        if shape.versions:
            versions = read_array(arrays, "versions", np.int32, (m,), low=0, below=shape.versions)
        firsts = np.repeat(batches[:, 1], batches[:, 0])[:, None]
        ends = firsts + np.repeat(batches[:, 2], batches[:, 0])[:, None]
        require(
            bool((batches[:, [0, 2]] > 0).all())
            and bool((np.diff(batches[:, 1]) >= batches[:-1, 2]).all())
            and bool((np.diff(time) >= 0).all())
            and bool((((event >= firsts) & (event < ends)) | (event == -1)).all())
            and bool((event[:, 0] >= 0).all())
            and 0 < n <= shape.rows,
            "its rows do not belong to its events",
        )
        row, at = 0, 0
        for size, first, count in batches.tolist():
            own, mine = slice(row, row + size), slice(at, at + count)
            store._rows.append(
                StoredRows(shape.rows - n + row, codes[own], ways[own], event[own], time[own])
            )
            store._events.append(_EventNumbers(first, streams[mine], numbers[mine], versions[mine]))
            row, at = row + size, at + count
        return store

    @property
    def first_row(self) -> int | None:
        """The number of the first row; None: there is none."""
        return self._rows[0].first if self._rows else None

    def codes(self) -> Iterator[Codes]:
        """Yield the codes of the terms in the rows."""
        return (rows.codes for rows in self._rows)

    def recode(self, new_codes: Codes) -> RowStore:
        """Return a copy in which each term has its new code."""
        other, known = self.copy(), np.append(new_codes, np.int32(UNBOUND))
        other._rows = [rows._replace(codes=known[rows.codes]) for rows in other._rows]
        return other

    def rows(self, numbers: Int64s) -> StoredRows:
        """Return the rows with these numbers."""
        return StoredRows(0, *_look_up(self._rows, numbers))

    def list_events(self) -> tuple[Int64s, Int64s]:
        """Return the numbers of the events that rows have, in order of time, and their times."""
        found = [_find_events(rows) for rows in self._rows]
        if not found:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        numbers, times = (np.concatenate(columns) for columns in zip(*found, strict=True))
        return numbers, times

    def events(self, numbers: Int64s) -> tuple[Codes, Int64s, Codes]:
        """Return the stream of each of these events, its number in it, and its version."""
        streams, own, versions = _look_up(self._events, numbers)
        return streams, own, versions


def _find_events(rows: StoredRows) -> tuple[Int64s, Int64s]:
    """Return the numbers of the events of some rows, each once, and their times."""
    there = rows.event >= 0
    times = np.broadcast_to(rows.time[:, None], rows.event.shape)[there]
    numbers, first = np.unique(rows.event[there], return_index=True)
    return numbers, times[first]


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
