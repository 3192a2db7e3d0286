"""Graph patterns over many small graphs at once: search, join, filter, distinct.

A *graph* is a slice of triples; events are such slices one after the other, and a background graph
is one slice with a million triples. Triples are kept in one or more sort orders. A basic graph
pattern is a `Search`: one level for each of its triples. A level finds its candidates by binary
search for the known leading keys of its sort order (or by a scan, where there are few), and binds
or compares the other keys. A filter belongs to the level that binds the last of its variables; the
answer of a filter on a single variable is cached per term. The rest of the algebra is bottom-up, as
SPARQL defines it: tables of codes in order of event, -1 where unbound, joined within each event by
a hash of the columns that both sides always bind.

Cost: a search takes time linear in the candidates it looks at, some nanoseconds each; a join in
rows in and pairs that agree on the hashed columns. Kernels fill the arrays they get and
answer FULL when these are too small; called again with larger ones, they go on.

Turned down: joins of one triple after the other over whole columns, which materialize every match
of half a pattern; and worst-case optimal joins, which pay for cyclic patterns in large graphs, and
events are small.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import borrowing, inner, kernel
from cernis.engine.graphs.expressions import TRUE, UNBOUND, Values, holds

DONE, FULL, SPENT = range(3)
"""Answers of kernels: all rows are written; no room; too many candidates."""
NEXT, ROWS, LOOKED, ALLOWED = range(4)
"""Indices in a kernel's state: where to go on, rows written, candidates looked at, and their
limit."""

_FEW = 16

Codes = NDArray[np.int32]
Int64s = NDArray[np.int64]


class Graph(NamedTuple):
    """Triples of many graphs, in one or more sort orders, one order after the other."""

    first: Int64s
    """Graph k has the triples first[k] to first[k + 1] of each order."""
    one: Codes
    two: Codes
    three: Codes
    """The keys by which triples are sorted first, second, third."""
    size: int
    """How many triples an order has."""


ORDER, SEARCHED, BINDS, COLUMNS = range(4)
"""Indices in a level: its sort order; how many leading keys are known; which of the other keys are
bound, as bits (the rest is compared); and from there on the columns of the three keys."""


class Search(NamedTuple):
    """A basic graph pattern, level by level. Constants are columns of the row as well."""

    row: Codes
    """Codes of the constants, -1 for variables."""
    levels: Int64s
    """Per triple of the pattern, how it is found: see `ORDER`."""
    filters: Codes
    """Where the filters of each level begin, among all filters."""
    begins: Codes
    """Where each filter begins, among all steps."""
    steps: Codes
    single: Codes
    """Per filter, the one column it asks about, or -1 if there are more."""
    shown: Codes
    """The columns that are given."""
    back: int
    """The last level that binds a column that is given; -1 if there is none."""


class Scratch(NamedTuple):
    """Room for the row, the candidates of each level, and the answers of filters."""

    row: Codes
    at: Int64s
    end: Int64s
    choice: Int64s
    answers: NDArray[np.int8]
    """Per filter on a single column and code, its answer; UNASKED if it has none yet."""
    stack: NDArray[np.void]


UNASKED = 3


class EventTable(NamedTuple):
    """Rows of codes in order of event."""

    event: Codes
    codes: Codes


class HashIndex(NamedTuple):
    """Rows by a hash of their keys."""

    heads: Codes
    """Per slot, its first row."""
    chain: Codes
    """Per row, the next one of its slot."""
    is_full: bool
    """Whether it holds all rows of a table, and not only those of one event."""


class JoinScratch(NamedTuple):
    """Room for one row of the result, and for its condition."""

    row: Codes
    stack: NDArray[np.void]


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


@inner
def _lower(keys, value, low, high):
    """Return the first index at which the key is not less."""
    while high - low > _FEW:
        middle = (low + high) // 2
        if keys[np.uint64(middle)] < value:
            low = middle + 1
        else:
            high = middle
    while low < high and keys[np.uint64(low)] < value:
        low += 1
    return low


@inner
def _narrow(keys, value, low, high):
    """Return the part of a sorted slice that has this key."""
    low = _lower(keys, value, low, high)
    if low + _FEW < high and keys[np.uint64(low + _FEW)] == value:
        return low, _lower(keys, value + 1, low + _FEW, high)
    end = low
    while end < high and keys[np.uint64(end)] == value:
        end += 1
    return low, end


@inner
def _candidates(graph, levels, level, row, low, high):
    """Return the slice of triples that have the known keys of a level."""
    shift, searched = levels[level, ORDER] * graph.size, levels[level, SEARCHED]
    low, high = low + shift, high + shift
    if searched > 0:
        low, high = _narrow(graph.one, row[levels[level, COLUMNS]], low, high)
    if searched > 1:
        low, high = _narrow(graph.two, row[levels[level, COLUMNS + 1]], low, high)
    if searched > 2:
        low, high = _narrow(graph.three, row[levels[level, COLUMNS + 2]], low, high)
    return low, high


@inner
def _fits(graph, levels, level, row, triple):
    """Bind the free keys of a triple and compare the others; return whether those agree."""
    searched, binds = levels[level, SEARCHED], levels[level, BINDS]
    if searched < 1:
        code, column = graph.one[np.uint64(triple)], levels[level, COLUMNS]
        if binds & 1:
            row[column] = code
        elif row[column] != code:
            return False
    if searched < 2:
        code, column = graph.two[np.uint64(triple)], levels[level, COLUMNS + 1]
        if binds & 2:
            row[column] = code
        elif row[column] != code:
            return False
    if searched < 3:
        code, column = graph.three[np.uint64(triple)], levels[level, COLUMNS + 2]
        if binds & 4:
            row[column] = code
        elif row[column] != code:
            return False
    return True


@inner
def _passes(search, level, values, row, answers, stack):
    for f in range(search.filters[level], search.filters[level + np.uint64(1)]):
        column = search.single[f]
        answer = np.int64(UNASKED)
        if column >= 0:
            answer = np.int64(answers[f, row[column]])
        if answer == UNASKED:
            steps = search.steps[search.begins[f] : search.begins[f + 1]]
            answer = np.int64(holds(steps, values, row, row, stack))
            if column >= 0:
                answers[f, row[column]] = answer
        if answer != TRUE:
            return False
    return True


@borrowing
def find(
    search: Search,
    graph: Graph,
    values: Values,
    events: Codes,
    scratch: Scratch,
    out_event: Codes,
    out_codes: Codes,
    state: Int64s,
) -> int:
    """Write the solutions of a basic graph pattern in some events.

    `choice[level + 1]` is the deepest level, this one or above, that has candidates left.
    """
    levels, shown = search.levels, search.shown
    row, at, end, choice = scratch.row, scratch.at, scratch.end, scratch.choice
    last = len(levels) - 1
    rows, looked, allowed = state[ROWS], state[LOOKED], state[ALLOWED]
    choice[0] = -1
    for k in range(state[NEXT], len(events)):
        event = events[k]
        begun = rows
        low, high = graph.first[event], graph.first[event + 1]
        level, arrived = 0, True
        while level >= 0:
            here = np.uint64(level)
            if arrived:
                triple, stop = _candidates(graph, levels, here, row, low, high)
                end[here] = stop
                if triple == stop:
                    level, arrived = choice[here], False
                    continue
            else:
                triple, stop = at[here], end[here]
            at[here] = triple + 1
            choice[here + np.uint64(1)] = level if triple + 1 < stop else choice[here]
            looked += 1
            if looked > allowed:
                return SPENT
            arrived = False
            if not _fits(graph, levels, here, row, triple) or not _passes(
                search, here, values, row, scratch.answers, scratch.stack
            ):
                level = choice[here + np.uint64(1)]
            elif level < last:
                level, arrived = level + 1, True
            else:
                if rows == len(out_event):
                    state[NEXT], state[ROWS] = k, begun
                    return FULL
                out_event[rows] = event
                for c in range(len(shown)):
                    out_codes[rows, c] = row[shown[c]]
                rows += 1
                level = choice[search.back + 1]
    state[NEXT], state[ROWS], state[LOOKED] = len(events), rows, looked
    return DONE


# ------------------------------------------------------------------- hashing

_SPREAD = np.uint64(0x9E3779B97F4A7C15)


@inner
def _hash(codes, row, columns):
    found = np.uint64(0)
    for c in columns:
        found = (found ^ np.uint64(codes[row, c] + 2)) * _SPREAD
        found ^= found >> np.uint64(32)
    return np.int64(found >> np.uint64(1))


@inner
def _size(rows):
    """Return the number of slots for so many rows."""
    size = 1
    while size < rows:
        size *= 2
    return size


@borrowing
def fill_index(
    codes: Codes, columns: Codes, first: int, last: int, heads: Codes, chain: Codes
) -> int:
    """File the rows from first to last by their columns; return the number of slots.

    `heads` has the first row of a slot; `chain`, counted from `first`, the next row of its slot.
    """
    size: int = _size(last - first)
    for slot in range(size):
        heads[slot] = UNBOUND
    for row in range(last - 1, first - 1, -1):
        slot = _hash(codes, row, columns) & (size - 1)
        chain[row - first] = heads[slot]
        heads[slot] = row
    return size


@inner
def _agree(left, i, right, j, join):
    for c in range(len(join.left_keys)):
        if left[i, join.left_keys[c]] != right[j, join.right_keys[c]]:
            return False
    for c in range(len(join.left_loose)):
        x, y = left[i, join.left_loose[c]], right[j, join.right_loose[c]]
        if x != y and x >= 0 and y >= 0:
            return False
    return True


@inner
def _merge(left, i, right, j, join, row):
    """Write both rows as one; j < 0: the left row alone."""
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
    left: EventTable,
    right: EventTable,
    index: HashIndex,
    values: Values,
    scratch: JoinScratch,
    out: EventTable,
    state: Int64s,
) -> int:
    """Join two tables event by event, or each row of the left with all rows of the right.

    In the second case the index is full already; in the first it has room for the largest event.
    """
    rows = state[ROWS]
    indexed, first, last = np.int64(UNBOUND), 0, 0
    heads, chain, row = index.heads, index.chain, scratch.row
    size = _size(len(right.codes)) if index.is_full else 0
    for i in range(state[NEXT], len(left.codes)):
        begun = rows
        event = left.event[i]
        if not index.is_full and event != indexed:
            first = _lower(right.event, event, last, len(right.event))
            last = first
            while last < len(right.event) and right.event[last] == event:
                last += 1
            size = fill_index(right.codes, join.right_keys, first, last, heads, chain)
            indexed = event
        j = heads[_hash(left.codes, i, join.left_keys) & (size - 1)] if size > 0 else UNBOUND
        found = False
        while j >= 0 or (join.is_optional and not found):
            alone = j < 0
            fits = alone
            if not alone and _agree(left.codes, i, right.codes, j, join):
                _merge(left.codes, i, right.codes, j, join, row)
                fits = (
                    len(join.steps) == 0
                    or holds(join.steps, values, row, row, scratch.stack) == TRUE
                )
            elif alone:
                _merge(left.codes, i, right.codes, UNBOUND, join, row)
            if fits:
                if rows == len(out.event):
                    state[NEXT], state[ROWS] = i, begun
                    return FULL
                out.event[rows] = event
                for c in range(len(row)):
                    out.codes[rows, c] = row[c]
                rows += 1
                found = True
            if not alone:
                j = chain[j - first]
    state[NEXT], state[ROWS] = len(left.codes), rows
    return DONE


# ------------------------------------------------------------------ distinct


@inner
def _same_row(codes, i, j):
    c = 0
    while c < codes.shape[1] and codes[i, c] == codes[j, c]:
        c += 1
    return c == codes.shape[1]


@kernel
def largest_event(event: Codes) -> int:
    """Return the number of rows of the event that has the most."""
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
    """Mark each row that is the first of its kind in its event."""
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
