"""Translate atoms to Spark SQL expressions with the truth of `events.evaluation.evaluate`.

`translate_exactly` gives a condition that is true exactly on the events on which the atom holds
in the embedded engine. An atom that Catalyst cannot evaluate exactly is `Untranslated`, with a
short reason: the Python worker evaluates it.

A predicate becomes *where it is true* or *where it is false*, each a condition that may be
NULL instead of false. NOT swaps the two. So no NOT remains above a comparison, three-valued
logic needs no care, and conditions have forms that file sources understand: an attribute in its
own type against a constant.

Three properties of Spark that once gave wrong answers:

* NaN equals itself and is the largest number. File sources evaluate filters on statistics
  without NaN, so a condition that is true of NaN must not reach them: it is joined by `isnan`,
  which no source understands. Other conditions have a bound at infinity.
* Files distinguish 0.0 and -0.0, Spark does not: a bound at zero has the sign that keeps both.
* The optimizer replaces `(a + 1) + -1` by `a`, even if the inner sum overflows int64.

Turned down: casting both sides to a wider type and letting Spark compare. It is shorter, but
rounds (bigint with double, decimals beyond 38 digits) and hides the column from the source.
Constants are literals; no SQL text is put together.

Cost: linear in the predicate. Text that is not UTF-8 matches no `.*` here; in the
worker, RE2 lets some of it pass (halves of surrogate pairs, overlong forms).
"""

from __future__ import annotations

import math
import operator
import string
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto
from itertools import zip_longest
from typing import Any, TypeAlias, cast

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type

from cernis.errors import DataError
from cernis.events.evaluation import evaluate
from cernis.events.evaluation.attributes import read_calculated
from cernis.events.evaluation.evaluate import float_at_most, read_literal
from cernis.events.evaluation.functions import Constant, Operand
from cernis.pattern import predicate as pred
from cernis.pattern.atom import Atom, TypeIs
from cernis.pattern.functions import BUILTIN, find_function
from cernis.work.calculate import Calculator

Columns = Mapping[str, tuple[Column, T.DataType]]
"""The top-level columns of a stream by name, each as an expression with its type.

A CHAR column of a catalog must come without its metadata (`alias(name, metadata={})`), by which
Spark would pad the constants that the column is compared with.
"""

Truth: TypeAlias = Column | bool
"""A condition; a bool has the same truth on every event."""

_NEGATED: dict[pred.Operator, pred.Operator] = {
    "=": "!=",
    "!=": "=",
    "<": ">=",
    "<=": ">",
    ">": "<=",
    ">=": "<",
}
_BITS: dict[type[T.DataType], int] = {
    T.ByteType: 8,
    T.ShortType: 16,
    T.IntegerType: 32,
    T.LongType: 64,
}
_ARROW_TIMES: dict[type[T.DataType], pa.DataType] = {
    T.DateType: pa.date32(),
    T.TimestampType: pa.timestamp("us", "UTC"),
    T.TimestampNTZType: pa.timestamp("us"),
}
_INCOMPARABLE = (T.BinaryType, T.ArrayType, T.MapType, T.StructType)
_MOST_DIGITS = 38


@dataclass(frozen=True, slots=True)
class Untranslated:
    """An atom that the Python worker evaluates, and why."""

    reason: str


class Mode(Enum):
    """What replaces a part of a predicate that Catalyst cannot evaluate."""

    EXACT = auto()
    """Nothing: the whole predicate is untranslated."""
    AT_LEAST = auto()
    """True: the condition holds on every event on which the atom holds."""
    AT_MOST = auto()
    """False: the atom holds on every event on which the condition holds."""
    PUSHED = auto()
    """True, also for parts that file sources do not understand."""


@dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """A condition in some mode; `pushed` if file sources understand all of it."""

    truth: Truth
    pushed: bool


class _CannotTranslate(Exception):
    """Catalyst cannot evaluate this exactly."""


def translate_exactly(
    atom: Atom, columns: Columns, type_column: str, stream: str
) -> Truth | Untranslated:
    """Return a condition, NULL or false where the atom does not hold.

    A bool if the atom holds on every event, or on none.
    """
    try:
        return translate_bound(atom, columns, type_column, stream, Mode.EXACT).truth
    except _CannotTranslate as why:
        return Untranslated(str(why))


def translate_bound(
    atom: Atom, columns: Columns, type_column: str, stream: str, mode: Mode
) -> Bound:
    """Return the condition under which the atom holds, in a mode."""
    if isinstance(atom, TypeIs):
        if atom.stream is not None and atom.stream != stream:
            return Bound(False, True)
        atom = pred.Comparison("=", pred.Attribute((type_column,)), pred.Literal(atom.type))
    translation = _Translation(columns, mode)
    truth = translation.truth(atom, True)
    return Bound(truth, not translation.hidden)


