"""`cernis bench first`: what the first answer costs, on a machine that has not run Cernis before.

Each query runs twice in processes of their own, with a cache folder that is empty at first: the
first run compiles what its plan needs, the second finds it compiled. On Spark a small job runs in
turns with a `groupBy` of the same rows, and `cernis stream --once` with a program that counts the
rows of the same folder; the ratios are medians of pairs that run directly after one another.

Python's bytecode of the package is there before the first run, as `pip install` leaves it. Where
sources run in place and `PYTHONDONTWRITEBYTECODE` is set, each process would compile them.
"""

from __future__ import annotations

import compileall
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import cernis
from benchmarks.benchmark import Benchmark, Step
from benchmarks.process import ask_process
from benchmarks.record import Case, Record, divide, find, select
from benchmarks.scale import BenchmarkScale
from benchmarks.table import Columns, Table, tabulate, tabulate_ratios

NAME = "first"
AIM = 3
_SEQUENCE = "SELECT * FROM S WHERE SELL AS a ; BUY AS b {} WITHIN 100 EVENTS"
QUERIES = {
    "sequence": _SEQUENCE.format(""),
    "equal values": _SEQUENCE.format("FILTER a[name] = b[name]"),
    "ordered values": _SEQUENCE.format("FILTER a[price] < b[price]"),
    "equal across an event": "SELECT * FROM S WHERE SELL AS a ; BUY AS b ; ASK AS c "
    "FILTER a[price] = c[price] WITHIN 100 EVENTS",
    "UNLESS, equal values": "SELECT * FROM S WHERE ((SELL AS a ; BUY AS b) "
    "FILTER a[name] = b[name]) UNLESS (ASK AS c FILTER c[name] = a[name]) WITHIN 100 EVENTS",
    "LONGEST, sessions": "SELECT LONGEST COUNT(s) AS number FROM S WHERE SELL+[3 EVENTS] AS s "
    "PARTITION BY [name]",
}
RATIOS = {
    "small": "a small job to a groupBy",
    "once": "cernis stream --once to a program that counts the rows",
}


def run_first(scale: BenchmarkScale, step: Step) -> list[Record]:
    """Measure cold and warm processes, then Spark."""
    compileall.compile_dir(Path(cernis.__file__).parent, quiet=2)
    cases = [(name, rows) for name in QUERIES for rows in scale.first_rows]
    records: list[Record] = []
    for done, (name, rows) in enumerate(cases):
        step(f"{name}, {rows:,} rows", done, len(cases) + 1)
        records += _measure_pair(name, rows)
    step("Spark", len(cases), len(cases) + 1)
    request = {"rows": scale.first_spark_rows, "pairs": scale.first_pairs, "runs": scale.first_runs}
    answer = ask_process("benchmarks.spark.first_process", request)
    for part, title in RATIOS.items():
        for clock, ratio in answer[part].items():
            records.append(Record(NAME, f"{title}, {clock} (aim ≤ {AIM})", ratio, "×"))
    return records


def _measure_pair(name: str, rows: int) -> Iterator[Record]:
    """Measure a first and a second run with a cache folder of their own."""
    with tempfile.TemporaryDirectory(prefix="cernis-bench-") as folder:
        for run in ("cold", "warm"):
            request = {"query": QUERIES[name], "rows": rows, "began": time.time()}
            cache = {"XDG_CACHE_HOME": folder}
            answer = ask_process("benchmarks.first_process", request, cache, alone=True)
            for measure, seconds in answer.items():
                case: Case = {"query": name, "rows": rows}
                yield Record(NAME, f"{run}, {measure}", seconds, "s", case)


def build_tables(records: Sequence[Record]) -> list[Table]:
    """Return seconds by query and rows, and the ratios on Spark."""
    shown: Columns = {
        "query": "query",
        "rows": "rows",
        "cold, CPU seconds": "cold, processor",
        "warm, CPU seconds": "warm, processor",
        "cold, seconds": "cold, clock",
        "warm, seconds": "warm, clock",
        "cold to warm": lambda case: divide(
            find(records, "cold, processor", **case), find(records, "warm, processor", **case)
        ),
        "cold, to a sequence (aim ≤ 3)": lambda case: divide(
            find(records, "cold, processor", **case),
            find(records, "cold, processor", **{**case, "query": "sequence"}),
        ),
    }
    title = "From the start of Python to the number of matches and the first three"
    return [tabulate(records, title, "cold, processor", shown), tabulate_ratios(records)]


def build_points(records: Sequence[Record]) -> list[Mapping[str, object]]:
    """Return processor seconds by query, rows and run."""
    return [
        {**r.case, "run": run, "seconds": r.value}
        for run in ("cold", "warm")
        for r in select(records, f"{run}, processor")
    ]


FIRST = Benchmark(
    name=NAME,
    title="The first answer",
    question="""
How long does the first query take on a machine that has not run Cernis before, and what do small
jobs cost on Spark?

The first run compiles the engine, as far as the plan of the query needs it; the second finds it
compiled. Python's bytecode of the package is there for both, as after `pip install`.
`cernis warm` compiles everything ahead of time, for images and clusters. On Spark a
query over 20,000 rows runs in turns with a `groupBy` of the same rows, in a session that is warm,
and `cernis stream --once` with a program that counts the rows of the same small folder as a stream;
both start Java.
""",
    run=run_first,
    tables=build_tables,
    points=build_points,
)
