"""Count the matches of a run at many levels at once, for thresholds that nest.

Each event has a *level* under a variable: how many of the thresholds it passes, the loosest first.
A match passes the threshold i if every event that a threshold looks at has a level above i. The
matches of the loosest threshold are runs of its automaton, so an edge that marks an event of level
l counts for the first l thresholds alone: a number becomes a vector of numbers, and the weight of
an event is a prefix of it.

The window slides as in `slide`, by two stacks of products, but all events are there: partitions are
read one after the other, the back is a stretch of the events, and its log are these events. Words
are of 64 bits and wrap around. That is exact where the loosest threshold has fewer than 2^63
matches in all, which the caller knows, whatever partial products do in between.

Cost contract: per event, O(states with partial matches × edges that the event moves) additions of
vectors, amortized, whatever the window; vectors are neighbouring words. Memory holds a row per
start in the window; where that is too much, a part of the levels is counted at a time. Turned down:
a walk over the compact set for each end, which costs as much as the window is wide.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import borrowing, inlined, inner
from cernis.compiled.tiers import expect_events
from cernis.engine.settings import CLOCK_WINDOW, EVENT_WINDOW, FOREVER, Settings
from cernis.engine.unary.tables import UnaryArrays

MOST_WORDS = 1 << 25
"""So many words hold the rows of the starts in a window; more levels take another pass."""
_LIVE, _FRONTS, _FRONTIER, _BEGUN = range(4)
"""Counters: free vectors, rows of the front, states of the last turn, starts of the back."""


class LevelEvents(NamedTuple):
    """The events that move or begin something, one partition after the other."""

    symbols: NDArray[np.int32]
    starts: NDArray[np.int64]
    bounds: NDArray[np.int64]
    usable: NDArray[np.uint8]
    """Whether a match may begin and end with the event."""
    firsts: NDArray[np.uint8]
    """Whether the event is the first of its partition."""
    passed: NDArray[np.int64]
    """Per kind of label and event, how many thresholds it passes."""
    groups: NDArray[np.int64]
    """Per grouping and event, the group that its matches count for; -1: none ends there."""


class LevelWork(NamedTuple):
    """The memory of the two stacks; vectors have an element of `width` words per row."""

    counters: NDArray[np.int64]
    slots: NDArray[np.int64]
    """Per state, the number of its vector; -1: it has no partial match."""
    suffixes: NDArray[np.int64]
    """The same, for the products of a turn."""
    gathered: NDArray[np.int64]
    free: NDArray[np.int64]
    has: NDArray[np.uint8]
    """Per vector and row, whether it may have matches."""
    vectors: NDArray[np.int64]
    fronts: NDArray[np.int64]
    front_starts: NDArray[np.int64]
    alive: NDArray[np.uint8]
    """Per state of the last turn, whether matches of the front reach it."""


class LevelSizes(NamedTuple):
    """The first level of a pass, how many there are, and the rows of a vector."""

    first: int
    width: int
    rows: int


@inlined
def _add(words, new, source, number):
    to, origin = np.uint64(new), np.uint64(source)
    for r in range(np.uint64(number)):
        words[to + r] += words[origin + r]


@inlined
def _fill(words, at, number, value):
    to = np.uint64(at)
    for r in range(np.uint64(number)):
        words[to + r] = value


@inlined
def _limit(events, kinds, label, event, sizes):
    """Return how many levels of this pass an edge with a label counts for."""
    return min(max(events.passed[kinds[label], event] - sizes.first, 0), sizes.width)


@inlined
def _take(work, sizes):
    """Return a vector without matches."""
    work.counters[_LIVE] -= 1
    at = work.free[work.counters[_LIVE]]
    for row in range(sizes.rows):
        work.has[at, row] = 0
    return at


@inlined
def _drop(work, at):
    work.free[work.counters[_LIVE]] = at
    work.counters[_LIVE] += 1


@inlined
def _add_vector(work, sizes, new, source, limit):
    """Add the first levels of one vector to another."""
    width, rows, words = sizes.width, sizes.rows, work.vectors
    for row in range(rows):
        if work.has[source, row]:
            to, origin = (new * rows + row) * width, (source * rows + row) * width
            if not work.has[new, row]:
                work.has[new, row] = 1
                _fill(words, to, width, 0)
            _add(words, to, origin, limit)


@inlined
def _moves_in_place(tables, symbol):
    """Whether the states that a symbol enters are none that it moves, and keep their runs."""
    if tables.mover_count[symbol] != 1:
        return False
    state = tables.movers[symbol, 0]
    found = tables.stay[state, symbol] != 0
    first = tables.edge_first[state, symbol]
    for e in range(first, first + tables.edge_count[state, symbol]):
        target = tables.edges[e]["target"]
        found = found and (target < 0 or (target != state and tables.stay[target, symbol] != 0))
    return found


@inner
def _prepend(tables, events, work, kinds, sizes, event):
    """Put one more event before the later ones of a turn."""
    symbol, suffixes, gathered = events.symbols[event], work.suffixes, work.gathered
    in_place = _moves_in_place(tables, symbol)
    for m in range(tables.mover_count[symbol]):
        state = tables.movers[symbol, m]
        new = suffixes[state] if in_place else np.int64(-1)
        first = tables.edge_first[state, symbol]
        for e in range(first, first + tables.edge_count[state, symbol]):
            target = tables.edges[e]["target"]
            if target < 0 or suffixes[target] < 0:
                continue
            limit = _limit(events, kinds, tables.edges[e]["label"], event, sizes)
            if new < 0:
                new = _take(work, sizes)
                if tables.stay[state, symbol] and suffixes[state] >= 0:
                    _add_vector(work, sizes, new, suffixes[state], sizes.width)
            _add_vector(work, sizes, new, suffixes[target], limit)
        if new < 0 and tables.stay[state, symbol]:
            new = suffixes[state]
        gathered[state] = new
    for m in range(tables.mover_count[symbol]):
        state = tables.movers[symbol, m]
        if suffixes[state] >= 0 and gathered[state] != suffixes[state]:
            _drop(work, suffixes[state])
        suffixes[state] = gathered[state]
        gathered[state] = -1


@inner
def _turn(tables, events, work, kinds, sizes, begin, end):
    """Turn the events of the back, from `begin` to before `end`, into a front."""
    counters, slots, suffixes, width = work.counters, work.slots, work.suffixes, sizes.width
    bound, frontier = events.bounds[end], 0
    for state in range(len(slots)):
        suffixes[state] = -1
        if slots[state] >= 0:
            _drop(work, slots[state])
            at = _take(work, sizes)
            work.has[at, frontier] = 1
            _fill(work.vectors, (at * sizes.rows + frontier) * width, width, 1)
            suffixes[state], slots[state] = at, frontier
            frontier += 1
    for row in range(frontier):
        work.alive[row] = 0
    fronts, stride = 0, (sizes.rows - 1) * width
    for event in range(end - 1, begin - 1, -1):
        symbol = events.symbols[event]
        if events.usable[event] and tables.start_count[symbol] > 0:
            if events.starts[event] < bound:
                break
            at = fronts * stride
            if fronts == 0:
                _fill(work.fronts, at, frontier * width, 0)
            else:
                to, origin = np.uint64(at), np.uint64(at - stride)
                for r in range(np.uint64(frontier * width)):
                    work.fronts[to + r] = work.fronts[origin + r]
            first = tables.start_first[symbol]
            for e in range(first, first + tables.start_count[symbol]):
                target = tables.edges[e]["target"]
                if target < 0 or suffixes[target] < 0:
                    continue
                limit = _limit(events, kinds, tables.edges[e]["label"], event, sizes)
                for row in range(frontier):
                    if work.has[suffixes[target], row]:
                        work.alive[row] = 1
                        origin = np.uint64((suffixes[target] * sizes.rows + row) * width)
                        to = np.uint64(at + row * width)
                        for r in range(np.uint64(limit)):
                            work.fronts[to + r] += work.vectors[origin + r]
            work.front_starts[fronts] = events.starts[event]
            fronts += 1
        _prepend(tables, events, work, kinds, sizes, event)
    for state in range(len(slots)):
        if suffixes[state] >= 0:
            _drop(work, suffixes[state])
    for state in range(len(slots)):
        row = slots[state]
        if row < 0:
            continue
        slots[state] = -1
        if fronts > 0 and work.alive[row]:
            at = _take(work, sizes)
            work.has[at, row + 1] = 1
            _fill(work.vectors, (at * sizes.rows + row + 1) * width, width, 1)
            slots[state] = at
    counters[_FRONTS], counters[_FRONTIER], counters[_BEGUN] = fronts, frontier, 0


@inner
def _accept(work, sizes, source, limit, result):
    """Add the matches of a vector that begin inside the window to the result."""
    width, rows, words = sizes.width, sizes.rows, work.vectors
    number, fronts = np.uint64(limit), work.counters[_FRONTS]
    if work.has[source, 0]:
        origin = np.uint64(source * rows * width)
        for r in range(number):
            result[r] += words[origin + r]
    for row in range(1, work.counters[_FRONTIER] + 1 if fronts > 0 else 1):
        if work.has[source, row]:
            origin = np.uint64((source * rows + row) * width)
            before = np.uint64(((fronts - 1) * (rows - 1) + row - 1) * width)
            for r in range(number):
                result[r] += work.fronts[before + r] * words[origin + r]


@inner
def _start(tables, events, work, kinds, sizes, event, result):
    """Begin the matches that start with an event."""
    symbol = events.symbols[event]
    first = tables.start_first[symbol]
    for e in range(first, first + tables.start_count[symbol]):
        target = tables.edges[e]["target"]
        limit = _limit(events, kinds, tables.edges[e]["label"], event, sizes)
        if tables.edges[e]["accept"]:
            for r in range(np.uint64(limit)):
                result[r] += 1
        if target < 0:
            continue
        if work.slots[target] < 0:
            work.slots[target] = _take(work, sizes)
        at = work.slots[target]
        to = np.uint64(at * sizes.rows * sizes.width)
        if not work.has[at, 0]:
            work.has[at, 0] = 1
            _fill(work.vectors, to, sizes.width, 0)
        for r in range(np.uint64(limit)):
            work.vectors[to + r] += 1


@inner
def _move(tables, events, work, kinds, sizes, event, result):
    """Move the partial matches that an event moves, and count those that it ends."""
    symbol, slots, gathered = events.symbols[event], work.slots, work.gathered
    in_place = _moves_in_place(tables, symbol)
    for m in range(tables.mover_count[symbol]):
        state = tables.movers[symbol, m]
        if slots[state] < 0:
            continue
        first = tables.edge_first[state, symbol]
        for e in range(first, first + tables.edge_count[state, symbol]):
            target = tables.edges[e]["target"]
            limit = _limit(events, kinds, tables.edges[e]["label"], event, sizes)
            if tables.edges[e]["accept"] and events.usable[event]:
                _accept(work, sizes, slots[state], limit, result)
            if target < 0:
                continue
            if in_place:
                if slots[target] < 0:
                    slots[target] = _take(work, sizes)
                _add_vector(work, sizes, slots[target], slots[state], limit)
                continue
            if gathered[target] < 0:
                gathered[target] = _take(work, sizes)
            _add_vector(work, sizes, gathered[target], slots[state], limit)
    if in_place:
        return
    for m in range(tables.mover_count[symbol]):
        state = tables.movers[symbol, m]
        if slots[state] >= 0 and not tables.stay[state, symbol]:
            _drop(work, slots[state])
            slots[state] = -1
    for state in range(len(slots)):
        if gathered[state] >= 0:
            if slots[state] < 0:
                slots[state] = gathered[state]
            else:
                _add_vector(work, sizes, slots[state], gathered[state], sizes.width)
                _drop(work, gathered[state])
            gathered[state] = -1


@inlined
def _reset(work):
    """Drop all partial matches."""
    for state in range(len(work.slots)):
        work.slots[state] = -1
        work.gathered[state] = -1
    for at in range(len(work.free)):
        work.free[at] = at
    work.counters[_LIVE] = len(work.free)
    work.counters[_FRONTS] = work.counters[_FRONTIER] = work.counters[_BEGUN] = 0


@borrowing
def _count(tables, events, work, kinds, sizes, result, found):
    """Add the numbers of matches of each group, at each level of this pass."""
    counters, width, back = work.counters, np.uint64(sizes.width), 0
    oldest = np.int64(0)
    for event in range(len(events.symbols)):
        if events.firsts[event]:
            _reset(work)
            back = event
        symbol = events.symbols[event]
        is_usable = events.usable[event] != 0
        if is_usable:
            bound, fronts = events.bounds[event], counters[_FRONTS]
            while fronts > 0 and work.front_starts[fronts - 1] < bound:
                fronts -= 1
            counters[_FRONTS] = fronts
            if fronts == 0 and counters[_BEGUN] > 0 and oldest < bound:
                _turn(tables, events, work, kinds, sizes, back, event)
                back = event
        for r in range(width):
            result[r] = 0
        _move(tables, events, work, kinds, sizes, event, result)
        if is_usable and tables.start_count[symbol] > 0:
            _start(tables, events, work, kinds, sizes, event, result)
            if counters[_BEGUN] == 0:
                oldest = events.starts[event]
            counters[_BEGUN] += 1
        for g in range(len(events.groups)):
            group = events.groups[g, event]
            if is_usable and group >= 0:
                for r in range(width):
                    found[group, np.uint64(sizes.first) + r] += result[r]


@borrowing
def _find_widest(starts, bounds, usable, firsts):
    """Return the largest number of events that a window holds."""
    first, most = 0, 1
    for event in range(len(starts)):
        if firsts[event]:
            first = event
        while usable[event] and starts[first] < bounds[event] and first < event:
            first += 1
        most = max(most, event - first + 1)
    return most


class LevelInput(NamedTuple):
    """All events of a run as the engine has read them."""

    symbols: NDArray[np.int32]
    keys: NDArray[np.int64] | None
    clocks: NDArray[np.int64] | None
    bounds: NDArray[np.int64] | None
    usable: NDArray[np.uint8] | None


def arrange_events(
    tables: UnaryArrays,
    settings: Settings,
    read: LevelInput,
    passed: NDArray[np.int64],
    groups: NDArray[np.int64],
) -> LevelEvents:
    """Return the events that do something, with their windows, by partition."""
    number = len(read.symbols)
    order = np.arange(number)
    firsts = np.zeros(number, np.bool_)
    firsts[:1] = True
    if read.keys is not None:
        order = np.argsort(read.keys, kind="stable")
        order = order[np.searchsorted(read.keys[order], 0) :]
        keys = read.keys[order]
        firsts = np.ones(len(order), np.bool_)
        firsts[1:] = keys[1:] != keys[:-1]
    partitions = np.cumsum(firsts)
    starts = np.zeros(len(order), np.int64)
    bounds = np.full(len(order), FOREVER)
    if settings.window == EVENT_WINDOW:
        starts = np.arange(len(order), dtype=np.int64)  # of one partition only they are compared
        bounds = starts - settings.size
    elif settings.window == CLOCK_WINDOW:
        assert read.clocks is not None
        assert read.bounds is not None
        starts, bounds = read.clocks[order], read.bounds[order]
    usable = np.ones(len(order), np.uint8) if read.usable is None else read.usable[order]
    moves = tables.inert[read.symbols[order]] == 0
    order, partitions = order[moves], partitions[moves]
    begins = np.ones(len(order), np.uint8)
    begins[1:] = partitions[1:] != partitions[:-1]
    return LevelEvents(
        read.symbols[order],
        starts[moves],
        bounds[moves],
        usable[moves] & (starts[moves] >= bounds[moves]).view(np.uint8),
        begins,
        np.ascontiguousarray(passed[:, order]),
        np.ascontiguousarray(groups[:, order]),
    )


def count_levels(
    tables: UnaryArrays,
    events: LevelEvents,
    kinds: NDArray[np.int64],
    levels: int,
    groups: int,
) -> NDArray[np.int64]:
    """Return the number of matches of each group at each level, modulo 2^64.

    `kinds` has the row of `passed` for each label.
    """
    states, found = len(tables.expanded), np.zeros((groups, levels), np.int64)
    if not len(events.symbols):
        return found
    rows, vectors = states + 1, 2 * states + 2
    expect_events(len(events.symbols) * levels // 8)
    widest = 0
    if events.bounds.max() > FOREVER:
        widest = int(_find_widest(events.starts, events.bounds, events.usable, events.firsts))
    need = vectors * rows + widest * states
    width = max(1, min(levels, MOST_WORDS // need))
    for first in range(0, levels, width):
        sizes = LevelSizes(first, min(width, levels - first), rows)
        work = LevelWork(
            np.zeros(4, np.int64),
            np.full(states, -1, np.int64),
            np.full(states, -1, np.int64),
            np.full(states, -1, np.int64),
            np.zeros(vectors, np.int64),
            np.zeros((vectors, rows), np.uint8),
            np.empty(vectors * rows * sizes.width, np.int64),
            np.empty(widest * states * sizes.width, np.int64),
            np.empty(widest, np.int64),
            np.zeros(states, np.uint8),
        )
        result = np.zeros(sizes.width, np.int64)
        _count(tables, events, work, kinds, sizes, result, found)
    return found
