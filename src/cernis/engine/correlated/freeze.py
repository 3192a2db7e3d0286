"""The state of correlation as arrays to be packed, and back.

Records are written as bytes of their known layouts. The kernels trust their arrays, so
what is thawed is checked before it is used: every link leads into its array, and no
chain of links leads back to where it began. Links of the newest version's spine (`up`,
`last`) are not believed but worked out again.

Cost contract: linear in the state, which should have been collected just before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import kernel
from cernis.engine.correlated import records as r
from cernis.engine.correlated.collect import spine_up
from cernis.engine.correlated.runtime import CorrelatedEngine
from cernis.errors import StateError

_RECORDS = {
    "vertices": (r.VERTEX, r.VERTICES),
    "sources": (r.SOURCE, r.SOURCES),
    "nodes": (r.NODE, r.NODES),
    "entries": (r.ENTRY, r.ENTRIES),
    "branches": (r.BRANCH, r.BRANCHES),
}
_NUMBERS = {"values": np.int64, "back": np.int32, "asked": np.int64}


def freeze_correlated(engine: CorrelatedEngine) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """(meta, arrays) of an engine that has just been collected."""
    memory = engine.memory
    counters = memory.counters
    arrays: dict[str, NDArray[Any]] = {
        name: memory_bytes(getattr(memory, name)[: counters[place]])
        for name, (_, place) in _RECORDS.items()
    }
    arrays["values"] = memory.values[: counters[r.ENTRIES]]
    arrays["back"] = memory.back[: counters[r.ENTRIES]]
    arrays["asked"] = memory.asked[: counters[r.ASKED]]
    arrays["buckets"] = memory_bytes(memory.buckets)
    arrays["part_events"] = memory.part_events
    arrays["part_bound"] = memory.part_bound
    arrays["counters"] = counters
    meta = {
        "position": engine.position,
        "bound": engine.bound,
        "capacity": engine.capacity,
        "network": description(engine),
    }
    return meta, arrays


def description(engine: CorrelatedEngine) -> list[Any]:
    """What the numbers in a state refer to."""
    network = engine.network
    return [
        [[list(column) for column in domain] for domain in network.domains],
        [repr(store) for store in network.stores],
        [sorted(labels) for labels in network.labels],
        len(network.net.link_store),
        list(network.ordered),
    ]


def memory_bytes(records: NDArray[np.void]) -> NDArray[np.uint8]:
    return np.frombuffer(np.ascontiguousarray(records).tobytes(), np.uint8)


def thaw_correlated(
    engine: CorrelatedEngine, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Puts a fresh engine of the same query into a frozen state."""
    try:
        if meta["network"] != description(engine):
            raise StateError(
                "the state was frozen by a version that plans this query differently; "
                "run the query on the stream from its beginning"
            )
        engine.reserve_codes([int(n) for n in meta["capacity"]])
        memory = _memory(engine, meta, arrays)
        if not _sound(engine, memory):
            raise ValueError("its parts do not fit together")
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise StateError(f"the frozen state is damaged: {error}") from error
    spine_up(engine.network.net, memory.nodes, memory.buckets, engine.store_of_bucket)
    engine.memory = memory
    engine.position, engine.bound = int(meta["position"]), int(meta["bound"])
    for place in (r.VERTICES, r.SOURCES, r.NODES, r.ENTRIES, r.BRANCHES, r.ASKED):
        engine.grow(place, 1)


