"""Measure one Spark session: run as `python -m benchmarks.spark.batch_process`.

Reads a request on standard input and prints one JSON line. Processor time counts all child
processes: Java and the workers.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa

from benchmarks.clock import race

SEQUENCE = (
    "SELECT {shown} FROM S WHERE (SELL AS a {then} BUY AS b {then} SELL AS c) "
    "FILTER a[volume > 900] AND b[volume > 900] AND c[volume > 900] {rest}"
)
SQL = """
SELECT a.ts, b.ts, c.ts
FROM {events} a
JOIN {events} b ON b.name = a.name AND b.ts > a.ts AND b.ts <= a.ts + INTERVAL 10 SECONDS
JOIN {events} c ON c.name = a.name AND c.ts > b.ts AND c.ts <= a.ts + INTERVAL 10 SECONDS
WHERE a.type = 'SELL' AND b.type = 'BUY' AND c.type = 'SELL'
  AND a.volume > 900 AND b.volume > 900 AND c.volume > 900
"""


def write_query(rest: str, *, then: str = ";", shown: str = "*") -> str:
    """Return the sequence of three with these clauses."""
    return SEQUENCE.format(rest=rest, then=then, shown=shown)


KEYED = write_query("PARTITION BY [name] WITHIN 10 SECONDS")
GROUPED = write_query(
    "PARTITION BY [name] WITHIN 10 SECONDS GROUP BY [name], EVERY 1 MINUTE", shown="COUNT(*) AS n"
)
SLICED = write_query("WITHIN 1 SECONDS")
POSITIONS = write_query("WITHIN 20 EVENTS")
CONTIGUOUS = write_query("PARTITION BY [name] WITHIN 10 SECONDS", then=":")
SINGLE = write_query("WITHIN 1 SECONDS CONSUME BY ANY")


PAIR = ("keyed", "keyed, grouped")
"""Cases whose ratio is an aim: they run in turns of their own."""


def measure_cases(
    spark: Any, folder: Path, request: Mapping[str, Any]
) -> dict[str, dict[str, float]]:
    """Return seconds and matches of each case, or of the named ones, and the ratios of the pair."""
    from cernis.spark import recognize

    rounds, names, joined = request["rounds"], request["names"], request["joined"]
    df = spark.read.parquet(str(folder / "all"))
    tasks = 2 * spark.sparkContext.defaultParallelism
    keyed = df.repartition(tasks, "name").sortWithinPartitions("ts")
    ranged = df.repartitionByRange(tasks, "ts").sortWithinPartitions("ts")
    single = df.repartition(1).sortWithinPartitions("ts")
    send = partial(recognize, read_files=False)
    frames = {
        "keyed, from files": recognize(df, KEYED),
        "keyed, grouped, from files": recognize(df, GROUPED),
        "contiguous, from files": recognize(df, CONTIGUOUS),
        "single, from files": recognize(df, SINGLE),
        "keyed": send(df, KEYED, sample=0),
        "keyed, balanced": send(df, KEYED),
        "keyed, counted": send(df, KEYED, matches="count", sample=0),
        "keyed, grouped": send(df, GROUPED, sample=0),
        "keyed, in Python": send(df, KEYED, pushdown=False, sample=0),
        "keyed, packed": _pack_rows(df, tasks),
        "keyed, rows": keyed.mapInArrow(_pass_through, df.schema),
        "sliced": send(df, SLICED),
        "sliced, in Python": send(df, SLICED, pushdown=False),
        "sliced, rows": ranged.mapInArrow(_pass_through, df.schema),
        "positions": send(df, POSITIONS),
        "contiguous": send(df, CONTIGUOUS, sample=0),
        "single": send(df, SINGLE),
        "single, rows": single.mapInArrow(_pass_through, df.schema),
    }
    for rows in joined:
        few = spark.read.parquet(str(folder / f"few{rows}"))
        frames[f"recognized of {rows}"] = recognize(few, KEYED)
        frames[f"joined of {rows}"] = spark.sql(SQL, events=few)
    frames = {
        name: frame
        for name, frame in frames.items()
        if names is None or name.partition(" of ")[0] in names
    }
    found = {name: frame.count() for name, frame in frames.items()}  # also warms everything up
    pairs = [(f"recognized of {rows}", f"joined of {rows}") for rows in joined]
    both = [(f"{name}, from files", name) for name in ("keyed", "contiguous", "single")]
    for one, other in (*pairs, *both, ("keyed", "keyed, in Python")):
        if found.get(one, 0) != found.get(other, found.get(one, 0)):
            raise RuntimeError(f"the contestants disagree: {found}")
    busy: dict[str, float] = {}
    best = race({name: _time_frame(name, frame, busy) for name, frame in frames.items()}, rounds)
    counted = [
        name
        for name in frames
        if not name.endswith(("rows", "packed", "counted")) and "grouped" not in name
    ]
    measured = {
        name: {"wall": best[name], "cpu": busy[name]}
        | ({"matches": found[name]} if name in counted else {})
        for name in frames
    }
    if all(name in frames for name in PAIR):
        plain, grouped = (partial(_measure_run, frames[name]) for name in PAIR)
        wall, cpu = compare_pair(plain, grouped, request["pairs"])
        measured["pair"] = {"wall": wall, "cpu": cpu}
    return measured


def compare_pair(
    one: Callable[[], Sequence[float]], other: Callable[[], Sequence[float]], pairs: int
) -> list[float]:
    """Return the median ratios of the seconds that one action took to those of the other.

    Both of a pair run directly after one another, so that other work on the machine slows both.
    """
    ratios: list[list[float]] = []
    for number in range(pairs):
        order = (one, other) if number % 2 == 0 else (other, one)
        first, second = (action() for action in order)
        above, below = (first, second) if number % 2 == 0 else (second, first)
        ratios.append([a / b for a, b in zip(above, below, strict=True)])
    return [median(column) for column in zip(*ratios, strict=True)]


def measure_action(action: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds of an action on Spark by the clock, and those of all processors."""
    processor, began = read_processor_seconds(), time.perf_counter()
    action()
    seconds = time.perf_counter() - began
    return seconds, read_processor_seconds() - processor


