"""Parallelized automata as the definition has them: every run, in a list.

`NaiveRuns` keeps each run of a PCEA with all that it has marked, and tries each of them
on each event. The number of runs is the number of partial matches, so cost per event
grows with the stream (for a join of n atoms like its length to the power n-1), and only
a window bounds it. Tests compare the engine with it, and
benchmarks measure against it.

>>> from cernis.automata.unary.cea import Is
>>> from cernis.automata.correlated.pcea import PCEA, Link, RunSource, Transition
>>> from cernis.pattern.atom import TypeIs
>>> same = RunSource(0, Link(equal=(("x", "x"),)))
>>> pairs = PCEA(
...     ("A", "B"),
...     (
...         Transition((), Is(TypeIs("A")), frozenset({"a"}), 0),
...         Transition((same,), Is(TypeIs("B")), frozenset({"b"}), 1),
...     ),
...     frozenset({1}),
... )
>>> runs = NaiveRuns(pairs)
>>> stream = [{"type": "A", "x": 1}, {"type": "A", "x": 2}, {"type": "B", "x": 1}]
>>> [match for event in stream for match in runs.push(event)]
[NaiveMatch(start=0, end=2, labels={'a': (0,), 'b': (2,)})]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any, NamedTuple

from cernis.automata.correlated.pcea import PCEA, Link, RunSource, Transition
from cernis.automata.unary.cea import Both, Either, Is, Isnt, Test
from cernis.pattern.atom import TypeIs
from cernis.pattern.predicate import Attribute
from cernis.testing.predicates import Event, compare, holds, read_attribute

STREAM = "_stream"


class NaiveMatch(NamedTuple):
    """A match by positions: its interval and what each label holds."""

    start: int
    end: int
    labels: dict[str, tuple[int, ...]]


class _NaiveRun(NamedTuple):
    start: int
    last: int
    event: Event
    labels: frozenset[tuple[str, int]]
    gone: frozenset[str] = frozenset()
    """The guards that have taken it out."""


class NaiveRuns:
    """All runs of a PCEA over a stream that is pushed event by event."""

    def __init__(self, pcea: PCEA, window_events: int | None = None, *, type: str = "type") -> None:
        self.pcea = pcea
        self.window_events = window_events
        self.position = -1
        self._type = type
        self._runs: list[list[_NaiveRun]] = [[] for _ in pcea.names]

    @property
    def size(self) -> int:
        """How many runs are kept."""
        return sum(map(len, self._runs))

    def push(self, event: Event) -> list[NaiveMatch]:
        """Read one event and return the matches that end with it, one for each run."""
        self.position += 1
        self._forget()
        made = [
            (transition.target, run)
            for transition in self.pcea.transitions
            if is_passed(transition.test, event, type=self._type)
            for run in self._extend(transition, event)
        ]
        ended = [run for state, run in made if self._is_match(state, run, event)]
        self._remove(event)
        for state, run in made:
            self._runs[state].append(run)
        return [_make_match(run) for run in ended]

    def run(self, events: Iterable[Event]) -> list[NaiveMatch]:
        """Return the matches of a whole stream, in order of their ends."""
        return [match for event in events for match in self.push(event)]

    def _is_match(self, state: int, run: _NaiveRun, event: Event) -> bool:
        """Whether a run ends here, and nothing lies inside it that must be absent."""
        guards = (source for final, source in self.pcea.guards if final == state)
        return state in self.pcea.finals and not any(
            other.start > run.start
            for source in guards
            for other in self._find_waiting(source, event)
        )

    def _remove(self, event: Event) -> None:
        """Take out the runs that an event of a guard forbids.

        Only steps inside the UNLESS may not go on with them: they keep the name of the guard.
        """
        for t in self.pcea.transitions:
            if is_passed(t.test, event, type=self._type):
                for taker, source in self.pcea.removals:
                    if taker == t.target and source.link.unless is not None:
                        name = source.link.unless.guard
                        self._runs[source.state] = [
                            run._replace(gone=run.gone | {name})
                            if is_linked(source.link, run.event, event)
                            else run
                            for run in self._runs[source.state]
                        ]

    def _extend(self, transition: Transition, event: Event) -> Iterator[_NaiveRun]:
        waiting = [self._find_waiting(source, event) for source in transition.sources]
        own = frozenset((label, self.position) for label in transition.labels)
        for runs in product(*waiting):
            yield _NaiveRun(
                min((run.start for run in runs), default=self.position),
                self.position,
                event,
                own.union(*(run.labels for run in runs)),
            )

    def _find_waiting(self, source: RunSource, event: Event) -> list[_NaiveRun]:
        return [
            run
            for run in self._runs[source.state]
            if is_linked(source.link, run.event, event)
            and (not source.link.contiguous or run.last == self.position - 1)
            and (source.link.unless is None or source.link.unless.guard not in run.gone)
        ]

    def _forget(self) -> None:
        if self.window_events is None:
            return
        oldest = self.position - self.window_events
        for runs in self._runs:
            runs[:] = [run for run in runs if run.start >= oldest]


def _make_match(run: _NaiveRun) -> NaiveMatch:
    labels: dict[str, tuple[int, ...]] = {}
    for label, position in sorted(run.labels):
        labels[label] = (*labels.get(label, ()), position)
    return NaiveMatch(run.start, run.last, labels)


def is_passed(test: Test, event: Event, *, type: str = "type") -> bool:
    """Whether an event passes the test of a transition."""
    match test:
        case Is(atom=atom):
            if isinstance(atom, TypeIs):
                return event.get(type) == atom.type and atom.stream in (None, event.get(STREAM))
            return holds(atom, event)
        case Isnt(body=body):
            return not is_passed(body, event, type=type)
        case Both(parts=parts):
            return all(is_passed(part, event, type=type) for part in parts)
        case Either(parts=parts):
            return any(is_passed(part, event, type=type) for part in parts)


def is_linked(link: Link, earlier: Event, later: Event) -> bool:
    """Whether two events satisfy a link, contiguity aside."""

    def values(pair: tuple[str, str]) -> tuple[Any, Any]:
        return _read_attribute(pair[0], earlier), _read_attribute(pair[1], later)

    return (
        all(compare("=", *values(pair)) is True for pair in link.equal)
        and all(compare("!=", *values(pair)) is True for pair in link.different)
        and all(compare("=", *values(pair)) is not True for pair in link.unlike)
        and all(compare(o.op, *values((o.earlier, o.later))) is True for o in link.ordered)
    )


def _read_attribute(name: str, event: Event) -> Any:
    return read_attribute(Attribute.named(name), event)
