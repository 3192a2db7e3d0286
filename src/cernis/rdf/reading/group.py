"""Quads to groups: the quads of each event together.

One named graph is one event. Its quads may be interleaved with those of other graphs, but no more
than `reach` quads may lie between two of them (metadata in the default graph included). After that
the event is closed; a quad that comes later is a mistake. An event's number is the rank of its
graph's first quad, and events leave in the order of their numbers.

A triple of the default graph whose subject is the name of an event's graph is about that event and
part of its graph, also where it gives the time. A triple of the default graph about anything else
is a mistake; general knowledge belongs in a background graph.

Cost: a few passes of kernels over the quads, no Python per event. Memory is bounded by the open
events and the events that wait behind them. The rejected design sorts the quads by graph: a table
from the graph's code to its event, one access per quad, does without the sort.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import kernel
from cernis.events.reading.mistakes import Mistakes
from cernis.rdf.reading.events import Bools, Int64s
from cernis.rdf.reading.quads import Quads
from cernis.rdf.reading.terms import Codes, Terms

REACH = 1 << 16
"""How many quads may lie between two quads of one event."""
LAST_EVENTS = 1024
"""Of how many events at the end of a piece the next piece must have no quads."""

_UNSEEN, _CLOSED = -1, -2
_LARGEST = 2**63 - 1


class EventQuads(NamedTuple):
    """Quads, each with the index of its event."""

    event: Codes
    s: Codes
    p: Codes
    o: Codes

    def take(self, rows: NDArray[Any]) -> EventQuads:
        """Return the quads at some indices, or those that a mask selects."""
        return EventQuads(*(column[rows] for column in self))

    def append(self, more: EventQuads) -> EventQuads:
        """Return these quads followed by others."""
        columns: Any = zip(self, more, strict=True)
        return EventQuads(*map(np.concatenate, columns))


class EventGroup(NamedTuple):
    """Closed events in the order of their numbers; event i has the quads from first[i] on."""

    names: Codes
    numbers: Int64s
    first: Int64s
    quads: EventQuads


class _OpenEvents(NamedTuple):
    """The events that are open, or wait for an open event with a smaller number."""

    names: Codes
    last: Int64s
    """The position of the last quad."""
    numbers: Int64s
    """-1 while there are only triples of the default graph."""

    def take(self, rows: Any) -> _OpenEvents:
        """Return the events of a slice or mask."""
        return _OpenEvents(self.names[rows], self.last[rows], self.numbers[rows])

    def widen(self, count: int) -> _OpenEvents:
        """Return these events followed by room for more."""
        columns: Any = (np.concatenate([old, np.empty(count, old.dtype)]) for old in self)
        return _OpenEvents(*columns)


class QuadGrouper:
    """Group the quads of one stream by event."""

    def __init__(self, label: str, terms: Terms, mistakes: Mistakes, reach: int) -> None:
        self._label, self._terms, self._mistakes = label, terms, mistakes
        self._reach = max(1, reach)
        self._slots = np.empty(0, np.int32)
        """By the code of a graph's name: the index of its open event, or `_CLOSED`."""
        self._counts = np.zeros(2, np.int64)
        """The open events, and the numbers given."""
        self._position = 0
        codes, longs = np.empty(0, np.int32), np.empty(0, np.int64)
        self._open = _OpenEvents(codes, longs, longs)
        self._quads = EventQuads(codes, codes, codes, codes)
        self.ended = codes
        """Of a stream in pieces: the names of the last graphs in the last piece."""

    @property
    def event_count(self) -> int:
        """The number of events that have a number."""
        return int(self._counts[1])

    def add(self, quads: Quads) -> None:
        """Find the event of each quad."""
        n = len(quads.s)
        named = quads.g >= 0
        self._slots = _grow(self._slots, len(self._terms))
        events = self._open.widen(n)
        event = np.empty(n, np.int32)
        keys = np.where(named, quads.g, quads.s)
        late = _find_events(
            keys, named, self._position, self._reach, self._slots, events, self._counts, event
        )
        added = EventQuads(event, quads.s, quads.p, quads.o)
        if late:
            self._report_late(quads, keys, event)
            added = added.take(event >= 0)
        self._position += n
        self._open = events.take(slice(0, int(self._counts[0])))
        self._quads = self._quads.append(added)

    def close(self, *, at_end: bool) -> EventGroup | None:
        """Return the events that no more quads can join, or None if there are none."""
        events = self._open
        closed = np.ones(len(events.names), np.bool_)
        if not at_end:
            closed = self._position - events.last > self._reach
        numbered = events.numbers >= 0
        blocking = events.numbers[numbered & ~closed]
        first_blocking = blocking.min() if len(blocking) else _LARGEST
        ready = numbered & closed & (events.numbers < first_blocking)
        stray = ~numbered & closed
        if not ready.any() and not stray.any():
            return None
        if stray.any():
            self._report_strays(stray)
        group = self._gather(ready)
        self._retain(~(ready | stray))
        return group if len(group.names) else None

    def _gather(self, ready: Bools) -> EventGroup:
        """Return the events that are ready, the quads of each together."""
        entries = np.flatnonzero(ready)
        entries = entries[np.argsort(self._open.numbers[entries])]
        rank = np.full(len(ready), -1, np.int32)
        rank[entries] = np.arange(len(entries), dtype=np.int32)
        event = rank[self._quads.event]
        first = np.zeros(len(entries) + 1, np.int64)
        np.cumsum(np.bincount(event[event >= 0], minlength=len(entries)), out=first[1:])
        order = np.empty(int(first[-1]), np.int64)
        _order_by_event(event, first[:-1].copy(), order)
        quads = self._quads.take(order)._replace(event=event[order])
        return EventGroup(self._open.names[entries], self._open.numbers[entries], first, quads)

    def _retain(self, stay: Bools) -> None:
        """Keep only the events that `stay`; the others are closed for good."""
        names = self._open.names
        self._slots[names] = _CLOSED
        self._slots[names[stay]] = np.arange(np.count_nonzero(stay), dtype=np.int32)
        index = np.cumsum(stay, dtype=np.int32) - 1
        quads = self._quads.take(stay[self._quads.event])
        self._quads = quads._replace(event=index[quads.event])
        self._open = self._open.take(stay)
        self._counts[0] = len(self._open.names)

    def end_piece(self, names: Codes) -> None:
        """Note the last graphs of a piece, whose quads are together; forget those before.

        The next piece must not have quads of them, which would be the rest of an event.
        """
        self._slots[self.ended] = _UNSEEN
        self._slots[names] = _UNSEEN
        self.ended = names[-LAST_EVENTS:]
        self._slots[self.ended] = _CLOSED

    def continue_from(self, events: int, quads: int, ended: Codes) -> None:
        """Go on behind so many events and quads, and a piece with these graphs."""
        self._counts[1], self._position = events, quads
        self._slots = _grow(self._slots, len(self._terms))
        self.end_piece(ended)

    @property
    def quad_count(self) -> int:
        """The number of quads read."""
        return self._position

    # ----------------------------------------------------------------- codes

    def codes(self) -> Iterator[Codes]:
        """Yield the codes of the terms in open events, and of the last piece's graphs."""
        yield self._open.names
        yield self.ended
        yield from (self._quads.s, self._quads.p, self._quads.o)

    def recode(self, new_codes: Codes) -> None:
        """Replace the codes of terms.

        A closed graph whose name has no new code counts as a new event if it comes back.
        """
        old, kept = self._slots, np.flatnonzero(new_codes[: len(self._slots)] >= 0)
        self._slots = np.full(int(new_codes.max(initial=-1)) + 1, _UNSEEN, np.int32)
        self._slots[new_codes[kept]] = old[kept]
        self._open = self._open._replace(names=new_codes[self._open.names])
        self.ended = new_codes[self.ended]
        _, s, p, o = self._quads
        self._quads = self._quads._replace(s=new_codes[s], p=new_codes[p], o=new_codes[o])

    # -------------------------------------------------------------- mistakes

    def _report_late(self, quads: Quads, keys: Codes, event: Codes) -> None:
        for i in np.flatnonzero(event < 0):
            name, at = self._terms.text(keys[i]), self._position + int(i)
            text = self._format(quads.s[i], quads.p[i], quads.o[i])
            reason = (
                f"a quad of the graph comes more than {self._reach} quads after the one before "
                f"it: {text}; bring the quads of an event together, or allow a wider reach"
            )
            if keys[i] in self.ended:
                reason = (
                    f"the piece before this one has quads of the graph already: {text}; push all "
                    "quads of an event in one piece"
                )
            self._mistakes.bad(
                self._label,
                at,
                None,
                reason,
                text=text,
                where=f"{self._label}, quad {at}, graph {name}",
            )

    def _report_strays(self, stray: Bools) -> None:
        quads = self._quads
        for i in np.flatnonzero(stray[quads.event]):
            text = self._format(quads.s[i], quads.p[i], quads.o[i])
            self._mistakes.bad(
                self._label,
                int(self._open.last[quads.event[i]]),
                None,
                f"a triple of the default graph is about no event: {text}; put it into the named "
                "graph of an event, or into background knowledge",
                text=text,
                where=self._label,
            )

    def _format(self, *codes: np.int32) -> str:
        return " ".join(self._terms.text(int(code)) for code in codes) + " ."


