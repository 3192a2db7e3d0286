"""Counting while the window slides: as many as adding up the runs of each start."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cernis.engine.dag.slide import MomentLog, count_log

GROUPS = 24


class RandomLog:
    """Random moments of a window, and how many runs end at each root, start by start."""

    def __init__(self, seed: int, moments: int, window: int = 12) -> None:
        self.window = window
        self.rng = random.Random(seed)
        self.firsts: list[int] = []
        self.starts: list[int] = []
        self.asked: list[tuple[int, int]] = []
        self.filed: list[list[int]] = []
        self.bounds: list[int] = []
        self.counts: list[int] = []
        self.runs = [Counter[int]() for _ in range(GROUPS)]
        for moment in range(moments):
            self._add_moment(moment)

    def _add_moment(self, moment: int) -> None:
        bound = moment - self.window
        added = []
        self.firsts.append(len(self.starts))
        for _ in range(self.rng.randint(1, 3)):
            gathered, asked = Counter({moment: 1}), (-1, 0)
            if self.rng.random() < 0.6:
                begin = self.rng.randrange(GROUPS)
                asked = (begin, min(GROUPS, begin + self.rng.choice([1, 2, GROUPS])))
                gathered = sum((self.runs[group] for group in range(*asked)), Counter[int]())
            if not gathered or max(gathered) < bound:
                continue
            filed = self.rng.sample(range(GROUPS), self.rng.randint(0, 2))
            self.starts.append(max(gathered))
            self.asked.append(asked)
            self.filed.append(filed)
            self.bounds.append(bound)
            self.counts.append(sum(n for start, n in gathered.items() if start >= bound))
            added += [(group, gathered) for group in filed]
        for group, gathered in added:
            self.runs[group] += gathered

    def read(self) -> MomentLog:
        """Return the log; each vertex is a root."""
        last_asked = np.full(GROUPS, -1)
        ends = [*self.firsts[1:], len(self.starts)]
        for moment, (begin, end) in enumerate(zip(self.firsts, ends, strict=True)):
            for asked in self.asked[begin:end]:
                last_asked[max(asked[0], 0) : asked[1]] = moment
        return MomentLog(
            np.array([*self.firsts, len(self.starts)]),
            np.array(self.starts),
            np.array([asked for asked, _ in self.asked]),
            np.array([end for _, end in self.asked]),
            np.cumsum([0, *map(len, self.filed)]),
            np.array([group for filed in self.filed for group in filed], np.int64),
            last_asked,
            np.arange(len(self.starts) + 1),
            np.array(self.bounds),
        )


@given(st.integers(0, 2**32), st.integers(1, 80))
def test_the_window_slides_over_groups_that_many_others_lead_to(seed: int, moments: int) -> None:
    drawn = RandomLog(seed, moments)
    assert count_log(drawn.read()) == drawn.counts


def test_counts_beyond_a_float_are_exact() -> None:
    drawn = RandomLog(5, 360, window=260)
    assert max(drawn.counts) > 2**53
    assert count_log(drawn.read()) == drawn.counts
