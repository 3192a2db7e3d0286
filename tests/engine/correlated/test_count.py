"""Stars are counted for all centres at once: as many matches as listing finds, and more."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pytest

import cernis
from cernis.engine.correlated import count
from cernis.engine.dag.links import DagSegment
from cernis.results.sets import correlated

EVERY = ["", " WITHIN 12 EVENTS", " PARTITION BY [k] WITHIN 9 EVENTS", " WITHIN 15 MILLISECONDS"]


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Count stars as soon as there is a match; return whether that was possible, by segment."""
    found: list[bool] = []

    def count_and_note(tables: Any, segment: DagSegment) -> list[int] | None:
        numbers = count.count_stars(tables, segment)
        found.append(numbers is not None)
        return numbers

    monkeypatch.setattr(correlated, "_FEW_MATCHES", -(10**9))
    monkeypatch.setattr(correlated, "count_by_paths", lambda _: None)
    monkeypatch.setattr(correlated, "count_stars", count_and_note)
    return found


def draw_events(seed: int, types: str = "ABC", number: int = 40) -> list[dict[str, Any]]:
    random, events, time = Random(seed), list[dict[str, Any]](), 0
    for _ in range(number):
        time += random.choice([0, 1, 1, 2])
        price = random.choice([0, 1, 1.5, 2, 3, 4, None, math.nan])
        key = random.choice([0, 0, 0, 0, 1, None])
        events.append({"type": random.choice(types), "ts": time, "p": price, "k": key})
    return events


@pytest.mark.parametrize(
    "formula",
    [
        "A AS a ; B AS b ; C AS c FILTER a[p] < c[p]",
        "A AS a ; (B OR C)+ AS b ; C AS c FILTER a[p] >= c[p] AND a[k] = b[k] AND b[k] = c[k]",
        "A AS a ; (B AS b ; B AS d) ; C AS c FILTER ABS(c[p] - a[p]) <= 1",
        "A AS a ; B+ AS b ; C AS c FILTER b[p] < a[p] AND c[p] > a[p]",
        "A AS a ; B AS b ; C AS m ; C AS c FILTER ABS(b[p] - a[p]) <= 1 AND c[p] > a[p]",
        "A AS a ; B AS b ; A AS d ; C AS c FILTER b[p] = a[p] AND a[p] <= c[p] * 2",
    ],
)
@pytest.mark.parametrize("rest", EVERY)
def test_as_many_matches_are_counted_as_listed(
    formula: str, rest: str, answered: list[bool]
) -> None:
    for seed in range(3):
        matches = cernis.query(f"SELECT * WHERE ({formula}){rest}").run(draw_events(seed))
        assert matches.count() == len(list(matches))
    assert answered
    assert all(answered)


@pytest.mark.parametrize("rest", EVERY)
def test_an_event_may_be_any_step(rest: str, answered: list[bool]) -> None:
    formula = (
        "T AS a ; T AS b ; T AS c ; T AS d FILTER b[p] <= 0.95 * a[p] AND c[p] >= 0.5 * a[p] "
        "AND c[p] <= 1.5 * a[p] AND d[p] > 1.01 * a[p]"
    )
    for seed in range(3):
        events = draw_events(seed, "T", 20)
        matches = cernis.query(f"SELECT * WHERE ({formula}){rest}").run(events)
        assert matches.count() == len(list(matches))
    assert all(answered)


@pytest.mark.parametrize(
    "formula",
    [
        "A AS a ; B AS b ; C AS c FILTER a[p] < b[p] AND a[k] > c[k]",
        "A AS a ; B AS b ; C AS c ; B AS d FILTER a[p] > b[p] AND b[p] < c[p] AND d[p] > a[p]",
        "C ; A AS a ; B AS b ; C AS c FILTER a[p] < c[p]",
        "A AS a ; B AS b ; C AS c FILTER a[p] != c[p]",
    ],
)
def test_others_are_listed_to_be_counted(formula: str, answered: list[bool]) -> None:
    matches = cernis.query(f"SELECT * WHERE ({formula}) WITHIN 30 EVENTS").run(
        draw_events(1, number=80)
    )
    assert matches.count() == len(list(matches)) > 0
    assert not any(answered)


@pytest.mark.parametrize(
    ("condition", "is_counted"),
    [("0.9 * a[p] < b[p] AND c[p] < 2 * a[p]", True), ("a[p] < b[p] AND c[k] < a[k]", False)],
)
def test_explain_says_what_is_counted(condition: str, is_counted: bool) -> None:
    query = cernis.query(f"SELECT * WHERE (A AS a ; B AS b ; C AS c) FILTER {condition}")
    told = "counting: without enumerating where matches are many" in str(query.explain())
    assert told == is_counted


def test_counts_are_exact_however_large(answered: list[bool]) -> None:
    prices = [*[("A", i) for i in range(5)], *[("B", 0)] * 90, *[("C", 3), ("C", 9)]]
    events = [{"type": type_, "p": p} for type_, p in prices]
    matches = cernis.query("SELECT * WHERE (A AS a ; B+ AS b ; C AS c) FILTER a[p] < c[p]")
    found = matches.run(events)
    assert found.count() == (3 + 5) * (2**90 - 1)
    assert answered == [True]


def test_a_session_counts_the_matches_that_end_in_each_push(answered: list[bool]) -> None:
    query = cernis.query(
        "SELECT * WHERE (A AS a ; B AS b ; C AS c) FILTER b[p] < a[p] AND c[p] > a[p] "
        "WITHIN 12 EVENTS"
    )
    events = draw_events(5, number=60)
    whole = query.run(events).count()
    session, numbers = query.session(), list[int]()
    for first in range(0, len(events), 20):
        numbers.append(session.push(events[first : first + 20]).count())
        session = query.thaw(session.freeze())
    assert sum(numbers) + session.finish().count() == whole > 0
    assert all(answered)
