"""CEQL text to `Pattern`.

Linear in the text. The parser is LALR and keeps its own stack, lowering walks the tree
without recursion, and three limits hold for any text: its length, the number of its
tokens and the depth of its nesting, so that a hostile query costs a bounded time and is
refused with a message. An Earley parser would give a shorter grammar and a worse bound.

A misspelt keyword is reported and read as the keyword, so that the mistakes after it are
reported too; any other syntax error ends the parse.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from itertools import islice
from typing import cast

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedToken

from cernis.errors import BudgetError, Diagnostic, QueryError
from cernis.languages.ceql.lower import Lowering
from cernis.languages.ceql.mistakes import (
    MOST_MISTAKES,
    bracket_mistakes,
    lexical_mistakes,
    mend,
    misspelt,
    unexpected,
)
from cernis.languages.ceql.words import TERMINALS
from cernis.pattern.check import MAX_DEPTH, check, too_deep
from cernis.pattern.query import Pattern
from cernis.schema import Schema

__all__ = ["MAX_DEPTH", "MAX_TEXT", "MAX_TOKENS", "parse", "parse_schema"]

MAX_TEXT = 1 << 20
"""The longest text, in characters."""

MAX_TOKENS = 50_000
"""The most tokens in a text; a pattern has at most as many nodes."""


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


def _tokens(text: str) -> list[Token]:
    if len(text) > MAX_TEXT:
        raise BudgetError(
            f"the query has {len(text):,} characters; at most {MAX_TEXT:,} are allowed"
        )
    clean = text.encode("utf-8", "replace").decode("utf-8")
    if clean != text:
        raise QueryError([Diagnostic("the query holds characters that are not Unicode")], clean)
    tokens = list(islice(_grammar().lex(text), MAX_TOKENS + 1))
    if len(tokens) > MAX_TOKENS:
        raise BudgetError(f"the query has more than {MAX_TOKENS:,} words and symbols")
    mistakes = lexical_mistakes(tokens)
    if not any(token.type.startswith("UNCLOSED") for token in tokens[-1:]):
        mistakes += bracket_mistakes(tokens, text, MAX_DEPTH)
    if mistakes:
        raise QueryError(_in_order(mistakes), text)
    return tokens


def _in_order(mistakes: list[Diagnostic]) -> list[Diagnostic]:
    return sorted(mistakes, key=lambda mistake: mistake.span or (0, 0))


def _touches(one: Diagnostic, others: list[Diagnostic]) -> bool:
    """Whether a mistake is about text that another one has complained about already."""
    return one.span is None or any(
        other.span and one.span.start < other.span.end and other.span.start < one.span.end
        for other in others
    )


def _accepted(tokens: list[Token], start: str) -> set[str]:
    """What may follow the tokens: replayed, as a failed feed leaves some rules reduced."""
    parser = _grammar().parse_interactive(start=start)
    for token in tokens:
        parser.feed_token(token)
    accepted: set[str] = parser.accepts()  # type: ignore[no-untyped-call]
    return accepted


def _tree(text: str, start: str) -> Tree[Token]:
    tokens = _tokens(text)
    if tokens and tokens[-1].type == "SEMICOLON":
        tokens.pop()  # the habit of SQL
    parser = _grammar().parse_interactive(start=start)
    mistakes: list[Diagnostic] = []
    tree: Tree[Token] | None = None
    end = tokens[-1] if tokens else Token("$END", "", 0, 1, 1, 1, 1, 0)
    for number, token in enumerate([*tokens, Token.new_borrow_pos("$END", "", end)]):
        try:
            tree = parser.feed_token(token)
        except UnexpectedToken:
            accepted = parser.accepts()  # type: ignore[no-untyped-call]
            meant = mend(token, accepted)
            if meant is None or len(mistakes) == MOST_MISTAKES:
                before = tokens[:number]
                accepted = _accepted(before, start)
                mistakes.append(unexpected(token, accepted, before, len(text.rstrip())))
                break
            mistakes.append(misspelt(token, meant))
            token.type, token.value = TERMINALS[meant], meant
            parser.feed_token(token)
    if mistakes:
        raise QueryError(mistakes, text)
    return cast("Tree[Token]", tree)


def parse(text: str) -> Pattern:
    """The pattern that a CEQL text stands for; raises QueryError with every mistake found.

    >>> parse("SELECT * FROM S WHERE SELL AS a ; BUY AS b").formula.parts[0]
    As(body=Event(type='SELL', stream=None), variable='a')
    """
    lowering = Lowering(text)
    pattern: Pattern = lowering.transform(_tree(text, "query"))
    if lowering.mistakes:
        others = [one for one in check(pattern) if not _touches(one, lowering.mistakes)]
        raise QueryError(_in_order([*lowering.mistakes, *others]), text)
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
        raise QueryError(_in_order(lowering.mistakes), text)
    return schema
