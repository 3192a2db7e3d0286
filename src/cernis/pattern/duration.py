"""How long a match can last: the bound that gaps and WITHIN inside a formula give."""

from __future__ import annotations

from fractions import Fraction

from cernis.pattern import formula as cel
from cernis.pattern.window import Gap, Unit


def bound_duration(node: cel.Formula) -> Fraction | None:
    """Return the longest time, in nanoseconds, from the first to the last event; None: no bound.

    >>> A, B = cel.Event("A"), cel.Event("B")
    >>> gap = cel.Separator(gap=Gap(Unit.TIME, Fraction(5)))
    >>> bound_duration(A), bound_duration(cel.Sequence((A, B)))
    (Fraction(0, 1), None)
    >>> bound_duration(cel.Sequence((A, cel.Iterate(B, 1, 3, separator=gap)), (gap,)))
    Fraction(15, 1)
    """
    match node:
        case cel.Event() | cel.Not():
            return Fraction(0)
        case cel.Sequence(parts=parts):
            gaps = [_bound_gap(node.separator_before(i).gap) for i in range(1, len(parts))]
            return _add([*map(bound_duration, parts), *gaps])
        case cel.Choice(parts=parts):
            bounds = [bound_duration(part) for part in parts]
            known = [bound for bound in bounds if bound is not None]
            return max(known) if len(known) == len(bounds) else None
        case cel.Contiguous() | cel.All():
            return None
        case cel.Iterate(body=body, high=high):
            if high is None or (high > 1 and node.contiguous):
                return None
            gaps = [_bound_gap(node.separator.gap)] if high > 1 else []
            one, between = _add([bound_duration(body)]), _add(gaps)
            return None if one is None or between is None else high * one + (high - 1) * between
        case cel.Within(body=body, window=window):
            inside = bound_duration(body)
            if window.unit is not Unit.TIME:
                return inside
            return window.size if inside is None else min(inside, window.size)
        case _:
            return bound_duration(node.body)


def _bound_gap(gap: Gap | None) -> Fraction | None:
    return gap.most if gap is not None and gap.unit is Unit.TIME else None


def _add(bounds: list[Fraction | None]) -> Fraction | None:
    total = Fraction(0)
    for bound in bounds:
        if bound is None:
            return None
        total += bound
    return total
