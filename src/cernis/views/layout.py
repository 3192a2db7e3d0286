"""Place the nodes of a graph in layers from left to right, and route its edges around them.

A node's layer is the longest way to it without going back; edges that go back run below. An edge
over several layers has a node of its own in each. Nodes of a layer are put in the order of the
mean rank of their neighbours, a few times forth and back (Sugiyama's method).

Cost contract: O(sweeps · edges · log nodes), plus the points of long edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

Point = tuple[float, float]

ROW, GAP, BACK = 66.0, 56.0, 34.0
_SWEEPS = 6


class StateEdge(NamedTuple):
    """From which node to which, and the room that its label needs."""

    source: int
    target: int
    room: float = 0.0


class StateLayout(NamedTuple):
    """The middles of nodes, the routes of edges, and the size of the picture.

    A route has the points between the two nodes. An edge from a node to itself has an empty route.
    `back` has the edges that run below.
    """

    points: tuple[Point, ...]
    routes: tuple[tuple[Point, ...], ...]
    back: frozenset[int]
    width: float
    height: float


def lay_out_graph(widths: Sequence[float], edges: Sequence[StateEdge], start: int) -> StateLayout:
    """Return where the nodes of these widths lie; `start` comes first.

    >>> layout = lay_out_graph([40, 40], [StateEdge(0, 1), StateEdge(1, 1)], 0)
    >>> layout.points, layout.routes
    (((20.0, 0.0), (116.0, 0.0)), ((), ()))
    """
    back = _find_back_edges(len(widths), edges, start)
    forward = [
        (i, edge) for i, edge in enumerate(edges) if i not in back and edge.source != edge.target
    ]
    layers = _find_layers(len(widths), [edge for _, edge in forward])
    rows: list[list[int]] = [[] for _ in range(max(layers, default=0) + 1)]
    for node, layer in enumerate(layers):
        rows[layer].append(node)
    steps: list[tuple[int, int]] = []
    chains: dict[int, list[int]] = {}
    size = len(widths)
    for i, edge in forward:
        chain = []
        for layer in range(layers[edge.source] + 1, layers[edge.target]):
            chain.append(size)
            rows[layer].append(size)
            size += 1
        chains[i] = chain
        way = [edge.source, *chain, edge.target]
        steps += pairwise(way)
    _order(rows, steps)
    points = _locate_nodes(rows, widths, layers, edges)
    lowest = max((y for _, y in points.values()), default=0.0)
    routes: list[tuple[Point, ...]] = []
    for i, edge in enumerate(edges):
        if i in back:
            lowest += BACK
            (x, _), (to_x, _) = points[edge.source], points[edge.target]
            routes.append(((x, lowest), (to_x, lowest)))
        else:
            routes.append(tuple(points[dummy] for dummy in chains.get(i, ())))
    top = min((y for _, y in points.values()), default=0.0)
    nodes = tuple((x, y - top) for x, y in (points[n] for n in range(len(widths))))
    moved = tuple(tuple((x, y - top) for x, y in route) for route in routes)
    right = max((x + widths[n] / 2 for n, (x, _) in enumerate(nodes)), default=0.0)
    return StateLayout(nodes, moved, frozenset(back), right, lowest - top)


def _find_back_edges(size: int, edges: Sequence[StateEdge], start: int) -> set[int]:
    """Return the edges that lead to a node on the way to them, by depth-first search."""
    outgoing: list[list[int]] = [[] for _ in range(size)]
    for i, edge in enumerate(edges):
        if edge.source != edge.target:
            outgoing[edge.source].append(i)
    back: set[int] = set()
    seen: set[int] = set()
    for root in (start, *range(size)):
        if root in seen:
            continue
        seen.add(root)
        path, stack = {root}, [(root, iter(outgoing[root]))]
        while stack:
            node, further = stack[-1]
            for i in further:
                target = edges[i].target
                if target in path:
                    back.add(i)
                elif target not in seen:
                    seen.add(target)
                    path.add(target)
                    stack.append((target, iter(outgoing[target])))
                    break
            else:
                path.discard(node)
                stack.pop()
    return back


def _find_layers(size: int, edges: Sequence[StateEdge]) -> list[int]:
    """Return the longest way to each node of a graph without circles."""
    waiting = [0] * size
    outgoing: list[list[int]] = [[] for _ in range(size)]
    for edge in edges:
        waiting[edge.target] += 1
        outgoing[edge.source].append(edge.target)
    layers = [0] * size
    ready = [node for node in range(size) if not waiting[node]]
    while ready:
        node = ready.pop()
        for target in outgoing[node]:
            layers[target] = max(layers[target], layers[node] + 1)
            waiting[target] -= 1
            if not waiting[target]:
                ready.append(target)
    return layers


def _order(rows: list[list[int]], steps: Sequence[tuple[int, int]]) -> None:
    """Sort each layer by the mean rank of neighbours in the layer before, then after."""
    before: dict[int, list[int]] = {}
    after: dict[int, list[int]] = {}
    for source, target in steps:
        before.setdefault(target, []).append(source)
        after.setdefault(source, []).append(target)
    for sweep in range(_SWEEPS):
        neighbours = after if sweep % 2 else before
        at = {node: i for row in rows for i, node in enumerate(row)}
        for row in reversed(rows) if sweep % 2 else rows:
            means = {
                node: sum(at[n] for n in near) / len(near) if (near := neighbours.get(node)) else i
                for i, node in enumerate(row)
            }
            row.sort(key=lambda node: means[node])
            at.update((node, i) for i, node in enumerate(row))


def _locate_nodes(
    rows: list[list[int]],
    widths: Sequence[float],
    layers: Sequence[int],
    edges: Sequence[StateEdge],
) -> dict[int, Point]:
    """Return the middle of each node: layers as far apart as the labels between them need."""
    gaps = [GAP] * len(rows)
    for edge in edges:
        first, last = sorted((layers[edge.source], layers[edge.target]))
        for layer in range(first, last):
            gaps[layer] = max(gaps[layer], edge.room / (last - first) + 28)
    points: dict[int, Point] = {}
    left = 0.0
    for number, row in enumerate(rows):
        widest = max([0.0, *(widths[node] for node in row if node < len(widths))])
        for i, node in enumerate(row):
            points[node] = (left + widest / 2, (i - (len(row) - 1) / 2) * ROW)
        left += widest + gaps[number]
    return points
