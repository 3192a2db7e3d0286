"""Sources into `EventBatch`es in final order: by time, then by the order given.

An event that was handed out cannot be taken back. So whether a source is in order is decided
before its first event leaves:

* a table in memory: one vectorized look at its time column;
* a file of up to `LOAD_BYTES`: read once and kept;
* a larger file: a pass over the time column alone (projected in Parquet; in text the
  other columns are split but not converted), then the real pass. Only if the first pass finds
  late events is all of it loaded and sorted;
* text from a pipe: read up to `LOAD_BYTES`, and sorted if it ends before; checked as it flows
  otherwise, and where the user says that it is in order;
* another input that can be read only once: checked as it flows; a late event is an error.

A sort is stable and leaves a note; more than a fourth of the machine's memory is not sorted.
Streams are merged a chunk at a time: events up to the earliest chunk end among them are final, and
one stable argsort of their times interleaves them. Memory: one chunk per stream (unless sorted).

Rows of several inputs are numbered one after the other. The passes above have counted
the rows of earlier inputs before a merge starts, so no extra pass is needed; an
earlier input that can be read only once is read into memory (a pipe at most `LOAD_BYTES` of it).
Without any time column the inputs follow one another.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain
from math import ceil, floor

import numpy as np
import pyarrow as pa

from cernis.errors import DataError
from cernis.events.batch import EventBatch, Int64s
from cernis.events.column_types import join_chunks
from cernis.events.reading.reader import BATCH_ROWS
from cernis.events.source import Chunk, Source

LOAD_BYTES = 1 << 26


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """Where a stream has come to: the next batch continues from here."""

    position: int = 0
    row: int = 0
    time: int | None = None
    unit_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Scale:
    """Nanoseconds in a tick (None without a time column), and in the column's own unit."""

    unit_ns: int | None
    own: int = 1

    def ticks(self, window_ns: Fraction, what: str = "a time window") -> int:
        """Return the whole ticks in a time window.

        Times are whole ticks, so a difference is at most the window exactly when it is
        at most the window's floor.
        """
        if self.unit_ns is None:
            raise DataError(
                f"{what} needs a time column: no input has a column 'ts', and none was named"
            )
        return floor(window_ns / self.unit_ns)

    def plain_ticks(self, size: Fraction, strict: bool = False) -> int:
        """Return the most ticks in a difference that is bounded in the column's own unit.

        Without a time column, ticks are positions.
        """
        exact = size if self.unit_ns is None else size * Fraction(self.own, self.unit_ns)
        return ceil(exact) - 1 if strict else floor(exact)


