"""Runs that wait, by the values they have bound: runs of a store with equal values are one entry.

An entry is found in two ways: by all its values, when a run is filed, and by the values of an
index, when a row asks. Both are hash tables with chains; entries leave a chain from its middle,
so chains have links both ways. An *ordered* index has heaps instead of chains (`heaps`), by a
value that rows put a limit on. The runs of an entry are a tree of `dag.unions`; its root is in the
bucket with the number of the entry. Where a store keeps runs in the order of a number, an entry has
all of one join key and one sort of numbers, in a search tree (`trees`); no index has it.

The runs of an entry lie in the same trees as those of a bucket of the correlated runtime
(`dag.unions`, `dag.ordered`); the way to them differs. There, each event has numbers for its
compared values before it is read, and a number is the place of a bucket: to find it takes 1 to 3
ns. Here, the values of a run are those of several rows, any subset of which may be asked for, and a
step makes new combinations of them. So they are hashed in the kernel: 22 ns with 50 values alive,
97 with 100,000. One table for both would make events of the correlated runtime pay that for each
link, where 180 to 280 ns pay for a whole event; numbers for all combinations cannot be given
beforehand.

Cost contract: filing, asking and leaving are O(columns) each. Entries outside the window are
dropped when a row meets them, and by `sweep` before an array grows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import borrowing as kernel
from cernis.compiled import inner
from cernis.engine.dag.ordered import ALL_SHARED
from cernis.engine.dag.records import NOTHING
from cernis.engine.graphs.expressions import INTEGER, LOCAL_INSTANT
from cernis.engine.linked import heaps
from cernis.engine.linked.tables import MOST_INDEXES, STRICT
from cernis.engine.linked.trees import PLAIN

USED, FREE, LIVE, MOVED, CUT, PENDING, FILED, STORE_AT = range(8)
PHASE, ROUND, TOLD, GROUPS, FIRST = range(8, 13)
"""Indices in `counters`: entries ever used, the first free one, how many are in use, how many
are leaving, and how many of these have been cut; runs to file, how many have been filed, the next
store, the phase of the step, how often it has begun a moment, how many notes of `Pending.told` the
moment may need; the last number of a group; the first row of the moment."""
COUNTERS = 13
NO_ENTRY = 0
_PRIME = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)


class WaitingRuns(NamedTuple):
    """The entries and their hash tables. Entry 0 is "nothing"."""

    counters: NDArray[np.int64]
    store: NDArray[np.int32]
    """-1: the entry is free."""
    part: NDArray[np.int32]
    group: NDArray[np.int32]
    """A number for the runs of an entry since it had none."""
    sort: NDArray[np.int32]
    """The sort of numbers in the search tree of an entry; PLAIN: it has none."""
    codes: NDArray[np.int32]
    """The values of an entry; those with a search tree have -2 - sort instead of its number."""
    moved: NDArray[np.int64]
    """The moment at which an entry leaves."""
    after: NDArray[np.int32]
    before: NDArray[np.int32]
    heads: NDArray[np.int32]
    asked_after: NDArray[np.int32]
    asked_before: NDArray[np.int32]
    asked_right: NDArray[np.int32]
    """Links of chains: the entry and index after and before. Of heaps: two below, one above."""
    asked_heads: NDArray[np.int32]
    heaps: NDArray[np.int32]
    key: NDArray[np.float64]
    """Per entry and ordered index, its key in the heap."""
    leaving: NDArray[np.int32]
    found: NDArray[np.int32]
    """Scratch: the entries that a row has asked for; one chain may hold all indexes of all."""
    probe: NDArray[np.int32]
    """Scratch: the values of an entry with a search tree."""
    word: NDArray[np.float64]
    """Scratch of `trees`."""
    limit: NDArray[np.int64]
    """Per entry with rounds under `,`, or with rounds that are ended under `;`: the words of the
    last value that the moment takes, and if smaller ones are taken."""
    shared: NDArray[np.int64]
    """Per entry with a search tree, the first branch that no vertex refers to."""


def new_waiting_runs(size: int, columns: int, indexes: int) -> WaitingRuns:
    """Make room for so many entries; `size` is a power of two."""
    counters = np.zeros(COUNTERS, np.int64)
    counters[USED] = 1
    links = (size, max(indexes, 1))
    return WaitingRuns(
        counters,
        np.full(size, -1, np.int32),
        np.zeros(size, np.int32),
        np.zeros(size, np.int32),
        np.full(size, PLAIN, np.int32),
        np.full((size, columns), -1, np.int32),
        np.full(size, -1, np.int64),
        np.zeros(size, np.int32),
        np.zeros(size, np.int32),
        np.zeros(size, np.int32),
        np.zeros(links, np.int32),
        np.zeros(links, np.int32),
        np.zeros(links, np.int32),
        np.zeros(size, np.int32),
        np.zeros(size, np.int32),
        np.zeros(links, np.float64),
        np.zeros(size, np.int32),
        np.zeros(links[0] * links[1], np.int32),
        np.zeros(columns, np.int32),
        np.zeros(1, np.float64),
        np.zeros((size, 3), np.int64),
        np.full(size, ALL_SHARED),
    )


@inner
def _hash(seed, columns, first, last, codes):
    value = np.uint64(seed + 1) * _PRIME
    for k in range(first, last):
        value = (value ^ np.uint64(codes[columns[k]] + 1)) * _PRIME
        value ^= value >> _SHIFT
    return value


@inner
def _find_chain(tables, waiting, store, codes):
    """Return the chain of a store's entries with these values."""
    first, last = tables.store_first[store], tables.store_first[store + 1]
    value = _hash(store, tables.store_columns, first, last, codes)
    return np.int64(value & np.uint64(len(waiting.heads) - 1))


