"""Rule sets: in one pass what each rule finds alone; their index, their texts, their mistakes."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cernis
from cernis.cli import run
from cernis.cli.main import main
from cernis.cli.streams.rule_watch import RuleWatch
from cernis.errors import BudgetError, CernisError, DataError, StateError
from cernis.languages.ceql.parse import use_time_zone
from cernis.languages.ceql.rules import parse_rules
from cernis.pattern.query import Consume, Pattern, Strategy, counts_only
from cernis.pattern.simple_tests import ConstantTest
from cernis.plan.equalities import find_equalities, why_whole
from cernis.plan.plan import Plan
from cernis.run import rule_files
from cernis.run.rules.rule import RuleSetError
from cernis.run.rules.session import RuleSession
from cernis.run.session import RunOptions
from cernis.schema import Schema
from tools.cases.differential import assert_agrees, assert_counts_agree
from tools.cases.grammar import split_batches
from tools.cases.strategies import cases, cuts, streams
from tools.cases.tables import make_table

Events = Sequence[dict[str, Any]]

some = settings(
    max_examples=max(40, settings.default.max_examples // 2),
    suppress_health_check=list(HealthCheck),
)
CHOOSING = (Strategy.ALL, Strategy.NEXT, Strategy.LAST, Strategy.MAX, Strategy.LONGEST)


def compare(pattern: Pattern, events: Events, found: Sequence[Any]) -> None:
    if counts_only(pattern):
        counted = [row for part in found for row in part.counts().to_pylist()]
        assert_counts_agree(pattern, events, [(row["end"], row["count"]) for row in counted])
    else:
        assert_agrees(pattern, events, [match for part in found for match in part])


@st.composite
def rule_sets(draw: st.DrawFn, **features: Any) -> tuple[dict[str, Pattern], Events]:
    """Draw some rules, and a stream with all attributes."""
    wanted = {
        "strategies": CHOOSING,
        "consume": tuple(Consume),
        "partition": True,
        "binary": True,
        "untimed": False,
        "size": 5,
        **features,
    }
    rules = draw(st.lists(cases(**wanted), min_size=1, max_size=4))
    events = draw(streams(None, untimed=False, events=9, disorder=False))
    timed = [{"ts": i, **event} for i, event in enumerate(events)]
    return {f"r{i}": pattern for i, (pattern, _) in enumerate(rules)}, timed


@some
@given(rule_sets())
def test_each_rule_finds_what_the_oracle_finds(case: tuple[dict[str, Pattern], Events]) -> None:
    patterns, events = case
    found = cernis.rules(patterns).run(make_table(events, timed=True))
    for name, pattern in patterns.items():
        compare(pattern, events, [found[name]])


@some
@given(st.data())
def test_batches_restarts_and_forgetting_change_nothing(data: st.DataObject) -> None:
    patterns, events = data.draw(rule_sets())
    events = sorted(events, key=lambda event: event["ts"])
    rules = cernis.rules(patterns)
    session = rules.session()
    whole, parts = make_table(events, timed=True), []
    for piece in split_batches(range(len(events)), data.draw(cuts(len(events)))):
        parts.append(session.push(whole.slice(piece[0] if piece else 0, len(piece))))
        if data.draw(st.booleans()):
            session = rules.thaw(session.freeze())
        if data.draw(st.booleans()):
            session.forget()
    parts.append(session.finish())
    for name, pattern in patterns.items():
        compare(pattern, events, [part[name] for part in parts])


def on_hosts(number: int) -> dict[str, str]:
    return {
        f"host {i}": "SELECT * FROM S WHERE (LOGIN AS a ; FAIL AS b) "
        f"FILTER a[host = 'h{i}'] AND b[host = 'h{i}'] WITHIN 5 SECONDS"
        for i in range(number)
    }


def log(number: int, hosts: int) -> pa.Table:
    kinds = ["LOGIN", "FAIL", "OTHER"]
    return pa.table(
        {
            "type": [kinds[i // hosts % 3] for i in range(number)],
            "host": [f"h{i % hosts}" for i in range(number)],
            "ts": list(range(number)),
        }
    )


def test_an_event_is_read_by_the_rules_of_its_constant_alone() -> None:
    rules = cernis.rules(on_hosts(20))
    session = rules.session()
    found = session.collect(log(600, 20))
    assert [each.events for each in session.metrics().values()] == [20] * 20
    alone = {rule.name: rule.query.run(log(600, 20)) for rule in rules}
    for name, matches in found.items():
        assert matches.count() == alone[name].count() > 0
        assert matches.to_arrow().equals(alone[name].to_arrow())


def test_the_size_of_chunks_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rules, events = cernis.rules(on_hosts(5)), log(600, 5)
    batches = pa.RecordBatchReader.from_batches(events.schema, events.to_batches(max_chunksize=40))
    whole = rules.run(events)
    monkeypatch.setattr("cernis.run.rules.reading.read_chunk.CHUNK", 50)
    monkeypatch.setattr("cernis.run.rules.reading.read_chunk.CHUNK_PER_RULE", 20)
    monkeypatch.setattr("cernis.run.rules.reading.read_chunk.CHUNK_BYTES", 2000)
    for name, found in rules.run(batches).items():
        assert found.to_arrow().equals(whole[name].to_arrow())
        assert found.count() > 0


def test_streams_and_tables_belong_to_rules() -> None:
    rules = cernis.rules(
        """
        RULE first AS SELECT * FROM S WHERE A;
        RULE both AS SELECT * FROM S, T WHERE S>A ; T>A
        RULE joined AS SELECT * FROM T JOIN names ON k = names.id WHERE A
        """
    )
    streams_ = {
        "S": [{"type": "A", "k": 1, "ts": 1}, {"type": "A", "k": 2, "ts": 3}],
        "T": [{"type": "A", "k": 1, "ts": 2}, {"type": "A", "k": 3, "ts": 4}],
    }
    found = rules.run(streams_, tables={"names": [{"id": 3}]})
    assert {name: matches.count() for name, matches in found.items()} == {
        "first": 2,
        "both": 3,
        "joined": 1,
    }
    assert [(match.start, match.end) for match in found["joined"]] == [(3, 3)]


def test_a_time_that_a_text_denotes_is_not_looked_up() -> None:
    text = "SELECT * FROM S WHERE A AS a FILTER a[at = '2024-01-01'] WITHIN 1 SECOND"
    events = pa.table(
        {"type": ["A", "A"], "ts": [1, 2], "at": pa.array([19723, 19724], pa.date32())}
    )
    (found,) = cernis.rules({"r": text}).run(events).values()
    assert found.count() == cernis.query(text).run(events).count() == 1


@pytest.mark.parametrize(
    ("formula", "equalities"),
    [
        ("A AS a FILTER a[x = 1]", {("x", 1)}),
        ("A AS a FILTER a[x IN {1, 2}] AND a[y > 3]", {("x", 1), ("x", 2)}),
        ("A AS a FILTER a[x > 1]", {(None, "A")}),
        ("A AS a ; B AS b FILTER a[x = 'u']", {("x", "u"), (None, "B")}),
        ("A AS a FILTER a[x = 1 OR y = 2]", {("x", 1), ("y", 2)}),
    ],
)
def test_a_rule_is_found_by_the_constants_that_it_compares(
    formula: str, equalities: set[tuple[str | None, Any]]
) -> None:
    plan = cernis.query(f"SELECT * FROM S WHERE {formula}").plan
    assert why_whole(plan) == ""
    assert find_equalities(plan) == {ConstantTest(*each) for each in equalities}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("A : B", "':', STRICT and NOT look at what lies between"),
        ("A ; B WITHIN 5 EVENTS", "the window is not in time"),
        ("A WITHOUT B FOR 1 SECOND", "any event tells the time by which matches are certain"),
        ("* AS x", "a condition compares nothing with a constant, and names no type"),
    ],
)
def test_a_rule_reads_every_event_where_others_count(text: str, why: str) -> None:
    assert why_whole(cernis.query(f"SELECT * FROM S WHERE {text}").plan) == why


def test_explain_says_what_is_shared_and_what_is_expensive() -> None:
    rules = cernis.rules({**on_hosts(3), "next": "SELECT * FROM S WHERE A : B"})
    assert rules.explain().splitlines() == [
        "rules        4",
        "routed       3 rules read the events that can move them",
        "             by look-ups of host (3 constants)",
        "whole        1 rule reads every event",
        "             next: ':', STRICT and NOT look at what lies between",
        "classes      4 unary",
    ]
    residual = {"rises": "SELECT * FROM S WHERE A AS a ; B AS b FILTER a[x] * b[x] > 9"}
    events = [{"type": "A", "x": 1, "ts": 1}, {"type": "B", "x": 10, "ts": 2}]
    lines = cernis.rules(residual).explain(events).splitlines()
    why = "some conditions are checked on candidates, whose number has no bound"
    assert f"             rises: {why}" in lines
    costly = lines.index("costly       the rules that took most of the time")
    assert lines[costly + 1].startswith("             rises: 100%, 2 events, 1 match, ")


@some
@given(st.data())
def test_rules_that_come_and_go_find_what_they_find_alone(data: st.DataObject) -> None:
    """Each rule, for as long as its text stands, is a session of its own over these events."""
    known, events = data.draw(rule_sets(strategies=(Strategy.ALL, Strategy.NEXT)))
    whole = make_table(sorted(events, key=lambda event: event["ts"]), timed=True)
    names = data.draw(st.sets(st.sampled_from([*known]), min_size=1))
    session = cernis.rules({name: known[name] for name in sorted(names)}).session()
    alone: dict[str, tuple[Any, int]] = {}
    for piece in split_batches(range(whole.num_rows), data.draw(cuts(whole.num_rows))):
        part = whole.slice(piece[0] if piece else 0, len(piece))
        for name in names:
            if name not in alone:
                alone[name] = cernis.query(known[name]).session(), piece[0] if piece else 0
        found = session.push(part)
        for name in names:
            own, first = alone[name]
            wanted = [(m.start + first, m.end + first) for m in own.push(part)]
            assert sorted((m.start, m.end) for m in found[name]) == sorted(wanted)
        after = data.draw(st.sets(st.sampled_from([*known]), min_size=1))
        changes = session.update(cernis.rules({name: known[name] for name in sorted(after)}))
        assert (changes.kept, changes.replaced) == (tuple(sorted(names & after)), ())
        alone = {name: state for name, state in alone.items() if name in after}
        names = after
        if data.draw(st.booleans()):
            session = session.rules.thaw(session.freeze())


def test_a_rule_with_another_text_begins_anew_and_the_others_keep_their_state() -> None:
    texts = {"a": "SELECT * FROM S WHERE A ; B", "b": "SELECT * FROM S WHERE A ; C"}
    session = cernis.rules(texts).session()
    session.push([{"type": "A", "ts": 1}])
    changed = {"a": texts["a"], "b": "SELECT * FROM S WHERE A ; B ; C", "c": "SELECT * WHERE C"}
    changes = session.update(cernis.rules(changed))
    assert str(changes) == "added c; replaced b; kept a"
    found = session.push([{"type": "B", "ts": 2}, {"type": "C", "ts": 3}])
    assert {name: matches.count() for name, matches in found.items()} == {"a": 1, "b": 0, "c": 1}
    with pytest.raises(RuleSetError):
        session.update(cernis.rules({"a": "SELECT * FROM S WHRE A"}))
    assert session.rules.names == ("a", "b", "c")


def test_a_rule_that_is_removed_takes_its_encoder_along() -> None:
    session = RuleSession(cernis.rules(on_hosts(20)), RunOptions(), families=False)
    session.push(log(60, 20))
    session.update(cernis.rules(on_hosts(2)))
    shared = session._opener.encoders
    assert (len(shared._known), len(shared._groups)) == (2, 3)  # types, and two hosts


@pytest.mark.parametrize("number", [3, 12])
def test_a_change_checks_the_rules_that_changed_alone(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether they run alone or share an engine; other columns are checked for all of them."""

    def write(i: int, bound: int) -> str:
        names = "abc"[: 1 + i % 3]
        steps = " ; ".join(f"A AS {name}" for name in names)
        tests = " AND ".join(f"{name}[x = {i} AND y < {bound}]" for name in names)
        return f"SELECT * FROM S WHERE ({steps}) FILTER {tests} WITHIN 1 MINUTE"

    checked: list[str] = []
    check = Plan.check_schema

    def check_schema(plan: Plan, schema: Schema) -> None:
        checked.append(str(plan.pattern))
        check(plan, schema)

    monkeypatch.setattr(Plan, "check_schema", check_schema)
    texts = {f"r{i}": write(i, 5) for i in range(number)}
    event = {"type": "A", "x": 1, "y": 6, "ts": 1}
    session = cernis.rules(texts).session()
    assert session.push({"S": [event]})["r1"].count() == 0
    assert len(checked) >= number
    checked.clear()
    rules = cernis.rules(texts | {"r1": write(1, 7)})
    session.update(rules)
    assert [session.push({"S": [event]})["r1"].count() for _ in range(2)] == [0, 1]
    assert checked == [str(rules["r1"])]
    with pytest.raises(RuleSetError) as caught:
        session.push({"S": [event | {"x": "1"}]})
    assert {*caught.value.rules} == {*texts}


