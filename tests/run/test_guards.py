"""UNLESS whose conditions mention the match, on the embedded engine against the oracle."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cernis
from cernis.languages.ceql import parse
from cernis.pattern.query import Pattern
from cernis.testing.differential import assert_agrees
from cernis.testing.grammar import split_batches
from cernis.testing.tables import make_table

few = settings(
    max_examples=max(60, settings.default.max_examples), suppress_health_check=list(HealthCheck)
)

BODIES = [
    "A AS a ; B AS b",
    "A AS a ; A AS m ; B AS b",
    "A AS a ; C AS m ; B AS b",
    "A AS a : B AS b",
    "(A+) AS a ; B AS b",
    "A AS a ; (B+) AS b",
    "A AS a -> B AS b",
    "A AS a ALL B AS b",
    "A AS a ;[2 SECONDS] B AS b",
    "A AS a ; (B OR C) AS b",
    "A AS a ; C? ; B AS b",
    "(A AS a)? ; C ; B AS b",
    "A AS a ; B AS b OR C AS a ; A AS b",
]
GUARDS = [
    "C AS c",
    "(A OR C) AS c",
    "B AS c",
    "(C+) AS c",
    "C AS d ; A AS c",
    "C AS c : C AS d",
    "C AS d ;[1 SECONDS] C AS c",
    "(C AS c ; A AS d) FILTER c[k] = d[k]",
]
COMPARED = ["{}[k] = {}[k]"] * 4 + ["{}[p] > {}[p]", "{}[p] <= {}[p]", "{}[k] != {}[k]"]
WINDOWS = ["", " WITHIN 2 SECONDS", " WITHIN 6 SECONDS", " WITHIN 5 EVENTS"]


def make_text(random: Random) -> str:
    def compare(one: str, other: str) -> str:
        sides = [one, other]
        random.shuffle(sides)
        return random.choice(COMPARED).format(*sides)

    def guard() -> str:
        conditions = [compare("c", random.choice("ab")) for _ in range(random.choice([0, 1, 1, 2]))]
        filtered = f" FILTER {' AND '.join(conditions)}" if conditions else ""
        return f"(({random.choice(GUARDS)}){filtered})"

    formula, equal = f"({random.choice(BODIES)})", random.choice(["a[k] = b[k]", "a[p] < b[p]", ""])
    inside = random.random() < 0.5
    if equal and inside:
        formula = f"({formula} FILTER {equal})"
    formula = f"{formula} UNLESS {guard()}"
    if random.random() < 0.1:
        formula = f"({formula}) UNLESS {guard()}"
    if equal and not inside:
        formula = f"({formula}) FILTER {equal}"
    strategy = random.choice(["", "", "", "NEXT ", "LAST ", "MAX ", "LONGEST ", "STRICT "])
    without = random.choice(["", "", "", "", " WITHOUT A FOR 1 SECONDS"])
    partition = random.choice(["", "", " PARTITION BY [c]", " PARTITION BY [k]"])
    return f"SELECT {strategy}* WHERE {formula}{without}{partition}{random.choice(WINDOWS)}"


def make_events(random: Random) -> list[dict[str, Any]]:
    time, events = 0, []
    for _ in range(random.choice([8, 12, 18])):
        time += random.choice([0, 0, 1, 2])
        attributes = {
            "k": random.choice([0, 1, 1, None]),
            "p": random.choice([0, 1, 2, 2.5, None, float("nan")]),
            "c": random.choice([0, 1]),
        }
        events.append({"type": random.choice("ABC"), "ts": time, **attributes})
    return events


@st.composite
def cases(draw: st.DrawFn) -> tuple[Pattern, list[dict[str, Any]], Random]:
    random = draw(st.randoms(use_true_random=False))
    return parse(make_text(random)), make_events(random), random


@few
@given(cases())
def test_guards_agree_with_the_oracle(case: tuple[Pattern, list[Any], Random]) -> None:
    pattern, events, _ = case
    found = cernis.query(pattern).run(make_table(events, timed=True))
    assert_agrees(pattern, events, list(found))
    assert found.count() == len(list(found))


@few
@given(cases())
def test_neither_batches_nor_freezing_change_guards(
    case: tuple[Pattern, list[Any], Random],
) -> None:
    pattern, events, random = case
    query, table = cernis.query(pattern), make_table(events, timed=True)
    session = query.session()

    def push_all() -> Iterator[cernis.Matches]:
        nonlocal session
        cuts = sorted(random.sample(range(len(events) + 1), 3))
        for piece in split_batches(range(len(events)), cuts):
            yield session.push(table.slice(piece[0] if piece else 0, len(piece)))
            if random.random() < 0.7:
                session = query.thaw(session.freeze())
        yield session.finish()

    assert_agrees(pattern, events, [match for part in push_all() for match in part])


EQUAL = "((A AS a ; B AS b) FILTER a[k] = b[k]) UNLESS (C AS c FILTER c[k] = a[k])"
ORDERED = "(A AS a ; B AS b) UNLESS (C AS c FILTER c[p] > b[p])"


def make_ticks(count: int) -> pa.Table:
    kinds = ["A", "B", "A", "C", "B", "B", "A"]
    return pa.table(
        {
            "type": [kinds[i % 7] for i in range(count)],
            "ts": [i // 3 for i in range(count)],
            "k": [i * i % 11 for i in range(count)],
            "p": [i * 7 % 13 for i in range(count)],
        }
    )


@pytest.mark.parametrize("formula", [EQUAL, ORDERED])
@pytest.mark.parametrize("window", ["20 MILLISECONDS", "40 EVENTS"])
def test_guards_leave_with_the_window(
    formula: str, window: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    query, events = cernis.query(f"SELECT * WHERE {formula} WITHIN {window}"), make_ticks(9_000)
    plenty = query.run(events).counts()
    monkeypatch.setattr("cernis.engine.correlated.runtime.FIRST_RECORDS", 64)
    session = query.session()
    scarce = [session.push(events.slice(i, 500)).counts() for i in range(0, 9_000, 500)]
    assert pa.concat_tables(scarce).equals(plenty)
    session.engine.collect()
    assert session.engine.records < 1_500


@pytest.mark.parametrize("formula", [EQUAL, ORDERED])
@pytest.mark.parametrize("window", ["", " WITHIN 3 MILLISECONDS", " WITHIN 8 EVENTS"])
@pytest.mark.parametrize("partition", ["", " PARTITION BY [k]"])
def test_pulling_gives_the_guarded_matches_inside_the_window(
    formula: str, window: str, partition: str
) -> None:
    query = cernis.query(f"SELECT * WHERE {formula}{partition}{window}")
    session, events, seen = query.session(keep=True), make_ticks(60), []
    for i in range(0, 60, 7):
        seen += [str(match) for match in session.push(events.slice(i, 7))]
        pulled = [str(match) for match in session.pull()]
        assert set(pulled) <= set(seen)
        assert window or sorted(pulled) == sorted(seen)


def test_a_time_forbids_no_number() -> None:
    made = [
        {"type": "A", "p": 1},
        {"type": "C", "p": datetime(2020, 1, 1)},
        {"type": "B", "p": 5},
        {"type": "C", "p": 7},
        {"type": "B", "p": 6},
    ]
    streams = {
        "N": pa.table({**_columns(made, [0, 2, 3, 4]), "ts": [0, 2, 3, 4]}),
        "T": pa.table({**_columns(made, [1]), "ts": [1]}),
    }
    text = f"SELECT * FROM N, T WHERE {ORDERED}"
    assert [(m.start, m.end) for m in cernis.query(text).run(streams)] == [(0, 1)]


def _columns(rows: list[dict[str, Any]], chosen: list[int]) -> dict[str, list[Any]]:
    return {name: [rows[i][name] for i in chosen] for name in ("type", "p")}
