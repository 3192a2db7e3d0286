"""Observe streaming queries for a while: run as `python -m benchmarks.spark.endurance_process`.

One session runs a streaming query of each class, side by side. They take turns: a file of events
comes for one of them, its micro-batch runs, then comes the next. So the processor time of Java and
the workers between two turns belongs to one class, whatever else the machine does. Memory is
measured for all classes together: Java's heap after a collection, Java's process, the Python
workers, and the checkpoints on disk.

Spark's own logs of the past are bounded (`BOUNDED`), so that they are full in the first minutes.
RocksDB drops old values at each snapshot: by default it does so after some forty micro-batches, and
the checkpoints grow and shrink at that pace. A file is one micro-batch: Spark runs none without
events.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.endurance_process import make_batches
from benchmarks.process import ask_process
from benchmarks.spark.batch_process import list_children, read_processor_seconds
from benchmarks.spark.streaming_process import BEGIN, GRAPH_QUERY, GraphFolder

GRAPHS, RULES = "SPAseQ", "rules"
"""Classes whose queries are none of CEQL: one over RDF graphs, and one of all the others."""
BOUNDED = {
    "spark.sql.streaming.minBatchesToRetain": "4",
    "spark.sql.streaming.numRecentProgressUpdates": "4",
    "spark.sql.streaming.pollingDelay": "200ms",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.fileSource.log.compactInterval": "4",
    "spark.sql.streaming.fileSource.log.cleanupDelay": "10s",
    "spark.sql.streaming.stateStore.maintenanceInterval": "10s",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "4",
    "spark.sql.streaming.stateStore.rocksdb.compactOnCommit": "true",
    "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage": "true",
    "spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB": "64",
    "spark.sql.codegen.cache.maxEntries": "100",
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "200",
    "spark.sql.ui.retainedExecutions": "20",
    "spark.streaming.ui.retainedBatches": "20",
    "spark.sql.streaming.ui.retainedQueries": "20",
}
HEAP = "1g"
_JAVA = f"-Xms{HEAP} -XX:+AlwaysPreTouch -XX:ReservedCodeCacheSize=128m"
FIXED = {
    "spark.driver.extraJavaOptions": _JAVA,
    "spark.sql.shuffle.partitions": "2",
}
"""Java's process has its whole heap from the beginning: what it gains later is outside the heap."""
ALLOCATION = {
    "MALLOC_ARENA_MAX": "2",
    "MALLOC_MMAP_THRESHOLD_": "131072",
    "MALLOC_TRIM_THRESHOLD_": "131072",
}
"""Each micro-batch starts threads in Java. The C library gives them pools of memory of their own,
up to eight for each processor, which fill for hours. It also raises both thresholds as it goes, and
then returns less memory."""
ROWS, GRAPH_ROWS = 2000, 100
"""Events in a file."""
_SCHEMA = "type string, name string, price double, volume bigint, ts timestamp, visit bigint"


@dataclass(frozen=True, slots=True)
class HourSample:
    """The memory of the session after so many files of each class, and the cost of each class."""

    batches: int
    memory: Mapping[str, int]
    """Bytes, by part of the session."""
    seconds: Mapping[str, float]
    """Processor seconds of a file, by class: the median since the sample before."""
    state: Mapping[str, int]
    """The most bytes of state since the sample before, by class."""


class Input(Protocol):
    """A folder of files, which a streaming query reads."""

    folder: Path
    files: int

    def put(self, rows: int) -> None: ...

    def stream(self, spark: Any) -> Any: ...


class StockFolder:
    """A folder of Parquet files with the batches of `make_batches`."""

    def __init__(self, folder: Path, rows: int) -> None:
        self.folder, self.files, self.batches = folder, 0, make_batches(rows)
        folder.mkdir(parents=True)

    def put(self, rows: int) -> None:
        """Write the next batch."""
        table = next(self.batches)
        micros = pa.array(BEGIN + 1000 * table["ts"].to_numpy())
        at = table.schema.get_field_index("ts")
        table = table.set_column(at, "ts", micros.cast(pa.timestamp("us", "UTC")))
        pq.write_table(table, self.folder / ".writing")
        os.utime(self.folder / ".writing", (10**9 + self.files, 10**9 + self.files))
        (self.folder / ".writing").rename(self.folder / f"{self.files:06}.parquet")
        self.files += 1

    def stream(self, spark: Any) -> Any:
        return spark.readStream.schema(_SCHEMA).parquet(str(self.folder))


