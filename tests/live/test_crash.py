"""A live run that is killed goes on: nothing is lost, nothing comes twice."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parent / "crash.py"


def test_kills_lose_and_double_nothing() -> None:
    command = [sys.executable, str(SCRIPT), "--kills", "2", "--kinds", "file,folder"]
    command += ["--seed", os.environ.get("CERNIS_SEED", "0")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for line in done.stdout.splitlines()[1:]:
        _, kills, matches, lost, doubled, *_ = line.split()
        assert (kills, lost, doubled) == ("1", "0", "0")
        assert int(matches.replace(",", "")) > 10
