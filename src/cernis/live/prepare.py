"""From a query, or rules, and live inputs to the work of one bucket.

The first rows of each input give its columns, unless the query declares them; a checkpoint notes
them, and a run that goes on expects the same. All events travel to one bucket in one table: the
columns of several streams stand side by side, and share the column of times.

Cost contract: as the plan of the query; waits for the first row of each input.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from cernis.errors import DataError
from cernis.events.batch import EventBatch, Int64s
from cernis.events.column_types import common_type
from cernis.events.order import Ordering
from cernis.events.reading.mistakes import Mistakes
from cernis.events.source import Source
from cernis.live.arrivals import ArrivingSource
from cernis.live.inputs import ARRIVED
from cernis.run.query import Query, refuse_insert
from cernis.run.rules.reading.streams import name_streams, unite_declared
from cernis.run.rules.rule_set import RuleSet
from cernis.run.rules.session import RuleSession
from cernis.run.session import RunOptions, Session
from cernis.run.tables import Tables
from cernis.schema import Schema
from cernis.signature import Secret
from cernis.work.bucket import BucketWork
from cernis.work.columns import ROW, STREAM
from cernis.work.ddl import declare_columns
from cernis.work.group_parts import exact_columns
from cernis.work.layout import back_in_ticks, choose_stream_layout
from cernis.work.query import QueryWork, answer_schema, line_schema, refuse_overall
from cernis.work.reading import AnswerForm, RowWork, StreamColumns
from cernis.work.rule_record import BucketGroup, RuleKey, RuleRecord, RuleText, RuleVersion
from cernis.work.rules import RuleWork

TIME = "@time"


@dataclass(frozen=True, kw_only=True)
class LocalWork(BucketWork):
    """The work of the one bucket of a process; its watermark counts ticks."""

    in_order: bool = False
    """Events of one time are read in the order of their arrival: those at the watermark as well."""

    def read_watermark(self, milliseconds: int) -> int | None:
        own = super().read_watermark(milliseconds)
        return None if own is None else super().limit(own)

    def write_watermark(self, watermark: int) -> int:
        return super().write_watermark(super().mark(watermark * self.work.tick))

    def mark(self, nanoseconds: int) -> int:
        return -(-nanoseconds // self.work.tick)

    def limit(self, watermark: int) -> int:
        return watermark

    def reach(self, watermark: int) -> int:
        return watermark + self.in_order

    def passed(self, tick: int) -> int:
        return tick + 1 - self.in_order

    def number_rows(self, table: pa.Table, first: int, bucket: int) -> pa.Table:
        if self.numbered:
            return self.work.number_rows(table, None)
        numbers: Int64s = np.arange(first, first + table.num_rows)
        return self.work.number_rows(table, numbers)


class RowTravel(Protocol):
    """How rows become rows of the bucket."""

    @property
    def counts(self) -> bool: ...
    def carry(self, number: int, table: pa.Table) -> pa.Table: ...
    def unite(self, tables: Sequence[pa.Table]) -> pa.Table: ...


class _Columns(NamedTuple):
    """What is known of a source whose rows travel."""

    name: str
    label: str
    schema: pa.Schema
    is_blank: bool

    @classmethod
    def of(cls, source: Source, needed: Sequence[pa.Field]) -> _Columns:
        """Describe a source; one that ended without columns has those that are needed."""
        schema = source.schema
        if source.is_blank:
            schema = pa.schema([*schema, *needed])
        return cls(source.name, source.label, schema, source.is_blank)


class Travel:
    """How the rows of the inputs become rows of one table."""

    def __init__(
        self, sources: Sequence[Source], tables: Tables | None, row: str | None = None
    ) -> None:
        first = _first_timed(sources)
        self._time = first.time_column
        assert self._time is not None
        numbers = [] if row is None else [pa.field(row, pa.int64())]
        needed = [first.schema.field(self._time), *numbers]
        self.sources = [_Columns.of(source, needed) for source in sources]
        self._tables = tables
        self.row = row
        self.has_one = len(sources) == 1
        """Whether there is one input."""
        self._schemas = [source.schema for source in self.sources]
        for own, source in zip(self._schemas, sources, strict=True):
            if row is not None and row not in own.names:
                raise DataError(f"{source.label}: there is no column {row!r} of row numbers")
        kinds = [own.field(self._time).type for own in self._schemas]
        self.time_type = kinds[0]
        for kind in kinds[1:]:
            self.time_type = common_type(self.time_type, kind)

    def name(self, number: int, attribute: str) -> str:
        """Return the column in which an attribute of a stream travels."""
        if attribute == self._time:
            return TIME
        return attribute if self.has_one else f"{number}.{attribute}"

    @cached_property
    def streams(self) -> tuple[StreamColumns, ...]:
        return tuple(
            StreamColumns(
                name=source.name,
                columns={name: self.name(number, name) for name in self._list_names(number)},
                is_blank=source.is_blank,
            )
            for number, source in enumerate(self.sources)
        )

    def _list_names(self, number: int) -> list[str]:
        schema = self._schemas[number]
        if self._tables is not None:
            schema = self._tables.extend(self.sources[number].name, schema)
        return list(schema.names)

    @cached_property
    def rows(self) -> pa.Schema:
        """The columns of the rows of all inputs."""
        fields: dict[str, pa.DataType] = {}
        for number in range(len(self.sources)):
            empty = self._schemas[number].empty_table()
            fields |= {each.name: each.type for each in self.carry(number, empty).schema}
        return pa.schema({**fields, ROW: pa.int64()})

    def unite(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Return rows that travel as one table, also with the columns of inputs without rows."""
        if not self.has_one:
            names = [n for n in self.rows.names if n != ROW or n in tables[0].column_names]
            tables = [self.rows.empty_table().select(names), *tables]
        return pa.concat_tables(tables, promote_options="default")

    @property
    def counts(self) -> bool:
        """Whether rows have their numbers before a join, which may leave some of them out."""
        return self._tables is not None and self.has_one and self.row is None

    def carry(self, number: int, table: pa.Table) -> pa.Table:
        """Return rows of an input as they travel; `ROW` is among them where `counts` says so."""
        given = table.column(ROW) if ROW in table.column_names else None
        table = self._fit(number, table)
        if given is not None:
            table = table.append_column(ROW, given)
        if self._tables is not None:
            batch = self._tables.join(EventBatch.of(table, stream=self.sources[number].name))
            table = batch.parts[0][1]
        columns = {
            self.name(number, name): _decode_rows(table.column(name)) for name in table.column_names
        }
        columns[TIME] = columns[TIME].cast(self.time_type)
        if self.row is not None:
            columns[ROW] = self._read_numbers(number, table.column(self.row))
        if not self.has_one:
            columns[STREAM] = pa.repeat(pa.scalar(number, pa.int16()), table.num_rows)
        return pa.table(columns)

    def _read_numbers(self, number: int, column: pa.ChunkedArray) -> pa.ChunkedArray:
        try:
            return column.cast(pa.int64())
        except pa.ArrowException as error:
            label = self.sources[number].label
            raise DataError(f"{label}: the column {self.row!r} has no row numbers") from error

    def _fit(self, number: int, table: pa.Table) -> pa.Table:
        """Return rows with the columns of the first ones; a value that does not fit is an error."""
        schema = self._schemas[number]
        if table.schema.equals(schema):
            return table
        columns, have = {}, {*table.column_names}
        for each in schema:
            if each.name not in have:
                columns[each.name] = pa.nulls(table.num_rows, each.type)
                continue
            column = table.column(each.name)
            try:
                columns[each.name] = column if column.type == each.type else column.cast(each.type)
            except pa.ArrowException as error:
                raise DataError(
                    f"{self.sources[number].label}: the column {each.name!r} had {each.type} in "
                    f"the first rows, and has {column.type} now; name its type in CREATE STREAM"
                ) from error
        return pa.table(columns)


