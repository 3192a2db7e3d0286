"""The two stacks of the sliding kernel (`slide`): what they hold, how they are emptied and copied.

A partition has a row of `rows`, and a vector for each state that has partial matches: the columns
of the back's matrix. The front of a partition is a stretch of the pool. Each of its rows has a
start, the vector of all matches that start there or later, and under NEXT the rank of the start of
each element. Events of the back are a list in the log.

Bounds are floats, of numbers that have any size. When one exceeds 2^900, all bounds of its
partition are divided by that.

Cost contract: copying is linear in what lies inside the window.
"""

from __future__ import annotations

from math import ldexp
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import apart, borrowing, inlined
from cernis.engine.residues import LANE_BITS
from cernis.engine.unary.semiring import (
    MOST_LOAD,
    Pool,
    Weights,
    copy_vector,
    copy_weights,
    lighten,
)

WORDS, LOGGED, ENDS, FREE_ROWS, RELEVANT = range(5)
"""Indices in `counters`."""
NONE = -1
_LARGE_BITS = 900
LARGE = 2.0**_LARGE_BITS
_TINY = 2.0**-1000
"""The least bound but 0: a larger one is still a bound."""
HALF_LOAD = MOST_LOAD // 2 - 1
"""Two vectors of such a load can be added."""
BLOCK = 4
"""Vectors are filled up with empty elements to whole blocks, which LLVM adds in one instruction."""

LOGGED_EVENT = np.dtype(
    [("start", np.int64), ("before", np.int64), ("symbol", np.int32), ("begins", np.int32)]
)
"""An event of the back; `before` is the one before it in its partition."""
STEP = np.dtype(
    [
        ("movers", np.int64),
        ("starts", np.int64),
        ("state", np.int64),
        ("target", np.int64),
        ("label", np.int64),
        ("accept", np.int64),
        ("entered", np.int64),
        ("accept_start", np.int64),
    ]
)
"""The one edge of the one state that a symbol can move, if runs stay in both of its states, and the
one state that runs which start with it enter. `movers` and `starts` are how many states and starts
the symbol has; -1 movers: more edges."""
ROW = np.dtype(
    [
        ("key", np.int64),
        ("size", np.int64),
        ("front", np.int64),
        ("fronts", np.int64),
        ("last", np.int64),
        ("begun", np.int64),
        ("oldest", np.int64),
        ("newest", np.int64),
        ("spare", np.int64),
        ("ordinal", np.int64),
        ("bound", np.int64),
        ("scale", np.int64),
        ("limit", np.float64),
        ("unit", np.float64),
    ]
)
"""A partition: the elements of its vectors, its front and how many starts it has, the last event
of the back, the starts of the back and the oldest of them, the newest start, a list of vectors to
use again, the events it has had, and its window's bound. Bounds of its numbers lack a factor of
2^900 `scale` times; so scaled, they stay below `limit`, and the number 1 has the bound `unit`."""


class SlidingEvents(NamedTuple):
    """A batch of events. Empty arrays: there are no partitions, no clock, no missing times."""

    symbols: NDArray[np.int32]
    keys: NDArray[np.int64]
    clocks: NDArray[np.int64]
    bounds: NDArray[np.int64]
    usable: NDArray[np.uint8]
    begins: NDArray[np.uint8]
    """Whether a match may begin with an event; empty: with any."""
    weights: Weights


class SlidingMemory(NamedTuple):
    """The state of a stream. A row of `offsets` belongs to a partition, a column to a state."""

    counters: NDArray[np.int64]
    pool: Pool
    """Word 0 is not used: offset 0 is "no vector"."""
    log: NDArray[np.void]
    log_weights: Weights
    rows: NDArray[np.void]
    offsets: NDArray[np.int64]
    """Per row and state, the offset of the vector of its partial matches."""
    reach: NDArray[np.int64]
    """Per row and state, how many elements of the vector may have matches: the first ones."""
    sum_reach: NDArray[np.int64]
    """Per row and state, how many elements of the vector may have sums of integers."""
    loads: NDArray[np.int64]
    """Per row and state, the load of the vector (`semiring`)."""
    firsts: NDArray[np.int64]
    """Per row and state, the start of the vector's first element under NEXT; NEVER: it is empty."""
    row_of_key: NDArray[np.int32]
    free_rows: NDArray[np.int64]


class SlidingScratch(NamedTuple):
    """Room for the moves of one event, and for the aggregates of the matches found."""

    relevant: NDArray[np.int64]
    steps: NDArray[np.void]
    """Per symbol, its only edge."""
    moving_state: NDArray[np.int32]
    moving_edge: NDArray[np.int32]
    gathered: NDArray[np.int64]
    """Per state, the vector that is being made."""
    gathered_loads: NDArray[np.int64]
    gathered_firsts: NDArray[np.int64]
    suffixes: NDArray[np.int64]
    """Per state, the row of the matrix of the events since, while the stacks turn."""
    suffix_loads: NDArray[np.int64]
    """The load of each row in `suffixes`; the last entry is the load of the row of the start."""
    lows: NDArray[np.int64]
    """Per state, the first element of that row that may have matches."""
    sum_lows: NDArray[np.int64]
    """Per state, the first element of that row that may have sums of integers."""
    ranks: NDArray[np.int64]
    """Per element of the row of the start, while the stacks turn, the rank of its start."""
    touched: NDArray[np.int32]
    weights: Weights
    saved: NDArray[np.int64]
    """Room for an element."""
    earliest: NDArray[np.int64]
    """One number: under NEXT the start, or its rank, of the matches in `result`."""
    result: Pool
    """One element: the matches that end at the event."""
    ends: NDArray[np.int64]
    found: NDArray[np.int64]
    """Per end, its element."""


