"""`Work` and `Recognizer`: what Spark's Python workers do, for every kind of query.

A *work* travels to tasks and buckets. It says how their rows are read, and opens a *recognizer*: a
session that takes tables of events in order of time, and gives matches. `QueryWork` runs one query
(`worker`), `RuleWork` a rule set (`rule_worker`), and `GraphWork` reads the solutions of graph
patterns (`graphs`). Tasks of batches (`recognize_rows`) and buckets of streams
(`streaming.bucket`) do not know which of them they run.

A task gets the rows of one or several *parts* (keys of one bucket, slices of time), sorted
by time. Each part has a recognizer. The rows that a slice reads before and after itself are marked
as not its own; it reads them and does not report the matches that end in them.

Cost contract: per row the cost of a session; memory for the window and one batch of rows.
Matches leave as they are found, block by block: Spark takes the next block when it has
written the one before, so an explosive query waits for its reader. This module does not
import Spark: its input and output are iterators of Arrow batches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cernis.errors import DataError
from cernis.events.batch import EventBatch, Int64s, is_computed
from cernis.events.order import Scale
from cernis.events.times import describe_bad_time, to_ticks
from cernis.run.session import RunOptions
from cernis.work.carriers import convert
from cernis.work.columns import LEAD, NOW, PART, ROW, STREAM, TICKS
from cernis.work.report import EngineState
from cernis.work.rule_record import RuleTexts

AnswerForm = Literal["events", "count", "lines", "flat", "quads", "measures"]
"""Matches with their events, numbers of matches, lines of JSON, columns that CSV can hold, the
graphs of CONSTRUCT as N-Quads, or the numbers of each rule."""

_ROWS = 1 << 17
_BYTES = 1 << 26


class Recognizer(ABC):
    """The session of a part or a bucket: takes events in order of time, and gives matches."""

    @property
    def is_done(self) -> bool:
        """Whether no more matches are wanted."""
        return False

    @property
    def first_end(self) -> int | None:
        """The time, in nanoseconds, at which the next group of EVERY ends; None: there is none."""
        return None

    @property
    def next_deadline(self) -> int | None:
        """The next time, in ticks, that makes matches certain when it has passed."""
        return None

    @abstractmethod
    def take(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        """Yield the matches that end in a table."""

    @abstractmethod
    def replay(self, table: pa.Table) -> None:
        """Read events again whose matches, or groups, were reported before."""

    def pass_time(self, nanoseconds: int) -> Iterator[pa.RecordBatch]:
        """Yield what is certain once no event before a time comes."""
        return iter(())

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Yield what waits for the end of the input."""
        return iter(())

    def keep_order(self) -> None:  # noqa: B027
        """Give the matches of a batch in the order of their ends, where that is another one."""

    def renew_budget(self) -> None:  # noqa: B027
        """Begin a micro-batch."""

    @abstractmethod
    def forget(self) -> None:
        """Drop events that no match can reach, now and then: a worker has many buckets."""

    @abstractmethod
    def freeze(self) -> bytes:
        """Return the state as versioned bytes."""

    @abstractmethod
    def count_state(self) -> EngineState:
        """Return how much the engine holds."""

    def change_rules(self, texts: RuleTexts) -> bool:
        """Go on with other rules; return whether they are others."""
        return False

    def list_numbers(self) -> str | None:
        """Return the numbers of each rule since the last call, as JSON, if there are rules."""
        return None


