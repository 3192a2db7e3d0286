"""Take runs out of the stores of the step kernel: those of a `->`, and those that a guard forbids.

A `->` takes the runs that an event fits: all runs of a bucket, or those of its search tree in a
range. What the event leaves is noted as the bucket's `last` before its transitions fire, since they
ask for the runs of before; afterwards the bucket gets it.

A guard of one event takes out a bucket, or a group of runs with equal values; or it ends the group
that the links of all buckets ask for.

Cost contract: per event O(transitions of its symbol), each at most a logarithm. Where the plan has
neither `->` nor guards, nothing of this is compiled (`stores.Uses`).
"""

from __future__ import annotations

import numpy as np

from cernis.compiled import inner
from cernis.engine.correlated.middles import ask_ends
from cernis.engine.correlated.stores import go_back, read_gap
from cernis.engine.correlated.tables import ALL_RUNS, NO_RUN, RUNS_IN_RANGE
from cernis.engine.dag import ordered as by_order
from cernis.engine.dag import records as r

ASK_ROOM, ERASE, END_GROUPS = range(3)


@inner
def split_trees(ranges, tables, memory, events, now, symbol):
    """Note what the event leaves of each tree of a `->` as its `last`; return the room missing."""
    return 0 if ranges is None else _split_trees(tables, memory, events, now, symbol)


@inner
def _split_trees(tables, memory, events, now, symbol):
    counters = memory.counters
    for again in (False, True):
        for k in range(tables.symbol_first[symbol], tables.symbol_first[symbol + 1]):
            transition = tables.symbol_transitions[k]
            first = tables.transition_first[transition]
            for link in range(first, first + tables.transition_count[transition]):
                code = events.codes[tables.link_column[link], now.at]
                if tables.link_arrow[link] != RUNS_IN_RANGE or code < 0:
                    continue
                at = memory.base[tables.links.store[link]] + code
                if not again:
                    memory.buckets[at]["last"] = memory.buckets[at]["root"]
                    continue
                high, low = ask_ends(tables, events, now, link)
                tree, operator = memory.buckets[at]["last"], tables.links.operator[link]
                if high == r.NOTHING or tree == 0:
                    continue
                room = by_order.room_to_erase(memory.branches, tree, operator, high, low)
                bound, store = now.bound, tables.links.store[link]
                if tables.links.kind[store] == r.RECENT:
                    reading = read_gap(events, now, tables.store_gap[store])
                    bound = go_back(reading, events.store_reach[store])
                if counters[r.BRANCHES] + room > len(memory.branches):
                    return room
                memory.buckets[at]["last"] = by_order.erase(
                    memory.branches, counters, tree, operator, high, low, bound
                )
    return 0


@inner
def take_out(arrows, tables, memory, events, now, symbol):
    """Take the runs that this event fits out of the stores of a `->`."""
    if arrows is not None:
        _take_out(tables, memory, events, now, symbol)


@inner
def _take_out(tables, memory, events, now, symbol):
    for again in (False, True):
        for k in range(tables.symbol_first[symbol], tables.symbol_first[symbol + 1]):
            transition = tables.symbol_transitions[k]
            first = tables.transition_first[transition]
            for link in range(first, first + tables.transition_count[transition]):
                code = events.codes[tables.link_column[link], now.at]
                if tables.link_touches[link] and not again:
                    _touch(tables, memory, events, now, link, code)
                if tables.link_arrow[link] == NO_RUN or code < 0:
                    continue
                at = memory.base[tables.links.store[link]] + code
                if again or tables.link_arrow[link] == ALL_RUNS:
                    memory.buckets[at]["last"] = 0
                if not again:
                    memory.buckets[at]["root"] = memory.buckets[at]["last"]


@inner
def _touch(tables, memory, events, now, link, code):
    """End what a link asks for after the last run of the bucket that the link before it asks."""
    beside = events.codes[tables.link_column[link - 1], now.at]
    if beside < 0 or code < 0:
        return
    at = memory.base[tables.links.store[link - 1]] + beside
    if tables.link_after[link] == ALL_RUNS:
        memory.buckets[at]["ordinal"] = now.ordinal
        return
    tree = memory.buckets[memory.base[tables.links.store[link]] + code]["root"]
    if tree != 0 and by_order.largest(memory.branches, tree) > memory.buckets[at]["ordinal"]:
        memory.buckets[at]["root"] = 0
        memory.buckets[at]["last"] = 0


@inner
def remove(guards, gaps, tables, memory, events, now, symbol, phase):
    """Take the runs that the event forbids out of their buckets; return the room that it needs."""
    return 0 if guards is None else _remove(gaps, tables, memory, events, now, symbol, phase)


@inner
def _remove(gaps, tables, memory, events, now, symbol, phase):
    room = 0
    for k in range(tables.symbol_first[symbol], tables.symbol_first[symbol + 1]):
        state = tables.transition_target[tables.symbol_transitions[k]]
        for at in range(tables.removal_first[state], tables.removal_first[state + 1]):
            store, groups = tables.removals[at, 0], tables.removals[at, 2]
            if store < 0 and phase != END_GROUPS:
                continue
            code = np.int64(0) if store < 0 else events.codes[tables.removals[at, 1], now.at]
            if code < 0:
                continue
            bucket = memory.base[max(store, 0)] + code
            if groups < 0:
                if phase == ERASE:
                    memory.buckets[bucket]["root"] = 0
                    memory.buckets[bucket]["last"] = 0
                    memory.buckets[bucket]["before"] = 0
                continue
            room += _remove_group(gaps, tables, memory, events, now, at, bucket, phase)
    return room


@inner
def _remove_group(gaps, tables, memory, events, now, at, bucket, phase):
    return 0 if gaps is None else _erase_group(tables, memory, events, now, at, bucket, phase)


@inner
def _erase_group(tables, memory, events, now, at, bucket, phase):
    """Take a group of runs with equal values out of a bucket, or end it."""
    group = events.codes[tables.removals[at, 3], now.at]
    home, root = memory.base[tables.removals[at, 2]] + group, memory.buckets[bucket]["root"]
    if group < 0 or memory.buckets[home]["root"] == 0:
        return 0
    number = memory.buckets[home]["ordinal"]
    if phase == ASK_ROOM:
        return by_order.room_to_erase(memory.branches, root, r.EQUAL, number, 0)
    if phase == END_GROUPS:
        memory.buckets[home]["root"] = 0
        memory.buckets[home]["last"] = 0
    else:
        memory.buckets[bucket]["root"] = by_order.erase(
            memory.branches, memory.counters, root, r.EQUAL, number, 0, now.bound
        )
    return 0
