"""The deterministic automaton: every match has one run, and it stays small or says so."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given

from cernis.automata.unary.construct import construct, is_correlated
from cernis.automata.unary.determinize import MARK, Deterministic, Edge
from cernis.errors import BudgetError
from cernis.languages.ceql.parse import parse
from cernis.pattern.atom import TypeIs
from cernis.pattern.query import Pattern, Strategy
from tools.cases.strategies import patterns


def deterministic(query: str, strategy: Strategy = Strategy.ALL) -> Deterministic:
    pattern = parse(query)
    marks = strategy is not Strategy.ALL
    return Deterministic(construct(pattern.formula), ("A", "B", "C"), strategy, keep_marks=marks)


def symbol(automaton: Deterministic, type_: str) -> int:
    return automaton.alphabet.symbol(
        tuple(isinstance(atom, TypeIs) and atom.type == type_ for atom in automaton.alphabet.atoms)
    )


@given(patterns(streams=()))
def test_an_event_and_its_labels_determine_the_next_state(pattern: Pattern) -> None:
    if is_correlated(pattern.formula):
        return
    automaton = deterministic(str(pattern))
    symbols = {symbol(automaton, t) for t in "ABC"}
    for s in symbols:
        automaton.start(s)
    for state in range(min(20, len(automaton.states))):
        for s in symbols:
            labels = Counter(edge.labels for edge in automaton.edges(state, s))
            assert all(number == 1 for number in labels.values())


def test_two_kinds_of_events_that_no_test_tells_apart_are_one_symbol() -> None:
    automaton = deterministic("SELECT * WHERE A ; B")
    assert symbol(automaton, "C") == symbol(automaton, "D")
    assert symbol(automaton, "A") != symbol(automaton, "B")


def test_an_event_that_nothing_waits_for_changes_nothing() -> None:
    automaton = deterministic("SELECT * WHERE A ; B")
    [begun] = automaton.start(symbol(automaton, "A"))
    unchanged = (Edge(frozenset(), begun.target, False),)
    assert automaton.edges(begun.target, symbol(automaton, "C")) == unchanged
    assert automaton.edges(begun.target, symbol(automaton, "B")) != unchanged


def test_projection_merges_runs_that_differ_only_in_dropped_variables() -> None:
    pattern = parse("SELECT NONE WHERE A ; B ; C")
    automaton = Deterministic(construct(pattern.formula), (), Strategy.ALL, keep_marks=False)
    [begun] = automaton.start(symbol(automaton, "A"))
    edges = automaton.edges(begun.target, symbol(automaton, "B"))
    assert [edge.labels for edge in edges] == [frozenset()]


def test_next_gives_up_a_run_that_passed_over_what_it_could_have_marked() -> None:
    automaton = deterministic("SELECT * WHERE A ; B ; C", Strategy.NEXT)
    [begun] = automaton.start(symbol(automaton, "A"))
    skipped, marked = automaton.edges(begun.target, symbol(automaton, "B"))
    assert (skipped.labels, marked.labels) == (frozenset(), frozenset({"B", MARK}))
    late = automaton.edges(skipped.target, symbol(automaton, "B"))
    assert all(not edge.labels for edge in late)


def test_an_exponential_pattern_is_refused_in_bounded_time() -> None:
    # the classic: which of the last twenty events was an A
    query = "SELECT NONE WHERE (A OR B):+ : A : " + " : ".join(["(A OR B)"] * 20)
    with pytest.raises(BudgetError, match=r"more than 4,096 deterministic states"):
        expand(deterministic(query))


def expand(automaton: Deterministic) -> None:
    """Work out every state that A's and B's can lead to."""
    pending = [edge.target for t in "AB" for edge in automaton.start(symbol(automaton, t))]
    seen = {-1, *pending}
    while pending:
        state = pending.pop(0)
        for t in "AB":
            for edge in automaton.edges(state, symbol(automaton, t)):
                if edge.target not in seen:
                    seen.add(edge.target)
                    pending.append(edge.target)
