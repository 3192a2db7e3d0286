"""`Trace`: look into the run of a query, row by row.

Cost contract: `step` replays the events of the row's partition inside the window that ends at it,
at most a limit of them; `automaton` the first events of the stream, up to a limit. Both are Python
per event: they serve people who look, not runs. `why` reads the events around its rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from cernis.errors import DataError
from cernis.pattern.query import Consume, Pattern
from cernis.pattern.variables import starred_variables
from cernis.plan.explain import describe_automaton
from cernis.plan.plan import Plan
from cernis.results.finding import Finding
from cernis.results.matches import Matches
from cernis.results.trace_steps import Replayed, TraceStep, write_step
from cernis.run.trace.correlated import CorrelatedReplay
from cernis.run.trace.events import Int64s, TracedEvents
from cernis.run.trace.unary import UnaryReplay
from cernis.run.trace.why import explain_rows
from cernis.views.automaton import AutomatonView
from cernis.views.describe_automaton import DrawnCea, DrawnPcea

UNARY_LIMIT, CORRELATED_LIMIT = 20_000, 600
"""The most events that a step replays."""
UNARY_EDGES, CORRELATED_EDGES = 100_000, 1_500
"""The most events over which edges are counted."""


class Trace:
    """The run of a query: what waits at each row, and why rows are no match."""

    def __init__(self, plan: Plan, pattern: Pattern, matches: Matches) -> None:
        self.plan = plan
        self.pattern = pattern
        self.matches = matches
        self.events = TracedEvents(matches.store, pattern)

    @cached_property
    def _drawn(self) -> DrawnCea | DrawnPcea | None:
        return describe_automaton(self.plan)

    @cached_property
    def _replay(self) -> UnaryReplay | CorrelatedReplay | None:
        drawn, plan = self._drawn, self.plan
        if isinstance(drawn, DrawnPcea):
            return CorrelatedReplay(drawn, plan.calculated, self.events)
        if drawn is None or plan.unary is None:
            return None
        return UnaryReplay(plan.unary, drawn, self.events)

    @cached_property
    def _ends(self) -> tuple[Int64s, list[int]]:
        """The indices at which matches end, and how many end there."""
        ends, counts = self.matches.match_set.counts()
        order = np.argsort(ends, kind="stable")
        return ends[order] - self.events.base, [counts[i] for i in order.tolist()]

    # ------------------------------------------------------------------- step

    def step(self, row: int, *, limit: int | None = None) -> TraceStep:
        """Return what the event of a row did, and which partial matches wait after it.

        Cost: a replay of the events before it in its partition that the window holds, at most
        `limit` (20,000; 600 where events are compared with each other).
        """
        index = self._find_index(row)
        members = self.events.list_members(index)
        replayed, whole = Replayed({}, {}, 0), True
        if len(members) and self._replay is not None:
            rank = int(np.searchsorted(members, index))
            first = self._find_first(members, rank)
            most = UNARY_LIMIT if isinstance(self._replay, UnaryReplay) else CORRELATED_LIMIT
            least = max(0, rank + 1 - (most if limit is None else max(1, limit)))
            whole = first >= least
            replayed = self._replay.replay(members, max(first, least), rank)
        completed = self._count_ends(index)
        if completed and self.pattern.consume is not Consume.NONE:
            replayed = replayed._replace(alive={})
        event, shown = self.events.read_event(index), starred_variables(self.pattern.formula)
        view = None if self._drawn is None else self._drawn.view
        step = write_step(row, event, replayed, view, self.events.rows, frozenset(shown))
        return step._replace(completed=completed, whole=whole, exact=self._is_exact)

    @property
    def _is_exact(self) -> bool:
        """Whether the partial matches of the automaton that is shown are those of the query.

        Not where conditions are decided while matches are listed.
        """
        found, tables = self.plan.correlated, self.plan.tables
        is_whole = found is None or (found.unique and found.drawn is None)
        return self.plan.exact and is_whole and (tables is None or not tables.apart)

    def _find_index(self, row: int) -> int:
        index = self.events.find_index(row)
        if index is None:
            raise DataError(f"no event of this run is row {row}")
        return index

    def _find_first(self, members: Int64s, rank: int) -> int:
        """Return the first rank at which a match that is alive at a rank can begin."""
        within = self.plan.pattern.within
        first = int(self.events.list_firsts(within, members, np.array([rank]))[0])
        consume = self.pattern.consume
        if consume is Consume.NONE:
            return first
        ends = self._ends[0]
        if consume is Consume.PARTITION:
            ends = ends[self.events.keys[ends] == self.events.keys[members[rank]]]
        before = ends[: np.searchsorted(ends, members[rank])]
        if not len(before):
            return first
        return max(first, int(np.searchsorted(members, before[-1], side="right")))

    def _count_ends(self, index: int) -> int:
        ends, counts = self._ends
        at = int(np.searchsorted(ends, index))
        return counts[at] if at < len(ends) and ends[at] == index else 0

    # -------------------------------------------------------------- automaton

    @property
    def counted(self) -> int:
        """The number of events over which `automaton` counts, unless a limit is given."""
        most = UNARY_EDGES if isinstance(self._replay, UnaryReplay) else CORRELATED_EDGES
        return min(self.events.size, most)

    def automaton(self, *, limit: int | None = None) -> AutomatonView | None:
        """Return the automaton with how many events took each edge; None if there is no automaton.

        Counted over the first `limit` events of the stream (100,000; 1,500 where events are
        compared with each other). An event counts if some partial match inside the window took
        the edge, or began with it.
        """
        replay, drawn = self._replay, self._drawn
        if replay is None or drawn is None:
            return None
        size = self.counted if limit is None else min(self.events.size, max(0, limit))
        counts: dict[int, int] = {}
        keys = self.events.keys[:size]
        if isinstance(replay, UnaryReplay):
            firsts = np.zeros(size, np.int64)
            for members in _split_partitions(keys):
                firsts[members] = members[self._list_firsts(members)]
            counts = replay.count_edges(firsts.tolist(), keys.tolist())
        else:
            for members in _split_partitions(keys):
                found = replay.count_edges(members, self._list_firsts(members).tolist())
                for edge, number in found.items():
                    counts[edge] = counts.get(edge, 0) + number
        return drawn.view.with_counts(counts)

    def _list_firsts(self, members: Int64s) -> Int64s:
        """Return for each rank of a partition the first one inside its window."""
        return self.events.list_firsts(self.plan.pattern.within, members, np.arange(len(members)))

    # -------------------------------------------------------------------- why

    def why(self, rows: Iterable[int]) -> Finding:
        """Return whether exactly these rows are a match, and if not, what is in their way.

        The rows are those of all variables, also of those that SELECT leaves out. Cost: the ways to
        fit the rows into the formula with few conditions broken; too many are an answer, too.
        """
        return explain_rows(self.pattern, self.events, self.matches, rows)


def _split_partitions(keys: Int64s) -> list[Int64s]:
    """Return the indices of each partition."""
    order = np.argsort(keys, kind="stable")
    order = order[keys[order] >= 0]
    cuts = np.flatnonzero(np.diff(keys[order])) + 1
    return [part for part in np.split(order, cuts) if len(part)]
