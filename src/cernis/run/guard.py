"""`GuardRun`: the occurrences of a guard, batch by batch, and what links them to matches.

The guard is a query of its own (`plan.absence`). Where nothing links it to a match, only the latest
start of its occurrences matters, and is read off the roots. Where values are compared, occurrences
are listed, and `LinkCodes` gives the codes of the values on both sides.

Cost contract: that of the guard's plan per event; linear in the occurrences where they are listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.encoding.clock import Clock
from cernis.encoding.compare import Equality
from cernis.encoding.encode import Encode
from cernis.encoding.keys import select_arrays
from cernis.engine.dag.links import DagSegment
from cernis.engine.deadlines import renumber
from cernis.engine.settings import EVENT_WINDOW
from cernis.events.batch import EventBatch
from cernis.events.store import EventStore
from cernis.plan.absence import GuardLinks
from cernis.plan.plan import Plan
from cernis.results.matchset import MatchBlock, join
from cernis.run.budget import Budget
from cernis.run.event_log import EventLog
from cernis.run.feed import make_feed
from cernis.run.sieve import Sieve
from cernis.state import check_mapping

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
        self.feed = make_feed(plan, encode)
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

    @property
    def counts_events(self) -> bool:
        return self.plan.settings.window == EVENT_WINDOW

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

    def freeze(self) -> tuple[dict[str, Any], Arrays]:
        engine, arrays = self.feed.freeze()
        meta = {"engine": engine}
        if self.sieve:
            meta["sieve"] = self.sieve.freeze()
        return meta, arrays

    def thaw(self, meta: object, arrays: Arrays) -> None:
        written = check_mapping(meta, "a guard")
        self.feed.thaw(check_mapping(written.get("engine"), "a guard's engine"), arrays)
        if self.sieve:
            self.sieve.thaw(written.get("sieve"))


def _latest_starts(segment: Any) -> Numbers:
    if isinstance(segment, DagSegment):
        return np.asarray(segment.memory.vertices["start"][segment.roots["vertex"]], np.int64)
    return np.asarray(segment.arena["start"][segment.roots["node"]], np.int64)


class LinkCodes:
    """Codes of the values that link a guard to a match: equal where all values are.

    Partitions have codes of their own.
    """

    def __init__(self, links: GuardLinks, *, partitioned: bool) -> None:
        inside = tuple(pair.inside.attribute.name for pair in links.equal)
        outside = tuple(pair.outside.attribute.name for pair in links.equal)
        self.inside, self.outside = links.equal[0].events
        columns = [*dict.fromkeys([inside, outside])]
        self._rows = columns.index(inside), columns.index(outside)
        self._equality = Equality([columns], partitioned)
        self._log = EventLog(len(columns))

    def note(self, batch: EventBatch, keys: Numbers | None) -> None:
        """Read the codes of a batch."""
        self._log.append(batch.base, self._equality.encode(batch, keys))

    def read_inside(self, positions: Numbers) -> Numbers:
        """Return the codes of events of the guard."""
        return self._log.read(self._rows[0], positions)

    def read_outside(self, positions: Numbers) -> Numbers:
        """Return the codes of events of a match."""
        return self._log.read(self._rows[1], positions)

    def forget_before(self, position: int) -> None:
        self._log.forget_before(position)

    def keep_only(self, live: Numbers) -> Numbers:
        """Drop values that neither these codes nor recent events have; return the codes kept.

        The codes kept ascend; the first becomes 0, and so on.
        """
        is_kept = np.zeros(self.size + 1, np.bool_)
        is_kept[live] = True
        for row in range(self._log.rows):
            self._log.mark(row, is_kept)
        is_kept[-1] = False  # where values are missing
        kept = np.flatnonzero(is_kept)
        self._equality.keep_only(0, kept)
        for row in range(self._log.rows):
            self._log.change(row, lambda codes: renumber(codes, kept))
        return kept

    @property
    def size(self) -> int:
        """How many values have a code."""
        return self._equality.sizes()[0]

    def keep_keys(self, keys: Numbers) -> None:
        self._equality.keep_partitions(keys)

    def freeze(self) -> Arrays:
        arrays = {f"equality.{name}": array for name, array in self._equality.freeze().items()}
        return arrays | {f"log.{name}": array for name, array in self._log.freeze().items()}

    def thaw(self, arrays: Mapping[str, NDArray[Any]], position: int) -> None:
        self._equality.thaw(select_arrays("equality.", arrays))
        codes = dict.fromkeys(range(self._log.rows), self.size)
        self._log.thaw(select_arrays("log.", arrays), position, codes)