def _measure_run(frame: Any) -> tuple[float, float]:
    return measure_action(frame.write.format("noop").mode("overwrite").save)


def _time_frame(name: str, frame: Any, busy: dict[str, float]) -> Callable[[], float]:
    """Return a contestant that measures one run; the least processor time goes to `busy`."""

    def contestant() -> float:
        seconds, processor = _measure_run(frame)
        busy[name] = min(busy.get(name, float("inf")), processor)
        return seconds

    return contestant


def _pass_through(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _pack_rows(df: Any, tasks: int) -> Any:
    """Send the keyed query's rows through the shuffle as one Arrow blob for each task.

    Nothing is recognized: this measures whether packed rows would be cheaper to move.
    """

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held = [*batches]
        if not held:
            return
        rows = pa.Table.from_batches(held).combine_chunks()
        names = rows.column("name").chunk(0).dictionary_encode()
        buckets = np.array([crc32(name.encode()) % tasks for name in names.dictionary.to_pylist()])
        bucket = buckets[np.asarray(names.indices)]
        for number in range(tasks):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, rows.schema) as writer:
                writer.write_table(rows.filter(pa.array(bucket == number)))
            blob = pa.array([sink.getvalue().to_pybytes()], pa.binary())
            columns = [pa.array([number], pa.int32()), blob]
            yield pa.RecordBatch.from_arrays(columns, ["bucket", "blob"])

    def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        blobs = [blob for batch in batches for blob in batch.column("blob").to_pylist()]
        tables = [pa.ipc.open_stream(blob).read_all() for blob in blobs]
        if tables:
            yield from pa.concat_tables(tables).sort_by("ts").to_batches()

    packed = df.mapInArrow(pack, "bucket int, blob binary").repartitionById(tasks, "bucket")
    return packed.mapInArrow(unpack, df.schema)


def measure_key(spark: Any, folder: Path, sizes: list[int]) -> dict[str, float]:
    """Return the peak memory of a worker for one key of so many events, the fewest first."""
    from cernis.spark import recognize

    peaks: dict[str, float] = {}
    for rows in sizes:
        df = spark.read.parquet(str(folder / f"key{rows}"))
        found = recognize(df, KEYED, matches="count", sample=0, tasks=1)
        found.write.format("noop").mode("overwrite").save()
        peaks[str(rows)] = max(_read_peaks(), default=0)
    return peaks


# --------------------------------------------------------------- processes


def list_children() -> Iterator[Any]:
    import psutil

    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it may be ending
            process.cpu_times()
            process.cmdline()
            yield process


def read_processor_seconds() -> float:
    """Return the processor seconds of all child processes, with those of their own children.

    Also of those that have ended and wait for their parents: when these look, the seconds go over
    to the parents. Without them, a worker that ends would take its seconds off the sum.
    """
    import psutil

    seconds = 0.0
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            t = process.cpu_times()
            seconds += t.user + t.system + t.children_user + t.children_system
    return seconds


def _read_peaks() -> Iterator[int]:
    """Yield the peak resident set of each worker."""
    import psutil

    for process in list_children():
        with suppress(psutil.Error, OSError):
            if "pyspark" not in " ".join(process.cmdline()) or "java" in process.name():
                continue
            lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
            yield from (1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def _pin_to_cores(cores: int) -> None:
    """Let this process, Java and the workers use only so many cores."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])


def _answer_request(request: Mapping[str, Any]) -> dict[str, Any]:
    from cernis.spark.local.session import local_session

    folder = Path(request["folder"])
    if request["task"] == "key":
        spark = local_session(1, memory="512m")
        return measure_key(spark, folder, request["rows"])
    _pin_to_cores(request["cores"])
    spark = local_session(request["cores"], memory="3g")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "this query runs in a single task")
        return measure_cases(spark, folder, request)


if __name__ == "__main__":
    result = _answer_request(json.loads(sys.stdin.read()))
    sys.stdout.write("\n" + json.dumps(result) + "\n")
