"""`RangeSearch`: in which of thousands of ranges the numbers of a column lie.

The bounds of all ranges cut the line into pieces, and a binary tree stands over the pieces. Each
range is kept at the few nodes whose pieces it is made of. The ranges of a number are those at the
nodes above its piece.

Cost contract: per number a binary search, a step for each level of the tree, and one entry for each
range that it lies in. Memory: two entries for each range and level. Turned down: a list of ranges
for each piece, which is quadratic in ranges that overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cernis.events.batch import Bools, Int64s
from cernis.events.source import kind_of
from cernis.pattern.simple_tests import Interval
from cernis.schema import Kind

Floats = NDArray[np.float64]


class RangeSearch:
    """Finds the ranges that numbers lie in.

    >>> search = RangeSearch([Interval(1.0, 3.0), Interval(-np.inf, 2.0), Interval(5.0, 4.0)])
    >>> rows, numbers = search.find(pa.chunked_array([[0, None, 2, 9]]))
    >>> rows.tolist(), numbers.tolist()
    ([0, 2, 2], [1, 0, 1])
    """

    def __init__(self, ranges: Sequence[Interval]) -> None:
        self._lows, self._highs = np.array(ranges, np.float64).reshape(-1, 2).T
        self._points = np.unique(np.concatenate([self._lows, self._highs]))
        # a piece for each point, and one below it
        first = 2 * np.searchsorted(self._points, self._lows) + 1
        last = 2 * np.searchsorted(self._points, self._highs) + 2
        self._levels: list[tuple[Int64s, Int64s]] = []
        """Per level, the ranges at its nodes, and where those of each node begin."""
        some = np.flatnonzero(first < last)
        first, last, pieces = first[some], last[some], 2 * len(self._points) + 1
        while len(some):
            left, right = first & 1 == 1, last & 1 == 1
            nodes = np.concatenate([first[left], last[right] - 1])
            kept = np.concatenate([some[left], some[right]])
            order = np.argsort(nodes, kind="stable")
            begins = np.searchsorted(nodes[order], np.arange(pieces + 1))
            self._levels.append((kept[order], begins))
            first, last, pieces = (first + left) >> 1, last >> 1, (pieces >> 1) + 1
            open_ = first < last
            first, last, some = first[open_], last[open_], some[open_]

    def find(self, column: pa.ChunkedArray) -> tuple[Int64s, Int64s]:
        """Return rows, ascending, and the number of a range of each; some rows have several."""
        values = read_numbers(column)
        rows = np.flatnonzero(values == values)
        values = values[rows]
        below = np.searchsorted(self._points, values)
        is_point = self._points[np.minimum(below, len(self._points) - 1)] == values
        piece = 2 * below + is_point
        found, numbers = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for level, (kept, begins) in enumerate(self._levels):
            node = piece >> level
            counts = begins[node + 1] - begins[node]
            before = np.cumsum(counts) - counts
            at = np.repeat(begins[node] - before, counts) + np.arange(counts.sum())
            found.append(np.repeat(rows, counts))
            numbers.append(kept[at])
        order = np.lexsort((np.concatenate(numbers), np.concatenate(found)))
        return np.concatenate(found)[order], np.concatenate(numbers)[order]

    def count(self, column: pa.ChunkedArray) -> Int64s:
        """Return how many numbers lie in each range."""
        values = np.sort(read_numbers(column))
        values = values[values == values]
        last = np.searchsorted(values, self._highs, side="right")
        counts: Int64s = np.maximum(last - np.searchsorted(values, self._lows), 0)
        return counts

    def holds(self, values: Floats, numbers: Int64s) -> Bools:
        """Return whether each value lies in the range with its number."""
        within: Bools = (self._lows[numbers] <= values) & (values <= self._highs[numbers])
        return within


def read_numbers(column: pa.ChunkedArray) -> Floats:
    """Return the numbers of a column as floats; NaN where there is none."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    numbers: Floats = pc.fill_null(column.cast(pa.float64(), safe=False), np.nan).to_numpy()
    return numbers


def split_numbers(column: pa.ChunkedArray) -> Floats:
    """Return numbers as floats, and what these round off; NULL is 0, and NaN what is no number.

    >>> split_numbers(pa.chunked_array([[2**53 + 1, None]])).tolist()
    [[9007199254740992.0, 0.0], [1.0, 0.0]]
    """
    pairs = np.zeros((2, len(column)))
    is_known = np.asarray(column.is_valid())
    if kind_of(column.type) not in (Kind.INT, Kind.FLOAT):
        pairs[0, is_known] = np.nan
        return pairs
    pairs[0, is_known] = read_numbers(column)[is_known]
    if not pa.types.is_floating(column.type) and not _are_whole(column, pairs[0]):
        rounded = zip(column.to_pylist(), pairs[0].tolist(), strict=True)
        rest = [Fraction(one) - Fraction(own) for one, own in rounded if one is not None]
        pairs[1, is_known] = [float(one) for one in rest]
    return pairs


def _are_whole(column: pa.ChunkedArray, numbers: Floats) -> bool:
    """Return whether numbers are integers that floats have exactly."""
    is_small = np.abs(numbers).max(initial=0) < 2**53
    return bool(is_small) and not pa.types.is_decimal(column.type)
