"""Build patterns without text: functions and operators that make the nodes of a `Pattern`.

A built pattern equals the one that the parser makes of the same query's text. Formulas combine with
`>>` (some time later), `|` (either) and `&` (in any order), or by the named functions;
predicates and conditions combine with `&`, `|` and `~`. A chain of one operator is one
node, as in the text; a group in parentheses on the right, or made by a named function,
stays a group.

>>> import cernis.pattern as p
>>> sell = p.event("SELL").as_("a").where(p.attr("price") > 100)
>>> print(p.select().from_("S").where(sell >> p.event("BUY")).within(minutes=5).build())
SELECT * FROM S WHERE (SELL AS a FILTER a[price > 100]) ; BUY WITHIN 5 MINUTES
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, Generic, Literal, NoReturn, SupportsIndex, TypeVar, overload

from cernis.errors import Diagnostic, QueryError
from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.check import AGGREGATES, resolve
from cernis.pattern.query import (
    Absence,
    Consume,
    Grouping,
    OrderBy,
    Pattern,
    Select,
    SelectedTerm,
    Strategy,
    Suppression,
    TableJoin,
    Unit,
    Variable,
    Window,
)
from cernis.pattern.selection import settle_select
from cernis.pattern.suggest import did_you_mean
from cernis.pattern.window import Gap
from cernis.pattern.write import (
    write_condition,
    write_formula,
    write_predicate,
    write_previous,
    write_term,
    write_value,
)
from cernis.schema import Schema

Constant = bool | int | float | str | date | datetime
Choices = TypeVar("Choices", Strategy, Consume)
ArithmeticOperator = Literal["+", "-", "*", "/", "%"]
MonotoneOperator = Literal["<", "<=", ">", ">="]


def _fail(message: str, suggestion: str | None = None) -> NoReturn:
    raise QueryError([Diagnostic(message, suggestion=suggestion)])


def _check_name(name: object, what: str) -> str:
    if not isinstance(name, str) or not name:
        _fail(f"{what} must be a string that is not empty, not {name!r}")
    return name


def _check_whole(number: object, what: str) -> int:
    if isinstance(number, bool) or not isinstance(number, SupportsIndex):
        _fail(f"{what} must be a whole number, not {number!r}")
    return number.__index__()


def _make_literal(value: object) -> pred.Literal:
    match value:
        case bool() | str():
            return pred.Literal(value)
        case float():
            if not math.isfinite(value):
                _fail(f"a number must be finite, not {value!r}")
            return pred.Literal(float(value))
        case date():
            return pred.Literal(value.isoformat())
        case SupportsIndex():
            return pred.Literal(value.__index__())
        case _:
            _fail(f"a constant must be a number, a string, a boolean or a time, not {value!r}")


class _NoTruth:
    """Refuses to be a truth value, which Python's `and`, `or` and `not` would take silently."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        _fail(
            "a predicate has no truth value in Python",
            "combine with & | ~ instead of and, or, not; write a < b < c as two comparisons",
        )


# ------------------------------------------------------------ values, predicates


Made = TypeVar("Made")
Test = TypeVar("Test")


class _Operators(_NoTruth, Generic[Made, Test]):
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


class ValueBuilder(_Operators["ValueBuilder", "PredicateBuilder"]):
    """A value between brackets: comparisons with it make tests."""

    __slots__ = ("value",)

    def __init__(self, value: pred.Value) -> None:
        self.value = value

    def __str__(self) -> str:
        return write_value(self.value)

    def _compare(self, op: pred.Operator, other: object) -> PredicateBuilder:
        return PredicateBuilder(pred.Comparison(op, self.value, _make_value(other)))

    def _calculate(
        self, op: ArithmeticOperator, other: object, swapped: bool = False
    ) -> ValueBuilder:
        sides = (_make_value(other), self.value) if swapped else (self.value, _make_value(other))
        return ValueBuilder(pred.Arithmetic(op, *sides))

    def __neg__(self) -> ValueBuilder:
        return ValueBuilder(pred.Negative(self.value))

    def like(self, regex: str) -> PredicateBuilder:
        """Test whether the regular expression matches the whole string."""
        return PredicateBuilder(pred.Like(self.value, _check_name(regex, "a regular expression")))

    def is_in(self, values: Iterable[Constant]) -> PredicateBuilder:
        """Test whether the value is one of these."""
        constants = tuple(map(_make_literal, values))
        if not constants:
            _fail("is_in() needs at least one value")
        return PredicateBuilder(pred.InSet(self.value, constants))

    def between(self, low: Constant, high: Constant) -> PredicateBuilder:
        """Test whether the value lies between the two, both included."""
        return PredicateBuilder(pred.InRange(self.value, _make_literal(low), _make_literal(high)))

    def is_null(self) -> PredicateBuilder:
        return PredicateBuilder(pred.IsNull(self.value))

    def is_not_null(self) -> PredicateBuilder:
        return PredicateBuilder(pred.IsNull(self.value, negated=True))


