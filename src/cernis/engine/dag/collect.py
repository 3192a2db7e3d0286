"""A mark-and-copy collector over all records of the run DAG.

A record is live if a bucket leads to it through runs that start inside the window of the
bucket's partition. Old versions of an index are live through the vertices that asked for
them; their nodes are copied with all their pointers, so versions go on sharing records.
Lists for ≠ are rebuilt from their live entries, with new back pointers. A tree of runs that have
ended lately loses the others when it grows, not here: old versions may ask for them.

Cost contract: O(records made since the last time + buckets). The old arrays do not change:
matches that refer to them stay valid.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import borrowing as kernel
from cernis.compiled import inner
from cernis.compiled.tiers import call_briefly
from cernis.engine.dag import records as r
from cernis.engine.dag import unlike
from cernis.engine.dag.links import Links
from cernis.engine.poison import poison

_V, _N, _E, _B, _R, _P = range(6)
"""Sorts of records on the stack: 8·record + sort. _R are branches by their last events, _P those of
rounds, by their positions."""

_REPLACED = (
    "vertices",
    "facts",
    "sources",
    "nodes",
    "entries",
    "values",
    "back",
    "branches",
    "asked",
    "buckets",
)
"""The arrays that a collection makes anew."""


NEW, MET, LIVE = range(3)
"""Marks: whether the collector has met a record, and whether it is live."""


class Marks(NamedTuple):
    """Per record, what the collector knows of it."""

    vertices: NDArray[np.uint8]
    nodes: NDArray[np.uint8]
    entries: NDArray[np.uint8]
    branches: NDArray[np.uint8]


@inner
def _sort_of(kind):
    """Return the sort of records that a store of this kind consists of."""
    if kind == r.RECENT:
        return _R
    return _N if kind == r.UNION else _E if kind == r.UNLIKE else _B


@kernel
def _mark(links, memory, kinds, bounds, oldest, marks, queue):
    """Mark the live records; `queue` is scratch, with room for every record.

    `oldest` is the position of the earliest event that begins a run inside the window.

    With one window for all, the buckets begin together and go back in time side by side: records
    that were made together are met together, and the next ones are known long before. A stack
    follows one run after the other, which takes 2.7 times as long where no cache holds the records.
    """
    first = last = 0
    for b in range(len(memory.buckets)):
        at, before = memory.buckets[b]["root"], memory.buckets[b]["before"]
        if at != 0:
            sort = _sort_of(kinds[b])
            last = _meet(marks, queue, last, at, sort)
            last = _meet(marks, queue, last, before, _P if kinds[b] >= r.ROUNDS else sort)
            if kinds[b] >= r.ENDED:
                last = _meet(marks, queue, last, memory.buckets[b]["last"], sort)
                last = _meet(marks, queue, last, memory.buckets[b]["part"], _P)
        if len(bounds) == 1 and b < len(memory.buckets) - 1:
            continue  # all at once
        part = memory.buckets[b]["part"]
        bound = bounds[part if part < len(bounds) else 0]
        while first < last:
            item = queue[first]
            first += 1
            at, sort = item >> 3, item & 7
            if sort == _N:
                if memory.nodes[at]["start"] < bound:
                    continue
                marks.nodes[at] = LIVE
                last = _meet(marks, queue, last, memory.nodes[at]["vertex"], _V)
                for side in (
                    memory.nodes[at]["left"],
                    memory.nodes[at]["right"],
                    memory.nodes[at]["later"],
                ):
                    last = _meet(marks, queue, last, side, _N)
            elif sort >= _B:
                if sort == _B and memory.branches[at]["best"] < bound:
                    continue
                if sort == _P and memory.branches[at]["best"] < oldest:
                    continue
                marks.branches[at] = LIVE
                last = _meet(marks, queue, last, memory.branches[at]["vertex"], _V)
                for side in (memory.branches[at]["left"], memory.branches[at]["right"]):
                    last = _meet(marks, queue, last, side, sort)
            elif sort == _E:
                if memory.entries[at]["best"] < bound:
                    continue
                if memory.entries[at]["start"] >= bound:
                    marks.entries[at] = LIVE
                    last = _meet(marks, queue, last, memory.entries[at]["vertex"], _V)
                last = _meet(marks, queue, last, memory.entries[at]["before"], _E)
            elif memory.vertices[at]["start"] >= bound:
                marks.vertices[at] = LIVE
                begin = memory.vertices[at]["first"]
                for source in range(begin, begin + memory.vertices[at]["count"]):
                    kind = links.kind[links.store[memory.sources[source]["link"]]]
                    root = memory.sources[source]["at"]
                    if kind == r.UNLIKE:
                        root = unlike.next_of_source(links, memory, source, root, bound)
                        memory.sources[source]["at"] = root
                    last = _meet(marks, queue, last, root, _sort_of(kind))
                    if kind >= r.ROUNDS:
                        last = _meet(marks, queue, last, memory.sources[source]["group"], _P)
                    if kind >= r.ENDED:
                        taken = memory.asked[memory.sources[source]["asked"], 2]
                        last = _meet(marks, queue, last, taken, _P)


@inner
def _meet(marks, queue, last, at, sort):
    """Put a record into the queue if it is new there; return where the queue ends."""
    if at == 0:
        return last
    if sort == _N:
        if marks.nodes[at] != NEW:
            return last
        marks.nodes[at] = MET
    elif sort == _V:
        if marks.vertices[at] != NEW:
            return last
        marks.vertices[at] = MET
    elif sort == _E:
        if marks.entries[at] != NEW:
            return last
        marks.entries[at] = MET
    else:
        if marks.branches[at] != NEW:
            return last
        marks.branches[at] = MET
    queue[last] = 8 * at + sort
    return last + 1


@kernel
def _link_entries(links, memory, fresh, marks, moved, asked, live_before):
    """Rebuild the lists of the live entries in `fresh`, in the order they were made.

    `asked` and `live_before`, which is zero, are scratch.
    """
    entries = fresh.entries
    for old in range(1, len(marks)):
        before = memory.entries[old]["before"]
        live_before[old] = before if before != 0 and marks[before] else live_before[before]
        if not marks[old]:
            continue
        new = moved[old]
        entries[new] = memory.entries[old]
        before = moved[live_before[old]] if live_before[old] != 0 else 0
        entries[new]["before"] = before
        start = entries[new]["start"]
        entries[new]["best"] = max(start, entries[before]["best"]) if before != 0 else start
        for v in range(fresh.values.shape[1]):
            fresh.values[new, v] = memory.values[old, v]
        unlike.point_back(fresh, new, before, asked, links.width[entries[new]["store"]])


@kernel
def _find_heads(memory, marks, moved, heads):
    """Find, for each entry, the copy of the latest live one from there on."""
    for old in range(1, len(marks)):
        heads[old] = moved[old] if marks[old] else heads[memory.entries[old]["before"]]


@kernel
def _move_buckets(buckets, kinds, nodes, heads, branches):
    """Point the buckets at the copies."""
    for b in range(len(buckets)):
        kind = kinds[b]
        moved = nodes if kind == r.UNION else heads if kind == r.UNLIKE else branches
        buckets[b]["root"] = moved[buckets[b]["root"]]
        buckets[b]["before"] = moved[buckets[b]["before"]]
        if kind >= r.ENDED:
            buckets[b]["last"] = moved[buckets[b]["last"]]
            buckets[b]["part"] = moved[buckets[b]["part"]]


@kernel
def link_spines(nodes, buckets, kinds):
    """Work out the way back up the newest right spine of every union tree."""
    nodes["up"][:] = 0
    for b in range(len(buckets)):
        if kinds[b] >= r.ENDED:
            continue  # other records
        last = 0
        if kinds[b] == r.UNION:
            at = buckets[b]["root"]
            above = 0
            while at != 0:
                nodes[at]["up"] = above
                above = at
                last = at
                at = nodes[at]["later"] if nodes[at]["since"] >= 0 else nodes[at]["right"]
        buckets[b]["last"] = last


def collect(
    links: Links,
    memory: r.RunMemory,
    kinds: NDArray[np.int32],
    bounds: NDArray[np.int64],
    *,
    is_shared: bool,
) -> r.RunMemory:
    """Return memory with the live records alone.

    `kinds` has the kind of each bucket's store, `bounds` the window of each partition, or of all;
    `is_shared` says whether matches refer to the records.
    """
    before = memory
    memory = memory._replace(sources=memory.sources.copy())  # matches may use the old ones
    marks = _mark_live(links, memory, kinds, bounds)
    moved_v, moved_n, moved_e, moved_b = (_number(mark) for mark in marks[:4])
    vertices, sources, asked = _copy_vertices(links, memory, marks, (moved_n, moved_e, moved_b))
    nodes = _keep(memory.nodes, marks.nodes)
    branches = _keep(memory.branches, marks.branches)
    for side in ("left", "right", "later"):
        nodes[side] = moved_n[nodes[side]]
    for side in ("left", "right"):
        branches[side] = moved_b[branches[side]]
    lists = _copy_lists(links, memory, marks.entries, moved_e)
    for records in (nodes, branches, lists.entries):
        records["vertex"] = moved_v[records["vertex"]]
    heads = np.zeros(len(moved_e), np.int32)
    call_briefly(_find_heads, len(heads), memory, marks.entries, moved_e, heads)
    buckets = memory.buckets.copy()
    call_briefly(_move_buckets, len(buckets), buckets, kinds, moved_n, heads, moved_b)
    call_briefly(link_spines, len(buckets), nodes, buckets, kinds)
    memory = memory._replace(
        counters=memory.counters.copy(),
        vertices=vertices,
        facts=_keep(memory.facts, marks.vertices),
        sources=sources,
        nodes=nodes,
        entries=lists.entries,
        values=lists.values,
        back=lists.back,
        branches=branches,
        asked=asked,
        buckets=buckets,
    )
    for index in range(r.VERTICES, r.ROOTS):
        memory.counters[index] = len(getattr(memory, r.GROWING[index]))
    memory.counters[r.ROOTS] = 0
    if not is_shared:
        poison(*(getattr(before, name) for name in _REPLACED))
    return memory


def _mark_live(
    links: Links, memory: r.RunMemory, kinds: NDArray[np.int32], bounds: NDArray[np.int64]
) -> Marks:
    used = [memory.counters[n] for n in (r.VERTICES, r.NODES, r.ENTRIES, r.BRANCHES)]
    marks = Marks(*(np.zeros(n, np.uint8) for n in used))
    queue = np.empty(sum(used), np.int64)
    oldest = np.int64(0)
    if links.rounds is not None:
        begins = memory.vertices[1 : used[0]]
        begins = begins[(begins["count"] == 0) & (begins["start"] >= bounds.min())]
        oldest = np.int64(begins["position"].min(initial=r.NO_CLOCK))
    call_briefly(_mark, len(memory.buckets), links, memory, kinds, bounds, oldest, marks, queue)
    return Marks(*((one == LIVE).view(np.uint8) for one in marks))


def _number(marks: NDArray[np.uint8]) -> NDArray[np.int32]:
    """Give new numbers to the marked records, 0 to the others."""
    return np.where(marks != 0, np.cumsum(marks, dtype=np.int64), 0).astype(np.int32)


def _keep(records: NDArray[Any], marks: NDArray[np.uint8]) -> NDArray[Any]:
    """Copy record 0 and the marked ones.

    `compress` and `take` copy a record at once; an index would copy it field by field.
    """
    lives = marks != 0
    lives[0] = True
    kept: NDArray[Any] = records[: len(lives)].compress(lives, axis=0)
    kept[0] = np.zeros((), records.dtype)
    return kept


def _copy_vertices(
    links: Links, memory: r.RunMemory, marks: Marks, moved: tuple[NDArray[np.int32], ...]
) -> tuple[NDArray[np.void], NDArray[np.void], NDArray[np.int64]]:
    """Return (vertices, sources, asked) of the live vertices; `moved` by kind of index."""
    vertices = _keep(memory.vertices, marks.vertices)
    counts = vertices["count"].astype(np.int64)
    ends = np.cumsum(counts)
    which = np.repeat(vertices["first"], counts) + (
        np.arange(int(ends[-1])) - np.repeat(ends - counts, counts)
    )
    sources = memory.sources.take(which)
    kinds = links.kind[links.store[sources["link"]]] if len(sources) else np.empty(0)
    for kind, of_kind in enumerate(moved[:2]):
        mine = kinds == kind
        sources["at"][mine] = of_kind[sources["at"][mine]]
    in_trees, with_rounds = kinds >= r.SORTED, kinds >= r.ROUNDS
    sources["at"][in_trees] = moved[r.SORTED][sources["at"][in_trees]]
    sources["group"][with_rounds] = moved[r.SORTED][sources["group"][with_rounds]]
    asking = kinds != r.UNION
    asked = np.concatenate(
        [np.zeros((1, memory.asked.shape[1]), np.int64), memory.asked[sources["asked"][asking]]]
    )
    ended = 1 + np.flatnonzero(kinds[asking] >= r.ENDED)
    if len(ended):
        asked[ended, 2] = moved[r.SORTED][asked[ended, 2]]
    sources["asked"] = 0
    sources["asked"][asking] = np.arange(1, len(asked))
    vertices["first"] = ends - counts
    return vertices, sources, asked


def _copy_lists(
    links: Links, memory: r.RunMemory, marks: NDArray[np.uint8], moved: NDArray[np.int32]
) -> unlike.Lists:
    """Return the lists of the live entries."""
    live, width = int(marks.sum()) + 1, memory.values.shape[1]
    lists = unlike.Lists(
        np.zeros(live, r.ENTRY),
        np.zeros((live, width), np.int64),
        np.zeros((live, memory.back.shape[1]), np.int32),
        links.steps,
    )
    live_before = np.zeros(len(marks), np.int32)
    asked = np.empty(width, np.int64)
    arguments = links, memory, lists, marks, moved, asked, live_before
    call_briefly(_link_entries, len(marks), *arguments)
    return lists
