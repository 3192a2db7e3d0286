"""The engine's compact sets as a match set.

Cost contract: `count`, `counts` and `sample` are linear in the compact set and never
enumerate; `blocks` has output-linear delay and makes no Python object per match.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

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
        paths = [segment.arena[np.array(counts.path(rank), np.int64)] for rank in ranks]
        starts = np.array([path["position"][-1] for path in paths], np.int64)
        marks = [path[path["label"] != 0] for path in paths]
        return self._block_of_marks(segment, root, starts, marks)