@dataclass(frozen=True, kw_only=True)
class Work(ABC):
    """The work of a task, or of a bucket."""

    schema: pa.Schema | None = None
    """The columns of the answer, in the types that carry them in Spark."""

    @abstractmethod
    def open(self, frozen: bytes | None = None) -> Recognizer:
        """Begin a session, or thaw a frozen one."""

    @property
    @abstractmethod
    def stream_names(self) -> tuple[str, ...]:
        """The streams, in the order of their numbers."""

    @property
    def tick(self) -> int:
        """Nanoseconds in a tick."""
        return 1

    def list_ties(self, *, numbered: bool) -> list[str]:
        """Return the columns that order events of one time; `numbered`: rows come with numbers."""
        return []

    @abstractmethod
    def read_ticks(self, table: pa.Table) -> Int64s:
        """Return the times of events."""

    def number_rows(self, table: pa.Table, numbers: Int64s | None) -> pa.Table:
        """Number the rows that a bucket accepts; None: rows come with numbers."""
        return drop_column(table, LEAD)

    def select_events(self, table: pa.Table) -> pa.Table:
        """Return one row for each event, in one bucket of all that it has travelled to."""
        return table.filter(table.column(LEAD)) if LEAD in table.column_names else table

    def split(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Yield rows, which are sorted by time, in tables that a session takes."""
        yield from tables

    def has_inputs_of(self, other: Self) -> bool:
        """Return whether a session that another run of the query has begun may go on here."""
        return True


def recognize_rows(work: Work, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the matches in a task's rows, which are sorted by time."""
    opened: dict[int, Recognizer] = {}
    for table in work.split(gather(batches)):
        for number, rows in _split_parts(table):
            if number not in opened:
                opened[number] = work.open()
                opened[number].keep_order()
            yield from opened[number].take(rows)
        if PART not in table.column_names and opened[0].is_done:
            return
    for recognizer in opened.values():
        yield from recognizer.finish()


def gather(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Gather batches into tables that are large enough for a call of a kernel."""
    pending: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        pending.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _ROWS or size >= _BYTES:
            yield pa.Table.from_batches(pending).combine_chunks()
            pending, rows, size = [], 0, 0
    if pending:
        yield pa.Table.from_batches(pending).combine_chunks()


def _split_parts(table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Yield the rows of each part, in their order."""
    if PART not in table.column_names:
        yield 0, table
        return
    parts = np.asarray(table.column(PART))
    distinct = np.unique(parts)
    if len(distinct) == 1:
        yield int(distinct[0]), table
        return
    for number in distinct:
        yield int(number), table.filter(pa.array(parts == number))


def drop_column(table: pa.Table, name: str) -> pa.Table:
    """Return a table without a column, which it may not have."""
    return table.drop_columns([name]) if name in table.column_names else table


# --------------------------------------------------------------------- rows


@dataclass(frozen=True, kw_only=True)
class StreamColumns:
    """The columns of one stream: which column holds which attribute."""

    name: str
    columns: Mapping[str, str]
    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    """The original types of attributes that travel in a carrier."""
    is_blank: bool = False
    """Whether the stream has neither columns nor rows."""

    def select(self, table: pa.Table) -> pa.Table:
        """Return the columns under the names of their attributes, and computed ones."""
        columns = {name: table.column(column) for name, column in self.columns.items()}
        for name, type_ in self.types.items():
            columns[name] = convert(columns[name], type_)
        known = {name: table.column(name) for name in table.column_names if is_computed(name)}
        if not columns and not known:
            return table.select([ROW])  # a table must know how many rows it has
        return pa.table({**columns, **known})


@dataclass(frozen=True, kw_only=True)
class RowWork(Work):
    """The work over rows that are events."""

    streams: tuple[StreamColumns, ...]
    reading: RunOptions
    scale: Scale

    def open(self, frozen: bytes | None = None) -> Recognizer:
        raise NotImplementedError  # rows are read without a query, to route them

    @property
    def tick(self) -> int:
        assert self.scale.unit_ns is not None
        return self.scale.unit_ns

    def list_ties(self, *, numbered: bool) -> list[str]:
        if len(self.streams) == 1:
            return [ROW]
        return [ROW, STREAM] if numbered else [STREAM, ROW]

    @property
    def stream_names(self) -> tuple[str, ...]:
        return tuple(source.name for source in self.streams)

    def number_rows(self, table: pa.Table, numbers: Int64s | None) -> pa.Table:
        table = super().number_rows(table, numbers)
        if numbers is None:
            return table
        return drop_column(table, ROW).append_column(ROW, pa.array(numbers, pa.int64()))

    def has_inputs_of(self, other: Self) -> bool:
        """Not where the tables are others that rules join."""
        return self.reading == other.reading

    def read_batch(self, table: pa.Table, base: int = 0) -> EventBatch:
        """Return rows that have travelled as events, in their order."""
        if table.column(ROW).null_count:
            raise DataError("the column of row numbers (row=) has no number in some row")
        rows = np.asarray(table.column(ROW), np.int64)
        parts = tuple((stream.name, stream.select(table)) for stream in self.streams)
        which = index = None
        if len(parts) > 1:
            which = np.asarray(table.column(STREAM), np.int16)
            index = np.arange(len(rows), dtype=np.int64)
        columns = self.reading.type_column, self.reading.time_column
        return EventBatch(base, rows, self.find_ticks(table), parts, which, index, *columns)

    def read_ticks(self, table: pa.Table) -> Int64s:
        ticks = self.find_ticks(table)
        assert ticks is not None
        return ticks

    def find_ticks(self, table: pa.Table) -> Int64s | None:
        """Return the times of events; None where they have none."""
        name = self.reading.time_column
        if name is None or self.scale.unit_ns is None:
            return None
        if TICKS in table.column_names:
            return np.asarray(table.column(TICKS), np.int64)
        column = table.column(self.streams[0].columns[name])
        ticks, bad = to_ticks(column, self.reading.time_unit, self.scale.unit_ns)
        if bad is not None:
            first = int(bad.argmax())
            row = f"row {table.column(ROW)[first]}, " if ROW in table.column_names else ""
            raise DataError(f"{row}column {name!r}: {describe_bad_time(column[first].as_py())}")
        return ticks

    def read_now(self, table: pa.Table) -> int | None:
        """Return the last time of the whole input, in ticks."""
        column = table.column(NOW).slice(0, 1)
        if column.null_count or self.scale.unit_ns is None:
            return None
        if pa.types.is_integer(column.type):  # a time in ticks
            return int(column[0].as_py())
        ticks, _ = to_ticks(column, self.reading.time_unit, self.scale.unit_ns)
        return int(ticks[0])


# ------------------------------------------------------------------ answers


def cast_answer(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch of matches in the types that carry them in Spark."""
    if batch.schema == schema:
        return batch
    pairs = zip(batch.columns, schema, strict=True)
    columns = [_to_carrier(column, field.type) for column, field in pairs]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _to_carrier(column: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return a column of matches in a type that Spark has; computed durations lose nanoseconds.

    >>> _to_carrier(pa.array([1_500], pa.duration("ns")), pa.duration("us"))[0].value
    1
    """
    if pa.types.is_duration(column.type) and pa.types.is_duration(type_):
        return column.cast(options=pc.CastOptions(target_type=type_, allow_time_truncate=True))
    return convert(pa.chunked_array([column]), type_).combine_chunks()
