"""`LinkedEngine` drives the kernels of SPAseQ: feeds rows, makes room, hands out snapshots.

Cost contract: Python runs per batch and per doubling of an array. Memory is that of the runs
inside the window; matches that are held keep what they need.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cernis.engine.correlated import records as r
from cernis.engine.correlated.collect import collect
from cernis.engine.correlated.enumerate import Snapshot
from cernis.engine.graphs.expressions import Values
from cernis.engine.linked import step as kernel
from cernis.engine.linked import waiting as w
from cernis.engine.linked.tables import LinkedTables, unions_alone
from cernis.errors import BudgetError

MOST_ENTRIES = 2**25
FIRST_RECORDS = 1 << 14
FIRST_ENTRIES = 1 << 8
_NO_PARTS = np.empty(0, np.int64)


class LinkedEngine:
    """One query's state over one streamset."""

    def __init__(self, tables: LinkedTables, columns: int, *, partitioned: bool = False) -> None:
        self.tables = tables
        self.partitioned = partitioned
        self.arrays = unions_alone()
        self.rows = 0
        self.bound = int(r.NOTHING)
        self.moment = 0
        self.memory = r.new_memory(FIRST_RECORDS, buckets=FIRST_ENTRIES)
        indexes = tables.index_of.shape[1]
        self.waiting = w.new_waiting_runs(FIRST_ENTRIES, columns, indexes)
        self.parts = kernel.LastMoments(np.full(1, -2, np.int64), np.full(1, -2, np.int64))
        self.pending = _pending(FIRST_ENTRIES, columns)

    @property
    def entries(self) -> int:
        """How many groups of runs wait."""
        return int(self.waiting.counters[w.LIVE])

    def push(
        self, rows: kernel.LinkedRows, values: Values, stack: NDArray[np.void], parts: int = 1
    ) -> list[Snapshot]:
        """Reads a batch that ends with a moment; `parts` is how many partitions there are."""
        snapshots: list[Snapshot] = []
        self._reserve_parts(parts)
        at = 0
        while True:
            status, at, array = kernel.step(
                self.tables,
                values,
                rows,
                at,
                self.rows,
                self.partitioned,
                self.memory,
                self.waiting,
                self.parts,
                self.pending,
                stack,
            )
            if status == kernel.DONE:
                break
            self._pass(rows, at)
            if status == kernel.NO_PENDING:
                self.pending = kernel.Pending(*(_twice(one) for one in self.pending))
            elif status == kernel.NO_ENTRIES:
                self._more_entries()
            else:
                self._more(array, snapshots)
        if len(rows.bound):
            self._pass(rows, -1)
        self._close(snapshots)
        self.rows += len(rows.reading)
        return snapshots

    def earliest(self) -> int:
        """No partial match reaches back before this row."""
        self._collect()
        used = self.memory.vertices[1 : self.memory.counters[r.VERTICES]]
        return int(used["position"].min()) if len(used) else self.rows

    # ----------------------------------------------------------------- codes

    def held(self) -> NDArray[np.int32]:
        """The codes that waiting runs have bound."""
        used = int(self.waiting.counters[w.USED])
        codes: NDArray[np.int32] = self.waiting.codes[:used][self.waiting.store[:used] >= 0]
        return codes

    def held_parts(self) -> NDArray[np.int32]:
        """The partitions that have waiting runs, ascending."""
        used = int(self.waiting.counters[w.USED])
        return np.unique(self.waiting.part[:used][self.waiting.store[:used] >= 0])

    def renumber(self, moved: NDArray[np.int32], parts: NDArray[np.int32]) -> None:
        """Follows codes that have changed, and lets go of all partitions but these."""
        waiting = self.waiting
        live = waiting.store >= 0
        codes = np.where(live.reshape(-1, 1) & (waiting.codes >= 0), waiting.codes, -1)
        waiting.codes[:] = np.where(codes >= 0, moved[codes], -1)
        if self.partitioned:
            waiting.part[live] = np.searchsorted(parts, waiting.part[live])
            size = max(len(parts), 1)
            kept = [np.full(size, -2, np.int64) for _ in self.parts]
            for old, new in zip(self.parts, kept, strict=True):
                new[: len(parts)] = old[parts]
            self.parts = kernel.LastMoments(*kept)
        for heads in (waiting.heads, waiting.asked_heads, waiting.heaps):
            heads[:] = 0
        w.relink(self.tables, waiting)

    def _pass(self, rows: kernel.LinkedRows, at: int) -> None:
        self.bound = max(self.bound, int(rows.bound[at]))
        self.moment = int(rows.moment[at])

    # ----------------------------------------------------------------- room

    def _close(self, snapshots: list[Snapshot]) -> None:
        found = int(self.memory.counters[r.ROOTS])
        if found:
            roots = self.memory.roots[:found].copy()
            snapshots.append(Snapshot(self.arrays, self.memory, roots))
            self.memory.counters[r.ROOTS] = 0

    def _more(self, array: int, snapshots: list[Snapshot]) -> None:
        """Room in the arena, twice what the moment had that is begun again; what has left the
        window is left behind first."""
        had = len(getattr(self.memory, r.GROWING[array])) - int(self.memory.counters[array])
        filing = self.waiting.counters[w.PHASE] == kernel.FILING
        if not filing:
            self._close(snapshots)
            if array != r.ROOTS:
                self._collect()
        self._grow(array, 2 * had + 1)

    def _grow(self, array: int, room: int) -> None:
        self.memory = r.with_room(self.memory, array, room, FIRST_RECORDS)

    def _collect(self) -> None:
        self._sweep()
        stores = np.zeros(len(self.memory.buckets), np.int32)
        self.memory = collect(self.arrays, self.memory, stores, np.array([self.bound], np.int64))
        for array in (r.VERTICES, r.SOURCES, r.NODES):
            self._grow(array, int(self.memory.counters[array]) + 1)

    def _more_entries(self) -> None:
        live = int(self.waiting.counters[w.LIVE])
        self._sweep()
        size = len(self.waiting.store)
        if self.waiting.counters[w.LIVE] < size // 2:
            return
        if 2 * size > MOST_ENTRIES:
            raise BudgetError(f"{live:,} groups of runs wait at once; set a smaller window")
        old = self.waiting
        fresh = w.new_waiting_runs(2 * size, old.codes.shape[1], old.asked_after.shape[1])
        fresh.counters[:] = old.counters
        for name in ("store", "part", "codes", "moved", "after", "key"):
            getattr(fresh, name)[:size] = getattr(old, name)
        self.waiting = fresh
        w.relink(self.tables, fresh)
        self.memory = self.memory._replace(buckets=_twice(self.memory.buckets))

    def _sweep(self) -> None:
        w.sweep(
            self.tables,
            self.waiting,
            self.memory.buckets,
            self.memory.nodes,
            self.bound,
            self.moment,
            self.parts.before if self.partitioned else _NO_PARTS,
        )

    def _reserve_parts(self, parts: int) -> None:
        have = len(self.parts.last)
        if parts > have:
            more = np.full(max(parts, 2 * have) - have, -2, np.int64)
            self.parts = kernel.LastMoments(*(np.concatenate([one, more]) for one in self.parts))


def _pending(size: int, columns: int) -> kernel.Pending:
    vertex, state, part = (np.zeros(size, np.int32) for _ in range(3))
    return kernel.Pending(vertex, state, part, np.zeros((size, columns), np.int32))


def _twice(array: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate([array, np.zeros_like(array)])
