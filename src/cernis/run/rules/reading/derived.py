"""Streams of matches: each match of `INSERT INTO D` is an event of D, in the same pass.

A derived event stands directly after the event that ends its match, and before the next event of
the input; those of one event in the order of rules, then of matches. The *path* of an event says
where it stands: the number of an input event, then a rule and a match for each step of
derivation. Events are in the order of their paths. The rules read a chunk in such an order that
each comes after those that insert into its streams.

A match of `WITHOUT … FOR` a time, and a group of `EVERY`, is an event at a time of its own: the
deadline, or the end of the interval. Its path goes on from the last input event that it comes
after, behind all that is derived at that event, by its time, its rule and its number. Each chunk
tells these rules the time of its last event, so whatever they derive later comes after the chunk.

A match of LONGEST, of `LIMIT … EVERY` and of `WITHOUT … FOR n EVENTS` may become certain after
later events. The rules that read it wait meanwhile (`pending`).

Cost contract: a path of two numbers for each step, and one sort of the events of a chunk for each
rule that inserts or reads a derived stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cernis.errors import DataError
from cernis.events.batch import EventBatch, Int64s
from cernis.events.order import Scale, join_table
from cernis.events.times import to_ticks
from cernis.pattern.query import Pattern, Strategy, Unit
from cernis.results.groups import Groups
from cernis.results.matches import Matches
from cernis.results.terms.deadline import DEADLINE
from cernis.run.tables import Tables


@dataclass(frozen=True)
class KnownStream:
    """A stream that is not opened, as rules see it: of matches, or of events in batches."""

    name: str
    schema: pa.Schema
    is_blank: bool = False


class DerivedEvents(NamedTuple):
    """Some events of a derived stream, in order."""

    table: pa.Table
    rows: Int64s
    """The input's row of the event that ends each match."""
    time: Int64s | None
    paths: Int64s
    """One row for each event; `NOTHING` where a path is shorter."""


class RuleBatch(NamedTuple):
    """The events that a rule reads in a chunk, with their paths."""

    batch: EventBatch
    paths: Int64s
    """Empty where nothing is derived from the events."""

    def join(self, tables: Tables) -> RuleBatch:
        """Return the events with the rows of tables that are joined to them."""
        batch, stays = tables.join_marked(self.batch)
        return RuleBatch(batch, self.paths[stays] if len(self.paths) else self.paths)


NOTHING = np.iinfo(np.int64).min
LATE = 1 << 62
"""It stands in paths where others have a rule: events at times of their own come after those."""


def is_late(pattern: Pattern) -> bool:
    """Return whether the matches of a rule become events at times of their own."""
    absence = pattern.absent_after
    has_deadline = absence is not None and absence.within.unit is Unit.TIME
    return has_deadline or pattern.grouping is not None


def is_held(pattern: Pattern) -> bool:
    """Return whether a match may become certain after events that come after it."""
    absence = pattern.absent_after
    waits = absence is not None and (
        absence.within.unit is Unit.EVENTS or pattern.grouping is not None
    )
    ranks = pattern.ranks_intervals or pattern.ranks_overall
    return waits or ranks or pattern.strategy is Strategy.LONGEST


def count_steps(patterns: Sequence[Pattern], order: Sequence[int]) -> int:
    """Return how often events are derived from derived ones, at most.

    One more where some have times of their own, which take more of a path.
    """
    steps: dict[str, int] = {}
    for number in order:
        pattern = patterns[number]
        before = max((steps.get(stream, 0) for stream in pattern.streams), default=0)
        if pattern.into is not None:
            steps[pattern.into] = max(steps.get(pattern.into, 0), before + 1)
    more = any(pattern.into is not None and is_late(pattern) for pattern in patterns)
    return max(steps.values(), default=0) + more


def derive_schema(found: Matches | Groups, type_column: str, time_column: str | None) -> pa.Schema:
    """Return the columns of the events that matches, or groups, become."""
    schema = found.schema
    if isinstance(found, Groups):
        fields, time = [*schema][2:], "to_ts"
    else:
        names = [item.name for item in found.pattern.select.items]
        own = [*schema][-len(names) :]
        fields = [field.with_name(name) for field, name in zip(own, names, strict=True)]
        time = DEADLINE if DEADLINE in schema.names else "end_ts"
    types = pa.field(type_column, pa.dictionary(pa.int8(), pa.string()))
    times = [] if time_column is None else [schema.field(time).with_name(time_column)]
    return pa.schema([types, *times, *fields])


