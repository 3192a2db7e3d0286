"""SUPPRESS BY: of the matches with equal values, report one and silence those that follow it.

A match is silenced if its end lies at most d after that of the last reported one. So of one key and
one end at most one match is reported: the first in the order of the query.

Where the key is made of components of the partition, it follows from the end. Then the compact set
gives the number of matches of each end, and one match of each reported end is listed: a flood of
matches costs no more than its ends. A key of other values lists all matches, within the budget.
The rules of a group share one suppressor (`rules.owned_suppress`).

Cost contract: a few NumPy passes and one kernel over the ends (or matches) of a batch; the numbers
of matches cost what `counts` of the match set does. State: a time and a number for each key that is
silent, or has silenced a match since its last report.
"""

from __future__ import annotations

from fractions import Fraction
from math import floor

import numpy as np
import pyarrow as pa

from cernis.encoding.keys import Tuples
from cernis.engine.settings import pack_distance
from cernis.engine.silence import MOST, NEVER, Numbers, Pushed, Silences, silence
from cernis.errors import DataError
from cernis.events.order import Scale
from cernis.events.times import to_ticks
from cernis.pattern.query import SelectedTerm, Suppression
from cernis.results.formats.columns import MatchFields, partition_columns
from cernis.results.sets.matchset import ListedMatches, MatchBlock, MatchSet, join, take
from cernis.results.sets.rooted import RootedMatches
from cernis.results.terms.term import evaluate_term
from cernis.run.stages.stage import ReadBatch, Run, Stage, Stages
from cernis.state import Sizes, Tree, array, frozen_record, part, read, require, write

CLAUSE = "SUPPRESS BY … FOR"


@frozen_record
class FrozenSilences:
    """Until when each key is silent, and how many matches it has silenced since."""

    keys: Tree = part()
    until: Numbers = array(np.int64, "known")
    silenced: Numbers = array(np.int64, "known", low=0)
    totals: Numbers = array(np.int64, 2, low=0)
    """The unit of times, or 0, and how many matches were silenced in all."""

    def check(self, sizes: Sizes) -> None:
        has_unit = bool(self.totals[0]) or not len(self.until)
        require(has_unit, "it silences matches without a unit of time")


