"""Every clause and operator of the text, and how tightly the operators bind."""

from __future__ import annotations

from fractions import Fraction

import pytest

from cernis.errors import QueryError, Span
from cernis.languages.ceql import parse, parse_schema
from cernis.languages.ceql.words import TERMINALS
from cernis.pattern import formula as f
from cernis.pattern import predicate as q
from cernis.pattern.formula import Event, walk
from cernis.pattern.predicate import Aggregate
from cernis.pattern.query import (
    Consume,
    Pattern,
    Select,
    SelectedTerm,
    Strategy,
    Unit,
    Variable,
    Window,
)
from cernis.pattern.write import KEYWORDS
from cernis.schema import Kind, Schema, Stream

A, B, C, D = map(Event, "ABCD")
PRICE = q.Attribute(("price",))


def formula(text: str) -> f.Formula:
    return parse(f"SELECT * WHERE {text}").formula


def predicate(text: str) -> q.Predicate:
    node = formula(f"A FILTER A[{text}]")
    assert isinstance(node, f.Filter)
    assert isinstance(node.condition, q.Holds)
    return node.condition.predicate


def condition(text: str) -> q.Condition:
    node = formula(f"A FILTER {text}")
    assert isinstance(node, f.Filter)
    return node.condition


CLAIM = q.Holds("A", q.Comparison("=", q.Attribute(("x",)), q.Literal(1)))
P = "A[x = 1]"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A", A),
        ("S>A", Event("A", "S")),
        ("A AS x", f.As(A, "x")),
        ("A IN x", f.As(A, "x")),
        ("A+", f.Iterate(A)),
        ("A:+", f.Iterate(A, contiguous=True)),
        ("A?", f.Optional(A)),
        ("A{2}", f.Iterate(A, 2, 2)),
        ("A{2,}", f.Iterate(A, 2, None)),
        ("A{2,4}", f.Iterate(A, 2, 4)),
        ("A:{2,4}", f.Iterate(A, 2, 4, True)),
        ("A :{ 2 , }", f.Iterate(A, 2, None, True)),
        ("NOT A", f.Not(A)),
        (f"NOT (A FILTER {P})", f.Not(f.Filter(A, CLAIM))),
        ("A ; B ; C", f.Sequence((A, B, C))),
        ("A : B : C", f.Contiguous((A, B, C))),
        ("A ALL B ALL C", f.All((A, B, C))),
        ("A OR B OR C", f.Choice((A, B, C))),
        ("A UNLESS B UNLESS C", f.Unless(f.Unless(A, B), C)),
        (f"A FILTER {P} FILTER {P}", f.Filter(f.Filter(A, CLAIM), CLAIM)),
        (
            "(A ; B PARTITION BY [price])",
            f.PartitionBy(f.Sequence((A, B)), (f.KeyPart(None, PRICE),)),
        ),
        (
            "(A AS x ; B PARTITION BY [x[price], B[u.v]])",
            f.PartitionBy(
                f.Sequence((f.As(A, "x"), B)),
                (f.KeyPart("x", PRICE), f.KeyPart("B", q.Attribute(("u", "v")))),
            ),
        ),
        ("((((A))))", A),
    ],
)
def test_each_operator_makes_its_node(text: str, expected: f.Formula) -> None:
    assert formula(text) == expected


@pytest.mark.parametrize(
    ("text", "grouped"),
    [
        ("A AS x+", "(A AS x)+"),
        ("A+ AS x", "(A+) AS x"),
        ("A+?", "(A+)?"),
        ("NOT A AS x", "(NOT A) AS x"),
        ("NOT A+", "(NOT A)+"),
        ("A ; B AS x", "A ; (B AS x)"),
        ("A ; B+", "A ; (B+)"),
        ("A : B ; C", "A : (B ; C)"),
        ("A ; B : C", "(A ; B) : C"),
        ("A ALL B : C", "A ALL (B : C)"),
        ("A : B ALL C", "(A : B) ALL C"),
        ("A OR B ALL C", "A OR (B ALL C)"),
        ("A ALL B OR C", "(A ALL B) OR C"),
        ("A UNLESS B OR C", "A UNLESS (B OR C)"),
        ("A OR B UNLESS C", "(A OR B) UNLESS C"),
        (f"A UNLESS B FILTER {P}", f"(A UNLESS B) FILTER {P}"),
        (f"A ; B FILTER {P}", f"(A ; B) FILTER {P}"),
        (f"A FILTER {P} ; B", f"(A FILTER {P}) ; B"),
        (f"A OR B FILTER {P} ; C", f"((A OR B) FILTER {P}) ; C"),
        (f"A FILTER {P} ; B : C ; D", f"((A FILTER {P}) ; B) : (C ; D)"),
        (f"A FILTER {P} ; B OR C", f"((A FILTER {P}) ; B) OR C"),
        (f"A FILTER {P} : B ALL C UNLESS D", f"(((A FILTER {P}) : B) ALL C) UNLESS D"),
        (f"A FILTER {P} UNLESS B FILTER {P}", f"((A FILTER {P}) UNLESS B) FILTER {P}"),
        (f"A FILTER {P} AND {P} OR {P}", f"A FILTER ({P} AND {P}) OR {P}"),
        (f"A FILTER {P} OR {P} AND {P}", f"A FILTER {P} OR ({P} AND {P})"),
        ("A FILTER A[x=1 OR x=2 AND NOT x=3]", "A FILTER A[(x=1) OR ((x=2) AND (NOT (x=3)))]"),
        ("A FILTER A[a + b * -c - d = 1]", "A FILTER A[((a + (b * (-c))) - d) = 1]"),
        ("A FILTER A[a / b / c % d = 1]", "A FILTER A[(((a / b) / c) % d) = 1]"),
    ],
)
def test_operators_bind_in_this_order(text: str, grouped: str) -> None:
    assert formula(text) == formula(grouped)


