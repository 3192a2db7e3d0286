"""Runs that wait until what stands between is there: `A ; M ; C` where c is compared with a.

The runs of M begin anywhere, and an a is filed in the index that c asks once a run of M that began
after it is complete. So each a in the index has at least one run of M, and c asks it as if a were
its neighbour, by any kind of index. Until then the a's of a partition wait in a search tree by
position. A run of M that began at s lets all go on that came before s: the first ones of the tree.
The bucket's `ordinal` is the position from which on runs still wait; filing the next one trims the
others. Several runs may end at one event: the second word of the tree numbers them, and while some
of them go on, the bucket's `last` is the number of the next one.

Where other events between are compared with the a as well (a *star*: a is its centre, they are its
rays), an a passes several *stages*. At one it waits by position for a part that compares nothing,
at another by value for a ray that fits it; each notes when the a goes on. An event takes the runs
that it fits out of the index of its stage and files them in the next. Later stages of an event come
first, and all stages come before its own vertices are filed, so that no run meets an event twice.
A ray is a vertex of its own, in an index by the value that is compared with the centre, with its
position as its start. Listing chooses the a first, and then asks that index for the rays that fit
it: there is one between the time at which the a came to the ray's stage and the next ray.

A ray may be the centre of a star of its own. It is filed in its index once it has passed all stages
of that star, and only then lets a's go on: those that it fits and that came to its stage before the
ray did. The ray came some time ago, and later a's may wait as well. So these a's wait in a tree
that knows the earliest run below each branch, and what a ray asks for are facts of its vertex.

In `A ; B -> C`, where c is the next that fits the a, it takes the a's that it fits out of their
index: a later b needs another c, also if this c is that b. So each of these a's waits for the last
stage once more, as a vertex of its own that allows no b before this c. As it was in the index, a b
had come, and the c makes a match of it: the moves cost as much as the answer.

What an a is filed by are facts of its vertex: its event is long past when it goes on.

Cost contract: each run is filed once for each stage, O(log) and the cost of its index. Whatever M
is, it costs what it costs alone.

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
    return False if uses is None else tables.store_late[store] != 0


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
    fact, upper = tables.store_facts[filing.store, 1], tables.store_upper[filing.store]
    if fact >= 0:
        second = tables.store_facts[filing.store, 2]
        high, low = memory.facts[filing.vertex, fact], memory.facts[filing.vertex, second]
    elif upper >= 0:
        high, low = events.high[column, now.at], events.high[upper, now.at]
    else:
        high, low = events.high[column, now.at], events.low[column, now.at]
    return r.NOTHING if upper >= 0 and low == r.NOTHING else high, low


@inner
def read_value(uses, tables, memory, events, now, filing, v):
    """Return the code of a value compared by ≠ that a run is filed with."""
    column = tables.store_values[filing.store, v]
    if uses is None:
        return events.codes[column, now.at]
    fact = tables.store_facts[filing.store, 3 + v]
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
def order_moves(uses, tables, memory):
    """Put what lets waiting runs go on before what is to be filed, later stages first."""
    if uses is not None:
        _order_moves(tables, memory)


@inner
def _order_moves(tables, memory):
    stores, vertices = memory.pending_store, memory.pending_vertex
    for k in range(1, memory.counters[r.PENDING]):
        store, vertex, at = stores[k], vertices[k], k
        rank = _rank(tables, store)
        while at > 0 and _rank(tables, stores[at - 1]) < rank:
            stores[at], vertices[at] = stores[at - 1], vertices[at - 1]
            at -= 1
        stores[at], vertices[at] = store, vertex


@inner
def _rank(tables, store):
    return -1 if store >= 0 else tables.store_stages[-1 - store, 1]


@inner
def ask_ends(tables, events, now, link):
    """Return the two words that an event asks for by an order; NOTHING: it has no value."""
    column, operator = tables.link_ordered[link], tables.links.operator[link]
    high, low = events.high[column, now.at], events.low[column, now.at]
    if operator == r.IN_GAP or operator >= r.IN_ENDS:
        low = events.high[tables.link_upper[link], now.at]
        numbers = high <= r.LARGEST_NUMBER and low <= r.LARGEST_NUMBER
        if not numbers and high >> r.KIND_BITS != low >> r.KIND_BITS:
            high = r.NOTHING
    elif operator == r.IN_SPAN:
        return span_ends(tables, link, high, low)
    return high, low


@inner
def span_ends(tables, link, high, low):
    """Return the two words that a value asks for where runs have a range each.

    Runs have one word for each end: beside a value with two, those with the same word lie below it.
    """
    if high == r.NOTHING:
        return high, low
    exact, value = low == 0, high
    high = value + tables.link_ends[link, 0] if exact else value
    low = value + tables.link_ends[link, 1] if exact else value + 1
    return high, low


@inner
def find_ready(tables, memory, events, now, store, vertex):
    """Return the bucket of a waiting store, and the next branch that a vertex lets go on."""
    if tables.store_stages[store, 5] >= 0:
        code = memory.facts[vertex, tables.store_stages[store, 5]]
    else:
        code = events.codes[tables.store_stages[store, 4], now.at]
    if code < 0:
        return 0, 0
    at = memory.base[store] + code
    root, link = memory.buckets[at]["root"], tables.store_stages[store, 3]
    if link >= 0 and tables.store_stages[store, 5] >= 0:
        high, low = _ask_ray(tables, memory, store, vertex)
        if high == r.NOTHING:
            return at, 0
        operator, begun = tables.links.operator[link], memory.facts[vertex, tables.links.own[0]]
        return at, by_order.find_early(memory.branches, root, operator, high, low, begun)[0]
    if link >= 0:
        high, low = ask_ends(tables, events, now, link)
        if high == r.NOTHING:
            return at, 0
        operator = tables.links.operator[link]
        return at, by_order.find_fitting(memory.branches, root, operator, high, low)
    begun = memory.vertices[vertex]["start"]
    first, number = memory.buckets[at]["ordinal"], memory.buckets[at]["last"]
    branch = by_order.find_from(memory.branches, root, first, number)
    if branch != 0 and memory.branches[branch]["high"] < begun:
        return at, branch
    if begun > first:
        memory.buckets[at]["ordinal"] = begun
        memory.buckets[at]["last"] = 0
    return at, 0


@inner
def _ask_ray(tables, memory, store, vertex):
    """Return the two words that a ray asks for, whose event is long past."""
    link = tables.store_stages[store, 3]
    high = memory.facts[vertex, tables.store_stages[store, 6]]
    low = memory.facts[vertex, tables.store_stages[store, 7]]
    if tables.links.operator[link] == r.IN_SPAN:
        return span_ends(tables, link, high, low)
    return high, low


@inner
def pass_over(tables, memory, events, now, store, at, branch, vertex):
    """Note that a run has gone on; return the room that is missing for it."""
    link, root = tables.store_stages[store, 3], memory.buckets[at]["root"]
    if link >= 0 and tables.store_stages[store, 5] >= 0:
        high, low = _ask_ray(tables, memory, store, vertex)
        operator, begun = tables.links.operator[link], memory.facts[vertex, tables.links.own[0]]
        room = by_order.room_to_pop_early(memory.branches, root, operator, high, low, begun)
        if memory.counters[r.BRANCHES] + room > len(memory.branches):
            return room
        memory.buckets[at]["root"] = by_order.pop_early(
            memory.branches, memory.counters, root, operator, high, low, begun
        )
        return 0
    if link < 0:
        memory.buckets[at]["ordinal"] = memory.branches[branch]["high"]
        memory.buckets[at]["last"] = memory.branches[branch]["low"] + 1
        return 0
    high, low = ask_ends(tables, events, now, link)
    operator = tables.links.operator[link]
    room = by_order.room_to_pop(memory.branches, root, operator, high, low)
    if memory.counters[r.BRANCHES] + room > len(memory.branches):
        return room
    memory.buckets[at]["root"] = by_order.pop(
        memory.branches, memory.counters, root, operator, high, low, now.bound
    )
    return 0


@inner
def copy_run(tables, memory, now, store, run):
    """Write a run as another vertex, which waits for its last stage once more; return the vertex.

    It is behind the others, and has no place yet: that is taken once it is filed.
    """
    copy = memory.counters[r.VERTICES]
    memory.vertices[copy] = memory.vertices[run]
    for fact in range(memory.facts.shape[1]):
        memory.facts[copy, fact] = memory.facts[run, fact]
    noted = tables.store_stages[store, 9]
    if noted >= 0:
        memory.facts[copy, noted] = r.NOTHING
    memory.facts[copy, tables.store_stages[store, 8]] = now.clock - 1
    return copy


@inner
def file_early(middles, tables, memory, events, now, filing):
    """Put a run into a tree that knows its earliest runs; return (root or -1, array, room).

    Up to two that are outside the window leave it: it has as many as come in while they are inside.
    """
    if middles is None:
        return -1, 0, 0
    return _file_early(middles, tables, memory, events, now, filing)


@inner
def _file_early(middles, tables, memory, events, now, filing):
    counters, root = memory.counters, filing.root
    high, low = read_words(middles, tables, memory, events, now, filing)
    if high == r.NOTHING:
        return -1, 0, 0
    leaving = 2 if now.bound > 0 else 0
    for _ in range(leaving):
        branch = by_order.find_early(
            memory.branches, root, r.IN_GAP, r.NOTHING, r.NO_CLOCK, now.bound
        )[0]
        if branch != 0:
            room = by_order.room_to_pop_early(
                memory.branches, root, r.IN_GAP, r.NOTHING, r.NO_CLOCK, now.bound
            )
            if counters[r.BRANCHES] + room > len(memory.branches):
                return -1, r.BRANCHES, room
            root = by_order.pop_early(
                memory.branches, counters, root, r.IN_GAP, r.NOTHING, r.NO_CLOCK, now.bound
            )
    room = by_order.room_to_insert(memory.branches, root, high, low)
    if counters[r.BRANCHES] + room > len(memory.branches):
        return -1, r.BRANCHES, room
    run = by_order.PlantedRun(high, low, filing.vertex, by_order.turn_start(np.int64(now.clock)))
    return by_order.insert(memory.branches, counters, root, run, r.NOTHING), 0, 0


@inner
def file_waiting(uses, tables, memory, now, filing, at):
    """File a run in the bucket of a waiting store; return (root or -1 for none, array, room)."""
    return (-1, 0, 0) if uses is None else _file_waiting(tables, memory, now, filing, at)


@inner
def _file_waiting(tables, memory, now, filing, at):
    counters, root = memory.counters, filing.root
    if root == 0:
        memory.buckets[at]["ordinal"] = 0
    reading, limit = np.int64(now.clock), memory.buckets[at]["ordinal"]
    if tables.store_late[filing.store] == 0:  # perhaps once more
        reading = memory.facts[filing.vertex, tables.links.own[0]]
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
