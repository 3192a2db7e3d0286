"""Values in SELECT and conditions on them: the embedded engine against the oracle."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cernis
import cernis.pattern as p
from cernis.languages.ceql import parse
from cernis.pattern.query import Pattern, counts_only
from cernis.plan.plan import make_plan
from tools.cases.differential import assert_agrees
from tools.cases.grammar import split_batches as split
from tools.cases.strategies import cases, cuts
from tools.cases.tables import make_table

Case = tuple[Pattern, Sequence[dict[str, Any]]]

some = settings(
    max_examples=max(40, settings.default.max_examples),
    suppress_health_check=list(HealthCheck),
)


def compare(pattern: Pattern, events: Sequence[dict[str, Any]], found: Any) -> None:
    if not counts_only(pattern):
        assert_agrees(pattern, events, found)


@some
@given(cases(terms=True, untimed=False, size=6, events=7, nan=False))
def test_random_terms_agree_with_the_oracle(case: Case) -> None:
    pattern, events = case
    compare(pattern, events, list(cernis.query(pattern).run(make_table(events, timed=True))))


@some
@given(cases(terms=True, untimed=False, disorder=False, size=5, events=7, nan=False), st.data())
def test_batches_and_restarts_do_not_change_values(case: Case, data: st.DataObject) -> None:
    pattern, events = case
    at = data.draw(cuts(len(events)))
    query = cernis.query(pattern)
    session = query.session()
    found: list[Any] = []
    for batch in split(events, at):
        found += session.push(make_table(batch, timed=True)) if batch else []
        session = query.thaw(session.freeze())
    compare(pattern, events, found)


_SIDES = ("{x}[a]", "2 * {x}[a]", "{x}[a] - {x}[b]", "{x}[b] / 2 + 1", "-{x}[b]", "{x}[a] % 3")
_COMPARISONS = ("<", "<=", ">", ">=", "=", "=", "!=")
_NUMBERS = st.sampled_from((None, -2, 0, 1, 2, 3, 0.5, 2.5, -1.5))


@st.composite
def calculated_comparisons(draw: st.DrawFn) -> Case:
    """Sequences whose events are compared by values that are calculated from attributes."""
    conditions = []
    for one, other in draw(st.lists(st.sampled_from(["ab", "ba", "bc", "ac"]), min_size=1)):
        left, right = draw(st.sampled_from(_SIDES[1:])), draw(st.sampled_from(_SIDES))
        order = draw(st.sampled_from(_COMPARISONS))
        conditions.append(f"{left.format(x=one)} {order} {right.format(x=other)}")
    separator = draw(st.sampled_from([";", ":"]))
    text = f"SELECT * WHERE (A AS a {separator} B AS b ; A AS c) FILTER {' AND '.join(conditions)}"
    text += draw(st.sampled_from(["", " WITHIN 5 EVENTS", " PARTITION BY [key]"]))
    event = st.fixed_dictionaries(
        {"type": st.sampled_from("AB"), "a": _NUMBERS, "b": _NUMBERS, "key": st.integers(0, 1)}
    )
    events = draw(st.lists(event, min_size=3, max_size=10))
    return parse(text), [{**one, "ts": at} for at, one in enumerate(events)]


@given(calculated_comparisons())
def test_calculated_values_of_two_events_compare_as_in_the_oracle(case: Case) -> None:
    pattern, events = case
    compare(pattern, events, list(cernis.query(pattern).run(make_table(events, timed=True))))


PRICES = pa.table(
    {
        "type": ["A", "B", "A", "B"],
        "ts": pa.array([datetime(2024, 1, 1, 12, minute) for minute in (0, 5, 7, 40)]),
        "price": [10.0, 11.0, 8.0, 9.0],
        "host": ["u", "v", "u", "v"],
    }
)


def test_terms_are_flat_columns_in_the_order_of_the_query() -> None:
    text = (
        "SELECT b[price] - a[price] AS rise, a, a[host], END - START AS length, START "
        "WHERE A AS a : B AS b"
    )
    table = cernis.query(text).run(PRICES).to_arrow()
    names = ["start", "end", "start_ts", "end_ts", "rise", "a", "a[host]", "length", "START"]
    assert table.column_names == names
    assert table["rise"].to_pylist() == [1.0, 1.0]
    assert table["a[host]"].to_pylist() == ["u", "u"]
    assert table["length"].to_pylist() == [timedelta(minutes=5), timedelta(minutes=33)]
    assert pa.types.is_duration(table.schema.field("length").type)
    assert table["START"].to_pylist() == PRICES["ts"].take([0, 2]).to_pylist()


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_duration_is_written_alike_whatever_the_unit_of_times(unit: str, tmp_path: Path) -> None:
    times = PRICES["ts"].cast(pa.timestamp(unit))
    table = PRICES.set_column(1, "ts", times)
    text = "SELECT END - START AS length, START - END AS back WHERE A AS a : B AS b LIMIT 1"
    matches = cernis.query(text).run(table)
    length = timedelta(minutes=5)
    found = matches.head(1)[0].values
    assert found == {"length": length, "back": -length}
    assert type(found["length"]) is timedelta
    matches.write_jsonl(tmp_path / "out.jsonl")
    line = (tmp_path / "out.jsonl").read_text().splitlines()[0]
    assert line.endswith('"values":{"length":"PT300S","back":"-PT300S"}}')


@pytest.mark.parametrize(
    ("unit", "seventh"), [("s", 42_857_143_000), ("us", 42_857_143_000), ("ns", 42_857_142_857)]
)
def test_a_part_of_a_duration_is_rounded_to_microseconds(unit: str, seventh: int) -> None:
    table = PRICES.set_column(1, "ts", PRICES["ts"].cast(pa.timestamp(unit)))
    query = "SELECT (END - START) / 7 AS part, (END - START) * 2 AS more"
    found = cernis.query(f"{query} WHERE A AS a : B AS b LIMIT 1").run(table).to_arrow()
    assert str(found.schema.field("part").type) == f"duration[{'ns' if unit == 'ns' else 'us'}]"
    assert found["part"].cast(pa.duration("ns")).cast(pa.int64()).to_pylist()[0] == seventh
    assert found["more"].to_pylist()[0] == timedelta(minutes=10)


def test_durations_that_are_constants_are_calculated_with() -> None:
    text = """
        SELECT 2 * 1 HOUR AS two, START + 3 * (15 MINUTES + 5 MINUTES) AS later, -(1 HOUR) AS back,
            1 HOUR / 15 MINUTES AS quarters
        WHERE A AS a : B AS b LIMIT 1
    """
    match = cernis.query(text).run(PRICES).head(1)[0]
    assert match.values == {
        "two": timedelta(hours=2),
        "later": match.start_ts + timedelta(hours=1),
        "back": timedelta(hours=-1),
        "quarters": 4,
    }


def test_a_duration_below_microseconds_is_exact() -> None:
    table = pa.table({"type": ["A", "B"], "ts": pa.array([0, 1_500_000_001], pa.timestamp("ns"))})
    (match,) = cernis.query("SELECT END - START AS length WHERE A ; B").run(table)
    assert match.values["length"] == np.timedelta64(1_500_000_001, "ns")


def test_a_condition_on_times_takes_a_duration() -> None:
    text = "SELECT a, b WHERE (A AS a ; B AS b) FILTER b[ts] - a[ts] >= 33 MINUTES"
    found = cernis.query(text).run(PRICES)
    assert [(match.start, match.end) for match in found] == [(2, 3), (0, 3)]


def test_a_match_has_its_values_by_name() -> None:
    (match,) = cernis.query(
        "SELECT MAX(x[price]) AS top, COUNT(DISTINCT x[host]) WHERE (A OR B){4} AS x"
    ).run(PRICES)
    assert match.values == {"top": 11.0, "COUNT(DISTINCT x[host])": 2}
    assert match.vars == {}


def test_the_builder_makes_the_same_terms_as_the_text() -> None:
    a, b = p.var("a"), p.var("b")
    built = (
        p.select((b["price"] - a["price"]).as_("rise"), p.count(b["host"], distinct=True), p.END)
        .where(p.event("A").as_("a") >> p.event("B").plus().as_("b"))
        .filter(
            (p.aggregate("sum", b["price"]) >= 1.5 * a["price"])
            & (timedelta(minutes=15) < p.END - p.START)
            & b.increasing("price")
        )
    )
    with pytest.raises(cernis.QueryError, match="LAST"):
        built.build()
    assert str(p.count(b)) == str(p.count("b")) == "COUNT(b)"
    text = str(
        p.select(p.aggregate("last", b["price"]) - a["price"])
        .where(p.event("A").as_("a") >> p.event("B").plus().as_("b"))
        .filter(timedelta(minutes=15) < p.END - p.START)
        .build()
    )
    assert text == (
        "SELECT LAST(b[price]) - a[price] WHERE (A AS a ; B+ AS b) FILTER END - START > 15 MINUTES"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "SELECT x[price] AS top WHERE A+ AS x",
            (
                "line 1, column 8: x[price] has no single value: 'x' need not hold one event\n"
                "  SELECT x[price] AS top WHERE A+ AS x\n"
                "         ^^^^^^^^\n"
                "  expected: FIRST, LAST, MIN, MAX, SUM or AVG\n"
                "  help: write LAST(x[price])"
            ),
        ),
        (
            "SELECT a[p] AS v, a[q] AS v WHERE A AS a",
            (
                "line 1, column 19: 'v' is selected twice\n"
                "  SELECT a[p] AS v, a[q] AS v WHERE A AS a\n"
                "                    ^^^^^^^^^"
            ),
        ),
        (
            "SELECT a[p] AS k WHERE A AS a PARTITION BY [k]",
            (
                "line 1, column 8: 'k' is selected twice: PARTITION BY makes it a column\n"
                "  SELECT a[p] AS k WHERE A AS a PARTITION BY [k]\n"
                "         ^^^^^^^^^"
            ),
        ),
        (
            "SELECT a + 1 WHERE A AS a",
            (
                "line 1, column 8: 'a' is a variable, not a value\n"
                "  SELECT a + 1 WHERE A AS a\n"
                "         ^\n"
                "  expected: an attribute or an aggregate\n"
                "  help: write a[price] or COUNT(a)"
            ),
        ),
        (
            "SELECT a WHERE A AS a FILTER a > 3",
            (
                "line 1, column 30: 'a' is a variable, not a value\n"
                "  SELECT a WHERE A AS a FILTER a > 3\n"
                "                               ^\n"
                "  expected: an attribute or an aggregate\n"
                "  help: write a[price] or COUNT(a)"
            ),
        ),
        (
            "SELECT * WHERE A+ AS x FILTER SUM(DISTINCT x[p]) > 3",
            (
                "line 1, column 31: DISTINCT counts the values of an attribute\n"
                "  SELECT * WHERE A+ AS x FILTER SUM(DISTINCT x[p]) > 3\n"
                "                                ^^^^^^^^^^^^^^^^^^\n"
                "  expected: COUNT(DISTINCT x[a])"
            ),
        ),
    ],
)
def test_a_mistake_in_a_term_is_told_with_its_place(text: str, message: str) -> None:
    with pytest.raises(cernis.QueryError) as caught:
        cernis.query(text)
    assert str(caught.value) == message


def test_a_plan_says_that_terms_are_checked_on_candidates() -> None:
    plan = cernis.query("SELECT x WHERE A+ AS x FILTER SUM(x[p]) > 3 WITHIN 9 EVENTS").explain()
    assert "SUM(x[p]) > 3" in str(plan)


def test_a_plan_shows_the_query_as_it_was_written() -> None:
    text = "SELECT x WHERE A:+ AS x FILTER x INCREASING BY p WITHIN 9 EVENTS"
    plan = str(cernis.query(text).explain())
    assert plan.startswith(f"query        {text}\n")
    assert "conditions   PREV(x)[p] < x[p]: by an ordered index" in plan


def test_a_term_of_one_event_costs_nothing_more() -> None:
    query = cernis.query("SELECT a WHERE (A AS a ; B AS b) FILTER 2 * a[p] > 4 AND b[p] = 1")
    assert "unary" in str(query.explain())


@pytest.mark.parametrize(
    ("text", "formula"),
    [
        ("A+ AS x FILTER COUNT(x) >= 3", "A{3,} AS x"),
        ("(A AS x)+ FILTER 5 > COUNT(x)", "(A AS x){1,4}"),
        ("(B ; A{2,9} ; C) FILTER COUNT(A) = 4", "B ; A{4} ; C"),
        ("(B ; A+) FILTER COUNT(A) > 1 AND A[v > 2]", "(B ; A{2,}) FILTER A[v > 2]"),
        ("(A ; B)+ FILTER COUNT(A) > 1", "(A ; B)+ FILTER COUNT(A) > 1"),
        ("(A+ ; A) FILTER COUNT(A) > 3", "(A+ ; A) FILTER COUNT(A) > 3"),
    ],
)
def test_a_count_of_rounds_becomes_a_bound_of_the_iteration(text: str, formula: str) -> None:
    query = cernis.query(f"SELECT * WHERE {text}")
    assert str(query.plan.pattern) == f"SELECT * WHERE {formula}"


@pytest.mark.parametrize(
    ("text", "formula"),
    [
        (
            "(A AS x)+ FILTER MAX(x[v]) > 3",
            "(A AS x FILTER x[NOT v > 3 OR v IS NULL])+? ; (A AS x FILTER x[v > 3]) ; (A AS x)+?",
        ),
        (
            "A{2,} AS x FILTER MIN(x[v]) = 3",
            "A{2,} AS x FILTER MIN(x[v]) = 3 AND x[NOT v < 3 OR v IS NULL]",
        ),
    ],
)
def test_extremes_of_an_iteration_are_part_of_it(text: str, formula: str) -> None:
    query = cernis.query(f"SELECT x WHERE {text}")
    assert str(query.plan.pattern) == f"SELECT x WHERE {formula}"
    assert make_plan(query.plan.pattern).pattern == query.plan.pattern


def test_explain_says_where_a_condition_on_an_aggregate_is_decided() -> None:
    query = cernis.query(
        "SELECT * FROM S WHERE (A+ AS x ; B+ AS y ; (C ; D)+) FILTER MAX(x[v]) < 5 AND COUNT(y) > 1"
        " AND SUM(y[v]) <= 9 AND COUNT(C) < 4"
    )
    told = str(query.explain())
    assert "COUNT(y) > 1: by the automaton\n" in told
    assert "MAX(x[v]) < 5: by the automaton\n" in told
    assert "SUM(y[v]) <= 9: on each candidate, which is left as soon as the sum is beyond" in told
    assert "COUNT(C) < 4: on each candidate, which is left as soon as it counts more" in told


_ITERATIONS = (
    "(B ; A+ AS x)",
    "(A:+) AS x",
    "((A OR B)+) AS x",
    "(A AS x)+",
    "A{2,3} AS x",
    "((A AS x ; B)+ ; A AS y)",
    "(A+ AS x ; B+ AS y)",
)
_AGGREGATES = (
    "MAX(x[a]) {op} 2",
    "MIN(x[a]) {op} 2",
    "FIRST(x[a]) {op} 2",
    "LAST(x[a]) {op} 2",
    "3 {op} SUM(x[a])",
    "SUM(x[b]) {op} -2",
    "COUNT(x) {op} 2",
    "COUNT(*) {op} 3",
)


@pytest.mark.parametrize("aggregate", _AGGREGATES)
@pytest.mark.parametrize("iteration", _ITERATIONS)
def test_conditions_on_aggregates_agree_with_the_oracle(iteration: str, aggregate: str) -> None:
    draw = random.Random(f"{iteration}{aggregate}")
    for op in draw.sample(["<", "<=", ">", ">=", "=", "!="], 3):
        more = draw.choice(["", " AND x INCREASING BY a", " AND MIN(x[a]) > 0"])
        condition = aggregate.format(op=op) + more
        query = cernis.query(f"SELECT * FROM S WHERE {iteration} FILTER {condition}")
        for values in ([0, 1, 2, 3], [-2, -1, 0], [-2, 1, 3]):
            events = [
                {
                    "type": draw.choice("AAB"),
                    "ts": i,
                    "a": draw.choice([None, 1, 2, 3]),
                    "b": draw.choice(values),
                }
                for i in range(7)
            ]
            compare(query.pattern, events, list(query.run(make_table(events, timed=True))))


@pytest.mark.parametrize(
    "condition",
    [
        "y[a] {op} LAST(x[a])",
        "FIRST(z[a]) {op} LAST(x[a])",
        "1 + LAST(x[a]) {op} y[b]",
        "LAST(z[a]) {op} y[a]",
        "y[a] {op} LAST(x[a]) AND y[a] {op} LAST(z[a])",
        "y[a] {op} LAST(x[a]) AND FIRST(z[a]) {op} y[a] AND x[a > 1] AND z[NOT a IS NULL]",
    ],
)
@pytest.mark.parametrize(
    "body", ["(A+ AS x ; B AS y ; A+ AS z)", "(A:+ AS x : B AS y ; (A:+) AS z)"]
)
def test_the_ends_of_iterations_are_compared_as_the_oracle_does(body: str, condition: str) -> None:
    draw = random.Random(f"{body}{condition}")
    for op in draw.sample(["<", "<=", ">", ">=", "=", "!="], 3):
        text = f"SELECT * FROM S WHERE {body} FILTER {condition.format(op=op)}"
        query = cernis.query(text)
        for _ in range(3):
            events = [
                {"type": kind, "ts": i, "a": draw.choice([None, 1, 2, 3]), "b": draw.randrange(4)}
                for i, kind in enumerate(draw.choices("AAB", k=8))
            ]
            compare(query.pattern, events, list(query.run(make_table(events, timed=True))))


def test_the_last_event_of_an_iteration_is_compared_by_an_index() -> None:
    query = cernis.query(
        "SELECT * FROM S WHERE (A:+ AS x : B AS y) FILTER y[price] < LAST(x[price])"
    )
    told = str(query.explain())
    assert "y[price] < `LAST(x)`[price]: while listing, once both events are chosen" in told
    assert "search tree over price" in told
    present = cernis.query(f"{query} AND x[price IS NOT NULL]")
    assert "`LAST(x)`[price]: by an ordered index" in str(present.explain())
    assert query.run([{"type": "A", "price": 1}]).schema.names[-2:] == ["x", "y"]


def test_a_bound_on_a_sum_prunes_candidates() -> None:
    """Of the 2^40 candidates at the last end, 41 have at most one event before it."""
    query = cernis.query("SELECT x FROM S WHERE (A AS x)+ FILTER SUM(x[v]) <= 2 WITHIN 50 EVENTS")
    events = pa.table({"type": ["A"] * 41, "v": [1] * 41})
    assert query.run(events, budget=30_000).count() == 41 + 41 * 40 // 2
    signs = pa.table({"type": ["A"] * 41, "v": [-1] + [1] * 40})
    beside = 40 + 40 * 39 // 2
    assert query.run(signs, budget=30_000).count() == 2 * beside + 1 + 40 * 39 * 38 // 6


def test_a_sum_that_must_be_large_ends_the_list_of_candidates() -> None:
    query = cernis.query("SELECT x FROM S WHERE (A AS x)+ FILTER SUM(x[v]) > 38.5 WITHIN 50 EVENTS")
    events = pa.table({"type": ["A"] * 41, "v": [1.0, None] + [1.0] * 39})
    # two events without NULL may be missing, and the one with NULL; all end at 39, 40 or 41
    found = query.run(events, budget=30_000)
    assert found.count() == len([*found]) == 2 * (1 + 40)
    assert "up to it" in str(query.explain())
    with pytest.raises(cernis.BudgetError):
        query.run(events, budget=50)


def test_two_bounds_on_sums_prune_together() -> None:
    query = cernis.query(
        "SELECT x FROM S WHERE (A AS x)+ FILTER SUM(x[v]) <= 2 AND SUM(x[w]) <= 1 WITHIN 50 EVENTS"
    )
    events = pa.table({"type": ["A"] * 41, "v": [1] * 41, "w": [1] * 41})
    assert query.run(events, budget=30_000).count() == 41
    signs = events.set_column(1, "v", pa.array([-1] + [1] * 40)).set_column(
        2, "w", pa.array([-1] + [1] * 40)
    )
    with pytest.raises(cernis.BudgetError):
        query.run(signs, budget=30_000)


def test_an_order_between_calculated_values_of_neighbours_is_kept_by_an_index() -> None:
    query = cernis.query(
        "SELECT * FROM S WHERE (T AS a ; T AS b) FILTER b[price] >= 1.01 * a[price] WITHIN 1 HOUR"
    )
    told = str(query.explain())
    assert "b[price] >= a[1.01 * price]: by an ordered index" in told
    assert "search tree over (1.01 * price)" in told


def test_equal_calculated_values_are_kept_by_an_index() -> None:
    query = cernis.query("SELECT * FROM S WHERE (A AS a ; B ; C AS c) FILTER c[seq] = a[seq] + 1")
    told = str(query.explain())
    assert "c[seq] = a[seq] + 1: by an index on equal values (across B)" in told
    events = [{"type": kind, "seq": n} for kind, n in [("A", 1), ("A", 2), ("B", 0), ("C", 3)]]
    assert [match.start for match in query.run(events)] == [1]


def test_text_in_a_calculated_value_is_refused_when_the_events_are_known() -> None:
    query = cernis.query("SELECT * FROM S WHERE (T AS a ; T AS b) FILTER b[v] >= 2 * a[name]")
    with pytest.raises(cernis.QueryError, match="a string"):
        query.run(pa.table({"type": ["T"], "v": [1], "name": ["x"]}))


@pytest.mark.parametrize(
    "message",
    [
        """\
