"""`TracedGraphs`: the graphs of a run again, with the rows of their solutions by timestamp.

A graph's *rank* is its index in the order of time over all streams of the query; a *moment* is
a timestamp, counted from 0.

Cost contract: one run of the query, with all graphs and all rows in memory. Looking at rows that
fit a partial match is one pass over the rows of a step in NumPy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.errors import DataError
from cernis.languages.spaseq.graphs import graph as g
from cernis.languages.spaseq.graphs.write import write_term
from cernis.rdf.matches import GraphMatches
from cernis.rdf.reading.events import GraphEvents, Int64s, join_events
from cernis.rdf.reading.terms import Codes
from cernis.rdf.session import GraphSession
from cernis.rdf.solving.columns import ProgramColumn, keep_rows, plan_program
from cernis.rdf.solving.rows import RowBuilder
from cernis.rdf.solving.solve import Matcher
from cernis.rdf.source import GraphSource

GraphName = int | tuple[str, int]
"""A graph: its rank, or its stream and its number in it, as `GraphMatch.events` has them."""


class TracedRows(NamedTuple):
    """The ways to match a step at a timestamp, in order of moments."""

    reading: Codes
    codes: Codes
    """A column for each variable of the automaton; -1: unbound."""
    moment: Int64s
    part: Codes
    alternative: Codes
    event: Int64s
    """The ranks of a row's graphs, one for each pattern of its alternative, then -1."""


