"""`RuleGroup`: rules that share an engine, each on the events that can move it; and their session.

With a session for each, a thousand rules cost a thousand times some dozens of calls for each batch,
whatever the number of events. A group has one session: an event is copied for each rule that it can
move, and the *owner*, a number of that rule, is the first component of its partition
(`encoding.keys.OwnedKeys`). So a match belongs to the owner of its partition, a rule can join a
running group, which has none of its events, and leave it: then its partitions are dropped.

There are two kinds of groups:

* A *family* has rules that differ in one constant alone. They share one automaton, that of their
  template (`templates`), which does not ask for the constant: a `Router` does.
* A *bundle* has rules of other shapes. The atoms of all automata are evaluated once
  (`encoding.bundle`), and one kernel moves them (`engine.unary.bundle`).

In a bundle are only rules whose events are found by types or constants, with conditions on single
events and few states: sequences, alternatives and iterations of events, a window in time or none.
Its rules read the same streams with the same key, have the same strategy, and their windows differ
by a factor of four at most, so that the events of a short window are not kept for a long one. Their
SUPPRESS BY names the same components (`owned_suppress`), and their INSERT INTO the same stream. Not
in a bundle: CONSUME BY, whose rules the engine applies to a partition or to the whole stream,
ORDER BY, which reads the values of matches rule by rule, and conditions on runs of events that are
counted along the run (`plan.run_counts`).

Cost contract: a group costs one query over the events of all its rules, and some microseconds for
each rule and batch; a bundle also some tens of them for each distinct condition that compares
several columns. State: one arena, and the events of all rules.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from itertools import count, islice
from threading import RLock
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cernis.automata.unary.determinize import Deterministic
from cernis.encoding.bundle import BundleEncoder, GrownEncoder, MergedAlphabet
from cernis.encoding.clock import Clock, read_time_clocks
from cernis.encoding.encode import Encode, SeenTruths
from cernis.encoding.keys import OwnedKeys
from cernis.engine.silence import MOST
from cernis.engine.unary.bundle import BundleEngine, BundleTables
from cernis.engine.unary.freeze import freeze_bundle, list_unknown, read_bundle, thaw_bundle
from cernis.engine.unary.thresholds import RunSegment
from cernis.events.batch import Bools, EventBatch, Int32s, Int64s
from cernis.events.column_types import is_text
from cernis.events.order import Scale
from cernis.events.source import DescribedStream, stream_of
from cernis.events.store import EventStore
from cernis.pattern.query import Pattern
from cernis.pattern.simple_tests import ConstantTest, NeededTests, need_any
from cernis.plan.equalities import find_needed
from cernis.plan.plan import Plan, Unary
from cernis.plan.templates import Template
from cernis.results.budget import Budget
from cernis.results.matches import Matches
from cernis.results.sets.matchset import ListedMatches, MatchSet, take
from cernis.results.sets.unary import CompactMatches
from cernis.run.advice.absent_types import SampledTypes
from cernis.run.feed import EncodedBatch, Feed, Keys, push_pieces
from cernis.run.freeze import read_state, thaw_pipeline
from cernis.run.query import Query
from cernis.run.rules.routing.layers import are_few
from cernis.run.rules.routing.router import RoutedRules, sort_numbers
from cernis.run.rules.rule import Rule
from cernis.run.rules.shared.owned_suppress import OwnedClauses, OwnedSuppressor, SilencedMatches
from cernis.run.session import RunOptions, Session, warn_about_truths
from cernis.run.stages.pipeline import Pipeline, make_run
from cernis.run.tables import Tables
from cernis.schema import Schema
from cernis.state import Tree


def list_units(rules: Iterable[Rule]) -> Iterator[Unary]:
    """Yield the automata of rules of a bundle."""
    for rule in rules:
        unary = rule.query.plan.unary
        assert unary is not None
        yield unary


@dataclass(frozen=True, eq=False)
class RuleGroup:
    """Rules that share an engine, and the query that has what they have in common."""

    rules: tuple[Rule, ...]
    owners: tuple[int, ...]
    """The numbers of the rules in the keys of partitions: they stay when rules come and go."""
    whole: Query[Any]
    """Of a family, the query of its template; of a bundle, one with its streams, key and window."""
    is_family: bool
    """Whether the rules share one automaton."""
    labels: tuple[frozenset[str], ...] = ()
    """Label sets that have numbers in the state of a session."""
    units: tuple[Unary, ...] = ()
    """The automata of the rules of a bundle."""
    _machines: dict[str, BundleMachine] = field(default_factory=dict, repr=False)
    _earlier: dict[str, BundleMachine] = field(default_factory=dict, repr=False)
    """The machines of the group that this one was before its rules changed."""
    _checked: list[tuple[Schema, int]] = field(default_factory=list, repr=False)
    """The schema that plans were checked against last, and how many of the first plans were."""

    @property
    def template(self) -> Template:
        """Of a family, the template of the first rule; those of others differ in the constant."""
        return self.rules[0].known_template

    @property
    def partition(self) -> tuple[tuple[str, ...], ...]:
        """The components of the keys of partitions, after the owner."""
        return self.rules[0].query.pattern.partition

    @cached_property
    def plans(self) -> tuple[Plan, ...]:
        """The plan of each rule; those of a family have one."""
        if self.is_family:
            return (self.whole.plan,) * len(self.rules)
        return tuple(rule.query.plan for rule in self.rules)

    @cached_property
    def plan(self) -> Plan:
        """The plan of the session; the automaton of a bundle is not used."""
        plan = self.whole.plan
        return replace(plan, settings=replace(plan.settings, partitioned=True))

    @cached_property
    def owner_numbers(self) -> Int64s:
        return np.array(self.owners, np.int64)

    @cached_property
    def indices(self) -> Int64s:
        """The index of the rule of each owner; -1: there is no such rule."""
        found = np.full(max(self.owners) + 1, -1, np.int64)
        found[self.owner_numbers] = np.arange(len(self.owners))
        return found

    def find_rules(self, batch: EventBatch) -> Int64s:
        """Return the index of the rule of each event."""
        assert batch.owners is not None
        return self.indices[batch.owners]

    def find_pattern(self, index: int) -> Pattern:
        """Return the pattern of the matches of a rule."""
        return (self.rules[index].query if self.is_family else self.plans[index]).pattern

    @property
    def routed(self) -> RoutedRules:
        """The tests of which one holds for each event that can move a rule."""
        tests: list[NeededTests]
        if self.is_family:
            others = find_needed(self.whole.plan)
            tests = [_need_both(rule.known_template.test, others) for rule in self.rules]
        else:
            tests = [rule.needed or frozenset() for rule in self.rules]
        return RoutedRules(self.whole.pattern.streams, dict(zip(self.owners, tests, strict=True)))

    def make_machine(self, type_column: str) -> BundleMachine:
        """Return the automata of all rules of a bundle, which sessions share."""
        if (known := self._machines.get(type_column)) is not None:
            return known
        before = self._earlier.pop(type_column, None)
        made = None if before is None else before.change(self.units)
        made = made or BundleMachine(self.units, self.labels, type_column)
        return self._machines.setdefault(type_column, made)

    # -------------------------------------------------------------- changes

    def keep(self, names: Collection[str]) -> RuleGroup:
        """Return the group of those rules that have these names."""
        kept = [index for index, rule in enumerate(self.rules) if rule.name in names]
        if len(kept) == len(self.rules):
            return self
        return self._change(
            rules=tuple(self.rules[index] for index in kept),
            owners=tuple(self.owners[index] for index in kept),
            units=() if self.is_family else tuple(self.units[index] for index in kept),
            _checked=[(schema, bisect_left(kept, first)) for schema, first in self._checked],
        )

    def add(self, rules: Sequence[Rule]) -> RuleGroup:
        """Return the group with more rules."""
        if not rules:
            return self
        taken = {*self.owners}
        free = (owner for owner in count() if owner not in taken)
        owners = (*self.owners, *islice(free, len(rules)))
        units = self.units if self.is_family else (*self.units, *list_units(rules))
        return self._change(rules=(*self.rules, *rules), owners=owners, units=units)

    def renew(self, indices: Collection[int]) -> RuleGroup:
        """Return the bundle with new automata for some rules, which no other session has."""
        pairs = enumerate(self.units)
        units = tuple(unit.renew() if index in indices else unit for index, unit in pairs)
        return self._change(units=units)

    def _change(self, **changes: Any) -> RuleGroup:
        earlier = {**self._earlier, **self._machines}
        fresh: dict[str, Any] = {"_machines": {}, "_earlier": earlier, "_checked": [*self._checked]}
        return replace(self, labels=self.known_labels, **(fresh | changes))

    @property
    def known_labels(self) -> tuple[frozenset[str], ...]:
        """The label sets that have numbers, in that order."""
        made = [tuple(machine.tables.labels) for machine in self._machines.values()]
        return max([self.labels, *made], key=len)

    # ------------------------------------------------------------- checking

    def fits(self, streams: Sequence[DescribedStream], scale: Scale) -> bool:
        """Return whether the rules can run together: events have times.

        Conditions on events without times look at positions. In a family, values that equal a
        constant are found by their type.
        """
        if scale.unit_ns is None or not self.is_family:
            return scale.unit_ns is not None
        name, constant = self.template.attribute, self.template.constant
        found = [each.schema.field(name).type for each in streams if name in each.schema.names]
        types = [each.value_type if pa.types.is_dictionary(each) else each for each in found]
        is_kind = is_text if isinstance(constant, str) else pa.types.is_integer
        return bool(types) and all(map(is_kind, types))

    def check_schema(self, schema: Schema) -> None:
        """Raise the mistakes of a rule for events of this schema."""
        first = next((first for known, first in self._checked if known == schema), 0)
        for plan in self.plans[first : 1 if self.is_family else None]:
            plan.check_schema(schema)
        self._checked[:] = [(schema, len(self.plans))]

    def read_windows(self, scale: Scale) -> Int64s | None:
        """Return the windows of the rules, in ticks; None: they have none."""
        windows = [plan.pattern.within for plan in self.plans]
        sizes = [each.size for each in windows if each is not None]
        ticks = {size: scale.ticks(size) for size in {*sizes}}
        return np.array([ticks[size] for size in sizes], np.int64) if sizes else None

    def list_clauses(self) -> OwnedClauses:
        """Return what SUPPRESS BY and LIMIT say, by owner."""
        lengths, limits = [Fraction(0)] * len(self.indices), np.full(len(self.indices), MOST)
        for owner, plan in zip(self.owners, self.plans, strict=True):
            assert plan.pattern.suppress is not None
            lengths[owner] = plan.pattern.suppress.length
            limits[owner] = min(MOST if plan.limit is None else plan.limit, MOST)
        return OwnedClauses(lengths, limits)

    # -------------------------------------------------------------- matches

    def split(
        self, found: Matches, taken: Sequence[Any], owners: Sequence[Int64s]
    ) -> Iterator[tuple[int, MatchSet]]:
        """Yield the matches of each rule that has some; `owners` are those of each segment."""
        if isinstance(found.match_set, ListedMatches):
            yield from self._split_listed(found.match_set, taken, owners)
            return
        compact = found.match_set
        assert isinstance(compact, CompactMatches)
        shares: dict[int, list[Any]] = {}
        reported = compact.reported if isinstance(compact, SilencedMatches) else None
        if reported is not None:
            owners = [reported.find_owners(segment.roots["end"]) for segment in compact.segments]
        for segment, numbers in zip(compact.segments, owners, strict=True):
            whose = self.indices[numbers]
            order = sort_numbers(whose, len(self.rules))
            cuts = np.flatnonzero(np.diff(whose[order], prepend=-2))
            for own in np.split(order, cuts[1:]):
                roots = segment.roots[own]
                shares.setdefault(int(whose[own[0]]), []).append(segment._replace(roots=roots))
        for index in sorted(shares):
            segments, plan = shares[index], self.plans[index]
            if reported is None:
                yield index, CompactMatches(plan.variables, segments, compact.labels, plan.limit)
            else:
                yield index, SilencedMatches(plan.variables, segments, compact.labels, reported)

    def _split_listed(
        self, listed: ListedMatches, taken: Sequence[RunSegment], owners: Sequence[Int64s]
    ) -> Iterator[tuple[int, MatchSet]]:
        """Yield the matches of each rule; an event of a group, and so an end, has one owner."""
        nothing = np.empty(0, np.int64)
        ends = np.concatenate([nothing, *(runs.ends for runs in taken)])
        numbers = np.concatenate([nothing, *owners])[np.searchsorted(ends, listed.block.end)]
        whose = self.indices[numbers]
        order = sort_numbers(whose, len(self.rules))
        cuts = np.flatnonzero(np.diff(whose[order], prepend=-2))
        for own in np.split(order, cuts[1:]) if len(order) else ():
            yield int(whose[own[0]]), ListedMatches(listed.variables, [take(listed.block, own)])

    @cached_property
    def nothing(self) -> list[CompactMatches]:
        """What each rule has found if it has no matches."""
        return [CompactMatches(plan.variables, (), (), plan.limit) for plan in self.plans]


@lru_cache(1 << 16)
def _need_both(test: ConstantTest, others: NeededTests | None) -> NeededTests:
    """Return what finds events with a constant that pass other tests; the same for equal ones."""
    found = need_any([frozenset([test]), others])
    assert found is not None
    return found


def merge_alphabet(unary: Unary) -> MergedAlphabet:
    """Return the merged alphabet of an automaton, which is made once."""
    known = vars(unary)  # as a cached property of the automaton, which does not know bundles
    if "merged" not in known:
        known["merged"] = MergedAlphabet(unary.automaton.alphabet)
    found: MergedAlphabet = known["merged"]
    return found


class BundleMachine:
    """The automata of a bundle: how events become symbols, and the tables of the kernel.

    Sessions share it, in any threads. When rules change, the next machine goes on with what this
    one has learned: automata keep their indices, and new ones get the next.
    """

    def __init__(
        self, units: Sequence[Unary], labels: Sequence[frozenset[str]], type_column: str
    ) -> None:
        self._type_column = type_column
        self._units = [*units]
        """By their indices, those of rules that have left among them."""
        self._indices = np.arange(len(units))
        """The indices of the automata of the rules."""
        self.tables = BundleTables([unit.tables for unit in units], labels)
        self._alphabets = [merge_alphabet(unit) for unit in units]
        self._settled = self._make_encoder(0)
        self._encoder: BundleEncoder | GrownEncoder = self._settled
        self._symbols = np.full(len(self._encoder), -1, np.int32)
        self._growth = RLock()

    def _make_encoder(self, first: int) -> BundleEncoder:
        return BundleEncoder([each.asked for each in self._alphabets[first:]], self._type_column)

    def change(self, units: Sequence[Unary]) -> BundleMachine | None:
        """Return a machine for other automata, most of which are those of this one.

        None: too many are others.
        """
        settled = self._settled.automata
        known = {id(unit): index for index, unit in enumerate(self._units)}
        new = [unit for unit in units if id(unit) not in known]
        indices = {id(unit): index for index, unit in enumerate(new, len(self._units))} | known
        own = np.array([indices[id(unit)] for unit in units], np.int64)
        missing = settled - int((own < settled).sum())
        if not are_few(len(self._units) + len(new) - settled + missing, settled):
            return None
        made = copy(self)
        made._indices = own
        made._units = [*self._units, *new]
        made._alphabets = [*self._alphabets, *map(merge_alphabet, new)]
        made._encoder = GrownEncoder(self._settled, made._make_encoder(settled))
        with self._growth:  # both use the encoder
            made.tables = self.tables.add([unit.tables for unit in new])
            recent = np.full(len(made._encoder) - len(self._settled), -1, np.int32)
            made._symbols = np.append(self._symbols[: len(self._settled)], recent)
        return made

    @property
    def codes(self) -> int:
        """How many codes there are."""
        return len(self._encoder)

    def encode(self, batch: EventBatch, automata: Int64s, seen: Bools) -> Int32s:
        """Return a symbol per event, of the automata that read them; mark the codes in `seen`."""
        with self._growth:
            codes = self._encoder.encode(batch, self._indices[automata])
            seen[codes] = True
            symbols = self._symbols[codes]
            if symbols.min(initial=0) < 0:
                self._add_symbols(np.unique(codes[symbols < 0]).tolist())
                symbols = self._symbols[codes]
            return symbols

    def _add_symbols(self, codes: Sequence[int]) -> None:
        """Learn the symbols of codes that occur for the first time."""
        new: dict[int, list[tuple[int, int]]] = {}
        for code in codes:
            index, vector = self._encoder.find_vector(code)
            new.setdefault(index, []).append((code, self._alphabets[index].symbol(vector)))
        known = self.tables.number_symbols
        self.tables.grow(
            index
            for index, pairs in new.items()
            if max(symbol for _, symbol in pairs) >= len(known(index))
        )
        for index, pairs in new.items():
            numbers = known(index)
            for code, symbol in pairs:
                self._symbols[code] = numbers[symbol]

    def list_truths(self, index: int, seen: Bools) -> SeenTruths:
        """Return the truths of the atoms of an automaton, for the codes that are seen."""
        return self._encoder.list_truths(int(self._indices[index]), seen)

    def number_states(self, index: int, states: Sequence[Any]) -> list[int]:
        """Return the numbers of the states of an automaton, which is worked out for them."""
        with self._growth:
            own = int(self._indices[index])
            numbers = self.tables.units[own].number_states(states)
            self.tables.grow([own])
            return numbers

    def label(self, names: frozenset[str]) -> int:
        """Return the number of a label set."""
        with self._growth:
            return self.tables.label(names)


# -------------------------------------------------------------------- session


class BundleFeed(Feed):
    """Encodes the events of all rules, and has the engine of all their automata."""

    engine: BundleEngine

    def __init__(self, group: RuleGroup, type_column: str, keys: OwnedKeys) -> None:
        self.keys = keys
        self._type_column = type_column
        self._set(group)
        self.engine = BundleEngine(self.machine.tables, group.plan.settings)

    def _set(self, group: RuleGroup) -> None:
        self.group, self.machine = group, group.make_machine(self._type_column)
        self.seen = np.zeros(self.machine.codes, np.bool_)
        """Which codes of events have occurred, since the rules are these."""

    def use(self, group: RuleGroup) -> None:
        """Go on with other rules."""
        self._set(group)
        self.engine.use_tables(self.machine.tables)

    def take(self, batch: EventBatch, keys: Keys | None, clock: Clock | None) -> list[Any]:
        symbols = self.machine.encode(batch, self.group.find_rules(batch), self.seen)
        self.engine.fit_tables()
        return push_pieces(self.engine, EncodedBatch(symbols, keys, clock))

    def find(
        self, variables: Sequence[str], taken: Sequence[Any], most: int | None, budget: Budget
    ) -> MatchSet:
        return CompactMatches(variables, taken, self.machine.tables.labels, most)

    @property
    def _automata(self) -> dict[int, Deterministic]:
        """The automata of the rules, by their owners."""
        units = zip(self.group.owners, self.group.units, strict=True)
        return {owner: unit.automaton for owner, unit in units}

    def freeze(self) -> Tree:
        owners, key_of_row = self.keys.list_owners(), self.engine.memory.key_of_row
        whose = np.append(owners, -1)[key_of_row]  # a row without a key has the last, no owner
        return freeze_bundle(self.engine, whose, self._automata, self.machine.tables.labels)

    def thaw(self, tree: Tree) -> None:
        indices = self.group.indices.tolist()
        frozen = read_bundle(tree, self._automata)
        # states from outside never reach the automata that other sessions share
        if unknown := [indices[owner] for owner in list_unknown(frozen, self._automata)]:
            self.use(self.group.renew(unknown))
        states = {
            unit.owner: self.machine.number_states(indices[unit.owner], unit.states)
            for unit in frozen.units
        }
        labels = [self.machine.label(frozenset(names)) for names in frozen.labels]
        self.engine.fit_tables()
        thaw_bundle(self.engine, frozen, states, labels)


class GroupPipeline(Pipeline):
    """The plan of a group of rules at work."""

    suppressor: OwnedSuppressor | None = None

    def __init__(
        self,
        group: RuleGroup,
        plan: Plan,
        store: EventStore,
        budget: Budget,
        encode: Encode,
        type_column: str,
    ) -> None:
        run = make_run(plan, store, budget, encode)
        self._group = group
        self._keys = run.keys = OwnedKeys(group.partition)
        if not group.is_family:
            run.feed = BundleFeed(group, type_column, self._keys)
        super().__init__(run)
        if (suppress := plan.pattern.suppress) is not None:
            self.suppressor = OwnedSuppressor(run, suppress, self._keys)
            self.suppressor.use(group.list_clauses())
            self.stages.replace(self.suppressor)
        self._windows: tuple[RuleGroup, Scale, Int64s | None] | None = None

    @property
    def keys(self) -> OwnedKeys:
        return self._keys

    @property
    def group(self) -> RuleGroup:
        """The rules; a bundle that was thawed may have automata of its own."""
        return self.feed.group if isinstance(self.feed, BundleFeed) else self._group

    def use(self, group: RuleGroup, left: Int64s) -> None:
        """Go on with other rules; the owners that `left` leave nothing behind."""
        self._group = group
        if len(left):
            self.drop_partitions(pa.array(left))
        if self.suppressor is not None:
            self.suppressor.drop_owners(left)
            self.suppressor.use(group.list_clauses())
        if isinstance(self.feed, BundleFeed):
            self.feed.use(group)

    def count_silenced(self) -> Int64s:
        """Return how many matches of each rule were silenced."""
        if self.suppressor is None:
            return np.zeros(len(self.group.owners), np.int64)
        return self.suppressor.silenced_of[self.group.owner_numbers]

    def take(self, batch: EventBatch, scale: Scale, *, own: bool = True) -> list[Any]:
        taken = super().take(batch, scale, own=own)
        reach = self.run.window_ticks(scale)
        if isinstance(self.engine, BundleEngine) and reach is not None and batch.time is not None:
            last = int(batch.time[-1])
            self.engine.advance(last, last - reach)
        return taken

    def _read_clock(
        self, batch: EventBatch, keys: NDArray[np.int64] | None, scale: Scale
    ) -> Clock | None:
        group = self.group
        if group.is_family:
            return super()._read_clock(batch, keys, scale)
        if self._windows is None or self._windows[:2] != (group, scale):
            self._windows = (group, scale, group.read_windows(scale))
        ticks = self._windows[2]
        return None if ticks is None else read_time_clocks(batch, ticks[group.find_rules(batch)])


class GroupSession(Session[Any]):
    """A session of rules that share an engine; `RunningRule` gives each of them its matches."""

    pipeline: GroupPipeline

    def __init__(self, group: RuleGroup, options: RunOptions, encode: Encode) -> None:
        self._first_group = group
        super().__init__(group.plan, options, encode=encode)

    def _start(self, plan: Plan) -> None:
        group, column = self._first_group, self.options.type_column
        self.pipeline = GroupPipeline(group, plan, self.store, self.budget, self._encode, column)

    @property
    def group(self) -> RuleGroup:
        return self.pipeline.group

    def prepare(self, sources: Sequence[DescribedStream]) -> Tables | None:
        """Check the rules against their sources."""
        if not any(source.is_blank for source in sources):
            streams = (stream_of(source.name, source.schema) for source in sources)
            self.group.check_schema(Schema(tuple(streams)))
        return super().prepare(sources)

    def list_owners(self, segments: Sequence[Any]) -> list[Int64s]:
        """Return the owners of the matches in each of these segments."""
        owners = self.pipeline.keys.list_owners() if segments else np.empty(0, np.int64)
        return [
            owners[each.key if isinstance(each, RunSegment) else each.roots["key"]]
            for each in segments
        ]

    def find_warnings(self, types: SampledTypes) -> Callable[[int], tuple[str, ...]]:
        """Return what is odd about the events of each rule, by its index, when it is asked for."""
        feed = self.pipeline.feed
        assert isinstance(feed, BundleFeed)
        return partial(_list_warnings, feed.group, feed.machine, feed.seen.copy(), types)

    @classmethod
    def thaw_group(
        cls, group: RuleGroup, state: bytes, options: RunOptions, encode: Encode
    ) -> GroupSession:
        """Return the session that `freeze` turned into bytes; StateError if they are others."""
        frozen = read_state(state, group.plan)
        time, type_, time_unit = frozen.columns
        options = replace(options, time=time, type=type_, time_unit=time_unit)
        session = cls(group, options, encode)
        thaw_pipeline(session.pipeline, frozen)
        session.progress = replace(frozen.progress, position=session.events)
        return session


def _list_warnings(
    group: RuleGroup, machine: BundleMachine, seen: Bools, types: SampledTypes, index: int
) -> tuple[str, ...]:
    """Return the warnings about the events of a rule; it holds no session."""
    truths = machine.list_truths(index, seen)
    return tuple(warn_about_truths(group.plans[index], truths, [truths], types))
