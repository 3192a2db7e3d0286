"""Faults on streams: whatever fails, each match is there once.

    python tests/spark/crash.py --faults 100 --seed 7

In a round, events come in, a driver runs a streaming query over them, and a fault happens to it.
More events come, and another driver goes on from the checkpoint, until the faults of the round have
happened and the last driver ends. Then the sink must hold the matches that the embedded engine
finds, each once, and no event may be late.

Faults: the driver and its Java get SIGKILL at any moment, from the first second on, or while a
micro-batch is between its offsets and its commit, or after the sink has its rows and before its
commit; the Python workers get SIGKILL, or, in a small cluster where slow tasks are started twice
(speculation), an executor does; the sink fails in the middle of a write; the disk is full (no
process may write to a file any more); a second driver runs on the same checkpoint; the broker goes
away and comes back, in rounds that read a topic of a real Kafka instead of files. Restarts have
other numbers of cores.

Queries: with a window (chunks), with CONSUME BY (snapshots), with distinct answers, with WITHOUT,
with GROUP BY … EVERY, a rule set with INSERT INTO and SUPPRESS, and one in SPAseQ over N-Quads,
whose background each driver changes.

Without the jars of a Kafka, which the first run fetches from the Java registry, no broker fails.
"""

from __future__ import annotations

import argparse
import collections
import itertools
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
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

import cernis
from cernis.errors import CernisError
from cernis.generators.stock import stock_stream
from cernis.spark.local.session import local_session
from cernis.spark.streaming.connector import fetch_connector

sys.path.append(str(Path(__file__).parents[1] / "kafka"))
from broker import Broker, Topics, add_jars, find_broker

