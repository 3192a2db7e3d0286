"""Rules at work: `RunningRule` is one, or a group, and `RunningRules` are all of a session.

Cost contract: per chunk that of `routing.Router`, and for each running rule that of its session.
Of the events of routed rules, the columns that these read are copied while they read them, once for
all rules that read the same events; stores keep indices in the chunk. Rules that ask the same atoms
encode a shared batch once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa

from cernis.automata.unary.cea import Test
from cernis.encoding.encode import AtomEncoder, Encode, Encoder, KnownGroups
from cernis.encoding.lazy import LazyEncoder
from cernis.errors import BudgetError
from cernis.events.batch import EventBatch, Int32s, Int64s, take_events
from cernis.events.order import Scale
from cernis.events.store import EventStore
from cernis.output import UsedFile
from cernis.pattern.atom import Atom
from cernis.pattern.query import Pattern, Strategy
from cernis.plan.plan import Plan
from cernis.results.matches import Matches
from cernis.results.sets.matchset import MatchSet
from cernis.run.metrics import SessionMetrics
from cernis.run.query import Query
from cernis.run.requirements import list_columns
from cernis.run.rules.reading.derived import (
    PathLog,
    count_steps,
    derive_schema,
    is_held,
    is_late,
    unite_schemas,
    widen,
)
from cernis.run.rules.reading.pending import DerivedBound, PendingEvents, find_bound
from cernis.run.rules.routing.router import RoutedRules, Router
from cernis.run.rules.rule import Rule, describe_mistake, order_rules
from cernis.run.rules.shared.group import GroupSession, RuleGroup
from cernis.run.session import RunOptions, Session

RuleWarnings = Callable[[int], tuple[str, ...]]
"""The warnings about the events of a rule, by its index among those that share a session."""


class RuleNotes(NamedTuple):
    """What is told with the matches of rules; notes are listed when they are asked for."""

    shared: tuple[str, ...] = ()
    """The notes of all rules."""
    used: Sequence[UsedFile] = ()
    warn: RuleWarnings | None = None

    def list_notes(self, plan: Plan, index: int) -> tuple[str, ...]:
        """Return the notes of a rule after those of all."""
        odd = () if self.warn is None else self.warn(index)
        return (*self.shared, *plan.warnings, *odd, *plan.notes)

    def list_later(self, rule: Rule, index: int) -> tuple[str, ...]:
        """Like `list_notes`, of a rule whose plan is made for them."""
        return self.list_notes(rule.query.plan, index)


SILENT = RuleNotes()


@dataclass(eq=False)
class RunningRule:
    """A session over the events of a rule, or of the rules of a group."""

    rules: tuple[Rule, ...]
    session: Session[Any]
    number: int = 0
    """The number of the first of its rules in the rule set."""
    counted: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))
    """How many events each rule of a group has had."""
    log: PathLog = field(default_factory=PathLog)
    """The paths of its last events, for matches that become events."""
    pending: PendingEvents = field(default_factory=PendingEvents)
    """The events that it may not read yet."""
    derived: tuple[Any, pa.Schema] | None = None
    """The columns of the events that matches of a group become, and what they follow from."""
    checked: object = None
    """The streams that it was checked against, if no rule inserts into one."""

    @property
    def group(self) -> RuleGroup | None:
        """The rules that share the session; None: there is one."""
        return self.session.group if isinstance(self.session, GroupSession) else None

    @property
    def pattern(self) -> Pattern:
        group = self.group
        return (self.rules[0].query if group is None else group.whole).pattern

    @property
    def routed(self) -> RoutedRules | None:
        """The events that can move its rules; None: it reads every event."""
        if (group := self.group) is not None:
            return group.routed
        (rule,) = self.rules
        if (rule.whole and not rule.is_paced) or rule.needed is None:
            return None
        return RoutedRules(rule.query.pattern.streams, {None: rule.needed})

    @cached_property
    def is_paced(self) -> bool:
        """Whether it is told the times of events that it does not read."""
        return self.group is None and self.rules[0].is_paced

    @cached_property
    def reports_late(self) -> bool:
        """Whether it may report what it has found before, in a chunk in which it finds nothing."""
        pattern = self.pattern
        waits = pattern.ranks_intervals or pattern.ranks_overall or pattern.grouping is not None
        return waits or pattern.strategy is Strategy.LONGEST

    @cached_property
    def columns(self) -> frozenset[str]:
        """The columns that its rules read before they find a match."""
        if self.group is not None and self.group.is_family:
            return list_columns(self.group.whole.plan)
        return frozenset[str]().union(*(rule.columns for rule in self.rules))

    @property
    def owners(self) -> Sequence[int | None]:
        """The numbers of its rules in `routed`."""
        return (None,) if self.group is None else self.group.owners

    def widen(self, width: int) -> None:
        """Make room for paths of more steps."""
        self.log = self.log._replace(paths=widen(self.log.paths, width))
        self.pending.widen(width)

    def find_open(self) -> DerivedBound | None:
        """Return up to where its matches are known; None: all that end so far are.

        What comes before is dropped from the log of paths.
        """
        position = self.session.pipeline.first_open() if is_held(self.pattern) else None
        if position is not None and is_late(self.pattern):
            # a match stands at its deadline, which had not passed at the first event of the log
            position = max(position, self.log.first)
        last = self.session.events - 1
        self.log = self.log.forget_before(last if position is None else position)
        return None if position is None else find_bound(self.log, position)

    def change_group(self, after: RuleGroup, number: int) -> RunningRule:
        """Return the same session with other rules; those that left it leave nothing behind."""
        assert isinstance(self.session, GroupSession)
        before, stay = self.session.group, {*after.rules}
        pairs = zip(before.rules, before.owners, strict=True)
        left = [owner for rule, owner in pairs if rule not in stay]
        self.session.pipeline.use(after, np.array(left, np.int64))
        known = dict(zip(before.rules, self.counted.tolist(), strict=False))
        counted = np.array([known.get(rule, 0) for rule in after.rules], np.int64)
        return RunningRule(after.rules, self.session, number, counted)

    def read(self, batch: EventBatch, scale: Scale) -> list[Any]:
        """Read events in their final order; return what was found, for `conclude`."""
        if (group := self.group) is not None:
            counts = np.bincount(group.find_rules(batch), minlength=len(self.rules))
            self.counted = counts + self.counted if len(self.counted) else counts
        return self.session.read(replace(batch, base=self.session.events), scale)

    def conclude(
        self,
        segments: list[Any],
        told: RuleNotes = SILENT,
        *,
        last: bool = False,
        forget: bool = True,
        every: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        """Yield what rules have found; of a group, those that have found something, or `every`."""
        if not isinstance(self.session, GroupSession):
            self._note(told)
            yield self.rules[0].name, self.session.conclude(segments, last=last, forget=forget)
            return
        group, owners = self.session.group, self.session.list_owners(segments)
        # which may renumber keys
        found = self.session.conclude(segments, last=last, forget=forget)
        shares = dict(group.split(found, segments, owners))
        for index in range(len(self.rules)) if every else shares:
            own = shares.get(index) or group.nothing[index]
            yield self.rules[index].name, self._tell(index, own, found.store, told)

    def report_nothing(self, index: int, told: RuleNotes) -> Any:
        """Return the result of a rule that has found nothing, by its index in the group."""
        if self.group is None:
            self._note(told)
            return self.session.empty_result()
        store = self.session.empty_result().store
        return self._tell(index, self.group.nothing[index], store, told)

    def _note(self, told: RuleNotes) -> None:
        self.session.notes = [*told.list_notes(self.session.plan, 0)]

    def join_found(
        self, parts: Sequence[tuple[str, Any]], told: RuleNotes = SILENT, *, every: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """Yield what rules that insert into a stream have found in chunks; with `every`, of all."""
        by_name: dict[str, list[Any]] = {}
        for name, part in parts:
            by_name.setdefault(name, []).append(part)
        if self.group is None:
            if every:  # for its notes
                self._note(told)
                by_name.setdefault(self.rules[0].name, []).append(self.session.empty_result())
            yield from ((name, own[0].join(own[1:])) for name, own in by_name.items())
            return
        for index, rule in enumerate(self.rules):
            if own := by_name.get(rule.name):
                found = own[0] if len(own) == 1 else own[0].join(own[1:])
                yield rule.name, self._tell(index, found.match_set, found.store, told)
        if every:
            for name, nothing in self.conclude([], told):
                if name not in by_name:
                    yield name, nothing

    def _tell(self, index: int, found: MatchSet, store: EventStore, told: RuleNotes) -> Matches:
        """Return the matches of a rule of a group, with its notes."""
        assert self.group is not None
        pattern, notes = self.group.find_pattern(index), partial(told.list_later, self.rules[index])
        return Matches(found, store, pattern, notes=partial(notes, index), used=told.used)

    def derive_schemas(self, type_column: str, time_column: str | None) -> list[pa.Schema]:
        """Return the columns of the events that matches become; those of a group are united."""
        if self.group is None:
            return [derive_schema(self.session.empty_result(), type_column, time_column)]
        columns = self.session.store.schemas, type_column, time_column
        if self.derived is None or self.derived[0] != columns:
            found = [derive_schema(each, type_column, time_column) for _, each in self.conclude([])]
            self.derived = columns, unite_schemas(self.pattern.into or "", found)
        return [self.derived[1]]

    def count_events(self) -> dict[str, int]:
        """Return how many events each rule has had."""
        if self.group is None:
            return {self.rules[0].name: self.session.events}
        counted = self.counted if len(self.counted) else np.zeros(len(self.rules), np.int64)
        return dict(zip((rule.name for rule in self.rules), counted.tolist(), strict=True))

    def measure(self) -> Iterator[tuple[str, SessionMetrics]]:
        """Yield the numbers of each rule; some microseconds for each, and no event is read.

        The rules of a group keep events and spend time together: each has a share by the number of
        its events.
        """
        whole = self.session.metrics()
        if not isinstance(self.session, GroupSession):
            yield self.rules[0].name, whole
            return
        silenced = self.session.pipeline.count_silenced().tolist()
        for (name, events), lost in zip(self.count_events().items(), silenced, strict=True):
            part = events / max(whole.events, 1)
            shared = {each: round(getattr(whole, each) * part) for each in _SHARED}
            spent = {stage: part * seconds for stage, seconds in whole.seconds.items()}
            yield name, replace(whole, events=events, suppressed=lost, seconds=spent, **shared)


_SHARED = ("relevant", "stored", "stored_bytes", "keys", "records")


class RoutedBatch(NamedTuple):
    """The events that rules read, of a batch of the input."""

    events: EventBatch
    at: Int64s
    """Where these stand in the batch."""


class RunningRules:
    """The rules and groups of rules of a session; each has an index."""

    def __init__(
        self,
        running: Sequence[RunningRule],
        names: Sequence[str],
        type_column: str,
        before: Router | None = None,
    ) -> None:
        """`names` are those of all rules, in the order of the rule set; `before` is the router of
        the rules that ran until now."""
        self._running = list(running)
        self.patterns = [each.pattern for each in running]
        self.numbers = {name: number for number, name in enumerate(names)}
        """The number of each rule in the rule set."""
        self.made = {each.into for each in self.patterns if each.into is not None}
        """The streams that rules insert into."""
        self.order, _ = order_rules(self.patterns)
        """The indices, such that each rule comes after those that it reads."""
        widths = (max(each.log.paths.shape[1], each.pending.width) for each in running)
        self.width = max([1 + 2 * count_steps(self.patterns, self.order), *widths])
        """The length of the paths of events (`derived`)."""
        for each in running:
            each.widen(self.width)
        pairs = enumerate(each.routed for each in running)
        self.router = Router(
            {i: own for i, own in pairs if own is not None and not self.reads_derived(i)},
            type_column,
            before,
        )
        every = enumerate(self._running)
        self._late = [i for i, own in every if own.reports_late or own.pattern.into is not None]
        """Those that may report something in a chunk of which they read no event."""
        self._reading = [i for i in self.order if self._reads_each_chunk(i)]
        self._ranks = {index: rank for rank, index in enumerate(self.order)}
        self.stopped: dict[int, str] = {}
        """Why rules read no more."""

    def __len__(self) -> int:
        return len(self._running)

    def __iter__(self) -> Iterator[RunningRule]:
        return iter(self._running)

    def __getitem__(self, index: int) -> RunningRule:
        return self._running[index]

    def reads_derived(self, index: int) -> bool:
        """Return whether a rule reads a stream that others insert into."""
        return not self.made.isdisjoint(self.patterns[index].streams)

    def _reads_each_chunk(self, index: int) -> bool:
        own = self._running[index]
        return index not in self.router or own.is_paced or own.pattern.into is not None

    def stop(self, index: int, error: BudgetError) -> None:
        """Let a rule whose budget is spent read no more, and those that read what it inserts.

        Raise the error for rules that share an engine, and where no rule would be left.
        """
        if self._running[index].group is not None:
            raise error
        self._stop(index, str(error))
        if len(self.stopped) == len(self._running):
            raise error

    def _stop(self, index: int, why: str) -> None:
        self.stopped[index] = why
        into, name = self.patterns[index].into, self._running[index].rules[0].name
        for other, pattern in enumerate(self.patterns):
            if into is not None and into in pattern.streams and other not in self.stopped:
                self._stop(other, f"rule {name} inserts into {into}, and has stopped")

    def list_stopped(self) -> dict[str, str]:
        """Return what is wrong with rules that read no more, by their names."""
        pairs = ((rule, why) for i, why in self.stopped.items() for rule in self._running[i].rules)
        return {rule.name: _describe_stop(rule, why) for rule, why in pairs}

    def find_index(self, name: str) -> int:
        """Return the index of the rule, or of the group, with a rule of this name."""
        return self._members[name][0]

    def list_reading(self, routed: Collection[int]) -> list[int]:
        """Return the indices that have something to do with a chunk, in order."""
        return sorted({*routed, *self._reading}, key=self._ranks.__getitem__)

    def list_due(self, read: Collection[int]) -> list[int]:
        """Return the indices that may have something to report: they `read` events, or wait."""
        late = (index for index in self._late if self._may_report(index))
        return sorted({*read, *late})

    def _may_report(self, index: int) -> bool:
        own = self._running[index]
        return own.pattern.into is not None or own.session.pipeline.awaits_time

    @cached_property
    def _members(self) -> dict[str, tuple[int, int]]:
        """The index of each rule by its name, and that among those that share a session."""
        pairs = enumerate(self._running)
        return {rule.name: (i, index) for i, own in pairs for index, rule in enumerate(own.rules)}

    def report_nothing(self, told: RuleNotes, name: str) -> Any:
        """Return the result of a rule that has found nothing."""
        own, index = self._members[name]
        return self._running[own].report_nothing(index, told)

    def route(self, batch: EventBatch) -> dict[int, RoutedBatch]:
        """Return the events that can move each rule, by its index; without any, it is left out."""
        alike: dict[tuple[Any, ...], list[int]] = {}
        routed = self.router.route(batch)
        for index, events in routed.items():
            alike.setdefault((id(events), self.patterns[index].streams), []).append(index)
        found: dict[int, RoutedBatch] = {}
        for (_, streams), indices in alike.items():
            own = routed[indices[0]]
            names = frozenset[str]().union(*(self._running[index].columns for index in indices))
            taken = replace(take_events(batch, own.at, streams, names), owners=own.owners)
            found.update((index, RoutedBatch(taken, own.at)) for index in indices)
        return found


def _describe_stop(rule: Rule, why: str) -> str:
    if why.startswith(f"rule {rule.name}: "):  # the error of a budget has its rule
        return f"{rule.origin}: {why}" if rule.origin else why
    return describe_mistake(rule.name, rule.origin, why)


class SessionOpener:
    """Opens the sessions of rules."""

    def __init__(self, options: RunOptions) -> None:
        self.options = options
        self.encoders = _SharedEncoders(options.type_column)
        self.missing: dict[str, tuple[str, ...]] = {}
        """The columns that rules name and the events lack, where these are NULL."""

    def open(self, query: Query[Any], rule: Rule | None = None) -> Session[Any]:
        """Return a session of a query; that of a rule may read few events."""
        session: Session[Any] = Session(query.plan, self.options, encode=self._choose_encode(rule))
        session.budget.rule = "" if rule is None else rule.name
        return session

    def _choose_encode(self, rule: Rule | None) -> Encode:
        """Return how to encode the events of a rule: lazily if few events can move it."""
        tests = rule.equalities if rule is not None and (rule.is_paced or not rule.whole) else None
        if rule is None or not tests or any(each.attribute is None for each in tests):
            return self.encoders.get
        plans = (rule.query.plan, *rule.query.plan.guards)
        return partial(_encode_lazily, self.encoders, self.options.type_column, list_tests(plans))

    def start(
        self, rules: Sequence[Rule], groups: Sequence[RuleGroup], kept: Sequence[RunningRule]
    ) -> list[RunningRule]:
        """Return all rules and groups at work.

        Those that are `kept` go on with their sessions, and the others get new ones.
        """
        by_whole = {each.group.whole: each for each in kept if each.group is not None}
        by_name = {each.rules[0].name: each for each in kept if each.group is None}
        members = {rule.name: group for group in groups for rule in group.rules}
        running: list[RunningRule] = []
        made: set[RuleGroup] = set()
        for number, rule in enumerate(rules):
            group = members.get(rule.name)
            if group is None:
                own = by_name.get(rule.name) or RunningRule((rule,), self.open(rule.query, rule))
                if own.rules != (rule,) or own.number != number:
                    own = replace(own, rules=(rule,), number=number)
                running.append(own)
            elif group not in made:
                made.add(group)
                if (before := by_whole.get(group.whole)) is not None:
                    running.append(before.change_group(group, number))
                else:
                    session = GroupSession(group, self.options, self.encoders.get)
                    running.append(RunningRule(group.rules, session, number))
        return running

    def thaw(self, running: RunningRule, frozen: bytes) -> None:
        """Give a rule, or a group of rules, the session that was frozen."""
        options = self.options
        encode = self._choose_encode(None if running.group is not None else running.rules[0])
        if running.group is not None:
            running.session = GroupSession.thaw_group(running.group, frozen, options, encode)
        else:
            plan = running.session.plan
            running.session = Session[Any].thaw(plan, frozen, options, encode=encode)
            running.session.budget.rule = running.rules[0].name


def list_tests(plans: Iterable[Plan]) -> dict[tuple[Atom, ...], tuple[Test, ...]]:
    """Return the tests that ask the atoms of each plan."""
    alphabets = []
    for plan in plans:
        if plan.tables is not None:
            alphabets.append(plan.tables.alphabet)
        elif plan.unary is not None:
            alphabets.append(plan.unary.automaton.alphabet)
    return {each.atoms: tuple(each.tests) for each in alphabets}


def _encode_lazily(
    shared: _SharedEncoders,
    type_column: str,
    tests: Mapping[tuple[Atom, ...], tuple[Test, ...]],
    atoms: Sequence[Atom],
) -> Encoder:
    """Return an encoder of atoms, a lazy one if it is known which tests ask them."""
    own = tests.get(tuple(atoms))
    if own is None:
        return shared.get(atoms)
    return LazyEncoder(atoms, own, type_column, shared.get)


class _SharedEncoder(AtomEncoder):
    """An encoder of several rules: it encodes a batch that they share once."""

    def __init__(self, atoms: Sequence[Atom], type_column: str, known: KnownGroups) -> None:
        super().__init__(atoms, type_column, known)
        self._last: tuple[EventBatch, Int32s] | None = None

    def encode(self, batch: EventBatch) -> Int32s:
        if self._last is not None:
            known, codes = self._last
            if known.parts is batch.parts and known.index is batch.index:
                return codes
        codes = super().encode(batch)
        self._last = (batch, codes)
        return codes

    def forget_batch(self) -> None:
        """Drop the last batch: no other rule reads it."""
        self._last = None


class _SharedEncoders:
    """One encoder for all rules that ask the same atoms.

    A rule that is removed takes its own along. The sessions of the rules know this object and
    not the session of the rule set, which would then hold itself.
    """

    def __init__(self, type_column: str) -> None:
        self._type_column = type_column
        self._known: WeakValueDictionary[tuple[Atom, ...], _SharedEncoder] = WeakValueDictionary()
        self._groups: KnownGroups = WeakValueDictionary()

    def get(self, atoms: Sequence[Atom]) -> Encoder:
        """Return the encoder of these atoms."""
        key = tuple(atoms)
        encoder = self._known.get(key)
        if encoder is None:
            encoder = self._known[key] = _SharedEncoder(key, self._type_column, self._groups)
        return encoder

    def forget_batch(self) -> None:
        """Drop the batch that was encoded last."""
        for encoder in self._known.values():
            encoder.forget_batch()
