"""Runs by a value they are compared by: a persistent search tree, all versions kept.

A treap with path copying: ordered by the compared value (two words, high and low, which
order integers and floats exactly), balanced by random priorities. Each branch knows the
latest start below it, so that parts of the tree outside the window are cut, and are
left behind when a path is copied.

A tree for gaps holds readings of time, or positions, in the first word. They only rise, and
`trim` leaves those behind that no later event can reach, seldom enough to cost next to nothing.
Of a `->`, `erase` leaves the runs behind that an event has taken on; of an `UNLESS`, those that an
event of its guard forbids, which have one word: the number of their group.

Of a star (`cernis.engine.correlated.middles`), `pop` takes out one run after the other. A tree
whose runs have a range each has its ends as the two words: both rise together, so the ranges that
have a value lie side by side. A tree whose starts fall as time goes on (`turn_start`) knows the
earliest of its runs: `pop_early` takes out one that fits a value and came before a moment.

A tree for a gap beside an order is by value; its starts are readings of the last event of each run.

Cost contract: insertion, trimming and erasing O(log n) expected, n the runs of one key inside the
window or the gap; the latest start among the runs in a range O(log n); enumeration O(log n) per run
at worst.
Neither paper has order predicates; the index is the obvious one. A tree ordered by
value and heaped by start (a priority search tree) would give output-linear delay, but
degenerates to a list where the value rises with time, as prices do.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cernis.compiled import borrowing as kernel
from cernis.compiled import inner
from cernis.engine.dag import records as r

ALL_SHARED = np.int64(2**62)


class PlantedRun(NamedTuple):
    """A run for a search tree: its value as two words, its vertex, and its start."""

    high: np.int64
    low: np.int64
    vertex: int
    start: np.int64


@inner
def is_in_range(branch, operator, high, low):
    """Whether the branch's words are in this relation to the words asked for."""
    h, l = branch["high"], branch["low"]  # noqa: E741
    if operator == r.LESS:
        return h < high or (h == high and l < low)
    if operator == r.LESS_EQUAL:
        return h < high or (h == high and l <= low)
    if operator == r.GREATER:
        return h > high or (h == high and l > low)
    if operator == r.IN_GAP:
        return high <= h <= low
    if operator == r.IN_SPAN:
        return h <= high and l >= low
    if operator >= r.IN_ENDS:
        from_, to = (operator - r.IN_ENDS) >> 1, -((operator - r.IN_ENDS) & 1)
        return (h > high or (h == high and l >= from_)) and (h < low or (h == low and l <= to))
    if operator == r.EQUAL:
        return h == high and l == low
    return h > high or (h == high and l >= low)


@inner
def is_beyond(branch, operator, high, low):
    """Whether what is asked for is to the left of a branch that is not in range."""
    if operator == r.IN_GAP:
        return branch["high"] > low
    if operator == r.IN_SPAN:
        return branch["high"] > high
    if operator >= r.IN_ENDS:
        return branch["high"] >= low
    if operator == r.EQUAL:
        return branch["high"] > high or (branch["high"] == high and branch["low"] > low)
    return operator == r.LESS or operator == r.LESS_EQUAL


@inner
def is_comparable(branch, high):
    """Whether both are numbers, or both of one other kind."""
    h = branch["high"]
    numbers = h <= r.LARGEST_NUMBER and high <= r.LARGEST_NUMBER
    return numbers or h >> r.KIND_BITS == high >> r.KIND_BITS


@inner
def latest_start(branches, root, operator, high, low):
    """Return the latest start among the runs in range, or NOTHING; other kinds of values count."""
    below = operator == r.LESS or operator == r.LESS_EQUAL
    latest = r.NOTHING
    at = root
    while at != 0:
        if is_in_range(branches[at], operator, high, low):
            if branches[at]["start"] > latest:
                latest = branches[at]["start"]
            side = branches[at]["left"] if below else branches[at]["right"]
            if side != 0 and branches[side]["best"] > latest:
                latest = branches[side]["best"]
            at = branches[at]["right"] if below else branches[at]["left"]
        else:
            at = branches[at]["left"] if below else branches[at]["right"]
    return latest


