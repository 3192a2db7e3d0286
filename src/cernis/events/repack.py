"""Copy what stores still choose of the events that they share, and drop the rest.

Stores of several queries share the events of a batch, and each has indices into it
(`store.StoredBatch`). A query whose window is long keeps few events of many batches: then these
would stay whole. Small batches, of which each store has one of its own, are joined.

Cost contract: one pass over the indices of all stores; a copy of an event when half of the events
around it are gone, or when its batch is small. So an event is copied a few times, whatever the
number of stores.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from cernis.events.batch import Bools, EventBatch, Int32s, StoredEvents
from cernis.events.order import join_table
from cernis.events.store import EventStore, StoredBatch, copy_stored

_SMALL = 1 << 12
"""Batches of fewer events are joined."""


class SharedSize(NamedTuple):
    """How many events stores keep together, and their memory; each event counts once."""

    events: int
    bytes: int


def measure_shared(stores: Iterable[EventStore]) -> SharedSize:
    """Return how many events stores keep together; the indices of each store are memory, too."""
    events, tables, indices = dict[StoredEvents, int](), dict[int, int](), 0
    for store in stores:
        for batch in store.batches:
            events[batch.events] = batch.events.size
            indices += 0 if batch.at is None else batch.at.nbytes
    for each in events:
        tables.update((id(table), table.nbytes) for _, table in each.parts)
    return SharedSize(sum(events.values()), indices + sum(tables.values()))


class _Moved(NamedTuple):
    """Where stored events have gone."""

    events: StoredEvents
    numbers: Int32s
    """The new index of each event that is still chosen."""


def repack(stores: Sequence[EventStore]) -> None:
    """Drop events that no store chooses, where these are most of the events that they share."""
    chosen = _find_chosen(stores)
    moved: dict[StoredEvents, _Moved] = {}
    for group in _group_small(chosen):
        kept = sum(int(chosen[each].sum()) for each in group)
        if len(group) > 1 or 2 * kept <= group[0].size:
            moved.update(_copy_chosen(group, chosen))
    for store in stores if moved else ():
        store.use(list(_move_batches(store.batches, moved)))


def _find_chosen(stores: Iterable[EventStore]) -> dict[StoredEvents, Bools]:
    """Return which events are chosen, of those whose tables belong to them alone; by their age."""
    chosen: dict[StoredEvents, Bools] = {}
    for store in stores:
        for batch in store.batches:
            marks = np.zeros(batch.events.size, np.bool_)
            marks = chosen.setdefault(batch.events, marks)
            marks[slice(None) if batch.at is None else batch.at] = True
    owners: dict[int, int] = {}
    for events in chosen:
        for _, table in events.parts:
            owners[id(table)] = owners.get(id(table), 0) + 1
    return {
        events: chosen[events]
        for events in sorted(chosen, key=lambda each: each.number)
        if all(owners[id(table)] == 1 for _, table in events.parts)
    }


def _group_small(chosen: dict[StoredEvents, Bools]) -> Iterator[list[StoredEvents]]:
    """Yield each batch of events; small ones that follow each other together."""

    def kind(events: StoredEvents) -> object:
        is_small = len(events.parts) == 1 and int(chosen[events].sum()) < _SMALL
        name, table = events.parts[0]
        return (name, table.schema) if is_small else events

    yield from (list(group) for _, group in groupby(chosen, kind))


def _copy_chosen(
    group: Sequence[StoredEvents], chosen: dict[StoredEvents, Bools]
) -> Iterator[tuple[StoredEvents, _Moved]]:
    """Yield where each of these goes: the chosen events of all are copied into one batch."""
    copies = [copy_stored(events, np.flatnonzero(chosen[events])) for events in group]
    whole = copies[0]
    if len(copies) > 1:
        table = join_table(pa.concat_tables([copy.parts[0][1] for copy in copies]))
        rows = np.concatenate([copy.rows for copy in copies])
        whole = EventBatch(0, rows, None, ((copies[0].parts[0][0], table),))
    events, first = replace(StoredEvents.of(whole), number=group[0].number), 0
    for each, copy in zip(group, copies, strict=True):
        yield each, _Moved(events, (first - 1 + np.cumsum(chosen[each])).astype(np.int32))
        first += len(copy)


def _move_batches(
    batches: Iterable[StoredBatch], moved: dict[StoredEvents, _Moved]
) -> Iterator[StoredBatch]:
    """Yield the batches of a store with the new indices of their events."""
    for events, group in groupby(
        batches, lambda each: moved[each.events].events if each.events in moved else each.events
    ):
        for is_thinned, part in groupby(group, lambda each: each.positions is not None):
            own = list(part)
            if own[0].events is events:
                yield from own
                continue
            indices = [_move(each, moved[each.events].numbers) for each in own]
            if is_thinned:
                for each, at in zip(own, indices, strict=True):
                    yield each._replace(events=events, at=at)
            else:
                at = np.concatenate(indices)
                yield StoredBatch(own[0].base, len(at), events, at)


def _move(batch: StoredBatch, numbers: Int32s) -> Int32s:
    return numbers if batch.at is None else numbers[batch.at]
