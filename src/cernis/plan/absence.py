"""How `WITHOUT` is decided: the guard as a query of its own, and what links it to the match.

The guard and the match have an automaton each, and both read the same events and partitions.
Conditions between the two are of two kinds. An index decides *equal values* of variables that hold
one event each. *Residual* conditions are checked on each pair of a match and an occurrence.

Without such conditions, one occurrence removes all matches of an end, so a compact set of them
waits as it is. With them, matches are listed, and the strategy chooses among those that are left.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from cernis.pattern.guard import split_guard
from cernis.pattern.predicate import RANK, Compare, Condition, Reference
from cernis.pattern.query import Absence, Pattern, Select, Strategy, Unit, Variable, Window
from cernis.pattern.selection import selected_variables
from cernis.pattern.variables import single_variables


class EqualValues(NamedTuple):
    """`p[order] = o[id]`: an attribute of the guard's event, and one of the match's event."""

    inside: Reference
    outside: Reference

    @property
    def events(self) -> tuple[str, str]:
        """The variables whose events are compared."""
        return self.inside.variable, self.outside.variable


class GuardLinks(NamedTuple):
    """The conditions between a guard and the match that it guards."""

    equal: tuple[EqualValues, ...]
    residual: tuple[Condition, ...]
    names: frozenset[str]
    """The variables of the guard."""
    foreign: frozenset[str]
    """The variables of the match that conditions mention."""

    @property
    def is_free(self) -> bool:
        """Whether no condition links the two."""
        return not self.equal and not self.residual


def link_guard(pattern: Pattern, absence: Absence) -> GuardLinks:
    """Return what links the guard of an absence to the matches of the pattern."""
    guard = split_guard(absence.formula)
    outer, inner = single_variables(pattern.formula), single_variables(guard.formula)
    equal: list[EqualValues] = []
    residual: list[Condition] = []
    for condition in guard.conditions:
        pair = _read_equality(condition, guard.names)
        is_single = pair and pair.inside.variable in inner and pair.outside.variable in outer
        # the index is over one event of each side
        if pair and is_single and (not equal or pair.events == equal[0].events):
            equal.append(pair)
        else:
            residual.append(condition)
    return GuardLinks(tuple(equal), tuple(residual), guard.names, guard.foreign)


def _read_equality(condition: Condition, names: frozenset[str]) -> EqualValues | None:
    match condition:
        case Compare(op="=", left=left, right=right, adjacent=False, shift=None):
            if left.variable in names and right.variable not in names:
                return EqualValues(left, right)
            if right.variable in names and left.variable not in names:
                return EqualValues(right, left)
    return None


def make_guard_query(pattern: Pattern, absence: Absence) -> Pattern:
    """Return the guard as a query: its matches are the occurrences that can matter.

    With FOR, an occurrence matters if it starts after the end of a waiting match, so the window is
    measured in positions. With BEFORE, it is the window of the clause.
    """
    guard, links = split_guard(absence.formula), link_guard(pattern, absence)
    mentioned = {pair.inside.variable for pair in links.equal}
    if links.residual:
        mentioned |= guard.names
    within = absence.within if absence.before else Window(Unit.EVENTS, Fraction(0), RANK)
    return Pattern(
        formula=guard.formula,
        select=Select(False, tuple(map(Variable, sorted(mentioned)))),
        streams=pattern.streams,
        partition=pattern.partition,
        within=within,
        forget=pattern.forget,
        declared=pattern.declared,
    )


def lists_matches(pattern: Pattern) -> bool:
    """Whether matches are listed to decide WITHOUT; otherwise compact sets of them wait."""
    after = pattern.absent_after
    if pattern.absent_before is not None:
        return True
    if after is None:
        return False
    counts_in_partition = after.within.unit is Unit.EVENTS and _is_split(pattern)
    return counts_in_partition or not link_guard(pattern, after).is_free


def needs_every_label(pattern: Pattern) -> bool:
    """Whether the fate of a match depends on more than what is selected of it.

    Then candidates have all their labels, and the strategy and SELECT are applied afterwards.
    """
    links = [link_guard(pattern, absence) for absence in pattern.without]
    if not lists_matches(pattern) or all(link.is_free for link in links):
        # a strategy that compares matches of one end must see those alone that are left
        return pattern.absent_before is not None and pattern.strategy is not Strategy.ALL
    mentioned = frozenset[str]().union(*(link.foreign for link in links))
    return pattern.strategy is not Strategy.ALL or not mentioned <= set(selected_variables(pattern))


def _is_split(pattern: Pattern) -> bool:
    return bool(pattern.partition) or pattern.forget is not None
