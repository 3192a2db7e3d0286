"""`cernis bench spaseq`: sequences over RDF streams, after the experiments of the SPAseQ paper.

The paper's questions (its Figures 15 to 21), on generated streams, each a ratio within this run:

* Does an event cost more in a wider window, under each separator? (15)
* Does it cost more with more clauses in the sequence? (16)
* Does it cost more with more background knowledge? (17)
* Where does the time go: parsing, graph patterns, automaton, output? (18)
* What does `B+` cost, compared with `B`? (19)
* What does a list of runs cost, with and without an index by stream? (15, 20)
* What does `B & C` cost, compared with `B; C`? (21)
* How many events does a SPARQL store for each event take, with a list of runs? (not in the paper)

The systems that the paper compares with are not measured; a list of runs as in the paper is
(`runs`). Streams are parsed and graph patterns solved once; then the windows take turns on the same
solutions, and only events after the widest window count.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from benchmarks.benchmark import Benchmark, Part, Step, run_parts
from benchmarks.correlation import record_growth
from benchmarks.record import Case, Record, divide
from benchmarks.scale import BenchmarkScale
from benchmarks.spaseq.compare import LISTED, measure_conjunction, measure_run_list
from benchmarks.spaseq.queries import (
    HEAD_AND_SHOULDERS,
    STRATEGIES,
    WORKLOADS,
    GraphWorkload,
    make_zigzag,
)
from benchmarks.spaseq.stages import (
    per_event,
    race_replays,
    replay,
    solve_in_turns,
    solve_workload,
)
from benchmarks.spaseq.store import measure_store
from benchmarks.spaseq.tables import NAME, QUESTION, TITLE, build_points, build_tables

NARROWER = {("smart grid", ":"): 4, ("falls", ";"): 4, ("falls", ":"): 16}
"""The factor by which windows and streams are shorter, for queries with very many runs."""
MARKET_WINDOW = 800
"""40 minutes, as in the paper."""
PRINTED = {
    "Query 1, smart grid": (WORKLOADS["smart grid"], "A; B+, C", 120),
    "Query 2, cards": (WORKLOADS["cards"], "A, B+", 450),
    "Query 3, market": (HEAD_AND_SHOULDERS, "A, B, C, D, E, F, G", 1200),
    "Query 4, market": (WORKLOADS["market"], "A, B, C", 1200),
    "Query 4 with `;`": (WORKLOADS["market"], "A; B; C", 1200),
    "Query 5, traffic": (WORKLOADS["traffic"], "A; (B & C)", 18),
}
"""The queries as the paper prints them, with their windows in events."""


def run_spaseq(scale: BenchmarkScale, step: Step) -> list[Record]:
    """Measure all questions, one after the other."""
    parts: list[Part] = [
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
        ("SPARQL store", partial(measure_store, scale)),
    ]
    return run_parts(parts, step)


def compile_kernels() -> list[Record]:
    """Compile all kernels, on a handful of events."""
    for workload, sequence, window in PRINTED.values():
        ready = solve_workload(workload, sequence, window, 60, written=True)
        for listed in (True, False):
            replay(ready, workload.window(window), listed=listed)
    return []


# ----------------------------------------------------------------- windows


def measure_windows(scale: BenchmarkScale, name: str) -> list[Record]:
    """Measure the cost of an event in each window under each separator, and its growth."""
    workload = WORKLOADS[name]
    ready, windows = {}, {}
    for link in STRATEGIES:
        narrower = NARROWER.get((name, link), 1)
        windows[link] = [window // narrower for window in scale.spaseq_windows]
        events = scale.spaseq_events // narrower
        ready[link] = solve_workload(workload, workload.sequences[link], windows[link][-1], events)
    # parsing and graph patterns do not depend on the separator
    beside = min(per_event(one.parsing + one.matching, len(one.times)) for one in ready.values())
    records = []
    for link, one in ready.items():
        skipped = workload.window(windows[link][-1])
        cases = {w: (one, workload.window(w)) for w in windows[link]}
        best = race_replays(cases, skipped, scale.rounds, told=None)
        events = one.count(one.after(skipped))
        costs = {w: per_event(best[w].automaton, events) for w in cases}
        counting = {w: per_event(best[w].telling, best[w].told) for w in cases}
        case: Case = {"query": name, "strategy": link}
        records += record_growth(NAME, "automaton", case, costs)
        matched = {w: costs[w] / (1 + best[w].matches / best[w].told) for w in cases}
        records += record_growth(NAME, "automaton per match", case, matched)
        whole = {w: beside + cost for w, cost in costs.items()}
        records += record_growth(NAME, "whole", case, whole)
        records += record_growth(NAME, "counting", case, counting)
        for w in cases:
            matches = best[w].matches / best[w].told
            own: Case = {**case, "window": w}
            records.append(Record(NAME, "matches", matches, "matches/event", own))
            if best[w].groups:
                records.append(Record(NAME, "groups", best[w].groups, "groups", own))
    return records


# ----------------------------------------------------------------- clauses


def measure_clauses(scale: BenchmarkScale) -> list[Record]:
    """Measure longer and longer zigzags, and the paper's Query 3."""
    patterns = {f"zigzag of {n}": make_zigzag(n) for n in scale.spaseq_clauses}
    patterns["head and shoulders"] = HEAD_AND_SHOULDERS
    records = []
    for link in (",", ";"):
        sequences = {name: (one, one.sequences[link]) for name, one in patterns.items()}
        records += measure_apart(scale, "clauses", "pattern", sequences, {"strategy": link})
    return records


