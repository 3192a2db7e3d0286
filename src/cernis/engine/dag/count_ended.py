"""How many matches end at each root, where a row ends rounds that ask nothing of runs.

In `A ; B+; ; C`, where C compares a value of A and B does not (`rounds`), a moment with rounds is a
linear map for all runs of a join key. A row that ends rounds is the sum of the ways that wait for
it, over a range of values, and under `;` makes these 0. `run_maps` counts that.

Cost contract: that of `run_maps`. `count_ended` gives up where runs have had another step before,
or a step follows the end of the rounds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cernis.engine.dag import records as r
from cernis.engine.dag.links import DagSegment
from cernis.engine.dag.rounds import FIRST_WORD
from cernis.engine.dag.run_maps import (
    READY,
    RunRanges,
    RunSums,
    count_maps,
    find_moments,
    find_vertices,
    join_maps,
    map_rounds,
    map_taken,
)
from cernis.engine.dag.run_places import AskedRanges, find_lost, find_places, place_runs
from cernis.engine.dag.steps import ALL, Chosen


def count_ended(segments: Sequence[DagSegment], chosen: Chosen) -> list[int] | None:
    """Return the number of matches of every root; None: not all are a run with ended rounds.

    The segments share their records: those of the last include those of the others.
    """
    links, memory, vertices = segments[-1].links, segments[-1].memory, chosen.vertices
    assert links.rounds is not None
    ways = np.unique(np.abs(links.rounds[memory.sources["link"][chosen.rounds[chosen.ended]]]))
    asking = np.flatnonzero(vertices["count"] > 0)
    sources = memory.sources[vertices["first"][asking]]
    kinds = links.kind[links.store[sources["link"]]]
    root, ends = find_vertices(chosen)
    if len(ways) != 1 or (kinds < r.ROUNDS).any() or not chosen.ended[ends].all():
        return None
    runs, moment = place_runs(memory, chosen), find_moments(chosen)
    words, is_round = memory.asked[sources["asked"]], kinds == r.ROUNDS
    # a round asks for no value: all runs of its key take it
    operator = np.where(is_round, ALL, links.operator[sources["link"]])
    asked = AskedRanges(operator, words[:, 0].copy(), words[:, 1].copy())
    key = runs.key[asking]
    ranges = RunRanges(moment[asking], key, *find_places(runs.values, key, asked))
    is_inner = (asked.low[is_round] == FIRST_WORD).astype(np.int64)
    lost = find_lost(segments[-1], chosen, runs.key)
    lost_key = runs.key[lost.asking]
    lost_places = find_places(runs.values, lost_key, lost.ranges)
    maps = join_maps(
        map_taken(ranges.pick(kinds == r.ENDED_ONCE)),
        map_rounds(ranges.pick(is_round), np.ones_like(is_inner), is_inner, int(ways[0])),
        map_taken(RunRanges(moment[lost.round], lost_key, *lost_places)),
    )
    asked_by = ranges.pick(np.searchsorted(asking, ends))
    return count_maps(chosen, runs, RunSums(asked_by, np.full(len(root), READY), root), maps)
