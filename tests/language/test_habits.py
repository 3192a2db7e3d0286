"""What people write who come from SQL, MATCH_RECOGNIZE, Esper or Flink: read, or answered."""

from __future__ import annotations

import pytest

import cernis
from cernis.errors import QueryError
from cernis.languages.ceql import parse
from cernis.pattern.check import resolve

CONDITIONS = "conditions on attributes stand in FILTER: SELL AS x FILTER x[price > 100]"
LATER = "';' (some time later), '->' (the next that fits) or ':' (right after)"
OPERATOR = (
    "an operator such as ';', OR or +, a clause such as WITHIN, FILTER or the end of the query"
)


def complain(text: str) -> str:
    with pytest.raises(QueryError) as caught:
        resolve(parse(text))
    return str(caught.value)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("* WHERE A AS s FILTER s.price > 3", "* WHERE A AS s FILTER s[price] > 3"),
        (
            "* WHERE (A AS s ; B AS b) FILTER s.price > b.at.price",
            "* WHERE (A AS s ; B AS b) FILTER s[price] > b[at.price]",
        ),
        ("s.price AS p WHERE A AS s", "s[price] AS p WHERE A AS s"),
        ("COUNT(s.price) AS n WHERE A+ AS s", "COUNT(s[price]) AS n WHERE A+ AS s"),
        ("* WHERE A AS s FILTER s[price == 3]", "* WHERE A AS s FILTER s[price = 3]"),
        ("* WHERE A AS s FILTER s[price <> 3]", "* WHERE A AS s FILTER s[price != 3]"),
        ("* WHERE A ; B WITHIN 5m", "* WHERE A ; B WITHIN 5 MINUTES"),
        ("* WHERE A ; B WITHIN 1h 30 min", "* WHERE A ; B WITHIN 1 HOUR 30 MINUTES"),
        ("* WHERE A ; B WITHIN 250ms", "* WHERE A ; B WITHIN 250 MILLISECONDS"),
        ("* WHERE A ; B WITHIN 10 rows", "* WHERE A ; B WITHIN 10 EVENTS"),
        ("* WHERE A ;[30s] B", "* WHERE A ;[30 SECONDS] B"),
        ("* WHERE A -> B", "* WHERE A -> B"),
        ("COUNT(s) AS n WHERE A+ AS s", "COUNT(s) AS n WHERE A+ AS s"),
        ("* WHERE A AS s ORDER BY s.price LIMIT 3", "* WHERE A AS s ORDER BY s[price] LIMIT 3"),
    ],
)
def test_a_habit_that_is_unambiguous_is_read(written: str, read: str) -> None:
    assert resolve(parse(f"SELECT {written}")) == resolve(parse(f"SELECT {read}"))


