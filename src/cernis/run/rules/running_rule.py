"""`RunningRule`: a rule, or several at once, at work: its session, and the numbers of its rules.

Cost contract: that of its session; of a family or a bundle also that of `families.Family` or
`bundles.Bundle`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from cernis.events.batch import EventBatch, Int64s
from cernis.events.order import Scale
from cernis.output import UsedFile
from cernis.pattern.query import Pattern
from cernis.results.matches import Matches
from cernis.results.unary import CompactMatches
from cernis.run.rules.bundle_session import BundleSession
from cernis.run.rules.bundles import Bundle
from cernis.run.rules.derived import PathLog, derive_schema, is_held, is_late, unite_schemas, widen
from cernis.run.rules.families import Family
from cernis.run.rules.pending import DerivedBound, PendingEvents, find_bound
from cernis.run.rules.routing import Constant, ConstantTest
from cernis.run.rules.rule import Rule
from cernis.run.session import Session

RuleWarnings = Callable[[int], tuple[str, ...]]
"""The warnings about the events of a rule, by its place in a bundle."""


class BundleNotes(NamedTuple):
    """The notes of the rules of a bundle, which are listed when they are asked for."""

    shared: tuple[str, ...]
    """Those of all rules."""
    warn: RuleWarnings | None

    def list_notes(self, rule: Rule, place: int) -> tuple[str, ...]:
        """Return the notes of a rule after those of all."""
        return _list_notes(rule, self.shared, () if self.warn is None else self.warn(place))


@dataclass(eq=False)
class RunningRule:
    """A session over the events of a rule, or of the rules of a family or a bundle."""

    rules: tuple[Rule, ...]
    session: Session[Any]
    family: Family | Bundle | None = None
    number: int = 0
    """The place of the first of its rules in the rule set."""
    counted: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))
    """How many events each rule of a family or a bundle has had."""
    log: PathLog = field(default_factory=PathLog)
    """The places of its last events, for matches that become events."""
    pending: PendingEvents = field(default_factory=PendingEvents)
    """The events that it may not read yet."""
    derived: tuple[Any, pa.Schema] | None = None
    """The columns of the events that matches of a bundle become, and what they follow from."""

    @property
    def pattern(self) -> Pattern:
        rule = self.rules[0].query if self.family is None else self.family.whole
        return rule.pattern

    @property
    def equalities(self) -> frozenset[ConstantTest] | None:
        """Those of which one holds for each event that can move it; None: it reads every event."""
        if isinstance(self.family, Family):
            return self.family.equalities
        if self.family is not None:  # each rule has its own
            return None
        (rule,) = self.rules
        return None if rule.whole else rule.equalities

    def widen(self, width: int) -> None:
        """Make room for paths of more steps."""
        self.log = self.log._replace(paths=widen(self.log.paths, width))
        self.pending.widen(width)

    def find_open(self) -> DerivedBound | None:
        """Return up to where its matches are known; None: all that end so far are.

        What comes before is dropped from the log of places.
        """
        position = self.session.pipeline.first_open() if is_held(self.pattern) else None
        if position is not None and is_late(self.pattern):
            # a match stands at its deadline, which had not passed at the first event of the log
            position = max(position, self.log.first)
        last = self.session.events - 1
        self.log = self.log.forget_before(last if position is None else position)
        return None if position is None else find_bound(self.log, position)

    def change_family(self, family: Family | Bundle, number: int) -> RunningRule:
        """Return the same session with other rules; those that left it leave nothing behind."""
        assert self.family is not None
        before, after = _list_members(self.family), _list_members(family)
        stay = {*after}
        left = [member.constant for member in before if member not in stay]
        if isinstance(family, Bundle) and isinstance(self.session, BundleSession):
            self.session.pipeline.use(family, np.array(left, np.int64))
        elif left:
            self.session.pipeline.drop_partitions(pa.array(left))
        known = dict(zip(before, self.counted, strict=False))
        counted = np.array([known.get(member, 0) for member in after], np.int64)
        return RunningRule(family.rules, self.session, family, number, counted)

    def read(self, batch: EventBatch, scale: Scale) -> list[Any]:
        """Read events in their final order; return what was found, for `conclude`."""
        if self.family is not None:
            counts = self.family.count_events(batch)
            self.counted = counts + self.counted if len(self.counted) else counts
        return self.session.read(replace(batch, base=self.session.events), scale)

    def conclude(
        self,
        segments: list[Any],
        notes: Sequence[str] = (),
        used: Sequence[UsedFile] = (),
        *,
        last: bool = False,
        every: bool = True,
        warn: RuleWarnings | None = None,
    ) -> Iterator[tuple[str, Any]]:
        """Yield what rules have found; of a family, those that have found something, or `every`.

        `notes` are those of all rules, and `warn` has those about the events of a bundle.
        """
        if isinstance(self.session, BundleSession):
            all_notes = BundleNotes(tuple(notes), warn)
            yield from self._conclude_bundle(self.session, segments, all_notes, used, every=every)
            return
        found = self.session.conclude(segments, last=last)
        if not isinstance(self.family, Family):
            yield self.rules[0].name, found
            return
        shares = dict(self.family.split(found))
        compact = found.match_set
        nothing = CompactMatches(compact.variables, (), compact.labels, compact.most)
        for place, rule in enumerate(self.rules):
            if every or place in shares:
                told = partial(_list_notes, rule, tuple(notes))
                own = shares.get(place, nothing)
                matches = Matches(own, found.store, rule.query.pattern, notes=told, used=used)
                yield rule.name, matches

    def join_found(
        self,
        parts: Sequence[tuple[str, Any]],
        notes: Sequence[str] = (),
        used: Sequence[UsedFile] = (),
        *,
        every: bool = True,
        warn: RuleWarnings | None = None,
    ) -> Iterator[tuple[str, Any]]:
        """Yield what rules that insert into a stream have found in chunks; with `every`, of all."""
        by_name: dict[str, list[Any]] = {}
        for name, part in parts:
            by_name.setdefault(name, []).append(part)
        if not isinstance(self.family, Bundle):
            if every:  # for its notes
                by_name.setdefault(self.rules[0].name, []).append(self.session.empty_result())
            yield from ((name, own[0].join(own[1:])) for name, own in by_name.items())
            return
        told = BundleNotes(tuple(notes), warn)
        for place, (rule, plan) in enumerate(zip(self.rules, self.family.plans, strict=True)):
            own = by_name.get(rule.name, [])
            lines = partial(told.list_notes, rule, place)
            if own:
                found = own[0] if len(own) == 1 else own[0].join(own[1:])
                matches, store = found.match_set, found.store
                yield rule.name, Matches(matches, store, plan.pattern, notes=lines, used=used)
        if every:
            for name, nothing in self.conclude([], notes, used, warn=warn):
                if name not in by_name:
                    yield name, nothing

    def _conclude_bundle(
        self,
        session: BundleSession,
        segments: list[Any],
        told: BundleNotes,
        used: Sequence[UsedFile],
        *,
        every: bool,
    ) -> Iterator[tuple[str, Any]]:
        """Yield what the rules of a bundle have found, as `conclude` does."""
        bundle, owners = session.bundle, session.list_owners(segments)
        found = session.conclude(segments)  # which may renumber keys
        shares = dict(bundle.split(found, owners))
        for place in range(len(self.rules)) if every else shares:
            rule, plan = self.rules[place], bundle.plans[place]
            own = shares.get(place) or bundle.find_nothing(place)
            lines = partial(told.list_notes, rule, place)
            matches = Matches(own, found.store, plan.pattern, notes=lines, used=used)
            yield rule.name, matches

    def derive_schemas(self, type_column: str, time_column: str | None) -> list[pa.Schema]:
        """Return the columns of the events that matches become; those of a bundle are united."""
        if not isinstance(self.family, Bundle):
            return [derive_schema(self.session.empty_result(), type_column, time_column)]
        columns = self.session.store.schemas, type_column, time_column
        if self.derived is None or self.derived[0] != columns:
            found = [derive_schema(each, type_column, time_column) for _, each in self.conclude([])]
            self.derived = columns, unite_schemas(self.pattern.into or "", found)
        return [self.derived[1]]

    def count_events(self) -> Iterator[tuple[str, int]]:
        """Yield how many events each rule has had."""
        if self.family is None:
            yield self.rules[0].name, self.session.events
            return
        counted = self.counted if len(self.counted) else np.zeros(len(self.rules), np.int64)
        yield from zip((rule.name for rule in self.rules), counted.tolist(), strict=True)


class _Member(NamedTuple):
    """A rule of a family or a bundle, and the constant or the number that its partitions have."""

    name: str
    text: str
    constant: Constant


def _list_members(family: Family | Bundle) -> list[_Member]:
    pairs = zip(family.rules, family.list_pairs(), strict=True)
    return [_Member(name, rule.text, constant) for rule, (name, constant) in pairs]


def _list_notes(rule: Rule, notes: tuple[str, ...], odd: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the notes of a rule after those of all; its plan is made for them.

    `odd` are the warnings about its events.
    """
    plan = rule.query.plan
    return (*notes, *plan.warnings, *odd, *plan.notes)
