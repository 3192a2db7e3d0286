"""How many matches end at each root, where a moment does the same to ranges of runs: by which maps.

`run_maps` counts runs by two numbers: in how many ways each has taken rounds, and how many of these
wait for the next step. What asks is an interval of filings, or of ranks of runs (`steps`).
Runs that have just begun wait for rounds (`count_rounds`):

* A value decides rounds: a round of `A : B+: : C` with `?p2 < ?p1` takes a range of runs. A match
  that ends with the round is one of the ways in which these have taken rounds before. A C that
  takes all rounds of a join key does not ask which of them was the last: it is the sum of the ways
  that wait for it. Under `,` runs that the rounds of a moment do not take have no more ways. A
  search tree is a join key here: it begins anew where a moment has no rounds.
* A row ends rounds that ask nothing of runs: in `A ; B+; ; C`, where C compares a value of A and B
  does not, a moment with rounds is a map for all runs of a join key. A row that ends rounds is the
  sum of the ways that wait for it, over a range of values, and under `;` makes these 0.

A match without rounds has up to three steps (`count_steps`):

* a first step is a run that counts 1 until it leaves the window;
* a second step is a run that is ready as often as there are first steps in its interval. If one of
  them leaves the window, all second steps that have it are ready once less. Where these lie side by
  side, as they do if a step is asked by the value that it asks with (`?p2 < ?p1`, then
  `?p3 > ?p2`), that is one map of an interval. A second step that is older than the first step that
  leaves has left before: first steps leave in the order of their times;
* a third step is the sum over an interval of second steps.

Rounds that each run takes in one way are second steps, too (`count_once`): under `;` a run takes
every round that a value decides (`rounds`), so there is one match for each pair of a run and a
round that fits it, if no two rounds come at one moment.

Cost contract: O(log filings) for each vertex, and for each first step that leaves. `count_rounds`
gives up where runs have had another step before, where a C takes some of the decided rounds only,
and where a step follows the end of rounds; `count_steps` where a match has a fourth step, or where
the second steps of a first step do not lie side by side. At that cost per event, counting these
would multiply matrices faster than is known, and so would a C that compares a value of the last
round, as `?p3 > ?p2` (docs/explanation/spaseq.md). Numbers that become less have to be exact: 2^27
filings have fewer than 2^53 pairs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import borrowing as kernel
from cernis.compiled import inner
from cernis.engine.dag import records as r
from cernis.engine.dag.links import NEXT_ROUNDS, STRICT_ROUNDS, DagSegment
from cernis.engine.dag.rounds import FIRST_WORD
from cernis.engine.dag.run_maps import (
    READY,
    WAYS,
    RunMaps,
    RunSums,
    TreeRuns,
    count_maps,
    count_runs,
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
    Filings,
    Ints,
    RankedRuns,
    RunRanges,
    SortedValues,
    Steps,
    find_lost,
    find_moments,
    find_range,
    find_ranks,
    find_vertices,
    list_groups,
    rank_runs,
    read_steps,
    spread,
)
from cernis.engine.spans import list_indices

DONE, TOO_LONG = range(2)
_LOOKS_PER_VERTEX = 16
"""The most indexes that a vertex may look at, on average."""
_MOST_FILINGS = 1 << 27


# ------------------------------------------------------ runs that wait for rounds


class _RoundMaps(NamedTuple):
    """What moments do to the runs that wait for rounds, and what the roots add up."""

    begins: RunRanges
    """The runs that are ready for the next step no more before the rounds of a moment,"""
    rounds: RunRanges
    waits: Ints
    goes_on: Ints
    """per round, whether runs wait for the next step after it, and may take another round,"""
    ends: RunRanges
    """and the runs that are ready no more after the rounds of a moment."""
    sums: RunSums


class _Waiting(NamedTuple):
    """Rounds whose runs wait for the next step, in the order of their join keys and moments."""

    vertex: Ints
    group: Ints
    """The group in which they wait for it."""
    key: Ints
    moment: Ints
    is_new: NDArray[np.bool_]
    """Whether the group begins here, for this join key."""


def _find_way(segment: DagSegment, chosen: Chosen) -> int:
    """Return how runs take their rounds; 0: not all in the same way."""
    assert segment.links.rounds is not None
    used = segment.memory.sources["link"][chosen.rounds[chosen.rounds >= 0]]
    ways = np.unique(np.abs(segment.links.rounds[used]))
    return int(ways[0]) if len(ways) == 1 else 0


def takes_groups(segment: DagSegment, chosen: Chosen) -> bool:
    """Return whether roots are rounds or take whole groups of them, as far as links tell."""
    links, memory, way = segment.links, segment.memory, _find_way(segment, chosen)
    operators = chosen.operator[chosen.rounds >= 0]
    is_equal = operators == r.EQUAL
    if way == 0 or (way == STRICT_ROUNDS and is_equal.any()):
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


def count_rounds(segment: DagSegment, chosen: Chosen) -> list[int] | None:
    """Return the number of matches of every root; None: not all are a run with its rounds, and a
    row that ends them or takes all of them."""
    way, has_ends = _find_way(segment, chosen), bool(chosen.ended.any())
    if way == 0 or not (has_ends or takes_groups(segment, chosen)):
        return None
    runs = rank_runs(segment.memory, chosen)
    if (chosen.vertices["count"][runs.vertex] > 0).any():
        return None
    read = (_read_ended if has_ends else _read_decided)(segment, chosen, runs)
    if read is None:
        return None
    maps = join_maps(
        map_taken(read.begins),
        map_rounds(read.rounds, read.waits, read.goes_on, way),
        map_taken(read.ends),
    )
    if way == STRICT_ROUNDS:
        maps = join_maps(map_strict(read.rounds, runs), maps)
    return count_runs(chosen, runs, read.sums, maps)


def _read_ended(segment: DagSegment, chosen: Chosen, runs: RankedRuns) -> _RoundMaps | None:
    """Return the maps of rounds that rows end; None: a root is no such row."""
    links, memory = segment.links, segment.memory
    root, ends = find_vertices(chosen)
    if not chosen.ended[ends].all():
        return None
    asking = np.flatnonzero(chosen.rounds >= 0)
    sources, is_round = memory.sources[chosen.rounds[asking]], ~chosen.ended[asking]
    # a round asks for no value: all runs of its key take it
    operator = np.where(is_round, ALL, chosen.operator[asking])
    ranges = _find_ranges(memory, chosen, runs, asking, operator)
    is_once = links.kind[links.store[sources["link"]]] == r.ENDED_ONCE
    goes_on = (memory.asked[sources["asked"][is_round], 1] == FIRST_WORD).astype(np.int64)
    return _RoundMaps(
        begins=ranges.pick(is_once),
        rounds=ranges.pick(is_round),
        waits=np.ones_like(goes_on),
        goes_on=goes_on,
        ends=find_lost(segment, chosen, runs),
        sums=RunSums(ranges.pick(np.searchsorted(asking, ends)), np.full(len(root), READY), root),
    )


def _read_decided(segment: DagSegment, chosen: Chosen, runs: RankedRuns) -> _RoundMaps | None:
    """Return the maps of rounds that a value decides; None: a step takes some of them only."""
    memory, vertices, moment = segment.memory, chosen.vertices, find_moments(chosen)
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
    new, (which, key) = waiting.key[waiting.is_new], pairs
    own = ranges.pick(np.searchsorted(rounds, ends[is_last]))
    whole = RunRanges(moment[nexts[which]], key, first[key], first[key + 1])
    return _RoundMaps(
        begins=RunRanges(waiting.moment[waiting.is_new], new, first[new], first[new + 1]),
        rounds=ranges,
        waits=np.isin(rounds, waiting.vertex).astype(np.int64),
        goes_on=(operator != r.EQUAL).astype(np.int64),
        ends=ranges.pick(rounds < 0),
        sums=join_sums(
            RunSums(own, np.full(len(own.key), WAYS), root[is_last]),
            RunSums(whole, np.full(len(which), READY), root[~is_last][which]),
        ),
    )


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
    at = begun[list_indices(first, first + number)]
    is_before = waiting.moment[at] < moment[root]
    root, at = root[is_before], at[is_before]
    name = waiting.key * moments + waiting.moment
    last = np.searchsorted(name, waiting.key[at] * moments + moment[root]) - 1
    if (waiting.group[last] != group[root]).any():
        return None
    return root, waiting.key[at]


def _find_ranges(
    memory: r.RunMemory, chosen: Chosen, runs: RankedRuns, asking: Ints, operator: Ints
) -> RunRanges:
    """Return the ranges of runs that some vertices with rounds ask for."""
    words = memory.asked[memory.sources["asked"][chosen.rounds[asking]]]
    asked = AskedRanges(operator, words[:, 0].copy(), words[:, 1].copy())
    key = runs.key[asking]
    return RunRanges(find_moments(chosen)[asking], key, *find_ranks(runs.values, key, asked))


# ------------------------------------------------------ steps that wait for each other


class AskedIntervals(NamedTuple):
    """Per filing, where the interval that its vertex asks may begin and end."""

    begin_least: Ints
    begin: Ints
    end: Ints
    end_most: Ints


class FirstSteps(NamedTuple):
    """The first steps inside the window."""

    active: NDArray[np.uint8]
    """Per filing, whether it is active: filed and inside the window."""
    deep: NDArray[np.uint8]
    """Per index, whether it has had a second step."""
    number: Ints
    """A Fenwick tree: how many are active."""


@inner
def _add_at(tree, index, value):
    """Add to an item of a Fenwick tree."""
    at = index + 1
    while at < len(tree):
        tree[at] += value
        at += at & -at


@inner
def _sum_before(tree, end):
    """Return the sum of all items before an end."""
    total = np.int64(0)
    while end > 0:
        total += tree[end]
        end -= end & -end
    return total


@inner
def _find_first(tree, rank):
    """Return the index of the active item with this rank, or the number of items."""
    at, step = 0, 1
    while 2 * step < len(tree):
        step *= 2
    while step > 0:
        if at + step < len(tree) and tree[at + step] <= rank:
            at += step
            rank -= tree[at]
        step //= 2
    return at


@inner
def _find_interval(filings, steps, v, stretch):
    """Return the filings of a stretch that a vertex asks for."""
    begin, end = filings.stretch_first[stretch], filings.stretch_first[stretch + 1]
    return find_range(filings.high, filings.low, begin, end, steps, v)


@kernel
def _limit_intervals(steps, filings, firsts, intervals):
    """Find where the intervals of second steps may begin and end; return a status.

    A range ends at a value that the tree had then. It may as well end anywhere before the next one
    inside the window.
    """
    filed = firsts.number
    gone = 0
    for m in range(len(steps.moment_first) - 1):
        while gone < len(filings.by_start):
            filing = filings.by_start[gone]
            if steps.start[filings.vertex[filing]] >= steps.due[m]:
                break
            if firsts.active[filing]:
                _add_at(filed, filing, -1)
            gone += 1
        for v in range(steps.moment_first[m], steps.moment_first[m + 1]):
            asked = steps.asked[v]
            if asked < 0 or steps.filing_first[v] == steps.filing_first[v + 1]:
                continue
            if firsts.deep[asked]:
                return TOO_LONG
            begin, end, least, most = 0, 0, 0, 0
            stretch = filings.index_first[asked]
            if stretch < filings.index_first[asked + 1] and filings.stretch_asked[stretch] < 0:
                begin, end = _find_interval(filings, steps, v, stretch)
                least, most = begin, end
                if steps.operator[v] == r.GREATER_EQUAL:
                    before = _sum_before(filed, begin)
                    least = filings.stretch_first[stretch]
                    if before > 0:
                        least = max(least, _find_first(filed, before - 1) + 1)
                if steps.operator[v] == r.LESS_EQUAL:
                    after = _find_first(filed, _sum_before(filed, end))
                    most = min(filings.stretch_first[stretch + 1], after)
            for k in range(steps.filing_first[v], steps.filing_first[v + 1]):
                filing = steps.filings[k]
                intervals.begin_least[filing] = least
                intervals.begin[filing] = begin
                intervals.end[filing] = end
                intervals.end_most[filing] = most
        for v in range(steps.moment_first[m], steps.moment_first[m + 1]):
            for k in range(steps.filing_first[v], steps.filing_first[v + 1]):
                if steps.asked[v] < 0 and steps.start[v] >= steps.due[m]:
                    firsts.active[steps.filings[k]] = 1
                    _add_at(filed, steps.filings[k], 1)
                elif steps.asked[v] >= 0:
                    firsts.deep[filings.home[steps.filings[k]]] = 1
    return DONE


@kernel
def _fix_intervals(filings, intervals):
    """Choose the intervals of each stretch so that they rise; return a status."""
    for stretch in range(len(filings.stretch_asked)):
        if filings.stretch_asked[stretch] < 0:
            continue
        begin, end = np.int64(0), np.int64(0)
        for filing in range(filings.stretch_first[stretch], filings.stretch_first[stretch + 1]):
            begin = max(begin, intervals.begin_least[filing])
            end = max(end, intervals.end[filing])
            if begin > intervals.begin[filing] or end > intervals.end_most[filing]:
                return TOO_LONG
            intervals.begin[filing] = begin
            intervals.end[filing] = end
    return DONE


def count_steps(steps: Steps, filings: Filings) -> list[int] | None:
    """Return the number of matches of every root; None: a match may have too many steps."""
    seconds, size = np.flatnonzero(steps.asked >= 0), len(filings.vertex)
    asks, stretch = spread(filings.index_first, steps.asked[seconds])
    left, later = spread(filings.asking_first, filings.home)
    looks = len(stretch) + len(later)
    if looks > _LOOKS_PER_VERTEX * (len(steps.start) + 1024) or size >= _MOST_FILINGS:
        return None
    intervals = AskedIntervals(*(np.zeros(size, np.int64) for _ in range(4)))
    active, deep = np.zeros(size, np.uint8), np.zeros(len(filings.index_first), np.uint8)
    firsts = FirstSteps(active, deep, np.zeros(size + 1, np.int64))
    if _limit_intervals(steps, filings, firsts, intervals) != DONE:
        return None
    steps, filings, intervals = _sort_ties(steps, filings, intervals)
    if _fix_intervals(filings, intervals) != DONE:
        return None
    # a moment is two here: first steps leave before anybody asks
    moment, due = 2 * find_moments(steps) + 1, np.repeat(steps.due, 2)
    vertex, asking = filings.vertex, seconds[asks]
    is_first = steps.asked < 0
    values = SortedValues(filings.stretch_first, filings.high, filings.low)
    words = AskedRanges(steps.operator[asking], steps.high[asking], steps.low[asking])
    ranges = RunRanges(moment[asking], stretch, *find_ranks(values, stretch, words))
    number = np.where(filings.stretch_asked[stretch] < 0, WAYS, READY)
    begun = TreeRuns(
        filings.stretch_first,
        steps.start[vertex],
        moment[vertex],
        np.where(is_first[vertex], -1, vertex),
    )
    is_counted = is_first & (steps.start >= due[moment])
    until = 2 * np.searchsorted(steps.due, steps.start[vertex[left]], side="right")
    kept = is_counted[vertex[left]] & (until < len(due))
    taking = _find_taking(filings, intervals, left[kept], filings.asking[later[kept]], until[kept])
    taking = taking.pick(np.argsort(taking.moment))
    maps = RunMaps(taking, np.tile(np.array([1.0, -1.0, 1.0]), (len(taking.key), 1)))
    sums = RunSums(ranges, number, asking)
    numbers = np.array(count_maps(due, begun, sums, maps, len(steps.start)), np.int64)
    numbers[is_counted] = 1
    out = np.zeros(len(steps.bound), np.int64)
    root, ends = find_vertices(steps)
    out[root] = numbers[ends]
    counts: list[int] = out.tolist()
    return counts


def _find_taking(
    filings: Filings, intervals: AskedIntervals, first: Ints, stretch: Ints, moment: Ints
) -> RunRanges:
    """Return the filings of a stretch whose intervals have a first step, for each of some."""
    size = len(filings.vertex) + 1
    base = np.repeat(np.arange(len(filings.stretch_asked)), np.diff(filings.stretch_first)) * size
    names = stretch * size + first
    begin, end = (
        np.searchsorted(base + ends, names, side="right")
        for ends in (intervals.end, intervals.begin)
    )
    return RunRanges(moment, stretch, begin, end)


def takes_all(segment: DagSegment, chosen: Chosen) -> bool:
    """Return whether runs take all rounds that fit them."""
    return _find_way(segment, chosen) == NEXT_ROUNDS


def count_once(segment: DagSegment, chosen: Chosen) -> list[int] | None:
    """Return the number of matches of every root; None: a run may take rounds in several ways."""
    rounds = np.flatnonzero(chosen.rounds >= 0)
    if chosen.ended.any() or not takes_all(segment, chosen):
        return None
    if (chosen.operator[rounds] == r.EQUAL).any():
        return None
    steps, filings = read_steps(segment.memory, chosen)
    moment = find_moments(chosen)[rounds]
    if len(np.unique(moment << 32 | steps.asked[rounds])) != len(rounds):
        return None
    return count_steps(steps, filings)


def _sort_ties(
    steps: Steps, filings: Filings, intervals: AskedIntervals
) -> tuple[Steps, Filings, AskedIntervals]:
    """Sort filings with equal words by the intervals that their vertices ask."""
    size = len(filings.vertex)
    stretch = np.repeat(np.arange(len(filings.stretch_asked)), np.diff(filings.stretch_first))
    ends = intervals.begin + intervals.end
    order = np.lexsort((ends, filings.low, filings.high, stretch))
    back = np.empty(size, np.int64)
    back[order] = np.arange(size)
    return (
        steps._replace(filings=back[steps.filings]),
        filings._replace(
            high=filings.high[order],
            low=filings.low[order],
            vertex=filings.vertex[order],
            by_start=back[filings.by_start],
        ),
        AskedIntervals(*(column[order] for column in intervals)),
    )
