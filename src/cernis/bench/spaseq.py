"""`cernis bench spaseq`: sequences over RDF streams, after the experiments of the SPAseQ paper.

The paper's questions (its Figures 15 to 21), on generated streams, each a ratio within this run:

* Does an event cost more in a wider window, under each separator? (15)
* Does it with more clauses in the sequence? (16)
* Does it with more background knowledge? (17)
* Where does the time go: parsing, graph patterns, automaton, output? (18)
* What does `B+` cost beside `B`? (19)
* What does a list of runs cost, with and without an index by stream? (15, 20)
* What does `B & C` cost beside `B; C`? (21)

The systems the paper compares with are not here; a list of runs in the paper's own manner is
(`spaseq_runs`). Streams are parsed and graph patterns solved once; then the windows take turns on
the same solutions, and only what comes after the widest window counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial

import numpy as np

from cernis.bench.benchmark import Benchmark, Step
from cernis.bench.clock import race
from cernis.bench.correlation import EXPONENT, exponent
from cernis.bench.record import Record, ratio
from cernis.bench.scale import Scale
from cernis.bench.spaseq_queries import (
    HEAD_AND_SHOULDERS,
    STRATEGIES,
    WORKLOADS,
    Workload,
    zigzag,
)
from cernis.bench.spaseq_runs import RunList, offered, values_of
from cernis.bench.spaseq_stages import Replayed, Solved, replay, solve, solve_in_turns
from cernis.bench.spaseq_tables import (
    LIST,
    LIST_BY_STREAM,
    NAME,
    OURS,
    QUESTION,
    TITLE,
    points,
    tables,
)

NARROWER = {("market", ":"): 8}
"""Where an event goes on from very many runs, windows and streams are shorter by this factor."""
KNOWN = 10_000
"""Triples of background, where their number is not the question."""
MARKET_WINDOW = 800
"""40 minutes, as in the paper."""
LISTED = (("market", ","), ("market", ";"), ("cards", ";"), ("smart grid", ";"))
PRINTED = {
    "Query 1, smart grid": (WORKLOADS["smart grid"], "A; B+, C", 120),
    "Query 2, cards": (WORKLOADS["cards"], "A, B+", 450),
    "Query 3, market": (HEAD_AND_SHOULDERS, "A, B, C, D, E, F, G", 1200),
    "Query 4, market": (WORKLOADS["market"], "A, B, C", 1200),
    "Query 4 with `;`": (WORKLOADS["market"], "A; B; C", 1200),
    "Query 5, traffic": (WORKLOADS["traffic"], "A; (B & C)", 18),
}
"""The queries as the paper prints them, with their windows in events."""

Case = Mapping[str, int | str]


def run_spaseq(scale: Scale, step: Step) -> list[Record]:
    """All questions, one after the other."""
    parts: list[tuple[str, Callable[[], list[Record]]]] = [
        ("compiling", compile_kernels),
        *((f"windows, {name}", partial(measure_windows, scale, name)) for name in WORKLOADS),
        ("clauses", partial(measure_clauses, scale)),
        ("background", partial(measure_background, scale)),
        ("stages", partial(measure_stages, scale)),
        ("Kleene", partial(measure_kleene, scale)),
        *(
            (f"list of runs, {name} {link}", partial(measure_run_list, scale, name, link))
            for name, link in LISTED
        ),
        ("conjunction", partial(measure_conjunction, scale)),
    ]
    records: list[Record] = []
    for done, (name, measure) in enumerate(parts):
        step(name, done, len(parts))
        records += measure()
    return records


def compile_kernels() -> list[Record]:
    """Everything once on a handful of events: what follows finds its kernels compiled."""
    for workload, sequence, window in PRINTED.values():
        ready = solved(workload, sequence, window, 60, written=True)
        for listed in (True, False):
            replay(ready, workload.window(window), listed=listed)
    return []


def solved(
    workload: Workload,
    sequence: str,
    window: int,
    events: int,
    triples: int = KNOWN,
    *,
    written: bool = False,
) -> Solved:
    """A query on a stream of so many events, up to the automaton."""
    text, known = workload.query(sequence, window), workload.knowledge(triples)
    return solve(text, workload.streams(events), known, written=written)


def best_replays(
    scale: Scale, ready: Mapping[int | str, tuple[Solved, int]], skipped: int, *, listed: bool
) -> dict[int | str, Replayed]:
    """The best automaton and the best telling of each, over rounds in which all take turns."""
    told: dict[int | str, list[Replayed]] = {case: [] for case in ready}

    def contestant(case: int | str) -> float:
        told[case].append(replay(*ready[case], skipped, listed=listed))
        return told[case][-1].automaton

    best = race({case: partial(contestant, case) for case in ready}, scale.rounds)
    return {
        case: Replayed(best[case], min(one.telling for one in turns), turns[0].matches)
        for case, turns in told.items()
    }


def per_event(seconds: float, events: int) -> float:
    """Nanoseconds."""
    return 1e9 * seconds / events


def counted(ready: Solved, skipped: int) -> int:
    """The events that come after some nanoseconds."""
    return int(np.count_nonzero(ready.times >= ready.times[0] + skipped))


# ----------------------------------------------------------------- windows


def measure_windows(scale: Scale, name: str) -> list[Record]:
    """The cost of an event in each window and under each separator, and how it grows."""
    workload = WORKLOADS[name]
    ready, windows = {}, {}
    for link in STRATEGIES:
        narrower = NARROWER.get((name, link), 1)
        windows[link] = [window // narrower for window in scale.spaseq_windows]
        events = scale.spaseq_events // narrower
        ready[link] = solved(workload, workload.sequences[link], windows[link][-1], events)
    # the separator makes no difference to what comes before the automaton
    beside = min(per_event(one.parsing + one.matching, len(one.times)) for one in ready.values())
    records = []
    for link, one in ready.items():
        skipped = workload.window(windows[link][-1])
        best = best_replays(
            scale, {w: (one, workload.window(w)) for w in windows[link]}, skipped, listed=False
        )
        events = counted(one, skipped)
        costs = {w: per_event(best[w].automaton, events) for w in windows[link]}
        case: Case = {"query": name, "strategy": link}
        records += growing("automaton", case, costs)
        records += growing("whole", case, {w: beside + cost for w, cost in costs.items()})
        for w in windows[link]:
            own: Case = {**case, "window": w}
            counting = per_event(best[w].telling, events)
            records.append(Record(NAME, "matches", best[w].matches, "matches", own))
            records.append(Record(NAME, "counting", counting, "ns/event", own))
    return records


def growing(measure: str, case: Case, costs: Mapping[int, float]) -> list[Record]:
    """A cost by window, and its growth exponent."""
    return [
        *(
            Record(NAME, measure, cost, "ns/event", {**case, "window": w})
            for w, cost in costs.items()
        ),
        Record(NAME, f"{measure}, growth", exponent(costs), EXPONENT, case),
    ]


# ----------------------------------------------------------------- clauses


def measure_clauses(scale: Scale) -> list[Record]:
    """Longer and longer zigzags, and the paper's Query 3."""
    patterns = {f"zigzag of {n}": zigzag(n) for n in scale.spaseq_clauses}
    patterns["head and shoulders"] = HEAD_AND_SHOULDERS
    records = []
    for link in (",", ";"):
        sequences = {name: (one, one.sequences[link]) for name, one in patterns.items()}
        records += apart(scale, "clauses", "pattern", sequences, {"strategy": link})
    return records


