"""Parts of a list that may overlap: spans, each from `low` to `high - 1`, listed or aggregated.

`fold_spans` keeps, for blocks of 2, 4, 8, … numbers, the totals from the middle of a block outwards
(a disjoint sparse table). The smallest such block that a span lies in has the span on both sides of
its middle, so two totals give the answer. Nothing is subtracted: a sum has no larger error than one
that is added up number by number, and infinite numbers do no harm.

Cost contract: `list_indices` O(what it lists); `fold_spans` O(numbers · log of the longest span),
in NumPy; `count_distinct` amortized O(1) for each span and number, where spans that end later do
not begin earlier.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import kernel

Numbers = NDArray[np.int64]


def list_indices(low: Numbers, high: Numbers) -> Numbers:
    """Return low[i] to high[i] - 1, for one i after another.

    >>> list_indices(np.array([0, 4]), np.array([2, 6]))
    array([0, 1, 4, 5])
    """
    length = high - low
    first: Numbers = np.repeat(low - np.cumsum(length) + length, length)
    return first + np.arange(len(first))


def fold_spans(
    combine: np.ufunc, values: NDArray[Any], low: Numbers, high: Numbers
) -> NDArray[Any]:
    """Return the total of each span by an operation that may be done in any order; empty: 0.

    >>> fold_spans(np.add, np.arange(6), np.array([0, 2, 1]), np.array([6, 3, 1])).tolist()
    [15, 2, 0]
    """
    found = np.zeros(len(low), values.dtype)
    one = high - low == 1
    found[one] = values[low[one]]
    several = np.flatnonzero(high - low > 1)
    first, last = low[several], high[several] - 1
    half = np.int64(1) << (np.frexp((first ^ last).astype(np.float64))[1] - 1).astype(np.int64)
    with np.errstate(over="ignore", invalid="ignore"):
        for size in np.unique(half).tolist():
            own = half == size
            table = _fold_outwards(combine, values, size)
            found[several[own]] = combine(table[first[own]], table[last[own]])
    return found


def _fold_outwards(combine: np.ufunc, values: NDArray[Any], size: int) -> NDArray[Any]:
    """Return the total from each number to the middle of its block of two times `size` numbers."""
    padded = np.zeros(-(-len(values) // (2 * size)) * 2 * size, values.dtype)
    padded[: len(values)] = values
    halves = padded.reshape(-1, 2, size)
    halves[:, 0] = combine.accumulate(halves[:, 0, ::-1], axis=1)[:, ::-1]
    halves[:, 1] = combine.accumulate(halves[:, 1], axis=1)
    return padded


def count_distinct(codes: Numbers, low: Numbers, high: Numbers) -> Numbers:
    """Return how many different codes each span has; -1 does not count.

    >>> count_distinct(np.array([4, 4, -1, 2]), np.array([0, 1]), np.array([3, 4])).tolist()
    [1, 2]
    """
    found = np.zeros(len(low), np.int64)
    seen = np.zeros(int(codes.max(initial=0)) + 1, np.int64)
    _count_distinct(codes, low, high, np.argsort(high, kind="stable"), seen, found)
    return found


@kernel
def _count_distinct(codes, low, high, order, seen, found):
    """Write how many codes each span has; `order` has the spans by their ends."""
    first = last = np.int64(0)
    number = 0
    for i in order:
        if low[i] >= last:  # nothing is shared with the span before
            for at in range(first, last):
                if codes[at] >= 0:
                    seen[codes[at]] = 0
            first = last = low[i]
            number = 0
        while last < high[i]:
            if codes[last] >= 0:
                number += seen[codes[last]] == 0
                seen[codes[last]] += 1
            last += 1
        while first < low[i]:
            if codes[first] >= 0:
                seen[codes[first]] -= 1
                number -= seen[codes[first]] == 0
            first += 1
        while first > low[i]:
            first -= 1
            if codes[first] >= 0:
                number += seen[codes[first]] == 0
                seen[codes[first]] += 1
        found[i] = number
