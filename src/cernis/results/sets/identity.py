"""A name for each match that depends on its events alone: 32 hexadecimal digits.

The name tells apart a new match and one that was delivered before. It is two sums of 64 bits over
the mixed row numbers of the events, with other mixing for each variable. So the order of events
does not count, and another run that numbers rows alike gives the same name. Two of 10^15 matches
share a name with a chance of one in a billion.

Cost: linear in the positions of the block, in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cernis.results.sets.matchset import MatchBlock, Positions, Spans, spans_of

Words = NDArray[np.uint64]

_SALTS = (0x9E3779B97F4A7C15, 0xD1B54A32D192ED03)
_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)


def match_ids(block: MatchBlock, rows: Callable[[Positions], Positions]) -> pa.StringArray:
    """Return the names of the matches of a block."""
    every = [spans_of(block, v) for v in range(len(block.offsets))]
    marked = [each._replace(positions=rows(each.positions)) for each in every]
    number = np.arange(len(block.start))
    marked += [Spans(rows(each), number, number + 1) for each in (block.start, block.end)]
    sums = [_sums(marked, salt) for salt in _SALTS]
    return _hexadecimal(np.stack(sums, axis=1))


def _sums(marked: list[Spans], salt: int) -> Words:
    total = np.zeros(len(marked[-1].low), np.uint64)
    for number, (rows, low, high) in enumerate(marked, 1):
        own = np.uint64(salt * (2 * number + 1) % 2**64)
        running = np.zeros(len(rows) + 1, np.uint64)
        np.cumsum(_mix(rows.astype(np.uint64) * np.uint64(salt) + own), out=running[1:])
        total += _mix(running[high] - running[low] + own)
    return _mix(total)


def _mix(words: Words) -> Words:
    """Mix words by the last steps of SplitMix64: each bit depends on all bits of the input."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def _hexadecimal(words: Words) -> pa.StringArray:
    octets = np.ascontiguousarray(words.astype(">u8")).view(np.uint8)
    digits = np.stack([_DIGITS[octets >> 4], _DIGITS[octets & 15]], axis=-1)
    offsets = np.arange(len(words) + 1, dtype=np.int32) * 32
    return pa.StringArray.from_buffers(
        len(words), pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(digits))
    )
