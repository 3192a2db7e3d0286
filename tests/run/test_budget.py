"""What happens when more candidates would have to be checked than allowed."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import cernis
from cernis.errors import BudgetError

TWO = "x[k] <= z[k] AND x[k] >= z[k] AND y[k] < z[k] + 100"
"""An event is compared with two earlier ones."""
LISTED = f"(A AS x ; B AS y ; C AS z FILTER {TWO}) ; D AS w"
"""Each candidate is checked as a whole: the condition is about a part of the match."""
WHILE_LISTING = f"A AS x ; B AS y ; C AS z FILTER {TWO}"
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
        "the query decides x[k] <= z[k] (y can stand between the events it compares; "
        "y[k] < z[k + 100] compares z as well) on candidates and has more candidates to check than "
        "its budget of 1,000; narrow the window or the pattern, allow a larger budget, or ask for "
        "a partial answer"
    )


def test_the_error_names_a_condition_on_whole_matches() -> None:
    with pytest.raises(BudgetError, match=r"a condition on whole matches, SUM\(x\[k\]\) > 3, and "):
        query("A{3} AS x FILTER SUM(x[k]) > 3").run(events(20), budget=50).count()


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


@pytest.mark.parametrize("strategy", ["LAST", "NEXT"])
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


def test_every_push_has_the_whole_budget() -> None:
    pattern = query(LISTED, clauses="WITHIN 8 EVENTS")
    one, expected = pattern.session(budget=60), pattern.session()
    pushed = [found(one.push(events(3))) for _ in range(30)]  # many times 60 candidates in all
    assert pushed == [found(expected.push(events(3))) for _ in range(30)]
    assert any(pushed)


def test_every_batch_of_a_stream_has_the_whole_budget() -> None:
    pattern = query(LISTED, clauses="WITHIN 8 EVENTS")
    batches = [pa.Table.from_pylist(events(3)) for _ in range(30)]
    whole = pattern.run(pa.concat_tables(batches))
    streamed = pattern.session(budget=60).stream(iter(batches))
    assert sum(matches.count() for matches in streamed) == whole.count() > 0
    with pytest.raises(BudgetError):
        pattern.run(pa.concat_tables(batches), budget=60)


def test_a_push_after_a_partial_one_is_whole_again() -> None:
    session = query(LISTED, clauses="WITHIN 8 EVENTS").session(budget=20, on_budget="partial")
    assert session.push(events(6)).partial
    assert session.notes == [NOTE.format(20)]
    later = session.push(events(1))
    assert not later.partial
    assert later.notes == ()


def test_a_stream_tells_at_the_end_that_a_batch_was_partial() -> None:
    session = query(LISTED, clauses="WITHIN 8 EVENTS").session(budget=20, on_budget="partial")
    batches = [pa.Table.from_pylist(events(rounds)) for rounds in (2, 6, 2)]
    assert [matches.partial for matches in session.stream(iter(batches))] == [False, True, False]
    assert session.notes == [NOTE.format(20)]


def test_what_is_pulled_is_partial_after_a_partial_push() -> None:
    session = query(LISTED, clauses="WITHIN 8 EVENTS").session(
        keep=True, budget=20, on_budget="partial"
    )
    session.push(events(6))
    assert not session.push(events(1)).partial
    assert session.pull().partial


def test_no_match_is_certain_after_a_partial_answer_to_consumption() -> None:
    pattern = query(LISTED, clauses="WITHIN 20 EVENTS CONSUME BY ANY")
    session = pattern.session(budget=10, on_budget="partial")
    assert session.push(events(6)).partial
    later = session.push(events(6))
    assert later.partial
    assert later.notes == (NOTE.format(10),)
    assert later.count() == 0


@pytest.mark.parametrize("formula", [LISTED, WHILE_LISTING])
def test_a_budget_may_be_beyond_64_bits(formula: str) -> None:
    every = query(formula).run(events(4))
    assert found(query(formula).run(events(4), budget=10**30)) == found(every)


def test_a_query_that_an_index_decides_spends_nothing() -> None:
    pattern = query("A AS x ; B AS y FILTER x[k] = y[k]")
    matches = pattern.run(events(40), budget=0)
    assert matches.count() > 100
    assert not matches.partial


def test_a_negative_budget_is_refused() -> None:
    with pytest.raises(cernis.CernisError, match=r"^budget must be at least 0$"):
        query(LISTED).run(events(1), budget=-1)
