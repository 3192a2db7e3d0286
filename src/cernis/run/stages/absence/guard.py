"""A guard of WITHOUT: its occurrences (`GuardRun`), and its side of the clause (`GuardSide`).

The guard is a query of its own (`plan.absence`). Where nothing links it to a match, only the latest
start of its occurrences matters, and is read off the roots. Where values are compared, occurrences
are listed.

A side runs the guard beside the match, reads the clock that its time is measured with, and sorts
matches and occurrences into *buckets*: an occurrence can only meet the matches of its own bucket. A
bucket is a partition, or a tuple of linked values in it. `following` and `preceding` have the two
kinds of sides.

Cost contract: an event costs what the guard's plan costs. Listing is linear in the occurrences.
"""

from __future__ import annotations

from dataclasses import replace
from math import floor
from typing import Any, ClassVar, NamedTuple

import numpy as np

from cernis.encoding.clock import Clock
from cernis.encoding.ranks import PartitionRanks
from cernis.engine.dag.links import DagSegment
from cernis.events.batch import EventBatch
from cernis.events.order import Scale
from cernis.pattern.query import Absence, Unit
from cernis.plan.absence import link_guard
from cernis.plan.plan import Plan
from cernis.results.sets.matchset import MatchBlock, join
from cernis.run.feed import make_feed
from cernis.run.stages.absence.links import LinkCodes, PairCheck
from cernis.run.stages.sieve import Sieve
from cernis.run.stages.stage import Numbers, Run
from cernis.state import (
    MOST_EVENTS,
    Tree,
    array,
    frozen_record,
    nested,
    optional,
    part,
    read,
    require,
    write,
)

LARGEST_SIZE = 2**64
"""More than two readings of a clock can differ by."""


class FoundEnds(NamedTuple):
    """The ends of occurrences, each with its latest start and its partition."""

    end: Numbers
    start: Numbers
    """As the window measures it: a position, a time, or a rank in the partition."""
    key: Numbers


@frozen_record
class FrozenGuard:
    """The engine of a guard, and its candidates."""

    engine: Tree = part()
    sieve: Tree | None = optional(part())


@frozen_record
class FrozenSide:
    """A guard, the values that link it to matches, and the number of events of each partition."""

    guard: FrozenGuard = nested(FrozenGuard)
    codes: Tree | None = optional(part())
    ranks: Numbers | None = optional(array(np.int64, "ranked", low=0, below=MOST_EVENTS))


class GuardRun:
    """The guard's plan at work."""

    def __init__(self, run: Run, plan: Plan, *, lists: bool) -> None:
        """`lists`: occurrences are wanted one by one, with the guard's variables."""
        self.plan = plan
        feed = make_feed(plan, run.encode, run.store.time_unit)
        self.run = replace(run, plan=plan, feed=feed)
        self.sieve = Sieve(self.run) if plan.listed else None
        apart = plan.tables is not None and bool(plan.tables.apart)
        self.lists = lists or plan.listed or apart

    def take(self, batch: EventBatch, keys: Numbers | None, clock: Clock | None) -> list[Any]:
        """Read a batch; return the compact sets of the occurrences that end in it."""
        if self.sieve:
            self.sieve.read(batch, keys)
        return self.run.feed.take(batch, keys, clock)

    def list_all(self, segments: list[Any]) -> MatchBlock:
        """Return the occurrences one by one, in the order of ends."""
        if self.sieve:
            return self.sieve.open(segments).block
        names = self.plan.variables
        found = self.run.feed.find(names, segments, None, self.run.budget)
        return join(tuple(found.blocks()), len(names))

    def find_ends(self, segments: list[Any]) -> FoundEnds:
        """Return the ends of occurrences that are not listed, in order."""
        ends, starts, keys = ([np.empty(0, np.int64)] for _ in range(3))
        for segment in segments:
            roots = segment.roots
            ends.append(roots["end"])
            starts.append(_latest_starts(segment))
            keys.append(roots["key"])
        return FoundEnds(np.concatenate(ends), np.concatenate(starts), np.concatenate(keys))

    def find_spans(self, segments: list[Any]) -> FoundEnds:
        """Like `find_ends`, for a window of events: how many ranks lie between start and end."""
        lengths = [np.empty(0, np.int64)]
        for segment in segments:
            last = segment.roots["bound"] + self.plan.settings.size
            lengths.append(last - _latest_starts(segment))
        return self.find_ends(segments)._replace(start=np.concatenate(lengths))

    def earliest(self, position: int) -> int:
        """Return the first position that an occurrence to come needs the event of."""
        earliest = self.run.feed.engine.earliest()
        return min(position, earliest) if self.lists else position

    def forget_before(self, position: int) -> None:
        if self.sieve:
            self.sieve.forget_before(position)
        self.run.feed.forget()

    def live_keys(self) -> Numbers:
        return self.run.feed.engine.live_keys()

    def drop_keys(self, keys: Numbers) -> None:
        self.run.feed.engine.drop_keys(keys)

    def keep_keys(self, keys: Numbers) -> None:
        """Renumber partitions: keys[i] becomes i."""
        self.run.feed.keep_keys(keys)
        if self.sieve:
            self.sieve.keep_keys(keys)

    def freeze(self) -> FrozenGuard:
        return FrozenGuard(self.run.feed.freeze(), self.sieve.freeze() if self.sieve else None)

    def thaw(self, frozen: FrozenGuard) -> None:
        self.run.feed.thaw(frozen.engine)
        if self.sieve:
            self.sieve.thaw(frozen.sieve or {})


