"""ORDER BY: the matches of one end, or the best of an interval of time, by the value of a term.

Where the term is a sum of weights of events (`plan.weights`), LIMIT takes the best of each end from
the compact set, and the others are never listed. Otherwise matches are listed, within the budget,
and sorted. NULL and NaN come last. Of equal values the latest start comes first.

With `LIMIT k EVERY d` the best so far of each interval and partition wait until time has passed the
interval. Of equal values the earliest end comes first.

Cost contract: by weight, one walk over the nodes inside the window for each end, then linear in the
matches that are kept; else linear in all matches, and a sort. State: k matches for each open
interval and partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cernis.engine.unary.arena import ArenaSegment
from cernis.engine.unary.best import find_reachable
from cernis.errors import DataError
from cernis.events.store import EventStore
from cernis.pattern.query import OrderBy
from cernis.pattern.write import write_term
from cernis.plan.plan import Plan
from cernis.results.columns import MatchFields, partition_columns
from cernis.results.distinct import number_distinct
from cernis.results.matchset import ListedMatches, MatchBlock, MatchSet, join, take
from cernis.results.term import evaluate_term
from cernis.results.unary import CompactMatches
from cernis.run.budget import Budget
from cernis.run.group import number_intervals
from cernis.run.waiting import Numbers, WaitingMatches

_LARGEST = 2**62
_BEFORE_ALL = -(2**63)


class BestFirst:
    """Orders the matches of one pipeline, and holds the best of open intervals."""

    def __init__(self, plan: Plan, order: OrderBy, store: EventStore, budget: Budget) -> None:
        self.variables = plan.variables
        self.order = order
        self.most = plan.pattern.limit
        self.weights = plan.weights
        self.store = store
        self.budget = budget
        self.waiting = WaitingMatches(len(plan.variables))
        self.time = _BEFORE_ALL
        """Up to where time has passed without events, in nanoseconds."""
        self._fields = MatchFields.of(plan.pattern, plan.variables)

    def choose(self, found: MatchSet, position: int, first: int | None) -> ListedMatches:
        """Return the matches in order; with EVERY, those of intervals that time has passed.

        `position` is the end of the stream so far, or -1: no further event comes. `first` is the
        earliest end of a match that is not certain yet.
        """
        block = self._list(found)
        every = self.order.every
        if every is None:
            return ListedMatches(self.variables, [self._sort(block, [_number_ends(block.end)])])
        block = join([self._empty_waiting(), block], len(self.variables))
        if not len(block.end):
            return ListedMatches(self.variables, [block])
        numbers = self._number_intervals(block.end)
        kept = self._sort(block, [numbers, *self._number_partitions(block.end)])
        is_open = np.zeros(len(kept.end), np.bool_)
        if position >= 0:
            now = self._number_intervals(np.array([position - 1 if first is None else first]))[0]
            if first is None:
                now = max(now, self.time // int(every))
            is_open = self._number_intervals(kept.end) >= now
        held = take(kept, np.flatnonzero(is_open))
        self.waiting.add(held, np.zeros(len(held.end), np.int64))
        return ListedMatches(self.variables, [take(kept, np.flatnonzero(~is_open))])

    def find_first_end(self, first: int | None) -> int | None:
        """Return the time, in nanoseconds, at which the next interval with a match ends.

        None: there is none, or a match that is not certain yet may join it; `first` is the
        earliest end of such a match.
        """
        every, ends = self.order.every, self.waiting.intervals.ends
        if every is None or not len(ends):
            return None
        number = int(self._number_intervals(ends).min())
        if first is not None and number >= self._number_intervals(np.array([first]))[0]:
            return None
        return (number + 1) * int(every)

    def _number_intervals(self, ends: Numbers) -> Numbers:
        assert self.order.every is not None
        return number_intervals(self.store, ends, int(self.order.every), "LIMIT … EVERY")

    def _empty_waiting(self) -> MatchBlock:
        everything = np.ones(len(self.waiting), np.bool_)
        return self.waiting.take(everything, ~everything)

    # -------------------------------------------------------------- listing

    def _list(self, found: MatchSet) -> MatchBlock:
        """Return the matches one by one: the best of each end, or all."""
        width = len(self.variables)
        if isinstance(found, ListedMatches):
            return found.block
        if isinstance(found, CompactMatches) and self.weights is not None and self.most is not None:
            best = found.best(self._weigh, self.most)
            if best is not None:
                return join(best, width)
        blocks = []
        for block in found.blocks():
            blocks.append(block)
            self.budget.spend(len(block.end), "ORDER BY lists all matches")
            if self.budget.spent:
                break
        block = join(blocks, width)
        if self.budget.spent:  # the best of the last end may be missing
            if self.order.every is not None:
                self._empty_waiting()
                return join([], width)
            block = take(block, np.flatnonzero(block.end != block.end[-1]))
        return block

    def _weigh(
        self, segment: ArenaSegment, labels: Sequence[frozenset[str]]
    ) -> NDArray[Any] | None:
        """Return the weight of each node; None where a value is no number."""
        nodes = find_reachable(segment)
        label, positions = segment.arena["label"][nodes], segment.arena["position"][nodes]
        total: NDArray[Any] = np.zeros(len(nodes), np.int64)
        largest = 0.0
        for weight in self.weights or ():
            holds = np.array([weight.variable in names for names in labels])[label]
            values: NDArray[Any] | None = np.ones(1, np.int64)
            if weight.attribute is not None:
                column = self.store.column(positions[holds], weight.attribute)
                values = _read_numbers(column)
            if values is None:
                return None
            largest += abs(weight.factor) * float(np.abs(values.astype(np.float64)).max(initial=0))
            part = values * weight.factor
            total = total.astype(np.result_type(total, part))
            total[holds] += part
        if total.dtype == np.int64 and largest * len(nodes) >= _LARGEST:
            return None
        weights = np.zeros(int(segment.roots["node"].max(initial=0)) + 1, total.dtype)
        weights[nodes] = total if self.order.descending else -total
        return weights

    # -------------------------------------------------------------- sorting

    def _sort(self, block: MatchBlock, groups: Sequence[Numbers]) -> MatchBlock:
        """Return the matches by group and value, at most `most` of each group."""
        if not len(block.end):
            return block
        values = evaluate_term(self.order.term, block, self.variables, self.store)
        rank = self._rank(values)
        by_end = [-block.start, block.end] if self.order.every is not None else [-block.start]
        place = np.lexsort((*by_end, rank, *reversed(groups)))
        if self.most is not None:
            changes = np.zeros(len(place), np.bool_)
            for group in groups:
                changes[1:] |= group[place][1:] != group[place][:-1]
            first = np.maximum.accumulate(np.where(changes, np.arange(len(place)), 0))
            place = place[np.arange(len(place)) - first < self.most]
        return take(block, place)

    def _rank(self, values: pa.Array) -> Numbers:
        """Return the place of each value in the order; equal values have one."""
        if isinstance(values, pa.DictionaryArray):
            values = values.dictionary_decode()
        if pa.types.is_duration(values.type) or pa.types.is_boolean(values.type):
            values = values.cast(pa.int64())
        if pa.types.is_null(values.type):
            return np.zeros(len(values), np.int64)
        try:
            ranks = pc.rank(
                values,
                sort_keys="descending" if self.order.descending else "ascending",
                tiebreaker="dense",
            )
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
            term = write_term(self.order.term)
            raise DataError(f"ORDER BY {term}: {values.type} has no order") from error
        return np.asarray(ranks).astype(np.int64)

    def _number_partitions(self, ends: Numbers) -> list[Numbers]:
        """Return a number for each component of the partition, by its first match."""
        columns = partition_columns(ends, self._fields, self.store)
        return [number_distinct(column) for column in columns]


def _number_ends(ends: Numbers) -> Numbers:
    """Return the number of each end, in the order in which ends come.

    >>> _number_ends(np.array([4, 4, 2, 7])).tolist()
    [0, 0, 1, 2]
    """
    _, first, which = np.unique(ends, return_index=True, return_inverse=True)
    order = np.empty(len(first), np.int64)
    order[np.argsort(first)] = np.arange(len(first))
    return order[which]


def _read_numbers(column: pa.Array) -> NDArray[Any] | None:
    """Return a column of numbers without NULL and NaN; None for any other."""
    if column.null_count:
        return None
    if pa.types.is_floating(column.type):
        floats = np.asarray(column.cast(pa.float64()))
        return floats if np.isfinite(floats).all() else None
    if not pa.types.is_integer(column.type):
        return None
    try:
        return np.asarray(column.cast(pa.int64()))
    except pa.ArrowInvalid:
        return None
