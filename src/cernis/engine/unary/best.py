"""The best matches of each root by weight: (max, +) on the compact set.

The weight of a match is the sum of the weights of its items. One walk gives each node the best
weight of a match below it, and the latest start of such a match. Then matches come best first: the
walk to a match puts each side that it passes into a heap, by the best weight that it leads to, as
in k shortest paths. Of equal weights the latest start comes first.

Cost contract: per root, O(nodes inside the window) for the best weights (without a window all roots
share one pass), then O(length + log of the heap) for each match. The other matches are not listed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import borrowing as kernel
from cernis.compiled import inner
from cernis.engine.listing import Listing, empty_listing, trim_listing
from cernis.engine.settings import FOREVER
from cernis.engine.unary.arena import ArenaSegment, find_ready, is_inside

_DONE, _LISTING_FULL, _HEAP_FULL, _PATH_FULL = range(4)


class NodeBests(NamedTuple):
    """Per node, the best weight of a match below it and its start, where stamps say so."""

    stamps: NDArray[np.int64]
    weight: NDArray[Any]
    start: NDArray[np.int64]
    stack: NDArray[np.int32]


class BestWalk(NamedTuple):
    """The sides that wait in the heap, and the paths to them."""

    total: NDArray[Any]
    """The best weight of a whole match that goes this way."""
    start: NDArray[np.int64]
    node: NDArray[np.int32]
    """The node to go on with; negative: without its right side."""
    path: NDArray[np.int32]
    so_far: NDArray[Any]
    """The weight of the path."""
    path_position: NDArray[np.int64]
    path_label: NDArray[np.int32]
    path_before: NDArray[np.int32]
    path_length: NDArray[np.int32]


def find_reachable(segment: ArenaSegment) -> NDArray[np.int64]:
    """Return the marked items that a match of some root has, ascending."""
    size = int(segment.roots["node"].max(initial=0)) + 1
    bests = _new_bests(size, np.int64)
    reached = np.zeros(size, np.uint8)
    _reach(segment, bests, reached)
    return np.flatnonzero(reached)


def list_best(
    segment: ArenaSegment, weights: NDArray[Any], most: int, block: int = 65_536
) -> Iterator[Listing]:
    """Give the `most` best matches of each root, best first; `weights` has one for each node."""
    bests = _new_bests(len(weights), weights.dtype)
    walk = _new_walk(64, 256, weights.dtype)
    root, stamp, matches, marks = 0, 0, block, 4 * block
    while root < len(segment.roots):
        listing = empty_listing(matches, marks)
        status, after, stamp, found, used = _list_best(
            segment, weights, (most, root, stamp), bests, walk, listing
        )
        if found:
            yield trim_listing(listing, int(found), int(used))
        elif status == _LISTING_FULL:
            matches, marks = 2 * matches, 2 * marks
        root = int(after)
        if status in (_HEAP_FULL, _PATH_FULL):
            walk = _enlarge(walk, int(status))


def _new_bests(size: int, kind: Any) -> NodeBests:
    return NodeBests(
        np.zeros(size, np.int64),
        np.zeros(size, kind),
        np.zeros(size, np.int64),
        np.zeros(size + 64, np.int32),
    )


def _new_walk(waiting: int, path: int, kind: Any) -> BestWalk:
    return BestWalk(
        np.empty(waiting, kind),
        np.empty(waiting, np.int64),
        np.empty(waiting, np.int32),
        np.empty(waiting, np.int32),
        np.empty(waiting, kind),
        np.empty(path, np.int64),
        np.empty(path, np.int32),
        np.empty(path, np.int32),
        np.empty(path, np.int32),
    )


def _enlarge(walk: BestWalk, status: int) -> BestWalk:
    """Return a walk with twice the room in its heap or its paths."""
    names = BestWalk._fields[:5] if status == _HEAP_FULL else BestWalk._fields[5:]
    arrays = {name: getattr(walk, name) for name in names}
    larger = {name: np.empty(2 * len(array), array.dtype) for name, array in arrays.items()}
    return walk._replace(**larger)


@kernel
def _reach(segment, bests, reached):
    """Mark the items that carry labels and are inside the window of a root that reaches them."""
    arena, stamps, stack = segment.arena, bests.stamps, bests.stack
    stamp = 0
    for r in range(len(segment.roots)):
        bound = segment.roots[r]["bound"]
        if bound != FOREVER or stamp == 0:
            stamp += 1
        depth = 1
        stack[0] = segment.roots[r]["node"]
        while depth > 0:
            depth -= 1
            node = stack[depth]
            if stamps[node] == stamp:
                continue
            stamps[node] = stamp
            if arena[node]["label"] > 0:
                reached[node] = 1
            left, right = arena[node]["left"], arena[node]["right"]
            if left != 0 and stamps[left] != stamp:
                stack[depth] = left
                depth += 1
            if right != 0 and arena[right]["start"] >= bound and stamps[right] != stamp:
                stack[depth] = right
                depth += 1


@inner
def _own_best(arena, node, weights, bests):
    """Return the best weight below a node without its right side, and the start."""
    left = arena[node]["left"]
    if left == 0:
        return weights[node], arena[node]["position"]
    return weights[node] + bests.weight[left], bests.start[left]


@inner
def _find_bests(arena, root, bound, stamp, weights, bests):
    """Find the best weights of all nodes below a root, children first."""
    stamps, stack = bests.stamps, bests.stack
    stack[0] = root
    depth = find_ready(arena, bound, stamp, stamps, stack, 1)
    while depth > 0:
        node = stack[depth - 1]
        right = arena[node]["right"]
        weight, start = _own_best(arena, node, weights, bests)
        other, other_start = bests.weight[right], bests.start[right]
        if is_inside(arena, right, bound) and _is_better(other, other_start, weight, start):
            weight, start = other, other_start
        bests.weight[node] = weight
        bests.start[node] = start
        stamps[node] = stamp
        depth = find_ready(arena, bound, stamp, stamps, stack, depth - 1)


@inner
def _is_better(weight, start, other_weight, other_start):
    return weight > other_weight or (weight == other_weight and start > other_start)


@inner
def _push(walk, size, total, start, node, path, so_far):
    """Put a side into the heap of this size."""
    at = size
    while at > 0:
        above = (at - 1) >> 1
        if not _is_better(total, start, walk.total[above], walk.start[above]):
            break
        _move(walk, above, at)
        at = above
    walk.total[at], walk.start[at] = total, start
    walk.node[at], walk.path[at], walk.so_far[at] = node, path, so_far


@inner
def _move(walk, source, target):
    walk.total[target], walk.start[target] = walk.total[source], walk.start[source]
    walk.node[target], walk.path[target] = walk.node[source], walk.path[source]
    walk.so_far[target] = walk.so_far[source]


@inner
def _pop(walk, size):
    """Remove the best of a heap of size + 1; the last one sinks from its place."""
    total, start = walk.total[size], walk.start[size]
    node, path, so_far = walk.node[size], walk.path[size], walk.so_far[size]
    at = 0
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        if below + 1 < size and _is_better(
            walk.total[below + 1], walk.start[below + 1], walk.total[below], walk.start[below]
        ):
            below += 1
        if not _is_better(walk.total[below], walk.start[below], total, start):
            break
        _move(walk, below, at)
        at = below
    if size > 0:
        walk.total[at], walk.start[at] = total, start
        walk.node[at], walk.path[at], walk.so_far[at] = node, path, so_far


@kernel
def _list_best(segment, weights, begin, bests, walk, listing):
    """Fill the listing root by root; return (status, root to go on with, stamp, matches, marks).

    `begin` has the most matches of a root, the first root, and the stamp of the last one. A root
    that does not fit is listed again.
    """
    arena, roots = segment.arena, segment.roots
    most, first, stamp = begin
    matches = 0
    marks = 0
    listing.offset[0] = 0
    for r in range(first, len(roots)):
        bound = roots[r]["bound"]
        # without a window the best weights stay: nothing below a node ever expires
        if bound != FOREVER or stamp == 0:
            stamp += 1
        _find_bests(arena, roots[r]["node"], bound, stamp, weights, bests)
        status, matches_now, marks_now = _list_root(
            arena, roots[r : r + 1], most, weights, bests, walk, listing, (r, matches, marks)
        )
        if status != _DONE:
            return status, r, stamp, matches, marks
        matches, marks = matches_now, marks_now
    return _DONE, len(roots), stamp, matches, marks


@inner
def _list_root(arena, one_root, most, weights, bests, walk, listing, place):
    """List the best matches of a root; return (status, matches, marks) of the listing."""
    r, matches, marks = place
    bound, entry = one_root[0]["bound"], one_root[0]["node"]
    top = 0
    size = 0
    found = 0
    if most > 0:
        _push(walk, 0, bests.weight[entry], bests.start[entry], entry, -1, weights[0])
        size = 1
    while size > 0 and found < most:
        size -= 1
        node, path, so_far = walk.node[0], walk.path[0], walk.so_far[0]
        _pop(walk, size)
        while True:
            is_alone = node < 0
            node = abs(node)
            label, left, right = arena[node]["label"], arena[node]["left"], arena[node]["right"]
            weight, start = _own_best(arena, node, weights, bests)
            if not is_alone and right != 0 and arena[right]["start"] >= bound:
                other, other_start = bests.weight[right], bests.start[right]
                if size == len(walk.node):
                    return _HEAP_FULL, matches, marks
                if _is_better(other, other_start, weight, start):
                    _push(walk, size, so_far + weight, start, -node, path, so_far)
                    size += 1
                    node = right
                    continue
                _push(walk, size, so_far + other, other_start, right, path, so_far)
                size += 1
            so_far += weights[node]
            if label > 0:
                if top == len(walk.path_position):
                    return _PATH_FULL, matches, marks
                walk.path_position[top] = arena[node]["position"]
                walk.path_label[top] = label
                walk.path_before[top] = path
                walk.path_length[top] = 1 if path < 0 else walk.path_length[path] + 1
                path = np.int32(top)
                top += 1
            if left != 0:
                node = left
                continue
            length = 0 if path < 0 else walk.path_length[path]
            if matches == len(listing.root) or marks + length > len(listing.position):
                return _LISTING_FULL, matches, marks
            listing.root[matches] = r
            listing.start[matches] = arena[node]["position"]
            marks += length
            at = marks
            while path >= 0:
                at -= 1
                listing.position[at] = walk.path_position[path]
                listing.label[at] = walk.path_label[path]
                path = walk.path_before[path]
            matches += 1
            listing.offset[matches] = marks
            found += 1
            break
    return _DONE, matches, marks
