"""Exact integers of any size as residues, which kernels add and multiply.

The Chinese remainder theorem gives an integer back, in words (`cernis.engine.words`). There are two
layouts:

* in *lanes*, an integer has a residue modulo 2^64 and others modulo primes below 2^50, side by
  side, and one pass computes all. Aggregates have it (`cernis.engine.unary.semiring`);
* in *passes*, a kernel counts in floats, which are exact below 2^53. Where a count is larger, it
  counts again modulo one prime after the other (`count_exactly`). These primes are below 2^26, so
  that a float holds a product. Counts of the run DAG have it (`cernis.engine.dag`): few exceed
  2^53, and one compiled kernel serves all.

The first lane is plain 64-bit arithmetic, which needs no reduction; its modulus is written as 0. An
integer in lanes may be negative: it lies in the middle of the range of its residues. Primes of
lanes stay below 2^50 so that a product modulo p needs no 128-bit arithmetic: the quotient that
floating point gives is off by at most one (Shoup's NTL does the same).

Cost contract: in lanes an addition or product costs O(lanes), and none needs a division; in passes,
a pass for each 26 bits of the largest count. A word has room for 2^12 residues below 2^50: vectors
add residues as plain integers, and reduce them later (`semiring`). Rejected: primes of 62 bits,
which are a fifth fewer: LLVM computes their products one at a time, and each addition needs a
reduction. Rejected: limbs with carries, whose products cost the square of them; in most numbers of
a window the upper limbs are 0, and leaving these out makes loops so short that sequences of 24 took
1.2 times as long. `cernis.engine.unary.count` has limbs all the same: it only adds, a carry tells
that they are too few, and choosing a match by its rank compares, which residues cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import isfinite, log2, prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import borrowing, inlined, inner
from cernis.engine.words import Integers

LANE_BITS = 50
_PASS_BITS = 26
EXACT = float(2**53)
"""Floats below it are exact numbers."""
_WORD = 2**64
_WORD_SIZE = 2.0**64
_ROUNDED_UP = 1 + 1e-9
_WITNESSES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
"""Bases that make the Miller-Rabin test exact below 2^64."""


class Moduli(NamedTuple):
    """The moduli of some lanes, for the kernels; 0 stands for 2^64."""

    primes: NDArray[np.int64]
    inverses: NDArray[np.float64]
    """1 / prime; 0 for 2^64."""
    crossings: NDArray[np.int64]
    """At [i, j], the inverse of modulus i modulo prime j, for i < j."""


def new_moduli(lanes: int) -> Moduli:
    """Return the moduli of so many lanes."""
    moduli = [_modulus(i) for i in range(lanes)]
    crossings = np.zeros((len(moduli), len(moduli)), np.int64)
    for j, q in enumerate(moduli):
        crossings[:j, j] = [pow(p, -1, q) for p in moduli[:j]]
    primes = [0 if q == _WORD else q for q in moduli]
    inverses = [0.0 if q == _WORD else 1 / q for q in moduli]
    return Moduli(np.array(primes, np.int64), np.array(inverses), crossings)


def _modulus(lane: int) -> int:
    """Return the modulus of a lane."""
    return _prime(LANE_BITS, lane - 1) if lane else _WORD


@cache
def _prime(bits: int, rank: int) -> int:
    """Return the rank-th prime below 2^bits, the largest first."""
    number = _prime(bits, rank - 1) - 1 if rank else 2**bits - 1
    while not _is_prime(number):
        number -= 1
    return number


def _is_prime(number: int) -> bool:
    """Whether an integer between 2^6 and 2^64 is a prime (Miller-Rabin)."""
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for witness in _WITNESSES:
        power = pow(witness, odd, number)
        if power == 1:
            continue
        for _ in range(twos):
            if power == number - 1:
                break
            power = power * power % number
        else:
            return False
    return number % 2 == 1


def read_residues(residues: NDArray[np.int64], moduli: Moduli) -> Integers:
    """Return the integers of some rows of residues.

    >>> read_residues(np.array([[5, 5], [-7, _prime(LANE_BITS, 0) - 7]]), new_moduli(2)).tolist()
    [5, -7]
    """
    if residues.shape[1] == 1:
        return residues[:, 0].copy()
    small = np.empty(len(residues), np.int64)
    if _read_small(residues, moduli, small):
        return small
    lanes = residues.shape[1]
    words = np.empty((len(residues), (LANE_BITS * (lanes - 1)) // 64 + 2), np.int64)
    _write_words(np.array(residues.T, order="C"), moduli, words.view(np.uint64))
    return words


@borrowing
def _read_small(residues, moduli, out):
    """Write the integers of some rows that fit 64 bits; return whether all do."""
    primes = moduli.primes
    for i in range(len(residues)):
        out[i] = residues[i, 0]
        for lane in range(1, len(primes)):
            if out[i] % primes[lane] != residues[i, lane]:
                return False
    return True


@borrowing
def _write_words(columns, moduli, words):
    """Write the integers of columns of residues as words; the residues become digits.

    Garner's algorithm, column by column (`_find_digits`), then Horner's rule for the digits above
    the lowest, which is a word with a sign.
    """
    primes, lanes = moduli.primes, len(moduli.primes)
    for lane in range(1, lanes):
        for i in range(lane):
            prime, inverse = primes[lane], moduli.inverses[lane]
            crossing, digits, own = moduli.crossings[i, lane], columns[i], columns[lane]
            for r in range(len(own)):
                digit = own[r] - reduce_integer(digits[r], prime, inverse)
                digit = reduce_integer(digit, prime, inverse)
                own[r] = multiply(digit, crossing, prime, inverse)
    prime, last = primes[lanes - 1], columns[lanes - 1]
    for r in range(len(last)):
        digit = last[r] - prime if last[r] > prime // 2 else last[r]
        own = words[r]
        own[0] = np.uint64(digit)
        for w in range(1, len(own)):
            own[w] = np.uint64(digit >> 63)
        for lane in range(lanes - 2, 0, -1):
            _multiply_words(own, np.uint64(primes[lane]), np.uint64(columns[lane, r]))
        borrow = np.uint64(columns[0, r]) >> np.uint64(63)
        for w in range(len(own) - 1):
            word = own[w]
            own[w] = word - borrow
            borrow = np.uint64(word < borrow)
        for w in range(len(own) - 1, 0, -1):
            own[w] = own[w - 1]
        own[0] = np.uint64(columns[0, r])


@inlined
def _multiply_words(words, factor, carry):
    """Multiply an integer in words by one below 2^63, and add one."""
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    for w in range(len(words)):
        word = words[w]
        one, other = word & low, word >> half
        left, right = factor & low, factor >> half
        middle = other * left + (one * left >> half)
        last = one * right + (middle & low)
        product = word * factor + carry
        carry = other * right + (middle >> half) + (last >> half) + np.uint64(product < carry)
        words[w] = product


@inlined
def reduce_integer(number, prime, inverse):
    """Return the residue of an integer of 64 bits, without a division or a branch."""
    rest = number - np.int64(np.float64(number) * inverse) * prime
    rest += (prime & (rest >> 63)) - prime
    return rest + (prime & (rest >> 63))


@inlined
def multiply(left, right, prime, inverse):
    """Return the product of two residues of a prime, without a branch."""
    quotient = np.int64(np.float64(left) * np.float64(right) * inverse)
    rest = left * right - quotient * prime
    rest += (prime & (rest >> 63)) - prime
    return rest + (prime & (rest >> 63))


@inlined
def _find_digits(moduli, residues, digits):
    """Write the digits of an integer in the mixed radix of its moduli (Garner)."""
    primes, lanes = moduli.primes, len(moduli.primes)
    for lane in range(lanes):
        digit = residues[lane]
        for i in range(lane):
            prime, inverse = primes[lane], moduli.inverses[lane]
            digit = reduce_integer(
                digit - reduce_integer(digits[i], prime, inverse), prime, inverse
            )
            digit = multiply(digit, moduli.crossings[i, lane], prime, inverse)
        digits[lane] = digit
    last = lanes - 1
    if primes[last] and digits[last] > primes[last] // 2:
        digits[last] -= primes[last]


@inlined
def bound_integer(moduli, residues, digits):
    """Return a float that is no less than an integer, and hardly larger."""
    _find_digits(moduli, residues, digits)
    bound = 0.0
    for lane in range(len(digits) - 1, -1, -1):
        radix = np.float64(moduli.primes[lane]) if lane else _WORD_SIZE
        bound = bound * radix + np.float64(digits[lane])
    return abs(bound) * _ROUNDED_UP


@inlined
def extend(old, new, residues, digits):
    """Turn the residues of an integer modulo `old` into those modulo `new`.

    Garner's algorithm: digits in the mixed radix of the old moduli, then Horner's rule.
    """
    _find_digits(old, residues, digits)
    last = len(old.primes) - 1
    for lane in range(len(new.primes)):
        prime, inverse = new.primes[lane], new.inverses[lane]
        value = reduce_integer(digits[last], prime, inverse)
        for i in range(last - 1, -1, -1):
            radix = old.primes[i]
            if radix == 0 and prime:
                radix = multiply(np.int64(1) << 32, np.int64(1) << 32, prime, inverse)
            elif prime:
                radix %= prime
            digit = reduce_integer(digits[i], prime, inverse)
            value = reduce_integer(multiply(value, radix, prime, inverse) + digit, prime, inverse)
        residues[lane] = value


# --------------------------------------------------------------------- passes


@inner
def reduce(value, prime):
    """Return a number modulo a prime; 0: there is none."""
    if prime > 0:
        value -= np.floor(value / prime) * prime
        if value < 0:
            value += prime
    return value


@inner
def add(one, other, prime):
    """Return the sum of two numbers modulo a prime; 0: there is none."""
    total = one + other
    if total >= prime:
        total -= prime
    return total


@cache
def list_primes(bits: int) -> tuple[int, ...]:
    """Return primes below 2^26 whose product has more than so many bits, the largest first.

    >>> len(list_primes(103)), len(list_primes(104))
    (4, 5)
    """
    primes: list[int] = []
    while prod(primes) >> bits == 0:
        primes.append(_prime(_PASS_BITS, len(primes)))
    return tuple(primes)


def join_residues(residues: NDArray[np.int64], primes: Sequence[int]) -> list[int]:
    """Return the numbers with these residues: a row for each prime.

    >>> join_residues(np.array([[1, 2], [3, 2], [2, 5]]), (3, 5, 7))
    [58, 47]
    """
    rows, moduli, last = [], [], len(primes) // 2 * 2
    # the product of two primes fits into 64 bits
    for at in range(0, last, 2):
        one, other = primes[at : at + 2]
        times = (residues[at + 1] - residues[at]) * pow(one, -1, other) % other
        rows.append(residues[at] + one * times)
        moduli.append(one * other)
    rows, moduli = [*rows, *residues[last:]], [*moduli, *primes[last:]]
    whole = prod(moduli)
    total = np.zeros(residues.shape[1], object)
    for modulus, row in zip(moduli, rows, strict=True):
        others = whole // modulus
        total += row.astype(object) * (others * pow(others, -1, modulus))
    joined: list[int] = (total % whole).tolist()
    return joined


Count = Callable[[float], NDArray[np.float64]]
"""Returns numbers modulo a prime; 0: there is none."""


def count_large(count: Count, largest: float, bound_bits: Callable[[], int]) -> list[int]:
    """Return numbers of any size, the largest of which is near to a float.

    `bound_bits` is for numbers beyond floats.
    """
    primes = list_primes(int(log2(largest)) + 2 if isfinite(largest) else bound_bits())
    residues = np.array([count(float(prime)) for prime in primes])
    return join_residues(residues.astype(np.int64), primes)


def count_exactly(count: Count, bound_bits: Callable[[], int]) -> list[int]:
    """Return numbers of any size.

    `count` adds and multiplies numbers that are not negative, so a float is near to its number, and
    exact where that is below 2^53.
    """
    numbers = count(0.0)
    is_exact = numbers < EXACT
    counts: list[int] = np.where(is_exact, numbers, 0.0).astype(np.int64).tolist()
    large = np.flatnonzero(~is_exact)
    if len(large):
        found = count_large(lambda prime: count(prime)[large], float(numbers.max()), bound_bits)
        for index, number in zip(large.tolist(), found, strict=True):
            counts[index] = number
    return counts
