"""`cernis bench absence`: what it costs to wait for events that must not come.

Orders and payments, in turns. Half of the orders are paid half way to their deadline, the others
never. The longer the deadline, the more orders wait. A session reads the stream until as many
orders wait as there will ever be; the clock starts then. It runs for at least two generations of
orders, so that the session forgets at least once: forgetting is part of the cost.

Looking up a value among a million costs more than among a hundred, because it is not in the
processor's cache. To tell that from what Cernis does, a plain hash table with as many values is
measured in the same rounds.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

import cernis
from benchmarks.benchmark import Benchmark, Step
from benchmarks.clock import race
from benchmarks.record import Case, Record
from benchmarks.scale import BenchmarkScale
from benchmarks.table import Table, format_number, tabulate
from cernis.encoding.hashing import IntTable

NAME = "absence"
QUERIES = {
    "by value": "ORDER AS o WITHOUT (PAY AS p FILTER p[order] = o[id])",
    "by key": "ORDER AS o WITHOUT PAY",
}
TABLE = "hash table alone"
_BATCH = 1 << 17


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
    """Return the seconds for an event."""
    session, size = query.session(), min(_BATCH, events)
    measured = -(-max(4 * waiting, events) // size)
    before = measured + 1
    gc.collect()
    seconds = 0.0
    for number in range(before + measured):
        batch = make_orders(number * size, size, waiting)
        started = time.perf_counter()
        session.push(batch)
        if number >= before:
            seconds += time.perf_counter() - started
    return seconds / (measured * size)


def _measure_table(waiting: int, events: int) -> float:
    """Return the seconds for a look into a hash table of the waiting orders."""
    table = IntTable()
    table.codes(np.arange(waiting))
    asked = np.arange(events) % waiting
    started = time.perf_counter()
    table.codes(asked)
    return (time.perf_counter() - started) / events


def run_absence(scale: BenchmarkScale, step: Step) -> list[Record]:
    """Measure each number of waiting orders, in turns."""
    contestants = {}
    events = scale.waiting_events
    for waiting in scale.waiting:
        for kind in QUERIES:
            query = cernis.query(write_query(kind, waiting))
            contestants[kind, waiting] = partial(_measure, query, waiting, events)
        contestants[TABLE, waiting] = partial(_measure_table, waiting, events)

    def turn(name: tuple[str, int], done: int, total: int) -> None:
        step(f"{name[0]}, {format_number(name[1])} waiting", done, total)

    records = []
    best = race(contestants, scale.rounds, turn)
    for kind in (*QUERIES, TABLE):
        for waiting in scale.waiting:
            case: Case = {"orders are found": kind, "waiting": waiting}
            rate, fewest = 1 / best[kind, waiting], 1 / best[kind, scale.waiting[0]]
            records.append(Record(NAME, "read", rate, "events/s", case))
            records.append(Record(NAME, "relative to the fewest", rate / fewest, "×", case))
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
orders wait. "{TABLE}" is no query: each event is one look into a hash table with a value for each
waiting order. It shows what larger tables cost the processor.
""",
    run=run_absence,
    tables=build_tables,
    points=build_points,
)
