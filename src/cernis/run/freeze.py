"""A session as versioned bytes, and back.

The bytes hold the engine's state, the partition keys, the events that a match can still
reach back to (Arrow's own stream format), and how far the stream has come. They name
their query; thawing them with another query is refused before anything is touched.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import astuple, replace
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cernis.automata.correlated.pcea import Unindexed
from cernis.encoding.keys import KeyCoder, select_arrays
from cernis.encoding.lives import LifeCoder
from cernis.engine.unary.aggregate import Measure
from cernis.errors import DataError, StateError
from cernis.events.batch import EventBatch
from cernis.events.order import StreamPosition
from cernis.events.reader import read_stream
from cernis.events.source import TimeColumns, TypeColumns
from cernis.events.times import DAY, UNITS
from cernis.plan.plan import Plan
from cernis.run.best import BestFirst
from cernis.run.feed import SlidingFeed, make_feed
from cernis.run.pipeline import Pipeline
from cernis.state import (
    MOST_EVENTS,
    Tree,
    check_list,
    check_mapping,
    check_number,
    check_text,
    is_inside,
    pack,
    read_array,
    require,
    unpack,
)

Arrays = dict[str, NDArray[Any]]
Columns = tuple[TimeColumns, TypeColumns, str]
"""The time columns, the type columns, and the unit of time."""


class FrozenState(NamedTuple):
    """The parts of a frozen session."""

    meta: dict[str, Any]
    arrays: Arrays
    columns: Columns
    progress: StreamPosition
    """Without its position, which is that of the engine."""
    unindexed: Unindexed
    """What its plan left to candidates."""
    tables: dict[str, str]
    """The columns of the tables that were joined."""
    counting: bool
    """Whether numbers of matches are the result."""


def fingerprint(plan: Plan) -> str:
    """Return a short name of the query's meaning as written."""
    return fingerprint_text(_write_query(plan))


def _write_query(plan: Plan) -> str:
    return str(plan.pattern if plan.head is None else plan.conjunctive)


def fingerprint_text(query: str) -> str:
    """Return a short name of a query's text."""
    return hashlib.sha256(query.encode()).hexdigest()[:16]


def unpack_own(state: bytes, query: str) -> Tree:
    """Return the tree of frozen bytes, if they belong to the text of a query."""
    tree = unpack(state)
    if tree.get("query") != fingerprint_text(query):
        raise StateError(
            "the state was frozen by another query; run the new query on the stream from its "
            "beginning, or thaw with the query that froze it"
        )
    return tree


def freeze_pipeline(
    pipeline: Pipeline, progress: StreamPosition, columns: Columns, tables: Mapping[str, str]
) -> bytes:
    """Return the state of a pipeline, how its stream is read, and the columns of its tables."""
    pipeline.forget(every_key=True)  # compacts the engine; the bytes hold live keys only
    arrays: Arrays = {}
    batches, stored = _freeze_batches(pipeline.store.stored_batches())
    meta: dict[str, Any] = {
        "query": fingerprint(pipeline.plan),
        "engine": pipeline.feed.freeze(),
        "progress": list(astuple(progress)),
        "reading": freeze_reading(columns),
        "batches": batches,
        "kept_from": pipeline.kept_from,
        "candidates": pipeline.budget.used,
        "unordered": pipeline.plan.unindexed.write_names(),
    }
    if pipeline.counting:
        meta["counting"] = True
    if tables:
        meta["tables"] = dict(tables)
    if pipeline.sieve:
        meta["sieve"] = pipeline.sieve.freeze()
    sieves = pipeline.sieves()
    if sieves and pipeline.plan.pattern.forget is not None:
        arrays["lives"] = sieves[0].read_keys(pipeline.kept_from, pipeline.engine.position)
    if pipeline.absence is not None:
        meta["absence"], waiting = pipeline.absence.freeze(pipeline.feed, pipeline.retained_ends())
        arrays |= {f"absence.{name}": array for name, array in waiting.items()}
    if pipeline.grouper is not None:
        arrays["groups"] = write_table(pipeline.grouper.freeze())
        if isinstance(pipeline.feed, SlidingFeed):
            meta["measures"] = [
                [*astuple(measure), list(path)] for measure, path in pipeline.feed.measures.items()
            ]
    if pipeline.best is not None:
        best = pipeline.best.waiting.freeze()
        thinned = [*pipeline.store.thinned_batches()]
        if thinned:
            meta["best"], events = _freeze_batches(batch for _, batch in thinned)
            places = {f"positions.{b}": places for b, (places, _) in enumerate(thinned)}
            best |= {f"events.{name}": array for name, array in {**events, **places}.items()}
        arrays |= {f"best.{name}": array for name, array in best.items()}
    if pipeline.suppressor is not None:
        silences = pipeline.suppressor.freeze()
        arrays |= {f"silences.{name}": array for name, array in silences.items()}
    if pipeline.longest is not None:
        waiting = pipeline.longest.freeze()
        arrays |= {f"waiting.{name}": array for name, array in waiting.items()}
    if pipeline.projector is not None:
        meta["moment"], arrays["answers"] = pipeline.projector.freeze()
    if pipeline.keys is not None:
        arrays |= {f"keys.{name}": array for name, array in pipeline.keys.freeze().items()}
    if pipeline.limit.most is not None:
        arrays["last_events"] = pipeline.limit.last
    if pipeline.clock is not None:
        arrays |= {f"clock.{name}": array for name, array in pipeline.clock.freeze().items()}
    return pack({**meta, **arrays, **stored})


