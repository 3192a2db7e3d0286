"""A session as versioned bytes, and back.

Frozen are the engine's state, the partition keys, the events that a match can still
reach back to (Arrow's own stream format), and how far the stream has come. The bytes
name the query they belong to; thawing them with another query is refused before
anything is touched.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import astuple
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cernis.encoding.keys import under
from cernis.engine.unary.freeze import pack, unpack
from cernis.errors import StateError
from cernis.events.batch import EventBatch
from cernis.events.order import Progress
from cernis.plan.plan import Plan

if TYPE_CHECKING:
    from cernis.run.session import Session

Arrays = dict[str, NDArray[Any]]


def fingerprint(plan: Plan) -> str:
    """A short name of the query's meaning as written."""
    text = str(plan.pattern if plan.head is None else plan.conjunctive)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def freeze(session: Session) -> bytes:
    """The session's state."""
    session.forget()  # compacts the engine
    engine, arrays = session.feed.freeze()
    batches, tables = _freeze_batches(session.store.kept_batches())
    meta: dict[str, Any] = {
        "query": fingerprint(session.plan),
        "engine": engine,
        "progress": list(astuple(session.progress)),
        "reading": [
            session.reading.time,
            session.reading.type,
            session.reading.time_unit,
        ],
        "batches": batches,
        "kept_from": session.kept_from,
        "candidates": session.budget.used,
        "unordered": sorted(session.plan.unordered),
    }
    if session.sieve:
        meta["sieve"] = session.sieve.freeze()
    if session.projector is not None:
        meta["moment"], arrays["answers"] = session.projector.freeze()
    if session.keys is not None:
        arrays |= {f"keys.{name}": array for name, array in session.keys.freeze().items()}
    if session.clock is not None:
        arrays |= {f"clock.{name}": array for name, array in session.clock.freeze().items()}
    return pack(meta, {**arrays, **tables})


def thaw(session: Session, meta: Mapping[str, Any], arrays: Arrays) -> None:
    """Puts a fresh session into the state that was frozen."""
    session.feed.thaw(meta["engine"], arrays)
    if session.keys is not None:
        session.keys.thaw(under("keys.", arrays))
    if session.clock is not None:
        session.clock.thaw(under("clock.", arrays))
    session.progress = Progress(*meta["progress"])
    session.kept_from = meta["kept_from"]
    if session.engine.earliest() < session.kept_from:
        raise StateError("the frozen state is damaged: it needs events that it does not hold")
    session.budget.used = meta.get("candidates", meta.get("sieve", {}).get("candidates", 0))
    if session.sieve:
        session.sieve.thaw(meta["sieve"])
    if session.projector is not None:
        session.projector.thaw(meta.get("moment"), arrays.get("answers"))
    for batch in _thaw_batches(meta["batches"], arrays):
        session.store.append(batch)
        if session.sieve:
            keys = session.keys.encode(batch) if session.keys is not None else None
            session.sieve.note(batch, keys, session.kept_from)


def read(frozen: bytes, plan: Plan) -> tuple[dict[str, Any], Arrays]:
    """The parts of frozen bytes, if they belong to this query."""
    meta, arrays = unpack(frozen)
    if meta.get("query") != fingerprint(plan):
        raise StateError(
            "the state was frozen by another query; run the new query on the stream from its "
            "beginning, or thaw with the query that froze it"
        )
    return meta, arrays


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
            arrays[f"table.{b}.{t}"] = _table_out(table)
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
                (name, _table_in(arrays[f"table.{b}.{t}"]))
                for t, name in enumerate(batch["streams"])
            ),
            arrays.get(f"which.{b}"),
            arrays.get(f"index.{b}"),
            batch["type"],
            batch["time"],
        )


def _table_out(table: pa.Table) -> NDArray[np.uint8]:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return np.frombuffer(sink.getvalue(), np.uint8)


def _table_in(written: NDArray[np.uint8]) -> pa.Table:
    try:
        table = pa.ipc.open_stream(pa.py_buffer(written.tobytes())).read_all()
        table.validate(full=True)
        return table
    except (pa.ArrowException, OSError) as error:
        raise StateError(f"the frozen state is damaged: {error}") from error
