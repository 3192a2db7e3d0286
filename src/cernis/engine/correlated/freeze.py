"""The state of the correlated runtime as arrays to be packed, and back.

Records are written as bytes of their known layouts. The kernels trust their arrays, so
`thaw_correlated` checks all of them first (`cernis.state`): every link leads into its array, a
vertex gathers earlier vertices only, trees are in order. Links of the newest version's spine (`up`,
`last`) are worked out again.

Cost contract: linear in the state, which should have been collected just before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cernis.engine.correlated.runtime import CorrelatedEngine
from cernis.engine.dag import records as r
from cernis.engine.dag.collect import link_spines
from cernis.engine.dag.sound import (
    check_apart,
    check_branches,
    check_nodes,
    check_versions,
    raise_latest,
    to_bytes,
)
from cernis.errors import StateError
from cernis.pattern.write import write_gap
from cernis.state import (
    MOST_EVENTS,
    Arrays,
    check_list,
    check_number,
    is_inside,
    read_array,
    read_records,
    require,
)

_RECORDS = {
    "vertices": (r.VERTEX, r.VERTICES),
    "sources": (r.SOURCE, r.SOURCES),
    "nodes": (r.NODE, r.NODES),
    "entries": (r.ENTRY, r.ENTRIES),
    "branches": (r.BRANCH, r.BRANCHES),
}


def freeze_correlated(engine: CorrelatedEngine) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return (meta, arrays) of an engine that has just been collected, to be packed."""
    memory = engine.memory
    counters = memory.counters
    arrays: dict[str, NDArray[Any]] = {
        name: to_bytes(getattr(memory, name)[: counters[place]])
        for name, (_, place) in _RECORDS.items()
    }
    arrays["facts"] = memory.facts[: counters[r.VERTICES]]
    arrays["values"] = memory.values[: counters[r.ENTRIES]]
    arrays["back"] = memory.back[: counters[r.ENTRIES]]
    arrays["asked"] = memory.asked[: counters[r.ASKED]]
    arrays["buckets"] = to_bytes(memory.buckets)
    arrays["part_events"] = memory.part_events
    arrays["part_bound"] = memory.part_bound
    arrays["counters"] = counters
    meta = {
        "position": engine.position,
        "bound": engine.bound,
        "capacity": engine.capacity,
        "network": _describe(engine),
    }
    return meta, arrays


def _describe(engine: CorrelatedEngine) -> list[Any]:
    """Return the names that the numbers in a state stand for."""
    tables = engine.tables
    earliest = ["from the earliest start"] if engine.settings.from_earliest else []
    sinces = [write_gap(gap) if gap else "" for gap in tables.sinces]
    timed = [sinces] if tables.is_timed else []
    return [
        [[list(column) for column in domain] for domain in tables.domains],
        [repr(store) for store in tables.stores],
        [sorted(labels) for labels in tables.labels],
        len(tables.arrays.links.store),
        list(tables.ordered),
        *earliest,
        *timed,
    ]


def thaw_correlated(engine: CorrelatedEngine, meta: Mapping[str, Any], arrays: Arrays) -> None:
    """Put a fresh engine of the same query into a frozen state."""
    if meta.get("network") != _describe(engine):
        raise StateError(
            "the state was frozen by a version that plans this query differently; "
            "run the query on the stream from its beginning"
        )
    position = check_number(meta.get("position"), "the position", 0, MOST_EVENTS)
    bound = check_number(meta.get("bound"), "the bound of the window")
    domains = len(engine.capacity)
    capacity = [
        check_number(size, "the number of keys", 0, r.MOST_RECORDS)
        for size in check_list(meta.get("capacity"), "the number of keys", domains)
    ]
    buckets = read_records(arrays, "buckets", r.BUCKET)
    require(
        len(buckets) == sum(capacity[domain] for domain in engine.tables.store_domain),
        "its buckets do not fit its keys",
    )
    engine.reserve_codes(capacity)
    require(engine.capacity == capacity, "its buckets do not fit its keys")
    memory = _read_memory(engine, arrays, buckets, position)
    _check_vertices(engine, memory, position)
    check_nodes(memory.nodes)
    _check_lists(engine, memory)
    check_branches(memory.branches)
    _check_codes(engine, memory)
    _check_sources(engine, memory)
    _check_buckets(engine, memory)
    link_spines(memory.nodes, memory.buckets, engine.bucket_kinds)
    engine.memory = memory
    engine.position, engine.bound = position, bound
    for place in (r.VERTICES, r.SOURCES, r.NODES, r.ENTRIES, r.BRANCHES, r.ASKED):
        engine.grow(place, 1)