def _make_value(value: object) -> pred.Value:
    if isinstance(value, ValueBuilder):
        return value.value
    if isinstance(value, Property):
        _fail(
            f"{value} is an attribute of a variable and cannot stand inside its brackets",
            "use p.attr(name) inside a predicate",
        )
    return _make_literal(value)


class PredicateBuilder(_NoTruth):
    """A predicate on one event; combines with & | ~."""

    __slots__ = ("chained", "predicate")
    __test__ = False  # not a test class of pytest

    def __init__(self, predicate: pred.Predicate, *, chained: bool = False) -> None:
        self.predicate = predicate
        self.chained = chained

    def __str__(self) -> str:
        return write_predicate(self.predicate)

    def __and__(self, other: PredicateBuilder) -> PredicateBuilder:
        mine, its = self.predicate, _unwrap_predicate(other)
        head = mine.parts if self.chained and isinstance(mine, pred.And) else (mine,)
        return PredicateBuilder(pred.And((*head, its)), chained=True)

    def __or__(self, other: PredicateBuilder) -> PredicateBuilder:
        mine, its = self.predicate, _unwrap_predicate(other)
        head = mine.parts if self.chained and isinstance(mine, pred.Or) else (mine,)
        return PredicateBuilder(pred.Or((*head, its)), chained=True)

    def __invert__(self) -> PredicateBuilder:
        return PredicateBuilder(pred.Negation(self.predicate))


def _unwrap_predicate(test: object) -> pred.Predicate:
    if not isinstance(test, PredicateBuilder):
        _fail(f"expected a predicate such as p.attr('price') > 100, not {_show(test)}")
    return test.predicate


def attr(*path: str) -> ValueBuilder:
    """Return an attribute of the event; nested ones by dots or by several names.

    >>> str(attr("price") * 2 > 100), str(attr("user", "id")), str(attr("user.id"))
    ('price * 2 > 100', 'user.id', 'user.id')
    """
    return ValueBuilder(_make_attribute(path))


def _make_attribute(path: tuple[str, ...]) -> pred.Attribute:
    names = tuple(_check_name(part, "an attribute") for part in path)
    if len(names) == 1:
        names = tuple(names[0].split("."))
    if not names or not all(names):
        _fail(f"an attribute must have a name, not {path!r}")
    return pred.Attribute(names)


def const(value: Constant) -> ValueBuilder:
    """Return a constant, where Python would otherwise compute: `p.const(1) + 1`."""
    return ValueBuilder(_make_literal(value))


# -------------------------------------------------------------------- conditions


class ConditionBuilder(_NoTruth):
    """A condition on a match, for `filter`; combines with & and |."""

    __slots__ = ("chained", "condition")

    def __init__(self, condition: pred.Condition, *, chained: bool = False) -> None:
        self.condition = condition
        self.chained = chained

    def __str__(self) -> str:
        return write_condition(self.condition)

    def __and__(self, other: ConditionBuilder) -> ConditionBuilder:
        mine, its = self.condition, _unwrap_condition(other)
        head = mine.parts if self.chained and isinstance(mine, pred.AllOf) else (mine,)
        return ConditionBuilder(pred.AllOf((*head, its)), chained=True)

    def __or__(self, other: ConditionBuilder) -> ConditionBuilder:
        mine, its = self.condition, _unwrap_condition(other)
        head = mine.parts if self.chained and isinstance(mine, pred.AnyOf) else (mine,)
        return ConditionBuilder(pred.AnyOf((*head, its)), chained=True)

    def __invert__(self) -> NoReturn:
        _fail("a condition cannot be negated", "negate the predicate: p.var('x')[~(…)]")


def _unwrap_condition(clause: object) -> pred.Condition:
    if not isinstance(clause, ConditionBuilder):
        _fail(f"expected a condition such as p.var('x')['price'] > 100, not {_show(clause)}")
    return clause.condition


