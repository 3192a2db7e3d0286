"""The formulas of complex event logic (CEL) and their windows, as plain frozen trees.

Chains of one operator are one n-ary node (`A ; B ; C` is one `Sequence`), so that
a long pattern is wide, not deep. Every node keeps the span of its text; spans do
not take part in equality. What each node means is defined by the evaluator in
`cernis.testing.oracle`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Sequence as Several
from dataclasses import dataclass, field, replace
from enum import Enum
from fractions import Fraction

from cernis.errors import Span
from cernis.pattern.predicate import (
    TIME,
    Attribute,
    Condition,
    Leaf,
    conjoin,
    conjuncts,
    leaves,
    span_field,
)

ANY_TYPE = "*"


class Unit(Enum):
    """The measure of a window or a gap."""

    EVENTS = "EVENTS"
    TIME = "TIME"
    ATTRIBUTE = "ATTRIBUTE"


@dataclass(frozen=True, slots=True)
class Window:
    """`WITHIN`: a number of events, nanoseconds, or units of a non-decreasing attribute."""

    unit: Unit
    size: Fraction
    attribute: Attribute | None = None
    """The attribute that it is measured in; RANK counts EVENTS where some were left out before."""
    span: Span | None = span_field()
    strict: bool = False
    """Less than the size, not at most; `t3 - t1 < 5` of a conjunctive query, in its TIME."""

    @property
    def plain(self) -> bool:
        """Whether the window counts units of the time column, or positions without one."""
        return self.attribute == TIME


@dataclass(frozen=True, slots=True)
class Gap:
    """`[d]`, `[d TO e]`: how far the start of a part lies after the end of the part before.

    In nanoseconds (`Unit.TIME`), or in positions (`Unit.EVENTS`); both ends are allowed.
    """

    unit: Unit
    most: Fraction
    least: Fraction = Fraction(0)
    span: Span | None = span_field()

    def allows(self, distance: int | Fraction) -> bool:
        return self.least <= distance <= self.most


@dataclass(frozen=True, slots=True)
class Event:
    """`E` or `S>E`: one event of that type; the type's name is a variable too.

    `*` is an event of any type. It is no variable; AS gives it one.
    """

    type: str
    stream: str | None = None
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Not:
    """`NOT (E FILTER P)`: one event that is not such an E; it is not marked.

    The body is a single-event formula: `Event`, `As`, `Choice` and `Filter` over them.
    """

    body: Formula
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class As:
    """`φ AS x`. Plans have `hidden` variables as well, which `*` leaves out."""

    body: Formula
    variable: str
    hidden: bool = field(default=False, repr=False)
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Separator:
    """What may stand between two parts of a sequence: `;` anything, `->` nothing that fits.

    With `next` the second part begins with the first event that can begin it. A `gap` bounds how
    far it begins after the first part.
    """

    next: bool = False
    gap: Gap | None = None


LATER = Separator()
"""`;`"""


@dataclass(frozen=True, slots=True)
class Sequence:
    """`φ ; ψ -> …`: one after the other.

    `separators` has one for each part but the first; it is empty if all are `;`.
    """

    parts: tuple[Formula, ...]
    separators: tuple[Separator, ...] = ()
    span: Span | None = span_field()

    def __post_init__(self) -> None:
        if all(separator == LATER for separator in self.separators):
            object.__setattr__(self, "separators", ())

    def separator_before(self, part: int) -> Separator:
        """Return the separator before a part; there is none before part 0."""
        return self.separators[part - 1] if self.separators else LATER


@dataclass(frozen=True, slots=True)
class Contiguous:
    """`φ : ψ : …`: one right after the other."""

    parts: tuple[Formula, ...]
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Choice:
    """`φ OR ψ OR …`."""

    parts: tuple[Formula, ...]
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class All:
    """`φ ALL ψ ALL …`: in any order, overlapping or not."""

    parts: tuple[Formula, ...]
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Iterate:
    """`φ+`, `φ:+`, `φ->+`, `φ{m,n}`, `φ{m,}`, `φ:{m,n}`; high None means no upper bound."""

    body: Formula
    low: int = 1
    high: int | None = None
    contiguous: bool = False
    separator: Separator = LATER
    """What may stand between two rounds, unless they are contiguous, and how much."""
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Optional:
    """`φ?`: with or without φ."""

    body: Formula
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Filter:
    """`φ FILTER P`."""

    body: Formula
    condition: Condition
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class KeyPart:
    """One `x[a]` (or `[a]`, variable None, for all events) of a PARTITION BY in a formula."""

    variable: str | None
    attribute: Attribute
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class PartitionBy:
    """`φ PARTITION BY [x[a], y[b]]` inside a formula: one common value."""

    body: Formula
    keys: tuple[KeyPart, ...]
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Within:
    """`(φ WITHIN w)` inside a formula: the interval of φ is within w."""

    body: Formula
    window: Window
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Unless:
    """`φ UNLESS ψ`: no valuation of ψ lies strictly inside."""

    body: Formula
    guard: Formula
    span: Span | None = span_field()


Formula = (
    Event
    | Not
    | As
    | Sequence
    | Contiguous
    | Choice
    | All
    | Iterate
    | Optional
    | Filter
    | PartitionBy
    | Within
    | Unless
)


def children(node: Formula) -> tuple[Formula, ...]:
    """Return the formulas directly below, left to right.

    >>> children(Sequence((Event("A"), Event("B"))))
    (Event(type='A', stream=None), Event(type='B', stream=None))
    """
    match node:
        case Event():
            return ()
        case Sequence(parts=parts) | Contiguous(parts=parts) | Choice(parts=parts):
            return parts
        case All(parts=parts):
            return parts
        case Unless(body=body, guard=guard):
            return body, guard
        case _:
            return (node.body,)


def map_children(node: Formula, change: Callable[[Formula], Formula]) -> Formula:
    """Return a node with the formulas directly below it changed.

    >>> map_children(Choice((Event("A"), Event("B"))), lambda below: Optional(below)).parts[0]
    Optional(body=Event(type='A', stream=None))
    """
    match node:
        case Event():
            return node
        case Sequence(parts=parts) | Contiguous(parts=parts):
            return replace(node, parts=tuple(map(change, parts)))
        case Choice(parts=parts) | All(parts=parts):
            return replace(node, parts=tuple(map(change, parts)))
        case Unless(body=body, guard=guard):
            return replace(node, body=change(body), guard=change(guard))
        case _:
            return replace(node, body=change(node.body))


def list_separators(node: Formula) -> tuple[Separator, ...]:
    """Return the separators that a node itself has; a sequence of `;` alone has none."""
    match node:
        case Sequence(separators=separators):
            return separators
        case Iterate(separator=separator):
            return (separator,)
    return ()


def list_gaps(node: Formula) -> Iterator[Gap]:
    """Yield the gaps that a node itself has."""
    yield from (one.gap for one in list_separators(node) if one.gap is not None)


def list_units(node: Formula) -> Iterator[Unit]:
    """Yield the units of a node's own gaps, or of its WITHIN."""
    yield from (gap.unit for gap in list_gaps(node))
    if isinstance(node, Within):
        yield node.window.unit


