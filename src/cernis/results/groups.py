"""`Groups`: the result of a query with GROUP BY.

A group is the aggregates of its matches, not the matches. So `Groups` holds values, as an Arrow
table: `from_ts` and `to_ts` (EVERY) or `end` and `end_ts` (END), the components of the partition
that GROUP BY names, and the terms of SELECT.

Cost contract: every member is linear in its output; no match is enumerated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from cernis.errors import CernisError
from cernis.events.column_types import is_number
from cernis.results.formats.jsonlines import group_lines
from cernis.results.result import Notes
from cernis.results.table_result import TableResult
from cernis.results.values import python_records

if TYPE_CHECKING:
    from cernis.views.plot_groups import Axis, Bar

_TIMES = ("from_ts", "to_ts", "end", "end_ts")
_MOST_BARS = 10_000


@dataclass(frozen=True, slots=True)
class MatchGroup:
    """One group: when it is, its components of the partition, and its values."""

    time: dict[str, Any]
    """`from_ts` and `to_ts`, or `end` and `end_ts`."""
    partition: dict[str, Any]
    values: dict[str, Any]


class Groups(TableResult[MatchGroup]):
    """Groups of matches, by time.

    >>> groups = Groups(pa.table({"from_ts": [0], "to_ts": [60], "k": ["a"], "n": [3]}), ["k"])
    >>> groups, groups.head()[0].values
    (<1 group>, {'n': 3})
    """

    noun = ("group", "groups")

    def __init__(
        self,
        table: pa.Table,
        components: Sequence[str] = (),
        *,
        notes: Notes = (),
        partial: bool = False,
        added: Sequence[str] = (),
    ) -> None:
        """Take a table of the times, then the components, then the values.

        `added` are values that are 0 over no match, as counts and sums are.
        """
        super().__init__(table, notes, partial)
        self._added = frozenset(added)
        self._components = tuple(components)
        self._times = [name for name in _TIMES if name in table.schema.names]

    def join(self, others: Sequence[Groups]) -> Groups:
        """Return these groups and those of later batches of the same session as one result."""
        parts = [self, *others]
        table = pa.concat_tables([part._table for part in parts], promote_options="permissive")
        notes, partial = parts[-1].notes, parts[-1].partial
        return Groups(
            table, self._components, notes=notes, partial=partial, added=tuple(self._added)
        )

    def counts(self) -> pa.Table:
        """Return the groups themselves: the numbers of matches are values of theirs."""
        return self._table

    def plot(self, *values: str, width: int = 640) -> Any:
        """Return an Altair chart (extra `notebook`): a panel of bars for each number, or these.

        Between the first and the last group of `EVERY`, counts and sums are 0 in an interval
        without a group. Beyond 10,000 intervals only those with a group are drawn.
        """
        from cernis.views.plot_groups import plot_bars

        numbers = [field.name for field in self.schema if is_number(field.type)]
        names = values or tuple(n for n in numbers if n not in (*_TIMES, *self._components))
        for name in names:
            if name not in numbers:
                raise CernisError(f"{name!r} is no column of numbers: {', '.join(numbers)}")
        intervals, axis = self._find_intervals()
        return plot_bars([(name, self._list_bars(name, intervals)) for name in names], axis, width)

    def _find_intervals(self) -> tuple[list[tuple[Any, Any]], Axis]:
        """Return where each group lies on the axis of a chart."""
        if not self._times:
            return [(name, name) for name in self._name_series()], "nominal"
        first, last = (self._table.column(self._times[i]) for i in (0, -1))
        if self._times[0] == "end":
            first = last
        axis: Axis = "quantitative" if is_number(first.type) else "temporal"
        starts, ends = (_read_times(column, axis) for column in (first, last))
        return list(zip(starts, ends, strict=True)), axis

    def _list_bars(self, name: str, intervals: Sequence[tuple[Any, Any]]) -> list[Bar]:
        """Return the numbers of a column, and 0 for intervals between, per series."""
        from cernis.views.plot_groups import Bar

        series = self._name_series()
        found = self._table.column(name).to_pylist()
        bars = [
            Bar(*interval, own, float(value))
            for interval, own, value in zip(intervals, series, found, strict=True)
            if value is not None
        ]
        if self._times[:1] != ["from_ts"] or name not in self._added or not intervals:
            return bars
        size, begun = intervals[0][1] - intervals[0][0], {at for at, _ in intervals}
        number = round((max(begun) - min(begun)) / size) + 1
        if number <= _MOST_BARS:
            drawn = {(bar.series, round((bar.at - min(begun)) / size)) for bar in bars}
            edges = [min(begun) + i * size for i in range(number + 1)]
            bars += [
                Bar(edges[i], edges[i + 1], own, 0.0)
                for own in dict.fromkeys(series)
                for i in range(number)
                if (own, i) not in drawn
            ]
        return bars

    def _name_series(self) -> list[str]:
        """Return the components of each group as a text."""
        columns = [self._table.column(name).to_pylist() for name in self._components]
        return [", ".join(map(str, held)) for held in zip(*columns, strict=True)] or [""] * len(
            self
        )

    def _objects(self, batch: pa.RecordBatch) -> Iterator[MatchGroup]:
        for record in python_records(batch.to_struct_array()):
            when = {name: record.pop(name) for name in self._times}
            held = {name: record.pop(name) for name in self._components}
            yield MatchGroup(when, held, record)

    def _lines(self, limit: int | None, *, whole: bool = False) -> Iterator[pa.StringArray]:
        for batch in self._batches(limit):
            yield group_lines(batch, self._times, self._components)

    @property
    def end_type(self) -> pa.DataType:
        """The type of the times beside `lines`."""
        return self.schema.field(self._times[-1]).type if self._times else pa.int64()

    def lines(self) -> Iterator[pa.RecordBatch]:
        """Return the lines of `write_jsonl` as a column, beside the row and time of their ends.

        The number of a group in this result stands for a row or a time that it does not have.
        """
        first = 0
        for batch in self._batches(None):
            numbers = pa.array(np.arange(first, first + batch.num_rows))
            first += batch.num_rows
            rows = batch.column("end") if "end" in self._times else numbers
            times = batch.column(self._times[-1]) if self._times else numbers
            lines = group_lines(batch, self._times, self._components, "")
            yield pa.RecordBatch.from_arrays([rows, times, lines], ["end", "end_ts", "line"])

    def _table_of(self, items: Sequence[MatchGroup]) -> tuple[list[str], list[list[object]]]:
        rows: list[list[object]] = [
            [*g.time.values(), *g.partition.values(), *g.values.values()] for g in items
        ]
        return self.schema.names, rows


def _read_times(column: pa.ChunkedArray, axis: Axis) -> list[float]:
    """Return times as numbers: of their own, or milliseconds since 1970."""
    if axis == "temporal":
        column = column.cast(pa.timestamp("ns")).cast(pa.int64())
        return [time / 1_000_000 for time in column.to_pylist()]
    return [float(number) for number in column.to_pylist()]
