"""Entries of an index in the order of a value: a skew heap for each chain of a hash table.

With a condition like `?p2 < ?p1` between a row and a run, a row asks only for the entries below a
limit. A heap gives those in time linear in their number; inserting and removing an entry is
amortized O(log n). Links are those of `waiting`: an entry and one of its indexes as one number.

Turned down: a search tree, which keeps a total order that no row needs; a search in a heap ends at
the limit as well.
"""

from __future__ import annotations

from cernis.compiled import inner
from cernis.engine.linked.tables import MOST_INDEXES


@inner
def _key(waiting, name):
    return waiting.key[name // MOST_INDEXES, name % MOST_INDEXES]


@inner
def _set_up(waiting, name, above):
    if name != 0:
        waiting.asked_before[name // MOST_INDEXES, name % MOST_INDEXES] = above


@inner
def merge(waiting, one, other):
    """Merge two heaps; return the root, which has nothing above it."""
    if one == 0 or other == 0:
        root = one if other == 0 else other
        _set_up(waiting, root, 0)
        return root
    if _key(waiting, other) < _key(waiting, one):
        one, other = other, one
    root = one
    _set_up(waiting, root, 0)
    while True:
        entry, slot = one // MOST_INDEXES, one % MOST_INDEXES
        below = waiting.asked_right[entry, slot]
        waiting.asked_right[entry, slot] = waiting.asked_after[entry, slot]
        if below == 0:
            waiting.asked_after[entry, slot] = other
            _set_up(waiting, other, one)
            return root
        if _key(waiting, other) < _key(waiting, below):
            below, other = other, below
        waiting.asked_after[entry, slot] = below
        _set_up(waiting, below, one)
        one = below


@inner
def insert(waiting, at, name):
    """Put an entry into the heap of a chain."""
    entry, slot = name // MOST_INDEXES, name % MOST_INDEXES
    waiting.asked_after[entry, slot] = 0
    waiting.asked_right[entry, slot] = 0
    waiting.heaps[at] = merge(waiting, waiting.heaps[at], name)


@inner
def remove(waiting, at, name):
    """Take an entry out of the heap of a chain."""
    entry, slot = name // MOST_INDEXES, name % MOST_INDEXES
    above = waiting.asked_before[entry, slot]
    left, right = waiting.asked_after[entry, slot], waiting.asked_right[entry, slot]
    below = merge(waiting, left, right)
    if above == 0:
        waiting.heaps[at] = below
        return
    _set_up(waiting, below, above)
    entry, slot = above // MOST_INDEXES, above % MOST_INDEXES
    if waiting.asked_after[entry, slot] == name:
        waiting.asked_after[entry, slot] = below
    else:
        waiting.asked_right[entry, slot] = below


@inner
def list_up_to(waiting, at, limit, found):
    """Write the entries of a heap whose keys are not above the limit; return their number."""
    root = waiting.heaps[at]
    if root == 0 or _key(waiting, root) > limit:
        return 0
    found[0] = root
    number, done = 1, 0
    while done < number:
        name = found[done]
        done += 1
        entry, slot = name // MOST_INDEXES, name % MOST_INDEXES
        for below in (waiting.asked_after[entry, slot], waiting.asked_right[entry, slot]):
            if below != 0 and _key(waiting, below) <= limit:
                found[number] = below
                number += 1
    return number