@inner
def latest_run(branches, root, operator, high, low):
    """Return the branch with the latest start in range, 0 if there is none; and if it is alone."""
    below = operator == r.LESS or operator == r.LESS_EQUAL
    found, latest, inside, alone = 0, r.NOTHING, 0, True
    at = root
    while at != 0:
        is_left = below
        if is_in_range(branches[at], operator, high, low):
            alone = alone and branches[at]["start"] != latest
            if branches[at]["start"] > latest:
                found, latest, inside, alone = at, branches[at]["start"], 0, True
            side = branches[at]["left"] if below else branches[at]["right"]
            if side != 0:
                alone = alone and branches[side]["best"] != latest
                if branches[side]["best"] > latest:
                    latest, inside, alone = branches[side]["best"], side, True
            is_left = not below
        at = branches[at]["left"] if is_left else branches[at]["right"]
    while inside != 0:
        found, left, right = inside, branches[inside]["left"], branches[inside]["right"]
        on_left = left != 0 and branches[left]["best"] == latest
        on_right = right != 0 and branches[right]["best"] == latest
        here = branches[found]["start"] == latest
        alone = alone and int(on_left) + int(on_right) + int(here) == 1
        if here:
            break
        inside = left if on_left else right
    return found, alone


@inner
def find_inside(branches, root, operator, high, low):
    """Return the highest branch in a range with two ends: all others are below it; 0: none is."""
    at = root
    while at != 0 and not is_in_range(branches[at], operator, high, low):
        left = is_beyond(branches[at], operator, high, low)
        at = branches[at]["left"] if left else branches[at]["right"]
    return at


@inner
def latest_inside(branches, root, operator, high, low):
    """Return the latest start among the runs in a range with two ends, or NOTHING."""
    top = find_inside(branches, root, operator, high, low)
    if top == 0:
        return r.NOTHING
    latest = branches[top]["start"]
    for to_left in (True, False):
        at = branches[top]["left"] if to_left else branches[top]["right"]
        while at != 0:
            inside = is_in_range(branches[at], operator, high, low)
            if inside:
                if branches[at]["start"] > latest:
                    latest = branches[at]["start"]
                side = branches[at]["right"] if to_left else branches[at]["left"]
                if side != 0 and branches[side]["best"] > latest:
                    latest = branches[side]["best"]
            at = branches[at]["left"] if inside == to_left else branches[at]["right"]
    return latest


@inner
def latest_alike(branches, root, operator, high, low):
    """Like `latest_start`, among values of the same kind."""
    top, inside = root, False
    while top != 0:
        comparable = is_comparable(branches[top], high)
        inside = comparable and is_in_range(branches[top], operator, high, low)
        if inside:
            break
        left = _is_before(branches[top], operator, high, comparable)
        top = branches[top]["left"] if left else branches[top]["right"]
    if not inside:
        return r.NOTHING
    latest = branches[top]["start"]
    for to_left in (True, False):
        at = branches[top]["left"] if to_left else branches[top]["right"]
        while at != 0:
            inside = is_comparable(branches[at], high)
            inside = inside and is_in_range(branches[at], operator, high, low)
            if inside:
                if branches[at]["start"] > latest:
                    latest = branches[at]["start"]
                side = branches[at]["right"] if to_left else branches[at]["left"]
                if side != 0 and branches[side]["best"] > latest:
                    latest = branches[side]["best"]
            at = branches[at]["left"] if inside == to_left else branches[at]["right"]
    return latest


@inner
def _is_before(branch, operator, high, comparable):
    """Whether values of a kind in range stand to the left of a branch that is not in range."""
    if comparable:
        return operator == r.LESS or operator == r.LESS_EQUAL
    return branch["high"] > high


