"""Strategies that compare matches of different starts, resolved per end position.

The automaton decides between matches with one start (`automata.unary.determinize`). This
module decides between starts, on the compact set of one end position. The result is a
compact set again, in an arena of its own that holds matches only:

* `LAST`: from the last event backwards, keep the branches whose next event is latest.
  The step kernel has already dropped partial matches that could not win.
* `ANY`: the first match of LAST.
* `NEXT`: one best match per start remains; keep those of the earliest start inside the window,
  which the step kernel knows until the window passes it.
* `MAX`: drop a match that lies inside one that starts earlier. To compare matches the
  kernel lists them, so their number at one position is limited.
* `LONGEST`: the automaton is that of MAX; keep the matches of the earliest start. Only roots whose
  interval no other interval contains come here (`keep_longest`).

CONSUME BY under a strategy is literal: the strategy chooses first, then a match that
reaches back to a consumed position is dropped.

Cost contract: LAST and ANY O(branches looked at), MAX O(m · length + m² · log length) for the m
matches that are maximal among those of their own start, and O(m² · length) where one match often
has the first event of another. NEXT and LONGEST O(nodes of the answer · log of the starts
inside the window): a list of starts is searched, not walked (`arena.link_start`). Where branches
without the earliest start lie beside the answer, as with alternatives that begin with different
types, they are walked too. None grows with the number of matches that the strategy passes over.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import borrowing as kernel
from cernis.compiled import inner
from cernis.engine import settings as s
from cernis.engine.listing import Listing, empty_listing
from cernis.engine.unary import arena as a
from cernis.engine.unary import enumerate as walks

RESOLVED, NEEDS_ROOM, OUT_FULL = range(3)
_NO_ROOM, _NO_OUT = -1, -2
"""Answers instead of a node: a scratch array, or the arena of the result, is full."""
MARKS_EACH = 64


class Resolution(NamedTuple):
    """The matches that a strategy chooses: the result of `resolve`, as it grows."""

    arena: NDArray[np.void]
    counters: NDArray[np.int64]
    roots: NDArray[np.void]
    consumed: NDArray[np.int64]
    """Per partition, the end of the last match that was chosen."""


class StrategyRules(NamedTuple):
    """The strategy, the label of events that SELECT drops (0: none), and CONSUME BY."""

    strategy: int
    hidden: int
    consume: int


class NodeScratch(NamedTuple):
    """Room per node of the arena that is resolved; each walk has a stamp of its own."""

    last_stamp: NDArray[np.int64]
    stamps: NDArray[np.int64]
    copies: NDArray[np.int32]
    stack: NDArray[np.int32]


class ListScratch(NamedTuple):
    """Room for the candidates of one end position."""

    found: NDArray[np.int32]
    kept: NDArray[np.int32]
    parent: NDArray[np.int64]
    rest: NDArray[np.int32]
    walk: walks.ArenaWalk
    listing: Listing


def new_resolution(roots: int, consumed: NDArray[np.int64]) -> Resolution:
    """Make room for the matches of so many roots."""
    return Resolution(a.new_arena(4096), a.new_counters(), np.zeros(roots, a.ROOT), consumed)


def new_node_scratch(nodes: int) -> NodeScratch:
    """Make scratch arrays for so many nodes."""
    return NodeScratch(
        np.zeros(1, np.int64),
        np.zeros(nodes, np.int64),
        np.zeros(nodes, np.int32),
        np.zeros(nodes + 64, np.int32),
    )


def new_list_scratch(room: int) -> ListScratch:
    """Make scratch arrays for so many candidates."""
    return ListScratch(
        np.zeros(room, np.int32),
        np.zeros(room, np.int32),
        np.zeros(room, np.int64),
        np.zeros(room, np.int32),
        walks.new_walk(room, MARKS_EACH * room),
        empty_listing(room, MARKS_EACH * room),
    )


@kernel
def resolve(segment, starts, rules, begin, out, nodes, lists):
    """Resolve the roots from `begin` on; return (status, root to go on with).

    `starts` are the earliest starts of the roots, for NEXT and LONGEST.
    """
    roots, counters = segment.roots, out.counters
    for r in range(begin, len(roots)):
        root = roots[r]
        key = root["key"] if rules.consume != s.CONSUME_ALL else 0
        after = np.int64(-1) if rules.consume == s.CONSUME_NOTHING else out.consumed[key]
        before = counters[a.NODES]
        if rules.strategy == s.RESOLVE_NEXT:
            node = 0
            if starts[r] > after:
                node = _copy_start(segment.arena, root, starts[r], out, nodes)
        elif rules.strategy == s.RESOLVE_MAX:
            node = _resolve_max(segment.arena, roots[r : r + 1], after, rules.hidden, out, lists)
        elif rules.strategy == s.RESOLVE_LONGEST:
            node = _copy_start(segment.arena, root, starts[r], out, nodes)
            if node > 0 and rules.hidden > 0:
                node = _drop_hidden(node, rules.hidden, out, lists)
        else:
            takes_one = rules.strategy == s.RESOLVE_ANY
            node = _resolve_last(segment.arena, root, after, takes_one, out, nodes.stack, lists)
        if node < 0:
            counters[a.NODES] = before
            return (OUT_FULL if node == _NO_OUT else NEEDS_ROOM), r
        if node != 0:
            if rules.consume != s.CONSUME_NOTHING:
                out.consumed[key] = root["end"]
            n = counters[a.ROOTS]
            out.roots[n]["end"] = root["end"]
            out.roots[n]["bound"] = s.FOREVER
            out.roots[n]["key"] = root["key"]
            out.roots[n]["node"] = node
            counters[a.ROOTS] = n + 1
    return RESOLVED, len(roots)


# ----------------------------------------------------------------- LAST, ANY


@inner
def _latest(arena, entry, bound, stack, found):
    """Write the items below `entry` with the latest event; return how many, or _NO_ROOM.

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
        if arena[node]["label"] == a.UNION and arena[node]["position"] < best:
            continue
        if arena[node]["label"] == a.UNION:
            if depth + 2 >= len(stack):
                return _NO_ROOM
            stack[depth] = arena[node]["right"]
            stack[depth + 1] = arena[node]["left"]
            depth += 2
            continue
        if arena[node]["right"] != 0:
            if depth + 1 >= len(stack):
                return _NO_ROOM
            stack[depth] = arena[node]["right"]
            depth += 1
        position = np.int64(-1) if arena[node]["label"] == 0 else arena[node]["position"]
        if position > best:
            best = position
            count = 0
        if position == best:
            if count == len(found):
                return _NO_ROOM
            found[count] = node
            count += 1
    return count


