"""How many matches end at each root of a sliding window, where rounds are looked up.

`rounds` finds the rounds of a run when they are asked for. For counting they are written down after
all: each run that waits for rounds has a group of its own, and each round that it takes is a step
from its group to the next one. Where a row ends the rounds, a run has another group in which it is
ready for it. Then `slide` counts.

Cost contract: that of `slide`, with a vertex for each pair of a run and a round that fits it. Where
runs have just begun, `count_once`, `count_pairs`, `count_decided` and `count_ended` count in less
time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import borrowing as kernel
from cernis.compiled import inner
from cernis.compiled.tiers import call_patiently, cut_events, expect_events
from cernis.engine.dag import records as r
from cernis.engine.dag.count import list_range, list_runs
from cernis.engine.dag.links import ANY_ROUNDS, ONE_ROUND, DagSegment
from cernis.engine.dag.rounds import FIRST_WORD
from cernis.engine.dag.run_places import AskedRanges, find_lost, place_runs
from cernis.engine.dag.slide import (
    MomentLog,
    count_log,
    find_last_asked,
    number_values,
)
from cernis.engine.dag.steps import Chosen, Ints, Steps, read_steps

NO_ROOM = -1


class _RoundLog(NamedTuple):
    """The vertices of the log, and where it stands."""

    counters: Ints
    """Places: VERTICES and the next ones."""
    log: MomentLog
    root: Ints
    """The root of the run DAG that each root of the log is a part of."""
    current: Ints
    """Per run and place, WAITS or READY: the group in which it waits."""
    following: Ints
    """The same after the moment; -1: the group stays."""
    taken: Ints
    """Scratch: the runs and places that the moment takes."""
    items: Ints


class _LostRuns(NamedTuple):
    """Rows that have ended rounds and are no vertices any more."""

    first: Ints
    """Per moment, those that follow it,"""
    round: Ints
    """the vertex of a round there, and the values of the runs that they took."""
    ranges: AskedRanges


VERTICES, FILED, ROOTS, GROUPS, TAKEN = range(5)
WAITS, READY = range(2)
"""Whether a run waits for a round, or for the row that ends them."""


@kernel
def _count_pairs(segment, steps, rounds, items, begin, end):
    """Count the runs that the rounds of some moments take, and their places and roots for these."""
    pairs, filed, roots = 0, 0, 0
    for m in range(begin, end):
        for v in range(steps.moment_first[m], steps.moment_first[m + 1]):
            found = 1
            if rounds[v] >= 0:
                links, memory = segment.links, segment.memory
                found = list_runs(links, memory, rounds[v], steps.due[m], items)
                if found < 0:
                    return NO_ROOM, 0, 0
            pairs += found
            filed += found * (2 + steps.place_first[v + 1] - steps.place_first[v])
            roots += found * (steps.root_first[v + 1] - steps.root_first[v])
    return pairs, filed, roots


@kernel
def _write_pairs(segment, chosen, steps, groups, is_kept, lost, pairs):
    """Write the log: a vertex for each vertex, or for each run that it takes to a round."""
    counters = pairs.counters
    for m in range(len(steps.moment_first) - 1):
        pairs.log.moment_first[m] = counters[VERTICES]
        _end_rounds(segment, chosen, steps, pairs, m)
        for v in range(steps.moment_first[m], steps.moment_first[m + 1]):
            if chosen.rounds[v] < 0:
                _write_vertex(steps, groups, is_kept, pairs, v)
            else:
                _write_rounds(segment, chosen, steps, groups, is_kept, pairs, m, v)
        for k in range(lost.first[m], lost.first[m + 1]):
            _lose(segment, chosen, steps.due[m], lost, k, pairs)
        for k in range(counters[TAKEN]):
            run, place = pairs.taken[k] // 2, pairs.taken[k] % 2
            pairs.current[run, place] = pairs.following[run, place]
            pairs.following[run, place] = -1
        counters[TAKEN] = 0
    pairs.log.moment_first[len(steps.moment_first) - 1] = counters[VERTICES]


@inner
def _write_vertex(steps, groups, is_kept, pairs, v):
    """Write a vertex without rounds; it may wait for some."""
    n = pairs.counters[VERTICES]
    pairs.log.start[n] = steps.start[v]
    pairs.log.asked[n] = groups.asked[v]
    pairs.log.asked_end[n] = groups.asked_end[v]
    if pairs.current[v, WAITS] >= 0:
        _file(pairs, pairs.current[v, WAITS])
    _finish(steps, groups, is_kept, pairs, v)


@inner
def _write_rounds(segment, chosen, steps, groups, is_kept, pairs, m, v):
    """Write a vertex for each run that a vertex takes."""
    links, memory, source = segment.links, segment.memory, chosen.rounds[v]
    link = memory.sources[source]["link"]
    kind, way = links.kind[links.store[link]], abs(links.rounds[link])
    is_any = way == ANY_ROUNDS
    for k in range(list_runs(links, memory, source, steps.due[m], pairs.items)):
        branch = memory.branches[pairs.items[k]]
        run, n = chosen.number[branch["vertex"]], pairs.counters[VERTICES]
        place = READY if kind >= r.ENDED else WAITS
        pairs.log.start[n] = branch["start"]
        pairs.log.asked[n] = pairs.current[run, place]
        pairs.log.asked_end[n] = pairs.current[run, place] + 1 + (is_any and place == WAITS)
        if place == WAITS:
            _file_round(pairs, run, way, steps, v)
        _finish(steps, groups, is_kept, pairs, v)


@inner
def _end_rounds(segment, chosen, steps, pairs, m):
    """Let the runs whose rounds a moment ends be ready in a new group: for its own rounds, too."""
    links, memory = segment.links, segment.memory
    for v in range(steps.moment_first[m], steps.moment_first[m + 1]):
        source = chosen.rounds[v]
        if source < 0 or links.kind[links.store[memory.sources[source]["link"]]] != r.ENDED_ONCE:
            continue
        for k in range(list_runs(links, memory, source, steps.due[m], pairs.items)):
            vertex = memory.branches[pairs.items[k]]["vertex"]
            _leave(pairs, chosen.number[vertex], READY)


@inner
def _lose(segment, chosen, bound, lost, k, pairs):
    """Let the runs be ready in a new group that a row after the moment has taken."""
    memory, operator = segment.memory, lost.ranges.operator[k]
    root = memory.sources[chosen.rounds[lost.round[k]]]["at"]
    words = (lost.ranges.high[k], lost.ranges.low[k])
    for i in range(list_range(memory.branches, operator, root, words, bound, pairs.items)):
        _leave(pairs, chosen.number[memory.branches[pairs.items[i]]["vertex"]], READY)


@inner
def _file_round(pairs, run, way, steps, v):
    """File a run where it waits after a round."""
    may_go_on, ready = steps.operator[v] != r.EQUAL, pairs.current[run, READY]
    if ready >= 0:
        renewed = pairs.following[run, READY]
        _file(pairs, ready if renewed < 0 else renewed)
        may_go_on = way != ONE_ROUND and steps.low[v] == FIRST_WORD
    if may_go_on and way == ANY_ROUNDS:
        _file(pairs, pairs.current[run, WAITS] + 1)
    elif may_go_on:
        _leave(pairs, run, WAITS)
        _file(pairs, pairs.following[run, WAITS])


@inner
def _leave(pairs, run, place):
    """Let a run wait in a new group after the moment."""
    counters = pairs.counters
    if pairs.following[run, place] < 0:
        pairs.following[run, place] = counters[GROUPS]
        counters[GROUPS] += 1
        pairs.taken[counters[TAKEN]] = 2 * run + place
        counters[TAKEN] += 1


@inner
def _file(pairs, group):
    pairs.log.filed[pairs.counters[FILED]] = group
    pairs.counters[FILED] += 1


@inner
def _finish(steps, groups, is_kept, pairs, v):
    """Write the places and the roots of a vertex, and end it."""
    counters = pairs.counters
    for k in range(steps.place_first[v], steps.place_first[v + 1]):
        if is_kept[steps.places[k]]:
            _file(pairs, groups.filed[steps.places[k]])
    for i in range(steps.root_first[v], steps.root_first[v + 1]):
        pairs.root[counters[ROOTS]] = i
        counters[ROOTS] += 1
    n = counters[VERTICES]
    counters[VERTICES] = n + 1
    pairs.log.filed_first[n + 1] = counters[FILED]
    pairs.log.root_first[n + 1] = counters[ROOTS]


def count_rounds(segments: Sequence[DagSegment], chosen: Chosen) -> list[int] | None:
    """Return the number of matches of every root; None: groups are too many, or not known.

    The segments share their records: those of the last include those of the others.
    """
    read = read_steps(segments[-1].memory, chosen)
    if read is None:
        return None
    (steps, places), segment = read, segments[-1]
    size, filed, roots, items = 0, 0, 0, np.empty(1024, np.int64)
    for piece in cut_events(len(steps.moment_first) - 1):
        span = piece.start, piece.stop
        while True:
            found = call_patiently(_count_pairs, segment, steps, chosen.rounds, items, *span)
            if found[0] != NO_ROOM:
                break
            items = np.empty(4 * len(items), np.int64)
        size, filed, roots = size + found[0], filed + found[1], roots + found[2]
    expect_events(size)
    groups = number_values(steps, places)
    waits = np.isin(places.home, steps.asked[chosen.rounds >= 0])
    current = np.full((len(steps.start), 2), -1, np.int64)
    runs = np.unique(places.vertex[waits])
    current[runs, WAITS] = groups.number + 3 * np.arange(len(runs))
    ready = places.vertex[np.isin(places.home, steps.asked[chosen.ended])]
    current[ready, READY] = current[ready, WAITS] + 2
    pairs = _new_pairs(steps, (size, filed, roots), current, items)
    pairs.counters[GROUPS] = groups.number + 3 * len(runs)
    lost = _read_lost(segment, chosen)
    _write_pairs(segment, chosen, steps, groups, ~waits, lost, pairs)
    number, log = int(pairs.counters[GROUPS]), pairs.log
    log = log._replace(
        last_asked=find_last_asked(log.moment_first, log.asked, log.asked_end, number),
        bound=steps.bound[pairs.root],
    )
    counts = count_log(log)
    if counts is None:
        return None
    whole = [0] * len(steps.bound)
    for root, count in zip(pairs.root.tolist(), counts, strict=True):
        whole[root] += count
    return whole


def _read_lost(segment: DagSegment, chosen: Chosen) -> _LostRuns:
    """Return the rows that have ended rounds and are no vertices any more, moment by moment."""
    lost = find_lost(segment, chosen, place_runs(segment.memory, chosen).key)
    order, first = lost.sort_by_moment(chosen)
    ranges = AskedRanges(*(column[order] for column in lost.ranges))
    return _LostRuns(first, lost.round[order], ranges)


def _new_pairs(
    steps: Steps, sizes: tuple[int, int, int], current: NDArray[np.int64], items: Ints
) -> _RoundLog:
    """Make room for so many vertices, places and roots."""
    size, filed, roots = sizes
    nothing = np.empty(0, np.int64)
    log = MomentLog(
        moment_first=np.zeros(len(steps.moment_first), np.int64),
        start=np.zeros(size, np.int64),
        asked=np.zeros(size, np.int64),
        asked_end=np.zeros(size, np.int64),
        filed_first=np.zeros(size + 1, np.int64),
        filed=np.zeros(filed, np.int64),
        last_asked=nothing,
        root_first=np.zeros(size + 1, np.int64),
        bound=nothing,
    )
    return _RoundLog(
        counters=np.zeros(5, np.int64),
        log=log,
        root=np.zeros(roots, np.int64),
        current=current,
        following=np.full_like(current, -1),
        taken=np.empty(current.size, np.int64),
        items=items,
    )
