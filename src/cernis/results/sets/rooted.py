"""Match sets of an engine: segments of compact sets, each with roots that have an end.

The engines share blocks of matches up to a limit, LIMIT per end position, and samples and pages
by rank. Each engine counts, lists and draws the matches of a root in its own way.

A page skips whole ends by their numbers of matches. Of an end with few matches it lists all, in
the order of `blocks`. Of an end with many it unranks those of the page, one path each: listing
keeps the order of starts in a heap, which cannot be skipped.

Cost contract: `page` costs `counts` once, then O(log ends), and for each end that it touches at
most `LISTED` matches, or the nodes below its root.
"""

from __future__ import annotations

import random
import sys
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from copy import copy
from functools import cached_property
from itertools import accumulate, chain
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from cernis.engine.listing import Listing, split_by_variable
from cernis.results.sets.matchset import MatchBlock, Positions, join, part

_BLOCK = 65_536
LISTED = 1 << 14
"""A page lists the matches of an end that has at most so many."""


class RootedMatches(ABC):
    """The matches of some segments; `most` is the query's LIMIT per end position."""

    def __init__(
        self,
        variables: Sequence[str],
        segments: Sequence[Any],
        labels: Sequence[frozenset[str]],
        most: int | None = None,
    ) -> None:
        self.variables = tuple(variables)
        self._segments = tuple(segments)
        self._labels = list(labels)
        self._most = most

    @property
    def segments(self) -> tuple[Any, ...]:
        """The compact sets, with their roots."""
        return self._segments

    @property
    def labels(self) -> Sequence[frozenset[str]]:
        """The sets of variables that nodes are labelled with."""
        return self._labels

    @property
    def most(self) -> int | None:
        """The query's LIMIT per end position."""
        return self._most

    @abstractmethod
    def _count_roots(self, segment: Any) -> list[int]:
        """Return the number of matches of each root of a segment."""

    @abstractmethod
    def _list_blocks(self, segment: Any, most: int | None, size: int) -> Iterator[MatchBlock]:
        """Give the matches of a segment, at most so many per end, in blocks of about this size."""

    @abstractmethod
    def _draw(self, segment: Any, root: int, ranks: list[int]) -> MatchBlock:
        """Return the matches of one root with these ranks."""

    def _block(self, listing: Listing, segment: Any) -> MatchBlock:
        offsets, positions = split_by_variable(listing, self._labels, self.variables)
        return MatchBlock(listing.start, segment.roots["end"][listing.root], offsets, positions)

    def _block_of_marks(
        self, segment: Any, root: int, starts: Positions, marks: Sequence[NDArray[Any]]
    ) -> MatchBlock:
        """Return matches of one root, each with the records of its marks."""
        every = np.concatenate(marks)
        roots = np.full(len(marks), root, np.int64)
        ends = np.cumsum([0, *map(len, marks)], dtype=np.int64)
        return self._block(Listing(roots, starts, ends, every["position"], every["label"]), segment)

    @cached_property
    def _numbers(self) -> tuple[list[int], ...]:
        found = self._count_segments()
        if self._most is None:
            return tuple(found)
        return tuple(
            _limit_ends(segment.roots["end"], numbers, self._most)
            for segment, numbers in zip(self._segments, found, strict=True)
        )

    def _count_segments(self) -> list[list[int]]:
        """Return the numbers of matches of the roots of each segment."""
        return [self._count_roots(segment) for segment in self._segments]

    def is_empty(self) -> bool:
        return self._most == 0 or not any(len(segment.roots) for segment in self._segments)

    def count(self) -> int:
        return sum(sum(numbers) for numbers in self._numbers)

    def counts(self) -> tuple[Positions, list[int]]:
        ends = np.concatenate([np.empty(0, np.int64), *(s.roots["end"] for s in self._segments)])
        numbers = [number for numbers in self._numbers for number in numbers]
        if (np.diff(ends) > 0).all() and self._most != 0:
            return ends, numbers
        totals: dict[int, int] = {}
        for end, number in zip(ends.tolist(), numbers, strict=True):
            totals[end] = totals.get(end, 0) + number
        kept = {end: number for end, number in totals.items() if number}
        return np.array(list(kept), np.int64), list(kept.values())

    def blocks(self, limit: int | None = None) -> Iterator[MatchBlock]:
        left = limit
        for segment in self._segments:
            bounds = [n for n in (self._most, left) if n is not None]
            most = min(*bounds, sys.maxsize) if bounds else None
            size = _BLOCK if left is None else max(16, min(left, _BLOCK))
            for block in self._list_blocks(segment, most, size):
                if left is None:
                    yield block
                    continue
                if len(block.start) > left:
                    block = part(block, 0, left)
                left -= len(block.start)
                if len(block.start):
                    yield block
                if not left:
                    return

    def of_ends(self, ends: Positions, most: int = 1) -> Iterator[MatchBlock]:
        """Return the first matches, at most so many, of each of these ends, which ascend."""
        chosen = copy(self)
        chosen._most = most if self._most is None else min(most, self._most)
        chosen._segments = tuple(
            segment._replace(roots=segment.roots[np.isin(segment.roots["end"], ends)])
            for segment in self._segments
        )
        return chosen.blocks()

    def at_ends(self, ends: Positions) -> Self:
        """Return the matches of these ends alone, as a set."""
        chosen = copy(self)
        for name in ("_numbers", "_upto"):
            chosen.__dict__.pop(name, None)
        chosen._segments = tuple(
            segment._replace(roots=segment.roots[np.isin(segment.roots["end"], ends)])
            for segment in self._segments
        )
        return chosen

    def sample(self, k: int, seed: int | None) -> MatchBlock:
        total = self.count()
        if k >= total:
            return join(list(self.blocks()), len(self.variables))
        chosen: dict[int, list[int]] = {}
        for rank in sorted(_draw_ranks(total, k, seed)):
            root = bisect_right(self._upto, rank)
            chosen.setdefault(root, []).append(rank - self._before(root))
        return join(
            [self._draw(*self._find_root(root), ranks) for root, ranks in chosen.items()],
            len(self.variables),
        )

    def page(self, offset: int, n: int) -> MatchBlock:
        stop, blocks = min(offset + n, self.count()), []
        while offset < stop:
            root = bisect_right(self._upto, offset)
            segment, index = self._find_root(root)
            roots = _find_end(segment.roots["end"], index)
            begin = root - index + roots.start
            before = self._before(begin)
            upto = [number - before for number in self._upto[begin : begin + len(roots)]]
            high = min(stop - before, upto[-1])
            blocks.append(self._page_of_end(segment, roots, upto, offset - before, high))
            offset = before + high
        return join(blocks, len(self.variables))

    def _page_of_end(
        self, segment: Any, roots: range, upto: list[int], low: int, high: int
    ) -> MatchBlock:
        """Return the matches low to high - 1 of an end; its roots have `upto` so many."""
        found: list[MatchBlock] = []
        if self._most is None and upto[-1] > LISTED:
            before = 0
            for root, after in zip(roots, upto, strict=True):
                ranks = range(max(low, before) - before, min(high, after) - before)
                if ranks:
                    found.append(self._draw(segment, root, list(ranks)))
                before = after
            return join(found, len(self.variables))
        seen, end = 0, segment._replace(roots=segment.roots[roots.start : roots.stop])
        for block in self._list_blocks(end, self._most, _BLOCK):
            size = len(block.start)
            found.append(part(block, min(max(low - seen, 0), size), min(high - seen, size)))
            seen += size
            if seen >= high:
                break
        return join(found, len(self.variables))

    @cached_property
    def _upto(self) -> list[int]:
        """The number of matches up to each root and including it, over all segments."""
        return list(accumulate(chain.from_iterable(self._numbers)))

    @cached_property
    def _first_roots(self) -> list[int]:
        """The number of the first root of each segment."""
        return list(accumulate((len(s.roots) for s in self._segments[:-1]), initial=0))

    def _before(self, root: int) -> int:
        """Return the number of matches of the roots before one."""
        return self._upto[root - 1] if root else 0

    def _find_root(self, root: int) -> tuple[Any, int]:
        """Return the segment of a root, and its index there."""
        which = bisect_right(self._first_roots, root) - 1
        return self._segments[which], root - self._first_roots[which]


def _find_end(ends: NDArray[np.int64], root: int) -> range:
    """Return the roots around one that have its end."""
    first, last = root, root + 1
    while first > 0 and ends[first - 1] == ends[root]:
        first -= 1
    while last < len(ends) and ends[last] == ends[root]:
        last += 1
    return range(first, last)


def _limit_ends(ends: NDArray[np.int64], numbers: list[int], most: int) -> list[int]:
    """Return the numbers with at most so many for one end."""
    left: dict[int, int] = {}
    limited = []
    for end, number in zip(ends.tolist(), numbers, strict=True):
        taken = min(number, left.get(end, most))
        left[end] = left.get(end, most) - taken
        limited.append(taken)
    return limited


def _draw_ranks(total: int, k: int, seed: int | None) -> set[int]:
    """Draw k distinct numbers below total, each set equally likely (Floyd's method)."""
    draw = random.Random(seed)
    ranks: set[int] = set()
    for upper in range(total - k, total):
        rank = draw.randrange(upper + 1)
        ranks.add(upper if rank in ranks else rank)
    return ranks
