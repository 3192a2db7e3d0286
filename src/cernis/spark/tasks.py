"""How many tasks a session spreads work over, unless the user says it.

Does not import Spark.
"""

from __future__ import annotations

from typing import Any

from cernis.errors import CernisError

DEFAULT_TASKS = "200"
"""Spark's own default of `spark.sql.shuffle.partitions`."""


def check_tasks(tasks: int | None) -> None:
    if tasks is not None and tasks < 1:
        raise CernisError(f"tasks={tasks}: at least one task is needed")


def count_tasks(spark: Any) -> int:
    """Return `spark.sql.shuffle.partitions`; where that is Spark's default, two per core."""
    partitions = shuffle_partitions(spark)
    context = getattr(spark, "_sc", None)
    if partitions == DEFAULT_TASKS and context is not None:
        return max(1, 2 * int(context.defaultParallelism))
    return max(1, int(partitions))


def shuffle_partitions(spark: Any) -> str:
    return str(spark.conf.get("spark.sql.shuffle.partitions", DEFAULT_TASKS) or DEFAULT_TASKS)
