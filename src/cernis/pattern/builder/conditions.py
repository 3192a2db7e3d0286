"""Build conditions and terms: what is said of a whole match in FILTER and SELECT."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, overload

from cernis.pattern import predicate as pred
from cernis.pattern.builder.arguments import check_name, refuse, show
from cernis.pattern.builder.durations import sum_units
from cernis.pattern.builder.predicates import (
    ArithmeticOperator,
    NoTruth,
    Operators,
    PredicateBuilder,
    ValueBuilder,
    make_attribute,
    make_literal,
    make_value,
    unwrap_predicate,
)
from cernis.pattern.check import AGGREGATES
from cernis.pattern.functions import find_function, suggest_function
from cernis.pattern.query import SelectedTerm, Variable
from cernis.pattern.suggest import did_you_mean
from cernis.pattern.write import (
    call_terms,
    capitalize_ascii,
    choose_terms,
    write_condition,
    write_term,
)

MonotoneOperator = Literal["<", "<=", ">", ">="]


class ConditionBuilder(NoTruth):
    """A condition on a match, for `filter`; combines with & | ~."""

    __slots__ = ("chained", "condition")

    def __init__(self, condition: pred.Condition, *, chained: bool = False) -> None:
        self.condition = condition
        self.chained = chained

    def __str__(self) -> str:
        return write_condition(self.condition)

    def _chain(self, node: type[pred.AllOf | pred.AnyOf], other: object) -> ConditionBuilder:
        mine = self.condition
        head = mine.parts if self.chained and isinstance(mine, node) else (mine,)
        return ConditionBuilder(node((*head, unwrap_condition(other))), chained=True)

    def __and__(self, other: ConditionBuilder) -> ConditionBuilder:
        return self._chain(pred.AllOf, other)

    def __or__(self, other: ConditionBuilder) -> ConditionBuilder:
        return self._chain(pred.AnyOf, other)

    def __invert__(self) -> ConditionBuilder:
        return ConditionBuilder(pred.deny(self.condition))


def unwrap_condition(clause: object) -> pred.Condition:
    """Return the condition that a builder holds."""
    if not isinstance(clause, ConditionBuilder):
        raise refuse(f"expected a condition such as p.var('x')['price'] > 100, not {show(clause)}")
    return clause.condition


class TermBuilder(Operators["TermBuilder", ConditionBuilder]):
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
        return SelectedTerm(self.term, check_name(name, "a column"))

    def _compare(self, op: pred.Operator, other: object) -> ConditionBuilder:
        return ConditionBuilder(pred.compare_terms(op, self.term, make_term(other)))

    def _calculate(
        self, op: ArithmeticOperator, other: object, swapped: bool = False
    ) -> TermBuilder:
        sides = (make_term(other), self.term) if swapped else (self.term, make_term(other))
        return TermBuilder(pred.Calculation(op, *sides))

    def __neg__(self) -> TermBuilder:
        return TermBuilder(pred.Opposite(self.term))


def make_term(value: object) -> pred.MatchTerm:
    """Return a term, or a constant as one."""
    match value:
        case TermBuilder():
            return value.term
        case timedelta():
            return pred.ConstantDuration(sum_units(value, {}))
        case _:
            return make_literal(value)


def call(function: str, *arguments: object) -> Any:
    """Return a function of values: of attributes inside brackets, or of terms elsewhere.

    One that is true or false makes a predicate, or a condition.

    >>> from cernis.pattern.builder.predicates import attr
    >>> str(call("LOWER", attr("user")) == "ann"), str(call("STARTS_WITH", attr("user"), "a"))
    ("LOWER(user) = 'ann'", "STARTS_WITH(user, 'a')")
    """
    name = capitalize_ascii(check_name(function, "a function"))
    known = find_function(name)
    if known is None:
        raise refuse(f"unknown function {function!r}", suggest_function(name))
    is_test = known.gives == "boolean"
    if any(isinstance(each, TermBuilder) for each in arguments):
        term = call_terms(name, tuple(map(make_term, arguments)))
        if is_test:
            return ConditionBuilder(pred.compare_terms("=", term, pred.Literal(True)))
        return TermBuilder(term)
    value = pred.Call(name, tuple(map(make_value, arguments)))
    if is_test:
        return PredicateBuilder(pred.Comparison("=", value, pred.Literal(True)))
    return ValueBuilder(value)


def if_(test: object, chosen: object, otherwise: object = None) -> Any:
    """Return `IF(test, chosen, otherwise)`: of attributes inside brackets, or of terms.

    >>> from cernis.pattern.builder.predicates import attr
    >>> str(if_(attr("size") > 9, "big", "small") == attr("kind"))
    "CASE WHEN size > 9 THEN 'big' ELSE 'small' END = kind"
    """
    if isinstance(test, PredicateBuilder):
        rest = None if otherwise is None else make_value(otherwise)
        return ValueBuilder(pred.Case(((test.predicate, make_value(chosen)),), rest))
    if not isinstance(test, ConditionBuilder):
        raise refuse(f"if_ needs a condition, not {show(test)}")
    last = None if otherwise is None else make_term(otherwise)
    found = choose_terms([(test.condition, make_term(chosen))], last)
    if found is None:
        raise refuse("PREV, INCREASING and its relatives do not stand in IF and CASE")
    return TermBuilder(found)


class Property(TermBuilder):
    """`x[a]`: compared with another one, or with a constant, it makes a condition."""

    __slots__ = ("reference",)

    def __init__(self, reference: pred.Reference) -> None:
        super().__init__(reference)
        self.reference = reference

    def _compare(self, op: pred.Operator, other: object) -> ConditionBuilder:
        if isinstance(other, TermBuilder):
            return super()._compare(op, other)
        if self.reference.previous:
            raise refuse(
                f"{self} is compared with an attribute of a variable, not {show(other)}",
                "a comparison with a constant stands inside the brackets: p.var('x')[…]",
            )
        if isinstance(other, timedelta):
            return super()._compare(op, other)
        test = pred.Comparison(op, self.reference.attribute, make_value(other))
        return ConditionBuilder(pred.Holds(self.reference.variable, test))


@dataclass(frozen=True, slots=True)
class Var:
    """A variable of the pattern.

    >>> import cernis.pattern as p
    >>> a, b = p.var("a"), p.var("b")
    >>> str(a["price"] < b["price"]), str(a[p.attr("price") > 100])
    ('a[price] < b[price]', 'a[price > 100]')
    """

    name: str

    @overload
    def __getitem__(self, inside: str) -> Property: ...

    @overload
    def __getitem__(self, inside: PredicateBuilder) -> ConditionBuilder: ...

    def __getitem__(self, inside: str | PredicateBuilder) -> Property | ConditionBuilder:
        if isinstance(inside, str):
            return Property(pred.Reference(self.name, make_attribute((inside,))))
        return ConditionBuilder(pred.Holds(self.name, unwrap_predicate(inside)))

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
        return ConditionBuilder(pred.Monotone(self.name, make_attribute((attribute,)), op))

    def only(self, *attributes: str) -> Variable:
        """Select the variable with these attributes alone."""
        return Variable(self.name, tuple(make_attribute((name,)).name for name in attributes))


def var(name: str) -> Var:
    return Var(check_name(name, "a variable"))


@dataclass(frozen=True, slots=True)
class Prev:
    """The event before, where it is one of a variable."""

    name: str

    def __getitem__(self, attribute: str) -> Property:
        path = make_attribute((check_name(attribute, "an attribute"),))
        return Property(pred.Reference(self.name, path, previous=True))


def prev(variable: str | Var) -> Prev:
    """`PREV(x)`: in a comparison, the event right before the other side's event.

    >>> s = var("s")
    >>> str(prev(s)["price"] < s["price"]), str(s["price"] > prev("t")["price"])
    ('PREV(s)[price] < s[price]', 'PREV(t)[price] < s[price]')
    >>> str(s["price"] - prev(s)["price"] > 5)
    's[price] - PREV(s)[price] > 5'
    """
    return Prev(variable.name if isinstance(variable, Var) else check_name(variable, "a variable"))


def refer_to(side: Property, where: str) -> pred.Reference:
    """Return the reference of a property; refuse the event before, which has no meaning there."""
    if side.reference.previous:
        raise refuse(
            f"{side} has no meaning in {where}", "prev() stands in a comparison of filter()"
        )
    return side.reference


START = TermBuilder(pred.IntervalTime("START"))
"""The time at which a match starts."""

END = TermBuilder(pred.IntervalTime("END"))
"""The time at which a match ends."""


def count(of: str | Var | Property | None = None, *, distinct: bool = False) -> TermBuilder:
    """`COUNT(*)`, `COUNT(x)`, `COUNT(x[a])` or `COUNT(DISTINCT x[a])`."""
    match of:
        case Property():
            argument: str | pred.Reference | None = refer_to(of, "COUNT")
        case None:
            argument = None
        case _:
            argument = check_name(of.name if isinstance(of, Var) else of, "a variable")
    return TermBuilder(pred.Aggregate("COUNT", argument, distinct))


def aggregate(function: str, of: Property) -> TermBuilder:
    """`SUM(x[a])` and the like: SUM, MIN, MAX, AVG, FIRST, LAST.

    >>> import cernis.pattern as p
    >>> total = p.aggregate("sum", p.var("a")["price"])
    >>> print(p.select(total).where(p.event("A").as_("a")).build())
    SELECT SUM(a[price]) WHERE A AS a
    """
    name = capitalize_ascii(check_name(function, "an aggregate"))
    if name not in AGGREGATES:
        raise refuse(f"unknown aggregate '{function}'", did_you_mean(name, AGGREGATES))
    if not isinstance(of, Property):
        raise refuse(f"{name} needs an attribute of a variable", "write p.var('x')['a']")
    return TermBuilder(pred.Aggregate(name, refer_to(of, name)))
