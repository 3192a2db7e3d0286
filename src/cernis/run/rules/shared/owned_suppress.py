"""`OwnedSuppressor`: SUPPRESS BY of the rules of a group, in one pass over the ends of all rules.

The rules name the same components of their partition, and each has a time of its own. A key is the
owner of the partition (`keys.OwnedKeys`) and the values of these components. An event of a group
is a copy for one rule, so an end has one owner.

Cost contract: that of `suppress` for the ends of all rules. The match of a reported end is listed
when it is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from cernis.encoding.keys import OwnedKeys, Tuples
from cernis.engine.listing import Listing
from cernis.engine.silence import MOST, Numbers
from cernis.pattern.query import Suppression
from cernis.results.sets.matchset import MatchBlock, MatchSet
from cernis.results.sets.unary import CompactMatches
from cernis.run.stages.stage import Run, Stages
from cernis.run.stages.suppress import Suppressor, count_ends
from cernis.state import Tree, read_array


class ReportedEnds(NamedTuple):
    """The ends that are reported, ascending."""

    ends: Numbers
    owners: Numbers
    suppressed: Numbers
    """How many matches were silenced before each."""

    def find_owners(self, ends: Numbers) -> Numbers:
        """Return the owners of some of these ends."""
        return self.owners[np.searchsorted(self.ends, ends)]


class SilencedMatches(CompactMatches):
    """The first match of each end that is reported; those that it silences are not listed."""

    def __init__(
        self,
        variables: Sequence[str],
        segments: Sequence[Any],
        labels: Sequence[frozenset[str]],
        reported: ReportedEnds,
    ) -> None:
        """The segments have roots of reported ends alone."""
        super().__init__(variables, segments, labels, most=1)
        self.reported = reported

    def _count_roots(self, segment: Any) -> list[int]:
        return [1] * len(segment.roots)

    def _block(self, listing: Listing, segment: Any) -> MatchBlock:
        block = super()._block(listing, segment)
        at = np.searchsorted(self.reported.ends, block.end)
        return block._replace(suppressed=self.reported.suppressed[at])


class OwnedClauses(NamedTuple):
    """What SUPPRESS BY and LIMIT say, by the numbers of owners."""

    lengths: Sequence[Fraction]
    limits: Numbers


class OwnedSuppressor(Suppressor):
    """Silences the matches of many rules, each apart from the others."""

    def __init__(self, run: Run, suppress: Suppression, partitions: OwnedKeys) -> None:
        super().__init__(run, suppress)
        self._keys = Tuples(len(suppress.names), leading=True)
        self._partitions = partitions
        self._clauses = OwnedClauses((), np.empty(0, np.int64))
        self.silenced_of = np.empty(0, np.int64)
        """How many matches of each owner were silenced in all."""

    def use(self, clauses: OwnedClauses) -> None:
        """Go on with the clauses of other rules."""
        self._clauses, before = clauses, self.silenced_of
        self.silenced_of = np.zeros(len(clauses.limits), np.int64)
        known = min(len(before), len(clauses.limits))
        self.silenced_of[:known] = before[:known]

    def choose(self, found: MatchSet, stages: Stages, *, last: bool) -> MatchSet:
        assert isinstance(found, CompactMatches)
        ends, numbers = count_ends(found)
        owners = self._find_owners(found, ends)
        numbers = np.minimum(numbers, self._clauses.limits[owners])
        if (none := numbers == 0).any():  # LIMIT 0
            ends, numbers, owners = (each[~none] for each in (ends, numbers, owners))
        suppressed = self._silence_owned(ends, numbers, owners) if len(ends) else numbers
        kept = suppressed >= 0
        reported = ReportedEnds(ends[kept], owners[kept], suppressed[kept])
        segments = []
        for segment in found.segments:
            roots = segment.roots[np.isin(segment.roots["end"], reported.ends)]
            if len(roots):
                segments.append(segment._replace(roots=roots))
        return SilencedMatches(self.variables, segments, found.labels, reported)

    def _find_owners(self, found: CompactMatches, ends: Numbers) -> Numbers:
        """Return the owner of each of these ends."""
        if not len(ends):
            return ends
        every = np.concatenate([segment.roots["end"] for segment in found.segments])
        keys = np.concatenate([segment.roots["key"] for segment in found.segments])
        distinct, first = np.unique(every, return_index=True)
        own: Numbers = keys[first[np.searchsorted(distinct, ends)]]
        return self._partitions.list_owners()[own]

    def _silence_owned(self, ends: Numbers, numbers: Numbers, owners: Numbers) -> Numbers:
        """Return how many were silenced before each end that is reported; -1: it is not."""
        ticks = np.array([self._count_ticks(each) for each in self._clauses.lengths], np.int64)
        parts = [owners, *self._encode_ends(ends)]
        suppressed = self._silence(ends, parts, numbers, ticks[owners])
        order = np.argsort(owners, kind="stable")
        firsts = np.flatnonzero(np.diff(owners[order], prepend=-1))
        lost = (numbers - (suppressed >= 0))[order].astype(object)  # sums may be huge
        for owner, more in zip(owners[order[firsts]], np.add.reduceat(lost, firsts), strict=True):
            self.silenced_of[owner] = min(int(self.silenced_of[owner]) + more, int(MOST))
        return suppressed

    def drop_owners(self, owners: Numbers) -> None:
        """Drop the keys of rules that leave; another rule may have the number of one later."""
        self.silenced_of[owners] = 0
        self._keep(np.flatnonzero(~np.isin(self._keys.list_first(), owners)))

    def freeze(self, stages: Stages) -> Tree:
        return {**super().freeze(stages), "owned": self.silenced_of.copy()}

    def thaw(self, tree: Tree) -> None:
        super().thaw(tree)
        shape = self.silenced_of.shape
        self.silenced_of = read_array(tree, "owned", np.int64, shape, low=0).copy()
