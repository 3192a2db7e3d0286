"""Whether a DataFrame's rows are where, and in what order, a query needs them.

Asked of Spark's physical plan, and believed only where nothing between here and the shuffle
(or the bucketed files) can move rows at run time: Spark may still split the tasks of a join
that nobody above it asked to keep whole. Then rows are neither shuffled nor sorted again.

Bucketed files keep their buckets in the plan only if
`spark.sql.sources.bucketing.autoBucketedScan.enabled` is false; Spark otherwise reads them as
any others when no operator of its own needs the buckets. Over Spark Connect there is no plan
to look at, and rows are always arranged.

`steady` is another question of the kind: whether asking twice gives the same partitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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


class Arrangement(NamedTuple):
    """Rows of one key are in one partition; rows of a partition are in order of time."""

    together: bool = False
    ordered: bool = False


def arrangement(source: Any, key: Sequence[str] | None, time: str | None) -> Arrangement:
    """How the rows of a DataFrame lie; `key` None asks for all of them in one partition."""
    if not hasattr(source, "_jdf"):
        return Arrangement()
    plan = _inside(source._jdf.queryExecution().executedPlan())
    if not _stays(plan):
        return Arrangement()
    partitioning = plan.outputPartitioning()
    kind = class_name(partitioning)
    together = kind == "SinglePartition$"
    if key and kind == "HashPartitioning":
        names = [*_names(partitioning.children())]
        together = bool(names) and None not in names and set(names) <= set(key)
    if not together:
        return Arrangement()
    ordering = plan.outputOrdering()
    ordered = False
    if time is not None and ordering.size():
        first = ordering.apply(0)
        ordered = _name(first.child()) == time and first.direction().toString() == "Ascending"
    return Arrangement(True, ordered)


def steady(source: Any) -> bool:
    """Whether partitions have the same numbers of rows each time, whichever columns are read.

    Not so after a shuffle whose tasks Spark joins or splits by their size, nor for bucketed
    files, which it reads in buckets or not as it sees fit.
    """
    if not hasattr(source, "_jdf"):
        return False
    return _steady(_inside(source._jdf.queryExecution().executedPlan()))


def _steady(plan: Any) -> bool:
    kind = class_name(plan)
    if kind in _NARROW or kind == "UnionExec":
        below = plan.children()
        return all(_steady(_inside(below.apply(i))) for i in range(below.size()))
    if kind == "ShuffleExchangeExec":
        return bool(plan.shuffleOrigin().toString() == "REPARTITION_BY_NUM")
    if kind == "FileSourceScanExec":
        return not plan.relation().bucketSpec().isDefined()
    return kind in _FIXED


def _stays(plan: Any) -> bool:
    """Whether rows stay where the plan says they are."""
    while class_name(plan) in _NARROW:
        below = plan.children()
        if below.size() != 1:
            return False
        plan = _inside(below.apply(0))
    if class_name(plan) == "ShuffleExchangeExec":
        return plan.shuffleOrigin().toString() in _ASKED_FOR
    return class_name(plan) in _PLACED


def _inside(plan: Any) -> Any:
    return plan.inputPlan() if class_name(plan) == "AdaptiveSparkPlanExec" else plan


def _names(expressions: Any) -> Iterator[str | None]:
    for i in range(expressions.size()):
        yield _name(expressions.apply(i))


def _name(expression: Any) -> str | None:
    """The column that an expression is; None for anything else."""
    return str(expression.name()) if class_name(expression) == "AttributeReference" else None


def class_name(jvm: Any) -> str:
    """The class of a Java object."""
    return str(jvm.getClass().getSimpleName())
