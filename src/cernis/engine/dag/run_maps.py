"""How many matches end at each root, where moments are linear maps over ranges of runs.

A run has two numbers: in how many ways it has taken rounds so far, and how many of these wait for
the next step. It begins with (1, 0), or with (1, n) where n is a sum over other runs, and leaves
the window with (0, 0). A round is a linear map of both numbers, the same for all runs of a range of
values. A root is a sum of the first numbers over a range, or of the second. `count_ranges`
says which.

Runs lie side by side in the order of their values, in a segment tree for each join key. A node has
the sums of both numbers, and a map that its children have not had yet (lazy propagation).

Cost contract: O(log runs) of a join key for each map, sum and run, O(1) where it is for all runs of
the key, whatever the number of matches. Numbers are floats, exact below 2^53; larger ones are
counted again modulo primes (`residues`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import borrowing as kernel
from cernis.compiled import inner
from cernis.compiled.tiers import call_patiently, cut_events
from cernis.engine.dag.links import ANY_ROUNDS, ONE_ROUND
from cernis.engine.dag.steps import Chosen, Ints, RankedRuns, RunRanges, find_moments
from cernis.engine.residues import add, count_exactly, reduce

WAYS, READY = range(2)
"""The two numbers of a run."""
Floats = NDArray[np.float64]


class RunMaps(NamedTuple):
    """Maps of ranges: (a, b, c) makes (w, r) to (a · w, b · w + c · r)."""

    ranges: RunRanges
    told: Floats


class RunSums(NamedTuple):
    """Sums over ranges, in the order of their moments. A root is the sum of its own."""

    ranges: RunRanges
    number: Ints
    """WAYS or READY."""
    root: Ints


class TreeRuns(NamedTuple):
    """Runs in their order in the trees."""

    first: Ints
    """Per tree, its first run."""
    start: Ints
    moment: Ints
    given: Ints
    """The root whose sum a run begins with as its second number; -1: 0."""


class _RunMoments(NamedTuple):
    """What each moment does, one after the other. `x_first[m]:x_first[m + 1]` are those of m.

    A *span* is where a range begins and ends among the leaves, and the height of its tree.
    """

    due: Ints
    leaving: Ints
    """The spans of runs, in the order in which they leave the window,"""
    start: Ints
    """and their starts."""
    sum_first: Ints
    sums: Ints
    number: Ints
    root: Ints
    map_first: Ints
    maps: Ints
    told: Floats
    run_first: Ints
    runs: Ints
    given: Ints


class _RunTree(NamedTuple):
    """Segment trees of runs. A node has two children, from 2 · node on."""

    alive: Ints
    """How many runs below a node are inside the window,"""
    ways: Floats
    ready: Floats
    maps: Floats
    """and what its children are still to be told."""


@inner
def _tell(tree, node, told, prime):
    """Tell a node a map."""
    if tree.alive[node] == 0:
        return
    ways, ready, maps = tree.ways[node], tree.ready[node], tree.maps[node]
    tree.ready[node] = reduce(reduce(told[1] * ways, prime) + told[2] * ready, prime)
    tree.ways[node] = reduce(told[0] * ways, prime)
    maps[1] = reduce(reduce(told[1] * maps[0], prime) + told[2] * maps[1], prime)
    maps[0] = reduce(told[0] * maps[0], prime)
    maps[2] *= told[2]


@inner
def _go_down(tree, node, height, prime):
    """Tell all nodes above a leaf what they have not been told."""
    for level in range(height, 0, -1):
        above = node >> level
        maps = tree.maps[above]
        told = (maps[0], maps[1], maps[2])
        if told != (1.0, 0.0, 1.0):
            _tell(tree, 2 * above, told, prime)
            _tell(tree, 2 * above + 1, told, prime)
            maps[0], maps[1], maps[2] = 1.0, 0.0, 1.0


@inner
def _go_up(tree, node, height, prime):
    """Work out the sums above a leaf."""
    for level in range(1, height + 1):
        above = node >> level
        left, right, maps = 2 * above, 2 * above + 1, tree.maps[above]
        tree.alive[above] = tree.alive[left] + tree.alive[right]
        ways = add(tree.ways[left], tree.ways[right], prime)
        ready = add(tree.ready[left], tree.ready[right], prime)
        tree.ways[above] = reduce(maps[0] * ways, prime)
        tree.ready[above] = reduce(reduce(maps[1] * ways, prime) + maps[2] * ready, prime)


@inner
def _set_run(tree, span, is_inside, ready, prime):
    """Let a run begin, or leave the window."""
    node, height = span[0], span[2]
    _go_down(tree, node, height, prime)
    tree.alive[node] = is_inside
    tree.ways[node] = is_inside
    tree.ready[node] = ready
    tree.maps[node, 0], tree.maps[node, 1], tree.maps[node, 2] = 1.0, 0.0, 1.0
    _go_up(tree, node, height, prime)


@inner
def _open_range(tree, span, prime):
    """Tell the nodes that a range is a part of what they have not been told."""
    begin, end, height = span[0], span[1], span[2]
    whole = (1 << height) - 1
    if begin & whole != 0:
        _go_down(tree, begin, height, prime)
    if end & whole != 0:
        _go_down(tree, end - 1, height, prime)


@inner
def _tell_range(tree, span, told, prime):
    """Tell the runs of a range a map."""
    _open_range(tree, span, prime)
    left, right = span[0], span[1]
    while left < right:
        if left & 1:
            _tell(tree, left, told, prime)
            left += 1
        if right & 1:
            right -= 1
            _tell(tree, right, told, prime)
        left //= 2
        right //= 2
    whole = (1 << span[2]) - 1
    if span[0] & whole != 0:
        _go_up(tree, span[0], span[2], prime)
    if span[1] & whole != 0:
        _go_up(tree, span[1] - 1, span[2], prime)


@inner
def _sum_range(tree, span, number, prime):
    """Return the sum of a number of the runs of a range."""
    _open_range(tree, span, prime)
    values = tree.ways if number == WAYS else tree.ready
    left, right, total = span[0], span[1], 0.0
    while left < right:
        if left & 1:
            total = add(total, values[left], prime)
            left += 1
        if right & 1:
            right -= 1
            total = add(total, values[right], prime)
        left //= 2
        right //= 2
    return total


@kernel
def _count_moments(steps, tree, prime, span, out):
    """Count the matches of the roots of some moments.

    `span` has the first moment, the one after the last, and how many runs have left before; return
    how many have left.
    """
    begin, end, gone = span
    for m in range(begin, end):
        while gone < len(steps.leaving) and steps.start[gone] < steps.due[m]:
            if tree.alive[steps.leaving[gone, 0]]:
                _set_run(tree, steps.leaving[gone], False, 0.0, prime)
            gone += 1
        for i in range(steps.sum_first[m], steps.sum_first[m + 1]):
            total = _sum_range(tree, steps.sums[i], steps.number[i], prime)
            out[steps.root[i]] = add(out[steps.root[i]], total, prime)
        for i in range(steps.map_first[m], steps.map_first[m + 1]):
            told = (steps.told[i, 0], steps.told[i, 1], steps.told[i, 2])
            _tell_range(tree, steps.maps[i], told, prime)
        for i in range(steps.run_first[m], steps.run_first[m + 1]):
            given = steps.given[i]
            _set_run(tree, steps.runs[i], True, out[given] if given >= 0 else 0.0, prime)
    return gone


class _RunLeaves:
    """The leaves of runs: each join key has a tree whose size is a power of two."""

    def __init__(self, first: Ints) -> None:
        self.first = first
        self.height = np.ceil(np.log2(np.maximum(np.diff(self.first), 1))).astype(np.int64)
        size, order = 1 << self.height, np.argsort(-self.height, kind="stable")
        largest = int(size.max(initial=1))
        self.leaves = -(-int(size.sum()) // largest) * largest
        self.begin = np.empty_like(size)
        # trees that are not larger than those before them begin at a multiple of their size
        self.begin[order] = self.leaves + np.cumsum(size[order]) - size[order]

    def span(self, key: Ints, begin: Ints, end: Ints) -> Ints:
        """Return the leaves of ranges, and the heights of their trees."""
        left = self.begin[key] + begin - self.first[key]
        right = self.begin[key] + end - self.first[key]
        height = self.height[key]
        is_last = (end == self.first[key + 1]) & (begin < end)
        right = np.where(is_last, self.begin[key] + (1 << height), right)
        return np.stack([left, np.maximum(left, right), height], axis=1)


def map_taken(ranges: RunRanges) -> RunMaps:
    """Return the maps after which no run waits for the next step."""
    return RunMaps(ranges, np.tile(np.array([1.0, 0.0, 0.0]), (len(ranges.key), 1)))


def map_strict(ranges: RunRanges, runs: RankedRuns) -> RunMaps:
    """Return the maps after which runs take no more rounds that the moment has left behind."""
    order = np.lexsort((ranges.key, ranges.moment))
    ranges = ranges.pick(order)
    first = _find_changes(ranges.moment, ranges.key)
    begin, end = np.minimum.reduceat(ranges.begin, first), np.maximum.reduceat(ranges.end, first)
    moment, key = np.tile(ranges.moment[first], 2), np.tile(ranges.key[first], 2)
    edge = runs.values.key_first
    sides = RunRanges(
        moment,
        key,
        np.append(edge[ranges.key[first]], end),
        np.append(begin, edge[ranges.key[first] + 1]),
    )
    return RunMaps(sides, np.tile(np.array([0.0, 0.0, 1.0]), (len(key), 1)))


def _join_ranges(lists: Sequence[RunRanges]) -> tuple[RunRanges, Ints]:
    """Return all ranges by their moments, and their order before."""
    ranges = RunRanges(*map(np.concatenate, zip(*lists, strict=True)))
    order = np.argsort(ranges.moment, kind="stable")
    return ranges.pick(order), order


def join_maps(*lists: RunMaps) -> RunMaps:
    """Return all maps. Those of one moment stay in this order."""
    ranges, order = _join_ranges([one.ranges for one in lists])
    return RunMaps(ranges, np.concatenate([one.told for one in lists])[order])


def join_sums(*lists: RunSums) -> RunSums:
    """Return all sums."""
    ranges, order = _join_ranges([one.ranges for one in lists])
    number, root = (
        np.concatenate(some)[order] for some in zip(*(one[1:] for one in lists), strict=True)
    )
    return RunSums(ranges, number, root)


def map_rounds(ranges: RunRanges, waits: Ints, goes_on: Ints, way: int) -> RunMaps:
    """Return the maps of rounds.

    `waits` says whether runs wait for the next step after a round, `goes_on` whether they can take
    another one. Of the rounds of a moment a run takes one. Those of a join key that go on have
    ranges that lie inside of each other, with one end in common.
    """
    name = ranges.moment * (int(ranges.key.max(initial=0)) + 1) + ranges.key
    order = np.argsort(name, kind="stable")
    is_first = np.ones(len(name) + 1, np.bool_)
    is_first[1:-1] = np.diff(name[order]) != 0
    alone = np.empty(len(name), np.bool_)
    alone[order] = is_first[1:] & is_first[:-1]
    told = np.ones((int(alone.sum()), 3))
    told[:, 1] = waits[alone]
    if way == ANY_ROUNDS:
        told[goes_on[alone] > 0, 0] = 2.0
    several = ~alone
    return join_maps(
        RunMaps(ranges.pick(alone), told),
        _map_several(ranges.pick(several), waits[several], goes_on[several], way),
    )


def _map_several(ranges: RunRanges, waits: Ints, goes_on: Ints, way: int) -> RunMaps:
    """Return the maps of rounds, where a moment has several for a join key."""
    order = np.lexsort(ranges[::-1])
    ranges, waits, goes_on = ranges.pick(order), waits[order], goes_on[order]
    # rounds with the same range are one map
    first = _find_changes(*ranges)
    ranges = ranges.pick(first)
    told = np.ones((len(first), 3))
    told[:, 1] = np.add.reduceat(waits, first)
    goes_on = np.add.reduceat(goes_on, first)
    group = np.zeros(len(first), np.int64)
    group[_find_changes(ranges.moment, ranges.key)] = 1
    parts, fitting = _cut_ranges(ranges, np.cumsum(group), goes_on)
    rest = np.tile(np.array([1.0, 0.0, 1.0]), (len(fitting), 1))
    if way != ONE_ROUND:
        rest[:, 0] = fitting + (way == ANY_ROUNDS)
    return join_maps(RunMaps(ranges, told), RunMaps(parts, rest))


def _find_changes(*columns: Ints) -> Ints:
    """Return where a row is not like the one before it; the first is not."""
    changes = np.ones(len(columns[0]), np.bool_)
    changes[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    return np.flatnonzero(changes)


def _cut_ranges(ranges: RunRanges, group: Ints, goes_on: Ints) -> tuple[RunRanges, Ints]:
    """Return the ranges of rounds that go on, without the next smaller one of their group.

    They come with how many rounds the runs there can take.
    """
    chain = np.flatnonzero(goes_on)
    chain = chain[np.lexsort(((ranges.begin - ranges.end)[chain], group[chain]))]
    whole, inside = ranges.pick(chain), ranges.pick(np.roll(chain, -1))
    first, has_inside = _find_changes(group[chain]), np.ones(len(chain), np.bool_)
    has_inside[first - 1] = False
    is_prefix = has_inside & (whole.begin == inside.begin)
    begin = np.where(is_prefix, inside.end, whole.begin)
    end = np.where(has_inside & ~is_prefix, inside.begin, whole.end)
    fitting = np.cumsum(goes_on[chain])
    before = np.repeat((fitting - goes_on[chain])[first], np.diff(np.append(first, len(chain))))
    return RunRanges(whole.moment, whole.key, begin, end), fitting - before


def _count_before(moment: Ints, moments: int) -> Ints:
    """Return how many of some come before each moment, and how many there are."""
    return np.append(0, np.cumsum(np.bincount(moment, minlength=moments)))


def count_runs(chosen: Chosen, runs: RankedRuns, sums: RunSums, maps: RunMaps) -> list[int]:
    """Return the number of matches of every root, where runs begin with (1, 0)."""
    start, moment = chosen.start[runs.vertex], find_moments(chosen)[runs.vertex]
    begun = TreeRuns(runs.values.key_first, start, moment, np.full(len(start), -1, np.int64))
    return count_maps(chosen.due, begun, sums, maps, len(chosen.bound))


def count_maps(due: Ints, runs: TreeRuns, sums: RunSums, maps: RunMaps, roots: int) -> list[int]:
    """Return the numbers of so many roots; those without a sum have none.

    `due` has the bound of each moment. Its maps come one after the other, after its sums, and
    before its runs begin.
    """
    leaves, moments = _RunLeaves(runs.first), len(due)
    ranges, told = maps
    is_known = (told[:, 0] == 1.0) & (told[:, 1] == 0.0) & (told[:, 2] == 1.0)
    kept = (ranges.begin < ranges.end) & ~is_known
    if not kept.all():
        maps = RunMaps(ranges.pick(kept), told[kept])
    kept = sums.ranges.begin < sums.ranges.end
    if not kept.all():
        sums = RunSums(sums.ranges.pick(kept), sums.number[kept], sums.root[kept])
    ranks = np.arange(len(runs.start))
    spans = leaves.span(
        np.repeat(np.arange(len(runs.first) - 1), np.diff(runs.first)), ranks, ranks + 1
    )
    leaving, begun = np.argsort(runs.start), np.argsort(runs.moment)
    begun = begun[runs.start[begun] >= due[runs.moment[begun]]]
    steps = _RunMoments(
        due=due,
        leaving=spans[leaving],
        start=runs.start[leaving],
        sum_first=_count_before(sums.ranges.moment, moments),
        sums=leaves.span(*sums.ranges[1:]),
        number=sums.number,
        root=sums.root,
        map_first=_count_before(maps.ranges.moment, moments),
        maps=leaves.span(*maps.ranges[1:]),
        told=maps.told,
        run_first=_count_before(runs.moment[begun], moments),
        runs=spans[begun],
        given=runs.given[begun],
    )

    def count(prime: float) -> Floats:
        nodes, out, gone = 2 * leaves.leaves, np.zeros(roots), 0
        told = np.tile(np.array([1.0, 0.0, 1.0]), (nodes, 1))
        trees = _RunTree(np.zeros(nodes, np.int64), np.zeros(nodes), np.zeros(nodes), told)
        for piece in cut_events(moments):
            span = piece.start, piece.stop, gone
            gone = call_patiently(_count_moments, steps, trees, prime, span, out)
        return out

    def bound_bits() -> int:
        # maps since the oldest run inside the window have multiplied its ways
        size, until = moments + 1, sums.ranges.moment
        oldest = np.append(runs.moment[leaving], size)
        since = np.minimum(oldest[np.searchsorted(steps.start, due[until])], until)
        name = maps.ranges.key * size + maps.ranges.moment
        order = np.argsort(name, kind="stable")
        bits = np.append(0.0, np.cumsum(np.log2(np.maximum(maps.told[order, 0], 1.0))))
        before, after = (
            bits[np.searchsorted(name[order], sums.ranges.key * size + one)]
            for one in (since, until)
        )
        most: int = int((after - before).max(initial=0.0))
        added = len(runs.start) + int(np.abs(maps.told).sum())
        return most + 2 * added.bit_length() + 2

    return count_exactly(count, bound_bits)
