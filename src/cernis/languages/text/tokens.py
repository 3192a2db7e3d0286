"""Tokens and nodes of a parse tree: where they stand, and the numbers that they write."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple, cast

from lark import Token
from lark.tree import Meta

from cernis.errors import Span

MOST_DIGITS = 40
_LARGEST_EXPONENT = 30
_LONGEST_SHOWN = 40


class Name(NamedTuple):
    """A name in a text."""

    text: str
    span: Span


def span_of(token: Token) -> Span:
    return Span(cast(int, token.start_pos), cast(int, token.end_pos))


def span_of_tree(meta: Meta) -> Span:
    """Return where a node stands; a node without tokens stands nowhere."""
    return Span(0, 0) if meta.empty else Span(meta.start_pos, meta.end_pos)


def cut_token(token: Token, type_: str, begin: int, end: int) -> Token:
    """Return a part of a token as a token of another type."""
    start = span_of(token).start
    return Token(
        type_, token.value[begin:end], start + begin, token.line, token.column, token.end_line,
        token.end_column, start + end,
    )  # fmt: skip


def shorten(text: str) -> str:
    """Cut a text to the length that a message shows."""
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…"


def exact_number(token: Token) -> Fraction | None:
    """Return a number as it is written; None if it is out of range.

    The range is bounded because 1e999999999 has a billion digits.
    """
    mantissa, _, exponent = token.value.lower().partition("e")
    if len(mantissa) > MOST_DIGITS or abs(int(exponent[:9] or 0)) > _LARGEST_EXPONENT:
        return None
    return Fraction(token.value if mantissa[-1] != "." else f"{mantissa}0e{exponent}")
