"""`Precedence`: find the matches that an occurrence of a guard precedes.

For `WITHOUT … BEFORE`. The occurrences of a bucket form a chain in the order of ends. Each one
knows the latest start among itself and those before it. The last occurrence that ends before a
match starts decides: if the latest start that it knows is recent enough, the match is dropped.

Cost contract: O(1) per occurrence. A question walks back over the occurrences of its bucket that
end after the match starts. Memory is linear in the occurrences that a later match can start after.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import borrowing as kernel
from cernis.engine.deadlines import cut_by_sum
from cernis.state import Sizes, Tree, array, at_least_one, frozen_record, read, require, write

Numbers = NDArray[np.int64]

_FIRST = 1 << 10
_PAIRS = 1 << 16
"""So many pairs of a match and an occurrence are listed at once."""
NOTHING = -1


class Chains(NamedTuple):
    """Occurrences in the order of ends, one index in all arrays for each."""

    end: Numbers
    start: Numbers
    """As the window measures it."""
    bucket: Numbers
    latest: Numbers
    """The latest start in the bucket so far."""
    back: Numbers
    """The occurrence of the bucket before it."""


@frozen_record
class FrozenOccurrences:
    """The occurrences, in the order of ends."""

    end: Numbers = array(np.int64, "occurrences", low=0, below=at_least_one("position"))
    start: Numbers = array(np.int64, "occurrences")
    bucket: Numbers = array(np.int64, "occurrences", low=-1, below=at_least_one("buckets"))

    def check(self, sizes: Sizes) -> None:
        require(bool((np.diff(self.end) >= 0).all()), "occurrences are not in order")


@kernel
def _chain(chains, last, begin, count):
    """Append the occurrences from `begin` on to the chains of their buckets."""
    for i in range(begin, count):
        bucket = chains.bucket[i]
        chains.latest[i] = chains.start[i]
        chains.back[i] = -1
        if bucket < 0:
            continue
        before = last[bucket]
        chains.back[i] = before
        if before >= 0 and chains.latest[before] > chains.latest[i]:
            chains.latest[i] = chains.latest[before]
        last[bucket] = i


@kernel
def _bar(chains, last, starts, bounds, buckets, barred):
    """Mark the matches that start after an occurrence which starts at their bound or later."""
    for i in range(len(starts)):
        bucket = buckets[i]
        barred[i] = 0
        if bucket < 0 or bucket >= len(last):
            continue
        at = last[bucket]
        while at >= 0 and chains.end[at] >= starts[i]:
            at = chains.back[at]
        if at >= 0 and chains.latest[at] >= bounds[i]:
            barred[i] = 1


@kernel
def _list_near(chains, last, asked, part, counts, found):
    """Write the occurrences near some matches, one after the other, and their numbers.

    An empty `found` only counts.
    """
    starts, bounds, buckets = asked
    number = 0
    for i in range(part[0], part[1]):
        counts[i] = 0
        if buckets[i] < 0 or buckets[i] >= len(last):
            continue
        at = last[buckets[i]]
        while at >= 0:
            if chains.end[at] < starts[i]:
                if chains.latest[at] < bounds[i]:
                    break
                if chains.start[at] >= bounds[i]:
                    if len(found) > 0:
                        found[number] = at
                    number += 1
                    counts[i] += 1
            at = chains.back[at]


class Precedence:
    """The occurrences of one guard.

    >>> def numbers(*values):
    ...     return np.array(values, np.int64)
    >>> seen = Precedence()
    >>> seen.add(numbers(2, 5), numbers(1, 4), numbers(0, 0))
    >>> seen.find_barred(numbers(4, 6), numbers(2, 3), numbers(0, 0)).tolist()
    [False, True]
    """

    def __init__(self) -> None:
        self._count = 0
        self._chains = _new_chains(_FIRST)
        self._last = np.full(1, NOTHING, np.int64)

    def __len__(self) -> int:
        return self._count

    @property
    def used(self) -> Chains:
        """The occurrences."""
        count = self._count
        return Chains._make(array[:count] for array in self._chains)

    def add(self, ends: Numbers, starts: Numbers, buckets: Numbers) -> None:
        """Add occurrences, in the order of ends."""
        begin, count = self._count, self._count + len(ends)
        if count > len(self._chains.end):
            larger = _new_chains(max(count, 2 * len(self._chains.end)))
            for array, values in zip(larger, self.used, strict=True):
                array[:begin] = values
            self._chains = larger
        most = int(buckets.max(initial=-1)) + 1
        if most > len(self._last):
            more = np.full(max(most, 2 * len(self._last)) - len(self._last), NOTHING, np.int64)
            self._last = np.concatenate([self._last, more])
        new = slice(begin, count)
        self._chains.end[new] = ends
        self._chains.start[new] = starts
        self._chains.bucket[new] = buckets
        self._count = count
        _chain(self._chains, self._last, begin, count)

    def find_barred(self, starts: Numbers, bounds: Numbers, buckets: Numbers) -> NDArray[np.bool_]:
        """Whether an occurrence of the bucket ends before each start, and starts at its bound
        or later."""
        barred = np.empty(len(starts), np.int64)
        _bar(self._chains, self._last, starts, bounds, buckets, barred)
        return np.asarray(barred != 0)

    def find_near(
        self, starts: Numbers, bounds: Numbers, buckets: Numbers
    ) -> Iterator[tuple[int, Numbers]]:
        """Yield the number of each match that occurrences precede, and these occurrences.

        They end before its start, and start at its bound or later. Only where occurrences are kept
        exactly.
        """
        asked = starts, bounds, buckets
        counts = np.empty(len(starts), np.int64)
        part = 0, len(starts)
        _list_near(self._chains, self._last, asked, part, counts, np.empty(0, np.int64))
        for low, high in cut_by_sum(counts, _PAIRS):
            found = np.empty(int(counts[low:high].sum()), np.int64)
            _list_near(self._chains, self._last, asked, (low, high), counts, found)
            end = 0
            for number in range(low, high):
                begin, end = end, end + int(counts[number])
                if end > begin:
                    yield number, found[begin:end]

    def find_last_before(self, position: int) -> NDArray[np.bool_]:
        """Return which occurrences are the last of their bucket that end before a position."""
        used = self.used
        inside = np.flatnonzero(used.end < position)
        is_last = np.zeros(self._count, np.bool_)
        if len(inside):
            _, latest = np.unique(used.bucket[inside][::-1], return_index=True)
            is_last[inside[::-1][latest]] = True
        return is_last

    def keep_only(
        self, kept: NDArray[np.bool_], buckets: Numbers | None = None, *, exact: bool = False
    ) -> None:
        """Drop all occurrences but these.

        `buckets` are new buckets for all occurrences. Unless it must be `exact`, the latest start
        so far replaces the start, so that what is known of earlier ones stays.
        """
        used = self.used
        if buckets is not None:
            used.bucket[:] = buckets
        chosen = Chains._make(array[kept] for array in used)
        self._count = 0
        self._chains = _new_chains(max(_FIRST, 2 * len(chosen.end)))
        self._last = np.full(int(chosen.bucket.max(initial=-1)) + 1 or 1, NOTHING, np.int64)
        self.add(chosen.end, chosen.start if exact else chosen.latest, chosen.bucket)

    def freeze(self) -> Tree:
        """Return the occurrences."""
        used = self.used
        return write(FrozenOccurrences(used.end, used.start, used.bucket))

    def thaw(self, tree: Tree, position: int, buckets: int) -> None:
        """Restore what `freeze` returned; there are so many events before, and buckets."""
        frozen = read(FrozenOccurrences, tree, position=position, buckets=buckets)
        self.add(frozen.end, frozen.start, frozen.bucket)


def _new_chains(size: int) -> Chains:
    return Chains._make(np.zeros(size, np.int64) for _ in Chains._fields)
