"""`cernis bench aggregates`: aggregates over all matches, by the width of the window.

Every event moves something, in two kinds of streams. In one, about half of the events begin matches
and half end them; a few dozen events in each window, whatever its width, are of the types between.
So the numbers of matches fit 64 bits. In the other all types come *in turn*, and numbers have up to
60 digits: beyond 2^62 they are kept in several residues, and each costs. The digits of the largest
number stand beside the rates. The aim for windows is for both, and for `NEXT`, which
keeps the matches of one start at each end. Where numbers are longer in the widest window than in
the narrowest, two things make it cost more: the window, and the digits. So both windows are also
measured with numbers of as many residues (*as long*), and the aim is for these.

Two other ways run on fewer events. The *walk* counts on the compact set, once for each end, after a
first window that is not measured: in a window that fills, there is less to walk. The aim beside the
walk is for the first kind of stream: where types come in turn, one event in n ends matches, and the
walk has nothing to do at the others.
*Listing* makes matches one by one and stops when its budget is spent, as an engine must that
enumerates. Counts per minute and key on Spark are a case of `cernis bench spark`.

Numbers of several lengths, as residues, become a column of Arrow each, in whose type they fit: what
a longer one costs stands beside one of 64 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import ceil
from random import Random
from time import process_time
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import cernis
from benchmarks.benchmark import Benchmark, Step
from benchmarks.clock import Contestant, race, time_call
from benchmarks.record import Case, Record, divide, find, select
from benchmarks.scale import BenchmarkScale
from benchmarks.table import Table, format_number, tabulate
from cernis.engine.residues import LANE_BITS, new_moduli, read_residues
from cernis.engine.unary.aggregate import SlidingAggregator
from cernis.results.formats.columns import count_column

NAME = "aggregates"
SEED = 14
KLEENE = "A ; B+ ; C"
FUNCTIONS = ("COUNT", "SUM", "MIN", "AVG")
TERMS = {"COUNT": "COUNT(*)", "SUM": "SUM({0}[v])", "MIN": "MIN({0}[v])", "AVG": "AVG({0}[v])"}
IN_TURN = "in turn"
NEXT = "NEXT"
WALK = "walk"
AS_LONG = "as long"
IN_WINDOW, OF_EACH = 20, 3
"""The events of the types in between that a window has: so many, or so many of each type."""

FEW = 20_000
"""The walk reads at least so many events."""

DIGITS = (18, 36, 72, 144)
"""The digits of numbers that become int64, decimals of 128 and 256 bits, and text."""
COLUMN_ROWS = 100_000

AIM_WINDOW = 1.5
AIM_WALK = 100.0

_RATIO = "cost, widest to narrowest window"


def list_types(length: int) -> list[str]:
    """Return the types of a sequence.

    >>> list_types(3)
    ['T0', 'T1', 'T2']
    """
    return [f"T{i}" for i in range(length)]


def make_moving_stream(types: Sequence[str], events: int, every: int | None = None) -> pa.Table:
    """Return events with a type, a time and a small value each.

    The types come in turn; or those between the first and the last do, with `every` so many
    events, and the others are of the first or the last type, at random.

    >>> make_moving_stream(["A", "B", "C"], 6)["type"].to_pylist()
    ['A', 'B', 'C', 'A', 'B', 'C']
    """
    draw = np.random.default_rng(SEED)
    kinds = np.arange(events, dtype=np.int32) % len(types)
    if every is not None:
        kinds = np.where(draw.random(events) < 0.5, 0, len(types) - 1).astype(np.int32)
        between = kinds[every - 1 :: every]
        between[:] = 1 + np.arange(len(between)) % (len(types) - 2)
    return pa.table(
        {
            "type": pa.DictionaryArray.from_arrays(pa.array(kinds), list(types)),
            "ts": pa.array(np.arange(events)),
            "v": pa.array(draw.integers(0, 1000, events)),
        }
    )


def write_group_query(
    function: str, pattern: str, window: int, variable: str, strategy: str = ""
) -> str:
    """Return the query that aggregates over matches.

    >>> write_group_query("SUM", "A ; B", 10, "B")
    'SELECT SUM(B[v]) AS value FROM S WHERE A ; B WITHIN 10 EVENTS GROUP BY EVERY 10 SECONDS'
    """
    term = TERMS[function].format(variable)
    where = f"FROM S WHERE {pattern} WITHIN {window} EVENTS"
    return f"SELECT {strategy}{term} AS value {where} GROUP BY EVERY 10 SECONDS"


class Workload(NamedTuple):
    """A pattern in a window, with its contestants."""

    case: Case
    events: pa.Table
    few: pa.Table
    """The events of the walk."""
    plain: cernis.Query[cernis.Matches]
    counts: cernis.Query
    groups: Mapping[str, cernis.Query]
    """Per function, the query that aggregates."""
    contestants: Mapping[str, Contestant]


def run_aggregates(scale: BenchmarkScale, step: Step) -> list[Record]:
    """Measure every function in every window; walk and list the matches of fewer events."""
    lengths = [f"n = {n}" for n in scale.aggregate_lengths]
    patterns = [*lengths, KLEENE, *(f"{length}, {IN_TURN}" for length in lengths)]
    patterns.append(f"{lengths[0]}, {NEXT}, {IN_TURN}")
    records: list[Record] = []
    for done, pattern in enumerate(patterns):
        step(pattern, done, len(patterns))
        records += _measure(scale, pattern)
    records += _measure_columns(scale)
    return records + list(_record_ratios(records, scale))


def _measure(scale: BenchmarkScale, pattern: str) -> Iterator[Record]:
    """Yield the rates of a pattern; its windows take turns: other work may come and go."""
    loads = {window: _make_workload(scale, pattern, window) for window in scale.aggregate_windows}
    contestants = {
        (window, name): one
        for window, load in loads.items()
        for name, one in load.contestants.items()
    }
    best = race(contestants, 2 * scale.rounds)
    yield from _measure_as_long(scale, loads)
    for (window, name), seconds in best.items():
        load = loads[window]
        number = len(load.few) - window if name == WALK else len(load.events)
        yield Record(NAME, name, number / seconds, "events/s", load.case)
    for load in loads.values():
        counts = load.counts.run(load.few)
        most = max((int(n) for n in counts.counts()["count"].to_pylist()), default=0)
        yield Record(NAME, "digits", len(str(most)), "digits", load.case)
        if WALK in load.contestants:
            yield from _list_matches(scale, load.case, load.plain.run(load.few), counts.count())


def _measure_columns(scale: BenchmarkScale) -> Iterator[Record]:
    """Yield the nanoseconds of a number on its way into a column, by its digits."""
    contestants = {n: time_call(_prepare_column(n), process_time) for n in DIGITS}
    best = race(contestants, 2 * scale.rounds)
    for digits, seconds in best.items():
        case: Case = {"digits": digits}
        yield Record(NAME, "number to Arrow", 1e9 * seconds / COLUMN_ROWS, "ns", case)
        yield Record(NAME, "to the shortest", seconds / best[DIGITS[0]], "×", case)


def _prepare_column(digits: int) -> Callable[[], pa.Array]:
    """Return what makes a column of numbers with so many digits, of the engine's residues."""
    random = Random(SEED)
    numbers = [random.randrange(10 ** (digits - 1), 10**digits) for _ in range(COLUMN_ROWS)]
    moduli = new_moduli(1 + ceil(max(0, (10**digits).bit_length() - 63) / LANE_BITS))
    lanes = [
        [(n + 2**63) % 2**64 - 2**63 if prime == 0 else n % prime for n in numbers]
        for prime in moduli.primes.tolist()
    ]
    residues = np.array(lanes).T.copy()
    return lambda: count_column(read_residues(residues, moduli))


