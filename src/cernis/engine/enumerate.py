"""Enumeration: from roots to matches as arrays, with output-linear delay.

Cost contract: between two matches O(length of the match); every union that is visited
with both sides inside the window leads to a match on each side. The kernel fills
fixed buffers and can go on where it stopped, so an answer of any size streams through
bounded memory, with no Python object per match.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from cernis.engine.arena import UNION

ALL_DONE, BUFFERS_FULL, STACK_FULL, PATH_FULL = range(4)
ROOT_INDEX, STACK_DEPTH, FOUND_HERE, MATCHES, MARKS = range(5)
"""Places in the enumeration's `cursor`."""


class Listing(NamedTuple):
    """Matches as arrays: `root` each belongs to, `start` position, marks by `offset`.

    Marks of one match run from its last event to its first.
    """

    root: NDArray[np.int64]
    start: NDArray[np.int64]
    offset: NDArray[np.int64]
    position: NDArray[np.int64]
    label: NDArray[np.int32]


@njit(cache=True, nogil=True)
def list_matches(  # type: ignore[no-untyped-def]
    arena,
    roots,
    limit,
    cursor,
    stack_node,
    stack_length,
    path_position,
    path_label,
    out_root,
    out_start,
    out_offset,
    out_position,
    out_label,
):
    """Depth first, latest start first; resumes from `cursor`."""
    matches = 0
    marks = 0
    r = cursor[ROOT_INDEX]
    depth = cursor[STACK_DEPTH]
    found = cursor[FOUND_HERE]
    out_offset[0] = 0
    while r < len(roots):
        bound = roots[r]["bound"]
        if depth < 0:
            stack_node[0] = roots[r]["node"]
            stack_length[0] = 0
            depth = 1
            found = 0
        while depth > 0:
            if found == limit:
                break
            if depth + 1 >= len(stack_node):
                cursor[ROOT_INDEX], cursor[STACK_DEPTH], cursor[FOUND_HERE] = r, depth, found
                cursor[MATCHES], cursor[MARKS] = matches, marks
                return STACK_FULL
            node = stack_node[depth - 1]
            length = stack_length[depth - 1]
            while arena[node]["label"] == UNION:
                right = arena[node]["right"]
                if arena[right]["start"] >= bound:
                    if depth + 1 >= len(stack_node):
                        break
                    stack_node[depth - 1] = right
                    stack_length[depth - 1] = length
                    depth += 1
                node = arena[node]["left"]
                stack_node[depth - 1] = node
                stack_length[depth - 1] = length
            if arena[node]["label"] == UNION:
                continue
            if length >= len(path_position):
                cursor[ROOT_INDEX], cursor[STACK_DEPTH], cursor[FOUND_HERE] = r, depth, found
                cursor[MATCHES], cursor[MARKS] = matches, marks
                return PATH_FULL
            marked = length + (1 if arena[node]["label"] != 0 else 0)
            if arena[node]["left"] == 0 and (
                matches == len(out_root) or marks + marked > len(out_position)
            ):
                cursor[ROOT_INDEX], cursor[STACK_DEPTH], cursor[FOUND_HERE] = r, depth, found
                cursor[MATCHES], cursor[MARKS] = matches, marks
                return BUFFERS_FULL
            if arena[node]["label"] != 0:
                path_position[length] = arena[node]["position"]
                path_label[length] = arena[node]["label"]
            if arena[node]["left"] == 0:
                out_root[matches] = r
                out_start[matches] = arena[node]["position"]
                for m in range(marked):
                    out_position[marks + m] = path_position[m]
                    out_label[marks + m] = path_label[m]
                marks += marked
                matches += 1
                out_offset[matches] = marks
                found += 1
                depth -= 1
            else:
                stack_node[depth - 1] = arena[node]["left"]
                stack_length[depth - 1] = marked
        r += 1
        depth = -1
    cursor[ROOT_INDEX], cursor[STACK_DEPTH], cursor[FOUND_HERE] = r, -1, 0
    cursor[MATCHES], cursor[MARKS] = matches, marks
    return ALL_DONE


def listings(
    arena: NDArray[np.void],
    roots: NDArray[np.void],
    limit: int | None = None,
    block: int = 65_536,
) -> Iterator[Listing]:
    """All matches of the roots in order, `limit` of each root at most, block by block."""
    cursor = np.array([0, -1, 0, 0, 0], np.int64)
    stack_node, stack_length = np.empty(64, np.int32), np.empty(64, np.int64)
    path_position, path_label = np.empty(64, np.int64), np.empty(64, np.int32)
    marks = 4 * block
    status = BUFFERS_FULL
    while status != ALL_DONE:
        listing = Listing(
            np.empty(block, np.int64),
            np.empty(block, np.int64),
            np.empty(block + 1, np.int64),
            np.empty(marks, np.int64),
            np.empty(marks, np.int32),
        )
        status = list_matches(
            arena,
            roots,
            -1 if limit is None else limit,
            cursor,
            stack_node,
            stack_length,
            path_position,
            path_label,
            *listing,
        )
        found, used = int(cursor[MATCHES]), int(cursor[MARKS])
        if found:
            yield Listing(
                listing.root[:found],
                listing.start[:found],
                listing.offset[: found + 1],
                listing.position[:used],
                listing.label[:used],
            )
        if status == STACK_FULL:
            stack_node, stack_length = _doubled(stack_node), _doubled(stack_length)
        elif status == PATH_FULL:
            path_position, path_label = _doubled(path_position), _doubled(path_label)
        elif status == BUFFERS_FULL and not found:
            marks *= 2


def _doubled(array: NDArray[np.generic]) -> NDArray[np.generic]:
    return np.concatenate([array, np.empty_like(array)])


@njit(cache=True, nogil=True)
def split_marks(offset, position, label, has, out_offset, out_position):  # type: ignore[no-untyped-def]
    """The marks whose label set `has` a variable, per match, first event first."""
    written = 0
    out_offset[0] = 0
    for m in range(len(offset) - 1):
        for k in range(offset[m + 1] - 1, offset[m] - 1, -1):
            if has[label[k]]:
                out_position[written] = position[k]
                written += 1
        out_offset[m + 1] = written
    return written


def by_variable(
    listing: Listing, labels: list[frozenset[str]], variables: tuple[str, ...]
) -> tuple[tuple[NDArray[np.int64], ...], tuple[NDArray[np.int64], ...]]:
    """(offsets, positions) per variable, as list arrays want them."""
    offsets, positions = [], []
    for variable in variables:
        has = np.array([variable in names for names in labels], np.uint8)
        offset = np.empty(len(listing.offset), np.int64)
        position = np.empty(len(listing.position), np.int64)
        used = split_marks(
            listing.offset, listing.position, listing.label, has, offset, position
        )
        offsets.append(offset)
        positions.append(position[:used])
    return tuple(offsets), tuple(positions)
