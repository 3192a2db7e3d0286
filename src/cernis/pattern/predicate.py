"""Predicates, which stand between the brackets of `x[…]`, and the conditions made of them.

Three layers, all plain frozen trees that keep the span of their text (spans do not
take part in equality):

* *predicates* look at one event and follow SQL's three-valued logic. Values are
  `Attribute`, `Literal`, `Arithmetic`, `Negative`, `Call` of a function and `Case`; predicates are
  `Comparison`, `Like`, `InSet`, `InRange`, `IsNull`, `AnyElement` and `And`, `Or`, `Negation`
  over them.
* *terms* give a valuation one value: `Reference` to a variable with one event, `Aggregate` over
  the events of a variable, `IntervalTime` (START and END), `Literal`, `ConstantDuration`, and
  `Calculation`, `Opposite`, `TermCall` of terms. A function of one event's attributes is an
  attribute of that event: `LOWER(x[a])` is the `Reference` `x[LOWER(a)]`.
* *conditions* look at a valuation: `Holds` is `x[P]` (every event of x satisfies P),
  `Compare` is `x[a] op y[b]` (every pair does) or `PREV(x)[a] op y[b]` (every pair of
  neighbours does), `CompareNeighbours` is that with arithmetic, `CompareTerms` is `term op term`,
  `Monotone` is `x INCREASING BY a`, `AllOf` and `AnyOf` are AND and OR, and `Denied` is NOT before
  one of the others.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from fractions import Fraction
from math import isfinite, isinf
from operator import attrgetter
from typing import Any, TypeGuard, cast
from typing import Literal as OneOf

from cernis.errors import Span

Operator = OneOf["=", "!=", "<", "<=", ">", ">="]
Number = int | float | Decimal
Scalar = Number | str | bool

MIRRORED: Mapping[Operator, Operator] = {
    "=": "=",
    "!=": "!=",
    "<": ">",
    "<=": ">=",
    ">": "<",
    ">=": "<=",
}
"""`a op b` is `b MIRRORED[op] a`."""

OPPOSITE: Mapping[Operator, Operator] = {
    "=": "!=",
    "!=": "=",
    "<": ">=",
    "<=": ">",
    ">": "<=",
    ">=": "<",
}
"""`a op b` of two values that can be compared holds if `a OPPOSITE[op] b` does not."""

COMPARE: Mapping[Operator, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def read_number(text: str) -> float | Decimal | None:
    """Return the constant that a text with a fraction or an exponent writes.

    None: it is beyond all floats, or nearer to zero than they are.

    >>> read_number("0.10"), read_number("9007199254740992.02"), read_number("1e999")
    (0.1, Decimal('9007199254740992.02'), None)
    """
    near = float(text)
    if isinf(near) or (near == 0 and any(c in "123456789" for c in text.lower().split("e")[0])):
        return None
    digits = Decimal(text) if near else Decimal(0)
    return near if Decimal(repr(near)) == digits else digits


def is_number(value: object) -> TypeGuard[Number]:
    """Whether a value is a number; a boolean is none."""
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def to_exact(constant: Number) -> Number:
    """Return the number that a constant writes; infinity and NaN have no digits.

    >>> to_exact(0.1), to_exact(3)
    (Decimal('0.1'), 3)
    """
    is_written = isinstance(constant, float) and isfinite(constant)
    return Decimal(repr(constant)) if is_written else constant


def to_machine(constant: Number) -> int | float:
    """Return the number that arithmetic computes with."""
    return float(constant) if isinstance(constant, Decimal) else constant


def negate(constant: Number) -> Number:
    """Return minus a constant; Python's own minus rounds a `Decimal` to 28 digits."""
    return constant.copy_negate() if isinstance(constant, Decimal) else -constant


def compare_values(op: Operator, left: Any, right: Any) -> bool:
    """Compare two values of one kind.

    A decimal beside a float counts as the nearest float; other numbers compare exactly.

    >>> compare_values("=", Decimal("0.1"), 0.1), compare_values("<", Decimal("0.3"), 1)
    (True, True)
    """
    if isinstance(left, Decimal):
        left = _round_beside(left, right)
    elif isinstance(right, Decimal):
        right = _round_beside(right, left)
    return bool(COMPARE[op](left, right))


def _round_beside(value: Decimal, other: Any) -> Any:
    return type(other)(value) if isinstance(other, float | Fraction) else value


def span_field() -> Span | None:
    return field(default=None, compare=False, repr=False, kw_only=True)


