"""The work of Spark's Python workers, over Arrow batches: rows in, matches (or groups) out.

A task gets the rows of one or several *parts* (keys of one bucket, slices of time), sorted
by time. Each part has a session. The rows that a slice reads before and after itself are marked as
not its own; the session reads them and does not report the matches that end in them.

Cost contract: per row the cost of a session; memory for the window and one batch of rows.
Matches leave as they are found, block by block: Spark takes the next block when it has
written the one before, so an explosive query waits for its reader. This module does not
import Spark: its input and output are iterators of Arrow batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cernis.encoding.masks import MaskEncoder
from cernis.errors import DataError
from cernis.events.batch import EventBatch, Int64s, is_computed
from cernis.events.order import Scale
from cernis.events.times import describe_bad_time, to_ticks
from cernis.pattern.atom import Atom
from cernis.pattern.predicate import TIME
from cernis.plan.plan import Plan
from cernis.results.answers import Answers
from cernis.results.columns import distinct_names
from cernis.results.deadline import DEADLINE
from cernis.results.groups import Groups
from cernis.results.jsonlines import TextEvents
from cernis.results.matches import Matches
from cernis.results.matchset import join
from cernis.results.sortable import write_sortable
from cernis.run.feed import Measures
from cernis.run.session import RunOptions, Session
from cernis.spark.carriers import convert
from cernis.spark.group_parts import (
    NumberForm,
    cast_groups,
    group_schema,
    read_parts,
    spark_schema,
    write_parts,
)

AnswerForm = Literal["events", "count", "lines", "flat"]
"""Matches with their events, numbers of matches, lines of JSON, or columns that CSV can hold."""

ROW, STREAM, BUCKET, PART, OWN = "@row", "@stream", "@bucket", "@part", "@own"
TICKS, PLACE, NOW, HOME = "@ticks", "@place", "@now", "@home"

RANKING = (pa.field("@value", pa.binary()), pa.field("@tie", pa.binary()))
"""Keys that sort as the matches of ORDER BY do: by the value, NULL if it is last, then the rest."""

_ROWS = 1 << 17
_BYTES = 1 << 26


@dataclass(frozen=True, kw_only=True)
class StreamColumns:
    """The columns of one stream: which column holds which attribute."""

    name: str
    columns: Mapping[str, str]
    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    """The original types of attributes that travel in a carrier."""


@dataclass(frozen=True, kw_only=True)
class RowReading:
    """How the rows of a task are read as events."""

    streams: tuple[StreamColumns, ...]
    reading: RunOptions
    scale: Scale


@dataclass(frozen=True, kw_only=True)
class Work(RowReading):
    """The work of a task: a plan, the columns of its rows, and how its answer looks."""

    plan: Plan
    bits: Mapping[Atom, int] = field(default_factory=dict)
    """The atoms that Spark evaluates, and the places of their bits."""
    form: AnswerForm = "events"
    text: TextEvents = "named"
    """Which events of its matches a line, or a flat column, has."""
    answer: pa.Schema | None = None
    """The columns of the answer, in the engine's types."""
    schema: pa.Schema | None = None
    """The same columns, in the types that carry them in Spark."""
    placed: bool = False
    """A last column says in which order a part found its matches."""
    limit: int | None = None
    """Each part gives at most so many matches, its first."""
    ids: bool = False
    """A column names each match."""
    ranked: bool = False
    """Behind the columns of the answer come those of `RANKING`, by which Spark merges parts."""
    measures: Measures | None = None
    """The aggregates over matches that are enough, where they are counted or grouped."""
    parts: pa.Schema | None = None
    """The columns of the parts of groups, as `Grouper.freeze` has them; None: groups are whole."""
    numbers: NumberForm = "decimal"
    exact: tuple[str, ...] = ()
    """The columns of groups that are integers of any size."""

    def is_count(self, found: Matches) -> bool:
        """Return whether the answer is the number of matches."""
        return self.form == "count" or (self.form in ("events", "flat") and found.counting)

    def open_session(
        self, frozen: bytes | None = None, *, parts: bool = False
    ) -> Session[Matches | Answers | Groups]:
        """Begin a session, or thaw a frozen one; with `parts`, it reports parts of groups."""
        measures = self.measures
        encode = partial(MaskEncoder, bits=self.bits, type_column=self.reading.type_column)
        if frozen is not None:
            return Session.thaw(self.plan, frozen, self.reading, measures=measures, encode=encode)
        return Session(self.plan, self.reading, measures=measures, parts=parts, encode=encode)


