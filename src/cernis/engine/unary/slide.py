"""The sliding kernel: aggregates over all matches that end at an event, at a constant cost.

In an input/output-deterministic automaton a match is one accepting run. So the matches that end
at an event and start inside the window are a product: the row of the start, times one matrix per
event of the window, times the accepting edges, over a semiring (`semiring`). A sliding product
without inverses takes two stacks:

* the *back* is one matrix B, multiplied from the right by each event: its columns are vectors,
  one per state that has partial matches, and an event adds columns to columns;
* the *front* has, per start, the row of all matches that start there or later, up to the last
  *turn*. Expired starts are popped.

When the front is empty and a start of the back expires, the stacks *turn*: one pass over the
events of the back, newest first, makes the rows of a new front, and B becomes the identity over
the states that have partial matches.

Before the first turn B has one row, that of the start. Without a window it stays so. An event
that moves no partial match is not stored.

States are numbered as runs first reach them, so along a sequence B is triangular, and so are the
products of a turn. Each vector knows how many elements may have matches (`reach`), and a row of a
turn from which element on (`lows`). Sums of integers have their own (`sum_reach`, `sum_lows`):
where partial matches were beyond a variable at the last turn, its sum is 0 since. Most events move
a single state, by a single edge: a table has that edge per symbol (`steps`), and its vector is
added to the one that is there.

Residues must have room for all numbers. Each vector has a bound, which grows with every match and
shrinks at a turn, so it also counts matches of up to two windows. Before residues become more,
`tighten_bounds` replaces bounds by the numbers themselves, which are those of one window.

Under NEXT the automaton leaves one set of events per start, and the earliest start wins. Runs in
one state have the same future. So the first element of a vector, whose matches begin in the back,
keeps those of its earliest start alone (`firsts`), and so does each element of a row of the front
(its *rank*: lower for earlier starts). The other elements of a vector are added as ever: their
matches begin in the front. At an end the earliest start is looked up among the elements that both
the row and the vector have, and the product leaves all others out.

Cost contract: O(states with partial matches × edges that the event moves) per event, amortized,
whatever the window and the number of matches; an inert event costs one look-up. Memory holds the
events of the window that moved something, a row per start in it, and the square of the states
that have partial matches per partition. Rejected: rows per event in place of rows per start
(larger, and no faster), subtracting expired matches (least values have no inverse).
"""

from __future__ import annotations

import numpy as np

from cernis.compiled import apart, borrowing, inlined
from cernis.engine.residues import bound_integer
from cernis.engine.settings import CLOCK_WINDOW, EVENT_WINDOW, FOREVER, NEVER, NO_WINDOW
from cernis.engine.unary.semiring import (
    add,
    add_bounds,
    add_one,
    add_product,
    add_unit_bounds,
    clear,
    clear_element,
    copy_first,
    copy_weights,
    copy_words,
    has_matches,
    has_sums,
    hide_first,
    lighten,
    weigh,
)
from cernis.engine.unary.stacks import (
    ENDS,
    FREE_ROWS,
    HALF_LOAD,
    LARGE,
    LOGGED,
    NONE,
    RELEVANT,
    WORDS,
    find_front,
    find_stride,
    reset_row,
    scale_bounds,
)
from cernis.engine.unary.turn import turn

DONE, UNKNOWN_STATE, POOL_FULL, ENDS_FULL, ROWS_FULL, LANES_FULL = range(6)
_STRETCH = 512
_MUCH_ROOM = 16.0


