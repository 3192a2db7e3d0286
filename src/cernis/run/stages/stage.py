"""`Stage`: a clause of a query at work; `Stages`: those of one run, in their order.

A stage takes match sets and gives match sets. Matches that are not certain wait in it. The first
stage *opens* what the feed found: it makes a match set of compact sets. A last one may *close*: it
makes a table of the matches, of groups or of answers.

A pipeline walks its stages and knows none of them. A stage knows the run that it belongs to
(`Run`), and is told of the other stages when it is asked (`Stages`). It keeps no reference to them:
a session must not hold itself.

Cost contract: what a stage does not override costs a call per batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cernis.encoding.clock import Clock
from cernis.encoding.encode import Encode, Encoder
from cernis.encoding.keys import KeyCoder
from cernis.encoding.lives import LifeCoder
from cernis.engine.correlated.runtime import CorrelatedEngine
from cernis.engine.unary.aggregate import SlidingAggregator
from cernis.engine.unary.runtime import UnaryEngine
from cernis.errors import WarningNote
from cernis.events.batch import EventBatch
from cernis.events.order import Scale
from cernis.events.store import EventStore
from cernis.pattern.query import Unit
from cernis.plan.plan import Plan
from cernis.results.budget import Budget
from cernis.results.sets.matchset import MatchSet
from cernis.results.terms.deadline import DeadlineColumn
from cernis.run.feed import Feed, Measures
from cernis.state import Tree

Numbers = NDArray[np.int64]

NOTHING = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Purpose:
    """What the results of a run are for."""

    keep: bool = False
    """Whether the matches found are kept, for `pull`."""
    counting: bool = False
    """Whether numbers of matches are the result."""
    measures: Measures | None = None
    """The aggregates over matches that are enough, beside their number; None: it needs matches."""
    parts: bool = False
    """Whether groups are written as `Grouper.freeze` does, for another run to add up."""


@dataclass(slots=True)
class Run:
    """What the stages of one run share."""

    plan: Plan
    store: EventStore
    budget: Budget
    encode: Encode
    """Makes the encoders of atoms."""
    feed: Feed
    keys: KeyCoder | LifeCoder | None
    """The numbering of partitions; None where the stream is one that never ends."""
    purpose: Purpose = field(default_factory=Purpose)
    kept_from: int = 0
    """The position of the first event that is still stored."""

    @property
    def position(self) -> int:
        """How many events have been read."""
        return self.feed.engine.position

    @property
    def partitions(self) -> int:
        """How many partitions have a number."""
        return 1 if self.keys is None else len(self.keys)

    @property
    def runtime(self) -> UnaryEngine | CorrelatedEngine:
        """The engine of matches."""
        assert not isinstance(self.feed.engine, SlidingAggregator)
        return self.feed.engine

    def window_ticks(self, scale: Scale) -> int | None:
        """Return the size of a window in time."""
        within = self.plan.pattern.within
        return scale.ticks(within.size) if within is not None and within.unit is Unit.TIME else None


class ReadBatch(NamedTuple):
    """A batch as stages read it."""

    batch: EventBatch
    keys: Numbers | None
    """The partition of each event; None where there is only one."""
    clock: Clock | None
    """The clock of the window; None where it counts events."""
    scale: Scale


class Stage:
    """One clause of a query; where nothing is overridden, matches pass."""

    name: ClassVar[str]
    """What its state is called."""
    waits: bool = False
    """Whether matches may come after their ends, when later events make them certain."""
    heeds_time: bool = False
    """Whether time that passes without events may make matches certain."""
    is_chained: bool = False
    """Whether a match decides about later ones, so that none is certain after a partial answer."""
    drops: bool = False
    """Whether a match that was opened may not be reported, or not as one match."""
    asks_keys: bool = True
    """Whether it asks for the keys of events that move no match."""
    silenced: int = 0
    """How many matches it has silenced."""

    def __init__(self, run: Run) -> None:
        self.run = run

    # -------------------------------------------------------------- matches

    def check_scale(self, scale: Scale) -> None:
        """Raise an error where the clause needs times, and the events have none."""

    def encoders(self) -> Iterator[Encoder]:
        """Yield the encoders of the clause's own predicates."""
        yield from ()

    def note(self, read: ReadBatch) -> None:
        """Note a batch that is stored, before the feed reads it."""

    def take(self, read: ReadBatch, ended: list[Any]) -> list[Any]:
        """Return what a batch makes certain, in which these compact sets end."""
        return ended

    def choose(self, found: MatchSet, stages: Stages, *, last: bool) -> MatchSet:
        """Return the matches that are certain, of these and those that wait.

        With `last`, no further event comes.
        """
        return found

    # ----------------------------------------------------------------- time

    def advance(self, time: int, scale: Scale) -> list[Any]:
        """Note that no event before a time comes; return what that makes certain, to be opened."""
        return []

    def finish(self) -> list[Any]:
        """Return what waits for a deadline, to be opened: the input is complete."""
        return []

    def next_deadline(self, scale: Scale, stages: Stages) -> int | None:
        """Return the next time, in ticks, that may make matches certain when it has passed."""
        return None

    def first_end(self) -> int | None:
        """Return the earliest end of a match that is not certain yet."""
        return None

    def held_ends(self) -> Numbers | None:
        """Return the ends of the matches that wait to be chosen; None if it never holds any."""
        return None

    def live_starts(self, keys: Numbers) -> Numbers | None:
        """Return where the earliest match that waits for its deadline starts, per partition."""
        return None

    def count_waiting(self) -> int:
        """Return how many matches are left out if the input ends here and is not complete."""
        return 0

    def awaits_time(self) -> bool:
        """Return whether time that passes now may make something certain."""
        return self.heeds_time

    def keep_order(self) -> None:
        """From now on give matches by their ends, over all partitions."""

    # ---------------------------------------------------------------- notes

    def describe_waits(self, *, endless: bool, last: bool) -> Iterator[str]:
        """Yield notes on results that may wait for ever, or until the end."""
        yield from ()

    def warn_at_end(self) -> Iterator[WarningNote]:
        """Yield warnings about the clause, after all events."""
        yield from ()

    # ----------------------------------------------------------- forgetting

    def earliest(self, position: int) -> int:
        """Return the first position whose event is still needed; `position` at most."""
        return position

    def list_held(self) -> Numbers:
        """Return the positions of events that outlast their batches, ascending."""
        return NOTHING

    def forget_before(self, position: int, stages: Stages) -> None:
        """Drop what belongs to events before a position, which nothing reaches back to."""

    def drop_keys(self, keys: Numbers) -> None:
        """Drop what all partitions but these have, in which no event comes."""

    def live_keys(self) -> Numbers:
        """Return the partitions that must keep their numbers."""
        return NOTHING

    def keep_keys(self, keys: Numbers) -> None:
        """Renumber partitions: keys[i] becomes i."""

    # --------------------------------------------------------------- frozen

    def freeze(self, stages: Stages) -> Tree:
        """Return the state."""
        return {}

    def thaw(self, tree: Tree) -> None:
        """Restore what `freeze` returned, after the feed and before the stored events."""

    def note_stored(self, batch: EventBatch, keys: Numbers | None) -> None:
        """Read again a batch that was frozen."""


