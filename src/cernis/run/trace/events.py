"""`TracedEvents`: the events of a result again, by row and by partition.

Cost contract: one pass over the keys of all stored events, one over the columns that atoms read.
Values of attributes are read in chunks, where they are asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from cernis.encoding.encode import AtomEncoder
from cernis.encoding.keys import KeyCoder
from cernis.encoding.lives import LifeCoder
from cernis.events.batch import EventBatch
from cernis.events.store import EventStore
from cernis.events.times import UNITS
from cernis.pattern.atom import Atom
from cernis.pattern.formula import Window
from cernis.pattern.predicate import TIME_NS, Attribute
from cernis.pattern.query import Pattern, Unit
from cernis.results.values import python_records
from cernis.run.check.checked_events import read_values
from cernis.run.check.conditions import EventView

Int64s = NDArray[np.int64]

_CHUNK = 256


class TracedEvents:
    """The stored events of a run; an event's *index* counts from the first of them."""

    def __init__(self, store: EventStore, pattern: Pattern) -> None:
        self.store = store
        self.pattern = pattern
        self.base = store.span.start
        self.size = len(store.span)
        self.rows = store.rows(self._everything)
        self._encoded: dict[tuple[Atom, ...], tuple[NDArray[np.int32], list[dict[Atom, bool]]]] = {}

    @property
    def _everything(self) -> Int64s:
        return np.arange(self.store.span.start, self.store.span.stop, dtype=np.int64)

    @cached_property
    def _by_row(self) -> Int64s:
        return np.argsort(self.rows, kind="stable")

    def find_index(self, row: int) -> int | None:
        """Return the index of a row's event; None if the run has not read it."""
        at = int(np.searchsorted(self.rows, row, sorter=self._by_row))
        if at == self.size or self.rows[self._by_row[at]] != row:
            return None
        return int(self._by_row[at])

    def name(self, index: int) -> str:
        """Return an event's row, as sentences call it."""
        return f"row {int(self.rows[index])}"

    def read_event(self, index: int) -> dict[str, Any]:
        """Return the attributes of an event."""
        return python_records(self.store.structs(np.array([self.base + index])))[0]

    @cached_property
    def times(self) -> Int64s | None:
        """The times in nanoseconds; None where events have none."""
        if not self.store.is_timed:
            return None
        ticks = self.store.column(self._everything, TIME_NS.name)
        return np.asarray(pc.fill_null(ticks, 0).to_numpy(), np.int64)

    @cached_property
    def keys(self) -> Int64s:
        """The partition of each event, -1 for none; a life of FORGET AFTER is one."""
        pattern = self.pattern
        if not pattern.partition and pattern.forget is None:
            return np.zeros(self.size, np.int64)
        codes = [np.empty(0, np.int64)]
        if pattern.forget is None:
            coder = KeyCoder(pattern.partition)
            codes += [coder.encode(batch) for batch in self.store.stored_batches()]
        else:
            lives = LifeCoder(pattern.partition)
            ticks = int(pattern.forget)
            codes += [lives.encode(self._add_times(b), ticks) for b in self.store.stored_batches()]
        return np.concatenate(codes)

    def _add_times(self, batch: EventBatch) -> EventBatch:
        assert self.times is not None
        first = batch.base - self.base
        return replace(batch, time=self.times[first : first + len(batch)])

    def list_members(self, index: int) -> Int64s:
        """Return the indices of the partition of an event; none if it has no key."""
        key = self.keys[index]
        return np.flatnonzero(self.keys == key) if key >= 0 else np.empty(0, np.int64)

    def write_key(self, index: int) -> str:
        """Return the attributes of PARTITION BY of an event, in a line."""
        event = self.read_event(index)
        names = [name for group in self.pattern.partition for name in group]
        values = ((name, event.get(name.split(".")[0])) for name in names)
        return ", ".join(f"{name} = {value!r}" for name, value in values)

    def encode(self, atoms: Sequence[Atom]) -> tuple[NDArray[np.int32], list[dict[Atom, bool]]]:
        """Return a code for each event, and which atoms hold for each code."""
        known = self._encoded.get(tuple(atoms))
        if known is None:
            encoder = AtomEncoder(tuple(atoms), self.store.type_column)
            codes = [np.empty(0, np.int32)]
            codes += [encoder.encode(batch) for batch in self.store.stored_batches()]
            truths = [dict(zip(atoms, vector, strict=True)) for vector in encoder.vectors]
            known = self._encoded[tuple(atoms)] = (np.concatenate(codes), truths)
        return known

    def view(self, members: Int64s, atoms: Sequence[Atom]) -> EventView:
        """Return the events at some indices as checks read them, by their rank among them."""
        codes, truths = self.encode(atoms)
        values = ChunkedValues(self.store, members + self.base)
        return EventView(
            lambda rank: truths[int(codes[members[rank]])],
            values.read,
            lambda rank: values.read(rank, None),
            UNITS[self.store.time_unit],
        )

    @cached_property
    def usable(self) -> NDArray[np.bool_] | None:
        """Which events a match may begin and end with: they have the attribute of its window."""
        within = self.pattern.within
        if within is None or within.unit is not Unit.ATTRIBUTE or within.attribute is None:
            return None
        column = self.store.column(self._everything, within.attribute.name)
        return np.asarray(column.is_valid().to_numpy(zero_copy_only=False), np.bool_)

    def is_usable(self, index: int) -> bool:
        """Whether a match may begin or end with an event."""
        return self.usable is None or bool(self.usable[index])

    def list_firsts(self, window: Window | None, members: Int64s, ranks: Int64s) -> Int64s:
        """Return, for windows that end at some ranks of a partition, the first rank inside."""
        if window is None:
            return np.zeros(len(ranks), np.int64)
        if window.unit is Unit.EVENTS and window.attribute is None:
            return np.asarray(np.maximum(0, ranks - int(window.size)), np.int64)
        if window.unit is Unit.TIME:
            assert self.times is not None
            ticks = self.times[members]
            return np.asarray(np.searchsorted(ticks, ticks[ranks] - int(window.size)), np.int64)
        assert window.attribute is not None
        column = self.store.column(members + self.base, window.attribute.name)
        readings = pc.fill_null(pc.fill_null_forward(column), 0).to_numpy(zero_copy_only=False)
        side: Literal["left", "right"] = "right" if window.strict else "left"
        bounds = readings[ranks] - _as_number(window.size, readings.dtype)
        return np.asarray(np.searchsorted(readings, bounds, side=side), np.int64)


def _as_number(size: Fraction, dtype: np.dtype[Any]) -> float | int:
    return int(size) if size.denominator == 1 and dtype.kind in "iu" else float(size)


class ChunkedValues:
    """Attributes of events at some positions, read in chunks."""

    def __init__(self, store: EventStore, positions: Int64s) -> None:
        self.store, self.positions = store, positions
        self._known: dict[tuple[str | None, int], list[Any]] = {}

    def read(self, rank: int, attribute: Attribute | None) -> Any:
        """Return an attribute of the event at a rank; its time for None."""
        chunk, offset = divmod(rank, _CHUNK)
        key = (None if attribute is None else attribute.name, chunk)
        if key not in self._known:
            positions = self.positions[chunk * _CHUNK : (chunk + 1) * _CHUNK]
            self._known[key] = read_values(self.store, positions, attribute)
        return self._known[key][offset]