def _measure_as_long(scale: BenchmarkScale, loads: Mapping[int, Workload]) -> Iterator[Record]:
    """Yield the rates of the outer windows, if numbers have more residues in one of them.

    Both begin with as many residues as the widest needs.
    """
    narrowest, widest = loads[min(loads)], loads[max(loads)]
    residues = {name: _count_residues(q, widest.events) for name, q in widest.groups.items()}
    contestants = {
        (load.case["window"], name): partial(_time_long, query, load.events, residues[name])
        for load in (narrowest, widest)
        for name, query in load.groups.items()
        if residues[name] > 1
    }
    for (window, name), seconds in race(contestants, 2 * scale.rounds).items():
        load = loads[int(window)]
        measure = f"{name}, {AS_LONG}"
        yield Record(NAME, measure, len(load.events) / seconds, "events/s", load.case)


def _count_residues(query: cernis.Query, events: pa.Table) -> int:
    """Return how many residues the numbers of some events need."""
    session = query.session()
    session.push(events)
    return _find_engine(session).residues


def _time_long(query: cernis.Query, events: pa.Table, residues: int) -> float:
    """Return the seconds that events take with numbers of so many residues."""
    session = query.session()
    session.push(events.slice(0, 100))
    _find_engine(session).widen(residues)
    return time_call(partial(session.push, events.slice(100)), process_time)()


