"""Small queries over all short streams: the short form of `make exhaustive`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parent / "agreement.py"
SMALL = ("--events", "2")


def count_queries(*arguments: str, **environment: str) -> int:
    """Return how many queries the script tried; an error if it found a difference."""
    command = [sys.executable, "-W", "ignore", str(SCRIPT), *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    *_, last = done.stdout.splitlines()
    return int(last.removesuffix(" queries"))


def test_queries_of_three_nodes_agree_with_the_oracle() -> None:
    assert count_queries("--nodes", "3", "--part", "7/200") > 15


def test_spaseq_queries_of_three_nodes_agree_with_the_oracle() -> None:
    assert count_queries("--lang", "spaseq", "--nodes", "3", *SMALL, "--part", "7/100") > 7


def test_as_plain_python_the_kernels_agree_and_read_inside_their_arrays() -> None:
    """NumPy checks every index, as NUMBA_BOUNDSCHECK does, without minutes of compilation."""
    small = ("--nodes", "2", *SMALL, "--part", "0/6")
    assert count_queries(*small, NUMBA_DISABLE_JIT="1") > 35
