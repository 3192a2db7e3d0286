"""`CorrelatedEngine` drives the kernels: feeds batches, makes room, hands out matches.

A batch gives a list of `DagSegment`s: the records that matches consist of, and their roots.
The kernels only append records (a spine may get a newer right side, which older versions
do not look at), so matches stay valid while they are held.

Cost contract: Python runs per batch and per doubling of an array, never per event.
Memory holds the runs inside the window (twice, while collecting) and a bucket for each
key in use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from math import floor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import read_only
from cernis.compiled.tiers import expect_compiling
from cernis.engine.correlated import step as kernel
from cernis.engine.correlated.stores import expect_seconds, find_uses
from cernis.engine.correlated.tables import CODE, CorrelatedTables
from cernis.engine.dag import records as r
from cernis.engine.dag.collect import collect
from cernis.engine.dag.links import DagSegment
from cernis.engine.dag.ordered import find_latest
from cernis.engine.longest import keep_longest
from cernis.engine.renumber import list_distinct
from cernis.engine.settings import (
    CLOCK_WINDOW,
    EVENT_WINDOW,
    FOREVER,
    LAST_TIME,
    MOST_EVENTS,
    NEVER,
    NO_WINDOW,
    Settings,
    add_ticks,
    pack_distance,
    unpack_distance,
)
from cernis.errors import BudgetError
from cernis.pattern.formula import Gap, Unit

MOST_BUCKET_BYTES = 4 << 30
FIRST_RECORDS = 1 << 12
_MOST_SPARE = 1 << 15
"""An engine that collects often within a push gets room for up to so many records, live or not."""
_OFTEN = 4
_EVENTS_PAY = 16
"""An event pays for visiting so many records."""

_NO_NUMBERS = np.empty(0, np.int64)
_NO_MASK = np.empty(0, np.uint8)


FindKeys = Callable[[NDArray[np.int64]], NDArray[np.int64]]


class CorrelatedEngine:
    """One query's state over one stream."""

    def __init__(self, tables: CorrelatedTables, settings: Settings) -> None:
        self.tables = tables
        self.settings = settings
        uses = find_uses(tables.arrays)
        expect_compiling(expect_seconds(uses))
        self._rules, self._uses = settings.rules, tuple(uses)
        self.position = 0
        self.bound = int(FOREVER)
        self.capacity = [0] * len(tables.domains)
        self.bucket_kinds = np.empty(0, np.int32)
        self._has_dropped = False
        self._is_shared = False
        """Whether matches refer to the records."""
        self._live_starts = _NO_NUMBERS
        self._looked_at = -1
        """The answers of `live_starts`, and the position at which they were found."""
        self._gaps = (_NO_NUMBERS, _NO_NUMBERS, _NO_NUMBERS, _NO_NUMBERS)
        """The ends of each link's gap, the reach of each store, the WITHIN around each link; set by
        `measure_gaps`."""
        self._now, self._read_to = int(r.NOTHING), 0
        self._spare = FIRST_RECORDS
        self.memory = self._first_memory()
        self.reserve_codes([0] * len(tables.domains))
        if all(gap is None or gap.unit is Unit.EVENTS for gap in (*tables.gaps, *tables.sinces)):
            self.measure_gaps(floor)

    def push(
        self,
        symbols: NDArray[np.int32],
        codes: NDArray[np.int64],
        high: NDArray[np.int64],
        low: NDArray[np.int64],
        *,
        keys: NDArray[np.int64] | None = None,
        moments: NDArray[np.int64] | None = None,
        clocks: NDArray[np.int64] | None = None,
        bounds: NDArray[np.int64] | None = None,
        usable: NDArray[np.uint8] | None = None,
        times: NDArray[np.int64] | None = None,
    ) -> list[DagSegment]:
        """Read a batch of events and return the matches that end in it.

        `codes` has a row per column, `high` and `low` a row per ordered attribute.
        """
        is_measured = len(self._gaps[0]) == len(self.tables.gaps)
        assert is_measured or not (any(self.tables.gaps) or self.tables.is_timed)
        events = kernel.CorrelatedEvents(
            symbols,
            codes,
            high,
            low,
            _NO_NUMBERS if keys is None else keys,
            _NO_NUMBERS if moments is None else moments,
            read_only(_NO_NUMBERS if clocks is None else clocks),
            _NO_NUMBERS if bounds is None else bounds,
            _NO_MASK if usable is None else usable,
            read_only(_NO_NUMBERS if times is None else times),
            *self._gaps,
        )
        if keys is not None and len(keys):
            self._reserve_keys(int(keys.max()) + 1)
        segments: list[DagSegment] = []
        scratch = np.empty(self.memory.values.shape[1], np.int64)
        at = collections = 0
        while True:
            status, at, array, room = kernel.step(
                self._uses,
                tuple(self.tables.arrays),
                tuple(self.memory),
                tuple(events),
                scratch,
                tuple(self._rules),
                self.position,
                at,
            )
            if status == kernel.DONE:
                break
            if status == kernel.NO_ROOM_TO_FILE:
                self.grow(array, room)
                continue
            self._close(segments)
            if array != r.ROOTS:
                self._advance_bound(bounds, at, self.position + at)
                self._advance_time(times, at, self.position + at)
                self.collect()
                collections += 1
                if collections % _OFTEN == 0:
                    self._spare = min(2 * self._spare, _MOST_SPARE)
            self.grow(array, room)
        self._close(segments)
        self._advance_bound(bounds, len(symbols) - 1, self.position + len(symbols))
        self._advance_time(times, len(symbols) - 1, self.position + len(symbols))
        self.position += len(symbols)
        return segments

    @property
    def relevant(self) -> int:
        """How many events have made a vertex."""
        return int(self.memory.counters[r.RELEVANT])

    @property
    def records(self) -> int:
        """How many records are in use, dead ones included."""
        return int(self.memory.counters[r.VERTICES : r.ASKED].sum())

    def earliest(self) -> int:
        """Return the position of the earliest event that a partial match has."""
        self.collect()
        used = self.memory.vertices[1 : self.memory.counters[r.VERTICES]]
        return int(used["position"].min()) if len(used) else self.position

    def live_starts(
        self, keys: NDArray[np.int64], find_keys: FindKeys | None = None
    ) -> NDArray[np.int64]:
        """Return a position at or before the earliest start of a partial match, per partition.

        It is found anew once there are events enough to pay for a collection. `find_keys` gives
        the partitions of positions; without it partitions may share their earliest start.
        """
        size = self.records + len(self.memory.buckets) - FIRST_RECORDS
        if self._looked_at < 0 or _EVENTS_PAY * (self.position - self._looked_at) >= size:
            self._live_starts, self._looked_at = self._find_live_starts(find_keys), self.position
        starts = np.full(len(keys), self._looked_at, np.int64)
        known = keys < len(self._live_starts)
        starts[known] = self._live_starts[keys[known]]
        return starts

    def _find_live_starts(self, find_keys: FindKeys | None) -> NDArray[np.int64]:
        """Return `live_starts` of all partitions: of each, or the one of all of them together."""
        if not self.settings.from_earliest and find_keys is None:
            return np.full(len(self.memory.part_events), self.earliest(), np.int64)
        self.collect()
        starts = np.full(len(self.memory.part_events), NEVER, np.int64)
        if not self.settings.from_earliest and find_keys is not None:
            used = self.memory.vertices["position"][1 : self.memory.counters[r.VERTICES]]
            np.minimum.at(starts, find_keys(used), used)
            return starts
        live = np.flatnonzero(self._can_continue())
        np.minimum.at(starts, self.memory.buckets["part"][live], self._find_starts(live))
        return starts

    def advance(self, time: int, bound: int | None) -> None:
        """Note that no event before a time comes, and that windows in time reach to `bound`."""
        self._now = max(self._now, time)
        self._looked_at = -1
        if bound is not None and self.settings.shared_clock:
            self.bound = max(self.bound, bound)

    def find_deadlines(
        self, keys: NDArray[np.int64], starts: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return, per partition, when gaps in time end all runs that start by a position.

        Runs of all partitions, whatever their start, where `live_starts` knows no better.
        """
        live = np.flatnonzero(self._can_continue())
        last = self._find_last_times()[live]
        if not self.settings.from_earliest:
            return np.full(len(keys), last.max(initial=FOREVER), np.int64)
        parts = self.memory.buckets["part"][live]
        asked = np.full(len(self.memory.part_events), -1, np.int64)
        asked[keys] = starts
        blocks = self._find_starts(live) <= asked[parts]
        deadlines = np.full(len(asked), FOREVER, np.int64)
        np.maximum.at(deadlines, parts[blocks], last[blocks])
        return deadlines[keys]

    def _find_last_times(self) -> NDArray[np.int64]:
        """Return, per bucket, the last time at which an event may continue its runs."""
        memory = self.memory
        last = np.full(len(memory.buckets), LAST_TIME, np.int64)
        for store, gap in enumerate(self.tables.reaches):
            if gap is not None and gap.unit is Unit.TIME:
                mine = slice(memory.base[store], memory.base[store + 1])
                last[mine] = self._find_latest(store, memory.buckets["root"][mine])
                last[mine] = add_ticks(last[mine], unpack_distance(int(self._gaps[2][store])))
        return last

    def _find_latest(self, store: int, roots: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the last event of the runs below each root, as the gap of a store measures it."""
        if self.tables.stores[store].kind == r.RECENT:
            found: NDArray[np.int64] = self.memory.branches["best"][roots]
            return np.where(roots == 0, r.NOTHING, found)
        latest = np.empty(len(roots), np.int64)
        find_latest(self.memory.branches, roots, latest)
        return latest

    def _find_starts(self, buckets: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the earliest start of the runs in each bucket; for `from_earliest`."""
        memory = self.memory
        roots, is_sorted = memory.buckets["root"][buckets], self.bucket_kinds[buckets] == r.SORTED
        latest = np.empty(len(buckets), np.int64)
        latest[is_sorted] = memory.branches["best"][roots[is_sorted]]
        latest[~is_sorted] = memory.nodes["start"][roots[~is_sorted]]
        return -latest

    def _can_continue(self) -> NDArray[np.bool_]:
        """Return which buckets have runs that the next event may continue."""
        memory, arrays = self.memory, self.tables.arrays
        buckets = memory.buckets
        is_contiguous = np.repeat(arrays.store_contiguous != 0, np.diff(memory.base))
        read: Any = max(self._read_to, self.position)
        if self.settings.partitioned:
            read = memory.part_events[buckets["part"]]
        is_next = buckets["ordinal"] == read - 1
        return np.asarray((buckets["root"] != 0) & (~is_contiguous | is_next), np.bool_)

    # ---------------------------------------------------------------- room

    def reserve_codes(self, sizes: Sequence[int]) -> None:
        """Make buckets for so many codes of each domain."""
        if self.memory.base.size and all(
            n <= have for n, have in zip(sizes, self.capacity, strict=True)
        ):
            return
        wanted = [
            have if n <= have else max(16, n, 2 * have)
            for n, have in zip(sizes, self.capacity, strict=True)
        ]
        self._lay_out(wanted, None)

    def _lay_out(self, capacity: list[int], keep: list[NDArray[np.int64] | None] | None) -> None:
        """Move the buckets to a table of these sizes; `keep[d][i]` is the old code of code i."""
        domains = self.tables.store_domain
        room = [capacity[d] for d in domains]
        if sum(room) * r.BUCKET.itemsize > MOST_BUCKET_BYTES:
            raise BudgetError(
                f"{sum(room):,} keys to correlate by are alive at once; set a smaller window"
            )
        base = np.cumsum([0, *room], dtype=np.int64)
        buckets = np.zeros(int(base[-1]), r.BUCKET)
        for store, domain in enumerate(domains):
            old = self.memory.base[store] if len(self.memory.base) else 0
            kept = keep[domain] if keep is not None else None
            if kept is not None:
                buckets[base[store] : base[store] + len(kept)] = self.memory.buckets[old + kept]
            elif len(self.memory.base):
                have = self.capacity[domain]
                buckets[base[store] : base[store] + have] = self.memory.buckets[old : old + have]
        self.capacity = capacity
        self.bucket_kinds = np.repeat(self.tables.arrays.links.kind, np.array(room, np.int64))
        self.memory = self.memory._replace(buckets=buckets, base=base)

    def _reserve_keys(self, keys: int) -> None:
        have = len(self.memory.part_events)
        if keys > have:
            more = max(keys, 2 * have) - have
            self.memory = self.memory._replace(
                part_events=np.concatenate([self.memory.part_events, np.zeros(more, np.int64)]),
                part_bound=np.concatenate([self.memory.part_bound, np.full(more, FOREVER)]),
            )

    def grow(self, array: int, room: int) -> None:
        """Make room for so many more records in an array."""
        self.memory = r.make_room(self.memory, array, room, self._spare)

    def _close(self, segments: list[DagSegment]) -> None:
        """Turn the roots found since the last time into a segment."""
        found = int(self.memory.counters[r.ROOTS])
        if found:
            roots = self.memory.roots[:found].copy()
            if self.settings.from_earliest:
                roots = roots[keep_longest(roots["key"], -roots["bound"], roots["end"])]
            segments.append(DagSegment(self.tables.arrays.links, self.memory, roots))
            self._is_shared = True
            self.memory.counters[r.ROOTS] = 0

    # ----------------------------------------------------------- forgetting

    def _advance_bound(self, bounds: NDArray[np.int64] | None, at: int, position: int) -> None:
        """Move the bound of the window that all partitions share."""
        settings = self.settings
        if settings.window == EVENT_WINDOW and not settings.partitioned:
            self.bound = position - settings.size
        elif bounds is not None and len(bounds) and settings.shared_clock:
            self.bound = max(self.bound, int(bounds[at]))

    def measure_gaps(self, ticks: Callable[[Fraction], int]) -> None:
        """Set the sizes of the gaps; `ticks` counts the whole ticks in some nanoseconds."""

        def size(length: Fraction, unit: Unit, round_up: bool) -> int:
            whole = floor(length) if unit is Unit.EVENTS else ticks(length)
            exact = -floor(-length) if unit is Unit.EVENTS else -ticks(-length)
            return pack_distance(exact if round_up else whole)

        def sizes(gaps: Sequence[Gap | None], *, least: bool) -> NDArray[np.int64]:
            found = [
                0 if gap is None else size(gap.least if least else gap.most, gap.unit, least)
                for gap in gaps
            ]
            return np.array(found, np.int64)

        tables = self.tables
        self._gaps = (
            sizes(tables.gaps, least=True),
            sizes(tables.gaps, least=False),
            sizes(tables.reaches, least=False),
            sizes(tables.sinces, least=False),
        )

    def _advance_time(self, times: NDArray[np.int64] | None, at: int, position: int) -> None:
        """Note the time and the position up to which events have been read."""
        self._read_to = position
        if times is not None and len(times):
            self._now = max(self._now, int(times[at]))

    def _expire_gaps(self) -> None:
        """Empty the buckets whose runs lie too far back for any event to come."""
        memory, buckets = self.memory, self.memory.buckets.copy()
        for store, gap in enumerate(self.tables.reaches):
            if gap is None:
                continue
            first = memory.base[store]
            mine = buckets[first : first + self.capacity[self.tables.store_domain[store]]]
            reach = unpack_distance(int(self._gaps[2][store]))
            limit: Any = max(self._now - reach, int(r.NOTHING))
            if gap.unit is Unit.EVENTS:
                read = memory.part_events[mine["part"]] if self.settings.partitioned else None
                limit = (self._read_to if read is None else read) - min(reach, MOST_EVENTS)
            latest = self._find_latest(store, mine["root"])
            dead = (mine["root"] != 0) & (latest < limit)
            mine["root"][dead] = mine["last"][dead] = 0
        self.memory = memory._replace(buckets=buckets)

    def _end_groups(self) -> None:
        """End the groups of the partitions in which a `->` has taken all runs."""
        memory, tables, buckets = self.memory, self.tables, self.memory.buckets.copy()
        number = {store: i for i, store in enumerate(tables.stores)}
        for groups in {one.groups for one in tables.removals if one.groups is not None}:
            waiting = [one.store for one in tables.removals if one.groups == groups]
            if any(store.column for store in waiting):
                continue
            home = number[groups]
            first = memory.base[home]
            mine = buckets[first : first + self.capacity[tables.store_domain[home]]]
            ranges = [(memory.base[number[s]], memory.base[number[s] + 1] - 1) for s in waiting]
            roots = [buckets["root"][np.minimum(at + mine["part"], end)] for at, end in ranges]
            dead = (mine["root"] != 0) & (np.max(roots, axis=0) == 0)
            mine["root"][dead] = mine["last"][dead] = 0
        self.memory = memory._replace(buckets=buckets)

    def _drop_ended(self) -> None:
        """Drop the runs of groups that have ended, where links ask for the last group alone."""
        memory, tables, buckets = self.memory, self.tables, self.memory.buckets.copy()
        number = {store: i for i, store in enumerate(tables.stores)}
        for store, home in tables.since_stores.items():
            mine = buckets[memory.base[number[store]] : memory.base[number[store] + 1]]
            first, end = memory.base[number[home]], memory.base[number[home] + 1] - 1
            group = buckets[np.minimum(first + mine["part"], end)]
            dead = self._find_latest(number[store], mine["root"]) < group["ordinal"]
            dead |= group["root"] == 0
            mine["root"][dead] = mine["last"][dead] = 0
        self.memory = memory._replace(buckets=buckets)

    def _drop_broken(self) -> None:
        """Empty the contiguous buckets whose runs an event has passed over."""
        dead = (self.memory.buckets["root"] != 0) & ~self._can_continue()
        if dead.any():
            buckets = self.memory.buckets.copy()
            buckets["root"][dead] = buckets["last"][dead] = 0
            self.memory = self.memory._replace(buckets=buckets)
            self._has_dropped = True

    def _part_bounds(self) -> NDArray[np.int64]:
        """Return, per partition, the bound that its starts have to reach."""
        settings = self.settings
        if settings.partitioned and settings.window == EVENT_WINDOW:
            return self.memory.part_events - settings.size
        if settings.window == CLOCK_WINDOW and not settings.shared_clock:
            return self.memory.part_bound
        return np.array([self.bound], np.int64)

    def collect(self) -> None:
        """Drop the records that no event to come can use."""
        if len(self._gaps[2]) and any(self.tables.reaches):
            self._expire_gaps()
            self._has_dropped = True
        if self.tables.arrays.store_contiguous.any():
            self._drop_broken()
        if self.tables.removals:
            self._end_groups()
        if self.tables.since_stores:
            self._drop_ended()
        can_expire = self.settings.window != NO_WINDOW or self.tables.has_leaving
        can_expire = can_expire or bool(self.tables.collapsed)
        if not can_expire and not self._has_dropped:
            return
        self._has_dropped = False
        assert self.memory.counters[r.PENDING] == 0
        before = self.memory.counters
        self.memory = collect(
            self.tables.arrays.links,
            self.memory,
            self.bucket_kinds,
            self._part_bounds(),
            is_shared=self._is_shared,
        )
        self._is_shared = False
        # Every array gets room in proportion to the largest one (if records of a small array
        # die young, it would start a collection again and again) and to the buckets to visit.
        live = int(self.memory.counters[r.VERTICES : r.ROOTS].max())
        room = max(1, min(max(3 * live, len(self.memory.buckets)), live + (1 << 22)) // 2)
        for array in (r.VERTICES, r.SOURCES, r.NODES, r.ENTRIES, r.BRANCHES, r.ASKED):
            self.grow(array, room if before[array] > 1 else 1)

    def live_codes(self) -> list[NDArray[np.int64]]:
        """Return, per domain, the codes that live records refer to, ascending."""
        used = [np.zeros(max(n, 1), np.bool_) for n in self.capacity]
        memory = self.memory
        for store, domain in enumerate(self.tables.store_domain):
            low = memory.base[store]
            used[domain][: self.capacity[domain]] |= (
                memory.buckets["root"][low : low + self.capacity[domain]] != 0
            )
        for domain, name, index in self.list_codes(self.memory):
            codes = getattr(memory, name)[index]
            used[domain][codes[codes >= 0]] = True
        return [np.flatnonzero(u) for u in used]

    def list_codes(self, memory: r.RunMemory) -> Iterator[tuple[int, str, tuple[Any, int]]]:
        """Yield (domain, array, index in it) of all codes that records hold."""
        tables, domain_of = self.tables.arrays, self.tables.domain_of
        entries = memory.entries[: memory.counters[r.ENTRIES]]
        sources = memory.sources[: memory.counters[r.SOURCES]]
        asked_store = tables.links.store[sources["link"]]
        for (store, v), column in np.ndenumerate(tables.store_values):
            if column >= 0:
                yield domain_of[column], "values", (np.flatnonzero(entries["store"] == store), v)
                yield domain_of[column], "asked", (sources["asked"][asked_store == store], v)
        for f, (kind, number) in enumerate(self.tables.facts):
            if kind == CODE:
                yield domain_of[number], "facts", (slice(memory.counters[r.VERTICES]), f)

    def keep_codes(self, kept: list[NDArray[np.int64] | None]) -> None:
        """Renumber codes: kept[d][i] becomes i; all others must be dead. None: no change."""
        arrays = {name: getattr(self.memory, name).copy() for name in ("values", "asked", "facts")}
        for domain, name, index in self.list_codes(self.memory):
            codes = kept[domain]
            if codes is not None:
                old = arrays[name][index]
                new = np.searchsorted(codes, np.maximum(old, 0))
                arrays[name][index] = np.where(old < 0, old, new)
        self.memory = self.memory._replace(**arrays)
        capacity = [
            have if codes is None else max(16, 2 * len(codes))
            for codes, have in zip(kept, self.capacity, strict=True)
        ]
        self._lay_out(capacity, kept)

    def live_keys(self) -> NDArray[np.int64]:
        """Return the partitions that have partial matches, ascending (as of the last `collect`)."""
        buckets = self.memory.buckets
        return list_distinct(buckets["part"][buckets["root"] != 0])

    def drop_keys(self, keys: NDArray[np.int64]) -> None:
        """Drop the partial matches of all partitions but these; `collect` frees their memory."""
        buckets = self.memory.buckets.copy()
        dead = ~np.isin(buckets["part"], keys)
        self._looked_at = -1
        buckets["root"][dead] = buckets["before"][dead] = 0
        self.memory = self.memory._replace(buckets=buckets)
        self._has_dropped = True

    def keep_keys(self, keys: NDArray[np.int64]) -> None:
        """Renumber partitions: keys[i] becomes i; all others must have no partial matches."""
        self._looked_at = -1
        buckets = self.memory.buckets.copy()
        used = buckets["root"] != 0
        buckets["part"][used] = np.searchsorted(keys, buckets["part"][used])
        buckets["part"][~used] = 0
        size = max(64, 2 * len(keys))
        events, bound = np.zeros(size, np.int64), np.full(size, FOREVER)
        events[: len(keys)] = self.memory.part_events[keys]
        bound[: len(keys)] = self.memory.part_bound[keys]
        self.memory = self.memory._replace(buckets=buckets, part_events=events, part_bound=bound)

    # --------------------------------------------------------------- memory

    def _first_memory(self) -> r.RunMemory:
        tables = self.tables.arrays
        stores = (
            tables.state_first[tables.transition_target + 1]
            - tables.state_first[tables.transition_target]
        )
        widths = r.Widths(
            facts=len(self.tables.facts),
            values=self.tables.width,
            back=len(tables.links.steps),
            ordered=self.tables.is_sorted,
            more=self.tables.is_recent,
            parts=64 if self.settings.partitioned else 1,
            pending=int(stores.sum()) + len(tables.transition_target) * len(tables.moves) + 1,
        )
        return r.new_memory(FIRST_RECORDS, widths)