line 1, column 8: A[v] + START: a timestamp does not take '+' here
  SELECT A[v] + START WHERE A
         ^^^^^^^^^^^^
  expected: a duration, such as 5 SECONDS""",
        """\
line 1, column 8: START * 2: a timestamp does not take '*' here
  SELECT START * 2 WHERE A
         ^^^^^^^^^
  expected: numbers""",
    ],
)
def test_a_time_takes_no_number_where_times_are_known_to_be_no_numbers(message: str) -> None:
    query = cernis.query(message.splitlines()[1].strip())
    one = {"type": "A", "v": 1}

    assert len(query.run([{**one, "ts": 1}])) == 1
    with pytest.raises(cernis.QueryError) as caught:
        query.run([{**one, "ts": datetime(2026, 1, 1)}])
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("formula", "condition", "found"),
    [
        ("A AS a ; B AS b", "a[v] < b[v]", []),
        ("B AS b ; A AS a", "b[v] > a[v]", []),
        ("(A OR B) AS a ; (A OR B) AS b", "a[v] < b[v]", [(0, 1), (3, 4)]),
        ("(A OR B)+ AS a", "a INCREASING BY v AND COUNT(a) >= 2", [(0, 1), (3, 4)]),
        ("(A OR B){2} AS a", "MAX(a[v]) >= 5", [(0, 1)]),
        ("(A OR B){2} AS a", "LAST(a[v]) < '5'", [(0, 3), (1, 3), (2, 3)]),
    ],
)
def test_text_and_numbers_of_two_streams_do_not_compare(
    formula: str, condition: str, found: list[tuple[int, int]]
) -> None:
    streams = {
        "S": pa.table({"type": ["A", "A"], "ts": [0, 2], "v": [1, 5]}),
        "T": pa.table({"type": ["B", "B", "B"], "ts": [1, 3, 4], "v": ["x", "3", "9"]}),
    }
    query = cernis.query(f"SELECT a FROM S, T WHERE ({formula}) FILTER {condition}")
    assert sorted((match.start, match.end) for match in query.run(streams)) == found


@pytest.mark.parametrize(
    ("column", "clauses"),
    [
        ("at", "SELECT END - START AS took, 2 * (END - START) AS twice WHERE S AS a ; S AS b"),
        ("at", "SELECT END + 90 SECONDS AS later WHERE S AS a ; S AS b"),
        ("at", "SELECT a, b WHERE S AS a ; S AS b FILTER END - START > 61 SECONDS"),
        ("ts", "SELECT a, b WHERE S AS a ; S AS b FILTER END - START > 1 SECONDS * a[v]"),
        ("ts", "SELECT b[ts] - a[ts] AS took WHERE S AS a ; S AS b"),
        ("ts", "SELECT LAST(x[ts]) - FIRST(x[ts]) AS took WHERE S+ AS x FILTER x[v > 1]"),
        ("ts", "SELECT a, b WHERE S AS a ; S AS b FILTER b[ts] > a[ts] + 61 SECONDS"),
    ],
)
def test_times_that_are_text_calculate_as_times_do(column: str, clauses: str) -> None:
    texts = ["2024-05-01T00:00:34.000", "2024-05-01T00:01:34Z", "2024-05-01 00:01:36.5"]
    times = [datetime.fromisoformat(text).replace(tzinfo=UTC) for text in texts]

    def find(values: Sequence[Any]) -> list[Any]:
        events = [{column: each, "v": v} for each, v in zip(values, (1, 2, 62), strict=True)]
        found = cernis.query(clauses + " WITHIN 1 HOUR").run({"S": events}, type=None, time=column)
        return [(match.start, match.end, match.vars, match.values) for match in found]

    assert find(texts) == find(times) != []


@pytest.mark.parametrize(
    ("column", "number"),
    [
        (pa.array([0.0, -0.0, 1.0]), 2),
        (pa.array([1.0, 1.0, 2.0], pa.float16()), 2),
        (pa.array([[1], [1], [2]]), 2),
        (pa.array([{"a": 1}, {"a": 1}, None]), 1),
        (pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array(["u", "u"])), 1),
    ],
)
def test_distinct_values_are_those_that_are_not_equal(column: pa.Array, number: int) -> None:
    table = pa.table({"type": ["A", "B", "C"], "x": column})
    found = cernis.query("SELECT COUNT(DISTINCT z[x]) AS n WHERE (A : B : C) AS z").run(table)
    assert found.to_arrow()["n"].to_pylist() == [number]


@pytest.mark.parametrize(
    ("condition", "moment"), [("START >= 'soon'", "START"), ("'soon' < END + 1 DAY", "END + 1 DAY")]
)
def test_a_time_is_compared_with_a_text_that_is_one(condition: str, moment: str) -> None:
    table = pa.table({"type": ["A"], "ts": pa.array([0], pa.timestamp("us"))})
    with pytest.raises(cernis.QueryError) as raised:
        cernis.query(f"SELECT * FROM S WHERE A FILTER {condition}").run(table)
    [mistake] = raised.value.diagnostics
    assert mistake.message == f"{moment} is a timestamp, 'soon' is not a time"
    assert mistake.suggestion == "write it as in '2024-05-31T12:30:00'"
