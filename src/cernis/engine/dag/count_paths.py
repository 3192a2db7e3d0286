"""Count matches as paths, by NumPy, until compiling the kernel that counts pays.

All roots go on at once: from vertices to the indexes that their sources name, through these, and on
to the vertices there. A path is a match, and a vertex is visited once for each path to it. So this
is for matches of few events in narrow windows; it gives up where paths are many. It knows unions
and orders, and vertices with one source. The kernel (`count`) counts the rest.

Cost: some 30 ns for each visit.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from cernis.engine.dag import records as r
from cernis.engine.dag.links import DagSegment

_NEWEST = np.iinfo(np.int64).max
"""The version of a union tree that has all changes."""
_IN_RANGE = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 1], [0, 1, 1], [0, 1, 0]], np.bool_)
"""Per operator up to EQUAL, whether smaller, equal and larger values are in its range."""

Places = NDArray[np.int64]
Records = NDArray[np.int32]


class TooManyPaths(Exception):
    """The paths have more visits than the caller allows."""


class PathWalk:
    """A walk along all paths below the roots of a segment; `most` bounds its visits.

    Of each path it knows the place of its root among the roots, and the record it has come to.
    """

    def __init__(self, segment: DagSegment, most: int) -> None:
        self._links, self._memory, self._roots = segment
        self._left = most

    def count(self) -> NDArray[np.int64] | None:
        """Return the number of matches of every root; None: the kernel has to count them."""
        vertices, counts = self._memory.vertices, np.zeros(len(self._roots), np.int64)
        root, vertex = np.arange(len(counts)), self._roots["vertex"]
        kinds, operators = self._links.kind[self._links.store], self._links.operator
        try:
            while len(root):
                sources = vertices["count"][vertex]
                begins = (sources == 0) & self._is_inside(root, vertices["start"][vertex])
                counts += np.bincount(root[begins], minlength=len(counts))
                root, vertex = root[sources > 0], vertex[sources > 0]
                source = vertices["first"][vertex]
                link = self._memory.sources["link"][source]
                is_union, is_sorted = kinds[link] == r.UNION, kinds[link] == r.SORTED
                is_known = is_union | (is_sorted & (operators[link] <= r.EQUAL))
                if not is_known.all() or (sources > 1).any():
                    return None
                found = [
                    (root[:0], vertex[:0]),
                    *self._walk_unions(root[is_union], source[is_union]),
                    *self._walk_ranges(root[is_sorted], source[is_sorted]),
                ]
                root, vertex = (np.concatenate(parts) for parts in zip(*found, strict=True))
        except TooManyPaths:
            return None
        return counts

    def _is_inside(self, root: Places, start: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which starts are inside the windows of their roots, and note so many visits."""
        self._left -= len(root)
        if self._left < 0:
            raise TooManyPaths
        inside: NDArray[np.bool_] = start >= self._roots["bound"][root]
        return inside

    def _walk_unions(self, root: Places, source: Records) -> Iterator[tuple[Places, Records]]:
        """Yield the vertices of versions of union trees."""
        nodes = self._memory.nodes
        node, version = self._memory.sources["at"][source], self._memory.sources["version"][source]
        while len(root):
            kept = (node != 0) & self._is_inside(root, nodes["start"][node])
            root, node, version = root[kept], node[kept], version[kept]
            yield root, nodes["vertex"][node]
            since = nodes["since"][node]
            is_later = (since >= 0) & (since < version)
            right = np.where(is_later, nodes["later"][node], nodes["right"][node])
            root = np.concatenate([root, root])
            node = np.concatenate([nodes["left"][node], right])
            # left sides no longer change
            version = np.concatenate([np.full_like(version, _NEWEST), version])

    def _walk_ranges(self, root: Places, source: Records) -> Iterator[tuple[Places, Records]]:
        """Yield the vertices in ranges of search trees."""
        sources, branches = self._memory.sources, self._memory.branches
        branch = sources["at"][source]
        while len(root):
            kept = (branch != 0) & self._is_inside(root, branches["best"][branch])
            root, branch, source = root[kept], branch[kept], source[kept]
            operator = self._links.operator[sources["link"][source]]
            asked = self._memory.asked[sources["asked"][source]]
            high, low = branches["high"][branch], branches["low"][branch]
            order = _compare(high, asked[:, 0])
            order = np.where(order == 0, _compare(low, asked[:, 1]), order)
            in_range = _IN_RANGE[operator, order + 1]
            found = in_range & (branches["start"][branch] >= self._roots["bound"][root])
            found &= _are_comparable(high, asked[:, 0])
            yield root[found], branches["vertex"][branch[found]]
            is_beyond = (order > 0) | (operator == r.LESS)
            left, right = in_range | is_beyond, in_range | ~is_beyond
            root = np.concatenate([root[left], root[right]])
            source = np.concatenate([source[left], source[right]])
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
