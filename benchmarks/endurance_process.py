"""Observe a session on an endless stream: run as `python -m benchmarks.endurance_process`.

The same few batches come again and again, made before the clock runs. Only two columns change:
times go on, and every fifty events of a stock have a new `visit`. The matches of a batch are
counted and dropped.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import count
from time import process_time

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import cernis
from benchmarks.detections import host_log
from benchmarks.endless import read_resident_bytes
from benchmarks.process import ask_process
from cernis.generators.stock import stock_stream

HOST_BATCH = 20_000
"""The events in a batch of a log of hosts, which has hundreds of columns."""
_DISTINCT_BATCHES = 4
_MEAN_GAP = 50
_VISIT = 50


@dataclass(frozen=True, slots=True)
class StreamSample:
    """The memory of the process after so many events, and the rate since the sample before.

    The rate is in events per second of processor time.
    """

    events: int
    bytes: int
    rate: float


Texts = str | Mapping[str, str]
"""A query, or rules by name."""


def observe_process(
    texts: Texts, events: int, batch: int, samples: int, log: str = "stock"
) -> list[StreamSample]:
    """Return samples of a new process that pushes so many events through a session."""
    request = {"texts": texts, "events": events, "batch": batch, "samples": samples, "log": log}
    answer = ask_process("benchmarks.endurance_process", request)
    return [StreamSample(**sample) for sample in answer["samples"]]


def observe_stream(
    texts: Texts, events: int, batch: int, samples: int, log: str = "stock"
) -> list[StreamSample]:
    """Push the events through a session; return the samples.

    Rates are by processor time: a long run is seldom alone on its machine.
    """
    batch = max(1, min(batch, events // samples))
    push = _open_session(texts)
    source = make_batches(batch) if log == "stock" else make_host_batches(batch)
    push(next(source))  # compiles
    found, read = [], batch
    every = max(1, events // samples // batch)
    for _ in range(samples):
        spent = 0.0
        for _ in range(every):
            table = next(source)
            began = process_time()
            push(table)
            spent += process_time() - began
        rate = every * batch / spent
        read += every * batch
        found.append(StreamSample(read, read_resident_bytes(), rate))
    return found


def _open_session(texts: Texts) -> Callable[[pa.Table], int]:
    """Return a function that pushes events to a session, and counts what it finds."""
    if isinstance(texts, str):
        session = cernis.query(texts).session(time="ts")
        return lambda events: session.push(events).count()
    rules = cernis.rules(texts).session(time="ts")
    return lambda events: sum(found.count() for found in rules.push(events).values())


def make_batches(size: int) -> Iterator[pa.Table]:
    """Yield batches of stock events without end; their times and visits go on."""
    tables = [
        stock_stream(size, seed).select(["type", "name", "price", "volume"])
        for seed in range(_DISTINCT_BATCHES)
    ]
    for number in count():
        positions = np.arange(number * size, (number + 1) * size, dtype=np.int64)
        table = tables[number % _DISTINCT_BATCHES]
        table = table.append_column("ts", pa.array(_MEAN_GAP * positions))
        # five visits at a time
        visits = positions // (5 * _VISIT) * 5 + positions % 5
        yield table.append_column("visit", pa.array(visits))


def make_host_batches(size: int) -> Iterator[pa.Table]:
    """Yield batches of a log of hosts without end; their times go on."""
    tables = [host_log(size, seed) for seed in range(_DISTINCT_BATCHES)]
    times = tables[0]["ts"].cast(pa.int64()).to_numpy()
    length = int(times[-1] - times[0] + times[1] - times[0])
    for number in count():
        table = tables[number % _DISTINCT_BATCHES]
        later = pc.add(table["ts"], pa.scalar(number * length, pa.duration("ms")))
        yield table.set_column(0, "ts", later)


if __name__ == "__main__":
    observed = observe_stream(**json.loads(sys.stdin.read()))
    answer = {"samples": [asdict(sample) for sample in observed]}
    sys.stdout.write(json.dumps(answer) + "\n")