# ------------------------------------------------------------------ values


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of the event; `path` has one name, or several for nested structs.

    A *calculated* attribute has a `value` that is computed from others of the event, and its name
    is the text of it; or a `term` of `CompareNeighbours` that reads this event alone, in plans.
    """

    path: tuple[str, ...]
    span: Span | None = span_field()
    value: Value | None = field(default=None, compare=False, repr=False, kw_only=True)
    term: PairTerm | None = field(default=None, compare=False, repr=False, kw_only=True)

    @property
    def name(self) -> str:
        return ".".join(self.path)

    @property
    def own_value(self) -> Value:
        """The value that a calculated attribute has; another is a value itself."""
        return self if self.value is None else self.value

    @classmethod
    def named(cls, name: str, *, span: Span | None = None) -> Attribute:
        """Return the attribute of a dotted name.

        >>> Attribute.named("user.id").path
        ('user', 'id')
        """
        return cls(tuple(name.split(".")), span=span)

    @property
    def is_calculated(self) -> bool:
        return self.value is not None or self.term is not None

    @property
    def sources(self) -> Iterator[Attribute]:
        """The attributes of events that this one is read from."""
        if self.term is not None:
            return (each for own in term_attributes(self.term) for each in own.sources)
        return iter((self,)) if self.value is None else attributes_of(self.value)


NUMBER = " + 0)"
"""Ends the name of an attribute as the number that is subtracted from others."""

TIME = Attribute(("@time",))
"""The time of an event in the unit of its time column, or its position where there is none."""

TIME_NS = Attribute(("@ns",))
"""The time of an event in nanoseconds; NULL where there is no time column."""

RANK = Attribute(("@rank",))
"""The position of an event, where those that no automaton can see were left out before."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant: a number, a str or a bool.

    A float stands for the digits that it prints. Digits that no float prints are a `Decimal`.
    """

    value: Scalar
    span: Span | None = span_field()

    def __eq__(self, other: object) -> bool:
        # 1, 1.0 and True are equal in Python and different in a query
        return (
            isinstance(other, Literal)
            and type(self.value) is type(other.value)
            and self.value == other.value
        )

    def __hash__(self) -> int:
        return hash((type(self.value).__name__, self.value))


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`left op right` with one of + - * / %."""

    op: OneOf["+", "-", "*", "/", "%"]
    left: Value
    right: Value
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Negative:
    """Unary minus."""

    body: Value
    span: Span | None = span_field()


class HashedOnce:
    """A node that computes its hash once: what stands below it may be large."""

    __slots__ = ("_hash",)
    _hash: int

    def __hash__(self) -> int:
        try:
            found: int = self._hash
        except AttributeError:
            kind = type(self)
            if kind not in _compared:
                own = fields(cast("Any", kind))
                _compared[kind] = attrgetter(*(each.name for each in own if each.compare))
            found = hash((kind.__name__, _compared[kind](self)))
            object.__setattr__(self, "_hash", found)
        return found


_compared: dict[type, attrgetter[Any]] = {}
"""The values that tell nodes of a kind apart."""


@dataclass(frozen=True, slots=True)
class Call(HashedOnce):
    """A function of values, by its name in capitals; `CAST(v AS t)` has the type as a text."""

    __hash__ = HashedOnce.__hash__

    function: str
    arguments: tuple[Value, ...]
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Case:
    """`CASE WHEN P THEN v … ELSE v END`: the value of the first predicate that is true."""

    branches: tuple[tuple[Predicate, Value], ...]
    otherwise: Value | None = None
    span: Span | None = span_field()


Value = Attribute | Literal | Arithmetic | Negative | Call | Case

# -------------------------------------------------------------- predicates


@dataclass(frozen=True, slots=True)
class Comparison(HashedOnce):
    __hash__ = HashedOnce.__hash__

    op: Operator
    left: Value
    right: Value
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Like:
    """`value LIKE 'regex'`: the regular expression matches the whole string."""

    body: Value
    pattern: str
    span: Span | None = span_field()
    pattern_span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class InSet:
    """`value IN {1, 2, 3}`."""

    body: Value
    values: tuple[Literal, ...]
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class InRange:
    """`value IN {a..b}` or `value IN RANGE (a, b)`: both ends included."""

    body: Value
    low: Literal
    high: Literal
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class IsNull:
    """`value IS NULL`, or `IS NOT NULL` when negated."""

    body: Value
    negated: bool = False
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class AnyElement:
    """`ANY(list, name -> P)`: P is true of an element, which has the name in P.

    It is unknown if no element makes P true, and some makes it unknown.
    """

    body: Value
    name: str
    predicate: Predicate
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class And(HashedOnce):
    __hash__ = HashedOnce.__hash__

    parts: tuple[Predicate, ...]
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Or(HashedOnce):
    __hash__ = HashedOnce.__hash__

    parts: tuple[Predicate, ...]
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Negation:
    body: Predicate
    span: Span | None = span_field()


