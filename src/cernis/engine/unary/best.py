"""The best matches of each root by weight: (max, +) on the compact set.

The weight of a match is the sum of the weights of its items. One walk gives each node the best
weight of a match below it, and the latest start of such a match. Then matches come best first: the
walk to a match puts each side that it passes into a heap, by the best weight that it leads to, as
in k shortest paths. Of equal weights the latest start comes first.

Or the earliest: then, of one start, the match that marks the first event that only one of two
marks. That order is decided by prefixes too: what two matches have below a node in common stays.

Cost contract: per root, O(nodes inside the window) for the best weights (without a window all roots
share one pass), then O(length + log of the heap) for each match. The other matches are not listed.
Where the earliest comes first, comparing two matches of equal weight and start walks to where they
meet, and in the heap along both. Where the best of all roots are asked for, a root whose best match
is not among them costs the walk for weights only.
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

_MOST_COMPARED = 1 << 16
_DONE, _LISTING_FULL, _HEAP_FULL, _PATH_FULL = range(4)


class NodeBests(NamedTuple):
    """Per node, the best weight of a match below it and its start, where stamps say so."""

    stamps: NDArray[np.int64]
    weight: NDArray[Any]
    start: NDArray[np.int64]
    """The start of the match, its opposite where the earliest comes first."""
    is_own: NDArray[np.bool_]
    """Whether the best match is one of the node itself, not of its right side."""
    stack: NDArray[np.int32]
    label_rank: NDArray[np.int64]
    """The order of labels where the earliest match comes first; empty: the latest start does."""


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
    spelled: NDArray[np.int64]
    """The positions, and the ranks of labels, of two matches that are compared."""
    top: NDArray[Any]
    """The best weights of all roots so far, a heap with the least first; empty: not asked for."""
    fresh: NDArray[Any]
    """The weights of the matches of one root."""
    filled: NDArray[np.int64]
    """How many weights `top` has, and the last end that they come from."""
    least: NDArray[Any]
    """The least weight to list; empty: any."""


def find_reachable(segment: ArenaSegment) -> NDArray[np.int64]:
    """Return the marked items that a match of some root has, ascending."""
    size = int(segment.roots["node"].max(initial=0)) + 1
    bests = _new_bests(size, np.int64)
    reached = np.zeros(size, np.uint8)
    _reach(segment, bests, reached)
    return np.flatnonzero(reached)


def list_best(
    segment: ArenaSegment,
    weights: NDArray[Any],
    most: int,
    label_rank: NDArray[np.int64] | None = None,
    *,
    overall: bool = False,
    least: float | None = None,
    block: int = 65_536,
) -> Iterator[Listing]:
    """Give the `most` best matches of each root, best first; `weights` has one for each node.

    With the rank of each label, the earliest of equal weights come first, else the latest starts.
    `overall` the best are asked for, those of earlier ends first: others may be missing.
    Those of less than the `least` weight are not listed.
    """
    bests = _new_bests(len(weights), weights.dtype)
    walk = _new_walk(64, 256, weights.dtype)
    if label_rank is not None:
        bests = bests._replace(label_rank=label_rank)
        walk = walk._replace(spelled=np.zeros((4, 2 * len(weights) + 2), np.int64))
    if overall and most <= _MOST_COMPARED:
        top, fresh = np.zeros((2, most), weights.dtype)
        walk = walk._replace(top=top, fresh=fresh)
    if least is not None:
        walk = walk._replace(least=np.array([least], weights.dtype))
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
        np.ones(size, np.bool_),
        np.zeros(size + 64, np.int32),
        np.zeros(0, np.int64),
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
        np.zeros((4, 2), np.int64),
        np.zeros(0, kind),
        np.zeros(0, kind),
        np.zeros(2, np.int64),
        np.zeros(0, kind),
    )


def _enlarge(walk: BestWalk, status: int) -> BestWalk:
    """Return a walk with twice the room in its heap or its paths."""
    names = BestWalk._fields[:5] if status == _HEAP_FULL else BestWalk._fields[5:9]
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
        position = arena[node]["position"]
        return weights[node], position if len(bests.label_rank) == 0 else -position
    return weights[node] + bests.weight[left], bests.start[left]


@inner
def _find_bests(arena, root, stamp, weights, bests, by_marks):
    """Find the best weights of all nodes below a root, children first; `by_marks`: and matches."""
    root, bound = root["node"], root["bound"]
    stamps, stack = bests.stamps, bests.stack
    stack[0] = root
    depth = find_ready(arena, bound, stamp, stamps, stack, 1)
    while depth > 0:
        node = stack[depth - 1]
        right = arena[node]["right"]
        weight, start = _own_best(arena, node, weights, bests)
        other, other_start = bests.weight[right], bests.start[right]
        bests.is_own[node] = True
        if is_inside(arena, right, bound) and (
            _is_better(other, other_start, weight, start)
            or (
                by_marks
                and other == weight
                and other_start == start
                and _is_right_earlier(arena, node, bests)
            )
        ):
            bests.is_own[node] = False
            weight, start = other, other_start
        bests.weight[node] = weight
        bests.start[node] = start
        stamps[node] = stamp
        depth = find_ready(arena, bound, stamp, stamps, stack, depth - 1)


@inner
def _is_better(weight, start, other_weight, other_start):
    return weight > other_weight or (weight == other_weight and start > other_start)


@inner
def _find_mark(arena, node, bests):
    """Return the last marked item of the best match below a node; 0: it has none."""
    while node != 0:
        if not bests.is_own[node]:
            node = arena[node]["right"]
        elif arena[node]["label"] > 0:
            break
        else:
            node = arena[node]["left"]
    return node


@inner
def _find_own_mark(arena, node, bests):
    """Return the last marked item of the best match of a node without its right side."""
    if arena[node]["label"] > 0:
        return node
    return _find_mark(arena, arena[node]["left"], bests)


@inner
def _is_right_earlier(arena, node, bests):
    """Whether the best match of the right side of a node is earlier than that of the node itself.

    Both are walked from their ends, until they meet: the last difference decides.
    """
    own, other = _find_own_mark(arena, node, bests), _find_mark(arena, arena[node]["right"], bests)
    is_earlier = False
    while own != other:
        here = arena[own]["position"] if own != 0 else np.int64(-1)
        there = arena[other]["position"] if other != 0 else np.int64(-1)
        if here != there:
            is_earlier = bool(here < there)
        else:
            rank = bests.label_rank[arena[own]["label"]]
            other_rank = bests.label_rank[arena[other]["label"]]
            if rank != other_rank:
                is_earlier = other_rank < rank
        if here >= there:
            own = _find_mark(arena, arena[own]["left"], bests)
        if there >= here:
            other = _find_mark(arena, arena[other]["left"], bests)
    return is_earlier


@inner
def _spell(arena, bests, walk, node, path, row):
    """Write the marks of the best match of a side, ascending; return where they begin and end."""
    positions, ranks = walk.spelled[row], walk.spelled[row + 1]
    low = high = len(positions) >> 1
    at = _find_own_mark(arena, -node, bests) if node < 0 else _find_mark(arena, node, bests)
    while at != 0:
        low -= 1
        positions[low] = arena[at]["position"]
        ranks[low] = bests.label_rank[arena[at]["label"]]
        at = _find_mark(arena, arena[at]["left"], bests)
    while path >= 0:
        positions[high] = walk.path_position[path]
        ranks[high] = bests.label_rank[walk.path_label[path]]
        high += 1
        path = walk.path_before[path]
    return low, high


@inner
def _is_side_better(arena, bests, walk, side, at):
    """Return whether a side (total, start, node, path, so far) comes before one in the heap."""
    total, start, node, path = side[0], side[1], side[2], side[3]
    if total != walk.total[at] or start != walk.start[at] or len(bests.label_rank) == 0:
        return _is_better(total, start, walk.total[at], walk.start[at])
    low, high = _spell(arena, bests, walk, node, path, 0)
    other_low, other_high = _spell(arena, bests, walk, walk.node[at], walk.path[at], 2)
    for i in range(high - low):
        if i == other_high - other_low:
            return True
        for row in range(2):  # the position, then the rank of the label
            mark, other = walk.spelled[row, low + i], walk.spelled[row + 2, other_low + i]
            if mark != other:
                return mark < other
    return False


@inner
def _push(arena, bests, walk, size, side):
    """Put a side into the heap of this size."""
    at = size
    while at > 0:
        above = (at - 1) >> 1
        if not _is_side_better(arena, bests, walk, side, above):
            break
        _move(walk, above, at)
        at = above
    walk.total[at], walk.start[at], walk.node[at], walk.path[at], walk.so_far[at] = side


@inner
def _read_side(walk, at):
    return walk.total[at], walk.start[at], walk.node[at], walk.path[at], walk.so_far[at]


@inner
def _move(walk, source, target):
    walk.total[target], walk.start[target] = walk.total[source], walk.start[source]
    walk.node[target], walk.path[target] = walk.node[source], walk.path[source]
    walk.so_far[target] = walk.so_far[source]


@inner
def _pop(arena, bests, walk, size):
    """Remove the best of a heap of size + 1; the last one sinks from its index."""
    last = _read_side(walk, size)
    at = 0
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        if below + 1 < size:
            side = _read_side(walk, below + 1)
            if _is_side_better(arena, bests, walk, side, below):
                below += 1
        if _is_side_better(arena, bests, walk, last, below):
            break
        _move(walk, below, at)
        at = below
    if size > 0:
        walk.total[at], walk.start[at], walk.node[at], walk.path[at], walk.so_far[at] = last


@inner
def _is_beaten(walk, weight, end):
    """Whether all weights that are asked for are greater, or as great and of earlier ends."""
    if walk.filled[0] < len(walk.top):
        return False
    return weight < walk.top[0] or (weight == walk.top[0] and end > walk.filled[1])


@inner
def _note_weight(walk, weight, end):
    """Put a weight among the best of all, in place of the least."""
    top, size = walk.top, walk.filled[0]
    if size < len(top):
        at = size
        while at > 0 and top[(at - 1) >> 1] > weight:
            top[at] = top[(at - 1) >> 1]
            at = (at - 1) >> 1
        top[at] = weight
        walk.filled[0] += 1
    elif weight > top[0]:
        at = 0
        while True:
            below = 2 * at + 1
            if below + 1 < size and top[below + 1] < top[below]:
                below += 1
            if below >= size or top[below] >= weight:
                break
            top[at] = top[below]
            at = below
        top[at] = weight
    else:
        return
    walk.filled[1] = max(walk.filled[1], end)


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
        if bound != FOREVER and walk.filled[0] > 0 and walk.filled[0] == len(walk.top):
            _find_bests(arena, roots[r], stamp, weights, bests, False)
            if _is_beaten(walk, bests.weight[roots[r]["node"]], roots[r]["end"]):
                continue
            stamp += 1
        _find_bests(arena, roots[r], stamp, weights, bests, len(bests.label_rank) > 0)
        status, matches_now, marks_now = _list_root(
            arena, roots[r : r + 1], most, weights, bests, walk, listing, (r, matches, marks)
        )
        if status != _DONE:
            return status, r, stamp, matches, marks
        if len(walk.top) > 0:
            for i in range(matches_now - matches):
                _note_weight(walk, walk.fresh[i], roots[r]["end"])
        matches, marks = matches_now, marks_now
    return _DONE, len(roots), stamp, matches, marks


@inner
def _list_root(arena, one_root, most, weights, bests, walk, listing, state):
    """List the best matches of a root; return (status, matches, marks) of the listing."""
    r, matches, marks = state
    bound, entry = one_root[0]["bound"], one_root[0]["node"]
    top = 0
    size = 0
    found = 0
    if most > 0:
        first = bests.weight[entry], bests.start[entry], np.int32(entry), np.int32(-1), weights[0]
        _push(arena, bests, walk, 0, first)
        size = 1
    while size > 0 and found < most:
        if len(walk.least) > 0 and walk.total[0] < walk.least[0]:
            break
        if len(walk.top) > 0:
            if _is_beaten(walk, walk.total[0], one_root[0]["end"]):
                break
            walk.fresh[found] = walk.total[0]
        size -= 1
        node, path, so_far = walk.node[0], walk.path[0], walk.so_far[0]
        _pop(arena, bests, walk, size)
        while True:
            is_alone = node < 0
            node = abs(node)
            label, left, right = arena[node]["label"], arena[node]["left"], arena[node]["right"]
            weight, start = _own_best(arena, node, weights, bests)
            if not is_alone and right != 0 and arena[right]["start"] >= bound:
                other, other_start = bests.weight[right], bests.start[right]
                if size == len(walk.node):
                    return _HEAP_FULL, matches, marks
                if not bests.is_own[node]:
                    side = so_far + weight, start, np.int32(-node), path, so_far
                    _push(arena, bests, walk, size, side)
                    size += 1
                    node = right
                    continue
                side = so_far + other, other_start, np.int32(right), path, so_far
                _push(arena, bests, walk, size, side)
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
