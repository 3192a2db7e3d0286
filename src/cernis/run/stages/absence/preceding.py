"""`WITHOUT ψ BEFORE d`: drop the matches that an occurrence of ψ precedes.

The guard reads each batch before the matches that end in it are checked. Whether an occurrence
precedes a match depends on the start of the match and on the values that link the two. It is
decided when the match ends: nothing waits.

Cost contract: the guard's plan per event, O(1) per occurrence; for the cost of a match see
`engine.precedence`. With residual conditions, one check for each pair, within the budget. State:
the occurrences that a match to come can start after, and a number for each event that it can start
with.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cernis.encoding import clock as clocks
from cernis.encoding.clock import Clock
from cernis.engine.precedence import Precedence
from cernis.engine.renumber import list_distinct, renumber
from cernis.events.batch import EventBatch
from cernis.events.order import Scale
from cernis.results.sets.matchset import MatchBlock, join, take
from cernis.run.stages.absence.event_log import EventLog
from cernis.run.stages.absence.guard import LARGEST_SIZE, GuardSide
from cernis.run.stages.absence.links import ListedOne, PairCheck
from cernis.run.stages.stage import Numbers
from cernis.run.stages.waiting import freeze_block, thaw_block
from cernis.state import Tree, frozen_record, number, optional, part, read, require, write

_CLOCK, _KEY = range(2)
"""Rows of the log."""


@frozen_record
class FrozenPreceding:
    """The occurrences, the window, and the clock and the partition of recent events."""

    size: int = number(0, LARGEST_SIZE + 1)
    seen: Tree = part()
    log: Tree = part()
    listed: Tree | None = optional(part())


class Preceding(GuardSide):
    """The occurrences of one stream that can precede a match."""

    clause = "WITHOUT … BEFORE"

    def _begin(self) -> None:
        self.seen = Precedence()
        self.listed = join((), len(self.guard.plan.variables))
        """With residual conditions, the occurrences themselves, as `seen` has them."""
        self._log = EventLog(2)
        self._size = 0

    # ------------------------------------------------------------- reading

    def take(
        self, batch: EventBatch, keys: Numbers | None, scale: Scale, ended: MatchBlock
    ) -> MatchBlock:
        """Read a batch, in which these matches end; return those that nothing precedes."""
        if not len(batch):
            return ended
        self._size = self.read_size(scale)
        clock = self.read_clock(batch, keys)
        key = np.zeros(len(batch), np.int64) if keys is None else keys
        self._log.append(batch.base, np.stack([clock, key]))
        self.note(batch, keys)
        self._find_occurrences(batch, keys, clock, key)
        bucket = self.match_buckets(ended, key[ended.end - batch.base])
        bound = clocks.subtract(self._log.read(_CLOCK, ended.start), self._size)
        if self.pairs is not None:
            barred = self._check_pairs(self.pairs, ended, bound, bucket)
        else:
            barred = self.seen.find_barred(ended.start, bound, bucket)
        return take(ended, np.flatnonzero(~barred)) if barred.any() else ended

    def _find_occurrences(
        self, batch: EventBatch, keys: Numbers | None, clock: Numbers, key: Numbers
    ) -> None:
        """Let the guard read the batch, and add its occurrences."""
        window: Clock | None = None
        if not self.counts_events:
            window = clocks.read_time_clock(batch, self._size)
        segments = self.guard.take(batch, keys, window)
        if self.guard.lists:
            block = self.guard.list_all(segments)
            bucket = self.occurrence_buckets(block, key[block.end - batch.base])
            self.seen.add(block.end, self._log.read(_CLOCK, block.start), bucket)
            if self.pairs is not None:
                self.listed = join((self.listed, block), len(self.guard.plan.variables))
        elif self.ranks is not None:
            found = self.guard.find_spans(segments)
            ranks = clock[found.end - batch.base] - found.start
            self.seen.add(found.end, ranks, found.key)
        else:
            self.seen.add(*self.guard.find_ends(segments))

    def _check_pairs(
        self, pairs: PairCheck, ended: MatchBlock, bounds: Numbers, buckets: Numbers
    ) -> NDArray[np.bool_]:
        """Whether an occurrence precedes each match and meets it; so it is beyond the budget."""
        names, barred = self.guard.plan.variables, np.zeros(len(ended.end), np.bool_)
        for i, near in self.seen.find_near(ended.start, bounds, buckets):
            for other in near.tolist():
                one = ListedOne(ended, self.variables, i)
                if pairs.holds(one, ListedOne(self.listed, names, other)):
                    barred[i] = True
                    break
                if pairs.budget.spent:
                    barred[i:] = True
                    return barred
        return barred

    # ----------------------------------------------------------- forgetting

    def earliest(self, position: int) -> int:
        """Return the first position that an occurrence needs the event of."""
        if self.pairs is not None:
            self._drop_passed(position)
            position = min(position, int(self.listed.start.min(initial=position)))
        return self.guard.earliest(position)

    def forget_before(self, position: int) -> None:
        """Drop what no match to come can start after; none starts before this position."""
        if self.pairs is None:
            self._drop_passed(position)
        self._log.forget_before(position)
        super().forget_before(position)
        if self.codes is not None:
            kept = self.codes.forget_values(list_distinct(self.seen.used.bucket))
            if kept is not None:
                self._rename(kept)

    def _drop_passed(self, position: int) -> None:
        """Drop the occurrences that start too early for any match from this position on."""
        used = self.seen.used
        if not len(used.end):
            return
        start = used.start if self.pairs is not None else used.latest
        kept = start >= self._find_horizon(position, self.find_partitions(used.bucket))
        if self.pairs is None:
            kept &= (used.end >= position) | self.seen.find_last_before(position)
            self.seen.keep_only(kept)
            return
        self.seen.keep_only(kept, exact=True)
        self.listed = take(self.listed, np.flatnonzero(kept))

    def _find_horizon(self, position: int, buckets: Numbers) -> Numbers:
        """Return the earliest start that matters to matches which start from a position on."""
        if self.ranks is None:
            first = self._log.read_from(_CLOCK, position)
            return np.full(len(buckets), int(clocks.subtract(first, self._size)[0]), np.int64)
        recent = self._log.list_from(_KEY, position)
        counts = self.ranks.counts
        begun = counts - np.bincount(recent[recent >= 0], minlength=len(counts))[: len(counts)]
        return np.where(buckets < 0, 0, clocks.subtract(begun, self._size)[buckets])

    def _rename(self, kept: Numbers) -> None:
        buckets = renumber(self.seen.used.bucket, kept)
        self.seen.keep_only(np.ones(len(buckets), np.bool_), buckets, exact=True)

    def live_keys(self) -> Numbers:
        """Return the partitions with occurrences, ascending."""
        return list_distinct(self.guard.live_keys(), self.find_partitions(self.seen.used.bucket))

    def keep_keys(self, keys: Numbers) -> None:
        super().keep_keys(keys)
        self._log.renumber(_KEY, keys)
        if self.codes is None:
            self._rename(keys)

    # --------------------------------------------------------------- frozen

    def freeze(self) -> Tree:
        """Return the state."""
        listed = None if self.pairs is None else freeze_block(self.listed)
        own = FrozenPreceding(self._size, self.seen.freeze(), self._log.freeze(), listed)
        return {**self.freeze_guard(), **write(own)}

    def thaw(self, tree: Tree, position: int, keys: int) -> None:
        """Restore what `freeze` returned; there are so many events before, and partitions."""
        self.thaw_guard(tree, position, keys)
        frozen = read(FrozenPreceding, tree)
        self._size = frozen.size
        self._log.thaw(frozen.log, position, {_KEY: keys if self.partitioned else 1})
        self.seen.thaw(frozen.seen, position, self.count_buckets(keys))
        if self.pairs is not None:
            width = len(self.guard.plan.variables)
            self.listed = thaw_block(frozen.listed or {}, width, 0, position)
            require(np.array_equal(self.listed.end, self.seen.used.end), "an occurrence is missing")
