"""`RowFeed`: takes rows in order, with masks and values, and gives the rows of matches.

It owns the matcher and the encoding of its input: truth values become a matrix of flags, times
become numbers, and texts in conditions that depend on the path become their ranks. A host calls it
with whole partitions, in Arrow; what comes back says which rows form which match, in NumPy.

Cost contract: linear in the rows and in the rows of matches, besides the matcher.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cernis.compiled.tiers import expect_events
from cernis.engine.rows.match import find_limits, match_rows
from cernis.engine.rows.search import PathConditions, search_rows
from cernis.engine.rows.tables import (
    BEGUN,
    BUDGET,
    FIRST_ROW,
    NO_TARGET,
    OPEN,
    FoundRows,
    PartitionedRows,
    close_partitions,
)
from cernis.errors import BudgetError, DataError, Diagnostic, QueryError
from cernis.plan.rows.kinds import TypedValue, ValueKind, type_programs
from cernis.plan.rows.matcher import (
    CLASSIFIER,
    EXCLUDED,
    MATCH,
    NUMBER,
    PARTITION,
    PLACE,
    RANK,
    TIME,
    UNTIL,
    RowMatcher,
    name_mask,
    name_value,
)

Numbers = NDArray[np.int64]

DEFAULT_BUDGET = 100_000_000
"""How many transitions a search may try, where conditions depend on the path."""
_FEW_STEPS = 20_000
_EXACT = float(1 << 53)


class MatchedRows(NamedTuple):
    """The rows of matches, match by match; a row may be in several."""

    rows: Numbers
    """The index of each row in the table."""
    starts: Numbers
    """The index of the first row of its match."""
    numbers: Numbers
    """The number of its match in the partition, from 1 on; 0: no match has the row."""
    offsets: Numbers
    """Its offset in the match, from 0 on."""
    variables: Numbers
    """The number of its variable; negative: none, of an empty match or a row without one."""
    excluded: NDArray[np.bool_]


class EarlierRows(NamedTuple):
    """What a stream knows of the rows that it holds."""

    done: NDArray[np.bool_]
    """Per row, whether the search has passed it."""
    begun: NDArray[np.bool_]
    """Per row, whether its partition had rows that are not held."""
    numbers: Numbers
    """Per row, how many matches its partition has had."""
    now: float
    """No row before this time comes any more, in microseconds; infinity: the input has ended."""


class OpenSearch(NamedTuple):
    """Where the searches in open partitions have stopped."""

    partitions: Numbers
    """Per row, the number of its partition."""
    stops: Numbers
    """Per partition, the row at which the search goes on."""
    matches: Numbers
    """Per partition, how many matches were found."""
    deadlines: NDArray[np.float64]
    """Per partition, the time that decides its search when it has passed, in microseconds."""


class SliceMatches(NamedTuple):
    """Matches that may begin in a slice, by their first rows; they are numbered from 1 on."""

    matched: MatchedRows
    starts: Numbers
    nexts: Numbers
    """The row at which the search goes on after each; negative: why it cannot."""


@dataclass
class RowFeed:
    """A matcher at work."""

    matcher: RowMatcher
    budget: int = DEFAULT_BUDGET

    def match(self, table: pa.Table) -> MatchedRows:
        """Return the rows of matches of a table that has whole partitions, in order.

        Rows that fit no variable may be missing.
        """
        return self.match_part(table, begun=False, goes_on=False)[0]

    def match_part(
        self, table: pa.Table, *, begun: bool, goes_on: bool, number: int = 0
    ) -> tuple[MatchedRows, int]:
        """Return the rows of matches that are certain, and the row at which the search goes on.

        `begun`: rows of the first partition were there before, with a number of matches. `goes_on`:
        others of the last one may follow.
        """
        ranks = np.asarray(table.column(RANK), np.int64)
        size = len(ranks)
        partitions = np.asarray(table.column(PARTITION), np.int64)
        broken = np.ones(size, np.bool_)
        broken[1:] = (partitions[1:] != partitions[:-1]) | (ranks[1:] != ranks[:-1] + 1)
        bounds = np.append(np.flatnonzero(broken), size).astype(np.int64)
        limits = self.read_limits(table, bounds)
        rows = close_partitions(bounds, self.read_masks(table), limits)
        if size and begun:
            rows.flags[0] |= BEGUN
            rows.numbers[0] = number
        if size and goes_on:
            rows.flags[-1] |= OPEN
            limits[bounds[-2] :] += limits[bounds[-2] :] == size
        found = self._find(rows, table)
        return self._expand(found, partitions), int(found.stops[-1]) if size else 0

    def match_open(self, table: pa.Table, earlier: EarlierRows) -> tuple[MatchedRows, OpenSearch]:
        """Return the matches that no row to come can change, and where the searches go on.

        The table has the rows of each partition that are held, all of them, in order.
        """
        partitions = np.asarray(table.column(PARTITION), np.int64)
        size = len(partitions)
        begins = np.ones(size, np.bool_)
        begins[1:] = partitions[1:] != partitions[:-1]
        bounds = np.append(np.flatnonzero(begins), size).astype(np.int64)
        heads, sizes = bounds[:-1], np.diff(bounds)
        own = np.repeat(np.arange(len(heads)), sizes)
        is_open = not np.isinf(earlier.now)
        limits, ends = bounds[1:][own] + is_open, np.full(size, np.inf)
        if self.matcher.has_limits:
            limits = self.read_limits(table, bounds)
            ends = _to_numbers(table.column(UNTIL))
            limits = limits + ((limits == bounds[1:][own]) & (ends > earlier.now))
        done = np.add.reduceat(earlier.done, heads, dtype=np.int64) if size else heads
        flags = OPEN * is_open + BEGUN * earlier.begun[heads].astype(np.int64)
        firsts = heads + done
        holds = self.read_masks(table)
        had = earlier.numbers[heads]
        rows = PartitionedRows(bounds, holds, limits, firsts, flags, firsts, bounds[1:], had)
        found = self._find(rows, table)
        matched = self._expand(found, partitions)
        before = earlier.numbers[matched.rows]
        numbers = np.where(matched.numbers > 0, matched.numbers + before, 0)
        waits = np.full(len(heads), np.inf)
        waiting = found.stops < bounds[1:]
        waits[waiting] = ends[found.stops[waiting]]
        count = np.bincount(own[found.starts[found.lengths >= 0]], minlength=len(heads))
        search = OpenSearch(own, found.stops, count, waits)
        return matched._replace(numbers=numbers), search

    def match_slice(
        self, table: pa.Table, own: int, entries: tuple[int, int]
    ) -> SliceMatches | None:
        """Return the matches of a slice of a partition that begin at one of its `own` first rows.

        The search begins at any of the rows from the first to the last entry; matches that only
        some of these searches find are there, too. None: finding them costs too much.
        """
        bounds = np.array([0, table.num_rows], np.int64)
        limits = self.read_limits(table, bounds)
        first, last, until, flags = (np.array([n], np.int64) for n in (*entries, own, 0))
        own_rows = (limits, first, flags, last, until, np.zeros(1, np.int64))
        rows = PartitionedRows(bounds, self.read_masks(table), *own_rows)
        found = self._search(rows, table)
        if found.status == BUDGET and entries[0] < entries[1]:
            return None
        self.check(found.status)
        found = _sort_matches(found)
        matched = self._expand(found, np.zeros(table.num_rows, np.int64))
        return SliceMatches(matched, found.starts, found.nexts)

    def _find(self, rows: PartitionedRows, table: pa.Table) -> FoundRows:
        found = self._search(rows, table)
        self.check(found.status)
        return found

    def _search(self, rows: PartitionedRows, table: pa.Table) -> FoundRows:
        own = self.matcher
        if own.registers is None or own.programs is None:
            expect_events(len(rows.holds) * max(own.size // 4, 1))
            found = match_rows(own.tables, rows, own.skipping)
        else:
            values = self.read_conditions(table)
            few = min(self.budget, _FEW_STEPS)
            expect_events(len(rows.holds))
            found, _ = search_rows(own.tables, rows, own.skipping, values, few)
            if found.status == BUDGET and self.budget > few:
                expect_events(self.budget)  # so many steps are for compiled code
                found, _ = search_rows(own.tables, rows, own.skipping, values, self.budget)
        return found

    def check(self, status: int) -> None:
        """Raise why a search ended before its rows did."""
        own = self.matcher
        if status == BUDGET:
            raise BudgetError(
                f"the search for PATTERN has tried {self.budget:,} transitions; a larger budget "
                "lets it go on, and conditions on single rows (see explain) need none",
                own.pattern_span,
            ).locate(own.text)
        if status in (NO_TARGET, FIRST_ROW):
            why = "is the first row of the match: the search would not end"
            if status == NO_TARGET:
                why = "is no row of the match"
            message = f"AFTER MATCH SKIP TO: {own.target} {why}"
            raise QueryError([Diagnostic(message, own.target_span)], own.text)

    # ----------------------------------------------------------------- encoding

    def read_masks(self, table: pa.Table) -> NDArray[np.bool_]:
        """Return, for each row and variable, whether the host's part of the condition holds."""
        masks = self.matcher.masks
        holds = np.ones((table.num_rows, len(masks)), np.bool_)
        for number, computed in enumerate(masks):
            if computed:
                column = table.column(name_mask(number))
                if not pa.types.is_boolean(column.type):
                    column = column.cast(pa.bool_())
                holds[:, number] = column.to_numpy()
        return holds

    def read_limits(self, table: pa.Table, bounds: Numbers) -> Numbers:
        """Return, for each row, the row before which a match ends that begins there."""
        if not self.matcher.has_limits:
            return np.repeat(bounds[1:], np.diff(bounds))
        times, ends = (_to_numbers(table.column(name)) for name in (TIME, UNTIL))
        if np.isnan(times).any():
            raise DataError("WITHIN: a row has no time, or none that can be compared")
        return find_limits(bounds, times, ends)

    def read_conditions(self, table: pa.Table) -> PathConditions:
        """Return the conditions that depend on the path, with the values that they look at."""
        own = self.matcher
        assert own.registers is not None
        assert own.programs is not None
        columns = [table.column(name_value(i)).combine_chunks() for i in range(own.values)]
        types = [TypedValue(_find_kind(each.type), _find_digits(each.type)) for each in columns]
        spans = own.condition_spans
        programs = type_programs(own.programs, own.registers, types, spans, own.text)
        values = np.empty((table.num_rows, own.values), np.float64)
        texts = [i for i, one in enumerate(types) if one.kind is ValueKind.TEXT]
        ranks = _rank_texts([columns[i] for i in texts])
        for i, column in enumerate(columns):
            values[:, i] = ranks.pop(0) if i in texts else _to_numbers(column)
            is_float = pa.types.is_floating(column.type)
            if is_float and np.isnan(values[:, i]).sum() > column.null_count:
                raise DataError(
                    "a condition compares rows of the match, and a value is NaN, which has no "
                    "order here; make it NULL: NULLIF(value, 'NaN')"
                )
        return PathConditions(own.registers, programs, values)

    # ------------------------------------------------------------------ matches

    def _expand(self, found: FoundRows, partitions: Numbers) -> MatchedRows:
        """Return the rows of all matches, numbered within their partitions."""
        starts, lengths = found.starts, found.lengths
        matched = lengths >= 0
        numbers = _number_matches(partitions[starts], matched)
        shown = matched
        if self.matcher.shows_unmatched:
            shown = matched | ~_find_covered(starts, lengths)
        sizes = np.where(shown, np.maximum(lengths, 1), 0)
        total = int(sizes.sum())
        first = np.cumsum(sizes) - sizes
        own = np.repeat(np.arange(len(starts)), sizes)
        offsets = np.arange(total) - first[own]
        variables = np.full(total, -1, np.int64)
        excluded = np.zeros(total, np.bool_)
        labelled = np.repeat(lengths > 0, sizes)
        variables[labelled] = found.labels >> 1
        excluded[labelled] = (found.labels & 1).astype(np.bool_)
        return MatchedRows(
            starts[own] + offsets, starts[own], numbers[own], offsets, variables, excluded
        )


