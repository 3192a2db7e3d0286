"""The step kernel: fires the transitions an event allows, then files the new vertices.

Algorithm 1 of the chain automata paper and of the PCEA paper in one. The kernel reads an
event in two phases. First every transition that its symbol allows asks the stores of its
links, and makes a vertex if each has a run inside the window. After that the runs of a `->` that
the event fits leave their buckets. Then the vertices are filed in the stores of their states, so
that an event never meets its own vertices. Filing may run out of room; the other vertices stay in
`pending`, and the next call goes on with them.

LONGEST without a window asks for the earliest start instead of the latest (`from_earliest`). Then
starts are negated positions: what an index finds first starts first, and a root lists the matches
of that start alone.

Where a gap stands beside an order, runs wait by value, and the index counts their starts from their
last events: it knows which have ended lately enough. The start of a new vertex is then known if the
runs have one event each, and is otherwise taken to be now: listing checks the window.

A link inside `(φ WITHIN w)` gathers the runs that began φ at most w ago. An index sorts runs by
their start, so starts are counted from the event that begins φ. A vertex inside φ keeps the
earliest start that it allows as a fact, and listing leaves the runs before it. After φ, the start
of a run is that of φ: no earlier than the start of the match, which listing checks.

Where a guard stands around the formula (`UNLESS`), its runs wait like others, and a match is
reported from the latest start on that they have: a later one would lie inside the match. Starts
count positions then.

A guard of one event may take runs out of their buckets instead: all of a bucket, or a group of runs
with equal values. A group has the position of its first run as its number, which a store of its own
keeps, and the runs of a bucket wait in a search tree by these numbers. Events that come before the
guard has been read again have a group anew.

Cost contract: per event O(transitions of its symbol), times the cost of the index:
amortized O(1) for = and ≠, O(log) for order; independent of the window and of the
number of partial matches.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import borrowing as kernel
from cernis.compiled import inner
from cernis.compiled.plain import viewing
from cernis.engine.correlated.leave import (
    ASK_ROOM,
    END_GROUPS,
    ERASE,
    remove,
    split_trees,
    take_out,
)
from cernis.engine.correlated.middles import (
    copy_run,
    file_early,
    file_waiting,
    find_ready,
    has_waited,
    order_moves,
    pass_over,
    plan_moves,
    read_code,
)
from cernis.engine.correlated.stores import (
    Filing,
    Uses,
    ask_list,
    ask_tree,
    file_in_list,
    file_in_tree,
    find_guard,
    go_back,
    read_gap,
)
from cernis.engine.correlated.tables import (
    CODE,
    HIGH,
    NO_GAP,
    NO_RUN,
    OWN,
    RUNS_IN_RANGE,
    SINCE,
    STAGE,
    TIME_GAP,
    CorrelatedArrays,
)
from cernis.engine.dag import records as r
from cernis.engine.dag import unions
from cernis.engine.settings import CLOCK_WINDOW, EVENT_WINDOW, FOREVER, Rules

DONE, NO_ROOM, NO_ROOM_TO_FILE = range(3)
_NO_BOUND = int(FOREVER)


class CorrelatedEvents(NamedTuple):
    """A batch of events. Empty arrays: there are no partitions, no clock, no missing times."""

    symbols: NDArray[np.int32]
    codes: NDArray[np.int64]
    """Per column and event, the code of its value; -1: no value to compare."""
    high: NDArray[np.int64]
    low: NDArray[np.int64]
    keys: NDArray[np.int64]
    """The partition of each event; -1: in none."""
    moments: NDArray[np.int64]
    """The position of the first event with the same timestamp, where a store is strict."""
    clocks: NDArray[np.int64]
    bounds: NDArray[np.int64]
    usable: NDArray[np.uint8]
    times: NDArray[np.int64]
    """The time of each event, where a gap is measured in time."""
    gap_least: NDArray[np.int64]
    gap_most: NDArray[np.int64]
    """Per link, the ends of its gap, in ticks or positions."""
    store_reach: NDArray[np.int64]
    """Per store, the longest gap after its runs."""
    since: NDArray[np.int64]
    """Per link, the WITHIN of the part that it stands in, in ticks or positions."""


class Now(NamedTuple):
    """Where the event being read stands."""

    at: int
    position: int
    ordinal: int
    """Its rank in its partition."""
    moment: int
    key: int
    clock: int
    """When a match that begins here starts; NO_CLOCK if nothing can begin or end here."""
    bound: int


@viewing("tables", "memory")
@kernel
def step(uses, tables, memory, events, scratch, rules, base, begin):
    """Read the events from `begin` on; return (status, event to go on with, array, room).

    `uses` says which indexes the plan has (`stores`). `scratch` has room for the values of one
    event. The tuples come plain: in each call from Python, Numba takes a microsecond or two to
    recognise a NamedTuple.
    """
    tables, memory = CorrelatedArrays(*tables), r.RunMemory(*memory)
    events, rules, uses = CorrelatedEvents(*events), Rules(*rules), Uses(*uses)
    counters = memory.counters
    partitioned = len(events.keys) > 0
    has_nulls = len(events.usable) > 0
    joins = False
    for transition in range(len(tables.transition_count)):
        joins = joins or tables.transition_count[transition] > 1
    arrows, sorted_arrows = False, False
    timed = NO_GAP
    for link in range(len(tables.link_arrow)):
        if tables.link_since[link] > timed:
            timed = tables.link_since[link]
        arrows = arrows or tables.link_arrow[link] != NO_RUN or tables.link_touches[link] != 0
        sorted_arrows = sorted_arrows or tables.link_arrow[link] == RUNS_IN_RANGE
    removes = len(tables.removal_first) > 0
    for i in range(begin, len(events.symbols)):
        symbol = events.symbols[i]
        first, last = tables.symbol_first[symbol], tables.symbol_first[symbol + 1]
        key = 0
        if partitioned:
            key = events.keys[i]
            if key < 0:
                continue
            if first == last:
                memory.part_events[key] += 1
                continue
        elif first == last:
            continue
        position = base + i
        ordinal = memory.part_events[key] if partitioned else position
        clock, bound = -position if rules.from_earliest else position, _NO_BOUND
        if rules.window == EVENT_WINDOW:
            clock, bound = ordinal, ordinal - rules.size
        elif rules.window == CLOCK_WINDOW:
            clock, bound = events.clocks[i], events.bounds[i]
            if has_nulls and events.usable[i] == 0:
                clock, bound = r.NO_CLOCK, memory.part_bound[key]
            memory.part_bound[key] = bound
        elif timed != NO_GAP:
            clock = events.times[i] if timed == TIME_GAP else np.int64(ordinal)
        moment = events.moments[i] if len(events.moments) > 0 else position
        now = Now(i, position, ordinal, moment, key, clock, bound)
        if counters[r.PENDING] == 0:
            allowed = last - first
            links = 0
            for k in range(first, last):
                links += tables.transition_count[tables.symbol_transitions[k]]
            if counters[r.VERTICES] + allowed > len(memory.vertices):
                return NO_ROOM, i, r.VERTICES, allowed
            if counters[r.SOURCES] + links > len(memory.sources):
                return NO_ROOM, i, r.SOURCES, links
            if counters[r.ASKED] + links > len(memory.asked):
                return NO_ROOM, i, r.ASKED, links
            if counters[r.ROOTS] + allowed > len(memory.roots):
                return NO_ROOM, i, r.ROOTS, allowed
            if sorted_arrows:
                room = split_trees(uses.ranges, tables, memory, events, now, symbol)
                if room > 0:
                    return NO_ROOM, i, r.BRANCHES, room
            if removes:
                room = remove(uses.guards, uses.gaps, tables, memory, events, now, symbol, ASK_ROOM)
                if counters[r.BRANCHES] + room > len(memory.branches):
                    return NO_ROOM, i, r.BRANCHES, room
            made = counters[r.VERTICES]
            for k in range(first, last):
                transition = tables.symbol_transitions[k]
                target = tables.transition_target[transition]
                if removes and tables.removal_first[target] < tables.removal_first[target + 1]:
                    continue
                # in a chain, the first event must have a reading of the clock
                if joins or clock != r.NO_CLOCK or tables.transition_count[transition] > 0:
                    _fire(
                        uses, tables, memory, events, now, transition, scratch, rules.from_earliest
                    )
            if counters[r.VERTICES] > made:
                counters[r.RELEVANT] += 1
            if arrows:
                take_out(uses.arrows, tables, memory, events, now, symbol)
            if removes:
                for phase in (ERASE, END_GROUPS):
                    remove(uses.guards, uses.gaps, tables, memory, events, now, symbol, phase)
            order_moves(uses.middles, tables, memory)
            counters[r.SHARED] = counters[r.BRANCHES]
        while counters[r.FILED] < counters[r.PENDING]:
            k = counters[r.FILED]
            store, vertex = memory.pending_store[k], memory.pending_vertex[k]
            array, room = 0, 0
            if store >= 0:
                array, room = _file(uses, tables, memory, events, now, store, vertex, scratch)
            else:
                moved = Filing(-1 - store, vertex, 0, 0)
                array, room = _move_on(
                    uses.middles, uses, tables, memory, events, now, moved, scratch
                )
            if room > 0:
                return NO_ROOM_TO_FILE, i, array, room
            counters[r.FILED] = k + 1
        counters[r.PENDING] = 0
        counters[r.FILED] = 0
        if partitioned:
            memory.part_events[key] += 1
    return DONE, len(events.symbols), 0, 0


@inner
def _move_on(middles, uses, tables, memory, events, now, moved, asked):
    """Let runs of a waiting store go on to the next; return (array, room) that is missing."""
    return (0, 0) if middles is None else _move(uses, tables, memory, events, now, moved, asked)


@inner
def _move(uses, tables, memory, events, now, moved, asked):
    """Let runs go on; where one has passed its last stage, those that have waited for it, first.

    A run leaves its tree last, so it is found again where there was no room for that. It is not
    filed again: if it leaves a tree by values, which takes room, the stage is noted beforehand.
    """
    while True:
        waiting, vertex = moved.store, moved.vertex
        at, branch = find_ready(tables, memory, events, now, waiting, vertex)
        if branch == 0:
            return 0, 0
        is_last = False
        while not is_last:
            run = memory.branches[branch]["vertex"]
            following, noted = tables.store_stages[waiting, 0], tables.store_stages[waiting, 2]
            lives = run != 0 and memory.vertices[run]["start"] >= now.bound
            if lives and (noted < 0 or memory.facts[run, noted] == r.NOTHING):
                filed, again = run, tables.store_stages[waiting, 8] >= 0
                if again:
                    if memory.counters[r.VERTICES] == len(memory.vertices):
                        return r.VERTICES, 1
                    filed = copy_run(tables, memory, now, waiting, run)
                array, room = _file(uses, tables, memory, events, now, following, filed, asked)
                if room > 0:
                    return array, room
                if again:
                    memory.counters[r.VERTICES] = filed + 1
                if noted >= 0:
                    memory.facts[run, noted] = now.clock
            is_last = True
            if lives and len(tables.done_first) > 0:
                for k in range(tables.done_first[following], tables.done_first[following + 1]):
                    store = tables.dones[k]
                    bucket, ready = find_ready(tables, memory, events, now, store, run)
                    if ready != 0:
                        waiting, vertex, at, branch = store, run, bucket, ready
                        is_last = False
                        break
        room = pass_over(tables, memory, events, now, waiting, at, branch, vertex)
        if room > 0:
            return r.BRANCHES, room


@inner
def _fire(uses, tables, memory, events, now, transition, asked, from_earliest):
    """Make the vertex of a transition, if each of its links finds a run."""
    counters = memory.counters
    first_source, first_asked = counters[r.SOURCES], counters[r.ASKED]
    begins = tables.transition_begins[transition]
    start, since = now.clock, r.BEGINS if begins else r.NOTHING
    for k in range(tables.transition_count[transition]):
        link = tables.transition_first[transition] + k
        store = tables.links.store[link]
        found, latest, question = 0, r.NOTHING, 0
        code = events.codes[tables.link_column[link], now.at]
        if code >= 0:
            bucket = memory.buckets[memory.base[store] + code]
            if not tables.store_contiguous[store] or bucket["ordinal"] == now.ordinal - 1:
                found = bucket["root"]
                if tables.store_strict[store] and bucket["ordinal"] == now.moment:
                    found = bucket["before"]
        kind = tables.links.kind[store]
        if found != 0 and kind == r.UNION:
            latest = memory.nodes[found]["start"]
        elif found != 0 and kind == r.UNLIKE:
            found, latest, question = ask_list(
                uses.lists, tables, memory, events, now, link, found, asked
            )
        elif found != 0 and tables.link_ray[link]:
            latest = memory.branches[found]["best"]
        elif found != 0:
            latest, question = ask_tree(
                uses.orders, uses.gaps, tables, memory, events, now, link, found
            )
        if tables.link_since[link] != NO_GAP:
            reading = read_gap(events, now, tables.link_since[link])
            since = go_back(reading, events.since[link])
            if since <= r.BEGINS:
                since = r.BEGINS + 1
        if found == 0 or latest == r.NOTHING or latest < now.bound or latest < since:
            counters[r.SOURCES] = first_source
            counters[r.ASKED] = first_asked
            return
        if not begins:
            start = latest if from_earliest or latest < start else start
        if tables.store_collapsed[store]:
            continue
        source = counters[r.SOURCES]
        counters[r.SOURCES] = source + 1
        memory.sources[source]["link"] = link
        memory.sources[source]["at"] = found
        version = now.moment if tables.store_strict[store] else now.position
        memory.sources[source]["version"] = version
        memory.sources[source]["asked"] = question
    vertex = counters[r.VERTICES]
    counters[r.VERTICES] = vertex + 1
    memory.vertices[vertex]["position"] = now.position
    memory.vertices[vertex]["start"] = start
    memory.vertices[vertex]["label"] = tables.transition_label[transition]
    memory.vertices[vertex]["first"] = first_source
    memory.vertices[vertex]["count"] = counters[r.SOURCES] - first_source
    for f in range(len(tables.fact_kind)):
        column = tables.fact_column[f]
        if tables.fact_kind[f] == CODE:
            memory.facts[vertex, f] = events.codes[column, now.at]
        elif tables.fact_kind[f] == HIGH:
            memory.facts[vertex, f] = events.high[column, now.at]
        elif tables.fact_kind[f] == SINCE:
            memory.facts[vertex, f] = since
        elif tables.fact_kind[f] == OWN:
            memory.facts[vertex, f] = now.clock
        elif tables.fact_kind[f] == STAGE:
            memory.facts[vertex, f] = r.NOTHING
        else:
            memory.facts[vertex, f] = events.low[column, now.at]
    target = tables.transition_target[transition]
    for store in range(tables.state_first[target], tables.state_first[target + 1]):
        if has_waited(uses.middles, tables, store):
            continue
        pending = counters[r.PENDING]
        counters[r.PENDING] = pending + 1
        memory.pending_vertex[pending] = vertex
        memory.pending_store[pending] = store
    plan_moves(uses.middles, tables, memory, vertex, target)
    bound = start if from_earliest else now.bound
    if tables.transition_final[transition] and len(tables.guard_first) > 0:
        latest = find_guard(uses.guards, uses, tables, memory, events, now, target, asked)
        if latest > bound:
            bound = latest
    if tables.transition_final[transition] and now.clock != r.NO_CLOCK and start >= bound:
        root = counters[r.ROOTS]
        counters[r.ROOTS] = root + 1
        memory.roots[root]["end"] = now.position
        memory.roots[root]["bound"] = bound
        memory.roots[root]["key"] = now.key
        memory.roots[root]["vertex"] = vertex


@inner
def _file(uses, tables, memory, events, now, store, vertex, asked):
    """File a vertex; return (array, room) where there is not enough of it."""
    counters = memory.counters
    position = now.position
    code = read_code(uses.middles, tables, memory, events, now, store, vertex)
    if code < 0:
        return 0, 0
    at = memory.base[store] + code
    ordinal = now.moment if tables.store_strict[store] else now.ordinal
    if tables.store_strict[store] and memory.buckets[at]["ordinal"] != ordinal:
        memory.buckets[at]["before"] = memory.buckets[at]["root"]
        memory.buckets[at]["ordinal"] = ordinal
    fresh = tables.store_contiguous[store] and memory.buckets[at]["ordinal"] != ordinal
    root = 0 if fresh else memory.buckets[at]["root"]
    last = 0 if fresh else memory.buckets[at]["last"]
    start = memory.vertices[vertex]["start"]
    kind = tables.links.kind[store]
    groups = tables.store_groups[store]
    if groups == store:
        ordinal = memory.buckets[at]["ordinal"] if root != 0 else position
    if tables.store_collapsed[store]:
        if root != 0 and memory.nodes[root]["start"] >= start:
            return 0, 0
        root, last = 0, 0
    if tables.store_stages[store, 0] >= 0 and tables.store_stages[store, 3] < 0:
        filing = Filing(store, vertex, start, root)
        root, array, room = file_waiting(uses.middles, tables, memory, now, filing, at)
        if root < 0:
            return array, room
        ordinal, last = memory.buckets[at]["ordinal"], 0
    elif tables.store_stages[store, 5] >= 0:
        filing = Filing(store, vertex, start, root)
        root, array, room = file_early(uses.middles, tables, memory, events, now, filing)
        if root < 0:
            return array, room
    elif kind == r.UNION:
        room = unions.room_to_insert(memory.nodes, last, start, position)
        if counters[r.NODES] + room > len(memory.nodes):
            return r.NODES, room
        root, last = unions.insert(
            memory.nodes, counters, root, last, vertex, start, position, now.bound
        )
    else:
        filing = Filing(store, vertex, start, root)
        if kind == r.UNLIKE:
            root, array, room = file_in_list(
                uses.lists, uses.middles, tables, memory, events, now, filing, asked
            )
        else:
            root, array, room = file_in_tree(
                uses.orders, uses.gaps, uses.middles, tables, memory, events, now, filing
            )
        if root < 0:
            return array, room
    memory.buckets[at]["root"] = root
    memory.buckets[at]["last"] = last
    memory.buckets[at]["ordinal"] = ordinal
    memory.buckets[at]["part"] = now.key
    return 0, 0
