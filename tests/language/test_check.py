"""Names and types against a schema: every mistake, word for word."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from cernis.errors import QueryError
from cernis.languages.ceql import parse, parse_schema
from cernis.pattern.check import MOST_MISTAKES, check, resolve
from cernis.pattern.formula import Event, Filter, Iterate, Sequence
from cernis.pattern.predicate import Aggregate, Attribute, Comparison, Holds, Literal
from cernis.pattern.query import Pattern, Select, SelectedTerm, Unit, Window
from cernis.schema import Kind, Schema, Stream

SCHEMA = parse_schema("""
    CREATE STREAM Stock {
        EVENT SELL { id:int, name:string, price:double, open:boolean, at:timestamp }
        EVENT BUY { id:int, name:string, price:double, broker:string }
    }
    CREATE STREAM Weather { EVENT RAIN { mm:int, place.city:string } }
    CREATE STREAM Log { level:int, body:other }
    CREATE STREAM Dark { }
""")


def complaint(text: str, schema: Schema | None = SCHEMA) -> str:
    with pytest.raises(QueryError) as caught:
        resolve(parse(text), schema)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        # names
        (
            "SELECT * FROM Stock WHERE SELL AS a FILTER a[prise > 100]",
            """\
line 1, column 46: unknown attribute 'prise'
  SELECT * FROM Stock WHERE SELL AS a FILTER a[prise > 100]
                                               ^^^^^
  help: did you mean 'price'?""",
        ),
        (
            "SELECT * FROM Stock WHERE SELL AS a FILTER a[broker = 'x']",
            """\
line 1, column 46: unknown attribute 'broker'
  SELECT * FROM Stock WHERE SELL AS a FILTER a[broker = 'x']
                                               ^^^^^^
  expected: at, id, name, open, price, ts, type""",
        ),
        (
            "SELECT a[prise] FROM Stock WHERE SELL AS a",
            """\
line 1, column 10: unknown attribute 'prise'
  SELECT a[prise] FROM Stock WHERE SELL AS a
           ^^^^^
  help: did you mean 'price'?""",
        ),
        (
            "SELECT * FROM Weather WHERE RAIN FILTER RAIN[place.cty = 'y']",
            """\
line 1, column 46: unknown attribute 'place.cty'
  SELECT * FROM Weather WHERE RAIN FILTER RAIN[place.cty = 'y']
                                               ^^^^^^^^^
  help: did you mean 'place.city'?""",
        ),
        (
            "SELECT * FROM Stock WHERE SELL AS a ; BUY AS b FILTER c[price > 1]",
            """\
line 1, column 55: unknown variable 'c' in FILTER
  SELECT * FROM Stock WHERE SELL AS a ; BUY AS b FILTER c[price > 1]
                                                        ^
  expected: BUY, SELL, a, b""",
        ),
        (
            "SELECT x FROM Stock WHERE (SELL FILTER BUY[price > 1]) ; BUY",
            """\
line 1, column 8: unknown variable 'x' in SELECT
  SELECT x FROM Stock WHERE (SELL FILTER BUY[price > 1]) ; BUY
         ^
  expected: BUY, SELL
line 1, column 40: unknown variable 'BUY' in FILTER
  SELECT x FROM Stock WHERE (SELL FILTER BUY[price > 1]) ; BUY
                                         ^^^
  expected: SELL""",
        ),
        (
            "SELECT * FROM Stock WHERE SELL UNLESS BUY AS b FILTER b[price > 1]",
            """\
line 1, column 55: unknown variable 'b' in FILTER
  SELECT * FROM Stock WHERE SELL UNLESS BUY AS b FILTER b[price > 1]
                                                        ^
  expected: SELL""",
        ),
        (
            "SELECT * FROM Stok WHERE SELL ; Weather>RAIN",
            """\
line 1, column 15: unknown stream 'Stok'
  SELECT * FROM Stok WHERE SELL ; Weather>RAIN
                ^^^^
  help: did you mean 'Stock'?
