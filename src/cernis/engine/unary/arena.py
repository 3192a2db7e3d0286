"""The arena: the timed enumerable compact set (tECS) as an append-only record array.

A node stands for a set of partial matches. There are two kinds:

* an *item* marks one event: `position`, `label` (an index into the table of label
  sets; 0 writes nothing), `left` the rest of the match. An item without `left` is
  where the match starts (the paper's bottom node, merged with its first output). An
  item with `right` has the matches of `right` beside its own: a union whose left side
  is an item that no other node needs, in one node instead of two. This halves the arena.
* a *union* (label -1) has the matches of `left` and of `right`.

`start` is the largest start below, in units of the window: the paper's max-start.
The left side of a union (or the item itself) starts no earlier than the right side, so
enumeration cuts a branch as soon as its start has left the window. Node 0 is "no match at all".

Where the earliest start is asked for (`EarliestStarts`), nodes that put one start beside earlier
ones form a list, and `back` of each leads to one further back (a skip list with one pointer per
node). Elsewhere `back` means nothing.

Nodes never change once an event has been read, and children come before parents. So a
segment of matches is a reference to the arena, and one pass over the live nodes copies them.

Cost contract: making an item is O(1); `join` is O(1), at most `JOIN_NODES` nodes; `link_start` is
O(1) on average.
Left chains are kept short by sinking a new right side under the first item; the
paper's union lists bound them by a constant, here the bound is the sinking depth plus
the number of merges of whole lists.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import inner, record
from cernis.engine.settings import FOREVER

NODE = record("start position", "left right label back")
ROOT = record("end bound key", "node spare")
"""The matches below `node` that start at or after `bound`."""
FIRST = record("start position", "")
"""A start, in units of the window and as a position."""

UNION = -1

NODES, ROOTS, FREE_ROWS, EPOCH, RELEVANT = range(5)
"""Indices in `counters`."""
_SINK = 4
SPINE = 8
"""The index in `counters` where `join` keeps its scratch."""
COUNTERS = SPINE + _SINK
JOIN_NODES = _SINK + 1


class UnaryMemory(NamedTuple):
    """The state of a stream. A row of `slots` belongs to a partition, a column to a state."""

    counters: NDArray[np.int64]
    arena: NDArray[np.void]
    roots: NDArray[np.void]
    slots: NDArray[np.int32]
    """Per row and state, the node of its partial matches."""
    row_of_key: NDArray[np.int32]
    key_of_row: NDArray[np.int64]
    row_ordinal: NDArray[np.int64]
    """Per row, how many events its partition has had."""
    row_epoch: NDArray[np.int64]
    """Per row, the epoch its slots belong to; CONSUME BY ANY begins a new one."""
    row_bound: NDArray[np.int64]
    free_rows: NDArray[np.int64]


class EarliestStarts(NamedTuple):
    """The earliest starts that NEXT and LONGEST ask for, beside the latest, which nodes have."""

    of_slot: NDArray[np.void]
    """Per row and state, that of its partial matches; it may have left the window."""
    of_root: NDArray[np.int64]
    """Per root, the position of that of its matches; -1 where a search has to find it."""
    entering: NDArray[np.void]
    """Per state, that of the partial matches that enter it; `NEVER`: none does."""


class ArenaSegment(NamedTuple):
    """A compact set of matches: an arena and roots into it."""

    arena: NDArray[np.void]
    roots: NDArray[np.void]


def new_arena(capacity: int) -> NDArray[np.void]:
    """Make an arena that holds node 0 ("no match")."""
    arena = np.empty(capacity, NODE)  # not zeroed: each new node is written whole
    arena[0] = (FOREVER, 0, 0, 0, 0, 0)
    return arena


def new_counters() -> NDArray[np.int64]:
    """Make the counters of an arena that holds node 0."""
    counters = np.zeros(COUNTERS, np.int64)
    counters[NODES] = 1
    return counters


@inner
def make_item(arena, counters, position, label, left, start):
    """Append an item and return it."""
    node = counters[NODES]
    counters[NODES] = node + 1
    arena[node]["start"] = start
    arena[node]["position"] = position
    arena[node]["left"] = left
    arena[node]["right"] = 0
    arena[node]["label"] = label
    return node


@inner
def make_union(arena, counters, left, right):
    """Append a union and return it; `position` is the latest last event of either side."""
    node = counters[NODES]
    counters[NODES] = node + 1
    arena[node]["start"] = arena[left]["start"]
    last, other = arena[left]["position"], arena[right]["position"]
    arena[node]["position"] = last if last > other else other
    arena[node]["left"] = left
    arena[node]["right"] = right
    arena[node]["label"] = UNION
    return node


@inner
def join(arena, counters, new, old, bound):
    """Return the union of two sets without sides outside the window; ties put `new` first."""
    if new == 0 or arena[new]["start"] < bound:
        return old
    if old == 0 or arena[old]["start"] < bound:
        return new
    if arena[new]["start"] >= arena[old]["start"]:
        upper, lower = new, old
    else:
        upper, lower = old, new
    # sink: keep an item on the left of each union, as far as it is cheap; the tail of
    # `counters` holds the items on the way (a new array would cost an allocation)
    depth = 0
    while depth < _SINK and arena[upper]["label"] == UNION:
        rest = arena[upper]["right"]
        counters[SPINE + depth] = arena[upper]["left"]
        depth += 1
        if arena[rest]["start"] < bound:
            upper = lower
            lower = 0
            break
        if arena[rest]["start"] > arena[lower]["start"] or (
            arena[rest]["start"] == arena[lower]["start"] and lower == old
        ):
            upper = rest
        else:
            upper, lower = lower, rest
    node = upper if lower == 0 else make_union(arena, counters, upper, lower)
    while depth > 0:
        depth -= 1
        node = make_union(arena, counters, counters[SPINE + depth], node)
    return node


@inner
def find_head(arena, node):
    """Return the start item of a node that puts one start beside others; 0: it does not."""
    head = node
    if arena[node]["label"] == UNION:
        head = arena[node]["left"]
        if arena[head]["label"] == UNION or arena[head]["right"] != 0:
            return 0
    return 0 if arena[head]["left"] != 0 else head


@inner
def link_start(arena, node):
    """Lead from a node of a list of starts to the next one of its level or a higher one."""
    head = find_head(arena, node)
    if head == 0:
        return
    level = _find_level(arena[head]["position"])
    back = arena[node]["right"]
    while back != 0:
        head = find_head(arena, back)
        if head == 0:
            back = 0
        elif _find_level(arena[head]["position"]) >= level:
            break
        else:
            back = arena[back]["back"]
    arena[node]["back"] = back


@inner
def _find_level(position):
    """Return 1 for half of all positions, 2 for a quarter, 4 for an eighth, and so on."""
    mixed = ((position ^ (position >> 20)) & 0xFFFFF) * 2654435761 >> 12 & 0xFFFFF | 0x100000
    return mixed & -mixed


@inner
def is_inside(arena, node, bound):
    """Return whether a side of a node is there and has matches inside the window."""
    return node != 0 and arena[node]["start"] >= bound


@inner
def find_ready(arena, bound, stamp, stamps, stack, depth):
    """Go down from the top of the stack to a node whose sides are stamped and which is not.

    Return the depth at which it is on top; 0: all nodes are stamped.
    """
    while depth > 0:
        node = stack[depth - 1]
        left, right = arena[node]["left"], arena[node]["right"]
        if stamps[node] == stamp:
            depth -= 1
        elif left != 0 and stamps[left] != stamp:
            stack[depth] = left
            depth += 1
        elif is_inside(arena, right, bound) and stamps[right] != stamp:
            stack[depth] = right
            depth += 1
        else:
            return depth
    return 0
