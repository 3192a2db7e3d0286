"""`UnaryEngine` drives the kernels: feeds batches, makes room, keeps matches apart.

What comes out of a batch is a list of `Segment`s: an arena with the roots of the
matches found in it. Arenas are never changed once handed out, so a segment stays valid
for as long as somebody holds it and costs nothing afterwards.

Cost contract: Python runs per batch, per unknown state and per doubling of an array,
never per event. Memory is that of the live nodes (twice, while compacting) plus the
rows of live partitions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.engine.unary import step as kernel
from cernis.engine.unary.arena import COUNTERS, FOREVER, NODE, new_arena
from cernis.engine.unary.collect import copy_live, move_slots
from cernis.engine.unary.enumerate import NEW_CURSOR, new_walk
from cernis.engine.unary.resolve import OUT_FULL, RESOLVE_ANY, RESOLVE_LAST, RESOLVED, resolve
from cernis.engine.unary.tables import UnaryTables
from cernis.errors import BudgetError

MOST_NODES = 2**31 - 1
MOST_LISTED = 2**16
MOST_SLOT_BYTES = 4 << 30
_MARKS_EACH = 64
_FIRST_NODES = 1 << 17
_NO_KEYS = np.empty(0, np.int64)
_NO_MASK = np.empty(0, np.uint8)


class Segment(NamedTuple):
    """Matches as a compact set: an arena and the roots into it."""

    arena: NDArray[np.void]
    roots: NDArray[np.void]


@dataclass(frozen=True, slots=True)
class Settings:
    """What the kernels need to know of a query beside its automaton."""

    window: int = kernel.NO_WINDOW
    size: int = 0
    partitioned: bool = False
    shared_clock: bool = True
    """The window's clock never decreases over the whole stream (not only per partition)."""
    consume: int = kernel.CONSUME_NOTHING
    resolve: int = 0

    @property
    def last(self) -> bool:
        """Whether what ends later always wins, so that the kernel may drop what lost."""
        return self.resolve in (RESOLVE_LAST, RESOLVE_ANY)


