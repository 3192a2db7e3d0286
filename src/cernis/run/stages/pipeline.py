"""A plan at work: batches of events in their final order in, match sets out.

    batch ─ keys, clock ─▶ feed (engine) ─▶ compact sets ─▶ stages ─▶ MatchSet or table

The schema is known when a pipeline is made: its plan stays the same. What a user pushes is opened,
checked and ordered by `run.session`. The clauses are stages (`run.stages`), which the pipeline
walks.

Cost contract: per batch, predicates and keys in Arrow, the kernel per relevant event, nothing in
Python per event. State is bounded by what a match can still reach back to: partial matches, and
the batches of events that they reach into.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from math import floor
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa

from cernis.compiled.tiers import expect_events
from cernis.encoding import clock as clocks
from cernis.encoding.clock import AttributeClock, Clock
from cernis.encoding.encode import Encode, Encoder, KnownTruths, SeenTruths
from cernis.encoding.keys import KeyCoder
from cernis.encoding.lives import LifeCoder
from cernis.engine.renumber import list_distinct
from cernis.events.batch import EventBatch
from cernis.events.order import Scale
from cernis.events.store import EventStore
from cernis.pattern.predicate import RANK, TIME
from cernis.pattern.query import Pattern, Unit, counts_only
from cernis.plan.plan import Plan
from cernis.results.budget import Budget
from cernis.results.sets.matchset import MatchSet
from cernis.results.terms.deadline import DeadlineColumn
from cernis.run.feed import Engine, Feed, ReadSlice, SlidingFeed, StartFeed, UnaryFeed, make_feed
from cernis.run.key_limit import KeyLimit
from cernis.run.metrics import SessionMetrics
from cernis.run.stages.history import MatchHistory
from cernis.run.stages.order import make_stages
from cernis.run.stages.stage import Numbers, Purpose, ReadBatch, Run

_FORGET_EVERY = 1 << 20
"""A pipeline with more events than this forgets whenever their number has doubled."""
_FORGET_KEYS = 1 << 16


def make_run(
    plan: Plan, store: EventStore, budget: Budget, encode: Encode, purpose: Purpose | None = None
) -> Run:
    """Return what the stages of a plan share; `encode` makes the encoders of atoms."""
    purpose = purpose or Purpose()
    measures = purpose.measures
    if purpose.counting or (counts_only(plan.pattern) and not purpose.keep):
        measures = {}
    feed = make_feed(plan, encode, store.time_unit, measures)
    return Run(plan, store, budget, encode, feed, _make_coder(plan.pattern), purpose)


class Pipeline:
    """The state of one plan over one stream."""

    def __init__(self, run: Run, limit: KeyLimit | None = None) -> None:
        self.run = run
        self.stages = make_stages(run)
        self.plan = run.plan
        self.store = run.store
        self.budget = run.budget
        self.inner_units = run.plan.inner_units
        self.limit = limit or KeyLimit()
        self.clock = _attribute_clock(run.plan)
        self.has_matched = False
        """Whether a match was found; groups do not ask."""
        self._seconds = dict.fromkeys(("encode", "engine", "find"), 0.0)
        self._forget_at = _FORGET_EVERY
        self._forget_lives_at = 2 * _FORGET_KEYS
        self._relevant = 0
        """How many relevant events others have read in its place."""
        self._former: list[Encoder] = []
        """The encoders that others read them with."""

    @property
    def feed(self) -> Feed:
        return self.run.feed

    @property
    def engine(self) -> Engine:
        return self.run.feed.engine

    @property
    def keys(self) -> KeyCoder | LifeCoder | None:
        """The numbering of partitions."""
        return self.run.keys

    @property
    def kept_from(self) -> int:
        """The position of the first event that is still stored."""
        return self.run.kept_from

    @property
    def waits(self) -> bool:
        """Whether matches may come after their ends, when later events make them certain."""
        return any(stage.waits for stage in self.stages)

    @property
    def heeds_time(self) -> bool:
        """Whether time that passes may make matches or groups certain."""
        return any(stage.heeds_time for stage in self.stages)

    @property
    def awaits_time(self) -> bool:
        """Whether time that passes now may make matches or groups certain."""
        return any(stage.awaits_time() for stage in self.stages)

    def find_truths(self) -> KnownTruths:
        """Return the truths of the query's own atoms that events have had."""
        own = [self.feed.encoder, *self._former]
        vectors = dict.fromkeys(vector for encoder in own for vector in encoder.vectors)
        return SeenTruths(self.feed.encoder.atoms, [*vectors])

    def encoders(self) -> Iterator[KnownTruths]:
        """Yield the encoders of the query's predicates, and of those of its stages."""
        yield self.find_truths()
        for stage in self.stages:
            yield from stage.encoders()

    # -------------------------------------------------------------- reading

    def take(self, batch: EventBatch, scale: Scale, *, own: bool = True) -> list[Any]:
        """Read a batch; return what `find` finds matches in.

        Unless the batch is its `own`, the matches that end in it are ignored.
        """
        if Unit.TIME in self.inner_units:
            scale.ticks(Fraction(0), "a gap or WITHIN in time inside the formula")
        if self.inner_units or isinstance(self.feed, StartFeed):
            self.feed.measure(scale)
        expect_events(len(batch))
        began = perf_counter()
        keys = self._read_keys(batch, scale)
        read = ReadBatch(batch, keys, self._read_clock(batch, keys, scale), scale)
        self.store.append(batch)
        for stage in self.stages:
            stage.note(read)
        began = self._spend("encode", began)
        taken = self.feed.take(batch, keys, read.clock)
        self._spend("engine", began)
        if self.limit.most is not None and keys is not None:
            self.limit.note(batch.base, keys)
            self._limit_keys(self.limit.most)
        if not own:
            taken = []
        for stage in self.stages:
            taken = stage.take(read, taken)
        return taken

    def begin_at(self, position: int) -> Pipeline:
        """Return a pipeline of the same plan whose input begins at a position."""
        run = self.run
        store = EventStore(self.store.time_unit)
        other = Pipeline(make_run(self.plan, store, self.budget, run.encode, run.purpose))
        other.engine.position = position
        if isinstance(self.feed, UnaryFeed) and self.feed.read is not None:
            other.remember_batches()
        return other

    def begin_own(self) -> None:
        """Leave what has been read so far to others: matches that end there are not its own."""
        self._relevant = -self.engine.relevant
        if isinstance(self.feed, UnaryFeed) and self.feed.read is not None:
            ((base, batches, _),) = self.feed.read
            self.feed.read = [ReadSlice(base, [], batches)]

    def go_on_as(self, other: Pipeline, own: list[EventBatch]) -> None:
        """Go on with the state of a pipeline that has read the batches which follow."""
        self._relevant += self.engine.relevant + other._relevant
        self._former += [self.feed.encoder]
        if isinstance(self.feed, UnaryFeed) and self.feed.read is not None:
            assert isinstance(other.feed, UnaryFeed)
            assert other.feed.read is not None
            other.feed.read = [*self.feed.read, *other.feed.read]
        self.run.feed, self.run.keys = other.run.feed, other.run.keys
        for batch in own:
            self.store.append(batch)
        for step, seconds in other._seconds.items():
            self._seconds[step] += seconds

    def advance(self, time: int, scale: Scale) -> list[Any]:
        """Note that no event before a time comes; return what it makes certain, for `find`.

        The time counts ticks of the stream's own times.
        """
        return [one for stage in self.stages for one in stage.advance(time, scale)]

    def pass_by(self, time: int, scale: Scale) -> list[Any]:
        """Like `advance`, for the time of an event that cannot move the query: it is not read."""
        closing = self.stages.closing
        if closing is not None and scale.unit_ns is not None:
            closing.passed = time * scale.unit_ns
        return self.advance(time, scale)

    def finish(self) -> list[Any]:
        """Return what waits for deadlines, for `find`: the input is complete."""
        return [one for stage in self.stages for one in stage.finish()]

    def find(self, segments: list[Any], *, last: bool = False) -> MatchSet:
        """Return the matches in what `take` gave; with `last`, no further event comes.

        Of a clause that waits: the matches that are certain now.
        """
        began = perf_counter()
        found = self.stages.opening.open(segments, self.stages)
        for stage in self.stages.choosing:
            found = stage.choose(found, self.stages, last=last)
        self._spend("find", began)
        return found

    def report(self, segments: list[Any], *, last: bool = False) -> MatchSet | pa.Table:
        """Return the matches in what `take` gave, or the groups or answers that are complete."""
        found, closing = self.find(segments, last=last), self.stages.closing
        if not self.has_matched and self.plan.pattern.grouping is None:
            self.has_matched = not found.is_empty()
        return found if closing is None else closing.report(found, self.stages, last=last)

    def pull(self, budget: Budget) -> MatchSet:
        """Return all matches inside the window that ends now."""
        (history,) = (stage for stage in self.stages if isinstance(stage, MatchHistory))
        return history.pull(budget)

    def next_deadline(self, scale: Scale) -> int | None:
        """Return the next time, in ticks, that may make matches certain when it has passed."""
        return self.stages.next_deadline(scale)

    def first_open(self) -> int | None:
        """Return the earliest event after which a match that waits may stand in a derived stream.

        A match that waits for a time stands at that time, so nothing has to wait for it.
        """
        if self.plan.pattern.grouping is not None:
            return self.stages.first_end()
        positions = self._find_positions().tolist()
        if (due := self.stages.opening.first_due()) is not None:
            positions.append(due)
        return min(positions, default=None)

    def _find_positions(self) -> Numbers:
        """Return where matches to be chosen stand: at their ends, or at deadlines in events."""
        deadline, ends = self.deadline(), self.stages.held_ends()
        if ends is None:
            return np.empty(0, np.int64)
        if deadline is None or not len(ends):
            return ends
        at = deadline.find_positions(ends)
        return np.where(at < 0, self.engine.position - 1, at)

    def deadline(self) -> DeadlineColumn | None:
        """Return how the matches that `find` gave last have their deadlines."""
        return self.stages.opening.deadline

    def remember_batches(self) -> None:
        """Keep the encoded batches of a run, where its matches can be counted again from them.

        Only before the first event. Not where partitions may be dropped. Without a window, one
        walk counts all matches that are kept.
        """
        if not self.plan.can_aggregate or self.limit.most is not None:
            return
        if isinstance(self.feed, UnaryFeed) and self.plan.settings.window:
            self.feed.read = [ReadSlice(self.engine.position, [], [])]
        elif isinstance(self.feed, SlidingFeed):
            self.feed.read = []

    def _spend(self, step: str, began: float) -> float:
        """Add the time since then to a step; return the time."""
        now = perf_counter()
        self._seconds[step] += now - began
        return now

    def metrics(self) -> SessionMetrics:
        """Return the numbers of this moment."""
        engine = self.engine
        return SessionMetrics(
            events=engine.position,
            relevant=engine.relevant + self._relevant,
            stored=engine.position - self.kept_from,
            stored_bytes=self.store.nbytes,
            keys=0 if self.keys is None else len(self.keys),
            dropped_keys=self.limit.dropped,
            records=engine.records,
            suppressed=sum(stage.silenced for stage in self.stages),
            seconds=dict(self._seconds),
        )

    def _limit_keys(self, most: int) -> None:
        """Drop partitions beyond the limit, or raise an error."""
        if len(self.engine.live_keys()) > most:
            self.engine.collect()
            live = self.engine.live_keys()
            if len(live) > most:
                self.engine.drop_keys(self.limit.choose(live))

    def _read_keys(self, batch: EventBatch, scale: Scale) -> Numbers | None:
        """Return the partition of each event; None where there is only one."""
        forget = self.plan.pattern.forget
        if isinstance(self.keys, LifeCoder) and forget is not None:
            return self.keys.encode(batch, scale.ticks(forget, "FORGET AFTER"))
        if not isinstance(self.keys, KeyCoder):
            return None
        keys = None
        if self.keys.is_plain and self._may_leave_keys:
            keys = self.feed.read_keys(batch, partial(self.keys.encode_some, batch))
        return self.keys.encode(batch) if keys is None else keys

    @property
    def _may_leave_keys(self) -> bool:
        """Whether events that move nothing need no key."""
        asked = any(stage.asks_keys for stage in self.stages)
        return not asked and self.clock is None and self.limit.most is None

    def _read_clock(self, batch: EventBatch, keys: Numbers | None, scale: Scale) -> Clock | None:
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

    # ----------------------------------------------------------- forgetting

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
            for stage in self.stages:
                stage.drop_keys(alive)
        first = self.engine.earliest()
        for stage in self.stages:
            first = stage.earliest(first)
        self.run.kept_from = first
        self.store.forget_before(first, self.list_held())
        for stage in self.stages:
            stage.forget_before(first, self.stages)
        self._forget_keys(0 if every_key else _FORGET_KEYS)
        self.feed.forget()

    def list_held(self) -> Numbers:
        """Return the positions of events that outlast their batches, ascending."""
        return np.unique(np.concatenate([stage.list_held() for stage in self.stages]))

    def drop_partitions(self, values: pa.Array) -> None:
        """Drop the partial matches of the partitions whose first component has these values."""
        assert isinstance(self.keys, KeyCoder)
        every = np.arange(len(self.keys))
        self.engine.drop_keys(np.setdiff1d(every, self.keys.find_keys(values)))

    def _forget_keys(self, spare: int) -> None:
        """Renumber the live keys, once there are more dead ones than that and most are dead."""
        if self.keys is None:
            return
        live = list_distinct(self.engine.live_keys(), *(stage.live_keys() for stage in self.stages))
        if len(self.keys) <= (4 * len(live) + spare if spare else len(live)):
            return
        self.keys.keep_only(live)
        if self.limit.most is not None:
            self.limit.keep_only(live)
        self.feed.keep_keys(live)
        if self.clock is not None:
            self.clock.keep_only(live)
        for stage in self.stages:
            stage.keep_keys(live)


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