@inner
def largest(branches, root):
    """Return the largest value of a tree, NOTHING if it is empty."""
    found = r.NOTHING
    while root != 0:
        found = branches[root]["high"]
        root = branches[root]["right"]
    return found


@inner
def find_from(branches, root, high, low=r.NOTHING):
    """Return the branch with the smallest words from these on; 0: there is none."""
    found, at = 0, root
    while at != 0:
        if is_in_range(branches[at], r.GREATER_EQUAL, high, low):
            found, at = at, branches[at]["left"]
        else:
            at = branches[at]["right"]
    return found


@kernel
def find_latest(branches, roots, found):
    """Write the largest value of each tree."""
    for i in range(len(roots)):
        found[i] = largest(branches, roots[i])


@inner
def smallest(branches, root):
    """Return the smallest value of a tree, the largest there is if it is empty."""
    found = r.NO_CLOCK
    while root != 0:
        found = branches[root]["high"]
        root = branches[root]["left"]
    return found


@inner
def room_to_trim(branches, root, limit):
    """Return the most branches that `trim` will make."""
    made = 0
    while root != 0:
        if branches[root]["high"] < limit:
            root = branches[root]["right"]
        else:
            made += 1
            root = branches[root]["left"]
    return made


@inner
def trim(branches, counters, root, limit, bound):
    """Return the tree without the values below the limit; the tree before does not change."""
    first = counters[r.BRANCHES]
    new_root, parent = 0, 0
    at = root
    while at != 0:
        if branches[at]["high"] < limit:
            at = branches[at]["right"]
            continue
        copy = _copy(branches, counters, at, bound)
        at = branches[copy]["left"]
        branches[copy]["left"] = 0
        if parent == 0:
            new_root = copy
        else:
            branches[parent]["left"] = copy
        parent = copy
    for branch in range(counters[r.BRANCHES] - 1, first - 1, -1):
        _refresh(branches, branch)
    return new_root


@inner
def _lies_outside(branch, operator, high, low, to_left):
    """Whether a branch lies to the left (or right) of the values that are compared so with one.

    Values of other kinds are never in this relation: numbers lie to the left of them.
    """
    if operator == r.EQUAL:
        return is_in_range(branch, r.LESS if to_left else r.GREATER, high, low)
    if operator == r.IN_GAP:
        return branch["high"] < high if to_left else branch["high"] > low
    if operator == r.IN_SPAN:
        return branch["low"] < low if to_left else branch["high"] > high
    if operator >= r.IN_ENDS:
        is_right = is_beyond(branch, operator, high, low)
        return is_right != to_left and not is_in_range(branch, operator, high, low)
    if to_left == (operator in (r.GREATER, r.GREATER_EQUAL)):
        return not is_in_range(branch, operator, high, low)
    h = branch["high"]
    if to_left:
        return high > r.LARGEST_NUMBER and h >> r.KIND_BITS < high >> r.KIND_BITS
    if high <= r.LARGEST_NUMBER:
        return h > r.LARGEST_NUMBER
    return h >> r.KIND_BITS > high >> r.KIND_BITS


@inner
def room_to_erase(branches, root, operator, high, low):
    """Return the most branches that `erase` will make."""
    made = 0
    for to_left in (True, False):
        at = root
        while at != 0:
            outside = _lies_outside(branches[at], operator, high, low, to_left)
            made += 2 * outside
            at = branches[at]["right"] if outside == to_left else branches[at]["left"]
    return made


@inner
def _merge(branches, counters, left, right, bound):
    """Return one tree of two that lie beside each other; its new branches are to be refreshed."""
    new_root, parent, to_right = 0, 0, False
    while left != 0 and right != 0:
        from_left = branches[left]["priority"] >= branches[right]["priority"]
        copy = _copy(branches, counters, left if from_left else right, bound)
        if parent == 0:
            new_root = copy
        else:
            _hang(branches, parent, to_right, copy)
        parent, to_right = copy, from_left
        if from_left:
            left = branches[copy]["right"]
        else:
            right = branches[copy]["left"]
    if parent == 0:
        return max(left, right)
    _hang(branches, parent, to_right, max(left, right))
    return new_root