@dataclass(frozen=True, kw_only=True)
class LiveOptions:
    """How live inputs are read, beyond what `RunOptions` say."""

    reading: RunOptions = field(default_factory=RunOptions)
    columns: dict[str | None, str] = field(default_factory=dict)
    """The columns of streams, as `work.ddl` reads them; None: of all others."""
    row: str | None = None
    """A column of row numbers, which order events of one time."""
    secret: Secret = field(default=None, repr=False)

    def describe_opening(
        self, streams: Sequence[str], declared: Schema | None
    ) -> Callable[[Mapping[str, Any]], Sequence[Source]]:
        """Return how another process opens the inputs."""
        return partial(replace(self, secret=None).open_sources, streams=streams, declared=declared)

    def open_sources(
        self, inputs: Mapping[str, Any], streams: Sequence[str], declared: Schema | None
    ) -> list[Source]:
        """Open the inputs of some streams; a stream is read in order of time."""
        if self.columns:
            names = [*streams] or [*inputs]
            own = declare_columns(self.columns, names)
            known = () if declared is None else declared.streams
            declared = Schema((*own.streams, *(s for s in known if own.stream(s.name) is None)))
        for input_ in inputs.values():
            if hasattr(input_, "is_stamped"):
                input_.is_stamped = self.reading.time == ARRIVED
        mistakes = Mistakes(self.reading.on_error)
        sources = self.reading.open_sources(inputs, streams, mistakes, declared)
        untimed = [source for source in sources if source.time_column is None]
        has_times = len(untimed) < len(sources)
        for source in untimed:
            if not (has_times and source.is_blank):
                raise DataError(
                    f"stream {source.name!r}: a stream is read in order of time, and has no time "
                    "column; name it with --time, or add one"
                )
        return sources


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """What a live run does: its sources, how rows travel, and the work of its bucket."""

    sources: Sequence[ArrivingSource]
    travel: RowTravel
    buckets: LocalWork
    note: dict[str, Any]
    """What a checkpoint belongs to."""
    opening: Callable[[Mapping[str, Any]], Sequence[Source]] | None = None
    """Opens the inputs in another process; None: events are numbered as they come."""

    @property
    def tick(self) -> int:
        return self.buckets.work.tick