class Suppressor(Stage):
    """Silences the matches of one run."""

    name = "silences"
    asks_keys = False
    is_chained = drops = True

    def __init__(self, run: Run, suppress: Suppression) -> None:
        super().__init__(run)
        plan, pattern = run.plan, run.plan.pattern
        self.variables = plan.variables
        self.suppress = suppress
        self.store = run.store
        self.budget = run.budget
        self._components = pattern.components
        self._fields = MatchFields.of(pattern, plan.variables)
        terms = (item for item in pattern.select.items if isinstance(item, SelectedTerm))
        self._terms = {item.name: item.term for item in terms}
        self._by_end = pattern.suppresses_by_key
        self._keys = Tuples(len(suppress.names))
        self._silences = Silences(np.empty(0, np.int64), np.empty(0, np.int64))
        self._tick: int | None = None
        self._now = int(NEVER)

    def __len__(self) -> int:
        """Return how many keys are kept."""
        return len(self._keys)

    def check_scale(self, scale: Scale) -> None:
        scale.ticks(self.suppress.length, CLAUSE)

    def note(self, read: ReadBatch) -> None:
        """Learn the unit of times, and how far time has come; an error where there are no times."""
        self.check_scale(read.scale)
        self._tick, times = read.scale.unit_ns, read.batch.time
        if times is not None and len(times):
            self._now = int(times[-1])

    def choose(self, found: MatchSet, stages: Stages, *, last: bool) -> MatchSet:
        """Return the matches that are reported, each with the number silenced before it."""
        if self._by_end and isinstance(found, RootedMatches):
            return ListedMatches(self.variables, [self._choose_ends(found)])
        block = self._list(found)
        if not len(block.end):
            return ListedMatches(self.variables, [block])
        columns = [self._read_values(name, block) for name in self.suppress.names]
        numbers = np.ones(len(block.end), np.int64)
        suppressed = self._silence(block.end, self._encode(columns), numbers)
        kept = np.flatnonzero(suppressed >= 0)
        chosen = take(block, kept)._replace(suppressed=suppressed[kept])
        return ListedMatches(self.variables, [chosen])

    def _choose_ends(self, found: RootedMatches) -> MatchBlock:
        """Return one match of each end that is reported; the others are counted, not listed."""
        ends, numbers = count_ends(found)
        if not len(ends):
            return join([], len(self.variables))
        suppressed = self._silence(ends, self._encode_ends(ends), numbers)
        kept = suppressed >= 0
        block = join(list(found.of_ends(ends[kept])), len(self.variables))
        block = take(block, np.argsort(block.end, kind="stable"))
        return block._replace(suppressed=suppressed[kept])

    def _list(self, found: MatchSet) -> MatchBlock:
        """Return the matches one by one, in the order of ends."""
        if isinstance(found, ListedMatches):
            return found.block
        blocks = []
        for block in found.blocks():
            blocks.append(block)
            self.budget.spend(len(block.end), "SUPPRESS BY a value lists all matches")
            if self.budget.spent:
                break
        block = join(blocks, len(self.variables))
        return take(block, np.argsort(block.end, kind="stable"))

    def _read_values(self, name: str, block: MatchBlock) -> pa.Array:
        if name in self._terms:
            return evaluate_term(self._terms[name], block, self.variables, self.store)
        columns = partition_columns(block.end, self._fields, self.store)
        return columns[self._components.index(name)]

    def _encode_ends(self, ends: Numbers) -> list[Numbers]:
        """Return the codes of the named components, of matches with these ends."""
        columns = partition_columns(ends, self._fields, self.store)
        return self._encode([columns[self._components.index(n)] for n in self.suppress.names])

    def _encode(self, columns: list[pa.Array]) -> list[Numbers]:
        """Return the codes of values, column by column."""
        pairs = zip(self._keys.components, columns, strict=True)
        return [numbering.codes(pa.chunked_array([column])) for numbering, column in pairs]

    def _silence(
        self, ends: Numbers, parts: list[Numbers], numbers: Numbers, length: Numbers | None = None
    ) -> Numbers:
        """Return how many were silenced before each end or match that is reported; -1: it is not.

        `ends` ascend; `parts` are the codes of the components of their keys. `length` is the
        time of each, in ticks; None: all have the time of the clause.
        """
        codes = self._keys.codes(parts)
        self._reserve(len(self._keys))
        if length is None:
            length = np.full(len(ends), self._count_ticks(self.suppress.length), np.int64)
        suppressed = np.empty(len(ends), np.int64)
        pushed = Pushed(codes, self._read_times(ends), numbers, length)
        silence(self._silences, pushed, suppressed)
        reported = int((suppressed >= 0).sum())
        self.silenced = min(self.silenced + int(numbers.sum(dtype=object)) - reported, int(MOST))
        return suppressed

    def _count_ticks(self, length: Fraction) -> int:
        assert self._tick is not None
        return pack_distance(floor(length / self._tick))

    def _read_times(self, ends: Numbers) -> Numbers:
        """Return the times of ends, in ticks of the stream."""
        assert self._tick is not None
        times = pa.chunked_array([self.store.times(ends)])
        ticks, bad = to_ticks(times, self.store.time_unit, self._tick)
        if bad is not None and bad.any():
            raise DataError(f"{CLAUSE}: a match ends at a time that is out of range")
        return ticks

    def _reserve(self, keys: int) -> None:
        more = keys - len(self._silences.until)
        if more > 0:
            more += len(self._silences.until)
            until, silenced = self._silences
            self._silences = Silences(
                np.concatenate([until, np.full(more, NEVER, np.int64)]),
                np.concatenate([silenced, np.zeros(more, np.int64)]),
            )

    # ----------------------------------------------------------- forgetting

    def forget_before(self, position: int, stages: Stages) -> None:
        """Drop the keys that are silent no more and have silenced nothing since."""
        now, first = self._now, stages.first_end()
        if first is not None:
            now = min(now, int(self._read_times(np.array([first]))[0]))
        number = len(self._keys)
        until, silenced = (array[:number] for array in self._silences)
        live = np.flatnonzero((until >= now) | (silenced > 0))
        if 2 * len(live) < number:
            self._keep(live)

    def _keep(self, keys: Numbers) -> None:
        """Drop all keys but these, which ascend."""
        until, silenced = self._silences
        self._keys.keep_only(keys)
        self._silences = Silences(until[keys].copy(), silenced[keys].copy())

    # -------------------------------------------------------------- frozen

    def freeze(self, stages: Stages) -> Tree:
        number = len(self._keys)
        until, silenced = (each[:number] for each in self._silences)
        totals = np.array([self._tick or 0, self.silenced], np.int64)
        return write(FrozenSilences(self._keys.freeze(), until, silenced, totals))

    def thaw(self, tree: Tree) -> None:
        frozen = read(FrozenSilences, tree)
        self._keys.thaw(frozen.keys)
        require(len(frozen.until) == len(self._keys), "a key is missing")
        self._silences = Silences(frozen.until.copy(), frozen.silenced.copy())
        tick, self.silenced = frozen.totals.tolist()
        self._tick = tick or None


def count_ends(found: RootedMatches) -> tuple[Numbers, Numbers]:
    """Return the ends that have matches, ascending, and how many each has, at most MOST."""
    ends, counts = found.counts()
    order = np.argsort(ends, kind="stable")
    return ends[order], np.array([min(number, MOST) for number in counts], np.int64)[order]
