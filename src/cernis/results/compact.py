"""The engine's compact sets as a match set.

Cost contract: `count`, `counts` and `sample` are linear in the compact set and never
enumerate; `blocks` has output-linear delay and makes no Python object per match.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate

import numpy as np

from cernis.engine.count import Counts, count_matches
from cernis.engine.enumerate import Listing, by_variable, listings
from cernis.engine.runtime import Segment
from cernis.results.matchset import MatchBlock, Positions, join, part


class CompactMatches:
    """The matches of some segments; `most` is the query's LIMIT per end position."""

    def __init__(
        self,
        variables: Sequence[str],
        segments: Sequence[Segment],
        labels: Sequence[frozenset[str]],
        most: int | None = None,
    ) -> None:
        self.variables = tuple(variables)
        self._segments = tuple(segments)
        self._labels = list(labels)
        self._most = most

    @cached_property
    def _numbers(self) -> tuple[list[int], ...]:
        """How many matches each root of each segment has."""
        found = (count_matches(segment.arena, segment.roots) for segment in self._segments)
        if self._most is None:
            return tuple(found)
        return tuple([min(number, self._most) for number in numbers] for numbers in found)

    def count(self) -> int:
        return sum(sum(numbers) for numbers in self._numbers)

    def counts(self) -> tuple[Positions, list[int]]:
        ends = [segment.roots["end"] for segment in self._segments]
        return (
            np.concatenate([np.empty(0, np.int64), *ends]),
            [number for numbers in self._numbers for number in numbers],
        )

    def blocks(self, limit: int | None = None) -> Iterator[MatchBlock]:
        left = limit
        for segment in self._segments:
            most = self._most
            if left is not None:
                most = left if most is None else min(most, left)
            for listing in listings(segment.arena, segment.roots, most, self._block_size(left)):
                block = self._block(listing, segment)
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

    def sample(self, k: int, seed: int | None) -> MatchBlock:
        total = self.count()
        if k >= total:
            return join(list(self.blocks()), len(self.variables))
        roots = [
            (segment, index)
            for segment, numbers in zip(self._segments, self._numbers, strict=True)
            for index in range(len(numbers))
        ]
        upto = list(accumulate(number for numbers in self._numbers for number in numbers))
        chosen: dict[int, list[int]] = {}
        for rank in sorted(distinct_ranks(total, k, seed)):
            root = bisect_right(upto, rank)
            chosen.setdefault(root, []).append(rank - (upto[root - 1] if root else 0))
        return join(
            [self._ranked(*roots[root], ranks) for root, ranks in chosen.items()],
            len(self.variables),
        )

    def _ranked(self, segment: Segment, index: int, ranks: list[int]) -> MatchBlock:
        """The matches of one root with these ranks."""
        counts = Counts(segment.arena, segment.roots[index])
        paths = [np.array(counts.path(rank), np.int64) for rank in ranks]
        starts = np.array([path[-1] for path in paths])
        marked = [path[segment.arena["label"][path] != 0] for path in paths]
        nodes = np.concatenate(marked)
        listing = Listing(
            np.full(len(ranks), index, np.int64),
            segment.arena["position"][starts],
            np.cumsum([0, *map(len, marked)], dtype=np.int64),
            segment.arena["position"][nodes],
            segment.arena["label"][nodes],
        )
        return self._block(listing, segment)

    def _block(self, listing: Listing, segment: Segment) -> MatchBlock:
        offsets, positions = by_variable(listing, self._labels, self.variables)
        return MatchBlock(listing.start, segment.roots["end"][listing.root], offsets, positions)

    @staticmethod
    def _block_size(limit: int | None) -> int:
        return 65_536 if limit is None else max(16, min(limit, 65_536))


def distinct_ranks(total: int, k: int, seed: int | None) -> set[int]:
    """k distinct numbers below total, each set equally likely (Floyd's method)."""
    draw = random.Random(seed)
    ranks: set[int] = set()
    for upper in range(total - k, total):
        rank = draw.randrange(upper + 1)
        ranks.add(upper if rank in ranks else rank)
    return ranks
