"""The deterministic automaton as arrays, filled in as states and symbols turn up.

For each (state, symbol): a slice of `edges`, and whether a copy stays in the state.
For each symbol: the states that it can move (`movers`), so that an event touches only
those, and the edges of matches that begin with it. A symbol that starts nothing and
moves nothing is *inert*.

A state is *expanded* (its edges on all known symbols are worked out) when a run first
enters it; a new symbol is worked out for all expanded states when it first occurs. So
the kernel never meets a gap in the middle of an event.

The sessions of a query share its tables, in any threads, and kernels run without the
interpreter lock. So growth takes a lock, and each `arrays` is complete for its holder:
a new symbol or edge is written where no earlier `arrays` is read, a new state into copies of
the arrays that list states, and `arrays` is replaced at the end. A thread that is interrupted
in between leaves the tables as they were.

Cost contract: the kernel reads these arrays in O(1); filling costs Python time once
per (expanded state, symbol), and a copy of `movers` per expanded state.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable
from threading import RLock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.automata.unary.determinize import MARK, Deterministic, Edge, State

EDGE = np.dtype([("label", np.int32), ("target", np.int32), ("accept", np.int32)])


class UnaryArrays(NamedTuple):
    """The arrays that the kernels read."""

    edges: NDArray[np.void]
    edge_first: NDArray[np.int32]
    """Per state and symbol, the first edge."""
    edge_count: NDArray[np.int32]
    """Per state and symbol, how many edges."""
    stay: NDArray[np.uint8]
    """Per state and symbol, whether a copy of the runs stays."""
    movers: NDArray[np.int32]
    """Per symbol, the states it can move."""
    mover_count: NDArray[np.int32]
    start_first: NDArray[np.int32]
    """Per symbol, the first edge of matches that begin with it."""
    start_count: NDArray[np.int32]
    inert: NDArray[np.uint8]
    """Per symbol, whether it starts nothing and moves nothing."""
    expanded: NDArray[np.uint8]
    """Per state, whether its edges are known."""


class CompleteTables(NamedTuple):
    """Arrays, and how much of them is used."""

    arrays: UnaryArrays
    states: int
    symbols: int
    edges: int


class UnaryTables:
    """The automaton for the kernels; `arrays` is replaced as states are found."""

    def __init__(self, automaton: Deterministic) -> None:
        self.automaton = automaton
        self.labels: list[frozenset[str]] = [frozenset()]
        self._label_numbers = {frozenset[str](): 0}
        self.symbols = 0
        self.edge_count = 0
        self.arrays = UnaryArrays(
            edges=np.zeros(64, EDGE),
            edge_first=np.zeros((8, 8), np.int32),
            edge_count=np.zeros((8, 8), np.int32),
            stay=np.zeros((8, 8), np.uint8),
            movers=np.zeros((8, 8), np.int32),
            mover_count=np.zeros(8, np.int32),
            start_first=np.zeros(8, np.int32),
            start_count=np.zeros(8, np.int32),
            inert=np.ones(8, np.uint8),
            expanded=np.zeros(8, np.uint8),
        )
        self._growth = RLock()

    def label(self, labels: frozenset[str]) -> int:
        """Return the number of a label set."""
        with self._growth:
            known = self._label_numbers.get(labels)
            if known is None:
                known = len(self.labels)
                self.labels.append(labels)
                self._label_numbers[labels] = known
            return known

    @property
    def hidden_label(self) -> int:
        """The label of events that only dropped variables mark; 0 if there is none."""
        return self._label_numbers.get(frozenset({MARK}), 0)

    def add_symbols(self) -> None:
        """Work out the symbols that are new in the alphabet, for the expanded states."""
        with self._growth:
            while self.symbols < len(self.automaton.alphabet.passed):
                self._add_symbol(self.symbols)

    def number_states(self, states: Iterable[State]) -> list[int]:
        """Return the numbers of states, and expand them."""
        with self._growth:
            numbers = [self.automaton.number(state) for state in states]
            for number in numbers:
                self.expand(number)
            return numbers

    def expand(self, state: int) -> None:
        """Work out a state's edges on all known symbols, if no other session has."""
        with self._growth:
            self._reserve(self.symbols)
            if self.arrays.expanded[state]:
                return
            found = [self.automaton.edges(state, symbol) for symbol in range(self.symbols)]
            self._reserve(self.symbols)
            moving = [s for s, edges in enumerate(found) if self._fill(state, s, edges)]
            arrays = self.arrays
            fresh = arrays._replace(
                movers=arrays.movers.copy(),
                mover_count=arrays.mover_count.copy(),
                inert=arrays.inert.copy(),
                expanded=arrays.expanded.copy(),
            )
            key = self.automaton.key
            for symbol in moving:
                movers = fresh.movers[symbol, : fresh.mover_count[symbol]].tolist()
                movers.insert(bisect(movers, key(state), key=key), state)
                _list_movers(fresh, symbol, movers)
            fresh.expanded[state] = 1
            self.arrays = fresh

    def complete(self) -> CompleteTables:
        """Work out every state that the known symbols lead to; return the tables as they are."""
        with self._growth:
            self.add_symbols()
            state = 0
            while state < len(self.automaton.states):  # which expanding finds more of
                self.expand(state)
                state += 1
            return CompleteTables(self.arrays, state, self.symbols, self.edge_count)

    # ------------------------------------------------------------- filling

    def _add_symbol(self, symbol: int) -> None:
        start = self.automaton.start(symbol)
        states = np.flatnonzero(self.arrays.expanded).tolist()
        found = [self.automaton.edges(state, symbol) for state in states]
        self._reserve(symbol + 1)
        first, count = self._append(start)
        moving = [
            state
            for state, edges in zip(states, found, strict=True)
            if self._fill(state, symbol, edges)
        ]
        arrays = self.arrays
        arrays.start_first[symbol], arrays.start_count[symbol] = first, count
        _list_movers(arrays, symbol, sorted(moving, key=self.automaton.key))
        self.symbols = symbol + 1

    def _fill(self, state: int, symbol: int, edges: tuple[Edge, ...]) -> bool:
        """Write the edges of a state on a symbol; return whether the symbol can move it."""
        remains = Edge(frozenset(), state, False)
        moving = tuple(edge for edge in edges if edge != remains)
        first, count = self._append(moving)
        arrays, stays = self.arrays, remains in edges
        arrays.stay[state, symbol] = stays
        arrays.edge_first[state, symbol], arrays.edge_count[state, symbol] = first, count
        return bool(moving) or not stays

    def _append(self, edges: tuple[Edge, ...]) -> tuple[int, int]:
        """Append edges; return where they begin, and how many."""
        first, have = self.edge_count, len(self.arrays.edges)
        self.edge_count += len(edges)
        if self.edge_count > have:
            size = _double(self.edge_count, have)
            self.arrays = self.arrays._replace(edges=_enlarge(self.arrays.edges, (size,)))
        for offset, edge in enumerate(edges):
            written = (self.label(edge.labels), edge.target, edge.accept)
            self.arrays.edges[first + offset] = written
        return first, len(edges)

    def _reserve(self, symbols: int) -> None:
        """Make room for all states and so many symbols."""
        rows, columns = self.arrays.edge_first.shape
        shape = (_double(len(self.automaton.states), rows), _double(symbols, columns))
        if shape == (rows, columns):
            return
        shapes = {
            **dict.fromkeys(("edge_first", "edge_count", "stay"), shape),
            "movers": shape[::-1],
            **dict.fromkeys(("mover_count", "start_first", "start_count", "inert"), shape[1:]),
            "expanded": shape[:1],
        }
        self.arrays = self.arrays._replace(
            **{name: _enlarge(getattr(self.arrays, name), size) for name, size in shapes.items()}
        )


def _list_movers(arrays: UnaryArrays, symbol: int, movers: list[int]) -> None:
    """Write the states that a symbol can move.

    They are in order of their own names: the order in which states were found must not show in
    the order of matches.
    """
    arrays.movers[symbol, : len(movers)] = movers
    arrays.mover_count[symbol] = len(movers)
    arrays.inert[symbol] = not movers and not arrays.start_count[symbol]


def _double(needed: int, have: int) -> int:
    return have if needed <= have else max(needed, 2 * have)


def _enlarge(array: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    larger = np.zeros(shape, array.dtype)
    larger[tuple(slice(0, n) for n in array.shape)] = array
    return larger
