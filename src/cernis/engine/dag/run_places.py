"""Runs that wait in search trees for rounds, side by side by join key and value.

A *place* is the number of a run in that order, so that the runs that a vertex asks for are an
interval of places. `count_once`, `run_maps` and `slide_rounds` count by these.

Cost contract: O(n log n) for n vertices, and linear in the branches of search trees.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cernis.compiled import borrowing as kernel
from cernis.engine.dag import records as r
from cernis.engine.dag.links import DagSegment
from cernis.engine.dag.steps import Chosen, Ints, find_range, find_root


class AskedRanges(NamedTuple):
    """Per vertex, the range of values that it asks for."""

    operator: Ints
    high: Ints
    low: Ints


class PlacedValues(NamedTuple):
    """Values in the order of their keys; `key_first[k]:key_first[k + 1]` are those of a key."""

    key_first: Ints
    high: Ints
    low: Ints


class RunPlaces(NamedTuple):
    """Runs by their places, and the join keys of vertices."""

    vertex: Ints
    """Per place, the run."""
    values: PlacedValues
    key: Ints
    """Per vertex that begins a run or asks for some, a number for its search tree; else -1."""

    def sort_by_start(self, chosen: Chosen) -> Ints:
        """Return the runs in the order in which they leave the window."""
        runs = np.sort(self.vertex)
        return runs[np.argsort(chosen.start[runs], kind="stable")]


@kernel
def _join_trees(branches, number, above, of_vertex):
    """Find the tree of each branch, and a branch for each vertex that is a run.

    Versions of a tree share branches, or at least vertices. `above` becomes a branch for all that
    are one tree, `number` has the vertices.
    """
    for branch in range(1, len(above)):
        for side in (branches[branch]["left"], branches[branch]["right"]):
            if side != 0:
                one, other = find_root(above, branch), find_root(above, np.int64(side))
                above[max(one, other)] = min(one, other)
    for branch in range(1, len(above)):
        vertex = branches[branch]["vertex"]
        if vertex >= len(number) or number[vertex] < 0 or of_vertex[number[vertex]] < 0:
            continue
        known = of_vertex[number[vertex]]
        of_vertex[number[vertex]] = branch
        if known > 0:
            one, other = find_root(above, branch), find_root(above, np.int64(known))
            above[max(one, other)] = min(one, other)
    for branch in range(1, len(above)):
        above[branch] = find_root(above, branch)


@kernel
def _find_places(values, key, ranges, begin, end):
    """Write the places where ranges begin and end."""
    for v in range(len(key)):
        first, last = values.key_first[key[v]], values.key_first[key[v] + 1]
        begin[v], end[v] = find_range(values.high, values.low, first, last, ranges, v)


def find_places(values: PlacedValues, key: Ints, ranges: AskedRanges) -> tuple[Ints, Ints]:
    """Return the places where the range of each vertex begins and ends, among those of its key."""
    begin, end = np.empty((2, len(key)), np.int64)
    _find_places(values, key, ranges, begin, end)
    return begin, end


def place_values(key: Ints, high: Ints, low: Ints, keys: int) -> tuple[Ints, PlacedValues]:
    """Return the order of some values by their keys, and themselves in this order."""
    order = np.lexsort((low, high, key))
    first = np.searchsorted(key[order], np.arange(keys + 1))
    return order, PlacedValues(first, high[order], low[order])


def place_runs(memory: r.RunMemory, chosen: Chosen) -> RunPlaces:
    """Return the places of the runs in search trees that vertices with rounds ask for."""
    asking = np.flatnonzero(chosen.rounds >= 0)
    of_vertex = np.where(chosen.rounds >= 0, -1, 0)
    above = np.arange(r.count_branches(memory))
    _join_trees(memory.branches, chosen.number, above, of_vertex)
    roots = above[memory.sources["at"][chosen.rounds[asking]]]
    runs = np.flatnonzero(of_vertex > 0)
    runs = runs[np.isin(above[of_vertex[runs]], roots)]
    names, numbered = np.unique(np.append(above[of_vertex[runs]], roots), return_inverse=True)
    key = np.full(len(of_vertex), -1, np.int64)
    key[np.append(runs, asking)] = numbered
    branches = memory.branches[of_vertex[runs]]
    order, values = place_values(key[runs], branches["high"], branches["low"], len(names))
    return RunPlaces(runs[order], values, key)


class LostEnds(NamedTuple):
    """Rows that have ended rounds and are no vertices any more: the collector has dropped them."""

    round: Ints
    """The vertex of the last round before each,"""
    asking: Ints
    """and the first vertex after it that ends rounds of the same runs."""
    ranges: AskedRanges

    def sort_by_moment(self, chosen: Chosen) -> tuple[Ints, Ints]:
        """Return their order by the moments of the rounds, and where each moment begins in it."""
        moment = np.searchsorted(chosen.moment_first, self.round, side="right") - 1
        order = np.argsort(moment, kind="stable")
        return order, np.searchsorted(moment[order], np.arange(len(chosen.moment_first)))


def find_lost(segment: DagSegment, chosen: Chosen, key: Ints) -> LostEnds:
    """Return the rows that the tree of the first row of each join key knows of."""
    links, memory = segment.links, segment.memory
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
    return LostEnds(number[kept], asking, ranges)


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
