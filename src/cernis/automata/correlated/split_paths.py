"""Give the last ray of a star a path of its own where it iterates, or may be left out.

The event that ends a star gathers what is before it (`middles`), so it must be one event that each
match has. In `A AS a ; B AS b ; C+ AS c`, with b and c compared with a, the last c is that event,
and the c's before it are a ray that iterates. There may be none of these, so the automaton has two
paths, from two copies of a: `A ; B ; C` and `A ; B ; C+ ; C`. Of `A ; B ; C?` they are `A ; B` and
`A ; B ; C`. Each match takes one of them. Where nothing lies between, as in `A ; B+`, a need not be
copied: the last b may be its neighbour.

Where two kinds of centres have to be told apart, each kind has a path of its own as well
(`split_centre`).

Cost contract: linear in the transitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from cernis.automata.correlated.pcea import PCEA, Transition
from cernis.automata.unary.cea import Test, conjoin


@dataclass(frozen=True, slots=True)
class SplitPaths:
    """An automaton with two paths, and the states that a state has become on each of them.

    States without an entry are on both.
    """

    pcea: PCEA
    paths: tuple[Mapping[int, tuple[int, ...]], ...]


def split_paths(pcea: PCEA, centre: int, between: frozenset[int], last: int) -> SplitPaths | None:
    """Return the automaton with two paths from the centre to the last ray; None: one is enough."""
    steps = _list_steps(pcea, centre, between, last)
    if steps is None:
        return None
    inside = between | {centre}
    leaves = any(source in inside and target not in between | {last} for source, target in steps)
    if between and (leaves or inside & pcea.finals):
        return _Copy(pcea, centre, between, last, is_optional=True).split()
    if (last, last) in steps:
        return _Copy(pcea, centre, between, last, is_optional=False).split()
    return None


def split_centre(
    pcea: PCEA, centre: int, between: frozenset[int], last: int, tests: tuple[Test, Test]
) -> SplitPaths | None:
    """Return the automaton with a path for the centres that pass each test; None: there is none."""
    steps = _list_steps(pcea, centre, between, last)
    if steps is None or (last, last) in steps or (between | {centre}) & pcea.finals:
        return None
    if any(one in between | {centre} and other not in between | {last} for one, other in steps):
        return None
    return _Copy(pcea, centre, between, last, is_optional=False, tests=tests).split()


def _list_steps(
    pcea: PCEA, centre: int, between: frozenset[int], last: int
) -> list[tuple[int, int]] | None:
    """Return the steps between states; None: the ones between are entered in another way."""
    steps = [(t.sources[0].state, t.target) for t in pcea.transitions if t.sources]
    inside = between | {centre}
    is_chain = all(len(t.sources) < 2 for t in pcea.transitions)
    if not is_chain or pcea.guards or pcea.removals or centre == last:
        return None
    begins = {t.target for t in pcea.transitions if not t.sources}
    into = [source for source, target in steps if target in between | {last} and source != last]
    return steps if not begins & (between | {last}) and {*into} <= inside else None


class _Copy:
    """The states between a centre and its last ray, and copies of them on another path."""

    def __init__(
        self,
        pcea: PCEA,
        centre: int,
        between: frozenset[int],
        last: int,
        *,
        is_optional: bool,
        tests: tuple[Test, Test] | None = None,
    ) -> None:
        self.pcea, self.centre, self.last, self.is_optional = pcea, centre, last, is_optional
        self.tests = tests
        """What the centre of each path passes; None: both have the same ones."""
        copied = (centre, *sorted(between)) if between or tests else ()
        lasts = () if is_optional or tests else (last, last) if between else (last,)
        added = (*copied, *lasts)
        numbers = range(len(pcea.names), len(pcea.names) + len(added))
        self.names = (*pcea.names, *(pcea.names[state] for state in added))
        self.copies = dict(zip(copied, numbers, strict=False))
        self.rounds = numbers[len(copied)] if lasts else last
        """Where the copies lead to: the last ray, or its rounds before the last one."""
        self.end = numbers[-1] if len(lasts) > 1 else last

    def split(self) -> SplitPaths:
        """Return the automaton with both paths."""
        transitions = []
        for t in self.pcea.transitions:
            if not t.sources:
                transitions += [self._lead(t, target) for target in self._copy(t.target)]
                continue
            (source,) = t.sources
            for state, target in self._copy_step(source.state, t.target):
                own = (replace(source, state=state),)
                transitions.append(self._lead(replace(t, sources=own), target))
        finals = self.pcea.finals | ({self.end} if self.last in self.pcea.finals else set())
        pcea = replace(
            self.pcea, names=self.names, transitions=tuple(transitions), finals=frozenset(finals)
        )
        copied = {state: (copy,) for state, copy in self.copies.items()}
        is_single = self.is_optional or self.tests is not None
        ends = (self.last,) if is_single else (self.rounds, self.end)
        first: dict[int, tuple[int, ...]] = {self.last: ()} if self.is_optional else {}
        return SplitPaths(pcea, (first, {**copied, self.last: ends}))

    def _lead(self, transition: Transition, target: int) -> Transition:
        """Return a transition that leads to a state."""
        centres = (self.centre, self.copies.get(self.centre))
        if self.tests is not None and target in centres:
            test = conjoin(transition.test, self.tests[centres.index(target)])
            transition = replace(transition, test=test)
        return replace(transition, target=target)

    def _copy(self, state: int) -> Iterator[int]:
        yield state
        if state in self.copies:
            yield self.copies[state]

    def _copy_step(self, source: int, target: int) -> Iterator[tuple[int, int]]:
        """Yield the steps that a step becomes, each with its source and its target."""
        ends = dict.fromkeys((self.last, self.end)) if source == self.last else (source,)
        if target == self.last:
            if self.is_optional:
                yield self.copies.get(source, source), target
            elif source == self.last:
                yield from ((self.rounds, self.rounds), (self.rounds, self.end))
            else:
                yield from ((source, target), (self.copies.get(source, source), self.rounds))
        elif target == self.centre:
            yield from ((end, copy) for end in ends for copy in self._copy(target))
        elif target in self.copies:
            yield from ((source, target), (self.copies[source], self.copies[target]))
        else:
            yield from ((end, target) for end in ends)