def prepare_query(
    query: Query, inputs: Mapping[str, Any], options: LiveOptions, form: AnswerForm
) -> Prepared:
    """Open the inputs of a query, check it against their columns, and plan it."""
    refuse_insert(query.pattern)
    pattern, reading = query.pattern, options.reading
    refuse_overall(pattern)
    sources = options.open_sources(inputs, pattern.streams, pattern.declared)
    trial: Session[Any] = Session(query.plan, reading)
    tables = trial.prepare(sources)
    scale = Ordering(sources).scale
    trial.check_scale(scale)
    plan, travel = trial.plan, Travel(sources, tables, options.row)
    work = QueryWork(
        streams=travel.streams,
        reading=replace(_fix_columns(reading, sources), tables={}),
        scale=scale,
        plan=plan,
        form=form,
        measures=trial.measures,
        numbers="text",
    )
    rows = travel.rows.empty_table()
    if pattern.grouping is not None:
        found = replace(work, form="events")
        work = replace(work, exact=exact_columns(plan.pattern, answer_schema(found, rows)))
    answer = answer_schema(work, rows)
    work = replace(work, answer=answer, schema=answer)
    layout = choose_stream_layout(plan)
    window = back_in_ticks(plan.pattern, scale) if layout.cut else None
    note = {"query": str(plan.conjunctive or plan.pattern), **_describe(travel)}
    return Prepared(
        sources=sources,
        travel=travel,
        buckets=_make_buckets(work, travel, note, options, window=window),
        note=note,
        opening=options.describe_opening(pattern.streams, pattern.declared),
    )


def prepare_rules(rules: RuleSet, inputs: Mapping[str, Any], options: LiveOptions) -> Prepared:
    """Open the inputs of rules, and check the rules against their columns."""
    patterns = [rule.query.pattern for rule in rules]
    streams, declared = name_streams(patterns), unite_declared(patterns)
    sources = options.open_sources(inputs, streams, declared)
    scale, travel = Ordering(sources).scale, Travel(sources, None, options.row)
    reading = _fix_columns(options.reading, sources)
    rows = RowWork(streams=travel.streams, reading=reading, scale=scale)
    work = RuleWork(
        streams=rows.streams,
        reading=rows.reading,
        scale=scale,
        rows=travel.rows,
        schema=line_schema(rows, travel.rows),
    )
    check_rules(work, rules)
    note = _describe(travel)
    return Prepared(
        sources=sources,
        travel=travel,
        buckets=_make_buckets(work, travel, note, options, record=record_rules(rules, None, 0)),
        note=note,
        opening=options.describe_opening(streams, declared),
    )


def check_rules(work: RuleWork, rules: RuleSet) -> None:
    """Raise the mistakes that rules have on the streams."""
    RuleSession(rules, work.reading).prepare(work.known_streams, work.scale)


def record_rules(rules: RuleSet, before: RuleRecord | None, batch: int) -> RuleRecord:
    """Return which rules run from a batch on; those that ran before keep their state."""
    known = {}
    if before is not None:
        known = {(each.name, each.text): each for each in before.versions[-1].rules[0]}
    texts = tuple(
        known.get((rule.name, rule.text), RuleText(rule.name, rule.text, batch)) for rule in rules
    )
    return RuleRecord((BucketGroup(RuleKey(), (0,)),), (RuleVersion(batch, (texts,)),))


def _make_buckets(
    work: RowWork,
    travel: Travel,
    note: Mapping[str, Any],
    options: LiveOptions,
    *,
    window: int | None = None,
    record: RuleRecord | None = None,
) -> LocalWork:
    digest = hashlib.sha256(repr(sorted(note.items())).encode()).hexdigest()[:32]
    return LocalWork(
        work=work,
        query=digest,
        buckets=(0,),
        numbered=options.row is not None or travel.counts,
        window=window,
        record=record,
        finds_late=False,
        in_order=travel.has_one and options.row is None,
        secret=options.secret,
    )


def _decode_rows(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return rows of a table that was joined as they are: Arrow cannot unite their dictionaries."""
    type_ = column.type
    if not pa.types.is_dictionary(type_) or not pa.types.is_struct(type_.value_type):
        return column
    decoded = [chunk.dictionary_decode() for chunk in column.chunks]
    return pa.chunked_array(decoded, type_.value_type)


def _first_timed(sources: Sequence[Source]) -> Source:
    """Return the first source with times; one that ended without columns has none."""
    return next(source for source in sources if source.time_column is not None)


def _fix_columns(reading: RunOptions, sources: Sequence[Source]) -> RunOptions:
    """Return how events are read that have travelled."""
    first = _first_timed(sources)
    return replace(reading, time=first.time_column, type=first.type_column)


def _describe(travel: Travel) -> dict[str, Any]:
    """Return the columns of the streams, for the note in a checkpoint."""
    columns = {
        source.name: {each.name: str(each.type) for each in source.schema}
        for source in travel.sources
    }
    return {"columns": columns} if travel.row is None else {"columns": columns, "row": travel.row}
