"""Choose the numbers of buckets, so that Spark spreads them evenly over its partitions.

Spark assigns a key to a partition by its hash, and the keys of a stream's state are the numbers of
buckets: 0, 1, 2, 3 would share two of four partitions as likely as not. So buckets have other
numbers, chosen by Spark's own hash. It is written here because asking Spark takes a job before the
first micro-batch; a test compares the two.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def choose_balanced(number: int, partitions: int) -> tuple[int, ...]:
    """Return so many numbers that Spark's hash spreads evenly over its partitions.

    >>> buckets = choose_balanced(4, 2)
    >>> sorted((hash_integers(np.array(buckets)) % 2).tolist())
    [0, 0, 1, 1]
    """
    if number == 1:
        return (0,)
    partition_of = hash_integers(np.arange(64 * max(number, partitions))) % partitions
    found: dict[int, list[int]] = {}
    for number_, partition in enumerate(partition_of.tolist()):
        found.setdefault(partition, []).append(number_)
    rounds = [found.get(i % partitions, []) for i in range(number)]
    taken = [ids.pop(0) for ids in rounds if ids]
    spare = (number_ for ids in found.values() for number_ in ids)
    while len(taken) < number:
        taken.append(next(spare))
    return tuple(taken)


def hash_integers(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return Spark's `hash` of integers of 32 bits, by which it chooses the partition of a key.

    It is Murmur3 with the seed 42.
    """

    def turn(words: NDArray[np.uint32], by: int) -> NDArray[np.uint32]:
        return (words << np.uint32(by)) | (words >> np.uint32(32 - by))

    words = numbers.astype(np.uint32) * np.uint32(0xCC9E2D51)
    words = turn(words, 15) * np.uint32(0x1B873593)
    words = turn(words ^ np.uint32(42), 13) * np.uint32(5) + np.uint32(0xE6546B64)
    words ^= np.uint32(4)  # the length, in bytes
    words = (words ^ (words >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    words = (words ^ (words >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return (words ^ (words >> np.uint32(16))).view(np.int32).astype(np.int64)
