"""Which events can move a plan: the tests of which one holds for each of them.

Each test by which an automaton sees an event implies simple tests, where it can: an attribute
equals a constant (or one of several), its text contains a constant, or the event has a type. A
condition with `AND` offers several such sets, and any of them finds the events. `choose_tests`
takes the one that holds for the fewest events, by what is known of them (`run.rules.routing`
samples them).

An event that no test sees changes nothing where only the order of events counts. A query for which
the places of other events count, or the time that they bring, reads every event (`why_whole`).

Cost contract: a walk over the tests of an automaton.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from enum import Enum
from functools import partial
from typing import NamedTuple, TypeGuard

from cernis.automata.unary.cea import Both, Either, Is, Test
from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.atom import Atom, TypeIs
from cernis.pattern.query import Pattern, Strategy, Unit
from cernis.plan.plan import Plan

Constant = str | int | float | bool


class Form(Enum):
    """How a value is compared with a constant."""

    EQUAL = "="
    FOLDED = "= without regard to capitals"
    PART = "contains, without regard to capitals"


class ConstantTest(NamedTuple):
    """An attribute has a constant as its value; the type of an event is the attribute None."""

    attribute: str | None
    value: Constant
    form: Form = Form.EQUAL
    """Constants of the other forms are in small letters."""

    def __str__(self) -> str:
        """
        >>> print(ConstantTest(None, "SELL"), ConstantTest("x", 1))
        the type 'SELL' x = 1
        >>> print(ConstantTest("x", "a", Form.PART))
        x with 'a' in it
        """
        if self.attribute is None:
            return f"the type {self.value!r}"
        if self.form is Form.PART:
            return f"{self.attribute} with {self.value!r} in it"
        name = self.attribute if self.form is Form.EQUAL else f"LOWER({self.attribute})"
        return f"{name} = {self.value!r}"


class TestChoice(NamedTuple):
    """Any of these parts finds all events: they are those of a conjunction."""

    parts: tuple[NeededTests, ...]


class TestUnion(NamedTuple):
    """All of these parts together find all events: they are those of a disjunction."""

    parts: tuple[NeededTests, ...]


NeededTests = frozenset[ConstantTest] | TestChoice | TestUnion
"""The tests that find the events of a rule."""

Weigh = Callable[[ConstantTest], float]
"""Tells how many events a test holds for."""

_GUESSES = {Form.EQUAL: 1, Form.FOLDED: 1, Form.PART: 1000}


def guess_weight(test: ConstantTest) -> float:
    """Return a weight where nothing is known: a type holds for most events."""
    return 1e6 if test.attribute is None else _GUESSES[test.form]


def choose_tests(needed: NeededTests, weigh: Weigh = guess_weight) -> frozenset[ConstantTest]:
    """Return tests of which one holds for every event of a rule, and for few others."""
    match needed:
        case TestUnion(parts=parts):
            found = [_unite(parts, weigh)]
            options = Counter(one for part in parts for one in {*_list_options(part)})
            for shared, times in options.items():
                if times > 1:  # what one part needs costs the others nothing
                    found.append(_unite(parts, partial(_weigh_others, shared, weigh)))
            return min(found, key=lambda tests: sum(map(weigh, tests)))
        case TestChoice(parts=parts):
            found = [choose_tests(part, weigh) for part in parts]
            return min(found, key=lambda tests: sum(map(weigh, tests)))
    return needed


def _unite(parts: Iterable[NeededTests], weigh: Weigh) -> frozenset[ConstantTest]:
    return frozenset[ConstantTest]().union(*(choose_tests(part, weigh) for part in parts))


def _weigh_others(shared: frozenset[ConstantTest], weigh: Weigh, test: ConstantTest) -> float:
    return 0 if test in shared else weigh(test)


def _list_options(needed: NeededTests) -> Iterator[frozenset[ConstantTest]]:
    if isinstance(needed, TestChoice):
        yield from (part for part in needed.parts if isinstance(part, frozenset))


def list_tests(needed: NeededTests) -> frozenset[ConstantTest]:
    """Return all tests that may be chosen."""
    if isinstance(needed, frozenset):
        return needed
    return frozenset[ConstantTest]().union(*map(list_tests, needed.parts))


def why_whole(plan: Plan) -> str:
    """Return why a rule reads every event; empty: it reads those that can move it."""
    if why := _why_places_count(plan.pattern):
        return why
    if plan.listed or plan.head is not None:
        return "candidates are checked one by one"
    if find_needed(plan) is None:
        return "a condition is no equality with a constant, and names no type"
    return ""


def is_paced(plan: Plan) -> bool:
    """Return whether a rule needs the times of events that cannot move it, and nothing else.

    Then it may read those that can move it, and is told up to where time has passed. Matches
    that become events are put in order with all events.
    """
    pattern = plan.pattern
    waits = pattern.without and all(each.within.unit is Unit.TIME for each in pattern.without)
    if not (waits or pattern.grouping is not None) or pattern.into is not None:
        return False
    plain = replace(pattern, without=(), grouping=None)
    plans = (plan, *plan.guards)
    if any(one.listed or one.head is not None for one in plans):
        return False
    return not _why_places_count(plain) and find_needed(plan) is not None


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
    """Return tests of which one holds for every event that can move a plan; None: unknown."""
    needed = find_needed(plan)
    return None if needed is None else choose_tests(needed)


def find_needed(plan: Plan) -> NeededTests | None:
    """Return the tests that find every event that can move a plan; None: unknown."""
    known = vars(plan)  # as a cached property of the plan, which does not know this module
    if "needed_tests" not in known:
        known["needed_tests"] = _find_needed(plan)
    found: NeededTests | None = known["needed_tests"]
    return found


def _find_needed(plan: Plan) -> NeededTests | None:
    if plan.tables is not None:
        tests: Iterable[Test] = plan.tables.pcea.tests()
    else:
        assert plan.unary is not None
        tests = plan.unary.cea.changing()
    own = [_of_test(test) for test in tests]
    return _need_all([*own, *map(find_needed, plan.guards)])


def _need_all(parts: Iterable[NeededTests | None]) -> NeededTests | None:
    """Return what finds the events of all parts."""
    known: dict[NeededTests, None] = {}
    for part in parts:
        if part is None:
            return None
        known[part] = None
    if all(isinstance(part, frozenset) for part in known):
        return frozenset[ConstantTest]().union(
            *(part for part in known if isinstance(part, frozenset))
        )
    return next(iter(known)) if len(known) == 1 else TestUnion(tuple(known))


def _need_any(parts: Iterable[NeededTests | None]) -> NeededTests | None:
    """Return what finds the events that all parts hold for: any of them does."""
    known = tuple(dict.fromkeys(part for part in parts if part is not None))
    return TestChoice(known) if len(known) > 1 else next(iter(known), None)


def _of_test(test: Test) -> NeededTests | None:
    match test:
        case Is(atom=atom):
            return _of_atom(atom)
        case Both(parts=parts):
            return _need_any(map(_of_test, parts))
        case Either(parts=parts):
            return _need_all(map(_of_test, parts))
        case _:
            return None


def _of_atom(atom: Atom) -> NeededTests | None:
    match atom:
        case TypeIs(type=name):
            return frozenset([ConstantTest(None, name)])
        case pred.And(parts=parts):
            return _need_any(map(_of_atom, parts))
        case pred.Or(parts=parts):
            return _need_all(map(_of_atom, parts))
        case pred.Comparison(op="=", left=pred.Call() as call, right=pred.Literal(value=True)):
            return _of_call(call)
        case pred.Comparison(op="=", left=left, right=right):
            return _of_sides(left, [right]) or _of_sides(right, [left])
        case pred.InSet(body=body, values=values):
            return _of_sides(body, values)
        case pred.Like(body=body, pattern=pattern):
            return _of_parts(body, _list_regex_parts(pattern))
        case _:
            return None


def _of_sides(value: pred.Value, others: Sequence[pred.Value]) -> frozenset[ConstantTest] | None:
    form, column = Form.EQUAL, value
    if (inner := _find_lowered(value)) is not None:
        form, column = Form.FOLDED, inner
    if not _is_column(column):
        return None
    constants = [other.value for other in others if isinstance(other, pred.Literal)]
    found = [
        ConstantTest(column.name, constant, form)
        for constant in constants
        if _is_short(constant) and (form is Form.EQUAL or isinstance(constant, str))
    ]
    return frozenset(found) if len(found) == len(others) else None


def _is_column(value: pred.Value) -> TypeGuard[pred.Attribute]:
    """Whether a value is an attribute that events have as a column."""
    return isinstance(value, pred.Attribute) and value.value is None and value not in COMPUTED


def _find_lowered(value: pred.Value) -> pred.Value | None:
    """Return a of `LOWER(a)`."""
    match value:
        case pred.Call(function="LOWER", arguments=(inner,)):
            return inner
        case pred.Attribute(value=pred.Call(function="LOWER", arguments=(inner,))):
            return inner
    return None


# ---------------------------------------------------------------- parts of texts


def _of_call(call: pred.Call) -> frozenset[ConstantTest] | None:
    """Return the test that a test of text implies."""
    match call:
        case pred.Call(
            function="CONTAINS" | "STARTS_WITH" | "ENDS_WITH",
            arguments=(column, pred.Literal(value=str() as text)),
        ):
            return _of_parts(column, [text])
        case pred.Call(
            function="SQL_LIKE" | "SQL_ILIKE" as function,
            arguments=(column, pred.Literal(value=str() as pattern)),
        ):
            if function == "SQL_ILIKE" and not _SPECIAL.search(pattern) and _is_column(column):
                return frozenset([ConstantTest(column.name, pattern.lower(), Form.FOLDED)])
            return _of_parts(column, _SPECIAL.split(pattern))
    return None


_SPECIAL = re.compile(r"\\.|[%_\\]", re.DOTALL)
"""What is no plain text in a pattern of SQL."""
_PLAIN_REGEX = re.compile(r"(?:[\w\s/:;,<>=!@#%&~`'\"-]|\\[^\w\s]|\.[*+]?\??)*", re.ASCII)
_REGEX_TOKEN = re.compile(r"\\(.)|(\.[*+]?\??)|([^\\.])", re.DOTALL)


def _list_regex_parts(pattern: str) -> list[str]:
    r"""Return texts that are in all texts that a regular expression matches, if it is a plain one.

    >>> _list_regex_parts(r"(?i).*\\cmd\.exe .*/c"), _list_regex_parts("a(b|c)*")
    (['', '\\cmd.exe ', '/c'], [])
    """
    pattern = re.sub(r"^\(\?[is]+\)", "", pattern)
    if not _PLAIN_REGEX.fullmatch(pattern):
        return []
    parts = [""]
    for escaped, wild, plain in _REGEX_TOKEN.findall(pattern):
        if wild:
            parts.append("")
        else:
            parts[-1] += escaped or plain
    return parts


def _of_parts(value: pred.Value, texts: Iterable[str]) -> frozenset[ConstantTest] | None:
    """Return the test of the longest of texts that are all in a value.

    Only ASCII is looked for: other letters have several forms, and not every function folds them
    alike.
    """
    column = _find_lowered(value) or value
    if not _is_column(column):
        return None
    parts = (part for text in texts for part in re.split(r"[^\x00-\x7f]+", text.lower()))
    longest = max(parts, key=len, default="")
    return frozenset([ConstantTest(column.name, longest, Form.PART)]) if longest else None


def _is_short(constant: pred.Scalar) -> TypeGuard[Constant]:
    """Whether equal values of every type have the key of the constant."""
    if isinstance(constant, float):
        return abs(constant) < 2**53
    return not isinstance(constant, Decimal) and (
        isinstance(constant, str) or -(2**63) <= constant < 2**63
    )


COMPUTED = (pred.TIME, pred.TIME_NS, pred.RANK)
