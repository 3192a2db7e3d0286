"""Predicates on columns, in SQL's three-valued logic, with Arrow compute.

`evaluate_predicate` gives one boolean per row, null for unknown. No data makes it raise: a
comparison across kinds (text with a number, …) is unknown.

Numbers compare exactly, also int64 with float64 (Arrow alone would round the integer). A constant
has the digits that are written, so `price = 10.1` is exact on decimals. Beside floats, decimals and
constants with a fraction count as the nearest float64. Arithmetic on them is in float64, except for
minus. Integer `+ - *` that leave int64 are unknown rather than wrapped. `/` is true division in
float64; dividing by zero is NULL; `%` truncates towards zero. Timestamps and dates
compare with each other and with ISO text; a missing zone means UTC.

Cost: one vectorized pass per node of the predicate. `encode` is faster for predicates that only
compare one column with constants.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Sequence
from decimal import MAX_PREC, Context, Decimal
from fractions import Fraction
from functools import reduce
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cernis.events import column_types, times
from cernis.events.batch import Bools, Int64s
from cernis.events.evaluation.functions import (
    Constant,
    Operand,
    apply_function,
    class_of,
    compute_one,
    to_constant,
)
from cernis.events.evaluation.regex import anchor
from cernis.pattern import predicate as pred
from cernis.pattern.functions import find_function

Lookup = Callable[[tuple[str, ...]], pa.Array | None]
Number = pred.Number | Fraction


class SharedLookup:
    """Reads columns, and remembers what functions of them are: each is computed once."""

    __slots__ = ("read", "values")

    def __init__(self, read: Lookup) -> None:
        self.read = read
        self.values: dict[pred.Value, Operand] = {}

    def __call__(self, path: tuple[str, ...]) -> pa.Array | None:
        return self.read(path)


_ARROW = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
EXACT = Context(prec=MAX_PREC)
"""Decimals of any length are exact in it."""

_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


# -------------------------------------------------------------- predicates


def evaluate_predicate(predicate: pred.Predicate, lookup: Lookup, length: int) -> pa.BooleanArray:
    """Evaluate a predicate on every row: true, false, or null for unknown.

    >>> price = pa.array([80, None, 102])
    >>> cheap = pred.Comparison("<", pred.Attribute(("price",)), pred.Literal(100))
    >>> evaluate_predicate(cheap, lambda path: price, 3).to_pylist()
    [True, None, False]
    """
    match predicate:
        case pred.Comparison(op=op, left=left, right=right):
            one, other = (evaluate_value(side, lookup, length) for side in (left, right))
            return compare(op, one, other, length)
        case pred.Like(body=body, pattern=pattern):
            return _like(evaluate_value(body, lookup, length), pattern, length)
        case pred.InSet(body=body, values=values):
            found = evaluate_value(body, lookup, length)
            return _in_set(found, [read_literal(v) for v in values], length)
        case pred.InRange(body=body, low=low, high=high):
            value = evaluate_value(body, lookup, length)
            above = compare(">=", value, read_literal(low), length)
            return pc.and_kleene(above, compare("<=", value, read_literal(high), length))
        case pred.AnyElement(body=body, name=name, predicate=test):
            return _any_element(evaluate_value(body, lookup, length), name, test, lookup, length)
        case pred.IsNull(body=body, negated=negated):
            return _is_null(evaluate_value(body, lookup, length), negated, length)
        case pred.And(parts=parts):
            tests = [evaluate_predicate(p, lookup, length) for p in parts]
            return reduce(pc.and_kleene, tests) if tests else _all(True, length)
        case pred.Or(parts=parts):
            tests = [evaluate_predicate(p, lookup, length) for p in parts]
            return reduce(pc.or_kleene, tests) if tests else _all(False, length)
        case pred.Negation(body=inner):
            return pc.invert(evaluate_predicate(inner, lookup, length))


def _all(value: bool, length: int) -> pa.BooleanArray:
    return pa.repeat(pa.scalar(value), length)


def _unknown(length: int) -> pa.BooleanArray:
    return pa.nulls(length, pa.bool_())


def _like(found: Operand, pattern: str, length: int) -> pa.BooleanArray:
    if isinstance(found, Constant):
        if not isinstance(found.value, str):
            return _unknown(length)
        one = pc.match_substring_regex(pa.array([replace_surrogates(found.value)]), anchor(pattern))
        return _all(one[0].as_py(), length)
    if found is None or not column_types.is_text(found.type):
        return _unknown(length)
    return pc.match_substring_regex(found, anchor(pattern))


def _is_null(found: Operand, negated: bool, length: int) -> pa.BooleanArray:
    if found is None or isinstance(found, Constant):
        return _all((found is None) != negated, length)
    return found.is_valid() if negated else found.is_null()


def _in_set(found: Operand, values: list[Constant], length: int) -> pa.BooleanArray:
    """Evaluate `v = … OR v = …`, by a hash table where there are many values of one kind."""
    if isinstance(found, pa.Array) and len(values) > 2:
        fitting = _value_set(found.type, [v.value for v in values])
        if fitting is not None:
            within, clash = fitting
            member = pc.is_in(found, within)
            if clash:
                return pc.if_else(member, True, pa.scalar(None, pa.bool_()))
            return pc.if_else(found.is_valid(), member, None) if found.null_count else member
    parts = [compare("=", found, v, length) for v in values]
    return reduce(pc.or_kleene, parts) if parts else _all(False, length)


def replace_surrogates(text: str) -> str:
    """Replace halves of surrogate pairs, which UTF-8 cannot hold, by question marks."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _value_set(type_: pa.DataType, values: list[pred.Scalar]) -> tuple[pa.Array, bool] | None:
    """Return the values that a column can equal, and whether some were of another kind."""
    if column_types.is_text(type_):
        texts = [replace_surrogates(v) for v in values if isinstance(v, str)]
        return pa.array(texts, type_), len(texts) < len(values)
    if pa.types.is_integer(type_):
        numbers = [v for v in values if not isinstance(v, (str, bool))]
        low, high = _bounds(type_)
        whole = [int(v) for v in numbers if is_whole(v)]
        fit = [v for v in whole if low <= v <= high]
        return pa.array(fit, type_), len(numbers) < len(values)
    return None


