"""How many matches end at each root of a sliding window, in time that does not grow with it.

The runs of a *group* only become more: a vertex that asks a group gathers all runs that were filed
there at earlier moments. So the numbers of runs by group are a vector, and a moment is a linear map
on it: the identity, and one entry for each pair of a group that a vertex asks and one that it is
filed in. The number of matches of a root is a product of such maps over its window. Products over
sliding windows are kept in two halves (the two-stacks technique of Tangwongsan, Hirzel and
Schneider, *Low-latency sliding-window aggregation*), as `cernis.engine.unary.slide` does:

* the window is split at a moment. Behind it, each group has the number of its runs that began
  there, and for each group at the split, the number of ways from it;
* when all starts behind the split have left the window, the next split is here, and one pass
  backwards finds for each start before it the numbers of its runs in the groups at the split, added
  up from the latest start to the earliest.

Vectors are sparse: a list of cells for each group, found by a hash table.

Cost contract: O(1) amortized for each vertex and each cell that it adds. A group has a cell for
each group at the split that leads to it: as many as stores where all runs of a join key wait
together, whatever the window. In a search tree each value is a group (`count_values`). With many
groups on the way to one, counting gives up, and `cernis.engine.dag.count` counts each root.

Numbers are floats, exact below 2^53. Larger ones are counted again modulo primes below 2^26, whose
products a float holds, and put together by the Chinese remainder theorem.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import borrowing as kernel
from cernis.compiled import inner
from cernis.engine.dag import records as r
from cernis.engine.dag.steps import (
    AskedRanges,
    Chosen,
    Filings,
    Ints,
    SortedValues,
    Steps,
    find_ranks,
    list_groups,
)
from cernis.engine.residues import EXACT, count_large, reduce
from cernis.engine.settings import LAST_TIME

DONE, NO_ROOM, SPENT = range(3)
_CELLS_PER_VERTEX = 64
"""The most cells that a vertex may add, on average."""
_MOST_SPREAD = 8
"""Group numbers with larger gaps, on average, are numbered anew."""


class MomentLog(NamedTuple):
    """Vertices in the order of their moments. `x_first[i]:x_first[i + 1]` are the indices of i."""

    moment_first: Ints
    start: Ints
    asked: Ints
    asked_end: Ints
    """The groups that a vertex asks: from one on to another; -1: a match begins."""
    filed_first: Ints
    filed: Ints
    """The groups that a vertex is filed in."""
    last_asked: Ints
    """Per group, the last moment at which a vertex asks it; -1: none does."""
    root_first: Ints
    """Per vertex, its roots."""
    bound: Ints


class SlideScratch(NamedTuple):
    """Vectors of numbers by group, as lists of cells, and the fronts of the groups at the split."""

    counters: Ints
    """Indices: CELLS and the next ones."""
    epoch: Ints
    """Per group, the pass that its list belongs to."""
    head: Ints
    cell_base: Ints
    """The group at the split that a cell counts from; the number of groups: the runs since."""
    cell_next: Ints
    cell_value: NDArray[np.float64]
    table: Ints
    """A hash table of cells, by pass, group and base."""
    added: Ints
    """Pairs that the vertices of a moment add: (group, base)."""
    added_value: NDArray[np.float64]
    front_epoch: Ints
    front_head: Ints
    """Per group at the split, its earliest start inside the window."""
    front_start: Ints
    front_next: Ints
    front_sum: NDArray[np.float64]
    """Per start, the number of runs from there on."""


CELLS, PASS, ADDED, FRONTS, WORK, SPLIT = range(6)


@inner
def _find_cell(scratch, group, base):
    """Return the index of a cell in the table; it has no cell if it holds another pass."""
    last = len(scratch.table) - 1
    at = (group * 2654435761 + base * 40503 + (base >> 7)) & last
    current = scratch.counters[PASS]
    while scratch.table[at, 0] == current:
        if scratch.table[at, 1] == group and scratch.table[at, 2] == base:
            return at
        at = (at + 1) & last
    return at


@inner
def _add_cell(scratch, group, base, value, prime):
    """Add to a cell of a group's list; return whether there was room."""
    at = _find_cell(scratch, group, base)
    counters = scratch.counters
    counters[WORK] += 1
    if scratch.table[at, 0] == counters[PASS]:
        cell = scratch.table[at, 3]
        scratch.cell_value[cell] = reduce(scratch.cell_value[cell] + value, prime)
        return True
    cell = counters[CELLS]
    if cell == len(scratch.cell_base):
        return False
    counters[CELLS] = cell + 1
    scratch.table[at, 0] = counters[PASS]
    scratch.table[at, 1] = group
    scratch.table[at, 2] = base
    scratch.table[at, 3] = cell
    scratch.cell_base[cell] = base
    scratch.cell_value[cell] = value
    scratch.cell_next[cell] = scratch.head[group]
    scratch.head[group] = cell
    return True


