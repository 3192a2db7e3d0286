"""Hash tables that number values as they first appear: int64 and byte strings.

`IntTable` and `BytesTable` give each distinct value a code 0, 1, 2, …. Both are open
addressing with linear probing in Numba, at most half full. Equality is exact: a hash
only says where to look. Each table draws its multiplier at random, so that nobody can build
an input that collides; codes do not depend on it.

A kernel that runs out of room returns the row it stopped at; Python grows the table
and calls it again. Cost: a cache miss or two per row once the table outgrows the cache.

Rejected: `dictionary_encode` per batch and a Python dict of its values. It is as fast
for few distinct values and thirty times slower when most values of a batch are new. A process that
has not compiled the kernels yet numbers the values of such a dictionary, if they are few.
"""

from __future__ import annotations

import secrets
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cernis.compiled import inner, kernel, read_only
from cernis.compiled.tiers import arrays_first, call_briefly
from cernis.events.batch import Int64s

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]
Word = Any  # a uint64 inside the kernels
Marks = npt.NDArray[np.bool_]

_FIRST_SLOTS = 1 << 10
_FEW_VALUES = 1 << 10  # that plain Python puts into a table
_ALL_VALID = np.empty(0, np.bool_)
_IN_CACHE, _AHEAD = 1 << 15, 256
"""Slots that the cache holds. Of larger tables, so many are read ahead: the processor waits for
the memory once for all of them."""


def _multiplier() -> np.uint64:
    return np.uint64(secrets.randbits(64) | 1)


@inner
def _spread(key: Any, multiplier: Word, shift: Word) -> Any:
    """Return the top bits of a random odd multiple (multiply-shift)."""
    mixed = np.uint64(key) * multiplier
    mixed ^= mixed >> np.uint64(32)
    mixed *= multiplier
    return np.int64(mixed >> shift)


class _IntSlots(NamedTuple):
    """The arrays of an `IntTable`: pairs of key and code, and the keys by code."""

    slots: Int64s
    known: Int64s
    multiplier: Word
    shift: Word