@pytest.mark.parametrize("name", ["m", "s", "h", "row"])
def test_a_name_that_is_an_abbreviation_elsewhere_stays_a_name(name: str) -> None:
    text = f"SELECT {name} WHERE A AS {name} FILTER {name}[{name} > 3] WITHIN 5 {name}"
    assert resolve(parse(text)).select.items[0].name == name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'SELECT * WHERE "SELL" AS s',
            """\
line 1, column 16: unexpected "SELL"
  SELECT * WHERE "SELL" AS s
                 ^^^^^^
  expected: an event type, NOT, '(' or '*'
  help: write the type without quotes: SELL""",
        ),
        (
            "SELECT * WHERE 'my sale' AS s",
            """\
line 1, column 16: unexpected 'my sale'
  SELECT * WHERE 'my sale' AS s
                 ^^^^^^^^^
  expected: an event type, NOT, '(' or '*'
  help: write the type without quotes: `my sale`""",
        ),
        (
            "SELECT * WHERE SELL AS s FILTER price > 3",
            """\
line 1, column 33: 'price' of which event?
  SELECT * WHERE SELL AS s FILTER price > 3
                                  ^^^^^
  expected: an attribute or an aggregate
  help: write s[price], with the variable whose events have it""",
        ),
        (
            "SELECT * WHERE SELL AS s ORDER BY price",
            """\
line 1, column 35: 'price' of which event?
  SELECT * WHERE SELL AS s ORDER BY price
                                    ^^^^^
  expected: an attribute or an aggregate
  help: write s[price], with the variable whose events have it""",
        ),
        (
            "SELECT price WHERE SELL AS s",
            """\
line 1, column 8: unknown variable 'price' in SELECT
  SELECT price WHERE SELL AS s
         ^^^^^
  expected: SELL, s
  help: an attribute is written with the event's variable: s[price]""",
        ),
        (
            "SELECT * WHERE SELL AS s FILTER s[price > 3] && s[price < 5]",
            """\
line 1, column 46: '&&' is not part of the language
  SELECT * WHERE SELL AS s FILTER s[price > 3] && s[price < 5]
                                               ^^
  help: use AND between conditions, ALL between formulas""",
        ),
        (
            "SELECT * WHERE A --> B",
            """\
line 1, column 18: '-->' is not part of the language
  SELECT * WHERE A --> B
                   ^^^
  help: use '->'; '--' begins a comment""",
        ),
        (
            "SELECT * WHERE A ; !B",
            """\
line 1, column 20: '!' is not part of the language
  SELECT * WHERE A ; !B
                     ^
  help: use NOT: A : NOT B in a formula, x[NOT price > 100] in a condition""",
        ),
        (
            "SELECT * WHERE A AS s FILTER s[price BETWEEN 3 AND 5]",
            """\
line 1, column 38: unexpected 'BETWEEN'
  SELECT * WHERE A AS s FILTER s[price BETWEEN 3 AND 5]
                                       ^^^^^^^
  expected: a comparison such as = or <, an arithmetic operator, NOT, IN, IS, LIKE, '.' or ']'
  help: write price IN RANGE (3, 5), both ends included""",
        ),
        (
            "SELECT * WHERE A AS s FILTER s[price] BETWEEN 3 AND 5",
            """\
line 1, column 30: an attribute alone is not a condition
  SELECT * WHERE A AS s FILTER s[price] BETWEEN 3 AND 5
                               ^^^^^^^^
  expected: a comparison such as = or < or an arithmetic operator
  help: write x[price IN RANGE (3, 5)], both ends included""",
        ),
        (
            "SELECT * WHERE A AS s FILTER s[price] IN (3, 5)",
            """\
line 1, column 30: an attribute alone is not a condition
  SELECT * WHERE A AS s FILTER s[price] IN (3, 5)
                               ^^^^^^^^
  expected: a comparison such as = or < or an arithmetic operator
  help: this condition stands inside the brackets: s[price IN …]""",
        ),
        (
            "SELECT * WHERE A AS s FILTER s.name like 'x'",
            """\
line 1, column 37: unexpected 'like'
  SELECT * WHERE A AS s FILTER s.name like 'x'
                                      ^^^^
  expected: a comparison such as = or <, an arithmetic operator or '.'
  help: this condition stands inside the brackets: s[name LIKE …]""",
        ),
        (
            "SELECT * WHERE A AS s FILTER s[price IN (3, 5)]",
            """\
line 1, column 41: unexpected '('
  SELECT * WHERE A AS s FILTER s[price IN (3, 5)]
                                          ^
  expected: RANGE or '{'
  help: write a set in braces: IN {3, 5}; a range is IN {3..5} or IN RANGE (3, 5)""",
        ),
        (
            "SELECT * WHERE A ; B WITHIN INTERVAL '5' MINUTE",
            """\
line 1, column 29: unexpected 'INTERVAL'
  SELECT * WHERE A ; B WITHIN INTERVAL '5' MINUTE
                              ^^^^^^^^
  expected: a number
  help: write the duration as it is spoken: 5 MINUTES""",
        ),
        (
            "SELECT * WHERE A ; B WITHIN '5 minutes'",
            """\
line 1, column 29: unexpected '5 minutes'
  SELECT * WHERE A ; B WITHIN '5 minutes'
                              ^^^^^^^^^^^
  expected: a number
  help: write the duration without quotes: 5 minutes""",
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
            "SELECT * WHERE A followedBy B",
            f"""\
line 1, column 18: unexpected 'followedBy'
  SELECT * WHERE A followedBy B
                   ^^^^^^^^^^
  expected: {OPERATOR}
  help: between two events stands {LATER}""",
        ),
        (
            "SELECT * WHERE A notFollowedBy B",
            f"""\
line 1, column 18: unexpected 'notFollowedBy'
  SELECT * WHERE A notFollowedBy B
                   ^^^^^^^^^^^^^
  expected: {OPERATOR}
  help: write WITHOUT B FOR 5 MINUTES after the formula, or A ; C UNLESS B""",
        ),
        (
            "SELECT * WHERE PATTERN (A B+)",
            f"""\
line 1, column 24: unexpected '('
  SELECT * WHERE PATTERN (A B+)
                         ^
  expected: {OPERATOR}
  help: write the events without PATTERN: between two of them stands {LATER}""",
        ),
        (
            "SELECT * FROM S MATCH_RECOGNIZE (PATTERN (A B+))",
            """\
line 1, column 17: unexpected 'MATCH_RECOGNIZE'
  SELECT * FROM S MATCH_RECOGNIZE (PATTERN (A B+))
                  ^^^^^^^^^^^^^^^
  expected: JOIN, WHERE or ','
  help: write the pattern after WHERE: A : B:+ for A B+ of MATCH_RECOGNIZE""",
        ),
        (
            "PATTERN SEQ(A a, B b)",
            """\
line 1, column 1: unexpected 'PATTERN'
  PATTERN SEQ(A a, B b)
  ^^^^^^^
  expected: CREATE STREAM, INSERT INTO or SELECT
  help: write a query: SELECT * FROM stream WHERE A ; B WITHIN 5 MINUTES""",
        ),
        (
            "SELECT * WHERE A B+",
            f"""\
line 1, column 18: unexpected 'B'
  SELECT * WHERE A B+
                   ^
  expected: {OPERATOR}
  help: put ';' (some time later) or ':' (right after) between two events, and AS before a \
variable""",
        ),
        (
            "SELECT * WHERE EVERY A -> B",
            f"""\
line 1, column 22: unexpected 'A'
  SELECT * WHERE EVERY A -> B
                       ^
  expected: {OPERATOR}
  help: leave EVERY out: every match is found, unless SELECT names a strategy""",
        ),
        (
            "SELECT * WHERE SELL(price > 3)",
            f"""\
line 1, column 20: unexpected '('
  SELECT * WHERE SELL(price > 3)
                     ^
  expected: {OPERATOR}
  help: conditions stand in FILTER: SELL AS x FILTER x[price > 100]""",
        ),
        (
            "SELECT * WHERE s=SELL",
            f"""\
line 1, column 17: unexpected '='
  SELECT * WHERE s=SELL
                  ^
  expected: {OPERATOR}
  help: name an event with AS: SELL AS s; {CONDITIONS}""",
        ),
        (
            "SELECT * WHERE SELL AS s WHERE s[price > 3]",
            f"""\
line 1, column 26: unexpected 'WHERE'
  SELECT * WHERE SELL AS s WHERE s[price > 3]
                           ^^^^^
  expected: {OPERATOR}
  help: conditions on events stand in FILTER: FILTER x[price > 100]""",
        ),
        (
            "SELECT * FROM S WHERE type = 'FAIL'",
            f"""\
line 1, column 28: unexpected '='
  SELECT * FROM S WHERE type = 'FAIL'
                             ^
  expected: {OPERATOR}
  help: a type is written as it is: WHERE SELL; {CONDITIONS}""",
        ),
        (
            "SELECT * FROM S WHERE type IN ('FAIL')",
            f"""\
line 1, column 31: unexpected '('
  SELECT * FROM S WHERE type IN ('FAIL')
                                ^
  expected: a variable name
  help: a type is written as it is: WHERE SELL OR BUY; {CONDITIONS}""",
        ),
        (
            "SELECT * FROM S WHERE name LIKE 'a%'",
            f"""\
line 1, column 28: unexpected 'LIKE'
  SELECT * FROM S WHERE name LIKE 'a%'
                             ^^^^
  expected: {OPERATOR}
  help: {CONDITIONS}""",
        ),
        (
            "SELECT * FROM S WHERE price > 3",
            f"""\
line 1, column 31: unexpected '3'
  SELECT * FROM S WHERE price > 3
                                ^
  expected: an event type
  help: {CONDITIONS}""",
        ),
        (
            "SELECT * FROM S WHERE FAIL NOT FOLLOWED BY OK",
            f"""\
line 1, column 28: unexpected 'NOT'
  SELECT * FROM S WHERE FAIL NOT FOLLOWED BY OK
                             ^^^
  expected: {OPERATOR}
  help: write WITHOUT B FOR 5 MINUTES after the formula, or A ; C UNLESS B""",
        ),
        (
            "SELECT DISTINCT f[user] FROM S WHERE FAIL AS f",
            """\
line 1, column 17: unexpected 'f'
  SELECT DISTINCT f[user] FROM S WHERE FAIL AS f
                  ^
  expected: an arithmetic operator, AS, FROM, WHERE, ',', '>' or '['
  help: matches are distinct already; for each user once, write SELECT [user], COUNT(*) … \
PARTITION BY [user] GROUP BY [user]""",
        ),
        (
            "SELECT DISTINCT * FROM S WHERE FAIL",
            """\
line 1, column 19: unexpected 'FROM'
  SELECT DISTINCT * FROM S WHERE FAIL
                    ^^^^
  expected: a variable or a value or '('
  help: matches are distinct already; for each user once, write SELECT [user], COUNT(*) … \
PARTITION BY [user] GROUP BY [user]""",
        ),
        (
            "SELECT TOP 5 * FROM S WHERE FAIL",
            """\
line 1, column 12: unexpected '5'
  SELECT TOP 5 * FROM S WHERE FAIL
             ^
  expected: an arithmetic operator, AS, FROM, WHERE, ',', '>' or '['
  help: write LIMIT 5 at the end, with ORDER BY before it""",
        ),
        (
            "SELECT COUNT(*) FROM S WHERE FAIL AS f GROUP BY f[user]",
            """\
line 1, column 50: unexpected '['
  SELECT COUNT(*) FROM S WHERE FAIL AS f GROUP BY f[user]
                                                   ^
  expected: CONSUME BY, FORGET AFTER, HAVING, LIMIT, ORDER BY, SUPPRESS BY, ',' or the end of the \
query
  help: a group is one of PARTITION BY, without a variable: GROUP BY [user]""",
        ),
    ],
)
def test_other_habits_have_a_sentence_that_says_how_it_is_written_here(
    text: str, message: str
) -> None:
    assert complain(text) == message


