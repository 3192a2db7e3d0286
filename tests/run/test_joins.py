"""Conjunctive queries on the engine, against the oracle."""

from __future__ import annotations

from hypothesis import given

import cernis
from cernis.languages.conjunctive import lower, parse
from cernis.testing import oracle
from cernis.testing.grammar import Events
from cernis.testing.strategies import joins
from cernis.testing.tables import make_table


@given(joins())
def test_a_random_conjunctive_query_has_the_matches_of_its_definition(
    case: tuple[str, Events],
) -> None:
    text, events = case
    pattern = lower(parse(text))
    timed = any("ts" in event for event in events) or "MILLISECONDS" in text
    found = cernis.query(pattern).run(make_table(events, timed=timed))
    matches = [(m.start, m.end, {x: tuple(at) for x, at in m.vars.items()}) for m in found]
    expected = [(m.start, m.end, dict(m.vars)) for m in oracle.evaluate(pattern, events)]
    assert sorted(map(str, matches)) == sorted(map(str, expected))
