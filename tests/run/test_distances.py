"""Conditions on the difference of two events, which indexes decide, against the oracle."""

from __future__ import annotations

import os
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import cernis
from cernis.events.evaluation.reach import ABOVE, BELOW, find_bound
from cernis.testing.oracle import evaluate
from tools.cases.differential import comparable_match

MORE = 40 if os.environ.get("HYPOTHESIS_PROFILE", "ci") == "ci" else 2000
NUMBERS: dict[str, list[Any]] = {
    "int": [0, 1, 5, 6, -4, 2**53, 2**53 + 1, 2**53 + 5, 2**61, -(2**61), None],
    "float": [0.0, -0.0, 1.0, 1 + 2**-52, 6.0, -4.0, 5.0, 0.1, 0.3, 0.2, 1e308, -1e308, 5e-324,
              float("inf"), float("-inf"), float("nan"), None],
    "small": [0, 1, 2, 3, 99, 100, 101, None],
}  # fmt: skip
TYPES = {"int": pa.int64(), "float": pa.float64(), "small": pa.int64()}
CONDITIONS = [
    "ABS(a[v] - b[v]) <= 5",
    "ABS(b[v] - a[v]) < 5",
    "5 > ABS(a[v] - b[v])",
    "ABS(a[v] - b[v]) <= 0.1",
    "ABS(a[v] - b[v]) < 0.01 * a[v]",
    "ABS(b[v] - a[v]) < a[v] * 0.5",
    "ABS(a[v] - b[v]) <= 0.01 * a[v]",
    "ABS(a[v] - b[v]) < b[v] * 0.01",
    "ABS(a[v] - b[v]) < b[w]",
    "ABS(2 * a[v] - b[w]) <= a[w]",
    "b[v] - a[v] <= 5",
    "b[v] - a[v] > 0.2",
    "a[v] - b[v] >= -1",
    "b[v] - a[v] < a[w]",
    "NOT ABS(a[v] - b[v]) > 5",
    "ABS(a[v] - b[v]) > 5",
    "ABS(a[v] - b[v]) <= 5 AND ABS(a[w] - b[w]) <= 5",
    "ABS(a[v] - b[v]) <= 5 OR a[w] = b[w]",
]
FORMULAS = [
    "A AS a ; B AS b",
    "A AS a ALL B AS b",
    "* AS a ALL B AS b",
    "A AS a ; B AS c ; B AS b",
    "A AS a : B AS b",
]


def compare_with_oracle(text: str, table: pa.Table, **options: Any) -> None:
    """Run a query in one piece, in two pieces and thawed, and compare it with the oracle."""
    query = cernis.query(text)
    expected = sorted(map(comparable_match, evaluate(query.pattern, table.to_pylist())))
    assert sorted(map(comparable_match, query.run(table, **options))) == expected, text
    session = query.session(**options)
    found = list(session.push(table.slice(0, 4)))
    session = query.thaw(session.freeze())
    found += [*session.push(table.slice(4)), *session.finish()]
    assert sorted(map(comparable_match, found)) == expected, text
    assert query.run(table, **options).count() == len(expected)


@pytest.mark.parametrize("seed", range(MORE))
def test_differences_of_numbers(seed: int) -> None:
    chance = random.Random(seed)
    kind = chance.choice([*TYPES])
    rows: dict[str, Any] = {"type": [chance.choice("AB") for _ in range(9)], "ts": [*range(9)]}
    for name in "vw":
        values = [chance.choice(NUMBERS[kind]) for _ in range(9)]
        rows[name] = pa.array(values, TYPES[kind])
    condition, formula = chance.choice(CONDITIONS), chance.choice(FORMULAS)
    within = chance.choice(["", " WITHIN 4 EVENTS"])
    text = f"SELECT * FROM S WHERE ({formula}) FILTER {condition}{within}"
    compare_with_oracle(text, pa.table(rows))