DRIVER = Path(__file__).parent / "driver.py"
SECONDS = 900.0
"""How long a driver may take on a busy machine."""
ROWS = 1500
"""In a file, and in a micro-batch."""
FILES = 2
"""That come before each fault."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

LARGE = "FILTER a[volume > 800] AND b[volume > 800]"
PAIR = f"FROM S WHERE SELL AS a ; BUY AS b {LARGE} PARTITION BY [name] WITHIN 5 SECONDS"
ABSENCE = (
    "SELECT * FROM S WHERE SELL AS a FILTER a[volume > 800] "
    "WITHOUT (BUY AS b FILTER b[volume > 500]) FOR 2 SECONDS PARTITION BY [name]"
)
GROUPS = f"SELECT COUNT(*) AS n, SUM(b[volume]) AS v {PAIR} GROUP BY [name], EVERY 10 SECONDS"
RULES = {
    "large": f"INSERT INTO Large SELECT a[name] AS name, b[volume] AS volume {PAIR}",
    "twice": "SELECT x, y FROM Large WHERE Large AS x ; Large AS y FILTER y[volume > 900] "
    "PARTITION BY [name] WITHIN 2 SECONDS",
    "loud": "SELECT * FROM S WHERE SELL AS a FILTER a[volume > 700] PARTITION BY [name] "
    "SUPPRESS BY [name] FOR 3 SECONDS",
    "alone": ABSENCE,
    "sums": GROUPS,
}
QUERIES = {
    "window": f"SELECT * {PAIR}",
    "snapshot": f"SELECT * FROM S WHERE SELL AS a ; BUY AS b {LARGE} PARTITION BY [name] "
    "CONSUME BY PARTITION",
    "absence": ABSENCE,
    "groups": GROUPS,
    "rules": json.dumps(RULES),
    "answers": "Q(n, v) <- SELL(name: n, volume: v), BUY(name: n, volume: w) WITHIN 5 SECONDS",
    "graphs": """PREFIX : <urn:x:> SELECT ?name ?v ?w WITHIN 5 SECONDS FROM STREAM S <urn:s>
    WHERE { SEQ (A ; B)
    DEFINE GPM A ON S { ?sale a :SELL ; :name ?name ; :volume ?v FILTER (?v > 800)
      GRAPH :listed { ?name :listed true } }
    DEFINE GPM B ON S { ?buy a :BUY ; :name ?name ; :volume ?w FILTER (?w > 800) } }""",
}
SUFFIXES = {"answers": "cq", "graphs": "spaseq", "rules": "json"}
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
XSD = "http://www.w3.org/2001/XMLSchema#"


# ------------------------------------------------------------------- events


def make_files(draw: random.Random, number: int) -> tuple[pa.Table, list[pa.Table]]:
    """Return a stream, and the same as it comes: up to 1.5 seconds out of order, in files."""
    events = stock_stream(number * ROWS, draw.randrange(100), symbols=6)
    at = events.schema.get_field_index("ts")
    micros = np.asarray(events.column("ts").cast(pa.timestamp("us")).cast(pa.int64()))
    micros = np.maximum.accumulate(micros - np.arange(len(micros))) + np.arange(len(micros))
    times = pa.array(micros).cast(pa.timestamp("us", "UTC"))
    events = events.set_column(at, "ts", times)
    early = np.array([draw.random() * 1.5e6 for _ in range(len(micros))])
    order = np.argsort(micros - early, kind="stable")
    numbered = events.append_column("n", pa.array(range(len(events))))
    files = [numbered.take(pa.array(order[i : i + ROWS])) for i in range(0, len(order), ROWS)]
    end = pa.array([int(micros[-1]) + 60_000_000]).cast(pa.timestamp("us", "UTC"))
    last = numbered.slice(0, 1).set_column(at, "ts", end)
    return events, [*files, last.set_column(0, "type", pa.array(["NOTHING"]))]


def put_query(folder: Path, kind: str, events: pa.Table) -> None:
    (folder / "in").mkdir(parents=True)
    (folder / f"query.{SUFFIXES.get(kind, 'ceql')}").write_text(QUERIES[kind])
    (folder / "listed.ttl").write_text(list_names(events))


def put_file(folder: Path, kind: str, number: int, events: pa.Table) -> None:
    """Let events come in a file."""
    path = folder / "in" / f"{number:06}.{'nq' if kind == 'graphs' else 'parquet'}"
    if kind == "graphs":
        path.write_text("".join(write_graphs(events)))
    else:
        pq.write_table(events, path)
    os.utime(path, (10**9 + number, 10**9 + number))


def put_records(topics: Topics, topic: str, kind: str, events: pa.Table) -> None:
    """Let events come in a topic: one in each record."""
    texts = write_graphs(events) if kind == "graphs" else write_objects(events)
    topics.put(topic, *(text.encode() for text in texts))


def write_objects(events: pa.Table) -> list[str]:
    """Return events as JSON."""
    return [json.dumps({**row, "ts": row["ts"].isoformat()}) for row in events.to_pylist()]


def list_names(events: pa.Table) -> str:
    """Return background knowledge: which names are listed, which are all but one."""
    names = sorted(set(events.column("name").to_pylist()))[1:]
    return "".join(f"<urn:x:{name}> <urn:x:listed> true .\n" for name in names)


def write_graphs(events: pa.Table) -> list[str]:
    """Return events as graphs, in N-Quads."""
    graphs = []
    for row in events.select(["type", "name", "volume", "ts"]).to_pylist():
        moment = _read_moment(row["ts"])
        graph, node = f"<urn:e:{moment}>", f"<urn:n:{moment}>"
        at = row["ts"].isoformat().replace("+00:00", "Z")
        lines = [
            f"{node} <{RDF}type> <urn:x:{row['type']}> {graph} .",
            f"{node} <urn:x:name> <urn:x:{row['name']}> {graph} .",
            f'{node} <urn:x:volume> "{row["volume"]}"^^<{XSD}integer> {graph} .',
            f'{graph} <http://www.w3.org/ns/prov#generatedAtTime> "{at}"^^<{XSD}dateTime> .',
        ]
        graphs.append("".join(f"{line}\n" for line in lines))
    return graphs


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


def list_batches(folder: Path) -> set[str]:
    """Return the numbers of the micro-batches that a log has: offsets, commits or the sink's."""
    return {path.name.partition(".")[0] for path in folder.glob("[0-9]*")}


