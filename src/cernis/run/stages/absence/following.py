"""`WITHOUT ψ FOR d`: matches wait until their deadline, unless an occurrence of ψ removes them.

Matches that end in a batch wait (`stages.waiting`), each with a deadline (`engine.deadlines`). The
guard reads the same batch. An occurrence that starts at s removes the matches of its bucket that
ended before s. Residual conditions are checked on each pair. A match that is still there when time
has passed its deadline is certain.

Time passes with the events of the whole input, of any partition, or with `advance`. A deadline that
counts events counts the events of its partition.

Cost contract: the guard's plan per event, and amortized O(1) for each match and each occurrence;
nothing is scanned. With residual conditions, each occurrence looks at the waiting matches of its
bucket, within the budget. State: the waiting matches, and the events that they reach back to.
"""

from __future__ import annotations

from collections.abc import Callable
from math import floor
from typing import NamedTuple

import numpy as np

from cernis.encoding.clock import Clock
from cernis.engine.deadlines import (
    NO_OCCURRENCES,
    Arrivals,
    Certain,
    Deadlines,
    FrozenDeadlines,
    Occurrences,
)
from cernis.engine.renumber import list_distinct, renumber
from cernis.engine.settings import MOST_EVENTS, NEVER, add_ticks
from cernis.events.batch import EventBatch
from cernis.events.order import Scale
from cernis.results.sets.matchset import MatchBlock
from cernis.run.stages.absence.guard import GuardSide
from cernis.run.stages.absence.links import ListedOne, PairCheck
from cernis.run.stages.stage import Numbers
from cernis.run.stages.waiting import Held, WaitingMatches, ends_of
from cernis.state import Tree, frozen_record, is_inside, part, read, require, write

_SHRINK = 1 << 16


class CertainMatches(NamedTuple):
    """Matches whose deadline has passed, in the order of ends."""

    held: list[Held]
    keys: Numbers
    """The partition of each of them, or of each root."""
    ends: Numbers
    """Their ends, in the order in which they became certain."""
    positions: Numbers
    """For each of `ends`, the position of the event at the deadline, where it counts events."""


@frozen_record
class FrozenFollowing:
    """The matches that wait, and their deadlines."""

    waiting: Tree = part()
    held: Tree = part()


