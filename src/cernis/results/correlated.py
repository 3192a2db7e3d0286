"""The compact sets of correlated matches as a match set.

Cost contract: `count` and `counts` are linear in the compact set (for ≠ and order: in
the edges of the run DAG); `blocks` is linear in its output; `sample` counts once and
then walks one path per match drawn. Matches of one end position come latest start
first where they fit into one block.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from cernis.engine.correlated.tally import Exact, count_roots
from cernis.engine.correlated.walk import Snapshot, listings
from cernis.engine.enumerate import Listing, by_variable
from cernis.results.compact import distinct_ranks
from cernis.results.matchset import MatchBlock, Positions, join, part, take


class CorrelatedMatches:
    """The matches of some snapshots; `most` is the query's LIMIT per end position."""

    def __init__(
        self,
        variables: Sequence[str],
        snapshots: Sequence[Snapshot],
        labels: Sequence[frozenset[str]],
        most: int | None = None,
    ) -> None:
        self.variables = tuple(variables)
        self._snapshots = tuple(snapshots)
        self._labels = list(labels)
        self._most = most

    @cached_property
    def _numbers(self) -> tuple[list[int], ...]:
        """How many matches each root of each snapshot has."""
        found = [count_roots(snapshot) for snapshot in self._snapshots]
        if self._most is None:
            return tuple(found)
        return tuple(
            _limited(snapshot.roots["end"], numbers, self._most)
            for snapshot, numbers in zip(self._snapshots, found, strict=True)
        )

    def count(self) -> int:
        return sum(sum(numbers) for numbers in self._numbers)

    def counts(self) -> tuple[Positions, list[int]]:
        totals: dict[int, int] = {}
        for snapshot, numbers in zip(self._snapshots, self._numbers, strict=True):
            for end, number in zip(snapshot.roots["end"].tolist(), numbers, strict=True):
                totals[end] = totals.get(end, 0) + number
        kept = {end: number for end, number in totals.items() if number}
        return np.array(list(kept), np.int64), list(kept.values())

    def blocks(
        self, limit: int | None = None, steps: NDArray[np.int64] | None = None
    ) -> Iterator[MatchBlock]:
        left = limit
        for snapshot in self._snapshots:
            most = self._most
            if left is not None:
                most = left if most is None else min(most, left)
            size = 65_536 if left is None else max(16, min(left, 65_536))
            for listing in listings(snapshot, most, size, steps):
                block = _latest_first(self._block(listing, snapshot))
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
            (snapshot, index)
            for snapshot in self._snapshots
            for index in range(len(snapshot.roots))
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

    def _ranked(self, snapshot: Snapshot, index: int, ranks: list[int]) -> MatchBlock:
        """The matches of one root with these ranks."""
        root = snapshot.roots[index]
        exact = Exact(snapshot, int(root["bound"]))
        vertices = snapshot.memory.vertices
        matches = []
        for rank in ranks:
            found = vertices[exact.match(int(root["vertex"]), rank)]
            matches.append(found[np.argsort(-found["position"], kind="stable")])
        marks = np.concatenate(matches)
        listing = Listing(
            np.full(len(ranks), index, np.int64),
            np.array([match["position"][-1] for match in matches], np.int64),
            np.cumsum([0, *map(len, matches)], dtype=np.int64),
            marks["position"],
            marks["label"],
        )
        return self._block(listing, snapshot)

    def _block(self, listing: Listing, snapshot: Snapshot) -> MatchBlock:
        offsets, positions = by_variable(listing, self._labels, self.variables)
        return MatchBlock(listing.start, snapshot.roots["end"][listing.root], offsets, positions)


def _latest_first(block: MatchBlock) -> MatchBlock:
    """The same matches, those of one end position latest start first."""
    order = np.lexsort((-block.start, block.end))
    return block if (np.diff(order) == 1).all() else take(block, order)


def _limited(ends: NDArray[np.int64], numbers: list[int], most: int) -> list[int]:
    """The same, with at most so many for one end."""
    left: dict[int, int] = {}
    limited = []
    for end, number in zip(ends.tolist(), numbers, strict=True):
        taken = min(number, left.get(end, most))
        left[end] = left.get(end, most) - taken
        limited.append(taken)
    return limited
