"""What a task knows of the micro-batch that it belongs to."""

from __future__ import annotations


def find_batch() -> int:
    """Return the number of the micro-batch that runs."""
    return int(_property("streaming.sql.batchId") or 0)


def find_run() -> str:
    """Return the id of the run, which all restarts from one checkpoint share."""
    return _property("sql.streaming.queryId") or "run"


def _property(name: str) -> str | None:
    from pyspark import TaskContext

    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(name)