def test_parentheses_keep_a_group_of_the_same_operator() -> None:
    assert formula("(A ; B) ; C") == f.Sequence((f.Sequence((A, B)), C))
    assert str(parse("SELECT * WHERE (A ; B) ; C")) == "SELECT * WHERE (A ; B) ; C"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x == 1", q.Comparison("=", q.Attribute(("x",)), q.Literal(1))),
        ("price <> 1", q.Comparison("!=", PRICE, q.Literal(1))),
        ("price >= 1.5e3", q.Comparison(">=", PRICE, q.Literal(1500.0))),
        ("price < .5", q.Comparison("<", PRICE, q.Literal(0.5))),
        ("price < -5", q.Comparison("<", PRICE, q.Literal(-5))),
        ("price < -(5)", q.Comparison("<", PRICE, q.Negative(q.Literal(5)))),
        ("price < - -5", q.Comparison("<", PRICE, q.Negative(q.Literal(-5)))),
        ("price < +5", q.Comparison("<", PRICE, q.Literal(5))),
        ("price = 'it''s'", q.Comparison("=", PRICE, q.Literal("it's"))),
        ('price = "it\'s"', q.Comparison("=", PRICE, q.Literal("it's"))),
        ("price = true", q.Comparison("=", PRICE, q.Literal(True))),
        ("price LIKE 'a\\.b'", q.Like(PRICE, "a\\.b")),
        ("price NOT LIKE 'a'", q.Negation(q.Like(PRICE, "a"))),
        ("price IN {1, -2.5, 'x'}", q.InSet(PRICE, tuple(map(q.Literal, (1, -2.5, "x"))))),
        ("price NOT IN {1}", q.Negation(q.InSet(PRICE, (q.Literal(1),)))),
        ("price IN {1..5}", q.InRange(PRICE, q.Literal(1), q.Literal(5))),
        ("price IN {0.5..1.5}", q.InRange(PRICE, q.Literal(0.5), q.Literal(1.5))),
        ("price IN {-1..}", q.Comparison(">=", PRICE, q.Literal(-1))),
        ("price IN {..5}", q.Comparison("<=", PRICE, q.Literal(5))),
        ("price IN RANGE (-1, 5)", q.InRange(PRICE, q.Literal(-1), q.Literal(5))),
        ("price IS NULL", q.IsNull(PRICE)),
        ("price IS NOT NULL", q.IsNull(PRICE, True)),
        (
            "price IN RANGE (low, 5)",
            q.And(
                (
                    q.Comparison(">=", PRICE, q.Attribute(("low",))),
                    q.Comparison("<=", PRICE, q.Literal(5)),
                )
            ),
        ),
        (
            "1 < price <= 2",
            q.And(
                (
                    q.Comparison("<", q.Literal(1), PRICE),
                    q.Comparison("<=", PRICE, q.Literal(2)),
                )
            ),
        ),
        ("user.id = 1", q.Comparison("=", q.Attribute(("user", "id")), q.Literal(1))),
        ("`user.id` = 1", q.Comparison("=", q.Attribute(("user.id",)), q.Literal(1))),
    ],
)
def test_each_predicate_makes_its_node(text: str, expected: q.Predicate) -> None:
    assert predicate(text) == expected


def test_conditions_compare_the_attributes_of_two_variables() -> None:
    left, right = q.Reference("a", PRICE), q.Reference("b", q.Attribute(("x", "y")))
    assert condition("a[price] > b[x.y]") == q.Compare(">", left, right)
    assert condition("(a[price] <> b[x.y])") == q.Compare("!=", left, right)


