"""Benchmarks in processes of their own: a JSON request in, a JSON answer out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any


def ask_process(
    module: str,
    request: Mapping[str, Any],
    variables: Mapping[str, str] | None = None,
    *,
    alone: bool = False,
) -> dict[str, Any]:
    """Run a module with a request on its standard input; its last line is the answer.

    `variables` are added to its environment. `alone`: the packages around it are not imported.
    """
    found = find_spec(module) if alone else None
    target = ["-P", found.origin] if found and found.origin else ["-m", module]
    run = subprocess.run(
        [sys.executable, *target],
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
