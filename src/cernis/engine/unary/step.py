"""The update kernel: reads events, moves states, collects the roots of new matches.

Cost contract: an inert event costs one look-up. Any other event costs O(active states
that its symbol can move), independent of the window and of the number of partial
matches; no state that stays where it is gets touched.

Per partition (one row of `slots`) a state holds the node of all its partial matches.
An event is read in phases, so that a return in the middle (unknown state, no room)
leaves nothing half done: collect what moves, clear what leaves, make the new nodes,
merge them into the states, emit the root of what was accepted.
"""

from __future__ import annotations

import numpy as np

from cernis.compiled import kernel
from cernis.engine.unary.arena import FOREVER, JOIN_NODES, join, make_item

ROOT = np.dtype(
    [
        ("end", np.int64),
        ("bound", np.int64),
        ("key", np.int64),
        ("node", np.int32),
        ("spare", np.int32),
    ]
)
"""A compact set of matches: those below `node` that start at or after `bound`."""

DONE, UNKNOWN_STATE, ARENA_FULL, ROOTS_FULL, ROWS_FULL = range(5)
NO_WINDOW, EVENT_WINDOW, CLOCK_WINDOW = range(3)
CONSUME_NOTHING, CONSUME_PARTITION, CONSUME_ALL = range(3)

_STRETCH = 512

NODES, ROOTS, FREE_ROWS, EPOCH, RELEVANT = range(5)
"""Places in `counters`."""


