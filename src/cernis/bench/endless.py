"""A long stream through a session, in a process of its own, for the memory that it takes.

Run as `python -m cernis.bench.endless`; prints one JSON line. Each batch is made, pushed
and dropped, so that what stays is what the session keeps. The resident set is read after
the first batches (code compiled, buffers at their working size) and at its peak.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import cernis
from cernis.generators.stock import stock_stream

_DISTINCT_BATCHES = 4


@dataclass(frozen=True, slots=True)
class Peak:
    """Memory of one process: after the first batches, and the most it ever had.

    `nodes` is the size of the engine's arena at the end, `kept_bytes` that of the events
    which a match may still need.
    """

    settled_bytes: int
    peak_bytes: int
    nodes: int
    kept_bytes: int


def measure_peak(query: str, events: int, batch: int) -> Peak:
    """The memory of a fresh process that pushes so many events through a session."""
    request = json.dumps({"query": query, "events": events, "batch": batch})
    run = subprocess.run(
        [sys.executable, "-m", "cernis.bench.endless"],
        input=request,
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode:
        raise RuntimeError(f"the endless stream ended early:\n{run.stderr}")
    answer = json.loads(run.stdout.splitlines()[-1])
    return Peak(**answer)


def push_stream(query: str, events: int, batch: int) -> Peak:
    """Push the events, look at a match of each batch; the order of the rows is the time."""
    session = cernis.query(query).session()
    batches = [stock_stream(batch, seed).drop_columns(["ts"]) for seed in range(_DISTINCT_BATCHES)]
    settled = 0
    for number in range(max(1, events // batch)):
        session.push(batches[number % _DISTINCT_BATCHES]).head(1)
        if number == 2:
            settled = _read_resident()
    return Peak(
        settled or _read_resident(), _read_peak(), session.engine.records, session.store.nbytes
    )


def _read_resident() -> int:
    return _read_status("VmRSS")


def _read_peak() -> int:
    return _read_status("VmHWM")


def _read_status(field: str) -> int:
    """A memory field of this process in bytes; its peak, where the system has no such fields.

    On Linux `getrusage` would not do: its peak outlives `exec`, so that a process that has
    just started already has its parent's.
    """
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
    values = (int(line.split()[1]) for line in lines if line.startswith(field + ":"))
    return 1024 * next(values)


if __name__ == "__main__":
    asked = json.loads(sys.stdin.read())
    result = push_stream(asked["query"], asked["events"], asked["batch"])
    sys.stdout.write(json.dumps(asdict(result)) + "\n")
