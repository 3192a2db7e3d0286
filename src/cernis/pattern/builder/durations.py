"""Build windows and gaps: durations by their units, numbers of events, ranges of an attribute."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

from cernis.pattern.builder.arguments import check_name, check_whole, read_number, refuse, show
from cernis.pattern.builder.predicates import make_attribute
from cernis.pattern.formula import Gap
from cernis.pattern.query import Unit, Window
from cernis.pattern.suggest import did_you_mean

_SIZES = {
    "days": 86_400_000_000_000,
    "hours": 3_600_000_000_000,
    "minutes": 60_000_000_000,
    "seconds": 1_000_000_000,
    "milliseconds": 1_000_000,
}


def sum_units(length: timedelta | None, units: dict[str, Any], method: str = "within") -> Fraction:
    """Return a duration in nanoseconds."""
    size = Fraction(0)
    if length is not None and not isinstance(length, timedelta):
        raise refuse(
            f"a duration must be a timedelta, not {length!r}",
            f"write {method}(minutes=5) for example",
        )
    if length is not None:
        size += Fraction(length // timedelta(microseconds=1)) * 1000
    for unit, number in units.items():
        if unit not in _SIZES:
            raise refuse(f"unknown unit '{unit}' in {method}()", did_you_mean(unit, _SIZES))
        size += read_number(number, unit) * _SIZES[unit]
    return size


def make_window(
    length: timedelta | None,
    events: int | None,
    attribute: str | None,
    size: float | Decimal | Fraction | None,
    units: dict[str, Any],
) -> Window:
    """Return the window that the arguments of `within` say."""
    timed = length is not None or bool(units)
    if (attribute is None) != (size is None):
        raise refuse("within() needs attribute and size together")
    if timed + (events is not None) + (attribute is not None) != 1:
        raise refuse("within() takes one of a duration, events, or attribute with size")
    if timed:
        return Window(Unit.TIME, sum_units(length, units))
    if events is not None:
        return Window(Unit.EVENTS, Fraction(check_whole(events, "events")))
    name = make_attribute((check_name(attribute, "an attribute"),))
    return Window(Unit.ATTRIBUTE, read_number(size, "size"), name)


def gap(
    most: timedelta | None = None,
    *,
    least: timedelta | None = None,
    events: int | tuple[int, int] | None = None,
    **units: float | Decimal | Fraction,
) -> Gap:
    """`[d]`, `[d TO e]`, `[n EVENTS]`: how far a part begins after the part before.

    >>> import cernis.pattern as p
    >>> print(p.seq("A", "B", gap=p.gap(minutes=5)))
    A ;[5 MINUTES] B
    >>> print(p.seq("A", "B", gap=p.gap(events=(2, 4))))
    A ;[2 TO 4 EVENTS] B
    """
    timed = most is not None or bool(units)
    if timed == (events is not None) or (events is not None and least is not None):
        raise refuse("gap() takes a duration, or events")
    if events is not None:
        low, high = (0, events) if isinstance(events, int) else events
        most_events, least_events = (Fraction(check_whole(n, "events")) for n in (high, low))
        return Gap(Unit.EVENTS, most_events, least_events)
    shortest = sum_units(least, {}) if least is not None else Fraction(0)
    return Gap(Unit.TIME, sum_units(most, units, "gap"), shortest)


def make_gap(given: Gap | timedelta | None) -> Gap | None:
    """Return the gap that a user gives; a `timedelta` is the longest.

    >>> import cernis.pattern as p
    >>> print(p.event("PAGE").plus(gap=timedelta(minutes=30)))
    PAGE+[30 MINUTES]
    """
    if isinstance(given, timedelta):
        return gap(given)
    if given is not None and not isinstance(given, Gap):
        raise refuse(f"{show(given)} is no gap", "write gap=p.gap(minutes=5), or a timedelta")
    return given
