"""`cernis bench memory`: an endless stream in the memory of one window.

A session reads batches of a stock stream, each made, pushed and dropped, in a process of its own
for each length of the stream. A session keeps only events that can still become a match: peak
memory depends on the window, not on the length of the stream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

from benchmarks.benchmark import Benchmark, Step
from benchmarks.endless import measure_peak
from benchmarks.record import Case, Record, divide, find, select
from benchmarks.scale import BenchmarkScale
from benchmarks.table import Table, format_number, tabulate

NAME = "memory"
QUERIES = {
    "sequence": "SELECT * FROM S WHERE (SELL AS a; BUY AS b; SELL AS c) WITHIN 1000 EVENTS",
    "Kleene": "SELECT * FROM S WHERE (SELL AS a; (BUY+) AS b; SELL AS c) WITHIN 100 EVENTS",
    "partitions": (
        "SELECT * FROM S WHERE (SELL AS a; BUY AS b; SELL AS c) "
        "PARTITION BY [name] WITHIN 1000 EVENTS"
    ),
}


def run_memory(scale: BenchmarkScale, step: Step) -> list[Record]:
    """Measure each query with each length of the stream."""
    cases = list(product(scale.endless, scale.stream_lengths))
    records = []
    for done, (kind, events) in enumerate(cases):
        step(f"{kind}, {format_number(events)} events", done, len(cases))
        peak = measure_peak(QUERIES[kind], events, scale.batch)
        case: Case = {"query": kind, "events": events}
        records.append(Record(NAME, "peak", peak.peak_bytes, "B", case))
        records.append(Record(NAME, "after three batches", peak.settled_bytes, "B", case))
        records.append(Record(NAME, "arena", peak.nodes, "nodes", case))
        records.append(Record(NAME, "kept events", peak.kept_bytes, "B", case))
    for kind in scale.endless:
        first, last = (
            find(records, "peak", query=kind, events=n)
            for n in (scale.stream_lengths[0], scale.stream_lengths[-1])
        )
        records.append(
            Record(NAME, "longest to shortest stream", divide(last, first), "×", {"query": kind})
        )
    return records


def build_tables(records: Sequence[Record]) -> list[Table]:
    """Return a table with a row per query and length."""
    columns = {
        "query": "query",
        "events": "events",
        "after three batches, MiB": "after three batches",
        "peak, MiB": "peak",
        "arena, nodes": "arena",
        "kept events, MiB": "kept events",
    }
    return [tabulate(records, "Memory of the process", "peak", columns)]


def build_points(records: Sequence[Record]) -> list[Mapping[str, object]]:
    """Return the peak by query and length of the stream."""
    return [
        {"query": r.case["query"], "events": r.case["events"], "peak": (r.value or 0) / 2**20}
        for r in select(records, "peak")
    ]


MEMORY = Benchmark(
    name=NAME,
    title="Memory of an endless stream",
    question="""
Does memory grow with the length of the stream? A session gets batches, one after the
other, in a process of its own; the matches of each batch are looked at and dropped.
""",
    run=run_memory,
    tables=build_tables,
    points=build_points,
)
