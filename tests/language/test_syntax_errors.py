"""The exact messages for queries that do not parse or make no sense."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cernis.errors import Diagnostic, QueryError
from cernis.languages.ceql import parse
from cernis.pattern.check import resolve

OPERATOR = (
    "an operator such as ';', OR or +, a clause such as WITHIN, FILTER or the end of the query"
)


def complaint(text: str) -> str:
    with pytest.raises(QueryError) as caught:
        resolve(parse(text))
    return str(caught.value)


def test_misspelt_keywords_are_all_reported_with_what_was_meant() -> None:
    assert (
        complaint("SELCT * FORM S\nWERE A WITHN 5 minuts")
        == """\
line 1, column 1: unexpected 'SELCT'
  SELCT * FORM S
  ^^^^^
  help: did you mean 'SELECT'?
line 1, column 9: unexpected 'FORM'
  SELCT * FORM S
          ^^^^
  help: did you mean 'FROM'?
line 2, column 1: unexpected 'WERE'
  WERE A WITHN 5 minuts
  ^^^^
  help: did you mean 'WHERE'?
line 2, column 8: unexpected 'WITHN'
  WERE A WITHN 5 minuts
         ^^^^^
  help: did you mean 'WITHIN'?
line 2, column 16: unexpected 'minuts'
  WERE A WITHN 5 minuts
                 ^^^^^^
  help: did you mean 'MINUTES'?"""
    )


def test_characters_that_no_query_holds_are_all_reported() -> None:
    assert (
        complaint("SELECT * WHERE A && B $ C")
        == """\
line 1, column 18: '&&' is not part of the language
  SELECT * WHERE A && B $ C
                   ^^
  help: use AND between conditions, ALL between formulas
line 1, column 23: '$' is not part of the language
  SELECT * WHERE A && B $ C
                        ^"""
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        # brackets and quotes
        (
            "SELECT * FROM S WHERE (A ; (B",
            """\
