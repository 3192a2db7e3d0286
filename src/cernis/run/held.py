"""`HeldMatches`: matches that wait for their deadline, listed or as compact sets.

Each match (or each root of a compact set) has a number; numbers ascend with the ends. A batch's
matches are listed when they are few, and then cost what their positions cost. A set too large to
list waits as its roots, with the arena they refer to.

Cost contract: linear in the matches of a batch where they are listed, in its roots otherwise.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cernis.results.matchset import MatchBlock, join, take
from cernis.state import read_array, require

Numbers = NDArray[np.int64]
Held: TypeAlias = Any
"""A `MatchBlock`, or a segment of a compact set, which has roots."""


class _HeldBatch(NamedTuple):
    """The matches of one batch of events, numbered from `first` on."""

    first: int
    held: Held
    reach: int
    """The first position that they reach back to."""


def ends_of(held: Held) -> Numbers:
    """Return the end of each match of a block, or of each root of a segment."""
    return held.end if isinstance(held, MatchBlock) else held.roots["end"]


def keys_of(held: Held) -> Numbers:
    """Return the partition of each root of a segment."""
    return np.asarray(held.roots["key"], np.int64)


def _select(held: Held, at: Numbers) -> Held:
    if len(at) == len(ends_of(held)):
        return held
    if isinstance(held, MatchBlock):
        return take(held, at)
    return held._replace(roots=held.roots[at])


def freeze_block(block: MatchBlock) -> dict[str, NDArray[Any]]:
    """Return matches as plain arrays."""
    arrays = {"start": block.start, "end": block.end}
    for v, (offsets, positions) in enumerate(zip(block.offsets, block.positions, strict=True)):
        arrays |= {f"offsets.{v}": offsets, f"positions.{v}": positions}
    return arrays


def thaw_block(arrays: dict[str, NDArray[Any]], width: int, position: int) -> MatchBlock:
    """Return the matches over so many variables that `freeze_block` has written.

    Their events stand before a position.
    """
    below = max(1, position)
    start = read_array(arrays, "start", np.int64, low=0, below=below)
    end = read_array(arrays, "end", np.int64, (len(start),), low=0, below=below)
    offsets, positions = [], []
    for v in range(width):
        offset = read_array(arrays, f"offsets.{v}", np.int64, (len(start) + 1,), low=0)
        held = read_array(arrays, f"positions.{v}", np.int64, low=0, below=below)
        require(
            offset[0] == 0
            and bool((np.diff(offset) >= 0).all())
            and offset[-1] == len(held)
            and held.min(initial=position) >= start.min(initial=position),
            "the events of a match are not in order",
        )
        offsets.append(offset)
        positions.append(held)
    return MatchBlock(start, end, tuple(offsets), tuple(positions))


def _unite(batches: list[_HeldBatch]) -> list[_HeldBatch]:
    """Return the batches with one block in place of several listed ones in a row."""
    united: list[_HeldBatch] = []
    for listed, some in groupby(batches, key=lambda batch: isinstance(batch.held, MatchBlock)):
        row = list(some)
        if listed:
            block = join([batch.held for batch in row], len(row[0].held.offsets))
            row = [_HeldBatch(row[0].first, block, min(batch.reach for batch in row))]
        united += row
    return united


class HeldMatches:
    """The matches that wait, by number."""

    def __init__(self) -> None:
        self._batches: list[_HeldBatch] = []
        self._next = 0

    def __len__(self) -> int:
        """Return how many matches or roots are held, those that wait no more included."""
        return self._next

    def add(self, held: Held, reach: int) -> Numbers:
        """Hold matches that come after all others; return their numbers."""
        number = len(ends_of(held))
        numbers = np.arange(self._next, self._next + number)
        if number:
            self._batches.append(_HeldBatch(self._next, held, reach))
            self._next += number
        return numbers

    def select(self, numbers: Numbers) -> list[Held]:
        """Return the matches with these numbers, which ascend."""
        found, low = [], 0
        while low < len(numbers):
            batch = self._find(int(numbers[low]))
            high = int(np.searchsorted(numbers, batch.first + len(ends_of(batch.held))))
            found.append(_select(batch.held, numbers[low:high] - batch.first))
            low = high
        return found

    def _find(self, number: int) -> _HeldBatch:
        return self._batches[bisect_right(self._batches, number, key=lambda b: b.first) - 1]

    def find(self, number: int) -> tuple[Held, int]:
        """Return where the match with this number is: its block, and its place there."""
        batch = self._find(number)
        return batch.held, number - batch.first

    def keep_only(self, numbers: Numbers) -> Numbers:
        """Drop all matches but these, which ascend; return their new numbers.

        Matches of neighbouring batches that are listed become one block.
        """
        ends = [batch.first + len(ends_of(batch.held)) for batch in self._batches]
        cuts = np.searchsorted(numbers, ends)
        low, batches, following = 0, list[_HeldBatch](), 0
        for batch, high in zip(self._batches, cuts.tolist(), strict=True):
            if high > low:
                held = _select(batch.held, numbers[low:high] - batch.first)
                batches.append(_HeldBatch(following, held, batch.reach))
                following += high - low
            low = high
        self._batches, self._next = _unite(batches), following
        return np.arange(following)

    def reach(self, position: int) -> int:
        """Return the first position that a match reaches back to; `position` if that is less."""
        return min((batch.reach for batch in self._batches), default=position)

    def batches(self) -> Iterator[Held]:
        """Yield the matches, batch by batch."""
        for batch in self._batches:
            yield batch.held
