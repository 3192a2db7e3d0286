"""`RuleSession`: the rules of a set on a stream that goes on.

It opens events and puts them in order once for all rules, lets the rules read them chunk by chunk
(`read_chunk`), and gives each rule what it has found.

Cost contract: reading once; per event one look-up for each indexed attribute; per rule the cost of
a session over its own events. A rule that shares no engine costs some calls for each
chunk of which it reads an event: a million events, or up to eight where there are thousands of
rules.

State: the events that a match may still report, once for all rules; four bytes for each of them and
each rule that reads it; the partial matches. What is no longer needed is dropped when the state has
doubled, once the set has millions of stored events and records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import partial
from itertools import chain, islice
from typing import Any

import numpy as np
import pyarrow as pa

from cernis.cycles import make_lasting
from cernis.errors import (
    BudgetError,
    DataError,
    MemoryShortage,
    StateError,
    StrictError,
    WarningNote,
    list_warnings,
)
from cernis.events.batch import EventBatch
from cernis.events.odd_times import TimeSpan, check_times, extend_span
from cernis.events.order import Ordering, Scale, StreamPosition
from cernis.events.reading.mistakes import Mistakes
from cernis.events.repack import SharedSize, measure_shared, repack
from cernis.events.source import DescribedStream, Source
from cernis.integers import count_noun
from cernis.results.matches import Matches
from cernis.run.advice.absent_types import SampledTypes
from cernis.run.advice.skipped_rows import note_skipped
from cernis.run.metrics import RuleMetrics, RuleSetMetrics, SessionMetrics
from cernis.run.rules.explain import describe_silence
from cernis.run.rules.freeze import FrozenRules, StreamState, freeze_rules
from cernis.run.rules.reading.derived import is_held, is_late
from cernis.run.rules.reading.prepare import (
    GivenStreams,
    PreparedStreams,
    check_rules,
    note_missing,
    note_refused,
    note_stopped,
    split_groups,
)
from cernis.run.rules.reading.read_chunk import (
    ChunkReader,
    ChunkReading,
    Findings,
    join_batches,
    limit_time,
)
from cernis.run.rules.reading.running import (
    SILENT,
    RuleNotes,
    RuleWarnings,
    RunningRule,
    RunningRules,
    SessionOpener,
)
from cernis.run.rules.reading.streams import name_streams, unite_declared
from cernis.run.rules.results import RuleResults
from cernis.run.rules.routing.router import Router
from cernis.run.rules.rule import Rule, RuleSetError, name_warning, plan_rules
from cernis.run.rules.shared.group import GroupSession, RuleGroup
from cernis.run.rules.shared.shared_rules import RuleChanges, SharedRules, compare_rules
from cernis.run.session import OpenedEvents, RunOptions, Session
from cernis.run.stream_session import EventSession

_NUMBERS = tuple(each.name for each in fields(SessionMetrics))
_FORGET_EVERY = 1 << 22
"""A rule set that keeps more than this (`_count_kept`) forgets when it has doubled."""
_FORGET_AFTER = 1 << 20
"""A rule set forgets after so many events of the input.