def as_column(truth: Truth) -> Column:
    return F.lit(truth) if isinstance(truth, bool) else truth


def both(parts: Iterable[Truth]) -> Truth:
    """Join by AND, as a balanced tree: long chains overflow Catalyst's stack."""
    return _join(parts, operator.and_, True)


def either(parts: Iterable[Truth]) -> Truth:
    """Join by OR, as a balanced tree."""
    return _join(parts, operator.or_, False)


def _join(parts: Iterable[Truth], join: Callable[[Column, Column], Column], neutral: bool) -> Truth:
    columns: list[Column] = []
    for part in parts:
        if not isinstance(part, bool):
            columns.append(part)
        elif part is not neutral:
            return part
    return join_balanced(columns, join) if columns else neutral


def join_balanced(columns: list[Column], join: Callable[[Column, Column], Column]) -> Column:
    while len(columns) > 1:
        pairs = zip_longest(columns[::2], columns[1::2])
        columns = [a if b is None else join(a, b) for a, b in pairs]
    return columns[0]


# ------------------------------------------------------------- predicates


@dataclass(frozen=True, slots=True, eq=False)
class _Typed:
    """A value that depends on the event; `plain` if it is an attribute of the source."""

    column: Column
    type: T.DataType
    plain: bool = True


_Operand: TypeAlias = Constant | _Typed | None  # None: NULL on every event


