"""`Window` and `Gap`: how far apart events may lie, in time, in events or in an attribute."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

from cernis.errors import Span
from cernis.pattern.predicate import TIME, Attribute, span_field


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
