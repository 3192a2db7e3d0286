"""Read the row groups of Parquet files in a task: Spark says which, and moves no row.

Crossing from the JVM to Python costs more than reading the files, the shuffle and the sort
together. Where row groups lie in order of time, a task reads its own ones with Arrow, with the
columns that the query needs, and those of its neighbours as far as a match, or its deadline,
reaches. `spark.row_groups` decides which groups a task reads.

Rows of a group that are not in order of time are sorted: such a group is read whole. Otherwise
memory is that of a batch.

Cost contract: the times of a group are read twice, and a group in each task that reaches into it.
Does not import Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from cernis.events.reading.files import ParquetReader
from cernis.work.carriers import convert
from cernis.work.columns import NOW, OWN, ROW
from cernis.work.query import QueryWork
from cernis.work.reading import recognize_rows


class RowGroup(NamedTuple):
    """A group of rows of a file: its number, that of its first row, and its ends on the line.

    The line is that of time, or of positions where windows count events.
    """

    file: str
    number: int
    first: int
    rows: int
    low: int
    high: int


class Lot(NamedTuple):
    """What a task reads: its own groups, and the rows around them between two ends."""

    before: tuple[RowGroup, ...]
    own: tuple[RowGroup, ...]
    after: tuple[RowGroup, ...]
    low: int
    high: int


@dataclass(frozen=True, kw_only=True)
class RowGroups:
    """The lots of all tasks, and the columns that they read, in the types of Spark."""

    lots: tuple[Lot, ...]
    types: Mapping[str, pa.DataType]
    by_time: bool
    """Whether the line is that of time."""
    now: int | None = None
    """The last time of the whole input."""

    @property
    def files(self) -> int:
        return len({group.file for lot in self.lots for group in lot.own})


def recognize_groups(
    work: QueryWork, groups: RowGroups, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the matches in the lots whose numbers a task receives."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from recognize_rows(work, _LotReader(work, groups).read(groups.lots[number]))


class _LotReader:
    """Reads the rows of a lot in order, in the form in which rows travel."""

    def __init__(self, work: QueryWork, groups: RowGroups) -> None:
        self.work, self.groups = work, groups
        self.types: dict[str, pa.DataType] = {}
        """Of all columns: text is a dictionary everywhere if it is one in the first file."""

    def read(self, lot: Lot) -> Iterator[pa.RecordBatch]:
        for group in (*lot.before, *lot.own, *lot.after):
            own, position = group in lot.own, group.low
            for table in self._read_group(group):
                first, last = 0, table.num_rows
                if not own:
                    line = position + np.arange(table.num_rows)
                    line = self.work.read_ticks(table) if self.groups.by_time else line
                    first, last = np.searchsorted(line, [lot.low, lot.high + 1])
                position += table.num_rows
                table = table.slice(first, last - first)
                table = table.append_column(OWN, pa.array(np.full(table.num_rows, own)))
                if self.groups.now is not None:
                    now = np.full(table.num_rows, self.groups.now)
                    table = table.append_column(NOW, pa.array(now))
                yield from table.to_batches()

    def _read_group(self, group: RowGroup) -> Iterator[pa.Table]:
        """Yield the rows of a group in order of time, with their numbers."""
        reader, names = ParquetReader(Path(group.file)), [*self.groups.types]
        if not self._is_sorted(reader, group):
            table = pa.concat_tables(self._read_columns(reader, group, names))
            order = np.argsort(self.work.read_ticks(table), kind="stable")
            yield table.take(pa.array(order)).append_column(ROW, pa.array(group.first + order))
            return
        first = group.first
        for table in self._read_columns(reader, group, names):
            rows = np.arange(first, first + table.num_rows)
            yield table.append_column(ROW, pa.array(rows))
            first += table.num_rows

    def _is_sorted(self, reader: ParquetReader, group: RowGroup) -> bool:
        time, last = self.work.reading.time_column, -(2**63)
        if time is None:
            return True
        for table in self._read_columns(reader, group, [time]):
            ticks = self.work.read_ticks(table)
            if ticks[0] < last or (ticks[1:] < ticks[:-1]).any():
                return False
            last = int(ticks[-1])
        return True

    def _read_columns(
        self, reader: ParquetReader, group: RowGroup, names: list[str]
    ) -> Iterator[pa.Table]:
        columns = self.work.streams[0].columns
        for table in reader.tables(names, [group.number]):
            fitting = {columns[name]: self._fit(name, table.column(name)) for name in names}
            yield pa.table(fitting) if names else table

    def _fit(self, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return a column in the type that it has in all batches."""
        of_spark, own = self.groups.types[name], column.type
        coded = pa.types.is_dictionary(own) and own.value_type == of_spark
        type_ = self.types.setdefault(name, own if coded else of_spark)
        if own == type_ or not pa.types.is_dictionary(type_):
            return convert(column, type_)
        return convert(column, of_spark).dictionary_encode()
