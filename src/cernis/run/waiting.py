"""Matches that wait until they are certain.

A match is certain when no event to come can take it away. Until then it waits here, keyed by its
partition, and its events stay in the event store. Who decides says which matches are certain and
which are gone; the store knows nothing of the reason.

Matches wait one by one, as arrays of positions, so that dropping some frees their memory and a
frozen state holds numbers alone. Turned down: to hold roots of compact sets, which keep the whole
arena of their batch alive.

Cost contract: a few NumPy passes over the waiting matches whenever some are added or taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.results.matchset import MatchBlock, join, take
from cernis.state import is_inside, read_array, require

Numbers = NDArray[np.int64]
Mask = NDArray[np.bool_]


class Intervals(NamedTuple):
    """The partitions, starts and ends of some matches, as positions."""

    keys: Numbers
    starts: Numbers
    ends: Numbers

    def select(self, mask: Mask) -> Intervals:
        return Intervals(self.keys[mask], self.starts[mask], self.ends[mask])

    def append(self, other: Intervals) -> Intervals:
        return Intervals(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))


NO_INTERVALS = Intervals(*(np.empty(0, np.int64) for _ in range(3)))


class WaitingMatches:
    """Matches over `width` variables, in the order in which they were added."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._block = join([], width)
        self._keys = np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def intervals(self) -> Intervals:
        return Intervals(self._keys, self._block.start, self._block.end)

    def add(self, blocks: Sequence[MatchBlock], keys: Numbers) -> None:
        """Add matches with their partitions."""
        if len(keys):
            self._block = join([self._block, *blocks], self._width)
            self._keys = np.concatenate([self._keys, keys])

    def take(self, certain: Mask, gone: Mask) -> MatchBlock:
        """Return the matches that are certain; these and those that are gone wait no longer."""
        taken = take(self._block, np.flatnonzero(certain))
        waits = ~(certain | gone)
        if not waits.all():
            self._block = take(self._block, np.flatnonzero(waits))
            self._keys = self._keys[waits]
        return taken

    def earliest(self, position: int) -> int:
        """Return the first position that a waiting match reaches; `position` if there is none."""
        return min(position, int(self._block.start.min(initial=position)))

    def keys(self) -> Numbers:
        """Return the partitions that have waiting matches, ascending."""
        return np.unique(self._keys)

    def keep_keys(self, keys: Numbers) -> None:
        """Renumber partitions: keys[i] becomes i; no other partition has a waiting match."""
        self._keys = np.searchsorted(keys, self._keys)

    # -------------------------------------------------------------- frozen

    def freeze(self) -> dict[str, NDArray[Any]]:
        """Return the waiting matches as arrays."""
        block = self._block
        arrays = {"keys": self._keys, "start": block.start, "end": block.end}
        arrays |= {f"offsets.{v}": offsets for v, offsets in enumerate(block.offsets)}
        return arrays | {f"positions.{v}": held for v, held in enumerate(block.positions)}

    def thaw(self, arrays: dict[str, NDArray[Any]], first: int, position: int) -> None:
        """Restore what `freeze` returned; positions lie in [first, position)."""
        keys = read_array(arrays, "keys", np.int64, low=0)
        end = read_array(arrays, "end", np.int64, keys.shape, low=first, below=position)
        start = read_array(arrays, "start", np.int64, keys.shape, low=first, below=end + 1)
        offsets, positions = [], []
        for v in range(self._width):
            offset = read_array(arrays, f"offsets.{v}", np.int64, (len(keys) + 1,), low=0)
            held = read_array(arrays, f"positions.{v}", np.int64, low=first, below=position)
            length = np.diff(offset)
            require(
                offset[0] == 0 and offset[-1] == len(held) and is_inside(length, 0),
                "a waiting match has no events",
            )
            offsets.append(offset)
            positions.append(held)
        self._block = MatchBlock(start, end, tuple(offsets), tuple(positions))
        self._keys = keys
