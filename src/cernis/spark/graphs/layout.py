"""How the events of a SPAseQ query are spread over tasks, and what Spark will do, in words.

*keyed*: every graph pattern binds some variables for certain, and all events of a match share
them: a task has whole keys. *sliced*: no key, but a window: time is cut into cells of equal
length, which the tasks take in turn; a task also reads the window before each of its cells, and
reports the matches that end in them. *single*: neither.

A query of one step without `+` has matches of one timestamp: its window is nothing.

One engine is enough for all keys of a task, which the join keeps apart, and for all its cells:
between two of them lies more than a window.

Knows nothing of Spark itself, so that the command line can explain without starting it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cernis.plan.explain import entry
from cernis.plan.graphs import GraphPlan
from cernis.plan.plan import Distribution
from cernis.rdf.query import GraphQuery
from cernis.rdf.reading.parts import FilePart
from cernis.rdf.recognizer import shape_answers

APART = 4
"""A cell is so many windows long at least: at most one event in so many is read twice."""
CELLS = 16
"""About so many cells for each task, where the window allows it."""


@dataclass(frozen=True, slots=True)
class GraphLayout:
    """How a query is spread."""

    distribution: Distribution
    key: tuple[str, ...] = ()
    again: bool = False
    """Whether tasks may find the same match, by keys that the answer does not tell."""
    window: int | None = None
    """How far back a match reaches, in nanoseconds."""
    ticks: bool = False
    """Whether timestamps count that no pattern has a solution at."""

    @property
    def parallel(self) -> str:
        """For a single task: what would make it many."""
        return "a WITHIN, or a variable that every graph pattern binds (PARTITION BY, where ',' is)"


def graph_layout(plan: GraphPlan) -> GraphLayout:
    """Return the layout of a plan."""
    if plan.distribution is Distribution.KEYED:
        shape = shape_answers(plan.query, plan.linked)
        told = {plan.linked.columns[column.place] for column in shape.columns}
        shown = tuple(name for name in plan.key if name in told)
        return GraphLayout(Distribution.KEYED, shown or plan.key, not shown)
    ticks = plan.counts_all_timestamps
    return GraphLayout(plan.distribution, window=plan.window, ticks=ticks)


def cell_length(window: int, span: int, tasks: int) -> int:
    """How long the cells of time are, for a stream that goes on for about `span`.

    >>> cell_length(10, 3200, 2), cell_length(1000, 3200, 2)
    (101, 4001)
    """
    return max(APART * window, span // (CELLS * tasks)) + 1


# --------------------------------------------------------------------- words


class GraphSparkExplanation:
    """`str` of it is the page of the query, and what Spark does for it."""

    def __init__(
        self, query: GraphQuery, parts: Sequence[FilePart] | None = None, tasks: int | None = None
    ) -> None:
        self.query, self.layout = query, graph_layout(query.plan)
        self.parts, self.tasks = parts, tasks

    def __str__(self) -> str:
        lines = [str(self.query.explain())]
        lines += entry("on Spark", [*self._spread()])
        lines += entry("reading", [*self._reading()])
        lines += entry("travelling", [*self._travelling()])
        return "\n".join(lines)

    def _spread(self) -> Iterator[str]:
        layout = self.layout
        tasks = "" if self.tasks is None else f", {self.tasks} tasks"
        match layout.distribution:
            case Distribution.KEYED:
                yield f"keyed: by a hash of {', '.join(f'?{name}' for name in layout.key)}{tasks}"
                if layout.again:
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

    def _reading(self) -> Iterator[str]:
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

    def _travelling(self) -> Iterator[str]:
        names = ", ".join(f"?{name}" for name in self.query.plan.linked.columns) or "no variable"
        yield f"solutions, not events: {names}"
        if self.layout.ticks:
            yield "and timestamps without one, for ',' is the next timestamp of all streams"


def explain_graphs(
    query: GraphQuery | str, parts: Sequence[FilePart] | None = None, *, tasks: int | None = None
) -> GraphSparkExplanation:
    """How a query will be run on Spark; with `parts`, how its files will be read."""
    asked = query if isinstance(query, GraphQuery) else GraphQuery(query)
    return GraphSparkExplanation(asked, parts, tasks)
