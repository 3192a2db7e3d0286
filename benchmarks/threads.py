"""`cernis bench threads`: what a second core brings to one query in one process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

import cernis
from benchmarks.benchmark import Benchmark, Step
from benchmarks.clock import race, time_call
from benchmarks.record import Record, divide, find, select
from benchmarks.scale import BenchmarkScale
from benchmarks.table import Columns, Table, tabulate
from cernis.run.slices import count_cores

NAME = "threads"
AIM = 1.7
SEED = 20
QUERIES = {
    "sequence": "SELECT * FROM S WHERE A AS a ; B AS b ; C AS c WITHIN 1000 EVENTS",
    "conditions": "SELECT * FROM S WHERE A AS a ; B AS b FILTER a[v < 50] AND b[v < 50] "
    "WITHIN 1000 EVENTS",
    "a thousand keys": "SELECT * FROM S WHERE A AS a ; B AS b ; C AS c PARTITION BY [k] "
    "WITHIN 10 SECONDS",
    "equal values": "SELECT * FROM S WHERE A AS a ; B AS b FILTER a[k] = b[k] WITHIN 1000 EVENTS",
    "ordered values": "SELECT * FROM S WHERE A AS a ; B AS b FILTER a[v] < b[v] WITHIN 1000 EVENTS",
    "numbers alone": "SELECT COUNT(*) FROM S WHERE A AS a ; B AS b ; C AS c WITHIN 1000 EVENTS",
}


def make_events(number: int) -> pa.Table:
    """Return events of six types, one each millisecond."""
    chance = np.random.default_rng(SEED)
    types = pa.array(chance.integers(0, 6, number, dtype=np.int32))
    return pa.table(
        {
            "type": pa.DictionaryArray.from_arrays(types, [*"ABCDEF"]),
            "ts": np.arange(number),
            "k": chance.integers(0, 1000, number),
            "v": chance.integers(0, 1000, number),
        }
    )


def run_threads(scale: BenchmarkScale, step: Step) -> list[Record]:
    """Let one thread and as many as there are cores take turns, for each query."""
    events, cores = make_events(scale.threaded_events), count_cores()
    records: list[Record] = []
    for done, (name, text) in enumerate(QUERIES.items()):
        step(name, done, len(QUERIES))
        query = cernis.query(text)
        query.run(events.slice(0, 300_000))  # compiles
        numbers = {"one": 1, "all": cores}
        best = race(
            {
                which: time_call(partial(query.run, events, threads=threads))
                for which, threads in numbers.items()
            },
            scale.rounds,
        )
        for which, seconds in best.items():
            rate = scale.threaded_events / seconds
            records.append(Record(NAME, which, rate, "events/s", {"query": name, "cores": cores}))
    return records


def build_tables(records: Sequence[Record]) -> list[Table]:
    """Return the rates of each query, and how they grow."""
    columns: Columns = {
        "query": "query",
        "cores": "cores",
        "one thread, events/s": "one",
        "a thread for each core, events/s": "all",
        f"ratio (aim ≥ {AIM} on two cores)": lambda case: divide(
            find(records, "all", **case), find(records, "one", **case)
        ),
    }
    return [tabulate(records, "Events per second of the clock", "one", columns)]


def build_points(records: Sequence[Record]) -> list[Mapping[str, object]]:
    """Return the rate by query and threads."""
    return [
        {"query": r.case["query"], "threads": which, "rate": r.value}
        for which in ("one", "all")
        for r in select(records, which)
    ]


THREADS = Benchmark(
    name=NAME,
    title="Several cores in one process",
    question="""
How much sooner does a query end when all cores read for it?

Each query runs over the same events in memory with `threads=1` and with as many threads as there
are cores, in turns. Threads read slices of the events; a slice also reads as far back as a match
can reach. The answers are the same.
""",
    run=run_threads,
    tables=build_tables,
    points=build_points,
)
