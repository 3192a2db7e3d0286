"""Each match is there once, whatever fails: one fault, another each time; `make crash` has many."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "crash.py"


@pytest.mark.fuzz  # minutes: each fault starts drivers anew
def test_after_a_fault_a_query_finds_each_match_once() -> None:
    command = [sys.executable, str(SCRIPT), "--faults", "1"]
    if "CERNIS_SEED" in os.environ:
        command += ["--seed", os.environ["CERNIS_SEED"]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    *_, last = done.stdout.splitlines()
    name, faults, matches, *rest = last.split()
    assert (name, faults, rest[:3]) == ("all", "1", ["0", "0", "0"])
    assert int(matches.replace(",", "")) > 20  # the fault, and so the stream, is another each time
