"""`BundleSession`: the session of a bundle of rules; see `bundles`.

It is a session whose pipeline has other keys, windows and another feed. The plan of the bundle has
its streams, its key and its longest window; the automata are those of the rules.

Cost contract: it costs as much as a session of one query over the events of all rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cernis.automata.unary.determinize import Deterministic
from cernis.encoding.clock import Clock, read_time_clocks
from cernis.encoding.encode import AtomEncoder
from cernis.encoding.keys import OwnedKeys
from cernis.engine.unary.bundle import BundleEngine
from cernis.engine.unary.freeze import freeze_bundle, list_unknown, read_bundle, thaw_bundle
from cernis.events.batch import Bools, EventBatch, Int64s
from cernis.events.order import Scale
from cernis.events.source import DescribedStream, stream_of
from cernis.events.store import EventStore
from cernis.plan.plan import Plan
from cernis.results.matchset import MatchSet
from cernis.results.unary import CompactMatches
from cernis.run.advice.absent_types import SampledTypes
from cernis.run.budget import Budget
from cernis.run.feed import EncodedBatch, Feed, Keys, push_pieces
from cernis.run.freeze import read_state, thaw_pipeline
from cernis.run.pipeline import Pipeline
from cernis.run.rules.bundle_suppress import OwnedSuppressor
from cernis.run.rules.bundles import Bundle, BundleMachine
from cernis.run.session import RunOptions, Session, warn_about_truths
from cernis.run.tables import Tables
from cernis.schema import Schema
from cernis.state import Tree


class BundleFeed(Feed):
    """Encodes the events of all rules, and has the engine of all their automata."""

    engine: BundleEngine

    def __init__(self, bundle: Bundle, type_column: str, keys: OwnedKeys) -> None:
        self.keys = keys
        self._type_column = type_column
        self.bundle, self.machine = bundle, bundle.make_machine(type_column)
        self.seen = np.zeros(self.machine.codes, np.bool_)
        """Which codes of events have occurred, since the rules are these."""
        self.engine = BundleEngine(self.machine.tables, bundle.plan.settings)

    def use(self, bundle: Bundle) -> None:
        """Go on with other rules."""
        self.bundle, self.machine = bundle, bundle.make_machine(self._type_column)
        self.seen = np.zeros(self.machine.codes, np.bool_)
        self.engine.use_tables(self.machine.tables)

    def take(self, batch: EventBatch, keys: Keys | None, clock: Clock | None) -> list[Any]:
        symbols = self.machine.encode(batch, self.bundle.find_places(batch), self.seen)
        self.engine.fit_tables()
        return push_pieces(self.engine, EncodedBatch(symbols, keys, clock))

    def find(
        self, variables: Sequence[str], taken: Sequence[Any], most: int | None, budget: Budget
    ) -> MatchSet:
        return CompactMatches(variables, taken, self.machine.tables.labels, most)

    @property
    def _automata(self) -> dict[int, Deterministic]:
        """The automata of the rules, by their owners."""
        units = zip(self.bundle.owners, self.bundle.units, strict=True)
        return {owner: unit.automaton for owner, unit in units}

    def freeze(self) -> Tree:
        owners, key_of_row = self.keys.list_owners(), self.engine.memory.key_of_row
        whose = np.append(owners, -1)[key_of_row]  # a row without a key has the last, no owner
        return freeze_bundle(self.engine, whose, self._automata, self.machine.tables.labels)

    def thaw(self, tree: Tree) -> None:
        places = self.bundle.places.tolist()
        frozen = read_bundle(tree, self._automata)
        # states from outside never reach the automata that other sessions share
        if unknown := [places[owner] for owner in list_unknown(frozen, self._automata)]:
            self.use(self.bundle.renew(unknown))
        states = {
            unit.owner: self.machine.number_states(places[unit.owner], unit.states)
            for unit in frozen.units
        }
        labels = [self.machine.label(frozenset(names)) for names in frozen.labels]
        self.engine.fit_tables()
        thaw_bundle(self.engine, frozen, states, labels)


class BundlePipeline(Pipeline):
    """The plan of a bundle at work."""

    keys: OwnedKeys
    feed: BundleFeed

    def __init__(
        self, bundle: Bundle, store: EventStore, budget: Budget, options: RunOptions
    ) -> None:
        encode = partial(AtomEncoder, type_column=options.type_column)
        super().__init__(bundle.plan, store, budget, encode)
        self.keys = OwnedKeys(bundle.whole.pattern.partition)
        self.feed = BundleFeed(bundle, options.type_column, self.keys)
        self.suppressor: OwnedSuppressor | None = None
        if (suppress := bundle.whole.pattern.suppress) is not None:
            self.suppressor = OwnedSuppressor(bundle.plan, suppress, store, budget, self.keys)
            self.suppressor.use(bundle.list_clauses())
        self._windows: tuple[Bundle, Scale, Int64s | None] | None = None

    def use(self, bundle: Bundle, left: Int64s) -> None:
        """Go on with other rules; the owners that `left` leave nothing behind."""
        if len(left):
            self.drop_partitions(pa.array(left))
        if self.suppressor is not None:
            self.suppressor.drop_owners(left)
            self.suppressor.use(bundle.list_clauses())
        self.feed.use(bundle)

    def count_silenced(self) -> Int64s:
        """Return how many matches of each rule were silenced."""
        if self.suppressor is None:
            return np.zeros(len(self.feed.bundle.owners), np.int64)
        return self.suppressor.silenced_of[self.feed.bundle.owner_numbers]

    def take(self, batch: EventBatch, scale: Scale, *, own: bool = True) -> list[Any]:
        taken = super().take(batch, scale, own=own)
        reach = self._window_ticks(scale)
        if reach is not None and batch.time is not None:
            last = int(batch.time[-1])
            self.engine.advance(last, last - reach)
        return taken

    @property
    def engine(self) -> BundleEngine:
        return self.feed.engine

    def _read_clock(
        self, batch: EventBatch, keys: NDArray[np.int64] | None, scale: Scale
    ) -> Clock | None:
        bundle = self.feed.bundle
        if self._windows is None or self._windows[:2] != (bundle, scale):
            self._windows = (bundle, scale, bundle.read_windows(scale))
        ticks = self._windows[2]
        return None if ticks is None else read_time_clocks(batch, ticks[bundle.find_places(batch)])


class BundleSession(Session[Any]):
    """A session of the rules of a bundle; `RunningRule` gives each of them its matches."""

    pipeline: BundlePipeline

    def __init__(self, bundle: Bundle, options: RunOptions) -> None:
        self._first_bundle = bundle
        super().__init__(bundle.plan, options)

    def _start(self, plan: Plan) -> None:
        bundle = self._first_bundle
        self.pipeline = BundlePipeline(bundle, self.store, self.budget, self.options)

    @property
    def bundle(self) -> Bundle:
        return self.pipeline.feed.bundle

    def prepare(self, sources: Sequence[DescribedStream]) -> Tables | None:
        """Check the rules against their sources."""
        if not any(source.is_blank for source in sources):
            streams = (stream_of(source.name, source.schema) for source in sources)
            self.bundle.check_schema(Schema(tuple(streams)))
        return None

    def list_owners(self, segments: Sequence[Any]) -> list[Int64s]:
        """Return the owners of the matches in each of these segments."""
        owners = self.pipeline.keys.list_owners() if segments else np.empty(0, np.int64)
        return [owners[segment.roots["key"]] for segment in segments]

    def find_warnings(self, types: SampledTypes) -> Callable[[int], tuple[str, ...]]:
        """Return what is odd about the events of each rule, by its place, when it is asked for."""
        feed = self.pipeline.feed
        return partial(_list_warnings, feed.bundle, feed.machine, feed.seen.copy(), types)

    @classmethod
    def thaw_bundle(cls, bundle: Bundle, state: bytes, options: RunOptions) -> BundleSession:
        """Return the session that `freeze` turned into bytes; StateError if they are others."""
        frozen = read_state(state, bundle.plan)
        time, type_, time_unit = frozen.columns
        options = replace(options, time=time, type=type_, time_unit=time_unit)
        session = cls(bundle, options)
        thaw_pipeline(session.pipeline, frozen)
        session.progress = replace(frozen.progress, position=session.events)
        return session


def _list_warnings(
    bundle: Bundle, machine: BundleMachine, seen: Bools, types: SampledTypes, place: int
) -> tuple[str, ...]:
    """Return the warnings about the events of a rule; it holds no session."""
    truths = machine.list_truths(place, seen)
    return tuple(warn_about_truths(bundle.plans[place], truths, [truths], types))