@kernel
def update(
    symbols,
    keys,
    clocks,
    bounds,
    usable,
    base,
    begin,
    window,
    size,
    consume,
    last,
    inert,
    start_first,
    start_count,
    first,
    count,
    stay,
    movers,
    mover_count,
    expanded,
    edges,
    arena,
    counters,
    roots,
    slots,
    row_of_key,
    key_of_row,
    row_ordinal,
    row_epoch,
    row_bound,
    free_rows,
    moving_node,
    moving_edge,
    gathered,
    gathered_marked,
    gathered_alone,
    touched,
):
    """Reads symbols[begin:]; returns (status, index of the event to go on with, detail)."""
    partitioned = len(keys) > 0
    counts_all = partitioned and window == EVENT_WINDOW
    has_nulls = len(usable) > 0
    relevant = np.empty(_STRETCH, np.int64)
    for low in range(begin, len(symbols), _STRETCH):
        # the events of a stretch that count, found without a branch to guess
        found = 0
        for i in range(low, min(low + _STRETCH, len(symbols))):
            relevant[found] = i
            found += counts_all or not inert[symbols[i]]
        for which in range(found):
            i = relevant[which]
            symbol = symbols[i]
            position = base + i
            row = 0
            key = 0
            if partitioned:
                key = keys[i]
                if key < 0:
                    continue
                row = row_of_key[key]
                if row < 0:
                    if start_count[symbol] == 0:
                        continue
                    if counters[FREE_ROWS] == 0:
                        return ROWS_FULL, i, 0
                elif inert[symbol]:
                    row_ordinal[row] += 1
                    continue
            if window == EVENT_WINDOW:
                start = position
                if partitioned:
                    start = row_ordinal[row] if row >= 0 else 0
                bound = start - size
            elif window == CLOCK_WINDOW:
                start = clocks[i]
                bound = bounds[i]
            else:
                start = position
                bound = FOREVER
            whole = not has_nulls or usable[i] != 0
            if not whole:  # no reading of the clock: nothing begins, ends or expires here
                bound = row_bound[row] if row >= 0 else FOREVER

            # what begins or moves
            moves = 0
            if whole:
                for e in range(start_first[symbol], start_first[symbol] + start_count[symbol]):
                    target = edges[e]["target"]
                    if target >= 0 and not expanded[target]:
                        return UNKNOWN_STATE, i, target
                    moving_node[moves] = -1
                    moving_edge[moves] = e
                    moves += 1
            leaving = False
            if row >= 0:
                if row_epoch[row] != counters[EPOCH]:
                    slots[row, :] = 0
                    row_epoch[row] = counters[EPOCH]
                for m in range(mover_count[symbol]):
                    state = movers[symbol, m]
                    node = slots[row, state]
                    if node == 0:
                        continue
                    begun = arena[node]["start"]
                    if begun < bound:
                        slots[row, state] = 0
                        continue
                    leaving = leaving or stay[state, symbol] == 0
                    for e in range(
                        first[state, symbol], first[state, symbol] + count[state, symbol]
                    ):
                        target = edges[e]["target"]
                        if target >= 0 and not expanded[target]:
                            return UNKNOWN_STATE, i, target
                        # latest start first; among equals the order of the states' names
                        at = moves
                        while (
                            at > 0
                            and moving_node[at - 1] >= 0
                            and arena[moving_node[at - 1]]["start"] < begun
                        ):
                            moving_node[at] = moving_node[at - 1]
                            moving_edge[at] = moving_edge[at - 1]
                            at -= 1
                        moving_node[at] = node
                        moving_edge[at] = e
                        moves += 1
            if moves == 0 and not leaving:
                if partitioned and row >= 0:
                    row_ordinal[row] += 1
                continue
            room = moves * (2 * JOIN_NODES + 1) + JOIN_NODES
            if counters[NODES] + room >= len(arena):
                return ARENA_FULL, i, room
            if counters[ROOTS] == len(roots):
                return ROOTS_FULL, i, 0
            counters[RELEVANT] += 1
            if row < 0:
                counters[FREE_ROWS] -= 1
                row = free_rows[counters[FREE_ROWS]]
                row_of_key[key] = row
                key_of_row[row] = key
                row_ordinal[row] = 0
                row_epoch[row] = counters[EPOCH]

            row_bound[row] = bound

            # what leaves
            if leaving:
                for m in range(mover_count[symbol]):
                    state = movers[symbol, m]
                    if stay[state, symbol] == 0:
                        slots[row, state] = 0

            # new nodes
            accepted = 0
            targets = 0
            for m in range(moves):
                edge = edges[moving_edge[m]]
                node = moving_node[m]
                if node < 0:
                    node = make_item(arena, counters, position, edge["label"], 0, start)
                elif edge["label"] != 0:
                    node = make_item(
                        arena, counters, position, edge["label"], node, arena[node]["start"]
                    )
                if edge["accept"] and whole:
                    accepted = join(arena, counters, accepted, node, bound)
                target = edge["target"]
                if target >= 0:
                    fresh = moving_node[m] < 0 or edge["label"] != 0
                    if gathered[target] == 0:
                        touched[targets] = target
                        targets += 1
                        gathered[target] = node
                        gathered_marked[target] = edge["label"] != 0
                        gathered_alone[target] = fresh and not edge["accept"]
                    else:
                        gathered[target] = join(arena, counters, gathered[target], node, bound)
                        gathered_marked[target] = gathered_marked[target] and edge["label"] != 0
                        gathered_alone[target] = False

            # into the states
            for t in range(targets):
                target = touched[t]
                new = gathered[target]
                gathered[target] = 0
                old = slots[row, target]
                # LAST: all of `new` ends later than all of `old`; what also starts no earlier
                # can never lose to it
                if last and gathered_marked[target] and arena[new]["start"] >= arena[old]["start"]:
                    old = 0
                begun = arena[old]["start"]
                if old != 0 and gathered_alone[target] and arena[new]["start"] >= begun >= bound:
                    arena[new]["right"] = old  # made just now, and nobody else refers to it
                    slots[row, target] = new
                else:
                    slots[row, target] = join(arena, counters, new, old, bound)

            if partitioned:
                row_ordinal[row] += 1
            if accepted != 0:
                r = counters[ROOTS]
                counters[ROOTS] = r + 1
                roots[r]["end"] = position
                roots[r]["bound"] = bound
                roots[r]["key"] = key
                roots[r]["node"] = accepted
                if consume == CONSUME_PARTITION:
                    slots[row, :] = 0
                elif consume == CONSUME_ALL:
                    counters[EPOCH] += 1
    return DONE, len(symbols), 0
