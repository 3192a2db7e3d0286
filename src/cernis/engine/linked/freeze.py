"""The state of the linked runtime as arrays to be packed, and back.

Records are written as bytes of their known layouts, entries by what tells them apart: store,
partition, values, the root of their runs. Hash tables, heaps and spines are worked out again.
Search trees are written where a store has them; states of versions without them thaw as groups.
The kernels trust their arrays, so `thaw_linked` checks all of them first (`cernis.state`): every
link leads into its array, and a vertex gathers runs of earlier moments only.

Cost contract: linear in the state.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.engine.dag import records as r
from cernis.engine.dag.collect import link_spines
from cernis.engine.dag.links import BY_UNION
from cernis.engine.dag.sound import (
    check_apart,
    check_branches,
    check_nodes,
    check_versions,
    mark_below,
    raise_latest,
    to_bytes,
)
from cernis.engine.linked import runtime, trees
from cernis.engine.linked import waiting as w
from cernis.engine.linked.runtime import LinkedEngine
from cernis.engine.linked.step import LastMoments
from cernis.errors import StateError
from cernis.state import (
    MOST_EVENTS,
    Arrays,
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
}
_TREES = {"branches": (r.BRANCH, r.BRANCHES)}
_NAMELESS = (
    "programs",
    "transition_exit",
    "store_exit",
    "store_sorted",
    "order_operator",
    "store_again",
    "store_is_again",
    "store_ending",
    "store_home",
)
"""Tables that do not say what the numbers in a state stand for: programs hold codes."""


class ThawedTerms(NamedTuple):
    """The terms of a frozen state: their codes now, by those in the state, and all facts."""

    codes: NDArray[np.int32]
    facts: NDArray[np.void]


class Extent(NamedTuple):
    """How far a frozen stream has come: its moments, its partitions, the first row it holds."""

    moments: int
    keys: int
    first_row: int


def freeze_linked(engine: LinkedEngine) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return (meta, arrays) of an engine between two batches; partitions are `live_keys`."""
    engine.collect()
    dag, waiting, moments = engine.memory.dag, engine.memory.waiting, engine.memory.moments
    live, keys = np.flatnonzero(waiting.store >= 0), engine.live_keys()
    layouts = {**_RECORDS, **_TREES} if engine.is_sorted else _RECORDS
    arrays: dict[str, NDArray[Any]] = {
        name: to_bytes(getattr(dag, name)[: dag.counters[place]])
        for name, (_, place) in layouts.items()
    }
    if engine.is_sorted:
        arrays["asked"] = dag.asked[: dag.counters[r.ASKED]].copy()
    arrays["entry.store"] = waiting.store[live]
    arrays["entry.codes"] = waiting.codes[live]
    arrays["entry.root"] = dag.buckets["root"][live]
    arrays["entry.ordinal"] = dag.buckets["ordinal"][live]
    if engine.partitioned:
        arrays["entry.part"] = np.searchsorted(keys, waiting.part[live]).astype(np.int32)
        arrays["moments.last"], arrays["moments.before"] = (one[keys] for one in moments)
    meta = {
        "position": engine.position,
        "bound": engine.bound,
        "moment": engine.moment,
        "network": describe_tables(engine),
    }
    if engine.is_sorted:
        meta["trees"] = True
    if engine.has_rounds:
        meta["rounds"] = True
        arrays["entry.rounds"] = dag.buckets["before"][live]
    if engine.has_ended:
        is_plain = waiting.sort[live] == trees.PLAIN
        arrays["entry.ready"] = np.where(is_plain, 0, dag.buckets["last"][live])
        arrays["entry.taken"] = np.where(is_plain, 0, dag.buckets["part"][live])
    return meta, arrays


def describe_tables(engine: LinkedEngine) -> str:
    """Return a short name of what the numbers in a state stand for."""
    digest = hashlib.sha256()
    tables: dict[str, NDArray[Any]] = engine.tables._asdict()
    for name, array in tables.items():
        # where a step ends rounds, states of before have groups and trees in other stores
        is_named = name not in _NAMELESS or (name == "store_ending" and engine.has_ended)
        if is_named:
            digest.update(f"{name} {array.dtype.str} {array.shape}".encode() + array.tobytes())
    return digest.hexdigest()[:16]


