"""Kernels that put the values of one column into few classes, adding to a code.

Each takes a lookup table with one entry per class and adds the entry of each row's
class to `codes[row]`. Columns come as Arrow's own buffers: no copies, no objects. `encode` picks
the kernel for a column. Cost: a few nanoseconds a row.

Each kernel has a second form, in NumPy or Arrow, for processes that have not compiled it
(`cernis.compiled.tiers.arrays_first`).
"""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cernis.compiled import inner, kernel, read_only
from cernis.compiled.tiers import arrays_first, call_briefly
from cernis.encoding.hashing import Bytes, Words, are_same_bytes, hash_strings, head_words
from cernis.events.batch import Int64s

Codes = npt.NDArray[np.int64] | npt.NDArray[np.int32]
Lookup = npt.NDArray[np.int64] | npt.NDArray[np.int32]

_NO_BITS = np.frombuffer(b"", np.uint8)  # read-only, as all arrays of `read_only`


class Nulls(NamedTuple):
    """Which rows of a column are NULL: Arrow's bitmap, and the index of the first row in it."""

    bits: Bytes
    offset: int
    present: bool


def nulls_of(array: pa.Array) -> Nulls:
    """Return which rows of an array are NULL."""
    buffer = array.buffers()[0]
    if buffer is None or not array.null_count:
        return Nulls(_NO_BITS, 0, False)
    return Nulls(read_only(np.frombuffer(buffer, np.uint8)), array.offset, True)


def _list_present(nulls: Nulls, rows: int) -> npt.NDArray[np.bool_]:
    """Return which rows have a value."""
    if not nulls.present:
        return np.ones(rows, np.bool_)
    first, last = nulls.offset >> 3, (nulls.offset + rows + 7) >> 3
    bits = np.unpackbits(nulls.bits[first:last], bitorder="little")
    return bits[nulls.offset & 7 :][:rows].view(np.bool_)