def list_commits(folder: Path) -> set[str]:
    return list_batches(folder / "checkpoint" / "commits")


def list_written(folder: Path) -> set[str]:
    """Return the micro-batches whose rows the sink has."""
    return list_batches(folder / "out" / "_spark_metadata")


def await_batch(driver: subprocess.Popen[str], folder: Path) -> None:
    """Wait until a micro-batch has begun and is not committed."""
    while driver.poll() is None:
        if list_batches(folder / "checkpoint" / "offsets") - list_commits(folder):
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


def kill_in_commit(draw: random.Random, folder: Path) -> None:
    """Kill a driver when the sink has the rows of a micro-batch, before or at its commit."""
    before = list_written(folder)
    driver = start(folder, draw.randrange(1, 4))
    if await_begin(driver):
        while driver.poll() is None and not list_written(folder) - before - list_commits(folder):
            time.sleep(0.001)
        time.sleep(draw.choice((0.0, draw.random() * 0.05)))
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


def lose_broker(broker: Broker, draw: random.Random, folder: Path) -> None:
    """Let the broker go away in the middle of a micro-batch, or before the driver starts."""
    leave = draw.choice((broker.kill, broker.stop))
    if draw.random() < 0.2:
        leave()
        driver = start(folder, draw.randrange(1, 4))
        await_begin(driver)
    else:
        driver = start(folder, draw.randrange(1, 4))
        if await_begin(driver):
            await_batch(driver, folder)
            time.sleep(draw.random() * 2)
        leave()
    time.sleep(draw.random() * 6)
    broker.launch()
    broker.wait()
    end(driver)


Fault = Callable[[random.Random, Path], None]
FAULTS: dict[str, Fault] = {
    "driver": kill_early,
    "in a batch": kill_in_batch,
    "commit": kill_in_commit,
    "workers": kill_workers,
    "executor": kill_executor,
    "disk": fill_disk,
    "sink": fail_sink,
    "two drivers": run_two,
}


class Kafka(NamedTuple):
    """A broker for all rounds, and a Spark in this process that writes to its topics."""

    broker: Broker
    topics: Topics


@contextmanager
def run_kafka() -> Iterator[Kafka | None]:
    """Run a broker, unless its jars cannot be fetched."""
    jars = find_broker()
    try:
        connector = fetch_connector()
    except CernisError:
        jars = None
    if jars is None:
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(jars, Path(folder))
        broker.launch()
        try:
            spark = local_session(1, memory="512m")
            add_jars(spark, connector.jars)
            broker.wait()
            yield Kafka(broker, Topics(spark, broker))
        finally:
            broker.stop()


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
    if kind == "rules":
        return collections.Counter(
            (json.dumps({"rule": name, **json.loads(line)}, separators=(",", ":")),)
            for name, found in cernis.rules(RULES).run(events, complete=True).items()
            for batch in found.lines()
            for line in batch.column("line").to_pylist()
        )
    query = cernis.query(QUERIES[kind], lang=SUFFIXES.get(kind, "ceql"))
    if kind == "graphs":
        known = list_names(events).replace("true", '"true"^^' + f"<{XSD}boolean>").encode()
        found = query.run("".join(write_graphs(events)).encode(), background=known)
    else:
        found = query.run(events, complete=True)
    return collections.Counter(map(name_row, found.to_arrow().to_pylist()))


