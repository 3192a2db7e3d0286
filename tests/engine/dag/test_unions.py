"""The persistent heap-ordered tree: every version, against a list of what was inserted."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
import pytest

from cernis.compiled import callable_from_python
from cernis.engine.dag import unions
from cernis.engine.dag.records import COUNTERS, NODE, NODES

room_to_insert = callable_from_python(unions.room_to_insert)
insert = callable_from_python(unions.insert)
right_of = callable_from_python(unions.right_of)


class Tree:
    """A tree that grows; `root` is that of the newest version."""

    def __init__(self, room: int) -> None:
        self.nodes = np.zeros(room, NODE)
        self.counters = np.zeros(COUNTERS, np.int64)
        self.counters[NODES] = 1
        self.root = 0
        self.last = 0

    @property
    def made(self) -> int:
        return int(self.counters[NODES]) - 1

    def insert(self, vertex: int, start: int, position: int, bound: int = -1) -> int:
        """Adds a run; gives how many nodes that made."""
        before = self.made
        room = room_to_insert(self.nodes, self.last, start, position)
        self.root, self.last = insert(
            self.nodes, self.counters, self.root, self.last, vertex, start, position, bound
        )
        assert self.made - before == room
        return room

    def in_order(self, root: int, version: int, bound: int = -1) -> Iterator[tuple[int, int]]:
        """(vertex, start) of what starts inside the bound, in the order of the tree."""
        if root == 0 or self.nodes[root]["start"] < bound:
            return
        node = self.nodes[root]
        yield from self.in_order(int(node["left"]), version, bound)
        yield int(node["vertex"]), int(node["start"])
        yield from self.in_order(right_of(self.nodes, root, version), version, bound)

    def edges(self, root: int, version: int) -> Iterator[tuple[int, int]]:
        """(parent, child) of one version."""
        stack = [root] if root else []
        while stack:
            at = stack.pop()
            for child in (
                int(self.nodes[at]["left"]),
                int(right_of(self.nodes, at, version)),
            ):
                if child:
                    yield at, child
                    stack.append(child)


def positions(draw: random.Random, length: int) -> list[int]:
    """Never decreasing; several runs may be filed at one event."""
    found = [0]
    for _ in range(length - 1):
        found.append(found[-1] + draw.choice([0, 0, 1, 1, 1, 3]))
    return found


STARTS: dict[str, Callable[[random.Random, int], int]] = {
    "random": lambda draw, i: draw.randint(0, 50),
    "rising": lambda draw, i: i,
    "falling": lambda draw, i: 1_000 - i,
    "sawtooth": lambda draw, i: i % 17 + i // 17,
    "falling teeth": lambda draw, i: i // 17 * 17 - i % 17 + 17,
    "alike": lambda draw, i: 7,
}


@pytest.mark.parametrize("shape", STARTS)
def test_every_version_holds_what_was_inserted_before_it(shape: str) -> None:
    draw = random.Random(3)
    tree = Tree(1_000)
    inserted: list[tuple[int, int]] = []
    versions: list[tuple[int, int, int]] = []
    last = -1
    for i, position in enumerate(positions(draw, 150)):
        if position != last:
            versions.append((tree.root, position, len(inserted)))
            last = position
        start = STARTS[shape](draw, i)
        tree.insert(i + 1, start, position)
        inserted.append((i + 1, start))
    versions.append((tree.root, last + 1, len(inserted)))
    for root, version, length in versions:
        assert list(tree.in_order(root, version)) == inserted[:length]
        for parent, child in tree.edges(root, version):
            assert tree.nodes[parent]["start"] >= tree.nodes[child]["start"]


@pytest.mark.parametrize("shape", STARTS)
def test_each_insertion_makes_a_few_nodes_on_average(shape: str) -> None:
    draw = random.Random(4)
    length = 3_000
    tree = Tree(4 * length)
    for i in range(length):
        tree.insert(i + 1, STARTS[shape](draw, i), i)
        assert tree.made <= 3 * (i + 1)


def test_what_has_left_the_window_is_not_entered() -> None:
    draw = random.Random(6)
    for _ in range(20):
        tree = Tree(1_000)
        inserted: list[tuple[int, int]] = []
        versions = []
        for now in range(100):
            bound = now - 10
            versions.append((tree.root, now, bound, len(inserted)))
            start = max(0, now - draw.randint(0, 14))
            tree.insert(now + 1, start, now, bound)
            inserted.append((now + 1, start))
        for root, version, bound, length in versions:
            expected = [run for run in inserted[:length] if run[1] >= bound]
            assert list(tree.in_order(root, version, bound)) == expected


def test_runs_that_have_left_the_window_are_let_go_of() -> None:
    tree = Tree(100)
    tree.insert(1, 3, 0)
    tree.insert(2, 9, 1, bound=5)
    assert tree.nodes[tree.root]["left"] == 0


def test_a_rising_tree_has_no_right_children_and_makes_no_copies() -> None:
    tree = Tree(1_000)
    made = [tree.insert(i + 1, i, i) for i in range(200)]
    assert set(made) == {1}
    chain = list(tree.edges(tree.root, 1_000))
    assert all(a[1] == b[0] for a, b in pairwise(chain))
