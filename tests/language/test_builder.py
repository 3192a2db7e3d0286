"""The builder makes the very patterns that the text makes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pytest

import cernis.pattern as p
from cernis.errors import QueryError
from cernis.languages.ceql import parse, parse_schema
from cernis.pattern.builder.conditions import ConditionBuilder
from cernis.pattern.builder.formulas import FormulaBuilder
from cernis.pattern.builder.predicates import PredicateBuilder
from cernis.pattern.builder.queries import QueryBuilder

A, B, C = p.event("A"), p.event("B"), p.event("C")
a, b = p.var("a"), p.var("b")
price = p.attr("price")


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (A, "A"),
        (p.event("A", stream="S"), "S>A"),
        (A.as_("x"), "A AS x"),
        (A.as_("x").where(price > 100), "A AS x FILTER x[price > 100]"),
        (A.where(price > 100), "A FILTER A[price > 100]"),
        (A.where(price > 1).where(price < 2), "A FILTER A[price > 1] FILTER A[price < 2]"),
        (p.seq("A", B, C), "A ; B ; C"),
        (A >> "B" >> C, "A ; B ; C"),
        (A >> (B >> C), "A ; (B ; C)"),
        (p.seq(p.seq(A, B), C), "(A ; B) ; C"),
        (p.seq(A, B) >> C, "(A ; B) ; C"),
        (p.then(A, B, C), "A : B : C"),
        (p.either(A, B, C), "A OR B OR C"),
        (A | B | C, "A OR B OR C"),
        (p.all_of(A, B), "A ALL B"),
        (A & B & C, "A ALL B ALL C"),
        (A >> B | C, "A ; B OR C"),
        (A.plus(), "A+"),
        (A.plus(contiguous=True), "A:+"),
        (A.times(2), "A{2}"),
        (A.times(2, 4), "A{2,4}"),
        (A.times(2, None, contiguous=True), "A:{2,}"),
        (A.optional(), "A?"),
        (A.unless("B"), "A UNLESS B"),
        (p.no("A"), "NOT A"),
        (p.no(A.where(price > 1)), "NOT (A FILTER A[price > 1])"),
        ((A >> B).partition_by("name"), "(A ; B PARTITION BY [name])"),
        (
            (A.as_("a") >> B.as_("b")).partition_by(a["x"], b["y.z"]),
            "(A AS a ; B AS b PARTITION BY [a[x], b[y.z]])",
        ),
    ],
)
def test_formulas_equal_their_text(part: FormulaBuilder, text: str) -> None:
    assert p.select().where(part).build() == parse(f"SELECT * WHERE {text}")


@pytest.mark.parametrize(
    ("test", "text"),
    [
        (price > 100, "price > 100"),
        (100 > price, "price < 100"),  # noqa: SIM300
        (price == "x", "price = 'x'"),
        (price != True, "price != TRUE"),  # noqa: E712
        (price >= np.int64(3), "price >= 3"),
        (price <= np.float64(2.5), "price <= 2.5"),
        (price < date(2024, 5, 1), "price < '2024-05-01'"),
        (price < datetime(2024, 5, 1, 12), "price < '2024-05-01T12:00:00'"),
        (price * 2 + 1 - p.attr("u", "v") / 3 % 4 > 0, "price * 2 + 1 - u.v / 3 % 4 > 0"),
        (1 - price > 2 / price, "1 - price > 2 / price"),
        (1 + price * -price > 3 % price, "1 + price * -price > 3 % price"),
        (2 * price > p.const(1) + 1, "2 * price > 1 + 1"),
        (price.like("a.*"), "price LIKE 'a.*'"),
        (price.is_in([1, 2]), "price IN {1, 2}"),
        (price.between(1, 5), "price IN {1..5}"),
        (price.is_null(), "price IS NULL"),
        (price.is_not_null(), "price IS NOT NULL"),
        (~(price > 1), "NOT price > 1"),
        ((price > 1) & (price > 2) & (price > 3), "price > 1 AND price > 2 AND price > 3"),
        ((price > 1) | (price > 2) & (price > 3), "price > 1 OR price > 2 AND price > 3"),
        ((price > 1) & ((price > 2) & (price > 3)), "price > 1 AND (price > 2 AND price > 3)"),
    ],
)
def test_predicates_equal_their_text(test: PredicateBuilder, text: str) -> None:
    assert p.select().where(A.where(test)).build() == parse(f"SELECT * WHERE A FILTER A[{text}]")


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        (a["x"] < b["y"], "a[x] < b[y]"),
        (a["x"] == b["y"], "a[x] = b[y]"),
        (a["x"] != 3, "a[x != 3]"),
        (a[price > 1], "a[price > 1]"),
        (
            (a["x"] <= 1) & (b["y"] >= 2) & (a["z"] > b["z"]),
            "a[x <= 1] AND b[y >= 2] AND a[z] > b[z]",
        ),
        ((a["x"] < 1) | (b["y"] > 2) | (a["x"] < 0), "a[x < 1] OR b[y > 2] OR a[x < 0]"),
    ],
)
def test_conditions_equal_their_text(condition: ConditionBuilder, text: str) -> None:
    built = p.select().where(A.as_("a") >> B.as_("b")).filter(condition).build()
    assert built == parse(f"SELECT * WHERE A AS a ; B AS b FILTER {text}")


@pytest.mark.parametrize(
    ("query", "text"),
    [
        (p.select().where("A"), "SELECT * WHERE A"),
        (p.select("*", strategy="next").where("A"), "SELECT NEXT * WHERE A"),
        (p.select_none(strategy="ANY").where("A"), "SELECT ANY NONE WHERE A"),
        (p.select("A").from_("S", "T").where("A"), "SELECT A FROM S, T WHERE A"),
        (
            p.select(p.var("A").only("x", "y.z"), p.count(), p.count("A")).where(A),
            "SELECT A[x, y.z], COUNT(*), COUNT(A) WHERE A",
        ),
        (
            p.select(p.var("A"), p.aggregate("max", p.var("A")["x"])).where(A),
            "SELECT A, MAX(A[x]) WHERE A",
        ),
        (p.select(p.var("A")["x"]).where(A), "SELECT A[x] WHERE A"),
        (p.select().where(p.follow(A, B >> "C", "D")), "SELECT * WHERE A -> (B ; C) -> D"),
        (p.select().where(p.follow(A, B) >> "C"), "SELECT * WHERE (A -> B) ; C"),
        (p.select().where(A.plus(follow=True)), "SELECT * WHERE A->+"),
        (p.select().where(A.times(2, None, follow=True)), "SELECT * WHERE A->{2,}"),
        (
            p.select().where(p.seq(A, B, gap=p.gap(minutes=1, seconds=30))),
            "SELECT * WHERE A ;[1 MINUTE 30 SECONDS] B",
        ),
        (
            p.select().where(
                p.follow(A, B, gap=p.gap(timedelta(minutes=5), least=timedelta(minutes=1)))
            ),
            "SELECT * WHERE A ->[1 TO 5 MINUTES] B",
        ),
        (p.select().where(A.plus(gap=p.gap(events=3))), "SELECT * WHERE A+[3 EVENTS]"),
        (
            p.select().where(A.times(2, gap=p.gap(events=(1, 3)))),
            "SELECT * WHERE A{2}[1 TO 3 EVENTS]",
        ),
        (
            p.select().where((A >> B).within(minutes=5) >> "C"),
            "SELECT * WHERE (A ; B WITHIN 5 MINUTES) ; C",
        ),
        (p.select().where(A).within(events=10), "SELECT * WHERE A WITHIN 10 EVENTS"),
        (
            p.select().where(A).within(minutes=5, seconds=0.1),
            "SELECT * WHERE A WITHIN 5 MINUTES 100 MILLISECONDS",
        ),
        (
            p.select().where(A).within(timedelta(minutes=5, microseconds=1)),
            "SELECT * WHERE A WITHIN 5 MINUTES 0.001 MILLISECONDS",
        ),
        (
            p.select().where(A).within(attribute="t", size=Decimal("2.5")),
            "SELECT * WHERE A WITHIN 2.5 [t]",
        ),
        (
            p.select().where(A).partition_by("a", ["b", "c.d"]).consume("any").limit(3),
            "SELECT * WHERE A PARTITION BY [a], [b, c.d] CONSUME BY ANY LIMIT 3",
        ),
        (
            p.select().where(A).without(B, hours=1).without("C", events=2, before=True),
            "SELECT * WHERE A WITHOUT B FOR 1 HOUR WITHOUT C BEFORE 2 EVENTS",
        ),
        (
            p.select().where(A).partition_by("a").forget_after(minutes=90),
            "SELECT * WHERE A PARTITION BY [a] FORGET AFTER 1 HOUR 30 MINUTES",
        ),
        (
            p.select()
            .from_("S")
            .where(A)
            .declare(parse_schema("CREATE STREAM S { EVENT A { x:int } }")),
            "CREATE STREAM S { EVENT A { x:int } } SELECT * FROM S WHERE A",
        ),
    ],
)
def test_queries_equal_their_text(query: QueryBuilder, text: str) -> None:
    assert query.build() == parse(text)
    assert str(query) == str(parse(text))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: p.seq(A), "seq() needs at least two formulas"),
        (lambda: p.follow(A), "follow() needs at least two formulas"),
        (
            lambda: A.plus(contiguous=True, follow=True),
            "contiguous rounds have nothing between them\n  help: leave out follow and gap",
        ),
        (lambda: p.gap(minutes=5, events=3), "gap() takes a duration, or events"),
        (lambda: p.gap(), "gap() takes a duration, or events"),
        (lambda: p.seq(A, 3), "expected a formula such as p.event('A'), not 3"),
        (
            lambda: p.select().where("A AS a ; B"),
            (
                "text names an event type here, but 'A AS a ; B' looks like a formula\n"
                "  help: build the formula, as in p.seq('A', 'B'), or write the whole query as "
                "text; for a type of this name write p.event('A AS a ; B')"
            ),
        ),
        (
            lambda: p.select("SUM(a[price])"),
            (
                "text names a variable in select(), but 'SUM(a[price])' looks like a value\n"
                "  help: write p.var('x')['a'], p.count() or p.aggregate('sum', p.var('x')['a'])"
            ),
        ),
        (
            lambda: p.select().where(A).within("5 minutes"),  # type: ignore[arg-type]
            (
                "a duration must be a timedelta, not '5 minutes'\n"
                "  help: write within(minutes=5) for example"
            ),
        ),
        (lambda: p.event(""), "an event type must be a string that is not empty, not ''"),
        (
            lambda: (A >> B).where(price > 1),
            (
                "where() needs an event or a named formula, not A ; B\n"
                "  help: name it with as_() first, or use filter(p.var('x')[…])"
            ),
        ),
        (
            lambda: A.where(a["price"] > 1),
            "expected a predicate such as p.attr('price') > 100, not a[price > 1]",
        ),
        (
            lambda: A.filter(price > 1),
            "expected a condition such as p.var('x')['price'] > 100, not price > 1",
        ),
        (
            lambda: price > a["price"],
            (
                "a[price] is a value of the match and cannot stand inside brackets\n"
                "  help: use p.attr(name) inside a predicate"
            ),
        ),
        (
            lambda: 1 < price < 2,
            (
                "a predicate has no truth value in Python\n"
                "  help: combine with & | ~ instead of and, or, not; "
                "write a < b < c as two comparisons"
            ),
        ),
        (
            lambda: A and B,
            "a formula has no truth value in Python\n  help: combine with >> | & instead",
        ),
        (
            lambda: price > [1],
            "a constant must be a number, a string, a boolean or a time, not [1]",
        ),
        (lambda: price > float("nan"), "a number must be finite, not nan"),
        (lambda: price.is_in([]), "is_in() needs at least one value"),
        (lambda: A.times(3, 2), "times(3, 2) allows no number of repetitions"),
        (lambda: A.times(1.5), "the lower bound must be a whole number, not 1.5"),
        (lambda: p.attr("a..b"), "an attribute must have a name, not ('a..b',)"),
        (
            lambda: p.select(strategy="NEXXT"),
            "unknown strategy 'NEXXT'\n  help: did you mean 'NEXT'?",
        ),
        (lambda: p.select(3), "select() takes variables and values, not 3"),
        (
            lambda: p.aggregate("SUMM", a["x"]),
            "unknown aggregate 'SUMM'\n  help: did you mean 'SUM'?",
        ),
        (
            lambda: p.aggregate("SUM", "a"),
            "SUM needs an attribute of a variable\n  help: write p.var('x')['a']",
        ),
        (
            lambda: p.select().build(),
            "the query has no formula\n  help: call where() before build()",
        ),
        (lambda: p.select().filter(a["x"] > 1), "filter() comes after where()"),
        (
            lambda: p.select().where(A).within(minute=5),
            "unknown unit 'minute' in within()\n  help: did you mean 'minutes'?",
        ),
        (
            lambda: p.select().where(A).within(minutes=5, events=3),
            "within() takes one of a duration, events, or attribute with size",
        ),
        (
            lambda: p.select().where(A).within(attribute="t"),
            "within() needs attribute and size together",
        ),
        (
            lambda: p.select("b").where(A.as_("a").filter(p.var("c")["x"] > 1)).limit(-1).build(),
            (
                "unknown variable 'c' in FILTER\n  expected: A, a\n"
                "unknown variable 'b' in SELECT\n  expected: A, a\n"
                "LIMIT must not be negative"
            ),
        ),
    ],
)
def test_wrong_use_is_a_query_error(wrong: Callable[[], object], message: str) -> None:
    with pytest.raises(QueryError) as caught:
        wrong()
    assert str(caught.value) == message


def test_groups_of_the_start_and_different_values_are_built() -> None:
    people = p.select(p.count(p.var("A")["user"], distinct=True).as_("n")).where("A")
    built = people.group_by(every=timedelta(days=1), of_start=True).build()
    text = "SELECT COUNT(DISTINCT A[user]) AS n WHERE A GROUP BY EVERY 1 DAY OF START"
    assert (str(built), built) == (text, parse(text))
    with pytest.raises(QueryError, match="OF START needs EVERY"):
        p.select(p.count()).where("A").group_by(end=True, of_start=True).build()


def test_a_group_by_of_nothing_is_told() -> None:
    with pytest.raises(QueryError) as caught:
        p.select(p.count()).where("A").group_by()
    message = "group_by() needs a component of the partition, every=… or end=True"
    assert str(caught.value) == message


@pytest.mark.parametrize("name", ["page view", "A-1", "404", "sign in", "a.b/c", "*"])
def test_text_without_the_signs_of_a_formula_is_the_name_of_a_type(name: str) -> None:
    assert p.select().where(name).build() == p.select().where(p.event(name)).build()


@pytest.mark.parametrize("text", ["A+", "S>A", "A : B", "A OR B", "NOT A", "A -> B", "(A)", "A?"])
def test_text_that_looks_like_a_formula_is_no_name(text: str) -> None:
    with pytest.raises(QueryError, match="looks like a formula"):
        p.seq("A", text)


def test_a_gap_is_a_timedelta_or_made_by_gap() -> None:
    length = timedelta(minutes=5)
    made = [
        (p.seq("A", "B", gap=length), p.seq("A", "B", gap=p.gap(minutes=5))),
        (p.follow("A", "B", gap=length), p.follow("A", "B", gap=p.gap(minutes=5))),
        (p.event("A").times(2, gap=length), p.event("A").times(2, gap=p.gap(minutes=5))),
    ]
    assert all(one == other for one, other in made)
    with pytest.raises(QueryError, match=r"'5 minutes' is no gap\n  help: write gap=p.gap"):
        p.event("A").plus(gap="5 minutes")  # type: ignore[arg-type]
