"""`TimelineIndex`: events and ends of matches along time, aggregated for an interval and a width.

The index is made once for a result. It has the times of the events in order, the events of each
lane, and how many matches end at or before each end. A bin of the picture is then two binary
searches, so a zoom never looks at events one by one, and no match is listed to be counted.

Cost contract: the index is linear in the events and the ends. `view` is O(lanes · bins · log
events), plus the few events and matches that it shows one by one: the first match of each of a few
ends, which the compact set gives without listing others.

The rejected design was a pyramid of tiles: more memory than the events, and no exact counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.views.timeline import EventMark, LaneView, MatchMark, MatchView, Timeline

Indices = NDArray[np.int64]
"""Events, numbered from the first event of the timeline."""

MOST_BINS = 4096
_FEW_EVENTS = 400
_FEW_MATCHES = 24


class Lane(NamedTuple):
    """A row of the picture, and the indices of its events, ascending."""

    name: str
    indices: Indices


class FoundMatch(NamedTuple):
    """A match: the index of its end, and the indices that its variables hold."""

    end: int
    marks: tuple[tuple[str, tuple[int, ...]], ...]


FindMatches = Callable[[Indices], Sequence[FoundMatch]]
"""Gives the first match of each of these ends, which ascend."""


@dataclass(frozen=True, slots=True, eq=False)
class TimelineIndex:
    """Events in order of time, their lanes, and the ends of matches.

    >>> index = TimelineIndex(
    ...     times=np.array([0.0, 1.0, 1.0, 9.0]),
    ...     rows=np.arange(4),
    ...     unit="number",
    ...     lanes=(Lane("A", np.array([0, 2])), Lane("B", np.array([1, 3]))),
    ...     lane_of=np.array([0, 1, 0, 1]),
    ...     ends=np.array([1, 3]),
    ...     counts=cumulate([1, 2]),
    ... )
    >>> view = index.view(width=2)
    >>> view.lanes[0], view.ends
    (LaneView(name='A', total=2, bins=(2, 0)), (1, 2))
    """

    times: NDArray[np.float64]
    rows: Indices
    unit: str
    lanes: tuple[Lane, ...]
    lane_of: NDArray[np.int64] | None
    """The lane of each event, -1 for none; None where lanes are variables, and may share events."""
    ends: Indices
    """The indices at which matches end, ascending."""
    counts: Sequence[int]
    """How many matches end before each of them, and in all."""
    find_matches: FindMatches | None = None
    base: int = 0
    """The position of the first event."""

    @property
    def span(self) -> tuple[float, float]:
        """The times of the first and the last event."""
        return (float(self.times[0]), float(self.times[-1])) if len(self.times) else (0.0, 0.0)

    def view(
        self,
        start: float | None = None,
        stop: float | None = None,
        width: int = 600,
        *,
        events: int = _FEW_EVENTS,
        matches: int = _FEW_MATCHES,
    ) -> Timeline:
        """Return what the interval shows in `width` bins; by default all of the stream.

        At most so many `events` and `matches` are shown one by one.
        """
        first, last = self.span
        low, high = first if start is None else start, last if stop is None else stop
        if not low < high:
            low, high = (low - 0.5, low + 0.5) if low == high else (high, low)
        bins = max(1, min(int(width), MOST_BINS))
        edges = np.linspace(low, high, bins + 1)
        bounds = np.searchsorted(self.times, edges, side="left")
        bounds[-1] = np.searchsorted(self.times, high, side="right")
        return Timeline(
            float(low),
            float(high),
            self.unit,
            tuple(_view_lane(lane, bounds) for lane in self.lanes),
            self._list_events(int(bounds[0]), int(bounds[-1]), events),
            self._list_matches(int(bounds[0]), int(bounds[-1]), matches),
            self._count_ends(bounds),
        )

    def _count_ends(self, bounds: Indices) -> tuple[int, ...]:
        at = np.searchsorted(self.ends, bounds).tolist()
        return tuple(self.counts[j] - self.counts[i] for i, j in pairwise(at))

    def _list_events(self, low: int, high: int, most: int) -> tuple[EventMark, ...]:
        if self.lane_of is not None:
            if high - low > most:
                return ()
            lanes = self.lane_of[low:high].tolist()
            pairs = [(index, lane) for index, lane in enumerate(lanes, low) if lane >= 0]
        else:
            parts = [
                lane.indices[slice(*np.searchsorted(lane.indices, [low, high]))]
                for lane in self.lanes
            ]
            if sum(map(len, parts)) > most:
                return ()
            pairs = sorted((index, i) for i, part in enumerate(parts) for index in part.tolist())
        return tuple(
            EventMark(int(self.rows[p]), float(self.times[p]), lane, self.lanes[lane].name)
            for p, lane in pairs
        )

    def _list_matches(self, low: int, high: int, most: int) -> tuple[MatchView, ...]:
        """Return the first match of some ends, evenly spread over the interval.

        Where none ends in it, the first of the next ends that begin before it is over.
        """
        if self.find_matches is None or most <= 0:
            return ()
        first, last = np.searchsorted(self.ends, [low, high]).tolist()
        if first < last:
            numbers = np.unique(np.linspace(first, last - 1, min(most, last - first)).astype(int))
        else:
            numbers = np.arange(first, min(first + most, len(self.ends)))
        found = self.find_matches(self.ends[numbers]) if len(numbers) else ()
        lanes = {lane.name: i for i, lane in enumerate(self.lanes)}
        shown = []
        for one in found:
            marks = sorted(
                (index, variable) for variable, indices in one.marks for index in indices
            )
            if not marks or (first == last and marks[0][0] >= high):
                continue
            number = int(np.searchsorted(self.ends, one.end))
            drawn = tuple(self._mark(index, variable, lanes) for index, variable in marks)
            shown.append(MatchView(self.counts[number], drawn))
        return tuple(shown)

    def _mark(self, index: int, variable: str, lanes: dict[str, int]) -> MatchMark:
        lane = lanes.get(variable, -1) if self.lane_of is None else int(self.lane_of[index])
        row, at = int(self.rows[index]), float(self.times[index])
        return MatchMark(row, at, lane, variable, index + self.base)


def _view_lane(lane: Lane, bounds: Indices) -> LaneView:
    at = np.searchsorted(lane.indices, bounds)
    return LaneView(lane.name, int(at[-1] - at[0]), tuple(np.diff(at).tolist()))


def cumulate(counts: Sequence[int]) -> list[int]:
    """Return the sums of the counts before each of them, and of all; they may have any size."""
    sums = [0]
    for count in counts:
        sums.append(sums[-1] + count)
    return sums
