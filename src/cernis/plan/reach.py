"""How far a match reaches in time: what a slice of the time line has to read around it."""

from __future__ import annotations

from fractions import Fraction

from cernis.pattern.duration import bound_duration
from cernis.pattern.query import Pattern, Unit


def bound_match(pattern: Pattern) -> Fraction | None:
    """Return the longest time, in nanoseconds, from start to end of a match; None: no bound.

    A window that counts units of the time column is no such bound.
    """
    bound, within = bound_duration(pattern.formula), pattern.within
    if within is None or within.unit is not Unit.TIME:
        return bound
    return within.size if bound is None else min(bound, within.size)


def is_bounded_in_time(pattern: Pattern) -> bool:
    """Whether times bound a match, and how far around it WITHOUT looks."""
    is_plain = pattern.within is not None and pattern.within.plain
    looks_in_time = all(one.within.unit is Unit.TIME for one in pattern.without)
    return looks_in_time and (is_plain or bound_match(pattern) is not None)
