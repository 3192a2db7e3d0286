"""Encode batches of events for an engine, one class for each runtime.

A *feed* owns an engine and the encoders of its input: predicates become symbols; where events
are compared with each other, values become codes and words.

Cost contract: a fixed number of Arrow and NumPy passes per batch; the engine's kernels
per event. The codes of values expire with the partial matches that hold them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import gcd
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.automata.unary.alphabet import Alphabet
from cernis.compiled.tiers import cut_events
from cernis.encoding.clock import Clock, PositionClock
from cernis.encoding.compare import TIME, Equality, OrderValues, kinds
from cernis.encoding.encode import Encode
from cernis.encoding.measure import read_measure, read_weights
from cernis.engine.correlated.freeze import freeze_correlated, thaw_correlated
from cernis.engine.correlated.runtime import CorrelatedEngine
from cernis.engine.correlated.tables import CorrelatedTables
from cernis.engine.dag import records
from cernis.engine.settings import Settings
from cernis.engine.unary.aggregate import (
    EndAggregates,
    Measure,
    MeasuredColumn,
    SlidingAggregator,
    join_found,
)
from cernis.engine.unary.aggregate_starts import PAIR, StartAggregator
from cernis.engine.unary.freeze import (
    freeze_sliding,
    freeze_unary,
    is_known,
    read_unary,
    thaw_sliding,
    thaw_unary,
)
from cernis.engine.unary.levels import LevelInput, arrange_events, count_levels
from cernis.engine.unary.moving import MovingKeys
from cernis.engine.unary.real import make_real
from cernis.engine.unary.runtime import UnaryEngine
from cernis.errors import DataError
from cernis.events.batch import EventBatch
from cernis.events.kinds import OTHER
from cernis.events.order import Scale
from cernis.pattern.formula import Unit
from cernis.plan.plan import Plan, Unary
from cernis.results.budget import Budget, describe_candidates
from cernis.results.sets.correlated import CorrelatedMatches
from cernis.results.sets.counted import CountedMatches
from cernis.results.sets.matchset import ListedMatches, MatchSet
from cernis.results.sets.unary import CompactMatches, Recount
from cernis.results.terms.calculated import calculate_from_table
from cernis.state import (
    MOST_EVENTS,
    Sizes,
    Tree,
    array,
    frozen_record,
    is_inside,
    listed,
    nested,
    number,
    optional,
    part,
    read,
    require,
    text,
    write,
)

Arrays = dict[str, NDArray[Any]]
Keys = NDArray[np.int64]

Engine = UnaryEngine | CorrelatedEngine | SlidingAggregator

_FORGET_CODES = 1 << 16
_MANY = 2
"""All keys are read where one in so many events can move something."""


ReadKeys = Callable[[NDArray[np.int64]], Keys]
"""Returns the keys of some events of a batch."""


class _ReadAhead(NamedTuple):
    """What is known of a batch before it is read."""

    batch: EventBatch
    symbols: NDArray[np.int32]
    keys: MovingKeys


class Feed(ABC):
    """A runtime as a pipeline sees it: an engine, and the symbols that its events become."""

    def __init__(self, engine: Engine, alphabet: Alphabet, encode: Encode) -> None:
        self.engine = engine
        self.alphabet = alphabet
        self.encoder = encode(alphabet.atoms)
        self._numbers = np.empty(0, np.int32)
        self._ahead: _ReadAhead | None = None

    def _encode_symbols(self, batch: EventBatch) -> NDArray[np.int32]:
        if self._ahead is not None and self._ahead.batch is batch:
            return self._ahead.symbols
        codes = self.encoder.encode(batch)
        unknown = self.encoder.vectors[len(self._numbers) :]
        if unknown:
            new = np.array([self.alphabet.symbol(vector) for vector in unknown], np.int32)
            self._numbers = np.concatenate([self._numbers, new])
        return self._numbers[codes]

    def read_keys(self, batch: EventBatch, read: ReadKeys) -> Keys | None:
        """Return the keys of a batch, -1 for events that move nothing; None: all keys matter."""
        return None

    def _read_moving(
        self, batch: EventBatch, engine: UnaryEngine | SlidingAggregator, read: ReadKeys
    ) -> Keys | None:
        if engine.settings.counts_keys:
            return None
        symbols = self._encode_symbols(batch)
        engine.tables.add_symbols()
        engine.fit_tables()
        moving = engine.inert[symbols] == 0
        if _MANY * np.count_nonzero(moving) > len(moving):
            return None
        keys = MovingKeys(moving, engine.inert, read)
        self._ahead = _ReadAhead(batch, symbols, keys)
        return keys.numbers

    def _take_moving(self, batch: EventBatch) -> MovingKeys | None:
        """Return the keys of a batch that were read ahead."""
        ahead, self._ahead = self._ahead, None
        return None if ahead is None or ahead.batch is not batch else ahead.keys

    @abstractmethod
    def take(self, batch: EventBatch, keys: Keys | None, clock: Clock | None) -> list[Any]:
        """Read a batch; return the compact sets of its matches, for `find`."""

    @abstractmethod
    def find(
        self, variables: Sequence[str], taken: Sequence[Any], most: int | None, budget: Budget
    ) -> MatchSet:
        """Return the matches in compact sets; checking candidates spends the budget."""

    def measure(self, scale: Scale) -> None:  # noqa: B027
        """Learn the unit of time, before the first batch is read."""

    def forget(self) -> None:  # noqa: B027
        """Drop the codes of values that no partial match holds."""

    def keep_keys(self, keys: Keys) -> None:
        """Renumber partitions: keys[i] becomes i."""
        self.engine.keep_keys(keys)

    @abstractmethod
    def freeze(self) -> Tree: ...

    @abstractmethod
    def thaw(self, tree: Tree) -> None: ...


def make_feed(plan: Plan, encode: Encode, time_unit: str, measures: Measures | None = None) -> Feed:
    """Return the feed of the plan's runtime; `measures`: matches are counted and measured alone."""
    if plan.tables is not None:
        return CorrelatedFeed(plan, plan.tables, encode, time_unit)
    assert plan.unary is not None
    every = plan.pattern.grouping.start_interval if plan.pattern.grouping else None
    if measures is not None and plan.can_aggregate and every is None:
        return SlidingFeed(plan.unary, plan.settings, encode, measures)
    if measures is not None and plan.can_aggregate_starts and every is not None:
        within = plan.pattern.within
        in_time = within is not None and within.unit is Unit.TIME
        return StartFeed(plan.unary, plan.settings, encode, measures, every, in_time)
    return UnaryFeed(plan.unary, plan.settings, encode)