class RunningClass:
    """The streaming query of a class, with the files that it reads."""

    def __init__(self, spark: Any, kind: str, queries: Mapping[str, str], folder: Path) -> None:
        self.kind = kind
        self.rows = GRAPH_ROWS if kind == GRAPHS else ROWS
        self.source: Input = (
            GraphFolder(folder / kind, 10) if kind == GRAPHS else StockFolder(folder / kind, ROWS)
        )
        frame = _recognize(spark, kind, queries, self.source)
        writer = frame.writeStream.format("noop")
        self.query = writer.option("checkpointLocation", str(folder / f"c-{kind}")).start()
        self.spent: list[float] = []
        self.state: list[int] = []

    def take_turn(self) -> None:
        """Put a file, wait for its micro-batch, and note the cost."""
        from cernis.spark import progress_of

        began = read_processor_seconds()
        self.source.put(self.rows)
        self.query.processAllAvailable()
        self.spent.append(read_processor_seconds() - began)
        told = (progress_of(told) for told in self.query.recentProgress[-2:])
        self.state += [one.state_bytes for one in told if one is not None]
        for path in sorted(self.source.folder.glob("[0-9]*"))[:-2]:
            path.unlink()  # the time to list the folder stays the same

    def take_sample(self) -> tuple[float, int]:
        """Return the median cost and the most state since the sample before."""
        numbers = statistics.median(self.spent), max(self.state, default=0)
        self.spent, self.state = [], []
        return numbers


def _recognize(spark: Any, kind: str, queries: Mapping[str, str], source: Input) -> Any:
    from cernis.spark import recognize, recognize_graphs, recognize_rules

    stream = source.stream(spark)
    if kind == GRAPHS:
        return recognize_graphs(spark, GRAPH_QUERY, stream, lateness="1 second")
    if kind == RULES:
        rules = {name.replace(" ", "_"): text for name, text in queries.items()}
        return recognize_rules(stream, rules, lateness="1 second")
    return recognize(stream, queries[kind], lateness="1 second")


def observe_hour(
    kinds: list[str], queries: Mapping[str, str], minutes: float, samples: int
) -> list[HourSample]:
    """Return samples of a new process that runs a query of each class for so many minutes."""
    request = {"kinds": kinds, "queries": queries, "minutes": minutes, "samples": samples}
    answer = ask_process("benchmarks.spark.endurance_process", request)
    return [HourSample(**sample) for sample in answer["samples"]]


def observe_queries(
    spark: Any,
    folder: Path,
    kinds: list[str],
    queries: Mapping[str, str],
    minutes: float,
    samples: int,
) -> Iterator[HourSample]:
    """Run the classes in turns; yield a sample after each part of the time, of a round at least."""
    running = [RunningClass(spark, kind, queries, folder) for kind in kinds]
    for one in running:
        one.take_turn()  # compiles, and makes the state store
        one.take_sample()
    began = time.monotonic()
    for number in range(1, samples + 1):
        while True:
            for one in running:
                one.take_turn()
            if time.monotonic() >= began + 60 * minutes * number / samples:
                break
        numbers = {one.kind: one.take_sample() for one in running}
        yield HourSample(
            batches=running[0].source.files,
            memory=_read_memory(spark, folder),
            seconds={kind: seconds for kind, (seconds, _) in numbers.items()},
            state={kind: state for kind, (_, state) in numbers.items()},
        )
    for one in running:
        one.query.stop()


def _read_memory(spark: Any, folder: Path) -> dict[str, int]:
    """Return the bytes of each part of the session."""
    import psutil

    java = spark._jvm.java.lang
    for _ in range(3):
        java.System.gc()
        time.sleep(1)  # Spark frees broadcasts of the past when a collection has found them
    heap = java.management.ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed()
    python = process = 0
    for child in list_children():
        with suppress(psutil.Error):
            if "java" in child.name():
                process += child.memory_info().rss
            else:
                full = child.memory_full_info()
                python += getattr(full, "pss", full.uss)  # workers share the pages of their parent
    written = 0
    for path in folder.glob("c-*/**/*"):
        with suppress(OSError):  # Spark removes old ones
            written += path.stat().st_size
    return {
        "Java, heap after a collection": int(heap),
        "Java, process": process,
        "Python workers": python,
        "checkpoints": written,
    }


def _answer_request(request: dict[str, Any]) -> dict[str, Any]:
    from cernis.spark.local.session import local_session

    for name, value in ALLOCATION.items():
        os.environ.setdefault(name, value)
    spark = local_session(2, memory=HEAP, conf={**FIXED, **BOUNDED})
    folder = Path(tempfile.mkdtemp(prefix="cernis-bench-"))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = []
            for sample in observe_queries(spark, folder, **request):
                found.append(asdict(sample))
                sys.stderr.write(json.dumps(found[-1]) + "\n")
            return {"samples": found}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    result = _answer_request(json.loads(sys.stdin.read()))
    sys.stdout.write("\n" + json.dumps(result) + "\n")
