"""`cernis bench rules`: the cost of an event against the number of rules.

Each rule has three steps of one host, a key and a window, as security teams write them; each host
has one rule, and about as many events as any other. The rules differ in the host alone, so they run
as one query (`run.families`). One pass of the rule set is compared with as
many runs of single queries: a few of them are measured, and their mean stands for each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from time import perf_counter

import numpy as np
import pyarrow as pa

import cernis
from cernis.bench.benchmark import Benchmark, Step
from cernis.bench.clock import race, time_call
from cernis.bench.record import Case, Record
from cernis.bench.scale import BenchmarkScale
from cernis.bench.table import Table, format_number, tabulate

NAME = "rules"
SEED = 7
_ALONE = 3
QUERY = (
    "SELECT * FROM S WHERE (LOGIN AS a ; FAIL AS b ; SUDO AS c) "
    "FILTER a[host = 'h{0}'] AND b[host = 'h{0}'] AND c[host = 'h{0}'] "
    "PARTITION BY [user] WITHIN 1 MINUTE LIMIT 1"
)


def make_log(events: int, hosts: int) -> pa.Table:
    """Return a log of hosts: what happened, where, and to whom."""
    chance = np.random.default_rng(SEED)
    kinds, names = ["LOGIN", "FAIL", "SUDO", "OTHER"], [f"h{i}" for i in range(hosts)]
    return pa.table(
        {
            "type": pa.array(kinds).take(pa.array(chance.integers(0, len(kinds), events))),
            "host": pa.array(names).take(pa.array(chance.integers(0, hosts, events))),
            "user": chance.integers(0, 50, events),
            "ts": np.arange(events),
        }
    )


def run_rules(scale: BenchmarkScale, step: Step) -> list[Record]:
    """Measure each number of rules, in turns, and some queries alone."""
    events = make_log(scale.rule_events, max(scale.rules))
    contestants, started = {}, {}
    total = len(scale.rules) + 1
    for done, number in enumerate(scale.rules):
        step(f"{format_number(number)} rules", done, total)
        begin = perf_counter()
        rules = cernis.rules({f"r{i}": QUERY.format(i) for i in range(number)})
        rules.session()
        started[number] = perf_counter() - begin
        contestants[number] = time_call(partial(rules.run, events))
    step("in turns", total - 1, total)
    best = race(contestants, scale.rounds)
    queries = [cernis.query(QUERY.format(i)) for i in range(_ALONE)]
    alone = race(
        {i: time_call(partial(q.run, events)) for i, q in enumerate(queries)}, scale.rounds
    )
    mean = sum(alone.values()) / _ALONE
    records = []
    for number, seconds in best.items():
        case: Case = {"rules": number}
        cost = 1e6 * seconds / scale.rule_events
        records.append(Record(NAME, "one pass", cost, "µs/event", case))
        records.append(
            Record(NAME, "relative to one rule", seconds / best[scale.rules[0]], "×", case)
        )
        records.append(Record(NAME, "relative to one query", seconds / mean, "×", case))
        records.append(Record(NAME, "separate runs", number * mean / seconds, "×", case))
        records.append(Record(NAME, "start-up", started[number], "s", case))
    return records


def build_tables(records: Sequence[Record]) -> list[Table]:
    """Return a table with a row per number of rules."""
    columns = {
        "rules": "rules",
        "µs/event": "one pass",
        "to one rule": "relative to one rule",
        "to one query alone": "relative to one query",
        "separate runs take": "separate runs",
        "start-up, s": "start-up",
    }
    return [tabulate(records, "Cost of an event by the number of rules", "one pass", columns)]


def build_points(records: Sequence[Record]) -> list[Mapping[str, object]]:
    """Return the cost of an event by the number of rules."""
    return [{"rules": r.case["rules"], "cost": r.value} for r in records if r.measure == "one pass"]


RULES = Benchmark(
    name=NAME,
    title="Rules",
    question=f"""
How does the cost of an event grow with the number of rules, if it concerns few of them?

Rules of three steps of one host, a key and a window:

`{QUERY.format(0)}`
""",
    run=run_rules,
    tables=build_tables,
    points=build_points,
)
