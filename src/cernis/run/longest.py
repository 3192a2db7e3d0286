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

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cernis.engine.dag.links import DagSegment
from cernis.engine.longest import consume, keep_longest
from cernis.engine.settings import FOREVER, NEVER
from cernis.engine.unary.arena import ArenaSegment
from cernis.pattern.query import Consume
from cernis.plan.plan import Plan
from cernis.results.matchset import ListedMatches, MatchBlock, MatchSet, take
from cernis.run.waiting import NO_INTERVALS, Intervals, Mask, Numbers, WaitingMatches
from cernis.state import read_array, require

Segment = ArenaSegment | DagSegment
FindMatches = Callable[[Sequence[Segment]], MatchSet]
LiveStarts = Callable[[Numbers], Numbers]
"""Gives, per partition, where its earliest partial match starts. None in its place: no further
event comes. It is asked for at each choice and not kept: it knows the session, which would then
hold itself."""

_EVENTS_PAY = 16
_FEW = 4096
"""So many waiting matches are looked at in each push."""


class LongestMatches:
    """The matches of LONGEST that are not certain yet."""

    def __init__(self, plan: Plan) -> None:
        self.variables = plan.variables
        self.consumes = plan.pattern.consume
        self.in_order = plan.pattern.consume is Consume.ANY
        """Whether a match waits for all that end before it, of any partition."""
        self.waiting = WaitingMatches(len(plan.variables))
        self.used = np.full(1, -1, np.int64)
        """Per scope of CONSUME BY, the end of the last match."""
        self.time = int(FOREVER)
        """Up to where time has passed without events."""
        self._events = 0
        """The events since the last look."""

    def note_events(self, events: int) -> None:
        self._events += events

    def note_time(self, time: int) -> None:
        """Note that no event before a time comes: the next look is at all waiting matches."""
        self.time = time
        self._events = max(self._events, len(self.waiting))

    def list_first_starts(self) -> tuple[Numbers, Numbers]:
        """Return the partitions with waiting matches, and the earliest start in each."""
        intervals = self.waiting.intervals
        keys, which = np.unique(intervals.keys, return_inverse=True)
        starts = np.full(len(keys), NEVER, np.int64)
        np.minimum.at(starts, which, intervals.starts)
        return keys, starts

    def choose_compact(
        self, segments: Sequence[Segment], find: FindMatches, live_starts: LiveStarts | None
    ) -> MatchSet:
        """Return the matches that are certain, of these and of the waiting ones.

        `find` gives the matches below roots.
        """
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

    def choose_listed(
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

    def drop_all(self) -> None:
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

    def keep_keys(self, keys: Numbers) -> None:
        """Renumber partitions: keys[i] becomes i."""
        self.waiting.keep_keys(keys)
        if self.consumes is Consume.PARTITION:
            used = np.full(max(1, len(keys)), -1, np.int64)
            known = keys < len(self.used)
            used[: len(keys)][known] = self.used[keys[known]]
            self.used = used

    def first_end(self) -> int | None:
        """Return the earliest end of a waiting match."""
        ends = self.waiting.intervals.ends
        return int(ends.min()) if len(ends) else None

    def freeze(self) -> dict[str, Any]:
        """Return the waiting matches, and what they and others have used up."""
        return {"used": self.used, **self.waiting.freeze()}

    def thaw(self, arrays: dict[str, Any], first: int, position: int) -> None:
        """Restore what `freeze` returned; positions lie in [first, position)."""
        self.used = read_array(arrays, "used", np.int64, low=-1, below=max(position, 1))
        require(len(self.used) > 0, "'used' is empty")
        self.waiting.thaw(arrays, first, position)


def keep_earliest(block: MatchBlock) -> MatchBlock:
    """Return the matches of the earliest start of each end."""
    ends, which = np.unique(block.end, return_inverse=True)
    earliest = np.full(len(ends), NEVER)
    np.minimum.at(earliest, which, block.start)
    return take(block, np.flatnonzero(block.start == earliest[which]))


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
