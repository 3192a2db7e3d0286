"""`Bundle`: rules of any shapes that run in one engine, each on the events that can move it.

A rule that differs from others in more than a constant has an automaton of its own. With a session
for each, a thousand rules cost a thousand times some dozens of calls for each batch, whatever the
number of events. A bundle has one session: an event is copied for each rule that it can move, the
rule is the first component of its partition (`encoding.keys.OwnedKeys`), the atoms of all rules are
evaluated once (`encoding.bundle`), and one kernel moves all automata (`engine.unary.bundle`).

Only rules whose events are found by types or constants, with conditions on single events and few
states: sequences, alternatives and iterations of events, a window in time or none. Rules of a
bundle read the same streams with the same key, have the same strategy, and their windows differ by
a factor of four at most, so that the events of a short window are not kept for a long one. Their
SUPPRESS BY names the same components (`bundle_suppress`), and their INSERT INTO the same stream.

Not in a bundle: CONSUME BY, whose rules the engine applies to a partition or to the whole stream,
and ORDER BY, which reads the values of matches rule by rule.

Cost contract: a bundle costs one query over the events of all its rules, some microseconds for each
rule and batch, and some tens of them for each distinct condition that compares several columns.
State: one arena, and the events of all rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from threading import RLock
from typing import Any, NamedTuple

import numpy as np

from cernis.encoding.bundle import MOST_ATOMS, BundleEncoder, SeenTruths
from cernis.engine.settings import CLOCK_WINDOW, CONSUME_NOTHING, NO_WINDOW
from cernis.engine.silence import MOST
from cernis.engine.unary.bundle import BundleTables
from cernis.events.batch import Bools, EventBatch, Int32s, Int64s, take_events
from cernis.events.order import Scale
from cernis.events.source import DescribedStream
from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.atom import TypeIs
from cernis.pattern.query import Consume, Pattern, Strategy, Suppression, Unit
from cernis.pattern.selection import counts_only
from cernis.pattern.window import Window
from cernis.plan.plan import Plan, Unary
from cernis.results.matches import Matches
from cernis.results.unary import CompactMatches
from cernis.run.query import Query
from cernis.run.rules.bundle_suppress import OwnedClauses, SilencedMatches
from cernis.run.rules.routing import COMPUTED, ConstantTest, sort_places
from cernis.run.rules.rule import Rule
from cernis.schema import Schema
from cernis.state import require

SMALLEST = 8
"""Fewer rules run one by one."""
MOST_RULES = 1024
"""More rules run in several bundles: tables have an entry for each rule and constant."""
_STRATEGIES = (Strategy.ALL, Strategy.ANY, Strategy.NEXT, Strategy.LAST, Strategy.MAX)
"""Strategies that the engine decides at each end."""
_MOST_SHARING = 8
"""A rule by types alone runs alone if more rules than this name one of its types: each event is
copied for all of them, and a rule alone reads an event for about half of what it costs here."""
_MOST_EVENTS = 6
"""A rule with more events in its formula runs alone: its automaton may have many states."""


class BundleKind(NamedTuple):
    """What the rules of a bundle have in common."""

    streams: tuple[str, ...]
    partition: tuple[tuple[str, ...], ...]
    reach: Fraction | None
    """No window is longer, in nanoseconds; None: there is none."""
    silences: tuple[str, ...] = ()
    """The components that SUPPRESS BY names; none: there is no such clause."""
    into: str | None = None
    strategy: Strategy = Strategy.ALL


def find_kind(rule: Rule) -> BundleKind | None:
    """Return the bundles that a rule fits into; None: it runs alone."""
    if rule.whole or not rule.equalities:
        return None
    plan = rule.query.plan
    pattern, settings, within = plan.pattern, plan.settings, plan.pattern.within
    silences = () if pattern.suppress is None else pattern.suppress.names
    if pattern.consume is not Consume.NONE or settings.consume != CONSUME_NOTHING:
        return None
    if pattern.strategy not in _STRATEGIES or not {*silences} <= {*pattern.components}:
        return None
    if pattern.order is not None or counts_only(pattern):
        return None
    if pattern.declared is not None or plan.conjunctive is not None or plan.unary is None:
        return None
    if plan.tables is not None or plan.listed or plan.head is not None:
        return None
    if settings.window not in (NO_WINDOW, CLOCK_WINDOW) or not _is_small(plan.unary, pattern):
        return None
    reach = None
    if within is not None:
        if within.unit is not Unit.TIME or within.attribute is not None or within.size < 0:
            return None
        reach = _round_up(within.size)
    streams, partition, into = pattern.streams, pattern.partition, pattern.into
    return BundleKind(streams, partition, reach, silences, into, pattern.strategy)


def _round_up(size: Fraction) -> Fraction:
    """Return the least power of four that is no smaller.

    >>> _round_up(Fraction(5)), _round_up(Fraction(0))
    (Fraction(16, 1), Fraction(1, 1))
    """
    power = Fraction(1)
    while power < size:
        power *= 4
    return power


def _is_small(unary: Unary, pattern: Pattern) -> bool:
    """Return whether an automaton has few states, and asks few atoms about columns of events."""
    nodes, atoms = [*cel.walk(pattern.formula)], unary.automaton.alphabet.atoms
    plain = (cel.Event, cel.As, cel.Sequence, cel.Choice, cel.Filter, cel.Iterate, cel.Optional)
    return (
        all(isinstance(node, plain) for node in nodes)
        and not pattern.inner_units
        and _count_events(pattern.formula) <= _MOST_EVENTS
        and len(atoms) <= MOST_ATOMS
        and not any(map(_is_computed, atoms))
    )


def _count_events(formula: cel.Formula) -> int:
    """Return how many events a formula has where each round of an iteration is written out."""
    rounds = 1
    if isinstance(formula, cel.Iterate):
        rounds = max(1, formula.low, formula.high or 1)
    parts = sum(_count_events(part) for part in cel.children(formula))
    return rounds * (parts + isinstance(formula, cel.Event))


def _is_computed(atom: Any) -> bool:
    """Return whether an atom looks at a value that is no attribute of the events."""
    if isinstance(atom, TypeIs):
        return False
    return any(a in COMPUTED or a.value is not None for a in pred.attributes_of(atom))


@dataclass(frozen=True, eq=False)
class Bundle:
    """Rules of different shapes, and what they have in common."""

    rules: tuple[Rule, ...]
    owners: tuple[int, ...]
    """The numbers of the rules in the keys of partitions: they stay when rules come and go."""
    whole: Query[Any]
    """A query with the streams, the key and the window of the bundle."""
    labels: tuple[frozenset[str], ...] = ()
    """Label sets that have numbers in the state of a session."""
    renewed: Mapping[int, Unary] = field(default_factory=dict)
    """Automata that a session does not share, by the places of their rules."""
    _machines: dict[str, BundleMachine] = field(default_factory=dict, repr=False)
    _right_for: list[Schema] = field(default_factory=list, repr=False)

    @cached_property
    def plans(self) -> tuple[Plan, ...]:
        return tuple(rule.query.plan for rule in self.rules)

    @cached_property
    def plan(self) -> Plan:
        """The plan of the session; its automaton is not used."""
        plan = self.whole.plan
        return replace(plan, settings=replace(plan.settings, partitioned=True))

    @cached_property
    def units(self) -> tuple[Unary, ...]:
        """The automata of the rules."""
        found = []
        for place, plan in enumerate(self.plans):
            assert plan.unary is not None
            found.append(self.renewed.get(place, plan.unary))
        return tuple(found)

    @cached_property
    def owner_numbers(self) -> Int64s:
        return np.array(self.owners, np.int64)

    def make_machine(self, type_column: str) -> BundleMachine:
        """Return the automata of all rules, which sessions share."""
        known = self._machines.get(type_column)
        return known or self._machines.setdefault(type_column, BundleMachine(self, type_column))

    def list_pairs(self) -> Iterator[tuple[str, int]]:
        """Yield the name and the owner of each rule."""
        return zip((rule.name for rule in self.rules), self.owners, strict=True)

    def keep(self, names: Collection[str]) -> Bundle:
        """Return the bundle of those rules that have these names."""
        return self._choose([i for i, rule in enumerate(self.rules) if rule.name in names])

    def add(self, rules: Sequence[Rule]) -> Bundle:
        """Return the bundle with more rules."""
        first = max(self.owners, default=-1) + 1
        owners = (*self.owners, *range(first, first + len(rules)))
        return Bundle((*self.rules, *rules), owners, self.whole, self.known_labels, self.renewed)

    def renew(self, places: Collection[int]) -> Bundle:
        """Return the bundle with new automata in some places, which no other session has."""
        renewed = {place: self.units[place].renew() for place in places}
        renewed = {**self.renewed, **renewed}
        return Bundle(self.rules, self.owners, self.whole, self.known_labels, renewed)

    def _choose(self, places: Sequence[int]) -> Bundle:
        if len(places) == len(self.rules):
            return self
        rules = tuple(self.rules[place] for place in places)
        owners = tuple(self.owners[place] for place in places)
        renewed = {i: self.renewed[at] for i, at in enumerate(places) if at in self.renewed}
        return Bundle(rules, owners, self.whole, self.known_labels, renewed)

    @property
    def known_labels(self) -> tuple[frozenset[str], ...]:
        """The label sets that have numbers, in that order."""
        made = [tuple(machine.tables.labels) for machine in self._machines.values()]
        return max([self.labels, *made], key=len)

    def fits(self, streams: Sequence[DescribedStream], scale: Scale) -> bool:
        """Return whether the rules can run together: events have times.

        A session that has read events with times reads no others.
        """
        return scale.unit_ns is not None

    def check_schema(self, schema: Schema) -> None:
        """Raise the mistakes of a rule for events of this schema."""
        if self._right_for != [schema]:
            for plan in self.plans:
                plan.check_schema(schema)
            self._right_for[:] = [schema]

    def read_windows(self, scale: Scale) -> Int64s | None:
        """Return the windows of the rules, in ticks; None: they have none."""
        windows = [plan.pattern.within for plan in self.plans]
        sizes = [scale.ticks(each.size) for each in windows if each is not None]
        return np.array(sizes, np.int64) if sizes else None

    def list_clauses(self) -> OwnedClauses:
        """Return what SUPPRESS BY and LIMIT say, by owner."""
        lengths, limits = [Fraction(0)] * len(self.places), np.full(len(self.places), MOST)
        for owner, plan in zip(self.owners, self.plans, strict=True):
            assert plan.pattern.suppress is not None
            lengths[owner] = plan.pattern.suppress.length
            limits[owner] = min(MOST if plan.limit is None else plan.limit, MOST)
        return OwnedClauses(lengths, limits)

    def count_events(self, batch: EventBatch) -> Int64s:
        """Return how many events of a batch each rule has."""
        return np.bincount(self.find_places(batch), minlength=len(self.rules))

    def find_places(self, batch: EventBatch) -> Int64s:
        """Return the place of the rule of each event."""
        assert batch.owners is not None
        return self.places[batch.owners]

    @cached_property
    def places(self) -> Int64s:
        """The place of each owner; -1: there is no such rule."""
        found = np.full(max(self.owners) + 1, -1, np.int64)
        found[self.owner_numbers] = np.arange(len(self.owners))
        return found

    def split(
        self, found: Matches, owners: Sequence[Int64s]
    ) -> Iterator[tuple[int, CompactMatches]]:
        """Yield the matches of each rule that has some; `owners` are those of each segment."""
        compact = found.match_set
        assert isinstance(compact, CompactMatches)
        shares: dict[int, list[Any]] = {}
        reported = compact.reported if isinstance(compact, SilencedMatches) else None
        if reported is not None:
            owners = [reported.find_owners(segment.roots["end"]) for segment in compact.segments]
        for segment, numbers in zip(compact.segments, owners, strict=True):
            whose = self.places[numbers]
            order = sort_places(whose, len(self.rules))
            cuts = np.flatnonzero(np.diff(whose[order], prepend=-2))
            for own in np.split(order, cuts[1:]):
                roots = segment.roots[own]
                shares.setdefault(int(whose[own[0]]), []).append(segment._replace(roots=roots))
        for place in sorted(shares):
            variables, segments = self.plans[place].variables, shares[place]
            if reported is None:
                yield place, self.make_matches(place, segments, compact.labels)
            else:
                yield place, SilencedMatches(variables, segments, compact.labels, reported)

    def find_nothing(self, place: int) -> CompactMatches:
        """Return what a rule without matches has found."""
        return self._nothing[place]

    @cached_property
    def _nothing(self) -> list[CompactMatches]:
        return [self.make_matches(place, (), ()) for place in range(len(self.rules))]

    def make_matches(
        self, place: int, segments: Sequence[Any], labels: Sequence[frozenset[str]]
    ) -> CompactMatches:
        """Return the matches of a rule."""
        plan = self.plans[place]
        return CompactMatches(plan.variables, segments, labels, plan.limit)


class BundleMachine:
    """The automata of a bundle: how events become symbols, and the tables of the kernel.

    Sessions share it, in any threads.
    """

    def __init__(self, bundle: Bundle, type_column: str) -> None:
        self.tables = BundleTables([unit.tables for unit in bundle.units], bundle.labels)
        self._alphabets = [unit.automaton.alphabet for unit in bundle.units]
        self._encoder = BundleEncoder([each.atoms for each in self._alphabets], type_column)
        self._symbols = np.full(len(self._encoder), -1, np.int32)
        self._growth = RLock()

    @property
    def codes(self) -> int:
        """How many codes there are."""
        return len(self._encoder)

    def encode(self, batch: EventBatch, places: Int64s, seen: Bools) -> Int32s:
        """Return a symbol per event, of the automata in these places; mark the codes in `seen`."""
        with self._growth:
            codes = self._encoder.encode(batch, places)
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
            place, vector = self._encoder.find_vector(code)
            new.setdefault(place, []).append((code, self._alphabets[place].symbol(vector)))
        self.tables.grow(new)
        for place, pairs in new.items():
            numbers = self.tables.number_symbols(place)
            for code, symbol in pairs:
                self._symbols[code] = numbers[symbol]

    def list_truths(self, place: int, seen: Bools) -> SeenTruths:
        """Return the truths of the atoms of an automaton, for the codes that are seen."""
        return self._encoder.list_truths(place, seen)

    def number_states(self, place: int, states: Sequence[Any]) -> list[int]:
        """Return the numbers of the states of an automaton, which is worked out for them."""
        with self._growth:
            numbers = self.tables.units[place].number_states(states)
            self.tables.grow([place])
            return numbers

    def label(self, names: frozenset[str]) -> int:
        """Return the number of a label set."""
        with self._growth:
            return self.tables.label(names)


def make_bundle(kind: BundleKind, rules: Sequence[Rule], owners: Sequence[int]) -> Bundle:
    """Return a bundle of rules of one kind."""
    whole = Query("SELECT START AS first WHERE * AS every").pattern
    if kind.into is None:
        whole = Query("SELECT * WHERE * AS every").pattern
    within = None if kind.reach is None else Window(Unit.TIME, kind.reach)
    suppress = Suppression(kind.silences, Fraction(1)) if kind.silences else None
    pattern = replace(
        whole,
        streams=kind.streams,
        partition=kind.partition,
        within=within,
        suppress=suppress,
        into=kind.into,
        strategy=kind.strategy,
    )
    return Bundle(tuple(rules), tuple(owners), Query(pattern))


def join_bundle(rules: Sequence[Rule], owners: Sequence[int]) -> Bundle:
    """Return the bundle of rules that were one before; StateError if they cannot be one."""
    kinds = {find_kind(rule) for rule in rules}
    kind = kinds.pop()
    sound = kind is not None and not kinds and len({*owners}) == len(owners)
    require(sound and len(rules) <= MOST_RULES, "other rules are a bundle")
    assert kind is not None
    return make_bundle(kind, rules, owners)


def find_bundles(
    rules: Sequence[Rule], before: Sequence[Bundle] = (), apart: Collection[str] = ()
) -> list[Bundle]:
    """Return the bundles of rules, of which some run `apart`.

    `before` are bundles that run, whose rules stay in them and may get others.
    """
    inside = {*apart, *(rule.name for bundle in before for rule in bundle.rules)}
    made = {rule.query.pattern.into for rule in rules}
    kinds: dict[BundleKind, list[Rule]] = {}
    routed = (rule for rule in rules if rule.name not in apart)
    readers = Counter(test for rule in routed for test in rule.equalities or ())
    for rule in rules:
        if rule.name not in inside and made.isdisjoint(rule.query.pattern.streams):
            kind = find_kind(rule)
            if kind is not None and not _shares_types(rule, readers):
                kinds.setdefault(kind, []).append(rule)
    found = []
    for bundle in before:
        new = kinds.get(find_kind(bundle.rules[0]) or BundleKind((), (), None), [])
        room = MOST_RULES - len(bundle.rules)
        found.append(bundle.add(new[:room]) if new[:room] else bundle)
        del new[:room]
    for kind, several in kinds.items():
        for first in range(0, len(several), MOST_RULES):
            some = several[first : first + MOST_RULES]
            if len(some) >= SMALLEST:
                found.append(make_bundle(kind, some, range(len(some))))
    return found


def _shares_types(rule: Rule, readers: Mapping[ConstantTest, int]) -> bool:
    """Return whether a rule finds its events by types alone, one of which many rules name."""
    tests = rule.equalities or frozenset()
    by_type = all(test.attribute is None for test in tests)
    return by_type and any(readers[test] > _MOST_SHARING for test in tests)


class RoutedRows(NamedTuple):
    """The events of the rules of a bundle, in their order: where they stand, and whose they are."""

    at: Int64s
    places: Int64s


def join_rows(
    batch: EventBatch, rows: Sequence[tuple[int, Sequence[Int64s]]], streams: Sequence[str]
) -> RoutedRows:
    """Return the events of rules in one order; each rule has a place, and rows of each part.

    >>> import pyarrow as pa
    >>> batch = EventBatch.of(pa.table({"type": ["A"] * 5}))
    >>> rows = [(0, [np.array([2, 4])]), (3, [np.array([1, 2])])]
    >>> at, places = join_rows(batch, rows, [])
    >>> at.tolist(), places.tolist()
    ([1, 2, 2, 4], [3, 0, 3, 0])
    """
    found, whose = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for part, (name, table) in enumerate(batch.parts):
        if streams and name not in streams:
            continue
        own = [each[part] for _, each in rows]
        places = np.repeat([place for place, _ in rows], [len(each) for each in own])
        at = np.concatenate([np.empty(0, np.int64), *own])
        if batch.index is not None:
            at = _find_events(batch, part, table.num_rows)[at]
        found.append(at[at >= 0])
        whose.append(places[at >= 0].astype(np.int64))
    every, places = np.concatenate(found), np.concatenate(whose)
    order = np.lexsort((places, every)) if len(found) > 2 else np.argsort(every, kind="stable")
    return RoutedRows(every[order], places[order])


def _find_events(batch: EventBatch, part: int, rows: int) -> Int64s:
    """Return where the rows of a part stand in a batch; -1: nowhere."""
    assert batch.index is not None
    own = np.arange(len(batch))
    if batch.which is not None:
        own = np.flatnonzero(batch.which == part)
    at = np.full(rows, -1, np.int64)
    at[batch.index[own]] = own
    return at


def take_rows(batch: EventBatch, rows: RoutedRows, bundle: Bundle) -> EventBatch:
    """Return the events of a bundle, each as often as there are rules that read it."""
    taken = take_events(batch, rows.at, bundle.whole.pattern.streams)
    return replace(taken, owners=bundle.owner_numbers[rows.places])
