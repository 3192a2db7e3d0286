"""`ChunkReader`: let all rules read a chunk of events, with those that rules derive from it.

Each rule that reads events costs some calls for each chunk, so many rules take larger chunks
(`join_batches`).

Rules read in such an order that each comes after those that insert into its streams (`derived`). A
rule that reads derived streams waits until they are known (`pending`).

Cost contract: per chunk some calls for each rule that runs alone, and each group of rules, if an
event of the chunk can move it, it reads every event, or it heeds the time. Each of them reads its
events at the cost of a session. State: the sessions, and the times
of the last events of the input, as far as derived events may stand there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from cernis.compiled.tiers import expect_events
from cernis.errors import BudgetError
from cernis.events.batch import EventBatch, share_events
from cernis.events.order import Scale
from cernis.run.rules.reading.derived import (
    NOTHING,
    Derivation,
    DerivedEvents,
    InputHistory,
    InputLog,
    RuleBatch,
    derive_events,
    derive_late,
    is_late,
    join_derived,
    list_parts,
    merge_parts,
)
from cernis.run.rules.reading.pending import DerivedBound, find_least
from cernis.run.rules.reading.running import RoutedBatch, RunningRule, RunningRules
from cernis.run.rules.reading.streams import confine

_NO_PATHS = np.empty((0, 1), np.int64)
Found = list[tuple[str, Any]]
"""Matches with the names of their rules."""
Findings = dict[int, list[Any]]
"""What rules and groups find, by their indices; those that have read nothing are left out."""


class ChunkReading(NamedTuple):
    """How rules read a chunk."""

    forget: bool = True
    """Whether to drop events that no match reaches back to."""
    until: int | None = None
    """No event before this time, in nanoseconds, comes after the chunk."""
    last: bool = False
    """Whether no further event comes."""
    stops: bool = False
    """Whether a rule whose budget is spent stops alone."""

    def limit(self, bound: DerivedBound | None, scale: Scale) -> ChunkReading:
        """Return how a rule reads that has read up to a bound."""
        if self.until is None:
            return self
        return self._replace(until=limit_time(self.until, bound, scale))


class _RuleChunk(NamedTuple):
    """A chunk of the input, and what rules have derived from it."""

    batch: EventBatch
    scale: Scale
    first: int
    """The number of its first event, of all events of the input."""
    how: ChunkReading
    derived: dict[str, list[DerivedEvents]]
    bounds: dict[str, DerivedBound | None]
    """Up to where derived streams are known."""
    routed: dict[int, RoutedBatch]


class ChunkReader:
    """Reads the chunks of a stream with all rules."""

    def __init__(self, running: RunningRules, time_unit: str) -> None:
        self._time_unit = time_unit
        self.events = 0
        """How many events of the input were read."""
        self.scale: Scale | None = None
        """The unit of the times of these events."""
        self.schemas: dict[str, pa.Schema] = {}
        """The columns of derived streams."""
        self.input = InputLog()
        """The last events that were read, as far as derived ones may stand there."""
        self.use(running)

    def use(self, running: RunningRules) -> None:
        """Go on with other rules."""
        self.running = running
        self.bounds: dict[int, DerivedBound | None] = {}
        """Up to where rules have read, of those that read derived streams."""
        self._found: list[Found] = [[] for _ in running]
        """The matches of rules with INSERT INTO since the last answer."""

    def take_found(self, index: int) -> Found:
        """Return the matches of a rule with INSERT INTO since the last call."""
        found, self._found[index] = self._found[index], []
        return found

    def read(self, batch: EventBatch, scale: Scale, found: Findings, how: ChunkReading) -> None:
        """Let each rule read its events of a batch, those that rules have derived among them.

        What is found is added to `found`, for each rule that has read events.
        """
        expect_events(len(batch))  # of which each rule reads few
        first, self.scale = self.events, scale
        self.events += len(batch)
        batch = share_events(batch) if len(batch) else batch
        running = self.running
        views: dict[tuple[str, ...], EventBatch] = {}
        can_route = scale.unit_ns is not None
        routed = running.route(batch) if can_route else {}
        if running.made:
            self.input = self.input.append(batch, first)
        if (len(batch) or how.last) and len(self.input.time) and scale.unit_ns is not None:
            how = how._replace(until=int(self.input.time[-1]) * scale.unit_ns)
        chunk = _RuleChunk(batch, scale, first, how, {}, {}, routed)
        for index in running.list_reading(routed) if can_route else running.order:
            if index in running.stopped:
                continue
            try:
                self._read_rule(index, chunk, views, found)
            except BudgetError as error:
                if not how.stops:
                    raise
                running.stop(index, error)
        for index in running.stopped:
            found.pop(index, None)
        bound = find_least(chunk.bounds.values())
        self.input = self.input.forget_before(self.events if bound is None else bound.path[0])

    def _read_rule(
        self,
        index: int,
        chunk: _RuleChunk,
        views: dict[tuple[str, ...], EventBatch],
        found: Findings,
    ) -> None:
        """Let a rule, or a group, read its events of a chunk; `views` are those of streams."""
        running, (batch, scale, *_) = self.running, chunk
        can_route = scale.unit_ns is not None
        each, pattern = running[index], running.patterns[index]
        if can_route and index in running.router:
            own = self._read_routed(index, chunk)
        elif pattern.into is not None or running.reads_derived(index):
            own = self._read_merged(index, chunk)
        else:
            if pattern.streams not in views:
                views[pattern.streams] = confine(batch, pattern.streams)
            own = RuleBatch(views[pattern.streams], _NO_PATHS)
        tables = each.session.tables
        if own is not None and tables is not None and len(own.batch):
            own = own.join(tables)
        segments: list[Any] = []
        has_events = own is not None and len(own.batch) > 0
        if own is not None and has_events:
            if pattern.into is not None:
                each.log = each.log.append(own, each.session.events)
            segments = each.read(own.batch, scale)
        is_told = each.is_paced and index in running.router and can_route and len(batch) > 0
        has_found = bool(segments or found.get(index))
        if is_told and (has_found or each.session.pipeline.awaits_time):
            assert batch.time is not None
            segments += each.session.pass_by(int(batch.time[-1]), scale)
        if pattern.into is not None:
            self._derive(index, segments, chunk)
        elif has_events or segments:
            found.setdefault(index, []).extend(segments)

    def _read_routed(self, index: int, chunk: _RuleChunk) -> RuleBatch | None:
        """Return the events of the input that can move a rule, or a group."""
        if index not in chunk.routed:
            return None
        own, at = chunk.routed[index]
        if self.running.patterns[index].into is None:
            return RuleBatch(own, _NO_PATHS)
        paths = np.full((len(own), self.running.width), NOTHING, np.int64)
        paths[:, 0] = chunk.first + at
        return RuleBatch(own, paths)

    def _read_merged(self, index: int, chunk: _RuleChunk) -> RuleBatch | None:
        """Return the events of a rule, derived ones among them, up to where they are known."""
        running, batch = self.running[index], chunk.batch
        streams = running.pattern.streams or tuple(name for name, _ in batch.parts)
        bound = None
        if not chunk.how.last:
            bound = find_least(chunk.bounds.get(name) for name in streams)
        self.bounds[index] = bound
        parts = list_parts(batch, chunk.first, chunk.derived, streams, self.running.width)
        parts = running.pending.take(parts, bound)
        return merge_parts(parts, batch.type_column, batch.time_column)

    def _derive(self, index: int, segments: list[Any], chunk: _RuleChunk) -> None:
        """Add the events that the matches of a rule, or a group, become."""
        running, (batch, scale, _, how, derived, bounds, _) = self.running[index], chunk
        into, bound = running.pattern.into, self.bounds.get(index)
        assert into is not None
        schema, made = self.schemas.get(into), derived.setdefault(into, [])
        if schema is None:  # it has had no events
            return
        columns, several = (batch.type_column, batch.time_column), list[DerivedEvents]()
        history = InputHistory(self.input, scale, self._time_unit, self.running.width)
        for name, found in _list_certain(running, segments, scale, how.limit(bound, scale)):
            derivation = Derivation(into, self.running.numbers[name], schema, *columns)
            if is_late(running.pattern):
                before = sum(len(each.rows) for each in several)
                events = derive_late(found, history, derivation, before)
            else:
                events = derive_events(found, running.log, derivation)
            if events is not None:
                self._found[index].append((name, found))
                several.append(events)
        made += [join_derived(several)] if several else []
        if not how.last:
            bounds[into] = find_least([bound, running.find_open(), bounds.get(into)])


def _list_certain(
    running: RunningRule, segments: list[Any], scale: Scale, how: ChunkReading
) -> Iterator[tuple[str, Any]]:
    """Yield what rules find in a chunk: at its events, then by their time, then at the end."""
    session, name = running.session, running.rules[0].name
    waits = session.pipeline.heeds_time
    if segments or waits or how.last:
        last = how.last and not waits
        yield from running.conclude(segments, last=last, forget=how.forget, every=False)
    if waits and how.until is not None:
        yield from ((name, found) for found in session.pass_watermark(how.until, scale))
    if waits and how.last:
        yield name, session.conclude([], last=True)


def limit_time(until: int, bound: DerivedBound | None, scale: Scale) -> int:
    """Return up to where time has passed for a rule that has read up to a bound."""
    if bound is None or scale.unit_ns is None:
        return until
    return min(until, bound.tick * scale.unit_ns)


CHUNK = 1 << 20
"""So many events are routed at once: each rule has a cost for each chunk."""
CHUNK_PER_RULE = 1 << 12
"""Many rules take larger chunks, of so many events for each rule."""
LARGEST_CHUNK = 1 << 23
CHUNK_BYTES = 1 << 28
"""Limits of larger chunks, in events and in bytes."""


def join_batches(batches: Iterable[EventBatch], rules: int) -> Iterator[EventBatch]:
    """Yield chunks for this number of rules, where batches of one stream follow each other."""
    most = min(max(CHUNK, CHUNK_PER_RULE * rules), LARGEST_CHUNK)
    waiting: list[EventBatch] = []
    events = 0
    for batch in batches:
        events += len(batch)
        is_large = events > most or (events > CHUNK and _measure([*waiting, batch]) > CHUNK_BYTES)
        if waiting and (is_large or not _is_alike(waiting[0], batch)):
            yield _concatenate(waiting)
            waiting, events = [], len(batch)
        waiting.append(batch)
    if waiting:
        yield _concatenate(waiting)


def _measure(batches: Sequence[EventBatch]) -> int:
    return sum(batch.parts[0][1].nbytes for batch in batches)


def _is_alike(first: EventBatch, batch: EventBatch) -> bool:
    plain = all(len(each.parts) == 1 and each.index is None for each in (first, batch))
    return (
        plain
        and first.parts[0][0] == batch.parts[0][0]
        and first.parts[0][1].schema == batch.parts[0][1].schema
    )


def _concatenate(batches: Sequence[EventBatch]) -> EventBatch:
    if len(batches) == 1:
        return batches[0]
    first = batches[0]
    times = [batch.time for batch in batches if batch.time is not None]
    table = pa.concat_tables([batch.parts[0][1] for batch in batches])
    return replace(
        first,
        rows=np.concatenate([batch.rows for batch in batches]),
        time=np.concatenate(times) if times else None,
        parts=((first.parts[0][0], table),),
    )
