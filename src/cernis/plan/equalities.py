"""Which events can move a plan: the tests of which one holds for each of them.

Each test by which an automaton sees an event implies simple tests, where it can: an attribute
equals a constant (or one of several), its text contains a constant, its number lies within bounds,
or the event has a type. A
condition with `AND` offers several such sets, and any of them finds the events. `choose_tests`
takes the one that holds for the fewest events, by what is known of them (`run.rules.routing`
samples them).

An event that no test sees changes nothing where only the order of events counts. A query for which
the positions of other events count, or the time that they bring, reads every event (`why_whole`).

Cost contract: a walk over the tests of an automaton.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from functools import partial

from cernis.automata.unary.cea import Both, Either, Is, Test
from cernis.pattern import formula as cel
from cernis.pattern.query import Pattern, Strategy, Unit
from cernis.pattern.simple_tests import (
    ConstantTest,
    Form,
    NeededTests,
    TestChoice,
    TestUnion,
    find_tests,
    need_all,
    need_any,
)
from cernis.plan.plan import Plan

Weigh = Callable[[ConstantTest], float]
"""Tells how many events a test holds for."""

_GUESSES = {Form.EQUAL: 1, Form.FOLDED: 1, Form.PART: 1000, Form.RANGE: 1e7}


def guess_weight(test: ConstantTest) -> float:
    """Return a weight where nothing is known: a type or a range holds for most events."""
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
    if why := _why_positions_count(plan.pattern):
        return why
    if plan.listed or plan.head is not None:
        return "candidates are checked one by one"
    if find_needed(plan) is None:
        return "a condition compares nothing with a constant, and names no type"
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
    return not _why_positions_count(plain) and find_needed(plan) is not None


def _why_positions_count(pattern: Pattern) -> str:
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
    own = [_drop_ranges(_of_test(test), plan.pattern.streams) for test in tests]
    return need_all([*own, *map(find_needed, plan.guards)])


def _drop_ranges(needed: NeededTests | None, streams: Collection[str]) -> NeededTests | None:
    """Return the tests without ranges of events that a type finds, and nothing else does.

    A type that is no stream leaves few events, and a rule that reads all of them is told what is
    odd about them.
    """
    if isinstance(needed, TestUnion):
        return need_all(_drop_ranges(part, streams) for part in needed.parts)
    if not isinstance(needed, TestChoice):
        return needed
    parts = [part for part in needed.parts if not _is_every(part, lambda t: t.form is Form.RANGE)]
    if all(_is_every(part, lambda t: t.attribute is None) for part in parts) and any(
        _is_every(part, lambda t: t.value not in streams) for part in parts
    ):
        return need_any(parts)
    return needed


def _is_every(needed: NeededTests, holds: Callable[[ConstantTest], bool]) -> bool:
    return all(map(holds, list_tests(needed)))


def _of_test(test: Test) -> NeededTests | None:
    match test:
        case Is(atom=atom):
            return find_tests(atom)
        case Both(parts=parts):
            return need_any(map(_of_test, parts))
        case Either(parts=parts):
            return need_all(map(_of_test, parts))
        case _:
            return None
