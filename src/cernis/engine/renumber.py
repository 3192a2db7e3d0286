"""Renumber dense names: codes of partitions and values, of which some are dropped.

A name is a number from 0 on; -1 is none.

Cost contract: linear in the names and in the largest of them. Rejected: `np.unique` and `union1d`,
which hash, and take a second for a million names.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]

NOWHERE = -1


def list_distinct(*parts: Numbers) -> Numbers:
    """Return each name in these arrays once, ascending, without -1.

    >>> list_distinct(np.array([7, 3, -1]), np.array([7])).tolist()
    [3, 7]
    """
    names = np.concatenate([np.empty(0, np.int64), *parts])
    is_used = np.zeros(int(names.max(initial=NOWHERE)) + 2, np.bool_)
    is_used[names] = True
    return np.flatnonzero(is_used[:-1])


def renumber(names: Numbers, kept: Numbers) -> Numbers:
    """Return the index of each name among those kept, or -1.

    >>> renumber(np.array([7, 3, -1, 5]), np.array([3, 7])).tolist()
    [1, 0, -1, -1]
    """
    most = max(int(names.max(initial=NOWHERE)), int(kept.max(initial=NOWHERE)))
    return find_indices(kept, most + 1)[names]


def find_indices(kept: Numbers, size: int) -> Numbers:
    """Return the index among those kept, or -1, of each name below `size` and of -1."""
    indices = np.full(size + 1, NOWHERE, np.int64)  # the last one is for -1
    indices[kept] = np.arange(len(kept))
    return indices
