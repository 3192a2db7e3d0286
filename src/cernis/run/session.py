"""A query on a stream that goes on: push events, get the matches that end in them.

Or pull: ask at any moment for all matches. A conjunctive query whose head drops variables has
answers in place of matches; each is pushed once.

A session opens events, checks the query against them, puts them in order, and hands them to its
`Pipeline`, which has the cost contract. The first events decide the plan.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, cast

import pyarrow as pa

from cernis.encoding.encode import AtomEncoder, Encode
from cernis.errors import StateError
from cernis.events.batch import EventBatch
from cernis.events.mistakes import Mistakes
from cernis.events.order import Ordering, Scale, StreamPosition
from cernis.events.source import OnError, Source, open_events, schema_of
from cernis.events.store import EventStore, cast_table
from cernis.pattern.atom import TypeIs
from cernis.pattern.check import resolve
from cernis.pattern.query import Unit
from cernis.plan.plan import Plan
from cernis.results.answers import Answers
from cernis.results.matches import Matches
from cernis.results.matchset import ListedMatches, MatchSet
from cernis.results.result import Found
from cernis.run.budget import CANDIDATE_BUDGET, Budget, OnBudget
from cernis.run.feed import Engine
from cernis.run.freeze import freeze_pipeline, read_state, thaw_pipeline
from cernis.run.pipeline import Pipeline


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How a query reads events: the time and type columns, bad rows, too many candidates."""

    time: str | None = None
    type: str = "type"
    time_unit: str = "ms"
    format: str | None = None
    on_error: OnError = "fail"
    budget: int = CANDIDATE_BUDGET
    """The most candidates that a query may have to check one by one."""
    on_budget: OnBudget = "fail"
    """When they are more: an error, or the matches found so far, flagged as partial."""

    def new_budget(self) -> Budget:
        return Budget(self.budget, self.on_budget)