class Ordering:
    """The events of the sources in final order, as an iterable of batches.

    `notes` fills during the iteration. `progress` is where the last batch ended; once all batches
    are given, it counts trailing bad rows as well.

    >>> from cernis.events.source import open_events
    >>> events = Ordering(open_events({"S": [{"type": "A", "ts": 9}, {"type": "B", "ts": 4}]}))
    >>> [(batch.rows.tolist(), batch.time.tolist()) for batch in events], events.notes
    ([([1, 0], [4, 9])], ["events were out of order: 1 row sorted by 'ts'"])
    """

    def __init__(
        self,
        sources: Sequence[Source],
        *,
        after: StreamPosition | None = None,
        load_bytes: int = LOAD_BYTES,
        join: Callable[[EventBatch], EventBatch] | None = None,
        in_order: bool = False,
    ) -> None:
        """`join` adds columns to a batch, and drops the events that are not in the stream.

        With `in_order`, no row of a pipe is late.
        """
        self.sources = tuple(sources)
        self._join = join or (lambda batch: batch)
        self.after = after or StreamPosition()
        self.progress = self.after
        self.notes: list[str] = []
        self._load_bytes, self._in_order = load_bytes, in_order
        _check_alike(self.sources)
        if self.after.unit_ns is not None:
            _check_timed(self.sources)
        timed = (source.time_column for source in self.sources if source.time_column)
        self.time_column = next(timed, None)
        ticks = [s.tick for s in self.sources if s.tick is not None]
        self.unit_ns: int | None = self.after.unit_ns or (min(ticks) if ticks else None)

    @property
    def scale(self) -> Scale:
        """The units of time."""
        own = min((s.unit for s in self.sources if not s.is_blank), default=self.unit_ns or 1)
        is_blank = all(source.is_blank for source in self.sources)
        return Scale(1 if self.unit_ns is None and is_blank else self.unit_ns, own)

    def __iter__(self) -> Iterator[EventBatch]:
        self.progress = self.after
        self.notes.clear()
        for batch in self._concatenate() if self.unit_ns is None else self._merge():
            if self.after.time is not None and batch.base == self.after.position:
                self._check_follows(batch)
            last = None if batch.time is None else int(batch.time[-1])
            row = max(self.progress.row, int(batch.rows.max()) + 1)
            self.progress = StreamPosition(batch.base + len(batch), row, last, self.unit_ns)
            yield batch
        counted = self.after.row + sum(s.reader.count or 0 for s in self.sources)
        row = max(self.progress.row, counted)
        self.progress = replace(self.progress, row=row, unit_ns=self.unit_ns)

    def _check_follows(self, batch: EventBatch) -> None:
        earliest, handled = batch.time, self.after.time
        if earliest is not None and handled is not None and earliest[0] < handled:
            raise DataError(
                f"row {batch.rows[0]}, column {self.time_column!r}: the event is earlier than "
                "one that was handled before; sort the events, or hold them back until they are "
                "in order"
            )

    def _concatenate(self) -> Iterator[EventBatch]:
        position, first = self.after.position, self.after.row
        for source in self.sources:
            for chunk in source.chunks():
                if not len(chunk.rows):
                    continue
                batch = self._join(_batch(position, source, chunk, first))
                if len(batch):
                    yield batch
                    position += len(batch)
            first += source.reader.count or 0

    def _merge(self) -> Iterator[EventBatch]:
        assert self.unit_ns is not None
        inputs, position = [], self.after.position
        offset = self.after.row
        for i, source in enumerate(self.sources):
            must_count = i + 1 < len(self.sources)
            chunks, count = self._open_in_order(source, self.unit_ns, must_count)
            inputs.append((source, offset, chunks))
            offset += count or 0
        if len(inputs) == 1:
            source, offset, chunks = inputs[0]
            batches: Iterable[EventBatch] = (
                _batch(0, source, chunk, offset) for chunk in chunks() if len(chunk.rows)
            )
        else:
            batches = _interleave_inputs([(s, o, c()) for s, o, c in inputs])
        for batch in map(self._join, batches):
            if len(batch):
                yield replace(batch, base=position)
                position += len(batch)

    def _open_in_order(
        self, source: Source, tick: int, must_count: bool
    ) -> tuple[Callable[[], Iterable[Chunk]], int | None]:
        """Return a function that reads the source in order of time, and its number of rows."""

        def stream() -> Iterator[Chunk]:
            return source.chunks(tick=tick)

        if source.is_pipe:
            return self._open_pipe(source, stream(), must_count)
        small = source.reader.nbytes is not None and source.reader.nbytes <= self._load_bytes
        if not source.in_memory and (small or (must_count and not source.reopens)):
            kept = list(stream())
            late = _count_late(kept)
            chunks = self._sort(source, kept, late) if late else (lambda: kept)
            return chunks, source.reader.count
        if not source.reopens:
            return (lambda: _check_order(source, stream())), None
        late = _count_late(source.chunks(tick=tick, only_time=True))
        if not late:
            return stream, source.reader.count
        return self._sort(source, _load(source, stream()), late), source.reader.count

    def _open_pipe(
        self, source: Source, chunks: Iterator[Chunk], must_count: bool
    ) -> tuple[Callable[[], Iterable[Chunk]], int | None]:
        """Return a function that reads a pipe in order of time, and its number of rows."""
        if self._in_order and not must_count:
            return (lambda: _check_order(source, chunks)), None
        kept, size = [], 0
        for chunk in chunks:
            kept.append(chunk)
            size += chunk.table.nbytes
            if size <= self._load_bytes:
                continue
            if must_count:
                raise DataError(
                    f"{source.label}: more than {self._load_bytes:,} bytes through a pipe, before "
                    "another input; make it the last, or give a file"
                )
            return (lambda: _check_order(source, chain(kept, chunks))), None
        late = _count_late(kept)
        return self._sort(source, kept, late) if late else (lambda: kept), source.reader.count

    def _sort(
        self, source: Source, chunks: list[Chunk], late: int
    ) -> Callable[[], Iterator[Chunk]]:
        """Leave a note, and return a function that gives the chunks sorted."""
        about = f"{source.label}: " if len(self.sources) > 1 else ""
        rows = "row" if late == 1 else "rows"
        self.notes.append(
            f"{about}events were out of order: {late} {rows} sorted by {source.time_column!r}"
        )
        return lambda: _sort_chunks(chunks)


