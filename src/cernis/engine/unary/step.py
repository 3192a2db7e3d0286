"""The step kernel: reads events, moves states, writes the roots of new matches.

Cost contract: an inert event costs one look-up. Any other event costs O(active states
that its symbol can move), independent of the window and of the number of partial
matches; a state that stays where it is costs nothing.

Per partition (one row of `slots`) a state holds the node of all its partial matches.
The kernel reads an event in phases, so that a return in the middle (unknown state, no
room) leaves nothing half done: gather the moves, clear the states that runs leave, make
the new nodes, merge them into the states, write the root of the matches.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import borrowing as kernel
from cernis.compiled import inner
from cernis.compiled.plain import viewing
from cernis.engine import settings as s
from cernis.engine.unary import arena as a
from cernis.engine.unary.tables import UnaryArrays

DONE, UNKNOWN_STATE, ARENA_FULL, ROOTS_FULL, ROWS_FULL = range(5)

_STRETCH = 512
_MANY_ROWS = 4096


class UnaryEvents(NamedTuple):
    """A batch of events. Empty arrays: there are no partitions, no clock, no missing times."""

    symbols: NDArray[np.int32]
    keys: NDArray[np.int64]
    """The partition of each event; -1: in none."""
    clocks: NDArray[np.int64]
    bounds: NDArray[np.int64]
    usable: NDArray[np.uint8]
    """0: the event has no reading of the clock."""


class StepScratch(NamedTuple):
    """Room for the moves of one event."""

    relevant: NDArray[np.int64]
    moving_node: NDArray[np.int32]
    """The node that moves; -1: a match begins."""
    moving_edge: NDArray[np.int32]
    gathered: NDArray[np.int32]
    """Per state, the node of the partial matches that enter it."""
    gathered_marked: NDArray[np.uint8]
    """Whether all of them mark the event."""
    gathered_alone: NDArray[np.uint8]
    """Whether the node is new and no other node refers to it."""
    touched: NDArray[np.int32]
    ahead: NDArray[np.int64]
    """Written by `_read_ahead`, so that the compiler keeps what it reads."""


def new_scratch(states: int, edges: int) -> StepScratch:
    """Make room for the moves of an automaton with so many states and edges."""
    moves = max(64, edges + 1)
    return StepScratch(
        np.zeros(_STRETCH, np.int64),
        np.zeros(moves, np.int32),
        np.zeros(moves, np.int32),
        np.zeros(states, np.int32),
        np.zeros(states, np.uint8),
        np.zeros(states, np.uint8),
        np.zeros(states, np.int32),
        np.zeros(1, np.int64),
    )


@viewing("tables", "memory")
@kernel
def step(tables, memory, events, scratch, rules, base, begin, earliest):
    """Read the events from `begin` on; return (status, event to go on with, detail).

    `earliest` are the `EarliestStarts` of NEXT and LONGEST, or None: then Numba compiles a kernel
    that knows nothing of them.

    The tuples come plain: in each call from Python, Numba takes a microsecond or two to
    recognise a NamedTuple.
    """
    tables, memory = UnaryArrays(*tables), a.UnaryMemory(*memory)
    events, scratch, rules = UnaryEvents(*events), StepScratch(*scratch), s.Rules(*rules)
    counters = memory.counters
    symbols, inert, relevant = events.symbols, tables.inert, scratch.relevant
    partitioned = len(events.keys) > 0
    counts_all = partitioned and rules.window == s.EVENT_WINDOW
    has_nulls = len(events.usable) > 0
    has_many = partitioned and len(memory.key_of_row) > _MANY_ROWS
    for low in range(begin, len(symbols), _STRETCH):
        # the relevant events of a stretch, found without a branch to predict
        found = 0
        high = low + _STRETCH if low + _STRETCH < len(symbols) else len(symbols)
        for i in range(low, high):
            relevant[found] = i
            found += counts_all or not inert[symbols[i]]
        if has_many:
            _read_ahead(memory, events.keys, relevant[:found], scratch.ahead)
        for which in range(found):
            i = relevant[which]
            symbol = symbols[i]
            position = base + i
            row = 0
            key = 0
            if partitioned:
                key = events.keys[i]
                if key < 0:
                    continue
                row = memory.row_of_key[key]
                if row < 0:
                    if tables.start_count[symbol] == 0:
                        continue
                    if counters[a.FREE_ROWS] == 0:
                        return ROWS_FULL, i, 0
                elif inert[symbol]:
                    memory.row_ordinal[row] += 1
                    continue
            if rules.window == s.EVENT_WINDOW:
                start = position
                if partitioned:
                    start = memory.row_ordinal[row] if row >= 0 else 0
                bound = start - rules.size
            elif rules.window == s.CLOCK_WINDOW:
                start = events.clocks[i]
                bound = events.bounds[i]
            else:
                start = position
                bound = s.FOREVER
            has_time = not has_nulls or events.usable[i] != 0
            if not has_time:  # nothing begins, ends or expires here
                bound = memory.row_bound[row] if row >= 0 else s.FOREVER

            moves, leaves, unknown = _gather(tables, memory, scratch, symbol, row, bound, has_time)
            if unknown >= 0:
                return UNKNOWN_STATE, i, unknown
            if moves == 0 and not leaves:
                if partitioned and row >= 0:
                    memory.row_ordinal[row] += 1
                continue
            room = moves * (2 * a.JOIN_NODES + 1) + a.JOIN_NODES
            if counters[a.NODES] + room >= len(memory.arena):
                return ARENA_FULL, i, room
            if counters[a.ROOTS] == len(memory.roots):
                return ROOTS_FULL, i, 0
            counters[a.RELEVANT] += 1
            if row < 0:
                row = _take_row(memory, key)
            memory.row_bound[row] = bound
            if earliest is not None:
                begun, first = _gather_earliest(
                    tables, memory.slots, earliest, symbol, row, start, position, has_time
                )
            made = counters[a.NODES]
            if leaves:
                _clear(tables, memory.slots, symbol, row)
            accepted, targets = _make_nodes(
                tables, memory, scratch, moves, position, start, bound, has_time
            )
            if earliest is not None:
                _merge_earliest(memory, scratch.touched[:targets], earliest, row, bound)
            _merge(memory, scratch, targets, row, bound, rules.keeps_last)
            if earliest is not None:
                for node in range(made, counters[a.NODES]):
                    a.link_start(memory.arena, node)
            if partitioned:
                memory.row_ordinal[row] += 1
            if accepted != 0:
                root = counters[a.ROOTS]
                counters[a.ROOTS] = root + 1
                memory.roots[root]["end"] = position
                memory.roots[root]["bound"] = bound
                memory.roots[root]["key"] = key
                memory.roots[root]["node"] = accepted
                if earliest is not None:
                    earliest.of_root[root] = first if begun >= bound else np.int64(-1)
                if rules.consume == s.CONSUME_PARTITION:
                    memory.slots[row, :] = 0
                elif rules.consume == s.CONSUME_ALL:
                    counters[a.EPOCH] += 1
    return DONE, len(symbols), 0


@inner
def _read_ahead(memory, keys, relevant, ahead):
    """Read what the events of a stretch will ask for.

    The rows of many partitions are not in the cache. The processor waits for them once for several
    events here; the loop over the events would wait for each in turn.
    """
    slots, total = memory.slots, 0
    for i in relevant:
        row = memory.row_of_key[keys[i]]
        total += memory.row_ordinal[row] + memory.row_epoch[row] + memory.row_bound[row]
        for state in range(min(slots.shape[1], 8)):
            total += memory.arena[slots[row, state]]["start"]
    ahead[0] = total


@inner
def _gather(tables, memory, scratch, symbol, row, bound, has_time):
    """Write the moves of an event; return (how many, whether runs leave, unknown state or -1)."""
    arena, slots, edges = memory.arena, memory.slots, tables.edges
    moving_node, moving_edge = scratch.moving_node, scratch.moving_edge
    moves = 0
    leaves = False
    if has_time:
        first = tables.start_first[symbol]
        for e in range(first, first + tables.start_count[symbol]):
            target = edges[e]["target"]
            if target >= 0 and not tables.expanded[target]:
                return moves, leaves, target
            moving_node[moves] = -1
            moving_edge[moves] = e
            moves += 1
    if row < 0:
        return moves, leaves, -1
    if memory.row_epoch[row] != memory.counters[a.EPOCH]:
        slots[row, :] = 0
        memory.row_epoch[row] = memory.counters[a.EPOCH]
    for m in range(tables.mover_count[symbol]):
        state = tables.movers[symbol, m]
        node = slots[row, state]
        if node == 0:
            continue
        begun = arena[node]["start"]
        if begun < bound:
            slots[row, state] = 0
            continue
        leaves = leaves or tables.stay[state, symbol] == 0
        first = tables.edge_first[state, symbol]
        for e in range(first, first + tables.edge_count[state, symbol]):
            target = edges[e]["target"]
            if target >= 0 and not tables.expanded[target]:
                return moves, leaves, target
            # latest start first; among equals the order of the states' names
            at = moves
            while (
                at > 0 and moving_node[at - 1] >= 0 and arena[moving_node[at - 1]]["start"] < begun
            ):
                moving_node[at] = moving_node[at - 1]
                moving_edge[at] = moving_edge[at - 1]
                at -= 1
            moving_node[at] = node
            moving_edge[at] = e
            moves += 1
    return moves, leaves, -1


@inner
def _take_row(memory, key):
    """Give a free row to a partition and return it."""
    counters = memory.counters
    counters[a.FREE_ROWS] -= 1
    row = memory.free_rows[counters[a.FREE_ROWS]]
    memory.row_of_key[key] = row
    memory.key_of_row[row] = key
    memory.row_ordinal[row] = 0
    memory.row_epoch[row] = counters[a.EPOCH]
    return row


@inner
def _clear(tables, slots, symbol, row):
    """Empty the states that all runs leave."""
    for m in range(tables.mover_count[symbol]):
        state = tables.movers[symbol, m]
        if tables.stay[state, symbol] == 0:
            slots[row, state] = 0


@inner
def _make_nodes(tables, memory, scratch, moves, position, start, bound, has_time):
    """Make the nodes of the moves, per target state; return (node of the matches, targets)."""
    arena, counters = memory.arena, memory.counters
    gathered, marked, alone = scratch.gathered, scratch.gathered_marked, scratch.gathered_alone
    accepted = 0
    targets = 0
    for m in range(moves):
        edge = tables.edges[scratch.moving_edge[m]]
        label, target = edge["label"], edge["target"]
        node = scratch.moving_node[m]
        is_new = node < 0 or label != 0
        if node < 0:
            node = a.make_item(arena, counters, position, label, 0, start)
        elif label != 0:
            node = a.make_item(arena, counters, position, label, node, arena[node]["start"])
        if edge["accept"] and has_time:
            accepted = a.join(arena, counters, accepted, node, bound)
        if target < 0:
            continue
        if gathered[target] == 0:
            scratch.touched[targets] = target
            targets += 1
            gathered[target] = node
            marked[target] = label != 0
            alone[target] = is_new and not edge["accept"]
        else:
            gathered[target] = a.join(arena, counters, gathered[target], node, bound)
            marked[target] = marked[target] and label != 0
            alone[target] = False
    return accepted, targets


@inner
def _merge(memory, scratch, targets, row, bound, keeps_last):
    """Merge the gathered nodes into the states."""
    arena, slots = memory.arena, memory.slots
    for t in range(targets):
        target = scratch.touched[t]
        new = scratch.gathered[target]
        scratch.gathered[target] = 0
        old = slots[row, target]
        begun = arena[new]["start"]
        # LAST: all of `new` ends later than all of `old`; if it starts no earlier either,
        # it never loses to `old`
        if keeps_last and scratch.gathered_marked[target] and begun >= arena[old]["start"]:
            old = 0
        if (
            old != 0
            and scratch.gathered_alone[target]
            and begun >= arena[old]["start"]
            and arena[old]["start"] >= bound
        ):
            arena[new]["right"] = old
            slots[row, target] = new
        else:
            slots[row, target] = a.join(arena, memory.counters, new, old, bound)


# ------------------------------------------------------------ earliest starts


@inner
def _gather_earliest(tables, slots, earliest, symbol, row, start, position, has_time):
    """Write the earliest start that enters each state; return that of the matches.

    It repeats the moves of `_gather`, so that other queries do not pay for it.
    """
    known, entering = earliest.of_slot, earliest.entering
    begun, first = s.NEVER, s.NEVER
    if has_time:
        low = tables.start_first[symbol]
        for e in range(low, low + tables.start_count[symbol]):
            _enter(entering, tables.edges[e]["target"], start, position)
            if tables.edges[e]["accept"] and position < first:
                begun, first = start, position
    for m in range(tables.mover_count[symbol]):
        state = tables.movers[symbol, m]
        if slots[row, state] == 0:
            continue
        since, where = known[row, state]["start"], known[row, state]["position"]
        low = tables.edge_first[state, symbol]
        for e in range(low, low + tables.edge_count[state, symbol]):
            _enter(entering, tables.edges[e]["target"], since, where)
            if tables.edges[e]["accept"] and has_time and where < first:
                begun, first = since, where
    return begun, first


@inner
def _enter(entering, target, start, position):
    """Note that a partial match with this start enters a state."""
    if target >= 0 and position < entering[target]["position"]:
        entering[target]["start"] = start
        entering[target]["position"] = position


@inner
def _merge_earliest(memory, touched, earliest, row, bound):
    """Merge the earliest starts into the states, before their nodes are merged."""
    known, entering = earliest.of_slot, earliest.entering
    for target in touched:
        old = memory.slots[row, target]
        is_empty = old == 0 or memory.arena[old]["start"] < bound
        if is_empty or entering[target]["position"] < known[row, target]["position"]:
            known[row, target]["start"] = entering[target]["start"]
            known[row, target]["position"] = entering[target]["position"]
        entering[target]["position"] = s.NEVER