@inner
def _open_list(scratch, group, is_base):
    """Begin the list of a group in this pass: with one way to itself, if it is a base."""
    if scratch.epoch[group] == scratch.counters[PASS]:
        return True
    scratch.epoch[group] = scratch.counters[PASS]
    scratch.head[group] = -1
    return not is_base or _add_cell(scratch, group, group, 1.0, 0.0)


@inner
def _add_later(scratch, group, base, value):
    """Note what the moment adds; return whether there was room."""
    n = scratch.counters[ADDED]
    if n == len(scratch.added):
        return False
    scratch.added[n, 0] = group
    scratch.added[n, 1] = base
    scratch.added_value[n] = value
    scratch.counters[ADDED] = n + 1
    return True


@inner
def _add_all(scratch, prime):
    """Add what the vertices of a moment have noted; return whether there was room."""
    for n in range(scratch.counters[ADDED]):
        group, base = scratch.added[n, 0], scratch.added[n, 1]
        if not _add_cell(scratch, group, base, scratch.added_value[n], prime):
            return False
    scratch.counters[ADDED] = 0
    return True


@inner
def _begin_pass(scratch):
    scratch.counters[PASS] += 1
    scratch.counters[CELLS] = 0
    scratch.counters[ADDED] = 0


@inner
def _split(log, scratch, moment, bound, prime, limit):
    """Split the window before a moment: find the fronts of its groups; return a status."""
    _begin_pass(scratch)
    counters = scratch.counters
    counters[FRONTS] = 0
    counters[SPLIT] = moment
    for m in range(moment - 1, -1, -1):
        if counters[WORK] > limit:
            return SPENT
        for v in range(log.moment_first[m], log.moment_first[m + 1]):
            if log.start[v] < bound:
                if log.asked[v] < 0:
                    return DONE
                continue
            for f in range(log.filed_first[v], log.filed_first[v + 1]):
                group = log.filed[f]
                if not _open_list(scratch, group, log.last_asked[group] >= moment):
                    return NO_ROOM
                cell = scratch.head[group]
                while cell >= 0:
                    base, value = scratch.cell_base[cell], scratch.cell_value[cell]
                    cell = scratch.cell_next[cell]
                    counters[WORK] += 1
                    for asked in range(max(log.asked[v], 0), log.asked_end[v]):
                        if not _add_later(scratch, asked, base, value):
                            return NO_ROOM
                    if log.asked[v] < 0 and not _add_front(
                        scratch, base, log.start[v], value, prime
                    ):
                        return NO_ROOM
        for n in range(counters[ADDED]):
            group = scratch.added[n, 0]
            if not _open_list(scratch, group, log.last_asked[group] >= moment):
                return NO_ROOM
        if not _add_all(scratch, prime):
            return NO_ROOM
    return DONE


@inner
def _add_front(scratch, base, start, value, prime):
    """Put a start before those of a base; return whether there was room."""
    n, split = scratch.counters[FRONTS], scratch.counters[SPLIT]
    if n == len(scratch.front_start):
        return False
    scratch.counters[FRONTS] = n + 1
    after = -1
    if scratch.front_epoch[base] == split:
        after = scratch.front_head[base]
    scratch.front_epoch[base] = split
    scratch.front_head[base] = n
    scratch.front_start[n] = start
    scratch.front_next[n] = after
    if after >= 0:
        value = reduce(value + scratch.front_sum[after], prime)
    scratch.front_sum[n] = value
    return True


@inner
def _sum_front(scratch, base, bound):
    """Return the number of runs that a base has at the split, from a bound on."""
    if scratch.front_epoch[base] != scratch.counters[SPLIT]:
        return 0.0
    at = scratch.front_head[base]
    while at >= 0 and scratch.front_start[at] < bound:
        at = scratch.front_next[at]
    scratch.front_head[base] = at
    return scratch.front_sum[at] if at >= 0 else 0.0


@inner
def _has_front(scratch, group):
    return scratch.front_epoch[group] == scratch.counters[SPLIT] and scratch.front_head[group] >= 0