line 1, column 23: '(' is never closed
  SELECT * FROM S WHERE (A ; (B
                        ^
line 1, column 28: '(' is never closed
  SELECT * FROM S WHERE (A ; (B
                             ^""",
        ),
        (
            "SELECT * WHERE A ; B)",
            """\
line 1, column 21: ')' closes nothing
  SELECT * WHERE A ; B)
                      ^""",
        ),
        (
            "SELECT * WHERE\n (A ; B]",
            """\
line 2, column 8: ']' does not close '(' of line 2, column 2
   (A ; B]
         ^""",
        ),
        (
            "SELECT * WHERE A:{2",
            """\
line 1, column 18: '{' is never closed
  SELECT * WHERE A:{2
                   ^""",
        ),
        (
            "SELECT * WHERE A FILTER A[name = 'MSFT]",
            """\
line 1, column 34: the quote ' is never closed
  SELECT * WHERE A FILTER A[name = 'MSFT]
                                   ^
  help: a quote inside the quotes is written twice""",
        ),
        (
            "SELECT * WHERE A /* why",
            """\
line 1, column 18: the comment is never closed
  SELECT * WHERE A /* why
                   ^^
  help: end it with */""",
        ),
        (
            "SELECT * WHERE A FILTER A[name = ‘x’]",
            """\
line 1, column 34: '‘' is not part of the language
  SELECT * WHERE A FILTER A[name = ‘x’]
                                   ^
  help: use straight quotes: '
line 1, column 36: '’' is not part of the language
  SELECT * WHERE A FILTER A[name = ‘x’]
                                     ^
  help: use straight quotes: '""",
        ),
        # too early
        (
            "-- nothing",
            """\
line 1, column 11: the query ends too early
  -- nothing
            ^
  expected: CREATE STREAM, INSERT INTO or SELECT""",
        ),
        (
            "SELECT",
            """\
line 1, column 7: the query ends too early
  SELECT
        ^
  expected: a variable or a value, ALL, NONE, '(', '[' or '*'""",
        ),
        (
            "SELECT * FROM",
            """\
line 1, column 14: the query ends too early
  SELECT * FROM
               ^
  expected: a stream name""",
        ),
        (
            "SELECT * WHERE",
            """\
line 1, column 15: the query ends too early
  SELECT * WHERE
                ^
  expected: an event type, NOT, '(' or '*'""",
        ),
        (
            "SELECT * WHERE A AS",
            """\
line 1, column 20: the query ends too early
  SELECT * WHERE A AS
                     ^
  expected: a variable name""",
        ),
        (
            "SELECT * WHERE A WITHIN 5  -- five what?\n",
            """\
line 1, column 41: the query ends too early
  SELECT * WHERE A WITHIN 5  -- five what?
                                          ^
  expected: EVENTS, a unit of time such as MINUTES or '['""",
        ),
        # formulas
        (
            "SELECT * WHERE A*",
            f"""\
line 1, column 17: unexpected '*'
  SELECT * WHERE A*
                  ^
  expected: {OPERATOR}
  help: use + for one or more, {{0,}} for any number""",
        ),
        (
            "SELECT * WHERE A B",
            f"""\
line 1, column 18: unexpected 'B'
  SELECT * WHERE A B
                   ^
  expected: {OPERATOR}
  help: put ';' (some time later) or ':' (right after) between two events, and AS before a \
variable""",
        ),
        (
            "SELECT * WHERE A :[5 MINUTES] B",
            """\
line 1, column 19: unexpected '['
  SELECT * WHERE A :[5 MINUTES] B
                    ^
  expected: an event type, NOT, '(' or '*'
  help: a gap bounds what lies between: write ;[5 MINUTES], ->[…], +[…] or {2,}[…]""",
        ),
        (
            "SELECT * WHERE A ;[5] B",
            """\
line 1, column 21: unexpected ']'
  SELECT * WHERE A ;[5] B
                      ^
  expected: EVENTS, a unit of time such as MINUTES or TO""",
        ),
        (
            "SELECT * WHERE A ;[1 TO 1 HOUR 30 MINUTES] B",
            """\
line 1, column 20: this number needs a unit of its own
  SELECT * WHERE A ;[1 TO 1 HOUR 30 MINUTES] B
                     ^
  help: write 1 MINUTES TO …""",
        ),
        (
            "SELECT * WHERE A, B",
            f"""\
line 1, column 17: unexpected ','
  SELECT * WHERE A, B
                  ^
  expected: {OPERATOR}
  help: use ';' for a sequence, ALL for any order""",
        ),
        (
            "SELECT * WHERE A AND B",
            f"""\
line 1, column 18: unexpected 'AND'
  SELECT * WHERE A AND B
                   ^^^
  expected: {OPERATOR}
  help: AND joins conditions; use ALL for events in any order, ';' for a sequence""",
        ),
        (
            "SELECT * WHERE A ; ; B",
            """\
line 1, column 20: unexpected ';'
  SELECT * WHERE A ; ; B
                     ^
  expected: an event type, NOT, '(' or '*'""",
        ),
        (
            "SELECT * WHERE A{x}",
            """\
line 1, column 18: unexpected 'x'
  SELECT * WHERE A{x}
                   ^
  expected: a whole number""",
        ),
        (
            "SELECT * WHERE A AS or ; B",
            """\
line 1, column 21: unexpected 'or'
  SELECT * WHERE A AS or ; B
                      ^^
  expected: a variable name
  help: to use 'or' as a name, write it in backquotes: `or`""",
        ),
        # conditions
        (
            "SELECT * WHERE A FILTER A[price]",
            """\
line 1, column 25: an attribute alone is not a condition
  SELECT * WHERE A FILTER A[price]
                          ^^^^^^^^
  expected: a comparison such as = or < or an arithmetic operator
  help: compare it: x[price] < y[price], or with a constant x[price > 100]""",
        ),
        (
            "SELECT * WHERE A FILTER A[x = 1] AND A[price] AND A[y = 2]",
            """\
line 1, column 38: an attribute alone is not a condition
  SELECT * WHERE A FILTER A[x = 1] AND A[price] AND A[y = 2]
                                       ^^^^^^^^
  expected: a comparison such as = or < or an arithmetic operator
  help: compare it: x[price] < y[price], or with a constant x[price > 100]""",
        ),
        (
            "SELECT * WHERE A FILTER A[price] > WITHIN 3 EVENTS",
            """\
line 1, column 36: unexpected 'WITHIN'
  SELECT * WHERE A FILTER A[price] > WITHIN 3 EVENTS
                                     ^^^^^^
  expected: a value such as 5 or y[price] or '('""",
        ),
        (
            "SELECT * WHERE A FILTER A[open AND price = 1]",
            """\
line 1, column 32: unexpected 'AND'
  SELECT * WHERE A FILTER A[open AND price = 1]
                                 ^^^
  expected: a comparison such as = or <, an arithmetic operator, NOT, IN, IS, LIKE, '.' or ']'
  help: compare the attribute with something: flag = TRUE""",
        ),
        (
            "SELECT * WHERE A FILTER A[x = NULL]",
            """\
line 1, column 31: unexpected 'NULL'
  SELECT * WHERE A FILTER A[x = NULL]
                                ^^^^
  expected: an attribute, a constant such as 5 or 'x' or '('
  help: use IS NULL or IS NOT NULL""",
        ),
        (
            "SELECT * WHERE A FILTER A[x => 1]",
            """\
line 1, column 29: '=>' is not part of the language
  SELECT * WHERE A FILTER A[x => 1]
                              ^^
  help: use '>=' between values, '->' between events""",
        ),
        (
            "SELECT * WHERE A FILTER A[1 < x > 2]",
            """\
line 1, column 27: a chain of comparisons must go one way
  SELECT * WHERE A FILTER A[1 < x > 2]
                            ^^^^^^^^^
  help: join the comparisons with AND""",
        ),
        (
            "SELECT * WHERE A FILTER A[x IN {..}]",
            """\
line 1, column 27: a range needs at least one end
  SELECT * WHERE A FILTER A[x IN {..}]
                            ^^^^^^^^^
  help: write {1..5} or {1..}""",
        ),
        (
            "SELECT * WHERE S>A ; T>A FILTER S>A[x = 1]",
            """\
line 1, column 33: 'S>A' is not a variable: 'A' of other streams occurs in the formula too
  SELECT * WHERE S>A ; T>A FILTER S>A[x = 1]
                                  ^^^
  help: name it in the formula: S>A AS x""",
        ),
        (
            "SELECT * FROM S, T WHERE A FILTER S>A[x = 1]",
            """\
line 1, column 35: 'S>A' is not a variable: 'A' of other streams occurs in the formula too
  SELECT * FROM S, T WHERE A FILTER S>A[x = 1]
                                    ^^^
  help: name it in the formula: S>A AS x""",
        ),
        (
            "SELECT * FROM Stock WHERE A FILTER Stok>A[x = 1]",
            """\
line 1, column 36: stream 'Stok' is not in FROM
  SELECT * FROM Stock WHERE A FILTER Stok>A[x = 1]
                                     ^^^^^^
  expected: Stock
  help: did you mean 'Stock'?""",
        ),
        # clauses
        (
            "SELECT NEXTT * WHERE A",
            """\
line 1, column 16: unexpected 'WHERE'
  SELECT NEXTT * WHERE A
                 ^^^^^
  expected: a variable or a value or '('
  help: did you mean 'NEXT' instead of 'NEXTT'?""",
        ),
        (
            "SELECT *, COUNT(*) WHERE A",
            """\
line 1, column 9: unexpected ','
  SELECT *, COUNT(*) WHERE A
          ^
  expected: FROM or WHERE
  help: '*' stands alone; name the variables to combine them with aggregates""",
        ),
        (
            "SELECT SUM(a), COUNT(a[b]), AVG(*) WHERE A AS a",
            """\
line 1, column 8: SUM needs an attribute
  SELECT SUM(a), COUNT(a[b]), AVG(*) WHERE A AS a
         ^^^^^^
  help: write SUM(a[…])
line 1, column 29: AVG(*) has no meaning
  SELECT SUM(a), COUNT(a[b]), AVG(*) WHERE A AS a
                              ^^^^^^
  help: name a variable and an attribute: AVG(x[a])""",
        ),
        (
            "SELECT * WHERE A PARTITION BY name",
            """\
line 1, column 31: unexpected 'name'
  SELECT * WHERE A PARTITION BY name
                                ^^^^
  expected: '['
  help: write PARTITION BY [name]""",
        ),
        (
            "SELECT * WHERE A PARTITION BY [A[name]]",
            """\
line 1, column 33: unexpected '['
  SELECT * WHERE A PARTITION BY [A[name]]
                                  ^
  expected: ',', '.' or ']'
  help: variables are named inside a formula: (A ; B PARTITION BY [A[x], B[y]])""",
        ),
        (
            "SELECT * WHERE A WITHIN 5 EVENTS FILTER A[x = 1]",
            """\
line 1, column 34: unexpected 'FILTER'
  SELECT * WHERE A WITHIN 5 EVENTS FILTER A[x = 1]
                                   ^^^^^^
  expected: CONSUME BY, FORGET AFTER, GROUP BY, LIMIT, ORDER BY, SUPPRESS BY or the end of the query
  help: the clauses come in this order: SELECT, FROM, WHERE, FILTER, WITHOUT, PARTITION BY, \
WITHIN, GROUP BY, HAVING, CONSUME BY, ORDER BY, LIMIT, FORGET AFTER, SUPPRESS BY""",
        ),
        (
            "SELECT * WHERE A LIMIT 3 LIMIT 4",
            """\
line 1, column 26: unexpected 'LIMIT'
  SELECT * WHERE A LIMIT 3 LIMIT 4
                           ^^^^^
  expected: EVERY, FORGET AFTER, OVERALL, SUPPRESS BY or the end of the query
  help: a query has one LIMIT clause""",
        ),
        (
            "SELECT * WHERE A FORGET AFTER 5 EVENTS",
            """\
line 1, column 33: unexpected 'EVENTS'
  SELECT * WHERE A FORGET AFTER 5 EVENTS
                                  ^^^^^^
  expected: a unit of time such as MINUTES""",
        ),
        (
            "SELECT * WHERE A FORGET AFTER 0 SECONDS",
            """\
line 1, column 18: FORGET AFTER needs a duration longer than 0
  SELECT * WHERE A FORGET AFTER 0 SECONDS
                   ^^^^^^^^^^^^^^^^^^^^^^""",
        ),
        (
            "SELECT * WHERE A WITHIN 1.5 EVENTS LIMIT -3",
            """\
line 1, column 25: a number of events must be whole
  SELECT * WHERE A WITHIN 1.5 EVENTS LIMIT -3
                          ^^^^^^^^^^
line 1, column 36: LIMIT must not be negative
  SELECT * WHERE A WITHIN 1.5 EVENTS LIMIT -3
                                     ^^^^^^^^""",
        ),
        (
            "SELECT * WHERE A CONSUME BY ALL",
            """\
line 1, column 29: unexpected 'ALL'
  SELECT * WHERE A CONSUME BY ALL
                              ^^^
  expected: ANY, NONE or PARTITION""",
        ),
        # declarations
        (
            "CREATE STREAM S { EVENT A { x:inte, x:int } EVENT A { } } SELECT * WHERE A",
            """\
line 1, column 31: unknown type 'inte'
  CREATE STREAM S { EVENT A { x:inte, x:int } EVENT A { } } SELECT * WHERE A
                                ^^^^
  expected: int, double, string, boolean or timestamp
  help: did you mean 'int'?
line 1, column 37: attribute 'x' is declared twice
  CREATE STREAM S { EVENT A { x:inte, x:int } EVENT A { } } SELECT * WHERE A
                                      ^
line 1, column 51: event 'A' is declared twice
  CREATE STREAM S { EVENT A { x:inte, x:int } EVENT A { } } SELECT * WHERE A
                                                    ^""",
        ),
    ],
)
def test_a_syntax_error_says_where_and_what_was_expected(text: str, message: str) -> None:
    assert complaint(text) == message


def test_a_sound_part_before_a_misspelling_is_still_checked_for_syntax() -> None:
    text = complaint("SELECT * FORM S WHERE A B")
    assert "did you mean 'FROM'?" in text
    assert "unexpected 'B'" in text


def diagnostics(text: str) -> tuple[Diagnostic, ...]:
    try:
        parse(text)
    except QueryError as error:
        return error.diagnostics
    return ()


SOUND = (
    "CREATE STREAM S { EVENT A { x : int } } SELECT NEXT a , b [ x , y ] , MAX ( a [ x ] ) FROM S "
    "WHERE ( A AS a ; B + : C :{ 2 , 3 } OR NOT D UNLESS E PARTITION BY [ a [ x ] ] ) FILTER "
    "a [ x + 1 > -2 AND NOT name LIKE 'x' OR y IN { 1 .. 5 } ] AND a [ x ] < b [ y ] "
    "PARTITION BY [ a ] , [ b ] WITHIN 5 MINUTES 3 SECONDS CONSUME BY ANY LIMIT 3"
)


@settings(max_examples=max(40, settings.default.max_examples))
@given(st.data())
def test_a_broken_query_is_a_query_error_and_nothing_else(data: st.DataObject) -> None:
    words = SOUND.split(" ")
    extra = st.one_of(st.sampled_from([*words, "SELCT", "`", "'", "\n", "*"]), st.text(max_size=3))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(words) - 1))
        words[place : place + data.draw(st.integers(0, 2))] = data.draw(st.lists(extra, max_size=2))
    mistakes = diagnostics(" ".join(words))
    assert all(mistake.span is not None for mistake in mistakes)
