"""RDF streams that a worker holds: N-Quads as events with times and triples.

The twin of `data` for SPAseQ. An event is shown with its number in its stream, its time and its
triples as text.

Cost contract: reading parses each file once for the description; each run parses it again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from cernis.errors import DataError
from cernis.rdf.query import GraphQuery
from cernis.rdf.reading.events import GraphEvents, Int64s, join_events
from cernis.rdf.reading.streams import Streamset
from cernis.rdf.reading.terms import Terms
from cernis.rdf.source import name_streams
from cernis.serve.data import (
    BINS,
    MOST_ROWS,
    Axis,
    Floats,
    SourceFile,
    count_bins,
    find_range,
    to_milliseconds,
    to_number,
)

COLUMNS = {"number": "whole number", "time": "time", "triples": "text"}
"""The columns of an event, and their types in words."""
_MOST_TRIPLES = 50
_MILLISECOND = 1_000_000


@dataclass(frozen=True)
class GraphData:
    """Named RDF streams, and the graph of background knowledge beside them."""

    streams: Mapping[str, bytes | Path]
    background: Mapping[str, bytes] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    language = "spaseq"

    @cached_property
    def _read(self) -> tuple[Streamset, list[GraphEvents]]:
        streamset = Streamset(dict(self.streams), Terms())
        return streamset, list(streamset)

    @property
    def terms(self) -> Terms:
        return self._read[0].terms

    @cached_property
    def events(self) -> GraphEvents:
        """All events in order of time; an event's index there is its position."""
        return join_events(self._read[1])

    @property
    def axis(self) -> Axis:
        return Axis("number" if self._read[0].numeric_times else "ms")

    @cached_property
    def times(self) -> Floats:
        """The times of all events, in order."""
        return to_milliseconds(self.events.times)

    @cached_property
    def positions(self) -> dict[str, Int64s]:
        """The position of each event of a stream, by its number."""
        found: dict[str, Int64s] = {}
        events = self.events
        for index, name in enumerate(self.streams):
            at = np.flatnonzero(events.streams == index)
            numbers = events.numbers[at]
            own = np.full(int(numbers.max()) + 1 if len(numbers) else 0, -1, np.int64)
            own[numbers] = at
            found[name] = own
        return found

    def describe(self) -> dict[str, Any]:
        """Return the streams, their times and the density of events."""
        first, last = find_range(self.times) or (0.0, 0.0)
        bins = count_bins(self.times, first, last, BINS)
        unit = self.axis.unit
        return {
            "language": self.language,
            "streams": [self._describe_stream(index) for index in range(len(self.streams))],
            "density": {
                "from": to_number(first), "to": to_number(last), "unit": unit, "bins": bins,
            },
            "notes": list(self.notes),
            "schema": {"streams": [{"name": name, "attributes": {}} for name in self.streams]},
        }  # fmt: skip

    def _describe_stream(self, index: int) -> dict[str, Any]:
        name = list(self.streams)[index]
        times = self.times[self.events.streams == index]
        span = None
        if (found := find_range(times)) is not None:
            low, high = map(to_number, found)
            span = {"column": "time", "first": low, "last": high, "unit": self.axis.unit}
        return {
            "name": name,
            "rows": len(times),
            "columns": [{"name": name, "type": kind} for name, kind in COLUMNS.items()],
            "type": None,
            "types": [{"name": name, "count": len(times)}],
            "time": span,
        }

    def page(self, stream: str, offset: int, limit: int) -> dict[str, Any]:
        """Return some events of a stream."""
        at = np.flatnonzero(self.events.streams == list(self.streams).index(stream))
        chosen = at[offset : offset + min(limit, MOST_ROWS)]
        rows = [
            [int(self.events.numbers[position]), self.write_time(position), self.triples(position)]
            for position in chosen.tolist()
        ]
        return {"columns": list(COLUMNS), "rows": rows, "offset": offset, "total": len(at)}

    def write_time(self, position: int) -> Any:
        """Return the time of an event as people read it."""
        time = int(self.events.times[position])
        if self.axis.unit == "number":
            return time // _MILLISECOND
        return str(np.datetime64(time // _MILLISECOND, "ms")) + "Z"

    def triples(self, position: int) -> str:
        """Return the triples of an event as text, the first ones of many."""
        events = self.events
        low, high = int(events.first[position]), int(events.first[position + 1])
        shown = slice(low, min(high, low + _MOST_TRIPLES))
        texts = [self.terms.texts(codes[shown]).to_pylist() for codes in events[4:]]
        lines = [f"{s} {p} {o} ." for s, p, o in zip(*texts, strict=True)]
        return "\n".join([*lines, *(["…"] if high > shown.stop else [])])

    def assign(self, query: GraphQuery) -> dict[str, str]:
        """Return which of these streams is which stream of a query."""
        wanted = [name for name, _ in query.query.streams]
        if set(wanted) <= set(self.streams):
            return {name: name for name in wanted}
        stand_ins = [Path(name) for name in self.streams]
        found = name_streams(query.query, stand_ins)
        return {name: str(own) for name, own in found.items()}


def read_graphs(files: Sequence[SourceFile]) -> GraphData:
    """Read N-Quads, a stream for each file."""
    data = GraphData({file.stream: Path(file.path) for file in files})
    if not data.events.size:
        raise DataError(f"{files[0].label}: has no events: each is a named graph with a time")
    return data
