"""The parser reads each text as Lark does, whose tables it runs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any

import pytest
from lark import Lark, Tree
from lark import Token as LarkToken

from cernis.errors import QueryError, Span
from cernis.languages.ceql.parse import parse as parse_ceql
from cernis.languages.conjunctive.parse import parse as parse_conjunctive
from cernis.languages.spaseq.parse import parse as parse_spaseq
from cernis.languages.sql.pattern import parse_pattern
from cernis.languages.text.read import Syntax
from cernis.languages.text.tokens import Token, span_of
from tools.cases import corpus
from tools.cases.spaseq import corpus as spaseq_corpus

MODULES = {
    "ceql": "ceql.parse",
    "cq": "conjunctive.parse",
    "spaseq": "spaseq.parse",
    "sql": "sql.pattern",
}
SYNTAXES: dict[str, Syntax] = {
    lang: import_module(f"cernis.languages.{name}").SYNTAX for lang, name in MODULES.items()
}
PARSE = {"ceql": parse_ceql, "cq": parse_conjunctive, "spaseq": parse_spaseq, "sql": parse_pattern}
TEXTS = [
    *((case.lang, case.query) for case in corpus.read_cases()),
    *(("spaseq", case.query) for case in spaseq_corpus.read_cases()),
    *(("sql", text) for text in ("a (b | c)*? {- d{2,} -} $", "PERMUTE(a, b) | ()", "^ a+ b?")),
]


@cache
def load_lark(lang: str) -> Lark:
    return SYNTAXES[lang].grammar.load()


class NodeReader:
    """Reads each rule as a node of a tree."""

    def __getattr__(self, name: str) -> Any:
        return lambda span, parts: (name, span, [_show(part) for part in parts])


def _show(part: Any) -> Any:
    return (part.type, part.value, span_of(part)) if isinstance(part, Token) else part


def _show_lark(part: Any) -> Any:
    if isinstance(part, LarkToken):
        return part.type, part.value, Span(part.start_pos or 0, part.end_pos or 0)
    if isinstance(part, Tree):
        meta = part.meta
        span = Span(0, 0) if meta.empty else Span(meta.start_pos, meta.end_pos)
        return str(part.data), span, [_show_lark(one) for one in part.children]
    return part


def read_as_both(
    monkeypatch: pytest.MonkeyPatch, lang: str, text: str
) -> Iterator[tuple[Any, Any]]:
    """Yield what both make of the tokens of a text, retyped as its language does."""
    met: list[tuple[str, list[Token]]] = []
    run = SYNTAXES[lang].parser.run

    def note(start: str, tokens: list[Token], *rest: Any) -> Any:
        met.append((start, list(tokens)))
        return run(start, tokens, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(SYNTAXES[lang].parser, "run", note)
        try:
            PARSE[lang](text)
        except QueryError:
            met.clear()
    for start, tokens in met:
        cursor = load_lark(lang).parse_interactive(start=start)
        for token in tokens:
            place = {"start_pos": token.start_pos, "end_pos": token.end_pos}
            cursor.feed_token(LarkToken(token.type, token.value, **place))
        end = LarkToken("$END", "", 0)
        yield run(start, tokens, NodeReader(), pytest.fail), _show_lark(cursor.feed_token(end))


def test_rules_and_their_places_are_those_of_larks_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0
    for lang, text in TEXTS[::5]:
        for own, larks in read_as_both(monkeypatch, lang, text):
            assert own == larks
            compared += 1
    assert compared > len(TEXTS) // 6


@pytest.mark.parametrize("lang", [*SYNTAXES])
def test_texts_are_cut_as_lark_cuts_them(lang: str) -> None:
    syntax = SYNTAXES[lang]
    lark = load_lark(lang)
    texts = [text for own, text in TEXTS if own == lang]
    texts += [
        "",
        "é ª 1.5e3 .. 3..4 a.b 'x''y' \"z -- no\n /* c */ --> => `q` /* open",
        "$p # ~ 'open",
    ]
    for text in texts:
        cut = [(token.value, span_of(token)) for token in syntax.lexer.cut(text)]
        larks = [(str(one), Span(one.start_pos or 0, one.end_pos or 0)) for one in lark.lex(text)]
        assert cut == larks


def test_no_more_tokens_are_cut_than_asked_for() -> None:
    assert len(SYNTAXES["ceql"].lexer.cut("a " * 1000, 7)) == 7


def test_a_misspelt_keyword_is_read_as_the_keyword() -> None:
    with pytest.raises(QueryError) as caught:
        parse_ceql("SELECT * WHRE A FILTR A[price > 1]")
    assert [one.suggestion for one in caught.value.diagnostics] == [
        "did you mean 'WHERE'?",
        "did you mean 'FILTER'?",
    ]
