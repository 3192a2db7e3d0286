"""A session as versioned bytes, and back.

The bytes hold the engine's state, the partition keys, the events that a match can still
reach back to (Arrow's own stream format), and how far the stream has come. They name
their query; thawing them with another query is refused before anything is touched.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import astuple
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cernis.encoding.keys import select_arrays
from cernis.engine.unary.freeze import pack, unpack
from cernis.errors import StateError
from cernis.events.batch import EventBatch
from cernis.events.order import StreamPosition
from cernis.plan.plan import Plan
from cernis.run.feed import SlidingFeed, make_feed
from cernis.run.pipeline import Pipeline

Arrays = dict[str, NDArray[Any]]
Columns = tuple[str | None, str, str]
"""The time column, the type column, and the unit of time."""


class FrozenState(NamedTuple):
    """The parts of a frozen session."""

    meta: dict[str, Any]
    arrays: Arrays
    columns: Columns
    progress: StreamPosition
    unordered: frozenset[str]
    """The attributes that hold text."""


def fingerprint(plan: Plan) -> str:
    """Return a short name of the query's meaning as written."""
    text = str(plan.pattern if plan.head is None else plan.conjunctive)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def freeze_pipeline(pipeline: Pipeline, progress: StreamPosition, columns: Columns) -> bytes:
    """Return the state of a pipeline, and how its stream is read."""
    pipeline.forget()  # compacts the engine
    engine, arrays = pipeline.feed.freeze()
    batches, tables = _freeze_batches(pipeline.store.stored_batches())
    meta: dict[str, Any] = {
        "query": fingerprint(pipeline.plan),
        "engine": engine,
        "progress": list(astuple(progress)),
        "reading": list(columns),
        "batches": batches,
        "kept_from": pipeline.kept_from,
        "candidates": pipeline.budget.used,
        "unordered": sorted(pipeline.plan.unordered),
    }
    if pipeline.sieve:
        meta["sieve"] = pipeline.sieve.freeze()
    if pipeline.projector is not None:
        meta["moment"], arrays["answers"] = pipeline.projector.freeze()
    if pipeline.keys is not None:
        arrays |= {f"keys.{name}": array for name, array in pipeline.keys.freeze().items()}
    if pipeline.clock is not None:
        arrays |= {f"clock.{name}": array for name, array in pipeline.clock.freeze().items()}
    return pack(meta, {**arrays, **tables})


def read_state(state: bytes, plan: Plan) -> FrozenState:
    """Return the parts of frozen bytes, if they belong to this query."""
    meta, arrays = unpack(state)
    if meta.get("query") != fingerprint(plan):
        raise StateError(
            "the state was frozen by another query; run the new query on the stream from its "
            "beginning, or thaw with the query that froze it"
        )
    time, type_, time_unit = meta["reading"]
    progress, unordered = StreamPosition(*meta["progress"]), frozenset(meta.get("unordered", ()))
    return FrozenState(meta, arrays, (time, type_, time_unit), progress, unordered)


def thaw_pipeline(pipeline: Pipeline, frozen: FrozenState) -> None:
    """Put a new pipeline into the state that was frozen."""
    meta, arrays = frozen.meta, frozen.arrays
    if isinstance(pipeline.feed, SlidingFeed) and "labels" in meta["engine"]:
        # frozen before COUNT(*) had an engine of its own
        pipeline.feed = make_feed(pipeline.plan, pipeline.encode)
    pipeline.feed.thaw(meta["engine"], arrays)
    if pipeline.keys is not None:
        pipeline.keys.thaw(select_arrays("keys.", arrays))
    if pipeline.clock is not None:
        pipeline.clock.thaw(select_arrays("clock.", arrays))
    pipeline.kept_from = meta["kept_from"]
    if pipeline.engine.earliest() < pipeline.kept_from:
        raise StateError("the frozen state is damaged: it needs events that it does not hold")
    pipeline.budget.used = meta.get("candidates", meta.get("sieve", {}).get("candidates", 0))
    if pipeline.sieve:
        pipeline.sieve.thaw(meta["sieve"])
    if pipeline.projector is not None:
        pipeline.projector.thaw(meta.get("moment"), arrays.get("answers"))
    for batch in _thaw_batches(meta["batches"], arrays):
        pipeline.store.append(batch)
        if pipeline.sieve:
            keys = pipeline.keys.encode(batch) if pipeline.keys is not None else None
            pipeline.sieve.note(batch, keys, pipeline.kept_from)


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
            arrays[f"table.{b}.{t}"] = _write_table(table)
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
    for b, batch in enumerate(described):
        yield EventBatch(
            batch["base"],
            arrays[f"rows.{b}"],
            None,
            tuple(
                (name, _read_table(arrays[f"table.{b}.{t}"]))
                for t, name in enumerate(batch["streams"])
            ),
            arrays.get(f"which.{b}"),
            arrays.get(f"index.{b}"),
            batch["type"],
            batch["time"],
        )


def _write_table(table: pa.Table) -> NDArray[np.uint8]:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return np.frombuffer(sink.getvalue(), np.uint8)


def _read_table(written: NDArray[np.uint8]) -> pa.Table:
    try:
        table = pa.ipc.open_stream(pa.py_buffer(written.tobytes())).read_all()
        table.validate(full=True)
        return table
    except (pa.ArrowException, OSError) as error:
        raise StateError(f"the frozen state is damaged: {error}") from error
