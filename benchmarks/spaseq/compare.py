"""Compare the engine with lists of runs, for `cernis bench spaseq`: by window, stream, and `&`.

The engine and the lists read the same solutions, list all matches, and must find as many.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from benchmarks.clock import Name, race
from benchmarks.correlation import fit_exponent
from benchmarks.record import EXPONENT, Case, Record
from benchmarks.scale import BenchmarkScale
from benchmarks.spaseq.queries import WORKLOADS
from benchmarks.spaseq.runs import RunList, collect_events, read_values
from benchmarks.spaseq.stages import (
    SolvedStreams,
    per_event,
    replay,
    solve_in_turns,
    solve_workload,
)
from benchmarks.spaseq.tables import LIST, LIST_BY_STREAM, NAME, OURS
from cernis.errors import CernisError

LISTED = (("market", ","), ("market", ";"), ("cards", ";"), ("smart grid", ";"))
WAYS = (OURS, LIST, LIST_BY_STREAM)


def measure_run_list(scale: BenchmarkScale, name: str, link: str) -> list[Record]:
    """Measure lists of runs on a small stream, window by window."""
    workload, windows = WORKLOADS[name], scale.spaseq_listed_windows
    events = windows[-1] + scale.spaseq_listed_events
    ready = solve_workload(workload, workload.sequences[link], windows[-1], events)
    ways = WAYS if len(workload.iris) > 1 else WAYS[:2]
    found = compare_with_lists(scale, {w: (ready, workload.window(w)) for w in windows}, ways)
    case: Case = {"query": name, "strategy": link}
    records = [r for w, one in found.items() for r in one.records({**case, "window": w})]
    growth = {way: {w: found[w].costs[way] for w in windows} for way in ways}
    growth["active runs"] = {w: float(found[w].runs) for w in windows}
    for measure, costs in growth.items():
        records.append(Record(NAME, f"{measure}, growth", fit_exponent(costs), EXPONENT, case))
    return records


def measure_conjunction(scale: BenchmarkScale) -> list[Record]:
    """Measure two roads that are congested at one time, or one after the other."""
    traffic, window = WORKLOADS["traffic"], scale.spaseq_listed_windows[-1]
    best = solve_in_turns(
        {
            sequence: partial(solve_workload, traffic, sequence, window, scale.spaseq_clause_events)
            for sequence in ("A; B; C", "A; (B & C)")
        },
        scale.rounds,
    )
    size = traffic.window(window)
    found = compare_with_lists(
        scale, {sequence: (one, size) for sequence, one in best.items()}, WAYS
    )
    records = []
    for sequence, one in best.items():
        case: Case = {"query": "traffic", "sequence": sequence}
        matching = per_event(one.matching, len(one.times))
        records.append(Record(NAME, "conjunction, matching", matching, "ns/event", case))
        records += found[sequence].records(case)
    return records


class ListComparison(NamedTuple):
    """The engine and lists of runs in one case."""

    costs: Mapping[str, float]
    """Nanoseconds per event, by way."""
    matches: int
    runs: int
    """The active runs at the end; at least one, because of logarithms."""

    def records(self, case: Case) -> list[Record]:
        return [
            *(Record(NAME, way, cost, "ns/event", case) for way, cost in self.costs.items()),
            Record(NAME, "matches", self.matches, "matches", case),
            Record(NAME, "active runs", self.runs, "runs", case),
        ]


def compare_with_lists(
    scale: BenchmarkScale, ready: Mapping[Name, tuple[SolvedStreams, int]], ways: Sequence[str]
) -> dict[Name, ListComparison]:
    """Return the cost of each way in each case, which is a solution and a window.

    Events before the widest window is full do not count.
    """
    skipped = max(window for _, window in ready.values())
    contestants = {
        (case, way): _EngineContestant(*one, skipped)
        if way == OURS
        else _ListContestant(*one, skipped, way)
        for case, one in ready.items()
        for way in ways
    }
    best = race(contestants, scale.rounds)
    found = {}
    for case, (solution, _) in ready.items():
        matches = {contestants[case, way].matches for way in ways}
        if len(matches) > 1:
            raise CernisError(f"engine and lists of runs disagree on the matches of {case}")
        events = solution.count(solution.after(skipped))
        costs = {way: per_event(best[case, way], events) for way in ways}
        found[case] = ListComparison(costs, matches.pop(), max(1, contestants[case, LIST].runs))
    return found


class _EngineContestant:
    """Measure the engine's seconds once the window is full."""

    matches = runs = 0

    def __init__(self, ready: SolvedStreams, window: int, skipped: int) -> None:
        self._replayed = partial(replay, ready, window, skipped, listed=True)

    def __call__(self) -> float:
        found = self._replayed()
        self.matches = found.matches
        return found.automaton + found.telling


class _ListContestant:
    """Measure the seconds of a list of runs once the window is full."""

    matches = runs = 0

    def __init__(self, ready: SolvedStreams, window: int, skipped: int, way: str) -> None:
        query, linked, values = ready.query.query, ready.query.plan.linked, read_values(ready)
        index = way == LIST_BY_STREAM
        self._fresh = partial(RunList, query, linked, values, window, index=index)
        since, events = ready.after(skipped), collect_events(ready)
        self._before = [event for event in events if since - window <= event.time < since]
        self._after = [event for event in events if event.time >= since]

    def __call__(self) -> float:
        runs = self._fresh()
        for _ in runs.run(self._before):
            pass
        gc.disable()  # runs have no cycles; a search for cycles must not count
        begin = time.perf_counter()
        self.matches = len(list(runs.run(self._after)))
        seconds = time.perf_counter() - begin
        gc.enable()
        self.runs = runs.size
        return seconds