def thaw_linked(
    engine: LinkedEngine,
    meta: Mapping[str, Any],
    arrays: Arrays,
    terms: ThawedTerms,
    extent: Extent,
) -> None:
    """Put a fresh engine of the same query into a frozen state."""
    if meta.get("network") != describe_tables(engine):
        raise StateError(
            "the state was frozen by a version that plans this query differently; "
            "run the query on the stream from its beginning"
        )
    position = check_number(meta.get("position"), "the position", 0, MOST_EVENTS)
    bound = check_number(meta.get("bound"), "the bound of the window")
    moment = check_number(meta.get("moment"), "the moment", 0, max(extent.moments, 1))
    records: dict[str, Any] = {
        name: read_records(arrays, name, dtype) for name, (dtype, _) in _RECORDS.items()
    }
    fresh = engine.memory.dag
    asked = np.zeros((1, fresh.asked.shape[1]), np.int64)
    records["branches"] = np.zeros(1, r.BRANCH)
    if engine.is_sorted and meta.get("trees") is True:
        records["branches"] = read_records(arrays, "branches", r.BRANCH)
        asked = read_array(arrays, "asked", np.int64, (None, asked.shape[1])).copy()
    records["asked"] = asked
    for name in ("vertices", "nodes", "branches", "asked"):
        first = records[name][:1]
        require(len(first) > 0 and not any(first.tobytes()), f"{name!r} has no empty first record")
    require(is_inside(records["nodes"]["group"], 0, 2**31), "'nodes' have no groups")
    _check_vertices(engine, records, position, extent)
    _check_runs(engine, records, extent)
    sizes = len(records["nodes"]), len(records["branches"]), len(terms.codes)
    waiting, buckets = _read_entries(engine, arrays, sizes, extent)
    used = int(waiting.counters[w.USED])
    is_plain = waiting.sort == trees.PLAIN
    if engine.has_rounds and meta.get("rounds") is True:
        kept = read_array(
            arrays, "entry.rounds", np.int32, (used - 1,), low=0, below=len(records["branches"])
        )
        buckets["before"][1:used] = np.where(is_plain[1:used], 0, kept)
    if engine.has_ended:
        _read_ended(engine, arrays, waiting, buckets, len(records["branches"]))
    _check_rounds(engine, records, buckets)
    check_apart(records["nodes"], buckets["root"][is_plain])
    last = before = np.empty(0, np.int64)
    if engine.partitioned:
        last, before = (
            read_array(arrays, f"moments.{name}", np.int64, (extent.keys,), low=-2)
            for name in ("last", "before")
        )
    known = np.append(terms.codes, np.full(1 + trees.SORTS, -1, np.int32))  # for negative places
    codes = waiting.codes[1:used]
    waiting.codes[1:used] = np.where(codes < 0, codes, known[codes])
    waiting.group[is_plain] = records["nodes"]["group"][buckets["root"][is_plain]]
    waiting.counters[w.GROUPS] = records["nodes"]["group"].max(initial=0)
    w.thaw_entries(engine.tables, waiting, terms.facts)
    ending = np.append(engine.tables.store_ending, -1)[waiting.store] >= 0
    kinds = np.where(is_plain, r.UNION, np.where(ending, r.ENDED, r.SORTED))
    link_spines(records["nodes"], buckets, kinds.astype(np.int32))
    counters = fresh.counters.copy()
    for name, (_, place) in {**_RECORDS, **_TREES}.items():
        counters[place] = len(records[name])
    counters[r.ASKED] = len(asked)
    facts = np.zeros((len(records["vertices"]), fresh.facts.shape[1]), np.int64)
    dag = fresh._replace(counters=counters, buckets=buckets, facts=facts, **records)
    engine.memory = engine.memory._replace(
        dag=dag, waiting=waiting, moments=LastMoments(last.copy(), before.copy())
    )
    engine.position, engine.bound, engine.moment = position, bound, moment
    engine.reserve()