def is_whole(number: pred.Number) -> bool:
    """Return whether a number has no fraction."""
    return math.isfinite(number) and number.as_integer_ratio()[1] == 1


# ------------------------------------------------------------- comparisons


def compare(op: pred.Operator, left: Operand, right: Operand, length: int) -> pa.BooleanArray:
    """Compare on every row; unknown where the two are not of one kind."""
    if left is None or right is None:
        return _unknown(length)
    if isinstance(left, Constant):
        if not isinstance(right, Constant):
            return compare(pred.MIRRORED[op], right, left, length)
        if _kind(left.value) != _kind(right.value):
            return _unknown(length)
        return _all(pred.compare_values(op, left.value, right.value), length)
    found = (
        _with_constant(op, left, right.value)
        if isinstance(right, Constant)
        else _with_column(op, left, right)
    )
    return _unknown(length) if found is None else found


def _kind(constant: pred.Scalar) -> str:
    if isinstance(constant, (bool, str)):
        return type(constant).__name__
    return "number"


def _with_constant(
    op: pred.Operator, column: pa.Array, constant: pred.Scalar
) -> pa.BooleanArray | None:
    type_ = column.type
    if isinstance(constant, str):
        if column_types.is_text(type_):
            return _ARROW[op](column, pa.scalar(replace_surrogates(constant), type_))
        instant = parse_instant(constant, type_)
        return None if instant is None else _integers_with(op, times.to_integers(column), instant)
    if isinstance(constant, bool):
        if not pa.types.is_boolean(type_):
            return None
        return _ARROW[op](column.cast(pa.uint8()), pa.scalar(int(constant), pa.uint8()))
    if pa.types.is_integer(type_):
        return _integers_with(op, column, constant)
    if pa.types.is_floating(type_):
        return _floats_with(op, column.cast(pa.float64()), constant)
    if pa.types.is_decimal(type_):
        return _decimals_with(op, column, constant)
    return None


def _bounds(type_: pa.DataType) -> tuple[int, int]:
    info = np.iinfo(type_.to_pandas_dtype())
    return int(info.min), int(info.max)


