"""UNLESS: compare its guard with the last event of a match, or with partial matches.

A guard around a whole formula forbids a match if it has an occurrence that begins after the match
and ends before it. So the latest start among the occurrences so far decides, and a match may begin
no earlier. Conditions between the guard and the match select the occurrences: an index has them, if
each condition is a comparison of the last event of the guard with the last event of the match.
Equalities hold for the last events, too, where other equalities tie them to the events that the
condition names.

Otherwise, and around a part of the formula, a guard of one event takes the partial matches that it
forbids out of the indexes in which they wait, if equal values say which: each partial match must
have them in its last event. The guard must know the values that the next event of the match asks
for; if it knows more, the index is a search tree of groups of runs with equal values. If nothing is
compared with it, a group is what has come since it occurred last, and the next event asks for that.

Cost contract: linear in the states and the conditions. A list of the partial matches of each value,
from which an occurrence removes one after the other from indexes by other values, was not taken:
a bucket of such an index would have to be found for each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from cernis.automata.correlated.classes import Key, KeyClass, close_equalities
from cernis.automata.correlated.exclusion import are_exclusive_tests
from cernis.automata.correlated.fragments import Fragment, States
from cernis.automata.correlated.pcea import ANY_LINK, PCEA, Leaving, Link, Ordered, Unindexed
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
        if any(key in known.keys or (None, key[1]) in known.keys for known in self.classes):
            return self.find_class(state, key)
        return key[1] if self.is_last(key[0]) else None

    def find_class(self, state: int, key: Key) -> str | None:
        """Return the attribute of the event in a state that equalities tie to a key."""
        for known in self.classes:
            if key in known.keys or (None, key[1]) in known.keys:
                own = known.attributes(self.states.labels[state])
                return own[0] if own else None
        return None

    def find_waiting(self, state: int, key: Key, single: frozenset[str]) -> str | None:
        """Return the attribute of the event in a state that has the value of the match in a key."""
        found = self.find_class(state, key)
        if found is not None or key[0] not in single or key[0] not in self.states.labels[state]:
            return found
        return key[1]

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
    guard: SplitGuard, inside: Side, outside: Side, unindexed: Unindexed
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
                found = _compare(condition, guard.names, (inside, end), (outside, last), unindexed)
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
    unindexed: Unindexed,
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
    obstacle = unindexed.explain(op, earlier, later)
    if obstacle:
        return obstacle
    if op == "!=":
        return Link(different=((earlier, later),))
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


# -------------------------------------------------------- partial matches


def link_waiting(
    guard: SplitGuard, inside: Side, outside: Side, name: str, single: frozenset[str]
) -> Mapping[tuple[int, int], Link] | str:
    """Return the links from waiting runs of the formula to the guard that ends them, or why not.

    They are by state of the guard and state of the runs. `single` variables have one event.
    """
    if not inside.is_single:
        return "the guard has several events"
    onward = outside.fragment.onward
    if any(len(step.sources) > 1 for step in onward):
        return "it waits for several parts"
    if any(source.link.unless for step in onward for source in step.sources):
        return "another UNLESS takes partial matches out"
    waiting = dict.fromkeys(source.state for step in onward for source in step.sources)
    for step in onward:
        if step.target in waiting and not all(
            are_exclusive_tests(step.test, own.test) for own in inside.fragment.steps
        ):
            return "an event of the match may be one of the guard"
    links: dict[tuple[int, int], Link] = {}
    for end in inside.fragment.last:
        for state in waiting:
            pairs = []
            for condition in guard.conditions:
                found = _pair_waiting(
                    condition, guard.names, (inside, end), (outside, state), single
                )
                if isinstance(found, str):
                    return f"{write_condition(condition)}: {found}"
                pairs.append(found)
            equal = tuple(sorted(set(pairs)))
            links[end, state] = Link(equal=equal, unless=Leaving(name, tuple(a for a, _ in equal)))
    return links


def _pair_waiting(
    condition: pred.Condition,
    names: frozenset[str],
    inside: tuple[Side, int],
    outside: tuple[Side, int],
    single: frozenset[str],
) -> tuple[str, str] | str:
    """Return an equality as (attribute of a waiting run, attribute of the guard), or why not."""
    if (
        not isinstance(condition, pred.Compare)
        or condition.op != "="
        or not condition.is_transitive
    ):
        return "partial matches leave by equal values alone"
    own, other = condition.left, condition.right
    if own.variable not in names:
        own, other = other, own
    if own.variable not in names or other.variable in names:
        return "it looks at one side alone"
    (guard, end), (body, state) = inside, outside
    if own.variable not in guard.present or other.variable not in body.present:
        return "it may compare nothing"
    first = guard.find_equal(end, (own.variable, own.attribute.name))
    second = body.find_waiting(state, (other.variable, other.attribute.name), single)
    if first is None or second is None:
        return "a partial match does not have this value in its last event"
    return second, first


def say_leaving(guard: SplitGuard) -> str:
    """Return which partial matches leave, in words."""
    return "by equal values" if guard.conditions else "all that began before"


def mark_waiting(body: Fragment, links: Mapping[tuple[int, int], Link]) -> Fragment:
    """Return the body whose links ask the indexes that the guard takes runs out of.

    Nothing lies between contiguous events: their links ask any index.
    """
    unless = {state: link.unless for (_, state), link in links.items()}
    steps = (
        replace(
            step,
            sources=tuple(
                s if s.link.contiguous else replace(s, link=replace(s.link, unless=unless[s.state]))
                for s in step.sources
            ),
        )
        for step in body.steps
    )
    return replace(body, steps=tuple(steps))


def find_unremovable(pcea: PCEA) -> dict[str, str]:
    """Return the guards that cannot take runs out of their indexes, by name, and why."""
    wrong: dict[str, str] = {}
    for link in (source.link for t in pcea.transitions for source in t.sources):
        if link.unless is not None and (why := _find_unremovable(link, link.unless)):
            wrong[link.unless.guard] = why
    return wrong


def _find_unremovable(link: Link, leaving: Leaving) -> str:
    asked = sorted(a for a, _ in link.equal)
    if asked == sorted(leaving.by):
        return ""
    if leaving.by and not set(asked) <= set(leaving.by):
        return "it does not have the values that the next event asks for"
    bare = replace(link, equal=(), unless=None, arrow=link.arrow if asked else None)
    return "" if bare == ANY_LINK else "the next event asks for more than equal values"