line 1, column 33: stream 'Weather' is not in FROM
  SELECT * FROM Stok WHERE SELL ; Weather>RAIN
                                  ^^^^^^^^^^^^
  expected: Stok""",
        ),
        (
            "SELECT * WHERE Wether>RAIN",
            """\
line 1, column 16: unknown stream 'Wether'
  SELECT * WHERE Wether>RAIN
                 ^^^^^^^^^^^
  help: did you mean 'Weather'?""",
        ),
        (
            "SELECT * FROM Stock, Stock WHERE SEL ; RAIN",
            """\
line 1, column 22: stream 'Stock' stands twice in FROM
  SELECT * FROM Stock, Stock WHERE SEL ; RAIN
                       ^^^^^
line 1, column 34: unknown event type 'SEL'
  SELECT * FROM Stock, Stock WHERE SEL ; RAIN
                                   ^^^
  help: did you mean 'SELL'?
line 1, column 40: unknown event type 'RAIN'
  SELECT * FROM Stock, Stock WHERE SEL ; RAIN
                                         ^^^^
  expected: BUY, SELL""",
        ),
        # types
        (
            "SELECT * FROM Stock WHERE SELL AS a FILTER a[price > 'MSFT']",
            """\
line 1, column 46: type clash: price is a number, 'MSFT' is a string
  SELECT * FROM Stock WHERE SELL AS a FILTER a[price > 'MSFT']
                                               ^^^^^^^^^^^^^^""",
        ),
        (
            "SELECT * FROM Stock WHERE SELL AS a FILTER a[price + name > 3] AND a[price LIKE 'x']",
            """\
line 1, column 54: arithmetic needs numbers, name is a string
  SELECT * FROM Stock WHERE SELL AS a FILTER a[price + name > 3] AND a[price LIKE 'x']
                                                       ^^^^
line 1, column 70: LIKE needs a string, price is a number
  SELECT * FROM Stock WHERE SELL AS a FILTER a[price + name > 3] AND a[price LIKE 'x']
                                                                       ^^^^^""",
        ),
        (
            "SELECT * FROM Stock WHERE SELL AS a FILTER a[open > 1]",
            """\
line 1, column 46: type clash: open is a boolean, 1 is a number
  SELECT * FROM Stock WHERE SELL AS a FILTER a[open > 1]
                                               ^^^^^^^^""",
        ),
        (
            "SELECT * FROM Stock WHERE SELL AS a ; BUY AS b FILTER a[price] < b[name]",
            """\
line 1, column 55: type clash: a[price] is a number, b[name] is a string
  SELECT * FROM Stock WHERE SELL AS a ; BUY AS b FILTER a[price] < b[name]
                                                        ^^^^^^^^^^^^^^^^^^""",
        ),
        (
            "SELECT * FROM Stock WHERE SELL FILTER SELL[name IN {1, 'x'}] AND SELL[id IN {1..'x'}]",
            """\
line 1, column 44: type clash: 1 is a number, 'x' is a string
  SELECT * FROM Stock WHERE SELL FILTER SELL[name IN {1, 'x'}] AND SELL[id IN {1..'x'}]
                                             ^^^^^^^^^^^^^^^^
line 1, column 44: type clash: name is a string, 1 is a number
  SELECT * FROM Stock WHERE SELL FILTER SELL[name IN {1, 'x'}] AND SELL[id IN {1..'x'}]
                                             ^^^^^^^^^^^^^^^^
line 1, column 71: type clash: 1 is a number, 'x' is a string
  SELECT * FROM Stock WHERE SELL FILTER SELL[name IN {1, 'x'}] AND SELL[id IN {1..'x'}]
                                                                        ^^^^^^^^^^^^^^
line 1, column 71: type clash: id is a number, 'x' is a string
  SELECT * FROM Stock WHERE SELL FILTER SELL[name IN {1, 'x'}] AND SELL[id IN {1..'x'}]
                                                                        ^^^^^^^^^^^^^^""",
        ),
        (
            "SELECT * FROM Stock WHERE SELL FILTER SELL[at > 'yesterday'] AND SELL[at > 5]",
            """\
