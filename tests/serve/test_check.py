"""Diagnostics with places and fixes, and the completion of words."""

from __future__ import annotations

from typing import Any

import pytest

from cernis.serve.check import KnownData, diagnose
from cernis.serve.complete import complete
from cernis.serve.samples import load_sample


@pytest.fixture(scope="module")
def known() -> KnownData | None:
    return KnownData.of(load_sample("paper-core").write_schema())


def apply(text: str, fix: dict[str, Any]) -> str:
    """Apply a fix the way an editor does, in UTF-16."""
    lines = [line.encode("utf-16-le") for line in text.split("\n")]
    line = lines[fix["line"] - 1]
    assert fix["end_line"] == fix["line"]
    start, end = 2 * (fix["column"] - 1), 2 * (fix["end_column"] - 1)
    lines[fix["line"] - 1] = line[:start] + fix["text"].encode("utf-16-le") + line[end:]
    return "\n".join(line.decode("utf-16-le") for line in lines)


@pytest.mark.parametrize(
    ("text", "mended"),
    [
        ("SELECT * FROM Stocks WHERE SELL AS s FILTER s[prise > 3]", "s[price > 3]"),
        ("SELECT * FROM Stocks WHERE SELL AS s FILTRE s[price > 3]", "FILTER s["),
        ("SELECT * FROM Stocks\nWHERE SELL AS s /* 😀 */ FILTER s[prise > 3]", "s[price > 3]"),
        ("SELECT * FROM Stocks WHERE SELL AS total ; BUY FILTER totl[price > 3]", "total["),
    ],
)
def test_a_fix_removes_the_mistake_that_it_is_for(known: KnownData, text: str, mended: str) -> None:
    before = diagnose("ceql", text, known)
    [fix] = next(one["fixes"] for one in before if one["fixes"])
    after = apply(text, fix)
    assert mended in after
    assert len(diagnose("ceql", after, known)) < len(before)


def test_a_mistake_says_where_it_is_and_what_was_expected() -> None:
    [one] = diagnose("ceql", "SELECT *\nFROM S\nWHERE +", None)
    assert (one["severity"], one["line"], one["column"], one["end_column"]) == ("error", 3, 7, 8)
    assert one["message"] == "unexpected '+'"
    assert one["help"].startswith("expected: ")


def test_all_mistakes_are_reported_together(known: KnownData) -> None:
    text = "SELECT * FROM Stocks WHERE SELL AS s FILTER s[prise > 3] AND s[nme = 'x']"
    assert [one["message"] for one in diagnose("ceql", text, known)] == [
        "unknown attribute 'prise'",
        "unknown attribute 'nme'",
    ]


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        (  # of scopes and of names
            "SELECT x FROM Stocks WHERE SELL AS s FILTER s[prise > 1] PARTITION BY [nme]",
            ["unknown variable 'x'", "unknown attribute 'prise'", "unknown attribute 'nme'"],
        ),
        (  # of the text and of names
            "SELECT s[price] AS p, s[nme] AS p FROM Stocks WHERE SELL AS s FILTER s[price > 'a']",
            ["'p' is selected twice", "unknown attribute 'nme'", "type clash: price is a number"],
        ),
        (  # of keywords and of names
            "SELCT * FROM Stocks WHERE SELL AS s FILTRE s[prise > 1]",
            ["unexpected 'SELCT'", "unexpected 'FILTRE'", "unknown attribute 'prise'"],
        ),
        (  # of streams and of types
            "SELECT * FROM Stocks, Nowhere WHERE SEL AS s ; BUY",
            ["unknown stream 'Nowhere'", "no event has the type 'SEL'"],
        ),
        (  # of names and of types
            "SELECT * FROM Stocks WHERE SEL AS s ; BYU AS b FILTER s[prise > 1]",
            ["unknown attribute 'prise'", "the type 'SEL'", "the type 'BYU'"],
        ),
        (
            "INSERT INTO D SELECT x[price] AS p FROM Stocks WHERE SELL AS s",
            ["INSERT INTO D makes a stream", "unknown variable 'x'"],
        ),
    ],
)
def test_mistakes_of_one_kind_do_not_hide_those_of_another(
    known: KnownData, text: str, messages: list[str]
) -> None:
    found = [one["message"] for one in diagnose("ceql", text, known)]
    assert len(found) == len(messages), found
    for message in messages:
        assert any(message in one for one in found), found


def test_a_type_that_no_event_has_is_a_warning_with_a_fix(known: KnownData) -> None:
    [one] = diagnose("ceql", "SELECT * FROM Stocks WHERE SELL ; BYU", known)
    assert (one["severity"], one["code"]) == ("warning", "absent-type")
    assert one["fixes"][0]["text"] == "BUY"


def test_one_stream_may_have_any_name_in_from(known: KnownData) -> None:
    assert diagnose("ceql", "SELECT * FROM Market WHERE SELL AS s FILTER s[price > 1]", known) == []


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("ceql", ""),
        ("cq", "Q(x) <- "),
        ("spaseq", "SELECT ?x"),
        ("ceql", "\x00"),
        ("cq", "🙂"),
        ("sql", "SELECT"),
        ("sql", "🙂"),
    ],
)
def test_half_a_query_in_any_language_is_a_mistake_with_a_place(language: str, text: str) -> None:
    found = diagnose(language, text, None)
    assert found
    assert all(one["severity"] == "error" and one["line"] >= 1 for one in found)


def test_a_rule_set_is_not_run_here() -> None:
    [one] = diagnose("ceql", "RULE a AS SELECT * FROM S WHERE A; RULE b AS SELECT * WHERE B", None)
    assert "one by one" in one["message"]


def list_labels(text: str, known: KnownData | None, language: str = "ceql") -> list[str]:
    lines = text.split("\n")
    found = complete(language, text, len(lines), len(lines[-1]) + 1, known)
    return [option["label"] for option in found["options"]]


def test_attributes_come_first_inside_brackets(known: KnownData) -> None:
    labels = list_labels("SELECT * FROM Stocks WHERE SELL AS s FILTER s[", known)
    assert labels[:4] == ["name", "price", "ts", "type"]


def test_streams_come_after_from_and_types_in_the_formula(known: KnownData) -> None:
    assert list_labels("SELECT * FROM ", known)[0] == "Stocks"
    assert list_labels("SELECT * FROM Stocks WHERE ", known)[:2] == ["BUY", "SELL"]


def test_the_word_before_the_cursor_is_replaced(known: KnownData) -> None:
    found = complete("ceql", "SELECT * FROM Stocks\nWHERE SELL WITH", 2, 16, known)
    assert found["from_column"] == 12
    assert [option["label"] for option in found["options"]] == ["WITHIN", "WITHOUT"]


def test_variables_of_the_text_are_known_in_every_language() -> None:
    assert "total" in list_labels("SELECT * WHERE A AS total FILTER to", None)
    assert list_labels("SELECT ?house WHERE { SEQ (A) } ?ho", None, "spaseq") == ["?house"]
    assert "key" in list_labels("Q(key) <- A(a: key), B(a: k", None, "cq")
    assert "LENGTH" in list_labels("Q(key) <- A(a: key), LEN", None, "cq")
