"""A session whose engine is watched: how long it reads, and what it finds."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa

from cernis.engine.correlated import records
from cernis.engine.correlated.runtime import CorrelatedEngine
from cernis.engine.correlated.walk import Snapshot
from cernis.results.correlated import CorrelatedMatches
from cernis.run.feed import CorrelatedFeed
from cernis.run.query import Query


class WatchedEngine(CorrelatedEngine):
    """The same engine with a stopwatch; where `keeps`, with all that it has found."""

    seconds = 0.0
    keeps = False
    snapshots: tuple[Snapshot, ...] = ()

    def push(self, *arrays: Any, **clock: Any) -> list[Snapshot]:
        begin = time.perf_counter()
        found = super().push(*arrays, **clock)
        self.seconds += time.perf_counter() - begin
        if self.keeps:
            self.snapshots += tuple(found)
        return found


class Watched:
    """A query on a stream: the seconds of each push, in all and in the engine alone.

    >>> q = Query("SELECT * FROM S WHERE (A AS x ; B AS y) FILTER x[k] = y[k] WITHIN 9 EVENTS")
    >>> watched = Watched(q, keeps=True)
    >>> whole, engine = watched.push(pa.table({"type": ["A", "B"], "k": [1, 1]}))
    >>> whole > engine > 0, watched.waiting(), watched.found().count()
    (True, 1, 1)
    """

    def __init__(self, query: Query, *, keeps: bool = False) -> None:
        plan = query.plan
        self.session = query.session()
        feed = self.session.feed
        if plan.listed or not isinstance(feed, CorrelatedFeed):
            raise ValueError(f"{query} has no index to watch")
        self.variables, self.network = plan.variables, feed.network
        self.engine = feed.engine = WatchedEngine(feed.network, plan.settings)
        self.engine.keeps = keeps

    def push(self, events: pa.Table) -> tuple[float, float]:
        """(seconds of the session, seconds of the engine alone) for these events."""
        before = self.engine.seconds
        begin = time.perf_counter()
        self.session.push(events)
        return time.perf_counter() - begin, self.engine.seconds - before

    def waiting(self) -> int:
        """The vertices in the window that runs can go on from, each the end of one or more."""
        self.engine.collect()
        return int(self.engine.memory.counters[records.VERTICES]) - 1

    def found(self) -> CorrelatedMatches:
        """The matches so far, where they are kept."""
        return CorrelatedMatches(self.variables, self.engine.snapshots, self.network.labels)
