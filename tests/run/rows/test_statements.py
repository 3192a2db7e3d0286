"""Statements with MATCH_RECOGNIZE on DuckDB, against the oracle and by hand."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta
from decimal import Decimal
from subprocess import run as run_process
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cernis
from cernis.plan.rows.write import QueryWriter
from cernis.run.rows.host import HostLimits
from tools.cases.row_patterns import RowCase, draw_case

SCHEMA = pa.schema([("g", pa.string()), ("t", pa.int64()), ("x", pa.int64())])
PRICES = [12, 17, 25, 12, 15, 20, 25, 19, 15, 25, 25, 14, 12, 15]
TICKS = pa.table({"symbol": ["ACME"] * 14, "price": PRICES, "ts": list(range(14))})
VEE = """PARTITION BY symbol ORDER BY ts
  MEASURES strt.ts AS first, LAST(up.ts) AS last
  {rows}
  AFTER MATCH SKIP TO LAST up
  PATTERN (strt down+ up+)
  DEFINE down AS price < PREV(price), up AS price > PREV(price)"""


@pytest.fixture(scope="module")
def database() -> Any:
    with duckdb.connect() as connection:
        yield connection


def rows_of(found: cernis.SqlRows) -> list[tuple[Any, ...]]:
    """Return rows with whole numbers as such: sums of them are decimals in Arrow."""
    return [
        tuple(int(value) if isinstance(value, Decimal) else value for value in row.values())
        for row in found
    ]


def run(case: RowCase, database: Any) -> list[tuple[Any, ...]] | None:
    try:
        table = pa.Table.from_pylist(case.rows, SCHEMA)
        return rows_of(cernis.sql(case.statement, t=table, connection=database))
    except cernis.QueryError as error:
        if "AFTER MATCH SKIP TO" not in str(error):
            raise
        return None


@given(seed=st.integers(0, 10**9))
@settings(max_examples=settings.default.max_examples * 5 // 8)
def test_random_statements_return_what_the_standard_says(database: Any, seed: int) -> None:
    case = draw_case(seed)
    assert run(case, database) == case.expected
    assert run(case, None) == case.expected


@given(seed=st.integers(0, 10**9))
@settings(max_examples=settings.default.max_examples * 5 // 8)
def test_conditions_that_depend_on_the_path(database: Any, seed: int) -> None:
    case = draw_case(seed, dependent=True)
    assert run(case, database) == case.expected
    assert run(case, None) == case.expected


def test_a_vee() -> None:
    found = cernis.sql(
        f"SELECT first, last FROM ticks MATCH_RECOGNIZE ({VEE.format(rows='')})", ticks=TICKS
    )
    assert rows_of(found) == [(2, 6), (6, 9), (10, 13)]
    assert found.to_arrow().schema.names == ["first", "last"]


def test_clauses_stand_anywhere_in_a_statement() -> None:
    """Common table expressions, joins, one clause on top of another."""
    found = cernis.sql(
        f"""WITH cheap AS (SELECT * FROM ticks WHERE price < 100),
        vees AS (
          SELECT * FROM cheap AS c MATCH_RECOGNIZE ({VEE.format(rows="ONE ROW PER MATCH")}) AS v)
        SELECT m.n, other.first FROM (SELECT * FROM vees) MATCH_RECOGNIZE (
          ORDER BY first MEASURES COUNT(*) AS n, FIRST(a.first) AS start PATTERN (a+)) AS m
        JOIN ticks MATCH_RECOGNIZE ({VEE.format(rows="ONE ROW PER MATCH")}) AS other
          ON other.first = m.start;""",
        ticks=TICKS,
    )
    assert rows_of(found) == [(3, 2)]


def test_all_rows_have_the_columns_of_their_table() -> None:
    text = f"SELECT * FROM ticks MATCH_RECOGNIZE ({VEE.format(rows='ALL ROWS PER MATCH')})"
    found = cernis.sql(text, ticks=TICKS)
    assert found.to_arrow().schema.names == ["symbol", "ts", "first", "last", "price"]
    assert [row["ts"] for row in found] == [2, 3, 4, 5, 6, 6, 7, 8, 9, 10, 11, 12, 13]


def test_equal_values_of_order_by_keep_the_order_of_the_rows() -> None:
    table = pa.table({"k": list(range(6)), "t": [0] * 6})
    text = """SELECT * FROM t MATCH_RECOGNIZE (
      ORDER BY t MEASURES FIRST(k) AS a, LAST(k) AS b PATTERN (x x))"""
    assert rows_of(cernis.sql(text, t=table)) == [(0, 1), (2, 3), (4, 5)]


@pytest.mark.parametrize(
    ("dialect", "up", "down"),
    [
        ("duckdb", "12-", "21-"),
        ("trino", "12-", "21-"),
        ("flink", "-12", "21-"),
        ("spark", "-12", "21-"),
        ("databricks", "-12", "21-"),
        ("snowflake", "12-", "-21"),
        ("oracle", "12-", "-21"),
        ("risingwave", "12-", "-21"),
    ],
)
def test_rows_without_a_value_to_order_by_stand_where_the_dialect_has_them(
    dialect: str, up: str, down: str
) -> None:
    text = """SELECT s FROM t MATCH_RECOGNIZE (
      ORDER BY o {} MEASURES LISTAGG(s, '') AS s PATTERN (a+))"""
    if dialect in ("duckdb", "risingwave"):
        text = text.replace("LISTAGG", "STRING_AGG")
    rows = [{"o": o, "s": s} for o, s in ((2, "2"), (None, "-"), (1, "1"))]
    for order, expected in (("ASC", up), ("DESC", down), ("ASC NULLS LAST", "12-")):
        assert rows_of(cernis.sql(text.format(order), t=rows, dialect=dialect)) == [(expected,)]


def test_within_ends_before_the_interval_does() -> None:
    day = pa.array(range(5), pa.int64()).cast(pa.timestamp("s"))
    text = """SELECT * FROM t MATCH_RECOGNIZE (
      ORDER BY ts MEASURES COUNT(*) AS n PATTERN (a+) WITHIN INTERVAL '2' SECOND)"""
    assert rows_of(cernis.sql(text, t=pa.table({"ts": day}))) == [(2,), (2,), (1,)]


@pytest.mark.parametrize("dialect", ["trino", "snowflake", "oracle", "databricks", "flink"])
def test_statements_of_other_databases_run_as_they_are(dialect: str) -> None:
    found = cernis.sql(
        f"SELECT first, last FROM ticks MATCH_RECOGNIZE ({VEE.format(rows='')}) M", ticks=TICKS,
        dialect=dialect,
    )  # fmt: skip
    assert rows_of(found) == [(2, 6), (6, 9), (10, 13)]


@pytest.mark.parametrize(
    ("dialect", "measure", "expected"),
    [
        ("snowflake", "LAG(price)", [12, 15, 20]),
        ("snowflake", "FIRST_VALUE(price)", [15, 20, 25]),
        ("snowflake", "LEAD(FIRST(price), 2)", [25, 19, 15]),
        ("snowflake", "MATCH_SEQUENCE_NUMBER()", [1, 1, 1]),
        ("flink", "MATCH_ROWTIME()", [4, 5, 6]),
        ("spark", "collect_list(price)", [[15], [20], [25]]),
    ],
)
def test_functions_that_only_some_databases_have(
    dialect: str, measure: str, expected: list[Any]
) -> None:
    text = f"""SELECT m FROM ticks MATCH_RECOGNIZE (
      ORDER BY ts MEASURES {measure} AS m PATTERN (a) DEFINE a AS LAG(ts, 3) >= 1 AND ts < 8)"""
    found = cernis.sql(text, ticks=TICKS, dialect=dialect)
    assert [row["m"] for row in found][: len(expected)] == expected


@pytest.mark.parametrize(
    ("dialect", "clause", "expected"),
    [
        (
            "snowflake",
            "PARTITION BY ts % 2 ORDER BY ts MEASURES FIRST(ts) f, COUNT(*) n",
            [(0, 0, 7), (1, 1, 7)],
        ),
        (
            "trino",
            "PARTITION BY ticks.symbol ORDER BY ticks.ts MEASURES COUNT(*) AS n",
            [("ACME", 14)],
        ),
        (
            "trino",
            "ORDER BY ts MEASURES SUM(MATCH_NUMBER()) AS n, PREV(CLASSIFIER()) AS c",
            [(14, "A")],
        ),
        ("flink", "ORDER BY `ts` MEASURES COUNT(`price`) AS `n`", [(14,)]),
    ],
)
def test_clauses_that_only_some_databases_read(
    dialect: str, clause: str, expected: list[Any]
) -> None:
    text = f"SELECT * FROM ticks MATCH_RECOGNIZE ({clause} PATTERN (A+) DEFINE A AS price > 0)"
    assert rows_of(cernis.sql(text, ticks=TICKS, dialect=dialect)) == expected


def test_flink_has_the_times_of_spark() -> None:
    text = """SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts
      MEASURES TIMESTAMPDIFF(MINUTE, FIRST(ts), LAST(ts)) AS m, DATE_FORMAT(LAST(ts), 'HH:mm') AS h
      PATTERN (a+))"""
    rows = [{"ts": datetime(2024, 1, 1, 5, minute)} for minute in (1, 9)]
    assert rows_of(cernis.sql(text, t=rows, dialect="flink")) == [(8, "05:09")]


def test_a_relation_qualifies_its_own_columns_only() -> None:
    with pytest.raises(cernis.QueryError, match="'u' is not the relation of the clause"):
        cernis.sql("SELECT * FROM t MATCH_RECOGNIZE (ORDER BY u.ts PATTERN (a))", t=TICKS)
    with pytest.raises(cernis.QueryError, match="look at one row"):
        cernis.sql("SELECT * FROM t MATCH_RECOGNIZE (ORDER BY MAX(ts) PATTERN (a))", t=TICKS)


# ------------------------------------------------------------------- mistakes

CLAUSE = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts {})"
COUNTED = CLAUSE.replace("*", "COUNT(*)")
MISTAKES = {
    "PATERN (A)": "unexpected 'PATERN'",
    "PATTERN (A || B)": "'||' is not part of the language",
    "PATTERN (A |)": "the pattern ends too early",
    "PATTERN (A{3,2})": "the upper bound is too small",
    "PATTERN (A{0})": "the upper bound is too small",
    "PATTERN (A) DEFINE A AS x > 1, a AS x < 3": "'A' is defined twice",
    "MEASURES x AS x ALL ROWS PER MATCH PATTERN (A)": "the rows have a column 'x', too",
    "MEASURES FINAL PREV(x) AS y PATTERN (A)": "FINAL stands before FIRST, LAST or an aggregate",
    "MEASURES FINAL CLASSIFIER() AS y PATTERN (A)": "FINAL stands before FIRST, LAST",
    "MEASURES PREV(x, ts) AS y PATTERN (A)": "the number of rows of PREV is a whole number",
    "PATTERN (A B) SUBSET u = (A), v = (u)": "SUBSET 'V' has 'U', which is no variable of PATTERN",
    "PATTERN (A) DEFINE A AS COUNT(*) FILTER (WHERE x > 1) > 0": "FILTER inside the clause",
    "ONE ROW PER MATCH OMIT EMPTY MATCHES PATTERN (A)": "unexpected 'ONE ROW PER MATCH OMIT",
    "PATTERN (A B) DEFINE c AS 1 = 1": "'C' is no variable of PATTERN",
    "PATTERN (A) SUBSET U = (B)": "SUBSET 'U' has 'B', which is no variable of PATTERN",
    "MEASURES A.x PATTERN (A)": "a measure has no name",
    "MEASURES FIRST(x) AS f LAST(x) AS l PATTERN (A)": "unexpected 'LAST'",
    "MEASURES A.y AS y PATTERN (A)": "unknown column 'y'",
    "MEASURES D.x AS y PATTERN (A)": "'D' is no variable of PATTERN",
    "MEASURES SUM(A.x + B.x) AS y PATTERN (A B)": "one value looks at rows of A and B",
    "MEASURES (SELECT 1) AS y PATTERN (A)": "a query inside the clause is not supported",
    "PATTERN (A) DEFINE A AS FINAL SUM(A.x) > 1": "FINAL is no part of DEFINE",
    "PATTERN (A) DEFINE A AS FINAL MIN(A.x) > 1": "FINAL is no part of DEFINE",
    "PATTERN (A) DEFINE A AS NEXT(CLASSIFIER()) = 'A'": "look back from the current row",
    "MEASURES PREV(x || CLASSIFIER()) AS y PATTERN (A)": "at columns or at CLASSIFIER(), not at",
    "PATTERN (A) DEFINE A AS CLASSIFIER() > 'A'": "can be compared with =, <> and IN",
    "PATTERN (A B) DEFINE B AS round(A.x - B.x) > 1": "of values of several rows is not supported",
    "AFTER MATCH SKIP TO FIRST D PATTERN (A)": "'D' is no variable of PATTERN",
    "ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN ({- A -})": "does not go with {- -}",
    "ALL ROWS FOR MATCH PATTERN (A)": "unexpected 'ALL ROWS FOR MATCH'",
    "PATTERN (A) MEASURES A.x AS x": "MEASURES stands before PATTERN",
    "PATTERN (A) DEFINE A AS x > ": "the expression is not complete",
    "MEASURES MATCH_PROCTIME() AS x PATTERN (A)": "MATCH_PROCTIME() is not supported here",
    "PATTERN (A) DEFINE A AS MATCH_ROWTIME() > 1": "MATCH_ROWTIME() is no part of DEFINE",
    "MEASURES LAG(x) OVER (ORDER BY ts) AS y PATTERN (A)": "a window function inside the clause",
    "MEASURES PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x) AS y PATTERN (A)":
        "WITHIN GROUP inside the clause is not supported",
    "PATTERN A B": "PATTERN has no brackets",
    "MEASURES MATCH_NUMBER(A) AS y PATTERN (A)": "MATCH_NUMBER takes no value",
    "MEASURES PREV(SUM(x)) AS y PATTERN (A)": "an aggregate inside of a function of one row",
    "MEASURES RUNNING A.x AS y PATTERN (A)": "RUNNING stands before FIRST, LAST or an aggregate",
    "PATTERN SEEK (A)": "SEEK and INITIAL belong to windows",
    "MEASURES x AS y INITIAL PATTERN (A)": "SEEK and INITIAL belong to windows",
    "PATTERN (A)) AS m WINDOW w AS (ORDER BY ts PATTERN (A) DEFINE A AS x > 1":
        "row patterns in windows are not supported",
    "ALL ROW PER MATCH PATTERN (A)": "unexpected 'ALL ROW PER MATCH'",
    "MEASURES 'a AS x PATTERN (A)": "' is never closed",
    "PATTERN (A) WITHIN 5 MINUTES": "WITHIN takes a constant interval",
    "PATTERN (A)) AS m, t MATCH_RECOGNISE (PATTERN (A)": "unexpected 'MATCH_RECOGNISE'",
    "PATTERN (A) WITHIN ts": "WITHIN takes a constant interval",
    "PATTERN (A) WITHIN INTERVAL '5' FOO": "unknown unit 'FOO'",
    "PATTERN (A) DEFINE": "nothing stands after DEFINE",
    "MEASURES PATTERN (A)": "nothing stands after MEASURES",
    "MEASURES x AS y PATTERN (A) SUBSET": "nothing stands after SUBSET",
    "PATTERN (A) DEFINE A AS x > 1;": "unexpected ';'",
    "PATTERN (A & B)": "'&' is not part of the language",
    "PATTERN ((A{9000}){9000})": "the pattern needs more than",
}  # fmt: skip


@pytest.mark.parametrize("clause", MISTAKES)
def test_a_mistake_has_a_place(clause: str) -> None:
    table = pa.table({"ts": [1], "x": [1]})
    with pytest.raises((cernis.QueryError, cernis.BudgetError)) as raised:
        cernis.sql(COUNTED.format(clause), t=table)
    assert MISTAKES[clause] in str(raised.value)
    assert str(raised.value).startswith("line 1, column ")
    assert "^" in str(raised.value)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("SELECT COUNT(*) FROM {}", [(2,)]),
        ("SELECT * FROM {} AS m, u", [(7,), (7,)]),
        ("SELECT u.* FROM {} AS m JOIN u ON TRUE", [(7,), (7,)]),
        ("WITH c AS (SELECT 1 AS one FROM {}) SELECT * FROM c", [(1,), (1,)]),
        ("SELECT * FROM {}", None),
        ("SELECT m.*, y FROM {} AS m, u", None),
        ("SELECT * FROM (SELECT * FROM {})", None),
    ],
)
def test_a_clause_without_columns_has_rows(text: str, rows: list[Any] | None) -> None:
    """A database has no table without columns, so `*` of it is refused when the statement runs."""
    whole = text.format("t MATCH_RECOGNIZE (ORDER BY ts PATTERN (a b) DEFINE b AS x > PREV(x))")
    tables = {"t": pa.table({"ts": [1, 2, 3, 4], "x": [1, 2, 1, 2]}), "u": [{"y": 7}]}
    if rows is not None:
        assert rows_of(cernis.sql(whole, tables)) == rows
        return
    with pytest.raises(cernis.QueryError, match=r"the clause returns no columns for \*"):
        cernis.sql(whole, tables)
    assert len(cernis.SqlQuery(whole).trace(tables).matches) == 2


@pytest.mark.parametrize(
    ("clause", "marked", "message"),
    [
        ("ORDER BY ts PATTERN (A B) DEFINE A AS x > 1, B AS k", "k", "is neither true nor false"),
        ("ORDER BY ts PATTERN (A B) DEFINE A AS x > 1, B AS k LIKE x", "k LIKE x", "no function"),
        ("ORDER BY ts PATTERN (A B) DEFINE B AS x > 'y'", "x > 'y'", "could not convert string"),
        (
            "ORDER BY ts PATTERN (A) DEFINE A AS k::INT > FIRST(x)",
            "k::INT > FIRST(x)",
            "'a' to INT",
        ),
        ("ORDER BY ts MEASURES MAX(x) AS n, SUM(k) AS s PATTERN (A)", "SUM", "no function"),
        ("ORDER BY ts MEASURES x AS n, k - A.ts AS s PATTERN (A)", "k - A.ts", "no function"),
        ("ORDER BY ts MEASURES PREV(k * b) AS s PATTERN (A)", "PREV(k * b)", "no function"),
        ("ORDER BY ts MEASURES SUM(k::INT) AS s PATTERN (A)", "SUM(k::INT)", "string 'a' to INT"),
        ("ORDER BY b - k PATTERN (A) DEFINE A AS x > 1", "b - k", "no function"),
        ("ORDER BY b PATTERN (A) WITHIN INTERVAL '1' DAY", "INTERVAL '1' DAY", "no function"),
        ("ORDER BY ts PATTERN (A) DEFINE A AS COALESCE(x, ts) > 1", None, "cannot mix values"),
    ],
)
def test_what_the_host_refuses_has_the_place_of_its_expression(
    clause: str, marked: str | None, message: str
) -> None:
    """The names that the host quotes stand elsewhere, too, or nowhere in the statement."""
    rows = [{"ts": datetime(2026, 1, 1), "x": 1, "k": "a", "b": True}]
    text = f"SELECT COUNT(*) FROM t MATCH_RECOGNIZE ({clause})"
    for connection in (None, duckdb.connect()):
        with pytest.raises(cernis.CernisError) as raised:
            cernis.sql(text, t=rows, connection=connection)
        told, shown, carets, *_ = str(raised.value).split("\n")
        assert message in told
        end = carets.rindex("^") + 1
        assert shown[carets.index("^") : end] == marked or marked is None
        assert "Candidate" not in str(raised.value)


def test_lists_and_joined_texts_have_the_order_of_the_rows() -> None:
    """Also where threads of the host share the rows of a match."""
    table = pa.table({"ts": range(260_000)})
    text = """SELECT * FROM t MATCH_RECOGNIZE (
      ORDER BY ts MEASURES list(ts) AS l, string_agg(ts, ',') AS s PATTERN (a{7}))"""
    for row in cernis.sql(text, t=table):
        assert row["l"] == sorted(row["l"])
        assert row["s"] == ",".join(map(str, row["l"]))


def test_joined_texts_may_have_an_order_of_their_own() -> None:
    text = """SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts
      MEASURES LISTAGG(x, ' ') WITHIN GROUP (ORDER BY x DESC) AS y PATTERN (A+))"""
    rows = [{"ts": ts, "x": x} for ts, x in enumerate("bca")]
    for dialect in ("duckdb", "snowflake", "oracle"):
        assert rows_of(cernis.sql(text, t=rows, dialect=dialect)) == [("c b a",)]


@pytest.mark.parametrize(
    ("dialect", "expected"),
    [("oracle", "123"), ("trino", "123"), ("databricks", "123"), ("duckdb", "1,2,3")],
)
def test_joined_texts_have_the_separator_of_their_database(dialect: str, expected: str) -> None:
    text = CLAUSE.format("MEASURES LISTAGG(ts) AS s, LISTAGG(ts, '-') AS t PATTERN (a+)")
    if dialect == "duckdb":
        text = text.replace("LISTAGG", "STRING_AGG")
    found = cernis.sql(
        text.replace("COUNT(*)", "*"), t=[{"ts": n} for n in (1, 2, 3)], dialect=dialect
    )
    assert rows_of(found) == [(expected, "1-2-3")]


def test_spark_sorts_no_list_by_another_column() -> None:
    text = CLAUSE.format("MEASURES array_agg(x ORDER BY y DESC) AS l PATTERN (a+)")
    [plan] = cernis.SqlQuery(text).plans
    with pytest.raises(cernis.QueryError, match="column 55: Spark has no ORDER BY inside"):
        QueryWriter(plan, "spark", ("ts", "x", "y")).write_measures("found")
    rows = [{"ts": ts, "x": ts, "y": 9 - ts} for ts in range(3)]
    assert rows_of(cernis.sql(text, t=rows)) == [([0, 1, 2],)]


def test_what_the_host_has_no_words_for_is_refused() -> None:
    text = CLAUSE.format("MEASURES TO_DOUBLE(LAST(ts), '999') AS y PATTERN (A)")
    with pytest.raises(cernis.QueryError, match="line 1, column 55: argument 'format' is not"):
        cernis.sql(text, t=pa.table({"ts": [1]}), dialect="snowflake")


@pytest.mark.parametrize("dialect", ["trino", "flink", "risingwave", "oracle", "snowflake"])
def test_whole_numbers_are_divided_as_in_the_dialect(dialect: str) -> None:
    """In DEFINE, also where the matcher divides, in MEASURES, and around the clause."""
    truncates = dialect in ("trino", "flink", "risingwave")
    text = """SELECT m.n, m.q, m.q / 4 AS r, m.f / 2 AS g FROM t MATCH_RECOGNIZE (ORDER BY ts
      MEASURES COUNT(*) AS n, (SUM(x) - 1) / 2 AS q, LAST(f) AS f PATTERN (a b*)
      DEFINE a AS x / 2 = {}, b AS SUM(x) / COUNT(*) = {} AND SUM(f) / COUNT(*) = {}) m"""
    rows = [{"ts": ts, "x": x, "f": x / 1} for ts, x in enumerate([3, 4])]
    found = cernis.sql(text.format(*((1, 3, 3.5) if truncates else (1.5, 3.5, 3.5))), t=rows)
    assert rows_of(found) == ([] if truncates else [(2, 3.0, 0.75, 2.0)])
    values = (1, 3, 3.5) if truncates else (1.5, 3.5, 3.5)
    found = cernis.sql(text.format(*values), t=rows, dialect=dialect)
    assert rows_of(found) == ([(2, 3, 0, 2.0)] if truncates else [(2, 3.0, 0.75, 2.0)])


@pytest.mark.parametrize(
    ("dialect", "form", "told"),
    [
        ("oracle", "DD-MON-YY HH24:MI:SS", "05-JAN-24 14:07:09"),
        ("oracle", 'YYYYMMDD"T"HH12MI PM', "20240105T0207 PM"),
        ("oracle", "Dy dd.mm.", "Fri 05.01."),
        ("snowflake", "MON DD", "Jan 05"),
        ("oracle", "Month DD", None),
        ("oracle", "999.99", None),
    ],
)
def test_formats_of_to_char(dialect: str, form: str, told: str | None) -> None:
    text = f"SELECT TO_CHAR(ts, '{form}') AS c FROM t"
    rows = [{"ts": datetime(2024, 1, 5, 14, 7, 9)}]
    if told is not None:
        assert rows_of(cernis.sql(text, t=rows, dialect=dialect)) == [(told,)]
        return
    with pytest.raises(cernis.QueryError, match="line 1, column 20: TO_CHAR: only formats of"):
        cernis.sql(text, t=rows, dialect=dialect)


def test_oracle_has_a_table_of_one_row() -> None:
    text = """WITH t (ts) AS (SELECT 1 FROM dual UNION ALL SELECT 2 FROM DUAL)
      SELECT m.n, d.dummy FROM t MATCH_RECOGNIZE (
        ORDER BY ts MEASURES COUNT(*) AS n PATTERN (a+)) m, dual d"""
    assert rows_of(cernis.sql(text, dialect="oracle")) == [(2, "X")]


@pytest.mark.parametrize("skip", ["TO FIRST A", "TO LAST B"])
def test_the_search_cannot_stand_still(skip: str) -> None:
    text = COUNTED.format(f"AFTER MATCH SKIP {skip} PATTERN (A B?) DEFINE B AS FALSE")
    with pytest.raises(cernis.QueryError, match=r"AFTER MATCH SKIP TO: [AB] is "):
        cernis.sql(text, t=pa.table({"ts": [1, 2]}))


def test_a_search_has_a_budget() -> None:
    values = pa.table({"ts": range(60), "x": [1] * 60})
    text = COUNTED.format("PATTERN ((A | B)* C) DEFINE A AS SUM(A.ts) >= 0, C AS SUM(A.ts) = -1")
    with pytest.raises(cernis.BudgetError, match="has tried 10,000 transitions"):
        cernis.sql(text, t=values, budget=10_000)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM read_text('/etc/hostname')",
        "COPY (SELECT 1) TO '/tmp/x'",
        "ATTACH '/tmp/x.db'",
        "INSTALL httpfs",
        "SET threads = 1",
    ],
)
def test_a_statement_reads_only_the_tables_that_it_is_given(text: str) -> None:
    with pytest.raises(cernis.CernisError):
        cernis.sql(text)


WIDE = "(SELECT range AS i, repeat(hash(range)::VARCHAR, 20) AS wide FROM range(200000))"
"""Some 80 MB."""


KINDS = [
    pa.int8(),
    pa.uint64(),
    pa.float64(),
    pa.bool_(),
    pa.date32(),
    pa.timestamp("us"),
    pa.string(),
]
ORDERED = """SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k, l ORDER BY o {down}, p
  MEASURES MATCH_NUMBER() AS number, PREV(FIRST(n)) AS before, LAST(n) AS last, COUNT(*) AS size
  {rows} PATTERN (a+ b?) DEFINE a AS n > PREV(n) OR PREV(n, 2) IS NULL, b AS NEXT(n) < n)"""


@given(data=st.data())
def test_rows_are_sorted_here_as_duckdb_sorts_them(database: Any, data: Any) -> None:
    """Columns of all kinds, with NULL and NaN or without, ties, descending, one row or all rows."""
    size = data.draw(st.integers(0, 12))
    some = st.integers(0, 3) if data.draw(st.booleans()) else st.sampled_from([0, 1, 2, 3, None])

    def draw_column(kind: pa.DataType) -> pa.Array:
        numbers = pa.array(data.draw(st.lists(some, min_size=size, max_size=size)), pa.int32())
        if pa.types.is_floating(kind):
            values = [None if n is None else (n - 1) / (n % 2 or 4) for n in numbers.to_pylist()]
            return pa.array([float("nan") if v == 0.5 else v for v in values], kind)
        if pa.types.is_timestamp(kind):
            numbers = numbers.cast(pa.int64())
        return numbers.cast(kind)

    columns = {name: draw_column(data.draw(st.sampled_from(KINDS))) for name in "klop"}
    table = pa.table({**columns, "n": data.draw(st.permutations(range(size)))})
    text = ORDERED.format(
        down=data.draw(st.sampled_from(["", "DESC", "ASC NULLS FIRST"])),
        rows=data.draw(st.sampled_from(["", "ALL ROWS PER MATCH"])),
    )
    here = cernis.sql(text, t=table).to_arrow()
    by_duckdb = cernis.sql(text, t=table, connection=database).to_arrow()
    assert here.schema == by_duckdb.schema
    assert repr(here.to_pylist()) == repr(by_duckdb.to_pylist())  # NaN is NaN


def test_a_process_that_was_forked_ends(tmp_path: Any) -> None:
    """Its parent's database has threads that it does not have."""
    script = tmp_path / "forks.py"
    script.write_text(
        "import os, sys, cernis\n"
        "print(cernis.sql('SELECT 1 AS x').count(), flush=True)\n"
        "if os.fork() == 0:\n"
        "    print(cernis.sql('SELECT 2 AS x').count(), flush=True)\n"
        "    sys.exit()\n"
        "print(os.wait()[1], flush=True)\n"
    )
    ran = run_process([sys.executable, script], capture_output=True, text=True, timeout=60)
    assert ran.stdout.split() == ["1", "1", "0"]