def describe_rows(matched: MatchedRows, numbers: Numbers, matcher: RowMatcher) -> dict[str, Any]:
    """Return the columns that measures are computed over; `numbers` are those of the rows."""
    codes = pa.array(matched.variables.astype(np.int32), mask=matched.variables < 0)
    names = pa.array(matcher.variables, pa.string())
    return {
        MATCH: pa.array(numbers[matched.starts]),
        NUMBER: pa.array(matched.numbers, mask=matched.numbers == 0),
        PLACE: pa.array(matched.offsets),
        CLASSIFIER: pa.DictionaryArray.from_arrays(codes, names).cast(pa.string()),
        EXCLUDED: pa.array(matched.excluded),
    }


def _sort_matches(found: FoundRows) -> FoundRows:
    """Return the matches by their first rows, without the rows at which none begins."""
    kept = np.flatnonzero(found.lengths >= 0)
    order = kept[np.argsort(found.starts[kept], kind="stable")]
    sizes = np.maximum(found.lengths, 0)
    begins = (np.cumsum(sizes) - sizes)[order]
    own = np.repeat(np.arange(len(order)), sizes[order])
    offsets = np.arange(len(own)) - (np.cumsum(sizes[order]) - sizes[order])[own]
    return found._replace(
        starts=found.starts[order],
        lengths=found.lengths[order],
        nexts=found.nexts[order],
        labels=found.labels[begins[own] + offsets],
    )


