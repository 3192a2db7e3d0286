"""The state of the correlated runtime as arrays to be packed, and back.

Records are written as bytes of their known layouts. The kernels trust their arrays, so
`thaw_correlated` checks them first: every link leads into its array, and no chain of links
is a circle. Links of the newest version's spine (`up`, `last`) are worked out again.

Cost contract: linear in the state, which should have been collected just before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import kernel
from cernis.engine.correlated.runtime import CorrelatedEngine
from cernis.engine.dag import records as r
from cernis.engine.dag import unions
from cernis.engine.dag.collect import link_spines
from cernis.errors import StateError

_RECORDS = {
    "vertices": (r.VERTEX, r.VERTICES),
    "sources": (r.SOURCE, r.SOURCES),
    "nodes": (r.NODE, r.NODES),
    "entries": (r.ENTRY, r.ENTRIES),
    "branches": (r.BRANCH, r.BRANCHES),
}
_NUMBERS = {"values": np.int64, "back": np.int32, "asked": np.int64, "facts": np.int64}


def freeze_correlated(engine: CorrelatedEngine) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return (meta, arrays) of an engine that has just been collected, to be packed."""
    memory = engine.memory
    counters = memory.counters
    arrays: dict[str, NDArray[Any]] = {
        name: _to_bytes(getattr(memory, name)[: counters[place]])
        for name, (_, place) in _RECORDS.items()
    }
    arrays["facts"] = memory.facts[: counters[r.VERTICES]]
    arrays["values"] = memory.values[: counters[r.ENTRIES]]
    arrays["back"] = memory.back[: counters[r.ENTRIES]]
    arrays["asked"] = memory.asked[: counters[r.ASKED]]
    arrays["buckets"] = _to_bytes(memory.buckets)
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
    return [
        [[list(column) for column in domain] for domain in tables.domains],
        [repr(store) for store in tables.stores],
        [sorted(labels) for labels in tables.labels],
        len(tables.arrays.links.store),
        list(tables.ordered),
    ]


def _to_bytes(records: NDArray[np.void]) -> NDArray[np.uint8]:
    return np.frombuffer(np.ascontiguousarray(records).tobytes(), np.uint8)


