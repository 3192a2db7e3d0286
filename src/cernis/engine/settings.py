"""How an engine runs a query, beside its automaton: the window, the partitions, the strategy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

NO_WINDOW, EVENT_WINDOW, CLOCK_WINDOW = range(3)
CONSUME_NOTHING, CONSUME_PARTITION, CONSUME_ALL = range(3)
RESOLVE_NOTHING, RESOLVE_LAST, RESOLVE_ANY, RESOLVE_NEXT, RESOLVE_MAX, RESOLVE_LONGEST = range(6)

FOREVER = np.int64(-(2**63))
"""The bound of a window that never ends: every start is at or after it."""
MOST_EVENTS = 2**62
"""No stream has so many events, and a position less so many is still a number of 64 bits."""


NEVER = np.int64(2**62)
"""A position after all events: nothing starts."""


LAST_TIME = 2**63 - 1
"""A time after all events."""


def add_ticks(times: NDArray[np.int64], ticks: int) -> NDArray[np.int64]:
    """Return times some ticks later, at most the last one.

    >>> add_ticks(np.array([5, 2**63 - 9]), 10).tolist() == [15, LAST_TIME]
    True
    """
    if ticks > LAST_TIME:
        return add_ticks(add_ticks(times, LAST_TIME), min(ticks - LAST_TIME, LAST_TIME))
    least = LAST_TIME - ticks
    return np.where(times > least, LAST_TIME, np.minimum(times, least) + ticks)


def pack_distance(ticks: int) -> int:
    """Return the distance between two times as 64 bits: beyond the last time, minus the rest.

    >>> pack_distance(5), pack_distance(LAST_TIME + 5)
    (5, -5)
    """
    return ticks if ticks <= LAST_TIME else LAST_TIME - min(ticks, 2 * LAST_TIME)


def unpack_distance(packed: int) -> int:
    """Return the distance that `pack_distance` has packed."""
    return packed if packed >= 0 else LAST_TIME - packed


class Rules(NamedTuple):
    """The settings that the kernels look at."""

    window: int
    size: int
    consume: int
    keeps_last: bool
    """Of partial matches with one start, the one that ends later always wins."""
    from_earliest: bool
    """Starts are negated, so that indexes put the earliest first."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one query."""

    window: int = NO_WINDOW
    size: int = 0
    partitioned: bool = False
    shared_clock: bool = True
    """The window's clock never decreases over the whole stream, not only within a partition."""
    consume: int = CONSUME_NOTHING
    resolve: int = RESOLVE_NOTHING
    """The strategy that chooses between matches of different starts."""
    keeps_first: bool = False
    """The earliest start of a state's partial matches is kept beside the latest."""
    keeps_ends: bool = False
    """LONGEST leaves matches of every end: WITHOUT is decided before ends are compared."""
    from_earliest: bool = False
    """The indexes of compared events put the earliest start first: nothing leaves a window, and
    LONGEST asks for no other."""

    @property
    def counts_keys(self) -> bool:
        """Whether all events of a partition count, also those that move nothing."""
        return self.partitioned and self.window == EVENT_WINDOW

    @property
    def rules(self) -> Rules:
        """The rules of the kernels, which consume nothing where a strategy chooses later."""
        consume = CONSUME_NOTHING if self.resolve else self.consume
        keeps_last = self.resolve in (RESOLVE_LAST, RESOLVE_ANY)
        return Rules(self.window, self.size, consume, keeps_last, self.from_earliest)