@kernel
def _number_ints(
    keys: Int64s, valid: Marks, table: _IntSlots, count: int, codes: Int64s, start: int
) -> tuple[int, int]:
    """Write the codes of keys from `start` on; return where it stopped, and the known keys.

    An empty `valid` says that all keys are valid.
    """
    slots, known, multiplier, shift = table
    has_nulls = len(valid) > 0
    mask = len(slots) // 2 - 1
    limit = min(len(known), (mask + 1) // 2)
    is_large = mask >= _IN_CACHE
    for i in range(start, len(keys)):
        if is_large and (i - start) % _AHEAD == 0:
            for j in range(i, min(i + _AHEAD, len(keys))):
                codes[j] = slots[2 * _spread(keys[j], multiplier, shift) + 1]
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
def _place_ints(table: _IntSlots, count: int) -> None:
    """Put the first `count` known keys into empty slots."""
    slots, known, multiplier, shift = table
    mask = len(slots) // 2 - 1
    for code in range(count):
        at = _spread(known[code], multiplier, shift)
        while slots[2 * at + 1] >= 0:
            at = (at + 1) & mask
        slots[2 * at] = known[code]
        slots[2 * at + 1] = code


class IntTable:
    """A numbering of int64 values, as they first appear.

    >>> table = IntTable()
    >>> table.codes(np.array([7, 9, 7])).tolist(), table.codes(np.array([9, 1])).tolist()
    ([0, 1, 0], [1, 2])
    >>> table.values.tolist()
    [7, 9, 1]
    """

    def __init__(self, values: Int64s | None = None) -> None:
        self._count = 0 if values is None else len(values)
        self._multiplier = _multiplier()
        self._table = self._rebuild(np.empty(0, np.int64) if values is None else values)

    def __len__(self) -> int:
        return self._count

    @property
    def values(self) -> Int64s:
        """The distinct values, by code."""
        return self._table.known[: self._count]

    def keep_only(self, codes: Int64s) -> None:
        """Forget all values but those with these codes; codes[i] becomes i."""
        values = self.values[codes]
        self._count = len(values)
        self._table = self._rebuild(values, self._table.slots)

    def codes(self, keys: Int64s, valid: Marks | None = None) -> Int64s:
        """Return a code per key; -1 where it is not valid."""
        valid = _ALL_VALID if valid is None else valid
        keys = read_only(np.ascontiguousarray(keys, np.int64))
        arrays = partial(self._number_distinct, keys, valid)
        return arrays_first(_number_ints, arrays, partial(self._number, keys, valid))

    def _number(self, keys: Int64s, valid: Marks) -> Int64s:
        codes = np.empty(len(keys), np.int64)
        done = 0
        while True:
            args = keys, valid, self._table, self._count, codes, done
            done, self._count = call_briefly(_number_ints, len(keys), *args)
            if done == len(keys):
                return codes
            self._table = self._rebuild(self.values)

    def _number_distinct(self, keys: Int64s, valid: Marks) -> Int64s | None:
        """Number the distinct keys, and give each key its number; None: there are too many."""
        encoded = _encode(pa.int64(), valid, keys)
        distinct = np.asarray(encoded.dictionary)
        if len(distinct) > _FEW_VALUES:
            return None
        return _take_codes(self._number(read_only(distinct), _ALL_VALID), encoded.indices)

    def _rebuild(self, values: Int64s, slots: Int64s | None = None) -> _IntSlots:
        """Return a table of the values with room for as many again.

        `slots` that are not needed any more are used again, if their number is right.
        """
        size = _slots_for(len(values))
        known = np.empty(size // 2, np.int64)
        known[: len(values)] = values
        if slots is None or len(slots) != 2 * size:
            slots = np.empty(2 * size, np.int64)
        slots.fill(-1)
        table = _IntSlots(slots, known, self._multiplier, _shift_for(size))
        call_briefly(_place_ints, len(values), table, len(values))
        return table


def _encode(type_: pa.DataType, valid: Marks, *parts: npt.NDArray[Any]) -> pa.DictionaryArray:
    """Return values with a dictionary of the distinct ones, in the order in which they appear."""
    bits = np.packbits(valid, bitorder="little") if len(valid) else None
    buffers = [None if part is None else pa.py_buffer(part) for part in (bits, *parts)]
    rows = len(parts[0]) - (len(parts) - 1)  # one offset more than strings
    return pa.Array.from_buffers(type_, rows, buffers).dictionary_encode()


def _take_codes(codes: Int64s, indices: pa.Array) -> Int64s:
    """Return the code at each index; -1 where there is none."""
    if indices.null_count:
        codes, indices = np.append(codes, -1), indices.fill_null(len(codes))
    taken: Int64s = codes[np.asarray(indices)]
    return taken


def _slots_for(count: int) -> int:
    """Return a power of two of slots of which `count` values take less than a quarter."""
    return max(_FIRST_SLOTS, 1 << (4 * count + 3).bit_length())


def _shift_for(size: int) -> np.uint64:
    """Return the shift that takes a word to one of `size` slots."""
    return np.uint64(64 - (size.bit_length() - 1))


# ------------------------------------------------------------ byte strings


@inner
def word_at(data: Bytes, at: Word) -> Any:
    """Return eight bytes as a word, the first byte lowest; compiled, this is a single load."""
    return (
        np.uint64(data[at])
        | np.uint64(data[at + np.uint64(1)]) << np.uint64(8)
        | np.uint64(data[at + np.uint64(2)]) << np.uint64(16)
        | np.uint64(data[at + np.uint64(3)]) << np.uint64(24)
        | np.uint64(data[at + np.uint64(4)]) << np.uint64(32)
        | np.uint64(data[at + np.uint64(5)]) << np.uint64(40)
        | np.uint64(data[at + np.uint64(6)]) << np.uint64(48)
        | np.uint64(data[at + np.uint64(7)]) << np.uint64(56)
    )


@inner
def are_same_bytes(data: Bytes, here: Word, pool: Bytes, there: Word, size: Any) -> bool:
    """Whether two strings of one size, more than 8, have the same bytes."""
    last = here + np.uint64(size - 8)
    while word_at(data, here) == word_at(pool, there):
        if here == last:
            return True
        step = min(np.uint64(8), last - here)
        here += step
        there += step
    return False


@kernel
def head_words(offsets: npt.NDArray[Any], data: Bytes, words: Words) -> None:
    """Write the first eight bytes of every string as a word, the first byte lowest."""
    n = len(offsets) - 1
    inside = n
    while inside > 0 and offsets[inside - 1] + 8 > len(data):
        inside -= 1
    for i in range(inside):
        at = np.uint64(offsets[i])
        size = offsets[i + 1] - offsets[i]
        word = word_at(data, at)
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
    """Write a hash of all bytes of every string; one-to-one among strings of one size up to 8."""
    for i in range(len(offsets) - 1):
        at = np.uint64(offsets[i])
        left = np.int64(offsets[i + 1]) - np.int64(offsets[i])
        mixed = np.uint64(left + 1) * multiplier
        while True:
            if at + np.uint64(8) <= np.uint64(len(data)):
                word = word_at(data, at)
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


class _Strings(NamedTuple):
    """Strings as Arrow's offsets and data, with their hashes."""

    offsets: npt.NDArray[Any]
    data: Bytes
    hashes: Words


class _BytesSlots(NamedTuple):
    """The arrays of a `BytesTable`: slots, and the known strings by code."""

    slots: Int64s
    pool: Bytes
    ends: Int64s
    shift: Word


@kernel
def _number_bytes(
    strings: _Strings, valid: Marks, table: _BytesSlots, count: int, codes: Int64s, start: int
) -> tuple[int, int]:
    """Write the codes of strings from `start` on; return where it stopped, and the known strings.

    An empty `valid` says that all strings are valid.

    A slot holds the hash, and the code with the size (up to 9) in its last four bits.
    Among strings of one size up to 8 the hash is one-to-one: only longer ones need to be
    compared byte by byte.
    """
    offsets, data, hashes = strings
    slots, pool, ends, shift = table
    has_nulls = len(valid) > 0
    mask = len(slots) // 2 - 1
    limit = min(len(ends) - 1, (mask + 1) // 2)
    is_large = mask >= _IN_CACHE
    for i in range(start, len(offsets) - 1):
        if is_large and (i - start) % _AHEAD == 0:
            for j in range(i, min(i + _AHEAD, len(offsets) - 1)):
                codes[j] = slots[2 * np.int64(hashes[j] >> shift) + 1]
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
                same: Any = size <= 8
                if not same and ends[code + 1] - ends[code] == size:
                    here, there = np.uint64(offsets[i]), np.uint64(ends[code])
                    same = are_same_bytes(data, here, pool, there, size)
                if same:
                    codes[i] = code
                    break
            at = (at + 1) & mask
    return len(offsets) - 1, count


@kernel
def _place_bytes(hashes: Words, table: _BytesSlots) -> None:
    """Put the known strings, which have these hashes, into empty slots."""
    slots, _, ends, shift = table
    mask = len(slots) // 2 - 1
    for code in range(len(hashes)):
        at = np.int64(hashes[code] >> shift)
        while slots[2 * at + 1] >= 0:
            at = (at + 1) & mask
        slots[2 * at] = np.int64(hashes[code])
        short: Any = min(ends[code + 1] - ends[code], 9)
        slots[2 * at + 1] = code << 4 | short


class BytesTable:
    """A numbering of byte strings, as they first appear; they come as Arrow's offsets and data.

    >>> table = BytesTable()
    >>> table.codes(np.array([0, 1, 3, 4]), np.frombuffer(b"abba", np.uint8)).tolist()
    [0, 1, 0]
    """

    def __init__(self, pool: Bytes | None = None, ends: Int64s | None = None) -> None:
        if pool is None or ends is None:
            pool, ends = np.empty(0, np.uint8), np.zeros(1, np.int64)
        self._count = len(ends) - 1
        self._multiplier = _multiplier()
        self._table = self._rebuild(pool, ends)

    def __len__(self) -> int:
        return self._count

    @property
    def pool(self) -> Bytes:
        """The bytes of all strings, one after the other."""
        return self._table.pool[: self._table.ends[self._count]]

    @property
    def ends(self) -> Int64s:
        """Where each string ends in the pool, by code; it starts with 0."""
        return self._table.ends[: self._count + 1]

    def keep_only(self, codes: Int64s) -> None:
        """Forget all strings but those with these codes; codes[i] becomes i."""
        lengths = np.diff(self.ends)[codes]
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        within = np.arange(ends[-1]) - np.repeat(ends[:-1], lengths)
        pool = self.pool[np.repeat(self.ends[codes], lengths) + within]
        self._count = len(codes)
        self._table = self._rebuild(pool, ends)

    def codes(self, offsets: npt.NDArray[Any], data: Bytes, valid: Marks | None = None) -> Int64s:
        """Return a code per string; -1 where it is not valid."""
        valid = _ALL_VALID if valid is None else valid
        offsets, data = read_only(offsets), read_only(data)
        arrays = partial(self._number_distinct, offsets, data, valid)
        return arrays_first(_number_bytes, arrays, partial(self._number, offsets, data, valid))

    def _number(self, offsets: npt.NDArray[Any], data: Bytes, valid: Marks) -> Int64s:
        strings = _Strings(offsets, data, self._hash(offsets, data))
        codes = np.empty(len(strings.hashes), np.int64)
        done = 0
        while True:
            args = strings, valid, self._table, self._count, codes, done
            done, self._count = call_briefly(_number_bytes, len(codes), *args)
            if done == len(codes):
                return codes
            wanted = int(offsets[done + 1] - offsets[done])
            self._table = self._rebuild(self.pool, self.ends, wanted)

    def _number_distinct(
        self, offsets: npt.NDArray[Any], data: Bytes, valid: Marks
    ) -> Int64s | None:
        """Number the distinct strings, and give each its number; None: there are too many."""
        wide = offsets.dtype == np.int64
        encoded = _encode(pa.large_binary() if wide else pa.binary(), valid, offsets, data)
        distinct = encoded.dictionary
        if len(distinct) > _FEW_VALUES:
            return None
        _, ends, own = distinct.buffers()
        own_data = np.frombuffer(b"" if own is None else own, np.uint8)
        own_ends = np.frombuffer(ends, offsets.dtype, len(distinct) + 1)
        return _take_codes(self._number(own_ends, own_data, _ALL_VALID), encoded.indices)

    def _hash(self, offsets: npt.NDArray[Any], data: Bytes) -> Words:
        hashes = np.empty(len(offsets) - 1, np.uint64)
        call_briefly(hash_strings, len(hashes), offsets, data, self._multiplier, hashes)
        return hashes

    def _rebuild(self, pool: Bytes, ends: Int64s, wanted: int = 0) -> _BytesSlots:
        """Return a table of the strings with room for as many again and one of `wanted` bytes."""
        used, size = len(pool), _slots_for(len(ends) - 1)
        table = _BytesSlots(
            np.full(2 * size, -1, np.int64),
            np.empty(max(2 * used, used + wanted, 8 * size), np.uint8),
            np.zeros(size // 2 + 1, np.int64),
            _shift_for(size),
        )
        table.pool[:used] = pool
        table.ends[: len(ends)] = ends
        call_briefly(_place_bytes, len(ends), self._hash(ends, table.pool), table)
        return table
