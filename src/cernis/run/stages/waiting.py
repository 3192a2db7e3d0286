"""`WaitingMatches`: matches that wait until they are certain, listed or as compact sets.

A match is certain when no event to come can take it away: WITHOUT waits for a deadline, LONGEST for
longer matches, `LIMIT … EVERY` for the end of an interval. Until then it waits here with its
partition, and its events stay in the event store. The caller decides which matches are certain;
the store knows nothing of the reason.

Each match has a number; numbers ascend in the order in which matches were added. A set too large to
list waits as its roots, with the arena that they refer to, and has a number for each root. Few
matches are listed: dropping some of them frees memory, while one root keeps the arena of its batch.

Cost contract: `add` is O(1); `select` is linear in what it returns. `keep_only`, `take` and
`intervals` are a few NumPy passes over the waiting matches.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cernis.engine.renumber import list_distinct, renumber
from cernis.results.sets.matchset import MatchBlock, join, take
from cernis.state import Sizes, array, frozen_record, is_inside, read, read_array, require

Numbers = NDArray[np.int64]
Mask = NDArray[np.bool_]
Arrays = dict[str, NDArray[Any]]
Held: TypeAlias = Any
"""A `MatchBlock`, or a segment of a compact set, which has roots."""

_LAST = 2**63 - 1


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


class _WaitingBatch(NamedTuple):
    """Matches that were added together, numbered from `first` on."""

    first: int
    held: Held
    keys: Numbers
    reach: int
    """The first position that they reach back to."""

    @property
    def next(self) -> int:
        return self.first + len(self.keys)


class WaitingMatches:
    """Matches over `width` variables, in the order in which they were added."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._batches: list[_WaitingBatch] = []

    def __len__(self) -> int:
        """Return the number of matches and roots that were not dropped."""
        return self._batches[-1].next if self._batches else 0

    @property
    def intervals(self) -> Intervals:
        """The intervals of matches that are all listed."""
        self._batches = _unite(self._batches)
        if not self._batches:
            return NO_INTERVALS
        (batch,) = self._batches
        return Intervals(batch.keys, batch.held.start, batch.held.end)

    @property
    def listed(self) -> MatchBlock:
        """The matches, which are all listed."""
        return join([batch.held for batch in self._batches], self._width)

    def add(self, held: Held, keys: Numbers, reach: int = 0) -> Numbers:
        """Add matches with their partitions; return their numbers.

        Matches of a compact set reach back to the position `reach`.
        """
        first = len(self)
        if len(keys):
            self._batches.append(_WaitingBatch(first, held, keys, _reach_of(held, reach)))
        return np.arange(first, first + len(keys))

    def select(self, numbers: Numbers) -> list[Held]:
        """Return the matches with these numbers, which ascend."""
        return [_select(batch.held, at) for batch, at in self._split(numbers)]

    def read_keys(self, numbers: Numbers) -> Numbers:
        """Return the partitions of the matches with these numbers, which ascend."""
        parts = (batch.keys[at] for batch, at in self._split(numbers))
        return np.concatenate([np.empty(0, np.int64), *parts])

    def read_starts(self, numbers: Numbers) -> Numbers:
        """Return the starts of matches, and of roots, with these numbers, which ascend.

        The matches of a root have one start.
        """
        parts = (_starts_of(batch.held)[at] for batch, at in self._split(numbers))
        return np.concatenate([np.empty(0, np.int64), *parts])

    def _split(self, numbers: Numbers) -> Iterator[tuple[_WaitingBatch, Numbers]]:
        """Yield the batches that have the matches with these numbers, and the indices there."""
        low = 0
        while low < len(numbers):
            batch = self._find(int(numbers[low]))
            high = int(np.searchsorted(numbers, batch.next))
            yield batch, numbers[low:high] - batch.first
            low = high

    def _find(self, number: int) -> _WaitingBatch:
        return self._batches[bisect_right(self._batches, number, key=lambda b: b.first) - 1]

    def find(self, number: int) -> tuple[Held, int]:
        """Return the block of the match with this number, and its index there."""
        batch = self._find(number)
        return batch.held, number - batch.first

    def keep_only(self, numbers: Numbers) -> Numbers:
        """Drop all matches but these, which ascend; return their new numbers, from 0 on."""
        kept, first = list[_WaitingBatch](), 0
        for batch, at in self._split(numbers):
            held = _select(batch.held, at)
            kept.append(_WaitingBatch(first, held, batch.keys[at], _reach_of(held, batch.reach)))
            first += len(at)
        self._batches = _unite(kept)
        return np.arange(first)

    def take(self, certain: Mask, gone: Mask) -> MatchBlock:
        """Return the matches that are certain; these and those that are gone wait no longer.

        All matches are listed.
        """
        taken = join(self.select(np.flatnonzero(certain)), self._width)
        leaves = certain | gone
        if leaves.any():
            self.keep_only(np.flatnonzero(~leaves))
        return taken

    def list_all(self, list_held: Callable[[Held], MatchBlock]) -> Numbers:
        """List compact sets; return by how many matches each former number is replaced."""
        blocks, keys, counts = [], [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for batch in self._batches:
            ends = ends_of(batch.held)
            if isinstance(batch.held, MatchBlock):
                block, count, own = batch.held, np.ones(len(ends), np.int64), batch.keys
            else:
                block = list_held(batch.held)
                # an end has the matches of all its roots; the first of them stands for all
                first = np.searchsorted(ends, ends)
                last = np.searchsorted(block.end, ends, "right")
                number = last - np.searchsorted(block.end, ends)
                count = np.where(first == np.arange(len(ends)), number, 0)
                own = batch.keys[np.searchsorted(ends, block.end)]
            blocks.append(block)
            counts.append(count)
            keys.append(own)
        self._batches = []
        self.add(join(blocks, self._width), np.concatenate(keys))
        return np.concatenate(counts)

    def earliest(self, position: int) -> int:
        """Return the first position that a waiting match reaches; `position` if there is none."""
        return min([position, *(batch.reach for batch in self._batches)])

    def keys(self) -> Numbers:
        """Return the partitions that have waiting matches, ascending."""
        return list_distinct(self._join_keys())

    def keep_keys(self, keys: Numbers) -> None:
        """Renumber partitions: keys[i] becomes i; matches of others stay, with -1."""
        self._batches = [b._replace(keys=renumber(b.keys, keys)) for b in self._batches]

    def _join_keys(self) -> Numbers:
        return np.concatenate([np.empty(0, np.int64), *(batch.keys for batch in self._batches)])

    # -------------------------------------------------------------- frozen

    def freeze(self) -> Arrays:
        """Return the matches, which are all listed, as arrays."""
        return {"keys": self._join_keys(), **freeze_block(self.listed)}

    def thaw(self, arrays: Arrays, first: int, position: int) -> None:
        """Restore what `freeze` returned; positions lie in [first, position)."""
        block = thaw_block(arrays, self._width, first, position)
        self._batches = []
        self.add(block, read_array(arrays, "keys", np.int64, block.end.shape, low=-1))


def ends_of(held: Held) -> Numbers:
    """Return the end of each match of a block, or of each root of a segment."""
    return held.end if isinstance(held, MatchBlock) else np.asarray(held.roots["end"], np.int64)


def _starts_of(held: Held) -> Numbers:
    if isinstance(held, MatchBlock):
        return held.start
    return np.asarray(held.arena["start"][held.roots["node"]], np.int64)


def _reach_of(held: Held, reach: int) -> int:
    return int(held.start.min(initial=_LAST)) if isinstance(held, MatchBlock) else reach


def _select(held: Held, at: Numbers) -> Held:
    if len(at) == len(ends_of(held)):
        return held
    if isinstance(held, MatchBlock):
        return take(held, at)
    return held._replace(roots=held.roots[at])


def _unite(batches: list[_WaitingBatch]) -> list[_WaitingBatch]:
    """Return the batches with one block in place of several listed ones in a row."""
    united: list[_WaitingBatch] = []
    for is_listed, some in groupby(batches, key=lambda batch: isinstance(batch.held, MatchBlock)):
        row = list(some)
        if is_listed and len(row) > 1:
            block = join([batch.held for batch in row], len(row[0].held.offsets))
            keys = np.concatenate([batch.keys for batch in row])
            row = [_WaitingBatch(row[0].first, block, keys, min(batch.reach for batch in row))]
        united += row
    return united


@frozen_record
class FrozenSpans:
    """The intervals of matches between `first` and `position`."""

    end: Numbers = array(np.int64, "matches", low="first", below="position")
    start: Numbers = array(np.int64, "matches", low="first", below="position")

    def check(self, sizes: Sizes) -> None:
        """Raise StateError if a match ends before it starts."""
        require(bool((self.start <= self.end).all()), "'start' is out of range")


@frozen_record
class FrozenVariable:
    """The events of a variable, match by match."""

    offsets: Numbers = array(np.int64, "matches+1", low=0)
    positions: Numbers = array(np.int64, "held", low="earliest", below="position")

    def check(self, sizes: Sizes) -> None:
        """Raise StateError if events are of no match."""
        require(
            self.offsets[0] == 0
            and self.offsets[-1] == len(self.positions)
            and is_inside(np.diff(self.offsets), 0),
            "the events of a match are not in order",
        )


_OF_VARIABLE = ("offsets", "positions")


def freeze_block(block: MatchBlock) -> Arrays:
    """Return matches as plain arrays."""
    arrays = {"start": block.start, "end": block.end}
    for v, (offsets, positions) in enumerate(zip(block.offsets, block.positions, strict=True)):
        arrays |= {f"offsets.{v}": offsets, f"positions.{v}": positions}
    return arrays


def count_frozen(arrays: Arrays) -> int:
    """Return how many matches `WaitingMatches.freeze` has written."""
    return len(read_array(arrays, "keys", np.int64))


def thaw_block(arrays: Arrays, width: int, first: int, position: int) -> MatchBlock:
    """Return the matches over `width` variables that `freeze_block` has written.

    Their positions lie in [first, position).
    """
    ends = read(FrozenSpans, arrays, first=first, position=position)
    sizes = {"first": first, "position": position, "matches": len(ends.end)}
    sizes["earliest"] = int(ends.start.min(initial=position))
    own = [
        read(FrozenVariable, {name: arrays.get(f"{name}.{v}") for name in _OF_VARIABLE}, **sizes)
        for v in range(width)
    ]
    offsets, positions = (tuple(getattr(one, name) for one in own) for name in _OF_VARIABLE)
    return MatchBlock(ends.start, ends.end, offsets, positions)
