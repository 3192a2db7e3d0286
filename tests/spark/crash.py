"""Faults on streams: whatever fails, each match is there once.

    python tests/spark/crash.py --faults 100 --seed 7

A driver runs a streaming query over files; a fault is drawn, and the query is started again from
its checkpoint, until all faults have happened and the last driver ends. Then the sink must hold the
matches that the embedded engine finds, each once, and no event may be late.

Faults: the driver and its Java get SIGKILL at any moment, from the first second on, or while a
micro-batch is between its offsets and its commit; the Python workers get SIGKILL, or, in a small
cluster where slow tasks are started twice (speculation), an executor does; the sink fails in the
middle of a write; the disk is full (no process may write to a file any more); a second driver runs
on the same checkpoint. Restarts have other numbers of cores.

Queries: with a window (chunks), with CONSUME BY (snapshots), with distinct answers, and one in
SPAseQ over N-Quads, whose background each driver changes.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

import cernis
from cernis.generators.stock import stock_stream

DRIVER = Path(__file__).parent / "driver.py"
SECONDS = 900.0
"""How long a driver may take on a busy machine."""
ROWS = 2000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

LARGE = "FILTER a[volume > 800] AND b[volume > 800]"
QUERIES = {
    "window": f"SELECT * FROM S WHERE SELL AS a ; BUY AS b {LARGE} PARTITION BY [name] "
    "WITHIN 5 SECONDS",
    "snapshot": f"SELECT * FROM S WHERE SELL AS a ; BUY AS b {LARGE} PARTITION BY [name] "
    "CONSUME BY PARTITION",
    "answers": "Q(n, v) <- SELL(name: n, volume: v), BUY(name: n, volume: w) WITHIN 5 SECONDS",
    "graphs": """PREFIX : <urn:x:> SELECT ?name ?v ?w WITHIN 5 SECONDS FROM STREAM S <urn:s>
    WHERE { SEQ (A ; B)
    DEFINE GPM A ON S { ?sale a :SELL ; :name ?name ; :volume ?v FILTER (?v > 800)
      GRAPH :listed { ?name :listed true } }
    DEFINE GPM B ON S { ?buy a :BUY ; :name ?name ; :volume ?w FILTER (?w > 800) } }""",
}
SUFFIXES = {"answers": "cq", "graphs": "spaseq"}
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
XSD = "http://www.w3.org/2001/XMLSchema#"


# ------------------------------------------------------------------- events


def make_files(draw: random.Random, number: int) -> tuple[pa.Table, list[pa.Table]]:
    """Return a stream, and the same as it comes: up to two seconds out of order, in files."""
    events = stock_stream(number * ROWS, draw.randrange(100), symbols=6)
    at = events.schema.get_field_index("ts")
    micros = np.asarray(events.column("ts").cast(pa.timestamp("us")).cast(pa.int64()))
    micros = np.maximum.accumulate(micros - np.arange(len(micros))) + np.arange(len(micros))
    times = pa.array(micros).cast(pa.timestamp("us", "UTC"))
    events = events.set_column(at, "ts", times)
    early = np.array([draw.random() * 1.9e6 for _ in range(len(micros))])
    order = np.argsort(micros - early, kind="stable")
    files = [events.take(pa.array(order[i : i + ROWS])) for i in range(0, len(order), ROWS)]
    end = pa.array([int(micros[-1]) + 60_000_000]).cast(pa.timestamp("us", "UTC"))
    last = events.slice(0, 1).set_column(at, "ts", end)
    return events, [*files, last.set_column(0, "type", pa.array(["NOTHING"]))]


def put_files(folder: Path, kind: str, files: list[pa.Table]) -> None:
    (folder / "in").mkdir(parents=True)
    (folder / f"query.{SUFFIXES.get(kind, 'ceql')}").write_text(QUERIES[kind])
    (folder / "listed.ttl").write_text(list_names(files[0]))
    for number, events in enumerate(files):
        path = folder / "in" / f"{number:06}.{'nq' if kind == 'graphs' else 'parquet'}"
        if kind == "graphs":
            path.write_text(write_graphs(events))
        else:
            pq.write_table(events, path)
        os.utime(path, (10**9 + number, 10**9 + number))


def list_names(events: pa.Table) -> str:
    """Return background knowledge: which names are listed, which are all but one."""
    names = sorted(set(events.column("name").to_pylist()))[1:]
    return "".join(f"<urn:x:{name}> <urn:x:listed> true .\n" for name in names)


def write_graphs(events: pa.Table) -> str:
    """Return events as graphs, in N-Quads."""
    lines = []
    for row in events.select(["type", "name", "volume", "ts"]).to_pylist():
        moment = _read_moment(row["ts"])
        graph, node = f"<urn:e:{moment}>", f"<urn:n:{moment}>"
        at = row["ts"].isoformat().replace("+00:00", "Z")
        lines += [
            f"{node} <{RDF}type> <urn:x:{row['type']}> {graph} .",
            f"{node} <urn:x:name> <urn:x:{row['name']}> {graph} .",
            f'{node} <urn:x:volume> "{row["volume"]}"^^<{XSD}integer> {graph} .',
            f'{graph} <http://www.w3.org/ns/prov#generatedAtTime> "{at}"^^<{XSD}dateTime> .',
        ]
    return "".join(f"{line}\n" for line in lines)


# ------------------------------------------------------------------ drivers


def start(folder: Path, cores: int, *more: str) -> subprocess.Popen[str]:
    """Return a driver in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, str(DRIVER), str(folder), str(cores), *more],
        stdout=subprocess.PIPE,
        stderr=(folder / "driver.log").open("a"),
        text=True,
        start_new_session=True,
    )


