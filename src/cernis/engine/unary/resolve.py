"""Strategies that compare matches of different starts, resolved per end position.

The automaton decides between matches with one start (`automata.determinize`). What is
left is done here, on the compact set of one end position, and gives a compact set
again, in an arena of its own that holds matches only:

* `LAST`: from the last event backwards, keep the branches whose next event is latest.
  The update kernel has already dropped what could not win.
* `ANY`: the first match of LAST.
* `NEXT`: one best match per start remains; keep those of the earliest start.
* `MAX`: a match may still lie inside one that starts earlier; such are dropped. To
  compare them they are listed, so their number at one position is limited.

CONSUME BY under a strategy is literal: the strategy chooses first, then a match that
reaches back to a consumed position is dropped.

Cost contract: LAST and ANY O(branches looked at), NEXT O(nodes inside the window), MAX
O(m² · length) for the m matches that are maximal among those of their own start. None
grows with the number of matches that the strategy passes over.
"""

from __future__ import annotations

import numpy as np

from cernis.compiled import kernel
from cernis.engine.unary.arena import FOREVER, UNION, make_item, make_union
from cernis.engine.unary.enumerate import ALL_DONE, MARKS, MATCHES, WAITING, list_matches
from cernis.engine.unary.step import CONSUME_ALL, CONSUME_NOTHING, NODES, ROOTS

RESOLVE_LAST, RESOLVE_ANY, RESOLVE_NEXT, RESOLVE_MAX = 1, 2, 3, 4
RESOLVED, NEEDS_ROOM, OUT_FULL = range(3)


@kernel
def _latest(arena, entry, bound, stack, found):
    """The items below `entry` with the latest event, into `found`; how many, -1: no room.

    An unmarked start counts as position -1: it has no further event.
    """
    depth = 1
    stack[0] = entry
    count = 0
    best = np.int64(-2)
    while depth > 0:
        depth -= 1
        node = stack[depth]
        if arena[node]["start"] < bound:
            continue
        if arena[node]["label"] == UNION and arena[node]["position"] < best:
            continue
        if arena[node]["label"] == UNION:
            if depth + 2 >= len(stack):
                return -1
            stack[depth] = arena[node]["right"]
            stack[depth + 1] = arena[node]["left"]
            depth += 2
            continue
        if arena[node]["right"] != 0:
            if depth + 1 >= len(stack):
                return -1
            stack[depth] = arena[node]["right"]
            depth += 1
        position = np.int64(-1) if arena[node]["label"] == 0 else arena[node]["position"]
        if position > best:
            best = position
            count = 0
        if position == best:
            if count == len(found):
                return -1
            found[count] = node
            count += 1
    return count


@kernel
def _resolve_last(arena, root, bound, after, one, out, counters, stack, found, kept, parent, rest):
    """The best match(es) by LAST below `root`, rebuilt in `out`; 0: none left.

    -1: no room to work in, -2: none in `out`.

    `kept` holds, level by level, the items that are still best; `parent` the kept item
    whose rest each belongs to. `rest` becomes the rebuilt rest of each item.
    """
    total = 0
    begin, end = -1, -1  # the level to be continued; at first the root itself
    alive_from = 0
    while True:
        best = np.int64(-2)
        level = total
        for k in range(begin, max(end, 0)):
            entry = root if k < 0 else arena[kept[k]]["left"]
            if entry == 0:
                continue
            n = _latest(arena, entry, bound, stack, found)
            if n < 0 or total + n >= len(kept):
                return -1
            position = np.int64(-1)
            if arena[found[0]]["label"] != 0:
                position = arena[found[0]]["position"]
            if position > best:
                best = position
                total = level
            if position == best:
                for f in range(n):
                    kept[total] = found[f]
                    parent[total] = k
                    total += 1
        if best >= 0:  # who has ended before loses to who marks one more event
            alive_from = level
        if best < 0 or total == level:
            break
        begin, end = level, total
    if counters[NODES] + 2 * total + 2 >= len(out):
        return -2
    for k in range(total):
        rest[k] = 0
    answer = 0
    for k in range(total - 1, -1, -1):
        item = arena[kept[k]]
        if item["left"] == 0:
            if k < alive_from or item["position"] <= after:
                continue
            node = make_item(out, counters, item["position"], item["label"], 0, item["position"])
        else:
            if rest[k] == 0:
                continue
            start = out[rest[k]]["start"]
            node = make_item(out, counters, item["position"], item["label"], rest[k], start)
        p = parent[k]
        other = answer if p < 0 else rest[p]
        if other != 0:
            if one:
                node = node if out[node]["start"] >= out[other]["start"] else other
            elif out[node]["start"] >= out[other]["start"]:
                node = make_union(out, counters, node, other)
            else:
                node = make_union(out, counters, other, node)
        if p < 0:
            answer = node
        else:
            rest[p] = node
    return answer