class Following(GuardSide):
    """The matches of one stream that wait."""

    clause = "WITHOUT … FOR"

    def _begin(self) -> None:
        self.deadlines = Deadlines()
        self.waiting = WaitingMatches(len(self.variables))
        self._shrink_at = _SHRINK

    # ------------------------------------------------------------- reading

    def take(
        self,
        batch: EventBatch,
        keys: Numbers | None,
        scale: Scale,
        ended: list[Held],
        reach: int,
    ) -> CertainMatches:
        """Read a batch, in which these matches end; return those that are certain now.

        `reach` is the first position that they reach back to.
        """
        if not len(batch):
            return self._release(self.deadlines.pass_time(*_NO_TIME))
        size = self.read_size(scale)
        clock = self.read_clock(batch, keys)
        self.note(batch, keys)
        block, occurrences = self._find_occurrences(batch, keys, clock)
        parts = [self._hold(held, batch, keys, clock, size, reach) for held in ended]
        arrivals = Arrivals(*np.concatenate([np.empty((5, 0), np.int64), *parts], axis=1))
        if self.pairs is None:
            self.deadlines.meet(arrivals, occurrences)
        else:
            self.deadlines.meet(arrivals, NO_OCCURRENCES)
            self._check_pairs(self.pairs, block, occurrences)
        if self.ranks is not None:
            assert keys is not None
            certain = self.deadlines.pass_time(keys, clock, batch.base)
        else:
            certain = self.deadlines.pass_time(_ONE_LINE, clock[-1:])
        return self._release(certain)

    def advance(self, time: int) -> CertainMatches:
        """Return the matches that are certain now that no event before this time comes.

        The time counts ticks of the stream's own times.
        """
        if self.counts_events:
            return self._release(self.deadlines.pass_time(*_NO_TIME))
        return self._release(self.deadlines.pass_time(_ONE_LINE, np.array([time], np.int64)))

    @property
    def next_deadline(self) -> int | None:
        """The next time, in ticks, that makes matches certain when it has passed."""
        return None if self.counts_events else self.deadlines.first_deadline()

    def first_due(self) -> int | None:
        """Return the first event at the deadline of a match that waits; None: none has come."""
        if not self.counts_events:
            return None
        if self.ranks is not None:
            return self.deadlines.first_position()
        deadline = self.deadlines.first_deadline()
        return deadline if deadline is not None and deadline < self._position else None

    def finish(self) -> CertainMatches:
        """Return all matches that wait: the input is complete."""
        found = self._release(self.deadlines.take_all())
        return found._replace(
            positions=np.where(found.positions < self._position, found.positions, -1)
        )

    def list_waiting(self) -> list[Held]:
        """Return the matches that wait, which stay."""
        return self.waiting.select(np.sort(self.deadlines.payloads()))

    @property
    def _position(self) -> int:
        return self.guard.run.feed.engine.position

    def _find_occurrences(
        self, batch: EventBatch, keys: Numbers | None, clock: Numbers
    ) -> tuple[MatchBlock, Occurrences]:
        """Let the guard read the batch; return its occurrences with their buckets.

        The block has the occurrences, if they are listed. Only what starts after an end that
        waits, or that comes in the batch, can matter.
        """
        oldest = self.deadlines.first_end()
        bound = batch.base if oldest is None else oldest
        positions = np.arange(batch.base, batch.base + len(batch), dtype=np.int64)
        window = Clock(positions, np.full(len(batch), bound + 1, np.int64))
        segments = self.guard.take(batch, keys, window)
        if not self.guard.lists:
            found = self.guard.find_ends(segments)
            clocks = clock[found.end - batch.base]
            return NO_BLOCK, Occurrences(found.end, found.start, found.key, clocks)
        block = self.guard.list_all(segments)
        at = block.end - batch.base
        bucket = self.occurrence_buckets(block, _read_partitions(keys, at))
        return block, Occurrences(block.end, block.start, bucket, clock[at])

    def _check_pairs(self, pairs: PairCheck, block: MatchBlock, occurrences: Occurrences) -> None:
        """Remove what waits and meets an occurrence; all that waits once the budget is spent."""
        names = self.guard.plan.variables
        for i, met in self.deadlines.find_met(occurrences):
            removed = []
            for number in met.tolist():
                held, at = self.waiting.find(number)
                if pairs.holds(ListedOne(held, self.variables, at), ListedOne(block, names, i)):
                    removed.append(number)
                if pairs.budget.spent:  # what is not checked is not certain
                    self.drop_all()
                    return
            self.deadlines.remove(np.array(removed, np.int64))

    def _hold(
        self,
        held: Held,
        batch: EventBatch,
        keys: Numbers | None,
        clock: Numbers,
        size: int,
        reach: int,
    ) -> Numbers:
        """Hold matches; return end, deadline, bucket, line and number of each as rows."""
        ends = ends_of(held)
        at = ends - batch.base
        partition = _read_partitions(keys, at)
        line = np.zeros(len(at), np.int64) if self.ranks is None else partition
        bucket = partition
        if isinstance(held, MatchBlock):
            bucket = self.match_buckets(held, partition)
        read = clock[at]
        deadline = add_ticks(read, size)
        return np.stack([ends, deadline, bucket, line, self.waiting.add(held, partition, reach)])

    def _release(self, certain: Certain) -> CertainMatches:
        positions = certain.position
        if self.counts_events and self.ranks is None and len(positions):
            positions = certain.end + min(floor(self.within.size), MOST_EVENTS)
        numbers = np.sort(certain.payload)
        keys = self.waiting.read_keys(numbers)
        found = CertainMatches(self.waiting.select(numbers), keys, certain.end, positions)
        if len(self.waiting) > self._shrink_at:
            self.shrink()
            self._shrink_at = 2 * len(self.waiting) + _SHRINK
        return found

    def live_starts(self, keys: Numbers) -> Numbers:
        """Return where the earliest match that waits starts, in each of these partitions."""
        starts = np.full(len(keys), NEVER)
        numbers = self.deadlines.payloads()
        at = renumber(self.waiting.read_keys(numbers), keys)
        np.minimum.at(starts, at[at >= 0], self.waiting.read_starts(numbers)[at >= 0])
        return starts

    def drop_all(self) -> None:
        """Drop the matches that wait."""
        self.deadlines.remove(self.deadlines.payloads())

    # ----------------------------------------------------------- forgetting

    def shrink(self) -> None:
        """Drop the matches that wait no more."""
        self.deadlines.rename(payloads=self.waiting.keep_only(self.deadlines.payloads()))

    def earliest(self, position: int) -> int:
        """Return the first position that a match or an occurrence to come reaches back to."""
        self.shrink()
        return self.guard.earliest(self.waiting.earliest(position))

    def forget_before(self, position: int) -> None:
        super().forget_before(position)
        if self.codes is not None:
            kept = self.codes.forget_values(self.deadlines.buckets())
            if kept is not None:
                self.deadlines.rename(buckets=kept)

    def live_keys(self) -> Numbers:
        """Return the partitions in which something waits, ascending."""
        of_guard = self.guard.live_keys()
        if self.ranks is not None:
            return list_distinct(of_guard, self.deadlines.lines())
        return list_distinct(of_guard, self.find_partitions(self.deadlines.buckets()))

    def keep_keys(self, keys: Numbers) -> None:
        super().keep_keys(keys)
        self.waiting.keep_keys(keys)
        self.deadlines.rename(
            buckets=keys if self.codes is None else None,
            lines=keys if self.ranks is not None else None,
        )

    # --------------------------------------------------------------- frozen

    def freeze(self, list_held: Callable[[Held], MatchBlock]) -> Tree:
        """Return the state; `list_held` lists the matches of a compact set.

        From now on each of these matches waits for itself.
        """
        self.shrink()
        counts = self.waiting.list_all(list_held)
        self.deadlines.repeat(counts, np.arange(len(self.waiting)))
        own = FrozenFollowing(self.deadlines.freeze(), self.waiting.freeze())
        return {**self.freeze_guard(), **write(own)}

    def thaw(self, tree: Tree, position: int, keys: int) -> None:
        """Restore what `freeze` returned; there are so many events before, and partitions."""
        self.thaw_guard(tree, position, keys)
        frozen = read(FrozenFollowing, tree)
        self.waiting.thaw(frozen.held, 0, position)
        most = keys if self.partitioned else 1
        sizes = {"buckets": self.count_buckets(keys), "lines": 1 if self.ranks is None else most}
        entries = read(FrozenDeadlines, frozen.waiting, position=position, **sizes)
        held = self.waiting.intervals
        require(
            np.array_equal(entries.end, held.ends) and is_inside(held.keys, -1, max(1, most)),
            "the matches that wait are not those that have a deadline",
        )
        self.deadlines.thaw(entries)


def _read_partitions(keys: Numbers | None, at: Numbers) -> Numbers:
    """Return the partitions of some events of a batch; 0 where there is only one."""
    return np.zeros(len(at), np.int64) if keys is None else keys[at]


_ONE_LINE = np.zeros(1, np.int64)
NO_BLOCK = MatchBlock(np.empty(0, np.int64), np.empty(0, np.int64), (), ())
_NO_TIME = np.empty(0, np.int64), np.empty(0, np.int64)
