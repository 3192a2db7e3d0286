"""Measure streaming queries: run as `python -m benchmarks.spark.streaming_process`.

Reads a request on standard input and prints one JSON line. A file is a micro-batch. The first
micro-batches of each query warm it up; the others are measured, from the end of one to the end of
another, in seconds and in processor seconds of Java and the workers.
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
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.spark.batch_process import read_processor_seconds

SCHEMA = pa.schema(
    {"type": pa.string(), "ts": pa.timestamp("us", "UTC"), "k": pa.int64(), "v": pa.float64()}
)
QUERY = (
    "SELECT a[k], b[k] FROM S WHERE A AS a ; B AS b FILTER a[v > 0.9] AND b[v > 0.9] "
    "PARTITION BY [k] WITHIN {window} MILLISECONDS"
)
GRAPH_QUERY = """PREFIX : <http://example.org/>
SELECT ?k ?a ?b WITHIN 1 SECONDS FROM STREAM S <http://example.org/s> WHERE { SEQ (A ; B)
DEFINE GPM A ON S { ?a :sold ?k . ?a :value ?v FILTER(?v > 90) }
DEFINE GPM B ON S { ?b :bought ?k . ?b :value ?w FILTER(?w > 90) } }
"""
BEGIN = 1_700_000_000_000_000
_LONGEST = 600


class StreamFolder:
    """A folder of files with random events, a millisecond apart from file to file."""

    def __init__(self, folder: Path, keys: int) -> None:
        self.folder, self.keys, self.files, self.rows = folder, keys, 0, 0
        self.random = np.random.default_rng(7)
        folder.mkdir(parents=True)

    def put(self, rows: int, types: str = "ABC", least: float = 0.0) -> None:
        """Write a file of so many events of these types, with values from `least` to 1."""
        first = BEGIN + 1000 * self.rows
        table = pa.table(
            {
                "type": np.array([*types])[self.random.integers(0, len(types), rows)],
                "ts": pa.array(first + 1000 * np.arange(rows)).cast(SCHEMA.field("ts").type),
                "k": self.random.integers(0, self.keys, rows),
                "v": least + (1 - least) * self.random.random(rows),
            },
            schema=SCHEMA,
        )
        path = self.folder / f"{self.files:06}.parquet"
        pq.write_table(table, self.folder / ".writing")
        os.utime(self.folder / ".writing", (10**9 + self.files, 10**9 + self.files))
        (self.folder / ".writing").rename(path)
        self.files, self.rows = self.files + 1, self.rows + rows

    def stream(self, spark: Any) -> Any:
        schema = "type string, ts timestamp, k bigint, v double"
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self.folder))


class GraphFolder:
    """A folder of N-Quads files with random graphs of three triples, a millisecond apart."""

    def __init__(self, folder: Path, keys: int) -> None:
        self.folder, self.keys, self.files, self.graphs = folder, keys, 0, 0
        self.random = np.random.default_rng(7)
        folder.mkdir(parents=True)

    def put(self, graphs: int) -> None:
        """Write a file of so many graphs."""
        numbers = range(self.graphs, self.graphs + graphs)
        kinds = np.array(["sold", "bought", "asked"])[self.random.integers(0, 3, graphs)]
        keys = self.random.integers(0, self.keys, graphs)
        values = self.random.integers(0, 100, graphs)
        rows = zip(numbers, kinds, keys, values, strict=True)
        (self.folder / ".writing").write_text("".join(_write_graph(*row) for row in rows))
        os.utime(self.folder / ".writing", (10**9 + self.files, 10**9 + self.files))
        (self.folder / ".writing").rename(self.folder / f"{self.files:06}.nq")
        self.files, self.graphs = self.files + 1, self.graphs + graphs

    def stream(self, spark: Any) -> Any:
        from cernis.spark import parse_graphs
        from cernis.spark.rdf.texts import FILES

        reader = spark.readStream.format("binaryFile").schema(FILES)
        return parse_graphs(reader.option("maxFilesPerTrigger", 1).load(str(self.folder)), "S")


def _write_graph(number: int, kind: str, key: int, value: int) -> str:
    xsd, own = "http://www.w3.org/2001/XMLSchema#", "http://example.org/"
    seconds, milliseconds = divmod(number, 1000)
    clock = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(BEGIN // 10**6 + seconds))
    graph, node = f"<urn:event:{number}>", f"<{own}n{number}>"
    return (
        f"{graph} <http://www.w3.org/ns/prov#generatedAtTime> "
        f'"{clock}.{milliseconds:03}Z"^^<{xsd}dateTime> .\n'
        f"{node} <{own}{kind}> <{own}key{key}> {graph} .\n"
        f'{node} <{own}value> "{value}"^^<{xsd}integer> {graph} .\n'
        f'{node} <{own}note> "text {number}" {graph} .\n'
    )


# -------------------------------------------------------------- contestants


def recognize_pairs(stream: Any, window: int) -> Any:
    from cernis.spark import recognize

    return recognize(stream, QUERY.format(window=window), lateness="1 second")


def pass_through(stream: Any, window: int) -> Any:
    """Send the same rows through the same shuffle into Python and back."""
    return stream.repartition("k").mapInArrow(_copy_batches, stream.schema)


def process_each_key(stream: Any, window: int) -> Any:
    """Find pairs as a user would: state and Python for each key, events in order of arrival."""
    from benchmarks.spark.each_key import EachKey

    wanted = stream.filter("type IN ('A', 'B') AND v > 0.9").withWatermark("ts", "1 second")
    return wanted.groupBy("k").transformWithStateInPandas(
        EachKey(window), "k bigint, pairs bigint", "Append", "EventTime"
    )


def _copy_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


CONTESTANTS = {"recognized": recognize_pairs, "passed": pass_through, "plain": process_each_key}


# ---------------------------------------------------------------- measuring


class MeasuredQuery:
    """A streaming query, with its cost at the end of each micro-batch with events."""

    def __init__(self, frame: Any, folder: Path) -> None:
        writer = frame.writeStream.format("noop")
        self.query = writer.option("checkpointLocation", str(folder)).start()
        self.marks: dict[int, tuple[float, float]] = {}
        self.rows: dict[int, int] = {}
        self.state: list[int] = []

    def run(self, batches: int) -> None:
        """Wait for so many micro-batches with events, then stop."""
        end = time.perf_counter() + _LONGEST
        while len(self.marks) < batches:
            if self.query.exception() is not None or time.perf_counter() > end:
                raise RuntimeError(f"the query did not go on: {self.query.exception()}")
            self._read_progress()
            time.sleep(0.02)  # Java makes JSON of the last micro-batches each time
        self._read_progress()
        self.query.stop()

    def _read_progress(self) -> None:
        from cernis.spark import progress_of

        for told in self.query.recentProgress[-3:]:
            batch, rows = told["batchId"], told["numInputRows"]
            if rows and batch not in self.marks:
                self.marks[batch] = (time.perf_counter(), read_processor_seconds())
                self.rows[batch] = rows
            ours = progress_of(told)
            if ours is not None:
                self.state.append(ours.state_bytes)

    def compute_rates(self, skip: int) -> dict[str, float]:
        """Return rows per second and per processor second, and processor seconds of a batch."""
        batches = sorted(self.marks)[skip:]
        (began, busy), (ended, at_end) = self.marks[batches[0]], self.marks[batches[-1]]
        rows, busy = sum(self.rows[batch] for batch in batches[1:]), at_end - busy
        of_one = busy / (len(batches) - 1)
        return {"wall": rows / (ended - began), "cpu": rows / busy, "batch": of_one}

    def compute_seconds(self, skip: int) -> float:
        """Return the median processor seconds of a micro-batch after the first `skip`."""
        busy = [self.marks[batch][1] for batch in sorted(self.marks)[skip:]]
        return statistics.median(b - a for a, b in pairwise(busy))


def measure_keys(spark: Any, folder: Path, request: dict[str, Any]) -> dict[str, Any]:
    """Return rates by contestant and number of keys."""
    answer: dict[str, Any] = {}
    for keys in request["keys"]:
        for name, contestant in CONTESTANTS.items():
            rows = request["plain_rows"] if name == "plain" else request["rows"]
            files = StreamFolder(folder / f"{name}{keys}", keys)
            count = 3 if name == "plain" else request["files"]
            for _ in range(count):
                files.put(rows)
            frame = contestant(files.stream(spark), 1000)
            running = MeasuredQuery(frame, folder / f"c-{name}{keys}")
            running.run(count)
            answer[f"{name} {keys}"] = running.compute_rates(1)
            shutil.rmtree(files.folder)
    return answer


def measure_graphs(spark: Any, folder: Path, request: dict[str, Any]) -> dict[str, Any]:
    """Return rates of RDF graphs: of a SPAseQ query, and of parsing alone."""
    from cernis.spark import recognize_graphs

    answer: dict[str, Any] = {}
    for name in ("SPAseQ", "parsed"):
        files = GraphFolder(folder / name, request["graph_keys"])
        for _ in range(request["files"]):
            files.put(request["graphs"])
        frame = files.stream(spark)
        if name == "SPAseQ":
            frame = recognize_graphs(spark, GRAPH_QUERY, frame, lateness="1 second")
        running = MeasuredQuery(frame, folder / f"c-{name}")
        running.run(request["files"])
        rates = running.compute_rates(1)  # of files, which are the rows of their source
        answer[name] = {
            part: rate if part == "batch" else rate * request["graphs"]
            for part, rate in rates.items()
        }
        shutil.rmtree(files.folder)
    return answer


def measure_small_batches(spark: Any, folder: Path, request: dict[str, Any]) -> dict[str, Any]:
    """Return processor seconds of a small batch by the number of events in the state."""
    answer = {}
    for kept in request["kept"]:
        files = StreamFolder(folder / f"kept{kept}", kept)
        files.put(kept, "A", 0.9)  # every event begins a match
        small = request["small_files"]
        for _ in range(small):
            files.put(request["small"])
        frame = recognize_pairs(files.stream(spark), 10**9)
        running = MeasuredQuery(frame, folder / f"c-kept{kept}")
        running.run(small + 1)
        seconds = running.compute_seconds(small // 2)
        answer[str(kept)] = {"cpu": seconds, "state": max(running.state)}
        shutil.rmtree(files.folder)
    return answer


def measure_state(spark: Any, folder: Path, request: dict[str, Any]) -> dict[str, Any]:
    """Return the most bytes of state, by window and number of files."""
    answer = {}
    for window, length in request["state"]:
        files = StreamFolder(folder / f"state{window}-{length}", 100)
        for _ in range(length):
            files.put(request["state_rows"])
        frame = recognize_pairs(files.stream(spark), window)
        running = MeasuredQuery(frame, folder / f"c-state{window}-{length}")
        running.run(length)
        answer[f"{window} {length}"] = max(running.state)
    return answer


def measure_latency(spark: Any, folder: Path, request: dict[str, Any]) -> dict[str, float]:
    """Return the seconds from the file that makes a match certain to the match.

    Beside it, the median from a file to the rows of a query without state.
    """
    from cernis.spark import recognize

    files = StreamFolder(folder / "latency", 3)
    frame = recognize(files.stream(spark), QUERY.format(window=1000), lateness="0 seconds")
    waits = _list_waits(frame, files, request)
    plain = StreamFolder(folder / "stateless", 3)
    others = _list_waits(plain.stream(spark).filter("type = 'A' AND v > 0.9"), plain, request)
    return {
        "median": statistics.median(waits),
        "most": max(waits),
        "median of a query without state": statistics.median(others),
    }


def _list_waits(frame: Any, files: StreamFolder, request: dict[str, Any]) -> list[float]:
    """List the seconds from each file to the rows that it makes certain."""
    came: list[float] = []

    def note_batch(found: Any, _: int) -> None:
        if found.count():
            came.append(time.perf_counter())

    writer = frame.writeStream.foreachBatch(note_batch)
    checkpoint = files.folder.with_name(f"c-{files.folder.name}")
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    waits = []
    files.put(request["small"])
    query.processAllAvailable()
    for number in range(request["latency"] + 2):
        before = len(came)
        put = time.perf_counter()
        files.put(request["small"])  # makes the matches before it certain
        while len(came) == before and time.perf_counter() - put < _LONGEST:
            time.sleep(0.005)
        if number > 1:
            waits.append(came[-1] - put)
        query.processAllAvailable()
    query.stop()
    return waits


PARTS = {
    "keys": measure_keys,
    "graphs": measure_graphs,
    "kept": measure_small_batches,
    "state": measure_state,
    "latency": measure_latency,
}


def _answer_request(request: dict[str, Any]) -> dict[str, Any]:
    from cernis.spark.local.session import local_session

    cores = str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2)
    settings = {"spark.sql.shuffle.partitions": cores}
    spark = local_session(int(cores), memory="3g", conf=settings)
    folder = Path(tempfile.mkdtemp(prefix="cernis-bench-"))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return {name: part(spark, folder / name, request) for name, part in PARTS.items()}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    result = _answer_request(json.loads(sys.stdin.read()))
    sys.stdout.write("\n" + json.dumps(result) + "\n")
