"""Plans for what the events hold, and plans that travel."""

from __future__ import annotations

import pickle

import pytest

import cernis
from cernis.automata.correlated.pcea import Unindexed
from cernis.pattern.predicate import RANK
from cernis.pattern.query import Unit
from cernis.plan.plan import Guarantee
from cernis.schema import Kind, Schema, Stream

RISING = "SELECT * FROM S WHERE (A AS a ; B AS b) FILTER a[x] < b[x] WITHIN 10 EVENTS"


def schema(kind: Kind) -> Schema:
    return Schema((Stream("S", {"x": kind}),))


def test_no_index_keeps_the_order_of_text() -> None:
    plan = cernis.query(RISING).plan
    assert plan.guarantee is Guarantee.ORDERED
    assert plan.for_schema(schema(Kind.INT)) is plan
    text = plan.for_schema(schema(Kind.STRING))
    assert text.guarantee is Guarantee.RESIDUAL
    assert text.unindexed == Unindexed(frozenset({"x"}))
    assert plan.for_schema(schema(Kind.STRING)) is text
    assert text.for_schema(schema(Kind.STRING)) is text


def test_a_window_of_events_may_be_measured_by_rank() -> None:
    within = cernis.query(RISING).plan.by_rank().pattern.within
    assert within is not None
    assert (within.unit, within.attribute) == (Unit.EVENTS, RANK)


def test_a_pickled_plan_is_rebuilt_once() -> None:
    plan = cernis.query(RISING).plan.leave_out(Unindexed(frozenset({"x"})))
    travelled = pickle.dumps(plan)
    rebuilt = pickle.loads(travelled)
    assert rebuilt is pickle.loads(travelled)
    assert (rebuilt.pattern, rebuilt.unindexed) == (plan.pattern, plan.unindexed)
    assert rebuilt.guarantee is plan.guarantee


def test_a_part_that_is_too_large_is_shown() -> None:
    with pytest.raises(cernis.BudgetError) as raised:
        _ = cernis.query("SELECT * WHERE B ; A{90000} AS x").plan
    assert str(raised.value) == (
        "line 1, column 20: {90000} unrolls to 90,000 copies; "
        "at most 50,000 automaton states are allowed\n"
        "  SELECT * WHERE B ; A{90000} AS x\n"
        "                     ^^^^^^^^"
    )
