"""`RankedEvents`: where recent events stand inside their partitions, both ways.

Checks of candidates count positions inside a partition: two of its events are neighbours there,
however many events of other partitions lie between them in the stream.

Cost contract: a few passes of NumPy per batch, nothing in Python per event. A rank is found by a
search in each *stretch* of events; stretches of similar length are joined, so there are
logarithmically many, and an event is sorted as often at most. Memory is linear in the events since
the last `forget_before`.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.encoding.ranks import PartitionRanks
from cernis.engine.renumber import renumber

Numbers = NDArray[np.int64]


class _SortedStretch(NamedTuple):
    """The events of a stretch in the order of their partitions."""

    offsets: Numbers
    keys: Numbers
    """The partitions, each once, ascending."""
    first: Numbers
    """Per partition, the index of its first event in `offsets`; after them, the number of all."""


class _RankedStretch:
    """Events that follow each other: their partitions, -1 for none, and their ranks."""

    def __init__(self, base: int, keys: Numbers, ranks: Numbers) -> None:
        self.base = base
        self.keys = keys
        self.ranks = ranks
        self._by_key: _SortedStretch | None = None

    @property
    def by_key(self) -> _SortedStretch:
        if self._by_key is None:
            self._by_key = _sort_by_key(self.keys)
        return self._by_key

    def find(self, key: int, rank: int) -> int:
        """Return the position of an event, -1 if it is not here."""
        offsets, keys, first = self.by_key
        at = int(np.searchsorted(keys, key))
        if at == len(keys) or keys[at] != key:
            return -1
        begin = int(first[at])
        index = begin + rank - int(self.ranks[offsets[begin]])
        return self.base + int(offsets[index]) if begin <= index < first[at + 1] else -1


class RankedEvents:
    """The partitions and ranks of the events of a stream.

    >>> ranked = RankedEvents()
    >>> ranked.note(0, np.array([5, 7, 5]))
    >>> ranked.note(3, np.array([7, -1, 5]))
    >>> ranked.to_local(5), ranked.to_global(5, 2), ranked.to_global(7, 1)
    ((5, 2), 5, 3)
    """

    def __init__(self) -> None:
        self._stretches: list[_RankedStretch] = []
        self._counter = PartitionRanks()
        self._locals: dict[int, tuple[int, int]] = {}
        self._globals: dict[tuple[int, int], int] = {}
        """What was asked since the last batch: candidates share their events."""

    def note(self, base: int, keys: Numbers) -> None:
        """Take the partitions of the events from a position on."""
        if not len(keys):
            return
        self._clear()
        ranks = self._counter.read(keys)
        while self._stretches and len(self._stretches[-1].keys) <= 2 * len(keys):
            last = self._stretches.pop()
            base = last.base
            keys, ranks = np.concatenate([last.keys, keys]), np.concatenate([last.ranks, ranks])
        self._stretches.append(_RankedStretch(base, keys, ranks))

    def to_local(self, position: int) -> tuple[int, int]:
        """Return the partition of an event, and its rank inside."""
        local = self._locals.get(position)
        if local is None:
            at = bisect_right(self._stretches, position, key=lambda stretch: stretch.base) - 1
            stretch = self._stretches[at]
            offset = position - stretch.base
            local = int(stretch.keys[offset]), int(stretch.ranks[offset])
            self._locals[position], self._globals[local] = local, position
        return local

    def to_global(self, key: int, rank: int) -> int:
        """Return the position of an event of a partition."""
        position = self._globals.get((key, rank))
        if position is None:
            found = (stretch.find(key, rank) for stretch in reversed(self._stretches))
            position = next(position for position in found if position >= 0)
            self._globals[key, rank] = position
        return position

    def keys_of(self, positions: Numbers) -> Numbers:
        """Return the partitions of some events; -1 where an event is not kept."""
        keys = np.full(len(positions), -1, np.int64)
        for stretch in self._stretches:
            offsets = positions - stretch.base
            inside = (offsets >= 0) & (offsets < len(stretch.keys))
            keys[inside] = stretch.keys[offsets[inside]]
        return keys

    def forget_before(self, position: int) -> None:
        """Drop events before a position, where they are the majority of a stretch."""
        self._clear()
        kept = []
        for stretch in self._stretches:
            old = position - stretch.base
            if old >= len(stretch.keys):
                continue
            if old > len(stretch.keys) // 2:
                keys, ranks = stretch.keys[old:].copy(), stretch.ranks[old:].copy()
                stretch = _RankedStretch(position, keys, ranks)
            kept.append(stretch)
        self._stretches = kept

    def keep_keys(self, keys: Numbers) -> None:
        """Renumber partitions: keys[i] becomes i, the others are none."""
        self._clear()
        self._stretches = [
            _RankedStretch(stretch.base, renumber(stretch.keys, keys), stretch.ranks)
            for stretch in self._stretches
        ]
        self._counter.keep_only(keys)

    def _clear(self) -> None:
        self._locals.clear()
        self._globals.clear()


def _sort_by_key(keys: Numbers) -> _SortedStretch:
    offsets = np.argsort(keys, kind="stable")
    ordered = keys[offsets]
    changes = np.flatnonzero(np.diff(ordered)) + 1
    first = np.concatenate([[0], changes]) if len(keys) else np.zeros(0, np.int64)
    return _SortedStretch(offsets, ordered[first], np.concatenate([first, [len(keys)]]))
