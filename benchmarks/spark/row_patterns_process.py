"""Measure MATCH_RECOGNIZE on Spark: run as `python -m benchmarks.spark.row_patterns_process`.

Reads a request on standard input: the number of rows, the rounds, and statements by name, with
MATCH_RECOGNIZE and in plain SQL of DuckDB. Prints one JSON line: the least processor seconds
and the number of rows of each. The rows lie in a Parquet file; a result is counted, not fetched.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import sqlglot

from benchmarks.clock import race
from benchmarks.row_patterns import make_ticks
from benchmarks.spark.batch_process import measure_action
from cernis import spark as cernis_spark
from cernis.spark import session


def run(request: dict[str, Any]) -> dict[str, Any]:
    """Return the seconds and the numbers of rows of each statement."""
    spark = session()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ticks.parquet"
        pq.write_table(make_ticks(request["rows"]), path)
        spark.read.parquet(str(path)).createOrReplaceTempView("t")
        actions: dict[str, Callable[[], int]] = {}
        for name, text in request["clauses"].items():
            actions[name] = partial(_count_clause, spark, text)
        for name, text in request["plain"].items():
            [written] = sqlglot.transpile(text, read="duckdb", write="spark")
            actions[name] = partial(_count_plain, spark, written)
        found = {name: action() for name, action in actions.items()}
        contestants = {name: partial(_measure, action) for name, action in actions.items()}
        best = race(contestants, request["rounds"])
    return {"rows": found, "seconds": best}


def _measure(action: Callable[[], int]) -> float:
    return measure_action(action)[1]


def _count_clause(spark: Any, text: str) -> int:
    return int(cernis_spark.sql(spark, text, dialect="duckdb").count())


def _count_plain(spark: Any, text: str) -> int:
    return int(spark.sql(text).count())


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(json.load(sys.stdin))) + "\n")