@dataclass(slots=True, eq=False)
class _Translation:
    columns: Columns
    mode: Mode
    hidden: bool = False

    def truth(self, predicate: pred.Predicate, wanted: bool) -> Truth:
        """Return where the predicate is true, or where it is false; unknown is neither."""
        match predicate:
            case pred.And(parts=parts):
                return (both if wanted else either)(self.truth(part, wanted) for part in parts)
            case pred.Or(parts=parts):
                return (either if wanted else both)(self.truth(part, wanted) for part in parts)
            case pred.Negation(body=body):
                return self.truth(body, not wanted)
        try:
            return self._leaf(predicate, wanted)
        except _CannotTranslate:
            if self.mode is Mode.EXACT:
                raise
            return self.mode is not Mode.AT_MOST

    def _leaf(self, predicate: pred.Predicate, wanted: bool) -> Truth:
        match predicate:
            case pred.Comparison(op=op, left=left, right=right):
                return self._compare(op, self._value(left), self._value(right), wanted)
            case pred.Like(body=body, pattern=pattern):
                return self._like(self._value(body), pattern, wanted)
            case pred.InSet(body=body, values=values):
                return self._in_set(self._value(body), [*map(read_literal, values)], wanted)
            case pred.InRange(body=body, low=low, high=high):
                found = self._value(body)
                ends = (
                    self._compare(">=", found, read_literal(low), wanted),
                    self._compare("<=", found, read_literal(high), wanted),
                )
                return both(ends) if wanted else either(ends)
            case pred.IsNull(body=body, negated=negated):
                return self._is_null(self._value(body), negated is not wanted)
        raise _CannotTranslate("ANY: a condition on the elements of a list")

    def _hide(self, truth: Truth) -> Truth:
        """Mark a condition that file sources must not see, or do not understand."""
        if isinstance(truth, bool):
            return truth
        if self.mode is Mode.PUSHED:
            return True
        self.hidden = True
        return truth

    def _hide_unless_plain(self, operand: _Typed, truth: Truth) -> Truth:
        return truth if operand.plain else self._hide(truth)

    def _is_null(self, found: _Operand, wanted: bool) -> Truth:
        if not isinstance(found, _Typed):
            return (found is None) is wanted
        column = found.column
        return self._hide_unless_plain(found, column.isNull() if wanted else column.isNotNull())

    def _in_set(self, found: _Operand, values: list[Constant], wanted: bool) -> Truth:
        if isinstance(found, _Typed) and len(values) > 1:
            fitting = _fitting(found.type, [v.value for v in values])
            if fitting is not None:
                literals, clash = fitting
                if clash and not wanted:
                    return False
                if not literals:
                    return self._hide_unless_plain(found, _where_valid(found.column, not wanted))
                member = found.column.isin(literals)
                return self._hide_unless_plain(found, member if wanted else ~member)
        parts = (self._compare("=", found, v, wanted) for v in values)
        return either(parts) if wanted else both(parts)

    def _like(self, found: _Operand, pattern: str, wanted: bool) -> Truth:
        if not isinstance(found, _Typed):
            text = pred.Literal("" if found is None else found.value)
            known = None if found is None else _evaluate_constants(pred.Like(text, pattern))
            return known is wanted
        if _kind(found.type) != "text":
            return False
        branches = _branches(pattern)
        if branches is None:
            raise _CannotTranslate("LIKE: Java's regular expressions differ from RE2's")
        whole = [branch[0] for branch in branches if len(branch) == 1]
        exactly = [found.column.isin(whole)] if whole else []
        open_ended = [branch for branch in branches if len(branch) > 1]
        if wanted:
            parts = (both(self._fits(found.column, branch)) for branch in open_ended)
            return either((*exactly, *parts))
        exact = _Translation(self.columns, Mode.EXACT)
        parts = (both(exact._fits(found.column, branch)) for branch in open_ended)
        return self._hide(~as_column(either((*exactly, *parts))))

    def _fits(self, column: Column, pieces: list[str]) -> Iterator[Truth]:
        """Yield conditions that text has these pieces, with RE2's `.*` between them."""
        first, *middle, last = pieces
        if any("\n" in piece for piece in pieces):
            raise _CannotTranslate("LIKE with a line break beside `.*`")
        inner = [piece for piece in middle if piece]
        if len(inner) > 1 or (inner and (first or last)):
            raise _CannotTranslate("LIKE with more than two parts")
        if first:
            yield column.startswith(first)
        if last:
            yield column.endswith(last)
        if first and last:
            size = len(first.encode()) + len(last.encode())
            yield self._hide(F.octet_length(column) >= F.lit(size))
        if inner:
            yield column.contains(inner[0])
        yield self._hide(~column.contains("\n"))
        yield self._hide(F.is_valid_utf8(column))

    # --------------------------------------------------------- comparisons

    def _compare(self, op: pred.Operator, left: _Operand, right: _Operand, wanted: bool) -> Truth:
        if left is None or right is None:
            return False
        if isinstance(left, Constant):
            if isinstance(right, Constant):
                return evaluate.compare(op, left, right, 1)[0].as_py() is wanted
            return self._compare(pred.MIRRORED[op], right, left, wanted)
        # beside NaN, != is true and the rest are false
        unordered = (op == "!=") is wanted
        op = op if wanted else _NEGATED[op]
        if isinstance(right, Constant):
            return self._with_constant(op, left, right.value, unordered)
        return self._hide(_with_column(op, left, right, unordered))

    def _with_constant(
        self, op: pred.Operator, left: _Typed, right: pred.Scalar, unordered: bool
    ) -> Truth:
        column, type_, kind = left.column, left.type, _kind(left.type)
        found: Truth = False
        match right:
            case bool():
                if kind == "boolean":
                    found = _apply(op, column, F.lit(right))
            case str():
                if kind == "text":
                    found = _apply(op, column, F.lit(evaluate.replace_surrogates(right)))
                elif kind == "time":
                    instant = evaluate.parse_instant(right, _ARROW_TIMES[type(type_)])
                    if instant is not None:
                        literal = _time_literal(type_)
                        found = _whole(op, column, instant, literal, _ends(64), unordered)
            case _ if kind == "integer":
                literal, ends = _caster(type_), _ends(_BITS[type(type_)])
                found = _whole(op, column, right, literal, ends, unordered)
            case _ if kind == "float":
                found = self._fraction(op, column, right, type_, unordered)
            case _ if isinstance(type_, T.DecimalType) and kind == "decimal":
                found = _decimal(op, column, right, type_, unordered)
        return self._hide_unless_plain(left, found)

    def _fraction(
        self,
        op: pred.Operator,
        column: Column,
        number: pred.Number,
        type_: T.DataType,
        unordered: bool,
    ) -> Truth:
        """Compare a float or double with any number, in the column's own type."""
        constant = pred.to_machine(number)
        below = float_at_most(constant)
        if isinstance(type_, T.FloatType):
            below = _single_at_most(below)
        if math.isnan(below):
            return _where_valid(column, unordered)
        if below != constant:
            if op in ("=", "!="):
                return _where_valid(column, True) if op == "!=" else False
            op = "<=" if op in ("<", "<=") else ">"
        literal = _caster(type_)
        if op == "=" and below == 0:
            return (column >= literal(-0.0)) & (column <= literal(0.0))
        if below == 0:
            below = -0.0 if op in ("<", ">=") else 0.0
        found = _apply(op, column, literal(below))
        if unordered:
            return self._hide(found | F.isnan(column))
        # only NaN is above infinity, and sources do not know isnan
        return found & (column <= literal(math.inf)) if op in (">", ">=") else found

    # -------------------------------------------------------------- values

    def _value(self, node: pred.Value) -> _Operand:
        match node:
            case pred.Literal():
                return read_literal(node)
            case pred.Attribute() if node.value is not None:
                return self._value(node.value)
            case pred.Attribute(path=path):
                return self._attribute(path)
            case pred.Negative(body=body):
                return _negative(self._value(body))
            case pred.Arithmetic(op=op, left=left, right=right):
                return _arithmetic(op, self._value(left), self._value(right))
            case pred.Call(function=name, arguments=arguments):
                return self._call(name, [self._value(each) for each in arguments])
            case pred.Case(branches=branches, otherwise=otherwise):
                found = None if otherwise is None else self._value(otherwise)
                for test, value in reversed(branches):
                    holds = _Translation(self.columns, Mode.EXACT).truth(test, True)
                    found = choose_value(holds, self._value(value), found)
                return found

    def _call(self, name: str, arguments: list[_Operand]) -> _Operand:
        """Return a function of values, if Spark computes the same bits."""
        if all(one is None or isinstance(one, Constant) for one in arguments):
            constants = [one for one in arguments if not isinstance(one, _Typed)]
            return _as_constant(evaluate.call_function(name, constants, 1))
        match name, arguments:
            case "MOD", [one, other]:
                return _arithmetic("%", one, other)
            case "COALESCE", [*values, found]:
                for value in reversed(values):
                    there: Truth = value is not None
                    if isinstance(value, _Typed):
                        there = value.column.isNotNull()
                    found = choose_value(there, value, found)
                return found
            case "NULLIF", [one, other]:
                equal = _Translation(self.columns, Mode.EXACT)._compare("=", one, other, True)
                return choose_value(F.coalesce(as_column(equal), F.lit(False)), None, one)
        return call_function(name, arguments)

    def _attribute(self, path: tuple[str, ...]) -> _Typed | None:
        found, rest = _follow_path(self.columns, path)
        if found is None and (value := _read_calculated(path)) is not None:
            return cast("_Typed | None", self._value(value))
        if found is None or isinstance(found[1], T.NullType):
            return None
        if rest:
            _kind(found[1])  # raises for types that may be structs in Arrow
            return None
        return _Typed(*found)


