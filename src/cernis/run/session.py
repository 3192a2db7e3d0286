"""Sessions of patterns over rows: push events, get the matches that end in them.

Or pull: ask at any time for all matches. A conjunctive query whose head drops variables has
answers in place of matches; each is pushed once.

A session opens events, checks the query against them, puts them in order, and hands them to its
`Pipeline`, which has the cost contract. The first events decide the plan. What sessions of all
languages do is in `run.stream_session`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from typing import Any, Literal, NamedTuple, cast, get_args

import pyarrow as pa

from cernis.encoding.encode import AtomEncoder, Encode, KnownTruths
from cernis.errors import CernisError, StateError, StrictError, WarningNote, list_warnings
from cernis.events.batch import TYPES, EventBatch
from cernis.events.column_types import cast_table
from cernis.events.odd_times import TimeSpan, check_times, extend_span
from cernis.events.order import Ordering, Scale, StreamPosition
from cernis.events.reading.csv_form import Columns
from cernis.events.reading.mistakes import Mistakes
from cernis.events.source import (
    DescribedStream,
    OnError,
    Source,
    TimeColumns,
    TypeColumns,
    open_events,
    stream_of,
)
from cernis.events.store import EventStore
from cernis.pattern.advice.event_window import note_exact_window
from cernis.pattern.query import Consume, Pattern, Unit
from cernis.pattern.selection import added_columns
from cernis.plan.explain import why_idle_stay
from cernis.plan.plan import Plan, make_plan
from cernis.results.answers import Answers
from cernis.results.budget import CANDIDATE_BUDGET, Budget, OnBudget
from cernis.results.groups import Groups
from cernis.results.matches import Matches
from cernis.results.result import Found, Notes
from cernis.results.sets.matchset import MatchSet
from cernis.run.advice.absent_types import SampledTypes, find_absent_types
from cernis.run.advice.skipped_rows import note_skipped
from cernis.run.advice.to_blame import FirstEvents, note_blame
from cernis.run.advice.unmet_conditions import find_passed, find_unmet_conditions
from cernis.run.feed import Engine, Measures
from cernis.run.freeze import freeze_pipeline, read_state, thaw_pipeline
from cernis.run.key_limit import KeyLimit, OnFull
from cernis.run.metrics import SessionMetrics
from cernis.run.slices import count_threads, gather_batches, take_batches
from cernis.run.stages.groups import find_measures
from cernis.run.stages.pipeline import Pipeline, make_run
from cernis.run.stages.projection import Projector
from cernis.run.stages.stage import Purpose
from cernis.run.stream_session import Blame, StreamSession
from cernis.run.tables import Tables
from cernis.schema import Schema

_TRIED_CANDIDATES = 20_000
MatchForm = Literal["events", "count"]
"""What a session returns: the matches with their events, or how many end where."""
MANY_KEYS = 1 << 16
"""A stream with so many partitions that never end has a note."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How a query reads events: the time and type columns, bad rows, too many candidates."""

    time: TimeColumns = None
    type: TypeColumns = "type"
    time_unit: str = "ms"
    format: str | None = None
    columns: Columns | None = None
    """The columns of CSV without a header."""
    delimiter: str | None = None
    quote: str | None = None
    on_error: OnError = "fail"
    budget: int = CANDIDATE_BUDGET
    """The most candidates that a push may have to check one by one."""
    on_budget: OnBudget = "fail"
    """When they are more: an error, or the matches found so far, flagged as partial."""
    max_keys: int | None = None
    """The most partitions that may have partial matches; None: any number."""
    on_full: OnFull = "fail"
    """When they are more: an error, or the partitions that have been idle longest are dropped."""
    tables: Mapping[str, Any] = field(default_factory=dict)
    """The tables that the query joins to its streams, by name."""
    complete: bool = False
    """Whether nothing follows the last event: then matches that wait for a deadline are certain."""
    strict: bool = False
    """Whether warnings are errors."""
    missing: Literal["fail", "null"] = "fail"
    """Columns that a rule of a set names and the events lack: an error, or NULL."""
    threads: int | None = None
    """How many threads read a whole input; None: as many as there are cores."""
    in_order: bool = False
    """Whether the rows of pipes are in order of time: they are then read as they come."""

    @property
    def type_column(self) -> str:
        """The column in which events have their types."""
        return self.type if isinstance(self.type, str) else TYPES

    @property
    def time_column(self) -> str | None:
        """The column in which events of all streams have their times, if it is named."""
        return self.time if isinstance(self.time, str) else None

    def open_sources(
        self, events: Any, names: Sequence[str], mistakes: Mistakes, declared: Schema | None
    ) -> list[Source]:
        """Open events as these options say; rows that cannot be read go to `mistakes`."""
        return open_events(
            events,
            names=names,
            time=self.time,
            type=self.type,
            time_unit=self.time_unit,
            format=self.format,
            columns=self.columns,
            delimiter=self.delimiter,
            quote=self.quote,
            on_error=mistakes,
            declared=declared,
            in_order=self.in_order,
        )

    def new_budget(self) -> Budget:
        return Budget(self.budget, self.on_budget)


