"""The events of several streams as one, in order of (time, stream, number): the paper's streamset.

No batch ends within a timestamp, so that the next event in time is always in the same batch or
in the next.

Cost: each event is copied once where there are several streams; no Python per event.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from cernis.compiled import kernel
from cernis.rdf.reading.events import GraphEvents, Int64s
from cernis.rdf.reading.terms import Codes

EVENTS = 1 << 16
"""The most events in a batch, unless more share one timestamp."""


class MergedStreams:
    """An iterator over the batches of several streams, each of which is in order of time."""

    def __init__(self, streams: Iterable[Iterator[GraphEvents]]) -> None:
        self._inputs = [_MergeInput(iter(events)) for events in streams]
        self._ready: list[GraphEvents] = []
        self._begun = False

    def __iter__(self) -> Iterator[GraphEvents]:
        return self

    def __next__(self) -> GraphEvents:
        while not self._ready:
            self._advance()
        return self._ready.pop()

    def _advance(self) -> None:
        inputs = self._inputs
        if not self._begun:
            self._begun = True
            for stream in inputs:
                stream.read_on()
                stream.read_on()  # a short stream is then known to have ended, and is one batch
        if all(stream.ended and stream.buffer is None for stream in inputs):
            raise StopIteration
        horizon = min(stream.until for stream in inputs)
        taken = [events for stream in inputs if (events := stream.take(horizon)) is not None]
        for stream in inputs:
            if not stream.ended and stream.until == horizon:
                stream.read_on()
        if taken:
            self._ready = list(_split(_interleave(taken)))[::-1]

    def codes(self) -> Iterator[Codes]:
        """Yield the codes of the terms in the buffers."""
        for events in [*self._ready, *(stream.buffer for stream in self._inputs)]:
            if events is not None:
                yield from (events.s, events.p, events.o)

    def recode(self, new_codes: Codes) -> None:
        """Replace the codes of terms in the buffers."""
        self._ready = [events.recode(new_codes) for events in self._ready]
        for stream in self._inputs:
            if stream.buffer is not None:
                stream.buffer = stream.buffer.recode(new_codes)


class _MergeInput:
    """One stream, with a buffer of the events that were read and not taken yet."""

    def __init__(self, events: Iterator[GraphEvents]) -> None:
        self._events = events
        self.buffer: GraphEvents | None = None
        self.ended = False

    def read_on(self) -> None:
        """Read one more batch into the buffer."""
        more = next(self._events, None)
        if more is None:
            self.ended = True
        elif self.buffer is None:
            self.buffer = more
        else:
            self.buffer = concatenate([self.buffer, more])

    @property
    def until(self) -> float | int:
        """The time before which every event is in the buffer."""
        if self.ended:
            return float("inf")
        return int(self.buffer.times[-1]) if self.buffer is not None else -float("inf")

    def take(self, horizon: float | int) -> GraphEvents | None:
        """Remove the events before a time from the buffer and return them."""
        events = self.buffer
        if events is None:
            return None
        count = events.size
        if horizon != float("inf"):
            count = int(np.searchsorted(events.times, horizon))
        self.buffer = events.part(count, events.size) if count < events.size else None
        return events.part(0, count) if count else None


def concatenate(parts: list[GraphEvents]) -> GraphEvents:
    """Return the events of the parts, one part after the other."""
    if len(parts) == 1:
        return parts[0]
    sizes = np.concatenate([np.diff(part.first) for part in parts])
    first = np.concatenate(([0], np.cumsum(sizes)))
    times, streams, numbers, _, s, p, o = (
        np.concatenate(column) for column in zip(*parts, strict=True)
    )
    return GraphEvents(times, streams, numbers, first, s, p, o)


def _interleave(parts: list[GraphEvents]) -> GraphEvents:
    """Sort events by time; of equal times, those of earlier parts come first."""
    together = concatenate(parts)
    if len(parts) == 1:
        return together
    return take_events(together, np.argsort(together.times, kind="stable"))


def take_events(together: GraphEvents, order: Int64s) -> GraphEvents:
    """Return the events in another order."""
    first = np.concatenate(([0], np.cumsum(np.diff(together.first)[order])))
    s, p, o = (np.empty_like(column) for column in together[4:])
    target = GraphEvents(
        together.times[order], together.streams[order], together.numbers[order], first, s, p, o
    )
    _copy_triples(order, together, target)
    return target


def _split(events: GraphEvents) -> Iterator[GraphEvents]:
    """Cut events into batches of whole timestamps."""
    begin = 0
    while events.size - begin > EVENTS:
        end = int(np.searchsorted(events.times, events.times[begin + EVENTS]))
        if end == begin:
            end = int(np.searchsorted(events.times, events.times[begin], side="right"))
        yield events.part(begin, end)
        begin = end
    if begin < events.size:
        yield events.part(begin, events.size) if begin else events


@kernel
def _copy_triples(order: Int64s, source: GraphEvents, target: GraphEvents) -> None:
    """Copy the triples of events that stand in another order in `target`."""
    for i in range(len(order)):
        at = target.first[i]
        for k in range(source.first[order[i]], source.first[order[i] + 1]):
            target.s[at], target.p[at], target.o[at] = source.s[k], source.p[k], source.o[k]
            at += 1
