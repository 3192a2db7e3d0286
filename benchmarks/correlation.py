"""`cernis bench correlation`: the cost of conditions between events.

An index finds the runs that an event is compared with, so that an event costs the same however
many runs there are. Seven questions, each a ratio within this run:

* Does an event cost more in a wider window, or with wider gaps? The streams have few keys, so
  that a window 100 times as wide has 100 times as many runs for each key; every event has a
  partner.
* What does a list of runs cost on a small stream?
* Does an event cost more with more keys? Events come in triples of one key, so that every event
  finds its partner however many keys there are.
* Does a match cost more if `!=` disqualifies 99 % of its candidates? For comparison, all
  candidates are enumerated and filtered.
* Does a count cost less than an enumeration?
* What is left of the rate of a sequence, if its predicates are functions?
* What does a comparison with any earlier event cost, beside a join (`far_comparisons`)?

The sessions of all windows take turns on the same stretches of the stream, once they have read
twice the widest window. The cost of an event is the median turn. Collections of expired runs are
rare, so they count separately: the median collection times their number. The session adds its time
outside the engine. The growth exponent fits the cost as a power of the window: 0 is "does not
depend on the window", 1 is "in proportion to it".
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median

import numpy as np
import pyarrow as pa

import cernis
from benchmarks.benchmark import Benchmark, Step, run_parts
from benchmarks.clock import race, time_call
from benchmarks.far_comparisons import AIM, FAR, measure_far
from benchmarks.output import write_matches
from benchmarks.record import EXPONENT, Case, Record, divide, find
from benchmarks.scale import BenchmarkScale
from benchmarks.table import Columns, Table, format_number, tabulate
from benchmarks.watched import Turn, Watched
from cernis.results.sets.correlated import CorrelatedMatches
from tools.cases.naive import NaiveRuns

NAME = "correlation"
SEED = 13
KEYS = 50
AIM_RATIO = 1.5
AIM_GAP = 0.15
GAP = "[gap]"
PART = "[part]"
SPAN = "[span]"
"""Stand for the window in a workload that gaps, a WITHIN of a part, or a condition on times bound
instead of WITHIN."""


@dataclass(frozen=True, slots=True)
class CorrelatedWorkload:
    """A pattern and the stream for it."""

    where: str
    types: str = "ABC"
    keys: int = KEYS
    narrower: int = 1
    """Windows and stretches are shorter by this factor."""
    aim: str = f"≤ {AIM_RATIO}"

    def query(self, window: int) -> str:
        """Return the query in a window.

        >>> CorrelatedWorkload("A AS x").query(100)
        'SELECT * FROM S WHERE A AS x WITHIN 100 EVENTS'
        """
        bounds = {
            GAP: f"[{window} EVENTS]",
            PART: f"WITHIN {window} EVENTS",
            SPAN: f"{window} MILLISECONDS",
        }
        for mark, bound in bounds.items():
            if mark in self.where:
                return f"SELECT * FROM S WHERE {self.where.replace(mark, bound)}"
        return f"SELECT * FROM S WHERE {self.where} WITHIN {window} EVENTS"


WORKLOADS = {
    "chain": CorrelatedWorkload(
        "(A AS x ; B AS y ; C AS z) FILTER x[id] = y[ref] AND y[id] = z[ref]"
    ),
    "chain with !=": CorrelatedWorkload(
        "(A AS x ; B AS y ; C AS z) FILTER x[id] = y[ref] AND x[u] != y[u] "
        "AND y[id] = z[ref] AND y[u] != z[u]"
    ),
    "hierarchical": CorrelatedWorkload(
        "(T AS t ALL S AS s ALL R AS r) FILTER t[id] = s[id] AND t[id] = r[id] AND s[ref] = r[ref]",
        types="TSR",
        keys=7,
    ),
    "ordered": CorrelatedWorkload(
        "(A AS x ; B AS y ; C AS z) FILTER x[price] < y[price] AND y[price] < z[price]",
        aim="logarithmic",
    ),
    "rising": CorrelatedWorkload(
        "A+ AS s FILTER PREV(s)[price] < s[price]", types="A", narrower=10, aim="logarithmic"
    ),
    "gaps": CorrelatedWorkload(
        f"(A AS x ;{GAP} B AS y ;{GAP} C AS z) FILTER x[id] = y[ref] AND y[id] = z[ref]",
        aim=f"exponent ≤ {AIM_GAP}",
    ),
    "part within": CorrelatedWorkload(
        f"(A ; B ; C {PART}) : D", types="ABCD", aim=f"exponent ≤ {AIM_GAP}"
    ),
    "next that fits": CorrelatedWorkload(
        "(A AS x -> B AS y -> C AS z) FILTER x[id] = y[ref] AND y[id] = z[ref]"
    ),
    "across": CorrelatedWorkload(
        "(A AS x ; B AS y -> C AS z) FILTER x[id] = z[ref]", aim="logarithmic"
    ),
    "unless": CorrelatedWorkload(
        "((A AS x ; B AS y) FILTER x[id] = y[ref]) UNLESS (C AS z FILTER z[ref] = x[id])",
        aim=f"exponent ≤ {AIM_GAP}",
    ),
    "unless ordered": CorrelatedWorkload(
        "((A AS x ; B AS y) FILTER x[id] = y[ref]) "
        "UNLESS (C AS z FILTER z[ref] = x[id] AND z[price] > y[price])",
        aim="logarithmic",
    ),
    "calculated chain": CorrelatedWorkload(
        "(A AS x ; B AS y ; C AS z) FILTER LOWER(x[name]) = LOWER(y[name]) "
        "AND LOWER(y[name]) = LOWER(z[name])"
    ),
    "calculated order": CorrelatedWorkload(
        "(A AS x ; B AS y ; C AS z) FILTER y[price] > 1.05 * x[price] "
        "AND z[price] > 1.05 * y[price]",
        aim="logarithmic",
    ),
    "near": CorrelatedWorkload(
        "(A AS x ; B AS y ; C AS z) FILTER ABS(x[price] - y[price]) <= 0.01 "
        "AND ABS(y[price] - z[price]) <= 0.01",
        aim="logarithmic",
    ),
    "gap in a condition": CorrelatedWorkload(
        "(A AS x ; B AS y ; C AS z) FILTER x[id] = y[ref] AND y[id] = z[ref] "
        f"AND y[ts] - x[ts] <= {SPAN} AND z[ts] - y[ts] <= {SPAN}",
        aim=f"exponent ≤ {AIM_GAP}",
    ),
}
LISTED = ("chain", "hierarchical")


def make_keyed_stream(events: int, keys: int, types: str = "ABC", seed: int = SEED) -> pa.Table:
    """Return events with random types, keys and prices: `id` and `ref` of `keys`, `u` of ten."""
    random = np.random.default_rng(seed)
    kinds = random.integers(0, len(types), events, dtype=np.int32)
    names = [f"{word} {key}" for key in range(keys) for word in ("Key", "KEY", "key")]
    return pa.table(
        {
            "type": pa.DictionaryArray.from_arrays(pa.array(kinds), list(types)),
            "id": random.integers(0, keys, events),
            "ref": random.integers(0, keys, events),
            "u": random.integers(0, 10, events),
            "price": random.random(events),
            "name": pa.array(names).take(pa.array(random.integers(0, len(names), events))),
        }
    )


def run_correlation(scale: BenchmarkScale, step: Step) -> list[Record]:
    """Measure all questions, one after the other."""
    parts = [
        *((name, partial(measure_windows, scale, name)) for name in WORKLOADS),
        *((f"run list, {name}", partial(measure_run_list, scale, name)) for name in LISTED),
        ("keys", partial(measure_keys, scale)),
        ("disqualified", partial(measure_disqualified, scale)),
        ("counting", partial(measure_counting, scale)),
        ("functions", partial(measure_functions, scale)),
        *((name, partial(measure_far, scale, name)) for name in FAR),
    ]
    return run_parts(parts, step)


def fit_exponent(costs: Mapping[int, float]) -> float:
    """Return the slope of log(cost) over log(window).

    >>> round(fit_exponent({10: 5.0, 100: 50.0, 1000: 500.0}), 3)
    1.0
    """
    slope, _ = np.polyfit(np.log(list(costs)), np.log(list(costs.values())), 1)
    return float(slope)


# ----------------------------------------------------------------- windows


def measure_windows(scale: BenchmarkScale, name: str) -> list[Record]:
    """Measure the cost of an event in each window, and its growth."""
    workload = WORKLOADS[name]
    windows = [window // workload.narrower for window in scale.correlated_windows]
    length = windows[-1] // 2
    turns = scale.correlated_turns
    stream = make_keyed_stream(length * (turns + 4), workload.keys, workload.types)
    if SPAN in workload.where:
        stream = stream.append_column("ts", pa.array(range(len(stream))))
    sessions = {w: Watched(cernis.query(workload.query(w))) for w in windows}
    for session in sessions.values():
        session.push(stream.slice(0, 4 * length))
        session.engine.collections.clear()
    taken: dict[int, list[Turn]] = {window: [] for window in windows}
    for number in range(turns):
        stretch = stream.slice((number + 4) * length, length)
        for window in windows if number % 2 else reversed(windows):
            taken[window].append(sessions[window].push(stretch))
    engine, whole = {}, {}
    for window, session in sessions.items():
        collecting = session.engine.collections
        engine[window] = 1e9 * (
            median(turn.reading for turn in taken[window]) / length
            + (median(collecting) * len(collecting) if collecting else 0.0) / (turns * length)
        )
        beside = sum(turn.session for turn in taken[window])
        whole[window] = engine[window] + 1e9 * beside / (turns * length)
    return [
        *_record_costs("engine", name, engine),
        *_record_costs("session", name, whole),
        *(
            Record(NAME, "waiting", session.waiting(), "vertices", {"query": name, "window": w})
            for w, session in sessions.items()
        ),
    ]


def _record_costs(measure: str, name: str, costs: Mapping[int, float]) -> list[Record]:
    """Return the cost of each window, its growth, and the ratio of widest to narrowest."""
    (narrowest, *_, widest), case = costs.values(), {"query": name}
    ratio = divide(widest, narrowest)
    return [
        *record_growth(NAME, measure, case, costs),
        Record(NAME, f"{measure}, widest to narrowest window", ratio, "×", case),
    ]


def record_growth(
    benchmark: str, measure: str, case: Case, costs: Mapping[int, float], unit: str = "ns/event"
) -> list[Record]:
    """Return a cost by window, and its growth exponent."""
    return [
        *(
            Record(benchmark, measure, cost, unit, {**case, "window": w})
            for w, cost in costs.items()
        ),
        Record(benchmark, f"{measure}, growth", fit_exponent(costs), EXPONENT, case),
    ]


# ---------------------------------------------------------------- run list


def measure_run_list(scale: BenchmarkScale, name: str) -> list[Record]:
    """Compare a list of all runs with the engine, on a small stream."""
    workload = WORKLOADS[name]
    costs, sizes, sessions = {}, {}, {}
    for window in scale.listed_windows:
        query = cernis.query(workload.query(window))
        assert query.plan.tables is not None
        runs = NaiveRuns(query.plan.tables.pcea, window)
        few = make_keyed_stream(window + scale.listed_events, 3, workload.types).to_pylist()
        runs.run(few[:window])
        begin, size = time.perf_counter(), 0
        for event in few[window:]:
            runs.push(event)
            size += runs.size
        costs[window] = 1e9 * (time.perf_counter() - begin) / scale.listed_events
        sizes[window] = max(1.0, size / scale.listed_events)
        sessions[window] = Watched(query)
    many = make_keyed_stream(100 * scale.listed_events, 3, workload.types)
    turns = [{w: s.reading(many) for w, s in sessions.items()} for _ in range(scale.rounds + 2)]
    engine = {w: 1e9 * median(turn[w] for turn in turns[1:]) / len(many) for w in sessions}
    return [
        *_record_costs("run list", name, costs),
        *_record_costs("engine beside the run list", name, engine),
        *record_growth(NAME, "runs", {"query": name}, sizes, "runs"),
    ]


# -------------------------------------------------------------------- keys


def make_triple_stream(events: int, keys: int) -> pa.Table:
    """Return triples A, B, C of a random key."""
    key = np.random.default_rng(SEED).integers(0, keys, (events + 2) // 3).repeat(3)[:events]
    kinds = np.tile(np.arange(3, dtype=np.int32), (events + 2) // 3)[:events]
    types = pa.DictionaryArray.from_arrays(pa.array(kinds), list("ABC"))
    return pa.table({"type": types, "id": key, "ref": key})


def measure_keys(scale: BenchmarkScale) -> list[Record]:
    """Measure the chain with more and more keys."""
    query = cernis.query(WORKLOADS["chain"].query(scale.correlated_key_window))
    contestants = {
        keys: time_call(partial(query.run, make_triple_stream(scale.correlated_keyed_events, keys)))
        for keys in scale.correlated_keys
    }
    best = race(contestants, scale.rounds)
    rates = {keys: scale.correlated_keyed_events / seconds for keys, seconds in best.items()}
    one = rates[scale.correlated_keys[0]]
    records = []
    for keys, rate in rates.items():
        case: Case = {"keys": keys}
        records.append(Record(NAME, "keyed", rate, "events/s", case))
        records.append(Record(NAME, "relative to fewest keys", divide(rate, one), "×", case))
    return records


# ------------------------------------------------------------ disqualified


def make_candidate_stream(candidates: int, asking: int, disqualified: float) -> pa.Table:
    """Return A's of ten keys, then B's; a share of the A's has the `u` of every B."""
    random = np.random.default_rng(SEED)
    total = candidates + asking
    kinds = np.repeat(np.arange(2, dtype=np.int32), [candidates, asking])
    u = np.zeros(total, np.int64)
    u[:candidates] = random.random(candidates) >= disqualified
    return pa.table(
        {
            "type": pa.DictionaryArray.from_arrays(pa.array(kinds), ["A", "B"]),
            "k": random.integers(0, 10, total),
            "u": u,
        }
    )