class OpenedEvents(NamedTuple):
    """Events that are opened and checked: how they are ordered, and their batches."""

    ordering: Ordering
    batches: Iterator[EventBatch]


class Session(StreamSession[Found, OpenedEvents]):
    """One run of a query over one stream, for one thread at a time.

    Events that cannot be opened, checked or ordered raise an error before any of them is read,
    and the session goes on. After any other error it is closed.
    """

    def __init__(
        self,
        plan: Plan,
        options: RunOptions | None = None,
        *,
        keep: bool = False,
        matches: MatchForm = "events",
        measures: Measures | None = None,
        parts: bool = False,
        encode: Encode | None = None,
    ) -> None:
        """`keep` the matches found, for `pull`; `encode` makes the encoders of atoms.

        With `matches="count"`, the results are the numbers of matches per end.
        `measures` are the aggregates over matches that are enough, beside their number: where the
        plan allows it, matches are never made. Events that the session opens itself decide those
        of GROUP BY. With `parts`, groups are reported as `Grouper.freeze` writes them, for
        another session to add up.
        """
        self.options = options or RunOptions()
        mistakes = Mistakes(self.options.on_error)
        super().__init__(mistakes, strict=self.options.strict, keep=keep)
        self._keeps_answers = keep and plan.head is not None and plan.within is None
        """Without a window, an answer stays one."""
        self._purpose = Purpose(
            keep=keep and not self._keeps_answers,
            counting=_is_counting(plan, matches, keep=keep),
            measures=measures,
            parts=parts,
        )
        self.budget = self.options.new_budget()
        self._limit = KeyLimit(self.options.max_keys, self.options.on_full)
        self._threads = count_threads(self.options.threads)
        self.store = EventStore(self.options.time_unit)
        self.progress = StreamPosition()
        self._types = SampledTypes()
        self._first: FirstEvents | None = FirstEvents()
        """The first events, until something matches."""
        self._encode = encode or partial(AtomEncoder, type_column=self.options.type_column)
        self._answers_so_far: list[pa.Table] = []
        self._tables: Tables | None = None
        self._checked: dict[str, pa.Schema] = {}
        """The schemas that the query was checked against last."""
        self._table_columns: Mapping[str, str] = {}
        """The columns that tables have had in a session that was frozen."""
        self._is_endless = False
        """Whether events have come that more may follow."""
        self._given = plan
        self._start(plan)

    def _start(self, plan: Plan) -> None:
        run = make_run(plan, self.store, self.budget, self._encode, self._purpose)
        self.pipeline = Pipeline(run, self._limit)

    @property
    def plan(self) -> Plan:
        """The plan that runs; the schema of the first events may replace it."""
        return self.pipeline.plan

    @property
    def engine(self) -> Engine:
        return self.pipeline.engine

    @property
    def events(self) -> int:
        """How many events have been read."""
        return self.engine.position

    @property
    def kept_from(self) -> int:
        """The position of the first event that is still stored."""
        return self.pipeline.kept_from

    # ------------------------------------------------------------- reading

    def advance(self, time: int, scale: Scale) -> Found:
        """Return the matches that are certain now that no event before a time comes.

        `time` counts ticks of the stream's times. Of GROUP BY: the groups that are complete.
        """
        with self.guard:
            return self._result(self.pipeline.advance(time, scale))

    def pass_watermark(self, nanoseconds: int, scale: Scale) -> Iterator[Found]:
        """Yield what is certain once no event before a time comes: groups, and matches."""
        stages = self.pipeline.stages
        if any(stage.heeds_time for stage in stages if stage is not stages.closing):
            assert scale.unit_ns is not None
            yield self.advance(nanoseconds // scale.unit_ns, scale)
        if self.first_group_end is not None:
            yield self.pass_time(nanoseconds)

    @property
    def first_group_end(self) -> int | None:
        """The time, in nanoseconds, at which the next group of EVERY ends, or None."""
        stages = self.pipeline.stages
        return None if stages.closing is None else stages.closing.first_close(stages)

    def pass_time(self, nanoseconds: int) -> Found:
        """Return the groups of EVERY that end at or before a time, which no event to come has."""
        stages = self.pipeline.stages
        assert stages.closing is not None
        with self.guard:
            return self._groups(stages.closing.pass_time(nanoseconds, stages))

    def _collect(self, reading: OpenedEvents, *, last: bool = False) -> Found:
        self._is_endless = self._is_endless or not last
        if last and not self.events:
            self.pipeline.remember_batches()
        self.renew_budget()
        if self.plan.pattern.ranks_overall:  # the best so far are kept, not what they are found in
            for segments in self._batches(reading, last=last):
                self.pipeline.find(segments)
                self.renew_budget()
            segments = []
        else:
            segments = list(chain.from_iterable(self._batches(reading, last=last)))
        return self._result(segments, last=last, scale=reading.ordering.scale if last else None)

    def stream(self, events: Any) -> Iterator[Found]:
        """Yield the matches batch by batch; they stay valid."""
        self._is_endless = True
        return super().stream(events)

    def _find_in_batch(self, segments: list[Any]) -> Found | None:
        self.renew_budget()
        return self._result(segments) if segments or self.pipeline.waits else None

    def _end_stream(self, reading: OpenedEvents) -> Found | None:
        rest = None
        if self.pipeline.waits or self.plan.pattern.grouping is not None or self._flushes:
            rest = self._result([], last=True)
        else:
            self.notes += [*self._note_waiting(), *self._warn_at_end()]
        self.notes += self._find_blame(reading.ordering.scale)()
        return rest

    def take(self, batch: EventBatch, scale: Scale, *, own: bool = True) -> Found:
        """Return the matches that end in a batch whose events are in their final order.

        The caller decides when to renew the budget. Unless the batch is its `own`, a match that
        ends in it is ignored; WITHOUT takes note of its events.
        """
        with self.guard:
            found = self._result(self.pipeline.take(batch, scale, own=own))
            self.pipeline.forget_if_due()
            return found

    def keep_order(self) -> None:
        """Push matches by their ends: those of LONGEST wait for others that end earlier."""
        for stage in self.pipeline.stages:
            stage.keep_order()

    def pass_over(self, batch: EventBatch, scale: Scale) -> None:
        """Read a batch for the matches that end after it; ignore those that end in it.

        Not for CONSUME BY and SUPPRESS BY, where those decide about later matches.
        """
        with self.guard:
            self.pipeline.take(batch, scale)
            self.pipeline.forget_if_due()

    def pull(self) -> Found:
        """Return all matches (or answers); with a window, those inside the one that ends now."""
        if self.plan.pattern.grouping is not None:
            raise StateError("groups cannot be pulled: push gives each once, when it is complete")
        return super().pull()

    def _pull(self) -> Found:
        if self._keeps_answers:
            return self._answers(self._answers_so_far, self.budget.was_spent)
        budget = self.options.new_budget()
        found = self.pipeline.pull(budget)
        if self.plan.head is None:
            return self._matches(found, self.budget.was_spent)
        table = Projector(replace(self.pipeline.run, budget=budget), self.plan.head).report(found)
        return self._answers([table], self.budget.was_spent or budget.spent)

    def check(self, events: Any) -> None:
        """Raise the mistakes of the query for these events, without running it."""
        self._open(events)

    def forget(self) -> None:
        """Drop the events that no partial match reaches back to."""
        with self.guard:
            self.pipeline.forget()

    def _forget_if_due(self) -> None:
        self.pipeline.forget_if_due()

    def renew_budget(self) -> None:
        """Allow as many candidates again; a push and a batch of `stream` do so.

        Not after a partial answer to CONSUME BY, SUPPRESS BY or LIMIT … OVERALL: what it would have
        consumed, silenced or outranked is unknown, so no later match is certain.
        """
        is_chained = self.plan.pattern.consume is not Consume.NONE
        is_chained = is_chained or any(stage.is_chained for stage in self.pipeline.stages)
        if not self.budget.spent or not is_chained:
            self.budget.used = 0

    def _begin(self, events: Any, *, whole: bool) -> OpenedEvents:
        """Open events and order the first batch of them; an error leaves the session as it was."""
        self.guard.check()
        if self.options.strict and self.plan.warnings:
            raise StrictError(self.plan.warnings)
        ordering = self._open(events)
        batches = iter(ordering)
        first = list(islice(batches, 1))
        return OpenedEvents(ordering, chain(first, batches))

    def _batches(self, reading: OpenedEvents, *, last: bool = False) -> Iterator[list[Any]]:
        """Read the batches; with `last`, no further event comes."""
        ordering, batches = reading
        spent: list[str] = []
        times: TimeSpan | None = None
        threads = self._threads if last else 1
        for some in gather_batches(batches, self.pipeline, threads):
            for batch in some:
                self._types.add(batch)
                if self._first is not None:
                    self._first.add(batch)
                times = extend_span(times, batch, ordering.unit_ns)
            self.notes = [*ordering.notes, *spent]
            yield take_batches(self.pipeline, some, ordering.scale, threads)
            if self.budget.spent:
                spent = [self.budget.note]
        self.mistakes.complete()
        self.progress = ordering.progress
        if not self.events:
            for source in ordering.sources:
                own = source.schema
                if self._tables is not None:
                    own = self._tables.extend(source.name, own)
                self.store.expect(own, source.type_column, source.time_column)
        self.notes = [
            *ordering.notes,
            *note_skipped(ordering.sources),
            *self.plan.warnings,
            *self._warn_about_events(ordering, times, last=last),
            *note_exact_window(self.plan.pattern),
            *self.plan.notes,
            *self._idle_partitions(),
            *self._describe_waits(last=last),
            *([self._limit.note_dropped] if self._limit.dropped else []),
            *spent,
        ]

    def _open(self, events: Any) -> Ordering:
        """Open the events, check the query against them, and put them in order."""
        pattern = self.plan.pattern
        sources = self.options.open_sources(
            events, pattern.streams, self.mistakes, pattern.declared
        )
        tables = self.prepare(sources)
        join = None if tables is None else tables.join
        in_order = self.options.in_order
        ordering = Ordering(sources, after=self.progress, join=join, in_order=in_order)
        self.check_scale(ordering.scale)
        return ordering

    def prepare(self, sources: Sequence[DescribedStream]) -> Tables | None:
        """Check the query against its sources, and plan it; return the tables that it joins."""
        pattern, tables = self.plan.pattern, self._open_tables()
        schemas = {s.name: s.schema for s in sources}
        if tables is not None:
            schemas = {name: tables.extend(name, own) for name, own in schemas.items()}
        if (self.events or schemas) and schemas == self._checked:
            return tables
        schema = Schema(tuple(stream_of(name, own) for name, own in schemas.items()))
        if pattern.declared is None and not any(source.is_blank for source in sources):
            self._given.check_schema(schema)
            self._checked = schemas
        if not self.events:  # the schema of the first events decides the plan
            plan = self._given.for_schema(schema, self.options.time)
            if pattern.grouping is not None:
                measures = find_measures(pattern, schema, schemas.values())
                self._purpose = replace(self._purpose, measures=measures)
                self._start(plan)
            elif plan is not self.plan:
                self._start(plan)
        return tables

    def check_scale(self, scale: Scale) -> None:
        """Raise an error where the query needs times, and the events have none."""
        pattern = self.plan.pattern
        if pattern.within is not None and pattern.within.unit is Unit.TIME:
            scale.ticks(pattern.within.size)
        if pattern.forget is not None:
            scale.ticks(pattern.forget, "FORGET AFTER")
        for stage in reversed([*self.pipeline.stages]):
            stage.check_scale(scale)

    @property
    def measures(self) -> Measures | None:
        """The aggregates over matches that are enough."""
        return self._purpose.measures

    @property
    def tables(self) -> Tables | None:
        """The tables that the query joins; None: it joins none, or they are not open yet."""
        return self._tables

    def read(self, batch: EventBatch, scale: Scale) -> list[Any]:
        """Read a batch in its final order; return what it found, for `conclude`."""
        with self.guard:
            return self.pipeline.take(batch, scale)

    def pass_by(self, time: int, scale: Scale) -> list[Any]:
        """Note the time of an event that cannot move the query; return what `read` does."""
        with self.guard:
            return self.pipeline.pass_by(time, scale)

    def conclude(self, read: list[Any], *, last: bool = False, forget: bool = True) -> Found:
        """Return the matches in what `read` gave; with `last`, no further event comes.

        Where events may go on, `forget` those that no match reaches back to.
        """
        with self.guard:
            found = self._result(read, last=last)
            if forget and not last:
                self.pipeline.forget_if_due()
            return found

    def empty_result(self) -> Found:
        """Return a result without anything in it, for its columns and its notes."""
        closing = self.pipeline.stages.closing
        if closing is None or self.plan.pattern.grouping is None:
            return self._result([])
        return self._groups(closing.report_nothing())

    def _open_tables(self) -> Tables | None:
        """Return the tables that the query joins, which are read once."""
        if self._tables is None and self.plan.pattern.joins:
            self._tables = Tables(self.plan.pattern, self.options.tables)
            self._tables.check_same(self._table_columns)
        return self._tables

    def use_tables(self, tables: Mapping[str, Any]) -> None:
        """Join these tables to the events to come; they have the columns of those before.

        Events that were read keep the rows that they have.
        """
        self._tables = self.check_tables(tables)
        self.options = replace(self.options, tables=tables)

    def check_tables(self, tables: Mapping[str, Any]) -> Tables:
        """Return tables that the query can join in place of its own; raise an error otherwise."""
        before = self._open_tables()
        if before is None:
            raise StateError("the query joins no tables")
        after = Tables(self.plan.pattern, tables)
        after.check_same(before.describe())
        return after

    def _idle_partitions(self) -> Iterator[str]:
        """Yield a note where a stream has many partitions that stay."""
        keys, plan = self.pipeline.keys, self.plan
        if self._is_endless and plan.keeps_idle and keys is not None and len(keys) >= MANY_KEYS:
            yield f"{len(keys):,} partitions, and idle ones stay: {why_idle_stay(plan.pattern)}"

    def _describe_waits(self, *, last: bool) -> Iterator[str]:
        """Yield a note where a match, or a group, may wait for ever, or until the end."""
        for stage in self.pipeline.stages:
            yield from stage.describe_waits(endless=self._is_endless, last=last)

    def _warn_about_events(
        self, ordering: Ordering, times: TimeSpan | None, *, last: bool
    ) -> Iterator[WarningNote]:
        """Yield warnings about the events that have been read; some need all events (`last`)."""
        if times is not None:
            yield from map(WarningNote.of, check_times(ordering.sources, times))
        if self.events and last:
            yield from self.warn_about_truths(self._types)

    def _note_waiting(self) -> Iterator[str]:
        """Yield a note if the input has ended before the deadlines of some matches."""
        if self.options.complete or self.budget.spent:
            return
        if number := sum(stage.count_waiting() for stage in self.pipeline.stages):
            self._first = None  # nothing else keeps these away
            stays = not any(stage.drops for stage in self.pipeline.stages)
            note = describe_waiting(number if stays else None)
            if note not in self.notes:
                yield note

    def _warn_at_end(self) -> Iterator[WarningNote]:
        """Yield warnings of the clauses, after all events."""
        for stage in self.pipeline.stages:
            yield from stage.warn_at_end()

    def warn_about_truths(self, types: SampledTypes) -> Iterator[WarningNote]:
        """Yield warnings about types and conditions, after all events that they can concern."""
        own, every = self.pipeline.find_truths(), self.pipeline.encoders()
        yield from warn_about_truths(self.plan, own, every, types)

    # ------------------------------------------------------------- results

    @property
    def _flushes(self) -> bool:
        """Whether the end of the input makes certain what waits for a deadline."""
        return self.options.complete and self.plan.pattern.absent_after is not None

    def _result(
        self, segments: list[Any], *, last: bool = False, scale: Scale | None = None
    ) -> Found:
        """Return the matches in these segments; with `last`, no further event comes.

        With the `scale` of the events, a note says what is to blame if there are none.
        """
        if last and self._flushes:
            segments = [*segments, *self.pipeline.finish()]
        found: Any = self.pipeline.report(segments, last=last)
        if last:
            self.notes += [*self._note_waiting(), *self._warn_at_end()]
        if self.plan.pattern.grouping is not None:
            return self._groups(found)
        if self.pipeline.has_matched:
            self._first = None
        blame = None if scale is None else self._find_blame(scale)
        if self.plan.head is None:
            return self._matches(found, self.budget.spent, blame)
        if self._keeps_answers and found.num_rows:
            self._answers_so_far.append(found)
        return self._answers([found], self.budget.spent, blame)

    def _find_blame(self, scale: Scale) -> Blame:
        """Return a function that says what keeps every match away.

        It says nothing if something has matched, or if a warning says it. It runs when the notes
        are read.
        """
        first, plan = self._first, self.plan
        if first is None or plan.pattern.grouping is not None or list_warnings(self.notes):
            return list
        encode, time_unit = self._encode, self.options.time_unit

        def has_matches(trial: Pattern) -> bool:
            tried = make_plan(trial, plan.unindexed)
            budget = Budget(_TRIED_CANDIDATES, "partial")
            pipeline = Pipeline(make_run(tried, EventStore(time_unit), budget, encode))
            taken = [each for batch in first.batches for each in pipeline.take(batch, scale)]
            return not pipeline.find(taken, last=True).is_empty()

        def find() -> list[str]:
            try:
                return [*note_blame(plan.written or plan.pattern, first, has_matches)]
            except CernisError:  # a trial may be too costly, or refused
                return []

        return find

    def _note_result(self, partial: bool, blame: Blame | None = None) -> Notes:
        """Return the notes of a result."""
        self._note_partial(partial)
        return self._list_notes(blame)

    def _matches(self, found: MatchSet, partial: bool, blame: Blame | None = None) -> Found:
        store = copy.copy(self.store)
        pattern, used = self.plan.pattern, self.mistakes.used
        matches = Matches(
            found,
            store,
            pattern,
            notes=self._note_result(partial, blame),
            partial=partial,
            used=used,
            deadline=self.pipeline.deadline(),
            counting=self._purpose.counting,
        )
        return cast(Found, matches)

    def _groups(self, table: pa.Table) -> Found:
        grouping, partial = self.plan.pattern.grouping, self.budget.spent
        assert grouping is not None
        notes, added = self._note_result(partial), added_columns(self.plan.pattern)
        groups = Groups(table, grouping.components, notes=notes, partial=partial, added=added)
        return cast(Found, groups)

    def _answers(
        self, tables: Sequence[pa.Table], partial: bool, blame: Blame | None = None
    ) -> Found:
        head = self.plan.head
        assert head is not None
        notes = self._note_result(partial, blame)
        names = [column.name for column in head.columns]
        table = tables[0] if len(tables) == 1 else self._unite(tables)
        used = self.mistakes.used
        return cast(Found, Answers(names, table, notes=notes, partial=partial, used=used))

    def _unite(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Return the tables as one, in types that hold the values of all events so far."""
        assert self.plan.head is not None
        nothing = Projector(self.pipeline.run, self.plan.head).report_nothing()
        return pa.concat_tables([nothing, *(cast_table(table, nothing.schema) for table in tables)])

    def _note_partial(self, partial: bool) -> None:
        if partial and self.budget.note not in self.notes:
            self.notes.append(self.budget.note)

    # -------------------------------------------------------------- frozen

    def metrics(self) -> SessionMetrics:
        """Return the numbers of this moment; they cost nothing."""
        return self.pipeline.metrics()

    def _freeze(self) -> bytes:
        columns = (self.options.time, self.options.type, self.options.time_unit)
        tables = self._table_columns if self._tables is None else self._tables.describe()
        return freeze_pipeline(self.pipeline, self.progress, columns, tables)

    @classmethod
    def thaw(
        cls,
        plan: Plan,
        state: bytes,
        options: RunOptions | None = None,
        *,
        measures: Measures | None = None,
        encode: Encode | None = None,
    ) -> Session[Found]:
        """Return the session that `freeze` turned into bytes; StateError if they are not its own.

        The bytes name the columns that events are read by; `options` has the rest, and
        `measures` are those of the session that was frozen.
        """
        frozen = read_state(state, plan)
        time, type_, time_unit = frozen.columns
        options = replace(options or RunOptions(), time=time, type=type_, time_unit=time_unit)
        plan = plan.leave_out(frozen.unindexed, keep=False)
        form: MatchForm = "count" if frozen.run.counting else "events"
        session = cls(plan, options, matches=form, measures=measures, encode=encode)
        thaw_pipeline(session.pipeline, frozen)
        session._table_columns = frozen.run.tables or {}
        session.progress = replace(frozen.progress, position=session.events)
        return session


_COMPLETE = "--complete (in Python complete=True) says that nothing follows"
MAY_WAIT = f"matches whose deadline lies after the last event, if any, are left out; {_COMPLETE}"
"""The note of an engine that does not count such matches."""


def describe_waiting(number: int | None = None) -> str:
    """Return the note that matches are left out, so many or some.

    >>> describe_waiting(1)[:71]
    '1 match is left out: its deadline lies after the last event; --complete'
    """
    many = "some matches are" if number is None else f"{number:,} matches are"
    whose, them = "their deadline", "them"
    if number == 1:
        many, whose, them = "1 match is", "its deadline", "it"
    help_ = _COMPLETE if number is None else f"{_COMPLETE}, and reports {them}"
    return f"{many} left out: {whose} lies after the last event; {help_}"


def _is_counting(plan: Plan, matches: MatchForm, *, keep: bool) -> bool:
    """Return whether a session counts matches alone; raise an error where it cannot."""
    if matches not in get_args(MatchForm):
        raise CernisError(f"matches={matches!r}: expected 'events' or 'count'")
    if matches == "events":
        return False
    if plan.pattern.grouping is not None:
        raise CernisError("matches='count' does not go with GROUP BY: select COUNT(*)")
    if plan.head is not None:
        raise CernisError(
            "matches='count' does not go with a head that drops variables: count its answers"
        )
    if keep:
        raise CernisError("matches='count' does not go with keep=True: no match is kept")
    return True


def warn_about_truths(
    plan: Plan, own: KnownTruths, every: Iterable[KnownTruths], types: SampledTypes
) -> Iterator[WarningNote]:
    """Yield warnings about types and conditions that no event has met.

    `own` are the truths of the atoms of the query, `every` also those of its guards.
    """
    pattern = plan.pattern
    found = [*find_absent_types(pattern, every, types)]
    if not plan.warnings:
        found += find_unmet_conditions(pattern, find_passed(own))
    yield from (WarningNote.of(one, pattern.source) for one in found)
