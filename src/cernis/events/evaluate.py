"""Predicates on columns, in SQL's three-valued logic, with Arrow compute.

`truth` gives one boolean per row, null for unknown. It never raises for what the data
holds: a comparison across kinds (text with a number, …) is unknown.

Numbers compare exactly, also int64 with float64 (Arrow alone would round the integer);
decimals meet fractions as float64, because `price = 10.1` is meant that way. Integer
`+ - *` that leave int64 are unknown rather than wrapped; `/` is true division in
float64; dividing by zero is NULL; `%` truncates towards zero. Timestamps and dates
compare with each other and with ISO text; a missing zone means UTC.

Cost: one vectorized pass per node of the predicate. The fast ways around that, for
predicates that only compare one column with constants, are in `encode`.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cernis.events.batch import Bools, Int64s
from cernis.events.times import DAY, UNITS, is_text, parse_timestamps
from cernis.pattern.predicate import (
    And,
    Arithmetic,
    Attribute,
    Comparison,
    InRange,
    InSet,
    IsNull,
    Like,
    Literal,
    Negative,
    Not,
    Operator,
    Or,
    Predicate,
    Scalar,
    Value,
)

Lookup = Callable[[tuple[str, ...]], pa.Array | None]
Number = int | float | Fraction


@dataclass(frozen=True, slots=True)
class Constant:
    """A value that is the same on every row."""

    value: Scalar


Operand = Constant | pa.Array | None  # None: NULL on every row

_ARROW = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_PYTHON: dict[Operator, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_FLIPPED: dict[Operator, Operator] = {
    "=": "=",
    "!=": "!=",
    "<": ">",
    "<=": ">=",
    ">": "<",
    ">=": "<=",
}


# -------------------------------------------------------------- predicates


def truth(predicate: Predicate, lookup: Lookup, length: int) -> pa.BooleanArray:
    """The predicate on every row: true, false, or null for unknown.

    >>> price = pa.array([80, None, 102])
    >>> cheap = Comparison("<", Attribute(("price",)), Literal(100))
    >>> truth(cheap, lambda path: price, 3).to_pylist()
    [True, None, False]
    """
    match predicate:
        case Comparison(op=op, left=left, right=right):
            return compare(op, value(left, lookup), value(right, lookup), length)
        case Like(body=body, pattern=pattern):
            return _like(value(body, lookup), pattern, length)
        case InSet(body=body, values=values):
            return _in_set(value(body, lookup), [v.value for v in values], length)
        case InRange(body=body, low=low, high=high):
            found = value(body, lookup)
            above = compare(">=", found, Constant(low.value), length)
            return pc.and_kleene(above, compare("<=", found, Constant(high.value), length))
        case IsNull(body=body, negated=negated):
            return _is_null(value(body, lookup), negated, length)
        case And(parts=parts):
            return _fold(pc.and_kleene, True, [truth(p, lookup, length) for p in parts], length)
        case Or(parts=parts):
            return _fold(pc.or_kleene, False, [truth(p, lookup, length) for p in parts], length)
        case Not(body=inner):
            return pc.invert(truth(inner, lookup, length))


def anchored(pattern: str) -> str:
    """The regular expression as one that matches whole strings only."""
    return rf"\A(?:{pattern})\z"


def _fold(
    combine: Callable[..., pa.BooleanArray],
    neutral: bool,
    parts: list[pa.BooleanArray],
    length: int,
) -> pa.BooleanArray:
    if not parts:
        return _all(neutral, length)
    result = parts[0]
    for part in parts[1:]:
        result = combine(result, part)
    return result


def _all(value: bool, length: int) -> pa.BooleanArray:
    return pa.repeat(pa.scalar(value), length)


def _unknown(length: int) -> pa.BooleanArray:
    return pa.nulls(length, pa.bool_())


def _like(found: Operand, pattern: str, length: int) -> pa.BooleanArray:
    if isinstance(found, Constant):
        if not isinstance(found.value, str):
            return _unknown(length)
        one = pc.match_substring_regex(pa.array([found.value]), anchored(pattern))
        return _all(one[0].as_py(), length)
    if found is None or not is_text(found.type):
        return _unknown(length)
    return pc.match_substring_regex(found, anchored(pattern))


def _is_null(found: Operand, negated: bool, length: int) -> pa.BooleanArray:
    if found is None or isinstance(found, Constant):
        return _all((found is None) != negated, length)
    return found.is_valid() if negated else found.is_null()


def _in_set(found: Operand, values: list[Scalar], length: int) -> pa.BooleanArray:
    """`v = … OR v = …`, through a hash table where the values are many of one kind."""
    if found is None:
        return _unknown(length) if values else _all(False, length)
    if isinstance(found, pa.Array) and len(values) > 2:
        fitting = _value_set(found.type, values)
        if fitting is not None:
            clash = len(fitting) < len(values)
            member = pc.is_in(found, fitting[0])
            if clash or fitting[1]:
                pass
            return _masked(member, found, unknown_when_false=fitting[1])
    parts = [compare("=", found, Constant(v), length) for v in values]
    return _fold(pc.or_kleene, False, parts, length)


def _masked(
    member: pa.BooleanArray, found: pa.Array, unknown_when_false: bool
) -> pa.BooleanArray:
    if unknown_when_false:
        return pc.if_else(member, True, pa.scalar(None, pa.bool_()))
    return pc.if_else(found.is_valid(), member, None) if found.null_count else member


def _value_set(type_: pa.DataType, values: list[Scalar]) -> tuple[pa.Array, bool] | None:
    """The values that a column of the type can equal, and whether others were of another kind."""
    if is_text(type_):
        texts = [v for v in values if isinstance(v, str)]
        return pa.array(texts, type_), len(texts) < len(values)
    numbers = [v for v in values if not isinstance(v, (str, bool))]
    if pa.types.is_integer(type_):
        low, high = _bounds(type_)
        fit = [int(v) for v in numbers if math.isfinite(v) and v == int(v) and low <= v <= high]
        return pa.array(fit, type_), len(numbers) < len(values)
    return None
