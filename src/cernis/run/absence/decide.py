"""`Absences`: between finding matches and reporting them, decide `WITHOUT`.

    compact sets ─▶ hold or list ─ BEFORE ─▶ FOR: wait ─▶ certain matches ─▶ strategy, SELECT

Where all matches of one end share a fate, the strategy has chosen before: the engine's compact sets
wait as they are, or listed where they hold few matches. Otherwise valuations wait with all their
labels, and the strategy and SELECT are applied to those that are left (`plan.absence`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cernis.encoding.encode import Encode, Encoder
from cernis.encoding.keys import select_arrays
from cernis.engine.renumber import list_distinct
from cernis.engine.settings import NEVER
from cernis.events.batch import EventBatch
from cernis.events.order import Scale
from cernis.events.store import EventStore
from cernis.pattern.query import Strategy, Unit
from cernis.plan.plan import Plan
from cernis.results.deadline import DeadlineColumn
from cernis.results.matchset import ListedMatches, MatchBlock, MatchSet, join, take
from cernis.run.absence.following import CertainMatches, Following
from cernis.run.absence.preceding import Preceding
from cernis.run.budget import Budget
from cernis.run.choose import Candidate, choose, mark_variables, project
from cernis.run.feed import Feed
from cernis.run.sieve import Sieve, unpack
from cernis.run.waiting import Held
from cernis.state import check_mapping, read_array

Numbers = NDArray[np.int64]
Arrays = dict[str, NDArray[Any]]

_FEW = 16
"""Compact sets are listed to wait if they hold at most so many matches for each root."""


class Absences:
    """Decides WITHOUT for the matches of one pipeline."""

    def __init__(
        self, plan: Plan, sieve: Sieve | None, store: EventStore, budget: Budget, encode: Encode
    ) -> None:
        after, before = plan.pattern.absent_after, plan.pattern.absent_before
        self.plan = plan
        self.sieve = sieve
        self.budget = budget
        self.lists = plan.lists_waiting
        self.chooses = plan.chooses_late
        self.variables = sieve.labels if sieve and self.chooses else plan.variables
        self.limit = plan.limit if self.lists else None
        """LIMIT, where it comes after WITHOUT."""
        if sieve is not None and self.lists:
            sieve.limit = None
        self.after = None
        if after is not None:
            self.after = Following(plan, after, self.variables, store, budget, encode)
        self.before = None
        if before is not None:
            self.before = Preceding(plan, before, self.variables, store, budget, encode)
        self.keeps = False
        """Whether the deadlines of all matches are kept, for `pull`."""
        self.deadline = None if after is None else DeadlineColumn(after.within)

    def encoders(self) -> Iterator[Encoder]:
        """Yield the encoders of the guards."""
        for side in self._sides:
            yield side.guard.feed.encoder

    @property
    def _sides(self) -> tuple[Following | Preceding, ...]:
        return tuple(side for side in (self.after, self.before) if side is not None)

    def take(
        self,
        batch: EventBatch,
        keys: Numbers | None,
        scale: Scale,
        segments: list[Any],
        feed: Feed,
        reach: int,
    ) -> list[CertainMatches]:
        """Read a batch, in which these compact sets end; return the matches decided by it.

        `reach` is the first position that is still stored.
        """
        for side in self._sides:
            side.guard.feed.measure(scale)
        ended = self._list(segments, feed)
        if self.before is not None:
            block = join(ended, len(self.variables))
            block = self.before.take(batch, keys, scale, block)
            ended = [block] if len(block.end) else []
        if self.after is not None:
            return _if_any(self.after.take(batch, keys, scale, ended, reach))
        ends = [block.end - batch.base for block in ended]
        partitions = [np.zeros(len(at), np.int64) if keys is None else keys[at] for at in ends]
        nothing = np.empty(0, np.int64)
        held = np.concatenate([nothing, *partitions])
        return _if_any(CertainMatches(ended, held, nothing, nothing))

    def first_end(self) -> int | None:
        """Return the earliest end of a match that waits."""
        return None if self.after is None else self.after.deadlines.first_end()

    def first_moment(self) -> int | None:
        """Return the first event at the deadline of a match that waits, if it counts events."""
        return None if self.after is None else self.after.first_moment()

    @property
    def next_deadline(self) -> int | None:
        """The next time, in ticks, that makes matches certain when it has passed."""
        return None if self.after is None else self.after.next_deadline

    def finish(self) -> list[CertainMatches]:
        """Return the matches that wait: the input is complete."""
        return [] if self.after is None else _if_any(self.after.finish())

    def advance(self, time: int) -> list[CertainMatches]:
        """Return the matches that are certain once no event before this time can come."""
        return [] if self.after is None else _if_any(self.after.advance(time))

    def live_starts(self, keys: Numbers) -> Numbers:
        """Return where the earliest match that waits starts, in each of these partitions."""
        return np.full(len(keys), NEVER) if self.after is None else self.after.live_starts(keys)

    def waiting_keys(self) -> Numbers:
        """Return the partitions of the matches that wait, ascending."""
        return np.empty(0, np.int64) if self.after is None else self.after.waiting.keys()

    def drop_all(self) -> None:
        """Drop the matches that wait."""
        if self.after is not None:
            self.after.drop_all()

    def _list(self, segments: list[Any], feed: Feed) -> list[Held]:
        """List the matches of compact sets, or leave those that are too many."""
        if not segments:
            return []
        if self.sieve is not None:
            candidates = feed.find(self.plan.candidate_variables, segments, None, self.budget)
            find = self.sieve.check if self.chooses else self.sieve.matches
            block = find(candidates).block
            return [block] if len(block.end) else []
        found = self._find(segments, feed)
        few = None
        if not self.lists and not isinstance(found, ListedMatches):
            few = _FEW * sum(len(segment.roots) for segment in segments)
        blocks = tuple(found.blocks(None if few is None else few + 1))
        if few is not None and sum(len(block.end) for block in blocks) > few:
            return segments
        return [join(blocks, len(self.variables))] if blocks else []

    def _find(self, segments: list[Any], feed: Feed) -> MatchSet:
        limit = None if self.lists else self.plan.limit
        return feed.find(self.variables, segments, limit, self.budget)

    # ------------------------------------------------------------- results

    def find(
        self, certain: Sequence[CertainMatches], feed: Feed, retained: Numbers | None = None
    ) -> MatchSet:
        """Return matches that are certain, in the order in which they became so.

        `retained` are the ends of matches that were found before and are still to be reported.
        """
        self._note_deadlines(certain, retained)
        found = self._choose([one for matches in certain for one in matches.held], feed)
        if isinstance(found, ListedMatches):
            return ListedMatches(self.plan.variables, [self._sort(certain, found.block)])
        return found

    def count_waiting(self, feed: Feed) -> int:
        """Return how many matches are left out if the input ends here and is not complete."""
        held = [] if self.after is None else self.after.list_waiting()
        return self._choose(held, feed).count()

    def _choose(self, held: Sequence[Held], feed: Feed) -> MatchSet:
        """Return the matches that the strategy, SELECT and LIMIT leave."""
        if held and not any(isinstance(one, MatchBlock) for one in held):
            return self._find([*held], feed)
        block = join([self.list_held(one, feed) for one in held], len(self.variables))
        if self.chooses:
            block = choose_block(block, self.variables, self.plan)
        if self.limit is not None:
            first = np.searchsorted(block.end, block.end)
            block = take(block, np.flatnonzero(np.arange(len(block.end)) - first < self.limit))
        return ListedMatches(self.plan.variables, [block])

    def _sort(self, certain: Sequence[CertainMatches], block: MatchBlock) -> MatchBlock:
        """Return matches in the order of ends in the order in which they became certain."""
        if self.after is None or self.after.ranks is None:
            return block  # which is the same
        ends = np.concatenate([np.empty(0, np.int64), *(matches.ends for matches in certain)])
        distinct, rank = np.unique(ends, return_index=True)
        order = np.argsort(rank[np.searchsorted(distinct, block.end)], kind="stable")
        return take(block, order)

    def _note_deadlines(
        self, certain: Sequence[CertainMatches], retained: Numbers | None = None
    ) -> None:
        known = self.deadline
        if known is None or known.within.unit is Unit.TIME:
            return
        stays = np.full(len(known.ends), self.keeps)
        if retained is not None:
            stays |= np.isin(known.ends, retained)
        self.deadline = DeadlineColumn(
            known.within,
            np.concatenate([known.ends[stays], *(one.ends for one in certain)]),
            np.concatenate([known.moments[stays], *(one.moments for one in certain)]),
        )

    def list_held(self, held: Held, feed: Feed) -> MatchBlock:
        """Return the matches of a compact set one by one."""
        if isinstance(held, MatchBlock):
            return held
        return join(tuple(self._find([held], feed).blocks()), len(self.variables))

    # ----------------------------------------------------------- forgetting

    def earliest(self, position: int) -> int:
        """Return the first position whose event is still needed; `position` at most."""
        for side in self._sides:
            position = side.earliest(position)
        return position

    def forget_before(self, position: int) -> None:
        for side in self._sides:
            side.forget_before(position)

    def live_keys(self) -> Numbers:
        """Return the partitions in which something waits, ascending."""
        return list_distinct(*(side.live_keys() for side in self._sides))

    def drop_keys(self, keys: Numbers) -> None:
        """Drop the guards of all partitions but these, in which no event comes any more."""
        for side in self._sides:
            side.drop_keys(keys)

    def sieves(self) -> Iterator[Sieve]:
        """Yield the sieves of guards whose occurrences are candidates."""
        for side in self._sides:
            if side.guard.sieve is not None:
                yield side.guard.sieve

    def note_stored(self, batch: EventBatch) -> None:
        """Read again an event that was frozen, for checks of pairs."""
        for side in self._sides:
            side.note_pairs(batch)

    def keep_keys(self, keys: Numbers) -> None:
        """Renumber partitions: keys[i] becomes i."""
        for side in self._sides:
            side.keep_keys(keys)

    # --------------------------------------------------------------- frozen

    def freeze(self, feed: Feed, retained: Numbers | None = None) -> tuple[dict[str, Any], Arrays]:
        """Return the state; matches that wait are listed.

        `retained` are the ends of matches that were found before and are still to be reported.
        """
        meta: dict[str, Any] = {}
        arrays: Arrays = {}
        if self.after is not None:
            meta["after"], own = self.after.freeze(lambda held: self.list_held(held, feed))
            arrays |= {f"after.{name}": array for name, array in own.items()}
        if self.deadline is not None and retained is not None:
            self._note_deadlines((), retained)
            arrays |= {"deadline.end": self.deadline.ends, "deadline.moment": self.deadline.moments}
        if self.before is not None:
            meta["before"], own = self.before.freeze()
            arrays |= {f"before.{name}": array for name, array in own.items()}
        return meta, arrays

    def thaw(
        self, meta: object, arrays: Mapping[str, NDArray[Any]], position: int, keys: int
    ) -> None:
        """Restore what `freeze` returned; there are so many events before, and partitions."""
        written = check_mapping(meta, "'absence'")
        if self.after is not None:
            own = select_arrays("after.", arrays)
            self.after.thaw(written.get("after"), own, position, keys)
        if self.deadline is not None and "deadline.end" in arrays:
            below = max(1, position)
            ends = read_array(dict(arrays), "deadline.end", np.int64, low=0, below=below)
            moments = read_array(
                dict(arrays), "deadline.moment", np.int64, ends.shape, low=-1, below=below
            )
            self.deadline = DeadlineColumn(self.deadline.within, ends, moments)
        if self.before is not None:
            own = select_arrays("before.", arrays)
            self.before.thaw(written.get("before"), own, position, keys)


def choose_block(block: MatchBlock, names: tuple[str, ...], plan: Plan) -> MatchBlock:
    """Apply the strategy and SELECT to valuations in the order of ends."""
    listed = []
    for end, found in groupby(unpack(block), key=lambda one: one[1]):
        candidates = {
            Candidate(
                start, frozenset((x, p) for x, at in zip(names, held, strict=True) for p in at)
            )
            for start, _, held in found
        }
        strategy = plan.pattern.strategy
        if strategy is not Strategy.STRICT:  # which each was asked for alone
            candidates = choose(strategy, end, candidates)
        listed += [(c.start, end, mark_variables(c)) for c in project(candidates, plan.variables)]
    return ListedMatches.of(plan.variables, listed).block


def _if_any(certain: CertainMatches) -> list[CertainMatches]:
    return [certain] if certain.held else []