def test_frozen_rules_are_thawed_by_the_same_rules_alone() -> None:
    texts = {"a": "SELECT * FROM S WHERE A ; B", "b": "SELECT * FROM S WHERE B"}
    session = cernis.rules(texts).session(time="at")
    session.push([{"type": "A", "at": 1}])
    frozen = session.freeze()
    with pytest.raises(StateError) as raised:
        cernis.rules({"a": texts["b"], "c": texts["b"], "b": texts["b"]}).thaw(frozen)
    assert str(raised.value) == (
        "the state was frozen by other rules (a, c); thaw it with the rules that froze it, and go "
        "on with others by update"
    )
    with pytest.raises(StateError, match="by the same rules in another order"):
        cernis.rules({"b": texts["b"], "a": texts["a"]}).thaw(frozen)
    with pytest.raises(StateError, match="frozen by a query, not by a rule set"):
        cernis.rules(texts).thaw(cernis.query(texts["a"]).session().freeze())
    with pytest.raises(StateError, match="its checksum does not match"):
        cernis.rules(texts).thaw(frozen[:-1] + b"?")
    thawed = cernis.rules(texts).thaw(frozen)
    found = thawed.push([{"type": "B", "at": 2}])
    assert {name: matches.count() for name, matches in found.items()} == {"a": 1, "b": 1}
    with pytest.raises(DataError, match="before"):
        thawed.push([{"type": "B", "at": 1}])


