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

from cernis.bench.benchmark import Benchmark, Step
from cernis.bench.process import ask_process
from cernis.bench.record import Record, Table, divide, find, format_number
from cernis.bench.scale import BenchmarkScale

NAME = "streaming"
WAYS = {
    "recognized": "recognized",
    "passed": "pass-through",
    "plain": "state and Python for each key",
}


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
    }
    step("streams", 0, 1)
    answer = ask_process("cernis.bench.spark.streaming_process", request)
    records = [record for part, found in answer.items() for record in _make_records(part, found)]
    return [*records, *_record_ratios(records, scale)]


def _make_records(part: str, answer: Mapping[str, Any]) -> Iterator[Record]:
    if part == "latency":
        for name, seconds in answer.items():
            yield Record(NAME, f"latency, {name}", seconds, "s")
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


# -------------------------------------------------------------------- show


def build_tables(records: Sequence[Record]) -> list[Table]:
    """Return rates by keys, small batches, state, latency, ratios."""
    keys = sorted({int(r.case["keys"]) for r in records if r.measure == "wall"})
    rates = tuple(
        (
            title,
            *(format_number(find(records, "wall", way=way, keys=n)) for n in keys),
            *(format_number(find(records, "processor", way=way, keys=n)) for n in keys),
            *(
                format_number(find(records, "processor of a micro-batch", way=way, keys=n))
                for n in keys
            ),
        )
        for way, title in WAYS.items()
    )
    columns = (
        "",
        *(f"rows/s, {format_number(n)} keys" for n in keys),
        *(f"rows/CPU-s, {format_number(n)} keys" for n in keys),
        *(f"CPU-s of a micro-batch, {format_number(n)} keys" for n in keys),
    )
    small = tuple(
        (
            format_number(int(r.case["kept"])),
            _format_bytes(find(records, "state beside it", kept=int(r.case["kept"]))),
            format_number(r.value),
        )
        for r in records
        if r.measure == "processor of a small batch"
    )
    state = tuple(
        (
            format_number(int(r.case["window"])),
            format_number(int(r.case["files"])),
            _format_bytes(r.value),
        )
        for r in records
        if r.measure == "most state"
    )
    waits = tuple(
        (r.measure, format_number(r.value)) for r in records if r.measure.startswith("latency")
    )
    ratios = tuple((r.measure, format_number(r.value)) for r in records if r.unit == "×")
    return [
        Table("Rows per second", columns, rates),
        Table(
            "A small batch beside much state",
            ("events in the state", "state", "CPU seconds of the batch"),
            small,
        ),
        Table("State", ("window, ms", "micro-batches", "most state"), state),
        Table("From the event that makes a match certain to the match", ("", "s"), waits),
        Table("Ratios", ("", "×"), ratios),
    ]


def _format_bytes(value: int | float | None) -> str:
    return "–" if value is None else f"{value / 1024:,.0f} KiB"


def build_points(records: Sequence[Record]) -> list[Mapping[str, object]]:
    """Return rows per second of processor time by keys and way."""
    return [
        {"way": WAYS[str(r.case["way"])], "keys": r.case["keys"], "rate": r.value}
        for r in records
        if r.measure == "processor"
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
order of arrival, on fewer rows.
""",
    run=run_streaming,
    tables=build_tables,
    points=build_points,
)