@pytest.mark.parametrize("share", [5e-324, 0.01, 0.1, 1 / 3, 0.4999999999999999, 0.5])
def test_bounds_at_a_share_of_a_value_rise_with_it(share: float) -> None:
    chance = np.random.default_rng(7)
    words = chance.integers(-(2**63), 2**63, 4000)
    near = np.nextafter(2.0 ** np.repeat(chance.integers(-1070, 1020, 200), 2), [0.0, np.inf] * 200)
    centers = np.concatenate([words.view(np.float64), near, -near, near / share, -near / share])
    centers = np.sort(centers[np.isfinite(centers)])
    centers = np.unique(np.concatenate([centers, np.nextafter(centers, np.inf)]))
    with np.errstate(all="ignore"):
        operands = pa.array(centers), pa.array(share * centers)
    for function in (BELOW, ABOVE):
        found = find_bound(function, [*operands], len(centers))
        bounds = np.asarray(found.drop_null().to_numpy(zero_copy_only=False))
        assert len(bounds) > len(centers) // 2
        assert (np.diff(bounds) >= 0).all()


@pytest.mark.parametrize("seed", range(MORE // 2))
def test_differences_of_times(seed: int) -> None:
    chance = random.Random(seed)
    size, at = 9, 0
    seconds, others = [], []
    for _ in range(size):
        at += chance.choice((0, 1, 2, 60))
        seconds.append(at)
        others.append(chance.choice((at - 5, at + 3, None)))
    types = [chance.choice("AB") for _ in range(size)]
    condition = chance.choice(
        (
            "b[ts] - a[ts] <= 2 SECONDS",
            "b[ts] - a[ts] < 2 SECONDS",
            "a[ts] + 60 SECONDS > b[ts]",
            "b[ts] - 1 SECOND > a[ts]",
            "b[at] - a[at] <= 5 SECONDS",
            "b[ts] - a[ts] <= 60 SECONDS AND ABS(a[v] - b[v]) <= 1",
            "b[ts] - a[at] < 5 SECONDS",
        )
    )
    formula = chance.choice(FORMULAS)
    within = chance.choice(["", " WITHIN 62 SECONDS", " WITHIN 3 EVENTS"])
    text = f"SELECT * FROM S WHERE ({formula}) FILTER {condition}{within}"
    query = cernis.query(text)
    numbers = [chance.choice((1, 2, 5, None)) for _ in range(size)]
    rows = [
        {"type": type_, "ts": time, "at": other, "v": number}
        for type_, time, other, number in zip(types, seconds, others, numbers, strict=True)
    ]
    expected = sorted(map(comparable_match, evaluate(query.pattern, rows, tick=10**9)))
    begin = datetime(1969, 12, 31, 23, 59, tzinfo=UTC)

    def write(row: dict[str, Any]) -> dict[str, Any]:
        spans = {name: row[name] for name in ("ts", "at")}
        known = {
            name: None if value is None else begin + timedelta(seconds=value)
            for name, value in spans.items()
        }
        return {**row, **known, "when": known["ts"]}

    timed = pa.Table.from_pylist([write(row) for row in rows])
    texts = timed.set_column(1, "ts", timed["ts"].cast(pa.string()))
    for table, options in (
        (timed, {}),
        (texts, {}),
        (timed, {"time": "when"}),
        (pa.Table.from_pylist(rows), {"time_unit": "s"}),
    ):
        found = [*query.run(table, **options)]
        assert sorted(map(comparable_match, found)) == expected, (text, options)


def test_a_column_that_is_not_the_time_of_events_gives_no_gap() -> None:
    begin = datetime(2024, 1, 1, tzinfo=UTC)
    times = [begin + timedelta(minutes=minute) for minute in (0, 30, 1)]
    table = pa.table({"type": ["A", "B", "B"], "when": [1, 2, 3], "ts": times})
    text = "SELECT * FROM S WHERE A AS a ; B AS b FILTER b[ts] - a[ts] <= 5 MINUTES"
    query = cernis.query(text)
    assert [match.end for match in query.run(table, time="when")] == [2]
    assert "in the order of time" in str(query.explain(table.slice(0, 1)))
    assert "by an ordered index" in str(query.explain(table, time="when"))