def _number_matches(partitions: Numbers, matched: NDArray[np.bool_]) -> Numbers:
    """Number the matches of each partition from 1 on; 0: no match."""
    running = np.cumsum(matched)
    first = np.ones(len(partitions), np.bool_)
    first[1:] = partitions[1:] != partitions[:-1]
    before = np.where(first, running - matched, 0)
    numbers: Numbers = np.where(matched, running - np.maximum.accumulate(before), 0)
    return numbers


def _find_covered(starts: Numbers, lengths: Numbers) -> NDArray[np.bool_]:
    """Return which searches begin at a row of an earlier match."""
    ends = np.maximum.accumulate(starts + np.maximum(lengths, 0))
    covered = np.zeros(len(starts), np.bool_)
    covered[1:] = starts[1:] < ends[:-1]
    return covered


def _find_kind(type_: pa.DataType) -> ValueKind:
    """Return what a column's values stand for; those of other types have no order here."""
    types = pa.types
    whole = types.is_integer(type_) or types.is_boolean(type_)
    if types.is_null(type_):
        return ValueKind.ANY
    if _is_text(type_):
        return ValueKind.TEXT
    if whole or (types.is_decimal(type_) and type_.scale == 0):
        return ValueKind.WHOLE
    if types.is_timestamp(type_):
        return ValueKind.TIME if type_.tz is None else ValueKind.ZONED
    if types.is_date(type_):
        return ValueKind.DATE
    if types.is_time(type_):
        return ValueKind.CLOCK
    return ValueKind.INTERVAL if types.is_duration(type_) else ValueKind.NUMBER