def test_the_error_of_a_spent_budget_names_the_rule() -> None:
    rules = cernis.rules(
        {
            "cheap": "SELECT * WHERE A ; B",
            "dear": "SELECT * WHERE (A AS a ; B AS b ; B AS c) FILTER a[x] + b[x] < c[x]",
        }
    )
    events = [{"type": type_, "x": 1, "ts": i} for i, type_ in enumerate("AABBBB")]
    thawed = rules.thaw(rules.session().freeze(), budget=2)
    for session in (rules.session(budget=2), thawed):
        with pytest.raises(BudgetError, match=r"^rule dear: the query decides "):
            session.push(events)["dear"].count()


DEAR = "SELECT * WHERE (A AS a ; B AS b ; B AS c) FILTER a[x] + b[x] < c[x]"
MANY = [{"type": type_, "x": i, "ts": i} for i, type_ in enumerate("AABBBB")]


def test_a_rule_whose_budget_is_spent_is_left_out_and_the_others_go_on() -> None:
    texts = {"cheap": "SELECT * WHERE A ; B", "dear": DEAR}
    listed = "SELECT MAX * FROM S WHERE (A AS a ; B+ AS b) FILTER a[x] < b[x]"
    for dear in (DEAR, listed):
        rules = cernis.rules({**texts, "dear": dear}, on_bad_rule="skip")
        session = rules.session(budget=2)
        assert {name: own.count() for name, own in session.push(MANY[:1]).items()} == {
            "cheap": 0,
            "dear": 0,
        }
        found = session.push(MANY[1:])
        assert {name: own.count() for name, own in found.items()} == {"cheap": 8}
        assert session.rules.names == ("cheap",) == (*session.metrics(),)
        assert session.notes[0] == "1 rule has stopped, the others go on"
        assert session.notes[1].startswith("rule dear: the query ")
        assert session.stopped == {"dear": session.notes[1]}
        session.push([])
        assert session.notes[1] == session.stopped["dear"]
        session = session.rules.thaw(session.freeze(), budget=2)
        later = session.push([{"type": "B", "x": 1, "ts": 9}])
        assert {name: own.count() for name, own in later.items()} == {"cheap": 2}
        assert session.metrics()["cheap"].matches == 10
        assert str(session.update(cernis.rules(texts))) == "added dear; kept cheap"


