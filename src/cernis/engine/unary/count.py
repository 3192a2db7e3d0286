"""Counting and unranking on the compact set: no match is enumerated.

The number of matches below a node, restricted to the window, is a sum over the nodes
that can be reached: additions only. A first pass counts in floating point, which is
exact below 2^53; a root that exceeds it is counted again in limbs of 62 bits, twice as
many until they suffice. So counts are exact integers of any size.

Cost contract: O(nodes that a root reaches inside its window) per root, independent of
the number of matches. Without a window all roots share one pass.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import borrowing as kernel
from cernis.engine.settings import FOREVER
from cernis.engine.unary.arena import UNION, ArenaSegment

_EXACT = float(2**53)
_LIMB = 62


@kernel
def _estimate(arena, node, bound, stamp, stamps, values, stack):
    """Count the matches below a node in floating point; `values` holds where stamps == stamp."""
    depth = 1
    stack[0] = node
    while depth > 0:
        node = stack[depth - 1]
        if stamps[node] == stamp:
            depth -= 1
            continue
        left, right = arena[node]["left"], arena[node]["right"]
        inside = right != 0 and arena[right]["start"] >= bound
        if left != 0 and stamps[left] != stamp:
            stack[depth] = left
            depth += 1
            continue
        if inside and stamps[right] != stamp:
            stack[depth] = right
            depth += 1
            continue
        values[node] = (values[left] if left != 0 else 1.0) + (values[right] if inside else 0.0)
        stamps[node] = stamp
        depth -= 1


@kernel
def _estimates(arena, roots, stamps, values, stack, out):
    """Count the matches of every root in floating point."""
    stamp = 0
    for r in range(len(roots)):
        # without a window counts stay: nothing below a node ever expires
        if roots[r]["bound"] != FOREVER or stamp == 0:
            stamp += 1
        _estimate(arena, roots[r]["node"], roots[r]["bound"], stamp, stamps, values, stack)
        out[r] = values[roots[r]["node"]]


@kernel
def _limbs(arena, node, bound, stamp, seen, values, stack):
    """Count the matches below a node in limbs of 62 bits, lowest first; False: too few limbs."""
    width = values.shape[1]
    depth = 1
    stack[0] = node
    while depth > 0:
        node = stack[depth - 1]
        if seen[node] == stamp:
            depth -= 1
            continue
        left, right = arena[node]["left"], arena[node]["right"]
        inside = right != 0 and arena[right]["start"] >= bound
        if left != 0 and seen[left] != stamp:
            stack[depth] = left
            depth += 1
            continue
        if inside and seen[right] != stamp:
            stack[depth] = right
            depth += 1
            continue
        carry = np.int64(0)
        for w in range(width):
            total = carry
            if left != 0:
                total += values[left, w]
            elif w == 0:
                total += 1
            if inside:
                total += values[right, w]
            carry = total >> 62
            values[node, w] = total & ((np.int64(1) << 62) - 1)
        if carry != 0:
            return False
        seen[node] = stamp
        depth -= 1
    return True


class ArenaCounts:
    """The exact counts below one root, for choosing a match by its rank.

    `count_root` moves to another root of the same arena and uses the same memory.
    """

    def __init__(self, arena: NDArray[np.void], root: np.void) -> None:
        self.arena = arena
        self._seen = np.zeros(0, np.int64)
        self._stack = np.empty(0, np.int64)
        self._values = np.zeros((0, 1), np.int64)
        self._stamp = 0
        self.count_root(root)

    def count_root(self, root: np.void) -> None:
        """Count the matches below this root."""
        self.root = root
        node, bound = int(root["node"]), int(root["bound"])
        if node >= len(self._seen):
            self._reserve(node + 1, self._values.shape[1])
        while True:
            self._stamp += 1
            if _limbs(self.arena, node, bound, self._stamp, self._seen, self._values, self._stack):
                return
            self._reserve(len(self._seen), 2 * self._values.shape[1])

    def _reserve(self, nodes: int, width: int) -> None:
        self._seen = np.zeros(nodes, np.int64)
        self._stack = np.empty(nodes + 1, np.int64)
        self._values = np.empty((nodes, width), np.int64)

    def of(self, node: int) -> int:
        """Return the number of matches below a node."""
        return sum(int(limb) << (_LIMB * w) for w, limb in enumerate(self._values[node]))

    @property
    def total(self) -> int:
        """The number of matches of the root."""
        return self.of(int(self.root["node"]))

    def path(self, rank: int) -> list[int]:
        """Return the items, last event first, of the match with this rank."""
        node, bound = int(self.root["node"]), int(self.root["bound"])
        items = []
        while node:
            record = self.arena[node]
            left, right = int(record["left"]), int(record["right"])
            own = self.of(left) if left else 1
            if right and rank >= own and self.arena[right]["start"] >= bound:
                rank -= own
                node = right
                continue
            if record["label"] != UNION:
                items.append(node)
            node = left
        return items


def count_matches(segment: ArenaSegment) -> list[int]:
    """Return the number of matches of every root."""
    arena, roots = segment
    if not len(roots):
        return []
    size = int(roots["node"].max()) + 1
    estimates = np.empty(len(roots), np.float64)
    stamps, values = np.zeros(size, np.int64), np.empty(size, np.float64)
    _estimates(arena, roots, stamps, values, np.empty(size + 1, np.int64), estimates)
    if estimates.max() < _EXACT:
        return [int(estimate) for estimate in estimates]
    # the root with the highest node first, so that there is room for all
    exact = ArenaCounts(arena, roots[int(roots["node"].argmax())])
    counts = []
    for root, estimate in zip(roots, estimates, strict=True):
        if estimate < _EXACT:
            counts.append(int(estimate))
        else:
            exact.count_root(root)
            counts.append(exact.total)
    return counts