def unite_schemas(name: str, schemas: Sequence[pa.Schema]) -> pa.Schema:
    """Return the columns of a stream that several rules insert into."""
    try:
        return pa.unify_schemas(list(schemas), promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise DataError(f"rules insert values of different types into {name!r}: {error}") from error


class PathLog(NamedTuple):
    """The paths of a rule's last events, back to where a match may still stand."""

    first: int = 0
    """The position of the first of them."""
    paths: Int64s = np.empty((0, 1), np.int64)
    time: Int64s | None = None

    def append(self, read: RuleBatch, position: int) -> PathLog:
        """Return the log with the events that the rule reads now, the first at a position."""
        kept, new, time = self.paths, read.paths, read.batch.time
        if len(kept):
            new = np.concatenate([widen(kept, new.shape[1]), new])
            time = None if time is None else np.concatenate([self.time, time])
        return PathLog(position - len(kept), new, time)

    def forget_before(self, position: int) -> PathLog:
        at = max(0, position - self.first)
        time = None if self.time is None else self.time[at:].copy()
        return PathLog(self.first + at, self.paths[at:].copy(), time)


def widen(paths: Int64s, width: int) -> Int64s:
    """Return paths with room for more steps."""
    filled = np.full((len(paths), width), NOTHING, np.int64)
    filled[:, : paths.shape[1]] = paths
    return filled


class Derivation(NamedTuple):
    """How matches of a rule become events of a stream."""

    into: str
    number: int
    """The index of the rule in the rule set."""
    schema: pa.Schema
    type_column: str
    time_column: str | None

    def make_table(self, values: Mapping[str, pa.Array], times: pa.Array) -> pa.Table:
        """Return events with all columns of their stream."""
        size = len(times)
        held = {self.type_column: name_type(self.into, size), **values}
        if self.time_column is not None:
            held[self.time_column] = times
        full = [held.get(name, pa.nulls(size)) for name in self.schema.names]
        return pa.table(full, names=self.schema.names)


def derive_events(found: Matches, log: PathLog, how: Derivation) -> DerivedEvents | None:
    """Return the events that matches become, each after an event of the log.

    That is the end of the match, or the event at its deadline. A deadline that the input was
    complete before is at the last event.
    """
    tables, indices, rows = [], [], []
    last = log.first + len(log.paths) - 1
    for values in found.list_values():
        at, times = values.positions, values.times
        if (is_missing := at < 0).any():
            at = np.where(is_missing, last, at)
            times = pc.coalesce(times, found.store.times(np.array([last]))[0])
        tables.append(how.make_table(values.columns, times))
        rows.append(found.store.rows(values.ends))
        indices.append(at - log.first)
    if not tables:
        return None
    at = np.concatenate(indices)
    order = np.argsort(at, kind="stable")
    at = at[order]
    paths = log.paths[at]
    first = np.searchsorted(at, at)
    numbers = np.arange(len(at))
    own = (paths != NOTHING).sum(axis=1)  # derived events go on where the path of their end stops
    paths[numbers, own] = how.number
    paths[numbers, own + 1] = numbers - first
    table = pa.concat_tables(tables, promote_options="permissive").take(pa.array(order))
    time = None if log.time is None else log.time[at]
    return DerivedEvents(table, np.concatenate(rows)[order], time, paths)


def join_derived(several: Sequence[DerivedEvents]) -> DerivedEvents:
    """Return the events of several rules as those of one: readers cost something for each table."""
    if len(several) == 1:
        return several[0]
    paths = np.concatenate([each.paths for each in several])
    order = np.lexsort(paths.T[::-1])
    table = pa.concat_tables([each.table for each in several], promote_options="permissive")
    rows = np.concatenate([each.rows for each in several])
    times = [each.time for each in several if each.time is not None]
    return DerivedEvents(
        join_table(table).take(pa.array(order)),
        rows[order],
        np.concatenate(times)[order] if times else None,
        paths[order],
    )


class InputLog(NamedTuple):
    """The last events of the input, for events that have times of their own."""

    first: int = 0
    """The number of the first of them, of all events of the input."""
    time: Int64s = np.empty(0, np.int64)
    rows: Int64s = np.empty(0, np.int64)

    def append(self, batch: EventBatch, first: int) -> InputLog:
        """Return the log with the events of a batch, which begins with this number."""
        time = np.zeros(len(batch), np.int64) if batch.time is None else batch.time
        times, rows = np.concatenate([self.time, time]), np.concatenate([self.rows, batch.rows])
        return InputLog(first - len(self.rows), times, rows)

    def forget_before(self, number: int) -> InputLog:
        """Return the log from an event on, or the last one."""
        at = max(0, min(number - self.first, len(self.rows) - 1))
        return InputLog(self.first + at, self.time[at:].copy(), self.rows[at:].copy())


class InputHistory(NamedTuple):
    """The input up to now, and its times."""

    log: InputLog
    scale: Scale
    time_unit: str
    width: int


def derive_late(
    found: Matches | Groups, history: InputHistory, how: Derivation, before: int
) -> DerivedEvents | None:
    """Return the events that matches with deadlines become, or groups of EVERY.

    `before` is the number of events that the rule has derived before in this chunk.
    """
    tables, rows, ticks = [], [], []
    for own_rows, times, values in _list_late(found):
        tables.append(how.make_table(values, times))
        rows.append(own_rows)
        unit = history.scale.unit_ns
        assert unit is not None
        own, bad = to_ticks(pa.chunked_array([times]), history.time_unit, unit)
        ticks.append(own if bad is None else np.where(bad, LATE, own))
    if not tables:
        return None
    at, log = np.concatenate(ticks), history.log
    side: Literal["left", "right"] = "left" if isinstance(found, Groups) else "right"
    indices = np.searchsorted(log.time, at, side=side) - 1
    paths = np.full((len(at), history.width), NOTHING, np.int64)
    paths[:, 0], paths[:, 1], paths[:, 2], paths[:, 3] = log.first + indices, LATE, at, how.number
    paths[:, 4] = before + np.arange(len(at))
    if isinstance(found, Groups):
        rows = [np.append(log.rows, -1)[indices]]
    table = pa.concat_tables(tables, promote_options="permissive")
    return DerivedEvents(table, np.concatenate(rows), at, paths)


def _list_late(found: Matches | Groups) -> Iterator[tuple[Int64s, pa.Array, dict[str, pa.Array]]]:
    """Yield the rows of ends, the times and the values; groups have no rows."""
    if isinstance(found, Matches):
        for values in found.list_values():
            yield found.store.rows(values.ends), values.times, values.columns
    elif found.count():
        columns = dict(zip(found.schema.names, found.counts().columns, strict=True))
        joined = {name: each.combine_chunks() for name, each in columns.items()}
        del joined["from_ts"]
        yield np.empty(0, np.int64), joined.pop("to_ts"), joined


def name_type(name: str, size: int) -> pa.Array:
    """Return the types of events that are all of one."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(size, np.int8)), pa.array([name]))


class RulePart(NamedTuple):
    """Events of one table, with their indices in it."""

    part: tuple[str, pa.Table]
    indices: Int64s
    rows: Int64s
    time: Int64s | None
    paths: Int64s


def list_parts(
    batch: EventBatch,
    first: int,
    derived: Mapping[str, Sequence[DerivedEvents]],
    streams: Sequence[str],
    width: int,
) -> list[RulePart]:
    """Return the events of some streams of the input, and of derived ones.

    `first` is the number of the first event of the batch, of all events of the input.
    """
    parts = [part for part in _split_batch(batch, first, width) if part.part[0] in streams]
    for name in streams:
        for events in derived.get(name, ()):
            index = np.arange(len(events.rows))
            own = (name, events.table)
            parts.append(RulePart(own, index, events.rows, events.time, events.paths))
    return parts


def merge_parts(
    parts: Sequence[RulePart], type_column: str, time_column: str | None
) -> RuleBatch | None:
    """Return events in the order of their paths."""
    if not parts:
        return None
    paths = np.concatenate([part.paths for part in parts])
    order = np.lexsort(paths.T[::-1])
    times = [part.time for part in parts if part.time is not None]
    sizes = [len(part.rows) for part in parts]
    merged = EventBatch(
        0,
        np.concatenate([part.rows for part in parts])[order],
        np.concatenate(times)[order] if times else None,
        tuple(part.part for part in parts),
        np.repeat(np.arange(len(parts), dtype=np.int16), sizes)[order],
        np.concatenate([part.indices for part in parts])[order],
        type_column,
        time_column,
    )
    return RuleBatch(merged, paths[order])


def _split_batch(batch: EventBatch, first: int, width: int) -> Iterator[RulePart]:
    """Yield the events of each part of a batch; their paths are their numbers."""
    which = np.zeros(len(batch), np.int64) if batch.which is None else batch.which
    index = np.arange(len(batch)) if batch.index is None else batch.index
    for number, part in enumerate(batch.parts):
        at = np.flatnonzero(which == number)
        paths = np.full((len(at), width), NOTHING, np.int64)
        paths[:, 0] = first + at
        time = None if batch.time is None else batch.time[at]
        if len(at):
            yield RulePart(part, index[at], batch.rows[at], time, paths)
