"""`silence`: which matches are reported where one silences those that follow it.

For `SUPPRESS BY`. Keys are numbered. A key has the time until which its last reported match
silences others, and the number of matches that were silenced since.

Cost contract: one pass over the ends (or matches) in the order in which they are pushed, two
numbers for each key.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import borrowing as kernel

Numbers = NDArray[np.int64]

NEVER = np.iinfo(np.int64).min
MOST = np.iinfo(np.int64).max


class Silences(NamedTuple):
    """For each key: until when it is silent, and how many matches were silenced."""

    until: Numbers
    """The last silent time; NEVER: none was reported."""
    silenced: Numbers


class Pushed(NamedTuple):
    """Groups of matches that share a key and an end, one per index, in the order of ends."""

    key: Numbers
    """The number of the key; negative: it equals no other."""
    time: Numbers
    number: Numbers
    """How many matches there are, at most MOST; the first of them can be reported."""
    length: Numbers
    """How long after it a reported match silences others, as a packed distance."""


@kernel
def silence(silences: Silences, pushed: Pushed, suppressed: Numbers) -> None:
    """Set `suppressed` to the number silenced before each reported match; -1: not reported.

    Where an end has several matches and one is reported, it silences the others.
    """
    for i in range(len(pushed.key)):
        key = pushed.key[i]
        if key < 0:
            suppressed[i] = 0
            continue
        more = pushed.number[i]
        if pushed.time[i] > silences.until[key]:
            suppressed[i] = silences.silenced[key]
            time, length = pushed.time[i], pushed.length[i]
            if length < 0:
                time, length = time + MOST if time < 0 else MOST, -length
            silences.until[key] = time + length if time <= MOST - length else MOST
            silences.silenced[key] = 0
            more -= 1 if more < MOST else 0
        else:
            suppressed[i] = -1
        count = silences.silenced[key]
        silences.silenced[key] = count + more if count <= MOST - more else MOST
