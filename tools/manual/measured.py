"""The table of numbers in the README, taken from the pages that `cernis bench` writes.

Each row names the page and the command that makes its number again, so the README says nothing
that a page does not say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from statistics import median

BEGIN, END = "<!-- numbers: written by make pages -->", "<!-- end of numbers -->"

_SIZES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}
_WORDS = ((1e9, "billion"), (1e6, "million"), (1e3, "thousand"))
_HEADING = re.compile(r"^#+ (.+)$")

Table = list[dict[str, str]]


def with_numbers(root: Path) -> str:
    """Return the text of the README with the numbers as the pages have them."""
    readme = (root / "README.md").read_text(encoding="utf-8")
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{write_numbers(root / 'docs' / 'benchmarks')}\n{END}{after}"


def write_numbers(folder: Path) -> str:
    """Return the table of numbers, from the pages in a folder."""
    rows = [
        _say_sequences(folder),
        _say_core(folder),
        _say_peers(folder),
        _say_partitions(folder),
        _say_strategies(folder),
        _say_endless(folder),
        _say_spark(folder),
        _say_streaming(folder),
    ]
    lines = ["| | measured | page | command |", "|---|---|---|---|"]
    for what, measured, name, command in rows:
        lines.append(f"| {what} | {measured} | [{name}](docs/benchmarks/{name}.md) | {command} |")
    return "\n".join(lines) + "\n"


def read_tables(text: str) -> dict[str, Table]:
    """Return the tables of a page by the headings above them.

    >>> read_tables("### A\\n\\n| n | rate |\\n|:---|---:|\\n| 3 | 2 M |\\n")
    {'A': [{'n': '3', 'rate': '2 M'}]}
    """
    tables: dict[str, Table] = {}
    heading = ""
    names: list[str] = []
    for line in text.splitlines():
        found = _HEADING.match(line)
        if found:
            heading = found[1]
        if not line.startswith("|"):
            names = []
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not names:
            names = cells
        elif not set("".join(cells)) <= set(":-"):
            tables.setdefault(heading, []).append(dict(zip(names, cells, strict=True)))
    return tables


def read_number(cell: str) -> float:
    """Return the number of a cell.

    >>> read_number("26.7 M"), read_number("1,000,000"), read_number("0.478")
    (26700000.0, 1000000.0, 0.478)
    """
    number, _, size = cell.replace(",", "").partition(" ")
    return float(number) * _SIZES[size]


def say_range(numbers: Iterable[float]) -> str:
    """Return a range of numbers in words.

    >>> say_range([26.7e6, 32.3e6]), say_range([441e3]), say_range([2.37e6])
    ('27 to 32 million', '441 thousand', '2.4 million')
    """
    numbers = list(numbers)
    low, high = min(numbers), max(numbers)
    size, word = next(one for one in _WORDS if high >= one[0])
    said = [f"{one / size:.0f}" if one >= 10 * size else f"{one / size:.2g}" for one in (low, high)]
    return f"{' to '.join(dict.fromkeys(said))} {word}"


def say_ratio(number: float) -> str:
    """Return a ratio in two digits.

    >>> say_ratio(1234.5), say_ratio(12.4), say_ratio(1.26)
    ('1,200', '12', '1.3')
    """
    return f"{float(f'{number:.2g}'):,g}"


_Row = tuple[str, str, str, str]


def _read(folder: Path, name: str) -> dict[str, Table]:
    return read_tables((folder / f"{name}.md").read_text(encoding="utf-8"))


def _short_sequences(folder: Path) -> Table:
    return [row for row in _read(folder, "sequences")["Events per second"] if row["n"] == "3"]


def _say_sequences(folder: Path) -> _Row:
    rows = _short_sequences(folder)
    windows = [f"{read_number(row['window']):,.0f}" for row in rows]
    what = f"a sequence of 3 events, window of {windows[0]} to {windows[-1]} events"
    rate = say_range(read_number(row["recognised"]) for row in rows)
    return what, f"{rate} events per second, on one core", "sequences", "`cernis bench sequences`"


def _say_core(folder: Path) -> _Row:
    rates = [row["CORE"] for row in _short_sequences(folder) if row.get("CORE", "–") != "–"]
    said = f"{say_range(map(read_number, rates))} events per second" if rates else "not measured"
    what = "the same on CORE, the C++ engine of the papers"
    return what, said, "sequences", "`make bench-peer`, then the same"


def _say_peers(folder: Path) -> _Row:
    tables = _read(folder, "peers")
    heading = next(name for name in tables if name.startswith("Processor seconds, times those"))
    rows, over = tables[heading], heading.partition(", over ")[2]
    said = []
    for name in ("FlinkCEP", "Esper", "Siddhi", "DuckDB", "Spark SQL"):
        cells = [row[name] for row in rows if row.get(name, "–") != "–"]
        if cells:
            ratio = median(read_number(cell.removeprefix("> ")) for cell in cells)
            capped = (read_number(cell[2:]) for cell in cells if cell.startswith("> "))
            bound = "at least " if any(least <= ratio for least in capped) else ""
            said.append(f"{name} {bound}{say_ratio(ratio)} (of {len(cells)})")
    asked = f"{len(rows)} questions over {over or '50,000 events'}"
    what = f"{asked}, processor time to that of Cernis, the median of those asked"
    return what, ", ".join(said), "peers", "`cernis bench peers`"


def _say_partitions(folder: Path) -> _Row:
    row = _read(folder, "partitions")["Events per second by keys"][-1]
    what = f"`PARTITION BY` {row['keys']} keys, every event moves its key"
    rate = say_range([read_number(row["events/s"])])
    return what, f"{rate} events per second", "partitions", "`cernis bench partitions`"


def _say_strategies(folder: Path) -> _Row:
    row = _read(folder, "strategies")["Cost in plain passes"][-1]
    digits = row["most matches at a position"].partition("e+")[2]
    what = f"count the matches where 10^{digits} end at one event"
    said = f"{float(row['count()']):.2g} times a plain pass over the events"
    return what, said, "strategies", "`cernis bench strategies`"


def _say_endless(folder: Path) -> _Row:
    rows = _read(folder, "endless")["Along the stream"]
    rows = [row for row in rows if row["events"] == rows[0]["events"]]  # sets of rules read fewer
    peaks = [int(row["peak, MiB"]) for row in rows]
    growth = max(float(row["most memory, to the first fifth"]) for row in rows) - 1
    events = read_number(rows[0]["events"])
    what = f"memory along {say_range([events])} events, {len(rows)} kinds"
    said = f"{min(peaks)} to {max(peaks)} MiB, at most {growth:.0%} of growth"
    return f"{what} of queries", said, "endless", f"`make endless LENGTH={events:.0f}`"


def _say_spark(folder: Path) -> _Row:
    tables = _read(folder, "spark")
    rates = {row[""]: row["rows/s, 2 cores"] for row in tables["Rows per second"]}
    ratios = {row[""]: row["×"] for row in tables["Ratios"]}
    said = (
        f"{say_range([read_number(rates['keyed'])])} rows per second, "
        f"{ratios['keyed to its pass-through']} times a pass-through of the rows through Python"
    )
    return "Spark in batch, keyed, from Parquet", said, "spark", "`cernis bench spark`"


def _say_streaming(folder: Path) -> _Row:
    tables = _read(folder, "streaming")
    rates = next(row for row in tables["Rows per second"] if row[""] == "recognized")
    moving = say_range(read_number(v) for name, v in rates.items() if name.startswith("rows/s"))
    waits = tables["From the event that makes a match certain to the match"]
    median = next(row["s"] for row in waits if row[""] == "latency, median")
    said = f"{moving} rows per second; a match comes out after {median} seconds, the median"
    return "Spark on a stream", said, "streaming", "`cernis bench streaming`"
