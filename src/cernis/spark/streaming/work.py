"""`BucketWork`: the part of a bucket's work that depends on the language of its query.

`StreamWork` does it for patterns over rows, `cernis.spark.rules.stream_worker` for rule sets, and
`cernis.spark.graphs.stream_worker` for SPAseQ. A bucket accepts, buffers, logs and restores events
in the same way for all of them.

Does not import Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol, Self

import numpy as np
import pyarrow as pa

from cernis.events.batch import Int64s
from cernis.signature import Secret, derive_key
from cernis.spark.streaming.report import EngineState
from cernis.spark.worker import ROW, STREAM, Recognizer, RowReading, Work, ticks_of

_MS = 1_000_000
_ROWS = 1 << 17
_FORGET_EVERY = 1 << 16


class StreamRecognizer(Protocol):
    """The session of a bucket: it takes tables of events in order of time, and gives matches."""

    @property
    def first_end(self) -> int | None:
        """The time, in nanoseconds, at which the next group ends; None: there is none."""

    @property
    def next_deadline(self) -> int | None:
        """The next time, in ticks, that makes matches certain when it has passed."""

    def renew_budget(self) -> None:
        """Begin a micro-batch."""

    def take(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        """Yield the matches that end in a table."""

    def replay(self, table: pa.Table) -> None:
        """Read events again whose matches were reported before."""

    def pass_time(self, nanoseconds: int) -> Iterator[pa.RecordBatch]:
        """Yield the matches that are certain once no event before a time comes."""

    def forget(self) -> None:
        """Drop events that no match can reach, now and then."""

    def freeze(self) -> bytes:
        """Return the state as versioned bytes."""

    def count_state(self) -> EngineState:
        """Return how much the engine holds."""


@dataclass(frozen=True, kw_only=True)
class BucketWork:
    """The work of all buckets of a query."""

    query: str
    """A digest of the query, its columns and its buckets."""
    buckets: tuple[int, ...]
    """The numbers of all buckets."""
    shift: int = 0
    """How many milliseconds the watermark is ahead of the events' times."""
    window: int | None = None
    """In ticks: no match reaches further back. None: no bound, so snapshots are made."""
    secret: Secret = field(default=None, repr=False, compare=False)
    """The secret that state is signed with."""

    def derive_key(self, bucket: int) -> bytes:
        """Return the key that signs the state of a bucket; empty without a secret."""
        return derive_key(self.secret, f"bucket {bucket}")

    @property
    def tick(self) -> int:
        """Nanoseconds in a tick."""
        return 1

    @property
    def ties(self) -> list[str]:
        """The columns that order events of one time."""
        return []

    @property
    def stream_names(self) -> tuple[str, ...]:
        """The streams, in the order of their numbers."""
        raise NotImplementedError

    @property
    def schema(self) -> pa.Schema | None:
        """The columns of the answer."""
        raise NotImplementedError

    def open(self, frozen: bytes | None = None) -> StreamRecognizer:
        """Begin a session, or thaw a frozen one."""
        raise NotImplementedError

    def identify(self, bucket: int) -> str:
        """Return a digest of what the state of a bucket belongs to."""
        return self.query

    def continues(self, other: Self) -> bool:
        """Return whether a session that another run of the query has begun may go on here."""
        return True

    def revise(self, recognizer: StreamRecognizer, bucket: int, batch: int) -> str:
        """Give a session the rules of a micro-batch; return a text if they are others."""
        return ""

    @property
    def has_rules(self) -> bool:
        """Whether the numbers of each rule are reported."""
        return False

    def describe_rules(self, recognizer: StreamRecognizer) -> str | None:
        """Return the numbers of each rule since the last call, as JSON."""
        return None

    def read_ticks(self, table: pa.Table) -> Int64s:
        """Return the times of events."""
        raise NotImplementedError

    def number_rows(self, table: pa.Table, first: int, place: int) -> pa.Table:
        """Number the rows that a bucket accepts, from `first` on; `place` is the bucket's own."""
        return table

    def select_events(self, table: pa.Table) -> pa.Table:
        """Return one row for each event."""
        return table

    def split(self, table: pa.Table | None) -> Iterator[pa.Table]:
        """Yield the events in pieces that a session takes."""
        if table is not None:
            for first in range(0, table.num_rows, _ROWS):
                yield table.slice(first, _ROWS)

    def limit(self, watermark: int) -> int:
        """Return the first tick that is not before the watermark (in milliseconds)."""
        return -((-watermark * _MS) // self.tick)

    def passed(self, tick: int) -> int:
        """Return the first watermark, in milliseconds, that has passed a tick."""
        return tick * self.tick // _MS + 1


@dataclass(frozen=True, kw_only=True)
class RowWork(BucketWork):
    """The work for events that are rows."""

    numbered: bool
    """Rows come with numbers of their own."""

    @property
    def rows(self) -> RowReading:
        """How rows are read as events."""
        raise NotImplementedError

    @property
    def stride(self) -> int:
        """By how much the numbers of rows grow inside a bucket."""
        return len(self.buckets)

    @property
    def tick(self) -> int:
        assert self.rows.scale.unit_ns is not None
        return self.rows.scale.unit_ns

    @property
    def ties(self) -> list[str]:
        if len(self.rows.streams) == 1:
            return [ROW]
        return [ROW, STREAM] if self.numbered else [STREAM, ROW]

    @property
    def stream_names(self) -> tuple[str, ...]:
        return tuple(source.name for source in self.rows.streams)

    def read_ticks(self, table: pa.Table) -> Int64s:
        ticks = ticks_of(self.rows, table)
        assert ticks is not None
        return ticks

    def number_rows(self, table: pa.Table, first: int, place: int) -> pa.Table:
        """Number the rows: numbers differ between buckets, and grow inside of one."""
        if self.numbered:
            return table
        rows = np.arange(first, first + table.num_rows) * self.stride + place
        return drop_column(table, ROW).append_column(ROW, pa.array(rows, pa.int64()))


@dataclass(frozen=True, kw_only=True)
class StreamWork(RowWork):
    """The work for a pattern over rows."""

    work: Work

    @property
    def rows(self) -> RowReading:
        return self.work

    @property
    def schema(self) -> pa.Schema | None:
        return self.work.schema

    def open(self, frozen: bytes | None = None) -> StreamRecognizer:
        return _RowRecognizer(self.work, frozen)


class _RowRecognizer(Recognizer):
    """The session of a bucket over rows."""

    def __init__(self, work: Work, frozen: bytes | None = None) -> None:
        super().__init__(work, frozen)
        self._kept_events = 0
        """How many events the session had when it last dropped some."""

    def renew_budget(self) -> None:
        self.session.renew_budget()

    def forget(self) -> None:
        """Drop old events of the session now and then: a worker has many buckets."""
        session = self.session
        if session.events - session.kept_from > max(_FORGET_EVERY, 2 * self._kept_events):
            session.forget()
            self._kept_events = session.events - session.kept_from

    def freeze(self) -> bytes:
        return self.session.freeze()

    def count_state(self) -> EngineState:
        own = self.session.metrics()
        return EngineState(own.keys, own.records, own.stored, own.stored_bytes)


def drop_column(table: pa.Table, name: str) -> pa.Table:
    """Return a table without a column, which it may not have."""
    return table.drop_columns([name]) if name in table.column_names else table
