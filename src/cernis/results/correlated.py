"""The compact sets of correlated matches as a match set.

Cost contract: `count` and `counts` are linear in the compact set (for ≠ and order: in
the edges of the run DAG); `blocks` is linear in its output; `sample` counts once and
then walks one path per match drawn. Matches of one end position come latest start
first where they fit into one block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from cernis.engine.dag.count import DagCounts, count_matches
from cernis.engine.dag.enumerate import list_blocks
from cernis.engine.dag.links import DagSegment
from cernis.results.matchset import MatchBlock, take
from cernis.results.rooted import RootedMatches


class CorrelatedMatches(RootedMatches):
    """The matches of some segments of the run DAG."""

    steps: NDArray[np.int64] | None = None
    """Where listing has to search: the vertices looked at, and their limit."""
    spend: Callable[[int], None] | None = None
    """Who hears of the vertices looked at, block by block."""

    _reported = 0

    def _count_roots(self, segment: DagSegment) -> list[int]:
        return count_matches(segment)

    def _list_blocks(
        self, segment: DagSegment, most: int | None, size: int
    ) -> Iterator[MatchBlock]:
        for listing in list_blocks(segment, most, size, self.steps):
            self._report_steps()
            yield _sort_latest_first(self._block(listing, segment))

        self._report_steps()

    def _report_steps(self) -> None:
        if self.spend is not None and self.steps is not None:
            steps, self._reported = int(self.steps[0]) - self._reported, int(self.steps[0])
            self.spend(steps)

    def _draw(self, segment: DagSegment, root: int, ranks: list[int]) -> MatchBlock:
        record = segment.roots[root]
        exact = DagCounts(segment, int(record["bound"]))
        matches = []
        for rank in ranks:
            found = segment.memory.vertices[exact.match(int(record["vertex"]), rank)]
            matches.append(found[np.argsort(-found["position"], kind="stable")])
        starts = np.array([match["position"][-1] for match in matches], np.int64)
        return self._block_of_marks(segment, root, starts, matches)


def _sort_latest_first(block: MatchBlock) -> MatchBlock:
    order = np.lexsort((-block.start, block.end))
    return block if (np.diff(order) == 1).all() else take(block, order)