class TermBuilder(_Operators["TermBuilder", ConditionBuilder]):
    """A value of the whole match: an aggregate, a time of its interval, or arithmetic of them.

    >>> str(count("x") * 2 >= 6), str((END - START).as_("length"))
    ('COUNT(x) * 2 >= 6', 'END - START AS length')
    """

    __slots__ = ("term",)

    def __init__(self, term: pred.MatchTerm) -> None:
        self.term = term

    def __str__(self) -> str:
        return write_term(self.term)

    def as_(self, name: str) -> SelectedTerm:
        """`term AS name`, for `select`."""
        return SelectedTerm(self.term, _check_name(name, "a column"))

    def _compare(self, op: pred.Operator, other: object) -> ConditionBuilder:
        return ConditionBuilder(pred.CompareTerms(op, self.term, _make_term(other)))

    def _calculate(
        self, op: ArithmeticOperator, other: object, swapped: bool = False
    ) -> TermBuilder:
        sides = (_make_term(other), self.term) if swapped else (self.term, _make_term(other))
        return TermBuilder(pred.Calculation(op, *sides))

    def __neg__(self) -> TermBuilder:
        return TermBuilder(pred.Opposite(self.term))


def _make_term(value: object) -> pred.MatchTerm:
    match value:
        case Property():
            return _reference_of(value, "arithmetic")
        case TermBuilder():
            return value.term
        case timedelta():
            return pred.ConstantDuration(_sum_units(value, {}))
        case _:
            return _make_literal(value)


class Property(TermBuilder):
    """`x[a]`: compared with another one, or with a constant, it makes a condition."""

    __slots__ = ("previous", "reference")

    def __init__(self, reference: pred.Reference, *, previous: bool = False) -> None:
        super().__init__(reference)
        self.reference = reference
        self.previous = previous

    def __str__(self) -> str:
        if self.previous:
            return write_previous(self.reference)
        return f"{self.reference.variable}[{self.reference.attribute.name}]"

    def _compare(self, op: pred.Operator, other: object) -> ConditionBuilder:
        if isinstance(other, Property):
            if self.previous and other.previous:
                _fail("prev() stands on one side of a comparison")
            if other.previous:
                return other._compare(pred.MIRRORED[op], self)
            return ConditionBuilder(
                pred.Compare(op, self.reference, other.reference, adjacent=self.previous)
            )
        if self.previous:
            _fail(
                f"{self} is compared with an attribute of a variable, not {_show(other)}",
                "a comparison with a constant stands inside the brackets: p.var('x')[…]",
            )
        if isinstance(other, TermBuilder | timedelta):
            return super()._compare(op, other)
        test = pred.Comparison(op, self.reference.attribute, _make_value(other))
        return ConditionBuilder(pred.Holds(self.reference.variable, test))

    def _calculate(
        self, op: ArithmeticOperator, other: object, swapped: bool = False
    ) -> TermBuilder:
        _reference_of(self, "arithmetic")
        return super()._calculate(op, other, swapped)


@dataclass(frozen=True, slots=True)
class Var:
    """A variable of the pattern.

    >>> str(var("a")["price"] < var("b")["price"]), str(var("a")[attr("price") > 100])
    ('a[price] < b[price]', 'a[price > 100]')
    """

    name: str

    @overload
    def __getitem__(self, inside: str) -> Property: ...

    @overload
    def __getitem__(self, inside: PredicateBuilder) -> ConditionBuilder: ...

    def __getitem__(self, inside: str | PredicateBuilder) -> Property | ConditionBuilder:
        if isinstance(inside, str):
            return Property(pred.Reference(self.name, _make_attribute((inside,))))
        return ConditionBuilder(pred.Holds(self.name, _unwrap_predicate(inside)))

    def increasing(self, attribute: str) -> ConditionBuilder:
        """`x INCREASING BY a`: each event of x has more than the one before."""
        return self._ordered("<", attribute)

    def nondecreasing(self, attribute: str) -> ConditionBuilder:
        return self._ordered("<=", attribute)

    def decreasing(self, attribute: str) -> ConditionBuilder:
        return self._ordered(">", attribute)

    def nonincreasing(self, attribute: str) -> ConditionBuilder:
        return self._ordered(">=", attribute)

    def _ordered(self, op: MonotoneOperator, attribute: str) -> ConditionBuilder:
        return ConditionBuilder(pred.Monotone(self.name, _make_attribute((attribute,)), op))

    def only(self, *attributes: str) -> Variable:
        """Select the variable with these attributes alone."""
        return Variable(self.name, tuple(_make_attribute((name,)).name for name in attributes))


def var(name: str) -> Var:
    return Var(_check_name(name, "a variable"))


@dataclass(frozen=True, slots=True)
class Prev:
    """The event before, where it is one of a variable."""

    name: str

    def __getitem__(self, attribute: str) -> Property:
        path = _make_attribute((_check_name(attribute, "an attribute"),))
        return Property(pred.Reference(self.name, path), previous=True)


