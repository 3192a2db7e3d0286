"""The persistent search tree: every version, against sorted lists."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pytest

from cernis.compiled import callable_from_python
from cernis.engine.dag import ordered as by_order
from cernis.engine.dag.records import (
    BRANCH,
    BRANCHES,
    COUNTERS,
    EQUAL,
    IN_GAP,
    KIND_BITS,
    LARGEST_NUMBER,
    NOTHING,
    OPERATORS,
)
from cernis.engine.dag.sound import check_branches

insert = callable_from_python(by_order.insert)
erase = callable_from_python(by_order.erase)
room_to_erase = callable_from_python(by_order.room_to_erase)
latest_start = callable_from_python(by_order.latest_start)
room_to_insert = callable_from_python(by_order.room_to_insert)
find_early = callable_from_python(by_order.find_early)
pop_early = callable_from_python(by_order.pop_early)
room_to_pop_early = callable_from_python(by_order.room_to_pop_early)

HOLDS: dict[str, Callable[[tuple[int, int], tuple[int, int]], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


class Run(NamedTuple):
    value: tuple[int, int]
    vertex: int
    start: int


class Tree:
    def __init__(self, room: int) -> None:
        self.branches = np.zeros(room, BRANCH)
        self.counters = np.zeros(COUNTERS, np.int64)
        self.counters[BRANCHES] = 1
        self.root = 0

    def insert(self, run: Run, bound: int = -1, shared: int = int(by_order.ALL_SHARED)) -> None:
        high, low = run.value
        before = int(self.counters[BRANCHES])
        room = room_to_insert(self.branches, self.root, high, low)
        planted = by_order.PlantedRun(high, low, run.vertex, run.start)
        self.root = insert(self.branches, self.counters, self.root, planted, bound, shared)
        assert int(self.counters[BRANCHES]) - before <= room

    def erase(self, op: str, value: tuple[int, int]) -> None:
        before = int(self.counters[BRANCHES])
        room = room_to_erase(self.branches, self.root, OPERATORS[op], *value)
        self.root = erase(self.branches, self.counters, self.root, OPERATORS[op], *value, -1)
        assert int(self.counters[BRANCHES]) - before <= room

    def runs(self, root: int) -> Iterator[Run]:
        if root == 0:
            return
        at = self.branches[root]
        yield from self.runs(int(at["left"]))
        yield Run((int(at["high"]), int(at["low"])), int(at["vertex"]), int(at["start"]))
        yield from self.runs(int(at["right"]))

    def depth(self, root: int) -> int:
        level, depth = [root] if root else [], 0
        while level:
            depth += 1
            level = [
                int(child)
                for at in level
                for child in (self.branches[at]["left"], self.branches[at]["right"])
                if child
            ]
        return depth

    def best(self, root: int) -> int:
        """The latest start below, with every branch's own claim checked."""
        if root == 0:
            return int(NOTHING)
        at = self.branches[root]
        found = max(int(at["start"]), self.best(int(at["left"])), self.best(int(at["right"])))
        assert at["best"] == found
        return found

    def latest(self, root: int, op: str, value: tuple[int, int]) -> int:
        return int(latest_start(self.branches, root, OPERATORS[op], *value))


def random_run(draw: random.Random, vertex: int) -> Run:
    return Run((draw.randint(0, 9), draw.choice([0, 0, 0, 1])), vertex, draw.randint(0, 99))


def test_every_version_holds_what_was_inserted_before_it_in_order() -> None:
    draw = random.Random(1)
    tree = Tree(10_000)
    inserted: list[Run] = []
    versions = []
    for vertex in range(1, 200):
        versions.append((tree.root, len(inserted)))
        inserted.append(random_run(draw, vertex))
        tree.insert(inserted[-1])
    for root, length in versions:
        found = list(tree.runs(root))
        assert [run.value for run in found] == sorted(run.value for run in inserted[:length])
        assert sorted(found) == sorted(inserted[:length])
        tree.best(root)


@pytest.mark.parametrize("seed", range(20))
def test_runs_that_come_together_share_their_way_and_no_record_is_left_unsound(seed: int) -> None:
    draw, tree = random.Random(seed), Tree(10_000)
    held: list[Run] = []
    versions: list[tuple[int, list[Run]]] = []
    for _ in range(20):
        shared = int(tree.counters[BRANCHES])
        for _ in range(draw.randint(1, 6)):
            held.append(random_run(draw, len(held) + 1))
            tree.insert(held[-1], shared=shared)
        versions.append((tree.root, sorted(held)))
        check_branches(tree.branches[: tree.counters[BRANCHES]])
    for root, runs in versions:
        assert sorted(tree.runs(root)) == runs
        tree.best(root)


@pytest.mark.parametrize("op", HOLDS)
def test_the_latest_start_in_a_range_is_known_without_a_walk(op: str) -> None:
    draw = random.Random(2)
    tree = Tree(10_000)
    inserted: list[Run] = []
    for vertex in range(1, 150):
        inserted.append(random_run(draw, vertex))
        tree.insert(inserted[-1])
        asked = random_run(draw, 0).value
        starts = [run.start for run in inserted if HOLDS[op](run.value, asked)]
        assert tree.latest(tree.root, op, asked) == max(starts, default=int(NOTHING))


