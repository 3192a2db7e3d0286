"""I/O-determinize a CEA on the fly: a state is a set of configurations, found when needed.

An event's symbol and the labels that a match gives the event determine the next state. So
every match has exactly one run, and the runtime never meets a match twice (set semantics,
also after projection).

Selection strategies that are regular are built in here:

* `STRICT` drops every move that leaves an event unmarked.
* `NEXT` and `MAX` let a state carry, beside its own configurations `own`, those of
  all runs with the same start and the same marked events (`same`), and those of runs
  with the same start that beat it (`better`): for NEXT the first event marked by only
  one of them was marked by the better one, for MAX the better one has marked a proper
  superset. A configuration that is also `better` can never win and is dropped; a match
  counts only if no better run accepts with it. Matches of different starts are compared
  when roots are resolved (`engine.unary.resolve`).

Acceptance sits on the edges: the final state has no way on, so a state that differs
only by "has just accepted" would be moved by every event for nothing.

Cost contract: every (state, symbol) is computed once; at most `MOST_STATES` states,
then a `BudgetError` (determinization can be exponential in the pattern).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from cernis.automata.unary.alphabet import Alphabet
from cernis.automata.unary.cea import CEA
from cernis.automata.unary.runs import Configuration, Runs
from cernis.errors import BudgetError
from cernis.pattern.query import Strategy

MOST_STATES = 4_096
MARK = "•"
"""The label that says "marked, though by no selected variable"."""

Set = frozenset[Configuration]
NOTHING: Set = frozenset()


class State(NamedTuple):
    """A state of the deterministic automaton."""

    own: Set
    same: Set = NOTHING
    better: Set = NOTHING


class Edge(NamedTuple):
    """Write the labels (none: skip the event), go to the target (-1: nowhere), maybe accept."""

    labels: frozenset[str]
    target: int
    accept: bool


Step = tuple[frozenset[str], frozenset[str], Configuration]


class Deterministic:
    """The deterministic automaton of a CEA under a strategy and a projection.

    It grows while it is asked; `engine.unary.tables` lets one thread at a time ask.
    `selected` are the variables to keep. With `keep_marks` an event that only dropped
    variables mark is still written (as `MARK`), because strategies compare all events
    of a match; without, it is skipped, and matches that differ only in it are one.
    """

    def __init__(
        self, cea: CEA, selected: Iterable[str], strategy: Strategy, *, keep_marks: bool
    ) -> None:
        self.cea = cea
        self.alphabet = Alphabet(cea)
        self.runs = Runs(cea, self.alphabet)
        self.selected = frozenset(selected)
        self.strategy = strategy
        self.keep_marks = keep_marks
        self.states: list[State] = []
        self._numbers: dict[State, int] = {}
        self._keys: list[str] = []
        self._edges: dict[tuple[int, int], tuple[Edge, ...]] = {}
        self._starts: dict[int, tuple[Edge, ...]] = {}

    def start(self, symbol: int) -> tuple[Edge, ...]:
        """Return the edges of a match that begins with an event of this symbol."""
        known = self._starts.get(symbol)
        if known is None:
            own = frozenset(self.runs.start)
            known = self._follow(State(own, own if self._compares else NOTHING), symbol)
            self._starts[symbol] = known
        return known

    def edges(self, state: int, symbol: int) -> tuple[Edge, ...]:
        """Return the edges out of a state on a symbol, in an order that depends on nothing else."""
        known = self._edges.get((state, symbol))
        if known is None:
            known = self._follow(self.states[state], symbol)
            self._edges[state, symbol] = known
        return known

    def begins_unmarked(self) -> bool:
        """Whether a match may begin with an event that it does not mark (NOT)."""
        stack, seen = list(self.runs.start), set(self.runs.start)
        while stack:
            state = stack.pop().state
            if any(not read.labels for read in self.cea.reads[state]):
                return True
            if state in self.cea.forks:
                begun = set(self.runs.begin_parts(state)) - seen
                seen |= begun
                stack.extend(begun)
        return False

    def renew(self) -> Deterministic:
        """Return the same automaton without the states that it has met."""
        return Deterministic(self.cea, self.selected, self.strategy, keep_marks=self.keep_marks)

    def knows(self, state: State) -> bool:
        return state in self._numbers

    def is_possible(self, state: State) -> bool:
        """Return whether a state is made of configurations as runs have them."""
        return (
            bool(state.own)
            and (self._compares or not state.same | state.better)
            and all(self.runs.is_possible(c) for part in state for c in part)
        )

    def number(self, state: State) -> int:
        known = self._numbers.get(state)
        if known is None:
            if len(self.states) >= MOST_STATES:
                raise BudgetError(
                    f"this pattern needs more than {MOST_STATES:,} deterministic states; "
                    "it nests iterations or alternatives that cannot be told apart early"
                )
            known = len(self.states)
            self.states.append(state)
            self._numbers[state] = known
        return known

    def key(self, state: int) -> str:
        """Return a name of the state that does not depend on when it was found."""
        while len(self._keys) <= state:
            parts = self.states[len(self._keys)]
            self._keys.append(repr([sorted(map(_sort_sets, part), key=repr) for part in parts]))
        return self._keys[state]

    # --------------------------------------------------------------- steps

    @property
    def _compares(self) -> bool:
        return self.strategy in (Strategy.NEXT, Strategy.MAX, Strategy.LONGEST)

    def _steps(self, configurations: Set, symbol: int) -> list[Step]:
        """Return (written labels, all labels, next) for every move."""
        strict = self.strategy is Strategy.STRICT
        steps = []
        for configuration in configurations:
            for labels, moved in self.runs.moves(configuration, symbol):
                if strict and not labels:
                    continue
                written = labels & self.selected
                if labels and self.keep_marks:
                    written |= {MARK}
                steps.append((written, labels, moved))
        return steps

    def _follow(self, state: State, symbol: int) -> tuple[Edge, ...]:
        by_labels: dict[frozenset[str], set[Configuration]] = {}
        for written, _, moved in self._steps(state.own, symbol):
            by_labels.setdefault(written, set()).add(moved)
        edges = []
        for written in sorted(by_labels, key=sorted):
            target = self._step_rivals(state, symbol, frozenset(by_labels[written]), bool(written))
            accept = any(self.runs.accepts(c) for c in target.own)
            if any(self.runs.accepts(c) for c in target.better):
                accept = False
            target = self._without_better(target)
            if target.own or accept:
                number = self.number(target) if target.own else -1
                edges.append(Edge(written, number, accept))
        return tuple(edges)

    def _step_rivals(self, state: State, symbol: int, own: Set, marked: bool) -> State:
        """Return the next state: its own configurations, and those of rival runs."""
        if not self._compares:
            return State(own)
        same, rivals = set(), set()
        for _, labels, moved in self._steps(state.same, symbol):
            if bool(labels) == marked:
                same.add(moved)
            elif labels:
                rivals.add(moved)
        for _, labels, moved in self._steps(state.better, symbol):
            if labels or not marked or self.strategy is Strategy.NEXT:
                rivals.add(moved)
        return State(own, frozenset(same), frozenset(rivals))

    def _without_better(self, state: State) -> State:
        """Drop the configurations that have ended or can no longer win."""

        def going_on(configurations: Set) -> Set:
            return frozenset(c for c in configurations if not self.runs.accepts(c))

        better = going_on(state.better)
        own = going_on(state.own) - better
        return State(own, going_on(state.same) - better, better) if own else State(NOTHING)


def _sort_sets(configuration: Configuration) -> tuple[object, ...]:
    """Return a configuration with its sets sorted, so that it prints the same every time."""
    guards = tuple(
        () if guard is None else ("in", *sorted(map(_sort_sets, guard), key=repr))
        for guard in configuration.guards
    )
    parts = tuple(() if part is None else _sort_sets(part) for part in configuration.parts)
    return (configuration.state, guards, parts)
