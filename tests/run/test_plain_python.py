"""The kernels are plain Python without Numba's compiler, and give the same answers."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import cernis

QUERIES = [
    "SELECT * WHERE (A AS x ; B+ AS y ; C AS z) WITHIN 9 EVENTS",
    "SELECT LAST * WHERE (A AS x ; B AS y) PARTITION BY [id] WITHIN 20 EVENTS",
    "SELECT * WHERE (A AS x ; B AS y ; C AS z) FILTER x[id] = y[id] AND y[id] = z[id]",
    "SELECT * WHERE (A AS x ; B AS y) FILTER x[id] = y[id] AND x[u] != y[u] WITHIN 30 EVENTS",
    "SELECT * WHERE (A+ AS x) FILTER PREV(x)[id] = x[id] AND PREV(x)[u] < x[u]",
    "SELECT * WHERE (A AS x ALL B AS y ALL C AS z) FILTER x[id] = y[id] AND y[id] = z[id]",
    "SELECT * WHERE (A AS x ; B AS y ; C AS z) FILTER x[id] = z[id] WITHIN 12 EVENTS",
]


def counts() -> list[int]:
    draw = random.Random(3)
    events = [
        {"type": draw.choice("ABC"), "id": draw.randrange(4), "u": draw.randrange(5)}
        for _ in range(60)
    ]
    return [cernis.query(query).run(events).count() for query in QUERIES]


def test_without_the_compiler_the_answers_are_the_same() -> None:
    here = Path(__file__)
    source = here.parents[2] / "src"
    script = (
        f"import runpy, json; m = runpy.run_path({str(here)!r}); print(json.dumps(m['counts']()))"
    )
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(source)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == counts()
