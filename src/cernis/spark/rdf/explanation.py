"""`SolutionExplanation`: the report of how Spark will run a SPAseQ query, on files or on streams.

Does not import Spark, so that the command line can explain without starting it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cernis.integers import count_noun
from cernis.plan.plan import Distribution
from cernis.plan.report import write_entry
from cernis.rdf.query import GraphQuery
from cernis.rdf.reading.parts import FilePart
from cernis.spark.rdf.layout import (
    APART,
    choose_solution_layout,
    choose_solution_stream_layout,
)
from cernis.work.layout import Layout


@dataclass(frozen=True)
class SolutionExplanation:
    """The explanation of a query on Spark; `str()` is the report."""

    query: GraphQuery
    parts: Sequence[FilePart] | None = None
    """Of files: in how many parts they are read."""
    tasks: int | None = None
    """The number of tasks, or of buckets."""
    is_streaming: bool = False

    @property
    def layout(self) -> Layout:
        choose = choose_solution_stream_layout if self.is_streaming else choose_solution_layout
        return choose(self.query.plan)

    def __str__(self) -> str:
        lines = [str(self.query.explain())]
        lines += write_entry("on Spark", [*self._describe_layout()])
        if not self.is_streaming:
            lines += write_entry("reading", [*self._describe_reading()])
        lines += write_entry("travelling", [*self._describe_columns()])
        return "\n".join(lines)

    def _describe_layout(self) -> Iterator[str]:
        layout = self.layout
        unit = "bucket" if self.is_streaming else "task"
        tasks = "" if self.tasks is None else f", {self.tasks} {unit}s"
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
            case _ if self.is_streaming:
                yield (
                    "single: 1 bucket; what would spread it: a variable that every graph pattern "
                    "binds and the answer shows (PARTITION BY, where ',' is)"
                )
            case _:
                yield f"single: 1 task; what would make it parallel: {layout.parallel}"
        if self.is_streaming and self.query.plan.window is None:
            yield "no WITHIN: the state keeps every partial match, in snapshots"
        elif self.is_streaming:
            yield "the state has the solutions of a window and the lateness"

    def _describe_reading(self) -> Iterator[str]:
        if self.parts is None:
            yield "files in parallel, large N-Quads files in pieces; patterns are solved there"
            return
        for i, (name, _) in enumerate(self.query.query.streams):
            own = [part for part in self.parts if part.stream == i]
            files = count_noun(len({part.path for part in own}), "file")
            yield f"{name}: {files} in {count_noun(len(own), 'part')}; patterns are solved there"

    def _describe_columns(self) -> Iterator[str]:
        names = ", ".join(f"?{name}" for name in self.query.plan.linked.columns) or "no variable"
        yield f"solutions, not events: {names}"
        if self.layout.ticks:
            yield "and timestamps without one, for ',' is the next timestamp of all streams"


def explain_graphs(
    query: GraphQuery | str, parts: Sequence[FilePart] | None = None, *, tasks: int | None = None
) -> SolutionExplanation:
    """Explain how a query runs on Spark; with `parts`, how its files are read."""
    query = query if isinstance(query, GraphQuery) else GraphQuery(query)
    return SolutionExplanation(query, parts, tasks)
