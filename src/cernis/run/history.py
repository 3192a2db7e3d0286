"""What a session keeps to be asked again: the matches so far, inside the window that ends now.

Pull mode of the dynamic evaluation paper: the answer is not written down but kept as it
was found: roots of compact sets wherever there are such, matches one by one where they
were listed, or chosen by a strategy inside a window. What has left the window is let go
of, so that it grows with the answer and not with the stream.

"Now" is the last event read. A window of events is counted inside a partition, so there
it is the last event of that partition; so it is for a window over an attribute. A match
is inside when it starts at or after the *horizon* of its partition. Roots have a bound
already, the start of the window at their own end: pulling raises it. Engines count
events from where a partition came to life, so for windows of events the bound is moved
by as many events as the partition has had since.

The window is what a query says with WITHIN. A condition such as `t3 - t1 < 5` is true of a
match for ever, though an engine may use it as a window.

Cost contract: per batch, some NumPy passes over its events (none without a window); per
pull, one pass over the roots kept. Whether they have left is looked at whenever their
number has doubled.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.encoding.clock import Clock
from cernis.engine.correlated.enumerate import Snapshot
from cernis.engine.unary import step as update
from cernis.engine.unary.arena import FOREVER
from cernis.engine.unary.runtime import Segment
from cernis.events.batch import EventBatch
from cernis.plan.plan import Plan
from cernis.results.matchset import ListedMatches, MatchBlock, MatchSet, take

Numbers = NDArray[np.int64]

_TRIM_EVERY = 1 << 16


class _Readings(NamedTuple):
    """What the window measures, for the events of a batch: a rank or a clock."""

    base: int
    keys: Numbers
    values: Numbers


class _Roots(NamedTuple):
    """A compact set, and for each root the reading of its last event."""

    taken: Segment | Snapshot
    readings: Numbers

    @property
    def starts(self) -> Numbers:
        """The latest start of each root, in the engine's own count."""
        taken = self.taken
        if isinstance(taken, Snapshot):
            return np.asarray(taken.memory.vertices["start"][taken.roots["vertex"]], np.int64)
        return np.asarray(taken.arena["start"][taken.roots["node"]], np.int64)


class _Listed(NamedTuple):
    """Matches one by one, each with its partition and the reading of its first event."""

    block: MatchBlock
    keys: Numbers
    starts: Numbers