def attribute(columns: Columns, path: tuple[str, ...]) -> tuple[Column, T.DataType] | None:
    """Return the column of a dotted attribute, as `events.evaluation.attributes.attribute` does.

    A calculated one that Spark would compute differently is computed in Python, as in the engine.
    """
    found, rest = _follow_path(columns, path)
    if found is None and (value := _read_calculated(path)) is not None:
        try:
            typed = _Translation(columns, Mode.EXACT)._value(value)
        except _CannotTranslate as why:
            return _calculate_in_python(columns, ".".join(path), value, str(why))
        return (typed.column, typed.type) if isinstance(typed, _Typed) else None
    return None if rest else found


def _calculate_in_python(
    columns: Columns, name: str, value: pred.Value, why: str
) -> tuple[Column, T.DataType] | None:
    """Return a calculated attribute as a function of Arrow columns."""
    known: dict[tuple[str, ...], tuple[Column, T.DataType]] = {}
    for source in pred.attributes_of(value):
        found, rest = _follow_path(columns, source.path)
        if found is not None and not rest and not isinstance(found[1], T.NullType):
            known[source.path] = found
    if not known:
        return None
    try:
        types = [to_arrow_type(type_, timezone="UTC") for _, type_ in known.values()]
    except (PySparkException, TypeError):
        raise DataError(
            f"Spark cannot compute the key {name} itself ({why}); give the events a column with it"
        ) from None
    calculator = Calculator(name, known)
    type_ = calculator.find_type(types)
    if type_ is None:
        return None
    own = from_arrow_type(type_)
    calculate = arrow_udf(calculator.make_function(type_), own)  # type: ignore[call-overload]
    return calculate(*(column for column, _ in known.values())), own


def _read_calculated(path: tuple[str, ...]) -> pred.Value | None:
    """Return the value that a calculated attribute has; None for any other."""
    return read_calculated(".".join(path)) if path[-1].endswith(")") else None


def _follow_path(
    columns: Columns, path: tuple[str, ...]
) -> tuple[tuple[Column, T.DataType] | None, tuple[str, ...]]:
    """Return the last column on a path through structs, and the names after it."""
    if len(path) > 1 and ".".join(path) in columns:
        return columns[".".join(path)], ()
    found = columns.get(path[0])
    for i, name in enumerate(path[1:], 1):
        if found is None:
            return None, ()
        column, type_ = found
        if not isinstance(type_, T.StructType):
            return found, path[i:]
        found = _field(column, type_, name)
    return found, ()


def _field(column: Column, type_: T.StructType, name: str) -> tuple[Column, T.DataType] | None:
    """Return the one field of exactly this name."""
    indices = [i for i, field in enumerate(type_.fields) if field.name == name]
    if len(indices) != 1:
        return None
    field = type_.fields[indices[0]]
    if sum(_alike(other.name, name) for other in type_.fields) > 1:
        # casts go by position, so that capitals do not matter
        renamed = [T.StructField(str(i), f.dataType) for i, f in enumerate(type_.fields)]
        return column.cast(T.StructType(renamed)).getField(str(indices[0])), field.dataType
    return column.getField(name), field.dataType


