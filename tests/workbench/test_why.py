"""`why`: each number is the oracle's count of the query up to a step, or without an obstacle."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

import cernis
from cernis.cli.main import main
from cernis.errors import CernisError
from cernis.pattern.query import Consume
from cernis.testing.oracle import evaluate
from tools.cases.grammar import RandomCase
from tools.cases.strategies import cases

CASES = min(int(os.environ.get("CERNIS_FUZZ_N", "6")), 5000)
QUERY = (
    "SELECT * FROM trades WHERE (SELL AS s ; BUY AS b) FILTER b[price > 100] "
    "PARTITION BY [name] WITHIN 10 [ts]"
)
EVENTS = [
    {"type": "SELL", "name": "a", "price": 90, "ts": 0},
    {"type": "SELL", "name": "a", "price": 95, "ts": 2},
    {"type": "BUY", "name": "a", "price": 80, "ts": 4},
    {"type": "BUY", "name": "a", "price": 110, "ts": 11},
    {"type": "SELL", "name": "b", "price": 190, "ts": 20},
    {"type": "BUY", "name": "b", "price": 192, "ts": 22},
]


def oracle_count(pattern: Any, events: Any) -> int:
    return len(evaluate(pattern, events))


@settings(max_examples=CASES)
@given(cases(consume=(Consume.NONE,), selects=("*",), limit=False, nan=False, untimed=False))
def test_the_numbers_are_those_of_the_oracle(case: RandomCase) -> None:
    pattern, events = case
    try:
        found = cernis.query(pattern).why(events)
    except CernisError:
        return  # the query does not fit the events
    assert found.matches == oracle_count(pattern, events)
    for step in found.steps:
        assert step.reached in (None, oracle_count(step.pattern, events))
        for each in (*step.lost, *found.relaxed):
            assert each.without in (None, oracle_count(each.pattern, events)), each.text


def test_a_funnel_names_what_partial_matches_are_lost_to() -> None:
    assert str(cernis.query(QUERY).why(EVENTS, rows=[0, 2])) == (
        "1. SELL AS s: 3 events fit, 3 partial matches\n"
        "2. ; BUY AS b: 2 events fit, 2 partial matches\n"
        "   lost to b[price > 100]: 2\n"
        "   lost to WITHIN 10 [ts]: 1\n"
        "2 matches\n"
        "   without WITHIN 10 [ts]: 3 matches (+1)\n"
        "   without PARTITION BY [name]: 2 matches\n"
        "   without b[price > 100]: 4 matches (+2)\n"
        "b[price > 100]: in row 2 price is 80"
    )


def test_a_key_or_an_end_chooses_the_matches_that_count() -> None:
    query = cernis.query(QUERY)
    of_key = query.why(EVENTS, key="b")
    assert ([step.reached for step in of_key.steps], of_key.matches) == ([1, 1], 1)
    of_end = query.why(EVENTS, end=3)
    assert ([step.reached for step in of_end.steps], of_end.matches) == ([2, 1], 1)
    assert {each.text: each.without for each in of_end.relaxed}["WITHIN 10 [ts]"] == 2
    with pytest.raises(CernisError, match="no event of this run is row 9"):
        query.why(EVENTS, end=9)
    assert "<table" in of_key._repr_html_()


def test_the_command_shows_the_funnel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [",".join(map(str, event.values())) for event in EVENTS]
    Path("trades.csv").write_text("\n".join(["type,name,price,ts", *lines]) + "\n")
    assert main(["why", QUERY, "-e", "trades.csv", "--key", "a", "--rows", "0,3"]) == 0
    out = capfd.readouterr().out
    assert out.startswith("key 'a'\n1. SELL AS s: 2 events fit, 2 partial matches\n")
    assert "WITHIN 10 [ts]" in out.splitlines()[-1]
    assert main(["why", QUERY, "-e", "trades.csv", "--rows", "x"]) == 1
    assert "--rows x: expected numbers of rows" in capfd.readouterr().err


def test_guards_and_inner_windows_around_the_steps_are_obstacles() -> None:
    query = cernis.query(
        "SELECT * FROM trades WHERE (((SELL AS s ; BUY AS b) WITHIN 10 [ts]) UNLESS BUY AS c)"
    )
    first, second = query.why(EVENTS).steps
    assert (first.text, first.reached, second.text, second.reached) == (
        "SELL AS s",
        3,
        "; BUY AS b",
        3,
    )
    assert [(each.text, each.more) for each in second.lost] == [
        ("WITHIN 10 [ts]", 0), ("UNLESS BUY AS c", 1),
    ]  # fmt: skip


def test_the_command_takes_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("trades.csv").write_text("type,name,price,ts\nSELL,a,90,0\nBUY,a,80,4\n")
    Path("r.ceql").write_text(
        f"RULE pairs AS {QUERY};\nRULE lone AS SELECT * FROM trades WHERE BUY"
    )
    assert main(["why", "r.ceql", "-e", "trades.csv", "--json", "why.json"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("rule ")] == ["rule pairs", "rule lone"]
    assert json.loads(Path("why.json").read_text())["lone"]["matches"] == 1
    assert main(["why", "r.ceql", "-e", "trades.csv", "--rule", "lone"]) == 0
    assert capfd.readouterr().out.startswith("rule lone\n1. BUY: 1 event fit")
    assert main(["why", "r.ceql", "-e", "trades.csv", "--rule", "x"]) == 1
    assert "there is no rule 'x'; there are pairs, lone" in capfd.readouterr().err
    Path("q.ceql").write_text("SELECT * FROM trades\nWHERE BUY AS b FILTER b[price > $t]")
    assert main(["why", "q.ceql", "-e", "trades.csv"]) == 1
    assert capfd.readouterr().err.startswith(
        "error: q.ceql, line 2, column 33: the parameter $t has"
    )


def test_a_statement_says_which_condition_a_row_does_not_satisfy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("ts,x\n1,5\n2,4\n3,6\n")
    Path("q.sql").write_text(
        "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts PATTERN (a b) DEFINE b AS x > PREV(x))"
    )
    assert main(["why", "q.sql", "-e", "t.csv", "--json", "out.json"]) == 0
    assert "B AS x > PREV(x): 1 row" in capsys.readouterr().out
    assert json.loads(Path("out.json").read_text())["fitting"] == {"A": 3, "B": 1}
    assert main(["why", "q.sql", "-e", "t.csv", "--rows", "0,1"]) == 0
    assert "row 1 does not fit: x = 4, PREV(x) = 5" in capsys.readouterr().out
    assert main(["why", "q.sql", "-e", "t.csv", "--end", "1"]) == 1
    assert main(["why", QUERY, "-e", "t.csv", "--dialect", "trino"]) == 2
