"""Whether Spark's real-time mode carries a query of Cernis.

    python -m benchmarks.spark.real_time HOST:PORT

Needs a broker with the topics `rt`, with some events as JSON, and `rt-out`. Without Spark's list of
operators, a copy of the topic and a query of Cernis start in that mode; prints how each fares.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Any

QUERY = "SELECT * FROM S WHERE A AS a ; B AS b PARTITION BY [k] WITHIN 1 MINUTE"
_SECONDS = 15


def try_query(name: str, start: Callable[[str], Any]) -> str:
    """Start a query, let it run for some seconds, and return how it fares."""
    with TemporaryDirectory() as checkpoint:
        try:
            running = start(checkpoint)
            end = monotonic() + _SECONDS
            while monotonic() < end and running.isActive:
                sleep(0.2)
            failure = running.exception()
            running.stop()
        except Exception as error:  # whatever Spark refuses
            failure = error
        return f"{name}: {'runs' if failure is None else str(failure).splitlines()[0]}\n"


def main(servers: str) -> None:
    from pyspark.sql import functions as F

    from cernis.spark import read_kafka, recognize
    from cernis.spark.local.session import local_session
    from cernis.spark.streaming.connector import fetch_connector

    jars, _ = fetch_connector()
    spark = local_session(
        2,
        app="real time",
        conf={
            "spark.jars": ",".join(map(str, jars)),
            "spark.sql.streaming.realTimeMode.allowlistCheck": "false",
        },
    )
    columns = "type STRING, ts TIMESTAMP, k BIGINT"
    events = read_kafka(spark, servers, "rt", schema=columns).select("type", "ts", "k")

    def write(values: Any, checkpoint: str) -> Any:
        writer = values.writeStream.format("kafka").option("kafka.bootstrap.servers", servers)
        writer = writer.option("topic", "rt-out").option("checkpointLocation", checkpoint)
        return writer.outputMode("update").trigger(realTime="5 minutes").start()

    def copy(checkpoint: str) -> Any:
        return write(events.select(F.to_json(F.struct("*")).alias("value")), checkpoint)

    def find(checkpoint: str) -> Any:
        found = recognize(events, QUERY, time="ts", matches="lines", checkpoint=checkpoint)
        return write(found.select(F.col("line").alias("value")), checkpoint)

    for name, start in (("a copy", copy), ("Cernis", find)):
        sys.stdout.write(try_query(name, start))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