class TracedGraphs:
    """The graphs of the streams of a query, and the matches in them."""

    def __init__(self, session: GraphSession, sources: Mapping[str, Any]) -> None:
        self.plan, self.linked = session.plan, session.plan.linked
        self.values, self.terms = session.feed.values, session.feed.terms
        assert isinstance(session.source, GraphSource)
        self._background = session.source.solver.background
        self.window = session.feed.builder.window
        builder = RowBuilder(session.plan, self.values, self.window)
        batches, tables, segments = [], [], []
        for batch in session.open(sources):
            segments += session.read(batch)
            rows, stored = builder.build(batch.events, batch.found)
            own = (rows.reading, rows.codes, rows.moment, rows.part)
            tables.append(TracedRows(*own, stored.alternative, stored.event))
            batches.append(batch.events)
        session.mistakes.complete()
        self.matches: GraphMatches = session.matches(segments)
        self.events: GraphEvents = join_events(batches)
        self.rows = self._join_rows(tables)
        self.streams = [name for name, _ in self.plan.query.streams]
        self._programs: dict[g.Expression, ProgramColumn] = {}

    def _join_rows(self, tables: list[TracedRows]) -> TracedRows:
        if not tables:
            none, codes = np.empty(0, np.int64), np.empty(0, np.int32)
            width = len(self.linked.columns)
            empty = np.empty((0, width), np.int32), none, codes, codes, np.empty((0, 1), np.int64)
            return TracedRows(codes, *empty)
        return TracedRows(*map(np.concatenate, zip(*tables, strict=True)))

    # ----------------------------------------------------------------- graphs

    @property
    def size(self) -> int:
        return self.events.size

    @cached_property
    def moments(self) -> Int64s:
        """The moment of each graph."""
        new = np.ones(self.size, np.int64)
        new[1:] = self.events.times[1:] != self.events.times[:-1]
        return np.cumsum(new) - 1

    @cached_property
    def firsts(self) -> Int64s:
        """The rank of the first graph of each moment."""
        return np.flatnonzero(np.diff(self.moments, prepend=-1))

    @cached_property
    def bounds(self) -> Int64s:
        """For each moment, the earliest time at which a match that ends there may begin."""
        return self.window.bounds(self.events.times[self.firsts])

    @cached_property
    def _ranks(self) -> dict[tuple[int, int], int]:
        pairs = zip(self.events.streams.tolist(), self.events.numbers.tolist(), strict=True)
        return {pair: rank for rank, pair in enumerate(pairs)}

    def find_rank(self, graph: GraphName) -> int:
        """Return the rank of a graph."""
        if isinstance(graph, int):
            if not 0 <= graph < self.size:
                raise DataError(f"no graph of this run is row {graph}")
            return graph
        stream, number = graph
        index = self.streams.index(stream) if stream in self.streams else -1
        rank = self._ranks.get((index, number))
        if rank is None:
            raise DataError(f"no graph of this run is {stream} {number}")
        return rank

    def name(self, rank: int) -> str:
        """Return a graph's stream and number."""
        return f"{self.stream_of(rank)} {int(self.events.numbers[rank])}"

    def stream_of(self, rank: int) -> str:
        return self.streams[int(self.events.streams[rank])]

    def read_event(self, rank: int) -> dict[str, Any]:
        """Return a graph: its stream, its number, its time, and its triples as text."""
        low, high = (int(self.events.first[rank + i]) for i in (0, 1))
        columns = (self.terms.texts(codes[low:high]).to_pylist() for codes in self._triples)
        clock = self.matches.clock.column(self.events.times[rank : rank + 1])
        return {
            "stream": self.stream_of(rank),
            "number": int(self.events.numbers[rank]),
            "time": clock[0].as_py(),
            "triples": [" ".join((*triple, ".")) for triple in zip(*columns, strict=True)],
        }

    @property
    def _triples(self) -> tuple[Codes, Codes, Codes]:
        return self.events.s, self.events.p, self.events.o

    def text(self, code: int) -> str:
        """Return a term as people write it."""
        return "unbound" if code < 0 else write_term(g.Term(self.terms.text(code)))

    def solve(self, pattern: g.GraphPattern, rank: int) -> tuple[tuple[str, ...], Codes]:
        """Return the solutions of any pattern in one graph: the variables, and their codes."""
        source = self.plan.query.source
        matcher = Matcher(pattern, self.values, self._background, source=source)
        return matcher.names, matcher.solve(self.events.part(rank, rank + 1)).codes

    # ------------------------------------------------------------------- rows

    def list_rows(self, first: int, last: int) -> slice:
        """Return the slice of the rows from the first moment to the last."""
        low, high = np.searchsorted(self.rows.moment, [first, last + 1]).tolist()
        return slice(low, high)

    def find_fitting(self, step: int, codes: Codes, first: int, last: int) -> Int64s:
        """Return the rows of a step, at moments from first to last, that fit some bindings."""
        here = self.list_rows(first, last)
        readings = [i for i, r in enumerate(self.linked.readings) if self.step_of(i) == step]
        found = here.start + np.flatnonzero(np.isin(self.rows.reading[here], readings))
        rows = self.rows.codes[found]
        mask = agree(codes, rows)
        united = unite(codes, rows)
        for alternative in np.unique(self.rows.alternative[found]).tolist():
            own = mask & (self.rows.alternative[found] == alternative)
            own[own] = self.check(self.linked.alternatives[alternative].late, united[own])
            mask &= own | (self.rows.alternative[found] != alternative)
        return np.asarray(found[mask], np.int64)

    def step_of(self, reading: int) -> int:
        """Return the step that a reading is of."""
        return self.linked.alternatives[self.linked.readings[reading].alternative].step

    def check(self, conditions: Iterable[g.Expression], codes: Codes) -> NDArray[np.bool_]:
        """Return for each row of bindings whether all conditions hold."""
        mask = np.ones(len(codes), np.bool_)
        for condition in conditions:
            if condition not in self._programs:
                values, source = self.values, self.plan.query.source
                self._programs[condition] = plan_program(
                    condition, tuple(self.linked.columns), values, source
                )
            operands = np.require(codes, np.int32, ["C", "W"])
            mask &= keep_rows(self._programs[condition], operands, self.values)
        return mask

    @cached_property
    def ends(self) -> dict[int, int]:
        """How many matches end with each graph."""
        counted = self.matches.count_last_events()
        if counted is not None:
            return {self._ranks[pair]: number for pair, number in counted.items()}
        totals: dict[int, int] = {}
        for match in self.matches:
            ranks = {self.find_rank(event) for event in match.events}
            last = max(self.moments[rank] for rank in ranks)
            for rank in ranks:
                if self.moments[rank] == last:
                    totals[rank] = totals.get(rank, 0) + 1
        return totals


def agree(codes: Codes, rows: Codes) -> NDArray[np.bool_]:
    """Return where bindings, one row or one for each, and rows have no different values."""
    same = (codes < 0) | (rows < 0) | (codes == rows)
    return np.asarray(same.all(axis=-1))


def unite(codes: Codes, rows: Codes) -> Codes:
    """Return bindings with the values of rows where these have some."""
    return np.where(rows >= 0, rows, codes)
