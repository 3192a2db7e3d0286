"""The arena: the timed enumerable compact set (tECS) as an append-only record array.

A node stands for a set of partial matches. There are two kinds:

* an *item* marks one event: `position`, `label` (an index into the table of label
  sets; 0 writes nothing), `left` the rest of the match. An item without `left` is
  where the match starts (the paper's bottom node, merged with its first output). An
  item with `right` has the matches of `right` beside its own: a union whose left side
  is an item nobody else needs, in one node instead of two, which halves the arena.
* a *union* (label -1) has the matches of `left` and of `right`.

`start` is the largest start below, in units of the window: the paper's max-start.
The left side of a union (or the item itself) starts no earlier than the right side, so
enumeration cuts a branch as soon as its start has left the window. Node 0 is "no match at all".

Nodes never change once an event has been read, and children come before parents: a snapshot is a
reference, compaction is one walk over what is alive.

Cost contract: making an item is O(1); `join` is O(1), at most `JOIN_NODES` nodes.
Left chains are kept short by sinking a new right side under the first item; the
paper's union lists bound them by a constant, here the bound is the sinking depth plus
the number of merges of whole lists.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import kernel

NODE = np.dtype(
    [
        ("start", np.int64),
        ("position", np.int64),
        ("left", np.int32),
        ("right", np.int32),
        ("label", np.int32),
        ("spare", np.int32),
    ]
)

UNION = -1
FOREVER = np.int64(-(2**63))
"""The window bound that nothing falls behind."""

_SINK = 4
SPINE = 8
"""Where in `top` (the runtime's counters) a join keeps its scratch."""
COUNTERS = SPINE + _SINK
JOIN_NODES = _SINK + 1


def new_arena(capacity: int) -> NDArray[np.void]:
    """An arena with node 0 ("no match") in place."""
    arena = np.empty(capacity, NODE)  # not zeroed: what is made is written whole
    arena[0] = (FOREVER, 0, 0, 0, 0, 0)
    return arena


@kernel
def make_item(arena, top, position, label, left, start):
    """Append an item; `top[0]` is the number of nodes."""
    node = top[0]
    top[0] = node + 1
    arena[node]["start"] = start
    arena[node]["position"] = position
    arena[node]["left"] = left
    arena[node]["right"] = 0
    arena[node]["label"] = label
    return node


@kernel
def make_union(arena, top, left, right):
    """Append a union; `position` keeps the latest last event of either side."""
    node = top[0]
    top[0] = node + 1
    arena[node]["start"] = arena[left]["start"]
    arena[node]["position"] = max(arena[left]["position"], arena[right]["position"])
    arena[node]["left"] = left
    arena[node]["right"] = right
    arena[node]["label"] = UNION
    return node


@kernel
def join(arena, top, new, old, bound):
    """The union of two sets; sides that have left the window are dropped, ties put `new` first."""
    if new == 0 or arena[new]["start"] < bound:
        return old
    if old == 0 or arena[old]["start"] < bound:
        return new
    if arena[new]["start"] >= arena[old]["start"]:
        upper, lower = new, old
    else:
        upper, lower = old, new
    # sink: keep an item on the left of each union, as far as it is cheap; the items
    # passed on the way wait in the tail of `top` (an array here would cost an allocation)
    depth = 0
    while depth < _SINK and arena[upper]["label"] == UNION:
        rest = arena[upper]["right"]
        top[SPINE + depth] = arena[upper]["left"]
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
    node = upper if lower == 0 else make_union(arena, top, upper, lower)
    while depth > 0:
        depth -= 1
        node = make_union(arena, top, top[SPINE + depth], node)
    return node
