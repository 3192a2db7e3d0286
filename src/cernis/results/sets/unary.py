"""The engine's compact sets as a match set.

Matches are counted in one of two ways. The *walk* (`engine.unary.count`) visits, for each end, the
nodes that its window reaches: best where ends are few or the window is narrow, and the only way
where the matches of earlier events are gone. The *aggregator* (`engine.unary.aggregate`) reads the
events of a whole run once more, as symbols, and costs the same per event whatever the window. Where
both are possible the walk goes first and gives up when it has cost as much as the aggregator would,
its compilation included where there is no code of it yet. So a count costs at most about twice the
cheaper way.

Cost contract: `count`, `counts` and `sample` never enumerate; they are linear in the compact
set, or in the events. `blocks` has output-linear delay and makes no Python object per match.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from cernis.engine.unary.aggregate import EndAggregates, is_compiled
from cernis.engine.unary.arena import ArenaSegment
from cernis.engine.unary.best import list_best
from cernis.engine.unary.count import ArenaCounts, count_matches, count_within
from cernis.engine.unary.enumerate import list_blocks
from cernis.engine.words import list_integers
from cernis.results.sets.matchset import MatchBlock, Positions
from cernis.results.sets.rooted import RootedMatches
from cernis.state import require

_NODES_PER_EVENT = 8
"""The walk visits about so many nodes in the time that the aggregator takes for an event."""
_FEW_NODES = 1 << 21
"""A walk of so many nodes takes a tenth of a second: nothing else is tried."""
_COMPILATION = 1 << 7
"""Compiling the aggregator takes as long as so many walks of few nodes."""


class Recount(NamedTuple):
    """Another way to count all matches of a run: how many events it reads, and how it does."""

    events: int
    find_counts: Callable[[], EndAggregates]


Weigh = Callable[[ArenaSegment, Sequence[frozenset[str]]], NDArray[Any] | None]
"""Gives the weight of each node of a segment with these label sets; None: it cannot."""


def _find_spare(weights: NDArray[Any], least: float) -> float:
    """Return by how much the sum of weights may be rounded."""
    heaviest = float(np.abs(weights[np.isfinite(weights)]).max(initial=0.0))
    return 1e-12 * (abs(least) + heaviest * min(len(weights), 1 << 20))


class CompactMatches(RootedMatches):
    """The matches of some segments of an arena."""

    def __init__(
        self,
        variables: Sequence[str],
        segments: Sequence[ArenaSegment],
        labels: Sequence[frozenset[str]],
        most: int | None = None,
        recount: Recount | None = None,
    ) -> None:
        super().__init__(variables, segments, labels, most)
        self._recount = recount

    def at_ends(self, ends: Positions) -> Self:
        chosen = super().at_ends(ends)
        chosen._recount = None  # it counts all ends
        return chosen

    def _count_segments(self) -> list[list[int]]:
        if self._recount is None:
            return super()._count_segments()
        found: list[list[int]] = []
        few = _FEW_NODES if is_compiled() else _FEW_NODES * _COMPILATION
        left = max(few, _NODES_PER_EVENT * self._recount.events)
        for segment in self._segments:
            numbers, visited = count_within(segment, left)
            if numbers is None:
                return self._count_again(self._recount)
            found.append(numbers)
            left -= visited
        return found

    def _count_again(self, recount: Recount) -> list[list[int]]:
        """Return the numbers of matches of the roots; here each end has one root."""
        found = recount.find_counts()
        roots = [segment.roots["end"] for segment in self._segments]
        require(np.array_equal(np.concatenate(roots), found.ends), "matches end elsewhere")
        numbers = list_integers(found.counts)
        sizes = np.cumsum([0, *map(len, roots)]).tolist()
        return [numbers[low:high] for low, high in pairwise(sizes)]

    def _count_roots(self, segment: ArenaSegment) -> list[int]:
        return count_matches(segment)

    def best(
        self, weigh: Weigh, most: int, *, earliest: bool = False, overall: bool = False
    ) -> Iterator[MatchBlock] | None:
        """Return the `most` best matches of each root by weight; None where there are no weights.

        Of equal weights the latest starts come first, or the `earliest` matches. If the best
        `overall` are asked for, others may be missing.
        Cost: one walk over the nodes inside the window of each root, then linear in the answer.
        """
        weights = [weigh(segment, self._labels) for segment in self._segments]
        if any(each is None for each in weights):
            return None
        ranks = _rank_labels(self._labels, self.variables) if earliest else None
        return (
            self._block(listing, segment)
            for segment, own in zip(self._segments, weights, strict=True)
            if own is not None
            for listing in list_best(segment, own, most, ranks, overall=overall)
        )

    def list_heavy(self, weigh: Weigh, least: float, most: int) -> Iterator[MatchBlock] | None:
        """Return the matches of at least a weight, and some that miss it by what is rounded.

        At most so many of each root. None: there are no weights. Cost: as `best`.
        """
        weights = [weigh(segment, self._labels) for segment in self._segments]
        if any(each is None for each in weights):
            return None
        return (
            self._block(listing, segment)
            for segment, own in zip(self._segments, weights, strict=True)
            if own is not None
            for listing in list_best(segment, own, most, least=least - _find_spare(own, least))
        )

    def _list_blocks(
        self, segment: ArenaSegment, most: int | None, size: int
    ) -> Iterator[MatchBlock]:
        for listing in list_blocks(segment, most, size):
            yield self._block(listing, segment)

    def _draw(self, segment: ArenaSegment, root: int, ranks: list[int]) -> MatchBlock:
        counts = ArenaCounts(segment.arena, segment.roots[root])
        paths = [segment.arena[counts.path(rank)] for rank in ranks]
        starts = np.array([path["position"][-1] for path in paths], np.int64)
        marks = [path[path["label"] != 0] for path in paths]
        return self._block_of_marks(segment, root, starts, marks)


def _rank_labels(labels: Sequence[frozenset[str]], variables: Sequence[str]) -> NDArray[np.int64]:
    """Return the order of labels: the one with the first name that only one of two has comes first.

    >>> _rank_labels([frozenset(), frozenset("b"), frozenset("ab")], ["b", "a"]).tolist()
    [2, 1, 0]
    """
    keys = [[name not in label for name in sorted(variables)] for label in labels]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    ranks = np.empty(len(keys), np.int64)
    ranks[order] = np.arange(len(keys))
    return ranks
