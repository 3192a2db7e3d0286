"""Which events can move a plan: the equalities of which one holds for each of them.

Each test by which an automaton sees an event implies an equality, where it can: an attribute equals
a constant (or one of several), or the event has a type. The equality of an attribute is preferred,
since it holds for fewer events.

An event that no test sees changes nothing where only the order of events counts. A query for which
the places of other events count, or the time that they bring, reads every event (`why_whole`).

Cost contract: a walk over the tests of an automaton.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import NamedTuple, TypeGuard

from cernis.automata.unary.cea import Both, Either, Is, Test
from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.atom import Atom, TypeIs
from cernis.pattern.query import Pattern, Strategy, Unit
from cernis.plan.plan import Plan

Constant = str | int | float | bool


class ConstantTest(NamedTuple):
    """An attribute has a constant as its value; the type of an event is the attribute None."""

    attribute: str | None
    value: Constant

    def __str__(self) -> str:
        """
        >>> print(ConstantTest(None, "SELL"), ConstantTest("x", 1))
        the type 'SELL' x = 1
        """
        if self.attribute is None:
            return f"the type {self.value!r}"
        return f"{self.attribute} = {self.value!r}"


def why_whole(plan: Plan) -> str:
    """Return why a rule reads every event; empty: it reads those that can move it."""
    if why := _why_places_count(plan.pattern):
        return why
    if plan.listed or plan.head is not None:
        return "candidates are checked one by one"
    if find_equalities(plan) is None:
        return "a condition is no equality with a constant, and names no type"
    return ""


def _why_places_count(pattern: Pattern) -> str:
    """Return what looks at events that no test sees, or at their times."""
    if pattern.within is not None and pattern.within.unit is not Unit.TIME:
        return "the window is not in time"
    if Unit.EVENTS in pattern.inner_units:
        return "a gap or WITHIN counts events"
    if pattern.contiguous or any(isinstance(node, cel.Not) for node in cel.walk(pattern.formula)):
        return "':', STRICT and NOT look at what lies between"
    if pattern.without or pattern.strategy is Strategy.LONGEST:
        return "any event tells the time by which matches are certain"
    if pattern.grouping is not None or pattern.ranks_intervals:
        return "any event tells the time by which groups end"
    if pattern.ranks_overall and pattern.into is not None:
        return "its matches stand before events that have been read"
    if pattern.forget is not None:
        return "FORGET AFTER counts the time since any event"
    if pattern.joins:
        return "tables are joined to its events first"
    return ""


def find_equalities(plan: Plan) -> frozenset[ConstantTest] | None:
    """Return equalities of which one holds for every event that can move a plan; None: unknown."""
    if plan.tables is not None:
        tests: Iterable[Test] = plan.tables.pcea.tests()
    else:
        assert plan.unary is not None
        tests = plan.unary.cea.changing()
    return _unite(_of_test(test) for test in tests)


def _of_test(test: Test) -> frozenset[ConstantTest] | None:
    match test:
        case Is(atom=atom):
            return _of_atom(atom)
        case Both(parts=parts):
            return _choose(_of_test(part) for part in parts)
        case Either(parts=parts):
            return _unite(_of_test(part) for part in parts)
        case _:
            return None


def _of_atom(atom: Atom) -> frozenset[ConstantTest] | None:
    match atom:
        case TypeIs(type=name):
            return frozenset([ConstantTest(None, name)])
        case pred.And(parts=parts):
            return _choose(_of_atom(part) for part in parts)
        case pred.Or(parts=parts):
            return _unite(_of_atom(part) for part in parts)
        case pred.Comparison(op="=", left=left, right=right):
            return _of_sides(left, [right]) or _of_sides(right, [left])
        case pred.InSet(body=body, values=values):
            return _of_sides(body, values)
        case _:
            return None


def _of_sides(value: pred.Value, others: Sequence[pred.Value]) -> frozenset[ConstantTest] | None:
    if not isinstance(value, pred.Attribute) or value.value is not None or value in COMPUTED:
        return None
    constants = [other.value for other in others if isinstance(other, pred.Literal)]
    found = [ConstantTest(value.name, constant) for constant in constants if _is_short(constant)]
    return frozenset(found) if len(found) == len(others) else None


def _is_short(constant: pred.Scalar) -> TypeGuard[Constant]:
    """Whether equal values of every type have the key of the constant."""
    if isinstance(constant, float):
        return abs(constant) < 2**53
    return not isinstance(constant, Decimal) and (
        isinstance(constant, str) or -(2**63) <= constant < 2**63
    )


COMPUTED = (pred.TIME, pred.TIME_NS, pred.RANK)


def _unite(parts: Iterable[frozenset[ConstantTest] | None]) -> frozenset[ConstantTest] | None:
    found: frozenset[ConstantTest] = frozenset()
    for part in parts:
        if part is None:
            return None
        found |= part
    return found


def _choose(parts: Iterable[frozenset[ConstantTest] | None]) -> frozenset[ConstantTest] | None:
    """Return the equalities of the part that holds for the fewest events, by what is known."""
    known = [part for part in parts if part is not None]
    return min(known, key=_rank, default=None)


def _rank(part: frozenset[ConstantTest]) -> tuple[bool, int]:
    return any(each.attribute is None for each in part), len(part)
