"""How many matches end at each root, where rounds are looked up: by pairs of a run and a round.

`rounds` finds the rounds of a run when they are asked for. For counting, the pairs of a run and a
round that fits it are listed once, for all roots.

* Where runs have just begun, in how many ways one takes the rounds up to one of them does not
  depend on the window: the number of a run is 1, and each moment with rounds for it multiplies it
  by their number, or under `:` by one more. So runs are added from the latest to the earliest: each
  adds its number to the totals of its rounds. When all runs inside the window of a root have been
  added, the totals of the rounds that lead to it are its matches (`sum_pairs`).
* Elsewhere each run that waits for rounds has a group of its own, and each round that it takes is a
  step from its group to the next one. Where a row ends the rounds, a run has another group in which
  it is ready for it. Then `slide` counts (`slide_pairs`).

Cost contract: linear in the pairs, and in the rounds that lead to roots; of `slide_pairs`, that of
`slide` with a vertex for each pair. `sum_pairs` gives up where runs have had another step before,
or roots are further than a step from the rounds. Numbers are floats, exact below 2^53; larger ones
are added again modulo primes (`residues`), from the same pairs. Where pairs are many and runs have
just begun, `count_ranges` counts in less time.

Why two ways: with a group for each run, `slide` also counts what `sum_pairs` does, in ten to a
hundred times the time.
Why not `count` for each root where runs have had another step: `A ; B ; C+; ; D` over 8,000 events
of the market took it 14 times as long in windows of 2,000 events, and 64 times in windows of 8,000.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import borrowing as kernel
from cernis.compiled import inner
from cernis.compiled.tiers import call_patiently, cut_events, expect_events
from cernis.engine.dag import records as r
from cernis.engine.dag import unions
from cernis.engine.dag.count import list_runs
from cernis.engine.dag.links import ANY_ROUNDS, ONE_ROUND, DagSegment
from cernis.engine.dag.rounds import FIRST_WORD
from cernis.engine.dag.slide import MomentLog, count_log, find_last_asked, number_values
from cernis.engine.dag.steps import (
    Chosen,
    Ints,
    NumberLists,
    Steps,
    find_lost,
    find_moments,
    rank_runs,
    read_steps,
)
from cernis.engine.residues import add, count_exactly, reduce

_DONE, _NO_ROOM, _GIVES_UP = 0, -1, -2
_SAMPLE = 8
"""So many moments or roots are looked at, twice, to estimate the number of pairs."""


class _RoundRows(NamedTuple):
    """Per vertex, what a round does to the runs that it takes."""

    moment: Ints
    way: NDArray[np.int8]
    """How runs take it (`links`); 0: it is no round."""
    kind: NDArray[np.int8]
    """The kind of index that it asks."""
    goes_on: NDArray[np.bool_]
    """Whether a run can take another round after it."""


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
                return m, before, _NO_ROOM
            for k in range(found):
                pairs.item[size + k] = steps.number[memory.branches[items[k]]["vertex"]]
            size += found
    return end, size, _DONE


@kernel
def _turn_pairs(pairs, runs):
    """List the rounds of each run, from the first. `runs.first` is zero, with an item to spare."""
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
            return _NO_ROOM
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
        return _GIVES_UP
    source = memory.vertices[vertex]["first"]
    one = memory.sources[source]
    kind = links.kind[links.store[one["link"]]]
    if kind == r.UNION:
        return _list_union(memory.nodes, one["at"], one["version"], bound, items)
    if kind != r.SORTED:
        return _GIVES_UP
    found = list_runs(links, memory, source, bound, items)
    for k in range(found):
        items[k] = memory.branches[items[k]]["vertex"]
    return found


@kernel
def _find_ends(segment, steps, ends, items, span):
    """List the rounds that lead to some roots, while there is room.

    `span` has the first root, the one after the last, and how many rounds there were before. Return
    the root that comes next, the number of rounds, and a status.
    """
    roots = segment.roots
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
            if found == _GIVES_UP:
                return i, size, _GIVES_UP
        if found < 0 or size + found > len(ends.item):
            return i, size, _NO_ROOM
        for k in range(found):
            v = steps.number[items[k]]
            if v < 0 or steps.rounds[v] < 0:
                return i, size, _GIVES_UP
            ends.item[size + k] = v
        size += found
    return end, size, _DONE


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
        is_any = int(rows.way[v] == ANY_ROUNDS)


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


class RoundPairs(NamedTuple):
    """The pairs of a run and a round that fits it."""

    runs: NumberLists
    """Per vertex, the runs that it takes."""
    are_new: bool
    """Whether these have had no step before."""


def list_pairs(segment: DagSegment, chosen: Chosen) -> RoundPairs:
    """Return the pairs of all vertices with rounds."""
    moments, size = len(chosen.moment_first) - 1, len(chosen.start)
    runs = _list_all(_find_pairs, (moments, size), (segment, chosen))
    assert runs is not None
    is_new = chosen.vertices["count"] == 0
    return RoundPairs(runs, bool(is_new[runs.item].all()))


def sum_pairs(segment: DagSegment, chosen: Chosen, pairs: RoundPairs) -> list[int] | None:
    """Return the number of matches of every root; None: not all matches are a run with rounds."""
    size, roots, ends = len(chosen.start), len(segment.roots), None
    if pairs.are_new:
        ends = _list_all(_find_ends, (roots, roots), (segment, chosen))
    if ends is None:
        return None
    turned = NumberLists(np.zeros(size + 2, np.int64), np.empty_like(pairs.runs.item))
    call_patiently(_turn_pairs, pairs.runs, turned)
    rows, order = _read_rows(segment, chosen), np.argsort(-chosen.bound, kind="stable")

    def count(prime: float) -> NDArray[np.float64]:
        totals, out = np.zeros(size), np.empty(roots)
        call_patiently(_sum_roots, chosen, rows, turned, ends, prime, order, totals, out)
        return out

    def bound_bits() -> int:
        # a moment multiplies the ways of a run at most by 2 for each of its rounds
        return int(np.diff(turned.first).max(initial=0)) + 2 * size.bit_length() + 2

    return count_exactly(count, bound_bits)


def _list_all(
    find: Callable[..., Any],
    sizes: tuple[int, int],
    records: tuple[DagSegment, Chosen],
) -> NumberLists | None:
    """Return the lists that a kernel writes; None: it gives up.

    `sizes` has the number of moments or roots, and that of lists.
    """
    number, lists = sizes
    found = NumberLists(np.zeros(lists + 1, np.int64), np.empty(8 * lists + 64, np.int64))
    items, size = np.empty(1024, np.int64), 0
    for piece in cut_events(number):
        begin, status = piece.start, _NO_ROOM
        while status == _NO_ROOM:
            span = (begin, piece.stop, size)
            begin, size, status = call_patiently(find, *records, found, items, span)
            if status == _GIVES_UP:
                return None
            if status == _NO_ROOM:
                items = np.empty(2 * len(items), np.int64)
                found = NumberLists(found.first, np.append(found.item, np.empty_like(found.item)))
    found.first[-1] = size
    expect_events(size)
    return NumberLists(found.first, found.item[:size])


def estimate_pairs(segment: DagSegment, chosen: Chosen) -> int:
    """Return about how many pairs there are, with the rounds that lead to roots; 0: `sum_pairs`
    gives up. It looks at a sample."""
    moments, roots = len(chosen.moment_first) - 1, len(segment.roots)
    items, numbers = np.empty((2, 1 << 16), np.int64)
    found = NumberLists(np.empty(len(chosen.start) + roots, np.int64), numbers)
    total = 0.0
    for find, number in ((_find_pairs, moments), (_find_ends, roots)):
        piece = min(number, _SAMPLE)
        # windows fill up in the first half
        for begin in (number // 2, number - piece):
            span = (begin, min(begin + piece, number), 0)
            end, size, status = call_patiently(find, segment, chosen, found, items, span)
            is_run = find is _find_pairs
            has_more = is_run and (chosen.vertices["count"][numbers[:size]] > 0).any()
            if status == _GIVES_UP or has_more:
                return 0
            # without room for the first one, there are at least so many
            average = size / (end - begin) if end > begin else len(items)
            total += average * number / 2
    return int(total)


def _read_rows(segment: DagSegment, chosen: Chosen) -> _RoundRows:
    """Return what rounds do to the runs that they take."""
    links, is_round = segment.links, chosen.rounds >= 0
    assert links.rounds is not None
    link = segment.memory.sources["link"][chosen.rounds]
    return _RoundRows(
        find_moments(chosen),
        np.where(is_round, np.abs(links.rounds[link]), 0).astype(np.int8),
        links.kind[links.store[link]].astype(np.int8),
        chosen.operator != r.EQUAL,
    )


# --------------------------------------------------------------------- groups of runs


class _RoundLog(NamedTuple):
    """The vertices of the log, and where it stands."""

    counters: Ints
    """Indices: VERTICES and the next ones."""
    log: MomentLog
    root: Ints
    """The root of the run DAG that each root of the log is a part of."""
    current: Ints
    """Per run and phase, WAITS or READY: the group in which it waits."""
    following: Ints
    """Per run and phase, the group after the moment; -1: it stays the same."""
    taken: Ints
    """Scratch: the runs and phases that change in the moment."""


VERTICES, FILED, ROOTS, GROUPS, TAKEN = range(5)
WAITS, READY = range(2)
"""Whether a run waits for a round, or for the row that ends them."""


@kernel
def _write_log(runs, rows, steps, groups, is_kept, lost, pairs):
    """Write the log: a vertex for each vertex, or for each run that it takes to a round.

    `runs` are those of each vertex, `lost` those that are no longer ready after a moment.
    """
    counters = pairs.counters
    for m in range(len(steps.moment_first) - 1):
        pairs.log.moment_first[m] = counters[VERTICES]
        for v in range(steps.moment_first[m], steps.moment_first[m + 1]):
            # ready in a new group: for the rounds of this moment, too
            if rows.way[v] != 0 and rows.kind[v] == r.ENDED_ONCE:
                for k in range(runs.first[v], runs.first[v + 1]):
                    _leave(pairs, runs.item[k], READY)
        for v in range(steps.moment_first[m], steps.moment_first[m + 1]):
            if rows.way[v] == 0:
                _write_vertex(steps, groups, is_kept, pairs, v)
            else:
                _write_rounds(runs, rows, steps, groups, is_kept, pairs, v)
        for k in range(lost.first[m], lost.first[m + 1]):
            _leave(pairs, lost.item[k], READY)
        for k in range(counters[TAKEN]):
            run, phase = pairs.taken[k] // 2, pairs.taken[k] % 2
            pairs.current[run, phase] = pairs.following[run, phase]
            pairs.following[run, phase] = -1
        counters[TAKEN] = 0
    pairs.log.moment_first[len(steps.moment_first) - 1] = counters[VERTICES]


@inner
def _write_vertex(steps, groups, is_kept, pairs, v):
    """Write a vertex without rounds; it may wait for some."""
    n = pairs.counters[VERTICES]
    pairs.log.start[n] = steps.start[v]
    pairs.log.asked[n] = groups.asked[v]
    pairs.log.asked_end[n] = groups.asked_end[v]
    if pairs.current[v, WAITS] >= 0:
        _file(pairs, pairs.current[v, WAITS])
    _finish(steps, groups, is_kept, pairs, v)


@inner
def _write_rounds(runs, rows, steps, groups, is_kept, pairs, v):
    """Write a vertex for each run that a vertex takes."""
    way, phase = rows.way[v], READY if rows.kind[v] >= r.ENDED else WAITS
    for k in range(runs.first[v], runs.first[v + 1]):
        run, n = runs.item[k], pairs.counters[VERTICES]
        group = pairs.current[run, phase]
        pairs.log.start[n] = steps.start[run]
        pairs.log.asked[n] = group
        pairs.log.asked_end[n] = group + 1 + (way == ANY_ROUNDS and phase == WAITS)
        if phase == WAITS:
            _file_round(pairs, run, way, steps, v)
        _finish(steps, groups, is_kept, pairs, v)


@inner
def _file_round(pairs, run, way, steps, v):
    """File a run where it waits after a round."""
    may_go_on, ready = steps.operator[v] != r.EQUAL, pairs.current[run, READY]
    if ready >= 0:
        renewed = pairs.following[run, READY]
        _file(pairs, ready if renewed < 0 else renewed)
        may_go_on = way != ONE_ROUND and steps.low[v] == FIRST_WORD
    if may_go_on and way == ANY_ROUNDS:
        _file(pairs, pairs.current[run, WAITS] + 1)
    elif may_go_on:
        _leave(pairs, run, WAITS)
        _file(pairs, pairs.following[run, WAITS])


@inner
def _leave(pairs, run, phase):
    """Let a run wait in a new group after the moment."""
    counters = pairs.counters
    if pairs.following[run, phase] < 0:
        pairs.following[run, phase] = counters[GROUPS]
        counters[GROUPS] += 1
        pairs.taken[counters[TAKEN]] = 2 * run + phase
        counters[TAKEN] += 1


@inner
def _file(pairs, group):
    pairs.log.filed[pairs.counters[FILED]] = group
    pairs.counters[FILED] += 1


@inner
def _finish(steps, groups, is_kept, pairs, v):
    """Write the filings and the roots of a vertex, and end it."""
    counters = pairs.counters
    for k in range(steps.filing_first[v], steps.filing_first[v + 1]):
        if is_kept[steps.filings[k]]:
            _file(pairs, groups.filed[steps.filings[k]])
    for i in range(steps.root_first[v], steps.root_first[v + 1]):
        pairs.root[counters[ROOTS]] = i
        counters[ROOTS] += 1
    n = counters[VERTICES]
    counters[VERTICES] = n + 1
    pairs.log.filed_first[n + 1] = counters[FILED]
    pairs.log.root_first[n + 1] = counters[ROOTS]


def slide_pairs(segment: DagSegment, chosen: Chosen, pairs: RoundPairs) -> list[int] | None:
    """Return the number of matches of every root; None: groups are too many."""
    steps, filings = read_steps(segment.memory, chosen)
    rows = _read_rows(segment, chosen)
    groups = number_values(steps, filings)
    waits = np.isin(filings.home, steps.asked[chosen.rounds >= 0])
    current = np.full((len(steps.start), 2), -1, np.int64)
    runs = np.unique(filings.vertex[waits])
    current[runs, WAITS] = groups.number + 3 * np.arange(len(runs))
    ready = filings.vertex[np.isin(filings.home, steps.asked[chosen.ended])]
    current[ready, READY] = current[ready, WAITS] + 2
    number = np.where(chosen.rounds < 0, 1, np.diff(pairs.runs.first))
    log = _new_log(steps, number, current)
    log.counters[GROUPS] = groups.number + 3 * len(runs)
    _write_log(pairs.runs, rows, steps, groups, ~waits, _list_lost(segment, chosen), log)
    asked = log.log.moment_first, log.log.asked, log.log.asked_end, int(log.counters[GROUPS])
    counts = count_log(
        log.log._replace(last_asked=find_last_asked(*asked), bound=steps.bound[log.root])
    )
    if counts is None:
        return None
    whole = [0] * len(steps.bound)
    for root, count in zip(log.root.tolist(), counts, strict=True):
        whole[root] += count
    return whole


def _list_lost(segment: DagSegment, chosen: Chosen) -> NumberLists:
    """Return for each moment the runs that rows after it took that are no vertices any more."""
    runs, moments = rank_runs(segment.memory, chosen), len(chosen.moment_first) - 1
    lost = find_lost(segment, chosen, runs)
    order = np.argsort(lost.moment, kind="stable")
    taken = [runs.vertex[lost.begin[k] : lost.end[k]] for k in order.tolist()]
    number = np.bincount(lost.moment, lost.end - lost.begin, moments).astype(np.int64)
    return NumberLists(
        np.append(0, np.cumsum(number)), np.concatenate([np.empty(0, np.int64), *taken])
    )


def _new_log(steps: Steps, number: Ints, current: NDArray[np.int64]) -> _RoundLog:
    """Make room for so many vertices for each vertex, and for their filings and roots."""
    size, nothing = int(number.sum()), np.empty(0, np.int64)
    log = MomentLog(
        moment_first=np.zeros(len(steps.moment_first), np.int64),
        start=np.zeros(size, np.int64),
        asked=np.zeros(size, np.int64),
        asked_end=np.zeros(size, np.int64),
        filed_first=np.zeros(size + 1, np.int64),
        filed=np.zeros(int((number * (2 + np.diff(steps.filing_first))).sum()), np.int64),
        last_asked=nothing,
        root_first=np.zeros(size + 1, np.int64),
        bound=nothing,
    )
    return _RoundLog(
        counters=np.zeros(5, np.int64),
        log=log,
        root=np.zeros(int((number * np.diff(steps.root_first)).sum()), np.int64),
        current=current,
        following=np.full_like(current, -1),
        taken=np.empty(current.size, np.int64),
    )
