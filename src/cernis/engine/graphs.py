"""Graph patterns over many small graphs at once: search, join, filter, distinct.

A *graph* is a slice of triples; events are such slices one after the other, and a background graph
is one slice with a million triples. Triples are kept in one or more sort orders. A basic graph
pattern is a `Search`: one level for each of its triples, which knows how many leading keys of its
sort order are known when it is reached, so that the others are found by binary search (or by
looking, where there are few), and the rest is bound or compared. Filters stand at the level
that binds the last of their variables. The rest of the algebra is bottom-up, as SPARQL defines
it: tables of codes in order of event, -1 where unbound, joined within each event by a hash of
the columns that both sides always bind.

Cost: a search takes time linear in the candidates it looks at, some nanoseconds each; a join in
rows in and pairs that agree on the hashed columns. Kernels fill what room they are given and
answer FULL when it is used up; called again with more, they go on.

Turned down: joins of one triple after the other over whole columns, which makes a table of
everything that matches half of the pattern; and worst-case optimal joins, which pay where a
graph is large and the pattern a cycle, and events are small.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import borrowing, kernel
from cernis.engine.expressions import TRUE, UNBOUND, Values, holds

DONE, FULL, SPENT = range(3)
"""What kernels answer: all rows are there; no room; more looked at than allowed."""
NEXT, ROWS, LOOKED, ALLOWED = range(4)
"""Places in a kernel's state: where to go on, rows written, candidates looked at, and how many
may be."""

_FEW = 16

Codes = NDArray[np.int32]
Int64s = NDArray[np.int64]


class Graph(NamedTuple):
    """Triples of many graphs, in one or more sort orders."""

    first: Int64s
    """Graph k has the triples first[k] to first[k + 1]."""
    one: Codes
    two: Codes
    three: Codes
    """Per sort order, the keys by which triples are sorted first, second, third."""


class Search(NamedTuple):
    """A basic graph pattern, level by level. Constants are columns of the row as well."""

    row: Codes
    """Codes of the constants, -1 for variables."""
    order: Codes
    """Per level, the sort order."""
    columns: Codes
    """Per level and key, the column of the row."""
    searched: Codes
    """Per level, how many leading keys are known."""
    binds: NDArray[np.bool_]
    """Per level and key behind those, whether it is bound there, or compared."""
    filters: Codes
    """Where the filters of each level begin, among all filters."""
    begins: Codes
    """Where each filter begins, among all steps."""
    steps: Codes
    shown: Codes
    """The columns that are given."""
    back: int
    """The last level that binds a column that is given; -1 if there is none."""


class Join(NamedTuple):
    """How two tables are joined."""

    left_keys: Codes
    right_keys: Codes
    """Shared columns that both sides always bind."""
    left_loose: Codes
    right_loose: Codes
    """Shared columns that may be unbound."""
    from_left: Codes
    from_right: Codes
    """Per column of the result, where it comes from; -1: not from there."""
    steps: Codes
    """A condition on the result; no steps: none."""
    is_optional: bool
    """Rows of the left that find nothing are kept."""


# -------------------------------------------------------------------- search


@borrowing
def _lower(keys, value, low, high):
    """The first place at which the key is not less."""
    while high - low > _FEW:
        middle = (low + high) // 2
        if keys[middle] < value:
            low = middle + 1
        else:
            high = middle
    while low < high and keys[low] < value:
        low += 1
    return low


@borrowing
def _narrow(keys, value, low, high):
    """The part of a sorted slice that has this key."""
    low = _lower(keys, value, low, high)
    if low + _FEW < high and keys[low + _FEW] == value:
        return low, _lower(keys, value + 1, low + _FEW, high)
    end = low
    while end < high and keys[end] == value:
        end += 1
    return low, end


@borrowing
def _candidates(search, graph, level, row, low, high):
    """The triples of a graph that agree with what is known at a level."""
    order, searched = search.order[level], search.searched[level]
    if searched > 0:
        low, high = _narrow(graph.one[order], row[search.columns[level, 0]], low, high)
    if searched > 1:
        low, high = _narrow(graph.two[order], row[search.columns[level, 1]], low, high)
    if searched > 2:
        low, high = _narrow(graph.three[order], row[search.columns[level, 2]], low, high)
    return low, high


@borrowing
def _fits(search, graph, level, row, triple):
    """Binds the keys of a triple that are free, and compares the others."""
    order = search.order[level]
    for key in range(search.searched[level], 3):
        if key == 0:
            code = graph.one[order, triple]
        elif key == 1:
            code = graph.two[order, triple]
        else:
            code = graph.three[order, triple]
        column = search.columns[level, key]
        if search.binds[level, key]:
            row[column] = code
        elif row[column] != code:
            return False
    return True


@borrowing
def _passes(search, level, values, row, stack):
    for f in range(search.filters[level], search.filters[level + 1]):
        steps = search.steps[search.begins[f] : search.begins[f + 1]]
        if holds(steps, values, row, row, stack) != TRUE:
            return False
    return True


@borrowing
def find(
    search: Search,
    graph: Graph,
    values: Values,
    events: Codes,
    row: Codes,
    at: Int64s,
    end: Int64s,
    stack: NDArray[np.void],
    out_event: Codes,
    out_codes: Codes,
    state: Int64s,
) -> int:
    """The solutions of a basic graph pattern in some events."""
    last = len(search.order) - 1
    rows, looked = state[ROWS], state[LOOKED]
    for k in range(state[NEXT], len(events)):
        event = events[k]
        begun = rows
        low, high = graph.first[event], graph.first[event + 1]
        at[0], end[0] = _candidates(search, graph, 0, row, low, high)
        level = 0
        while level >= 0:
            triple = at[level]
            if triple == end[level]:
                level -= 1
                continue
            at[level] = triple + 1
            looked += 1
            if looked > state[ALLOWED]:
                return SPENT
            if not _fits(search, graph, level, row, triple):
                continue
            if not _passes(search, level, values, row, stack):
                continue
            if level < last:
                level += 1
                at[level], end[level] = _candidates(search, graph, level, row, low, high)
                continue
            if rows == len(out_event):
                state[NEXT], state[ROWS] = k, begun
                return FULL
            out_event[rows] = event
            for c in range(len(search.shown)):
                out_codes[rows, c] = row[search.shown[c]]
            rows += 1
            level = search.back
    state[NEXT], state[ROWS], state[LOOKED] = len(events), rows, looked
    return DONE


# ------------------------------------------------------------------- hashing

_SPREAD = np.uint64(0x9E3779B97F4A7C15)


@borrowing
def _hash(codes, row, columns):
    found = np.uint64(0)
    for c in columns:
        found = (found ^ np.uint64(codes[row, c] + 2)) * _SPREAD
        found ^= found >> np.uint64(32)
    return np.int64(found >> np.uint64(1))


@borrowing
def _size(rows):
    """How many slots so many rows get."""
    size = 1
    while size < rows:
        size *= 2
    return size


@borrowing
def fill_index(
    codes: Codes, columns: Codes, first: int, last: int, heads: Codes, chain: Codes
) -> int:
    """Files the rows from first to last by their columns; how many slots are used.

    heads: the first row of a slot; chain, counted from `first`: the next row of the same slot.
    """
    size: int = _size(last - first)
    for slot in range(size):
        heads[slot] = UNBOUND
    for row in range(last - 1, first - 1, -1):
        slot = _hash(codes, row, columns) & (size - 1)
        chain[row - first] = heads[slot]
        heads[slot] = row
    return size


@borrowing
def _agree(left, i, right, j, join):
    for c in range(len(join.left_keys)):
        if left[i, join.left_keys[c]] != right[j, join.right_keys[c]]:
            return False
    for c in range(len(join.left_loose)):
        x, y = left[i, join.left_loose[c]], right[j, join.right_loose[c]]
        if x != y and x >= 0 and y >= 0:
            return False
    return True


@borrowing
def _merge(left, i, right, j, join, row):
    """Writes both rows as one; j < 0: the left row alone."""
    for c in range(len(join.from_left)):
        code = UNBOUND
        if join.from_left[c] >= 0:
            code = left[i, join.from_left[c]]
        if code < 0 and j >= 0 and join.from_right[c] >= 0:
            code = right[j, join.from_right[c]]
        row[c] = code


@borrowing
def join_tables(
    join: Join,
    left_event: Codes,
    left: Codes,
    right_event: Codes,
    right: Codes,
    heads: Codes,
    chain: Codes,
    everywhere: bool,
    values: Values,
    stack: NDArray[np.void],
    row: Codes,
    out_event: Codes,
    out_codes: Codes,
    state: Int64s,
) -> int:
    """Joins two tables event by event, or each row with a table that holds `everywhere`.

    In the second case the index is filled already; in the first it has room for the largest event.
    """
    rows = state[ROWS]
    indexed, first, last = np.int64(UNBOUND), 0, 0
    size = _size(len(right)) if everywhere else 0
    for i in range(state[NEXT], len(left)):
        begun = rows
        event = left_event[i]
        if not everywhere and event != indexed:
            first = _lower(right_event, event, last, len(right_event))
            last = first
            while last < len(right_event) and right_event[last] == event:
                last += 1
            size = fill_index(right, join.right_keys, first, last, heads, chain)
            indexed = event
        j = heads[_hash(left, i, join.left_keys) & (size - 1)] if size > 0 else UNBOUND
        found = False
        while j >= 0 or (join.is_optional and not found):
            alone = j < 0
            fits = alone
            if not alone and _agree(left, i, right, j, join):
                _merge(left, i, right, j, join, row)
                fits = len(join.steps) == 0 or holds(join.steps, values, row, row, stack) == TRUE
            elif alone:
                _merge(left, i, right, UNBOUND, join, row)
            if fits:
                if rows == len(out_event):
                    state[NEXT], state[ROWS] = i, begun
                    return FULL
                out_event[rows] = event
                for c in range(len(row)):
                    out_codes[rows, c] = row[c]
                rows += 1
                found = True
            if not alone:
                j = chain[j - first]
    state[NEXT], state[ROWS] = len(left), rows
    return DONE


# ------------------------------------------------------------------ distinct


@borrowing
def _same_row(codes, i, j):
    c = 0
    while c < codes.shape[1] and codes[i, c] == codes[j, c]:
        c += 1
    return c == codes.shape[1]


@kernel
def largest_event(event: Codes) -> int:
    """How many rows the event with the most rows has."""
    largest, run = 0, 0
    for k in range(len(event)):
        run = run + 1 if k > 0 and event[k] == event[k - 1] else 1
        largest = max(largest, run)
    return largest


@borrowing
def mark_distinct(
    event: Codes,
    codes: Codes,
    columns: Codes,
    heads: Codes,
    chain: Codes,
    mask: NDArray[np.bool_],
) -> None:
    """For each row, whether it is the first of its kind in its event."""
    first = 0
    while first < len(event):
        last = first + 1
        while last < len(event) and event[last] == event[first]:
            last += 1
        mask[first] = True
        if last - first > 1:
            size = _size(last - first)
            for slot in range(size):
                heads[slot] = UNBOUND
            for row in range(first, last):
                slot = _hash(codes, row, columns) & (size - 1)
                other = heads[slot]
                while other >= 0 and not _same_row(codes, row, other):
                    other = chain[other - first]
                mask[row] = other < 0
                if other < 0:
                    chain[row - first] = heads[slot]
                    heads[slot] = row
        first = last
