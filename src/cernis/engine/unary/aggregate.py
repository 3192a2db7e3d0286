"""`SlidingAggregator` drives the sliding kernel: aggregates of all matches at each end.

It reads the batches that `UnaryEngine` reads, and gives per end position the number of matches
and, per `Measure`, aggregates over all pairs of a match and an event of a variable in it. It
makes no matches: it needs neither an arena nor the events once they are read.

Cost contract: Python runs per batch, per unknown state and per doubling of an array, never per
event. Per end it runs only where numbers exceed 64 bits. Numbers that do so once make all later
ones cost several residues each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import read_only
from cernis.compiled.tiers import has_code
from cernis.engine.residues import read_residues
from cernis.engine.settings import (
    CLOCK_WINDOW,
    EVENT_WINDOW,
    FOREVER,
    NO_WINDOW,
    RESOLVE_NEXT,
    Settings,
)
from cernis.engine.unary import semiring, stacks
from cernis.engine.unary import slide as kernel
from cernis.engine.unary.moving import MovingKeys
from cernis.engine.unary.semiring import NO_VALUE, Weights, new_pool
from cernis.engine.unary.tables import UnaryArrays, UnaryTables
from cernis.engine.words import Integers, join_integers, to_floats
from cernis.errors import BudgetError

MOST_WORDS = 1 << 30
_FIRST_WORDS = 1 << 14
_FIRST_LOG = 1 << 10
_NO_NUMBERS = np.empty(0, np.int64)
_NO_MASK = np.empty(0, np.uint8)
_NOT_A_NUMBER = NO_VALUE - 1
"""The code of NaN: it is the least (or greatest) value only where there is no other."""


def is_compiled() -> bool:
    """Return whether aggregates cost no compilation."""
    return has_code(kernel.slide)


@dataclass(frozen=True, slots=True)
class Measure:
    """The aggregates of one attribute over the events of a variable.

    The number of pairs with a value comes always. `is_real`: the values are floats, else int64.
    Decimals are integers: those with so many places after the point (`scale`).
    """

    variable: str
    attribute: str = ""
    is_real: bool = False
    total: bool = False
    least: bool = False
    greatest: bool = False
    scale: int = 0


class MeasuredColumn(NamedTuple):
    """The values of a measure in a batch; no values: each event counts; no mask: all are valid."""

    values: NDArray[Any] | None = None
    valid: NDArray[np.bool_] | None = None

    def cut(self, piece: slice) -> MeasuredColumn:
        """Return the values of some of the events."""
        return MeasuredColumn(*(None if each is None else each[piece] for each in self))


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredPairs:
    """The aggregates of a measure, per end; where there are no pairs, the others mean nothing."""

    pairs: Integers
    total: NDArray[Any] | None = None
    """Sums of floats are added in any order."""
    least: NDArray[Any] | None = None
    greatest: NDArray[Any] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class EndAggregates:
    """The end positions that have matches, ascending, how many, and the aggregates over them."""

    ends: NDArray[np.int64]
    counts: Integers
    measures: tuple[MeasuredPairs, ...] = ()
    intervals: NDArray[np.int64] | None = None
    """The interval in which the matches start, where an end has several (`aggregate_starts`)."""


class SlidingAggregator:
    """One query's state over one stream. The settings resolve NEXT at most, and consume nothing."""

    def __init__(
        self, tables: UnaryTables, settings: Settings, measures: Sequence[Measure] = ()
    ) -> None:
        self.tables = tables
        self._arrays = tables.arrays
        self.settings = settings
        self.measures = tuple(measures)
        self.position = 0
        self.bound = int(FOREVER)
        self._rules = settings.rules
        self._quantities = (
            [m.variable for m in measures for _ in range(1 + (m.total and not m.is_real))],
            [m.variable for m in measures if m.total and m.is_real],
            [m.variable for m in measures for _ in range(m.least + m.greatest)],
        )
        """The variables of the sums, the sums of floats, and the least values."""
        self._signed = np.zeros(len(self._quantities[0]), np.uint8)
        """Per sum, whether it has had negative values."""
        self._tightened = 0
        """How many relevant events had come when bounds were compared with exact numbers."""
        self.lanes = self.new_lanes(1)
        rows = 64 if settings.partitioned else 1
        self.memory = stacks.SlidingMemory(
            counters=np.array([1, 0, 0, rows if settings.partitioned else 0, 0], np.int64),
            pool=new_pool(_FIRST_WORDS),
            log=np.zeros(_FIRST_LOG, stacks.LOGGED_EVENT),
            log_weights=self._new_weights(_FIRST_LOG),
            rows=_new_rows(rows),
            offsets=np.zeros((rows, 8), np.int64),
            reach=np.zeros((rows, 8), np.int64),
            sum_reach=np.zeros((rows, 8), np.int64),
            loads=np.zeros((rows, 8), np.int64),
            firsts=np.zeros((rows, 8), np.int64),
            row_of_key=np.full(64, -1, np.int32),
            free_rows=np.arange(rows - 1, -1, -1).astype(np.int64),
        )
        stacks.reset_row(self.memory, self.lanes, 0)
        self._spare: stacks.SlidingMemory | None = None
        """The memory before the last copy: its pool and log are used again."""
        self._scratch = self._new_scratch(8, 64)
        self.fit_tables()

    def push(
        self,
        symbols: NDArray[np.int32],
        columns: Sequence[MeasuredColumn] = (),
        *,
        keys: NDArray[np.int64] | None = None,
        clocks: NDArray[np.int64] | None = None,
        bounds: NDArray[np.int64] | None = None,
        usable: NDArray[np.uint8] | None = None,
        begins: NDArray[np.bool_] | None = None,
        moving: MovingKeys | None = None,
    ) -> EndAggregates:
        """Read a batch of events and return the aggregates of the matches that end in it.

        Matches begin only with events that `begins` says; None: with any. `keys` may be a part of
        those of `moving`, which are not all known.
        """
        events = stacks.SlidingEvents(
            symbols,
            _NO_NUMBERS if keys is None else keys,
            read_only(_NO_NUMBERS if clocks is None else clocks),
            _NO_NUMBERS if bounds is None else bounds,
            _NO_MASK if usable is None else usable,
            _NO_MASK if begins is None else begins.view(np.uint8),
            self._weigh(columns, len(symbols)),
        )
        if keys is not None and len(keys):
            self._reserve_keys(int(keys.max()) + 1)
        found: list[EndAggregates] = []
        at = 0
        while True:
            if moving is not None and moving.fit(self._arrays.inert):
                self._reserve_keys(int(moving.numbers.max()) + 1)
            status, at, detail = kernel.slide(
                self._arrays,
                self.memory,
                self.lanes,
                events,
                self._scratch,
                self._rules,
                self.position,
                at,
            )
            if status == kernel.DONE or self.memory.counters[stacks.ENDS]:
                found.append(self._read_found())
            match status:
                case kernel.DONE:
                    break
                case kernel.UNKNOWN_STATE:
                    self.tables.expand(int(detail))
                    self.fit_tables()
                case kernel.ENDS_FULL:
                    if len(self._scratch.ends) < 1 << 16:
                        ends = 4 * len(self._scratch.ends)
                        self._scratch = self._new_scratch(len(self._scratch.gathered), ends)
                case kernel.ROWS_FULL:
                    self._advance_bound(events.bounds, at)
                    self._make_rows()
                case kernel.POOL_FULL:
                    self._advance_bound(events.bounds, at)
                    self._collect(int(detail))
                case kernel.LANES_FULL:
                    if not self._tighten(int(detail)):
                        self.widen(self.residues + max(1, self.residues // 8))
        self.position += len(symbols)
        self._advance_bound(events.bounds, -1)
        return join_found(found)

    @property
    def inert(self) -> NDArray[np.uint8]:
        """Of each symbol, whether it moves nothing in the states that are known."""
        return self._arrays.inert

    @property
    def residues(self) -> int:
        """How many residues every integer has."""
        return len(self.lanes.moduli.primes)

    @property
    def records(self) -> int:
        """How many words the vectors take, unused ones included."""
        return int(self.memory.counters[stacks.WORDS])

    @property
    def relevant(self) -> int:
        """How many events have begun or moved a partial match."""
        return int(self.memory.counters[stacks.RELEVANT])

    def earliest(self) -> int:
        """Return the position of the earliest event that is still needed: none is."""
        self.collect()
        return self.position

    # ------------------------------------------------------------- results

    def _read_found(self) -> EndAggregates:
        """Return the aggregates found since the last time."""
        lanes, number = self.lanes, int(self.memory.counters[stacks.ENDS])
        self.memory.counters[stacks.ENDS] = 0
        words = self._scratch.found[:number]

        def read_integers(quantity: int) -> Integers:
            residues = len(lanes.moduli.primes)
            first = quantity * residues
            return read_residues(words[:, first : first + residues], lanes.moduli)

        integers, reals, codes = 1, lanes.floats + 1, lanes.leasts + 1
        measured = []
        for measure in self.measures:
            pairs = read_integers(integers)
            integers += 1
            total: NDArray[Any] | None = None
            least = greatest = None
            if measure.total and measure.is_real:
                total = words[:, reals].copy().view(np.float64)
                reals += 1
            elif measure.total:
                total = read_integers(integers)
                integers += 1
            if measure.least:
                least = decode_least(words[:, codes], measure.is_real)
                codes += 1
            if measure.greatest:
                greatest = decode_least(words[:, codes], measure.is_real, negated=True)
                codes += 1
            measured.append(MeasuredPairs(pairs, total, least, greatest))
        return EndAggregates(self._scratch.ends[:number].copy(), read_integers(0), tuple(measured))

    def _weigh(self, columns: Sequence[MeasuredColumn], events: int) -> Weights:
        """Return the weights of a batch's events: 0, or the neutral code, where there is none."""
        weights = self._new_weights(events)
        integers = reals = codes = 0
        for measure, (column, valid) in zip(self.measures, columns, strict=True):
            values = np.zeros(events, np.int64) if column is None else column
            present = np.ones(events, np.bool_) if valid is None else valid
            weights.sums[:, integers] = present
            integers += 1
            if measure.total and measure.is_real:
                weights.floats[:, reals] = np.where(present, values, 0.0)
                reals += 1
            elif measure.total:
                added = np.where(present, values, 0)
                weights.sums[:, integers] = added
                self._signed[integers] |= (added < 0).any()
                integers += 1
            for negated in [False] * measure.least + [True] * measure.greatest:
                code = encode_least(values, measure.is_real, negated=negated)
                weights.leasts[:, codes] = np.where(present, code, NO_VALUE)
                codes += 1
        return weights

    # ---------------------------------------------------------------- room

    def fit_tables(self) -> None:
        """Take the tables as they are now, and make room for their states, edges and labels."""
        self._arrays, memory = self.tables.arrays, self.memory
        states, edges = len(self._arrays.expanded), len(self._arrays.edges)
        rows, width = memory.offsets.shape
        if states > width:
            self.memory = memory._replace(
                offsets=_enlarge(memory.offsets, (rows, states)),
                reach=_enlarge(memory.reach, (rows, states)),
                sum_reach=_enlarge(memory.sum_reach, (rows, states)),
                loads=_enlarge(memory.loads, (rows, states)),
                firsts=_enlarge(memory.firsts, (rows, states)),
            )
        labels, scratch = len(self.tables.labels), self._scratch
        is_larger = edges >= len(scratch.moving_edge) or states > len(scratch.gathered)
        if is_larger or labels > self.lanes.sum_labels.shape[1]:
            self.lanes = self.new_lanes(self.residues)
            self._scratch = self._new_scratch(states, len(scratch.ends))
        self._scratch = self._scratch._replace(steps=_list_steps(self._arrays, self.tables.symbols))

    def new_lanes(self, residues: int) -> semiring.Lanes:
        """Lay out elements with so many residues, and say which labels count for which quantity."""
        labels = tuple(self.tables.labels)

        def mark_labels(variables: list[str]) -> NDArray[np.uint8]:
            marks = [[variable in names for names in labels] for variable in variables]
            return np.array(marks, np.uint8).reshape(len(variables), len(labels))

        elements = len(self._arrays.expanded) + stacks.BLOCK
        lanes = semiring.new_lanes(residues, elements, *map(mark_labels, self._quantities))
        ranks = int(self.settings.resolve == RESOLVE_NEXT)
        return lanes._replace(signed=self._signed, ranks=ranks)

    def _new_weights(self, events: int) -> Weights:
        sums, floats, leasts = map(len, self._quantities)
        return Weights(
            np.zeros((events, sums), np.int64),
            np.zeros((events, floats), np.float64),
            np.zeros((events, leasts), np.int64),
        )

    def _new_scratch(self, states: int, ends: int) -> stacks.SlidingScratch:
        moves = len(self._arrays.edges) + 1
        weights = self._new_weights(1)
        return stacks.SlidingScratch(
            relevant=np.zeros(512, np.int64),
            steps=_list_steps(self._arrays, self.tables.symbols),
            moving_state=np.zeros(moves, np.int32),
            moving_edge=np.zeros(moves, np.int32),
            gathered=np.zeros(states, np.int64),
            gathered_loads=np.zeros(states, np.int64),
            gathered_firsts=np.zeros(states, np.int64),
            suffixes=np.zeros(states, np.int64),
            suffix_loads=np.zeros(states + 1, np.int64),
            lows=np.zeros(states, np.int64),
            sum_lows=np.zeros(states, np.int64),
            ranks=np.zeros(states + stacks.BLOCK, np.int64),
            touched=np.zeros(states, np.int32),
            weights=Weights(weights.sums[0], weights.floats[0], weights.leasts[0]),
            saved=np.zeros(self.lanes.words, np.int64),
            earliest=np.zeros(1, np.int64),
            result=new_pool(self.lanes.words + len(self.lanes.primes) + self.lanes.floats),
            ends=np.zeros(ends, np.int64),
            found=np.zeros((ends, self.lanes.words), np.int64),
        )

    def _reserve_keys(self, keys: int) -> None:
        have = len(self.memory.row_of_key)
        if keys > have:
            row_of_key = np.full(max(keys, 2 * have), -1, np.int32)
            row_of_key[:have] = self.memory.row_of_key
            self.memory = self.memory._replace(row_of_key=row_of_key)

    def _make_rows(self) -> None:
        """Free the rows of dead partitions, and see that a quarter of all rows is free."""
        self.collect()
        memory = self.memory
        rows, states = memory.offsets.shape
        free = int(memory.counters[stacks.FREE_ROWS])
        if 4 * free > rows:
            return
        free_rows = _enlarge(memory.free_rows, (2 * rows,))
        free_rows[free : free + rows] = np.arange(2 * rows - 1, rows - 1, -1)
        memory.counters[stacks.FREE_ROWS] = free + rows
        self.memory = memory._replace(
            rows=np.concatenate([memory.rows, _new_rows(rows)]),
            offsets=_enlarge(memory.offsets, (2 * rows, states)),
            reach=_enlarge(memory.reach, (2 * rows, states)),
            sum_reach=_enlarge(memory.sum_reach, (2 * rows, states)),
            loads=_enlarge(memory.loads, (2 * rows, states)),
            firsts=_enlarge(memory.firsts, (2 * rows, states)),
            free_rows=free_rows,
        )

    def _tighten(self, row: int) -> bool:
        """Return whether a partition needs no more residues, as its exact numbers show.

        It compares numbers only after as many events as there are pairs of states: each of these
        events then pays a constant share.
        """
        states, events = self.memory.offsets.shape[1], self.relevant
        if events - self._tightened < states * states:
            return False
        self._tightened = events
        digits = np.zeros(self.residues, np.int64)
        return bool(kernel.tighten_bounds(self.memory, self.lanes, self._scratch, row, digits))

    def widen(self, residues: int) -> None:
        """Give every number so many residues, if it has fewer."""
        old = self.lanes
        if residues <= self.residues:
            return
        self.lanes = self.new_lanes(residues)
        self._scratch = self._new_scratch(len(self._scratch.gathered), len(self._scratch.ends))
        self._copy(old, 0)

    def restore(self, memory: stacks.SlidingMemory, lanes: semiring.Lanes) -> None:
        """Go on from a memory that another aggregator of the query has collected.

        Its numbers may have other moduli, those of `lanes`.
        """
        self.memory = memory
        self._signed[:] = 1
        stacks.free_rows(memory, lanes, self._row_bounds(), self.settings.partitioned)
        self.lanes = self.new_lanes(len(lanes.moduli.primes))
        self._scratch = self._new_scratch(len(self._scratch.gathered), len(self._scratch.ends))
        self.fit_tables()
        self._copy(lanes, 0)

    # ----------------------------------------------------------- forgetting

    def _advance_bound(self, bounds: NDArray[np.int64], at: int) -> None:
        """Move the bound of the window that all partitions share."""
        if len(bounds) and self.settings.shared_clock:
            self.bound = max(self.bound, int(bounds[at]))

    def collect(self) -> None:
        """Drop the vectors and events that no event to come can use."""
        self._collect(0, with_log=True)

    def _collect(self, room: int, *, with_log: bool = False) -> None:
        partitioned = self.settings.partitioned
        stacks.free_rows(self.memory, self.lanes, self._row_bounds(), partitioned)
        self._copy(self.lanes, room, with_log=with_log)

    def _copy(self, lanes: semiring.Lanes, room: int, *, with_log: bool = False) -> None:
        """Copy what is in use to a pool and a log that have room for as much again.

        The log of one partition has no gaps. It stays, if there is room, unless `with_log`.
        """
        memory, rows = self.memory, self.memory.rows
        vectors = np.count_nonzero(memory.offsets, axis=1)
        words = (vectors + rows["fronts"]) * (
            (self.lanes.words + self.lanes.ranks) * rows["size"] + self.lanes.header + 1
        )
        size = max(_FIRST_WORDS, 2 * (int(words.sum()) + 2 * room))
        if size > MOST_WORDS:
            raise BudgetError(
                f"the aggregates of the window need more than {MOST_WORDS >> 27} GiB; narrow the "
                "window or simplify the pattern"
            )
        scratch = np.zeros((2, self.residues), np.int64)
        if len(rows) == 1 and not with_log:
            self._copy_vectors(size, lanes, scratch)
            return
        fresh = self._find_room(size, 3 * int(memory.counters[stacks.LOGGED]))
        stacks.copy_live(memory, lanes, fresh, self.lanes, scratch)
        logged = int(memory.counters[stacks.LOGGED])
        room = max(_FIRST_LOG, 3 * logged)
        if not room <= len(fresh.log) <= 4 * room:
            fresh = fresh._replace(
                log=_resize(fresh.log, logged, room),
                log_weights=Weights(*(_resize(array, logged, room) for array in fresh.log_weights)),
            )
        self.memory, self._spare = fresh, memory

    def _copy_vectors(self, words: int, lanes: semiring.Lanes, scratch: NDArray[np.int64]) -> None:
        """Copy the vectors of the one partition, and see that half of the log is free."""
        memory = self.memory
        last, logged = int(memory.rows["last"][0]), int(memory.counters[stacks.LOGGED])
        fresh = memory._replace(pool=self._find_pool(words))
        memory.rows["last"] = -1
        stacks.copy_live(memory, lanes, fresh, self.lanes, scratch)
        memory.rows["last"], memory.counters[stacks.LOGGED] = last, logged
        if 2 * logged >= len(fresh.log):
            room = max(_FIRST_LOG, 4 * logged)
            fresh = fresh._replace(
                log=_resize(fresh.log, logged, room),
                log_weights=Weights(*(_resize(array, logged, room) for array in fresh.log_weights)),
            )
        self.memory = fresh
        self._spare = memory._replace(log=memory.log[:0], log_weights=self._new_weights(0))

    def _find_room(self, words: int, events: int) -> stacks.SlidingMemory:
        """Return the memory with a pool and a log to copy to: the last ones, if they are no misfit.

        Fresh memory costs more than the copy: the system clears it page by page.
        """
        fresh, spare = self.memory._replace(pool=self._find_pool(words)), self._spare
        if spare is not None and events <= len(spare.log):
            return fresh._replace(log=spare.log, log_weights=spare.log_weights)
        events = max(_FIRST_LOG, events)
        log = np.empty(events, stacks.LOGGED_EVENT)
        return fresh._replace(log=log, log_weights=self._new_weights(events))

    def _find_pool(self, words: int) -> semiring.Pool:
        spare = self._spare
        if spare is not None and words <= len(spare.pool.words) <= 4 * words:
            return spare.pool
        return new_pool(words)

    def _row_bounds(self) -> NDArray[np.int64]:
        """Return, per row, the bound that its starts have to reach."""
        settings, rows = self.settings, self.memory.rows
        if settings.window == NO_WINDOW:
            return np.full(len(rows), FOREVER, np.int64)
        if settings.window == EVENT_WINDOW and settings.partitioned:
            return np.asarray(rows["ordinal"] - settings.size)
        if settings.window == CLOCK_WINDOW and settings.shared_clock:
            return np.asarray(np.maximum(rows["bound"], self.bound))
        return np.asarray(rows["bound"])

    def live_keys(self) -> NDArray[np.int64]:
        """Return the partitions that have partial matches, ascending (as of the last `collect`)."""
        keys = self.memory.rows["key"]
        return np.sort(keys[keys >= 0])

    def drop_keys(self, keys: NDArray[np.int64]) -> None:
        """Drop the partial matches of all partitions but these; `collect` frees their memory."""
        key_of_row = self.memory.rows["key"]
        self.memory.offsets[(key_of_row >= 0) & ~np.isin(key_of_row, keys)] = 0

    def keep_keys(self, keys: NDArray[np.int64]) -> None:
        """Renumber partitions: keys[i] becomes i; all others must have no partial matches."""
        rows = self.memory.rows
        used = np.flatnonzero(rows["key"] >= 0)
        rows["key"][used] = np.searchsorted(keys, rows["key"][used])
        row_of_key = np.full(max(64, 2 * len(keys)), -1, np.int32)
        row_of_key[rows["key"][used]] = used
        self.memory = self.memory._replace(row_of_key=row_of_key)


def encode_least(
    values: NDArray[Any], is_real: bool, *, negated: bool = False
) -> NDArray[np.int64]:
    """Return int64 codes in the order of the values, or in the opposite order."""
    if not is_real:
        codes = np.asarray(values, np.int64)
        return ~codes if negated else codes
    bits = (np.asarray(values, np.float64) + 0.0).view(np.int64)
    codes = np.asarray(bits ^ ((bits >> 63) & NO_VALUE))
    return np.where(np.isnan(values), _NOT_A_NUMBER, ~codes if negated else codes)


def decode_least(codes: NDArray[np.int64], is_real: bool, *, negated: bool = False) -> NDArray[Any]:
    values = ~codes if negated else codes.copy()
    if not is_real:
        return values
    bits = values ^ ((values >> 63) & NO_VALUE)
    return np.where(codes == _NOT_A_NUMBER, np.nan, bits.view(np.float64))


def join_found(found: Sequence[EndAggregates]) -> EndAggregates:
    """Return the aggregates of consecutive stretches as one."""
    if len(found) == 1:
        return found[0]

    def join(arrays: list[Any]) -> Any:
        return None if arrays[0] is None else np.concatenate(arrays)

    def join_totals(totals: list[Any]) -> Any:
        if totals[0] is None:
            return None
        if any(total.dtype == np.float64 for total in totals):
            return np.concatenate([to_floats(total) for total in totals])
        return join_integers(totals)

    measures = tuple(
        MeasuredPairs(
            join_integers([part.pairs for part in parts]),
            join_totals([part.total for part in parts]),
            join([part.least for part in parts]),
            join([part.greatest for part in parts]),
        )
        for parts in zip(*(each.measures for each in found), strict=True)
    )
    return EndAggregates(
        join([each.ends for each in found]),
        join_integers([each.counts for each in found]),
        measures,
        join([each.intervals for each in found]),
    )


def _list_steps(arrays: UnaryArrays, symbols: int) -> NDArray[np.void]:
    """Return the edge of each symbol that can move one state by one edge, or none."""
    steps = np.zeros(len(arrays.mover_count), stacks.STEP)
    symbol, state = np.arange(len(steps)), arrays.movers[:, 0]
    moves = arrays.mover_count == 1
    edge = arrays.edges[arrays.edge_first[state, symbol]]
    begun = arrays.edges[arrays.start_first]["target"]
    target, stay = edge["target"], arrays.stay
    enters = (stay[target, symbol] != 0) & (arrays.expanded[target] != 0) & (target != state)
    is_single = (arrays.edge_count[state, symbol] == 1) & (stay[state, symbol] != 0)
    is_simple = (
        (symbol < symbols)
        & (~moves | (is_single & ((target < 0) | enters)))
        & (arrays.mover_count <= 1)
        & (arrays.start_count <= 1)
        & ((arrays.start_count == 0) | (begun < 0) | (arrays.expanded[begun] != 0))
    )
    steps["movers"] = np.where(is_simple, arrays.mover_count, -1)
    steps["starts"] = arrays.start_count
    steps["state"], steps["target"] = state, np.where(moves, target, -1)
    steps["label"], steps["accept"] = edge["label"], edge["accept"]
    starts, begun = arrays.start_count > 0, arrays.edges[arrays.start_first]
    steps["entered"] = np.where(starts, begun["target"], -1)
    steps["accept_start"] = starts & (begun["accept"] != 0)
    return steps


def _new_rows(number: int) -> NDArray[np.void]:
    """Make rows that belong to no partition."""
    rows = np.zeros(number, stacks.ROW)
    rows["key"] = rows["last"] = -1
    rows["size"] = 1
    return rows


def _resize(array: NDArray[Any], used: int, length: int) -> NDArray[Any]:
    """Return an array of this length whose first rows are the used ones."""
    resized = np.zeros((length, *array.shape[1:]), array.dtype)
    resized[:used] = array[:used]
    return resized


def _enlarge(array: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    if prod(shape) > MOST_WORDS:
        raise BudgetError(
            f"{shape[0]:,} partitions alive at once, with {shape[-1]:,} states each, need "
            f"more than {MOST_WORDS >> 27} GiB; narrow the window or simplify the pattern"
        )
    larger = np.zeros(shape, array.dtype)
    larger[tuple(slice(0, n) for n in array.shape)] = array
    return larger
