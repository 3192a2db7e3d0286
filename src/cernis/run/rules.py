"""`RuleSet`: many rules over the same events, in one pass.

Events are opened, ordered and merged once for all rules. A `Router` sends each event to the rules
that it can move; rules that must see every event share the batches, and the codes of equal
predicates. All rules share the classes of the values that equal predicates tell apart. Rules that
differ in one constant alone are one query (`families`), and plain rules of other shapes share an
engine (`bundles`).

Cost contract: reading once; per event one look-up for each indexed attribute; per rule the cost of
a session over its own events. A rule that is in no family and no bundle costs some calls for each
chunk: a million events, or up to eight where there are thousands of rules. Each rule keeps the
state of a session, and the events that its matches may still report.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, fields, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa

from cernis.encoding.encode import AtomEncoder, Encoder, KnownGroups
from cernis.engine.unary.freeze import pack, unpack
from cernis.errors import (
    CernisError,
    DataError,
    SessionGuard,
    StateError,
    StrictError,
    WarningNote,
    list_warnings,
)
from cernis.events.batch import EventBatch, Int32s, Int64s, select_events
from cernis.events.mistakes import Mistakes
from cernis.events.odd_times import TimeSpan, check_times, extend_span
from cernis.events.order import Ordering, Scale, StreamPosition, join_table
from cernis.events.source import DescribedStream, Source
from cernis.events.times import DAY, UNITS
from cernis.pattern.atom import Atom
from cernis.pattern.query import Pattern
from cernis.plan.plan import Guarantee
from cernis.results.matches import Matches
from cernis.run.advice.absent_types import SampledTypes
from cernis.run.advice.skipped_rows import note_skipped
from cernis.run.bundle_session import BundleSession
from cernis.run.bundles import Bundle, find_bundles, join_bundle, join_rows, take_events, take_rows
from cernis.run.derived import (
    NOTHING,
    Derivation,
    DerivedEvents,
    InputLog,
    InputMoment,
    KnownStream,
    PlacedBatch,
    count_steps,
    derive_events,
    derive_late,
    is_held,
    is_late,
    join_derived,
    merge_parts,
    order_rules,
    place_events,
    unite_schemas,
)
from cernis.run.families import Family, find_families, join_family
from cernis.run.freeze import freeze_reading, read_reading
from cernis.run.metrics import RuleMetrics, SessionMetrics
from cernis.run.pending import (
    DerivedBound,
    PendingEvents,
    find_least,
    freeze_log,
    thaw_input,
    thaw_log,
)
from cernis.run.query import Query
from cernis.run.routing import ConstantTest, Router
from cernis.run.rule import Rule, RuleSetError, describe_mistake, name_warning, read_rules
from cernis.run.running_rule import RunningRule
from cernis.run.session import RunOptions, Session
from cernis.schema import Schema
from cernis.state import check_list, check_mapping, check_number, check_text, read_array, require

Group = TypeVar("Group", Family, Bundle)

_CHUNK = 1 << 20
"""So many events are routed at once: each rule has a cost for each chunk."""
_CHUNK_PER_RULE = 1 << 12
"""Many rules take larger chunks, of so many events for each rule."""
_LARGEST_CHUNK = 1 << 23
_CHUNK_BYTES = 1 << 28
"""Limits of larger chunks, in events and in bytes."""
_MOST = 2**63 - 1
_NUMBERS = tuple(each.name for each in fields(SessionMetrics))
_SHOWN = 10
"""So many names are shown of rules that have something in common."""
_COSTLY = 5


class RuleSet:
    """Rules that run over the same events.

    >>> two = RuleSet.of({"buys": "SELECT * WHERE BUY", "sells": "SELECT * WHERE SELL"})
    >>> {name: found.count() for name, found in two.run([{"type": "BUY"}]).items()}
    {'buys': 1, 'sells': 0}
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = tuple(rules)

    @classmethod
    def of(cls, source: Any) -> RuleSet:
        """Read rules: a text, a file, a folder, texts in a list, or queries by name.

        All mistakes of all rules are raised together.
        """
        return cls(read_rules(source))

    def __len__(self) -> int:
        return len(self.rules)

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def __getitem__(self, name: str) -> Query[Any]:
        for rule in self.rules:
            if rule.name == name:
                return rule.query
        raise KeyError(name)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(rule.name for rule in self.rules)

    def run(self, events: Any, **options: Any) -> dict[str, Any]:
        """Return what each rule finds in the events; the options are those of `Query.run`."""
        return RuleSession(self, RunOptions(**options)).collect(events)

    @cached_property
    def families(self) -> list[Family]:
        """The rules that differ in a constant alone."""
        return find_families(self.rules)

    @cached_property
    def bundles(self) -> list[Bundle]:
        """The rules of different shapes that share an engine."""
        return find_bundles(self.rules, apart=_name_members(self.families))

    def session(self, **options: Any) -> RuleSession:
        """Return a session to push events to, for all rules."""
        return RuleSession(self, RunOptions(**options))

    def thaw(self, frozen: bytes, **options: Any) -> RuleSession:
        """Return the session that `RuleSession.freeze` turned into bytes.

        The options are those of `Query.thaw`. The rules are those of the session that was frozen;
        `update` goes on with others.
        """
        return RuleSession.thaw(self, frozen, RunOptions(**options))

    @cached_property
    def wholes(self) -> dict[str, str]:
        """The rules that read every event, and why."""
        made = {rule.query.pattern.into for rule in self.rules}
        found = {}
        for rule in self.rules:
            pattern = rule.query.pattern
            why = "its events are put in order with the matches of other rules"
            found[rule.name] = rule.whole if made.isdisjoint(pattern.streams) else why
        return {name: why for name, why in found.items() if why}

    def explain(self, events: Any = None, **options: Any) -> str:
        """Return how the rules share the work, and which of them cost most.

        With events (the options are those of `run`), also which rules find nothing in them.
        """
        lines = [*self._explain()]
        if events is not None:
            session = self.session(**options)
            found = session.collect(events)
            lines += self.explain_run(session.metrics(), [*session.list_silent(found)])
        return "\n".join(lines)

    def explain_run(
        self, numbers: Mapping[str, SessionMetrics], silent: Sequence[tuple[str, str]]
    ) -> Iterator[str]:
        """Yield the rules that took most of the time in a run, and those that found nothing."""
        yield from self._explain_costs(numbers)
        yield f"silent       {len(silent)} rules find nothing in these events"
        yield from (f"             {name}: {why}" for name, why in silent)

    def _explain_costs(self, numbers: Mapping[str, SessionMetrics]) -> Iterator[str]:
        """Yield the rules that took most of the time, with what they have read and kept."""
        spent = {name: sum(each.seconds.values()) for name, each in numbers.items()}
        total = sum(spent.values()) or 1.0
        yield "costly       the rules that took most of the time"
        for name in sorted(spent, key=lambda name: -spent[name])[:_COSTLY]:
            own = numbers[name]
            read = f"{own.events:,} events, {own.records:,} records of partial matches"
            why = self.wholes.get(name, "it reads the events that can move it")
            yield f"             {name}: {spent[name] / total:.0%}, {read}; {why}"

    def _explain(self) -> Iterator[str]:
        yield f"rules        {len(self.rules)}"
        router = make_router(self.rules, "type")
        indexed = ", ".join(f"{n} ({count:,} constants)" for n, count in router.attributes.items())
        yield f"routed       {len(router.rules)} rules read the events that can move them"
        if indexed:
            yield f"             by look-ups of {indexed}"
        yield f"whole        {len(self.wholes)} rules read every event"
        for name, why in self.wholes.items():
            yield f"             {name}: {why}"
        if self.families:
            several = sum(len(family.rules) for family in self.families)
            queries = f"{len(self.families)} queries"
            yield f"families     {several} rules differ in one constant: {queries}"
        if self.bundles:
            several = sum(len(bundle.rules) for bundle in self.bundles)
            yield f"bundles      {several} rules of other shapes share {len(self.bundles)} engines"
        kinds: dict[Guarantee, list[str]] = {}
        for rule in self.rules:
            kinds.setdefault(rule.query.plan.guarantee, []).append(rule.name)
        shown = sorted(f"{len(names)} {kind.value}" for kind, names in kinds.items())
        yield f"classes      {', '.join(shown)}"
        if residual := kinds.get(Guarantee.RESIDUAL):
            why = "some conditions are checked on candidates, whose number has no bound"
            yield f"             {_list_names(residual)}: {why}"


