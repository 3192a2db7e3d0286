"""Run statements on Flink: `python flink_rows.py < cases.json > rows.json`.

A case has a statement over the table `t (g, ts, x)` and its rows, with `ts` in whole seconds. The
Python that runs this has `apache-flink`, whose dependencies do not go together with those of
Cernis; it imports nothing else. `tests/run/rows/test_flink.py` starts it.
"""

from __future__ import annotations

import json
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import perf_counter
from typing import Any

BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
TABLE = """CREATE TEMPORARY TABLE t (
  g STRING, ts TIMESTAMP(3), x INT, WATERMARK FOR ts AS ts
) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'csv')"""


def run(statement: str, rows: list[dict[str, Any]]) -> list[list[Any]]:
    """Return the rows of a statement."""
    # here, for the tests of examples import this file where there is no Flink
    from pyflink.table import (  # type: ignore[import-not-found, unused-ignore]
        EnvironmentSettings,
        TableEnvironment,
    )

    environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    environment.get_config().set("parallelism.default", "1")
    with tempfile.TemporaryDirectory() as folder:
        lines = [
            f"{row['g']},{BEGIN + timedelta(seconds=row['ts']):%Y-%m-%d %H:%M:%S},"
            + ("" if row["x"] is None else str(row["x"]))
            for row in rows
        ]
        (Path(folder) / "rows.csv").write_text("\n".join(lines) + "\n")
        environment.execute_sql(TABLE.format(folder))
        with environment.execute_sql(statement).collect() as found:
            return [list(row) for row in found]


if __name__ == "__main__":
    answers: list[dict[str, Any]] = []
    for case in json.load(sys.stdin):
        try:
            began = perf_counter()
            found = run(case["statement"], case["rows"])
            answers.append({"rows": found, "seconds": perf_counter() - began})
        except Exception as error:
            answers.append({"error": str(error).splitlines()[-1:] or [str(error)]})
    sys.stdout.write(json.dumps(answers))
