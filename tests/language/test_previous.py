"""`PREV(x)[a] op y[b]`: how it is written, built, refused, and what it means."""

from __future__ import annotations

import pytest

import cernis
import cernis.pattern as p
from cernis.errors import QueryError
from cernis.languages.ceql import parse, parse_schema
from cernis.pattern import formula as f
from cernis.pattern import predicate as q
from cernis.pattern.check import resolve
from cernis.pattern.write import write_condition
from cernis.testing.oracle import Valuation, find_valuations, satisfies

A, B = q.Attribute(("a",)), q.Attribute(("b",))
IN_FILTER = "prev() stands in a comparison of filter()"
X, Y = q.Reference("x", A), q.Reference("y", B)


def condition(text: str) -> q.Condition:
    found = parse(f"SELECT * WHERE (A AS x ; B AS y) FILTER {text}").formula
    assert isinstance(found, f.Filter)
    return found.condition


def complaint(text: str) -> str:
    with pytest.raises(QueryError) as caught:
        cernis.query(text)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "op"),
    [
        ("PREV(x)[a] = y[b]", "="),
        ("prev(x)[a] <> y[b]", "!="),
        ("Prev ( x ) [a] >= y[b]", ">="),
        ("y[b] = PREV(x)[a]", "="),
        ("y[b] != PREV(x)[a]", "!="),
        ("y[b] < PREV(x)[a]", ">"),
        ("y[b] >= PREV(x)[a]", "<="),
    ],
)
def test_the_event_before_stands_on_the_left_however_it_is_written(
    text: str, op: q.Operator
) -> None:
    assert condition(text) == q.Compare(op, X, Y, adjacent=True)


def test_a_comparison_of_neighbours_is_another_than_that_of_all_pairs() -> None:
    assert condition("PREV(x)[a] = y[b]") != condition("x[a] = y[b]")


def test_it_is_written_back_as_it_was() -> None:
    text = "PREV(x)[a] < y[b] AND (PREV(`prev`)[user.id] = x[a] OR x[a] < y[b])"
    assert write_condition(condition(text)) == text


def test_a_stream_may_stand_before_the_type() -> None:
    one = parse("SELECT * WHERE S>A+ FILTER PREV(S>A)[a] < S>A[a]")
    assert one == parse("SELECT * WHERE S>A+ FILTER PREV(A)[a] < A[a]")


def test_prev_is_a_name_too() -> None:
    assert parse("SELECT PREV FROM prev WHERE Prev AS PREV FILTER PREV[prev = 1]") == parse(
        "SELECT `PREV` FROM `prev` WHERE `Prev` AS `PREV` FILTER `PREV`[`prev` = 1]"
    )
    prev = q.Reference("prev", q.Attribute(("prev",)))
    found = parse("SELECT * WHERE A+ AS prev FILTER PREV(prev)[prev] = prev[prev]").formula
    assert isinstance(found, f.Filter)
    assert found.condition == q.Compare("=", prev, prev, adjacent=True)


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        (
            "PREV(x)[a] < PREV(y)[b]",
            """\
line 1, column 41: PREV compares an event with the one before it
  SELECT * WHERE (A AS x ; B AS y) FILTER PREV(x)[a] < PREV(y)[b]
                                          ^^^^^^^^^^^^^^^^^^^^^^^
  expected: the event itself beside it, without PREV
  help: write PREV(x)[a] < y[b], for example""",
        ),
        (
            "PREV(x)[a] + 5 < 7",
            """\
line 1, column 41: PREV compares an event with the one before it
  SELECT * WHERE (A AS x ; B AS y) FILTER PREV(x)[a] + 5 < 7
                                          ^^^^^^^^^^^^^^^^^^
  expected: the event itself beside it, without PREV
  help: write PREV(x)[a] < x[a], for example""",
        ),
        (
            "PREV(x)[a] + x[a] < y[b]",
            """\
line 1, column 41: PREV compares two events, and 'x' and 'y' are different ones
  SELECT * WHERE (A AS x ; B AS y) FILTER PREV(x)[a] + x[a] < y[b]
                                          ^^^^^^^^^^^^^^^^^^^^^^^^
  expected: one variable in PREV and one without
  help: name the parts of the formula by one AS, or join conditions by AND""",
        ),
        (
            "PREV(x)[a] + COUNT(y) < y[b]",
            """\
line 1, column 54: COUNT(y) is of the whole match; PREV compares two events
  SELECT * WHERE (A AS x ; B AS y) FILTER PREV(x)[a] + COUNT(y) < y[b]
                                                       ^^^^^^^^
  expected: values of the two events, constants and durations
  help: join two conditions by AND""",
        ),
        (
            "PREV(z)[a] < y[b]",
            """\
line 1, column 46: unknown variable 'z' in FILTER
  SELECT * WHERE (A AS x ; B AS y) FILTER PREV(z)[a] < y[b]
                                               ^
  expected: A, B, x, y""",
        ),
        (
            "PREV(x)[a] AND x[a = 1]",
            """\
line 1, column 41: an attribute alone is not a condition
  SELECT * WHERE (A AS x ; B AS y) FILTER PREV(x)[a] AND x[a = 1]
                                          ^^^^^^^^^^
  expected: a comparison such as = or < or an arithmetic operator
  help: compare it: x[price] < y[price], or with a constant x[price > 100]""",
        ),
        (
            "PREV(x)[a > 3]",
            """\
line 1, column 51: unexpected '>'
  SELECT * WHERE (A AS x ; B AS y) FILTER PREV(x)[a > 3]
                                                    ^
  expected: an arithmetic operator, '.' or ']'
  help: the comparison stands outside the brackets: PREV(x)[price] < y[price]""",
        ),
        (
            "PREV(x[a]) < y[b]",
            """\
line 1, column 47: unexpected '['
  SELECT * WHERE (A AS x ; B AS y) FILTER PREV(x[a]) < y[b]
                                                ^
  expected: '>' or ')'
  help: the attribute stands outside the parentheses: PREV(x)[price]""",
        ),
        (
            "PREVIOUS(x)[a] < y[b]",
            """\
line 1, column 49: unexpected '('
  SELECT * WHERE (A AS x ; B AS y) FILTER PREVIOUS(x)[a] < y[b]
                                                  ^
  expected: a comparison such as = or <, an arithmetic operator, INCREASING or '['
  help: PREV(x)[price] is the event before: FILTER PREV(x)[price] < x[price]""",
        ),
    ],
)
def test_a_mistake_with_prev_is_explained(condition: str, message: str) -> None:
    assert complaint(f"SELECT * WHERE (A AS x ; B AS y) FILTER {condition}") == message


