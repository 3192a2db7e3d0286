"""`UnaryEngine` drives the kernels: feeds batches, makes room, hands out matches.

A batch gives a list of `ArenaSegment`s: an arena with the roots of the matches found in it.
An arena that a segment refers to never changes, so matches stay valid while they are held
and cost nothing afterwards.

Cost contract: Python runs per batch, per unknown state and per doubling of an array,
never per event. Memory holds the live nodes (twice, while collecting) and the rows of
live partitions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import read_only
from cernis.compiled.tiers import call_briefly
from cernis.engine.longest import consume, keep_longest
from cernis.engine.poison import poison
from cernis.engine.settings import (
    CLOCK_WINDOW,
    CONSUME_NOTHING,
    CONSUME_PARTITION,
    EVENT_WINDOW,
    FOREVER,
    LAST_TIME,
    NEVER,
    RESOLVE_LONGEST,
    RESOLVE_NEXT,
    Settings,
)
from cernis.engine.unary import arena as a
from cernis.engine.unary import resolve as choosing
from cernis.engine.unary import step as kernel
from cernis.engine.unary.arena import ArenaSegment, UnaryMemory
from cernis.engine.unary.collect import copy_live, link_starts, move_slots
from cernis.engine.unary.moving import MovingKeys
from cernis.engine.unary.tables import UnaryTables
from cernis.engine.unary.thresholds import RunEnds, RunSegment, RunThresholds
from cernis.errors import BudgetError

MOST_NODES = 2**31 - 1
MOST_CHOSEN_BYTES = 4 << 30
MOST_LISTED = 2**16
MOST_SLOT_BYTES = 4 << 30
FIRST_NODES = 1 << 17
_MANY_ROWS = 1 << 12
"""Fewer rows than this double when none is free: looking for dead ones costs as much."""
Segment = ArenaSegment | RunSegment

_NO_NUMBERS = np.empty(0, np.int64)
_NO_MASK = np.empty(0, np.uint8)


class UnaryEngine:
    """One query's state over one stream."""

    def __init__(self, tables: UnaryTables, settings: Settings) -> None:
        self.tables = tables
        self.settings = settings
        self.position = 0
        self.bound = int(FOREVER)
        self.memory = _first_memory(settings.partitioned)
        self.earliest_starts: a.EarliestStarts | None = None
        if settings.keeps_first:
            self.earliest_starts = _first_earliest(self.memory)
        self.thresholds: RunThresholds | None = None
        """What the events of a match have to reach, beside the automaton."""
        self.consumed = np.full(64, -1, np.int64)
        self._capacity = FIRST_NODES
        self._is_shared = False
        """Whether matches refer to the arena, so that it must not be used again."""
        self._spare: NDArray[np.void] | None = None
        self._scratch = kernel.new_scratch(0, 0)
        self._node_scratch = choosing.new_node_scratch(0)
        self._rules = settings.rules
        self.fit_tables()

    def push(
        self,
        symbols: NDArray[np.int32],
        *,
        keys: NDArray[np.int64] | None = None,
        clocks: NDArray[np.int64] | None = None,
        bounds: NDArray[np.int64] | None = None,
        usable: NDArray[np.uint8] | None = None,
        moving: MovingKeys | None = None,
    ) -> list[Segment]:
        """Read a batch of events and return the matches that end in it.

        `keys` may be a part of those of `moving`, which are not all known.
        """
        events = kernel.UnaryEvents(
            symbols,
            _NO_NUMBERS if keys is None else keys,
            read_only(_NO_NUMBERS if clocks is None else clocks),
            _NO_NUMBERS if bounds is None else bounds,
            _NO_MASK if usable is None else usable,
        )
        if keys is not None and len(keys):
            self._reserve_keys(int(keys.max()) + 1)
        segments: list[Segment] = []
        roots: list[NDArray[np.void]] = []
        starts: list[NDArray[np.int64]] = []
        at = 0
        while True:
            if moving is not None and moving.fit(self._arrays.inert):
                self._reserve_keys(int(moving.numbers.max()) + 1)
            status, at, detail = kernel.step(
                tuple(self._arrays),
                tuple(self.memory),
                tuple(events),
                tuple(self._scratch),
                tuple(self._rules),
                self.position,
                at,
                self.earliest_starts,
            )
            counters = self.memory.counters
            if counters[a.ROOTS]:
                roots.append(self.memory.roots[: counters[a.ROOTS]].copy())
                if self.earliest_starts is not None:
                    starts.append(self.earliest_starts.of_root[: counters[a.ROOTS]].copy())
                counters[a.ROOTS] = 0
            if status == kernel.DONE:
                break
            if status == kernel.UNKNOWN_STATE:
                self.tables.expand(int(detail))
                self.fit_tables()
            elif status == kernel.ROOTS_FULL:
                self._grow_roots()
            else:
                self._close(roots, starts, segments)
                self._advance_bound(events.bounds, at)
                if status == kernel.ROWS_FULL:
                    self._make_rows()
                else:
                    self._make_nodes(int(detail))
        self._close(roots, starts, segments)
        self.position += len(symbols)
        self._advance_bound(events.bounds, -1)
        return segments

    @property
    def inert(self) -> NDArray[np.uint8]:
        """Of each symbol, whether it moves nothing in the states that are known."""
        return self._arrays.inert

    @property
    def records(self) -> int:
        """How many nodes the arena has, dead ones included."""
        return int(self.memory.counters[a.NODES])

    @property
    def relevant(self) -> int:
        """How many events have begun or moved a partial match."""
        return int(self.memory.counters[a.RELEVANT])

    def earliest(self) -> int:
        """Return the position of the earliest event that a partial match has."""
        self.collect()
        live = self.memory.arena[1 : self.records]
        return int(live["position"].min()) if len(live) else self.position

    def live_starts(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return where the earliest partial match of each partition starts; NEVER: it has none.

        For engines that keep the earliest starts.
        """
        if self.settings.partitioned:
            self._reserve_keys(int(keys.max(initial=-1)) + 1)
        rows = self.memory.row_of_key[keys] if self.settings.partitioned else np.zeros_like(keys)
        found = np.empty(len(rows), np.int64)
        assert self.earliest_starts is not None
        known, nodes = self.earliest_starts.of_slot, self._reserve_nodes()
        choosing.find_live_starts(self.memory, known, self._row_bounds(), rows, nodes, found)
        return found

    def advance(self, time: int, bound: int | None) -> None:
        """Note that no event before a time comes, and that windows in time reach to `bound`."""
        if bound is not None and self.settings.shared_clock:
            self.bound = max(self.bound, bound)

    def find_deadlines(
        self, keys: NDArray[np.int64], starts: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return, per partition, when time ends all partial matches that start by a position.

        Only a window in time ends them here, which the caller knows.
        """
        return np.full(len(keys), LAST_TIME, np.int64)

    # ------------------------------------------------------------- matches

    def _close(
        self,
        roots: list[NDArray[np.void]],
        starts: list[NDArray[np.int64]],
        segments: list[Segment],
    ) -> None:
        """Turn the roots found since the last time into a segment.

        `starts` are their earliest starts, where the engine keeps them.
        """
        if not roots:
            return
        # joining record arrays costs several microseconds, even of one
        found = roots[0] if len(roots) == 1 else np.concatenate(roots)
        segment = ArenaSegment(self.memory.arena, found)
        roots.clear()
        if self.thresholds is not None:
            runs = self._take_runs(self.thresholds, segment, np.concatenate(starts))
            starts.clear()
            if len(runs.key):
                segments.append(runs)
            return
        if self.settings.resolve in (RESOLVE_NEXT, RESOLVE_LONGEST):
            segment = self._resolve(*self._find_starts(segment, np.concatenate(starts)))
        elif self.settings.resolve:
            segment = self._resolve(segment, _NO_NUMBERS)
        else:
            self._is_shared = True
        starts.clear()
        if len(segment.roots):
            segments.append(segment)

    def _take_runs(
        self, thresholds: RunThresholds, segment: ArenaSegment, starts: NDArray[np.int64]
    ) -> RunSegment:
        """Return the runs that reach all numbers, of roots with these earliest starts.

        All matches of a root have the same last event, with one label.
        """
        if not thresholds.knows_times and (starts < 0).any():
            choosing.find_starts(segment, starts, self._reserve_nodes())
        names = ("key", "end", "bound", "node")
        keys, ends, bounds, node = (np.ascontiguousarray(segment.roots[name]) for name in names)
        clocks = segment.arena["start"][node]
        while len(above := np.flatnonzero(segment.arena["label"][node] == a.UNION)):
            node[above] = segment.arena["left"][node[above]]
        labels = segment.arena["label"][node].astype(np.int64)
        runs = RunEnds(keys, starts, ends, clocks, bounds, labels)
        kept, latest = thresholds.add(runs)
        settings = self.settings
        if settings.consume != CONSUME_NOTHING:
            scopes = keys if settings.consume == CONSUME_PARTITION else np.zeros_like(keys)
            kept[kept] = consume(scopes[kept], starts[kept], ends[kept], self.consumed)
        elif settings.resolve == RESOLVE_LONGEST:
            kept[kept] = keep_longest(keys[kept], starts[kept], ends[kept])
        return thresholds.take(RunEnds(*(each[kept] for each in runs)), latest[kept])

    def _find_starts(
        self, segment: ArenaSegment, starts: NDArray[np.int64]
    ) -> tuple[ArenaSegment, NDArray[np.int64]]:
        """Return the roots with their earliest starts.

        Of LONGEST: those whose interval no other one contains, unless that is decided later.
        """
        if (starts < 0).any():
            choosing.find_starts(segment, starts, self._reserve_nodes())
        if self.settings.resolve != RESOLVE_LONGEST or self.settings.keeps_ends:
            return segment, starts
        kept = keep_longest(segment.roots["key"], starts, segment.roots["end"])
        return segment._replace(roots=segment.roots[kept]), starts[kept]

    def _resolve(self, segment: ArenaSegment, starts: NDArray[np.int64]) -> ArenaSegment:
        """Return the matches that the strategy chooses at each end position."""
        settings = self.settings
        rules = choosing.StrategyRules(settings.resolve, self.tables.hidden_label, settings.consume)
        out = choosing.new_resolution(len(segment.roots), self.consumed)
        nodes = self._reserve_nodes()
        room, at = 256, 0
        lists = choosing.new_list_scratch(room)
        while True:
            status, at = choosing.resolve(segment, starts, rules, at, out, nodes, lists)
            if status == choosing.RESOLVED:
                break
            if status == choosing.OUT_FULL:
                if 2 * out.arena.nbytes > MOST_CHOSEN_BYTES:
                    raise BudgetError(
                        "the matches that the strategy chooses need more than "
                        f"{MOST_CHOSEN_BYTES / 2**30:g} GiB: each lists its events; narrow the "
                        "window, or push fewer events at once"
                    )
                out = out._replace(arena=np.concatenate([out.arena, np.empty_like(out.arena)]))
                continue
            if room >= MOST_LISTED:
                raise BudgetError(
                    f"the strategy has more than {MOST_LISTED:,} matches (or "
                    f"{choosing.MARKS_EACH * MOST_LISTED:,} events in them) to compare at one "
                    "position; narrow the pattern or the window"
                )
            room *= 2
            lists = choosing.new_list_scratch(room)
        return ArenaSegment(out.arena[: out.counters[a.NODES]], out.roots[: out.counters[a.ROOTS]])

    # ---------------------------------------------------------------- room

    def _reserve_nodes(self) -> choosing.NodeScratch:
        """Return scratch arrays for all nodes; those of earlier calls are used again."""
        if self.records > len(self._node_scratch.stamps):
            self._node_scratch = choosing.new_node_scratch(2 * self.records)
        return self._node_scratch

    def fit_tables(self) -> None:
        """Take the tables as they are now, and make room for their states and edges.

        Other sessions may add to the tables at any time. The kernel must not see it before
        there is room.
        """
        self._arrays = self.tables.arrays
        states, edges = len(self._arrays.expanded), len(self._arrays.edges)
        rows, width = self.memory.slots.shape
        if states > width:
            self.memory = self.memory._replace(slots=enlarge_slots(self.memory.slots, rows, states))
            self.fit_earliest()
        scratch = self._scratch
        if edges >= len(scratch.moving_node) or states > len(scratch.gathered):
            self._scratch = kernel.new_scratch(states, edges)

    def fit_earliest(self) -> None:
        """Give the earliest starts the room that slots and roots have."""
        if self.earliest_starts is not None:
            known = enlarge_slots(self.earliest_starts.of_slot, *self.memory.slots.shape)
            self.earliest_starts = _first_earliest(self.memory)._replace(of_slot=known)

    def _grow_roots(self) -> None:
        if len(self.memory.roots) < 1 << 20:
            roots = np.zeros(4 * len(self.memory.roots), a.ROOT)
            self.memory = self.memory._replace(roots=roots)
            self.fit_earliest()

    def _reserve_keys(self, keys: int) -> None:
        have = len(self.memory.row_of_key)
        if keys > have:
            size = max(keys, 2 * have)
            row_of_key = _lengthen(self.memory.row_of_key, size, -1)
            self.memory = self.memory._replace(row_of_key=row_of_key)
            if self.settings.consume == CONSUME_PARTITION:
                self.consumed = _lengthen(self.consumed, size, -1)

    def _make_rows(self) -> None:
        """Free the rows of dead partitions, and see that a quarter of all rows is free."""
        self.collect()
        memory = self.memory
        rows, width = memory.slots.shape
        free = int(memory.counters[a.FREE_ROWS])
        if 4 * free > rows and rows >= _MANY_ROWS:
            return
        free_rows = _lengthen(memory.free_rows, 2 * rows, 0)
        free_rows[free : free + rows] = np.arange(2 * rows - 1, rows - 1, -1)
        memory.counters[a.FREE_ROWS] = free + rows
        self.memory = memory._replace(
            slots=enlarge_slots(memory.slots, 2 * rows, width),
            key_of_row=_lengthen(memory.key_of_row, 2 * rows, -1),
            row_ordinal=_lengthen(memory.row_ordinal, 2 * rows, 0),
            row_epoch=_lengthen(memory.row_epoch, 2 * rows, 0),
            row_bound=_lengthen(memory.row_bound, 2 * rows, int(FOREVER)),
            free_rows=free_rows,
        )
        self.fit_earliest()

    def _make_nodes(self, room: int) -> None:
        """Drop dead nodes, and see that there is room for so many new ones."""
        self.collect()
        nodes = self.records
        self._capacity = max(self._capacity, 2 * (nodes + room))
        if self._capacity > len(self.memory.arena):
            if self._capacity > MOST_NODES:
                raise BudgetError("more than 2^30 nodes are alive; set a smaller window")
            larger = np.empty(self._capacity, a.NODE)
            larger[:nodes] = self.memory.arena[:nodes]
            self.memory, self._spare = self.memory._replace(arena=larger), None

    # ----------------------------------------------------------- forgetting

    def _advance_bound(self, bounds: NDArray[np.int64], at: int) -> None:
        """Move the bound of the window that all partitions share."""
        if len(bounds) and self.settings.shared_clock:
            self.bound = max(self.bound, int(bounds[at]))

    def collect(self) -> None:
        """Drop the nodes that no event to come can use."""
        memory, nodes = self.memory, self.records
        moved = np.zeros(nodes, np.int32)
        stack = np.empty(nodes + 1, np.int32)
        used = np.ones(1, np.int64)
        bounds = self._row_bounds()
        fresh = self._spare if self._spare is not None else a.new_arena(self._capacity)
        work = memory.slots.size
        while not call_briefly(copy_live, work, memory, bounds, moved, fresh, used, stack):
            fresh = np.concatenate([fresh, np.empty_like(fresh)])
        memory.counters[a.NODES] = used[0]
        # room for several times the live nodes, so that a node is seldom copied
        live = self.records
        wanted = max(FIRST_NODES, min(8 * live, 4 * live + (1 << 22)))
        self._capacity = len(fresh) if wanted <= len(fresh) <= 4 * wanted else wanted
        call_briefly(move_slots, work, memory, moved, self.settings.partitioned)
        if self.earliest_starts is not None:
            link_starts(fresh, live)
        self._spare = None if self._is_shared else memory.arena
        self._is_shared = False
        if self._spare is not None:
            poison(self._spare[1:nodes])
        poison(fresh[live:nodes])
        self.memory = memory._replace(arena=fresh)

    def _row_bounds(self) -> NDArray[np.int64]:
        """Return, per row, the bound that its starts have to reach."""
        settings, memory = self.settings, self.memory
        if settings.window == EVENT_WINDOW and settings.partitioned:
            return memory.row_ordinal - settings.size
        if settings.window == EVENT_WINDOW:
            return np.maximum(memory.row_bound, self.position - settings.size)
        if settings.window == CLOCK_WINDOW and settings.shared_clock:
            return np.maximum(memory.row_bound, self.bound)
        return memory.row_bound

    def live_keys(self) -> NDArray[np.int64]:
        """Return the partitions that have partial matches, ascending (as of the last `collect`)."""
        key_of_row = self.memory.key_of_row
        return np.sort(key_of_row[key_of_row >= 0])

    def drop_keys(self, keys: NDArray[np.int64]) -> None:
        """Drop the partial matches of all partitions but these; `collect` frees their memory."""
        key_of_row = self.memory.key_of_row
        self.memory.slots[(key_of_row >= 0) & ~np.isin(key_of_row, keys)] = 0

    def keep_keys(self, keys: NDArray[np.int64]) -> None:
        """Renumber partitions: keys[i] becomes i; all others must have no partial matches."""
        rows = np.flatnonzero(self.memory.key_of_row >= 0)
        if len(self.memory.key_of_row) > max(64, 8 * len(rows)):
            self.memory = _shrink_rows(self.memory, rows, max(64, 2 * len(rows)))
            if self.earliest_starts is not None:
                known = self.earliest_starts.of_slot[rows]
                self.earliest_starts = self.earliest_starts._replace(of_slot=known)
                self.fit_earliest()
            rows = np.arange(len(rows))
        key_of_row = self.memory.key_of_row
        key_of_row[rows] = np.searchsorted(keys, key_of_row[rows])
        size = max(64, 2 * len(keys))
        row_of_key = np.full(size, -1, np.int32)
        row_of_key[key_of_row[rows]] = rows
        self.memory = self.memory._replace(row_of_key=row_of_key)
        if self.settings.consume == CONSUME_PARTITION:
            self.consumed = _lengthen(self.consumed[keys], size, -1)


def _first_earliest(memory: UnaryMemory) -> a.EarliestStarts:
    """Make room for the earliest starts of some slots and roots."""
    states = memory.slots.shape[1]
    return a.EarliestStarts(
        np.zeros(memory.slots.shape, a.FIRST),
        np.zeros(len(memory.roots), np.int64),
        np.full(states, np.array((NEVER, NEVER), a.FIRST)),
    )


def _first_memory(partitioned: bool) -> UnaryMemory:
    rows = 64 if partitioned else 1
    counters = a.new_counters()
    counters[a.FREE_ROWS] = rows if partitioned else 0
    return UnaryMemory(
        counters=counters,
        arena=a.new_arena(FIRST_NODES),
        roots=np.zeros(1024, a.ROOT),
        slots=np.zeros((rows, 8), np.int32),
        row_of_key=np.full(64, -1, np.int32),
        key_of_row=np.full(rows, -1, np.int64),
        row_ordinal=np.zeros(rows, np.int64),
        row_epoch=np.zeros(rows, np.int64),
        row_bound=np.full(rows, FOREVER, np.int64),
        free_rows=np.arange(rows - 1, -1, -1).astype(np.int64),
    )


def _shrink_rows(memory: UnaryMemory, used: NDArray[np.int64], size: int) -> UnaryMemory:
    """Return the memory with so many rows, of which the used ones are the first."""

    def move(array: NDArray[Any], fill: int) -> NDArray[Any]:
        return _lengthen(array[used], size, fill)

    free = size - len(used)
    memory.counters[a.FREE_ROWS] = free
    return memory._replace(
        slots=enlarge_slots(memory.slots[used], size, memory.slots.shape[1]),
        key_of_row=move(memory.key_of_row, -1),
        row_ordinal=move(memory.row_ordinal, 0),
        row_epoch=move(memory.row_epoch, 0),
        row_bound=move(memory.row_bound, int(FOREVER)),
        free_rows=_lengthen(np.arange(size - 1, len(used) - 1, -1), size, 0),
    )


def enlarge_slots(slots: NDArray[Any], rows: int, width: int) -> NDArray[Any]:
    """Return the slots (or the earliest starts) with room for so many rows and states."""
    if slots.itemsize * rows * width > MOST_SLOT_BYTES:
        raise BudgetError(
            f"{rows:,} partitions alive at once, with {width:,} automaton states each, need more "
            f"than {MOST_SLOT_BYTES >> 30} GiB; narrow the window or simplify the pattern"
        )
    larger = np.zeros((rows, width), slots.dtype)
    larger[: slots.shape[0], : slots.shape[1]] = slots
    return larger


def _lengthen(array: NDArray[Any], size: int, fill: int) -> NDArray[Any]:
    longer = np.full(size, fill, array.dtype)
    longer[: len(array)] = array
    return longer