def apart(
    scale: Scale,
    question: str,
    by: str,
    sequences: Mapping[str, tuple[Workload, str]],
    case: Case,
) -> list[Record]:
    """Graph patterns and automaton of some queries on the market, and beside the first of them."""
    window, events = WORKLOADS["market"].window(MARKET_WINDOW), scale.spaseq_clause_events
    ready = solve_in_turns(
        {
            name: partial(solved, workload, sequence, MARKET_WINDOW, events)
            for name, (workload, sequence) in sequences.items()
        },
        scale.rounds,
    )
    best = best_replays(
        scale, {name: (one, window) for name, one in ready.items()}, window, listed=False
    )
    records = []
    for stage in ("matching", "automaton"):
        costs = {
            name: per_event(one.matching, len(one.times))
            if stage == "matching"
            else per_event(best[name].automaton, counted(one, window))
            for name, one in ready.items()
        }
        first = next(iter(costs.values()))
        for name, cost in costs.items():
            own: Case = {**case, by: name}
            records.append(Record(NAME, f"{question}, {stage}", cost, "ns/event", own))
            relative = ratio(cost, first)
            records.append(Record(NAME, f"{question}, {stage}, to first", relative, "×", own))
    return records


# -------------------------------------------------------------- background


def measure_background(scale: Scale) -> list[Record]:
    """The same streams with more and more background."""
    records = []
    for name in ("cards", "smart grid"):
        workload, events = WORKLOADS[name], scale.spaseq_known_events
        sequence = workload.sequences[","]
        best = solve_in_turns(
            {
                triples: partial(solved, workload, sequence, MARKET_WINDOW, events, triples)
                for triples in scale.spaseq_background
            },
            scale.rounds,
        )
        fewest = whole_cost(best[scale.spaseq_background[0]])
        for triples, one in best.items():
            case: Case = {"query": name, "triples": triples}
            rate, cost = triples / one.loading, whole_cost(one)
            matching = per_event(one.matching, len(one.times))
            records += [
                Record(NAME, "background read", rate, "triples/s", case),
                Record(NAME, "with background", 1e9 / cost, "events/s", case),
                Record(NAME, "matching with background", matching, "ns/event", case),
                Record(NAME, "to least background", ratio(fewest, cost), "×", case),
            ]
    return records


