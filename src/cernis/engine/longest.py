"""Intervals that no other interval of their partition properly contains, for LONGEST.

Intervals come by their ends. Per partition, those that may stay form a stack whose starts increase:
a new interval contains the ones on top that start no earlier.

Cost contract: amortized O(1) for each interval.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import kernel

Numbers = NDArray[np.int64]


def keep_longest(keys: Numbers, starts: Numbers, ends: Numbers) -> NDArray[np.bool_]:
    """Return which intervals stay; they come by their ends.

    >>> keep_longest(np.array([0, 0, 1]), np.array([2, 1, 2]), np.array([3, 4, 5])).tolist()
    [False, True, True]
    """
    top = np.full(int(keys.max(initial=0)) + 1, -1, np.int64)
    return np.asarray(_keep_longest(keys, starts, ends, top))


@kernel
def _keep_longest(keys, starts, ends, top):
    kept = np.ones(len(keys), np.bool_)
    below = np.empty(len(keys), np.int64)
    for i in range(len(keys)):
        last = top[keys[i]]
        while last >= 0 and starts[last] >= starts[i]:
            if starts[last] == starts[i] and ends[last] == ends[i]:
                break
            kept[last] = False
            last = below[last]
        if last >= 0 and ends[last] == ends[i] and starts[last] < starts[i]:
            kept[i] = False
            top[keys[i]] = last
        else:
            below[i] = last
            top[keys[i]] = i
    return kept


def consume(scopes: Numbers, starts: Numbers, ends: Numbers, used: Numbers) -> NDArray[np.bool_]:
    """Return which intervals begin after the last one of their scope that stayed.

    `used` has, per scope, the end of that one, and is brought up to date. Equal ends do not
    exclude each other.

    >>> used = np.array([-1])
    >>> consume(np.zeros(3, np.int64), np.array([0, 1, 3]), np.array([2, 4, 5]), used).tolist()
    [True, False, True]
    >>> used.tolist()
    [5]
    """
    return np.asarray(_consume(scopes, starts, ends, used, used.copy()))


@kernel
def _consume(scopes, starts, ends, used, before):
    kept = np.zeros(len(scopes), np.bool_)
    for i in range(len(scopes)):
        scope = scopes[i]
        if used[scope] < ends[i]:
            before[scope] = used[scope]
        if starts[i] > before[scope]:
            kept[i] = True
            used[scope] = ends[i]
    return kept
