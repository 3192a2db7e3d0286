"""How an engine runs a query, beside its automaton: the window, the partitions, the strategy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

NO_WINDOW, EVENT_WINDOW, CLOCK_WINDOW = range(3)
CONSUME_NOTHING, CONSUME_PARTITION, CONSUME_ALL = range(3)
RESOLVE_NOTHING, RESOLVE_LAST, RESOLVE_ANY, RESOLVE_NEXT, RESOLVE_MAX, RESOLVE_LONGEST = range(6)

FOREVER = np.int64(-(2**63))
"""The bound of a window that never ends: every start is at or after it."""
MOST_EVENTS = 2**62
"""No stream has so many events, and a position less so many is still a number of 64 bits."""


NEVER = np.int64(2**62)
"""A position after all events: nothing starts."""


class Rules(NamedTuple):
    """The settings that the kernels look at."""

    window: int
    size: int
    consume: int
    keeps_last: bool
    """Of partial matches with one start, the one that ends later always wins."""


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

    @property
    def rules(self) -> Rules:
        """The rules of the kernels, which consume nothing where a strategy chooses later."""
        consume = CONSUME_NOTHING if self.resolve else self.consume
        keeps_last = self.resolve in (RESOLVE_LAST, RESOLVE_ANY)
        return Rules(self.window, self.size, consume, keeps_last)
