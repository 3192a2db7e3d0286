"""The mistakes of WITHOUT, and of conditions between a guard and what it guards, word by word."""

from __future__ import annotations

import pytest

import cernis
import cernis.pattern as p


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "SELECT * WHERE A WITHOUT B FOR 1 HOUR CONSUME BY ANY",
            """\
line 1, column 39: CONSUME BY does not go with WITHOUT
  SELECT * WHERE A WITHOUT B FOR 1 HOUR CONSUME BY ANY
                                        ^^^^^^^^^^^^^^""",
        ),
        (
            "SELECT * WHERE A WITHOUT B",
            """\
line 1, column 27: the query ends too early
  SELECT * WHERE A WITHOUT B
                            ^
  expected: an operator such as ';', OR or +, BEFORE, FILTER or FOR""",
        ),
        (
            "SELECT * WHERE A WITHOUT B WITHIN 1 HOUR",
            """\
line 1, column 28: unexpected 'WITHIN'
  SELECT * WHERE A WITHOUT B WITHIN 1 HOUR
                             ^^^^^^
  expected: an operator such as ';', OR or +, BEFORE, FILTER or FOR
  help: say how long with FOR, or BEFORE a match: WITHOUT B FOR 5 MINUTES""",
        ),
        (
            "SELECT * WHERE A UNLESS B FOR 1 HOUR",
            """\
line 1, column 27: unexpected 'FOR'
  SELECT * WHERE A UNLESS B FOR 1 HOUR
                            ^^^
  expected: an operator such as ';', OR or +, a clause such as WITHIN, FILTER or the end of the \
query
  help: UNLESS looks inside a match; what must not follow is WITHOUT B FOR 5 MINUTES""",
        ),
        (
            "SELECT * WHERE (A WITHOUT B FOR 1 HOUR) ; C",
            """\
line 1, column 19: unexpected 'WITHOUT'
  SELECT * WHERE (A WITHOUT B FOR 1 HOUR) ; C
                    ^^^^^^^
  expected: an operator such as ';', OR or +, FILTER, PARTITION BY, WITHIN or ')'
  help: WITHOUT stands after the whole formula; UNLESS says what must not lie inside a part""",
        ),
        (
            "SELECT * WHERE A WITHOUT (B FOR 1 HOUR)",
            """\
line 1, column 29: unexpected 'FOR'
  SELECT * WHERE A WITHOUT (B FOR 1 HOUR)
                              ^^^
  expected: an operator such as ';', OR or +, FILTER, PARTITION BY, WITHIN or ')'
  help: FOR stands after the parentheses: WITHOUT (B ; C) FOR 5 MINUTES""",
        ),
        (
            "SELECT * WHERE A WITHOUT B FOR 3 [x]",
            """\
line 1, column 34: unexpected '['
  SELECT * WHERE A WITHOUT B FOR 3 [x]
                                   ^
  expected: EVENTS or a unit of time such as MINUTES""",
        ),
        (
            "SELECT * WHERE A WITHOUT B FOR 1.5 EVENTS",
            """\
line 1, column 32: a number of events must be whole
  SELECT * WHERE A WITHOUT B FOR 1.5 EVENTS
                                 ^^^^^^^^^^""",
        ),
        (
            "SELECT * WHERE A WITHOUT B FOR 1 HOUR WITHOUT C FOR 2 HOURS",
            """\
line 1, column 39: a query has one WITHOUT … FOR
  SELECT * WHERE A WITHOUT B FOR 1 HOUR WITHOUT C FOR 2 HOURS
                                        ^^^^^^^^^^^^^^^^^^^^^
  help: write WITHOUT (A OR B)""",
        ),
        (
            "SELECT * WHERE A PARTITION BY [x] WITHOUT B FOR 2 HOURS",
            """\
line 1, column 35: unexpected 'WITHOUT'
  SELECT * WHERE A PARTITION BY [x] WITHOUT B FOR 2 HOURS
                                    ^^^^^^^
  expected: a clause such as WITHIN, ',' or the end of the query
  help: the clauses come in this order: SELECT, FROM, WHERE, FILTER, WITHOUT, PARTITION BY, \
WITHIN, GROUP BY, HAVING, CONSUME BY, ORDER BY, LIMIT, FORGET AFTER, SUPPRESS BY""",
        ),
        (
            "SELECT * WHERE A AS a WITHOUT (B FILTER PREV(a)[x] < B[x]) FOR 2 HOURS",
            """\
line 1, column 41: PREV(a)[x] is the event before in one formula, not in two
  SELECT * WHERE A AS a WITHOUT (B FILTER PREV(a)[x] < B[x]) FOR 2 HOURS
                                          ^^^^^^^^^^^^^^^^^
  help: compare a[x]""",
        ),
        (
            "SELECT * WHERE A+ AS a WITHOUT (B FILTER a[x] + 1 < B[x] AND q[x] = B[x]) FOR 1 DAY",
            """\
line 1, column 42: a[x] has no single value: 'a' need not hold one event
  SELECT * WHERE A+ AS a WITHOUT (B FILTER a[x] + 1 < B[x] AND q[x] = B[x]) FOR 1 DAY
                                           ^^^^
  expected: FIRST, LAST, MIN, MAX, SUM or AVG
  help: write LAST(a[x])
line 1, column 62: unknown variable 'q' in FILTER
  SELECT * WHERE A+ AS a WITHOUT (B FILTER a[x] + 1 < B[x] AND q[x] = B[x]) FOR 1 DAY
                                                               ^
  expected: A, B, a""",
        ),
        (
            "SELECT * WHERE A UNLESS (B FILTER COUNT(A) < COUNT(*))",
            """\
line 1, column 46: COUNT(*) beside variables of two formulas has no meaning
  SELECT * WHERE A UNLESS (B FILTER COUNT(A) < COUNT(*))
                                               ^^^^^^^^
  expected: values of variables""",
        ),
        (
            "SELECT A[x] AS deadline_ts WHERE A WITHOUT B FOR 1 HOUR",
            """\
line 1, column 8: every match has a column 'deadline_ts' already
  SELECT A[x] AS deadline_ts WHERE A WITHOUT B FOR 1 HOUR
         ^^^^^^^^^^^^^^^^^^^""",
        ),
    ],
)
def test_the_message(text: str, message: str) -> None:
    with pytest.raises(cernis.QueryError) as raised:
        cernis.query(text)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("where", "what"),
    [
        ("A WITHOUT B FOR 1 HOUR", "WITHOUT … FOR a time"),
        ("A WITHOUT B BEFORE 1 HOUR", "WITHOUT … BEFORE a time"),
        ("A ;[1 HOUR] B", "a gap or WITHIN in time inside the formula"),
        ("(A ; B WITHIN 1 HOUR) ; C", "a gap or WITHIN in time inside the formula"),
        ("A FORGET AFTER 1 HOUR", "FORGET AFTER"),
    ],
)
def test_what_is_measured_in_time_needs_times(where: str, what: str) -> None:
    query = cernis.query(f"SELECT * FROM S WHERE {where}")
    with pytest.raises(cernis.DataError) as raised:
        query.run([{"type": "A"}])
    message = f"{what} needs a time column: no input has a column 'ts', and none was named"
    assert str(raised.value) == message


def test_the_builder_asks_for_a_length() -> None:
    with pytest.raises(cernis.QueryError) as raised:
        p.select().where("A").without("B")
    help_ = "  help: for example without('PAY', hours=1)"
    assert str(raised.value) == f"without() takes a duration or events\n{help_}"
