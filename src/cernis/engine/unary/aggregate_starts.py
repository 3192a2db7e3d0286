"""`StartAggregator`: the aggregates of the matches at each end, per interval of their starts.

The partial matches of a partition that start in one interval belong to a *pair* (partition,
interval), and the sliding kernel takes a pair for a partition: it reads each event once for each
pair of the event's partition, and begins matches in the pair of the event's own interval alone.
Subtracting the matches that start later from all matches would need fewer steps, but sums of floats
lose digits, and no least value can be subtracted.

Cost contract: NumPy per batch; per event, a step of `SlidingAggregator` for each interval in which
its partition has begun matches that the window still reaches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cernis.engine.settings import Settings
from cernis.engine.unary import stacks
from cernis.engine.unary.aggregate import (
    EndAggregates,
    Measure,
    MeasuredColumn,
    SlidingAggregator,
    join_found,
)
from cernis.engine.unary.tables import UnaryTables

PAIR = np.dtype([("key", np.int64), ("interval", np.int64)])
_MOST_COPIES = 1 << 18
"""The kernel reads so many events at once, counted once for each pair, or those of one event."""

Int64s = NDArray[np.int64]


class StartAggregator(SlidingAggregator):
    """One query's state over one stream; `pairs` are sorted, and their numbers are the keys."""

    def __init__(
        self, tables: UnaryTables, settings: Settings, measures: Sequence[Measure] = ()
    ) -> None:
        super().__init__(tables, replace(settings, partitioned=True), measures)
        self.pairs = np.zeros(0, PAIR)
        self._index_pairs()

    def push_started(
        self,
        symbols: NDArray[np.int32],
        columns: Sequence[MeasuredColumn],
        intervals: Int64s,
        lows: Int64s | None = None,
        *,
        keys: Int64s | None = None,
        clocks: Int64s | None = None,
        bounds: Int64s | None = None,
        usable: NDArray[np.uint8] | None = None,
    ) -> EndAggregates:
        """Read a batch of events, which lie in these intervals; return the aggregates of its ends.

        A window in time reaches back to the intervals `lows`.
        """
        keys = np.zeros(len(symbols), np.int64) if keys is None else keys
        self._add_pairs(symbols, keys, intervals)
        first, after = self._find_pairs(keys, intervals, lows)
        base, relevant = self.position, self.relevant
        found = []
        for low, high in _cut_copies(after - first):
            numbers = after[low:high] - first[low:high]
            source = np.repeat(np.arange(low, high), numbers)
            skipped = np.cumsum(numbers) - numbers
            pairs = np.arange(len(source)) + (first[low:high] - skipped)[source - low]

            def copy(array: NDArray[np.generic] | None, source: Int64s = source) -> Any:
                return None if array is None else array[source]

            self.position = base + low
            ended = self.push(
                symbols[source],
                [MeasuredColumn(*map(copy, column)) for column in columns],
                keys=pairs,
                clocks=copy(clocks),
                bounds=copy(bounds),
                usable=copy(usable),
                begins=self.pairs["interval"][pairs] == intervals[source],
            )
            copies = ended.ends - base - low
            found.append(
                replace(
                    ended,
                    ends=base + source[copies],
                    intervals=self.pairs["interval"][pairs[copies]],
                )
            )
        self.position = base + len(symbols)
        self.memory.counters[stacks.RELEVANT] = min(self.relevant, relevant + len(symbols))
        if bounds is not None:
            self._advance_bound(bounds, -1)
        return join_found(found)

    def _add_pairs(self, symbols: NDArray[np.int32], keys: Int64s, intervals: Int64s) -> None:
        """Add the pairs in which events begin matches; drop those that have no partial matches."""
        begins = (self.tables.arrays.start_count[symbols] > 0) & (keys >= 0)
        begun = np.zeros(int(begins.sum()), PAIR)
        begun["key"], begun["interval"] = keys[begins], intervals[begins]
        begun = np.unique(begun)
        first, after = self._find_pairs(begun["key"], begun["interval"], begun["interval"])
        if (first < after).all():
            return
        live = super().live_keys()
        kept = self.pairs[live]
        self.pairs = np.unique(np.concatenate([kept, begun]))
        self._index_pairs()
        numbers = self._find_pairs(kept["key"], kept["interval"], kept["interval"])[0]
        self._renumber(live, numbers, len(self.pairs))

    def _index_pairs(self) -> None:
        self._intervals = np.unique(self.pairs["interval"])
        self._width = len(self._intervals) + 1
        ranks = np.searchsorted(self._intervals, self.pairs["interval"])
        self._words = self.pairs["key"] * self._width + ranks

    def _find_pairs(
        self, keys: Int64s, intervals: Int64s, lows: Int64s | None
    ) -> tuple[Int64s, Int64s]:
        """Return the pairs of each key in the intervals from `lows` on: the first, and that after.

        A negative key has none.
        """
        words = keys * self._width
        low = words if lows is None else words + np.searchsorted(self._intervals, lows)
        high = words + np.searchsorted(self._intervals, intervals, side="right")
        first, after = np.searchsorted(self._words, low), np.searchsorted(self._words, high)
        return first, np.where(keys < 0, first, after)

    def _renumber(self, old: Int64s, new: Int64s, number: int) -> None:
        """Give pairs new numbers; all others must have no partial matches."""
        rows = self.memory.rows
        used = np.flatnonzero(rows["key"] >= 0)
        rows["key"][used] = new[np.searchsorted(old, rows["key"][used])]
        row_of_key = np.full(max(64, 2 * number), -1, np.int32)
        row_of_key[rows["key"][used]] = used
        self.memory = self.memory._replace(row_of_key=row_of_key)

    # ---------------------------------------------------------- partitions

    def live_keys(self) -> Int64s:
        return np.unique(self.pairs["key"][super().live_keys()])

    def drop_keys(self, keys: Int64s) -> None:
        super().drop_keys(np.flatnonzero(np.isin(self.pairs["key"], keys)))

    def keep_keys(self, keys: Int64s) -> None:
        live = super().live_keys()
        self.pairs = self.pairs[live]
        self.pairs["key"] = np.searchsorted(keys, self.pairs["key"])
        self._index_pairs()
        self._renumber(live, np.arange(len(live)), len(live))

    def restore_pairs(self, pairs: NDArray[np.void]) -> None:
        """Go on with the pairs of an aggregator whose memory this one has."""
        self.pairs = pairs
        self._index_pairs()


def _cut_copies(numbers: Int64s) -> list[tuple[int, int]]:
    """Cut events that are read so many times into stretches of not too many copies.

    >>> _cut_copies(np.array([2, 1 << 18, 1]))
    [(0, 1), (1, 2), (2, 3)]
    """
    totals, cuts = np.cumsum(numbers), [0]
    while cuts[-1] < len(numbers):
        before = int(totals[cuts[-1] - 1]) if cuts[-1] else 0
        high = int(np.searchsorted(totals, before + _MOST_COPIES, side="right"))
        cuts.append(max(high, cuts[-1] + 1))
    return list(pairwise(cuts)) or [(0, 0)]
