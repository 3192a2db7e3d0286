"""Enumeration: from roots to matches as arrays, latest start first, output-linear delay.

The walk visits the nodes below a root best first. It always goes left, where the latest
start is, and puts the right sides it passes into a heap by their latest start. So matches
of one end position come by descending start (in units of the window: starts at the same
time are equal), and `LIMIT` and `head` take the latest ones. Paths share their ends, as a
linked list.

Cost contract: between two matches O(length of the match + log of the heap). The kernel
fills fixed buffers and goes on where it stopped, so an answer of any size streams through
bounded memory with no Python object per match. When the heap of one root has more than
`MOST_WAITING` alternatives, the rest of that root is walked depth first, which needs no
more memory but keeps the order only roughly.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import borrowing as kernel
from cernis.compiled import inner
from cernis.compiled.tiers import call_briefly
from cernis.engine.listing import Listing, empty_listing, trim_listing
from cernis.engine.unary.arena import UNION, ArenaSegment

MOST_WAITING = 1 << 20
MOST_PATH = 1 << 22

ALL_DONE, BUFFERS_FULL, WAITING_FULL, PATH_FULL = range(4)
ROOT_INDEX, WAITING, FOUND_HERE, MATCHES, MARKS = range(5)
PATH_TOP, PATH_FLOOR, ORDERED, AT_NODE, AT_PATH = range(5, 10)
"""Indices in the enumeration's `cursor`."""

_NEW_CURSOR = (0, -1, 0, 0, 0, 0, 0, 1, 0, -1)


class ArenaWalk(NamedTuple):
    """Where a walk stands, the alternatives that wait in its heap, and the paths so far."""

    cursor: NDArray[np.int64]
    wait_start: NDArray[np.int64]
    wait_node: NDArray[np.int32]
    wait_path: NDArray[np.int32]
    path_position: NDArray[np.int64]
    path_label: NDArray[np.int32]
    path_before: NDArray[np.int32]
    path_length: NDArray[np.int32]


def new_walk(waiting: int = 64, path: int = 256) -> ArenaWalk:
    """Make a walk with room for so many alternatives and marks on paths."""
    return ArenaWalk(
        np.array(_NEW_CURSOR, np.int64),
        np.empty(waiting, np.int64),
        np.empty(waiting, np.int32),
        np.empty(waiting, np.int32),
        np.empty(path, np.int64),
        np.empty(path, np.int32),
        np.empty(path, np.int32),
        np.empty(path, np.int32),
    )


@inner
def restart(walk):
    """Put a walk before its first root."""
    walk.cursor[:] = 0
    walk.cursor[WAITING] = -1


@inner
def _push(walk, size, ordered, start, node, path):
    """Put an alternative into the heap of this size, or on the stack."""
    starts, nodes, paths = walk.wait_start, walk.wait_node, walk.wait_path
    at = size
    if ordered:
        while at > 0:
            above = (at - 1) >> 1
            if starts[above] >= start:
                break
            starts[at], nodes[at], paths[at] = starts[above], nodes[above], paths[above]
            at = above
    starts[at], nodes[at], paths[at] = start, node, path


@inner
def _pop(walk, size):
    """Move the first of a heap of size + 1 to index `size`; the others stay a heap."""
    starts, nodes, paths = walk.wait_start, walk.wait_node, walk.wait_path
    start, node, path = starts[size], nodes[size], paths[size]
    starts[size], nodes[size], paths[size] = starts[0], nodes[0], paths[0]
    at = 0
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        if below + 1 < size and starts[below + 1] > starts[below]:
            below += 1
        if starts[below] <= start:
            break
        starts[at], nodes[at], paths[at] = starts[below], nodes[below], paths[below]
        at = below
    if size > 0:
        starts[at], nodes[at], paths[at] = start, node, path


@kernel
def _go_depth_first(walk):
    """Turn the heap into a stack, latest start on top."""
    for left in range(walk.cursor[WAITING] - 1, 0, -1):
        _pop(walk, left)
    walk.cursor[ORDERED] = 0
    walk.cursor[PATH_FLOOR] = walk.cursor[PATH_TOP]


