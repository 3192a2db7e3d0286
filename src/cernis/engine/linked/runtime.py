"""`LinkedEngine` drives the kernels of SPAseQ: feeds rows, makes room, hands out matches.

Cost contract: Python runs per batch and per doubling of an array. Memory holds the runs inside
the window; a match that is held keeps the records it needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cernis.engine.dag import records as r
from cernis.engine.dag.collect import collect
from cernis.engine.dag.links import DagSegment, links_of_runs
from cernis.engine.graphs.expressions import Values
from cernis.engine.linked import step as kernel
from cernis.engine.linked import waiting as w
from cernis.engine.linked.tables import LinkedTables
from cernis.engine.linked.trees import PLAIN
from cernis.engine.settings import FOREVER
from cernis.errors import BudgetError

MOST_ENTRIES = 2**25
FIRST_RECORDS = 1 << 14
FIRST_ENTRIES = 1 << 8
_NO_MOMENT = -2
_KEPT = (
    "store",
    "part",
    "group",
    "sort",
    "codes",
    "moved",
    "after",
    "key",
    "leaving",
    "limit",
    "shared",
)
"""What stays of entries where there is more room for them."""


class LinkedEngine:
    """One query's state over one streamset."""

    def __init__(self, tables: LinkedTables, columns: int, *, partitioned: bool = False) -> None:
        self.tables = tables
        self.partitioned = partitioned
        self.position = 0
        self.bound = int(FOREVER)
        self.moment = 0
        self.links = links_of_runs()
        self._is_shared = False
        """Whether matches refer to the records."""
        self.is_sorted = bool((tables.store_sorted >= 0).any())
        """Whether runs wait in search trees."""
        self.has_rounds = bool((tables.store_again >= 0).any() or (tables.store_ending >= 0).any())
        """Whether rounds of runs are looked up (`dag.rounds`),"""
        self.has_ended = bool((tables.store_ending >= 0).any())
        """and whether a step ends such rounds."""
        self.memory = kernel.LinkedMemory(
            r.new_memory(
                FIRST_RECORDS,
                r.Widths(ordered=self.is_sorted, more=self.has_ended),
                FIRST_ENTRIES,
            ),
            w.new_waiting_runs(FIRST_ENTRIES, columns, tables.index_of.shape[1]),
            kernel.LastMoments(np.empty(0, np.int64), np.empty(0, np.int64)),
            _new_pending(FIRST_ENTRIES, columns, _count_exits(tables)),
        )

    def push(
        self,
        rows: kernel.LinkedRows,
        values: Values,
        stack: NDArray[np.void],
        keys: int = 1,
        answer: Callable[[], Values] | None = None,
    ) -> list[DagSegment]:
        """Read a batch that ends with a moment and return its matches; `keys`: partitions.

        `answer` gives the values with the answers that were missing in them.
        """
        segments: list[DagSegment] = []
        evaluation = kernel.Evaluation(values, stack)
        if self.partitioned:
            self._reserve_keys(keys)
        at, wanted = 0, dict[int, int]()
        while True:
            begun = at
            status, at, array = kernel.step(
                self.tables, self.memory, rows, evaluation, self.position, at
            )
            if status == kernel.DONE:
                break
            self._advance_bound(rows, at)
            if status == kernel.NO_PENDING:
                pending = kernel.Pending(*(_double(array) for array in self.memory.pending))
                self.memory = self.memory._replace(pending=pending)
            elif status == kernel.NO_ENTRIES:
                self._make_entries()
            elif status == kernel.NO_ANSWERS:
                assert answer is not None
                evaluation = evaluation._replace(values=answer())
            else:
                if at != begun:
                    wanted.clear()
                self._make_room(array, segments, wanted)
        if len(rows.bound):
            self._advance_bound(rows, -1)
        self._close(segments)
        self.position += len(rows.reading)
        return segments

    @property
    def records(self) -> int:
        """How many records are in use, dead ones included."""
        return int(self.memory.dag.counters[r.VERTICES : r.ASKED].sum())

    @property
    def entries(self) -> int:
        """How many groups of runs wait."""
        return int(self.memory.waiting.counters[w.LIVE])

    def earliest(self) -> int:
        """Return the earliest row that a partial match has."""
        self.collect()
        dag = self.memory.dag
        used = dag.vertices[1 : dag.counters[r.VERTICES]]
        return int(used["position"].min()) if len(used) else self.position

    # ------------------------------------------------------------- matches

    def _close(self, segments: list[DagSegment]) -> None:
        """Turn the roots found since the last time into a segment."""
        dag = self.memory.dag
        found = int(dag.counters[r.ROOTS])
        if found:
            segments.append(DagSegment(self.links, dag, dag.roots[:found].copy()))
            self._is_shared = True
            dag.counters[r.ROOTS] = 0

    # ---------------------------------------------------------------- room

    def _make_room(self, array: int, segments: list[DagSegment], wanted: dict[int, int]) -> None:
        """Make twice the room that the interrupted moment had, after dropping dead records.

        `wanted` is the room that this moment has asked for so far, by array: collecting for one
        array must not take it from the others, or they would ask in turn for ever.
        """
        dag = self.memory.dag
        wanted[array] = 2 * (len(getattr(dag, r.GROWING[array])) - int(dag.counters[array])) + 1
        if self.memory.waiting.counters[w.PHASE] != kernel.FILING:
            self._close(segments)
            if array != r.ROOTS:
                self.collect()
        for which, room in wanted.items():
            self._grow(which, room)

    def _grow(self, array: int, room: int) -> None:
        dag = r.make_room(self.memory.dag, array, room, FIRST_RECORDS)
        self.memory = self.memory._replace(dag=dag)

    def _make_entries(self) -> None:
        """Drop dead entries; make twice the room if half of it is still in use."""
        live = self.entries
        self._sweep()
        old = self.memory.waiting
        size = len(old.store)
        if self.entries < size // 2:
            return
        if 2 * size > MOST_ENTRIES:
            raise BudgetError(f"{live:,} groups of runs wait at once; set a smaller window")
        fresh = w.new_waiting_runs(2 * size, old.codes.shape[1], old.asked_after.shape[1])
        fresh.counters[:] = old.counters
        for name in _KEPT:
            getattr(fresh, name)[:size] = getattr(old, name)
        w.relink(self.tables, fresh)
        dag = self.memory.dag._replace(buckets=_double(self.memory.dag.buckets))
        self.memory = self.memory._replace(dag=dag, waiting=fresh)

    def _reserve_keys(self, keys: int) -> None:
        moments = self.memory.moments
        have = len(moments.last)
        if keys > have:
            more = np.full(max(keys, 2 * have) - have, _NO_MOMENT, np.int64)
            moments = kernel.LastMoments(*(np.concatenate([one, more]) for one in moments))
            self.memory = self.memory._replace(moments=moments)

    # ----------------------------------------------------------- forgetting

    def _advance_bound(self, rows: kernel.LinkedRows, at: int) -> None:
        self.bound = max(self.bound, int(rows.bound[at]))
        self.moment = int(rows.moment[at])

    def _sweep(self) -> None:
        memory = self.memory
        before = memory.moments.before
        w.sweep(self.tables, memory.waiting, memory.dag, before, self.bound, self.moment)

    def collect(self) -> None:
        """Drop the records that no row to come can use."""
        self._sweep()
        dag = self.memory.dag
        kinds = self.bucket_kinds()
        bounds = np.array([self.bound], np.int64)
        dag = collect(self.links, dag, kinds, bounds, is_shared=self._is_shared)
        self._is_shared = False
        self.memory.waiting.shared[:] = dag.counters[r.BRANCHES]
        self.memory = self.memory._replace(dag=dag)
        self.reserve()

    def bucket_kinds(self) -> NDArray[np.int32]:
        """Return the kind of index that each entry has for its runs."""
        waiting, tables = self.memory.waiting, self.tables
        again, ending = (np.append(one, -1) for one in (tables.store_again, tables.store_ending))
        kinds = np.where(again[waiting.store] >= 0, r.ROUNDS, r.SORTED)
        kinds = np.where(ending[waiting.store] >= 0, r.ENDED, kinds)
        return np.where(waiting.sort == PLAIN, r.UNION, kinds).astype(np.int32)

    def reserve(self) -> None:
        """Make as much room again as records take."""
        trees = (r.BRANCHES, r.ASKED) if self.is_sorted else ()
        for array in (r.VERTICES, r.SOURCES, r.NODES, *trees):
            self._grow(array, int(self.memory.dag.counters[array]) + 1)

    def live_codes(self) -> NDArray[np.int32]:
        """Return the codes that waiting runs have bound."""
        waiting = self.memory.waiting
        codes: NDArray[np.int32] = waiting.codes[waiting.store >= 0]
        return codes

    def live_keys(self) -> NDArray[np.int32]:
        """Return the partitions that have waiting runs, ascending."""
        waiting = self.memory.waiting
        return np.unique(waiting.part[waiting.store >= 0])

    def keep_keys(self, keys: NDArray[np.int32]) -> None:
        """Renumber partitions: keys[i] becomes i; all others must have no waiting runs."""
        if not self.partitioned:
            return
        waiting = self.memory.waiting
        live = waiting.store >= 0
        waiting.part[live] = np.searchsorted(keys, waiting.part[live])
        moments = kernel.LastMoments(*(one[keys] for one in self.memory.moments))
        self.memory = self.memory._replace(moments=moments)

    def recode(self, moved: NDArray[np.int32]) -> None:
        """Replace each code c by moved[c]."""
        waiting = self.memory.waiting
        codes = np.where((waiting.store >= 0).reshape(-1, 1), waiting.codes, -1)
        waiting.codes[:] = np.where(codes >= 0, moved[codes], codes)
        for heads in (waiting.heads, waiting.asked_heads, waiting.heaps):
            heads[:] = 0
        w.relink(self.tables, waiting)


def _count_exits(tables: LinkedTables) -> int:
    """Return the most exits of a step."""
    exits = np.concatenate([tables.store_exit, tables.transition_exit])
    return int(exits.max(initial=0)) + 1


def _new_pending(size: int, columns: int, exits: int) -> kernel.Pending:
    return kernel.Pending(
        vertex=np.zeros(size, np.int32),
        state=np.zeros(size, np.int32),
        part=np.zeros(size, np.int32),
        entry=np.zeros(size, np.int32),
        use=np.zeros(size, np.int32),
        codes=np.zeros((size, columns), np.int32),
        told=np.zeros((size << exits.bit_length(), 4), np.int64),
    )


def _double(array: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate([array, np.zeros_like(array)])
