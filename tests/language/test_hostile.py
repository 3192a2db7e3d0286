"""Queries that want too much: each is refused with a clear message, and nothing overflows."""

from __future__ import annotations

import tracemalloc

import pytest

from cernis.errors import BudgetError, CernisError, QueryError
from cernis.languages.ceql import parse
from cernis.languages.text.read import MAX_TEXT, MAX_TOKENS
from cernis.pattern.check import MAX_DEPTH, check
from cernis.pattern.formula import As, Event, Formula, Optional
from cernis.pattern.query import Pattern


def query(formula: str) -> str:
    return f"SELECT * WHERE {formula}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            query("A ; " * 2_500_000 + "A"),
            "the query has 10,000,016 characters; at most 1,048,576 are allowed",
        ),
        (
            query(" OR ".join(["A"] * 1_000_000)),
            "the query has 5,000,011 characters; at most 1,048,576 are allowed",
        ),
        (
            query(" OR ".join(["A"] * 100_000)),
            "the query has more than 50,000 words and symbols",
        ),
        ("$" * MAX_TEXT, "the query has more than 50,000 words and symbols"),
    ],
    ids=["10 MB", "million alternatives", "many alternatives", "noise"],
)
def test_a_query_that_is_too_long_is_refused(text: str, message: str) -> None:
    with pytest.raises(BudgetError) as caught:
        parse(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (query("(" * 10_000 + "A" + ")" * 10_000), "brackets are nested more than 100 deep"),
        (query("(" * 10_000), "brackets are nested more than 100 deep"),
        (query("A FILTER A" + "[" * 10_000), "brackets are nested more than 100 deep"),
        (query("A" + "+" * 3_000), "the query is nested more than 100 deep"),
        (query("A" + "?" * 3_000), "the query is nested more than 100 deep"),
        (query("A" + " AS x" * 3_000), "the query is nested more than 100 deep"),
        (query("NOT " * 3_000 + "A"), "the query is nested more than 100 deep"),
        (query("A" + " UNLESS A" * 3_000), "the query is nested more than 100 deep"),
        (query("A" + " FILTER A[x=1]" * 1_000), "the query is nested more than 100 deep"),
        (query("A FILTER A[" + "NOT " * 3_000 + "x=1]"), "the query is nested more than 100 deep"),
        (query("A FILTER A[x = " + "- " * 3_000 + "1]"), "the query is nested more than 100 deep"),
        (query("A FILTER A[x = 1" + "+1" * 3_000 + "]"), "the query is nested more than 100 deep"),
        (query("A{" + "9" * 100_000 + "}"), "the number is out of range"),
        (query("A FILTER A[x = " + "9" * 100_000 + "]"), "the number is out of range"),
        (query("A FILTER A[x = 1e" + "9" * 1000 + "]"), "the number is out of range"),
        (query("A WITHIN 1e999999999 SECONDS"), "the number is out of range"),
        (query("A WITHIN 1e-99999999999999 SECONDS"), "the number is out of range"),
        (query("A WITHIN 0." + "0" * 1000 + "1 SECONDS"), "the number is out of range"),
        (query("'" * 1_000_001), "the quote ' is never closed"),
        (query("\ud800"), "the query holds characters that are not Unicode"),
        (query("\0"), r"'\x00' is not part of the language"),
    ],
)
def test_a_query_that_is_too_deep_or_too_large_is_refused(text: str, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse(text)
    assert [mistake.message for mistake in caught.value.diagnostics] == [message]
    assert len(str(caught.value)) < 1000


def test_a_refusal_costs_little_memory() -> None:
    text = query("A|" * (MAX_TEXT // 2 - 20))
    parse("SELECT * WHERE A")
    tracemalloc.start()
    with pytest.raises(CernisError):
        parse(text)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 40 * 2**20


def nest(open_: str, middle: str, close: str, depth: int) -> str:
    return query(open_ * depth + middle + close * depth)


@pytest.mark.parametrize(
    "text",
    [
        nest("(", "A", ")", MAX_DEPTH),
        nest("(A ; ", "B", ")", MAX_DEPTH - 1),
        nest("(A OR (B : ", "C", "))", MAX_DEPTH // 2 - 1),
        query("A" + "+" * (MAX_DEPTH - 1)),
        query("A" + ":+?" * (MAX_DEPTH // 2 - 1)),
        query("NOT " * (MAX_DEPTH - 1) + "A"),
        query("A" + " UNLESS B" * (MAX_DEPTH - 1)),
        query("A" + " FILTER A[x = 1]" * (MAX_DEPTH - 4)),
        nest("(", "A", " PARTITION BY [a])", MAX_DEPTH - 2),
        query("A FILTER A[" + "NOT (a = 1 OR " * 47 + "a = 1" + ")" * 47 + "]"),
        query("A FILTER A[0 < " + "-(" * 90 + "a" + ")" * 90 + "]"),
        query("A FILTER A[0 < " + "1 - (" * 95 + "a" + ")" * 95 + "]"),
        query("A FILTER " + "(A[a = 1] OR A[a = 2] AND " * 48 + "A[a = 1]" + ")" * 48),
    ],
)
def test_what_is_accepted_can_be_compared_hashed_shown_and_written(text: str) -> None:
    pattern = parse(text)
    again = parse(str(pattern))
    assert again == pattern
    assert hash(again) == hash(pattern)
    assert repr(again) == repr(pattern)
    assert check(again) == check(pattern)


def test_a_wide_query_is_welcome() -> None:
    pattern = parse(query(" ; ".join(f"A{n} AS x{n}" for n in range(2000))))
    assert check(pattern) == []
    assert parse(str(pattern)) == pattern


def test_a_pattern_made_by_hand_that_is_too_deep_is_refused() -> None:
    formula: Formula = Event("A")
    for _ in range(50_000):
        formula = Optional(As(formula, "x"))
    assert [mistake.message for mistake in check(Pattern(formula))] == [
        f"the query is nested more than {MAX_DEPTH} deep"
    ]


def test_the_limit_on_words_is_not_met_early() -> None:
    words = MAX_TOKENS - len(["SELECT", "*", "WHERE"])
    text = query("; " * (words // 2))
    with pytest.raises(QueryError, match="unexpected ';'"):
        parse(text)
