"""The compact sets of SPAseQ's matches as a match set.

Cost contract: as `cernis.results.sets.correlated`, but `count` and `counts` do not grow with the
window where few groups lead to another (`cernis.engine.dag.slide`). They cost a logarithm for each
event where a match has up to three steps that wait in search trees, or rounds that each run takes
in one way, where a row ends rounds, and where a value decides rounds that end matches or of which
the next step takes all (`count_ranges`). If the next step compares the last round under `:`, or if
runs have had other steps, they are linear in the pairs of a run and a round that fits it
(`count_pairs`). Counts beyond 2^53 cost a pass for each 26 bits (`residues`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, groupby, pairwise

import numpy as np

from cernis.engine.dag.count import count_matches
from cernis.engine.dag.count_pairs import estimate_pairs, list_pairs, slide_pairs, sum_pairs
from cernis.engine.dag.count_ranges import (
    count_once,
    count_rounds,
    count_steps,
    takes_all,
    takes_groups,
)
from cernis.engine.dag.links import DagSegment
from cernis.engine.dag.records import BRANCHES
from cernis.engine.dag.slide import count_sliding, count_values
from cernis.engine.dag.steps import Chosen, choose_vertices, read_steps
from cernis.results.sets.correlated import CorrelatedMatches


class LinkedMatches(CorrelatedMatches):
    """The matches of some segments of a linked engine, in the order it gave them."""

    def _count_segments(self) -> list[list[int]]:
        found: list[list[int]] = []
        # segments between two collections share their records, and their array of counters
        for _, group in groupby(self._segments, key=lambda one: id(one.memory.counters)):
            segments = list(group)
            segment = join_segments(segments)
            memory, chosen = segment.memory, choose_vertices(segment)
            if memory.counters[BRANCHES] > 1:
                numbers = _count_trees(segment, chosen)
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


def join_segments(segments: Sequence[DagSegment]) -> DagSegment:
    """Return one segment for some that share their records: the last has those of the others."""
    return segments[-1]._replace(roots=np.concatenate([one.roots for one in segments]))


def _count_trees(segment: DagSegment, chosen: Chosen) -> list[int] | None:
    """Return the number of matches of every root where runs wait in trees; None: it takes long."""
    if (chosen.rounds < 0).all():
        read = read_steps(segment.memory, chosen)
        numbers = count_steps(*read)
        return count_values(*read) if numbers is None else numbers
    numbers = None
    if chosen.ended.any() or _has_many_pairs(segment, chosen):
        numbers = count_rounds(segment, chosen)
        if numbers is None:
            numbers = count_once(segment, chosen)
    return _count_pairs(segment, chosen) if numbers is None else numbers


def _has_many_pairs(segment: DagSegment, chosen: Chosen) -> bool:
    """Return whether rounds that a value decides are counted in less time by ranges of runs."""
    if not (takes_groups(segment, chosen) or takes_all(segment, chosen)):
        return False
    return estimate_pairs(segment, chosen) > _FEW_PAIRS * len(chosen.start)


def _count_pairs(segment: DagSegment, chosen: Chosen) -> list[int] | None:
    """Return the number of matches of every root by the pairs of a run and a round, or None."""
    pairs = list_pairs(segment, chosen)
    numbers = None if chosen.ended.any() else sum_pairs(segment, chosen, pairs)
    return slide_pairs(segment, chosen, pairs) if numbers is None else numbers
