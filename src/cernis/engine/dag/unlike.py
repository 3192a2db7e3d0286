"""The ED-index of the ICDT 2020 paper (Section 6): runs whose values all differ from those asked.

A bucket is a list of entries, latest first; each carries d values. Asked for a tuple r,
the entries that are *totally different* from r must be found without looking at the
others. For every sequence ā = a₁…aₘ of distinct attributes an entry s keeps a back
pointer s[ā]: the last entry before s whose a₁ differs from s.a₁, whose a₂ differs from
s[a₁].a₂, and so on. If s agrees with r in a₁, s[a₁] is the first candidate before it;
if that agrees in a₂, s[a₁a₂] is; after at most d steps there is an answer. Insertion
uses the same search, so both are O(d · d!) with at most 15 pointers for d = 3.

A missing value (code -1) differs from everything. Lists only grow at the head, so an
entry is its own version. With a window (the paper has none) `best` is the latest start
among an entry and all before it: a search ends where nothing before can be inside.
"""

from __future__ import annotations

from itertools import permutations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import inner
from cernis.engine.dag.records import ENTRIES

MOST_VALUES = 3


def sequences(width: int) -> NDArray[np.int32]:
    """Number the sequences of distinct attributes: [s, a] is sequence s followed by a, or -1.

    Sequence 0 is the empty one; shorter ones come first.

    >>> sequences(2).tolist()
    [[1, 2], [-1, 3], [4, -1], [-1, -1], [-1, -1]]
    """
    known = [s for m in range(width + 1) for s in permutations(range(width), m)]
    number = {s: i for i, s in enumerate(known)}
    return np.array(
        [[number.get((*s, a), -1) for a in range(width)] for s in known], np.int32
    ).reshape(len(known), width)


class Lists(NamedTuple):
    """The entries of all lists, their values, and their back pointers by sequence."""

    entries: NDArray[np.void]
    values: NDArray[np.int64]
    back: NDArray[np.int32]
    steps: NDArray[np.int32]


@inner
def _is_same(left, right):
    return left == right and left >= 0


@inner
def first_different(lists, entry, asked, width):
    """Return the latest entry, from `entry` on backwards, totally different from `asked`; or 0."""
    steps = lists.steps
    at = entry
    sequence = 0
    while at != 0:
        clash = -1
        for a in range(width):
            if steps[sequence, a] >= 0 and _is_same(lists.values[at, a], asked[a]):
                clash = a
                break
        if clash < 0:
            return at
        sequence = steps[sequence, clash]
        at = lists.back[entry, sequence]
    return 0


@inner
def next_live(lists, entry, asked, width, bound):
    """Like `first_different`, among entries that start inside the window."""
    entries = lists.entries
    while entry != 0 and entries[entry]["best"] >= bound:
        entry = first_different(lists, entry, asked, width)
        if entry == 0 or entries[entry]["start"] >= bound:
            return entry
        entry = entries[entry]["before"]
    return 0


@inner
def next_of_source(links, memory, source, entry, bound):
    """Like `next_live`, for the values that a source has asked for."""
    lists = Lists(memory.entries, memory.values, memory.back, links.steps)
    asked = memory.asked[memory.sources[source]["asked"]]
    width = links.width[links.store[memory.sources[source]["link"]]]
    return next_live(lists, entry, asked, width, bound)


@inner
def point_back(lists, entry, before, asked, width):
    """Fill the back pointers of a new entry; `asked` is scratch."""
    steps, back = lists.steps, lists.back
    for sequence in range(1, steps.shape[0]):
        back[entry, sequence] = 0
    for sequence in range(steps.shape[0]):
        reached = entry if sequence == 0 else back[entry, sequence]
        if reached == 0:
            continue
        for a in range(width):
            longer = steps[sequence, a]
            if longer < 0:
                continue
            for other in range(width):
                asked[other] = -1
            _ask_along(lists, entry, longer, asked, width)
            back[entry, longer] = first_different(lists, before, asked, width)


@inner
def _ask_along(lists, entry, sequence, asked, width):
    """Set asked[aₗ] to the value of entry[a₁…aₗ₋₁] in aₗ, for each aₗ of the sequence."""
    while sequence != 0:
        for shorter in range(sequence):
            a = -1
            for b in range(width):
                if lists.steps[shorter, b] == sequence:
                    a = b
            if a >= 0:
                reached = entry if shorter == 0 else lists.back[entry, shorter]
                asked[a] = lists.values[reached, a]
                sequence = shorter
                break


@inner
def insert(lists, counters, before, vertex, start, bound, asked, width):
    """Add an entry whose values are in `values` already; return it."""
    entries = lists.entries
    entry = counters[ENTRIES]
    counters[ENTRIES] = entry + 1
    if before != 0 and entries[before]["best"] < bound:
        before = 0
    entries[entry]["start"] = start
    entries[entry]["best"] = max(start, entries[before]["best"]) if before != 0 else start
    entries[entry]["vertex"] = vertex
    entries[entry]["before"] = before
    point_back(lists, entry, before, asked, width)
    return entry