@borrowing
def slide(tables, memory, lanes, events, scratch, rules, base, begin):
    """Read the events from `begin` on; return (status, event to go on with, detail)."""
    counters, rows = memory.counters, memory.rows
    symbols, inert, relevant = events.symbols, tables.inert, scratch.relevant
    partitioned = len(events.keys) > 0
    counts_all = partitioned and rules.window == EVENT_WINDOW
    has_nulls, starts_any = len(events.usable) > 0, len(events.begins) == 0
    for low in range(begin, len(symbols), _STRETCH):
        found = 0
        for i in range(low, min(low + _STRETCH, len(symbols))):
            relevant[found] = i
            found += counts_all or not inert[symbols[i]]
        for which in range(found):
            i = relevant[which]
            symbol = symbols[i]
            row = 0
            key = np.int64(0)
            if partitioned:
                key = events.keys[i]
                if key < 0:
                    continue
                row = memory.row_of_key[key]
                if row < 0:
                    if tables.start_count[symbol] == 0:
                        continue
                    if counters[FREE_ROWS] == 0:
                        return ROWS_FULL, i, 0
                elif inert[symbol]:
                    rows[row]["ordinal"] += 1
                    continue
            start = base + i
            bound = FOREVER
            if rules.window == EVENT_WINDOW:
                if partitioned:
                    start = rows[row]["ordinal"] if row >= 0 else 0
                bound = start - rules.size
            elif rules.window == CLOCK_WINDOW:
                start = events.clocks[i]
                bound = events.bounds[i]
            has_time = not has_nulls or events.usable[i] != 0
            begins = has_time and start >= bound and (starts_any or events.begins[i] != 0)
            if row >= 0 and has_time and rules.window != NO_WINDOW:
                rows[row]["bound"] = bound
                missing = _expire(tables, memory, lanes, scratch, row, bound)
                if missing > 0:
                    return POOL_FULL, i, missing
            if begins and row >= 0 and not lanes.ranks and _is_simple(tables, scratch, symbol):
                logs = rules.window != NO_WINDOW
                if _step(tables, memory, lanes, events, scratch, (row, i, base + i), start, logs):
                    continue
            moves, leaves, unknown = _gather(tables, memory.offsets, scratch, symbol, row, begins)
            if unknown >= 0:
                return UNKNOWN_STATE, i, unknown
            starts = tables.start_count[symbol] if begins else 0
            if moves + starts == 0 and not leaves:
                if row >= 0:
                    rows[row]["ordinal"] += 1
                continue
            if row < 0:
                row = _take_row(memory, lanes, key, bound)
            vector = lanes.words * rows[row]["size"]
            room = (moves + starts) * (lanes.header + vector) + lanes.ranks * vector
            if counters[WORDS] + room > len(memory.pool.words) or counters[LOGGED] == len(
                memory.log
            ):
                return POOL_FULL, i, room
            if counters[ENDS] == len(scratch.ends):
                return ENDS_FULL, i, 0
            if not _fits(tables, memory, lanes, events, scratch, row, i, moves):
                return LANES_FULL, i, row
            counters[RELEVANT] += 1
            clear(scratch.result, lanes, 0, 1)
            scratch.earliest[0] = NEVER
            targets = _move(tables, memory, lanes, events, scratch, row, i, moves)
            if leaves or targets:
                _settle(tables, memory, scratch, row, symbol, targets)
            if starts:
                _start(tables, memory, lanes, events, scratch, row, (i, base + i))
            if rules.window != NO_WINDOW and (leaves or targets or starts):
                _log(memory, events, row, i, start, starts)
            rows[row]["ordinal"] += 1
            if has_time:
                _report(lanes, counters, scratch, base + i)
    return DONE, len(symbols), 0


@inlined
def _expire(tables, memory, lanes, scratch, row, bound):
    """Drop the matches that start before the bound; return the words that are missing, or 0."""
    record, words = memory.rows[row], memory.pool.words
    stride, fronts = find_stride(lanes, record["size"]), record["fronts"]
    if fronts > 0:
        if words[record["front"] + (fronts - 1) * stride] >= bound:
            return 0
    elif record["begun"] == 0 or record["oldest"] >= bound:
        return 0
    if record["newest"] < bound:
        reset_row(memory, lanes, row)
        return 0
    while fronts > 0 and words[record["front"] + (fronts - 1) * stride] < bound:
        fronts -= 1
    record["fronts"] = fronts
    if fronts == 0 and record["begun"] > 0 and record["oldest"] < bound:
        return turn(tables, memory, lanes, scratch, row, bound)
    return 0


@inlined
def _is_simple(tables, scratch, symbol):
    """Return whether `steps` has all that a symbol does."""
    step = scratch.steps[symbol]
    return (
        step["movers"] == tables.mover_count[symbol]
        and step["starts"] == tables.start_count[symbol]
    )