def _alike(one: str, other: str) -> bool:
    """Return whether two names are equal if Spark ignores case."""
    return one.upper() == other.upper() or one.lower() == other.lower()


def _evaluate_constants(predicate: pred.Predicate) -> bool | None:
    """Evaluate a predicate of constants alone, in the embedded engine."""
    known: bool | None = evaluate.evaluate_predicate(predicate, lambda path: None, 1)[0].as_py()
    return known


def _kind(type_: T.DataType) -> str:
    """Return the kind of values that a type can be compared with, or "none"."""
    match type_:
        case T.ByteType() | T.ShortType() | T.IntegerType() | T.LongType():
            return "integer"
        case T.FloatType() | T.DoubleType():
            return "float"
        case T.DecimalType() if type_.scale >= 0:
            return "decimal"
        case T.StringType() if type_.isUTF8BinaryCollation():
            return "text"
        case T.BooleanType():
            return "boolean"
        case T.DateType() | T.TimestampType() | T.TimestampNTZType():
            return "time"
    if isinstance(type_, _INCOMPARABLE):
        return "none"
    raise _CannotTranslate(f"values of type {type_.simpleString()}")


def _fitting(type_: T.DataType, values: list[pred.Scalar]) -> tuple[list[Column], bool] | None:
    """Return the values that a column may equal, and whether others are of another kind."""
    kind = _kind(type_)
    if kind == "text":
        texts = dict.fromkeys(evaluate.replace_surrogates(v) for v in values if isinstance(v, str))
        return [F.lit(v) for v in texts], not all(isinstance(v, str) for v in values)
    if kind == "integer":
        numbers = [v for v in values if not isinstance(v, (str, bool))]
        low, high = _ends(_BITS[type(type_)])
        whole = dict.fromkeys(int(v) for v in numbers if evaluate.is_whole(v))
        literal = _caster(type_)
        return [literal(v) for v in whole if low <= v <= high], len(numbers) < len(values)
    return None


# -------------------------------------------------- columns with constants


def _ends(bits: int) -> tuple[int, int]:
    """Return the smallest and the largest integer of so many bits."""
    return -(1 << bits - 1), (1 << bits - 1) - 1


def _where_valid(column: Column, constant: bool) -> Truth:
    return column.isNotNull() if constant else False


def _caster(type_: T.DataType) -> Callable[[Any], Column]:
    """Return a function that makes literals of a type."""
    natural = isinstance(type_, (T.IntegerType, T.DoubleType))
    return lambda value: F.lit(value) if natural else F.lit(value).cast(type_)


def _time_literal(type_: T.DataType) -> Callable[[int], Column]:
    """Return a function that makes times from ticks since 1970 in UTC, in any session."""
    if isinstance(type_, T.DateType):
        return lambda days: F.date_from_unix_date(F.lit(days))
    if isinstance(type_, T.TimestampType):
        return lambda ticks: F.timestamp_micros(F.lit(ticks))
    epoch = F.lit("1970-01-01 00:00:00").cast(T.TimestampNTZType())
    return lambda ticks: epoch + F.lit(timedelta(microseconds=ticks))


def _whole(
    op: pred.Operator,
    column: Column,
    constant: evaluate.Number,
    literal: Callable[[int], Column],
    ends: tuple[int, int],
    unordered: bool,
) -> Truth:
    """Compare values that are whole numbers of a unit with any number, exactly."""
    if isinstance(constant, float) and not math.isfinite(constant):
        return _with_infinite(op, column, constant, unordered)
    whole = math.floor(constant)
    op, certain = evaluate.compare_with_floor(op, whole != constant)
    if certain is not None:
        return _where_valid(column, certain)
    if not ends[0] <= whole <= ends[1]:
        return _where_valid(column, pred.COMPARE[op](0, whole))
    return _apply(op, column, literal(whole))


def _with_infinite(op: pred.Operator, column: Column, constant: float, unordered: bool) -> Truth:
    """Compare finite numbers with infinity or NaN."""
    nan = constant != constant
    return _where_valid(column, unordered if nan else pred.COMPARE[op](0, constant))


def _apply(op: pred.Operator, left: Column, right: Column) -> Column:
    found: Column = pred.COMPARE[op](left, right)
    return found


def _single_at_most(number: float) -> float:
    """Return the largest float32 that is not above the number."""
    with np.errstate(over="ignore"):
        near = np.float32(number)
    return float(np.nextafter(near, np.float32(-np.inf)) if float(near) > number else near)


