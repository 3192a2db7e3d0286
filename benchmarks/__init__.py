"""Benchmarks on fixed workloads: `cernis bench [NAME...] [--json FILE]`.

Each benchmark is one module with one `Benchmark`; `BENCHMARKS` lists them. Benchmarks measure
ratios within one run; absolute numbers depend on the machine.

In a checkout (where `docs/benchmarks` exists) a full run also writes the benchmark's page
and chart there. `CERNIS_BENCH_SCALE=quick` runs tiny workloads and writes no page.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from benchmarks.absence import ABSENCE
from benchmarks.aggregates import AGGREGATES
from benchmarks.benchmark import Benchmark
from benchmarks.cluster import CLUSTER
from benchmarks.correlation import CORRELATION
from benchmarks.cost import COST
from benchmarks.endurance import ENDLESS
from benchmarks.first import FIRST
from benchmarks.live import LIVE
from benchmarks.memory import MEMORY
from benchmarks.partitions import PARTITIONS
from benchmarks.peers.compare import PEERS
from benchmarks.record import Record
from benchmarks.report import NO_PLOT, draw_chart, render_page, render_table, write_json
from benchmarks.row_patterns import ROW_PATTERNS
from benchmarks.rules import RULES
from benchmarks.scale import FULL, BenchmarkScale, choose_scale
from benchmarks.sequences import SEQUENCES
from benchmarks.serve import SERVE
from benchmarks.spark.batch import SPARK
from benchmarks.spark.endurance import ENDLESS_SPARK
from benchmarks.spark.streaming import STREAMING
from benchmarks.spaseq.figures import SPASEQ
from benchmarks.strategies import STRATEGIES
from benchmarks.threads import THREADS
from benchmarks.workbench import WORKBENCH
from cernis.errors import CernisError

__all__ = ["BENCHMARKS", "run_benchmarks"]

_ALL = (
    SEQUENCES,
    PARTITIONS,
    STRATEGIES,
    THREADS,
    AGGREGATES,
    ABSENCE,
    RULES,
    ROW_PATTERNS,
    MEMORY,
    ENDLESS,
    CORRELATION,
    SPARK,
    STREAMING,
    ENDLESS_SPARK,
    LIVE,
    SPASEQ,
    SERVE,
    FIRST,
    WORKBENCH,
    PEERS,
    COST,
    CLUSTER,
)
BENCHMARKS: dict[str, Benchmark] = {benchmark.name: benchmark for benchmark in _ALL}
_PAGES = Path("docs/benchmarks")


def run_benchmarks(
    names: Sequence[str],
    json_path: str | Path | None = None,
    console: Console | None = None,
    *,
    scale: BenchmarkScale | None = None,
    pages: Path | None = None,
) -> int:
    """Run the named benchmarks, or all, print their tables, and return the exit code."""
    console = console or Console()
    scale = scale or choose_scale()
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        raise CernisError(
            f"unknown benchmark {', '.join(map(repr, unknown))}; there are {', '.join(BENCHMARKS)}"
        )
    if json_path is not None and not Path(json_path).parent.is_dir():
        raise CernisError(f"cannot write {json_path}: there is no such directory")
    if pages is None and scale == FULL and _PAGES.is_dir():
        pages = _PAGES
    everything: list[Record] = []
    for name in names or BENCHMARKS:
        records = _run(BENCHMARKS[name], scale, console)
        everything += records
        for table in BENCHMARKS[name].tables(records):
            console.print(render_table(table))
        if pages is not None:
            _write_page(BENCHMARKS[name], records, pages, console)
    if json_path is not None:
        write_json(Path(json_path), everything)
        console.print(f"Wrote {json_path}")
    return 0


def _run(benchmark: Benchmark, scale: BenchmarkScale, console: Console) -> list[Record]:
    text = TextColumn("{task.description}")
    columns = (SpinnerColumn(), text, BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(benchmark.name, total=None)

        def step(description: str, done: int, total: int) -> None:
            named = f"{benchmark.name}: {description}"
            progress.update(task, description=named, completed=done, total=total)

        return benchmark.run(scale, step)


def _write_page(
    benchmark: Benchmark, records: Sequence[Record], folder: Path, console: Console
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    chart = draw_chart(benchmark.name, benchmark.points(records))
    if chart is None:
        console.print(NO_PLOT)
    else:
        (folder / f"{benchmark.name}.svg").write_text(chart)
    path = folder / f"{benchmark.name}.md"
    path.write_text(render_page(benchmark, benchmark.tables(records), chart=chart is not None))
    console.print(f"Wrote {path}")
