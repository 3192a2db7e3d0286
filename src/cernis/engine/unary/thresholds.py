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

Sums may become smaller with one more event. Then the match is the part of the run from the earliest
start on for which the sum reaches its bound (`run_sums`), if the counts do as well.

Runs whose events all have one label are given as parts of the log (`RunSegment`): none is listed.

Cost contract: amortized O(1) for each event of a run and condition, O(log n) with a sum. A segment
copies the events of the partitions that have runs in it, each once. Memory: 16 bytes, and 16 for
each condition, for each event that a window still reaches, until `forget_before`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import kernel
from cernis.engine.settings import FOREVER
from cernis.engine.unary.run_sums import PartSums, SumBound, lengthen

Numbers = NDArray[np.int64]
Floats = NDArray[np.float64]

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
    begin: Numbers
    """The entry with which the last run of each partition begins."""
    first: Numbers
    number: Numbers
    latest: Numbers
    """Per condition and code, the last entry that has it; -1: none has."""


class RunSegment(NamedTuple):
    """Runs that reach all numbers, by their ends: events `low` to `high - 1` of those listed."""

    position: Numbers
    """The events of the partitions that have runs, one partition after another."""
    low: Numbers
    latest: Numbers
    """The latest start from which a run still reaches the numbers; with sums, its part's."""
    high: Numbers
    label: int
    """What all events are labelled with."""


class RunThresholds:
    """The runs of one stream, and the least numbers that their events are to reach.

    >>> runs = RunThresholds([2])
    >>> runs.begin(0, np.array([[7, 7, 8]]))
    >>> keys, starts = np.zeros(3, np.int64), np.zeros(3, np.int64)
    >>> runs.decide(keys, starts, np.arange(3)).tolist(), runs.latest_starts.tolist()
    ([False, False, True], [1])
    """

    def __init__(self, least: list[int], *, sums: bool = False) -> None:
        """With `sums`, these have to reach a bound as well."""
        self.least = np.array(least, np.int64)
        self.ends = self.latest_starts = np.empty(0, np.int64)
        """The ends of runs that reach all numbers, and their latest starts, until `drop_ends`.

        With sums, the starts of their parts that reach the bound.
        """
        self.gives_segments = False
        """Whether runs are given as parts of the log."""
        self._sums = PartSums() if sums else None
        self._bound = SumBound()
        self._known_from = 0
        """Events before this position may have no known time."""
        self._base = 0
        self._codes = np.empty((len(least), 0), np.int64)
        self._values = np.empty((2, 0))
        self._restart()

    def _restart(self) -> None:
        conditions = len(self.least)
        self._size = 0
        wide = (conditions, _FIRST_ENTRIES)
        self._log = RunLog(*(np.full(_FIRST_ENTRIES, -1) for _ in range(3)), *_fill(wide, wide))
        self._counts = RunCounts(*np.full((2, 1), -1), *_fill(*[(conditions, 1)] * 3))
        self._clocks = np.empty(_FIRST_ENTRIES, np.int64)
        self._added = np.empty((2, _FIRST_ENTRIES))
        if self._sums is not None:
            self._sums.restart()

    def begin(
        self,
        base: int,
        codes: Numbers,
        values: Floats | None = None,
        bound: SumBound = SumBound(),  # noqa: B008
    ) -> None:
        """Take the codes of a batch whose first event has the position `base`, and what is summed.

        `values` are pairs of floats (`run_sums`).
        """
        self._base, self._codes, self._bound = base, codes, bound
        self._values = np.zeros((2, codes.shape[1])) if values is None else values

    def add(
        self, keys: Numbers, starts: Numbers, ends: Numbers, clocks: Numbers, bounds: Numbers
    ) -> tuple[NDArray[np.bool_], Numbers]:
        """Add the ends of runs, which ascend; return which reach all numbers, and from where.

        `clocks` are the times of the ends in units of the window, and `bounds` the least times
        inside of it. Starts that are -1 are found, and written, if `knows_times`.
        """
        codes = np.ascontiguousarray(self._codes[:, ends - self._base])
        values = self._values[:, ends - self._base]
        return self._add(keys, starts, ends, codes, values, clocks, bounds)

    @property
    def knows_times(self) -> bool:
        """Whether the times of all events of the log are known; those of a frozen one are not."""
        return not self._size or int(self._log.position[0]) >= self._known_from

    def decide(self, keys: Numbers, starts: Numbers, ends: Numbers) -> NDArray[np.bool_]:
        """Add the ends of runs, which ascend, and return which runs reach all numbers."""
        kept, latest = self.add(keys, starts, ends, np.zeros_like(ends), np.zeros_like(ends))
        self.ends = np.concatenate([self.ends, ends[kept]])
        self.latest_starts = np.concatenate([self.latest_starts, latest[kept]])
        return kept

    def _add(
        self,
        keys: Numbers,
        starts: Numbers,
        ends: Numbers,
        codes: Numbers,
        values: Floats,
        clocks: Numbers,
        bounds: Numbers,
    ) -> tuple[NDArray[np.bool_], Numbers]:
        self._reserve(len(keys), int(keys.max(initial=0)) + 1, int(codes.max(initial=0)) + 1)
        kept, latest = np.zeros(len(keys), np.bool_), np.zeros(len(keys), np.int64)
        log, size = self._log, self._size
        log.position[size : size + len(keys)] = ends
        log.key[size : size + len(keys)] = keys
        log.code[:, size : size + len(keys)] = codes
        self._clocks[size : size + len(keys)] = clocks
        _link_runs(log, self._counts, self._clocks, bounds, size, starts)
        _count_runs(log, self._counts, self.least, size, starts, kept, latest)
        if self._sums is not None:
            self._added[:, size : size + len(keys)] = values
            first = self._sums.add(keys, ends, starts, values, self._bound)
            kept, latest = kept & (first >= 0) & (first <= latest), first
        self._size = size + len(keys)
        return kept, latest

    def _reserve(self, entries: int, keys: int, codes: int) -> None:
        """Make room for so many more entries, and for so many partitions and codes."""
        log, counts = self._log, self._counts
        self._log = RunLog(*(lengthen(array, self._size + entries) for array in log))
        self._clocks = lengthen(self._clocks, self._size + entries)
        if self._sums is not None:
            self._added = lengthen(self._added, self._size + entries)
        self._counts = RunCounts(
            lengthen(counts.last, keys),
            lengthen(counts.begin, keys),
            lengthen(counts.first, keys),
            lengthen(counts.number, keys),
            lengthen(counts.latest, codes),
        )

    def take(
        self, keys: Numbers, starts: Numbers, latest: Numbers, ends: Numbers, label: int
    ) -> RunSegment:
        """Return runs that were added, as parts of the log."""
        log, size = self._log, self._size
        first, latest, last = (
            np.searchsorted(log.position[:size], each) for each in (starts, latest, ends)
        )
        order = np.argsort(keys, kind="stable")
        begins = np.flatnonzero(np.diff(keys[order], prepend=-1))
        earliest = np.minimum(first, latest)[order]
        rank, entries = np.empty(size, np.int64), np.empty(size, np.int64)
        number = _list_entries(
            log.following,
            np.minimum.reduceat(earliest, begins) if len(begins) else earliest,
            np.maximum.reduceat(last[order], begins) if len(begins) else last,
            rank,
            entries,
        )
        listed = log.position[entries[:number]]
        return RunSegment(listed, rank[first], rank[latest], rank[last] + 1, label)

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
    def entries(self) -> tuple[Numbers, Numbers, Numbers, Floats]:
        """The positions, partitions and codes of the log, and what is summed."""
        log, size = self._log, self._size
        summed = self._added[:, :size] if self._sums is not None else np.empty((0, size))
        return log.position[:size], log.key[:size], log.code[:, :size], summed

    def restore(self, positions: Numbers, keys: Numbers, codes: Numbers, values: Floats) -> None:
        """Begin again with a log, whose times are not known."""
        self._fill_log(positions, keys, codes, values, np.zeros_like(positions))
        self._known_from = int(positions.max(initial=-1)) + 1

    def _fill_log(
        self, positions: Numbers, keys: Numbers, codes: Numbers, values: Floats, clocks: Numbers
    ) -> None:
        self._restart()
        nowhere = np.full(len(keys), -1)
        bounds = np.full(len(keys), FOREVER)
        codes = np.ascontiguousarray(codes)
        self._add(keys, nowhere, positions, codes, values, clocks, bounds)

    def _keep(self, kept: NDArray[np.bool_], keys: Numbers, codes: Numbers) -> None:
        """Keep some entries, with these partitions and codes."""
        positions, _, _, values = self.entries
        clocks, begins = self._clocks[: self._size], np.zeros(self._size, np.bool_)
        begins[self._counts.begin[self._counts.begin >= 0]] = True
        self._fill_log(positions[kept], keys, codes, values[:, kept], clocks[kept])
        own = np.flatnonzero(begins[kept])  # one that is gone has left the window
        self._counts.begin[keys[own]] = own

    def recode(self, codes: Numbers) -> None:
        """Give the events other codes."""
        keys = self._log.key[: self._size].copy()
        self._keep(np.ones(self._size, np.bool_), keys, codes)

    def forget_before(self, position: int) -> None:
        """Drop the events before a position, which no window reaches."""
        positions, keys, codes, _ = self.entries
        kept = positions >= position
        if 2 * np.count_nonzero(kept) <= self._size:
            self._keep(kept, keys[kept], codes[:, kept])

    def keep_keys(self, keys: Numbers) -> None:
        """Renumber partitions: keys[i] becomes i, and all others are dropped."""
        _, own, codes, _ = self.entries
        kept = np.isin(own, keys)
        self._keep(kept, np.searchsorted(keys, own[kept]), codes[:, kept])