def _memory(
    engine: CorrelatedEngine, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> r.Memory:
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


def _sound(engine: CorrelatedEngine, memory: r.Memory) -> bool:
    """Every link leads somewhere, and none in a circle."""
    net = engine.network.net
    size = {name: len(getattr(memory, name)) for name in _RECORDS}
    kinds = net.store_kind[net.link_store]
    sources, entries = memory.sources, memory.entries
    if not (_inside(sources["link"], 0, len(net.link_store)) and len(memory.nodes) > 0):
        return False
    goal = np.array([size["nodes"], size["entries"], size["branches"]])
    stores = engine.store_of_bucket
    fits = (
        memory.values.shape == (size["entries"], engine.memory.values.shape[1])
        and memory.back.shape == (size["entries"], engine.memory.back.shape[1])
        and memory.asked.ndim == 2
        and memory.asked.shape[1] == engine.memory.asked.shape[1]
        and min(size["vertices"], size["entries"], size["branches"], len(memory.asked)) > 0
        and len(memory.buckets) == len(stores)
        and len(memory.part_events) == len(memory.part_bound) > 0
        and _inside(memory.vertices["first"], 0, size["sources"] + 1)
        and _inside(memory.vertices["count"], 0, engine.network.most_links + 1)
        and _inside(memory.vertices["first"] + memory.vertices["count"], 0, size["sources"] + 1)
        and _inside(memory.vertices["label"], 0, len(engine.network.labels))
        and _inside(sources["at"], 0, goal[kinds[sources["link"]]] if len(sources) else 1)
        and _inside(sources["asked"], 0, len(memory.asked))
        and all(_inside(memory.nodes[s], 0, size["nodes"]) for s in ("left", "right", "later"))
        and all(_inside(memory.branches[s], 0, size["branches"]) for s in ("left", "right"))
        and all(
            _inside(getattr(memory, name)["vertex"], 0, size["vertices"])
            for name in ("nodes", "entries", "branches")
        )
        and _inside(entries["store"], 0, max(1, len(net.store_kind)))
        and _inside(entries["before"], 0, np.maximum(np.arange(size["entries"]), 1))
        and _inside(memory.back, 0, np.maximum(np.arange(size["entries"]), 1)[:, None])
        and _inside(memory.buckets["root"], 0, goal[net.store_kind[stores]] if len(stores) else 1)
        and _inside(memory.buckets["part"], 0, len(memory.part_events))
        and _codes_fit(engine, memory)
    )
    return bool(fits) and _acyclic(memory, kinds)


def _codes_fit(engine: CorrelatedEngine, memory: r.Memory) -> bool:
    most = max(engine.capacity, default=0)
    asked = memory.asked[memory.sources["asked"]]
    return _inside(memory.values, r.EQUALS_NOTHING, max(most, 1)) and bool(asked.ndim == 2)


def _inside(numbers: NDArray[Any], low: int, below: int | NDArray[Any]) -> bool:
    return bool(((numbers >= low) & (numbers < below)).all())


def _acyclic(memory: r.Memory, kinds: NDArray[np.int32]) -> bool:
    """Whether following records always ends; the four arrays are one graph."""
    sizes = [len(memory.vertices), len(memory.nodes), len(memory.entries), len(memory.branches)]
    base = np.cumsum([0, *sizes])
    sources = memory.sources
    owner = np.repeat(np.arange(sizes[0]), memory.vertices["count"])
    which = np.repeat(
        memory.vertices["first"] - np.cumsum(memory.vertices["count"]) + memory.vertices["count"],
        memory.vertices["count"],
    ) + np.arange(len(owner))
    used = sources[which] if len(which) else sources[:0]
    kind = kinds[used["link"]] if len(used) else np.empty(0, np.int64)
    edges = [(owner, base[1 + kind] + used["at"])]
    for records, at, sides in (
        (memory.nodes, 1, ("left", "right", "later")),
        (memory.entries, 2, ("before",)),
        (memory.branches, 3, ("left", "right")),
    ):
        here = base[at] + np.arange(len(records))
        edges += [(here, base[at] + records[side]) for side in sides]
        edges.append((here, base[0] + records["vertex"]))
    sources_, targets = (np.concatenate([e[i] for e in edges]).astype(np.int64) for i in (0, 1))
    nothing = np.isin(targets, base[:-1])  # record 0 of each array stands for nothing
    return bool(_drains(sources_[~nothing], targets[~nothing], int(base[-1])))


@kernel
def _drains(sources, targets, size):
    """Kahn's algorithm: every node can be taken away after those that point to it."""
    first = np.zeros(size + 1, np.int64)
    degree = np.zeros(size, np.int64)
    for e in range(len(sources)):
        first[sources[e] + 1] += 1
        degree[targets[e]] += 1
    for n in range(size):
        first[n + 1] += first[n]
    fill = first[:-1].copy()
    ordered = np.empty(len(targets), np.int64)
    for e in range(len(sources)):
        ordered[fill[sources[e]]] = targets[e]
        fill[sources[e]] += 1
    queue = np.empty(size, np.int64)
    tail = 0
    for n in range(size):
        if degree[n] == 0:
            queue[tail] = n
            tail += 1
    head = 0
    while head < tail:
        node = queue[head]
        head += 1
        for e in range(first[node], first[node + 1]):
            degree[ordered[e]] -= 1
            if degree[ordered[e]] == 0:
                queue[tail] = ordered[e]
                tail += 1
    return head == size
