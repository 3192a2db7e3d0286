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
from tools.cases.differential import assert_agrees
from tools.cases.grammar import RandomCase, split_batches
from tools.cases.strategies import guarded_cases
from tools.cases.tables import make_table

few = settings(
    max_examples=max(40, settings.default.max_examples), suppress_health_check=list(HealthCheck)
)


@few
@given(guarded_cases())
def test_guards_agree_with_the_oracle(case: RandomCase) -> None:
    pattern, events = case
    found = cernis.query(pattern).run(make_table(events, timed=True))
    assert_agrees(pattern, events, list(found))
    assert found.count() == len(list(found))


@few
@given(guarded_cases(), st.randoms(use_true_random=False))
def test_neither_batches_nor_freezing_change_guards(case: RandomCase, random: Random) -> None:
    pattern, events = case
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

EARLIER = "(A AS a ; B AS b) UNLESS (C AS c FILTER c[k] = a[k])"
"""Only the partial match has the value: the guard takes it out of the index."""
ALONE = "(((A AS a ; B AS b) FILTER a[k] = b[k]) UNLESS C) ; B AS e"
"""Nothing is compared with the guard: what has come since it occurred goes on."""
IN_PART = f"(({EQUAL}) ; B AS e) FILTER e[k] = b[k]"


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


@pytest.mark.parametrize("formula", [EQUAL, ORDERED, EARLIER, IN_PART, ALONE])
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


@pytest.mark.parametrize(
    "formula",
    [EARLIER, "(A AS a -> B AS b) FILTER a[k] = b[k]", EARLIER.replace(";", "->"), ALONE],
)
def test_what_leaves_an_index_leaves_the_memory_without_a_window(formula: str) -> None:
    session = cernis.query(f"SELECT COUNT(*) WHERE {formula}").session()
    rounds, sizes = 12_000, []
    for first in range(0, 3 * rounds, rounds):
        numbers = range(first, first + rounds)
        last = "C" if formula in (EARLIER, ALONE) else "B"
        session.push(
            pa.table(
                {
                    "type": [kind for _ in numbers for kind in ("A", last)],
                    "ts": [i for i in numbers for _ in "AB"],
                    "k": [i % 5_000 for i in numbers for _ in "AB"],
                }
            )
        )
        session.engine.collect()
        sizes.append(session.engine.records)
    assert max(sizes) < 50


def test_a_guard_takes_out_what_began_before_it_and_nothing_else() -> None:
    kinds = [("A", 1), ("A", 2), ("A", None), ("C", 1), ("A", 1), ("C", None), ("B", 0), ("C", 2)]
    events = [{"type": kind, "ts": i, "k": k} for i, (kind, k) in enumerate([*kinds, ("B", 0)])]
    query = cernis.query(f"SELECT * WHERE {EARLIER}")
    assert query.plan.tables is not None
    assert query.plan.tables.pcea.removals
    found = [(m.start, m.end) for m in query.run(make_table(events, timed=True))]
    assert sorted(found) == [(1, 6), (2, 6), (2, 8), (4, 6), (4, 8)]


@pytest.mark.parametrize("formula", [EQUAL, ORDERED, EARLIER, IN_PART, ALONE])
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
