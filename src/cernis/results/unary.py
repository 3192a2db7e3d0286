"""The engine's compact sets as a match set.

Cost contract: `count`, `counts` and `sample` are linear in the compact set and never
enumerate; `blocks` has output-linear delay and makes no Python object per match.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cernis.engine.listing import Listing
from cernis.engine.unary.arena import ArenaSegment
from cernis.engine.unary.count import ArenaCounts, count_matches
from cernis.engine.unary.enumerate import list_blocks
from cernis.results.matchset import MatchBlock
from cernis.results.rooted import RootedMatches


class CompactMatches(RootedMatches):
    """The matches of some segments of an arena."""

    def _count_roots(self, segment: ArenaSegment) -> list[int]:
        return count_matches(segment)

    def _list_blocks(
        self, segment: ArenaSegment, most: int | None, size: int
    ) -> Iterator[MatchBlock]:
        for listing in list_blocks(segment, most, size):
            yield self._block(listing, segment)

    def _draw(self, segment: ArenaSegment, root: int, ranks: list[int]) -> MatchBlock:
        counts = ArenaCounts(segment.arena, segment.roots[root])
        paths = [np.array(counts.path(rank), np.int64) for rank in ranks]
        starts = np.array([path[-1] for path in paths])
        marked = [path[segment.arena["label"][path] != 0] for path in paths]
        nodes = np.concatenate(marked)
        listing = Listing(
            np.full(len(ranks), root, np.int64),
            segment.arena["position"][starts],
            np.cumsum([0, *map(len, marked)], dtype=np.int64),
            segment.arena["position"][nodes],
            segment.arena["label"][nodes],
        )
        return self._block(listing, segment)
