"""Row numbers: which row of the input an event is.

Matches report row numbers "in the order given", and events at the same time keep that
order. A DataFrame has such an order (`show` and `collect` go by it) but no numbers. They come,
in order of preference, from

* a column that the user names;
* Parquet files read as they are: Spark knows the row in each file, and files go by name.
  Filters still reach the files;
* the index in the partition, plus the sizes of the partitions before, if counting and reading
  see the same partitions (`arrangement.has_fixed_partitions`). Filters cannot pass such
  numbers on their way to the source;
* `monotonically_increasing_id`, whose numbers have gaps: they have the right order, and tell
  events apart.

The same query counts the sizes, over no column at all. Cost: for Parquet, the files' footers;
otherwise the DataFrame is computed twice, once without its columns. Turned down: numbering by
sorting, which moves every row; counting partitions whose number Spark chooses at run time by
size, which differs between the two reads and would lose rows.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, Window
from pyspark.sql import functions as F

from cernis.spark.arrangement import has_fixed_partitions, is_parquet, is_small
from cernis.spark.frame import Frame, rename_by_index
from cernis.work.columns import ROW

_INDEX, _BEFORE, _GROUP = "@index", "@before", "@group"


def number_rows(frame: Frame, row: str | None) -> Any:
    """Add a column of row numbers to a frame's data."""
    if frame.joined:
        return frame.data
    if row is not None:
        return frame.data.withColumn(ROW, frame.columns[row][0].cast("bigint"))
    names, source = frame.data.columns, frame.source
    if is_parquet(source):
        index, group = F.col("_metadata.row_index"), F.col("_metadata.file_path")
        if is_small(source) and len(source.inputFiles()) == 1:
            return rename_by_index(source, index).toDF(*names, ROW)
        return _add_offsets(source, names, index, group)
    identity = F.monotonically_increasing_id()
    if not has_fixed_partitions(source):
        return frame.data.withColumn(ROW, identity)
    index, group = identity.bitwiseAND(F.lit((1 << 33) - 1)), F.shiftright(identity, 33)
    return _add_offsets(source, names, index, group)


def number_file_rows(source: Any, files: int) -> Any:
    """Add row numbers to so many Parquet files, read as they are."""
    index = F.col("_metadata.row_index")
    if files == 1:
        return source.select("*", index.alias(ROW))
    names = [f"c{i}" for i in range(len(source.columns))]
    return _add_offsets(source, names, index, F.col("_metadata.file_path")).toDF(
        *source.columns, ROW
    )


def has_fixed_numbers(frame: Frame, row: str | None) -> bool:
    """Return whether rows have the same numbers each time they are read."""
    return row is not None or is_parquet(frame.source) or has_fixed_partitions(frame.source)


def describe_numbers(frame: Frame, row: str | None) -> str:
    """Return, in words, where the numbers come from."""
    if row == ROW:
        return "the files, one after the other"
    if row is not None:
        return f"the column {row!r}"
    if is_parquet(frame.source):
        return "the Parquet files, in the order of their names"
    if has_fixed_partitions(frame.source):
        return "the order of the DataFrame, which is computed twice (a row= column saves that)"
    return "the order of the DataFrame, with gaps (a row= column would say better)"


def count_rows(source: Any) -> Column:
    """Count the rows of a DataFrame, for the numbers of the one after it."""
    number: Column = source.agg(F.count(F.lit(1)).alias("n")).scalar()
    return number


def _add_offsets(source: Any, names: list[str], index: Column, group: Column) -> Any:
    """Add to each row its index in its group plus the sizes of the groups before."""
    indexed = rename_by_index(source, index, group).toDF(*names, _INDEX, _GROUP)
    sizes = source.select(group.alias(_GROUP)).groupBy(_GROUP).agg(F.count(F.lit(1)).alias("n"))
    # one partition for all: there are only as many rows as files or partitions
    before = Window.partitionBy(F.lit(0)).orderBy(_GROUP).rowsBetween(Window.unboundedPreceding, -1)
    offsets = sizes.select(_GROUP, F.coalesce(F.sum("n").over(before), F.lit(0)).alias(_BEFORE))
    row = (F.col(_INDEX) + F.col(_BEFORE)).alias(ROW)
    return indexed.join(F.broadcast(offsets), _GROUP).select(*names, row)
