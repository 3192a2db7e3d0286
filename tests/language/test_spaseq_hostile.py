"""SPAseQ queries that want too much: each is refused with a clear message, and soon."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cernis.errors import BudgetError, CernisError, QueryError
from cernis.languages.spaseq import parse
from cernis.languages.text.read import MAX_TEXT


def query(group: str = "?x ?y ?z", steps: str = "A", clauses: str = "") -> str:
    return (
        f"PREFIX : <http://e/> SELECT * FROM STREAM S :s {clauses} WHERE {{ SEQ ({steps})"
        f" DEFINE GPM A ON S {{ {group} }} }}"
    )


def nest(open_: str, middle: str, close: str, depth: int) -> str:
    return open_ * depth + middle + close * depth


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (query("?x ?y ?z . " * 200_000), "the query has 2,200,088 characters; at most 1,048,576"),
        (query("?x ?y ?z . " * 20_000), "the query has more than 50,000 words and symbols"),
        (query(steps="A" + ";A" * 30_000), "the query has more than 50,000 words and symbols"),
        (query(steps="A" + ":A" * 300_000), "the query has more than 50,000 words and symbols"),
        (query("a." * 300_000), "the query has more than 50,000 words and symbols"),
        (query("<a" * 300_000), "the query has more than 50,000 words and symbols"),
        (query("$" * (MAX_TEXT - 200)), "the query has more than 50,000 words and symbols"),
    ],
    ids=["long", "many triples", "many steps", "one word", "words and dots", "angles", "noise"],
)
def test_a_query_that_is_too_long_is_refused(text: str, message: str) -> None:
    with pytest.raises(BudgetError) as caught:
        parse(text)
    assert str(caught.value).startswith(message)


DEEP = "graph pattern A is nested more than 100 deep"
BRACKETS = "brackets are nested more than 100 deep"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (query(nest("{", "", "}", 10_000)), BRACKETS),
        (query(nest("OPTIONAL {", "", "}", 1_000)), BRACKETS),
        (query(nest("?x :p [ :p ", "?x", "]", 1_000)), None),
        (query(f"FILTER {nest('(', '1', ')', 10_000)}"), BRACKETS),
        (query(steps=nest("(", "A", ")", 10_000)), BRACKETS),
        (query("?x ?y ?z " + "OPTIONAL { ?x ?y ?z } " * 3_000), DEEP),
        (query(f"?x ?y ?z FILTER ({'!' * 3_000}?x)"), DEEP),
        (query(f"?x ?y ?z FILTER ({'- ' * 3_000}?x)"), DEEP),
        (query(f"?x ?y ?z FILTER (1{'+1' * 3_000})"), DEEP),
        (query(steps="A" + "+" * 3_000), "a step has one of '+', '?' and '!'"),
        (query(clauses=f"WITHIN {'9' * 100_000} SECONDS"), "the number is out of range"),
        (query(clauses="WITHIN 1e999999999 SECONDS"), "the number is out of range"),
        (query(clauses="WITHIN 1e-99999999999 SECONDS"), "the number is out of range"),
        (query(clauses="WITHIN 9e29 DAYS"), "the time is out of range"),
        (query(clauses=f"WITHIN 1 DAY TUMBLING FROM {'9' * 9_000}"), "the number is out of range"),
        (query('?x ?y "' + "a" * 1_000_000), 'the quote " is never closed'),
        (query("?x ?y '''" + "a'" * 400_000), "the quote ''' is never closed"),
        (query('?x ?y "\ud800"'), "the query holds characters that are not Unicode"),
        (query("\0"), r"'\x00' is not part of the language"),
        (query("\u202e"), r"'\u202e' is not part of the language"),
        (query("ﬁlter (?x)"), "'ﬁlter' is not part of the language"),
        (query("?x ?y \ufffe"), r"'\ufffe' is not part of the language"),
    ],
)
def test_a_query_that_is_too_deep_or_too_odd_is_refused(text: str, message: str | None) -> None:
    with pytest.raises(QueryError) as caught:
        parse(text)
    messages = [mistake.message for mistake in caught.value.diagnostics]
    assert message is None or messages[0] == message
    assert len(messages) <= 20
    assert len(str(caught.value)) < 10_000


@pytest.mark.parametrize(
    "text",
    [
        query(nest("{", "?x ?y ?z", "}", 97)),
        query(nest("?x ?y ?z OPTIONAL {", "?x ?y ?z", "}", 95)),
        query(nest("{ ?x ?y ?z } UNION {", "?x ?y ?z", "}", 95)),
        query(nest("GRAPH :g {", "?x ?y ?z", "}", 95)),
        query("?x ?y " + nest("[ :p ", "?x", "]", 97)),
        query("?x ?y ?z " + "OPTIONAL { ?x ?y ?z } " * 98),
        query(f"?x ?y ?z FILTER ({nest('!(', '?x', ')', 90)})"),
        query(f"?x ?y ?z FILTER ({nest('1 - (', '?x', ')', 90)})"),
        query(f"?x ?y ?z FILTER ({nest('STR(', '?x', ')', 90)})"),
        query(f"?x ?y ?z FILTER ({nest('?x || (?y && ', '?z', ')', 45)})"),
        query(steps=nest("(A | (A & ", "A", "))", 45)),
        query(steps=nest("(", "A", ")", 97)),
    ],
)
def test_what_is_accepted_can_be_compared_hashed_shown_and_written(text: str) -> None:
    found = parse(text)
    again = parse(str(found))
    assert again == found
    assert hash(again) == hash(found)
    assert repr(again) == repr(found)


def test_a_wide_query_is_welcome() -> None:
    names = [f"G{number}" for number in range(1000)]
    text = "SELECT * FROM STREAM S <http://e/s> WHERE {" + "".join(
        f"DEFINE GPM {name} ON S {{ ?x ?y{name} ?z FILTER (?y{name} > ?y{before}) }}\n"
        for before, name in zip(["G0", *names], names, strict=False)
    )
    found = parse(f"{text} SEQ ({' ; '.join(names)}) }}")
    assert len(found.steps) == 1000
    assert parse(str(found)) == found


def test_of_many_mistakes_in_a_wide_query_twenty_are_shown() -> None:
    bound = "".join(f"?x :p ?longname{number} . " for number in range(1_500))
    needed = "".join(f"+ ?longnome{number}" for number in range(1_500))
    filters = f"FILTER (0 {needed} > 0) "
    with pytest.raises(QueryError):
        parse(query(bound + filters))
    many = "".join(f"FILTER (?longnome{number}) " for number in range(1_500))
    with pytest.raises(QueryError) as caught:
        parse(query(bound + many))
    assert len(caught.value.diagnostics) == 20


PIECES = [
    "SELECT", "*", "?x", "FROM", "STREAM", "S", "<http://e/s>", "WHERE", "{", "}", "SEQ", "(", ")",
    "A", ";", ",", ":", "+", "?", "!", "&", "|", "DEFINE", "GPM", "ON", "a", ".", "FILTER", "[",
    "]", "'a'", "5", "=", "<", "OPTIONAL", "UNION", "GRAPH", "_:b", "-", "^^", "@en", "é", "\\",
    "PREFIX", "p:", "p:q", "WITHIN", "SECONDS", "LIST", "PARTITION", "BY", "IN", "NOT", "BOUND",
]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=25))
def test_any_words_are_a_query_or_a_mistake(words: list[str]) -> None:
    with suppress(CernisError):
        parse(" ".join(words))


@given(st.lists(st.sampled_from(PIECES), max_size=8), st.integers(0, 2), st.text(max_size=5))
def test_a_query_with_anything_put_into_it_is_a_query_or_a_mistake(
    words: list[str], where: int, noise: str
) -> None:
    put = " ".join(words) + noise
    parts = ["?x ?y ?z", "A", ""]
    parts[where] += f" {put}"
    with suppress(CernisError):
        found = parse(query(*parts))
        assert parse(str(found)) == found
