"""Which row groups of Parquet files a task reads, where tasks read files instead of Spark.

Spark lists the files, and their footers tell how the row groups lie. Groups that do not overlap in
time are spread over the tasks in order of time, and no row is shuffled, whatever the key. The
matches do not depend on the cuts: a task reads the rows around its own ones as `slices` does.

Spark reads the files where that is not possible: other formats and file systems, columns that
Spark and Arrow read as different types, footers without times, groups that overlap, a key without
a bound in time, or too few groups for the cores.

Cost contract: each footer is read once, by this process; all tasks together read at most twice
the rows that there are.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from cernis.events.column_types import value_type
from cernis.events.order import Scale
from cernis.events.times import to_ticks
from cernis.spark.arrangement import list_parquet_files
from cernis.spark.frame import Frame
from cernis.work.carriers import carrier_of, convert
from cernis.work.row_groups import Lot, RowGroup

GAIN = 4
"""A task that reads files does the work of so many that receive rows: fewer cores are enough."""

MOST_FILES = 1000
"""The footers of more files are not read before a job is there."""


def find_files(frame: Frame, row: str | None) -> list[str]:
    """Return the Parquet files that a frame is, in the order of its rows; none if it is not."""
    source = frame.source
    if frame.joined or source.isStreaming or row is not None:
        return []
    urls = [urlsplit(file) for file in list_parquet_files(source)]
    if any(url.scheme != "file" for url in urls) or len({*urls}) < len(urls):
        return []
    return [unquote(url.path) for url in urls]


class Times(NamedTuple):
    """The column of times, what its integers count, and how times are counted."""

    column: str
    unit: str
    scale: Scale


def list_groups(
    files: Sequence[str], types: Mapping[str, pa.DataType | None], times: Times | None
) -> list[RowGroup]:
    """Return the row groups in order of time, their ends in ticks; none if they have no order.

    `types` are the columns that are read, in the types of Spark. Raises `OSError` or
    `ArrowException` for files that Arrow does not read.
    """
    found, first = [], 0
    for file in files:
        opened = pq.ParquetFile(file)
        if not _has_types(opened.schema_arrow, types):
            return []
        sizes = [opened.metadata.row_group(i).num_rows for i in range(opened.num_row_groups)]
        ends = [(0, 0)] * len(sizes)
        if times is not None:
            ends = [*_read_ends(opened, times)]
        if len(ends) < len(sizes):
            return []
        for i, (rows, (low, high)) in enumerate(zip(sizes, ends, strict=True)):
            if rows:
                found.append(RowGroup(file, i, first, rows, low, high))
            first += rows
    found.sort(key=lambda group: (group.low, group.high, group.first))
    for one, other in pairwise(found):
        if one.high > other.low or (one.high == other.low and one.first > other.first):
            return []
    return found


def number_positions(groups: Sequence[RowGroup]) -> list[RowGroup]:
    """Return groups whose ends are positions of events instead of times."""
    begins = accumulate((group.rows for group in groups), initial=0)
    return [
        group._replace(low=begin, high=begin + group.rows - 1)
        for group, begin in zip(groups, begins, strict=False)
    ]


def cut_lots(groups: Sequence[RowGroup], back: int, ahead: int, tasks: int) -> list[Lot]:
    """Spread groups over at most so many tasks, each of which reads as far around its own ones.

    >>> groups = [RowGroup("f", i, 10 * i, 10, 10 * i, 10 * i + 9) for i in range(4)]
    >>> [(len(lot.before), len(lot.own), lot.low) for lot in cut_lots(groups, 3, 0, 2)]
    [(0, 2, -3), (1, 2, 17)]
    >>> [len(lot.own) for lot in cut_lots(groups, 25, 0, 4)]
    [1, 3]
    """
    lows, highs = [group.low for group in groups], [group.high for group in groups]
    begins = [*accumulate((group.rows for group in groups), initial=0)]

    def reach(first: int, last: int) -> tuple[int, int]:
        """Return the first and the end of the groups that own groups first … last - 1 need."""
        since = bisect_left(highs, lows[first] - back)
        until = bisect_right(lows, highs[last - 1] + ahead) if ahead else last
        return min(since, first), max(until, last)

    share, cuts = begins[-1] / tasks, [0]
    for i in range(1, len(groups)):
        around = begins[i] - begins[reach(i, i + 1)[0]] + begins[reach(i - 1, i)[1]] - begins[i]
        if begins[i] - begins[cuts[-1]] >= max(share, around):
            cuts.append(i)
    lots = []
    for first, last in pairwise([*cuts, len(groups)]):
        since, until = reach(first, last)
        lots.append(
            Lot(
                tuple(groups[since:first]),
                tuple(groups[first:last]),
                tuple(groups[last:until]),
                lows[first] - back,
                highs[last - 1] + ahead,
            )
        )
    return lots


# ----------------------------------------------------------------- footers


def _has_types(schema: pa.Schema, types: Mapping[str, pa.DataType | None]) -> bool:
    """Return whether a file has the columns, once, with values that Spark reads alike."""
    return len({name.lower() for name in schema.names}) == len(schema.names) and all(
        name in schema.names
        and is_type_of_spark(schema.field(name).type)
        and carrier_of(schema.field(name).type) == type_
        for name, type_ in types.items()
    )


def is_type_of_spark(type_: pa.DataType) -> bool:
    """Return whether Spark reads values of the type from Parquet into their carrier."""
    types = pa.types
    if isinstance(type_, pa.BaseExtensionType) or carrier_of(type_) is None:
        return False
    if types.is_timestamp(type_):
        return bool(type_.unit != "ns")
    if types.is_null(type_) or types.is_time(type_) or types.is_duration(type_):
        return False
    return all(is_type_of_spark(type_.field(i).type) for i in range(type_.num_fields))


def list_statistics(metadata: pq.FileMetaData, column: str) -> Iterator[Any]:
    """Yield what a footer tells about a column in each group of rows; None: nothing."""
    for i in range(metadata.num_row_groups):
        group = metadata.row_group(i)
        columns = [group.column(j) for j in range(group.num_columns)]
        own = [c for c in columns if c.path_in_schema == column]
        yield next((c.statistics for c in own if c.is_stats_set), None)


def _read_ends(opened: pq.ParquetFile, times: Times) -> Iterator[tuple[int, int]]:
    """Yield the first and the last time of each group, in ticks; none where some is not told."""
    type_ = value_type(opened.schema_arrow.field(times.column).type)
    known = [*list_statistics(opened.metadata, times.column)]
    told = all(one is not None and one.has_min_max and one.has_null_count for one in known)
    exact = pa.types.is_integer(type_) or pa.types.is_temporal(type_)
    if not known or not told or not exact or any(one.null_count for one in known):
        return
    ends = pa.chunked_array([pa.array([end for one in known for end in (one.min, one.max)], type_)])
    assert times.scale.unit_ns is not None
    ticks, bad = to_ticks(convert(ends, carrier_of(type_)), times.unit, times.scale.unit_ns)
    if bad is None:
        yield from zip(map(int, ticks[::2]), map(int, ticks[1::2]), strict=True)
