"""Vertices of the linked runtime as *steps*: what each asks, and the *filings* in which it waits.

A filing is a vertex in an index: a search tree, or a group of runs that are asked as one. Filings
lie side by side in the order of their index and of the values in it, so that a question is an
interval of filings. `slide`, `count_ranges` and `count_pairs` count by these, and by the ranks of
the runs that wait in search trees for rounds (`rank_runs`).

Cost contract: O(n log n) for n vertices inside the window of the first root, and linear in the
branches of search trees: once for all roots.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import borrowing as kernel
from cernis.compiled import inner
from cernis.engine.dag import records as r
from cernis.engine.dag.links import DagSegment
from cernis.engine.spans import list_indices

Ints = NDArray[np.int64]
ALL = -1
"""Instead of an operator: all runs of a group."""


class Steps(NamedTuple):
    """Vertices in the order of their moments. `x_first[i]:x_first[i + 1]` are the indices of i."""

    moment_first: Ints
    start: Ints
    asked: Ints
    """The index that a vertex asks; -1: a match begins."""
    operator: Ints
    high: Ints
    low: Ints
    """The words at which its range ends."""
    filing_first: Ints
    filings: Ints
    """The filings of a vertex."""
    root_first: Ints
    bound: Ints
    """Per root, the earliest start of its matches."""
    due: Ints
    """Per moment, the bound of the next root: nobody asks for earlier starts."""


class Filings(NamedTuple):
    """Filings, in the order of their index, of the index that their vertex asks, and of the words.

    A *stretch* is the filings of one index whose vertices ask the same index.
    """

    high: Ints
    low: Ints
    vertex: Ints
    home: Ints
    """The index of a filing."""
    by_start: Ints
    """All filings, in the order of their starts."""
    stretch_first: Ints
    stretch_asked: Ints
    """Per stretch, the index that its vertices ask; -1: they begin matches."""
    index_first: Ints
    """Per index, its stretches."""
    asking_first: Ints
    asking: Ints
    """Per index, the stretches whose vertices ask it."""


@inner
def search(high, low, begin, end, words, is_after):
    """Return the first index with words from these on, or with `is_after` beyond these."""
    while begin < end:
        middle = (begin + end) // 2
        h, l = high[middle], low[middle]  # noqa: E741
        if h < words[0] or (h == words[0] and (l < words[1] or (is_after and l == words[1]))):
            begin = middle + 1
        else:
            end = middle
    return begin


@inner
def find_range(high, low, begin, end, steps, v):
    """Return where the range that a vertex asks for begins and ends, among words in order."""
    operator, words = steps.operator[v], (steps.high[v], steps.low[v])
    first, last = begin, end
    if operator in (r.GREATER_EQUAL, r.EQUAL):
        first = search(high, low, begin, end, words, False)
    if operator in (r.LESS_EQUAL, r.EQUAL):
        last = search(high, low, begin, end, words, True)
    return first, last


@inner
def _find_root(above, branch):
    """Return the branch that stands for a tree."""
    while above[branch] != branch:
        above[branch] = above[above[branch]]
        branch = above[branch]
    return branch


@inner
def _join_trees(above, one, other):
    """Make one tree of those of two branches; the smaller number stands for it."""
    one, other = _find_root(above, one), _find_root(above, other)
    above[max(one, other)] = min(one, other)


@kernel
def _list_filings(branches, number_of, above, last, before, found):
    """Write the vertices in search trees: (vertex, -tree, high, low); return how many there are.

    All versions of a tree share branches, so branches that are linked are one tree: `above` becomes
    its number for each branch. `last` and `before` are scratch: the filings of a vertex so far.
    """
    number = len(above)
    for branch in range(1, number):
        for side in (branches[branch]["left"], branches[branch]["right"]):
            if side != 0:
                _join_trees(above, branch, np.int64(side))
    size = 0
    for branch in range(1, number):
        above[branch] = _find_root(above, branch)
        vertex = branches[branch]["vertex"]
        if vertex >= len(number_of) or number_of[vertex] < 0:
            continue
        at = last[vertex]
        while at >= 0 and found[at, 1] != -above[branch]:
            at = before[at]
        if at >= 0:
            continue
        found[size, 0] = number_of[vertex]
        found[size, 1] = -above[branch]
        found[size, 2] = branches[branch]["high"]
        found[size, 3] = branches[branch]["low"]
        before[size] = last[vertex]
        last[vertex] = size
        size += 1
    return size


@kernel
def _join_versions(filed, above, last):
    """Make one tree of those that share a vertex. `last` is scratch: a tree of each vertex."""
    for k in range(len(filed)):
        vertex, tree = filed[k, 0], -filed[k, 1]
        if last[vertex] >= 0:
            _join_trees(above, tree, last[vertex])
        last[vertex] = tree
    for branch in range(1, len(above)):
        above[branch] = _find_root(above, branch)


def _read_trees(memory: r.RunMemory, number_of: Ints) -> tuple[Ints, Ints]:
    """Return the tree of each branch, and the filings in trees: (vertex, -tree, high, low)."""
    number = r.count_branches(memory)
    trees, found = np.arange(number), np.empty((number, 4), np.int64)
    last, before = np.full(len(number_of), -1, np.int64), np.empty(number, np.int64)
    return trees, found[: _list_filings(memory.branches, number_of, trees, last, before, found)]


class Chosen(NamedTuple):
    """The vertices that roots may reach, in the order of their moments, without their filings."""

    vertices: NDArray[np.void]
    number: Ints
    """Per vertex of the memory, its number here; -1: it is outside of all windows."""
    moment_first: Ints
    start: Ints
    operator: Ints
    rounds: Ints
    """Per vertex, its source if that has rounds, -1 otherwise."""
    ended: NDArray[np.bool_]
    """Per vertex, whether it ends rounds."""
    root_first: Ints
    bound: Ints
    """Per root, the earliest start of its matches."""
    due: Ints
    """Per moment, the bound of the next root: nobody asks for earlier starts."""


def choose_vertices(segment: DagSegment) -> Chosen:
    """Return the vertices that the roots may reach."""
    links, memory, roots = segment
    last = min(int(roots["vertex"].max(initial=0)) + 1, int(memory.counters[r.VERTICES]))
    vertices = memory.vertices[:last]
    chosen = np.flatnonzero(vertices["start"] >= roots["bound"].min(initial=2**62))
    chosen = chosen[chosen > 0]
    number = np.full(last, -1, np.int64)
    number[chosen] = np.arange(len(chosen))
    vertices = vertices[chosen]
    asking = np.flatnonzero(vertices["count"] > 0)
    source = vertices["first"][asking]
    link = memory.sources["link"][source]
    kinds = links.kind[links.store[link]]
    operator = np.full(len(chosen), ALL, np.int64)
    operator[asking] = np.where(kinds == r.UNION, ALL, links.operator[link])
    rounds = np.full(len(chosen), -1, np.int64)
    rounds[asking] = np.where(kinds >= r.ROUNDS, source, -1)
    ended = np.zeros(len(chosen), np.bool_)
    ended[asking] = kinds >= r.ENDED
    begin = vertices["position"] - vertices["rank"]
    new = np.ones(len(chosen) + 1, np.bool_)
    new[1:-1] = begin[1:] != begin[:-1]
    moments = np.flatnonzero(new)
    root_first = np.searchsorted(number[roots["vertex"]], np.arange(len(chosen) + 1))
    bounds = np.append(roots["bound"], roots["bound"].max(initial=0))
    return Chosen(
        vertices,
        number,
        moments,
        vertices["start"].copy(),
        operator,
        rounds,
        ended,
        root_first,
        roots["bound"].copy(),
        bounds[root_first[moments[:-1]]],
    )


class NumberLists(NamedTuple):
    """A list for each of some things: `first[i]:first[i + 1]` are the items of i."""

    first: Ints
    item: Ints


@kernel
def _count_filed(nodes, number, filed):
    """Count the nodes of each vertex that is chosen."""
    for node in nodes:
        vertex = node["vertex"]
        if vertex < len(number) and number[vertex] >= 0:
            filed[number[vertex]] += 1


@kernel
def _list_filed(nodes, number, ends, filed):
    """Write the group of each node, vertex by vertex; `ends` moves from beginnings to ends."""
    for node in nodes:
        vertex = node["vertex"]
        if vertex < len(number) and number[vertex] >= 0:
            at = number[vertex]
            filed[ends[at]] = node["group"]
            ends[at] += 1


@kernel
def _drop_doubles(ends, filed, first):
    """Write the groups of each vertex to the front, each once; return the number of all.

    A node that was copied has the vertex and the group of the first. A vertex has few groups.
    """
    kept = 0
    for v in range(len(first) - 1):
        for f in range(ends[v], ends[v + 1]):
            at = first[v]
            while at < kept and filed[at] != filed[f]:
                at += 1
            if at == kept:
                filed[kept] = filed[f]
                kept += 1
        first[v + 1] = kept
    return kept


def list_groups(memory: r.RunMemory, chosen: Chosen) -> NumberLists:
    """Return the groups that each vertex is filed in."""
    nodes, size = memory.nodes[1 : int(memory.counters[r.NODES])], len(chosen.start)
    ends, first = np.zeros(size + 2, np.int64), np.zeros(size + 1, np.int64)
    _count_filed(nodes, chosen.number, ends[2:])
    ends = np.cumsum(ends)
    filed = np.empty(ends[-1], np.int64)
    _list_filed(nodes, chosen.number, ends[1:], filed)
    return NumberLists(first, filed[: _drop_doubles(ends, filed, first)])


def find_moments(chosen: Chosen | Steps) -> Ints:
    """Return the moment of each vertex."""
    return np.repeat(np.arange(len(chosen.moment_first) - 1), np.diff(chosen.moment_first))


def find_vertices(chosen: Chosen | Steps) -> tuple[Ints, Ints]:
    """Return the numbers of roots, and their vertices."""
    vertex = np.repeat(np.arange(len(chosen.start)), np.diff(chosen.root_first))
    return chosen.root_first[0] + np.arange(len(vertex)), vertex


def read_steps(memory: r.RunMemory, chosen: Chosen) -> tuple[Steps, Filings]:
    """Return the vertices that the roots may reach, and their filings."""
    vertices, operator, size = chosen.vertices, chosen.operator, len(chosen.start)
    trees, in_trees = _read_trees(memory, chosen.number)
    groups = list_groups(memory, chosen)
    in_groups = np.zeros((len(groups.item), 4), np.int64)
    in_groups[:, 0] = np.repeat(np.arange(size), np.diff(groups.first))
    in_groups[:, 1] = groups.item
    asking = np.flatnonzero(vertices["count"] > 0)
    sources = memory.sources[vertices["first"][asking]]
    by_range = operator[asking] != ALL
    rounds = memory.sources["group"][chosen.rounds[chosen.rounds >= 0]]
    in_trees = in_trees[~np.isin(-in_trees[:, 1], trees[rounds[rounds > 0]])]
    names = np.where(by_range, -trees[np.where(by_range, sources["at"], 0)], sources["group"])
    filed = np.concatenate([in_groups, in_trees])
    indexes = np.unique(np.concatenate([names, filed[:, 1]]))
    asked = np.full(size, -1, np.int64)
    asked[asking] = np.searchsorted(indexes, names)
    words = np.zeros((size, 2), np.int64)
    words[asking] = np.where(by_range[:, None], memory.asked[sources["asked"], :2], 0)
    filed[:, 1] = np.searchsorted(indexes, filed[:, 1])
    own = asked[filed[:, 0]]
    order = np.lexsort((filed[:, 3], filed[:, 2], own, filed[:, 1]))
    filed, own = filed[order], own[order]
    of_vertex = np.argsort(filed[:, 0], kind="stable")
    steps = Steps(
        chosen.moment_first,
        chosen.start,
        asked,
        operator,
        words[:, 0].copy(),
        words[:, 1].copy(),
        np.searchsorted(filed[of_vertex, 0], np.arange(size + 1)),
        of_vertex,
        chosen.root_first,
        chosen.bound,
        chosen.due,
    )
    starts = np.argsort(vertices["start"][filed[:, 0]], kind="stable")
    return steps, _make_filings(filed, own, starts, len(indexes))


def _make_filings(filed: Ints, asked: Ints, by_start: Ints, indexes: int) -> Filings:
    """Return the filings, whose vertices, indexes and words are in order, and their stretches."""
    vertex, home, high, low = (column.copy() for column in filed.T)
    new = np.ones(len(filed), np.bool_)
    new[1:] = (home[1:] != home[:-1]) | (asked[1:] != asked[:-1])
    first = np.flatnonzero(new)
    of_index, of_asked = home[first], asked[first]
    asking = np.argsort(of_asked, kind="stable")
    numbers = np.arange(indexes + 1)
    return Filings(
        high,
        low,
        vertex,
        home,
        by_start,
        np.append(first, len(filed)),
        of_asked,
        np.searchsorted(of_index, numbers),
        np.searchsorted(of_asked[asking], numbers),
        asking,
    )


# ------------------------------------------------------ runs that wait for rounds


class AskedRanges(NamedTuple):
    """Per vertex, the range of values that it asks for."""

    operator: Ints
    high: Ints
    low: Ints


class SortedValues(NamedTuple):
    """Values in the order of their keys; `key_first[k]:key_first[k + 1]` are those of a key."""

    key_first: Ints
    high: Ints
    low: Ints


class RankedRuns(NamedTuple):
    """Runs in the order of their join keys and values, and the join keys of vertices."""

    vertex: Ints
    """Per rank, the run."""
    values: SortedValues
    key: Ints
    """Per vertex that begins a run or asks for some, a number for its search tree; else -1."""


@kernel
def _find_ranks(values, key, ranges, begin, end):
    """Write the ranks at which ranges begin and end."""
    for v in range(len(key)):
        first, last = values.key_first[key[v]], values.key_first[key[v] + 1]
        begin[v], end[v] = find_range(values.high, values.low, first, last, ranges, v)


def find_ranks(values: SortedValues, key: Ints, ranges: AskedRanges) -> tuple[Ints, Ints]:
    """Return the ranks, among the values of its key, between which each vertex's range lies."""
    begin, end = np.empty((2, len(key)), np.int64)
    _find_ranks(values, key, ranges, begin, end)
    return begin, end


