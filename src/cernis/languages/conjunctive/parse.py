"""The text of a conjunctive query to `ConjunctiveQuery`.

Linear in the text, with the limits of CEQL on its length and its tokens; nothing in the
language nests, so there is no depth to bound. The grammar is CEQL's with a start of its
own: declarations, names, numbers, strings, comments and windows are the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from itertools import islice
from typing import cast

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedToken

from cernis.errors import BudgetError, Diagnostic, QueryError
from cernis.languages.ceql.mistakes import MOST_MISTAKES, bracket_mistakes, mend, misspelt
from cernis.languages.ceql.parse import MAX_DEPTH, MAX_TEXT, MAX_TOKENS
from cernis.languages.ceql.words import NANOSECONDS, TERMINALS
from cernis.languages.conjunctive.mistakes import lexical_mistakes, unexpected
from cernis.languages.conjunctive.names import resolve
from cernis.languages.conjunctive.tree import Writing, WrittenQuery
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
    mistakes = lexical_mistakes(tokens, text)
    if not any(token.type.startswith("UNCLOSED") for token in tokens[-1:]):
        mistakes += bracket_mistakes(tokens, text, MAX_DEPTH)
    if mistakes:
        raise QueryError(_in_order(mistakes), text)
    if tokens and tokens[-1].type in ("SEMICOLON", "DOT"):
        tokens.pop()  # the habits of SQL and of Datalog
    return list(_mended(tokens))


def _in_order(mistakes: list[Diagnostic]) -> list[Diagnostic]:
    return sorted(mistakes, key=lambda mistake: mistake.span or (0, 0))


def _accepted(tokens: list[Token]) -> set[str]:
    """What may follow the tokens: replayed, as a failed feed leaves some rules reduced."""
    parser = _grammar().parse_interactive(start="conjunctive")
    for token in tokens:
        parser.feed_token(token)
    accepted: set[str] = parser.accepts()  # type: ignore[no-untyped-call]
    return accepted


def _tree(text: str) -> Tree[Token]:
    tokens = _tokens(text)
    parser = _grammar().parse_interactive(start="conjunctive")
    mistakes: list[Diagnostic] = []
    tree: Tree[Token] | None = None
    end = tokens[-1] if tokens else Token("$END", "", 0, 1, 1, 1, 1, 0)
    for number, token in enumerate([*tokens, Token.new_borrow_pos("$END", "", end)]):
        try:
            tree = parser.feed_token(token)
        except UnexpectedToken:
            before = tokens[:number]
            accepted = _accepted(before)
            meant = mend(token, accepted)
            if meant is None or len(mistakes) == MOST_MISTAKES:
                mistakes.append(unexpected(token, accepted, before, len(text.rstrip())))
                break
            mistakes.append(misspelt(token, meant))
            token.type, token.value = TERMINALS[meant], meant
            parser.feed_token(token)
    if mistakes:
        raise QueryError(mistakes, text)
    return cast("Tree[Token]", tree)


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
        raise QueryError(_in_order(mistakes), text)
    return query
