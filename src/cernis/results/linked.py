"""The compact sets of SPAseQ's matches as a match set.

Cost contract: as `cernis.results.correlated`, but `count` and `counts` do not grow with the window
where few groups lead to another (`cernis.engine.dag.slide`). They cost a logarithm for each event
where a match has up to three steps that wait in search trees, or rounds that each run takes in one
way (`slide_ranges`), where a row ends rounds, and where a value decides rounds that end matches or
of which the next step takes all (`count_maps`). If the next step compares the last round under `:`,
or if runs have had other steps, they are linear in the pairs of a run and a round that fits it
(`count_rounds`). Counts beyond 2^53 cost a pass for each 26 bits (`residues`).
"""

from __future__ import annotations

from itertools import accumulate, groupby, pairwise

from cernis.engine.dag.count import count_matches
from cernis.engine.dag.count_maps import count_decided, count_ended, takes_groups
from cernis.engine.dag.count_rounds import estimate_pairs, list_pairs, slide_pairs, sum_pairs
from cernis.engine.dag.links import DagSegment
from cernis.engine.dag.records import BRANCHES
from cernis.engine.dag.slide import count_sliding, count_values
from cernis.engine.dag.slide_ranges import count_once, count_ranges, takes_all
from cernis.engine.dag.steps import Chosen, choose_vertices, place_runs, read_steps
from cernis.results.correlated import CorrelatedMatches


class LinkedMatches(CorrelatedMatches):
    """The matches of some segments of a linked engine, in the order it gave them."""

    def _count_segments(self) -> list[list[int]]:
        found: list[list[int]] = []
        # segments between two collections share their records, and their array of counters
        for _, group in groupby(self._segments, key=lambda one: id(one.memory.counters)):
            segments = list(group)
            memory, chosen = segments[-1].memory, choose_vertices(segments)
            if memory.counters[BRANCHES] > 1:
                numbers = _count_trees(segments, chosen)
            else:
                numbers = count_sliding(memory, chosen)
            if numbers is None:
                found += [count_matches(segment) for segment in segments]
                continue
            ends = [0, *accumulate(len(segment.roots) for segment in segments)]
            found += [numbers[begin:end] for begin, end in pairwise(ends)]
        return found


_FEW_PAIRS = 32
"""So many pairs of a run and a round for each vertex are counted in less time than values are
sorted."""


def _count_trees(segments: list[DagSegment], chosen: Chosen) -> list[int] | None:
    """Return the number of matches of every root where runs wait in trees; None: it takes long."""
    if chosen.ended.any():
        numbers = count_ended(segments, chosen, place_runs(segments[-1].memory, chosen))
        return _count_pairs(segments, chosen) if numbers is None else numbers
    if (chosen.rounds >= 0).any():
        return _count_decided(segments, chosen)
    read = read_steps(segments[-1].memory, chosen)
    numbers = count_ranges(*read)
    return count_values(*read) if numbers is None else numbers


def _count_decided(segments: list[DagSegment], chosen: Chosen) -> list[int] | None:
    """Return the number of matches of every root where a value decides rounds, or None."""
    numbers, by_range = None, takes_groups(segments[-1], chosen)
    by_time = takes_all(segments[-1], chosen)
    if by_range or by_time:
        pairs = estimate_pairs(segments, chosen)
        if pairs > _FEW_PAIRS * len(chosen.start):
            runs = place_runs(segments[-1].memory, chosen)
            numbers = count_decided(segments, chosen, runs) if by_range else None
            if by_time and numbers is None:
                numbers = count_once(segments, chosen)
    return _count_pairs(segments, chosen) if numbers is None else numbers


def _count_pairs(segments: list[DagSegment], chosen: Chosen) -> list[int] | None:
    """Return the number of matches of every root by the pairs of a run and a round, or None."""
    pairs = list_pairs(segments, chosen)
    numbers = None if chosen.ended.any() else sum_pairs(segments, chosen, pairs)
    return slide_pairs(segments, chosen, pairs) if numbers is None else numbers