def make_router(rules: Sequence[Rule], type_column: str) -> Router:
    """Return the index of the rules that need not read every event."""
    wanted: dict[int, frozenset[ConstantTest]] = {}
    made = {rule.query.pattern.into for rule in rules}
    for number, rule in enumerate(rules):
        pattern = rule.query.pattern
        if not made.isdisjoint(pattern.streams) or rule.whole:
            continue
        if rule.equalities is not None:
            wanted[number] = rule.equalities
    return Router(wanted, type_column)


class _ChunkReading(NamedTuple):
    """How rules read a chunk."""

    forget: bool = True
    """Whether to drop events that no match reaches back to."""
    until: int | None = None
    """No event before this time, in nanoseconds, comes after the chunk."""
    last: bool = False
    """Whether no further event comes."""

    def limit(self, bound: DerivedBound | None, scale: Scale) -> _ChunkReading:
        """Return how a rule reads that has read up to a bound."""
        if self.until is None:
            return self
        return self._replace(until=_limit_time(self.until, bound, scale))


def describe_silence(rule: Rule, events: int, warnings: Sequence[str]) -> str:
    """Return why a rule finds nothing, by the number of its events and the warnings about them."""
    if not events and rule.equalities:
        tests = sorted(map(str, rule.equalities))
        more = f" or {len(tests) - 3} others" if len(tests) > 3 else ""
        return f"no event has {' or '.join(tests[:3])}{more}"
    if not warnings:
        return "events move it, and none completes a match"
    return re.sub(r"^line \d+, column \d+: ", "", warnings[0].splitlines()[0])


class _RoutedEvents(NamedTuple):
    """The events of rules and bundles that read those alone that can move them."""

    events: dict[int, EventBatch]
    places: dict[int, Int64s]
    """Where these stand in the batch, of bundles and of rules that insert into a stream."""


class _RuleChunk(NamedTuple):
    """A chunk of the input, and what rules have derived from it."""

    batch: EventBatch
    scale: Scale
    first: int
    """The number of its first event, of all events of the input."""
    how: _ChunkReading
    derived: dict[str, list[DerivedEvents]]
    bounds: dict[str, DerivedBound | None]
    """Up to where derived streams are known."""
    routed: _RoutedEvents


class RuleChanges(NamedTuple):
    """How rules have changed, by their names; those that are kept have the same text."""

    added: tuple[str, ...]
    replaced: tuple[str, ...]
    removed: tuple[str, ...]
    kept: tuple[str, ...]

    def __str__(self) -> str:
        """Return what has changed, in words.

        >>> print(RuleChanges(("a",), (), ("b", "c"), ()))
        added a; removed b, c
        """
        changes = []
        for word, names in self._asdict().items():
            if names:
                changes.append(f"{word} {_list_names(names)}")
        return "; ".join(changes)


def _list_names(names: Sequence[str]) -> str:
    """Return the first names, and how many there are more."""
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"


def compare_rules(before: RuleSet, after: RuleSet) -> RuleChanges:
    """Return how rules have changed."""
    texts = {rule.name: rule.text for rule in before}
    same = {rule.name for rule in after if texts.get(rule.name) == rule.text}
    old, new = {*texts}, {*after.names}
    return RuleChanges(
        tuple(sorted(new - old)),
        tuple(sorted((new & old) - same)),
        tuple(sorted(old - new)),
        tuple(sorted(same)),
    )