Where few events concern each rule, the rules keep few events, but many small arrays.
"""
_LARGEST = 3
"""So many rules are named where memory lacks."""
_BATCH = 64
"""A stored batch of a rule costs as much as so many events."""


class RuleSession(EventSession[Mapping[str, Any], OpenedEvents]):
    """The rules of a set over one stream of events."""

    def __init__(self, rules: SharedRules, options: RunOptions, *, families: bool = True) -> None:
        """Without `families` each rule has a session of its own, as `strict` and limits need it."""
        super().__init__(Mistakes(options.on_error), strict=options.strict)
        self.rules = rules
        self._has_groups = families and _can_share(options)
        with make_lasting():
            plan_rules(rules.list_planned() if self._has_groups else rules)
        self.progress = StreamPosition()
        self._types = SampledTypes()
        self._is_updated = False
        self.stopped: dict[str, str] = {}
        """The rules that were left out as their budget was spent, and the error of each."""
        self._matches: Counter[str] = Counter()
        """How many matches of each rule were pushed."""
        self._time_column: str | None = options.time_column
        self._prepared: PreparedStreams | None = None
        self._is_checked = False
        """Whether all rules were checked against these streams."""
        self._opener = SessionOpener(options)
        self._reader = ChunkReader(self._index([]), options.time_unit)
        self._kept = 0
        """What the rules kept when they last forgot."""
        self._forgot_at = 0
        """How many events of the input had been read then."""
        with make_lasting():
            groups = [*rules.families, *rules.bundles] if self._has_groups else []
            self._use(self._opener.start(rules.rules, groups, []))

    @property
    def missing(self) -> dict[str, tuple[str, ...]]:
        """The columns that rules name and the events lack, by rule, with `missing="null"`."""
        return self._opener.missing

    @property
    def options(self) -> RunOptions:
        return self._opener.options

    @property
    def running(self) -> RunningRules:
        """All rules and groups of rules at work."""
        return self._reader.running

    @property
    def sessions(self) -> list[Session[Any]]:
        """The sessions of all rules and groups."""
        return [running.session for running in self.running]

    def _use(self, running: Sequence[RunningRule]) -> None:
        self._is_checked = False
        self._reader.use(self._index(running, self.running.router))

    def _index(self, running: Sequence[RunningRule], before: Router | None = None) -> RunningRules:
        return RunningRules(running, self.rules.names, self._opener.options.type_column, before)

    # -------------------------------------------------------------- changes

    def update(self, rules: SharedRules) -> RuleChanges:
        """Go on with other rules: those with the same name and text keep their state.

        A rule that is new, or has another text, begins with the next events. Rules that are wrong
        raise an error when they are read (`cernis.rules`) or here, if they are too large to run.
        The session goes on as it was.
        """
        self.guard.check()
        with make_lasting():
            return self._update(rules)

    def _update(self, rules: SharedRules) -> RuleChanges:
        plan_rules(rules)
        changes = compare_rules(self.rules, rules)
        names = {*changes.kept}
        kept = [each for each in self.running if any(rule.name in names for rule in each.rules)]
        self._is_updated = True
        matches = self._matches.items()
        self._matches = Counter({name: number for name, number in matches if name in names})
        groups: list[RuleGroup] = []
        if self._has_groups:
            before = [each.group.keep(names) for each in kept if each.group is not None]
            alone = [each.rules[0].name for each in kept if each.group is None]
            groups = rules.extend_groups(before, alone)
        self.rules = rules
        for name in rules.names:
            self.stopped.pop(name, None)
        self._use(self._opener.start(rules.rules, groups, kept))
        return changes

    def use_tables(self, tables: Mapping[str, Any]) -> None:
        """Join these tables to the events to come; they have the columns of those before.

        Tables that are not given stay. An error leaves the session as it was.
        """
        self.guard.check()
        tables = {**self.options.tables, **tables}
        joining = [each.session for each in self.running if each.pattern.joins]
        if not joining:
            raise StateError("the rules join no tables")
        for session in joining:
            session.check_tables(tables)
        for session in joining:
            session.use_tables(tables)
        self._opener.options = replace(self.options, tables=tables)

    # -------------------------------------------------------------- frozen

    def _freeze(self) -> bytes:
        """Return the names and texts of the rules, and the state of those that have read events."""
        columns = self.options.time, self.options.type, self.options.time_unit
        stream = StreamState(columns, self.progress, self._time_column, self._matches)
        return freeze_rules(self.rules, self._reader, stream)

    @classmethod
    def thaw(
        cls, rules: SharedRules, state: bytes, options: RunOptions | None = None
    ) -> RuleSession:
        """Return the session that `freeze` turned into bytes; StateError if they are not its own.

        The bytes name the columns that events are read by; `options` has the rest.
        """
        frozen = FrozenRules(rules, state)
        time, type_, time_unit = frozen.columns
        options = replace(options or RunOptions(), time=time, type=type_, time_unit=time_unit)
        session = cls(rules, options, families=False)
        session._has_groups = _can_share(options)
        running = session._opener.start(rules.rules, frozen.read_groups(), [])
        frozen.thaw_sessions(running, session._opener)
        session._use(running)
        frozen.thaw_reader(session._reader)
        stream = frozen.read_stream(session._time_column)
        session.progress, session._time_column = stream.progress, stream.time_column
        session._matches.update(stream.matches)
        session._is_updated = True  # what rules have read before is not known for warnings
        return session

    # ------------------------------------------------------------- reading

    def _begin(self, events: Any, *, whole: bool) -> OpenedEvents:
        return self._start(self.open(events))

    def _collect(self, reading: OpenedEvents, *, last: bool = False) -> Mapping[str, Any]:
        """Return what each rule finds in these events."""
        try:
            return self._collect_all(reading, last=last)
        except MemoryError as error:
            raise MemoryShortage(self._describe_memory()) from error

    def _collect_all(self, reading: OpenedEvents, *, last: bool) -> Mapping[str, Any]:
        if not last:
            self.renew_budget()
            answer = self._answer(self._read(reading))
            self._drop_stopped()
            return answer
        read = self._read(reading, forget=False)
        self._read_last(read, reading.ordering.scale, forget=False)
        found = self._conclude(read, last=True, warns=True)
        self._drop_stopped()
        if self.strict:
            pairs = ((rule, list_warnings(found[rule.name].notes)) for rule in self.rules)
            self._refuse([(rule, one) for rule, several in pairs for one in several])
        return found

    def _result(self, segments: list[Any], *, last: bool = False) -> Mapping[str, Any]:
        """Return what is certain now that no further event comes."""
        read: Findings = {}
        if self._reader.scale is not None:
            self._read_last(read, self._reader.scale)
        found = self._count(dict(self._conclude(read, last=last)))
        self._drop_stopped()
        return found

    def _drop_stopped(self) -> None:
        """Leave out the rules that have stopped, as their budget is spent."""
        stopped = self.running.list_stopped()
        if not stopped:
            return
        left = [rule for rule in self.rules if rule.name not in stopped]
        before = {*note_stopped(self.stopped)}
        self._update(type(self.rules)(left, self.rules.refused, skips=True))
        self.stopped |= stopped
        notes = (note for note in self.notes if note not in before)
        self.notes = [*notes, *note_stopped(self.stopped)]

    def _forget_if_due(self) -> None:
        self.forget_if_due()

    def open(self, events: Any) -> list[Source]:
        """Open the streams that any rule reads."""
        self.guard.check()
        patterns = self.running.patterns
        names, declared = name_streams(patterns), unite_declared(patterns)
        sources = self.options.open_sources(events, names, self.mistakes, declared)
        for source in sources:
            if source.name in self.running.made:
                raise DataError(f"rules insert into the stream {source.name!r}, which is given too")
        return sources

    def _start(self, sources: Sequence[Source]) -> OpenedEvents:
        """Check the rules against sources, and order the first batch of their events.

        An error leaves the session as it was.
        """
        ordering = Ordering(sources, after=self.progress)
        first = sources[0]
        self._prepare(GivenStreams(sources, ordering.scale, first.type_column, first.time_column))
        batches = iter(ordering)
        return OpenedEvents(ordering, chain([*islice(batches, 1)], batches))

    def _prepare(self, given: GivenStreams) -> None:
        """Check each rule against its streams; raise all mistakes together."""
        self._time_column = given.time_column
        prepared = self._prepared
        if prepared is None or not prepared.fits(given):
            prepared, self._is_checked = PreparedStreams.of(given), False
        if self._is_checked:
            return
        split = split_groups(self.running, given, self._opener)
        if split is not None:
            self._use(split)
        schemas = self._check_rules(given, prepared)
        if self.options.strict:
            warnings = [
                (each.rules[0], one) for each in self.running for one in each.session.plan.warnings
            ]
            self._refuse(warnings)
        self._reader.schemas = schemas
        self._prepared, self._is_checked = prepared, prepared is not None

    def _check_rules(
        self, given: GivenStreams, prepared: PreparedStreams | None
    ) -> dict[str, pa.Schema]:
        """Check each rule against its streams; those that do not fit are left out, or an error."""
        try:
            return check_rules(self.running, given, self._opener, prepared)
        except RuleSetError as error:
            left = [rule for rule in self.rules if rule.name not in error.rules]
            if not self.rules.skips or not left or len(left) == len(self.rules):
                raise
            refused = (*self.rules.refused, *error.mistakes)
            self.update(type(self.rules)(left, refused, skips=True))
            return self._check_rules(given, prepared)

    def _read(self, opened: OpenedEvents, *, forget: bool = True) -> Findings:
        ordering, batches = opened
        sources = ordering.sources
        read: Findings = {}
        times: TimeSpan | None = None
        for batch in join_batches(batches, len(self.rules)):
            times = extend_span(times, batch, ordering.unit_ns)
            self._types.add(batch)
            how = ChunkReading(forget=forget, stops=self.rules.skips)
            self._reader.read(batch, ordering.scale, read, how)
        self.mistakes.complete()
        self.progress = ordering.progress
        odd = () if times is None else check_times(sources, times)
        self.notes = [*ordering.notes, *note_skipped(sources), *map(WarningNote.of, odd)]
        self.notes += [*note_refused(self.rules.refused), *note_missing(self.missing)]
        self.notes += note_stopped(self.stopped)
        return read

    def _read_last(self, read: Findings, scale: Scale, *, forget: bool = True) -> None:
        """Let rules read what others derive now that no further event comes."""
        if self.running.made:
            how = ChunkReading(forget=forget, last=True, stops=self.rules.skips)
            self._reader.read(self._empty, scale, read, how)

    @property
    def _empty(self) -> EventBatch:
        """A chunk without events."""
        nothing, options = np.empty(0, np.int64), self.options
        columns = options.type_column, self._time_column
        return EventBatch(0, nothing, nothing, (), None, None, *columns)

    # --------------------------------------------- batches in final order

    def prepare(self, streams: Sequence[DescribedStream], scale: Scale) -> None:
        """Check the rules against the columns of streams whose events `take` gets.

        Raises all mistakes together. Necessary before the first batch, and after `update`.
        """
        self.guard.check()
        options = self.options
        self._prepare(GivenStreams(streams, scale, options.type_column, options.time_column))

    def take(self, batch: EventBatch, scale: Scale) -> Iterator[tuple[str, Any]]:
        """Yield what rules find in a batch whose events are in their final order.

        Only rules that may have found something are named.
        """
        with self.guard:
            read: Findings = {}
            self._reader.read(batch, scale, read, ChunkReading())
            found = list(self._list_found(read))
            self.forget_if_due()
        yield from found

    def pass_time(self, nanoseconds: int, scale: Scale) -> Iterator[tuple[str, Any]]:
        """Yield what is certain for each rule once no event before a time comes."""
        inserting = [each for each in self.running.patterns if each.into is not None]
        if any(is_late(each) or is_held(each) for each in inserting):
            with self.guard:
                read: Findings = {}
                self._reader.read(self._empty, scale, read, ChunkReading(until=nanoseconds))
                derived = list(self._list_found(read))
            yield from derived
        for index, running in enumerate(self.running):
            if running.session.pipeline.heeds_time and running.pattern.into is None:
                until = limit_time(nanoseconds, self._reader.bounds.get(index), scale)
                for found in running.session.pass_watermark(until, scale):
                    yield running.rules[0].name, found

    def _list_found(
        self, read: Findings, told: RuleNotes = SILENT, *, stops: bool = False
    ) -> Iterator[tuple[str, Any]]:
        """Yield what rules may have found: those that have read events, or heed the time.

        With `stops`, a rule whose budget is spent stops alone.
        """
        for index in self.running.list_due(read):
            if index not in self.running.stopped:
                with self._stop_spent(index, stops=stops):
                    yield from [*self._list_found_by(index, read, told)]

    def _list_found_by(
        self, index: int, read: Findings, told: RuleNotes
    ) -> Iterator[tuple[str, Any]]:
        running = self.running[index]
        if parts := self._reader.take_found(index):
            yield from running.join_found(parts, told, every=False)
        elif running.pattern.into is None:
            yield from running.conclude(read.get(index, []), told, every=False)

    @contextmanager
    def _stop_spent(self, index: int, *, stops: bool) -> Iterator[None]:
        """Stop a rule whose budget is spent here, if it stops alone."""
        try:
            yield
        except BudgetError as error:
            if not stops:
                raise
            self.running.stop(index, error)

    # ------------------------------------------------------------- answers

    def _answer(self, read: Findings) -> RuleResults:
        """Return what each rule has found so far; the matches are counted."""
        told = RuleNotes(tuple(self.notes), self.mistakes.used)
        listed = dict(self._list_found(read, told, stops=self.rules.skips))
        found, names = self._count(listed), self.running.numbers
        if self.running.stopped:
            stopped = self.running.list_stopped()
            names = {name: number for name, number in names.items() if name not in stopped}
        return RuleResults(names, found, partial(self.running.report_nothing, told))

    def _conclude(
        self, read: Findings, *, last: bool = False, warns: bool = False
    ) -> Mapping[str, Any]:
        """Return what each rule has found, with its notes."""
        found: dict[str, Any] = {}
        for index, running in enumerate(self.running):
            warn = self._find_warnings(index) if warns else None
            told = RuleNotes(tuple(self.notes), self.mistakes.used, warn)
            if index in self.running.stopped:
                continue
            with self._stop_spent(index, stops=self.rules.skips):
                if running.pattern.into is None:
                    found.update(running.conclude(read.get(index, []), told, last=last))
                else:
                    found.update(running.join_found(self._reader.take_found(index), told))
        return {name: found[name] for name in self.rules.names if name in found}

    def _count(self, found: dict[str, Any]) -> dict[str, Any]:
        """Return what rules have found, counted, without the rules that have stopped."""
        for name, each in found.items():
            if not (isinstance(each, Matches) and each.match_set.is_empty()):
                with self._stop_spent(self.running.find_index(name), stops=self.rules.skips):
                    self._matches[name] += each.count()
        stopped = self.running.list_stopped()
        return {name: each for name, each in found.items() if name not in stopped}

    def _find_warnings(self, index: int) -> RuleWarnings | None:
        """Return the warnings about the events of rules that have read all events of their types.

        None: there are none.
        """
        running, own = self.running, self.running[index]
        if running.reads_derived(index) or self._is_updated or not self._reader.events:
            return None
        narrowed = [running.router.is_narrowed(index, owner) for owner in own.owners]
        if all(narrowed):
            return None
        session, types = own.session, self._types
        if not isinstance(session, GroupSession):
            return lambda _: tuple(session.warn_about_truths(types))
        warn = session.find_warnings(types)
        return lambda member: () if narrowed[member] else warn(member)

    def _refuse(self, warnings: Sequence[tuple[Rule, WarningNote]]) -> None:
        """Raise the warnings of rules, if there are any; those of all rules once."""
        named = [one if one in self.notes else name_warning(rule, one) for rule, one in warnings]
        if named:
            raise StrictError(dict.fromkeys(named))

    def renew_budget(self) -> None:
        """Allow each rule as many candidates again."""
        for session in self.sessions:
            session.renew_budget()

    # ------------------------------------------------------------- numbers

    def forget_if_due(self, most: int | None = None) -> None:
        """Forget when the rules keep more than `most`, and twice as much as after the last time.

        Forget after many events, too. Not between reading events and answering.
        """
        self._opener.encoders.forget_batch()
        most = _FORGET_EVERY if most is None else most
        is_long = self._reader.events - self._forgot_at >= _FORGET_AFTER
        if is_long or self._count_kept() > max(most, 2 * self._kept):
            self._forget()

    def forget(self) -> None:
        """Drop the events that no partial match of any rule reaches back to."""
        with self.guard:
            self._forget()

    def _forget(self) -> None:
        for session in self.sessions:
            session.pipeline.forget()
        repack([session.store for session in self.sessions])
        self._kept = self._count_kept()
        self._forgot_at = self._reader.events

    def _count_kept(self) -> int:
        """Return how many events, records and batches the rules keep."""
        return sum(
            session.events
            - session.kept_from
            + session.engine.records
            + _BATCH * len(session.store.batches)
            for session in self.sessions
        )

    def measure_stored(self) -> SharedSize:
        """Return the events that all rules keep together, each once, and their memory."""
        return measure_shared(session.store for session in self.sessions)

    def _describe_memory(self) -> str:
        """Return what takes the memory: stored events, and the rules with most partial matches."""
        stored, numbers = self.measure_stored(), self.metrics()
        largest = sorted(numbers, key=lambda name: -numbers[name].records)[:_LARGEST]
        named = [f"{name} ({count_noun(numbers[name].records, 'record')})" for name in largest]
        kept = f"{count_noun(stored.events, 'event')} in {stored.bytes / 2**20:,.0f} MiB"
        return f"the rules keep {kept}; most partial matches have {', '.join(named)}"

    def metrics(self) -> RuleSetMetrics:
        """Return the numbers of each rule at this moment; they cost nothing."""
        found = dict(pair for running in self.running for pair in running.measure())
        return RuleSetMetrics(
            {
                name: RuleMetrics(
                    **{part: getattr(found[name], part) for part in _NUMBERS},
                    matches=self._matches[name],
                )
                for name in self.rules.names
            }
        )

    def list_silent(self, found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Yield the rules that have found nothing in all events so far, and why."""
        events = dict(pair for each in self.running for pair in each.count_events().items())
        indices = {
            rule.name: (index, member)
            for index, each in enumerate(self.running)
            for member, rule in enumerate(each.rules)
        }
        for rule in self.rules:
            if not found[rule.name].head(1):
                index, member = indices[rule.name]
                warn = self._find_warnings(index)
                notes = () if warn is None else warn(member)
                yield rule.name, describe_silence(rule, events[rule.name], notes)


def _can_share(options: RunOptions) -> bool:
    """Return whether rules may share sessions: not where each has limits or errors of its own."""
    return not options.strict and options.max_keys is None