Measures = Mapping[Measure, tuple[str, ...]]
"""What is measured, each with the path of its attribute; none: events count."""


class EncodedBatch(NamedTuple):
    """A batch as the unary engine reads it."""

    symbols: NDArray[np.int32]
    keys: Keys | None
    clock: Clock | None

    def cut(self) -> Iterator[tuple[slice, EncodedBatch]]:
        """Yield the pieces in which to read the batch."""
        for piece in cut_events(len(self.symbols)):
            keys, clock = _cut(self.keys, piece), _cut_clock(self.clock, piece)
            yield piece, EncodedBatch(self.symbols[piece], keys, clock)


class ReadSlice(NamedTuple):
    """Consecutive batches that an engine has read, from a position on."""

    base: int
    batches: list[EncodedBatch]
    before: list[EncodedBatch]
    """Those that it read first, whose matches are not its own."""


def push_pieces(
    engine: UnaryEngine, encoded: EncodedBatch, moving: MovingKeys | None = None
) -> list[Any]:
    """Let an engine read a batch; return the compact sets of its matches."""
    return [
        segment
        for _, (symbols, keys, clock) in encoded.cut()
        for segment in engine.push(symbols, keys=keys, moving=moving, **_clock(clock))
    ]


class UnaryFeed(Feed):
    """Encodes symbols alone: every condition looks at one event."""

    engine: UnaryEngine

    def __init__(self, unary: Unary, settings: Settings, encode: Encode) -> None:
        super().__init__(UnaryEngine(unary.tables, settings), unary.automaton.alphabet, encode)
        self.tables = unary.tables
        self.unary = unary
        self.read: list[ReadSlice] | None = None
        """All batches of the run, for the aggregator to count their matches; None: not kept."""

    def read_keys(self, batch: EventBatch, read: ReadKeys) -> Keys | None:
        return self._read_moving(batch, self.engine, read)

    def take(self, batch: EventBatch, keys: Keys | None, clock: Clock | None) -> list[Any]:
        symbols, moving = self._encode_symbols(batch), self._take_moving(batch)
        self.tables.add_symbols()
        self.engine.fit_tables()
        encoded = EncodedBatch(symbols, keys, clock)
        if self.read is not None:
            self.read[-1].batches.append(encoded)
        return push_pieces(self.engine, encoded, moving)

    def find(
        self, variables: Sequence[str], taken: Sequence[Any], most: int | None, budget: Budget
    ) -> MatchSet:
        recount = None
        if self.read is not None:
            count = partial(count_batches, self.unary, self.engine.settings, tuple(self.read))
            recount = Recount(self.engine.relevant, count)
        return CompactMatches(variables, taken, self.tables.labels, most, recount)

    def freeze(self) -> Tree:
        return freeze_unary(self.engine)

    def thaw(self, tree: Tree) -> None:
        frozen = read_unary(self.unary.automaton, tree)
        if not is_known(self.tables, frozen):
            # states from outside never reach the automaton that other sessions share
            self.unary = self.unary.renew()
            self.tables, self.alphabet = self.unary.tables, self.unary.automaton.alphabet
            self.engine = UnaryEngine(self.tables, self.engine.settings)
        thaw_unary(self.engine, frozen)