@inner
def _find_asked_chain(tables, waiting, index, codes):
    """Return the chain of an index that has the entries with these values."""
    first, last = tables.index_first[index], tables.index_first[index + 1]
    value = _hash(index, tables.index_columns, first, last, codes)
    return np.int64(value & np.uint64(len(waiting.asked_heads) - 1))


@inner
def ask(tables, waiting, store, index, codes, limit):
    """Write the entries that an index has for the values of a row; return their number.

    An ordered index omits those above the limit.
    """
    at = _find_asked_chain(tables, waiting, index, codes)
    found = waiting.found
    if tables.index_order[index] != 0:
        number = heaps.list_up_to(waiting, at, limit, found)
    else:
        number = 0
        name = waiting.asked_heads[at]
        while name != 0:
            found[number] = name
            number += 1
            name = waiting.asked_after[_entry(name), _slot_of(name)]
    kept = 0
    for k in range(number):
        entry, slot = _entry(found[k]), _slot_of(found[k])
        mine = waiting.store[entry] == store and tables.index_of[store, slot] == index
        if mine and _agrees(tables, waiting, index, entry, codes):
            found[kept] = entry
            kept += 1
    return kept


@inner
def order_key(order, fact):
    """Return the key of a value in a heap: its number, or for other values the least key."""
    if INTEGER <= fact["kind"] <= LOCAL_INSTANT and fact["number"] == fact["number"]:
        return order * fact["number"]
    return -np.inf


@inner
def _agrees(tables, waiting, index, entry, codes):
    """Return whether an entry has the values of an index that a row has."""
    for k in range(tables.index_first[index], tables.index_first[index + 1]):
        column = tables.index_columns[k]
        if waiting.codes[entry, column] != codes[column]:
            return False
    return True


@inner
def find(tables, waiting, store, codes):
    """Return the entry of a store with these values, or 0."""
    entry = waiting.heads[_find_chain(tables, waiting, store, codes)]
    while entry != NO_ENTRY:
        if waiting.store[entry] == store:
            same = True
            for k in range(tables.store_first[store], tables.store_first[store + 1]):
                column = tables.store_columns[k]
                same = same and waiting.codes[entry, column] == codes[column]
            if same:
                return entry
        entry = waiting.after[entry]
    return NO_ENTRY


@inner
def probe_tree(tables, waiting, store, codes, sort):
    """Write the values of the entry with the search tree of a join key to `probe`."""
    for k in range(tables.store_first[store], tables.store_first[store + 1]):
        column = tables.store_columns[k]
        waiting.probe[column] = codes[column]
    waiting.probe[tables.store_sorted[store]] = -2 - sort


@inner
def enter(tables, facts, waiting, store, part, codes):
    """Make an entry and return it; 0: there is no room."""
    counters = waiting.counters
    entry = counters[FREE]
    if entry != NO_ENTRY:
        counters[FREE] = waiting.after[entry]
    else:
        entry = counters[USED]
        if entry == len(waiting.store):
            return NO_ENTRY
        counters[USED] = entry + 1
    counters[LIVE] += 1
    waiting.store[entry] = store
    waiting.part[entry] = part
    waiting.sort[entry] = PLAIN
    waiting.moved[entry] = -1
    waiting.shared[entry] = 0
    number_group(waiting, entry)
    for column in range(waiting.codes.shape[1]):
        waiting.codes[entry, column] = -1
    for k in range(tables.store_first[store], tables.store_first[store + 1]):
        column = tables.store_columns[k]
        waiting.codes[entry, column] = codes[column]
    ordered = tables.store_sorted[store]
    if ordered >= 0 and codes[ordered] < -1:
        waiting.sort[entry] = -2 - codes[ordered]
    else:
        _note_keys(tables, facts, waiting, entry)
    _link(tables, waiting, entry)
    return entry


