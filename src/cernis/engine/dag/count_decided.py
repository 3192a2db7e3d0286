"""How many matches end at each root, where a value decides the rounds of runs that have just begun.

A round of `A : B+: : C` with `?p2 < ?p1` takes a range of runs. A match that ends with the round is
one of the ways in which these have taken rounds before. A C that takes all rounds of a join key
does not ask which of them was the last: it is the sum of the ways that wait for it. `run_maps`
counts both. Under `,` runs that the rounds of a moment do not take have no more ways. A search tree
is a join key here: it begins anew where a moment has no rounds.

Cost contract: that of `run_maps`. `count_decided` gives up where runs have had another step before,
and where C takes some of the rounds only.

A C that compares a value of the last round, as `?p3 > ?p2`, has no such sum. A logarithm for each
event is not to be had there: see *How SPAseQ runs*.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.engine.dag import records as r
from cernis.engine.dag.links import STRICT_ROUNDS, DagSegment
from cernis.engine.dag.run_maps import (
    READY,
    WAYS,
    RunRanges,
    RunSums,
    count_maps,
    find_moments,
    find_vertices,
    join_maps,
    map_rounds,
    map_strict,
    map_taken,
)
from cernis.engine.dag.run_places import AskedRanges, RunPlaces, find_places
from cernis.engine.dag.steps import Chosen, Ints, read_groups


class _Waiting(NamedTuple):
    """Rounds whose runs wait for the next step, in the order of their join keys and moments."""

    vertex: Ints
    group: Ints
    """The group in which they wait for it."""
    key: Ints
    moment: Ints
    is_new: NDArray[np.bool_]
    """Whether the group begins here."""


def takes_groups(segment: DagSegment, chosen: Chosen) -> bool:
    """Return whether roots are rounds or take whole groups of them, as far as links tell."""
    links, memory = segment.links, segment.memory
    assert links.rounds is not None
    used = memory.sources["link"][chosen.rounds[chosen.rounds >= 0]]
    ways, operators = np.unique(np.abs(links.rounds[used])), chosen.operator[chosen.rounds >= 0]
    is_equal = operators == r.EQUAL
    if len(ways) != 1 or (ways[0] == STRICT_ROUNDS and is_equal.any()):
        return False
    if len(np.unique(operators[~is_equal])) != 1:
        return False
    vertex = find_vertices(chosen)[1]
    ends = chosen.vertices[vertex[chosen.rounds[vertex] < 0]]
    if (ends["count"] != 1).any():
        return False
    sources = memory.sources[ends["first"]]
    is_union = links.kind[links.store[sources["link"]]] == r.UNION
    return bool((is_union & (sources["group"] > 0)).all())


def _find_waiting(memory: r.RunMemory, chosen: Chosen, key: Ints, asked: Ints) -> _Waiting | None:
    """Return the rounds in the groups that roots ask; None: a join key has several at a time."""
    filed = read_groups(memory, chosen.number)
    filed = filed[np.isin(filed[:, 1], asked)]
    vertex, group = filed[:, 0], filed[:, 1]
    if (chosen.rounds[vertex] < 0).any() or len(np.unique(vertex)) != len(vertex):
        return None
    order = np.lexsort((vertex, key[vertex]))
    vertex, group = vertex[order], group[order]
    moment, own = find_moments(chosen)[vertex], key[vertex]
    is_new = np.ones(len(vertex), np.bool_)
    is_new[1:] = (group[1:] != group[:-1]) | (own[1:] != own[:-1])
    within = (moment[1:] == moment[:-1]) & (own[1:] == own[:-1])
    if is_new.sum() != len(np.unique(group)) or (is_new[1:] & within).any():
        return None
    return _Waiting(vertex, group, own, moment, is_new)


def _find_keys(waiting: _Waiting, moment: Ints, asked: Ints) -> Ints | None:
    """Return the join key of the group that each root asks, -1: nothing is in it; None: a later
    group has begun."""
    begun = np.flatnonzero(waiting.is_new)
    order = begun[np.argsort(waiting.group[begun])]
    at = np.searchsorted(waiting.group[order], asked)
    is_known = at < len(order)
    at = order[np.where(is_known, at, 0)] if len(order) else at
    is_known[is_known] = waiting.group[at[is_known]] == asked[is_known]
    at, moment, asked = at[is_known], moment[is_known], asked[is_known]
    size = int(max(waiting.moment.max(initial=0), moment.max(initial=0))) + 1
    name = waiting.key * size + waiting.moment
    last = np.searchsorted(name, waiting.key[at] * size + moment) - 1
    if (last < at).any():
        is_known[is_known] = last >= at
        at, last, asked = at[last >= at], last[last >= at], asked[last >= at]
    if (waiting.group[last] != asked).any():
        return None
    keys = np.full(len(is_known), -1, np.int64)
    keys[is_known] = waiting.key[at]
    return keys


def count_decided(
    segments: Sequence[DagSegment], chosen: Chosen, runs: RunPlaces
) -> list[int] | None:
    """Return the number of matches of every root; None: not all are a run with its rounds, and a
    step that takes all of them.

    The segments share their records: those of the last include those of the others.
    """
    links, memory, vertices = segments[-1].links, segments[-1].memory, chosen.vertices
    if not takes_groups(segments[-1], chosen) or (vertices["count"][runs.vertex] > 0).any():
        return None
    moment = find_moments(chosen)
    root, ends = find_vertices(chosen)
    is_last = chosen.rounds[ends] >= 0
    asked = memory.sources["group"][vertices["first"][ends[~is_last]]].astype(np.int64)
    waiting = _find_waiting(memory, chosen, runs.key, asked)
    keys = None if waiting is None else _find_keys(waiting, moment[ends[~is_last]], asked)
    if waiting is None or keys is None:
        return None
    rounds = np.flatnonzero(chosen.rounds >= 0)
    sources, key = memory.sources[chosen.rounds[rounds]], runs.key[rounds]
    words = memory.asked[sources["asked"]]
    limits = AskedRanges(chosen.operator[rounds], words[:, 0].copy(), words[:, 1].copy())
    ranges = RunRanges(moment[rounds], key, *find_places(runs.values, key, limits))
    waits = np.isin(rounds, waiting.vertex).astype(np.int64)
    goes_on = (limits.operator != r.EQUAL).astype(np.int64)
    assert links.rounds is not None
    way = abs(int(links.rounds[sources["link"][0]]))
    first = runs.values.key_first
    new = waiting.key[waiting.is_new]
    renewed = RunRanges(waiting.moment[waiting.is_new], new, first[new], first[new + 1])
    maps = join_maps(map_taken(renewed), map_rounds(ranges, waits, goes_on, way))
    if way == STRICT_ROUNDS:
        maps = join_maps(map_strict(ranges, runs), maps)
    begin, end = first[keys], np.where(keys >= 0, first[keys + 1], first[keys])
    at_last = ranges.pick(np.searchsorted(rounds, ends[is_last]))
    at_next = RunRanges(moment[ends[~is_last]], np.maximum(keys, 0), begin, end)
    order = np.argsort(np.append(root[is_last], root[~is_last]))
    asked_by = RunRanges(*(np.append(*both)[order] for both in zip(at_last, at_next, strict=True)))
    number = np.where(is_last, WAYS, READY)
    return count_maps(chosen, runs, RunSums(asked_by, number, root), maps)
