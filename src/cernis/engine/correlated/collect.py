"""Giving back what has left the window: a mark-and-copy collector over all records.

Reachable is what a bucket leads to, as far as it starts inside the window of its
partition. Old versions are reachable through the vertices that asked for them; their
nodes are copied with all their pointers, so versions go on sharing what they share.
Lists for ≠ are rebuilt from their live entries, with new back pointers.

Cost contract: O(records made since the last time + buckets). The old arrays stay as
they are, for the matches that refer to them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import borrowing as kernel
from cernis.engine.correlated import records as r
from cernis.engine.correlated import unlike
from cernis.engine.correlated.tables import CorrelatedArrays

_V, _N, _E, _B = range(4)


@kernel
def _mark(
    tables, memory, store_of_bucket, bounds, marks_v, marks_n, marks_e, seen_e, marks_b, stack
):
    """Marks what is alive; returns the bucket it could not finish for want of stack, or -1."""
    for b in range(len(memory.buckets)):
        at, before = memory.buckets[b]["root"], memory.buckets[b]["before"]
        if at == 0:
            continue
        part = memory.buckets[b]["part"]
        bound = bounds[part if part < len(bounds) else 0]
        kind = tables.store_kind[store_of_bucket[b]]
        what = _N if kind == r.UNION else _E if kind == r.UNLIKE else _B
        depth = 1
        stack[0] = 4 * at + what
        if before != 0:
            stack[depth] = 4 * before + what
            depth += 1
        while depth > 0:
            depth -= 1
            item = stack[depth]
            at, what = item >> 2, item & 3
            if depth + 8 > len(stack):
                return b
            if what == _N:
                if marks_n[at] or memory.nodes[at]["start"] < bound:
                    continue
                marks_n[at] = 1
                stack[depth] = 4 * memory.nodes[at]["vertex"] + _V
                depth += 1
                for side in (
                    memory.nodes[at]["left"],
                    memory.nodes[at]["right"],
                    memory.nodes[at]["later"],
                ):
                    if side != 0:
                        stack[depth] = 4 * side + _N
                        depth += 1
            elif what == _B:
                if marks_b[at] or memory.branches[at]["best"] < bound:
                    continue
                marks_b[at] = 1
                stack[depth] = 4 * memory.branches[at]["vertex"] + _V
                depth += 1
                for side in (memory.branches[at]["left"], memory.branches[at]["right"]):
                    if side != 0:
                        stack[depth] = 4 * side + _B
                        depth += 1
            elif what == _E:
                if seen_e[at] or memory.entries[at]["best"] < bound:
                    continue
                seen_e[at] = 1
                if memory.entries[at]["start"] >= bound:
                    marks_e[at] = 1
                    stack[depth] = 4 * memory.entries[at]["vertex"] + _V
                    depth += 1
                if memory.entries[at]["before"] != 0:
                    stack[depth] = 4 * memory.entries[at]["before"] + _E
                    depth += 1
            else:
                if marks_v[at] or memory.vertices[at]["start"] < bound:
                    continue
                marks_v[at] = 1
                first, count = memory.vertices[at]["first"], memory.vertices[at]["count"]
                if depth + count + 8 > len(stack):
                    marks_v[at] = 0
                    return b
                for source in range(first, first + count):
                    kind = tables.store_kind[tables.link_store[memory.sources[source]["link"]]]
                    root = memory.sources[source]["at"]
                    if kind == r.UNLIKE:
                        root = unlike.live_from(tables, memory, source, root, bound)
                        memory.sources[source]["at"] = root
                    if root != 0:
                        stack[depth] = 4 * root + (
                            _N if kind == r.UNION else _E if kind == r.UNLIKE else _B
                        )
                        depth += 1
    return -1


@kernel
def _link_entries(tables, memory, entries, values, back, marks, moved, asked, live_before):
    """Rebuilds the lists of the entries that are kept, in the order they were made.

    `asked` and `live_before`, which is zero, are scratch.
    """
    for old in range(1, len(marks)):
        before = memory.entries[old]["before"]
        live_before[old] = before if before != 0 and marks[before] else live_before[before]
        if not marks[old]:
            continue
        new = moved[old]
        entries[new] = memory.entries[old]
        before = moved[live_before[old]] if live_before[old] != 0 else 0
        entries[new]["before"] = before
        entries[new]["vertex"] = memory.entries[old]["vertex"]
        start = entries[new]["start"]
        entries[new]["best"] = max(start, entries[before]["best"]) if before != 0 else start
        for v in range(values.shape[1]):
            values[new, v] = memory.values[old, v]
        width = tables.store_width[entries[new]["store"]]
        unlike.point_back(values, back, tables.steps, new, before, asked, width)


@kernel
def _fix_buckets(tables, buckets, store_of_bucket, moved_n, heads_e, moved_b):
    """Points the buckets at the copies."""
    for b in range(len(buckets)):
        kind = tables.store_kind[store_of_bucket[b]]
        moved = moved_n if kind == r.UNION else heads_e if kind == r.UNLIKE else moved_b
        buckets[b]["root"] = moved[buckets[b]["root"]]
        buckets[b]["before"] = moved[buckets[b]["before"]]


@kernel
def spine_up(tables, nodes, buckets, store_of_bucket):
    """Works out the way back up the newest right spine of every union tree."""
    nodes["up"][:] = 0
    for b in range(len(buckets)):
        last = 0
        if tables.store_kind[store_of_bucket[b]] == r.UNION:
            at = buckets[b]["root"]
            above = 0
            while at != 0:
                nodes[at]["up"] = above
                above = at
                last = at
                at = nodes[at]["later"] if nodes[at]["since"] >= 0 else nodes[at]["right"]
        buckets[b]["last"] = last


@kernel
def _heads(memory, marks, moved, heads):
    """For each entry, the copy of the latest live one from there on."""
    for old in range(1, len(marks)):
        heads[old] = moved[old] if marks[old] else heads[memory.entries[old]["before"]]


def _moved(marks: NDArray[np.uint8]) -> NDArray[np.int32]:
    """New numbers for what is marked, 0 for the rest."""
    return np.where(marks != 0, np.cumsum(marks, dtype=np.int64), 0).astype(np.int32)


def collect(
    tables: CorrelatedArrays,
    memory: r.RunMemory,
    store_of_bucket: NDArray[np.int32],
    bounds: NDArray[np.int64],
) -> r.RunMemory:
    """Fresh memory with what is still inside the windows; `bounds` per partition, or one."""
    counters = memory.counters
    used = [int(counters[which]) for which in (r.VERTICES, r.NODES, r.ENTRIES, r.BRANCHES)]
    sources = memory.sources.copy()  # the old ones may be in use
    memory = memory._replace(sources=sources)
    size = 1024
    while True:
        marks = [np.zeros(n, np.uint8) for n in used]
        seen = np.zeros(used[2], np.uint8)
        stack = np.empty(size, np.int64)
        if (
            _mark(
                tables,
                memory,
                store_of_bucket,
                bounds,
                marks[0],
                marks[1],
                marks[2],
                seen,
                marks[3],
                stack,
            )
            < 0
        ):
            break
        size *= 4
    moved_v, moved_n, moved_e, moved_b = (_moved(mark) for mark in marks)
    vertices, sources, asked = _copy_vertices(memory, marks[0], moved_n, moved_e, moved_b, tables)
    facts = memory.facts[np.concatenate(([0], np.flatnonzero(marks[0])))]
    nodes = _kept(memory.nodes, marks[1])
    nodes["vertex"] = moved_v[nodes["vertex"]]
    for side in ("left", "right", "later"):
        nodes[side] = moved_n[nodes[side]]
    branches = _kept(memory.branches, marks[3])
    branches["vertex"] = moved_v[branches["vertex"]]
    for side in ("left", "right"):
        branches[side] = moved_b[branches[side]]
    live = int(marks[2].sum()) + 1
    entries = np.zeros(live, r.ENTRY)
    values = np.zeros((live, memory.values.shape[1]), np.int64)
    back = np.zeros((live, memory.back.shape[1]), np.int32)
    scratch = np.empty(memory.values.shape[1], np.int64)
    live_before = np.zeros(used[2], np.int32)
    _link_entries(tables, memory, entries, values, back, marks[2], moved_e, scratch, live_before)
    entries["vertex"] = moved_v[entries["vertex"]]
    heads = np.zeros(used[2], np.int32)
    _heads(memory, marks[2], moved_e, heads)
    buckets = memory.buckets.copy()
    _fix_buckets(tables, buckets, store_of_bucket, moved_n, heads, moved_b)
    spine_up(tables, nodes, buckets, store_of_bucket)
    fresh = counters.copy()
    for which, array in (
        (r.VERTICES, vertices),
        (r.SOURCES, sources),
        (r.NODES, nodes),
        (r.ENTRIES, entries),
        (r.BRANCHES, branches),
        (r.ASKED, asked),
    ):
        fresh[which] = len(array)
    fresh[r.ROOTS] = 0
    return memory._replace(
        counters=fresh,
        vertices=vertices,
        facts=facts,
        sources=sources,
        nodes=nodes,
        entries=entries,
        values=values,
        back=back,
        branches=branches,
        asked=asked,
        buckets=buckets,
    )


def _kept(records: NDArray[np.void], marks: NDArray[np.uint8]) -> NDArray[np.void]:
    """Record 0 and those that are marked."""
    marks[0] = 1
    kept: NDArray[np.void] = records[: len(marks)][marks != 0]
    kept[0] = np.zeros((), records.dtype)
    marks[0] = 0
    return kept


def _copy_vertices(
    memory: r.RunMemory,
    marks: NDArray[np.uint8],
    moved_n: NDArray[np.int32],
    moved_e: NDArray[np.int32],
    moved_b: NDArray[np.int32],
    tables: CorrelatedArrays,
) -> tuple[NDArray[np.void], NDArray[np.void], NDArray[np.int64]]:
    """(vertices, sources, asked) of the vertices that are kept."""
    vertices = _kept(memory.vertices, marks)
    counts = vertices["count"].astype(np.int64)
    ends = np.cumsum(counts)
    which = np.repeat(vertices["first"], counts) + (
        np.arange(int(ends[-1])) - np.repeat(ends - counts, counts)
    )
    sources = memory.sources[which]
    kinds = tables.store_kind[tables.link_store[sources["link"]]] if len(sources) else np.empty(0)
    for kind, moved in ((r.UNION, moved_n), (r.UNLIKE, moved_e), (r.SORTED, moved_b)):
        mine = kinds == kind
        sources["at"][mine] = moved[sources["at"][mine]]
    asking = kinds != r.UNION
    asked = np.concatenate(
        [np.zeros((1, memory.asked.shape[1]), np.int64), memory.asked[sources["asked"][asking]]]
    )
    sources["asked"] = 0
    sources["asked"][asking] = np.arange(1, len(asked))
    vertices["first"] = ends - counts
    return vertices, sources, asked
