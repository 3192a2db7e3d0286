"""From text to a tree, for every language: limits first, then tokens, then an LALR parse.

Linear in the text. The parser keeps its own stack, and three limits hold for any text: its
length, the number of its tokens and the depth of its nesting, so that a hostile query
costs a bounded time and is refused with a message. An Earley parser would give shorter
grammars and a worse bound.

A misspelt keyword is reported and read as the keyword, so that the mistakes after it are
reported too; any other syntax error ends the parse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, cast

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedToken

from cernis.errors import BudgetError, Diagnostic, QueryError
from cernis.languages.ceql.mistakes import MOST_MISTAKES, bracket_mistakes, mend, misspelt
from cernis.languages.ceql.words import TERMINALS
from cernis.pattern.check import MAX_DEPTH

MAX_TEXT = 1 << 20
"""The longest text, in characters."""

MAX_TOKENS = 50_000
"""The most tokens in a text; a pattern has at most as many nodes."""


class Language(NamedTuple):
    """A grammar, and how it speaks of mistakes."""

    grammar: Callable[[], Lark]
    lexical: Callable[[list[Token], str], list[Diagnostic]]
    unexpected: Callable[[Token, set[str], Sequence[Token], int], Diagnostic]
    words: Mapping[str, str] = TERMINALS
    """Keyword, in capitals, to its terminal: what a misspelt word may have been meant to be."""


def read_tokens(language: Language, text: str) -> list[Token]:
    """The tokens of a text within the limits; QueryError for what is none."""
    if len(text) > MAX_TEXT:
        raise BudgetError(
            f"the query has {len(text):,} characters; at most {MAX_TEXT:,} are allowed"
        )
    clean = text.encode("utf-8", "replace").decode("utf-8")
    if clean != text:
        raise QueryError([Diagnostic("the query holds characters that are not Unicode")], clean)
    tokens = list(islice(language.grammar().lex(text), MAX_TOKENS + 1))
    bound_tokens(tokens)
    mistakes = language.lexical(tokens, text)
    if not any(token.type.startswith("UNCLOSED") for token in tokens[-1:]):
        mistakes += bracket_mistakes(tokens, text, MAX_DEPTH)
    if mistakes:
        raise QueryError(in_order(mistakes), text)
    return tokens


def bound_tokens(tokens: Sequence[Token]) -> None:
    """Refuses too many tokens."""
    if len(tokens) > MAX_TOKENS:
        raise BudgetError(f"the query has more than {MAX_TOKENS:,} words and symbols")


def read_tree(language: Language, start: str, tokens: list[Token], text: str) -> Tree[Token]:
    """The tree that the tokens of a text make."""
    parser = language.grammar().parse_interactive(start=start)
    mistakes: list[Diagnostic] = []
    tree: Tree[Token] | None = None
    end = tokens[-1] if tokens else Token("$END", "", 0, 1, 1, 1, 1, 0)
    for number, token in enumerate([*tokens, Token.new_borrow_pos("$END", "", end)]):
        try:
            tree = parser.feed_token(token)
        except UnexpectedToken:
            before = tokens[:number]
            accepted = _accepted(language, start, before)
            meant = mend(token, accepted, language.words)
            if meant is None or len(mistakes) == MOST_MISTAKES:
                mistakes.append(language.unexpected(token, accepted, before, len(text.rstrip())))
                break
            mistakes.append(misspelt(token, meant))
            token.type, token.value = language.words[meant], meant
            parser.feed_token(token)
    if mistakes:
        raise QueryError(mistakes, text)
    return cast("Tree[Token]", tree)


def _accepted(language: Language, start: str, tokens: list[Token]) -> set[str]:
    """What may follow the tokens: replayed, as a failed feed leaves some rules reduced."""
    parser = language.grammar().parse_interactive(start=start)
    for token in tokens:
        parser.feed_token(token)
    accepted: set[str] = parser.accepts()  # type: ignore[no-untyped-call]
    return accepted


def in_order(mistakes: list[Diagnostic]) -> list[Diagnostic]:
    """Mistakes in the order of the text."""
    return sorted(mistakes, key=lambda mistake: mistake.span or (0, 0))
