"""Columns of exact integers of any size: int64 where all fit, else rows of words.

The words of a row are one integer in two's complement, the lowest first. Arrow's decimals are the
same, so a long count is on its way there before anybody asks for it: residues become words
(`engine.residues`), words a column (`results.formats.columns`), and no number becomes Python's.

Cost contract: linear in the words; as text, quadratic in the words of a number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import borrowing, inner
from cernis.compiled.tiers import call_briefly
from cernis.integers import to_nearest

Integers = NDArray[Any]
"""int64, one for each number or a row of words; NumPy's other numbers are their own."""

_BITS = 64
_HALF = 32
_LOW = (1 << _HALF) - 1


def to_integers(numbers: Sequence[int] | Integers) -> Integers:
    """Return Python's integers as int64 or words; an array of numbers is its own.

    >>> to_integers([5, -(2**64)]).tolist()
    [[5, 0], [0, -1]]
    """
    if isinstance(numbers, np.ndarray) and numbers.dtype != object:
        return numbers
    try:
        return np.array(numbers, np.int64)
    except OverflowError:
        size = 8 * (max(map(abs, numbers)).bit_length() // _BITS + 1)
        raw = b"".join([number.to_bytes(size, "little", signed=True) for number in numbers])
        return np.frombuffer(raw, np.int64).reshape(-1, size // 8)


def list_integers(numbers: Integers) -> list[Any]:
    """Return Python's integers.

    >>> list_integers(np.array([[3, 2], [1, -1]])) == [3 + 2 * 2**64, 1 - 2**64]
    True
    """
    if numbers.ndim == 1:
        return numbers.tolist()  # type: ignore[no-any-return]
    raw, size = numbers.tobytes(), 8 * numbers.shape[1]
    rows = range(0, len(raw), size)
    return [int.from_bytes(raw[at : at + size], "little", signed=True) for at in rows]


def widen(numbers: Integers, width: int) -> NDArray[np.int64]:
    """Return integers as rows of so many words, which hold them.

    >>> widen(np.array([5, -5]), 2).tolist()
    [[5, 0], [-5, -1]]
    """
    own = numbers[:, None] if numbers.ndim == 1 else numbers[:, :width]
    words = np.empty((len(numbers), width), np.int64)
    words[:, : own.shape[1]], words[:, own.shape[1] :] = own, own[:, -1:] >> (_BITS - 1)
    return words


def find_most(numbers: Integers) -> int:
    """Return the greatest magnitude.

    >>> find_most(np.array([3, -7])), find_most(np.array([[0, 1], [0, -2]])) == 2**65
    (7, True)
    """
    if numbers.ndim == 1 or not len(numbers):
        return max(-int(numbers.min(initial=0)), int(numbers.max(initial=0)))
    words = np.ascontiguousarray(numbers)
    ends = words[[*call_briefly(_find_ends, words.size, words)]]
    return max(map(abs, list_integers(ends)), default=0)


@borrowing
def _find_ends(words):
    """Return the rows with the least and the greatest number; there is one."""
    least = most = 0
    for r in range(1, len(words)):
        if _is_less(words[r], words[least]):
            least = r
        elif _is_less(words[most], words[r]):
            most = r
    return least, most


@inner
def _is_less(one, other):
    """Whether an integer is less than another one."""
    last = len(one) - 1
    for w in range(last, -1, -1):
        if one[w] != other[w]:
            return (one[w] < other[w]) == (w == last or (one[w] ^ other[w]) >= 0)
    return False


def to_floats(numbers: Integers) -> NDArray[np.float64]:
    """Return the nearest floats of integers; floats are their own.

    >>> to_floats(to_integers([2**53 + 1, 2**2000])).tolist()
    [9007199254740992.0, inf]
    """
    if numbers.ndim == 2:
        return np.array([to_nearest(each) for each in list_integers(numbers)], np.float64)
    return numbers.astype(np.float64)


def is_zero(numbers: Integers) -> NDArray[np.bool_]:
    """Return which integers are 0."""
    zeros = numbers == 0
    return np.asarray(zeros if zeros.ndim == 1 else zeros.all(axis=1), np.bool_)


def add_up(numbers: NDArray[Any], starts: NDArray[np.int64]) -> list[Any]:
    """Return the exact sums of integers, or the sums of floats, from each start to the next.

    >>> add_up(np.array([2**62, 2**62, 2**62, 5]), np.array([0, 3])) == [3 * 2**62, 5]
    True
    """
    if numbers.dtype != np.int64:
        return np.add.reduceat(numbers, starts).tolist()  # type: ignore[no-any-return]
    sums: Any = 0
    words = np.atleast_2d(numbers.T)
    for at, word in enumerate(words):
        high = word >> _HALF if at == len(words) - 1 else word >> _HALF & _LOW
        for half, part in enumerate((word & _LOW, high)):
            shift = _BITS * at + _HALF * half
            sums += np.add.reduceat(part, starts).astype(object) << shift
    return sums.tolist()  # type: ignore[no-any-return]


def join_integers(parts: Sequence[Integers]) -> Integers:
    """Return the integers of several arrays as one."""
    width = max(part.shape[1] if part.ndim == 2 else 0 for part in parts)
    return np.concatenate([widen(part, width) for part in parts] if width else parts)


# ----------------------------------------------------------------------- text

_CHUNK = 9
_CHUNK_SIZE = np.uint64(10**_CHUNK)
"""The largest power of ten by which 62 bits are divided with a quotient of 32."""
_TEN, _SHIFT, _MASK = np.uint64(10), np.uint64(_HALF), np.uint64(_LOW)
_MINUS, _ZERO = 45, 48


def write_digits(numbers: Integers) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Return the digits of integers: where each number begins in a text, and the text.

    >>> begins, text = write_digits(np.array([[0, 1], [7, 0]]))
    >>> begins.tolist(), text.tobytes()
    ([0, 20, 21], b'184467440737095516167')
    """
    words = widen(numbers, numbers.shape[1] if numbers.ndim == 2 else 1)
    halves = words.view(np.uint32).astype(np.uint64)
    rows, width = halves.shape
    chunks = np.zeros(width * _HALF // 29 + 1, np.uint64)
    begins = np.zeros(rows + 1, np.int64)
    text = np.empty(rows * (len(chunks) * _CHUNK + 1), np.uint8)
    call_briefly(_write_text, halves.size * len(chunks), halves, chunks, begins, text)
    return begins, text[: begins[-1]]


@borrowing
def _write_text(halves, chunks, begins, text):
    """Write numbers, whose halves of words are used up, and where each of them ends."""
    at = 0
    for r in range(len(halves)):
        rest, top = halves[r], halves.shape[1]
        if rest[top - 1] >> np.uint64(31) != 0:
            _negate(rest)
            text[at] = _MINUS
            at += 1
        used = 0
        while top > 0 or used == 0:
            chunk = np.uint64(0)
            for h in range(top - 1, -1, -1):
                value = chunk << _SHIFT | rest[h]
                rest[h] = value // _CHUNK_SIZE
                chunk = value - rest[h] * _CHUNK_SIZE
            chunks[used] = chunk
            used += 1
            while top > 0 and rest[top - 1] == 0:
                top -= 1
        at += _CHUNK * (used - 1) + _count_digits(chunks[used - 1])
        end = at
        for c in range(used):
            chunk = chunks[c]
            for _ in range(_CHUNK if c < used - 1 else _count_digits(chunk)):
                end -= 1
                text[end] = np.uint64(_ZERO) + chunk % _TEN
                chunk //= _TEN
        begins[r + 1] = at


@inner
def _negate(halves):
    """Negate a number in two's complement."""
    carry = np.uint64(1)
    for h in range(len(halves)):
        half = (halves[h] ^ _MASK) + carry
        halves[h] = half & _MASK
        carry = half >> _SHIFT


@inner
def _count_digits(chunk):
    digits = 1
    while chunk >= _TEN:
        chunk //= _TEN
        digits += 1
    return digits