class UnaryEngine:
    """One query's state over one stream."""

    def __init__(self, tables: UnaryTables, settings: Settings) -> None:
        self.tables = tables
        self.settings = settings
        self.position = 0
        self.bound = int(FOREVER)
        self.arena = new_arena(_FIRST_NODES)
        self._capacity = _FIRST_NODES
        self.counters = np.zeros(COUNTERS, np.int64)
        self.counters[kernel.NODES] = 1
        self.roots = np.zeros(1024, kernel.ROOT)
        self.handed_out = False
        self.spare: NDArray[np.void] | None = None
        rows = 64 if settings.partitioned else 1
        self.slots = np.zeros((rows, 8), np.int32)
        self.row_of_key = np.full(64, -1, np.int32)
        self.key_of_row = np.full(rows, -1, np.int64)
        self.row_ordinal = np.zeros(rows, np.int64)
        self.row_epoch = np.zeros(rows, np.int64)
        self.row_bound = np.full(rows, FOREVER, np.int64)
        self.free_rows = np.arange(rows - 1, -1, -1).astype(np.int64)
        self.counters[kernel.FREE_ROWS] = rows if settings.partitioned else 0
        self.consumed = np.full(64, -1, np.int64)
        self._scratch()

    def push(
        self,
        symbols: NDArray[np.int32],
        *,
        keys: NDArray[np.int64] | None = None,
        clocks: NDArray[np.int64] | None = None,
        bounds: NDArray[np.int64] | None = None,
        usable: NDArray[np.uint8] | None = None,
    ) -> list[Segment]:
        """Reads a batch of events and returns the matches that end in it."""
        if keys is not None and len(keys):
            self._reserve_keys(int(keys.max()) + 1)
        segments: list[Segment] = []
        waiting: list[NDArray[np.void]] = []
        at = 0
        while True:
            status, at, detail = self._update(symbols, keys, clocks, bounds, usable, at)
            if self.counters[kernel.ROOTS]:
                waiting.append(self.roots[: self.counters[kernel.ROOTS]].copy())
                self.counters[kernel.ROOTS] = 0
            if status == kernel.DONE:
                break
            if status == kernel.UNKNOWN_STATE:
                self.tables.expand(detail)
                self.fit_tables()
            elif status == kernel.ROOTS_FULL:
                if len(self.roots) < 1 << 20:
                    self.roots = np.zeros(4 * len(self.roots), kernel.ROOT)
            else:
                self._close(waiting, segments)
                self._pass(bounds, at)
                if status == kernel.ROWS_FULL:
                    self._make_rows()
                else:
                    self._make_nodes(detail)
        self._close(waiting, segments)
        self.position += len(symbols)
        self._pass(bounds, len(symbols) - 1)
        return segments

    def _pass(self, bounds: NDArray[np.int64] | None, at: int) -> None:
        """Notes what has left the window for every partition."""
        if bounds is not None and len(bounds) and self.settings.shared_clock:
            self.bound = max(self.bound, int(bounds[at]))

    @property
    def nodes(self) -> int:
        """Nodes in the arena, dead ones included."""
        return int(self.counters[kernel.NODES])

    @property
    def records(self) -> int:
        """Records in use, dead ones included."""
        return self.nodes

    @property
    def relevant(self) -> int:
        """How many events have begun or moved something."""
        return int(self.counters[kernel.RELEVANT])

    def earliest(self) -> int:
        """No partial match reaches back before this position."""
        self.compact()
        live = self.arena[1 : self.nodes]
        return int(live["position"].min()) if len(live) else self.position

    # --------------------------------------------------------------- steps

    def _update(
        self,
        symbols: NDArray[np.int32],
        keys: NDArray[np.int64] | None,
        clocks: NDArray[np.int64] | None,
        bounds: NDArray[np.int64] | None,
        usable: NDArray[np.uint8] | None,
        begin: int,
    ) -> tuple[int, int, int]:
        tables, settings = self.tables, self.settings
        status, at, detail = kernel.update(
            symbols,
            _NO_KEYS if keys is None else keys,
            _NO_KEYS if clocks is None else clocks,
            _NO_KEYS if bounds is None else bounds,
            _NO_MASK if usable is None else usable,
            self.position,
            begin,
            settings.window,
            settings.size,
            kernel.CONSUME_NOTHING if settings.resolve else settings.consume,
            settings.last,
            tables.inert,
            tables.start_first,
            tables.start_count,
            tables.first,
            tables.count,
            tables.stay,
            tables.movers,
            tables.mover_count,
            tables.expanded,
            tables.edges,
            self.arena,
            self.counters,
            self.roots,
            self.slots,
            self.row_of_key,
            self.key_of_row,
            self.row_ordinal,
            self.row_epoch,
            self.row_bound,
            self.free_rows,
            *self.scratch,
        )
        return int(status), int(at), int(detail)

    def _close(self, waiting: list[NDArray[np.void]], segments: list[Segment]) -> None:
        """The roots found since the last time become a segment."""
        if not waiting:
            return
        segment = Segment(self.arena, waiting[0] if len(waiting) == 1 else np.concatenate(waiting))
        waiting.clear()
        if self.settings.resolve:
            segment = self._resolve(segment)
        else:
            self.handed_out = True
        if len(segment.roots):
            segments.append(segment)

    def _resolve(self, segment: Segment) -> Segment:
        """The strategy's choice among the matches of each end position."""
        out = new_arena(4096)
        counters = np.zeros(COUNTERS, np.int64)
        counters[kernel.NODES] = 1
        out_roots = np.zeros(len(segment.roots), kernel.ROOT)
        stamps = np.zeros(self.nodes, np.int64)
        copies = np.zeros(self.nodes, np.int32)
        stack = np.zeros(self.nodes + 64, np.int32)
        room, at = 256, 0
        while True:
            status, at = resolve(
                segment.arena,
                segment.roots,
                at,
                self.settings.resolve,
                self.tables.hidden_label,
                self.settings.consume,
                self.consumed,
                out,
                counters,
                out_roots,
                stamps,
                copies,
                stack,
                np.zeros(room, np.int32),
                np.zeros(room, np.int32),
                np.zeros(room, np.int64),
                np.zeros(room, np.int32),
                np.zeros(len(NEW_CURSOR), np.int64),
                tuple(new_walk(room, _MARKS_EACH * room)),
                (
                    np.empty(room, np.int64),
                    np.empty(room, np.int64),
                    np.empty(room + 1, np.int64),
                    np.empty(_MARKS_EACH * room, np.int64),
                    np.empty(_MARKS_EACH * room, np.int32),
                ),
            )
            # nothing of the root at hand is kept, so its stamps must not be met again
            stamps[:] = 0
            if status == RESOLVED:
                break
            if status == OUT_FULL:
                out = np.concatenate([out, np.empty_like(out)])
                continue
            if room >= MOST_LISTED:
                raise BudgetError(
                    f"the strategy has more than {MOST_LISTED:,} matches (or "
                    f"{_MARKS_EACH * MOST_LISTED:,} events in them) to compare at one position; "
                    "narrow the pattern or the window"
                )
            room *= 2
        return Segment(out[: counters[kernel.NODES]], out_roots[: counters[kernel.ROOTS]])

    # ---------------------------------------------------------------- room

    def _scratch(self) -> None:
        width = self.slots.shape[1]
        moves = max(64, self.tables.edge_count + 1)
        self.scratch = (
            np.zeros(moves, np.int32),
            np.zeros(moves, np.int32),
            np.zeros(width, np.int32),
            np.zeros(width, np.uint8),
            np.zeros(width, np.uint8),
            np.zeros(width, np.int32),
        )

    def fit_tables(self) -> None:
        """Makes room for states and edges that the tables have gained."""
        rows, width = self.slots.shape
        if self.tables.states > width:
            self.slots = _larger_slots(self.slots, rows, max(2 * width, self.tables.states))
        moves, gathered = len(self.scratch[0]), len(self.scratch[2])
        if self.tables.edge_count >= moves or self.slots.shape[1] > gathered:
            self._scratch()

    def _reserve_keys(self, keys: int) -> None:
        if keys > len(self.row_of_key):
            size = max(keys, 2 * len(self.row_of_key))
            self.row_of_key = _longer(self.row_of_key, size, -1)
            if self.settings.consume:
                self.consumed = _longer(self.consumed, size, -1)

    def _make_rows(self) -> None:
        self.compact()
        rows = self.slots.shape[0]
        if self.counters[kernel.FREE_ROWS] * 4 > rows:
            return
        self.slots = _larger_slots(self.slots, 2 * rows, self.slots.shape[1])
        self.key_of_row = _longer(self.key_of_row, 2 * rows, -1)
        self.row_ordinal = _longer(self.row_ordinal, 2 * rows, 0)
        self.row_epoch = _longer(self.row_epoch, 2 * rows, 0)
        self.row_bound = _longer(self.row_bound, 2 * rows, int(FOREVER))
        free = int(self.counters[kernel.FREE_ROWS])
        self.free_rows = _longer(self.free_rows, 2 * rows, 0)
        self.free_rows[free : free + rows] = np.arange(2 * rows - 1, rows - 1, -1)
        self.counters[kernel.FREE_ROWS] = free + rows

    def _make_nodes(self, room: int) -> None:
        """Give back what is dead, and see that there is room for so many nodes."""
        self.compact()
        self._capacity = max(self._capacity, 2 * (self.nodes + room))
        if self._capacity > len(self.arena):
            if self._capacity > MOST_NODES:
                raise BudgetError("more than 2^29 nodes are alive; set a smaller window")
            larger = np.empty(self._capacity, NODE)
            larger[: self.nodes] = self.arena[: self.nodes]
            self.arena, self.spare = larger, None

    def live_keys(self) -> NDArray[np.int64]:
        """The keys that have partial matches, ascending (as of the last compaction)."""
        return np.sort(self.key_of_row[self.key_of_row >= 0])

    def keep_keys(self, keys: NDArray[np.int64]) -> None:
        """Renumber keys: keys[i] becomes i; others have nothing alive and are forgotten."""
        rows = np.flatnonzero(self.key_of_row >= 0)
        self.key_of_row[rows] = np.searchsorted(keys, self.key_of_row[rows])
        size = max(64, 2 * len(keys))
        self.row_of_key = np.full(size, -1, np.int32)
        self.row_of_key[self.key_of_row[rows]] = rows
        if self.settings.consume == kernel.CONSUME_PARTITION:
            self.consumed = _longer(self.consumed[keys], size, -1)

    def compact(self) -> None:
        """Leave behind what no active state can use any more."""
        nodes = self.nodes
        moved = np.zeros(nodes, np.int32)
        stack = np.empty(nodes + 1, np.int32)
        copied = np.ones(1, np.int64)
        bounds = self._row_bounds()
        fresh = self.spare if self.spare is not None else new_arena(self._capacity)
        self.spare = None
        while not copy_live(
            self.arena,
            bounds,
            self.slots,
            self.counters,
            self.row_epoch,
            moved,
            fresh,
            copied,
            stack,
        ):
            fresh = np.concatenate([fresh, np.empty_like(fresh)])
        self.counters[kernel.NODES] = copied[0]
        # room for several times what is alive, so that a node is seldom copied
        wanted = max(_FIRST_NODES, min(8 * self.nodes, 4 * self.nodes + (1 << 22)))
        self._capacity = len(fresh) if wanted <= len(fresh) <= 4 * wanted else wanted
        move_slots(
            self.slots,
            moved,
            self.counters,
            self.row_of_key,
            self.key_of_row,
            self.free_rows,
            self.settings.partitioned,
        )
        self._adopt(fresh)

    def _adopt(self, fresh: NDArray[np.void]) -> None:
        self.spare = None if self.handed_out else self.arena
        self.arena = fresh
        self.handed_out = False

    def _row_bounds(self) -> NDArray[np.int64]:
        """Per row: starts before this have left the window for good."""
        settings = self.settings
        if settings.window == kernel.EVENT_WINDOW:
            return self.row_ordinal - settings.size if settings.partitioned else self.row_bound
        if settings.window == kernel.CLOCK_WINDOW and settings.shared_clock:
            return np.maximum(self.row_bound, self.bound)
        return self.row_bound


def _larger_slots(slots: NDArray[np.int32], rows: int, width: int) -> NDArray[np.int32]:
    if 4 * rows * width > MOST_SLOT_BYTES:
        raise BudgetError(
            f"{rows:,} partitions alive at once, with {width:,} automaton states each, need more "
            f"than {MOST_SLOT_BYTES >> 30} GiB; narrow the window or simplify the pattern"
        )
    larger = np.zeros((rows, width), np.int32)
    larger[: slots.shape[0], : slots.shape[1]] = slots
    return larger


def _longer(array: NDArray[Any], size: int, fill: int) -> NDArray[Any]:
    longer = np.full(size, fill, array.dtype)
    longer[: len(array)] = array
    return longer
