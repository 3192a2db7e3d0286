"""A streaming query in a process to be killed: python driver.py FOLDER [CORES [cluster]].

Runs FOLDER/query.ceql (or query.cq, query.spaseq, or the rules of query.json) on the files of
FOLDER/in, one in each micro-batch, or on the topic that FOLDER/topic names, and writes the matches
to FOLDER/out. Says when it has begun, and ends when all is read. Where there is FOLDER/fail, the
sink fails once in the middle of a write. In a cluster, two executors have a process each, and what
takes longer than other tasks is started a second time (speculation).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from cernis.spark import parse_graphs, recognize, recognize_graphs, recognize_rules
from cernis.spark.local.session import local_session
from cernis.spark.rdf.texts import FILES
from cernis.spark.streaming.connector import fetch_connector
from cernis.spark.streaming.kafka import KAFKA_TIMESTAMP, UNDECODABLE, load_records, read_kafka

RECORDS = 1500
"""In a micro-batch."""
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java compiles little: most drivers live for some seconds."""
ROW = "type string, name string, price double, volume bigint, ts timestamp, n bigint"


def make_failing(order: Path) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return a step before the sink that fails after its first batch, if it is ordered to."""

    def pass_on(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            yield batch
            if batch.num_rows and order.exists():
                order.unlink(missing_ok=True)
                raise OSError("the sink was ordered to fail")

    return pass_on


CLUSTER = {
    "spark.master": "local-cluster[2,1,1024]",
    "spark.executor.memory": "1g",
    "spark.speculation": "true",
    "spark.speculation.interval": "20ms",
    "spark.speculation.multiplier": "1.01",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.minTaskRuntime": "20ms",
}


def run(folder: Path, cores: int, *, cluster: bool = False) -> None:
    settings = {
        "spark.sql.shuffle.partitions": str(cores),
        "spark.driver.extraJavaOptions": SHORT_LIVED,
        "spark.executor.extraJavaOptions": SHORT_LIVED,
        # files with checksums, as users have them
        "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.LocalFs",
        **(CLUSTER if cluster else {}),
    }
    if (folder / "topic").exists():
        settings["spark.jars"] = ",".join(map(str, fetch_connector().jars))
    spark = local_session(cores, memory="1g", conf=settings)
    (query,) = folder.glob("query.*")
    find = find_in_graphs if query.suffix == ".spaseq" else find_in_rows
    found = find(spark, folder, query, cores)
    found = found.mapInArrow(make_failing(folder / "fail"), found.schema)
    writer = found.writeStream.option("checkpointLocation", str(folder / "checkpoint"))
    running = writer.format("parquet").start(str(folder / "out"))
    sys.stdout.write("begun\n")
    sys.stdout.flush()
    running.processAllAvailable()
    running.stop()


def find_in_graphs(spark: Any, folder: Path, query: Path, cores: int) -> Any:
    """Run a query over N-Quads, with background knowledge that this driver changes."""
    known, writing = folder / "listed.ttl", folder / f"listed-{os.getpid()}.ttl"
    writing.write_text(known.read_text() + f"<urn:x:driver> <urn:x:was> {os.getpid()} .\n")
    writing.replace(known)
    if (topic := find_topic(folder)) is not None:
        texts = load_records(spark, *topic, per_trigger=RECORDS)
    else:
        files = spark.readStream.format("binaryFile").schema(FILES)
        texts = files.option("maxFilesPerTrigger", 1).load(str(folder / "in"))
    return recognize_graphs(
        spark,
        query.read_text(),
        parse_graphs(texts, "S"),
        background=known,
        live=True,
        lateness="2 seconds",
        tasks=3,
        checkpoint=str(folder / "checkpoint"),
        late_output=str(folder / "late"),
    )


def find_in_rows(spark: Any, folder: Path, query: Path, cores: int) -> Any:
    """Run a query, or rules, over rows."""
    if (topic := find_topic(folder)) is not None:
        events = read_kafka(spark, *topic, schema=ROW, per_trigger=RECORDS)
        events = events.drop(UNDECODABLE, KAFKA_TIMESTAMP)
    else:
        first = next(iter(sorted((folder / "in").glob("*.parquet"))))
        schema = folder / f"schema-{cores}.parquet"
        pq.write_table(pq.read_schema(first).empty_table(), schema)
        reader = spark.readStream.schema(spark.read.parquet(str(schema)).schema)
        events = reader.option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    options = {
        "lateness": "2 seconds",
        "tasks": 3,
        "checkpoint": str(folder / "checkpoint"),
        "late_output": str(folder / "late"),
    }
    if query.suffix == ".json":
        return recognize_rules(events, json.loads(query.read_text()), row="n", **options)
    lang = query.suffix.removeprefix(".")
    ids = "GROUP BY" not in query.read_text()  # groups have no names
    return recognize(events.drop("n"), query.read_text(), lang=lang, ids=ids, **options)


def find_topic(folder: Path) -> tuple[str, str] | None:
    """Return the servers and the name of the topic with the events; None if there are files."""
    if not (folder / "topic").exists():
        return None
    servers, _, topic = (folder / "topic").read_text().partition("/")
    return servers, topic


if __name__ == "__main__":
    _, place, number, *more = [*sys.argv, "2"] if len(sys.argv) == 2 else sys.argv
    run(Path(place), int(number), cluster=more == ["cluster"])
