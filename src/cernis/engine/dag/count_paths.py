"""Count matches as paths, by NumPy, until compiling the kernel that counts pays.

All roots go on at once: from vertices to the indexes that their sources name, through these, and on
to the vertices there. A path is a match, and a vertex is visited once for each path to it. So this
is for matches of few events in narrow windows; it gives up where paths are many. It knows unions
and orders, and vertices with one source. The kernel (`count`) counts the rest.

A vertex with two sources may have a middle: the runs of the first begin after the event that the
second finds. A path then goes through the second first, and owes the first, from that event on.

Cost: some 30 ns for each visit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.engine.dag import records as r
from cernis.engine.dag.links import DagSegment

_NEWEST = np.iinfo(np.int64).max
"""The version of a union tree that has all changes."""
_IN_RANGE = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 1], [0, 1, 1], [0, 1, 0]], np.bool_)
"""Per operator up to EQUAL, whether smaller, equal and larger values are in its range."""

_ROOTS, _MOST_AT_ONCE = 4096, 1 << 22
"""How many roots are walked at once, and how many visits they may take."""

Indexes = NDArray[np.int64]
Records = NDArray[np.int32]


class TooManyPaths(Exception):
    """The paths have more visits than the caller allows."""


class Paths(NamedTuple):
    """Paths: the index of the root of each, the earliest start that it allows, and what it owes."""

    root: Indexes
    bound: NDArray[np.int64]
    owed: Indexes
    """The source that the path goes through at its end, or -1."""
    since: NDArray[np.int64]
    """The earliest start in that source."""

    def take(self, chosen: NDArray[Any] | slice) -> Paths:
        """Return some of the paths, by a mask or by their indexes."""
        return Paths(*(column[chosen] for column in self))

    def twice(self) -> Paths:
        """Return every path and then every path again."""
        return Paths(*(np.concatenate([column, column]) for column in self))


def count_by_paths(segment: DagSegment) -> NDArray[np.int64] | None:
    """Return the number of matches of every root where a middle lies between; None: list them."""
    links = segment.links
    rest = (links.since, links.conditions.operator, links.bounds.fact, links.rays)
    if links.rounds is not None or any(len(each) for each in rest):
        return None
    found = [np.zeros(0, np.int64)]
    for first in range(0, len(segment.roots), _ROOTS):
        part = segment._replace(roots=segment.roots[first : first + _ROOTS])
        counts = PathWalk(part, _MOST_AT_ONCE).count()
        if counts is None:
            return None
        found.append(counts)
    return np.concatenate(found)


class PathWalk:
    """A walk along all paths below the roots of a segment; `most` bounds its visits."""

    def __init__(self, segment: DagSegment, most: int) -> None:
        self._links, self._memory, self._roots = segment
        self._left = most

    def count(self) -> NDArray[np.int64] | None:
        """Return the number of matches of every root; None: the kernel has to count them."""
        vertices, counts = self._memory.vertices, np.zeros(len(self._roots), np.int64)
        nothing = np.full(len(counts), -1, np.int64)
        paths = Paths(np.arange(len(counts)), self._roots["bound"].copy(), nothing, nothing)
        vertex = self._roots["vertex"]
        try:
            while len(vertex):
                sources = vertices["count"][vertex]
                begins = (sources == 0) & self._is_inside(paths, vertices["start"][vertex])
                begun = paths.take(begins)
                is_whole = begun.owed < 0
                counts += np.bincount(begun.root[is_whole], minlength=len(counts))
                begun = begun.take(~is_whole)
                after = begun._replace(bound=begun.since, owed=np.full_like(begun.owed, -1))
                going = self._go_on(paths.take(sources > 0), vertex[sources > 0])
                owed = self._find(after, begun.owed)
                if going is None or owed is None:
                    return None
                found = [*going, *owed]
                parts = [part for part, _ in found]
                paths = Paths(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
                vertex = np.concatenate([each for _, each in found])
        except TooManyPaths:
            return None
        return counts

    def _go_on(self, paths: Paths, vertex: Records) -> list[tuple[Paths, Records]] | None:
        """Return the paths that go on through the sources of their vertices; None: not known."""
        sources, once = self._memory.sources, self._links.once
        number, first = (self._memory.vertices[name][vertex] for name in ("count", "first"))
        is_middle = number > 1
        if not is_middle.any():
            return self._find(paths, first)
        middle, owed = paths.take(is_middle), first[is_middle]
        if (
            not len(self._links.own)
            or (number > 2).any()
            or once[sources["link"][owed]].any()
            or not once[sources["link"][owed + 1]].all()
            or (middle.owed >= 0).any()
        ):
            return None
        plain = self._find(paths.take(~is_middle), first[~is_middle])
        across = self._find(middle._replace(owed=owed.astype(np.int64)), owed + 1)
        if plain is None or across is None:
            return None
        for part, reached in across:
            begin = self._memory.facts[reached, self._links.own[0]] + 1
            plain.append((part._replace(since=np.maximum(part.bound, begin)), reached))
        return plain

    def _find(self, paths: Paths, source: Indexes) -> list[tuple[Paths, Records]] | None:
        """Return the paths to the vertices that sources name; None: an index is not known."""
        link = self._memory.sources["link"][source]
        kind, operator = self._links.kind[self._links.store[link]], self._links.operator[link]
        is_union, is_sorted = kind == r.UNION, kind == r.SORTED
        if not (is_union | (is_sorted & (operator <= r.EQUAL))).all():
            return None
        return [
            (paths.take(slice(0, 0)), np.zeros(0, np.int32)),
            *self._walk_unions(paths.take(is_union), source[is_union]),
            *self._walk_ranges(paths.take(is_sorted), source[is_sorted]),
        ]

    def _is_inside(self, paths: Paths, start: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which starts are inside the bounds of their paths, and note so many visits."""
        self._left -= len(start)
        if self._left < 0:
            raise TooManyPaths
        inside: NDArray[np.bool_] = start >= paths.bound
        return inside

    def _walk_unions(self, paths: Paths, source: Indexes) -> Iterator[tuple[Paths, Records]]:
        """Yield the vertices of versions of union trees."""
        nodes = self._memory.nodes
        node, version = self._memory.sources["at"][source], self._memory.sources["version"][source]
        while len(node):
            kept = (node != 0) & self._is_inside(paths, nodes["start"][node])
            paths, node, version = paths.take(kept), node[kept], version[kept]
            yield paths, nodes["vertex"][node]
            since = nodes["since"][node]
            is_later = (since >= 0) & (since < version)
            right = np.where(is_later, nodes["later"][node], nodes["right"][node])
            paths = paths.twice()
            node = np.concatenate([nodes["left"][node], right])
            # left sides no longer change
            version = np.concatenate([np.full_like(version, _NEWEST), version])

    def _walk_ranges(self, paths: Paths, source: Indexes) -> Iterator[tuple[Paths, Records]]:
        """Yield the vertices in ranges of search trees."""
        sources, branches = self._memory.sources, self._memory.branches
        branch = sources["at"][source]
        while len(branch):
            kept = (branch != 0) & self._is_inside(paths, branches["best"][branch])
            paths, branch, source = paths.take(kept), branch[kept], source[kept]
            operator = self._links.operator[sources["link"][source]]
            asked = self._memory.asked[sources["asked"][source]]
            high, low = branches["high"][branch], branches["low"][branch]
            order = _compare(high, asked[:, 0])
            order = np.where(order == 0, _compare(low, asked[:, 1]), order)
            in_range = _IN_RANGE[operator, order + 1]
            found = in_range & (branches["start"][branch] >= paths.bound)
            found &= _are_comparable(high, asked[:, 0])
            yield paths.take(found), branches["vertex"][branch[found]]
            is_beyond = (order > 0) | (operator == r.LESS)
            left, right = in_range | is_beyond, in_range | ~is_beyond
            both = np.concatenate([np.flatnonzero(left), np.flatnonzero(right)])
            paths = paths.take(both)
            source = source[both]
            lefts, rights = branches["left"][branch[left]], branches["right"][branch[right]]
            branch = np.concatenate([lefts, rights])


def _compare(values: NDArray[np.int64], others: NDArray[np.int64]) -> NDArray[np.int8]:
    """Return 1 where a value is larger than the other one, -1 where it is smaller."""
    return (values > others).astype(np.int8) - (values < others)


def _are_comparable(high: NDArray[np.int64], asked: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Do as `ordered.is_comparable`, for arrays."""
    numbers = (high <= r.LARGEST_NUMBER) & (asked <= r.LARGEST_NUMBER)
    same: NDArray[np.bool_] = high >> r.KIND_BITS == asked >> r.KIND_BITS
    return numbers | same
