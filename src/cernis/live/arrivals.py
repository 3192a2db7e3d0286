"""`InputReaders`: threads that read inputs, and what they give, in the order in which it comes.

Each input has a thread that reads, cuts and parses; Arrow does most of that without holding the
interpreter. The threads put rows into one queue of bounded size: an engine that falls behind makes
them wait, and with them the pipe or the broker before them (back pressure).

Cost contract: a hand-over for each piece of an input. At most `_MOST_PIECES` pieces wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from queue import Empty, Full, Queue
from threading import Thread
from time import monotonic
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from cernis.events.batch import Int64s
from cernis.events.source import Chunk
from cernis.live.inputs import InputStopped, LiveInput

_MOST_PIECES = 64
_MOST_ROWS, _FEW_ROWS = 1 << 18, 1 << 12


class ArrivingSource(Protocol):
    """A stream that is read as it comes."""

    @property
    def name(self) -> str: ...
    @property
    def columns(self) -> pa.Schema: ...
    def chunks(self, *, tick: int) -> Iterator[Chunk]: ...


class Arrival(NamedTuple):
    """Some rows of an input, in the order in which they came."""

    input: int
    table: pa.Table
    ticks: Int64s
    position: Any
    """Where the input goes on after them."""
    done: Sequence[str] = ()
    """Files that end with them."""


class InputEnded(NamedTuple):
    """An input has ended, or failed."""

    input: int
    error: Exception | None = None
    done: Sequence[str] = ()
    position: Any = None


def join_arrivals(arrived: Sequence[Arrival | InputEnded]) -> Iterator[Arrival | InputEnded]:
    """Yield what has come, pieces of an input that follow each other as one."""
    waiting: list[Arrival] = []
    for each in arrived:
        if isinstance(each, Arrival) and (not waiting or _are_alike(waiting[0], each)):
            waiting.append(each)
            continue
        yield from _join(waiting)
        waiting = [each] if isinstance(each, Arrival) else []
        if isinstance(each, InputEnded):
            yield each
    yield from _join(waiting)


def _are_alike(one: Arrival, other: Arrival) -> bool:
    return one.input == other.input and one.table.schema.equals(other.table.schema)


def _join(arrivals: Sequence[Arrival]) -> Sequence[Arrival]:
    if len(arrivals) < 2:
        return arrivals
    last = arrivals[-1]
    table = pa.concat_tables([each.table for each in arrivals])
    if table.num_rows < _FEW_ROWS:  # what follows looks at each chunk
        table = table.combine_chunks()
    ticks = np.concatenate([each.ticks for each in arrivals])
    done = [name for each in arrivals for name in each.done]
    return [Arrival(last.input, table, ticks, last.position, done)]


class InputReaders:
    """The rows of several inputs as they come."""

    def __init__(
        self, inputs: Sequence[LiveInput], sources: Sequence[ArrivingSource], tick: int
    ) -> None:
        self.inputs = inputs
        self.running = {*range(len(inputs))}
        """The inputs that have not ended."""
        self._queue: Queue[Arrival | InputEnded | None] = Queue(_MOST_PIECES)
        """None: something else than an input has news."""
        self._is_stopped = False
        self._threads = [
            Thread(target=self._read, args=(number, source, tick), daemon=True)
            for number, source in enumerate(sources)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def take(self, seconds: float) -> list[Arrival | InputEnded]:
        """Return what has come, after some seconds at the latest."""
        found: list[Arrival | InputEnded] = []
        rows = 0
        with suppress(Empty):
            one = self._queue.get(timeout=seconds) if seconds > 0 else self._queue.get_nowait()
            while one is not None:
                found.append(one)
                rows += one.table.num_rows if isinstance(one, Arrival) else 0
                if rows >= _MOST_ROWS:
                    break
                one = self._queue.get_nowait()
        self.running -= {each.input for each in found if isinstance(each, InputEnded)}
        return found

    def wake(self) -> None:
        """Let `take` return."""
        with suppress(Full):
            self._queue.put_nowait(None)

    def stop(self, seconds: float = 1.0) -> None:
        """End all threads; what waits in the queue is not read."""
        self._is_stopped = True
        for input_ in self.inputs:
            input_.stop()
        until = monotonic() + seconds
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(0.0, until - monotonic()))
        for input_, thread in zip(self.inputs, self._threads, strict=True):
            if not thread.is_alive():
                input_.close()

    def _read(self, number: int, source: ArrivingSource, tick: int) -> None:
        input_, error = self.inputs[number], None
        try:
            for chunk in source.chunks(tick=tick):
                assert chunk.time is not None
                done = input_.take_done()
                self._put(Arrival(number, chunk.table, chunk.time, input_.position, done))
        except InputStopped:
            return
        except Exception as failed:
            error = failed
        with suppress(InputStopped):
            self._put(InputEnded(number, error, input_.take_done(), input_.position))

    def _put(self, arrival: Arrival | InputEnded) -> None:
        while not self._is_stopped:
            try:
                self._queue.put(arrival, timeout=0.2)
                return
            except Full:
                continue
        raise InputStopped
