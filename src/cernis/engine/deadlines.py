"""`Deadlines`: entries that wait until their deadline, unless something removes them before.

For `WITHOUT … FOR`. An *entry* is one match that waits, or all matches of one end. It stands in two
queues, both in the order of ends. One occurrence of the guard removes entries of one *bucket*; one
clock brings the entries of one *line* to their deadlines. If deadlines are times, the whole stream
is one line; if they count events, each partition is a line.

An occurrence of the guard that starts at s removes the entries of its bucket that ended before s.
They are the first of the queue, so nothing is scanned: each entry joins a queue once and leaves it
once. Of several occurrences with one end, the one that starts latest removes the most, so it alone
is needed.

Payloads ascend with ends.

Cost contract: amortized O(1) per entry, per occurrence, and per event where deadlines count events.
Memory is linear in the waiting entries: removed ones are dropped when they are the majority.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import borrowing as kernel
from cernis.compiled import read_only
from cernis.engine.renumber import list_distinct, renumber
from cernis.state import Sizes, Tree, array, at_least_one, frozen_record, require, write

Numbers = NDArray[np.int64]

NOWHERE = -1
_FIRST = 1 << 10
_PAIRS = 1 << 16
"""So many pairs of an occurrence and an entry are listed at once."""


class Entries(NamedTuple):
    """Entries that wait, in the order of ends, one index in all arrays for each."""

    end: Numbers
    deadline: Numbers
    """In units of the clock: times, or ranks in the partition."""
    bucket: Numbers
    line: Numbers
    position: Numbers
    """The position of the event at the deadline, where it counts events; -1 before that."""
    payload: Numbers
    """The owner's number for the entry."""
    waits: Numbers
    """1, or 0 once it is removed or certain."""
    after: Numbers
    """The next entry of the bucket."""
    follows: Numbers
    """The next entry of the line."""


class Queues(NamedTuple):
    """The first and the last entry of each bucket and of each line."""

    bucket_first: Numbers
    bucket_last: Numbers
    line_first: Numbers
    line_last: Numbers


class Arrivals(NamedTuple):
    """Entries that begin to wait, in the order of ends."""

    end: Numbers
    deadline: Numbers
    bucket: Numbers
    line: Numbers
    payload: Numbers


class Occurrences(NamedTuple):
    """Occurrences of the guard: end, latest start, bucket, and the clock at the end."""

    end: Numbers
    start: Numbers
    bucket: Numbers
    clock: Numbers


class Certain(NamedTuple):
    """Entries whose deadline has passed, in the order in which they became certain."""

    end: Numbers
    payload: Numbers
    position: Numbers


@frozen_record
class FrozenDeadlines:
    """The entries that wait, in the order of ends; each knows its owner by its rank."""

    end: Numbers = array(np.int64, "entries")
    deadline: Numbers = array(np.int64, "entries")
    bucket: Numbers = array(np.int64, "entries", low=-1, below=at_least_one("buckets"))
    line: Numbers = array(np.int64, "entries", low=-1, below=at_least_one("lines"))
    moment: Numbers = array(np.int64, "entries", low=-1, below="position")
    payload: Numbers = array(np.int64, "entries")

    def check(self, sizes: Sizes) -> None:
        require(bool((np.diff(self.end) >= 0).all()), "ends are not in order")
        is_whole = np.array_equal(self.payload, np.arange(len(self.end)))
        require(is_whole, "the matches that wait are not those that have a deadline")


@kernel
def _join(first, last, following, name, entry):
    """Append an entry to the queue of that name."""
    if first[name] < 0:
        first[name] = entry
    else:
        following[last[name]] = entry
    last[name] = entry


@kernel
def _meet(entries, queues, begin, count, occurrences):
    """Let the entries from `begin` on join their queues, and the occurrences remove entries.

    Both are in the order of their ends. Return how many entries were removed.
    """
    entry = begin
    removed = 0
    for i in range(len(occurrences.end)):
        while entry < count and entries.end[entry] < occurrences.end[i]:
            _enter(entries, queues, entry)
            entry += 1
        bucket = occurrences.bucket[i]
        if bucket < 0 or bucket >= len(queues.bucket_first):
            continue
        front = queues.bucket_first[bucket]
        while front >= 0 and entries.end[front] < occurrences.start[i]:
            # one whose deadline has passed stays: it is certain, and `_pass` finds it
            if entries.deadline[front] >= occurrences.clock[i]:
                entries.waits[front] = 0
                removed += 1
            front = entries.after[front]
        queues.bucket_first[bucket] = front
    while entry < count:
        _enter(entries, queues, entry)
        entry += 1
    return removed


