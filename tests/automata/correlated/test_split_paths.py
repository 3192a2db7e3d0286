"""Last rays that iterate, or may be left out, have paths of their own."""

from __future__ import annotations

from math import inf, nan
from random import Random

import pyarrow as pa
import pytest

import cernis
from cernis.automata.correlated.pcea import PCEA, RunSource, Transition
from cernis.automata.correlated.split_paths import split_paths
from cernis.pattern.atom import TypeIs
from tools.cases.far import make_ending_query
from tools.cases.far_census import check_case


def make_chain(steps: str, *finals: int) -> PCEA:
    """Return the automaton with steps such as "-0 01 11": a beginning, a step, a round."""
    transitions = tuple(
        Transition(
            () if step[0] == "-" else (RunSource(int(step[0])),),
            frozenset({(TypeIs("A"), True)}),
            frozenset({step[1]}),
            int(step[1]),
        )
        for step in steps.split()
    )
    size = 1 + max(t.target for t in transitions)
    return PCEA(tuple(map(str, range(size))), transitions, frozenset(finals))


def list_steps(pcea: PCEA) -> list[str]:
    return sorted(f"{t.sources[0].state if t.sources else '-'}{t.target}" for t in pcea.transitions)


def test_the_rounds_of_a_neighbour_have_a_state_before_the_last_one() -> None:
    made = split_paths(make_chain("-0 01 11", 1), 0, frozenset(), 1)
    assert made is not None
    assert list_steps(made.pcea) == ["-0", "01", "02", "21", "22"]
    assert made.paths == ({}, {1: (2, 1)})
    assert made.pcea.finals == {1}


def test_rounds_after_other_events_begin_with_a_copy_of_the_centre() -> None:
    made = split_paths(make_chain("-0 01 12 22", 2), 0, frozenset({1}), 2)
    assert made is not None
    assert list_steps(made.pcea) == ["-0", "-3", "01", "12", "34", "45", "55", "56"]
    assert made.paths == ({}, {0: (3,), 1: (4,), 2: (5, 6)})
    assert made.pcea.finals == {2, 6}


def test_what_may_be_left_out_has_a_path_without_it() -> None:
    made = split_paths(make_chain("-0 01 12", 1, 2), 0, frozenset({1}), 2)
    assert made is not None
    assert list_steps(made.pcea) == ["-0", "-3", "01", "34", "42"]
    assert made.paths == ({2: ()}, {0: (3,), 1: (4,), 2: (2,)})
    assert made.pcea.finals == {1, 2}


def test_all_finite_numbers_are_within_a_share_of_an_infinite_one() -> None:
    query = cernis.query(
        "SELECT * WHERE (A AS a ; B AS b ; C AS c) "
        "FILTER b[p] < a[p] AND ABS(c[p] - a[p]) <= 0.01 * a[p]"
    )
    assert query.plan.undecided == ""
    prices = [100.0, inf, 7.0, 100.5, inf, -inf, nan]
    events = pa.table({"type": [*"AABCCCC"], "p": prices})
    assert sorted((m.start, m.end) for m in query.run(events)) == [(0, 3), (1, 3), (1, 5)]


def test_a_round_around_the_star_leads_to_both_centres_from_both_ends() -> None:
    made = split_paths(make_chain("-0 01 12 22 20", 2), 0, frozenset({1}), 2)
    assert made is not None
    assert {"20", "23", "60", "63"} <= {*list_steps(made.pcea)}


@pytest.mark.parametrize(
    "pcea", [make_chain("-0 01 12", 2), make_chain("-0 -1 01 12 22", 2)], ids=["single", "begun"]
)
def test_one_path_is_enough_or_the_centre_may_be_left_out(pcea: PCEA) -> None:
    assert split_paths(pcea, 0, frozenset({1}), 2) is None


@pytest.mark.parametrize(
    "formula",
    [
        "(A AS a ; B+ AS b) FILTER b[p] < a[p]",
        "(A AS a ; B AS b ; C+ AS c) FILTER b[p] < a[p] AND c[p] > a[p]",
        "(A AS a ; B AS b ; C? AS c) FILTER b[p] < a[p] AND c[p] > a[p]",
        "(A AS a ; B AS b ; C{0,} AS c ; D) FILTER c[p] > a[p]",
        "(A AS a ; B{3} AS b ; C AS c) FILTER b[p] < a[p] AND c[p] > a[p]",
        "(A AS a ; B AS b ; C{2,} AS c) FILTER b[p] < a[p] AND c[p] > a[p]",
        "(Z AS z ; A AS a ; B+ AS b ; D AS d) FILTER a[p] > z[p] AND b[p] < a[p] AND d[p] > z[p]",
    ],
)
def test_no_condition_is_left_to_candidates(formula: str) -> None:
    plan = cernis.query(f"SELECT * WHERE {formula} WITHIN 9 EVENTS").plan
    assert plan.undecided == ""


@pytest.mark.parametrize("seed", range(12))
def test_random_stars_with_such_ends_agree_with_the_oracle(seed: int) -> None:
    random = Random(seed)
    check_case(make_ending_query(random), random)
