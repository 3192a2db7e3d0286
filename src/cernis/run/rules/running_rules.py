"""`RunningRules`: all rules at work, in the order in which they read, and the events of each.

Cost contract: that of `routing.Router` for each chunk. The events of routed rules are copied while
they read them, once for all rules that read the same ones; stores keep places in the chunk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from cernis.events.batch import EventBatch, Int64s, choose_stored, take_events
from cernis.events.order import join_table
from cernis.run.rules.bundles import Bundle, join_rows, take_rows
from cernis.run.rules.derived import count_steps, order_rules
from cernis.run.rules.routing import Router
from cernis.run.rules.running_rule import RunningRule


class RoutedEvents(NamedTuple):
    """The events of rules and bundles that read those alone that can move them."""

    events: dict[int, EventBatch]
    places: dict[int, Int64s]
    """Where these stand in the batch."""


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
        alike: dict[tuple[Any, ...], list[int]] = {}
        for place in [place for place in rows if place < len(self)]:
            key = self.patterns[place].streams, *map(id, rows[place])
            alike.setdefault(key, []).append(place)
        groups = [(key[0], _find_places(batch, rows[own[0]], key[0])) for key, own in alike.items()]
        for places, (_, at), events in zip(
            alike.values(), groups, _copy_events(batch, groups), strict=True
        ):
            if len(at):
                routed.events.update(dict.fromkeys(places, events))
                routed.places.update(dict.fromkeys(places, at))
        return routed


def _find_places(batch: EventBatch, rows: Sequence[Int64s], streams: Sequence[str]) -> Int64s:
    """Return where the rows of each part stand in a batch, of some streams."""
    is_plain = len(batch.parts) == 1 and batch.index is None
    if is_plain and (not streams or batch.parts[0][0] in streams):
        return rows[0]
    return join_rows(batch, [(0, rows)], streams).at


def _copy_events(
    batch: EventBatch, groups: Sequence[tuple[Sequence[str], Int64s]]
) -> Iterator[EventBatch]:
    """Yield the events of streams at some places; those of one table share one copy."""
    if len(batch.parts) > 1 or batch.index is not None or not groups:
        yield from (take_events(batch, at, streams) for streams, at in groups)
        return
    (name, table), order = batch.parts[0], np.concatenate([at for _, at in groups])
    copied, first = join_table(table).take(pa.array(order)), 0
    for _, at in groups:
        yield replace(
            batch,
            rows=batch.rows[at],
            time=None if batch.time is None else batch.time[at],
            parts=((name, copied.slice(first, len(at))),),
            chosen=choose_stored(batch, at),
        )
        first += len(at)
