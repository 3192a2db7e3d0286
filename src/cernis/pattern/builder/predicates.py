"""Build values and predicates: what is said of one event inside its brackets."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import date, datetime
from decimal import Decimal
from typing import Generic, Literal, SupportsIndex, TypeVar

from cernis.pattern import predicate as pred
from cernis.pattern.builder.arguments import Written, check_name, refuse, show
from cernis.pattern.write import write_predicate, write_value

ArithmeticOperator = Literal["+", "-", "*", "/", "%"]
Constant = bool | int | float | Decimal | str | date | datetime
Made = TypeVar("Made")
Test = TypeVar("Test")


def make_literal(value: object) -> pred.Literal:
    """Return a constant of Python as one of the query."""
    match value:
        case bool() | str():
            return pred.Literal(value)
        case float() | Decimal():
            if not math.isfinite(value):
                raise refuse(f"a number must be finite, not {value!r}")
            number = pred.read_number(str(value))
            if number is None:
                raise refuse(f"the number {value!r} is out of range")
            return pred.Literal(number)
        case date():
            return pred.Literal(value.isoformat())
        case SupportsIndex():
            return pred.Literal(value.__index__())
        case _:
            raise refuse(
                f"a constant must be a number, a string, a boolean or a time, not {value!r}"
            )


class NoTruth(Written):
    """Refuses to be a truth value, which Python's `and`, `or` and `not` would take silently."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise refuse(
            "a predicate has no truth value in Python",
            "combine with & | ~ instead of and, or, not; write a < b < c as two comparisons",
        )


class Operators(NoTruth, Generic[Made, Test]):
    """The operators of values: comparisons make a `Test`, arithmetic makes a `Made`."""

    __slots__ = ()

    def _compare(self, op: pred.Operator, other: object) -> Test:
        raise NotImplementedError

    def _calculate(self, op: ArithmeticOperator, other: object, swapped: bool = False) -> Made:
        raise NotImplementedError

    def __lt__(self, other: object) -> Test:
        return self._compare("<", other)

    def __le__(self, other: object) -> Test:
        return self._compare("<=", other)

    def __gt__(self, other: object) -> Test:
        return self._compare(">", other)

    def __ge__(self, other: object) -> Test:
        return self._compare(">=", other)

    def __eq__(self, other: object) -> Test:  # type: ignore[override]
        return self._compare("=", other)

    def __ne__(self, other: object) -> Test:  # type: ignore[override]
        return self._compare("!=", other)

    def __add__(self, other: object) -> Made:
        return self._calculate("+", other)

    def __radd__(self, other: object) -> Made:
        return self._calculate("+", other, True)

    def __sub__(self, other: object) -> Made:
        return self._calculate("-", other)

    def __rsub__(self, other: object) -> Made:
        return self._calculate("-", other, True)

    def __mul__(self, other: object) -> Made:
        return self._calculate("*", other)

    def __rmul__(self, other: object) -> Made:
        return self._calculate("*", other, True)

    def __truediv__(self, other: object) -> Made:
        return self._calculate("/", other)

    def __rtruediv__(self, other: object) -> Made:
        return self._calculate("/", other, True)

    def __mod__(self, other: object) -> Made:
        return self._calculate("%", other)

    def __rmod__(self, other: object) -> Made:
        return self._calculate("%", other, True)


