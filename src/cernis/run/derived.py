"""Streams of matches: each match of `INSERT INTO D` is an event of D, in the same pass.

A derived event stands directly after the event that ends its match, and before the next event of
the input; those of one event in the order of rules, then of matches. The *path* of an event says
where it stands: the place of an input event in its chunk, then a rule and a match for each step of
derivation. Events are in the order of their paths. The rules read a chunk in such an order that
each comes after those that insert into its streams.

A match of `WITHOUT … FOR`, and a group of `EVERY`, is an event at a time of its own: the deadline,
or the end of the interval. Its path goes on from the last input event that it comes after, behind
all that is derived at that event, by its time, its rule and its number. Each chunk tells these
rules the time of its last event, so whatever they derive later comes after the chunk.

Cost contract: a path of two numbers for each step, and one sort of the events of a chunk for each
rule that inserts or reads a derived stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa

from cernis.errors import DataError
from cernis.events.batch import EventBatch, Int64s
from cernis.events.order import Scale
from cernis.events.times import to_ticks
from cernis.pattern.query import Pattern
from cernis.results.deadline import DEADLINE
from cernis.results.groups import Groups
from cernis.results.matches import Matches


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
    """One row for each event; `_NOTHING` where a path is shorter."""


class PlacedBatch(NamedTuple):
    """The events that a rule reads in a chunk, with their paths."""

    batch: EventBatch
    paths: Int64s


_NOTHING = np.iinfo(np.int64).min
_LATE = 1 << 62
"""It stands in paths where others have a rule: events at times of their own come after those."""


def is_late(pattern: Pattern) -> bool:
    """Return whether the matches of a rule become events at times of their own."""
    return pattern.absent_after is not None or pattern.grouping is not None


def order_rules(patterns: Sequence[Pattern]) -> tuple[list[int], list[str]]:
    """Return the rules such that each comes after those that it reads, or the streams of a circle.

    >>> from cernis.languages.ceql.parse import parse
    >>> texts = ["SELECT * FROM D WHERE D", "INSERT INTO D SELECT A[x] AS x FROM S WHERE A"]
    >>> order_rules([parse(text) for text in texts])
    ([1, 0], [])
    """
    makers: dict[str, list[int]] = {}
    for number, pattern in enumerate(patterns):
        if pattern.into is not None:
            makers.setdefault(pattern.into, []).append(number)
    order: list[int] = []
    state: dict[int, str] = {}

    def visit(number: int, path: list[str]) -> list[str]:
        state[number] = "open"
        for stream in patterns[number].streams:
            for maker in makers.get(stream, ()):
                if state.get(maker) == "open":
                    return (
                        [*path[path.index(stream) :], stream] if stream in path else [*path, stream]
                    )
                if maker not in state and (circle := visit(maker, [*path, stream])):
                    return circle
        state[number] = "done"
        order.append(number)
        return []

    for number, pattern in enumerate(patterns):
        if number not in state and (
            circle := visit(number, [pattern.into] if pattern.into else [])
        ):
            return [], circle
    return order, []


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


def derive_events(
    found: Matches, placed: PlacedBatch, rule: int, schema: pa.Schema
) -> DerivedEvents | None:
    """Return the events that the matches of a chunk become."""
    batch, columns = placed.batch, schema
    tables, ends = [], []
    for block_ends, times, values in found.list_values():
        named = {**values} if batch.time_column is None else {**values, batch.time_column: times}
        types = name_type(found.pattern.into or "", len(block_ends))
        tables.append(_fill({batch.type_column: types, **named}, columns, len(block_ends)))
        ends.append(block_ends - batch.base)
    if not tables:
        return None
    at = np.concatenate(ends)
    order = np.argsort(at, kind="stable")
    at = at[order]
    paths = placed.paths[at].copy()
    first = np.searchsorted(at, at)
    rows = np.arange(len(at))
    own = (paths != _NOTHING).sum(axis=1)  # derived events go on where the path of their end stops
    paths[rows, own] = rule
    paths[rows, own + 1] = rows - first
    table = pa.concat_tables(tables, promote_options="permissive").take(pa.array(order))
    time = None if batch.time is None else batch.time[at]
    return DerivedEvents(table, batch.rows[at], time, paths)


class InputMoment(NamedTuple):
    """The input of a chunk, for events that have times of their own."""

    batch: EventBatch
    scale: Scale
    time_unit: str
    last_row: int
    """The row of the last event before the chunk."""
    width: int


def derive_late(
    found: Matches | Groups,
    into: str,
    moment: InputMoment,
    number: tuple[int, int],
    schema: pa.Schema,
) -> DerivedEvents | None:
    """Return the events that matches with deadlines become, or groups of EVERY.

    `number` is the number of the rule, and of its events that come before.
    """
    batch, tables, rows, ticks = moment.batch, [], [], []
    for own_rows, times, values in _list_late(found):
        types = name_type(into, len(times))
        held = {batch.type_column: types, **values}
        if batch.time_column is not None:
            held[batch.time_column] = times
        tables.append(_fill(held, schema, len(times)))
        rows.append(own_rows)
        unit = moment.scale.unit_ns
        assert unit is not None
        own, bad = to_ticks(pa.chunked_array([times]), moment.time_unit, unit)
        ticks.append(own if bad is None else np.where(bad, _LATE, own))
    if not tables:
        return None
    at = np.concatenate(ticks)
    known = np.empty(0, np.int64) if batch.time is None else batch.time
    side: Literal["left", "right"] = "left" if isinstance(found, Groups) else "right"
    places = np.searchsorted(known, at, side=side) - 1
    paths = np.full((len(at), moment.width), _NOTHING, np.int64)
    paths[:, 0], paths[:, 1], paths[:, 2], paths[:, 3] = places, _LATE, at, number[0]
    paths[:, 4] = number[1] + np.arange(len(at))
    if isinstance(found, Groups):
        rows = [np.append(batch.rows, moment.last_row)[places]]  # -1 is the last one
    table = pa.concat_tables(tables, promote_options="permissive")
    return DerivedEvents(table, np.concatenate(rows), at, paths)


def _list_late(found: Matches | Groups) -> Iterator[tuple[Int64s, pa.Array, dict[str, pa.Array]]]:
    """Yield the rows of ends, the times and the values; groups have no rows."""
    if isinstance(found, Matches):
        for ends, times, values in found.list_values():
            yield found.store.rows(ends), times, values
    elif found.count():
        columns = dict(zip(found.schema.names, found.counts().columns, strict=True))
        joined = {name: each.combine_chunks() for name, each in columns.items()}
        del joined["from_ts"]
        yield np.empty(0, np.int64), joined.pop("to_ts"), joined


def name_type(name: str, size: int) -> pa.Array:
    """Return the types of events that are all of one."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(size, np.int8)), pa.array([name]))