def _integers_with(op: pred.Operator, column: pa.Array, constant: Number) -> pa.BooleanArray:
    """Compare an integer column with any number, exactly."""
    if isinstance(constant, float) and not math.isfinite(constant):
        return _constant_where_valid(column, bool(pred.COMPARE[op](0, constant)))
    whole = math.floor(constant)
    op, certain = compare_with_floor(op, whole != constant)
    if certain is not None:
        return _constant_where_valid(column, certain)
    low, high = _bounds(column.type)
    if not low <= whole <= high:
        return _constant_where_valid(column, bool(pred.COMPARE[op](0, whole)))
    return _ARROW[op](column, pa.scalar(whole, column.type))


def _floats_with(op: pred.Operator, column: pa.Array, constant: Number) -> pa.BooleanArray:
    """Compare a float64 column with any number; NaN equals nothing."""
    if isinstance(constant, Decimal):
        constant = float(constant)
    below = float_at_most(constant)
    op, certain = compare_with_floor(op, below != constant)
    if certain is not None:
        return _constant_where_valid(column, certain)
    return _ARROW[op](column, pa.scalar(below, pa.float64()))


def compare_with_floor(op: pred.Operator, above: bool) -> tuple[pred.Operator, bool | None]:
    """Turn `v op c` into `v op' f`, where f is the largest value of v's type that is at most c.

    If c is above f (`above`), the truth of `=` and `!=` does not depend on v.
    """
    if not above:
        return op, None
    if op in ("=", "!="):
        return op, op == "!="
    return ("<=", None) if op in ("<", "<=") else (">", None)


def float_at_most(number: Number) -> float:
    """Return the largest float64 that is not above the number.

    >>> float_at_most(2**53 + 1) == 2**53, float_at_most(0.1)
    (True, 0.1)
    """
    if isinstance(number, float):
        return number
    try:
        near = float(number)
    except OverflowError:
        return sys.float_info.max if number > 0 else -math.inf
    return near if near <= number else math.nextafter(near, -math.inf)


def _constant_where_valid(column: pa.Array, constant: bool) -> pa.BooleanArray:
    everywhere = _all(constant, len(column))
    return pc.if_else(column.is_valid(), everywhere, None) if column.null_count else everywhere


def _decimals_with(op: pred.Operator, column: pa.Array, constant: pred.Number) -> pa.BooleanArray:
    """Compare decimals with a constant, exactly; with a computed float as floats."""
    if isinstance(constant, float):
        return _floats_with(op, times.as_floats(column), constant)
    precision, scale = column.type.precision, column.type.scale
    unscaled = to_unscaled(constant, scale)
    whole = math.floor(unscaled)
    op, certain = compare_with_floor(op, whole != unscaled)
    if certain is not None:
        return _constant_where_valid(column, certain)
    if abs(whole) >= 10**precision:
        return _constant_where_valid(column, bool(pred.COMPARE[op](0, whole)))
    return _ARROW[op](column, pa.scalar(EXACT.scaleb(whole, -scale), column.type))


def to_unscaled(constant: int | Decimal, scale: int) -> Fraction:
    """Return a constant in units of the last digit of decimals.

    >>> to_unscaled(Decimal("1.234"), 2)
    Fraction(617, 5)
    """
    return Fraction(constant) * Fraction(10) ** scale


def _compare_decimals(op: pred.Operator, left: pa.Array, right: pa.Array) -> pa.BooleanArray:
    wide = pa.decimal256(76, max(left.type.scale, right.type.scale))
    try:
        return _ARROW[op](left.cast(wide), right.cast(wide))
    except pa.ArrowInvalid:  # no type holds both
        pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
        return pa.array([None if None in p else pred.COMPARE[op](*p) for p in pairs], pa.bool_())


def parse_instant(text: str, type_: pa.DataType) -> Fraction | None:
    """Parse ISO text as a number of the temporal type's ticks; None where it is not one.

    >>> parse_instant("1970-01-02", pa.timestamp("s")), parse_instant("soon", pa.date32())
    (Fraction(86400, 1), None)
    """
    tick = _tick(type_)
    if tick is None:
        return None
    if pa.types.is_time(type_):
        text = f"1970-01-01T{text}"
    for unit, size in sorted(times.UNITS.items(), key=lambda item: item[1]):
        parsed = times.parse_timestamps(pa.array([replace_surrogates(text)]), unit)[0]
        if parsed.is_valid:
            return Fraction(parsed.value * size, tick)
    return None


