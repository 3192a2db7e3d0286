"""Measure the memory of a session on a long stream, in a process of its own.

Run as `python -m benchmarks.endless`; prints one JSON line. Each batch is made, pushed and
dropped, so that only the session's state stays. The resident set is read after the first batches
(code compiled, buffers at their working size) and at its peak.
"""

from __future__ import annotations

import json
import resource
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import cernis
from benchmarks.process import ask_process
from cernis.generators.stock import stock_stream

_DISTINCT_BATCHES = 4


@dataclass(frozen=True, slots=True)
class Peak:
    """The memory of one process after the first batches and at its peak.

    `nodes` is the number of nodes in the engine's arena at the end, `kept_bytes` the size of the
    events that a match may still need.
    """

    settled_bytes: int
    peak_bytes: int
    nodes: int
    kept_bytes: int


def measure_peak(query: str, events: int, batch: int) -> Peak:
    """Return the memory of a new process that pushes so many events through a session."""
    request = {"query": query, "events": events, "batch": batch}
    return Peak(**ask_process("benchmarks.endless", request))


def push_stream(query: str, events: int, batch: int) -> Peak:
    """Push the events and read one match of each batch; rows without times are in order."""
    session = cernis.query(query).session()
    batches = [stock_stream(batch, seed).drop_columns(["ts"]) for seed in range(_DISTINCT_BATCHES)]
    settled = 0
    for number in range(max(1, events // batch)):
        session.push(batches[number % _DISTINCT_BATCHES]).head(1)
        if number == 2:
            settled = _read_status("VmRSS")
    settled = settled or _read_status("VmRSS")
    return Peak(settled, read_peak_bytes(), session.engine.records, session.store.nbytes)


def _read_status(field: str) -> int:
    """Return a memory field of this process in bytes; the peak, if the system has no fields.

    On Linux `getrusage` is no alternative: its peak outlives `exec`, so that a new process has its
    parent's.
    """
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
    values = (int(line.split()[1]) for line in lines if line.startswith(field + ":"))
    return 1024 * next(values)


def read_resident_bytes() -> int:
    """Return the memory of this process in bytes."""
    return _read_status("VmRSS")


def read_peak_bytes() -> int:
    """Return the most memory that this process has had, in bytes."""
    return _read_status("VmHWM")


if __name__ == "__main__":
    result = push_stream(**json.loads(sys.stdin.read()))
    sys.stdout.write(json.dumps(asdict(result)) + "\n")