class Session(Generic[Found]):
    """One run of a query over one stream."""

    def __init__(
        self,
        plan: Plan,
        options: RunOptions | None = None,
        *,
        keep: bool = False,
        encode: Encode | None = None,
    ) -> None:
        """`keep` the matches found, for `pull`; `encode` makes the encoders of atoms."""
        self.options = options or RunOptions()
        self.keep = keep
        self.budget = self.options.new_budget()
        self.mistakes = Mistakes(self.options.on_error)
        self.store = EventStore(self.options.time_unit)
        self.progress = StreamPosition()
        self.notes: list[str] = []
        self._encode = encode or partial(AtomEncoder, type_column=self.options.type)
        self._keeps_answers = keep and plan.head is not None and plan.within is None
        """Without a window, an answer stays one."""
        self._answers_so_far: list[pa.Table] = []
        self._failed = ""
        self._start(plan)

    def _start(self, plan: Plan) -> None:
        keep = self.keep and not self._keeps_answers
        self.pipeline = Pipeline(plan, self.store, self.budget, self._encode, keep=keep)

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

    def push(self, events: Any) -> Found:
        """Return the matches that end in these events, which follow all events pushed before.

        Of a query whose head drops variables: the answers that are new.
        """
        found = self.collect(events)
        self.pipeline.forget_if_due()
        return found

    def collect(self, events: Any) -> Found:
        """Like `push`, for the last events of a stream: keeps all events."""
        found = [segment for segments in self._batches(events) for segment in segments]
        return self._result(found)

    def stream(self, events: Any) -> Iterator[Found]:
        """Yield the matches batch by batch; they stay valid."""
        for segments in self._batches(events):
            if segments:
                yield self._result(segments)
            self.pipeline.forget_if_due()

    def take(self, batch: EventBatch, scale: Scale) -> Found:
        """Return the matches that end in a batch whose events are in their final order."""
        found = self._result(self.pipeline.take(batch, scale))
        self.pipeline.forget_if_due()
        return found

    def pass_over(self, batch: EventBatch, scale: Scale) -> None:
        """Read a batch for the matches that end after it; ignore those that end in it.

        Not for CONSUME BY, where those decide what later matches may use.
        """
        self.pipeline.take(batch, scale)
        self.pipeline.forget_if_due()

    def pull(self) -> Found:
        """Return all matches (or answers); with a window, those inside the one that ends now.

        A match is inside when it starts inside, an answer when a match of it does. Only for
        sessions that were opened with `keep=True`.
        """
        if not self.keep:
            raise StateError("nothing is kept to pull: open the session with keep=True")
        self._check_whole()
        if self._keeps_answers:
            return self._answers(self._answers_so_far, self.budget)
        budget = self.options.new_budget()
        found = self.pipeline.pull(budget)
        projector = self.pipeline.new_projector(budget)
        if projector is None:
            return self._matches(found)
        return self._answers([projector.answers(found, self.store)], budget)

    def check(self, events: Any) -> None:
        """Raise the mistakes of the query for these events, without running it."""
        self._open(events)

    def forget(self) -> None:
        """Drop the events that no partial match reaches back to."""
        self.pipeline.forget()

    def _batches(self, events: Any) -> Iterator[list[Any]]:
        self._check_whole()
        ordering = self._open(events)
        before = self.events
        try:
            for batch in ordering:
                self.notes = list(ordering.notes)
                yield self.pipeline.take(batch, ordering.scale)
        except BaseException as error:  # a stream that is left early ends here, too
            # if some of these events have been read, the matches that ended in them are lost
            if self.events > before or self.pipeline.clock is not None:
                self._failed = str(error) or type(error).__name__
            raise
        self.progress = ordering.progress
        if not self.events:
            for source in ordering.sources:
                self.store.expect(source.schema, source.type_column, source.time_column)
        self.notes = [
            *ordering.notes,
            *skipped_notes(ordering.sources),
            *self._absent_types(),
            *self.plan.notes,
            *self.budget.notes,
        ]

    def _check_whole(self) -> None:
        if self._failed:
            raise StateError(
                f"this session has failed before ({self._failed}); begin a new one, or thaw a "
                "state that was frozen before"
            )

    def _open(self, events: Any) -> Ordering:
        """Open the events, check the query against them, and put them in order."""
        pattern, options = self.plan.pattern, self.options
        sources = open_events(
            events,
            names=pattern.streams,
            time=options.time,
            type=options.type,
            time_unit=options.time_unit,
            format=options.format,
            on_error=self.mistakes,
            declared=pattern.declared,
        )
        schema = schema_of(sources)
        if pattern.declared is None:
            resolve(pattern, schema)
        if not self.events:  # the schema of the first events decides the plan
            plan = self.plan.for_schema(schema)
            if plan is not self.plan:
                self._start(plan)
        ordering = Ordering(sources, after=self.progress)
        if pattern.within is not None and pattern.within.unit is Unit.TIME:
            ordering.scale.ticks(pattern.within.size)
        return ordering

    def _absent_types(self) -> Iterator[str]:
        """Yield a note for each type that the query names and no event has had."""
        if not self.events:
            return
        encoder = self.pipeline.feed.encoder
        for index, atom in enumerate(encoder.atoms):
            if isinstance(atom, TypeIs) and not any(vector[index] for vector in encoder.vectors):
                where = f" of stream {atom.stream!r}" if atom.stream else ""
                yield f"no event{where} has the type {atom.type!r}"

    # ------------------------------------------------------------- results

    def _result(self, segments: list[Any]) -> Found:
        found = self.pipeline.find(segments)
        projector = self.pipeline.projector
        if projector is None:
            return self._matches(found)
        table = projector.answers(found, self.store)
        if self._keeps_answers and table.num_rows:
            self._answers_so_far.append(table)
        return self._answers([table], self.budget)

    def _matches(self, found: MatchSet) -> Found:
        partial = self._note_budget(self.budget)
        store = copy.copy(self.store)
        matches = Matches(found, store, self.plan.pattern, notes=self.notes, partial=partial)
        return cast(Found, matches)

    def _answers(self, tables: Sequence[pa.Table], budget: Budget) -> Found:
        head = self.plan.head
        assert head is not None
        partial = self._note_budget(budget)
        names = [column.name for column in head.columns]
        table = tables[0] if len(tables) == 1 else self._unite(tables)
        return cast(Found, Answers(names, table, notes=self.notes, partial=partial))

    def _unite(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Return the tables as one, in types that hold the values of all events so far."""
        projector = self.pipeline.new_projector(self.budget)
        assert projector is not None
        nothing = projector.answers(ListedMatches(self.plan.variables, ()), self.store)
        return pa.concat_tables([nothing, *(cast_table(table, nothing.schema) for table in tables)])

    def _note_budget(self, budget: Budget) -> bool:
        """Add the budget's notes to the session's; return whether it is spent."""
        spent = budget.notes
        self.notes += [note for note in spent if note not in self.notes]
        return bool(spent)

    # -------------------------------------------------------------- frozen

    def freeze(self) -> bytes:
        """Return the state as versioned bytes; `Query.thaw` goes on from there."""
        if self.keep:
            raise StateError(
                "a session that keeps its matches (keep=True) cannot be frozen; freeze one "
                "that only pushes"
            )
        columns = (self.options.time, self.options.type, self.options.time_unit)
        return freeze_pipeline(self.pipeline, self.progress, columns)

    @classmethod
    def thaw(
        cls,
        plan: Plan,
        state: bytes,
        options: RunOptions | None = None,
        *,
        encode: Encode | None = None,
    ) -> Session[Found]:
        """Return the session that `freeze` turned into bytes; StateError if they are not its own.

        The bytes name the columns that events are read by; `options` has the rest.
        """
        frozen = read_state(state, plan)
        time, type_, time_unit = frozen.columns
        options = replace(options or RunOptions(), time=time, type=type_, time_unit=time_unit)
        session = cls(plan.for_text(frozen.unordered), options, encode=encode)
        thaw_pipeline(session.pipeline, frozen)
        session.progress = frozen.progress
        return session


def skipped_notes(sources: Iterable[Source]) -> Iterator[str]:
    """Yield how many bad rows of each source were left out."""
    for source in sources:
        if source.skipped:
            rows = "1 bad row" if source.skipped == 1 else f"{source.skipped:,} bad rows"
            yield f"{source.label}: {rows} skipped"
