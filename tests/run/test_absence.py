"""WITHOUT … FOR and WITHOUT … BEFORE against the oracle, in batches, frozen, and at deadlines."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cernis
from cernis.cli.main import main
from cernis.pattern.query import Consume, Strategy, counts_only
from cernis.run.session import describe_waiting
from cernis.run.stages.absence.decide import Absences
from tools.cases.differential import assert_agrees, assert_counts_agree
from tools.cases.grammar import split_batches as split
from tools.cases.strategies import cases, cuts
from tools.cases.tables import make_table

few = max(20, settings.default.max_examples // 5)
many = settings(max_examples=few, suppress_health_check=list(HealthCheck))
Features = dict[str, Any]
NO_CONSUMPTION: Features = {"consume": (Consume.NONE,)}
FREE: Features = {"after": ("free",), **NO_CONSUMPTION}
KINDS: list[Features] = [
    {"after": ("free",)},
    {"after": ("equal",)},
    {"after": ("residual",)},
    {"before": ("free",)},
    {"before": ("equal", "residual")},
    {"after": ("free", "equal"), "before": ("free", "equal")},
]


def compare(pattern: Any, events: Any, parts: list[Any], **options: Any) -> None:
    if counts_only(pattern):
        counted = [row for part in parts for row in part.counts().to_pylist()]
        found = [(row["end"], row["count"]) for row in counted]
        assert_counts_agree(pattern, events, found, **options)
    else:
        assert_agrees(pattern, events, [match for part in parts for match in part], **options)


def is_timed(events: Any) -> bool:
    return not events or any("ts" in event for event in events)


def check_run(case: Any) -> None:
    pattern, events = case
    table = make_table(events, timed=is_timed(events))
    query = cernis.query(pattern)
    found, complete = query.run(table), query.run(table, complete=True)
    compare(pattern, events, [found])
    compare(pattern, events, [complete], complete=True)
    check_note(pattern, found, complete)


def check_note(pattern: Any, found: Any, complete: Any) -> None:
    """A note says how many matches are left out: those of the complete input and no others."""
    notes = [note for note in found.notes if "left out" in note]
    left = complete.count() - found.count()
    if pattern.strategy is Strategy.LONGEST and notes:
        assert notes == [describe_waiting()]
    elif pattern.strategy is not Strategy.LONGEST:
        assert notes == ([describe_waiting(left)] if left else [])
    assert not any("left out" in note for note in complete.notes)


def test_matches_whose_deadline_lies_after_the_last_event_are_left_out_with_a_note(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "S.csv"
    path.write_text("type,ts\nA,0\nB,1000\nA,9000\nA,9500\n")
    text = "SELECT * FROM S WHERE A AS a WITHOUT B FOR 2 SECONDS"
    note = (
        "2 matches are left out: their deadline lies after the last event; --complete (in Python "
        "complete=True) says that nothing follows, and reports them"
    )
    query = cernis.query(text)
    assert query.run(path).notes == (note,)
    session = query.session()
    assert not session.push(path).notes
    assert session.finish().notes == session.finish().notes == (note,)
    assert cernis.rules(f"RULE r AS {text}").run(path)["r"].notes == (note,)
    for command in ([text], [text, "--count"], [f"RULE r AS {text}"]):
        assert main(["run", *command, "--events", str(path)]) == 0
        assert capfd.readouterr().err == f"note: {note}\n"
        assert main(["run", *command, "--events", str(path), "--complete"]) == 0
        assert capfd.readouterr().err == ""


def test_what_counts_the_matches_that_are_left_out_says_that_there_are_some() -> None:
    events = [{"type": "A", "ts": 0, "x": 1}, {"type": "A", "ts": 9000, "x": 1}]
    note = (
        "some matches are left out: their deadline lies after the last event; --complete (in "
        "Python complete=True) says that nothing follows"
    )
    for text in (
        "SELECT COUNT(*) AS n FROM S WHERE A WITHOUT B FOR 2 SECONDS GROUP BY EVERY 1 HOUR",
        "SELECT LONGEST * FROM S WHERE A+ WITHOUT B FOR 2 SECONDS",
        "SELECT * FROM S WHERE A WITHOUT B FOR 2 SECONDS ORDER BY A[x] LIMIT 1 OVERALL",
        "SELECT * FROM S WHERE A WITHOUT B FOR 2 SECONDS ORDER BY A[x] LIMIT 1 EVERY 1 HOUR",
    ):
        assert note in cernis.query(text).run(events).notes
        assert note not in cernis.query(text).run(events, complete=True).notes


def test_longest_and_the_best_of_an_interval_leave_nothing_out_at_the_end() -> None:
    events = [{"type": "A", "ts": ts, "x": 1} for ts in (0, 9000)]
    for text in (
        "SELECT LONGEST * FROM S WHERE A+",
        "SELECT * FROM S WHERE A ORDER BY A[x] LIMIT 9 EVERY 1 HOUR",
    ):
        found = cernis.query(text).run(events)
        assert found.count()
        assert not found.notes


@pytest.mark.parametrize("links", KINDS, ids=str)
@many
@given(data=st.data())
def test_what_must_be_absent_agrees_with_the_oracle(links: Features, data: st.DataObject) -> None:
    check_run(data.draw(cases(**NO_CONSUMPTION, **links)))


@many
@given(case=cases(**FREE, binary=True, previous=True, partition_by_inside=True, size=7, events=7))
def test_it_agrees_where_events_are_compared(case: Any) -> None:
    check_run(case)


@many
@given(case=cases(linked_unless=True, size=7, events=8))
def test_conditions_of_unless_on_the_match_agree_with_the_oracle(case: Any) -> None:
    check_run(case)


def check_batches(case: Any, at: list[int], freezes: bool) -> None:
    """Push in batches; the order and the matches are those of one event at a time."""
    pattern, events = case
    events = sorted(events, key=lambda event: event.get("ts", 0))
    whole = make_table(events, timed=is_timed(events))
    query = cernis.query(pattern)
    session, parts = query.session(complete=True), []
    for piece in split(range(len(events)), at):
        parts.append(session.push(whole.slice(piece[0] if piece else 0, len(piece))))
        session.forget()
        if freezes:
            session = query.thaw(session.freeze(), complete=True)
    compare(pattern, events, parts)
    parts.append(session.finish())
    compare(pattern, events, parts, complete=True)
    singly = query.session(complete=True)
    ones = [singly.push(whole.slice(i, 1)) for i in range(len(events))] + [singly.finish()]
    if not counts_only(pattern) and pattern.limit is None:
        assert [m.end for part in parts for m in part] == [m.end for one in ones for m in one]


def with_cuts(**features: Any) -> st.SearchStrategy[Any]:
    return cases(**NO_CONSUMPTION, **features, disorder=False).flatmap(
        lambda case: st.tuples(st.just(case), cuts(len(case[1])))
    )


@pytest.mark.parametrize("freezes", [False, True])
@pytest.mark.parametrize("links", KINDS, ids=str)
@many
@given(data=st.data())
def test_batches_and_freezing_change_nothing(
    links: Features, freezes: bool, data: st.DataObject
) -> None:
    check_batches(*data.draw(with_cuts(**links, binary=True, previous=True)), freezes)


@pytest.mark.parametrize("forget", [False, True])
@many
@given(data=st.data())
def test_forgetting_all_that_can_be_after_each_batch_changes_nothing(
    forget: bool, data: st.DataObject
) -> None:
    links: Features = {"after": ("free", "equal"), "before": ("free", "equal")}
    drawn = data.draw(with_cuts(**links, forget=forget))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cernis.run.stages.pipeline._FORGET_KEYS", -100)
        patch.setattr("cernis.run.stages.absence.links._SPARE", -100)
        patch.setattr("cernis.run.stages.absence.following._SHRINK", 0)
        patch.setattr("cernis.engine.deadlines._FIRST", 1)
        check_batches(*drawn, freezes=True)


@pytest.mark.parametrize("freezes", [False, True])
@many
@given(drawn=with_cuts(after=("free",), forget=False))
def test_compact_sets_wait_as_they_are(freezes: bool, drawn: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cernis.run.stages.absence.decide._FEW", 0)
        check_batches(*drawn, freezes)


# ------------------------------------------------------------------ by hand

ORDERS = [
    {"type": "ORDER", "id": 1, "ts": 0},
    {"type": "ORDER", "id": 2, "ts": 10},
    {"type": "PAY", "order": 1, "ts": 500},
    {"type": "ORDER", "id": 3, "ts": 900},
    {"type": "PAY", "order": 3, "ts": 1500},
    {"type": "NOTE", "ts": 2000},
]
SCHEMA = pa.schema({"type": "string", "id": "int64", "order": "int64", "ts": "int64"})
UNPAID = "SELECT o[id] AS id FROM S WHERE ORDER AS o WITHOUT (PAY AS p FILTER p[order] = o[id]) "


def test_a_match_is_pushed_once_when_an_event_is_later_than_its_deadline() -> None:
    session, table = (
        cernis.query(UNPAID + "FOR 1 SECOND").session(),
        pa.Table.from_pylist(ORDERS, SCHEMA),
    )
    pushed = [[m.values["id"] for m in session.push(table.slice(i, 1))] for i in range(6)]
    assert pushed == [[], [], [], [], [2], []]


def test_the_deadline_stands_beside_the_interval() -> None:
    found = cernis.query(UNPAID + "FOR 1 SECOND").run(ORDERS)
    assert [(m.end_ts, m.deadline_ts) for m in found] == [(10, 1010)]
    assert found.to_arrow().column_names == [
        "start",
        "end",
        "start_ts",
        "end_ts",
        "deadline_ts",
        "id",
    ]
    assert found.to_arrow()["deadline_ts"].to_pylist() == [1010]
    table = pa.table({"type": ["A", "X"], "ts": [datetime(2024, 1, 2), datetime(2024, 1, 3)]})
    (match,) = cernis.query("SELECT * FROM S WHERE A WITHOUT B FOR 1 HOUR").run(table)
    assert match.deadline_ts == datetime(2024, 1, 2, 1)


def test_lines_have_the_deadline(tmp_path: Path) -> None:
    cernis.query(UNPAID + "FOR 1 SECOND").run(ORDERS).write_jsonl(tmp_path / "found.jsonl")
    (line,) = map(json.loads, (tmp_path / "found.jsonl").read_text().splitlines())
    assert line["deadline_ts"] == 1010


def test_a_deadline_that_counts_events_is_the_time_of_that_event() -> None:
    query = cernis.query("SELECT * FROM S WHERE ORDER AS o WITHOUT PAY FOR 1 EVENTS")
    found = query.run(ORDERS, complete=True)
    assert [(m.end_ts, m.deadline_ts) for m in found] == [(0, 10)]
    last = query.run(ORDERS[:4], complete=True)
    assert [(m.end_ts, m.deadline_ts) for m in last] == [(0, 10), (900, None)]


def test_pull_has_the_matches_that_are_certain() -> None:
    session = cernis.query(UNPAID + "FOR 1 SECOND").session(keep=True)
    table = pa.Table.from_pylist(ORDERS, SCHEMA)
    session.push(table.slice(0, 4))
    assert not session.pull()
    session.push(table.slice(4))
    assert [m.values["id"] for m in session.pull()] == [2]


def test_groups_of_matches_that_wait() -> None:
    text = "SELECT COUNT(*) FROM S WHERE ORDER WITHOUT PAY FOR 1 SECOND GROUP BY EVERY 1 SECOND"
    query = cernis.query(text)
    events = [{"type": "ORDER", "ts": t} for t in (0, 1000, 1900, 2500)] + [
        {"type": "X", "ts": 9000}
    ]
    whole = query.run(events).to_arrow().to_pylist()
    assert [(row["from_ts"], row["COUNT(*)"]) for row in whole] == [(0, 1), (1000, 2), (2000, 1)]
    session = query.session()
    parts = [session.push([event]).to_arrow().to_pylist() for event in events]
    rows = [row for part in [*parts, session.finish().to_arrow().to_pylist()] for row in part]
    assert [(row["from_ts"], row["COUNT(*)"]) for row in rows] == [(0, 1), (1000, 2), (2000, 1)]


def test_state_is_bounded_by_what_waits() -> None:
    """Paid orders leave the state, with their values; unpaid ones stay until their deadline."""
    session = cernis.query(UNPAID + "FOR 10 SECONDS").session()
    for begin in range(0, 40_000, 10_000):
        ids = list(range(begin, begin + 10_000))
        events = pa.table(
            {
                "type": ["ORDER", "PAY"] * 10_000,
                "id": [i for n in ids for i in (n, None)],
                "order": [i for n in ids for i in (None, n if n % 100 else None)],
                "ts": [n for n in ids for _ in range(2)],
            }
        )
        session.push(events)
        session.forget()
    absence = session.pipeline.stages.opening
    assert isinstance(absence, Absences)
    assert absence.after is not None
    assert len(absence.after.deadlines) == 100
    assert len(absence.after.waiting) == 100


FORGETS = "FORGET AFTER 1 HOUR"


@pytest.mark.parametrize(
    ("what", "guard", "side"), [("ORDER", "PAY", "FOR"), ("PAY", "ORDER", "BEFORE")]
)
@pytest.mark.parametrize("split", ["PARTITION BY [k]", FORGETS, f"PARTITION BY [k] {FORGETS}"])
@pytest.mark.parametrize("length", ["1 SECOND", "1 EVENTS"])
def test_a_partition_is_known_while_a_value_waits_in_it(
    what: str, guard: str, side: str, split: str, length: str
) -> None:
    absent = f"WITHOUT ({guard} AS g FILTER g[v] = m[v]) {side} {length}"
    query = cernis.query(f"SELECT * FROM S WHERE {what} AS m {absent} {split}")
    session = query.session(complete=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cernis.run.stages.pipeline._FORGET_KEYS", -100)
        for event in ({"type": "ORDER", "ts": 10}, {"type": "PAY", "ts": 20}):
            assert not session.push([{**event, "k": "a", "v": 1}])
            session.forget()
            session = query.thaw(session.freeze(), complete=True)
    assert not session.finish()


def test_a_budget_bounds_the_pairs() -> None:
    text = "SELECT * FROM S WHERE ORDER AS o WITHOUT (PAY AS p FILTER p[a] > o[a]) FOR 1 DAY"
    times = [("ORDER", n) for n in range(9)] + [("PAY", n) for n in range(9, 18)]
    events = [{"type": kind, "a": 0, "ts": n} for kind, n in times]
    query = cernis.query(text)
    assert len(query.run(events, complete=True, budget=81)) == 9
    with pytest.raises(cernis.BudgetError):
        query.run(events, budget=80)
    partial = query.run(events, complete=True, budget=80, on_budget="partial")
    assert partial.partial
    assert not partial


def test_explain_says_what_waits() -> None:
    text = UNPAID + "FOR 1 HOUR WITHOUT (BAN AS b FILTER b[user] != o[user]) BEFORE 3 EVENTS"
    report = str(cernis.query(text).explain())
    assert "p[order] = o[id]: by an index on equal values" in report
    assert "b[user] != o[user]: on each pair, within the budget" in report
    assert "in the 1 hour after a match: a match waits for so long" in report


def test_the_command_line_says_that_the_input_is_complete(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events = tmp_path / "orders.jsonl"
    events.write_text("\n".join(map(json.dumps, ORDERS)))
    run = ["run", UNPAID + "FOR 1 MINUTE", "--events", f"S={events}", "--count"]
    assert main(run) == 0
    assert capsys.readouterr().out.split() == ["0"]
    assert main([*run, "--complete"]) == 0
    assert capsys.readouterr().out.split() == ["1"]


@pytest.mark.parametrize(
    ("clauses", "expected"),
    [
        ("A ; B WITHOUT C FOR 1 HOUR PARTITION BY [k]", "keyed: by k"),
        ("A ; B WITHOUT C FOR 1 HOUR WITHIN 1 HOUR", "sliced: overlapping slices of time"),
        ("A WITHOUT C BEFORE 1 HOUR", "sliced: overlapping slices of time"),
        ("A WITHOUT C FOR 5 EVENTS", "sliced: overlapping slices of positions"),
        ("A ; B WITHOUT C FOR 5 EVENTS", "single: WITHOUT looks beyond a match"),
        ("A ; B WITHOUT C FOR 1 HOUR", "single: WITHOUT looks beyond a match"),
    ],
)
def test_without_is_spread_by_keys_or_by_time(clauses: str, expected: str) -> None:
    assert expected in str(cernis.query(f"SELECT * FROM S WHERE {clauses}").explain())


def test_an_unless_that_excludes_nothing_is_noted() -> None:
    found = cernis.query("SELECT * FROM S WHERE ORDER AS o UNLESS PAY").run(ORDERS)
    (note,) = found.notes
    assert "UNLESS PAY excludes nothing: nothing lies inside a single event" in note
    assert "help: write WITHOUT PAY FOR a time" in note


def test_a_type_that_never_comes_is_noted() -> None:
    found = cernis.query("SELECT * FROM S WHERE ORDER WITHOUT PAYS FOR 1 SECOND").run(ORDERS)
    (note,) = found.notes
    assert "no event has the type 'PAYS'" in note
    assert "help: did you mean 'PAY'?" in note


def test_what_came_before_the_start_of_a_partial_match_survives_freezing() -> None:
    query = cernis.query(
        "SELECT * WHERE A AS a ; B AS b WITHOUT (C AS c FILTER c[v] < b[v]) BEFORE 4 EVENTS"
        " WITHIN 9 EVENTS"
    )
    events = [{"type": e, "v": v} for e, v in zip("CAXXXXB", [1, 0, 0, 0, 0, 0, 3], strict=True)]
    assert list(query.run(events)) == []
    session = query.session()
    session.push(events[:6])
    assert list(query.thaw(session.freeze()).push(events[6:])) == []
