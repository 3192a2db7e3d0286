"""Branching programs: which tests decide whether an event passes.

Each step of a program asks a test, and has the step that follows if the test holds, and the one
that follows if it does not. Many programs are walked for each event, over the tests that hold for
it, which are stamped with its number.

Cost contract: per event the tests that hold for it, and per program the steps up to the one that
decides.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import kernel

Numbers = NDArray[np.int64]

PASS, FAIL = -1, -2


class BranchingPrograms(NamedTuple):
    """The programs of all rules: tests, and what follows each."""

    test: Numbers
    then: Numbers
    otherwise: Numbers

    def find_passing(
        self,
        pairs: tuple[Numbers, Numbers],
        hits: tuple[Numbers, Numbers],
        holds: NDArray[np.bool_],
    ) -> NDArray[np.bool_]:
        """Return which pairs of an event and the first step of a program pass.

        `hits` are events with tests that hold for them; `holds` are tests that hold for every one.
        Both have their events ascending.

        >>> steps = BranchingPrograms(*np.array([[1, PASS, FAIL], [0, 0, FAIL]]).T)  # 0 AND 1
        >>> events, begins = np.array([5, 6, 7]), np.ones(3, np.int64)
        >>> hits = np.array([5, 5, 6]), np.array([0, 1, 0])
        >>> steps.find_passing((events, begins), hits, np.zeros(2, np.bool_)).tolist()
        [True, False, False]
        """
        passed, stamps = np.zeros(len(pairs[0]), np.bool_), np.full(len(holds), -1, np.int64)
        _walk_programs(self, pairs, hits, holds, stamps, passed)
        return passed


@kernel
def _walk_programs(programs, pairs, hits, holds, stamps, kept):
    """Mark the pairs that pass."""
    ends, begins = pairs
    events, tests = hits
    hit = 0
    for i in range(len(ends)):
        event = ends[i]
        while hit < len(events) and events[hit] <= event:
            stamps[tests[hit]] = events[hit]
            hit += 1
        at = begins[i]
        while at >= 0:
            test = programs.test[at]
            if holds[test] or stamps[test] == event:
                at = programs.then[at]
            else:
                at = programs.otherwise[at]
        kept[i] = at == PASS