def prev(variable: str | Var) -> Prev:
    """`PREV(x)`: in a comparison, the event right before the other side's event.

    >>> s = var("s")
    >>> str(prev(s)["price"] < s["price"]), str(s["price"] > prev("t")["price"])
    ('PREV(s)[price] < s[price]', 'PREV(t)[price] < s[price]')
    """
    return Prev(variable.name if isinstance(variable, Var) else _check_name(variable, "a variable"))


def _reference_of(side: Property, where: str) -> pred.Reference:
    """Return the reference of a property; refuse the event before, which has no meaning there."""
    if side.previous:
        _fail(f"{side} has no meaning in {where}", "prev() stands in a comparison of filter()")
    return side.reference


# ---------------------------------------------------------------------- formulas


@dataclass(frozen=True, slots=True)
class FormulaBuilder:
    """A formula being built; every method gives a new one."""

    formula: cel.Formula
    chained: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        return write_formula(self.formula)

    def __bool__(self) -> bool:
        _fail("a formula has no truth value in Python", "combine with >> | & instead")

    def as_(self, variable: str) -> FormulaBuilder:
        """`φ AS x`."""
        return FormulaBuilder(cel.As(self.formula, _check_name(variable, "a variable")))

    def where(self, test: PredicateBuilder) -> FormulaBuilder:
        """`φ FILTER x[P]` for a single event, or for what `as_` has just named."""
        match self.formula:
            case cel.As(variable=name) | cel.Event(type=name):
                return FormulaBuilder(
                    cel.Filter(self.formula, pred.Holds(name, _unwrap_predicate(test)))
                )
            case cel.Filter(body=cel.As(variable=name)) | cel.Filter(body=cel.Event(type=name)):
                return FormulaBuilder(
                    cel.Filter(self.formula, pred.Holds(name, _unwrap_predicate(test)))
                )
            case _:
                _fail(
                    f"where() needs an event or a named formula, not {self}",
                    "name it with as_() first, or use filter(p.var('x')[…])",
                )

    def filter(self, condition: ConditionBuilder) -> FormulaBuilder:
        """`φ FILTER condition`."""
        return FormulaBuilder(cel.Filter(self.formula, _unwrap_condition(condition)))

    def plus(
        self, *, contiguous: bool = False, follow: bool = False, gap: Gap | None = None
    ) -> FormulaBuilder:
        """`φ+`, `φ:+` or, with `follow`, `φ->+`: one or more times; `φ+[gap]`."""
        link = _make_link(contiguous, follow, gap)
        return FormulaBuilder(cel.Iterate(self.formula, 1, None, *link))

    def times(
        self,
        low: int,
        high: int | None = -1,
        *,
        contiguous: bool = False,
        follow: bool = False,
        gap: Gap | None = None,
    ) -> FormulaBuilder:
        """`φ{low}`, `φ{low,high}`, or with high None `φ{low,}`; with `follow` `φ->{low}`."""
        least = _check_whole(low, "the lower bound")
        most = least if high == -1 else high
        if most is not None:
            most = _check_whole(most, "the upper bound")
        if least < 0 or (most is not None and most < max(least, 1)):
            _fail(f"times({low}, {most}) allows no number of repetitions")
        link = _make_link(contiguous, follow, gap)
        return FormulaBuilder(cel.Iterate(self.formula, least, most, *link))

    def optional(self) -> FormulaBuilder:
        """`φ?`."""
        return FormulaBuilder(cel.Optional(self.formula))

    def unless(self, guard: FormulaBuilder | str) -> FormulaBuilder:
        """`φ UNLESS ψ`: no ψ lies strictly inside."""
        return FormulaBuilder(cel.Unless(self.formula, _make_formula(guard)))

    def within(
        self,
        length: timedelta | None = None,
        *,
        events: int | None = None,
        attribute: str | None = None,
        size: float | Decimal | Fraction | None = None,
        **units: float | Decimal | Fraction,
    ) -> FormulaBuilder:
        """`(φ WITHIN w)`, with the arguments of the query's `within`."""
        window = _make_window(length, events, attribute, size, units)
        return FormulaBuilder(cel.Within(self.formula, window))

    def partition_by(self, *keys: str | Property) -> FormulaBuilder:
        """`(φ PARTITION BY [a])`, or with p.var('x')['a'] for each variable."""
        if not keys:
            _fail("partition_by() needs an attribute")
        return FormulaBuilder(cel.PartitionBy(self.formula, tuple(map(_make_key, keys))))

    def _chain(
        self, node: type[cel.Sequence | cel.Choice | cel.All], other: object
    ) -> FormulaBuilder:
        mine = self.formula
        plain = not isinstance(mine, cel.Sequence) or not mine.separators
        head = mine.parts if self.chained and isinstance(mine, node) and plain else (mine,)
        return FormulaBuilder(node((*head, _make_formula(other))), chained=True)

    def __rshift__(self, other: FormulaBuilder | str) -> FormulaBuilder:
        return self._chain(cel.Sequence, other)

    def __or__(self, other: FormulaBuilder | str) -> FormulaBuilder:
        return self._chain(cel.Choice, other)

    def __and__(self, other: FormulaBuilder | str) -> FormulaBuilder:
        return self._chain(cel.All, other)