@inner
def _resolve_last(arena, root, after, takes_one, out, stack, lists):
    """Rebuild the best matches by LAST in `out`; return their node, 0 if none is left.

    `kept` holds, level by level, the items that are still best; `parent` the kept item
    whose rest each belongs to. `rest` becomes the rebuilt rest of each item.
    """
    found, kept, parent, rest = lists.found, lists.kept, lists.parent, lists.rest
    counters, bound = out.counters, root["bound"]
    total = 0
    begin, end = -1, -1  # the level to be continued; at first the root itself
    alive_from = 0
    while True:
        best = np.int64(-2)
        level = total
        for k in range(begin, max(end, 0)):
            entry = root["node"] if k < 0 else arena[kept[k]]["left"]
            if entry == 0:
                continue
            n = _latest(arena, entry, bound, stack, found)
            if n < 0 or total + n >= len(kept):
                return _NO_ROOM
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
        if best >= 0:  # a match that has ended loses to one that marks one more event
            alive_from = level
        if best < 0 or total == level:
            break
        begin, end = level, total
    if counters[a.NODES] + 2 * total + 2 >= len(out.arena):
        return _NO_OUT
    for k in range(total):
        rest[k] = 0
    answer = 0
    for k in range(total - 1, -1, -1):
        item = arena[kept[k]]
        start = item["position"]
        if item["left"] != 0:
            if rest[k] == 0:
                continue
            start = out.arena[rest[k]]["start"]
        elif k < alive_from or start <= after:
            continue
        node = a.make_item(out.arena, counters, item["position"], item["label"], rest[k], start)
        p = parent[k]
        other = answer if p < 0 else rest[p]
        if other != 0:
            upper, lower = node, other
            if out.arena[node]["start"] < out.arena[other]["start"]:
                upper, lower = other, node
            node = upper if takes_one else a.make_union(out.arena, counters, upper, lower)
        if p < 0:
            answer = node
        else:
            rest[p] = node
    return answer


# ------------------------------------------------------------- NEXT, LONGEST


@inner
def _take_stamp(nodes):
    """Return the stamp of a new walk."""
    nodes.last_stamp[0] += 1
    return nodes.last_stamp[0]


