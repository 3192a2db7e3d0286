"""How many matches end at each root, where a row ends rounds that ask nothing of runs.

In `A ; B+; ; C`, where C compares a value of A and B does not (`rounds`), a run that has just begun
has two numbers: in how many ways it has taken the rounds so far, and how many of these wait for C.
A moment with rounds is a linear map of both, the same for all runs of a join key. A row that ends
rounds is a sum of the second numbers over a range of values, and under `;` makes these 0. A run
begins with (1, 0) and leaves the window with (0, 0).

So runs lie side by side in the order of their join key and value, below a segment tree. A node has
the sums of both numbers, and a map that its children have not had yet (lazy propagation).

Cost contract: O(log runs) for each vertex and for each run that leaves the window, whatever the
number of matches. `count_ended` gives up where runs have had another step before, or a step follows
the end of the rounds. Numbers are floats, exact below 2^53; larger ones are counted again modulo
primes (`residues`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import borrowing as kernel
from cernis.compiled import inner
from cernis.compiled.tiers import call_patiently, cut_events
from cernis.engine.dag import records as r
from cernis.engine.dag.links import ANY_ROUNDS, ONE_ROUND, DagSegment
from cernis.engine.dag.residues import add, count_exactly, reduce
from cernis.engine.dag.rounds import FIRST_WORD
from cernis.engine.dag.run_places import AskedRanges, find_lost, find_places, place_runs
from cernis.engine.dag.steps import ALL, Chosen, Ints

_RUN, _ROUND, _END, _TAKE = range(4)
"""What a vertex does. It begins a run, or it is a round, or it ends rounds. Where it ends rounds,
runs stay (_END), or it takes them away (_TAKE)."""
_NONE_READY = (1.0, 0.0, 0.0)
"""The map of runs that are taken away."""


class _EndedSteps(NamedTuple):
    """What each vertex does, and to which runs. Runs have places in the order of their values."""

    moment_first: Ints
    does: Ints
    begin: Ints
    end: Ints
    """Per vertex, the places of the runs that it takes; of a run, its own place."""
    key: Ints
    """Per vertex, the join key: a number for all runs that are asked as one."""
    is_inner: NDArray[np.uint8]
    """Per round, whether it can come before the last."""
    root_first: Ints
    due: Ints
    """Per moment, the bound of the next root."""
    leaving: Ints
    """The runs, in the order of their starts."""
    start: Ints
    lost_first: Ints
    lost_begin: Ints
    lost_end: Ints
    """Per moment, the runs that rows after it have taken which are no vertices any more."""


class _Waiting(NamedTuple):
    """The segment tree of runs. A node has two children, from 2 · node on; the root is node 1."""

    number: Ints
    """How many runs below a node are inside the window,"""
    ways: NDArray[np.float64]
    """in how many ways they have taken rounds,"""
    ready: NDArray[np.float64]
    """and how many of these wait for the row that ends them."""
    maps: NDArray[np.float64]
    """What the children are still to be told: (a, b, c) makes (w, r) to (a · w, b · w + c · r)."""


class _ByKey(NamedTuple):
    """Per join key: the rounds of a moment, and how many bits the ways of a run may have."""

    rounds: Ints
    inner_rounds: Ints
    bits: NDArray[np.float64]
    """The bits of a run since the first moment,"""
    first_bits: NDArray[np.float64]
    """and what the oldest run inside the window had before it."""
    bits_before: NDArray[np.float64]
    """Per run, what its key had before it."""
    touched: Ints


@inner
def _tell(tree, node, told, prime):
    """Tell a node a map."""
    if tree.number[node] == 0:
        return
    ways, ready, maps = tree.ways[node], tree.ready[node], tree.maps[node]
    tree.ready[node] = reduce(reduce(told[1] * ways, prime) + told[2] * ready, prime)
    tree.ways[node] = reduce(told[0] * ways, prime)
    maps[1] = reduce(reduce(told[1] * maps[0], prime) + told[2] * maps[1], prime)
    maps[0] = reduce(told[0] * maps[0], prime)
    maps[2] *= told[2]


@inner
def _tell_children(tree, node, prime):
    """Tell the children of a node what they have not been told."""
    maps = tree.maps[node]
    told = (maps[0], maps[1], maps[2])
    if told != (1.0, 0.0, 1.0):
        _tell(tree, 2 * node, told, prime)
        _tell(tree, 2 * node + 1, told, prime)
        maps[0], maps[1], maps[2] = 1.0, 0.0, 1.0


@inner
def _add_up(tree, node, prime):
    """Work out the sums of a node, with what its children have not been told."""
    left, right, maps = 2 * node, 2 * node + 1, tree.maps[node]
    tree.number[node] = tree.number[left] + tree.number[right]
    ways = add(tree.ways[left], tree.ways[right], prime)
    ready = add(tree.ready[left], tree.ready[right], prime)
    tree.ways[node] = reduce(maps[0] * ways, prime)
    tree.ready[node] = reduce(reduce(maps[1] * ways, prime) + maps[2] * ready, prime)


@inner
def _go_down(tree, place, prime):
    """Tell all nodes above a place what they have not been told; return its node."""
    node = place + len(tree.number) // 2
    depth = 0
    while node >> depth > 1:
        depth += 1
    for level in range(depth, 0, -1):
        _tell_children(tree, node >> level, prime)
    return node


@inner
def _go_up(tree, node, prime):
    """Work out the sums above a node."""
    node //= 2
    while node > 0:
        _add_up(tree, node, prime)
        node //= 2


@inner
def _set_run(tree, place, is_inside, prime):
    """Let a run begin, or leave the window."""
    node = _go_down(tree, place, prime)
    tree.number[node] = is_inside
    tree.ways[node] = is_inside
    tree.ready[node] = 0.0
    tree.maps[node, 0], tree.maps[node, 1], tree.maps[node, 2] = 1.0, 0.0, 1.0
    _go_up(tree, node, prime)


@inner
def _tell_range(tree, begin, end, told, prime):
    """Tell the runs of some places a map."""
    if begin >= end:
        return
    first, last = _go_down(tree, begin, prime), _go_down(tree, end - 1, prime)
    left, right = first, last + 1
    while left < right:
        if left & 1:
            _tell(tree, left, told, prime)
            left += 1
        if right & 1:
            right -= 1
            _tell(tree, right, told, prime)
        left //= 2
        right //= 2
    _go_up(tree, first, prime)
    _go_up(tree, last, prime)


@inner
def _sum_ready(tree, begin, end, prime):
    """Return how many runs of some places wait for the row that ends them."""
    total = 0.0
    if begin >= end:
        return total
    left, right = _go_down(tree, begin, prime), _go_down(tree, end - 1, prime) + 1
    while left < right:
        if left & 1:
            total = add(total, tree.ready[left], prime)
            left += 1
        if right & 1:
            right -= 1
            total = add(total, tree.ready[right], prime)
        left //= 2
        right //= 2
    return total


@inner
def _note_rounds(steps, keys, first, last):
    """Count the rounds of a moment by join key; return how many keys have some."""
    touched = 0
    for v in range(first, last):
        if steps.does[v] == _ROUND:
            key = steps.key[v]
            if keys.rounds[key] == 0:
                keys.touched[touched] = v
                touched += 1
            keys.rounds[key] += 1
            keys.inner_rounds[key] += steps.is_inner[v]
    return touched


@kernel
def _count_moments(steps, tree, keys, way, prime, span, out):
    """Count the matches of the roots of some moments.

    `span` has the first moment, the one after the last, and how many runs have left before; return
    how many have left, and about how many bits a number has.
    """
    begin, end, gone = span
    most = 0.0
    for m in range(begin, end):
        first, last = steps.moment_first[m], steps.moment_first[m + 1]
        while gone < len(steps.leaving) and steps.start[steps.leaving[gone]] < steps.due[m]:
            v = steps.leaving[gone]
            if tree.number[steps.begin[v] + len(tree.number) // 2]:
                _set_run(tree, steps.begin[v], False, prime)
                keys.first_bits[steps.key[v]] = keys.bits_before[v]
            gone += 1
        for v in range(first, last):
            for i in range(steps.root_first[v], steps.root_first[v + 1]):
                out[i] = _sum_ready(tree, steps.begin[v], steps.end[v], prime)
                most = max(most, keys.bits[steps.key[v]] - keys.first_bits[steps.key[v]])
        for v in range(first, last):
            if steps.does[v] == _TAKE:
                _tell_range(tree, steps.begin[v], steps.end[v], _NONE_READY, prime)
        for t in range(_note_rounds(steps, keys, first, last)):
            v = keys.touched[t]
            key = steps.key[v]
            again = 1.0 if way == ONE_ROUND else keys.inner_rounds[key] + (way == ANY_ROUNDS)
            told = (again, np.float64(keys.rounds[key]), 1.0)
            _tell_range(tree, steps.begin[v], steps.end[v], told, prime)
            keys.bits[key] += np.log2(again)
            keys.rounds[key], keys.inner_rounds[key] = 0, 0
        for k in range(steps.lost_first[m], steps.lost_first[m + 1]):
            _tell_range(tree, steps.lost_begin[k], steps.lost_end[k], _NONE_READY, prime)
        for v in range(first, last):
            if steps.does[v] == _RUN and steps.begin[v] >= 0 and steps.start[v] >= steps.due[m]:
                keys.bits_before[v] = keys.bits[steps.key[v]]
                _set_run(tree, steps.begin[v], True, prime)
    return gone, most


def _read_ended(segment: DagSegment, chosen: Chosen) -> _EndedSteps | None:
    """Return what the vertices do; None: some do something else."""
    links, memory, vertices = segment.links, segment.memory, chosen.vertices
    size, asking = len(vertices), np.flatnonzero(vertices["count"] > 0)
    sources = memory.sources[vertices["first"][asking]]
    kinds = links.kind[links.store[sources["link"]]]
    if (kinds < r.ROUNDS).any():
        return None
    does = np.full(size, _RUN, np.int64)
    does[asking] = np.array([_ROUND, _END, _TAKE])[kinds - r.ROUNDS]
    runs = place_runs(memory, chosen)
    words = memory.asked[sources["asked"]]
    # a round asks for no value: all runs of its key take it
    operator = np.where(kinds == r.ROUNDS, ALL, links.operator[sources["link"]])
    ranges = AskedRanges(operator, words[:, 0].copy(), words[:, 1].copy())
    begin, end = np.full((2, size), -1, np.int64)
    begin[runs.vertex] = np.arange(len(runs.vertex))
    begin[asking], end[asking] = find_places(runs.values, runs.key[asking], ranges)
    is_inner = np.zeros(size, np.uint8)
    is_inner[asking] = (kinds == r.ROUNDS) & (ranges.low == FIRST_WORD)
    lost = find_lost(segment, chosen, runs.key)
    order, lost_first = lost.sort_by_moment(chosen)
    lost_begin, lost_end = find_places(runs.values, runs.key[lost.asking], lost.ranges)
    return _EndedSteps(
        chosen.moment_first,
        does,
        begin,
        end,
        runs.key,
        is_inner,
        chosen.root_first,
        chosen.due,
        runs.sort_by_start(chosen),
        chosen.start,
        lost_first,
        lost_begin[order],
        lost_end[order],
    )


def count_ended(segments: Sequence[DagSegment], chosen: Chosen) -> list[int] | None:
    """Return the number of matches of every root; None: not all are a run with ended rounds.

    The segments share their records: those of the last include those of the others.
    """
    links, memory = segments[-1].links, segments[-1].memory
    assert links.rounds is not None
    used = memory.sources["link"][chosen.rounds[chosen.ended]]
    ways = np.unique(np.abs(links.rounds[used]))
    steps = _read_ended(segments[-1], chosen) if len(ways) == 1 else None
    if steps is None:
        return None
    return count_exactly(partial(_count_modulo, steps, int(ways[0]), len(chosen.bound)))


def _count_modulo(
    steps: _EndedSteps, way: int, roots: int, prime: float
) -> tuple[NDArray[np.float64], int]:
    """Return the numbers of matches, with a prime modulo it, and a bound on their bits."""
    size, keys = len(steps.does), int(steps.key.max(initial=-1)) + 1
    nodes = 2 << max(len(steps.leaving) - 1, 0).bit_length()
    tree = _Waiting(
        np.zeros(nodes, np.int64),
        np.zeros(nodes),
        np.zeros(nodes),
        np.tile(np.array([1.0, 0.0, 1.0]), (nodes, 1)),
    )
    by_key = _ByKey(
        np.zeros(keys, np.int64),
        np.zeros(keys, np.int64),
        np.zeros(keys),
        np.zeros(keys),
        np.zeros(size),
        np.empty(keys, np.int64),
    )
    out, gone, most = np.zeros(roots), 0, 0.0
    for piece in cut_events(len(steps.moment_first) - 1):
        span = piece.start, piece.stop, gone
        gone, bits = call_patiently(_count_moments, steps, tree, by_key, way, prime, span, out)
        most = max(most, bits)
    return out, int(most) + 2 * size.bit_length() + 2
