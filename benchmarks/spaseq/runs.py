"""SPAseQ sequences as the paper evaluates them: a list of runs, one for each partial match.

A run keeps all its bindings (the paper's cache history). An event that matches some graph pattern
is offered to each active run, or, with the paper's index, to each that waits for the event's
stream. A run that has expired is dropped when an event meets it. Graph patterns are solved
beforehand, and an `&` is one event at its timestamp (the paper's lazy evaluation): only the
automaton is compared.

Cost: in proportion to the active runs, for each event. It is plain Python, so that it is easy to
check. Compare its growth with the engine's, not its absolute cost.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from benchmarks.spaseq.stages import SolvedStreams
from cernis.automata.linked.automaton import LinkedAutomaton, LinkedTransition
from cernis.engine.linked.step import LinkedRows
from cernis.languages.spaseq.graphs import graph as g
from cernis.languages.spaseq.query import SpaseqQuery

Bound = dict[str, int]
"""Codes of terms, by variable."""

_OPERATIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge, "+": operator.add, "-": operator.sub, "*": operator.mul,
}  # fmt: skip
_NUMBER = re.compile(r'"([^"]*)"\^\^<http://www\.w3\.org/2001/XMLSchema#(?:integer|decimal)>')


class OfferedRow(NamedTuple):
    """A solution of a step: its number and its bindings."""

    number: int
    bound: Bound


class OfferedEvent(NamedTuple):
    """An event with its solutions, by reading."""

    moment: int
    time: int
    stream: str
    rows: dict[int, list[OfferedRow]]


@dataclass(eq=False, slots=True)
class ListedRun:
    """A partial match, and the store in which it waits."""

    store: int
    start: int
    moment: int
    rows: tuple[int, ...]
    bound: Bound
    gone: bool = False


class RunList:
    """All runs of a linked automaton, in one list or in one for each stream."""

    def __init__(
        self,
        query: SpaseqQuery,
        linked: LinkedAutomaton,
        values: Sequence[Any],
        window: int,
        *,
        index: bool,
    ) -> None:
        unbound = any(set(one.names) - one.certain for one in linked.alternatives)
        if linked.guards or query.partition or unbound:
            raise ValueError("a list of runs knows no `!`, no PARTITION BY and no OPTIONAL")
        self.window, self.index = window, index
        self.links = [store.link for store in linked.stores]
        self.first: dict[int, list[LinkedTransition]] = {}
        self.moves: list[dict[int, list[LinkedTransition]]] = [{} for _ in linked.stores]
        for one in linked.transitions:
            leaving = self.first if one.store is None else self.moves[one.store]
            leaving.setdefault(one.reading, []).append(one)
        self.conditions = [
            [compile_condition(one, values) for one in linked.conditions(reading)]
            for reading in range(len(linked.readings))
        ]
        self.stores = [
            [number for number, store in enumerate(linked.stores) if store.state == state]
            for state in range(len(linked.states))
        ]
        self.lists = [
            sorted({name for a in linked.alternatives if a.step == store.step
                    for name in query.gpm(a.gpms[0]).streams}) if index else [""]
            for store in linked.stores
        ]  # fmt: skip
        self.active: dict[str, list[ListedRun]] = {name: [] for name, _ in query.streams}
        self.active[""] = []

    @property
    def size(self) -> int:
        """The number of active runs."""
        return sum(map(len, self.active.values()))

    def run(self, events: Iterable[OfferedEvent]) -> Iterator[tuple[int, ...]]:
        """Yield the matches of some events, as the numbers of their rows."""
        for _, together in groupby(events, key=lambda event: event.moment):
            made: list[ListedRun] = []
            gone: list[ListedRun] = []
            for event in together:
                yield from self._begin(event, made)
                yield from self._offer(event, made, gone)
            for run in gone:
                run.gone = True
            for name in {name for run in gone for name in self.lists[run.store]}:
                self.active[name] = [run for run in self.active[name] if not run.gone]
            for run in made:
                for name in self.lists[run.store]:
                    self.active[name].append(run)

    def _begin(self, event: OfferedEvent, made: list[ListedRun]) -> Iterator[tuple[int, ...]]:
        for reading, transitions in self.first.items():
            for row in event.rows.get(reading, ()):
                if all(holds(row.bound) for holds in self.conditions[reading]):
                    for transition in transitions:
                        begun = event.time, (row.number,), row.bound
                        yield from self._file(event, *begun, transition, made)

    def _offer(
        self, event: OfferedEvent, made: list[ListedRun], gone: list[ListedRun]
    ) -> Iterator[tuple[int, ...]]:
        earliest, before = event.time - self.window, event.moment - 1
        for run in self.active[event.stream if self.index else ""]:
            link = self.links[run.store]
            if run.start < earliest or (link == "," and run.moment != before):
                gone.append(run)
                continue
            moved = False
            for reading, transitions in self.moves[run.store].items():
                for row in event.rows.get(reading, ()):
                    for transition in transitions:
                        both = self._combine(run.bound, row.bound, transition)
                        if both is not None:
                            moved = True
                            longer = run.start, (*run.rows, row.number), both
                            yield from self._file(event, *longer, transition, made)
            if moved and link == ";":
                gone.append(run)

    def _combine(self, bound: Bound, own: Bound, transition: LinkedTransition) -> Bound | None:
        """Return the bindings of a run that takes a row; None if they do not fit."""
        for name in transition.joins:
            if bound[name] != own[name]:
                return None
        both = {**bound, **own}
        for holds in self.conditions[transition.reading]:
            if not holds(both):
                return None
        return both

    def _file(
        self,
        event: OfferedEvent,
        start: int,
        rows: tuple[int, ...],
        bound: Bound,
        transition: LinkedTransition,
        made: list[ListedRun],
    ) -> Iterator[tuple[int, ...]]:
        for store in self.stores[transition.target]:
            made.append(ListedRun(store, start, event.moment, rows, bound))
        if transition.final:
            yield rows


def compile_condition(expression: g.Expression, values: Sequence[Any]) -> Callable[[Bound], Any]:
    """Return a condition as a function of bindings.

    >>> less = g.ComparisonExpression("<", g.GraphVariable("x"), g.GraphVariable("y"))
    >>> compile_condition(less, [5, 7])({"x": 0, "y": 1})
    True
    """
    match expression:
        case g.GraphVariable(name):
            return lambda bound: values[bound[name]]
        case g.Term(text):
            constant = read_value(text)
            return lambda _: constant
        case g.AndExpression(parts):
            several = [compile_condition(part, values) for part in parts]
            return lambda bound: all(part(bound) for part in several)
        case g.ComparisonExpression(op, g.GraphVariable(one), g.GraphVariable(other)):
            compare = _OPERATIONS[op]
            return lambda bound: compare(values[bound[one]], values[bound[other]])
        case g.ComparisonExpression(op, left, right) | g.ArithmeticExpression(op, left, right):
            compute = _OPERATIONS[op]
            first, second = (compile_condition(side, values) for side in (left, right))
            return lambda bound: compute(first(bound), second(bound))
        case _:
            raise ValueError(f"a list of runs cannot evaluate {expression}")


def read_value(text: str) -> Any:
    """Return the number of a term, or its text.

    >>> read_value('"1.50"^^<http://www.w3.org/2001/XMLSchema#decimal>'), read_value("<urn:x>")
    (Decimal('1.50'), '<urn:x>')
    """
    number = _NUMBER.fullmatch(text)
    if number is None:
        return text
    return Decimal(number[1]) if "." in number[1] else int(number[1])


def read_values(solved: SolvedStreams) -> list[Any]:
    """Return the value of each term of a run, by code."""
    terms = solved.session.feed.terms
    return [
        read_value(text) for text in terms.texts(np.arange(len(terms), dtype=np.int32)).to_pylist()
    ]


def collect_events(solved: SolvedStreams) -> list[OfferedEvent]:
    """Return the events that match some pattern, with their solutions."""
    rows = LinkedRows(*(np.concatenate(column) for column in zip(*solved.rows, strict=True)))
    names = solved.session.plan.linked.columns
    numbers = np.arange(len(rows.reading))
    held = solved.session.feed.store.rows(numbers).event
    streams, *_ = solved.session.feed.store.events(held[:, 0])
    called = [name for name, _ in solved.query.query.streams]
    events: dict[tuple[int, ...], OfferedEvent] = {}
    for number, event, stream, reading, codes, moment, time in zip(
        numbers.tolist(), held.tolist(), streams.tolist(), rows.reading.tolist(),
        rows.codes.tolist(), rows.moment.tolist(), rows.clock.tolist(), strict=True,
    ):  # fmt: skip
        bound = {name: code for name, code in zip(names, codes, strict=True) if code >= 0}
        one = events.setdefault(tuple(event), OfferedEvent(moment, time, called[stream], {}))
        one.rows.setdefault(reading, []).append(OfferedRow(number, bound))
    return sorted(events.values(), key=lambda event: event.moment)
