"""`cernis bench cost`: how the price of a query grows, fitted, and checked beyond the fit.

Every query is counted over growing sizes of one kind (events, window, pattern length, keys, rules,
matches) and fixed others. A line through the logarithms of sizes and processor seconds gives the
growth exponent. The largest size takes no part in the fit: what the line says of it stands beside
what was measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from statistics import median
from string import ascii_uppercase
from typing import NamedTuple

import numpy as np
import pyarrow as pa

import cernis
from benchmarks.benchmark import MEDIANS, Benchmark, Step
from benchmarks.record import EXPONENT, Record, find
from benchmarks.scale import BenchmarkScale
from benchmarks.table import Table, format_number, tabulate
from cernis.plan.load import find_rates

NAME = "cost"
SEED = 20
AIM = 2.0
_LEAST = 1e-6
"""Seconds below which nothing can be told from the fixed price."""
TYPES = [*ascii_uppercase[:12], *(f"T{number}" for number in range(20))]

_HEAD = "SELECT * FROM S WHERE"
_QUERIES = {
    "unary": f"{_HEAD} A AS a ; B AS b ; C AS c WITHIN {{window}} EVENTS",
    "chain": f"{_HEAD} A AS a ; B AS b FILTER a[k] = b[k] WITHIN {{window}} EVENTS",
    "ordered": f"{_HEAD} A AS a ; B AS b FILTER a[v] < b[v] WITHIN {{window}} EVENTS",
    "aggregate": "SELECT COUNT(*) FROM S WHERE A AS a ; B AS b ; C AS c WITHIN {window} EVENTS",
}


class Growth(NamedTuple):
    """What grows, in which query, over which sizes, and the action that is measured at a size."""

    what: str
    query: str
    sizes: tuple[int, ...]
    prepare: Callable[[int], Callable[[], object]]
    events: Callable[[int], int]
    fixed: Callable[[], object] | None = None
    """The same over no events, whose price is taken off; None where nothing is fixed."""
    text: str = ""
    """The query as `explain --rate` sees it, where that is one query."""


class PowerLaw(NamedTuple):
    """A power law: seconds are `factor * size ** exponent`."""

    factor: float
    exponent: float

    def predict(self, size: float) -> float:
        """Return the seconds at a size."""
        return float(self.factor * size**self.exponent)


def fit_power(sizes: Sequence[float], seconds: Sequence[float]) -> PowerLaw:
    """Return the line of least squares through the logarithms.

    >>> fit = fit_power([1, 10, 100], [2, 20, 200])
    >>> round(fit.factor, 6), round(fit.exponent, 6), round(fit.predict(1000))
    (2.0, 1.0, 2000)
    """
    exponent, factor = np.polyfit(np.log(sizes), np.log(seconds), 1)
    return PowerLaw(float(np.exp(factor)), float(exponent))


def make_events(number: int, keys: int = 1000) -> pa.Table:
    """Return events of 32 types, one each millisecond."""
    chance = np.random.default_rng(SEED)
    kinds = pa.array(chance.integers(0, len(TYPES), number, dtype=np.int32))
    return pa.table(
        {
            "type": pa.DictionaryArray.from_arrays(kinds, TYPES),
            "ts": np.arange(number),
            "k": chance.integers(0, keys, number),
            "v": chance.integers(0, 1000, number),
        }
    )


def list_growths(scale: BenchmarkScale) -> Iterator[Growth]:
    """Yield what is measured."""
    most = scale.cost_events
    events = make_events(most)
    none = events.slice(0, 0)
    same = partial(_always, most)

    def run(text: str, over: pa.Table = events) -> Callable[[], object]:
        return partial(cernis.query(text).run, over, threads=1)

    for name, text in _QUERIES.items():
        yield Growth(
            "events",
            name,
            tuple(most // part for part in (16, 8, 4, 2, 1)),
            lambda size, text=text: run(text.format(window=1000), events.slice(0, size)),  # type: ignore[misc]
            int,
            run(text.format(window=1000), none),
            text.format(window=1000),
        )
        windows = tuple(size for size in (100, 300, 1000, 3000, 10_000, 30_000) if size < most)
        at_most = text.format(window=windows[-1])
        yield Growth(
            "window, events",
            name,
            windows,
            lambda size, text=text: run(text.format(window=size)),  # type: ignore[misc]
            same,
            run(at_most, none),
            at_most,
        )

    def run_length(size: int, over: pa.Table = events) -> Callable[[], object]:
        steps = " ; ".join(f"{kind} AS {kind.lower()}" for kind in TYPES[:size])
        return run(f"{_HEAD} {steps} WITHIN 1000 EVENTS", over)

    lengths = (2, 3, 4, 6, 8, 12)
    yield Growth("pattern length", "unary", lengths, run_length, same, run_length(12, none))

    keyed = f"{_HEAD} A AS a ; B AS b PARTITION BY [k] WITHIN 10 SECONDS"
    yield Growth(
        "keys",
        "unary",
        scale.cost_keys,
        lambda size: run(keyed, make_events(most, size)),
        same,
        run(keyed, none),
        keyed,
    )

    def run_rules(size: int) -> Callable[[], object]:
        rules = {
            f"r{i}": f"{_HEAD} {TYPES[i % 32]} AS a ; {TYPES[(i + 1) % 32]} AS b "
            f"FILTER a[v] > {900 + i % 100} AND b[v] > 900 WITHIN 100 EVENTS"
            for i in range(size)
        }
        return partial(cernis.rules(rules).run, events)

    yield Growth("rules", "unary", scale.cost_rules, run_rules, same)

    def list_matches(size: int) -> Callable[[], object]:
        found = cernis.query(_QUERIES["unary"].format(window=1000)).run(events, threads=1)
        return lambda: sum(map(len, found.batches(size)))

    yield Growth("matches", "unary", scale.cost_matches, list_matches, _no_events)


def _always(number: int, _: int) -> int:
    return number


def _no_events(_: int) -> int:
    return 0


def run_cost(scale: BenchmarkScale, step: Step) -> list[Record]:
    """Measure every growth at every size, in turns."""
    records: list[Record] = []
    growths = list(list_growths(scale))
    for done, growth in enumerate(growths):
        step(f"{growth.what}, {growth.query}", done, len(growths))
        actions = {size: growth.prepare(size) for size in growth.sizes}
        for action in actions.values():
            action()  # compiles
        if growth.fixed is not None:
            actions[0] = growth.fixed
            growth.fixed()
        turns: dict[int, list[float]] = {size: [] for size in actions}
        for _ in range(scale.rounds):
            for size, action in actions.items():
                turns[size].append(_measure(action))
        fixed = median(turns.pop(0, [0.0]))
        seconds = {size: max(median(each) - fixed, _LEAST) for size, each in turns.items()}
        records += _list_records(growth, seconds, fixed)
    return records


def _measure(action: Callable[[], object]) -> float:
    """Return the processor seconds of an action, which is repeated until they can be measured."""
    begin, times = time.process_time(), 0
    while times == 0 or time.process_time() - begin < 0.02:
        kept = action()
        times += 1
    seconds = (time.process_time() - begin) / times
    del kept
    return seconds


def _list_records(growth: Growth, seconds: Mapping[int, float], fixed: float) -> Iterator[Record]:
    *fitted, largest = growth.sizes
    fit = fit_power(fitted, [seconds[size] for size in fitted])
    case = {"grows": growth.what, "query": growth.query}
    yield Record(NAME, "exponent", fit.exponent, EXPONENT, case)
    yield Record(NAME, "fixed", 1e3 * fixed, "ms", case, "" if fixed else "nothing is fixed")
    yield Record(NAME, "fitted from", fitted[0], "", case)
    yield Record(NAME, "fitted to", fitted[-1], "", case)
    yield Record(NAME, "checked at", largest, "", case)
    yield Record(NAME, "predicted", 1e3 * fit.predict(largest), "ms", case)
    yield Record(NAME, "measured", 1e3 * seconds[largest], "ms", case)
    yield Record(NAME, "off by", fit.predict(largest) / seconds[largest], "times", case)
    for size, spent in seconds.items():
        yield Record(NAME, "seconds", spent, "s", {**case, "size": size})
    if growth.text:
        rate = growth.events(largest) / seconds[largest]
        low, high = find_rates(cernis.query(growth.text).plan)
        for measure, value in (("rate", rate), ("least", low), ("most", high)):
            yield Record(NAME, measure, value, "events/s", case)


def build_tables(records: Sequence[Record]) -> list[Table]:
    """Return the exponents with their check, and the rates beside those of `explain --rate`."""
    known = {"grows": "grows", "query": "query"}

    def judge(case: Mapping[str, int | str]) -> str:
        rate, low = (find(records, measure, **case) for measure in ("rate", "least"))
        if rate is None or low is None:
            return "–"
        return "yes" if rate >= low else f"no: {format_number(rate / low)} of it"

    return [
        tabulate(
            records,
            "Growth exponents, and what they predict beyond the fit",
            "exponent",
            {
                **known,
                "exponent": "exponent",
                "fixed, ms": "fixed",
                "fitted from": "fitted from",
                "to": "fitted to",
                "checked at": "checked at",
                "predicted, ms": "predicted",
                "measured, ms": "measured",
                f"predicted to measured (aim: 1/{AIM:g} to {AIM:g})": "off by",
            },
        ),
        tabulate(
            records,
            "What explain --rate reckons with, events per second of a processor",
            "rate",
            {
                **known,
                "measured at the largest size": "rate",
                "explain: least": "least",
                "explain: most": "most",
                "at least the least": judge,
            },
        ),
    ]


def build_points(records: Sequence[Record]) -> list[Mapping[str, object]]:
    """Return seconds by size."""
    return [{**r.case, "seconds": r.value} for r in records if r.measure == "seconds"]


COST = Benchmark(
    name=NAME,
    title="The cost model",
    question="""
By which power do processor seconds grow with the events, the window, the length of the pattern, the
keys, the rules and the matches, and does that power predict a size that took no part in the fit?

One thing grows at a time; the rest is fixed: 32 types, a window of 1,000 events. Queries are
counted, not listed, except where matches grow. An exponent of 0 is a price that does not grow, 1
one that grows in proportion. The price of the query over no events is fixed, and taken off. The
largest size is left out of the fit. Below, the rates that
`explain --rate` reckons with, beside the rate at the largest size of each.
""",
    run=run_cost,
    tables=build_tables,
    points=build_points,
    method=MEDIANS,
)