def gap(
    most: timedelta | None = None,
    *,
    least: timedelta | None = None,
    events: int | tuple[int, int] | None = None,
    **units: float | Decimal | Fraction,
) -> Gap:
    """`[d]`, `[d TO e]`, `[n EVENTS]`: how far a part begins after the part before.

    >>> print(seq("A", "B", gap=gap(minutes=5)))
    A ;[5 MINUTES] B
    >>> print(seq("A", "B", gap=gap(events=(2, 4))))
    A ;[2 TO 4 EVENTS] B
    """
    timed = most is not None or bool(units)
    if timed == (events is not None) or (events is not None and least is not None):
        _fail("gap() takes a duration, or events")
    if events is not None:
        low, high = (0, events) if isinstance(events, int) else events
        most_events, least_events = (Fraction(_check_whole(n, "events")) for n in (high, low))
        return Gap(Unit.EVENTS, most_events, least_events)
    shortest = _sum_units(least, {}) if least is not None else Fraction(0)
    return Gap(Unit.TIME, _sum_units(most, units, "gap"), shortest)


def _make_link(contiguous: bool, follow: bool, between: Gap | None) -> tuple[bool, cel.Separator]:
    """Return how the rounds of an iteration follow each other."""
    if contiguous and (follow or between is not None):
        _fail("contiguous rounds have nothing between them", "leave out follow and gap")
    return contiguous, cel.Separator(follow, between)


def _make_key(key: str | Property) -> cel.KeyPart:
    if isinstance(key, Property):
        reference = _reference_of(key, "partition_by()")
        return cel.KeyPart(reference.variable, reference.attribute)
    return cel.KeyPart(None, _make_attribute((_check_name(key, "an attribute"),)))


def _make_formula(part: object) -> cel.Formula:
    match part:
        case FormulaBuilder(formula=formula):
            return formula
        case str():
            return cel.Event(_check_name(part, "an event type"))
        case (
            cel.Event()
            | cel.Not()
            | cel.As()
            | cel.Sequence()
            | cel.Contiguous()
            | cel.Choice()
            | cel.All()
            | cel.Iterate()
            | cel.Optional()
            | cel.Filter()
            | cel.PartitionBy()
            | cel.Within()
            | cel.Unless()
        ):
            return part
        case _:
            _fail(f"expected a formula such as p.event('A'), not {_show(part)}")


def _show(value: object) -> str:
    text = (
        str(value)
        if isinstance(
            value, FormulaBuilder | PredicateBuilder | ConditionBuilder | ValueBuilder | Property
        )
        else repr(value)
    )
    return text if len(text) <= 60 else text[:59] + "…"


def _make_parts(what: str, parts: tuple[object, ...]) -> tuple[cel.Formula, ...]:
    if len(parts) < 2:
        _fail(f"{what}() needs at least two formulas")
    return tuple(map(_make_formula, parts))


def event(type_: str, *, stream: str | None = None) -> FormulaBuilder:
    """`E`, or `S>E`."""
    source = None if stream is None else _check_name(stream, "a stream")
    return FormulaBuilder(cel.Event(_check_name(type_, "an event type"), source))


def no(body: FormulaBuilder | str) -> FormulaBuilder:
    """`NOT E`, `NOT (E FILTER P)`: one event that is not such an E."""
    return FormulaBuilder(cel.Not(_make_formula(body)))


def seq(*parts: FormulaBuilder | str, gap: Gap | None = None) -> FormulaBuilder:
    """`φ ; ψ`: some time later; with a gap `φ ;[gap] ψ`."""
    made = _make_parts("seq", parts)
    separators = (cel.Separator(gap=gap),) * (len(made) - 1)
    return FormulaBuilder(cel.Sequence(made, separators))


def follow(*parts: FormulaBuilder | str, gap: Gap | None = None) -> FormulaBuilder:
    """`φ -> ψ`: each part begins with the first event that fits; with a gap `φ ->[gap] ψ`.

    >>> print(follow("DEPLOY", event("FAILURE").plus()))
    DEPLOY -> FAILURE+
    """
    made = _make_parts("follow", parts)
    separators = (cel.Separator(True, gap),) * (len(made) - 1)
    return FormulaBuilder(cel.Sequence(made, separators))