class ValueBuilder(Operators["ValueBuilder", "PredicateBuilder"]):
    """A value between brackets: comparisons with it make tests."""

    __slots__ = ("value",)

    def __init__(self, value: pred.Value) -> None:
        self.value = value

    def __str__(self) -> str:
        return write_value(self.value)

    def _compare(self, op: pred.Operator, other: object) -> PredicateBuilder:
        return PredicateBuilder(pred.Comparison(op, self.value, make_value(other)))

    def _calculate(
        self, op: ArithmeticOperator, other: object, swapped: bool = False
    ) -> ValueBuilder:
        sides = (make_value(other), self.value) if swapped else (self.value, make_value(other))
        return ValueBuilder(pred.Arithmetic(op, *sides))

    def __neg__(self) -> ValueBuilder:
        return ValueBuilder(pred.Negative(self.value))

    def like(self, regex: str) -> PredicateBuilder:
        """Test whether the regular expression matches the whole string."""
        return PredicateBuilder(pred.Like(self.value, check_name(regex, "a regular expression")))

    def is_in(self, values: Iterable[Constant]) -> PredicateBuilder:
        """Test whether the value is one of these."""
        constants = tuple(map(make_literal, values))
        if not constants:
            raise refuse("is_in() needs at least one value")
        return PredicateBuilder(pred.InSet(self.value, constants))

    def between(self, low: Constant, high: Constant) -> PredicateBuilder:
        """Test whether the value lies between the two, both included."""
        return PredicateBuilder(pred.InRange(self.value, make_literal(low), make_literal(high)))

    def is_null(self) -> PredicateBuilder:
        return PredicateBuilder(pred.IsNull(self.value))

    def is_not_null(self) -> PredicateBuilder:
        return PredicateBuilder(pred.IsNull(self.value, negated=True))


def make_value(value: object) -> pred.Value:
    """Return a value of one event, or a constant as one."""
    if isinstance(value, ValueBuilder):
        return value.value
    if isinstance(value, Operators):
        raise refuse(
            f"{value} is a value of the match and cannot stand inside brackets",
            "use p.attr(name) inside a predicate",
        )
    return make_literal(value)


class PredicateBuilder(NoTruth):
    """A predicate on one event; combines with & | ~."""

    __slots__ = ("chained", "predicate")
    __test__ = False  # not a test class of pytest

    def __init__(self, predicate: pred.Predicate, *, chained: bool = False) -> None:
        self.predicate = predicate
        self.chained = chained

    def __str__(self) -> str:
        return write_predicate(self.predicate)

    def _chain(self, node: type[pred.And | pred.Or], other: object) -> PredicateBuilder:
        mine = self.predicate
        head = mine.parts if self.chained and isinstance(mine, node) else (mine,)
        return PredicateBuilder(node((*head, unwrap_predicate(other))), chained=True)

    def __and__(self, other: PredicateBuilder) -> PredicateBuilder:
        return self._chain(pred.And, other)

    def __or__(self, other: PredicateBuilder) -> PredicateBuilder:
        return self._chain(pred.Or, other)

    def __invert__(self) -> PredicateBuilder:
        return PredicateBuilder(pred.Negation(self.predicate))


def unwrap_predicate(test: object) -> pred.Predicate:
    """Return the predicate that a builder holds."""
    if not isinstance(test, PredicateBuilder):
        raise refuse(f"expected a predicate such as p.attr('price') > 100, not {show(test)}")
    return test.predicate


def any_element(values: object, name: str, test: object) -> PredicateBuilder:
    """Return whether a predicate is true of an element of a list, which has the name in it.

    >>> print(any_element(attr("arguments"), "a", attr("a") == "-enc"))
    ANY(arguments, a -> a = '-enc')
    """
    named = check_name(name, "an element")
    return PredicateBuilder(pred.AnyElement(make_value(values), named, unwrap_predicate(test)))


def attr(*path: str) -> ValueBuilder:
    """Return an attribute of the event; nested ones by dots or by several names.

    >>> str(attr("price") * 2 > 100), str(attr("user", "id")), str(attr("user.id"))
    ('price * 2 > 100', 'user.id', 'user.id')
    """
    return ValueBuilder(make_attribute(path))


def make_attribute(path: tuple[str, ...]) -> pred.Attribute:
    """Return an attribute, by its names or by one name with dots."""
    names = tuple(check_name(part, "an attribute") for part in path)
    if len(names) == 1:
        names = tuple(names[0].split("."))
    if not names or not all(names):
        raise refuse(f"an attribute must have a name, not {path!r}")
    return pred.Attribute(names)


def const(value: Constant) -> ValueBuilder:
    """Return a constant, where Python would otherwise compute: `p.const(1) + 1`."""
    return ValueBuilder(make_literal(value))