def values_of(array: pa.Array, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return the fixed-width values of an array; where it is null, whatever the buffer holds."""
    buffer = array.buffers()[1]
    size = np.dtype(dtype).itemsize
    if buffer is None:
        return read_only(np.zeros(len(array), dtype))
    return read_only(np.frombuffer(buffer, dtype, len(array), array.offset * size))


def text_of(array: pa.Array) -> tuple[npt.NDArray[Any], Bytes]:
    """Return the offsets and the data of a string array."""
    dtype = np.int64 if pa.types.is_large_string(array.type) else np.int32
    _, offsets, data = array.buffers()
    if offsets is None or not len(array):
        return read_only(np.zeros(len(array) + 1, dtype)), _NO_BITS
    at = array.offset * np.dtype(dtype).itemsize
    ends = read_only(np.frombuffer(offsets, dtype, len(array) + 1, at))
    return ends, _NO_BITS if data is None else read_only(np.frombuffer(data, np.uint8))


# --------------------------------------------------------------- by lookup


def add_by_index(
    codes: Codes, index: npt.NDArray[Any], lookup: Lookup, null: Any, nulls: Nulls
) -> None:
    """Add `lookup[index[row]]`, or `null` where the row has no value."""
    args = codes, index, lookup, null, nulls
    arrays_first(_add_by_index, partial(_add_indexed, *args), partial(_add_by_index, *args))


def _add_indexed(
    codes: Codes, index: npt.NDArray[Any], lookup: Lookup, null: Any, nulls: Nulls
) -> Literal[True]:
    """Do the work of `_add_by_index`."""
    if nulls.present:
        present = _list_present(nulls, len(index))
        codes += np.where(present, lookup[np.where(present, index, 0)], null)
    else:
        codes += lookup[index]
    return True


@kernel
def _add_by_index(
    codes: Codes, index: npt.NDArray[Any], lookup: Lookup, null: Any, nulls: Nulls
) -> bool:
    bits, offset, has_nulls = nulls
    for i in range(len(index)):
        if has_nulls:
            at = offset + i
            if not (bits[at >> 3] >> (at & 7)) & 1:
                codes[i] += null
                continue
        codes[i] += lookup[index[i]]
    return True


# ----------------------------------------------------------- by thresholds


def add_by_thresholds(
    codes: Codes,
    values: npt.NDArray[Any],
    thresholds: npt.NDArray[Any],
    lookup: Lookup,
    nulls: Nulls,
) -> None:
    """Add the entry for how many (ascending) thresholds are at most the value.

    The entries for 0 … k thresholds come first, then one for NULL and one for NaN.
    """
    args = codes, values, thresholds, lookup, nulls
    arrays_first(
        _add_by_thresholds, partial(_add_ranked, *args), partial(_add_by_thresholds, *args)
    )


def _add_ranked(
    codes: Codes,
    values: npt.NDArray[Any],
    thresholds: npt.NDArray[Any],
    lookup: Lookup,
    nulls: Nulls,
) -> Literal[True]:
    """Do the work of `_add_by_thresholds`."""
    below = np.searchsorted(thresholds, values, side="right")
    if values.dtype.kind == "f":
        below[values != values] = len(thresholds) + 2
    if nulls.present:
        below[~_list_present(nulls, len(values))] = len(thresholds) + 1
    codes += lookup[below]
    return True


@kernel
def _add_by_thresholds(
    codes: Codes,
    values: npt.NDArray[Any],
    thresholds: npt.NDArray[Any],
    lookup: Lookup,
    nulls: Nulls,
) -> bool:
    bits, offset, has_nulls = nulls
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
    return True


# ------------------------------------------------------------------ by text


class _Texts(NamedTuple):
    """Texts as Arrow's offsets and data, with a key for each."""

    offsets: npt.NDArray[Any]
    data: Bytes
    keys: Words


class _LiteralSlots(NamedTuple):
    """The arrays of `Literals`: slots with codes; keys, sizes and texts by code.

    `steps` is the number of slots that a search looks at.
    """

    slots: npt.NDArray[np.int32]
    steps: int
    keys: Words
    sizes: Int64s
    pool: Bytes
    starts: Int64s
    multiplier: Any
    shift: Any


@inner
def _slot_of(key: Any, size: Any, multiplier: Any, shift: Any) -> Any:
    return np.int64(((key ^ (np.uint64(size) << np.uint64(56))) * multiplier) >> shift)


@kernel
def _fill_slots(
    keys: Words, sizes: Int64s, slots: npt.NDArray[np.int32], multiplier: Any, shift: Any
) -> int:
    """Place every literal; return how many slots a search has to look at."""
    k = len(sizes) - 1
    mask = len(slots) - 1
    longest = 0
    slots[:] = k
    for code in range(k):
        at = _slot_of(keys[code], sizes[code], multiplier, shift)
        steps = 1
        while slots[at] < k:
            steps += 1
            at = (at + 1) & mask
        slots[at] = code
        longest = max(longest, steps)
    return longest


@kernel
def add_by_text(
    codes: Codes, texts: _Texts, literals: _LiteralSlots, lookup: Lookup, nulls: Nulls
) -> bool:
    """Add the entry of the literal that the row's text equals.

    The entries of the k literals come first, then one for any other text and one for NULL.
    No two literals agree in key and size, so there is at most one to compare with. The
    search has no branch that depends on the text: whether a row is found is as good as
    random, and a wrong guess of the processor costs more than the search.
    """
    offsets, data, keys = texts
    slots, steps, literal_keys, sizes, pool, starts, multiplier, shift = literals
    bits, offset, has_nulls = nulls
    k = len(sizes) - 1
    mask = len(slots) - 1
    begin = np.int64(offsets[0])
    for i in range(len(keys)):
        end = np.int64(offsets[i + 1])
        size = end - begin
        key = keys[i]
        at = _slot_of(key, size, multiplier, shift)
        code = np.int64(slots[at])
        found = code if (literal_keys[code] == key) & (sizes[code] == size) else k
        for step in range(1, steps):
            code = np.int64(slots[(at + step) & mask])
            found = code if (literal_keys[code] == key) & (sizes[code] == size) else found
        if size > 8 and found < k:
            here, there = np.uint64(begin), np.uint64(starts[found])
            if not are_same_bytes(data, here, pool, there, size):
                found = k
        if has_nulls:
            bit = offset + i
            if not (bits[bit >> 3] >> (bit & 7)) & 1:
                found = k + 1
        codes[i] += lookup[found]
        begin = end
    return True


class Literals:
    """A small hash table, free of collisions where it can be, of the texts to look for.

    >>> codes = np.zeros(3, np.int32)
    >>> Literals(["A", "B"]).add(codes, pa.array(["B", None, "?"]), np.array([1, 2, 3, 4]))
    >>> codes.tolist()
    [2, 4, 3]
    """

    def __init__(self, texts: list[str]) -> None:
        encoded = [text.encode() for text in texts]
        self._sizes = np.array([len(text) for text in encoded], np.int64)
        self._ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(self._sizes)])
        self._pool = np.frombuffer(b"".join(encoded) or b"\0", np.uint8)
        self._hash: np.uint64 | None = None

    @cached_property
    def _slots(self) -> _LiteralSlots:
        sizes, ends, pool = self._sizes, self._ends, self._pool
        keys = self._keys_of(ends, pool)
        rng = np.random.default_rng(len(sizes))
        while len(set(zip(keys.tolist(), sizes.tolist(), strict=True))) < len(sizes):
            self._hash = _odd(rng)
            keys = self._keys_of(ends, pool)
        # a last literal, which no text can equal, stands in the empty slots
        keys, sizes = np.append(keys, np.uint64(0)), np.append(sizes, -1)
        bits = max(6, (4 * len(sizes)).bit_length())
        slots, shift = np.empty(1 << bits, np.int32), np.uint64(64 - bits)
        steps, multiplier = _choose_multiplier(keys, sizes, slots, shift, rng)
        return _LiteralSlots(slots, steps, keys, sizes, pool, ends[:-1], multiplier, shift)

    @cached_property
    def _texts(self) -> pa.Array:
        """The literals, as Arrow's column."""
        buffers = [None, pa.py_buffer(self._ends), pa.py_buffer(self._pool)]
        return pa.Array.from_buffers(pa.large_string(), len(self._sizes), buffers)

    def _keys_of(self, offsets: npt.NDArray[Any], data: Bytes) -> Words:
        """Return a word per text: its first bytes, or a hash of all where those do not tell."""
        keys = np.empty(len(offsets) - 1, np.uint64)
        if self._hash is None:
            call_briefly(head_words, len(keys), offsets, data, keys)
        else:
            call_briefly(hash_strings, len(keys), offsets, data, self._hash, keys)
        return keys

    def add(self, codes: Codes, column: pa.Array, lookup: Lookup) -> None:
        """Add the entry of each row's text, as `add_by_text` does."""
        args = codes, column, lookup
        arrays_first(add_by_text, partial(self._add_found, *args), partial(self._add, *args))

    def _add(self, codes: Codes, column: pa.Array, lookup: Lookup) -> bool:
        slots = self._slots
        offsets, data = text_of(column)
        texts = _Texts(offsets, data, self._keys_of(offsets, data))
        return add_by_text(codes, texts, slots, lookup, nulls_of(column))

    def _add_found(self, codes: Codes, column: pa.Array, lookup: Lookup) -> Literal[True]:
        """Do the work of `add_by_text` in Arrow."""
        found = pc.index_in(column, value_set=self._texts.cast(column.type))
        index = np.array(found.fill_null(len(self._sizes)))
        if column.null_count:
            index[~_list_present(nulls_of(column), len(column))] = len(self._sizes) + 1
        codes += lookup[index]
        return True


