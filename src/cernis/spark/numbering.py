"""Row numbers: which row of the input an event is.

Matches report row numbers "in the order given", and events at the same time keep that
order. A DataFrame has such an order (the one `show` and `collect` go by) without having
numbers. In order of preference:

* a column that the user names;
* Parquet files read as they are: Spark knows the row of each file, and files go by name;
  filters still reach the files;
* where partitions are sure to be the same when they are counted and when they are read
  (`arranged.steady`): the place in the partition, plus the sizes of the partitions before.
  Filters cannot pass such numbers on their way to the source;
* otherwise numbers with gaps (`monotonically_increasing_id`): they have the right order,
  and tell events apart.

Sizes are counted inside the same query, over no column at all. Cost: for Parquet the files'
footers; otherwise the DataFrame is computed twice, once without its columns. Turned down:
numbering by sorting, which moves every row; counting partitions whose number Spark decides
at run time, by size, which differs between the two times, and would lose rows.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, Window
from pyspark.sql import functions as F

from cernis.spark.arrangement import class_name, steady
from cernis.spark.frame import Frame, by_place
from cernis.spark.worker import ROW

_PLACE, _BEFORE, _GROUP = "@place", "@before", "@group"


def numbered(frame: Frame, row: str | None) -> Any:
    """The frame's data with a column of row numbers."""
    if row is not None:
        return frame.data.withColumn(ROW, frame.columns[row][0].cast("bigint"))
    names, source = frame.data.columns, frame.source
    if is_parquet(source):
        place, group = F.col("_metadata.row_index"), F.col("_metadata.file_path")
        return _offset(source, names, place, group)
    identity = F.monotonically_increasing_id()
    if not steady(source):
        return frame.data.withColumn(ROW, identity)
    place, group = identity.bitwiseAND(F.lit((1 << 33) - 1)), F.shiftright(identity, 33)
    return _offset(source, names, place, group)


def with_rows(source: Any, files: int) -> Any:
    """Parquet files as they are, so many of them, with their row numbers as one more column."""
    place = F.col("_metadata.row_index")
    if files == 1:
        return source.select("*", place.alias(ROW))
    names = [f"c{i}" for i in range(len(source.columns))]
    return _offset(source, names, place, F.col("_metadata.file_path")).toDF(*source.columns, ROW)


def repeatable(frame: Frame, row: str | None) -> bool:
    """Whether rows have the same numbers each time that they are read."""
    return row is not None or is_parquet(frame.source) or steady(frame.source)


def how_numbered(frame: Frame, row: str | None) -> str:
    """In words, where the numbers come from."""
    if row == ROW:
        return "the files, one after the other"
    if row is not None:
        return f"the column {row!r}"
    if is_parquet(frame.source):
        return "the Parquet files, in the order of their names"
    if steady(frame.source):
        return "the order of the DataFrame, which is computed twice (a row= column saves that)"
    return "the order of the DataFrame, with gaps (a row= column would say better)"


def count_before(frame: Frame) -> Column:
    """How many rows a frame has, for the numbers of the frame after it."""
    number: Column = frame.data.agg(F.count(F.lit(1)).alias("n")).scalar()
    return number


def _offset(source: Any, names: list[str], place: Column, group: Column) -> Any:
    """Places inside of groups plus the sizes of the groups before."""
    placed = by_place(source, place, group).toDF(*names, _PLACE, _GROUP)
    sizes = source.select(group.alias(_GROUP)).groupBy(_GROUP).agg(F.count(F.lit(1)).alias("n"))
    # all of it in one partition: there are as many rows as files or partitions
    before = Window.partitionBy(F.lit(0)).orderBy(_GROUP).rowsBetween(Window.unboundedPreceding, -1)
    offsets = sizes.select(_GROUP, F.coalesce(F.sum("n").over(before), F.lit(0)).alias(_BEFORE))
    row = (F.col(_PLACE) + F.col(_BEFORE)).alias(ROW)
    return placed.join(F.broadcast(offsets), _GROUP).select(*names, row)


def is_parquet(source: Any) -> bool:
    """Whether the DataFrame is Parquet files as they are, with nothing done to them."""
    plan = getattr(source, "_plan", None)
    if plan is not None:  # Spark Connect
        kind = type(plan).__name__
        return kind == "DataSource" and str(getattr(plan, "_format", "")).lower() == "parquet"
    relation = source._jdf.queryExecution().analyzed()
    if (
        class_name(relation) != "LogicalRelation"
        or class_name(relation.relation()) != "HadoopFsRelation"
    ):
        return False
    return class_name(relation.relation().fileFormat()) == "ParquetFileFormat"
