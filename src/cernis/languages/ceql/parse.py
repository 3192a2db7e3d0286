"""CEQL text to `Pattern`: read (`cernis.languages.reading`), then lowered without recursion."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from lark import Lark, Token, Tree

from cernis.errors import Diagnostic, QueryError
from cernis.languages.ceql.lower import Lowering
from cernis.languages.ceql.mistakes import lexical_mistakes, unexpected
from cernis.languages.ceql.words import TERMINALS
from cernis.languages.reading import (
    MAX_TEXT,
    MAX_TOKENS,
    Language,
    in_order,
    read_tokens,
    read_tree,
)
from cernis.pattern.check import MAX_DEPTH, check, too_deep
from cernis.pattern.query import Pattern
from cernis.schema import Schema

__all__ = ["MAX_DEPTH", "MAX_TEXT", "MAX_TOKENS", "parse", "parse_schema"]


def _retype(token: Token) -> Token:
    """A word that is a keyword becomes that keyword's terminal."""
    token.type = TERMINALS.get(token.value.upper(), "NAME")
    return token


@cache
def _grammar() -> Lark:
    return Lark(
        files(__package__).joinpath("grammar.lark").read_text(encoding="utf-8"),
        parser="lalr",
        lexer="basic",
        start=["query", "schema", "lexical"],
        propagate_positions=True,
        maybe_placeholders=True,
        lexer_callbacks={"NAME": _retype},
    )


def _touches(one: Diagnostic, others: list[Diagnostic]) -> bool:
    """Whether a mistake is about text that another one has complained about already."""
    return one.span is None or any(
        other.span and one.span.start < other.span.end and other.span.start < one.span.end
        for other in others
    )


_CEQL = Language(_grammar, lambda tokens, _: lexical_mistakes(tokens), unexpected)


def _tree(text: str, start: str) -> Tree[Token]:
    tokens = read_tokens(_CEQL, text)
    if tokens and tokens[-1].type == "SEMICOLON":
        tokens.pop()  # the habit of SQL
    return read_tree(_CEQL, start, tokens, text)


def parse(text: str) -> Pattern:
    """The pattern that a CEQL text stands for; raises QueryError with every mistake found.

    >>> parse("SELECT * FROM S WHERE SELL AS a ; BUY AS b").formula.parts[0]
    As(body=Event(type='SELL', stream=None), variable='a')
    """
    lowering = Lowering(text)
    pattern: Pattern = lowering.transform(_tree(text, "query"))
    if lowering.mistakes:
        others = [one for one in check(pattern) if not _touches(one, lowering.mistakes)]
        raise QueryError(in_order([*lowering.mistakes, *others]), text)
    deep = too_deep(pattern)
    if deep is not None:
        raise QueryError([deep], text)
    return pattern


def parse_schema(text: str) -> Schema:
    """The schema of a text that holds CREATE STREAM declarations alone.

    >>> parse_schema("CREATE STREAM S { EVENT A { x:int } }").stream("S").events
    {'A': {'x': <Kind.INT: 'int'>}}
    """
    lowering = Lowering(text)
    schema: Schema = lowering.transform(_tree(text, "schema"))
    if lowering.mistakes:
        raise QueryError(in_order(lowering.mistakes), text)
    return schema
