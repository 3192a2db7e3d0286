"""Compaction: copies what an active state can still use into a fresh arena.

Partial matches whose start has left the window go, and unions of which one side has
left become the other side. Rows (partitions) with nothing left are given back.

Cost contract: O(live nodes + rows · states), not O(nodes made): a copying collector,
depth first, so that children again come before parents. The old arena is left as it
is: matches that refer to it stay valid for as long as somebody holds them.
"""

from __future__ import annotations

from cernis.compiled import kernel
from cernis.engine.unary.arena import UNION
from cernis.engine.unary.step import EPOCH, FREE_ROWS


@kernel
def copy_live(arena, row_bounds, slots, counters, row_epoch, moved, fresh, top, stack):
    """Copies what the slots reach into `fresh`, as far as there is room.

    `moved` maps nodes to their copies, `top[0]` counts the copies. Returns False if
    `fresh` is too small; calling again with a larger one goes on from there.
    """
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
                node = stack[depth - 1]
                if moved[node] != 0:
                    depth -= 1
                    continue
                left, right = arena[node]["left"], arena[node]["right"]
                inside = right != 0 and arena[right]["start"] >= bound
                if left != 0 and moved[left] == 0:
                    stack[depth] = left
                    depth += 1
                    continue
                if inside and moved[right] == 0:
                    stack[depth] = right
                    depth += 1
                    continue
                depth -= 1
                if arena[node]["label"] == UNION and not inside:
                    moved[node] = moved[left]
                    continue
                copy = top[0]
                if copy == len(fresh):
                    return False
                top[0] = copy + 1
                fresh[copy] = arena[node]
                fresh[copy]["left"] = moved[left]
                fresh[copy]["right"] = moved[right] if inside else 0
                moved[node] = copy
    return True


@kernel
def move_slots(slots, moved, counters, row_of_key, key_of_row, free_rows, partitioned):
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