def thaw_correlated(
    engine: CorrelatedEngine, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Put a fresh engine of the same query into a frozen state."""
    try:
        if meta.get("network") != _describe(engine):
            raise StateError(
                "the state was frozen by a version that plans this query differently; "
                "run the query on the stream from its beginning"
            )
        engine.reserve_codes([int(n) for n in meta["capacity"]])
        memory = _memory(engine, meta, arrays)
        if not _is_sound(engine, memory, int(meta["position"])):
            raise ValueError("its parts do not fit together")
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise StateError(f"the frozen state is damaged: {error}") from error
    link_spines(memory.nodes, memory.buckets, engine.bucket_kinds)
    engine.memory = memory
    engine.position, engine.bound = int(meta["position"]), int(meta["bound"])
    for place in (r.VERTICES, r.SOURCES, r.NODES, r.ENTRIES, r.BRANCHES, r.ASKED):
        engine.grow(place, 1)


def _memory(
    engine: CorrelatedEngine, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> r.RunMemory:
    fresh = engine.memory
    if list(engine.capacity) != [int(n) for n in meta["capacity"]]:
        raise ValueError("its buckets do not fit its keys")
    records: dict[str, Any] = {
        name: np.frombuffer(arrays[name].tobytes(), dtype).copy()
        for name, (dtype, _) in _RECORDS.items()
    }
    numbers: dict[str, Any] = {name: arrays[name].astype(dtype) for name, dtype in _NUMBERS.items()}
    counters = fresh.counters.copy()
    counters[r.RELEVANT] = int(arrays["counters"][r.RELEVANT])
    for name, (_, place) in _RECORDS.items():
        counters[place] = len(records[name])
    counters[r.ASKED] = len(numbers["asked"])
    return fresh._replace(
        counters=counters,
        **records,
        **numbers,
        buckets=np.frombuffer(arrays["buckets"].tobytes(), r.BUCKET).copy(),
        part_events=arrays["part_events"].astype(np.int64),
        part_bound=arrays["part_bound"].astype(np.int64),
    )


def _is_sound(engine: CorrelatedEngine, memory: r.RunMemory, read: int) -> bool:
    """Whether every link leads into its array, and none in a circle."""
    links = engine.tables.arrays.links
    size = {name: len(getattr(memory, name)) for name in _RECORDS}
    sources, entries = memory.sources, memory.entries
    if not (_is_inside(sources["link"], 0, len(links.store)) and len(memory.nodes) > 0):
        return False
    goal = np.array([size["nodes"], size["entries"], size["branches"]])
    by_bucket = goal[engine.bucket_kinds]
    by_source = goal[links.kind[links.store[sources["link"]]]]
    fits = (
        memory.values.shape == (size["entries"], engine.memory.values.shape[1])
        and memory.back.shape == (size["entries"], engine.memory.back.shape[1])
        and memory.facts.shape == (size["vertices"], len(engine.tables.facts))
        and memory.asked.ndim == 2
        and memory.asked.shape[1] == engine.memory.asked.shape[1]
        and min(size["vertices"], size["entries"], size["branches"], len(memory.asked)) > 0
        and len(memory.buckets) == len(by_bucket)
        and len(memory.part_events) == len(memory.part_bound) > 0
        and _is_inside(memory.vertices["position"], 0, max(read, 1))
        and _is_inside(memory.vertices["first"], 0, size["sources"] + 1)
        and _is_inside(memory.vertices["count"], 0, engine.tables.most_links + 1)
        and _is_inside(memory.vertices["first"] + memory.vertices["count"], 0, size["sources"] + 1)
        and _is_inside(memory.vertices["label"], 0, len(engine.tables.labels))
        and _is_inside(sources["at"], 0, by_source)
        and _is_inside(sources["asked"], 0, len(memory.asked))
        and all(_is_inside(memory.nodes[s], 0, size["nodes"]) for s in ("left", "right", "later"))
        and all(_is_inside(memory.branches[s], 0, size["branches"]) for s in ("left", "right"))
        and all(
            _is_inside(getattr(memory, name)["vertex"], 0, size["vertices"])
            for name in ("nodes", "entries", "branches")
        )
        and _is_inside(entries["store"], 0, max(1, len(links.kind)))
        and _is_inside(entries["before"], 0, np.maximum(np.arange(size["entries"]), 1))
        and _is_inside(memory.back, 0, np.maximum(np.arange(size["entries"]), 1)[:, None])
        and _is_inside(memory.buckets["root"], 0, by_bucket)
        and _is_inside(memory.buckets["before"], 0, by_bucket)
        and _is_inside(memory.buckets["part"], 0, len(memory.part_events))
        and _is_inside(memory.values, r.EQUALS_NOTHING, max([*engine.capacity, 1]))
    )
    return bool(fits) and _leads_to_earlier(engine, memory)


def _is_inside(numbers: NDArray[Any], low: int, below: int | NDArray[Any]) -> bool:
    return bool(((numbers >= low) & (numbers < below)).all())


def _leads_to_earlier(engine: CorrelatedEngine, memory: r.RunMemory) -> bool:
    """Whether a vertex gathers earlier vertices only, so that following links ends.

    Links inside one index always go down; the vertices they lead to are older than the
    version that a source asked for.
    """
    position = memory.vertices["position"]
    counts = memory.vertices["count"].astype(np.int64)
    owner = np.repeat(np.arange(len(counts)), counts)
    begins = np.repeat(memory.vertices["first"] - (np.cumsum(counts) - counts), counts)
    which = begins + np.arange(len(owner))
    if (memory.sources["version"][which] > position[owner]).any():
        return False
    latest = []
    for records, sides in (
        (memory.nodes, ("left", "right", "later")),
        (memory.entries, ("before",)),
        (memory.branches, ("left", "right")),
    ):
        children = np.stack([records[side] for side in sides], axis=1).astype(np.int64)
        own = position[records["vertex"]]
        own[0] = -1
        if not _raise_latest(children, own):
            return False
        latest.append(own)
    links = engine.tables.arrays.links
    return bool(_gathers_earlier(links, memory, which.astype(np.int64), *latest))


@kernel
def _gathers_earlier(links, memory, used, latest_n, latest_e, latest_b):
    """Whether every source leads to older vertices only."""
    for k in range(len(used)):
        source = memory.sources[used[k]]
        kind = links.kind[links.store[source["link"]]]
        at, version = source["at"], source["version"]
        if kind == r.UNLIKE and latest_e[at] >= version:
            return False
        if kind == r.SORTED and latest_b[at] >= version:
            return False
        while kind == r.UNION and at != 0:
            vertex = memory.nodes[at]["vertex"]
            if memory.vertices[vertex]["position"] >= version:
                return False
            if latest_n[memory.nodes[at]["left"]] >= version:
                return False
            at = unions.right_of(memory.nodes, at, version)
    return True


@kernel
def _raise_latest(children, latest):
    """Raise `latest` to the latest of all records below; return False if links form a circle."""
    size, width = children.shape
    degree = np.zeros(size, np.int64)
    for n in range(1, size):
        for w in range(width):
            degree[children[n, w]] += 1
    order = np.empty(size, np.int64)
    tail = 0
    for n in range(1, size):
        if degree[n] == 0:
            order[tail] = n
            tail += 1
    head = 0
    while head < tail:
        for w in range(width):
            child = children[order[head], w]
            degree[child] -= 1
            if child != 0 and degree[child] == 0:
                order[tail] = child
                tail += 1
        head += 1
    for k in range(tail - 1, -1, -1):
        for w in range(width):
            latest[order[k]] = max(latest[order[k]], latest[children[order[k], w]])
    return tail == size - 1
