"""Poison: overwrite the records that a collection has freed, so that a stale read shows.

On where `CERNIS_POISON` is 1; the tests set it. Freed records usually still hold what they held, so
an engine that reads one after the collection gives the right answer by luck. A poisoned record is
alive in every window and has a position that no event has: its matches are wrong, or their events
cannot be looked up. Its links lead nowhere, so that no kernel leaves its arrays.

Cost contract: nothing where it is off; otherwise a pass over the freed records.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

IS_ON = os.environ.get("CERNIS_POISON") == "1"

POSITION = -(2**62)
_ALIVE = 2**62
_STARTS = ("start", "best")


def poison(*freed: NDArray[Any]) -> None:
    """Overwrite arrays that no one may read any more, if poison is on."""
    if not IS_ON:
        return
    for array in freed:
        if array.dtype.names:  # as bytes, since NumPy copies records one by one
            array.view(np.uint8)[...] = _find_poisoned(array.dtype, len(array)).view(np.uint8)
        else:
            array[...] = _choose_number(array.dtype)


_poisoned: dict[np.dtype[Any], NDArray[Any]] = {}
"""Records by their layout: to copy them takes a tenth of the time of writing field by field."""


def _find_poisoned(dtype: np.dtype[Any], number: int) -> NDArray[Any]:
    """Return so many poisoned records."""
    records = _poisoned.get(dtype)
    if records is None or len(records) < number:
        records = _poisoned[dtype] = np.empty(number, dtype)
        for name in dtype.names or ():
            records[name] = _ALIVE if name in _STARTS else _choose_number(dtype[name])
    return records[:number]


def _choose_number(dtype: np.dtype[Any]) -> int:
    """Return no link, or no position."""
    return 0 if dtype.itemsize < 8 else POSITION