@inner
def _find_first(arena, entry, bound, nodes):
    """Return the item of the earliest start inside the window below a node."""
    stamps, stack, stamp = nodes.stamps, nodes.stack, _take_stamp(nodes)
    best = np.int64(0)
    depth = 1
    stack[0] = entry
    while depth > 0:
        depth -= 1
        node = _skip_inside(arena, stack[depth], bound)
        if stamps[node] == stamp:
            continue
        stamps[node] = stamp
        left, right = arena[node]["left"], arena[node]["right"]
        if left == 0:
            if best == 0 or arena[node]["position"] < arena[best]["position"]:
                best = np.int64(node)
        elif stamps[left] != stamp:
            stack[depth] = left
            depth += 1
        if a.is_inside(arena, right, bound) and stamps[right] != stamp:
            stack[depth] = right
            depth += 1
    return best


@inner
def _skip_inside(arena, node, bound):
    """Go along a list of starts to the last one inside the window."""
    while a.find_head(arena, node) != 0:
        back = arena[node]["back"]
        if not a.is_inside(arena, back, bound):
            back = arena[node]["right"]
            if not a.is_inside(arena, back, bound) or a.find_head(arena, back) == 0:
                break
        node = back
    return node


@inner
def _skip_later(arena, node, bound, position):
    """Go along a list past the starts after a position; 0: it ends, or leaves the window."""
    while a.is_inside(arena, node, bound):
        head = a.find_head(arena, node)
        if head == 0 or arena[head]["position"] <= position:
            return node
        back = arena[node]["back"]
        if back != 0 and arena[a.find_head(arena, back)]["position"] >= position:
            node = back
        else:
            node = arena[node]["right"]
    return 0


@inner
def _copy_start(arena, root, start, out, nodes):
    """Rebuild the matches that start at this position in `out`; return their node."""
    stamps, copies, stack, stamp = nodes.stamps, nodes.copies, nodes.stack, _take_stamp(nodes)
    counters, bound = out.counters, root["bound"]
    entry = _skip_later(arena, root["node"], bound, start)
    stack[0] = entry
    copies[0] = 0
    stamps[0] = stamp
    depth = 1
    while depth > 0:
        node = stack[depth - 1]
        if stamps[node] == stamp:
            depth -= 1
            continue
        left = _skip_later(arena, arena[node]["left"], bound, start)
        right = _skip_later(arena, arena[node]["right"], bound, start)
        if stamps[left] != stamp or stamps[right] != stamp:
            stack[depth] = right if stamps[left] == stamp else left
            depth += 1
            continue
        if counters[a.NODES] + 2 >= len(out.arena):
            return _NO_OUT
        copy = copies[left]
        label, position = arena[node]["label"], arena[node]["position"]
        if arena[node]["left"] == 0:
            if position == start:
                copy = a.make_item(out.arena, counters, start, label, 0, start)
        elif label != a.UNION and copy != 0:
            copy = a.make_item(out.arena, counters, position, label, copy, start)
        other = copies[right]
        if copy == 0:
            copy = other
        elif other != 0:
            copy = a.make_union(out.arena, counters, copy, other)
        copies[node] = copy
        stamps[node] = stamp
        depth -= 1
    return copies[entry]


@kernel
def find_starts(segment, starts, nodes):
    """Find the earliest starts that the step kernel does not know: the window has passed some."""
    arena, roots = segment.arena, segment.roots
    for r in range(len(roots)):
        if starts[r] < 0:
            item = _find_first(arena, roots[r]["node"], roots[r]["bound"], nodes)
            starts[r] = arena[item]["position"]


@kernel
def find_live_starts(memory, known, row_bounds, rows, nodes, found):
    """Write, per row, the position of its earliest partial match; NEVER: it has none.

    An earliest start that has left the window is replaced by the next one.
    """
    arena, slots = memory.arena, memory.slots
    for i in range(len(rows)):
        row = rows[i]
        found[i] = s.NEVER
        if row < 0:
            continue
        for state in range(slots.shape[1]):
            node = slots[row, state]
            if node == 0 or arena[node]["start"] < row_bounds[row]:
                continue
            if known[row, state]["start"] < row_bounds[row]:
                item = _find_first(arena, node, row_bounds[row], nodes)
                known[row, state]["start"] = arena[item]["start"]
                known[row, state]["position"] = arena[item]["position"]
            found[i] = min(found[i], known[row, state]["position"])