@inlined
def _step(tables, memory, lanes, events, scratch, which, start, logs):
    """Read an event that has a step; return whether it did: if not, nothing has changed.

    `which` has the row, the number of the event in the batch, and its position. What is left out
    is what `slide` does for any event: growing arrays, more residues, scaling bounds.
    """
    row, event, position = which
    counters, pool, offsets, result = memory.counters, memory.pool, memory.offsets, scratch.result
    record, step = memory.rows[row], scratch.steps[events.symbols[event]]
    source = offsets[row, step["state"]] if step["movers"] > 0 else 0
    starts, entered = step["starts"], step["entered"]
    if source == 0 and starts == 0:
        record["ordinal"] += 1
        return True
    target = step["target"] if source else NONE
    there = offsets[row, target] if target >= 0 else 0
    begun = offsets[row, entered] if entered >= 0 else 0
    if (target >= 0 and there == 0) or (entered >= 0 and begun == 0):
        room = 2 * (lanes.header + lanes.words * record["size"])
        if counters[WORDS] + room > len(pool.words):
            return False
    if counters[LOGGED] == len(memory.log) or counters[ENDS] == len(scratch.ends):
        return False
    if not _fits_simply(memory, lanes, events, (event, row), starts, source, (there, begun)):
        return False
    counters[RELEVANT] += 1
    ends = (source and step["accept"]) or step["accept_start"]
    if ends:
        if lanes.words == 1:
            result.words[0] = 0
        else:
            clear(result, lanes, 0, 1)
    if source:
        _move_simply(memory, lanes, events, scratch, row, event)
    if begun and lanes.words == 1 and not step["accept_start"]:
        pool.words[begun] += 1
        pool.reals[begun - 2] += record["unit"]
        pool.reals[begun - 1] += record["unit"]
    elif starts:
        _start(tables, memory, lanes, events, scratch, row, (event, position))
    if logs and (starts or target >= 0):
        _log(memory, events, row, event, start, starts)
    record["ordinal"] += 1
    if ends:
        _report(lanes, counters, scratch, position)
    return True


