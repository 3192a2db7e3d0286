"""The Pygments lexers: every character once, keywords as the parsers know them, and no error."""

from __future__ import annotations

import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from pygments import token as colour

from cernis.languages.highlight import CeqlLexer, CernisLexer, ConjunctiveLexer, SpaseqLexer
from tools.cases import corpus
from tools.cases.spaseq import corpus as spaseq_corpus

ROOT = Path(__file__).parents[2]
LEXERS: dict[str, type[CernisLexer]] = {"ceql": CeqlLexer, "cq": ConjunctiveLexer}
CASES = [
    *((LEXERS[case.lang], case.query) for case in corpus.read_cases()),
    *((SpaseqLexer, case.query) for case in spaseq_corpus.read_cases()),
]


def kinds(lexer: type[CernisLexer], text: str) -> dict[str, str]:
    """Return the kind of each word of a text."""
    tokens = lexer().get_tokens(text)
    return {value: str(kind).removeprefix("Token.") for kind, value in tokens if value.strip()}


def test_queries_of_the_corpus_are_coloured_without_errors_and_kept_as_they_are() -> None:
    for lexer, text in CASES:
        tokens = list(lexer().get_tokens_unprocessed(text))
        assert "".join(value for _, _, value in tokens) == text
        assert [text[at : at + len(value)] for at, _, value in tokens] == [v for _, _, v in tokens]
        assert [value for _, kind, value in tokens if kind is colour.Error] == []


def test_soft_keywords_are_keywords_where_they_can_be() -> None:
    found = kinds(CeqlLexer, "SELECT LAST a FROM S WHERE ORDER AS a ; PAY LIMIT 2 -- two")
    assert (found["LAST"], found["ORDER"], found["a"]) == ("Keyword", "Name", "Name.Variable")
    assert found["-- two"] == "Comment"
    assert kinds(CeqlLexer, "FILTER LAST(x[a]) > 3")["LAST"] == "Name.Function"
    assert kinds(CeqlLexer, "ORDER BY x")["ORDER"] == "Keyword"
    assert kinds(CeqlLexer, "RULE x AS SELECT *")["RULE"] == "Keyword"


def test_parts_of_queries_and_mistakes_do_not_raise() -> None:
    assert kinds(CeqlLexer, "WHERE (A ; … 'open")["…"] == "Text"
    assert kinds(CeqlLexer, "A && B")["&&"] == "Error"


@pytest.mark.parametrize("name", ["ceql", "cq", "spaseq"])
def test_pygments_finds_the_lexer_by_its_name(name: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    module, _, lexer = project["entry-points"]["pygments.lexers"][name].partition(":")
    assert getattr(import_module(module), lexer).aliases == [name]
