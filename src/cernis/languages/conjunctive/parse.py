"""The text of a conjunctive query to `ConjunctiveQuery`.

Linear in the text, with the limits of CEQL on its length and its tokens; nothing in the
language nests, so there is no depth to bound. The grammar is CEQL's with a start of its
own: declarations, names, numbers, strings, comments and windows are the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import cast

from lark import Lark, Token, Tree

from cernis.errors import QueryError
from cernis.languages.ceql.words import NANOSECONDS, TERMINALS
from cernis.languages.conjunctive.mistakes import lexical_mistakes, unexpected
from cernis.languages.conjunctive.names import resolve
from cernis.languages.conjunctive.tree import Writing, WrittenQuery
from cernis.languages.reading import Language, in_order, read_tokens, read_tree
from cernis.pattern.conjunctive import ConjunctiveQuery
from cernis.schema import Schema

__all__ = ["parse"]

_WORDS = {
    word: TERMINALS[word]
    for word in (
        "CREATE",
        "DECLARE",
        "STREAM",
        "EVENT",
        "EVENTS",
        "WITHIN",
        "TRUE",
        "FALSE",
        "NULL",
    )
} | dict.fromkeys(NANOSECONDS, "UNIT")
_PIECES = {"ARROW": ("CMP", "MINUS"), "TURNSTILE": ("COLON", "MINUS")}


def _retype(token: Token) -> Token:
    token.type = _WORDS.get(token.value.upper(), "NAME")
    return token


@cache
def _grammar() -> Lark:
    shared = files("cernis.languages.ceql").joinpath("grammar.lark").read_text(encoding="utf-8")
    own = files(__package__).joinpath("grammar.lark").read_text(encoding="utf-8")
    return Lark(
        f"{shared}\n{own}",
        parser="lalr",
        lexer="basic",
        start=["conjunctive", "lexical"],
        propagate_positions=True,
        maybe_placeholders=True,
        lexer_callbacks={"NAME": _retype},
    )


def _piece(whole: Token, type_: str, begin: int, end: int) -> Token:
    start = cast(int, whole.start_pos)
    return Token(
        type_, whole.value[begin:end], start + begin, whole.line, whole.column, whole.end_line,
        whole.end_column, start + end,
    )  # fmt: skip


def _mended(tokens: list[Token]) -> Iterator[Token]:
    """The tokens with what only their surroundings tell: see the head of the grammar."""
    arrow = False
    for number, token in enumerate(tokens):
        if token.type in _PIECES:
            if arrow:
                first, second = _PIECES[token.type]
                yield _piece(token, first, 0, 1)
                yield _piece(token, second, 1, 2)
                continue
            arrow = True
        elif token.type == "GT" and [t.type for t in tokens[number + 2 : number + 3]] == ["LPAR"]:
            token.type = "OF"
        yield token


_CONJUNCTIVE = Language(_grammar, lexical_mistakes, unexpected)


def _tree(text: str) -> Tree[Token]:
    tokens = read_tokens(_CONJUNCTIVE, text)
    if tokens and tokens[-1].type in ("SEMICOLON", "DOT"):
        tokens.pop()  # the habits of SQL and of Datalog
    return read_tree(_CONJUNCTIVE, "conjunctive", list(_mended(tokens)), text)


def parse(text: str, *, schema: Schema | None = None) -> ConjunctiveQuery:
    """The query that a text stands for; raises QueryError with every mistake found.

    Arguments by position need the attributes of their relation: declared in the text
    (`CREATE STREAM S { EVENT T { a:int } }`), or given as `schema`.

    >>> parse("Q(x) <- T(a: x), S(a: x, b: 3)").atoms[1].relation
    'S'
    """
    writing = Writing(text)
    written: WrittenQuery = writing.transform(_tree(text))
    query, mistakes = resolve(written, schema, text)
    mistakes = [*writing.mistakes, *mistakes]
    if mistakes:
        raise QueryError(in_order(mistakes), text)
    return query
