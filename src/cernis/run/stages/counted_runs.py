"""Opens runs whose events reach the counts of a condition (`plan.run_counts`).

The engine asks for each run (`engine.unary.thresholds`); here are the codes of the values that it
counts. Matches are parts of runs, and share their events; with `cuts`, each later start is one.

Cost contract: codes in Arrow per batch, and the engine's O(1) for each event of a run, O(log n) for
sums. Where each start is a match, a budget bounds the matches. Decimals that are summed are read
one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import compress
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cernis.automata.unary.determinize import MARK
from cernis.encoding.compare import Equality
from cernis.encoding.encode import Encoder
from cernis.encoding.ranges import split_numbers
from cernis.engine.spans import list_indices
from cernis.engine.unary.run_sums import SumBound
from cernis.engine.unary.runtime import UnaryEngine
from cernis.engine.unary.tables import UnaryTables
from cernis.engine.unary.thresholds import (
    ALONE,
    NOTHING,
    RunEntries,
    RunSegment,
    RunThresholds,
)
from cernis.events.batch import EventBatch
from cernis.events.evaluation.attributes import attribute
from cernis.pattern import predicate as pred
from cernis.plan.run_counts import RunCondition, RunSum
from cernis.results.sets.matchset import (
    ListedMatches,
    Marks,
    MatchBlock,
    MatchSet,
    SharedSpans,
    Spans,
    share,
)
from cernis.results.terms.calculated import calculate_from_table
from cernis.run.stages.stage import CompactSets, Numbers, ReadBatch, Run, Stages
from cernis.state import (
    MOST_EVENTS,
    Tree,
    array,
    frozen_record,
    is_inside,
    part,
    read,
    require,
    write,
)

Floats = NDArray[np.float64]

_FORGET_CODES = 1 << 16
_WHY = "every start of a run is a match (SELECT MAX has one for each end)"


@frozen_record
class FrozenRunCounts:
    """The events of runs, with their codes, one row for each condition."""

    positions: Numbers = array(np.int64, "entries", low=0, below="position")
    keys: Numbers = array(np.int64, "entries", low=0, below="partitions")
    marked: NDArray[np.uint8] = array(np.uint8, "variables", "entries", below=2)
    """The variables that each event has."""
    codes: Numbers = array(np.int64, "conditions", "entries", low=ALONE, below=MOST_EVENTS)
    sums: Floats = array(np.float64, "sums", "entries")
    """What is summed: pairs of floats."""
    values: Tree = part()


class CountedRuns(CompactSets):
    """Gives the runs that reach the counts."""

    name = "runs"

    def __init__(self, run: Run, condition: RunCondition) -> None:
        super().__init__(run)
        self.condition = condition
        least = [count.least for count in condition.counts]
        self.thresholds = RunThresholds(least, sums=condition.takes_part)
        self._opened: list[RunSegment] = []
        tests = [each.test for each in condition.counts if each.test is not None]
        self._encoder, self._bars = run.encode(tests), run.encode(condition.bars)
        self._equality = Equality([], run.keys is not None)
        self._compare()

    def _compare(self) -> None:
        """Begin to number values."""
        run = self.run
        attributes = [
            each.attribute for each in self.condition.counts if each.attribute is not None
        ]
        calculated = {
            each.name: partial(calculate_from_table, each, time_unit=run.store.time_unit)
            for each in attributes
            if each.is_calculated
        }
        columns = [[(each.name,)] for each in attributes]
        self._equality = Equality(columns, run.keys is not None, calculated)

    def encoders(self) -> Iterator[Encoder]:
        yield from (self._encoder, self._bars)

    # -------------------------------------------------------------- reading

    def note(self, read: ReadBatch) -> None:
        engine = self.run.feed.engine
        assert isinstance(engine, UnaryEngine)
        engine.thresholds = self.thresholds
        codes = self._encode(read.batch, read.keys)
        self.thresholds.begin(read.batch.base, codes, *self._read_summed(read.batch))

    def _encode(self, batch: EventBatch, keys: Numbers | None) -> Numbers:
        """Return, per condition, the code of each event."""
        counts = self.condition.counts
        codes = np.full((len(counts), len(batch)), ALONE, np.int64)
        values = iter(self._equality.encode(batch, keys))
        own = self._encoder.encode(batch)
        truths = iter(np.array(self._encoder.vectors, np.bool_).T)
        for row, count in zip(codes, counts, strict=True):
            if count.test is not None:
                row[~next(truths)[own]] = NOTHING
            if count.attribute is not None:
                found = next(values)  # NaN has no code, and differs from every other
                row[found >= 0] = found[found >= 0]
        return codes

    def _read_summed(self, batch: EventBatch) -> tuple[Floats, SumBound]:
        """Return what is summed of each event, as pairs of floats, and the bound."""
        summed, bound = np.zeros((2, len(batch))), SumBound()
        if (total := self.condition.sum) is not None:
            columns = [self._find_summed(table, total.attribute) for _, table in batch.parts]
            least = _read_bound(total, columns)
            parts = iter([_read_pairs(column, total, least) for column in columns])
            summed = np.ascontiguousarray(batch.interleave(lambda _, __: next(parts)).T)
            if total.is_mean:
                least = Fraction(0)
            bound = SumBound(float(least), float(least - Fraction(float(least))), total.is_strict)
        if self.condition.bars:
            codes = self._bars.encode(batch)
            is_bar = np.array([any(vector) for vector in self._bars.vectors], np.bool_)
            summed[0, is_bar[codes]] = np.nan
        return summed, bound

    def _find_summed(self, table: pa.Table, summed: pred.Attribute) -> pa.ChunkedArray:
        """Return the column of an attribute."""
        found = attribute(table, summed.path)
        if summed.is_calculated:
            found = calculate_from_table(summed, table, time_unit=self.run.store.time_unit)
        return pa.chunked_array([pa.nulls(table.num_rows)]) if found is None else found

    # -------------------------------------------------------------- opening

    def open(self, segments: list[Any], stages: Stages) -> MatchSet:
        self._opened = [] if self.run.plan.limit == 0 else segments
        return ListedMatches(self.run.plan.variables, map(self._share, self._opened))

    def keys_of(self, ends: Numbers) -> Numbers:
        keys = np.concatenate([np.empty(0, np.int64), *(runs.key for runs in self._opened)])
        every = np.concatenate([ends[:0], *(runs.ends for runs in self._opened)])
        self._opened = []
        own: Numbers = keys[np.searchsorted(every, ends)]
        return own

    def _share(self, runs: RunSegment) -> MatchBlock:
        """Return the matches of some runs, latest start first, which share their events."""
        position, rank = runs.log.position, runs.log.rank
        first = runs.latest if self.condition.takes_part else runs.first
        table = self._mark_labels()
        alike = None if runs.label < 0 else tuple(table[:, runs.label].tolist())
        if self.condition.cuts:
            return self._cut(runs, table, alike)
        length = rank[runs.last] - rank[first] + 1
        spans = SharedSpans(length, alike, partial(_list_spans, runs, first, table))
        return share(position[first], runs.ends, spans)

    def _cut(self, runs: RunSegment, table: Marks, alike: tuple[bool, ...] | None) -> MatchBlock:
        """Return the matches that begin in these runs up to their latest starts, latest first."""
        (position, low, high), marked = _list_spans(runs, runs.first, table)
        number = runs.log.rank[runs.latest] - runs.log.rank[runs.first] + 1
        last = low + number - 1
        if (limit := self.run.plan.limit) is not None:
            number = np.minimum(number, limit)
        self.run.budget.spend(int(number.sum()), _WHY)
        number *= not self.run.budget.spent
        low, high = -list_indices(-last, number - last), np.repeat(high, number)
        spans = Spans(position, low, high)
        shared = SharedSpans(high - low, alike, lambda: (spans, marked))
        return share(position[low], position[high - 1], shared)

    def _mark_labels(self) -> Marks:
        """Return, per variable, which of the labels it has."""
        names = self.run.plan.variables
        table = [[name in each for name in names] for each in self._tables.labels]
        return np.array(table, np.bool_).T

    def _number_marks(self, marked: NDArray[np.uint8]) -> Numbers:
        """Return the label of each event that has these variables."""
        every, which = np.unique(marked, axis=1, return_inverse=True)
        names = (compress(self.run.plan.variables, one) for one in every.T)
        labels = [self._tables.label(frozenset({MARK, *own})) for own in names]
        return np.array(labels, np.int64)[which.reshape(-1)]

    @property
    def _tables(self) -> UnaryTables:
        assert isinstance(self.run.feed.engine, UnaryEngine)
        return self.run.feed.engine.tables

    # ----------------------------------------------------------- forgetting

    def forget_before(self, position: int, stages: Stages) -> None:
        self.thresholds.forget_before(position)
        codes = self.thresholds.entries.code
        counted = [row for row, each in enumerate(self.condition.counts) if each.attribute]
        live = [np.unique(codes[row][codes[row] >= 0]) for row in counted]
        spare = zip(self._equality.value_counts(), live, strict=True)
        if not any(number > 4 * len(own) + _FORGET_CODES for number, own in spare):
            return
        codes = codes.copy()
        for domain, (row, own) in enumerate(zip(counted, live, strict=True)):
            self._equality.keep_only(domain, own)
            known = codes[row] >= 0
            codes[row, known] = np.searchsorted(own, codes[row, known])
        self.thresholds.recode(codes)

    def keep_keys(self, keys: Numbers) -> None:
        self.thresholds.keep_keys(keys)
        if self.run.keys is not None:
            self._equality.keep_partitions(keys)

    # --------------------------------------------------------------- frozen

    def freeze(self, stages: Stages) -> Tree:
        position, key, label, code, summed = self.thresholds.entries
        marked = self._mark_labels()[:, label].astype(np.uint8)
        values = self._equality.freeze()
        return write(FrozenRunCounts(position, key, marked, code, summed, values))

    def thaw(self, tree: Tree) -> None:
        summed = 2 * self.condition.takes_part
        sizes = {"position": self.run.position, "partitions": self.run.partitions, "sums": summed}
        conditions, variables = len(self.condition.counts), len(self.run.plan.variables)
        frozen = read(FrozenRunCounts, tree, conditions=conditions, variables=variables, **sizes)
        self._compare()
        self._equality.thaw(frozen.values)
        bounds = iter(self._equality.sizes())
        for row, count in zip(frozen.codes, self.condition.counts, strict=True):
            most = next(bounds) if count.attribute is not None else 0
            require(is_inside(row, ALONE, most), "an event of a run has no such value")
        require(is_inside(np.diff(frozen.positions), 1), "the events of runs are not in order")
        labels = self._number_marks(frozen.marked)
        own = frozen.positions, frozen.keys, labels, frozen.codes, frozen.sums
        self.thresholds.restore(RunEntries(*own))


def _list_spans(runs: RunSegment, first: Numbers, table: Marks) -> tuple[Spans, Marks]:
    """Return the events of runs from some entries on, and which variables have them."""
    events = runs.list_events(first)
    return Spans(events.position, events.low, events.high), table[:, events.label]


def _read_bound(total: RunSum, columns: Sequence[pa.ChunkedArray]) -> Fraction:
    """Return the bound as numbers are compared with it: floats with a float, others exactly."""
    is_float = any(pa.types.is_floating(column.type) for column in columns)
    number = float(total.bound) if is_float else Decimal(str(total.bound))
    return total.factor * Fraction(number)


def _read_pairs(column: pa.ChunkedArray, total: RunSum, least: Fraction) -> Floats:
    """Return what is summed, a row for each event; of an average, what passes the bound."""
    pairs: Floats = total.factor * split_numbers(column).T
    if total.is_mean:
        known = np.asarray(column.is_valid())
        pairs[known] = _subtract(pairs[known], least)
    return pairs


def _subtract(pairs: Floats, number: Fraction) -> Floats:
    """Return pairs of floats less a number."""
    high, low = pairs.T
    other = -float(number)
    total = high + other
    part = total - high
    with np.errstate(invalid="ignore"):
        left = (high - (total - part)) + (other - part) + low - float(number + Fraction(other))
    return np.stack([total, np.where(np.isfinite(total), left, 0.0)], axis=1)
