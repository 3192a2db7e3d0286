"""The command line on a terminal: cut tables, no raw control characters, no traceback."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import sys
import termios
from pathlib import Path

import pytest

EVIL = "\x1b[31mred\x07\ttab"
COLUMNS = 60
STYLE = re.compile(r"\x1b\[[?0-9;]*[A-Za-z]|\r(?!\n)")
"""What the program itself sends to a terminal: styles, and moves of the cursor."""


@pytest.fixture(autouse=True)
def trades(tmp_path: Path) -> Path:
    """A directory with a file of trades that have many columns, one with control characters."""
    names = [f"column_{n}" for n in range(12)]
    rows = [f"SELL,{n},{EVIL}," + ",".join("x" * 30 for _ in names) for n in range(3)]
    text = f"type,ts,name,{','.join(names)}\n" + "\n".join(rows) + "\n"
    (tmp_path / "trades.csv").write_text(text)
    return tmp_path


def drive(folder: Path, *arguments: str) -> tuple[str, int]:
    """Run a command on a pseudo-terminal; return what it shows, and its exit code."""
    process, terminal = pty.fork()
    if process == 0:  # pragma: no cover
        os.chdir(folder)
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
        environment = {**os.environ, "TERM": "xterm", "NO_COLOR": "1", "CERNIS_DEBUG": ""}
        environment.pop("COLUMNS", None)
        command = [sys.executable, "-m", "cernis", *arguments]
        os.execve(sys.executable, command, environment)
    shown = b""
    while True:
        try:
            piece = os.read(terminal, 1 << 16)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        shown += piece
    os.close(terminal)
    _, status = os.waitpid(process, 0)
    return shown.decode(), os.waitstatus_to_exitcode(status)


def test_a_wide_table_is_cut_to_the_terminal(trades: Path) -> None:
    names = ", ".join(f"s.column_{n}" for n in range(12))
    text, code = drive(
        trades, "run", f"SELECT {names} FROM trades WHERE SELL AS s", "-e", "trades.csv"
    )
    assert code == 0, text
    lines = STYLE.sub("", text).split("\r\n")
    table = lines[[n for n, line in enumerate(lines) if "start_ts" in line][-1] :]
    assert max(map(len, table)) <= COLUMNS
    assert any(line.strip().startswith("11 more: s[column_1], s[column_2]") for line in table)
    assert "3 matches" in text


def test_control_characters_in_data_and_names_do_not_reach_the_terminal(trades: Path) -> None:
    query = "SELECT s.name AS `\x1b]0;evil\x07` FROM trades WHERE SELL AS s"
    text, code = drive(trades, "run", query, "-e", "trades.csv", "--events-in-output")
    assert code == 0, text
    assert "\x1b[31m" not in text
    assert "\x1b]0" not in text
    assert "\x07" not in text
    assert "␛[31mred␇" in text


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_text_for_a_terminal_has_signs_for_control_characters(form: str, trades: Path) -> None:
    query = "SELECT s.name AS n FROM trades WHERE SELL AS s"
    text, code = drive(trades, "run", query, "-e", "trades.csv", "--output-format", form)
    assert code == 0, text
    assert "\x1b[31m" not in text
    assert "\x07" not in text
    assert "[31mred" in text


def test_columns_in_binary_are_not_for_a_terminal(trades: Path) -> None:
    query = "SELECT * FROM trades WHERE SELL AS s"
    text, code = drive(trades, "run", query, "-e", "trades.csv", "--output-format", "arrow")
    assert code == 2
    assert "write it to a file or a pipe" in text


def test_a_mistake_is_a_message_on_the_terminal(trades: Path) -> None:
    text, code = drive(trades, "run", "SELECT * FROM trades WHERE SELL;;", "-e", "trades.csv")
    assert code == 1
    assert "error: line 1" in text
    assert "Traceback" not in text


def test_help_fits_the_terminal(trades: Path) -> None:
    text, code = drive(trades, "run", "--help")
    assert code == 0
    lines = STYLE.sub("", text).split("\r\n")
    assert any("--output" in line for line in lines)
    assert max(map(len, lines)) <= COLUMNS
