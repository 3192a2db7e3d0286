"""A long stream through a session, in a process of its own, for the memory that it takes.

Run as `python -m cernis.bench.endless`; prints one JSON line. Each batch is made, pushed
and dropped, so that what stays is what the session keeps. The resident set is read after
the first batches (code compiled, buffers at their working size) and at its peak.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import cernis
from cernis.generators.stock import stock_stream

_DISTINCT_BATCHES = 4


@dataclass(frozen=True, slots=True)
class Peak:
    """Memory of one process: after the first batches, and the most it ever had."""

    settled_bytes: int
    peak_bytes: int
    matches: int


def peak_of(query: str, events: int, batch: int) -> Peak:
    """The memory of a fresh process that pushes so many events through a session."""
    request = json.dumps({"query": query, "events": events, "batch": batch})
    run = subprocess.run(
        [sys.executable, "-m", "cernis.bench.endless"],
        input=request,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    if run.returncode:
        raise RuntimeError(f"the endless stream ended early:\n{run.stderr}")
    answer = json.loads(run.stdout.splitlines()[-1])
    return Peak(answer["settled_bytes"], answer["peak_bytes"], int(answer["matches"]))


def feed(query: str, events: int, batch: int) -> Peak:
    """Push the events; time is left to the order of the rows."""
    session = cernis.query(query).session()
    batches = [stock_stream(batch, seed).drop_columns(["ts"]) for seed in range(_DISTINCT_BATCHES)]
    settled, matches = 0, 0
    for number in range(max(1, events // batch)):
        matches += session.push(batches[number % _DISTINCT_BATCHES]).count()
        if number == 2:
            settled = _resident()
    return Peak(settled or _resident(), _most_resident(), matches)


def _resident() -> int:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return _most_resident()
    return pages * resource.getpagesize()


def _most_resident() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


if __name__ == "__main__":
    asked = json.loads(sys.stdin.read())
    result = feed(asked["query"], asked["events"], asked["batch"])
    answer = {
        "settled_bytes": result.settled_bytes,
        "peak_bytes": result.peak_bytes,
        "matches": str(result.matches),
    }
    sys.stdout.write(json.dumps(answer) + "\n")
