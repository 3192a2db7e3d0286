"""`cernis bench absence`: what it costs to wait for events that must not come.

Orders and payments, in turns. Half of the orders are paid half way to their deadline, the others
never. The longer the deadline, the more orders wait; the events are as many. A session reads the
stream until as many orders wait as there will ever be, and only what comes then is measured.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

import cernis
from cernis.bench.benchmark import Benchmark, Step
from cernis.bench.clock import race
from cernis.bench.record import Case, Record
from cernis.bench.scale import BenchmarkScale
from cernis.bench.table import Table, format_number, tabulate

NAME = "absence"
QUERIES = {
    "by value": "ORDER AS o WITHOUT (PAY AS p FILTER p[order] = o[id])",
    "by key": "ORDER AS o WITHOUT PAY",
}


def write_query(kind: str, waiting: int) -> str:
    """Return the query with a deadline for about so many orders to wait."""
    key = " PARTITION BY [id, order]" if kind == "by key" else ""
    return f"SELECT * FROM S WHERE {QUERIES[kind]} FOR {2 * waiting} MILLISECONDS{key}"


def make_orders(begin: int, count: int, waiting: int) -> pa.Table:
    """Return events from a time on: an order each even millisecond, a payment each odd one."""
    ts = np.arange(begin, begin + count, dtype=np.int64)
    is_order = ts % 2 == 0
    number = ts // 2
    paid = number - waiting // 2
    return pa.table(
        {
            "type": pa.array(np.where(is_order, "ORDER", "PAY")),
            "id": pa.array(number, mask=~is_order),
            "order": pa.array(paid, mask=is_order | (paid % 2 != 0) | (paid < 0)),
            "ts": ts,
        }
    )


def _measure(query: cernis.Query[cernis.Matches], waiting: int, events: int) -> float:
    session = query.session()
    begin = 2 * waiting + events
    session.push(make_orders(0, begin, waiting))
    measured = make_orders(begin, events, waiting)
    gc.collect()
    started = time.perf_counter()
    found = session.push(measured)
    seconds = time.perf_counter() - started
    del found
    return seconds


def run_absence(scale: BenchmarkScale, step: Step) -> list[Record]:
    """Measure each number of waiting orders, in turns."""
    contestants = {}
    for kind in QUERIES:
        for waiting in scale.waiting:
            query = cernis.query(write_query(kind, waiting))
            contestants[kind, waiting] = partial(_measure, query, waiting, scale.waiting_events)

    def turn(name: tuple[str, int], done: int, total: int) -> None:
        step(f"{name[0]}, {format_number(name[1])} waiting", done, total)

    records = []
    best = race(contestants, scale.rounds, turn)
    for (kind, waiting), seconds in best.items():
        case: Case = {"orders are found": kind, "waiting": waiting}
        rate, relative = scale.waiting_events / seconds, best[kind, scale.waiting[0]] / seconds
        records.append(Record(NAME, "read", rate, "events/s", case))
        records.append(Record(NAME, "relative to the fewest", relative, "×", case))
    return records


def build_tables(records: Sequence[Record]) -> list[Table]:
    """Return a table with a row for each number of waiting orders."""
    columns = {
        "orders are found": "orders are found",
        "waiting": "waiting",
        "events/s": "read",
        "to the fewest": "relative to the fewest",
    }
    return [tabulate(records, "Events per second by waiting orders", "read", columns)]


def build_points(records: Sequence[Record]) -> list[Mapping[str, object]]:
    """Return events per second by waiting orders."""
    return [{**r.case, "rate": r.value} for r in records if r.measure == "read"]


ABSENCE = Benchmark(
    name=NAME,
    title="Absence",
    question=f"""
What does an event cost when more and more orders wait for their payment?

`{write_query("by value", 1000)}` and `{write_query("by key", 1000)}` on alternating orders and
payments. Half of the orders are paid half way to their deadline; the longer the deadline, the more
orders wait.
""",
    run=run_absence,
    tables=build_tables,
    points=build_points,
)
