"""Where the time of a SPAseQ query goes: parsing, matching graphs, the automaton, output.

The window enters a run in one place only, the bound of each row. So streams are parsed and their
graph patterns solved once (`solve`), and the automaton reads the same rows again for each window
(`replay`), on a fresh engine.
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

from cernis.bench.clock import Name, race
from cernis.bench.spaseq.queries import GraphWorkload
from cernis.engine.correlated.enumerate import Snapshot
from cernis.engine.linked.runtime import LinkedEngine
from cernis.engine.linked.step import LinkedRows
from cernis.engine.linked.tables import LinkedTables
from cernis.rdf.query import GraphQuery
from cernis.rdf.session import GraphSession
from cernis.rdf.solving.rows import TimeWindow
from cernis.results.correlated import CorrelatedMatches

KNOWN = 10_000
"""Triples of background, where their number is not the question."""
SLOW = 0.3
"""Seconds to tell matches beyond which they are not told again."""
_ROWS = ("rows",)


class TimedEngine(LinkedEngine):
    """The same engine with a stopwatch; it remembers what it was given."""

    def __init__(self, tables: LinkedTables, columns: int) -> None:
        super().__init__(tables, columns)
        self.seconds = 0.0
        self.given: list[LinkedRows] = []

    def push(self, rows: LinkedRows, *beside: Any) -> list[Snapshot]:
        begin = time.perf_counter()
        found = super().push(rows, *beside)
        self.seconds += time.perf_counter() - begin
        self.given.append(rows)
        return found


class SolvedStreams(NamedTuple):
    """A query that has read its streams, stage by stage, and what its automaton was given."""

    query: GraphQuery
    session: GraphSession
    rows: list[LinkedRows]
    times: NDArray[np.int64]
    """Of all events."""
    loading: float
    """Seconds for the background, as all that follow."""
    parsing: float
    matching: float
    automaton: float
    output: float
    matches: int
    """How many were written."""

    def after(self, skipped: int) -> int:
        """The time that is so many nanoseconds after the first event."""
        return int(self.times[0]) + skipped

    def count(self, since: int) -> int:
        """The events from a time on."""
        return int(np.count_nonzero(self.times >= since))


def solve_query(
    text: str,
    streams: Mapping[str, bytes],
    background: Mapping[str, bytes] | None = None,
    *,
    written: bool = False,
) -> SolvedStreams:
    """Runs a query stage by stage; `written`: its matches as lines of JSON, else dropped."""
    query = GraphQuery(text)
    begin = time.perf_counter()
    session = query.session(background=background)
    loading = time.perf_counter() - begin
    engine = make_engine(session)
    session.engine = engine
    begin = time.perf_counter()
    batches = list(session.open(streams))
    parsing = time.perf_counter() - begin
    whole = output = 0.0
    matches = 0
    for batch in batches:
        begin = time.perf_counter()
        found = session.push(batch)
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
    """A query on a stream of so many events, up to the automaton."""
    text, known = workload.query(sequence, window), workload.make_background(triples)
    return solve_query(text, workload.streams(events), known, written=written)


def pick_best(runs: Sequence[SolvedStreams]) -> SolvedStreams:
    """The last of several runs, with the best time of each stage."""
    stages = ("loading", "parsing", "matching", "automaton", "output")
    return runs[-1]._replace(**{name: min(getattr(run, name) for run in runs) for name in stages})


def solve_in_turns(
    cases: Mapping[Name, Callable[[], SolvedStreams]], rounds: int
) -> dict[Name, SolvedStreams]:
    """The best of each case over so many rounds."""
    turns: dict[Name, list[SolvedStreams]] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, case in cases.items():
            turns[name] = [pick_best([*turns[name], case()])]
    return {name: runs[0] for name, runs in turns.items()}


def make_engine(session: GraphSession) -> TimedEngine:
    """An engine like that of a session, which has read nothing."""
    return TimedEngine(session.engine.tables, len(session.linked.columns))


class ReplayCost(NamedTuple):
    """What the automaton did with the events of a stretch."""

    automaton: float
    """Seconds."""
    telling: float
    """Seconds to count or list the matches of those events that are asked for them."""
    matches: int
    told: int
    """How many events these are."""
    groups: int
    """How many wait in the end: runs that have bound the same values are one."""


def replay(
    solved: SolvedStreams,
    window: int,
    skipped: int = 0,
    *,
    told: int | None = None,
    listed: bool = False,
) -> ReplayCost:
    """The automaton on rows that are there already, in another window.

    What happens in the first `skipped` nanoseconds, while the window fills up, does not count.
    Only the last `told` events (None: all that count) are asked for their matches.
    """
    session = solved.session
    engine = make_engine(session)
    values, sizes = session.values.update(), TimeWindow(window)
    since = solved.after(skipped)
    ends = np.append(solved.times, solved.times[-1] + 1)
    asked = since if told is None else max(since, int(ends[-1 - told]))
    rows = (one._replace(bound=sizes.bounds(one.clock)) for one in solved.rows)
    before, between, after = zip(*(_split_rows(one, since, asked) for one in rows), strict=True)
    for one in before:
        engine.push(one, values, session.stack)
    engine.seconds, telling, matches = 0.0, 0.0, 0
    for one in between:
        engine.push(one, values, session.stack)
    for one in after:
        found = make_matches(session, engine.push(one, values, session.stack))
        begin = time.perf_counter()
        matches += sum(len(b.start) for b in found.blocks()) if listed else found.count()
        telling += time.perf_counter() - begin
    engine.earliest()  # lets go of what has left the window
    return ReplayCost(engine.seconds, telling, matches, solved.count(asked), engine.entries)


def race_replays(
    ready: Mapping[Name, tuple[SolvedStreams, int]], skipped: int, rounds: int, told: int = 0
) -> dict[Name, ReplayCost]:
    """The best of each, over rounds in which all take turns.

    The last `told` events are asked how many matches they have; where that is slow, only once.
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
    """Nanoseconds."""
    return 1e9 * seconds / events


def make_matches(session: GraphSession, snapshots: list[Snapshot]) -> CorrelatedMatches:
    """What an engine has found, as rows."""
    labels = [frozenset(_ROWS)] * len(session.linked.alternatives)
    return CorrelatedMatches(_ROWS, snapshots, labels)


def _split_rows(rows: LinkedRows, *times: int) -> list[LinkedRows]:
    """The rows before, between and after some times."""
    columns: tuple[Any, ...] = rows
    places = [0, *np.searchsorted(rows.clock, times).tolist(), len(rows.clock)]
    return [LinkedRows(*(column[a:b] for column in columns)) for a, b in pairwise(places)]
