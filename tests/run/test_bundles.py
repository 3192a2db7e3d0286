"""Rules of different shapes share an engine, and each finds what it finds alone."""

from __future__ import annotations

from collections import Counter
from random import Random
from threading import Thread
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cernis
from cernis.errors import StateError
from cernis.run.rules.routing import layers
from cernis.run.rules.rule import RuleSetError
from cernis.run.rules.rule_set import RuleSet
from cernis.run.rules.session import RuleSession
from cernis.run.rules.shared import shared_rules
from cernis.run.rules.shared.shared_rules import SMALLEST, find_kind
from cernis.run.session import RunOptions
from cernis.state import pack, unpack
from cernis.testing.rules import evaluate_rules
from tools.cases.differential import (
    assert_agrees,
    assert_suppression_agrees,
    comparable_match,
)
from tools.cases.grammar import split_batches
from tools.cases.strategies import cuts

some = settings(
    max_examples=max(25, settings.default.max_examples // 4),
    suppress_health_check=list(HealthCheck),
)
HOSTS = ["h0", "h1", "h2"]
READERS = (
    "SELECT * FROM D WHERE D AS x ; D AS y",
    "SELECT * FROM S, D WHERE S>A AS a : D AS x FILTER x[size > 1]",
    "INSERT INTO E SELECT x[size] AS size FROM D WHERE D AS x FILTER x[size > 0]",
    "SELECT * FROM E, D WHERE D AS x : E AS e",
)
KEYS = ("", "PARTITION BY [user]", "PARTITION BY [user], [kind, size]")
STRATEGIES = ("", "", "NEXT", "LAST", "MAX", "ANY")
WINDOWS = ("", "WITHIN 2 MILLISECONDS", "WITHIN 4 MILLISECONDS", "WITHIN 3 MILLISECONDS")


@st.composite
def shapes(
    draw: st.DrawFn, key: str, silences: bool = False, *, inserts: bool = False, strategy: str = ""
) -> str:
    """Draw a rule on the events of one host, or of two."""
    names = "abcd"[: draw(st.integers(1, 4))]
    steps = [f"{draw(st.sampled_from(['A', 'B', 'A', 'S>B', '*']))} AS {name}" for name in names]
    again = draw(st.sampled_from(["", "", "+", "?", "{1,2}", "->+"])) if len(steps) > 1 else ""
    steps[-1] = steps[-1].replace(" AS ", f"{again} AS ")
    if len(steps) > 2 and draw(st.booleans()):
        steps[:2] = [f"({steps[0]} OR {steps[1]})"]
    host = draw(st.sampled_from(HOSTS))
    tests = [f"{name}[host = '{host}']" for name in names]
    if draw(st.booleans()):
        tests[0] = f"{names[0]}[host IN {{'{host}', 'h2'}}]"
    name, number = draw(st.sampled_from(names)), draw(st.integers(0, 4))
    conditions = ("size > {0}", "size <= {0}", "size = {0}", "kind != {0}", "kind IS NULL")
    conditions += ("size > kind", "size - kind <= {0}", "user LIKE 'x.*'")
    for condition in draw(st.lists(st.sampled_from(conditions), max_size=2)):
        tests.append(f"{name}[{condition.format(number)}]")
    chosen = draw(st.sampled_from(["*", names[-1], f"{names[0]}[size] AS first", "START, END"]))
    if "(" in steps[0] and "[" in chosen:
        chosen = "*"
    within, limit = draw(st.sampled_from(WINDOWS)), draw(st.sampled_from(["", "LIMIT 1"]))
    if inserts:
        chosen, limit = f"MIN({names[-1]}[size]) AS size", ""
    silence = f"SUPPRESS BY [user] FOR {draw(st.integers(1, 4))} ms" if silences else ""
    head = f"{'INSERT INTO D ' * inserts}SELECT {strategy} {chosen} FROM S"
    return (
        f"{head} WHERE ({' ; '.join(steps)}) FILTER {' AND '.join(tests)} "
        f"{key} {within} {limit} {silence}"
    )


@st.composite
def rule_sets(draw: st.DrawFn, smallest: int = 12) -> RuleSet:
    key = draw(st.sampled_from(KEYS))
    silences = key != "" and draw(st.booleans())
    strategy = draw(st.sampled_from(STRATEGIES))
    rules = shapes(key, silences, strategy=strategy)
    texts = draw(st.lists(rules, min_size=smallest, max_size=16))
    return cernis.rules({f"r{i}": text for i, text in enumerate(texts)})


@st.composite
def levels(draw: st.DrawFn) -> RuleSet:
    """Draw rules that insert into D, and rules that read it."""
    makers = draw(st.lists(shapes(draw(st.sampled_from(KEYS)), inserts=True), min_size=12))
    texts = {f"m{i}": text for i, text in enumerate(makers[:14])}
    readers = {f"r{i}": text for i, text in enumerate(READERS)}
    return cernis.rules({**readers, **texts} if draw(st.booleans()) else {**texts, **readers})


@st.composite
def logs(draw: st.DrawFn, most: int = 16) -> pa.Table:
    number = draw(st.integers(0, most))
    size = {"min_size": number, "max_size": number}
    host = draw(st.sampled_from([pa.string(), pa.dictionary(pa.int32(), pa.string())]))
    steps = draw(st.lists(st.integers(0, 2), **size))
    columns = {
        "type": pa.array(draw(st.lists(st.sampled_from("AAB"), **size)), pa.string()),
        "host": pa.array(draw(st.lists(st.sampled_from([*HOSTS, "other", None]), **size)), host),
        "user": pa.array(draw(st.lists(st.sampled_from(["x", "y", None]), **size)), pa.string()),
        "size": pa.array(draw(st.lists(st.sampled_from([*range(5), None]), **size)), pa.int64()),
        "kind": pa.array(draw(st.lists(st.sampled_from([1.0, 2.5, None]), **size)), pa.float64()),
        "ts": pa.array(np.cumsum(steps), pa.int64()),
    }
    return pa.table(columns)


def run_alone(rules: RuleSet) -> RuleSession:
    """Return a session in which each rule runs by itself."""
    return RuleSession(rules, RunOptions(), families=False)


def assert_same(found: dict[str, Any], alone: dict[str, Any]) -> None:
    assert [*found] == [*alone]
    for name, matches in found.items():
        assert matches.to_arrow().equals(alone[name].to_arrow()), name
        assert matches.count() == alone[name].count()
        # a rule that stays keeps its text, which its notes quote
        assert len(matches.notes) == len(alone[name].notes)


def make_mixed(hosts: range = range(SMALLEST)) -> dict[str, str]:
    """Return rules of different shapes, one for each host."""
    texts = {}
    for i in hosts:
        end = " ; A AS c" * (i % 2)
        same = f"a[host = 'h{i}'] AND b[host = 'h{i}']" + f" AND c[host = 'h{i}']" * (i % 2)
        size = f"a[size > {i}] AND {same}"
        texts[f"r{i}"] = f"SELECT * FROM S WHERE (A AS a ; B AS b{end}) FILTER {size} WITHIN 9 ms"
    return texts


def tell(kind: str, hosts: range, ts: int) -> list[dict[str, Any]]:
    return [{"type": kind, "host": f"h{i}", "size": 50, "ts": ts} for i in hosts]


def count(found: dict[str, Any]) -> dict[str, int]:
    return {name: each.count() for name, each in found.items() if each.count()}


@some
@given(rule_sets(), logs())
def test_each_rule_of_a_bundle_finds_what_it_finds_alone(rules: RuleSet, events: pa.Table) -> None:
    found = rules.run(events)
    assert_same(found, run_alone(rules).collect(events))


def list_events(table: pa.Table) -> list[dict[str, Any]]:
    """Return events as the oracle reads them."""
    rows = table.to_pylist()
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


@some
@given(rule_sets(), logs(9))
def test_each_rule_of_a_bundle_finds_what_the_oracle_finds(rules: RuleSet, table: pa.Table) -> None:
    found, events = rules.run(table), list_events(table)
    for rule in rules:
        pattern, matches = rule.query.pattern, [*found[rule.name]]
        if pattern.suppress is None:
            assert_agrees(pattern, events, matches)
        else:
            numbered = [(match, match.suppressed) for match in matches]
            assert_suppression_agrees(pattern, events, numbered)


@some
@given(st.data())
def test_the_matches_of_a_bundle_become_events_in_the_order_of_the_oracle(
    data: st.DataObject,
) -> None:
    """In pieces, and with restarts."""
    rules, table = data.draw(levels()), data.draw(logs(7))
    session, parts = rules.session(), []
    for piece in split_batches(range(table.num_rows), data.draw(cuts(table.num_rows))):
        parts.append(session.push(table.slice(piece[0] if piece else 0, len(piece))))
        session = rules.thaw(session.freeze())
    expected = evaluate_rules({r.name: r.query.pattern for r in rules}, list_events(table))
    for name, own in expected.items():
        got = Counter(comparable_match(match) for part in parts for match in part[name])
        assert got == Counter(map(comparable_match, own)), name


@some
@given(st.data())
def test_rules_join_and_leave_a_bundle_that_runs(data: st.DataObject) -> None:
    """In pieces, with restarts, and with rules that come, go and change."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(layers, "SHARE", data.draw(st.sampled_from([0, 8])))
        change_again_and_again(data)


def change_again_and_again(data: st.DataObject) -> None:
    rules, whole = data.draw(rule_sets()), data.draw(logs())
    session, alone = rules.session(), run_alone(rules)
    for piece in split_batches(range(whole.num_rows), data.draw(cuts(whole.num_rows))):
        part = whole.slice(piece[0] if piece else 0, len(piece))
        assert_same(session.push(part), alone.push(part))
        counted = [
            {name: (own.events, own.suppressed) for name, own in each.metrics().items()}
            for each in (session, alone)
        ]
        assert counted[0] == counted[1]
        if data.draw(st.booleans()):
            session = session.rules.thaw(session.freeze())
        if data.draw(st.booleans()):
            texts = {rule.name: rule.text for rule in session.rules}
            others = {rule.name: rule.text for rule in data.draw(rule_sets())}
            for name in data.draw(st.sets(st.sampled_from(sorted({*texts, *others})), max_size=4)):
                if name in others:
                    texts[name] = others[name]
                elif len(texts) > 1:
                    del texts[name]
            rules = cernis.rules(texts)
            assert session.update(rules) == alone.update(rules)


@pytest.mark.parametrize("share", [0, 8])
def test_a_bundle_that_changes_again_and_again_knows_what_it_has_learned(
    monkeypatch: pytest.MonkeyPatch, share: int
) -> None:
    """With an encoder of its own for the rules that have come, or all built anew."""
    monkeypatch.setattr(layers, "SHARE", share)
    chance = Random(9)

    def write(number: int) -> str:
        key = f"host = 'h{number}'"
        likes = [f"user LIKE '{chance.choice('xy')}.*'", f"size > {chance.randrange(9)}"]
        tests = [f"a[{key} AND {chance.choice(likes)}]", f"b[{key} AND {chance.choice(likes)}]"]
        steps = f"{chance.choice('AB')} AS a ; {chance.choice('AB')} AS b"
        return f"SELECT * FROM S WHERE ({steps}) FILTER {' AND '.join(tests)} WITHIN 9 ms"

    texts = {f"r{i}": write(i) for i in range(12)}
    session, alone = (make(cernis.rules(texts)) for make in (RuleSet.session, run_alone))
    found = 0
    for turn in range(12):
        rows = [
            {
                "type": chance.choice("AB"),
                "host": f"h{chance.randrange(16)}",
                "user": chance.choice(["x1", "y1", None]),
                "size": chance.randrange(9),
                "ts": 200 * turn + i // 9,
            }
            for i in range(200)
        ]
        results = session.push(rows)
        assert_same(results, alone.push(rows))
        found += sum(count(results).values())
        for number in chance.sample(range(16), 2):
            texts.pop(f"r{number}", None)
            if chance.random() < 0.8:
                texts[f"r{number}"] = write(number)
        assert session.update(cernis.rules(texts)) == alone.update(cernis.rules(texts))
        assert any(each.group is not None for each in session.running)
        if chance.random() < 0.3:
            session = session.rules.thaw(session.freeze())
    assert found > 200


@some
@given(rule_sets(), logs(), logs())
def test_the_events_of_several_streams_keep_their_order(
    rules: RuleSet, first: pa.Table, second: pa.Table
) -> None:
    texts = {r.name: r.text.replace("FROM S", "FROM S, T") for r in rules}
    texts |= {f"one {r.name}": r.text for r in rules}
    both = cernis.rules(texts)
    streams = {"S": first, "T": second}
    assert_same(both.run(streams), run_alone(both).collect(streams))


def test_rules_of_different_shapes_are_one_session() -> None:
    rules = cernis.rules(make_mixed())
    session = rules.session()
    assert len(session.running) == 1
    assert f"bundles      {SMALLEST} rules of other shapes share 1 engine" in rules.explain()
    every = range(SMALLEST)
    assert not count(session.push(tell("A", every, 1)))
    assert count(session.push(tell("B", every, 2))) == {f"r{i}": 1 for i in every if not i % 2}
    assert count(session.push(tell("A", every, 3))) == {f"r{i}": 1 for i in every if i % 2}
    assert {each.matches for each in session.metrics().values()} == {1}


def test_a_bundle_that_runs_takes_more_rules_and_drops_the_state_of_those_that_leave() -> None:
    session = cernis.rules(make_mixed()).session()
    session.push(tell("A", range(12), 1))
    session.update(cernis.rules(make_mixed(range(1, 10))))
    assert len(session.running) == 1
    session = session.rules.thaw(session.freeze())
    session.update(cernis.rules(make_mixed(range(10))))
    assert len(session.running) == 1
    found = count(session.push(tell("B", range(12), 2)))
    assert found == {f"r{i}": 1 for i in range(2, SMALLEST, 2)}


def test_each_rule_of_a_bundle_silences_its_own_matches_for_its_own_time() -> None:
    texts = {
        name: f"{text} PARTITION BY [host] WITHIN 9 ms SUPPRESS BY [host] FOR {i + 1} ms"
        for i, (name, text) in enumerate(
            (name, text.removesuffix("WITHIN 9 ms")) for name, text in make_mixed().items()
        )
    }
    session, every = cernis.rules(texts).session(), range(SMALLEST)
    assert len(session.running) == 1
    session.push(tell("A", every, 1))
    session.push(tell("B", every, 2))
    session = session.rules.thaw(session.freeze())
    session.push(tell("B", every, 5))
    found = session.push(tell("B", every, 9))
    silenced = {name: match.suppressed for name, each in found.items() for match in each}
    assert silenced == {"r0": 0, "r2": 1, "r4": 1}
    numbers = {name: (own.matches, own.suppressed) for name, own in session.metrics().items()}
    assert [numbers[f"r{i}"] for i in (0, 2, 4, 6)] == [(3, 0), (2, 1), (2, 1), (1, 2)]


def test_rules_that_insert_into_one_stream_are_one_session() -> None:
    makers = {
        name: text.replace("SELECT *", "INSERT INTO D SELECT b[size] AS size")
        for name, text in make_mixed().items()
    }
    rules = cernis.rules({**makers, "pairs": "SELECT * FROM D WHERE D AS x ; D AS y"})
    session, every = rules.session(), range(SMALLEST)
    assert len(session.running) == 2
    assert "whole        1 rule reads every event" in rules.explain()
    session.push(tell("A", every, 1))
    found = count(session.push(tell("B", every, 2)))
    assert found == {f"r{i}": 1 for i in every if not i % 2} | {"pairs": 6}


def test_more_rules_than_a_bundle_holds_are_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_rules, "MOST_RULES", SMALLEST)
    rules = cernis.rules(make_mixed(range(2 * SMALLEST + 1)))
    assert [len(each.rules) for each in rules.bundles] == [SMALLEST, SMALLEST]
    events = tell("A", range(20), 1) + tell("B", range(20), 2) + tell("A", range(20), 3)
    assert_same(rules.run(events), run_alone(rules).collect(events))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM S WHERE (A AS a ; B{7,} AS b) FILTER a[host = 'h'] AND b[host = 'h']",
        "SELECT * FROM S WHERE A AS a FILTER a[host = 'h'] CONSUME BY ANY",
        "SELECT * FROM S WHERE A AS a FILTER a[host = 'h'] ORDER BY a[size] LIMIT 1",
        "SELECT COUNT(*) FROM S WHERE A AS a FILTER a[host = 'h']",
    ],
)
def test_rules_that_choose_or_compare_more_run_alone(text: str) -> None:
    [rule] = cernis.rules({"r": text})
    assert find_kind(rule) is None


def test_rules_by_types_share_an_engine_unless_many_name_one_type() -> None:
    own = {f"r{i}": f"SELECT * FROM S WHERE A{i} ; B{i}{'+' * (i % 2)}" for i in range(SMALLEST)}
    rules = cernis.rules(own)
    assert [len(bundle.rules) for bundle in rules.bundles] == [SMALLEST]
    events = [{"type": kind, "ts": ts} for ts, kind in enumerate(["A1", "B1", "A2", "B9"])]
    found = rules.run(events)
    assert count(found) == {"r1": 1}
    alone = run_alone(rules).collect(events)
    assert {name: each.notes for name, each in found.items()} == {
        name: each.notes for name, each in alone.items()
    }
    assert "no event has the type 'B2'" in "".join(found["r2"].notes)
    shared = {name: text.replace(" ; ", " ; C ; ") for name, text in own.items()}
    shared["last"] = "SELECT * FROM S WHERE C"
    assert cernis.rules(shared).bundles == []


def test_windows_of_one_bundle_differ_by_a_factor_of_four_at_most() -> None:
    texts = make_mixed(range(2 * SMALLEST))
    for name in [*texts][SMALLEST:]:
        texts[name] = texts[name].replace("9 ms", "9 DAYS")
    assert len(cernis.rules(texts).bundles) == 2


def test_events_without_times_are_read_rule_by_rule() -> None:
    texts = {name: text.removesuffix("WITHIN 9 ms") for name, text in make_mixed().items()}
    rules = cernis.rules(texts)
    events = tell("A", range(9), 1) + tell("B", range(9), 2)
    untimed = [{k: v for k, v in event.items() if k != "ts"} for event in events]
    session = rules.session()
    assert len(count(session.push(untimed))) == SMALLEST // 2
    assert len(session.running) == SMALLEST


def test_the_mistakes_of_all_rules_of_a_bundle_are_named() -> None:
    rules = cernis.rules(make_mixed())
    with pytest.raises(RuleSetError) as caught:
        rules.run(pa.table({"type": ["A"], "host": ["h1"], "ts": [1]}))
    assert caught.value.rules == rules.names
    assert "'size'" in str(caught.value)


def test_sessions_in_threads_share_the_tables_of_a_bundle() -> None:
    rules = cernis.rules(make_mixed())
    events = [
        event for ts in range(40) for event in tell("AB"[ts % 2], range(ts % 7, SMALLEST), ts)
    ]
    expected = count(run_alone(rules).collect(events))
    found: list[dict[str, int]] = []
    threads = [Thread(target=lambda: found.append(count(rules.run(events)))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4


def test_the_state_of_other_rules_is_refused() -> None:
    rules = cernis.rules(make_mixed())
    session = rules.session()
    session.push(tell("A", range(SMALLEST), 1))
    tree = unpack(session.freeze())
    for wrong in ([[0, 0], [0, 1]], [[0, 1], [3, 3]], [[0, 1], [0]], [[], []]):
        with pytest.raises(StateError):
            rules.thaw(pack({**tree, "groups": [[*wrong, False]]}))
    own = unpack(tree["rule.0"].tobytes())
    engine, other = own["engine"], {"owner": 99, "columns": [], "states": []}
    for changed in (
        {"units": []},
        {"slots": engine["slots"][:, :0]},
        {"units": [other]},
        {"labels": [[], ["z"]]},
    ):
        wrong_state = pack({**own, "engine": {**engine, **changed}})
        with pytest.raises(StateError):
            rules.thaw(pack({**tree, "rule.0": np.frombuffer(wrong_state, np.uint8)}))


def test_a_state_of_states_that_no_session_has_met_is_thawed() -> None:
    session = cernis.rules(make_mixed()).session()
    session.push(tell("A", range(SMALLEST), 1))
    fresh = cernis.rules(make_mixed()).thaw(session.freeze())
    events = tell("B", range(SMALLEST), 2)
    assert count(fresh.push(events)) == {f"r{i}": 1 for i in range(0, SMALLEST, 2)}


def test_a_rule_that_replaces_another_does_not_go_on_with_its_partial_matches() -> None:
    texts, last = make_mixed(range(SMALLEST + 1)), f"r{SMALLEST}"
    session = cernis.rules(texts).session()
    session.push(tell("A", range(SMALLEST + 1), 1))
    texts[last] = texts[last].replace(f"size > {SMALLEST}", "size > 1")
    session.update(cernis.rules(texts))
    assert len(session.running) == 1
    session.push(tell("A", range(SMALLEST + 1), 2))
    found = count(session.push(tell("B", range(SMALLEST + 1), 3)))
    assert found == {f"r{i}": 2 for i in range(0, SMALLEST, 2)} | {last: 1}
