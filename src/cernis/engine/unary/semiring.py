"""The numbers that aggregation moves along an automaton: counts, sums, least values.

An *element* stands for a set of partial matches and has one number, or a few, per quantity:

* the number of matches, in residues (`residue`), exact at any size;
* per sum of integers the sum over all matches and their events, in residues too (the number of
  pairs of a match and an event is the sum of ones);
* per sum of floats the sum, and once the number of matches as a float;
* per least value the least, and once whether there is a match. Greatest values are least ones
  of negated codes.

Elements form a semiring: + is the union of two sets, × concatenates the matches of both. The
weight of an event that an edge marks is an element of one match.

A *vector* has `size` elements. Its words are in order of residues, then of quantities: loops run
along memory, and one of them adds all integers of a residue. A vector of partial matches has a
header of *bounds*: floats that no number in the vector exceeds, once for all matches and once for
those begun since the last turn (`slide`).

Cost contract: every function is linear in the words of the vectors.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import inlined, inner
from cernis.engine.unary.residue import Moduli, extend, multiply, new_moduli

NO_VALUE = np.int64(2**63 - 1)
"""The code of a least value over no events."""


class Pool(NamedTuple):
    """Memory for vectors: the same words read as integers and as floats."""

    words: NDArray[np.int64]
    reals: NDArray[np.float64]


def new_pool(size: int) -> Pool:
    """Make a pool of so many words."""
    words = np.empty(size, np.int64)
    return Pool(words, words.view(np.float64))


class Weights(NamedTuple):
    """The values of events: a row each, a column per quantity; or those of one event."""

    sums: NDArray[np.int64]
    floats: NDArray[np.float64]
    leasts: NDArray[np.int64]


class Lanes(NamedTuple):
    """The quantities of an element, and the labels whose events count for each."""

    moduli: Moduli
    sum_labels: NDArray[np.uint8]
    """Per sum and label, whether an event with this label counts."""
    float_labels: NDArray[np.uint8]
    least_labels: NDArray[np.uint8]
    floats: int
    """The first word of the floats in an element; the first of all is the number of matches."""
    leasts: int
    """The first word of the least values; the first of all is whether there is a match."""
    quantities: int
    """The number of matches and the sums: what each residue has a word for."""
    words: int
    """The words of an element."""
    header: int
    """The words before a vector of partial matches."""


def new_lanes(
    residues: int,
    sums: NDArray[np.uint8],
    floats: NDArray[np.uint8],
    leasts: NDArray[np.uint8],
) -> Lanes:
    """Lay out elements with so many residues, given the labels that count for their quantities."""
    quantities = 1 + len(sums)
    first_float = quantities * residues
    first_least = first_float + (1 + len(floats) if len(floats) else 0)
    words = first_least + (1 + len(leasts) if len(leasts) else 0)
    return Lanes(
        moduli=new_moduli(residues),
        sum_labels=sums,
        float_labels=floats,
        least_labels=leasts,
        floats=first_float,
        leasts=first_least,
        quantities=quantities,
        words=words,
        header=2 * quantities,
    )


@inlined
def weigh(lanes, events, event, label, weights):
    """Write the weights that an event has under a label."""
    if lanes.words == 1:
        return
    for q in range(len(weights.sums)):
        weights.sums[q] = events.sums[event, q] if lanes.sum_labels[q, label] else 0
    for q in range(len(weights.floats)):
        weights.floats[q] = events.floats[event, q] if lanes.float_labels[q, label] else 0.0
    for q in range(len(weights.leasts)):
        weights.leasts[q] = events.leasts[event, q] if lanes.least_labels[q, label] else NO_VALUE


@inlined
def copy_weights(old, event, new, to):
    """Copy the values of an event to a row of other values."""
    for q in range(old.sums.shape[1]):
        new.sums[to, q] = old.sums[event, q]
    for q in range(old.floats.shape[1]):
        new.floats[to, q] = old.floats[event, q]
    for q in range(old.leasts.shape[1]):
        new.leasts[to, q] = old.leasts[event, q]


@inlined
def copy_words(words, new, old, number):
    """Copy so many words."""
    to, place = np.uint64(new), np.uint64(old)
    for r in range(np.uint64(number)):
        words[to + r] = words[place + r]


@inlined
def clear(pool, lanes, at, size):
    """Empty a vector: no matches at all."""
    for i in range(np.uint64(at), np.uint64(at + lanes.words * size)):
        pool.words[i] = 0
    first = at + (lanes.leasts + 1) * size
    for i in range(np.uint64(first), np.uint64(max(first, at + lanes.words * size))):
        pool.words[i] = NO_VALUE


@inlined
def add(pool, lanes, weights, new, base, source, size, length):
    """Write base + source × weights to the vector `new`; base 0 is empty.

    The first `length` elements of a vector of `size` are written: all of them, unless `new` is
    `base`, and the source has no matches beyond.
    """
    if lanes.words == 1:
        words, elements = pool.words, np.uint64(length)
        _add_counts(words, np.uint64(new), np.uint64(base), np.uint64(source), elements)
    elif lanes.words == len(lanes.moduli.primes):
        _add_residues(pool.words, lanes.moduli.primes, new, base, source, size, length)
    else:
        _add_lanes(pool, lanes, weights, new, base, source, size, length)


@inner
def _add_lanes(pool, lanes, weights, new, base, source, size, length):
    """Do as `_add_counts`, for all quantities, one after the other."""
    if base == 0:
        clear(pool, lanes, new, size)
        base = new
    moduli, integers = lanes.moduli, lanes.quantities * size
    used = integers - size + length
    for lane in range(len(moduli.primes)):
        prime, inverse = moduli.primes[lane], moduli.inverses[lane]
        counts = lane * integers
        _add_words(pool.words, new + counts, base + counts, source + counts, used, prime)
        for q in range(len(weights.sums)):
            at, weight = counts + (1 + q) * size, weights.sums[q]
            if weight != 0 and prime == 0:
                _add_multiple(pool.words, new + at, source + counts, length, weight)
            elif weight != 0:
                rest = weight % prime
                _add_residue(pool.words, new + at, source + counts, length, (rest, prime, inverse))
    if len(weights.floats):
        counts = lanes.floats * size
        for q in range(len(weights.floats)):
            at = counts + (1 + q) * size
            _add_reals(pool.reals, new + at, base + at, source + at, length)
            weight = weights.floats[q]
            if weight != 0.0:
                _add_real_multiple(pool.reals, new + at, source + counts, length, weight)
        _add_reals(pool.reals, new + counts, base + counts, source + counts, length)
    if len(weights.leasts):
        exists = lanes.leasts * size
        for q in range(len(weights.leasts)):
            at = exists + (1 + q) * size
            _add_leasts(pool.words, new + at, base + at, source + at, length)
            if weights.leasts[q] != NO_VALUE:
                _add_least(pool.words, new + at, source + exists, length, weights.leasts[q])
        _unite_marks(pool.words, new + exists, base + exists, source + exists, length)


# Places are unsigned in these loops: Numba would look for negative ones, and LLVM not use vectors.


@inlined
def _add_words(words, new, base, source, size, prime):
    to, first, second = np.uint64(new), np.uint64(base), np.uint64(source)
    if prime == 0:
        for r in range(np.uint64(size)):
            words[to + r] = words[first + r] + words[second + r]
    else:
        for r in range(np.uint64(size)):
            words[to + r] = _reduce(words[first + r] + words[second + r], prime)


@inlined
def _add_multiple(words, new, source, size, weight):
    to, place = np.uint64(new), np.uint64(source)
    for r in range(np.uint64(size)):
        words[to + r] += weight * words[place + r]


@inlined
def _add_residue(words, new, source, size, modulo):
    weight, prime, inverse = modulo
    to, place = np.uint64(new), np.uint64(source)
    for r in range(np.uint64(size)):
        product = multiply(words[place + r], weight, prime, inverse)
        words[to + r] = _reduce(words[to + r] + product, prime)


@inlined
def _add_reals(reals, new, base, source, size):
    to, first, second = np.uint64(new), np.uint64(base), np.uint64(source)
    for r in range(np.uint64(size)):
        reals[to + r] = reals[first + r] + reals[second + r]


@inlined
def _add_real_multiple(reals, new, source, size, weight):
    to, place = np.uint64(new), np.uint64(source)
    for r in range(np.uint64(size)):
        number = reals[place + r]
        if number != 0.0:  # a match of infinite weight is no match of none
            reals[to + r] += weight * number


@inlined
def _add_leasts(words, new, base, source, size):
    to, first, second = np.uint64(new), np.uint64(base), np.uint64(source)
    for r in range(np.uint64(size)):
        words[to + r] = min(words[first + r], words[second + r])


@inlined
def _add_least(words, new, source, size, weight):
    """Write the weight where it is the least of some matches."""
    to, place = np.uint64(new), np.uint64(source)
    for r in range(np.uint64(size)):
        if words[place + r]:
            words[to + r] = min(words[to + r], weight)


@inlined
def _unite_marks(words, new, base, source, size):
    to, first, second = np.uint64(new), np.uint64(base), np.uint64(source)
    for r in range(np.uint64(size)):
        words[to + r] = words[first + r] | words[second + r]


@inlined
def _add_counts(words, new, base, source, size):
    """Write base + source to `new`; unsigned places need no look at negative ones."""
    if base == 0:
        for r in range(size):
            words[new + r] = words[source + r]
    elif base == new:  # LLVM uses vectors where nothing else that is read can be written
        for r in range(size):
            words[new + r] += words[source + r]
    else:
        for r in range(size):
            words[new + r] = words[base + r] + words[source + r]


@inner
def _add_residues(words, primes, new, base, source, size, length):
    """Do as `_add_counts`, for counts of several residues."""
    for lane in range(len(primes)):
        prime, at = primes[lane], lane * size
        to, first, second = np.uint64(new + at), np.uint64(base + at), np.uint64(source + at)
        if base == 0:
            for r in range(np.uint64(length)):
                words[to + r] = words[second + r]
        elif base == new:
            for r in range(np.uint64(length)):
                words[to + r] = _reduce(words[to + r] + words[second + r], prime)
        else:
            for r in range(np.uint64(length)):
                words[to + r] = _reduce(words[first + r] + words[second + r], prime)


@inlined
def add_one(pool, lanes, weights, new, size):
    """Add one match with these weights to the first element of a vector."""
    words, reals, moduli = pool.words, pool.reals, lanes.moduli
    if lanes.words == 1:
        words[new] += 1
        return
    for lane in range(len(moduli.primes)):
        prime, counts = moduli.primes[lane], new + lane * lanes.quantities * size
        words[counts] += 1
        if prime and words[counts] == prime:
            words[counts] = 0
        for q in range(len(weights.sums)):
            at = counts + (1 + q) * size
            words[at] += weights.sums[q] if prime == 0 else weights.sums[q] % prime
            if prime:
                words[at] %= prime
    for q in range(len(weights.floats)):
        reals[new + (lanes.floats + 1 + q) * size] += weights.floats[q]
    if len(weights.floats):
        reals[new + lanes.floats * size] += 1.0
    exists = new + lanes.leasts * size
    for q in range(len(weights.leasts)):
        at = exists + (1 + q) * size
        words[at] = min(words[at], weights.leasts[q])
    if len(weights.leasts):
        words[exists] = 1


@inner
def set_unit(pool, lanes, at, size, index):
    """Make a vector that has one match without events at `index`, and no others."""
    clear(pool, lanes, at, size)
    for lane in range(len(lanes.moduli.primes)):
        pool.words[at + lane * lanes.quantities * size + index] = 1
    if lanes.leasts > lanes.floats:
        pool.reals[at + lanes.floats * size + index] = 1.0
    if lanes.words > lanes.leasts:
        pool.words[at + lanes.leasts * size + index] = 1


@inlined
def add_product(pool, lanes, weights, result, front, source, size, length):
    """Add front · source × weights, the matches of both in one element, to the scratch element.

    `result` is a pool of one element. `front` 0 is the vector with one match at index 0. The source
    has no matches beyond its first `length` elements.
    """
    if lanes.words > len(lanes.moduli.primes):
        _add_product_of_lanes(pool, lanes, weights, result, front, source, size, length)
    elif lanes.words > 1:
        words, moduli = pool.words, lanes.moduli
        _add_product_of_residues(words, moduli, result.words, front, source, size, length)
    elif front:
        words, elements = pool.words, np.uint64(length)
        result.words[0] += _multiply_counts(words, np.uint64(front), np.uint64(source), elements)
    else:
        result.words[0] += pool.words[source]


@inner
def _add_product_of_residues(words, moduli, result, front, source, size, length):
    for lane in range(len(moduli.primes)):
        prime, at = moduli.primes[lane], lane * size
        number = words[source + at]
        if front:
            inverse = moduli.inverses[lane]
            number = _dot(words, front + at, source + at, length, prime, inverse)
        result[lane] = _reduce(result[lane] + number, prime)


@inner
def _add_product_of_lanes(pool, lanes, weights, result, front, source, size, length):
    words, moduli = pool.words, lanes.moduli
    for lane in range(len(moduli.primes)):
        prime, inverse = moduli.primes[lane], moduli.inverses[lane]
        place = lane * lanes.quantities
        counts = place * size
        number = _dot(words, front + counts, source + counts, length, prime, inverse)
        if front == 0:
            number = words[source + counts]
        result.words[place] = _fold(result.words[place] + number, prime)
        for q in range(len(weights.sums)):
            at = counts + (1 + q) * size
            if front == 0:
                total = words[source + at]
            else:
                total = _dot(words, front + counts, source + at, length, prime, inverse)
                total += _dot(words, front + at, source + counts, length, prime, inverse)
            if prime == 0:
                total += weights.sums[q] * number
            else:
                total += multiply(number, weights.sums[q] % prime, prime, inverse)
            result.words[place + 1 + q] = _fold(result.words[place + 1 + q] + total, prime)
    _add_product_of_floats(pool, lanes, weights, result, front, source, size, length)
    _add_product_of_leasts(pool, lanes, weights, result, front, source, size, length)


@inlined
def _multiply_counts(words, left, right, size):
    total = np.int64(0)
    for r in range(size):
        total += words[left + r] * words[right + r]
    return total


@inlined
def _dot(words, left, right, size, prime, inverse):
    """Return the sum of products of two runs of words."""
    one, other, length = np.uint64(left), np.uint64(right), np.uint64(size)
    if prime == 0:
        return _multiply_counts(words, one, other, length)
    total = np.int64(0)
    for r in range(length):
        product = multiply(words[one + r], words[other + r], prime, inverse)
        total = _reduce(total + product, prime)
    return total


@inlined
def _reduce(number, prime):
    """Return a number below twice the prime modulo it, without a branch."""
    rest = number - prime
    return rest + (prime & (rest >> 63))


@inlined
def _fold(number, prime):
    return number if prime == 0 else number % prime


@inlined
def _add_product_of_floats(pool, lanes, weights, result, front, source, size, length):
    reals = pool.reals
    counts = lanes.floats * size
    number = 0.0
    if len(weights.floats):
        for r in range(length if front else 1):
            number += (reals[front + counts + r] if front else 1.0) * reals[source + counts + r]
        result.reals[lanes.floats] += number
    for q in range(len(weights.floats)):
        at = counts + (1 + q) * size
        total = 0.0
        for r in range(length if front else 1):
            before = reals[front + counts + r] if front else 1.0
            after = reals[source + counts + r]
            if before != 0.0 and after != 0.0:
                total += before * reals[source + at + r]
                if front:
                    total += reals[front + at + r] * after
        if number != 0.0:
            total += weights.floats[q] * number
        result.reals[lanes.floats + 1 + q] += total


@inlined
def _add_product_of_leasts(pool, lanes, weights, result, front, source, size, length):
    words = pool.words
    exists = lanes.leasts * size
    for q in range(len(weights.leasts)):
        at = exists + (1 + q) * size
        least = result.words[lanes.leasts + 1 + q]
        for r in range(length if front else 1):
            if words[source + exists + r] and (not front or words[front + exists + r]):
                least = min(least, words[source + at + r], weights.leasts[q])
                if front:
                    least = min(least, words[front + at + r])
        result.words[lanes.leasts + 1 + q] = least


@inlined
def add_bounds(pool, weights, new, base, source, header):
    """Bound the vector base + source × weights, as `add` makes it."""
    reals = pool.reals
    if header == 2:
        reals[new - 2] = (reals[base - 2] if base else 0.0) + reals[source - 2]
        reals[new - 1] = (reals[base - 1] if base else 0.0) + reals[source - 1]
        return
    sums = len(weights.sums)
    for which in range(2):
        at = which * (1 + sums) - header
        number = reals[source + at]
        reals[new + at] = (reals[base + at] if base else 0.0) + number
        for q in range(1, 1 + sums):
            total = reals[source + at + q] + abs(np.float64(weights.sums[q - 1])) * number
            reals[new + at + q] = (reals[base + at + q] if base else 0.0) + total


@inlined
def add_unit_bounds(pool, weights, new, header, unit):
    """Bound a vector after one more match; `unit` is the bound of the number 1."""
    reals = pool.reals
    sums = len(weights.sums)
    for which in range(2):
        at = which * (1 + sums) - header
        reals[new + at] += unit
        for q in range(1, 1 + sums):
            reals[new + at + q] += abs(np.float64(weights.sums[q - 1])) * unit


@inner
def copy_vector(old, old_lanes, at, new, new_lanes, to, size, scratch):
    """Copy a vector to another pool, whose elements may have other residues."""
    before, after = len(old_lanes.moduli.primes), len(new_lanes.moduli.primes)
    rest, moved = old_lanes.floats, new_lanes.floats
    if before == after and old_lanes.moduli.primes[0] == new_lanes.moduli.primes[0]:
        rest, moved = 0, 0
    for i in range((old_lanes.words - rest) * size):
        new.words[to + moved * size + i] = old.words[at + rest * size + i]
    residues, digits = scratch[0], scratch[1]
    integers = new_lanes.quantities * size
    for r in range(integers if moved else 0):
        for lane in range(before):
            residues[lane] = old.words[at + lane * integers + r]
        extend(old_lanes.moduli, new_lanes.moduli, residues, digits)
        for lane in range(after):
            new.words[to + lane * integers + r] = residues[lane]