class MatchHistory:
    """The matches found so far that are inside the window."""

    def __init__(self, plan: Plan) -> None:
        self.window = plan.settings.window if plan.within is not None else update.NO_WINDOW
        self.size = plan.settings.size
        self.partitioned = plan.settings.partitioned
        self.shared = plan.settings.shared_clock
        apart = plan.tables is not None and bool(plan.tables.apart)
        resolved = bool(plan.settings.resolve) and self.window != update.NO_WINDOW
        self.lists = plan.listed or apart or resolved
        """Whether matches are kept one by one: they are checked so, or a strategy has chosen
        them, whose roots do not know the window any more."""
        self.moves = self.partitioned and self.window == update.EVENT_WINDOW
        self._readings: list[_Readings] = []
        self._counts = np.zeros(1, np.int64)
        self._bounds = np.full(1, FOREVER, np.int64)
        self._roots: list[_Roots] = []
        self._listed: list[_Listed] = []
        self._number = 0
        self._trim_at = _TRIM_EVERY

    # ------------------------------------------------------------- reading

    def note(self, batch: EventBatch, keys: Numbers | None, clock: Clock | None) -> None:
        """Remembers what the window measures of the events of a batch."""
        if self.window == update.NO_WINDOW or not len(batch):
            return
        own = np.zeros(len(batch), np.int64) if keys is None else keys
        self._reserve(int(own.max()) + 1)
        if clock is not None:
            self._pass(own, clock)
            values = clock.clock
        else:
            values = _ranks(own, self._counts)
            self._counts += np.bincount(own[own >= 0], minlength=len(self._counts))
        self._readings.append(_Readings(batch.base, own, values))

    def _pass(self, keys: Numbers, clock: Clock) -> None:
        usable = keys >= 0 if not self.shared else np.ones(len(keys), np.bool_)
        if clock.usable is not None:
            usable = usable & (clock.usable != 0)
        if not usable.any():
            return
        if self.shared:
            self._bounds[:] = clock.bound[usable][-1]
        else:
            self._bounds[keys[usable]] = clock.bound[usable]  # the last one of a key stays

    def _reserve(self, keys: int) -> None:
        more = keys - len(self._counts)
        if more > 0:
            more += len(self._counts)
            newest = self._bounds[0] if self.shared else FOREVER
            self._counts = np.concatenate([self._counts, np.zeros(more, np.int64)])
            self._bounds = np.concatenate([self._bounds, np.full(more, newest, np.int64)])

    def add(self, taken: Sequence[Segment | Snapshot], found: MatchSet) -> None:
        """Keeps what was found, as roots or one by one."""
        if self.lists:
            for block in found.blocks():
                keys, _ = self._read(block.end)
                _, starts = self._read(block.start)
                self._listed.append(_Listed(block, keys, starts))
                self._number += len(block.end)
        else:
            for one in taken:
                _, readings = self._read(one.roots["end"])
                self._roots.append(_Roots(one, readings))
                self._number += len(one.roots)
        if self._number >= self._trim_at:
            self.trim()
            self._trim_at = max(_TRIM_EVERY, 2 * self._number)

    def _read(self, positions: Numbers) -> tuple[Numbers, Numbers]:
        """The partition and the reading of events."""
        keys, values = np.zeros((2, len(positions)), np.int64)
        if self.window != update.NO_WINDOW:
            bases = [readings.base for readings in self._readings]
            batches = np.searchsorted(bases, positions, side="right") - 1
            for number in np.unique(batches):
                at = np.flatnonzero(batches == number)
                readings = self._readings[number]
                keys[at] = readings.keys[positions[at] - readings.base]
                values[at] = readings.values[positions[at] - readings.base]
        return keys, values

    # ------------------------------------------------------------- pulling

    def roots(self) -> list[Segment | Snapshot]:
        """The compact sets, bounded by the window that ends now."""
        self.trim()
        return [
            roots.taken._replace(roots=_bounded(roots.taken.roots, self._bound(roots)))
            for roots in self._roots
        ]

    def listed(self, variables: Sequence[str]) -> ListedMatches:
        """The matches one by one."""
        self.trim()
        return ListedMatches(variables, [listed.block for listed in self._listed])

    def trim(self) -> None:
        """Lets go of what has left the window."""
        if self.window == update.NO_WINDOW:
            return
        roots = (_inside(one, one.starts >= self._bound(one)) for one in self._roots)
        self._roots = [one for one in roots if len(one.taken.roots)]
        listed = (_chosen(one, one.starts >= self._horizon(one.keys)) for one in self._listed)
        self._listed = [one for one in listed if len(one.keys)]
        self._number = sum(len(one.readings) for one in self._roots)
        self._number += sum(len(one.keys) for one in self._listed)

    def _horizon(self, keys: Numbers) -> Numbers:
        """The least reading inside the window of each partition."""
        if self.window == update.EVENT_WINDOW:
            return np.asarray(self._counts[keys] - 1 - self.size, np.int64)
        return np.asarray(self._bounds[keys], np.int64)

    def _bound(self, roots: _Roots) -> Numbers:
        """The same in the engine's own count, for each root."""
        own = roots.taken.roots
        if self.window == update.NO_WINDOW:
            return np.asarray(own["bound"], np.int64)
        if self.moves:
            return np.asarray(own["bound"] + self._counts[own["key"]] - 1 - roots.readings)
        return np.asarray(np.maximum(own["bound"], self._horizon(own["key"])))

    # ----------------------------------------------------------- forgetting

    def earliest(self, position: int) -> int:
        """No match that is kept reaches back before this; `position` if there is none."""
        self.trim()
        if not self._number:
            return position
        if self.window == update.NO_WINDOW:
            return 0
        for readings in self._readings:
            there = readings.keys >= 0
            inside = there & (readings.values >= self._horizon(np.maximum(readings.keys, 0)))
            if inside.any():
                return min(position, readings.base + int(np.argmax(inside)))
        return position

    def forget_before(self, position: int) -> None:
        """No match to come reaches back before this position."""
        last = bisect_right(self._readings, position, key=lambda readings: readings.base) - 1
        del self._readings[: max(0, last)]

    def keys(self) -> Numbers:
        """The partitions that have matches, ascending."""
        found = [one.taken.roots["key"] for one in self._roots]
        found += [one.keys for one in self._listed]
        return np.unique(np.concatenate([np.empty(0, np.int64), *found]))

    def keep_keys(self, keys: Numbers) -> None:
        """Renumber partitions: keys[i] becomes i; the others have nothing alive."""
        number = np.full(len(self._counts), -1, np.int64)
        number[keys] = np.arange(len(keys))
        self._readings = [r._replace(keys=_renumbered(r.keys, number)) for r in self._readings]
        self._listed = [one._replace(keys=number[one.keys]) for one in self._listed]
        renumbered = []
        for one in self._roots:
            roots = one.taken.roots.copy()
            roots["key"] = number[roots["key"]]
            renumbered.append(one._replace(taken=one.taken._replace(roots=roots)))
        self._roots = renumbered
        newest = self._bounds[0]
        if len(keys):
            self._counts, self._bounds = self._counts[keys], self._bounds[keys]
        else:
            self._counts, self._bounds = np.zeros(1, np.int64), np.full(1, newest, np.int64)


def _ranks(keys: Numbers, counts: Numbers) -> Numbers:
    """The rank of each event in its partition, which has had so many before; -1 for none.

    >>> _ranks(np.array([1, 0, -1, 1]), np.array([5, 0]))
    array([ 0,  5, -1,  1])
    """
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    first = np.searchsorted(ordered, ordered)
    ranks = np.empty(len(keys), np.int64)
    ranks[order] = np.arange(len(keys)) - first + counts[ordered]
    return np.where(keys < 0, -1, ranks)


def _renumbered(keys: Numbers, number: Numbers) -> Numbers:
    return np.where(keys < 0, -1, number[keys])


def _bounded(roots: NDArray[Any], bound: Numbers) -> NDArray[Any]:
    raised = roots.copy()
    raised["bound"] = bound
    return raised


def _inside(one: _Roots, inside: NDArray[np.bool_]) -> _Roots:
    if inside.all():
        return one
    return _Roots(one.taken._replace(roots=one.taken.roots[inside]), one.readings[inside])


def _chosen(one: _Listed, inside: NDArray[np.bool_]) -> _Listed:
    if inside.all():
        return one
    kept = np.flatnonzero(inside)
    return _Listed(take(one.block, kept), one.keys[kept], one.starts[kept])