class RunRanges(NamedTuple):
    """Ranges of runs that moments take or ask for, by their ranks."""

    moment: Ints
    key: Ints
    begin: Ints
    end: Ints

    def pick(self, which: NDArray[Any]) -> RunRanges:
        """Return some of the ranges."""
        return RunRanges(*(column[which] for column in self))


def rank_runs(memory: r.RunMemory, chosen: Chosen) -> RankedRuns:
    """Return the runs, by rank, in search trees that vertices with rounds ask for."""
    asking = np.flatnonzero(chosen.rounds >= 0)
    trees, filed = _read_trees(memory, chosen.number)
    roots = trees[memory.sources["at"][chosen.rounds[asking]]]
    filed = filed[np.isin(-filed[:, 1], roots)]
    # versions of a tree share branches, or at least vertices
    _join_versions(filed, trees, np.full(len(chosen.start), -1, np.int64))
    runs, first = np.unique(filed[:, 0], return_index=True)
    tree, high, low = filed[first, 1:].T
    names, numbered = np.unique(trees[np.append(-tree, roots)], return_inverse=True)
    key = np.full(len(chosen.start), -1, np.int64)
    key[np.append(runs, asking)] = numbered
    order = np.lexsort((low, high, key[runs]))
    first = np.searchsorted(key[runs[order]], np.arange(len(names) + 1))
    return RankedRuns(runs[order], SortedValues(first, high[order], low[order]), key)


