"""Push and pull: new answers as events come, and the whole answer whenever it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cernis
from cernis.languages.conjunctive import lower, parse
from cernis.languages.conjunctive.query import ConjunctiveQuery
from cernis.pattern.query import Pattern, Strategy, Unit, counts_only
from cernis.results.answers import Answer, Answers
from cernis.run.stages import history
from cernis.run.stages.projection import Projector
from cernis.testing import oracle
from cernis.testing.conjunctive import oracle as conjunctive_oracle
from tools.cases.differential import comparable_match
from tools.cases.grammar import FAMILIES
from tools.cases.strategies import cases, cuts, joins
from tools.cases.tables import make_table

Events = Sequence[dict[str, Any]]
Case = tuple[Pattern, Events]

THEOREM_1 = "Q(y, t3) <- r(a: x)@t1, s(a: x, b: y)@t2, t(b: y)@t3, t1 < t2 < t3, t3 - t1 < 5"
HIDDEN = [
    {"type": "r", "ts": 2, "a": 1},
    {"type": "r", "ts": 4, "a": 2},
    {"type": "s", "ts": 5, "a": 2, "b": 9},
    {"type": "s", "ts": 6, "a": 1, "b": 9},
    {"type": "t", "ts": 7, "b": 9},
]
"""The older start is in the window of the s that is filed last, and no longer in that of t."""

some = settings(
    max_examples=max(33, settings.default.max_examples),
    suppress_health_check=list(HealthCheck),
)


def query(text: str) -> cernis.Query:
    return cernis.query(text, lang="cq")


def tuples(found: Any) -> dict[tuple[Any, ...], int]:
    assert isinstance(found, Answers)
    held = [(tuple(each.values.values()), each.end) for each in found]
    assert len(dict(held)) == len(held) == found.count()
    return dict(held)


def pieces(events: Events, at: Sequence[int], timed: bool | None = None) -> Iterator[pa.Table]:
    """The events in several tables, all with the same columns."""
    whole = make_table(events, timed=timed)
    for low, high in pairwise([0, *at, len(events)]):
        yield whole.slice(low, high - low)


# -------------------------------------------------------------- Theorem 1


def test_an_older_start_does_not_hide_a_later_one() -> None:
    assert list(query(THEOREM_1).run(HIDDEN)) == [Answer({"y": 9, "t3": 7}, end=4, end_ts=7)]


def answers_of_algorithm_1_as_printed(events: Events) -> set[tuple[Any, ...]]:
    """Line 6 keeps the start that was filed last; it must keep the latest."""
    starts_of_x: dict[Any, int] = {}
    starts_of_y: dict[Any, int] = {}
    found = set()
    for event in events:
        match event["type"]:
            case "r":
                starts_of_x[event["a"]] = event["ts"]
            case "s" if event["a"] in starts_of_x:
                starts_of_y[event["b"]] = starts_of_x[event["a"]]
            case "t" if event["ts"] - starts_of_y.get(event["b"], -5) < 5:
                found.add((event["b"], event["ts"]))
    return found


@pytest.mark.parametrize("later_start_is_filed_last", [True, False])
def test_it_makes_no_difference_which_start_is_filed_last(later_start_is_filed_last: bool) -> None:
    events = [dict(event) for event in HIDDEN]
    if later_start_is_filed_last:
        events[2]["a"], events[3]["a"] = events[3]["a"], events[2]["a"]
    session = query(THEOREM_1).session()
    pushed: dict[tuple[Any, ...], int] = {}
    for number, event in enumerate(events):
        pushed |= tuples(session.push([{"a": None, "b": None} | event]))
        assert number == 4 or not pushed
    assert pushed == {(9, 7): 4}
    printed = answers_of_algorithm_1_as_printed(events)
    assert printed == ({(9, 7)} if later_start_is_filed_last else set())


def test_theorem_1s_query_keeps_no_runs() -> None:
    session = query(THEOREM_1.replace("< 5", "< 50")).session()
    assert session.plan.tables is not None
    assert session.plan.tables.collapsed == {0, 1}
    records = []
    for turn in range(6):
        times = range(4000 * turn, 4000 * (turn + 1))
        events = {
            "type": ["rst"[time % 3] for time in times],
            "ts": list(times),
            "a": [time // 3 % 4 for time in times],
            "b": [time // 5 % 4 for time in times],
        }
        session.push(pa.table(events))
        session.forget()
        records.append(session.engine.records)
        projector = session.pipeline.stages.closing
        assert isinstance(projector, Projector)
        assert len(projector.given) <= 1
    assert max(records) < 100


def test_without_a_window_what_is_kept_is_bounded_by_the_keys() -> None:
    text = "Q(y) <- r(a: x)@t1, s(a: x, b: y)@t2, t(b: y)@t3, t1 < t2 < t3"
    session = query(text).session()
    number = 30_000
    events = {
        "type": ["rst"[i % 3] for i in range(number)],
        "ts": list(range(number)),
        "a": [i // 3 % 4 for i in range(number)],
        "b": [i // 5 % 4 for i in range(number)],
    }
    assert sorted(tuples(session.push(pa.table(events)))) == [(0,), (1,), (2,), (3,)]
    session.forget()
    assert session.engine.records < 100


# ------------------------------------------------------------------ heads


@some
@given(joins(chain=True))
def test_the_answers_of_a_chain_are_its_matches_projected(case: tuple[str, Events]) -> None:
    check_answers(*case)


@some
@given(joins())
def test_the_answers_of_any_query_are_its_matches_projected(case: tuple[str, Events]) -> None:
    check_answers(*case)


def needs_time(text: str) -> bool | None:
    return True if "MILLISECONDS" in text else None


def check_answers(text: str, events: Events) -> None:
    parsed = parse(text)
    if not parsed.full:
        found = tuples(query(text).run(make_table(events, timed=needs_time(text))))
        assert found == conjunctive_oracle.find_answers(parsed, events)


@some
@given(joins(chain=True) | joins(), st.data())
def test_what_is_pushed_is_what_is_new(case: tuple[str, Events], data: st.DataObject) -> None:
    text, events = case
    parsed = parse(text)
    if parsed.full:
        return
    at = data.draw(cuts(len(events)))
    frozen_at = data.draw(st.integers(0, len(at)))
    session = query(text).session()
    pushed: dict[tuple[Any, ...], int] = {}
    for number, piece in enumerate(pieces(events, at, needs_time(text))):
        new = tuples(session.push(piece))
        assert not new.keys() & pushed.keys()
        pushed |= new
        if number == frozen_at:
            session = query(text).thaw(session.freeze())
    assert pushed == conjunctive_oracle.find_answers(parsed, events)


@some
@given(joins(chain=True) | joins(), st.data())
def test_pulled_are_the_answers_inside_the_window(
    case: tuple[str, Events], data: st.DataObject
) -> None:
    text, events = case
    parsed = parse(text)
    if parsed.full:
        return
    at = data.draw(cuts(len(events)))
    session = query(text).session(keep=True)
    read, pushed = 0, set[tuple[Any, ...]]()
    for piece in pieces(events, at, needs_time(text)):
        pushed |= tuples(session.push(piece)).keys()
        session.forget()
        read += piece.num_rows
        seen = events[:read]
        pulled = tuples(session.pull())
        assert pulled == conjunctive_oracle.project_matches(
            parsed, matches_inside(parsed, seen), seen
        )
        assert pulled.keys() <= pushed
        if parsed.within is None:
            assert pulled.keys() == pushed


def matches_inside(parsed: ConjunctiveQuery, events: Events) -> list[oracle.OracleMatch]:
    """The matches that start inside the window that WITHIN sets, ending now."""
    pattern = lower(parsed)
    matches = oracle.evaluate(pattern, events)
    return conjunctive_oracle.keep_inside(replace(pattern, within=parsed.within), matches, events)


def test_a_condition_on_times_is_no_window_to_pull_from() -> None:
    session = query(THEOREM_1).session(keep=True)
    session.push(HIDDEN)
    session.push([{"type": "r", "ts": 100, "a": 1, "b": None}])
    session.forget()
    assert tuples(session.pull()) == {(9, 7): 4}
    within = query(THEOREM_1 + " WITHIN 10 MILLISECONDS").session(keep=True)
    within.push(HIDDEN)
    within.push([{"type": "r", "ts": 14, "a": 1, "b": None}])
    assert tuples(within.pull()) == {(9, 7): 4}
    within.push([{"type": "r", "ts": 15, "a": 1, "b": None}])
    assert tuples(within.pull()) == {}
    smaller = query(THEOREM_1.replace("< 5", "< 5 MILLISECONDS") + " WITHIN 10 MILLISECONDS")
    session = smaller.session(keep=True)
    session.push(HIDDEN)
    session.push([{"type": "r", "ts": 14, "a": 1, "b": None}])
    session.forget()
    assert tuples(session.pull()) == {(9, 7): 4}
    session.push([{"type": "r", "ts": 15, "a": 1, "b": None}])
    assert tuples(session.pull()) == {}


def test_missing_values_may_be_in_an_answer_once() -> None:
    nan = float("nan")
    events = [
        {"type": "T", "a": 1, "b": None},
        {"type": "T", "a": 2, "b": None},
        {"type": "T", "a": 3, "b": nan},
        {"type": "T", "a": 4, "b": nan},
    ]
    assert [str(each.values) for each in query("Q(y) <- T(a: x, b: y)").run(events)] == [
        "{'y': None}",
        "{'y': nan}",
    ]


def test_numbers_that_are_equal_are_one_answer() -> None:
    session = query("Q(y) <- T(a: x, b: y)").session()
    assert session.push([{"type": "T", "a": 1, "b": 1}]).count() == 1
    assert session.push([{"type": "T", "a": 1, "b": 1.0}]).count() == 0
    assert session.push([{"type": "T", "a": 1, "b": 1.5}]).count() == 1


def test_values_that_change_their_type_are_pulled_as_one_column() -> None:
    session = query("Q(y) <- T(a: x, b: y)").session(keep=True)
    for value in (1, 2.5, None, "text"):
        session.push([{"type": "T", "a": 1, "b": value}])
    pulled = session.pull()
    assert isinstance(pulled, Answers)
    assert pulled.to_arrow().column("y").to_pylist() == ["1", "2.5", None, "text"]


def test_a_head_without_variables_asks_whether_there_is_a_match() -> None:
    asked = query("Q() <- T(a: x), S(a: x)")
    events = [{"type": "T", "a": 1}, {"type": "S", "a": 2}, {"type": "S", "a": 1}] * 2
    assert list(asked.run(events[:2])) == []
    assert list(asked.run(events)) == [Answer({}, end=2, end_ts=2)]


def test_an_answer_that_comes_back_into_the_window_is_not_pushed_again() -> None:
    session = query("Q(x) <- T(a: x, b: y) WITHIN 1 EVENTS").session(keep=True)
    one, other = {"type": "T", "a": 1, "b": 1}, {"type": "T", "a": 2, "b": 1}
    steps = [one, other, other, one]
    pushed = [sorted(tuples(session.push([event]))) for event in steps]
    assert pushed == [[(1,)], [(2,)], [], []]
    assert sorted(tuples(session.pull())) == [(1,), (2,)]


def test_a_budget_guards_what_is_enumerated_in_vain() -> None:
    asked = query("Q(x) <- T(a: x, b: y), S(a: x, b: z)")
    events = [{"type": name, "a": 1, "b": i} for name in "TS" for i in range(40)]
    assert tuples(asked.run(events)) == {(1,): 40}
    with pytest.raises(cernis.BudgetError, match="budget of 1,000"):
        asked.run(events, budget=1000)
    found = asked.run(events, budget=1000, on_budget="partial")
    assert tuples(found) == {(1,): 40}
    assert found.partial
    collapsed = query("Q(x) <- T(a: x, b: y)@t1, S(a: x, b: z)@t2, t1 < t2")
    assert tuples(collapsed.run(events, budget=10)) == {(1,): 40}


def test_a_state_with_another_head_is_refused() -> None:
    frozen = query(THEOREM_1).session().freeze()
    with pytest.raises(cernis.StateError, match="frozen by another query"):
        query(THEOREM_1.replace("Q(y, t3)", "Q(t3)")).thaw(frozen)


@pytest.mark.parametrize(
    ("times", "found"),
    [
        (pa.array([0, 4, 5], pa.int64()), 1),
        (pa.array([0.0, 4.75, 5.0]), 1),
        (pa.array([0, 4, 5], pa.timestamp("s")), 1),
        (pa.array([0, 4, 4], pa.timestamp("us")), 2),
        (pa.array(["1970-01-01T00:00:00", "1970-01-01T00:00:01", "1970-01-01T00:00:02"]), 0),
        (None, 2),
    ],
)
def test_a_plain_number_counts_the_unit_of_the_time_column(
    times: pa.Array | None, found: int
) -> None:
    columns = {"type": ["r", "s", "s"]} | ({} if times is None else {"ts": times})
    asked = query("Q(t1, t2) <- r()@t1, s()@t2, t1 < t2, t2 - t1 < 5")
    for unit in ("ms", "s"):
        assert asked.run(pa.table(columns), time_unit=unit).count() == found


# ------------------------------------------------------------------- pull


def check_pull(pattern: Pattern, events: Events, at: Sequence[int]) -> None:
    """What is pulled after each piece is what the oracle has inside the window."""
    timed = True if pattern.within and pattern.within.unit is Unit.TIME else None
    session = cernis.query(pattern).session(keep=True)
    read = 0
    for piece in pieces(events, at, timed):
        session.push(piece)
        session.forget()
        read += piece.num_rows
        seen = events[:read]
        expected = oracle.evaluate(pattern, seen)
        if read:
            expected = conjunctive_oracle.keep_inside(pattern, expected, seen)
        pulled = session.pull()
        assert pulled.count() == len(expected)
        if not counts_only(pattern):
            assert sorted(map(comparable_match, pulled)) == sorted(map(comparable_match, expected))


one_answer = {
    # the matches of LONGEST come when they are certain, which the last push cannot know
    "strategies": tuple(s for s in Strategy if s not in (Strategy.ANY, Strategy.LONGEST)),
    "limit": False,
    "disorder": False,
    "nan": False,
}


@some
@given(cases(**one_answer), st.data())
def test_pulled_are_the_matches_inside_the_window(case: Case, data: st.DataObject) -> None:
    pattern, events = case
    check_pull(pattern, events, data.draw(cuts(len(events))))


@some
@given(cases(**one_answer, windows=tuple(Unit)), st.data())
def test_what_has_left_the_window_is_not_pulled(case: Case, data: st.DataObject) -> None:
    pattern, events = case
    check_pull(pattern, events, data.draw(cuts(len(events))))


@some
@given(cases(**one_answer, families=FAMILIES, size=7, events=8), st.data())
def test_pulled_are_the_matches_of_events_that_are_compared(
    case: Case, data: st.DataObject
) -> None:
    pattern, events = case
    check_pull(pattern, events, data.draw(cuts(len(events))))


@some
@given(joins(projections=False), st.data())
def test_pulled_are_the_matches_of_a_full_conjunctive_query(
    case: tuple[str, Events], data: st.DataObject
) -> None:
    text, events = case
    session = query(text).session(keep=True)
    read = 0
    for piece in pieces(events, data.draw(cuts(len(events))), needs_time(text)):
        session.push(piece)
        session.forget()
        read += piece.num_rows
        expected = matches_inside(parse(text), events[:read])
        assert sorted(map(comparable_match, session.pull())) == sorted(
            map(comparable_match, expected)
        )


def test_matches_that_have_left_the_window_are_let_go_of(monkeypatch: Any) -> None:
    monkeypatch.setattr(history, "_TRIM_EVERY", 8)
    text = "SELECT * FROM S WHERE A AS a ; B AS b PARTITION BY [k] WITHIN 4 EVENTS"
    session = cernis.query(text).session(keep=True)
    for turn in range(40):
        session.push([{"type": name, "k": turn % 3} for name in "AB"])
        session.forget()
    (kept,) = session.pipeline.stages.choosing
    assert isinstance(kept, history.MatchHistory)
    assert kept._number <= 16
    assert sum(len(batch) for batch in session.store.stored_batches()) <= 20
    assert session.pull().count() == 9


def test_partitions_are_renumbered_with_what_is_kept(monkeypatch: Any) -> None:
    monkeypatch.setattr("cernis.run.stages.pipeline._FORGET_KEYS", 0)
    text = "SELECT * FROM S WHERE A AS a ; B AS b PARTITION BY [k] WITHIN 2 MILLISECONDS"
    session = cernis.query(text).session(keep=True)
    ended = []
    for turn in range(30):
        events = [{"type": name, "k": turn, "ts": turn} for name in "AB"]
        session.push(events)
        session.forget()
        ended.append({(m.partition["k"], m.end_ts) for m in session.pull()})
    assert ended[-1] == {(27, 27), (28, 28), (29, 29)}
    assert session.pipeline.keys is not None
    assert len(session.pipeline.keys) < 20


def test_a_session_that_keeps_nothing_cannot_be_pulled() -> None:
    session = cernis.query("SELECT * FROM S WHERE A AS a").session()
    with pytest.raises(cernis.StateError, match="open the session with keep=True"):
        session.pull()


def test_a_session_that_keeps_its_matches_cannot_be_frozen() -> None:
    session = cernis.query("SELECT * FROM S WHERE A AS a").session(keep=True)
    with pytest.raises(cernis.StateError, match="cannot be frozen"):
        session.freeze()


def test_what_was_pulled_stays_as_it_was() -> None:
    session = cernis.query("SELECT * FROM S WHERE A AS a ; B AS b WITHIN 1 EVENTS").session(
        keep=True
    )
    session.push([{"type": "A"}, {"type": "B"}])
    pulled = session.pull()
    session.push([{"type": "C"}] * 5)
    session.forget()
    assert session.pull().count() == 0
    assert [match.vars for match in pulled] == [{"a": [0], "b": [1]}]


def test_a_set_that_changes_keeps_the_rules_that_stay() -> None:
    texts = {f"r{i}": f"SELECT * FROM S WHERE A AS a FILTER a[x = {i}]" for i in range(3)}
    before = cernis.rules(texts)
    after = cernis.rules({**texts, "r1": "SELECT * FROM S WHERE B"})
    same = [one is other for one, other in zip(before.rules, after.rules, strict=True)]
    assert same == [True, False, True]
    del before, after
    fresh = cernis.rules(texts)
    assert fresh.rules[1].text == texts["r1"]