@pytest.mark.parametrize(
    ("text", "select", "strategy"),
    [
        ("*", Select(), Strategy.ALL),
        ("ALL *", Select(), Strategy.ALL),
        ("next none", Select(False), Strategy.NEXT),
        ("STRICT a", Select(False, (Variable("a"),)), Strategy.STRICT),
        ("LAST LAST", Select(False, (Variable("LAST"),)), Strategy.LAST),
        ("max", Select(False, (Variable("max"),)), Strategy.ALL),
        ("MAX MAX(a[x])", None, Strategy.MAX),
        ("ANY a, b[x, y.z]", None, Strategy.ANY),
        ("count(*)", Select(False, (SelectedTerm(Aggregate("COUNT")),)), Strategy.ALL),
        ("Count(a)", Select(False, (SelectedTerm(Aggregate("COUNT", "a")),)), Strategy.ALL),
    ],
)
def test_select_takes_a_strategy_and_items(
    text: str, select: Select | None, strategy: Strategy
) -> None:
    pattern = parse(f"SELECT {text} WHERE A")
    assert pattern.strategy is strategy
    if select is not None:
        assert pattern.select == select


def test_select_items_keep_their_attributes_and_aggregates() -> None:
    assert parse("SELECT a, b[x, y.z], SUM(a[price]) WHERE A").select.items == (
        Variable("a"),
        Variable("b", ("x", "y.z")),
        SelectedTerm(Aggregate("SUM", q.Reference("a", PRICE))),
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10 EVENTS", Window(Unit.EVENTS, Fraction(10))),
        ("1 event", Window(Unit.EVENTS, Fraction(1))),
        ("5 MINUTES 30 SECONDS", Window(Unit.TIME, Fraction(330 * 10**9))),
        ("1 day 1 hour", Window(Unit.TIME, Fraction(25 * 3600 * 10**9))),
        ("0.5 SECONDS", Window(Unit.TIME, Fraction(5 * 10**8))),
        ("1e-3 milliseconds", Window(Unit.TIME, Fraction(1000))),
        (
            "2.5 [stock.time]",
            Window(Unit.ATTRIBUTE, Fraction(5, 2), q.Attribute(("stock", "time"))),
        ),
    ],
)
def test_windows_are_exact(text: str, expected: Window) -> None:
    assert parse(f"SELECT * WHERE A WITHIN {text}").within == expected


def test_all_clauses_together() -> None:
    pattern = parse(
        "SELECT NEXT * FROM S, T WHERE A ; B FILTER A[x = 1] PARTITION BY [a], [b, c.d] "
        "WITHIN 10 EVENTS CONSUME BY PARTITION LIMIT 3 FORGET AFTER 1 HOUR 30 MINUTES"
    )
    assert pattern == Pattern(
        formula=f.Filter(f.Sequence((A, B)), CLAIM),
        strategy=Strategy.NEXT,
        streams=("S", "T"),
        partition=(("a",), ("b", "c.d")),
        within=Window(Unit.EVENTS, Fraction(10)),
        consume=Consume.PARTITION,
        limit=3,
        forget=Fraction(5_400_000_000_000),
    )


def test_without_stands_before_partition_by() -> None:
    pattern = parse(
        "SELECT * WHERE A AS a FILTER a[x = 1] WITHOUT (B AS b FILTER b[x] = a[x]) FOR 1 HOUR "
        "WITHOUT C ; D BEFORE 3 EVENTS PARTITION BY [k] LIMIT 3"
    )
    after, before = pattern.without
    assert after == pattern.absent_after
    assert before == pattern.absent_before
    assert (after.before, before.before) == (False, True)
    assert after.within == Window(Unit.TIME, Fraction(3_600_000_000_000))
    assert before.formula == f.Sequence((f.Event("C"), f.Event("D")))
    assert parse(str(pattern)) == pattern


def test_without_for_and_before_stay_names() -> None:
    text = "SELECT * WHERE for ; without AS before WITHOUT without FOR 1 EVENTS"
    pattern = parse(text)
    assert pattern.without[0].formula == f.Event("without")
    assert parse(str(pattern)) == pattern


def test_forget_and_after_stay_names() -> None:
    text = "SELECT * WHERE forget ; after AS x FILTER x[after > 1] FORGET AFTER 1 SECOND"
    pattern = parse(text)
    assert pattern.forget == Fraction(1_000_000_000)
    assert parse(str(pattern)) == pattern


def test_a_filter_clause_is_a_filter_of_the_whole_formula() -> None:
    assert parse(f"SELECT * WHERE A ; B FILTER {P}") == parse(f"SELECT * WHERE (A ; B) FILTER {P}")


