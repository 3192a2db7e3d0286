"""ORDER BY: the matches of one end, or the best of an interval or the input, by a term's value.

Where the term is a sum of weights of events (`plan.weights`), LIMIT takes the best of each end from
the compact set, and the others are never listed. Otherwise matches are listed, within the budget,
and sorted. NULL and NaN come last. Of equal values the latest start comes first.

With `LIMIT k EVERY d` the best so far of each interval and partition wait until time has passed the
interval. Of equal values the earliest end comes first.

With `LIMIT k OVERALL` the best so far of the input, or of each partition, wait until it ends.
Of equal values the earliest end comes first, then the earliest start; of one interval, the match
that marks the first event that only one of two marks. Blocks of matches are added and pruned one
after the other, so that there are never more than some blocks.

Cost contract: by weight, one walk over the nodes inside the window for each end, then linear in the
matches that are kept; else linear in all matches, and a sort. State: k matches for each open
interval and partition. Of OVERALL, the events of its matches outlast their batches; of others,
the events since the first that waits stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cernis.engine.unary.arena import ArenaSegment
from cernis.engine.unary.best import find_reachable
from cernis.errors import DataError, WarningNote
from cernis.events.order import Scale
from cernis.pattern.advice import limit_per_end
from cernis.pattern.advice.limit_per_end import counts_ends, describe_idle_limit
from cernis.pattern.query import OrderBy, Overall
from cernis.pattern.write import write_term
from cernis.results.formats.columns import MatchFields, partition_columns
from cernis.results.sets.matchset import ListedMatches, MatchBlock, MatchSet, join, take
from cernis.results.sets.unary import CompactMatches
from cernis.results.sortable import list_sortable
from cernis.results.terms.distinct import number_distinct
from cernis.results.terms.term import evaluate_term
from cernis.run.stages.groups import number_intervals
from cernis.run.stages.stage import Numbers, Run, Stage, Stages
from cernis.run.stages.waiting import WaitingMatches
from cernis.state import Tree

_LARGEST = 2**62
_BEFORE_ALL, _AFTER_ALL = -(2**63), 2**63 - 1
_PRUNED = 1 << 16
"""So many matches are compared with the best so far at once, or as many as these are."""


class BestFirst(Stage):
    """Orders the matches of one run, and holds the best of open intervals."""

    name = "best"
    asks_keys = False
    drops = True

    def __init__(self, run: Run, order: OrderBy) -> None:
        super().__init__(run)
        plan = run.plan
        self.variables = plan.variables
        self.order = order
        self.waits = self.heeds_time = plan.pattern.ranks_intervals or plan.pattern.ranks_overall
        self.is_chained = plan.pattern.ranks_overall
        self.most = plan.pattern.limit
        self.weights = plan.weights
        self.store = run.store
        self.budget = run.budget
        self.waiting = WaitingMatches(len(plan.variables))
        self.time = _BEFORE_ALL
        """Up to where time has passed without events, in nanoseconds."""
        self.given = 0
        """How many matches LIMIT has left, where it counts those of each end."""
        self.has_cut = False
        """Whether it has left one out."""
        self._fields = MatchFields.of(plan.pattern, plan.variables)

    def advance(self, time: int, scale: Scale) -> list[Any]:
        if scale.unit_ns is not None:
            self.time = time * scale.unit_ns
        return []

    def choose(self, found: MatchSet, stages: Stages, *, last: bool) -> ListedMatches:
        """Return the matches in order; with EVERY, those of intervals that time has passed."""
        if self.order.overall is not None:
            return self._choose_overall(found, last=last)
        block = join(tuple(self._list(found)), len(self.variables))
        if self.budget.spent:  # the best of the last end may be missing
            if self.order.every is not None:
                self._empty_waiting()
                return ListedMatches(self.variables, ())
            block = take(block, np.flatnonzero(block.end != block.end[-1]))
        every = self.order.every
        if every is None:
            kept = self._sort(block, [_number_ends(block.end)])
            self.has_cut = self.has_cut or len(kept.end) < len(block.end)
            self.given += len(kept.end)
            return ListedMatches(self.variables, [kept])
        block = join([self._empty_waiting(), block], len(self.variables))
        if not len(block.end):
            return ListedMatches(self.variables, [block])
        numbers = self._number_intervals(block.end)
        kept = self._sort(block, [numbers, *self._number_partitions(block.end)])
        is_open = np.zeros(len(kept.end), np.bool_)
        if not last:
            first = stages.first_end()
            until = self.run.position - 1 if first is None else first
            now = self._number_intervals(np.array([until]))[0]
            if first is None:
                now = max(now, self.time // int(every))
            is_open = self._number_intervals(kept.end) >= now
        held = take(kept, np.flatnonzero(is_open))
        self.waiting.add(held, np.zeros(len(held.end), np.int64))
        return ListedMatches(self.variables, [take(kept, np.flatnonzero(~is_open))])

    def _choose_overall(self, found: MatchSet, *, last: bool) -> ListedMatches:
        """Add matches to the best so far; return these if no further event comes."""
        width = len(self.variables)
        kept, fresh, number = self._empty_waiting(), list[MatchBlock](), 0
        for block in self._list(found):
            fresh.append(block)
            number += len(block.end)
            if number >= max(_PRUNED, len(kept.end)):
                kept, fresh, number = self._keep_best(join([kept, *fresh], width)), [], 0
        kept = self._keep_best(join([kept, *fresh], width))
        if self.budget.spent:  # a better one may be missing
            kept = join([], width)
        if last:
            return ListedMatches(self.variables, [kept])
        self.waiting.add(kept, np.zeros(len(kept.end), np.int64))
        return ListedMatches(self.variables, ())

    def list_held(self) -> Numbers:
        """Return the positions of the events that the best so far of OVERALL need, ascending."""
        if self.order.overall is None or not len(self.waiting):
            return np.empty(0, np.int64)
        return np.unique(np.concatenate(_list_positions(self.waiting.listed)))

    def evaluate(self, block: MatchBlock) -> list[Any]:
        """Return the values that matches are ordered by, as numbers where they can be."""
        values = evaluate_term(self.order.term, block, self.variables, self.store)
        return list_sortable(values)

    def next_deadline(self, scale: Scale, stages: Stages) -> int | None:
        """Return the time at which the next interval with a match ends.

        None: there is none, or a match that is not certain yet may join it.
        """
        every, ends, first = self.order.every, self.waiting.intervals.ends, stages.first_end()
        if every is None or not len(ends):
            return None
        number = int(self._number_intervals(ends).min())
        if first is not None and number >= self._number_intervals(np.array([first]))[0]:
            return None
        end = (number + 1) * int(every)
        return end if scale.unit_ns is None else -(-end // scale.unit_ns) - 1

    # ---------------------------------------------------------------- state

    def held_ends(self) -> Numbers:
        return self.waiting.intervals.ends

    def earliest(self, position: int) -> int:
        return position if self.order.overall is not None else self.waiting.earliest(position)

    def freeze(self, stages: Stages) -> Tree:
        return {**self.waiting.freeze()}

    def thaw(self, tree: Tree) -> None:
        first = 0 if self.order.overall is not None else self.run.kept_from
        self.waiting.thaw(tree, first, self.run.position)

    # ---------------------------------------------------------------- notes

    def describe_waits(self, *, endless: bool, last: bool) -> Iterator[str]:
        if self.order.overall is not None and not last:
            yield "LIMIT … OVERALL reports its matches when the input ends: finish() gives them"

    def warn_at_end(self) -> Iterator[WarningNote]:
        """Yield a warning where LIMIT has left nothing out."""
        plan, pattern = self.run.plan, self.run.plan.pattern
        if not counts_ends(pattern) or self.has_cut:
            return
        is_known = any(warning.code == limit_per_end.CODE for warning in plan.warnings)
        if self.given > (pattern.limit or 0) and not is_known:
            found = describe_idle_limit(pattern, "and no end has more")
            yield WarningNote.of(found, pattern.source)

    # ------------------------------------------------------------- choosing

    def _number_intervals(self, ends: Numbers) -> Numbers:
        assert self.order.every is not None
        return number_intervals(self.store, ends, int(self.order.every), "LIMIT … EVERY")

    def _empty_waiting(self) -> MatchBlock:
        everything = np.ones(len(self.waiting), np.bool_)
        return self.waiting.take(everything, ~everything)

    # -------------------------------------------------------------- listing

    def _list(self, found: MatchSet) -> Iterator[MatchBlock]:
        """Yield the matches one by one: the best of each end, or all."""
        if isinstance(found, ListedMatches):
            yield found.block
            return
        if isinstance(found, CompactMatches) and self.weights is not None and self.most is not None:
            scope = self.order.overall
            # one more, to see whether LIMIT leaves one out
            more = 1 if scope is None and self.order.every is None and not self.has_cut else 0
            best = found.best(
                self._weigh,
                self.most + more,
                earliest=scope is not None,
                overall=scope is Overall.INPUT,
            )
            if best is not None:
                yield from best
                return
        for block in found.blocks():
            yield block
            self.budget.spend(len(block.end), "ORDER BY lists all matches")
            if self.budget.spent:
                return

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
        order = np.lexsort((*by_end, rank, *reversed(groups)))
        if self.most is not None:
            order = order[_count_before(order, groups) < self.most]
        return take(block, order)

    def _keep_best(self, block: MatchBlock) -> MatchBlock:
        """Return the best of all matches, or of each partition, in their order."""
        if not len(block.end) or self.most is None:
            return block
        values = evaluate_term(self.order.term, block, self.variables, self.store)
        rank = _break_ties([self._rank(values), block.end, block.start], block, self.variables)
        if self.order.overall is Overall.INPUT:
            return take(block, np.argsort(rank)[: self.most])
        groups = self._number_partitions(block.end)
        order = np.lexsort((rank, *reversed(groups)))
        order = order[_count_before(order, groups) < self.most]
        return take(block, order[np.argsort(rank[order])])

    def _rank(self, values: pa.Array) -> Numbers:
        """Return the rank of each value in the order; equal values have one."""
        if isinstance(values, pa.DictionaryArray):
            values = values.dictionary_decode()
        if pa.types.is_duration(values.type) or pa.types.is_boolean(values.type):
            values = values.cast(pa.int64())
        if pa.types.is_floating(values.type):  # NaN is as NULL, and -0.0 + 0.0 is 0.0
            values = pc.add(values.cast(pa.float64()), 0.0)
            values = pc.if_else(pc.is_nan(values), None, values)
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


def _count_before(order: Numbers, groups: Sequence[Numbers]) -> Numbers:
    """Return how many come before each in its group, in an order in which groups are together."""
    changes = np.zeros(len(order), np.bool_)
    for group in groups:
        changes[1:] |= group[order][1:] != group[order][:-1]
    return _count_since(changes)


def _count_since(changes: NDArray[np.bool_]) -> Numbers:
    """Return how far back the last change lies.

    >>> _count_since(np.array([False, False, True, False])).tolist()
    [0, 1, 0, 1]
    """
    indices = np.arange(len(changes))
    return indices - np.maximum.accumulate(np.where(changes, indices, 0))


def _list_positions(block: MatchBlock) -> list[Numbers]:
    return [block.start, block.end, *block.positions]


def _break_ties(columns: Sequence[Numbers], block: MatchBlock, variables: Sequence[str]) -> Numbers:
    """Return the rank of each match in the order of these columns, then of its marks.

    Of two matches that the columns do not tell apart, that comes first which marks the first event
    that only one of them marks; in one event, the variables decide by their names.
    """
    order = np.lexsort(tuple(reversed(columns)))
    ranks = np.empty(len(order), np.int64)
    since = _count_before(order, columns)
    ranks[order] = np.arange(len(order)) - since
    tied = order[(since > 0) | np.append(since[1:] > 0, False)]
    codes, offsets = _write_marks(take(block, tied), variables)
    at, until = offsets[:-1], offsets[1:]
    while len(tied):
        # the marks of one step decide; a match without a further one comes last
        code = np.append(codes, _AFTER_ALL)[np.where(at < until, at, len(codes))]
        order = np.lexsort((code, ranks[tied]))
        tied, at, until, code = tied[order], at[order] + 1, until[order], code[order]
        groups, indices = [ranks[tied], code], np.arange(len(tied))
        since = _count_before(indices, groups)
        ranks[tied] += _count_before(indices, groups[:1]) - since
        still = ((since > 0) | np.append(since[1:] > 0, False)) & (code != _AFTER_ALL)
        tied, at, until = tied[still], at[still], until[still]
    return ranks


def _write_marks(block: MatchBlock, variables: Sequence[str]) -> tuple[Numbers, Numbers]:
    """Return a number for each mark of each match, ascending, and where those of a match begin."""
    names = sorted(variables)
    nothing = np.empty(0, np.int64)
    matches, codes = [nothing], [nothing]
    for name, offsets, positions in zip(variables, block.offsets, block.positions, strict=True):
        matches.append(np.repeat(np.arange(len(block.end)), np.diff(offsets)))
        codes.append(positions * len(names) + names.index(name))
    match, code = np.concatenate(matches), np.concatenate(codes)
    counts = np.bincount(match, minlength=len(block.end))
    return code[np.lexsort((code, match))], np.concatenate([[0], np.cumsum(counts)])


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
