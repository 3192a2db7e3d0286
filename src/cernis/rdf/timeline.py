"""Index RDF events and the matches of SPAseQ for pictures of their timeline, a lane per stream.

Cost contract: linear in the events; one page of one match for each match that a picture shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.rdf.reading.events import Int64s
from cernis.views.timeline import MatchMark, Timeline, view_marks
from cernis.views.timeline_index import FoundMatch, Indices, Lane, TimelineIndex, cumulate


class GraphLanes(NamedTuple):
    """Events in order of time."""

    ticks: Int64s
    """Their times in nanoseconds."""
    times: NDArray[np.float64]
    """The same on the axis."""
    unit: str
    """The unit of the axis: `ms` since 1970, or `number`."""
    streams: NDArray[Any]
    """The lane of each."""
    names: Sequence[str]
    """Those of the lanes."""


class GraphEnds(NamedTuple):
    """The times at which matches end, ascending, how many end there, and the ways to them."""

    ticks: Int64s
    counts: Sequence[int]
    find_page: Callable[[int], Iterable[Any]]
    """Gives the match with a number in the order of the result, as a page of one."""
    hold: Callable[[Any], Mapping[str, Sequence[int]]]
    """Gives the events of a match by their streams."""


def index_graphs(lanes: GraphLanes, ends: GraphEnds) -> TimelineIndex:
    """Return the index of a result."""
    totals = cumulate(ends.counts)
    ranks = np.searchsorted(lanes.ticks, ends.ticks, side="right") - 1

    def find_matches(asked: Indices) -> list[FoundMatch]:
        found = []
        for rank in asked.tolist():
            for match in ends.find_page(totals[int(np.searchsorted(ranks, rank))]):
                held = ends.hold(match)
                found.append(FoundMatch(rank, tuple((n, tuple(r)) for n, r in held.items())))
        return found

    return TimelineIndex(
        times=lanes.times,
        rows=np.arange(len(lanes.ticks)),
        unit=lanes.unit,
        lanes=tuple(
            Lane(name, np.flatnonzero(lanes.streams == i)) for i, name in enumerate(lanes.names)
        ),
        lane_of=lanes.streams.astype(np.int64),
        ends=ranks,
        counts=totals,
        find_matches=find_matches,
    )


def view_graphs(streams: Sequence[str], times: Sequence[float], unit: str) -> Timeline:
    """Return the timeline of one match: a lane for each of its streams, from its start to its end.

    The mark of an event has its index in the match as position.
    """
    names = [*dict.fromkeys(streams)]
    marks = (
        MatchMark(i, at, names.index(stream), stream, i)
        for i, (stream, at) in enumerate(zip(streams, times, strict=True))
    )
    return view_marks(names, marks, (min(times), max(times)), unit)
