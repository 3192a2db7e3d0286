"""Look into a run: compared with the oracle on random cases, and sentences word for word."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cernis
from cernis.errors import DataError
from cernis.pattern.query import Consume, Pattern, Strategy, Unit
from cernis.run.trace import look
from cernis.run.trace.look import Trace
from cernis.testing.oracle import evaluate
from tools.cases.strategies import cases, crossing_cases, guarded_cases
from tools.cases.tables import make_table

Events = Sequence[dict[str, Any]]

CHOSEN = tuple(s for s in Strategy if s is not Strategy.ANY)
some = settings(max_examples=30, suppress_health_check=list(HealthCheck))
few = settings(max_examples=12, suppress_health_check=list(HealthCheck))


def trace(pattern: Pattern | str, events: Any, **options: Any) -> Trace:
    query = cernis.query(pattern)
    return query.trace(query.run(events, **options))


def trace_case(pattern: Pattern, events: Events) -> Trace:
    timed = pattern.within is not None and pattern.within.unit is Unit.TIME
    timed = timed or bool(pattern.without) or pattern.forget is not None
    return trace(pattern, make_table(events, timed=True if timed else None))


def rows_of(match: Any) -> frozenset[int]:
    return frozenset(row for rows in match.vars.values() for row in rows)


ROWS = st.sets(st.integers(0, 9), min_size=1, max_size=4)


@some
@given(
    cases(
        binary=True, previous=True, next_=True, gaps=True, partition_by_inside=True,
        strategies=CHOSEN, selects=("*",), limit=False,
    ),
    st.lists(ROWS, max_size=4),
)  # fmt: skip
def test_rows_match_exactly_when_the_oracle_has_that_match(
    case: tuple[Pattern, Events], more: list[set[int]]
) -> None:
    pattern, events = case
    expected = {rows_of(match) for match in evaluate(pattern, events)} - {frozenset()}
    seen = trace_case(pattern, events)
    asked = {*list(expected)[:5], *(frozenset(r for r in rows if r < len(events)) for rows in more)}
    for rows in asked - {frozenset()}:
        finding = seen.why(rows)
        assert finding.matches == (rows in expected), (finding, rows)
        assert (finding.stopped_at is None) == finding.matches or not finding.steps
        assert finding.sentence


@few
@given(cases(binary=True, after=("none", "key"), before=("none",), selects=("*",), limit=False,
             strategies=(Strategy.ALL,), consume=(Consume.NONE,), untimed=False),
       st.lists(ROWS, max_size=3))  # fmt: skip
def test_what_must_be_absent_is_found_as_the_oracle_finds_it(
    case: tuple[Pattern, Events], more: list[set[int]]
) -> None:
    pattern, events = case
    expected = {rows_of(match) for match in evaluate(pattern, events)} - {frozenset()}
    seen = trace_case(pattern, events)
    asked = {*list(expected)[:4], *(frozenset(r for r in rows if r < len(events)) for rows in more)}
    for rows in asked - {frozenset()}:
        assert seen.why(rows).matches == (rows in expected)


@some
@given(cases(binary=True, next_=True, gaps=True))
def test_a_step_completes_the_matches_that_the_oracle_ends_there(
    case: tuple[Pattern, Events],
) -> None:
    pattern, events = case
    expected = Counter(match.end for match in evaluate(pattern, events))
    seen = trace_case(pattern, events)
    assert [seen.step(row).completed for row in range(len(events))] == [
        expected[row] for row in range(len(events))
    ]


@some
@given(
    cases(binary=True, next_=True, gaps=True, limit=False, consume=(Consume.NONE,),
          strategies=(Strategy.ALL, Strategy.STRICT), forget=True) | guarded_cases(after=False)
    | crossing_cases(after=False)
)  # fmt: skip
def test_a_replay_completes_what_the_run_completes(case: tuple[Pattern, Events]) -> None:
    pattern, events = case
    seen = trace_case(pattern, events)
    if seen._replay is None:
        return
    for row in range(len(events)):
        step = seen.step(row)
        index = seen._find_index(row)
        members = seen.events.list_members(index)
        if len(members) and step.exact and not seen.plan.listed:
            rank = members.tolist().index(index)
            replayed = seen._replay.replay(members, seen._find_first(members, rank), rank)
            if pattern.strategy in (Strategy.ALL, Strategy.STRICT):
                assert replayed.completed == step.completed
            else:  # the run gives some of them
                assert replayed.completed >= step.completed
        names = {state.id for state in seen._drawn.view.states}
        assert {one.state for one in step.states} <= names


def test_partial_matches_are_not_exact_where_conditions_are_decided_while_listing() -> None:
    text = "SELECT * FROM S WHERE (A AS a : B AS b : C AS c) FILTER {} > 0 AND c[x] > b[x]"
    events = [{"type": kind, "x": x, "ts": x} for x, kind in enumerate("ABC")]
    for condition, is_exact in (("c[x]", True), ("c[x] > a[x] AND b[x]", False)):
        query = cernis.query(text.format(condition))
        step = query.trace(query.run(events)).step(2)
        assert (step.completed, step.exact) == (1, is_exact)


BUYS = "SELECT * FROM S WHERE (BUY AS b ; SELL+ AS s) FILTER b[price > 120] WITHIN 4 EVENTS"


def trade() -> list[dict[str, Any]]:
    made = [
        ("BUY", 130, "x"), ("SELL", 90, "x"), ("QUOTE", 1, "x"), ("BUY", 100, "x"),
        ("SELL", 125, "y"), ("SELL", 80, "x"), ("X", None, "x"), ("SELL", 70, "x"),
    ]  # fmt: skip
    return [
        {"type": kind, "ts": i * 1000, "price": price, "name": name}
        for i, (kind, price, name) in enumerate(made)
    ]


def test_partial_matches_are_counted_exactly() -> None:
    seen = trace("SELECT * FROM S WHERE A AS a ; B+ AS b ; C AS c", [{"type": t} for t in "AABBBX"])
    found = [[(s.name, s.partial, s.since) for s in seen.step(row).states] for row in range(6)]
    assert found == [
        [("after a", 1, 0)],
        [("after a", 2, 0)],
        [("after a", 2, 0), ("after b", 2, 0)],
        [("after a", 2, 0), ("after b", 6, 0)],
        [("after a", 2, 0), ("after b", 14, 0)],
        [("after a", 2, 0), ("after b", 14, 0)],
    ]


def test_compared_events_are_counted_exactly() -> None:
    query = "SELECT * FROM S WHERE (A AS a ; B AS b ; C AS c) FILTER a[x] = b[x] AND b[y] < c[y]"
    events = [
        {"type": t, "x": x, "y": x} for t, x in zip("AABBAB", (1, 2, 1, 1, 1, 1), strict=True)
    ]
    step = trace(query, events).step(5)
    assert [(s.name, s.partial, s.since) for s in step.states] == [
        ("after a", 3, 0),
        ("after b", 4, 0),
    ]
    assert [(e.label, e.partial) for e in step.taken] == [("B with x = a[x] → b", 2)]


def test_a_step_says_what_the_event_did() -> None:
    step = trace(BUYS, trade(), time="ts").step(1)
    assert step.event == {"type": "SELL", "ts": 1000, "price": 90, "name": "x"}
    assert [(e.label, e.partial) for e in step.taken] == [("SELL → s", 1)]
    assert [(s.name, s.example) for s in step.states] == [
        ("after b", ((0, "b"),)),
        ("after s", ((0, "b"), (1, "s"))),
    ]
    assert step.completed == 1
    assert step.to_dict()["completed"] == "1"


def test_the_window_and_consumption_end_partial_matches() -> None:
    assert trace(BUYS, trade()).step(5).states == ()
    query = "SELECT * FROM S WHERE BUY AS b ; SELL AS s CONSUME BY ANY"
    seen = trace(query, trade())
    assert [len(seen.step(row).states) for row in range(5)] == [1, 0, 0, 1, 0]


def test_a_replay_that_a_limit_cuts_says_so() -> None:
    events = [{"type": "A"}] * 30
    seen = trace("SELECT * FROM S WHERE A AS a ; B AS b", events)
    assert (seen.step(29).whole, seen.step(29).states[0].partial) == (True, 30)
    cut = seen.step(29, limit=10)
    assert (cut.whole, cut.states[0].partial) == (False, 10)


def test_an_event_without_a_key_does_nothing() -> None:
    events = [{"type": "A", "k": None}, {"type": "A", "k": 1}]
    seen = trace("SELECT * FROM S WHERE A AS a ; B AS b PARTITION BY [k]", events)
    assert [len(seen.step(row).states) for row in (0, 1)] == [0, 1]
    assert seen.why([0, 1]).sentence == "PARTITION BY [k]: row 0 has no key: k = None"


def test_edges_are_counted_by_the_events_that_took_them() -> None:
    view = trace(BUYS, trade()).automaton()
    assert view is not None
    counts = [(e.condition, e.taken) for e in view.edges if e.kind == "read"]
    assert counts == [("BUY with price > 120", 1), ("SELL", 2), ("SELL", 1)]
    equal = "SELECT * FROM S WHERE (BUY AS b ; SELL AS s) FILTER b[name] = s[name]"
    view = trace(equal, trade()).automaton()
    assert view is not None
    assert [(e.condition, e.taken) for e in view.edges] == [
        ("BUY", 2),
        ("SELL with name = b[name]", 3),
    ]


def test_edges_are_counted_over_the_first_events(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = trace(BUYS, trade())
    assert seen.counted == len(trade())
    monkeypatch.setattr(look, "UNARY_EDGES", 1)
    assert seen.counted == 1
    view = seen.automaton()
    assert view is not None
    assert sum(edge.taken or 0 for edge in view.edges) <= 1


PAIR = "SELECT * FROM S WHERE (BUY AS b ; SELL AS s)"


@pytest.mark.parametrize(
    ("query", "rows", "sentence"),
    [
        (PAIR, [0, 1], "these events are a match"),
        (f"{PAIR} WITHIN 4 SECONDS", [0, 7],
         "WITHIN 4 SECONDS: from row 0 to row 7 are 7 SECONDS, 3 SECONDS too long"),
        (f"{PAIR} WITHIN 4 EVENTS", [0, 7],
         "WITHIN 4 EVENTS: from row 0 to row 7 are 7 EVENTS, 3 too many"),
        (f"{PAIR} FILTER b[price > 120]", [3, 5], "b[price > 120]: in row 3 price is 100"),
        (f"{PAIR} FILTER s[price] < b[price]", [3, 4],
         "s[price] < b[price]: s[price] is 125 in row 4, b[price] is 100 in row 3"),
        (PAIR, [0, 2], "SELL: row 2 is QUOTE, s takes SELL"),
        (PAIR, [0], "SELL: none of the events is s (SELL)"),
        (PAIR, [0, 1, 5], "the pattern: row 5 (SELL) has no place beside the others"),
        (f"{PAIR} PARTITION BY [name]", [0, 4],
         "PARTITION BY [name]: row 4 has another key: name = 'y', where row 0 has name = 'x'"),
        ("SELECT * FROM S WHERE (BUY AS b ; SELL AS s) UNLESS X", [3, 7],
         "UNLESS X: row 6 (X) comes in between"),
        ("SELECT * FROM S WHERE BUY AS b : SELL AS s", [0, 5],
         "':' (right after): 4 events stand between row 0 and row 5"),
        ("SELECT * FROM S WHERE BUY AS b -> SELL AS s", [0, 5],
         "'->' (the first that fits): row 1 comes before row 5 and fits as well"),
        ("SELECT * FROM S WHERE BUY AS b ;[2 SECONDS] SELL AS s", [0, 5],
         "[2 SECONDS]: from row 0 to row 5 are 5 SECONDS"),
        ("SELECT * FROM S WHERE BUY AS b WITHOUT SELL FOR 2 SECONDS", [0],
         "WITHOUT SELL FOR 2 SECONDS: row 1 (SELL) comes after it"),
        ("SELECT * FROM S WHERE SELL AS s WITHOUT SELL FOR 2 SECONDS", [7],
         "WITHOUT SELL FOR: the input ends before the deadline, so that the match is not certain"),
        ("SELECT * FROM S WHERE SELL AS s WITHOUT BUY BEFORE 2 SECONDS", [5],
         "WITHOUT BUY BEFORE 2 SECONDS: row 3 (BUY) comes before it"),
        ("SELECT NEXT * FROM S WHERE (BUY AS b ; SELL+ AS s)", [0, 7],
         "NEXT: another match that ends here is kept: row 0, row 1, row 4, row 5, row 7"),
        (f"{PAIR} CONSUME BY ANY", [0, 7],
         "CONSUME BY ANY: an earlier match has consumed the events before its end"),
        (f"{PAIR} LIMIT 1", [0, 7], "LIMIT: another match that ends here is kept: row 3, row 7"),
        ("SELECT STRICT * FROM S WHERE BUY AS b ; SELL AS s", [0, 5],
         "STRICT: row 1 lies between the events and is not one of them"),
        ("SELECT * FROM S WHERE (BUY AS b ; SELL+ AS s) FILTER s INCREASING BY price", [0, 1, 5],
         "s INCREASING BY price: price is 90 in row 1, 80 in row 5"),
        ("SELECT * FROM S WHERE (BUY AS b ; SELL+ AS s) FILTER COUNT(s) > 3", [0, 1, 5],
         "COUNT(s) > 3: COUNT(s) is 2"),
        ("SELECT * FROM S WHERE X AS x FILTER x[price > 3]", [6],
         "x[price > 3]: in row 6 price is missing"),
        ("SELECT * FROM S WHERE ((BUY AS b ; SELL AS s) PARTITION BY [name])", [0, 4],
         "PARTITION BY [name]: name is 'y' in row 4, name is 'x' in row 0"),
    ],
)  # fmt: skip
def test_a_finding_says_what_is_in_the_way(query: str, rows: list[int], sentence: str) -> None:
    finding = trace(query, trade(), time="ts").why(rows)
    assert str(finding) == sentence
    assert finding.matches == (sentence == "these events are a match")
    assert [step.row for step in finding.steps] == rows


def test_dates_are_subtracted_as_durations() -> None:
    import pyarrow as pa

    table = pa.Table.from_pylist(trade())
    table = table.set_column(1, "ts", table["ts"].cast(pa.timestamp("ms")))
    query = f"{PAIR} FILTER s[ts] - b[ts] > 3 SECONDS"
    assert str(trace(query, table, time="ts").why([0, 1])) == (
        "s[ts] - b[ts] > 3 SECONDS: s[ts] - b[ts] is 1 SECOND"
    )


def test_the_row_that_stops_the_match_is_named() -> None:
    finding = trace(f"{PAIR} FILTER b[price > 120]", trade()).why([3, 5])
    assert finding.stopped_at == 3
    assert [(step.row, step.state, step.ok) for step in finding.steps] == [
        (3, "b", False),
        (5, "s", None),
    ]
    assert finding.to_dict()["steps"][0]["reason"] == "in row 3 price is 100"


def test_rows_that_are_not_there_are_refused() -> None:
    seen = trace(PAIR, trade())
    with pytest.raises(DataError, match="no event of this run is row 99"):
        seen.why([0, 99])
    with pytest.raises(DataError, match="no event of this run is row 99"):
        seen.step(99)
    with pytest.raises(DataError, match="no rows are given"):
        seen.why([])


def test_groups_have_no_trace() -> None:
    query = cernis.query("SELECT COUNT(*) FROM S WHERE BUY GROUP BY END")
    with pytest.raises(cernis.CernisError, match="a trace needs the matches of a query"):
        query.trace(query.run(trade()))


def test_too_many_ways_are_an_answer() -> None:
    events = [{"type": "A"}] * 40
    query = "SELECT * FROM S WHERE (A+ AS x ; A+ AS y) ALL (A+ ; A+ ; A+)"
    finding = trace(query, events).why(range(40))
    assert "too many ways" in str(finding) or finding.matches
