"""`cernis demo`: a few queries on a generated stock market stream, explained as they run."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from importlib.util import find_spec
from time import perf_counter

import pyarrow as pa
from rich.console import Console
from rich.padding import Padding
from rich.panel import Panel
from rich.rule import Rule
from rich.syntax import Syntax
from rich.text import Text

import cernis
from cernis.cli.terminal import events_table, matches_table, output_console, spinner
from cernis.cli.tour_spark import tour_on_spark
from cernis.generators.stock import stock_stream
from cernis.results.matches import Matches

_FEW = 1000
_SHOWN = 4


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
        tour_on_spark(size, console)
    else:
        console.print("\nThe same on Spark needs pyspark: pip install 'cernis[spark]'")
    console.print(Rule())
    console.print("Your own data:  cernis run QUERY --events FILE        How fast:  cernis bench")


def _show(stop: Stop, events: pa.Table, console: Console) -> None:
    text = textwrap.dedent(stop.query).strip()
    console.print()
    console.print(Rule(stop.title))
    console.print(stop.text)
    console.print(Padding(Syntax(text, "sql", background_color="default"), (1, 2)))
    query = cernis.query(text)
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
