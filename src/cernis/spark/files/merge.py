"""Merge the matches of all tasks into the order of the embedded engine.

Each task writes its matches to a file, in order of (end_ts, end), or where deadlines count events,
of (deadline_ts, end); those of rules in order of (rule, end_ts, end). This process merges the
files: it holds a block of rows of each, and rows up to the earliest last row among the blocks are
final. No two tasks have matches of one end.

Turned down: `orderBy`, for which Spark runs the whole query twice, once to learn where the
matches lie; and `collect` or `toLocalIterator`, which hold a whole task's matches in memory.

Cost: each match is written and read once more than necessary; memory for one block of rows.
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
_LATEST = 2**63 - 1


@contextmanager
def write_matches(
    matches: Any, schema: pa.Schema, order: Sequence[str], parent: Path, *, sort: bool
) -> Iterator[MatchFiles]:
    """Have Spark write the matches to files inside of `parent`, and delete them afterwards.

    `schema` has the columns of the matches in Arrow's types, which Parquet does not always
    keep. `order` names the columns of a match's time, of its row, and of its rank among the
    matches of that row; those of rules have the number of the rule before them. `sort` the matches
    of each task first, where it does not find them in order.
    """
    columns = [f"c{schema.names.index(name)}" for name in order]
    data = matches.toDF(*(f"c{i}" for i in range(len(schema))))
    if sort:
        data = data.sortWithinPartitions(*(F.col(name).asc_nulls_last() for name in columns))
    folder = Path(tempfile.mkdtemp(prefix=".cernis-", dir=parent))
    try:
        counted = Observation()
        written = folder / "matches"
        data.observe(counted, F.count(F.lit(1)).alias(_NUMBER)).write.parquet(f"file://{written}")
        files = MatchFiles(
            schema, columns[: max(2, len(order) - 1)], sorted(written.glob("part-*.parquet"))
        )
        if files.count != counted.get[_NUMBER]:
            raise CernisError(
                f"{parent}: other machines ran the query, and what they wrote there is not to be "
                "seen here; name an output in a folder that all of them share"
            )
        yield files
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class MatchFiles:
    """The files that the tasks have written; each is in order."""

    def __init__(self, schema: pa.Schema, order: Sequence[str], files: Sequence[Path]) -> None:
        self.schema, self.order, self.files = schema, list(order), files
        self.count = sum(pq.read_metadata(file).num_rows for file in files)

    def column(self, name: str) -> Iterator[pa.Array]:
        """Yield the chunks of one column, in no order."""
        for file in self.files:
            for batch in _open(file).iter_batches(columns=[f"c{self.schema.names.index(name)}"]):
                yield batch.column(0)

    def merge(self) -> Iterator[pa.Table]:
        """Yield all rows, in order."""
        size = max(_FEWEST, _ROWS // max(1, len(self.files)))
        cursors = [_Cursor(file, self.order, size) for file in self.files]
        cursors = [cursor for cursor in cursors if cursor.table is not None]
        while len(cursors) > 1:
            horizon = min(cursor.last for cursor in cursors)
            taken = pa.concat_tables([cursor.take(horizon) for cursor in cursors])
            cursors = [cursor for cursor in cursors if cursor.table is not None]
            keys = pa.table([_comparable(taken.column(name)) for name in self.order], self.order)
            order = pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in self.order])
            yield self._cast(taken.take(order))
        for cursor in cursors:
            yield from map(self._cast, cursor.rest())

    def _cast(self, table: pa.Table) -> pa.Table:
        return table.rename_columns(self.schema.names).cast(self.schema)


class _Cursor:
    """A position in one file; the rows before it are merged."""

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
        """Take the rows of the block up to the horizon."""
        assert self.table is not None
        number = pc.sum(_is_up_to(self._keys, horizon)).as_py()
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


def _is_up_to(keys: Sequence[pa.ChunkedArray], horizon: tuple[Any, ...]) -> pa.ChunkedArray:
    """Return which rows come before the horizon, or at it.

    >>> keys = [pa.chunked_array([[1, 2, 2]]), pa.chunked_array([[9, 3, 4]])]
    >>> _is_up_to(keys, (2, 3)).to_pylist()
    [True, True, False]
    """
    key, limit = keys[0], pa.scalar(horizon[0], keys[0].type)
    if len(keys) == 1:
        return pc.less_equal(key, limit)
    rest = pc.and_(pc.equal(key, limit), _is_up_to(keys[1:], horizon[1:]))
    return pc.or_(pc.less(key, limit), rest)


def _open(file: Path) -> pq.ParquetFile:
    # a page at a time: the row groups of all files at once would need too much memory
    return pq.ParquetFile(file, memory_map=True, pre_buffer=False, coerce_int96_timestamp_unit="us")


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return times as numbers, which Python compares whatever their zone; NULL is the latest.

    >>> _comparable(pa.chunked_array([pa.array([0, None], pa.date32())])).to_pylist()
    [0, 9223372036854775807]
    """
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    if pa.types.is_timestamp(column.type) or pa.types.is_integer(column.type):
        column = column.cast(pa.int64())
    return column.fill_null(_LATEST) if column.null_count else column
