"""The compact sets of correlated matches as a match set.

Cost contract: `count`, `counts` and `aggregate` are linear in the compact set (for ≠ and order: in
the edges of the run DAG; where a part of the formula has a WITHIN, and where events are compared
across others: in the matches, unless these are many and end in stars that `engine.correlated.count`
counts); `blocks` is linear in its output; `sample` counts once and then walks one path per match
drawn. Matches of one end position come latest start first where they fit into one block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cernis.engine.correlated.count import count_stars
from cernis.engine.correlated.tables import CorrelatedTables
from cernis.engine.dag.count import DagCounts, count_matches
from cernis.engine.dag.count_paths import count_by_paths
from cernis.engine.dag.enumerate import list_blocks
from cernis.engine.dag.links import DagSegment
from cernis.engine.dag.measure import NO_LEAST, VertexWeights, measure_matches, sum_exactly
from cernis.engine.dag.records import VERTICES
from cernis.engine.unary.aggregate import (
    EndAggregates,
    Measure,
    MeasuredColumn,
    MeasuredPairs,
    decode_least,
    encode_least,
    join_found,
)
from cernis.engine.words import to_integers
from cernis.results.sets.matchset import MatchBlock, Positions, join, take
from cernis.results.sets.rooted import RootedMatches

_FEW_MATCHES = 1 << 18
"""So many are listed in less time than it takes to compile another way to count them."""
ReadMeasure = Callable[[Measure, Positions], MeasuredColumn]
"""Reads the values of a measure at the positions of events, which are still stored."""


class CorrelatedMatches(RootedMatches):
    """The matches of some segments of the run DAG."""

    steps: NDArray[np.int64] | None = None
    """Where listing has to search: the vertices looked at, and their limit."""
    spend: Callable[[int], None] | None = None
    """Who hears of the vertices looked at, block by block."""
    tables: CorrelatedTables | None = None
    """What counts the matches of stars, where there are many."""

    _reported = 0

    @property
    def is_timed(self) -> bool:
        """Whether a part of the formula has a WITHIN of its own."""
        return any(len(segment.links.since) for segment in self._segments)

    @property
    def lists_to_count(self) -> bool:
        """Whether matches are listed to count them.

        How many runs are inside a part with a WITHIN depends on its last event, and how many are
        inside a middle on the event before it, so two ends share no number.
        """
        return any(segment.links.is_bounded for segment in self._segments)

    def is_empty(self) -> bool:
        return super().is_empty() or (self.is_timed and not any(True for _ in self.blocks(1)))

    def _count_roots(self, segment: DagSegment) -> list[int]:
        if not segment.links.is_bounded:
            return count_matches(segment)
        numbers = count_by_paths(segment)
        if numbers is None:
            numbers = np.zeros(len(segment.roots), np.int64)
            left, stars = self._count_patience(segment), self.tables
            for listing in list_blocks(segment):
                numbers += np.bincount(listing.root, minlength=len(numbers))
                left -= len(listing.root)
                if left < 0 and stars is not None:
                    counted, stars = count_stars(stars, segment), None
                    if counted is not None:
                        return counted
        found: list[int] = numbers.tolist()
        return found

    @staticmethod
    def _count_patience(segment: DagSegment) -> int:
        """Return how many matches are listed before another way to count them is tried."""
        return _FEW_MATCHES + 2 * int(segment.roots["vertex"].max(initial=0))

    def aggregate(
        self, measures: Sequence[Measure], read: ReadMeasure, stored: int
    ) -> EndAggregates:
        """Return the aggregates of all matches, per root; events are stored from a position on."""
        nothing = np.empty(0, np.int64)
        found = [
            self._aggregate_segment(segment, measures, read, stored) for segment in self._segments
        ]
        return join_found(found) if found else EndAggregates(nothing, nothing)

    def _aggregate_segment(
        self, segment: DagSegment, measures: Sequence[Measure], read: ReadMeasure, stored: int
    ) -> EndAggregates:
        vertices = segment.memory.vertices[: segment.memory.counters[VERTICES]]
        integers: list[NDArray[Any]] = []
        reals: list[NDArray[Any]] = []
        codes: list[NDArray[Any]] = []
        for measure in measures:
            marks = np.array([measure.variable in names for names in self.labels], np.bool_)
            marked = np.flatnonzero(marks[vertices["label"]] & (vertices["position"] >= stored))
            column = read(measure, vertices["position"][marked])
            valid = np.ones(len(marked), np.bool_) if column.valid is None else column.valid
            values = np.zeros(len(marked), np.int64) if column.values is None else column.values
            integers.append(_spread(valid.astype(np.int64), marked, len(vertices)))
            if measure.total:
                weights = _spread(np.where(valid, values, 0), marked, len(vertices))
                (reals if measure.is_real else integers).append(weights)
            for negated in [False] * measure.least + [True] * measure.greatest:
                code = encode_least(values, measure.is_real, negated=negated)
                code = np.where(valid, code, NO_LEAST)
                codes.append(_spread(code, marked, len(vertices), int(NO_LEAST)))
        exact, size = _stack(integers, np.int64, len(vertices)), len(integers)
        floats = exact.astype(np.float64)
        sums = [*floats.T, *np.abs(floats).T, *reals]
        out = measure_matches(
            segment,
            VertexWeights(
                _stack(sums, np.float64, len(vertices)), _stack(codes, np.int64, len(vertices))
            ),
        )
        magnitudes = out.sums[:, [0, *range(1 + size, 1 + 2 * size)]]
        found: NDArray[Any] | None = sum_exactly(segment, exact, magnitudes)
        if found is None:
            found = out.sums[:, : 1 + size].astype(np.int64)
        return _read_measured(segment, measures, found, out.sums[:, 1 + 2 * size :], out.leasts)

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
        if segment.links.is_bounded:
            return self._list_ranks(segment, root, ranks)
        record = segment.roots[root]
        exact = DagCounts(segment, record)
        matches = []
        for rank in ranks:
            found = segment.memory.vertices[exact.match(rank)]
            matches.append(found[np.argsort(-found["position"], kind="stable")])
        starts = np.array([match["position"][-1] for match in matches], np.int64)
        return self._block_of_marks(segment, root, starts, matches)

    def _list_ranks(self, segment: DagSegment, root: int, ranks: list[int]) -> MatchBlock:
        """Return the matches of one root with these ranks, by listing those before them."""
        own = segment._replace(roots=segment.roots[root : root + 1])
        found, seen, wanted = [], 0, np.array(ranks, np.int64)
        for listing in list_blocks(own):
            here = wanted[(wanted >= seen) & (wanted < seen + len(listing.start))] - seen
            found.append(take(self._block(listing, own), here))
            seen += len(listing.start)
        return join(found, len(self.variables))


def _sort_latest_first(block: MatchBlock) -> MatchBlock:
    order = np.lexsort((-block.start, block.end))
    return block if (np.diff(order) == 1).all() else take(block, order)


def _spread(values: NDArray[Any], at: NDArray[np.int64], size: int, fill: int = 0) -> NDArray[Any]:
    """Return an array of a size with these values at these indices, and `fill` elsewhere."""
    wide = np.full(size, fill, values.dtype)
    wide[at] = values
    return wide


def _stack(columns: Sequence[NDArray[Any]], dtype: Any, rows: int) -> NDArray[Any]:
    """Return columns as an array of rows; it may have none."""
    return np.array(columns, dtype).reshape(len(columns), rows).T.copy()


def _read_measured(
    segment: DagSegment,
    measures: Sequence[Measure],
    integers: NDArray[Any],
    reals: NDArray[np.float64],
    codes: NDArray[np.int64],
) -> EndAggregates:
    """Return the aggregates of the roots that have matches."""
    kept = np.flatnonzero(integers[:, 0] > 0)
    numbers = map(to_integers, integers[kept].T)
    totals, leasts = iter(reals[kept].T), iter(codes[kept].T)
    counts, pairs = next(numbers), []
    for measure in measures:
        number = next(numbers)
        total = next(totals if measure.is_real else numbers) if measure.total else None
        least = decode_least(next(leasts), measure.is_real) if measure.least else None
        greatest = None
        if measure.greatest:
            greatest = decode_least(next(leasts), measure.is_real, negated=True)
        pairs.append(MeasuredPairs(number, total, least, greatest))
    return EndAggregates(segment.roots["end"][kept], counts, tuple(pairs))
