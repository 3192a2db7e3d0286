"""Evaluate a predicate on one event: true, false or unknown.

SQL's three-valued logic over plain Python values, as the oracle needs it; an event is
a mapping, NULL is None, and a missing key is NULL. Cost: one walk over the predicate.

Where SQL leaves a choice, this is the one taken:

* NaN equals nothing: with NaN on a side `!=` is true and every other comparison false.
* Numbers compare with numbers, strings with strings (by code point), booleans with
  booleans (false < true). Any other pair is unknown, and arithmetic on anything but
  numbers is NULL. A boolean is not a number.
* A constant has the digits that are written. It compares exactly with integers and decimals. Beside
  a float, a decimal and a constant with a fraction count as the nearest float.
* Integer arithmetic is exact, and so is minus a decimal; other arithmetic on decimals and on
  constants with a fraction is that of floats. `/` is true division, also of integers. Division and
  modulo by zero are NULL, for floats too. `%` truncates: its sign is the dividend's.
* `v IN {…}` is `v = … OR v = …`; `v IN {a..b}` is `a <= v AND v <= b`.
* `LIKE` matches the whole string; `\\d`, `\\w`, `\\s` know ASCII alone, as in RE2.

>>> cheap = pred.Comparison("<", pred.Attribute(("price",)), pred.Literal(100))
>>> [truth(cheap, event) for event in ({"price": 80}, {"price": 102}, {})]
[True, False, None]
>>> holds(pred.Negation(cheap), {})
False
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from cernis.languages.ceql.parse import parse_value
from cernis.pattern import predicate as pred
from cernis.pattern.functions import find_function

Event = Mapping[str, Any]

_COMPARE: dict[pred.Operator, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def holds(predicate: pred.Predicate, event: Event) -> bool:
    """Whether the predicate is true; unknown does not hold."""
    return truth(predicate, event) is True


def truth(predicate: pred.Predicate, event: Event) -> bool | None:
    """Return True, False, or None for unknown."""
    match predicate:
        case pred.Comparison(op=op, left=left, right=right):
            return compare(op, evaluate_value(left, event), evaluate_value(right, event))
        case pred.Like(body=body, pattern=pattern):
            text = evaluate_value(body, event)
            if not isinstance(text, str):
                return None
            return re.fullmatch(pattern, text, re.ASCII) is not None
        case pred.InSet(body=body, values=values):
            found = evaluate_value(body, event)
            return any_of(compare("=", found, read_literal(each)) for each in values)
        case pred.InRange(body=body, low=low, high=high):
            found = evaluate_value(body, event)
            ends = read_literal(low), read_literal(high)
            return all_of((compare("<=", ends[0], found), compare("<=", found, ends[1])))
        case pred.AnyElement(body=body, name=name, predicate=test):
            found = evaluate_value(body, event)
            if not isinstance(found, list | tuple):
                return None
            return any_of(truth(test, {**event, name: each}) for each in found)
        case pred.IsNull(body=body, negated=negated):
            return (evaluate_value(body, event) is None) != negated
        case pred.And(parts=parts):
            return all_of(truth(part, event) for part in parts)
        case pred.Or(parts=parts):
            return any_of(truth(part, event) for part in parts)
        case pred.Negation(body=inner):
            known = truth(inner, event)
            return None if known is None else not known


def compare(op: pred.Operator, left: Any, right: Any) -> bool | None:
    """Compare two values; unknown unless both are of one kind.

    >>> compare("=", 1, 1.0), compare("=", 1, "1"), compare("!=", float("nan"), 1)
    (True, None, True)
    """
    if kind_of(left) is None or kind_of(left) != kind_of(right):
        return None
    if isinstance(left, Decimal) and isinstance(right, float | Fraction):
        left = type(right)(left)
    if isinstance(right, Decimal) and isinstance(left, float | Fraction):
        right = type(left)(right)
    return bool(_COMPARE[op](left, right))


def kind_of(found: Any) -> str | None:
    """Return the kind of a value, within which values are compared; None for NULL."""
    match found:
        case None:
            return None
        case bool():
            return "boolean"
        case int() | float() | Decimal() | Fraction():
            return "number"
        case str():
            return "string"
        case _:
            return type(found).__name__


def all_of(truths: Iterable[bool | None]) -> bool | None:
    """Return the AND: false wins over unknown, unknown over true."""
    known = list(truths)
    return False if False in known else None if None in known else True


def any_of(truths: Iterable[bool | None]) -> bool | None:
    """Return the OR: true wins over unknown, unknown over false."""
    known = list(truths)
    return True if True in known else None if None in known else False


def evaluate_value(node: pred.Value, event: Event) -> Any:
    """Return the value of an expression on an event; None for NULL."""
    match node:
        case pred.Literal():
            return read_literal(node)
        case pred.Attribute():
            return read_attribute(node, event)
        case pred.Call(function=name, arguments=arguments):
            return call(name, [evaluate_value(each, event) for each in arguments])
        case pred.Case(branches=branches, otherwise=otherwise):
            for test, value in branches:
                if holds(test, event):
                    return evaluate_value(value, event)
            return None if otherwise is None else evaluate_value(otherwise, event)
        case pred.Negative(body=body):
            return negate(evaluate_value(body, event))
        case pred.Arithmetic(op=op, left=left, right=right):
            return calculate(op, evaluate_value(left, event), evaluate_value(right, event))


def call(name: str, arguments: Sequence[Any]) -> Any:
    """Return the value of a function, by the table of functions; None for an unknown one."""
    match name, arguments:
        case (("=" | "!=" | "<" | "<=" | ">" | ">="), (one, other)):
            return compare(name, one, other)
        case "AND", _:
            return all_of(arguments)
        case "OR", _:
            return any_of(arguments)
        case "NOT", (one,):
            return None if one is None else not one
        case "CASE", _:
            pairs = zip(arguments[::2], arguments[1::2], strict=False)
            last = arguments[-1] if len(arguments) % 2 else None
            return next((value for test, value in pairs if test is True), last)
    function = find_function(name)
    return None if function is None else function(*arguments)


def read_literal(literal: pred.Literal) -> Any:
    """Return the value of a constant: the digits that are written."""
    value = literal.value
    return Decimal(repr(value)) if isinstance(value, float) else value


def negate(found: Any) -> Any:
    """Return minus a number; None for anything else."""
    if isinstance(found, Decimal):
        return found.copy_negate()
    return -found if kind_of(found) == "number" else None


def calculate(op: str, a: Any, b: Any) -> Any:
    """Return `a op b`; None where one is no number, or b is zero and divides."""
    if kind_of(a) != "number" or kind_of(b) != "number" or (op in "/%" and b == 0):
        return None
    a, b = (float(side) if isinstance(side, Decimal) else side for side in (a, b))
    return _COMPUTE[op](a, b)


def read_attribute(node: pred.Attribute, event: Event) -> Any:
    """Return an attribute, through nested records; None where any step is missing."""
    if node.value is not None:
        return evaluate_value(node.value, event)
    if node.name.endswith(")"):  # a key of PARTITION BY or JOIN
        return evaluate_value(parse_value(node.name), event)
    found: Any = event
    for name in node.path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def shift_value(found: Any, shift: float | None) -> Any:
    """Return a value plus a shift, if there is one; NULL if the value is not a number."""
    if shift is None:
        return found
    return found + shift if kind_of(found) == "number" else None


def _truncated_modulo(a: float, b: float) -> float:
    if isinstance(a, int) and isinstance(b, int):
        rest = abs(a) % abs(b)
        return -rest if a < 0 else rest
    return math.nan if math.isinf(a) else math.fmod(a, b)


_COMPUTE: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": _truncated_modulo,
}
