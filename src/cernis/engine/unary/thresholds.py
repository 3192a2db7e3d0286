"""Counts over the events of a run, against least numbers: `COUNT(DISTINCT x[a]) >= 4` of `E+ AS x`.

A run is the events of a partition that an iteration of single events takes, from the earliest start
in the window to the end. The engine gives a root for each of them, with that start. Here each root
is asked whether its run has values enough, before a strategy lists any event. One more event never
makes such a condition false. So there is a latest start from which it holds, and that start never
moves back: two pointers, as in sliding-window counting.

The *log* has the events of all runs, linked by partition. Each condition has a code for each event:
equal values have equal codes, `ALONE` differs from all others, and `NOTHING` does not count. An
entry knows the next entry with its code. The different values between two entries are the entries
without such a next one in between, so no table of numbers by value is kept.

Cost contract: amortized O(1) for each event of a run and condition. Memory: 16 bytes, and 16 for
each condition, for each event that a window still reaches, until `forget_before`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import kernel

Numbers = NDArray[np.int64]

NOTHING, ALONE = -1, -2
_FIRST_ENTRIES = 256


class RunLog(NamedTuple):
    """The events of runs: their positions, and the entries that follow them."""

    position: Numbers
    key: Numbers
    following: Numbers
    """The next entry of the partition; -1: there is none."""
    code: Numbers
    again: Numbers
    """Per condition, the next entry with the same code; -1: there is none."""


class RunCounts(NamedTuple):
    """Per condition and partition, the entries that are counted: from `first` on."""

    last: Numbers
    """The last entry of each partition; -1: it has none."""
    first: Numbers
    number: Numbers
    latest: Numbers
    """Per condition and code, the last entry that has it; -1: none has."""


class RunThresholds:
    """The runs of one stream, and the least numbers that their events are to reach.

    >>> runs = RunThresholds([2])
    >>> runs.begin(0, np.array([[7, 7, 8]]))
    >>> keys, starts = np.zeros(3, np.int64), np.zeros(3, np.int64)
    >>> runs.decide(keys, starts, np.arange(3)).tolist(), runs.latest_starts.tolist()
    ([False, False, True], [1])
    """

    def __init__(self, least: list[int]) -> None:
        self.least = np.array(least, np.int64)
        self.ends = self.latest_starts = np.empty(0, np.int64)
        """The ends of runs that reach all numbers, and their latest starts, until `drop_ends`."""
        self._base = 0
        self._codes = np.empty((len(least), 0), np.int64)
        self._restart()

    def _restart(self) -> None:
        conditions = len(self.least)
        self._size = 0
        wide = (conditions, _FIRST_ENTRIES)
        self._log = RunLog(*(np.full(_FIRST_ENTRIES, -1) for _ in range(3)), *_fill(wide, wide))
        self._counts = RunCounts(np.full(1, -1), *_fill(*[(conditions, 1)] * 3))

    def begin(self, base: int, codes: Numbers) -> None:
        """Take the codes of a batch whose first event has the position `base`."""
        self._base, self._codes = base, codes

    def decide(self, keys: Numbers, starts: Numbers, ends: Numbers) -> NDArray[np.bool_]:
        """Add the ends of runs, which ascend, and return which runs reach all numbers."""
        codes = np.ascontiguousarray(self._codes[:, ends - self._base])
        kept, latest = self._add(keys, starts, ends, codes)
        self.ends = np.concatenate([self.ends, ends[kept]])
        self.latest_starts = np.concatenate([self.latest_starts, latest[kept]])
        return kept

    def _add(
        self, keys: Numbers, starts: Numbers, ends: Numbers, codes: Numbers
    ) -> tuple[NDArray[np.bool_], Numbers]:
        self._reserve(len(keys), int(keys.max(initial=0)) + 1, int(codes.max(initial=0)) + 1)
        kept, latest = np.zeros(len(keys), np.bool_), np.zeros(len(keys), np.int64)
        log, size = self._log, self._size
        log.position[size : size + len(keys)] = ends
        log.key[size : size + len(keys)] = keys
        log.code[:, size : size + len(keys)] = codes
        _count_runs(log, self._counts, self.least, size, starts, kept, latest)
        self._size = size + len(keys)
        return kept, latest

    def _reserve(self, entries: int, keys: int, codes: int) -> None:
        """Make room for so many more entries, and for so many partitions and codes."""
        log, counts = self._log, self._counts
        self._log = RunLog(*(_lengthen(array, self._size + entries) for array in log))
        self._counts = RunCounts(
            _lengthen(counts.last, keys),
            _lengthen(counts.first, keys),
            _lengthen(counts.number, keys),
            _lengthen(counts.latest, codes),
        )

    def find_latest(self, ends: Numbers) -> Numbers:
        """Return the latest starts of runs that reach all numbers, and drop those up to them."""
        found = self.latest_starts[np.searchsorted(self.ends, ends)]
        self.drop_ends(int(ends.max(initial=-1)) + 1)
        return found

    def drop_ends(self, position: int) -> None:
        """Drop the latest starts of the runs that end before a position."""
        kept = self.ends >= position
        self.ends, self.latest_starts = self.ends[kept], self.latest_starts[kept]

    # ----------------------------------------------------------- forgetting

    @property
    def entries(self) -> tuple[Numbers, Numbers, Numbers]:
        """The positions, partitions and codes of the log."""
        log, size = self._log, self._size
        return log.position[:size], log.key[:size], log.code[:, :size]

    def restore(self, positions: Numbers, keys: Numbers, codes: Numbers) -> None:
        """Begin again with a log."""
        self._restart()
        self._add(keys, np.full(len(keys), -1), positions, np.ascontiguousarray(codes))

    def forget_before(self, position: int) -> None:
        """Drop the events before a position, which no window reaches."""
        positions, keys, codes = self.entries
        kept = positions >= position
        if 2 * np.count_nonzero(kept) <= self._size:
            self.restore(positions[kept], keys[kept], codes[:, kept])

    def keep_keys(self, keys: Numbers) -> None:
        """Renumber partitions: keys[i] becomes i, and all others are dropped."""
        positions, own, codes = self.entries
        kept = np.isin(own, keys)
        self.restore(positions[kept], np.searchsorted(keys, own[kept]), codes[:, kept])


def _fill(*shapes: tuple[int, int]) -> tuple[Numbers, ...]:
    return tuple(np.full(shape, -1) for shape in shapes)


def _lengthen(array: Numbers, size: int) -> Numbers:
    """Return an array with room for so many numbers in its last dimension."""
    room = array.shape[-1]
    if size <= room:
        return array
    longer = np.full((*array.shape[:-1], max(size, 2 * room)), -1)
    longer[..., :room] = array
    return longer


@kernel
def _count_runs(log, counts, least, size, starts, kept, latest):
    """Link the new entries from `size` on; write which runs reach all numbers, and from where."""
    for i in range(len(starts)):
        entry = size + i
        key = log.key[entry]
        if counts.last[key] >= 0:
            log.following[counts.last[key]] = entry
        counts.last[key] = entry
        holds = True
        latest[i] = log.position[entry]
        for c in range(len(least)):
            first, number = counts.first[c, key], counts.number[c, key]
            if first < 0:
                first, number = entry, 0
            code = log.code[c, entry]
            if code >= 0:
                before = counts.latest[c, code]
                counts.latest[c, code] = entry
                if before >= 0:
                    log.again[c, before] = entry
                if before < first:
                    number += 1
            elif code == ALONE:
                number += 1
            while first != entry:
                own = log.code[c, first]
                less = int(own == ALONE or (own >= 0 and log.again[c, first] < 0))
                if log.position[first] >= starts[i] and number - less < least[c]:
                    break
                number -= less
                first = log.following[first]
            counts.first[c, key], counts.number[c, key] = first, number
            holds = holds and number >= least[c]
            latest[i] = min(latest[i], log.position[first])
        kept[i] = holds
