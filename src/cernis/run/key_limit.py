"""`KeyLimit`: the most partitions that a session keeps, and what happens beyond.

A guard for streams whose keys never leave. Only partitions with partial matches count, after each
batch. Beyond the limit the session raises an error, or drops the partitions that have been idle
longest: matches that would have continued them are missing.

Cost contract: nothing without a limit; otherwise 8 bytes a partition and a NumPy pass per batch.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cernis.errors import BudgetError, CernisError

Keys = NDArray[np.int64]
OnFull = Literal["fail", "oldest"]


class KeyLimit:
    """The most partitions that may have partial matches; None: any number.

    >>> limit = KeyLimit(2, "oldest")
    >>> limit.note(0, np.array([0, 1, 2, 0]))
    >>> limit.choose(np.array([0, 1, 2])).tolist(), limit.dropped
    ([0, 2], 1)
    """

    def __init__(self, most: int | None = None, on_full: OnFull = "fail") -> None:
        if most is not None and most < 1:
            raise CernisError("max_keys must be at least 1")
        if on_full not in ("fail", "oldest"):
            raise CernisError(f"on_full must be 'fail' or 'oldest', not {on_full!r}")
        self.most = most
        self.on_full = on_full
        self.dropped = 0
        """How many partitions were dropped."""
        self.last = np.empty(0, np.int64)
        """Per partition, the position of its last event."""

    def note(self, base: int, keys: Keys) -> None:
        """Note the last events of partitions in a batch that begins at position `base`."""
        self._reserve(int(keys.max(initial=-1)) + 1)
        there = np.flatnonzero(keys >= 0)
        self.last[keys[there]] = base + there  # the last one of a key stays

    def choose(self, live: Keys) -> Keys:
        """Return the partitions that stay, ascending, of more than the limit allows."""
        assert self.most is not None
        if self.on_full == "fail":
            raise BudgetError(
                f"{len(live):,} partitions have partial matches, and max_keys is {self.most:,}; "
                "add FORGET AFTER or WITHIN a time, allow more keys, or drop the partitions that "
                "have been idle longest (on_full='oldest', --drop-oldest)"
            )
        self._reserve(int(live[-1]) + 1)
        self.dropped += len(live) - self.most
        order = np.argsort(self.last[live], kind="stable")
        return np.sort(live[order[-self.most :]])

    def keep_only(self, keys: Keys) -> None:
        """Renumber partitions: keys[i] becomes i."""
        self._reserve(int(keys.max(initial=-1)) + 1)
        self.last = self.last[keys]

    def _reserve(self, keys: int) -> None:
        more = keys - len(self.last)
        if more > 0:
            self.last = np.concatenate([self.last, np.zeros(max(more, len(self.last)), np.int64)])

    @property
    def note_dropped(self) -> str:
        """What to tell of dropped partitions."""
        number = "1 partition was" if self.dropped == 1 else f"{self.dropped:,} partitions were"
        return f"{number} dropped, idle longest: max_keys is {self.most:,}; matches may be missing"
