"""A streaming query in a process to be killed: python driver.py FOLDER [CORES [cluster]].

Runs FOLDER/query.ceql (or query.cq, query.spaseq) on the files of FOLDER/in, one in each
micro-batch, and writes the matches to FOLDER/out. Says when it has begun, and ends when all is
read. Where there is FOLDER/fail, the sink fails once in the middle of a write. In a cluster, two
executors have a process each, and what takes longer than other tasks is started a second time
(speculation).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from cernis.spark import parse_graphs, recognize, recognize_graphs
from cernis.spark.graphs.texts import FILES
from cernis.spark.local.session import local_session


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
        # files with checksums, as users have them
        "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.LocalFs",
        **(CLUSTER if cluster else {}),
    }
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
    files = spark.readStream.format("binaryFile").schema(FILES).option("maxFilesPerTrigger", 1)
    return recognize_graphs(
        spark,
        query.read_text(),
        parse_graphs(files.load(str(folder / "in")), "S"),
        background=known,
        live=True,
        lateness="2 seconds",
        tasks=3,
        checkpoint=str(folder / "checkpoint"),
        late_output=str(folder / "late"),
    )


def find_in_rows(spark: Any, folder: Path, query: Path, cores: int) -> Any:
    """Run a query over rows."""
    first = next(iter(sorted((folder / "in").glob("*.parquet"))))
    schema = folder / f"schema-{cores}.parquet"
    pq.write_table(pq.read_schema(first).empty_table(), schema)
    reader = spark.readStream.schema(spark.read.parquet(str(schema)).schema)
    events = reader.option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    return recognize(
        events,
        query.read_text(),
        lang="cq" if query.suffix == ".cq" else "ceql",
        lateness="2 seconds",
        tasks=3,
        ids=True,
        checkpoint=str(folder / "checkpoint"),
        late_output=str(folder / "late"),
    )


if __name__ == "__main__":
    _, place, number, *more = [*sys.argv, "2"] if len(sys.argv) == 2 else sys.argv
    run(Path(place), int(number), cluster=more == ["cluster"])
