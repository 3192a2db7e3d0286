"""Sets of detection rules over wide events: each rule finds what it finds alone."""

from __future__ import annotations

import os
from collections import Counter
from itertools import pairwise
from math import inf
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import cernis
from benchmarks.detections import host_log, write_detection
from cernis.cli.main import main
from cernis.encoding.literals import LiteralSearch
from cernis.encoding.ranges import RangeSearch
from cernis.events.batch import EventBatch
from cernis.pattern.simple_tests import Form, Interval
from cernis.plan.equalities import choose_tests, find_equalities, find_needed, list_tests
from cernis.run.rules.routing import layers, router
from cernis.run.rules.routing.router import RoutedRules, Router
from tools.cases.rule_sets import make_events, write_rule, write_step

CASES = min(int(os.environ.get("CERNIS_FUZZ_N", "12")), 2000)
"""How many random sets are tried; `make fuzz` tries more."""


def list_found(result: Any) -> str:
    found = result.to_arrow().to_pylist() if hasattr(result, "to_arrow") else list(result)
    return repr(found)  # NaN is what it is


def list_values(result: Any) -> str:
    """Return what was found, without the numbers of rows: a rule that came later has others."""
    table = result.to_arrow()
    return repr(table.drop_columns({"start", "end"} & {*table.schema.names}).to_pylist())


def push_all(session: Any, pieces: list[pa.Table]) -> list[Any]:
    """Return what a session finds, piece by piece and at the end; it restarts on its way."""
    found = []
    for number, piece in enumerate(pieces):
        found.append(session.push({"log": piece}))
        if number == 1:
            session = session.rules.thaw(session.freeze())
    found.append(session.finish())
    return [{name: list_found(own) for name, own in each.items()} for each in found]


