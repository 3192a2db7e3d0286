"""Find the stars whose matches can be counted for all centres at once.

Per centre of a star (`middles`), and per state between it and the last event, there is a number: of
how many chains of events after the centre end in this state. An event that is read into a state
adds the number of the state before to that of its own, for each centre that it fits. The last event
adds up numbers of centres.

This takes matches that begin with the centre and end with the last event, states between that
compare nothing with each other beside a key of the star, and no star inside of it.

Cost contract: linear in the transitions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cernis.automata.correlated.pcea import ANY_LINK, PCEA, Link, RunSource

_MOST_NUMBERS = 8
"""An event multiplies matrices of this size."""


@dataclass(frozen=True, slots=True)
class CountedStep:
    """A transition, by the numbers of states: the centre is 0, the last event comes last."""

    number: int
    before: int
    """The number that it adds to its own."""
    fits: int
    """Which of the conditions on the centre decides; -1: none does."""


@dataclass(frozen=True, slots=True)
class CountedStar:
    """A star whose matches are counted without listing them."""

    column: tuple[str, ...]
    """The attributes of its key."""
    size: int
    """How many numbers a centre has."""
    fits: tuple[Link, ...]
    """The orders between the centre and other events; that of the last one has stages (`once`)."""
    steps: Mapping[int, CountedStep]
    """By transition; those of the last event have the number `size`."""


class _NotCountedError(Exception):
    """Something of the star does not depend on the centre alone."""


def find_stars(pcea: PCEA) -> tuple[CountedStar, ...]:
    """Return the stars in which all matches end; empty: some match is in none that is counted."""
    begins = [t.labels for t in pcea.transitions if not t.sources]
    if pcea.guards or pcea.removals or len({*begins}) < len(begins):
        return ()  # an event that begins a run is known by its labels alone
    ends: dict[tuple[int, int], list[int]] = {}
    for i, t in enumerate(pcea.transitions):
        if t.target in pcea.finals:
            centre = t.sources[-1] if t.sources else None
            if centre is None or not centre.link.once or centre.link.ray is not None:
                return ()
            ends.setdefault((centre.state, t.target), []).append(i)
    try:
        return tuple(_StarReader(pcea, *star, own).read() for star, own in ends.items())
    except _NotCountedError:
        return ()


class _StarReader:
    """Reads the states between a centre and the last event, from the last one back."""

    def __init__(self, pcea: PCEA, centre: int, last: int, ends: Sequence[int]) -> None:
        self.pcea, self.centre, self.last, self.ends = pcea, centre, last, ends
        link = pcea.transitions[ends[0]].sources[-1].link
        self.column = tuple(sorted(name for name, _ in link.equal))
        self.begins: dict[int, int] = {}
        """Per state, the one after which its part begins."""
        self.before: dict[int, tuple[int, int]] = {}
        """Per transition, its state and the one before."""

    def read(self) -> CountedStar:
        """Return the star, if it is counted."""
        transitions = self.pcea.transitions
        own = [i for i, t in enumerate(transitions) if t.target == self.centre]
        if any(transitions[i].sources for i in own):
            raise _NotCountedError
        links = dict.fromkeys(transitions[i].sources[-1].link for i in self.ends)
        passed = {stage.state: stage for link in links for stage in link.once}
        fitted = {state: stage.fits for state, stage in passed.items() if stage.fits is not None}
        for link in (*links, *fitted.values()):
            self._check(link, replace(link, ordered=(), once=()))
        if any(stage.after for stage in passed.values()):
            raise _NotCountedError
        for i in self.ends:
            self.before[i] = (self.last, self._go_back(transitions[i].sources[:-1], self.centre))
        numbers = {state: number for number, state in enumerate(self._sort_states())}
        orders = tuple(link for link in (*links, *fitted.values()) if link.ordered)
        steps = {i: CountedStep(0, 0, -1) for i in own}
        for i, (state, before) in self.before.items():
            asked = transitions[i].sources[-1].link if i in self.ends else fitted.get(state)
            fits = orders.index(asked) if asked is not None and asked.ordered else -1
            steps[i] = CountedStep(numbers.get(state, len(numbers)), numbers[before], fits)
        return CountedStar(self.column, len(numbers), orders, steps)

    def _visit(self, state: int, begins: int) -> None:
        """Read the transitions into a state; its part begins after another one."""
        if self.begins.setdefault(state, begins) != begins or state in (self.centre, self.last):
            raise _NotCountedError
        for i, t in enumerate(self.pcea.transitions):
            if t.target == state and i not in self.before:
                self.before[i] = (state, begins)
                self.before[i] = (state, self._go_back(t.sources, begins))

    def _go_back(self, sources: Sequence[RunSource], begins: int) -> int:
        """Return the state before a transition, and read what leads to it."""
        if not sources:
            return begins
        first, *rays = sources
        if len(rays) > 1 or any(ray.link.ray is None for ray in rays):
            raise _NotCountedError
        for source in sources:
            link, star = source.link, source.link.ray
            plain = replace(link, inside=False, ray=None)
            if star is not None:
                if (star.centre, star.last) != (self.centre, self.last):
                    raise _NotCountedError
                plain = replace(plain, ordered=(), once=())
            self._check(link, plain)
        is_far = first.link.inside or first.link.ray is not None
        for ray in rays:
            self._visit(ray.state, self.centre)
        self._visit(first.state, rays[0].state if rays else self.centre if is_far else begins)
        return first.state

    def _check(self, link: Link, plain: Link) -> None:
        """Check that a link has the key of the star, and beside what is known nothing else."""
        equal = tuple((name, name) for name in self.column)
        if tuple(sorted(link.equal)) != equal or replace(plain, equal=()) != ANY_LINK:
            raise _NotCountedError

    def _sort_states(self) -> list[int]:
        """Return the centre and the states between, each after those before it."""
        sorted_, waiting = [self.centre], {*self.begins}
        while waiting:
            ready = [
                state
                for state in sorted(waiting)
                if not waiting & {b for own, b in self.before.values() if own == state != b}
            ]
            if not ready or len(sorted_) + len(ready) > _MOST_NUMBERS:
                raise _NotCountedError
            sorted_ += ready
            waiting -= {*ready}
        return sorted_
