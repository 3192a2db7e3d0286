"""`PartitionRanks`: the rank of each event among the events of its partition.

Cost contract: one stable sort of the keys per batch, and 8 bytes per partition.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]


def rank_events(keys: Numbers, counts: Numbers) -> Numbers:
    """Return the rank of each event in its partition, which has had `counts` before; -1: none.

    >>> rank_events(np.array([1, 0, -1, 1]), np.array([5, 0]))
    array([ 0,  5, -1,  1])
    """
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    first = np.searchsorted(ordered, ordered)
    ranks = np.empty(len(keys), np.int64)
    ranks[order] = np.arange(len(keys)) - first + counts[ordered]
    return np.where(keys < 0, -1, ranks)


class PartitionRanks:
    """Counts the events of each partition, batch after batch.

    >>> ranks = PartitionRanks()
    >>> ranks.read(np.array([1, 0, 1])).tolist(), ranks.read(np.array([1, -1])).tolist()
    ([0, 0, 1], [2, -1])
    """

    def __init__(self) -> None:
        self.counts = np.zeros(1, np.int64)

    def read(self, keys: Numbers) -> Numbers:
        """Return the ranks of the next events."""
        self.reserve(int(keys.max(initial=-1)) + 1)
        ranks = rank_events(keys, self.counts)
        self.counts += np.bincount(keys[keys >= 0], minlength=len(self.counts))
        return ranks

    def reserve(self, keys: int) -> None:
        more = keys - len(self.counts)
        if more > 0:
            more = max(more, len(self.counts))
            self.counts = np.concatenate([self.counts, np.zeros(more, np.int64)])

    def keep_only(self, keys: Numbers) -> None:
        """Renumber partitions: keys[i] becomes i; the others begin anew."""
        self.reserve(int(keys.max(initial=-1)) + 1)
        self.counts = np.append(self.counts[keys], 0)
