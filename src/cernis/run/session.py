"""A query on a stream that goes on: push events, get the matches that end in them.

Or pull: ask at any moment for all there are. A conjunctive query whose head drops
variables has answers in place of matches, each pushed once.

Cost contract: per batch, predicates and keys in Arrow, the kernel per relevant event,
nothing in Python per event. What is kept is what a match can still reach back to:
partial matches, and the events of batches that they reach into.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import floor
from typing import Any, Generic, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cernis.encoding.clock import AttributeClock, Clock, plain_clock, rank_clock, time_clock
from cernis.encoding.encode import AtomEncoder, Encode
from cernis.encoding.keys import KeyCoder
from cernis.engine.correlated.runtime import CorrelatedEngine
from cernis.engine.unary.runtime import UnaryEngine
from cernis.errors import StateError
from cernis.events.batch import EventBatch
from cernis.events.mistakes import Mistakes
from cernis.events.order import Ordering, Progress, Scale
from cernis.events.source import OnError, Source, open_events, schema_of
from cernis.events.store import EventStore, cast_table
from cernis.pattern.atom import TypeIs
from cernis.pattern.check import resolve
from cernis.pattern.predicate import RANK, TIME
from cernis.pattern.query import Unit
from cernis.plan.plan import Plan
from cernis.results.answers import Answers
from cernis.results.matches import Matches
from cernis.results.matchset import ListedMatches, MatchSet
from cernis.results.result import Found
from cernis.run import frozen
from cernis.run.budget import CANDIDATE_BUDGET, Budget, OnBudget
from cernis.run.feed import feed_of
from cernis.run.kept import Kept
from cernis.run.listed import Sieve
from cernis.run.project import Projector
from cernis.schema import Schema

_FORGET_EVERY = 1 << 20
"""Events kept beyond this are looked at for forgetting whenever their number has doubled."""
_FORGET_KEYS = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How events are read: the time and type columns, their unit, what to do with bad rows."""

    time: str | None = None
    type: str = "type"
    time_unit: str = "ms"
    format: str | None = None
    on_error: OnError = "fail"
    budget: int = CANDIDATE_BUDGET
    """The most candidates that a query may have to check one by one."""
    on_budget: OnBudget = "fail"
    """When they are more: an error, or the matches found so far, flagged as partial."""