def then(*parts: FormulaBuilder | str) -> FormulaBuilder:
    """`φ : ψ`: right after."""
    return FormulaBuilder(cel.Contiguous(_make_parts("then", parts)))


def either(*parts: FormulaBuilder | str) -> FormulaBuilder:
    """`φ OR ψ`."""
    return FormulaBuilder(cel.Choice(_make_parts("either", parts)))


def all_of(*parts: FormulaBuilder | str) -> FormulaBuilder:
    """`φ ALL ψ`: in any order."""
    return FormulaBuilder(cel.All(_make_parts("all_of", parts)))


# ------------------------------------------------------------------------ query


START = TermBuilder(pred.IntervalTime("START"))
"""The time at which a match starts."""

END = TermBuilder(pred.IntervalTime("END"))
"""The time at which a match ends."""


def count(of: str | Var | Property | None = None, *, distinct: bool = False) -> TermBuilder:
    """`COUNT(*)`, `COUNT(x)`, `COUNT(x[a])` or `COUNT(DISTINCT x[a])`."""
    match of:
        case Property():
            argument: str | pred.Reference | None = _reference_of(of, "COUNT")
        case None:
            argument = None
        case _:
            argument = _check_name(of.name if isinstance(of, Var) else of, "a variable")
    return TermBuilder(pred.Aggregate("COUNT", argument, distinct))


def aggregate(function: str, of: Property) -> TermBuilder:
    """`SUM(x[a])` and the like: SUM, MIN, MAX, AVG, FIRST, LAST.

    >>> print(select(aggregate("sum", var("a")["price"])).where(event("A").as_("a")).build())
    SELECT SUM(a[price]) WHERE A AS a
    """
    name = _check_name(function, "an aggregate").upper()
    if name not in AGGREGATES:
        _fail(f"unknown aggregate '{function}'", did_you_mean(name, AGGREGATES))
    if not isinstance(of, Property):
        _fail(f"{name} needs an attribute of a variable", "write p.var('x')['a']")
    return TermBuilder(pred.Aggregate(name, _reference_of(of, name)))


def _choose_member(kind: type[Choices], word: object, what: str) -> Choices:
    if isinstance(word, kind):
        return word
    name = _check_name(word, what).upper()
    options = [member.value for member in kind]
    if name not in options:
        _fail(f"unknown {what} '{word}'", did_you_mean(name, options))
    return kind(name)


def _read_number(number: object, what: str) -> Fraction:
    if isinstance(number, bool) or not isinstance(number, int | float | Decimal | Fraction):
        _fail(f"{what} must be a number, not {number!r}")
    if isinstance(number, float | Decimal) and not math.isfinite(number):
        _fail(f"{what} must be finite")
    # a float is taken as it prints: 0.1 seconds is 100 milliseconds
    return Fraction(repr(number)) if isinstance(number, float) else Fraction(number)


_SIZES = {
    "days": 86_400_000_000_000,
    "hours": 3_600_000_000_000,
    "minutes": 60_000_000_000,
    "seconds": 1_000_000_000,
    "milliseconds": 1_000_000,
}


