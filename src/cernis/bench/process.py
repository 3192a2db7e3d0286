"""Benchmarks in processes of their own: a JSON request in, a JSON answer out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any


def ask_process(
    module: str, request: Mapping[str, Any], variables: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Run a module with a request on its standard input; its last line is the answer.

    `variables` are added to its environment.
    """
    run = subprocess.run(
        [sys.executable, "-m", module],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **(variables or {})},
    )
    if run.returncode:
        raise RuntimeError(f"{module} ended early:\n{run.stderr[-4000:]}")
    answer: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return answer
