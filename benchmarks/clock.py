"""Time measurements on a shared machine.

Contestants take turns, and the best round of each counts: a disturbance then hits one round of
several contestants, not the whole measurement of one. Means are not used, because noise on a
shared machine only ever adds.
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
    """Return the best seconds of each contestant; every second round runs backwards.

    `turn` is called before each turn with the contestant's name, the turns done, and all turns.

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


def time_call(
    action: Callable[[], object], clock: Callable[[], float] = time.perf_counter
) -> Contestant:
    """Return a contestant that measures the seconds of one call, by the wall clock or another."""

    def contestant() -> float:
        # garbage of earlier calls must not count here
        gc.collect()
        begin = clock()
        kept = action()
        seconds = clock() - begin
        del kept
        return seconds

    return contestant
