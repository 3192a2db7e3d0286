"""`why`: each number is the oracle's count of the query up to a step, or without an obstacle."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cernis
from cernis.cli.main import main
from cernis.errors import CernisError
from cernis.pattern.query import Pattern
from cernis.testing.oracle import evaluate
from tools.cases.grammar import RandomCase
from tools.cases.strategies import VERSIONS, cases

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


def read_key(pattern: Pattern, event: Any) -> list[Any]:
    """Return the key of an event: of each group of attributes, the first that it has."""
    return [
        next((event[name] for name in group if event.get(name) is not None), None)
        for group in pattern.partition
    ]


@settings(max_examples=CASES)
@given(cases(**VERSIONS), st.data())
def test_the_numbers_are_those_of_the_oracle(case: RandomCase, data: st.DataObject) -> None:
    pattern, events = case
    end = data.draw(st.none() | st.integers(0, len(events) - 1)) if events else None
    try:
        found = cernis.query(pattern).why(events, end=end)
    except CernisError:
        return  # the query does not fit the events
    order = sorted(range(len(events)), key=lambda row: events[row]["ts"])
    rank = {row: position for position, row in enumerate(order)}

    def count(changed: Pattern | None, *, is_end: bool = False) -> int | None:
        """Return how many matches count: all, or up to the end and of its key."""
        if changed is None:
            return None
        matches = evaluate(changed, events)
        if end is None:
            return len(matches)
        key = read_key(pattern, events[end])
        return sum(
            (m.end == end if is_end else rank[m.end] <= rank[end])
            and read_key(pattern, events[m.end]) == key
            for m in matches
        )

    assert found.matches == count(pattern, is_end=True)
    for step in found.steps:
        assert step.reached in (None, count(step.pattern)), step.text
        assert step.events in (None, count(step.fitting)), step.text
        for lost in step.lost:
            assert lost.without in (None, count(lost.pattern)), lost.text
    for each in found.relaxed:
        assert each.without in (None, count(each.pattern, is_end=True)), each.text


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


def test_a_key_that_is_not_that_of_the_end_is_refused() -> None:
    query = cernis.query(QUERY)
    with pytest.raises(CernisError, match="row 3 has the key 'a', and not 'b'"):
        query.why(EVENTS, end=3, key="b")
    assert query.why(EVENTS, end=3, key="a").matches == query.why(EVENTS, end=3).matches
    with pytest.raises(CernisError, match="no event of this run has the key 'z'"):
        query.why(EVENTS, key="z")
    with pytest.raises(CernisError, match="a key has 1 value, of name"):
        query.why(EVENTS, key=("a", "b"))
    nameless = [*EVENTS, {"type": "BUY", "price": 1, "ts": 30}]
    with pytest.raises(CernisError, match="row 6 is in no partition: it has no name"):
        query.why(nameless, end=6)


def test_events_fit_a_step_that_satisfy_its_own_filter() -> None:
    query = cernis.query("SELECT * FROM S WHERE SELL AS s ; (BUY AS b FILTER b[price > 100])+ AS c")
    _, second = query.why(EVENTS).steps
    assert second.events == 2
    query = cernis.query(
        "SELECT * FROM S WHERE (BUY FILTER BUY[price > 150]) AS b ORDER BY b[price] LIMIT 1 OVERALL"
    )
    found = query.why(EVENTS)
    assert [step.events for step in found.steps] == [1]
    assert "without LIMIT 1 OVERALL: 1 match" in str(found)


def test_fewer_matches_without_a_choice_have_their_sign() -> None:
    query = cernis.query("SELECT NEXT * FROM S WHERE A AS a ; B AS b PARTITION BY [k]")
    events = [{"type": t, "k": k, "ts": i} for i, (t, k) in enumerate(["Au", "Av", "Bu", "Bw"])]
    (relaxed,) = (each for each in query.why(events).relaxed if "PARTITION" in each.text)
    assert (relaxed.without, relaxed.more) == (2, 1)
    longest = cernis.query("SELECT LONGEST * FROM S WHERE A+ AS a FILTER a[x > 0] PARTITION BY [k]")
    found = longest.why([{"type": "A", "x": 1, "k": i % 2, "ts": i} for i in range(4)])
    assert "without PARTITION BY [k]: 1 match (-1)" in str(found)


def test_the_budget_of_candidates_can_be_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("S.csv").write_text("type,x,ts\n" + "".join(f"A,{i},{i}\n" for i in range(8)))
    query = "SELECT * FROM S WHERE A+ AS a FILTER AVG(a[x]) > 3"
    assert main(["why", query, "-e", "S.csv", "--budget", "9", "--end", "7"]) == 1
    assert "has more candidates to check than its budget of 9; narrow" in capfd.readouterr().err
    assert main(["why", query, "-e", "S.csv", "--budget", "9999"]) == 0
    assert "lost to AVG(a[x]) > 3: " in capfd.readouterr().out


def test_a_spent_budget_leaves_what_can_be_counted() -> None:
    rows = [{"type": "BA"[i % 2], "x": i, "ts": i} for i in range(16)]
    query = cernis.query("SELECT * FROM S WHERE B AS b ; A+ AS a FILTER b[x > 3] AND AVG(a[x]) > 9")
    found = query.why(rows, budget=9)
    assert "has more candidates to check than its budget of 9" in found.spent
    first, second = found.steps
    assert (first.events, first.reached, second.events, second.reached) == (6, 6, 8, None)
    without = {each.text: each.without for each in found.relaxed}
    assert (
        without["AVG(a[x]) > 9"]
        == cernis.query("SELECT * FROM S WHERE B AS b ; A+ AS a FILTER b[x > 3]").run(rows).count()
    )
    assert "not counted: it would take too many candidates" in str(found)


def test_rules_that_insert_are_counted_and_their_readers_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("S.csv").write_text("type,k,ts\nA,u,0\nB,u,4\n")
    Path("r.ceql").write_text(
        "RULE make AS INSERT INTO D SELECT b[k] AS k FROM S WHERE (A AS a ; B AS b) "
        "PARTITION BY [k];\nRULE two AS SELECT * FROM D WHERE D AS p"
    )
    assert main(["why", "r.ceql", "-e", "S.csv"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0] == "rule make"
    assert "1 match" in lines
    assert lines[-2:] == ["rule two", "not counted: it reads D, which rules make"]
    assert main(["why", "r.ceql", "-e", "S.csv", "--key", "z"]) == 1
    assert capfd.readouterr().err == ("error: rule make: no event of this run has the key 'z'\n")


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
