"""Runs that have just begun and wait in search trees, side by side by join key and value.

A *place* is the number of a run in that order, so that the runs that a vertex asks for are an
interval of places. `count_once` and `count_ended` count by these.

Cost contract: O(n log n) for n vertices, and linear in the branches of search trees.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cernis.compiled import borrowing as kernel
from cernis.engine.dag import records as r
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
    """Find the tree of each branch, and a branch for each vertex that begins a run.

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


def place_runs(memory: r.RunMemory, chosen: Chosen, asking: Ints) -> RunPlaces | None:
    """Return the places of the runs in search trees, which some vertices ask for.

    None: some of these runs have had another step before.
    """
    vertices = chosen.vertices
    of_vertex = np.where(vertices["count"] > 0, -1, 0).astype(np.int64)
    above = np.arange(int(memory.counters[r.BRANCHES]))
    _join_trees(memory.branches, chosen.number, above, of_vertex)
    runs = np.flatnonzero(of_vertex > 0)
    roots = memory.sources["at"][vertices["first"][asking]]
    planted = memory.branches["vertex"][: len(above)]
    inside = planted < len(chosen.number)
    number = np.where(inside, chosen.number[np.where(inside, planted, 0)], -1)
    is_deep = (number >= 0) & (of_vertex[number] < 0)
    if np.isin(above[is_deep], above[roots]).any():
        return None
    names, numbered = np.unique(
        np.append(above[of_vertex[runs]], above[roots]), return_inverse=True
    )
    key = np.full(len(vertices), -1, np.int64)
    key[np.append(runs, asking)] = numbered
    branches = memory.branches[of_vertex[runs]]
    order, values = place_values(key[runs], branches["high"], branches["low"], len(names))
    return RunPlaces(runs[order], values, key)
