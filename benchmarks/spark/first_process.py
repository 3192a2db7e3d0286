"""Measure small jobs on Spark: run as `python -m benchmarks.spark.first_process`.

Reads a request on standard input and prints one JSON line: the median ratios of pairs of runs, by
the clock and, where both run in one session, by processor time.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.spark.batch_process import compare_pair, measure_action
from cernis.generators.stock import stock_stream

QUERY = (
    "SELECT * FROM S WHERE (SELL AS a ; BUY AS b) FILTER a[volume > 900] AND b[volume > 900] "
    "PARTITION BY [name] WITHIN 10 SECONDS"
)
_WARM = 3
COUNT = """
import sys
from cernis.spark.local.session import local_session
spark = local_session()
source, checkpoint, sink = sys.argv[1:]
rows = spark.readStream.schema(spark.read.parquet(source).schema).parquet(source)
counts = rows.withWatermark("ts", "0 seconds").groupBy("name", "ts").count()
writer = counts.writeStream.format("parquet").option("path", sink).trigger(availableNow=True)
writer.option("checkpointLocation", checkpoint).start().awaitTermination()
"""


def measure_small_job(spark: Any, source: Path, pairs: int) -> dict[str, float]:
    """Return a query's ratio to a groupBy, each planned anew in each run."""
    from cernis.spark import recognize

    def recognized() -> Any:
        return recognize(spark.read.parquet(str(source)), QUERY).collect()

    def grouped() -> Any:
        return spark.read.parquet(str(source)).groupBy("name").count().collect()

    for _ in range(_WARM):
        recognized()
        grouped()
    one, other = (partial(measure_action, action) for action in (recognized, grouped))
    return dict(zip(("clock", "processor"), compare_pair(one, other, pairs), strict=True))


def measure_once(source: Path, folder: Path, runs: int) -> dict[str, float]:
    """Return the ratio of the command to a program that counts the rows of the same folder."""
    places = count()

    def run_python(*arguments: str) -> tuple[float]:
        began = time.perf_counter()
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
        return (time.perf_counter() - began,)

    def recognized() -> tuple[float]:
        own = folder / str(next(places))
        options = {"source": source, "checkpoint": own / "checkpoint", "sink": own / "sink"}
        written = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        return run_python("-m", "cernis", "stream", QUERY, "--engine", "spark", "--once", *written)

    def counted() -> tuple[float]:
        own = folder / str(next(places))
        return run_python("-c", COUNT, str(source), str(own / "checkpoint"), str(own / "sink"))

    recognized()  # compiles what is not compiled yet
    (ratio,) = compare_pair(recognized, counted, runs)
    return {"clock": ratio}


def _to_microseconds(schema: pa.Schema) -> pa.Schema:
    at = schema.get_field_index("ts")
    return schema.set(at, pa.field("ts", pa.timestamp("us", "UTC")))


def _answer_request(request: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    from cernis.spark.local.session import local_session

    with tempfile.TemporaryDirectory(prefix="cernis-bench-") as place:
        folder = Path(place)
        source = folder / "events"
        source.mkdir()
        events = stock_stream(request["rows"], 7, symbols=20)
        kept = events.cast(_to_microseconds(events.schema))
        pq.write_table(kept, source / "part.parquet")
        once = measure_once(source, folder, request["runs"])
        return {"small": measure_small_job(local_session(), source, request["pairs"]), "once": once}


if __name__ == "__main__":
    result = _answer_request(json.loads(sys.stdin.read()))
    sys.stdout.write("\n" + json.dumps(result) + "\n")
