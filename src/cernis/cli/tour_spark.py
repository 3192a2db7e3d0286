"""The last stop of `cernis demo`: a query on Spark, beside the embedded engine.

It runs on more rows, in Parquet files, on a local Spark session, and shows the answers of both
side by side, with Spark's part of the plan.
"""

from __future__ import annotations

import tempfile
import textwrap
import warnings
from pathlib import Path
from time import perf_counter
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.padding import Padding
from rich.panel import Panel
from rich.rule import Rule
from rich.syntax import Syntax
from rich.table import Table

import cernis
from cernis.cli.terminal import spinner
from cernis.generators.stock import stock_stream
from cernis.results.matches import Matches

_TIMES = 2
_FILES = 4
_SHOWN = 3

QUERY = """
SELECT * FROM Stock
WHERE (SELL AS first ; BUY AS between ; SELL AS last)
FILTER first[volume > 950] AND between[volume > 950] AND last[volume > 950]
PARTITION BY [name] WITHIN 10 SECONDS
"""


def tour_on_spark(size: int, console: Console) -> None:
    """Run one query on both engines, over a larger stream."""
    console.print()
    console.print(Rule("The same on Spark"))
    size *= _TIMES
    text = textwrap.dedent(QUERY).strip()
    console.print(
        f"{size:,} events in {_FILES} Parquet files. `cernis.spark.recognize(df, query)` gives the "
        "matches as a DataFrame: predicates run inside Spark, irrelevant events never leave it, "
        "and each symbol belongs to one task."
    )
    console.print(Padding(Syntax(text, "sql", background_color="default"), (1, 2)))
    with tempfile.TemporaryDirectory(prefix="cernis-demo-") as folder:
        events = _write(Path(folder), size)
        with spinner("starting Spark …"):
            from cernis.spark.local.session import session

            spark = session(app="cernis demo")
        _compare(spark, folder, events, cernis.query(text), console)


def _write(folder: Path, size: int) -> pa.Table:
    events = stock_stream(size, seed=2)
    at = events.schema.get_field_index("ts")
    events = events.set_column(at, "ts", events.column("ts").cast(pa.timestamp("us", "UTC")))
    rows = -(-size // _FILES)
    for number in range(_FILES):
        pq.write_table(events.slice(number * rows, rows), folder / f"part-{number}.parquet")
    return events


def _compare(spark: Any, folder: str, events: pa.Table, query: Any, console: Console) -> None:
    from cernis.spark import explain, recognize

    df = spark.read.parquet(folder)
    plan = str(explain(df, query, measure=True)).split("\non Spark", 1)[1]
    console.print(Panel("on Spark" + plan, title="Spark's part of the plan", title_align="left"))
    with spinner("the embedded engine …"):
        began = perf_counter()
        here = query.run(events)
        here_count, here_seconds = here.count(), perf_counter() - began
    assert isinstance(here, Matches)
    with spinner("Spark, the first time …"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = recognize(df, query)
        first = found.orderBy("end_ts", "end", "start").limit(_SHOWN).collect()
    with spinner("Spark …"):
        began = perf_counter()
        there_count, there_seconds = found.count(), perf_counter() - began
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("", "matches", "the first of them", "seconds"):
        table.add_column(name)
    shown = sorted((m.end_ts, m.end, m.start) for m in here.head(50))[:_SHOWN]
    pairs = [", ".join(f"{start}–{end}" for _, end, start in shown)]
    pairs.append(", ".join(f"{row.start}–{row.end}" for row in first))
    table.add_row("embedded", f"{here_count:,}", pairs[0], f"{here_seconds:.1f}")
    table.add_row("Spark", f"{there_count:,}", pairs[1], f"{there_seconds:.1f}")
    console.print(Padding(table, (1, 2)))
    same = here_count == there_count and pairs[0] == pairs[1]
    console.print("The same answers." if same else "These should be the same: please report it.")
    console.print(
        "On one machine the embedded engine is faster; Spark is for tables that no machine holds."
    )