def test_prev_in_select_is_explained() -> None:
    text = complaint("SELECT PREV(x) WHERE A AS x ; B")
    assert text.endswith("help: PREV is for conditions: FILTER PREV(x)[price] < x[price]")


def test_kinds_that_cannot_be_compared_are_told_as_they_were_written() -> None:
    schema = parse_schema("CREATE STREAM S { EVENT A { n:int, s:string } }")
    with pytest.raises(QueryError) as caught:
        resolve(parse("SELECT * FROM S WHERE A+ FILTER A[s] > PREV(A)[n]"), schema)
    assert "type clash: PREV(A)[n] is a number, A[s] is a string" in str(caught.value)


# ----------------------------------------------------------------------- builder


def test_the_builder_makes_what_the_parser_makes() -> None:
    x, y = p.var("x"), p.var("y")
    for clause in (p.prev(x)["a"] < y["b"], p.prev("x")["a"] < y["b"], y["b"] > p.prev(x)["a"]):
        assert clause.condition == q.Compare("<", X, Y, adjacent=True)
    assert (y["b"] == p.prev(x)["a"]).condition == q.Compare("=", X, Y, adjacent=True)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            lambda: (
                p.select("x")
                .where(p.event("A").as_("x").filter(p.prev("x")["a"] < p.prev("x")["b"]))
                .build()
            ),
            """\
PREV compares an event with the one before it
  expected: the event itself beside it, without PREV
  help: write PREV(x)[a] < x[b], for example""",
        ),
        (
            lambda: p.prev("x")["a"] < 5,
            """\
PREV(x)[a] is compared with an attribute of a variable, not 5
  help: a comparison with a constant stands inside the brackets: p.var('x')[…]""",
        ),
        (
            lambda: p.select(p.prev("x")["a"]),
            "PREV(x)[a] has no meaning in select()\n  help: " + IN_FILTER,
        ),
        (
            lambda: p.aggregate("SUM", p.prev("x")["a"]),
            "PREV(x)[a] has no meaning in SUM\n  help: " + IN_FILTER,
        ),
        (
            lambda: p.event("A").partition_by(p.prev("A")["a"]),
            "PREV(A)[a] has no meaning in partition_by()\n  help: " + IN_FILTER,
        ),
        (lambda: p.prev(""), "a variable must be a string that is not empty, not ''"),
        (lambda: p.prev("x")[3], "an attribute must be a string that is not empty, not 3"),
    ],
)
def test_what_cannot_be_built_is_told(wrong: object, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        wrong()  # type: ignore[operator]
    assert str(caught.value) == message


# ----------------------------------------------------------------------- meaning


def test_only_pairs_without_an_event_of_the_match_between_them_are_asked() -> None:
    events = [{"a": 1, "b": 0}, {"a": 5, "b": 9}, {"a": 9, "b": 2}]
    rising = q.Compare("<", X, Y, adjacent=True)
    # x then z then y: x is not right before y
    between = Valuation(0, 2, frozenset({("x", 0), ("z", 1), ("y", 2)}))
    assert satisfies(rising, between, events)
    assert satisfies(q.Compare("<", X, Y), between, events)
    # 5 < 2 does not hold of the second and the third
    beside = Valuation(0, 2, frozenset({("x", 0), ("x", 1), ("y", 2)}))
    assert not satisfies(rising, beside, events)


def test_unknown_does_not_hold_of_neighbours() -> None:
    for op in ("=", "!="):
        unequal = q.Compare(op, q.Reference("x", A), q.Reference("x", A), adjacent=True)
        v = Valuation(0, 1, frozenset({("x", 0), ("x", 1)}))
        assert not satisfies(unequal, v, [{"a": 1}, {}])
        assert not satisfies(unequal, v, [{"a": None}, {"a": None}])


def test_a_single_event_has_no_neighbours() -> None:
    text = "SELECT * WHERE A : NOT (A FILTER PREV(A)[a] < A[a]) : B"
    pattern = parse(text)
    rows = [{"type": kind, "a": 1} for kind in "AAB"]
    assert find_valuations(pattern.formula, rows) == set()
    assert list(cernis.query(text).run(rows)) == []
