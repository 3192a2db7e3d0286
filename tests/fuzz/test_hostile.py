"""Hostile input is answered or refused: a short run, and all cases that were found before."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parent / "hostile.py"


def run(*arguments: str) -> str:
    """Return what the script printed; an error if it found something."""
    command = [sys.executable, str(SCRIPT), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_no_input_ends_the_process_or_in_an_exception_of_another_kind() -> None:
    *_, last = run("--together", "--cases", "12").splitlines()
    assert last.split()[:2] == ["all", "204"]


def test_cases_that_were_found_before_are_answered_or_refused() -> None:
    *_, last = run("--replay").splitlines()
    assert last.startswith("all")