@inner
def _note_keys(tables, facts, waiting, entry):
    """Work out the keys of an entry in ordered indexes."""
    store = waiting.store[entry]
    for slot in range(tables.index_of.shape[1]):
        index = tables.index_of[store, slot]
        if index >= 0 and tables.index_order[index] != 0:
            fact = facts[waiting.codes[entry, tables.index_ordered[index]]]
            waiting.key[entry, slot] = order_key(tables.index_order[index], fact)


@inner
def number_group(waiting, entry):
    """Give a new number to the runs of an entry."""
    number = waiting.counters[GROUPS] % 0x7FFFFFFF + 1
    waiting.counters[GROUPS] = number
    waiting.group[entry] = number


@inner
def _link(tables, waiting, entry):
    store, codes = waiting.store[entry], waiting.codes[entry]
    at = _find_chain(tables, waiting, store, codes)
    head = waiting.heads[at]
    waiting.after[entry] = head
    waiting.before[entry] = 0
    if head != 0:
        waiting.before[head] = entry
    waiting.heads[at] = entry
    if waiting.sort[entry] != PLAIN:
        return
    for slot in range(tables.index_of.shape[1]):
        index = tables.index_of[store, slot]
        if index < 0:
            break
        at, name = _find_asked_chain(tables, waiting, index, codes), _name(entry, slot)
        if tables.index_order[index] != 0:
            heaps.insert(waiting, at, name)
            continue
        head = waiting.asked_heads[at]
        waiting.asked_before[entry, slot] = 0
        if head != 0:
            # a chain holds entries of several indexes
            waiting.asked_before[_entry(head), _slot_of(head)] = name
        waiting.asked_heads[at] = name
        waiting.asked_after[entry, slot] = head


@inner
def _name(entry, slot):
    """Return an entry and one of its indexes as one number, for links of chains."""
    return np.int32(entry * MOST_INDEXES + slot)


@inner
def _entry(name):
    return name // MOST_INDEXES


@inner
def _slot_of(name):
    return name % MOST_INDEXES


@inner
def leave(tables, waiting, entry):
    """Take an entry out of all chains."""
    store, codes = waiting.store[entry], waiting.codes[entry]
    before, after = waiting.before[entry], waiting.after[entry]
    if before != 0:
        waiting.after[before] = after
    else:
        waiting.heads[_find_chain(tables, waiting, store, codes)] = after
    if after != 0:
        waiting.before[after] = before
    for slot in range(tables.index_of.shape[1]):
        index = tables.index_of[store, slot]
        if index < 0 or waiting.sort[entry] != PLAIN:
            break
        at = _find_asked_chain(tables, waiting, index, codes)
        if tables.index_order[index] != 0:
            heaps.remove(waiting, at, _name(entry, slot))
            continue
        before, after = waiting.asked_before[entry, slot], waiting.asked_after[entry, slot]
        if before != 0:
            waiting.asked_after[_entry(before), _slot_of(before)] = after
        else:
            waiting.asked_heads[at] = after
        if after != 0:
            waiting.asked_before[_entry(after), _slot_of(after)] = before
    counters = waiting.counters
    waiting.store[entry] = -1
    waiting.after[entry] = counters[FREE]
    counters[FREE] = entry
    counters[LIVE] -= 1


@inner
def latest_start(waiting, dag, entry):
    """Return the latest start of the runs of an entry; NOTHING: it has none."""
    root = dag.buckets[entry]["root"]
    if root == 0:
        return NOTHING
    if waiting.sort[entry] != PLAIN:
        return dag.branches[root]["best"]
    return dag.nodes[root]["start"]


@kernel
def sweep(tables, waiting, dag, before, bound, moment):
    """Drop the entries whose runs have all left the window, or missed their only moment.

    `before` has, per partition, the moment before the last; empty: there are no partitions.
    """
    buckets = dag.buckets
    for entry in range(1, waiting.counters[USED]):
        store = waiting.store[entry]
        if store >= 0:
            gone = latest_start(waiting, dag, entry) < bound
            if tables.store_link[store] == STRICT:
                since = before[waiting.part[entry]] if len(before) > 0 else moment - 1
                gone = gone or buckets[entry]["ordinal"] < since
            if gone:
                buckets[entry]["root"] = 0
                leave(tables, waiting, entry)


@kernel
def relink(tables, waiting):
    """Make all chains anew, after the tables have grown."""
    for entry in range(1, waiting.counters[USED]):
        if waiting.store[entry] >= 0:
            _link(tables, waiting, entry)


@kernel
def thaw_entries(tables, waiting, facts):
    """Work out the keys of all entries, and make all chains anew."""
    for entry in range(1, waiting.counters[USED]):
        if waiting.sort[entry] == PLAIN:
            _note_keys(tables, facts, waiting, entry)
        _link(tables, waiting, entry)