def _decimal(
    op: pred.Operator,
    column: Column,
    constant: pred.Number,
    type_: T.DecimalType,
    unordered: bool,
) -> Truth:
    """Compare decimals with a number that is written, exactly."""
    if isinstance(constant, float):
        raise _CannotTranslate("decimals against floating point: rounded differently")
    limit = 10**type_.precision - 1

    def literal(unscaled: int) -> Column:
        return F.lit(evaluate.EXACT.scaleb(unscaled, -type_.scale)).cast(type_)

    scaled = evaluate.to_unscaled(constant, type_.scale)
    return _whole(op, column, scaled, literal, (-limit, limit), unordered)


# ---------------------------------------------------- columns with columns


def _with_column(op: pred.Operator, left: _Typed, right: _Typed, unordered: bool) -> Truth:
    kinds = _kind(left.type), _kind(right.type)
    match kinds:
        case ("text", "text") | ("boolean", "boolean") | ("integer", "integer"):
            return _apply(op, left.column, right.column)
        case ("time", "time"):
            if type(left.type) is not type(right.type):
                raise _CannotTranslate("dates and timestamps of different kinds")
            return _apply(op, left.column, right.column)
        case ("float", "float"):
            sides = left.column.cast("double"), right.column.cast("double")
            return _unless_nan(_apply(op, *sides), sides, sides, unordered)
        case ("integer", "float"):
            return _integer_with_float(op, left, right.column.cast("double"), unordered)
        case ("float", "integer"):
            return _integer_with_float(
                pred.MIRRORED[op], right, left.column.cast("double"), unordered
            )
        case ("decimal", "decimal" | "integer") | ("integer", "decimal"):
            common = _common(left.type, right.type)
            return _apply(op, left.column.cast(common), right.column.cast(common))
        case ("decimal", "float") | ("float", "decimal"):
            raise _CannotTranslate("decimals against floating point: rounded differently")
    return False


def _unless_nan(
    found: Column, floats: tuple[Column, ...], sides: tuple[Column, ...], unordered: bool
) -> Column:
    """Correct Spark's comparison where a side is NaN."""
    for side in floats:
        found = found | F.isnan(side) if unordered else found & ~F.isnan(side)
    if unordered:
        for side in sides:
            found = found & side.isNotNull()
    return found


def _integer_with_float(op: pred.Operator, left: _Typed, right: Column, unordered: bool) -> Column:
    """Compare as float64; where these are equal and may be rounded, as integers."""
    near = left.column.cast("double")
    found = _apply(op, near, right)
    if isinstance(left.type, T.LongType):
        # 2**63 as a float is above every integer
        whole = F.when(right < F.lit(2.0**63), right.try_cast("bigint"))
        exactly = _apply(op, left.column, whole)
        beyond = F.lit(bool(pred.COMPARE[op](0, 1)))
        found = F.when(near == right, F.coalesce(exactly, beyond)).otherwise(found)
    return _unless_nan(found, (right,), (left.column, right), unordered)


def _digits(integer: T.DataType) -> int:
    return len(str(_ends(_BITS[type(integer)])[1]))


def _common(left: T.DataType, right: T.DataType) -> T.DecimalType:
    """Return the decimal that holds the values of both types."""
    sizes = [
        (t.precision - t.scale, t.scale) if isinstance(t, T.DecimalType) else (_digits(t), 0)
        for t in (left, right)
    ]
    whole, scale = (max(size) for size in zip(*sizes, strict=True))
    if whole + scale > _MOST_DIGITS:
        raise _CannotTranslate(f"decimals that need {whole + scale} digits to compare")
    return T.DecimalType(whole + scale, scale)


# ------------------------------------------------------------- arithmetic


def _number(side: _Operand) -> _Operand:
    """Return an operand as bigint, double or a constant number; anything else is NULL."""
    if side is None:
        return None
    if isinstance(side, Constant):
        return None if isinstance(side.value, (bool, str)) else side
    match _kind(side.type):
        case "integer":
            column = side.column
            if not isinstance(side.type, T.LongType):
                column = column.cast("bigint")
            return _Typed(column, T.LongType(), side.plain)
        case "float":
            return _Typed(side.column.cast("double"), T.DoubleType(), side.plain)
        case "decimal":
            return side
    return None


def _widen(side: Constant | _Typed) -> _Typed:
    """Return a constant as a column; an integer beyond int64 becomes a float."""
    if isinstance(side, _Typed):
        if isinstance(side.type, T.DecimalType):
            raise _CannotTranslate("arithmetic on decimals: rounded differently")
        return side
    number = side.value
    if isinstance(number, int) and -(2**63) <= number < 2**63:
        return _Typed(F.lit(number).cast("bigint"), T.LongType())
    try:
        return _Typed(F.lit(float(number)), T.DoubleType())
    except OverflowError:
        return _Typed(F.lit(math.inf if int(number) > 0 else -math.inf), T.DoubleType())