@inner
def erase(branches, counters, root, operator, high, low, bound):
    """Return the tree without the values that compare so with one; the tree before stays.

    The values of the same kind that are in range lie side by side, so two trees are left.
    """
    left = _keep_outside(branches, counters, root, operator, high, low, bound, True)
    right = _keep_outside(branches, counters, root, operator, high, low, bound, False)
    first = counters[r.BRANCHES]
    new_root = _merge(branches, counters, left, right, bound)
    for branch in range(counters[r.BRANCHES] - 1, first - 1, -1):
        _refresh(branches, branch)
    return new_root


@inner
def _keep_outside(branches, counters, root, operator, high, low, bound, to_left):
    """Return the tree of the values to the left (or right) of those that compare so with one."""
    first = counters[r.BRANCHES]
    new_root, parent = 0, 0
    at = root
    while at != 0:
        if not _lies_outside(branches[at], operator, high, low, to_left):
            at = branches[at]["left"] if to_left else branches[at]["right"]
            continue
        copy = _copy(branches, counters, at, bound)
        at = branches[copy]["right"] if to_left else branches[copy]["left"]
        _hang(branches, copy, to_left, 0)
        if parent == 0:
            new_root = copy
        else:
            _hang(branches, parent, to_left, copy)
        parent = copy
    for branch in range(counters[r.BRANCHES] - 1, first - 1, -1):
        _refresh(branches, branch)
    return new_root


@inner
def find_fitting(branches, root, operator, high, low):
    """Return the highest branch that compares so with a value, and is of its kind; 0: none does."""
    at = root
    while at != 0:
        if _lies_outside(branches[at], operator, high, low, False):
            at = branches[at]["left"]
        elif _lies_outside(branches[at], operator, high, low, True):
            at = branches[at]["right"]
        else:
            break
    return at


@inner
def room_to_pop(branches, root, operator, high, low):
    """Return the most branches that `pop` will make."""
    made, found = 0, find_fitting(branches, root, operator, high, low)
    at = root
    while at != found:
        made += 1
        outside = _lies_outside(branches[at], operator, high, low, False)
        at = branches[at]["left"] if outside else branches[at]["right"]
    return made + _room_to_merge(branches, branches[found]["left"], branches[found]["right"])


@inner
def _room_to_merge(branches, left, right):
    made = 0
    while left != 0:
        made += 1
        left = branches[left]["right"]
    while right != 0:
        made += 1
        right = branches[right]["left"]
    return made


@inner
def pop(branches, counters, root, operator, high, low, bound):
    """Return the tree without the branch that `find_fitting` finds; the tree before stays."""
    first, found = counters[r.BRANCHES], find_fitting(branches, root, operator, high, low)
    new_root, parent, to_right = 0, 0, False
    at = root
    while at != found:
        copy = _copy(branches, counters, at, bound)
        if parent == 0:
            new_root = copy
        else:
            _hang(branches, parent, to_right, copy)
        parent, to_right = copy, not _lies_outside(branches[at], operator, high, low, False)
        at = branches[at]["right"] if to_right else branches[at]["left"]
    left, right = branches[found]["left"], branches[found]["right"]
    merged = _merge(branches, counters, left, right, bound)
    if parent == 0:
        new_root = merged
    else:
        _hang(branches, parent, to_right, merged)
    for branch in range(counters[r.BRANCHES] - 1, first - 1, -1):
        _refresh(branches, branch)
    return new_root


EARLIEST = np.int64(2**62)
_TO_RANGE, _TO_LOWER_END, _TO_UPPER_END, _INSIDE = range(4)


@inner
def turn_start(position):
    """Return the start of a run in a tree that knows its earliest run: the later, the smaller."""
    return EARLIEST - position


