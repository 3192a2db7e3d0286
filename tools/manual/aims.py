"""The page of aims for speed: what is wanted, what is measured, and whether it is met.

The numbers are those of the pages that `cernis bench` writes, so a new run of a benchmark changes
this page, too. What keeps an aim from being met stands beside it, in words.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tools.manual.measured import Table, read_number, read_tables

_HEAD = """# Aims for speed

Each aim of the engine, beside the number that the [benchmarks](index.md) have measured. `make
pages` writes this page from theirs. Where an aim is not met, the last column says what is known
of the reason; *open*: it has not been looked for.

"""
_WIDEST = 10_000
"""The widest window, in events, of the aim for ordered values."""


class Aim(NamedTuple):
    """An aim: the number of a page is at least, or at most, another."""

    what: str
    page: str
    read: Callable[[dict[str, Table]], list[float]]
    bound: float
    least: bool = True
    unit: str = ""
    why: str = ""
    """Why it is not met, if it is not."""


def write_aims_page(root: Path) -> str:
    """Return the page, from the pages in a checkout."""
    folder = root / "docs" / "benchmarks"
    lines = [
        "| aim | measured, worst to best | met | page | if not, why |",
        "|:---|---:|:---|:---|:---|",
    ]
    lines += [_write_row(aim, folder) for aim in AIMS]
    return _HEAD + "\n".join(lines) + "\n\n" + _UNMEASURED


def _write_row(aim: Aim, folder: Path) -> str:
    found = sorted(aim.read(read_tables((folder / f"{aim.page}.md").read_text(encoding="utf-8"))))
    if not aim.least:
        found.reverse()
    is_met = found[0] >= aim.bound if aim.least else found[0] <= aim.bound
    sign = "≥" if aim.least else "≤"
    shown = " to ".join(dict.fromkeys(f"{number:.3g}" for number in (found[0], found[-1])))
    page = f"[{aim.page}]({aim.page}.md)"
    why = "" if is_met else aim.why
    met = "yes" if is_met else "no"
    return f"| {aim.what}: {sign} {aim.bound:g}{aim.unit} | {shown} | {met} | {page} | {why} |"


def _list_column(table: str, column: str) -> Callable[[dict[str, Table]], list[float]]:
    """Return what lists the numbers of a column; `column` may be the beginning of its name."""

    def read(tables: dict[str, Table]) -> list[float]:
        rows = tables[table]
        name = next(each for each in rows[0] if each.startswith(column))
        return [read_number(row[name]) for row in rows if row[name] != "–"]

    return read


def _list_batch(tables: dict[str, Table]) -> list[float]:
    """Return what remains of the pass-through where a query can drop no row."""
    ratios = {row[""]: row["×"] for row in tables["Ratios"]}
    named = (value for name, value in ratios.items() if name.startswith("contiguous, tasks read"))
    if (read := next(named, None)) is not None:
        return [read_number(read)]
    rates = {row[""]: read_number(row["rows/CPU-s"]) for row in tables["Rows per second"]}
    return [rates["keyed, nothing can be dropped"] / rates["pass-through, keyed"]]


def _list_stream(tables: dict[str, Table]) -> list[float]:
    rows = [row for row in tables["Ratios"] if row[""].startswith("recognized to pass-through")]
    return [read_number(row["×"]) for row in rows]


def _list_ordered(tables: dict[str, Table]) -> list[float]:
    """List the microseconds of an event of ordered values and rising runs."""
    return [
        read_number(row["engine, ns/event"]) / 1000
        for row in tables["An event's cost by window"]
        if row["query"] in ("ordered", "rising") and read_number(row["window"]) <= _WIDEST
    ]


def _read_matches(tables: dict[str, Table]) -> list[float]:
    """Return the millions of matches per second of three variables, where there are many."""
    rows = [row for row in tables["Events per second"] if row["n"] == "3"]
    return [max(read_number(r["matches/s"]) for r in rows if r["matches/s"] != "–") / 1e6]


def _read_million_keys(tables: dict[str, Table]) -> list[float]:
    return [read_number(tables["Events per second by keys"][-1]["to one key"])]


def _list_latency(source: str) -> Callable[[dict[str, Table]], list[float]]:
    """Return what lists the medians of the latency from a source."""

    def read(tables: dict[str, Table]) -> list[float]:
        rows = tables["From the event that makes a match certain to its line"]
        return [read_number(row["median, ms"]) for row in rows if row["from"] == source]

    return read


def _list_memory(tables: dict[str, Table]) -> list[float]:
    """List the peak of each kind of query on the longest stream, to that on the shortest."""
    rows = tables["Memory of the process"]
    peaks: dict[str, list[float]] = {}
    for row in rows:
        peaks.setdefault(row["query"], []).append(read_number(row["peak, MiB"]))
    return [each[-1] / each[0] for each in peaks.values()]


AIMS = (
    Aim(
        "a sequence of plain strings to a bare pass over the symbols",
        "sequences",
        _list_column("Events per second", "share"),
        0.04,
        why="predicates are part of it; with n = 24, every second event moves a partial match",
    ),
    Aim(
        "an event of ordered values or rising runs, in windows up to 10,000",
        "correlation",
        _list_ordered,
        1.0,
        least=False,
        unit=" µs",
        why="an insertion copies a way of some 16 records; collecting them takes a fifth of the "
        "time; sorted blocks were not tried",
    ),
    Aim(
        "matches of three variables to Arrow",
        "sequences",
        _read_matches,
        10.0,
        unit=" M/s",
        why="the page is older than taking texts of one length as numbers, and than ranking "
        "positions in a kernel: both halve the time; then listing positions is a quarter of it, "
        "and taking columns a fifth",
    ),
    Aim(
        "a million keys to one key",
        "partitions",
        _read_million_keys,
        0.5,
        why="the state of a million keys does not fit into the cache, and most keys are new: a "
        "third of the time goes to growing tables, a third to steps, a sixth to numbering keys; "
        "the numbers of a key side by side made steps a tenth faster, and the whole no faster",
    ),
    Aim(
        "two cores to one, in one process",
        "threads",
        _list_column("Events per second of the clock", "ratio"),
        1.7,
        why="it needs two free cores: the page tells the load of its run",
    ),
    Aim(
        "Spark in batch, where nothing can be dropped, to a pass-through",
        "spark",
        _list_batch,
        0.9,
        why="moving rows to Python costs most; only files in order of time are read in tasks",
    ),
    Aim(
        "Spark on streams to a pass-through",
        "streaming",
        _list_stream,
        0.7,
        why="the JVM compiles and plans anew for each micro-batch; rows cost little of it",
    ),
    Aim(
        "the median from the event that ends a match to its line, from a pipe",
        "live",
        _list_latency("pipe"),
        5.0,
        least=False,
        unit=" ms",
        why="a step takes 2 to 4 ms however few events it has: it is some thousand calls of Python",
    ),
    Aim(
        "the same from topic to topic",
        "live",
        _list_latency("Kafka"),
        20.0,
        least=False,
        unit=" ms",
        why="a match waits for the step and the transaction before it; the broker shares the cores",
    ),
    Aim(
        "a stream in one process to reading its input",
        "live",
        _list_column("Events per processor second", "share"),
        0.6,
        why="Parquet is read in 90 ns an event, and recognizing with a key takes 175",
    ),
    Aim(
        "what the fit of costs predicts of a larger size, to what is measured",
        "cost",
        _list_column(
            "Growth exponents, and what they predict beyond the fit", "predicted to measured"
        ),
        0.5,
    ),
    Aim(
        "peak memory of a hundred times the stream",
        "memory",
        _list_memory,
        1.1,
        least=False,
    ),
)

_UNMEASURED = """No page measures these yet:

- a sequence to a bare pass over the symbols, columns encoded as dictionaries, ≥ 0.06;
- counts beyond 2^63 to Arrow at the price of counts below: they pass through no Python integers
  any more, and one of 36 digits takes half of what one of 18 took when it did. One of 18 takes next
  to nothing now. Texts of more than 76 digits are divided by 10^9 again and again;
- the latency of a match on a Spark stream, divided by the latency of a stateless query, ≤ 2;
"""
