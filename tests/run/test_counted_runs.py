"""Conditions on whole runs, decided while reading: against the oracle, in one run and in pieces."""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import pytest

import cernis
from cernis.engine.unary.thresholds import ALONE, NOTHING, RunThresholds
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


def make_query(rng: random.Random) -> str:
    strategy = rng.choice(STRATEGIES)
    rounds = rng.choice(["->+", ":+", ":{2,}", "->{3,}"] + ["+", "{2,}"] * (strategy != ""))
    body = rng.choice(["E", "E", "(E OR F)", "(E FILTER E[b = 1])"])
    counts = rng.sample(COUNTS, rng.randint(1, 2))
    if not any("DISTINCT" in each or "x[a]" in each for each in counts):
        counts.append("COUNT(DISTINCT x[a]) >= {n}")
    condition = " AND ".join(each.format(n=rng.randint(1, 3)) for each in counts)
    shown = rng.choice(["*", "x", "COUNT(x) AS n", "NONE"])
    clauses = [
        rng.choice(["PARTITION BY [k]", ""]),
        rng.choice(["WITHIN 4 SECONDS", "WITHIN 5 EVENTS", "WITHIN 3 [t]"]),
        rng.choice(["", "CONSUME BY PARTITION"]) if strategy else "",
        rng.choice(["", "", "LIMIT 2"]),
    ]
    formula = f"{body}{rounds} AS x FILTER {condition}"
    return f"SELECT {strategy} {shown} WHERE {formula} {' '.join(clauses)}"


def make_events(rng: random.Random, n: int) -> Events:
    times = sorted(rng.choices(range(12), k=n))
    return [
        {
            "type": rng.choice("EEEF"),
            "ts": 1000 * time,
            "t": time,
            "k": rng.choice([1, 2, None]),
            "a": rng.choice([0, 1, 2, 3, None]),
            "b": rng.choice([1, 1, 1, 2]),
            "f": rng.choice([0.5, 1.0, 2.5, float("nan"), None]),
            "s": rng.choice(["x", "X", "y", None]),
        }
        for time in times
    ]


@pytest.mark.parametrize("seed", range(CASES))
def test_runs_agree_with_the_oracle(seed: int) -> None:
    rng = random.Random(seed)
    query, events = cernis.query(make_query(rng)), make_events(rng, rng.randint(1, 12))
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
    keys, starts = np.array([0, 5, 0, 5]), np.array([0, 1, 0, 1])
    assert not runs.decide(keys, starts, np.arange(4)).any()
    runs.keep_keys(np.array([5]))
    runs.begin(4, np.array([[2], [NOTHING]]))
    assert runs.decide(np.array([0]), np.array([1]), np.array([4])).tolist() == [True]
    assert runs.find_latest(np.array([4])).tolist() == [3]
    runs.forget_before(4)
    assert runs.entries[0].tolist() == [4]