def test_statements_do_not_see_the_tables_of_others() -> None:
    shared = cernis.SqlQuery("SELECT count(*) AS n FROM t")
    assert rows_of(shared.run({"t": TICKS})) == [(14,)]
    with pytest.raises(cernis.CernisError, match="t does not exist"):
        shared.run({"s": TICKS})


def test_memory_is_bounded() -> None:
    """What does not fit goes to disk, or, as for the playground, is an error with a sentence."""
    limits = HostLimits(60_000_000, threads=1)
    ordered = cernis.SqlQuery(f"SELECT i FROM {WIDE} ORDER BY wide, i")
    assert ordered.run({}, limits=limits).count() == 200_000
    sentence = "DuckDB has used up its limit of 57.2 MiB; max_memory .--max-memory. sets another"
    with pytest.raises(MemoryError, match=sentence):
        ordered.run({}, limits=limits._replace(spills=False))
    clause = "MATCH_RECOGNIZE (ORDER BY wide MEASURES LAST(i) AS i PATTERN (a a))"
    with pytest.raises(MemoryError, match="DuckDB has used up its limit"):
        cernis.sql(f"SELECT * FROM {WIDE} {clause}", max_memory=60)


def test_a_connection_has_its_own_limit(database: Any) -> None:
    with pytest.raises(cernis.CernisError, match="a connection of your own has its own"):
        cernis.sql("SELECT 1 AS x", connection=database, max_memory=60)