def read_state(state: bytes, plan: Plan) -> FrozenState:
    """Return the parts of frozen bytes, if they belong to this query."""
    meta = arrays = unpack_own(state, _write_query(plan))
    reading = read_reading(meta)
    unordered = check_list(meta.get("unordered", []), "the attributes that hold text")
    names = [check_text(name, "an attribute that holds text") for name in unordered]
    unindexed = Unindexed.read_names(names)
    written = check_mapping(meta.get("tables", {}), "the tables")
    tables = {name: check_text(each, "the columns of a table") for name, each in written.items()}
    counting = meta.get("counting", False)
    require(isinstance(counting, bool), "it does not say whether it counts")
    return FrozenState(meta, arrays, *reading, unindexed, tables, counting)


class FrozenReading(NamedTuple):
    """How a frozen session reads events, and how far it has come."""

    columns: Columns
    progress: StreamPosition
    """Without its position."""


def freeze_reading(columns: Columns) -> list[Any]:
    """Return the columns that events are read by, as a header has them."""
    return [dict(c) if isinstance(c, Mapping) else c for c in columns]


def read_reading(meta: Mapping[str, Any]) -> FrozenReading:
    """Return how events were read, if the header of a state says it soundly."""
    time, type_, unit = check_list(meta.get("reading"), "the columns", 3)
    columns = (
        cast(TimeColumns, _check_columns(time, "the time column")),
        _check_columns(type_, "the type column"),
        check_text(unit, "a unit"),
    )
    _, row, last, tick = check_list(meta.get("progress"), "the progress", 4)
    require(unit in UNITS and tick in (None, DAY, *UNITS.values()), "it has another unit of time")
    progress = StreamPosition(
        row=check_number(row, "the progress", 0, MOST_EVENTS),
        time=None if last is None else check_number(last, "the progress"),
        unit_ns=tick,
    )
    return FrozenReading(columns, progress)