def _check_vertices(
    engine: LinkedEngine, records: Mapping[str, NDArray[np.void]], position: int, extent: Extent
) -> None:
    """Vertices come in the order of their rows, and have their sources one after the other."""
    vertices = records["vertices"]
    at, counts = vertices["position"][1:], vertices["count"].astype(np.int64)
    labels = int(engine.tables.transition_label.max(initial=0)) + 1
    require(
        is_inside(at, extent.first_row, position)
        and bool((np.diff(at) >= 0).all())
        and is_inside(vertices["label"], 0, labels)
        and is_inside(counts, 0, 2)
        and is_inside(vertices["rank"], 0, MOST_EVENTS)
        and int(counts.sum()) == len(records["sources"])
        and bool((vertices["first"] == np.cumsum(counts) - counts).all()),
        "'vertices' are not in order",
    )


def _check_runs(
    engine: LinkedEngine, records: Mapping[str, NDArray[np.void]], extent: Extent
) -> None:
    """A vertex gathers runs of earlier moments only, so that following sources ends.

    A vertex that begins a match leads nowhere, and counts as made before all others.
    """
    vertices, sources, nodes = (records[name] for name in _RECORDS)
    branches, asked = records["branches"], records["asked"]
    vertex, planted = nodes["vertex"], branches["vertex"]
    # a branch outside the window may stay between others, without its vertex
    rooted = planted != 0
    require(
        is_inside(vertex[1:], 1, len(vertices))
        and bool((nodes["start"] == vertices["start"][vertex])[1:].all()),
        "'nodes' do not belong to vertices",
    )
    begin = vertices["position"] - vertices["rank"]
    require(
        is_inside(planted, 0, len(vertices))
        and bool(
            (
                (branches["start"] == vertices["start"][planted])
                | (branches["start"] == begin[planted])
            )[rooted].all()
        ),
        "'branches' do not belong to vertices",
    )
    check_nodes(nodes)
    check_branches(branches)
    owner = np.repeat(np.arange(len(vertices)), vertices["count"])
    moments = np.full(len(vertices), -1, np.int64)
    moments[owner] = sources["version"]
    require(
        is_inside(sources["link"], 0, len(engine.links.store))
        and is_inside(sources["asked"], 0, len(asked)),
        "a source leads nowhere",
    )
    require(
        is_inside(sources["version"], 0, max(extent.moments, 1)),
        "a source leads to no run before it",
    )
    ranges = sources["link"] != BY_UNION
    for mine, made, starts in (
        (~ranges, check_versions(nodes, moments), nodes["start"]),
        (ranges, raise_latest(branches, ("left", "right"), moments), branches["best"]),
    ):
        at, start = sources["at"][mine], vertices["start"][owner[mine]]
        require(
            is_inside(at, 1, len(made))
            and bool((made[at] < sources["version"][mine]).all())
            and bool((starts[at] >= start).all()),
            "a source leads to no run before it",
        )
    at = sources["at"][~ranges]
    require(
        bool((nodes["start"][at] == vertices["start"][owner[~ranges]]).all())
        and not sources["asked"][~ranges].any()
        and bool((sources["asked"][ranges] > 0).all()),
        "a source leads to no run before it",
    )


def _read_ended(
    engine: LinkedEngine,
    arrays: Arrays,
    waiting: w.WaitingRuns,
    buckets: NDArray[np.void],
    branches: int,
) -> None:
    """Read the trees of runs that are ready, and of the rows that took some."""
    used = int(waiting.counters[w.USED])
    ended = (waiting.sort != trees.PLAIN)[1:used]
    ended &= engine.tables.store_ending[waiting.store[1:used]] >= 0
    for name, field in (("entry.ready", "last"), ("entry.taken", "part")):
        kept = read_array(arrays, name, np.int32, (used - 1,), low=0, below=branches)
        require(not kept[~ended].any(), "a group without rounds has ended some")
        buckets[field][1:used] = kept


