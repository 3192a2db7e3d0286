"""`Router`: which events can move which rules, by an index over types and constants.

Each test by which an automaton sees an event implies an equality, where it can: an attribute equals
a constant (or one of several), or the event has a type. The equality of an attribute is preferred,
since it holds for fewer events. All constants that rules compare an attribute with are one hash
table, so an event costs one look-up for each such attribute, however many rules there are.

A rule gets the events whose equality holds, and its own engine decides the rest. An event that no
test sees changes nothing where only the order of events counts. A rule for which the places of
other events count, or the time that they bring, reads every event (`why_whole`).

Cost contract: per event, one look-up for each indexed attribute; per event and rule that it can
move, a place of four bytes. Nothing per event and rule that it cannot move.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple, TypeGuard

import numpy as np
import pyarrow as pa

from cernis.automata.unary.cea import Both, Either, Is, Test
from cernis.encoding.lookup import Lookup
from cernis.events.batch import Bools, Int64s, attribute
from cernis.events.source import kind_of
from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.atom import Atom, TypeIs
from cernis.pattern.query import Pattern, Strategy, Unit
from cernis.plan.plan import Plan
from cernis.schema import Kind

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


_KINDS: dict[Kind, tuple[type[Constant], ...]] = {
    Kind.INT: (int, float),
    Kind.FLOAT: (int, float),
    Kind.STRING: (str,),
    Kind.BOOL: (bool,),
}
"""The constants that values of a kind can equal."""


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


class _Constants(NamedTuple):
    """The constants of one type that rules compare an attribute with, and the rules of each."""

    attribute: str | None
    type: type[Constant]
    lookup: Lookup
    rules: tuple[tuple[int, ...], ...]
    """Of each constant, the rules that compare it; those of many constants are left out."""
    broad: Mapping[int, Bools]
    """Of a rule that compares many constants, which they are; the last place is no constant."""


_MANY = 16
"""A rule with so many constants looks at all rows, and not at those of each constant."""


class Router:
    """Finds the events that can move each rule."""

    def __init__(self, wanted: Mapping[int, frozenset[ConstantTest]], type_column: str) -> None:
        """`wanted` has the equalities of each rule, by its number."""
        self.type_column = type_column
        self.rules = tuple(wanted)
        self.narrowed = frozenset(
            rule
            for rule, equalities in wanted.items()
            if any(each.attribute is not None for each in equalities)
        )
        """The rules that do not get all events of the types that they name."""
        grouped: dict[tuple[str | None, type[Constant]], dict[Constant, list[int]]] = {}
        for rule, equalities in wanted.items():
            for each in equalities:
                constants = grouped.setdefault((each.attribute, type(each.value)), {})
                constants.setdefault(each.value, []).append(rule)
        self._indexes = []
        for (name, type_), constants in grouped.items():
            lookup = Lookup([pa.chunked_array([pa.array([*constants])])])
            broad = _find_broad([*constants.values()])
            rules = tuple(
                tuple(number for number in numbers if number not in broad)
                for numbers in constants.values()
            )
            self._indexes.append(_Constants(name, type_, lookup, rules, broad))

    @property
    def attributes(self) -> dict[str, int]:
        """How many constants are indexed, by attribute."""
        found: dict[str, int] = {}
        for index in self._indexes:
            name = self.type_column if index.attribute is None else index.attribute
            found[name] = found.get(name, 0) + len(index.rules)
        return found

    def route(self, events: pa.Table) -> dict[int, Int64s]:
        """Return the rows, ascending, that can move each rule; a rule without rows is left out.

        Rules that are moved by the same constants have the same array.
        """
        found: dict[int, list[Int64s]] = {}
        for index in self._indexes:
            name = self.type_column if index.attribute is None else index.attribute
            column = attribute(events, tuple(name.split(".")))
            if column is None:
                continue
            types = _KINDS.get(kind_of(column.type))
            other = types is None and not pa.types.is_null(column.type)
            # 0.1 is the decimal 0.1, and the float beside it
            other = other or (pa.types.is_decimal(column.type) and index.type is float)
            if other or (index.attribute is None and types != (str,)):
                every = np.arange(events.num_rows)  # times, which text may denote; other types
                for rule in {*index.broad, *(rule for rules in index.rules for rule in rules)}:
                    found.setdefault(rule, []).append(every)
            elif types is not None and index.type in types:
                numbers = index.lookup.find([column])
                for rule, wanted in index.broad.items():
                    if len(rows := np.flatnonzero(wanted[numbers])):
                        found.setdefault(rule, []).append(rows)
                for constant, rows in _split(numbers, len(index.rules)) if any(index.rules) else ():
                    for rule in index.rules[constant]:
                        found.setdefault(rule, []).append(rows)
        merged: dict[tuple[int, ...], Int64s] = {}
        for several in found.values():
            key = tuple(map(id, several))
            if key not in merged:
                merged[key] = _merge(several)
        return {rule: merged[tuple(map(id, several))] for rule, several in found.items()}


def _find_broad(rules: Sequence[Sequence[int]]) -> dict[int, Bools]:
    """Return the constants of each rule that has many; `rules` are those of each constant."""
    counts = Counter(rule for each in rules for rule in each)
    broad = {rule: np.zeros(len(rules) + 1, np.bool_) for rule, n in counts.items() if n >= _MANY}
    for constant, each in enumerate(rules):
        for rule in broad.keys() & {*each}:
            broad[rule][constant] = True
    return broad


def sort_places(numbers: Int64s, below: int) -> Int64s:
    """Return the places of numbers below a bound, by number and then by place."""
    small = (
        numbers.astype(np.int16) if below < 1 << 15 else numbers
    )  # few bits are sorted by digits
    return np.argsort(small, kind="stable")


def _split(numbers: Int64s, below: int) -> Iterable[tuple[int, Int64s]]:
    """Yield each number with the places where it stands; -1 is no number."""
    there = np.flatnonzero(numbers >= 0)
    order = there[sort_places(numbers[there], below)]
    ordered = numbers[order]
    cuts = np.flatnonzero(np.diff(ordered)) + 1
    for rows in np.split(order, cuts) if len(order) else ():
        yield int(numbers[rows[0]]), rows


def _merge(rows: list[Int64s]) -> Int64s:
    if len(rows) == 1:
        return rows[0]
    every = np.sort(np.concatenate(rows))
    return every[np.flatnonzero(np.diff(every, prepend=-1))]
