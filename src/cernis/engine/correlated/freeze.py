"""The state of the correlated runtime as a declared record, and back.

`FrozenRuns` declares the type and bounds of every array, and the checks below have the relations
between them: a vertex gathers earlier vertices only, trees are in order. The kernels trust their
arrays. Links of the newest version's spine (`up`, `last`) are worked out again.

Cost contract: linear in the state, which should have been collected just before.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cernis.engine.correlated.runtime import CorrelatedEngine
from cernis.engine.dag import records as r
from cernis.engine.dag.collect import link_spines
from cernis.engine.dag.sound import (
    check_apart,
    check_branches,
    check_first,
    check_network,
    check_nodes,
    check_versions,
    raise_latest,
)
from cernis.pattern.write import write_gap
from cernis.state import (
    MOST_EVENTS,
    Sizes,
    Tree,
    array,
    at_least_one,
    frozen_record,
    is_inside,
    listed,
    number,
    read,
    require,
    text,
    write,
)

Ints = NDArray[np.int64]

_COUNTED = {
    "vertices": r.VERTICES,
    "facts": r.VERTICES,
    "sources": r.SOURCES,
    "nodes": r.NODES,
    "entries": r.ENTRIES,
    "values": r.ENTRIES,
    "back": r.ENTRIES,
    "branches": r.BRANCHES,
    "asked": r.ASKED,
}
"""The arrays of records, and the counters of these."""


def _list_earlier(sizes: Sizes) -> Ints:
    """Return how many entries come before each entry; entry 0 leads to itself."""
    return np.maximum(np.arange(sizes["entries"]), 1)


@frozen_record
class FrozenRuns:
    """The runs of an engine. Index 0 of every array but `sources` is empty."""

    network: str = text()
    """A digest of what the numbers stand for (`_describe`)."""
    position: int = number(0, MOST_EVENTS)
    bound: int = number()
    relevant: int = number(0, "position+1")
    capacity: list[int] = listed(number(0, r.MOST_RECORDS), "domains")
    vertices: NDArray[np.void] = array(
        r.VERTEX,
        "vertices",
        columns={
            "position": (0, at_least_one("position")),
            "label": (0, at_least_one("labels")),
            "count": (0, "most_links+1"),
        },
    )
    facts: Ints = array(np.int64, "vertices", "fact_columns")
    asked: Ints = array(np.int64, "asked", "asked_columns")
    sources: NDArray[np.void] = array(
        r.SOURCE, "sources", columns={"link": (0, "links"), "asked": (0, "asked")}
    )
    nodes: NDArray[np.void] = array(r.NODE, "nodes", columns={"vertex": (0, "vertices")})
    entries: NDArray[np.void] = array(
        r.ENTRY,
        "entries",
        columns={
            "vertex": (0, "vertices"),
            "store": (0, at_least_one("stores")),
            "before": (0, _list_earlier),
        },
    )
    values: Ints = array(np.int64, "entries", "value_columns")
    back: NDArray[np.int32] = array(
        np.int32,
        "entries",
        "back_columns",
        low=0,
        below=lambda sizes: _list_earlier(sizes)[:, None],
    )
    branches: NDArray[np.void] = array(r.BRANCH, "branches", columns={"vertex": (0, "vertices")})
    part_events: Ints = array(np.int64, "parts", low=0, below="position+1")
    part_bound: Ints = array(np.int64, "parts")
    buckets: NDArray[np.void] = array(r.BUCKET, "buckets", columns={"part": (0, "parts")})

    def check(self, sizes: Sizes) -> None:
        require(len(self.part_events) > 0, "'part_events' is empty")
        for name in ("vertices", "nodes", "entries", "branches", "asked"):
            check_first(getattr(self, name), name)


def freeze_correlated(engine: CorrelatedEngine) -> Tree:
    """Return the state of an engine that has just been collected."""
    memory = engine.memory
    records: dict[str, Any] = {
        name: getattr(memory, name)[: memory.counters[counter]]
        for name, counter in _COUNTED.items()
    }
    return write(
        FrozenRuns(
            network=_describe(engine),
            position=engine.position,
            bound=engine.bound,
            relevant=memory.counters[r.RELEVANT],
            capacity=engine.capacity,
            buckets=memory.buckets,
            part_events=memory.part_events,
            part_bound=memory.part_bound,
            **records,
        )
    )


def _describe(engine: CorrelatedEngine) -> str:
    """Return a digest of the names that the numbers in a state stand for."""
    tables = engine.tables
    names = [
        tables.domains,
        [repr(store) for store in tables.stores],
        [sorted(labels) for labels in tables.labels],
        len(tables.arrays.links.store),
        list(tables.ordered),
        engine.settings.from_earliest,
        [write_gap(gap) if gap else "" for gap in tables.sinces] if tables.is_timed else None,
    ]
    return hashlib.sha256(json.dumps(names).encode()).hexdigest()[:16]


def thaw_correlated(engine: CorrelatedEngine, tree: Tree) -> None:
    """Put a fresh engine of the same query into a frozen state."""
    check_network(tree, _describe(engine))
    tables, fresh = engine.tables, engine.memory
    frozen = read(
        FrozenRuns,
        tree,
        domains=len(engine.capacity),
        labels=len(tables.labels),
        most_links=tables.most_links,
        links=len(tables.arrays.links.store),
        stores=len(tables.stores),
        fact_columns=fresh.facts.shape[1],
        value_columns=fresh.values.shape[1],
        back_columns=fresh.back.shape[1],
        asked_columns=fresh.asked.shape[1],
    )
    require(
        len(frozen.buckets) == sum(frozen.capacity[domain] for domain in tables.store_domain),
        "its buckets do not fit its keys",
    )
    engine.reserve_codes(frozen.capacity)
    require(engine.capacity == frozen.capacity, "its buckets do not fit its keys")
    counters = fresh.counters.copy()
    counters[r.RELEVANT] = frozen.relevant
    for name, counter in _COUNTED.items():
        counters[counter] = len(getattr(frozen, name))
    memory = engine.memory._replace(
        counters=counters,
        buckets=frozen.buckets,
        part_events=frozen.part_events,
        part_bound=frozen.part_bound,
        **{name: getattr(frozen, name) for name in _COUNTED},
    )
    _check_vertices(engine, memory)
    check_nodes(memory.nodes)
    _check_lists(memory, tables.has_middles)
    check_branches(memory.branches)
    _check_codes(engine, memory)
    _check_sources(engine, memory)
    _check_buckets(engine, memory)
    link_spines(memory.nodes, memory.buckets, engine.bucket_kinds)
    engine.memory = memory
    engine.position, engine.bound = frozen.position, frozen.bound
    for counter in (r.VERTICES, r.SOURCES, r.NODES, r.ENTRIES, r.BRANCHES, r.ASKED):
        engine.grow(counter, 1)


def _check_vertices(engine: CorrelatedEngine, memory: r.RunMemory) -> None:
    """Vertices come in the order of their events, and have the sources one after the other.

    Those that wait once more come later (`middles.copy_run`).
    """
    vertices = memory.vertices
    renews = bool((engine.tables.arrays.store_stages[:, 8] >= 0).any())
    counts = vertices["count"].astype(np.int64)
    require(
        (renews or bool((np.diff(vertices["position"][1:]) >= 0).all()))
        and int(counts.sum()) == len(memory.sources)
        and bool((vertices["first"] == np.cumsum(counts) - counts).all()),
        "'vertices' are not in order",
    )
    for name in ("nodes", "entries", "branches"):
        records = getattr(memory, name)
        vertex = records["vertex"]
        # a branch outside the window may stay between others, without its vertex
        bare = vertex == 0 if name == "branches" else np.arange(len(records)) == 0
        # beside a gap, a branch has the time of the last event; a waiting one when it came
        tables = engine.tables
        starts = name != "branches" or not (tables.is_recent or len(tables.arrays.dones) > 0)
        require(
            bool((vertex[~bare] > 0).all())
            and (not starts or bool((records["start"] == vertices["start"][vertex])[~bare].all())),
            f"{name!r} do not belong to vertices",
        )


def _check_lists(memory: r.RunMemory, has_middles: bool) -> None:
    """Entries come in the order of their events, unless they have waited, with the latest start."""
    entries = memory.entries
    before, start = entries["before"], entries["start"]
    filed = memory.vertices["position"][entries["vertex"]][1:]
    best = np.where(before != 0, np.maximum(start, entries["best"][before]), start)
    require(
        bool((entries["best"] == best).all())
        and (has_middles or bool((np.diff(filed) >= 0).all())),
        "'entries' are not in order",
    )


def _check_codes(engine: CorrelatedEngine, memory: r.RunMemory) -> None:
    """Codes of compared values are codes of their domains."""
    for domain, name, index in engine.list_codes(memory):
        codes, most = getattr(memory, name)[index], max(engine.capacity[domain], 1)
        require(is_inside(codes, r.EQUALS_NOTHING, most), "a compared value has no code")


def _check_sources(engine: CorrelatedEngine, memory: r.RunMemory) -> None:
    """A vertex gathers vertices of earlier events only, so that following sources ends."""
    links, vertices, sources = engine.tables.arrays.links, memory.vertices, memory.sources
    at, position = sources["at"], vertices["position"]
    owner = np.repeat(np.arange(len(vertices)), vertices["count"])
    require(bool((sources["version"] <= position[owner]).all()), "a source is of a later event")
    kinds = links.kind[links.store[sources["link"]]]
    nodes, entries, branches = memory.nodes, memory.entries, memory.branches
    made = check_versions(nodes, position)
    latest = raise_latest(branches, ("left", "right"), position)
    filed = position[entries["vertex"]]
    tables = engine.tables.arrays
    begins = np.repeat(tables.transition_begins, tables.transition_count)[sources["link"]] != 0
    start = np.where(begins, r.NOTHING, vertices["start"][owner])
    # of a list, the runs that a source can use may all have left the window
    for kind, first, ends, starts in (
        (r.UNION, 1, made, nodes["start"]),
        (r.UNLIKE, 0, filed, None),
        (r.SORTED, 1, latest, branches["best"]),
        (r.RECENT, 1, latest, None),
    ):
        mine = kinds == kind
        where = at[mine]
        require(
            is_inside(where, np.where(begins[mine], 0, first), len(ends))
            and bool((ends[where] < sources["version"][mine])[where != 0].all())
            and (starts is None or bool((starts[where] >= start[mine])[where != 0].all())),
            "a source leads to no run before it",
        )


def _check_buckets(engine: CorrelatedEngine, memory: r.RunMemory) -> None:
    """A bucket has runs of its own; its root is on the right side of no other node."""
    buckets, nodes = memory.buckets, memory.nodes
    sizes = np.array([len(nodes), len(memory.entries), *2 * [len(memory.branches)]])
    below = sizes[engine.bucket_kinds]
    require(
        is_inside(buckets["root"], 0, below)
        and is_inside(buckets["before"], 0, below)
        and is_inside(buckets["part"], 0, len(memory.part_events)),
        "a bucket leads nowhere",
    )
    check_apart(nodes, buckets["root"][engine.bucket_kinds == r.UNION])
