"""What happens when more candidates would have to be checked than allowed."""

from __future__ import annotations

from typing import Any

import pytest

import cernis
from cernis.errors import BudgetError

LISTED = "(A AS x ; B AS y ; C AS z FILTER x[k] = z[k]) ; D AS w"
"""Each candidate is checked as a whole: the condition is about a part of the match."""
WHILE_LISTING = "A AS x ; B AS y ; C AS z FILTER x[k] = z[k]"
NOTE = "partial: the budget of {} candidates is spent; matches are missing"


def query(formula: str, *, strategy: str = "", clauses: str = "") -> cernis.Query:
    return cernis.query(f"SELECT {strategy} * FROM S WHERE {formula} {clauses}")


def events(rounds: int, types: str = "ABCD") -> list[dict[str, Any]]:
    """Round after round of every type; each round has a key of its own, but for a third."""
    return [{"type": t, "k": i if i % 3 else 0} for i in range(rounds) for t in types]


def found(matches: cernis.Matches) -> set[tuple[tuple[str, tuple[int, ...]], ...]]:
    return {tuple((v, tuple(p)) for v, p in sorted(m.vars.items())) for m in matches}


@pytest.mark.parametrize("formula", [LISTED, WHILE_LISTING])
def test_too_many_candidates_are_an_error_that_says_what_to_do(formula: str) -> None:
    with pytest.raises(BudgetError) as caught:
        query(formula).run(events(20), budget=1000).count()
    assert str(caught.value) == (
        "the query compares events with each other and has more candidates to check than "
        "its budget of 1,000; narrow the window or the pattern, allow a larger budget, or ask "
        "for a partial answer"
    )


@pytest.mark.parametrize("formula", [LISTED, WHILE_LISTING])
def test_a_partial_answer_is_flagged_and_holds_matches_only(formula: str) -> None:
    every = query(formula).run(events(12))
    some = query(formula).run(events(12), budget=300, on_budget="partial")
    assert not every.partial
    assert some.partial
    assert some.notes == (NOTE.format(300),)
    assert found(some) < found(every)
    assert found(some)


@pytest.mark.parametrize("formula", [LISTED, WHILE_LISTING])
def test_a_budget_that_is_enough_leaves_no_mark(formula: str) -> None:
    matches = query(formula).run(events(4), on_budget="partial")
    assert not matches.partial
    assert matches.notes == ()
    assert found(matches) == found(query(formula).run(events(4)))


@pytest.mark.parametrize("strategy", ["MAX", "LAST", "NEXT"])
def test_a_strategy_leaves_out_the_end_where_the_budget_was_spent(strategy: str) -> None:
    pattern = query(LISTED, strategy=strategy)
    every = pattern.run(events(12))
    some = pattern.run(events(12), budget=300, on_budget="partial")
    assert some.partial
    ends = {m.end for m in some}
    assert ends
    last = max(ends)
    # up to the last end that was decided, nothing is missing
    assert found(some) == {
        tuple((v, tuple(p)) for v, p in sorted(m.vars.items())) for m in every if m.end <= last
    }
    assert last < max(m.end for m in every)


def test_consumption_leaves_out_the_end_where_the_budget_was_spent() -> None:
    pattern = query(LISTED, clauses="WITHIN 20 EVENTS CONSUME BY ANY")
    every = [m.end for m in pattern.run(events(30))]
    some = pattern.run(events(30), budget=150, on_budget="partial")
    assert some.partial
    ends = [m.end for m in some]
    assert ends
    assert ends == every[: len(ends)]


def test_nothing_is_found_once_the_budget_is_spent() -> None:
    session = query(LISTED).session(budget=10, on_budget="partial")
    first = session.push(events(6))
    assert first.partial
    later = session.push(events(6))
    assert later.partial
    assert later.notes == (NOTE.format(10),)
    assert later.count() == 0


def test_a_budget_belongs_to_the_session_and_not_to_a_batch() -> None:
    pattern = query(LISTED, clauses="WITHIN 8 EVENTS")
    one = pattern.session(budget=60, on_budget="partial")
    assert [one.push(events(3)).partial for _ in range(30)].count(True) not in (0, 30)
    assert not pattern.session(budget=60, on_budget="partial").push(events(3)).partial


def test_a_query_that_an_index_decides_spends_nothing() -> None:
    pattern = query("A AS x ; B AS y FILTER x[k] = y[k]")
    matches = pattern.run(events(40), budget=0)
    assert matches.count() > 100
    assert not matches.partial
