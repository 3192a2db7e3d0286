"""Solve graph patterns in the events of a batch.

A `Matcher` plans one pattern (`cernis.rdf.solving.plan`) and runs the plan on batches, in kernels,
with no Python per event. A `PatternSolver` has the matchers of a query.

Cost: see `cernis.engine.graphs.search`. Per batch some tens of microseconds for each operator.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from cernis.engine.graphs import search as k
from cernis.languages.spaseq.graphs import graph as g
from cernis.plan.linked import LinkedPlan
from cernis.rdf.reading.background import Triples
from cernis.rdf.reading.events import GraphEvents
from cernis.rdf.solving.operators import PlanInput, run_plan
from cernis.rdf.solving.plan import BUDGET, plan_pattern
from cernis.rdf.solving.solutions import BATCH_BUDGET, Names, Solutions, project
from cernis.rdf.solving.terms.values import TermValues

_UNLIMITED = np.iinfo(np.int64).max


class Matcher:
    """A planned graph pattern, to be solved in any number of batches.

    `keep` has the variables of the solutions, in this order; without it, all but blank nodes.
    """

    def __init__(
        self,
        pattern: g.GraphPattern,
        values: TermValues,
        background: Mapping[int, Triples] | None = None,
        keep: Sequence[str] | None = None,
        *,
        budget: int = BUDGET,
        source: str = "",
    ) -> None:
        if keep is None:
            keep = [name for name in g.find_variables(pattern) if not name.startswith("_:")]
        self.names: Names = tuple(keep)
        self._values = values
        self._plan = plan_pattern(pattern, keep, values, background or {}, budget, source)

    def solve(self, events: GraphEvents, streams: Collection[int] | None = None) -> Solutions:
        """Return the solutions in the events of these streams, or of all; distinct per event."""
        if streams is None:
            wanted = np.arange(events.size, dtype=np.int32)
        else:
            here = np.isin(events.streams, np.fromiter(streams, np.int32))
            wanted = np.flatnonzero(here).astype(np.int32)
        # the memory layout that kernels are compiled for
        p, s, o = (np.require(c, np.int32, ["C", "W"]) for c in (events.p, events.s, events.o))
        graph = k.Graph(events.first, p, s, o, len(s))
        data = PlanInput(graph, self._values, BATCH_BUDGET, _UNLIMITED)
        return project(run_plan(self._plan, data, wanted), self.names)


class PatternSolver:
    """Solve the graph patterns of a query, each event on its own."""

    def __init__(
        self, plan: LinkedPlan, values: TermValues, background: Mapping[int, Triples]
    ) -> None:
        query = plan.query
        index = {name: i for i, (name, _) in enumerate(query.streams)}
        self.background = background
        patterns = plan.patterns
        gpms = [gpm for gpm in query.gpms if gpm.name in patterns]
        self._streams = {gpm.name: [index[name] for name in gpm.streams] for gpm in gpms}
        self._matchers = {
            gpm.name: Matcher(
                g.split_filters(gpm.pattern)[0],
                values,
                background,
                patterns[gpm.name],
                source=query.source,
            )
            for gpm in gpms
        }

    def solve(self, events: GraphEvents) -> dict[str, Solutions]:
        """Return the solutions of each pattern in some events, whatever their order."""
        return {
            name: matcher.solve(events, self._streams[name])
            for name, matcher in self._matchers.items()
        }
