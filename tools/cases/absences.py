"""Random `WITHOUT … FOR` and `WITHOUT … BEFORE`, for the cases of `grammar`."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Literal

from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.query import Absence, Unit, Window
from cernis.pattern.variables import marked_variables, single_variables

Link = Literal["free", "equal", "residual"]
"""How a guard depends on the match: not at all, by equal values, or in any way."""
LINKS: tuple[Link, ...] = ("free", "equal", "residual")

_ATTRIBUTES = ("a", "b")
_HALF_MILLISECOND = 500_000


def make_absence(
    choose: Callable[[int], int],
    link: Link,
    body: cel.Formula,
    guard: cel.Formula,
    *,
    before: bool,
) -> Absence:
    """Make an absence of the guard after (or before) the matches of the body."""
    units = (Unit.TIME, Unit.TIME, Unit.EVENTS)
    unit = units[choose(len(units))]
    size = Fraction(choose(5)) if unit is Unit.EVENTS else Fraction(choose(10) * _HALF_MILLISECOND)
    guard = link_guard(choose, link, body, guard)
    return Absence(guard, Window(unit, size), before)


def link_guard(
    choose: Callable[[int], int], link: Link, body: cel.Formula, guard: cel.Formula
) -> cel.Formula:
    """Return the guard with conditions on the events of the body."""
    conditions = _make_conditions(choose, link, body, guard)
    if not conditions:
        return guard
    joined = conditions[0] if len(conditions) == 1 else pred.AllOf(tuple(conditions))
    return cel.Filter(guard, joined)


def _make_conditions(
    choose: Callable[[int], int], link: Link, body: cel.Formula, guard: cel.Formula
) -> list[pred.Condition]:
    inner, bound = single_variables(guard), set(marked_variables(guard))
    outer = set(marked_variables(body)) - bound
    if link == "free" or not bound or not outer:
        return []

    def pick(names: set[str]) -> pred.Reference:
        ordered = sorted(names)
        attribute = pred.Attribute.named(_ATTRIBUTES[choose(len(_ATTRIBUTES))])
        return pred.Reference(ordered[choose(len(ordered))], attribute)

    if link == "equal":
        single = set(single_variables(body)) & outer
        if not inner or not single:
            return []
        found: list[pred.Condition] = [pred.Compare("=", pick(set(inner)), pick(single))]
        if choose(4) == 0:
            found.append(pred.Compare("=", pick(single), pick(set(inner))))
        return found
    op: pred.Operator = ("=", "!=", "<", ">=")[choose(4)]
    kinds: list[pred.Condition] = [pred.Compare(op, pick(bound), pick(outer))]
    single = (set(single_variables(body)) & outer) | set(inner)
    if single & outer:
        left = pred.Calculation("+", pick(single & outer), pred.Literal(1))
        kinds.append(pred.CompareTerms(op, left, pred.Aggregate("MAX", pick(bound))))
    test = pred.Comparison(op, pred.Attribute.named("a"), pred.Literal(1))
    kinds.append(pred.Holds(sorted(outer)[choose(len(outer))], test))
    first = kinds[choose(len(kinds))]
    if choose(3) == 0:
        return [pred.AnyOf((first, pred.Compare("=", pick(bound), pick(outer))))]
    return [first, pred.Compare("=", pick(bound), pick(outer))] if choose(2) == 0 else [first]