def await_begin(driver: subprocess.Popen[str]) -> bool:
    """Wait until the query runs; return whether it does."""
    assert driver.stdout is not None
    return driver.stdout.readline() == "begun\n"


def kill(driver: subprocess.Popen[str]) -> None:
    os.killpg(driver.pid, signal.SIGKILL)  # Java and the workers are in the same group
    driver.wait()


def list_batches(folder: Path, which: str) -> set[str]:
    return {path.name for path in (folder / "checkpoint" / which).glob("[0-9]*")}


def await_batch(driver: subprocess.Popen[str], folder: Path) -> None:
    """Wait until a micro-batch has begun and is not committed."""
    while driver.poll() is None:
        if list_batches(folder, "offsets") - list_batches(folder, "commits"):
            return
        time.sleep(0.005)


def end(driver: subprocess.Popen[str]) -> None:
    """Wait for a driver that may fail; kill it if it does not end."""
    try:
        driver.wait(SECONDS)
    except subprocess.TimeoutExpired:
        kill(driver)


# ------------------------------------------------------------------- faults


def kill_early(draw: random.Random, folder: Path) -> None:
    """Kill a driver some seconds after its start, at the latest in its first micro-batches."""
    driver = start(folder, draw.randrange(1, 4))
    if draw.random() < 0.8 and await_begin(driver):
        time.sleep(draw.random() * 4)
    else:
        time.sleep(draw.random() * 8)
    kill(driver)


def kill_in_batch(draw: random.Random, folder: Path) -> None:
    """Kill a driver between the offsets of a micro-batch and its commit."""
    driver = start(folder, draw.randrange(1, 4))
    if await_begin(driver):
        await_batch(driver, folder)
        time.sleep(draw.choice((0.0, draw.random() * 0.2, draw.random() * 2)))
    kill(driver)


@contextmanager
def interrupt_batch(
    draw: random.Random, folder: Path, *more: str
) -> Iterator[list[psutil.Process]]:
    """Give the processes of a driver at some moment of a micro-batch, then wait for its end.

    Its query may fail, or do again what is harmed.
    """
    driver = start(folder, draw.randrange(1, 4), *more)
    found = []
    if await_begin(driver):
        await_batch(driver, folder)
        time.sleep(draw.random())
        with suppress(psutil.NoSuchProcess):
            whole = psutil.Process(driver.pid)
            found = [whole, *whole.children(recursive=True)]
    yield found
    end(driver)


def runs(process: psutil.Process, name: str) -> bool:
    """Return whether the command of a process names a module or a class."""
    with suppress(psutil.Error):
        return any(name in word for word in process.cmdline())
    return False


def kill_workers(draw: random.Random, folder: Path) -> None:
    """Kill the Python workers of a driver."""
    with interrupt_batch(draw, folder) as found:
        for process in found:
            if runs(process, "cernis.spark.local.daemon"):
                with suppress(psutil.Error):
                    process.kill()


def kill_executor(draw: random.Random, folder: Path) -> None:
    """Kill an executor of a cluster with speculation; its tasks run elsewhere."""
    with interrupt_batch(draw, folder, "cluster") as found:
        executors = [one for one in found if runs(one, "CoarseGrainedExecutorBackend")]
        for process in executors[:1]:
            with suppress(psutil.Error):
                process.kill()


def fill_disk(draw: random.Random, folder: Path) -> None:
    """Let no process of a driver write to files any more, as if the disk were full."""
    with interrupt_batch(draw, folder) as found:
        for process in found:
            with suppress(ProcessLookupError):
                resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (0, 0))


def fail_sink(draw: random.Random, folder: Path) -> None:
    """Let the sink fail in the middle of a write."""
    (folder / "fail").touch()
    end(start(folder, draw.randrange(1, 4)))
    (folder / "fail").unlink(missing_ok=True)


def run_two(draw: random.Random, folder: Path) -> None:
    """Run two drivers on one checkpoint; kill one of them, and what is left of the other."""
    drivers = [start(folder, 1), start(folder, 2)]
    for driver in drivers:
        await_begin(driver)
    time.sleep(draw.random() * 5)
    for driver in draw.sample(drivers, 2):
        kill(driver)


