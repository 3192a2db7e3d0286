"""Bounds on the values of an iteration: decided by the automaton, or pruning its candidates."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

import cernis
from tools.cases.far import make_spread_query
from tools.cases.far_census import check_case


def make_prices(count: int) -> pa.Table:
    random = Random(7)
    return pa.table({"type": ["A"] * count, "p": [10 * random.random() for _ in range(count)]})


def query(condition: str) -> cernis.Query:
    return cernis.query(f"SELECT * WHERE A+ AS x FILTER {condition} WITHIN 30 EVENTS")


@pytest.mark.parametrize(
    "condition",
    [
        "MAX(x[p]) - MIN(x[p]) < 0.2",
        "MIN(x[p]) + 0.2 > MAX(x[p])",
        "MAX(x[p]) <= 1.02 * MIN(x[p])",
        "COUNT(x) > 1 AND MAX(x[p]) - MIN(x[p]) < 0.1 AND SUM(x[p]) > 3",
    ],
)
def test_events_too_far_apart_have_no_candidates(condition: str) -> None:
    prices = make_prices(200)
    found = query(condition).run(prices, budget=30_000)
    assert 0 < found.count() < 3_000


def test_explain_says_when_a_candidate_is_left() -> None:
    (line,) = dict(query("MAX(x[p]) - MIN(x[p]) < 3").explain().list_entries())["conditions"]
    assert line == (
        "MAX(x[p]) - MIN(x[p]) < 3: on each candidate, which is left as soon as its values lie too "
        "far apart (it looks at all events of the match)"
    )


def test_a_difference_that_may_shrink_leaves_no_candidate() -> None:
    prices = make_prices(8)
    found = query("MAX(x[p]) - MIN(x[p]) > 9").run(prices)
    spread = query("NOT MAX(x[p]) - MIN(x[p]) > 9").run(prices)
    assert found.count() + spread.count() == 2**8 - 1


@pytest.mark.parametrize(
    "condition",
    [
        "MIN(x[p]) > 1 AND MAX(x[p]) < 3",
        "MIN(x[p]) > 1 AND MAX(x[p]) >= 3",
        "MAX(x[p]) <= 3 AND MIN(x[p]) = 1",
    ],
)
def test_bounds_by_constants_on_both_ends_leave_no_candidates(condition: str) -> None:
    assert query(condition).plan.unary is not None


@pytest.mark.parametrize("seed", range(12))
def test_random_bounds_agree_with_the_oracle(seed: int) -> None:
    random = Random(seed)
    check_case(make_spread_query(random), random)
