"""Turn integers of the sliding aggregator into floats, once a batch brings fractions.

Each number becomes the nearest float, so a sum is exact until then. What a measure has of whole
numbers alone stays: how many pairs there are, and how many matches.

Cost contract: NumPy, linear in what lies inside the window, once for each measure and session.
Numbers beyond 64 bits take Python each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.engine.residues import read_residues
from cernis.engine.unary.aggregate import (
    Measure,
    SlidingAggregator,
    decode_least,
    encode_least,
)
from cernis.engine.unary.semiring import NO_VALUE, Lanes, Weights, new_pool
from cernis.engine.unary.stacks import LOGGED, WORDS, SlidingMemory
from cernis.engine.words import Integers, is_zero, to_floats

Words = NDArray[np.int64]


def make_real(old: SlidingAggregator, new: SlidingAggregator) -> None:
    """Let a fresh aggregator go on from another one, some of whose measures were no floats."""
    old.collect()
    change = _Change.between(old.measures, new.measures)
    lanes = new.new_lanes(old.residues)
    memory = _convert_vectors(old.memory, old.lanes, lanes, change)
    logged = int(memory.counters[LOGGED])
    weights = _convert_weights(memory.log_weights, logged, change)
    new.position, new.bound = old.position, old.bound
    new.restore(memory._replace(log=memory.log[:logged], log_weights=weights), lanes)


class _Quantity(NamedTuple):
    """A sum of floats or a least value, and where it comes from."""

    source: int
    """Its index among the quantities of its kind, or among sums of integers."""
    was_real: bool
    is_real: bool
    pairs: int
    """The number of pairs, among the sums of integers."""
    negated: bool = False


class _Change(NamedTuple):
    kept: list[int]
    """The sums of integers that stay."""
    floats: list[_Quantity]
    leasts: list[_Quantity]

    @staticmethod
    def between(old: Sequence[Measure], new: Sequence[Measure]) -> _Change:
        change = _Change([], [], [])
        integers = floats = 0
        for before, after in zip(old, new, strict=True):
            pairs, integers = integers, integers + 1
            reals = before.is_real, after.is_real
            change.kept.append(pairs)
            if before.total:
                source = floats if before.is_real else integers
                if after.is_real:
                    change.floats.append(_Quantity(source, *reals, pairs))
                else:
                    change.kept.append(source)
                floats, integers = floats + before.is_real, integers + (not before.is_real)
            for negated in [False] * before.least + [True] * before.greatest:
                change.leasts.append(_Quantity(len(change.leasts), *reals, pairs, negated))
        return change


def _convert_weights(weights: Weights, logged: int, change: _Change) -> Weights:
    """Return the values of so many events in the log."""
    sums = weights.sums[:logged]
    floats = np.empty((logged, len(change.floats)))
    leasts = np.empty((logged, len(change.leasts)), np.int64)
    for column, each in enumerate(change.floats):
        values = weights.floats[:logged] if each.was_real else sums
        floats[:, column] = values[:, each.source]
    for column, each in enumerate(change.leasts):
        codes = weights.leasts[:logged, each.source]
        leasts[:, column] = _convert_codes(codes, sums[:, each.pairs] == 0, each)
    return Weights(np.ascontiguousarray(sums[:, change.kept]), floats, leasts)


def _convert_vectors(
    memory: SlidingMemory, old: Lanes, new: Lanes, change: _Change
) -> SlidingMemory:
    """Return the vectors of all partitions, and the rows of their fronts, in a new pool."""
    rows, words = memory.rows, memory.pool.words
    size = rows["size"]
    owner, state = np.nonzero(memory.offsets)
    at = memory.offsets[owner, state]
    ends = np.cumsum(new.header + new.words * size[owner])
    to = 1 + ends - new.words * size[owner]
    in_front = np.repeat(np.arange(len(rows)), rows["fronts"])
    rank = np.arange(len(in_front)) - np.searchsorted(in_front, in_front)
    front = rows["front"][in_front] + rank * (1 + (old.words + old.ranks) * size[in_front])
    strides = 1 + (new.words + new.ranks) * size[in_front]
    used = 1 + (int(ends[-1]) if len(ends) else 0)
    front_to = used + np.cumsum(strides) - strides
    used += int(strides.sum())
    pool = new_pool(used)
    bounds = [0, *(1 + column for column in change.kept)]
    bounds += [old.quantities + column for column in bounds]
    pool.words[(to - new.header)[:, None] + np.arange(new.header)] = words[
        (at - old.header)[:, None] + np.array(bounds)
    ]
    pool.words[front_to] = words[front]
    vectors = np.concatenate([at, front + 1]), np.concatenate([to, front_to + 1])
    sizes = np.concatenate([size[owner], size[in_front]])
    for number in np.unique(sizes).tolist():
        source, target = (each[sizes == number][:, None] for each in vectors)
        found = words[source + np.arange(old.words * number)]
        converted = np.concatenate([*_convert_elements(found, number, old, change)], axis=1)
        pool.words[target + np.arange(new.words * number)] = converted
        if new.ranks:
            here, ranks = size[in_front] == number, 1 + np.arange(number)
            source = front[here][:, None] + old.words * number + ranks
            target = front_to[here][:, None] + new.words * number + ranks
            pool.words[target] = words[source]
    offsets, counters, moved = memory.offsets.copy(), memory.counters.copy(), rows.copy()
    offsets[owner, state] = to
    counters[WORDS] = used
    moved["front"][in_front[rank == 0]] = front_to[rank == 0]
    return memory._replace(pool=pool, offsets=offsets, counters=counters, rows=moved)


def _convert_elements(words: Words, size: int, old: Lanes, change: _Change) -> Iterator[Words]:
    """Yield the words of some vectors of this size, quantity by quantity."""
    residues = len(old.moduli.primes)
    integers = words[:, : old.floats * size].reshape(len(words), old.quantities, size, residues)
    rest = words[:, old.floats * size :].reshape(len(words), -1, size)
    shape = len(words), size

    def read(quantity: int) -> Integers:
        """Return the numbers of a quantity, those of one vector after those of another."""
        found = integers[:, quantity].reshape(-1, residues)
        for lane in np.flatnonzero(old.moduli.primes):
            found[:, lane] %= old.moduli.primes[lane]
        return read_residues(found, old.moduli)

    def read_floats(quantity: int) -> Words:
        return to_floats(read(quantity)).view(np.int64).reshape(shape)

    yield integers[:, [0, *(1 + column for column in change.kept)]].reshape(len(words), -1)
    has_floats = old.leasts > old.floats
    if change.floats:
        yield rest[:, 0] if has_floats else read_floats(0)
    for each in change.floats:
        yield rest[:, 1 + each.source] if each.was_real else read_floats(1 + each.source)
    codes = rest[:, old.leasts - old.floats :]
    if change.leasts:
        yield codes[:, 0]
    for each in change.leasts:
        empty = is_zero(read(1 + each.pairs)).reshape(shape)
        yield _convert_codes(codes[:, 1 + each.source], empty, each)


def _convert_codes(codes: Words, empty: NDArray[np.bool_], quantity: _Quantity) -> Words:
    """Return the codes of least values, which are floats from now on; `empty` have none."""
    if quantity.was_real == quantity.is_real:
        return codes
    values = decode_least(codes, False, negated=quantity.negated).astype(np.float64)
    found = encode_least(values, True, negated=quantity.negated)
    return np.where(empty, NO_VALUE, found)