def whole_cost(one: Solved) -> float:
    """From bytes to matches that are not looked at, in nanoseconds per event."""
    return per_event(one.parsing + one.matching + one.automaton, len(one.times))


# ------------------------------------------------------------------ stages


def measure_stages(scale: Scale) -> list[Record]:
    """Where the time of the paper's queries goes."""
    best = solve_in_turns(
        {
            name: partial(solved, *printed, scale.spaseq_stage_events, written=True)
            for name, printed in PRINTED.items()
        },
        scale.rounds,
    )
    records = []
    for name, one in best.items():
        events = len(one.times)
        costs = {
            "parsing": one.parsing,
            "graph patterns": one.matching,
            "automaton": one.automaton,
            "output": one.output,
        }
        total = sum(costs.values())
        records.append(Record(NAME, "matches", one.matches, "matches", {"query": name}))
        records.append(Record(NAME, "all stages", events / total, "events/s", {"query": name}))
        for stage, seconds in costs.items():
            case: Case = {"query": name, "stage": stage}
            records.append(Record(NAME, "stage", per_event(seconds, events), "ns/event", case))
            records.append(Record(NAME, "share", ratio(seconds, total), "of all", case))
    return records


# ------------------------------------------------------------------ Kleene


def measure_kleene(scale: Scale) -> list[Record]:
    """One fall, or one and more, before a company's price rises."""
    sequences = {
        sequence: (WORKLOADS["market"], sequence)
        for sequence in ("A; B; C", "A; B+; C", "A; B+;; C")
    }
    return apart(scale, "Kleene", "sequence", sequences, {})


# ---------------------------------------------------------------- run list


