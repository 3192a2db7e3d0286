"""`cernis bench live`: how soon a stream in one process tells a match, and how fast it reads.

Latency: a process writes JSON lines at a steady rate to `cernis stream`, or to a topic. A hundred
times a second it writes a pair of events that make one match; the second of them carries the clock.
The time until the match's line is read again, from standard output or from a topic, is the latency:
it has the pipe, the operating system and the writer's own delays in it.

Throughput: the processor time of all threads of a process that reads, parses, recognizes and
commits, beside that of the same process when it only reads and parses.

Kafka is measured where `CERNIS_BENCH_KAFKA` names a broker (host:port).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from statistics import quantiles
from tempfile import TemporaryDirectory
from time import monotonic_ns, sleep
from typing import Any

from benchmarks.benchmark import Benchmark, Part, Step, run_parts
from benchmarks.peer import ABSENT
from benchmarks.process import ask_process
from benchmarks.record import Case, Record, divide, find, select
from benchmarks.scale import BenchmarkScale
from benchmarks.table import Table, tabulate

NAME = "live"
VARIABLE = "CERNIS_BENCH_KAFKA"
QUERY = "SELECT b[sent] FROM S WHERE A AS a ; B AS b PARTITION BY [k] WITHIN 10 SECONDS"
INPUTS = ("JSON lines from a pipe", "Parquet folder", "Kafka")
_TICK = 2_000_000
"""Nanoseconds between two writes."""
_STARTED, _PATIENCE = 40, 60_000_000_000
"""How many matches a process tells before it is measured, and nanoseconds to wait for them."""
_SETTLED = 0.2
"""The share of matches that are left out at first."""

Write = Callable[[list[str]], None]


def run_live(scale: BenchmarkScale, step: Step) -> list[Record]:
    """Measure latency at each rate, and throughput of each input."""
    servers = os.environ.get(VARIABLE)
    parts: list[Part] = []
    for rate in scale.live_rates:
        parts.append((f"pipe, {rate:,} events/s", partial(_measure_pipe, rate, scale)))
        kafka = partial(_measure_kafka, rate, scale, servers)
        parts.append((f"Kafka, {rate:,} events/s", kafka))
    for kind in INPUTS:
        parts.append((kind, partial(_measure_throughput, kind, scale, servers)))
    return run_parts(parts, step)


# ------------------------------------------------------------------ latency


def _measure_pipe(rate: int, scale: BenchmarkScale) -> list[Record]:
    command = [sys.executable, "-m", "cernis", "stream", QUERY, "--source", "S=-", "--sink", "-"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        found: list[float] = []

        def read(lines: Any = running.stdout) -> None:
            found.extend(_read_latency(line, monotonic_ns()) for line in lines)

        reader = threading.Thread(target=read)
        reader.start()
        descriptor = running.stdin.fileno()

        def write(lines: list[str]) -> None:
            _write_all(descriptor, "".join(lines))

        wait_for_matches(write, found)
        feed(rate, scale.live_seconds, write)
        running.stdin.close()
        reader.join()
    return _record(found, {"from": "pipe", "events/s": rate})


def _write_all(descriptor: int, text: str) -> None:
    rest = text.encode()
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _measure_kafka(rate: int, scale: BenchmarkScale, servers: str | None) -> list[Record]:
    case: Case = {"from": "Kafka", "events/s": rate}
    if servers is None:
        return _record([], case)
    from confluent_kafka import Producer

    with _topics(servers, "in", "out") as (source, sink), TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "cernis", "stream", QUERY]
        command += ["--source", f"S=kafka://{servers}/{source}", "--checkpoint", folder]
        command += ["--sink", f"kafka://{servers}/{sink}"]
        producer = Producer({"bootstrap.servers": servers, "linger.ms": 1})

        def write(lines: list[str]) -> None:
            for line in lines:
                producer.produce(source, line.encode())
            producer.poll(0)

        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as running:
            found: list[float] = []
            stop = threading.Event()
            reader = threading.Thread(target=_read_topic, args=(servers, sink, found, stop))
            reader.start()
            wait_for_matches(write, found)
            feed(rate, scale.live_seconds, write)
            producer.flush(30)
            sleep(1)
            stop.set()
            reader.join()
            running.terminate()
    return _record(found, case)


def _read_topic(servers: str, topic: str, found: list[float], stop: threading.Event) -> None:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "bench",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 5,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    while not stop.is_set():
        message = consumer.poll(0.05)
        if message is not None and message.error() is None:
            found.append(_read_latency(message.value() or b"", monotonic_ns()))
    consumer.close()


def wait_for_matches(write: Write, found: list[float]) -> None:
    """Write a pair now and then until matches come back: the process has started."""
    begin, number = monotonic_ns(), 2_000_000
    while len(found) < _STARTED and monotonic_ns() < begin + _PATIENCE:
        number += 1
        write(_make_pair(number))
        sleep(0.05)
    found.clear()


def _make_pair(key: int) -> list[str]:
    time = _now()
    return [
        f'{{"type": "A", "ts": {time}, "k": {key}, "sent": 0}}\n',
        f'{{"type": "B", "ts": {time}, "k": {key}, "sent": {monotonic_ns()}}}\n',
    ]


def feed(rate: int, seconds: float, write: Write, pairs: int = 100) -> None:
    """Write events at a rate for some seconds, some pairs a second among them."""
    begin, number, written, paired = monotonic_ns(), 0, 0, 0
    end = begin + int(seconds * 1e9)
    while (now := monotonic_ns()) < end:
        time = _now()
        lines = []
        wanted = (now - begin) * rate // 10**9
        for _ in range(min(wanted - written, 20_000)):
            number += 1
            lines.append(f'{{"type": "C", "ts": {time}, "k": {number & 511}, "sent": 0}}\n')
        written += len(lines)
        if (now - begin) * pairs // 10**9 > paired:
            paired += 1
            lines += _make_pair(1_000_000 + paired)
        if lines:
            write(lines)
        sleep(max(0.0, (now + _TICK - monotonic_ns()) / 1e9))


def _now() -> int:
    return monotonic_ns() // 1_000_000


def _read_latency(line: bytes, now: int) -> float:
    """Return the milliseconds since the event that has ended a match."""
    values = json.loads(line)["values"]
    return (now - int(next(iter(values.values())))) / 1e6


def _record(found: Sequence[float], case: Mapping[str, int | str]) -> list[Record]:
    settled = [*found[int(len(found) * _SETTLED) :]]
    if len(settled) < 2:
        absent = ("median", "99th percentile")
        return [Record(NAME, measure, None, "ms", case, ABSENT) for measure in absent]
    cuts = quantiles(settled, n=100)
    return [
        Record(NAME, "median", cuts[49], "ms", case),
        Record(NAME, "99th percentile", cuts[98], "ms", case),
    ]


# --------------------------------------------------------------- throughput


def _measure_throughput(kind: str, scale: BenchmarkScale, servers: str | None) -> list[Record]:
    case = {"input": kind}
    measures = ("reading and parsing", "the whole run")
    if kind == "Kafka" and servers is None:
        return [Record(NAME, measure, None, "events/s", case, ABSENT) for measure in measures]
    seconds: dict[str, list[float]] = {measure: [] for measure in measures}
    for _ in range(scale.rounds):
        request = {"kind": kind, "events": scale.live_events, "servers": servers}
        for measure, spent in ask_process("benchmarks.live_process", request).items():
            seconds[measure].append(spent)
    records = [
        Record(NAME, measure, scale.live_events / min(spent), "events/s", case)
        for measure, spent in seconds.items()
    ]
    plain, whole = (find(records, measure) for measure in measures)
    return [*records, Record(NAME, "share", divide(whole, plain), "×", case)]


@contextmanager
def _topics(servers: str, *names: str) -> Iterator[list[str]]:
    """Create topics for a measurement, and delete them."""
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": servers})
    made = [f"bench-{name}-{monotonic_ns()}" for name in names]
    for future in admin.create_topics([NewTopic(n, 1, 1) for n in made]).values():
        future.result(60)
    try:
        yield made
    finally:
        admin.delete_topics(made)


# ------------------------------------------------------------------ showing


def build_tables(records: Sequence[Record]) -> list[Table]:
    """Return a table of latencies, and one of throughputs."""
    latency = {"from": "from", "events/s": "events/s", "median, ms": "median"}
    throughput = {
        "input": "input",
        "reading and parsing, events per processor second": "reading and parsing",
        "the whole run": "the whole run",
        "share": "share",
    }
    return [
        tabulate(
            records,
            "From the event that makes a match certain to its line",
            "median",
            {**latency, "99th percentile, ms": "99th percentile"},
        ),
        tabulate(records, "Events per processor second", "the whole run", throughput),
    ]


def build_points(records: Sequence[Record]) -> list[Mapping[str, object]]:
    """Return the latencies by rate."""
    return [
        {
            "from": r.case["from"],
            "events/s": r.case["events/s"],
            "measure": r.measure,
            "ms": r.value,
        }
        for measure in ("median", "99th percentile")
        for r in select(records, measure)
        if r.value is not None
    ]


LIVE = Benchmark(
    name=NAME,
    title="Streams in one process",
    question=f"""
How soon does `cernis stream` tell a match, and how many events does it read? JSON lines come at a
steady rate, from a pipe to standard output, and from a topic to a topic by transactions; a hundred
times a second a pair of events makes a match. The clock runs from the write of the event that makes
the match certain to the read of its line: the delays of the writer and of the system are in
it. Throughput is that of a processor second, over all threads, in a process that has read as many
events before. Kafka is measured where `{VARIABLE}` names a broker.
""",
    run=run_live,
    tables=build_tables,
    points=build_points,
)
