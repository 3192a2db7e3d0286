"""Counting and unranking on the compact set: no match is enumerated.

The number of matches below a node, restricted to the window, is a sum over the nodes
that can be reached: additions only. Counts are exact integers of any size, in limbs of
62 bits: one limb at first, twice as many where they do not suffice.

Cost contract: O(nodes that a root reaches inside its window) per root, independent of
the number of matches. Without a window all roots share one pass. With one, `most` bounds the nodes
that are visited in all: a caller that can count in another way (`aggregate`) gives up in time.

Until compiling pays, NumPy follows the paths of many roots at once (`count_paths`), which takes as
long as the kernel for short paths. It visits a node once for each path, so it gives up where paths
are many.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import borrowing as kernel
from cernis.compiled import inner
from cernis.compiled.tiers import arrays_in_pieces, call_patiently, cut_events
from cernis.engine.settings import FOREVER
from cernis.engine.unary.arena import UNION, ArenaSegment, find_ready, is_inside

_LIMB = 62
_LOW = 2**62 - 1
NO_LIMIT = 2**62
"""No walk visits so many nodes."""
_MOST_VISITS = 1 << 21
"""More visits than this are left to the kernel: they take a twentieth of a second."""


@inner
def _add_limbs(values, node, left, right):
    """Write the sum of two counts (node 0 counts 1 on the left); False: too few limbs."""
    carry = np.int64(left == 0)
    for w in range(values.shape[1]):
        if left != 0:
            carry += values[left, w]
        if right != 0:
            carry += values[right, w]
        values[node, w] = carry & _LOW
        carry >>= _LIMB
    return carry == 0


@inner
def _count(arena, node, bound, stamp, stamps, values, stack):
    """Count the matches below a node in limbs, lowest first; return the nodes visited.

    -1: the limbs are too few. `values` has the counts of nodes where stamps == stamp.
    """
    visited = 0
    stack[0] = node
    depth = find_ready(arena, bound, stamp, stamps, stack, 1)
    while depth > 0:
        node = stack[depth - 1]
        left, right = arena[node]["left"], arena[node]["right"]
        inside = is_inside(arena, right, bound)
        if values.shape[1] == 1:
            total = values[left, 0] if left != 0 else 1
            if inside:
                total += values[right, 0]
            values[node, 0] = total
            if total > _LOW:
                return -1
        elif not _add_limbs(values, node, left, right if inside else 0):
            return -1
        stamps[node] = stamp
        visited += 1
        depth = find_ready(arena, bound, stamp, stamps, stack, depth - 1)
    return visited


@kernel
def _count_root(arena, node, bound, stamp, stamps, values, stack):
    """Do as `_count`, called from Python."""
    return _count(arena, node, bound, stamp, stamps, values, stack)


@kernel
def _count_roots(arena, roots, begin, out, most, scratch):
    """Count the roots from `begin` on; return the first that is not counted, and the nodes visited.

    It is not counted because the limbs are too few, or because more than `most` nodes are visited.
    """
    stamps, values, stack = scratch
    stamp = visited = 0
    for r in range(begin, len(roots)):
        node, bound = roots[r]["node"], roots[r]["bound"]
        # without a window counts stay: nothing below a node ever expires
        if bound != FOREVER or stamp == 0:
            stamp += 1
        nodes = _count(arena, node, bound, stamp, stamps, values, stack)
        if nodes < 0:
            return r, visited
        visited += nodes
        if visited > most:
            return r, visited
        for w in range(values.shape[1]):
            out[r, w] = values[node, w]
    return len(roots), visited


@inner
def _take_limbs(rank, values, node):
    """Subtract the count of a node (1 of node 0) from a rank; False: the rank is smaller."""
    for w in range(len(rank) - 1, -1, -1):
        own = values[node, w] if node != 0 else np.int64(w == 0)
        if rank[w] < own:
            return False
        if rank[w] > own:
            break
    borrow = np.int64(0)
    for w in range(len(rank)):
        own = values[node, w] if node != 0 else np.int64(w == 0)
        left = rank[w] - own - borrow
        borrow = np.int64(left < 0)
        rank[w] = left + (borrow << _LIMB)
    return True


@kernel
def _find_path(arena, node, bound, rank, values, items):
    """Write the items of the match with a rank, last event first; return how many.

    -1: the room for items is too small. The limbs of the rank are used up.
    """
    found = 0
    while node != 0:
        left, right = arena[node]["left"], arena[node]["right"]
        if is_inside(arena, right, bound) and _take_limbs(rank, values, left):
            node = right
            continue
        if arena[node]["label"] != UNION:
            if found == len(items):
                return -1
            items[found] = node
            found += 1
        node = left
    return found


def _new_scratch(nodes: int, width: int) -> tuple[NDArray[np.int64], ...]:
    """Make (stamps, values, stack) for counts of so many limbs."""
    values = np.empty((nodes, width), np.int64)
    return np.zeros(nodes, np.int64), values, np.empty(nodes + 1, np.int64)


class ArenaCounts:
    """The exact counts below one root, for choosing a match by its rank."""

    def __init__(self, arena: NDArray[np.void], root: np.void) -> None:
        self.arena = arena
        self.root = root
        node, bound = int(root["node"]), int(root["bound"])
        scratch = _new_scratch(node + 1, 1)
        while _count_root(arena, node, bound, 1, *scratch) < 0:
            scratch = _new_scratch(node + 1, 2 * scratch[1].shape[1])
        self._values = scratch[1]
        self._items = np.empty(64, np.int64)

    def of(self, node: int) -> int:
        """Return the number of matches below a node."""
        return sum(int(limb) << (_LIMB * w) for w, limb in enumerate(self._values[node]))

    @property
    def total(self) -> int:
        """The number of matches of the root."""
        return self.of(int(self.root["node"]))

    def path(self, rank: int) -> NDArray[np.int64]:
        """Return the items, last event first, of the match with this rank."""
        node, bound = int(self.root["node"]), int(self.root["bound"])
        while True:
            limbs = [rank >> (_LIMB * w) & _LOW for w in range(self._values.shape[1])]
            left = np.array(limbs, np.int64)
            found = _find_path(self.arena, node, bound, left, self._values, self._items)
            if found >= 0:
                return self._items[:found].copy()
            self._items = np.empty(2 * len(self._items), np.int64)


def count_matches(segment: ArenaSegment) -> list[int]:
    """Return the number of matches of every root."""
    counts = count_within(segment, NO_LIMIT)[0]
    assert counts is not None
    return counts


def count_within(segment: ArenaSegment, most: int) -> tuple[list[int] | None, int]:
    """Return the number of matches of every root, and how many nodes were visited.

    None: these are more than `most`.
    """
    arena, roots = segment
    counts: list[int] = []
    left = most
    shares_counts = (roots["bound"] == FOREVER).all()
    if not shares_counts:
        for found in arrays_in_pieces(_count_roots, partial(_count_slice, segment), len(roots)):
            counts += found.tolist()
        roots = roots[len(counts) :]
    for piece in [slice(None)] if shares_counts else cut_events(len(roots)):
        some, visited = _count_piece(arena, roots[piece], left)
        left -= visited
        if left < 0:
            return None, most - left
        counts += some
    return counts, most - left


def _count_slice(segment: ArenaSegment, piece: slice) -> NDArray[np.int64] | None:
    return count_paths(segment._replace(roots=segment.roots[piece]), _MOST_VISITS)


def count_paths(segment: ArenaSegment, most: int) -> NDArray[np.int64] | None:
    """Return the number of matches of every root, by NumPy; None: it takes more visits than `most`.

    Each round goes one node further on all paths of all roots.
    """
    arena, roots = segment
    lefts, rights, starts, bounds = arena["left"], arena["right"], arena["start"], roots["bound"]
    counts = np.zeros(len(roots), np.int64)
    root, node = np.arange(len(roots)), roots["node"]
    visited = 0
    while len(node):
        visited += len(node)
        if visited > most:
            return None
        left, right = lefts[node], rights[node]
        goes_on = left != 0
        counts += np.bincount(root[~goes_on], minlength=len(roots))
        inside = (right != 0) & (starts[right] >= bounds[root])
        root = np.concatenate([root[goes_on], root[inside]])
        node = np.concatenate([left[goes_on], right[inside]])
    return counts


def _count_piece(
    arena: NDArray[np.void], roots: NDArray[np.void], most: int
) -> tuple[list[int], int]:
    """Return the number of matches of some roots, and how many nodes were visited.

    Where these are more than `most`, some roots are not counted.
    """
    size = int(roots["node"].max(initial=0)) + 1
    counts: list[int] = []
    width, left = 1, most
    while len(counts) < len(roots) and left >= 0:
        limbs, begin = np.empty((len(roots), width), np.int64), len(counts)
        scratch = _new_scratch(size, width)
        args = arena, roots, begin, limbs, left, scratch
        done, visited = call_patiently(_count_roots, *args)
        left -= visited
        columns = limbs[begin:done].astype(object).T
        counts += sum(column << _LIMB * w for w, column in enumerate(columns)).tolist()
        width *= 2
    return counts, most - left
