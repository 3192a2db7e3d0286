"""`cernis stream --engine local` on the command line: what it prints, refuses and explains."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from time import sleep

import pytest

from cernis.cli.main import main

PAIRS = "SELECT * FROM S WHERE A AS a ; A AS b WITHIN 1 SECOND"
LINE = '{{"type": "A", "ts": {}}}\n'


def run(*arguments: str) -> int:
    return main(["stream", PAIRS, "--engine", "local", *arguments])


def test_a_signal_commits_and_the_next_run_goes_on(tmp_path: Path) -> None:
    log, out = tmp_path / "S.jsonl", tmp_path / "out"
    log.write_text(LINE.format(0) + LINE.format(500))
    command = [sys.executable, "-m", "cernis", "stream", PAIRS, "--engine", "local"]
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


def test_rules_that_change_are_read_again(tmp_path: Path) -> None:
    log, rules, out = tmp_path / "S.jsonl", tmp_path / "rules", tmp_path / "out"
    rules.mkdir()
    (rules / "one.ceql").write_text("RULE one AS SELECT * FROM S WHERE A AS a")
    log.write_text(LINE.format(0))
    command = [sys.executable, "-m", "cernis", "stream", str(rules), "--engine", "local"]
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--source", "nowhere.jsonl", "--sink", "-"], "no such file or folder"),
        (["--source", "tcp://host", "--sink", "-"], "tcp://host: expected tcp://host:port"),
        (["--source", "-", "--sink", "-", "--cores", "2"], "--cores: not in one process"),
        (["--source", "a=-", "--source", "a=-", "--sink", "-"], "two sources for the stream 'a'"),
        (["--source", "-", "--sink", "-", "--output-format", "parquet"], "gets lines of JSON"),
        (["--source", "-", "--sink", "ftp://host/x"], "knows folders"),
    ],
)
def test_what_it_cannot_do_is_said(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) != 0
    assert message in " ".join(capsys.readouterr().err.split())
