"""How long a match can be, in time or in events: the bound that a formula itself gives."""

from __future__ import annotations

from fractions import Fraction

from cernis.pattern import formula as cel
from cernis.pattern.formula import Gap, Unit


def bound_length(node: cel.Formula, unit: Unit) -> Fraction | None:
    """Return the most nanoseconds, or events, from the first event to the last; None: no bound.

    >>> A, B = cel.Event("A"), cel.Event("B")
    >>> gap = cel.Separator(gap=Gap(Unit.TIME, Fraction(5)))
    >>> bound_length(A, Unit.TIME), bound_length(cel.Sequence((A, B)), Unit.TIME)
    (Fraction(0, 1), None)
    >>> bound_length(cel.Sequence((A, cel.Iterate(B, 1, 3, separator=gap)), (gap,)), Unit.TIME)
    Fraction(15, 1)
    >>> bound_length(cel.Contiguous((A, B, A)), Unit.EVENTS)
    Fraction(2, 1)
    """
    match node:
        case cel.Event() | cel.Not():
            return Fraction(0)
        case cel.Sequence(parts=parts):
            gaps = [_bound_gap(node.separator_before(i).gap, unit) for i in range(1, len(parts))]
            return _add([*(bound_length(part, unit) for part in parts), *gaps])
        case cel.Contiguous(parts=parts):
            steps = [_bound_step(unit)] * (len(parts) - 1)
            return _add([*(bound_length(part, unit) for part in parts), *steps])
        case cel.Choice(parts=parts):
            bounds = [bound_length(part, unit) for part in parts]
            known = [bound for bound in bounds if bound is not None]
            return max(known) if len(known) == len(bounds) else None
        case cel.All():
            return None
        case cel.Iterate(body=body, high=high):
            if high is None:
                return None
            gap = _bound_step(unit) if node.contiguous else _bound_gap(node.separator.gap, unit)
            one, between = bound_length(body, unit), gap if high > 1 else Fraction(0)
            return None if one is None or between is None else high * one + (high - 1) * between
        case cel.Within(body=body, window=window):
            inside = bound_length(body, unit)
            if window.unit is not unit:
                return inside
            return window.size if inside is None else min(inside, window.size)
        case _:
            return bound_length(node.body, unit)


def _bound_gap(gap: Gap | None, unit: Unit) -> Fraction | None:
    return gap.most if gap is not None and gap.unit is unit else None


def _bound_step(unit: Unit) -> Fraction | None:
    """Return how far apart two events are of which one comes right after the other."""
    return Fraction(1) if unit is Unit.EVENTS else None


def _add(bounds: list[Fraction | None]) -> Fraction | None:
    total = Fraction(0)
    for bound in bounds:
        if bound is None:
            return None
        total += bound
    return total
