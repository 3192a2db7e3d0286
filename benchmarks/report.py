"""Records to a page, a chart and a file.

A chart is data: a Vega-Lite specification in `charts/NAME.vl.json` whose data are the
benchmark's points, drawn by vl-convert. There is no plotting code. Without the extra
`notebook` the chart is left out, with a message.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path

import rich.box
import rich.table

from benchmarks.benchmark import Benchmark
from benchmarks.machine import describe_machine
from benchmarks.record import Record
from benchmarks.table import Table

NO_PLOT = "The chart is left out: to draw it, pip install 'cernis[notebook]'."


def render_table(table: Table) -> rich.table.Table:
    """Return a table for the terminal."""
    drawn = rich.table.Table(
        title=table.title,
        caption=table.note or None,
        box=rich.box.SIMPLE_HEAD,
        title_justify="left",
        caption_justify="left",
    )
    for number, column in enumerate(table.columns):
        drawn.add_column(column, justify="left" if number == 0 else "right")
    for row in table.rows:
        drawn.add_row(*row)
    return drawn


def write_markdown(table: Table) -> str:
    """Return a table for the page.

    >>> print(write_markdown(Table("Rates", ("n", "rate"), (("3", "1 M"),))))
    ### Rates
    <BLANKLINE>
    | n | rate |
    |:---|---:|
    | 3 | 1 M |
    <BLANKLINE>
    """
    rule = "|".join(":---" if number == 0 else "---:" for number in range(len(table.columns)))
    lines = [f"### {table.title}", "", f"| {' | '.join(table.columns)} |", f"|{rule}|"]
    lines += [f"| {' | '.join(row)} |" for row in table.rows]
    lines += ["", table.note] if table.note else []
    return "\n".join([*lines, ""])


def render_page(benchmark: Benchmark, tables: Iterable[Table], *, chart: bool) -> str:
    """Return a benchmark's page: the question, the chart, the tables, the machine, the command."""
    parts = [f"# {benchmark.title}", "", benchmark.question.strip(), ""]
    if chart:
        parts += [f"![{benchmark.title}]({benchmark.name}.svg)", ""]
    parts += [write_markdown(table) for table in tables]
    parts += ["## How it was measured", ""]
    parts += [f"- {key}: {value}" for key, value in describe_machine().items()]
    parts += [
        "",
        f"{benchmark.method} To run it again:",
        "",
        "```",
        f"cernis bench {benchmark.name}",
        "```",
    ]
    return "\n".join([*parts, ""])


def draw_chart(name: str, points: Sequence[Mapping[str, object]]) -> str | None:
    """Return the chart of a benchmark's points as SVG; None without the extra `notebook`."""
    try:
        import vl_convert
    except ImportError:
        return None
    text = resources.files("benchmarks").joinpath("charts", f"{name}.vl.json").read_text()
    return str(vl_convert.vegalite_to_svg(json.loads(text) | {"data": {"values": points}}))


def write_json(path: Path, records: Iterable[Record]) -> None:
    """Write all records and the machine as one JSON document."""
    document = {"machine": describe_machine(), "records": [one.to_json() for one in records]}
    path.write_text(json.dumps(document, indent=2) + "\n")
