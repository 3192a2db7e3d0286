"""Which automata write a match twice, and what determinizing does about it."""

from __future__ import annotations

import random
from collections import Counter
from textwrap import dedent
from typing import Any

import pytest

from cernis.automata.correlated.ambiguity import is_ambiguous
from cernis.automata.correlated.correlate import Correlation, correlate
from cernis.automata.correlated.determinize import determinize_chain
from cernis.automata.correlated.pcea import PCEA
from cernis.languages.ceql.parse import parse
from tools.cases.grammar import FAMILIES, Features, random_case
from tools.cases.naive import NaiveRuns


def automaton(text: str) -> PCEA:
    found = correlate(parse(f"SELECT * WHERE {text}").formula)
    assert isinstance(found, Correlation), found
    return found.pcea


ONE_RUN_EACH = [
    "A ; B ; C",
    "A OR B",
    "A+ ; B",
    "(A+)+",
    "A{1,4}",
    "(A AS x OR A AS y)+",
    "(A : B) OR (A : C)",
    "A AS a ALL B AS b ALL C AS c",
    "A AS x ALL A AS y",
    "A AS x ALL A AS y ALL A AS z",
    "(A ; B) ALL C",
    "(A AS x ; C) ALL (A AS y ; D)",
    "(A+ AS x ALL B+ AS y)",
    "(A{1,2} ALL B{1,2} ALL C) ; D",
    "((A OR C) ALL B)",
    "(A ALL B ALL C PARTITION BY [a])",
    "(A AS x ALL B AS y ALL C AS z) FILTER x[a] = y[a] AND y[a] = z[a] AND x[b] = y[b]",
]

SEVERAL_RUNS = [
    "A OR A",
    "(A{1,2})+",
    "A+ ; A+",
    "A ALL A",
    "(A ; B) ALL (A ; C)",
    "(A ; B) FILTER A[a] = B[a] OR A[b = 1]",
]


@pytest.mark.parametrize("text", ONE_RUN_EACH)
def test_these_have_one_run_for_each_match(text: str) -> None:
    assert not is_ambiguous(automaton(text))


@pytest.mark.parametrize("text", SEVERAL_RUNS)
def test_these_have_several(text: str) -> None:
    assert is_ambiguous(automaton(text))


def test_labels_that_are_not_kept_do_not_tell_runs_apart() -> None:
    pcea = automaton("(A AS x OR A AS y) ; B")
    assert not is_ambiguous(pcea, frozenset({"x", "y", "B"}))
    assert not is_ambiguous(pcea, frozenset({"A", "x", "B"}))
    assert is_ambiguous(pcea, frozenset({"A", "B"}))


def test_an_event_that_is_not_kept_makes_runs_alike() -> None:
    assert is_ambiguous(automaton("A ; B"), frozenset({"A"}))


def runs(pcea: PCEA, events: list[dict[str, Any]], kept: frozenset[str] | None) -> Counter[Any]:
    naive = NaiveRuns(pcea)
    found: Counter[Any] = Counter()
    for event in events:
        for m in naive.push(event):
            labels = [(x, held) for x, held in m.labels.items() if kept is None or x in kept]
            found[m.start, m.end, tuple(sorted(labels))] += 1
        if naive.size > 5_000:
            break
    return found


@pytest.mark.parametrize("family", [None, *FAMILIES])
def test_no_match_comes_twice_from_an_unambiguous_automaton(family: Any) -> None:
    families = () if family is None else (family,)
    features = Features(families=families, not_=False, unless=False, binary=True, events=7)
    for seed in range(80):
        pattern, events = random_case(seed, features)
        found = correlate(pattern.formula)
        if not isinstance(found, Correlation):
            continue
        names = sorted(frozenset[str]().union(*(t.labels for t in found.pcea.transitions)))
        some = frozenset(random.Random(seed).sample(names, (len(names) + 1) // 2))
        for kept in (None, some):
            if not is_ambiguous(found.pcea, kept):
                assert max(runs(found.pcea, events, kept).values(), default=1) == 1


# ----------------------------------------------------------- determinization

DETERMINED = {
    "A OR A": """
        ^ 0 A  A / A
    """,
    "(A ; B) FILTER A[a] = B[a] OR A[b = 1]": """
          0 A  A not [b = 1] / A
          1 A  A [b = 1] / A
        ^ 2 B  after 0 where a = a: B / B
               after 1: B / B
    """,
    "(A FILTER A[a = 1]) OR (A FILTER A[b = 1])": """
        ^ 0 A  A [a = 1] not [b = 1] / A
               A [b = 1] not [a = 1] / A
               A [a = 1] [b = 1] / A
    """,
    "(A+)+": """
        ^ 0 A  A / A
               after 0: A / A
    """,
    "(A : B) OR (A ; B)": None,
    "((A ; B) FILTER A[p] < B[p]) OR ((A ; B) FILTER A[p] > B[p])": None,
    "A ALL B ALL C": None,
}


@pytest.mark.parametrize("text", DETERMINED)
def test_determinizing_cuts_tests_and_links_apart(text: str) -> None:
    expected = DETERMINED[text]
    found = determinize_chain(automaton(text))
    assert (found and str(found)) == (expected and dedent(expected).strip("\n"))


@pytest.mark.parametrize("family", [None, *FAMILIES])
def test_a_determined_automaton_accepts_the_same_once_each(family: Any) -> None:
    families = () if family is None else (family,)
    features = Features(families=families, not_=False, unless=False, binary=True, events=7)
    for seed in range(80):
        pattern, events = random_case(seed, features)
        found = correlate(pattern.formula)
        determined = determinize_chain(found.pcea) if isinstance(found, Correlation) else None
        if determined is None or not isinstance(found, Correlation):
            continue
        assert not is_ambiguous(determined)
        once = runs(determined, events, None)
        if sum(once.values()) < 2_000:
            assert once == Counter(dict.fromkeys(runs(found.pcea, events, None), 1))