class Session(Generic[Found]):
    """The state of one query over one stream."""

    def __init__(
        self,
        plan: Plan,
        reading: Reading | None = None,
        *,
        keep: bool = False,
        encode: Encode | None = None,
    ) -> None:
        """`keep` the matches found, for `pull`; `encode` makes what answers atoms."""
        self.reading = reading or Reading()
        self._encode = encode or partial(AtomEncoder, type_column=self.reading.type)
        self.budget = Budget(self.reading.budget, self.reading.on_budget)
        self.mistakes = Mistakes(self.reading.on_error)
        self.store = EventStore(self.reading.time_unit)
        self.progress = Progress()
        self.notes: list[str] = []
        self.keys = KeyCoder(plan.pattern.partition) if plan.pattern.partition else None
        self.keep = keep
        self._start(plan)
        self.clock = _attribute_clock(plan)
        self.kept_from = 0
        """Events before this position have been let go of."""
        self._forget_at = _FORGET_EVERY
        self._failed = ""

    def _start(self, plan: Plan) -> None:
        self.plan = plan
        self.feed = feed_of(plan, self._encode)
        self.sieve = Sieve(plan, self.store, self.budget, self._encode) if plan.listed else None
        self.projector = self._projector(self.budget)
        self.kept = Kept(plan) if self.keep and not self._keeps_answers else None
        self.given: list[pa.Table] = []

    def _projector(self, budget: Budget) -> Projector | None:
        plan = self.plan
        return None if plan.head is None else Projector(plan.head, plan.variables, budget)

    @property
    def _keeps_answers(self) -> bool:
        """Without a window, an answer stays one."""
        return self.plan.head is not None and self.plan.within is None

    # ------------------------------------------------------------- reading

    def push(self, events: Any) -> Found:
        """The matches that end in these events, which follow all events pushed before.

        Of a query whose head drops variables: the answers that are new.
        """
        found = self.collect(events)
        self._forget()
        return found

    def collect(self, events: Any) -> Found:
        """The same for the last events of a stream: nothing is let go of."""
        found = [segment for segments in self._batches(events) for segment in segments]
        return self._result(found)

    def stream(self, events: Any) -> Iterator[Found]:
        """The matches batch by batch; what is handed out stays valid."""
        for segments in self._batches(events):
            if segments:
                yield self._result(segments)
            self._forget()

    def take(self, batch: EventBatch, scale: Scale) -> Found:
        """The matches that end in a batch whose events are in their final order already."""
        found = self._result(self._take(batch, scale))
        self._forget()
        return found

    def pass_over(self, batch: EventBatch, scale: Scale) -> None:
        """Reads a batch for what comes after it; the matches that end in it are not looked at.

        Not for CONSUME BY, where those decide what later matches may use.
        """
        self._take(batch, scale)
        self._forget()

    def pull(self) -> Found:
        """All matches (or answers) so far; with a window, those inside the one that ends now.

        A match is inside when it starts inside, an answer when a match of it does. Only for
        sessions that were opened with `keep=True`.
        """
        if not self.keep:
            raise StateError("nothing is kept to pull: open the session with keep=True")
        self._check_whole()
        if self._keeps_answers:
            return self._answers(self.given, self.budget)
        assert self.kept is not None
        plan, budget = self.plan, Budget(self.reading.budget, self.reading.on_budget)
        found: MatchSet
        if self.kept.lists:
            found = self.kept.listed(plan.variables)
        else:
            roots, limit = self.kept.roots(), plan.pattern.limit
            found = self.feed.found(plan.variables, roots, limit, budget)
        projector = self._projector(budget)
        if projector is None:
            return self._matches(found)
        return self._answers([projector.answers(found, self.store)], budget)

    def check(self, events: Any) -> None:
        """Raises what is wrong with the query for these events, without running it."""
        self._ordering(events)

    @property
    def engine(self) -> UnaryEngine | CorrelatedEngine:
        return self.feed.engine

    @property
    def events(self) -> int:
        """How many events have been read."""
        return self.engine.position

    def _batches(self, events: Any) -> Iterator[list[Any]]:
        self._check_whole()
        ordering = self._ordering(events)
        before = self.engine.position
        try:
            for batch in ordering:
                self.notes = list(ordering.notes)
                yield self._take(batch, ordering.scale)
        except BaseException as error:  # a stream that is left early ends here, too
            # if some of these events have been read, what ended in them is lost
            if self.engine.position > before or self.clock is not None:
                self._failed = str(error) or type(error).__name__
            raise
        self.progress = ordering.progress
        if not self.engine.position:
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

    def _absent_types(self) -> Iterator[str]:
        """Types that the query asks for and that no event has had."""
        if not self.engine.position:
            return
        for index, atom in enumerate(self.feed.encoder.atoms):
            if isinstance(atom, TypeIs) and not any(v[index] for v in self.feed.encoder.vectors):
                where = f" of stream {atom.stream!r}" if atom.stream else ""
                yield f"no event{where} has the type {atom.type!r}"

    def _ordering(self, events: Any) -> Ordering:
        pattern, reading = self.plan.pattern, self.reading
        sources = open_events(
            events,
            names=pattern.streams,
            time=reading.time,
            type=reading.type,
            time_unit=reading.time_unit,
            format=reading.format,
            on_error=self.mistakes,
            declared=pattern.declared,
        )
        schema = schema_of(sources)
        if pattern.declared is None:
            resolve(pattern, schema)
        if not self.engine.position:
            self._decide(schema)
        ordering = Ordering(sources, after=self.progress)
        if pattern.within is not None and pattern.within.unit is Unit.TIME:
            ordering.scale.ticks(pattern.within.size)
        return ordering

    def _decide(self, schema: Schema) -> None:
        """Choose the plan for events of this schema, before the first one is read."""
        plan = self.plan.for_schema(schema)
        if plan is not self.plan:
            self._start(plan)

    def _take(self, batch: EventBatch, scale: Scale) -> list[Any]:
        keys = self.keys.encode(batch) if self.keys is not None else None
        clock = self._clock(batch, keys, scale)
        self.store.append(batch)
        if self.sieve:
            self.sieve.note(batch, keys)
        if self.kept:
            self.kept.note(batch, keys, self._window_of_pull(batch, clock, scale))
        return self.feed.take(batch, keys, clock)

    def _window_of_pull(self, batch: EventBatch, clock: Clock | None, scale: Scale) -> Clock | None:
        """The clock of WITHIN, where a condition has made the engine's window smaller."""
        within = self.plan.within
        if within is None or within == self.plan.pattern.within:
            return clock
        return time_clock(batch, scale.ticks(within.size))

    def _clock(
        self, batch: EventBatch, keys: NDArray[np.int64] | None, scale: Scale
    ) -> Clock | None:
        within = self.plan.pattern.within
        if self.clock is not None:
            return self.clock.read(batch, keys)
        if within is not None and within.plain:
            return plain_clock(batch, scale.plain_ticks(within.size, within.strict))
        if within is not None and within.unit is Unit.TIME:
            return time_clock(batch, scale.ticks(within.size))
        if within is not None and within.attribute == RANK:
            return rank_clock(batch, floor(within.size))
        return None

    # ------------------------------------------------------------- results

    def _result(self, segments: list[Any]) -> Found:
        found = self._found(segments)
        if self.kept:
            self.kept.add(segments, found)
        if self.projector is None:
            return self._matches(found)
        table = self.projector.answers(found, self.store)
        if self.keep and self._keeps_answers and table.num_rows:
            self.given.append(table)
        return self._answers([table], self.budget)

    def _found(self, segments: list[Any]) -> MatchSet:
        plan = self.plan
        if self.sieve:
            return self.sieve.matches(
                self.feed.found(plan.candidate_variables, segments, None, self.budget)
            )
        return self.feed.found(plan.variables, segments, plan.pattern.limit, self.budget)

    def _matches(self, found: MatchSet) -> Found:
        notes, partial = self._told(self.budget)
        store = copy.copy(self.store)
        matches = Matches(found, store, self.plan.pattern, notes=notes, partial=partial)
        return cast(Found, matches)

    def _answers(self, tables: Sequence[pa.Table], budget: Budget) -> Found:
        head = self.plan.head
        assert head is not None
        notes, partial = self._told(budget)
        names = [column.name for column in head.columns]
        table = tables[0] if len(tables) == 1 else self._united(tables)
        return cast(Found, Answers(names, table, notes=notes, partial=partial))

    def _united(self, tables: Sequence[pa.Table]) -> pa.Table:
        """The tables as one, in types that hold the values of all events so far."""
        projector = self._projector(self.budget)
        assert projector is not None
        nothing = projector.answers(ListedMatches(self.plan.variables, ()), self.store)
        return pa.concat_tables([nothing, *(cast_table(table, nothing.schema) for table in tables)])

    def _told(self, budget: Budget) -> tuple[list[str], bool]:
        """What the run has to say, and whether a budget was spent."""
        spent = budget.notes
        self.notes += [note for note in spent if note not in self.notes]
        return self.notes, bool(spent)

    def _forget(self) -> None:
        """Now and then: when the events kept have doubled."""
        if self.engine.position - self.kept_from >= self._forget_at:
            self.forget()
            self._forget_at = max(_FORGET_EVERY, 2 * (self.engine.position - self.kept_from))

    def forget(self) -> None:
        """Let go of the events that no partial match reaches back to."""
        self.kept_from = self.engine.earliest()
        if self.kept:
            self.kept_from = self.kept.earliest(self.kept_from)
            self.kept.forget_before(self.kept_from)
        self.store.forget_before(self.kept_from)
        if self.sieve:
            self.sieve.forget_before(self.kept_from)
        self._forget_keys()
        self.feed.forget()

    def _forget_keys(self) -> None:
        """Keys with nothing alive need no number, once they are many."""
        if self.keys is None:
            return
        live = self.engine.live_keys()
        if self.kept:
            live = np.union1d(live, self.kept.keys())
        if len(self.keys) > 4 * len(live) + _FORGET_KEYS:
            self.keys.keep_only(live)
            self.feed.keep_keys(live)
            if self.clock is not None:
                self.clock.keep_only(live)
            if self.sieve:
                self.sieve.keep_keys(live)
            if self.kept:
                self.kept.keep_keys(live)

    # -------------------------------------------------------------- frozen

    def freeze(self) -> bytes:
        """The state as versioned bytes; `Query.thaw` goes on from there."""
        if self.keep:
            raise StateError(
                "a session that keeps its matches (keep=True) cannot be frozen; freeze one "
                "that only pushes"
            )
        return frozen.freeze(self)

    @classmethod
    def thaw(
        cls,
        plan: Plan,
        state: bytes,
        reading: Reading | None = None,
        *,
        encode: Encode | None = None,
    ) -> Session[Found]:
        """The session that `freeze` turned into bytes; StateError if they are not its own.

        The columns that events are read by are those of the bytes, all else is `reading`'s.
        """
        meta, arrays = frozen.read(state, plan)
        time, type_, time_unit = meta["reading"]
        plan = plan.for_text(frozenset(meta.get("unordered", ())))
        columns = {"time": time, "type": type_, "time_unit": time_unit}
        session = cls(plan, replace(reading or Reading(), **columns), encode=encode)
        frozen.thaw(session, meta, arrays)
        return session


def skipped_notes(sources: Iterable[Source]) -> Iterator[str]:
    """How many bad rows of each source were left out."""
    for source in sources:
        if source.skipped:
            rows = "1 bad row" if source.skipped == 1 else f"{source.skipped:,} bad rows"
            yield f"{source.label}: {rows} skipped"


def _attribute_clock(plan: Plan) -> AttributeClock | None:
    within = plan.pattern.within
    if within is None or within.attribute is None or within.attribute in (TIME, RANK):
        return None
    return AttributeClock(within.attribute.name, within.size)
