"""Events compared with any earlier one, beside DuckDB's join for the same answer.

The streams have few matches, as many in every window: groups of events that fit lie further apart
than the widest window, and all other events fit none of them to the end. What fits in part is not
rare: in a star, most events are a ray of most centres. So a cost that grows with the window is that
of finding nothing.

Both read the same Arrow table in one process and count what they have listed; the processor time of
all threads counts. DuckDB joins two types of events at a time by its conditions and by their
places, those that have few pairs first, which it can join by inequalities (IEJoin). In an order of
its own choice it takes much longer.

A longer stream is read once, in the window of the join. Where DuckDB would take too long for it, if
its time grows with the square of the events, it is left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

import cernis
from benchmarks.clock import race, time_call
from benchmarks.record import EXPONENT, Case, Record, divide
from benchmarks.scale import BenchmarkScale

NAME = "correlation"
SEED = 29
AIM = 0.25


@dataclass(frozen=True, slots=True)
class FarWorkload:
    """A query, DuckDB's conditions for it, and the prices of each type: others', and in a group."""

    where: str
    joins: tuple[str, ...]
    """The other tables in the order in which they are joined to `a`, each with its condition."""
    noise: dict[str, tuple[float, float]]
    group: dict[str, float]

    def write_query(self, window: int) -> str:
        """Return the query in CEQL."""
        return f"SELECT * FROM S WHERE {self.where} WITHIN {window} EVENTS"

    def write_join(self, window: int) -> str:
        """Return the query in SQL, over a table `events` with the place of each."""
        parts = [
            f"{name.lower()} AS (SELECT i, p, k FROM events WHERE type = '{name}')"
            for name in self.noise
        ]
        joined, known = "a", ["a"]
        for number, join in enumerate(self.joins):
            known.append(join[0])
            rows = f"SELECT {', '.join(known)} FROM {joined} JOIN {join}"
            joined = f"joined{number}"
            parts.append(f"{joined} AS MATERIALIZED ({rows})")
        text = f"WITH {', '.join(parts)} SELECT count(*) FROM {joined}"
        return text.replace("$w", str(window))


_AFTER = "c.i > a.i AND c.i <= a.i + $w"
_LOW = {"A": (10.0, 11.0), "B": (3.0, 9.0), "C": (0.0, 1.0)}
_FEW = {"A": 1.5, "B": 1.7, "C": 2.0}
_PEAK = {"A": (1.0, 2.0), "B": (0.5, 2.0), "C": (5.0, 6.0)}

FAR = {
    "first less than last": FarWorkload(
        "(A AS a ; B AS b ; C AS c) FILTER a[p] < c[p]",
        (f"c ON a.p < c.p AND {_AFTER}", "b ON b.i > a.i AND b.i < c.i"),
        _LOW,
        _FEW,
    ),
    "last a third more": FarWorkload(
        "(A AS a ; B AS b ; C AS c) FILTER c[p] > 1.3 * a[p]",
        (f"c ON c.p > 1.3 * a.p AND {_AFTER}", "b ON b.i > a.i AND b.i < c.i"),
        _LOW,
        _FEW,
    ),
    "equal across two": FarWorkload(
        "(A AS a ; B AS b ; C AS c ; D AS d) FILTER a[k] = d[k]",
        (
            "d ON a.k = d.k AND d.i > a.i AND d.i <= a.i + $w",
            "b ON b.i > a.i AND b.i < d.i",
            "c ON c.i > b.i AND c.i < d.i",
        ),
        {**_LOW, "D": (0.0, 1.0)},
        {**_FEW, "D": 1.0},
    ),
    "in any order": FarWorkload(
        "(A AS a ALL B AS b ALL C AS c) FILTER a[p] < b[p] AND b[p] < c[p]",
        (
            "b ON a.p < b.p AND b.i >= a.i - $w AND b.i <= a.i + $w",
            (
                "c ON b.p < c.p AND c.i >= b.i - $w AND c.i <= b.i + $w "
                "AND c.i >= a.i - $w AND c.i <= a.i + $w"
            ),
        ),
        _LOW,
        _FEW,
    ),
    "peak": FarWorkload(
        "(A AS a ; B AS b ; C AS c) FILTER b[p] <= 0.95 * a[p] AND c[p] >= 0.99 * a[p] "
        "AND c[p] <= 1.01 * a[p]",
        (
            f"c ON c.p >= 0.99 * a.p AND c.p <= 1.01 * a.p AND {_AFTER}",
            "b ON b.i > a.i AND b.i < c.i AND b.p <= 0.95 * a.p",
        ),
        _PEAK,
        {"A": 100.0, "B": 90.0, "C": 100.5},
    ),
    "star of four": FarWorkload(
        "(A AS a ; B AS b ; C AS c ; D AS d) FILTER b[p] <= 0.95 * a[p] AND c[p] >= 0.99 * a[p] "
        "AND c[p] <= 1.01 * a[p] AND d[p] > 1.2 * a[p]",
        (
            f"c ON c.p >= 0.99 * a.p AND c.p <= 1.01 * a.p AND {_AFTER}",
            "b ON b.i > a.i AND b.i < c.i AND b.p <= 0.95 * a.p",
            "d ON d.i > c.i AND d.i <= a.i + $w AND d.p > 1.2 * a.p",
        ),
        {**_PEAK, "D": (0.0, 1.0)},
        {"A": 100.0, "B": 90.0, "C": 100.5, "D": 130.0},
    ),
    "star in a star": FarWorkload(
        "(A AS a ; B AS b ; C AS c ; D AS d) FILTER b[p] <= 0.95 * a[p] AND c[p] > 1.1 * b[p] "
        "AND d[p] > 1.2 * a[p] AND d[p] <= 1.4 * a[p]",
        (
            f"d ON d.p > 1.2 * a.p AND d.p <= 1.4 * a.p AND {_AFTER.replace('c.', 'd.')}",
            "b ON b.i > a.i AND b.i < d.i AND b.p <= 0.95 * a.p",
            "c ON c.i > b.i AND c.i < d.i AND c.p > 1.1 * b.p",
        ),
        {**_PEAK, "D": (0.0, 1.0)},
        {"A": 100.0, "B": 90.0, "C": 100.5, "D": 130.0},
    ),
}


def make_far_stream(workload: FarWorkload, events: int, apart: int) -> pa.Table:
    """Return events that fit nothing to the end, with a group that does once in `apart`."""
    random = np.random.default_rng(SEED)
    names = list(workload.noise)
    kinds = random.integers(0, len(names), events, dtype=np.int32)
    low, high = np.array([workload.noise[name] for name in names]).T
    prices = low[kinds] + (high - low)[kinds] * random.random(events)
    keys = np.arange(events)
    for begin in range(apart // 2, events - len(names), apart):
        group = slice(begin, begin + len(names))
        kinds[group] = range(len(names))
        prices[group] = [workload.group[name] for name in names]
        keys[group] = begin
    return pa.table(
        {
            "type": pa.DictionaryArray.from_arrays(pa.array(kinds), names),
            "p": prices,
            "k": keys,
            "i": np.arange(events),
        }
    )


def measure_far(scale: BenchmarkScale, name: str) -> list[Record]:
    """Measure a query in windows of growing width, and DuckDB in one of them."""
    workload, windows = FAR[name], scale.far_windows
    stream = make_far_stream(workload, scale.far_events, 2 * windows[-1])
    found = {window: count_far(workload, stream, window) for window in windows}
    contestants = {
        window: time_call(partial(count_far, workload, stream, window), time.process_time)
        for window in windows
    }
    best = race(contestants, scale.rounds)
    join, joined = windows[1], []
    theirs = time_call(lambda: joined.append(join_far(workload, stream, join)), time.process_time)()
    assert {*found.values()} == {*joined}
    case: Case = {"query": name}
    costs = {window: 1e9 * seconds / len(stream) for window, seconds in best.items()}
    slope, _ = np.polyfit(np.log(windows), np.log([*costs.values()]), 1)
    return [
        *(
            Record(NAME, "far", cost, "ns/event", {**case, "window": w})
            for w, cost in costs.items()
        ),
        Record(NAME, "far matches", joined[0], "matches", case),
        Record(NAME, "far, growth", float(slope), EXPONENT, case),
        Record(NAME, "far beside a join", costs[join], "ns/event", case),
        Record(NAME, "far join", 1e9 * theirs / len(stream), "ns/event", case),
        Record(NAME, "far to join", divide(best[join], theirs), "×", case),
        *measure_longer(scale, name, theirs),
    ]


def measure_longer(scale: BenchmarkScale, name: str, joined: float) -> list[Record]:
    """Measure a query over a longer stream; `joined` is what DuckDB took for the shorter one."""
    workload, window = FAR[name], scale.far_windows[1]
    case: Case = {"query": name}
    stream = make_far_stream(workload, scale.far_longer, 2 * scale.far_windows[-1])
    numbers = list[int]()

    def measure(ask: Callable[[FarWorkload, pa.Table, int], int]) -> float:
        run = time_call(lambda: numbers.append(ask(workload, stream, window)), time.process_time)
        return 1e9 * run() / len(stream)

    expected = joined * (scale.far_longer / scale.far_events) ** 2
    ours = measure(count_far)
    theirs = measure(join_far) if expected <= scale.far_join_cap else None
    assert len({*numbers}) == 1
    ratio, note = (None, "too long") if theirs is None else (divide(ours, theirs), "")
    return [
        Record(NAME, "far, longer", ours, "ns/event", case),
        Record(NAME, "far matches, longer", numbers[0], "matches", case),
        Record(NAME, "far join, longer", theirs, "ns/event", case, note),
        Record(NAME, "far to join, longer", ratio, "×", case, note),
    ]


def count_far(workload: FarWorkload, stream: pa.Table, window: int) -> int:
    """Return how many matches the engine lists."""
    found = cernis.query(workload.write_query(window)).run(stream)
    return found.count()


def join_far(workload: FarWorkload, stream: pa.Table, window: int) -> int:
    """Return how many rows the join has."""
    import duckdb  # not everybody who runs benchmarks has it

    with duckdb.connect() as database:
        database.register("events", stream)
        row = database.execute(workload.write_join(window)).fetchone()
        assert row is not None
        return int(row[0])