def _tick(type_: pa.DataType) -> int | None:
    types = pa.types
    if types.is_date(type_) or types.is_timestamp(type_) or types.is_time(type_):
        return times.tick_of(type_, "ns")
    return None


def _with_column(op: pred.Operator, left: pa.Array, right: pa.Array) -> pa.BooleanArray | None:
    a, b = left.type, right.type
    types = pa.types
    if column_types.is_text(a) and column_types.is_text(b):
        return _ARROW[op](left.cast(pa.large_string()), right.cast(pa.large_string()))
    if types.is_boolean(a) and types.is_boolean(b):
        return _ARROW[op](left.cast(pa.uint8()), right.cast(pa.uint8()))
    if column_types.is_number(a) and column_types.is_number(b):
        return _compare_numbers(op, left, right)
    if _tick(a) is not None and _tick(b) is not None and types.is_time(a) == types.is_time(b):
        return _compare_ticks(op, left, right)
    return None


def _compare_numbers(op: pred.Operator, left: pa.Array, right: pa.Array) -> pa.BooleanArray:
    a, b = left.type, right.type
    types = pa.types
    if types.is_integer(a) and types.is_integer(b):
        if types.is_uint64(a) != types.is_uint64(b):
            wide = pa.decimal128(20, 0)
            return _ARROW[op](left.cast(wide), right.cast(wide))
        return _ARROW[op](left, right)
    if types.is_decimal(a) or types.is_decimal(b):
        if not types.is_floating(a) and not types.is_floating(b):
            return _compare_decimals(op, _as_decimal(left), _as_decimal(right))
        return _ARROW[op](times.as_floats(left), times.as_floats(right))
    if types.is_floating(a) and types.is_floating(b):
        return _ARROW[op](left.cast(pa.float64()), right.cast(pa.float64()))
    if types.is_floating(a):
        return _compare_numbers(pred.MIRRORED[op], right, left)
    return _integers_with_floats(op, left, right.cast(pa.float64()))


def _as_decimal(column: pa.Array) -> pa.Array:
    return column.cast(pa.decimal128(20, 0)) if pa.types.is_integer(column.type) else column


def _integers_with_floats(op: pred.Operator, left: pa.Array, right: pa.Array) -> pa.BooleanArray:
    floats = right.fill_null(0.0).to_numpy()
    integers = left.fill_null(0).to_numpy(zero_copy_only=False)
    low, high = _bounds(pa.uint64() if pa.types.is_uint64(left.type) else pa.int64())
    integers = integers.astype(np.uint64 if low == 0 else np.int64)
    whole = np.floor(floats)
    # beyond the integers' range a float is above or below all of them
    over, under = whole >= float(high), whole < float(low)
    inside = ~(over | under | np.isnan(floats))
    floor = np.where(inside, whole, 0.0).astype(integers.dtype)
    sign = np.where(integers > floor, 1, np.where(integers < floor, -1, 0))
    sign = np.where((sign == 0) & (floats > whole), -1, sign)
    sign = np.where(over, -1, np.where(under, 1, sign))
    return _by_sign(op, sign, left, right, np.isnan(floats))