@kernel
def _list_met(entries, queues, occurrences, part, counts, found):
    """Write the entries that some occurrences find, one after the other, and their numbers.

    An empty `found` only counts. Entries that wait no more are dropped from the front.
    """
    number = 0
    for i in range(part[0], part[1]):
        counts[i] = 0
        bucket = occurrences.bucket[i]
        if bucket < 0 or bucket >= len(queues.bucket_first):
            continue
        at = queues.bucket_first[bucket]
        while at >= 0 and entries.waits[at] == 0:
            at = entries.after[at]
        queues.bucket_first[bucket] = at
        while at >= 0 and entries.end[at] < occurrences.start[i]:
            if entries.waits[at] != 0 and entries.deadline[at] >= occurrences.clock[i]:
                if len(found) > 0:
                    found[number] = at
                number += 1
                counts[i] += 1
            at = entries.after[at]


@kernel
def _enter(entries, queues, entry):
    entries.after[entry] = -1
    entries.follows[entry] = -1
    if entries.waits[entry] == 0:
        return
    if entries.bucket[entry] >= 0:
        _join(queues.bucket_first, queues.bucket_last, entries.after, entries.bucket[entry], entry)
    if entries.line[entry] >= 0:
        _join(queues.line_first, queues.line_last, entries.follows, entries.line[entry], entry)


@kernel
def _pass(entries, queues, lines, clocks, base, found, at):
    """Find the entries whose deadline the clocks of their lines pass; return their number.

    Events have a line (or none, -1) and a clock each. An entry at its deadline notes the event.
    """
    for i in range(len(clocks)):
        line = lines[i]
        if line < 0:
            continue
        clock = clocks[i]
        front = queues.line_first[line]
        while front >= 0 and entries.deadline[front] < clock:
            if entries.waits[front] != 0:
                entries.waits[front] = 0
                found[at] = front
                at += 1
                bucket = entries.bucket[front]
                if bucket >= 0 and queues.bucket_first[bucket] == front:
                    queues.bucket_first[bucket] = entries.after[front]
            front = entries.follows[front]
        queues.line_first[line] = front
        if base < 0:
            continue
        while front >= 0 and entries.deadline[front] == clock and entries.position[front] < 0:
            entries.position[front] = base + i
            front = entries.follows[front]
    return at


@kernel
def _find_first(waits):
    """Return the index of the first entry that waits; there is one."""
    at = 0
    while waits[at] == 0:
        at += 1
    return at


