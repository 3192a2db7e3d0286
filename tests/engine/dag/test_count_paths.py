"""Counting by paths: as many matches as there are, where it does not leave them to the kernel."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import cernis
from cernis.engine.dag import count, count_paths
from cernis.engine.dag.links import DagSegment
from cernis.results.sets import correlated

Arrays = Callable[[slice], NDArray[np.int64] | None]


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Let arrays count first, always; return whether they did, by segment."""
    found: list[bool] = []

    def try_arrays(kernel: Any, arrays: Arrays, number: int) -> list[NDArray[np.int64]]:
        answer = arrays(slice(0, number))
        found.append(answer is not None)
        return [] if answer is None else [answer]

    monkeypatch.setattr(count, "arrays_in_pieces", try_arrays)
    return found


def draw_events(seed: int) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    return [
        {
            "type": draw.choice("ABC"),
            "v": draw.choice([0, 1.5, 2, 3, None, math.nan]),
            "k": draw.choice("xy"),
        }
        for _ in range(60)
    ]


@pytest.mark.parametrize(
    "formula",
    [
        "A AS a ; B AS b FILTER a[v] = b[v]",
        *(f"A AS a ; B AS b FILTER a[v] {operator} b[v]" for operator in ("<", "<=", ">", ">=")),
        "A AS a ; B AS b FILTER a[v] < b[v] AND a[k] = b[k]",
        "A AS a ; B AS b ; C AS c FILTER a[v] = b[v] AND b[v] >= c[v]",
    ],
)
@pytest.mark.parametrize("window", ["", "WITHIN 12 EVENTS"])
def test_paths_are_matches(formula: str, window: str, answered: list[bool]) -> None:
    matches = cernis.query(f"SELECT * FROM S WHERE {formula} {window}").run(draw_events(1))
    assert matches.count() == len(list(matches)) > 0
    assert answered
    assert all(answered)


@pytest.mark.parametrize(
    "formula",
    ["A AS a ; B AS b FILTER a[v] != b[v]", "A AS a ; B AS b FILTER ABS(b[v] - a[v]) <= 2"],
)
def test_other_indexes_are_left_to_the_kernel(formula: str, answered: list[bool]) -> None:
    matches = cernis.query(f"SELECT * FROM S WHERE {formula}").run(draw_events(3))
    assert matches.count() == len(list(matches)) > 0
    assert not any(answered)


def test_many_paths_are_left_to_the_kernel(
    answered: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(count, "_MOST_VISITS", 100)
    matches = cernis.query("SELECT * FROM S WHERE A AS a ; B AS b FILTER a[v] = b[v]").run(
        draw_events(4)
    )
    assert matches.count() == len(list(matches)) > 0
    assert not any(answered)


@pytest.mark.parametrize(
    ("formula", "is_counted"),
    [
        ("A AS a ; B AS b ; C AS c FILTER a[v] = c[v]", True),
        ("A AS a ; B AS b ; C AS c FILTER a[v] < c[v]", True),
        ("A AS a ; (B AS b ; B AS d) ; C AS c FILTER a[k] = c[k]", True),
        ("A AS a ; B+ AS b ; C AS c FILTER a[k] = c[k]", True),
        ("C AS x ; A AS a ; B AS b ; C AS c FILTER a[v] = c[v] AND x[v] <= a[v]", True),
        ("A AS a ; B AS b ; C AS c FILTER a[v] != c[v]", False),
        ("A AS a ; B AS b ; C AS c FILTER b[v] > a[v] AND c[v] >= a[v]", False),
    ],
)
@pytest.mark.parametrize("rest", ["WITHIN 15 EVENTS", "PARTITION BY [k] WITHIN 20 EVENTS"])
def test_events_between_are_counted_from_the_one_before_them_on(
    formula: str, is_counted: bool, rest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered: list[bool] = []

    def count_and_note(segment: DagSegment) -> NDArray[np.int64] | None:
        numbers = count_paths.count_by_paths(segment)
        answered.append(numbers is not None)
        return numbers

    monkeypatch.setattr(correlated, "count_by_paths", count_and_note)
    monkeypatch.setattr(count_paths, "_ROOTS", 5)
    for seed in range(3):
        matches = cernis.query(f"SELECT * FROM S WHERE {formula} {rest}").run(draw_events(seed))
        assert matches.count() == len(list(matches))
    assert answered
    assert all(answered) == is_counted
