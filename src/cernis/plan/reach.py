"""How far a match reaches, in time or in events: what a slice has to read around it."""

from __future__ import annotations

from fractions import Fraction

from cernis.pattern.duration import bound_length
from cernis.pattern.query import Pattern, Unit


def bound_match(pattern: Pattern, unit: Unit = Unit.TIME) -> Fraction | None:
    """Return the most nanoseconds, or events, from start to end of a match; None: no bound.

    A window that counts units of the time column is no such bound.
    """
    bound, within = bound_length(pattern.formula, unit), pattern.within
    if within is None or within.unit is not unit:
        return bound
    return within.size if bound is None else min(bound, within.size)


def is_bounded_in_time(pattern: Pattern) -> bool:
    """Whether times bound a match, and how far around it WITHOUT looks."""
    is_plain = pattern.within is not None and pattern.within.plain
    looks_in_time = all(one.within.unit is Unit.TIME for one in pattern.without)
    return looks_in_time and (is_plain or bound_match(pattern) is not None)


def is_bounded_in_events(pattern: Pattern) -> bool:
    """Whether numbers of events bound a match, and how far around it WITHOUT looks."""
    counts_events = all(one.within.unit is Unit.EVENTS for one in pattern.without)
    return counts_events and bound_match(pattern, Unit.EVENTS) is not None
