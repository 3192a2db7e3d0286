"""The border between the engines, which find matches, and the results, which show them.

A *match set* counts matches, gives them block by block, and draws samples. It has positions
(ranks in the final order of the stream) in arrays only; row numbers, timestamps and events come
from the event store. The compact sets of the engines are implementations (`unary`, `correlated`);
`ListedMatches`, for queries whose matches must be filtered one by one, is another.

Cost contract: `count`, `counts`, `sample` and `page` never enumerate where the set is compact;
`ListedMatches` has paid for its matches already. `blocks` is linear in its output.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Positions = NDArray[np.int64]


class MatchBlock(NamedTuple):
    """A run of matches as arrays of positions.

    Match i spans `start[i]` to `end[i]`; the events of variable v are
    `positions[v][offsets[v][i]:offsets[v][i + 1]]`, ascending.
    """

    start: Positions
    end: Positions
    offsets: tuple[Positions, ...]
    positions: tuple[Positions, ...]
    suppressed: Positions | None = None
    """Of SUPPRESS BY: how many matches were silenced since the one before."""


class MatchSet(Protocol):
    """A set of matches, however it was found."""

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that a match maps to positions, in the order of SELECT."""

    def count(self) -> int:
        """Return the number of matches, exactly."""

    def is_empty(self) -> bool:
        """Whether there is no match, without counting."""

    def counts(self) -> tuple[Positions, list[int]]:
        """Return the end positions that have matches, ascending, and how many each has."""

    def blocks(self, limit: int | None = None) -> Iterator[MatchBlock]:
        """Return the matches, or the first `limit`: by end position, latest start first."""

    def sample(self, k: int, seed: int | None) -> MatchBlock:
        """Draw `k` distinct matches, each subset equally likely; all when there are fewer."""

    def of_ends(self, ends: Positions, most: int = 1) -> Iterator[MatchBlock]:
        """Return the first matches, at most so many, of each of these ends, which ascend."""

    def page(self, offset: int, n: int) -> MatchBlock:
        """Return the matches number `offset` to `offset + n - 1`, by end position.

        All pages together have each match once. Those of an end are in the order of `blocks`,
        unless an end has more matches than are listed for a page.
        """


def take(block: MatchBlock, indices: NDArray[np.integer]) -> MatchBlock:
    """Return the matches with these indices, in that order.

    >>> listed = ListedMatches.of(("x",), [(0, 1, {"x": [0, 1]}), (2, 2, {"x": [2]})])
    >>> take(listed.block, np.array([1])).positions
    (array([2]),)
    """
    offsets, positions = [], []
    for offset, position in zip(block.offsets, block.positions, strict=True):
        first, length = offset[indices], np.diff(offset)[indices]
        taken = np.concatenate(([0], np.cumsum(length)))
        within = np.arange(taken[-1]) - np.repeat(taken[:-1], length)
        offsets.append(taken)
        positions.append(position[np.repeat(first, length) + within])
    silenced = None if block.suppressed is None else block.suppressed[indices]
    return MatchBlock(
        block.start[indices], block.end[indices], tuple(offsets), tuple(positions), silenced
    )


def part(block: MatchBlock, low: int, high: int) -> MatchBlock:
    """Return the matches low to high - 1; they share memory with the block."""
    return MatchBlock(
        block.start[low:high],
        block.end[low:high],
        tuple(offset[low : high + 1] - offset[low] for offset in block.offsets),
        tuple(
            position[offset[low] : offset[high]]
            for offset, position in zip(block.offsets, block.positions, strict=True)
        ),
        None if block.suppressed is None else block.suppressed[low:high],
    )


def pieces(block: MatchBlock, weight: int) -> Iterator[MatchBlock]:
    """Cut the block so that each piece holds about `weight` positions, or one match.

    The engines cut blocks by number of matches. A match may have any number of events, and the
    structs and texts of a piece must fit in memory.
    """
    m = len(block.start)
    load = np.arange(m + 1, dtype=np.int64) + sum(block.offsets, start=np.int64(0))
    low = 0
    while low < m:
        high = int(np.searchsorted(load, load[low] + weight, side="right")) - 1
        high = min(max(high, low + 1), m)
        yield block if (low, high) == (0, m) else part(block, low, high)
        low = high