@inner
def _count_root(scratch, group, bound, prime):
    """Return the number of runs of a group from a bound on."""
    total = 0.0
    since = len(scratch.epoch)
    cell = scratch.head[group]
    while cell >= 0:
        base, value = scratch.cell_base[cell], scratch.cell_value[cell]
        scratch.counters[WORK] += 1
        before = 1.0 if base == since else _sum_front(scratch, base, bound)
        if before > 0 and value > 0:
            total = reduce(total + reduce(before * value, prime), prime)
        cell = scratch.cell_next[cell]
    return total


@kernel
def _slide(log, scratch, prime, limit, out):
    """Count the matches of all roots; return a status."""
    counters = scratch.counters
    since = len(scratch.epoch)
    counters[SPLIT] = -1
    _begin_pass(scratch)
    earliest = np.int64(LAST_TIME)
    for m in range(len(log.moment_first) - 1):
        if counters[WORK] > limit:
            return SPENT
        first, last = log.moment_first[m], log.moment_first[m + 1]
        roots = log.root_first[first]
        if log.root_first[last] > roots and earliest < log.bound[roots]:
            status = _split(log, scratch, m, log.bound[roots], prime, limit)
            if status != DONE:
                return status
            _begin_pass(scratch)
            earliest = np.int64(LAST_TIME)
        for v in range(first, last):
            begins = log.asked[v] < 0
            if begins:
                earliest = min(earliest, log.start[v])
            for i in range(log.root_first[v], log.root_first[v + 1]):
                out[i] = 1.0 if begins and log.start[v] >= log.bound[i] else 0.0
            for f in range(log.filed_first[v], log.filed_first[v + 1]):
                if begins and not _add_later(scratch, log.filed[f], since, 1.0):
                    return NO_ROOM
            for asked in range(max(log.asked[v], 0), log.asked_end[v]):
                counters[WORK] += 1
                if not _open_list(scratch, asked, _has_front(scratch, asked)):
                    return NO_ROOM
                for i in range(log.root_first[v], log.root_first[v + 1]):
                    more = _count_root(scratch, asked, log.bound[i], prime)
                    out[i] = reduce(out[i] + more, prime)
                for f in range(log.filed_first[v], log.filed_first[v + 1]):
                    cell = scratch.head[asked]
                    while cell >= 0:
                        base, value = scratch.cell_base[cell], scratch.cell_value[cell]
                        counters[WORK] += 1
                        if not _add_later(scratch, log.filed[f], base, value):
                            return NO_ROOM
                        cell = scratch.cell_next[cell]
        for n in range(counters[ADDED]):
            group = scratch.added[n, 0]
            if not _open_list(scratch, group, _has_front(scratch, group)):
                return NO_ROOM
        if not _add_all(scratch, prime):
            return NO_ROOM
    return DONE


def count_sliding(memory: r.RunMemory, chosen: Chosen) -> list[int] | None:
    """Return the number of matches of every root; None: groups are too many, or not known."""
    log = _log_groups(memory, chosen)
    return None if log is None else count_log(log)


def count_values(steps: Steps, filings: Filings) -> list[int] | None:
    """Return the number of matches of every root; None: groups are too many.

    The runs of a search tree with one value are a group, and a range of the tree is many groups.
    """
    log = _log_values(steps, filings)
    return None if log is None else count_log(log)


def count_log(log: MomentLog) -> list[int] | None:
    """Return the number of matches of every root; None: groups are too many."""
    groups, roots = len(log.last_asked), len(log.bound)
    limit = limit_work(log.start)
    out = np.empty(roots, np.float64)
    # a table with more room than needed costs more: it does not stay in the cache
    room = _count_into(log, groups, 0.0, limit, out, 1024)
    if not room:
        return None
    if not len(out) or out.max() < EXACT:
        counts: list[int] = out.astype(np.int64).tolist()
        return counts
    if out.max() == inf:
        return None

    def count(prime: float) -> NDArray[np.float64]:
        found = np.empty(roots, np.float64)
        _count_into(log, groups, prime, limit, found, room)
        return found

    return count_large(count, float(out.max()), lambda: 0)


def _count_into(
    log: MomentLog, groups: int, prime: float, limit: int, out: NDArray[np.float64], room: int
) -> int:
    """Count modulo a prime, with so much room at first; return the room, 0: it takes too long."""
    while True:
        scratch = _new_scratch(groups, room)
        status = _slide(log, scratch, prime, limit, out)
        if status != NO_ROOM or room > limit // _CELLS_PER_VERTEX * 4:
            return room if status == DONE else 0
        room *= 4


def limit_work(vertices: Ints) -> int:
    """Return the most cells that may be touched."""
    return _CELLS_PER_VERTEX * (len(vertices) + 1024)


