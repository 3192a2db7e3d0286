"""`GuardSide`: one WITHOUT at work, as far as FOR and BEFORE agree.

A side runs the guard beside the match, reads the clock that its time is measured with, and sorts
matches and occurrences into *buckets*: an occurrence can only meet the matches of its own bucket. A
bucket is a partition, or a tuple of linked values in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import floor
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cernis.encoding.encode import Encode
from cernis.encoding.keys import select_arrays
from cernis.encoding.ranks import PartitionRanks
from cernis.events.batch import EventBatch
from cernis.events.order import Scale
from cernis.events.store import EventStore
from cernis.pattern.query import Absence, Unit
from cernis.plan.absence import link_guard
from cernis.plan.plan import Plan
from cernis.results.matchset import MatchBlock
from cernis.run.absence.guard import GuardRun
from cernis.run.absence.links import LinkCodes
from cernis.run.absence.pairs import PairCheck
from cernis.run.budget import Budget
from cernis.state import MOST_EVENTS, check_mapping, read_array, require

Numbers = NDArray[np.int64]
Arrays = dict[str, NDArray[Any]]

LARGEST_SIZE = 2**64
"""More than two readings of a clock can differ by."""


class GuardSide:
    """The guard of one WITHOUT, its links to matches, and its clock."""

    clause: ClassVar[str]
    """As a message calls it."""

    def __init__(
        self,
        plan: Plan,
        absence: Absence,
        variables: tuple[str, ...],
        store: EventStore,
        budget: Budget,
        encode: Encode,
    ) -> None:
        """`variables` are the variables of the matches."""
        guard = plan.before if absence.before else plan.after
        assert guard is not None
        self.within = absence.within
        self.counts_events = absence.within.unit is Unit.EVENTS
        self.partitioned = plan.settings.partitioned
        self.variables = variables
        links = link_guard(plan.pattern, absence)
        self.guard = GuardRun(guard, store, budget, encode, lists=not links.is_free)
        self.codes = LinkCodes(links, partitioned=self.partitioned) if links.equal else None
        self.pairs = PairCheck(links, store, budget, encode) if links.residual else None
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
        self.note_pairs(batch)

    def note_pairs(self, batch: EventBatch) -> None:
        """Read the values of a batch that residual conditions compare."""
        if self.pairs is not None:
            self.pairs.events.note(batch)

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

    def drop_keys(self, keys: Numbers) -> None:
        """Drop what the guard has in all partitions but these, in which no event comes."""
        self.guard.drop_keys(keys)

    def keep_keys(self, keys: Numbers) -> None:
        """Renumber partitions: keys[i] becomes i; in the others no event comes."""
        self.guard.keep_keys(keys)
        if self.codes is not None:
            self.codes.keep_keys(keys)
        if self.ranks is not None:
            self.ranks.keep_only(keys)

    # --------------------------------------------------------------- frozen

    def freeze_guard(self) -> tuple[dict[str, Any], Arrays]:
        """Return the state of the guard, of its links and of the clock."""
        frozen: Arrays = {}
        if self.codes is not None:
            frozen |= {f"codes.{name}": array for name, array in self.codes.freeze().items()}
        if self.ranks is not None:
            frozen["ranks"] = self.ranks.counts
        return {"guard": self.guard.freeze()}, frozen

    def thaw_guard(
        self, meta: object, arrays: Mapping[str, NDArray[Any]], position: int, keys: int
    ) -> dict[str, Any]:
        """Restore what `freeze_guard` returned; return the mapping that it stands in.

        There are so many events before, and so many partitions.
        """
        written = check_mapping(meta, f"the state of {self.clause}")
        self.guard.thaw(written.get("guard"))
        require(self.guard.feed.engine.position == position, "a guard has read other events")
        if self.codes is not None:
            self.codes.thaw(select_arrays("codes.", arrays), position)
        if self.ranks is not None:
            counts = read_array(dict(arrays), "ranks", np.int64, low=0, below=MOST_EVENTS)
            require(len(counts) >= keys, "a partition has no number of events")
            self.ranks.counts = counts.copy()
        return written

    def count_buckets(self, keys: int) -> int:
        """Return the number of buckets, with so many partitions."""
        if self.codes is not None:
            return self.codes.size
        return keys if self.partitioned else 1
