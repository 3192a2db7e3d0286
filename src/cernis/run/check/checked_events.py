"""`CheckedEvents`: recent events as conditions read them: truths of atoms, and values.

Cost contract: atoms in Arrow per batch; an attribute's values become Python objects batch by batch,
when a check first asks for them. It keeps the batches since the last `forget_before`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cernis.encoding.encode import Encode
from cernis.events.batch import EventBatch, Int64s
from cernis.events.kinds import split_by_kind
from cernis.events.store import EventStore
from cernis.events.times import UNITS
from cernis.pattern.atom import Atom
from cernis.pattern.predicate import Attribute
from cernis.results.terms.calculated import calculate_values
from cernis.results.values import python_values
from cernis.run.check.conditions import EventView


class _CheckedBatch(NamedTuple):
    """The codes and values of the events of one batch."""

    base: int
    codes: NDArray[np.int32]
    values: dict[str | None, list[Any]]


class CheckedEvents:
    """The events that checks read, by position in the whole stream."""

    def __init__(self, atoms: Sequence[Atom], store: EventStore, encode: Encode) -> None:
        self.atoms = tuple(atoms)
        self.encoder = encode(self.atoms)
        self.store = store
        self._batches: list[_CheckedBatch] = []
        self._truths: dict[int, dict[Atom, bool]] = {}

    def note(self, batch: EventBatch) -> None:
        """Read the atoms of a batch."""
        self._batches.append(_CheckedBatch(batch.base, self.encoder.encode(batch), {}))

    def forget_before(self, position: int) -> None:
        """Drop the batches that end before this position."""
        while len(self._batches) > 1 and self._batches[1].base <= position:
            self._batches.pop(0)

    @property
    def view(self) -> EventView:
        """The events by position in the whole stream."""
        return EventView(
            self.read_truth,
            lambda position, attribute: self.read_value(position, attribute),
            lambda position: self.read_value(position, None),
            self.tick,
        )

    @property
    def tick(self) -> int:
        """The nanoseconds of one unit of the time column, where it holds numbers."""
        return UNITS[self.store.time_unit]

    def read_truth(self, position: int) -> dict[Atom, bool]:
        """Return which atoms hold of an event."""
        batch, offset = self._find_batch(position)
        code = int(batch.codes[offset])
        if code not in self._truths:
            truths = zip(self.atoms, self.encoder.vectors[code], strict=True)
            self._truths[code] = dict(truths)
        return self._truths[code]

    def read_value(self, position: int, attribute: Attribute | None) -> Any:
        """Return an attribute of an event; its time for None."""
        batch, offset = self._find_batch(position)
        name = None if attribute is None else attribute.name
        if name not in batch.values:
            positions = np.arange(batch.base, batch.base + len(batch.codes))
            batch.values[name] = read_values(self.store, positions, attribute)
        return batch.values[name][offset]

    def _find_batch(self, position: int) -> tuple[_CheckedBatch, int]:
        at = bisect_right(self._batches, position, key=lambda batch: batch.base) - 1
        return self._batches[at], position - self._batches[at].base


def read_values(store: EventStore, positions: Int64s, attribute: Attribute | None) -> list[Any]:
    """Return an attribute, or the value calculated for it, of some events; their times for None."""
    if attribute is None:
        return python_values(store.times(positions))
    names = {source.name for source in attribute.sources}
    values: list[Any] = [None] * len(positions)
    for indices, kinds in split_by_kind({name: store.kinds(positions, name) for name in names}):
        taken = positions if indices is None else positions[indices]

        def lookup(
            path: tuple[str, ...], taken: Int64s = taken, kinds: Mapping[str, int] = kinds
        ) -> pa.Array:
            name = ".".join(path)
            if name in kinds:
                return store.column_of_kind(taken, name, kinds[name])
            return store.column(taken, name)

        found = python_values(calculate_values(attribute, lookup, len(taken), store.time_unit))
        if indices is None:
            return found
        for index, each in zip(indices, found, strict=True):
            values[index] = each
    return values
