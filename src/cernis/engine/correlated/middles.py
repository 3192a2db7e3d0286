"""Runs that wait until the events between are there: `A ; M ; C` where c is compared with a.

The runs of M begin anywhere, and an a is filed in the index that c asks once a run of M that began
after it is complete. So each a in the index has at least one run of M, and c asks it as if a were
its neighbour, by any kind of index. Until then the a's of a partition wait in a search tree by
position. A run of M that began at s lets all go on that came before s: the first ones of the tree.
The bucket's `ordinal` is the position from which on runs still wait; filing the next one trims the
others. Several runs may end at one event: the second word of the tree numbers them, and while some
of them go on, the bucket's `last` is the number of the next one.

What an a is filed by are facts of its vertex: its event is long past when it goes on.

Cost contract: each run is filed twice, O(log) and the cost of its index. Whatever M is, it costs
what it costs alone.

Turned down: to ask the index for its version at the position s. A version of a bucket would need a
tree of versions, and each kind of index its own way to go back.
"""

from __future__ import annotations

import numpy as np

from cernis.compiled import inner
from cernis.engine.dag import ordered as by_order
from cernis.engine.dag import records as r


@inner
def has_waited(uses, tables, store):
    """Whether the runs of a store come out of a waiting store."""
    return False if uses is None else tables.store_facts[store, 0] >= 0


@inner
def read_code(uses, tables, memory, events, now, store, vertex):
    """Return the code by which a run is filed."""
    if uses is None:
        return events.codes[tables.store_column[store], now.at]
    fact = tables.store_facts[store, 0]
    if fact >= 0:
        return memory.facts[vertex, fact]
    return events.codes[tables.store_column[store], now.at]


@inner
def read_words(uses, tables, memory, events, now, filing):
    """Return the two words by which a run is filed in a search tree."""
    column = tables.store_ordered[filing.store]
    if uses is None:
        return events.high[column, now.at], events.low[column, now.at]
    fact = tables.store_facts[filing.store, 1]
    if fact >= 0:
        return memory.facts[filing.vertex, fact], memory.facts[filing.vertex, fact + 1]
    return events.high[column, now.at], events.low[column, now.at]


@inner
def read_value(uses, tables, memory, events, now, filing, v):
    """Return the code of a value compared by ≠ that a run is filed with."""
    column = tables.store_values[filing.store, v]
    if uses is None:
        return events.codes[column, now.at]
    fact = tables.store_facts[filing.store, 2 + v]
    if fact >= 0:
        return memory.facts[filing.vertex, fact]
    return events.codes[column, now.at]


@inner
def plan_moves(uses, tables, memory, vertex, state):
    """Note which waiting runs a run that is complete in a state may let go on: see `step._file`."""
    if uses is not None:
        _plan_moves(tables, memory, vertex, state)


@inner
def _plan_moves(tables, memory, vertex, state):
    counters = memory.counters
    for k in range(tables.move_first[state], tables.move_first[state + 1]):
        pending = counters[r.PENDING]
        counters[r.PENDING] = pending + 1
        memory.pending_vertex[pending] = vertex
        memory.pending_store[pending] = -1 - tables.moves[k]


@inner
def find_ready(uses, tables, memory, events, now, store, vertex):
    """Return the bucket of a waiting store, and the first branch that a complete run lets go on."""
    if uses is None:
        return 0, 0
    return _find_ready(tables, memory, events, now, store, vertex)


@inner
def _find_ready(tables, memory, events, now, store, vertex):
    code = events.codes[tables.store_column[store], now.at]
    if code < 0:
        return 0, 0
    at = memory.base[store] + code
    root, begun = memory.buckets[at]["root"], memory.vertices[vertex]["start"]
    first, number = memory.buckets[at]["ordinal"], memory.buckets[at]["last"]
    branch = by_order.find_from(memory.branches, root, first, number)
    if branch != 0 and memory.branches[branch]["high"] < begun:
        return at, branch
    if begun > first:
        memory.buckets[at]["ordinal"] = begun
        memory.buckets[at]["last"] = 0
    return at, 0


@inner
def pass_over(memory, at, branch):
    """Note that a run has gone on."""
    memory.buckets[at]["ordinal"] = memory.branches[branch]["high"]
    memory.buckets[at]["last"] = memory.branches[branch]["low"] + 1


@inner
def file_waiting(uses, tables, memory, now, filing, at):
    """File a run in the bucket of a waiting store; return (root or -1 for none, array, room)."""
    return (-1, 0, 0) if uses is None else _file_waiting(memory, now, filing, at)


@inner
def _file_waiting(memory, now, filing, at):
    counters, root = memory.counters, filing.root
    if root == 0:
        memory.buckets[at]["ordinal"] = 0
    reading, limit = np.int64(now.clock), memory.buckets[at]["ordinal"]
    number, latest = np.int64(0), root
    while latest != 0:
        if memory.branches[latest]["high"] == reading:
            number = memory.branches[latest]["low"] + 1
        latest = memory.branches[latest]["right"]
    trims = by_order.smallest(memory.branches, root) < limit
    room = by_order.room_to_trim(memory.branches, root, limit) if trims else 0
    room += by_order.room_to_insert(memory.branches, root, reading, number)
    if counters[r.BRANCHES] + room > len(memory.branches):
        return -1, r.BRANCHES, room
    if trims:
        root = by_order.trim(memory.branches, counters, root, limit, now.bound)
    run = by_order.PlantedRun(reading, number, filing.vertex, filing.start)
    return by_order.insert(memory.branches, counters, root, run, now.bound), 0, 0
