"""Events through a pipe: matches are written while more may come, or a note says that they wait."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from cernis.cli.main import main

QUERY = "SELECT * FROM s WHERE A AS a ; B AS b WITHIN 3 SECONDS"
JSON = [f'{{"type": "{"AB"[i % 2]}", "ts": {i * 1000}}}\n' for i in range(6)]
CSV = ["type,ts\n", *(f"{'AB'[i % 2]},{i * 1000}\n" for i in range(6))]
FIRST = '{"start":0,"end":1,"start_ts":0,"end_ts":1000,"vars":{"a":[0],"b":[1]},"partition":{}}\n'


@contextmanager
def running(*options: str, code: str = "pass") -> Iterator[Any]:
    """A run of the query whose standard input stays open."""
    code = f"from cernis.cli.main import app; {code}; app()"
    command = [sys.executable, "-c", code, "run", QUERY, "--events", "s=-", *options]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, bufsize=1, **pipes) as process:  # type: ignore[call-overload]
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("rows", [JSON, CSV], ids=["json", "csv"])
def test_a_match_is_written_before_the_pipe_ends(rows: list[str]) -> None:
    split = len(rows) - 4
    with running("--in-order") as process:
        process.stdin.writelines(rows[:split])
        assert process.stdout.readline() == FIRST
        rest, notes = process.communicate("".join(rows[split:]))
    assert (process.returncode, notes) == (0, "")
    with running("--output", "-") as whole:
        assert whole.communicate("".join(rows)) == (FIRST + rest, "")


def test_a_late_row_is_an_error_if_rows_were_said_to_be_in_order() -> None:
    with running("--in-order") as process:
        _, said = process.communicate(JSON[0] + JSON[3] + JSON[2])
    assert process.returncode == 1
    assert said.startswith(
        "error: standard input, row 2, column 'ts': the event is earlier than the one before it"
    )


def test_without_the_option_a_note_says_that_matches_wait() -> None:
    code = "from cernis.events.reading import pipe; pipe._PATIENCE = 0.0"
    with running("--output", "-", code=code) as process:
        process.stdin.writelines(JSON[:2])
        assert process.stderr.readline() == (
            "note: the rows of a pipe are sorted by time, so matches come when it ends; if they "
            "are in order, --in-order writes matches as they are found\n"
        )
        assert process.communicate() == (FIRST, "")


def test_the_option_is_for_a_query_over_events(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["run", QUERY, "--events", "-", "--in-order", "--engine", "spark"]) == 2
    assert "--in-order: is for one query over events in this process" in capfd.readouterr().err
