"""One pass of the sliding kernel: the back becomes a front when the last start of a front expires.

The events of the back are read newest first. Each multiplies the matrix of the later ones by its
own, from the left, and where it begins matches, the row of all matches that start there or later is
a row of the new front. Then the back's matrix is the identity over the states that have partial
matches.

Cost contract: O(states with partial matches × edges that the event moves) for each event of the
back, which turns once.
"""

from __future__ import annotations

import numpy as np

from cernis.compiled import apart, inlined
from cernis.engine.settings import NEVER
from cernis.engine.unary.semiring import (
    add,
    clear_element,
    copy_words,
    has_matches,
    has_sums,
    lighten,
    set_unit,
    weigh,
)
from cernis.engine.unary.stacks import (
    BLOCK,
    HALF_LOAD,
    LARGE,
    LOGGED,
    NONE,
    WORDS,
    find_stride,
    round_up,
    scale_bounds,
)


@apart
def turn(tables, memory, lanes, scratch, row, bound):
    """Turn the back into a front; return the words that are missing for it, or 0.

    Rows of the matrix are made above the new vectors, where nothing stays. All goes above the words
    in use. Where there is one partition, the vectors and these rows go below its old vectors, or
    above them, and the front above both: so it replaces the front before, and the pool
    fills up once.
    """
    record, pool, offsets = memory.rows[row], memory.pool, memory.offsets
    suffixes, header = scratch.suffixes, lanes.header
    size = 1
    for state in range(offsets.shape[1]):
        suffixes[state] = 0
        size += offsets[row, state] != 0
    size = round_up(size)
    for state in range(offsets.shape[1]):
        scratch.lows[state] = size
        scratch.sum_lows[state] = size
    vector, stride = lanes.words * size, find_stride(lanes, size)
    rows_of_front, new_vectors = record["begun"] * stride, (size - 1) * (header + vector)
    front, limit = memory.counters[WORDS], len(pool.words)
    vectors = front + rows_of_front
    used = vectors + new_vectors
    whole = used
    if len(memory.rows) == 1:
        low, high = front, np.int64(1)
        for state in range(offsets.shape[1]):
            if offsets[row, state]:
                low = min(low, offsets[row, state] - header)
                high = max(high, offsets[row, state] + lanes.words * record["size"])
        room = new_vectors + (size + 3 * offsets.shape[1]) * vector
        vectors = 1 if 1 + room <= low else high
        front = max(high, vectors + room)
        whole = vectors + new_vectors
        used = front + rows_of_front
    most, lowest = whole + size * vector, min(front, vectors)
    if max(used, most) > limit:
        return max(used, most) - lowest
    set_unit(pool, lanes, whole, size, 0)
    for r in range(size):
        scratch.ranks[r] = NEVER
    loads = scratch.suffix_loads
    for state in range(len(loads)):
        loads[state] = 1
    index = 0
    for state in range(offsets.shape[1]):
        if offsets[row, state]:
            index += 1
            suffixes[state] = whole + index * vector
            scratch.lows[state] = index // BLOCK * BLOCK
            set_unit(pool, lanes, suffixes[state], size, index)
    top, spare, fronts = most, 0, 0
    event = record["last"]
    while event >= 0:
        start, begins = memory.log[event]["start"], memory.log[event]["begins"]
        if begins and start < bound:
            break
        symbol = memory.log[event]["symbol"]
        if top + tables.mover_count[symbol] * vector > limit:
            return top + tables.mover_count[symbol] * vector - lowest
        if begins:
            at = front + fronts * stride
            pool.words[at] = start
            wholes = (whole, at + 1)
            whole = at + 1
            _prepend_start(tables, memory, lanes, scratch, event, size, wholes, NONE - fronts)
            load, part = loads[len(loads) - 1], (0, size, 0, size)
            loads[len(loads) - 1] = lighten(pool, lanes, whole, size, part, load, 1)
            for r in range(lanes.ranks * size):
                pool.words[whole + vector + r] = scratch.ranks[r]
            fronts += 1
        top, spare = _prepend(tables, memory, lanes, scratch, event, size, (top, spare))
        event = memory.log[event]["before"]
    oldest = front + (fronts - 1) * stride + 1
    largest = 0.0
    index = 0
    for state in range(offsets.shape[1]):
        if offsets[row, state]:
            at = vectors + header + index * (header + vector)
            index += 1
            is_alive = has_matches(pool, lanes, oldest, index)
            half = header // 2
            for i in range(half):
                pool.reals[at - header + i] = pool.reals[offsets[row, state] - half + i]
                pool.reals[at - half + i] = 0.0
                largest = max(largest, pool.reals[at - header + i])
            set_unit(pool, lanes, at, size, index)
            offsets[row, state] = at if is_alive else 0
            memory.reach[row, state] = round_up(index + 1)
            memory.sum_reach[row, state] = 0
            memory.loads[row, state] = 1
            memory.firsts[row, state] = NEVER
    memory.counters[WORDS] = used
    if len(memory.rows) == 1:
        memory.counters[LOGGED] = 0
    record["size"] = size
    record["front"] = front
    record["fronts"] = fronts
    record["last"] = NONE
    record["begun"] = 0
    record["spare"] = 0
    while record["scale"] > 0 and largest < 1.0:
        largest *= LARGE
        scale_bounds(memory, lanes, row, -1)
    return 0


