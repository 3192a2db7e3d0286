"""What the numbers in conditions on paths stand for, and what may be compared with what.

The search calculates with floating-point numbers. Whether one is a number, the rank of a text or
microseconds is known when the types of the columns are. `type_programs` follows each program with
kinds in place of values. It refuses what mixes kinds, as databases do, and chooses the operations
that depend on them: `/` of whole numbers, where it truncates, and the difference of two dates,
which is a number of days where it meets a number, and an interval where it meets one. Sums of
decimals are rounded to their digits, so that they are as exact as the decimals of a database.

Cost contract: linear in the operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from enum import Enum
from typing import NamedTuple

from cernis.engine.rows import search
from cernis.engine.rows.search import Programs, Registers
from cernis.errors import Diagnostic, QueryError, Span


class ValueKind(Enum):
    """What a value stands for; the value is how messages call it."""

    ANY = "NULL"
    WHOLE = "a whole number"
    NUMBER = "a number"
    TEXT = "a text"
    DATE = "a date"
    TIME = "a time"
    ZONED = "a time with a zone"
    CLOCK = "a time of the day"
    INTERVAL = "an interval"


CONSTANT_KINDS = (ValueKind.NUMBER, ValueKind.WHOLE, ValueKind.INTERVAL)
"""The kinds of constants, by their argument."""
TRUNCATES = 1
"""The argument of a division that truncates where both sides are whole numbers."""

_NUMBERS = (ValueKind.WHOLE, ValueKind.NUMBER)
_TIMES = (ValueKind.DATE, ValueKind.TIME, ValueKind.ZONED, ValueKind.CLOCK)
_TRUTHS = (search.NOT, search.IS_NULL, search.AND, search.OR)
_UNARY = (search.NEGATE, search.ABSOLUTE, search.FLOOR, search.CEIL, search.SQUARE_ROOT)
_CHOICES = (
    search.COALESCE, search.LESSER, search.GREATER, search.LEAST_KNOWN, search.GREATEST_KNOWN,
)  # fmt: skip
_COMPARISONS = (search.EQUAL, search.LESS, search.LESS_EQUAL)
_HINT = "an amount of time is an INTERVAL"


class TypedValue(NamedTuple):
    """What is known of a value before the search."""

    kind: ValueKind
    digits: int | None = None
    """How many digits a decimal number has after its point; None: it is none."""
    dates: frozenset[int] = frozenset()
    """Operations that subtracted dates, if an interval is made of these alone: or else days."""

    @property
    def may_be_days(self) -> bool:
        return bool(self.dates)


def type_programs(
    programs: Programs,
    registers: Registers,
    columns: Sequence[TypedValue],
    spans: Sequence[Span],
    text: str,
) -> Programs:
    """Return programs for columns of some kinds; `spans` are the conditions of the variables."""
    operation, constant = programs.operation.copy(), programs.constant.copy()
    programs = programs._replace(operation=operation, constant=constant)
    typist = _Typist(programs, registers, columns)
    for variable, span in enumerate(spans):
        try:
            typist.follow(variable)
        except _MixedKindsError as error:
            raise QueryError([Diagnostic(str(error), span, suggestion=error.hint)], text) from None
    return typist.programs


class _MixedKindsError(Exception):
    def __init__(self, message: str, *values: TypedValue) -> None:
        super().__init__(message)
        kinds = {value.kind for value in values}
        about_time = kinds & {*_TIMES, ValueKind.INTERVAL} and kinds & {*_NUMBERS}
        self.hint = _HINT if about_time else None


class _Typist:
    def __init__(
        self, programs: Programs, registers: Registers, columns: Sequence[TypedValue]
    ) -> None:
        self.programs = programs
        self.columns = columns
        self.registers = _list_register_kinds(registers, columns)

    def follow(self, variable: int) -> None:
        """Run the program of a variable over kinds."""
        first = self.programs.first
        stack: list[TypedValue] = []
        for at in range(int(first[variable]), int(first[variable + 1])):
            operation = int(self.programs.operation[at])
            if operation <= search.REGISTER:
                stack.append(self._find_value(at, operation))
            elif operation in (search.NOT, search.IS_NULL):
                stack[-1] = TypedValue(ValueKind.WHOLE)
            elif operation in _UNARY:
                stack[-1] = self._change(operation, stack[-1])
            elif operation == search.CHOOSE:
                last, then = stack.pop(), stack.pop()
                stack[-1] = self._join(then, last, "chooses between {} and {}")
            else:
                right, left = stack.pop(), stack.pop()
                stack.append(self._combine(at, operation, left, right))

    def _find_value(self, at: int, operation: int) -> TypedValue:
        argument = int(self.programs.argument[at])
        if operation == search.CONSTANT:
            kind = CONSTANT_KINDS[argument]
            return TypedValue(kind, _count_digits(kind, float(self.programs.constant[at])))
        if operation == search.REGISTER:
            value = self.registers[argument]
            if value is None:
                raise _MixedKindsError("the condition calculates with a text or a time")
            return self._round(at, value)
        return self.columns[int(self.programs.column[at])]

    def _round(self, at: int, value: TypedValue) -> TypedValue:
        """Let an operation round its value to the digits that it has."""
        self.programs.constant[at] = 10.0**value.digits if value.digits else 0.0
        return value

    def _change(self, operation: int, value: TypedValue) -> TypedValue:
        if operation in (search.FLOOR, search.CEIL, search.SQUARE_ROOT) and value.may_be_days:
            value = self._make_days(value)
        allowed = {*_NUMBERS, ValueKind.ANY}
        if operation in (search.NEGATE, search.ABSOLUTE):
            allowed |= {ValueKind.INTERVAL}
        if value.kind not in allowed:
            raise _MixedKindsError(f"the condition calculates with {value.kind.value}")
        if operation == search.SQUARE_ROOT:
            return TypedValue(ValueKind.NUMBER)
        return (
            value if operation in (search.NEGATE, search.ABSOLUTE) else TypedValue(ValueKind.WHOLE)
        )

    def _combine(self, at: int, operation: int, left: TypedValue, right: TypedValue) -> TypedValue:
        if operation in _TRUTHS:
            return TypedValue(ValueKind.WHOLE)
        if operation in _COMPARISONS:
            self._join(left, right, "compares {} with {}")
            return TypedValue(ValueKind.WHOLE)
        if operation in _CHOICES:
            return self._join(left, right, "chooses between {} and {}")
        return self._calculate(at, operation, left, right)

    def _join(self, left: TypedValue, right: TypedValue, told: str) -> TypedValue:
        """Return a value that is one of two."""
        left, right = self._count_days(left, right)
        kinds = {left.kind, right.kind} - {ValueKind.ANY}
        if len(kinds) < 2:
            dates = left.dates | right.dates if left.dates and right.dates else frozenset()
            kind = next(iter(kinds), ValueKind.ANY)
            return TypedValue(kind, _join_digits(left, right), dates)
        if kinds == {*_NUMBERS}:
            return TypedValue(ValueKind.NUMBER, _join_digits(left, right))
        if kinds == {ValueKind.DATE, ValueKind.TIME}:
            return TypedValue(ValueKind.TIME)
        message = told.format(left.kind.value, right.kind.value)
        raise _MixedKindsError(f"the condition {message}", left, right)

    def _count_days(self, left: TypedValue, right: TypedValue) -> tuple[TypedValue, TypedValue]:
        """Let differences of dates be days where they meet a number."""
        if left.may_be_days and right.kind in _NUMBERS:
            return self._make_days(left), right
        if right.may_be_days and left.kind in _NUMBERS:
            return left, self._make_days(right)
        return left, right

    def _make_days(self, value: TypedValue) -> TypedValue:
        for at in value.dates:
            self.programs.operation[at] = search.SUBTRACT_DATES
        return TypedValue(ValueKind.WHOLE)

    def _calculate(
        self, at: int, operation: int, left: TypedValue, right: TypedValue
    ) -> TypedValue:
        left, right = self._count_days(left, right)
        one, other = left.kind, right.kind
        if ValueKind.ANY in (one, other):
            return TypedValue(ValueKind.ANY)
        if one in _NUMBERS and other in _NUMBERS:
            return self._type_number(at, operation, left, right)
        if operation == search.SUBTRACT and one in _TIMES and other in _TIMES:
            self._join(left, right, "subtracts {1} from {0}")
            dates = frozenset({at}) if one is other is ValueKind.DATE else frozenset()
            return TypedValue(ValueKind.INTERVAL, dates=dates)
        if operation in (search.ADD, search.SUBTRACT) and other is ValueKind.INTERVAL:
            if one is ValueKind.INTERVAL:
                return self._join(left, right, "")
            if one in _TIMES:
                return TypedValue(ValueKind.TIME if one is ValueKind.DATE else one)
        if operation == search.ADD and one is ValueKind.INTERVAL and other in _TIMES:
            return TypedValue(ValueKind.TIME if other is ValueKind.DATE else other)
        if operation == search.MULTIPLY and {one, other} <= {*_NUMBERS, ValueKind.INTERVAL}:
            if one is not other:
                return TypedValue(ValueKind.INTERVAL)
        elif one is ValueKind.INTERVAL and operation in (search.DIVIDE, search.QUOTIENT):
            if other in _NUMBERS and operation == search.DIVIDE:
                return TypedValue(ValueKind.INTERVAL)
            if other is ValueKind.INTERVAL:
                return TypedValue(
                    ValueKind.WHOLE if operation == search.QUOTIENT else ValueKind.NUMBER
                )
        told = f"the condition calculates with {one.value} and {other.value}"
        raise _MixedKindsError(told, left, right)

    def _type_number(
        self, at: int, operation: int, left: TypedValue, right: TypedValue
    ) -> TypedValue:
        whole = left.kind is right.kind is ValueKind.WHOLE
        if operation == search.DIVIDE:
            if whole and int(self.programs.argument[at]) == TRUNCATES:
                self.programs.operation[at] = search.QUOTIENT
                return TypedValue(ValueKind.WHOLE)
            return TypedValue(ValueKind.NUMBER)
        if whole:
            return TypedValue(ValueKind.WHOLE)
        digits = _join_digits(left, right)
        if operation == search.MULTIPLY and digits is not None:
            digits = (left.digits or 0) + (right.digits or 0)
        return self._round(at, TypedValue(ValueKind.NUMBER, digits))


def _count_digits(kind: ValueKind, value: float) -> int | None:
    """Return how many digits a constant has after its point.

    >>> _count_digits(ValueKind.NUMBER, 0.25)
    2
    """
    if kind is not ValueKind.NUMBER:
        return None
    return max(-int(Decimal(repr(value)).as_tuple().exponent), 0)


def _join_digits(left: TypedValue, right: TypedValue) -> int | None:
    """Return how many digits a value has that is one of two, or their sum."""
    found = [0 if one.kind is ValueKind.WHOLE else one.digits for one in (left, right)]
    known = [digits for digits in found if digits is not None]
    return max(known) if len(known) == 2 else None


def _list_register_kinds(
    registers: Registers, columns: Sequence[TypedValue]
) -> dict[int, TypedValue | None]:
    """Return what each register that programs read stands for; None: of nothing that has a sum."""
    found: dict[int, TypedValue | None] = {}
    whole = TypedValue(ValueKind.WHOLE)
    for kind, base, depth, column in zip(*(map(int, each) for each in registers[:4]), strict=True):
        match kind:
            case search.FIRST_VARIABLE:
                found[base + 1] = whole
            case search.LAST_VARIABLE:
                found[base + depth] = whole
            case search.COUNT | search.MATCH_NUMBER:
                found[base] = whole
            case search.SUM:
                own = columns[column]
                found[base] = None if own.kind in (ValueKind.TEXT, *_TIMES) else own
            case search.LEAST | search.GREATEST:
                found[base] = columns[column]
    return found
