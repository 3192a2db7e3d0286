"""Check the arguments of the builder: a wrong one is an error that says what is expected."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import SupportsIndex, TypeVar

from cernis.errors import Diagnostic, QueryError
from cernis.pattern.query import Consume, Strategy
from cernis.pattern.suggest import did_you_mean
from cernis.pattern.write import capitalize_ascii

Choices = TypeVar("Choices", Strategy, Consume)


def refuse(message: str, suggestion: str | None = None) -> QueryError:
    """Return the error to raise."""
    return QueryError([Diagnostic(message, suggestion=suggestion)])


def check_name(name: object, what: str) -> str:
    """Return a name that is text."""
    if not isinstance(name, str) or not name:
        raise refuse(f"{what} must be a string that is not empty, not {name!r}")
    return name


def check_whole(number: object, what: str) -> int:
    """Return a whole number, of NumPy too."""
    if isinstance(number, bool) or not isinstance(number, SupportsIndex):
        raise refuse(f"{what} must be a whole number, not {number!r}")
    return number.__index__()


def read_number(number: object, what: str) -> Fraction:
    """Return a number exactly."""
    if isinstance(number, bool) or not isinstance(number, int | float | Decimal | Fraction):
        raise refuse(f"{what} must be a number, not {number!r}")
    if isinstance(number, float | Decimal) and not math.isfinite(number):
        raise refuse(f"{what} must be finite")
    # a float is taken as it prints: 0.1 seconds is 100 milliseconds
    return Fraction(repr(number)) if isinstance(number, float) else Fraction(number)


def choose_member(kind: type[Choices], word: object, what: str) -> Choices:
    """Return what a word names, in any case."""
    if isinstance(word, kind):
        return word
    name = capitalize_ascii(check_name(word, what))
    options = [member.value for member in kind]
    if name not in options:
        raise refuse(f"unknown {what} '{word}'", did_you_mean(name, options))
    return kind(name)


class Written:
    """A part of a query that writes itself as CEQL."""

    __slots__ = ()


def show(value: object) -> str:
    """Return a value as a message shows it."""
    text = str(value) if isinstance(value, Written) else repr(value)
    return text if len(text) <= 60 else text[:59] + "…"
