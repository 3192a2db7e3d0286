"""Fit graphs into a sequence, and find what is in the way of their being a match.

The search is the definition of a match (docs/explanation/semantics.md) over the given graphs alone:
the graphs of a timestamp are a step, a later timestamp is a later step or one more round. A
condition that does not hold is an *obstacle* that the fit carries along. Fits are extended in order
of the weight of their obstacles, so the first complete one breaks the fewest conditions.

Cost contract: at most `MOST_GRAPHS` graphs and `MOST_FITS` fits; beyond these the finding says so.
Between the graphs, `;` and `!` look at the rows of a step in one pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

import numpy as np

from cernis.errors import DataError
from cernis.languages.spaseq.graphs import graph as g
from cernis.rdf.reading.events import Int64s
from cernis.rdf.reading.terms import Codes
from cernis.rdf.trace.graphs import GraphName, TracedGraphs, unite
from cernis.rdf.trace.reasons import GraphReasons, list_differences
from cernis.results.finding import Finding, Obstacle, write_finding

MOST_GRAPHS = 64
MOST_FITS = 4_000
"""The most fits that are extended."""
_MOST_SOLUTIONS = 64
"""So many solutions of a step at one timestamp are tried."""


class _Fit(NamedTuple):
    """A way to fit the first timestamps of the given graphs into the first steps."""

    step: int
    taken: int
    """How many of the given timestamps."""
    codes: Codes
    """The value of each column so far; -1: unbound."""
    sources: Codes
    """The rank of the graph that each value is from."""
    marks: tuple[tuple[int, str], ...] = ()
    """The rank of each fitted graph, with the names of its patterns."""
    part: int = -1
    obstacles: tuple[Obstacle, ...] = ()

    @property
    def weight(self) -> int:
        return sum(obstacle.weight for obstacle in self.obstacles)

    @property
    def order(self) -> tuple[int, int, int]:
        """Lighter ones first, then those that go on longer without an obstacle."""
        first = min((obstacle.rank for obstacle in self.obstacles), default=0)
        return self.weight, -first, -self.taken


class _LaterStep(NamedTuple):
    """A step that may come next; `missing` ones must have come before it."""

    step: int
    link: str
    guards: tuple[int, ...] = ()
    missing: tuple[int, ...] = ()


def explain_graphs(graphs: TracedGraphs, asked: Iterable[GraphName]) -> Finding:
    """Return whether exactly these graphs are a match, and if not, why."""
    ranks = sorted({graphs.find_rank(one) for one in asked})
    if not ranks:
        raise DataError("no graphs are given: name those that should have matched")
    if len(ranks) > MOST_GRAPHS:
        raise DataError(f"{len(ranks)} graphs are given; at most {MOST_GRAPHS} can be explained")
    return _FittingGraphs(graphs, ranks).explain()


class _FittingGraphs:
    """The search for a way to fit the graphs at some ranks of one run."""

    def __init__(self, graphs: TracedGraphs, ranks: list[int]) -> None:
        self.graphs, self.ranks = graphs, ranks
        self.linked, self.steps = graphs.linked, graphs.plan.query.steps
        self.say = GraphReasons(graphs)
        moments = graphs.moments[ranks]
        cuts = np.flatnonzero(np.diff(moments)) + 1
        self.moments = [int(part[0]) for part in np.split(moments, cuts)]
        self.given = [part.tolist() for part in np.split(np.array(ranks), cuts)]

    def explain(self) -> Finding:
        width, order = len(self.linked.columns), count()
        nothing = np.full(width, -1, np.int32)
        begin = _Fit(-1, 0, nothing, nothing)
        heap = [(begin.order, next(order), begin)]
        for _ in range(MOST_FITS):
            _, _, fit = heappop(heap)
            if fit.taken > len(self.moments):
                return self._write(fit)
            for more in self._extend(fit):
                heappush(heap, (more.order, next(order), more))
        words = "these graphs fit the sequence in too many ways to say more; name fewer of them"
        return Finding(False, (), None, words)

    def _write(self, fit: _Fit) -> Finding:
        names: dict[int, list[str]] = {}
        for rank, name in fit.marks:
            names.setdefault(rank, []).append(name)
        rows = {rank: rank for rank in self.ranks}
        return write_finding(rows, names, fit.obstacles, "these graphs are a match")

    # ------------------------------------------------------------------ steps

    def _extend(self, fit: _Fit) -> Iterator[_Fit]:
        """Yield a fit with the next timestamp, in all ways; complete, when there is none."""
        if fit.taken == len(self.moments):
            yield self._complete(fit)
            return
        given = self.given[fit.taken]
        extra = tuple(self.say.extra(rank) for rank in given)
        yield fit._replace(taken=fit.taken + 1, obstacles=fit.obstacles + extra)
        for following in self._follow(fit.step):
            missing = tuple(self.say.missing(self.steps[k], given[0]) for k in following.missing)
            begun = fit._replace(obstacles=fit.obstacles + missing)
            for number, one in enumerate(self.linked.alternatives):
                if one.step == following.step:
                    yield from self._fit_step(begun, following, number)

    def _follow(self, step: int) -> Iterator[_LaterStep]:
        """Yield the steps that a later timestamp can be; all that come later, some not in turn."""
        if step >= 0 and (link := self.steps[step].rounds):
            yield _LaterStep(step, link)
        guards: list[int] = []
        missing: list[int] = []
        for k in range(step + 1, len(self.steps)):
            one = self.steps[k]
            if one.negated:
                guards.append(k)
                continue
            yield _LaterStep(k, one.link or "", tuple(guards), tuple(missing))
            if not one.optional:
                missing.append(k)

    def _complete(self, fit: _Fit) -> _Fit:
        """Return a fit with the obstacles that its end has: missing steps, the window."""
        last = self.ranks[-1]
        found = [
            self.say.missing(one, last)
            for one in self.steps[fit.step + 1 :]
            if not one.optional and not one.negated
        ]
        used = [rank for rank, _ in fit.marks]
        window = self.say.window(min(used), max(used)) if used else None
        obstacles = (*fit.obstacles, *found, *([] if window is None else [window]))
        return fit._replace(taken=len(self.moments) + 1, obstacles=obstacles)

    # ------------------------------------------------------------------- rows

    def _fit_step(self, fit: _Fit, following: _LaterStep, alternative: int) -> Iterator[_Fit]:
        """Yield a fit whose next timestamp is an alternative of a step."""
        given = self.given[fit.taken]
        gpms = self.linked.alternatives[alternative].gpms
        step, taken = following.step, fit.taken + 1
        rows = self._find_rows(alternative, self.moments[fit.taken], set(given))
        for row in rows[:_MOST_SOLUTIONS]:
            ranks = self.graphs.rows.event[row][: len(gpms)].tolist()
            extra = tuple(self.say.extra(rank) for rank in given if rank not in ranks)
            obstacles = (*fit.obstacles, *self._compare(fit, following, row, max(ranks)), *extra)
            own = self.graphs.rows.codes[row]
            yield _Fit(
                step,
                taken,
                unite(self._forget(fit, step), own),
                np.where(own >= 0, max(ranks), fit.sources),
                (*fit.marks, *zip(ranks, gpms, strict=True)),
                int(self.graphs.rows.part[row]),
                obstacles,
            )
        if not rows:
            found = self._blame(gpms, given)
            marks = tuple((rank, " & ".join(gpms)) for rank in given)
            yield fit._replace(
                step=step,
                taken=taken,
                marks=(*fit.marks, *marks),
                obstacles=(*fit.obstacles, *found),
            )

    def _find_rows(self, alternative: int, moment: int, given: set[int]) -> list[int]:
        """Return the rows of an alternative at a timestamp that use given graphs only."""
        here = self.graphs.list_rows(moment, moment)
        rows = self.graphs.rows
        readings = len(self.linked.readings)
        return [
            row
            for row in range(here.start, here.stop)
            if rows.alternative[row] == alternative
            and rows.reading[row] < readings
            and {rank for rank in rows.event[row].tolist() if rank >= 0} <= given
        ]

    def _blame(self, gpms: tuple[str, ...], given: list[int]) -> list[Obstacle]:
        """Return why graphs of one timestamp are not the patterns of an alternative."""
        if len(gpms) == 1:
            first, *others = given
            return [self.say.unsolved(gpms[0], first), *map(self.say.extra, others)]
        for gpm in gpms:
            found = [self.say.unsolved(gpm, rank) for rank in given if not self._is(gpm, rank)]
            if len(found) == len(given):
                return found if len(given) == 1 else [self.say.alone(gpm, gpms, given)]
        return [self.say.apart(gpms, given)]

    def _is(self, gpm: str, rank: int) -> bool:
        """Whether a pattern has a solution in a graph."""
        one = self.graphs.plan.query.gpm(gpm)
        if self.graphs.stream_of(rank) not in one.streams:
            return False
        return bool(len(self.graphs.solve(g.split_filters(one.pattern)[0], rank)[1]))

    def _forget(self, fit: _Fit, step: int) -> Codes:
        """Return the bindings that a step sees: one more round binds its own variables afresh."""
        if fit.step != step:
            return fit.codes
        own = [name in self.linked.local[step] for name in self.linked.columns]
        return np.where(own, np.int32(-1), fit.codes)

    # ------------------------------------------------------------- conditions

    def _compare(self, fit: _Fit, following: _LaterStep, row: int, rank: int) -> list[Obstacle]:
        """Return what keeps a row from following a fit."""
        own, known = self.graphs.rows.codes[row], self._forget(fit, following.step)
        found = [
            self.say.differs(c, (int(known[c]), int(own[c])), (int(fit.sources[c]), rank))
            for c in list_differences(known, own)
        ]
        united = unite(known, own)
        sources = np.where(own >= 0, rank, fit.sources)
        late = self.linked.alternatives[int(self.graphs.rows.alternative[row])].late
        for condition in late:
            if self._is_decided(fit, condition, united) and not self._holds(condition, united):
                found.append(self.say.condition(condition, united, sources, rank))
        if fit.marks and not found:  # one reason is enough
            found += self._check_link(fit, following, known, rank)
        return found

    def _holds(self, condition: g.Expression, codes: Codes) -> bool:
        return bool(self.graphs.check((condition,), codes[None])[0])

    def _is_decided(self, fit: _Fit, condition: g.Expression, codes: Codes) -> bool:
        """Whether a condition has its values; a step that is none is obstacle enough."""
        if not any(obstacle.kind in ("type", "missing") for obstacle in fit.obstacles):
            return True
        columns = self.linked.columns
        names = {variable.name for variable in g.find_mentions(condition)}
        return all(codes[columns.index(name)] >= 0 for name in names if name in columns)

    def _check_link(
        self, fit: _Fit, following: _LaterStep, known: Codes, rank: int
    ) -> Iterator[Obstacle]:
        """Yield what stands between a fit and a graph and must not."""
        before = fit.marks[-1][0]
        first, last = int(self.graphs.moments[before]) + 1, int(self.graphs.moments[rank]) - 1
        if first > last:
            return
        if following.link == "," and len(ranks := self._list_between(first, last, fit.part)):
            yield self.say.between(before, rank, ranks.tolist())
        if following.link == ";":
            rows = self.graphs.find_fitting(following.step, known, first, last)
            if len(rows):
                yield self.say.next(self._first_graph(rows), rank)
        for guard in following.guards:
            rows = self.graphs.find_fitting(guard, fit.codes, first, last)
            if len(rows):
                yield self.say.excluded(self.steps[guard], self._first_graph(rows), rank)

    def _first_graph(self, rows: Int64s) -> int:
        return int(self.graphs.rows.event[rows[0]].max())

    def _list_between(self, first: int, last: int, part: int) -> Int64s:
        """Return the graphs of some moments; with PARTITION BY, those of a partition."""
        if not self.graphs.plan.query.partition:
            low, high = np.searchsorted(self.graphs.moments, [first, last + 1]).tolist()
            return np.arange(low, high)
        here = self.graphs.list_rows(first, last)
        own = self.graphs.rows.part[here] == part
        return np.unique(self.graphs.rows.event[here][own].max(axis=1))
