"""`cernis demo`: a question, its answer with the events drawn, and what that costs elsewhere.

Three acts on a generated stream of logins, half a minute in all. `--plan` adds the plan of the
query, `--spark` runs it on Spark as well and shows the answers of both engines side by side.
Figures leave compilation out: a query that had to compile something runs again.
"""

from __future__ import annotations

import tempfile
import textwrap
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console
from rich.padding import Padding
from rich.panel import Panel
from rich.rule import Rule
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

import cernis
from cernis.cli.terminal import events_table, make_table, output_console, spinner, value_text
from cernis.compiled.tiers import count_compiled
from cernis.extras import import_extra
from cernis.generators.logins import login_stream
from cernis.integers import describe_integer
from cernis.results.match import Match
from cernis.results.matches import Matches

_SHOWN = 5
_MOST_KEPT = 1 << 18
_FILES = 4
_COMPARED = 3

GUESSED = """
SELECT MAX COUNT(f) AS failures, END - START AS took, ok[address] AS address, f, ok
FROM logins
WHERE FAIL{5,} AS f ; OK AS ok
PARTITION BY [user]
WITHIN 10 MINUTES
"""
EVERY = """
SELECT * FROM logins
WHERE FAIL{5,} AS f ; OK AS ok
PARTITION BY [user]
WITHIN 10 MINUTES
"""


@dataclass(frozen=True, kw_only=True)
class TourOptions:
    """How long the stream is, and what the tour shows beside its three acts."""

    events: int
    plan: bool = False
    spark: bool = False


class _Kept(NamedTuple):
    """What an engine that keeps every partial match has kept after some failures."""

    failures: int
    partial: int
    seconds: float


def tour(options: TourOptions) -> None:
    """Show the three acts, and the same on Spark if that is wanted."""
    console = output_console()
    if options.spark:
        import_extra("pyspark", "--spark")
    with spinner(f"making {options.events:,} logins …"):
        events = login_stream(options.events, seed=1)
    _ask(events, console)
    matches = _answer(events, console, plan=options.plan)
    _compare_costs(events, matches, console)
    if options.spark:
        _show_on_spark(events, console)
    console.print(Rule())
    more = "" if options.spark else "        On Spark:  cernis demo --spark"
    console.print(f"Your own data:  cernis run QUERY --events FILE{more}")


# --------------------------------------------------------------- the acts


def _ask(events: pa.Table, console: Console) -> None:
    """Show the stream and the question."""
    console.print(Rule("I. The question"))
    console.print(f"A day of logins, {events.num_rows:,} lines of this form:\n")
    lines = events.slice(0, 3).to_pylist()
    rows = [[value_text(value) for value in line.values()] for line in lines]
    console.print(make_table(events.column_names, rows))
    failed = pc.sum(pc.equal(events["type"], "FAIL")).as_py()
    console.print(
        f"\n{failed:,} of them failed: people mistype. Whose password was guessed? An account with "
        "five or more failures and then a success, all of it within ten minutes."
    )


def _answer(events: pa.Table, console: Console, *, plan: bool) -> Matches:
    """Show the query, its matches, and one of them with its events."""
    console.print()
    console.print(Rule("II. The answer"))
    text = textwrap.dedent(GUESSED).strip()
    console.print(Padding(Syntax(text, "sql", background_color="default"), (0, 2)))
    query = cernis.query(text)
    if plan:
        _, report = str(query.explain(events)).split("\n", 1)  # the first line is the query again
        console.print(Panel(report, title="plan", title_align="left"))
    matches, seconds = _time(query, events, lambda found: found.head(1))
    rate = events.num_rows / seconds / 1e6
    accounts = len({match.partition["user"] for match in matches})
    console.print(
        f"\n{matches.count():,} such successes of {accounts:,} accounts, found in {seconds:.2f} s "
        f"({rate:.1f} million events per second, compilation left out):\n"
    )
    first = matches.head(_SHOWN)
    if not first:
        return matches
    console.print(_list_successes(first))
    drawn = min(first, key=lambda match: len(match.vars["f"]))
    console.print(f"\nWhat happened to {drawn.partition['user']}, and where in the account's day:")
    console.print()
    console.print(events_table(drawn))
    console.print(Padding(Text(_draw(drawn, events, console)), (1, 0)))
    return matches


def _list_successes(matches: Sequence[Match]) -> Table:
    """Return a table of some matches: the account, its values, and when it was."""
    names = ("user", *matches[0].values, "first failure", "success")
    rows = [
        (m.partition["user"], *m.values.values(), f"{m.start_ts:%H:%M:%S}", f"{m.end_ts:%H:%M:%S}")
        for m in matches
    ]
    return make_table(names, (map(value_text, row) for row in rows), right={"failures"})


def _draw(match: Match, events: pa.Table, console: Console) -> str:
    """Draw a match along the events of its own account."""
    from cernis.views.text_timeline import write_timeline

    own = pc.indices_nonzero(pc.equal(events["user"], match.partition["user"])).to_pylist()
    index_of = {row: at for at, row in enumerate(own)}
    marks = {name: [index_of[row] for row in rows] for name, rows in match.vars.items()}
    start, end = index_of[match.start], index_of[match.end]
    width = min(console.width - 16, 90)
    ends = (f"{match.start_ts:%H:%M:%S}", f"{match.end_ts:%H:%M:%S}")
    return write_timeline(marks, start, end, width=width, ends=ends)


