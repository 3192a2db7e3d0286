"""Streams that come in pieces: `StreamPieces` gives their events in batches of whole timestamps.

A piece has some events of some streams. Pieces follow each other in time: no event is earlier than
one of a piece before it. The events of the last timestamp are held back, because the next piece
may have more of them. All quads of an event are in one piece.

The pieces of a stream are one document: a blank node's label means the same node in all of them.

Cost: each event is copied once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from cernis.encoding.keys import select_arrays
from cernis.events.reading.mistakes import Mistakes
from cernis.rdf.reading.events import GraphEvents, Int64s
from cernis.rdf.reading.merge import MergedStreams, concatenate, take_events
from cernis.rdf.reading.quads import BATCH, Input, read_quads
from cernis.rdf.reading.streams import Streamset
from cernis.rdf.reading.terms import UNBOUND, Codes, Terms, check_terms
from cernis.rdf.reading.times import TimeRule
from cernis.rdf.reading.timing import LatestTime
from cernis.state import (
    MOST_EVENTS,
    Sizes,
    Tree,
    array,
    flag,
    frozen_record,
    is_inside,
    listed,
    nested,
    number,
    optional,
    read,
    require,
    text,
    write,
)


@frozen_record
class FrozenStream:
    """How a stream is read, and how far it has come."""

    property: str | None = optional(text())
    pattern: str | None = optional(text())
    unit: str = text()
    numeric: bool | None = optional(flag())
    events: int = number(0, MOST_EVENTS)
    quads: int = number(0, MOST_EVENTS)
    ended: int = number(0, MOST_EVENTS)
    """How many of the graphs that have ended are its own."""


@frozen_record
class FrozenPieces:
    """How far streams have come that are read piece by piece."""

    pieces: int = number(0, MOST_EVENTS)
    latest: int | None = optional(number())
    latest_graph: str | None = optional(text())
    streams: list[FrozenStream] = listed(nested(FrozenStream), "streams")
    ended: Codes = array(np.int32, "ended", low=0, below="terms")

    def check(self, sizes: Sizes) -> None:
        """Raise StateError if streams have ended other graphs."""
        ended = sum(one.ended for one in self.streams)
        require(ended == len(self.ended), "a stream is damaged")


@frozen_record
class FrozenEvents:
    """The events of the last timestamp."""

    times: Int64s = array(np.int64, "events")
    streams: Codes = array(np.int32, "events", low=0, below="streams")
    numbers: Int64s = array(np.int64, "events", low=0, below=MOST_EVENTS)
    p: Codes = array(np.int32, "triples", low=0, below="terms")
    s: Codes = array(np.int32, "triples", low=0, below="terms")
    o: Codes = array(np.int32, "triples", low=0, below="terms")
    first: Int64s = array(np.int64, "events+1", low=0, below="triples+1")

    def check(self, sizes: Sizes) -> None:
        """Raise StateError if events are of several times, or not in order."""
        n = len(self.times)
        is_one = n > 0 and bool((self.times == self.times[0]).all())
        require(is_one, "the last events have several times")
        require(
            self.first[0] == 0
            and self.first[-1] == len(self.p)
            and is_inside(np.diff(self.first), 0)
            and bool((np.lexsort((self.numbers, self.streams)) == np.arange(n)).all()),
            "the last events are not in order",
        )


class StreamPieces(Streamset):
    """Named streams, read piece by piece; `time` says where each has its times.

    >>> pieces = StreamPieces(["S"], Terms(), {"S": TimeRule()}, Mistakes())
    >>> line = '<http://x/a> <http://x/p> "1" <urn:e:%d> .'
    >>> [list(pieces.read({"S": (line % n).encode()})) for n in (5,)]
    [[]]
    >>> [batch.times.tolist() for batch in pieces.read({"S": (line % 9).encode()})]
    [[5000000]]
    """

    def __init__(
        self,
        streams: Sequence[str],
        terms: Terms,
        time: Mapping[str, TimeRule],
        mistakes: Mistakes,
        format: str | None = None,
    ) -> None:
        super().__init__(dict.fromkeys(streams), terms, time=time, format=format, bad=mistakes)
        self.held: GraphEvents | None = None
        """The events of the last timestamp."""
        self.latest: LatestTime | None = None
        """No event before this time may come."""
        self.pieces = 0

    def read(self, sources: Mapping[str, Input]) -> Iterator[GraphEvents]:
        """Yield the events that a piece makes certain: all but those of the last timestamp."""
        batches = []
        for index, (name, reader) in enumerate(self.readers.items()):
            reader.timer.latest = self.latest
            if name in sources:
                quads = read_quads(
                    sources[name],
                    self.terms,
                    format=self.format,
                    label=name,
                    scope=f"p{index}",
                    piece=self.pieces,
                    mistakes=self.mistakes,
                    batch=BATCH,
                )
                batches.append(reader.read_piece(quads))
        self.pieces += 1
        for events in MergedStreams(batches):
            yield from self._hold(events)
        reached = [r.timer.latest for r in self.readers.values() if r.timer.latest is not None]
        self.latest = max(reached, default=None, key=lambda latest: latest.time)

    def _hold(self, events: GraphEvents) -> Iterator[GraphEvents]:
        """Yield the events that are held, and all of these but the last timestamp."""
        if self.held is not None:
            both = concatenate([self.held, events])
            events = take_events(both, np.lexsort((both.numbers, both.streams, both.times)))
        cut = int(np.searchsorted(events.times, events.times[-1]))
        self.held = events.part(cut, events.size)
        if cut:
            yield events.part(0, cut)

    def advance(self, time: int) -> Iterator[GraphEvents]:
        """Yield the events before a time (in nanoseconds), now that none of those can come."""
        if self.latest is None or self.latest.time < time:
            self.latest = LatestTime(time)
            yield from self.finish()

    def finish(self) -> Iterator[GraphEvents]:
        """Yield the events that are held, now that no more can come."""
        if self.held is not None:
            held, self.held = self.held, None
            yield held

    def codes(self) -> Iterator[Codes]:
        """Yield the codes of the terms that the next piece needs; not within a piece."""
        if self.held is not None:
            yield from (self.held.s, self.held.p, self.held.o)
        if self.latest is not None:
            yield np.array([self.latest.name], np.int32)
        yield from super().codes()

    def recode(self, new_codes: Codes) -> None:
        """Replace the codes of terms; not within a piece."""
        if self.held is not None:
            self.held = self.held.recode(new_codes)
        if self.latest is not None:
            self.latest = self.latest.recode(new_codes)
        super().recode(new_codes)

    # ----------------------------------------------------------------- frozen

    def freeze(self) -> Tree:
        """Return the events of the last timestamp, and how far each stream has come."""
        readers, latest = self.readers.values(), self.latest
        is_named = latest is not None and latest.name != UNBOUND
        own = FrozenPieces(
            self.pieces,
            None if latest is None else latest.time,
            self.terms.text(latest.name) if latest and is_named else None,
            [
                FrozenStream(
                    reader.rule.property,
                    reader.rule.pattern,
                    reader.rule.unit,
                    reader.numeric_times,
                    reader.grouper.event_count,
                    reader.grouper.quad_count,
                    len(reader.grouper.ended),
                )
                for reader in readers
            ],
            np.concatenate([reader.grouper.ended for reader in readers]),
        )
        held = {} if self.held is None else write(FrozenEvents(**self.held._asdict()))
        return write(own) | {f"held.{name}": column for name, column in held.items()}

    def thaw(self, tree: Tree, codes: Codes) -> None:
        """Let the streams go on where they were; frozen terms have these codes."""
        sizes = {"streams": len(self.readers), "terms": len(codes)}
        frozen = read(FrozenPieces, tree, **sizes)
        self.pieces, at = frozen.pieces, 0
        for reader, one in zip(self.readers.values(), frozen.streams, strict=True):
            ended = codes[frozen.ended[at : at + one.ended]]
            reader.grouper.continue_from(one.events, one.quads, ended)
            reader.timer.numeric_times = one.numeric
            at += one.ended
        if frozen.latest is not None:
            name = UNBOUND
            if frozen.latest_graph is not None:
                check_terms([frozen.latest_graph])
                name = self.terms.code(frozen.latest_graph)
            self.latest = LatestTime(frozen.latest, name)
        held = select_arrays("held.", tree)
        if held:
            last = read(FrozenEvents, held, **sizes)
            counts = np.array([one.events for one in frozen.streams])
            require(is_inside(last.numbers, 0, counts[last.streams]), "'numbers' is out of range")
            require(
                self.latest is not None and self.latest.time >= int(last.times[0]),
                "the last events are not the latest",
            )
            columns = {name: getattr(last, name) for name in GraphEvents._fields}
            self.held = GraphEvents(**columns).recode(codes)
