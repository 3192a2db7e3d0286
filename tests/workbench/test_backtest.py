"""`backtest`: rules over a history and as a stream."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path

import pandas as pd
import pytest

import cernis
from cernis.cli.main import main
from cernis.workbench.backtest import backtest

RULES = """\
RULE pairs AS SELECT * FROM S WHERE (A AS a ; B AS b) PARTITION BY [k] WITHIN 2 HOURS;
RULE lone AS SELECT * FROM S WHERE B AS b FILTER b[x > 20]
"""


def test_the_report_counts_alerts_and_the_stream_agrees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    begin = datetime(2024, 1, 1)
    lines = [
        f"{'AB'[i % 2]},{'xy'[i % 5 == 0]},{i},{begin + timedelta(hours=i)}" for i in range(30)
    ]
    Path("S.csv").write_text("\n".join(["type,k,x,ts", *lines]) + "\n")
    Path("r.ceql").write_text(RULES)
    assert main(["backtest", "r.ceql", "-e", "S.csv", "--suppress", "12h", "--json", "r.json"]) == 0
    out = capfd.readouterr().out
    assert out.splitlines()[-1].startswith("the stream agrees: ")
    assert "  SUPPRESS FOR 12h would save " in out
    told = json.loads(Path("r.json").read_text())
    assert told["agrees"]
    pairs, lone = told["rules"]["pairs"], told["rules"]["lone"]
    assert sum(pairs["by_day"].values()) == pairs["alerts"]
    assert sum(each["alerts"] for each in pairs["by_key"]) == pairs["alerts"]
    assert pairs["with_suppress"] < pairs["alerts"]
    assert (lone["alerts"], lone["with_suppress"], lone["by_key"]) == (5, None, None)
    assert (pairs["missing_on_stream"], lone["surplus_on_stream"]) == (0, 0)


def write_events(path: Path, hours: range) -> None:
    begin = datetime(2024, 1, 1)
    lines = [f"{'AB'[i % 2]},{'xy'[i % 5 == 0]},{i},{begin + timedelta(hours=i)}" for i in hours]
    path.write_text("\n".join(["type,k,x,ts", *lines]) + "\n")


def test_alerts_that_a_stream_delivered_are_compared_on_the_time_of_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The stream began later, so its rows have other numbers, and it went on for longer."""
    monkeypatch.chdir(tmp_path)
    write_events(Path("S.csv"), range(30))
    write_events(Path("late.csv"), range(11, 50))
    Path("r.ceql").write_text(RULES)
    stream = ["stream", "r.ceql", "--source", "S=late.csv", "--sink", "alerts", "--once"]
    assert main([*stream, "--output-format", "jsonl"]) == 0
    call = ["backtest", "r.ceql", "-e", "S.csv", "--no-stream", "--alerts"]
    capfd.readouterr()
    assert main([*call, "alerts"]) == 0
    assert "delivered alerts agree from 2024-01-01T" in capfd.readouterr().out
    lines = "".join(path.read_text() for path in Path("alerts").iterdir()).splitlines()
    Path("other.jsonl").write_text("\n".join([*lines[:2], *lines[3:], lines[0]]))
    assert main([*call, "other.jsonl"]) == 1
    assert capfd.readouterr().out.splitlines()[-1].endswith(": 1 missing, 1 more")
    Path("other.jsonl").write_text("{}\n[")
    assert main([*call, "other.jsonl"]) == 1
    assert "other.jsonl, line 2: no JSON" in capfd.readouterr().err
    Path("none").mkdir()
    assert main([*call, "none"]) == 1
    assert "none: no JSON lines" in capfd.readouterr().err


def test_rules_that_read_what_others_insert_are_backtested_and_compared() -> None:
    old = cernis.rules(
        """
        RULE make AS INSERT INTO pairs SELECT b[k] AS k FROM S
          WHERE (A AS a ; B AS b) PARTITION BY [k] WITHIN 2 HOURS;
        RULE two AS SELECT * FROM pairs WHERE pairs AS p ; pairs AS q PARTITION BY [k]
            WITHIN 9 HOURS
        """
    )
    new = cernis.rules("RULE two AS SELECT * FROM S WHERE A AS p ; A AS q PARTITION BY [k]")
    begin = datetime(2024, 1, 1)
    events = [
        {"type": "AB"[i % 2], "k": "xy"[i % 5 == 0], "ts": begin + timedelta(hours=i)}
        for i in range(20)
    ]
    found = backtest(old, events, stream=False)
    assert found.rules["two"].alerts.total > (found.rules["two"].left or 0) > 0
    compared = cernis.diff(old, new, events, sample=0)
    assert compared.rules["two"].lost.total == found.rules["two"].alerts.total


def test_a_history_without_events_and_a_frame_are_backtested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("S.csv").write_text("type,x,k,ts\n")
    Path("r.ceql").write_text(RULES)
    assert main(["backtest", "r.ceql", "-e", "S.csv"]) == 0
    assert capfd.readouterr().out.splitlines()[-1] == "the stream agrees: 0 alerts"
    write_events(Path("S.csv"), range(30))
    frame = pd.read_csv("S.csv", parse_dates=["ts"])
    found = backtest(cernis.rules(RULES), frame)
    assert found.agrees
    assert found.rules["lone"].alerts.total == 5
    assert backtest(
        cernis.rules(RULES.replace(" WITHIN 2 HOURS", "")), frame[["type", "x", "k"]]
    ).agrees


def test_a_conjunctive_query_is_run_over_a_history_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("S.csv").write_text("type,x,ts\nA,1,1\nB,1,2\n")
    call = ["backtest", "Q(x) <- A(x), B(x)", "--lang", "cq", "-e", "S.csv"]
    assert main(call) == 1
    assert (
        "a conjunctive query is not compared with a stream: --no-stream" in capfd.readouterr().err
    )
    assert main([*call, "--no-stream"]) == 0
    assert capfd.readouterr().out == "rule query: 1 alert\n"