def _compare_costs(events: pa.Table, matches: Matches, console: Console) -> None:
    """Count every match, and show the cost of keeping every partial match by itself."""
    console.print(Rule("III. What it would have cost elsewhere"))
    every, seconds = _time(cernis.query(EVERY), events, Matches.count)
    count = every.count()
    number = describe_integer(count, 10**15)
    console.print(
        "MAX takes all failures of an attack at once. Without it, each choice of five or more of "
        f"them is a match: {number} in all. Cernis keeps them as one compact set, and counts them "
        f"in {seconds:.2f} s without making one.\n"
    )
    worst = max(matches.head(1000), key=lambda match: len(match.vars["f"]), default=None)
    if worst is None:
        return
    failures = len(worst.vars["f"])
    console.print(
        "An engine that keeps every partial match by itself doubles its work with each failure. On "
        f"{worst.partition['user']}, with {failures} failures:\n"
    )
    kept = list(_keep_every_partial_match(failures))
    rows = [
        [Text(f"{one.failures}"), Text(f"{one.partial:,}"), Text(f"{one.seconds:.3f}")]
        for one in kept
    ]
    names = ("failures", "partial matches", "seconds")
    console.print(make_table(names, rows, right=names))
    last = kept[-1]
    if last.failures < failures:
        needed = last.seconds * 2.0 ** (failures - last.failures)
        console.print(f"\nAt this pace, all {failures} would take {_write_time(needed)}.")


def _keep_every_partial_match(failures: int) -> Iterator[_Kept]:
    """Extend every partial match by every failure, as the textbook has it, up to a bound."""
    runs: list[tuple[int, ...]] = [()]
    began = perf_counter()
    for failure in range(failures):
        if len(runs) > _MOST_KEPT:
            return
        runs += [(*run, failure) for run in runs]
        if (failure + 1) % 3 == 0 or failure + 1 == failures:
            yield _Kept(failure + 1, len(runs) - 1, perf_counter() - began)


def _time(
    query: cernis.Query[Any], events: pa.Table, use: Callable[[Matches], object]
) -> tuple[Matches, float]:
    """Run a query and use its matches, again if that compiled anything; return the seconds."""
    with spinner("recognizing …"):
        while True:
            compiled, began = count_compiled(), perf_counter()
            matches = query.run(events)
            assert isinstance(matches, Matches)
            use(matches)
            if count_compiled() == compiled:
                return matches, perf_counter() - began


def _write_time(seconds: float) -> str:
    """Return a time in the largest unit that has at least one of it.

    >>> _write_time(7200), _write_time(3e9)
    ('2 hours', '95 years')
    """
    for unit, size in (("years", 31_557_600), ("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:.1f} seconds"


# ------------------------------------------------------------------ Spark


def _show_on_spark(events: pa.Table, console: Console) -> None:
    console.print()
    console.print(Rule("The same on Spark"))
    console.print(
        "cernis.spark.recognize(df, query) gives the matches as a DataFrame: predicates run inside "
        f"Spark, and each account belongs to one task. The logins are in {_FILES} Parquet files."
    )
    with tempfile.TemporaryDirectory(prefix="cernis-demo-") as folder:
        _write(Path(folder), events)
        with spinner("starting Spark …"):
            from cernis.spark.local.session import session

            spark = session(app="cernis demo")
        _compare(spark, folder, events, console)


def _write(folder: Path, events: pa.Table) -> None:
    at = events.schema.get_field_index("ts")
    events = events.set_column(at, "ts", events.column("ts").cast(pa.timestamp("us", "UTC")))
    rows = -(-events.num_rows // _FILES)
    for number in range(_FILES):
        pq.write_table(events.slice(number * rows, rows), folder / f"part-{number}.parquet")


def _compare(spark: Any, folder: str, events: pa.Table, console: Console) -> None:
    from cernis.spark import recognize

    query, df = cernis.query(textwrap.dedent(GUESSED).strip()), spark.read.parquet(folder)
    here, here_seconds = _time(query, events, lambda found: found.count())
    with spinner("Spark, the first time …"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = recognize(df, query)
        first = found.orderBy("end_ts", "user").limit(_COMPARED).collect()
    with spinner("Spark …"):
        began = perf_counter()
        there_count, there_seconds = found.count(), perf_counter() - began
    shown = sorted(here, key=lambda match: (match.end_ts, match.partition["user"]))[:_COMPARED]
    names = [", ".join(match.partition["user"] for match in shown)]
    names.append(", ".join(row.user for row in first))
    rows = [
        ("embedded", f"{here.count():,}", names[0], f"{here_seconds:.1f}"),
        ("Spark", f"{there_count:,}", names[1], f"{there_seconds:.1f}"),
    ]
    cells = (map(Text, row) for row in rows)
    console.print(Padding(make_table(("", "accounts", "the first", "seconds"), cells), (1, 2)))
    same = here.count() == there_count and names[0] == names[1]
    console.print("The same answers." if same else "These should be the same: please report it.")
    console.print(
        "On one machine the embedded engine is faster; Spark is for tables that no machine holds."
    )