def _check_alike(sources: Sequence[Source]) -> None:
    sources = [source for source in sources if not source.is_blank]
    timed = [s for s in sources if s.time_column is not None]
    if timed and len(timed) < len(sources):
        lacking = next(s for s in sources if s.time_column is None)
        raise DataError(
            f"{lacking.label}: no column {timed[0].time_column!r} for the time, "
            f"by which it is merged with {timed[0].label}"
        )


def _check_timed(sources: Sequence[Source]) -> None:
    """Raise if events have no times, where those before them had some."""
    for source in sources:
        if source.time_column is None and not source.is_blank:
            raise DataError(
                f"{source.label}: no column for the time, which the events before these have"
            )


def most_sorted() -> int:
    """Return how many bytes of events are sorted in memory: sorting takes several times as much.

    A fourth of the machine's memory, unless CERNIS_SORT_BYTES says otherwise.
    """
    setting = os.environ.get("CERNIS_SORT_BYTES", "")
    if setting and not setting.isdecimal():
        raise DataError(f"CERNIS_SORT_BYTES={setting[:80]}: expected a number of bytes")
    if setting:
        return int(setting)
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4
    except (AttributeError, ValueError, OSError):  # not every system tells
        return 1 << 32


def _load(source: Source, chunks: Iterable[Chunk]) -> list[Chunk]:
    """Return all chunks of a source that must be sorted, if they are not too large for that."""
    most, size = most_sorted(), 0
    kept = []
    for chunk in chunks:
        kept.append(chunk)
        size += chunk.table.nbytes
        if size > most:
            raise DataError(
                f"{source.label}: the events are out of order, and more than {most:,} bytes of "
                "them would have to be sorted in memory; sort the file first (CERNIS_SORT_BYTES "
                "allows more)"
            )
    return kept


def _count_late(chunks: Iterable[Chunk]) -> int:
    """Return how many events are earlier than one before them."""
    late, latest = 0, None
    for chunk in chunks:
        time = chunk.time
        assert time is not None
        if not len(time):
            continue
        if (latest is not None and time[0] < latest) or (time[1:] < time[:-1]).any():
            start = time[0] if latest is None else latest
            reached = np.maximum(np.maximum.accumulate(time), start)
            late += int(np.count_nonzero(time < reached))
            latest = reached[-1]
        else:
            latest = time[-1]
    return late


