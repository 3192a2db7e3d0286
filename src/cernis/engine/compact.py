"""Compaction: copies what an active state can still use into a fresh arena.

Partial matches whose start has left the window go, and unions of which one side has
left become the other side. Rows (partitions) with nothing left are given back.

Cost contract: O(live nodes + nodes of the old arena); run when the arena has doubled,
so amortized O(1) per node made. The old arena is left as it is: matches that refer to
it stay valid for as long as somebody holds them.
"""

from __future__ import annotations

from numba import njit

from cernis.engine.arena import UNION
from cernis.engine.update import EPOCH, FREE_ROWS


@njit(cache=True, nogil=True)
def mark_live(arena, row_bounds, slots, counters, row_epoch, live, stack):  # type: ignore[no-untyped-def]
    """live[node]: 0 dead, 1 kept, 2 a union that is now its left side, 3 … its right side."""
    for row in range(slots.shape[0]):
        bound = row_bounds[row]
        if row_epoch[row] != counters[EPOCH]:
            slots[row, :] = 0
            row_epoch[row] = counters[EPOCH]
            continue
        for state in range(slots.shape[1]):
            node = slots[row, state]
            if node == 0:
                continue
            if arena[node]["start"] < bound:
                slots[row, state] = 0
                continue
            depth = 1
            stack[0] = node
            while depth > 0:
                depth -= 1
                node = stack[depth]
                if live[node] != 0:
                    continue
                left, right = arena[node]["left"], arena[node]["right"]
                live[node] = 1
                if arena[node]["label"] == UNION:
                    if arena[right]["start"] < bound:
                        live[node] = 2
                    else:
                        stack[depth] = right
                        depth += 1
                if left != 0:
                    stack[depth] = left
                    depth += 1


@njit(cache=True, nogil=True)
def count_live(live):  # type: ignore[no-untyped-def]
    total = 1
    for node in range(1, len(live)):
        if live[node] == 1:
            total += 1
    return total


@njit(cache=True, nogil=True)
def copy_live(arena, live, moved, fresh):  # type: ignore[no-untyped-def]
    """Copies kept nodes in order (children first) and notes where each went."""
    top = 1
    for node in range(1, len(live)):
        if live[node] == 2:
            moved[node] = moved[arena[node]["left"]]
        elif live[node] == 1:
            fresh[top] = arena[node]
            fresh[top]["left"] = moved[arena[node]["left"]]
            fresh[top]["right"] = moved[arena[node]["right"]]
            if arena[node]["label"] == UNION:
                left, right = fresh[top]["left"], fresh[top]["right"]
                fresh[top]["position"] = max(fresh[left]["position"], fresh[right]["position"])
            moved[node] = top
            top += 1
    return top


@njit(cache=True, nogil=True)
def move_slots(slots, moved, counters, row_of_key, key_of_row, free_rows, partitioned):  # type: ignore[no-untyped-def]
    """Points the states at the copies; rows with nothing left become free."""
    for row in range(slots.shape[0]):
        used = False
        for state in range(slots.shape[1]):
            node = slots[row, state]
            if node != 0:
                slots[row, state] = moved[node]
                used = True
        if partitioned and not used and key_of_row[row] >= 0:
            row_of_key[key_of_row[row]] = -1
            key_of_row[row] = -1
            free_rows[counters[FREE_ROWS]] = row
            counters[FREE_ROWS] += 1
