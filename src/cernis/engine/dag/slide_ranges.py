"""How many matches of up to three steps end at each root, where runs wait in search trees.

`cernis.engine.dag.slide` needs few groups, and a search tree has one for each value. But where a
match has at most three steps, `run_maps` keeps the numbers up to date while the window slides.
Places (`steps`) lie side by side, so that a question is an interval:

* a first step is a run that counts 1 until it leaves the window;
* a second step is a run that is ready as often as there are first steps in its interval. If one of
  them leaves the window, all second steps that have it are ready once less. Where these lie side by
  side, as they do if a step is asked by the value that it asks with (`?p2 < ?p1`, then
  `?p3 > ?p2`), that is one map of an interval;
* a third step is the sum over an interval of second steps.

Rounds that each run takes in one way are second steps, too (`count_once`): under `;` a run takes
every round that a value decides (`rounds`), so there is one match for each pair of a run and a
round that fits it, if no two rounds come at one moment.

A second step that is older than the first step that leaves has no runs left, and has left before:
first steps leave in the order of their times.

Cost contract: O(log places) for each vertex, and for each first step that leaves. `count_ranges`
gives up where a match has a fourth step, or where the second steps of a first step do not lie side
by side: at that cost per event, counting would multiply matrices faster than is known
(docs/explanation/spaseq.md). Numbers that become less have to be exact: 2^27 places have fewer than
2^53 pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import borrowing as kernel
from cernis.compiled import inner
from cernis.engine.dag import records as r
from cernis.engine.dag.links import NEXT_ROUNDS, DagSegment
from cernis.engine.dag.run_maps import (
    READY,
    WAYS,
    RunMaps,
    RunRanges,
    RunSums,
    TreeRuns,
    count_maps,
    find_moments,
    find_vertices,
)
from cernis.engine.dag.steps import (
    AskedRanges,
    Chosen,
    Ints,
    PlacedValues,
    Places,
    Steps,
    find_places,
    find_range,
    read_steps,
    spread,
)

DONE, TOO_LONG = range(2)
_LOOKS_PER_VERTEX = 16
"""The most indexes that a vertex may look at, on average."""
_MOST_PLACES = 1 << 27


class AskedIntervals(NamedTuple):
    """Per place, where the interval that its vertex asks may begin and end."""

    begin_least: Ints
    begin: Ints
    end: Ints
    end_most: Ints


class FirstSteps(NamedTuple):
    """The first steps inside the window."""

    active: NDArray[np.uint8]
    """Per place, whether it is filed and inside the window."""
    deep: NDArray[np.uint8]
    """Per index, whether it has had a second step."""
    number: Ints
    """A Fenwick tree: how many are active."""


@inner
def _add_at(tree, place, value):
    """Add to a place of a Fenwick tree."""
    at = place + 1
    while at < len(tree):
        tree[at] += value
        at += at & -at


@inner
def _sum_before(tree, end):
    """Return the sum of all places before an end."""
    total = np.int64(0)
    while end > 0:
        total += tree[end]
        end -= end & -end
    return total


@inner
def _find_first(tree, rank):
    """Return the place of the active one with this rank, or the number of places."""
    at, step = 0, 1
    while 2 * step < len(tree):
        step *= 2
    while step > 0:
        if at + step < len(tree) and tree[at + step] <= rank:
            at += step
            rank -= tree[at]
        step //= 2
    return at


@inner
def _find_interval(places, steps, v, stretch):
    """Return the places of a stretch that a vertex asks for."""
    begin, end = places.stretch_first[stretch], places.stretch_first[stretch + 1]
    return find_range(places.high, places.low, begin, end, steps, v)


@kernel
def _limit_intervals(steps, places, firsts, intervals):
    """Find where the intervals of second steps may begin and end; return a status.

    A range ends at a value that the tree had then. It may as well end anywhere before the next one
    inside the window.
    """
    filed = firsts.number
    gone = 0
    for m in range(len(steps.moment_first) - 1):
        while gone < len(places.by_start):
            place = places.by_start[gone]
            if steps.start[places.vertex[place]] >= steps.due[m]:
                break
            if firsts.active[place]:
                _add_at(filed, place, -1)
            gone += 1
        for v in range(steps.moment_first[m], steps.moment_first[m + 1]):
            asked = steps.asked[v]
            if asked < 0 or steps.place_first[v] == steps.place_first[v + 1]:
                continue
            if firsts.deep[asked]:
                return TOO_LONG
            begin, end, least, most = 0, 0, 0, 0
            stretch = places.index_first[asked]
            if stretch < places.index_first[asked + 1] and places.stretch_asked[stretch] < 0:
                begin, end = _find_interval(places, steps, v, stretch)
                least, most = begin, end
                if steps.operator[v] == r.GREATER_EQUAL:
                    before = _sum_before(filed, begin)
                    least = places.stretch_first[stretch]
                    if before > 0:
                        least = max(least, _find_first(filed, before - 1) + 1)
                if steps.operator[v] == r.LESS_EQUAL:
                    after = _find_first(filed, _sum_before(filed, end))
                    most = min(places.stretch_first[stretch + 1], after)
            for k in range(steps.place_first[v], steps.place_first[v + 1]):
                place = steps.places[k]
                intervals.begin_least[place] = least
                intervals.begin[place] = begin
                intervals.end[place] = end
                intervals.end_most[place] = most
        for v in range(steps.moment_first[m], steps.moment_first[m + 1]):
            for k in range(steps.place_first[v], steps.place_first[v + 1]):
                if steps.asked[v] < 0 and steps.start[v] >= steps.due[m]:
                    firsts.active[steps.places[k]] = 1
                    _add_at(filed, steps.places[k], 1)
                elif steps.asked[v] >= 0:
                    firsts.deep[places.home[steps.places[k]]] = 1
    return DONE


@kernel
def _fix_intervals(places, intervals):
    """Choose the intervals of each stretch so that they rise; return a status."""
    for stretch in range(len(places.stretch_asked)):
        if places.stretch_asked[stretch] < 0:
            continue
        begin, end = np.int64(0), np.int64(0)
        for place in range(places.stretch_first[stretch], places.stretch_first[stretch + 1]):
            begin = max(begin, intervals.begin_least[place])
            end = max(end, intervals.end[place])
            if begin > intervals.begin[place] or end > intervals.end_most[place]:
                return TOO_LONG
            intervals.begin[place] = begin
            intervals.end[place] = end
    return DONE


def count_ranges(steps: Steps, places: Places) -> list[int] | None:
    """Return the number of matches of every root; None: a match may have too many steps."""
    seconds, size = np.flatnonzero(steps.asked >= 0), len(places.vertex)
    asks, stretch = spread(places.index_first, steps.asked[seconds])
    left, later = spread(places.asking_first, places.home)
    looks = len(stretch) + len(later)
    if looks > _LOOKS_PER_VERTEX * (len(steps.start) + 1024) or size >= _MOST_PLACES:
        return None
    intervals = AskedIntervals(*(np.zeros(size, np.int64) for _ in range(4)))
    active, deep = np.zeros(size, np.uint8), np.zeros(len(places.index_first), np.uint8)
    firsts = FirstSteps(active, deep, np.zeros(size + 1, np.int64))
    if _limit_intervals(steps, places, firsts, intervals) != DONE:
        return None
    steps, places, intervals = _sort_ties(steps, places, intervals)
    if _fix_intervals(places, intervals) != DONE:
        return None
    # a moment is two here: first steps leave before anybody asks
    moment, due = 2 * find_moments(steps) + 1, np.repeat(steps.due, 2)
    vertex, asking = places.vertex, seconds[asks]
    is_first = steps.asked < 0
    values = PlacedValues(places.stretch_first, places.high, places.low)
    words = AskedRanges(steps.operator[asking], steps.high[asking], steps.low[asking])
    ranges = RunRanges(moment[asking], stretch, *find_places(values, stretch, words))
    number = np.where(places.stretch_asked[stretch] < 0, WAYS, READY)
    begun = TreeRuns(
        places.stretch_first,
        steps.start[vertex],
        moment[vertex],
        np.where(is_first[vertex], -1, vertex),
    )
    is_counted = is_first & (steps.start >= due[moment])
    until = 2 * np.searchsorted(steps.due, steps.start[vertex[left]], side="right")
    kept = is_counted[vertex[left]] & (until < len(due))
    taking = _find_taking(places, intervals, left[kept], places.asking[later[kept]], until[kept])
    taking = taking.pick(np.argsort(taking.moment))
    maps = RunMaps(taking, np.tile(np.array([1.0, -1.0, 1.0]), (len(taking.key), 1)))
    sums = RunSums(ranges, number, asking)
    numbers = np.array(count_maps(due, begun, sums, maps, len(steps.start)), np.int64)
    numbers[is_counted] = 1
    out = np.zeros(len(steps.bound), np.int64)
    root, ends = find_vertices(steps)
    out[root] = numbers[ends]
    counts: list[int] = out.tolist()
    return counts


def _find_taking(
    places: Places, intervals: AskedIntervals, first: Ints, stretch: Ints, moment: Ints
) -> RunRanges:
    """Return the places of a stretch whose intervals have a first step, for each of some."""
    size = len(places.vertex) + 1
    base = np.repeat(np.arange(len(places.stretch_asked)), np.diff(places.stretch_first)) * size
    names = stretch * size + first
    begin, end = (
        np.searchsorted(base + ends, names, side="right")
        for ends in (intervals.end, intervals.begin)
    )
    return RunRanges(moment, stretch, begin, end)


def takes_all(segment: DagSegment, chosen: Chosen) -> bool:
    """Return whether runs take all rounds that fit them."""
    assert segment.links.rounds is not None
    used = segment.memory.sources["link"][chosen.rounds[chosen.rounds >= 0]]
    return bool((np.abs(segment.links.rounds[used]) == NEXT_ROUNDS).all())


def count_once(segments: Sequence[DagSegment], chosen: Chosen) -> list[int] | None:
    """Return the number of matches of every root; None: a run may take rounds in several ways.

    The segments share their records: those of the last include those of the others.
    """
    rounds = np.flatnonzero(chosen.rounds >= 0)
    if not takes_all(segments[-1], chosen) or (chosen.operator[rounds] == r.EQUAL).any():
        return None
    read = read_steps(segments[-1].memory, chosen)
    moment = np.searchsorted(chosen.moment_first, rounds, side="right")
    if len(np.unique(moment << 32 | read[0].asked[rounds])) != len(rounds):
        return None
    return count_ranges(*read)


def _sort_ties(
    steps: Steps, places: Places, intervals: AskedIntervals
) -> tuple[Steps, Places, AskedIntervals]:
    """Sort places with equal words by the intervals that their vertices ask."""
    size = len(places.vertex)
    stretch = np.repeat(np.arange(len(places.stretch_asked)), np.diff(places.stretch_first))
    ends = intervals.begin + intervals.end
    order = np.lexsort((ends, places.low, places.high, stretch))
    back = np.empty(size, np.int64)
    back[order] = np.arange(size)
    return (
        steps._replace(places=back[steps.places]),
        places._replace(
            high=places.high[order],
            low=places.low[order],
            vertex=places.vertex[order],
            by_start=back[places.by_start],
        ),
        AskedIntervals(*(column[order] for column in intervals)),
    )
