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
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from queue import Empty, Full, Queue
from threading import Lock
from typing import Any

import pyarrow as pa

from cernis.errors import CernisError, StateError
from cernis.events.files import Opening
from cernis.events.reader import Piece, Reader
from cernis.events.source import read_events
from cernis.live.inputs import LiveInput
from cernis.live.places import open_input
from cernis.live.prepare import prepare_query, prepare_rules
from cernis.live.run import LiveRun, Pace, resume_inputs
from cernis.live.sinks import LINE, FunctionSink
from cernis.live.store import LocalStore
from cernis.run.query import Query
from cernis.run.rules.rule_set import RuleSet
from cernis.run.session import RunOptions
from cernis.work.endpoints import parse_live_source
from cernis.work.interval import parse_milliseconds

_STEP = 0.1
_MOST_WAITING = 1024
Interval = str | timedelta


class EventQueue(LiveInput):
    """Events that Python code puts in: a dict, a list of dicts, or an Arrow table at a time."""

    def __init__(self, size: int = _MOST_WAITING) -> None:
        """At most `size` puts wait to be read; `put` then waits, too."""
        super().__init__("the queue")
        self._queue: Queue[Any] = Queue(size)
        self._is_closed = False

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
        self._found: deque[dict[str, Any]] = deque()
        self._is_done = False
        run.sink = FunctionSink(self._take)

    def _take(self, batch: pa.RecordBatch) -> None:
        if LINE in batch.schema.names:
            self._found += map(json.loads, batch.column(LINE).to_pylist())
        else:
            self._found += batch.to_pylist()

    def _step(self) -> None:
        """Read what has come; at the end of all inputs, what waits for it."""
        run = self._run
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
            self._run.close()
            self._run.store.close()


def follow(
    query: Query | RuleSet,
    source: Any,
    *,
    checkpoint: str | Path | None = None,
    lateness: Interval = "0s",
    idle: Interval | None = None,
    ahead: Interval | None = None,
    once: bool = False,
    **reading: Any,
) -> FollowedMatches:
    """Return the matches in inputs that grow, as they are certain.

    `source` is what `cernis stream --engine local` takes (`-`, a file, a folder, `tcp://…`), an
    `EventQueue`, or a dict of stream names to these. Events may be `lateness` late, and at most
    `ahead` of the clock; after `idle` without events, time passes as on the clock. With a
    `checkpoint`, another run goes on where this one ends: matches since its last commit come
    again. `reading` are the options of `Query.run` that say how events are read. A match is a dict,
    of a query with the columns of `Matches.to_arrow`, of rules as `cernis stream` writes it.
    Waits for the first events.
    """
    named = source if isinstance(source, Mapping) else {None: source}
    inputs = dict(_open(name, each, once=once) for name, each in named.items())
    store = LocalStore(None if checkpoint is None else Path(checkpoint))
    resume_inputs(inputs, store)
    options = RunOptions(**reading)
    if isinstance(query, RuleSet):
        prepared = prepare_rules(query, inputs, options)
    else:
        prepared = prepare_query(query, inputs, options, "events")
    pace = Pace(
        lateness=parse_milliseconds("lateness", lateness) / 1000,
        idle=None if idle is None else parse_milliseconds("idle", idle) / 1000,
        ahead=None if ahead is None else parse_milliseconds("ahead", ahead) / 1000,
    )
    return FollowedMatches(LiveRun(prepared, inputs, store, FunctionSink(lambda _: None), pace))


def _open(name: str | None, source: Any, *, once: bool) -> tuple[str, LiveInput]:
    if isinstance(source, LiveInput):
        return name or "S", source
    if not isinstance(source, str | Path):
        raise CernisError(
            f"cannot follow {type(source).__name__!r}; expected a path, a URI or an EventQueue"
        )
    named, place = parse_live_source(str(source))
    return name or named or "S", open_input(place, once=once)
