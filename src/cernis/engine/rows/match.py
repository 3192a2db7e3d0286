"""`match_rows`: the preferred match at each row, in two passes, without backtracking.

The first pass goes backward over a partition and finds, for each row and state, the *earliest* row
before which the pattern can be completed from there. The second walks forward from a row and takes
at each state the first edge, in the order of preference, from which the pattern can be completed
before the limit of the match. So it never has to come back (Frisch and Cardelli's greedy matching,
with the earliest end instead of a yes or no: the same pass then serves WITHIN, whose limit
differs from row to row).

Cost contract: O(rows · edges) for the first pass, O(length of a match · edges of a state) for each
match; four bytes for each row of the longest partition and each state. A backtracking matcher, or
a list of threads for each start, costs the square of a partition for `A+ B`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cernis.automata.rows.construct import AT_END, AT_START
from cernis.compiled import kernel
from cernis.engine.rows.tables import (
    BEGUN,
    BUDGET,
    FIRST_ROW,
    FOUND,
    NO_MATCH,
    NO_TARGET,
    OPEN,
    UNDECIDED,
    FoundRows,
    Numbers,
    PartitionedRows,
    RowTables,
    Skipping,
)
from cernis.languages.sql.row_pattern import SkipMode

NEVER = np.iinfo(np.int32).max
_ENDLESS = np.iinfo(np.int64).max
_WASTE = 4
"""How many rows, for each row, matches may have that begin after a row of which it is not known
whether the search comes there."""
_PAST, _NEXT, _FIRST = (mode.value for mode in list(SkipMode)[:3])


def match_rows(tables: RowTables, rows: PartitionedRows, skipping: Skipping) -> FoundRows:
    """Return the matches of all partitions."""
    longest = int(np.diff(rows.bounds).max(initial=0))
    earliest = np.empty((longest + 1, len(tables.first) - 1), np.int32)
    stops = rows.bounds[1:].copy()
    found = _match_partitions(tables, rows, skipping, earliest, stops)
    starts, lengths, labels, nexts, status = found
    return FoundRows(starts, lengths, labels, nexts, stops, int(status))


def find_limits(bounds: Numbers, times: NDArray[np.float64], ends: NDArray[np.float64]) -> Numbers:
    """Return, for each row, the first row of its partition that is not before its end."""
    return np.asarray(_find_limits(bounds, times, ends))


def choose_matches(starts: Numbers, nexts: Numbers, entry: int) -> tuple[Numbers, int]:
    """Return which matches a search finds that begins at a row, and where it goes on.

    The matches are sorted by their first rows. Negative: why the search cannot go on.
    """
    chosen, at = _choose_matches(starts, nexts, entry)
    return chosen, int(at)


@kernel
def _choose_matches(starts, nexts, entry):
    chosen = np.empty(len(starts), np.int64)
    number = 0
    at = np.int64(entry)
    for match in range(len(starts)):
        if starts[match] >= at:
            chosen[number] = match
            number += 1
            at = nexts[match]
            if at < 0:
                break
    return chosen[:number], at


@kernel
def _match_partitions(tables, rows, skipping, earliest, stops):
    starts = np.empty(1024, np.int64)
    lengths = np.empty(1024, np.int64)
    nexts = np.empty(1024, np.int64)
    labels = np.empty(1024, np.int64)
    tried = np.zeros(len(earliest), np.bool_)
    found = 0
    used = 0
    for part in range(len(rows.bounds) - 1):
        begin, end = rows.bounds[part], rows.bounds[part + 1]
        flags = rows.flags[part]
        find_earliest(tables, rows.holds, (begin, end, flags), earliest)
        tried[: end - begin] = False
        entry = at = rows.firsts[part]
        most = _ENDLESS
        while True:
            if at >= rows.untils[part] or tried[at - begin]:
                if entry == rows.lasts[part]:
                    break
                most = min(most, used + _WASTE * (end - begin))
                entry += 1
                at = entry
                continue
            if used > most:
                return starts[:found], lengths[:found], labels[:used], nexts[:found], BUDGET
            tried[at - begin] = True
            if found == len(starts):
                starts, lengths, nexts = grow(starts), grow(lengths), grow(nexts)
            starts[found] = at
            lengths[found] = NO_MATCH
            nexts[found] = at + 1
            limit = rows.limits[at]
            if earliest[at - begin, 0] > limit - begin:
                found += 1
                at += 1
                continue
            state, row, first = 0, at, used
            while True:
                position = (begin, end, row, limit, flags)
                edge = choose_edge(tables, rows.holds, position, state, earliest)
                if edge < 0 or tables.variable[edge] < 0:
                    break
                if used == len(labels):
                    labels = grow(labels)
                labels[used] = 2 * tables.variable[edge] + tables.excluded[edge]
                used += 1
                row += 1
                state = tables.target[edge]
            if edge < 0:
                lengths[found] = UNDECIDED
                found += 1
                used = first
                break
            lengths[found] = row - at
            found += 1
            following = skip_match(at, labels[first:used], skipping)
            nexts[found - 1] = following
            if following < 0 and rows.firsts[part] == rows.lasts[part]:
                return starts[:found], lengths[:found], labels[:used], nexts[:found], -following
            at = following if following >= 0 else rows.untils[part]
        stops[part] = at
    return starts[:found], lengths[:found], labels[:used], nexts[:found], FOUND


@kernel
def find_earliest(tables, holds, partition, earliest):
    """Fill, for each row of a partition and each state, where the pattern ends first.

    After the last row of an open partition, a state that can read a row may end one row later.
    """
    begin, end, flags = partition
    states = len(tables.first) - 1
    for index in range(end - begin, -1, -1):
        row = begin + index
        here = find_anchors((begin, end, row, end, flags))
        is_open = row == end and flags & OPEN
        for state in range(states):
            best = NEVER
            for edge in range(tables.first[state], tables.first[state + 1]):
                missing = tables.anchors[edge] & ~here
                if is_open and missing & ~AT_END == 0 and (missing or tables.variable[edge] >= 0):
                    best = min(best, index + 1)
                if missing:
                    continue
                variable = tables.variable[edge]
                if variable < 0:
                    best = index
                    break
                if row < end and holds[row, variable]:
                    later = earliest[index + 1, tables.target[edge]]
                    best = min(best, later)
            earliest[index, state] = best


@kernel
def choose_edge(tables, holds, position, state, earliest):
    """Return the first edge from which the pattern can be completed before the limit.

    Negative: rows to come decide.
    """
    begin, end, row, limit, flags = position
    here = find_anchors(position)
    is_open = row == end and flags & OPEN and limit > end
    for edge in range(tables.first[state], tables.first[state + 1]):
        missing = tables.anchors[edge] & ~here
        if is_open and missing & ~AT_END == 0 and (missing or tables.variable[edge] >= 0):
            return -1
        if missing:
            continue
        variable = tables.variable[edge]
        if variable < 0:
            return edge
        fits = row < min(limit, end) and holds[row, variable]
        if fits and earliest[row - begin + 1, tables.target[edge]] <= limit - begin:
            return edge
    return -1


@kernel
def find_anchors(position):
    """Return which anchors hold before a row."""
    begin, end, row, _, flags = position
    starts = AT_START if row == begin and not flags & BEGUN else 0
    return starts | (AT_END if row == end and not flags & OPEN else 0)


@kernel
def skip_match(at, labels, skipping):
    """Return the row at which the search goes on after a match; negative: a status."""
    if len(labels) == 0 or skipping.mode == _NEXT:
        return at + 1
    if skipping.mode == _PAST:
        return at + len(labels)
    target = -1
    for index in range(len(labels)):
        if skipping.targets[labels[index] >> 1]:
            target = index
            if skipping.mode == _FIRST:
                break
    if target < 0:
        return -NO_TARGET
    return at + target if target > 0 else -FIRST_ROW


@kernel
def _find_limits(bounds, times, ends):
    limits = np.empty(len(times), np.int64)
    for part in range(len(bounds) - 1):
        last = bounds[part]
        for row in range(bounds[part], bounds[part + 1]):
            last = max(last, row)
            while last < bounds[part + 1] and times[last] < ends[row]:
                last += 1
            limits[row] = last
    return limits


@kernel
def grow(array):
    """Return a copy with twice the room."""
    larger = np.empty(2 * len(array), array.dtype)
    larger[: len(array)] = array
    return larger
