"""UNLESS around a whole formula: compare its guard with the last event of a match.

A guard forbids a match if it has an occurrence that begins after the match and ends before it. So
the latest start among the occurrences so far decides, and a match may begin no earlier. Conditions
between the guard and the match select the occurrences: an index has them, if each condition is a
comparison of the last event of the guard with the last event of the match. Equalities hold for the
last events, too, where other equalities tie them to the events that the condition names.

Cost contract: linear in the states and the conditions. An index of partial matches from which each
occurrence takes those that it forbids was not taken: it would have to be by the attributes of the
guard, and the next event of the match asks by others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from cernis.automata.correlated.classes import Key, KeyClass, close_equalities
from cernis.automata.correlated.fragments import Fragment, States
from cernis.automata.correlated.pcea import ANY_LINK, Link, Ordered
from cernis.automata.correlated.presence import Path
from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.guard import SplitGuard
from cernis.pattern.write import write_condition

NOT_LAST = "it looks at events before the last one"


@dataclass(frozen=True, slots=True)
class Scopes:
    """The UNLESS around a whole formula, and what is known of all events of a match."""

    paths: frozenset[Path] = frozenset()
    conditions: tuple[pred.Condition, ...] = ()
    """They hold of every match."""
    keys: tuple[Key, ...] = ()
    """A PARTITION BY of the formula."""
    shared: tuple[str, ...] = ()
    """Attributes that all events of a partition share."""


NO_SCOPES = Scopes()


def find_scopes(formula: cel.Formula, shared: Iterable[str] = ()) -> Scopes:
    """Return the UNLESS around a whole formula and the conditions there; none where WITHIN is.

    A WITHIN inside the formula has starts measured in time, a guard asks for positions.
    """
    if any(isinstance(node, cel.Within) for node in cel.walk(formula)):
        return NO_SCOPES
    paths: set[Path] = set()
    conditions: list[pred.Condition] = []
    keys: list[Key] = []
    path: Path = ()
    while isinstance(formula, cel.As | cel.Filter | cel.PartitionBy | cel.Unless):
        match formula:
            case cel.Unless():
                paths.add(path)
            case cel.Filter(condition=condition):
                conditions += pred.conjuncts(condition)
            case cel.PartitionBy() if not keys:
                keys = [(key.variable, key.attribute.name) for key in formula.keys]
            case _:
                pass
        formula, path = formula.body, (*path, 0)
    return Scopes(frozenset(paths), tuple(conditions), tuple(keys), tuple(shared))


def find_classes(
    conditions: Iterable[pred.Condition],
    present: frozenset[str],
    keys: Sequence[Key] = (),
    shared: Iterable[str] = (),
) -> list[KeyClass]:
    """Return the classes of attributes that agree in every match; `present` is never empty."""
    equalities = [
        (
            (leaf.left.variable, leaf.left.attribute.name),
            (leaf.right.variable, leaf.right.attribute.name),
        )
        for leaf in conditions
        if isinstance(leaf, pred.Compare) and leaf.is_transitive
    ]
    ties: list[tuple[Key, Key]] = [
        pair for pair in equalities if all(variable in present for variable, _ in pair)
    ]
    ties += [(keys[0], key) for key in keys]
    ties += [((None, name), (None, name)) for name in shared]
    return close_equalities(ties)


def list_conditions(formula: cel.Formula) -> Iterator[pred.Condition]:
    """Yield the conditions that hold of all that a formula matches."""
    while isinstance(formula, cel.As | cel.Filter | cel.PartitionBy):
        if isinstance(formula, cel.Filter):
            yield from pred.conjuncts(formula.condition)
        formula = formula.body


@dataclass(frozen=True, slots=True)
class Side:
    """A guard, or the formula that it guards: its fragment, and the attributes that agree."""

    fragment: Fragment
    states: States
    classes: Sequence[KeyClass]
    present: frozenset[str]
    """The variables that are never empty."""

    def find_equal(self, state: int, key: Key) -> str | None:
        """Return the attribute of a last event that has the value of all events of a key."""
        labels = self.states.labels[state]
        for known in self.classes:
            if key in known.keys or (None, key[1]) in known.keys:
                own = known.attributes(labels)
                return own[0] if own else None
        return key[1] if self.is_last(key[0]) else None

    def is_last(self, variable: str | None) -> bool:
        """Whether the last event is the one event of a variable."""
        labels = self.states.labels
        return all(variable in labels[state] for state in self.fragment.last) and not any(
            variable in labels[source.state]
            for step in self.fragment.steps
            for source in step.sources
        )

    @property
    def is_single(self) -> bool:
        """Whether it has one event."""
        return not self.fragment.onward


def link_last_events(
    guard: SplitGuard, inside: Side, outside: Side, unordered: frozenset[str]
) -> Mapping[tuple[int, int], Link] | str:
    """Return the links from last states of the guard to those of the formula, or the obstacle."""
    obstacle = find_obstacle(inside)
    if obstacle:
        return obstacle
    links: dict[tuple[int, int], Link] = {}
    for end in inside.fragment.last:
        for last in outside.fragment.last:
            link = ANY_LINK
            for condition in guard.conditions:
                found = _compare(condition, guard.names, (inside, end), (outside, last), unordered)
                added = found if isinstance(found, str) else _join(link, found, inside.is_single)
                if isinstance(added, str):
                    return f"{write_condition(condition)}: {added}"
                link = added
            links[end, last] = link
    return links


def find_obstacle(inside: Side) -> str:
    """Return why no index knows the latest start of a guard; empty: one does."""
    for step in inside.fragment.steps:
        for link in (source.link for source in step.sources):
            bare = replace(link, equal=(), contiguous=False, gap=None)
            if bare != ANY_LINK and not link.strict:
                return "its own events are compared by more than equal values"
            if len(step.sources) > 1:
                return "it waits for several parts"
    return ""


def _compare(
    condition: pred.Condition,
    names: frozenset[str],
    inside: tuple[Side, int],
    outside: tuple[Side, int],
    unordered: frozenset[str],
) -> Link | str:
    """Return a condition as a link between two last events, or why it is none."""
    if not isinstance(condition, pred.Compare) or condition.adjacent or condition.shift is not None:
        return "it is no comparison of two attributes"
    own, other, op = condition.left, condition.right, condition.op
    if own.variable not in names:
        own, other, op = other, own, pred.MIRRORED[op]
    if own.variable not in names or other.variable in names:
        return "it looks at one side alone"
    (guard, end), (body, last) = inside, outside
    if own.variable not in guard.present or other.variable not in body.present:
        return "it may compare nothing"
    earlier, later = own.attribute.name, other.attribute.name
    if op == "=":
        first = guard.find_equal(end, (own.variable, earlier))
        second = body.find_equal(last, (other.variable, later))
        return NOT_LAST if first is None or second is None else Link(equal=((first, second),))
    if not guard.is_last(own.variable) or not body.is_last(other.variable):
        return NOT_LAST
    if op == "!=":
        return Link(different=((earlier, later),))
    if {earlier, later} & unordered:
        return "text has no order that an index could keep"
    return Link(ordered=(Ordered(earlier, op, later),))


def _join(link: Link, more: Link, is_single: bool) -> Link | str:
    """Return a link that asks for both, or why no index has it."""
    both = replace(
        link,
        equal=tuple(dict.fromkeys((*link.equal, *more.equal))),
        different=tuple(dict.fromkeys((*link.different, *more.different))),
        ordered=tuple(dict.fromkeys((*link.ordered, *more.ordered))),
    )
    if len(both.ordered) > 1 or (both.ordered and both.different):
        return "the same events are compared already"
    if len(both.different) > 1:
        return "the same events must differ already"
    if both.different and not is_single:
        return "the latest occurrence that differs may not be the one that begins last"
    return both
