"""The rows and events that matches refer to, by number.

Numbers continue from batch to batch. A run that is collected as a whole keeps every row; one that
is delivered batch by batch drops the batches that no partial match reaches. Small batches are
merged, so that a copy of the store and a lookup cost little beside many pieces.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from cernis.rdf.reading.events import GraphEvents, Int64s
from cernis.rdf.reading.terms import UNBOUND, Codes
from cernis.rdf.solving.rows import StoredRows
from cernis.state import (
    MOST_EVENTS,
    Sizes,
    Tree,
    array,
    frozen_record,
    optional,
    read,
    require,
    write,
)


class _EventNumbers(NamedTuple):
    first: int
    streams: Codes
    numbers: Int64s
    versions: Codes
    """The version of the background that each was solved with, by its index."""


_SMALL = 1024
"""The most rows of a batch that is merged of others."""


@frozen_record
class FrozenRows:
    """The rows of a store and their events, one batch after the other.

    The reader gives how many rows there have been, and the other numbers that bound these.
    """

    batches: Int64s = array(np.int64, "batches", 3, low=0, below=MOST_EVENTS)
    """Per batch, how many rows it has, its first event, and how many events."""
    codes: Codes = array(np.int32, "rows", "columns", low=UNBOUND, below="terms")
    alternative: Codes = array(np.int32, "rows", low=0, below="alternatives")
    event: Int64s = array(np.int64, "rows", "patterns", low=-1, below="events")
    time: Int64s = array(np.int64, "rows")
    streams: Codes = array(np.int32, "stored", low=0, below="streams")
    numbers: Int64s = array(np.int64, "stored", low=-1, below=MOST_EVENTS)
    versions: Codes | None = optional(array(np.int32, "stored", low=0, below="backgrounds"))
    """None if there is no live background."""

    def check(self, sizes: Sizes) -> None:
        """Raise StateError if rows do not belong to their events."""
        rows, first, count = self.batches.T
        n, m = sum(rows.tolist()), sum(count.tolist())
        require(n == len(self.time) and m == len(self.numbers), "its batches have other rows")
        require((self.versions is None) == (not sizes["backgrounds"]), "'versions' is missing")
        firsts = np.repeat(first, rows)[:, None]
        ends = firsts + np.repeat(count, rows)[:, None]
        require(
            bool((self.batches[:, [0, 2]] > 0).all())
            and bool((np.diff(first) >= count[:-1]).all())
            and bool((np.diff(self.time) >= 0).all())
            and bool((((self.event >= firsts) & (self.event < ends)) | (self.event == -1)).all())
            and bool((self.event[:, 0] >= 0).all())
            and 0 < n <= sizes["read"],
            "its rows do not belong to its events",
        )


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

    def freeze(self, first_row: int, *, live: bool) -> Tree:
        """Return the rows from `first_row` on, and their events.

        `live`: they were solved with several versions of a background.
        """
        parts = []
        for rows, events in zip(self._rows, self._events, strict=True):
            stay = slice(max(first_row - rows.first, 0), None)
            codes, alternative, event, time = (column[stay] for column in rows[1:])
            if len(time):
                needed = event[event >= 0]
                first, end = int(needed.min()), int(needed.max()) + 1
                own = slice(first - events.first, end - events.first)
                sizes = np.array([[len(time), first, end - first]], np.int64)
                mine = (column[own] for column in events[1:])
                parts.append((sizes, codes, alternative, event, time, *mine))
        if not parts:
            return {}
        found: Any = FrozenRows(*map(np.concatenate, zip(*parts, strict=True)))
        return write(found if live else replace(found, versions=None))

    @classmethod
    def thaw(cls, tree: Tree, **sizes: int) -> RowStore:
        """Return the rows of a frozen store; `FrozenRows` says which sizes there are."""
        store = cls()
        if not tree:
            return store
        frozen = read(FrozenRows, tree, **sizes)
        versions = frozen.versions
        if versions is None:
            versions = np.zeros(len(frozen.numbers), np.int32)
        row, at, base = 0, 0, sizes["read"] - len(frozen.time)
        for size, first, count in frozen.batches.tolist():
            own, mine = slice(row, row + size), slice(at, at + count)
            columns: Any = (frozen.codes, frozen.alternative, frozen.event, frozen.time)
            store._rows.append(StoredRows(base + row, *(column[own] for column in columns)))
            events: Any = (frozen.streams, frozen.numbers, versions)
            store._events.append(_EventNumbers(first, *(column[mine] for column in events)))
            row, at = row + size, at + count
        return store

    @property
    def first_row(self) -> int | None:
        """The number of the first row; None if there are no rows."""
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
