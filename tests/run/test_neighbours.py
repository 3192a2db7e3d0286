"""`PREV` in arithmetic on times, numbers and text, against the oracle; how it is decided."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import cernis
from cernis.testing.oracle import evaluate
from tools.cases.differential import comparable_match

BEGIN = datetime(2024, 1, 1)
CANDIDATE, NEEDS = "on each candidate", "an index needs PREV alone on one side"
CONDITIONS = [
    "PREV(t)[dropoff] + 20 MINUTES >= t[pickup]",
    "t[pickup] <= PREV(t)[dropoff] + 20 MINUTES",
    "t[pickup] - PREV(t)[dropoff] <= 20 MINUTES",
    "20 MINUTES >= t[pickup] - PREV(t)[dropoff]",
    "t[pickup] - PREV(t)[dropoff] = 10 MINUTES",
    "PREV(t)[dropoff] + 10 MINUTES = t[pickup]",
    "t[pickup] - PREV(t)[dropoff] != 10 MINUTES",
    "PREV(t)[dropoff] - 5 MINUTES < t[pickup] - 15 MINUTES",
    "PREV(t)[dropoff] - PREV(t)[pickup] < t[dropoff] - t[pickup]",
    "t[dropoff] - PREV(t)[pickup] > 2 * (t[dropoff] - t[pickup])",
    "PREV(t)[dropoff] - t[pickup] > 5 MINUTES OR PREV(t)[pickup] + 1 MINUTE = t[pickup]",
]


def make_trips(seed: int) -> list[tuple[int | None, int | None]]:
    """Return minutes of pickups and dropoffs."""
    rng = random.Random(seed)
    at, trips = 0, list[tuple[int | None, int | None]]()
    for _ in range(7):
        at += 5 * rng.randrange(4)
        end = at + 5 * rng.randrange(1, 5)
        missing = rng.random() < 0.1
        trips.append((None if missing else at, end))
        at = end if rng.random() < 0.8 else at
    return trips


def find(condition: str, trips: Any, write: Any) -> list[list[int]]:
    query = cernis.query(f"SELECT t FROM S WHERE T+ AS t FILTER {condition}")
    events = [
        {"type": "T", "ts": i, "pickup": write(a), "dropoff": write(b)}
        for i, (a, b) in enumerate(trips)
    ]
    return [match.vars["t"] for match in query.run(events)]


def expect(condition: str, trips: Any) -> list[list[int]]:
    """Return what the oracle finds, where times are minutes as numbers of ticks."""
    pattern = cernis.query(f"SELECT t FROM S WHERE T+ AS t FILTER {condition}").pattern
    rows = [{"type": "T", "ts": i, "pickup": a, "dropoff": b} for i, (a, b) in enumerate(trips)]
    found = evaluate(pattern, rows, tick=60_000_000_000)
    return [list(match.vars["t"]) for match in found]


WAYS: dict[str, Any] = {
    "times": lambda minute: BEGIN + timedelta(minutes=minute),
    "times with a zone": lambda minute: BEGIN.replace(tzinfo=UTC) + timedelta(minutes=minute),
    "milliseconds": lambda minute: minute * 60_000,
    "fractions": lambda minute: minute * 60_000.0,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("condition", CONDITIONS)
def test_arithmetic_on_neighbours_agrees_with_the_oracle(condition: str, way: str) -> None:
    for seed in range(4):
        trips = make_trips(seed)
        found = find(condition, trips, lambda at: None if at is None else WAYS[way](at))
        assert sorted(found) == sorted(expect(condition, trips))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * WHERE (A AS a ; C AS c) UNLESS (B:{2} AS b FILTER b[v] - PREV(b)[v] = 1)",
        "SELECT * WHERE A WITHOUT (B{2} AS b FILTER PREV(b)[v] + 1 = b[v]) FOR 4 MILLISECONDS",
        "SELECT * WHERE (A AS a -> B AS b) FILTER b[v] - PREV(a)[v] = 1",
        "SELECT * WHERE (A -> B->+ -> C) AS m FILTER PREV(m)[v] + 1 >= m[v]",
        "SELECT LONGEST b WHERE B+ AS b FILTER PREV(b)[v] + 1 = b[v] WITHIN 6 MILLISECONDS",
        "SELECT NEXT b WHERE B+ AS b FILTER PREV(b)[v] * 2 >= b[v] CONSUME BY ANY",
        "SELECT * WHERE (A AS a ALL B AS b) FILTER PREV(a)[v] + 1 = b[v]",
        "SELECT * WHERE (A AS a ;[3 MILLISECONDS] B AS b) FILTER PREV(a)[v] + 1 >= b[v]",
    ],
)
def test_every_operator_around_neighbours_agrees_with_the_oracle(query: str) -> None:
    compiled, number = cernis.query(query), 0
    for seed in range(12):
        rng = random.Random(seed)
        events = [{"type": rng.choice("ABBC"), "ts": i, "v": rng.randrange(4)} for i in range(9)]
        expected = evaluate(compiled.pattern, events, complete=True)
        found = compiled.run(events, complete=True)
        assert sorted(map(comparable_match, found)) == sorted(map(comparable_match, expected))
        number += len(expected)
    assert number > 0


def test_texts_of_times_are_times_in_arithmetic() -> None:
    query = cernis.query("SELECT t FROM S WHERE T+ AS t FILTER PREV(t)[ts] + 5 MINUTES >= t[ts]")
    times = [f"2024-01-01T12:{minute:02}:00" for minute in (0, 4, 10, 15)]
    found = query.run([{"type": "T", "ts": time} for time in times])
    assert [match.vars["t"] for match in found if match.start != match.end] == [[0, 1], [2, 3]]


def test_times_compare_with_texts_of_times() -> None:
    query = cernis.query("SELECT t FROM S WHERE T+ AS t FILTER PREV(t)[a] + 5 MINUTES >= t[b]")
    events = [
        {"type": "T", "a": BEGIN, "b": "2024-01-01T00:00:00"},
        {"type": "T", "a": BEGIN, "b": "2024-01-01T00:05:00"},
        {"type": "T", "a": BEGIN, "b": "soon"},
    ]
    assert [match.vars["t"] for match in query.run(events)] == [[0], [1], [0, 1], [2]]


@pytest.mark.parametrize(
    ("condition", "how"),
    [
        ("PREV(t)[a] + 20 MINUTES >= t[b]", "by an ordered index (all its pairs are neighbours)"),
        ("t[b] - PREV(t)[a] <= 20 MINUTES", "by an ordered index (all its pairs are neighbours)"),
        (
            "2 * PREV(t)[n] = t[m] + t[n]",
            "by an index on equal values (all its pairs are neighbours)",
        ),
        (
            "t[n] - PREV(t)[n] > 5",
            f"{CANDIDATE} (it calculates with the values of two events; {NEEDS}, and no !=)",
        ),
        (
            "t[n] - PREV(t)[n] > 5 SECONDS",
            f"{CANDIDATE} (a difference of numbers is rounded; {NEEDS})",
        ),
    ],
)
def test_explain_says_how_arithmetic_on_neighbours_is_decided(condition: str, how: str) -> None:
    declared = "CREATE STREAM S { a: timestamp, b: timestamp, n: int, m: double }"
    query = cernis.query(f"{declared} SELECT t FROM S WHERE T+ AS t FILTER {condition}")
    assert f"{condition}: {how}" in str(query.explain())


@pytest.mark.parametrize("condition", CONDITIONS[:4])
def test_an_index_finds_runs_of_neighbours_among_very_many_others(condition: str) -> None:
    """There are 2^60 candidates: listing them would end at the budget."""
    events = [
        {
            "type": "T",
            "pickup": BEGIN + timedelta(hours=i),
            "dropoff": BEGIN + timedelta(hours=i, minutes=50),
        }
        for i in range(60)
    ]
    query = cernis.query(f"SELECT t FROM S WHERE T{{2,}} AS t FILTER {condition}")
    # from each trip back to each of those before it
    assert query.run(events).count() == 60 * 59 // 2


def test_a_frozen_session_goes_on_comparing_neighbours() -> None:
    for condition in CONDITIONS:
        query = cernis.query(f"SELECT t FROM S WHERE T+ AS t FILTER {condition}")
        trips = make_trips(3)
        events = [
            {
                "type": "T",
                "ts": i,
                "pickup": None if a is None else BEGIN + timedelta(minutes=a),
                "dropoff": None if b is None else BEGIN + timedelta(minutes=b),
            }
            for i, (a, b) in enumerate(trips)
        ]
        whole = [match.vars["t"] for match in query.run(events)]
        session, parts = query.session(), []
        for event in events:
            parts += [match.vars["t"] for match in session.push([event])]
            session = query.thaw(session.freeze())
        assert parts == whole


def test_why_not_names_the_two_events_and_their_values() -> None:
    query = cernis.query("SELECT t FROM S WHERE T+ AS t FILTER PREV(t)[n] + 5 >= t[n]")
    matches = query.run([{"type": "T", "n": n} for n in (1, 9)])
    told = str(query.trace(matches).why([0, 1]))
    assert "PREV(t)[n] is 1 in" in told
    assert "t[n] is 9 in" in told


def test_a_key_of_arithmetic_is_no_key_to_spread_events_by() -> None:
    plan = cernis.query("SELECT * FROM S WHERE A AS a ; B AS b FILTER PREV(a)[n] + 1 = b[n]").plan
    assert plan.tables is not None
    assert plan.key is None