@inner
def _drop_hidden(node, hidden, out, lists):
    """Make matches of one start that differ in dropped variables alone one; return their node."""
    n = out.counters[a.ROOTS]
    out.roots[n]["bound"] = s.FOREVER
    out.roots[n]["node"] = node
    return _resolve_max(out.arena, out.roots[n : n + 1], np.int64(-1), hidden, out, lists)


# ----------------------------------------------------------------------- MAX


@inner
def _has_position(position, low, high, wanted):
    """Whether a part of a list that descends has a position."""
    while low < high:
        middle = (low + high) // 2
        if position[middle] > wanted:
            low = middle + 1
        else:
            high = middle
    return position[low] == wanted


@inner
def _is_inside(listing, small, large):
    """Whether one match's events all belong to another's (both lists descend).

    Most often the first event of the later match decides: it does not belong to the earlier one.
    """
    position, offset = listing.position, listing.offset
    i, j = offset[small], offset[large]
    if offset[small + 1] - i > offset[large + 1] - j:
        return False
    first = offset[small + 1] - 1
    if first >= i and not _has_position(position, j, offset[large + 1] - 1, position[first]):
        return False
    while i < offset[small + 1]:
        while j < offset[large + 1] and position[j] > position[i]:
            j += 1
        if j == offset[large + 1] or position[j] != position[i]:
            return False
        i += 1
        j += 1
    return True


@inner
def _shows_the_same(listing, hidden, one, other):
    """Whether two matches differ only in events that carry the hidden label."""
    position, label, offset = listing.position, listing.label, listing.offset
    i, j = offset[one], offset[other]
    while True:
        while i < offset[one + 1] and label[i] == hidden:
            i += 1
        while j < offset[other + 1] and label[j] == hidden:
            j += 1
        if i == offset[one + 1] or j == offset[other + 1]:
            return i == offset[one + 1] and j == offset[other + 1]
        if position[i] != position[j] or label[i] != label[j]:
            return False
        i += 1
        j += 1


@inner
def _resolve_max(arena, one_root, after, hidden, out, lists):
    """Rebuild the maximal matches below a root in `out`; return their node, or 0."""
    walk, listing, order = lists.walk, lists.listing, lists.kept
    walks.restart(walk)
    if walks.list_matches(arena, one_root, -1, walk, listing) != walks.ALL_DONE:
        return _NO_ROOM
    counters = out.counters
    n, marks = walk.cursor[walks.MATCHES], walk.cursor[walks.MARKS]
    if counters[a.NODES] + marks + 2 * n + 2 >= len(out.arena):
        return _NO_OUT
    kept = _drop_inside(listing, n, order)
    answer = 0
    for k in range(kept):
        m = order[k]
        start = listing.start[m]
        if start <= after or (hidden > 0 and _is_shown(listing, hidden, order, k)):
            continue
        node = 0
        first, last = listing.offset[m], listing.offset[m + 1]
        if last == first or listing.position[last - 1] != start:
            node = a.make_item(out.arena, counters, start, 0, 0, start)
        for at in range(last - 1, first - 1, -1):
            position, label = listing.position[at], listing.label[at]
            node = a.make_item(out.arena, counters, position, label, node, start)
        answer = node if answer == 0 else a.make_union(out.arena, counters, node, answer)
    return answer


@inner
def _drop_inside(listing, n, order):
    """Write the matches that lie in no other, earliest start first; return how many.

    Only a match with more events can contain one: where all have as many, none are compared.
    """
    start, offset = listing.start, listing.offset
    for k in range(n):  # they come nearly in the opposite order
        m = n - 1 - k
        at = k
        while at > 0 and start[order[at - 1]] > start[m]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = m
    kept = 0
    most = np.int64(0)
    for k in range(n):
        m = order[k]
        events = offset[m + 1] - offset[m]
        is_inside = False
        for other in range(kept if events < most else 0):
            o = order[other]
            if start[o] < start[m] and _is_inside(listing, m, o):
                is_inside = True
                break
        if not is_inside:
            order[kept] = m
            kept += 1
            most = max(most, events)
    return kept


@inner
def _is_shown(listing, hidden, order, k):
    """Whether SELECT makes a match equal to one before it: answers are sets."""
    start = listing.start[order[k]]
    before = k - 1
    while before >= 0 and listing.start[order[before]] == start:
        if _shows_the_same(listing, hidden, order[k], order[before]):
            return True
        before -= 1
    return False
