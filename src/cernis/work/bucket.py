"""`Bucket`: accept the events of some keys, buffer them, read them in order, give matches.

An event is *late* if it lies before the watermark when it comes; all others are accepted.
Events before the watermark are read in order of (time, arrival). The watermark is the same
for all buckets. So the matches do not depend on how events are cut into micro-batches, on the
number of buckets or on restarts.

A `BucketWork` is a query of any kind in buckets. It travels to Python workers, which live on
between micro-batches and cache the buckets that they have run: the state store only has to tell
whether a cached bucket is still valid (`log`). A bucket leaves the cache while it runs, and returns
when its call has succeeded.

Cost contract: for each event, the cost of a session, of the `buffer` and of the `log`. A worker
caches the last `_MOST` buckets. Does not import Spark: its state store is any `Store`.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter

import numpy as np
import pyarrow as pa

from cernis.errors import StateError
from cernis.events.batch import Int64s
from cernis.signature import Secret, derive_key
from cernis.work.buffer import EventBuffer
from cernis.work.carriers import read_blob, write_blob
from cernis.work.columns import EVENT, LATE, REASON, TICKS
from cernis.work.log import Header, Log, Store, StoredChunk, damaged, read_snapshot
from cernis.work.reading import Recognizer, Work, drop_column
from cernis.work.report import BucketAnswer, BucketCall, MoveTimer, Report
from cernis.work.rule_record import RuleRecord
from cernis.work.side_output import select_aside, write_side_output

_MS = 1_000_000
_ROWS = 1 << 17
_MOST = 256
_STRIDE = 1 << 12
"""A rule set has fewer buckets than this. Their number may grow, and numbers of rows differ."""

_live: OrderedDict[tuple[str, int], Bucket] = OrderedDict()


@dataclass(frozen=True, kw_only=True)
class BucketWork:
    """The work of all buckets of a query, or of a rule set."""

    work: Work
    query: str
    """A digest of the query, its columns and its buckets."""
    buckets: tuple[int, ...]
    """The numbers of all buckets."""
    numbered: bool = True
    """Rows come with numbers of their own."""
    shift: int = 0
    """How many milliseconds the watermark is ahead of the events' times."""
    window: int | None = None
    """In ticks: no match reaches further back. None: no bound, so snapshots are made."""
    record: RuleRecord | None = None
    """Of a rule set: which rules a bucket has in which micro-batch."""
    side_output: str | None = None
    """The folder for events that are not read."""
    secret: Secret = field(default=None, repr=False, compare=False)
    """The secret that state is signed with."""
    is_kept: bool = True
    """The store can restore the bucket; else nothing is written to it."""
    finds_late: bool = True
    """Events that lie before the watermark when they come here are late; else that is known."""

    def run(self, store: Store, call: BucketCall) -> Iterator[BucketAnswer]:
        """Run a bucket in one micro-batch: yield blobs of matches, and a report at the end."""
        number = call.number
        bucket = restore_bucket(self, number, store, _live.pop((self.query, number), None))
        marks = (self.read_watermark(call.watermark), bucket.log.header.watermark)
        watermark = max((each for each in marks if each is not None), default=None)
        if call.rang:
            bucket.log.header.timer = None  # Spark has removed it
        bucket.revise(store, call.batch)

        def move_timer(before: int | None, after: int | None) -> None:
            marks = (None if m is None else self.write_watermark(m) for m in (before, after))
            call.move_timer(*marks)

        for batch in bucket.take(store, call.blobs, watermark, move_timer):
            yield BucketAnswer(Report(), write_blob(pa.Table.from_batches([batch])))
        if self.side_output is not None and (aside := bucket.read_aside()) is not None:
            write_side_output(self.side_output, call, aside, self.work.stream_names)
        yield BucketAnswer(bucket.measure(), rules=bucket.recognizer.list_numbers())
        _live[self.query, number] = bucket
        while len(_live) > _MOST:
            _live.popitem(last=False)

    def derive_key(self, bucket: int) -> bytes:
        """Return the key that signs the state of a bucket; empty without a secret."""
        return derive_key(self.secret, f"bucket {bucket}")

    def identify(self, bucket: int) -> str:
        """Return a digest of what the state of a bucket belongs to."""
        if self.record is None:
            return self.query
        key = self.record.groups[self.record.find_group(bucket)].key
        return f"{self.query}.{hashlib.sha256(repr(key).encode()).hexdigest()[:8]}"

    def revise(self, recognizer: Recognizer, bucket: int, batch: int) -> str:
        """Give a session the rules of a micro-batch; return a text if they are others."""
        if self.record is None:
            return ""
        texts = self.record.find_rules(bucket, batch)
        return repr(texts) if recognizer.change_rules(texts) else ""

    def number_rows(self, table: pa.Table, first: int, bucket: int) -> pa.Table:
        """Number the rows that a bucket accepts, from `first` on.

        Numbers differ between buckets, and grow inside of one.
        """
        numbers: Int64s | None = None
        if not self.numbered:
            stride = len(self.buckets) if self.record is None else _STRIDE
            rows = np.arange(first, first + table.num_rows)
            numbers = rows * stride + self.buckets.index(bucket)
        return self.work.number_rows(table, numbers)

    def split(self, table: pa.Table | None) -> Iterator[pa.Table]:
        """Yield the events in pieces that a session takes."""
        if table is not None:
            firsts = range(0, table.num_rows, _ROWS)
            yield from self.work.split(table.slice(first, _ROWS) for first in firsts)

    def read_watermark(self, milliseconds: int) -> int | None:
        """Return Spark's watermark as that of a bucket; None before the first event."""
        return milliseconds - self.shift if milliseconds > 0 else None

    def write_watermark(self, watermark: int) -> int:
        """Return the first watermark of Spark's that has reached one of a bucket."""
        return watermark + self.shift

    def mark(self, nanoseconds: int) -> int:
        """Return the first watermark that has reached a time."""
        return -(-nanoseconds // _MS)

    def limit(self, watermark: int) -> int:
        """Return the first tick that is not before the watermark (in milliseconds)."""
        return -((-watermark * _MS) // self.work.tick)

    def reach(self, watermark: int) -> int:
        """Return the first tick whose events are not read at a watermark."""
        return self.limit(watermark)

    def passed(self, tick: int) -> int:
        """Return the first watermark, in milliseconds, that has passed a tick."""
        return tick * self.work.tick // _MS + 1


class Bucket:
    """The live state of a bucket."""

    def __init__(self, stream: BucketWork, number: int, header: Header | None = None) -> None:
        self.stream = stream
        self.number = number
        self.log = Log(header or Header(stream.identify(number)))
        self.buffer = EventBuffer(stream.work.list_ties(numbered=stream.numbered))
        self.recognizer = stream.work.open()
        self.late: pa.Table | None = None
        """The late events of the last call."""
        self.rejected: list[pa.Table] = []
        """The events of the last call that were rejected before they came here."""
        self.report = Report()

    def take(
        self, store: Store, blobs: Iterable[bytes], watermark: int | None, call: MoveTimer
    ) -> Iterator[pa.RecordBatch]:
        """Accept events that have travelled as blobs, in the order of arrival."""
        yield from self.take_rows(store, [read_blob(blob) for blob in blobs], watermark, call)

    def take_rows(
        self,
        store: Store,
        tables: Sequence[pa.Table],
        watermark: int | None,
        call: MoveTimer,
    ) -> Iterator[pa.RecordBatch]:
        """Accept events (in the order of arrival), and read those before the watermark.

        `call` moves the bucket's timer: it gets the old and the new watermark (in
        milliseconds) at which there is more to do; None: never.
        """
        self.report = replace(self.report, events=0, late=0, matches=0, engine_ms=0.0)
        began = perf_counter()
        self.rejected = [table for table in tables if REASON in table.column_names]
        accepted = self._accept([t for t in tables if REASON not in t.column_names], watermark)
        self.report.state_ms += 1000 * (perf_counter() - began)
        if watermark is not None:
            yield from self._read(store, watermark)
        if accepted is not None and self.stream.is_kept:  # matches do not wait for the log
            began = perf_counter()
            self._write_log(store, *accepted)
            self.report.state_ms += 1000 * (perf_counter() - began)
        self._close(store, call)

    def read_aside(self) -> pa.Table | None:
        """Return the events of the last call that were not read, with their reasons."""
        aside = self.rejected
        if self.late is not None:
            reasons = pa.array([LATE] * self.late.num_rows)
            aside = [*aside, select_aside(self.late.append_column(REASON, reasons))]
        return pa.concat_tables(aside) if aside else None

    @property
    def _next_call(self) -> int | None:
        """The watermark (in milliseconds) at which there is more to do; None: never."""
        stream = self.stream
        calls = []
        if (earliest := self.buffer.earliest) is not None:
            calls.append(stream.passed(earliest))
        if (end := self.recognizer.first_end) is not None:
            calls.append(stream.mark(end))
        if (deadline := self.recognizer.next_deadline) is not None:
            calls.append(stream.passed(deadline))
        if stream.window is not None and self.log.kept:
            calls.append(stream.passed(self.log.latest + stream.window))
        return min(calls) if calls else None

    def _accept(
        self, tables: list[pa.Table], watermark: int | None
    ) -> tuple[pa.Table, Int64s] | None:
        """Buffer the events that are not late; return them and their times."""
        self.late = None
        if not tables:
            return None
        table = pa.concat_tables(tables, promote_options="default") if tables[1:] else tables[0]
        stream, header = self.stream, self.log.header
        ticks = stream.work.read_ticks(table)
        if watermark is not None and stream.finds_late:
            late = ticks < stream.limit(watermark)
            if late.any():
                own = stream.work.select_events(table.filter(pa.array(late)))
                self.late, self.report.late = own if own.num_rows else None, own.num_rows
                table, ticks = table.filter(pa.array(~late)), ticks[~late]
        if table.num_rows == 0:
            return None
        self.report.events = stream.work.select_events(table).num_rows
        table = stream.number_rows(drop_column(table, EVENT), header.rows, self.number)
        header.rows += table.num_rows
        self.buffer.add(table.append_column(TICKS, pa.array(ticks)))
        return table, ticks

    def _write_log(self, store: Store, table: pa.Table, ticks: Int64s) -> None:
        """Log the events that a bucket needs to be restored: none a window before the watermark."""
        watermark, window = self.log.header.watermark, self.stream.window
        if window is not None and watermark is not None:
            needed = ticks >= self.stream.limit(watermark) - window
            if not needed.all():
                table, ticks = table.filter(pa.array(needed)), ticks[needed]
        if table.num_rows:
            self.log.append(store, table, int(ticks.max()))

    def _read(self, store: Store, watermark: int) -> Iterator[pa.RecordBatch]:
        self.log.header.watermark = watermark
        limit = self.stream.limit(watermark)
        self.recognizer.renew_budget()
        for table in self.stream.split(self.buffer.release(self.stream.reach(watermark))):
            began = perf_counter()
            for batch in self.recognizer.take(table):
                self.report.matches += batch.num_rows
                self.report.engine_ms += 1000 * (perf_counter() - began)
                yield batch
                began = perf_counter()
            self.report.engine_ms += 1000 * (perf_counter() - began)
        for batch in self.recognizer.pass_time(limit * self.stream.work.tick):
            self.report.matches += batch.num_rows
            yield batch
        self.recognizer.forget()
        if self.stream.window is not None:
            self.log.drop_before(store, limit - self.stream.window)

    def _close(self, store: Store, call: MoveTimer) -> None:
        began = perf_counter()
        if self.stream.window is None and self.log.needs_snapshot:
            self._write_snapshot(store)
        header = self.log.header
        if (next_call := self._next_call) != header.timer:
            call(header.timer, next_call)
            header.timer = next_call
        if self.stream.is_kept:
            store.put_header(header.to_bytes(self.stream.derive_key(self.number)))
        self.report.state_ms += 1000 * (perf_counter() - began)

    def measure(self) -> Report:
        """Return the numbers of the last call, and those of the state, which are counted now."""
        self.report.waiting, self.report.kept = len(self.buffer), self.log.size
        for name, number in self.recognizer.count_state()._asdict().items():
            setattr(self.report, name, number)
        return self.report

    def _write_snapshot(self, store: Store) -> None:
        waiting = self.buffer.table()
        held = b"" if waiting is None else write_blob(waiting)
        self.log.write_snapshot(store, self.recognizer.freeze(), held)

    def revise(self, store: Store, batch: int) -> None:
        """Go on with the rules of a micro-batch, if there are rules.

        They read the events that the watermark passes in it. A snapshot under the new rules
        replaces the log, so that a log is always read again by the rules that have read it. The
        state gets another token: a worker whose memory is older has other rules, or rules that
        were removed since and have come back without state.
        """
        if change := self.stream.revise(self.recognizer, self.number, batch):
            self._write_snapshot(store)
            self.log.mark(change)

    def catch_up(self, store: Store, header: Header) -> None:
        """Read what another worker has written since, without reporting matches."""
        recalled = 0
        for number, size, table in self.log.read_missed(store, header):
            ticks = self.stream.work.read_ticks(table)
            self.log.add(StoredChunk(number, int(ticks.max()), size))
            self.buffer.add(table.append_column(TICKS, pa.array(ticks)))
            recalled += table.num_rows
        if header.watermark is not None:
            limit = self.stream.limit(header.watermark)
            reach = self.stream.reach(header.watermark)
            for table in self.stream.split(self.buffer.release(reach)):
                self.recognizer.replay(table)
                self.recognizer.forget()
            for _ in self.recognizer.pass_time(limit * self.stream.work.tick):
                pass  # reported before
        self.report = Report(recalled=recalled)


def restore_bucket(stream: BucketWork, number: int, store: Store, live: Bucket | None) -> Bucket:
    """Return the bucket in the state of the store; continues the live one if it can."""
    began = perf_counter()
    written = store.header()
    if written is None:
        return Bucket(stream, number)
    try:
        header = Header.from_bytes(written, stream.derive_key(number))
        bucket = _restore(stream, number, store, live, header)
    except StateError as error:
        raise StateError(f"bucket {number}: {error}") from error
    except (pa.ArrowException, LookupError, TypeError, ValueError) as error:
        # sealed content that no version of Cernis has written
        raise StateError(f"bucket {number}: {damaged(str(error))}") from error
    bucket.report.state_ms = 1000 * (perf_counter() - began)
    return bucket


def _restore(
    stream: BucketWork, number: int, store: Store, live: Bucket | None, header: Header
) -> Bucket:
    if header.query != stream.identify(number):
        raise StateError(
            "the checkpoint belongs to another query, other columns or another number of "
            "buckets; go on with those, or begin with a new checkpoint folder"
        )
    if live is not None and not stream.work.has_inputs_of(live.stream.work):
        live = None
    if live is None or not live.log.leads_to(store, header):
        fresh = Header(header.query, born=header.born, first=header.first, next=header.first)
        live = Bucket(stream, number, fresh)
        if header.snapshot:
            frozen, waiting = read_snapshot(store, header)
            live.recognizer = stream.work.open(frozen)
            if waiting is not None:
                live.buffer.add(waiting)
    live.stream = stream
    live.catch_up(store, header)
    return live