def limit_blocks(blocks: Iterable[MatchBlock], limit: int | None) -> Iterator[MatchBlock]:
    """Yield the blocks, or the first `limit` matches of them; no block is empty."""
    left = limit
    for block in blocks if left != 0 else ():
        if left is not None:
            block = part(block, 0, min(left, len(block.start)))
            left -= len(block.start)
        if len(block.start):
            yield block
        if left == 0:
            return


def join(blocks: Sequence[MatchBlock], width: int) -> MatchBlock:
    """Return one block of all, for matches over `width` variables."""
    if len(blocks) == 1:
        return blocks[0]
    offsets, positions = [], []
    for v in range(width):
        lengths = [np.diff(block.offsets[v]) for block in blocks]
        offsets.append(np.cumsum(np.concatenate([np.zeros(1, np.int64), *lengths])))
        positions.append(_concatenate([block.positions[v] for block in blocks]))
    silenced = [block.suppressed for block in blocks if block.suppressed is not None]
    return MatchBlock(
        _concatenate([block.start for block in blocks]),
        _concatenate([block.end for block in blocks]),
        tuple(offsets),
        tuple(positions),
        _concatenate(silenced) if silenced else None,
    )


def _concatenate(arrays: Sequence[Positions]) -> Positions:
    return np.concatenate([np.zeros(0, np.int64), *arrays])


class ListedMatches:
    """A match set that holds its matches one by one.

    >>> listed = ListedMatches.of(("b", "s"), [(3, 9, {"b": [3], "s": [5, 9]})])
    >>> listed.count(), listed.counts()
    (1, (array([9]), [1]))
    """

    def __init__(self, variables: Sequence[str], blocks: Iterable[MatchBlock]) -> None:
        """Take blocks of distinct matches, by end position, latest start first."""
        self.variables = tuple(variables)
        self.block = join(tuple(blocks), len(self.variables))

    @classmethod
    def of(
        cls,
        variables: Sequence[str],
        matches: Iterable[tuple[int, int, Mapping[str, Iterable[int]]]],
    ) -> ListedMatches:
        """Make a set of (start, end, {variable: positions}) in any order, without duplicates."""
        distinct = {
            (end, -start, tuple(tuple(sorted(marks.get(v, ()))) for v in variables))
            for start, end, marks in matches
        }
        rows = sorted(distinct)
        columns = [[marks[v] for _, _, marks in rows] for v in range(len(variables))]
        block = MatchBlock(
            np.array([-start for _, start, _ in rows], np.int64),
            np.array([end for end, _, _ in rows], np.int64),
            tuple(np.cumsum([0, *map(len, column)], dtype=np.int64) for column in columns),
            tuple(np.array([p for marks in column for p in marks], np.int64) for column in columns),
        )
        return cls(variables, [block])

    def count(self) -> int:
        return len(self.block.start)

    def is_empty(self) -> bool:
        return not len(self.block.start)

    def counts(self) -> tuple[Positions, list[int]]:
        ends, number = np.unique(self.block.end, return_counts=True)
        return ends, [int(n) for n in number]

    def blocks(self, limit: int | None = None) -> Iterator[MatchBlock]:
        m = self.count() if limit is None else min(limit, self.count())
        if m:
            yield part(self.block, 0, m)

    def sample(self, k: int, seed: int | None) -> MatchBlock:
        chosen = np.random.default_rng(seed).permutation(self.count())[:k]
        return take(self.block, np.sort(chosen))

    @cached_property
    def _by_end(self) -> Positions:
        """The matches in the order of their ends; those of a deadline come in another."""
        return np.argsort(self.block.end, kind="stable")

    def of_ends(self, ends: Positions, most: int = 1) -> Iterator[MatchBlock]:
        sorted_ends = self.block.end[self._by_end]
        low = np.searchsorted(sorted_ends, ends)
        high = np.minimum(np.searchsorted(sorted_ends, ends, side="right"), low + most)
        chosen = [self._by_end[a:b] for a, b in zip(low, high, strict=True) if a < b]
        if chosen:
            yield take(self.block, np.concatenate(chosen))

    def at_ends(self, ends: Positions) -> ListedMatches:
        """Return the matches of these ends alone, as a set."""
        kept = np.flatnonzero(np.isin(self.block.end, ends))
        return ListedMatches(self.variables, [take(self.block, kept)])

    def page(self, offset: int, n: int) -> MatchBlock:
        low = min(offset, self.count())
        return part(self.block, low, min(low + n, self.count()))
