"""Warnings about queries that are right and probably mean something else, word by word."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cernis.pattern as p
from cernis.languages.ceql import parse
from cernis.pattern import predicate as pred
from cernis.pattern.advice import find_warnings
from cernis.pattern.advice.event_window import note_event_window, note_exact_window
from cernis.pattern.advice.truth import never_holds
from cernis.testing.predicates import holds, truth
from tools.cases.corpus import read_cases


def warn(formula: str) -> list[tuple[str, str]]:
    pattern = parse(f"SELECT * WHERE {formula}")
    return [(one.code, one.render(pattern.source)) for one in find_warnings(pattern)]


@pytest.mark.parametrize(
    ("formula", "code", "text"),
    [
        (
            "A ; NOT B ; C",
            "not-between",
            """\
line 1, column 20: a B in between does not prevent a match: NOT B is any other event
  SELECT * WHERE A ; NOT B ; C
                     ^^^^^
  help: UNLESS keeps it out: A ; C UNLESS B""",
        ),
        (
            "A ; (NOT (B FILTER B[x > 3]))+ ; C ; D",
            "not-between",
            """\
line 1, column 20: (B FILTER B[x > 3]) in between does not prevent a match: \
NOT (B FILTER B[x > 3]) is any other event
  SELECT * WHERE A ; (NOT (B FILTER B[x > 3]))+ ; C ; D
                     ^^^^^^^^^^^^^^^^^^^^^^^^^^
  help: UNLESS keeps it out: (A ; C UNLESS (B FILTER B[x > 3])) ; D""",
        ),
        (
            "A ; B ; NOT C",
            "not-at-end",
            """\
line 1, column 24: NOT C at the end can never fail: any later event that is not a C ends the match
  SELECT * WHERE A ; B ; NOT C
                         ^^^^^
  help: write A ; B WITHOUT C FOR a time, or for the next event alone A ; B : NOT C""",
        ),
        (
            "A ORDER BY A[x] DESC LIMIT 5",
            "limit-per-end",
            """\
line 1, column 37: LIMIT 5 leaves nothing out: it counts the matches of each end, and a single \
event is one match
  SELECT * WHERE A ORDER BY A[x] DESC LIMIT 5
                                      ^^^^^^^
  help: write LIMIT 5 OVERALL for the best of all; on a stream, LIMIT 5 EVERY 1 HOUR""",
        ),
        (
            "ORDER UNLESS PAY",
            "unless-idle",
            """\
line 1, column 29: UNLESS PAY excludes nothing: nothing lies inside a single event
  SELECT * WHERE ORDER UNLESS PAY
                              ^^^
  help: write WITHOUT PAY FOR a time""",
        ),
        (
            "A : B UNLESS C",
            "unless-idle",
            """\
line 1, column 29: UNLESS C excludes nothing: nothing lies inside two neighbouring events
  SELECT * WHERE A : B UNLESS C
                              ^
  help: write WITHOUT C FOR a time""",
        ),
        (
            "A AS s FILTER s[price > 100 AND price < 50]",
            "never-holds",
            """\
line 1, column 30: no event can satisfy s[price > 100 AND price < 50]
  SELECT * WHERE A AS s FILTER s[price > 100 AND price < 50]
                               ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  help: if one of them is enough: s[price > 100 OR price < 50]""",
        ),
        (
            "A AS s FILTER s[price > 100] AND s[price < 50]",
            "never-holds",
            """\
line 1, column 30: no event can satisfy s[price > 100] AND s[price < 50]
  SELECT * WHERE A AS s FILTER s[price > 100] AND s[price < 50]
                               ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  help: if one of them is enough: s[price > 100 OR price < 50]""",
        ),
        (
            "A AS s FILTER s[price] > 100 AND s[price] < 50",
            "never-holds",
            """\
line 1, column 30: no event can satisfy s[price > 100] AND s[price < 50]
  SELECT * WHERE A AS s FILTER s[price] > 100 AND s[price] < 50
                               ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  help: if one of them is enough: s[price > 100 OR price < 50]""",
        ),
        (
            "A AS s FILTER s[price > 100 OR price <= 200]",
            "always-holds",
            """\
line 1, column 30: s[price > 100 OR price <= 200] always holds, unless price is NULL or NaN
  SELECT * WHERE A AS s FILTER s[price > 100 OR price <= 200]
                               ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  help: if all of them must hold: s[price > 100 AND price <= 200]""",
        ),
        (
            "A+ AS s FILTER s[price] < s[price]",
            "never-holds",
            """\
line 1, column 31: s[price] < s[price] never holds: every event of s is compared with itself
  SELECT * WHERE A+ AS s FILTER s[price] < s[price]
                                ^^^^^^^^^^^^^^^^^^^
  help: to compare each event with the next: s INCREASING BY price""",
        ),
        (
            "A AS s FILTER COUNT(s) > 1",
            "never-holds",
            """\
line 1, column 30: COUNT(s) > 1 never holds: s has one event
  SELECT * WHERE A AS s FILTER COUNT(s) > 1
                               ^^^^^^^^^^^^""",
        ),
        (
            "A+ AS s FILTER COUNT(s) >= 1",
            "always-holds",
            """\
