"""`cernis bench spark`: the cost of recognition on Spark, compared with moving the same rows.

A generated stock stream in Parquet files. For each distribution the query takes turns with a
pass-through, which sends the same rows through the same shuffle and sort into Python and back.
Where tasks read the files themselves, Spark sends nothing.
Counts per minute and key (GROUP BY) run beside recognition without them. Then come the query with
its predicates in Python, the same sequence of three in SQL (a join of the table with itself, on
fewer rows), rows packed into one Arrow blob per task before the shuffle, and
some cases on one core and on two. One long key in a small executor shows that a task's memory is
bounded by its window.

Rates are rows read per second of wall-clock time and of processor time, Java's and the workers'
together. Each number of cores has a process of its own (`batch_process`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.benchmark import Benchmark, Step
from benchmarks.process import ask_process
from benchmarks.record import Case, Record, divide, find, select
from benchmarks.scale import BenchmarkScale
from benchmarks.table import Table, format_number, tabulate, tabulate_ratios
from cernis.generators.stock import stock_stream

NAME = "spark"
SEED = 11
FILES = 8
PROCESS = "benchmarks.spark.batch_process"
AIM_GROUPED = AIM_READ = 0.9

CASES = {
    "keyed, from files": "keyed, tasks read the files",
    "keyed, grouped, from files": "counts per minute and key, tasks read the files",
    "contiguous, from files": "keyed, nothing can be dropped, tasks read the files",
    "single, from files": "single, the task reads the files",
    "keyed": "keyed",
    "keyed, balanced": "keyed, keys looked at first",
    "keyed, counted": "keyed, counts only",
    "keyed, grouped": "keyed, counts per minute and key",
    "keyed, in Python": "keyed, predicates in Python",
    "keyed, packed": "keyed, rows packed before the shuffle",
    "keyed, rows": "pass-through, keyed",
    "sliced": "sliced",
    "sliced, in Python": "sliced, predicates in Python",
    "sliced, rows": "pass-through, by time",
    "positions": "sliced by positions",
    "contiguous": "keyed, nothing can be dropped",
    "single": "single",
    "single, rows": "pass-through, one task",
}
ONE_CORE = ["keyed", "sliced", "keyed, rows"]
JOINS = {"recognized": "recognized", "joined": "joined with itself"}


def run_spark(scale: BenchmarkScale, step: Step) -> list[Record]:
    """Measure each number of cores in its own process, on the same files."""
    records: list[Record] = []
    with tempfile.TemporaryDirectory(prefix="cernis-bench-") as folder:
        step("making the rows", 0, len(scale.spark_cores) + 2)
        _write_files(Path(folder, "all"), scale.spark_rows, symbols=20)
        for rows in scale.spark_joined:
            _write_files(Path(folder, f"few{rows}"), rows, symbols=20)
        for done, cores in enumerate(scale.spark_cores):
            step(f"{cores} core{'s' * (cores > 1)}", done + 1, len(scale.spark_cores) + 2)
            request = {
                "task": "cases",
                "folder": folder,
                "cores": cores,
                "names": scale.spark_cases if cores == max(scale.spark_cores) else ONE_CORE,
                "joined": scale.spark_joined,
                "rounds": scale.spark_rounds,
                "pairs": scale.spark_pairs,
            }
            records += _make_records(ask_process(PROCESS, request), cores, scale)
        step("one long key", len(scale.spark_cores) + 1, len(scale.spark_cores) + 2)
        for rows in scale.spark_key:
            _write_files(Path(folder, f"key{rows}"), rows, symbols=1)
        peaks = ask_process(PROCESS, {"task": "key", "folder": folder, "rows": scale.spark_key})
        for size, peak in peaks.items():
            records.append(Record(NAME, "peak of a worker", peak, "B", {"rows": int(size)}))
    ratios = _divide_cases(records, scale)
    return [*records, *(ratio for ratio in ratios if ratio.value is not None)]


def _write_files(folder: Path, rows: int, symbols: int) -> None:
    folder.mkdir()
    table = stock_stream(rows, SEED, symbols=symbols)
    at = table.schema.get_field_index("ts")
    ticks = np.asarray(table.column("ts").cast(pa.timestamp("us")).cast(pa.int64()))
    place = np.arange(rows)
    apart = np.maximum.accumulate(ticks - place) + place  # SQL knows no order of equal times
    table = table.set_column(at, "ts", pa.array(apart).cast(pa.timestamp("us", "UTC")))
    size = -(-rows // FILES)
    for number in range(FILES):
        pq.write_table(table.slice(number * size, size), folder / f"part-{number}.parquet")


def _make_records(answer: Mapping[str, Any], cores: int, scale: BenchmarkScale) -> Iterator[Record]:
    for name, measured in answer.items():
        if name == "pair":
            aim = f"median of {scale.spark_pairs} pairs (aim ≥ {AIM_GROUPED:g})"
            grouped = "counts per minute and key to recognition"
            yield Record(NAME, f"{grouped}, processor, {aim}", measured["cpu"], "×")
            yield Record(NAME, f"{grouped}, clock, {aim}", measured["wall"], "×")
            continue
        case, _, fewer = name.partition(" of ")
        rows = int(fewer or scale.spark_rows)
        where: Case = {"case": case, "cores": cores}
        if fewer:
            where = {**where, "rows": rows}
        yield Record(NAME, "wall", rows / measured["wall"], "rows/s", where)
        yield Record(NAME, "processor", rows / measured["cpu"], "rows/s", where)
        if "matches" in measured:
            yield Record(NAME, "matches", measured["matches"], "", where)


def _divide_cases(records: Sequence[Record], scale: BenchmarkScale) -> Iterator[Record]:
    """Yield the ratios; without a value where a side was not measured."""
    cores = max(scale.spark_cores)

    def quotient(measure: str, above: str, below: str, name: str, over: int = cores) -> Record:
        value = divide(
            find(records, measure, case=above, cores=cores),
            find(records, measure, case=below, cores=over),
        )
        return Record(NAME, name, value, "×")

    for plan in ("keyed", "sliced", "single"):
        yield quotient("processor", plan, f"{plan}, rows", f"{plan} to its pass-through")
    for plan, sent in (("keyed", "keyed"), ("contiguous", "keyed"), ("single", "single")):
        name = f"{plan}, tasks read the files, to the pass-through (aim ≥ {AIM_READ:g})"
        yield quotient("processor", f"{plan}, from files", f"{sent}, rows", name)
    for plan in ("keyed", "sliced"):
        yield quotient("processor", plan, f"{plan}, in Python", f"{plan}: what Catalyst gains")
    yield quotient("processor", "keyed, packed", "keyed, in Python", "packed to unpacked rows")
    for rows in scale.spark_joined:
        pair = (find(records, "processor", case=case, cores=cores, rows=rows) for case in JOINS)
        yield Record(NAME, f"recognized to joined, {format_number(rows)} rows", divide(*pair), "×")
    if len(scale.spark_cores) > 1:
        one = min(scale.spark_cores)
        for case in ONE_CORE:
            yield quotient("wall", case, case, f"{case}: two cores to one", one)
    peaks = [find(records, "peak of a worker", rows=rows) for rows in scale.spark_key]
    yield Record(NAME, "longest to shortest key", divide(peaks[-1], peaks[0]), "×")


# -------------------------------------------------------------------- show


def build_tables(records: Sequence[Record]) -> list[Table]:
    """Return a row per case, the ratios, and the long key."""
    cores = sorted({int(r.case["cores"]) for r in select(records, "wall")})
    most = cores[-1] if cores else 0

    def row(case: str, title: str) -> tuple[str, ...]:
        wall = [format_number(find(records, "wall", case=case, cores=n)) for n in cores]
        busy = format_number(find(records, "processor", case=case, cores=most))
        found = find(records, "matches", case=case, cores=most)
        return title, *wall, busy, "" if found is None else format_number(found)

    columns = ("", *(f"rows/s, {n} core{'s' * (n > 1)}" for n in cores), "rows/CPU-s", "matches")
    measured = {r.case["case"] for r in select(records, "wall")}
    every = tuple(row(case, title) for case, title in CASES.items() if case in measured)
    sizes = sorted({int(r.case["rows"]) for r in records if r.case.get("case") in JOINS})
    joined = tuple(
        (title, *(format_number(find(records, "processor", case=case, rows=n)) for n in sizes))
        for case, title in JOINS.items()
    )
    peaks = {"rows": "rows", "peak of a worker, MiB": "peak of a worker"}
    return [
        Table("Rows per second", columns, every),
        Table(
            "A sequence of three in SQL: rows per second of processor time, of so many rows",
            ("", *map(format_number, sizes)),
            joined,
        ),
        tabulate_ratios(records),
        tabulate(records, "One key in a small executor", "peak of a worker", peaks),
    ]


def build_points(records: Sequence[Record]) -> list[Mapping[str, object]]:
    """Return rows per second of processor time by case."""
    most = max((int(r.case["cores"]) for r in records if r.measure == "processor"), default=0)
    rates = {case: find(records, "processor", case=case, cores=most) for case in CASES}
    return [{"case": CASES[case], "rate": rate} for case, rate in rates.items() if rate is not None]


SPARK = Benchmark(
    name=NAME,
    title="Spark",
    question="""
What does recognition cost on Spark, compared with moving the same rows? How much does it save to
evaluate predicates in Catalyst, and what does a join of the table with itself cost?

Sequences of three on a generated stock stream in Parquet files; one event in ten can be part of a
match, and results are not written. The files lie in order of time: where "tasks read the files",
Spark moves no row; in the other cases it reads them. "Pass-through" sends the same rows through
the same shuffle and sort into Python and back, unchanged.
""",
    run=run_spark,
    tables=build_tables,
    points=build_points,
)
