"""`Router`: which events can move which rules, by an index over types, constants and texts.

A plan says which simple tests hold for the events that can move it (`plan.equalities`): an
attribute equals a constant, a text stands in it, or its number lies in a range. All constants of a
kind that rules compare an attribute with are one index (`constants`). So an event costs one look-up
for each such attribute, however many rules there are. A rule gets the events for which one of its
tests holds, and its own engine decides the rest.

A rule with `AND` offers several sets of tests. The router takes the one that holds for the fewest
of some events that it samples, and looks again when it has read sixteen times as many. The other
sets are asked of the events that this one finds (`narrow`).

Cost contract: per event, one look-up for each indexed attribute; per event and rule that it can
move, an index of four bytes. Nothing per event and rule that it cannot move. A sample costs a
search of two thousand events for all tests of all rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from cernis.events.batch import EventBatch, Int64s
from cernis.pattern.simple_tests import Constant, ConstantTest, Form, NeededTests
from cernis.plan.equalities import choose_tests, guess_weight, list_tests
from cernis.run.rules.routing.constants import (
    ConstantIndex,
    IndexKind,
    TestTable,
    find_column,
    is_indexed,
)
from cernis.run.rules.routing.layers import are_few
from cernis.run.rules.routing.narrow import ProgramTable, RuleConditions

_SAMPLED = 2048
"""So many events of a batch are sampled."""
LEAST_SAMPLED = 256
"""Fewer events are no sample."""
_RARER = 16
"""A router samples again when it has read so many times as many events."""
_STALE = 4
"""Programs are written anew when so many times as many are known as there are rules."""
_UNSEEN = {Form.EQUAL: 0.5, Form.FOLDED: 0.5, Form.PART: 0.25, Form.RANGE: 0.75}
"""What is added to the number of sampled events that a test holds for."""


class RoutedEvents(NamedTuple):
    """The events of a batch that can move a rule, or rules that share an engine."""

    at: Int64s
    """Where they stand in the batch, ascending: once for each rule that reads an event."""
    owners: Int64s | None
    """The number of that rule among those that share the engine; None: there is one."""


class RoutedRules(NamedTuple):
    """What a router has to know of a rule, or of rules that share an engine."""

    streams: tuple[str, ...]
    """Those that they read; empty: all."""
    wanted: Mapping[int | None, NeededTests]
    """The tests of each rule, by its number; a rule that runs alone has none."""

    @property
    def same(self) -> Any:
        """What rules that run alone and get the same events have in common."""
        alone = self.wanted.get(None)
        return id(self) if alone is None else (self.streams, alone)


class _ChosenTests(NamedTuple):
    """The tests that find the events of a rule."""

    needed: NeededTests
    """What they were chosen from."""
    by_kind: Mapping[IndexKind, Sequence[Constant]]

    @staticmethod
    def of(needed: NeededTests, weigh: Callable[[ConstantTest], float]) -> _ChosenTests:
        by_kind: dict[IndexKind, list[Constant]] = {}
        for test in choose_tests(needed, weigh):
            by_kind.setdefault(IndexKind.of(test), []).append(test.value)
        return _ChosenTests(needed, by_kind)


class _Readers(NamedTuple):
    """Where the rules of an index are now: it outlives rules, and their numbers change."""

    targets: Int64s
    """The target of each reader; -1: it has left."""
    owners: Int64s

    @staticmethod
    def of(pairs: Sequence[tuple[int, int]]) -> _Readers:
        return _Readers(*np.array(pairs, np.int64).reshape(-1, 2).T)


class _Constants(NamedTuple):
    """The constants of one kind that rules compare an attribute with, and the rules of each."""

    kind: IndexKind
    constants: ConstantIndex
    counts: Int64s
    """How many readers compare each constant."""
    firsts: Int64s
    """Where the readers of each constant begin in the array below."""
    readers: Int64s

    @staticmethod
    def of(kind: IndexKind, readers: Mapping[Constant, Sequence[int]]) -> _Constants:
        """`readers` are the numbers of those that compare each constant."""
        index = ConstantIndex(kind.form, [*readers])
        counts = np.array([*map(len, readers.values())], np.int64)
        every = np.array([*chain.from_iterable(readers.values())], np.int64)
        return _Constants(kind, index, counts, np.cumsum(counts) - counts, every)

    def find(self, column: pa.ChunkedArray, now: _Readers) -> Iterator[tuple[int, Int64s, Int64s]]:
        """Yield each target that reads some rows, these rows, and their owners."""
        rows, numbers = self.constants.find(column)
        if not len(rows):
            return
        counts, at = self.counts[numbers], self.firsts[numbers]
        if counts.max() > 1:
            before = np.cumsum(counts) - counts
            at = np.repeat(at - before, counts) + np.arange(counts.sum())
            rows = np.repeat(rows, counts)
        readers = self.readers[at]
        targets = now.targets[readers]
        if targets.min() < 0:
            there = targets >= 0
            rows, readers, targets = rows[there], readers[there], targets[there]
            if not len(rows):
                return
        order = sort_numbers(targets, int(targets.max()) + 1)
        cuts = np.flatnonzero(np.diff(targets[order])) + 1
        for own in np.split(order, cuts):
            yield int(targets[own[0]]), rows[own], now.owners[readers[own]]

    def list_readers(self, now: _Readers) -> dict[int, Int64s]:
        """Return the owners that compare any constant, by target."""
        own = self.readers[now.targets[self.readers] >= 0]
        if not len(own):
            return {}
        pairs = np.unique(np.stack([now.targets[own], now.owners[own]], axis=1), axis=0)
        targets, firsts = np.unique(pairs[:, 0], return_index=True)
        return dict(zip(targets.tolist(), np.split(pairs[:, 1], firsts[1:]), strict=True))


class _Layers(NamedTuple):
    """Indexes over the tests of readers: large ones, and small ones of readers that came later."""

    settled: Sequence[_ChosenTests]
    """The tests of each reader, by its number; those who have left among them."""
    recent: Sequence[_ChosenTests]
    """The tests of the readers with the next numbers."""
    large: Sequence[_Constants]
    small: Sequence[_Constants]

    @staticmethod
    def of(chosen: Sequence[_ChosenTests]) -> _Layers:
        return _Layers(chosen, (), _index_tests(chosen, 0), ())

    @property
    def indexes(self) -> tuple[_Constants, ...]:
        return (*self.large, *self.small)

    def change(
        self, chosen: Mapping[tuple[int, int], _ChosenTests]
    ) -> tuple[_Layers, _Readers] | None:
        """Return the indexes over other tests, and where their readers are.

        None: so many have changed that all are to be indexed anew.
        """
        free: dict[int, list[int]] = {}
        for number, choice in enumerate(self.settled):
            free.setdefault(id(choice), []).append(number)
        pairs, recent = [_NOWHERE] * len(self.settled), dict[tuple[int, int], _ChosenTests]()
        for pair, choice in chosen.items():
            if known := free.get(id(choice)):
                pairs[known.pop()] = pair
            else:
                recent[pair] = choice
        left = sum(map(len, free.values()))
        if not are_few(len(recent) + left, len(self.settled)):
            return None
        small = _index_tests([*recent.values()], len(self.settled))
        layers = self._replace(recent=[*recent.values()], small=small)
        return layers, _Readers.of([*pairs, *recent])


_NOWHERE = (-1, -1)


def _index_tests(chosen: Sequence[_ChosenTests], first: int) -> list[_Constants]:
    """Return indexes over the tests of readers, which are numbered from the first on."""
    grouped: dict[IndexKind, dict[Constant, list[int]]] = {}
    for number, choice in enumerate(chosen, first):
        for kind, values in choice.by_kind.items():
            constants = grouped.setdefault(kind, {})
            for value in values:
                constants.setdefault(value, []).append(number)
    return [_Constants.of(kind, each) for kind, each in grouped.items()]


class _SampledTests:
    """For how many of some events each test holds."""

    def __init__(self, tests: TestTable, type_column: str) -> None:
        self._type_column = type_column
        self._tests = tests
        self._held: dict[ConstantTest, int] = {}
        self.rows = 0
        """How many events were sampled."""

    def take_over(self, before: _SampledTests) -> None:
        """Know what another sample knows; tests that it has not looked for count as rare."""
        self._held, self.rows = dict(before._held), before.rows

    def add(self, batch: EventBatch) -> None:
        """Sample the events of a batch, evenly."""
        for _, table in batch.parts:
            step = max(1, -(-table.num_rows // _SAMPLED))
            rows = np.arange(0, table.num_rows, step)
            self.rows += len(rows)
            for kind, index, _ in self._tests.indexes:
                column = find_column(table, kind, self._type_column)
                if column is None:
                    continue
                if not is_indexed(column, kind):
                    held = np.full(len(index.constants), len(rows))
                else:
                    held = index.count(column.take(pa.array(rows)))
                for number in np.flatnonzero(held).tolist():
                    test = ConstantTest(kind.attribute, index.constants[number], kind.form)
                    self._held[test] = self._held.get(test, 0) + int(held[number])

    def weigh(self, test: ConstantTest) -> float:
        """Return the number of sampled events for which a test holds, and a little more."""
        return self._held.get(test, 0) + _UNSEEN[test.form] + 1e-9 * guess_weight(test)


class Router:
    """Finds the events that can move each rule.

    >>> sell, buy = ConstantTest(None, "SELL"), ConstantTest(None, "BUY")
    >>> shared = RoutedRules((), {0: frozenset([sell]), 4: frozenset([sell, buy])})
    >>> router = Router({7: shared, 8: RoutedRules((), {None: frozenset([buy])})}, "type")
    >>> found = router.route(EventBatch.of(pa.table({"type": ["BUY", "OTHER", "SELL"]})))
    >>> {target: (at.tolist(), owners) for target, (at, owners) in found.items()}
    {7: ([0, 2, 2], array([4, 0, 4])), 8: ([0], None)}
    """

    _programs: ProgramTable | None = None

    def __init__(
        self, rules: Mapping[int, RoutedRules], type_column: str, before: Router | None = None
    ) -> None:
        """`rules` are those of each target: one that runs alone, or several.

        A router that was there `before` knows how often tests hold, and has indexes.
        """
        self.type_column = type_column
        self._rules = dict(rules)
        leaders: dict[Any, int] = {}
        self._leader = {
            target: leaders.setdefault(each.same, target) for target, each in rules.items()
        }
        """The first target that has the same events as each."""
        self._targets = [*leaders.values()]
        own = {target: rules[target].wanted for target in self._targets}
        every = [needed for wanted in own.values() for needed in wanted.values()]
        self._sample: _SampledTests | None = None
        self._conditions: RuleConditions | None = None
        self._choices: dict[int, _ChosenTests] = {}
        """What was chosen, by the identity of what it was chosen from, since the last sample."""
        self._read = self._sample_at = 0
        if not all(isinstance(needed, frozenset) for needed in every):
            known = None if before is None else before._programs
            is_fit = known is not None and len(known) < _STALE * len(every)
            self._programs = known if is_fit and known is not None else ProgramTable()
            self._conditions = RuleConditions(own, self._programs, type_column)
            for needed in every:
                if isinstance(needed, frozenset):  # it may share tests with others
                    for test in needed:
                        self._programs.tests.number(test)
            self._sample = _SampledTests(self._programs.tests, type_column)
            if before is not None and before._sample is not None:
                self._sample.take_over(before._sample)
                self._read, self._sample_at = before._read, before._sample_at
        self._waiting: list[EventBatch] = []
        self._chosen: dict[tuple[int, int], _ChosenTests] = {}
        self._built: tuple[_Layers, _Readers] | None = None
        self._before: _Layers | None = None
        """Indexes over the tests of rules most of which are there still."""
        if before is not None:
            self._choices = dict(before._choices)
            self._before = before._before if before._built is None else before._built[0]

    def _choose(self) -> None:
        """Choose the tests of each rule by what is known of the events, and index them."""
        sample = self._sample
        weigh = guess_weight if sample is None or not sample.rows else sample.weigh
        chosen: dict[tuple[int, int], _ChosenTests] = {}
        for target in self._targets:
            for owner, needed in self._rules[target].wanted.items():
                known = self._choices.get(id(needed))
                if known is None:
                    known = self._choices[id(needed)] = _ChosenTests.of(needed, weigh)
                chosen[target, owner or 0] = known
        if chosen != self._chosen:
            self._chosen, self._built = chosen, None
        self._choices = {id(each.needed): each for each in self._chosen.values()}

    @property
    def _layers(self) -> tuple[_Layers, _Readers]:
        """The indexes over the tests that are chosen; they are built when they are needed."""
        if self._built is None:
            self._built = self._build()
        return self._built

    def _build(self) -> tuple[_Layers, _Readers]:
        if not self._chosen:
            self._choose()
        known = None if self._before is None else self._before.change(self._chosen)
        self._before = None
        if known is not None:
            return known
        return _Layers.of([*self._chosen.values()]), _Readers.of([*self._chosen])

    def _sample_events(self, batch: EventBatch) -> None:
        """Look at some events, if it is time to; fewer than some hundred tell nothing."""
        before, self._read = self._read, self._read + len(batch)
        if self._sample is None or not len(batch) or before < self._sample_at:
            return
        self._waiting.append(batch)
        if sum(map(len, self._waiting)) >= LEAST_SAMPLED:
            for each in self._waiting:
                self._sample.add(each)
            self._waiting, self._sample_at = [], _RARER * self._read
            self._choices = {}
            self._choose()

    def __contains__(self, target: int) -> bool:
        """Return whether a target gets those events alone that can move it."""
        return target in self._rules

    def is_narrowed(self, target: int, owner: int | None) -> bool:
        """Return whether a rule does not get all events of the types that it names."""
        if target not in self._rules:
            return False
        needed = self._rules[target].wanted[owner]
        return any(each.attribute is not None for each in list_tests(needed))

    @property
    def constants(self) -> dict[IndexKind, list[Constant]]:
        """The constants of each index: every event that can move a rule has one of them."""
        found: dict[IndexKind, list[Constant]] = {}
        for index in self._layers[0].indexes:
            found.setdefault(index.kind, []).extend(index.constants.constants)
        return found

    @property
    def attributes(self) -> dict[str, int]:
        """How many constants are indexed, by attribute."""
        found: dict[str, int] = {}
        for kind, constants in self.constants.items():
            name = kind.attribute or self.type_column
            found[name] = found.get(name, 0) + len(constants)
        return found

    def route(self, batch: EventBatch) -> dict[int, RoutedEvents]:
        """Return the events that can move each target; a target without events is left out.

        Rules that run alone and are moved by the same constants have the same array.
        """
        self._sample_events(batch)
        found: dict[int, list[RoutedEvents]] = {}
        for part, (name, _) in enumerate(batch.parts if self._layers[0].indexes else ()):
            for target, at, owners in self._find_events(batch, part):
                streams, wanted = self._rules[target]
                if not streams or name in streams:
                    own = RoutedEvents(at, None if None in wanted else owners)
                    found.setdefault(target, []).append(own)
        merged: dict[tuple[int, ...], RoutedEvents] = {}
        routed: dict[int, RoutedEvents] = {}
        for target, several in found.items():
            is_alone = None in self._rules[target].wanted
            key = (-1 if is_alone else target, *(id(each.at) for each in several))
            if key not in merged:
                merged[key] = _merge(several)
            if len(merged[key].at):
                routed[target] = merged[key]
        if self._conditions is not None:
            for target, passed in self._conditions.narrow(batch, routed).items():
                own = routed.pop(target)
                if passed.any():
                    whose = None if own.owners is None else own.owners[passed]
                    routed[target] = RoutedEvents(own.at[passed], whose)
        pairs = self._leader.items()
        return {target: routed[leader] for target, leader in pairs if leader in routed}

    def _find_events(self, batch: EventBatch, part: int) -> Iterator[tuple[int, Int64s, Int64s]]:
        """Yield targets with the events of a part that can move them, and the owners of these."""
        table, events = batch.parts[part][1], None
        layers, now = self._layers
        for index in layers.indexes:
            column = find_column(table, index.kind, self.type_column)
            if column is None:
                continue
            if batch.index is not None and events is None:
                events = _order_rows(batch, part, table.num_rows)
            if not is_indexed(column, index.kind):
                every = np.arange(len(column)) if events is None else events[events >= 0]
                for target, owners in index.list_readers(now).items():
                    at = every if len(owners) == 1 else np.repeat(every, len(owners))
                    yield target, at, np.tile(owners, len(every))
                continue
            for target, rows, owners in index.find(column, now):
                if events is None:
                    yield target, rows, owners
                else:
                    at = events[rows]
                    yield target, at[at >= 0], owners[at >= 0]


def _order_rows(batch: EventBatch, part: int, rows: int) -> Int64s:
    """Return where the rows of a part stand in a batch; -1: nowhere."""
    assert batch.index is not None
    own = np.arange(len(batch)) if batch.which is None else np.flatnonzero(batch.which == part)
    at = np.full(rows, -1, np.int64)
    at[batch.index[own]] = own
    return at


def _merge(several: Sequence[RoutedEvents]) -> RoutedEvents:
    """Return events in order, each once for each rule."""
    at = np.concatenate([each.at for each in several]) if len(several) > 1 else several[0].at
    owned = [each.owners for each in several if each.owners is not None]
    if not owned:
        return RoutedEvents(_sort_distinct(at), None)
    owners = np.concatenate(owned) if len(owned) > 1 else owned[0]
    bits = int(owners.max(initial=0)).bit_length()
    keys = at << bits | owners
    distinct = _sort_distinct(keys)
    if distinct is keys:
        return RoutedEvents(at, owners)
    return RoutedEvents(distinct >> bits, distinct & ((1 << bits) - 1))


def _sort_distinct(numbers: Int64s) -> Int64s:
    """Return numbers ascending, each once; they are some runs that ascend, which are merged."""
    if (numbers[1:] > numbers[:-1]).all():
        return numbers
    ordered = np.sort(numbers, kind="stable")
    return ordered[np.flatnonzero(np.diff(ordered, prepend=ordered[0] - 1))]


def sort_numbers(numbers: Int64s, below: int) -> Int64s:
    """Return the indices of numbers below a bound, by number and then by index."""
    # few bits are sorted by digits
    small = numbers.astype(np.int16) if below < 1 << 15 else numbers
    return np.argsort(small, kind="stable")
