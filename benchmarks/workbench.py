"""`cernis bench workbench`: what `diff` and `sweep` cost, and how often intervals hold the truth.

Matches are counted, so the numbers of matches are beyond any list: a window of 2,000 events has
10^8 matches of five steps for each end. *One run* counts the matches of one version. Samples of a
diff need the matches themselves, as the default run does, and have a row of their own on fewer
events. Runs take turns, and seconds are those of the processor.

A labelling draws matches as `cernis label` does; whether a match is real is a condition on it, so
that the truth is known exactly, by counting the query with that condition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from time import process_time
from typing import Any

import numpy as np
import pyarrow as pa

import cernis
from benchmarks.benchmark import Benchmark, Part, Step, run_parts
from benchmarks.clock import race, time_call
from benchmarks.record import Case, Record, divide, find
from benchmarks.scale import FULL, BenchmarkScale
from benchmarks.table import Table, tabulate
from cernis.workbench.diff import MatchDiff
from cernis.workbench.precision import Stratum, estimate

NAME = "workbench"
SEED = 42
TYPES = "ABCDE"
STEPS = " ; ".join(f"{name} AS {name.lower()}" for name in TYPES)
AIM_DIFF, AIM_SWEEP, AIM_COVERED = 3, 5, 0.95
LABELS = 40
TRUTHS = (0.5, 0.8, 0.95)
_RUN, _DIFF, _SWEEP = "one run", "diff", "sweep"
_COVERED = "labellings whose interval has the truth"


def make_events(number: int) -> pa.Table:
    """Return events of five types at random, with a value below 100.

    >>> make_events(3).column_names
    ['type', 'v', 'ts']
    """
    draw = np.random.default_rng(SEED)
    kinds = pa.array(draw.integers(0, len(TYPES), number, dtype=np.int32))
    return pa.table(
        {
            "type": pa.DictionaryArray.from_arrays(kinds, list(TYPES)),
            "v": pa.array(draw.integers(0, 100, number)),
            "ts": pa.array(np.arange(number)),
        }
    )


def write_query(condition: str, window: int) -> str:
    """Return the text of a version.

    >>> write_query("b[v >= 20]", 50)[-42:]
    'E AS e) FILTER b[v >= 20] WITHIN 50 EVENTS'
    """
    return f"SELECT * FROM S WHERE ({STEPS}) FILTER {condition} WITHIN {window} EVENTS"


def run_workbench(scale: BenchmarkScale, step: Step) -> list[Record]:
    """Measure a diff, a diff with samples, a sweep, and labellings."""
    number, fewer = scale.workbench_events, scale.workbench_events // 10
    parts: list[Part] = [
        ("diff", lambda: list(_measure_diff(scale, number, 0))),
        ("diff with samples", lambda: list(_measure_diff(scale, fewer, 3))),
        ("sweep", lambda: list(_measure_sweep(scale, fewer))),
        ("labellings", lambda: list(_measure_labellings(scale))),
    ]
    return run_parts(parts, step)


def _measure_diff(scale: BenchmarkScale, number: int, sample: int) -> Iterator[Record]:
    events, window = make_events(number), scale.workbench_window
    old, new = (
        cernis.query(write_query(condition, window))
        for condition in ("c[v >= 20]", "c[v >= 30] AND d[v >= 10]")
    )
    form: dict[str, Any] = {} if sample else {"matches": "count"}

    def compare() -> MatchDiff:
        found = cernis.diff(old, new, events, sample=sample, seed=SEED)
        assert isinstance(found, MatchDiff)
        return found

    best = race(
        {
            _RUN: time_call(lambda: old.run(events, **form).count(), process_time),
            _DIFF: time_call(compare, process_time),
        },
        scale.rounds,
    )
    found = compare()
    assert found.counted == "matches"
    case: Case = {"question": "diff" if not sample else "diff with samples", "events": number}
    yield Record(NAME, "matches", found.lost.total + found.kept.total, "matches", case)
    yield from _record_costs(best[_RUN], best[_DIFF], case, AIM_DIFF)


def _measure_sweep(scale: BenchmarkScale, number: int) -> Iterator[Record]:
    events, window, values = make_events(number), scale.workbench_window, scale.workbench_values
    for title, text in {
        "a value of single events": write_query("c[v >= $t]", window),
        "a sum": "SELECT * FROM S WHERE A AS a ; B AS b FILTER SUM(a[v]) + SUM(b[v]) >= $t "
        "WITHIN 5 EVENTS",
        "a count": "SELECT * FROM S WHERE A AS a ; B+ AS b ; C AS c FILTER COUNT(b) >= $t "
        "WITHIN 9 EVENTS",
    }.items():
        query = cernis.query(text)
        loosest = query.bind(t=0)
        best = race(
            {
                _RUN: time_call(partial(_count, loosest, events), process_time),
                _SWEEP: time_call(partial(query.sweep, events, t=range(values)), process_time),
            },
            scale.rounds,
        )
        case: Case = {"question": f"sweep, {values} values of {title}", "events": number}
        yield Record(NAME, "matches", loosest.run(events).count(), "matches", case)
        yield from _record_costs(best[_RUN], best[_SWEEP], case, AIM_SWEEP)


def _count(query: cernis.Query[Any], events: pa.Table) -> int:
    return int(query.run(events).count())


def _record_costs(run: float, other: float, case: Case, aim: int) -> Iterator[Record]:
    yield Record(NAME, _RUN, run, "s", case)
    yield Record(NAME, "seconds", other, "s", case)
    yield Record(NAME, "times one run", divide(other, run), "×", case)
    yield Record(NAME, "aim", aim, "×", case)


def _measure_labellings(scale: BenchmarkScale) -> Iterator[Record]:
    events = make_events(scale.workbench_labelled)
    values = events["v"].to_numpy()
    text = "SELECT * FROM S WHERE (A AS a ; B AS b ; C AS c){} WITHIN 500 EVENTS"
    found = cernis.query(text.format("")).run(events)
    total = found.count()
    for truth in TRUTHS:
        limit = round(100 * truth)
        real = cernis.query(text.format(f" FILTER b[v < {limit}]"))
        exact = real.run(events, matches="count").count() / total
        drawn = found.match_set.sample(LABELS * scale.workbench_labellings, limit)
        held = drawn.positions[found.match_set.variables.index("b")]
        shuffled = np.random.default_rng(SEED).permutation(values[held] < limit)
        labellings = [int(own.sum()) for own in np.split(shuffled, scale.workbench_labellings)]
        shares = [estimate([Stratum(number, LABELS, total)]) for number in labellings]
        covered = sum(share.low <= exact <= share.high for share in shares)
        case: Case = {"truth": f"{exact:.3f}", "labels": LABELS}
        yield Record(NAME, "drawn from", total, "matches", case)
        yield Record(NAME, "labellings", scale.workbench_labellings, "labellings", case)
        yield Record(NAME, _COVERED, covered / scale.workbench_labellings, "share", case)


def build_tables(records: Sequence[Record]) -> list[Table]:
    """Return what the questions cost beside one run, and how often the interval has the truth."""
    costs = tabulate(
        records,
        "Beside one run",
        "times one run",
        {
            "question": "question",
            "events": "events",
            "matches": "matches",
            "one run, seconds": _RUN,
            "seconds": "seconds",
            "times one run": "times one run",
            "aim": lambda case: f"≤ {find(records, 'aim', **case)}",
        },
    )
    labels = tabulate(
        records,
        "Intervals of 95 in 100",
        _COVERED,
        {
            "truth": "truth",
            "labels": "labels",
            "labellings": "labellings",
            "drawn from": "drawn from",
            _COVERED: _COVERED,
        },
        f"The aim is {AIM_COVERED:.0%}; of 2,000 labellings, chance alone moves the share by one "
        "point either way.",
    )
    return [costs, labels]


def build_points(records: Sequence[Record]) -> list[Mapping[str, object]]:
    """Return the ratios to one run."""
    return [
        {**record.case, "measured": kind, "ratio": record.value}
        for kind, measure in (("measured", "times one run"), ("aim", "aim"))
        for record in records
        if record.measure == measure
    ]


WORKBENCH = Benchmark(
    name=NAME,
    title="The rule writer's workbench",
    question=f"""
What do `diff` and `sweep` cost beside one run, whatever the number of matches is? Do the intervals
of `label` hold the truth as often as they say?

`{write_query("c[v >= 20]", 2000)}`
and a version with other conditions, on an Arrow table in memory. *One run* counts the matches of
one version. A diff without samples counts both versions and their union; a diff with samples also
keeps the matches, as does the run beside it. A sweep has {FULL.workbench_values} values, and the
run beside it has the loosest of them. Sums and counts of whole matches are listed.

A labelling draws {LABELS} matches at random; which of them are real is a condition on the match, so
the truth is known by counting.
""",
    run=run_workbench,
    tables=build_tables,
    points=build_points,
)
