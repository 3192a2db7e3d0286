"""`Absences`: between finding matches and reporting them, decide `WITHOUT`.

    compact sets ─▶ hold or list ─ BEFORE ─▶ FOR: wait ─▶ certain matches ─▶ strategy, SELECT

Where all matches of one end share a fate, the strategy has chosen before: the engine's compact sets
wait as they are, or listed where they hold few matches. Otherwise valuations wait with all their
labels, and the strategy and SELECT are applied to those that are left (`plan.absence`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from cernis.encoding.encode import Encoder
from cernis.encoding.lives import LifeCoder
from cernis.engine.renumber import list_distinct
from cernis.events.batch import EventBatch
from cernis.events.order import Scale
from cernis.pattern.query import Strategy, Unit
from cernis.plan.plan import Plan
from cernis.results.sets.matchset import ListedMatches, MatchBlock, MatchSet, join, take
from cernis.results.terms.deadline import DeadlineColumn
from cernis.run.stages.absence.following import CertainMatches, Following, FrozenFollowing
from cernis.run.stages.absence.preceding import Preceding
from cernis.run.stages.sieve import Candidate, Sieve, choose, mark_variables, project, unpack
from cernis.run.stages.stage import (
    NOTHING,
    Numbers,
    OpeningStage,
    ReadBatch,
    Run,
    Stages,
)
from cernis.run.stages.waiting import Held, count_frozen, ends_of
from cernis.state import (
    Tree,
    array,
    at_least_one,
    frozen_record,
    nested,
    optional,
    part,
    read,
    require,
    write,
)

_FEW = 16
"""Compact sets are listed to wait if they hold at most so many matches for each root."""


@frozen_record
class FrozenColumn:
    """The deadlines of matches that wait to be chosen, by their ends."""

    end: Numbers = array(np.int64, "ends", low=0, below=at_least_one("position"))
    moment: Numbers = array(np.int64, "ends", low=-1, below=at_least_one("position"))


@frozen_record
class FrozenAbsences:
    """The candidates, both sides, and the deadlines of what is certain."""

    sieve: Tree | None = optional(part())
    after: Tree | None = optional(part())
    deadline: FrozenColumn | None = optional(nested(FrozenColumn))
    before: Tree | None = optional(part())


class Absences(OpeningStage):
    """Decides WITHOUT for the matches of one run."""

    name = "absence"
    heeds_time = True

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        plan = run.plan
        after, before = plan.pattern.absent_after, plan.pattern.absent_before
        self.plan = plan
        self.sieve = Sieve(run) if plan.listed else None
        self.lists = plan.lists_waiting
        self.chooses = plan.chooses_late
        self.variables = self.sieve.labels if self.sieve and self.chooses else plan.variables
        self.limit = plan.limit if self.lists else None
        """LIMIT, where it comes after WITHOUT."""
        if self.sieve is not None and self.lists:
            self.sieve.limit = None
        self.after = None if after is None else Following(run, after, self.variables)
        self.before = None if before is None else Preceding(run, before, self.variables)
        self.deadline = None if after is None else DeadlineColumn(after.within)
        self._opened: Sequence[CertainMatches] = ()

    @property
    def _sides(self) -> tuple[Following | Preceding, ...]:
        return tuple(side for side in (self.after, self.before) if side is not None)

    def check_scale(self, scale: Scale) -> None:
        for absence in self.plan.pattern.without:
            if absence.within.unit is Unit.TIME:
                clause = "WITHOUT … BEFORE" if absence.before else "WITHOUT … FOR"
                scale.ticks(absence.within.size, f"{clause} a time")

    def encoders(self) -> Iterator[Encoder]:
        """Yield the encoders of the guards."""
        for side in self._sides:
            yield side.guard.run.feed.encoder

    def note(self, read: ReadBatch) -> None:
        if self.sieve is not None:
            self.sieve.note(read)

    def take(self, read: ReadBatch, ended: list[Any]) -> list[CertainMatches]:
        batch, keys, _, scale = read
        for side in self._sides:
            side.guard.run.feed.measure(scale)
        listed = self._list(ended)
        if self.before is not None:
            block = join(listed, len(self.variables))
            block = self.before.take(batch, keys, scale, block)
            listed = [block] if len(block.end) else []
        if self.after is not None:
            return _if_any(self.after.take(batch, keys, scale, listed, self.run.kept_from))
        ends = [block.end - batch.base for block in listed]
        partitions = [np.zeros(len(at), np.int64) if keys is None else keys[at] for at in ends]
        held = np.concatenate([NOTHING, *partitions])
        return _if_any(CertainMatches(listed, held, NOTHING, NOTHING))

    # ----------------------------------------------------------------- time

    def first_end(self) -> int | None:
        return None if self.after is None else self.after.deadlines.first_end()

    def first_due(self) -> int | None:
        return None if self.after is None else self.after.first_due()

    def next_deadline(self, scale: Scale, stages: Stages) -> int | None:
        return None if self.after is None else self.after.next_deadline

    def finish(self) -> list[CertainMatches]:
        return [] if self.after is None else _if_any(self.after.finish())

    def advance(self, time: int, scale: Scale) -> list[CertainMatches]:
        return [] if self.after is None else _if_any(self.after.advance(time))

    def live_starts(self, keys: Numbers) -> Numbers | None:
        return None if self.after is None else self.after.live_starts(keys)

    def drop_all(self) -> None:
        if self.after is not None:
            self.after.drop_all()

    # -------------------------------------------------------------- matches

    def _list(self, segments: list[Any]) -> list[Held]:
        """List the matches of compact sets, or leave those that are too many."""
        if not segments:
            return []
        if self.sieve is not None:
            find = self.sieve.check if self.chooses else self.sieve.matches
            block = find(self.sieve.find_candidates(segments)).block
            return [block] if len(block.end) else []
        found = self._find(segments)
        few = None
        if not self.lists and not isinstance(found, ListedMatches):
            few = _FEW * sum(len(segment.roots) for segment in segments)
        blocks = tuple(found.blocks(None if few is None else few + 1))
        if few is not None and sum(len(block.end) for block in blocks) > few:
            return segments
        return [join(blocks, len(self.variables))] if blocks else []

    def _find(self, segments: list[Any]) -> MatchSet:
        limit = None if self.lists else self.plan.limit
        return self.run.feed.find(self.variables, segments, limit, self.run.budget)

    def open(self, segments: list[CertainMatches], stages: Stages) -> MatchSet:
        """Return matches that are certain, in the order in which they became so."""
        self._note_deadlines(segments, stages.held_ends())
        found = self._choose([one for matches in segments for one in matches.held])
        if isinstance(found, ListedMatches):
            found = ListedMatches(self.plan.variables, [self._sort(segments, found.block)])
        if self.plan.pattern.strategy is Strategy.LONGEST:
            self._opened = segments
            return ListedMatches(self.plan.variables, found.blocks())
        return found

    def keys_of(self, ends: Numbers) -> Numbers:
        opened = self._opened
        every = np.concatenate([NOTHING, *(ends_of(one) for each in opened for one in each.held)])
        keys = np.concatenate([NOTHING, *(each.keys for each in opened)])
        every, first = np.unique(every, return_index=True)
        self._opened = ()
        own: Numbers = keys[first][np.searchsorted(every, ends)]
        return own

    @property
    def find_keys(self) -> Callable[[Numbers], Numbers] | None:
        return None if self.sieve is None else self.sieve.find_keys

    def awaits_time(self) -> bool:
        return self.after is not None and len(self.after.deadlines) > 0

    def count_waiting(self) -> int:
        return 0 if self.after is None else self._choose(self.after.list_waiting()).count()

    def _choose(self, held: Sequence[Held]) -> MatchSet:
        """Return the matches that the strategy, SELECT and LIMIT leave."""
        if held and not any(isinstance(one, MatchBlock) for one in held):
            return self._find([*held])
        block = join([self._list_held(one) for one in held], len(self.variables))
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
        ends = np.concatenate([NOTHING, *(matches.ends for matches in certain)])
        distinct, rank = np.unique(ends, return_index=True)
        order = np.argsort(rank[np.searchsorted(distinct, block.end)], kind="stable")
        return take(block, order)

    def _note_deadlines(
        self, certain: Sequence[CertainMatches], retained: Numbers | None = None
    ) -> None:
        known = self.deadline
        if known is None or known.within.unit is Unit.TIME:
            return
        stays = np.full(len(known.ends), self.run.purpose.keep)
        if retained is not None:
            stays |= np.isin(known.ends, retained)
        self.deadline = DeadlineColumn(
            known.within,
            np.concatenate([known.ends[stays], *(one.ends for one in certain)]),
            np.concatenate([known.positions[stays], *(one.positions for one in certain)]),
        )

    def _list_held(self, held: Held) -> MatchBlock:
        """Return the matches of a compact set one by one."""
        if isinstance(held, MatchBlock):
            return held
        return join(tuple(self._find([held]).blocks()), len(self.variables))

    # ----------------------------------------------------------- forgetting

    def earliest(self, position: int) -> int:
        for side in self._sides:
            position = side.earliest(position)
        return position

    def forget_before(self, position: int, stages: Stages) -> None:
        if self.sieve is not None:
            self.sieve.forget_before(position)
        for side in self._sides:
            side.forget_before(position)

    def live_keys(self) -> Numbers:
        live, lives = list_distinct(*(side.live_keys() for side in self._sides)), self.run.keys
        if isinstance(lives, LifeCoder):  # nothing comes to what waits in a life that ended
            live = np.intersect1d(live, lives.find_alive())
        if self.after is not None and self.plan.pattern.strategy is Strategy.LONGEST:
            return list_distinct(live, self.after.waiting.keys())
        return live

    def drop_keys(self, keys: Numbers) -> None:
        for side in self._sides:
            side.guard.drop_keys(keys)

    def keep_keys(self, keys: Numbers) -> None:
        if self.sieve is not None:
            self.sieve.keep_keys(keys)
        for side in self._sides:
            side.keep_keys(keys)

    # --------------------------------------------------------------- frozen

    def read_keys(self, first: int, end: int) -> Numbers | None:
        sieves = (self.sieve, *(side.guard.sieve for side in self._sides))
        known = next((sieve for sieve in sieves if sieve is not None), None)
        return None if known is None else known.read_keys(first, end)

    def note_stored(self, batch: EventBatch, keys: Numbers | None) -> None:
        if self.sieve is not None:
            self.sieve.note_stored(batch, keys)
        for side in self._sides:
            side.note_stored(batch, keys, self.run.kept_from)

    def freeze(self, stages: Stages) -> Tree:
        """Return the state; matches that wait are listed."""
        after = None if self.after is None else self.after.freeze(self._list_held)
        held, deadline = stages.held_ends(), None
        if self.deadline is not None and held is not None:
            self._note_deadlines((), held)
            deadline = FrozenColumn(self.deadline.ends, self.deadline.positions)
        sieve = None if self.sieve is None else self.sieve.freeze()
        before = None if self.before is None else self.before.freeze()
        return write(FrozenAbsences(sieve, after, deadline, before))

    def count_held(self, tree: Tree) -> int:
        after = read(FrozenAbsences, tree, position=self.run.position).after
        return 0 if after is None else count_frozen(read(FrozenFollowing, after).held)

    def thaw(self, tree: Tree) -> None:
        position, keys = self.run.position, len(self.run.keys or ())
        frozen = read(FrozenAbsences, tree, position=position)
        if self.sieve is not None:
            self.sieve.thaw(frozen.sieve or {})
        if self.after is not None:
            self.after.thaw(frozen.after or {}, position, keys)
        if self.deadline is not None and (own := frozen.deadline) is not None:
            self.deadline = DeadlineColumn(self.deadline.within, own.end, own.moment)
        if self.before is not None:
            self.before.thaw(frozen.before or {}, position, keys)
        earliest = self.earliest(self.run.feed.engine.earliest())
        require(earliest >= self.run.kept_from, "it needs events that it does not hold")


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
