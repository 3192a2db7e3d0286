"""Opens runs whose events reach the counts of a condition (`plan.run_counts`).

The engine asks for each run (`engine.unary.thresholds`); here are the codes of the values that it
counts. Where the later starts of a run are matches of their own, they are cut out of it.

Cost contract: codes in Arrow per batch, and the engine's O(1) for each event of a run, O(log n) for
sums. Cutting is linear in its output, and a budget bounds the matches. Decimals that are summed are
read one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cernis.encoding.compare import Equality
from cernis.encoding.encode import Encoder
from cernis.encoding.ranges import split_numbers
from cernis.engine.spans import list_indices
from cernis.engine.unary.run_sums import SumBound
from cernis.engine.unary.runtime import UnaryEngine
from cernis.engine.unary.thresholds import ALONE, NOTHING, RunSegment, RunThresholds
from cernis.events.batch import EventBatch
from cernis.events.evaluation.attributes import attribute
from cernis.pattern import predicate as pred
from cernis.plan.run_counts import RunCondition, RunSum
from cernis.results.sets.matchset import (
    ListedMatches,
    MatchBlock,
    MatchSet,
    SharedSpans,
    Spans,
    pieces,
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

_PIECE = 1 << 18
"""So many positions of a run are cut at a time."""
_FORGET_CODES = 1 << 16
_WHY = "every start of a run is a match (SELECT MAX has one for each end)"


@frozen_record
class FrozenRunCounts:
    """The events of runs, with their codes, one row for each condition."""

    positions: Numbers = array(np.int64, "entries", low=0, below="position")
    keys: Numbers = array(np.int64, "entries", low=0, below="partitions")
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
        self.thresholds.gives_segments = condition.shares
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
        if self.thresholds.gives_segments:
            return ListedMatches(self.run.plan.variables, map(self._share, segments))
        if not self.condition.cuts and not self.condition.takes_part:
            self.thresholds.drop_ends(self.run.position)
            return super().open(segments, stages)
        names = (self.condition.variable, *self.run.plan.variables)
        whole = self.run.feed.find(names, segments, None, self.run.budget)
        blocks = [piece for block in whole.blocks() for piece in pieces(block, _PIECE)]
        ends = np.concatenate([np.empty(0, np.int64), *(block.end for block in blocks)])
        latest = np.split(
            self.thresholds.find_latest(ends), np.cumsum([len(b.end) for b in blocks])
        )
        cut = map(self._cut, blocks, latest)
        return ListedMatches(self.run.plan.variables, cut)

    def _share(self, runs: RunSegment) -> MatchBlock:
        """Return the matches of some runs, latest start first, which share their events."""
        number = np.ones(len(runs.high), np.int64)
        low, last = runs.low, runs.latest if self.condition.takes_part else runs.low
        if self.condition.cuts:
            number, last = runs.latest - runs.low + 1, runs.latest
        if (limit := self.run.plan.limit) is not None:
            number = np.minimum(number, limit)
        if self.condition.cuts:
            self.run.budget.spend(int(number.sum()), _WHY)
            number *= not self.run.budget.spent
        low = -list_indices(-last, number - last)
        high = np.repeat(runs.high, number)
        assert isinstance(self.run.feed.engine, UnaryEngine)
        labels = self.run.feed.engine.tables.labels[runs.label]
        marked = [name in labels for name in self.run.plan.variables]
        start, end = runs.position[low], runs.position[high - 1]
        return share(start, end, SharedSpans(Spans(runs.position, low, high), marked))

    def _cut(self, block: MatchBlock, latest: Numbers) -> MatchBlock:
        """Return the matches that begin in these runs up to their latest starts, latest first."""
        runs = np.repeat(np.arange(len(block.end)), np.diff(block.offsets[0]))
        starts = block.positions[0]
        is_kept = starts <= latest[runs] if self.condition.cuts else starts == latest[runs]
        kept = np.flatnonzero(is_kept)
        kept = kept[np.lexsort((-starts[kept], runs[kept]))]
        runs, starts = runs[kept], starts[kept]
        if (limit := self.run.plan.limit) is not None:
            first = np.searchsorted(runs, runs)
            runs, starts = (each[np.arange(len(runs)) - first < limit] for each in (runs, starts))
        if self.condition.cuts:
            self.run.budget.spend(len(starts), _WHY)
        if self.run.budget.spent:
            runs, starts = runs[:0], starts[:0]
        offsets, positions = [], []
        width = int(block.end.max(initial=0)) + 1
        for offset, held in zip(block.offsets[1:], block.positions[1:], strict=True):
            ranks = np.repeat(np.arange(len(block.end)), np.diff(offset)) * width + held
            first = np.searchsorted(ranks, runs * width + starts)
            length = offset[runs + 1] - first
            offsets.append(np.concatenate([[0], np.cumsum(length)]))
            positions.append(held[list_indices(first, first + length)])
        return MatchBlock(starts, block.end[runs], tuple(offsets), tuple(positions))

    # ----------------------------------------------------------- forgetting

    def forget_before(self, position: int, stages: Stages) -> None:
        self.thresholds.forget_before(position)
        _, _, codes, _ = self.thresholds.entries
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
        return write(FrozenRunCounts(*self.thresholds.entries, self._equality.freeze()))

    def thaw(self, tree: Tree) -> None:
        summed = 2 * self.condition.takes_part
        sizes = {"position": self.run.position, "partitions": self.run.partitions, "sums": summed}
        frozen = read(FrozenRunCounts, tree, conditions=len(self.condition.counts), **sizes)
        self._compare()
        self._equality.thaw(frozen.values)
        bounds = iter(self._equality.sizes())
        for row, count in zip(frozen.codes, self.condition.counts, strict=True):
            most = next(bounds) if count.attribute is not None else 0
            require(is_inside(row, ALONE, most), "an event of a run has no such value")
        require(is_inside(np.diff(frozen.positions), 1), "the events of runs are not in order")
        self.thresholds.restore(frozen.positions, frozen.keys, frozen.codes, frozen.sums)


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
