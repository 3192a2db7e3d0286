"""Enumeration: from roots to matches as arrays, latest start first, output-linear delay.

A root is walked best first. What is still to be walked waits in a heap by its latest
start; the walk always goes left, where the latest start is, and leaves the right sides
it passes to wait. So matches of one end position come by descending start (in units of
the window: starts at the same time are equal), and `LIMIT` and `head` take the latest
ones. Paths share their ends, as a linked list.

Cost contract: between two matches O(length of the match + log of what waits). The
kernel fills fixed buffers and can go on where it stopped, so an answer of any size
streams through bounded memory with no Python object per match: when more than
`MOST_WAITING` alternatives of one root wait, the rest of that root is walked depth
first, which needs no more memory but keeps the order only roughly.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import kernel
from cernis.engine.unary.arena import UNION

MOST_WAITING = 1 << 20
MOST_PATH = 1 << 22

ALL_DONE, BUFFERS_FULL, WAITING_FULL, PATH_FULL = range(4)
ROOT_INDEX, WAITING, FOUND_HERE, MATCHES, MARKS = range(5)
PATH_TOP, PATH_FLOOR, ORDERED, AT_NODE, AT_PATH = range(5, 10)
"""Places in the enumeration's `cursor`."""

NEW_CURSOR = (0, -1, 0, 0, 0, 0, 0, 1, 0, -1)


class Listing(NamedTuple):
    """Matches as arrays: `root` each belongs to, `start` position, marks by `offset`.

    Marks of one match run from its last event to its first.
    """

    root: NDArray[np.int64]
    start: NDArray[np.int64]
    offset: NDArray[np.int64]
    position: NDArray[np.int64]
    label: NDArray[np.int32]


def empty_listing(matches: int, marks: int) -> Listing:
    """Buffers for so many matches and marks."""
    return Listing(
        np.empty(matches, np.int64),
        np.empty(matches, np.int64),
        np.empty(matches + 1, np.int64),
        np.empty(marks, np.int64),
        np.empty(marks, np.int32),
    )


def filled(listing: Listing, matches: int, marks: int) -> Listing:
    """The part of the buffers that is in use."""
    return Listing(
        listing.root[:matches],
        listing.start[:matches],
        listing.offset[: matches + 1],
        listing.position[:marks],
        listing.label[:marks],
    )


class Walk(NamedTuple):
    """What waits (start, node, path so far) and the paths (position, label, before, length)."""

    wait_start: NDArray[np.int64]
    wait_node: NDArray[np.int32]
    wait_path: NDArray[np.int32]
    path_position: NDArray[np.int64]
    path_label: NDArray[np.int32]
    path_before: NDArray[np.int32]
    path_length: NDArray[np.int32]


def new_walk(waiting: int = 64, path: int = 256) -> Walk:
    return Walk(
        np.empty(waiting, np.int64),
        np.empty(waiting, np.int32),
        np.empty(waiting, np.int32),
        np.empty(path, np.int64),
        np.empty(path, np.int32),
        np.empty(path, np.int32),
        np.empty(path, np.int32),
    )


@kernel
def _push(starts, nodes, paths, size, ordered, start, node, path):
    """Lets an alternative wait: in a heap, or on a stack."""
    at = size
    if ordered:
        while at > 0:
            above = (at - 1) >> 1
            if starts[above] >= start:
                break
            starts[at], nodes[at], paths[at] = starts[above], nodes[above], paths[above]
            at = above
    starts[at], nodes[at], paths[at] = start, node, path


@kernel
def _sink(starts, nodes, paths, size):
    """Takes the first of a heap of size + 1 to place `size`, the rest stays a heap."""
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
def go_depth_first(cursor, wait_start, wait_node, wait_path):
    """Turns the heap into a stack, latest start on top."""
    size = cursor[WAITING]
    for left in range(size - 1, 0, -1):
        _sink(wait_start, wait_node, wait_path, left)
    # `_sink` has moved the latest to the end, one after the other
    cursor[ORDERED] = 0
    cursor[PATH_FLOOR] = cursor[PATH_TOP]


