"""`->` and gaps on the embedded engine against the oracle, on random queries and streams."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cernis
from cernis.languages.ceql import parse
from cernis.pattern.query import Consume, Pattern, Unit, counts_only
from tools.cases.absences import LINKS
from tools.cases.differential import (
    assert_agrees,
    assert_counts_agree,
    assert_groups_agree,
    comparable_group,
)
from tools.cases.grammar import split_batches
from tools.cases.strategies import cases, crossing_cases, cuts, far_clause_cases
from tools.cases.tables import make_table

few = settings(
    max_examples=max(53, settings.default.max_examples), suppress_health_check=list(HealthCheck)
)

FEATURES: dict[str, dict[str, Any]] = {
    "unary": {"next_": True},
    "compared": {
        "next_": True,
        "binary": True,
        "previous": True,
        "partition_by_inside": True,
        "size": 7,
        "events": 7,
    },
    "chains": {"next_": True, "families": ("chain", "order", "keys")},
    "terms": {"next_": True, "terms": True},
    "gaps": {"gaps": True},
    "chains with gaps": {"gaps": True, "families": ("chain", "order", "all")},
    "absence": {
        "gaps": True,
        "next_": True,
        "after": LINKS,
        "consume": (Consume.NONE,),
        "size": 5,
        "events": 8,
    },
    "everything": {"gaps": True, "next_": True, "binary": True, "size": 7, "events": 8},
}


def compare(pattern: Pattern, events: Sequence[Any], found: cernis.Matches) -> None:
    if counts_only(pattern):
        counted = found.counts().to_pydict()
        assert_counts_agree(pattern, events, zip(counted["end"], counted["count"], strict=True))
    else:
        assert_agrees(pattern, events, list(found))


@pytest.mark.parametrize("features", FEATURES.values(), ids=FEATURES)
@few
@given(data=st.data())
def test_arrows_and_gaps_agree_with_the_oracle(
    features: dict[str, Any], data: st.DataObject
) -> None:
    pattern, events = data.draw(cases(**features))
    windows = [pattern.within, *(one.within for one in pattern.without)]
    units = {*pattern.inner_units, *(each.unit for each in windows if each is not None)}
    table = make_table(events, timed=True if Unit.TIME in units else None)
    compare(pattern, events, cernis.query(pattern).run(table))


@pytest.mark.parametrize("features", FEATURES.values(), ids=FEATURES)
@few
@given(data=st.data())
def test_neither_batches_nor_freezing_change_arrows_and_gaps(
    features: dict[str, Any], data: st.DataObject
) -> None:
    pattern, events = data.draw(cases(**features, disorder=False, untimed=False))
    query, table = cernis.query(pattern), make_table(events, timed=True)
    whole = query.run(table)
    session = query.session()
    parts = []
    for piece in split_batches(range(len(events)), data.draw(cuts(len(events)))):
        parts.append(session.push(table.slice(piece[0] if piece else 0, len(piece))))
        session = query.thaw(session.freeze())
    if counts_only(pattern):
        counts = [row for part in parts for row in part.counts().to_pylist()]
        assert counts == whole.counts().to_pylist()
    else:
        assert [str(m) for part in parts for m in part] == [str(m) for m in whole]


@few
@given(crossing_cases(), st.randoms(use_true_random=False))
def test_values_across_events_agree_with_the_oracle(
    case: tuple[Pattern, Sequence[Any]], random: Random
) -> None:
    pattern, events = case
    query, table = cernis.query(pattern), make_table(events, timed=True)
    whole = query.run(table)
    found = [str(match) for match in whole]
    assert_agrees(pattern, events, list(whole))
    assert whole.count() == len(found)
    assert {str(match) for match in whole.sample(2, seed=1)} <= set(found)
    session, parts = query.session(), []
    for piece in split_batches(range(len(events)), sorted(random.sample(range(len(events)), 3))):
        parts.append(session.push(table.slice(piece[0] if piece else 0, len(piece))))
        session = query.thaw(session.freeze())
    parts.append(session.finish())
    assert_agrees(pattern, events, [match for part in parts for match in part])


@few
@given(far_clause_cases())
def test_clauses_around_far_comparisons_agree_with_the_oracle(
    case: tuple[Pattern, Sequence[Any]],
) -> None:
    pattern, events = case
    found = cernis.query(pattern).run(make_table(events, timed=True))
    if pattern.grouping is None:
        assert_agrees(pattern, events, list(found))
    else:
        groups = (
            comparable_group(
                [at for name, at in group.time.items() if name != "end_ts"],
                group.partition,
                group.values,
            )
            for group in found
        )
        assert_groups_agree(pattern, events, groups)


@pytest.mark.parametrize(
    "condition",
    [
        "b[p] != c[p] + 1",
        "NOT c[p] = b[p] - 1",
        "b[p] = a[p] - 1 AND c[p] != a[p] * 2",
        "c[p] = a[p] - 1 OR c[p] != b[p] * 2",
    ],
)
def test_calculated_values_decide_what_fits_an_arrow_as_in_the_oracle(condition: str) -> None:
    query = cernis.query(
        f"SELECT * WHERE (B AS a -> A AS b -> A AS c ; A AS d) FILTER {condition} WITHIN 9 EVENTS"
    )
    values = [("B", 3), ("A", 2.5), ("A", 2), ("A", None), ("A", 6), ("B", 2), ("A", 1), ("A", 4)]
    events = [{"type": type_, "p": p, "ts": at} for at, (type_, p) in enumerate(values)]
    assert_agrees(query.pattern, events, list(query.run(make_table(events, timed=True))))


def make_ticks(count: int) -> pa.Table:
    kinds = ["A", "B", "A", "C", "B", "B", "A"]
    return pa.table(
        {
            "type": [kinds[i % 7] for i in range(count)],
            "ts": range(count),
            "k": [i * i % 11 for i in range(count)],
        }
    )


@pytest.mark.parametrize(
    "formula",
    [
        "A ;[20 MILLISECONDS] B",
        "A ;[5 TO 20 MILLISECONDS] B ;[9 EVENTS] C",
        "(A AS a ;[90 MILLISECONDS] B AS b) FILTER a[k] = b[k]",
        "(A AS a ;[20 MILLISECONDS] B AS b) FILTER a[k] > b[k]",
        "(A AS a ;[20 EVENTS] B AS b ->[9 EVENTS] C AS c) FILTER a[k] < b[k] AND b[k] >= c[k]",
        "C{2,3}[20 EVENTS]",
        "(A ; B ; C WITHIN 12 MILLISECONDS)",
    ],
)
@pytest.mark.parametrize("partition", ["", " PARTITION BY [k]"])
def test_a_gap_bounds_memory_without_a_window(
    formula: str, partition: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    query, events = cernis.query(f"SELECT * WHERE {formula}{partition}"), make_ticks(20_000)
    plenty = query.run(events).counts()
    monkeypatch.setattr("cernis.engine.correlated.runtime.FIRST_RECORDS", 64)
    session = query.session()
    scarce = [session.push(events.slice(i, 500)).counts() for i in range(0, 20_000, 500)]
    assert pa.concat_tables(scarce).equals(plenty)
    session.engine.collect()
    assert session.engine.records < 2_000


@pytest.mark.parametrize(
    "query",
    [
        "(A ; B ; C WITHIN 3 SECONDS) ; D",
        "D ; (A ; B ; C WITHIN 4 SECONDS)",
        "D ; (A ; B ; C WITHIN 4 SECONDS) WITHIN 9 SECONDS",
        "(D ; (A+ ; B ; C? WITHIN 4 EVENTS)) FILTER A[k] = B[k] PARTITION BY [k] WITHIN 9 EVENTS",
        "(D ; (A ; B ; C WITHIN 5 SECONDS) ; D) PARTITION BY [k] WITHIN 9 SECONDS",
        "((A : B ; C WITHIN 3 SECONDS))+ ; (D ; A ; B WITHIN 3 SECONDS)",
        "(A -> (B OR C) ; C WITHIN 3 EVENTS) ; D PARTITION BY [k]",
        "(A ; (B AS x ; C AS y) FILTER x[k] <= y[k] WITHIN 5 SECONDS) : D",
    ],
)
@pytest.mark.parametrize("strategy", ["", "NEXT", "LONGEST"])
def test_a_part_within_a_time_agrees_with_the_oracle(query: str, strategy: str) -> None:
    pattern = parse(f"SELECT {strategy} * WHERE {query}")
    tables = cernis.query(pattern).plan.tables
    assert tables is not None
    assert tables.is_timed
    for seed in range(3):
        draw = Random(seed)
        types = draw.choices("ABCD", [3, 3, 3, 2], k=14)
        ts = accumulate(draw.choices([0, 1, 2], k=14))
        events = [
            {"type": e, "ts": t, "k": draw.randrange(2)} for e, t in zip(types, ts, strict=True)
        ]
        table = make_table(events, timed=True)
        found = cernis.query(pattern).run(table)
        compare(pattern, events, found)
        assert found.count() == len(list(found))
        assert len(found.sample(2, seed=1)) == min(2, found.count())


@pytest.mark.parametrize(
    "where",
    [
        "(A AS x ;[3 SECONDS] B AS y) FILTER x[v] {op} y[v] AND x[k] = y[k]",
        "(A AS x ; B AS y ;[2 SECONDS] C AS z) FILTER y[v] {op} z[v]",
        "(A AS x ;[3 EVENTS] B AS y ;[4 SECONDS] C AS z) FILTER x[v] {op} y[v] AND y[v] {op} z[v]",
        "((A OR B)+[2 SECONDS]) AS x FILTER PREV(x)[v] {op} x[v]",
        "(A AS x ->[3 SECONDS] B AS y) FILTER x[v] {op} y[v]",
    ],
)
@pytest.mark.parametrize(
    "clauses", ["", "WITHIN 5 SECONDS", "WITHIN 4 EVENTS", "PARTITION BY [k] WITHIN 9 SECONDS"]
)
def test_an_order_beside_a_gap_agrees_with_the_oracle(where: str, clauses: str) -> None:
    for seed in range(4):
        draw = Random(seed)
        op = draw.choice(["<", "<=", ">", ">="])
        strategy = draw.choice(["", "", "NEXT", "LONGEST"])
        pattern = parse(f"SELECT {strategy} * WHERE {where.format(op=op)} {clauses}")
        query = cernis.query(pattern)
        assert query.plan.tables is not None
        assert query.plan.tables.is_recent
        ts = accumulate(draw.choices([0, 1, 2], k=16), initial=-20)
        events = [
            {"type": draw.choice("ABC"), "ts": t, "v": draw.choice([1, 2, 3, 4, None]), "k": k}
            for t, k in zip(ts, draw.choices("pq", k=16), strict=False)
        ]
        table = make_table(events, timed=True)
        found = query.run(table)
        compare(pattern, events, found)
        assert found.count() == len(list(found))
        session, parts = query.session(), []
        for i in range(0, 16, 5):
            parts += list(session.push(table.slice(i, 5)))
            session = query.thaw(session.freeze())
        parts += list(session.finish())
        assert sorted(map(str, parts)) == sorted(map(str, found))


def test_explain_says_how_long_a_tree_by_value_keeps_runs() -> None:
    where = "(A AS a ;[5 MINUTES] B AS b) FILTER a[v] < b[v]"
    text = str(cernis.query(f"SELECT * WHERE {where}").explain())
    assert "after a: one search tree over v, each run for 5 minutes" in text
    assert "on each candidate" not in text


def test_explain_says_which_comparisons_beside_a_gap_are_checked() -> None:
    where = "(A AS a ;[1 TO 5 MINUTES] B AS b) FILTER a[v] < b[v]"
    text = str(cernis.query(f"SELECT * WHERE {where}").explain())
    assert (
        "a[v] < b[v]: while listing, once both events are chosen (the gap has a least length"
        in text
    )
    where = "(A AS a ;[5 MINUTES] B AS b) FILTER a[v] != b[v]"
    text = str(cernis.query(f"SELECT * WHERE {where}").explain())
    assert "once both events are chosen (runs wait in the order of time, for the gap" in text


def test_explain_says_how_long_runs_wait() -> None:
    text = str(cernis.query("SELECT * WHERE A ;[5 MINUTES] B").explain())
    assert "[5 MINUTES] before B: by an index in the order of time (between neighbours)" in text
    assert "after A: one search tree in the order of time, each run for 5 minutes" in text


def test_explain_says_which_index_an_arrow_empties() -> None:
    where = "(A AS a -> B AS b) FILTER a[k] = b[k]"
    text = str(cernis.query(f"SELECT * WHERE {where}").explain())
    assert "-> B AS b: by taking runs out of the index (by equal values, an order," in text
    assert "after a: a set for each k, runs leave it with the next that fits" in text


def test_explain_says_which_tree_runs_leave() -> None:
    where = "(A AS a -> B AS b) FILTER a[k] = b[k] AND 2 * a[v] <= b[v]"
    text = str(cernis.query(f"SELECT * WHERE {where}").explain())
    tree = "a search tree over (2 * v) for each k, runs leave it with the next that fits"
    assert f"after a: {tree}" in text
    assert "on each candidate" not in text


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ("(A AS a -> B AS b) FILTER a[k] != b[k]", "runs that differ are no range of an index"),
        ("(A AS a -> B AS b) FILTER a[k] + b[k] > 5", "a calculation decides what fits"),
        (
            "(A AS a -> B AS b) FILTER a[k] = b[k] AND (a[v] < b[v] OR a[v] < b[k])",
            "an OR decides what fits",
        ),
        (
            "(A AS a -> (B AS b OR C AS c)) FILTER a[k] < b[k] AND a[v] < c[v]",
            "its first events are compared by different attributes",
        ),
        (
            "(A AS a ->[1 TO 5 MINUTES] B AS b) FILTER a[k] < b[k]",
            "a[k] < b[k] decides what fits, and is checked on candidates",
        ),
        (
            "(A AS a -> B AS b ; C AS c) FILTER a[k] = c[k] AND c[k] = b[k]",
            "values are equal through an event that is not next to the arrow",
        ),
        (
            "(A->+ AS a ; B AS b) FILTER a[k] = b[k]",
            "values are equal through an event that is not next to the arrow",
        ),
    ],
)
def test_explain_says_why_an_arrow_is_checked_on_candidates(where: str, why: str) -> None:
    text = str(cernis.query(f"SELECT * WHERE {where}").explain())
    assert f": on each candidate ({why}" in text


@pytest.mark.parametrize("op", ["<", ">="])
def test_each_run_leaves_its_tree_with_the_first_that_fits(op: str) -> None:
    query, rounds = cernis.query(f"SELECT * WHERE (A AS a -> B AS b) FILTER a[k] {op} b[k]"), 200
    least = -1 if op == ">=" else rounds
    kinds = ["A"] * rounds + ["B"] * 3 * rounds
    asked = [rounds // 2] * rounds + [rounds if op == ">=" else 0] * rounds + [least] * rounds
    events = pa.table({"type": kinds, "k": [*range(rounds), *asked]})
    found = query.run(events)
    assert len(found) == rounds
    assert len({m.start for m in found}) == rounds
    assert len({m.end for m in found}) == 2
    assert found.count() == rounds