def _arithmetic(op: str, left: _Operand, right: _Operand) -> _Operand:
    left, right = _number(left), _number(right)
    if left is None or right is None:
        return None
    if isinstance(left, Constant) and isinstance(right, Constant):
        return _as_constant(evaluate.calculate(op, left, right))
    x, y = _widen(left), _widen(right)
    if op != "/" and isinstance(x.type, T.LongType) and isinstance(y.type, T.LongType):
        return _Typed(_INTEGER[op](_alone(x), _alone(y)), T.LongType(), plain=False)
    a, b = x.column.cast("double"), y.column.cast("double")
    return _Typed(_FLOATING[op](a, b), T.DoubleType(), plain=False)


_INTEGER: dict[str, Callable[[Column, Column], Column]] = {
    "+": F.try_add,
    "-": F.try_subtract,
    "*": F.try_multiply,
    "%": F.try_mod,
}
_FLOATING: dict[str, Callable[[Column, Column], Column]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": F.try_divide,
    "%": F.try_mod,
}


def _alone(side: _Typed) -> Column:
    """Return the integer in a form that the optimizer does not merge with its operator."""
    return side.column if side.plain else side.column.bitwiseOR(F.lit(0).cast("bigint"))


def _negative(side: _Operand) -> _Operand:
    found = _number(side)
    if found is None:
        return None
    if isinstance(found, Constant):
        return _as_constant(evaluate.calculate("-", Constant(0), found, negative=True))
    x = _widen(found)
    if isinstance(x.type, T.LongType):
        below_zero = F.try_subtract(F.lit(0).cast("bigint"), x.column)
        return _Typed(below_zero, T.LongType(), plain=False)
    return _Typed(-x.column, T.DoubleType(), plain=False)


# -------------------------------------------------------------- functions

_DAY, _HOUR, _MINUTE, _SECOND = 86_400_000_000, 3_600_000_000, 60_000_000, 1_000_000


def choose_value(holds: Truth, one: _Operand, other: _Operand) -> _Operand:
    """Return one value where a condition holds, and the other elsewhere."""
    if isinstance(holds, bool):
        return one if holds else other
    if one is None and other is None:
        return None
    sides = [None if side is None else _to_typed(side) for side in (one, other)]
    kinds = {_kind(side.type) for side in sides if side is not None}
    if not kinds <= {"integer", "float"} and len(kinds) > 1:
        raise _CannotTranslate("a choice between values of several types")
    type_: T.DataType
    if kinds & {"integer", "float"}:
        type_ = T.DoubleType() if "float" in kinds else T.LongType()
        columns = [None if side is None else side.column.cast(type_) for side in sides]
    else:
        types = {side.type for side in sides if side is not None}
        if len(types) > 1:
            raise _CannotTranslate("a choice between values of several types")
        type_ = types.pop()
        columns = [None if side is None else side.column for side in sides]
    first, second = (F.lit(None).cast(type_) if c is None else c for c in columns)
    return _Typed(F.when(holds, first).otherwise(second), type_, plain=False)


def _to_typed(operand: Constant | _Typed) -> _Typed:
    """Return a constant as a column."""
    if isinstance(operand, _Typed):
        return operand
    match operand.value:
        case bool():
            return _Typed(F.lit(operand.value), T.BooleanType(), plain=False)
        case str():
            text = evaluate.replace_surrogates(operand.value)
            return _Typed(F.lit(text), T.StringType(), plain=False)
    return _widen(operand)


_CLASSES = {"integer": "number", "float": "number", "decimal": "number", "text": "string"}
_CLASSES |= {"boolean": "boolean", "time": "timestamp"}


