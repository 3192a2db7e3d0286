"""Whether a condition of a FILTER holds of given events, as Python objects.

Cost contract: linear in the events, or in the pairs of them, that the condition looks at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from itertools import pairwise, product
from typing import Any, NamedTuple

from cernis.automata.unary import construct
from cernis.automata.unary.alphabet import passes
from cernis.pattern import predicate as pred
from cernis.pattern.atom import Atom
from cernis.run.check.terms import Valued, compare_terms, evaluate_term

_KINDS: Any = (str, bool, int | float | Decimal, bytes, date, time, timedelta, list, dict)
"""The classes of the values of each kind."""


_EITHER: tuple[pred.Operator, ...] = ("=", "!=")
"""One of the two holds of values that can be compared."""


class EventView(NamedTuple):
    """The events that a check reads, by position."""

    truth: Callable[[int], dict[Atom, bool]]
    value: Callable[[int, pred.Attribute], Any]
    time: Callable[[int], Any]
    tick: int
    """The nanoseconds of one unit of the time column, where it holds numbers."""


class MarkedEvents(NamedTuple):
    """The events of a valuation, by position."""

    of: Callable[[str], list[int]]
    """The positions of a variable, ascending."""
    everything: Callable[[], list[int]]
    """The positions of all variables, ascending."""
    span: tuple[int, int] | None = None
    """The interval, for conditions that look at it."""


def satisfies(condition: pred.Condition, found: MarkedEvents, view: EventView) -> bool:
    """Whether a condition holds of the events of a valuation."""
    match condition:
        case pred.Holds(variable=variable, predicate=predicate):
            test = construct.build_test(predicate)
            return all(passes(test, view.truth(p)) for p in found.of(variable))
        case (pred.CompareNeighbours() as pair) | pred.Compare(
            origin=pred.CompareNeighbours() as pair
        ):
            return find_broken_pair(pair, found, view) is None
        case pred.Compare(origin=pred.CompareTerms() as whole):
            return satisfies(whole, found, view)
        case pred.Compare(op=op, left=left, right=right, adjacent=adjacent, shift=shift):
            one, other = found.of(left.variable), found.of(right.variable)
            pairs = _pair_neighbours(one, other, found) if adjacent else product(one, other)
            return all(
                compare(
                    op,
                    view.value(p, left.attribute),
                    _shift(view.value(q, right.attribute), shift),
                )
                for p, q in pairs
            )
        case pred.CompareTerms(op=op, left=former, right=latter):
            valued = Valued(
                found.of,
                found.everything(),
                *(found.span or (0, 0)),
                view.value,
                view.time,
                view.tick,
            )
            values = evaluate_term(former, valued), evaluate_term(latter, valued)
            return compare_terms(op, *values, view.tick)
        case pred.Monotone(variable=variable, attribute=attribute, op=op):
            ordered = [view.value(p, attribute) for p in found.of(variable)]
            return all(compare(op, a, b) for a, b in pairwise(ordered))
        case pred.Denied(body=body):
            return is_false(body, found, view)
        case pred.AllOf(parts=parts):
            return all(satisfies(part, found, view) for part in parts)
        case pred.AnyOf(parts=parts):
            return any(satisfies(part, found, view) for part in parts)


def is_false(leaf: pred.Statement, found: MarkedEvents, view: EventView) -> bool:
    """Whether a condition is false of some of its events, and not only unknown."""
    match leaf:
        case pred.Holds(variable=variable, predicate=predicate):
            test = construct.build_test(pred.Negation(predicate))
            return any(passes(test, view.truth(p)) for p in found.of(variable))
        case (pred.CompareNeighbours() as pair) | pred.Compare(
            origin=pred.CompareNeighbours() as pair
        ):
            one, other = map(found.of, pair.variables)
            pairs = (_value_pair(p, q, view) for p, q in _pair_neighbours(one, other, found))
            return any(_is_term_false(pair, each) for each in pairs)
        case pred.Compare(op=op, left=left, right=right, adjacent=adjacent, shift=shift):
            one, other = found.of(left.variable), found.of(right.variable)
            both = _pair_neighbours(one, other, found) if adjacent else product(one, other)
            return any(
                _is_known(a, b) and not compare(op, a, b)
                for p, q in both
                for a in (view.value(p, left.attribute),)
                for b in (_shift(view.value(q, right.attribute), shift),)
            )
        case pred.CompareTerms():
            span = found.span or (0, 0)
            valued = Valued(found.of, found.everything(), *span, view.value, view.time, view.tick)
            return _is_term_false(leaf, valued)
        case pred.Monotone(variable=variable, attribute=attribute, op=op):
            ordered = [view.value(p, attribute) for p in found.of(variable)]
            return any(_is_known(a, b) and not compare(op, a, b) for a, b in pairwise(ordered))


def _is_known(left: Any, right: Any) -> bool:
    """Whether two values can be compared: one of = and != holds."""
    return compare("=", left, right) or compare("!=", left, right)


def _is_term_false(leaf: pred.CompareTerms | pred.CompareNeighbours, valued: Valued) -> bool:
    one, other = evaluate_term(leaf.left, valued), evaluate_term(leaf.right, valued)
    is_known = any(compare_terms(op, one, other, valued.tick) for op in _EITHER)
    return is_known and not compare_terms(leaf.op, one, other, valued.tick)


def find_broken_pair(
    leaf: pred.CompareNeighbours, found: MarkedEvents, view: EventView
) -> Valued | None:
    """Return two neighbours of which a comparison does not hold; None: it holds of all."""
    one, other = map(found.of, leaf.variables)
    for p, q in _pair_neighbours(one, other, found):
        pair = _value_pair(p, q, view)
        values = evaluate_term(leaf.left, pair), evaluate_term(leaf.right, pair)
        if not compare_terms(leaf.op, *values, view.tick):
            return pair
    return None


def _value_pair(earlier: int, later: int, view: EventView) -> Valued:
    return Valued(
        positions=lambda _: [later],
        everything=[earlier, later],
        start=earlier,
        end=later,
        value=view.value,
        time=view.time,
        tick=view.tick,
        previous=earlier,
    )


def compare(op: pred.Operator, left: Any, right: Any) -> bool:
    """Whether a comparison holds; one with an unknown value, or with another kind, does not."""
    if left is None or right is None:
        return False
    if type(left) is not type(right) and _kind_of(left) != _kind_of(right):
        return False
    try:
        return bool(pred.COMPARE[op](left, right))
    except TypeError:
        return False


def _kind_of(value: Any) -> int:
    """Return the kind of a value, as `cernis.events.kinds` has it for columns."""
    return next((n for n, kind in enumerate(_KINDS) if isinstance(value, kind)), len(_KINDS))


def _shift(value: Any, shift: float | None) -> Any:
    """Return a number plus the shift; None for anything else."""
    if shift is None:
        return value
    numeric = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    return pred.to_machine(value) + shift if numeric else None


def _pair_neighbours(
    earlier: Sequence[int], later: Sequence[int], found: MarkedEvents
) -> Iterator[tuple[int, int]]:
    """Yield the pairs of the two that are consecutive among the positions of the valuation."""
    first, second = set(earlier), set(later)
    for p, q in pairwise(found.everything()):
        if p in first and q in second:
            yield p, q
