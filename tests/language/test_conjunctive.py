"""Conjunctive queries: what a text stands for, how it is written back, what it lowers to."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from cernis.errors import BudgetError, CernisError
from cernis.events.batch import EventBatch
from cernis.events.store import EventStore
from cernis.languages.ceql import parse_schema
from cernis.languages.conjunctive import lower, parse
from cernis.languages.conjunctive.query import ConjunctiveQuery, Literal
from cernis.pattern import formula as cel
from cernis.pattern.check import check
from cernis.pattern.predicate import TIME, TIME_NS, Attribute
from cernis.pattern.query import Unit, Window
from cernis.pattern.write import write_window
from cernis.testing.oracle import evaluate
from tools.cases.conjunctive import DECLARATION, JoinFeatures, make_seeded_join
from tools.cases.grammar import Events
from tools.cases.strategies import joins

DECLARED = (
    "CREATE STREAM S { EVENT T { a:int }, EVENT S { a:int, b:int }, EVENT R { a:int, b:int },"
    " EVENT N { f:double, s:string, t:boolean } }\n"
)


def lowered(text: str) -> str:
    """The formula and the clauses after it."""
    return str(lower(parse(text))).rpartition("WHERE ")[2]


# ------------------------------------------------------------------------ text


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("Q(x, y) <- T(x), S(x, y), R(x, y)", "Q(x, y) <- T(a: x), S(a: x, b: y), R(a: x, b: y)"),
        ("Q(x) :- T(x), R(b: y, a: x).", "Q(x) <- T(a: x), R(b: y, a: x)"),
        ("ans(x) <- T(x), S(x, b: 3);", "ans(x) <- T(a: x), S(a: x, b: 3)"),
        ("Q() <- S>T(_), N(_, 'it''s', _)", "Q() <- S>T(), N(s: 'it''s')"),
        ("Q() <- N(t: true, f:-.5), S(a:-1)", "Q() <- N(t: TRUE, f: -0.5), S(a: -1)"),
        ("Q(x) <- T(x), x<-3, 4 >= x", "Q(x) <- T(a: x), x < -3, 4 >= x"),
        ("Q(x) <- S(x, y), 0 < x <= y == 1", None),
        ("Q(x) <- S(x, y), 0 < x <= y", "Q(x) <- S(a: x, b: y), 0 < x, x <= y"),
        ("Q(x) <- S(x, y), x>y", "Q(x) <- S(a: x, b: y), x > y"),
        ("Q(t) <- T(_)@t, R(_, _)@u, t - u < 5", "Q(t) <- T()@t, R()@u, t - u < 5"),
        (
            "Q(t) <- T()@t, R()@u, 1.5 MINUTES 1 SECOND > t - u WITHIN 10 events",
            "Q(t) <- T()@t, R()@u, 1 MINUTE 31 SECONDS > t - u WITHIN 10 EVENTS",
        ),
        ("Q(x) <- T(x) -- why\n WITHIN /* so */ 3 [b]", "Q(x) <- T(a: x) WITHIN 3 [b]"),
        ("Q(`in`) <- T(`in`), S(`in`, filter)", "Q(`in`) <- T(a: `in`), S(a: `in`, b: `filter`)"),
        ("select(from) <- T(from)", "`select`(`from`) <- T(a: `from`)"),
    ],
)
def test_a_query_is_written_back_with_names_for_its_arguments(
    text: str, written: str | None
) -> None:
    if written is None:
        with pytest.raises(CernisError, match="must go one way"):
            parse(DECLARED + text)
        return
    query = parse(DECLARED + text)
    assert str(query).splitlines()[-1] == written
    assert parse(str(query)) == query
    assert parse(written, schema=parse_schema(DECLARED)).atoms == query.atoms


def test_a_declaration_goes_with_the_query() -> None:
    query = parse(DECLARED + "Q(x) <- T(x)")
    assert query.declared == parse_schema(DECLARED)
    assert str(query).startswith("CREATE STREAM S {")
    assert lower(query).declared == query.declared


def test_a_schema_may_be_given_instead() -> None:
    query = parse("Q(x, y) <- S(x, y)", schema=parse_schema(DECLARED))
    assert (query.declared, str(query)) == (None, "Q(x, y) <- S(a: x, b: y)")


def test_a_stream_without_event_types_has_one_list_of_attributes() -> None:
    assert str(parse("CREATE STREAM S { a:int, b:int }\nQ(x) <- T(x, _)")).endswith("T(a: x)")


def test_a_relation_is_looked_up_in_the_stream_that_is_named() -> None:
    declared = "CREATE STREAM S { EVENT T { a:int } } CREATE STREAM U { EVENT T { b:int } }\n"
    query = parse(declared + "Q(x) <- S>T(x), U>T(x)")
    assert [str(atom) for atom in query.atoms] == ["S>T(a: x)", "U>T(b: x)"]


def test_the_parts_of_a_query() -> None:
    query = parse("Q(y, t) <- T(a: x, n.b: 3)@t, S(a: x, b: y) WITHIN 5 SECONDS")
    first, second = query.atoms
    assert (first.relation, first.stream, first.time) == ("T", None, "t")
    assert first.arguments[1] == (Attribute(("n", "b")), Literal(3))
    assert second.columns == {"x": Attribute(("a",)), "y": Attribute(("b",))}
    assert query.within == Window(Unit.TIME, Fraction(5_000_000_000))
    assert (query.head, query.variables) == (("y", "t"), ("x", "t", "y"))
    assert (first.short, second.short) == ("T(x, 3)@t", "S(x, y)")


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("Q(x, y) <- S(a: x, b: y)", True),
        ("Q(y, x) <- S(a: x, b: y), S(a: x)", True),
        ("Q(x) <- S(a: x, b: y)", False),
        ("Q(x) <- S(a: x, b: _)", True),
        ("Q(x) <- S(a: x)@t", False),
        ("Q() <- S(a: 3)", True),
    ],
)
def test_a_query_is_full_when_its_head_has_every_variable(text: str, full: bool) -> None:
    assert parse(text).full is full


# -------------------------------------------------------------------- lowering


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("Q(x) <- T(a: x)", "T AS `0`"),
        ("Q(x) <- S>T(a: x), x > 3", "S>T AS `0` FILTER `0`[a > 3]"),
        (
            "Q(x, y) <- T(a: x), S(a: x, b: y), R(a: x, b: y)",
            (
                "(T AS `0` ALL S AS `1` ALL R AS `2`) FILTER "
                "`0`[a] = `1`[a] AND `1`[a] = `2`[a] AND `1`[b] = `2`[b]"
            ),
        ),
        (
            "Q(x, y) <- T(a: x, b: x, c: 1), S(b: y), 2 <= x, x != y",
            (
                "(T AS `0` ALL S AS `1`) FILTER "
                "`0`[a = b] AND `0`[c = 1] AND `0`[a >= 2] AND `0`[a] != `1`[b]"
            ),
        ),
        (
            "Q(x, y) <- S(a: x, b: y), T(a: x), x < y, x = 3",
            (
                "(S AS `0` ALL T AS `1`) FILTER "
                "`0`[a < b] AND `0`[a = 3] AND `1`[a = 3] AND `0`[a] = `1`[a]"
            ),
        ),
        (
            "Q(t, u) <- T()@t, S()@u, t <= u",
            "(T AS `0` ALL S AS `1`) FILTER `0`[`@time`] <= `1`[`@time`]",
        ),
        ("Q(t) <- T()@t, S()@t", "(T AS `0` ALL S AS `1`) FILTER `0`[`@time`] = `1`[`@time`]"),
        (
            "Q(t, u) <- T()@t, S()@u, 5 > t - u, t - u > -2.5",
            (
                "(T AS `0` ALL S AS `1`) FILTER "
                "`0`[`@time`] < `1`[`@time`] + 5 AND `0`[`@time`] > `1`[`@time`] - 2.5"
            ),
        ),
        (
            "Q(t, u) <- T()@t, S()@u, t - u < 5 SECONDS",
            "(T AS `0` ALL S AS `1`) FILTER `0`[`@ns`] < `1`[`@ns`] + 5000000000",
        ),
        ("Q(x) <- T(a: x), S() WITHIN 3 EVENTS", "T AS `0` ALL S AS `1` WITHIN 3 EVENTS"),
    ],
)
def test_what_a_query_lowers_to(text: str, pattern: str) -> None:
    assert lowered(text) == pattern


def test_the_match_has_every_atom_whatever_the_head_says() -> None:
    assert str(lower(parse("Q() <- T(a: x), S(a: x)"))).startswith("SELECT `0`, `1` WHERE")


@pytest.mark.parametrize(
    ("comparisons", "formula"),
    [
        ("t1 < t2 < t3", "T AS `0` ; S AS `1` ; R AS `2`"),
        ("t3 > t2, t1 < t2", "T AS `0` ; S AS `1` ; R AS `2`"),
        ("t1 < t2, t1 < t3", "T AS `0` ALL S AS `1` ALL R AS `2`"),
        ("t1 < t2 <= t3", "T AS `0` ALL S AS `1` ALL R AS `2`"),
        ("t1 < t2 < t3, t3 < t1", "T AS `0` ALL S AS `1` ALL R AS `2`"),
    ],
)
def test_atoms_in_one_strict_order_are_a_sequence(comparisons: str, formula: str) -> None:
    text = lowered(f"Q(t1, t2, t3) <- T()@t1, S()@t2, R()@t3, {comparisons}")
    assert text.startswith(f"({formula}) FILTER ")
    assert text.count("@time") == 2 * (comparisons.count("<") + comparisons.count(">"))


@pytest.mark.parametrize(
    ("implied", "left"),
    [
        ("t1 < t3", False),
        ("t3 >= t1", False),
        ("t3 != t1", False),
        ("t1 <= t2", False),
        ("t2 != t1", False),
        ("t3 = t1", True),
        ("t3 <= t1", True),
    ],
)
def test_what_follows_from_the_order_is_not_asked_again(implied: str, left: bool) -> None:
    text = lowered(f"Q(t1, t2, t3) <- T()@t1, S()@t2, R()@t3, t1 < t2 < t3, {implied}")
    assert text.count("@time") == 4 + 2 * left


@pytest.mark.parametrize(
    ("comparison", "window"),
    [
        ("t3 - t1 < 5", "LESS THAN 5 [`@time`]"),
        ("5 >= t3 - t1", "5 [`@time`]"),
        ("t3 - t1 < 0.1", "LESS THAN 0.1 [`@time`]"),
        ("t3 - t1 <= 5, t3 - t1 < 5", "LESS THAN 5 [`@time`]"),
        ("t3 - t1 < 5, t3 - t1 <= 4", "4 [`@time`]"),
        ("t3 - t1 < 0", None),
        ("t2 - t1 < 5", None),
        ("t3 - t1 > 5", None),
    ],
)
def test_a_bound_on_the_whole_in_plain_numbers_is_a_window(
    comparison: str, window: str | None
) -> None:
    query = parse(f"Q(t1, t2, t3) <- T()@t1, S()@t2, R()@t3, t1 < t2 < t3, {comparison}")
    within = lower(query).within
    assert (None if within is None else write_window(within)) == window


def test_a_window_has_one_unit() -> None:
    text = "Q(t1, t2) <- T()@t1, S()@t2, t1 < t2, t2 - t1 < 5, t2 - t1 <= 1 SECOND"
    pattern = lower(parse(text))
    assert pattern.within == Window(Unit.TIME, Fraction(10**9))
    assert "+ 5" in str(pattern)


@pytest.mark.parametrize(
    ("comparisons", "window"),
    [
        ("t2 - t1 < 5 SECONDS", 4_999_999_999),
        ("5 SECONDS >= t2 - t1", 5_000_000_000),
        ("t2 - t1 < 5 SECONDS, t2 - t1 <= 3 SECONDS", 3_000_000_000),
        ("t2 - t1 < 0.0000000015 SECONDS", 1),
        ("t2 - t1 < 0 SECONDS", None),
        ("t2 - t1 > 5 SECONDS", None),
        ("t1 - t2 < 5 SECONDS", None),
    ],
)
def test_a_bound_from_the_first_to_the_last_is_the_window(
    comparisons: str, window: int | None
) -> None:
    pattern = lower(parse(f"Q(t1, t2) <- T()@t1, S()@t2, t1 < t2, {comparisons}"))
    assert (pattern.within and pattern.within.size) == window
    assert isinstance(pattern.formula, cel.Filter)
    compared = str(pattern.formula.condition).count("shift=None")
    bounds = str(pattern.formula.condition).count("shift=") - compared
    assert bounds == (comparisons.count("-") if window is None else 0)


def test_the_smaller_of_two_windows_holds() -> None:
    text = "Q(t1, t2) <- T()@t1, S()@t2, t1 < t2, t2 - t1 <= {} WITHIN 4 SECONDS"
    sizes = [lower(parse(text.format(bound))).within for bound in ("3 SECONDS", "5 SECONDS")]
    assert [one and one.size for one in sizes] == [3_000_000_000, 4_000_000_000]
    events = lower(parse(text.replace("4 SECONDS", "4 EVENTS").format("3 SECONDS")))
    assert events.within == Window(Unit.EVENTS, Fraction(4))
    assert "`1`[`@ns`] <= `0`[`@ns`] + 3000000000" in str(events)


# ---------------------------------------------------------------------- random


@given(joins())
def test_random_queries_round_trip_and_lower_to_correct_patterns(case: tuple[str, Events]) -> None:
    query = parse(case[0])
    assert parse(str(query)) == query
    assert check(lower(query)) == []


def test_random_queries_often_match_and_are_of_every_sort() -> None:
    found = [(parse(text), events) for text, events in map(make_seeded_join, range(400))]
    assert sum(bool(evaluate(lower(query), events)) for query, events in found) > 100
    queries: list[ConjunctiveQuery] = [query for query, _ in found]
    assert any(not query.full for query in queries)
    assert any(isinstance(lower(query).formula, cel.Filter) for query in queries)
    text = " ".join(map(str, queries))
    assert all(part in text for part in ("@t", " < ", " - ", "WITHIN", DECLARATION, "a: 1"))


def naive_join(query: ConjunctiveQuery, events: Events) -> set[tuple[int, ...]]:
    """Every way to give the atoms events under which variables have one value."""
    found: list[tuple[tuple[int, ...], dict[str, object]]] = [((), {})]
    for atom in query.atoms:
        more = []
        for chosen, bound in found:
            for position, event in enumerate(events):
                values = dict(bound)
                if event["type"] == atom.relation and all(
                    event.get(attribute.name) == term.value
                    if isinstance(term, Literal)
                    else values.setdefault(term.name, event.get(attribute.name, object()))
                    == event.get(attribute.name, object())
                    or _only_once(query, term.name)
                    for attribute, term in atom.arguments
                ):
                    more.append(((*chosen, position), values))
        found = more
    return {chosen for chosen, _ in found}


def _only_once(query: ConjunctiveQuery, name: str) -> bool:
    terms = [term for atom in query.atoms for _, term in atom.arguments]
    return sum(not isinstance(term, Literal) and term.name == name for term in terms) == 1


@pytest.mark.parametrize("seed", range(0, 300, 3))
def test_the_lowered_pattern_has_the_homomorphisms_of_the_query(seed: int) -> None:
    plain = JoinFeatures(comparisons=False, timestamps=False, windows=False)
    text, events = make_seeded_join(seed, plain)
    query = parse(text)
    matches = evaluate(lower(query), events)
    found = {tuple(m.vars[str(i)][0] for i in range(len(query.atoms))) for m in matches}
    assert found == naive_join(query, events)
    assert len(matches) == len(found)


# ------------------------------------------------------------------------ time


def times(column: pa.Array, attribute: Attribute, unit: str = "ms") -> list[object]:
    table = pa.table({"type": ["A"] * len(column), "at": column})
    batch = EventBatch.of(table)
    store = EventStore(unit)
    store.append(EventBatch(0, batch.rows, None, batch.parts, type_column="type", time_column="at"))
    values: list[object] = store.column(np.arange(len(column)), attribute.name).to_pylist()
    return values


def test_the_time_of_an_event_counts_the_unit_of_its_column_or_nanoseconds() -> None:
    assert times(pa.array([1, 2]), TIME) == [1, 2]
    assert times(pa.array([1, 2]), TIME_NS) == [1_000_000, 2_000_000]
    assert times(pa.array([1, 2]), TIME_NS, "s") == [1_000_000_000, 2_000_000_000]
    stamps = pa.array([1, 2], pa.timestamp("us"))
    assert times(stamps, TIME) == [1, 2]
    assert times(stamps, TIME_NS) == [1_000, 2_000]
    assert times(pa.array(["1970-01-01T00:00:01"]), TIME_NS) == [1_000_000_000]
    assert times(pa.array([0.5]), TIME) == [0.5]


def test_without_a_time_column_the_time_is_the_position() -> None:
    store = EventStore()
    store.append(EventBatch.of(pa.table({"type": ["A", "B", "C"]})))
    positions = np.array([2, 0, 2])
    assert store.column(positions, TIME.name).to_pylist() == [2, 0, 2]
    assert store.column(positions, TIME_NS.name).to_pylist() == [None, None, None]


# --------------------------------------------------------------------- hostile


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Q(x) <- " + "T(x)," * 300_000, "the query has 1,500,008 characters; "),
        ("Q(x) <- " + "T(x)," * 20_000, "the query has more than 50,000 words and symbols"),
        ("Q(x) <- " + "(" * 20_000, "brackets are nested more than 100 deep"),
        ("Q(x) <- T(a: x), x < " + "9" * 1000, "the number is out of range"),
        ("Q(x) <- T(a: \ud800)", "the query holds characters that are not Unicode"),
    ],
)
def test_a_query_that_wants_too_much_is_refused(text: str, message: str) -> None:
    with pytest.raises(CernisError) as caught:
        parse(text)
    assert message in str(caught.value)


def test_a_text_of_noise_is_refused_with_a_message() -> None:
    rng = random.Random(5)
    words = ["Q", "(", ")", "x", ",", "<-", ":-", "@", "<", "3", "'s'", "WITHIN", "-", ">", ":"]
    for _ in range(500):
        text = " ".join(rng.choices(words, k=rng.randrange(12)))
        with pytest.raises((CernisError, BudgetError)):
            parse(text)