def _read_memory(
    engine: CorrelatedEngine, arrays: Arrays, buckets: NDArray[np.void], position: int
) -> r.RunMemory:
    """Return the arrays, each of its type and shape; record 0 of each is empty."""
    fresh = engine.memory
    records: dict[str, Any] = {
        name: read_records(arrays, name, dtype) for name, (dtype, _) in _RECORDS.items()
    }
    vertices, entries = len(records["vertices"]), len(records["entries"])
    numbers: dict[str, Any] = {
        "facts": read_array(arrays, "facts", np.int64, (vertices, fresh.facts.shape[1])),
        "values": read_array(arrays, "values", np.int64, (entries, fresh.values.shape[1])),
        "back": read_array(arrays, "back", np.int32, (entries, fresh.back.shape[1])),
        "asked": read_array(arrays, "asked", np.int64, (None, fresh.asked.shape[1])),
        "part_events": read_array(arrays, "part_events", np.int64, low=0, below=position + 1),
    }
    parts = len(numbers["part_events"])
    numbers["part_bound"] = read_array(arrays, "part_bound", np.int64, (parts,))
    require(parts > 0, "'part_events' is empty")
    for name in ("vertices", "nodes", "entries", "branches", "asked"):
        array = records[name] if name in records else numbers[name]
        require(
            len(array) > 0 and not any(array[:1].tobytes()), f"{name!r} has no empty first record"
        )
    counters = fresh.counters.copy()
    relevant = read_array(arrays, "counters", np.int64, (r.COUNTERS,))[r.RELEVANT]
    counters[r.RELEVANT] = check_number(int(relevant), "'counters'", 0, position + 1)
    for name, (_, place) in _RECORDS.items():
        counters[place] = len(records[name])
    counters[r.ASKED] = len(numbers["asked"])
    return fresh._replace(counters=counters, buckets=buckets, **records, **numbers)


def _check_vertices(engine: CorrelatedEngine, memory: r.RunMemory, position: int) -> None:
    """Vertices come in the order of their events, and have the sources one after the other."""
    vertices, tables = memory.vertices, engine.tables
    at, counts = vertices["position"], vertices["count"].astype(np.int64)
    require(
        is_inside(at, 0, max(position, 1))
        and bool((np.diff(at[1:]) >= 0).all())
        and is_inside(vertices["label"], 0, max(len(tables.labels), 1))
        and is_inside(counts, 0, tables.most_links + 1)
        and int(counts.sum()) == len(memory.sources)
        and bool((vertices["first"] == np.cumsum(counts) - counts).all()),
        "'vertices' are not in order",
    )
    for name in ("nodes", "entries", "branches"):
        records = getattr(memory, name)
        vertex = records["vertex"]
        # a branch outside the window may stay between others, without its vertex
        bare = vertex == 0 if name == "branches" else np.arange(len(records)) == 0
        # where a gap stands beside an order, a branch has the time of the last event instead
        starts = name != "branches" or not tables.is_recent
        require(
            is_inside(vertex, 0, len(vertices))
            and bool((vertex[~bare] > 0).all())
            and (not starts or bool((records["start"] == vertices["start"][vertex])[~bare].all())),
            f"{name!r} do not belong to vertices",
        )


def _check_lists(engine: CorrelatedEngine, memory: r.RunMemory) -> None:
    """Entries come in the order of their events, and lead to entries before them."""
    entries = memory.entries
    before = entries["before"]
    below = np.maximum(np.arange(len(entries)), 1)
    require(
        is_inside(entries["store"], 0, max(1, len(engine.tables.stores)))
        and is_inside(before, 0, below)
        and is_inside(memory.back, 0, below[:, None]),
        "an entry leads nowhere",
    )
    start = entries["start"]
    best = np.where(before != 0, np.maximum(start, entries["best"][before]), start)
    require(
        bool((entries["best"] == best).all())
        and bool((np.diff(memory.vertices["position"][entries["vertex"]][1:]) >= 0).all()),
        "'entries' are not in order",
    )


def _check_codes(engine: CorrelatedEngine, memory: r.RunMemory) -> None:
    """Codes of compared values are codes of their domains."""
    links, sources = engine.tables.arrays.links, memory.sources
    require(
        is_inside(sources["link"], 0, len(links.store))
        and is_inside(sources["asked"], 0, len(memory.asked)),
        "a source leads nowhere",
    )
    for domain, name, place in engine.places_of_codes(memory):
        require(
            is_inside(
                getattr(memory, name)[place], r.EQUALS_NOTHING, max(engine.capacity[domain], 1)
            ),
            "a compared value has no code",
        )


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
