"""What compares the rows of a match means what it means to the database.

In `PATTERN (a b)` the row of A is the one before B. So `A.x` and `PREV(x)` are the same value; the
matcher evaluates a condition with the one, DuckDB the same condition with the other.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
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
            "s": chance.choice(["a", "b", "ab", ""]),
        }
        if chance.random() < 0.1:
            row |= dict.fromkeys(("ts", "d", "c", "x", "f", "s"))
        rows.append(row)
    kinds = (pa.int64(), pa.timestamp("us"), pa.date32(), pa.time64("us"), pa.int64(), pa.float64())
    names = ("n", "ts", "d", "c", "x", "f")
    fields = [*zip(names, kinds, strict=True), ("s", pa.string())]
    return pa.Table.from_pylist(rows, pa.schema(fields))


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