@inlined
def _fits_simply(memory, lanes, events, which, starts, source, entered):
    """Do as `_fits`, for an event that has a step; also say no where bounds must be scaled.

    `entered` has the two vectors that the event adds to, or 0.
    """
    event, row = which
    reals, header, record = memory.pool.reals, lanes.header, memory.rows[row]
    largest = 0.0
    for q in range(header // 2):
        weight = 1.0 if q == 0 else abs(np.float64(events.weights.sums[event, q - 1]))
        coming = starts * record["unit"] * weight
        if source:
            coming += reals[source - header + q]
            if q > 0:
                coming += weight * reals[source - header]
        there = 0.0
        if entered[0]:
            there = reals[entered[0] - header + q]
        if entered[1]:
            there = max(there, reals[entered[1] - header + q])
        largest = max(largest, coming + there)
    return largest < record["limit"] and largest < LARGE


@inlined
def _gather(tables, offsets, scratch, symbol, row, begins):
    """Write the moves of an event; return (how many, whether runs leave, unknown state or -1)."""
    edges = tables.edges
    moves = 0
    leaves = False
    if begins:
        first = tables.start_first[symbol]
        for e in range(first, first + tables.start_count[symbol]):
            target = edges[e]["target"]
            if target >= 0 and not tables.expanded[target]:
                return moves, leaves, target
    if row < 0:
        return moves, leaves, NONE
    for m in range(tables.mover_count[symbol]):
        state = tables.movers[symbol, m]
        if offsets[row, state] == 0:
            continue
        leaves = leaves or tables.stay[state, symbol] == 0
        first = tables.edge_first[state, symbol]
        for e in range(first, first + tables.edge_count[state, symbol]):
            target = edges[e]["target"]
            if target >= 0 and not tables.expanded[target]:
                return moves, leaves, target
            scratch.moving_state[moves] = state
            scratch.moving_edge[moves] = e
            moves += 1
    return moves, leaves, NONE


@inlined
def _fits(tables, memory, lanes, events, scratch, row, event, moves):
    """Return whether the residues have room for all numbers after this event."""
    reals, offsets, header = memory.pool.reals, memory.offsets, lanes.header
    record = memory.rows[row]
    symbol = events.symbols[event]
    first, starts = tables.start_first[symbol], tables.start_count[symbol]
    largest = 0.0
    for q in range(header // 2):
        weight = 1.0 if q == 0 else abs(np.float64(events.weights.sums[event, q - 1]))
        coming, there = starts * record["unit"] * weight, 0.0
        for m in range(moves):
            source = offsets[row, scratch.moving_state[m]] - header
            target = tables.edges[scratch.moving_edge[m]]["target"]
            coming += reals[source + q]
            if q > 0:
                coming += weight * reals[source]
            if target >= 0 and offsets[row, target]:
                there = max(there, reals[offsets[row, target] - header + q])
        for e in range(first, first + starts):
            target = tables.edges[e]["target"]
            if target >= 0 and offsets[row, target]:
                there = max(there, reals[offsets[row, target] - header + q])
        largest = max(largest, coming + there)
    if largest >= LARGE:
        largest = largest / LARGE
        scale_bounds(memory, lanes, row, 1)
    return largest < record["limit"]


@borrowing
def tighten_bounds(memory, lanes, scratch, row, digits):
    """Bound the numbers of a partition by what they are; return whether that leaves much room.

    Bounds also count matches that have expired since they were begun.
    """
    pool, offsets, record = memory.pool, memory.offsets, memory.rows[row]
    residues, header, size = len(lanes.moduli.primes), lanes.header, record["size"]
    if record["scale"] > 0:
        return False
    front = find_front(lanes, record)
    for q in range(len(scratch.weights.sums)):
        scratch.weights.sums[q] = 0
    largest = 0.0
    for state in range(offsets.shape[1]):
        at, length = offsets[row, state], memory.reach[row, state]
        if at == 0:
            continue
        summed = memory.sum_reach[row, state]
        memory.loads[row, state] = lighten(
            pool, lanes, at, size, (0, length, 0, summed), memory.loads[row, state], 1
        )
        clear(scratch.result, lanes, 0, 1)
        lengths = (length, summed)
        add_product(pool, lanes, scratch.weights, scratch.result, front, at, size, lengths)
        for q in range(lanes.quantities):
            if q == 0 or not lanes.signed[q - 1]:
                first = q * residues
                number = bound_integer(
                    lanes.moduli, scratch.result.words[first : first + residues], digits
                )
                pool.reals[at - header + q] = min(pool.reals[at - header + q], number)
            largest = max(largest, pool.reals[at - header + q])
    return largest < record["limit"] / _MUCH_ROOM


# ------------------------------------------------------------------ moving


@inlined
def _move_simply(memory, lanes, events, scratch, row, event):
    """Do as `_move` and `_settle`, for an event that has a step."""
    pool, offsets, reach = memory.pool, memory.offsets, memory.reach
    record, step = memory.rows[row], scratch.steps[events.symbols[event]]
    size, state, target = record["size"], step["state"], step["target"]
    source, length, summed = offsets[row, state], reach[row, state], memory.sum_reach[row, state]
    weigh(lanes, events.weights, event, step["label"], scratch.weights)
    if lanes.floats > lanes.quantities:
        _lighten_source(memory, lanes, scratch, row, state, step["accept"])
    if step["accept"]:
        front, lengths = find_front(lanes, record), (length, summed)
        add_product(pool, lanes, scratch.weights, scratch.result, front, source, size, lengths)
    if target < 0:
        return
    there = offsets[row, target]
    _extend_reach(memory, lanes, scratch, row, state, target, there == 0)
    new = there
    if there == 0:
        new = _take_vector(memory, lanes, row)
        offsets[row, target] = new
        length = size
    if lanes.floats > lanes.quantities:
        load = np.int64(0)
        if there:
            load, part = memory.loads[row, target], _find_part(memory, row, target)
            load = lighten(pool, lanes, there, size, part, load, HALF_LOAD)
        memory.loads[row, target] = load + memory.loads[row, state] + 1
    add_bounds(pool, scratch.weights, new, there, source, lanes.header)
    add(pool, lanes, scratch.weights, new, there, source, size, (0, length, 0, summed))


@inlined
def _extend_reach(memory, lanes, scratch, row, state, target, is_new):
    """Let a vector reach as far as the one that is added to it does, with these weights."""
    reach, sum_reach, length = memory.reach, memory.sum_reach, memory.reach[row, state]
    if is_new:
        reach[row, target] = 0
        sum_reach[row, target] = 0
    if reach[row, target] < length:
        reach[row, target] = length
    if lanes.quantities > 1:
        summed = length if has_sums(scratch.weights) else sum_reach[row, state]
        sum_reach[row, target] = max(sum_reach[row, target], summed)


@inlined
def _find_part(memory, row, state):
    """Return the elements of a vector that may have matches, and those that may have sums."""
    return 0, memory.reach[row, state], 0, memory.sum_reach[row, state]


@apart
def _choose_front(memory, lanes, scratch, row, state, front):
    """Return a row of the front that has only the earliest start of a state; NONE: it is too late.

    0 stands for a start of the back. The row is made above the words in use. Matches of later
    starts leave the result.
    """
    pool, size = memory.pool, memory.rows[row]["size"]
    source, ranks = memory.offsets[row, state], front + lanes.words * size
    earliest = memory.firsts[row, state]
    for r in range(1, memory.reach[row, state] if front else 1):
        if pool.words[ranks + r] < earliest and has_matches(pool, lanes, source, r):
            earliest = pool.words[ranks + r]
    if earliest == NEVER or earliest > scratch.earliest[0]:
        return NONE
    if earliest < scratch.earliest[0]:
        clear(scratch.result, lanes, 0, 1)
        scratch.earliest[0] = earliest
    if earliest >= 0:
        return 0
    chosen = memory.counters[WORDS]
    copy_words(pool.words, chosen, front, lanes.words * size)
    for r in range(size):
        if pool.words[ranks + r] != earliest:
            clear_element(pool, lanes, chosen, size, r)
    return chosen


@inlined
def _lighten_source(memory, lanes, scratch, row, state, accept):
    """Reduce the vector of a state before it is added, or multiplied: then it has no load."""
    most = HALF_LOAD
    if accept or has_sums(scratch.weights):
        most = 1
    at, size, load = memory.offsets[row, state], memory.rows[row]["size"], memory.loads[row, state]
    part = _find_part(memory, row, state)
    memory.loads[row, state] = lighten(memory.pool, lanes, at, size, part, load, most)


@inlined
def _move(tables, memory, lanes, events, scratch, row, event, moves):
    """Add the vectors of states that move to those they enter; return how many are entered."""
    pool, offsets, gathered = memory.pool, memory.offsets, scratch.gathered
    record = memory.rows[row]
    size, front = record["size"], find_front(lanes, record)
    targets = 0
    for m in range(moves):
        edge = tables.edges[scratch.moving_edge[m]]
        target = edge["target"]
        state = scratch.moving_state[m]
        source, lengths = (
            offsets[row, state],
            (memory.reach[row, state], memory.sum_reach[row, state]),
        )
        weigh(lanes, events.weights, event, edge["label"], scratch.weights)
        if lanes.floats > lanes.quantities:
            _lighten_source(memory, lanes, scratch, row, state, edge["accept"])
        if edge["accept"]:
            chosen = front
            if lanes.ranks:
                chosen = _choose_front(memory, lanes, scratch, row, state, front)
            if chosen != NONE:
                result = scratch.result
                add_product(pool, lanes, scratch.weights, result, chosen, source, size, lengths)
        if target < 0:
            continue
        there = offsets[row, target]
        is_new = there == 0 and gathered[target] == 0
        _extend_reach(memory, lanes, scratch, row, state, target, is_new)
        stays = tables.stay[target, events.symbols[event]] != 0
        new = gathered[target]
        base = new
        load, first = scratch.gathered_loads[target], scratch.gathered_firsts[target]
        if new == 0:
            new = _take_vector(memory, lanes, row)
            base = there if stays else 0
            load = memory.loads[row, target] if base else 0
            first = memory.firsts[row, target]
            gathered[target] = new
            scratch.touched[targets] = target
            targets += 1
        if lanes.floats > lanes.quantities:
            if base:
                load = lighten(pool, lanes, base, size, (0, size, 0, size), load, HALF_LOAD)
            if base == there:
                memory.loads[row, target] = load
            scratch.gathered_loads[target] = load + memory.loads[row, state] + 1
        add_bounds(pool, scratch.weights, new, base, source, lanes.header)
        later, other = np.int64(0), memory.firsts[row, state]
        if base and first != other and lanes.ranks:
            later = base if other < first else source
            hide_first(pool, lanes, later, size, scratch.saved)
        add(pool, lanes, scratch.weights, new, base, source, size, (0, size, 0, size))
        if later and later != new:
            copy_first(lanes, scratch.saved, 0, 1, pool.words, later, size)
        scratch.gathered_firsts[target] = min(first, other) if base else other
    return targets


@inlined
def _take_vector(memory, lanes, row):
    """Return a vector of a partition that is not in use."""
    record, words = memory.rows[row], memory.pool.words
    at = record["spare"]
    if at:
        record["spare"] = words[at]
        return at
    at = memory.counters[WORDS] + lanes.header
    memory.counters[WORDS] = at + lanes.words * record["size"]
    return at


@inlined
def _put(memory, row, state, at):
    """Give a state another vector, or none (0)."""
    old = memory.offsets[row, state]
    if old:
        memory.pool.words[old] = memory.rows[row]["spare"]
        memory.rows[row]["spare"] = old
    memory.offsets[row, state] = at


@inlined
def _settle(tables, memory, scratch, row, symbol, targets):
    """Empty the states that all runs leave, and fill those that runs have entered."""
    for m in range(tables.mover_count[symbol]):
        state = tables.movers[symbol, m]
        if tables.stay[state, symbol] == 0:
            _put(memory, row, state, 0)
    for t in range(targets):
        state = scratch.touched[t]
        _put(memory, row, state, scratch.gathered[state])
        memory.loads[row, state] = scratch.gathered_loads[state]
        memory.firsts[row, state] = scratch.gathered_firsts[state]
        scratch.gathered[state] = 0


@inlined
def _start(tables, memory, lanes, events, scratch, row, which):
    """Begin the matches that start with an event: its number in the batch, and its position."""
    event, position = which
    pool, symbol, weights = memory.pool, events.symbols[event], scratch.weights
    record = memory.rows[row]
    first = tables.start_first[symbol]
    for e in range(first, first + tables.start_count[symbol]):
        target = tables.edges[e]["target"]
        weigh(lanes, events.weights, event, tables.edges[e]["label"], weights)
        if tables.edges[e]["accept"] and not (lanes.ranks and scratch.earliest[0] < position):
            scratch.earliest[0] = position
            add_one(scratch.result, lanes, weights, 0, 1)
        if target < 0:
            continue
        at = memory.offsets[row, target]
        if lanes.ranks and at and memory.firsts[row, target] < position:
            continue
        memory.firsts[row, target] = position
        if at == 0:
            at = _take_vector(memory, lanes, row)
            memory.offsets[row, target] = at
            memory.reach[row, target] = 1
            memory.sum_reach[row, target] = 1
            memory.loads[row, target] = 1
            clear(pool, lanes, at, record["size"])
            for i in range(at - lanes.header, at):
                pool.reals[i] = 0.0
        elif memory.sum_reach[row, target] == 0:
            memory.sum_reach[row, target] = 1
        add_one(pool, lanes, weights, at, record["size"])
        add_unit_bounds(pool, weights, at, lanes.header, record["unit"])


@inlined
def _log(memory, events, row, event, start, begins):
    """Store an event for the next turn."""
    counters, record = memory.counters, memory.rows[row]
    at = counters[LOGGED]
    counters[LOGGED] = at + 1
    memory.log[at]["start"] = start
    memory.log[at]["before"] = record["last"]
    memory.log[at]["symbol"] = events.symbols[event]
    memory.log[at]["begins"] = begins
    copy_weights(events.weights, event, memory.log_weights, at)
    record["last"] = at
    if begins:
        if record["begun"] == 0:
            record["oldest"] = start
        record["begun"] += 1
        record["newest"] = start


@inlined
def _report(lanes, counters, scratch, position):
    """Write the element of an event that matches end at."""
    exists = scratch.result.words[0] != 0
    for lane in range(1, len(lanes.moduli.primes)):
        exists = exists or scratch.result.words[lane] != 0
    if exists:
        end = counters[ENDS]
        counters[ENDS] = end + 1
        scratch.ends[end] = position
        scratch.found[end, 0] = scratch.result.words[0]
        for i in range(1, lanes.words):
            scratch.found[end, i] = scratch.result.words[i]


@inlined
def _take_row(memory, lanes, key, bound):
    """Give a partition a free row."""
    counters = memory.counters
    counters[FREE_ROWS] -= 1
    row = memory.free_rows[counters[FREE_ROWS]]
    memory.row_of_key[key] = row
    reset_row(memory, lanes, row)
    memory.rows[row]["key"] = key
    memory.rows[row]["ordinal"] = 0
    memory.rows[row]["bound"] = bound
    memory.rows[row]["newest"] = FOREVER
    return row
