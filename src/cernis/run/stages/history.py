"""The matches so far that are inside the window that ends now, for `Session.pull`.

Pull mode of the dynamic evaluation paper. Matches stay in the form in which they were found:
as roots of compact sets, or one by one where they were listed, or chosen by a strategy inside a
window. Matches that have left the window are dropped, so the history grows with the answer and
not with the stream.

"Now" is the last event read; for a window of events or over an attribute, the last event of the
match's partition. A match is inside when it starts at or after the *horizon* of its partition. A
root has a bound already: the start of the window at its own end. To pull is to raise that bound.
Engines count the events of a partition from its first live event, so for windows of events the
bound moves by the number of events that the partition has had since.

The window is the query's WITHIN. A condition such as `t3 - t1 < 5` holds of a match for ever,
though an engine may use it as a window.

Cost contract: per batch, some NumPy passes over its events (none without a window); per
pull, one pass over the roots. Roots outside the window are dropped whenever the number of roots
has doubled.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.encoding.clock import Clock, read_time_clock
from cernis.encoding.lives import LifeCoder
from cernis.encoding.ranks import rank_events
from cernis.engine.dag.links import DagSegment
from cernis.engine.renumber import list_distinct
from cernis.engine.settings import EVENT_WINDOW, FOREVER, NO_WINDOW
from cernis.engine.unary.arena import ArenaSegment
from cernis.pattern.query import Strategy
from cernis.results.budget import Budget
from cernis.results.sets.matchset import ListedMatches, MatchBlock, MatchSet, take
from cernis.results.sets.rooted import RootedMatches
from cernis.run.stages.stage import Numbers, ReadBatch, Run, Stage, Stages

_TRIM_EVERY = 1 << 16


class _Readings(NamedTuple):
    """The ranks or times of the events of a batch, as the window measures them."""

    base: int
    keys: Numbers
    values: Numbers


class _Roots(NamedTuple):
    """A compact set, and for each root the reading of its last event."""

    taken: ArenaSegment | DagSegment
    readings: Numbers

    @property
    def starts(self) -> Numbers:
        """The latest start of each root, in the engine's own count."""
        taken = self.taken
        if isinstance(taken, DagSegment):
            return np.asarray(taken.memory.vertices["start"][taken.roots["vertex"]], np.int64)
        return np.asarray(taken.arena["start"][taken.roots["node"]], np.int64)


class _ListedBlock(NamedTuple):
    """Matches one by one, each with its partition and the reading of its first event."""

    block: MatchBlock
    keys: Numbers
    starts: Numbers


