"""`GraphTrace`: look into the run of a SPAseQ query, graph by graph; the twin of `Trace`.

Cost contract: making one is a run of the query that keeps all graphs. `step` replays the timestamps
inside the window that ends at a graph, at most a limit of them; `automaton` the first graphs of the
streams, up to a limit. `why` reads the rows around its graphs.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from cernis.rdf.matches import GraphMatches
from cernis.rdf.trace.graphs import GraphName, TracedGraphs
from cernis.rdf.trace.linked import LinkedReplay
from cernis.rdf.trace.why import explain_graphs
from cernis.results.finding import Finding
from cernis.results.trace_steps import TraceStep, write_step
from cernis.views.automaton import AutomatonView
from cernis.views.describe_linked import DrawnLinked, describe_linked

LINKED_LIMIT = 600
"""The most timestamps that a step replays."""
LINKED_EDGES = 1_500
"""The most graphs over which edges are counted."""


class GraphTrace:
    """The run of a SPAseQ query: what waits at each graph, and why graphs are no match.

    A graph is named by its stream and its number, as in `GraphMatch.events`, or by its *row*: its
    rank in the order of time over all streams.
    """

    def __init__(self, graphs: TracedGraphs) -> None:
        self.graphs = graphs

    @property
    def matches(self) -> GraphMatches:
        """The matches of the run."""
        return self.graphs.matches

    def find_row(self, stream: str, number: int) -> int:
        """Return the rank of a graph in the order of time."""
        return self.graphs.find_rank((stream, number))

    def name_graph(self, row: int) -> tuple[str, int]:
        """Return the stream and the number of the graph at a rank."""
        rank = self.graphs.find_rank(row)
        return self.graphs.stream_of(rank), int(self.graphs.events.numbers[rank])

    @cached_property
    def _drawn(self) -> DrawnLinked:
        return describe_linked(self.graphs.linked)

    @cached_property
    def _replay(self) -> LinkedReplay:
        return LinkedReplay(self._drawn, self.graphs)

    # ------------------------------------------------------------------- step

    def step(self, graph: GraphName, *, limit: int = LINKED_LIMIT) -> TraceStep:
        """Return what a graph did, and which partial matches wait after its timestamp.

        Cost: a replay of the timestamps before it that the window holds, at most `limit`.
        """
        graphs = self.graphs
        rank = graphs.find_rank(graph)
        moment = int(graphs.moments[rank])
        times = graphs.events.times[graphs.firsts]
        first = int(np.searchsorted(times, graphs.bounds[moment]))
        least = max(0, moment + 1 - max(1, limit))
        replayed = self._replay.replay(max(first, least), rank)
        event, rows = graphs.read_event(rank), np.arange(graphs.size)
        step = write_step(rank, event, replayed, self._drawn.view, rows)
        return step._replace(completed=graphs.ends.get(rank, 0), whole=first >= least)

    # -------------------------------------------------------------- automaton

    @property
    def counted(self) -> int:
        """The number of graphs over which `automaton` counts, unless a limit is given."""
        return min(self.graphs.size, LINKED_EDGES)

    def automaton(self, *, limit: int | None = None) -> AutomatonView:
        """Return the automaton with how many graphs took each edge.

        Counted over the timestamps of the first `limit` graphs (1,500). A graph counts if some
        partial match inside the window took the edge with it, or began with it.
        """
        size = self.counted if limit is None else min(self.graphs.size, max(0, limit))
        last = int(self.graphs.moments[size - 1]) if size else -1
        return self._drawn.view.with_counts(self._replay.count_edges(last))

    # -------------------------------------------------------------------- why

    def why(self, graphs: Iterable[GraphName]) -> Finding:
        """Return whether exactly these graphs are a match, and if not, what is in their way.

        Cost: the ways to fit the graphs into the sequence with few conditions broken; too many are
        an answer, too.
        """
        return explain_graphs(self.graphs, graphs)