def _choose_multiplier(
    keys: Words,
    sizes: Int64s,
    slots: npt.NDArray[np.int32],
    shift: np.uint64,
    rng: np.random.Generator,
) -> tuple[int, np.uint64]:
    """Fill the slots so that a search looks at one slot, or at as few as may be.

    Return that number, and the multiplier that gives it.
    """
    best: tuple[int, np.uint64] | None = None
    for _ in range(64 if len(sizes) < 1000 else 4):
        multiplier = _odd(rng)
        steps = call_briefly(_fill_slots, len(keys), keys, sizes, slots, multiplier, shift)
        if best is None or steps < best[0]:
            best = steps, multiplier
        if steps <= 1:
            break
    assert best is not None
    call_briefly(_fill_slots, len(keys), keys, sizes, slots, best[1], shift)
    return best


def _odd(rng: np.random.Generator) -> np.uint64:
    return rng.integers(0, 2**64, dtype=np.uint64) | np.uint64(1)


# ----------------------------------------------------------------- to codes


def finish(sums: Codes, table: npt.NDArray[np.int32], out: npt.NDArray[np.int32]) -> int:
    """Set `out[row] = table[sums[row]]`; return the number of rows whose entry is unknown."""
    args = sums, table, out
    return arrays_first(_finish, partial(_take_codes, *args), partial(_finish, *args))


def _take_codes(sums: Codes, table: npt.NDArray[np.int32], out: npt.NDArray[np.int32]) -> int:
    """Do the work of `_finish`."""
    out[:] = table[sums]
    return int(np.count_nonzero(out < 0))


@kernel
def _finish(sums: Codes, table: npt.NDArray[np.int32], out: npt.NDArray[np.int32]) -> int:
    unknown: Any = 0
    for i in range(len(sums)):
        code = table[sums[i]]
        out[i] = code
        unknown += np.int64(code < 0)
    return unknown  # type: ignore[no-any-return]