line 1, column 49: at is a timestamp, 'yesterday' is not a time
  SELECT * FROM Stock WHERE SELL FILTER SELL[at > 'yesterday'] AND SELL[at > 5]
                                                  ^^^^^^^^^^^
  help: write it as in '2024-05-31T12:30:00'
line 1, column 71: type clash: at is a timestamp, 5 is a number
  SELECT * FROM Stock WHERE SELL FILTER SELL[at > 'yesterday'] AND SELL[at > 5]
                                                                        ^^^^^^""",
        ),
        (
            "SELECT SUM(a[name]), AVG(a[q]), COUNT(z), a, a FROM Stock WHERE SELL AS a",
            """\
line 1, column 8: SUM needs numbers, name is a string
  SELECT SUM(a[name]), AVG(a[q]), COUNT(z), a, a FROM Stock WHERE SELL AS a
         ^^^^^^^^^^^^
line 1, column 28: unknown attribute 'q'
  SELECT SUM(a[name]), AVG(a[q]), COUNT(z), a, a FROM Stock WHERE SELL AS a
                             ^
  expected: at, id, name, open, price, ts, type
line 1, column 33: unknown variable 'z' in COUNT
  SELECT SUM(a[name]), AVG(a[q]), COUNT(z), a, a FROM Stock WHERE SELL AS a
                                  ^^^^^^^^
  expected: SELL, a
line 1, column 46: 'a' is selected twice
  SELECT SUM(a[name]), AVG(a[q]), COUNT(z), a, a FROM Stock WHERE SELL AS a
                                               ^""",
        ),
        # partitions
        (
            "SELECT * FROM Stock WHERE SELL PARTITION BY [nme], [name, zzz]",
            """\
line 1, column 46: unknown attribute 'nme' in PARTITION BY: the group covers nothing
  SELECT * FROM Stock WHERE SELL PARTITION BY [nme], [name, zzz]
                                               ^^^
  help: did you mean 'name'?
line 1, column 59: unknown attribute 'zzz' in PARTITION BY
  SELECT * FROM Stock WHERE SELL PARTITION BY [nme], [name, zzz]
                                                            ^^^
  expected: at, broker, id, name, open, price, ts, type""",
        ),
        (
            "SELECT * FROM Stock WHERE (SELL AS a ; BUY+ PARTITION BY [a[name]])",
            """\
line 1, column 59: PARTITION BY does not cover 'BUY'
  SELECT * FROM Stock WHERE (SELL AS a ; BUY+ PARTITION BY [a[name]])
                                                            ^^^^^^^
  help: add BUY[…]""",
        ),
        (
            "SELECT * FROM Stock WHERE (SELL AS a ; BUY AS b PARTITION BY [a[name], b[price]])",
            """\
line 1, column 72: type clash: a[name] is a string, b[price] is a number
  SELECT * FROM Stock WHERE (SELL AS a ; BUY AS b PARTITION BY [a[name], b[price]])
                                                                         ^^^^^^^^""",
        ),
        (
            "SELECT * FROM Stock WHERE (SELL ; BUY AS b PARTITION BY [name, b[name]])",
            """\
line 1, column 58: PARTITION BY inside a formula takes one attribute, or x[a] for each variable
  SELECT * FROM Stock WHERE (SELL ; BUY AS b PARTITION BY [name, b[name]])
                                                           ^^^^
  help: name the variable that the attribute belongs to""",
        ),
        # windows
        (
            "SELECT * FROM Stock WHERE SELL WITHIN 5 [pric]",
            """\
line 1, column 42: unknown attribute 'pric'
  SELECT * FROM Stock WHERE SELL WITHIN 5 [pric]
                                           ^^^^
  help: did you mean 'price'?""",
        ),
        (
            "SELECT * FROM Stock WHERE SELL WITHIN 5 [name]",
            """\
line 1, column 42: WITHIN needs numbers, name is a string
  SELECT * FROM Stock WHERE SELL WITHIN 5 [name]
                                           ^^^^""",
        ),
    ],
)
def test_a_mistake_against_the_schema_is_told(text: str, message: str) -> None:
    assert complaint(text) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "SELECT * WHERE A{3,2} ; A{0,0}",
            """\
