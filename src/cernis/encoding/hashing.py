"""Hash tables that number values as they first appear: int64 and byte strings.

`IntTable` and `BytesTable` give each distinct value a code 0, 1, 2, …; both are open
addressing with linear probing in Numba, at most half full. Equality is exact: hashes
only choose where to look. Multipliers are drawn at random per table, so that no input
can be built to collide; codes do not depend on them.

A kernel that runs out of room returns the row it stopped at; Python grows the table
and calls it again. Cost: a cache miss or two per row once the table outgrows the cache.

Rejected: `dictionary_encode` per batch and a Python dict of its values. It is as fast
for few distinct values and thirty times slower when most values of a batch are new.
"""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np
import numpy.typing as npt

from cernis.compiled import kernel
from cernis.events.batch import Int64s

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]
Word = Any  # a uint64 inside the kernels

_FIRST_SLOTS = 1 << 10


def _multiplier() -> np.uint64:
    return np.uint64(secrets.randbits(64) | 1)


@kernel
def _spread(key: Any, multiplier: Word, shift: Word) -> Any:
    """Multiply-shift: the top bits of a random odd multiple."""
    mixed = np.uint64(key) * multiplier
    mixed ^= mixed >> np.uint64(32)
    mixed *= multiplier
    return np.int64(mixed >> shift)


