"""The state of the linked runtime as a declared record, and back.

Entries are written by what tells them apart: store, partition, values, the root of their runs. Hash
tables, heaps and spines are worked out again. `FrozenLinks` declares the type and bounds of every
array, and the checks below have the relations between them: every link leads into its array, and a
vertex gathers runs of earlier moments only. The kernels trust their arrays.

Cost contract: linear in the state.
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.engine.dag import records as r
from cernis.engine.dag.collect import link_spines
from cernis.engine.dag.links import BY_UNION
from cernis.engine.dag.sound import (
    check_apart,
    check_branches,
    check_first,
    check_network,
    check_nodes,
    check_versions,
    mark_below,
    raise_latest,
)
from cernis.engine.linked import runtime, trees
from cernis.engine.linked import waiting as w
from cernis.engine.linked.runtime import LinkedEngine
from cernis.engine.linked.step import LastMoments
from cernis.state import (
    MOST_EVENTS,
    Sizes,
    Tree,
    array,
    at_least_one,
    frozen_record,
    is_inside,
    nested,
    number,
    optional,
    read,
    require,
    text,
    write,
)

Ints = NDArray[np.int64]
Numbers = NDArray[np.int32]

_COUNTED = {
    "vertices": r.VERTICES,
    "sources": r.SOURCES,
    "nodes": r.NODES,
    "branches": r.BRANCHES,
    "asked": r.ASKED,
}
"""The arrays of records, and their counters."""


class ThawedTerms(NamedTuple):
    """The terms of a frozen state: their codes now, by those in the state, and all facts."""

    codes: Numbers
    facts: NDArray[np.void]


class Extent(NamedTuple):
    """How far a frozen stream has come: its moments, its partitions, the first row it holds."""

    moments: int
    keys: int
    first_row: int


@frozen_record
class FrozenEntries:
    """The groups of runs that wait, and where their runs are."""

    store: Numbers = array(np.int32, "entries", low=0, below="stores")
    codes: Numbers = array(np.int32, "entries", "columns", low=-1 - trees.SORTS, below="terms")
    root: Numbers = array(np.int32, "entries", low=1)
    ordinal: Ints = array(np.int64, "entries", low=0, below=at_least_one("moments"))
    part: Numbers | None = optional(array(np.int32, "entries", low=0, below="keys"))
    rounds: Numbers | None = optional(array(np.int32, "entries", low=0, below="branches"))
    """The trees of rounds, where steps have some."""
    ready: Numbers | None = optional(array(np.int32, "entries", low=0, below="branches"))
    """The trees of runs that are ready, where a step ends rounds."""
    taken: Numbers | None = optional(array(np.int32, "entries", low=0, below="branches"))
    """The trees of the rows that took some."""


@frozen_record
class FrozenMoments:
    """The last moments of each partition."""

    last: Ints = array(np.int64, "keys", low=-2)
    before: Ints = array(np.int64, "keys", low=-2)


@frozen_record
class FrozenLinks:
    """The runs of an engine. Index 0 of every array but `sources` is empty."""

    network: str = text()
    """A digest of what the numbers stand for (`describe_tables`)."""
    position: int = number(0, MOST_EVENTS)
    bound: int = number()
    moment: int = number(0, at_least_one("moments"))
    vertices: NDArray[np.void] = array(
        r.VERTEX,
        "vertices",
        columns={"label": (0, "labels"), "count": (0, 2), "rank": (0, MOST_EVENTS)},
    )
    asked: Ints = array(np.int64, "asked", "asked_columns")
    sources: NDArray[np.void] = array(
        r.SOURCE,
        "sources",
        columns={
            "link": (0, "links"),
            "asked": (0, "asked"),
            "version": (0, at_least_one("moments")),
        },
    )
    nodes: NDArray[np.void] = array(
        r.NODE, "nodes", columns={"vertex": (0, "vertices"), "group": (0, 2**31)}
    )
    branches: NDArray[np.void] = array(r.BRANCH, "branches", columns={"vertex": (0, "vertices")})
    entries: FrozenEntries = nested(FrozenEntries)
    moments: FrozenMoments | None = optional(nested(FrozenMoments))

    def check(self, sizes: Sizes) -> None:
        for name in ("vertices", "nodes", "branches", "asked"):
            check_first(getattr(self, name), name)


def freeze_linked(engine: LinkedEngine) -> Tree:
    """Return the state of an engine between two batches; partitions are `live_keys`."""
    engine.collect()
    dag, waiting = engine.memory.dag, engine.memory.waiting
    live, keys = np.flatnonzero(waiting.store >= 0), engine.live_keys()
    buckets, is_plain = dag.buckets[live], waiting.sort[live] == trees.PLAIN
    records: dict[str, Any] = {
        name: getattr(dag, name)[: dag.counters[counter]] for name, counter in _COUNTED.items()
    }
    if not engine.is_sorted:
        records |= {name: records[name][:1] for name in ("branches", "asked")}
    part = moments = None
    if engine.partitioned:
        part = np.searchsorted(keys, waiting.part[live]).astype(np.int32)
        moments = FrozenMoments(*(column[keys] for column in engine.memory.moments))
    ends = engine.has_ended
    return write(
        FrozenLinks(
            network=describe_tables(engine),
            position=engine.position,
            bound=engine.bound,
            moment=engine.moment,
            entries=FrozenEntries(
                waiting.store[live],
                waiting.codes[live],
                buckets["root"],
                buckets["ordinal"],
                part,
                buckets["before"] if engine.has_rounds else None,
                np.where(is_plain, 0, buckets["last"]) if ends else None,
                np.where(is_plain, 0, buckets["part"]) if ends else None,
            ),
            moments=moments,
            **records,
        )
    )


def describe_tables(engine: LinkedEngine) -> str:
    """Return a digest of what the numbers in a state stand for."""
    digest = hashlib.sha256()
    tables: dict[str, NDArray[Any]] = engine.tables._asdict()
    for name, table in tables.items():
        if name != "programs":  # which hold codes of terms
            digest.update(f"{name} {table.dtype.str} {table.shape}".encode() + table.tobytes())
    return digest.hexdigest()[:16]


def thaw_linked(engine: LinkedEngine, tree: Tree, terms: ThawedTerms, extent: Extent) -> None:
    """Put a fresh engine of the same query into a frozen state."""
    check_network(tree, describe_tables(engine))
    fresh, tables = engine.memory.dag, engine.tables
    frozen = read(
        FrozenLinks,
        tree,
        moments=extent.moments,
        keys=extent.keys,
        terms=len(terms.codes),
        stores=len(tables.store_link),
        columns=engine.memory.waiting.codes.shape[1],
        labels=int(tables.transition_label.max(initial=0)) + 1,
        links=len(engine.links.store),
        asked_columns=fresh.asked.shape[1],
    )
    entries = frozen.entries
    require(
        (frozen.moments is not None) == (entries.part is not None) == engine.partitioned
        and (entries.rounds is not None) == engine.has_rounds
        and (entries.ready is not None) == (entries.taken is not None) == engine.has_ended,
        "its groups are those of another query",
    )
    _check_vertices(frozen, extent)
    _check_runs(engine, frozen)
    waiting, buckets = _restore_entries(engine, frozen)
    _check_rounds(engine, frozen, buckets)
    is_plain = waiting.sort == trees.PLAIN
    check_apart(frozen.nodes, buckets["root"][is_plain])
    used = int(waiting.counters[w.USED])
    known = np.append(terms.codes, np.full(1 + trees.SORTS, -1, np.int32))  # for negative codes
    codes = waiting.codes[1:used]
    waiting.codes[1:used] = np.where(codes < 0, codes, known[codes])
    waiting.group[is_plain] = frozen.nodes["group"][buckets["root"][is_plain]]
    waiting.counters[w.GROUPS] = frozen.nodes["group"].max(initial=0)
    w.thaw_entries(tables, waiting, terms.facts)
    ending = np.append(tables.store_ending, -1)[waiting.store] >= 0
    kinds = np.where(is_plain, r.UNION, np.where(ending, r.ENDED, r.SORTED))
    link_spines(frozen.nodes, buckets, kinds.astype(np.int32))
    counters, records = fresh.counters.copy(), {n: getattr(frozen, n) for n in _COUNTED}
    for name, counter in _COUNTED.items():
        counters[counter] = len(records[name])
    facts = np.zeros((len(frozen.vertices), fresh.facts.shape[1]), np.int64)
    moments = LastMoments(np.empty(0, np.int64), np.empty(0, np.int64))
    if frozen.moments is not None:
        moments = LastMoments(frozen.moments.last, frozen.moments.before)
    engine.memory = engine.memory._replace(
        dag=fresh._replace(counters=counters, buckets=buckets, facts=facts, **records),
        waiting=waiting,
        moments=moments,
    )
    engine.position, engine.bound, engine.moment = frozen.position, frozen.bound, frozen.moment
    engine.reserve()


def _check_vertices(frozen: FrozenLinks, extent: Extent) -> None:
    """Vertices come in the order of their rows, and have their sources one after the other."""
    vertices = frozen.vertices
    at, counts = vertices["position"][1:], vertices["count"].astype(np.int64)
    require(
        is_inside(at, extent.first_row, frozen.position)
        and bool((np.diff(at) >= 0).all())
        and int(counts.sum()) == len(frozen.sources)
        and bool((vertices["first"] == np.cumsum(counts) - counts).all()),
        "'vertices' are not in order",
    )


def _find_moments(frozen: FrozenLinks) -> tuple[Ints, Ints]:
    """Return the vertex of each source, and the moment of each vertex.

    A vertex that begins a match leads nowhere, and counts as made before all others.
    """
    owner = np.repeat(np.arange(len(frozen.vertices)), frozen.vertices["count"])
    moments = np.full(len(frozen.vertices), -1, np.int64)
    moments[owner] = frozen.sources["version"]
    return owner, moments


def _check_runs(engine: LinkedEngine, frozen: FrozenLinks) -> None:
    """A vertex gathers runs of earlier moments only, so that following sources ends."""
    vertices, sources, nodes = frozen.vertices, frozen.sources, frozen.nodes
    branches, vertex, planted = frozen.branches, nodes["vertex"], frozen.branches["vertex"]
    require(
        bool((vertex[1:] > 0).all())
        and bool((nodes["group"][1:] > 0).all())
        and bool((nodes["start"] == vertices["start"][vertex])[1:].all()),
        "'nodes' do not belong to vertices",
    )
    # a branch outside the window may stay between others, without its vertex
    start, begin = branches["start"], vertices["position"] - vertices["rank"]
    is_own = (start == vertices["start"][planted]) | (start == begin[planted])
    require(bool(is_own[planted != 0].all()), "'branches' do not belong to vertices")
    check_nodes(nodes)
    check_branches(branches)
    owner, moments = _find_moments(frozen)
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
        and bool((sources["group"][~ranges] > 0).all())
        and not sources["asked"][~ranges].any()
        and bool((sources["asked"][ranges] > 0).all()),
        "a source leads to no run before it",
    )


def _check_rounds(engine: LinkedEngine, frozen: FrozenLinks, buckets: NDArray[np.void]) -> None:
    """Rounds are vertices that name the rounds before them, which are of earlier moments."""
    vertices, sources, branches = frozen.vertices, frozen.sources, frozen.branches
    kinds = engine.links.kind[engine.links.store[sources["link"]]]
    mine, ended = kinds >= r.ROUNDS, kinds >= r.ENDED
    owner, moments = _find_moments(frozen)
    is_round = np.zeros(len(vertices), np.bool_)
    is_round[owner[mine & ~ended]] = True
    before, version = sources["group"][mine], sources["version"][mine]
    if engine.has_ended:
        before = np.append(before, frozen.asked[sources["asked"][ended], 2])
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


def _restore_entries(
    engine: LinkedEngine, frozen: FrozenLinks
) -> tuple[w.WaitingRuns, NDArray[np.void]]:
    """Return the entries, without their chains, and their buckets."""
    tables, entries = engine.tables, frozen.entries
    store, codes, root = entries.store, entries.codes, entries.root
    number, columns = codes.shape
    stores = len(tables.store_link)
    kept = np.zeros((stores, columns), np.bool_)
    kept[np.repeat(np.arange(stores), np.diff(tables.store_first)), tables.store_columns] = True
    is_sorted = np.arange(columns) == tables.store_sorted[store].reshape(-1, 1)
    sort = np.where(is_sorted & (codes < -1), -2 - codes, trees.PLAIN).max(axis=1, initial=-1)
    is_plain = sort == trees.PLAIN
    below = np.where(is_plain, len(frozen.nodes), len(frozen.branches))
    require(
        bool((codes >= -1)[~is_sorted].all()) and is_inside(root, 1, below), "a group has no runs"
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
    waiting.counters[w.USED], waiting.counters[w.LIVE] = number + 1, number
    buckets = np.zeros(size, r.BUCKET)
    buckets["root"][used], buckets["ordinal"][used] = root, entries.ordinal
    if entries.part is not None:
        waiting.part[used] = entries.part
    if entries.rounds is not None:
        buckets["before"][used] = np.where(is_plain, 0, entries.rounds)
    ended = ~is_plain & (tables.store_ending[store] >= 0)
    for trees_of, field in ((entries.ready, "last"), (entries.taken, "part")):
        if trees_of is not None:
            require(not trees_of[~ended].any(), "a group without rounds has ended some")
            buckets[field][used] = trees_of
    return waiting, buckets