@inner
def _search_early(branches, at, mode, operator, high, low, before, upwards):
    """Return (whether this branch is the run, whether the search goes on to the right, its mode).

    It looks for a run in range that came before a position: at the highest branch in range, then
    on one side of it, where a side that is wholly in range tells by its earliest run.
    """
    if mode == _INSIDE:
        left = branches[at]["left"]
        is_left = left != 0 and branches[left]["best"] > before
        return branches[at]["start"] > before, not is_left, _INSIDE
    if _lies_outside(branches[at], operator, high, low, False):
        return False, False, mode
    if _lies_outside(branches[at], operator, high, low, True):
        return False, True, mode
    found = branches[at]["start"] > before
    if mode == _TO_RANGE:
        return found, upwards, _TO_UPPER_END if upwards else _TO_LOWER_END
    inner_side = branches[at]["left"] if upwards else branches[at]["right"]
    if inner_side != 0 and branches[inner_side]["best"] > before:
        return found, not upwards, _INSIDE
    return found, upwards, mode


@inner
def find_early(branches, root, operator, high, low, position):
    """Return a branch in range whose run came before a position, 0: none, and on which side of the
    highest one in range it is; for trees with turned starts."""
    before = turn_start(position)
    for upwards in (False, True):
        at, mode = root, _TO_RANGE
        while at != 0 and branches[at]["best"] > before:
            is_found, to_right, mode = _search_early(
                branches, at, mode, operator, high, low, before, upwards
            )
            if is_found:
                return at, upwards
            at = branches[at]["right"] if to_right else branches[at]["left"]
    return 0, False


@inner
def room_to_pop_early(branches, root, operator, high, low, position):
    """Return the most branches that `pop_early` will make."""
    found, upwards = find_early(branches, root, operator, high, low, position)
    made, at, mode, before = 0, root, _TO_RANGE, turn_start(position)
    while at != found:
        made += 1
        _, to_right, mode = _search_early(branches, at, mode, operator, high, low, before, upwards)
        at = branches[at]["right"] if to_right else branches[at]["left"]
    return made + _room_to_merge(branches, branches[found]["left"], branches[found]["right"])


@inner
def pop_early(branches, counters, root, operator, high, low, position):
    """Return the tree without the branch that `find_early` finds; the tree before stays."""
    found, upwards = find_early(branches, root, operator, high, low, position)
    first, before = counters[r.BRANCHES], turn_start(position)
    new_root, parent, to_right, hangs_right, mode, at = 0, 0, False, False, _TO_RANGE, root
    while at != found:
        copy = _copy(branches, counters, at, r.NOTHING)
        if parent == 0:
            new_root = copy
        else:
            _hang(branches, parent, hangs_right, copy)
        _, to_right, mode = _search_early(branches, at, mode, operator, high, low, before, upwards)
        parent, hangs_right = copy, to_right
        at = branches[at]["right"] if to_right else branches[at]["left"]
    left, right = branches[found]["left"], branches[found]["right"]
    merged = _merge(branches, counters, left, right, r.NOTHING)
    if parent == 0:
        new_root = merged
    else:
        _hang(branches, parent, hangs_right, merged)
    for branch in range(counters[r.BRANCHES] - 1, first - 1, -1):
        _refresh(branches, branch)
    return new_root


@inner
def room_to_insert(branches, root, high, low):
    """Return the most branches that an insertion will make."""
    made = 1
    at = root
    while at != 0:
        made += 1
        if is_in_range(branches[at], r.LESS_EQUAL, high, low):
            at = branches[at]["right"]
        else:
            at = branches[at]["left"]
    return made


_WORD = np.uint64(0xFFFFFFFF)
_SPREAD = np.uint64(2654435761)
_STIR = np.uint64(0x45D9F3B)


@inner
def _priority(number):
    """Scramble a counter: the same stream makes the same tree."""
    x = (np.uint64(number) * _SPREAD) & _WORD
    x = ((x ^ (x >> np.uint64(16))) * _STIR) & _WORD
    return np.int64((x ^ (x >> np.uint64(13))) & np.uint64(0x7FFFFFFF))


