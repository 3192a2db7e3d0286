"""`cernis bench partitions`: what a million keys cost.

The same number of events, spread evenly over 1 to 10^6 keys, each with a state of its own. Every
SELL and BUY of a key moves its pattern. More keys have fewer matches (a key with one event has
none), so nothing is enumerated; the benchmark compares the recognition of the same events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import cernis
from benchmarks.benchmark import Benchmark, Step
from benchmarks.clock import race, time_call
from benchmarks.record import Case, Record
from benchmarks.scale import BenchmarkScale
from benchmarks.table import Table, format_number, tabulate
from cernis.generators.stock import stock_stream

NAME = "partitions"
SEED = 7
QUERY = (
    "SELECT * FROM S WHERE (SELL AS a; BUY AS b; SELL AS c) PARTITION BY [name] WITHIN 100 EVENTS"
)


def run_partitions(scale: BenchmarkScale, step: Step) -> list[Record]:
    """Measure each number of keys, in turns."""
    query = cernis.query(QUERY)
    contestants = {}
    total = len(scale.keys) + 1
    for done, keys in enumerate(scale.keys):
        step(f"{format_number(keys)} keys", done, total)
        events = stock_stream(scale.keyed_events, SEED, symbols=keys)
        contestants[keys] = time_call(partial(query.run, events, threads=1))
    step("in turns", total - 1, total)
    best = race(contestants, scale.rounds)
    records = []
    for keys, seconds in best.items():
        case: Case = {"keys": keys}
        rate, relative = scale.keyed_events / seconds, best[scale.keys[0]] / seconds
        records.append(Record(NAME, "recognised", rate, "events/s", case))
        records.append(Record(NAME, "relative to one key", relative, "×", case))
    return records


def build_tables(records: Sequence[Record]) -> list[Table]:
    """Return a table with a row per number of keys."""
    columns = {"keys": "keys", "events/s": "recognised", "to one key": "relative to one key"}
    return [tabulate(records, "Events per second by keys", "recognised", columns)]


def build_points(records: Sequence[Record]) -> list[Mapping[str, object]]:
    """Return events per second by keys."""
    return [{"keys": r.case["keys"], "rate": r.value} for r in records if r.measure == "recognised"]


PARTITIONS = Benchmark(
    name=NAME,
    title="Partitions",
    question=f"""
What does `PARTITION BY` cost when the same events belong to more and more keys?

`{QUERY}` on a generated stock stream; the keys are strings, evenly distributed, and every
event moves the pattern of its key.
""",
    run=run_partitions,
    tables=build_tables,
    points=build_points,
)