class Deadlines:
    """The entries of one stream that wait.

    >>> def numbers(*values):
    ...     return np.array(values, np.int64)
    >>> waiting = Deadlines()
    >>> came = numbers(0, 1, 4), numbers(10, 11, 14), numbers(0, 1, 0), numbers(0, 0, 0)
    >>> paid = Occurrences(numbers(3), numbers(3), numbers(0), numbers(9))
    >>> waiting.meet(Arrivals(*came, numbers(7, 8, 9)), paid)
    >>> waiting.pass_time(numbers(0), numbers(12)).payload.tolist(), len(waiting)
    ([8], 1)
    """

    def __init__(self) -> None:
        self._count = 0
        self._removed = 0
        self._head = 0
        """No entry before this one waits."""
        self._entries = _new_entries(_FIRST)
        self._queues = _new_queues(1, 1)

    def __len__(self) -> int:
        """Return how many entries wait."""
        return self._count - self._removed

    @property
    def _used(self) -> Entries:
        count = self._count
        return Entries._make(array[:count] for array in self._entries)

    def meet(self, arrivals: Arrivals, occurrences: Occurrences) -> None:
        """Add entries, and let the occurrences remove what they find; both in order of ends."""
        begin, count = self._count, self._count + len(arrivals.end)
        buckets = int(arrivals.bucket.max(initial=-1)) + 1
        self._reserve(count, buckets, int(arrivals.line.max(initial=-1)) + 1)
        new, entries = slice(begin, count), self._entries
        entries.end[new] = arrivals.end
        entries.deadline[new] = arrivals.deadline
        entries.bucket[new] = arrivals.bucket
        entries.line[new] = arrivals.line
        entries.position[new] = -1
        entries.payload[new] = arrivals.payload
        entries.waits[new] = 1
        self._count = count
        self._removed += int(_meet(self._entries, self._queues, begin, count, occurrences))

    def pass_time(self, lines: Numbers, clocks: Numbers, base: int = -1) -> Certain:
        """Return the entries whose deadline the clocks pass, in the order in which they do.

        Where deadlines count the events of a partition, there is a clock for each event of a
        batch, and `base` is the position of the first one.
        """
        if not len(self):  # a rule set asks thousands of these
            return self._leave(_NO_ENTRIES)
        self._reserve(0, 0, int(lines.max(initial=-1)) + 1)
        found = np.empty(len(self), np.int64)
        number = int(_pass(self._entries, self._queues, lines, read_only(clocks), base, found, 0))
        return self._leave(found[:number])

    def remove(self, payloads: Numbers) -> None:
        """Remove the entries that the owner knows by these, wherever they stand."""
        used = self._used
        at = np.searchsorted(used.payload, payloads)
        self._removed += int(used.waits[at].sum())
        used.waits[at] = 0

    def find_met(self, occurrences: Occurrences) -> Iterator[tuple[int, Numbers]]:
        """Yield the number of each occurrence that finds entries, and their payloads, ascending.

        It removes nothing; the caller may remove some before it asks for the next.
        """
        entries, queues = self._entries, self._queues
        counts = np.empty(len(occurrences.end), np.int64)
        _list_met(entries, queues, occurrences, (0, len(counts)), counts, np.empty(0, np.int64))
        for low, high in cut_by_sum(counts, _PAIRS):
            found = np.empty(int(counts[low:high].sum()), np.int64)
            _list_met(entries, queues, occurrences, (low, high), counts, found)
            end = 0
            for number in range(low, high):
                begin, end = end, end + int(counts[number])
                at = found[begin:end]
                at = at[entries.waits[at] != 0]
                if len(at):
                    yield number, entries.payload[at]

    def take_all(self) -> Certain:
        """Return all entries that wait, those whose deadline has come first."""
        used = self._used
        found = np.flatnonzero(used.waits)
        unknown = used.position[found] < 0
        rank = np.where(unknown, np.iinfo(np.int64).max, used.position[found])
        found = found[np.lexsort((used.end[found], rank))]
        certain = self._leave(found)
        self._entries.waits[: self._count] = 0
        self._rebuild()
        return certain

    def _leave(self, found: Numbers) -> Certain:
        used = self._used
        certain = Certain(used.end[found], used.payload[found], used.position[found])
        self._removed += len(found)
        if self._removed > max(_FIRST, self._count // 2):
            self._rebuild()
        return certain

    def _reserve(self, entries: int, buckets: int, lines: int) -> None:
        have = len(self._entries.end)
        if entries > have:
            larger = _new_entries(max(entries, 2 * have))
            _fill(larger, self._used)
            self._entries = larger
        queues = self._queues
        more_buckets, more_lines = (
            buckets - len(queues.bucket_first),
            lines - len(queues.line_first),
        )
        if more_buckets > 0 or more_lines > 0:
            larger_queues = _new_queues(
                _grown(len(queues.bucket_first), buckets), _grown(len(queues.line_first), lines)
            )
            for new, old in zip(larger_queues, queues, strict=True):
                new[: len(old)] = old
            self._queues = larger_queues

    def _rebuild(self, buckets: int | None = None, lines: int | None = None) -> None:
        """Drop the entries that do not wait, and queue the others anew."""
        used, queues = self._used, self._queues
        kept = np.flatnonzero(used.waits)
        # there may be far more buckets than entries: only theirs are emptied
        if buckets is None:
            queues.bucket_first[used.bucket[used.bucket >= 0]] = NOWHERE
        else:
            queues = queues._replace(bucket_first=_nothing(buckets), bucket_last=_nothing(buckets))
        if lines is None:
            queues.line_first[used.line[used.line >= 0]] = NOWHERE
        else:
            queues = queues._replace(line_first=_nothing(lines), line_last=_nothing(lines))
        self._queues = queues
        self._count, self._removed, self._head = len(kept), 0, 0
        entries = self._entries
        if len(entries.end) > 8 * max(_FIRST, len(kept)):
            entries = _new_entries(max(_FIRST, 2 * len(kept)))
        for into, values in zip(entries, used, strict=True):
            into[: len(kept)] = values[kept]  # in place: new memory costs more than the copy
        self._entries = entries
        _meet(self._entries, self._queues, 0, self._count, NO_OCCURRENCES)

    # ----------------------------------------------------------- forgetting

    def first_end(self) -> int | None:
        """Return the earliest end that waits."""
        if not len(self):
            return None
        waits = self._entries.waits[self._head : self._count]
        self._head += _find_first(waits)
        return int(self._entries.end[self._head])

    def first_position(self) -> int | None:
        """Return the first event at the deadline of an entry that waits, or None."""
        used = self._used
        positions = used.position[(used.waits != 0) & (used.position >= 0)]
        return int(positions.min()) if len(positions) else None

    def first_deadline(self) -> int | None:
        """Return the earliest deadline, where there is one line."""
        return None if self.first_end() is None else int(self._entries.deadline[self._head])

    def payloads(self) -> Numbers:
        """Return what the owner knows the waiting entries by, in the order of ends."""
        used = self._used
        return np.asarray(used.payload[used.waits != 0], np.int64)

    def buckets(self) -> Numbers:
        """Return the buckets that have entries, ascending."""
        used = self._used
        return list_distinct(used.bucket[used.waits != 0])

    def lines(self) -> Numbers:
        """Return the lines that have entries, ascending."""
        used = self._used
        return list_distinct(used.line[used.waits != 0])

    def rename(
        self,
        *,
        buckets: Numbers | None = None,
        lines: Numbers | None = None,
        payloads: Numbers | None = None,
    ) -> None:
        """Rename: buckets[i] (ascending) becomes i, and so on; entries of others stay alone.

        `payloads` are new payloads for the waiting entries, in their order.
        """
        used = self._used
        if payloads is not None:
            used.payload[used.waits != 0] = payloads
        if buckets is not None:
            used.bucket[:] = renumber(used.bucket, buckets)
        if lines is not None:
            used.line[:] = renumber(used.line, lines)
        self._rebuild(
            None if buckets is None else max(1, len(buckets)),
            None if lines is None else max(1, len(lines)),
        )

    def repeat(self, times: Numbers, payloads: Numbers) -> None:
        """Replace each entry that waits by so many, which the owner knows by `payloads`."""
        self._rebuild()
        used = Entries._make(np.repeat(array, times) for array in self._used)
        self._count = len(payloads)
        self._entries = _fill(_new_entries(max(_FIRST, 2 * self._count)), used)
        self._entries.payload[: self._count] = payloads
        self._rebuild()

    # --------------------------------------------------------------- frozen

    def freeze(self) -> Tree:
        """Return the entries that wait."""
        self._rebuild()
        used = self._used
        own = used.end, used.deadline, used.bucket, used.line, used.position, used.payload
        return write(FrozenDeadlines(*own))

    def thaw(self, frozen: FrozenDeadlines) -> None:
        """Restore the entries that `freeze` returned."""
        own = frozen.end, frozen.deadline, frozen.bucket, frozen.line, frozen.payload
        self.meet(Arrivals(*own), NO_OCCURRENCES)
        self._used.position[:] = frozen.moment


def _grown(have: int, wanted: int) -> int:
    return have if wanted <= have else max(wanted, 2 * have)


def cut_by_sum(counts: Numbers, most: int) -> Iterator[tuple[int, int]]:
    """Yield the pieces of an array whose sums are at most `most`, or of one number; not those of 0.

    >>> list(cut_by_sum(np.array([2, 3, 0, 9, 0]), 5))
    [(0, 3), (3, 4)]
    """
    sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    low = 0
    while low < len(counts) and sums[low] < sums[-1]:
        high = max(low + 1, int(np.searchsorted(sums, sums[low] + most, side="right")) - 1)
        yield low, high
        low = high


def _new_entries(size: int) -> Entries:
    return Entries._make(np.zeros(size, np.int64) for _ in Entries._fields)


def _fill(entries: Entries, used: Entries) -> Entries:
    """Write the first entries, and return all."""
    for into, values in zip(entries, used, strict=True):
        into[: len(values)] = values
    return entries


def _new_queues(buckets: int, lines: int) -> Queues:
    return Queues(_nothing(buckets), _nothing(buckets), _nothing(lines), _nothing(lines))


def _nothing(size: int) -> Numbers:
    return np.full(size, NOWHERE, np.int64)


_NO_ENTRIES = np.empty(0, np.int64)
NO_OCCURRENCES = Occurrences(*(np.empty(0, np.int64) for _ in range(4)))
