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

Runs are given as parts of the log (`RunSegment`), which has a label for each event: none is listed.
Entries are never changed after their successor is known, so a segment shares the log as it was, and
lists the events only where these are asked for.

Cost contract: amortized O(1) for each event of a run and condition, O(log n) with a sum. To list
the events of a segment is linear in those of the partitions that have runs in it. Memory: 48 bytes,
and 16 for each condition, for each event that a window still reaches, until `forget_before`.
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


class RunEnds(NamedTuple):
    """The events with which runs end, ascending. Each event of a run ends one."""

    key: Numbers
    start: Numbers
    """The earliest start in the window; -1: it is to be found, if `knows_times`."""
    position: Numbers
    clock: Numbers
    """The time of the event, in units of the window."""
    bound: Numbers
    """The least time inside of the window."""
    label: Numbers
    """What the event is labelled with in each match."""


class RunLog(NamedTuple):
    """The events of runs: their positions, and the entries that follow them."""

    position: Numbers
    key: Numbers
    label: Numbers
    rank: Numbers
    """How many entries of the partition come before."""
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


class RunEvents(NamedTuple):
    """The events of runs: `low` to `high - 1` of those of their partitions, one after another."""

    position: Numbers
    label: Numbers
    low: Numbers
    high: Numbers


class RunSegment(NamedTuple):
    """Runs that reach all numbers, by their ends, as entries of a log."""

    log: RunLog
    key: Numbers
    first: Numbers
    latest: Numbers
    """The latest start from which a run still reaches the numbers; with sums, its part's."""
    last: Numbers
    label: int
    """What all events are labelled with; -1: not all are labelled alike."""

    @property
    def ends(self) -> Numbers:
        """The positions at which the runs end, ascending."""
        return self.log.position[self.last]

    def list_events(self, first: Numbers) -> RunEvents:
        """Return the events of the runs from these entries on."""
        rank = self.log.rank
        order = np.argsort(self.key, kind="stable")
        begins = np.flatnonzero(np.diff(self.key[order], prepend=-1))
        lows = np.minimum.reduceat(first[order], begins)
        highs = np.maximum.reduceat(self.last[order], begins)
        length = rank[highs] - rank[lows] + 1
        offset = np.empty(len(order), np.int64)
        of_key = np.cumsum(length) - length - rank[lows]
        offset[order] = np.repeat(of_key, np.diff(begins, append=len(order)))
        entries = np.empty(length.sum(), np.int64)
        _list_entries(self.log.following, lows, length, entries)
        position, label = self.log.position[entries], self.log.label[entries]
        return RunEvents(position, label, offset + rank[first], offset + rank[self.last] + 1)


class RunEntries(NamedTuple):
    """The log as it is frozen."""

    position: Numbers
    key: Numbers
    label: Numbers
    code: Numbers
    summed: Floats


