"""`MovingKeys`: the partitions of the events that can move a match, and of the others if need be.

Most events of a selective query move nothing, and to number their keys would cost more than all
the rest. Which symbols move something is known for the states that have been reached. A state that
is new may be moved by more of them: then the keys of all events of the batch are numbered.

Cost contract: a key for each event that moves something; all keys of a batch that leads to a new
state.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray


class MovingKeys:
    """The keys of a batch; -1 for events whose keys nobody has asked for."""

    def __init__(
        self,
        moving: NDArray[np.bool_],
        inert: NDArray[np.uint8],
        read: Callable[[NDArray[np.int64]], NDArray[np.int64]],
    ) -> None:
        """`inert` says which symbols do not move anything, `read` reads the keys of events."""
        self.numbers = np.full(len(moving), -1, np.int64)
        self._inert, self._read = inert, read
        self._others: NDArray[np.int64] | None = np.flatnonzero(~moving)
        self._number(np.flatnonzero(moving))

    def fit(self, inert: NDArray[np.uint8]) -> bool:
        """Number the keys of all events if other symbols are inert now; return whether it did."""
        if self._others is None or inert is self._inert:
            return False
        if np.array_equal(inert[: len(self._inert)], self._inert):
            self._inert = inert
            return False
        self._number(self._others)
        self._others = None
        return True

    def _number(self, events: NDArray[np.int64]) -> None:
        self.numbers[events] = self._read(events)
