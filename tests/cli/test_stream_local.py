"""`cernis stream` in one process on the command line: what it prints, refuses and explains."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import redirect_stdout
from io import BytesIO, TextIOWrapper
from pathlib import Path
from subprocess import PIPE
from time import sleep
from typing import Any
from urllib.request import urlopen

import pytest

from cernis.cli.main import main

PAIRS = "SELECT * FROM S WHERE A AS a ; A AS b WITHIN 1 SECOND"
LINE = '{{"type": "A", "ts": {}}}\n'


def run(*arguments: str) -> int:
    return main(["stream", PAIRS, *arguments])


def test_a_signal_commits_and_the_next_run_goes_on(tmp_path: Path) -> None:
    log, out = tmp_path / "S.jsonl", tmp_path / "out"
    log.write_text(LINE.format(0) + LINE.format(500))
    command = [sys.executable, "-m", "cernis", "stream", PAIRS]
    command += ["--source", str(log), "--sink", str(out), "--output-format", "jsonl"]
    command += ["--checkpoint", str(tmp_path / "checkpoint")]
    running = subprocess.Popen([*command, "--trigger", "20ms"], stderr=subprocess.PIPE, text=True)
    while not [*out.glob("matches-*")]:
        assert running.poll() is None
        sleep(0.01)
    running.send_signal(signal.SIGTERM)
    _, said = running.communicate()
    assert (running.returncode, said) == (0, "2 rows in 1 micro-batch; 1 match\n")
    with open(log, "a") as file:
        file.write(LINE.format(900))
    subprocess.run([*command, "--once"], check=True)
    lines = [line for path in sorted(out.iterdir()) for line in path.read_text().splitlines()]
    assert [json.loads(line)["end_ts"] for line in lines] == [500, 900, 900]


@pytest.mark.parametrize(
    ("query", "clauses"),
    [
        ("SELECT LONGEST a FROM S WHERE (A+[1 SECOND]) AS a", "LONGEST"),
        ("SELECT * FROM S WHERE A WITHOUT B FOR 1 HOUR", "WITHOUT … FOR"),
        ("SELECT * FROM S WHERE A ORDER BY A[ts] LIMIT 1 EVERY 1 HOUR", "LIMIT … EVERY"),
        ("SELECT COUNT(*) AS n FROM S WHERE A GROUP BY EVERY 1 HOUR", "GROUP BY EVERY"),
        (
            """RULE a AS SELECT LONGEST A FROM S WHERE A+;
            RULE b AS SELECT * FROM S WHERE A WITHOUT B FOR 1 HOUR""",
            "LONGEST and WITHOUT … FOR",
        ),
    ],
)
def test_a_run_of_what_is_there_says_that_results_are_left_to_the_next(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], query: str, clauses: str
) -> None:
    log = tmp_path / "S.jsonl"
    log.write_text(LINE.format(0) + LINE.format(500))
    command = ["stream", query, "--source", f"S={log}", "--sink", "-", "--once"]
    assert main([*command, "--checkpoint", str(tmp_path / "state")]) == 0
    out, err = capfd.readouterr()
    said = "that events to come decide, if any, are left to the run that reads these"
    assert out == ""
    assert err.startswith(f"note: results of {clauses} {said}\n2 rows in ")
    assert err.endswith("; 0 matches\n")
    assert main(command) == 0  # the end of the inputs decides all but absence
    is_absence = "WITHOUT" in clauses
    assert (f"note: results of WITHOUT … FOR {said}" in capfd.readouterr().err) == is_absence


def test_rules_that_change_are_read_again(tmp_path: Path) -> None:
    log, rules, out = tmp_path / "S.jsonl", tmp_path / "rules", tmp_path / "out"
    rules.mkdir()
    (rules / "one.ceql").write_text("RULE one AS SELECT * FROM S WHERE A AS a")
    log.write_text(LINE.format(0))
    command = [sys.executable, "-m", "cernis", "stream", str(rules)]
    command += ["--source", f"S={log}", "--sink", str(out), "--output-format", "jsonl"]
    running = subprocess.Popen([*command, "--trigger", "20ms"], stderr=subprocess.PIPE, text=True)
    while not [*out.glob("matches-*")]:
        assert running.poll() is None
        sleep(0.01)
    (rules / "two.ceql").write_text("RULE two AS SELECT * FROM S WHERE A AS a")
    assert running.stderr is not None
    assert running.stderr.readline() == "rules: added two; kept one\n"
    with open(log, "a") as file:
        file.write(LINE.format(900))
    while len([*out.glob("matches-*")]) < 2:
        assert running.poll() is None
        sleep(0.01)
    running.send_signal(signal.SIGTERM)
    running.communicate()
    lines = [line for path in sorted(out.iterdir()) for line in path.read_text().splitlines()]
    found = [(match["rule"], match["end_ts"]) for match in map(json.loads, lines)]
    assert found[0] == ("one", 0)
    assert sorted(found[1:]) == [("one", 900), ("two", 900)]


def test_operators_ask_reload_and_stop_it(tmp_path: Path) -> None:
    log, rules = tmp_path / "S.jsonl", tmp_path / "rules.ceql"
    rules.write_text("RULE one AS SELECT * FROM S WHERE A AS a")
    log.write_text(LINE.format(0))
    command = [sys.executable, "-m", "cernis", "stream", str(rules), "--source", f"S={log}"]
    command += ["--sink", "-", "--listen", "127.0.0.1:0", "--log", "json"]
    running = subprocess.Popen(command, stderr=PIPE, stdout=PIPE, text=True)
    assert running.stderr is not None
    assert running.stdout is not None
    assert json.loads(running.stdout.readline())["rule"] == "one"
    said = json.loads(running.stderr.readline())
    assert said["level"] == "note"
    address = said["message"].removeprefix("metrics at ")
    counted = b""
    while b'cernis_rule_matches_total{rule="one"} 1' not in counted:  # once the round has ended
        with urlopen(address) as answer:
            counted = answer.read()
    with urlopen(address.replace("/metrics", "/health")) as answer:
        assert json.load(answer)["status"] == "running"
    seen = rules.stat()
    rules.write_text("RULE two AS SELECT * FROM S WHERE A AS a")
    os.utime(rules, ns=(seen.st_atime_ns, seen.st_mtime_ns))  # no change that a look could see
    running.send_signal(signal.SIGHUP)
    assert json.loads(running.stderr.readline())["message"] == "rules: added two; removed one"
    running.send_signal(signal.SIGTERM)
    *_, last = running.communicate()[1].splitlines()
    assert running.returncode == 0
    assert json.loads(last)["message"].startswith("1 row in ")


def test_a_service_that_waits_for_its_first_events_is_healthy(tmp_path: Path) -> None:
    log, rules = tmp_path / "S.jsonl", tmp_path / "rules.ceql"
    rules.write_text("RULE one AS SELECT * FROM S WHERE A AS a")
    log.touch()
    command = [sys.executable, "-m", "cernis", "stream", str(rules), "--source", f"S={log}"]
    command += ["--sink", "-", "--listen", "127.0.0.1:0", "--log", "json"]
    running = subprocess.Popen(command, stderr=PIPE, stdout=PIPE, text=True)
    assert running.stderr is not None
    assert running.stdout is not None
    address = json.loads(running.stderr.readline())["message"].removeprefix("metrics at ")
    with urlopen(address.replace("/metrics", "/health")) as answer:
        assert json.load(answer)["status"] == "waiting for the first events"
    running.send_signal(signal.SIGHUP)  # which ends a process that does not catch it
    log.write_text(LINE.format(0))
    assert json.loads(running.stdout.readline())["rule"] == "one"
    running.send_signal(signal.SIGTERM)
    running.communicate()
    assert running.returncode == 0


def test_memory_has_a_bound_and_an_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "S.jsonl"
    log.write_text(LINE.format(0))
    kept = ["--checkpoint", str(tmp_path / "cp")]
    assert run("--source", str(log), "--sink", "-", "--max-memory", "1", *kept) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: --max-memory 1: this process needs ")
    assert "all that was read is in the checkpoint" in said
    assert run("--source", str(log), "--sink", "-", "--once", *kept) == 0
    assert capsys.readouterr().err.startswith("0 rows in ")


def test_following_has_no_files_to_write(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", PAIRS, "--events", "-", "--follow", "--count"]) == 2
    assert "--count: does not go with --follow" in " ".join(capsys.readouterr().err.split())


def test_it_is_explained_without_running(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "S.jsonl"
    log.touch()
    run("--source", str(log), "--sink", str(tmp_path / "out"), "--explain")
    said = capsys.readouterr().out
    assert f"source       S: {log}" in said
    assert "out, exactly once" in said
    assert not (tmp_path / "out").exists()


def test_on_spark_a_checkpoint_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--engine", "spark", "--source", "in", "--sink", "out") == 2
    assert "--checkpoint" in capsys.readouterr().err


def test_a_checkpoint_of_spark_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "S.jsonl"
    log.write_text(LINE.format(0))
    (tmp_path / "cp" / "offsets").mkdir(parents=True)
    assert run("--source", str(log), "--sink", "-", "--checkpoint", str(tmp_path / "cp")) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "a run on Spark has begun it; go on with --engine spark" in said
    assert "Only a checkpoint that one process began moves both ways" in said


def test_a_checkpoint_with_a_file_that_grows_is_refused_on_spark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "1.jsonl"
    log.write_text(LINE.format(0))
    kept = ["--source", f"S={log}", "--checkpoint", str(tmp_path / "cp")]
    kept += ["--sink", str(tmp_path / "out"), "--once"]
    assert run(*kept) == 0
    assert run(*kept, "--engine", "spark") == 1
    assert "only a folder or a topic moves to Spark" in capsys.readouterr().err
    assert run(*kept) == 0


def find(query: str, log: Path, *arguments: str) -> list[dict[str, Any]]:
    """Return the matches that a run over a file writes to standard output."""
    with redirect_stdout(TextIOWrapper(BytesIO())) as out:
        options = ["--source", f"S={log}", "--sink", "-", "--once", *arguments]
        assert main(["stream", query, *options]) == 0
        out.flush()
        return [*map(json.loads, out.buffer.getvalue().splitlines())]


def test_columns_rows_and_tables_are_those_that_are_named(tmp_path: Path) -> None:
    log, places = tmp_path / "S.jsonl", tmp_path / "places.csv"
    events = [
        {"type": "A", "ts": 5, "k": 1, "v": "3", "n": 7},
        {"type": "B", "ts": 5, "k": 2, "n": 4},
        {"type": "A", "ts": 9, "k": 2, "v": "x", "late": 2, "n": 9},
    ]
    log.write_text("".join(f"{json.dumps(event)}\n" for event in events))
    columns = ["--schema", "S=type string, v string, late double"]
    found = find("SELECT * FROM S WHERE A AS a FILTER a[late] > 1 OR a[v] = '3'", log, *columns)
    assert [match["end"] for match in found] == [0, 2]
    order = "SELECT * FROM S WHERE B AS b ; A AS a"
    assert [match["end"] for match in find(order, log)] == [2]
    found = find(order, log, "--row", "n")  # B has the lesser number
    assert sorted((match["start"], match["end"]) for match in found) == [(4, 7), (4, 9)]
    places.write_text("k,place\n1,Rome\n2,Oslo\n")
    joins = "JOIN places ON k = places.k WHERE A AS a FILTER a[places.place] = 'Oslo'"
    tables = ["--table", f"places={places}"]
    assert [match["end"] for match in find(f"SELECT * FROM S {joins}", log, *tables)] == [2]
    rules = tmp_path / "rules.ceql"
    rules.write_text(f"RULE one AS SELECT * FROM S {joins}")
    assert [match["end"] for match in find(str(rules), log, *tables)] == [2]


def test_a_signed_checkpoint_goes_on_with_its_secret_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KEY", "0123456789abcdef")
    monkeypatch.setenv("OTHER", "fedcba9876543210")
    log = tmp_path / "S.jsonl"
    log.write_text(LINE.format(0))
    options = ["--source", str(log), "--sink", str(tmp_path / "out"), "--once"]
    options += ["--checkpoint", str(tmp_path / "cp")]
    assert run(*options, "--secret", "env:KEY") == 0
    with open(log, "a") as file:
        file.write(LINE.format(1))
    for secret, message in (((), "is signed"), (("--secret", "env:OTHER"), "another secret")):
        assert run(*options, *secret) == 1
        assert message in capsys.readouterr().err
    assert run(*options, "--secret", "env:KEY") == 0
    assert "1 row in 1 micro-batch; 1 match\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--source", "nowhere.jsonl", "--sink", "-"], "no such file or folder"),
        (["--source", "tcp://host", "--sink", "-"], "tcp://host: expected tcp://host:port"),
        (["--source", "-", "--sink", "-", "--cores", "2"], "--cores: not in one process"),
        (["--source", "-", "--sink", "-", "--format", "protobuf"], "--engine spark has it"),
        (["--source", "-", "--sink", "-", "--schema", "a map<int,int>"], "--engine spark"),
        (["--source", "-", "--sink", "-", "--schema", "X=a int"], "no such stream"),
        (["--source", "a=-", "--source", "a=-", "--sink", "-"], "two sources for the stream 'a'"),
        (["--source", "-", "--sink", "-", "--output-format", "parquet"], "gets lines of JSON"),
        (["--source", "-", "--sink", "ftp://host/x"], "knows folders"),
        (["--source", "-", "--sink", "-", "--listen", "9464"], "expected HOST:PORT"),
        (["--source", "-", "--sink", "-", "--kafka-property", "a"], "expected NAME=VALUE"),
        (["--source", "-", "--sink", "-", "--kafka-property", "a.b=env:NO_SUCH"], "no variable"),
        (
            ["--source", "-", "--sink", "-", "--kafka-property", "isolation.level=x"],
            "Cernis sets this property itself",
        ),
        (["--source", "kafka://h:1/t?starting=soon", "--sink", "-"], "latest or a time, as in"),
    ],
)
def test_what_it_cannot_do_is_said(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) != 0
    assert message in " ".join(capsys.readouterr().err.split())


STATEMENT = """SELECT symbol, 2 * rise AS twice FROM ticks MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY ts MEASURES LAST(price) - FIRST(price) AS rise
  PATTERN (low up+) DEFINE up AS price > PREV(price)) WHERE rise > 1"""


def test_a_statement_goes_on_from_its_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("duckdb")
    file, out = tmp_path / "ticks.csv", tmp_path / "out"
    rows = ["a,12,1", "a,9,2", "b,5,2", "a,11,3", "a,15,4", "a,3,5", "b,8,6", "a,4,7", "b,1,8"]
    options = ["--time-unit", "s", "--ahead", "none", "--once", "--lang", "sql"]
    options += ["--checkpoint", str(tmp_path / "kept"), "--output-format", "jsonl"]
    for number in (4, 7, 9):
        file.write_text("\n".join(["symbol,price,ts", *rows[:number], ""]))
        assert main(["stream", STATEMENT, "--source", str(file), "--sink", str(out), *options]) == 0
        assert "without WITHIN" in capsys.readouterr().err
    found = [json.loads(line) for path in sorted(out.iterdir()) for line in path.open()]
    assert found == [{"symbol": "a", "twice": 12}, {"symbol": "b", "twice": 6}]
    grouped = "SELECT count(*) FROM ticks MATCH_RECOGNIZE (ORDER BY ts PATTERN (a))"
    assert main(["stream", grouped, "--source", str(file), "--sink", "-", "--lang", "sql"]) == 1
    assert "selects and filters rows one by one" in capsys.readouterr().err
