"""`cernis run` and `cernis explain` for SPAseQ queries over RDF streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

import cernis
from cernis.cli import deliver
from cernis.cli.arguments import check_output, named_graphs
from cernis.cli.show import errors, value_text
from cernis.cli.show import output as standard_output
from cernis.errors import CernisError
from cernis.rdf.matches import GraphMatch, GraphMatches

_FORMATS = {None: None, "nquads": "nq", "trig": "trig"}


@dataclass(frozen=True)
class Asked:
    """How the streams are to be read."""

    background: Sequence[str]
    time: str | None
    time_unit: str
    format: str | None
    on_error: str

    def reading(self) -> dict[str, Any]:
        if self.format not in _FORMATS:
            raise CernisError(f"--format {self.format}: RDF streams are nquads or trig")
        graphs = named_graphs(self.background) if self.background else None
        return {
            "background": graphs,
            "time": self.time,
            "time_unit": self.time_unit,
            "format": _FORMATS[self.format],
            "on_error": self.on_error,
        }


def run(
    text: str,
    files: Sequence[Path] | Mapping[str, Path],
    asked: Asked,
    *,
    output: str | None,
    count: bool,
    limit: int | None,
    shown: int,
    engine: str,
) -> None:
    """Finds the matches and delivers them."""
    query = cernis.query(text, lang="spaseq")
    constructs = query.query.construct is not None
    check_output(output, (".jsonl", ".parquet", ".nq") if constructs else (".jsonl", ".parquet"))
    reading = asked.reading()
    if engine == "spark":
        from cernis.cli import spaseq_on_spark as graphs_on_spark

        graphs_on_spark.run(
            query, files, reading, output=output, count=count, limit=limit, shown=shown
        )
        return
    session = query.session(**reading)
    runs = deliver.watched(session, query.name_streams(files), output)
    if count:
        deliver.write_count(runs, limit, output)
    elif output is None:
        show(runs, shown if limit is None else limit, standard_output())
    elif output.endswith(".parquet"):
        deliver.write_parquet(runs, limit, output, lambda: session.matches([]).schema)
    elif output.endswith(".nq"):
        deliver.write_graphs(runs, limit, output)
    else:
        deliver.write_lines(runs, limit, output)
    for note in session.notes:
        errors().print(f"note: {note}", soft_wrap=True)


def explain(
    text: str,
    files: Sequence[Path] | Mapping[str, Path],
    asked: Asked,
    *,
    mermaid: bool,
    engine: str,
) -> str:
    """What a query does and costs."""
    query = cernis.query(text, lang="spaseq")
    if engine == "spark" and not mermaid:
        from cernis.cli import spaseq_on_spark as graphs_on_spark

        return graphs_on_spark.explain(query, files, asked.reading())
    explanation = query.explain()
    return explanation.mermaid() if mermaid else str(explanation)


def show(runs: deliver.Runs, limit: int, console: Console) -> None:
    """A table of the first matches, and how many there are."""
    first: list[GraphMatch] = []
    count = 0
    for found in runs:
        assert isinstance(found, GraphMatches)
        count += found.count()
        first += found.head(limit - len(first))
    show_first(first, count, console)


def show_first(first: Sequence[GraphMatch], count: int, console: Console) -> None:
    """The first of so many matches."""
    if first:
        console.print(_table(first))
    deliver.say_found(console, count, count - len(first), deliver.MATCH)


def _table(matches: Sequence[GraphMatch]) -> Table:
    names = list(dict.fromkeys(name for match in matches for name in match.bindings))
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("start_ts", "end_ts", *(f"?{name}" for name in names), "events"):
        table.add_column(Text(name))
    for match in matches:
        bound = [match.bindings.get(name) for name in names]
        events = ", ".join(f"{stream} {number}" for stream, number in match.events)
        cells = [value_text(value) for value in (match.start_ts, match.end_ts, *bound)]
        table.add_row(*cells, Text(events))
    return table
