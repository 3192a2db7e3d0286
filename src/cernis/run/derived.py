"""Streams of matches: each match of `INSERT INTO D` is an event of D, in the same pass.

A derived event stands directly after the event that ends its match, and before the next event of
the input; those of one event in the order of rules, then of matches. The *path* of an event says
where it stands: the place of an input event in its chunk, then a rule and a match for each step of
derivation. Events are in the order of their paths. The rules read a chunk in such an order that
each comes after those that insert into its streams.

Cost contract: a path of two numbers for each step, and one sort of the events of a chunk for each
rule that inserts or reads a derived stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from cernis.errors import DataError
from cernis.events.batch import EventBatch, Int64s
from cernis.pattern.query import Pattern
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
    """One row for each event; -1 where a path is shorter."""


class PlacedBatch(NamedTuple):
    """The events that a rule reads in a chunk, with their paths."""

    batch: EventBatch
    paths: Int64s


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
    """Return how often events are derived from derived ones, at most."""
    steps: dict[str, int] = {}
    for number in order:
        pattern = patterns[number]
        before = max((steps.get(stream, 0) for stream in pattern.streams), default=0)
        if pattern.into is not None:
            steps[pattern.into] = max(steps.get(pattern.into, 0), before + 1)
    return max(steps.values(), default=0)


def derive_schema(found: Matches, type_column: str, time_column: str | None) -> pa.Schema:
    """Return the columns of the events that matches become."""
    names = [item.name for item in found.pattern.select.items]
    fields = list(found.schema)[-len(names) :]
    types = pa.field(type_column, pa.dictionary(pa.int8(), pa.string()))
    times = [] if time_column is None else [found.schema.field("end_ts").with_name(time_column)]
    return pa.schema([types, *times, *(f.with_name(n) for f, n in zip(fields, names, strict=True))])


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
    batch, columns = placed.batch, schema.names
    tables, ends = [], []
    for block_ends, times, values in found.list_values():
        size = len(block_ends)
        kinds = pa.DictionaryArray.from_arrays(
            pa.array(np.zeros(size, np.int8)), pa.array([found.pattern.into])
        )
        held = {batch.type_column: kinds, **values}
        if batch.time_column is not None:
            held[batch.time_column] = times
        full = [held.get(n, pa.nulls(size)) for n in columns]
        tables.append(pa.table(full, names=columns))
        ends.append(block_ends - batch.base)
    if not tables:
        return None
    at = np.concatenate(ends)
    order = np.argsort(at, kind="stable")
    at = at[order]
    paths = placed.paths[at].copy()
    first = np.searchsorted(at, at)
    rows = np.arange(len(at))
    own = (paths >= 0).sum(axis=1)  # derived events go on where the path of their end stops
    paths[rows, own] = rule
    paths[rows, own + 1] = rows - first
    table = pa.concat_tables(tables, promote_options="permissive").take(pa.array(order))
    time = None if batch.time is None else batch.time[at]
    return DerivedEvents(table, batch.rows[at], time, paths)


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
        paths = np.full((len(at), width), -1, np.int64)
        paths[:, 0] = at
        time = None if batch.time is None else batch.time[at]
        if len(at):
            yield _PlacedPart(part, index[at], batch.rows[at], time, paths)
