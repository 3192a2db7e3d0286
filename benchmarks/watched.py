"""A session with a stopwatch in its engine: how long it reads, and what it finds."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import pyarrow as pa

from cernis.engine.correlated.runtime import CorrelatedEngine
from cernis.engine.correlated.tables import CorrelatedTables
from cernis.engine.dag import records
from cernis.engine.dag.links import DagSegment
from cernis.engine.settings import Settings
from cernis.results.sets.correlated import CorrelatedMatches
from cernis.run.feed import CorrelatedFeed
from cernis.run.query import Query


class WatchedEngine(CorrelatedEngine):
    """An engine with a stopwatch; with `keeps`, it keeps all its matches."""

    def __init__(
        self, tables: CorrelatedTables, settings: Settings, *, keeps: bool = False
    ) -> None:
        super().__init__(tables, settings)
        self.seconds = 0.0
        self.collections: list[float] = []
        """The seconds of each collection during a push."""
        self._pushing = False
        self.keeps = keeps
        self.segments: list[DagSegment] = []

    def push(self, *arrays: Any, **clock: Any) -> list[DagSegment]:
        self._pushing = True
        begin = time.perf_counter()
        found = super().push(*arrays, **clock)
        self.seconds += time.perf_counter() - begin
        self._pushing = False
        if self.keeps:
            self.segments += found
        return found

    def collect(self) -> None:
        begin = time.perf_counter()
        super().collect()
        if self._pushing:
            self.collections.append(time.perf_counter() - begin)


class Turn(NamedTuple):
    """The seconds that a batch took."""

    session: float
    """The whole batch without the engine."""
    reading: float
    """The engine without collecting."""


class Watched:
    """A query on a stream, and the time of each part of a push.

    >>> q = Query("SELECT * FROM S WHERE (A AS x ; B AS y) FILTER x[k] = y[k] WITHIN 9 EVENTS")
    >>> watched = Watched(q, keeps=True)
    >>> turn = watched.push(pa.table({"type": ["A", "B"], "k": [1, 1]}))
    >>> turn.session > 0 < turn.reading, watched.waiting(), watched.found().count()
    (True, 1, 1)
    """

    def __init__(self, query: Query, *, keeps: bool = False) -> None:
        plan = query.plan
        self.session = query.session()
        feed = self.session.pipeline.feed
        if plan.listed or not isinstance(feed, CorrelatedFeed):
            raise ValueError(f"{query} has no index to watch")
        self.variables, self.tables = plan.variables, feed.tables
        self.engine = feed.engine = WatchedEngine(feed.tables, plan.settings, keeps=keeps)

    def push(self, events: pa.Table) -> Turn:
        """Read a batch and return its times; only a `keeps` engine keeps its matches."""
        engine, done = self.engine.seconds, len(self.engine.collections)
        begin = time.perf_counter()
        self.session.push(events)
        whole, engine = time.perf_counter() - begin, self.engine.seconds - engine
        return Turn(whole - engine, engine - sum(self.engine.collections[done:]))

    def reading(self, events: pa.Table) -> float:
        """Read a batch and return the seconds of the engine, collecting included."""
        before = self.engine.seconds
        self.push(events)
        return self.engine.seconds - before

    def waiting(self) -> int:
        """Return the number of vertices in the window, each the end of one or more runs."""
        self.engine.collect()
        return int(self.engine.memory.counters[records.VERTICES]) - 1

    def found(self) -> CorrelatedMatches:
        """Return the matches so far, where the engine keeps them."""
        return CorrelatedMatches(self.variables, self.engine.segments, self.tables.labels)
