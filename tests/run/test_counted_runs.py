"""Conditions on whole runs, decided while reading: against the oracle, in one run and in pieces."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import cernis
from cernis.engine.spans import count_distinct, fold_spans
from cernis.engine.unary.run_sums import PartSums, SumBound
from cernis.engine.unary.thresholds import ALONE, NOTHING, RunEnds, RunThresholds
from tools.cases.differential import assert_agrees
from tools.cases.tables import make_table

CASES = int(os.environ.get("CERNIS_FUZZ_N", "100"))

Events = list[dict[str, Any]]

STRATEGIES = ("", "", "MAX", "NEXT", "LAST", "ANY", "LONGEST")
COUNTS = (
    "COUNT(DISTINCT x[a]) >= {n}",
    "{n} <= COUNT(DISTINCT x[a])",
    "COUNT(DISTINCT x[LOWER(s)]) > {n}",
    "COUNT(DISTINCT x[f]) >= {n}",
    "COUNT(x[a]) >= {n}",
    "COUNT(x) >= {n}",
    "COUNT(*) > {n}",
    "MAX(x[f]) >= {n}",
    "MIN(x[a]) < {n}",
    "x[b = 1]",
)


SUMS = (
    "SUM(x[a]) >= {n}",
    "SUM(x[c]) > {n}",
    "{n} > SUM(x[c])",
    "SUM(x[a]) <= {n}",
    "AVG(x[c]) > {n}",
    "AVG(x[a]) <= {n}",
    "AVG(x[f]) >= {n}",
    "SUM(x[a + c]) > {n}",
    "SUM(x[g]) >= {n}",
    "MIN(x[c]) >= {n}",
    "MAX(x[a]) < {n}",
    "MIN(x[f]) > {n}",
)


VALUES = """START AS b, COUNT(*) AS m, COUNT(x[a]) AS n, COUNT(DISTINCT x[a]) AS d, SUM(x[c]) AS s,
    AVG(x[c]) AS v, MIN(x[c]) AS l, MAX(x[a]) AS g, FIRST(x[s]) AS f, LAST(x[a]) AS e,
    MAX(x[s]) AS t, AVG(x[a]) - MIN(x[a]) AS h, END - START AS w"""


BODIES = {
    "E": ("E", "*"),
    "(E OR F)": ("E", "F", "COUNT(F) AS p, SUM(F[c]) AS q, COUNT(*) AS r"),
    "(E AS y OR F)": ("y, F", "F"),
    "(E FILTER E[b = 1])": ("E",),
    "((E FILTER E[b = 1]) AS y OR (E FILTER E[b = 2]) AS z)": ("z", "COUNT(y) AS p, COUNT(*) AS r"),
}
"""What is repeated, with variables that may be shown of it."""


def make_query(rng: random.Random) -> str:
    strategy = rng.choice(STRATEGIES)
    rounds = rng.choice(["->+", ":+", ":{2,}", "->{3,}"] + ["+", "{2,}"] * (strategy != ""))
    body = rng.choice([*BODIES])
    counts = rng.sample(COUNTS, rng.randint(1, 2))
    needs = not any("DISTINCT" in each or "x[a]" in each for each in counts)
    if needs and (strategy == "" or rng.random() < 0.5):
        counts.append("COUNT(DISTINCT x[a]) >= {n}")
    condition = " AND ".join(each.format(n=rng.randint(1, 3)) for each in counts)
    shown = rng.choice(["*", "x", "COUNT(x) AS n", "NONE", VALUES, *BODIES[body]])
    clauses = [
        rng.choice(["PARTITION BY [k]", ""]),
        rng.choice(["WITHIN 4 SECONDS", "WITHIN 5 EVENTS", "WITHIN 3 [t]"]),
        rng.choice(["", "CONSUME BY PARTITION"]) if strategy else "",
        rng.choice(["", "", "LIMIT 2"]),
    ]
    formula = f"{body}{rounds} AS x FILTER {condition}"
    return f"SELECT {strategy} {shown} WHERE {formula} {' '.join(clauses)}"


def make_sum_query(rng: random.Random) -> str:
    rounds = rng.choice(["->+", ":+", ":{2,}", "->{3,}"])
    conditions = [rng.choice(SUMS)]
    if rng.random() < 0.3:
        conditions.append(rng.choice(SUMS[-3:]))
    if rng.random() < 0.4:
        conditions.append(rng.choice(COUNTS).format(n=rng.randint(1, 3)))
    if rng.random() < 0.2:
        rounds, conditions = "+", ["SUM(x[a]) >= {n}", "x[a >= 0]"]
    condition = " AND ".join(each.format(n=rng.randint(-2, 4)) for each in conditions)
    shown = rng.choice(["*", "x", "COUNT(x) AS n, SUM(x[c]) AS s", "NONE", VALUES])
    clauses = [
        rng.choice(["PARTITION BY [k]", ""]),
        rng.choice(["WITHIN 4 SECONDS", "WITHIN 5 EVENTS", "WITHIN 3 [t]"]),
        rng.choice(["", "LIMIT 2"]),
    ]
    strategy = rng.choice(["MAX", "NEXT", "LAST"])
    return f"SELECT {strategy} {shown} WHERE E{rounds} AS x FILTER {condition} {' '.join(clauses)}"


def make_events(rng: random.Random, n: int) -> Events:
    times = sorted(rng.choices(range(12), k=n))
    events: Events = [
        {
            "type": rng.choice("EEEF"),
            "ts": 1000 * time,
            "t": time,
            "k": rng.choice([1, 2, None]),
            "a": rng.choice([0, 1, 2, 3, None]),
            "b": rng.choice([1, 1, 1, 2]),
            "c": rng.choice([-3, -1, 0, 1, 2, 4, None]),
            "g": rng.choice([0.5, -float("inf"), 2.0, float("inf"), None]),
            "f": rng.choice([0.5, 1.0, 2.5, float("nan"), None]),
            "s": rng.choice(["x", "X", "y", None]),
        }
        for time in times
    ]
    events[0] |= {"a": 1, "c": 1, "f": 1.0, "g": 1.0}  # columns have a type
    return events


@pytest.mark.parametrize("seed", range(CASES))
@pytest.mark.parametrize("make", [make_query, make_sum_query])
def test_runs_agree_with_the_oracle(make: Callable[[random.Random], str], seed: int) -> None:
    rng = random.Random(seed)
    query, events = cernis.query(make(rng)), make_events(rng, rng.randint(1, 12))
    assert query.plan.runs is not None, str(query)
    table = make_table(events, timed=True)
    assert_agrees(query.pattern, events, list(query.run(table)))
    session, found = query.session(), []
    for at in range(0, len(events), 3):
        found += session.push(table.slice(at, 3))
        if rng.random() < 0.5:
            session = query.thaw(session.freeze())
    found += session.finish()
    assert_agrees(query.pattern, events, found)


def test_sums_are_those_of_each_later_part() -> None:
    """Of long runs of several partitions, whose windows move on and whose values have any sign."""
    rng = np.random.default_rng(5)
    keys, values = rng.integers(0, 3, 600), rng.integers(-9, 10, 600).astype(float)
    values[rng.random(600) < 0.01] = np.nan
    places = np.arange(600)
    starts = np.maximum.accumulate(places - rng.integers(0, 200, 600))
    for bound in (SumBound(0.0), SumBound(25.0, is_strict=True), SumBound(-30.0)):
        wanted = []
        for end in places:
            own = [at for at in range(max(starts[end], 0), end + 1) if keys[at] == keys[end]]
            sums = {at: sum(values[one] for one in own if one >= at) for at in own}
            held = (at for at, total in sums.items() if total >= bound.least + bound.is_strict)
            wanted.append(next(held, -1))
        sums, found = PartSums(), []
        for at in range(0, 600, 70):
            some = slice(at, at + 70)
            pairs = np.stack([values[some], np.zeros_like(values[some])])
            found += sums.add(keys[some], places[some], starts[some], pairs, bound).tolist()
        assert found == wanted


def test_an_average_costs_no_candidates() -> None:
    text = "SELECT MAX COUNT(x) AS n WHERE E:+ AS x FILTER AVG(x[a]) > 5 AND COUNT(x) >= 3"
    query = cernis.query(f"{text} PARTITION BY [k] WITHIN 10 MINUTES")
    events = [{"type": "E", "ts": 1000 * i, "k": i % 2, "a": i % 11} for i in range(400)]
    assert query.run(events, budget=0).count() > 300
    assert "AVG(x[a]) > 5: while reading" in str(query.explain())


def test_decimals_and_large_integers_are_summed_exactly() -> None:
    cents = pa.array([Decimal("0.10"), Decimal("0.20"), Decimal("0.30")])
    large = pa.array([2**62 + 1, -(2**62), 1])
    table = pa.table({"type": ["E"] * 3, "ts": [1, 2, 3], "d": cents, "n": large})
    for condition, ends in {
        "SUM(x[d]) >= 0.6": [2],
        "SUM(x[d]) > 0.6": [],
        "AVG(x[d]) <= 0.15": [0, 1],
        "SUM(x[n]) = 1": None,
        "SUM(x[n]) > 4611686018427387904": [0],
        "SUM(x[n]) < 2": [1, 2],
    }.items():
        query = cernis.query(f"SELECT MAX * WHERE E:+ AS x FILTER {condition} WITHIN 1 SECOND")
        assert (query.plan.runs is not None) == (ends is not None)
        if ends is not None:
            assert [match.end for match in query.run(table)] == ends, condition


def test_a_burst_costs_its_events() -> None:
    """300 events of one key have 44,253 runs of four different values."""
    events = [{"type": "E", "ts": 1000 * i, "a": i % 7} for i in range(300)]
    text = (
        "SELECT {} COUNT(x) AS n WHERE E:+ AS x FILTER COUNT(DISTINCT x[a]) >= 4 WITHIN 10 MINUTES"
    )
    assert cernis.query(text.format("")).run(events, budget=50_000).count() == 44_253
    assert cernis.query(text.format("MAX")).run(events, budget=0).count() == 297
    with pytest.raises(cernis.BudgetError, match="every start of a run"):
        cernis.query(text.format("")).run(events, budget=40_000).count()


LONG = 20_000


def make_long_stream() -> pa.Table:
    """Return events of two keys, of which each reaches back over 6,000 of its own."""
    steps = range(LONG)
    columns = {
        "type": ["F" if i % 3 else "E" for i in steps],
        "ts": [100 * i for i in steps],
        "k": [i % 2 for i in steps],
        "t": [i % 977 for i in steps],
        "v": [float(i % 50) for i in steps],
    }
    return pa.table(columns)


def test_matches_of_long_runs_share_their_events() -> None:
    """Listed, each of 20,000 calls would have 6,000 events: four gigabytes."""
    table = make_long_stream()
    query = cernis.query("""
        SELECT MAX START AS b, COUNT(x) AS n, SUM(x[v]) AS s, COUNT(DISTINCT x[t]) AS d,
            MIN(x[v]) AS l, COUNT(F) AS f
        FROM S WHERE (E OR F)+ AS x FILTER COUNT(DISTINCT x[t]) >= 4
        PARTITION BY [k] WITHIN 10 MINUTES
    """)
    found = query.run(table).to_arrow()
    assert found.num_rows == LONG - 6
    last = found.slice(LONG - 7).to_pylist()[0]
    kept = range(LONG - 1, LONG - 6002, -2)
    assert (last["b"], last["n"], last["d"]) == (100 * kept[-1], len(kept), 977)
    assert last["s"] == sum(i % 50 for i in kept)
    assert last["l"] == min(i % 50 for i in kept)
    assert last["f"] == sum(1 for i in kept if i % 3)
    rest = query.session()
    pushed = (rest.push(table.slice(at, 999)).count() for at in range(0, LONG, 999))
    assert sum(pushed) == LONG - 6


@pytest.mark.parametrize(
    ("query", "matches"),
    [
        ("MAX {} WHERE (E OR F){{3,}} AS x", LONG - 4),
        ("MAX {} WHERE (E OR F)+ AS x FILTER COUNT(x) >= 3", LONG - 4),
        ("NEXT {} WHERE (E OR F)+ AS x FILTER COUNT(x) >= 300", LONG - 598),
        ("LAST {} WHERE (E AS y OR F)+ AS x FILTER SUM(x[v]) >= 100 AND x[v >= 0]", LONG - 19),
        ("MAX {} WHERE (E OR F)->+ AS x FILTER AVG(x[v]) > 20", LONG - 21),
        ("MAX {} WHERE (E OR F)->+ AS x FILTER MIN(x[v]) >= 0 AND MAX(x[v]) >= 48", LONG - 48),
        ("LONGEST {} WHERE (E OR F)+ AS x FILTER COUNT(DISTINCT x[t]) >= 4", LONG - 6000),
        ("LONGEST {} WHERE (E OR F){{3,}} AS x", LONG - 6000),
    ],
)
def test_windows_of_many_events_cost_no_list_for_each_match(query: str, matches: int) -> None:
    text = f"SELECT {query.format('COUNT(x) AS n')} PARTITION BY [k] WITHIN 10 MINUTES"
    found = cernis.query(text).run(make_long_stream(), budget=0).to_arrow()
    assert found.num_rows == matches
    assert found.column("n").to_pylist()[-1] > 2900


def test_alternatives_that_an_event_may_both_fit_are_no_runs() -> None:
    text = "SELECT MAX * WHERE ((E FILTER E[{}]) AS y OR (E FILTER E[{}]) AS z)+ WITHIN 1 SECOND"
    assert cernis.query(text.format("a > 1", "a > 2")).plan.runs is None
    assert cernis.query(text.format("a > 1", "a < 1")).plan.runs is not None
    assert cernis.query("SELECT MAX * WHERE (E OR * AS z)+").plan.runs is None
    assert cernis.query("SELECT MAX * WHERE (E OR F AS z)+").plan.runs is not None
    assert cernis.query("SELECT MAX * WHERE (E FILTER E[a] < E[b])+").plan.runs is None


@pytest.mark.parametrize("combine", [np.add, np.fmin, np.maximum])
def test_totals_of_spans_are_those_of_their_numbers(combine: np.ufunc) -> None:
    rng = np.random.default_rng(3)
    for size in (1, 2, 7, 64, 65, 300):
        values = rng.integers(-9, 9, size).astype(float)
        low = rng.integers(0, size, 200)
        high = np.minimum(low + rng.integers(0, size + 1, 200), size)
        wanted = [
            combine.reduce(values[a:b]) if a < b else 0.0 for a, b in zip(low, high, strict=True)
        ]
        assert fold_spans(combine, values, low, high).tolist() == wanted


def test_different_values_of_spans_are_counted() -> None:
    rng = np.random.default_rng(4)
    codes = rng.integers(-1, 9, 200)
    low = rng.integers(0, 200, 300)
    high = np.minimum(low + rng.integers(0, 40, 300), 200)
    found = count_distinct(codes, low, high)
    spans = zip(low, high, strict=True)
    assert found.tolist() == [len({*codes[a:b].tolist()} - {-1}) for a, b in spans]


def test_windows_leave_and_values_are_forgotten() -> None:
    text = (
        "SELECT MAX COUNT(x) AS n WHERE E+ AS x FILTER COUNT(DISTINCT x[a]) >= 3 PARTITION BY [k]"
    )
    session = cernis.query(f"{text} WITHIN 4 SECONDS").session()
    found = 0
    for low in range(0, 600, 20):
        rows = range(low, low + 20)
        events = [{"type": "E", "ts": 1000 * i, "k": i // 100, "a": i} for i in rows]
        found += session.push(events).count()
        session.forget()
    assert found == 600 - 6 * 2
    assert session.metrics().stored <= 20


def test_thresholds_forget_and_renumber() -> None:
    runs = RunThresholds([2, 1])
    codes = np.array([[0, 1, 0, 1], [ALONE, NOTHING, ALONE, ALONE]])
    runs.begin(0, codes)
    keys, starts, zeros = np.array([0, 5, 0, 5]), np.array([0, 1, 0, 1]), np.zeros(4, np.int64)
    kept, _ = runs.add(RunEnds(keys, starts, np.arange(4), zeros, zeros, np.arange(4)))
    assert not kept.any()
    runs.keep_keys(np.array([5]))
    runs.begin(4, np.array([[2], [NOTHING]]))
    last = RunEnds(*(np.array([number]) for number in (0, 1, 4, 0, 0, 9)))
    kept, latest = runs.add(last)
    assert (kept.tolist(), latest.tolist()) == ([True], [3])
    segment = runs.take(last, latest)
    assert (segment.ends.tolist(), segment.label) == ([4], -1)
    assert segment.list_events(segment.first).label.tolist() == [1, 3, 9]
    runs.forget_before(4)
    assert runs.entries.position.tolist() == [4]