def test_declarations_stand_before_the_query() -> None:
    text = """
        CREATE STREAM S {
            EVENT A { id:int, name:string, user.age:long },
            EVENT B { id:double, ok:boolean, at:datetime, blob:other }
            EVENT C { }
        }
        DECLARE STREAM T { x:PRIMARY_TIME };
        SELECT * FROM S WHERE A
    """
    events = {
        "A": {"id": Kind.INT, "name": Kind.STRING, "user.age": Kind.INT},
        "B": {"id": Kind.FLOAT, "ok": Kind.BOOL, "at": Kind.TIMESTAMP, "blob": Kind.OTHER},
        "C": {},
    }
    flat = {**events["A"], **events["B"], "id": Kind.FLOAT}
    expected = Schema((Stream("S", flat, events), Stream("T", {"x": Kind.OTHER})))
    assert parse(text).declared == expected
    assert parse_schema(text[: text.index("SELECT")]) == expected


def test_an_attribute_of_two_kinds_is_of_no_known_kind() -> None:
    schema = parse_schema("CREATE STREAM S { EVENT A { x:int } EVENT B { x:string } }")
    assert schema.streams[0].attributes == {"x": Kind.OTHER}


def test_comments_and_case_do_not_matter() -> None:
    text = "select * -- all\nfrom S // here\nwhere /* the ; formula */ A;B \ufeff within 3 events"
    assert parse(text) == parse("SELECT * FROM S WHERE A ; B WITHIN 3 EVENTS")


@pytest.mark.parametrize(
    "text",
    [
        "ſELECT * FROM S WHERE A",
        "SELECT * FROM S WHERE A ﬁlter A[v > 3]",
        "SELECT * FROM S WHERE A ; B wıthın 3 EVENTS",
        "SELECT * FROM S WHERE A ; B WITHIN 3 mınuteſ",
        "SELECT * FROM S WHERE A ; B FILTER END - ſtart > 3 SECONDS",
        "SELECT ſUM(a[v]) FROM S WHERE A AS a",
    ],
)
def test_keywords_are_words_of_ascii_letters(text: str) -> None:
    plain = text.translate({ord("ſ"): "s", ord("ı"): "i", ord("ﬁ"): "fi"})
    parse(plain)
    with pytest.raises(QueryError):
        parse(text)


def test_a_name_that_is_a_keyword_in_other_letters_is_a_name() -> None:
    pattern = parse("SELECT * FROM S WHERE ſELECT AS wıthın FILTER wıthın[ﬁlter > 3]")
    assert f.As(Event("ſELECT"), "wıthın") in walk(pattern.formula)
    assert parse(str(pattern)) == pattern


def test_a_query_may_end_with_a_semicolon() -> None:
    assert parse("SELECT * WHERE A ; B;") == parse("SELECT * WHERE A ; B")
    assert parse("SELECT * WHERE A LIMIT 3 ;") == parse("SELECT * WHERE A LIMIT 3")


def test_names_keep_their_case_and_may_stand_in_backquotes() -> None:
    assert formula("`my event` AS `a``b`") == f.As(Event("my event"), "a`b")
    assert formula("a") != formula("A")


@pytest.mark.parametrize("word", ["max", "Count", "event", "minutes", "range", "any", "stream"])
def test_soft_keywords_are_names_too(word: str) -> None:
    text = f"SELECT {word} FROM {word} WHERE {word} AS {word} FILTER {word}[{word} = 1]"
    assert parse(text).formula == f.Filter(
        f.As(Event(word), word),
        q.Holds(word, q.Comparison("=", q.Attribute((word,)), q.Literal(1))),
    )


@pytest.mark.parametrize("word", ["select", "from", "limit", "by", "all", "within", "none"])
def test_clause_words_may_name_attributes(word: str) -> None:
    assert predicate(f"{word} > 1") == q.Comparison(">", q.Attribute((word,)), q.Literal(1))


def test_the_writer_quotes_exactly_the_keywords() -> None:
    # ORDER is a keyword only before BY, OVERALL and PER only after LIMIT: no name can stand there
    assert set(TERMINALS) - {"ORDER", "OVERALL", "PER"} | {"START", "END"} == KEYWORDS


def test_a_stream_may_stand_before_a_variable() -> None:
    assert parse("SELECT S>A WHERE S>A FILTER S>A[x = 1]") == parse(
        "SELECT A WHERE S>A FILTER A[x = 1]"
    )


def test_every_node_knows_its_text() -> None:
    text = "SELECT * FROM S WHERE (A AS x ; B+) FILTER x[price + 1 > 2] LIMIT 3"
    pattern = parse(text)
    written = [text[node.span.start : node.span.end] for node in walk(pattern.formula) if node.span]
    assert written == [
        "(A AS x ; B+) FILTER x[price + 1 > 2]",
        "A AS x ; B+",
        "A AS x",
        "A",
        "B+",
        "B",
    ]
    assert pattern.spans["limit"] == (Span(60, 67),)
