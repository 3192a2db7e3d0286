"""`cernis bench streaming`: the cost of an endless stream on Spark, micro-batch by micro-batch.

A generated stream in Parquet files, one in each micro-batch. For few and for many keys, the
query runs in one process with a pass-through of the same rows and with code that a user would
write: state and Python for each key. Then come the cost of a small batch with a small and a large
state, the size of the state by window and length of the stream, and the latency of a match. All
run in one process of its own (`streaming_process`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.benchmark import Benchmark, Step
from benchmarks.process import ask_process
from benchmarks.record import Record, divide, find, select
from benchmarks.scale import BenchmarkScale
from benchmarks.table import Columns, Table, format_number, tabulate, tabulate_ratios

NAME = "streaming"
WAYS = {
    "recognized": "recognized",
    "passed": "pass-through",
    "plain": "state and Python for each key",
}
GRAPH_WAYS = {"SPAseQ": "a SPAseQ query", "parsed": "parsed only"}
_MEASURES = ("wall", "processor")
_STATELESS = "median of a query without state"


def run_streaming(scale: BenchmarkScale, step: Step) -> list[Record]:
    """Measure all parts, in one process."""
    request = {
        "keys": scale.streaming_keys,
        "rows": scale.streaming_rows,
        "files": scale.streaming_files,
        "plain_rows": scale.streaming_plain_rows,
        "kept": scale.streaming_kept,
        "small": scale.streaming_small,
        "small_files": scale.streaming_small_files,
        "state": scale.streaming_state,
        "state_rows": scale.streaming_small * 10,
        "latency": scale.streaming_latency,
        "graphs": scale.streaming_graphs,
        "graph_keys": scale.streaming_graph_keys,
    }
    step("streams", 0, 1)
    answer = ask_process("benchmarks.spark.streaming_process", request)
    records = [record for part, found in answer.items() for record in _make_records(part, found)]
    return [*records, *_record_ratios(records, scale)]


def _make_records(part: str, answer: Mapping[str, Any]) -> Iterator[Record]:
    if part == "latency":
        for name, seconds in answer.items():
            yield Record(NAME, f"latency, {name}", seconds, "s")
        return
    if part == "graphs":
        for name, value in answer.items():
            yield Record(NAME, "graphs, wall", value["wall"], "graphs/s", {"way": name})
            yield Record(NAME, "graphs, processor", value["cpu"], "graphs/s", {"way": name})
        return
    for name, value in answer.items():
        first, _, second = name.partition(" ")
        if part == "keys":
            where: dict[str, int | str] = {"way": first, "keys": int(second)}
            yield Record(NAME, "wall", value["wall"], "rows/s", where)
            yield Record(NAME, "processor", value["cpu"], "rows/s", where)
            yield Record(NAME, "processor of a micro-batch", value["batch"], "s", where)
        elif part == "kept":
            where = {"kept": int(first)}
            yield Record(NAME, "processor of a small batch", value["cpu"], "s", where)
            yield Record(NAME, "state beside it", value["state"], "B", where)
        else:
            where = {"window": int(first), "files": int(second)}
            yield Record(NAME, "most state", value, "B", where)


def _record_ratios(records: Sequence[Record], scale: BenchmarkScale) -> Iterator[Record]:
    for keys in scale.streaming_keys:
        for way in ("passed", "plain"):
            pair = (find(records, "processor", way=w, keys=keys) for w in ("recognized", way))
            yield Record(
                NAME, f"recognized to {WAYS[way]}, {format_number(keys)} keys", divide(*pair), "×"
            )
    pair = (find(records, "graphs, processor", way=way) for way in GRAPH_WAYS)
    yield Record(NAME, "a SPAseQ query to parsing only", divide(*pair), "×")
    few, many = scale.streaming_kept[0], scale.streaming_kept[-1]
    measure = "processor of a small batch"
    pair = (find(records, measure, kept=kept) for kept in (many, few))
    yield Record(NAME, f"a small batch, {many // few} times the state", divide(*pair), "×")
    (_, length), (same, longer), (wider, _) = scale.streaming_state
    sizes = [find(records, "most state", window=w, files=n) for w, n in scale.streaming_state]
    yield Record(
        NAME, f"state, {longer // length} times the stream", divide(sizes[1], sizes[0]), "×"
    )
    yield Record(NAME, f"state, {wider // same} times the window", divide(sizes[2], sizes[1]), "×")
    waits = (find(records, f"latency, {name}") for name in ("median", _STATELESS))
    yield Record(NAME, "latency of a match to that of a query without state", divide(*waits), "×")


# -------------------------------------------------------------------- show


def build_tables(records: Sequence[Record]) -> list[Table]:
    """Return rates by keys, rates of graphs, small batches, state, latency, ratios."""
    keys = sorted({int(r.case["keys"]) for r in select(records, "wall")})
    shown = {
        "rows/s": "wall",
        "rows/CPU-s": "processor",
        "CPU-s of a micro-batch": "processor of a micro-batch",
    }
    cells = [(title, measure, n) for title, measure in shown.items() for n in keys]
    rates = tuple(
        (title, *(format_number(find(records, m, way=way, keys=n)) for _, m, n in cells))
        for way, title in WAYS.items()
    )
    small: Columns = {
        "events in the state": "kept",
        "state": lambda case: _format_bytes(find(records, "state beside it", **case)),
        "CPU seconds of the batch": "processor of a small batch",
    }
    state: Columns = {
        "window, ms": "window",
        "micro-batches": "files",
        "most state": lambda case: _format_bytes(find(records, "most state", **case)),
    }
    waits = tuple(
        (r.measure, format_number(r.value)) for r in records if r.measure.startswith("latency")
    )
    graphs = tuple(
        (title, *(format_number(find(records, f"graphs, {m}", way=way)) for m in _MEASURES))
        for way, title in GRAPH_WAYS.items()
    )
    titles = (f"{title}, {format_number(n)} keys" for title, _, n in cells)
    return [
        Table("Rows per second", ("", *titles), rates),
        Table("RDF graphs per second", ("", "graphs/s", "graphs/CPU-s"), graphs),
        tabulate(records, "A small batch beside much state", "processor of a small batch", small),
        tabulate(records, "State", "most state", state),
        Table("From the event that makes a match certain to the match", ("", "s"), waits),
        tabulate_ratios(records),
    ]


def _format_bytes(value: int | float | None) -> str:
    return "–" if value is None else f"{value / 1024:,.0f} KiB"


def build_points(records: Sequence[Record]) -> list[Mapping[str, object]]:
    """Return rows per second of processor time by keys and way."""
    return [
        {"way": WAYS[str(r.case["way"])], "keys": r.case["keys"], "rate": r.value}
        for r in select(records, "processor")
    ]


STREAMING = Benchmark(
    name=NAME,
    title="Streaming",
    question="""
What does an endless stream cost on Spark? How does the cost depend on the number of keys, the
state, the window and the length of the stream, and how soon does a match come out?

Pairs of events of one key within a second, on a generated stream in Parquet files, one file in
each micro-batch; one event in fifteen can be part of a match, and matches are not written.
"Pass-through" sends the same rows through a shuffle into Python and back; "state and Python
for each key" is a stateful processor that looks for the same pairs in the groups of a key, in
order of arrival, on fewer rows. RDF graphs come in N-Quads files, four quads each; a SPAseQ query
looks for pairs of one of 1,000 keys in them, and "parsed only" makes rows of the graphs and drops
these.
""",
    run=run_streaming,
    tables=build_tables,
    points=build_points,
)