line 1, column 16: the bounds {3,2} allow no number
  SELECT * WHERE A{3,2} ; A{0,0}
                 ^^^^^^
  help: write {2,3}
line 1, column 25: zero repetitions match nothing
  SELECT * WHERE A{3,2} ; A{0,0}
                          ^^^^^^""",
        ),
        (
            "SELECT * WHERE A ; NOT (B ; C) ; D",
            """\
line 1, column 20: NOT takes a single event
  SELECT * WHERE A ; NOT (B ; C) ; D
                     ^^^^^^^^^^^
  expected: an event type, with FILTER, OR and AS if need be
  help: to forbid a pattern between two events, use UNLESS""",
        ),
        (
            "SELECT * WHERE A -> (B ALL C)",
            """\
line 1, column 22: what follows '->' must begin with single events, not with ALL
  SELECT * WHERE A -> (B ALL C)
                       ^^^^^^^
  expected: an event type, also with AS, FILTER, OR, + or ?
  help: use ';', or say which event comes first""",
        ),
        (
            "SELECT * WHERE (A? ; NOT B)->+",
            """\
line 1, column 22: what follows '->' must begin with single events, not with NOT
  SELECT * WHERE (A? ; NOT B)->+
                       ^^^^^
  expected: an event type, also with AS, FILTER, OR, + or ?
  help: '->' passes over events that do not fit; use ':' or ';' before NOT""",
        ),
        (
            "SELECT * WHERE A ;[5 TO 1 MINUTES] B",
            """\
line 1, column 19: the gap ends before it begins
  SELECT * WHERE A ;[5 TO 1 MINUTES] B
                    ^^^^^^^^^^^^^^^^
  help: write [1 MINUTE TO 5 MINUTES]""",
        ),
        (
            "SELECT * WHERE A{2}[1.5 EVENTS]",
            """\
line 1, column 20: a number of events must be whole
  SELECT * WHERE A{2}[1.5 EVENTS]
                     ^^^^^^^^^^^^""",
        ),
        (
            "SELECT * WHERE (A ; B WITHIN 1.5 EVENTS)",
            """\
line 1, column 30: a number of events must be whole
  SELECT * WHERE (A ; B WITHIN 1.5 EVENTS)
                               ^^^^^^^^^^""",
        ),
        (
            "SELECT * WHERE NOT (B FILTER C[x = 1])",
            """\
line 1, column 30: unknown variable 'C' in FILTER
  SELECT * WHERE NOT (B FILTER C[x = 1])
                               ^
  expected: B""",
        ),
        (
            "SELECT * WHERE A FILTER A[3 = 'a'] AND A['b' LIKE 'b'] AND A[-'c' = 2]",
            """\
line 1, column 27: type clash: 3 is a number, 'a' is a string
  SELECT * WHERE A FILTER A[3 = 'a'] AND A['b' LIKE 'b'] AND A[-'c' = 2]
                            ^^^^^^^
line 1, column 63: arithmetic needs numbers, 'c' is a string
  SELECT * WHERE A FILTER A[3 = 'a'] AND A['b' LIKE 'b'] AND A[-'c' = 2]
                                                                ^^^""",
        ),
        (
            "SELECT * WHERE A FILTER A[x IN {5..1}] AND A[x = 9223372036854775808]",
            """\
line 1, column 27: the range 5..1 is empty
  SELECT * WHERE A FILTER A[x IN {5..1}] AND A[x = 9223372036854775808]
                            ^^^^^^^^^^^