@kernel
def list_matches(
    arena,
    roots,
    limit,
    cursor,
    wait_start,
    wait_node,
    wait_path,
    path_position,
    path_label,
    path_before,
    path_length,
    out_root,
    out_start,
    out_offset,
    out_position,
    out_label,
):
    """Fills the buffers from where `cursor` stands; see the module's head."""
    matches = 0
    marks = 0
    r = cursor[ROOT_INDEX]
    size = cursor[WAITING]
    found = cursor[FOUND_HERE]
    top = cursor[PATH_TOP]
    floor = cursor[PATH_FLOOR]
    ordered = cursor[ORDERED] != 0
    out_offset[0] = 0
    status = ALL_DONE
    while r < len(roots):
        bound = roots[r]["bound"]
        if size < 0:
            wait_start[0] = 0
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
                    _sink(wait_start, wait_node, wait_path, size)
                node, path = wait_node[size], wait_path[size]
                if not ordered:
                    top = max(path + 1, floor)
            while True:
                if arena[node]["label"] == UNION:
                    right = arena[node]["right"]
                    # nothing needs to wait for after the last match that is wanted
                    if arena[right]["start"] >= bound and found + 1 != limit:
                        if size == len(wait_node):
                            status = WAITING_FULL
                            break
                        start = arena[right]["start"]
                        _push(wait_start, wait_node, wait_path, size, ordered, start, right, path)
                        size += 1
                    node = arena[node]["left"]
                    continue
                ends = arena[node]["left"] == 0
                length = 0 if path < 0 else path_length[path]
                if arena[node]["label"] != 0:
                    length += 1
                if ends and (matches == len(out_root) or marks + length > len(out_position)):
                    status = BUFFERS_FULL
                    break
                if arena[node]["label"] != 0 and top == len(path_position):
                    status = PATH_FULL
                    break
                right = arena[node]["right"]
                if right != 0 and arena[right]["start"] >= bound and found + 1 != limit:
                    if size == len(wait_node):
                        status = WAITING_FULL
                        break
                    start = arena[right]["start"]
                    _push(wait_start, wait_node, wait_path, size, ordered, start, right, path)
                    size += 1
                if arena[node]["label"] != 0:
                    path_position[top] = arena[node]["position"]
                    path_label[top] = arena[node]["label"]
                    path_before[top] = path
                    path_length[top] = length
                    path = top
                    top += 1
                if not ends:
                    node = arena[node]["left"]
                    continue
                out_root[matches] = r
                out_start[matches] = arena[node]["position"]
                at = marks + length
                marks = at
                while path >= 0:
                    at -= 1
                    out_position[at] = path_position[path]
                    out_label[at] = path_label[path]
                    path = path_before[path]
                matches += 1
                out_offset[matches] = marks
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


def listings(
    arena: NDArray[np.void],
    roots: NDArray[np.void],
    limit: int | None = None,
    block: int = 65_536,
) -> Iterator[Listing]:
    """All matches of the roots in order, `limit` of each root at most, block by block."""
    cursor = np.array(NEW_CURSOR, np.int64)
    walk = new_walk()
    marks = 4 * block
    status = BUFFERS_FULL
    while status != ALL_DONE:
        listing = empty_listing(block, marks)
        status = list_matches(arena, roots, -1 if limit is None else limit, cursor, *walk, *listing)
        found, used = int(cursor[MATCHES]), int(cursor[MARKS])
        if found:
            yield filled(listing, found, used)
        if status == BUFFERS_FULL and not found:
            marks *= 2
        elif status in (WAITING_FULL, PATH_FULL):
            walk = _more_room(cursor, walk, status)


def _more_room(cursor: NDArray[np.int64], walk: Walk, status: int) -> Walk:
    """Twice the room; beyond the limits the rest of the root is walked depth first."""
    large = len(walk.wait_node) >= MOST_WAITING or len(walk.path_label) >= MOST_PATH
    if large and cursor[ORDERED]:
        go_depth_first(cursor, walk.wait_start, walk.wait_node, walk.wait_path)
    grown = ("wait_start", "wait_node", "wait_path") if status == WAITING_FULL else Walk._fields[3:]
    return walk._replace(**{name: _doubled(getattr(walk, name)) for name in grown})


def _doubled(array: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate([array, np.empty_like(array)])


@kernel
def split_marks(offset, position, label, first, members, offsets, totals, flat):
    """The marks per variable and match, first event first, in one pass over the marks.

    `members[first[l]:first[l + 1]]` are the variables of label set l. Called without
    room in `flat` it only counts: `totals` are the marks of each variable. Then `totals`
    are where each variable's marks begin in `flat`.
    """
    counting = len(flat) == 0
    last = np.empty(len(totals), np.int64)
    for m in range(len(offset) - 1):
        last[:] = -1
        for k in range(offset[m + 1] - 1, offset[m] - 1, -1):
            for j in range(first[label[k]], first[label[k] + 1]):
                variable = members[j]
                if last[variable] == position[k]:
                    continue  # an event that serves several parts of a match is there once
                last[variable] = position[k]
                if not counting:
                    flat[totals[variable]] = position[k]
                totals[variable] += 1
        if counting:
            for variable in range(len(totals)):
                offsets[variable, m + 1] = totals[variable]


def by_variable(
    listing: Listing, labels: list[frozenset[str]], variables: tuple[str, ...]
) -> tuple[tuple[NDArray[np.int64], ...], tuple[NDArray[np.int64], ...]]:
    """(offsets, positions) per variable, as list arrays want them."""
    held = [[v for v, name in enumerate(variables) if name in names] for names in labels]
    first = np.cumsum([0, *map(len, held)], dtype=np.int64)
    members = np.array([v for vs in held for v in vs], np.int64)
    offsets = np.zeros((len(variables), len(listing.offset)), np.int64)
    totals = np.zeros(len(variables), np.int64)
    marks = listing.offset, listing.position, listing.label, first, members, offsets
    split_marks(*marks, totals, np.empty(0, np.int64))
    ends = np.cumsum(totals)
    flat = np.empty(int(ends[-1]) if len(ends) else 0, np.int64)
    if len(flat):
        split_marks(*marks, ends - totals, flat)
    begins = ends - totals
    return tuple(offsets), tuple(flat[b:e] for b, e in zip(begins, ends, strict=True))
