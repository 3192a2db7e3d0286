"""The border between the engines, which find matches, and the results, which show them.

A *match set* counts matches, gives them block by block, and draws samples. It has positions
(ranks in the final order of the stream) in arrays only; row numbers, timestamps and events come
from the event store. The compact sets of the engines are implementations (`unary`, `correlated`);
`ListedMatches`, for queries whose matches must be filtered one by one, is another.

Cost contract: `count`, `counts`, `sample` and `page` never enumerate where the set is compact;
`ListedMatches` has paid for its matches already. `blocks` is linear in its output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from cernis.engine.spans import list_indices

Positions = NDArray[np.int64]
Marks = NDArray[np.bool_]


class Spans(NamedTuple):
    """Match i has the events `positions[low[i]:high[i]]`; matches may share them."""

    positions: Positions
    low: Positions
    high: Positions


class SharedSpans(Sequence[Positions]):
    """The positions of matches that are parts of longer lists, which are made when asked for.

    >>> spans = Spans(np.array([3, 5, 9]), np.array([0, 1]), np.array([2, 3]))
    >>> marked = np.array([[True, False, True]])
    >>> shared = SharedSpans(np.array([2, 2]), None, lambda: (spans, marked))
    >>> shared.offsets, shared[0], shared.count_events()
    ((array([0, 1, 2]),), array([3, 9]), array([1, 1]))
    """

    def __init__(
        self,
        length: Positions,
        alike: tuple[bool, ...] | None,
        list_events: Callable[[], tuple[Spans, Marks]],
    ) -> None:
        """`length` are the numbers of events, with those that no variable has.

        `alike` says which variables have all events; None: they have some. `list_events` gives the
        events, and per variable those that it has.
        """
        self._length, self._alike, self._list_events = length, alike, list_events

    @cached_property
    def _listed(self) -> tuple[Spans, Marks]:
        return self._list_events()

    def __len__(self) -> int:
        return len(self._listed[1] if self._alike is None else self._alike)

    @overload
    def __getitem__(self, variable: int) -> Positions: ...

    @overload
    def __getitem__(self, variable: slice) -> tuple[Positions, ...]: ...

    def __getitem__(self, variable: int | slice) -> Positions | tuple[Positions, ...]:
        if isinstance(variable, slice):
            return tuple(self)[variable]
        positions, low, high = self.spans_of(variable)
        return positions[list_indices(low, high)]

    @cached_property
    def offsets(self) -> tuple[Positions, ...]:
        """Per variable, where the events of each match begin among the copied ones."""
        counts = (self._count([variable]) for variable in range(len(self)))
        return tuple(np.concatenate(([0], np.cumsum(each))) for each in counts)

    def count_events(self) -> Positions:
        """Return how many events each match has; one of several variables counts once."""
        return self._count([*range(len(self))])

    def _count(self, variables: list[int]) -> Positions:
        if self._alike is not None:
            return self._length * any(self._alike[each] for each in variables)
        low, high = self._find_marked(np.any(self._listed[1][variables], axis=0))
        return high - low

    def _find_marked(self, marked: NDArray[np.bool_]) -> tuple[Positions, Positions]:
        """Return where matches begin and end among the events that are marked."""
        _, low, high = self._listed[0]
        if marked.all():
            return low, high
        before = np.concatenate(([0], np.cumsum(marked)))
        return before[low], before[high]

    def spans_of(self, variable: int) -> Spans:
        """Return the events of a variable, not copied."""
        spans, marked = self._listed
        return Spans(spans.positions[marked[variable]], *self._find_marked(marked[variable]))

    def take(self, indices: NDArray[np.integer] | slice) -> SharedSpans:
        """Return those of some matches."""

        def list_events() -> tuple[Spans, Marks]:
            (positions, low, high), marked = self._listed
            low, high = low[indices], high[indices]
            last = high.max(initial=0)
            first = min(low.min(initial=len(positions)), last)
            own = slice(first, last)
            return Spans(positions[own], low - first, high - first), marked[:, own]

        return SharedSpans(self._length[indices], self._alike, list_events)

    def join(self, others: Sequence[SharedSpans]) -> SharedSpans:
        """Return these and others over the same variables."""
        every = [self, *others]

        def list_events() -> tuple[Spans, Marks]:
            spans, marked = zip(*(each._listed for each in every), strict=True)
            before = np.cumsum([0, *(len(each.positions) for each in spans)])[:-1]
            low = np.concatenate([own.low + n for own, n in zip(spans, before, strict=True)])
            high = np.concatenate([own.high + n for own, n in zip(spans, before, strict=True)])
            positions = np.concatenate([each.positions for each in spans])
            return Spans(positions, low, high), np.concatenate(marked, axis=1)

        alike = self._alike if all(each._alike == self._alike for each in others) else None
        length = np.concatenate([each._length for each in every])
        return SharedSpans(length, alike, list_events)


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
    held = [block.positions for block in blocks if len(block.start)]
    shared = [each for each in held if isinstance(each, SharedSpans)]
    if shared and len(shared) == len(held):
        return share(start, end, shared[0].join(shared[1:]), suppressed)
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
