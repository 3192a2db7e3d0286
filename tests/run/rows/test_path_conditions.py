"""What compares the rows of a match means what it means to the database.

In `PATTERN (a b)` the row of A is the one before B. So `A.x` and `PREV(x)` are the same value; the
matcher evaluates a condition with the one, DuckDB the same condition with the other.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from decimal import Decimal
from random import Random

import pyarrow as pa
import pytest

pytest.importorskip("duckdb")

import cernis

BEGIN = datetime(2024, 2, 27, 22, 50)
ROWS = 400


def make_rows() -> pa.Table:
    chance = Random(3)
    rows = []
    for number in range(ROWS):
        ts = BEGIN + timedelta(seconds=chance.randint(0, 5 * 86_400))
        row = {
            "n": number,
            "ts": ts,
            "d": ts.date(),
            "c": ts.time(),
            "x": chance.randint(-5, 5),
            "f": chance.choice([0.5, 1.5, -2.25, 7.0]),
            "m": Decimal(chance.randint(-30, 30)) / 10,
            "s": chance.choice(["a", "b", "ab", ""]),
        }
        if chance.random() < 0.1:
            row |= dict.fromkeys(("ts", "d", "c", "x", "f", "m", "s"))
        rows.append(row)
    kinds = {"n": pa.int64(), "ts": pa.timestamp("us"), "d": pa.date32(), "c": pa.time64("us")}
    kinds |= {"x": pa.int64(), "f": pa.float64(), "m": pa.decimal128(12, 2), "s": pa.string()}
    return pa.Table.from_pylist(rows, pa.schema(list(kinds.items())))


TABLE = make_rows()
CONDITIONS = [
    *(("flink", f"TIMESTAMPDIFF({unit}, A.ts, B.ts) {test}")
      for unit, test in (("SECOND", "< 7200"), ("MINUTE", "< 90"), ("HOUR", "= 0"),
                         ("DAY", "= -1"))),
    *(("snowflake", f"DATEDIFF({unit}, A.ts, B.ts) {test}")
      for unit, test in (("second", "< 7200"), ("minute", "< 90"), ("hour", "= 1"), ("day", "= 1"),
                         ("month", "= 1"), ("year", "= 0"))),
    ("trino", "date_diff('hour', A.ts, B.ts) BETWEEN 0 AND 5"),
    ("trino", "date_diff('day', A.d, B.d) > 1"),
    ("spark", "DATEDIFF(B.ts, A.ts) = 1"),
    ("spark", "TIMESTAMPDIFF(DAY, A.ts, B.ts) = 1"),
    ("databricks", "DATEDIFF(HOUR, A.ts, B.ts) > 20"),
    ("databricks", "DATEDIFF(B.ts, A.ts) = 2"),
    ("oracle", "B.d - A.d > 1"),
    ("oracle", "ABS(B.d - A.d) * 24 >= 48"),
    ("oracle", "B.ts - A.ts < INTERVAL '5' HOUR"),
    ("duckdb", "(B.d - A.d) / 2 = 0.5"),
    ("duckdb", "3 > B.d - A.d + 1"),
    ("duckdb", "COALESCE(B.d - A.d, 0) = 0"),
    ("duckdb", "CASE WHEN B.x > A.x THEN B.d - A.d ELSE A.d - B.d END > 1"),
    ("duckdb", "B.ts - A.ts BETWEEN INTERVAL '1' MINUTE AND INTERVAL '90' MINUTE"),
    ("duckdb", "B.ts - A.ts < INTERVAL '2500' MILLISECOND"),
    ("duckdb", "B.d > A.ts"),
    ("duckdb", "A.ts > B.d - INTERVAL '1' DAY AND B.x <> A.x"),
    ("duckdb", "B.c > A.c"),
    ("duckdb", "B.x IS DISTINCT FROM A.x"),
    ("duckdb", "B.x IS NOT DISTINCT FROM A.x"),
    ("duckdb", "FLOOR(B.f / A.f) = 1 OR CEIL(B.f + A.f) = 3"),
    ("duckdb", "SQRT(B.f * B.f + A.f * A.f) < 2"),
    ("duckdb", "GREATEST(B.s, A.s) = 'b' AND B.s <= A.s"),
    ("duckdb", "B.m + A.m = 0.3"),
    ("duckdb", "B.m - 3 * A.m < -0.3 AND A.m + B.m + 0.2 >= 0.5"),
    ("duckdb", "B.m * A.m IN (0.06, 0.3, 0.9) OR B.m * A.m * 3 = 0.18"),
    ("duckdb", "ABS(B.m - A.m) IN (0.1, 0.7)"),
    ("trino", "(B.x + A.x) / 2 = 1"),
    ("trino", "(B.x - A.x) / 2 * 2 = 2 AND A.x / B.f > 0"),
]  # fmt: skip


@pytest.mark.parametrize(("dialect", "condition"), CONDITIONS)
def test_a_condition_on_rows_of_the_match_is_that_of_the_database(
    dialect: str, condition: str
) -> None:
    text = """SELECT n FROM t MATCH_RECOGNIZE (ORDER BY n MEASURES b.n AS n
      AFTER MATCH SKIP TO NEXT ROW PATTERN (a b) DEFINE b AS {}) AS m"""
    beside = re.sub(r"\bA\.(\w+)", r"PREV(\1)", condition)
    query = cernis.SqlQuery(text.format(condition), dialect)
    assert query.plans[0].is_dependent
    found, expected = (
        [row["n"] for row in cernis.sql(text.format(one), t=TABLE, dialect=dialect)]
        for one in (condition, beside)
    )
    assert found == expected
    assert 0 < len(found) < ROWS


def test_sums_of_decimals_are_exact() -> None:
    """In double precision 0.1 + 0.2 + 0.3 is more than 0.6."""
    rows = [{"n": n, "m": Decimal(n + 1) / 10} for n in range(3)]
    text = """SELECT COUNT(*) AS rows FROM t MATCH_RECOGNIZE (ORDER BY n
      ALL ROWS PER MATCH PATTERN (^ a b b $) DEFINE b AS {})"""
    for condition in ("SUM(m) <= 0.6", "SUM(m) IN (0.3, 0.6)", "SUM(m) - FIRST(m) - 0.2 <= 0.3"):
        assert [*cernis.sql(text.format(condition), t=rows)] == [{"rows": 3}]
    long = [{"n": n, "m": Decimal("123456789012345.67")} for n in range(3)]
    with pytest.raises(cernis.DataError, match="decimals of more than 15 digits"):
        cernis.sql(text.format("SUM(m) > 1"), t=long)


def test_values_without_an_order_are_refused() -> None:
    """DuckDB and Spark have NaN above all numbers, others compare it with none."""
    rows = [{"n": n, "f": f} for n, f in enumerate((1.0, float("nan"), None))]
    text = """SELECT COUNT(*) AS n FROM t MATCH_RECOGNIZE (ORDER BY n PATTERN (a b)
      DEFINE b AS f > {})"""
    with pytest.raises(cernis.DataError, match=r"a value is NaN, .*: NULLIF\(value, 'NaN'\)"):
        cernis.sql(text.format("FIRST(f)"), t=rows)
    rows = [row for row in rows if row["n"] != 1]
    assert [*cernis.sql(text.format("FIRST(f)"), t=rows)] == [{"n": 0}]


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("B.ts - A.ts < 30", "the condition compares an interval with a whole number"),
        ("B.s < A.x", "the condition compares a text with a whole number"),
        ("B.d < A.c", "the condition compares a date with a time of the day"),
        ("A.d + B.x > B.d", "the condition calculates with a date and a whole number"),
        ("A.c + B.c > B.c", "the condition calculates with a time of the day"),
        ("ABS(B.ts) > A.x", "no function matches"),
        ("SUM(s) > A.x + B.x", "the condition calculates with a text or a time"),
        ("COALESCE(A.s, B.x) = 1", "the condition chooses between a text and a whole number"),
        ("SQRT(B.ts - A.ts) > 1", "the condition calculates with an interval"),
    ],
)
def test_kinds_that_a_database_does_not_mix_are_refused(condition: str, message: str) -> None:
    text = f"""SELECT COUNT(*) FROM t MATCH_RECOGNIZE (ORDER BY n PATTERN (a b)
      DEFINE b AS {condition})"""
    with pytest.raises(cernis.CernisError) as raised:
        cernis.sql(text, t=TABLE)
    assert message in str(raised.value)
    if "interval with" in message:
        assert "an amount of time is an INTERVAL" in str(raised.value)


def test_units_that_are_full_and_units_that_begin_are_told_apart() -> None:
    """In MEASURES and around the clause: from 10:59 to 11:01 lies no hour, or one begins."""
    rows = [{"ts": datetime(2024, 1, 1, 10, 59)}, {"ts": datetime(2024, 1, 1, 11, 1)}]
    text = """SELECT h, {} AS g FROM t MATCH_RECOGNIZE (ORDER BY ts
      MEASURES {} AS h, FIRST(ts) AS f, LAST(ts) AS l PATTERN (a b)) AS m"""
    units = {
        "trino": ("date_diff('hour', {}, {})", 0),
        "flink": ("TIMESTAMPDIFF(HOUR, {}, {})", 0),
        "databricks": ("TIMESTAMPDIFF(HOUR, {}, {})", 0),
        "snowflake": ("DATEDIFF(hour, {}, {})", 1),
        "duckdb": ("date_diff('hour', {}, {})", 1),
    }
    for dialect, (told, hours) in units.items():
        sides = told.format("f", "l"), told.format("FIRST(ts)", "LAST(ts)")
        [row] = cernis.sql(text.format(*sides), t=rows, dialect=dialect)
        assert row == {"h": hours, "g": hours}, dialect
