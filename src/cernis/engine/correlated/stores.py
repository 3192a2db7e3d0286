"""The stores of the step kernel: asking for runs, and filing them, by each kind of index.

A plan has few kinds of indexes, and compiling all of them is most of what its first query waits
for. So a function for each kind takes what the plan uses (`Uses`), and calls another one that does
the work, unless `uses is None`: Numba then compiles nothing of that. Unions are in every plan.

Cost contract: amortized O(1) for = and ≠, O(log) for an order or a gap.

Turned down: `if` on the tables, as for everything else. It costs nothing per event, but Numba
compiles both sides: 15 processor seconds for equal values, instead of 9 (one run each).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cernis.compiled import inlined, inner
from cernis.engine.correlated.middles import ask_ends, read_value, read_words
from cernis.engine.correlated.tables import (
    FIRST_RUN,
    NO_GAP,
    NO_RUN,
    RUNS_IN_RANGE,
    TIME_GAP,
    CorrelatedArrays,
)
from cernis.engine.dag import ordered as by_order
from cernis.engine.dag import records as r
from cernis.engine.dag import unlike
from cernis.engine.settings import LAST_TIME


class Uses(NamedTuple):
    """What a plan uses beside unions: True, or None, which Numba tells apart when it compiles."""

    lists: bool | None
    """Lists with back pointers, for ≠."""
    orders: bool | None
    """Search trees for orders alone."""
    gaps: bool | None
    """Search trees for orders, gaps and groups."""
    arrows: bool | None
    """Runs that leave their stores with the next event that fits (`->`)."""
    ranges: bool | None
    """Runs that leave search trees by their values."""
    guards: bool | None
    """Runs of a guard, and those that it forbids."""
    middles: bool | None
    """Runs that wait for the events between (`middles`)."""


def find_uses(tables: CorrelatedArrays) -> Uses:
    """Return what the tables of a plan use: at most one of lists, orders, gaps, arrows and guards,
    or gaps with arrows (a session is an iteration of `->` with a gap), or else everything.

    So there are eight engines to compile, each with middles and without.
    """
    is_asked = (tables.store_stages[:, 0] < 0) | (tables.store_stages[:, 8] >= 0)
    kinds = set(tables.links.kind[is_asked].tolist())
    has_trees = not kinds <= {r.UNION, r.UNLIKE}
    has_gaps = has_trees and bool(
        r.RECENT in kinds
        or (tables.link_gap != NO_GAP).any()
        or (tables.store_gap != NO_GAP).any()
        or (tables.store_groups >= 0).any()
        or (tables.link_after != NO_RUN).any()
    )
    lists = r.UNLIKE in kinds or None
    orders = (has_trees and not has_gaps) or None
    gaps = has_gaps or None
    arrows = bool((tables.link_arrow != NO_RUN).any() or tables.link_touches.any()) or None
    guards = len(tables.guard_first) + len(tables.removal_first) > 0 or None
    middles = len(tables.moves) > 0 or bool((tables.store_upper >= 0).any()) or None
    found = (lists, orders, gaps, arrows, guards)
    is_session = found == (None, None, True, True, None)
    if (tables.link_arrow == RUNS_IN_RANGE).any() or not (found.count(None) > 3 or is_session):
        return Uses(True, None, True, True, True, True, middles)
    return Uses(lists, orders, gaps, arrows, None, guards, middles)


def expect_seconds(uses: Uses) -> float:
    """Return about how many seconds the step kernel takes to compile."""
    return 3.0 + 2.5 * (len(uses) - uses.count(None))


class Filing(NamedTuple):
    """A vertex to file: in which store, after which root of its bucket."""

    store: int
    vertex: int
    start: int
    root: int


@inner
def read_gap(events, now, unit):
    """Return where the event stands, in the unit of a gap."""
    return events.times[now.at] if unit == TIME_GAP else np.int64(now.ordinal)


@inner
def go_back(reading, distance, before=r.NOTHING + 1):
    """Return the reading a packed distance before; `before` if that is before all readings."""
    if distance < 0:
        if reading < 0:
            return before
        reading -= LAST_TIME
        distance = -distance
    return before if reading < distance - LAST_TIME else reading - distance


@inlined
def ask_list(uses, tables, memory, events, now, link, found, asked):
    """Return the first run with other values, its start, and the index of the question."""
    if uses is None:
        return 0, r.NOTHING, 0
    return _ask_list(tables, memory, events, now, link, found, asked)


@inlined
def _ask_list(tables, memory, events, now, link, found, asked):
    first = _find_different(tables, memory, events, now, link, found, asked)
    if first == 0:
        return 0, r.NOTHING, 0
    question = memory.counters[r.ASKED]
    memory.counters[r.ASKED] = question + 1
    for v in range(tables.links.width[tables.links.store[link]]):
        memory.asked[question, v] = asked[v]
    return first, memory.entries[first]["best"], question


@inlined
def _find_different(tables, memory, events, now, link, found, asked):
    """Return the first run of a list with other values, or 0; `asked` gets those of the event."""
    store = tables.links.store[link]
    width = tables.links.width[store]
    for v in range(width):
        asked[v] = events.codes[tables.link_values[link, v], now.at]
        if asked[v] == r.MISSING and tables.store_required[store, v]:
            return 0
    lists = unlike.Lists(memory.entries, memory.values, memory.back, tables.links.steps)
    return unlike.next_live(lists, found, asked, width, now.bound)


@inlined
def ask_tree(orders, gaps, tables, memory, events, now, link, found):
    """Return the latest start in a search tree, and the index of the question."""
    if gaps is None:
        return _ask_order(orders, tables, memory, events, now, link, found)
    return _ask_gap(tables, memory, events, now, link, found)


@inlined
def _ask_order(orders, tables, memory, events, now, link, found):
    if orders is None:
        return r.NOTHING, 0
    return _ask_values(tables, memory, events, now, link, found)


@inlined
def _ask_values(tables, memory, events, now, link, found):
    high, low = ask_ends(tables, events, now, link)
    if high == r.NOTHING:
        return r.NOTHING, 0
    question = memory.counters[r.ASKED]
    memory.counters[r.ASKED] = question + 1
    memory.asked[question, 0] = high
    memory.asked[question, 1] = low
    operator = tables.links.operator[link]
    if operator >= r.IN_GAP:
        return by_order.latest_inside(memory.branches, found, operator, high, low), question
    return by_order.latest_start(memory.branches, found, operator, high, low), question


@inlined
def _ask_gap(tables, memory, events, now, link, found):
    """Do as `ask_tree`, for an order as well as for gaps and groups."""
    store = tables.links.store[link]
    kind = tables.links.kind[store]
    question = memory.counters[r.ASKED]
    if tables.link_after[link] != NO_RUN:
        beside = memory.base[tables.links.store[link - 1]]
        at = beside + events.codes[tables.link_column[link - 1], now.at]
        high, low = memory.buckets[at]["ordinal"] + 1, np.int64(0)
        if tables.link_after[link] == FIRST_RUN:
            first = by_order.find_from(memory.branches, found, high)
            if first == 0:
                return r.NOTHING, 0
            high, latest = memory.branches[first]["high"], memory.branches[first]["start"]
        else:
            latest = by_order.latest_start(memory.branches, found, r.GREATER_EQUAL, high, low)
    elif kind == r.SORTED and tables.link_gap[link] != NO_GAP:
        reading = read_gap(events, now, tables.link_gap[link])
        high = go_back(reading, events.gap_most[link])
        low = go_back(reading, events.gap_least[link], r.NOTHING)
        latest = by_order.latest_inside(memory.branches, found, r.IN_GAP, high, low)
    elif tables.store_groups[store] >= 0:
        high, low = np.int64(0), np.int64(now.position)
        latest = memory.branches[found]["best"]
        if tables.store_since[store]:
            groups = tables.store_groups[store]
            at = memory.base[groups] + events.codes[tables.store_column[groups], now.at]
            if memory.buckets[at]["root"] == 0:
                return r.NOTHING, 0
            high = memory.buckets[at]["ordinal"]
            latest = by_order.latest_inside(memory.branches, found, r.IN_GAP, high, low)
    else:
        high, low = ask_ends(tables, events, now, link)
        if high == r.NOTHING:
            return r.NOTHING, 0
        operator = tables.links.operator[link]
        if operator >= r.IN_GAP:
            latest = by_order.latest_inside(memory.branches, found, operator, high, low)
        elif kind == r.RECENT:
            reading = read_gap(events, now, tables.link_gap[link])
            earliest = go_back(reading, events.gap_most[link])
            memory.asked[question, memory.asked.shape[1] - 1] = earliest
            latest = r.NOTHING
            run, alone = by_order.latest_run(memory.branches, found, operator, high, low)
            if run != 0 and memory.branches[run]["start"] >= earliest:
                newest, latest = memory.branches[run]["vertex"], now.clock
                if newest != 0 and alone and tables.store_first[store]:
                    latest = memory.vertices[newest]["start"]
        else:
            latest = by_order.latest_start(memory.branches, found, operator, high, low)
    memory.counters[r.ASKED] = question + 1
    memory.asked[question, 0] = high
    memory.asked[question, 1] = low
    return latest, question


@inner
def find_guard(guards, uses, tables, memory, events, now, state, asked):
    """Return the latest start of what must be absent from the matches that end now in a state."""
    if guards is None:
        return r.NOTHING
    return _find_guard(uses, tables, memory, events, now, state, asked)


@inner
def _find_guard(uses, tables, memory, events, now, state, asked):
    latest = r.NOTHING
    for link in range(tables.guard_first[state], tables.guard_first[state + 1]):
        store = tables.links.store[link]
        code = events.codes[tables.link_column[link], now.at]
        found = memory.buckets[memory.base[store] + code]["root"] if code >= 0 else 0
        kind = tables.links.kind[store]
        if found == 0:
            continue
        if kind == r.UNION:
            begun = memory.nodes[found]["start"]
        elif kind == r.SORTED:
            begun = _find_guard_in_tree(uses.gaps, tables, memory, events, now, link, found)
        else:
            begun = _find_guard_in_list(uses.lists, tables, memory, events, now, link, found, asked)
        latest = max(latest, begun)
    return latest


@inner
def _find_guard_in_tree(gaps, tables, memory, events, now, link, found):
    if gaps is None:
        return r.NOTHING
    return _find_alike(tables, memory, events, now, link, found)


@inner
def _find_alike(tables, memory, events, now, link, found):
    high = events.high[tables.link_ordered[link], now.at]
    low = events.low[tables.link_ordered[link], now.at]
    if high == r.NOTHING:
        return r.NOTHING
    operator = tables.links.operator[link]
    return by_order.latest_alike(memory.branches, found, operator, high, low)


@inner
def _find_guard_in_list(lists, tables, memory, events, now, link, found, asked):
    if lists is None:
        return r.NOTHING
    first = _find_different(tables, memory, events, now, link, found, asked)
    return memory.entries[first]["start"] if first != 0 else r.NOTHING


@inner
def file_in_list(uses, middles, tables, memory, events, now, filing, asked):
    """Put a run before its list; return (root or -1 for none, array, room) as `step` does."""
    if uses is None:
        return -1, 0, 0
    return _file_in_list(middles, tables, memory, events, now, filing, asked)


@inner
def _file_in_list(middles, tables, memory, events, now, filing, asked):
    counters, store = memory.counters, filing.store
    if counters[r.ENTRIES] + 1 > len(memory.entries):
        return -1, r.ENTRIES, 1
    entry = counters[r.ENTRIES]
    width = tables.links.width[store]
    for v in range(width):
        value = read_value(middles, tables, memory, events, now, filing, v)
        if value == r.MISSING and tables.store_required[store, v]:
            return -1, 0, 0
        memory.values[entry, v] = value
    lists = unlike.Lists(memory.entries, memory.values, memory.back, tables.links.steps)
    root = unlike.insert(
        lists, counters, filing.root, filing.vertex, filing.start, now.bound, asked, width
    )
    memory.entries[root]["store"] = store
    return root, 0, 0


@inner
def file_in_tree(orders, gaps, middles, tables, memory, events, now, filing):
    """Put a run into its search tree; return (root or -1 for none, array, room) as `step` does."""
    if gaps is None:
        return _file_by_order(orders, middles, tables, memory, events, now, filing)
    return _file_by_gap(middles, tables, memory, events, now, filing)


@inner
def _file_by_order(orders, middles, tables, memory, events, now, filing):
    if orders is None:
        return -1, 0, 0
    return _file_by_value(middles, tables, memory, events, now, filing)


@inner
def _file_by_value(middles, tables, memory, events, now, filing):
    counters, root = memory.counters, filing.root
    high, low = read_words(middles, tables, memory, events, now, filing)
    if high == r.NOTHING:
        return -1, 0, 0
    run = by_order.PlantedRun(high, low, filing.vertex, filing.start)
    shared = counters[r.SHARED]
    if root >= shared:  # branches of this event change, so it may not run out of room half-way
        room = by_order.room_to_insert(memory.branches, root, high, low)
        if counters[r.BRANCHES] + room > len(memory.branches):
            return -1, r.BRANCHES, room
    planted = by_order.insert(memory.branches, counters, root, run, now.bound, shared)
    if planted < 0:
        return -1, r.BRANCHES, by_order.room_to_insert(memory.branches, root, high, low)
    return planted, 0, 0


@inner
def _file_by_gap(middles, tables, memory, events, now, filing):
    """Do as `file_in_tree`, for an order as well as for gaps and groups."""
    counters, store, root = memory.counters, filing.store, filing.root
    start, bound = filing.start, now.bound
    kind, gap = tables.links.kind[store], tables.store_gap[store]
    groups = tables.store_groups[store]
    limit, room, trims = r.NOTHING, 0, False
    if kind == r.SORTED and gap != NO_GAP:
        high, low = read_gap(events, now, gap), np.int64(0)
        limit = go_back(high, events.store_reach[store])
        # once as much is dead as can be alive
        dead = go_back(limit, events.store_reach[store])
        trims = by_order.smallest(memory.branches, root) < dead
        room = by_order.room_to_trim(memory.branches, root, limit) if trims else 0
    elif groups >= 0:
        group = events.codes[tables.store_column[groups], now.at]
        high, low = np.int64(now.position), np.int64(0)
        if group >= 0:
            high = memory.buckets[memory.base[groups] + group]["ordinal"]
        if tables.store_since[store]:
            limit, trims = high, by_order.smallest(memory.branches, root) < high
            room = by_order.room_to_trim(memory.branches, root, limit) if trims else 0
    else:
        high, low = read_words(middles, tables, memory, events, now, filing)
        if kind == r.RECENT:
            start = read_gap(events, now, gap)
            bound = go_back(start, events.store_reach[store])
    if high == r.NOTHING:
        return -1, 0, 0
    room += by_order.room_to_insert(memory.branches, root, high, low)
    if counters[r.BRANCHES] + room > len(memory.branches):
        return -1, r.BRANCHES, room
    if trims:
        root = by_order.trim(memory.branches, counters, root, limit, bound)
    run = by_order.PlantedRun(high, low, filing.vertex, start)
    root = by_order.insert(memory.branches, counters, root, run, bound)
    return root, 0, 0