@inlined
def round_up(number):
    """Return the least whole number of blocks that has so many elements, in elements."""
    return (number + BLOCK - 1) // BLOCK * BLOCK


@inlined
def find_stride(lanes, size):
    """Return the words of a row of the front: its start, its vector, and the ranks of NEXT."""
    return 1 + (lanes.words + lanes.ranks) * size


@inlined
def find_front(lanes, record):
    """Return the row of the front for the earliest start in the window, or 0."""
    if record["fronts"] == 0:
        return 0
    return record["front"] + (record["fronts"] - 1) * find_stride(lanes, record["size"]) + 1


@apart
def scale_bounds(memory, lanes, row, steps):
    """Divide the bounds of a partition by 2^900, so many times (-1: multiply)."""
    reals, record = memory.pool.reals, memory.rows[row]
    factor = 1.0 if steps == 0 else 1.0 / LARGE if steps > 0 else LARGE
    for state in range(memory.offsets.shape[1]):
        at = memory.offsets[row, state]
        if at:
            for i in range(at - lanes.header, at):
                if reals[i] != 0.0:
                    reals[i] = max(reals[i] * factor, _TINY)
    record["scale"] += steps
    bits = _find_bits(len(lanes.moduli.primes)) - _LARGE_BITS * record["scale"]
    record["limit"] = ldexp(1.0, int(min(bits, 1023)))
    record["unit"] = max(ldexp(1.0, int(-_LARGE_BITS * record["scale"])), _TINY)


@inlined
def _find_bits(lanes):
    """Return b such that integers below 2^b, positive or negative, are safe in so many lanes."""
    return 62 if lanes == 1 else 61 + LANE_BITS * (lanes - 1)


@borrowing
def reset_row(memory, lanes, row):
    """Drop all partial matches of a partition."""
    record = memory.rows[row]
    for state in range(memory.offsets.shape[1]):
        memory.offsets[row, state] = 0
    record["size"] = 1
    record["fronts"] = 0
    record["last"] = NONE
    record["begun"] = 0
    record["spare"] = 0
    record["scale"] = 0
    scale_bounds(memory, lanes, row, 0)
    if len(memory.rows) == 1:
        memory.counters[WORDS] = 1
        memory.counters[LOGGED] = 0


@borrowing
def free_rows(memory, lanes, bounds, partitioned):
    """Empty the partitions whose matches have all expired; the rows of keys become free."""
    rows, counters = memory.rows, memory.counters
    for row in range(len(rows)):
        key = rows[row]["key"]
        if partitioned and key < 0:
            continue
        is_alive = False
        for state in range(memory.offsets.shape[1]):
            is_alive = is_alive or memory.offsets[row, state] != 0
        if is_alive and rows[row]["newest"] >= bounds[row]:
            continue
        reset_row(memory, lanes, row)
        if partitioned:
            memory.row_of_key[key] = NONE
            rows[row]["key"] = NONE
            memory.free_rows[counters[FREE_ROWS]] = row
            counters[FREE_ROWS] += 1


@borrowing
def copy_live(memory, lanes, fresh, fresh_lanes, scratch):
    """Copy the vectors and events in use to a fresh pool and log; residues may become more."""
    old, new, offsets, rows = memory.pool, fresh.pool, memory.offsets, memory.rows
    used, logged = np.int64(1), np.int64(0)
    header, vector = lanes.header, fresh_lanes.words
    for row in range(len(rows)):
        size = rows[row]["size"]
        rows[row]["spare"] = 0
        scale_bounds(memory, fresh_lanes, row, 0)
        for state in range(offsets.shape[1]):
            at = offsets[row, state]
            if at:
                for i in range(header):
                    new.words[used + i] = old.words[at - header + i]
                to = used + header
                part = (0, size, 0, size)
                lighten(old, lanes, at, size, part, memory.loads[row, state], 1)
                memory.loads[row, state] = 1
                copy_vector(old, lanes, at, new, fresh_lanes, to, size, scratch)
                offsets[row, state] = to
                used = to + vector * size
        front = rows[row]["front"]
        rows[row]["front"] = used
        for f in range(rows[row]["fronts"]):
            at = front + f * find_stride(lanes, size)
            new.words[used] = old.words[at]
            copy_vector(old, lanes, at + 1, new, fresh_lanes, used + 1, size, scratch)
            used += find_stride(fresh_lanes, size)
            for r in range(lanes.ranks * size):
                new.words[used - size + r] = old.words[at + 1 + lanes.words * size + r]
        event = rows[row]["last"]
        if event >= 0:
            rows[row]["last"] = logged
        while event >= 0:
            fresh.log[logged] = memory.log[event]
            copy_weights(memory.log_weights, event, fresh.log_weights, logged)
            event = memory.log[event]["before"]
            logged += 1
            fresh.log[logged - 1]["before"] = logged if event >= 0 else NONE
    memory.counters[WORDS] = used
    memory.counters[LOGGED] = logged
