"""`ChunkReader`: let all rules read a chunk, with the events that rules derive from it.

Rules read in such an order that each comes after those that insert into its streams (`derived`). A
rule that reads derived streams waits until they are known (`pending`).

Cost contract: per chunk some calls for each rule that runs alone, for each family and for each
bundle. Each of them reads its events at the cost of a session. State: the sessions, and the times
of the last events of the input, as far as derived events may stand there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from cernis.events.batch import EventBatch, share_events
from cernis.events.order import Scale
from cernis.run.rules.derived import (
    NOTHING,
    Derivation,
    DerivedEvents,
    InputLog,
    InputMoment,
    PlacedBatch,
    derive_events,
    derive_late,
    is_late,
    join_derived,
    merge_parts,
    place_events,
)
from cernis.run.rules.pending import DerivedBound, find_least
from cernis.run.rules.running_rules import RoutedEvents, RunningRules
from cernis.run.rules.streams import confine
from cernis.run.session import Session

Found = list[tuple[str, Any]]
"""Matches with the names of their rules."""


class ChunkReading(NamedTuple):
    """How rules read a chunk."""

    forget: bool = True
    """Whether to drop events that no match reaches back to."""
    until: int | None = None
    """No event before this time, in nanoseconds, comes after the chunk."""
    last: bool = False
    """Whether no further event comes."""

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
    routed: RoutedEvents


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

    def take_found(self, place: int) -> Found:
        """Return the matches of a rule with INSERT INTO since the last call."""
        found, self._found[place] = self._found[place], []
        return found

    def begin(self) -> list[list[Any]]:
        """Return a place for what each rule finds, for `read`."""
        return [[] for _ in self.running]

    def read(
        self, batch: EventBatch, scale: Scale, found: list[list[Any]], how: ChunkReading
    ) -> None:
        """Let each rule read its events of a batch, those that rules have derived among them.

        What is found is added to `found`, by the places of rules.
        """
        first, self.scale = self.events, scale
        self.events += len(batch)
        batch = share_events(batch) if len(batch) else batch
        running = self.running
        views: dict[tuple[str, ...], EventBatch] = {}
        can_route, routed = set[int](), RoutedEvents({}, {})
        if scale.unit_ns is not None:
            can_route, routed = {*running.router.rules, *running.members}, running.route(batch)
        if running.made:
            self.input = self.input.append(batch, first)
        if (len(batch) or how.last) and len(self.input.time) and scale.unit_ns is not None:
            how = how._replace(until=int(self.input.time[-1]) * scale.unit_ns)
        chunk = _RuleChunk(batch, scale, first, how, {}, {}, routed)
        for place in running.order:
            each, pattern = running[place], running.patterns[place]
            if pattern.into is not None and place in can_route:
                self._derive_routed(place, chunk)
                continue
            if pattern.into is not None or running.reads_derived(place):
                found[place] += self._derive(place, chunk)
                continue
            if not len(batch):
                continue
            if place in can_route:
                own = routed.events.get(place)
            else:
                if pattern.streams not in views:
                    views[pattern.streams] = confine(batch, pattern.streams)
                own = views[pattern.streams]
                tables = each.session.tables
                own = own if tables is None or not len(own) else tables.join(own)
            if own is not None and len(own):
                found[place] += each.read(own, scale)
        bound = find_least(chunk.bounds.values())
        self.input = self.input.forget_before(self.events if bound is None else bound.path[0])

    def _derive_routed(self, place: int, chunk: _RuleChunk) -> None:
        """Let a rule, or a bundle, read its events of the input, and add what matches become."""
        running, pattern = self.running[place], self.running.patterns[place]
        assert pattern.into is not None
        schema, made = self.schemas.get(pattern.into), chunk.derived.setdefault(pattern.into, [])
        own = chunk.routed.events.get(place)
        if schema is None or own is None:
            return
        paths = np.full((len(own), self.running.width), NOTHING, np.int64)
        paths[:, 0] = chunk.first + chunk.routed.places[place]
        running.log = running.log.append(
            PlacedBatch(replace(own, base=running.session.events), paths)
        )
        segments = running.read(own, chunk.scale)
        columns, several = (own.type_column, own.time_column), list[DerivedEvents]()
        for name, found in running.conclude(segments, every=False) if segments else ():
            derivation = Derivation(pattern.into, self.running.numbers[name], schema, *columns)
            events = derive_events(found, running.log, derivation)
            if events is not None:
                self._found[place].append((name, found))
                several.append(events)
        made += [join_derived(several)] if several else []
        running.find_open()

    def _derive(self, place: int, chunk: _RuleChunk) -> list[Any]:
        """Let a rule read a chunk with derived events, and add those that its matches become.

        It reads up to where its streams are known. Return what was found, for `conclude`, unless
        it inserts into a stream.
        """
        running, pattern, width = (
            self.running[place],
            self.running.patterns[place],
            self.running.width,
        )
        session, (batch, scale, first, how, derived, bounds, _) = running.session, chunk
        streams = pattern.streams or tuple(name for name, _ in batch.parts)
        bound = None if how.last else find_least(bounds.get(name) for name in streams)
        self.bounds[place] = bound
        parts = place_events(batch, first, derived, streams, width)
        parts = running.pending.take(parts, bound)
        placed = merge_parts(parts, batch.type_column, batch.time_column)
        segments: list[Any] = []
        if placed is not None:
            own, paths = placed
            if session.tables is not None:
                own, stays = session.tables.join_marked(own)
                paths = paths[stays]
            placed = PlacedBatch(replace(own, base=session.events), paths)
            segments = session.read(placed.batch, scale)
        if pattern.into is None:
            return segments
        schema, made = self.schemas.get(pattern.into), derived.setdefault(pattern.into, [])
        if schema is None:  # it has had no events
            return []
        running.log = running.log if placed is None else running.log.append(placed)
        columns = batch.type_column, batch.time_column
        derivation = Derivation(pattern.into, running.number, schema, *columns)
        moment = InputMoment(self.input, scale, self._time_unit, width)
        before = 0
        for result in _list_certain(session, segments, scale, how.limit(bound, scale)):
            if is_late(pattern):
                events = derive_late(result, moment, derivation, before)
            else:
                events = derive_events(result, running.log, derivation)
            if events is not None:
                self._found[place].append((running.rules[0].name, result))
                made.append(events)
                before += len(events.rows)
        if not how.last:
            least = find_least([bound, running.find_open(), bounds.get(pattern.into)])
            bounds[pattern.into] = least
        return []


def _list_certain(
    session: Session[Any], segments: list[Any], scale: Scale, how: ChunkReading
) -> Iterator[Any]:
    """Yield what a rule finds in a chunk: at its events, then by their time, then at the end."""
    waits = session.pipeline.waits_for_time
    yield session.conclude(segments, last=how.last and not waits, forget=how.forget)
    if waits and how.until is not None:
        yield from session.pass_watermark(how.until, scale)
    if waits and how.last:
        yield session.conclude([], last=True)


def limit_time(until: int, bound: DerivedBound | None, scale: Scale) -> int:
    """Return up to where time has passed for a rule that has read up to a bound."""
    if bound is None or scale.unit_ns is None:
        return until
    return min(until, bound.tick * scale.unit_ns)
