"""`cernis bench match-recognize`: SQL's row patterns, by the number of rows.

Three statements that people write (V shapes, sessions, dips) and two patterns on which backtracking
matchers take quadratic and exponential time. Of the first three, the answer is also computed by
hand, with window functions and with a self-join on the same database, and all of it on Spark, too:
the numbers of rows agree, or the benchmark fails. `CERNIS_FLINK` names a Python that has
`apache-flink`: then Flink runs the V shapes of its manual, and so does Cernis. `CERNIS_TRINO` is
the address of a Trino server, which runs two of the statements.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import log
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pyarrow as pa

import cernis
from benchmarks.benchmark import Benchmark, Step
from benchmarks.clock import race, time_call
from benchmarks.process import ask_process
from benchmarks.record import EXPONENT, Case, Record, divide, find
from benchmarks.scale import BenchmarkScale
from benchmarks.table import Table, tabulate
from tools.trino_rows import run_on_trino

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
    "dips": """
SELECT * FROM t MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY ts
  MEASURES top.ts AS first, top.price AS high, bottom.price AS low
  AFTER MATCH SKIP TO NEXT ROW
  PATTERN (top bottom back)
  DEFINE bottom AS price < PREV(price), back AS price > PREV(price))""",
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
    "dips": """
WITH near AS (
  SELECT *, lead(price) OVER w AS low, lead(price, 2) OVER w AS back FROM t
  WINDOW w AS (PARTITION BY symbol ORDER BY ts)
)
SELECT symbol, ts AS first, price AS high, low FROM near WHERE low < price AND back > low
""",
}
BY_JOIN = {
    "dips": """
WITH numbered AS (
  SELECT *, row_number() OVER (PARTITION BY symbol ORDER BY ts) AS n FROM t
)
SELECT a.symbol, a.ts AS first, a.price AS high, b.price AS low
FROM numbered AS a
JOIN numbered AS b ON b.symbol = a.symbol AND b.n = a.n + 1
JOIN numbered AS c ON c.symbol = a.symbol AND c.n = a.n + 2
WHERE b.price < a.price AND c.price > b.price
""",
}
ON_FLINK = """
SELECT * FROM t MATCH_RECOGNIZE (
  PARTITION BY g ORDER BY ts
  MEASURES strt.x AS top, LAST(down.x) AS bottom, up.x AS back
  ONE ROW PER MATCH
  AFTER MATCH SKIP TO LAST up
  PATTERN (strt down+ up)
  DEFINE
    down AS (LAST(down.x, 1) IS NULL AND down.x < strt.x) OR down.x < LAST(down.x, 1),
    up AS up.x > LAST(down.x)
) AS m"""
ON_TRINO = {
    "V shapes": """
SELECT * FROM t MATCH_RECOGNIZE (
  PARTITION BY g ORDER BY t
  MEASURES strt.t AS first, LAST(up.t) AS last, LAST(down.x) AS bottom
  AFTER MATCH SKIP TO LAST up
  PATTERN (strt down+ up+)
  DEFINE down AS x < PREV(x), up AS x > PREV(x)) AS m""",
    "A+ B+": """
SELECT * FROM t MATCH_RECOGNIZE (
  ORDER BY t MEASURES COUNT(*) AS n
  PATTERN (a+ b+) DEFINE a AS x >= 0, b AS x < 0) AS m""",
}
MISSING = "Flink is missing: CERNIS_FLINK names a Python that has apache-flink"
NO_TRINO = "Trino is missing: CERNIS_TRINO is the address of a server"


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
        for kind, texts in OTHERWISE.items():
            contestants |= {(kind, name): _run(text, ticks) for name, text in texts.items()}
        found = {name: len(contestants[name]()) for name in contestants}
        actions = {n: time_call(action, process_time) for n, action in contestants.items()}
        best = race(actions, scale.rounds)
        for name in STATEMENTS:
            case: Case = {"statement": name, "rows": rows}
            records.append(Record(NAME, "seconds", best["", name], "s", case))
        records += _list_rates(rows, found, best, "")
    records += _list_exponents(records, scale)
    if scale.pattern_spark_rows:
        step("Spark", len(scale.pattern_rows), len(scale.pattern_rows) + 2)
        records += _run_on_spark(scale)
    step("Flink", len(scale.pattern_rows) + 1, len(scale.pattern_rows) + 2)
    return [*records, *_run_on_flink(scale), *_run_on_trino(scale)]


def _list_rates(
    rows: int,
    found: Mapping[tuple[str, str], int],
    best: Mapping[tuple[str, str], float],
    where: str,
) -> list[Record]:
    """Return the rates of all contestants, whose numbers of rows agree."""
    records = []
    for kind, name in best:
        assert found[kind, name] == found["", name], (kind, name, where)
        measure = f"{kind or 'rate'}{where}"
        case: Case = {"statement": name, "rows": rows}
        records.append(Record(NAME, measure, rows / best[kind, name], "rows/s", case))
    return records


def _run_on_spark(scale: BenchmarkScale) -> list[Record]:
    """Measure the same statements on Spark."""
    plain = {f"{kind}/{n}": text for kind, own in OTHERWISE.items() for n, text in own.items()}
    clauses = {f"/{name}": STATEMENTS[name] for name in BY_HAND}
    rows = scale.pattern_spark_rows
    request = {"rows": rows, "rounds": 1, "clauses": clauses, "plain": plain}
    answer = ask_process("benchmarks.spark.row_patterns_process", request)
    found, best = (
        {(name.partition("/")[0], name.partition("/")[2]): n for name, n in answer[kind].items()}
        for kind in ("rows", "seconds")
    )
    return _list_rates(rows, found, best, ON_SPARK)


def _run_on_flink(scale: BenchmarkScale) -> list[Record]:
    """Measure a statement of Flink's there and here."""
    python, rows = os.environ.get("CERNIS_FLINK", ""), scale.pattern_flink_rows
    case: Case = {"statement": "V shapes as Flink writes them", "rows": rows}
    chance = np.random.default_rng(SEED)
    prices = chance.integers(0, 20, rows).tolist()
    keys = chance.integers(0, 100, rows).tolist()
    table = pa.table(
        {
            "g": [str(key) for key in keys],
            "ts": pa.array(range(rows), pa.timestamp("s")),
            "x": prices,
        }
    )
    run = partial(cernis.sql, ON_FLINK, t=table, dialect="flink")
    number = len(run())
    own = race({"": time_call(run)}, scale.rounds)[""]
    records = [Record(NAME, "here", rows / own, "rows/s", case)]
    if not python:
        return [*records, Record(NAME, "flink", None, "rows/s", case, MISSING)]
    given = [
        {"g": str(g), "ts": i, "x": x} for i, (g, x) in enumerate(zip(keys, prices, strict=True))
    ]
    script = Path(__file__).parent.parent / "tools" / "flink_rows.py"
    done = subprocess.run(
        [python, str(script)],
        input=json.dumps([{"statement": ON_FLINK, "rows": given}]),
        capture_output=True,
        text=True,
        check=True,
    )
    [answer] = json.loads(done.stdout)
    assert len(answer["rows"]) == number, (len(answer["rows"]), number)
    return [*records, Record(NAME, "flink", rows / answer["seconds"], "rows/s", case)]


