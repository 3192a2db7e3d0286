"""How many matches end at each root, where rounds are the same map for ranges of runs.

`run_maps` counts runs that have just begun by two numbers: in how many ways each has taken rounds,
and how many of these wait for the next step.

* A value decides rounds (`count_decided`): a round of `A : B+: : C` with `?p2 < ?p1` takes a range
  of runs. A match that ends with the round is one of the ways in which these have taken rounds
  before. A C that takes all rounds of a join key does not ask which of them was the last: it is the
  sum of the ways that wait for it. Under `,` runs that the rounds of a moment do not take have no
  more ways. A search tree is a join key here: it begins anew where a moment has no rounds.
* A row ends rounds that ask nothing of runs (`count_ended`): in `A ; B+; ; C`, where C compares a
  value of A and B does not, a moment with rounds is a map for all runs of a join key. A row that
  ends rounds is the sum of the ways that wait for it, over a range of values, and under `;` makes
  these 0.

Cost contract: that of `run_maps`. Both give up where runs have had another step before;
`count_decided` where C takes some of the rounds only, `count_ended` where a step follows the end of
the rounds.

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
from cernis.engine.dag.rounds import FIRST_WORD
from cernis.engine.dag.run_maps import (
    READY,
    WAYS,
    RunRanges,
    RunSums,
    count_runs,
    find_moments,
    find_vertices,
    join_maps,
    join_sums,
    map_rounds,
    map_strict,
    map_taken,
)
from cernis.engine.dag.steps import (
    ALL,
    AskedRanges,
    Chosen,
    Ints,
    RunPlaces,
    find_lost,
    find_places,
    list_groups,
)


class _Waiting(NamedTuple):
    """Rounds whose runs wait for the next step, in the order of their join keys and moments."""

    vertex: Ints
    group: Ints
    """The group in which they wait for it."""
    key: Ints
    moment: Ints
    is_new: NDArray[np.bool_]
    """Whether the group begins here, for this join key."""


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
    """Return the rounds in the groups that roots ask; None: a join key has several in turns."""
    groups = list_groups(memory, chosen)
    is_asked = np.isin(groups.item, asked)
    vertex = np.repeat(np.arange(len(chosen.start)), np.diff(groups.first))[is_asked]
    group = groups.item[is_asked]
    if (chosen.rounds[vertex] < 0).any() or len(np.unique(vertex)) != len(vertex):
        return None
    order = np.lexsort((vertex, key[vertex]))
    vertex, group = vertex[order], group[order]
    moment, own = find_moments(chosen)[vertex], key[vertex]
    is_new = np.ones(len(vertex), np.bool_)
    is_new[1:] = (group[1:] != group[:-1]) | (own[1:] != own[:-1])
    within = (moment[1:] == moment[:-1]) & (own[1:] == own[:-1])
    pairs = np.unique(np.stack([own, group]), axis=1)
    if is_new.sum() != pairs.shape[1] or (is_new[1:] & within).any():
        return None
    return _Waiting(vertex, group, own, moment, is_new)


def _find_asked(
    waiting: _Waiting, latest: Ints, moment: Ints, bound: Ints, group: Ints
) -> tuple[Ints, Ints] | None:
    """Return the pairs of a root and a join key whose runs wait in the group that it asks.

    `latest` has the latest start of each join key. None: another group of a key has begun. A key is
    a search tree, and begins anew where all its runs have left the window; the group may go on.
    """
    groups, starts = np.unique(waiting.group), np.unique(np.append(latest, bound))
    moments = int(np.append(waiting.moment, moment).max(initial=0)) + 1
    begun = np.flatnonzero(waiting.is_new)
    begun = begun[np.lexsort((latest[waiting.key[begun]], waiting.group[begun]))]
    own, rank = (np.searchsorted(groups, some) for some in (waiting.group[begun], group))
    # the keys with a run inside the window, up to those that begin after the root
    until = own * len(starts) + np.searchsorted(starts, latest[waiting.key[begun]])
    first = np.searchsorted(until, rank * len(starts) + np.searchsorted(starts, bound))
    since = np.minimum.accumulate((own * moments + waiting.moment[begun])[::-1])[::-1]
    number = np.maximum(np.searchsorted(since, rank * moments + moment) - first, 0)
    number[~np.isin(group, groups)] = 0
    root = np.repeat(np.arange(len(group)), number)
    place = np.arange(len(root)) - np.repeat(np.cumsum(number) - number - first, number)
    at = begun[place]
    is_before = waiting.moment[at] < moment[root]
    root, at = root[is_before], at[is_before]
    name = waiting.key * moments + waiting.moment
    last = np.searchsorted(name, waiting.key[at] * moments + moment[root]) - 1
    if (waiting.group[last] != group[root]).any():
        return None
    return root, waiting.key[at]


def _find_ranges(
    memory: r.RunMemory, chosen: Chosen, runs: RunPlaces, asking: Ints, operator: Ints
) -> RunRanges:
    """Return the ranges of runs that some vertices with rounds ask for."""
    words = memory.asked[memory.sources["asked"][chosen.rounds[asking]]]
    asked = AskedRanges(operator, words[:, 0].copy(), words[:, 1].copy())
    key = runs.key[asking]
    return RunRanges(find_moments(chosen)[asking], key, *find_places(runs.values, key, asked))


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
    nexts = ends[~is_last]
    asked = memory.sources["group"][vertices["first"][nexts]].astype(np.int64)
    waiting = _find_waiting(memory, chosen, runs.key, asked)
    if waiting is None:
        return None
    first, latest = runs.values.key_first, np.full(len(runs.values.key_first) - 1, r.NOTHING)
    np.maximum.at(latest, runs.key[runs.vertex], chosen.start[runs.vertex])
    pairs = _find_asked(waiting, latest, moment[nexts], chosen.due[moment[nexts]], asked)
    if pairs is None:
        return None
    rounds = np.flatnonzero(chosen.rounds >= 0)
    operator = chosen.operator[rounds]
    ranges = _find_ranges(memory, chosen, runs, rounds, operator)
    waits = np.isin(rounds, waiting.vertex).astype(np.int64)
    goes_on = (operator != r.EQUAL).astype(np.int64)
    assert links.rounds is not None
    way = abs(int(links.rounds[memory.sources["link"][chosen.rounds[rounds[0]]]]))
    new = waiting.key[waiting.is_new]
    renewed = RunRanges(waiting.moment[waiting.is_new], new, first[new], first[new + 1])
    maps = join_maps(map_taken(renewed), map_rounds(ranges, waits, goes_on, way))
    if way == STRICT_ROUNDS:
        maps = join_maps(map_strict(ranges, runs), maps)
    which, key = pairs
    whole = RunRanges(moment[nexts[which]], key, first[key], first[key + 1])
    own = ranges.pick(np.searchsorted(rounds, ends[is_last]))
    sums = join_sums(
        RunSums(own, np.full(len(own.key), WAYS), root[is_last]),
        RunSums(whole, np.full(len(which), READY), root[~is_last][which]),
    )
    return count_runs(chosen, runs, sums, maps)


def count_ended(
    segments: Sequence[DagSegment], chosen: Chosen, runs: RunPlaces
) -> list[int] | None:
    """Return the number of matches of every root; None: not all are a run with ended rounds.

    The segments share their records: those of the last include those of the others.
    """
    links, memory = segments[-1].links, segments[-1].memory
    asking = np.flatnonzero(chosen.vertices["count"] > 0)
    root, ends = find_vertices(chosen)
    if (chosen.rounds[asking] < 0).any() or not chosen.ended[ends].all():
        return None
    sources = memory.sources[chosen.rounds[asking]]
    kinds = links.kind[links.store[sources["link"]]]
    is_round = kinds == r.ROUNDS
    assert links.rounds is not None
    ways = np.unique(np.abs(links.rounds[sources["link"][~is_round]]))
    if len(ways) != 1:
        return None
    # a round asks for no value: all runs of its key take it
    operator = np.where(is_round, ALL, links.operator[sources["link"]])
    ranges = _find_ranges(memory, chosen, runs, asking, operator)
    is_inner = (memory.asked[sources["asked"][is_round], 1] == FIRST_WORD).astype(np.int64)
    lost = find_lost(segments[-1], chosen, runs.key)
    key = runs.key[lost.asking]
    lost_places = find_places(runs.values, key, lost.ranges)
    maps = join_maps(
        map_taken(ranges.pick(kinds == r.ENDED_ONCE)),
        map_rounds(ranges.pick(is_round), np.ones_like(is_inner), is_inner, int(ways[0])),
        map_taken(RunRanges(find_moments(chosen)[lost.round], key, *lost_places)),
    )
    asked_by = ranges.pick(np.searchsorted(asking, ends))
    return count_runs(chosen, runs, RunSums(asked_by, np.full(len(root), READY), root), maps)