@inner
def _copy(branches, counters, branch, bound):
    copy = counters[r.BRANCHES]
    counters[r.BRANCHES] = copy + 1
    branches[copy] = branches[branch]
    _drop_expired(branches, copy, bound)
    return copy


@inner
def _drop_expired(branches, branch, bound):
    """Leave the sides of a branch behind that have no run inside the window."""
    left, right = branches[branch]["left"], branches[branch]["right"]
    if left != 0 and branches[left]["best"] < bound:
        branches[branch]["left"] = 0
    if right != 0 and branches[right]["best"] < bound:
        branches[branch]["right"] = 0


@inner
def _hang(branches, parent, to_right, child):
    if to_right:
        branches[parent]["right"] = child
    else:
        branches[parent]["left"] = child


@inner
def _own(branches, counters, branch, bound, shared):
    """Return a branch that may change: a copy, or itself from the first one that is not shared."""
    if branch < shared:
        return _copy(branches, counters, branch, bound)
    _drop_expired(branches, branch, bound)
    return branch


@inner
def insert(branches, counters, root, run, bound, shared=ALL_SHARED):
    """Return the tree with one more run, -1 if it has no room; the tree before does not change.

    Branches from `shared` on are of no other version, and do change: they need room beforehand.
    """
    high, low, start = run.high, run.low, run.start
    begin, end = counters[r.BRANCHES], len(branches)
    if root != 0 and branches[root]["best"] < bound:
        root = 0
    priority = _priority(run.vertex)
    new_root, parent, to_right = 0, 0, False
    at = root
    while at != 0 and branches[at]["priority"] >= priority:
        if counters[r.BRANCHES] >= end:
            counters[r.BRANCHES] = begin
            return -1
        copy = _own(branches, counters, at, bound, shared)
        if start > branches[copy]["best"]:
            branches[copy]["best"] = start
        if parent == 0:
            new_root = copy
        else:
            _hang(branches, parent, to_right, copy)
        parent = copy
        to_right = is_in_range(branches[copy], r.LESS_EQUAL, high, low)
        at = branches[copy]["right"] if to_right else branches[copy]["left"]
    made = counters[r.BRANCHES]
    if made >= end:
        counters[r.BRANCHES] = begin
        return -1
    counters[r.BRANCHES] = made + 1
    branches[made]["high"] = high
    branches[made]["low"] = low
    branches[made]["start"] = start
    branches[made]["vertex"] = run.vertex
    branches[made]["left"] = 0
    branches[made]["right"] = 0
    branches[made]["priority"] = priority
    if parent == 0:
        new_root = made
    else:
        _hang(branches, parent, to_right, made)
    # split the old tree: smaller values to the left of the new branch, larger to its right
    first = counters[r.BRANCHES]
    smaller, larger = made, made
    while at != 0:
        if counters[r.BRANCHES] >= end:
            counters[r.BRANCHES] = begin
            return -1
        copy = _copy(branches, counters, at, bound)
        if at >= shared:  # nobody reads it any more, and what was below it changes
            branches[at]["best"] = branches[at]["start"]
            branches[at]["left"] = branches[at]["right"] = 0
        if is_in_range(branches[copy], r.LESS_EQUAL, high, low):
            _hang(branches, smaller, smaller != made, copy)
            smaller = copy
            at = branches[copy]["right"]
            branches[copy]["right"] = 0
        else:
            _hang(branches, larger, larger == made, copy)
            larger = copy
            at = branches[copy]["left"]
            branches[copy]["left"] = 0
    for branch in range(counters[r.BRANCHES] - 1, first - 1, -1):
        _refresh(branches, branch)
    _refresh(branches, made)
    return new_root


@inner
def _refresh(branches, branch):
    """Work out the latest start below a branch."""
    best = branches[branch]["start"]
    left, right = branches[branch]["left"], branches[branch]["right"]
    if left != 0 and branches[left]["best"] > best:
        best = branches[left]["best"]
    if right != 0 and branches[right]["best"] > best:
        best = branches[right]["best"]
    branches[branch]["best"] = best