def _run_on_trino(scale: BenchmarkScale) -> list[Record]:
    """Measure two statements there and here, on rows that are part of the text for Trino."""
    server, rows = os.environ.get("CERNIS_TRINO", ""), scale.pattern_trino_rows
    chance = np.random.default_rng(SEED)
    keys, prices = (chance.integers(0, most, rows).tolist() for most in (100, 20))
    given = [
        {"g": str(g), "t": i, "x": x} for i, (g, x) in enumerate(zip(keys, prices, strict=True))
    ]
    table = pa.Table.from_pylist(given)
    records = []
    for name, text in ON_TRINO.items():
        case: Case = {"statement": name, "rows": rows}
        run = partial(cernis.sql, text, t=table, dialect="trino")
        number = len(run())
        own = race({"": time_call(run)}, scale.rounds)[""]
        records.append(Record(NAME, "beside", rows / own, "rows/s", case))
        if not server:
            records.append(Record(NAME, "trino", None, "rows/s", case, NO_TRINO))
            continue
        began = perf_counter()
        found = run_on_trino(server, text, given)
        seconds = perf_counter() - began
        assert len(found) == number, (name, len(found), number)
        records.append(Record(NAME, "trino", rows / seconds, "rows/s", case))
    return records


OTHERWISE = {"by hand": BY_HAND, "self-join": BY_JOIN}
ON_SPARK = " on Spark"


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
    """Return tables of rates and of growth exponents; of what was not measured none."""
    known = {"statement": "statement", "rows": "rows"}
    ways = {"rows/s": "rate", "by hand": "by hand", "self-join": "self-join"}
    on_spark = {title: f"{measure}{ON_SPARK}" for title, measure in ways.items()}
    growth = {"statement": "statement", "exponent": "growth"}
    flink = {**known, "Cernis": "here", "Flink": "flink"}
    trino = {**known, "Cernis": "beside", "Trino": "trino"}
    tables = [
        tabulate(records, "Rows per second", "rate", {**known, **ways}),
        tabulate(records, "Growth of the time with the rows", "growth", growth),
        tabulate(records, "Rows per second on Spark", f"rate{ON_SPARK}", {**known, **on_spark}),
        tabulate(records, "Beside Flink SQL", "here", flink, _find_note(records, "flink")),
        tabulate(records, "Beside Trino", "beside", trino, _find_note(records, "trino")),
    ]
    return [table for table in tables if table.rows]


def _find_note(records: Sequence[Record], measure: str) -> str:
    """Return why an engine was not measured; empty: it was."""
    return next((each.note for each in records if each.measure == measure and each.note), "")


def build_points(records: Sequence[Record]) -> list[Mapping[str, object]]:
    """Return seconds by rows."""
    return [{**r.case, "seconds": r.value} for r in records if r.measure == "seconds"]


ROW_PATTERNS = Benchmark(
    name=NAME,
    title="MATCH_RECOGNIZE",
    question="""
Does the time of `MATCH_RECOGNIZE` grow with the rows, whatever the pattern?

Five statements on DuckDB, in one process, from parsing to the result. `A+ B+` and `((A+)+ B)` have
rows that all fit A and none that fits B: backtracking takes quadratic and exponential time for each
start.
*By hand* is the same answer with window functions on the same database, *self-join* with joins of
numbered rows. On Spark, on the cores of this machine, a result is counted. Seconds are those of the
processor, on Spark of Java and all workers. Flink runs the V shapes of its manual over a file with
one task, from the start of the job on, and Cernis the same statement over a table, both by the
clock; its conditions depend on the path. Trino runs two statements once, over rows that stand in
their text, by the clock.
""",
    run=run_row_patterns,
    tables=build_tables,
    points=build_points,
)
