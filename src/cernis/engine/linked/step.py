"""Reading rows: take the runs that fit, then file what has become of them.

A *moment* is a timestamp of the streamset; a *row* a solution of a reading at one. All rows of a
moment are read before anything is filed, so that nothing a moment makes is seen by itself:

1. each transition of a row's reading asks its index for the entries that agree with the row, and
   makes a vertex for each whose conditions hold (all runs of an entry move at once);
2. entries that wait under `;` and were taken, and those that a guard met, leave;
3. the new runs are filed under the values that are still asked for.

Cost contract: O(transitions) per row, O(columns) per entry taken and O(log entries) where an index
is ordered. An entry is met in vain only if a condition on earlier variables fails; one condition
by order (`?p2 < ?p1`) has an ordered index, so that none is, others are checked entry by entry.
Nothing depends on the number of runs in an entry, nor on the window.

For want of room a moment is begun again, or filing interrupted: Python grows an array and calls
again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import borrowing as kernel
from cernis.engine.correlated import records as r
from cernis.engine.correlated import unions
from cernis.engine.graphs.expressions import TRUE, holds
from cernis.engine.linked import waiting as w
from cernis.engine.linked.tables import NEXT, STRICT

DONE, NO_ROOM, NO_ENTRIES, NO_PENDING = range(4)
READING, FILING = range(2)


class LinkedRows(NamedTuple):
    """A batch of solutions, in order of their moments."""

    reading: NDArray[np.int32]
    codes: NDArray[np.int32]
    moment: NDArray[np.int64]
    clock: NDArray[np.int64]
    bound: NDArray[np.int64]
    part: NDArray[np.int32]


class LastMoments(NamedTuple):
    """Per partition, the last moment it had a row, and the one before."""

    last: NDArray[np.int64]
    before: NDArray[np.int64]


class Pending(NamedTuple):
    """Vertices that wait to be filed: the state they are in, and what they have bound."""

    vertex: NDArray[np.int32]
    state: NDArray[np.int32]
    part: NDArray[np.int32]
    codes: NDArray[np.int32]


@kernel
def step(tables, values, rows, begin, base, partitioned, memory, waiting, parts, pending, stack):
    """Reads rows from `begin` on; returns (status, row to go on with, array)."""
    counters, own = memory.counters, waiting.counters
    i = begin
    while i < len(rows.reading):
        moment = rows.moment[i]
        end = i + 1
        while end < len(rows.reading) and rows.moment[end] == moment:
            end += 1
        if own[w.PHASE] == READING:
            vertices, sources = counters[r.VERTICES], counters[r.SOURCES]
            roots = counters[r.ROOTS]
            if partitioned:
                for k in range(i, end):
                    part = rows.part[k]
                    if parts.last[part] != moment:
                        parts.before[part] = parts.last[part]
                        parts.last[part] = moment
            for k in range(i, end):
                status, array = _read(
                    tables, values, rows, k, base, partitioned,
                    memory, waiting, parts, pending, stack,
                )  # fmt: skip
                if status != DONE:
                    counters[r.VERTICES], counters[r.SOURCES] = vertices, sources
                    counters[r.ROOTS] = roots
                    for m in range(own[w.MOVED]):
                        waiting.moved[waiting.leaving[m]] = -1
                    own[w.MOVED], own[w.PENDING] = 0, 0
                    return status, i, array
            for m in range(own[w.MOVED]):
                entry = waiting.leaving[m]
                memory.buckets[entry]["root"] = 0
                w.leave(tables, waiting, entry)
            own[w.MOVED] = 0
            own[w.PHASE], own[w.FILED], own[w.STORE_AT] = FILING, 0, 0
        while own[w.FILED] < own[w.PENDING]:
            status, array = _file(
                tables, values.facts, memory, waiting, pending, moment, rows.bound[i]
            )
            if status != DONE:
                return status, i, array
        own[w.PENDING], own[w.PHASE] = 0, READING
        i = end
    return DONE, i, 0


@kernel
def _read(tables, values, rows, k, base, partitioned, memory, waiting, parts, pending, stack):
    """The transitions and guards of one row."""
    reading, codes, bound = rows.reading[k], rows.codes[k], rows.bound[k]
    since = rows.moment[k] - 1
    if partitioned:
        since = parts.before[rows.part[k]]
    for t in range(tables.reading_first[reading], tables.reading_first[reading + 1]):
        transition = tables.reading_transitions[t]
        store = tables.transition_store[transition]
        if store < 0:
            if not _asked(tables, values, transition, codes, codes, stack):
                continue
            status, array = _make(tables, rows, k, base, transition, 0, memory, waiting, pending)
            if status != DONE:
                return status, array
            continue
        index = tables.transition_index[transition]
        limit = _limit(tables, values, transition, index, codes, stack)
        for f in range(w.ask(tables, waiting, store, index, codes, limit)):
            entry = waiting.found[f]
            if _is_stale(tables, memory, waiting, entry, since, bound):
                _drop(tables, memory, waiting, entry)
                continue
            if not _asked(tables, values, transition, codes, waiting.codes[entry], stack):
                continue
            status, array = _make(
                tables, rows, k, base, transition, entry, memory, waiting, pending
            )
            if status != DONE:
                return status, array
            if tables.store_link[store] == NEXT:
                _move(waiting, entry, rows.moment[k])
    for t in range(tables.guard_first[reading], tables.guard_first[reading + 1]):
        guard = tables.reading_guards[t]
        store, index = tables.guard_store[guard], tables.guard_index[guard]
        number = len(tables.transition_store) + guard
        limit = _limit(tables, values, number, index, codes, stack)
        for f in range(w.ask(tables, waiting, store, index, codes, limit)):
            entry = waiting.found[f]
            if _is_stale(tables, memory, waiting, entry, since, bound):
                _drop(tables, memory, waiting, entry)
            elif _asked(tables, values, number, codes, waiting.codes[entry], stack):
                _move(waiting, entry, rows.moment[k])
    return DONE, 0


@kernel
def _limit(tables, values, number, index, codes, stack):
    """Up to where an ordered index is asked by a row."""
    p = tables.order_program[number]
    if p < 0:
        return np.inf
    program = tables.programs[tables.program_first[p] : tables.program_first[p + 1]]
    holds(program, values, codes, codes, stack)
    key = w.order_key(tables.index_order[index], stack[0])
    return key if key != -np.inf else np.inf


@kernel
def _asked(tables, values, number, codes, kept, stack):
    """Whether all conditions of a transition or guard hold."""
    for p in range(tables.asked_first[number], tables.asked_first[number + 1]):
        program = tables.programs[tables.program_first[p] : tables.program_first[p + 1]]
        if holds(program, values, codes, kept, stack) != TRUE:
            return False
    return True


@kernel
def _is_stale(tables, memory, waiting, entry, since, bound):
    """Whether the runs of an entry have left the window, or missed the next timestamp."""
    bucket = memory.buckets[entry]
    if memory.nodes[bucket["root"]]["start"] < bound:
        return True
    return tables.store_link[waiting.store[entry]] == STRICT and bucket["ordinal"] != since


@kernel
def _drop(tables, memory, waiting, entry):
    memory.buckets[entry]["root"] = 0
    w.leave(tables, waiting, entry)


@kernel
def _move(waiting, entry, moment):
    """An entry leaves when the moment is over."""
    if waiting.moved[entry] != moment:
        waiting.moved[entry] = moment
        waiting.leaving[waiting.counters[w.MOVED]] = entry
        waiting.counters[w.MOVED] += 1


@kernel
def _make(tables, rows, k, base, transition, entry, memory, waiting, pending):
    """A vertex for a row and the runs of an entry; 0: a match begins."""
    counters, own = memory.counters, waiting.counters
    vertex, source = counters[r.VERTICES], counters[r.SOURCES]
    if vertex == len(memory.vertices):
        return NO_ROOM, r.VERTICES
    if source == len(memory.sources):
        return NO_ROOM, r.SOURCES
    if counters[r.ROOTS] == len(memory.roots):
        return NO_ROOM, r.ROOTS
    if own[w.PENDING] == len(pending.vertex):
        return NO_PENDING, 0
    start = rows.clock[k]
    count = 0
    if entry != 0:
        root = memory.buckets[entry]["root"]
        start = memory.nodes[root]["start"]
        count = 1
        memory.sources[source]["link"] = 0
        memory.sources[source]["at"] = root
        memory.sources[source]["version"] = rows.moment[k]
        memory.sources[source]["asked"] = 0
        counters[r.SOURCES] = source + 1
    elif start < rows.bound[k]:
        return DONE, 0  # before the first of the tumbling windows
    memory.vertices[vertex]["position"] = base + k
    memory.vertices[vertex]["start"] = start
    memory.vertices[vertex]["label"] = tables.transition_label[transition]
    memory.vertices[vertex]["first"] = source
    memory.vertices[vertex]["count"] = count
    counters[r.VERTICES] = vertex + 1
    if tables.transition_final[transition]:
        root = counters[r.ROOTS]
        memory.roots[root]["end"] = rows.moment[k]
        memory.roots[root]["bound"] = rows.bound[k]
        memory.roots[root]["key"] = rows.part[k]
        memory.roots[root]["vertex"] = vertex
        counters[r.ROOTS] = root + 1
    state = tables.transition_target[transition]
    if tables.state_first[state] == tables.state_first[state + 1]:
        return DONE, 0
    p = own[w.PENDING]
    own[w.PENDING] = p + 1
    pending.vertex[p] = vertex
    pending.state[p] = state
    pending.part[p] = rows.part[k]
    for column in range(rows.codes.shape[1]):
        code = rows.codes[k, column]
        if code < 0 and entry != 0 and not tables.transition_fresh[transition, column]:
            code = waiting.codes[entry, column]
        pending.codes[p, column] = code
    return DONE, 0


@kernel
def _file(tables, facts, memory, waiting, pending, moment, bound):
    """Files the next pending vertex in the stores of its state."""
    counters, own = memory.counters, waiting.counters
    p = own[w.FILED]
    state, vertex, codes = pending.state[p], pending.vertex[p], pending.codes[p]
    first = tables.state_first[state]
    while first + own[w.STORE_AT] < tables.state_first[state + 1]:
        store = first + own[w.STORE_AT]
        entry = w.find(tables, waiting, store, codes)
        if entry == 0:
            entry = w.enter(tables, facts, waiting, store, pending.part[p], codes)
            if entry == 0:
                return NO_ENTRIES, 0
            memory.buckets[entry]["root"] = 0
            memory.buckets[entry]["last"] = 0
            memory.buckets[entry]["ordinal"] = moment
            memory.buckets[entry]["part"] = 0
            memory.buckets[entry]["before"] = 0
        bucket = memory.buckets[entry]
        if tables.store_link[store] == STRICT and bucket["ordinal"] != moment:
            bucket["root"] = 0
            bucket["last"] = 0
        start = memory.vertices[vertex]["start"]
        room = unions.room_to_insert(memory.nodes, bucket["last"], start, moment)
        if counters[r.NODES] + room > len(memory.nodes):
            return NO_ROOM, r.NODES
        root, last = unions.insert(
            memory.nodes, counters, bucket["root"], bucket["last"], vertex, start, moment, bound
        )
        bucket["root"] = root
        bucket["last"] = last
        bucket["ordinal"] = moment
        own[w.STORE_AT] += 1
    own[w.STORE_AT] = 0
    own[w.FILED] = p + 1
    return DONE, 0
