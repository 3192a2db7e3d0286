"""The deterministic automaton as arrays, filled in as states and symbols turn up.

For each (state, symbol): a slice of `edges`, and whether a copy stays in the state.
For each symbol: the states that it can move (`movers`), so that an event touches only
those, and the edges of matches that begin with it. A symbol that starts nothing and
moves nothing is *inert*.

A state is *expanded* (its edges on all known symbols are worked out) when a run first
enters it; a new symbol is worked out for all expanded states when it first occurs. So
the kernel never meets a gap in the middle of an event.

Cost contract: the kernel reads these arrays in O(1); filling costs Python time once
per (expanded state, symbol).
"""

from __future__ import annotations

from bisect import insort
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.automata.unary.determinize import MARK, Deterministic, Edge

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


class UnaryTables:
    """The automaton for the kernels; `arrays` is replaced when it has to grow."""

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
        self._mover_keys: list[list[tuple[str, int]]] = []

    @property
    def states(self) -> int:
        """How many states are known; slots need room for them."""
        return len(self.automaton.states)

    def label(self, labels: frozenset[str]) -> int:
        """Return the number of a label set."""
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
            self._mover_keys.append([])
            start = self.automaton.start(symbol)
            self._reserve(symbol + 1)
            first, count = self._append(start)
            self.arrays.start_first[symbol], self.arrays.start_count[symbol] = first, count
            self.symbols += 1
            for state in np.flatnonzero(self.arrays.expanded):
                self._fill(int(state), symbol)
            self._settle(symbol)

    def expand(self, state: int) -> None:
        """Work out a state's edges on all known symbols."""
        self._reserve(self.symbols)
        self.arrays.expanded[state] = 1
        for symbol in range(self.symbols):
            self._fill(state, symbol)
            self._settle(symbol)

    def is_expanded(self, state: int) -> bool:
        """Whether the edges of a state are known."""
        return state < len(self.arrays.expanded) and bool(self.arrays.expanded[state])

    # ------------------------------------------------------------- filling

    def _fill(self, state: int, symbol: int) -> None:
        edges = self.automaton.edges(state, symbol)
        self._reserve(self.symbols)
        remains = Edge(frozenset(), state, False)
        moving = tuple(edge for edge in edges if edge != remains)
        first, count = self._append(moving)
        self.arrays.stay[state, symbol] = remains in edges
        self.arrays.edge_first[state, symbol], self.arrays.edge_count[state, symbol] = first, count
        if moving or remains not in edges:
            # by the states' own names: the order in which states were found must not
            # show in the order of matches
            insort(self._mover_keys[symbol], (self.automaton.key(state), state))

    def _settle(self, symbol: int) -> None:
        keys, arrays = self._mover_keys[symbol], self.arrays
        arrays.mover_count[symbol] = len(keys)
        arrays.movers[symbol, : len(keys)] = [state for _, state in keys]
        arrays.inert[symbol] = not keys and not arrays.start_count[symbol]

    def _append(self, edges: tuple[Edge, ...]) -> tuple[int, int]:
        """Append edges; return where they begin, and how many."""
        first, have = self.edge_count, len(self.arrays.edges)
        if first + len(edges) > have:
            size = _double(first + len(edges), have)
            self.arrays = self.arrays._replace(edges=_enlarge(self.arrays.edges, (size,)))
        for offset, edge in enumerate(edges):
            written = (self.label(edge.labels), edge.target, edge.accept)
            self.arrays.edges[first + offset] = written
        self.edge_count += len(edges)
        return first, len(edges)

    def _reserve(self, symbols: int) -> None:
        """Make room for all states and so many symbols."""
        rows, columns = self.arrays.edge_first.shape
        if self.states <= rows and symbols <= columns:
            return
        shape = (_double(self.states, rows), _double(symbols, columns))
        shapes = {
            **dict.fromkeys(("edge_first", "edge_count", "stay"), shape),
            "movers": shape[::-1],
            **dict.fromkeys(("mover_count", "start_first", "start_count", "inert"), shape[1:]),
            "expanded": shape[:1],
        }
        self.arrays = self.arrays._replace(
            **{name: _enlarge(getattr(self.arrays, name), size) for name, size in shapes.items()}
        )


def _double(needed: int, have: int) -> int:
    return have if needed <= have else max(needed, 2 * have)


def _enlarge(array: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    larger = np.zeros(shape, array.dtype)
    larger[tuple(slice(0, n) for n in array.shape)] = array
    return larger