def count_batches(unary: Unary, settings: Settings, slices: Sequence[ReadSlice]) -> EndAggregates:
    """Return the numbers of matches in the batches of a whole run."""
    found = []
    for base, batches, before in slices:
        aggregator = SlidingAggregator(unary.tables, settings)
        aggregator.position = base
        for batch in before:
            _aggregate(aggregator, batch)
        found += [one for batch in batches for one in _aggregate(aggregator, batch)]
    return join_found(found)


def _aggregate(aggregator: SlidingAggregator, batch: EncodedBatch) -> list[EndAggregates]:
    return [
        aggregator.push(symbols, keys=keys, **_clock(clock))
        for _, (symbols, keys, clock) in batch.cut()
    ]


def count_batch_levels(
    unary: Unary,
    settings: Settings,
    batches: Sequence[EncodedBatch],
    passed: Mapping[str, NDArray[np.int64]],
    levels: int,
    groups: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the number of matches of a whole run for each group of ends, at each level.

    `passed` has the levels of all events under the variables that thresholds look at.
    """

    def join(arrays: Iterable[Any]) -> Any:
        several = list(arrays)
        return None if several[0] is None else np.concatenate(several)

    of_ends = int(groups.max(initial=-1)) + 1
    if not batches:
        return np.zeros((of_ends, levels), np.int64)
    clocks = [_clock(batch.clock) for batch in batches]
    read = LevelInput(
        np.concatenate([batch.symbols for batch in batches]),
        join(batch.keys for batch in batches),
        *(join(clock.get(name) for clock in clocks) for name in ("clocks", "bounds", "usable")),
    )
    tables, every = unary.tables, np.full(len(read.symbols), levels)
    marked = [frozenset(names & passed.keys()) for names in tables.labels]
    kinds = list(dict.fromkeys(marked))
    least = [np.minimum.reduce([every, *(passed[name] for name in kind)]) for kind in kinds]
    events = arrange_events(tables.arrays, settings, read, np.stack(least), groups)
    of_label = np.array([kinds.index(kind) for kind in marked], np.int64)
    return count_levels(tables.arrays, events, of_label, levels, of_ends)


class SlidingFeed(Feed):
    """Encodes symbols and the values of measures, for aggregates over all matches."""

    engine: SlidingAggregator

    def __init__(
        self,
        unary: Unary,
        settings: Settings,
        encode: Encode,
        measures: Measures,
    ) -> None:
        self.unary = unary
        self.measures = measures
        self.read: list[EncodedBatch] | None = None
        """All batches of the run, for its matches to be counted at levels; None: not kept."""
        super().__init__(self._make_engine(unary, settings), unary.automaton.alphabet, encode)

    def _make_engine(self, unary: Unary, settings: Settings) -> SlidingAggregator:
        return SlidingAggregator(unary.tables, settings, tuple(self.measures))

    def read_keys(self, batch: EventBatch, read: ReadKeys) -> Keys | None:
        return self._read_moving(batch, self.engine, read)

    def take(self, batch: EventBatch, keys: Keys | None, clock: Clock | None) -> list[Any]:
        symbols, moving = self._encode_symbols(batch), self._take_moving(batch)
        self.engine.tables.add_symbols()
        self.engine.fit_tables()
        columns = self._read_measures(batch)
        encoded = EncodedBatch(symbols, keys, clock)
        if self.read is not None:
            self.read.append(encoded)
        found = []
        for piece, (some, own, ticks) in encoded.cut():
            cut = [column.cut(piece) for column in columns]
            found.append(self.engine.push(some, cut, keys=own, moving=moving, **_clock(ticks)))
        return [each for each in found if len(each.ends)]

    def _read_measures(self, batch: EventBatch) -> list[MeasuredColumn]:
        """Return the values of a batch; where these are the first fractions, all become floats."""
        columns = [
            MeasuredColumn(*read_measure(batch, path, is_real=measure.is_real, scale=measure.scale))
            if path
            else MeasuredColumn()
            for measure, path in self.measures.items()
        ]
        found = [
            replace(measure, is_real=values is not None and values.dtype == np.float64)
            for measure, (values, _) in zip(self.measures, columns, strict=True)
        ]
        if found != [*self.measures]:
            self.measures = dict(zip(found, self.measures.values(), strict=True))
            self._use_measures()
        return columns

    def _use_measures(self) -> None:
        """Go on with measures that have become floats."""
        before = self.engine
        self.engine = self._make_engine(self.unary, before.settings)
        make_real(before, self.engine)

    def find(
        self, variables: Sequence[str], taken: Sequence[Any], most: int | None, budget: Budget
    ) -> MatchSet:
        count = None
        if self.read is not None and not self.measures:
            run = self.unary, self.engine.settings, tuple(self.read)
            count = partial(count_batch_levels, *run)
        return CountedMatches(variables, taken, count)

    def freeze(self) -> Tree:
        return freeze_sliding(self.engine)

    def thaw(self, tree: Tree) -> None:
        # states and symbols from outside never reach the automaton that other sessions share
        self.unary = self.unary.renew()
        self.alphabet = self.unary.automaton.alphabet
        self.engine = self._make_engine(self.unary, self.engine.settings)
        thaw_sliding(self.engine, tree)


@frozen_record
class FrozenPairs:
    """The keys and intervals that have aggregates, in order."""

    pairs: NDArray[np.void] = array(PAIR, "pairs", columns={"key": (0, 2**31)})

    def check(self, sizes: Sizes) -> None:
        is_sorted = len(np.unique(self.pairs)) == len(self.pairs)
        is_sorted = is_sorted and bool((np.sort(self.pairs) == self.pairs).all())
        require(is_sorted, "its intervals are no pairs")


class StartFeed(SlidingFeed):
    """Encodes as `SlidingFeed` does, with the interval that each event lies in."""

    engine: StartAggregator

    def __init__(
        self,
        unary: Unary,
        settings: Settings,
        encode: Encode,
        measures: Measures,
        every: int,
        in_time: bool,
    ) -> None:
        """Intervals have `every` so many nanoseconds; `in_time` says that the window is a time."""
        super().__init__(unary, settings, encode, measures)
        self._every = every
        self._in_time = in_time
        self._tick = 1

    def _make_engine(self, unary: Unary, settings: Settings) -> StartAggregator:
        return StartAggregator(unary.tables, settings, tuple(self.measures))

    def measure(self, scale: Scale) -> None:
        if scale.unit_ns is None:
            raise DataError("GROUP BY EVERY needs a column of times")
        self._tick = scale.unit_ns

    def read_keys(self, batch: EventBatch, read: ReadKeys) -> None:
        return None  # it has a kernel of its own

    def take(self, batch: EventBatch, keys: Keys | None, clock: Clock | None) -> list[Any]:
        symbols = self._encode_symbols(batch)
        self.engine.tables.add_symbols()
        self.engine.fit_tables()
        columns = self._read_measures(batch)
        assert batch.time is not None
        intervals = self._number_intervals(batch.time)
        found = []
        for piece, (some, own, ticks) in EncodedBatch(symbols, keys, clock).cut():
            lows = self._number_intervals(ticks.bound) if ticks and self._in_time else None
            cut = [column.cut(piece) for column in columns]
            found.append(
                self.engine.push_started(
                    some, cut, intervals[piece], lows, keys=own, **_clock(ticks)
                )
            )
        return [each for each in found if len(each.ends)]

    def _use_measures(self) -> None:
        pairs = self.engine.pairs
        super()._use_measures()
        self.engine.restore_pairs(pairs)

    def _number_intervals(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of the interval that each time lies in."""
        return number_ticks(times, self._tick, self._every, "GROUP BY EVERY")

    def freeze(self) -> Tree:
        return {**super().freeze(), **write(FrozenPairs(self.engine.pairs))}

    def thaw(self, tree: Tree) -> None:
        super().thaw(tree)
        pairs = read(FrozenPairs, tree).pairs
        keys = self.engine.memory.rows["key"]
        require(is_inside(keys, -1, len(pairs)), "its intervals are no pairs")
        self.engine.restore_pairs(pairs)


@frozen_record
class FrozenMoment:
    """The words of the last time, and the position of its first event."""

    high: int = number()
    low: int = number()
    first: int = number(-1, MOST_EVENTS)


@frozen_record
class FrozenKind:
    """The kind of values that two attributes are compared by."""

    earlier: str = text()
    later: str = text()
    kind: int = number(1, OTHER + 1)


@frozen_record
class FrozenComparison:
    """The runs of an engine, and the codes of the values that they compare."""

    runs: Tree = part()
    equality: Tree = part()
    order: Tree = part()
    clock: Tree | None = optional(part())
    moment: FrozenMoment = nested(FrozenMoment)
    kinds: list[FrozenKind] = listed(nested(FrozenKind))


class CorrelatedFeed(Feed):
    """Encodes symbols, and the values that events are compared by."""

    engine: CorrelatedEngine

    def __init__(
        self, plan: Plan, tables: CorrelatedTables, encode: Encode, time_unit: str
    ) -> None:
        super().__init__(CorrelatedEngine(tables, plan.settings), tables.alphabet, encode)
        self.tables = tables
        calculated = {
            name: partial(calculate_from_table, attribute, time_unit=time_unit)
            for name, attribute in plan.calculated.items()
        }
        self.equality = Equality(tables.domains, plan.settings.partitioned, calculated)
        self.order = OrderValues(
            tables.ordered,
            tables.ordered_pairs,
            calculated,
            (tables.one_word - plan.unindexed.wide) | tables.ends,
        )
        self._time = OrderValues([TIME])
        self._moment = (0, 0, -1)
        self._kinds: dict[tuple[str, str], int] = {}
        self._why = describe_candidates(plan.pattern.formula, plan.undecided)
        self._positions = PositionClock() if tables.counts_positions else None

    def take(self, batch: EventBatch, keys: Keys | None, clock: Clock | None) -> list[Any]:
        if clock is not None and self._positions is not None:
            clock = self._positions.read(clock, batch.base)
        symbols = self._encode_symbols(batch)
        self.tables.add_symbols()
        codes = self.equality.encode(batch, keys)
        self._mark_present(batch, codes)
        self.engine.reserve_codes(self.equality.sizes())
        high, low = self.order.encode(batch)
        if self.tables.weights:
            high = np.concatenate([high, self._read_weights(batch)])
        moments = self._moments(batch) if self.tables.strict else None
        return [
            segment
            for piece in cut_events(len(batch))
            for segment in self.engine.push(
                symbols[piece],
                np.ascontiguousarray(codes[:, piece]),
                np.ascontiguousarray(high[:, piece]),
                np.ascontiguousarray(low[:, piece]),
                keys=_cut(keys, piece),
                moments=_cut(moments, piece),
                times=_cut(batch.time, piece),
                **_clock(_cut_clock(clock, piece)),
            )
        ]

    def measure(self, scale: Scale) -> None:
        self.engine.measure_gaps(scale.ticks)

    def _read_weights(self, batch: EventBatch) -> NDArray[np.int64]:
        """Return the bits of the values that are added up: NaN where there is no number."""
        rows = np.zeros((len(self.tables.weights), len(batch)))
        for row, name in zip(rows, self.tables.weights, strict=True):
            row[:] = read_weights(batch, tuple(name.split(".")))
        return rows.view(np.int64)

    def _moments(self, batch: EventBatch) -> NDArray[np.int64]:
        """Return for each event the position of the first event with its timestamp."""
        words = self._time.encode(batch)[:, 0]
        if not len(batch):
            return np.empty(0, np.int64)
        changed = np.ones(len(batch), np.bool_)
        changed[1:] = (words[:, 1:] != words[:, :-1]).any(axis=0)
        changed[0] = tuple(words[:, 0].tolist()) != tuple(self._moment[:2])
        first = np.where(changed, batch.base + np.arange(len(batch)), self._moment[2])
        moments = np.maximum.accumulate(first)
        self._moment = (*words[:, -1].tolist(), int(moments[-1]))
        return moments

    def _mark_present(self, batch: EventBatch, codes: NDArray[np.int64]) -> None:
        """Tell NaN from NULL where values are compared by !=; refuse mixed kinds."""
        names = [*dict.fromkeys(name for pair in self.tables.different for name in pair)]
        if not names:
            return
        found = dict(zip(names, kinds(batch, names), strict=True))
        for name, kind in found.items():
            row = codes[self.tables.columns[(name,)]]
            row[(row < 0) & (kind > 0)] = records.EQUALS_NOTHING
        for pair in self.tables.different:
            seen = {int(k) for name in pair for k in np.unique(found[name]) if k}
            known = self._kinds.setdefault(pair, min(seen)) if seen else 0
            if seen - {known}:
                raise DataError(
                    f"{pair[0]} and {pair[1]} are compared by !=, but hold values of different "
                    "kinds; give them one type, or declare it with CREATE STREAM"
                )

    def find(
        self, variables: Sequence[str], taken: Sequence[Any], most: int | None, budget: Budget
    ) -> MatchSet:
        found = CorrelatedMatches(variables, taken, self.tables.labels, most)
        found.tables = self.tables
        if not self.tables.apart and not self.tables.bounds:
            return found
        found.steps = np.array([0, budget.left], np.int64)
        if not self.tables.apart:
            found.spend = partial(budget.spend, why=self._why)
            return found
        listed = ListedMatches(variables, found.blocks())
        budget.spend(int(found.steps[0]), self._why)
        return listed

    def forget(self) -> None:
        counts = self.equality.value_counts()
        if max(counts, default=0) < _FORGET_CODES:
            return
        live = self.engine.live_codes()
        kept: list[NDArray[np.int64] | None] = [None] * len(live)
        for domain, codes in enumerate(live):
            if self.tables.domains[domain][0] and counts[domain] > 4 * len(codes) + _FORGET_CODES:
                kept[domain] = codes
        if any(codes is not None for codes in kept):
            self.engine.keep_codes(kept)
            for domain, kept_codes in enumerate(kept):
                if kept_codes is not None:
                    self.equality.keep_only(domain, kept_codes)

    def keep_keys(self, keys: Keys) -> None:
        super().keep_keys(keys)
        self.equality.keep_partitions(keys)
        # where a domain has no attributes, the partitions' codes are its own
        bare = [not columns[0] for columns in self.tables.domains]
        self.engine.keep_codes([keys if without else None for without in bare])

    def freeze(self) -> Tree:
        high, low, first = self._moment
        kinds = [FrozenKind(*pair, kind) for pair, kind in self._kinds.items()]
        clock = None if self._positions is None else self._positions.freeze()
        return write(
            FrozenComparison(
                freeze_correlated(self.engine),
                self.equality.freeze(),
                self.order.freeze(),
                clock,
                FrozenMoment(high, low, first),
                kinds,
            )
        )

    def thaw(self, tree: Tree) -> None:
        frozen = read(FrozenComparison, tree)
        thaw_correlated(self.engine, frozen.runs)
        self.equality.thaw(frozen.equality)
        self.order.thaw(frozen.order)
        if self._positions is not None:
            self._positions.thaw(frozen.clock or {}, self.engine.position)
        self._moment = frozen.moment.high, frozen.moment.low, frozen.moment.first
        for known in frozen.kinds:
            pair = known.earlier, known.later
            require(pair in self.tables.different, "the query compares other attributes")
            self._kinds[pair] = known.kind


def number_ticks(times: NDArray[np.int64], tick: int, size: int, clause: str) -> NDArray[np.int64]:
    """Return the number of the interval that each time lies in; both lengths are nanoseconds.

    >>> number_ticks(np.array([-1, 7, 2**62]), 10**9, 2 * 10**9, "EVERY").tolist()
    [-1, 3, 2305843009213693952]
    """
    shared = gcd(tick, size)
    factor, size = tick // shared, size // shared
    most = max(abs(int(times.min())), abs(int(times.max()))) if len(times) else 0
    if most * factor < size:  # one interval before 1970, and one since
        return np.minimum(np.sign(times), 0)
    if size < 2**63 and (factor == 1 or most * factor < 2**63):
        return times * factor // size
    if most * factor // size >= 2**63 - 1:
        raise DataError(f"{clause}: a time lies too far from 1970 to count its intervals")
    return (times.astype(object) * factor // size).astype(np.int64)


def _cut(values: NDArray[np.int64] | None, piece: slice) -> NDArray[np.int64] | None:
    return None if values is None else values[piece]


def _cut_clock(clock: Clock | None, piece: slice) -> Clock | None:
    return None if clock is None else clock.cut(piece)


def _clock(clock: Clock | None) -> dict[str, Any]:
    if clock is None:
        return {}
    return {"clocks": clock.clock, "bounds": clock.bound, "usable": clock.usable}