def _fill(held: Mapping[str, pa.Array], schema: pa.Schema, size: int) -> pa.Table:
    """Return events with all columns of their stream."""
    full = [held.get(name, pa.nulls(size)) for name in schema.names]
    return pa.table(full, names=schema.names)


class _PlacedPart(NamedTuple):
    """Events of one table, with their places in it."""

    part: tuple[str, pa.Table]
    places: Int64s
    rows: Int64s
    time: Int64s | None
    paths: Int64s


def merge_events(
    batch: EventBatch,
    derived: Mapping[str, Sequence[DerivedEvents]],
    streams: Sequence[str],
    width: int,
) -> PlacedBatch | None:
    """Return the events of some streams of the input and of derived ones, by their paths."""
    pieces = [piece for piece in _split_batch(batch, width) if piece.part[0] in streams]
    for name in streams:
        for events in derived.get(name, ()):
            index = np.arange(len(events.rows))
            part = (name, events.table)
            pieces.append(_PlacedPart(part, index, events.rows, events.time, events.paths))
    if not pieces:
        return None
    paths = np.concatenate([piece.paths for piece in pieces])
    order = np.lexsort(paths.T[::-1])
    times = [piece.time for piece in pieces if piece.time is not None]
    sizes = [len(piece.rows) for piece in pieces]
    merged = EventBatch(
        0,
        np.concatenate([piece.rows for piece in pieces])[order],
        np.concatenate(times)[order] if times else None,
        tuple(piece.part for piece in pieces),
        np.repeat(np.arange(len(pieces), dtype=np.int16), sizes)[order],
        np.concatenate([piece.places for piece in pieces])[order],
        batch.type_column,
        batch.time_column,
    )
    return PlacedBatch(merged, paths[order])


def _split_batch(batch: EventBatch, width: int) -> Iterator[_PlacedPart]:
    """Yield the events of each part of a batch; their paths are their places in it."""
    which = np.zeros(len(batch), np.int64) if batch.which is None else batch.which
    index = np.arange(len(batch)) if batch.index is None else batch.index
    for place, part in enumerate(batch.parts):
        at = np.flatnonzero(which == place)
        paths = np.full((len(at), width), _NOTHING, np.int64)
        paths[:, 0] = at
        time = None if batch.time is None else batch.time[at]
        if len(at):
            yield _PlacedPart(part, index[at], batch.rows[at], time, paths)