def name_row(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return what identifies a match, an answer or a group; all times differ."""
    if "line" in row:
        return (row["line"],)
    if "to_ts" in row:
        return row["name"], _read_moment(row["to_ts"]), row["n"], row["v"]
    if "start_ts" in row and "name" in row and "v" in row:
        return row["name"], _read_moment(row["start_ts"]), _read_moment(row["end_ts"])
    if "a" in row:
        return row["name"], *(_read_moment(row[x][0]["ts"]) for x in "ab" if x in row)
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


class Round(NamedTuple):
    kind: str
    faults: list[str]
    kafka: Kafka | None
    """Events come in a topic, and not in files."""


def run_round(round: Round, faults: dict[str, Fault], draw: random.Random, folder: Path) -> Tally:
    """Run a query with faults to its end."""
    events, files = make_files(draw, FILES * len(round.faults) + 2)
    put_query(folder, round.kind, events)
    if round.kafka is not None:
        topic = f"round-{time.time_ns()}"
        (folder / "topic").write_text(f"{round.kafka.topics.servers}/{topic}")
        put = partial(put_records, round.kafka.topics, topic, round.kind)
    else:
        numbers = itertools.count()
        put = lambda some: put_file(folder, round.kind, next(numbers), some)  # noqa: E731
    first = 0
    for name in round.faults:
        for some in (files.pop(0) for _ in range(FILES)):
            put(some)
        faults[name](draw, folder)
        first += not list_commits(folder)
    for some in files:
        put(some)
    last = start(folder, 2)
    if last.wait(SECONDS):
        raise RuntimeError((folder / "driver.log").read_text()[-3000:])
    late = sum(path.is_file() for path in (folder / "late").rglob("*"))
    return Tally(*check(round.kind, folder, events), late, first)


class Tally(NamedTuple):
    matches: int = 0
    lost: int = 0
    doubled: int = 0
    late: int = 0
    first: int = 0
    """Faults before the commit of the first micro-batch."""

    def __str__(self) -> str:
        return f"{self.matches:>9,}{self.lost:>6,}{self.doubled:>9,}{self.late:>6,}"

    @property
    def is_wrong(self) -> bool:
        return any((self.lost, self.doubled, self.late))


def deal(draw: random.Random, cards: list[str]) -> Iterator[str]:
    """Yield the cards of a shuffled pack, then those of the pack shuffled again, without end."""
    while True:
        yield from draw.sample(cards, len(cards))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=100, help="of all rounds together")
    parser.add_argument("--each", type=int, default=5, help="faults in a round")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--query", action="append", choices=QUERIES)
    parser.add_argument("--fault", action="append", choices=[*FAULTS, "broker"])
    parser.add_argument("--keep", type=Path, help="a folder for rounds that went wrong")
    options = parser.parse_args()
    draw = random.Random(options.seed)
    print(f"seed {options.seed}", flush=True)
    kinds, names = options.query or [*QUERIES], options.fault or [*FAULTS, "broker"]
    with run_kafka() if "broker" in names else nullcontext() as kafka:
        if kafka is None and "broker" in names:
            names.remove("broker")
            print("no broker: the Java registry cannot be reached", flush=True)
        return 1 if run_rounds(options, draw, kinds, names, kafka).is_wrong else 0


def run_rounds(
    options: argparse.Namespace,
    draw: random.Random,
    kinds: list[str],
    names: list[str],
    kafka: Kafka | None,
) -> Tally:
    """Run all rounds, and print what each has found."""
    print(f"{'query':10}{'faults':>8}{'matches':>9}{'lost':>6}{'doubled':>9}{'late':>6}")
    faults = {**FAULTS, **({"broker": partial(lose_broker, kafka.broker)} if kafka else {})}
    done: collections.Counter[str] = collections.Counter()
    queries, fates = deal(draw, kinds), deal(draw, names)
    total = Tally()
    for number in itertools.count():
        left = options.faults - done.total()
        if not left:
            break
        chosen = [*itertools.islice(fates, min(options.each, left))]
        round = Round(next(queries), chosen, kafka if "broker" in chosen else None)
        with tempfile.TemporaryDirectory() as folder:
            tally = run_round(round, faults, draw, Path(folder) / "run")
            if tally.is_wrong and options.keep is not None:
                shutil.copytree(Path(folder) / "run", options.keep / f"{options.seed}-{number}")
        done.update(chosen)
        total = Tally(*(a + b for a, b in zip(total, tally, strict=True)))
        print(f"{round.kind:10}{len(chosen):>8}{tally}  {', '.join(chosen)}", flush=True)
    counts = ", ".join(f"{number} {name}" for name, number in sorted(done.items()))
    print(f"{'all':10}{done.total():>8}{total}  {counts}; {total.first} in the first micro-batch")
    return total


if __name__ == "__main__":
    sys.exit(main())
