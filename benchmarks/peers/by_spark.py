"""Spark SQL as a contestant: joins and window functions over a table in memory, on two cores.

Java has its own process, whose processor seconds count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from benchmarks.peers.answering import Finder, Found, answer_questions
from cernis.spark.local.session import local_session


def open_events(events: pa.Table) -> Finder:
    """Return the function that runs a statement."""
    spark = local_session(2, memory="2g", conf={"spark.sql.shuffle.partitions": "2"})
    spark.catalog.clearCache()
    frame = spark.createDataFrame(events).cache()
    frame.count()
    frame.createOrReplaceTempView("s")

    def find(request: Mapping[str, Any]) -> Found:
        (row,) = spark.sql(request["spark"]).collect()
        return tuple(row)

    return find


if __name__ == "__main__":
    answer_questions(open_events)
