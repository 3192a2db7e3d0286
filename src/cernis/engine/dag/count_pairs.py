"""How many matches end at each root, where a value decides the rounds of runs that have just begun.

In how many ways a run takes the rounds up to one of them (`rounds`) does not depend on the window:
the number of a run is 1, and each moment with rounds for it multiplies it by their number, or under
`:` by one more. So the pairs of a run and a round that fits it are found once. Then runs are added
from the latest to the earliest: each adds its number to the totals of its rounds. When all runs
inside the window of a root have been added, the totals of the rounds that lead to it are its
matches.

Cost contract: linear in the pairs, and in the rounds that lead to roots. `count_pairs` gives up
where runs have had another step before, or roots are further than a step from the rounds. Numbers
are floats, exact below 2^53; larger ones are added again modulo primes (`residues`), from the same
pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import borrowing as kernel
from cernis.compiled import inner
from cernis.compiled.tiers import call_patiently, cut_events, expect_events
from cernis.engine.dag import records as r
from cernis.engine.dag import unions
from cernis.engine.dag.count import list_runs
from cernis.engine.dag.links import ANY_ROUNDS, DagSegment
from cernis.engine.dag.residues import add, count_exactly, reduce
from cernis.engine.dag.steps import Chosen, Ints

DONE, NO_ROOM, GIVES_UP = 0, -1, -2
_SAMPLE = 8
"""So many moments or roots are looked at, twice, to estimate the number of pairs."""


class _NumberLists(NamedTuple):
    """A list for each of some things: `first[i]:first[i + 1]` are the items of i."""

    first: Ints
    item: Ints


class _RoundRows(NamedTuple):
    """Per vertex, what a round does to the runs that it takes."""

    moment: Ints
    goes_on: NDArray[np.uint8]
    """Whether a run can take another round after it,"""
    is_any: NDArray[np.uint8]
    """and whether it can do without this one."""


@kernel
def _find_pairs(segment, steps, pairs, items, span):
    """List the runs that the rounds of some moments take, while there is room.

    `span` has the first moment, the one after the last, and how many pairs there were before.
    Return the moment that comes next, the number of pairs, and a status.
    """
    links, memory = segment.links, segment.memory
    begin, end, size = span
    for m in range(begin, end):
        before = size
        for v in range(steps.moment_first[m], steps.moment_first[m + 1]):
            pairs.first[v] = size
            if steps.rounds[v] < 0:
                continue
            found = list_runs(links, memory, steps.rounds[v], steps.due[m], items)
            if found < 0 or size + found > len(pairs.item):
                return m, before, NO_ROOM
            for k in range(found):
                vertex = memory.branches[items[k]]["vertex"]
                if memory.vertices[vertex]["count"] > 0:
                    return m, size, GIVES_UP
                pairs.item[size + k] = steps.number[vertex]
            size += found
    return end, size, DONE


@kernel
def _turn_pairs(pairs, runs):
    """List the rounds of each run, from the first. `runs.first` is zero, with a place to spare."""
    first = runs.first
    for k in range(len(runs.item)):
        first[pairs.item[k] + 2] += 1
    for run in range(2, len(first)):
        first[run] += first[run - 1]
    for v in range(len(pairs.first) - 1):
        for k in range(pairs.first[v], pairs.first[v + 1]):
            run = pairs.item[k]
            runs.item[first[run + 1]] = v
            first[run + 1] += 1


@inner
def _list_union(nodes, root, version, bound, items):
    """Write the vertices of a union inside the window; return how many, -1: no room.

    The tail of `items` is a stack.
    """
    found, top = 0, len(items) - 1
    items[top] = root
    while top < len(items):
        at = items[top]
        top += 1
        if at == 0 or nodes[at]["start"] < bound:
            continue
        if top - found < 4:
            return NO_ROOM
        items[found] = nodes[at]["vertex"]
        found += 1
        for side in (nodes[at]["left"], unions.right_of(nodes, at, version)):
            top -= 1
            items[top] = side
    return found


@inner
def list_rounds_below(links, memory, vertex, bound, items):
    """Write the vertices that one leads to; return how many, or why there are none."""
    if memory.vertices[vertex]["count"] != 1:
        return GIVES_UP
    source = memory.vertices[vertex]["first"]
    one = memory.sources[source]
    kind = links.kind[links.store[one["link"]]]
    if kind == r.UNION:
        return _list_union(memory.nodes, one["at"], one["version"], bound, items)
    if kind != r.SORTED:
        return GIVES_UP
    found = list_runs(links, memory, source, bound, items)
    for k in range(found):
        items[k] = memory.branches[items[k]]["vertex"]
    return found


@kernel
def _find_ends(segment, steps, ends, items, span, roots):
    """List the rounds that lead to some roots, while there is room.

    `span` has the first root, the one after the last, and how many rounds there were before. Return
    the root that comes next, the number of rounds, and a status.
    """
    begin, end, size = span
    for i in range(begin, end):
        ends.first[i] = size
        vertex, found = roots[i]["vertex"], 1
        v = steps.number[vertex]
        if v >= 0 and steps.rounds[v] >= 0:
            items[0] = vertex
        else:
            bound = roots[i]["bound"]
            found = list_rounds_below(segment.links, segment.memory, vertex, bound, items)
            if found == GIVES_UP:
                return i, size, GIVES_UP
        if found < 0 or size + found > len(ends.item):
            return i, size, NO_ROOM
        for k in range(found):
            v = steps.number[items[k]]
            if v < 0 or steps.rounds[v] < 0:
                return i, size, GIVES_UP
            ends.item[size + k] = v
        size += found
    return end, size, DONE


@inner
def _add_run(rows, runs, run, prime, totals):
    """Add a run to the totals of its rounds."""
    ways, fitting, moment, is_any = 1.0, 0, -1, 0
    for k in range(runs.first[run], runs.first[run + 1]):
        v = runs.item[k]
        if rows.moment[v] != moment:
            if fitting + is_any == 2:
                ways = add(ways, ways, prime)
            elif fitting > 0:
                ways = reduce(ways * (fitting + is_any), prime)
            fitting, moment = 0, rows.moment[v]
        totals[v] = add(totals[v], ways, prime)
        fitting += rows.goes_on[v]
        is_any = rows.is_any[v]


@inner
def _sum_totals(ends, i, prime, totals):
    """Return the sum of the totals of the rounds that lead to a root."""
    total = 0.0
    for k in range(ends.first[i], ends.first[i + 1]):
        total = add(total, totals[ends.item[k]], prime)
    return total


@kernel
def _sum_roots(steps, rows, runs, ends, prime, order, totals, out):
    """Write the number of matches of each root.

    `order` are the roots, from the latest bound; `totals` are zero, for each vertex.
    """
    done = 0
    for run in range(len(rows.moment) - 1, -1, -1):
        if runs.first[run] == runs.first[run + 1]:
            continue
        while done < len(order) and steps.bound[order[done]] > steps.start[run]:
            out[order[done]] = _sum_totals(ends, order[done], prime, totals)
            done += 1
        _add_run(rows, runs, run, prime, totals)
    for i in order[done:]:
        out[i] = _sum_totals(ends, i, prime, totals)


def count_pairs(segments: Sequence[DagSegment], steps: Chosen) -> list[int] | None:
    """Return the number of matches of every root; None: not all matches are a run with rounds.

    The segments share their records: those of the last include those of the others.
    """
    segment, size = segments[-1], len(steps.start)
    pairs = _list_all(_find_pairs, (len(steps.moment_first) - 1, size), (segment, steps))
    if pairs is None:
        return None
    roots = np.concatenate([one.roots for one in segments])
    ends = _list_all(_find_ends, (len(roots), len(roots)), (segment, steps), roots)
    if ends is None:
        return None
    runs = _NumberLists(np.zeros(size + 2, np.int64), np.empty(len(pairs.item), np.int64))
    call_patiently(_turn_pairs, pairs, runs)
    rows, order = _read_rows(segment, steps), np.argsort(-steps.bound, kind="stable")

    def count(prime: float) -> NDArray[np.float64]:
        totals, out = np.zeros(size), np.empty(len(roots))
        args = steps, rows, runs, ends, prime, order, totals, out
        call_patiently(_sum_roots, *args)
        return out

    def bound_bits() -> int:
        # a moment multiplies the ways of a run at most by 2 for each of its rounds
        return int(np.diff(runs.first).max(initial=0)) + 2 * size.bit_length() + 2

    return count_exactly(count, bound_bits)


def _list_all(
    find: Callable[..., Any],
    sizes: tuple[int, int],
    records: tuple[DagSegment, Chosen],
    *beside: NDArray[np.void],
) -> _NumberLists | None:
    """Return the lists that a kernel writes; None: it gives up.

    `sizes` has the number of moments or roots, and that of lists.
    """
    number, lists = sizes
    found = _NumberLists(np.zeros(lists + 1, np.int64), np.empty(8 * lists + 64, np.int64))
    items, size = np.empty(1024, np.int64), 0
    for piece in cut_events(number):
        begin, status = piece.start, NO_ROOM
        while status == NO_ROOM:
            span = (begin, piece.stop, size)
            begin, size, status = call_patiently(find, *records, found, items, span, *beside)
            if status == GIVES_UP:
                return None
            if status == NO_ROOM:
                items = np.empty(2 * len(items), np.int64)
                found = _NumberLists(found.first, np.append(found.item, np.empty_like(found.item)))
    found.first[-1] = size
    expect_events(size)
    return _NumberLists(found.first, found.item[:size])


def estimate_pairs(segments: Sequence[DagSegment], steps: Chosen) -> int:
    """Return about how many pairs there are, with the rounds that lead to roots; 0: `count_pairs`
    gives up. It looks at a sample."""
    moments, roots = len(steps.moment_first) - 1, np.concatenate([one.roots for one in segments])
    items, numbers = np.empty((2, 1 << 16), np.int64)
    found = _NumberLists(np.empty(len(steps.start) + len(roots), np.int64), numbers)
    total = 0.0
    finds: list[tuple[Callable[..., Any], int, tuple[Any, ...]]] = [
        (_find_pairs, moments, ()),
        (_find_ends, len(roots), (roots,)),
    ]
    for find, number, beside in finds:
        piece = min(number, _SAMPLE)
        # windows fill up in the first half
        for begin in (number // 2, number - piece):
            span = (begin, min(begin + piece, number), 0)
            args = segments[-1], steps, found, items, span, *beside
            end, size, status = call_patiently(find, *args)
            if status == GIVES_UP:
                return 0
            # without room for the first one, there are at least so many
            average = size / (end - begin) if end > begin else len(items)
            total += average * number / 2
    return int(total)


def _read_rows(segment: DagSegment, steps: Chosen) -> _RoundRows:
    """Return what rounds do to the runs that they take."""
    links, size = segment.links, len(steps.start)
    assert links.rounds is not None
    moment = np.repeat(np.arange(len(steps.moment_first) - 1), np.diff(steps.moment_first))
    is_round = steps.rounds >= 0
    used = segment.memory.sources["link"][steps.rounds[is_round]]
    is_any = np.zeros(size, np.uint8)
    is_any[is_round] = np.abs(links.rounds[used]) == ANY_ROUNDS
    return _RoundRows(moment, (steps.operator != r.EQUAL).astype(np.uint8), is_any)
