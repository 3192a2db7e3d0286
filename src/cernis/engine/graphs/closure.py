"""Ways of any length: the nodes that a relation of each event leads to, from some starts.

A breadth-first search from each start, for the property paths `:p*` and `:p+`. Nodes are numbers
from 0 on, edges are sorted by event and source.

Cost contract: each start looks once at each edge that it reaches, and at a logarithm of the
event's edges for each node. Python runs per doubling of the output.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import kernel

Codes = NDArray[np.int32]


class WayEdges(NamedTuple):
    """The relation of each event: `first[i]:first[i + 1]` are the edges of event i."""

    first: NDArray[np.int64]
    source: Codes
    target: Codes


@kernel
def follow_edges(edges, events, starts, seen, origin, reached, state):
    """Write the nodes that each start reaches by one step or more; return whether all have room.

    `events` are the events of the starts. `state` holds the next start and the number of nodes
    written, `seen` is scratch: for each node, the last start that has reached it.
    """
    found = state[1]
    for s in range(state[0], len(starts)):
        begun = at = found
        node = starts[s]
        low, high = edges.first[events[s]], edges.first[events[s] + 1]
        while True:
            edge = low + np.searchsorted(edges.source[low:high], node)
            while edge < high and edges.source[edge] == node:
                target = edges.target[edge]
                edge += 1
                if seen[target] == s:
                    continue
                if found == len(reached):
                    state[0], state[1] = s, begun
                    seen[:] = -1
                    return False
                seen[target] = s
                origin[found] = s
                reached[found] = target
                found += 1
            if at == found:
                break
            node = reached[at]
            at += 1
    state[0], state[1] = len(starts), found
    return True


def find_ways(
    edges: WayEdges, events: Codes, starts: Codes, nodes: int, most: int
) -> tuple[Codes, Codes] | None:
    """Return pairs of a start's index and a node that it reaches; None: more than `most`."""
    state, seen = np.zeros(2, np.int64), np.full(nodes, -1, np.int64)
    room = max(2 * len(edges.source), 64)
    origin, reached = np.empty(room, np.int32), np.empty(room, np.int32)
    while not follow_edges(edges, events, starts, seen, origin, reached, state):
        if room > most:
            return None
        room *= 2
        origin, reached = (
            np.concatenate([column, np.empty_like(column)]) for column in (origin, reached)
        )
    return origin[: state[1]], reached[: state[1]]