class MatchHistory(Stage):
    """The matches found so far that are inside the window."""

    name = "history"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        plan = run.plan
        self.window = plan.settings.window if plan.within is not None else NO_WINDOW
        self.size = plan.settings.size
        self.partitioned = plan.settings.partitioned
        self.shared = plan.settings.shared_clock
        apart = plan.tables is not None and bool(plan.tables.apart or plan.tables.counts_positions)
        resolved = bool(plan.settings.resolve) and self.window != NO_WINDOW
        waits = bool(plan.pattern.without) or plan.pattern.strategy is Strategy.LONGEST
        waits = waits or plan.pattern.order is not None or plan.pattern.suppress is not None
        self.lists = plan.listed or apart or resolved or waits or plan.runs is not None
        """Whether matches are kept one by one: they are listed, a guard bounds their roots, a
        strategy has chosen them, and its roots have lost the window, or they come after their
        ends."""
        self.moves = self.partitioned and self.window == EVENT_WINDOW
        self.needs_readings = self.window != NO_WINDOW or plan.pattern.forget is not None
        self._readings: list[_Readings] = []
        self._counts = np.zeros(1, np.int64)
        self._bounds = np.full(1, FOREVER, np.int64)
        self._roots: list[_Roots] = []
        self._listed: list[_ListedBlock] = []
        self._number = 0
        self._trim_at = _TRIM_EVERY

    # ------------------------------------------------------------- reading

    def note(self, read: ReadBatch) -> None:
        """Store the ranks or times of the events of a batch."""
        batch = read.batch
        if not self.needs_readings or not len(batch):
            return
        own = np.zeros(len(batch), np.int64) if read.keys is None else read.keys
        self._reserve(int(own.max()) + 1)
        clock, within = read.clock, self.run.plan.within
        if within is not None and within != self.run.plan.pattern.within:
            # a condition has made the engine's window smaller
            clock = read_time_clock(batch, read.scale.ticks(within.size))
        if clock is not None:
            self._move_bounds(own, clock)
            values = clock.clock
        else:
            values = rank_events(own, self._counts)
            self._counts += np.bincount(own[own >= 0], minlength=len(self._counts))
        self._readings.append(_Readings(batch.base, own, values))

    def _move_bounds(self, keys: Numbers, clock: Clock) -> None:
        usable = keys >= 0 if not self.shared else np.ones(len(keys), np.bool_)
        if clock.usable is not None:
            usable = usable & (clock.usable != 0)
        if not usable.any():
            return
        if self.shared:
            self._bounds[:] = clock.bound[usable][-1]
        else:
            self._bounds[keys[usable]] = clock.bound[usable]  # the last one of a key stays

    def _reserve(self, keys: int) -> None:
        more = keys - len(self._counts)
        if more > 0:
            more += len(self._counts)
            newest = self._bounds[0] if self.shared else FOREVER
            self._counts = np.concatenate([self._counts, np.zeros(more, np.int64)])
            self._bounds = np.concatenate([self._bounds, np.full(more, newest, np.int64)])

    def choose(self, found: MatchSet, stages: Stages, *, last: bool) -> MatchSet:
        """Add matches, as roots or one by one; all of them pass."""
        if self.lists:
            for block in found.blocks():
                keys, _ = self._read(block.end)
                _, starts = self._read(block.start)
                self._listed.append(_ListedBlock(block, keys, starts))
                self._number += len(block.end)
        else:
            assert isinstance(found, RootedMatches)
            for one in found.segments:
                _, readings = self._read(one.roots["end"])
                self._roots.append(_Roots(one, readings))
                self._number += len(one.roots)
        if self._number >= self._trim_at:
            self.trim()
            self._trim_at = max(_TRIM_EVERY, 2 * self._number)
        return found

    def _read(self, positions: Numbers) -> tuple[Numbers, Numbers]:
        """Return the partitions of events, and their readings."""
        keys, values = np.zeros((2, len(positions)), np.int64)
        if self.needs_readings:
            bases = [readings.base for readings in self._readings]
            batches = np.searchsorted(bases, positions, side="right") - 1
            for number in np.unique(batches):
                at = np.flatnonzero(batches == number)
                readings = self._readings[number]
                keys[at] = readings.keys[positions[at] - readings.base]
                values[at] = readings.values[positions[at] - readings.base]
        return keys, values

    # ------------------------------------------------------------- pulling

    def pull(self, budget: Budget) -> MatchSet:
        """Return the matches inside the window that ends now."""
        run = self.run
        if isinstance(run.keys, LifeCoder):
            self.drop_keys(run.keys.find_alive())
        self.trim()
        variables = run.plan.variables
        if self.lists:
            return ListedMatches(variables, [listed.block for listed in self._listed])
        bounded = []
        for one in self._roots:
            roots = one.taken.roots.copy()
            roots["bound"] = self._find_bound(one)
            bounded.append(one.taken._replace(roots=roots))
        return run.feed.find(variables, bounded, run.plan.limit, budget)

    def trim(self) -> None:
        """Drop the matches that have left the window."""
        if self.window == NO_WINDOW:
            return
        roots = (_keep_inside(one, one.starts >= self._find_bound(one)) for one in self._roots)
        self._roots = [one for one in roots if len(one.taken.roots)]
        listed = (
            _keep_listed(one, one.starts >= self._find_horizon(one.keys)) for one in self._listed
        )
        self._listed = [one for one in listed if len(one.keys)]
        self._recount()

    def _recount(self) -> None:
        self._number = sum(len(one.readings) for one in self._roots)
        self._number += sum(len(one.keys) for one in self._listed)

    def _find_horizon(self, keys: Numbers) -> Numbers:
        """Return the least reading inside the window of each partition."""
        if self.window == EVENT_WINDOW:
            return np.asarray(self._counts[keys] - 1 - self.size, np.int64)
        return np.asarray(self._bounds[keys], np.int64)

    def _find_bound(self, roots: _Roots) -> Numbers:
        """Return the horizon of each root in the engine's own count."""
        own = roots.taken.roots
        if self.window == NO_WINDOW:
            return np.asarray(own["bound"], np.int64)
        if self.moves:
            return np.asarray(own["bound"] + self._counts[own["key"]] - 1 - roots.readings)
        return np.asarray(np.maximum(own["bound"], self._find_horizon(own["key"])))

    # ----------------------------------------------------------- forgetting

    def earliest(self, position: int) -> int:
        self.trim()
        if not self._number:
            return position
        if self.window == NO_WINDOW:
            return 0
        for readings in self._readings:
            there = readings.keys >= 0
            inside = there & (readings.values >= self._find_horizon(np.maximum(readings.keys, 0)))
            if inside.any():
                return min(position, readings.base + int(np.argmax(inside)))
        return position

    def forget_before(self, position: int, stages: Stages) -> None:
        last = bisect_right(self._readings, position, key=lambda readings: readings.base) - 1
        del self._readings[: max(0, last)]

    def drop_keys(self, keys: Numbers) -> None:
        roots = (_keep_inside(one, np.isin(one.taken.roots["key"], keys)) for one in self._roots)
        self._roots = [one for one in roots if len(one.taken.roots)]
        listed = (_keep_listed(one, np.isin(one.keys, keys)) for one in self._listed)
        self._listed = [one for one in listed if len(one.keys)]
        self._recount()

    def live_keys(self) -> Numbers:
        found = [one.taken.roots["key"] for one in self._roots]
        found += [one.keys for one in self._listed]
        return list_distinct(*found)

    def keep_keys(self, keys: Numbers) -> None:
        self._reserve(int(keys.max(initial=-1)) + 1)
        number = np.full(len(self._counts), -1, np.int64)
        number[keys] = np.arange(len(keys))
        self._readings = [
            one._replace(keys=np.where(one.keys < 0, -1, number[one.keys]))
            for one in self._readings
        ]
        self._listed = [one._replace(keys=number[one.keys]) for one in self._listed]
        renumbered = []
        for one in self._roots:
            roots = one.taken.roots.copy()
            roots["key"] = number[roots["key"]]
            renumbered.append(one._replace(taken=one.taken._replace(roots=roots)))
        self._roots = renumbered
        newest = self._bounds[0]
        if len(keys):
            self._counts, self._bounds = self._counts[keys], self._bounds[keys]
        else:
            self._counts, self._bounds = np.zeros(1, np.int64), np.full(1, newest, np.int64)


def _keep_inside(one: _Roots, inside: NDArray[np.bool_]) -> _Roots:
    if inside.all():
        return one
    return _Roots(one.taken._replace(roots=one.taken.roots[inside]), one.readings[inside])


def _keep_listed(one: _ListedBlock, inside: NDArray[np.bool_]) -> _ListedBlock:
    if inside.all():
        return one
    kept = np.flatnonzero(inside)
    return _ListedBlock(take(one.block, kept), one.keys[kept], one.starts[kept])
