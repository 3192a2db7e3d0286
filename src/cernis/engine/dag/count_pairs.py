"""How many matches end at each root, where a value decides the rounds of runs that have just begun.

In how many ways a run takes the rounds up to one of them (`rounds`) does not depend on the window.
So one pass over the vertices finds it for each pair of a run and a round that fits it: the number
of a run is 1, and each moment with rounds for it multiplies it by their number, or under `:` by one
more. The pairs of a round are sorted by their runs and added up from the latest, and then the
matches of the round inside any window are one of these sums.

Cost contract: linear in the pairs, and for each root as many binary searches as the rounds that
lead to it. `count_pairs` gives up where runs have had another step before, or roots are further
than a step from the rounds. Numbers are floats, exact below 2^53; larger ones are counted again
modulo primes (`residues`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import borrowing as kernel
from cernis.compiled import inner
from cernis.compiled.tiers import call_patiently, cut_events, expect_events
from cernis.engine.dag import records as r
from cernis.engine.dag import unions
from cernis.engine.dag.count import list_runs
from cernis.engine.dag.links import ANY_ROUNDS, DagSegment
from cernis.engine.dag.residues import count_exactly, reduce
from cernis.engine.dag.steps import Chosen, Ints

NO_ROOM, GIVES_UP = -1, -2


class _WeighedRuns(NamedTuple):
    """Per vertex, what is known of it as a run that takes rounds."""

    ways: NDArray[np.float64]
    """In how many ways it has taken its rounds so far,"""
    digits: NDArray[np.float64]
    """and about how many bits that number has."""
    rows: Ints
    """How many rounds the moment has for it."""
    taken: Ints
    """Scratch: the runs that the moment takes."""


class _RunPairs(NamedTuple):
    """Pairs of a round and a run that it takes. `first[v]:first[v + 1]` are those of vertex v."""

    first: Ints
    run: Ints
    """The number of the run; those that begin later have larger ones."""
    ways: NDArray[np.float64]
    """In how many ways it takes the rounds before; once added up, for all runs from this on."""


@kernel
def _find_pairs(segment, steps, prime, runs, pairs, items, span):
    """Find the pairs of the rounds of some moments, while there is room.

    `span` has the first moment, the one after the last, how many pairs there were before, and how
    many there may be; return how many there are.
    """
    links, memory = segment.links, segment.memory
    begin, end, size, most = span
    room = len(pairs.run)
    for m in range(begin, end):
        if size > most:
            return GIVES_UP
        taken, is_any = 0, False
        for v in range(steps.moment_first[m], steps.moment_first[m + 1]):
            pairs.first[v] = size
            source = steps.rounds[v]
            if source < 0:
                continue
            is_any = abs(links.rounds[memory.sources[source]["link"]]) == ANY_ROUNDS
            found = list_runs(links, memory, source, steps.due[m], items)
            if found < 0:
                return NO_ROOM
            for k in range(found):
                branch = memory.branches[items[k]]
                run = steps.number[branch["vertex"]]
                if memory.vertices[branch["vertex"]]["count"] > 0:
                    return GIVES_UP
                if size < room:
                    pairs.run[size] = run
                    pairs.ways[size] = runs.ways[run]
                size += 1
                if steps.operator[v] != r.EQUAL:
                    if runs.rows[run] == 0:
                        runs.taken[taken] = run
                        taken += 1
                    runs.rows[run] += 1
        for k in range(taken):
            run = runs.taken[k]
            factor = runs.rows[run] + is_any
            runs.ways[run] = reduce(runs.ways[run] * factor, prime)
            runs.digits[run] += np.log2(factor)
            runs.rows[run] = 0
    return size


@kernel
def _sort_by_run(pairs, begin, moved, sorted_):
    """Sort the pairs of each round by their runs, in two passes of a counting sort.

    `begin` is zero, with a place for each vertex and one more; `moved` is scratch.
    """
    first, size = pairs.first, len(pairs.run)
    for k in range(size):
        begin[pairs.run[k] + 1] += 1
    for v in range(len(begin) - 1):
        begin[v + 1] += begin[v]
    for v in range(len(first) - 1):
        for k in range(first[v], first[v + 1]):
            at = begin[pairs.run[k]]
            begin[pairs.run[k]] = at + 1
            moved[at, 0] = v
            moved[at, 1] = k
    for v in range(len(first) - 1):
        begin[v] = first[v]
    for k in range(size):
        v, old = moved[k, 0], moved[k, 1]
        at = begin[v]
        begin[v] = at + 1
        sorted_.run[at] = pairs.run[old]
        sorted_.ways[at] = pairs.ways[old]


@kernel
def _add_up(pairs, prime):
    """Add up the ways of each round's pairs, which are in the order of their runs."""
    for v in range(len(pairs.first) - 1):
        total = 0.0
        for k in range(pairs.first[v + 1] - 1, pairs.first[v] - 1, -1):
            total = reduce(total + pairs.ways[k], prime)
            pairs.ways[k] = total


