"""Streams that come in pieces: `StreamPieces` gives their events in batches of whole timestamps.

A piece has some events of some streams. Pieces follow each other in time: no event is earlier than
one of a piece before it. The events of the last timestamp are held back, because the next piece
may have more of them. All quads of an event are in one piece.

The pieces of a stream are one document: a blank node's label means the same node in all of them.

Cost: each event is copied once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cernis.events.mistakes import Mistakes
from cernis.rdf.reading.events import GraphEvents
from cernis.rdf.reading.merge import MergedStreams, concatenate, take_events
from cernis.rdf.reading.quads import BATCH, Input, read_quads
from cernis.rdf.reading.streams import Streamset
from cernis.rdf.reading.terms import UNBOUND, Codes, Terms, check_terms
from cernis.rdf.reading.times import TimeRule
from cernis.rdf.reading.timing import LatestTime
from cernis.state import (
    MOST_EVENTS,
    Arrays,
    check_number,
    check_text,
    is_inside,
    read_array,
    require,
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

    def freeze(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the events of the last timestamp, and how far each stream has come."""
        readers, latest = self.readers.values(), self.latest
        arrays: dict[str, NDArray[Any]] = {}
        if self.held is not None:
            arrays |= {f"held.{name}": one for name, one in self.held._asdict().items()}
        arrays["ended"] = np.concatenate([reader.grouper.ended for reader in readers])
        is_named = latest is not None and latest.name != UNBOUND
        meta = {
            "pieces": self.pieces,
            "latest": None if latest is None else latest.time,
            "latest_graph": self.terms.text(latest.name) if latest and is_named else None,
            "streams": [
                {
                    "property": reader.rule.property,
                    "pattern": reader.rule.pattern,
                    "unit": reader.rule.unit,
                    "numeric": reader.numeric_times,
                    "events": reader.grouper.event_count,
                    "quads": reader.grouper.quad_count,
                    "ended": len(reader.grouper.ended),
                }
                for reader in readers
            ],
        }
        return meta, arrays

    def thaw(self, meta: Mapping[str, Any], arrays: Arrays, codes: Codes) -> None:
        """Let the streams go on where they were; frozen terms have these codes."""
        self.pieces = check_number(meta.get("pieces"), "the number of pieces", 0, MOST_EVENTS)
        ended = read_array(arrays, "ended", np.int32, low=0, below=len(codes))
        at, counts = 0, []
        for reader, written in zip(self.readers.values(), meta["streams"], strict=True):
            events, quads, number = (
                check_number(written.get(name), f"the number of {name}", 0, MOST_EVENTS)
                for name in ("events", "quads", "ended")
            )
            require(
                written.get("numeric") in (None, True, False) and at + number <= len(ended),
                "a stream is damaged",
            )
            reader.grouper.continue_from(events, quads, codes[ended[at : at + number]])
            reader.timer.numeric_times = written["numeric"]
            at += number
            counts.append(events)
        require(at == len(ended), "a stream is damaged")
        if meta.get("latest") is not None:
            name, text = UNBOUND, meta.get("latest_graph")
            if text is not None:
                check_terms([check_text(text, "the name of a graph")])
                name = self.terms.code(text)
            self.latest = LatestTime(check_number(meta["latest"], "the latest time"), name)
        if any(name.startswith("held.") for name in arrays):
            self.held = _read_held(arrays, np.array(counts), codes)
            require(
                self.latest is not None and self.latest.time >= int(self.held.times[0]),
                "the last events are not the latest",
            )


def _read_held(arrays: Arrays, counts: NDArray[Any], codes: Codes) -> GraphEvents:
    """Return the events of the last timestamp."""
    times = read_array(arrays, "held.times", np.int64)
    n = len(times)
    require(n > 0 and bool((times == times[0]).all()), "the last events have several times")
    streams = read_array(arrays, "held.streams", np.int32, (n,), low=0, below=len(counts))
    numbers = read_array(arrays, "held.numbers", np.int64, (n,), low=0, below=counts[streams])
    p = read_array(arrays, "held.p", np.int32, low=0, below=len(codes))
    size = len(p)
    s, o = (
        read_array(arrays, f"held.{name}", np.int32, (size,), low=0, below=len(codes))
        for name in "so"
    )
    first = read_array(arrays, "held.first", np.int64, (n + 1,), low=0, below=size + 1)
    order = np.lexsort((numbers, streams))
    require(
        first[0] == 0
        and first[-1] == size
        and is_inside(np.diff(first), 0)
        and bool((order == np.arange(n)).all()),
        "the last events are not in order",
    )
    return GraphEvents(times, streams, numbers, first, s, p, o).recode(codes)
