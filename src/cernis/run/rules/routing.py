"""`Router`: which events can move which rules, by an index over types and constants.

A plan says which equalities hold for the events that can move it (`plan.equalities`). All constants
that rules compare an attribute with are one hash table, so an event costs one look-up for each such
attribute, however many rules there are. A rule gets the events whose equality holds, and its own
engine decides the rest.

Cost contract: per event, one look-up for each indexed attribute; per event and rule that it can
move, a place of four bytes. Nothing per event and rule that it cannot move.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from cernis.encoding.lookup import Lookup
from cernis.events.attributes import attribute
from cernis.events.batch import EventBatch, Int64s
from cernis.events.source import kind_of
from cernis.plan.equalities import Constant, ConstantTest
from cernis.schema import Kind

_KINDS: dict[Kind, tuple[type[Constant], ...]] = {
    Kind.INT: (int, float),
    Kind.FLOAT: (int, float),
    Kind.STRING: (str,),
    Kind.BOOL: (bool,),
}
"""The constants that values of a kind can equal."""


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
    wanted: Mapping[int | None, frozenset[ConstantTest]]
    """The equalities of each rule, by its number; a rule that runs alone has none."""

    @property
    def same(self) -> Any:
        """What rules that run alone and get the same events have in common."""
        alone = self.wanted.get(None)
        return id(self) if alone is None else (self.streams, alone)


class _Constants(NamedTuple):
    """The constants of one type that rules compare an attribute with, and the rules of each."""

    attribute: str | None
    type: type[Constant]
    lookup: Lookup
    counts: Int64s
    """How many rules compare each constant; the last one is no constant."""
    firsts: Int64s
    """Where the rules of each constant begin in the arrays below."""
    targets: Int64s
    owners: Int64s

    @staticmethod
    def of(
        attribute: str | None, readers: Mapping[Constant, Sequence[tuple[int, int]]]
    ) -> _Constants:
        """`readers` are the targets and owners of the rules that compare each constant."""
        constants = [*readers]
        lookup = Lookup([pa.chunked_array([pa.array(constants)])])
        counts = np.array([*map(len, readers.values()), 0], np.int64)
        every = np.array([pair for each in readers.values() for pair in each], np.int64)
        firsts = np.cumsum(counts) - counts
        return _Constants(attribute, type(constants[0]), lookup, counts, firsts, *every.T)

    def find(self, column: pa.ChunkedArray) -> Iterator[tuple[int, Int64s, Int64s]]:
        """Yield each target that reads some rows, these rows, and their owners."""
        numbers = self.lookup.find([column])
        counts = self.counts[numbers]
        if len(rows := np.flatnonzero(counts)) == 0:
            return
        numbers, counts = numbers[rows], counts[rows]
        readers = self.firsts[numbers]
        if counts.max() > 1:
            before = np.cumsum(counts) - counts
            readers = np.repeat(readers - before, counts) + np.arange(counts.sum())
            rows = np.repeat(rows, counts)
        targets = self.targets[readers]
        order = sort_numbers(targets, int(self.targets.max()) + 1)
        cuts = np.flatnonzero(np.diff(targets[order])) + 1
        for own in np.split(order, cuts):
            yield int(targets[own[0]]), rows[own], self.owners[readers[own]]

    def list_readers(self) -> dict[int, Int64s]:
        """Return the owners that compare any constant, by target."""
        pairs = np.unique(np.stack([self.targets, self.owners], axis=1), axis=0)
        targets, firsts = np.unique(pairs[:, 0], return_index=True)
        return dict(zip(targets.tolist(), np.split(pairs[:, 1], firsts[1:]), strict=True))


class Router:
    """Finds the events that can move each rule.

    >>> sell, buy = ConstantTest(None, "SELL"), ConstantTest(None, "BUY")
    >>> shared = RoutedRules((), {0: frozenset([sell]), 4: frozenset([sell, buy])})
    >>> router = Router({7: shared, 8: RoutedRules((), {None: frozenset([buy])})}, "type")
    >>> found = router.route(EventBatch.of(pa.table({"type": ["BUY", "OTHER", "SELL"]})))
    >>> {target: (at.tolist(), owners) for target, (at, owners) in found.items()}
    {7: ([0, 2, 2], array([4, 0, 4])), 8: ([0], None)}
    """

    def __init__(self, rules: Mapping[int, RoutedRules], type_column: str) -> None:
        """`rules` are those of each target: one that runs alone, or several."""
        self.type_column = type_column
        self._rules = dict(rules)
        leaders: dict[Any, int] = {}
        self._leader = {
            target: leaders.setdefault(each.same, target) for target, each in rules.items()
        }
        """The first target that has the same events as each."""
        grouped: dict[tuple[str | None, type[Constant]], dict[Constant, list[tuple[int, int]]]] = {}
        for target in leaders.values():
            for owner, equalities in rules[target].wanted.items():
                for each in equalities:
                    constants = grouped.setdefault((each.attribute, type(each.value)), {})
                    constants.setdefault(each.value, []).append((target, owner or 0))
        self._indexes = [_Constants.of(name, each) for (name, _), each in grouped.items()]

    def __contains__(self, target: int) -> bool:
        """Return whether a target gets those events alone that can move it."""
        return target in self._rules

    def is_narrowed(self, target: int, owner: int | None) -> bool:
        """Return whether a rule does not get all events of the types that it names."""
        own = self._rules[target].wanted[owner] if target in self._rules else ()
        return any(each.attribute is not None for each in own)

    @property
    def attributes(self) -> dict[str, int]:
        """How many constants are indexed, by attribute."""
        found: dict[str, int] = {}
        for index in self._indexes:
            name = self.type_column if index.attribute is None else index.attribute
            found[name] = found.get(name, 0) + len(index.counts) - 1
        return found

    def route(self, batch: EventBatch) -> dict[int, RoutedEvents]:
        """Return the events that can move each target; a target without events is left out.

        Rules that run alone and are moved by the same constants have the same array.
        """
        found: dict[int, list[RoutedEvents]] = {}
        for part, (name, _) in enumerate(batch.parts if self._indexes else ()):
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
        pairs = self._leader.items()
        return {target: routed[leader] for target, leader in pairs if leader in routed}

    def _find_events(self, batch: EventBatch, part: int) -> Iterator[tuple[int, Int64s, Int64s]]:
        """Yield targets with the events of a part that can move them, and the owners of these."""
        table, events = batch.parts[part][1], None
        for index in self._indexes:
            name = self.type_column if index.attribute is None else index.attribute
            column = attribute(table, tuple(name.split(".")))
            if column is None:
                continue
            if batch.index is not None and events is None:
                events = _order_rows(batch, part, table.num_rows)
            types = _KINDS.get(kind_of(column.type))
            other = types is None and not pa.types.is_null(column.type)
            # 0.1 is the decimal 0.1, and the float beside it
            other = other or (pa.types.is_decimal(column.type) and index.type is float)
            if other or (index.attribute is None and types != (str,)):
                # times, which text may denote; other types
                every = np.arange(len(column)) if events is None else events[events >= 0]
                for target, owners in index.list_readers().items():
                    at = every if len(owners) == 1 else np.repeat(every, len(owners))
                    yield target, at, np.tile(owners, len(every))
            elif types is not None and index.type in types:
                for target, rows, owners in index.find(column):
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
