"""Aggregates over all matches of each root: sums and least values on vertices and unions.

An element has the number of matches below an item of `count`, and per quantity a sum over all pairs
of a match and an event in it. Elements are added over the runs of an index and multiplied over the
sources of a vertex, as pairs (count, sum) are: (c, s) · (c', s') = (c · c', s · c' + c · s'). Least
values take the least of both. So the cost is that of counting, whatever the number of matches.

Cost contract: linear in the vertices, nodes, branches and (for ≠) edges that a root reaches inside
its window, times the quantities. Sums are floats, exact below 2^52; a root that exceeds it is
summed again in Python's integers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import borrowing as kernel
from cernis.compiled import inner
from cernis.engine.dag import records as r
from cernis.engine.dag.count import (
    DagElements,
    count_items,
    is_vertex,
    list_inside,
    list_items,
    list_union,
)
from cernis.engine.dag.links import DagSegment

NO_LEAST = np.int64(2**63 - 1)
"""The code of a least value over nothing."""
_EXACT = float(2**52)


class VertexWeights(NamedTuple):
    """What the event of each vertex adds."""

    sums: NDArray[np.float64]
    """Per vertex and quantity."""
    leasts: NDArray[np.int64]
    """Per vertex and least value, a code in the order of the values; `NO_LEAST`: none."""


class MeasuredRoots(NamedTuple):
    """Per root, the number of its matches and the sums, then the least values."""

    sums: NDArray[np.float64]
    leasts: NDArray[np.int64]


class MeasureScratch(NamedTuple):
    """Elements by item, valid where `stamps` has the current stamp, and room to work in."""

    stamps: NDArray[np.int64]
    known: MeasuredRoots
    stack: NDArray[np.int64]
    items: NDArray[np.int64]
    product: NDArray[np.float64]
    total: NDArray[np.float64]
    least: NDArray[np.int64]


@inner
def _begin(weights, vertex, scratch):
    """Begin a product with the event of a vertex; 0: with nothing."""
    scratch.product[0] = 1.0
    for q in range(1, len(scratch.product)):
        scratch.product[q] = weights.sums[vertex, q - 1] if vertex > 0 else 0.0
    for m in range(len(scratch.least)):
        scratch.least[m] = weights.leasts[vertex, m] if vertex > 0 else NO_LEAST


@inner
def _add(scratch, item):
    """Add an item to the total."""
    for q in range(len(scratch.total)):
        scratch.total[q] += scratch.known.sums[item, q]
    for m in range(len(scratch.least)):
        scratch.least[m] = min(scratch.least[m], scratch.known.leasts[item, m])


@inner
def _multiply(product, total):
    for q in range(1, len(product)):
        product[q] = product[q] * total[0] + product[0] * total[q]
    product[0] *= total[0]


@inner
def _keep(scratch, item, stamp):
    """Note the product as the element of an item."""
    scratch.stamps[item] = stamp
    exists = scratch.product[0] > 0.0
    for q in range(len(scratch.product)):
        scratch.known.sums[item, q] = scratch.product[q] if exists else 0.0
    for m in range(len(scratch.least)):
        scratch.known.leasts[item, m] = scratch.least[m] if exists else NO_LEAST


@kernel
def _measure_roots(segment, weights, begin, clock, scratch, out):
    """Measure the roots from `begin` on; return the root for which the scratch is too small.

    Roots with the same bound share their elements: `clock` is the current stamp and its bound.
    """
    links, memory, roots = segment.links, segment.memory, segment.roots
    vertices, sources, nodes = memory.vertices, memory.sources, memory.nodes
    stamps, stack, items = scratch.stamps, scratch.stack, scratch.items
    for i in range(begin, len(roots)):
        bound = roots[i]["bound"]
        if clock[0] == 0 or clock[1] != bound:
            clock[0] += 1
            clock[1] = bound
        stamp = clock[0]
        depth = 1
        stack[0] = 2 * roots[i]["vertex"]
        while depth > 0:
            item = stack[depth - 1]
            if stamps[item] == stamp:
                depth -= 1
                continue
            below = depth
            inside = item < 0 or item & 1 == 1
            first, count = 0, 1
            _begin(weights, 0 if inside else item >> 1, scratch)
            if not inside:
                first, count = vertices[item >> 1]["first"], vertices[item >> 1]["count"]
                if count == 0 and vertices[item >> 1]["start"] < bound:
                    scratch.product[0] = 0.0
            for source in range(first, first + count):
                if inside:
                    found = list_inside(memory, item, bound, items)
                elif links.kind[links.store[sources[source]["link"]]] == r.UNION:
                    at, version = sources[source]["at"], sources[source]["version"]
                    found = list_union(nodes, at, version, bound, items)
                else:
                    found = list_items(True, links, memory, source, bound, items)
                if found < 0 or depth + found > len(stack):
                    return i
                for q in range(len(scratch.total)):
                    scratch.total[q] = 0.0
                for k in range(found):
                    if stamps[items[k]] == stamp:
                        _add(scratch, items[k])
                    else:
                        stack[depth] = items[k]
                        depth += 1
                _multiply(scratch.product, scratch.total)
            if depth == below:
                _keep(scratch, item, stamp)
                depth -= 1
        for q in range(out.sums.shape[1]):
            out.sums[i, q] = scratch.known.sums[2 * roots[i]["vertex"], q]
        for m in range(out.leasts.shape[1]):
            out.leasts[i, m] = scratch.known.leasts[2 * roots[i]["vertex"], m]
    return len(roots)


def measure_matches(segment: DagSegment, weights: VertexWeights) -> MeasuredRoots:
    """Return the aggregates of every root; sums from 2^52 on are not exact."""
    roots, size = segment.roots, count_items(segment.memory)
    quantities, leasts = 1 + weights.sums.shape[1], weights.leasts.shape[1]
    known = _new_elements(size, quantities, leasts)
    out = _new_elements(len(roots), quantities, leasts)
    clock, stamps = np.zeros(2, np.int64), np.zeros(size, np.int64)
    room, done = 1024, 0
    while done < len(roots):
        scratch = MeasureScratch(
            stamps,
            known,
            np.empty(room, np.int64),
            np.empty(room, np.int64),
            np.empty(quantities, np.float64),
            np.empty(quantities, np.float64),
            np.empty(leasts, np.int64),
        )
        done = _measure_roots(segment, weights, done, clock, scratch, out)
        room *= 2
    return out


def _new_elements(size: int, quantities: int, leasts: int) -> MeasuredRoots:
    return MeasuredRoots(
        np.empty((size, quantities), np.float64), np.empty((size, leasts), np.int64)
    )


Summed = tuple[int, ...]
"""A number of matches, and sums."""


def sum_exactly(
    segment: DagSegment, weights: NDArray[np.int64], sums: NDArray[np.float64]
) -> NDArray[np.object_] | None:
    """Return the numbers and sums of all roots in integers; None: all `sums` are exact.

    `sums` are the numbers, and sums of magnitudes, as floats; `weights` are integers.
    """
    if not sums.size or float(sums.max()) < _EXACT:
        return None
    found = np.empty((len(segment.roots), 1 + weights.shape[1]), object)
    exact: ExactSums | None = None
    for root, record in enumerate(segment.roots):
        if exact is None or exact.bound != record["bound"]:
            exact = ExactSums(segment, int(record["bound"]), weights)
        found[root] = exact.of(2 * int(record["vertex"]))
    return found


class ExactSums(DagElements[Summed]):
    """Sums in integers of any size over the matches of roots with one bound."""

    def __init__(self, segment: DagSegment, bound: int, weights: NDArray[np.int64]) -> None:
        """`weights` are those of each vertex and quantity."""
        super().__init__(segment, bound)
        self._weights = weights

    def combine(self, item: int, groups: list[list[int]]) -> Summed:
        nothing: Summed = (0,) * (1 + self._weights.shape[1])
        count, sums = 1, list(nothing[1:])
        if is_vertex(item):
            sums = [int(weight) for weight in self._weights[item >> 1]]
            if not groups and self.segment.memory.vertices[item >> 1]["start"] < self.bound:
                return nothing
        for group in groups:
            parts = [self.known[i] for i in group] or [nothing]
            total, *others = [sum(column) for column in zip(*parts, strict=True)]
            sums = [s * total + count * o for s, o in zip(sums, others, strict=True)]
            count *= total
        return (count, *sums) if count else nothing