def _check_order(source: Source, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
    """Pass chunks on; raise at the first late event."""
    latest = None
    for chunk in chunks:
        time = chunk.time
        assert time is not None
        before = np.concatenate([time[:1] if latest is None else [latest], time[:-1]])
        falls = np.flatnonzero(time < before)
        if len(falls):
            raise DataError(
                f"{source.label}, row {chunk.rows[falls[0]]}, column {source.time_column!r}: "
                "the event is earlier than the one before it, and the input can be read only "
                "once; sort it first, or pass all of it as one table"
            )
        if len(time):
            latest = time[-1]
        yield chunk


def _sort_chunks(chunks: list[Chunk]) -> Iterator[Chunk]:
    times = [c.time for c in chunks if c.time is not None]
    time, rows = np.concatenate(times), np.concatenate([c.rows for c in chunks])
    table = pa.concat_tables([c.table for c in chunks], promote_options="permissive")
    table = join_table(table)
    order = np.argsort(time, kind="stable")
    for first in range(0, len(order), BATCH_ROWS):
        part = order[first : first + BATCH_ROWS]
        yield Chunk(table.take(pa.array(part)), rows[part], time[part])


def join_table(table: pa.Table) -> pa.Table:
    """Return the table with one chunk per column, which makes taking rows direct.

    A column that is too large for one chunk leaves the table as it is.
    """
    try:
        return pa.table([join_chunks(column) for column in table.columns], names=table.column_names)
    except pa.ArrowInvalid:
        return table


# ------------------------------------------------------------------ merging


class _SourceCursor:
    """One stream in the merge: the rest of its current chunk, and the chunks to come."""

    def __init__(self, source: Source, offset: int, chunks: Iterable[Chunk]) -> None:
        self.source, self.offset = source, offset
        self._chunks = iter(chunks)
        self.table: pa.Table | None = None
        self.rows: Int64s = np.empty(0, np.int64)
        self.time: Int64s = self.rows
        self._advance()

    @property
    def is_over(self) -> bool:
        return self.table is None

    def take(self, count: int) -> Chunk:
        """Take the next `count` rows of the current chunk."""
        assert self.table is not None
        chunk = Chunk(
            self.table.slice(0, count), self.rows[:count] + self.offset, self.time[:count]
        )
        if count == len(self.rows):
            self._advance()
        else:
            self.table = self.table.slice(count)
            self.rows, self.time = self.rows[count:], self.time[count:]
        return chunk

    def _advance(self) -> None:
        for chunk in self._chunks:
            if len(chunk.rows):
                assert chunk.time is not None
                self.table, self.rows, self.time = chunk.table, chunk.rows, chunk.time
                return
        self.table = None


def _interleave_inputs(
    inputs: Sequence[tuple[Source, int, Iterable[Chunk]]],
) -> Iterator[EventBatch]:
    """Merge inputs that are in order of time; ties go by the order of inputs."""
    open_inputs = [each for each in (_SourceCursor(*given) for given in inputs) if not each.is_over]
    while open_inputs:
        # The first input whose chunk ends earliest is used up. Inputs before it have nothing
        # more at that time; inputs after it must let its own next events go first.
        ends = [each.time[-1] for each in open_inputs]
        first = int(np.argmin(ends))
        counts = [
            int(np.searchsorted(each.time, ends[first], side="right" if i <= first else "left"))
            for i, each in enumerate(open_inputs)
        ]
        taken = [(e.source, e.take(n)) for e, n in zip(open_inputs, counts, strict=True) if n]
        open_inputs = [each for each in open_inputs if not each.is_over]
        yield _interleave(taken)


def _interleave(taken: Sequence[tuple[Source, Chunk]]) -> EventBatch:
    """Return one batch of chunks of several sources, in order of time."""
    if len(taken) == 1:
        return _batch(0, *taken[0], 0)
    time = np.concatenate([chunk.time for _, chunk in taken if chunk.time is not None])
    rows = np.concatenate([chunk.rows for _, chunk in taken])
    sizes = [len(chunk.rows) for _, chunk in taken]
    which = np.repeat(np.arange(len(taken), dtype=np.int16), sizes)
    index = np.concatenate([np.arange(size, dtype=np.int64) for size in sizes])
    order = np.argsort(time, kind="stable")
    source = taken[0][0]
    return EventBatch(
        0,
        rows[order],
        time[order],
        tuple((s.name, chunk.table) for s, chunk in taken),
        which[order],
        index[order],
        source.type_column,
        source.time_column,
    )


def _batch(position: int, source: Source, chunk: Chunk, offset: int) -> EventBatch:
    return EventBatch(
        position,
        chunk.rows + offset if offset else chunk.rows,
        chunk.time,
        ((source.name, chunk.table),),
        type_column=source.type_column,
        time_column=source.time_column,
    )
