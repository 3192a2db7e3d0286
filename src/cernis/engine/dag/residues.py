"""Large counts as residues modulo primes, which kernels add and multiply as floats.

Primes are below 2^26, so that a float holds the product of two residues. The Chinese remainder
theorem puts a count together from its residues.

Cost: a pass of the kernel for each prime, one for 26 bits of the largest count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import isfinite, isqrt, log2, prod

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import inner

_EXACT = float(2**53)
"""Floats below it are exact numbers."""
_PRIME_BITS = 26


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
    number = 2**_PRIME_BITS
    while prod(primes) >> bits == 0:
        number -= 1
        if all(number % divisor for divisor in range(2, isqrt(number) + 1)):
            primes.append(number)
    return tuple(primes)


def join_residues(residues: NDArray[np.int64], primes: Sequence[int]) -> list[int]:
    """Return the numbers with these residues (Chinese remainder theorem).

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


def count_exactly(
    count: Callable[[float], NDArray[np.float64]], bound_bits: Callable[[], int]
) -> list[int]:
    """Return numbers of any size.

    `count` gives the numbers modulo a prime, 0: there is none. It adds and multiplies numbers that
    are not negative, so a float is near to its number, and exact where that is below 2^53.
    `bound_bits` is for numbers beyond floats.
    """
    numbers = count(0.0)
    is_exact = numbers < _EXACT
    counts: list[int] = np.where(is_exact, numbers, 0.0).astype(np.int64).tolist()
    large = np.flatnonzero(~is_exact)
    if len(large) == 0:
        return counts
    largest = float(numbers.max())
    primes = list_primes(int(log2(largest)) + 2 if isfinite(largest) else bound_bits())
    residues = np.array([count(float(prime))[large] for prime in primes])
    joined = join_residues(residues.astype(np.int64), primes)
    for place, number in zip(large.tolist(), joined, strict=True):
        counts[place] = number
    return counts
