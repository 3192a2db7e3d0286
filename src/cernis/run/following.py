"""`WITHOUT ψ FOR d`: matches wait until their deadline, unless an occurrence of ψ removes them.

Matches that end in a batch are held (`held`), and queue with a deadline each (`engine.deadlines`).
The guard reads the same batch. An occurrence that starts at s removes the matches of its bucket
that ended before s: those of its partition, or those with equal values where the two are compared.
Residual conditions are checked on each pair. What is left when time has passed its deadline is
certain.

Time passes with the events of the whole input, of any partition, or with `advance`. Where the
deadline counts events, those of the partition count.

Cost contract: the guard's plan per event, and amortized O(1) for each match and each occurrence;
nothing is scanned. With residual conditions, each occurrence looks at what waits in its bucket,
within the budget. State: what waits, with the events that it reaches back to.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import floor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.encoding.clock import Clock
from cernis.encoding.encode import Encode
from cernis.encoding.keys import select_arrays
from cernis.encoding.ranks import PartitionRanks
from cernis.engine.deadlines import NO_OCCURRENCES, Arrivals, Certain, Deadlines, Occurrences
from cernis.events.batch import EventBatch
from cernis.events.order import Scale
from cernis.events.store import EventStore
from cernis.pattern.query import Absence, Unit
from cernis.plan.absence import link_guard
from cernis.plan.plan import Plan
from cernis.results.matchset import MatchBlock, join
from cernis.run.budget import Budget
from cernis.run.guard import GuardRun, LinkCodes
from cernis.run.held import Held, HeldMatches, ends_of, freeze_block, keys_of, thaw_block
from cernis.run.pairs import ListedOne, PairCheck
from cernis.state import MOST_EVENTS, check_mapping, is_inside, read_array, require

Numbers = NDArray[np.int64]
Arrays = dict[str, NDArray[Any]]

CLAUSE = "WITHOUT … FOR"
_LONGEST = 2**62
_LAST = 2**63 - 1
_FORGET_CODES = 1 << 16
_SHRINK = 1 << 16


class CertainMatches(NamedTuple):
    """Matches whose deadline has passed, in the order of ends."""

    held: list[Held]
    ends: Numbers
    """Their ends, in the order in which they became certain."""
    moments: Numbers
    """For each of `ends`, the position of the event at the deadline, where it counts events."""


class Following:
    """The matches of one stream that wait."""

    def __init__(
        self,
        plan: Plan,
        absence: Absence,
        variables: tuple[str, ...],
        store: EventStore,
        budget: Budget,
        encode: Encode,
    ) -> None:
        """`variables` are those of the matches that are held."""
        assert plan.after is not None
        self.within = absence.within
        self.counts_events = absence.within.unit is Unit.EVENTS
        self.partitioned = plan.settings.partitioned
        self.links = link_guard(plan.pattern, absence)
        self.lists = plan.lists_waiting
        self.variables = variables
        listed = bool(self.links.equal) or bool(self.links.residual)
        self.guard = GuardRun(plan.after, store, budget, encode, lists=listed)
        self.codes = (
            LinkCodes(self.links, partitioned=self.partitioned) if self.links.equal else None
        )
        self.pairs = PairCheck(self.links, store, budget, encode) if self.links.residual else None
        self.ranks = PartitionRanks() if self.counts_events and self.partitioned else None
        self.waiting = Deadlines()
        self.held = HeldMatches()
        self._shrink_at = _SHRINK

    # ------------------------------------------------------------- reading

    def take(
        self,
        batch: EventBatch,
        keys: Numbers | None,
        scale: Scale,
        ended: list[Held],
        reach: int,
    ) -> CertainMatches:
        """Read a batch, in which these matches end; return those that are certain now.

        `reach` is the first position that they reach back to.
        """
        if not len(batch):
            return self._release(self.waiting.pass_time(*_NO_TIME))
        size = self._read_size(scale)
        clock = self._read_clock(batch, keys)
        block, occurrences = self._find_occurrences(batch, keys, clock)
        parts = [self._hold(held, batch, keys, clock, size, reach) for held in ended]
        arrivals = Arrivals(*np.concatenate([np.empty((5, 0), np.int64), *parts], axis=1))
        if self.pairs is None:
            self.waiting.meet(arrivals, occurrences)
        else:
            self.waiting.meet(arrivals, NO_OCCURRENCES)
            self.pairs.events.note(batch)
            self._check_pairs(self.pairs, block, occurrences)
        if self.ranks is not None:
            assert keys is not None
            certain = self.waiting.pass_time(keys, clock, batch.base)
        else:
            certain = self.waiting.pass_time(_ONE_LINE, clock[-1:])
        return self._release(certain)

    def advance(self, time: int) -> CertainMatches:
        """Return the matches that are certain now that no event before this time comes.

        The time counts ticks of the stream's own times.
        """
        if self.counts_events:
            return self._release(self.waiting.pass_time(*_NO_TIME))
        return self._release(self.waiting.pass_time(_ONE_LINE, np.array([time], np.int64)))

    @property
    def next_deadline(self) -> int | None:
        """The next time, in ticks, that makes matches certain when it has passed."""
        return None if self.counts_events else self.waiting.first_deadline()

    def finish(self) -> CertainMatches:
        """Return all matches that wait: the input is complete."""
        position = self.guard.feed.engine.position
        found = self._release(self.waiting.take_all())
        return found._replace(moments=np.where(found.moments < position, found.moments, -1))

    def _read_size(self, scale: Scale) -> int:
        if self.counts_events:
            return min(floor(self.within.size), _LONGEST)
        return min(scale.ticks(self.within.size, CLAUSE), _LONGEST)

    def _read_clock(self, batch: EventBatch, keys: Numbers | None) -> Numbers:
        """Return the reading of each event in which deadlines are measured."""
        if self.ranks is not None:
            assert keys is not None
            return self.ranks.read(keys)
        if self.counts_events:
            return np.arange(batch.base, batch.base + len(batch), dtype=np.int64)
        assert batch.time is not None
        return batch.time

    def _find_occurrences(
        self, batch: EventBatch, keys: Numbers | None, clock: Numbers
    ) -> tuple[MatchBlock, Occurrences]:
        """Let the guard read the batch; return its occurrences with their buckets.

        The block has the occurrences, if they are listed. Only what starts after an end that
        waits, or that comes in the batch, can matter.
        """
        oldest = self.waiting.first_end()
        bound = batch.base if oldest is None else oldest
        positions = np.arange(batch.base, batch.base + len(batch), dtype=np.int64)
        window = Clock(positions, np.full(len(batch), bound + 1, np.int64))
        if self.codes is not None:
            self.codes.note(batch, keys)
        segments = self.guard.take(batch, keys, window)
        if not self.guard.lists:
            found = self.guard.find_ends(segments)
            clocks = clock[found.end - batch.base]
            return NO_BLOCK, Occurrences(found.end, found.start, found.key, clocks)
        block = self.guard.list_all(segments)
        at = block.end - batch.base
        bucket = np.zeros(len(at), np.int64) if keys is None else keys[at]
        if self.codes is not None:
            variable = self.guard.plan.variables.index(self.codes.inside)
            bucket = self.codes.read_inside(block.positions[variable])
        return block, Occurrences(block.end, block.start, bucket, clock[at])

    def _check_pairs(self, pairs: PairCheck, block: MatchBlock, occurrences: Occurrences) -> None:
        """Remove what waits and meets an occurrence; all that waits once the budget is spent."""
        names = self.guard.plan.variables
        starts, buckets = occurrences.start.tolist(), occurrences.bucket.tolist()
        for i, clock in enumerate(occurrences.clock.tolist()):
            removed = []
            for number in self.waiting.find(buckets[i], starts[i], clock).tolist():
                held, at = self.held.find(number)
                if pairs.holds(ListedOne(held, self.variables, at), ListedOne(block, names, i)):
                    removed.append(number)
                if pairs.budget.spent:  # what is not checked is not certain
                    self.waiting.remove(self.waiting.payloads())
                    return
            self.waiting.remove(np.array(removed, np.int64))

    def _hold(
        self,
        held: Held,
        batch: EventBatch,
        keys: Numbers | None,
        clock: Numbers,
        size: int,
        reach: int,
    ) -> Numbers:
        """Hold matches; return end, deadline, bucket, line and number of each as rows."""
        ends = np.asarray(ends_of(held), np.int64)
        at = ends - batch.base
        if isinstance(held, MatchBlock):
            bucket = np.zeros(len(at), np.int64) if keys is None else keys[at]
            reach = int(held.start.min(initial=_LAST))
        else:
            bucket = keys_of(held)
        line = np.zeros(len(at), np.int64) if self.ranks is None else bucket
        if self.codes is not None:
            variable = self.variables.index(self.codes.outside)
            bucket = self.codes.read_outside(held.positions[variable])
        read = clock[at]
        deadline = np.where(read > _LAST - size, _LAST, read + size)
        return np.stack([ends, deadline, bucket, line, self.held.add(held, reach)])

    def _release(self, certain: Certain) -> CertainMatches:
        moments = certain.moment
        if self.counts_events and self.ranks is None and len(moments):
            moments = certain.end + min(floor(self.within.size), _LONGEST)
        found = CertainMatches(self.held.select(np.sort(certain.payload)), certain.end, moments)
        if len(self.held) > self._shrink_at:
            self.shrink()
            self._shrink_at = 2 * len(self.held) + _SHRINK
        return found

    # ----------------------------------------------------------- forgetting

    def shrink(self) -> None:
        """Drop the matches that wait no more."""
        self.waiting.rename(payloads=self.held.keep_only(self.waiting.payloads()))

    def earliest(self, position: int) -> int:
        """Return the first position that a match or an occurrence to come reaches back to."""
        self.shrink()
        return self.guard.earliest(min(position, self.held.reach(position)))

    def forget_before(self, position: int) -> None:
        self.guard.forget_before(position)
        if self.pairs is not None:
            self.pairs.events.forget_before(position)
        if self.codes is None:
            return
        self.codes.forget_before(position)
        live = self.waiting.buckets()
        if self.codes.size > 4 * len(live) + _FORGET_CODES:
            self.waiting.rename(buckets=self.codes.keep_only(live))

    def live_keys(self) -> Numbers:
        """Return the partitions in which something waits, ascending."""
        of_guard = self.guard.live_keys()
        if self.ranks is not None:
            return np.union1d(of_guard, self.waiting.lines())
        if self.codes is not None:
            return of_guard
        return np.union1d(of_guard, self.waiting.buckets())

    def drop_keys(self, keys: Numbers) -> None:
        """Drop what the guard has in all partitions but these, in which no event comes."""
        self.guard.drop_keys(keys)

    def keep_keys(self, keys: Numbers) -> None:
        """Renumber partitions: keys[i] becomes i; in the others no event comes."""
        self.guard.keep_keys(keys)
        if self.codes is not None:
            self.codes.keep_keys(keys)
        self.waiting.rename(
            buckets=keys if self.codes is None else None,
            lines=keys if self.ranks is not None else None,
        )
        if self.ranks is not None:
            self.ranks.keep_only(keys)

    # --------------------------------------------------------------- frozen

    def freeze(self, list_held: Any) -> tuple[dict[str, Any], Arrays]:
        """Return the state; `list_held` lists the matches of a compact set."""
        self._list_all(list_held)
        meta, arrays = self.guard.freeze()
        frozen = {f"guard.{name}": array for name, array in arrays.items()}
        frozen |= {f"waiting.{name}": array for name, array in self.waiting.freeze().items()}
        block = join(tuple(self.held.batches()), len(self.variables))
        frozen |= {f"held.{name}": array for name, array in freeze_block(block).items()}
        if self.codes is not None:
            frozen |= {f"codes.{name}": array for name, array in self.codes.freeze().items()}
        if self.ranks is not None:
            frozen["ranks"] = self.ranks.counts
        return {"guard": meta}, frozen

    def _list_all(self, list_held: Any) -> None:
        """List what is held as compact sets: each match waits for itself from now on."""
        self.shrink()
        blocks, counts = [], [np.empty(0, np.int64)]
        for held in self.held.batches():
            ends = ends_of(held)
            if isinstance(held, MatchBlock):
                blocks.append(held)
                counts.append(np.ones(len(ends), np.int64))
                continue
            block = list_held(held)
            blocks.append(block)
            # an end has the matches of all its roots; the first of them stands for all
            first = np.searchsorted(ends, ends)
            number = np.searchsorted(block.end, ends, "right") - np.searchsorted(block.end, ends)
            counts.append(np.where(first == np.arange(len(ends)), number, 0))
        reach = self.held.reach(_LAST)
        self.held = HeldMatches()
        numbers = self.held.add(join(tuple(blocks), len(self.variables)), reach)
        self.waiting.repeat(np.concatenate(counts), numbers)

    def thaw(
        self, meta: object, arrays: Mapping[str, NDArray[Any]], position: int, keys: int
    ) -> None:
        """Restore what `freeze` returned; there are so many events before, and partitions."""
        written = check_mapping(meta, "'after'")
        self.guard.thaw(written.get("guard"), select_arrays("guard.", arrays))
        require(self.guard.feed.engine.position == position, "a guard has read other events")
        own = dict(arrays)
        if self.codes is not None:
            self.codes.thaw(select_arrays("codes.", arrays), position)
        if self.ranks is not None:
            counts = read_array(own, "ranks", np.int64, low=0, below=MOST_EVENTS)
            require(len(counts) >= keys, "a partition has no number of events")
            self.ranks.counts = counts.copy()
        block = thaw_block(select_arrays("held.", arrays), len(self.variables), position)
        waiting: Arrays = {}
        for name in ("end", "deadline", "bucket", "line", "moment", "payload"):
            waiting[name] = read_array(own, f"waiting.{name}", np.int64, (len(block.end),))
        most = keys if self.partitioned else 1
        buckets = most if self.codes is None else self.codes.size
        require(
            np.array_equal(waiting["end"], block.end)
            and np.array_equal(waiting["payload"], np.arange(len(block.end)))
            and is_inside(waiting["bucket"], -1, max(1, buckets))
            and is_inside(waiting["line"], -1, max(1, most if self.ranks is not None else 1))
            and is_inside(waiting["moment"], -1, position),
            "what waits is not what is held",
        )
        self.held.add(block, int(block.start.min(initial=_LAST)))
        self.waiting.thaw(waiting)


_ONE_LINE = np.zeros(1, np.int64)
NO_BLOCK = MatchBlock(np.empty(0, np.int64), np.empty(0, np.int64), (), ())
_NO_TIME = np.empty(0, np.int64), np.empty(0, np.int64)
