"""How many matches end at each root, where a run that has just begun takes its rounds in one way.

Under `;` a run takes every round that a value decides (`rounds`), and so there is one match for
each pair of a run and a round that fits it, if no two rounds come at one moment. So a round counts
the runs that it takes, which are an interval in the order of their values. When a run leaves the
window, all rounds that took it count one less: these are an interval, too, in the order of the last
values that rounds took. A round that is older than this run has left before: runs leave in the
order of their times.

Two Fenwick trees do both: one adds up the runs of an interval, the other tells for each round how
many of its runs have left.

Cost contract: O(log n) for each vertex, for each run that leaves, and for each round that leads to
a root. `count_once` gives up where runs have had another step before, where they take rounds in
several ways, and where roots are further than a step from the rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import borrowing as kernel
from cernis.compiled.tiers import call_patiently, cut_events
from cernis.engine.dag import records as r
from cernis.engine.dag.count_pairs import GIVES_UP, NO_ROOM, list_rounds_below
from cernis.engine.dag.links import NEXT_ROUNDS, DagSegment
from cernis.engine.dag.run_places import AskedRanges, RunPlaces, find_places, place_values
from cernis.engine.dag.slide_ranges import add_at, sum_before
from cernis.engine.dag.steps import Chosen, Ints

_OTHER, _RUN, _ROUND = range(3)


class _OnceSteps(NamedTuple):
    """What each vertex is. Runs and rounds have places in the order of their keys and values."""

    moment_first: Ints
    start: Ints
    due: Ints
    does: Ints
    place: Ints
    begin: Ints
    end: Ints
    """Per round, the places of the runs that it takes; per run, of the rounds that take it."""
    leaving: Ints
    """The runs, in the order of their starts."""
    root_first: Ints
    number: Ints
    """Per vertex of the memory, its number here."""


class _Counted(NamedTuple):
    """The runs inside the window, and what rounds have lost."""

    runs: Ints
    """A Fenwick tree: 1 for each run inside the window."""
    lost: Ints
    """A Fenwick tree: what changes from one round to the next."""
    taken: Ints
    """Per vertex that is a round: its runs, and those that all rounds at its place had lost."""


@kernel
def _count_moments(segment, roots, steps, counted, items, span, out):
    """Count the matches of the roots of some moments; return how many runs have left.

    `span` has the first moment, the one after the last, and how many runs have left before. A
    number below 0: there is no room in `items`, or it is not possible.
    """
    begin, end, gone = span
    for m in range(begin, end):
        while gone < len(steps.leaving) and steps.start[steps.leaving[gone]] < steps.due[m]:
            run = steps.leaving[gone]
            gone += 1
            if counted.taken[run]:
                add_at(counted.runs, steps.place[run], -1)
                add_at(counted.lost, steps.begin[run], 1)
                add_at(counted.lost, steps.end[run], -1)
        for v in range(steps.moment_first[m], steps.moment_first[m + 1]):
            number = 0
            if steps.does[v] == _ROUND:
                number = sum_before(counted.runs, steps.end[v])
                number -= sum_before(counted.runs, steps.begin[v])
                counted.taken[v] = number + sum_before(counted.lost, steps.place[v] + 1)
            for i in range(steps.root_first[v], steps.root_first[v + 1]):
                out[i] = number
                if steps.does[v] == _ROUND:
                    continue
                vertex, bound = roots[i]["vertex"], roots[i]["bound"]
                found = list_rounds_below(segment.links, segment.memory, vertex, bound, items)
                if found < 0:
                    return found
                for k in range(found):
                    b = steps.number[items[k]]
                    if b < 0 or steps.does[b] != _ROUND:
                        return GIVES_UP
                    out[i] += counted.taken[b] - sum_before(counted.lost, steps.place[b] + 1)
        for v in range(steps.moment_first[m], steps.moment_first[m + 1]):
            if steps.does[v] == _RUN and steps.start[v] >= steps.due[m]:
                counted.taken[v] = 1
                add_at(counted.runs, steps.place[v], 1)
    return gone


def takes_all(segment: DagSegment, chosen: Chosen) -> bool:
    """Return whether runs take all rounds that fit them."""
    assert segment.links.rounds is not None
    used = segment.memory.sources["link"][chosen.rounds[chosen.rounds >= 0]]
    return bool((np.abs(segment.links.rounds[used]) == NEXT_ROUNDS).all())


def _read_once(segment: DagSegment, chosen: Chosen, runs: RunPlaces) -> _OnceSteps | None:
    """Return what the vertices are; None: runs may take rounds in several ways."""
    memory, vertices = segment.memory, chosen.vertices
    size, rounds = len(vertices), np.flatnonzero(chosen.rounds >= 0)
    sources = memory.sources[chosen.rounds[rounds]]
    operator = chosen.operator[rounds]
    if not takes_all(segment, chosen) or len(np.unique(operator)) != 1:
        return None
    if (vertices["count"][runs.vertex] > 0).any():
        return None
    moment = np.searchsorted(chosen.moment_first, rounds, side="right")
    key, is_below = runs.key[rounds], operator[0] == r.LESS_EQUAL
    if operator[0] == r.EQUAL or len(np.unique(moment << 32 | key)) != len(rounds):
        return None
    words = memory.asked[sources["asked"]]
    ranges = AskedRanges(operator, words[:, 0].copy(), words[:, 1].copy())
    place, begin, end = np.full((3, size), -1, np.int64)
    place[runs.vertex] = np.arange(len(runs.vertex))
    begin[rounds], end[rounds] = find_places(runs.values, key, ranges)
    keys = len(runs.values.key_first) - 1
    order, limits = place_values(key, ranges.high, ranges.low, keys)
    place[rounds[order]] = np.arange(len(rounds))
    mirrored = r.GREATER_EQUAL if is_below else r.LESS_EQUAL
    of_runs = AskedRanges(np.full(len(runs.vertex), mirrored), runs.values.high, runs.values.low)
    begin[runs.vertex], end[runs.vertex] = find_places(limits, runs.key[runs.vertex], of_runs)
    does = np.full(size, _OTHER, np.int64)
    does[runs.vertex], does[rounds] = _RUN, _ROUND
    return _OnceSteps(
        chosen.moment_first,
        chosen.start,
        chosen.due,
        does,
        place,
        begin,
        end,
        runs.sort_by_start(chosen),
        chosen.root_first,
        chosen.number,
    )


def count_once(segments: Sequence[DagSegment], chosen: Chosen, runs: RunPlaces) -> list[int] | None:
    """Return the number of matches of every root; None: not all are a run with its rounds.

    The segments share their records: those of the last include those of the others.
    """
    steps = _read_once(segments[-1], chosen, runs)
    if steps is None:
        return None
    roots = np.concatenate([segment.roots for segment in segments])
    out, items = np.zeros(len(roots), np.int64), np.empty(1024, np.int64)
    while (status := _count_into(segments[-1], roots, steps, items, out)) == NO_ROOM:
        items = np.empty(4 * len(items), np.int64)
    if status == GIVES_UP:
        return None
    counts: list[int] = out.tolist()
    return counts


def _count_into(
    segment: DagSegment, roots: NDArray[np.void], steps: _OnceSteps, items: Ints, out: Ints
) -> int:
    """Write the numbers of matches; return a number below 0 if that is not possible."""
    size, gone = len(steps.does) + 2, 0
    counted = _Counted(*(np.zeros(size, np.int64) for _ in range(3)))
    for piece in cut_events(len(steps.moment_first) - 1):
        span = piece.start, piece.stop, gone
        gone = call_patiently(_count_moments, segment, roots, steps, counted, items, span, out)
        if gone < 0:
            break
    return int(gone)
