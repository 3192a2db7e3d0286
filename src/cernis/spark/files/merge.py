"""Matches out of Spark in the order of the embedded engine, however many there are.

Each task writes what it finds to a file of its own, in order of (end_ts, end). The files are
then merged by this process: a block of rows of each is in memory, and whatever lies at or
before the earliest last row among the blocks is final. No two tasks have matches of one end.

Turned down: `orderBy`, for which Spark runs the whole query twice, once to learn where the
matches lie; and `collect` or `toLocalIterator`, which hold a whole task's matches in memory.

Cost: each match is written and read once more than it must be; memory for one block.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Observation
from pyspark.sql import functions as F

from cernis.errors import CernisError

_ROWS = 1 << 17
_FEWEST = 1 << 9
_NUMBER = "rows"


@contextmanager
def parts_of(
    matches: Any, schema: pa.Schema, order: Sequence[str], place: Path, *, sort: bool
) -> Iterator[Parts]:
    """What Spark finds, in files inside of `place` that are gone afterwards.

    `schema` has the columns of the matches in Arrow's types, which Parquet does not tell in
    all cases. `order` names those of a match's time, its row, and its place among the matches
    of that row. `sort` what each task finds first, where it has not found it in order.
    """
    columns = [f"c{schema.names.index(name)}" for name in order]
    data = matches.toDF(*(f"c{i}" for i in range(len(schema))))
    if sort:
        data = data.sortWithinPartitions(*columns)
    folder = Path(tempfile.mkdtemp(prefix=".cernis-", dir=place))
    try:
        counted = Observation()
        written = folder / "parts"
        data.observe(counted, F.count(F.lit(1)).alias(_NUMBER)).write.parquet(f"file://{written}")
        parts = Parts(schema, columns[:2], sorted(written.glob("part-*.parquet")))
        if parts.count != counted.get[_NUMBER]:
            raise CernisError(
                f"{place}: other machines ran the query, and what they wrote there is not to be "
                "seen here; name an output in a folder that all of them share"
            )
        yield parts
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Parts:
    """The files that the tasks have written; each is in order."""

    def __init__(self, schema: pa.Schema, order: Sequence[str], files: Sequence[Path]) -> None:
        self.schema, self.order, self.files = schema, list(order), files
        self.count = sum(pq.read_metadata(file).num_rows for file in files)

    def column(self, name: str) -> Iterator[pa.Array]:
        """One column, in no order."""
        for file in self.files:
            for batch in _open(file).iter_batches(columns=[f"c{self.schema.names.index(name)}"]):
                yield batch.column(0)

    def merged(self) -> Iterator[pa.Table]:
        """All rows, in order."""
        size = max(_FEWEST, _ROWS // max(1, len(self.files)))
        runs = [_Run(file, self.order, size) for file in self.files]
        runs = [run for run in runs if run.table is not None]
        while len(runs) > 1:
            horizon = min(run.last for run in runs)
            taken = pa.concat_tables([run.take(horizon) for run in runs])
            runs = [run for run in runs if run.table is not None]
            keys = pa.table([_comparable(taken.column(name)) for name in self.order], self.order)
            order = pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in self.order])
            yield self._typed(taken.take(order))
        for run in runs:
            yield from map(self._typed, run.rest())

    def _typed(self, table: pa.Table) -> pa.Table:
        return table.rename_columns(self.schema.names).cast(self.schema)


class _Run:
    """How far one file has been merged."""

    def __init__(self, file: Path, order: Sequence[str], size: int) -> None:
        self._order = order
        self._batches = _open(file).iter_batches(batch_size=size)
        self._advance()

    def _advance(self) -> None:
        self.table: pa.Table | None = None
        for batch in self._batches:
            if batch.num_rows:
                self.table = pa.Table.from_batches([batch])
                self._keys = [_comparable(self.table.column(name)) for name in self._order]
                self.last = tuple(key[-1].as_py() for key in self._keys)
                return

    def take(self, horizon: tuple[Any, ...]) -> pa.Table:
        """The rows of the block up to the horizon."""
        assert self.table is not None
        time, end = self._keys
        earlier = pc.less(time, pa.scalar(horizon[0], time.type))
        same = pc.equal(time, pa.scalar(horizon[0], time.type))
        upto = pc.or_(earlier, pc.and_(same, pc.less_equal(end, horizon[1])))
        number = pc.sum(upto).as_py()
        taken = self.table.slice(0, number)
        if number == len(self.table):
            self._advance()
        else:
            self.table = self.table.slice(number)
            self._keys = [key.slice(number) for key in self._keys]
        return taken

    def rest(self) -> Iterator[pa.Table]:
        while self.table is not None:
            yield self.table
            self._advance()


def _open(file: Path) -> pq.ParquetFile:
    # a page at a time: whole row groups of all files at once would be too much
    return pq.ParquetFile(file, memory_map=True, pre_buffer=False, coerce_int96_timestamp_unit="us")


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times as numbers, which Python compares whatever their zone."""
    if pa.types.is_date32(column.type):
        return column.cast(pa.int32())
    return column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
