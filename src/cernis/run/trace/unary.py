"""Replay events in the deterministic automaton of a unary plan.

A partial match that is alive at a row begins inside the window that ends there. So a replay from
the first event of that window, with nothing before it, has exactly the partial matches that wait:
for each deterministic state their number, the earliest start, and one of them as an example.

Cost contract: a replay and a count of edges take O(events · states) in Python, over the events that
they are given. Each pair of a state and a symbol is worked out once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from cernis.automata.unary.cea import Read
from cernis.automata.unary.determinize import MARK, Deterministic
from cernis.automata.unary.runs import DONE, Configuration
from cernis.plan.plan import Unary
from cernis.results.trace_steps import ExampleMark, PartialMatches, Replayed
from cernis.run.trace.events import Int64s, TracedEvents
from cernis.views.describe_automaton import DrawnCea

START = -1
"""The state of what has not begun."""


class _Move(NamedTuple):
    """An edge that a deterministic state takes on a symbol."""

    target: int
    labels: frozenset[str]
    accept: bool


class UnaryReplay:
    """Replays events of one run; `shown` are the variables that people named."""

    def __init__(self, unary: Unary, drawn: DrawnCea, events: TracedEvents) -> None:
        self.drawn = drawn
        self.events = events
        self.automaton: Deterministic = unary.automaton.renew()
        self._edges: dict[tuple[int, int], tuple[int, ...]] = {}
        self._moves: dict[tuple[int, int], tuple[_Move, ...]] = {}
        self._states: dict[int, tuple[int, ...]] = {}

    @cached_property
    def _symbols(self) -> tuple[list[int], list[int]]:
        """The code of each event, and the symbol of each code."""
        alphabet = self.automaton.alphabet
        codes, truths = self.events.encode(alphabet.atoms)
        symbols = [alphabet.symbol(tuple(truth[a] for a in alphabet.atoms)) for truth in truths]
        return codes.tolist(), symbols

    def _symbol(self, index: int) -> int:
        codes, symbols = self._symbols
        return symbols[codes[index]]

    def replay(self, members: Int64s, first: int, last: int) -> Replayed:
        """Read the events at ranks first to last of a partition; say what the last one did."""
        alive: dict[int, PartialMatches] = {}
        taken: dict[int, int] = {}
        completed = 0
        for rank in range(first, last + 1):
            index = int(members[rank])
            symbol = self._symbol(index)
            is_usable = self.events.is_usable(index)
            begun = PartialMatches(1, index, None)
            moved: dict[int, PartialMatches] = {}
            completed = 0
            for state, waiting in [*alive.items(), *([(START, begun)] if is_usable else [])]:
                for move in self._find_moves(state, symbol):
                    if move.accept and is_usable:
                        completed += waiting.number
                    if move.target >= 0:
                        example = waiting.example
                        if move.labels:
                            example = ExampleMark(index, move.labels - {MARK}, example)
                        waiting._replace(example=example).add_to(moved, move.target)
                if rank == last:
                    for edge in self.find_edges(state, symbol):
                        taken[edge] = taken.get(edge, 0) + waiting.number
            alive = moved
        found: dict[int, PartialMatches] = {}
        for state, waiting in alive.items():
            for shown in self._find_states(state):
                waiting.add_to(found, shown)
        return Replayed(found, taken, completed)

    def count_edges(self, firsts: Sequence[int], keys: Sequence[int]) -> dict[int, int]:
        """Return how many events took each edge of the view.

        `firsts` has for each event the index of the first one inside its window; where no partial
        match begins at or after it, nothing moves.
        """
        counts: dict[int, int] = {}
        alive: dict[int, dict[int, int]] = {}  # by key and state, the index of the latest start
        for index, (first, key) in enumerate(zip(firsts, keys, strict=True)):
            if key < 0:
                continue
            symbol = self._symbol(index)
            moved: dict[int, int] = {}
            taken: set[int] = set()
            for state, start in [*alive.get(key, {}).items(), (START, index)]:
                if start < first or not self.events.is_usable(start):
                    continue
                taken.update(self.find_edges(state, symbol))
                for move in self._find_moves(state, symbol):
                    if move.target >= 0:
                        moved[move.target] = max(start, moved.get(move.target, -1))
            alive[key] = moved
            for edge in taken:
                counts[edge] = counts.get(edge, 0) + 1
        return counts

    # ------------------------------------------------------------------ moves

    def _find_moves(self, state: int, symbol: int) -> tuple[_Move, ...]:
        key = (state, symbol)
        known = self._moves.get(key)
        if known is None:
            edges = (
                self.automaton.start(symbol)
                if state == START
                else self.automaton.edges(state, symbol)
            )
            known = tuple(_Move(edge.target, edge.labels, edge.accept) for edge in edges)
            self._moves[key] = known
        return known

    def _find_standing(self, state: int) -> tuple[Configuration, ...]:
        runs = self.automaton.runs
        return runs.start if state == START else tuple(self.automaton.states[state].own)

    def _find_states(self, state: int) -> tuple[int, ...]:
        """Return the states of the view in which a deterministic state waits."""
        known = self._states.get(state)
        if known is None:
            standing = frozenset(s for c in self._find_standing(state) for s in _list_states(c))
            known = self._states[state] = tuple(self.drawn.find_states(standing))
        return known

    def find_edges(self, state: int, symbol: int) -> tuple[int, ...]:
        """Return the edges of the view that a deterministic state takes on a symbol."""
        known = self._edges.get((state, symbol))
        if known is None:
            found: dict[int, None] = {}
            shown = [self.drawn.start] if state == START else self._find_states(state)
            for configuration in self._find_standing(state):
                for inner, read in self._list_reads(configuration, symbol):
                    for at in shown:
                        edge = self.drawn.find_edge(at, inner, read)
                        if edge is not None:
                            found[edge] = None
            known = self._edges[state, symbol] = tuple(found)
        return known

    def _list_reads(self, configuration: Configuration, symbol: int) -> Iterator[tuple[int, Read]]:
        """Yield the reads of a configuration that an event of the symbol passes."""
        runs = self.automaton.runs
        moves = runs.moves(configuration, symbol)
        if not moves:
            return
        passed = runs.alphabet.passed[symbol]
        labels = {labels for labels, _ in moves}
        for read in runs.cea.reads[configuration.state]:
            if read.test in passed and read.labels in labels:
                yield configuration.state, read
        for i, part in enumerate(configuration.parts):
            if part is None:
                entry, _ = runs.cea.forks[configuration.state].parts[i]
                for begun in runs.closure(Configuration(entry)) if not runs.cea.scopes else ():
                    yield from self._list_reads(begun, symbol)
            elif part != DONE:
                yield from self._list_reads(part, symbol)


def _list_states(configuration: Configuration) -> Iterator[int]:
    yield configuration.state
    for part in configuration.parts:
        if part is not None and part != DONE:
            yield from _list_states(part)