def walk(node: Formula) -> Iterator[Formula]:
    """Yield the node and everything below it, in order of the text; not recursive."""
    stack = [node]
    while stack:
        top = stack.pop()
        yield top
        stack.extend(reversed(children(top)))


def list_leaves(nodes: Iterable[Formula]) -> Iterator[Leaf]:
    """Yield the conditions of the filters among some nodes, AND and OR taken apart."""
    for node in nodes:
        if isinstance(node, Filter):
            yield from leaves(node.condition)


_Layer = As | Iterate | Optional | PartitionBy | Within


def take_off(formula: Formula, *layers: type[_Layer]) -> tuple[Formula, list[Condition]]:
    """Return what filters, and nodes of other kinds, stand around, and the conditions of these.

    >>> take_off(As(Event("A"), "x"), As)
    (Event(type='A', stream=None), [])
    """
    conditions: list[Condition] = []
    while isinstance(formula, Filter | _Layer) and isinstance(formula, (Filter, *layers)):
        if isinstance(formula, Filter):
            conditions += conjuncts(formula.condition)
        formula = formula.body
    return formula, conditions


def put_filter(body: Formula, conditions: Several[Condition]) -> Formula:
    """Return a formula whose events satisfy conditions; without any, the formula itself.

    >>> put_filter(Event("A"), [])
    Event(type='A', stream=None)
    """
    return Filter(body, conjoin(conditions)) if conditions else body
