"""LONGEST: against the oracle, and when its matches are pushed."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cernis
from cernis.pattern.query import Consume, Pattern, Strategy, Unit, counts_only
from tools.cases.differential import assert_agrees, assert_counts_agree
from tools.cases.grammar import split_batches
from tools.cases.strategies import cases, cuts
from tools.cases.tables import make_table

Events = Sequence[dict[str, Any]]
Case = tuple[Pattern, Events]

few = settings(
    max_examples=max(25, settings.default.max_examples // 8),
    suppress_health_check=list(HealthCheck),
)
some = settings(
    max_examples=max(40, settings.default.max_examples),
    suppress_health_check=list(HealthCheck),
)

LONGEST = (Strategy.LONGEST,)


def table_of(pattern: Pattern, events: Events) -> pa.Table:
    windows = [pattern.within, *(one.within for one in pattern.without)]
    in_time = any(window is not None and window.unit is Unit.TIME for window in windows)
    timed = pattern.forget is not None or in_time
    return make_table(events, timed=True if timed else None)


def compare(
    pattern: Pattern, events: Events, found: Iterable[cernis.Matches], *, complete: bool = False
) -> None:
    parts = list(found)
    if counts_only(pattern):
        counted = [row for part in parts for row in part.counts().to_pylist()]
        ends = ((row["end"], row["count"]) for row in counted)
        assert_counts_agree(pattern, events, ends, complete=complete)
        return
    assert_agrees(pattern, events, [m for part in parts for m in part], complete=complete)
    in_events = any(one.within.unit is Unit.EVENTS for one in pattern.without)
    for part in [] if in_events else parts:  # which come in the order of deadlines
        ends = [match.end_ts if match.end_ts is not None else match.end for match in part]
        assert ends == sorted(ends)
        assert part.count() == len(ends)


def push_all(
    pattern: Pattern, events: Events, at: list[int], *, freeze: bool, complete: bool = False
) -> Iterator[cernis.Matches]:
    query = cernis.query(pattern)
    whole, session = table_of(pattern, events), query.session(complete=complete)
    for piece in split_batches(range(len(events)), at):
        yield session.push(whole.slice(piece[0] if piece else 0, len(piece)))
        if freeze:
            session = query.thaw(session.freeze(), complete=complete)
    yield session.finish()


def in_order(events: Events) -> Events:
    return sorted(events, key=lambda e: e["ts"]) if events and "ts" in events[0] else events


@some
@given(cases(strategies=LONGEST))
def test_longest_agrees_with_the_oracle(case: Case) -> None:
    pattern, events = case
    compare(pattern, events, [cernis.query(pattern).run(table_of(pattern, events))])


@some
@given(cases(strategies=LONGEST, binary=True, previous=True, size=7, events=7))
def test_longest_of_compared_events_agrees_with_the_oracle(case: Case) -> None:
    pattern, events = case
    compare(pattern, events, [cernis.query(pattern).run(table_of(pattern, events))])


@some
@given(cases(strategies=LONGEST, gaps=True, next_=True, size=5, events=9, untimed=False))
def test_longest_with_gaps_agrees_with_the_oracle(case: Case) -> None:
    pattern, events = case
    compare(pattern, events, [cernis.query(pattern).run(table_of(pattern, events))])


@pytest.mark.parametrize(
    "formula",
    [
        "(A+[2 EVENTS]) AS a",
        "(A{2,}[3 MILLISECONDS]) AS a FILTER a[x > 1] AND a[x < 4]",
        "((A OR B)+[3 MILLISECONDS]) AS a FILTER A[x > 1]",
        "(A{1,2}[3 MILLISECONDS]) AS a",
        "(A+[1 MILLISECOND TO 3 MILLISECONDS]) AS a",
        "(A+[3 MILLISECONDS]) AS a FILTER a[x > 1] OR a[x < 1]",
        "(A+[3 MILLISECONDS]) AS a FILTER COUNT(a) < 3",
    ],
)
def test_runs_with_gaps_agree_with_the_oracle(formula: str) -> None:
    query = cernis.query(f"SELECT LONGEST a FROM S WHERE {formula}")
    draw = random.Random(7)
    for _ in range(12):
        events = [
            {"type": draw.choice("AAB"), "ts": time, "x": draw.randrange(5)}
            for time in sorted(draw.sample(range(14), 8))
        ]
        compare(query.pattern, events, [query.run(events)])


def test_a_long_session_is_found_without_its_subsets() -> None:
    events = [{"type": "PAGE", "ts": 60_000 * minute} for minute in range(60)]
    events.append({"type": "PAGE", "ts": 60_000 * 120})
    query = cernis.query("SELECT LONGEST s FROM visits WHERE (PAGE+[30 MINUTES]) AS s")
    assert [len(match.vars["s"]) for match in query.run(events)] == [60, 1]


SESSIONS = "SELECT LONGEST s FROM visits WHERE (PAGE+[30 MINUTES]) AS s PARTITION BY [user]"


def test_sessions_of_many_events_are_found_without_candidates() -> None:
    minutes = [*range(20_000), 30_000]
    visits = pa.table({"type": ["PAGE"] * 20_001, "ts": [60_000 * m for m in minutes]})
    visits = visits.append_column("user", pa.array(["u"] * 20_001))
    found = cernis.query(SESSIONS).run(visits, budget=10)
    assert intervals(found) == [(0, 19_999), (20_000, 20_000)]
    assert [len(match.vars["s"]) for match in found] == [20_000, 1]


def test_a_session_is_pushed_though_another_partition_goes_on() -> None:
    session = cernis.query(SESSIONS).session()
    visits = [("u", 0), ("v", 5), ("u", 20), ("u", 40), ("u", 60)]
    pushed = [
        intervals(session.push([{"type": "PAGE", "ts": 60_000 * minute, "user": user}]))
        for user, minute in visits
    ]
    assert pushed == [[], [], [], [(1, 1)], []]


def test_explain_says_that_indexes_give_the_earliest_start() -> None:
    assert "LONGEST: the indexes give the earliest start of each end\n" in str(
        cernis.query(SESSIONS).explain()
    )
    pairs = "SELECT LONGEST * FROM S WHERE (A AS a ; B AS b) FILTER a[x] = b[x]"
    assert "earliest start of each end; of equal intervals, match by match\n" in str(
        cernis.query(pairs).explain()
    )


@pytest.mark.parametrize("freeze", [False, True])
@pytest.mark.parametrize("clause", ["", " PARTITION BY [k]", " PARTITION BY [k] CONSUME BY ANY"])
@pytest.mark.parametrize(
    "formula", ["(A+[3 MILLISECONDS]) AS a", "(A AS a ; (A+[3 EVENTS]) AS b) FILTER a[x] = b[x]"]
)
def test_runs_in_batches_agree_with_the_oracle(formula: str, clause: str, freeze: bool) -> None:
    query = cernis.query(f"SELECT LONGEST a FROM S WHERE {formula}{clause}")
    draw = random.Random(11)
    for _ in range(6):
        times = sorted(draw.choices(range(20), k=10))
        events = [
            {"type": draw.choice("AAB"), "ts": time, "x": draw.randrange(2), "k": draw.choice("uv")}
            for time in times
        ]
        at = sorted(draw.sample(range(11), 3))
        compare(query.pattern, events, push_all(query.pattern, events, at, freeze=freeze))


@pytest.mark.parametrize("freeze", [False, True])
@pytest.mark.parametrize("binary", [False, True])
@some
@given(data=st.data())
def test_batches_and_freezing_change_nothing(
    binary: bool, freeze: bool, data: st.DataObject
) -> None:
    drawn = cases(strategies=LONGEST, binary=binary, size=7, events=10, disorder=False)
    pattern, events = data.draw(drawn)
    at, events = data.draw(cuts(len(events))), in_order(events)
    compare(pattern, events, push_all(pattern, events, at, freeze=freeze))


@some
@given(data=st.data())
def test_forgotten_partitions_agree_with_the_oracle(data: st.DataObject) -> None:
    drawn = cases(strategies=LONGEST, forget=True, untimed=False, disorder=False)
    pattern, events = data.draw(drawn)
    at, events = data.draw(cuts(len(events))), in_order(events)
    compare(pattern, events, push_all(pattern, events, at, freeze=True))


LINKS: list[dict[str, Any]] = [
    {"after": ("free",)},
    {"after": ("equal", "residual")},
    {"before": ("free", "equal")},
    {"after": ("free", "equal"), "before": ("free",)},
]


@pytest.mark.parametrize("links", LINKS, ids=str)
@few
@given(data=st.data(), complete=st.booleans())
def test_the_longest_of_what_without_leaves_agree_with_the_oracle(
    links: dict[str, Any], complete: bool, data: st.DataObject
) -> None:
    drawn = cases(strategies=LONGEST, consume=(Consume.NONE,), **links, size=5, forget=True)
    pattern, events = data.draw(drawn)
    found = cernis.query(pattern).run(table_of(pattern, events), complete=complete)
    compare(pattern, events, [found], complete=complete)


@pytest.mark.parametrize("links", LINKS[1:], ids=str)
@few
@given(data=st.data())
def test_batches_and_freezing_change_nothing_with_without(
    links: dict[str, Any], data: st.DataObject
) -> None:
    drawn = cases(
        strategies=LONGEST, consume=(Consume.NONE,), **links, size=5, forget=True, disorder=False
    )
    pattern, events = data.draw(drawn)
    at, events = data.draw(cuts(len(events))), in_order(events)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cernis.run.stages.pipeline._FORGET_KEYS", -100)
        found = push_all(pattern, events, at, freeze=True, complete=True)
        compare(pattern, events, found, complete=True)


def test_a_shorter_match_is_certain_when_the_longer_one_is_removed() -> None:
    query = cernis.query("SELECT LONGEST s FROM S WHERE (A:+ AS s) WITHOUT B FOR 2 MILLISECONDS")
    session = query.session()
    found = [intervals(session.push([event])) for event in types("AAACCC")]
    assert found == [[], [], [], [], [], [(0, 2)]]
    session = query.session()
    events = [{"type": kind, "ts": ts} for kind, ts in [("A", 0), ("A", 2), ("C", 3), ("B", 4)]]
    assert [intervals(session.push([event])) for event in events] == [[], [], [], [(0, 0)]]


def types(text: str) -> list[dict[str, Any]]:
    return [{"type": kind, "ts": time} for time, kind in enumerate(text)]


def intervals(found: cernis.Matches) -> list[tuple[int, int]]:
    return [(match.start, match.end) for match in found]


def test_a_run_is_pushed_when_it_is_broken() -> None:
    session = cernis.query("SELECT LONGEST a FROM S WHERE (A:+) AS a").session()
    pushed = [intervals(session.push([event])) for event in types("AABAB")]
    assert pushed == [[], [], [(0, 1)], [], [(3, 3)]]


def test_a_match_is_pushed_when_its_window_has_passed() -> None:
    session = cernis.query("SELECT LONGEST * FROM S WHERE A ; B WITHIN 2 EVENTS").session()
    pushed = [intervals(session.push([event])) for event in types("ABBCC")]
    assert pushed == [[], [], [(0, 2)], [], []]


def test_other_partitions_move_the_time_of_a_window() -> None:
    query = "SELECT LONGEST * FROM S WHERE A+ PARTITION BY [k] WITHIN 3 MILLISECONDS"
    session = cernis.query(query).session()
    keys = "xxyyyy"
    events = [{"type": "A", "ts": 2 * i, "k": key} for i, key in enumerate(keys)]
    pushed = [intervals(session.push([event])) for event in events]
    assert pushed[:4] == [[], [], [(0, 1)], []]


def test_what_waits_at_the_end_comes_with_finish_and_with_stream() -> None:
    query = cernis.query("SELECT LONGEST * FROM S WHERE A+ AS a")
    session = query.session()
    assert not intervals(session.push(types("AAA")))
    assert intervals(session.finish()) == [(0, 2)]
    assert not intervals(session.finish())
    assert [pair for part in query.stream(types("AAA")) for pair in intervals(part)] == [(0, 2)]


def test_pulled_are_the_matches_that_are_certain() -> None:
    session = cernis.query("SELECT LONGEST a FROM S WHERE (A:+) AS a").session(keep=True)
    session.push(types("AAB"))
    session.push([{"type": "A", "ts": 3}])
    assert intervals(session.pull()) == [(0, 1)]


def test_events_of_waiting_matches_are_kept() -> None:
    query = cernis.query("SELECT LONGEST SUM(a[x]) AS total FROM S WHERE (A:+) AS a")
    session = query.session()
    session.push([{"type": "A", "x": x} for x in (1, 2)])
    session.forget()
    session = query.thaw(session.freeze())
    assert [match.values["total"] for match in session.push([{"type": "B", "x": 0}])] == [3]


def test_a_group_waits_for_the_matches_of_its_interval() -> None:
    query = cernis.query(
        "SELECT LONGEST COUNT(*) AS runs FROM S WHERE A+ AS a PARTITION BY [k]"
        " WITHIN 20 MILLISECONDS GROUP BY EVERY 10 MILLISECONDS"
    )
    session = query.session()
    events = [{"type": "A", "ts": t, "k": k} for t, k in ((1, "x"), (2, "x"), (12, "y"), (40, "y"))]
    pushed = [session.push([event]).to_arrow().to_pylist() for event in events]
    assert [rows for rows in pushed if rows] == [
        [{"from_ts": 0, "to_ts": 10, "runs": 1}, {"from_ts": 10, "to_ts": 20, "runs": 1}]
    ]


def test_a_stream_without_a_bound_has_a_note() -> None:
    session = cernis.query("SELECT LONGEST * FROM S WHERE A ; B").session()
    note = (
        "LONGEST pushes a match when no longer one can come: it may wait until the input ends "
        "(add WITHIN, FORGET AFTER, or ':' or gaps between events)"
    )
    assert session.push(types("AB")).notes == (note,)
    assert cernis.query("SELECT LONGEST * FROM S WHERE A ; B").run(types("AB")).notes == ()


def test_a_rise_with_gaps_has_a_note_since_its_index_does_not_see_that_it_is_broken() -> None:
    text = "SELECT LONGEST r FROM S WHERE T{2,}[2 EVENTS] AS r FILTER r INCREASING BY p"
    events = [{"type": "T", "p": p, "ts": 1000 * i} for i, p in enumerate((1, 2, 3, 1, 1, 1, 1))]
    session = cernis.query(text).session()
    pushed = session.push(events)
    waits = (
        "it may wait until the input ends (add WITHIN: indexes by order and by != do not see that "
        "a run is broken)"
    )
    assert pushed.notes == (f"LONGEST pushes a match when no longer one can come: {waits}",)
    assert [match.vars["r"] for match in session.finish()] == [[0, 1, 2]]
    assert waits in str(cernis.query(text).explain())
    session = cernis.query(f"{text} WITHIN 2 SECONDS").session()
    assert [match.vars["r"] for match in session.push(events)] == [[0, 1, 2]]


def test_a_contiguous_rise_is_pushed_when_it_is_broken_though_another_key_is_idle() -> None:
    text = "SELECT LONGEST r FROM S WHERE T:{2,} AS r FILTER r INCREASING BY p PARTITION BY [k]"
    query = cernis.query(text)
    session = query.session()
    values = [("idle", 1), ("idle", 2), ("k", 1), ("k", 2), ("k", 3), ("k", 1), ("k", 1)]
    pushed = []
    for key, value in values:
        found = session.push([{"type": "T", "p": value, "k": key}])
        assert found.notes == ()
        pushed.append(intervals(found))
        session = query.thaw(session.freeze())
    assert pushed == [[], [], [], [], [], [(2, 4)], []]
    assert intervals(session.finish()) == [(0, 1)]


def test_a_partial_answer_has_no_match_that_may_not_be_the_longest() -> None:
    query = cernis.query("SELECT LONGEST * FROM S WHERE (A AS a ; B AS b) FILTER a[x] < b[x]")
    events = [{"type": kind, "x": x} for x, kind in enumerate("AABBB")]
    found = query.run(events, budget=3, on_budget="partial")
    assert found.partial
    assert not list(found)


def test_the_earliest_start_is_found_though_the_window_has_passed_others() -> None:
    """The step kernel knows the earliest start of all; a search finds the one inside."""
    query = cernis.query("SELECT LONGEST a FROM S WHERE A+ AS a WITHIN 3 EVENTS")
    assert intervals(query.run(types("A" * 12))) == [(start, start + 3) for start in range(9)]


@pytest.mark.parametrize("strategy", ["LONGEST", "NEXT"])
@pytest.mark.parametrize("formula", ["A ; B", "A OR (A ; B)", "(A ; B) OR (C ; B)"])
def test_the_earliest_start_of_a_wide_window_is_found_in_a_long_list(
    strategy: str, formula: str
) -> None:
    """Lists of hundreds of starts, through collections and thawed states, against a plain scan."""
    draw, size = random.Random(formula), 200
    letters = [draw.choice("AAABC") for _ in range(1_500)]
    begins = "AC" if "C" in formula else "A"
    starts = [i for i, letter in enumerate(letters) if letter in begins]
    expected = [(i, i) for i in starts if "OR (A" in formula]
    for end in (i for i, letter in enumerate(letters) if letter == "B"):
        inside = [i for i in starts if end - size <= i < end]
        expected += [(inside[0], end)] if inside else []
    if strategy == "LONGEST":
        expected = [
            one
            for one in expected
            if not any(o != one and o[0] <= one[0] and one[1] <= o[1] for o in expected)
        ]
    query = cernis.query(f"SELECT {strategy} * FROM S WHERE {formula} WITHIN {size} EVENTS")
    session, found = query.session(), []
    for piece in split_batches(types("".join(letters)), [400, 401, 900]):
        found += intervals(session.push(piece))
        session = query.thaw(session.freeze())
    found += intervals(session.finish())
    assert sorted(found) == sorted(expected)
