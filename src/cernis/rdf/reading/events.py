"""`GraphEvents`: a batch of RDF graph events in order of time.

One named graph is one event. Triples are sorted within each event, so that kernels search them
(`cernis.engine.graphs.search`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cernis.rdf.reading.terms import Codes, Terms

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]


class GraphEvents(NamedTuple):
    """A batch of events in order of time, then stream, then number."""

    times: Int64s
    """Nanoseconds."""
    streams: Codes
    """The index of an event's stream."""
    numbers: Int64s
    """The number of an event in its stream."""
    first: Int64s
    """Event i has the triples first[i] to first[i + 1]."""
    s: Codes
    p: Codes
    o: Codes
    """Each event's triples in order of (p, s, o), none twice."""

    @property
    def size(self) -> int:
        """The number of events."""
        return len(self.times)

    def part(self, begin: int, end: int) -> GraphEvents:
        """Return the events from `begin` up to `end`."""
        low, high = int(self.first[begin]), int(self.first[end])
        return GraphEvents(
            self.times[begin:end],
            self.streams[begin:end],
            self.numbers[begin:end],
            self.first[begin : end + 1] - low,
            self.s[low:high],
            self.p[low:high],
            self.o[low:high],
        )

    def recode(self, new_codes: Codes) -> GraphEvents:
        """Return the same events with new codes of terms, by which triples are sorted again."""
        s, p, o = new_codes[self.s], new_codes[self.p], new_codes[self.o]
        event = np.repeat(np.arange(self.size), np.diff(self.first))
        order = np.lexsort((o, s, p, event))
        return self._replace(s=s[order], p=p[order], o=o[order])


def join_events(batches: Sequence[GraphEvents]) -> GraphEvents:
    """Return batches that follow each other as one."""
    if not batches:
        none, codes = np.empty(0, np.int64), np.empty(0, np.int32)
        return GraphEvents(none, codes, none, np.zeros(1, np.int64), codes, codes, codes)
    sizes = np.cumsum([0, *(len(batch.s) for batch in batches)])
    first = [batch.first[:-1] + low for batch, low in zip(batches, sizes, strict=False)]
    joined = GraphEvents(*map(np.concatenate, zip(*batches, strict=True)))
    return joined._replace(first=np.concatenate([*first, sizes[-1:]]))


def encode_events(
    times: Int64s,
    streams: Codes,
    numbers: Int64s,
    offsets: Int64s,
    triples: Sequence[pa.StringArray],
    terms: Terms,
) -> GraphEvents:
    """Return events whose triples are texts in any order: event i has those from offsets[i] on."""
    s, p, o = (terms.encode(texts) for texts in triples)
    event = np.repeat(np.arange(len(times)), np.diff(offsets))
    order = np.lexsort((o, s, p, event))
    event, s, p, o = event[order], s[order], p[order], o[order]
    new: Bools = np.ones(len(s), np.bool_)
    new[1:] = (event[1:] != event[:-1]) | (p[1:] != p[:-1])
    new[1:] |= (s[1:] != s[:-1]) | (o[1:] != o[:-1])
    first = np.searchsorted(event[new], np.arange(len(times) + 1))
    return GraphEvents(times, streams, numbers, first, s[new], p[new], o[new])
