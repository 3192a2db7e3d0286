"""Records that a collection has freed are overwritten in tests: a stale read shows."""

from __future__ import annotations

from typing import Any

import pytest

import cernis
from cernis.engine import poison

QUERIES = {
    "unary": "SELECT * FROM S WHERE A AS x ; B AS y WITHIN 3 EVENTS",
    "correlated": "SELECT * FROM S WHERE A AS x ; B AS y FILTER x[k] = y[k] WITHIN 3 EVENTS",
}
EVENTS = [{"type": "AB"[i % 2], "k": 1} for i in range(8)]


def read(matches: cernis.Matches) -> list[tuple[Any, ...]]:
    return [(match.start, match.end, *match.vars.values()) for match in matches]


def test_the_tests_run_with_poison() -> None:
    assert poison.IS_ON


@pytest.mark.parametrize("name", QUERIES)
def test_matches_stay_valid_when_the_engine_collects(name: str) -> None:
    session = cernis.query(QUERIES[name]).session()
    matches = session.push(EVENTS)
    expected = read(cernis.query(QUERIES[name]).run(EVENTS))
    session.push([{"type": "C", "k": 1}] * 5)
    session.engine.collect()
    assert read(matches) == expected != []


@pytest.mark.parametrize("name", QUERIES)
def test_an_engine_that_forgets_who_reads_its_records_shows(name: str) -> None:
    session = cernis.query(QUERIES[name]).session()
    matches = session.push(EVENTS)
    session.engine._is_shared = False
    session.engine.collect()
    with pytest.raises(LookupError, match=f"the event at position {poison.POSITION} is no longer"):
        read(matches)
