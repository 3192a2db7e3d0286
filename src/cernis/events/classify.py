"""Kernels that sort the values of one column into few classes, adding to a code.

Each takes a lookup table with one entry per class and adds the entry of each row's
class to `codes[row]`. Columns come as Arrow's own buffers: no copies, no objects.
They are loops of a few nanoseconds a row; `encode` decides which one a column gets.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cernis.events.batch import Int64s
from cernis.events.compiled import kernel
from cernis.events.hashing import Bytes, Words, hash_strings, head_words

Codes = npt.NDArray[np.int64] | npt.NDArray[np.int32]
Lookup = npt.NDArray[np.int64] | npt.NDArray[np.int32]

_NO_BITS = np.frombuffer(b"", np.uint8)  # read-only, as all buffers of Arrow are
_MIX = np.uint64(0x9E3779B97F4A7C15)


def validity(array: pa.Array) -> tuple[Bytes, int, bool]:
    """(bitmap, offset of the first row in it, whether there are nulls)."""
    buffer = array.buffers()[0]
    if buffer is None or not array.null_count:
        return _NO_BITS, 0, False
    return np.frombuffer(buffer, np.uint8), array.offset, True


def values_of(array: pa.Array, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """The fixed-width values of an array, nulls being whatever the buffer holds."""
    buffer = array.buffers()[1]
    size = np.dtype(dtype).itemsize
    if buffer is None:
        return np.zeros(len(array), dtype)
    return np.frombuffer(buffer, dtype, len(array), array.offset * size)


def text_of(array: pa.Array) -> tuple[npt.NDArray[Any], Bytes]:
    """(offsets, data) of a string array."""
    dtype = np.int64 if pa.types.is_large_string(array.type) else np.int32
    _, offsets, data = array.buffers()
    if offsets is None or not len(array):
        return np.zeros(len(array) + 1, dtype), _NO_BITS
    at = array.offset * np.dtype(dtype).itemsize
    ends = np.frombuffer(offsets, dtype, len(array) + 1, at)
    return ends, _NO_BITS if data is None else np.frombuffer(data, np.uint8)


# --------------------------------------------------------------- by lookup


@kernel
def add_by_index(
    codes: Codes,
    index: npt.NDArray[Any],
    lookup: Lookup,
    null: Any,
    bits: Bytes,
    offset: int,
    has_nulls: bool,
) -> None:
    """Add `lookup[index[row]]`, or `null` where the row has no value."""
    for i in range(len(index)):
        if has_nulls:
            at = offset + i
            if not (bits[at >> 3] >> (at & 7)) & 1:
                codes[i] += null
                continue
        codes[i] += lookup[index[i]]


# ----------------------------------------------------------- by thresholds


@kernel
def add_by_thresholds(
    codes: Codes,
    values: npt.NDArray[Any],
    thresholds: npt.NDArray[Any],
    lookup: Lookup,
    bits: Bytes,
    offset: int,
    has_nulls: bool,
) -> None:
    """Add the entry for how many (ascending) thresholds are at most the value.

    After the entries for 0 … k thresholds come that of NULL and that of NaN.
    """
    k = len(thresholds)
    for i in range(len(values)):
        v = values[i]
        below: Any = 0
        if k <= 8:
            for j in range(k):
                below += np.int64(v >= thresholds[j])
        else:
            low = 0
            high = k
            while low < high:
                middle = (low + high) >> 1
                if v >= thresholds[middle]:
                    low = middle + 1
                else:
                    high = middle
            below = low
        if v != v:
            below = k + 2
        if has_nulls:
            at = offset + i
            if not (bits[at >> 3] >> (at & 7)) & 1:
                below = k + 1
        codes[i] += lookup[below]


# ------------------------------------------------------------------ by text


@kernel
def _slot_of(key: Any, size: Any, multiplier: Any, shift: Any) -> Any:
    return np.int64(((key ^ (np.uint64(size) << np.uint64(56))) * multiplier) >> shift)


@kernel
def _fill_slots(
    keys: Any, sizes: Int64s, slots: npt.NDArray[np.int32], multiplier: Any, shift: Any
) -> int:
    """Place every literal; how many had to move on from their own slot."""
    mask = len(slots) - 1
    moved = 0
    slots[:] = -1
    for code in range(len(sizes)):
        at = _slot_of(keys[code], sizes[code], multiplier, shift)
        while slots[at] >= 0:
            moved += 1
            at = (at + 1) & mask
        slots[at] = code
    return moved


@kernel
def add_by_text(
    codes: Codes,
    offsets: npt.NDArray[Any],
    data: Bytes,
    keys: Words,
    slots: npt.NDArray[np.int32],
    literal_keys: Words,
    sizes: Int64s,
    pool: Bytes,
    starts: Int64s,
    multiplier: Any,
    shift: Any,
    lookup: Lookup,
    bits: Bytes,
    offset: int,
    has_nulls: bool,
) -> None:
    """Add the entry of the literal that the row's text equals.

    After the entries of the k literals come that of any other text and that of NULL.
    """
    k = len(sizes)
    mask = len(slots) - 1
    begin = np.int64(offsets[0])
    for i in range(len(keys)):
        end = np.int64(offsets[i + 1])
        size = end - begin
        found: Any = k
        at = _slot_of(keys[i], size, multiplier, shift)
        while True:
            code = slots[at]
            if code < 0:
                break
            if literal_keys[code] == keys[i] and sizes[code] == size:
                same = True
                if size > 8:
                    here, there = np.uint64(begin), np.uint64(starts[code])
                    last = here + np.uint64(size - 8)
                    while same:
                        mine = (
                            np.uint64(data[here])
                            | np.uint64(data[here + np.uint64(1)]) << np.uint64(8)
                            | np.uint64(data[here + np.uint64(2)]) << np.uint64(16)
                            | np.uint64(data[here + np.uint64(3)]) << np.uint64(24)
                            | np.uint64(data[here + np.uint64(4)]) << np.uint64(32)
                            | np.uint64(data[here + np.uint64(5)]) << np.uint64(40)
                            | np.uint64(data[here + np.uint64(6)]) << np.uint64(48)
                            | np.uint64(data[here + np.uint64(7)]) << np.uint64(56)
                        )
                        theirs = (
                            np.uint64(pool[there])
                            | np.uint64(pool[there + np.uint64(1)]) << np.uint64(8)
                            | np.uint64(pool[there + np.uint64(2)]) << np.uint64(16)
                            | np.uint64(pool[there + np.uint64(3)]) << np.uint64(24)
                            | np.uint64(pool[there + np.uint64(4)]) << np.uint64(32)
                            | np.uint64(pool[there + np.uint64(5)]) << np.uint64(40)
                            | np.uint64(pool[there + np.uint64(6)]) << np.uint64(48)
                            | np.uint64(pool[there + np.uint64(7)]) << np.uint64(56)
                        )
                        same = mine == theirs
                        if here == last:
                            break
                        step = min(np.uint64(8), last - here)
                        here += step
                        there += step
                if same:
                    found = code
                    break
            at = (at + 1) & mask
        if has_nulls:
            bit = offset + i
            if not (bits[bit >> 3] >> (bit & 7)) & 1:
                found = k + 1
        codes[i] += lookup[found]
        begin = end


class Literals:
    """A small hash table, free of collisions where it can be, of the texts to look for.

    >>> codes = np.zeros(3, np.int32)
    >>> Literals(["A", "B"]).add(codes, pa.array(["B", None, "?"]), np.array([1, 2, 3, 4]))
    >>> codes.tolist()
    [2, 4, 3]
    """

    def __init__(self, texts: list[str]) -> None:
        encoded = [text.encode() for text in texts]
        self._pool = np.frombuffer(b"".join(encoded) or b"\0", np.uint8)
        self._sizes = np.array([len(text) for text in encoded], np.int64)
        self._starts = np.cumsum(self._sizes) - self._sizes
        self._ends = np.concatenate([[0], np.cumsum(self._sizes)])
        self._whole = False
        self._keys = self._key_of(self._ends, self._pool)
        pairs = zip(self._keys.tolist(), self._sizes.tolist(), strict=True)
        if len(set(pairs)) < len(texts):
            self._whole = True
            self._keys = self._key_of(self._ends, self._pool)
        self._place()

    def _key_of(self, offsets: npt.NDArray[Any], data: Bytes) -> Words:
        """A word per text: its first bytes, or a hash of all where those do not tell."""
        keys = np.empty(len(offsets) - 1, np.uint64)
        if self._whole:
            hash_strings(offsets, data, _MIX, keys)
        else:
            head_words(offsets, data, keys)
        return keys

    def _place(self) -> None:
        """Try multipliers until no two literals meet, or as few as may be."""
        bits = max(6, (4 * len(self._sizes)).bit_length())
        self._shift = np.uint64(64 - bits)
        rng = np.random.default_rng(len(self._sizes))
        best: tuple[int, np.uint64] | None = None
        slots = np.empty(1 << bits, np.int32)
        for _ in range(64 if len(self._sizes) < 1000 else 1):
            multiplier = rng.integers(0, 2**64, dtype=np.uint64) | np.uint64(1)
            moved = _fill_slots(self._keys, self._sizes, slots, multiplier, self._shift)
            if best is None or moved < best[0]:
                best = moved, multiplier
            if not moved:
                break
        assert best is not None
        self._multiplier = best[1]
        _fill_slots(self._keys, self._sizes, slots, self._multiplier, self._shift)
        self._slots = slots

    def add(self, codes: Codes, column: pa.Array, lookup: Lookup) -> None:
        offsets, data = text_of(column)
        bits, offset, has_nulls = validity(column)
        add_by_text(
            codes,
            offsets,
            data,
            self._key_of(offsets, data),
            self._slots,
            self._keys,
            self._sizes,
            self._pool,
            self._starts,
            self._multiplier,
            self._shift,
            lookup,
            bits,
            offset,
            has_nulls,
        )


# ----------------------------------------------------------------- to codes


@kernel
def finish(sums: Codes, table: npt.NDArray[np.int32], out: npt.NDArray[np.int32]) -> int:
    """`out[row] = table[sums[row]]`; the number of rows whose entry is still unknown."""
    unknown: Any = 0
    for i in range(len(sums)):
        code = table[sums[i]]
        out[i] = code
        unknown += np.int64(code < 0)
    return unknown  # type: ignore[no-any-return]