@inlined
def _prepend_start(tables, memory, lanes, scratch, event, size, wholes, rank):
    """Write the row of the matches that start with an event, which has the rank, or later.

    `wholes` has the row of those that start later, which has no load, and the new one's offset.
    """
    pool, suffixes, weights = memory.pool, scratch.suffixes, scratch.weights
    later, new = wholes
    if lanes.ranks:
        copy_words(pool.words, new, later, lanes.words * size)
        later = new
    symbol = memory.log[event]["symbol"]
    first = tables.start_first[symbol]
    for e in range(first, first + tables.start_count[symbol]):
        target = tables.edges[e]["target"]
        if target < 0 or suffixes[target] == 0:
            continue
        weigh(lanes, memory.log_weights, event, tables.edges[e]["label"], weights)
        if lanes.floats > lanes.quantities:
            _add_loads(pool, lanes, scratch, size, later, len(suffixes), target)
        if lanes.ranks:
            _supersede(pool, lanes, scratch, size, new, target, rank)
        add(pool, lanes, weights, new, later, suffixes[target], size, (0, size, 0, size))
        later = new
    if later != new:
        copy_words(pool.words, new, later, lanes.words * size)


@inlined
def _prepend(tables, memory, lanes, scratch, event, size, room):
    """Put one more event before the later ones: its matrix times theirs.

    `room` has the first free word and a list of free rows, which are returned.
    """
    pool, log, suffixes, gathered = memory.pool, memory.log, scratch.suffixes, scratch.gathered
    weights = scratch.weights
    top, spare = room
    several, loads = lanes.floats > lanes.quantities, scratch.suffix_loads
    symbol = log[event]["symbol"]
    step = scratch.steps[symbol]
    if step["movers"] == tables.mover_count[symbol]:
        state, target = step["state"], step["target"]
        if step["movers"] == 0 or target < 0 or suffixes[target] == 0:
            return top, spare
        if suffixes[state]:
            weigh(lanes, memory.log_weights, event, step["label"], weights)
            _extend_lows(lanes, scratch, state, target)
            if several:
                _add_loads(pool, lanes, scratch, size, suffixes[state], state, target)
            at, part = suffixes[state], _find_tail(scratch, target, size)
            add(pool, lanes, weights, at, at, suffixes[target], size, part)
            return top, spare
    targets = 0
    for m in range(tables.mover_count[symbol]):
        state = tables.movers[symbol, m]
        stays = tables.stay[state, symbol] != 0
        new = 0
        first = tables.edge_first[state, symbol]
        for e in range(first, first + tables.edge_count[state, symbol]):
            target = tables.edges[e]["target"]
            if target < 0 or suffixes[target] == 0:
                continue
            base = new
            if new == 0:
                if spare:
                    new = spare
                    spare = pool.words[spare]
                else:
                    new = top
                    top += lanes.words * size
                base = suffixes[state] if stays else 0
            weigh(lanes, memory.log_weights, event, tables.edges[e]["label"], weights)
            _extend_lows(lanes, scratch, state, target)
            if several:
                loads[target] = _lighten_row(pool, lanes, scratch, suffixes[target], size, target)
                load = np.int64(0)
                if base:
                    load = (
                        loads[state] if base == suffixes[state] else scratch.gathered_loads[state]
                    )
                    load = lighten(pool, lanes, base, size, (0, size, 0, size), load, HALF_LOAD)
                if base == suffixes[state]:
                    loads[state] = load
                scratch.gathered_loads[state] = load + loads[target] + 1
            add(pool, lanes, weights, new, base, suffixes[target], size, (0, size, 0, size))
        if new or not stays:
            gathered[state] = new
            scratch.touched[targets] = state
            targets += 1
    for t in range(targets):
        state = scratch.touched[t]
        if suffixes[state]:
            pool.words[suffixes[state]] = spare
            spare = suffixes[state]
        suffixes[state] = gathered[state]
        loads[state] = scratch.gathered_loads[state]
        gathered[state] = 0
    return top, spare


@inlined
def _extend_lows(lanes, scratch, state, target):
    """Let the row of a state begin where the one that is added to it does, with these weights."""
    lows, sum_lows = scratch.lows, scratch.sum_lows
    lows[state] = min(lows[state], lows[target])
    if lanes.quantities > 1:
        low = lows[target] if has_sums(scratch.weights) else sum_lows[target]
        sum_lows[state] = min(sum_lows[state], low)


@inlined
def _find_tail(scratch, state, size):
    """Return the elements of a row that may have matches, and those that may have sums."""
    return scratch.lows[state], size, scratch.sum_lows[state], size


@apart
def _supersede(pool, lanes, scratch, size, whole, target, rank):
    """Take the matches of later starts out of the elements that one with this rank reaches."""
    for r in range(scratch.lows[target], size):
        if scratch.ranks[r] != rank and has_matches(pool, lanes, scratch.suffixes[target], r):
            clear_element(pool, lanes, whole, size, r)
            scratch.ranks[r] = rank


@inlined
def _lighten_row(pool, lanes, scratch, at, size, state):
    """Reduce a row before it is added, or multiplied; return its load."""
    most = 1 if has_sums(scratch.weights) else HALF_LOAD
    part = _find_tail(scratch, state, size)
    return lighten(pool, lanes, at, size, part, scratch.suffix_loads[state], most)


@inlined
def _add_loads(pool, lanes, scratch, size, to, index, target):
    """Reduce two rows as adding one to the other needs it, and note the load of the sum."""
    loads = scratch.suffix_loads
    loads[target] = _lighten_row(pool, lanes, scratch, scratch.suffixes[target], size, target)
    part = (0, size, 0, size)
    if index < len(scratch.lows):
        part = _find_tail(scratch, index, size)
    load = lighten(pool, lanes, to, size, part, loads[index], HALF_LOAD)
    loads[index] = load + loads[target] + 1