@pytest.mark.parametrize("seed", range(CASES))
def test_each_rule_finds_what_it_finds_alone(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one run, in pieces with a restart, and with indexes that a sample has chosen."""
    chance = Random(f"detections {seed}")
    texts = {f"r{i}": write_rule(chance) for i in range(chance.choice([3, 12]))}
    events = make_events(chance, 30)
    monkeypatch.setattr(router, "LEAST_SAMPLED", chance.choice([1, 16, 256]))
    rules = cernis.rules(texts)
    together = rules.run({"log": events})
    for name, text in texts.items():
        alone = cernis.query(text).run({"log": events})
        assert list_found(together[name]) == list_found(alone), text
    cuts = [0, 8, 9, 21, 30]
    pieces = [events.slice(a, b - a) for a, b in pairwise(cuts)]
    pushed = push_all(rules.session(), pieces)
    for name, text in texts.items():
        session = cernis.query(text).session()
        found = [list_found(session.push({"log": piece})) for piece in pieces]
        found.append(list_found(session.finish()))
        assert [each[name] for each in pushed] == found, text


def test_generated_rules_find_what_they_find_alone() -> None:
    log = host_log(1500, seed=3, columns=40)
    texts = {f"rule {i}": write_detection(i, seed=5) for i in range(24)}
    found = cernis.rules(texts).run({"log": log})
    for name, text in texts.items():
        assert list_found(found[name]) == list_found(cernis.query(text).run({"log": log})), text


def test_a_text_that_comes_later_is_found_in_small_letters() -> None:
    session = cernis.query("SELECT * WHERE S AS e FILTER e[SQL_ILIKE(x, '%cmd%')]").session()
    for text in ("aaaa CMD", "CMD aaaaaaaaaa", "b cmd"):
        assert session.push({"S": [{"ts": 1, "x": text}]}).count() == 1


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("NOT x = 1", [2]),
        ("(x = 1) IS TRUE", [0]),
        ("(x = 1) IS NOT TRUE", [1, 2, 3]),
        ("(x = 1 OR y = 1) IS FALSE", []),
        ("(x = 1 AND y = 1) IS NOT FALSE", [0, 1, 3]),
        ("flag IS NOT TRUE", [1, 2, 3]),
        ("flag IS FALSE", [2]),
        ("x IS DISTINCT FROM 1", [1, 2, 3]),
        ("x IS DISTINCT FROM y", [1, 2]),
        ("x IS NOT DISTINCT FROM y", [0, 3]),
        ("LOWER(name) IS DISTINCT FROM 'a'", [1, 2, 3]),
    ],
)
def test_not_this_value_can_be_said_of_values_that_are_missing(
    condition: str, rows: list[int]
) -> None:
    events = pa.table(
        {
            "type": ["A"] * 4,
            "x": [1, None, 2, None],
            "y": [1, 1, 1, None],
            "flag": [True, None, False, None],
            "name": ["A", None, "b", None],
        }
    )
    query = cernis.query(f"SELECT * FROM S WHERE A AS a FILTER a[{condition}]")
    assert [match.end for match in query.run(events)] == rows
    assert [match.end for match in cernis.query(str(query)).run(events)] == rows
    assert [match.end for match in cernis.rules({"r": query}).run(events)["r"]] == rows


def test_texts_are_found_wherever_they_stand() -> None:
    search = LiteralSearch(["ab", "b", "cd"])
    plain = pa.chunked_array([["xAB", None, "c"], ["d", "cdab", ""]])
    expected = [(0, 0), (0, 1), (4, 0), (4, 1), (4, 2)]
    for column in (plain, plain.dictionary_encode(), plain.cast(pa.large_string()), plain.slice(0)):
        rows, numbers = search.find(column)
        assert list(zip(rows.tolist(), numbers.tolist(), strict=True)) == expected
    rows, _ = search.find(plain.slice(1, 4))
    assert rows.tolist() == [3, 3, 3]


def test_a_rule_is_found_by_the_rarest_of_its_conditions() -> None:
    text = "SELECT * FROM S WHERE * AS e FILTER e[channel = 'main' AND SQL_ILIKE(cmd, '%Rare%')]"
    needed = find_needed(cernis.query(text).plan)
    assert needed is not None
    assert {test.form for test in choose_tests(needed)} == {Form.EQUAL}
    router = Router({0: RoutedRules((), {None: needed})}, "type")
    events = pa.table({"channel": ["main"] * 500, "cmd": ["x"] * 499 + ["a RARE one"]})
    ((at, _),) = router.route(EventBatch.of(events)).values()
    assert at.tolist() == [499]


def test_a_rule_reads_the_same_events_whichever_condition_finds_it() -> None:
    chance = Random(3)
    texts = [
        f"SELECT * FROM S WHERE * AS e FILTER e[{write_step(chance)} AND EventID = 1]"
        for _ in range(40)
    ]
    needed = [find_needed(cernis.query(text).plan) for text in texts]
    wanted = {owner: each for owner, each in enumerate(needed) if each is not None}
    log = make_events(chance, 600)
    one, other = (Router({0: RoutedRules((), wanted)}, "type") for _ in range(2))
    other.route(EventBatch.of(log.slice(0, 300)))  # it has sampled events
    ((at, owners),) = one.route(EventBatch.of(log.slice(0, 200))).values()
    ((again, whose),) = other.route(EventBatch.of(log.slice(0, 200))).values()
    assert owners is not None
    assert whose is not None
    assert at.tolist() == again.tolist()
    assert owners.tolist() == whose.tolist()
    assert {log["EventID"][int(place)].as_py() for place in at} == {1}


def test_ranges_are_found_as_comparing_each_of_them_finds_them() -> None:
    chance = Random(11)
    bounds = [-inf, *(chance.uniform(-9, 9) for _ in range(20)), 0.0, inf]
    ranges = [Interval(chance.choice(bounds), chance.choice(bounds)) for _ in range(300)]
    values = [*bounds[1:-1], *(chance.uniform(-12, 12) for _ in range(50)), None, float("nan")]
    search, column = RangeSearch(ranges), pa.chunked_array([values, [1, 2]])
    held = [
        (row, number)
        for row, value in enumerate(column.to_pylist())
        for number, (low, high) in enumerate(ranges)
        if value is not None and low <= value <= high
    ]
    rows, numbers = search.find(column)
    assert list(zip(rows.tolist(), numbers.tolist(), strict=True)) == held
    counts = Counter(number for _, number in held)
    assert search.count(column).tolist() == [counts[number] for number in range(len(ranges))]


def test_rules_that_ask_for_a_range_alone_read_the_events_in_it() -> None:
    texts = {
        f"r{low}": f"SELECT * FROM log WHERE * AS e FILTER e[size > {low} AND size <= {low + 10}]"
        for low in range(0, 1000, 10)
    }
    session = cernis.rules(texts).session()
    log = pa.table({"ts": range(500), "size": [3 * (i % 300) for i in range(500)]})
    found = session.push({"log": log})
    for low in range(0, 1000, 10):
        within = sum(low < 3 * (i % 300) <= low + 10 for i in range(500))
        assert found[f"r{low}"].count() == within
        assert session.metrics()[f"r{low}"].events == within


def test_how_many_events_a_rule_has_read_depends_on_no_sample(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Types and ranges as well: a rule reads the events that pass all of its simple tests."""
    chance = Random(4)
    types, sizes = chance.choices("ABC", k=600), chance.choices(range(5), k=600)
    log = pa.table({"ts": range(600), "type": types, "size": sizes, "host": ["x", "y", "y"] * 200})
    texts = {
        name: f"SELECT * FROM log WHERE {name} AS e FILTER e[host = 'x' AND size < {most}]"
        for name, most in (("A", 1), ("B", 3), ("C", 5))
    }
    counted = []
    for least in (1, 400, 10_000):
        monkeypatch.setattr(router, "LEAST_SAMPLED", least)
        session = cernis.rules(texts).session()
        for first in range(0, 600, 100):
            session.push({"log": log.slice(first, 100)})
        counted.append({name: own.events for name, own in session.metrics().items()})
    assert counted[0] == counted[1] == counted[2]
    assert counted[0]["A"] == sum(
        row["type"] == "A" and row["host"] == "x" and row["size"] < 1 for row in log.to_pylist()
    )


def test_rules_that_change_are_found_by_their_own_conditions() -> None:
    chance = Random(5)
    before = {f"r{i}": write_rule(chance) for i in range(12)}
    after = {**before, **{f"r{i}": write_rule(chance) for i in range(3)}}
    events = make_events(chance, 600)
    session = cernis.rules(before).session()
    session.push({"log": events.slice(0, 300)})
    for _ in range(5):  # tests that no rule asks any more are dropped
        session.update(cernis.rules(after))
        session.update(cernis.rules(before))
    session.update(cernis.rules(after))
    found = session.push({"log": events.slice(300)})
    for number in range(3):
        own = cernis.rules({"r": after[f"r{number}"]}).session().push({"log": events.slice(300)})
        assert found[f"r{number}"].count() == own["r"].count(), after[f"r{number}"]
    assert sum(each.count() for each in found.values())


@pytest.mark.parametrize("seed", range(max(1, CASES // 10)))
@pytest.mark.parametrize("share", [0, 8])
def test_what_rules_find_does_not_depend_on_the_changes_before(
    monkeypatch: pytest.MonkeyPatch, seed: int, share: int
) -> None:
    """With changed rules beside the others in each index, or all built anew, and with restarts."""
    monkeypatch.setattr(layers, "SHARE", share)
    chance = Random(f"changes {seed}")
    texts = {f"r{i}": write_rule(chance) for i in range(12)}
    events = make_events(chance, 400)
    session = cernis.rules(texts).session()
    alone: dict[str, Any] = {}
    for first in range(0, 400, 80):
        part = {"log": events.slice(first, 80)}
        found = session.push(part)
        for name, text in texts.items():
            if name not in alone:
                alone[name] = cernis.rules({"r": text}).session()
            assert list_values(found[name]) == list_values(alone[name].push(part)["r"]), text
        for name in chance.sample(sorted(texts), chance.randrange(5)):
            alone.pop(name)
            del texts[name]
            for new in chance.sample([name, f"{name} {first}"], chance.randrange(3)):
                texts[new] = write_rule(chance)
        texts = dict(chance.sample([*texts.items()], len(texts)))
        session.update(cernis.rules(texts))
        if chance.random() < 0.3:
            session = session.rules.thaw(session.freeze())


def test_steps_that_share_a_constant_are_found_by_it() -> None:
    text = "SELECT * FROM S WHERE (A AS a ; B AS b) FILTER a[host = 'x'] AND b[host = 'x']"
    needed = find_needed(cernis.query(text).plan)
    assert needed is not None
    weights = {"A": 2.0, "B": 2.0, "x": 3.0}
    assert {test.value for test in choose_tests(needed, lambda t: weights[str(t.value)])} == {"x"}
    assert {test.value for test in list_tests(needed)} == {"A", "B", "x"}


@pytest.mark.parametrize(
    ("condition", "form", "value"),
    [
        ("SQL_ILIKE(x, 'Abc')", Form.FOLDED, "abc"),
        ("LOWER(x) = 'abc'", Form.FOLDED, "abc"),
        ("SQL_ILIKE(x, '%Abc_d%')", Form.PART, "abc"),
        ("ENDS_WITH(x, 'Abc')", Form.PART, "abc"),
        (r"x LIKE '(?i).*\\a\.EXE'", Form.PART, r"\a.exe"),
        ("CONTAINS(x, 'äbcö')", Form.PART, "bc"),
    ],
)
def test_a_rule_is_found_by_the_texts_that_it_looks_for(
    condition: str, form: Form, value: str
) -> None:
    plan = cernis.query(f"SELECT * FROM S WHERE * AS e FILTER e[{condition}]").plan
    (test,) = find_equalities(plan) or ()
    assert (test.attribute, test.form, test.value) == ("x", form, value)


@pytest.mark.parametrize("condition", ["x LIKE 'a|b'", "NOT CONTAINS(x, 'a')", "x LIKE '.*'"])
def test_other_conditions_on_text_read_every_event(condition: str) -> None:
    plan = cernis.query(f"SELECT * FROM S WHERE * AS e FILTER e[{condition}]").plan
    assert find_equalities(plan) is None


MIXED = """CREATE STREAM S { EVENT A { x:int, y:string } }

RULE good AS SELECT * FROM S WHERE A AS a FILTER a[x = 1];
RULE wrong AS SELECT * FROM S WHRE A;
RULE other AS SELECT * FROM S WHERE A AS a FILTER a[nothing = 1]"""


def test_rules_that_are_wrong_are_left_out_if_the_user_says_so() -> None:
    with pytest.raises(cernis.CernisError, match="rule wrong: line 4"):
        cernis.rules(MIXED)
    with pytest.raises(cernis.CernisError, match="expected 'fail' or 'skip'"):
        cernis.rules(MIXED, on_bad_rule="drop")
    rules = cernis.rules(MIXED, on_bad_rule="skip")
    assert rules.names == ("good",)
    assert [text[:10] for text in rules.refused] == ["rule wrong", "rule other"]
    found = rules.run([{"type": "A", "x": 1, "y": "b", "ts": 1}])
    assert {name: own.count() for name, own in found.items()} == {"good": 1}
    assert "2 rules are left out" in found["good"].notes


def test_rules_that_do_not_fit_the_events_are_left_out() -> None:
    texts = {f"r{i}": f"SELECT * FROM S WHERE A AS a FILTER a[x = {i}]" for i in range(9)}
    texts["bad"] = "SELECT * FROM S WHERE A AS a FILTER a[lacking = 1]"
    events = [{"type": "A", "x": i, "ts": i} for i in range(9)]
    with pytest.raises(cernis.CernisError, match="rule bad"):
        cernis.rules(texts).run(events)
    found = cernis.rules(texts, on_bad_rule="skip").run(events)
    assert {name: own.count() for name, own in found.items()} == {f"r{i}": 1 for i in range(9)}


@pytest.mark.parametrize("number", [1, 9])
def test_columns_that_events_lack_may_be_null(number: int) -> None:
    texts = {
        f"r{i}": f"SELECT a, a[host] FROM S WHERE A AS a FILTER a[x = {i} AND host IS NULL]"
        for i in range(number)
    }
    events = [{"type": "A", "x": i, "ts": i} for i in range(number)]
    session = cernis.rules(texts).session(missing="null")
    found = session.push(events)
    assert {name: own.count() for name, own in found.items()} == {f"r{i}": 1 for i in range(number)}
    assert session.missing == {f"r{i}": ("host",) for i in range(number)}
    (note,) = (note for note in found["r0"].notes if "lack" in note)
    assert note.startswith("1 rule names" if number == 1 else "9 rules name")


def test_the_command_line_leaves_out_rules_and_reads_large_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules, events = tmp_path / "rules.ceql", tmp_path / "S.jsonl"
    padding = "-- " + "x" * 400_000 + "\n"
    rules.write_text(MIXED.replace("RULE", padding + "RULE"))
    events.write_text('{"type": "A", "x": 1, "y": "b", "ts": 1}\n')
    assert main(["check", str(rules)]) == 1
    told = capsys.readouterr().err
    assert "rule other" in told
    assert "rule wrong" in told
    assert main(["check", str(rules), "--on-bad-rule", "skip"]) == 0
    assert "ok: 1 rule" in capsys.readouterr().out
    run = ["run", str(rules), "--events", str(events), "--count"]
    assert main(run) == 1
    assert main([*run, "--on-bad-rule", "skip", "--missing", "null"]) == 0
    assert "2 rules are left out" in capsys.readouterr().err


def test_the_command_line_explains_rules_that_do_not_fit_the_events(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules, events = tmp_path / "rules.ceql", tmp_path / "S.jsonl"
    lacks = "RULE lacks AS SELECT * FROM S WHERE A AS a FILTER a[host = 'x']"
    rules.write_text(f"RULE good AS SELECT * FROM S WHERE A AS a FILTER a[x = 1];\n{lacks}")
    events.write_text('{"type": "A", "x": 1, "ts": 1}\n')
    explain = ["explain", str(rules), "--events", str(events)]
    assert main(explain) == 1
    capsys.readouterr()
    assert main([*explain, "--on-bad-rule", "skip"]) == 0
    assert "note         1 rule is left out\n" in capsys.readouterr().out
    assert main([*explain, "--missing", "null"]) == 0
    told = capsys.readouterr().out
    note = "1 rule names columns that the events lack, which are NULL: lacks (host)"
    assert told.splitlines()[-1] == f"note         {note}"
    assert "lacks: 0%" in told
    assert main(["explain", "SELECT * WHERE A", "--missing", "null"]) == 2


def test_an_or_of_many_texts_is_one_question() -> None:
    many = " OR ".join(f"CONTAINS(x, 'w{i}')" for i in range(4200))
    plan = cernis.query(f"SELECT * FROM S WHERE A AS a FILTER a[{many}]").plan
    assert plan.unary is not None
    assert len(plan.unary.automaton.alphabet.atoms) == 4201