def thaw_pipeline(pipeline: Pipeline, frozen: FrozenState) -> None:
    """Put a new pipeline into the state that was frozen."""
    meta, arrays = frozen.meta, frozen.arrays
    engine = check_mapping(meta.get("engine"), "'engine'")
    if pipeline.grouper is not None:
        if "measures" in meta:
            measures = _read_measures(check_list(meta["measures"], "the measures"))
            unit = pipeline.store.time_unit
            pipeline.feed = make_feed(pipeline.plan, pipeline.encode, unit, measures)
        pipeline.grouper.thaw(read_table(arrays, "groups"))
    pipeline.feed.thaw(engine)
    position = pipeline.engine.position
    if pipeline.keys is not None:
        coded = select_arrays("keys.", arrays)
        if isinstance(pipeline.keys, LifeCoder):
            # the matches of LONGEST that wait for a deadline keep their lives
            pipeline.keys.thaw(coded, len(arrays.get("absence.after.held.keys", ())))
        else:
            pipeline.keys.thaw(coded)
        live = pipeline.engine.live_keys()
        require(is_inside(live, 0, len(pipeline.keys)), "a partition has no key")
    if "last_events" in arrays:
        pipeline.limit.last = read_array(arrays, "last_events", np.int64).copy()
    if pipeline.clock is not None:
        pipeline.clock.thaw(select_arrays("clock.", arrays), len(pipeline.keys or ()))
    pipeline.kept_from = check_number(meta.get("kept_from"), "'kept_from'", 0, position + 1)
    earliest = pipeline.engine.earliest()
    require(earliest >= pipeline.kept_from, "it needs events that it does not hold")
    sieve = check_mapping(meta.get("sieve", {}), "'sieve'")
    used = check_number(meta.get("candidates"), "the number of candidates", 0)
    pipeline.budget.used = used
    if pipeline.sieve:
        pipeline.sieve.thaw(sieve)
    if pipeline.absence is not None:
        waiting = select_arrays("absence.", arrays)
        number = 0 if pipeline.keys is None else len(pipeline.keys)
        pipeline.absence.thaw(meta.get("absence"), waiting, position, number)
        require(
            pipeline.absence.earliest(earliest) >= pipeline.kept_from,
            "it needs events that it does not hold",
        )
    if pipeline.suppressor is not None:
        pipeline.suppressor.thaw(select_arrays("silences.", arrays))
    if pipeline.longest is not None:
        pipeline.longest.thaw(select_arrays("waiting.", arrays), pipeline.kept_from, position)
        partitions = 1 if pipeline.keys is None else len(pipeline.keys)
        held = pipeline.longest.waiting.intervals.keys
        require(is_inside(held, 0, partitions), "a partition has no key")
    if pipeline.projector is not None:
        pipeline.projector.thaw(meta.get("moment"), arrays)
    batches = list(_thaw_batches(check_list(meta.get("batches"), "'batches'"), arrays))
    ends = [batch.base + len(batch) for batch in batches]
    require(
        [batch.base for batch in batches[1:]] + [position] == (ends or [pipeline.kept_from])
        and all(batch.base <= pipeline.kept_from for batch in batches[:1]),
        "some of its events are missing",
    )
    if pipeline.best is not None:
        base = batches[0].base if batches else position
        _thaw_best(pipeline, pipeline.best, meta, select_arrays("best.", arrays), base)
    lives, sieves = None, pipeline.sieves()
    if sieves and isinstance(pipeline.keys, LifeCoder):
        stored, below = (position - pipeline.kept_from,), len(pipeline.keys)
        lives = read_array(arrays, "lives", np.int64, stored, low=-1, below=below)
        before = pipeline.kept_from - batches[0].base if batches else 0
        lives = np.concatenate([np.full(before, -1, np.int64), lives])
    for batch in batches:
        pipeline.store.append(batch)
        if pipeline.absence is not None:
            pipeline.absence.note_stored(batch)
        if sieves:
            keys = pipeline.keys.encode(batch) if isinstance(pipeline.keys, KeyCoder) else None
            if lives is not None:
                keys, lives = lives[: len(batch)], lives[len(batch) :]
            for each in sieves:
                each.note(batch, keys, pipeline.kept_from)


def _thaw_best(
    pipeline: Pipeline, best: BestFirst, meta: Mapping[str, Any], arrays: Arrays, base: int
) -> None:
    """Restore the best matches so far, and their events from before the position `base`."""
    known = np.empty(0, np.int64)
    events = select_arrays("events.", arrays)
    for b, batch in enumerate(_thaw_batches(check_list(meta.get("best", []), "'best'"), events)):
        name, shape, low = f"positions.{b}", batch.rows.shape, int(known.max(initial=-1)) + 1
        places = read_array(events, name, np.int64, shape, low=low, below=base)
        require(is_inside(np.diff(places), 1), "the events of the best matches are not in order")
        pipeline.store.append_thinned(places, batch)
        known = np.append(known, places)
    first = 0 if pipeline.plan.pattern.ranks_overall else pipeline.kept_from
    best.waiting.thaw(arrays, first, pipeline.engine.position)
    held = best.list_held()
    early = held[held < base]
    require(bool(np.isin(early, known).all()), "it needs events that it does not hold")


