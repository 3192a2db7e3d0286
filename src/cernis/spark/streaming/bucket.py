"""What happens to the events of one bucket: they wait, are read in order, and matches leave.

An event is *late* if it lies before the watermark when it comes; all others are accepted.
Events before the watermark are read in order of (time, arrival). The watermark is the same
for all buckets, and a match ends where it ends: the matches do not depend on how events were
cut into micro-batches, on the number of buckets or on restarts.

Cost contract: that of the session for each event, a sort among those that wait with it, and
what `log` writes. Knows nothing of Spark: its state store is any `Store`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np
import pyarrow as pa

from cernis.errors import StateError
from cernis.events.batch import Bools, Int64s
from cernis.spark.streaming.aside import WHOLE
from cernis.spark.streaming.log import Header, Kept, Log, Store
from cernis.spark.streaming.packing import read_blob, write_blob
from cernis.spark.streaming.waiting import Waiting
from cernis.spark.worker import ROW, STREAM, TICKS, Recognizer, Work, ticks_of

_MS = 1_000_000
_ROWS = 1 << 17
_FORGET_EVERY = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Course:
    """All that a bucket must know."""

    work: Work
    query: str
    """A name for what the state belongs to."""
    buckets: tuple[int, ...]
    """The numbers of all buckets."""
    numbered: bool
    """Whether rows come with numbers of their own."""
    shift: int = 0
    """By how many milliseconds the watermark runs ahead of the events' times."""
    window: int | None = None
    """In ticks: no match reaches further back. None: there is no telling, snapshots are made."""

    @property
    def tick(self) -> int:
        """Nanoseconds in a tick."""
        assert self.work.scale.unit_ns is not None
        return self.work.scale.unit_ns

    @property
    def ties(self) -> list[str]:
        """What orders events of one time."""
        if len(self.work.streams) == 1:
            return [ROW]
        return [ROW, STREAM] if self.numbered else [STREAM, ROW]

    def limit(self, watermark: int) -> int:
        """The first tick that is not before the watermark (in milliseconds)."""
        return -((-watermark * _MS) // self.tick)

    def passed(self, tick: int) -> int:
        """The first watermark, in milliseconds, that has passed a tick."""
        return tick * self.tick // _MS + 1


@dataclass(slots=True)
class Report:
    """What one call did, for those who watch."""

    events: int = 0
    late: int = 0
    matches: int = 0
    waiting: int = 0
    kept: int = 0
    """Bytes of state."""
    recalled: int = 0
    """Events that were read again because another worker had the bucket before."""
    engine_ms: float = 0.0
    state_ms: float = 0.0


class Bucket:
    """The live state of a bucket."""

    def __init__(self, course: Course, number: int, header: Header | None = None) -> None:
        self.course = course
        self.place = course.buckets.index(number)
        self.log = Log(header or Header(course.query))
        self.waiting = Waiting(course.ties)
        self.recognizer = Recognizer(course.work)
        self.late: pa.Table | None = None
        """The late events of the last call."""
        self.report = Report()
        self._kept_events = 0
        """How many events the session held when it last let go of some."""

    # --------------------------------------------------------------- calls

    def take(
        self,
        store: Store,
        blobs: Iterable[bytes],
        watermark: int | None,
        call: Callable[[int | None, int | None], None],
    ) -> Iterator[pa.RecordBatch]:
        """Accepts events (blobs in the order of arrival), and reads those that may be read.

        `call` is told the watermark (in milliseconds) at which there will be more to do, and
        the one it was told before; None: never.
        """
        self.report = replace(self.report, events=0, late=0, matches=0, engine_ms=0.0)
        began = perf_counter()
        tables = [read_blob(blob) for blob in blobs]
        self._accept(store, tables, watermark)
        self.report.state_ms += 1000 * (perf_counter() - began)
        if watermark is not None:
            yield from self._read(store, watermark)
        self._close(store, call)

    @property
    def _next_call(self) -> int | None:
        """The watermark (in milliseconds) at which there will be more to do; None: never."""
        course = self.course
        calls = []
        if (earliest := self.waiting.earliest) is not None:
            calls.append(course.passed(earliest))
        if course.window is not None and self.log.kept:
            calls.append(course.passed(self.log.latest + course.window))
        return min(calls) if calls else None

    # ------------------------------------------------------------- accept

    def _accept(self, store: Store, tables: list[pa.Table], watermark: int | None) -> None:
        self.late = None
        if not tables:
            return
        table = pa.concat_tables(tables, promote_options="default") if tables[1:] else tables[0]
        ticks = self._ticks(table)
        if watermark is not None:
            late = ticks < self.course.limit(watermark)
            if late.any():
                self.late = _where(table, late)
                table, ticks = _where(table, ~late), ticks[~late]
                self.report.late = self.late.num_rows
        if table.num_rows == 0:
            return
        table = self._numbered(_without(table, WHOLE))
        self.report.events = table.num_rows
        self.log.append(store, table, int(ticks.max()))
        self.waiting.add(table.append_column(TICKS, pa.array(ticks)))

    def _ticks(self, table: pa.Table) -> Int64s:
        ticks = ticks_of(self.course.work, table)
        assert ticks is not None
        return ticks

    def _numbered(self, table: pa.Table) -> pa.Table:
        """Rows with numbers: those of all buckets differ, and those of one grow."""
        if self.course.numbered:
            return table
        header = self.log.header
        first, header.rows = header.rows, header.rows + table.num_rows
        rows = np.arange(first, header.rows) * len(self.course.buckets) + self.place
        return _without(table, ROW).append_column(ROW, pa.array(rows, pa.int64()))

    # --------------------------------------------------------------- read

    def _read(self, store: Store, watermark: int) -> Iterator[pa.RecordBatch]:
        self.log.header.watermark = watermark
        limit = self.course.limit(watermark)
        session = self.recognizer.session
        session.budget.used = 0
        for table in _pieces(self.waiting.release(limit)):
            began = perf_counter()
            for batch in self.recognizer.take(table):
                self.report.matches += batch.num_rows
                self.report.engine_ms += 1000 * (perf_counter() - began)
                yield batch
                began = perf_counter()
            self.report.engine_ms += 1000 * (perf_counter() - began)
        self._forget()
        if self.course.window is not None:
            self.log.drop_before(store, limit - self.course.window)

    def _forget(self) -> None:
        """Lets go of events now and then: there are many buckets, each with its own."""
        session = self.recognizer.session
        if session.events - session.kept_from > max(_FORGET_EVERY, 2 * self._kept_events):
            session.forget()
            self._kept_events = session.events - session.kept_from

    def _close(self, store: Store, call: Callable[[int | None, int | None], None]) -> None:
        began = perf_counter()
        if self.course.window is None and self.log.outweighs:
            waiting = self.waiting.table()
            self.log.replace(
                store,
                self.recognizer.session.freeze(),
                b"" if waiting is None else write_blob(waiting),
            )
        header, report = self.log.header, self.report
        if (next_call := self._next_call) != header.timer:
            call(header.timer, next_call)
            header.timer = next_call
        report.waiting, report.kept = len(self.waiting), self.log.size
        store.put_header(header.written())
        report.state_ms += 1000 * (perf_counter() - began)

    # ------------------------------------------------------------- recall

    def catch_up(self, store: Store, header: Header) -> None:
        """Reads what another worker has written since, without looking at its matches."""
        recalled = 0
        for number, size, table in self.log.missed(store, header):
            ticks = self._ticks(table)
            self.log.keep(Kept(number, int(ticks.max()), size))
            self.waiting.add(table.append_column(TICKS, pa.array(ticks)))
            recalled += table.num_rows
        if header.watermark is not None:
            for table in _pieces(self.waiting.release(self.course.limit(header.watermark))):
                self.recognizer.pass_over(table)
                self._forget()
        self.report = Report(recalled=recalled)


def recall(course: Course, number: int, store: Store, live: Bucket | None) -> Bucket:
    """The bucket as the store has it, by way of the live one where that leads there."""
    began = perf_counter()
    written = store.header()
    if written is None:
        return Bucket(course, number)
    header = Header.read(written)
    if header.query != course.query:
        raise StateError(
            "the checkpoint belongs to another query, other columns or another number of "
            "buckets; go on with those, or begin with a new checkpoint folder"
        )
    if live is None or not live.log.leads_to(store, header):
        live = Bucket(course, number, Header(course.query, born=header.born, first=header.first))
        if header.snapshot:
            _thaw(live, store)
        live.log.header.next = header.first
    live.catch_up(store, header)
    live.report.state_ms = 1000 * (perf_counter() - began)
    return live


def _thaw(bucket: Bucket, store: Store) -> None:
    snapshot = store.snapshot()
    if snapshot is None:
        raise StateError("the checkpoint is damaged: its snapshot is missing")
    frozen, waiting = snapshot
    bucket.recognizer = Recognizer(bucket.course.work, frozen)
    if waiting:
        bucket.waiting.add(read_blob(waiting))


def _without(table: pa.Table, name: str) -> pa.Table:
    return table.drop_columns([name]) if name in table.column_names else table


def _where(table: pa.Table, mask: Bools) -> pa.Table:
    return table.filter(pa.array(mask))


def _pieces(table: pa.Table | None) -> Iterator[pa.Table]:
    if table is not None:
        for first in range(0, table.num_rows, _ROWS):
            yield table.slice(first, _ROWS)