def _latest_starts(segment: Any) -> Numbers:
    if isinstance(segment, DagSegment):
        return np.asarray(segment.memory.vertices["start"][segment.roots["vertex"]], np.int64)
    return np.asarray(segment.arena["start"][segment.roots["node"]], np.int64)


class GuardSide:
    """The guard of one WITHOUT, its links to matches, and its clock."""

    clause: ClassVar[str]
    """As a message calls it."""

    def __init__(self, run: Run, absence: Absence, variables: tuple[str, ...]) -> None:
        """`variables` are the variables of the matches."""
        plan = run.plan
        guard = plan.before if absence.before else plan.after
        assert guard is not None
        self.within = absence.within
        self.counts_events = absence.within.unit is Unit.EVENTS
        self.partitioned = plan.settings.partitioned
        self.variables = variables
        links = link_guard(plan.pattern, absence)
        self.guard = GuardRun(run, guard, lists=not links.is_free)
        self.codes = LinkCodes(links, partitioned=self.partitioned) if links.equal else None
        self.pairs = PairCheck(links, run) if links.residual else None
        self.ranks = PartitionRanks() if self.counts_events and self.partitioned else None
        self._begin()

    def _begin(self) -> None:
        """Begin with the state of an empty stream."""
        raise NotImplementedError

    # ------------------------------------------------------------- reading

    def note(self, batch: EventBatch, keys: Numbers | None) -> None:
        """Read the values of a batch that conditions compare."""
        if self.codes is not None:
            self.codes.note(batch, keys)
        if self.pairs is not None:
            self.pairs.events.note(batch)

    def note_stored(self, batch: EventBatch, keys: Numbers | None, since: int) -> None:
        """Read again a batch that was frozen; its events are stored from position `since` on."""
        if self.pairs is not None:
            self.pairs.events.note(batch)
        if self.guard.sieve is not None:
            self.guard.sieve.read(batch, keys, since)

    def read_size(self, scale: Scale) -> int:
        """Return how far the clause reaches, in units of the clock."""
        if self.counts_events:
            return min(floor(self.within.size), MOST_EVENTS)
        return min(scale.ticks(self.within.size, self.clause), LARGEST_SIZE)

    def read_clock(self, batch: EventBatch, keys: Numbers | None) -> Numbers:
        """Return the reading of the clock at each event: a time, a position, or a rank."""
        if self.ranks is not None:
            assert keys is not None
            return self.ranks.read(keys)
        if self.counts_events:
            return np.arange(batch.base, batch.base + len(batch), dtype=np.int64)
        assert batch.time is not None
        return batch.time

    def match_buckets(self, block: MatchBlock, partitions: Numbers) -> Numbers:
        """Return the buckets of matches in these partitions."""
        if self.codes is None:
            return partitions
        variable = self.variables.index(self.codes.outside)
        return self.codes.read_outside(block.positions[variable])

    def occurrence_buckets(self, block: MatchBlock, partitions: Numbers) -> Numbers:
        """Return the buckets of occurrences in these partitions."""
        if self.codes is None:
            return partitions
        variable = self.guard.plan.variables.index(self.codes.inside)
        return self.codes.read_inside(block.positions[variable])

    # ----------------------------------------------------------- forgetting

    def find_partitions(self, buckets: Numbers) -> Numbers:
        """Return the partitions of what the index has in these buckets; -1: in none."""
        if self.codes is None:
            return buckets
        if not self.partitioned:
            return np.where(buckets < 0, -1, 0)
        return self.codes.find_partitions(buckets)

    def forget_before(self, position: int) -> None:
        """Drop the values of events before a position, which nothing reaches back to."""
        self.guard.forget_before(position)
        if self.pairs is not None:
            self.pairs.events.forget_before(position)
        if self.codes is not None:
            self.codes.forget_before(position)

    def keep_keys(self, keys: Numbers) -> None:
        """Renumber partitions: keys[i] becomes i; in the others no event comes."""
        self.guard.keep_keys(keys)
        if self.codes is not None:
            self.codes.keep_keys(keys)
        if self.ranks is not None:
            self.ranks.keep_only(keys)

    # --------------------------------------------------------------- frozen

    def freeze_guard(self) -> Tree:
        """Return the state of the guard, of its links and of the clock."""
        codes = None if self.codes is None else self.codes.freeze()
        ranks = None if self.ranks is None else self.ranks.counts
        return write(FrozenSide(self.guard.freeze(), codes, ranks))

    def thaw_guard(self, tree: Tree, position: int, keys: int) -> None:
        """Restore what `freeze_guard` returned; there are so many events and partitions before."""
        frozen = read(FrozenSide, tree)
        self.guard.thaw(frozen.guard)
        require(self.guard.run.feed.engine.position == position, "a guard has read other events")
        if self.codes is not None:
            self.codes.thaw(frozen.codes or {}, position)
        if self.ranks is not None:
            counts = np.empty(0, np.int64) if frozen.ranks is None else frozen.ranks
            require(len(counts) >= keys, "a partition has no number of events")
            self.ranks.counts = counts.copy()

    def count_buckets(self, keys: int) -> int:
        """Return the number of buckets, with so many partitions."""
        if self.codes is not None:
            return self.codes.size
        return keys if self.partitioned else 1
