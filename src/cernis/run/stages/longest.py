"""LONGEST: hold matches until no longer one of their partition can come.

At one end the engine (or the sieve) leaves the matches of the earliest start. Here intervals of
different ends are compared. Those of a partition that no other contains have increasing starts and
ends. One of them is certain once every partial match of the partition starts later: an interval to
come that contains it would have grown from a partial match that starts no later. So matches of one
partition become certain in the order of their ends. With WITHOUT, the matches that it has left are
compared, and those that still wait for their deadline count as partial matches do.

In one push, certain matches come by their ends. Over several pushes the order is that of one
partition only, unless matches are to come in order: then a match also waits for those of other
partitions that end before it. CONSUME BY ANY, which looks at all partitions, needs that.

Cost contract: per batch, a few NumPy passes over its ends and over the waiting matches, and one
look at the states of each waiting partition. Many waiting matches are only looked at once there
are events enough to pay for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from cernis.encoding.lives import LifeCoder
from cernis.engine.correlated.runtime import CorrelatedEngine
from cernis.engine.dag.links import DagSegment
from cernis.engine.longest import consume, keep_longest
from cernis.engine.settings import FOREVER, LAST_TIME, NEVER, add_ticks
from cernis.engine.unary.arena import ArenaSegment
from cernis.events.order import Scale
from cernis.pattern.query import Consume
from cernis.plan.explain import describe_unbounded_wait
from cernis.results.sets.matchset import ListedMatches, MatchBlock, MatchSet, join, take
from cernis.results.sets.rooted import RootedMatches
from cernis.run.stages.stage import ReadBatch, Run, Stage, Stages
from cernis.run.stages.waiting import NO_INTERVALS, Intervals, Mask, Numbers, WaitingMatches
from cernis.state import Tree, array, at_least_one, frozen_record, is_inside, read, require, write

Segment = ArenaSegment | DagSegment
LiveStarts = Callable[[Numbers], Numbers]
"""Gives, per partition, where its earliest partial match starts. None in its place: no further
event comes."""

_EVENTS_PAY = 16
_FEW = 4096
"""So many waiting matches are looked at in each push."""


@frozen_record
class FrozenLongest:
    """The last position that a match of each partition has used up, or -1."""

    used: Numbers = array(np.int64, "partitions", low=-1, below=at_least_one("position"))


class LongestMatches(Stage):
    """The matches of LONGEST that are not certain yet."""

    name = "longest"
    waits = heeds_time = drops = True

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        pattern = run.plan.pattern
        self.variables = run.plan.variables
        self.consumes = pattern.consume
        self.in_order = pattern.consume is Consume.ANY
        """Whether a match waits for all that end before it, of any partition."""
        if pattern.suppress is not None and not pattern.suppresses_whole_keys:
            self.in_order = True
        self.waiting = WaitingMatches(len(run.plan.variables))
        self.used = np.full(1, -1, np.int64)
        """Per scope of CONSUME BY, the end of the last match."""
        self.time = int(FOREVER)
        """Up to where time has passed without events."""
        self._events = 0
        """The events since the last look."""

    def keep_order(self) -> None:
        self.in_order = True

    def note(self, read: ReadBatch) -> None:
        self._events += len(read.batch)

    # ----------------------------------------------------------------- time

    def advance(self, time: int, scale: Scale) -> list[Any]:
        run = self.run
        if isinstance(run.keys, LifeCoder):
            run.keys.advance(time)
        if run.plan.inner_units:
            run.feed.measure(scale)
        size = run.window_ticks(scale)
        run.runtime.advance(time, None if size is None else time - size)
        self.time = time
        self._events = max(self._events, len(self.waiting))  # the next look is at all of them
        return []

    def next_deadline(self, scale: Scale, stages: Stages) -> int | None:
        """Return when time ends the partial matches that a waiting match waits for."""
        if not len(self.waiting) or scale.unit_ns is None:
            return None
        run = self.run
        keys, starts = self._list_first_starts()
        deadlines = run.runtime.find_deadlines(keys, starts)
        forget, size = run.plan.pattern.forget, run.window_ticks(scale)
        if isinstance(run.keys, LifeCoder) and forget is not None:
            deadlines = np.minimum(
                deadlines, add_ticks(run.keys.find_last(keys), scale.ticks(forget))
            )
        if size is not None:
            times, _ = run.store.ticks(starts, scale.unit_ns)
            deadlines = np.minimum(deadlines, add_ticks(times, size))
        # what has passed waits for something else: other partitions, or WITHOUT
        coming = deadlines[(deadlines >= self.time) & (deadlines < LAST_TIME)]
        return int(coming.min()) if len(coming) else None

    def _list_first_starts(self) -> tuple[Numbers, Numbers]:
        """Return the partitions with waiting matches, and the earliest start in each."""
        intervals = self.waiting.intervals
        keys, which = np.unique(intervals.keys, return_inverse=True)
        starts = np.full(len(keys), NEVER, np.int64)
        np.minimum.at(starts, which, intervals.starts)
        return keys, starts

    def describe_waits(self, *, endless: bool, last: bool) -> Iterator[str]:
        waits = describe_unbounded_wait(self.run.plan)
        if endless and waits:
            yield f"LONGEST pushes a match when no longer one can come: {waits}"

    # -------------------------------------------------------------- choosing

    def choose(self, found: MatchSet, stages: Stages, *, last: bool) -> MatchSet:
        live_starts = None if last else lambda keys: self._find_live_starts(keys, stages)
        if isinstance(found, RootedMatches):
            return self._choose_compact(found, live_starts, stages)
        if self.run.budget.spent:  # a longer one may be missing
            stages.opening.drop_all()
            self._drop_all()
            return ListedMatches(self.variables, ())
        listed = ListedMatches(self.variables, [join(tuple(found.blocks()), len(self.variables))])
        return self._choose_listed(listed, stages.opening.keys_of(listed.block.end), live_starts)

    def _find_live_starts(self, keys: Numbers, stages: Stages) -> Numbers:
        """Return where the earliest partial match of each partition starts.

        With WITHOUT also the earliest one that waits for its deadline.
        """
        engine, lives = self.run.runtime, self.run.keys
        if isinstance(engine, CorrelatedEngine):
            starts = engine.live_starts(keys, stages.opening.find_keys)
        else:
            starts = engine.live_starts(keys)
        if isinstance(lives, LifeCoder):
            starts[~np.isin(keys, lives.find_alive())] = NEVER
        waiting = stages.opening.live_starts(keys)
        return starts if waiting is None else np.minimum(starts, waiting)

    def _choose_compact(
        self, found: RootedMatches, live_starts: LiveStarts | None, stages: Stages
    ) -> MatchSet:
        """Return the matches that are certain, of compact sets and of the waiting ones."""
        segments = found.segments

        def find(kept: list[Segment]) -> MatchSet:
            return stages.opening.open(kept, stages)

        ended = [_read_intervals(segment) for segment in segments]
        new = Intervals(
            *(np.concatenate(parts) for parts in zip(NO_INTERVALS, *ended, strict=True))
        )
        certain, gone, block = self._decide(new, live_starts)
        taken, held = _select(segments, certain), _select(segments, ~certain & ~gone)
        if held:
            keys = np.concatenate([segment.roots["key"] for segment in held])
            ends = np.concatenate([segment.roots["end"] for segment in held])
            listed = ListedMatches(self.variables, find(held).blocks()).block
            self.waiting.add(listed, keys[np.searchsorted(ends, listed.end)])
        if not len(block.start):
            return find(taken)
        return ListedMatches(self.variables, [block, *find(taken).blocks()])

    def _choose_listed(
        self, found: ListedMatches, keys: Numbers, live_starts: LiveStarts | None
    ) -> ListedMatches:
        """Return the matches that are certain, of these and of the waiting ones.

        `keys` are the partitions of these.
        """
        new = Intervals(keys, found.block.start, found.block.end)
        certain, gone, block = self._decide(new, live_starts)
        held = np.flatnonzero(~certain & ~gone)
        self.waiting.add(take(found.block, held), keys[held])
        return ListedMatches(self.variables, [block, take(found.block, np.flatnonzero(certain))])

    def _drop_all(self) -> None:
        """Drop the waiting matches: ends that were not looked at may have longer ones."""
        everything = np.ones(len(self.waiting), np.bool_)
        self.waiting.take(~everything, everything)

    def _decide(
        self, new: Intervals, live_starts: LiveStarts | None
    ) -> tuple[Mask, Mask, MatchBlock]:
        """Return which of the new matches are certain, which are gone, and the certain ones
        that waited."""
        before = len(self.waiting)
        nothing = np.zeros(before + len(new.keys), np.bool_)
        if live_starts is not None and _EVENTS_PAY * self._events < before - _FEW:
            certain, gone = nothing, nothing
        else:
            self._events = 0
            certain, gone = self._look(self.waiting.intervals.append(new), live_starts)
        block = self.waiting.take(certain[:before], gone[:before])
        return certain[before:], gone[before:], block

    def _look(self, intervals: Intervals, live_starts: LiveStarts | None) -> tuple[Mask, Mask]:
        asked, keys = np.unique(intervals.keys, return_inverse=True)
        starts, ends = intervals.starts, intervals.ends
        stays = keep_longest(keys, starts, ends)
        certain = stays.copy()
        if live_starts is not None and len(asked):
            certain &= starts < live_starts(asked)[keys]
        if self.in_order:
            certain &= ends < ends[stays & ~certain].min(initial=np.iinfo(np.int64).max)
        gone = ~stays
        if self.consumes is not Consume.NONE:
            gone[certain] = self._consume(intervals.select(certain))
            certain &= ~gone
        return certain, gone

    def _consume(self, certain: Intervals) -> Mask:
        """Return which of these use events that an earlier match has used up."""
        keys = certain.keys
        scopes = keys if self.consumes is Consume.PARTITION else np.zeros_like(keys)
        more = int(scopes.max(initial=0)) + 1 - len(self.used)
        if more > 0:
            more += len(self.used)
            self.used = np.concatenate([self.used, np.full(more, -1, np.int64)])
        return ~consume(scopes, certain.starts, certain.ends, self.used)

    # ----------------------------------------------------------- forgetting

    def earliest(self, position: int) -> int:
        return self.waiting.earliest(position)

    def live_keys(self) -> Numbers:
        return self.waiting.keys()

    def keep_keys(self, keys: Numbers) -> None:
        self.waiting.keep_keys(keys)
        if self.consumes is Consume.PARTITION:
            used = np.full(max(1, len(keys)), -1, np.int64)
            known = keys < len(self.used)
            used[: len(keys)][known] = self.used[keys[known]]
            self.used = used

    def first_end(self) -> int | None:
        ends = self.waiting.intervals.ends
        return int(ends.min()) if len(ends) else None

    def held_ends(self) -> Numbers:
        return self.waiting.intervals.ends

    # --------------------------------------------------------------- frozen

    def freeze(self, stages: Stages) -> Tree:
        """Return the waiting matches, and what they and others have used up."""
        return {**write(FrozenLongest(self.used)), **self.waiting.freeze()}

    def thaw(self, tree: Tree) -> None:
        position = self.run.position
        self.used = read(FrozenLongest, tree, position=position).used
        require(len(self.used) > 0, "'used' is empty")
        self.waiting.thaw(tree, self.run.kept_from, position)
        held = self.waiting.intervals.keys
        require(is_inside(held, 0, self.run.partitions), "a partition has no key")


def _read_intervals(segment: Segment) -> Intervals:
    """Return the intervals of roots; the matches of one root have one start."""
    roots = segment.roots
    if isinstance(segment, DagSegment):
        starts = -segment.memory.vertices["start"][roots["vertex"]]
    else:
        starts = segment.arena["start"][roots["node"]]
    return Intervals(roots["key"], starts, roots["end"])


def _select(segments: Sequence[Segment], mask: Mask) -> list[Segment]:
    """Return the segments with the roots that a mask over all their roots selects."""
    kept: list[Segment] = []
    low = 0
    for segment in segments:
        own = mask[low : low + len(segment.roots)]
        low += len(own)
        if own.any():
            kept.append(segment._replace(roots=segment.roots[own]))
    return kept
