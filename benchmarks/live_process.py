"""The processor time of a live run, and of reading and parsing alone, in one process.

Run as `python -m benchmarks.live_process`; prints one JSON line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic_ns, process_time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import cernis
from cernis.events.reading.mistakes import Mistakes
from cernis.live.inputs import FolderInput, LiveInput, PipeInput
from cernis.live.prepare import LiveOptions, prepare_query
from cernis.live.run import LiveRun, Pace
from cernis.live.sinks import FolderSink
from cernis.live.store import LocalStore
from cernis.live.topics import TopicInput
from cernis.work.endpoints import Topic

QUERY = (
    "SELECT * FROM S WHERE A AS a ; B AS b ; C AS c FILTER a[v > 98] AND b[v > 98] AND c[v > 98] "
    "PARTITION BY [k] WITHIN 10 SECONDS"
)
_FILES = 10


def make_events(number: int) -> pa.Table:
    """Return events of three types and a thousand keys, a millisecond apart."""
    chance = np.random.default_rng(0)
    return pa.table(
        {
            "type": chance.choice(["A", "B", "C"], number),
            "ts": np.arange(number),
            "k": chance.integers(0, 1000, number),
            "v": chance.integers(0, 100, number),
            "name": chance.choice(["north", "south", "east", "west"], number),
        }
    )


@contextmanager
def open_input(kind: str, folder: Path, servers: str | None) -> Iterator[LiveInput]:
    """Open the events that `prepare` has put in place."""
    if kind == "Parquet folder":
        yield FolderInput(folder / "files", once=True)
    elif kind == "Kafka":
        assert servers is not None
        yield TopicInput(Topic(servers, (folder / "topic").read_text()), once=True)
    else:
        command = ["cat", str(folder / "events.jsonl")]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as feeding:
            assert feeding.stdout is not None
            yield PipeInput(feeding.stdout.fileno(), "the pipe")


def prepare(kind: str, folder: Path, events: int, servers: str | None) -> None:
    """Put events in place."""
    table = make_events(events)
    if kind == "Parquet folder":
        (folder / "files").mkdir()
        size = -(-events // _FILES)
        for number in range(_FILES):
            path = folder / "files" / f"{number}.parquet"
            pq.write_table(table.slice(number * size, size), path)
            os.utime(path, (number, number))
        return
    lines = [json.dumps(event) for event in table.to_pylist()]
    if kind != "Kafka":
        (folder / "events.jsonl").write_text("".join(f"{line}\n" for line in lines))
        return
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    assert servers is not None
    topic = f"bench-{monotonic_ns()}"
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)
    producer = Producer({"bootstrap.servers": servers, "queue.buffering.max.messages": 10**7})
    for line in lines:
        producer.produce(topic, line.encode())
    producer.flush(120)
    (folder / "topic").write_text(topic)


def read_alone(input_: LiveInput) -> int:
    """Read and parse all events; return how many."""
    query = cernis.query(QUERY)
    options = LiveOptions()
    sources = options.reading.open_sources(
        {"S": input_}, query.pattern.streams, Mistakes("fail"), None
    )
    return sum(chunk.table.num_rows for chunk in sources[0].chunks(tick=1_000_000))


def run_whole(input_: LiveInput, folder: Path) -> int:
    """Recognize, commit and write matches; return how many events were read."""
    store = LocalStore(folder / "checkpoint")
    inputs = {"S": input_}
    prepared = prepare_query(cernis.query(QUERY), inputs, LiveOptions(), "lines")
    sink = FolderSink(folder / "out", "jsonl")
    run = LiveRun(prepared, inputs, store, [sink], Pace())
    read = 0

    def told(progress: Any) -> None:
        nonlocal read
        read += progress.rows

    run.told = told
    run.run(lambda: False)
    store.close()
    return read


def main() -> None:
    request = json.loads(sys.stdin.read())
    kind, events, servers = request["kind"], request["events"], request["servers"]
    spent: dict[str, float] = {}
    with TemporaryDirectory() as name:
        for part in ("warm", "measured"):  # the first run also loads what is compiled
            folder = Path(name, part)
            folder.mkdir()
            prepare(kind, folder, events, servers)
            for measure in ("reading and parsing", "the whole run"):
                with open_input(kind, folder, servers) as input_:
                    began = process_time()
                    read = read_alone(input_) if measure[0] == "r" else run_whole(input_, folder)
                    spent[measure] = process_time() - began
                    input_.close()
                if read != events:
                    raise RuntimeError(f"{measure}: {read} of {events} events")
    sys.stdout.write(json.dumps(spent) + "\n")


if __name__ == "__main__":
    main()