@kernel
def _earliest_start(arena, root, bound, stamp, stamps, stack):
    """The position of the earliest start inside the window."""
    best = np.int64(2**62)
    depth = 1
    stack[0] = root
    stamps[root] = stamp
    while depth > 0:
        depth -= 1
        node = stack[depth]
        left, right = arena[node]["left"], arena[node]["right"]
        if left == 0:
            best = min(best, arena[node]["position"])
        elif stamps[left] != stamp:
            stamps[left] = stamp
            stack[depth] = left
            depth += 1
        if right != 0 and arena[right]["start"] >= bound and stamps[right] != stamp:
            stamps[right] = stamp
            stack[depth] = right
            depth += 1
    return best


@kernel
def _with_start(arena, root, bound, start, out, counters, stamp, stamps, copies, stack):
    """The matches below `root` that start at this position, rebuilt in `out`; -2: no room."""
    depth = 1
    stack[0] = root
    while depth > 0:
        node = stack[depth - 1]
        if stamps[node] == stamp:
            depth -= 1
            continue
        if counters[NODES] + 2 >= len(out):
            return -2
        left, right = arena[node]["left"], arena[node]["right"]
        inside = right != 0 and arena[right]["start"] >= bound
        if left != 0 and stamps[left] != stamp:
            stack[depth] = left
            depth += 1
            continue
        if inside and stamps[right] != stamp:
            stack[depth] = right
            depth += 1
            continue
        copy = 0
        label, position = arena[node]["label"], arena[node]["position"]
        if label == UNION:
            copy = copies[left]
        elif left == 0:
            if position == start:
                copy = make_item(out, counters, start, label, 0, start)
        elif copies[left] != 0:
            copy = make_item(out, counters, position, label, copies[left], start)
        other = copies[right] if inside else 0
        if copy == 0:
            copy = other
        elif other != 0:
            copy = make_union(out, counters, copy, other)
        copies[node] = copy
        stamps[node] = stamp
        depth -= 1
    return copies[root]


@kernel
def _inside(position, offset, small, large):
    """Whether one match's events all belong to another's (both lists descend)."""
    a, b = offset[small], offset[large]
    if offset[small + 1] - a > offset[large + 1] - b:
        return False
    while a < offset[small + 1]:
        while b < offset[large + 1] and position[b] > position[a]:
            b += 1
        if b == offset[large + 1] or position[b] != position[a]:
            return False
        a += 1
        b += 1
    return True


@kernel
def _shows_the_same(position, label, offset, hidden, one, other):
    """Whether two matches differ only in events that carry the hidden label."""
    a, b = offset[one], offset[other]
    while True:
        while a < offset[one + 1] and label[a] == hidden:
            a += 1
        while b < offset[other + 1] and label[b] == hidden:
            b += 1
        if a == offset[one + 1] or b == offset[other + 1]:
            return a == offset[one + 1] and b == offset[other + 1]
        if position[a] != position[b] or label[a] != label[b]:
            return False
        a += 1
        b += 1


