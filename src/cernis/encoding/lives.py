"""Lives of partitions: FORGET AFTER gives a key that was idle for too long a new code.

A *life* of a partition is a run of its events without a gap longer than the duration. Codes count
lives, so that a life is a partition of its own to everything that reads them: nothing continues
what an earlier life had, and positions count from 0. Without PARTITION BY the whole stream is one
key.

Cost: one comparison per event on top of the codes of keys. Memory: 16 bytes a key.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cernis.compiled import kernel, read_only
from cernis.encoding.keys import KeyCoder
from cernis.events.batch import EventBatch, Int64s
from cernis.state import (
    Sizes,
    Tree,
    array,
    check_mapping,
    frozen_record,
    number,
    optional,
    part,
    read,
    require,
    write,
)

_LONGEST = 2**64 - 1
_EARLIEST = -(2**63)


@frozen_record
class FrozenLives:
    """The lives of partitions, the last event of each key, and the time of the stream."""

    count: int = number(0, "most+1")
    now: int = number()
    last: Int64s = array(np.int64, "partitions")
    life: Int64s = array(np.int64, "partitions", low=-1, below="count")
    keys: Tree | None = optional(part())

    def check(self, sizes: Sizes) -> None:
        alive = self.life[self.life >= 0]
        require(len(np.unique(alive)) == len(alive), "a partition has no life of its own")


class LifeCoder:
    """A numbering of the lives of partitions.

    >>> import pyarrow as pa
    >>> from dataclasses import replace
    >>> coder = LifeCoder([["k"]])
    >>> events = pa.table({"type": ["A"] * 4, "k": ["x", "y", "y", "x"], "ts": [0, 1, 6, 7]})
    >>> batch = replace(EventBatch.of(events), time=events["ts"].to_numpy())
    >>> coder.encode(batch, 5).tolist(), coder.find_alive().tolist()
    ([0, 1, 1, 2], [1, 2])
    """

    def __init__(self, groups: Sequence[Sequence[str]]) -> None:
        self._keys = KeyCoder(groups) if groups else None
        self._count = 0
        self._now = 0
        self._ticks = np.uint64(_LONGEST)
        self._last = np.empty(0, np.int64)
        """Per key, the time of its last event."""
        self._life = np.empty(0, np.int64)
        """Per key, the code of its life; -1 before its first event."""

    def __len__(self) -> int:
        """Return how many lives there have been."""
        return self._count

    def encode(self, batch: EventBatch, ticks: int) -> Int64s:
        """Return a code per event, or -1; a gap longer than so many ticks ends a life."""
        assert batch.time is not None
        if self._keys is None:
            keys = np.zeros(len(batch), np.int64)
        else:
            keys = self._keys.encode(batch)
        self._ticks = np.uint64(min(ticks, _LONGEST))
        self._reserve(1 if self._keys is None else len(self._keys))
        codes = np.empty(len(keys), np.int64)
        self._count = _number_lives(
            keys, read_only(batch.time), self._ticks, self._last, self._life, self._count, codes
        )
        if len(batch):
            self._now = int(batch.time[-1])
        return codes

    def _reserve(self, keys: int) -> None:
        more = keys - len(self._life)
        if more > 0:
            more = max(more, len(self._life))
            self._last = np.concatenate([self._last, np.zeros(more, np.int64)])
            self._life = np.concatenate([self._life, np.full(more, -1, np.int64)])

    def find_alive(self) -> Int64s:
        """Return the lives that an event to come can continue, ascending."""
        idle = np.int64(self._now).astype(np.uint64) - self._last.astype(np.uint64)
        return np.sort(self._life[(self._life >= 0) & (idle <= self._ticks)])

    def advance(self, time: int) -> None:
        """Note that no event before a time comes."""
        self._now = max(self._now, time)

    def find_last(self, lives: Int64s) -> Int64s:
        """Return the time of the last event of each life; the least one if it is over."""
        order = np.argsort(self._life, kind="stable")
        rank = np.searchsorted(self._life, lives, sorter=order)
        keys = order[np.minimum(rank, len(order) - 1)]
        return np.where(self._life[keys] == lives, self._last[keys], _EARLIEST)

    def keep_only(self, lives: Int64s) -> None:
        """Forget all lives but these (ascending); lives[i] becomes i, and new lives follow."""
        keys = np.flatnonzero(np.isin(self._life, lives))
        if self._keys is not None:
            self._keys.keep_only(keys)
            self._last, self._life = self._last[keys], self._life[keys]
        elif not len(keys):
            self._life[:] = -1
        self._life = np.where(self._life < 0, -1, np.searchsorted(lives, self._life))
        self._count = len(lives)

    def freeze(self) -> Tree:
        """Return the state."""
        keys = 1 if self._keys is None else len(self._keys)
        self._reserve(keys)
        known = None if self._keys is None else self._keys.freeze()
        last, life = self._last[:keys], self._life[:keys]
        return write(FrozenLives(self._count, self._now, last, life, known))

    def thaw(self, tree: Tree, ended: int = 0) -> None:
        """Restore the state that `freeze` returned; at most so many lives have ended."""
        if self._keys is not None:
            self._keys.thaw(check_mapping(tree.get("keys"), "'keys'"))
        keys = 1 if self._keys is None else len(self._keys)
        frozen = read(FrozenLives, tree, partitions=keys, most=keys + ended)
        self._count, self._now = frozen.count, frozen.now
        self._last, self._life = frozen.last, frozen.life


@kernel
def _number_lives(
    keys: Int64s,
    times: Int64s,
    ticks: np.uint64,
    last: Int64s,
    life: Int64s,
    count: int,
    codes: Int64s,
) -> int:
    """Write the life of each event; return the number of lives."""
    for i in range(len(keys)):
        key = keys[i]
        if key < 0:
            codes[i] = -1
            continue
        idle = np.uint64(times[i]) - np.uint64(last[key])
        if life[key] < 0 or idle > ticks:
            life[key] = count
            count += 1
        last[key] = times[i]
        codes[i] = life[key]
    return count