def write_candidates_query(window: int, *, different: bool) -> str:
    """Return the query for A and B of one key, with or without `!=`.

    >>> write_candidates_query(100, different=False)
    'SELECT * FROM S WHERE (A AS x ; B AS y) FILTER x[k] = y[k] WITHIN 100 EVENTS'
    """
    condition = " AND x[u] != y[u]" if different else ""
    pattern = f"(A AS x ; B AS y) FILTER x[k] = y[k]{condition}"
    return f"SELECT * FROM S WHERE {pattern} WITHIN {window} EVENTS"


def measure_disqualified(scale: BenchmarkScale) -> list[Record]:
    """Measure the time to enumerate a match; each way has about as many matches."""
    hard = make_candidate_stream(scale.candidates, scale.asking, 0.99)
    easy = make_candidate_stream(scale.candidates, scale.asking // 100 + 1, 0.0)
    window = scale.candidates + scale.asking
    different = write_candidates_query(window, different=True)
    every = write_candidates_query(window, different=False)
    matches = {
        "none disqualified": (_find_matches(different, easy), None),
        "99 % disqualified": (_find_matches(different, hard), None),
        "99 %, scan and filter": (_find_matches(every, hard), hard["u"].to_numpy()),
    }
    numbers = {way: count_enumerated(*own) for way, own in matches.items()}
    best = race(
        {way: time_call(partial(count_enumerated, *own)) for way, own in matches.items()},
        scale.rounds,
    )
    costs = {way: divide(1e9 * best[way], numbers[way]) for way in matches}
    records = []
    for way, cost in costs.items():
        case: Case = {"candidates": way}
        records.append(Record(NAME, "enumerated", numbers[way], "matches", case))
        records.append(Record(NAME, "per match", cost, "ns", case))
        relative = divide(cost, costs["none disqualified"])
        records.append(Record(NAME, "to none disqualified", relative, "×", case))
    return records


def _find_matches(text: str, events: pa.Table) -> CorrelatedMatches:
    watched = Watched(cernis.query(text), keeps=True)
    watched.push(events)
    return watched.found()


def count_enumerated(found: CorrelatedMatches, u: np.ndarray | None = None) -> int:
    """Enumerate matches block by block and count them; with `u`, those that differ in it."""
    total = 0
    for block in found.blocks():
        if u is None:
            total += len(block.start)
        else:
            first, second = block.positions
            total += int(np.count_nonzero(u[first] != u[second]))
    return total


# ---------------------------------------------------------------- counting


def measure_counting(scale: BenchmarkScale) -> list[Record]:
    """Measure one C after many A's and B's of its key: all pairs of them end there."""
    m = scale.counted
    kinds = np.repeat(np.arange(3, dtype=np.int32), [m, m, 1])
    types = pa.DictionaryArray.from_arrays(pa.array(kinds), list("ABC"))
    ones = np.ones(2 * m + 1, np.int64)
    events = pa.table({"type": types, "id": ones, "ref": ones})
    query = cernis.query(WORKLOADS["chain"].query(2 * m + 1))
    watched = Watched(query, keeps=True)
    watched.push(events)
    count = watched.found().count()
    best = race(
        {
            "count()": time_call(lambda: watched.found().count()),
            "enumerate": time_call(lambda: count_enumerated(watched.found())),
            "write to Arrow": time_call(partial(write_matches, query, events)),
        },
        scale.rounds,
    )
    records = [Record(NAME, "matches at one position", count, "matches")]
    for way, seconds in best.items():
        case: Case = {"answer": way}
        records.append(Record(NAME, "answered in", 1e6 * seconds, "µs", case))
        relative = divide(seconds, best["count()"])
        records.append(Record(NAME, "times a count", relative, "×", case))
    return records


# --------------------------------------------------------------- functions

PREDICATES = {
    "plain comparisons": "x[price > 0.1] AND y[price < 0.9] AND z[u != 3]",
    "functions": "x[ABS(price - 0.5) < 0.4] AND y[LOWER(name) != 'key 3'] AND z[MOD(u, 7) != 3]",
}


def measure_functions(scale: BenchmarkScale) -> list[Record]:
    """Measure a sequence with three predicates, plain ones and functions."""
    events = make_keyed_stream(scale.correlated_keyed_events, KEYS)
    runs = {
        name: time_call(
            partial(
                cernis.query(
                    f"SELECT * FROM S WHERE (A AS x ; B AS y ; C AS z) FILTER {condition} "
                    "WITHIN 100 EVENTS"
                ).run,
                events,
            )
        )
        for name, condition in PREDICATES.items()
    }
    best = race(runs, scale.rounds)
    records = []
    for name, seconds in best.items():
        case: Case = {"predicates": name}
        relative = divide(best["plain comparisons"], seconds)
        records.append(Record(NAME, "sequence", len(events) / seconds, "events/s", case))
        records.append(Record(NAME, "to plain comparisons", relative, "×", case))
    return records


# ------------------------------------------------------------------ tables


def build_tables(records: Sequence[Record]) -> list[Table]:
    """Return a table for each question, the growth first."""
    growth = {
        f"{measure}, {title}": f"{measure}, {title.removesuffix(' exponent')}"
        for measure in ("engine", "session")
        for title in ("widest to narrowest window", "growth exponent")
    }
    by_window = {
        "query": "query",
        "window": "window",
        "waiting in the window": "waiting",
        "engine, ns/event": "engine",
        "session, ns/event": "session",
    }
    by_candidates = {
        "candidates": "candidates",
        "matches": "enumerated",
        "ns/match": "per match",
        "ratio": "to none disqualified",
    }
    by_keys = {"keys": "keys", "events/s": "keyed", "to fewest keys": "relative to fewest keys"}
    by_predicates: Columns = {
        "predicates": "predicates",
        "events/s": "sequence",
        "to plain comparisons": "to plain comparisons",
        "aim": lambda _: "≥ 0.5",
    }
    by_answer = {"answer": "answer", "µs": "answered in", "times a count": "times a count"}
    return [
        tabulate(
            records,
            "An event's cost in a window 100 times as wide",
            "engine, growth",
            {"query": "query", **growth, "aim": lambda case: WORKLOADS[str(case["query"])].aim},
        ),
        tabulate(records, "An event's cost by window", "engine", by_window),
        _tabulate_run_list(records),
        tabulate(records, "Events per second by keys", "keyed", by_keys),
        tabulate(records, "Time per match, enumeration alone", "enumerated", by_candidates),
        tabulate(
            records,
            "Many matches at one position",
            "answered in",
            by_answer,
            f"{format_number(find(records, 'matches at one position'))} matches end there.",
        ),
        tabulate(records, "A sequence with three predicates", "sequence", by_predicates),
        tabulate(
            records,
            "Compared with any earlier event, by window",
            "far",
            {"query": "query", "window": "window", "processor ns/event": "far"},
            "The same few matches in each window: groups that fit lie further apart than that.",
        ),
        tabulate(
            records,
            "Compared with any earlier event, beside DuckDB's join",
            "far, growth",
            {
                "query": "query",
                "matches": "far matches",
                "growth exponent": "far, growth",
                "aim": lambda _: f"≤ {AIM}",
                "processor ns/event": "far beside a join",
                "DuckDB": "far join",
                "ratio": "far to join",
            },
            "DuckDB joins in the second window.",
        ),
        tabulate(
            records,
            "Compared with any earlier event, over ten times as many events",
            "far, longer",
            {
                "query": "query",
                "matches": "far matches, longer",
                "processor ns/event": "far, longer",
                "DuckDB": "far join, longer",
                "ratio": "far to join, longer",
            },
            "Joins that would take minutes are left out.",
        ),
    ]


def _tabulate_run_list(records: Sequence[Record]) -> Table:
    measures = ("runs", "run list", "engine beside the run list")

    def ratio(case: Case) -> float | None:
        return divide(*(find(records, measure, **case) for measure in measures[1:]))

    costs = tabulate(
        records,
        "Beside a list of all runs, on a small stream",
        "run list",
        {
            "query": "query",
            "window": "window",
            "runs": "runs",
            "run list, ns/event": "run list",
            "engine, ns/event": "engine beside the run list",
            "ratio": ratio,
        },
        "The narrower these windows, the more events are without partner and make nothing.",
    )
    exponents = tabulate(
        records,
        "",
        "run list, growth",
        {
            "query": lambda case: f"{case['query']}, growth exponent",
            "window": lambda _: "",
            **{measure: f"{measure}, growth" for measure in measures},
            "ratio": lambda _: "",
        },
    )
    return replace(costs, rows=costs.rows + exponents.rows)


def build_points(records: Sequence[Record]) -> list[Mapping[str, object]]:
    """Return the cost of an event by window, for the engine and the list of runs."""
    series = {"engine": "{}", "run list": "{}, list of runs"}
    return [
        {
            "window": r.case["window"],
            "query": series[r.measure].format(r.case["query"]),
            "cost": r.value,
        }
        for r in records
        if r.measure in series
    ]


CORRELATION = Benchmark(
    name=NAME,
    title="Correlation between events",
    question=f"""
Does an event cost more when there are more partial matches that it could go on with?

`{WORKLOADS["chain"].query(1000)}`
and the like (below), in windows up to 100 times as wide. Streams are at random, with {KEYS} keys,
so that in a wider window each key has more runs that wait for it. *engine* is the reading
of the events alone, *session* the whole way from an Arrow table. Nothing is enumerated. The
windows take turns on the same stretches of the stream, and the median turn counts. A *growth
exponent* of 0 says that the cost does not depend on the window, 1 that it is in proportion.
*waiting* are the vertices in the window that an event can go on from; each stands for one
or more partial matches.

{chr(10).join(f"- *{name}*: `{workload.where}`" for name, workload in (WORKLOADS | FAR).items())}
""",
    run=run_correlation,
    tables=build_tables,
    points=build_points,
)
