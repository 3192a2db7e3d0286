"""An event without the keys of a PARTITION BY does not fit after a `->`."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

import cernis
from cernis.testing.oracle import evaluate
from tools.cases.differential import comparable_match

KINDS: list[dict[str, Any]] = [{"type": "B", "a": 0}, {"type": "C"}, {"type": "C", "a": 0}]


@pytest.mark.parametrize(
    "formula",
    [
        "NOT A AS x -> (C PARTITION BY [C[a]])",
        "NOT A -> (C AS x -> C AS y PARTITION BY [x[a], y[a]])",
        "B -> (C ; C PARTITION BY [a])",
        "B -> (C AS x ; C AS y PARTITION BY [x[a], y[a]])",
        "(C -> B) UNLESS (C -> (C ; C PARTITION BY [a]))",
    ],
)
def test_an_event_without_the_key_does_not_fit(formula: str) -> None:
    query = cernis.query(f"SELECT * FROM S WHERE {formula}")
    for stream in product(KINDS, repeat=4):
        events = [{"a": None, **event, "ts": i} for i, event in enumerate(stream)]
        found = {comparable_match(match) for match in query.run(events)}
        oracle = evaluate(query.pattern, events)
        expected = {comparable_match((m.start, m.end, m.vars)) for m in oracle}
        assert found == expected, stream