@kernel
def _number_ints(
    keys: Int64s,
    valid: npt.NDArray[np.bool_],
    has_nulls: bool,
    slots: Int64s,
    known: Int64s,
    count: int,
    multiplier: Word,
    shift: Word,
    codes: Int64s,
    start: int,
) -> tuple[int, int]:
    """Codes for keys from `start` on; (where it stopped, number of known keys)."""
    mask = len(slots) // 2 - 1
    limit = min(len(known), (mask + 1) // 2)
    for i in range(start, len(keys)):
        if has_nulls and not valid[i]:
            codes[i] = -1
            continue
        key = keys[i]
        at = _spread(key, multiplier, shift)
        while True:
            code = slots[2 * at + 1]
            if code < 0:
                if count >= limit:
                    return i, count
                slots[2 * at] = key
                slots[2 * at + 1] = count
                known[count] = key
                codes[i] = count
                count += 1
                break
            if slots[2 * at] == key:
                codes[i] = code
                break
            at = (at + 1) & mask
    return len(keys), count


@kernel
def _place_ints(known: Int64s, count: int, slots: Int64s, multiplier: Word, shift: Word) -> None:
    mask = len(slots) // 2 - 1
    for code in range(count):
        at = _spread(known[code], multiplier, shift)
        while slots[2 * at + 1] >= 0:
            at = (at + 1) & mask
        slots[2 * at] = known[code]
        slots[2 * at + 1] = code


def _no_nulls() -> npt.NDArray[np.bool_]:
    return np.empty(0, np.bool_)


class IntTable:
    """Numbers int64 values as they first appear.

    >>> table = IntTable()
    >>> table.codes(np.array([7, 9, 7])).tolist(), table.codes(np.array([9, 1])).tolist()
    ([0, 1, 0], [1, 2])
    >>> table.values.tolist()
    [7, 9, 1]
    """

    def __init__(self, values: Int64s | None = None) -> None:
        self._count = 0 if values is None else len(values)
        self._known = np.empty(_FIRST_SLOTS // 2, np.int64) if values is None else values.copy()
        self._multiplier = _multiplier()
        self._rebuild()

    def __len__(self) -> int:
        return self._count

    @property
    def values(self) -> Int64s:
        """The distinct values, by code."""
        return self._known[: self._count]

    def only(self, codes: Int64s) -> IntTable:
        """A table of the values with these codes; codes[i] becomes i."""
        return IntTable(self.values[codes])

    def codes(self, keys: Int64s, valid: npt.NDArray[np.bool_] | None = None) -> Int64s:
        """A code per key; -1 where it is not valid."""
        keys = np.ascontiguousarray(keys, np.int64)
        codes = np.empty(len(keys), np.int64)
        marks, has_nulls = (_no_nulls(), False) if valid is None else (valid, True)
        done = 0
        while True:
            done, self._count = _number_ints(
                keys,
                marks,
                has_nulls,
                self._slots,
                self._known,
                self._count,
                self._multiplier,
                self._shift,
                codes,
                done,
            )
            if done == len(keys):
                return codes
            self._rebuild()

    def _rebuild(self) -> None:
        size = _FIRST_SLOTS
        while size < 4 * (self._count + 1):
            size *= 2
        known = np.empty(size // 2, np.int64)
        known[: self._count] = self._known[: self._count]
        self._known = known
        self._shift = np.uint64(64 - (size.bit_length() - 1))
        self._slots = np.full(2 * size, -1, np.int64)
        _place_ints(self._known, self._count, self._slots, self._multiplier, self._shift)


# ------------------------------------------------------------ byte strings


# Eight bytes are read as one word by an expression that the compiler turns into a single
# load. It stands in the loops themselves: calling a function with arrays from a loop
# costs several times what the loop does.


@kernel
def head_words(offsets: npt.NDArray[Any], data: Bytes, words: Words) -> None:
    """The first eight bytes of every string as a word, the first byte lowest."""
    n = len(offsets) - 1
    inside = n
    while inside > 0 and offsets[inside - 1] + 8 > len(data):
        inside -= 1
    for i in range(inside):
        at = np.uint64(offsets[i])
        size = offsets[i + 1] - offsets[i]
        word = (
            np.uint64(data[at])
            | np.uint64(data[at + np.uint64(1)]) << np.uint64(8)
            | np.uint64(data[at + np.uint64(2)]) << np.uint64(16)
            | np.uint64(data[at + np.uint64(3)]) << np.uint64(24)
            | np.uint64(data[at + np.uint64(4)]) << np.uint64(32)
            | np.uint64(data[at + np.uint64(5)]) << np.uint64(40)
            | np.uint64(data[at + np.uint64(6)]) << np.uint64(48)
            | np.uint64(data[at + np.uint64(7)]) << np.uint64(56)
        )
        if size < 8:
            word &= (np.uint64(1) << np.uint64(8 * size)) - np.uint64(1)
        words[i] = word
    for i in range(inside, n):
        start = np.int64(offsets[i])
        word = np.uint64(0)
        for j in range(min(offsets[i + 1] - offsets[i], 8)):
            word |= np.uint64(data[start + j]) << np.uint64(8 * j)
        words[i] = word


@kernel
def hash_strings(offsets: npt.NDArray[Any], data: Bytes, multiplier: Word, hashes: Words) -> None:
    """A hash of all bytes of every string; one-to-one among those of one size up to 8."""
    for i in range(len(offsets) - 1):
        at = np.uint64(offsets[i])
        left = np.int64(offsets[i + 1]) - np.int64(offsets[i])
        mixed = np.uint64(left + 1) * multiplier
        while True:
            if at + np.uint64(8) <= np.uint64(len(data)):
                word = (
                    np.uint64(data[at])
                    | np.uint64(data[at + np.uint64(1)]) << np.uint64(8)
                    | np.uint64(data[at + np.uint64(2)]) << np.uint64(16)
                    | np.uint64(data[at + np.uint64(3)]) << np.uint64(24)
                    | np.uint64(data[at + np.uint64(4)]) << np.uint64(32)
                    | np.uint64(data[at + np.uint64(5)]) << np.uint64(40)
                    | np.uint64(data[at + np.uint64(6)]) << np.uint64(48)
                    | np.uint64(data[at + np.uint64(7)]) << np.uint64(56)
                )
                if left < 8:
                    word &= (np.uint64(1) << np.uint64(8 * left)) - np.uint64(1)
            else:
                word = np.uint64(0)
                for j in range(left):
                    word |= np.uint64(data[at + np.uint64(j)]) << np.uint64(8 * j)
            mixed = (mixed ^ word) * multiplier
            mixed ^= mixed >> np.uint64(32)
            at += np.uint64(8)
            left -= 8
            if left <= 0:
                break
        hashes[i] = mixed * multiplier


@kernel
def _number_bytes(
    offsets: npt.NDArray[Any],
    data: Bytes,
    hashes: Words,
    valid: npt.NDArray[np.bool_],
    has_nulls: bool,
    slots: Int64s,
    pool: Bytes,
    ends: Int64s,
    count: int,
    shift: Word,
    codes: Int64s,
    start: int,
) -> tuple[int, int]:
    """Codes for strings from `start` on; (where it stopped, number of known strings).

    A slot holds the hash, and the code with the size (up to 9) in its last four bits.
    Among strings of one size up to 8 the hash is one-to-one: only longer ones need to be
    compared byte by byte.
    """
    mask = len(slots) // 2 - 1
    limit = min(len(ends) - 1, (mask + 1) // 2)
    for i in range(start, len(offsets) - 1):
        if has_nulls and not valid[i]:
            codes[i] = -1
            continue
        size = np.int64(offsets[i + 1]) - np.int64(offsets[i])
        short: Any = min(size, 9)
        at = np.int64(hashes[i] >> shift)
        tag = np.int64(hashes[i])
        while True:
            entry = slots[2 * at + 1]
            if entry < 0:
                if count >= limit or ends[count] + size > len(pool):
                    return i, count
                slots[2 * at] = tag
                slots[2 * at + 1] = count << 4 | short
                free, begin = ends[count], np.int64(offsets[i])
                for j in range(size):
                    pool[free + j] = data[begin + j]
                ends[count + 1] = free + size
                codes[i] = count
                count += 1
                break
            if slots[2 * at] == tag and entry & 15 == short:
                code = entry >> 4
                same = True
                if size > 8:
                    same = ends[code + 1] - ends[code] == size
                    here, there = np.uint64(offsets[i]), np.uint64(ends[code])
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
                    codes[i] = code
                    break
            at = (at + 1) & mask
    return len(offsets) - 1, count


@kernel
def _place_bytes(hashes: Words, ends: Int64s, slots: Int64s, shift: Word) -> None:
    mask = len(slots) // 2 - 1
    for code in range(len(hashes)):
        at = np.int64(hashes[code] >> shift)
        while slots[2 * at + 1] >= 0:
            at = (at + 1) & mask
        slots[2 * at] = np.int64(hashes[code])
        short: Any = min(ends[code + 1] - ends[code], 9)
        slots[2 * at + 1] = code << 4 | short


class BytesTable:
    """Numbers byte strings as they first appear; strings come as Arrow's offsets and data.

    >>> table = BytesTable()
    >>> table.codes(np.array([0, 1, 3, 4]), np.frombuffer(b"abba", np.uint8)).tolist()
    [0, 1, 0]
    """

    def __init__(self, pool: Bytes | None = None, ends: Int64s | None = None) -> None:
        if pool is None or ends is None:
            pool, ends = np.empty(0, np.uint8), np.zeros(1, np.int64)
        self._count = len(ends) - 1
        self._pool, self._ends = pool, ends
        self._multiplier = _multiplier()
        self._rebuild(0)

    def __len__(self) -> int:
        return self._count

    @property
    def pool(self) -> Bytes:
        return self._pool[: self._ends[self._count]]

    @property
    def ends(self) -> Int64s:
        """Where each string ends in the pool, by code; it starts with 0."""
        return self._ends[: self._count + 1]

    def only(self, codes: Int64s) -> BytesTable:
        """A table of the strings with these codes; codes[i] becomes i."""
        lengths = np.diff(self.ends)[codes]
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        within = np.arange(ends[-1]) - np.repeat(ends[:-1], lengths)
        return BytesTable(self._pool[np.repeat(self.ends[codes], lengths) + within], ends)

    def codes(
        self,
        offsets: npt.NDArray[Any],
        data: Bytes,
        valid: npt.NDArray[np.bool_] | None = None,
    ) -> Int64s:
        """A code per string; -1 where it is not valid."""
        codes = np.empty(len(offsets) - 1, np.int64)
        hashes = np.empty(len(codes), np.uint64)
        hash_strings(offsets, data, self._multiplier, hashes)
        marks, has_nulls = (_no_nulls(), False) if valid is None else (valid, True)
        done = 0
        while True:
            done, self._count = _number_bytes(
                offsets,
                data,
                hashes,
                marks,
                has_nulls,
                self._slots,
                self._pool,
                self._ends,
                self._count,
                self._shift,
                codes,
                done,
            )
            if done == len(codes):
                return codes
            self._rebuild(int(offsets[done + 1] - offsets[done]))

    def _rebuild(self, wanted: int) -> None:
        """Room for as many strings again, and for one of `wanted` bytes."""
        size = _FIRST_SLOTS
        while size < 4 * (self._count + 1):
            size *= 2
        used = int(self._ends[self._count])
        pool = np.empty(max(2 * used, used + wanted, 8 * size), np.uint8)
        pool[:used] = self._pool[:used]
        ends = np.zeros(size // 2 + 1, np.int64)
        ends[: self._count + 1] = self._ends[: self._count + 1]
        self._pool, self._ends = pool, ends
        self._shift = np.uint64(64 - (size.bit_length() - 1))
        self._slots = np.full(2 * size, -1, np.int64)
        hashes = np.empty(self._count, np.uint64)
        hash_strings(self.ends, self._pool, self._multiplier, hashes)
        _place_bytes(hashes, self._ends, self._slots, self._shift)