class OpeningStage(Stage, ABC):
    """The first stage: it makes a match set of what the feed found."""

    deadline: DeadlineColumn | None = None
    """How the matches that were opened last have their deadlines."""

    @abstractmethod
    def open(self, segments: list[Any], stages: Stages) -> MatchSet:
        """Return the matches in what `take` gave."""

    @property
    def find_keys(self) -> Callable[[Numbers], Numbers] | None:
        """Gives the partitions of events; None where the opening does not know them."""
        return None

    def keys_of(self, ends: Numbers) -> Numbers:
        """Return the partitions of matches that were opened last, by their ends."""
        raise NotImplementedError

    def first_due(self) -> int | None:
        """Return the first event at the deadline of a match that waits, if it counts events."""
        return None

    def drop_all(self) -> None:
        """Drop the matches that wait."""

    def count_held(self, tree: Tree) -> int:
        """Return how many matches of a frozen state wait, maybe in partitions that have ended."""
        return 0

    def read_keys(self, first: int, end: int) -> Numbers | None:
        """Return the partition of each event in [first, end), or -1; None: it does not know."""
        return None


class CompactSets(OpeningStage):
    """Opens the compact sets of a query whose matches the engine decides."""

    name = "compact"
    asks_keys = False

    def open(self, segments: list[Any], stages: Stages) -> MatchSet:
        plan = self.run.plan
        return self.run.feed.find(plan.variables, segments, plan.limit, self.run.budget)


class ClosingStage(Stage, ABC):
    """The last stage of some queries: it makes a table of the matches."""

    asks_keys = False
    passed: int | None = None
    """The time of the last event that the run was told of and has not read, in nanoseconds."""

    @abstractmethod
    def report(self, found: MatchSet, stages: Stages, *, last: bool) -> pa.Table:
        """Add matches; return the rows that are complete."""

    def report_nothing(self) -> pa.Table:
        """Return the columns of the table, without any row."""
        raise NotImplementedError

    def first_close(self, stages: Stages) -> int | None:
        """Return the time, in nanoseconds, that completes the next row; None: none does."""
        return None

    def pass_time(self, nanoseconds: int, stages: Stages) -> pa.Table:
        """Return the rows that are complete at a time, which no event to come has."""
        raise NotImplementedError


@dataclass(slots=True)
class Stages:
    """The stages of a run."""

    opening: OpeningStage
    choosing: list[Stage]
    """In the order in which matches pass through them."""
    closing: ClosingStage | None = None

    def __iter__(self) -> Iterator[Stage]:
        yield self.opening
        yield from self.choosing
        if self.closing is not None:
            yield self.closing

    def replace(self, stage: Stage) -> None:
        """Put a stage into the place of the one with its name."""
        self.choosing = [stage if each.name == stage.name else each for each in self.choosing]

    def first_end(self) -> int | None:
        """Return the earliest end of a match that is not certain yet."""
        ends = (stage.first_end() for stage in self)
        return min((end for end in ends if end is not None), default=None)

    def held_ends(self) -> Numbers | None:
        """Return the ends of the matches that wait to be chosen; None if no stage holds any."""
        held = [ends for stage in self if (ends := stage.held_ends()) is not None]
        return np.concatenate(held) if held else None

    def next_deadline(self, scale: Scale) -> int | None:
        """Return the next time, in ticks, that may make matches certain when it has passed."""
        times = (stage.next_deadline(scale, self) for stage in self)
        return min((time for time in times if time is not None), default=None)