def test_files_are_tables(tmp_path: Any) -> None:
    (tmp_path / "t.csv").write_text("ts,x\n1,a\n2,b\n")
    found = cernis.sql(CLAUSE.format("MEASURES LAST(x) AS x PATTERN (a b)"), t=tmp_path / "t.csv")
    assert rows_of(found) == [("b",)]
    with pytest.raises(cernis.DataError, match="no such file"):
        cernis.sql("SELECT * FROM t", t=tmp_path / "no.csv")


def test_a_plan_says_what_a_clause_costs() -> None:
    told = cernis.SqlQuery(f"SELECT * FROM ticks MATCH_RECOGNIZE ({VEE.format(rows='')})").explain()
    assert "path-independent: two passes, without backtracking" in told
    assert "DOWN: computed by the host" in told
    text = CLAUSE.format("PATTERN (A B+) DEFINE B AS x > 0 AND B.x > FIRST(A.x)")
    told = cernis.SqlQuery(text).explain()
    assert "path-dependent: a search that remembers what has failed" in told
    assert "B: depends on the path, decided by the matcher, after the part" in told
    assert "no WITHIN bounds them" in told
    bounded = text.replace(" DEFINE", " WITHIN INTERVAL '1' HOUR DEFINE")
    assert "may still need: within this interval" in cernis.SqlQuery(bounded).explain()


def test_differences_of_times_are_durations() -> None:
    rows = [{"ts": datetime(2024, 1, day)} for day in (1, 3, 4)]
    measures = "MEASURES FIRST(ts) AS f, LAST(ts) AS l PATTERN (a+)"
    text = f"SELECT l - f AS span, {{}} FROM t MATCH_RECOGNIZE (ORDER BY ts {measures})"
    found = cernis.sql(text.format("NULL::INTERVAL AS none, INTERVAL 1 MONTH AS month"), t=rows)
    assert rows_of(found) == [(timedelta(days=3), None, "P1M0DT0S")]
    assert rows_of(cernis.sql(text.format("1") + " WHERE false", t=rows)) == []