def _compare_ticks(op: pred.Operator, left: pa.Array, right: pa.Array) -> pa.BooleanArray:
    """Compare times in different units: the coarser one with the finer one's floor and rest."""
    a, b = _tick(left.type), _tick(right.type)
    assert a is not None
    assert b is not None
    if a < b:
        return _compare_ticks(pred.MIRRORED[op], right, left)
    coarse, fine = times.to_integers(left), times.to_integers(right)
    if a == b:
        return _ARROW[op](coarse, fine)
    whole, rest = np.divmod(fine.fill_null(0).to_numpy(), a // b)
    ticks = coarse.fill_null(0).to_numpy()
    sign = np.where(ticks > whole, 1, np.where(ticks < whole, -1, np.where(rest > 0, -1, 0)))
    return _by_sign(op, sign, left, right)


def _by_sign(
    op: pred.Operator, sign: Int64s, left: pa.Array, right: pa.Array, unordered: Bools | None = None
) -> pa.BooleanArray:
    holds = pred.COMPARE[op](sign, 0)
    if unordered is not None:
        holds = np.where(unordered, op == "!=", holds)
    found = pa.array(holds)
    if left.null_count or right.null_count:
        return pc.if_else(pc.and_(left.is_valid(), right.is_valid()), found, None)
    return found


# ------------------------------------------------------------------ values


def evaluate_value(node: pred.Value, lookup: Lookup, length: int) -> Operand:
    """Evaluate an expression on every row: a column, a constant, or NULL everywhere."""
    if isinstance(lookup, SharedLookup) and isinstance(node, pred.Call | pred.Case):
        if node not in lookup.values:
            lookup.values[node] = _evaluate_node(node, lookup, length)
        return lookup.values[node]
    return _evaluate_node(node, lookup, length)


def _evaluate_node(node: pred.Value, lookup: Lookup, length: int) -> Operand:
    match node:
        case pred.Literal():
            return read_literal(node)
        case pred.Attribute() if node.value is not None:
            return evaluate_value(node.value, lookup, length)
        case pred.Attribute(path=path):
            column = lookup(path)
            return None if column is None or pa.types.is_null(column.type) else column
        case pred.Negative(body=body):
            found = evaluate_value(body, lookup, length)
            return calculate("-", Constant(0), found, negative=True)
        case pred.Arithmetic(op=op, left=left, right=right):
            one, other = (evaluate_value(side, lookup, length) for side in (left, right))
            return calculate(op, one, other)
        case pred.Call(function=name, arguments=arguments):
            found_all = [evaluate_value(each, lookup, length) for each in arguments]
            return call_function(name, found_all, length)
        case pred.Case(branches=branches, otherwise=otherwise):
            found = None if otherwise is None else evaluate_value(otherwise, lookup, length)
            for test, value in reversed(branches):
                holds = evaluate_predicate(test, lookup, length)
                found = _choose(holds, evaluate_value(value, lookup, length), found, length)
            return found


def call_function(name: str, operands: Sequence[Operand], length: int) -> Operand:
    """Return the value of a function on every row; an unknown function gives NULL.

    Conditions of CASE are functions too: comparisons, AND, OR and NOT.
    """
    match name:
        case "=" | "!=" | "<" | "<=" | ">" | ">=":
            return compare(name, operands[0], operands[1], length)
        case "AND" | "OR":
            tests = [_to_truth(one, length) for one in operands]
            return reduce(pc.and_kleene if name == "AND" else pc.or_kleene, tests)
        case "NOT":
            return pc.invert(_to_truth(operands[0], length))
        case "CASE":
            found = operands[-1] if len(operands) % 2 else None
            for index in range(len(operands) // 2 * 2 - 2, -1, -2):
                holds = _to_truth(operands[index], length)
                found = _choose(holds, operands[index + 1], found, length)
            return found
    function = find_function(name)
    if function is None or not function.accepts(len(operands)):
        return None
    constants = [one for one in operands if one is None or isinstance(one, Constant)]
    if len(constants) == len(operands):
        values = [None if one is None else one.value for one in constants]
        return to_constant(compute_one(function, values))
    match function.name:
        case "MOD":
            return calculate("%", operands[0], operands[1])
        case "COALESCE":
            found = operands[-1]
            for value in reversed(operands[:-1]):
                found = _choose(pc.invert(_is_null(value, False, length)), value, found, length)
            return found
        case "NULLIF":
            one, other = operands
            equal = pc.fill_null(compare("=", one, other, length), False)
            return _choose(equal, None, one, length)
        case "CONTAINS":
            return _contains(operands[0], operands[1], length)
    return apply_function(function, operands, length)


def _to_truth(operand: Operand, length: int) -> pa.BooleanArray:
    """Return the truth of a condition on every row."""
    if isinstance(operand, Constant):
        return _all(operand.value is True, length)
    return _unknown(length) if class_of(operand) != "boolean" else operand


def _contains(where: Operand, what: Operand, length: int) -> Operand:
    """Evaluate whether text has a text in it, or a list an element."""
    kinds = class_of(where), class_of(what)
    if kinds == ("string", "string") and isinstance(what, Constant):
        return pc.match_substring(where, what.value)
    function = find_function("CONTAINS")
    assert function is not None
    if kinds[0] != "list" or not isinstance(where, pa.Array):
        return apply_function(function, (where, what), length) if kinds[0] == "string" else None
    owner = pc.list_parent_indices(where)
    found = compare("=", pc.list_flatten(where), _spread_to(what, owner), len(owner))
    return _gather_truths(where, owner, found, length)


def _any_element(
    where: Operand, name: str, test: pred.Predicate, lookup: Lookup, length: int
) -> pa.BooleanArray:
    """Evaluate whether a predicate is true of an element of a list."""
    if not isinstance(where, pa.Array) or class_of(where) != "list":
        return _unknown(length)
    owner, elements = pc.list_parent_indices(where), pc.list_flatten(where)

    def read(path: tuple[str, ...]) -> pa.Array | None:
        if path[0] != name:
            column = lookup(path)
            return None if column is None else column.take(owner)
        found = elements
        for field in path[1:]:
            if not pa.types.is_struct(found.type) or found.type.get_field_index(field) < 0:
                return None
            found = pc.struct_field(found, field)
        return found

    return _gather_truths(where, owner, evaluate_predicate(test, read, len(owner)), length)


def _gather_truths(
    where: pa.Array, owner: pa.Array, found: pa.BooleanArray, length: int
) -> pa.BooleanArray:
    """Return the OR of what is found for the elements of each list."""
    hits, gaps = (
        np.bincount(np.asarray(owner)[np.asarray(marks)], minlength=length) > 0
        for marks in (pc.fill_null(found, False), found.is_null())
    )
    known = pc.and_(where.is_valid(), pa.array(hits | ~gaps))
    return pc.if_else(known, pa.array(hits), None)


def _spread_to(operand: Operand, owner: pa.Array) -> Operand:
    return operand.take(owner) if isinstance(operand, pa.Array) else operand


def _choose(holds: pa.BooleanArray, one: Operand, other: Operand, length: int) -> Operand:
    """Return one value where a condition holds, and the other elsewhere.

    The two are numbers, or of one class; otherwise the second counts as NULL.
    """
    kinds = {class_of(one), class_of(other)} - {"null"}
    if not kinds:
        return None
    if len(kinds) > 1:
        other = None
    first, second = (
        spread_constant(side, length) if isinstance(side, Constant) else side
        for side in (one, other)
    )
    if first is None or second is None:
        nothing = pa.scalar(None, next(side.type for side in (first, second) if side is not None))
        first, second = nothing if first is None else first, nothing if second is None else second
    elif first.type != second.type:
        first, second = (_widen(side, kinds, (first.type, second.type)) for side in (first, second))
    return pc.if_else(pc.fill_null(holds, False), first, second)


def _widen(column: pa.Array, kinds: set[str], types: tuple[pa.DataType, pa.DataType]) -> pa.Array:
    """Return a column in the type that it shares with another one of its class."""
    if kinds == {"number"}:
        return _number(column) if all(map(pa.types.is_integer, types)) else times.as_floats(column)
    return column.cast(pa.string() if kinds == {"string"} else pa.timestamp("us", "UTC"))


def read_literal(literal: pred.Literal) -> Constant:
    """Return a constant with the digits that are written."""
    value = literal.value
    return Constant(value if isinstance(value, str) else pred.to_exact(value))


def calculate_column(value: pred.Value, lookup: Lookup, length: int) -> pa.Array:
    """Return the value of an expression on every row.

    >>> double = pred.Arithmetic("*", pred.Literal(2), pred.Attribute(("a",)))
    >>> calculate_column(double, lambda path: pa.array([1, None]), 2).to_pylist()
    [2, None]
    """
    found = evaluate_value(value, lookup, length)
    if found is None:
        return pa.nulls(length)
    return spread_constant(found, length) if isinstance(found, Constant) else found


def spread_constant(constant: Constant, length: int) -> pa.Array:
    """Return a constant as a column; one with a fraction is a float64."""
    value = constant.value
    return pa.repeat(float(value) if isinstance(value, Decimal) else value, length)


def calculate(op: str, left: Operand, right: Operand, negative: bool = False) -> Operand:
    """Return `left op right` on every row; with `negative`, minus the right side."""
    if negative and isinstance(right, pa.Array) and pa.types.is_decimal(right.type):
        return pc.negate(right)
    a, b = _number(left), _number(right)
    if a is None or b is None:
        return None
    if isinstance(a, Constant) and isinstance(b, Constant):
        one, other = cast(pred.Number, a.value), cast(pred.Number, b.value)
        if negative:
            return Constant(pred.negate(other))
        return _fold_constants(op, pred.to_machine(one), pred.to_machine(other))
    length = next(len(side) for side in (a, b) if not isinstance(side, Constant))
    valid, numbers = [], []
    for side in (a, b):
        if isinstance(side, Constant):
            numbers.append(_spread(side.value, length))
            continue
        valid.append(side.is_valid().to_numpy(zero_copy_only=False) if side.null_count else None)
        numbers.append(side.fill_null(0).to_numpy(zero_copy_only=False))
    x, y = numbers
    if x.dtype != y.dtype or op == "/":
        x, y = x.astype(np.float64), y.astype(np.float64)
    with np.errstate(all="ignore"):
        if negative:
            result, known = (-y, y != np.iinfo(np.int64).min) if y.dtype == np.int64 else (-y, None)
        else:
            result, known = (_integer if x.dtype == np.int64 else _floating)(op, x, y)
    mask = np.zeros(length, np.bool_)
    for mark in (*valid, known):
        if mark is not None:
            mask |= ~mark
    return pa.array(result, mask=mask if mask.any() else None)


def _number(side: Operand) -> Operand:
    """Return an operand as int64, float64 or a constant number; anything else is NULL."""
    if side is None:
        return None
    if isinstance(side, Constant):
        return side if _kind(side.value) == "number" else None
    type_ = side.type
    if pa.types.is_uint64(type_):
        high = pa.scalar(2**63 - 1, pa.uint64())
        return pc.if_else(pc.less_equal(side, high), side, None).cast(pa.int64())
    if pa.types.is_integer(type_):
        return side.cast(pa.int64())
    return times.as_floats(side) if column_types.is_fraction(type_) else None


def _spread(constant: pred.Scalar, length: int) -> npt.NDArray[Any]:
    """Return a constant as a column; an integer beyond int64 counts as a float."""
    if isinstance(constant, int) and -(2**63) <= constant < 2**63:
        return np.full(length, constant, np.int64)
    try:
        return np.full(length, float(constant), np.float64)
    except OverflowError:
        return np.full(length, math.inf if int(constant) > 0 else -math.inf, np.float64)


def _integer(op: str, x: Int64s, y: Int64s) -> tuple[npt.NDArray[Any], Bools | None]:
    """Return the result of + - * or % of int64, and where it is known."""
    if op == "+":
        total = x + y
        return total, ((x ^ total) & (y ^ total)) >= 0
    if op == "-":
        rest = x - y
        return rest, ((x ^ y) & (x ^ rest)) >= 0
    if op == "*":
        product = x * y
        estimate = x.astype(np.float64) * y.astype(np.float64)
        # near the edge the estimate cannot tell, but division can
        sure = np.abs(estimate) < 2.0**62
        back = np.where(y == 0, x, product // np.where(y == 0, 1, y))
        exact = (back == x) & (np.abs(estimate) < 2.0**64) & ~((y == -1) & (x == -(2**63)))
        return product, sure | exact
    divisor = np.where((y == 0) | (y == -1), 1, y)
    return np.where(y == -1, 0, np.fmod(x, divisor)), y != 0


def _floating(
    op: str, x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[Any], Bools | None]:
    result = np.fmod(x, y) if op == "%" else _ARITHMETIC[op](x, y)
    return result, y != 0 if op in "/%" else None


def _fold_constants(op: str, a: Any, b: Any) -> Operand:
    if op in "/%" and b == 0:
        return None
    if op != "%":
        try:
            return Constant(_ARITHMETIC[op](a, b))
        except OverflowError:
            return None
    if isinstance(a, int) and isinstance(b, int):
        rest = abs(a) % abs(b)
        return Constant(-rest if a < 0 else rest)
    return Constant(math.nan if math.isinf(a) else math.fmod(a, b))
