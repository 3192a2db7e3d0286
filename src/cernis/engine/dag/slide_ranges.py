"""How many matches of up to three steps end at each root, where runs wait in search trees.

`cernis.engine.dag.slide` needs few groups, and a search tree has one for each value. But where a
match has at most three steps, the numbers can be kept up to date while the window slides. Places
(`steps`) lie side by side, so that a question is an interval:

* a first step counts 1 until it leaves the window. A Fenwick tree adds up the first steps of an
  interval;
* a second step counts the first steps in its interval. If one of them leaves the window, all second
  steps that have it count one less. Where these lie side by side, as they do if a step is asked by
  the value that it asks with (`?p2 < ?p1`, then `?p3 > ?p2`), that is one addition to an interval
  of a segment tree;
* a third step is the sum over an interval of second steps.

Rounds that each run takes in one way are second steps, too (`count_once`): under `;` a run takes
every round that a value decides (`rounds`), so there is one match for each pair of a run and a
round that fits it, if no two rounds come at one moment.

A second step that is older than the first step that leaves has no runs left, and has left before:
first steps leave in the order of their times.

Cost contract: O(log places) for each vertex, and for each first step that leaves. `count_ranges`
gives up where a match has a fourth step, or where the second steps of a first step do not lie side
by side: at that cost per event, counting would multiply matrices faster than is known
(docs/explanation/spaseq.md). Numbers are integers: 2^31 places have fewer than 2^62 pairs.
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
from cernis.engine.dag.steps import Chosen, Ints, Places, Steps, find_range, read_steps

DONE, TOO_LONG = range(2)
_LOOKS_PER_VERTEX = 16
"""The most indexes that a vertex may look at, on average."""


class AskedIntervals(NamedTuple):
    """Per place, where the interval that its vertex asks may begin and end."""

    begin_least: Ints
    begin: Ints
    end: Ints
    end_most: Ints


class Running(NamedTuple):
    """The numbers of runs inside the window."""

    active: NDArray[np.uint8]
    """Per place, whether it is filed and inside the window."""
    deep: NDArray[np.uint8]
    """Per index, whether it has had a second step."""
    firsts: Ints
    """A Fenwick tree: how many first steps are active."""
    number: Ints
    """The segment tree of second steps: how many are active below a node,"""
    total: Ints
    """the sum of their runs, without what was added above the node,"""
    added: Ints
    """and what was added to each of them."""


# --------------------------------------------------------------------- trees of sums


@inner
def add_at(tree, place, value):
    """Add to a place of a Fenwick tree."""
    at = place + 1
    while at < len(tree):
        tree[at] += value
        at += at & -at


@inner
def sum_before(tree, end):
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
def _renew(running, node):
    """Work out the sums above a node."""
    number, total, added = running.number, running.total, running.added
    node //= 2
    while node > 0:
        number[node] = number[2 * node] + number[2 * node + 1]
        total[node] = total[2 * node] + total[2 * node + 1] + added[node] * number[node]
        node //= 2


@inner
def _set_second(running, place, is_active, value):
    """Put a second step with a number of runs at its place, or take it from there."""
    node = place + len(running.number) // 2
    above = node // 2
    while above > 0:
        value -= running.added[above]
        above //= 2
    running.number[node] = is_active
    running.total[node] = value if is_active else 0
    _renew(running, node)


@inner
def _add_seconds(running, begin, end, value):
    """Add to all active second steps of an interval."""
    if begin >= end:
        return
    number, total, added = running.number, running.total, running.added
    size = len(number) // 2
    left, right = begin + size, end + size
    while left < right:
        if left & 1:
            total[left] += value * number[left]
            added[left] += value
            left += 1
        if right & 1:
            right -= 1
            total[right] += value * number[right]
            added[right] += value
        left //= 2
        right //= 2
    _renew(running, begin + size)
    _renew(running, end - 1 + size)


@inner
def _sum_seconds(running, begin, end):
    """Return the runs of all active second steps of an interval."""
    if begin >= end:
        return np.int64(0)
    number, total, added = running.number, running.total, running.added
    size = len(number) // 2
    left, right = begin + size, end + size
    found, on_left, on_right = np.int64(0), np.int64(0), np.int64(0)
    left_above, right_above = left // 2, (right - 1) // 2
    while left < right:
        if left & 1:
            found += total[left]
            on_left += number[left]
            left += 1
        if right & 1:
            right -= 1
            found += total[right]
            on_right += number[right]
        left //= 2
        right //= 2
        found += on_left * added[left_above] + on_right * added[right_above]
        left_above //= 2
        right_above //= 2
    while left_above > 0:
        found += on_left * added[left_above] + on_right * added[right_above]
        left_above //= 2
        right_above //= 2
    return found


# ------------------------------------------------------------------------- intervals


@inner
def _search_number(numbers, begin, end, number):
    """Return the first place of an interval whose number is larger."""
    while begin < end:
        middle = (begin + end) // 2
        if numbers[middle] <= number:
            begin = middle + 1
        else:
            end = middle
    return begin


@inner
def _find_interval(places, steps, v, stretch):
    """Return the places of a stretch that a vertex asks for."""
    begin, end = places.stretch_first[stretch], places.stretch_first[stretch + 1]
    return find_range(places.high, places.low, begin, end, steps, v)


@kernel
def _limit_intervals(steps, places, running, intervals):
    """Find where the intervals of second steps may begin and end; return a status.

    A range ends at a value that the tree had then. It may as well end anywhere before the next one
    inside the window.
    """
    filed = running.firsts
    gone = 0
    for m in range(len(steps.moment_first) - 1):
        while gone < len(places.by_start):
            place = places.by_start[gone]
            if steps.start[places.vertex[place]] >= steps.due[m]:
                break
            if running.active[place]:
                add_at(filed, place, -1)
            gone += 1
        for v in range(steps.moment_first[m], steps.moment_first[m + 1]):
            asked = steps.asked[v]
            if asked < 0 or steps.place_first[v] == steps.place_first[v + 1]:
                continue
            if running.deep[asked]:
                return TOO_LONG
            begin, end, least, most = 0, 0, 0, 0
            stretch = places.index_first[asked]
            if stretch < places.index_first[asked + 1] and places.stretch_asked[stretch] < 0:
                begin, end = _find_interval(places, steps, v, stretch)
                least, most = begin, end
                if steps.operator[v] == r.GREATER_EQUAL:
                    before = sum_before(filed, begin)
                    least = places.stretch_first[stretch]
                    if before > 0:
                        least = max(least, _find_first(filed, before - 1) + 1)
                if steps.operator[v] == r.LESS_EQUAL:
                    after = _find_first(filed, sum_before(filed, end))
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
                    running.active[steps.places[k]] = 1
                    add_at(filed, steps.places[k], 1)
                elif steps.asked[v] >= 0:
                    running.deep[places.home[steps.places[k]]] = 1
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


# -------------------------------------------------------------------------- counting


@inner
def _leave(steps, places, intervals, running, at, bound):
    """Let the places leave that start before a bound; return how many have left so far."""
    until, by_start = at, places.by_start
    while until < len(by_start) and steps.start[places.vertex[by_start[until]]] < bound:
        until += 1
    for k in range(at, until):
        place = by_start[k]
        if running.active[place] and steps.asked[places.vertex[place]] >= 0:
            _set_second(running, place, False, 0)
            running.active[place] = 0
    for k in range(at, until):
        place = by_start[k]
        if not running.active[place]:
            continue
        add_at(running.firsts, place, -1)
        running.active[place] = 0
        index = places.home[place]
        for s in range(places.asking_first[index], places.asking_first[index + 1]):
            stretch = places.asking[s]
            first, last = places.stretch_first[stretch], places.stretch_first[stretch + 1]
            begin = _search_number(intervals.end, first, last, place)
            end = _search_number(intervals.begin, first, last, place)
            _add_seconds(running, begin, end, -1)
    return until


@inner
def _count_vertex(steps, places, running, v, bound):
    """Return the number of runs of a vertex."""
    asked = steps.asked[v]
    if asked < 0:
        return np.int64(steps.start[v] >= bound)
    total = np.int64(0)
    for stretch in range(places.index_first[asked], places.index_first[asked + 1]):
        begin, end = _find_interval(places, steps, v, stretch)
        if places.stretch_asked[stretch] >= 0:
            total += _sum_seconds(running, begin, end)
        elif begin < end:
            total += sum_before(running.firsts, end) - sum_before(running.firsts, begin)
    return total


@kernel
def _count_steps(steps, places, intervals, running, numbers, out):
    """Count the matches of all roots, and those of each vertex when it is read."""
    gone = 0
    for m in range(len(steps.moment_first) - 1):
        first, last = steps.moment_first[m], steps.moment_first[m + 1]
        bound = steps.due[m]
        gone = _leave(steps, places, intervals, running, gone, bound)
        for v in range(first, last):
            numbers[v] = _count_vertex(steps, places, running, v, bound)
            for i in range(steps.root_first[v], steps.root_first[v + 1]):
                out[i] = numbers[v]
        for v in range(first, last):
            if steps.start[v] < bound:
                continue
            for k in range(steps.place_first[v], steps.place_first[v + 1]):
                place = steps.places[k]
                running.active[place] = 1
                if steps.asked[v] < 0:
                    add_at(running.firsts, place, 1)
                else:
                    _set_second(running, place, True, numbers[v])


def count_ranges(steps: Steps, places: Places) -> list[int] | None:
    """Return the number of matches of every root; None: a match may have too many steps."""
    looks = np.diff(places.index_first)[steps.asked[steps.asked >= 0]].sum()
    looks += np.diff(places.asking_first)[places.home].sum()
    if looks > _LOOKS_PER_VERTEX * (len(steps.start) + 1024):
        return None
    size = len(places.vertex)
    intervals = AskedIntervals(*(np.zeros(size, np.int64) for _ in range(4)))
    if _limit_intervals(steps, places, _new_running(places), intervals) != DONE:
        return None
    steps, places, intervals = _sort_ties(steps, places, intervals)
    if _fix_intervals(places, intervals) != DONE:
        return None
    out, numbers = np.zeros(len(steps.bound), np.int64), np.zeros(len(steps.start), np.int64)
    _count_steps(steps, places, intervals, _new_running(places), numbers, out)
    counts: list[int] = out.tolist()
    return counts


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


def _new_running(places: Places) -> Running:
    size = len(places.vertex)
    nodes = 2 << max(size - 1, 0).bit_length()
    return Running(
        np.zeros(size, np.uint8),
        np.zeros(len(places.index_first), np.uint8),
        np.zeros(size + 1, np.int64),
        *(np.zeros(nodes, np.int64) for _ in range(3)),
    )


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