@inner
def _sum_from(steps, pairs, v, bound):
    """Return in how many ways runs that begin from a bound on come to a round."""
    begin, end = pairs.first[v], pairs.first[v + 1]
    low, high = begin, end
    while low < high:
        middle = (low + high) // 2
        if steps.start[pairs.run[middle]] < bound:
            low = middle + 1
        else:
            high = middle
    return pairs.ways[low] if low < end else 0.0


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
def _sum_roots(segment, roots, steps, pairs, prime, items, out):
    """Write the number of matches of each root; return a number below 0 if that is not possible."""
    for i in range(len(roots)):
        vertex, bound = roots[i]["vertex"], roots[i]["bound"]
        v = steps.number[vertex]
        out[i] = 0.0
        if v >= 0 and steps.rounds[v] >= 0:
            out[i] = _sum_from(steps, pairs, v, bound)
            continue
        found = list_rounds_below(segment.links, segment.memory, vertex, bound, items)
        if found < 0:
            return found
        for k in range(found):
            v = steps.number[items[k]]
            if v < 0 or steps.rounds[v] < 0:
                return GIVES_UP
            out[i] = reduce(out[i] + _sum_from(steps, pairs, v, bound), prime)
    return 0


def count_pairs(
    segments: Sequence[DagSegment], steps: Chosen, most: int = 2**62
) -> list[int] | None:
    """Return the number of matches of every root; None: not all matches are a run with rounds, or
    there are more pairs than `most`.

    The segments share their records: those of the last include those of the others.
    """
    roots = np.concatenate([segment.roots for segment in segments])
    return count_exactly(_PairCounting(segments[-1], roots, steps, most).count)


class _PairCounting:
    """Counts the same roots, modulo one prime after the other."""

    def __init__(
        self, segment: DagSegment, roots: NDArray[np.void], steps: Chosen, most: int
    ) -> None:
        self.segment, self.roots, self.steps, self.most = segment, roots, steps, most
        self.items = np.empty(1024, np.int64)
        self.room = 8 * len(steps.start)

    def count(self, prime: float) -> tuple[NDArray[np.float64], int] | None:
        """Return the numbers of matches, with a prime modulo it, and a bound on their bits."""
        while True:
            found = self._find(prime)
            if isinstance(found, int):
                if found == GIVES_UP:
                    return None
                self.items = np.empty(4 * len(self.items), np.int64)
                continue
            pairs, bits = found
            out = np.empty(len(self.roots), np.float64)
            status = _sum_roots(self.segment, self.roots, self.steps, pairs, prime, self.items, out)
            if status == 0:
                return out, bits
            if status == GIVES_UP:
                return None
            self.items = np.empty(4 * len(self.items), np.int64)

    def _find(self, prime: float) -> tuple[_RunPairs, int] | int:
        """Return the pairs, added up, and a bound on the bits of a root; or why there are none."""
        size = len(self.steps.start)
        while True:
            runs = _WeighedRuns(
                np.ones(size), np.zeros(size), np.zeros(size, np.int64), np.empty(size, np.int64)
            )
            pairs = _RunPairs(
                np.zeros(size + 1, np.int64), np.empty(self.room, np.int64), np.empty(self.room)
            )
            found = 0
            for piece in cut_events(len(self.steps.moment_first) - 1):
                span = (piece.start, piece.stop, found, self.most)
                args = self.segment, self.steps, prime, runs, pairs, self.items, span
                found = int(call_patiently(_find_pairs, *args))
                if found < 0:
                    return found
            pairs.first[size] = found
            expect_events(found)
            if found <= self.room:
                break
            self.room = found
        ordered = pairs._replace(run=np.empty(found, np.int64), ways=np.empty(found))
        pairs = pairs._replace(run=pairs.run[:found], ways=pairs.ways[:found])
        begin, moved = np.zeros(size + 1, np.int64), np.empty((found, 2), np.int64)
        _sort_by_run(pairs, begin, moved, ordered)
        _add_up(ordered, prime)
        return ordered, int(runs.digits.max(initial=0.0)) + 2 * size.bit_length() + 2