def random_kind(draw: random.Random) -> int:
    """Return where the values of a kind begin: numbers, or one of two others."""
    kind = draw.choice([0, 0, 3, 5])
    return int(LARGEST_NUMBER) + (kind << KIND_BITS) if kind else 0


@pytest.mark.parametrize("op", HOLDS)
def test_erasing_leaves_what_is_out_of_range_or_of_another_kind(op: str) -> None:
    draw = random.Random(3)
    tree = Tree(40_000)
    held: list[Run] = []
    versions = []
    for vertex in range(1, 300):
        run = random_run(draw, vertex)
        held = [*held, run._replace(value=(run.value[0] + random_kind(draw), run.value[1]))]
        tree.insert(held[-1])
        if draw.random() < 0.2:
            kind = random_kind(draw)
            high, low = random_run(draw, 0).value
            asked = (high + kind, low)
            tree.erase(op, asked)
            held = [
                run
                for run in held
                if not HOLDS[op](run.value, asked) or run.value[0] - kind not in range(10)
            ]
        versions.append((tree.root, held))
    for root, expected in versions:
        assert sorted(tree.runs(root)) == sorted(expected)
        assert [r.value for r in tree.runs(root)] == sorted(r.value for r in expected)
        tree.best(root)
    assert tree.depth(tree.root) <= 40


def test_what_has_left_the_window_does_not_hide_what_has_not() -> None:
    draw = random.Random(3)
    tree = Tree(100_000)
    inserted: list[Run] = []
    for now in range(400):
        bound = now - 12
        run = Run((draw.randint(0, 30), 0), now + 1, max(0, now - draw.randint(0, 15)))
        tree.insert(run, bound)
        inserted.append(run)
        alive = sorted(run for run in inserted if run.start >= bound)
        found = list(tree.runs(tree.root))
        assert [run.value for run in found] == sorted(run.value for run in found)
        assert sorted(run for run in found if run.start >= bound) == alive


@pytest.mark.parametrize("shape", ["rising", "falling", "alike", "random"])
def test_the_tree_stays_shallow(shape: str) -> None:
    draw = random.Random(4)
    length = 4_096
    value: Callable[[int], int] = {
        "rising": lambda i: i,
        "falling": lambda i: length - i,
        "alike": lambda i: 5,
        "random": lambda i: draw.randint(0, length),
    }[shape]
    tree = Tree(length * 60)
    for i in range(length):
        tree.insert(Run((value(i), 0), i + 1, i))
    # a search in a random treap of n takes about 2 ln n = 17 steps
    assert tree.depth(tree.root) <= 50
    assert int(tree.counters[BRANCHES]) <= 40 * length


@pytest.mark.parametrize("seed", range(20))
def test_runs_that_fit_and_came_before_a_moment_are_taken_out_one_by_one(seed: int) -> None:
    choose = random.Random(seed)
    tree, waiting = Tree(20_000), list[tuple[int, int]]()
    for position in range(120):
        value = choose.choice([position, choose.randrange(12), 200 - position])
        run = Run((value, 0), position + 1, int(by_order.EARLIEST) - position)
        tree.insert(run, NOTHING)
        waiting.append((value, position))
        if choose.random() < 0.6:
            continue
        code, asked = choose.choice([*((OPERATORS[op], value) for op in HOLDS), (EQUAL, 7)])
        most, before = 0, choose.randrange(position + 2)
        if choose.random() < 0.3:
            code, asked, most = IN_GAP, choose.randrange(9), choose.randrange(200)
        while True:
            fitting = {
                each for each in waiting if each[1] < before and _fits(code, each, asked, most)
            }
            question = (tree.branches, tree.root, code, asked, most, before)
            branch, _ = find_early(*question)
            assert (branch != 0) == bool(fitting)
            if branch == 0:
                break
            at = tree.branches[branch]
            found = int(at["high"]), int(by_order.EARLIEST - at["start"])
            assert found in fitting
            waiting.remove(found)
            made, room = int(tree.counters[BRANCHES]), room_to_pop_early(*question)
            tree.root = pop_early(tree.branches, tree.counters, *question[1:])
            assert int(tree.counters[BRANCHES]) - made <= room
        kept = [(run.value[0], int(by_order.EARLIEST - run.start)) for run in tree.runs(tree.root)]
        assert sorted(kept) == sorted(waiting)
        assert [value for value, _ in kept] == sorted(value for value, _ in kept)


def _fits(code: int, run: tuple[int, int], asked: int, most: int) -> bool:
    if code == IN_GAP:
        return asked <= run[0] <= most
    if code == EQUAL:
        return run[0] == asked
    return next(HOLDS[op] for op in HOLDS if OPERATORS[op] == code)((run[0], 0), (asked, 0))
