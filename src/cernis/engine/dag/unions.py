"""A set of runs that only grows, every version of it kept: a persistent heap-ordered tree.

Runs are inserted one after the other; a vertex made at position v sees the runs that
were inserted before v, at any later time. Enumeration must find those that start inside
the window without touching the others.

The tree is the Cartesian tree of the insertions: in order it gives them by time, from
the top down by latest start. So a subtree whose top has left the window has left it as
a whole and is never entered, and each node entered is one run (output-linear delay).
Inserting climbs the right spine from the last insertion: what starts earlier than the
new run is popped under it; amortized O(1). Only right pointers on the spine ever
change, so persistence costs O(1) amortized by node copying (Driscoll, Sarnak, Sleator,
Tarjan): a node has room for one change (`later`, since position `since`); a second
change copies the node, which changes its parent.

The PCEA paper keeps a binary heap with direction bits and path copying: O(log(|P|·w)) per
insertion, fully persistent. An index only ever extends its newest version, so partial
persistence is enough, and the update is amortized O(1) with the same delay. Runs at the
foot of the spine that have left the window are dropped on the way.
"""

from __future__ import annotations

from cernis.compiled import inner
from cernis.engine.dag.records import NODES


@inner
def right_of(nodes, node, version):
    """Return the right child as it was before position `version`."""
    since = nodes[node]["since"]
    if since >= 0 and since < version:
        return nodes[node]["later"]
    return nodes[node]["right"]


@inner
def room_to_insert(nodes, last, start, position):
    """Return the number of nodes that an insertion will make."""
    at = last
    while at != 0 and nodes[at]["start"] < start:
        at = nodes[at]["up"]
    made = 1
    while at != 0 and nodes[at]["since"] >= 0 and nodes[at]["since"] != position:
        made += 1
        at = nodes[at]["up"]
    return made


@inner
def _make(nodes, counters, start, vertex, left, right, up):
    node = counters[NODES]
    counters[NODES] = node + 1
    nodes[node]["start"] = start
    nodes[node]["since"] = -1
    nodes[node]["vertex"] = vertex
    nodes[node]["left"] = left
    nodes[node]["right"] = right
    nodes[node]["later"] = 0
    nodes[node]["up"] = up
    return node


@inner
def insert(nodes, counters, root, last, vertex, start, position, bound):
    """Add a run to the newest version; return (root, last)."""
    at = last
    popped = 0
    while at != 0 and nodes[at]["start"] < start:
        popped = at
        at = nodes[at]["up"]
    if popped != 0 and nodes[popped]["start"] < bound:
        popped = 0
    made = _make(nodes, counters, start, vertex, popped, 0, at)
    child = made
    while at != 0:
        since = nodes[at]["since"]
        if since < 0 or since == position:
            nodes[at]["since"] = position
            nodes[at]["later"] = child
            return root, made
        copy = _make(
            nodes,
            counters,
            nodes[at]["start"],
            nodes[at]["vertex"],
            nodes[at]["left"],
            child,
            nodes[at]["up"],
        )
        nodes[child]["up"] = copy
        child = copy
        at = nodes[copy]["up"]
    return child, made
