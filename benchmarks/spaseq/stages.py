"""Run a SPAseQ query stage by stage: parsing, graph patterns, automaton, output.

Of all stages only the automaton depends on the window, by the bound of each row. So streams are
parsed and graph patterns solved once (`solve_query`), and for each window a new engine reads the
same rows (`replay`).
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.clock import Name, race
from benchmarks.spaseq.queries import GraphWorkload
from cernis.engine.dag.links import DagSegment
from cernis.engine.linked.runtime import LinkedEngine
from cernis.engine.linked.step import LinkedRows
from cernis.engine.linked.tables import LinkedTables
from cernis.rdf.query import GraphQuery
from cernis.rdf.session import GraphSession
from cernis.rdf.solving.rows import TimeWindow
from cernis.rdf.source import GraphSource

KNOWN = 10_000
"""The triples of background, unless a benchmark varies them."""
SLOW = 0.3
"""Counting matches is not repeated if it takes more seconds."""
_ROWS = ("rows",)


class TimedEngine(LinkedEngine):
    """An engine that measures its seconds and keeps the rows that it reads."""

    def __init__(self, tables: LinkedTables, columns: int) -> None:
        super().__init__(tables, columns)
        self.seconds = 0.0
        self.given: list[LinkedRows] = []

    def push(self, rows: LinkedRows, *beside: Any) -> list[DagSegment]:
        begin = time.perf_counter()
        found = super().push(rows, *beside)
        self.seconds += time.perf_counter() - begin
        self.given.append(rows)
        return found


class SolvedStreams(NamedTuple):
    """A query that has read its streams, the seconds of each stage, and the rows."""

    query: GraphQuery
    session: GraphSession
    rows: list[LinkedRows]
    times: NDArray[np.int64]
    """The times of all events."""
    loading: float
    """Seconds to load the background; the following are seconds as well."""
    parsing: float
    matching: float
    automaton: float
    output: float
    matches: int
    """The number of matches written."""

    def after(self, skipped: int) -> int:
        """Return the time that is so many nanoseconds after the first event."""
        return int(self.times[0]) + skipped

    def count(self, since: int) -> int:
        """Return the number of events from a time on."""
        return int(np.count_nonzero(self.times >= since))


def solve_query(
    text: str,
    streams: Mapping[str, bytes],
    background: Mapping[str, bytes] | None = None,
    *,
    written: bool = False,
) -> SolvedStreams:
    """Run a query stage by stage; with `written`, write its matches as lines of JSON."""
    query = GraphQuery(text)
    begin = time.perf_counter()
    session = query.session(background=background)
    loading = time.perf_counter() - begin
    engine = make_engine(session)
    session.feed.engine = engine
    source = session.source
    assert isinstance(source, GraphSource)
    begin = time.perf_counter()
    batches = list(source.open_streams(streams))
    parsing = time.perf_counter() - begin
    whole = output = 0.0
    matches = 0
    for batch in batches:
        begin = time.perf_counter()
        found = session.take(source.solve(batch))
        whole += time.perf_counter() - begin
        if written:
            begin = time.perf_counter()
            matches += found.write_jsonl(io.BytesIO())
            output += time.perf_counter() - begin
    return SolvedStreams(
        query,
        session,
        engine.given,
        np.concatenate([batch.times for batch in batches]),
        loading,
        parsing,
        whole - engine.seconds,
        engine.seconds,
        output,
        matches,
    )


def solve_workload(
    workload: GraphWorkload,
    sequence: str,
    window: int,
    events: int,
    triples: int = KNOWN,
    *,
    written: bool = False,
) -> SolvedStreams:
    """Run a workload on a stream of so many events, stage by stage."""
    text, known = workload.query(sequence, window), workload.make_background(triples)
    return solve_query(text, workload.streams(events), known, written=written)


def pick_best(runs: Sequence[SolvedStreams]) -> SolvedStreams:
    """Return the last of several runs, with the best time of each stage."""
    stages = ("loading", "parsing", "matching", "automaton", "output")
    return runs[-1]._replace(**{name: min(getattr(run, name) for run in runs) for name in stages})


def solve_in_turns(
    cases: Mapping[Name, Callable[[], SolvedStreams]], rounds: int
) -> dict[Name, SolvedStreams]:
    """Return the best of each case over so many rounds."""
    turns: dict[Name, list[SolvedStreams]] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, case in cases.items():
            turns[name] = [pick_best([*turns[name], case()])]
    return {name: runs[0] for name, runs in turns.items()}


def make_engine(session: GraphSession) -> TimedEngine:
    """Return a new engine for the query of a session."""
    return TimedEngine(session.engine.tables, len(session.plan.linked.columns))


class ReplayCost(NamedTuple):
    """The cost of the automaton for some events."""

    automaton: float
    """Seconds."""
    telling: float
    """Seconds to count or list the matches of the last events."""
    matches: int
    told: int
    """The number of these events."""
    groups: int
    """The groups at the end; runs with the same values are one group."""


def replay(
    solved: SolvedStreams,
    window: int,
    skipped: int = 0,
    *,
    told: int | None = None,
    listed: bool = False,
) -> ReplayCost:
    """Run the automaton on the same rows in another window.

    The first `skipped` nanoseconds, while the window fills up, do not count. Matches are counted,
    or with `listed` listed, for the last `told` events only, or for all that count.
    """
    session = solved.session
    engine = make_engine(session)
    values, sizes = session.feed.values.update(), TimeWindow(window)
    since = solved.after(skipped)
    ends = np.append(solved.times, solved.times[-1] + 1)
    asked = since if told is None else max(since, int(ends[-1 - told]))
    rows = (one._replace(bound=sizes.bounds(one.clock)) for one in solved.rows)
    before, between, after = zip(*(_split_rows(one, since, asked) for one in rows), strict=True)
    for one in before:
        engine.push(one, values, session.feed.stack)
    engine.seconds, telling, matches = 0.0, 0.0, 0
    for one in between:
        engine.push(one, values, session.feed.stack)
    counted: list[DagSegment] = []
    for one in after:
        segments = engine.push(one, values, session.feed.stack)
        if not listed:
            counted += segments
            continue
        begin = time.perf_counter()
        matches += sum(len(b.start) for b in session.feed.find(segments).blocks())
        telling += time.perf_counter() - begin
    if not listed:
        begin = time.perf_counter()
        matches = session.feed.find(counted).count()
        telling = time.perf_counter() - begin
    engine.earliest()  # collects expired runs
    return ReplayCost(engine.seconds, telling, matches, solved.count(asked), engine.entries)


def race_replays(
    ready: Mapping[Name, tuple[SolvedStreams, int]],
    skipped: int,
    rounds: int,
    told: int | None = 0,
) -> dict[Name, ReplayCost]:
    """Return the best replay of each case, over rounds in which all take turns.

    The matches of the last `told` events, or of all, are counted, only once if that is slow.
    """
    told_by: dict[Name, ReplayCost] = {}

    def contestant(case: Name) -> float:
        before = told_by.get(case)
        silent = before is not None and before.telling > SLOW
        own = replay(*ready[case], skipped, told=0 if silent else told)
        if not silent:
            fastest = min(own.telling, own.telling if before is None else before.telling)
            told_by[case] = own._replace(telling=fastest)
        return own.automaton

    best = race({case: partial(contestant, case) for case in ready}, rounds)
    return {case: one._replace(automaton=best[case]) for case, one in told_by.items()}


def per_event(seconds: float, events: int) -> float:
    """Return nanoseconds per event."""
    return 1e9 * seconds / events


def _split_rows(rows: LinkedRows, *times: int) -> list[LinkedRows]:
    """Return the rows before, between and after some times."""
    columns: tuple[Any, ...] = rows
    places = [0, *np.searchsorted(rows.clock, times).tolist(), len(rows.clock)]
    return [LinkedRows(*(column[a:b] for column in columns)) for a, b in pairwise(places)]