def measure_run_list(scale: Scale, name: str, link: str) -> list[Record]:
    """Each run in a list, on a small stream; the engine beside it, matches listed by both."""
    workload = WORKLOADS[name]
    windows = scale.spaseq_listed_windows
    ready = solved(
        workload, workload.sequences[link], windows[-1], windows[-1] + scale.spaseq_listed_events
    )
    case: Case = {"query": name, "strategy": link}
    ways = (LIST, LIST_BY_STREAM) if len(workload.iris) > 1 else (LIST,)
    records, growth = beside_lists(
        scale, {w: (ready, workload.window(w)) for w in windows}, ways, "window", case
    )
    for way, costs in growth.items():
        by_window = {int(w): cost for w, cost in costs.items()}
        records.append(Record(NAME, f"{way}, growth", exponent(by_window), EXPONENT, case))
    return records


def beside_lists(
    scale: Scale,
    ready: Mapping[int | str, tuple[Solved, int]],
    ways: Iterable[str],
    by: str,
    case: Case,
) -> tuple[list[Record], dict[str, dict[int | str, float]]]:
    """The cost of an event for the engine and for lists of runs, and the records of it.

    What counts begins after the widest window. All must find as many matches.
    """
    skipped = max(window for _, window in ready.values())
    ours = best_replays(scale, ready, skipped, listed=True)
    lists: dict[tuple[str, int | str], Listed] = {
        (way, one): Listed(*ready[one], skipped, index=way == LIST_BY_STREAM)
        for way in ways
        for one in ready
    }
    best = race(lists, scale.rounds)
    costs: dict[str, dict[int | str, float]] = {way: {} for way in (*ways, OURS)}
    records = []
    for one, (solution, _) in ready.items():
        events = counted(solution, skipped)
        own: Case = {**case, by: one}
        costs[OURS][one] = per_event(ours[one].automaton + ours[one].telling, events)
        for way in ways:
            kept = lists[way, one]
            assert kept.matches == ours[one].matches, (own, kept.matches, ours[one].matches)
            costs[way][one] = per_event(best[way, one], events)
        records.append(Record(NAME, "active runs", max(1, kept.size), "runs", own))
        records.append(Record(NAME, "matches", ours[one].matches, "matches", own))
        records += [Record(NAME, way, costs[way][one], "ns/event", own) for way in costs]
    return records, costs


class Listed:
    """A contestant: the seconds of a list of runs after a while, when its window is full."""

    def __init__(self, ready: Solved, window: int, skipped: int, *, index: bool) -> None:
        self.ready, self.window, self.index = ready, window, index
        self.values = values_of(ready)
        since = int(ready.times[0]) + skipped
        events = offered(ready)
        self.before = [event for event in events if since - window <= event.time < since]
        self.after = [event for event in events if event.time >= since]
        self.matches = self.size = 0

    def __call__(self) -> float:
        query = self.ready.query
        runs = RunList(query.query, query.linked, self.values, self.window, index=self.index)
        for _ in runs.run(self.before):
            pass
        begin = time.perf_counter()
        self.matches = len(list(runs.run(self.after)))
        seconds = time.perf_counter() - begin
        self.size = runs.size
        return seconds


# ------------------------------------------------------------- conjunction


def measure_conjunction(scale: Scale) -> list[Record]:
    """Two roads that are congested at one time, or one after the other."""
    traffic = WORKLOADS["traffic"]
    window = scale.spaseq_listed_windows[-1]
    best = solve_in_turns(
        {
            sequence: partial(solved, traffic, sequence, window, scale.spaseq_clause_events)
            for sequence in ("A; B; C", "A; (B & C)")
        },
        scale.rounds,
    )
    ready: dict[int | str, tuple[Solved, int]] = {
        sequence: (one, traffic.window(window)) for sequence, one in best.items()
    }
    records, _ = beside_lists(
        scale, ready, (LIST, LIST_BY_STREAM), "sequence", {"query": "traffic"}
    )
    for sequence, one in best.items():
        matching = per_event(one.matching, len(one.times))
        case: Case = {"query": "traffic", "sequence": sequence}
        records.append(Record(NAME, "conjunction, matching", matching, "ns/event", case))
    return records


SPASEQ = Benchmark(
    name=NAME, title=TITLE, question=QUESTION, run=run_spaseq, tables=tables, points=points
)
