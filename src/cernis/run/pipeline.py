"""A plan at work: batches of events in their final order in, match sets out.

    batch ─ keys, clock ─▶ feed (engine) ─▶ compact sets ─ absence, sieve, history ─▶ MatchSet

The schema is known when a pipeline is made: its plan stays the same. What a user pushes is opened,
checked and ordered by `run.session`.

Cost contract: per batch, predicates and keys in Arrow, the kernel per relevant event, nothing in
Python per event. State is bounded by what a match can still reach back to: partial matches, and
the batches of events that they reach into.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import floor
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cernis.compiled.tiers import expect_events
from cernis.encoding import clock as clocks
from cernis.encoding.clock import AttributeClock, Clock
from cernis.encoding.encode import Encode, Encoder
from cernis.encoding.keys import KeyCoder
from cernis.encoding.lives import LifeCoder
from cernis.engine.correlated.runtime import CorrelatedEngine
from cernis.engine.renumber import list_distinct
from cernis.engine.settings import LAST_TIME, NEVER, add_ticks
from cernis.engine.unary.aggregate import SlidingAggregator
from cernis.engine.unary.runtime import UnaryEngine
from cernis.events.batch import EventBatch
from cernis.events.order import Scale
from cernis.events.store import EventStore
from cernis.pattern.predicate import RANK, TIME
from cernis.pattern.query import Pattern, Strategy, Unit
from cernis.pattern.selection import counts_only
from cernis.plan.plan import Plan
from cernis.results.deadline import DeadlineColumn
from cernis.results.matchset import ListedMatches, MatchSet, join
from cernis.run.absence.decide import Absences
from cernis.run.absence.following import CertainMatches
from cernis.run.best import BestFirst
from cernis.run.budget import Budget
from cernis.run.feed import Engine, Measures, SlidingFeed, StartFeed, UnaryFeed, make_feed
from cernis.run.group import Grouper
from cernis.run.history import MatchHistory
from cernis.run.key_limit import KeyLimit
from cernis.run.longest import LiveStarts, LongestMatches, keep_earliest
from cernis.run.metrics import SessionMetrics
from cernis.run.project import Projector
from cernis.run.sieve import Sieve
from cernis.run.suppress import Suppressor
from cernis.run.waiting import ends_of

_FORGET_EVERY = 1 << 20
"""A pipeline with more events than this forgets whenever their number has doubled."""
_FORGET_KEYS = 1 << 16


class Pipeline:
    """The state of one plan over one stream."""

    def __init__(
        self,
        plan: Plan,
        store: EventStore,
        budget: Budget,
        encode: Encode,
        *,
        keep: bool = False,
        measures: Measures | None = None,
        counting: bool = False,
    ) -> None:
        """`encode` makes the encoders of atoms; `keep` the matches found, for `pull`.

        `measures` are the aggregates over matches that are enough: none, where matches are only
        counted; those of GROUP BY. With `counting`, numbers of matches are the result.
        """
        self.plan = plan
        self.store = store
        self.budget = budget
        self.encode = encode
        self.keys = _make_coder(plan.pattern)
        self.inner_units = plan.pattern.inner_units
        self.limit = KeyLimit()
        self.clock = _attribute_clock(plan)
        self.counting = counting
        if counting or (counts_only(plan.pattern) and not keep):
            measures = {}
        self.feed = make_feed(plan, encode, store.time_unit, measures)
        self.grouper = Grouper(plan.pattern, store, budget) if plan.pattern.grouping else None
        self.sieve = Sieve(plan, store, budget, encode) if plan.listed else None
        self.absence = None
        if plan.pattern.without:
            self.absence = Absences(plan, self.sieve, store, budget, encode)
        self.longest: LongestMatches | None = None
        if plan.pattern.strategy is Strategy.LONGEST:
            self.longest = LongestMatches(plan)
        self.best: BestFirst | None = None
        if plan.pattern.order is not None:
            self.best = BestFirst(plan, plan.pattern.order, store, budget)
        self.suppressor: Suppressor | None = None
        if plan.pattern.suppress is not None:
            self.suppressor = Suppressor(plan, plan.pattern.suppress, store, budget)
            if self.longest is not None and not plan.pattern.suppresses_whole_keys:
                self.longest.in_order = True
        self.projector = self.new_projector(budget)
        self.history = MatchHistory(plan) if keep else None
        if self.absence is not None:
            self.absence.keeps = keep
        self.kept_from = 0
        """The position of the first event that is still stored."""
        self._seconds = dict.fromkeys(("encode", "engine", "find"), 0.0)
        self._forget_at = _FORGET_EVERY
        self._forget_lives_at = 2 * _FORGET_KEYS

    def new_projector(self, budget: Budget) -> Projector | None:
        """Return what turns matches into answers; None where answers are the matches."""
        plan = self.plan
        return None if plan.head is None else Projector(plan.head, plan.variables, budget)

    @property
    def engine(self) -> Engine:
        return self.feed.engine

    def encoders(self) -> Iterator[Encoder]:
        """Yield the encoders of the query's predicates, and of those of its guards."""
        yield self.feed.encoder
        if self.absence is not None:
            yield from self.absence.encoders()

    def sieves(self) -> list[Sieve]:
        """Return the sieves that check candidates: of the query, and of its guards."""
        own = [] if self.sieve is None else [self.sieve]
        return own if self.absence is None else [*own, *self.absence.sieves()]

    def take(self, batch: EventBatch, scale: Scale, *, own: bool = True) -> list[Any]:
        """Read a batch; return the compact sets of the matches that end in it, for `find`.

        With WITHOUT: the matches that it makes certain. Unless it is its `own`, those that end in
        it are ignored.
        """
        if Unit.TIME in self.inner_units:
            scale.ticks(Fraction(0), "a gap or WITHIN in time inside the formula")
        if self.inner_units or isinstance(self.feed, StartFeed):
            self.feed.measure(scale)
        if self.suppressor is not None:
            self.suppressor.note(batch, scale)
        expect_events(len(batch))
        began = perf_counter()
        keys = self._read_keys(batch, scale)
        clock = self._read_clock(batch, keys, scale)
        self.store.append(batch)
        if self.sieve:
            self.sieve.note(batch, keys)
        if self.history:
            self.history.note(batch, keys, self._pull_clock(batch, clock, scale))
        if self.longest:
            self.longest.note_events(len(batch))
        began = self._spend("encode", began)
        ended = self.feed.take(batch, keys, clock)
        taken = ended if own else []
        self._spend("engine", began)
        if self.limit.most is not None and keys is not None:
            self.limit.note(batch.base, keys)
            self._limit_keys(self.limit.most)
        if self.absence is not None:
            return self.absence.take(batch, keys, scale, taken, self.feed, self.kept_from)
        return taken

    def advance(self, time: int, scale: Scale) -> list[Any]:
        """Note that no event before a time comes; return what it makes certain, for `find`.

        The time counts ticks of the stream's own times.
        """
        if self.longest is not None:
            if isinstance(self.keys, LifeCoder):
                self.keys.advance(time)
            if self.inner_units:
                self.feed.measure(scale)
            size = self._window_ticks(scale)
            self._runtime.advance(time, None if size is None else time - size)
            self.longest.note_time(time)
        if self.best is not None and scale.unit_ns is not None:
            self.best.time = time * scale.unit_ns
        return [] if self.absence is None else self.absence.advance(time)

    def next_deadline(self, scale: Scale) -> int | None:
        """Return the next time, in ticks, that may make matches certain when it has passed."""
        absence = None if self.absence is None else self.absence.next_deadline
        longest = None if self.longest is None else self._find_deadline(self.longest, scale)
        best = None if self.best is None else self.best.find_first_end(self.first_end())
        if best is not None and scale.unit_ns is not None:
            best = -(-best // scale.unit_ns) - 1
        return min((time for time in (absence, longest, best) if time is not None), default=None)

    def _find_deadline(self, longest: LongestMatches, scale: Scale) -> int | None:
        """Return when time ends the partial matches that a waiting match of LONGEST waits for."""
        if not len(longest.waiting) or scale.unit_ns is None:
            return None
        keys, starts = longest.list_first_starts()
        deadlines = self._runtime.find_deadlines(keys, starts)
        forget, size = self.plan.pattern.forget, self._window_ticks(scale)
        if isinstance(self.keys, LifeCoder) and forget is not None:
            last = self.keys.find_last(keys)
            deadlines = np.minimum(deadlines, add_ticks(last, scale.ticks(forget)))
        if size is not None:
            times, _ = self.store.ticks(starts, scale.unit_ns)
            deadlines = np.minimum(deadlines, add_ticks(times, size))
        # what has passed waits for something else: other partitions, or WITHOUT
        coming = deadlines[(deadlines >= longest.time) & (deadlines < LAST_TIME)]
        return int(coming.min()) if len(coming) else None

    def _window_ticks(self, scale: Scale) -> int | None:
        """Return the size of a window in time."""
        within = self.plan.pattern.within
        return scale.ticks(within.size) if within is not None and within.unit is Unit.TIME else None

    @property
    def _runtime(self) -> UnaryEngine | CorrelatedEngine:
        """The engine of matches."""
        assert not isinstance(self.engine, SlidingAggregator)
        return self.engine

    def _spend(self, stage: str, began: float) -> float:
        """Add the time since then to a stage; return the time."""
        now = perf_counter()
        self._seconds[stage] += now - began
        return now

    def metrics(self) -> SessionMetrics:
        """Return the numbers of this moment."""
        engine = self.engine
        return SessionMetrics(
            events=engine.position,
            relevant=engine.relevant,
            stored=engine.position - self.kept_from,
            stored_bytes=self.store.nbytes,
            keys=0 if self.keys is None else len(self.keys),
            dropped_keys=self.limit.dropped,
            records=engine.records,
            suppressed=0 if self.suppressor is None else self.suppressor.silenced,
            seconds=dict(self._seconds),
        )

    def _limit_keys(self, most: int) -> None:
        """Drop partitions beyond the limit, or raise an error."""
        if len(self.engine.live_keys()) > most:
            self.engine.collect()
            live = self.engine.live_keys()
            if len(live) > most:
                self.engine.drop_keys(self.limit.choose(live))

    def _read_keys(self, batch: EventBatch, scale: Scale) -> NDArray[np.int64] | None:
        """Return the partition of each event; None where there is only one."""
        forget = self.plan.pattern.forget
        if isinstance(self.keys, LifeCoder) and forget is not None:
            return self.keys.encode(batch, scale.ticks(forget, "FORGET AFTER"))
        return self.keys.encode(batch) if isinstance(self.keys, KeyCoder) else None

    def _read_clock(
        self, batch: EventBatch, keys: NDArray[np.int64] | None, scale: Scale
    ) -> Clock | None:
        """Return the times and window bounds of the events; None for a window of events."""
        within = self.plan.pattern.within
        if self.clock is not None:
            return self.clock.read(batch, keys)
        if within is not None and within.plain:
            return clocks.read_plain_clock(batch, scale.plain_ticks(within.size, within.strict))
        if within is not None and within.unit is Unit.TIME:
            return clocks.read_time_clock(batch, scale.ticks(within.size))
        if within is not None and within.attribute == RANK:
            return clocks.read_rank_clock(batch, floor(within.size))
        return None

    def _pull_clock(self, batch: EventBatch, clock: Clock | None, scale: Scale) -> Clock | None:
        """Return the clock of WITHIN, where a condition has made the engine's window smaller."""
        within = self.plan.within
        if within is None or within == self.plan.pattern.within:
            return clock
        return clocks.read_time_clock(batch, scale.ticks(within.size))

    def find(self, segments: list[Any], *, last: bool = False) -> MatchSet:
        """Return the matches in what `take` gave; with `last`, no further event comes.

        Of a strategy that waits: the matches that are certain now.
        """
        plan, began = self.plan, perf_counter()
        live_starts = None if last else self._live_starts
        if self.absence is not None and self.longest is not None:
            found = self._find_longest_certain(self.absence, self.longest, segments, live_starts)
        elif self.absence is not None:
            found = self.absence.find(segments, self.feed, self.retained_ends())
        elif self.longest:
            found = self._find_longest(self.longest, segments, live_starts)
        elif self.sieve:
            candidates = self.feed.find(plan.candidate_variables, segments, None, self.budget)
            found = self.sieve.matches(candidates)
        else:
            found = self.feed.find(plan.variables, segments, plan.limit, self.budget)
        if self.best is not None:
            position = -1 if last else self.engine.position
            found = self.best.choose(found, position, self.first_end())
        if self.suppressor is not None:
            found = self.suppressor.choose(found)
        if self.history:
            self.history.add(segments, found)
        self._spend("find", began)
        return found

    def first_end(self) -> int | None:
        """Return the earliest end of a match that is not certain yet."""
        waiting = (self.longest, self.absence)
        ends = [one.first_end() for one in waiting if one is not None]
        return min((end for end in ends if end is not None), default=None)

    def first_open(self) -> int | None:
        """Return the earliest event after which a match that waits may stand in a derived stream.

        A match that waits for a time stands at that time, so nothing has to wait for it.
        """
        if self.grouper is not None:
            return self.first_end()
        places = self._find_places().tolist()
        if self.absence is not None and (moment := self.absence.first_moment()) is not None:
            places.append(moment)
        return min(places, default=None)

    def _find_places(self) -> NDArray[np.int64]:
        """Return where matches to be chosen stand: at their ends, or at deadlines in events."""
        deadline, ends = self.deadline(), self.retained_ends()
        if ends is None:
            return np.empty(0, np.int64)
        if deadline is None or not len(ends):
            return ends
        at = deadline.find_places(ends)
        return np.where(at < 0, self.engine.position - 1, at)

    def retained_ends(self) -> NDArray[np.int64] | None:
        """Return the ends of the matches that WITHOUT has left, and that are still to be chosen.

        LONGEST and LIMIT … EVERY hold them; None: nothing does.
        """
        held = [each.waiting.intervals.ends for each in (self.longest, self.best) if each]
        return np.concatenate(held) if held else None

    @property
    def waits(self) -> bool:
        """Whether matches may come after their ends, when later events make them certain."""
        pattern = self.plan.pattern
        return self.longest is not None or pattern.ranks_intervals or pattern.ranks_overall

    @property
    def waits_for_time(self) -> bool:
        """Whether time that passes may make matches or groups certain."""
        return self.waits or self.absence is not None or self.grouper is not None

    def deadline(self) -> DeadlineColumn | None:
        """Return how the matches that `find` gave last have their deadlines."""
        return None if self.absence is None else self.absence.deadline

    def remember_batches(self) -> None:
        """Keep the encoded batches of a run, where the aggregator can count its matches.

        Only before the first event. Not where partitions may be dropped, nor without a window:
        there one walk counts all matches.
        """
        can_recount = self.plan.can_aggregate and self.limit.most is None
        if isinstance(self.feed, UnaryFeed) and can_recount and self.plan.settings.window:
            self.feed.read = []

    def _find_longest(
        self, longest: LongestMatches, segments: list[Any], live_starts: LiveStarts | None
    ) -> MatchSet:
        plan, feed, budget = self.plan, self.feed, self.budget
        if self.sieve is None:
            most = plan.limit
            return longest.choose_compact(
                segments, lambda kept: feed.find(plan.variables, kept, most, budget), live_starts
            )
        candidates = feed.find(plan.candidate_variables, segments, None, budget)
        if plan.exact:  # each candidate is a valuation: shorter ones need no check
            candidates = self._keep_earliest(candidates)
        found = self.sieve.matches(candidates)
        if budget.spent:
            longest.drop_all()
            return ListedMatches(plan.variables, ())
        return longest.choose_listed(found, self.sieve.keys_of(found.block.end), live_starts)

    def _find_longest_certain(
        self,
        absence: Absences,
        longest: LongestMatches,
        certain: list[CertainMatches],
        live_starts: LiveStarts | None,
    ) -> MatchSet:
        """Return the longest of the matches that WITHOUT leaves, as far as they are certain."""
        found = absence.find(certain, self.feed, self.retained_ends())
        if self.budget.spent:  # a longer one may be missing
            absence.drop_all()
            longest.drop_all()
            return ListedMatches(self.plan.variables, ())
        block = join(tuple(found.blocks()), len(self.plan.variables))
        nothing = np.empty(0, np.int64)
        ends = np.concatenate([nothing, *(ends_of(one) for each in certain for one in each.held)])
        keys = np.concatenate([nothing, *(each.keys for each in certain)])
        ends, first = np.unique(ends, return_index=True)
        own = keys[first][np.searchsorted(ends, block.end)]
        return longest.choose_listed(ListedMatches(found.variables, [block]), own, live_starts)

    def _keep_earliest(self, candidates: MatchSet) -> ListedMatches:
        """Return the candidates of the earliest start of each end; all spend the budget."""
        names, blocks = self.plan.candidate_variables, []
        for block in candidates.blocks():
            self.budget.spend(len(block.end))
            blocks.append(keep_earliest(block))
            if self.budget.spent:
                break
        return ListedMatches(names, [keep_earliest(join(blocks, len(names)))])

    def _live_starts(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return where the earliest partial match of each partition starts.

        With WITHOUT also the earliest one that waits for its deadline.
        """
        engine = self._runtime
        if isinstance(engine, CorrelatedEngine) and self.sieve is not None:
            starts = engine.live_starts(keys, None if self.keys is None else self.sieve.keys_of)
        else:
            starts = engine.live_starts(keys)
        if isinstance(self.keys, LifeCoder):
            starts[~np.isin(keys, self.keys.find_alive())] = NEVER
        if self.absence is not None:
            starts = np.minimum(starts, self.absence.live_starts(keys))
        return starts

    def add_to_groups(self, segments: list[Any], *, last: bool = False) -> None:
        """Add the matches in what `take` gave to the groups of GROUP BY."""
        assert self.grouper is not None
        if isinstance(self.feed, SlidingFeed):
            self.grouper.add_ends(segments)
        else:
            self.grouper.add_matches(self.find(segments, last=last))

    def pull(self, budget: Budget) -> MatchSet:
        """Return all matches inside the window that ends now."""
        assert self.history is not None
        plan = self.plan
        if isinstance(self.keys, LifeCoder):
            self.history.drop_keys(self.keys.find_alive())
        if self.history.lists:
            return self.history.listed(plan.variables)
        return self.feed.find(plan.variables, self.history.roots(), plan.limit, budget)

    def forget_if_due(self) -> None:
        """Forget when the number of stored events, or of lives of partitions, has doubled."""
        lives = len(self.keys) if isinstance(self.keys, LifeCoder) else 0
        stored = self.engine.position - self.kept_from
        if stored >= self._forget_at or lives >= self._forget_lives_at:
            self.forget()
            self._forget_at = max(_FORGET_EVERY, 2 * (self.engine.position - self.kept_from))
            if isinstance(self.keys, LifeCoder):
                self._forget_lives_at = 2 * (_FORGET_KEYS + len(self.keys))

    def forget(self, *, every_key: bool = False) -> None:
        """Drop the events, values and keys that no partial match reaches back to.

        Dead keys are dropped once they are many, or `every_key` at once.
        """
        if isinstance(self.keys, LifeCoder):
            alive = self.keys.find_alive()
            self.engine.drop_keys(alive)
            if self.history:
                self.history.drop_keys(alive)
            if self.absence is not None:
                self.absence.drop_keys(alive)
        if self.suppressor is not None:
            self.suppressor.forget(self.first_end())
        self.kept_from = self.engine.earliest()
        if self.absence is not None:
            self.kept_from = self.absence.earliest(self.kept_from)
        if self.longest:
            self.kept_from = self.longest.waiting.earliest(self.kept_from)
        if self.best is not None and not self.plan.pattern.ranks_overall:
            self.kept_from = self.best.waiting.earliest(self.kept_from)
        if self.history:
            self.kept_from = self.history.earliest(self.kept_from)
            self.history.forget_before(self.kept_from)
        if self.best is None:
            self.store.forget_before(self.kept_from)
        else:
            self.store.forget_before(self.kept_from, self.best.list_held())
        if self.sieve:
            self.sieve.forget_before(self.kept_from)
        if self.absence is not None:
            self.absence.forget_before(self.kept_from)
        self._forget_keys(0 if every_key else _FORGET_KEYS)
        self.feed.forget()

    def drop_partitions(self, values: pa.Array) -> None:
        """Drop the partial matches of the partitions whose first component has these values."""
        assert isinstance(self.keys, KeyCoder)
        every = np.arange(len(self.keys))
        self.engine.drop_keys(np.setdiff1d(every, self.keys.find_keys(values)))

    def _forget_keys(self, spare: int) -> None:
        """Renumber the live keys, once there are more dead ones than that and most are dead."""
        if self.keys is None:
            return
        parts = [self.engine.live_keys()]
        if self.history:
            parts.append(self.history.keys())
        if self.absence is not None:
            waiting = self.absence.live_keys()
            if isinstance(self.keys, LifeCoder):  # nothing comes to what waits in a life that ended
                waiting = np.intersect1d(waiting, self.keys.find_alive())
            parts.append(waiting)
        if self.longest:
            parts.append(self.longest.waiting.keys())
            if self.absence is not None:
                parts.append(self.absence.waiting_keys())
        live = list_distinct(*parts)
        if len(self.keys) <= (4 * len(live) + spare if spare else len(live)):
            return
        self.keys.keep_only(live)
        if self.limit.most is not None:
            self.limit.keep_only(live)
        self.feed.keep_keys(live)
        if self.clock is not None:
            self.clock.keep_only(live)
        if self.longest:
            self.longest.keep_keys(live)
        if self.sieve:
            self.sieve.keep_keys(live)
        if self.absence is not None:
            self.absence.keep_keys(live)
        if self.history:
            self.history.keep_keys(live)


def _make_coder(pattern: Pattern) -> KeyCoder | LifeCoder | None:
    """Return the numbering of partitions; None where the stream is one that never ends."""
    if pattern.forget is not None:
        return LifeCoder(pattern.partition)
    return KeyCoder(pattern.partition) if pattern.partition else None


def _attribute_clock(plan: Plan) -> AttributeClock | None:
    within = plan.pattern.within
    if within is None or within.attribute is None or within.attribute in (TIME, RANK):
        return None
    return AttributeClock(within.attribute.name, within.size)