class RuleSession:
    """The rules of a set over one stream of events."""

    def __init__(self, rules: RuleSet, options: RunOptions, *, families: bool = True) -> None:
        """Without `families` each rule has a session of its own, as `strict` and limits need it."""
        self.options = options
        self._has_families = families and not options.strict and options.max_keys is None
        self.mistakes = Mistakes(options.on_error)
        self.progress = StreamPosition()
        self.notes: list[str] = []
        self._types = SampledTypes()
        self._is_updated = False
        self._events = 0
        self._matches: Counter[str] = Counter()
        """How many matches of each rule were pushed."""
        self._scale: Scale | None = None
        """The unit of the times of the events that were read."""
        self._schemas: dict[str, pa.Schema] = {}
        """The columns of derived streams."""
        self._input = InputLog()
        """The last events that were read, as far as derived ones may stand there."""
        self._bounds: dict[int, DerivedBound | None]
        """Up to where rules have read, of those that read derived streams."""
        self._time_column: str | None = options.time_column
        self._encoders = _SharedEncoders(options.type_column)
        self._guard = SessionGuard("begin a new one, or thaw a state that was frozen before")
        self._begin(rules, [*rules.families, *rules.bundles] if self._has_families else [], [])

    def update(self, rules: RuleSet) -> RuleChanges:
        """Go on with other rules: those with the same name and text keep their state.

        A rule that is new, or has another text, begins with the next events. Rules that are wrong
        raise an error when they are read (`cernis.rules`), and the session goes on as it was.
        """
        self._guard.check()
        changes = compare_rules(self.rules, rules)
        kept = {*changes.kept}
        running = [each for each in self.running if any(rule.name in kept for rule in each.rules)]
        alone = [each.rules[0].name for each in running if each.family is None]
        self._is_updated = True
        self._matches = Counter({name: self._matches[name] for name in kept})
        several: list[Family | Bundle] = []
        if self._has_families:
            known = [each.family.keep(kept) for each in running if each.family is not None]
            before = [each for each in known if isinstance(each, Bundle)]
            families = find_families(
                rules.rules,
                [each for each in known if isinstance(each, Family)],
                [*alone, *_name_members(before)],
            )
            apart = [*alone, *_name_members(families)]
            several = [*families, *find_bundles(rules.rules, before, apart)]
        self._begin(rules, several, running)
        return changes

    def use_tables(self, tables: Mapping[str, Any]) -> None:
        """Join these tables to the events to come; they have the columns of those before.

        Tables that are not given stay. An error leaves the session as it was.
        """
        self._guard.check()
        tables = {**self.options.tables, **tables}
        joining = [each.session for each in self.running if each.pattern.joins]
        if not joining:
            raise StateError("the rules join no tables")
        for session in joining:
            session.check_tables(tables)
        for session in joining:
            session.use_tables(tables)
        self.options = replace(self.options, tables=tables)

    def metrics(self) -> dict[str, RuleMetrics]:
        """Return the numbers of each rule at this moment; they cost nothing."""
        found = dict(pair for running in self.running for pair in running.metrics())
        numbers = ((name, found[name], self._matches[name]) for name in self.rules.names)
        return {
            name: RuleMetrics(**{part: getattr(own, part) for part in _NUMBERS}, matches=matches)
            for name, own, matches in numbers
        }

    def _count(self, found: dict[str, Any]) -> dict[str, Any]:
        """Return what rules have found, counted; a rule that has found nothing costs nothing."""
        for name, each in found.items():
            if not (isinstance(each, Matches) and each.match_set.is_empty()):
                self._matches[name] += each.count()
        return found

    @property
    def sessions(self) -> list[Session[Any]]:
        """The sessions of all rules and families."""
        return [running.session for running in self.running]

    def _begin(
        self, rules: RuleSet, families: Sequence[Family | Bundle], kept: Sequence[RunningRule]
    ) -> None:
        """Make the sessions of rules and families, but for those that are kept, and their index."""
        self.rules = rules
        by_whole = {each.family.whole: each for each in kept if each.family is not None}
        by_name = {each.rules[0].name: each for each in kept if each.family is None}
        members = {rule.name: family for family in families for rule in family.rules}
        running: list[RunningRule] = []
        made: set[Family | Bundle] = set()
        for number, rule in enumerate(rules):
            family = members.get(rule.name)
            if family is None:
                own = by_name.get(rule.name) or RunningRule((rule,), self._open(rule.query))
                running.append(replace(own, rules=(rule,), number=number))
            elif family not in made:
                made.add(family)
                before = by_whole.get(family.whole)
                if before is None:
                    session = self._open_family(family)
                    running.append(RunningRule(family.rules, session, family, number))
                else:
                    running.append(before.change_family(family, number))
        self._set_running(running)

    def _open(self, query: Query[Any]) -> Session[Any]:
        return Session(query.plan, self.options, encode=self._encoders.get)

    def _open_family(self, family: Family | Bundle) -> Session[Any]:
        if isinstance(family, Bundle):
            return BundleSession(family, self.options)
        return self._open(family.whole)

    def _set_running(self, running: list[RunningRule]) -> None:
        """Run these rules and families; make their index."""
        self.running = running
        made = {each.pattern.into for each in running}
        wanted = {
            place: equalities
            for place, each in enumerate(running)
            if made.isdisjoint(each.pattern.streams) and (equalities := each.equalities) is not None
        }
        self._members: dict[int, range] = {}
        """The numbers that the rules of bundles have in the index, by the place of the bundle."""
        first = len(running)
        for place, each in enumerate(running):
            if isinstance(each.family, Bundle):
                self._members[place] = range(first, first + len(each.rules))
                own = zip(self._members[place], each.rules, strict=True)
                wanted |= {number: rule.equalities or frozenset() for number, rule in own}
                first += len(each.rules)
        self._router = Router(wanted, self.options.type_column)
        self._numbers = {name: number for number, name in enumerate(self.rules.names)}
        self._patterns = [each.pattern for each in running]
        self._order, _ = order_rules(self._patterns)
        widths = (max(each.log.paths.shape[1], each.pending.width) for each in running)
        self._width = max([1 + 2 * count_steps(self._patterns, self._order), *widths])
        for each in running:
            each.widen(self._width)
        self._bounds = {}
        self._made = {each.into for each in self._patterns if each.into is not None}
        self._found: list[list[tuple[str, Any]]] = [[] for _ in running]
        """What rules with INSERT INTO have found since the last answer, with their names."""

    # -------------------------------------------------------------- frozen

    def freeze(self) -> bytes:
        """Return the state of all rules as versioned bytes; `RuleSet.thaw` goes on from there.

        The bytes hold the names and the texts of the rules, and the state of those that have
        read events.
        """
        with self._guard:
            options = self.options
            meta: dict[str, Any] = {
                "rules": [[rule.name, rule.text] for rule in self.rules],
                "families": [numbers for numbers, _ in self._number_members(Family)],
                "bundles": [
                    [numbers, list(bundle.owners)]
                    for numbers, bundle in self._number_members(Bundle)
                ],
                "progress": list(astuple(self.progress)),
                "reading": freeze_reading((options.time, options.type, options.time_unit)),
                "events": self._events,
                "matches": {
                    name: min(number, _MOST) for name, number in self._matches.items() if number
                },
                "pending": {},
                "derived": [*self._schemas],
                "time": self._time_column,
                "scale": None if self._scale is None else [*astuple(self._scale)],
            }
            arrays: dict[str, np.ndarray[Any, Any]] = {
                f"rule.{running.number}": np.frombuffer(running.session.freeze(), np.uint8)
                for running in self.running
                if running.session.events
            }
            arrays |= {
                f"events.{running.number}": running.counted
                for running in self.running
                if len(running.counted)
            }
            arrays |= {
                f"derived.{number}": np.frombuffer(schema.serialize(), np.uint8)
                for number, schema in enumerate(self._schemas.values())
            }
            arrays |= {"input.time": self._input.time, "input.rows": self._input.rows}
            for running in self.running:
                number = running.number
                if is_held(running.pattern):
                    arrays |= freeze_log(f"log.{number}", running.log)
                if len(running.pending):
                    streams, own = running.pending.freeze(f"pending.{number}")
                    meta["pending"][str(number)] = streams
                    arrays |= own
            return pack({**meta, "states": sorted(arrays)}, arrays)

    def _number_members(self, kind: type[Group]) -> Iterator[tuple[list[int], Group]]:
        """Yield the families or the bundles, each with the numbers of its rules."""
        numbers = {name: number for number, name in enumerate(self.rules.names)}
        for running in self.running:
            if isinstance(running.family, kind):
                yield [numbers[rule.name] for rule in running.family.rules], running.family

    @classmethod
    def thaw(cls, rules: RuleSet, state: bytes, options: RunOptions | None = None) -> RuleSession:
        """Return the session that `freeze` turned into bytes; StateError if they are not its own.

        The bytes name the columns that events are read by; `options` has the rest.
        """
        meta, arrays = unpack(state)
        _check_rules(rules, _read_texts(meta))
        # states that were frozen before have no list
        require(
            sorted(arrays) == meta.get("states", sorted(arrays)), "the state of a rule is missing"
        )
        reading = read_reading(meta)
        time, type_, time_unit = reading.columns
        options = replace(options or RunOptions(), time=time, type=type_, time_unit=time_unit)
        session = cls(rules, options, families=False)
        session._has_families = not options.strict and options.max_keys is None
        session._begin(rules, _read_families(rules, meta), [])
        pending = check_mapping(meta.get("pending", {}), "the waiting events")
        for running in session.running:
            if (name := f"rule.{running.number}") in arrays:
                frozen = read_array(arrays, name, np.uint8).tobytes()
                encode, plan = session._encoders.get, running.session.plan
                if isinstance(running.family, Bundle):
                    bundled = BundleSession.thaw_bundle(running.family, frozen, options)
                    running.session, running.family = bundled, bundled.bundle
                else:
                    running.session = Session[Any].thaw(plan, frozen, options, encode=encode)
            if (name := f"events.{running.number}") in arrays:
                shape = (len(running.rules),)
                running.counted = read_array(arrays, name, np.int64, shape, low=0).copy()
            running.log = thaw_log(f"log.{running.number}", arrays, running.session.events)
            if is_held(running.pattern) and running.pattern.into is not None:
                waits = running.session.pipeline.first_open()
                require(waits is None or waits >= running.log.first, "a place is missing")
            if (streams := pending.get(str(running.number))) is not None:
                name = f"pending.{running.number}"
                running.pending = PendingEvents.thaw(name, streams, arrays)
        session._set_running(session.running)
        for running in session.running:
            if running.pattern.into is not None:  # its matches go two steps further
                known = [running.log.paths, *(part.paths for part in running.pending.parts)]
                steps = max((paths != NOTHING).sum(axis=1).max(initial=0) for paths in known)
                require(steps + 2 <= session._width, "a path is too long")
        position, *_ = check_list(meta.get("progress"), "the progress", 4)
        number = check_number(position, "the progress", 0)
        session.progress = replace(reading.progress, position=number)
        session._events = check_number(meta.get("events"), "the number of events", 0)
        last_row = check_number(meta.get("last_row", -1), "the last row", -1)
        session._input = thaw_input(arrays, session._events, last_row)
        session._scale = _read_scale(meta)
        matches = check_mapping(meta.get("matches", {}), "the numbers of matches")
        session._matches.update(
            {name: check_number(number, "matches", 0) for name, number in matches.items()}
        )
        session._schemas = _read_schemas(meta, arrays)
        if meta.get("time") is not None:
            session._time_column = check_text(meta["time"], "the time column")
        session._is_updated = True  # what rules have read before is not known for warnings
        return session

    # ------------------------------------------------------------- reading

    def collect(self, events: Any) -> dict[str, Any]:
        """Return all that the rules find in the last events of a stream."""
        return self.collect_sources(self.open(events))

    def collect_sources(self, sources: Sequence[Source]) -> dict[str, Any]:
        """Return all that the rules find in sources that `open` gave."""
        ordering = self._start(sources)
        with self._guard:
            read = self._read(ordering, forget=False)
            self._take_last(read, ordering.scale, forget=False)
            found = self._conclude(read, last=True, warns=True)
        if self.options.strict:
            pairs = ((rule, list_warnings(found[rule.name].notes)) for rule in self.rules)
            self._refuse([(rule, one) for rule, several in pairs for one in several])
        return found

    def push(self, events: Any) -> dict[str, Any]:
        """Return what each rule finds in these events, which follow all events pushed before."""
        self.renew_budget()
        ordering = self._start(self.open(events))
        with self._guard:
            return self._count(self._conclude(self._read(ordering)))

    def finish(self) -> dict[str, Any]:
        """Return what is certain now that no further event comes."""
        with self._guard:
            read: list[list[Any]] = [[] for _ in self.running]
            if self._scale is not None:
                self._take_last(read, self._scale)
            return self._count(self._conclude(read, last=True))

    # --------------------------------------------- batches in final order

    def prepare(self, streams: Sequence[DescribedStream], scale: Scale) -> None:
        """Check the rules against the columns of streams whose events `take` gets.

        Raises all mistakes together. Necessary before the first batch, and after `update`.
        """
        self._guard.check()
        self._prepare(streams, scale, self.options.type_column, self.options.time_column)

    def take(self, batch: EventBatch, scale: Scale) -> Iterator[tuple[str, Any]]:
        """Yield what rules find in a batch whose events are in their final order.

        Only rules that may have found something are named.
        """
        with self._guard:
            read: list[list[Any]] = [[] for _ in self.running]
            self._events += len(batch)
            self._take(batch, scale, read, _ChunkReading())
            found = list(self._list_found(read))
        yield from found

    def pass_time(self, nanoseconds: int, scale: Scale) -> Iterator[tuple[str, Any]]:
        """Yield what is certain for each rule once no event before a time comes."""
        if any(is_late(each) or is_held(each) for each in self._patterns if each.into is not None):
            with self._guard:
                read: list[list[Any]] = [[] for _ in self.running]
                self._take(self._empty, scale, read, _ChunkReading(until=nanoseconds))
                derived = list(self._list_found(read))
            yield from derived
        for place, running in enumerate(self.running):
            if running.session.pipeline.waits_for_time and running.pattern.into is None:
                until = _limit_time(nanoseconds, self._bounds.get(place), scale)
                for found in running.session.pass_watermark(until, scale):
                    yield running.rules[0].name, found

    @property
    def _empty(self) -> EventBatch:
        """A chunk without events."""
        nothing, options = np.empty(0, np.int64), self.options
        columns = options.type_column, self._time_column
        return EventBatch(0, nothing, nothing, (), None, None, *columns)

    def _take_last(self, read: list[list[Any]], scale: Scale, *, forget: bool = True) -> None:
        """Let rules read what others derive now that no further event comes."""
        if self._made:
            self._take(self._empty, scale, read, _ChunkReading(forget=forget, last=True))

    def renew_budget(self) -> None:
        """Allow each rule as many candidates again."""
        for session in self.sessions:
            session.renew_budget()

    def _list_found(self, read: list[list[Any]]) -> Iterator[tuple[str, Any]]:
        for place, segments in enumerate(read):
            running = self.running[place]
            if parts := self._found[place]:
                self._found[place] = []
                yield from running.join_found(parts, every=False)
            elif segments or running.session.pipeline.waits_for_time:
                yield from running.conclude(segments, every=False)
            else:
                running.session.pipeline.forget_if_due()

    def _conclude(
        self, read: list[list[Any]], *, last: bool = False, warns: bool = False
    ) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for place, segments in enumerate(read):
            running = self.running[place]
            session, plan = running.session, running.session.plan
            odd = self._warn_about_events(place) if warns else ()
            session.notes = [*self.notes, *plan.warnings, *odd, *plan.notes]
            if running.pattern.into is None:
                found.update(running.conclude(segments, self.notes, self.mistakes.used, last=last))
                continue
            parts = self._found[place]
            found.update(running.join_found(parts, self.notes, self.mistakes.used))
        self._found = [[] for _ in self.running]
        return {name: found[name] for name in self.rules.names}

    def _warn_about_events(self, place: int) -> Iterator[WarningNote]:
        """Yield warnings about the events of a rule that has read all events of its types."""
        derived = not self._made.isdisjoint(self._patterns[place].streams)
        misses_events = derived or self._is_updated or place in self._router.narrowed
        misses_events = misses_events or place in self._members
        if self._events and not misses_events:
            yield from self.running[place].session.warn_about_truths(self._types)

    def list_silent(self, found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Yield the rules that have found nothing in all events so far, and why."""
        events = dict(pair for running in self.running for pair in running.count_events())
        places = {rule.name: i for i, each in enumerate(self.running) for rule in each.rules}
        for rule in self.rules:
            if not found[rule.name].head(1):
                notes = [*self._warn_about_events(places[rule.name])]
                yield rule.name, describe_silence(rule, events[rule.name], notes)

    def _refuse(self, warnings: Sequence[tuple[Rule, WarningNote]]) -> None:
        """Raise the warnings of rules, if there are any; those of all rules once."""
        named = [one if one in self.notes else name_warning(rule, one) for rule, one in warnings]
        if named:
            raise StrictError(dict.fromkeys(named))

    def _start(self, sources: Sequence[Source]) -> Ordering:
        """Check the rules against sources; an error leaves the session as it was."""
        ordering = Ordering(sources, after=self.progress)
        self._prepare(sources, ordering.scale, sources[0].type_column, sources[0].time_column)
        return ordering

    def _read(self, ordering: Ordering, *, forget: bool = True) -> list[list[Any]]:
        sources = ordering.sources
        read: list[list[Any]] = [[] for _ in self.running]
        times: TimeSpan | None = None
        most = min(max(_CHUNK, _CHUNK_PER_RULE * len(self.rules)), _LARGEST_CHUNK)
        for batch in _join_batches(ordering, most):
            times = extend_span(times, batch, ordering.unit_ns)
            self._types.add(batch)
            self._events += len(batch)
            self._take(batch, ordering.scale, read, _ChunkReading(forget=forget))
        self.mistakes.complete()
        self.progress = ordering.progress
        odd = () if times is None else check_times(sources, times)
        self.notes = [*ordering.notes, *note_skipped(sources), *map(WarningNote.of, odd)]
        return read

    def open(self, events: Any) -> list[Source]:
        """Open the streams that any rule reads."""
        self._guard.check()
        names, declared = name_streams(self._patterns), unite_declared(self._patterns)
        sources = self.options.open_sources(events, names, self.mistakes, declared)
        for source in sources:
            if source.name in self._made:
                raise DataError(f"rules insert into the stream {source.name!r}, which is given too")
        return sources

    def _prepare(
        self, sources: Sequence[DescribedStream], scale: Scale, types: str, times: str | None
    ) -> None:
        """Check each rule against its streams; raise all mistakes together."""
        mistakes: dict[str, str] = {}
        made: dict[str, list[pa.Schema]] = {}
        self._time_column = times
        self._dissolve_families(sources, scale)
        for place in self._order:
            running = self.running[place]
            session, pattern = running.session, running.pattern
            own = _choose_streams(sources, pattern)
            for name in pattern.streams:
                if name in made:
                    own.append(KnownStream(name, unite_schemas(name, made[name])))
            try:
                session.prepare(own)
                session.check_scale(scale)
            except CernisError as error:
                mistakes |= self._blame(running, own, scale, error)
                continue
            for each in own:
                schema, tables = each.schema, session.tables
                schema = schema if tables is None else tables.extend(each.name, schema)
                session.store.expect(schema, types, times)
            if pattern.into is not None:
                made.setdefault(pattern.into, []).extend(running.derive_schemas(types, times))
        if mistakes:
            raise RuleSetError([*mistakes.values()], [*mistakes])
        if self.options.strict:
            warnings = [
                (each.rules[0], one) for each in self.running for one in each.session.plan.warnings
            ]
            self._refuse(warnings)
        self._schemas = {name: unite_schemas(name, schemas) for name, schemas in made.items()}

    def _dissolve_families(self, sources: Sequence[DescribedStream], scale: Scale) -> None:
        """Let the rules of a family run alone, where the columns do not tell them apart."""
        running: list[RunningRule] = []
        numbers = {name: number for number, name in enumerate(self.rules.names)}
        for each in self.running:
            own = [s for s in _choose_streams(sources, each.pattern) if not s.is_blank]
            if each.family is None or not own or each.family.fits(own, scale):
                running.append(each)
            elif each.session.events and isinstance(each.family, Family):
                name, kind = each.family.template.attribute, type(each.family.constants[0])
                raise DataError(
                    f"{name!r} is compared with values of the type {kind.__name__} by "
                    f"{len(each.rules)} rules, and is no such column any more; begin a new session"
                )
            else:
                running += [
                    RunningRule((rule,), self._open(rule.query), number=numbers[rule.name])
                    for rule in each.rules
                ]
        if len(running) > len(self.running):
            self._set_running(sorted(running, key=lambda each: each.number))

    def _blame(
        self,
        running: RunningRule,
        streams: Sequence[DescribedStream],
        scale: Scale,
        error: CernisError,
    ) -> dict[str, str]:
        """Return what is wrong with each rule, in words."""
        mistakes: dict[str, CernisError] = {}
        for rule in running.rules if running.family is not None else ():
            try:
                session = self._open(rule.query)
                session.prepare(streams)
                session.check_scale(scale)
            except CernisError as own:
                mistakes[rule.name] = own
        mistakes = mistakes or {running.rules[0].name: error}
        rules = (rule for rule in running.rules if rule.name in mistakes)
        return {
            rule.name: describe_mistake(rule.name, rule.origin, mistakes[rule.name])
            for rule in rules
        }

    def _take(
        self, batch: EventBatch, scale: Scale, read: list[list[Any]], how: _ChunkReading
    ) -> None:
        """Let each rule read its events of a batch, those that rules have derived among them."""
        self._scale = scale
        views: dict[tuple[str, ...], EventBatch] = {}
        can_route, routed = set[int](), _RoutedEvents({}, {})
        if scale.unit_ns is not None:
            can_route, routed = {*self._router.rules, *self._members}, self._route(batch)
        first = self._events - len(batch)
        if self._made:
            self._input = self._input.append(batch, first)
        if (len(batch) or how.last) and len(self._input.time) and scale.unit_ns is not None:
            how = how._replace(until=int(self._input.time[-1]) * scale.unit_ns)
        chunk = _RuleChunk(batch, scale, first, how, {}, {}, routed)
        for place in self._order:
            running, pattern = self.running[place], self._patterns[place]
            if pattern.into is not None and place in can_route:
                self._derive_routed(place, chunk)
                continue
            if pattern.into is not None or not self._made.isdisjoint(pattern.streams):
                read[place] += self._derive(place, chunk)
                continue
            if not len(batch):
                continue
            if place in can_route:
                own = routed.events.get(place)
                if own is not None and own.owners is None:
                    own = _confine(own, pattern.streams)
            else:
                if pattern.streams not in views:
                    views[pattern.streams] = _confine(batch, pattern.streams)
                own = views[pattern.streams]
                tables = running.session.tables
                own = own if tables is None else tables.join(own)
            if own is not None and len(own):
                read[place] += running.read(own, scale)
        bound = find_least(chunk.bounds.values())
        self._input = self._input.forget_before(self._events if bound is None else bound.path[0])

    def _derive_routed(self, place: int, chunk: _RuleChunk) -> None:
        """Let a rule, or a bundle, read its events of the input, and add what matches become."""
        running, pattern = self.running[place], self._patterns[place]
        assert pattern.into is not None
        schema, made = self._schemas.get(pattern.into), chunk.derived.setdefault(pattern.into, [])
        own = chunk.routed.events.get(place)
        if schema is None or own is None:
            return
        paths = np.full((len(own), self._width), NOTHING, np.int64)
        paths[:, 0] = chunk.first + chunk.routed.places[place]
        running.log = running.log.append(
            PlacedBatch(replace(own, base=running.session.events), paths)
        )
        segments = running.read(own, chunk.scale)
        columns, several = (own.type_column, own.time_column), list[DerivedEvents]()
        if not segments:
            running.session.pipeline.forget_if_due()
        for name, found in running.conclude(segments, every=False) if segments else ():
            derivation = Derivation(pattern.into, self._numbers[name], schema, *columns)
            events = derive_events(found, running.log, derivation)
            if events is not None:
                self._found[place].append((name, found))
                several.append(events)
        made += [join_derived(several)] if several else []
        running.find_open()

    def _derive(self, place: int, chunk: _RuleChunk) -> list[Any]:
        """Let a rule read a chunk with derived events, and add those that its matches become.

        It reads up to where its streams are known. Return what was found, for `conclude`, unless
        it inserts into a stream.
        """
        running, pattern = self.running[place], self._patterns[place]
        session, (batch, scale, first, how, derived, bounds, _) = running.session, chunk
        streams = pattern.streams or tuple(name for name, _ in batch.parts)
        bound = None if how.last else find_least(bounds.get(name) for name in streams)
        self._bounds[place] = bound
        parts = place_events(batch, first, derived, streams, self._width)
        parts = running.pending.take(parts, bound)
        placed = merge_parts(parts, batch.type_column, batch.time_column)
        segments: list[Any] = []
        if placed is not None:
            own, paths = placed
            if session.tables is not None:
                own, stays = session.tables.join_marked(own)
                paths = paths[stays]
            placed = PlacedBatch(replace(own, base=session.events), paths)
            segments = session.read(placed.batch, scale)
        if pattern.into is None:
            return segments
        schema, made = self._schemas.get(pattern.into), derived.setdefault(pattern.into, [])
        if schema is None:  # it has had no events
            return []
        running.log = running.log if placed is None else running.log.append(placed)
        columns = batch.type_column, batch.time_column
        derivation = Derivation(pattern.into, running.number, schema, *columns)
        moment = InputMoment(self._input, scale, self.options.time_unit, self._width)
        before = 0
        for result in _list_certain(session, segments, scale, how.limit(bound, scale)):
            if is_late(pattern):
                events = derive_late(result, moment, derivation, before)
            else:
                events = derive_events(result, running.log, derivation)
            if events is not None:
                self._found[place].append((running.rules[0].name, result))
                made.append(events)
                before += len(events.rows)
        if not how.last:
            least = find_least([bound, running.find_open(), bounds.get(pattern.into)])
            bounds[pattern.into] = least
        return []

    def _route(self, batch: EventBatch) -> _RoutedEvents:
        """Return the events that can move each rule."""
        rows: dict[int, list[Int64s]] = {}
        empty = np.empty(0, np.int64)
        for part, (_, table) in enumerate(batch.parts if self._router.rules else ()):
            for number, at in self._router.route(table).items():
                rows.setdefault(number, [empty] * len(batch.parts))[part] = at
        routed = _RoutedEvents({}, {})
        for place, members in self._members.items():
            bundle = self.running[place].family
            assert isinstance(bundle, Bundle)
            own = [(i, rows[number]) for i, number in enumerate(members) if number in rows]
            found = join_rows(batch, own, bundle.whole.pattern.streams)
            if len(found.at):
                routed.events[place] = take_rows(batch, found, bundle)
                routed.places[place] = found.at
        plain = {}
        for place in [place for place in rows if place < len(self.running)]:
            streams = self._patterns[place].streams
            if self._patterns[place].into is None:
                plain[place] = rows[place]
            elif len(at := join_rows(batch, [(0, rows[place])], streams).at):
                routed.events[place] = take_events(batch, at, streams)
                routed.places[place] = at
        if len(batch.parts) == 1 and batch.index is None:
            routed.events.update(_copy_events(batch, {place: at for place, (at,) in plain.items()}))
        else:
            routed.events.update({place: _select(batch, at) for place, at in plain.items()})
        return routed


def _list_certain(
    session: Session[Any], segments: list[Any], scale: Scale, how: _ChunkReading
) -> Iterator[Any]:
    """Yield what a rule finds in a chunk: at its events, then by their time, then at the end."""
    waits = session.pipeline.waits_for_time
    yield session.conclude(segments, last=how.last and not waits, forget=how.forget)
    if waits and how.until is not None:
        yield from session.pass_watermark(how.until, scale)
    if waits and how.last:
        yield session.conclude([], last=True)


def _limit_time(until: int, bound: DerivedBound | None, scale: Scale) -> int:
    """Return up to where time has passed for a rule that has read up to a bound."""
    if bound is None or scale.unit_ns is None:
        return until
    return min(until, bound.tick * scale.unit_ns)


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


class _SharedEncoders:
    """One encoder for all rules that ask the same atoms.

    A rule that is removed takes its own along. The sessions of the rules know this object and
    not the session of the rule set, which would then hold itself.
    """

    def __init__(self, type_column: str) -> None:
        self._type_column = type_column
        self._known: WeakValueDictionary[tuple[Atom, ...], Encoder] = WeakValueDictionary()
        self._groups: KnownGroups = WeakValueDictionary()

    def get(self, atoms: Sequence[Atom]) -> Encoder:
        key = tuple(atoms)
        encoder = self._known.get(key)
        if encoder is None:
            encoder = self._known[key] = _SharedEncoder(key, self._type_column, self._groups)
        return encoder


def _copy_events(batch: EventBatch, rows: Mapping[int, Int64s]) -> dict[int, EventBatch]:
    """Return the events at the rows of each rule; all rules share one copy, rule after rule."""
    if not rows:
        return {}
    (name, table), order = batch.parts[0], np.concatenate([*rows.values()])
    copied = join_table(table).take(pa.array(order))
    found, first = {}, 0
    for number, at in rows.items():
        found[number] = replace(
            batch,
            rows=batch.rows[at],
            time=None if batch.time is None else batch.time[at],
            parts=((name, copied.slice(first, len(at))),),
        )
        first += len(at)
    return found


def _select(batch: EventBatch, rows: Sequence[Int64s]) -> EventBatch:
    kept = []
    for at, (_, table) in zip(rows, batch.parts, strict=True):
        keep = np.zeros(table.num_rows, np.bool_)
        keep[at] = True
        kept.append(keep)
    return select_events(batch, kept)


def _confine(batch: EventBatch, streams: tuple[str, ...]) -> EventBatch:
    """Return the events of some streams; none named: of all."""
    if not streams or all(name in streams for name, _ in batch.parts):
        return batch
    kept = [np.full(table.num_rows, name in streams) for name, table in batch.parts]
    return select_events(batch, kept)


def _join_batches(batches: Iterable[EventBatch], most: int) -> Iterator[EventBatch]:
    """Yield batches of up to so many events, where those of one stream follow each other."""
    waiting: list[EventBatch] = []
    events = size = 0
    for batch in batches:
        events, size = events + len(batch), size + batch.parts[0][1].nbytes
        is_large = events > most or (events > _CHUNK and size > _CHUNK_BYTES)
        if waiting and (is_large or not _is_alike(waiting[0], batch)):
            yield _concatenate(waiting)
            waiting, events, size = [], len(batch), batch.parts[0][1].nbytes
        waiting.append(batch)
    if waiting:
        yield _concatenate(waiting)


def _is_alike(first: EventBatch, batch: EventBatch) -> bool:
    plain = all(len(each.parts) == 1 and each.index is None for each in (first, batch))
    return (
        plain
        and first.parts[0][0] == batch.parts[0][0]
        and first.parts[0][1].schema == batch.parts[0][1].schema
    )


def _concatenate(batches: Sequence[EventBatch]) -> EventBatch:
    if len(batches) == 1:
        return batches[0]
    first = batches[0]
    times = [batch.time for batch in batches if batch.time is not None]
    table = pa.concat_tables([batch.parts[0][1] for batch in batches])
    return replace(
        first,
        rows=np.concatenate([batch.rows for batch in batches]),
        time=np.concatenate(times) if times else None,
        parts=((first.parts[0][0], table),),
    )


def _choose_streams(sources: Sequence[DescribedStream], pattern: Pattern) -> list[DescribedStream]:
    """Return the sources that a rule reads."""
    return [each for each in sources if not pattern.streams or each.name in pattern.streams]


def name_streams(patterns: Sequence[Pattern]) -> list[str]:
    """Return the streams that are given to rules; none: a rule without FROM reads all."""
    if not all(pattern.streams for pattern in patterns):
        return []
    made = {pattern.into for pattern in patterns}
    every = dict.fromkeys(name for each in patterns for name in each.streams)
    return [name for name in every if name not in made]


def unite_declared(patterns: Iterable[Pattern]) -> Schema | None:
    """Return the streams that any rule declares."""
    streams = {
        stream.name: stream
        for pattern in patterns
        if pattern.declared is not None
        for stream in pattern.declared.streams
    }
    return Schema(tuple(streams.values())) if streams else None


def read_rule_texts(state: bytes) -> list[tuple[str, str]]:
    """Return the names and the texts of the rules of a frozen session."""
    meta, _ = unpack(state)
    return _read_texts(meta)


def _read_texts(meta: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the names and the texts of the rules that a state holds."""
    if "rules" not in meta:
        raise StateError("the state was frozen by a query, not by a rule set; thaw it with that")
    written = [check_list(each, "a rule", 2) for each in check_list(meta["rules"], "the rules")]
    return [(check_text(name, "a name"), check_text(text, "a rule")) for name, text in written]


def _read_scale(meta: Mapping[str, Any]) -> Scale | None:
    """Return the unit of times of a frozen session; None: it has read no events."""
    if meta.get("scale") is None:
        return None
    unit, own = check_list(meta["scale"], "the units of time", 2)
    units = (None, DAY, *UNITS.values())
    require(unit in units and own in units, "it has another unit of time")
    return Scale(unit, own)


def _read_schemas(meta: Mapping[str, Any], arrays: Mapping[str, Any]) -> dict[str, pa.Schema]:
    """Return the columns of the derived streams of a frozen session."""
    found = {}
    for number, name in enumerate(check_list(meta.get("derived", []), "the derived streams")):
        written = read_array(arrays, f"derived.{number}", np.uint8).tobytes()
        try:
            schema = pa.ipc.read_schema(pa.py_buffer(written))
        except (pa.ArrowException, OSError, ValueError) as error:
            raise StateError(f"the frozen state is damaged: {error}") from error
        found[check_text(name, "a derived stream")] = schema
    return found


def _read_families(rules: RuleSet, meta: Mapping[str, Any]) -> list[Family | Bundle]:
    """Return the families and bundles of a frozen session."""
    found, inside = list[Family | Bundle](), set[int]()

    def read_members(written: object) -> list[Rule]:
        numbers = [
            check_number(number, "a rule of a family", 0, len(rules))
            for number in check_list(written, "a family")
        ]
        distinct = {*numbers}
        require(
            bool(numbers) and len(distinct) == len(numbers) and inside.isdisjoint(distinct),
            "a rule is in two families",
        )
        inside.update(distinct)
        return [rules.rules[number] for number in numbers]

    for each in check_list(meta.get("families", []), "the families"):
        found.append(join_family(read_members(each)))
    for each in check_list(meta.get("bundles", []), "the bundles"):
        written, numbers = check_list(each, "a bundle", 2)
        own = read_members(written)
        owners = [
            check_number(number, "the owner of a partition", 0, 1 << 20)
            for number in check_list(numbers, "the owners of partitions", len(own))
        ]
        found.append(join_bundle(own, owners))
    return found


def _name_members(families: Iterable[Family | Bundle]) -> list[str]:
    """Return the names of the rules that run in families or bundles."""
    return [rule.name for family in families for rule in family.rules]


def _check_rules(rules: RuleSet, frozen: Sequence[tuple[str, str]]) -> None:
    """Raise an error for the state of other rules."""
    own, before = {rule.name: rule.text for rule in rules}, dict(frozen)
    require(len(before) == len(frozen), "a rule comes twice")
    other = [name for name in {**before, **own} if own.get(name) != before.get(name)]
    if other:
        shown = ", ".join(other[:5]) + (", …" if other[5:] else "")
        raise StateError(
            f"the state was frozen by other rules ({shown}); thaw it with the rules that froze it, "
            "and go on with others by update"
        )
    if list(own) != list(before):
        raise StateError(
            "the state was frozen by the same rules in another order; thaw it with that order"
        )