def _read_measures(written: list[Any]) -> dict[Measure, tuple[str, ...]]:
    measures = {}
    for each in written:
        variable, attribute, *flags, scale, path = check_list(each, "a measure", 8)
        require(all(isinstance(flag, bool) for flag in flags), "a measure is damaged")
        measure = replace(
            Measure(
                check_text(variable, "a variable"), check_text(attribute, "an attribute"), *flags
            ),
            scale=check_number(scale, "the places of decimals", 0, 19),
        )
        names = check_list(path, "the path of a measure")
        measures[measure] = tuple(check_text(name, "an attribute") for name in names)
    return measures


def _freeze_batches(batches: Iterator[EventBatch]) -> tuple[list[Any], Arrays]:
    described: list[Any] = []
    arrays: Arrays = {}
    for b, batch in enumerate(batches):
        arrays[f"rows.{b}"] = batch.rows
        if batch.which is not None:
            arrays[f"which.{b}"] = batch.which
        if batch.index is not None:
            arrays[f"index.{b}"] = batch.index
        for t, (_, table) in enumerate(batch.parts):
            arrays[f"table.{b}.{t}"] = write_table(_decode_rows(table))
        described.append(
            {
                "base": batch.base,
                "streams": [name for name, _ in batch.parts],
                "type": batch.type_column,
                "time": batch.time_column,
            }
        )
    return described, arrays


def _thaw_batches(described: list[Any], arrays: Arrays) -> Iterator[EventBatch]:
    for b, written in enumerate(described):
        batch = check_mapping(written, "a batch")
        parts = tuple(
            (check_text(name, "a stream"), read_table(arrays, f"table.{b}.{t}"))
            for t, name in enumerate(check_list(batch.get("streams"), "the streams of a batch"))
        )
        rows = read_array(arrays, f"rows.{b}", np.int64, low=0, below=MOST_EVENTS)
        sizes = np.array([table.num_rows for _, table in parts], np.int64)
        which = index = None
        if f"which.{b}" in arrays:
            shape, most = (len(rows),), len(parts)
            which = read_array(arrays, f"which.{b}", np.int16, shape, low=0, below=most)
        if f"index.{b}" in arrays:
            own = sizes[:1] if which is None else sizes[which]
            index = read_array(arrays, f"index.{b}", np.int64, (len(rows),), low=0, below=own)
        require(
            len(rows) > 0
            and (which is not None or len(parts) == 1)
            and (index is not None or (which is None and sizes[0] == len(rows))),
            "the rows of a batch are not those of its events",
        )
        yield EventBatch(
            check_number(batch.get("base"), "the position of a batch", 0, MOST_EVENTS),
            rows,
            None,
            parts,
            which,
            index,
            check_text(batch.get("type"), "the type column"),
            _check_name(batch.get("time")),
        )


def _check_columns(given: object, what: str) -> str | dict[str, str | None] | None:
    """Return a column, or columns by stream."""
    if not isinstance(given, dict):
        return None if given is None else check_text(given, what)
    return {
        check_text(stream, "a stream"): None if name is None else check_text(name, what)
        for stream, name in given.items()
    }


def _check_name(name: object) -> str | None:
    """Return the name of a time column; None where there is none."""
    return None if name is None else check_text(name, "the time column")


def _decode_rows(table: pa.Table) -> pa.Table:
    """Return the table with the rows of joined tables in place: not the whole of those tables."""
    for i, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type) and pa.types.is_struct(field.type.value_type):
            chunks = [chunk.dictionary_decode() for chunk in table.column(i).chunks]
            decoded = pa.chunked_array(chunks, field.type.value_type)
            table = table.set_column(i, field.name, decoded)
    return table


def write_table(table: pa.Table) -> NDArray[np.uint8]:
    """Return a table as an array of a frozen state."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return np.frombuffer(sink.getvalue(), np.uint8)


def read_table(arrays: Arrays, name: str) -> pa.Table:
    """Return a table of a frozen state, if it is sound."""
    written = read_array(arrays, name, np.uint8)
    try:
        table = read_stream(written.tobytes())
    except DataError as error:
        raise StateError(f"the frozen state is damaged: {error}") from error
    require(len(set(table.column_names)) == table.num_columns, "a column comes twice")
    return table