@kernel
def list_matches(arena, roots, limit, walk, listing):
    """Fill the listing from where the walk stands; at most `limit` matches per root."""
    cursor, wait_node, wait_path = walk.cursor, walk.wait_node, walk.wait_path
    path_position, path_label = walk.path_position, walk.path_label
    path_before, path_length = walk.path_before, walk.path_length
    matches = 0
    marks = 0
    r = cursor[ROOT_INDEX]
    size = cursor[WAITING]
    found = cursor[FOUND_HERE]
    top = cursor[PATH_TOP]
    floor = cursor[PATH_FLOOR]
    ordered = cursor[ORDERED] != 0
    listing.offset[0] = 0
    status = ALL_DONE
    while r < len(roots):
        bound = roots[r]["bound"]
        if size < 0:
            walk.wait_start[0] = 0
            wait_node[0] = roots[r]["node"]
            wait_path[0] = -1
            size, found, top, floor, ordered = 1, 0, 0, 0, True
        while (size > 0 or cursor[AT_NODE] > 0) and found != limit:
            if cursor[AT_NODE] > 0:  # where the walk stopped the last time
                node, path = np.int32(cursor[AT_NODE]), np.int32(cursor[AT_PATH])
                cursor[AT_NODE] = 0
            else:
                size -= 1
                if ordered:
                    _pop(walk, size)
                node, path = wait_node[size], wait_path[size]
                if not ordered:
                    top = max(path + 1, floor)
            while True:
                label, left = arena[node]["label"], arena[node]["left"]
                is_marked = label != 0 and label != UNION
                ends = left == 0
                length = 0 if path < 0 else path_length[path]
                if is_marked:
                    length += 1
                    if top == len(path_position):
                        status = PATH_FULL
                        break
                if ends and (
                    matches == len(listing.root) or marks + length > len(listing.position)
                ):
                    status = BUFFERS_FULL
                    break
                right = arena[node]["right"]
                # nothing has to wait for after the last match of the limit
                if right != 0 and arena[right]["start"] >= bound and found + 1 != limit:
                    if size == len(wait_node):
                        status = WAITING_FULL
                        break
                    _push(walk, size, ordered, arena[right]["start"], right, path)
                    size += 1
                if is_marked:
                    path_position[top] = arena[node]["position"]
                    path_label[top] = label
                    path_before[top] = path
                    path_length[top] = length
                    path = top
                    top += 1
                if not ends:
                    node = left
                    continue
                listing.root[matches] = r
                listing.start[matches] = arena[node]["position"]
                at = marks + length
                marks = at
                while path >= 0:
                    at -= 1
                    listing.position[at] = path_position[path]
                    listing.label[at] = path_label[path]
                    path = path_before[path]
                matches += 1
                listing.offset[matches] = marks
                found += 1
                break
            if status != ALL_DONE:
                cursor[AT_NODE], cursor[AT_PATH] = node, path
                break
        if status != ALL_DONE:
            break
        r += 1
        size = -1
        cursor[AT_NODE] = 0
    cursor[ROOT_INDEX], cursor[WAITING], cursor[FOUND_HERE] = r, size, found
    cursor[MATCHES], cursor[MARKS] = matches, marks
    cursor[PATH_TOP], cursor[PATH_FLOOR], cursor[ORDERED] = top, floor, ordered
    return status


def list_blocks(
    segment: ArenaSegment, limit: int | None = None, block: int = 65_536
) -> Iterator[Listing]:
    """Give all matches of the roots in order, `limit` of each root at most, block by block."""
    walk = new_walk()
    most = -1 if limit is None else limit
    marks = 4 * block
    status = BUFFERS_FULL
    while status != ALL_DONE:
        listing = empty_listing(block, marks)
        arguments = segment.arena, segment.roots, most, walk, listing
        status = call_briefly(list_matches, block, *arguments)
        found, used = int(walk.cursor[MATCHES]), int(walk.cursor[MARKS])
        if found:
            yield trim_listing(listing, found, used)
        if status == BUFFERS_FULL and not found:
            marks *= 2
        elif status in (WAITING_FULL, PATH_FULL):
            walk = _enlarge(walk, status)


def _enlarge(walk: ArenaWalk, status: int) -> ArenaWalk:
    """Give a walk twice the room; beyond the limits the rest of the root goes depth first."""
    is_large = len(walk.wait_node) >= MOST_WAITING or len(walk.path_label) >= MOST_PATH
    if is_large and walk.cursor[ORDERED]:
        _go_depth_first(walk)
    names = ArenaWalk._fields[1:4] if status == WAITING_FULL else ArenaWalk._fields[4:]
    return walk._replace(**{name: _double(getattr(walk, name)) for name in names})


def _double(array: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate([array, np.empty_like(array)])
