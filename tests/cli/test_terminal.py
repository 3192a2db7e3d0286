"""What people see is plain: no data steers the terminal, and no message is endless."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import cernis
from cernis.cli.main import main
from cernis.errors import LONGEST_MESSAGE, neutralize

ESCAPE = "\x1b]0;title\x07\x1b[31mred\x9b2J\u202e"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def assert_plain(text: str) -> None:
    assert text
    assert neutralize(text) == text


def test_values_and_names_do_not_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    Path("s.jsonl").write_text(json.dumps({"type": "A", "k": ESCAPE}) + "\n")
    query = "SELECT * FROM S WHERE A AS a PARTITION BY [k]"
    assert main(["run", query, "s.jsonl"]) == 0
    out = capsys.readouterr().out
    assert "␛" in out
    assert_plain(out)
    assert main(["run", query, "s.jsonl", "-o", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["partition"]["k"] == ESCAPE
    assert main(["run", query, "s.jsonl", "-o", "\x1b[31m.jsonl"]) == 0
    assert_plain(capsys.readouterr().err)


def test_nor_do_messages_and_notes(capsys: pytest.CaptureFixture[str]) -> None:
    Path("s.csv").write_text(f"type,x\nA,1\nA,{ESCAPE},3\n")
    Path(f"{ESCAPE}.csv").write_text("type,x\nA,1\nA,2,3\n")
    command = ["run", "SELECT * FROM S WHERE A AS a"]
    assert main([*command, "s.csv"]) == 1
    assert_plain(capsys.readouterr().err)
    assert main([*command, f"{ESCAPE}.csv", "--on-error", "skip"]) == 0
    assert_plain(capsys.readouterr().err)
    assert main(["check", f"SELECT * FROM S WHERE A FILTER A[x = '{ESCAPE}' AND ]"]) == 1
    assert_plain(capsys.readouterr().err)
    assert main(["explain", f"SELECT * FROM S WHERE A FILTER A[x = '{ESCAPE}']"]) == 0
    assert_plain(capsys.readouterr().out)
    assert_plain(str(cernis.DataError(f"bad {ESCAPE}")))


def test_a_message_quotes_no_more_than_a_screen(capsys: pytest.CaptureFixture[str]) -> None:
    long = "(" * 400_000
    assert main(["check", f"SELECT * FROM S WHERE A FILTER A[x LIKE '{long}']"]) == 1
    assert len(capsys.readouterr().err) < 4 * LONGEST_MESSAGE
    assert main(["run", "SELECT * FROM S WHERE A", "x" * 100_000]) == 1
    assert len(capsys.readouterr().err) < 2 * LONGEST_MESSAGE
    assert str(cernis.DataError("a" * 10_000 + "b")).endswith("b")
    assert len(str(cernis.DataError("a" * 10_000))) < 2 * LONGEST_MESSAGE


def test_a_command_on_files_does_not_wait_for_pandas() -> None:
    Path("s.csv").write_text("type,ts\nA,1\nB,2\n")
    program = "import sys; from cernis.cli.main import main; print(main(), 'pandas' in sys.modules)"
    command = [sys.executable, "-c", program, "run", "SELECT * FROM S WHERE A ; B", "s.csv"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.endswith("0 False\n"), done.stderr


def test_a_full_disk_is_no_internal_error(capsys: pytest.CaptureFixture[str]) -> None:
    Path("s.jsonl").write_text('{"type": "A"}\n')
    Path("out.jsonl").symlink_to("/dev/full")
    query = "SELECT * FROM S WHERE A AS a"
    for option in ("--output", "--on-error"):
        Path("s.csv").write_text("type\nA\nA,1\n")
        assert main(["run", query, "s.csv", "--on-error", "skip", option, "out.jsonl"]) == 1
        assert capsys.readouterr().err == (
            "error: out.jsonl: cannot be written: No space left on device\n"
        )
    program = "import sys; from cernis.cli.main import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "run", query, "s.jsonl", "-o", "-"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1
    assert done.stderr.decode() == (
        "error: the output, or a temporary file, cannot be written: No space left on device\n"
    )