def spread(first: Ints, index: Ints) -> tuple[Ints, Ints]:
    """Return the items `first[i]:first[i + 1]` of each index, after the rank of the index.

    >>> [some.tolist() for some in spread(np.array([0, 2, 2, 5]), np.array([2, 0]))]
    [[0, 0, 0, 1, 1], [2, 3, 4, 0, 1]]
    """
    low, high = first[index], first[index + 1]
    return np.repeat(np.arange(len(index)), high - low), list_indices(low, high)


def find_lost(segment: DagSegment, chosen: Chosen, runs: RankedRuns) -> RunRanges:
    """Return what rows have taken that are no vertices any more: the collector has dropped them.

    The tree of the first row of each join key knows of them. Each comes after the last round before
    it, and its moment is that of this round.
    """
    links, memory, key = segment.links, segment.memory, runs.key
    sources = memory.sources[chosen.rounds]
    kinds = links.kind[links.store[sources["link"]]]
    enders = np.flatnonzero((chosen.rounds >= 0) & (kinds == r.ENDED_ONCE))
    enders = enders[np.unique(key[enders], return_index=True)[1]]
    roots = memory.asked[sources["asked"][enders], -1]
    enders, roots = enders[roots > 0], roots[roots > 0]
    queue, owner = np.empty((2, r.count_branches(memory)), np.int64)
    queue[: len(roots)], owner[: len(roots)] = roots, enders
    found = _list_below(memory.branches, queue, owner, len(roots))
    branches, asking = memory.branches[queue[:found]], owner[:found]
    inside = branches["vertex"] < len(chosen.number)
    number = chosen.number[np.where(inside, branches["vertex"], 0)]
    # a row takes runs that have had the round; those of another key have begun after it
    kept = inside & (number >= 0) & (key[number] == key[asking])
    branches, asking = branches[kept], asking[kept]
    assert links.rounds is not None
    is_below = links.rounds[sources["link"][asking]] < 0
    operator = np.where(is_below, r.LESS_EQUAL, r.GREATER_EQUAL)
    ranges = AskedRanges(operator, branches["high"].copy(), branches["low"].copy())
    moment, own = find_moments(chosen)[number[kept]], key[asking]
    return RunRanges(moment, own, *find_ranks(runs.values, own, ranges))


@kernel
def _list_below(branches, queue, owner, last):
    """Write the branches below those that stand in a queue, and whose they are."""
    first = 0
    while first < last:
        for side in (branches[queue[first]]["left"], branches[queue[first]]["right"]):
            if side != 0:
                queue[last] = side
                owner[last] = owner[first]
                last += 1
        first += 1
    return last
