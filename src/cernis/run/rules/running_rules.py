"""`RunningRules`: all rules at work, in the order in which they read, and the events of each.

Cost contract: that of `routing.Router` for each chunk. The events of routed rules are copied, those
of all rules that run alone in one table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from cernis.events.batch import EventBatch, Int64s, select_events
from cernis.events.order import join_table
from cernis.run.rules.bundles import Bundle, join_rows, take_events, take_rows
from cernis.run.rules.derived import count_steps, order_rules
from cernis.run.rules.routing import Router
from cernis.run.rules.running_rule import RunningRule


class RoutedEvents(NamedTuple):
    """The events of rules and bundles that read those alone that can move them."""

    events: dict[int, EventBatch]
    places: dict[int, Int64s]
    """Where these stand in the batch, of bundles and of rules that insert into a stream."""


class RunningRules:
    """The rules, families and bundles of a session; each has a place."""

    def __init__(
        self, running: Sequence[RunningRule], names: Sequence[str], type_column: str
    ) -> None:
        """`names` are those of all rules, in the order of the rule set."""
        self._running = list(running)
        self.patterns = [each.pattern for each in running]
        self.numbers = {name: number for number, name in enumerate(names)}
        """The place of each rule in the rule set."""
        self.made = {each.into for each in self.patterns if each.into is not None}
        """The streams that rules insert into."""
        self.order, _ = order_rules(self.patterns)
        """The places, such that each rule comes after those that it reads."""
        widths = (max(each.log.paths.shape[1], each.pending.width) for each in running)
        self.width = max([1 + 2 * count_steps(self.patterns, self.order), *widths])
        """The length of the paths of events (`derived`)."""
        for each in running:
            each.widen(self.width)
        self.members: dict[int, range] = {}
        """The numbers that the rules of bundles have in the index, by the place of the bundle."""
        self._index(type_column)

    def _index(self, type_column: str) -> None:
        """Make the index of the rules that need not read every event."""
        wanted = {
            place: equalities
            for place, each in enumerate(self._running)
            if not self.reads_derived(place) and (equalities := each.equalities) is not None
        }
        first = len(self._running)
        for place, each in enumerate(self._running):
            if isinstance(each.family, Bundle):
                self.members[place] = range(first, first + len(each.rules))
                own = zip(self.members[place], each.rules, strict=True)
                wanted |= {number: rule.equalities or frozenset() for number, rule in own}
                first += len(each.rules)
        self.router = Router(wanted, type_column)

    def __len__(self) -> int:
        return len(self._running)

    def __iter__(self) -> Iterator[RunningRule]:
        return iter(self._running)

    def __getitem__(self, place: int) -> RunningRule:
        return self._running[place]

    def reads_derived(self, place: int) -> bool:
        """Return whether a rule reads a stream that others insert into."""
        return not self.made.isdisjoint(self.patterns[place].streams)

    def route(self, batch: EventBatch) -> RoutedEvents:
        """Return the events that can move each rule."""
        rows: dict[int, list[Int64s]] = {}
        empty = np.empty(0, np.int64)
        for part, (_, table) in enumerate(batch.parts if self.router.rules else ()):
            for number, at in self.router.route(table).items():
                rows.setdefault(number, [empty] * len(batch.parts))[part] = at
        routed = RoutedEvents({}, {})
        for place, members in self.members.items():
            bundle = self._running[place].family
            assert isinstance(bundle, Bundle)
            own = [(i, rows[number]) for i, number in enumerate(members) if number in rows]
            found = join_rows(batch, own, bundle.whole.pattern.streams)
            if len(found.at):
                routed.events[place] = take_rows(batch, found, bundle)
                routed.places[place] = found.at
        plain = {}
        for place in [place for place in rows if place < len(self)]:
            pattern = self.patterns[place]
            if pattern.into is None:
                plain[place] = rows[place]
            elif len(at := join_rows(batch, [(0, rows[place])], pattern.streams).at):
                routed.events[place] = take_events(batch, at, pattern.streams)
                routed.places[place] = at
        if len(batch.parts) == 1 and batch.index is None:
            routed.events.update(_copy_events(batch, {place: at for place, (at,) in plain.items()}))
        else:
            routed.events.update({place: _select(batch, at) for place, at in plain.items()})
        return routed


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
