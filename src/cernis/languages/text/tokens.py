"""Tokens: where they stand, and the numbers that they write."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from cernis.errors import Span

MOST_DIGITS = 40
_LARGEST_EXPONENT = 30
_LONGEST_SHOWN = 40


class Name(NamedTuple):
    """A name in a text."""

    text: str
    span: Span


@dataclass(slots=True)
class Token:
    """A lexeme: its terminal, its text, and where it stands."""

    type: str
    value: str
    start_pos: int
    end_pos: int

    def replace(self, type_: str, value: str) -> Token:
        """Return a token that stands where this one does."""
        return Token(type_, value, self.start_pos, self.end_pos)


def span_of(token: Token) -> Span:
    return Span(token.start_pos, token.end_pos)


def cut_token(token: Token, type_: str, begin: int, end: int) -> Token:
    """Return a part of a token as a token of another type."""
    start = token.start_pos
    return Token(type_, token.value[begin:end], start + begin, start + end)


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