def call_function(name: str, arguments: list[_Operand]) -> _Operand:
    """Return a function of values; raise `_CannotTranslate` unless Spark gives the same bits."""
    function = find_function(name)
    if function is None or (name not in BUILTIN):
        raise _CannotTranslate(f"{name} is a function in Python")
    typed = []
    for index, one in enumerate(arguments):
        side = None if one is None else _to_typed(one)
        kind = "null" if side is None else _kind(side.type)
        wanted = function.taken(index)
        if kind in ("none", "decimal") or (wanted == "timestamp" and kind == "text"):
            raise _CannotTranslate(f"{name} of such values: computed differently")
        if wanted not in ("any", _CLASSES.get(kind)):
            if not function.takes_null:
                return None
            side = None
        typed.append(side)
    if None in typed and not function.takes_null:
        return None
    known = [side for side in typed if side is not None]
    kinds = {_kind(side.type) for side in known}
    columns = [side.column for side in known]
    constants = [one.value for one in arguments[1:] if isinstance(one, Constant)]
    text, whole = T.StringType(), T.LongType()
    found: Column
    match name:
        case "ABS" if kinds == {"integer"}:
            wide = columns[0].cast(whole)
            return _Typed(F.when(wide > F.lit(-(2**63)), F.abs(wide)), whole, plain=False)
        case "ABS" | "SIGN" | "SQRT":
            found = F.call_function(function.spark, columns[0].cast("double"))
            return _Typed(found, T.DoubleType(), plain=False)
        case "FLOOR" | "CEIL":
            if kinds == {"integer"}:
                return _Typed(columns[0].cast(whole), whole, plain=False)
            real = columns[0].cast("double")
            found = F.floor(real) if name == "FLOOR" else F.ceil(real)
            fits = (real >= F.lit(-(2.0**63))) & (real < F.lit(2.0**63)) & ~F.isnan(real)
            return _Typed(F.when(fits, found), whole, plain=False)
        case "LEAST" | "GREATEST" if kinds <= {"integer", "float"} or kinds == {"text"}:
            type_ = text if kinds == {"text"} else whole if kinds == {"integer"} else T.DoubleType()
            least = F.least if name == "LEAST" else F.greatest
            columns = [column.cast(type_) for column in columns]
            found = least(*columns) if len(columns) > 1 else columns[0]
            return _Typed(found, type_, plain=False)
        case "LOWER" | "UPPER" | "TRIM" | "CONCAT":
            return _Typed(F.call_function(function.spark, *columns), text, plain=False)
        case "LENGTH":
            return _Typed(F.length(columns[0]).cast(whole), whole, plain=False)
        case "SUBSTRING" if len(constants) == len(arguments) - 1:
            first, size, *_ = (*map(int, constants), 2**31 - 1)
            if abs(first) < 2**31 and abs(size) < 2**31:
                return _Typed(F.substring(columns[0], first, size), text, plain=False)
        case "REPLACE" if len(constants) == 2:
            return _Typed(F.replace(*columns), text, plain=False)
        case "STARTS_WITH" | "ENDS_WITH" | "CONTAINS" if kinds == {"text"}:
            found = F.call_function(function.spark, *columns)
            return _Typed(found, T.BooleanType(), plain=False)
        case "CAST" if constants[0] in ("INT", "BIGINT") and kinds <= {"integer", "text"}:
            if _kind(known[0].type) == "integer":
                return _Typed(columns[0].cast(whole), whole, plain=False)
        case "CAST" if constants[0] == "STRING" and _kind(known[0].type) in ("integer", "text"):
            return _Typed(columns[0].cast(text), text, plain=False)
        case _ if function.group == "Time" and function.spark and len(arguments) == 1:
            return _Typed(_read_part(name, known[0]).cast(whole), whole, plain=False)
    raise _CannotTranslate(f"{name}: Spark computes it differently")


def _read_part(name: str, time: _Typed) -> Column:
    """Return a part of a time in UTC, in any session."""
    function = find_function(name)
    assert function is not None
    if not isinstance(time.type, T.TimestampType):
        return F.call_function(function.spark, time.column.cast(T.TimestampNTZType()))
    micros = F.unix_micros(time.column)
    match name:
        case "HOUR":
            return F.floor(F.pmod(micros, F.lit(_DAY)) / F.lit(_HOUR))
        case "MINUTE":
            return F.floor(F.pmod(micros, F.lit(_HOUR)) / F.lit(_MINUTE))
        case "SECOND":
            return F.floor(F.pmod(micros, F.lit(_MINUTE)) / F.lit(_SECOND))
    midnight = micros - F.pmod(micros, F.lit(_DAY))
    day = F.date_from_unix_date(F.round(midnight / F.lit(_DAY)).cast("int"))
    return F.call_function(function.spark, day)


def _as_constant(found: Operand) -> Constant | None:
    assert found is None or isinstance(found, Constant)
    return found


# ------------------------------------------------------- regular expressions

_SPECIAL = frozenset("\\.^$|?*+()[]{}")


def _branches(pattern: str) -> list[list[str]] | None:
    """Split a pattern into alternatives of plain texts around `.*`; None if it has more.

    >>> _branches("GOO.*|a[.]b"), _branches(r"GOO.*|a\\.b")
    (None, [['GOO', ''], ['a.b']])
    """
    branches, i = [[""]], 0
    while i < len(pattern):
        char = pattern[i]
        if pattern.startswith(".*", i):
            branches[-1].append("")
            i += 2 + pattern.startswith("?", i + 2)
            continue
        if char == "|":
            branches.append([""])
        elif char == "\\":
            i += 1
            char = pattern[i : i + 1]
            if not char or char not in string.punctuation or char == "_":
                return None
            branches[-1][-1] += char
        elif char in _SPECIAL or "\ud800" <= char <= "\udfff":
            return None
        else:
            branches[-1][-1] += char
        i += 1
    return branches
