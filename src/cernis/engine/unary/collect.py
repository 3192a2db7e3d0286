"""A copying collector: live nodes move to a fresh arena.

Partial matches that start outside the window are dropped; a union with one side outside
becomes the other side. Rows of partitions without partial matches become free.

Cost contract: O(live nodes + rows · states), not O(nodes made). It copies depth first, so
that children again come before parents. The old arena does not change: matches that refer
to it stay valid.
"""

from __future__ import annotations

from cernis.compiled import borrowing as kernel
from cernis.engine.unary.arena import EPOCH, FREE_ROWS, UNION, link_start


@kernel
def copy_live(memory, row_bounds, moved, fresh, used, stack):
    """Copy the nodes that slots reach into `fresh`; return False if it is too small.

    `moved` maps nodes to their copies, `used[0]` counts the nodes of `fresh`. Called
    again with a larger one, the kernel goes on from there.
    """
    arena, slots, row_epoch = memory.arena, memory.slots, memory.row_epoch
    epoch = memory.counters[EPOCH]
    for row in range(slots.shape[0]):
        bound = row_bounds[row]
        if row_epoch[row] != epoch:
            slots[row, :] = 0
            row_epoch[row] = epoch
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
                copy = used[0]
                if copy == len(fresh):
                    return False
                used[0] = copy + 1
                fresh[copy] = arena[node]
                fresh[copy]["left"] = moved[left]
                fresh[copy]["right"] = moved[right] if inside else 0
                moved[node] = copy
    return True


@kernel
def link_starts(arena, nodes):
    """Lead from each node of a list of starts to one further back."""
    for node in range(1, nodes):
        link_start(arena, node)


@kernel
def move_slots(memory, moved, partitioned):
    """Point the states at the copies; free the rows without partial matches."""
    slots, counters, key_of_row = memory.slots, memory.counters, memory.key_of_row
    for row in range(slots.shape[0]):
        is_used = False
        for state in range(slots.shape[1]):
            node = slots[row, state]
            if node != 0:
                slots[row, state] = moved[node]
                is_used = True
        if partitioned and not is_used and key_of_row[row] >= 0:
            memory.row_of_key[key_of_row[row]] = -1
            key_of_row[row] = -1
            memory.free_rows[counters[FREE_ROWS]] = row
            counters[FREE_ROWS] += 1
