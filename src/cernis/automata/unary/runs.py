"""The moves of single runs of a CEA: configurations, ε-closure, and the moves on a symbol.

A configuration is where one run stands: its state, for each scope around that state
the set of guard configurations (None before the scope's first event), and at a fork
the configurations of its parts (None: not begun, DONE: finished). For a plain
automaton it is just a state.

Cost contract: every (configuration, symbol) is computed once and cached; more than
`MOST_MOVES` moves in all are a `BudgetError`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from cernis.automata.unary.alphabet import Alphabet
from cernis.automata.unary.cea import CEA
from cernis.errors import BudgetError

MOST_MOVES = 200_000


class Configuration(NamedTuple):
    state: int
    guards: tuple[frozenset[Configuration] | None, ...] = ()
    parts: tuple[Configuration | None, ...] = ()


DONE = Configuration(-1)

Moves = tuple[tuple[frozenset[str], Configuration], ...]


class Runs:
    """The moves of single runs, memoized."""

    def __init__(self, cea: CEA, alphabet: Alphabet) -> None:
        self.cea = cea
        self.alphabet = alphabet
        self._moves: dict[tuple[Configuration, int], Moves] = {}
        self._closures: dict[Configuration, tuple[Configuration, ...]] = {}
        self._spent = 0
        self._ends = cea.ends
        self.start = self.closure(self._enter(cea.initial, (), ()))

    def accepts(self, configuration: Configuration) -> bool:
        return configuration.state == self.cea.final

    def is_possible(self, configuration: Configuration) -> bool:
        """Return whether a configuration has the guards and parts of its state."""
        state, guards, parts = configuration
        if not 0 <= state < self.cea.size:
            return False
        fork = self.cea.forks.get(state)
        return (
            len(guards) == len(self.cea.scopes_of[state])
            and len(parts) == (len(fork.parts) if fork else 0)
            and all(self.is_possible(c) for guard in guards for c in guard or ())
            and all(part in (None, DONE) or self.is_possible(part) for part in parts)
        )

    def moves(self, configuration: Configuration, symbol: int) -> Moves:
        """Return (labels, next configuration) for every way to read an event of this symbol."""
        key = (configuration, symbol)
        known = self._moves.get(key)
        if known is None:
            known = tuple(dict.fromkeys(self._read(configuration, symbol)))
            self._spend(1 + len(known))
            self._moves[key] = known
        return known

    def _spend(self, moves: int) -> None:
        self._spent += moves
        if self._spent > MOST_MOVES:
            raise BudgetError(
                f"this pattern needs more than {MOST_MOVES:,} moves to be worked out; "
                "simplify its ALL, UNLESS or OR parts"
            )

    def begin_parts(self, state: int) -> Iterator[Configuration]:
        """Yield the configurations in which the parts of a fork may begin."""
        for entry, _ in self.cea.forks[state].parts:
            yield from self.closure(self._enter(entry, (), ()))

    # ------------------------------------------------------------- reading

    def _read(
        self, configuration: Configuration, symbol: int
    ) -> Iterator[tuple[frozenset[str], Configuration]]:
        if self._violated(configuration):
            return
        guards = self._advance_guards(configuration, symbol)
        passed = self.alphabet.passed[symbol]
        for read in self.cea.reads[configuration.state]:
            if read.test in passed:
                arrived = self._enter(read.target, self.cea.scopes_of[configuration.state], guards)
                for closed in self.closure(arrived):
                    yield read.labels, closed
        if configuration.state in self.cea.forks:
            yield from self._read_fork(configuration, guards, symbol)

    def _read_fork(
        self,
        configuration: Configuration,
        guards: tuple[frozenset[Configuration] | None, ...],
        symbol: int,
    ) -> Iterator[tuple[frozenset[str], Configuration]]:
        """Move each part that runs; one that has not begun may begin; one that is done waits."""
        fork = self.cea.forks[configuration.state]
        combined: dict[tuple[frozenset[str], tuple[Configuration | None, ...]], None] = {
            (frozenset(), ()): None
        }
        for (entry, exit_), part in zip(fork.parts, configuration.parts, strict=True):
            choices = list(self._part_moves(entry, exit_, part, symbol))
            combined = dict.fromkeys(
                (labels | more, (*parts, moved))
                for labels, parts in combined
                for more, moved in choices
            )
            self._spend(len(combined))
        for labels, parts in combined:
            if all(part is None for part in parts):
                continue
            if all(part == DONE for part in parts):
                scopes = self.cea.scopes_of[configuration.state]
                for closed in self.closure(self._enter(fork.target, scopes, guards)):
                    yield labels, closed
            else:
                yield labels, Configuration(configuration.state, guards, parts)

    def _part_moves(
        self, entry: int, exit_: int, part: Configuration | None, symbol: int
    ) -> Iterator[tuple[frozenset[str], Configuration | None]]:
        nothing: frozenset[str] = frozenset()
        if part == DONE:
            yield nothing, DONE
            return
        if part is None:
            yield nothing, None
            begun: Iterable[Configuration] = self.closure(self._enter(entry, (), ()))
        else:
            begun = (part,)
        for running in begun:
            for labels, moved in self.moves(running, symbol):
                yield labels, (DONE if moved.state == exit_ else moved)

    # -------------------------------------------------------------- guards

    def _violated(self, configuration: Configuration) -> bool:
        scopes = self.cea.scopes_of[configuration.state]
        return any(
            guard is not None and any(c.state == self.cea.scopes[scope].exit for c in guard)
            for scope, guard in zip(scopes, configuration.guards, strict=True)
        )

    def _advance_guards(
        self, configuration: Configuration, symbol: int
    ) -> tuple[frozenset[Configuration] | None, ...]:
        advanced = []
        scopes = self.cea.scopes_of[configuration.state]
        for scope, guard in zip(scopes, configuration.guards, strict=True):
            if guard is None:  # this is the scope's first event: a guard begins after it
                advanced.append(frozenset[Configuration]())
                continue
            begun = self.closure(self._enter(self.cea.scopes[scope].entry, (), ()))
            advanced.append(
                frozenset(
                    moved
                    for running in (*guard, *begun)
                    for _, moved in self.moves(running, symbol)
                )
            )
        return tuple(advanced)

    # ------------------------------------------------------------- ε-moves

    def _enter(
        self,
        state: int,
        scopes: tuple[int, ...],
        guards: tuple[frozenset[Configuration] | None, ...],
    ) -> Configuration:
        """Return the configuration on arriving at a state, with the guards of shared scopes."""
        here = self.cea.scopes_of[state]
        shared = 0
        while shared < min(len(here), len(scopes)) and here[shared] == scopes[shared]:
            shared += 1
        carried = guards[:shared] + (None,) * (len(here) - shared)
        fork = self.cea.forks.get(state)
        return Configuration(state, carried, (None,) * len(fork.parts) if fork else ())

    def closure(self, configuration: Configuration) -> tuple[Configuration, ...]:
        """Return where a run may stand without reading, without states that only pass on."""
        known = self._closures.get(configuration)
        if known is not None:
            return known
        seen = {configuration: None}
        stack = [configuration]
        while stack:
            top = stack.pop()
            for move in self.cea.silent[top.state]:
                entered = self._enter(move, self.cea.scopes_of[top.state], top.guards)
                if entered not in seen:
                    seen[entered] = None
                    stack.append(entered)
        result = tuple(c for c in seen if self._matters(c))
        self._closures[configuration] = result
        return result

    def _matters(self, configuration: Configuration) -> bool:
        state = configuration.state
        return bool(self.cea.reads[state]) or state in self._ends or state in self.cea.forks
