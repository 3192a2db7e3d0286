"""`Pattern`: a formula with its clauses; what every language and the builder lower to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction

from cernis.errors import Span
from cernis.pattern.formula import Contiguous, Formula, Iterate, walk
from cernis.pattern.predicate import TIME, Attribute, Reference, span_field
from cernis.schema import Schema


class Strategy(Enum):
    """Which of the valuations that end at one position are matches."""

    ALL = "ALL"
    STRICT = "STRICT"
    NEXT = "NEXT"
    LAST = "LAST"
    MAX = "MAX"
    ANY = "ANY"


class Consume(Enum):
    """What a match uses up."""

    NONE = "NONE"
    ANY = "ANY"
    PARTITION = "PARTITION"


class Unit(Enum):
    """What a window is measured in."""

    EVENTS = "EVENTS"
    TIME = "TIME"
    ATTRIBUTE = "ATTRIBUTE"


@dataclass(frozen=True, slots=True)
class Window:
    """`WITHIN`: a number of events, nanoseconds, or units of a non-decreasing attribute."""

    unit: Unit
    size: Fraction
    attribute: Attribute | None = None
    """What it is measured in; EVENTS are counted by RANK where some were left out before."""
    span: Span | None = span_field()
    strict: bool = False
    """Less than the size, not at most; `t3 - t1 < 5` of a conjunctive query, in its TIME."""

    @property
    def plain(self) -> bool:
        """Whether it counts what the time column counts, or positions where there is none."""
        return self.attribute == TIME


@dataclass(frozen=True, slots=True)
class Variable:
    """A selected variable, with the attributes to keep (none named: all)."""

    name: str
    attributes: tuple[str, ...] = ()
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`COUNT(*)` (argument None), `COUNT(x)` (str), `SUM(x[a])` and the like (Reference)."""

    function: str
    argument: str | Reference | None = None
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Select:
    """`*` (everything), `NONE` (everything False, no items), or a list of items."""

    everything: bool = True
    items: tuple[Variable | Aggregate, ...] = ()
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Pattern:
    """A whole query. `str(pattern)` is CEQL, and parsing that gives the same pattern."""

    formula: Formula
    select: Select = Select()
    strategy: Strategy = Strategy.ALL
    streams: tuple[str, ...] = ()
    partition: tuple[tuple[str, ...], ...] = ()
    within: Window | None = None
    consume: Consume = Consume.NONE
    limit: int | None = None
    declared: Schema | None = None
    source: str = field(default="", compare=False, repr=False, kw_only=True)
    spans: Mapping[str, tuple[Span, ...]] = field(
        default_factory=dict, compare=False, repr=False, kw_only=True
    )
    """Where the plain names of `streams` and `partition` (flattened) and `limit` stand."""

    @property
    def contiguous(self) -> bool:
        """Whether events may not be passed over somewhere in a match."""
        return self.strategy is Strategy.STRICT or any(
            isinstance(node, Contiguous) or (isinstance(node, Iterate) and node.contiguous)
            for node in walk(self.formula)
        )

    def __str__(self) -> str:
        from cernis.pattern.write import write_pattern

        return write_pattern(self)