def _find_digits(type_: pa.DataType) -> int | None:
    """Return how many digits decimals have after their point; None: these are none, or whole."""
    return type_.scale if pa.types.is_decimal(type_) and type_.scale > 0 else None


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_dictionary(kind)
    )


def _rank_texts(columns: list[Any]) -> list[NDArray[np.float64]]:
    """Return texts as their ranks among all of them; NaN is NULL."""
    if not columns:
        return []
    plain = [column.cast(pa.string()) for column in columns]
    joined = pa.chunked_array(plain).dictionary_encode().combine_chunks()
    if isinstance(joined, pa.ChunkedArray):
        joined = joined.chunk(0)
    words = joined.dictionary
    order = np.empty(len(words), np.float64)
    order[np.asarray(pc.sort_indices(words))] = np.arange(len(words))
    codes = joined.indices
    ranks = np.full(len(codes), np.nan)
    valid = np.asarray(codes.is_valid())
    ranks[valid] = order[np.asarray(codes.drop_null())]
    return np.split(ranks, np.cumsum([len(column) for column in plain])[:-1])


def _to_numbers(column: Any) -> NDArray[np.float64]:
    """Return numbers, truth values and times as floating-point numbers; NaN is NULL.

    Times and durations count microseconds.
    """
    kind = column.type
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    if pa.types.is_date(kind):
        column = column.cast(pa.timestamp("us"))
        kind = column.type
    scale, digits = 1.0, None
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_time(kind):
        scale = {"s": 1e6, "ms": 1e3, "us": 1.0, "ns": 1e-3}[kind.unit]
        column = column.cast(pa.int32() if pa.types.is_time32(kind) else pa.int64())
    elif pa.types.is_interval(kind):
        raise DataError("a condition compares intervals of rows; compare times instead")
    elif not (
        pa.types.is_boolean(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
    ):
        raise DataError(f"a condition compares values of type {kind}, which have no order here")
    elif pa.types.is_int64(kind) or pa.types.is_uint64(kind) or pa.types.is_decimal(kind):
        digits = _find_digits(kind)
        bounds = pc.min_max(column).as_py()
        if max(abs(bounds["min"] or 0), abs(bounds["max"] or 0)) * 10 ** (digits or 0) > _EXACT:
            told = "decimals of more than 15 digits" if digits else "whole numbers beyond 2^53"
            raise DataError(f"a condition compares {told}; cast them to text")
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    numbers: NDArray[np.float64] = np.asarray(
        column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        if isinstance(column, pa.Array)
        else column.cast(pa.float64(), safe=False).to_numpy()
    )
    if digits:  # Arrow's numbers are not always the nearest ones
        return np.rint(numbers * 10.0**digits) / 10.0**digits
    return numbers * scale if scale != 1.0 else numbers