Predicate = Comparison | Like | InSet | InRange | IsNull | AnyElement | And | Or | Negation

# ------------------------------------------------------------------- terms


@dataclass(frozen=True, slots=True)
class Reference:
    """`x[a]`: one side of a comparison between events, or the value of a single variable.

    `previous` is `PREV(x)[a]`, in the terms of `CompareNeighbours` alone.
    """

    variable: str
    attribute: Attribute
    previous: bool = field(default=False, kw_only=True)
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`COUNT(*)` (argument None), `COUNT(x)` (str), `SUM(x[a])` and the like (Reference)."""

    function: str
    argument: str | Reference | None = None
    distinct: bool = False
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class IntervalTime:
    """`START` or `END`: the time of an end of the interval."""

    which: OneOf["START", "END"]
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class ConstantDuration:
    """A span of time, such as `15 MINUTES`."""

    nanoseconds: Fraction
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Calculation:
    """`left op right` on terms, with one of + - * / %."""

    op: OneOf["+", "-", "*", "/", "%"]
    left: MatchTerm
    right: MatchTerm
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Opposite:
    """Unary minus on a term."""

    body: MatchTerm
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class TermCall:
    """A function of terms, by its name in capitals, that is not one of a single event.

    `CASE` takes conditions and values in turn, and the value of ELSE. Its conditions are calls of
    AND, OR, NOT and the comparisons.
    """

    function: str
    arguments: tuple[MatchTerm, ...]
    span: Span | None = span_field()


MatchTerm = (
    Reference
    | Aggregate
    | IntervalTime
    | Literal
    | ConstantDuration
    | Calculation
    | Opposite
    | TermCall
)
"""A value that a whole match has."""

PairTerm = Reference | Calculation | Opposite | TermCall
"""A side of `CompareNeighbours` that reads an event."""


def is_time(term: MatchTerm) -> bool:
    """Whether a term gives times: START, END, or values of `ts`, their column by default."""
    match term:
        case IntervalTime():
            return True
        case Reference(attribute=attribute) | Aggregate(argument=Reference(attribute=attribute)):
            return attribute.name == "ts"
    return False


def walk_term(term: MatchTerm) -> Iterator[MatchTerm]:
    """Yield the term and every term below it, left to right."""
    yield term
    match term:
        case Calculation(left=left, right=right):
            yield from walk_term(left)
            yield from walk_term(right)
        case Opposite(body=body):
            yield from walk_term(body)
        case TermCall(arguments=arguments):
            for argument in arguments:
                yield from walk_term(argument)


def to_value(term: MatchTerm) -> Value | None:
    """Return a term of attributes and constants as a value of an event; None for any other."""
    match term:
        case Literal():
            return term
        case Reference(attribute=attribute):
            return attribute.own_value
        case Opposite(body=body, span=span):
            value = to_value(body)
            return None if value is None else Negative(value, span=span)
        case Calculation(op=op, left=left, right=right, span=span):
            one, other = to_value(left), to_value(right)
            return None if one is None or other is None else Arithmetic(op, one, other, span=span)
        case TermCall(function=function, arguments=arguments, span=span):
            values = tuple(value for each in arguments if (value := to_value(each)) is not None)
            return Call(function, values, span=span) if len(values) == len(arguments) else None
        case _:
            return None


def variables_of(term: MatchTerm) -> Iterator[str]:
    """Yield the variables that a term mentions, left to right.

    >>> x = Reference("x", Attribute(("a",)))
    >>> list(variables_of(Calculation("-", Aggregate("MAX", x), Aggregate("COUNT", "y"))))
    ['x', 'y']
    """
    for part in walk_term(term):
        match part:
            case Reference(variable=variable) | Aggregate(argument=Reference(variable=variable)):
                yield variable
            case Aggregate(argument=str(variable)):
                yield variable


def list_pair_sides(term: MatchTerm) -> set[bool]:
    """Return which of two neighbours a term reads: True for the earlier, False for the later."""
    return {part.previous for part in walk_term(term) if isinstance(part, Reference)}


def term_attributes(term: MatchTerm) -> Iterator[Attribute]:
    """Yield the attributes that a term reads, left to right."""
    for part in walk_term(term):
        match part:
            case Reference(attribute=attribute):
                yield attribute
            case Aggregate(argument=Reference(attribute=attribute)):
                yield attribute


# -------------------------------------------------------------- conditions


@dataclass(frozen=True, slots=True)
class Holds:
    """`x[P]`: every event of x satisfies P."""

    variable: str
    predicate: Predicate
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Compare:
    """`x[a] op y[b]`: every pair of events satisfies it.

    `adjacent` is `PREV(x)[a] op y[b]`: of the pairs, only those are asked in which the
    event of x comes right before the event of y among all events of the valuation.
    `shift` is `x[a] op y[b] + shift`, for numbers. `origin` is the condition that a comparison
    of calculated attributes decides, alone or with others of this origin, in plans.
    """

    op: Operator
    left: Reference
    right: Reference
    adjacent: bool = False
    shift: int | float | None = None
    origin: CompareNeighbours | CompareTerms | None = None
    reach: Fraction | None = None
    """It says that the left event is at most so many nanoseconds after the right one, in `ts`."""
    span: Span | None = span_field()

    @property
    def is_transitive(self) -> bool:
        """Whether it is an equality of every pair, which others continue."""
        return self.op == "=" and not self.adjacent and self.shift is None


@dataclass(frozen=True, slots=True)
class CompareTerms:
    """`term op term`: a condition on the valuation as a whole."""

    op: Operator
    left: MatchTerm
    right: MatchTerm
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class CompareNeighbours:
    """`term op term` of every two neighbours.

    `PREV(x)[a]` is an attribute of the earlier event, `y[b]` one of the later.
    """

    op: Operator
    left: MatchTerm
    right: MatchTerm
    span: Span | None = span_field()

    @property
    def references(self) -> tuple[Reference, ...]:
        """The attributes of the two events, left to right."""
        parts = (*walk_term(self.left), *walk_term(self.right))
        return tuple(part for part in parts if isinstance(part, Reference))

    @property
    def is_difference(self) -> bool:
        """Whether it compares a difference of the two events."""
        return any(len(list_pair_sides(side)) > 1 for side in (self.left, self.right))

    @property
    def variables(self) -> tuple[str, str]:
        """The variables of the earlier and of the later event."""
        names = {part.previous: part.variable for part in self.references}
        return names[True], names[False]


@dataclass(frozen=True, slots=True)
class Monotone:
    """`x INCREASING BY a` and its relatives: `earlier op later` for every two neighbours of x."""

    variable: str
    attribute: Attribute
    op: OneOf["<", "<=", ">", ">="]
    span: Span | None = span_field()


def compare_terms(
    op: Operator, left: MatchTerm, right: MatchTerm
) -> Holds | Compare | CompareNeighbours | CompareTerms:
    """Return the condition that a comparison of two terms is.

    With a calculated attribute, it is one of each event of the variable: `HOUR(x[ts]) < 6` is
    `x[HOUR(ts) < 6]`.

    >>> x, y = Reference("x", Attribute(("a",)), previous=True), Reference("y", Attribute(("b",)))
    >>> compare_terms(">", y, x) == Compare("<", replace(x, previous=False), y, adjacent=True)
    True
    """
    match left, right:
        case Reference(previous=False), Reference(previous=False):
            return Compare(op, left, right)
        case Reference(previous=True), Reference(previous=False):
            return Compare(op, replace(left, previous=False), right, adjacent=True)
        case Reference(previous=False), Reference(previous=True):
            return Compare(MIRRORED[op], replace(right, previous=False), left, adjacent=True)
    parts = (*walk_term(left), *walk_term(right))
    references = [part for part in parts if isinstance(part, Reference)]
    if any(part.previous for part in references):
        return CompareNeighbours(op, left, right)
    if len({part.variable for part in references}) == 1 and any(
        part.attribute.value is not None for part in references
    ):
        one, other = to_value(left), to_value(right)
        if one is not None and other is not None:
            return Holds(references[0].variable, Comparison(op, one, other))
    return CompareTerms(op, left, right)


def to_predicate(condition: Condition) -> Predicate | None:
    """Return a condition on the events of one variable as a predicate; None for any other."""
    match condition:
        case Holds(predicate=predicate):
            return predicate
        case Compare(op=op, left=left, right=right, adjacent=False, shift=None):
            return Comparison(op, left.attribute.own_value, right.attribute.own_value)
        case CompareTerms(op=op, left=one, right=other):
            first, second = to_value(one), to_value(other)
            return None if first is None or second is None else Comparison(op, first, second)
        case Denied(body=body):
            test = to_predicate(body)
            return None if test is None else Negation(test)
        case AllOf(parts=parts) | AnyOf(parts=parts):
            tests = tuple(test for part in parts if (test := to_predicate(part)) is not None)
            if len(tests) < len(parts):
                return None
            return And(tests) if isinstance(condition, AllOf) else Or(tests)
        case _:
            return None


MONOTONE: Mapping[str, OneOf["<", "<=", ">", ">="]] = {
    "INCREASING": "<",
    "NONDECREASING": "<=",
    "DECREASING": ">",
    "NONINCREASING": ">=",
}
"""How `x INCREASING BY a` and its relatives compare an event with the next one of x."""


@dataclass(frozen=True, slots=True)
class AllOf:
    parts: tuple[Condition, ...]
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class AnyOf:
    parts: tuple[Condition, ...]
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Denied:
    """`NOT c`: it holds where c is false. NOT of AND and OR is one of their parts."""

    body: Statement
    span: Span | None = span_field()


Statement = Holds | Compare | CompareNeighbours | CompareTerms | Monotone
Leaf = Statement | Denied
Condition = Leaf | AllOf | AnyOf


def deny(condition: Condition, span: Span | None = None) -> Condition:
    """Return the condition that holds where another one is false.

    >>> one, other = (Holds(x, IsNull(Attribute(("a",)))) for x in "xy")
    >>> deny(AllOf((one, Denied(other)))) == AnyOf((Denied(one), other))
    True
    """
    match condition:
        case AllOf(parts=parts):
            return AnyOf(tuple(deny(part, part.span) for part in parts), span=span)
        case AnyOf(parts=parts):
            return AllOf(tuple(deny(part, part.span) for part in parts), span=span)
        case Denied(body=body):
            return body
        case _:
            return Denied(condition, span=span)


def conjoin(parts: Sequence[Condition], span: Span | None = None) -> Condition:
    """Return the condition that holds where all of some do; of one, itself."""
    return parts[0] if len(parts) == 1 else AllOf(tuple(parts), span=span)


def conjuncts(condition: Condition) -> Iterator[Condition]:
    """Yield the conditions that must all hold, AND taken apart."""
    if isinstance(condition, AllOf):
        for part in condition.parts:
            yield from conjuncts(part)
    else:
        yield condition


def leaves(condition: Condition) -> Iterator[Leaf]:
    """Yield the conditions that AND and OR join."""
    if isinstance(condition, AllOf | AnyOf):
        for part in condition.parts:
            yield from leaves(part)
    else:
        yield condition


def leaf_variables(leaf: Leaf) -> tuple[str, ...]:
    """Return the variables that a condition mentions."""
    match leaf:
        case Compare(left=left, right=right):
            return left.variable, right.variable
        case CompareTerms(left=one, right=other) | CompareNeighbours(left=one, right=other):
            return *variables_of(one), *variables_of(other)
        case Denied(body=body):
            return leaf_variables(body)
        case _:
            return (leaf.variable,)


def mentioned_variables(condition: Condition) -> frozenset[str]:
    """Return the variables that a condition mentions."""
    return frozenset(name for leaf in leaves(condition) for name in leaf_variables(leaf))


def attributes_of(node: Predicate | Value) -> Iterator[Attribute]:
    """Yield every attribute that a predicate or value mentions, left to right."""
    stack: list[Predicate | Value] = [node]
    while stack:
        match stack.pop():
            case Literal():
                pass
            case Comparison(left=left, right=right) | Arithmetic(left=left, right=right):
                stack += (right, left)
            case Call(arguments=arguments):
                stack += reversed(arguments)
            case Attribute(value=None) as attribute:
                yield attribute
            case Attribute(value=value):
                assert value is not None
                stack.append(value)
            case And(parts=parts) | Or(parts=parts):
                stack += reversed(parts)
            case Case(branches=branches, otherwise=otherwise):
                stack += () if otherwise is None else (otherwise,)
                stack += (each for branch in reversed(branches) for each in reversed(branch))
            case AnyElement(body=body, name=name, predicate=predicate):
                yield from attributes_of(body)
                yield from (each for each in attributes_of(predicate) if each.path[0] != name)
            case other:
                stack.append(other.body)
