"""Measure the memory of a set of detections: run as `python -m benchmarks.rules_process`.

Reads a request on standard input and prints one JSON line: the peak of a process that makes the
log, runs the rules on it and counts what they find.
"""

from __future__ import annotations

import json
import sys

import cernis
from benchmarks.detections import detection_rules, host_log
from benchmarks.endless import read_peak_bytes


def measure_run(rules: int, events: int, seed: int) -> dict[str, int]:
    """Return the peak, and how many matches there are."""
    found = cernis.rules(detection_rules(rules)).run(host_log(events, seed=seed))
    return {"peak": read_peak_bytes(), "matches": sum(own.count() for own in found.values())}


if __name__ == "__main__":
    answer = measure_run(**json.loads(sys.stdin.read()))
    sys.stdout.write("\n" + json.dumps(answer) + "\n")