def recognize_rows(work: Work, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the matches in a task's rows."""
    sessions: dict[int, Recognizer] = {}
    for table in gather(batches):
        for number, rows in _split_parts(table):
            if number not in sessions:
                sessions[number] = Recognizer(work)
                sessions[number].session.keep_order()
            yield from sessions[number].take(rows)
        if PART not in table.column_names and sessions[0].left == 0:
            return  # no more matches are wanted
    for recognizer in sessions.values():
        yield from recognizer.finish()


def finish_groups(
    work: Work, rows: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the groups whose parts Spark has added up; `rows` are the columns that travel."""
    assert work.parts is not None
    last = Recognizer(replace(work, parts=None))
    last.learn(rows)
    tables = gather(batches)
    if work.placed or work.form == "lines":  # all at once: groups come in order
        tables = iter([pa.concat_tables(found)] if (found := list(tables)) else [])
    for table in tables:
        yield from last.add_up(read_parts(table, work.parts))


def part_schema(work: Work, table: pa.Table) -> pa.Schema:
    """Return the columns of parts of groups, for rows with the columns of a table."""
    session = work.open_session(parts=True)
    found = session.take(event_batch(work, table.slice(0, 0), 0), work.scale)
    assert isinstance(found, Groups)
    return found.schema


def answer_schema(work: Work, table: pa.Table) -> pa.Schema:
    """Return the columns of the answer, for rows with the columns of a table."""
    session = work.open_session()
    found = session.take(event_batch(work, table.slice(0, 0), 0), work.scale)
    if work.form == "lines" and not isinstance(found, Answers):
        times = _find_end_type(found)
        columns = {"end": pa.int64(), "end_ts": times}
        if isinstance(found, Matches) and found.orders_by_deadline:
            columns[DEADLINE] = times
        return pa.schema(columns | {"line": pa.string(), "place": pa.int64()})
    match found:
        case Answers():
            schema = found.schema
        case Groups():
            schema = group_schema(found.schema, work.exact, work.numbers)
        case _ if work.is_count(found):
            schema = cast_counts(found.counts(), work.numbers).schema
        case _ if work.form == "flat":
            schema = next(found.flat_batches(events=work.text != "named")).schema
        case _:
            schema = found.schema
            if work.ids:
                name = distinct_names([*schema.names, "id"])[-1]
                schema = schema.append(pa.field(name, pa.string()))
    return schema.append(pa.field(PLACE, pa.int64())) if work.placed else schema


def _find_end_type(found: Matches | Groups) -> pa.DataType:
    if isinstance(found, Groups):
        return found.end_type
    return found.counts().schema.field("end_ts").type


class Recognizer:
    """The session of one part; it takes tables of events in order of time, and gives matches."""

    def __init__(self, work: Work, frozen: bytes | None = None) -> None:
        self.work = work
        self.session = work.open_session(frozen, parts=work.parts is not None)
        self.given = 0
        self.now: int | None = None
        """The last time of the whole input, where rows carry it."""

    @property
    def left(self) -> int | None:
        """How many more matches the answer may have; None: any number."""
        return None if self.work.limit is None else self.work.limit - self.given

    def take(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        if self.left == 0:
            return
        if NOW in table.column_names and table.num_rows:
            self.now = read_now(self.work, table)
        first, last = _find_own(table)
        yield from self._read_beside(table.slice(0, first))
        if first < last:
            own = self._batch(table.slice(first, last - first))
            yield from self._give(self.session.take(own, self.work.scale))
        yield from self._read_beside(table.slice(last))

    def _read_beside(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        """Read events of other slices; give the matches of this one that they make certain."""
        if not table.num_rows or self.left == 0:
            return
        if self.session.pipeline.absence is None:
            self.pass_over(table)
        else:
            batch = self._batch(table)
            yield from self._give(self.session.take(batch, self.work.scale, own=False))

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Give what waits for the end of the input: groups or their parts, matches."""
        pattern = self.work.plan.pattern
        if self.now is not None and self.left != 0:
            yield from self._give(self.session.advance(self.now, self.work.scale))
        waits = pattern.grouping is not None or self.session.pipeline.waits
        waits = waits or (self.work.reading.complete and pattern.absent_after is not None)
        if waits and self.left != 0:
            yield from self._give(self.session.finish())

    def learn(self, rows: pa.Schema) -> None:
        """Learn the types of the columns that travel."""
        self.session.pass_over(self._batch(rows.empty_table()), self.work.scale)

    def add_up(self, parts: pa.Table) -> Iterator[pa.RecordBatch]:
        """Give the groups of these parts, one for each group."""
        assert self.session.pipeline.grouper is not None
        self.session.pipeline.grouper.thaw(parts)
        yield from self.finish()

    def _give(self, found: Matches | Answers | Groups) -> Iterator[pa.RecordBatch]:
        if isinstance(found, Groups) and self.work.parts is not None:
            yield from write_parts(found.to_arrow(), spark_schema(self.work.parts))
            return
        ranking = self._rank(found) if self.work.ranked and isinstance(found, Matches) else None
        given = 0
        for batch in self._format(found):
            batch = self._cast(self._add_places(batch.slice(0, self.left)))
            if ranking is not None:
                for field, keys in zip(RANKING, ranking, strict=True):
                    batch = batch.append_column(field, keys[given : given + batch.num_rows])
                given += batch.num_rows
            if batch.num_rows:
                yield batch
            if self.left == 0:
                return

    def _rank(self, found: Matches) -> tuple[pa.Array, pa.Array]:
        """Return the columns of `RANKING`; matches of one end are those of one task."""
        best, store = self.session.pipeline.best, self.session.store
        assert best is not None
        block = join(tuple(found.match_set.blocks()), len(found.match_set.variables))
        values, ends = best.evaluate(block), block.end
        times = store.column(ends, TIME.name).to_pylist() if store.is_timed else [0] * len(ends)
        streams = {stream.name: number for number, stream in enumerate(self.work.streams)}
        ties = [
            (write_sortable(time) or b"")
            + int(row).to_bytes(8, "big")
            + streams[store.stream_at(int(end))].to_bytes(2, "big")
            + place.to_bytes(8, "big")
            for place, (time, row, end) in enumerate(
                zip(times, store.rows(ends), ends, strict=True)
            )
        ]
        return pa.array([*map(write_sortable, values)], pa.binary()), pa.array(ties, pa.binary())

    def pass_over(self, table: pa.Table) -> None:
        """Read events without reporting the matches that end at them."""
        pattern = self.work.plan.pattern
        if pattern.is_free and self.work.plan.head is None:
            self.session.pass_over(self._batch(table), self.work.scale)
        else:
            self.session.take(self._batch(table), self.work.scale)

    def replay(self, table: pa.Table) -> None:
        """Read events again whose matches, or groups, were reported before."""
        grouping = self.work.plan.pattern.grouping
        if grouping is None or grouping.end:
            self.pass_over(table)
        else:
            self.session.take(self._batch(table), self.work.scale)

    def pass_time(self, nanoseconds: int) -> Iterator[pa.RecordBatch]:
        """Give what is certain once no event before a time comes: groups, and matches."""
        for found in self.session.pass_watermark(nanoseconds, self.work.scale):
            yield from self._give(found)

    @property
    def first_end(self) -> int | None:
        """The time, in nanoseconds, at which the next group of EVERY ends; None: there is none."""
        return self.session.first_group_end

    @property
    def next_deadline(self) -> int | None:
        """The next time, in ticks, that makes matches certain when it has passed."""
        return self.session.pipeline.next_deadline(self.work.scale)

    def _cast(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        assert self.work.schema is not None
        return cast_answer(batch, self.work.schema)

    def _format(self, found: Matches | Answers | Groups) -> Iterable[pa.RecordBatch]:
        if isinstance(found, Answers):
            return found.batches()
        if self.work.form == "lines":
            if isinstance(found, Groups):
                return found.lines()
            return found.lines(self.work.text, deadlines=found.orders_by_deadline)
        if isinstance(found, Groups):
            groups = cast_groups(found.to_arrow(), self.work.exact, self.work.numbers)
            return list(groups.to_batches())
        if self.work.is_count(found):
            counted: list[pa.RecordBatch] = cast_counts(
                found.counts(), self.work.numbers
            ).to_batches()
            return counted
        if self.work.form == "flat":
            return found.flat_batches(events=self.work.text != "named")
        return found.batches(ids=self.work.ids)

    def _add_places(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Add the place of each row among those of the part, which is the order of matches."""
        places = np.arange(self.given, self.given + batch.num_rows)
        self.given += batch.num_rows
        assert self.work.schema is not None
        if batch.num_columns == len(self.work.schema):
            return batch
        return batch.append_column(self.work.schema.names[-1], pa.array(places, pa.int64()))

    def _batch(self, table: pa.Table) -> EventBatch:
        return event_batch(self.work, table, self.session.events)


def _find_own(table: pa.Table) -> tuple[int, int]:
    """Return where the rows of the part itself begin and end, which stand together."""
    if OWN not in table.column_names:
        return 0, table.num_rows
    own = np.flatnonzero(np.asarray(table.column(OWN)))
    return (int(own[0]), int(own[-1]) + 1) if len(own) else (table.num_rows, table.num_rows)


def event_batch(work: RowReading, table: pa.Table, base: int) -> EventBatch:
    """Return rows that have travelled as events, in their order."""
    if table.column(ROW).null_count:
        raise DataError("the column of row numbers (row=) has no number in some row")
    rows = np.asarray(table.column(ROW), np.int64)
    parts = tuple((stream.name, name_columns(table, stream)) for stream in work.streams)
    which = index = None
    if len(parts) > 1:
        which = np.asarray(table.column(STREAM), np.int16)
        index = np.arange(len(rows), dtype=np.int64)
    time = ticks_of(work, table)
    reading = work.reading
    columns = reading.type_column, reading.time_column
    return EventBatch(base, rows, time, parts, which, index, *columns)


def name_columns(table: pa.Table, stream: StreamColumns) -> pa.Table:
    """Return the columns of a stream under the names of their attributes, and computed ones."""
    columns = {name: table.column(column) for name, column in stream.columns.items()}
    for name, type_ in stream.types.items():
        columns[name] = convert(columns[name], type_)
    known = {name: table.column(name) for name in table.column_names if is_computed(name)}
    if not columns and not known:
        return table.select([ROW])  # a table must know how many rows it has
    return pa.table({**columns, **known})


def ticks_of(work: RowReading, table: pa.Table) -> Int64s | None:
    """Return the times of events; None where they have none."""
    name = work.reading.time_column
    if name is None or work.scale.unit_ns is None:
        return None
    if TICKS in table.column_names:
        return np.asarray(table.column(TICKS), np.int64)
    column = table.column(work.streams[0].columns[name])
    ticks, bad = to_ticks(column, work.reading.time_unit, work.scale.unit_ns)
    if bad is not None:
        first = int(bad.argmax())
        row = f"row {table.column(ROW)[first]}, " if ROW in table.column_names else ""
        raise DataError(f"{row}column {name!r}: {describe_bad_time(column[first].as_py())}")
    return ticks


def read_now(work: RowReading, table: pa.Table) -> int | None:
    """Return the last time of the whole input, in ticks."""
    column = table.column(NOW).slice(0, 1)
    if column.null_count or work.scale.unit_ns is None:
        return None
    if pa.types.is_integer(column.type):  # a moment, which counts ticks
        return int(column[0].as_py())
    ticks, _ = to_ticks(column, work.reading.time_unit, work.scale.unit_ns)
    return int(ticks[0])


def cast_counts(counts: pa.Table, numbers: NumberForm = "decimal") -> pa.Table:
    """Cast counts to the one type that Spark has for all tasks."""
    return cast_groups(counts, ["count"], numbers)


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