def measure_apart(
    scale: BenchmarkScale,
    question: str,
    by: str,
    sequences: Mapping[str, tuple[GraphWorkload, str]],
    case: Case,
) -> list[Record]:
    """Measure graph patterns and automaton of some queries on the market."""
    window, events = WORKLOADS["market"].window(MARKET_WINDOW), scale.spaseq_clause_events
    ready = solve_in_turns(
        {
            name: partial(solve_workload, workload, sequence, MARKET_WINDOW, events)
            for name, (workload, sequence) in sequences.items()
        },
        scale.rounds,
    )
    best = race_replays({name: (one, window) for name, one in ready.items()}, window, scale.rounds)
    records = []
    for stage in ("matching", "automaton"):
        costs = {
            name: per_event(one.matching, len(one.times))
            if stage == "matching"
            else per_event(best[name].automaton, one.count(one.after(window)))
            for name, one in ready.items()
        }
        first = next(iter(costs.values()))
        for name, cost in costs.items():
            own: Case = {**case, by: name}
            records.append(Record(NAME, f"{question}, {stage}", cost, "ns/event", own))
            relative = divide(cost, first)
            records.append(Record(NAME, f"{question}, {stage}, to first", relative, "×", own))
    return records


# -------------------------------------------------------------- background


def measure_background(scale: BenchmarkScale) -> list[Record]:
    """Measure the same streams with more and more background."""
    records = []
    for name in ("cards", "smart grid"):
        workload, events = WORKLOADS[name], scale.spaseq_known_events
        sequence = workload.sequences[","]
        best = solve_in_turns(
            {
                triples: partial(solve_workload, workload, sequence, MARKET_WINDOW, events, triples)
                for triples in scale.spaseq_background
            },
            scale.rounds,
        )
        costs = {
            triples: per_event(one.parsing + one.matching + one.automaton, len(one.times))
            for triples, one in best.items()
        }
        fewest = costs[scale.spaseq_background[0]]
        for triples, one in best.items():
            case: Case = {"query": name, "triples": triples}
            rate, cost = triples / one.loading, costs[triples]
            matching = per_event(one.matching, len(one.times))
            records += [
                Record(NAME, "background read", rate, "triples/s", case),
                Record(NAME, "with background", 1e9 / cost, "events/s", case),
                Record(NAME, "matching with background", matching, "ns/event", case),
                Record(NAME, "to least background", divide(fewest, cost), "×", case),
            ]
    return records


# ------------------------------------------------------------------ stages


def measure_stages(scale: BenchmarkScale) -> list[Record]:
    """Measure each stage of the paper's queries."""
    best = solve_in_turns(
        {
            name: partial(solve_workload, *printed, scale.spaseq_stage_events, written=True)
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
            records.append(Record(NAME, "share", divide(seconds, total), "of all", case))
    return records


# ------------------------------------------------------------------ Kleene


def measure_kleene(scale: BenchmarkScale) -> list[Record]:
    """Measure one fall, or one and more, before a company's price rises."""
    sequences = {
        sequence: (WORKLOADS["market"], sequence)
        for sequence in ("A; B; C", "A; B+; C", "A; B+;; C")
    }
    return measure_apart(scale, "Kleene", "sequence", sequences, {})


SPASEQ = Benchmark(
    name=NAME,
    title=TITLE,
    question=QUESTION,
    run=run_spaseq,
    tables=build_tables,
    points=build_points,
)
