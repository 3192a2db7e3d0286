"""Simple tests that a condition implies: an attribute equals a constant, or is text with another in
it, or a number within bounds.

Indexes find events by them (`run.rules.routing`), and a condition is not evaluated where they fail
(`encoding.bundle`). A condition with `AND` offers several sets of tests, and any of them finds its
events; one with `OR` needs those of all its parts.

Cost contract: a walk over the condition.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from math import copysign, inf, nextafter
from struct import pack, unpack
from typing import NamedTuple, TypeGuard

from cernis.pattern import predicate as pred
from cernis.pattern.atom import Atom, TypeIs


class Interval(NamedTuple):
    """Numbers from `low` to `high`, both included."""

    low: float
    high: float


Constant = str | int | float | bool | Interval


class Form(Enum):
    """How a value is compared with a constant."""

    EQUAL = "="
    FOLDED = "= without regard to capitals"
    PART = "contains, without regard to capitals"
    RANGE = "lies in"

    __hash__ = object.__hash__  # that of an Enum is Python, and tests are hashed by the thousand


class ConstantTest(NamedTuple):
    """An attribute has a constant as its value; the type of an event is the attribute None."""

    attribute: str | None
    value: Constant
    form: Form = Form.EQUAL
    """Texts of the other forms are in small letters."""

    def __str__(self) -> str:
        """
        >>> print(ConstantTest(None, "SELL"), ConstantTest("x", 1))
        the type 'SELL' x = 1
        >>> print(ConstantTest("x", "a", Form.PART))
        x with 'a' in it
        >>> print(ConstantTest("x", Interval(1.0, 2.5), Form.RANGE))
        x from 1 to 2.5
        """
        if self.attribute is None:
            return f"the type {self.value!r}"
        if self.form is Form.PART:
            return f"{self.attribute} with {self.value!r} in it"
        if isinstance(self.value, Interval):
            low = "" if self.value.low == -inf else f" from {self.value.low:.9g}"
            high = "" if self.value.high == inf else f" to {self.value.high:.9g}"
            return f"{self.attribute}{low}{high}"
        name = self.attribute if self.form is Form.EQUAL else f"LOWER({self.attribute})"
        return f"{name} = {self.value!r}"


class TestChoice(NamedTuple):
    """Any of these parts finds all events: they are those of a conjunction."""

    parts: tuple[NeededTests, ...]


class TestUnion(NamedTuple):
    """All of these parts together find all events: they are those of a disjunction."""

    parts: tuple[NeededTests, ...]


NeededTests = frozenset[ConstantTest] | TestChoice | TestUnion
"""The tests that find the events of a rule."""


def need_all(parts: Iterable[NeededTests | None]) -> NeededTests | None:
    """Return what finds the events of all parts."""
    known: dict[NeededTests, None] = {}
    for part in parts:
        if part is None:
            return None
        known[part] = None
    if all(isinstance(part, frozenset) for part in known):
        return frozenset[ConstantTest]().union(
            *(part for part in known if isinstance(part, frozenset))
        )
    return next(iter(known)) if len(known) == 1 else TestUnion(tuple(known))


def need_any(parts: Iterable[NeededTests | None]) -> NeededTests | None:
    """Return what finds the events that all parts hold for: any of them does.

    >>> bounds = [Interval(1.0, inf), Interval(-inf, 2.0)]
    >>> need_any(frozenset([ConstantTest("x", one, Form.RANGE)]) for one in bounds)
    frozenset({ConstantTest(attribute='x', value=Interval(low=1.0, high=2.0), form=<Form.RANGE: \
'lies in'>)})
    """
    known = tuple(dict.fromkeys(_join_ranges(part for part in parts if part is not None)))
    return TestChoice(known) if len(known) > 1 else next(iter(known), None)


def _join_ranges(parts: Iterable[NeededTests]) -> Iterator[NeededTests]:
    """Yield the parts, with one range for all of an attribute."""
    ranges: dict[str | None, Interval] = {}
    for part in parts:
        test = next(iter(part)) if isinstance(part, frozenset) and len(part) == 1 else None
        if test is None or not isinstance(test.value, Interval):
            yield part
            continue
        low, high = ranges.get(test.attribute, test.value)
        own = Interval(max(low, test.value.low), min(high, test.value.high))
        ranges[test.attribute] = own
    yield from (frozenset([ConstantTest(*pair, Form.RANGE)]) for pair in ranges.items())


def find_tests(atom: Atom) -> NeededTests | None:
    """Return simple tests that hold for every event for which an atom is true; None: unknown."""
    match atom:
        case TypeIs(type=name):
            return frozenset([ConstantTest(None, name)])
        case pred.And(parts=parts):
            return need_any(map(find_tests, parts))
        case pred.Or(parts=parts):
            return need_all(map(find_tests, parts))
        case pred.Comparison(op="=", left=pred.Call() as call, right=pred.Literal(value=True)):
            return _of_call(call)
        case pred.Comparison(op="=", left=left, right=right):
            return _of_sides(left, [right]) or _of_sides(right, [left])
        case pred.Comparison(op="<" | "<=" | ">" | ">=" as op, left=left, right=right):
            if isinstance(left, pred.Literal):
                return _of_bounds(right, [(pred.MIRRORED[op], left)])
            return _of_bounds(left, [(op, right)])
        case pred.InSet(body=body, values=values):
            return _of_sides(body, values)
        case pred.InRange(body=body, low=low, high=high):
            return _of_bounds(body, [(">=", low), ("<=", high)])
        case pred.Like(body=body, pattern=pattern):
            return _of_parts(body, _list_regex_parts(pattern))
        case _:
            return None


def _of_sides(value: pred.Value, others: Sequence[pred.Value]) -> frozenset[ConstantTest] | None:
    form, column = Form.EQUAL, value
    if (inner := _find_lowered(value)) is not None:
        form, column = Form.FOLDED, inner
    if not _is_column(column):
        return None
    constants = [other.value for other in others if isinstance(other, pred.Literal)]
    found = [
        ConstantTest(column.name, constant, form)
        for constant in constants
        if _is_short(constant) and (form is Form.EQUAL or isinstance(constant, str))
    ]
    return frozenset(found) if len(found) == len(others) else None


def _of_bounds(
    value: pred.Value, bounds: Sequence[tuple[pred.Operator, pred.Value]]
) -> frozenset[ConstantTest] | None:
    """Return the test of the numbers between bounds."""
    low, high = -inf, inf
    for op, other in bounds:
        bound = other.value if isinstance(other, pred.Literal) else None
        if isinstance(bound, bool) or not isinstance(bound, int | float | Decimal):
            return None
        if not _is_column(value) or not -_LARGEST < bound < _LARGEST:
            return None
        is_high = op in ("<", "<=")
        own = _round_outward(bound, -inf if is_high else inf, is_excluded=op in ("<", ">"))
        low, high = (low, min(high, own)) if is_high else (max(low, own), high)
    assert isinstance(value, pred.Attribute)
    return frozenset([ConstantTest(value.name, Interval(low, high), Form.RANGE)])


_LARGEST = 2**53
"""Whole numbers below this are floats that differ."""


def _round_outward(bound: int | float | Decimal, inside: float, *, is_excluded: bool) -> float:
    """Return a bound that no number on the side of `inside` passes, also as a float of 32 bits.

    >>> _round_outward(5, inf, is_excluded=False), _round_outward(5, inf, is_excluded=True) > 5
    (5.0, True)
    >>> 0.69 < _round_outward(0.7, inf, is_excluded=True) < 0.7
    True
    """
    known = float(bound)
    (short,) = unpack("f", pack("f", known))
    if Fraction(short) == Fraction(bound):
        return nextafter(known, inside) if is_excluded else known
    return known - copysign(1, inside) * max(abs(known) * 2**-23, 2**-149)


def _is_column(value: pred.Value) -> TypeGuard[pred.Attribute]:
    """Whether a value is an attribute that events have as a column."""
    return isinstance(value, pred.Attribute) and value.value is None and value not in COMPUTED


def _find_lowered(value: pred.Value) -> pred.Value | None:
    """Return a of `LOWER(a)`."""
    match value:
        case pred.Call(function="LOWER", arguments=(inner,)):
            return inner
        case pred.Attribute(value=pred.Call(function="LOWER", arguments=(inner,))):
            return inner
    return None


# ---------------------------------------------------------------- parts of texts


def _of_call(call: pred.Call) -> frozenset[ConstantTest] | None:
    """Return the test that a test of text implies."""
    match call:
        case pred.Call(
            function="CONTAINS" | "STARTS_WITH" | "ENDS_WITH",
            arguments=(column, pred.Literal(value=str() as text)),
        ):
            return _of_parts(column, [text])
        case pred.Call(
            function="SQL_LIKE" | "SQL_ILIKE" as function,
            arguments=(column, pred.Literal(value=str() as pattern)),
        ):
            if function == "SQL_ILIKE" and not _SPECIAL.search(pattern) and _is_column(column):
                return frozenset([ConstantTest(column.name, pattern.lower(), Form.FOLDED)])
            return _of_parts(column, _SPECIAL.split(pattern))
    return None


_SPECIAL = re.compile(r"\\.|[%_\\]", re.DOTALL)
"""What is no plain text in a pattern of SQL."""
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_PLAIN_REGEX = re.compile(r"(?:[\w\s/:;,<>=!@#%&~`'\"-]|\\[^\w\s]|\.[*+]?\??)*", re.ASCII)
_REGEX_TOKEN = re.compile(r"\\(.)|(\.[*+]?\??)|([^\\.])", re.DOTALL)


def _list_regex_parts(pattern: str) -> list[str]:
    r"""Return texts that are in all texts that a regular expression matches, if it is a plain one.

    >>> _list_regex_parts(r"(?i).*\\cmd\.exe .*/c"), _list_regex_parts("a(b|c)*")
    (['', '\\cmd.exe ', '/c'], [])
    """
    pattern = re.sub(r"^\(\?[is]+\)", "", pattern)
    if not _PLAIN_REGEX.fullmatch(pattern):
        return []
    parts = [""]
    for escaped, wild, plain in _REGEX_TOKEN.findall(pattern):
        if wild:
            parts.append("")
        else:
            parts[-1] += escaped or plain
    return parts


def _of_parts(value: pred.Value, texts: Iterable[str]) -> frozenset[ConstantTest] | None:
    """Return the test of the longest of texts that are all in a value.

    Only ASCII is looked for: other letters have several forms, and not every function folds them
    alike.
    """
    column = _find_lowered(value) or value
    if not _is_column(column):
        return None
    parts: list[str] = []
    for text in texts:
        small = text.lower()
        parts += [small] if small.isascii() else _NOT_ASCII.split(small)
    longest = max(parts, key=len, default="")
    return frozenset([ConstantTest(column.name, longest, Form.PART)]) if longest else None


def _is_short(constant: pred.Scalar) -> TypeGuard[Constant]:
    """Whether equal values of every type have the key of the constant."""
    if isinstance(constant, float):
        return abs(constant) < 2**53
    return not isinstance(constant, Decimal) and (
        isinstance(constant, str) or -(2**63) <= constant < 2**63
    )


COMPUTED = (pred.TIME, pred.TIME_NS, pred.RANK)