FAULTS: dict[str, Callable[[random.Random, Path], None]] = {
    "driver": kill_early,
    "in a batch": kill_in_batch,
    "workers": kill_workers,
    "executor": kill_executor,
    "disk": fill_disk,
    "sink": fail_sink,
    "two drivers": run_two,
}


# --------------------------------------------------------------- comparison


def read_sink(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a sink of files: of those that Spark's log names."""
    log = folder / "out" / "_spark_metadata"
    written = {int(path.name.partition(".")[0]): path for path in log.glob("[0-9]*")}
    compact = max((n for n, path in written.items() if path.suffix == ".compact"), default=-1)
    for number in sorted(n for n in written if n >= compact):
        for line in written[number].read_text().splitlines()[1:]:
            path = Path(unquote(urlsplit(json.loads(line)["path"]).path))
            yield from pq.read_table(path, partitioning=None).to_pylist()


def find_expected(kind: str, events: pa.Table) -> collections.Counter[tuple[Any, ...]]:
    """Return what the embedded engine finds."""
    query = cernis.query(QUERIES[kind], lang=SUFFIXES.get(kind, "ceql"))
    if kind == "graphs":
        known = list_names(events).replace("true", '"true"^^' + f"<{XSD}boolean>").encode()
        found = query.run(write_graphs(events).encode(), background=known)
    else:
        found = query.run(events)
    return collections.Counter(map(name_row, found.to_arrow().to_pylist()))


def name_row(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return what identifies a match or an answer; all times differ."""
    if "start_ts" in row and "name" in row and "v" in row:
        return row["name"], _read_moment(row["start_ts"]), _read_moment(row["end_ts"])
    if "a" in row:
        return row["name"], *(_read_moment(row[x][0]["ts"]) for x in "ab")
    return row["n"], row["v"]


def _read_moment(ts: datetime) -> int:
    """Return the microseconds since 1970; Spark's files may have times without their zone."""
    return (ts.replace(tzinfo=ts.tzinfo or UTC) - EPOCH) // timedelta(microseconds=1)


def check(kind: str, folder: Path, events: pa.Table) -> tuple[int, int, int]:
    """Return how many matches the sink has, how many are missing, and how many are too many."""
    found = collections.Counter(map(name_row, read_sink(folder)))
    expected = find_expected(kind, events)
    lost, doubled = (expected - found).total(), (found - expected).total()
    return found.total(), lost, doubled


def run_round(kind: str, faults: list[str], draw: random.Random, folder: Path) -> tuple[int, ...]:
    """Run a query with faults to its end; return the matches, the lost, the doubled, the late."""
    events, files = make_files(draw, 2 + len(faults))
    put_files(folder, kind, files)
    for fault in faults:
        FAULTS[fault](draw, folder)
    last = start(folder, 2)
    if last.wait(SECONDS):
        raise RuntimeError((folder / "driver.log").read_text()[-3000:])
    late = sum(path.is_file() for path in (folder / "late").rglob("*"))
    return *check(kind, folder, events), late


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=100, help="of all rounds together")
    parser.add_argument("--each", type=int, default=5, help="faults in a round")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--query", action="append", choices=QUERIES)
    parser.add_argument("--fault", action="append", choices=FAULTS)
    parser.add_argument("--keep", type=Path, help="a folder for rounds that went wrong")
    options = parser.parse_args()
    draw = random.Random(options.seed)
    kinds, names = options.query or list(QUERIES), options.fault or list(FAULTS)
    print(f"seed {options.seed}", flush=True)
    print(
        f"{'query':10}{'faults':>8}{'matches':>9}{'lost':>6}{'doubled':>9}{'late':>6}", flush=True
    )
    done: collections.Counter[str] = collections.Counter()
    total = [0, 0, 0, 0]
    rounds = 0
    while done.total() < options.faults:
        kind = kinds[rounds % len(kinds)] if len(kinds) < len(QUERIES) else draw.choice(kinds)
        rounds += 1
        faults = draw.choices(names, k=min(options.each, options.faults - done.total()))
        with tempfile.TemporaryDirectory() as folder:
            numbers = run_round(kind, faults, draw, Path(folder) / "run")
            if any(numbers[1:]) and options.keep is not None:
                shutil.copytree(Path(folder) / "run", options.keep / f"{options.seed}-{rounds}")
        done.update(faults)
        total = [a + b for a, b in zip(total, numbers, strict=True)]
        print(f"{kind:10}{len(faults):>8}{_row(numbers)}  {', '.join(faults)}", flush=True)
    counts = ", ".join(f"{number} {name}" for name, number in sorted(done.items()))
    print(f"{'all':10}{done.total():>8}{_row(total)}  {counts}")
    return 1 if any(total[1:]) else 0


def _row(numbers: Any) -> str:
    matches, lost, doubled, late = numbers
    return f"{matches:>9,}{lost:>6,}{doubled:>9,}{late:>6,}"


if __name__ == "__main__":
    sys.exit(main())