def _find_engine(session: cernis.Session[Any]) -> SlidingAggregator:
    """Return what aggregates in a session; nothing outside of this page needs it."""
    engine = session.pipeline.feed.engine
    assert isinstance(engine, SlidingAggregator)
    return engine


def _make_workload(scale: BenchmarkScale, pattern: str, window: int) -> Workload:
    """Return the events and the contestants of a pattern in a window."""
    types, text = ["A", "B", "C"], KLEENE
    if pattern != KLEENE:
        types = list_types(int(pattern.removeprefix("n = ").partition(",")[0]))
        text = " ; ".join(types)
    every = None
    if not pattern.endswith(IN_TURN):
        every = max(2, window // max(IN_WINDOW, OF_EACH * (len(types) - 2)))
    events = make_moving_stream(types, scale.aggregate_events, every)
    strategy = f"{NEXT} " if NEXT in pattern else ""
    groups = {
        function: cernis.query(write_group_query(function, text, window, types[1], strategy))
        for function in FUNCTIONS
    }
    contestants: dict[str, Contestant] = {}
    for function, query in groups.items():
        query.run(events.slice(0, 100))
        contestants[function] = time_call(partial(query.run, events), process_time)
    where = f"FROM S WHERE {text} WITHIN {window} EVENTS"
    plain = cernis.query(f"SELECT {strategy}* {where}")
    few = events.slice(0, max(4 * window, FEW))
    if window <= scale.aggregate_walked:
        contestants[WALK] = _time_walk(plain, few, window)
    counts = cernis.query(f"SELECT {strategy}COUNT(*) {where}")
    case: Case = {"pattern": pattern, "window": window}
    return Workload(case, events, few, plain, counts, groups, contestants)


def _time_walk(query: cernis.Query, events: pa.Table, window: int) -> Contestant:
    """Return a contestant that walks the compact set at each end after the first window."""

    def contestant() -> float:
        session = query.session()
        session.push(events.slice(0, window))
        return time_call(lambda: session.push(events.slice(window)).counts(), process_time)()

    return contestant


def _list_matches(
    scale: BenchmarkScale, case: Case, matches: cernis.Matches, total: int
) -> Iterator[Record]:
    """Yield how fast matches are listed, and which share of them the budget allows."""
    listed = min(total, scale.most_enumerated)
    if not listed:
        return

    def enumerate_some() -> int:
        return sum(batch.num_rows for batch in matches.batches(listed))

    seconds = race({"listed": time_call(enumerate_some, process_time)}, 1)["listed"]
    yield Record(NAME, "listed", listed / seconds, "matches/s", case)
    yield Record(NAME, "listed, share", listed / total, "share", case)


def _record_ratios(records: Sequence[Record], scale: BenchmarkScale) -> Iterator[Record]:
    """Yield the ratios of the aims."""
    narrowest, *_, widest = scale.aggregate_windows
    for pattern in dict.fromkeys(str(r.case["pattern"]) for r in select(records, "COUNT")):
        for suffix in ("", f", {AS_LONG}"):
            for function in FUNCTIONS:
                rates = [
                    find(records, function + suffix, pattern=pattern, window=w)
                    for w in (narrowest, widest)
                ]
                if None in rates:
                    continue
                case: Case = {"pattern": pattern, "function": function}
                yield Record(NAME, f"{_RATIO}{suffix}", divide(*rates), "×", case)
    for record in select(records, WALK):
        rate = find(records, "COUNT", **record.case)
        yield Record(NAME, "COUNT to walk", divide(rate, record.value), "×", record.case)


def build_tables(records: Sequence[Record]) -> list[Table]:
    """Return the rates, the other ways, and the aims."""
    rates = tabulate(
        records,
        "Events per second",
        "COUNT",
        {
            "pattern": "pattern",
            "window": "window",
            **{function: function for function in FUNCTIONS},
            "digits of the largest count": "digits",
        },
    )
    others = tabulate(
        records,
        "Beside the walk and listing",
        WALK,
        {
            "pattern": "pattern",
            "window": "window",
            "COUNT, events/s": "COUNT",
            "walk, events/s": WALK,
            "times the walk": "COUNT to walk",
            "listed, matches/s": "listed",
            "share listed within the budget": "listed, share",
        },
    )
    columns = tabulate(
        records,
        "Numbers to Arrow",
        "number to Arrow",
        {"digits": "digits", "ns/number": "number to Arrow", "to 18 digits": "to the shortest"},
    )
    return [rates, others, columns, _tabulate_aims(records)]


def _tabulate_aims(records: Sequence[Record]) -> Table:
    """Return the ratio of each pattern at its worst function, and the least gain on the walk."""
    widest = max(int(r.case["window"]) for r in select(records, "COUNT"))
    rows = []
    long = {str(r.case["pattern"]) for r in select(records, f"{_RATIO}, {AS_LONG}")}
    for measure in (_RATIO, f"{_RATIO}, {AS_LONG}"):
        ratios = select(records, measure)
        for pattern in dict.fromkeys(str(r.case["pattern"]) for r in ratios):
            worst = max(r.value or 0 for r in ratios if r.case["pattern"] == pattern)
            digits = find(records, "digits", pattern=pattern, window=widest)
            aim = "" if measure == _RATIO and pattern in long else f"≤ {AIM_WINDOW:g}"
            what = f"{pattern}: {measure}"
            rows.append((what, format_number(worst), format_number(digits), aim))
    walked = max(int(r.case["window"]) for r in select(records, WALK))
    for record in select(records, "COUNT to walk"):
        if record.case["window"] == walked:
            what = f"{record.case['pattern']}: times the walk, window {walked:,}"
            digits = find(records, "digits", **record.case)
            measured = format_number(record.value)
            aim = "" if what.count(IN_TURN) else f"≥ {AIM_WALK:g}"
            rows.append((what, measured, format_number(digits), aim))
    return Table(
        "The aims",
        ("ratio", "measured", "digits", "aim"),
        tuple(rows),
        "Numbers of up to 18 digits are 64-bit integers. Longer ones, where types come in turn, "
        "have a residue of 64 bits and others of 50, and each makes the vectors longer: a number "
        "of 60 digits costs more than one of 6, in any window. *As long*: in the narrowest window, "
        "too, numbers have the residues of the widest. The "
        "walk works at ends alone: in turn, one event in n is an end, and no aim is set.",
    )


def build_points(records: Sequence[Record]) -> list[Mapping[str, object]]:
    """Return events/s by pattern, window and function."""
    return [
        {**record.case, "function": record.measure, "rate": record.value}
        for record in records
        if record.measure in (*FUNCTIONS, WALK)
    ]


AGGREGATES = Benchmark(
    name=NAME,
    title="Aggregates over all matches",
    question=f"""
Does an aggregate over all matches cost more in a wider window, where there are more of them?

`{write_group_query("SUM", "T0 ; T1 ; …", 100, "T1")}`
and the like, on an Arrow table in memory in which every event moves something. About half of the
events begin matches and half end them. A window has {IN_WINDOW} events of the types between, or
{OF_EACH} of each type if that is more, whatever its width. In streams *in turn* all types come one
after the other, and the numbers of matches exceed 64 bits. `{NEXT}` keeps the matches of the
earliest start at each end. The *walk* is `counts()` on the compact
set of a `push`, over four times the events of a window, or {FEW:,}, the first window left out;
*listing* writes matches to
Arrow one by one until its budget is spent. Seconds are those of the processor: other work on the
machine disturbs them less than those of the clock, but it does disturb them.
""",
    run=run_aggregates,
    tables=build_tables,
    points=build_points,
)
