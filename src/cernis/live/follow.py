"""`follow`: the matches of live inputs in Python, one by one as they are certain.

    for match in cernis.follow(query, "trades.jsonl"): ...
    async for match in cernis.follow(query, queue): ...

One consumer iterates; another one is refused while it does. It also keeps the pace: no further
events are read while it works on a match, so that inputs wait (back pressure). A loop that is left
by `break`, an exception or the cancellation of its task ends the threads that read.

`EventQueue` is an input that Python code puts events into, from any thread.

Cost contract: that of `LiveRun`; an asyncio loop waits for a step in a thread, not for the engine.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from queue import Empty, Full, Queue
from threading import Lock
from time import time_ns
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from cernis.errors import CernisError, DataError, StateError
from cernis.events.reading.files import Opening
from cernis.events.reading.reader import Piece, Reader
from cernis.events.source import read_events
from cernis.live.connect import open_input
from cernis.live.inputs import ArrivedTexts, LiveInput
from cernis.live.prepare import LiveOptions, prepare_query, prepare_rules
from cernis.live.run import LiveRun, Pace, resume_inputs
from cernis.live.sinks import LINE, FunctionSink
from cernis.live.store import LocalStore
from cernis.run.query import Query
from cernis.run.rules.rule_set import RuleSet
from cernis.run.session import RunOptions
from cernis.work.endpoints import parse_live_source
from cernis.work.interval import parse_milliseconds

if TYPE_CHECKING:
    from cernis.rdf.query import GraphQuery

_STEP = 0.1
_MOST_WAITING = 1024
Interval = str | timedelta


class EventQueue(LiveInput):
    """Events that Python code puts in: a dict, a list of dicts, or an Arrow table at a time.

    For a query over RDF, a put is the text of one event, as N-Quads.
    """

    def __init__(self, size: int = _MOST_WAITING) -> None:
        """At most `size` puts wait to be read; `put` then waits, too."""
        super().__init__("the queue")
        self._queue: Queue[Any] = Queue(size)
        self._is_closed = False
        self._count = 0

    def put(self, events: Any, *, timeout: float | None = None) -> None:
        """Add events, in order of time; wait for room, at most some seconds."""
        if self._is_closed:
            raise StateError("the queue is closed: no events come after that")
        try:
            self._queue.put([events] if isinstance(events, Mapping) else events, timeout=timeout)
        except Full:
            raise StateError("the queue is full: its reader falls behind") from None

    def close(self) -> None:
        """Say that no events come any more."""
        self._is_closed = True

    def take(self) -> Any:
        """Return what was put in next; None: nothing comes any more."""
        while True:
            try:
                return self._queue.get(timeout=_STEP)
            except Empty:
                if self._is_closed and self._queue.empty():
                    return None
                self.wait(0)

    def take_texts(self) -> ArrivedTexts | None:
        """Return the texts that were put in, for RDF; None: nothing comes any more."""
        found = [self.take()]
        if found[0] is None:
            return None
        with suppress(Empty):
            while len(found) < _MOST_WAITING:
                found.append(self._queue.get_nowait())
        for each in found:
            if not isinstance(each, str | bytes):
                raise DataError(f"the queue: an event of RDF is text, not {type(each).__name__}")
        texts = [each.encode() if isinstance(each, str) else each for each in found]
        numbers = np.arange(self._count, self._count + len(texts))
        self._count += len(texts)
        return ArrivedTexts(texts, numbers, np.full(len(texts), time_ns()))

    def open_reader(self, opening: Opening) -> Reader:
        return _QueuePieces(self, opening)


@dataclass
class _QueuePieces:
    """The rows of a queue."""

    input: EventQueue
    opening: Opening
    reopens: bool = False
    count: int | None = None
    nbytes: int | None = None

    def __post_init__(self) -> None:
        self.label = self.input.label
        first = self.input.take()
        self._next = [] if first is None else [self._read(first)]
        self.schema = self._next[0].schema if self._next else pa.schema({})
        if first is None:
            self.count = 0

    def _read(self, events: Any) -> Reader:
        return read_events(self.label, events, self.opening)

    def pieces(self, columns: Sequence[str] | None) -> Iterator[Piece]:
        while True:
            if not self._next:
                events = self.input.take()
                if events is None:
                    return
                self._next = [self._read(events)]
            yield from self._next.pop().pieces(columns)


class FollowedMatches:
    """The matches of a query or of rules, as dicts: iterate over them, also with `async for`."""

    def __init__(self, run: LiveRun) -> None:
        self._run = run
        self._lock = Lock()
        self._stepping = Lock()
        """A task that is cancelled leaves its step behind, in a thread."""
        self._found: deque[dict[str, Any]] = deque()
        self._is_done = False
        run.sinks = [FunctionSink(self._take)]

    def _take(self, batch: pa.RecordBatch) -> None:
        if LINE in batch.schema.names:
            self._found += map(json.loads, batch.column(LINE).to_pylist())
        else:
            self._found += batch.to_pylist()

    def _step(self) -> None:
        """Read what has come; at the end of all inputs, what waits for it."""
        run = self._run
        with self._stepping:
            if run.arrivals.running or run.step(0):
                run.step(_STEP)
            else:
                run.finish()
                run.commit()
                self._is_done = True

    def __iter__(self) -> Iterator[dict[str, Any]]:
        with self._reading():
            while not self._is_done:
                self._step()
                while self._found:
                    yield self._found.popleft()

    async def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        with self._reading():
            while not self._is_done:
                await asyncio.to_thread(self._step)
                while self._found:
                    yield self._found.popleft()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Begin and end the run, for one consumer."""
        if not self._lock.acquire(blocking=False):
            raise StateError("the matches are read already; follow the inputs once more instead")
        self._run.start()
        try:
            yield
        finally:
            with self._stepping:
                self._run.close()
                self._run.store.close()


