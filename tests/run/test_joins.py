"""Conjunctive queries on the engine, against the oracle."""

from __future__ import annotations

from hypothesis import given

import cernis
from cernis.languages.conjunctive import lower, parse
from cernis.testing import oracle
from tools.cases.grammar import Events
from tools.cases.strategies import joins
from tools.cases.tables import make_table


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