line 1, column 50: a whole number must fit in 64 bits
  SELECT * WHERE A FILTER A[x IN {5..1}] AND A[x = 9223372036854775808]
                                                   ^^^^^^^^^^^^^^^^^^^""",
        ),
    ],
)
def test_a_mistake_is_told_without_a_schema(text: str, message: str) -> None:
    assert complaint(text, None) == message


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM Stock WHERE (SELL OR BUY) AS a FILTER a[broker = 'x'] AND a[open = TRUE]",
        "SELECT * FROM Stock WHERE SELL AS a FILTER a[type = 'SELL' AND ts > 5 AND price > id]",
        "SELECT * FROM Stock WHERE SELL FILTER SELL[at > '2024-01-01' AND at < '2024-01-02T03:04']",
        "SELECT * FROM Stock WHERE SELL+ AS a ; BUY AS b FILTER a[price] < b[id]",
        "SELECT a, SELL[name], MIN(a[name]), AVG(a[price]), COUNT(*) FROM Stock WHERE SELL AS a",
        "SELECT * FROM Stock WHERE (SELL AS a ; BUY PARTITION BY [a[name], BUY[broker]])",
        "SELECT * FROM Stock WHERE (SELL ; NOT SELL ; BUY PARTITION BY [name])",
        "SELECT * FROM Stock WHERE SELL UNLESS (BUY FILTER BUY[price > 1])",
        "SELECT * FROM Stock WHERE SELL PARTITION BY [broker, name] WITHIN 5 [price]",
        "SELECT * FROM Stock, Weather WHERE Stock>SELL ; RAIN FILTER RAIN[place.city = 'x']",
        "SELECT * FROM Log WHERE ANYTHING FILTER ANYTHING[level > 1 AND body.deep.inside = 'x']",
        "SELECT * FROM Dark WHERE ANYTHING FILTER ANYTHING[whatever > 1]",
        "SELECT * FROM Stock WHERE SELL?",
        "SELECT * FROM Stock WHERE SELL{0,3}",
    ],
)
def test_a_sound_query_passes(text: str) -> None:
    pattern = parse(text)
    assert check(pattern, SCHEMA) == []
    assert resolve(pattern, SCHEMA) is pattern


def test_a_declared_schema_is_checked_without_being_given() -> None:
    text = "CREATE STREAM S { EVENT A { price:int } } SELECT * FROM S WHERE A FILTER A[prise = 1]"
    assert "did you mean 'price'?" in complaint(text, None)


def test_a_query_must_fit_its_declaration_and_the_data() -> None:
    text = (
        "CREATE STREAM S { EVENT A { x:int, y:int } } SELECT * FROM S WHERE A FILTER A[x + y = 1]"
    )
    data = Schema((Stream("S", {"x": Kind.STRING}),))
    messages = [mistake.message for mistake in check(parse(text), data)]
    assert messages == ["arithmetic needs numbers, x is a string", "unknown attribute 'y'"]


def test_the_same_mistake_is_told_once() -> None:
    text = "CREATE STREAM S { EVENT A { x:int } } SELECT * FROM S WHERE A FILTER B[x = 1]"
    pattern = parse(text)
    assert len(check(pattern, replace(pattern).declared)) == 1


def test_a_hopeless_query_gets_only_the_first_mistakes() -> None:
    text = " ; ".join(f"T{n}" for n in range(200))
    assert len(check(parse(f"SELECT * FROM Stock WHERE {text}"), SCHEMA)) == MOST_MISTAKES


def test_patterns_made_by_hand_are_checked_too() -> None:
    x = Attribute(("x",))
    pattern = Pattern(
        Filter(
            Sequence((Iterate(Event("A"), -1, None),)),
            Holds("A", Comparison("=", x, Literal(float("inf")))),
        ),
        select=Select(False, (SelectedTerm(Aggregate("TOTAL", "A")),)),
        within=Window(Unit.EVENTS, Fraction(-1, 3)),
        limit=-1,
    )
    with pytest.raises(QueryError) as caught:
        resolve(pattern)
    assert str(caught.value).splitlines() == [
        "Sequence needs at least two parts",
        "the bounds {-1,} allow no number",
        "a number must be finite",
        "unknown aggregate 'TOTAL'",
        "  expected: AVG, COUNT, FIRST, LAST, MAX, MIN, SUM",
        "WITHIN must not be negative",
        "a number of events must be whole",
        "the size of WITHIN must be a decimal number",
        "LIMIT must not be negative",
    ]
