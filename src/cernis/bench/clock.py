"""Timing on a machine that does other things too.

The contestants take turns, and each is worth its best round: a disturbance then hits a
round of everyone's, not one contestant's whole measurement. Means are not used, because
noise on a shared machine only ever adds.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

Contestant = Callable[[], float]
Name = TypeVar("Name", bound=Hashable)


def race(
    contestants: Mapping[Name, Contestant],
    rounds: int,
    turn: Callable[[Name, int, int], None] | None = None,
) -> dict[Name, float]:
    """Best seconds of each contestant over `rounds` turns; every second round runs backwards.

    `turn` is told whose turn it is, how many turns are over, and how many there are.

    >>> race({"slow": lambda: 2.0, "fast": lambda: 1.0}, rounds=2)
    {'slow': 2.0, 'fast': 1.0}
    """
    best = dict.fromkeys(contestants, float("inf"))
    order = list(contestants)
    for number in range(rounds):
        for place, name in enumerate(order):
            if turn is not None:
                turn(name, number * len(order) + place, rounds * len(order))
            best[name] = min(best[name], contestants[name]())
        order.reverse()
    return best


def time_call(action: Callable[[], object]) -> Contestant:
    """A contestant that takes the wall-clock seconds of one call."""

    def contestant() -> float:
        # What earlier calls left behind is not this one's to clear away.
        gc.collect()
        begin = time.perf_counter()
        kept = action()
        seconds = time.perf_counter() - begin
        del kept
        return seconds

    return contestant