def follow(
    query: Query | RuleSet | GraphQuery,
    source: Any,
    *,
    checkpoint: str | Path | None = None,
    lateness: Interval = "0s",
    idle: Interval | None = None,
    ahead: Interval | None = None,
    once: bool = False,
    row: str | None = None,
    **reading: Any,
) -> FollowedMatches:
    """Return the matches in inputs that grow, as they are certain.

    `source` is what `cernis stream` takes (`-`, a file, a folder, `tcp://…`), an
    `EventQueue`, or a dict of stream names to these. Events may be `lateness` late, and at most
    `ahead` of the clock; after `idle` without events, time passes as on the clock. `row` is a
    column of row numbers, which also orders events of one time; without it, rows are numbered as
    they come. With a `checkpoint`, another run goes on where this one ends: matches since its
    last commit come again. `reading` are the options of `Query.run` that say how events are read,
    with `background` and `live` for RDF. A match is a dict, of a query with the columns of
    `Matches.to_arrow`, of rules and of RDF as `cernis stream` writes it. Waits for the first
    events.
    """
    named = source if isinstance(source, Mapping) else {None: source}
    inputs = dict(_open(name, each, once=once) for name, each in named.items())
    store = LocalStore(None if checkpoint is None else Path(checkpoint))
    resume_inputs(inputs, store)
    silence = None if idle is None else parse_milliseconds("idle", idle) / 1000
    own = {name: reading.pop(name) for name in ("background", "live") if name in reading}
    options = LiveOptions(reading=RunOptions(**reading), row=row)
    if isinstance(query, RuleSet):
        prepared = prepare_rules(query, inputs, options)
    elif isinstance(query, Query):
        prepared = prepare_query(query, inputs, options, "events")
    else:
        from cernis.live.rdf import GraphOptions, prepare_graphs

        goes_on = checkpoint is not None
        unit = reading.get("time_unit")
        graphs = GraphOptions(**own, unit=unit, idle=silence, goes_on=goes_on)
        prepared = prepare_graphs(query, inputs, options, "lines", graphs)
    pace = Pace(
        lateness=parse_milliseconds("lateness", lateness) / 1000,
        idle=silence,
        ahead=None if ahead is None else parse_milliseconds("ahead", ahead) / 1000,
    )
    return FollowedMatches(LiveRun(prepared, inputs, store, [], pace))


def _open(name: str | None, source: Any, *, once: bool) -> tuple[str, LiveInput]:
    if isinstance(source, LiveInput):
        return name or "S", source
    if not isinstance(source, str | Path):
        raise CernisError(
            f"cannot follow {type(source).__name__!r}; expected a path, a URI or an EventQueue"
        )
    named, parsed = parse_live_source(str(source))
    return name or named or "S", open_input(parsed, once=once)