def test_what_the_sentences_say_is_a_query_that_does_it() -> None:
    events = [{"type": "FAIL", "user": user, "hour": 4} for user in ("ann", "bob", "ann")]
    once = "SELECT [user], COUNT(*) FROM S WHERE FAIL PARTITION BY [user] GROUP BY [user]"
    assert [group["user"] for group in cernis.query(once).run(events).to_arrow().to_pylist()] == [
        "ann",
        "bob",
    ]
    assert cernis.query("SELECT * WHERE FAIL AS x FILTER x[hour > 3]").run(events).count() == 3


def test_a_wildcard_of_sql_in_an_address_is_shown_as_a_regular_expression() -> None:
    query = cernis.query("SELECT * FROM S WHERE FAIL AS f FILTER f[ip LIKE '10.0.%']")
    (warning,) = query.warnings
    assert (
        str(warning)
        == r"""\
line 1, column 50: LIKE takes a regular expression, in which % is a plain sign
  SELECT * FROM S WHERE FAIL AS f FILTER f[ip LIKE '10.0.%']
                                                   ^^^^^^^^
  help: write ip LIKE '10\.0\..*'""".removeprefix("\\\n")
    )
    meant = cernis.query(r"SELECT * FROM S WHERE FAIL AS f FILTER f[ip LIKE '10\.0\..*']")
    addresses = ("10.0.3.4", "10.1.3.4", "1050")
    assert meant.run([{"type": "FAIL", "ip": ip} for ip in addresses]).count() == 1
    assert not meant.warnings
