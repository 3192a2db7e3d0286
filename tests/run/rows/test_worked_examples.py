"""Examples in the manner of the databases' documentations, with answers worked out by hand.

The data are our own; the patterns are the ones that the manuals of Oracle, Trino, Snowflake and
Flink, and ISO 19075-5, explain the clause with.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import cernis

STOCK = pa.table(
    {
        "symbol": ["A"] * 8 + ["B"] * 6,
        "day": [1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6],
        "price": [12, 10, 8, 9, 11, 13, 7, 8, 5, 6, 6, 4, 3, 9],
    }
)
CLICKS = pa.table({"who": ["x"] * 6, "at": [0, 5, 9, 60, 62, 200], "page": list("abcdef")})

MOVES = "DEFINE D AS price < PREV(price), U AS price > PREV(price)"

EXAMPLES: dict[str, tuple[str, str, pa.Table, list[tuple[Any, ...]]]] = {
    "a V, one row (Oracle)": (
        "oracle",
        """SELECT * FROM t MATCH_RECOGNIZE (
          PARTITION BY symbol ORDER BY day
          MEASURES STRT.day AS start_day, LAST(DOWN.day) AS bottom_day, LAST(UP.day) AS end_day
          ONE ROW PER MATCH AFTER MATCH SKIP TO LAST UP
          PATTERN (STRT DOWN+ UP+)
          DEFINE DOWN AS DOWN.price < PREV(DOWN.price), UP AS UP.price > PREV(UP.price)) MR
        ORDER BY MR.symbol, MR.start_day""",
        STOCK,
        [("A", 1, 3, 6), ("A", 6, 7, 8), ("B", 3, 5, 6)],
    ),
    "a V, all rows, running and final (Oracle)": (
        "oracle",
        """SELECT day, cls, so_far, total FROM t MATCH_RECOGNIZE (
          PARTITION BY symbol ORDER BY day
          MEASURES CLASSIFIER() AS cls,
                   RUNNING COUNT(UP.day) AS so_far, FINAL COUNT(UP.day) AS total
          ALL ROWS PER MATCH
          PATTERN (STRT DOWN+ UP+)
          DEFINE DOWN AS price < PREV(price), UP AS price > PREV(price)) WHERE symbol = 'B'""",
        STOCK,
        [(3, "STRT", 0, 1), (4, "DOWN", 0, 1), (5, "DOWN", 0, 1), (6, "UP", 1, 1)],
    ),
    "a fall, a rise to the start, a rise beyond it (Trino)": (
        "trino",
        """SELECT m.symbol, m.first_price, m.bottom, m.final_price FROM t MATCH_RECOGNIZE (
          PARTITION BY symbol ORDER BY day
          MEASURES A.price AS first_price, LAST(B.price) AS bottom, LAST(U.price) AS final_price
          PATTERN (A B+ C+ D+) SUBSET U = (C, D)
          DEFINE B AS price < PREV(price),
                 C AS price > PREV(price) AND price <= A.price,
                 D AS price > PREV(price)) AS m""",
        STOCK,
        [("A", 12, 8, 13)],
    ),
    "empty matches have numbers (Trino)": (
        "trino",
        """SELECT day, n, cls FROM t MATCH_RECOGNIZE (
          PARTITION BY symbol ORDER BY day
          MEASURES MATCH_NUMBER() AS n, CLASSIFIER() AS cls
          ALL ROWS PER MATCH SHOW EMPTY MATCHES
          PATTERN (LOW*) DEFINE LOW AS price < 5) WHERE symbol = 'B'""",
        STOCK,
        [(1, 1, None), (2, 2, None), (3, 3, None), (4, 4, "LOW"), (5, 4, "LOW"), (6, 5, None)],
    ),
    "numbers and lengths of matches (Snowflake)": (
        "snowflake",
        """SELECT symbol, match_number, rows_in, falls FROM t MATCH_RECOGNIZE (
          PARTITION BY symbol ORDER BY day
          MEASURES MATCH_NUMBER() AS match_number, COUNT(*) AS rows_in,
                   COUNT(row_with_decrease.*) AS falls
          ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW
          PATTERN (row_before row_with_decrease+ row_with_increase+)
          DEFINE row_with_decrease AS price < PREV(price),
                 row_with_increase AS price > PREV(price))""",
        STOCK,
        [("A", 1, 6, 2), ("B", 1, 4, 2)],
    ),
    "an average below a bound (Flink)": (
        "flink",
        """SELECT * FROM t MATCH_RECOGNIZE (
          PARTITION BY symbol ORDER BY day
          MEASURES FIRST(A.day) AS start_day, LAST(A.day) AS end_day, AVG(A.price) AS average
          ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW
          PATTERN (A+ B)
          DEFINE A AS AVG(A.price) < 9) AS T""",
        STOCK,
        [("A", 3, 4, 8.5), ("A", 7, 7, 7.0), ("B", 1, 5, 4.8)],
    ),
    "sessions, with a bound (Flink)": (
        "flink",
        """SELECT * FROM t MATCH_RECOGNIZE (
          PARTITION BY who ORDER BY at
          MEASURES FIRST(page) AS first_page, LAST(page) AS last_page
          PATTERN (A B*) WITHIN 8
          DEFINE B AS B.at - PREV(B.at) < 30)""",
        CLICKS,
        [("x", "a", "b"), ("x", "c", "c"), ("x", "d", "e"), ("x", "f", "f")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_of_a_manual(name: str) -> None:
    dialect, text, table, expected = EXAMPLES[name]
    found = cernis.sql(text, t=table, dialect=dialect)
    assert [tuple(row.values()) for row in found] == expected


STANDARD: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
    "the first alternative is preferred": (
        ("SELECT cls, count(*) FROM t MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY day "
        "MEASURES CLASSIFIER() AS cls PATTERN (X | Y)) GROUP BY cls"),
        [("X", 14)],
    ),
    "a greedy quantifier takes as many rows as it can": (
        ("SELECT f, l FROM t MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY day "
        "MEASURES FIRST(day) AS f, LAST(day) AS l PATTERN (S M* E) DEFINE E AS price > 10)"),
        [(1, 6)],
    ),
    "a reluctant one takes as few": (
        ("SELECT f, l FROM t MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY day "
        "MEASURES FIRST(day) AS f, LAST(day) AS l PATTERN (S M*? E) DEFINE E AS price > 10)"),
        [(1, 5)],
    ),
    "a permutation in either order": (
        ("SELECT symbol, f, l, cls FROM t MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY day "
        "MEASURES FIRST(day) AS f, LAST(day) AS l, CLASSIFIER() AS cls PATTERN (PERMUTE(D, U)) "
        f"{MOVES})"),
        [("A", 3, 4, "U"), ("A", 6, 7, "D"), ("B", 5, 6, "U")],
    ),
    "excluded rows are matched and not shown": (
        ("SELECT day FROM t MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY day "
        f"ALL ROWS PER MATCH PATTERN (S {{- D+ -}} U) {MOVES}) WHERE symbol = 'A'"),
        [(1,), (4,), (6,), (8,)],
    ),
    "matches overlap where the search goes on at the next row": (
        ("SELECT f, l FROM t MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY day "
        "MEASURES FIRST(day) AS f, LAST(day) AS l AFTER MATCH SKIP TO NEXT ROW "
        f"PATTERN (U+) {MOVES.replace('D AS price < PREV(price), ', '')}) WHERE symbol = 'A'"),
        [(4, 6), (5, 6), (6, 6), (8, 8)],
    ),
    "rows of no match have no measures": (
        ("SELECT day, cls, n FROM t MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY day "
        "MEASURES CLASSIFIER() AS cls, MATCH_NUMBER() AS n ALL ROWS PER MATCH WITH UNMATCHED ROWS "
        f"PATTERN (D U) {MOVES}) WHERE symbol = 'B'"),
        [*((day, None, None) for day in (1, 2, 3, 4)), (5, "D", 1), (6, "U", 1)],
    ),
    "anchors stand for the ends of a partition": (
        ("SELECT symbol, f FROM t MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY day "
        "MEASURES FIRST(day) AS f PATTERN (^ X Y | X Y $))"),
        [("A", 1), ("A", 7), ("B", 1), ("B", 5)],
    ),
    "offsets count rows of a variable, PREV and NEXT rows of the partition": (
        ("SELECT a, b, c, d FROM t MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY day "
        "MEASURES FIRST(D.price, 1) AS a, LAST(price, 1) AS b, PREV(FIRST(D.price)) AS c, "
        "NEXT(LAST(D.price)) AS d "
        "PATTERN (S D+) DEFINE D AS price < PREV(price)) WHERE symbol = 'A'"),
        [(8, 10, 12, 9), (None, 13, 13, 8)],
    ),
    "the empty pattern matches at each row": (
        ("SELECT n, c FROM t MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY day "
        "MEASURES MATCH_NUMBER() AS n, COUNT(*) AS c PATTERN (())) WHERE symbol = 'B'"),
        [(n, 0) for n in range(1, 7)],
    ),
    "an aggregate of a union variable runs over its rows so far": (
        ("SELECT day, s FROM t MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY day "
        "MEASURES SUM(W.price) AS s ALL ROWS PER MATCH PATTERN (S D U) SUBSET W = (S, U) "
        f"{MOVES}) WHERE symbol = 'B'"),
        [(4, 4), (5, 4), (6, 13)],
    ),
}  # fmt: skip
"""What ISO 19075-5 explains, on the same rows."""


@pytest.mark.parametrize("name", STANDARD)
def test_an_example_of_the_standard(name: str) -> None:
    text, expected = STANDARD[name]
    assert [tuple(row.values()) for row in cernis.sql(text, t=STOCK)] == expected
