"""The value of a term for one candidate, as a Python object.

Times are instants and durations in exact nanoseconds. A column of times that holds numbers counts
ticks: there a duration is a number of ticks. Whole numbers, decimals and constants are exact;
arithmetic on numbers with a fraction is in float64.

Cost contract: linear in the events that the term looks at.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from math import fmod, isinf, nan
from typing import Any, NamedTuple, cast

import numpy as np

from cernis.events.evaluation.evaluate import EXACT
from cernis.events.evaluation.functions import compute_one
from cernis.pattern import predicate as pred
from cernis.pattern.functions import find_function

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Instant(NamedTuple):
    """A time, in nanoseconds since 1970 in UTC."""

    nanoseconds: int


class Elapsed(NamedTuple):
    """A duration, in nanoseconds."""

    nanoseconds: Fraction


class Valued(NamedTuple):
    """The events of a candidate, for its terms."""

    positions: Callable[[str], list[int]]
    """The positions of a variable, ascending."""
    everything: list[int]
    """The positions of all variables, ascending."""
    start: int
    end: int
    value: Callable[[int, pred.Attribute], Any]
    time: Callable[[int], Any]
    tick: int
    """The nanoseconds of one unit of the time column, where it holds numbers."""
    previous: int = -1
    """The event before, for the terms of neighbours."""


def evaluate_term(term: pred.MatchTerm, found: Valued) -> Any:
    """Return the value of a term; None for NULL."""
    match term:
        case pred.Literal(value=value):
            return value if isinstance(value, str) else pred.to_exact(value)
        case pred.ConstantDuration(nanoseconds=nanoseconds):
            return Elapsed(nanoseconds)
        case pred.IntervalTime(which=which):
            return _read(found.time(found.start if which == "START" else found.end))
        case pred.Reference(attribute=attribute, previous=True):
            return _read(found.value(found.previous, attribute))
        case pred.Reference(variable=variable, attribute=attribute):
            positions = found.positions(variable)
            # a wrong cut of the rounds of an iteration gives another number of events
            return _read(found.value(positions[0], attribute)) if len(positions) == 1 else None
        case pred.Aggregate():
            return _aggregate(term, found)
        case pred.Opposite(body=body):
            value = evaluate_term(body, found)
            if isinstance(value, Elapsed):
                return Elapsed(-value.nanoseconds)
            return pred.negate(value) if _is_number(value) else None
        case pred.TermCall(function="CASE", arguments=arguments):
            for test, chosen in zip(arguments[::2], arguments[1::2], strict=False):
                if evaluate_term(test, found) is True:
                    return evaluate_term(chosen, found)
            return evaluate_term(arguments[-1], found) if len(arguments) % 2 else None
        case pred.TermCall(function="AND" | "OR" as word, arguments=arguments):
            truths = [evaluate_term(each, found) for each in arguments]
            decides = word == "OR"
            return decides if decides in truths else None if None in truths else not decides
        case pred.TermCall(function="NOT", arguments=(body,)):
            truth = evaluate_term(body, found)
            return None if truth is None else not truth
        case pred.TermCall(function=op, arguments=(one, other)) if op in pred.COMPARE:
            both = evaluate_term(one, found), evaluate_term(other, found)
            is_known = any(compare_terms(each, *both, found.tick) for each in ("=", "!="))
            return compare_terms(cast(pred.Operator, op), *both, found.tick) if is_known else None
        case pred.TermCall(function=name, arguments=arguments):
            values = [evaluate_term(each, found) for each in arguments]
            function = find_function(name)
            if name == "ABS" and isinstance(values[0], Elapsed):
                return Elapsed(abs(values[0].nanoseconds))
            return None if function is None else _read(compute_one(function, values))
        case pred.Calculation(op=op, left=left, right=right):
            one, other = (_read_operand(side, found) for side in (left, right))
            return _calculate(op, one, other, found.tick)


def _read_operand(term: pred.MatchTerm, found: Valued) -> Any:
    """Return the value of a term in a calculation: a time that is text becomes a time."""
    value = evaluate_term(term, found)
    return _parse(value) if isinstance(value, str) and pred.is_time(term) else value


def compare_terms(op: pred.Operator, left: Any, right: Any, tick: int) -> bool:
    """Whether a comparison of two values holds; one with an unknown value does not."""
    one, other = _to_ticks(left, right, tick), _to_ticks(right, left, tick)
    if isinstance(one, Instant) and isinstance(other, str):
        other = _parse(other)
    elif isinstance(other, Instant) and isinstance(one, str):
        one = _parse(one)
    if one is None or other is None or _class_of(one) != _class_of(other):
        return False
    return pred.compare_values(op, one, other)


def _aggregate(term: pred.Aggregate, found: Valued) -> Any:
    match term.argument:
        case None:
            return len(found.everything)
        case str(variable):
            return len(found.positions(variable))
        case pred.Reference(variable=variable, attribute=attribute):
            read = (_read(found.value(p, attribute)) for p in found.positions(variable))
    values = [value for value in read if value is not None]
    match term.function:
        case "COUNT":
            return len({(_class_of(v), v) for v in values}) if term.distinct else len(values)
        case _ if not values:
            return None
        case "FIRST":
            return values[0]
        case "LAST":
            return values[-1]
        case _ if len({_class_of(value) for value in values}) > 1:
            return None
        case "MIN":
            return min(_drop_nan(values))
        case "MAX":
            return max(_drop_nan(values))
        case _ if not _is_number(values[0]):
            return None
        case "SUM" if all(isinstance(value, Decimal) for value in values):
            return reduce(EXACT.add, values)
        case "SUM":
            return sum(map(pred.to_machine, values))
        case _:
            return sum(map(pred.to_machine, values)) / len(values)


def _drop_nan(values: list[Any]) -> list[Any]:
    """Return the values that have an order, or all if none has."""
    return [value for value in values if value == value] or values


def _read(value: Any) -> Any:
    """Return a value of a column; times become instants."""
    match value:
        case datetime():
            time = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
            return Instant((time - _EPOCH) // timedelta(microseconds=1) * 1000)
        case date():
            return _read(datetime(value.year, value.month, value.day))
        case np.datetime64():
            return Instant(int(value.astype("M8[ns]").astype(np.int64)))
        case timedelta():
            return Elapsed(Fraction(value // timedelta(microseconds=1) * 1000))
        case np.timedelta64():
            return Elapsed(Fraction(int(value.astype("m8[ns]").astype(np.int64))))
    return value


def _parse(text: str) -> Instant | None:
    try:
        found = _read(datetime.fromisoformat(text))
    except ValueError:
        return None
    assert isinstance(found, Instant)
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal | Fraction) and not isinstance(value, bool)


def _class_of(value: Any) -> str:
    if _is_number(value):
        return "number"
    return type(value).__name__


def _to_ticks(value: Any, other: Any, tick: int) -> Any:
    """Return a duration as a number of ticks, if it meets a number."""
    if isinstance(value, Elapsed) and _is_number(other):
        return value.nanoseconds / tick
    return value


def _calculate(op: str, one: Any, other: Any, tick: int) -> Any:
    if op in "+-":
        one, other = _to_ticks(one, other, tick), _to_ticks(other, one, tick)
    match op, one, other:
        case "-", Instant(a), Instant(b):
            return Elapsed(Fraction(a - b))
        case "+", Elapsed(a), Instant(b):
            return Instant(round(a + b))
        case "+" | "-", Instant(a), Elapsed(b):
            return Instant(round(a + b if op == "+" else a - b))
        case "+" | "-", Elapsed(a), Elapsed(b):
            return Elapsed(a + b if op == "+" else a - b)
        case "/", Elapsed(a), Elapsed(b):
            return float(a / b) if b else None
        case "*", Elapsed(a), b if _is_number(b):
            return Elapsed(a * Fraction(b))
        case "*", a, Elapsed(b) if _is_number(a):
            return Elapsed(Fraction(a) * b)
        case "/", Elapsed(a), b if _is_number(b):
            return Elapsed(a / Fraction(b)) if b else None
    if not _is_number(one) or not _is_number(other) or (op in "/%" and other == 0):
        return None
    try:
        return _calculate_numbers(op, pred.to_machine(one), pred.to_machine(other))
    except OverflowError:
        return None


def _calculate_numbers(op: str, one: Any, other: Any) -> Any:
    match op:
        case "+":
            return one + other
        case "-":
            return one - other
        case "*":
            return one * other
        case "/":
            return one / other
    if isinstance(one, int) and isinstance(other, int):
        rest = abs(one) % abs(other)
        return -rest if one < 0 else rest
    return nan if isinf(one) else fmod(one, other)