def test_a_rule_that_reads_what_one_without_budget_inserts_stops_as_well() -> None:
    insert = f"INSERT INTO D {DEAR.replace('*', 'a[x] AS x', 1)}"
    texts = {
        "reader": "SELECT * FROM D WHERE D",
        "again": "INSERT INTO E SELECT D[x] AS x FROM D WHERE D",
        "last": "SELECT * FROM E WHERE E",
        "cheap": "SELECT * FROM S WHERE A",
        "dear": insert.replace("WHERE", "FROM S WHERE"),
    }
    session = cernis.rules(texts, on_bad_rule="skip").session(budget=2)
    found = session.push({"S": MANY})
    assert {name: own.count() for name, own in found.items()} == {"cheap": 2}
    assert session.notes[0] == "4 rules have stopped, the others go on"
    assert "rule reader: rule dear inserts into D, and has stopped" in session.notes
    assert "rule last: rule again inserts into E, and has stopped" in session.notes
    assert session.push({"S": [{"type": "A", "x": 1, "ts": 9}]})["cheap"].count() == 1


def test_rules_of_one_shape_have_a_budget_each() -> None:
    texts = {
        f"r{i}": "SELECT * FROM S WHERE (A AS a ; B AS b ; B AS c) "
        f"FILTER a[k = {i}] AND b[k = {i}] AND c[k = {i}] AND a[x] + b[x] < c[x]"
        for i in range(12)
    }
    rows = [{**event, "k": k, "ts": k} for k in range(12) for event in MANY[: 3 + k // 6 * 3]]
    session = cernis.rules(texts, on_bad_rule="skip").session(budget=2)
    found = session.push(rows)
    assert [*found] == [f"r{i}" for i in range(6)]


@pytest.mark.parametrize("form", ["jsonl", "parquet", "count"])
def test_the_command_line_goes_on_without_a_rule_whose_budget_is_spent(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], form: str
) -> None:
    cheap = "SELECT A[x] AS x FROM S WHERE A ; B"
    dear = DEAR.replace("SELECT *", "SELECT c[x] AS x FROM S")
    rules = tmp_path / "rules.ceql"
    rules.write_text(f"RULE dear AS {dear}; RULE cheap AS {cheap}")
    pq.write_table(pa.Table.from_pylist(MANY), tmp_path / "S.parquet")
    output = str(tmp_path / f"found.{form}")
    wanted = ["--count"] if form == "count" else ["--output", output]
    told = ["run", str(rules), "--events", str(tmp_path / "S.parquet"), "--budget", "2"]
    assert main([*told, *wanted]) == 1
    assert "rule dear: the query decides" in capfd.readouterr().err
    assert main([*told, *wanted, "--on-bad-rule", "skip"]) == 0
    out, err = capfd.readouterr()
    assert "note: 1 rule has stopped, the others go on\n" in err
    assert f"note: {rules}: rule dear: the query decides" in err
    if form == "count":
        assert out == "cheap\t8\n"
    elif form == "jsonl":
        lines = Path(output).read_text().splitlines()
        assert [json.loads(line)["rule"] for line in lines] == ["cheap"] * 8
    else:
        assert pq.read_table(output)["rule"].to_pylist() == ["cheap"] * 8


def test_a_budget_that_is_spent_while_matches_are_listed_ends_the_list_of_one_rule(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = run._list_lines

    def list_lines(matches: Any, limit: int | None, *, events: bool) -> Any:
        yield from listed(matches, limit, events=events)
        if len(matches) == 2:
            raise BudgetError("rule a: the query is dear")

    monkeypatch.setattr(run, "_list_lines", list_lines)
    texts = "RULE a AS SELECT * FROM S WHERE A; RULE b AS SELECT * FROM S WHERE B"
    (tmp_path / "rules.ceql").write_text(texts)
    pq.write_table(pa.Table.from_pylist(MANY), tmp_path / "S.parquet")
    told = ["run", str(tmp_path / "rules.ceql"), "--events", str(tmp_path / "S.parquet")]
    told += ["--output", str(tmp_path / "found.jsonl")]
    assert main(told) == 1
    assert main([*told, "--on-bad-rule", "skip"]) == 0
    assert (
        "note: rule a: the query is dear; its other matches are missing" in capfd.readouterr().err
    )


def test_the_last_rule_whose_budget_is_spent_is_an_error() -> None:
    session = cernis.rules({"dear": DEAR}, on_bad_rule="skip").session(budget=2)
    with pytest.raises(BudgetError, match=r"^rule dear: the query decides "):
        session.push(MANY)


def test_a_session_that_has_failed_says_so_and_begins_from_what_was_frozen() -> None:
    text = "SELECT MAX * FROM S WHERE (A AS a ; B+ AS b) FILTER a[x] < b[x]"
    rules = cernis.rules({"pairs": text, "all": "SELECT * FROM S WHERE B"})
    session = rules.session(budget=3)
    session.push([{"type": "A", "x": 1, "ts": i} for i in range(5)])
    frozen = session.freeze()
    with pytest.raises(CernisError, match="candidates"):
        session.push([{"type": "B", "x": 2, "ts": 9}])
    with pytest.raises(StateError, match="this session has failed before"):
        session.push([{"type": "B", "x": 2, "ts": 10}])
    found = rules.thaw(frozen, budget=10).push([{"type": "B", "x": 2, "ts": 9}])
    assert {name: matches.count() for name, matches in found.items()} == {"pairs": 5, "all": 1}


def test_each_rule_has_its_numbers() -> None:
    rules = cernis.rules(
        {
            **on_hosts(2),
            "loud": "SELECT * FROM S WHERE FAIL AS f "
            "PARTITION BY [host] SUPPRESS BY [host] FOR 1 HOUR",
        }
    )
    session = rules.session()
    session.push(log(60, 2))
    numbers = session.metrics()
    assert [each.events for each in numbers.values()] == [20, 20, 20]
    assert [each.suppressed for each in numbers.values()] == [0, 0, 18]
    found = [each.count() for each in rules.run(log(60, 2)).values()]
    assert [each.matches for each in numbers.values()] == found
    thawed = rules.thaw(session.freeze())
    assert [each.matches for each in thawed.metrics().values()] == found


# -------------------------------------------------------------------- texts


def test_declarations_before_the_first_rule_are_those_of_all() -> None:
    text = "CREATE STREAM S { EVENT A { x:int } } RULE a AS SELECT * FROM S WHERE A AS a FILTER "
    with pytest.raises(RuleSetError, match="unknown attribute 'y'"):
        cernis.rules(text + "a[y = 1]")
    assert cernis.rules(text + "a[x = 1]").names == ("a",)


def test_declarations_that_begin_many_texts_are_parsed_once() -> None:
    begin = "CREATE STREAM S { EVENT A { many:int, columns:string } }\n"
    texts = [f"{begin}RULE r{i} AS SELECT * FROM S WHERE A AS a" for i in range(3)]
    texts[1] = texts[1].replace("many", "other")
    one, other, same = (rule.pattern for text in texts for rule in parse_rules(text))
    assert one is not None
    assert other is not None
    assert same is not None
    assert same.declared is one.declared
    assert other.declared != one.declared
    wrong = begin.replace("string", "text")
    for _ in range(2):
        ((*_, mistake),) = parse_rules(f"{wrong}RULE r AS SELECT * FROM S WHERE A AS a")
        assert "'text'" in str(mistake)


def test_all_mistakes_of_all_rules_come_together() -> None:
    with pytest.raises(RuleSetError) as raised:
        cernis.rules(
            "RULE one AS SELECT * FROM S WHRE A;\n"
            "RULE two AS SELECT * FROM S WHERE A AS a FILTER b[x = 1]\n"
            "RULE two AS SELECT * FROM S WHERE A\n"
            "RULE `a rule` AS SELECT * FROM S WHERE A LIMIT -1"
        )
    assert (
        str(raised.value)
        == """\
rule one: line 1, column 29: unexpected 'WHRE'
  RULE one AS SELECT * FROM S WHRE A;
                              ^^^^
  help: did you mean 'WHERE'?
rule two: line 2, column 49: unknown variable 'b' in FILTER
  RULE two AS SELECT * FROM S WHERE A AS a FILTER b[x = 1]
                                                  ^
  expected: A, a
two rules are named 'two': line 2 and line 3
rule a rule: line 4, column 42: LIMIT must not be negative
  RULE `a rule` AS SELECT * FROM S WHERE A LIMIT -1
                                           ^^^^^^^^"""
    )


def test_of_many_mistakes_the_first_are_shown_and_the_others_are_counted(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for number in range(30):
        (tmp_path / f"{number:02}.ceql").write_text("title: a rule of another tool")
    assert main(["check", str(tmp_path)]) == 1
    err = capfd.readouterr().err
    assert err.count("expected: RULE name AS SELECT …") == 20
    assert err.endswith("\nand 10 more mistakes\n")
    assert main(["check", "--json", str(tmp_path)]) == 1
    problems = json.loads(capfd.readouterr().out)["problems"]
    assert [Path(one["message"].split(":")[0]).stem for one in problems] == [
        f"{number:02}" for number in range(30)
    ]
    (tmp_path / "30.ceql").write_text("RULE a AS SELECT * WHERE A")
    assert main(["check", "--on-bad-rule", "skip", str(tmp_path)]) == 0
    out, err = capfd.readouterr()
    assert out == "ok: 1 rule\n"
    assert err.startswith("note: 30 rules are left out\n")
    assert err.count("expected: RULE name AS SELECT …") == 20
    assert len(cernis.rules(tmp_path, on_bad_rule="skip").refused) == 30


def test_a_text_without_rules_is_no_rule_set() -> None:
    with pytest.raises(RuleSetError) as raised:
        cernis.rules("SELECT * FROM S WHERE A")
    assert str(raised.value) == (
        "line 1, column 1: a rule set is made of rules\n"
        "  SELECT * FROM S WHERE A\n"
        "  ^^^^^^\n"
        "  expected: RULE name AS SELECT …"
    )


def test_a_keyword_as_the_name_of_a_rule_is_quoted() -> None:
    with pytest.raises(RuleSetError) as raised:
        cernis.rules("RULE a AS SELECT * WHERE A\nRULE all AS SELECT * WHERE B")
    assert str(raised.value) == (
        "rule all: line 2, column 6: unexpected 'all'\n"
        "  RULE all AS SELECT * WHERE B\n"
        "       ^^^\n"
        "  expected: the name of a rule\n"
        "  help: to use 'all' as a name, write it in backquotes: `all`"
    )
    assert cernis.rules("RULE `all` AS SELECT * WHERE B").names == ("all",)


def test_a_rule_that_does_not_fit_the_events_is_named() -> None:
    rules = cernis.rules("RULE r AS SELECT * FROM S WHERE A AS a FILTER a[prise = 1]")
    with pytest.raises(RuleSetError, match="rule r: line 1, column 49: unknown attribute 'prise'"):
        rules.run([{"type": "A", "price": 1}])


# ------------------------------------------------------------- command line


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rules = tmp_path / "rules"
    (rules / "more").mkdir(parents=True)
    (rules / "one.ceql").write_text("RULE buys AS SELECT * FROM S WHERE BUY AS b")
    (rules / "more" / "two.ceql").write_text("RULE sells AS SELECT * FROM S WHERE SELL AS s")
    (tmp_path / "S.csv").write_text("type,x\nBUY,1\nSELL,2\nBUY,3\n")
    return tmp_path


def test_the_command_line_runs_a_folder_of_rules(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = ["run", str(folder / "rules"), str(folder / "S.csv")]
    assert main([*run, "--count"]) == 0
    assert capfd.readouterr().out == "sells\t1\nbuys\t2\n"
    assert main([*run, "--output", "-"]) == 0
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [(line["rule"], line["vars"]) for line in lines] == [
        ("sells", {"s": [1]}),
        ("buys", {"b": [0]}),
        ("buys", {"b": [2]}),
    ]
    assert main(run) == 0
    assert "sells" in capfd.readouterr().out
    assert main([*run, "--output", str(folder / "out.jsonl")]) == 0
    assert len((folder / "out.jsonl").read_text().splitlines()) == 3


def test_a_number_of_matches_respects_the_limit_and_the_output(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = ["run", str(folder / "rules"), str(folder / "S.csv"), "--count", "--limit", "1"]
    assert main(run) == 0
    assert capfd.readouterr().out == "sells\t1\nbuys\t1\n"
    assert main([*run, "--output", str(folder / "counts.jsonl")]) == 0
    assert capfd.readouterr().out == ""
    assert (folder / "counts.jsonl").read_text() == "sells\t1\nbuys\t1\n"


def test_matches_of_rules_are_columns_with_the_name_of_the_rule(folder: Path) -> None:
    run = ["run", str(folder / "rules"), str(folder / "S.csv"), "--output"]
    assert main([*run, str(folder / "out.parquet")]) == 0
    found = pq.read_table(folder / "out.parquet")
    assert found.column_names == ["rule", "start", "end", "start_ts", "end_ts", "s", "b"]
    assert [(row["rule"], row["s"], row["b"]) for row in found.to_pylist()] == [
        ("sells", [{"type": "SELL", "x": 2}], None),
        ("buys", None, [{"type": "BUY", "x": 1}]),
        ("buys", None, [{"type": "BUY", "x": 3}]),
    ]
    assert main([*run, str(folder / "out.csv"), "--limit", "1"]) == 0
    assert (folder / "out.csv").read_text().splitlines() == [
        '"rule","start","end","start_ts","end_ts","s","b"',
        '"sells",1,1,1,1,"[1]",',
        '"buys",0,0,0,0,,"[0]"',
    ]
    assert main([*run, str(folder / "whole.jsonl"), "--events-in-output"]) == 0
    lines = [json.loads(line) for line in (folder / "whole.jsonl").read_text().splitlines()]
    assert lines[0]["events"] == {"s": [{"type": "SELL", "x": 2}]}


def test_columns_of_one_name_and_different_types_are_an_error(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rules = "RULE a AS SELECT COUNT(*) AS n, b FROM S WHERE BUY AS b RULE b AS SELECT b[type] AS n "
    out = str(folder / "out.parquet")
    assert main(["run", rules + "FROM S WHERE BUY AS b", str(folder / "S.csv"), "-o", out]) == 1
    err = capfd.readouterr().err
    assert "rules have columns of one name and different types (" in err
    assert "Field n has incompatible types: int64 vs string); write .jsonl" in err
    assert not Path(out).exists()


def test_explain_with_events_names_the_rules_that_find_nothing(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "rules" / "silent.ceql").write_text(
        "RULE absent AS SELECT * FROM S WHERE HOLD;"
        "RULE constant AS SELECT * FROM S WHERE BUY AS b FILTER b[x = 7];"
        "RULE unmet AS SELECT * FROM S WHERE BUY AS b FILTER b[x > 7];"
        "RULE order AS SELECT * FROM S WHERE SELL ; SELL"
    )
    (folder / "S.csv").write_text("type,x,ts\nBUY,1,1\nSELL,2,2\nBUY,3,3\n")
    assert main(["explain", str(folder / "rules"), "--events", str(folder / "S.csv")]) == 0
    out = capfd.readouterr().out
    assert out[out.index("silent") :].splitlines() == [
        "silent       4 rules find nothing in these events",
        "             absent: no event has the type 'HOLD'",
        "             constant: no event has x = 7",
        "             unmet: nothing can match: no event satisfies b[x > 7]",
        "             order: events move it, and none completes a match",
    ]


def test_a_folder_that_is_read_again_costs_the_files_that_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        (tmp_path / f"{name}.ceql").write_text(
            f"RULE {name} AS SELECT * WHERE A AS a FILTER a[x = 1]"
        )
    before = cernis.rules(tmp_path)
    parsed: list[str] = []

    def parse(text: str) -> Any:
        parsed.append(text)
        return parse_rules(text)

    monkeypatch.setattr("cernis.run.rules.rule.parse_rules", parse)
    changed = "RULE b AS SELECT * WHERE A AS a FILTER a[HOUR(ts) = 2]"
    (tmp_path / "b.ceql").write_text(changed)
    after = cernis.rules(tmp_path)
    assert parsed == [changed]
    assert [one is other for one, other in zip(before, after, strict=True)] == [True, False, True]
    with use_time_zone("Europe/Berlin"):
        assert "Berlin" in str(cernis.rules(tmp_path)["b"])
    assert "Berlin" not in str(cernis.rules(tmp_path)["b"])


def test_files_that_have_not_changed_for_a_while_are_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    read = Path.read_text

    def read_text(path: Path, encoding: str) -> str:
        if path.suffix == ".ceql":
            opened.append(path.name)
        return read(path, encoding)

    monkeypatch.setattr(Path, "read_text", read_text)
    for name in ("a", "b", "sub/c"):
        file = tmp_path / f"{name}.ceql"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"RULE {file.stem} AS SELECT * WHERE A AS a FILTER a[x = 1]")
    known = cernis.rules(tmp_path), cernis.rules(tmp_path)
    assert opened == ["a.ceql", "b.ceql", "c.ceql"] * 2  # the clock of the files may not tell
    monkeypatch.setattr(rule_files, "_TICK", 0)
    assert [*cernis.rules(tmp_path)] == [*known[0]] == [*cernis.rules(tmp_path)]
    assert opened == ["a.ceql", "b.ceql", "c.ceql"] * 3
    before, other = (tmp_path / "b.ceql").stat(), tmp_path / "other"
    other.write_text("RULE b AS SELECT * WHERE A AS a FILTER a[x = 2]")
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.rename(tmp_path / "b.ceql")
    assert "x = 2" in str(cernis.rules(tmp_path)["b"])
    assert opened[9:] == ["b.ceql"]


def test_the_command_line_checks_and_explains_a_folder_of_rules(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rules = str(folder / "rules")
    assert main(["check", rules]) == 0
    assert capfd.readouterr().out == "ok: 2 rules\n"
    assert main(["explain", rules]) == 0
    assert capfd.readouterr().out.startswith("rules        2\n")
    (folder / "rules" / "one.ceql").write_text("RULE buys AS SELECT * FROM S")
    (folder / "rules" / "three.ceql").write_text("RULE sells AS SELECT * FROM S WHERE A LIMIT -1")
    assert main(["check", rules]) == 1
    err = capfd.readouterr().err
    assert "one.ceql: rule buys: line 1" in err
    assert "three.ceql: rule sells: line 1, column 39: LIMIT must not be negative" not in err
    assert "two rules are named 'sells': " in err


def test_one_of_something_is_written_as_one(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rule, output = str(folder / "rules" / "more" / "two.ceql"), str(folder / "found.jsonl")
    events = ["--events", f"S={folder / 'S.csv'}"]
    assert main(["check", rule]) == 0
    assert capfd.readouterr().out == "ok: 1 rule\n"
    assert main(["run", rule, *events, "--output", output]) == 0
    assert f"1 match of 1 rule written to {output}" in capfd.readouterr().err
    lines = cernis.rules("RULE r AS SELECT * FROM S WHERE A AS a WITHIN 1 SECOND").explain()
    assert "routed       1 rule reads the events that can move them" in lines
    assert "by look-ups of type (1 constant)" in lines
    window = cernis.query("SELECT * FROM S WHERE A ; B WITHIN 1 SECOND").explain()
    assert "1 second\n" in str(window)
    assert "1 seconds" not in str(window)


LARGE = """\
RULE small AS SELECT * FROM S WHERE A AS a;
RULE large AS SELECT * FROM S WHERE
  (A AS a ; B{1,100000} AS b);
RULE huge AS SELECT * FROM S WHERE A{1,200000} AS a"""
TOO_LARGE = """\
rule large: line 3, column 13: {1,100000} unrolls to 100,000 copies; at most 50,000 automaton \
states are allowed
    (A AS a ; B{1,100000} AS b);
              ^^^^^^^^^^^
rule huge: line 4, column 36: {1,200000} unrolls to 200,000 copies; at most 50,000 automaton \
states are allowed
  RULE huge AS SELECT * FROM S WHERE A{1,200000} AS a
                                     ^^^^^^^^^^^"""


def test_every_rule_that_is_too_large_to_run_is_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rules.ceql"
    file.write_text(LARGE)
    events = tmp_path / "S.csv"
    events.write_text("type,x\nA,1\n")
    for command in (["check", str(file)], ["run", str(file), "--events", f"S={events}"]):
        assert main(command) == 1
        assert capfd.readouterr().err.replace(f"{file}: ", "") == f"error: {TOO_LARGE}\n"
    assert main(["check", "--json", str(file)]) == 1
    problems = json.loads(capfd.readouterr().out)["problems"]
    assert [one["code"] for one in problems] == ["pattern-too-large"] * 2
    assert ["rule large: line 3" in one["message"] for one in problems] == [True, False]


def test_rules_that_are_too_large_leave_a_session_as_it_was() -> None:
    session = cernis.rules("RULE small AS SELECT * FROM S WHERE A AS a").session()
    session.push([{"type": "A"}])
    with pytest.raises(RuleSetError) as raised:
        session.update(cernis.rules(LARGE))
    assert str(raised.value) == TOO_LARGE
    assert session.push([{"type": "A"}])["small"].count() == 1


def test_a_changed_rule_that_is_too_large_is_refused_alone(tmp_path: Path) -> None:
    file = tmp_path / "rules.ceql"
    file.write_text("RULE small AS SELECT * FROM S WHERE A AS a;\nRULE huge AS SELECT * WHERE B")
    files = RuleWatch(file)
    file.write_text(f"{LARGE};\nRULE other AS SELECT * FROM S WHERE B AS b")
    assert files.look(lambda _: None) is None  # once more, when it has stopped changing
    revision = files.look(lambda _: None)
    assert revision is not None
    assert {rule.name: str(rule.query) for rule in revision.rules}["huge"].endswith("WHERE B")
    assert {*revision.rules.names} == {"small", "huge", "other"}
    assert [each.split(": ")[1] for each in revision.refused] == ["rule large", "rule huge"]


def test_rules_are_explained_for_spark(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    explain = ["explain", str(folder / "rules"), "--engine", "spark"]
    assert main(explain) == 0
    assert capfd.readouterr().out.splitlines()[-3:] == [
        "jobs         1 for all rules; together=False runs each rule as a job of its own",
        "shuffles     1, each for the rules of one key",
        "             no key: sells, buys; rows that can move them travel",
    ]
    assert main(["explain", str(folder / "rules"), "--mermaid"]) == 1
    assert "a rule set is explained as text; draw its rules one by one" in capfd.readouterr().err


def test_a_lack_of_memory_says_what_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = cernis.rules(
        {"pairs": "SELECT * FROM S WHERE A ; B", "ends": "SELECT * FROM S WHERE B"}
    )
    session = rules.session()
    session.push([{"type": "A", "ts": i} for i in range(50)])

    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(session, "_read", fail)
    with pytest.raises(
        MemoryError, match=r"keep 50 events in 0 MiB; most .* pairs \(\d+ records\)"
    ):
        session.push([{"type": "A", "ts": 60}])


def test_a_result_of_a_rule_that_found_nothing_is_made_when_it_is_read() -> None:
    texts = {
        "quiet": "SELECT * FROM S WHERE A AS a FILTER a[x = 9]",
        "loud": "SELECT * FROM S WHERE A AS a FILTER a[x = 1]",
        "late": "SELECT * FROM S WHERE B AS b WITHOUT A FOR 1 SECOND",
        "grouped": "SELECT COUNT(*) AS n FROM S WHERE A GROUP BY EVERY 1 SECOND",
    }
    session = cernis.rules(texts).session()
    first = session.push([{"type": "A", "x": 1, "ts": 1}, {"type": "B", "x": 1, "ts": 2}])
    second = session.push([{"type": "A", "x": 9, "ts": 5000}])
    assert [*first] == [*second] == [*texts]
    assert "quiet" not in first.found
    assert "loud" not in second.found
    third = session.push([{"type": "C", "x": 5, "ts": 9000}])  # it tells the time alone
    fourth = session.push([{"type": "C", "x": 5, "ts": 9900}])
    assert [*third.found] == ["grouped"]
    assert [*fourth.found] == []
    expected = ((0, 1, 0, 0), (1, 0, 1, 1), (0, 0, 0, 1), (0, 0, 0, 0))
    for results, counts in zip((first, second, third, fourth), expected, strict=True):
        assert tuple(len(results[name]) for name in texts) == counts
    assert first["quiet"].schema == second["quiet"].schema
    assert first["quiet"] is first["quiet"]
    assert "other" not in first
    with pytest.raises(KeyError):
        first["other"]


def test_a_push_and_a_session_of_one_rule_have_the_same_notes() -> None:
    text = "SELECT * FROM S WHERE A AS a FILTER a[x = 9]"
    late = [{"type": "A", "x": 9, "ts": 5}, {"type": "A", "x": 1, "ts": 4}]
    found = cernis.rules({"r": text}).session().push(late[1:] + late)["r"]
    alone = cernis.query(text).session().push(late[1:] + late)
    assert found.notes == alone.notes != ()