def _new_scratch(groups: int, room: int) -> SlideScratch:
    def zeros(size: int) -> Ints:
        return np.zeros(size, np.int64)

    return SlideScratch(
        counters=zeros(6),
        epoch=zeros(groups),
        head=zeros(groups),
        cell_base=zeros(room),
        cell_next=zeros(room),
        cell_value=np.zeros(room, np.float64),
        table=np.zeros((2 * room, 4), np.int64),
        added=np.zeros((room, 2), np.int64),
        added_value=np.zeros(room, np.float64),
        front_epoch=zeros(groups),
        front_head=zeros(groups),
        front_start=zeros(room),
        front_next=zeros(room),
        front_sum=np.zeros(room, np.float64),
    )


def _log_groups(memory: r.RunMemory, chosen: Chosen) -> MomentLog | None:
    """Return the vertices, with the groups that they ask and are filed in; None: some have none.

    Ranges of search trees, and states that were frozen before there were groups, have 0.
    """
    asking = chosen.vertices["count"] > 0
    asked = np.full(len(chosen.start), -1, np.int64)
    asked[asking] = memory.sources["group"][chosen.vertices["first"][asking]]
    filed = list_groups(memory, chosen)
    both = np.concatenate([asked[asking], filed.item])
    least, most = int(both.min(initial=1)), int(both.max(initial=1))
    if least == 0:
        return None
    groups = most - least + 1
    if groups > _MOST_SPREAD * (len(both) + 1024):
        names, both = np.unique(both, return_inverse=True)
        groups, least = len(names), 0
    asked[asking], item = np.split(both - least, [np.count_nonzero(asking)])
    return MomentLog(
        chosen.moment_first,
        chosen.start,
        asked,
        asked + asking,
        filed.first,
        item,
        find_last_asked(chosen.moment_first, asked, asked + asking, groups),
        chosen.root_first,
        chosen.bound,
    )


@kernel
def _note_asked(moment_first, asked, asked_end, last_asked):
    """Note the last moment at which each group is asked."""
    for m in range(len(moment_first) - 1):
        for v in range(moment_first[m], moment_first[m + 1]):
            for group in range(max(asked[v], 0), asked_end[v]):
                last_asked[group] = m


def _log_values(steps: Steps, filings: Filings) -> MomentLog | None:
    """Return the vertices, with a group for each value of a search tree; None: groups are many."""
    groups = number_values(steps, filings)
    if np.sum(groups.asked_end - groups.asked) > limit_work(steps.start):
        return None
    return MomentLog(
        steps.moment_first,
        steps.start,
        groups.asked,
        groups.asked_end,
        steps.filing_first,
        groups.filed[steps.filings],
        find_last_asked(steps.moment_first, groups.asked, groups.asked_end, groups.number),
        steps.root_first,
        steps.bound,
    )


class ValueGroups(NamedTuple):
    """The groups of a log in which each value of a search tree is one."""

    number: int
    filed: Ints
    """Per filing, its group."""
    asked: Ints
    asked_end: Ints
    """Per vertex, the groups that it asks; -1: none."""


def number_values(steps: Steps, filings: Filings) -> ValueGroups:
    """Number the values of all indexes, and find those that each vertex asks."""
    order = np.lexsort((filings.low, filings.high, filings.home))
    new = np.ones(len(order), np.bool_)
    index, high, low = filings.home[order], filings.high[order], filings.low[order]
    new[1:] = (index[1:] != index[:-1]) | (high[1:] != high[:-1]) | (low[1:] != low[:-1])
    group = np.empty(len(order), np.int64)
    group[order] = np.cumsum(new) - 1
    first = np.flatnonzero(new)
    asked, asked_end = np.full((2, len(steps.asked)), -1, np.int64)
    asking = np.flatnonzero(steps.asked >= 0)
    wanted = steps.asked[asking]
    index_first = np.searchsorted(index[first], np.arange(int(wanted.max(initial=0)) + 2))
    values = SortedValues(index_first, high[first], low[first])
    ranges = AskedRanges(steps.operator[asking], steps.high[asking], steps.low[asking])
    asked[asking], asked_end[asking] = find_ranks(values, wanted, ranges)
    return ValueGroups(len(first), group, asked, asked_end)


def find_last_asked(moment_first: Ints, asked: Ints, asked_end: Ints, groups: int) -> Ints:
    """Return for each group the last moment at which it is asked, -1: none."""
    last_asked = np.full(groups, -1, np.int64)
    _note_asked(moment_first, asked, asked_end, last_asked)
    return last_asked
