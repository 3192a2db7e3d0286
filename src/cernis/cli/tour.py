"""`cernis demo`: a few queries on a generated stock market stream, explained as they run.

The last stop runs a query on Spark, on more rows in Parquet files, and shows the answers of both
engines side by side.
"""

from __future__ import annotations

import tempfile
import textwrap
import warnings
from dataclasses import dataclass
from importlib.util import find_spec
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
from rich.text import Text

import cernis
from cernis.cli.terminal import events_table, make_table, matches_table, output_console, spinner
from cernis.generators.stock import stock_stream
from cernis.results.matches import Matches

_FEW = 1000
_SHOWN = 4
_TIMES = 2
"""How many times more rows Spark reads."""
_FILES = 4
_COMPARED = 3


@dataclass(frozen=True, slots=True)
class Stop:
    """One query of the tour, and its explanation."""

    title: str
    text: str
    query: str


STOPS = (
    Stop(
        "A sequence",
        "Someone sells Microsoft, then buys Intel, then sells Amazon; `;` lets anything happen "
        "in between, as long as all of it is within 30 events.",
        """
        SELECT * FROM Stock
        WHERE (SELL AS msft ; BUY AS intl ; SELL AS amzn)
        FILTER msft[name = 'MSFT'] AND intl[name = 'INTL'] AND amzn[name = 'AMZN']
        WITHIN 30 EVENTS
        """,
    ),
    Stop(
        "As often as it happens",
        "Two large sales of Microsoft, and in between any choice of purchases (`+`). The choices "
        "are very many: they are kept as one compact set, and counted without making them.",
        """
        SELECT * FROM Stock
        WHERE (SELL AS before ; BUY+ AS bought ; SELL AS after)
        FILTER before[name = 'MSFT' AND volume > 900] AND bought[name = 'MSFT']
           AND after[name = 'MSFT' AND volume > 900]
        WITHIN 2000 EVENTS
        """,
    ),
    Stop(
        "Each symbol by itself",
        "`PARTITION BY` looks at the events of each symbol alone: a large purchase, and right "
        "after it (`:`) at least five sales in a row. `MAX` takes the longest run of sales.",
        """
        SELECT MAX * FROM Stock
        WHERE (BUY AS large : SELL:{5,} AS sold)
        FILTER large[volume > 900]
        PARTITION BY [name] WITHIN 1 MINUTE
        """,
    ),
    Stop(
        "Events compared with each other",
        "Four purchases of one stock, each dearer than the one before it: `PREV` is the event "
        "before in the match. An index keeps partial matches, by stock and by price.",
        """
        SELECT * FROM Stock
        WHERE BUY{4} AS rising
        FILTER PREV(rising)[name] = rising[name] AND PREV(rising)[price] < rising[price]
        WITHIN 100 EVENTS
        """,
    ),
)

LAST_STOP = Stop(
    "The same on Spark",
    "`cernis.spark.recognize(df, query)` gives the matches as a DataFrame: predicates run inside "
    "Spark, irrelevant events never leave it, and each symbol belongs to one task.",
    """
    SELECT * FROM Stock
    WHERE (SELL AS first ; BUY AS between ; SELL AS last)
    FILTER first[volume > 950] AND between[volume > 950] AND last[volume > 950]
    PARTITION BY [name] WITHIN 10 SECONDS
    """,
)


def tour(size: int) -> None:
    """Show the stream, then each query: its plan, its first matches, its speed."""
    console = output_console()
    with spinner(f"making a stream of {size:,} events …"):
        events = stock_stream(size, seed=1)
    console.print(Rule("A stock market stream"))
    console.print(f"{size:,} generated events. The first three:")
    for event in events.slice(0, 3).to_pylist():
        console.print(Text("  " + "  ".join(f"{name}={event[name]}" for name in event)))
    for stop in STOPS:
        _show(stop, events, console)
    if find_spec("pyspark") is not None:
        _show_on_spark(size * _TIMES, console)
    else:
        console.print("\nThe same on Spark needs pyspark: pip install 'cernis[spark]'")
    console.print(Rule())
    console.print("Your own data:  cernis run QUERY --events FILE        How fast:  cernis bench")


def _introduce(stop: Stop, console: Console) -> cernis.Query[Any]:
    text = textwrap.dedent(stop.query).strip()
    console.print()
    console.print(Rule(stop.title))
    console.print(stop.text)
    console.print(Padding(Syntax(text, "sql", background_color="default"), (1, 2)))
    return cernis.query(text)


def _show(stop: Stop, events: pa.Table, console: Console) -> None:
    query = _introduce(stop, console)
    _, plan = str(query.explain(events)).split("\n", 1)  # the first line is the query again
    console.print(Panel(plan, title="plan", title_align="left"))
    with spinner("compiling, the first time only …"):
        query.run(events.slice(0, _FEW)).head(1)
    with spinner("recognizing …"):
        began = perf_counter()
        matches = query.run(events)
        seconds = perf_counter() - began
    assert isinstance(matches, Matches)
    _show_matches(matches, console)
    rate = events.num_rows / seconds
    console.print(
        f"{events.num_rows:,} events in {seconds:.2f} s: {rate / 1e6:.1f} million events per second"
    )


def _show_matches(matches: Matches, console: Console) -> None:
    count = matches.count()
    number = f"{count:,}" if count < 10**15 else f"{count:,} (about 10^{len(str(count)) - 1})"
    console.print(f"\n{number} matches. The first:", soft_wrap=True)
    first = matches.head(_SHOWN)
    if not first:
        return
    console.print(Padding(matches_table(first), (0, 2)))
    console.print("\nThe events of the first one, and where they are:")
    console.print(Padding(events_table(first[0]), (0, 2)))
    console.print(Padding(Text(first[0].timeline(min(console.width - 24, 72))), (1, 2)))


def _show_on_spark(size: int, console: Console) -> None:
    query = _introduce(LAST_STOP, console)
    console.print(f"{size:,} events in {_FILES} Parquet files.")
    with tempfile.TemporaryDirectory(prefix="cernis-demo-") as folder:
        events = _write(Path(folder), size)
        with spinner("starting Spark …"):
            from cernis.spark.local.session import session

            spark = session(app="cernis demo")
        _compare(spark, folder, events, query, console)


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
        first = found.orderBy("end_ts", "end", "start").limit(_COMPARED).collect()
    with spinner("Spark …"):
        began = perf_counter()
        there_count, there_seconds = found.count(), perf_counter() - began
    shown = sorted((m.end_ts, m.end, m.start) for m in here.head(50))[:_COMPARED]
    pairs = [", ".join(f"{start}–{end}" for _, end, start in shown)]
    pairs.append(", ".join(f"{row.start}–{row.end}" for row in first))
    rows = [
        ("embedded", f"{here_count:,}", pairs[0], f"{here_seconds:.1f}"),
        ("Spark", f"{there_count:,}", pairs[1], f"{there_seconds:.1f}"),
    ]
    table = make_table(
        ("", "matches", "the first of them", "seconds"), (map(Text, r) for r in rows)
    )
    console.print(Padding(table, (1, 2)))
    same = here_count == there_count and pairs[0] == pairs[1]
    console.print("The same answers." if same else "These should be the same: please report it.")
    console.print(
        "On one machine the embedded engine is faster; Spark is for tables that no machine holds."
    )
