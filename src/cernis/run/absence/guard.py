"""`GuardRun`: the occurrences of a guard, batch by batch.

The guard is a query of its own (`plan.absence`). Where nothing links it to a match, only the latest
start of its occurrences matters, and is read off the roots. Where values are compared, occurrences
are listed.

Cost contract: an event costs what the guard's plan costs. Listing is linear in the occurrences.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.encoding.clock import Clock
from cernis.encoding.encode import Encode
from cernis.engine.dag.links import DagSegment
from cernis.events.batch import EventBatch
from cernis.events.store import EventStore
from cernis.plan.plan import Plan
from cernis.results.matchset import MatchBlock, join
from cernis.run.budget import Budget
from cernis.run.feed import make_feed
from cernis.run.sieve import Sieve
from cernis.state import Tree, check_mapping

Numbers = NDArray[np.int64]
Arrays = dict[str, NDArray[Any]]


class FoundEnds(NamedTuple):
    """The ends of occurrences, each with its latest start and its partition."""

    end: Numbers
    start: Numbers
    """As the window measures it: a position, a time, or a rank in the partition."""
    key: Numbers


class GuardRun:
    """The guard's plan at work."""

    def __init__(
        self, plan: Plan, store: EventStore, budget: Budget, encode: Encode, *, lists: bool
    ) -> None:
        """`lists`: occurrences are wanted one by one, with the guard's variables."""
        self.plan = plan
        self.budget = budget
        self.feed = make_feed(plan, encode, store.time_unit)
        self.sieve = Sieve(plan, store, budget, encode) if plan.listed else None
        apart = plan.tables is not None and bool(plan.tables.apart)
        self.lists = lists or plan.listed or apart

    def take(self, batch: EventBatch, keys: Numbers | None, clock: Clock | None) -> list[Any]:
        """Read a batch; return the compact sets of the occurrences that end in it."""
        if self.sieve:
            self.sieve.note(batch, keys)
        return self.feed.take(batch, keys, clock)

    def list_all(self, segments: list[Any]) -> MatchBlock:
        """Return the occurrences one by one, in the order of ends."""
        plan = self.plan
        if self.sieve:
            candidates = self.feed.find(plan.candidate_variables, segments, None, self.budget)
            return self.sieve.matches(candidates).block
        found = self.feed.find(plan.variables, segments, None, self.budget)
        return join(tuple(found.blocks()), len(plan.variables))

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
        earliest = self.feed.engine.earliest()
        return min(position, earliest) if self.lists else position

    def forget_before(self, position: int) -> None:
        if self.sieve:
            self.sieve.forget_before(position)
        self.feed.forget()

    def live_keys(self) -> Numbers:
        return self.feed.engine.live_keys()

    def drop_keys(self, keys: Numbers) -> None:
        self.feed.engine.drop_keys(keys)

    def keep_keys(self, keys: Numbers) -> None:
        """Renumber partitions: keys[i] becomes i."""
        self.feed.keep_keys(keys)
        if self.sieve:
            self.sieve.keep_keys(keys)

    def freeze(self) -> Tree:
        tree: Tree = {"engine": self.feed.freeze()}
        if self.sieve:
            tree["sieve"] = self.sieve.freeze()
        return tree

    def thaw(self, meta: object) -> None:
        written = check_mapping(meta, "a guard")
        self.feed.thaw(check_mapping(written.get("engine"), "a guard's engine"))
        if self.sieve:
            self.sieve.thaw(written.get("sieve"))


def _latest_starts(segment: Any) -> Numbers:
    if isinstance(segment, DagSegment):
        return np.asarray(segment.memory.vertices["start"][segment.roots["vertex"]], np.int64)
    return np.asarray(segment.arena["start"][segment.roots["node"]], np.int64)