def _sum_units(length: timedelta | None, units: dict[str, Any], method: str = "within") -> Fraction:
    size = Fraction(0)
    if length is not None:
        size += Fraction(length // timedelta(microseconds=1)) * 1000
    for unit, number in units.items():
        if unit not in _SIZES:
            _fail(f"unknown unit '{unit}' in {method}()", did_you_mean(unit, _SIZES))
        size += _read_number(number, unit) * _SIZES[unit]
    return size


def _make_window(
    length: timedelta | None,
    events: int | None,
    attribute: str | None,
    size: float | Decimal | Fraction | None,
    units: dict[str, Any],
) -> Window:
    timed = length is not None or bool(units)
    if (attribute is None) != (size is None):
        _fail("within() needs attribute and size together")
    if timed + (events is not None) + (attribute is not None) != 1:
        _fail("within() takes one of a duration, events, or attribute with size")
    if timed:
        return Window(Unit.TIME, _sum_units(length, units))
    if events is not None:
        return Window(Unit.EVENTS, Fraction(_check_whole(events, "events")))
    name = _make_attribute((_check_name(attribute, "an attribute"),))
    return Window(Unit.ATTRIBUTE, _read_number(size, "size"), name)


@dataclass(frozen=True, slots=True)
class QueryBuilder:
    """A query being built; every method gives a new one, `build` gives the `Pattern`."""

    draft: Pattern
    has_formula: bool = False

    def from_(self, *streams: str) -> QueryBuilder:
        names = tuple(_check_name(stream, "a stream") for stream in streams)
        return replace(self, draft=replace(self.draft, streams=names))

    def insert_into(self, stream: str) -> QueryBuilder:
        """`INSERT INTO stream SELECT …`: each match is an event of that stream, for other rules."""
        return replace(self, draft=replace(self.draft, into=_check_name(stream, "a stream")))

    def join(
        self, table: str, on: Mapping[str, str], *, left: bool = False, stream: str | None = None
    ) -> QueryBuilder:
        """`FROM S JOIN table ON a = table.b`, for `on={"a": "b"}`; by default the last stream.

        >>> print(select().from_("S").join("companies", {"name": "ticker"}).where("A").build())
        SELECT * FROM S JOIN companies ON name = companies.ticker WHERE A
        """
        streams = self.draft.streams
        if not streams:
            _fail("join() comes after from_()")
        if stream is not None and stream not in streams:
            _fail(f"join(stream={stream!r}): no such stream", did_you_mean(stream, streams))
        keys = tuple(
            (_make_attribute((a,)).name, _check_name(b, "a column")) for a, b in on.items()
        )
        name = _check_name(table, "a table")
        made = TableJoin(stream or streams[-1], name, keys, left)
        return replace(self, draft=replace(self.draft, joins=(*self.draft.joins, made)))

    def where(self, formula: FormulaBuilder | str) -> QueryBuilder:
        return QueryBuilder(replace(self.draft, formula=_make_formula(formula)), True)

    def filter(self, condition: ConditionBuilder) -> QueryBuilder:
        """Set the FILTER clause of the query; call it after `where`."""
        if not self.has_formula:
            _fail("filter() comes after where()")
        filtered = cel.Filter(self.draft.formula, _unwrap_condition(condition))
        return replace(self, draft=replace(self.draft, formula=filtered))

    def without(
        self,
        guard: FormulaBuilder | str,
        length: timedelta | None = None,
        *,
        events: int | None = None,
        before: bool = False,
        **units: float | Decimal | Fraction,
    ) -> QueryBuilder:
        """`without("PAY", hours=1)`: no PAY follows a match within that; `before`: none precedes.

        >>> print(select().where("ORDER").without("PAY", hours=1).build())
        SELECT * WHERE ORDER WITHOUT PAY FOR 1 HOUR
        """
        timed = length is not None or bool(units)
        if timed == (events is not None):
            _fail("without() takes a duration or events", "for example without('PAY', hours=1)")
        window = Window(Unit.TIME, _sum_units(length, units, "without"))
        if events is not None:
            window = Window(Unit.EVENTS, Fraction(_check_whole(events, "events")))
        absence = Absence(_make_formula(guard), window, before)
        return replace(self, draft=replace(self.draft, without=(*self.draft.without, absence)))

    def partition_by(self, *groups: str | Iterable[str]) -> QueryBuilder:
        """Set the key: each attribute, or list of alternatives, is one component."""
        keys = tuple(
            tuple(
                _make_attribute((name,)).name
                for name in ([group] if isinstance(group, str) else group)
            )
            for group in groups
        )
        if not all(keys):
            _fail("a group of partition_by() is empty")
        return replace(self, draft=replace(self.draft, partition=keys))

    def within(
        self,
        length: timedelta | None = None,
        *,
        events: int | None = None,
        attribute: str | None = None,
        size: float | Decimal | Fraction | None = None,
        **units: float | Decimal | Fraction,
    ) -> QueryBuilder:
        """`within(minutes=5, seconds=30)`, `within(events=10)`, `within(attribute="a", size=5)`."""
        window = _make_window(length, events, attribute, size, units)
        return replace(self, draft=replace(self.draft, within=window))

    def group_by(
        self,
        *components: str,
        every: timedelta | None = None,
        end: bool = False,
        having: ConditionBuilder | None = None,
    ) -> QueryBuilder:
        """`GROUP BY [a], EVERY d HAVING …`: aggregate over the matches of each group.

        >>> query = select(count()).where("A").partition_by("k")
        >>> print(query.group_by("k", every=timedelta(minutes=1), having=count() > 3).build())
        SELECT COUNT(*) WHERE A PARTITION BY [k] GROUP BY [k], EVERY 1 MINUTE HAVING COUNT(*) > 3
        """
        names = tuple(_check_name(name, "a component") for name in components)
        if not names and every is None and not end:
            _fail("group_by() needs a component of the partition, every=… or end=True")
        size = None if every is None else _sum_units(every, {})
        kept = None if having is None else _unwrap_condition(having)
        return replace(self, draft=replace(self.draft, grouping=Grouping(names, size, end, kept)))

    def consume(self, policy: str | Consume) -> QueryBuilder:
        chosen = _choose_member(Consume, policy, "policy")
        return replace(self, draft=replace(self.draft, consume=chosen))

    def order_by(self, term: TermBuilder, *, descending: bool = False) -> QueryBuilder:
        """`ORDER BY term [DESC]`: the matches of one end, sorted; `limit` keeps the first ones.

        >>> query = select().where(event("A").as_("a")).order_by(var("a")["x"], descending=True)
        >>> print(query.limit(1).build())
        SELECT * WHERE A AS a ORDER BY a[x] DESC LIMIT 1
        """
        if isinstance(term, Property):
            value: pred.MatchTerm = _reference_of(term, "order_by()")
        elif isinstance(term, TermBuilder):
            value = term.term
        else:
            _fail(f"order_by() takes a value, not {_show(term)}")
        return replace(self, draft=replace(self.draft, order=OrderBy(value, descending)))

    def limit(self, most: int, *, every: timedelta | None = None) -> QueryBuilder:
        """`LIMIT n`; after `order_by`, `every` counts in each interval of time."""
        draft = replace(self.draft, limit=_check_whole(most, "limit()"))
        if every is not None:
            if draft.order is None:
                _fail("limit(every=…) comes after order_by()")
            draft = replace(draft, order=replace(draft.order, every=_sum_units(every, {})))
        return replace(self, draft=draft)

    def forget_after(
        self, length: timedelta | None = None, **units: float | Decimal | Fraction
    ) -> QueryBuilder:
        """`forget_after(minutes=5)`: forget partitions without events for longer than that."""
        if length is None and not units:
            _fail("forget_after() needs a duration", "for example forget_after(minutes=5)")
        forget = _sum_units(length, units, "forget_after")
        return replace(self, draft=replace(self.draft, forget=forget))

    def suppress_by(
        self, *names: str, length: timedelta | None = None, **units: float | Decimal | Fraction
    ) -> QueryBuilder:
        """`SUPPRESS BY [names] FOR d`: a match silences those of equal values that follow it.

        >>> query = select().where("A").partition_by("user")
        >>> print(query.suppress_by("user", minutes=10).build())
        SELECT * WHERE A PARTITION BY [user] SUPPRESS BY [user] FOR 10 MINUTES
        """
        if not names:
            _fail("suppress_by() needs a component of the partition, or a value of select()")
        if length is None and not units:
            _fail("suppress_by() needs a duration", "for example suppress_by('user', minutes=5)")
        keys = tuple(_check_name(name, "a component or a value") for name in names)
        suppress = Suppression(keys, _sum_units(length, units, "suppress_by"))
        return replace(self, draft=replace(self.draft, suppress=suppress))

    def declare(self, schema: Schema) -> QueryBuilder:
        """Set the declarations of streams that stand before the query."""
        return replace(self, draft=replace(self.draft, declared=schema))

    def build(self) -> Pattern:
        """Return the pattern; raise QueryError with every mistake."""
        if not self.has_formula:
            _fail("the query has no formula", "call where() before build()")
        return resolve(settle_select(self.draft))

    def __str__(self) -> str:
        return str(self.build())


def _make_item(item: object) -> Variable | SelectedTerm:
    match item:
        case Variable() | SelectedTerm():
            return item
        case pred.Aggregate():
            return SelectedTerm(item)
        case Var(name=name):
            return Variable(name)
        case str():
            return Variable(_check_name(item, "a variable"))
        case Property():
            return SelectedTerm(_reference_of(item, "select()"))
        case TermBuilder():
            return SelectedTerm(item.term)
        case _:
            _fail(f"select() takes variables and values, not {_show(item)}")


def select(
    *items: str | Var | Variable | TermBuilder | SelectedTerm | pred.Aggregate,
    strategy: str | Strategy = "ALL",
) -> QueryBuilder:
    """`SELECT x, y[a], COUNT(*) AS n`; without items, or with "*", `SELECT *`."""
    everything = not items or (len(items) == 1 and isinstance(items[0], str) and items[0] == "*")
    chosen = Select() if everything else Select(False, tuple(map(_make_item, items)))
    draft = Pattern(cel.Event("-"), chosen, _choose_member(Strategy, strategy, "strategy"))
    return QueryBuilder(draft)


def select_none(*, strategy: str | Strategy = "ALL") -> QueryBuilder:
    """`SELECT NONE`: the intervals alone."""
    draft = Pattern(cel.Event("-"), Select(False), _choose_member(Strategy, strategy, "strategy"))
    return QueryBuilder(draft)
