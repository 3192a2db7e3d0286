"""`EventBatch`: a run of events in their final order, and how to reach their attributes.

A batch holds the tables of the streams it came from as they are (slices of the input,
no copies) and, where streams are interleaved, which part and which row of it each
event is. Nothing is ever gathered into one wide table: predicates and keys are
computed per part, on columns, and only their small integer results are interleaved.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cernis.errors import RowError
from cernis.pattern.predicate import RANK

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]
Parts = tuple[tuple[str, pa.Table], ...]
_numbers = count()
Read = TypeVar("Read")


@dataclass(frozen=True, eq=False)
class StoredEvents:
    """Events as stores keep them; stores of several queries share them."""

    number: int
    """Events that came later have a larger number."""
    size: int
    rows: int | Int64s
    """The first of consecutive row numbers, or all of them."""
    parts: Parts
    which: npt.NDArray[np.int16] | None
    index: Int64s | None

    @staticmethod
    def of(batch: EventBatch) -> StoredEvents:
        """Return the events of a batch, which has some."""
        rows = batch.rows
        is_run = rows[-1] - rows[0] == len(rows) - 1 and bool((np.diff(rows) == 1).all())
        return StoredEvents(
            next(_numbers),
            len(rows),
            int(rows[0]) if is_run else rows,
            batch.parts,
            batch.which,
            batch.index,
        )

    @cached_property
    def nbytes(self) -> int:
        """The memory of the tables, which costs a look at each column."""
        return sum(table.nbytes for _, table in self.parts)

    def find_rows(self, at: Int64s) -> Int64s:
        """Return the row numbers of the events at some indices."""
        return at + self.rows if isinstance(self.rows, int) else self.rows[at]


class ChosenEvents(NamedTuple):
    """Where the events of a batch stand among stored ones."""

    stored: StoredEvents
    at: Int32s | None
    """Their indices; None: all of them."""


@dataclass(frozen=True, slots=True, eq=False)
class EventBatch:
    """Events `base`, `base + 1`, … in order of (time, arrival).

    >>> batch = EventBatch.of(pa.table({"type": ["A", "B"], "price": [3, 4]}))
    >>> len(batch), batch.rows.tolist(), batch.time
    (2, [0, 1], None)
    """

    base: int
    rows: Int64s
    time: Int64s | None
    parts: Parts
    which: npt.NDArray[np.int16] | None = None
    index: Int64s | None = None
    type_column: str = "type"
    time_column: str | None = None
    owners: Int64s | None = None
    """Of each event, a number by which several automata share a batch; None: there is one."""
    chosen: ChosenEvents | None = None
    """The events that stores keep for these; None: these."""

    @staticmethod
    def of(table: pa.Table, *, base: int = 0, stream: str = "S") -> EventBatch:
        """Return one table in row order, without a time column."""
        rows = np.arange(base, base + table.num_rows, dtype=np.int64)
        return EventBatch(base, rows, None, ((stream, table),))

    def __len__(self) -> int:
        return len(self.rows)

    def interleave(self, per_part: Callable[[str, pa.Table], npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """Compute one value per row of every part; return them per event."""
        results = [self.read_part(i, per_part) for i in range(len(self.parts))]
        if self.which is None:
            flat = results[0]
            return flat if self.index is None else flat[self.index]
        if self.index is None:
            raise ValueError("a batch of several parts needs the row of each event in its part")
        starts = np.cumsum([0, *(len(r) for r in results[:-1])])
        return np.concatenate(results)[starts[self.which] + self.index]

    def read_part(self, number: int, per_part: Callable[[str, pa.Table], Read]) -> Read:
        """Return the values of one part; an error of a row of it names the stream and the row."""
        name, table = self.parts[number]
        try:
            return per_part(name, table)
        except RowError as error:
            here = np.ones(len(self), np.bool_) if self.which is None else self.which == number
            index = np.arange(len(self)) if self.index is None else self.index
            found = np.flatnonzero(here & (index == error.row))
            is_row = error.length == table.num_rows and len(found) > 0
            raise error.locate(name, int(self.rows[found[0]]) if is_row else None) from error


def select_events(batch: EventBatch, kept: Sequence[Bools]) -> EventBatch:
    """Return the events that are kept, by marks for the rows of each part."""
    marks = iter(kept)
    mask = batch.interleave(lambda _, __: next(marks))
    indices = [np.cumsum(keep) - 1 for keep in kept]
    which, index = batch.which, batch.index
    if which is not None and index is not None:
        starts = np.cumsum([0, *map(len, kept[:-1])])
        index = np.concatenate(indices)[starts[which] + index][mask]
        which = which[mask]
    elif index is not None:
        index = indices[0][index][mask]
    parts = zip(batch.parts, kept, strict=True)
    return replace(
        batch,
        rows=batch.rows[mask],
        time=None if batch.time is None else batch.time[mask],
        parts=tuple((name, table.filter(pa.array(keep))) for (name, table), keep in parts),
        which=which,
        index=index,
        chosen=choose_stored(batch, np.flatnonzero(mask)),
    )


def take_events(
    batch: EventBatch,
    at: Int64s,
    streams: Sequence[str] = (),
    columns: Collection[str] | None = None,
) -> EventBatch:
    """Return a copy of the events at some indices, any number of times; those of some streams.

    Where stores share the events, `columns` names those that are copied, with times and types.

    >>> batch = EventBatch.of(pa.table({"type": ["A", "B"]}))
    >>> take_events(batch, np.array([1, 1, 0])).parts[0][1].column("type").to_pylist()
    ['B', 'B', 'A']
    """
    index = at if batch.index is None else batch.index[at]
    which = np.zeros(len(at), np.int16) if batch.which is None else batch.which[at]
    parts, indices = [], np.empty(len(at), np.int64)
    numbers = [i for i, (name, _) in enumerate(batch.parts) if not streams or name in streams]
    renumbered = np.zeros(len(at), np.int16)
    for number, part in enumerate(numbers):
        name, table = batch.parts[part]
        if columns is not None and batch.chosen is not None:
            keeps = {*columns, batch.type_column, batch.time_column}
            known = [one for one in table.column_names if one in keeps or is_computed(one)]
            table = table.select(known or table.column_names[:1])
        own = np.flatnonzero(which == part) if len(numbers) > 1 else np.arange(len(at))
        parts.append((name, table.take(pa.array(index[own]))))
        indices[own], renumbered[own] = np.arange(len(own)), number
    is_one = len(parts) == 1
    return replace(
        batch,
        rows=batch.rows[at],
        time=None if batch.time is None else batch.time[at],
        parts=tuple(parts),
        which=None if is_one else renumbered,
        index=None if is_one else indices,
        chosen=choose_stored(batch, at),
    )


def take_parts(whole: EventBatch, at: Int64s) -> EventBatch:
    """Return the events at some indices, with only the tables that these are in."""
    used = [0] if whole.which is None else np.unique(whole.which[at]).tolist()
    return take_events(whole, at, [whole.parts[number][0] for number in used])


def share_events(batch: EventBatch) -> EventBatch:
    """Return a batch whose events stores share, also those that are taken from it."""
    return replace(batch, chosen=ChosenEvents(StoredEvents.of(batch), None))


def choose_stored(batch: EventBatch, at: Int64s) -> ChosenEvents | None:
    """Return what stores keep for the events at some indices; None: a copy of these."""
    if batch.chosen is None:
        return None
    stored, before = batch.chosen
    return ChosenEvents(stored, at.astype(np.int32) if before is None else before[at])


MASK = "@mask"
"""Columns of bits that say which predicates hold; see `cernis.encoding.masks`."""
TYPES, TIMES = "@type", "@ts"
"""The types and times of events, where streams have them in columns of different names."""
_COMPUTED = frozenset((RANK.name, TYPES, TIMES))


def is_computed(name: str) -> bool:
    """Return whether a column is derived from the events, and no attribute of them.

    >>> is_computed("@mask0"), is_computed("price")
    (True, False)
    """
    return name in _COMPUTED or name.startswith(MASK)