def _fill(*shapes: tuple[int, int]) -> tuple[Numbers, ...]:
    return tuple(np.full(shape, -1) for shape in shapes)


@kernel
def _link_runs(log, counts, clocks, bounds, size, starts):
    """Link the new entries from `size` on; write the starts of runs that are -1.

    Only a run that goes on loses its start to the window: the next one follows in its partition.
    """
    for i in range(len(starts)):
        entry = size + i
        key = log.key[entry]
        if counts.last[key] >= 0:
            log.following[counts.last[key]] = entry
        else:
            counts.begin[key] = entry
        counts.last[key] = entry
        begin = counts.begin[key]
        if starts[i] < 0:
            while begin != entry and clocks[begin] < bounds[i]:
                begin = log.following[begin]
            starts[i] = log.position[begin]
        else:
            while begin != entry and log.position[begin] < starts[i]:
                begin = log.following[begin]
        counts.begin[key] = begin


@kernel
def _count_runs(log, counts, least, size, starts, kept, latest):
    """Write which runs reach all numbers, from the new entries from `size` on, and from where."""
    for i in range(len(starts)):
        entry = size + i
        key = log.key[entry]
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


@kernel
def _list_entries(following, first, last, rank, entries):
    """Write the entries of partitions from `first` to `last`, and the rank of each among them."""
    number = 0
    for i in range(len(first)):
        entry = first[i]
        while True:
            rank[entry], entries[number] = number, entry
            number += 1
            if entry == last[i]:
                break
            entry = following[entry]
    return number
