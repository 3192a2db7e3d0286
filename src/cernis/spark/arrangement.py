"""`Arrangement`: whether a DataFrame's rows already lie as a query needs them.

Rows that do are neither shuffled nor sorted again. The answer comes from Spark's physical
plan. It counts only where no operator between here and the shuffle (or the bucketed files)
can move rows at run time: Spark may split the tasks of a join.

Bucketed files keep their buckets in the plan only if
`spark.sql.sources.bucketing.autoBucketedScan.enabled` is false; otherwise Spark ignores
buckets that none of its own operators needs. Spark Connect shows no plan: there, rows are
always shuffled.

`has_fixed_partitions` asks the plan whether reading twice gives the same partitions, `is_small`
whether the rows are too few to share out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

_NARROW = {
    "AdaptiveSparkPlanExec",
    "WholeStageCodegenExec",
    "InputAdapter",
    "ProjectExec",
    "FilterExec",
    "ColumnarToRowExec",
    "SortExec",
}
_PLACED = {"ShuffleExchangeExec", "FileSourceScanExec", "CoalesceExec"}
_FIXED = {"LocalTableScanExec", "RDDScanExec", "RangeExec", "InMemoryTableScanExec"}
_ASKED_FOR = {"REPARTITION_BY_NUM", "REPARTITION_BY_COL"}


_SMALL = 4 << 20
"""What Spark counts the opening of a file as (`spark.sql.files.openCostInBytes`), in bytes."""


class Arrangement(NamedTuple):
    """How the rows of a DataFrame lie."""

    together: bool = False
    """The rows of a key are in one partition."""
    ordered: bool = False
    """The rows of a partition are in order of time."""


def find_arrangement(source: Any, key: Sequence[str] | None, time: str | None) -> Arrangement:
    """Return how the rows of a DataFrame lie; without a key, all must be in one partition."""
    if not hasattr(source, "_jdf"):
        return Arrangement()
    plan = _initial_plan(source._jdf.queryExecution().executedPlan())
    if not _rows_stay(plan):
        return Arrangement()
    partitioning = plan.outputPartitioning()
    kind = class_name(partitioning)
    together = kind == "SinglePartition$"
    if key and kind == "HashPartitioning":
        columns = partitioning.children()
        names = [_name(columns.apply(i)) for i in range(columns.size())]
        together = bool(names) and None not in names and set(names) <= set(key)
    if not together:
        return Arrangement()
    ordering = plan.outputOrdering()
    ordered = False
    if time is not None and ordering.size():
        first = ordering.apply(0)
        ordered = _name(first.child()) == time and first.direction().toString() == "Ascending"
    return Arrangement(True, ordered)


def has_fixed_partitions(source: Any) -> bool:
    """Return whether partitions have the same sizes each time, whichever columns are read.

    False after a shuffle whose tasks Spark merges or splits by size, and for bucketed files,
    which Spark reads by bucket or not as it chooses.
    """
    if not hasattr(source, "_jdf"):
        return False
    return _has_fixed_partitions(source._jdf.queryExecution().executedPlan())


def is_small(source: Any) -> bool:
    """Return whether Spark estimates so few bytes that one task reads them sooner than several."""
    if not hasattr(source, "_jdf") or source.isStreaming:
        return False
    size = source._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()
    return int(size) <= _SMALL


def _has_fixed_partitions(plan: Any) -> bool:
    plan = _initial_plan(plan)
    kind = class_name(plan)
    if kind in _NARROW or kind == "UnionExec":
        below = plan.children()
        return all(_has_fixed_partitions(below.apply(i)) for i in range(below.size()))
    if kind == "ShuffleExchangeExec":
        return bool(plan.shuffleOrigin().toString() == "REPARTITION_BY_NUM")
    if kind == "FileSourceScanExec":
        return not plan.relation().bucketSpec().isDefined()
    return kind in _FIXED


def _rows_stay(plan: Any) -> bool:
    """Return whether rows stay where the plan says they are."""
    while class_name(plan) in _NARROW:
        below = plan.children()
        if below.size() != 1:
            return False
        plan = _initial_plan(below.apply(0))
    if class_name(plan) == "ShuffleExchangeExec":
        return plan.shuffleOrigin().toString() in _ASKED_FOR
    return class_name(plan) in _PLACED


def _initial_plan(plan: Any) -> Any:
    return plan.inputPlan() if class_name(plan) == "AdaptiveSparkPlanExec" else plan


def _name(expression: Any) -> str | None:
    """Return the name of a column; None for any other expression."""
    return str(expression.name()) if class_name(expression) == "AttributeReference" else None


def class_name(jvm: Any) -> str:
    """Return the class of a Java object."""
    return str(jvm.getClass().getSimpleName())


def is_parquet(source: Any) -> bool:
    """Return whether the DataFrame is Parquet files read as they are."""
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


def list_parquet_files(source: Any) -> list[str]:
    """Return the Parquet files that a DataFrame is, in the order of its rows; none if it is not.

    Spark Connect does not tell.
    """
    return sorted(source.inputFiles()) if hasattr(source, "_jdf") and is_parquet(source) else []
