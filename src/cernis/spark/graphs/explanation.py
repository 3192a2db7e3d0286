"""`GraphSparkExplanation`: the report of how Spark will run a SPAseQ query.

Does not import Spark, so that the command line can explain without starting it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cernis.plan.plan import Distribution
from cernis.plan.report import write_entry
from cernis.rdf.query import GraphQuery
from cernis.rdf.reading.parts import FilePart
from cernis.spark.graphs.layout import (
    APART,
    GraphLayout,
    choose_graph_layout,
    choose_graph_stream_layout,
)


class GraphSparkExplanation:
    """The explanation of a query on Spark; `str()` is the report."""

    def __init__(
        self, query: GraphQuery, parts: Sequence[FilePart] | None = None, tasks: int | None = None
    ) -> None:
        self.query, self.layout = query, choose_graph_layout(query.plan)
        self.parts, self.tasks = parts, tasks

    def __str__(self) -> str:
        lines = [str(self.query.explain())]
        lines += write_entry("on Spark", [*self._describe_layout()])
        lines += write_entry("reading", [*self._describe_reading()])
        lines += write_entry("travelling", [*_describe_columns(self.query, self.layout)])
        return "\n".join(lines)

    def _describe_layout(self) -> Iterator[str]:
        layout = self.layout
        tasks = "" if self.tasks is None else f", {self.tasks} tasks"
        match layout.distribution:
            case Distribution.KEYED:
                yield f"keyed: by a hash of {', '.join(f'?{name}' for name in layout.key)}{tasks}"
                if layout.repeats:
                    yield "the answer does not show the key: matches found twice are one, by a sort"
            case Distribution.SLICED:
                yield f"sliced: cells of time in turn{tasks}"
                if layout.window:
                    yield (
                        f"a cell reads the {layout.window / 1e9:g} seconds before it as well: "
                        f"at most 1 event in {APART} twice"
                    )
            case _:
                yield f"single: 1 task; what would make it parallel: {layout.parallel}"

    def _describe_reading(self) -> Iterator[str]:
        if self.parts is None:
            yield "files in parallel, large N-Quads files in pieces; patterns are solved there"
            return
        for i, (name, _) in enumerate(self.query.query.streams):
            mine = [part for part in self.parts if part.stream == i]
            files = len({part.path for part in mine})
            yield (
                f"{name}: {files} file{'s' * (files != 1)} in {len(mine)} "
                f"part{'s' * (len(mine) != 1)}; patterns are solved there"
            )


class GraphStreamExplanation:
    """The explanation of a query on streams; `str()` is the report."""

    def __init__(self, query: GraphQuery, buckets: int | None = None) -> None:
        self.query, self.buckets = query, buckets
        self.layout = choose_graph_stream_layout(query.plan)

    def __str__(self) -> str:
        lines = [str(self.query.explain())]
        lines += write_entry("on Spark", [*self._describe_layout()])
        lines += write_entry("travelling", [*_describe_columns(self.query, self.layout)])
        return "\n".join(lines)

    def _describe_layout(self) -> Iterator[str]:
        layout = self.layout
        if layout.distribution is Distribution.KEYED:
            buckets = "" if self.buckets is None else f", {self.buckets} buckets"
            yield f"keyed: by a hash of {', '.join(f'?{name}' for name in layout.key)}{buckets}"
        else:
            yield (
                "single: 1 bucket; what would spread it: a variable that every graph pattern "
                "binds and the answer shows (PARTITION BY, where ',' is)"
            )
        if self.query.plan.window is None:
            yield "no WITHIN: the state keeps every partial match, in snapshots"
        else:
            yield "the state has the solutions of a window and the lateness"


def _describe_columns(query: GraphQuery, layout: GraphLayout) -> Iterator[str]:
    names = ", ".join(f"?{name}" for name in query.plan.linked.columns) or "no variable"
    yield f"solutions, not events: {names}"
    if layout.ticks:
        yield "and timestamps without one, for ',' is the next timestamp of all streams"


def explain_graphs(
    query: GraphQuery | str, parts: Sequence[FilePart] | None = None, *, tasks: int | None = None
) -> GraphSparkExplanation:
    """Explain how a query runs on Spark; with `parts`, how its files are read."""
    query = query if isinstance(query, GraphQuery) else GraphQuery(query)
    return GraphSparkExplanation(query, parts, tasks)
