"""`cernis bench match-recognize`: SQL's row patterns, by the number of rows.

Two statements that people write (V shapes, sessions) and two patterns on which backtracking
matchers take quadratic and exponential time. Of the first two, the answer is also computed by hand,
with window functions on the same database: the numbers of rows agree, or the benchmark fails.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import log
from typing import Any

import numpy as np
import pyarrow as pa

import cernis
from benchmarks.benchmark import Benchmark, Step
from benchmarks.clock import race, time_call
from benchmarks.record import EXPONENT, Case, Record, divide, find
from benchmarks.scale import BenchmarkScale
from benchmarks.table import Table, tabulate

NAME = "match-recognize"
SEED = 7
STATEMENTS = {
    "V shapes": """
SELECT * FROM t MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY ts
  MEASURES strt.ts AS first, LAST(up.ts) AS last, LAST(down.price) AS bottom
  AFTER MATCH SKIP TO LAST up
  PATTERN (strt down+ up+)
  DEFINE down AS price < PREV(price), up AS price > PREV(price))""",
    "sessions": """
SELECT * FROM t MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY ts
  MEASURES FIRST(ts) AS first, LAST(ts) AS last, COUNT(*) AS n
  PATTERN (start more*)
  DEFINE more AS ts - PREV(ts) < 40)""",
    "A+ B+": """
SELECT * FROM t MATCH_RECOGNIZE (
  ORDER BY ts MEASURES COUNT(*) AS n
  PATTERN (a+ b+) DEFINE a AS price > 0, b AS price < 0)""",
    "((A+)+ B)": """
SELECT * FROM t MATCH_RECOGNIZE (
  ORDER BY ts MEASURES COUNT(*) AS n
  PATTERN ((a+)+ b) DEFINE a AS price > 0, b AS price < 0)""",
}
BY_HAND = {
    "V shapes": """
WITH moves AS (
  SELECT *, sign(price - lag(price) OVER w) AS move FROM t
  WINDOW w AS (PARTITION BY symbol ORDER BY ts)
), turns AS (
  SELECT *, move IS DISTINCT FROM lag(move) OVER (PARTITION BY symbol ORDER BY ts) AS turn
  FROM moves
), runs AS (
  SELECT *, count_if(turn) OVER (PARTITION BY symbol ORDER BY ts) AS run FROM turns
), grouped AS (
  SELECT symbol, run, any_value(move) AS move, min(ts) AS first, max(ts) AS last,
    arg_max(price, ts) AS bottom
  FROM runs GROUP BY symbol, run
), pairs AS (
  SELECT *, lead(move) OVER w AS next_move, lead(last) OVER w AS up FROM grouped
  WINDOW w AS (PARTITION BY symbol ORDER BY run)
)
SELECT symbol, first, up AS last, bottom FROM pairs WHERE move = -1 AND next_move = 1
""",
    "sessions": """
WITH gaps AS (
  SELECT *, coalesce(ts - lag(ts) OVER (PARTITION BY symbol ORDER BY ts) >= 40, true) AS new FROM t
), numbered AS (
  SELECT *, count_if(new) OVER (PARTITION BY symbol ORDER BY ts) AS session FROM gaps
)
SELECT symbol, min(ts) AS first, max(ts) AS last, count(*) AS n FROM numbered
GROUP BY symbol, session
""",
}


def make_ticks(rows: int) -> pa.Table:
    """Return prices that move at random, of a hundred symbols."""
    chance = np.random.default_rng(SEED)
    return pa.table(
        {
            "symbol": chance.integers(0, 100, rows),
            "ts": 2 * np.arange(rows) + np.cumsum(chance.integers(0, 2, rows)),
            "price": 1000 + chance.integers(-9, 10, rows),
        }
    )


def _run(statement: str, ticks: pa.Table) -> Callable[[], Any]:
    return partial(cernis.sql, statement, t=ticks)


def run_row_patterns(scale: BenchmarkScale, step: Step) -> list[Record]:
    """Measure each statement at each number of rows, in turns."""
    records: list[Record] = []
    for done, rows in enumerate(scale.pattern_rows):
        step(f"{rows:,} rows", done, len(scale.pattern_rows))
        ticks = make_ticks(rows)
        contestants = {("", name): _run(text, ticks) for name, text in STATEMENTS.items()}
        contestants |= {("by hand", name): _run(text, ticks) for name, text in BY_HAND.items()}
        found = {name: len(contestants[name]()) for name in contestants}
        for name in BY_HAND:
            assert found["", name] == found["by hand", name], name
        best = race({n: time_call(action) for n, action in contestants.items()}, scale.rounds)
        for name in STATEMENTS:
            case: Case = {"statement": name, "rows": rows}
            records.append(Record(NAME, "seconds", best["", name], "s", case))
            records.append(Record(NAME, "rate", rows / best["", name], "rows/s", case))
            if name in BY_HAND:
                rate = rows / best["by hand", name]
                records.append(Record(NAME, "by hand", rate, "rows/s", case))
    return [*records, *_list_exponents(records, scale)]


def _list_exponents(records: Sequence[Record], scale: BenchmarkScale) -> list[Record]:
    """Return by which power of the rows the time grows, over the last factor of ten."""
    fewer, more = scale.pattern_rows[-2:]
    found = []
    for name in STATEMENTS:
        less, most = (find(records, "seconds", statement=name, rows=n) for n in (fewer, more))
        ratio = divide(most, less)
        value = None if ratio is None else log(ratio) / log(more / fewer)
        found.append(Record(NAME, "growth", value, EXPONENT, {"statement": name}))
    return found


def build_tables(records: Sequence[Record]) -> list[Table]:
    """Return a table of rates, and one of growth exponents."""
    rates = {"statement": "statement", "rows": "rows", "rows/s": "rate", "by hand": "by hand"}
    growth = {"statement": "statement", "exponent": "growth"}
    return [
        tabulate(records, "Rows per second", "rate", rates),
        tabulate(records, "Growth of the time with the rows", "growth", growth),
    ]


def build_points(records: Sequence[Record]) -> list[Mapping[str, object]]:
    """Return seconds by rows."""
    return [{**r.case, "seconds": r.value} for r in records if r.measure == "seconds"]


ROW_PATTERNS = Benchmark(
    name=NAME,
    title="MATCH_RECOGNIZE",
    question="""
Does the time of `MATCH_RECOGNIZE` grow with the rows, whatever the pattern?

Four statements on DuckDB, in one process, from parsing to the result. `A+ B+` and `((A+)+ B)` have
rows that all fit A and none that fits B: backtracking takes quadratic and exponential time for each
start.
*By hand* is the same answer with window functions on the same database.
""",
    run=run_row_patterns,
    tables=build_tables,
    points=build_points,
)
