"""Rules of different shapes share an engine, and each finds what it finds alone."""

from __future__ import annotations

from threading import Thread
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cernis
from cernis.engine.unary.freeze import pack, unpack
from cernis.errors import StateError
from cernis.run import bundles
from cernis.run.bundles import SMALLEST, find_kind
from cernis.run.rule import RuleSetError
from cernis.run.rules import RuleSession, RuleSet
from cernis.run.session import RunOptions
from cernis.testing.grammar import split_batches
from cernis.testing.strategies import cuts

some = settings(
    max_examples=max(25, settings.default.max_examples // 4),
    suppress_health_check=list(HealthCheck),
)
HOSTS = ["h0", "h1", "h2"]
KEYS = ("", "PARTITION BY [user]", "PARTITION BY [user], [kind, size]")
WINDOWS = ("", "WITHIN 2 MILLISECONDS", "WITHIN 4 MILLISECONDS", "WITHIN 3 MILLISECONDS")


@st.composite
def shapes(draw: st.DrawFn, key: str) -> str:
    """Draw a rule on the events of one host, or of two."""
    names = "abcd"[: draw(st.integers(1, 4))]
    steps = [f"{draw(st.sampled_from(['A', 'B', 'A', 'S>B', '*']))} AS {name}" for name in names]
    if len(steps) > 2 and draw(st.booleans()):
        steps[:2] = [f"({steps[0]} OR {steps[1]})"]
    host = draw(st.sampled_from(HOSTS))
    tests = [f"{name}[host = '{host}']" for name in names]
    if draw(st.booleans()):
        tests[0] = f"{names[0]}[host IN {{'{host}', 'h2'}}]"
    name, number = draw(st.sampled_from(names)), draw(st.integers(0, 4))
    conditions = ("size > {0}", "size <= {0}", "size = {0}", "kind != {0}", "kind IS NULL")
    for condition in draw(st.lists(st.sampled_from(conditions), max_size=2)):
        tests.append(f"{name}[{condition.format(number)}]")
    chosen = draw(st.sampled_from(["*", names[-1], f"{names[0]}[size] AS first", "START, END"]))
    if "(" in steps[0] and "[" in chosen:
        chosen = "*"
    within, limit = draw(st.sampled_from(WINDOWS)), draw(st.sampled_from(["", "LIMIT 1"]))
    return (
        f"SELECT {chosen} FROM S WHERE ({' ; '.join(steps)}) FILTER {' AND '.join(tests)} "
        f"{key} {within} {limit}"
    )


@st.composite
def rule_sets(draw: st.DrawFn, smallest: int = 12) -> RuleSet:
    key = draw(st.sampled_from(KEYS))
    texts = draw(st.lists(shapes(key), min_size=smallest, max_size=16))
    return cernis.rules({f"r{i}": text for i, text in enumerate(texts)})


@st.composite
def logs(draw: st.DrawFn) -> pa.Table:
    number = draw(st.integers(0, 16))
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
        assert matches.notes == alone[name].notes


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


@some
@given(st.data())
def test_rules_join_and_leave_a_bundle_that_runs(data: st.DataObject) -> None:
    """In pieces, with restarts, and with rules that come, go and change."""
    rules, whole = data.draw(rule_sets()), data.draw(logs())
    session, alone = rules.session(), run_alone(rules)
    for piece in split_batches(range(whole.num_rows), data.draw(cuts(whole.num_rows))):
        part = whole.slice(piece[0] if piece else 0, len(piece))
        assert_same(session.push(part), alone.push(part))
        numbers = {name: each.events for name, each in session.metrics().items()}
        assert numbers == {name: each.events for name, each in alone.metrics().items()}
        if data.draw(st.booleans()):
            session = session.rules.thaw(session.freeze())
        if data.draw(st.booleans()):
            texts = {rule.name: rule.text for rule in session.rules}
            others = {rule.name: rule.text for rule in data.draw(rule_sets())}
            for name in data.draw(st.lists(st.sampled_from([*texts, *others]), max_size=4)):
                if name in others:
                    texts[name] = others[name]
                elif len(texts) > 1:
                    del texts[name]
            rules = cernis.rules(texts)
            assert session.update(rules) == alone.update(rules)


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
    assert f"bundles      {SMALLEST} rules of other shapes share 1 engines" in rules.explain()
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


def test_more_rules_than_a_bundle_holds_are_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundles, "MOST_RULES", SMALLEST)
    rules = cernis.rules(make_mixed(range(2 * SMALLEST + 1)))
    assert [len(each.rules) for each in rules.bundles] == [SMALLEST, SMALLEST]
    events = tell("A", range(20), 1) + tell("B", range(20), 2) + tell("A", range(20), 3)
    assert_same(rules.run(events), run_alone(rules).collect(events))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM S WHERE (A AS a ; B+ AS b) FILTER a[host = 'h'] AND b[host = 'h']",
        "SELECT NEXT * FROM S WHERE (A AS a ; B AS b) FILTER a[host = 'h'] AND b[host = 'h']",
        "SELECT * FROM S WHERE A AS a FILTER a[host = 'h'] CONSUME BY ANY",
        "SELECT * FROM S WHERE A AS a FILTER a[host = 'h'] AND a[size > other]",
        "SELECT * FROM S WHERE A AS a FILTER a[host = 'h'] AND a[host > 'b']",
        "SELECT COUNT(*) FROM S WHERE A AS a FILTER a[host = 'h']",
        "SELECT * FROM S WHERE A AS a",
    ],
)
def test_rules_that_choose_or_compare_more_run_alone(text: str) -> None:
    [rule] = cernis.rules({"r": text})
    assert find_kind(rule) is None


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
    meta, arrays = unpack(session.freeze())
    for wrong in ([[0, 0], [0, 1]], [[0, 1], [3, 3]], [[0, 1], [0]], [[], []]):
        with pytest.raises(StateError):
            rules.thaw(pack({**meta, "bundles": [wrong]}, arrays))
    own, parts = unpack(arrays["rule.0"].tobytes())
    engine = own["engine"]
    for changed in ({"units": []}, {"width": 0}, {"units": [[99, []]]}, {"labels": [[], ["z"]]}):
        wrong_state = pack({**own, "engine": {**engine, **changed}}, parts)
        damaged = {**arrays, "rule.0": np.frombuffer(wrong_state, np.uint8)}
        with pytest.raises(StateError):
            rules.thaw(pack(meta, damaged))


def test_a_state_of_states_that_no_session_has_met_is_thawed() -> None:
    session = cernis.rules(make_mixed()).session()
    session.push(tell("A", range(SMALLEST), 1))
    fresh = cernis.rules(make_mixed()).thaw(session.freeze())
    events = tell("B", range(SMALLEST), 2)
    assert count(fresh.push(events)) == {f"r{i}": 1 for i in range(0, SMALLEST, 2)}
