"""The deterministic automaton as arrays, filled in as states and symbols turn up.

For each (state, symbol): a slice of `edges`, and whether a copy stays in the state.
For each symbol: the states that it can move (`movers`), so that an event touches only
those, and the edges of matches that begin with it. A symbol that starts nothing and
moves nothing is *inert*.

A state is *expanded* (all its edges on the known symbols worked out) when a run first
enters it; a new symbol is worked out for all expanded states when it first occurs. So
the kernel never meets a gap in the middle of an event.

Cost contract: the kernel reads these arrays in O(1); filling costs Python time once
per (expanded state, symbol).
"""

from __future__ import annotations

from bisect import insort
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cernis.automata.unary.determinize import MARK, Deterministic, Edge

EDGE = np.dtype([("label", np.int32), ("target", np.int32), ("accept", np.int32)])


class UnaryTables:
    """Arrays for the kernel; see the module's head."""

    def __init__(self, automaton: Deterministic) -> None:
        self.automaton = automaton
        self.labels: list[frozenset[str]] = [frozenset()]
        self._label_numbers = {frozenset[str](): 0}
        self.symbols = 0
        self.edges = np.zeros(64, EDGE)
        self.edge_count = 0
        self.first = np.zeros((8, 8), np.int32)
        self.count = np.zeros((8, 8), np.int32)
        self.stay = np.zeros((8, 8), np.uint8)
        self.start_first = np.zeros(8, np.int32)
        self.start_count = np.zeros(8, np.int32)
        self.expanded = np.zeros(8, np.uint8)
        self.movers = np.zeros((8, 8), np.int32)
        self.mover_count = np.zeros(8, np.int32)
        self.inert = np.ones(8, np.uint8)
        self._mover_keys: list[list[tuple[str, int]]] = []

    @property
    def states(self) -> int:
        """How many states are numbered (slots must have room for them)."""
        return len(self.automaton.states)

    def label(self, labels: frozenset[str]) -> int:
        known = self._label_numbers.get(labels)
        if known is None:
            known = len(self.labels)
            self._label_numbers[labels] = known
            self.labels.append(labels)
        return known

    @property
    def hidden_label(self) -> int:
        """The label of events that only dropped variables mark; 0 if there is none."""
        return self._label_numbers.get(frozenset({MARK}), 0)

    def add_symbols(self, upto: int) -> None:
        """Work out all symbols below `upto` for the expanded states."""
        while self.symbols < upto:
            symbol = self.symbols
            self._reserve(self.states, symbol + 1)
            self._mover_keys.append([])
            start = self.automaton.start(symbol)
            self._reserve(self.states, symbol + 1)
            self.start_first[symbol], self.start_count[symbol] = self._append(start)
            self.symbols += 1
            for state in np.flatnonzero(self.expanded):
                self._fill(int(state), symbol)
            self._settle(symbol)

    def expand(self, state: int) -> None:
        """Work out a state's edges on all known symbols."""
        self._reserve(self.states, self.symbols)
        self.expanded[state] = 1
        for symbol in range(self.symbols):
            self._fill(state, symbol)
            self._settle(symbol)

    # ------------------------------------------------------------- filling

    def _fill(self, state: int, symbol: int) -> None:
        edges = self.automaton.edges(state, symbol)
        self._reserve(self.states, self.symbols)
        remains = Edge(frozenset(), state, False)
        self.stay[state, symbol] = remains in edges
        moving = tuple(edge for edge in edges if edge != remains)
        self.first[state, symbol], self.count[state, symbol] = self._append(moving)
        if moving or remains not in edges:
            # kept in the order of the states' own names, so that the order in which
            # states were found never shows in the order of matches
            insort(self._mover_keys[symbol], (self.automaton.key(state), state))

    def _settle(self, symbol: int) -> None:
        keys = self._mover_keys[symbol]
        self.mover_count[symbol] = len(keys)
        self.movers[symbol, : len(keys)] = [state for _, state in keys]
        self.inert[symbol] = not keys and not self.start_count[symbol]

    def _append(self, edges: tuple[Edge, ...]) -> tuple[int, int]:
        first = self.edge_count
        while first + len(edges) > len(self.edges):
            self.edges = np.concatenate([self.edges, np.zeros_like(self.edges)])
        for offset, edge in enumerate(edges):
            self.edges[first + offset] = (self.label(edge.labels), edge.target, edge.accept)
        self.edge_count += len(edges)
        return first, len(edges)

    def _reserve(self, states: int, symbols: int) -> None:
        rows, columns = self.first.shape
        if states > rows or symbols > columns:
            shape = (_room(states, rows), _room(symbols, columns))
            self.first = _grown(self.first, shape)
            self.count = _grown(self.count, shape)
            self.stay = _grown(self.stay, shape)
            self.movers = _grown(self.movers, shape[::-1])
            self.start_first = _grown(self.start_first, shape[1:])
            self.start_count = _grown(self.start_count, shape[1:])
            self.mover_count = _grown(self.mover_count, shape[1:])
            self.inert = _grown(self.inert, shape[1:])
            self.expanded = _grown(self.expanded, shape[:1])


def _room(needed: int, have: int) -> int:
    return have if needed <= have else max(needed, 2 * have)


def _grown(array: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    larger = np.zeros(shape, array.dtype)
    larger[tuple(slice(0, n) for n in array.shape)] = array
    return larger