def _grow(slots: Codes, size: int) -> Codes:
    if size <= len(slots):
        return slots
    larger = np.full(max(size, 2 * len(slots)), _UNSEEN, np.int32)
    larger[: len(slots)] = slots
    return larger


@kernel
def _find_events(
    keys: Codes,
    named: Bools,
    position: Any,
    reach: Any,
    slots: Codes,
    events: _OpenEvents,
    counts: Int64s,
    event: Codes,
) -> Any:
    """Write each quad's event, -1 where it comes too late; return how many do."""
    late = 0
    for i in range(len(keys)):
        at = position + i
        key = keys[i]
        found = slots[key]
        if found == _CLOSED or (found >= 0 and at - events.last[found] > reach):
            event[i] = -1
            late += 1
            continue
        if found < 0:
            found = np.int32(counts[0])
            counts[0] += 1
            slots[key] = found
            events.names[found] = key
            events.numbers[found] = -1
        events.last[found] = at
        if named[i] and events.numbers[found] < 0:
            events.numbers[found] = counts[1]
            counts[1] += 1
        event[i] = found
    return late


@kernel
def _order_by_event(event: Codes, free: Int64s, order: Int64s) -> None:
    """Write the indices of quads event by event; those of event -1 are left out."""
    for i in range(len(event)):
        e = event[i]
        if e >= 0:
            order[free[e]] = i
            free[e] += 1
