"""The list with back pointers for !=, against its definition."""

from __future__ import annotations

import random
from itertools import permutations

import numpy as np
import pytest

from cernis.compiled import callable_from_python
from cernis.engine.dag import unlike
from cernis.engine.dag.records import COUNTERS, ENTRIES, ENTRY, EQUALS_NOTHING, MISSING

insert = callable_from_python(unlike.insert)
first_different = callable_from_python(unlike.first_different)
next_live = callable_from_python(unlike.next_live)

Values = tuple[int, ...]
Attributes = tuple[int, ...]

A, B = 0, 1


class Index:
    """One list. Entries are numbered from 1 on, latest last."""

    def __init__(self, width: int, room: int) -> None:
        self.width = width
        steps = unlike.sequences(width)
        self.lists = unlike.Lists(
            np.zeros(room + 1, ENTRY),
            np.zeros((room + 1, width), np.int64),
            np.zeros((room + 1, len(steps)), np.int32),
            steps,
        )
        self.counters = np.zeros(COUNTERS, np.int64)
        self.counters[ENTRIES] = 1
        self.head = 0

    def add(self, values: Values, start: int = 0, bound: int = 0) -> int:
        entry = int(self.counters[ENTRIES])
        self.lists.values[entry] = values
        asked = np.zeros(self.width, np.int64)
        self.head = insert(
            self.lists, self.counters, self.head, entry, start, bound, asked, self.width
        )
        return self.head

    def pointer(self, entry: int, attributes: Attributes) -> int:
        """entry[attributes]."""
        sequence = 0
        for attribute in attributes:
            sequence = self.lists.steps[sequence, attribute]
        return int(self.lists.back[entry, sequence])

    def find(self, entry: int, asked: Values) -> int:
        words = np.array(asked, np.int64)
        return first_different(self.lists, entry, words, self.width)

    def live(self, entry: int, asked: Values, bound: int) -> list[int]:
        """All entries from this one on backwards, as enumeration finds them."""
        words = np.array(asked, np.int64)
        found = []
        while entry:
            entry = next_live(self.lists, entry, words, self.width, bound)
            if entry:
                found.append(entry)
                entry = int(self.lists.entries[entry]["before"])
        return found


def differ(left: int, right: int) -> bool:
    return left < 0 or left != right


def brute_pointer(rows: list[Values], entry: int, attributes: Attributes) -> int:
    """The definition: rows[k - 1] is entry k."""
    asked: list[tuple[int, int]] = []
    reached = entry
    for attribute in attributes:
        asked.append((attribute, rows[reached - 1][attribute]))
        reached = next(
            (
                k
                for k in range(entry - 1, 0, -1)
                if all(differ(value, rows[k - 1][a]) for a, value in asked)
            ),
            0,
        )
        if reached == 0:
            return 0
    return reached


# ---------------------------------------------------------------- examples

FIGURE_3 = [(1, 4), (2, 1), (7, 3), (2, 4), (4, 3), (5, 3), (5, 3)]
"""Seven tuples over a and b that have the pointers of Figure 3 of "Towards Streaming
Evaluation of Queries with Correlation in Complex Event Processing"."""


def figure_3() -> Index:
    index = Index(2, 8)
    for row in FIGURE_3:
        index.add(row)
    return index


def test_the_last_entry_of_figure_3_has_the_pointers_of_example_14() -> None:
    index = figure_3()
    pointers = {path: index.pointer(7, path) for path in ((A,), (A, B), (B,), (B, A))}
    assert pointers == {(A,): 5, (A, B): 4, (B,): 4, (B, A): 1}


def test_an_entry_is_added_to_figure_3_as_in_example_15() -> None:
    index = figure_3()
    before = index.lists.back[:8].copy()
    assert index.add((2, 3)) == 8
    pointers = {path: index.pointer(8, path) for path in ((A,), (B,), (A, B), (B, A))}
    assert pointers == {(A,): 7, (B,): 4, (A, B): 1, (B, A): 1}
    assert np.array_equal(index.lists.back[:8], before)


def test_an_entry_that_differs_is_found_in_figure_3() -> None:
    index = figure_3()
    assert index.find(7, (2, 3)) == 1
    assert index.find(7, (5, 9)) == 5
    assert index.find(7, (9, 9)) == 7
    assert index.live(7, (2, 4), 0) == [7, 6, 5, 3]


# ------------------------------------------------------------------ random


def random_rows(draw: random.Random, width: int, length: int) -> list[Values]:
    values = [0, 1, 2, 2, 2, MISSING, EQUALS_NOTHING]
    return [tuple(draw.choice(values) for _ in range(width)) for _ in range(length)]


@pytest.mark.parametrize("width", [1, 2, 3])
def test_every_back_pointer_is_that_of_its_definition(width: int) -> None:
    draw = random.Random(width)
    paths = [p for m in range(1, width + 1) for p in permutations(range(width), m)]
    for _ in range(20):
        rows = random_rows(draw, width, 20)
        index = Index(width, len(rows))
        for row in rows:
            entry = index.add(row)
            for path in paths:
                assert index.pointer(entry, path) == brute_pointer(rows, entry, path)


@pytest.mark.parametrize("width", [1, 2, 3])
def test_a_search_finds_the_latest_entry_that_differs_in_everything(width: int) -> None:
    draw = random.Random(width + 10)
    for _ in range(20):
        rows = random_rows(draw, width, 25)
        index = Index(width, len(rows))
        for row in rows:
            index.add(row)
        for asked in random_rows(draw, width, 10):
            entry = draw.randint(1, len(rows))
            totally = [
                k
                for k in range(entry, 0, -1)
                if all(differ(a, b) for a, b in zip(asked, rows[k - 1], strict=True))
            ]
            assert index.find(entry, asked) == (totally[0] if totally else 0)
            assert index.live(entry, asked, 0) == totally


@pytest.mark.parametrize("width", [1, 2, 3])
def test_a_search_takes_one_look_more_than_there_are_attributes(width: int) -> None:
    """Each look that fails makes the sequence of attributes longer by one; none repeats."""
    steps = unlike.sequences(width)
    depth = {0: 0}
    for sequence, row in enumerate(steps.tolist()):
        for longer in row:
            if longer >= 0:
                assert longer > sequence
                depth[longer] = depth[sequence] + 1
    assert max(depth.values()) == width
    assert len(depth) == len(steps)


def test_entries_that_have_left_the_window_are_passed_over() -> None:
    draw = random.Random(5)
    for _ in range(30):
        index = Index(2, 40)
        kept: list[tuple[int, int, Values]] = []
        bound = 0
        for time in range(40):
            row = random_rows(draw, 2, 1)[0]
            start = max(0, time - draw.randint(0, 12))
            bound = max(bound, time - 8)
            kept.append((index.add(row, start, bound), start, row))
            asked = random_rows(draw, 2, 1)[0]
            expected = [
                entry
                for entry, begun, values in reversed(kept)
                if begun >= bound and all(map(differ, asked, values))
            ]
            assert index.live(index.head, asked, bound) == expected


def test_a_list_whose_entries_have_all_left_begins_anew() -> None:
    index = Index(1, 3)
    index.add((1,), start=0)
    index.add((2,), start=5, bound=5)
    assert index.lists.entries[2]["before"] == 0
    assert index.live(index.head, (9,), 5) == [2]
