"""The numbers that aggregation moves along an automaton: counts, sums, least values.

An *element* stands for a set of partial matches and has one number, or a few, per quantity:

* the number of matches, in residues (`cernis.engine.residues`), exact at any size;
* per sum of integers the sum over all matches and their events, in residues too (the number of
  pairs of a match and an event is the sum of ones);
* per sum of floats the sum, and once the number of matches as a float;
* per least value the least, and once whether there is a match. Greatest values are least ones
  of negated codes.

Elements form a semiring: + is the union of two sets, × concatenates the matches of both. The
weight of an event that an edge marks is an element of one match.

A *vector* has `size` elements. Its words are in order of quantities, then of elements, then of
residues: one loop adds all residues of a quantity of the first elements. A vector of partial
matches has a header of *bounds*: floats that no number in the vector exceeds, once for all matches
and once for those begun since the last turn (`slide`).

Sums are not reduced modulo the primes at once. A vector has a *load*: its residues are below the
load times 2^50 and a little. Loads add up, and `lighten` reduces a vector when its load is too
large, or before it is multiplied. So an addition of residues is one of plain integers.

Cost contract: every function is linear in the words of the vectors.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import apart, inlined, inner
from cernis.engine.residues import (
    LANE_BITS,
    Moduli,
    extend,
    multiply,
    new_moduli,
    reduce_integer,
)

MOST_LOAD = 1 << 12
"""Residues of such a load stay below 2^62."""
_LOWER = (1 << LANE_BITS) - 1
_HALF_WORD = (1 << 32) - 1
_SMALL = 1 << 49
"""All primes are larger."""
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
    primes: NDArray[np.int64]
    """Per word of a quantity of the longest vector, the prime of its residue, or 0."""
    inverses: NDArray[np.float64]
    masks: NDArray[np.int64]
    """Per word, the bits that reducing a residue keeps: the lower 50, or all of them."""
    excesses: NDArray[np.int64]
    """Per word, 2^50 minus its prime, or 0."""
    signed: NDArray[np.uint8]
    """Per sum, whether it may have had negative values."""
    sum_labels: NDArray[np.uint8]
    """Per sum and label, whether an event with this label counts."""
    float_labels: NDArray[np.uint8]
    least_labels: NDArray[np.uint8]
    floats: int
    """The first word of the floats in an element, and the number of its integers."""
    leasts: int
    """The first word of the least values; the first of all is whether there is a match."""
    quantities: int
    """The number of matches and the sums: what has a word for each residue."""
    words: int
    """The words of an element."""
    header: int
    """The words before a vector of partial matches."""
    ranks: int
    """1: of the matches of an element only those with the earliest start stay (NEXT), and an
    element of the front has one word more, for that start; else 0."""


def new_lanes(
    residues: int,
    elements: int,
    sums: NDArray[np.uint8],
    floats: NDArray[np.uint8],
    leasts: NDArray[np.uint8],
) -> Lanes:
    """Lay out elements with so many residues, given the labels that count for their quantities.

    No vector has more than so many elements.
    """
    quantities = 1 + len(sums)
    first_float = quantities * residues
    first_least = first_float + (1 + len(floats) if len(floats) else 0)
    words = first_least + (1 + len(leasts) if len(leasts) else 0)
    moduli = new_moduli(residues)
    return Lanes(
        moduli=moduli,
        primes=np.tile(moduli.primes, elements),
        inverses=np.tile(moduli.inverses, elements),
        masks=np.tile(np.where(moduli.primes == 0, -1, _LOWER), elements),
        excesses=np.tile(np.where(moduli.primes == 0, 0, 1 + _LOWER - moduli.primes), elements),
        signed=np.ones(len(sums), np.uint8),
        sum_labels=sums,
        float_labels=floats,
        least_labels=leasts,
        floats=first_float,
        leasts=first_least,
        quantities=quantities,
        words=words,
        header=2 * quantities,
        ranks=0,
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
    to, origin = np.uint64(new), np.uint64(old)
    for r in range(np.uint64(number)):
        words[to + r] = words[origin + r]


@inlined
def clear(pool, lanes, at, size):
    """Empty a vector: no matches at all."""
    for i in range(np.uint64(at), np.uint64(at + lanes.words * size)):
        pool.words[i] = 0
    first = at + (lanes.leasts + 1) * size
    for i in range(np.uint64(first), np.uint64(max(first, at + lanes.words * size))):
        pool.words[i] = NO_VALUE


@inlined
def add(pool, lanes, weights, new, base, source, size, part):
    """Write base + source × weights to the vector `new`; base 0 is empty.

    `part` has the first element of the source that may have matches and the one after the last,
    then the same for its sums of integers. It has all elements unless `new` is `base`.
    """
    low, high = part[0], part[1]
    if lanes.words == len(lanes.moduli.primes):
        at, integers = low * lanes.words, np.uint64((high - low) * lanes.words)
        first = base + at if base else 0
        _add_counts(
            pool.words, np.uint64(new + at), np.uint64(first), np.uint64(source + at), integers
        )
        return
    if base == 0:
        clear(pool, lanes, new, size)
    elif base != new:
        copy_words(pool.words, new, base, lanes.words * size)
    residues = len(lanes.moduli.primes)
    to, integers = np.uint64(new + low * residues), np.uint64((high - low) * residues)
    _add_counts(pool.words, to, to, np.uint64(source + low * residues), integers)
    if part[3] > part[2]:
        _add_sums(pool.words, lanes, new, source, size, part)
    if has_sums(weights):
        _add_multiples(pool.words, lanes, weights, new, source, size, part)
    if lanes.words > lanes.floats:
        _add_values(pool, lanes, weights, new + low, source + low, size, high - low)


@inlined
def has_sums(weights):
    """Return whether an event adds to a sum of integers."""
    found = False
    for q in range(len(weights.sums)):
        found = found or weights.sums[q] != 0
    return found


@inner
def hide_first(pool, lanes, at, size, saved):
    """Move the first element of a vector to `saved`, which has room for it."""
    copy_first(lanes, pool.words, at, size, saved, 0, 1)
    clear_element(pool, lanes, at, size, 0)


@inner
def copy_first(lanes, old, at, size, new, to, new_size):
    """Copy the first element of a vector to the first of another."""
    residues = len(lanes.moduli.primes)
    for q in range(lanes.quantities):
        for lane in range(residues):
            new[to + q * new_size * residues + lane] = old[at + q * size * residues + lane]
    for word in range(lanes.floats, lanes.words):
        new[to + word * new_size] = old[at + word * size]


@inlined
def clear_element(pool, lanes, at, size, index):
    """Take all matches out of one element of a vector."""
    words, residues = pool.words, len(lanes.moduli.primes)
    for q in range(lanes.quantities):
        for lane in range(residues):
            words[at + (q * size + index) * residues + lane] = 0
    for word in range(lanes.floats, lanes.words):
        words[at + word * size + index] = 0 if word <= lanes.leasts else NO_VALUE


@inlined
def has_matches(pool, lanes, at, index):
    """Return whether an element of a vector has matches."""
    residues = len(lanes.moduli.primes)
    found = False
    for lane in range(residues):
        found = found or pool.words[at + index * residues + lane] != 0
    return found


@apart
def _add_sums(words, lanes, new, source, size, part):
    """Add the sums of integers of a vector to those of the vector `new`."""
    residues = len(lanes.moduli.primes)
    summed = np.uint64((part[3] - part[2]) * residues)
    for q in range(1, lanes.quantities):
        at = (q * size + part[2]) * residues
        to, origin = np.uint64(new + at), np.uint64(source + at)
        for r in range(summed):
            words[to + r] += words[origin + r]


@apart
def _add_multiples(words, lanes, weights, new, source, size, part):
    """Add the weights, once for each match of a vector, to the sums of the vector `new`."""
    residues, low = len(lanes.moduli.primes), part[0] * len(lanes.moduli.primes)
    integers, origin = np.uint64((part[1] - part[0]) * residues), np.uint64(source + low)
    for q in range(1, lanes.quantities):
        if weights.sums[q - 1] != 0:
            to = np.uint64(new + q * size * residues + low)
            _add_multiple(words, lanes, to, origin, integers, weights.sums[q - 1])


@apart
def _add_values(pool, lanes, weights, new, source, size, length):
    """Add floats and least values to the vector `new`; both may begin at a later element."""
    if len(weights.floats):
        counts = lanes.floats * size
        for q in range(len(weights.floats)):
            at = counts + (1 + q) * size
            _add_reals(pool.reals, new + at, source + at, length)
            weight = weights.floats[q]
            if weight != 0.0:
                _add_real_multiple(pool.reals, new + at, source + counts, length, weight)
        _add_reals(pool.reals, new + counts, source + counts, length)
    if len(weights.leasts):
        exists = lanes.leasts * size
        for q in range(len(weights.leasts)):
            at = exists + (1 + q) * size
            _add_leasts(pool.words, new + at, source + at, length)
            if weights.leasts[q] != NO_VALUE:
                _add_least(pool.words, new + at, source + exists, length, weights.leasts[q])
        _unite_marks(pool.words, new + exists, source + exists, length)


# Offsets are unsigned in these loops: Numba would look for negative ones, and LLVM not use vectors.


@inlined
def _add_multiple(words, lanes, to, source, size, weight):
    """Add so many times the number of matches to a sum; the source has no load."""
    primes, inverses = lanes.primes, lanes.inverses
    if len(lanes.moduli.primes) == 1:
        for r in range(size):
            words[to + r] += weight * words[source + r]
    elif abs(weight) < _SMALL:
        sign = weight >> 63
        for r in range(size):
            rest = weight + (primes[r] & sign)
            words[to + r] += multiply(words[source + r], rest, primes[r], inverses[r])
    else:
        for r in range(size):
            rest = reduce_integer(weight, primes[r], inverses[r])
            words[to + r] += multiply(words[source + r], rest, primes[r], inverses[r])


@inlined
def _add_reals(reals, new, source, size):
    to, origin = np.uint64(new), np.uint64(source)
    for r in range(np.uint64(size)):
        reals[to + r] += reals[origin + r]


@inlined
def _add_real_multiple(reals, new, source, size, weight):
    to, origin = np.uint64(new), np.uint64(source)
    for r in range(np.uint64(size)):
        number = reals[origin + r]
        if number != 0.0:  # a match of infinite weight is no match of none
            reals[to + r] += weight * number


@inlined
def _add_leasts(words, new, source, size):
    to, origin = np.uint64(new), np.uint64(source)
    for r in range(np.uint64(size)):
        words[to + r] = min(words[to + r], words[origin + r])


@inlined
def _add_least(words, new, source, size, weight):
    """Write the weight where it is the least of some matches."""
    to, origin = np.uint64(new), np.uint64(source)
    for r in range(np.uint64(size)):
        if words[origin + r]:
            words[to + r] = min(words[to + r], weight)


@inlined
def _unite_marks(words, new, source, size):
    to, origin = np.uint64(new), np.uint64(source)
    for r in range(np.uint64(size)):
        words[to + r] |= words[origin + r]


@inlined
def _add_counts(words, new, base, source, size):
    """Write base + source to `new`; unsigned offsets need no look at negative ones."""
    if base == 0:
        for r in range(size):
            words[new + r] = words[source + r]
    elif base == new:  # LLVM uses vectors where nothing else that is read can be written
        for r in range(size):
            words[new + r] += words[source + r]
    else:
        for r in range(size):
            words[new + r] = words[base + r] + words[source + r]


@inlined
def lighten(pool, lanes, at, size, part, load, most):
    """Reduce the residues of a vector whose load is too large; return its load.

    `part` has the elements that may have matches, and those that may have sums, as in `add`.
    """
    if load <= most:
        return load
    _reduce_residues(pool.words, lanes, at, size, part)
    return 1


@apart
def _reduce_residues(words, lanes, at, size, part):
    """Fold the bits above 2^50: 2^50 is the excess of a prime, modulo that prime."""
    masks, excesses, residues = lanes.masks, lanes.excesses, len(lanes.moduli.primes)
    low, high = part[0], part[1]
    for q in range(lanes.quantities):
        if q > 0:
            low, high = part[2], part[3]
        first, length = np.uint64(at + (q * size + low) * residues), np.uint64(high - low)
        length *= np.uint64(residues)
        for i in range(length):
            above = np.uint64(words[first + i]) >> np.uint64(LANE_BITS)
            excess = np.uint64(excesses[i]) & np.uint64(_HALF_WORD)
            words[first + i] = (words[first + i] & masks[i]) + np.int64(above * excess)


@inlined
def add_one(pool, lanes, weights, new, size):
    """Add one match with these weights to the first element of a vector."""
    words, reals, moduli = pool.words, pool.reals, lanes.moduli
    if lanes.words == 1:
        words[new] += 1
        return
    residues = len(moduli.primes)
    for lane in range(residues):
        prime, inverse = moduli.primes[lane], moduli.inverses[lane]
        words[new + lane] = reduce_integer(words[new + lane] + 1, prime, inverse)
        for q in range(len(weights.sums)):
            at = new + (1 + q) * size * residues + lane
            weight = reduce_integer(weights.sums[q], prime, inverse)
            words[at] = reduce_integer(words[at] + weight, prime, inverse)
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
        pool.words[at + index * len(lanes.moduli.primes) + lane] = 1
    if lanes.leasts > lanes.floats:
        pool.reals[at + lanes.floats * size + index] = 1.0
    if lanes.words > lanes.leasts:
        pool.words[at + lanes.leasts * size + index] = 1


@inlined
def add_product(pool, lanes, weights, result, front, source, size, lengths):
    """Add front · source × weights, the matches of both in one element, to the scratch element.

    `result` is a pool of one element, with room for the words of a quantity, and an element, after
    it. `front` 0 is the vector with one match at index 0. `lengths` has how many of the source's
    elements may have matches, and how many may have sums of integers. Neither has a load.
    """
    length = lengths[0]
    if lanes.words > 1:
        words = pool.words
        _add_product_of_integers(words, lanes, weights, result.words, front, source, size, lengths)
        if lanes.words > lanes.floats:
            _add_product_of_floats(pool, lanes, weights, result, front, source, size, length)
            _add_product_of_leasts(pool, lanes, weights, result, front, source, size, length)
    elif front:
        words, elements = pool.words, np.uint64(length)
        result.words[0] += _multiply_counts(words, np.uint64(front), np.uint64(source), elements)
    else:
        result.words[0] += pool.words[source]


@apart
def _add_product_of_integers(words, lanes, weights, result, front, source, size, lengths):
    moduli, residues, length = lanes.moduli, len(lanes.moduli.primes), lengths[0]
    counts = lanes.words + len(lanes.primes)
    for lane in range(residues):
        result[counts + lane] = 0 if front else words[source + lane]
    if front:
        _add_dots(words, lanes, result, counts, (front, source, length), (front, source, 0))
    for lane in range(residues):
        prime, inverse = moduli.primes[lane], moduli.inverses[lane]
        result[lane] = reduce_integer(result[lane] + result[counts + lane], prime, inverse)
    for q in range(len(weights.sums)):
        to, at = (1 + q) * residues, (1 + q) * size * residues
        for lane in range(residues):
            prime, inverse = moduli.primes[lane], moduli.inverses[lane]
            if front == 0:
                result[to + lane] += words[source + at + lane]
            if weights.sums[q] != 0:
                rest = reduce_integer(weights.sums[q], prime, inverse)
                result[to + lane] += multiply(result[counts + lane], rest, prime, inverse)
            result[to + lane] = reduce_integer(result[to + lane], prime, inverse)
        if front:
            runs, others = (front + at, source, length), (front, source + at, lengths[1])
            _add_dots(words, lanes, result, to, runs, others)


@inlined
def _add_dots(words, lanes, result, to, runs, others):
    """Add the sums of products of two runs of numbers, and of two others, in each residue.

    `runs` has the offsets of both and their length; the others are not longer.
    """
    primes, inverses, moduli = lanes.primes, lanes.inverses, lanes.moduli
    residues, room, length = len(moduli.primes), np.uint64(lanes.words), runs[2]
    one, two = np.uint64(runs[0]), np.uint64(runs[1])
    three, four = np.uint64(others[0]), np.uint64(others[1])
    if residues == 1:
        result[to] += _multiply_counts(words, one, two, np.uint64(length))
        result[to] += _multiply_counts(words, three, four, np.uint64(others[2]))
        return
    for r in range(np.uint64(length * residues)):
        result[room + r] = multiply(words[one + r], words[two + r], primes[r], inverses[r])
    for r in range(np.uint64(others[2] * residues)):
        result[room + r] += multiply(words[three + r], words[four + r], primes[r], inverses[r])
    is_long = 4 * length > MOST_LOAD
    while length > 1:  # add the second half to the first
        half = length // 2
        rest, number = np.uint64((length - half) * residues), np.uint64(half * residues)
        for r in range(number):
            result[room + r] += result[room + rest + r]
        if is_long:
            for r in range(number):
                result[room + r] = reduce_integer(result[room + r], primes[r], inverses[r])
        length -= half
    for lane in range(residues):
        total = result[to + lane] + result[lanes.words + lane]
        result[to + lane] = reduce_integer(total, moduli.primes[lane], moduli.inverses[lane])


@inlined
def _multiply_counts(words, left, right, size):
    total = np.int64(0)
    for r in range(size):
        total += words[left + r] * words[right + r]
    return total


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
    residues, digits, quantities = scratch[0], scratch[1], new_lanes.quantities
    for r in range(quantities * size if moved else 0):
        first, to_first = at + r * before, to + r * after
        for lane in range(before):
            residues[lane] = old.words[first + lane]
        extend(old_lanes.moduli, new_lanes.moduli, residues, digits)
        for lane in range(after):
            new.words[to_first + lane] = residues[lane]