@kernel
def _resolve_max(
    arena,
    one_root,
    after,
    hidden,
    out,
    counters,
    cursor,
    walk,
    listing,
    order,
):
    """The maximal matches below a root, rebuilt in `out`; 0, -1 and -2 as for LAST."""
    cursor[:] = 0
    cursor[WAITING] = -1
    status = list_matches(arena, one_root, -1, cursor, *walk, *listing)
    _, list_start, list_offset, list_position, list_label = listing
    if status != ALL_DONE:
        return -1
    n, marks = cursor[MATCHES], cursor[MARKS]
    if counters[NODES] + marks + 2 * n + 2 >= len(out):
        return -2
    for k in range(n):  # earliest start first; they come nearly in the opposite order
        m = n - 1 - k
        at = k
        while at > 0 and list_start[order[at - 1]] > list_start[m]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = m
    kept = 0
    for k in range(n):
        m = order[k]
        beaten = False
        for other in range(kept):
            o = order[other]
            if list_start[o] < list_start[m] and _inside(list_position, list_offset, m, o):
                beaten = True
                break
        if not beaten:
            order[kept] = m
            kept += 1
    answer = 0
    for k in range(kept):
        m = order[k]
        start = list_start[m]
        if start <= after:
            continue
        shown = False
        if hidden > 0:  # set semantics after projection
            before = k - 1
            while before >= 0 and list_start[order[before]] == start and not shown:
                shown = _shows_the_same(
                    list_position, list_label, list_offset, hidden, m, order[before]
                )
                before -= 1
        if shown:
            continue
        node = 0
        if list_offset[m + 1] == list_offset[m] or list_position[list_offset[m + 1] - 1] != start:
            node = make_item(out, counters, start, 0, 0, start)
        for at in range(list_offset[m + 1] - 1, list_offset[m] - 1, -1):
            node = make_item(out, counters, list_position[at], list_label[at], node, start)
        answer = node if answer == 0 else make_union(out, counters, node, answer)
    return answer


@kernel
def resolve(
    arena,
    roots,
    begin,
    strategy,
    hidden,
    consume,
    consumed,
    out,
    counters,
    out_roots,
    stamps,
    copies,
    stack,
    found,
    kept,
    parent,
    rest,
    cursor,
    walk,
    listing,
):
    """Resolves roots[begin:] one after the other; returns (status, root to go on with)."""
    for r in range(begin, len(roots)):
        key = roots[r]["key"] if consume != CONSUME_ALL else 0
        after = np.int64(-1) if consume == CONSUME_NOTHING else consumed[key]
        mark = counters[NODES]
        if strategy == RESOLVE_NEXT:
            start = _earliest_start(
                arena, roots[r]["node"], roots[r]["bound"], 2 * r + 1, stamps, stack
            )
            node = 0
            if start > after:
                node = _with_start(
                    arena,
                    roots[r]["node"],
                    roots[r]["bound"],
                    start,
                    out,
                    counters,
                    2 * r + 2,
                    stamps,
                    copies,
                    stack,
                )
        elif strategy == RESOLVE_MAX:
            node = _resolve_max(
                arena,
                roots[r : r + 1],
                after,
                hidden,
                out,
                counters,
                cursor,
                walk,
                listing,
                kept,
            )
        else:
            node = _resolve_last(
                arena,
                roots[r]["node"],
                roots[r]["bound"],
                after,
                strategy == RESOLVE_ANY,
                out,
                counters,
                stack,
                found,
                kept,
                parent,
                rest,
            )
        if node < 0:
            counters[NODES] = mark
            return (OUT_FULL if node == -2 else NEEDS_ROOM), r
        if node != 0:
            if consume != CONSUME_NOTHING:
                consumed[key] = roots[r]["end"]
            n = counters[ROOTS]
            out_roots[n]["end"] = roots[r]["end"]
            out_roots[n]["bound"] = FOREVER
            out_roots[n]["key"] = roots[r]["key"]
            out_roots[n]["node"] = node
            counters[ROOTS] = n + 1
    return RESOLVED, len(roots)
