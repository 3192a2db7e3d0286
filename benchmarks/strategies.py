"""`cernis bench strategies`: answers about sets of matches too large to list.

A stream of SELL and BUY has a HALT at regular places. The pattern takes any BUYs before a HALT,
and the HALT: k BUYs in the window make 2^k - 1 matches at one position. Wider windows have more
matches; a strategy, `count()` and `sample()` should still cost no more than one pass.

HALTs are one widest window apart, so that every row has the same number of answers. A strategy's
answer is one match per HALT, with every BUY of the window. Strategies write their answers to
Arrow, and a match costs its length: the cost may grow with the length of an answer, not with the
number of matches to choose from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

import cernis
from benchmarks.benchmark import Benchmark, Step
from benchmarks.clock import Contestant, race, time_call
from benchmarks.output import write_matches
from benchmarks.record import Case, Record, divide
from benchmarks.scale import BenchmarkScale
from benchmarks.table import Table, tabulate

NAME = "strategies"
SEED = 11
CHOSEN = ("NEXT", "LAST", "MAX", "ANY")
SAMPLED = 10


def make_halting_stream(events: int, every: int) -> pa.Table:
    """Return random SELL and BUY events with a HALT at every `every`-th place."""
    kinds = np.random.default_rng(SEED).integers(0, 2, events, dtype=np.int32)
    kinds[every - 1 :: every] = 2
    return pa.table(
        {"type": pa.DictionaryArray.from_arrays(pa.array(kinds), ["SELL", "BUY", "HALT"])}
    )


def write_kleene_query(strategy: str, window: int) -> str:
    """Return the query under one strategy.

    >>> write_kleene_query("LAST", 20)
    'SELECT LAST * FROM S WHERE ((BUY+) AS b; HALT AS h) WITHIN 20 EVENTS'
    """
    return f"SELECT {strategy} * FROM S WHERE ((BUY+) AS b; HALT AS h) WITHIN {window} EVENTS"


def run_strategies(scale: BenchmarkScale, step: Step) -> list[Record]:
    """Measure each window: the plain pass and every question take turns."""
    events = make_halting_stream(scale.strategy_events, scale.strategy_windows[-1])
    records: list[Record] = []
    for done, window in enumerate(scale.strategy_windows):
        step(f"window {window}", done, len(scale.strategy_windows))
        records += _measure(scale, events, window)
    return records


def _measure(scale: BenchmarkScale, events: pa.Table, window: int) -> list[Record]:
    case: Case = {"window": window}
    plain = cernis.query(write_kleene_query("ALL", window))
    contestants: dict[str, Contestant] = {
        "plain pass": time_call(lambda: plain.run(events, threads=1)),
        "count()": time_call(lambda: plain.run(events, threads=1).count()),
        "sample()": time_call(lambda: plain.run(events, threads=1).sample(SAMPLED, seed=1)),
    }
    for strategy in CHOSEN:
        query = cernis.query(write_kleene_query(strategy, window))
        write_matches(query, events.slice(0, 100))
        contestants[strategy] = time_call(partial(write_matches, query, events))
    counts = plain.run(events, threads=1).counts()["count"].to_pylist()
    most = max(map(int, counts), default=0)
    best = race(contestants, scale.rounds)
    records = [Record(NAME, "most matches at a position", most, "matches", case)]
    for measure, seconds in best.items():
        records.append(Record(NAME, measure, scale.strategy_events / seconds, "events/s", case))
        cost = divide(seconds, best["plain pass"])
        records.append(Record(NAME, f"{measure}, cost", cost, "× plain pass", case))
    return records


def build_tables(records: Sequence[Record]) -> list[Table]:
    """Return a table of costs in plain passes, with a row per window."""
    columns = {
        "window": "window",
        "most matches at a position": "most matches at a position",
        "plain pass, events/s": "plain pass",
    }
    columns |= {question: f"{question}, cost" for question in ("count()", "sample()", *CHOSEN)}
    return [tabulate(records, "Cost in plain passes", "plain pass", columns)]


def build_points(records: Sequence[Record]) -> list[Mapping[str, object]]:
    """Return the cost by window and question."""
    return [
        {"window": r.case["window"], "question": r.measure.partition(",")[0], "cost": r.value}
        for r in records
        if r.measure.endswith(", cost") and not r.measure.startswith("plain")
    ]


STRATEGIES = Benchmark(
    name=NAME,
    title="Strategies, counts and samples of huge sets of matches",
    question=f"""
Does an answer cost more when there are more matches to choose from?

`{write_kleene_query("…", 20)}` and wider windows, on SELL and BUY events with a HALT at regular
places: at a HALT there are exponentially many matches in the window. All numbers are
multiples of a plain pass over the same events in the same window, which finds all matches
and writes none; the strategies write their answers to Arrow.
""",
    run=run_strategies,
    tables=build_tables,
    points=build_points,
)
