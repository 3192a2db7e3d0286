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
from typing import NamedTuple, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from cernis.engine.spans import list_indices

Positions = NDArray[np.int64]


class Spans(NamedTuple):
    """Match i has the events `positions[low[i]:high[i]]`; matches may share them."""

    positions: Positions
    low: Positions
    high: Positions


class SharedSpans(Sequence[Positions]):
    """The positions of matches that are parts of longer lists, which are copied when asked for.

    Each variable has all events of a match, or none.

    >>> spans = SharedSpans(Spans(np.array([3, 5, 9]), np.array([0, 1]), np.array([2, 3])), (True,))
    >>> spans.offsets, spans[0]
    ((array([0, 2, 4]),), array([3, 5, 5, 9]))
    """

    def __init__(self, spans: Spans, marked: Sequence[bool]) -> None:
        """`marked` are the variables that have the events."""
        self.spans = spans
        self._marked = tuple(marked)

    def __len__(self) -> int:
        return len(self._marked)

    @overload
    def __getitem__(self, variable: int) -> Positions: ...

    @overload
    def __getitem__(self, variable: slice) -> tuple[Positions, ...]: ...

    def __getitem__(self, variable: int | slice) -> Positions | tuple[Positions, ...]:
        if isinstance(variable, slice):
            return tuple(self)[variable]
        return self._copied if self._marked[variable] else np.empty(0, np.int64)

    @cached_property
    def _copied(self) -> Positions:
        return self.spans.positions[list_indices(self.spans.low, self.spans.high)]

    @cached_property
    def offsets(self) -> tuple[Positions, ...]:
        """Where the events of each match begin, among the copied ones."""
        length = self.spans.high - self.spans.low
        taken = np.concatenate([[0], np.cumsum(length)])
        return tuple(taken if own else np.zeros_like(taken) for own in self._marked)

    def spans_of(self, variable: int) -> Spans:
        """Return the events of a variable, not copied."""
        if self._marked[variable]:
            return self.spans
        nowhere = np.zeros_like(self.spans.low)
        return Spans(np.empty(0, np.int64), nowhere, nowhere)

    def take(self, indices: NDArray[np.integer] | slice) -> SharedSpans:
        """Return those of some matches."""
        positions, low, high = self.spans
        low, high = low[indices], high[indices]
        first, last = low.min(initial=len(positions)), high.max(initial=0)
        first = min(first, last)
        return SharedSpans(Spans(positions[first:last], low - first, high - first), self._marked)

    def join(self, others: Sequence[SharedSpans]) -> SharedSpans:
        """Return these and others over the same variables."""
        every = [self.spans, *(other.spans for other in others)]
        before = np.cumsum([0, *(len(each.positions) for each in every)])[:-1]
        low, high = (
            np.concatenate([own + more for own, more in zip(side, before, strict=True)])
            for side in ([each.low for each in every], [each.high for each in every])
        )
        positions = np.concatenate([each.positions for each in every])
        return SharedSpans(Spans(positions, low, high), self._marked)

    def is_alike(self, other: object) -> bool:
        """Whether other positions are spans, of the same variables."""
        return isinstance(other, SharedSpans) and other._marked == self._marked


class MatchBlock(NamedTuple):
    """A run of matches as arrays of positions.

    Match i spans `start[i]` to `end[i]`; the events of variable v are
    `positions[v][offsets[v][i]:offsets[v][i + 1]]`, ascending.
    """

    start: Positions
    end: Positions
    offsets: tuple[Positions, ...]
    positions: tuple[Positions, ...] | SharedSpans
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


def spans_of(block: MatchBlock, variable: int) -> Spans:
    """Return the events of a variable, which matches may share."""
    if isinstance(block.positions, SharedSpans):
        return block.positions.spans_of(variable)
    offsets = block.offsets[variable]
    return Spans(block.positions[variable], offsets[:-1], offsets[1:])


def share(
    start: Positions, end: Positions, spans: SharedSpans, suppressed: Positions | None = None
) -> MatchBlock:
    """Return a block of matches that share their events."""
    return MatchBlock(start, end, spans.offsets, spans, suppressed)


def take(block: MatchBlock, indices: NDArray[np.integer]) -> MatchBlock:
    """Return the matches with these indices, in that order.

    >>> listed = ListedMatches.of(("x",), [(0, 1, {"x": [0, 1]}), (2, 2, {"x": [2]})])
    >>> take(listed.block, np.array([1])).positions
    (array([2]),)
    """
    silenced = None if block.suppressed is None else block.suppressed[indices]
    if isinstance(block.positions, SharedSpans):
        spans = block.positions.take(indices)
        return share(block.start[indices], block.end[indices], spans, silenced)
    offsets, positions = [], []
    for offset, position in zip(block.offsets, block.positions, strict=True):
        first, length = offset[indices], np.diff(offset)[indices]
        offsets.append(np.concatenate(([0], np.cumsum(length))))
        positions.append(position[list_indices(first, first + length)])
    return MatchBlock(
        block.start[indices], block.end[indices], tuple(offsets), tuple(positions), silenced
    )


def part(block: MatchBlock, low: int, high: int) -> MatchBlock:
    """Return the matches low to high - 1; they share memory with the block."""
    if isinstance(block.positions, SharedSpans):
        return take(block, np.arange(low, min(high, len(block.start))))
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


def pieces(block: MatchBlock, weight: int, *, lists: bool = True) -> Iterator[MatchBlock]:
    """Cut the block so that each piece holds about `weight` positions, or one match.

    The engines cut blocks by number of matches. A match may have any number of events, and the
    structs and texts of a piece must fit in memory. Events that matches share count where they are
    to be listed (`lists`).
    """
    m = len(block.start)
    offsets = block.offsets if lists or not isinstance(block.positions, SharedSpans) else ()
    if m + sum(int(each[-1]) for each in offsets) <= weight:
        if m:
            yield block
        return
    load = np.arange(m + 1, dtype=np.int64) + sum(offsets, start=np.int64(0))
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
    start = _concatenate([block.start for block in blocks])
    end = _concatenate([block.end for block in blocks])
    silenced = [block.suppressed for block in blocks if block.suppressed is not None]
    suppressed = _concatenate(silenced) if silenced else None
    # a block without matches is none of those that share events
    shared = [block.positions for block in blocks if len(block.start)]
    if shared and isinstance(shared[0], SharedSpans) and all(map(shared[0].is_alike, shared)):
        others = [each for each in shared[1:] if isinstance(each, SharedSpans)]
        return share(start, end, shared[0].join(others), suppressed)
    offsets, positions = [], []
    for v in range(width):
        lengths = [np.diff(block.offsets[v]) for block in blocks]
        offsets.append(np.cumsum(np.concatenate([np.zeros(1, np.int64), *lengths])))
        positions.append(_concatenate([block.positions[v] for block in blocks]))
    return MatchBlock(start, end, tuple(offsets), tuple(positions), suppressed)


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
