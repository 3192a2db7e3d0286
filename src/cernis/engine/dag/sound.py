"""Check frozen records of the run DAG: trees that the kernels can follow to their ends.

A node of a tree changes once (`later`, since a version), so a circle through `later` may be sound:
no reader of one version goes round. `check_versions` asks for times that fall along every way.

Cost contract: a few passes over the records.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import kernel
from cernis.engine.dag import records as r
from cernis.engine.dag.ordered import is_in_range
from cernis.errors import StateError
from cernis.state import Tree, is_inside, require


def check_network(tree: Tree, network: str) -> None:
    """Refuse the state of an engine whose numbers stand for something else."""
    if tree.get("network") != network:
        raise StateError(
            "the state was frozen by a version that plans this query differently; "
            "run the query on the stream from its beginning"
        )


def check_first(records: NDArray[Any], name: str) -> None:
    """Index 0 is "nothing"."""
    is_empty = len(records) > 0 and not any(records[:1].tobytes())
    require(is_empty, f"{name!r} has no empty first record")


def check_nodes(nodes: NDArray[np.void]) -> None:
    """Trees of unions are heaps by start; a node is the right side of one other at most."""
    size, start = len(nodes), nodes["start"]
    left, right, later = nodes["left"], nodes["right"], nodes["later"]
    require(
        all(is_inside(side, 0, size) for side in (left, right, later))
        and is_inside(nodes["since"], -1)
        and bool(((nodes["since"] >= 0) | (later == 0)).all()),
        "a node leads nowhere",
    )
    require(
        bool((start > start[left])[left != 0].all())
        and all(bool((start >= start[side])[side != 0].all()) for side in (right, later))
        and int(np.bincount(np.concatenate([right, later]))[1:].max(initial=0)) <= 1,
        "'nodes' are no heaps",
    )


def check_versions(nodes: NDArray[np.void], times: NDArray[np.int64]) -> NDArray[np.int64]:
    """A change leads to runs that were made by then; return the latest time below each node.

    `times` has the time at which each vertex was made.
    """
    later = nodes["later"]
    made = raise_latest(nodes, ("left", "right"), times)
    require(
        len(sort_children_first(_stack(nodes, ("left", "right", "later")))) == len(nodes) - 1
        and bool((made[later] <= nodes["since"])[later != 0].all()),
        "'nodes' lead in a circle",
    )
    return made


def check_branches(branches: NDArray[np.void]) -> None:
    """Trees of branches are in the order of their values, heaps by priority."""
    sides = _stack(branches, ("left", "right"))
    require(is_inside(sides, 0, len(branches)), "a branch leads nowhere")
    order = sort_children_first(sides)
    require(
        len(order) == len(branches) - 1 and _is_search_tree(branches, order),
        "'branches' are no search trees",
    )


def mark_below(branches: NDArray[np.void], roots: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Return which branches are below some roots, the roots included; there is no circle."""
    marks = np.zeros(len(branches), np.bool_)
    front = np.unique(roots[roots != 0])
    while len(front):
        marks[front] = True
        sides = np.unique(_stack(branches[front], ("left", "right")))
        front = sides[~marks[sides] & (sides != 0)]
    return marks


def check_apart(nodes: NDArray[np.void], roots: NDArray[np.int32]) -> None:
    """The root of a bucket is on the right side of no other node, and of one bucket alone."""
    roots = roots[roots != 0]
    taken = np.zeros(len(nodes), np.int64)
    np.add.at(taken, np.concatenate([roots, nodes["right"], nodes["later"]]), 1)
    require(bool((taken[roots] == 1).all()), "buckets share their runs")


def _stack(records: NDArray[np.void], sides: tuple[str, ...]) -> NDArray[np.int64]:
    return np.stack([records[side] for side in sides], axis=1).astype(np.int64)


def raise_latest(
    records: NDArray[np.void], sides: tuple[str, ...], position: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the position of the latest event at or below each record; -1 for record 0."""
    children = _stack(records, sides)
    latest: NDArray[np.int64] = position[records["vertex"]]
    latest[0] = -1
    _take_latest(children, sort_children_first(children), latest)
    return latest


@kernel
def _take_latest(children, order, latest):
    """Raise the number of each record to those of its children."""
    for n in order:
        for w in range(children.shape[1]):
            latest[n] = max(latest[n], latest[children[n, w]])


@kernel
def sort_children_first(children):
    """Return all records but 0, each after its children; some are missing if there is a circle."""
    size, width = children.shape
    degree = np.zeros(size, np.int64)
    for n in range(1, size):
        for w in range(width):
            degree[children[n, w]] += 1
    order = np.empty(size, np.int64)
    tail = 0
    for n in range(1, size):
        if degree[n] == 0:
            order[tail] = n
            tail += 1
    head = 0
    while head < tail:
        for w in range(width):
            child = children[order[head], w]
            degree[child] -= 1
            if child != 0 and degree[child] == 0:
                order[tail] = child
                tail += 1
        head += 1
    return order[:tail][::-1].copy()


@kernel
def _is_search_tree(branches, order):
    """Whether values are in order, priorities fall, and `best` is the latest start below."""
    least, most = np.zeros(len(branches), np.int64), np.zeros(len(branches), np.int64)
    for n in order:
        best = branches[n]["start"]
        left, right = branches[n]["left"], branches[n]["right"]
        least[n] = n if left == 0 else least[left]
        most[n] = n if right == 0 else most[right]
        high, low = branches[n]["high"], branches[n]["low"]
        if left != 0:
            best = max(best, branches[left]["best"])
            if not is_in_range(branches[most[left]], r.LESS_EQUAL, high, low):
                return False
            if branches[left]["priority"] > branches[n]["priority"]:
                return False
        if right != 0:
            best = max(best, branches[right]["best"])
            if not is_in_range(branches[least[right]], r.GREATER_EQUAL, high, low):
                return False
            if branches[right]["priority"] > branches[n]["priority"]:
                return False
        if best != branches[n]["best"]:
            return False
    return True