line 1, column 31: COUNT(s) >= 1 always holds: s has at least one event
  SELECT * WHERE A+ AS s FILTER COUNT(s) >= 1
                                ^^^^^^^^^^^^^""",
        ),
    ],
)
def test_a_query_that_probably_means_something_else_has_a_warning(
    formula: str, code: str, text: str
) -> None:
    assert warn(formula) == [(code, text)]


@pytest.mark.parametrize(
    "predicate",
    [
        "a IS NULL AND a > 3",
        "NOT a > 3 AND a > 4",
        "a IN {1, 2} AND a > 4",
        "a IN {5..7} AND a > 8",
        "a IN {8..5}",
        "a > 5 AND a <= 5",
        "a = 5 AND a != 5",
        "name = 'x' AND name = 'y'",
        "3 > 5",
        "(a > 5 AND a < 4) OR (b > 5 AND b < 4)",
        "a < a",
    ],
)
def test_no_event_satisfies_a_contradiction(predicate: str) -> None:
    assert [code for code, _ in warn(f"A AS s FILTER s[{predicate}]")] == ["never-holds"]


@pytest.mark.parametrize(
    "formula",
    [
        "A : NOT B : C",
        "(A ; NOT B) : C",
        "A : (NOT B):+ : C",
        "A ; C UNLESS B",
        "A : B : NOT C",
        "A : B : C UNLESS D",
        "A AS s FILTER s[a > 5 AND a < 6]",
        "A AS s FILTER s[a >= 5 AND a <= 5]",
        "A AS s FILTER s[ts = '2024-01-01' AND ts = '2024-01-01 00:00']",
        "A AS s FILTER s[a > 5 OR b <= 5]",
        "A AS s FILTER s[a > 5 OR name = 'x']",
        "A AS s FILTER s[NOT name LIKE 'x.*']",
        "A AS s FILTER s[a / b > 1 AND a / b < 1]",
        "A AS s FILTER s[a != a]",
        "A AS s FILTER s[a > 3] OR s[a <= 3]",
        "A{0,3} AS s FILTER COUNT(s) >= 1",
        "A+ AS s FILTER PREV(s)[a] < s[a]",
        "A AS x ; B AS y FILTER x[a] < y[a]",
    ],
)
def test_a_sensible_query_has_no_warning(formula: str) -> None:
    assert warn(formula) == []


VALUES = (None, -1, 0, 0.5, 1, 2, 3, "x", "y", float("nan"))
CONSTANTS = st.sampled_from([0, 1, 2, 0.5, "x", "y"]).map(pred.Literal)
ATTRIBUTES = st.sampled_from("ab").map(lambda name: pred.Attribute((name,)))
SIMPLE: st.SearchStrategy[pred.Predicate] = st.one_of(
    st.builds(pred.Comparison, st.sampled_from(list(pred.COMPARE)), ATTRIBUTES, CONSTANTS),
    st.builds(pred.Comparison, st.sampled_from(list(pred.COMPARE)), CONSTANTS, ATTRIBUTES),
    st.builds(pred.Comparison, st.sampled_from(list(pred.COMPARE)), ATTRIBUTES, ATTRIBUTES),
    st.builds(pred.InSet, ATTRIBUTES, st.lists(CONSTANTS, min_size=1, max_size=3).map(tuple)),
    st.builds(
        pred.InRange,
        ATTRIBUTES,
        st.integers(0, 3).map(pred.Literal),
        st.integers(0, 3).map(pred.Literal),
    ),
    st.builds(pred.IsNull, ATTRIBUTES, st.booleans()),
)
PREDICATES = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(
        st.builds(pred.And, st.lists(inner, min_size=2, max_size=3).map(tuple)),
        st.builds(pred.Or, st.lists(inner, min_size=2, max_size=3).map(tuple)),
        st.builds(pred.Negation, inner),
    ),
    max_leaves=6,
)


@given(PREDICATES)
def test_no_event_satisfies_what_never_holds(predicate: pred.Predicate) -> None:
    if never_holds(predicate):
        satisfied = [(a, b) for a in VALUES for b in VALUES if holds(predicate, {"a": a, "b": b})]
        assert satisfied == []


@given(PREDICATES)
def test_every_event_with_numbers_satisfies_what_always_holds(predicate: pred.Predicate) -> None:
    if never_holds(pred.Negation(predicate), nan=False):
        numbers = [value for value in VALUES if value == value]
        failed = [
            (a, b) for a in numbers for b in numbers if truth(predicate, {"a": a, "b": b}) is False
        ]
        assert failed == []


def test_the_queries_of_the_corpus_have_no_warning() -> None:
    texts = {case.query for case in read_cases() if case.lang == "ceql"}
    found = {text for text in texts if find_warnings(parse(text))}
    assert found == {
        "SELECT * FROM S WHERE A ; NOT (B) ; C",
        "SELECT * FROM S WHERE A UNLESS A",
        "SELECT NEXT * FROM S WHERE A ; B ORDER BY A[x] DESC LIMIT 1",
    }


def test_a_pattern_without_text_has_warnings_without_a_place() -> None:
    pattern = p.select().where(p.seq("A", p.no("B"), "C")).build()
    (found,) = find_warnings(pattern)
    assert found.render("").startswith("a B in between does not prevent a match")


def test_a_long_query_has_few_warnings() -> None:
    assert len(warn(" ; ".join(["A", "NOT B"] * 2000))) == 8


@pytest.mark.parametrize(
    ("clause", "note"),
    [
        (
            "WITHIN 10 EVENTS",
            "WITHIN 10 EVENTS: a match spans at most 11 events; WITHIN 9 EVENTS are at most 10",
        ),
        ("WITHIN 10 SECONDS", None),
        ("", None),
    ],
)
def test_a_window_of_events_says_what_it_spans(clause: str, note: str | None) -> None:
    pattern = parse(f"SELECT * WHERE A ; B {clause}")
    assert list(note_event_window(pattern)) == ([note] if note else [])


def test_a_run_has_that_note_only_if_the_window_counts_the_events_of_the_formula() -> None:
    notes = [
        list(note_exact_window(parse(f"SELECT * WHERE A ; B ; C WITHIN {n} EVENTS")))
        for n in (2, 3, 4)
    ]
    assert [len(each) for each in notes] == [0, 1, 0]
