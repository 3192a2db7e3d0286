"""Fragments of a position automaton: steps and ends, and how to combine fragments.

A state is one occurrence of an atom that has just been read; `States` knows its labels. A
fragment never accepts the empty match: whether it may be left out is a flag. Steps without
sources begin it; concatenation adds the sources before them. So a step is inside the scopes
that were being built when it was made.

Cost contract: concatenation makes one step for each end before and each start after;
clean-up is linear in the steps, but for the few that differ in their links alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

from cernis.automata.correlated.classes import Shape
from cernis.automata.correlated.pcea import ANY_LINK, PCEA, Link, RunSource, Transition
from cernis.automata.unary.cea import NO_EVENT, Is, Test, conjoin, test_parts
from cernis.automata.unary.tidy import find_reachable
from cernis.errors import Span
from cernis.pattern.atom import TypeIs

MOST_TRANSITIONS = 2_000


@dataclass(frozen=True, slots=True)
class Refusal:
    """There is no such automaton, and why."""

    reason: str
    span: Span | None = None


class RefusedError(Exception):
    """Ends a construction with a refusal."""

    def __init__(self, reason: str, span: Span | None) -> None:
        super().__init__(reason)
        self.refusal = Refusal(reason, span)


class States:
    """The labels that reading into each state writes, and its name for printing."""

    def __init__(self) -> None:
        self.labels: list[frozenset[str]] = []
        self.names: list[str] = []

    def new(self, labels: frozenset[str], name: str) -> int:
        self.labels.append(labels)
        self.names.append(name)
        return len(self.labels) - 1

    def mark(self, states: Iterable[int], variable: str) -> None:
        for state in states:
            self.labels[state] |= {variable}
            self.names[state] = variable

    def merge(self, states: tuple[int, ...], known: dict[tuple[int, ...], int]) -> int:
        """Return the state for having read the last event of these at once."""
        if states not in known:
            labels = frozenset[str]().union(*(self.labels[state] for state in states))
            name = " & ".join(dict.fromkeys(self.names[state] for state in states))
            known[states] = self.new(labels, name)
        return known[states]


@dataclass(frozen=True, slots=True)
class Step:
    """Reads an event into the target state; without sources it begins the fragment."""

    sources: tuple[RunSource, ...]
    test: Test
    target: int


@dataclass(frozen=True, slots=True)
class Fragment:
    """Steps, the states that may be its end, and whether it may be left out."""

    steps: tuple[Step, ...] = ()
    last: tuple[int, ...] = ()
    nullable: bool = False

    @property
    def starts(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if not step.sources)

    @property
    def onward(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.sources)

    @property
    def states(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(step.target for step in self.steps))

    @property
    def shape(self) -> Shape:
        return Shape(
            tuple((tuple(s.state for s in step.sources), step.target) for step in self.steps)
        )


NOTHING = Fragment(nullable=True)


def link_starts(before: Iterable[int], steps: Iterable[Step], link: Link) -> Iterator[Step]:
    """Yield the starting steps, each after each of these states."""
    states = tuple(before)
    for step in steps:
        for state in states:
            yield replace(step, sources=(RunSource(state, link),))


def concatenate(left: Fragment, right: Fragment, link: Link = ANY_LINK) -> Fragment:
    if not left.steps:
        return right if left.nullable else left
    return Fragment(
        steps=(
            *left.steps,
            *right.onward,
            *link_starts(left.last, right.starts, link),
            *(right.starts if left.nullable else ()),
        ),
        last=(*right.last, *(left.last if right.nullable else ())),
        nullable=left.nullable and right.nullable,
    )


def unite_fragments(parts: Iterable[Fragment]) -> Fragment:
    found = tuple(parts)
    return Fragment(
        steps=tuple(chain.from_iterable(part.steps for part in found)),
        last=tuple(chain.from_iterable(part.last for part in found)),
        nullable=any(part.nullable for part in found),
    )


def strengthen(body: Fragment, states: States, test: Callable[[frozenset[str]], Test]) -> Fragment:
    """Return the fragment whose steps ask one more test, by the labels that they write."""
    steps = tuple(
        replace(step, test=conjoin(step.test, test(states.labels[step.target])))
        for step in body.steps
    )
    return replace(body, steps=steps)


def is_contradictory(test: Test) -> bool:
    """Whether a test asks for two types, or two streams, at once, or for nothing at all.

    >>> is_contradictory(conjoin(Is(TypeIs("A")), Is(TypeIs("B"))))
    True
    """
    parts = test_parts(test)
    types = [p.atom for p in parts if isinstance(p, Is) and isinstance(p.atom, TypeIs)]
    streams = {atom.stream for atom in types} - {None}
    return NO_EVENT in parts or len({atom.type for atom in types}) > 1 or len(streams) > 1


# ---------------------------------------------------------------- clean-up


def _find_useful(fragment: Fragment) -> set[int]:
    """Return the states that a run can reach and from which it can end."""
    reached: set[int] = set()
    grown = True
    while grown:
        grown = False
        for step in fragment.steps:
            if step.target not in reached and all(s.state in reached for s in step.sources):
                reached.add(step.target)
                grown = True
    useful = {state for state in fragment.last if state in reached}
    sources: dict[int, set[int]] = {}
    for step in fragment.steps:
        if all(s.state in reached for s in step.sources):
            sources.setdefault(step.target, set()).update(s.state for s in step.sources)
    return find_reachable(useful, lambda state: sources.get(state, ()))


def trim(fragment: Fragment) -> Fragment:
    useful = _find_useful(fragment)
    steps = tuple(
        step
        for step in fragment.steps
        if step.target in useful and all(s.state in useful for s in step.sources)
    )
    last = tuple(dict.fromkeys(state for state in fragment.last if state in useful))
    return replace(fragment, steps=steps, last=last)


def _is_weaker(one: Link, other: Link) -> bool:
    """Whether all pairs of events that satisfy the other link satisfy this one."""
    return (
        set(one.equal) <= set(other.equal)
        and set(one.different) <= set(other.different)
        and set(one.ordered) <= set(other.ordered)
        and one.contiguous <= other.contiguous
        and one.gap in (None, other.gap)
        and one.since in (None, other.since)
        and one.arrow in (None, other.arrow)
        and one.unless in (None, other.unless)
    )


def _drop_subsumed(steps: Iterable[Step]) -> tuple[Step, ...]:
    """Drop the steps that differ from a weaker step in their links alone."""
    alike: dict[tuple[tuple[int, ...], Test, int], list[Step]] = {}
    for step in dict.fromkeys(steps):
        known = alike.setdefault((tuple(s.state for s in step.sources), step.test, step.target), [])
        if not any(_includes(other, step) for other in known):
            known[:] = [other for other in known if not _includes(step, other)]
            known.append(step)
    return tuple(chain.from_iterable(alike.values()))


def _includes(one: Step, other: Step) -> bool:
    return all(_is_weaker(a.link, b.link) for a, b in zip(one.sources, other.sources, strict=True))


class GuardFragment(NamedTuple):
    """What must not lie strictly inside a match, and how it is compared with the last event."""

    fragment: Fragment
    links: Mapping[tuple[int, int], Link]
    """By last state of the guard and last state of the formula."""


class RemovalFragment(NamedTuple):
    """A guard of one event, and how it is compared with the runs that it takes out."""

    fragment: Fragment
    links: Mapping[tuple[int, int], Link]
    """By state of the guard and state of the runs."""


def build_automaton(
    whole: Fragment,
    states: States,
    guards: Iterable[GuardFragment] = (),
    removals: Iterable[RemovalFragment] = (),
) -> PCEA:
    """Return the automaton without useless steps, its states in order of the formula."""
    kept = _clean(whole)
    ended = set(kept.last)
    forbidding = [
        (_clean(guard.fragment), guard.links)
        for guard in guards
        if any(last in ended for _, last in guard.links)
    ]
    steps = [*kept.steps, *(step for fragment, _ in forbidding for step in fragment.steps)]
    waiting = {(s.state, s.link.unless) for step in steps for s in step.sources}
    taking = [
        (
            _clean(fragment),
            {pair: link for pair, link in links.items() if (pair[1], link.unless) in waiting},
        )
        for fragment, links in removals
    ]
    steps += [step for fragment, links in taking if links for step in fragment.steps]
    number = {state: i for i, state in enumerate(sorted({step.target for step in steps}))}
    ordered = sorted(steps, key=lambda step: number[step.target])
    found = {
        (number[last], RunSource(number[end], link)): None
        for fragment, links in forbidding
        for (end, last), link in links.items()
        if end in fragment.last and last in ended
    }
    return PCEA(
        names=tuple(states.names[state] for state in number),
        transitions=tuple(
            Transition(
                tuple(replace(s, state=number[s.state]) for s in step.sources),
                step.test,
                states.labels[step.target],
                number[step.target],
            )
            for step in ordered
        ),
        finals=frozenset(number[state] for state in kept.last),
        guards=tuple(sorted(found, key=lambda guard: guard[0])),
        removals=tuple(
            (number[end], RunSource(number[state], link))
            for fragment, links in taking
            for (end, state), link in links.items()
            if end in fragment.last
        ),
    )


def _clean(fragment: Fragment) -> Fragment:
    """Return a fragment without steps that no event, or no run, takes."""
    possible = (step for step in fragment.steps if not is_contradictory(step.test))
    return trim(replace(fragment, steps=_drop_subsumed(possible)))