def _check_rounds(
    engine: LinkedEngine, records: Mapping[str, NDArray[np.void]], buckets: NDArray[np.void]
) -> None:
    """Rounds are vertices that name the rounds before them, which are of earlier moments."""
    vertices, sources, branches = (records[name] for name in ("vertices", "sources", "branches"))
    kinds = engine.links.kind[engine.links.store[sources["link"]]]
    mine, ended = kinds >= r.ROUNDS, kinds >= r.ENDED
    owner = np.repeat(np.arange(len(vertices)), vertices["count"])
    moments = np.full(len(vertices), -1, np.int64)
    moments[owner] = sources["version"]
    is_round = np.zeros(len(vertices), np.bool_)
    is_round[owner[mine & ~ended]] = True
    before, version = sources["group"][mine], sources["version"][mine]
    if engine.has_ended:
        before = np.append(before, records["asked"][sources["asked"][ended], 2])
        version = np.append(version, sources["version"][ended])
    require(
        bool(engine.has_ended or not ended.any()) and is_inside(before, 0, len(branches)),
        "a round leads nowhere",
    )
    made = raise_latest(branches, ("left", "right"), moments)
    roots = [buckets["before"], buckets["part"], before]
    below = mark_below(branches, np.concatenate(roots))
    planted, begin = branches["vertex"][below], vertices["position"] - vertices["rank"]
    require(
        bool((made[before] < version).all())
        and bool(
            (is_round[planted] & (branches["start"][below] == begin[planted]))[planted != 0].all()
        ),
        "a round leads to none before it",
    )


def _read_entries(
    engine: LinkedEngine, arrays: Arrays, sizes: tuple[int, int, int], extent: Extent
) -> tuple[w.WaitingRuns, NDArray[np.void]]:
    """Return the entries, without their chains, and their buckets.

    `sizes`: nodes, branches and terms.
    """
    nodes, branches, terms = sizes
    tables, columns = engine.tables, engine.memory.waiting.codes.shape[1]
    stores = len(tables.store_link)
    store = read_array(arrays, "entry.store", np.int32, low=0, below=stores)
    number = len(store)
    least = -1 - trees.SORTS
    codes = read_array(arrays, "entry.codes", np.int32, (number, columns), low=least, below=terms)
    root = read_array(arrays, "entry.root", np.int32, (number,), low=1)
    ordinal = read_array(
        arrays, "entry.ordinal", np.int64, (number,), low=0, below=max(extent.moments, 1)
    )
    kept = np.zeros((stores, columns), np.bool_)
    kept[np.repeat(np.arange(stores), np.diff(tables.store_first)), tables.store_columns] = True
    is_sorted = np.arange(columns) == tables.store_sorted[store].reshape(-1, 1)
    sort = np.where(is_sorted & (codes < -1), -2 - codes, trees.PLAIN).max(axis=1, initial=-1)
    require(
        bool((codes >= -1)[~is_sorted].all())
        and is_inside(root, 1, np.where(sort == trees.PLAIN, nodes, branches)),
        "a group has no runs",
    )
    whole = np.concatenate([store.reshape(-1, 1), codes], axis=1)
    require(
        number < runtime.MOST_ENTRIES // 2
        and len(np.unique(whole, axis=0)) == number
        and bool((codes == -1)[~kept[store]].all()),
        "its groups of runs are not apart",
    )
    size = runtime.FIRST_ENTRIES
    while size < 2 * (number + 1):
        size *= 2
    waiting = w.new_waiting_runs(size, columns, tables.index_of.shape[1])
    used = slice(1, number + 1)
    waiting.store[used], waiting.codes[used], waiting.sort[used] = store, codes, sort
    if engine.partitioned:
        waiting.part[used] = read_array(
            arrays, "entry.part", np.int32, (number,), low=0, below=extent.keys
        )
    waiting.counters[w.USED], waiting.counters[w.LIVE] = number + 1, number
    buckets = np.zeros(size, r.BUCKET)
    buckets["root"][used], buckets["ordinal"][used] = root, ordinal
    return waiting, buckets
