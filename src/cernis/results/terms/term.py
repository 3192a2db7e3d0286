"""Terms of SELECT as Arrow columns, for a block of matches at once.

Numbers follow the arithmetic of predicates: whole numbers that leave 64 bits are NULL, `/` is
true division, dividing by zero is NULL. Differences of times are durations. A column of times that
holds numbers counts ticks: there a duration is a number of ticks. A product or quotient of a
duration is rounded to microseconds, as Spark's intervals are, or to its own unit if that is finer.

Cost contract: one gather for each attribute and one pass in Arrow for each operation, whatever the
number of matches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cernis.errors import DataError, RowError
from cernis.events.column_types import cast_to, common_type, is_text
from cernis.events.evaluation.evaluate import (
    calculate,
    call_function,
    read_literal,
    spread_constant,
)
from cernis.events.evaluation.functions import Constant, Operand
from cernis.events.evaluation.reach import find_bound
from cernis.events.kinds import NULL, Int8s, split_by_kind
from cernis.events.store import EventStore
from cernis.events.times import UNITS, parse_timestamps
from cernis.pattern import predicate as pred
from cernis.pattern.write import write_term
from cernis.results.sets.matchset import MatchBlock, take
from cernis.results.terms.aggregate import SEVERAL, evaluate, find_kinds
from cernis.state import require


@dataclass(frozen=True, slots=True)
class _ConstantSpan:
    """A duration that is the same for every match, in nanoseconds."""

    nanoseconds: Fraction


TermValue = Operand | _ConstantSpan
"""The values of a term: a column, or one value for all rows."""


def evaluate_term(
    term: pred.MatchTerm, block: MatchBlock, variables: Sequence[str], events: EventStore
) -> pa.Array:
    """Return one value for each match of the block.

    Where values of an attribute have several kinds, matches whose values have the same kinds are
    evaluated together. A column of several kinds is text.
    """
    kinds: dict[pred.MatchTerm, Int8s | None] = {}
    for leaf in pred.walk_term(term):
        match leaf:
            case pred.Reference(variable=variable, attribute=attribute) if leaf is not term:
                positions = _read_positions(variable, block, variables)
                kinds[leaf] = events.kinds(positions, attribute.name)
            case pred.Aggregate():
                kinds[leaf] = find_kinds(leaf, block, variables, events)
    mixed = [leaf for leaf, found in kinds.items() if found is not None]
    if not mixed:
        return _evaluate_alike(term, block, variables, events, {})
    rows, pieces = [np.empty(0, np.int64)], []
    for found, held in split_by_kind(kinds):
        assert found is not None
        rows.append(found)
        pieces.append(_evaluate_alike(term, take(block, found), variables, events, held))
    # the type must not depend on the kinds that this block happens to hold
    for each in product(*(events.list_kinds(_attribute_of(leaf)) for leaf in mixed)):
        held = dict(zip(mixed, each, strict=True))
        pieces.append(_evaluate_alike(term, take(block, rows[0]), variables, events, held))
    type_ = reduce(common_type, (piece.type for piece in pieces))
    whole = pa.concat_arrays([cast_to(piece, type_) for piece in pieces])
    return whole.take(pa.array(np.argsort(np.concatenate(rows))))


def _read_positions(
    variable: str, block: MatchBlock, variables: Sequence[str]
) -> NDArray[np.int64]:
    """Return the event of a variable in each match; state that was forged may have another number.

    The number of its events follows from the query otherwise.
    """
    positions = block.positions[variables.index(variable)]
    require(len(positions) == len(block.start), f"{variable!r} does not hold one event")
    return positions


def _attribute_of(leaf: pred.MatchTerm) -> str:
    reference = leaf.argument if isinstance(leaf, pred.Aggregate) else leaf
    assert isinstance(reference, pred.Reference)
    return reference.attribute.name


def _evaluate_alike(
    term: pred.MatchTerm,
    block: MatchBlock,
    variables: Sequence[str],
    events: EventStore,
    kinds: Mapping[pred.MatchTerm, int],
) -> pa.Array:
    """Return one value for each match; where an attribute has several kinds, all have this one."""

    def read(leaf: pred.MatchTerm) -> Operand:
        kind = kinds.get(leaf)
        if kind in (NULL, SEVERAL):
            return None
        match leaf:
            case pred.IntervalTime(which=which):
                return events.times(block.start if which == "START" else block.end)
            case pred.Reference(variable=variable, attribute=attribute):
                positions = _read_positions(variable, block, variables)
                if kind is not None:
                    return events.column_of_kind(positions, attribute.name, kind)
                return events.column(positions, attribute.name)
            case pred.Aggregate():
                return evaluate(leaf, block, variables, events, kind)
            case _:
                raise AssertionError(leaf)

    try:
        return to_column(calculate_term(term, read, events.time_unit), len(block.start))
    except RowError as error:  # a function of several events: the last of the match is named
        raise events.locate(error, int(block.end[error.row])) from error


def to_column(value: TermValue, length: int) -> pa.Array:
    """Return the values of a term as a column of so many rows."""
    match value:
        case None:
            return pa.nulls(length)
        case Constant():
            return spread_constant(value, length)
        case _ConstantSpan(nanoseconds=nanoseconds):
            return pa.repeat(pa.scalar(round(nanoseconds), pa.duration("ns")), length)
        case column:
            return column


def calculate_term(
    term: pred.MatchTerm, read: Callable[[pred.MatchTerm], Operand], time_unit: str
) -> TermValue:
    """Return the values of a term; `read` gives those of references, aggregates and times."""
    match term:
        case pred.Literal():
            return read_literal(term)
        case pred.ConstantDuration(nanoseconds=nanoseconds):
            return _ConstantSpan(nanoseconds)
        case pred.IntervalTime() | pred.Reference() | pred.Aggregate():
            return read(term)
        case pred.TermCall(function=function, arguments=arguments):
            found = [calculate_term(each, read, time_unit) for each in arguments]
            return _call(function, found)
        case pred.Opposite(body=body):
            value = calculate_term(body, read, time_unit)
            return _calculate("-", Constant(0), value, time_unit, negative=True)
        case pred.Calculation(op=op, left=left, right=right):
            one = _read_times(left, calculate_term(left, read, time_unit))
            other = _read_times(right, calculate_term(right, read, time_unit))
            try:
                return _calculate(op, one, other, time_unit)
            except pa.ArrowInvalid as error:
                raise DataError(f"{write_term(term)}: a time is out of range: {error}") from error


def _call(function: str, arguments: Sequence[TermValue]) -> TermValue:
    """Return a function of values, or a bound; ABS takes durations as well."""
    operands: list[Operand] = []
    for value in arguments:
        is_column = isinstance(value, pa.Array) and pa.types.is_duration(value.type)
        if function in pred.COMPARE and (is_column or isinstance(value, _ConstantSpan)):
            operands.append(_count_nanoseconds(value))
        elif isinstance(value, pa.Array) and is_column:
            if function != "ABS":
                return None
            return pc.abs(value.cast(pa.int64())).cast(value.type)
        elif isinstance(value, _ConstantSpan):
            return None
        else:
            operands.append(value)
    columns = [one for one in operands if isinstance(one, pa.Array)]
    length = len(columns[0]) if columns else 1
    if function.startswith("@"):
        return find_bound(function, operands, length)
    return call_function(function, operands, length)


def _count_nanoseconds(value: TermValue) -> Operand:
    """Return durations that are compared as numbers."""
    if isinstance(value, _ConstantSpan):
        whole = value.nanoseconds
        return Constant(whole.numerator if whole.denominator == 1 else float(whole))
    assert isinstance(value, pa.Array)
    return value.cast(pa.duration("ns")).cast(pa.int64())


def _read_times(term: pred.MatchTerm, value: TermValue) -> TermValue:
    """Return the values of a term in a calculation: times that are text become times."""
    if pred.is_time(term) and isinstance(value, pa.Array) and is_text(value.type):
        return parse_timestamps(value)
    return value


def _calculate(
    op: str, one: TermValue, other: TermValue, time_unit: str, *, negative: bool = False
) -> TermValue:
    if _is_temporal(one) or _is_temporal(other):
        return _calculate_times(op, one, other)
    if not isinstance(one, pa.Array) and not isinstance(other, pa.Array):
        found = _calculate_times(op, one, other)  # of constant durations
        if found is not None:
            return found
    tick = UNITS[time_unit]
    return calculate(op, _to_ticks(one, tick), _to_ticks(other, tick), negative)


def _to_ticks(value: TermValue, tick: int) -> Operand:
    if not isinstance(value, _ConstantSpan):
        return value
    ticks = value.nanoseconds / tick
    return Constant(ticks.numerator if ticks.denominator == 1 else float(ticks))


def _is_temporal(value: TermValue) -> bool:
    return isinstance(value, pa.Array) and (
        pa.types.is_timestamp(value.type)
        or pa.types.is_date(value.type)
        or pa.types.is_duration(value.type)
    )


def _calculate_times(op: str, one: TermValue, other: TermValue) -> TermValue:
    """Return a sum, difference, product or quotient with times; None for any other."""
    first, second = _classify(one), _classify(other)
    match first, op, second:
        case ("time", "-", "time") | ("time", "+" | "-", "duration"):
            return _add_times(op, one, other)
        case "duration", "+", "time":
            return _add_times(op, other, one)
        case "duration", "+" | "-", "duration":
            return _add_times(op, one, other)
        case "number", "*", "duration":
            return _scale(op, other, one)
        case "duration", "*" | "/", "number":
            return _scale(op, one, other)
        case "duration", "/", "duration":
            return calculate("/", _count_ticks(one, "ns"), _count_ticks(other, "ns"))
        case "number", "-", "duration" if one == Constant(0):  # unary minus
            return _scale("*", other, Constant(-1))
    return None


def _classify(value: TermValue) -> str:
    if isinstance(value, _ConstantSpan):
        return "duration"
    if isinstance(value, Constant):
        return "text" if isinstance(value.value, str | bool) else "number"
    if value is None:
        return "nothing"
    kind = value.type
    if pa.types.is_duration(kind):
        return "duration"
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return "time"
    numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return "number" if numeric else "text"


def _add_times(op: str, one: TermValue, other: TermValue) -> pa.Array | _ConstantSpan:
    if isinstance(one, _ConstantSpan) and isinstance(other, _ConstantSpan):
        sign = 1 if op == "+" else -1
        return _ConstantSpan(one.nanoseconds + sign * other.nanoseconds)
    unit = min((_unit(side) for side in (one, other)), key=UNITS.__getitem__)
    left, right = _in_unit(one, unit), _in_unit(other, unit)
    return (pc.add_checked if op == "+" else pc.subtract_checked)(left, right)


def _unit(value: TermValue) -> str:
    if isinstance(value, _ConstantSpan):
        whole = (u for u, size in UNITS.items() if (value.nanoseconds / size).denominator == 1)
        return next(whole, "ns")
    assert isinstance(value, pa.Array)
    return "s" if pa.types.is_date(value.type) else str(value.type.unit)


def _in_unit(value: TermValue, unit: str) -> Any:
    """Return a time or a duration in a unit; a time loses its zone, which is not part of it."""
    if isinstance(value, _ConstantSpan):
        return pa.scalar(round(value.nanoseconds / UNITS[unit]), pa.duration(unit))
    assert isinstance(value, pa.Array)
    if pa.types.is_duration(value.type):
        return value.cast(pa.duration(unit))
    if pa.types.is_timestamp(value.type):
        return value.cast(pa.timestamp(unit, value.type.tz))
    return value.cast(pa.timestamp(unit))


def _count_ticks(duration: TermValue, unit: str) -> Operand:
    if isinstance(duration, _ConstantSpan):
        return Constant(float(duration.nanoseconds / UNITS[unit]))
    assert isinstance(duration, pa.Array)
    return duration.cast(pa.duration(unit)).cast(pa.int64())


def _scale(op: str, duration: TermValue, factor: TermValue) -> pa.Array | _ConstantSpan | None:
    assert not isinstance(factor, _ConstantSpan)
    if isinstance(duration, _ConstantSpan) and isinstance(factor, Constant):
        number = Fraction(factor.value)
        if op == "/" and not number:
            return None
        return _ConstantSpan(
            duration.nanoseconds * number if op == "*" else duration.nanoseconds / number
        )
    unit = min("us", _unit(duration), key=UNITS.__getitem__)
    found = calculate(op, _count_ticks(duration, unit), factor)
    if not isinstance(found, pa.Array):
        return None
    whole = found if pa.types.is_integer(found.type) else pc.round(found).cast(pa.int64())
    return whole.cast(pa.duration(unit))
