"""`BundleTables`: the tables of many automata as those of one, for a single run of the kernel.

A partition belongs to one automaton, and so does a symbol. So states need no numbers of their own:
each automaton keeps its numbers, and a table has as many states as the largest automaton. The
symbols of all automata are numbered one after the other, the label sets are those of all.

The automata are worked out completely for the symbols that have occurred (`UnaryTables.complete`):
the kernel cannot say which automaton an unknown state belongs to. So automata with many states are
in no bundle.

Sessions share the tables, in any threads: growing replaces all arrays by copies.

Cost contract: growing costs some tens of microseconds for each automaton with new symbols, and a
copy of all arrays. Turned down: the union of the automata, in which every partition has room for
the states of all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from cernis.automata.unary.determinize import MARK
from cernis.engine.settings import Settings
from cernis.engine.unary.runtime import UnaryEngine
from cernis.engine.unary.tables import EDGE, CompleteTables, UnaryArrays, UnaryTables


class BundleTables:
    """The tables of several automata, for the kernels."""

    def __init__(self, units: Sequence[UnaryTables], labels: Iterable[frozenset[str]] = ()) -> None:
        """`labels` have their numbers already."""
        self.units = tuple(units)
        self.labels: list[frozenset[str]] = []
        self._label_numbers: dict[frozenset[str], int] = {}
        for names in (frozenset[str](), *labels):
            self.label(names)
        self._columns = [np.empty(0, np.int64) for _ in units]
        """Of each automaton, the numbers of its symbols."""
        self._symbols = self._edges = 0
        self.arrays = _new_arrays(8, 8, 64)

    def add(self, units: Sequence[UnaryTables]) -> BundleTables:
        """Return tables with more automata; either grows without the other."""
        made = copy(self)
        made.units = (*self.units, *units)
        made.labels, made._label_numbers = [*self.labels], {**self._label_numbers}
        made._columns = [*self._columns, *(np.empty(0, np.int64) for _ in units)]
        return made

    def label(self, names: frozenset[str]) -> int:
        """Return the number of a label set."""
        known = self._label_numbers.setdefault(names, len(self.labels))
        if known == len(self.labels):
            self.labels.append(names)
        return known

    @property
    def hidden_label(self) -> int:
        """The label of events that only dropped variables mark; 0 if there is none."""
        return self._label_numbers.get(frozenset({MARK}), 0)

    def expand(self, state: int) -> None:
        """Every state is expanded."""
        raise AssertionError(f"state {state} of a bundle is not expanded")

    def number_symbols(self, index: int) -> NDArray[np.int64]:
        """Return the numbers here of an automaton's symbols, as far as `grow` has seen them."""
        return self._columns[index]

    def grow(self, automata: Iterable[int]) -> None:
        """Learn the symbols and states that these automata have now, by their indices."""
        units = {index: self.units[index].complete() for index in automata}
        for index, unit in units.items():
            new = np.arange(unit.symbols - len(self._columns[index])) + self._symbols
            self._columns[index] = np.append(self._columns[index], new)
            self._symbols += len(new)
        states = max((unit.states for unit in units.values()), default=0)
        edges = self._edges + sum(unit.edges for unit in units.values())
        grown = _enlarge(self.arrays, states, self._symbols, edges)
        for index, unit in units.items():
            self._copy(grown, index, unit)
        self.arrays = grown

    def _copy(self, grown: UnaryArrays, index: int, unit: CompleteTables) -> None:
        """Write the tables of an automaton; its earlier edges are left behind."""
        own, columns = unit.arrays, self._columns[index]
        states, symbols, first = unit.states, unit.symbols, self._edges
        numbers = np.array([self.label(names) for names in self.units[index].labels], np.int32)
        edges = own.edges[: unit.edges].copy()
        edges["label"] = numbers[edges["label"]]
        grown.edges[first : first + unit.edges] = edges
        self._edges += unit.edges
        for name in ("edge_first", "edge_count", "stay"):
            offset = first if name == "edge_first" else 0
            block = getattr(own, name)[:states, :symbols] + offset
            getattr(grown, name)[:states, columns] = block
        grown.movers[columns, :states] = own.movers[:symbols, :states]
        grown.start_first[columns] = own.start_first[:symbols] + first
        for name in ("mover_count", "start_count", "inert"):
            getattr(grown, name)[columns] = getattr(own, name)[:symbols]


class BundleEngine(UnaryEngine):
    """The state of many automata over one stream, each with a window of its own.

    The caller says how far back the largest window reaches (`advance`).
    """

    def __init__(self, tables: BundleTables, settings: Settings) -> None:
        # of the tables, kernels see the arrays alone
        super().__init__(cast(UnaryTables, tables), settings)

    def use_tables(self, tables: BundleTables) -> None:
        """Go on with tables in which automata, label sets and states have the same numbers."""
        self.tables = cast(UnaryTables, tables)
        self.fit_tables()

    def _advance_bound(self, bounds: NDArray[np.int64], at: int) -> None:
        """Do nothing: an event knows the window of its own automaton, not the largest one."""


def _new_arrays(states: int, symbols: int, edges: int) -> UnaryArrays:
    return UnaryArrays(
        edges=np.zeros(edges, EDGE),
        edge_first=np.zeros((states, symbols), np.int32),
        edge_count=np.zeros((states, symbols), np.int32),
        stay=np.zeros((states, symbols), np.uint8),
        movers=np.zeros((symbols, states), np.int32),
        mover_count=np.zeros(symbols, np.int32),
        start_first=np.zeros(symbols, np.int32),
        start_count=np.zeros(symbols, np.int32),
        inert=np.ones(symbols, np.uint8),
        expanded=np.ones(states, np.uint8),
    )


def _enlarge(arrays: UnaryArrays, states: int, symbols: int, edges: int) -> UnaryArrays:
    """Return a copy with room for so many."""
    have = arrays.stay.shape
    room = [
        before if needed <= before else max(needed, 2 * before)
        for needed, before in zip((states, symbols, edges), (*have, len(arrays.edges)), strict=True)
    ]
    larger = _new_arrays(*room)
    pairs: Iterable[tuple[Any, Any]] = zip(arrays, larger, strict=True)
    for old, new in pairs:
        new[tuple(slice(0, n) for n in old.shape)] = old
    return larger