class RunThresholds:
    """The runs of one stream, and the least numbers that their events are to reach.

    >>> runs, zeros = RunThresholds([2]), np.zeros(3, np.int64)
    >>> runs.begin(0, np.array([[7, 7, 8]]))
    >>> kept, latest = runs.add(RunEnds(zeros, zeros, np.arange(3), zeros, zeros, zeros))
    >>> kept.tolist(), latest[kept].tolist()
    ([False, False, True], [1])
    """

    def __init__(self, least: list[int], *, sums: bool = False) -> None:
        """With `sums`, these have to reach a bound as well."""
        self.least = np.array(least, np.int64)
        self._sums = PartSums() if sums else None
        self._bound = SumBound()
        self._known_from = 0
        """Events before this position may have no known time."""
        self._label = -1
        """What all events are labelled with."""
        self._base = 0
        self._codes = np.empty((len(least), 0), np.int64)
        self._values = np.empty((2, 0))
        self._restart()

    def _restart(self) -> None:
        conditions = len(self.least)
        self._size, self._label = 0, -1
        wide = (conditions, _FIRST_ENTRIES)
        self._log = RunLog(*(np.full(_FIRST_ENTRIES, -1) for _ in range(5)), *_fill(wide, wide))
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

    def add(self, runs: RunEnds) -> tuple[NDArray[np.bool_], Numbers]:
        """Add the ends of runs; return which reach all numbers, and from where.

        Starts that are -1 are written. With sums, a run is reached from where its part is.
        """
        codes = np.ascontiguousarray(self._codes[:, runs.position - self._base])
        return self._add(runs, codes, self._values[:, runs.position - self._base])

    @property
    def knows_times(self) -> bool:
        """Whether the times of all events of the log are known; those of a frozen one are not."""
        return not self._size or int(self._log.position[0]) >= self._known_from

    def _add(
        self, runs: RunEnds, codes: Numbers, values: Floats
    ) -> tuple[NDArray[np.bool_], Numbers]:
        keys, starts = runs.key, runs.start
        self._reserve(len(keys), int(keys.max(initial=0)) + 1, int(codes.max(initial=0)) + 1)
        kept, latest = np.zeros(len(keys), np.bool_), np.zeros(len(keys), np.int64)
        log, size = self._log, self._size
        added = slice(size, size + len(keys))
        log.position[added], log.key[added], log.label[added] = runs.position, keys, runs.label
        log.code[:, added] = codes
        if len(keys):
            known = self._label if size else int(runs.label[0])
            self._label = known if (runs.label == known).all() else -1
        self._clocks[added] = runs.clock
        _link_runs(log, self._counts, self._clocks, runs.bound, size, starts)
        _count_runs(log, self._counts, self.least, size, starts, kept, latest)
        if self._sums is not None:
            self._added[:, added] = values
            first = self._sums.add(keys, runs.position, starts, values, self._bound)
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

    def take(self, runs: RunEnds, latest: Numbers) -> RunSegment:
        """Return runs that were added, with their latest starts."""
        positions = self._log.position[: self._size]
        first, latest, last = (
            np.searchsorted(positions, each) for each in (runs.start, latest, runs.position)
        )
        return RunSegment(self._log, runs.key, first, latest, last, self._label)

    # ----------------------------------------------------------- forgetting

    @property
    def entries(self) -> RunEntries:
        """The log, and what is summed."""
        log, size = self._log, self._size
        summed = self._added[:, :size] if self._sums is not None else np.empty((0, size))
        position, key, label = (each[:size] for each in (log.position, log.key, log.label))
        return RunEntries(position, key, label, log.code[:, :size], summed)

    def restore(self, entries: RunEntries) -> None:
        """Begin again with a log, whose times are not known."""
        self._fill_log(entries, np.zeros_like(entries.position))
        self._known_from = int(entries.position.max(initial=-1)) + 1

    def _fill_log(self, entries: RunEntries, clocks: Numbers) -> None:
        self._restart()
        nowhere, bounds = np.full(len(clocks), -1), np.full(len(clocks), FOREVER)
        runs = RunEnds(entries.key, nowhere, entries.position, clocks, bounds, entries.label)
        self._add(runs, np.ascontiguousarray(entries.code), entries.summed)

    def _keep(self, kept: NDArray[np.bool_], keys: Numbers, codes: Numbers) -> None:
        """Keep some entries, with these partitions and codes."""
        old = self.entries
        clocks, begins = self._clocks[: self._size], np.zeros(self._size, np.bool_)
        begins[self._counts.begin[self._counts.begin >= 0]] = True
        position, label, summed = old.position[kept], old.label[kept], old.summed[:, kept]
        self._fill_log(RunEntries(position, keys, label, codes, summed), clocks[kept])
        own = np.flatnonzero(begins[kept])  # one that is gone has left the window
        self._counts.begin[keys[own]] = own

    def recode(self, codes: Numbers) -> None:
        """Give the events other codes."""
        keys = self._log.key[: self._size].copy()
        self._keep(np.ones(self._size, np.bool_), keys, codes)

    def forget_before(self, position: int) -> None:
        """Drop the events before a position, which no window reaches."""
        entries = self.entries
        kept = entries.position >= position
        if 2 * np.count_nonzero(kept) <= self._size:
            self._keep(kept, entries.key[kept], entries.code[:, kept])

    def keep_keys(self, keys: Numbers) -> None:
        """Renumber partitions: keys[i] becomes i, and all others are dropped."""
        entries = self.entries
        kept = np.isin(entries.key, keys)
        self._keep(kept, np.searchsorted(keys, entries.key[kept]), entries.code[:, kept])


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
        log.rank[entry] = 0
        if counts.last[key] >= 0:
            log.following[counts.last[key]] = entry
            log.rank[entry] = log.rank[counts.last[key]] + 1
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
def _list_entries(following, first, length, entries):
    """Write so many entries of partitions, from `first` on."""
    number = 0
    for i in range(len(first)):
        entry = first[i]
        for _ in range(length[i]):
            entries[number] = entry
            number += 1
            entry = following[entry]
