"""Measure a first answer, in a process that runs this file and imports no other benchmark.

Reads a request on standard input and prints one JSON line: the seconds since this process was
started (`began`, in the clock of the machine), by the clock and by the processor, when it knows the
number of matches and the first three. Making the events is left out.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
import pyarrow as pa

import cernis


def make_events(rows: int) -> pa.Table:
    random = np.random.default_rng(7)
    return pa.table(
        {
            "type": np.array(["SELL", "BUY", "ASK"])[random.integers(0, 3, rows)],
            "name": np.array(["INTC", "MSFT", "AMZN"])[random.integers(0, 3, rows)],
            "price": random.integers(0, 100, rows),
        }
    )


def measure_answer(query: str, rows: int, began: float) -> dict[str, float]:
    """Return the seconds to the first answer."""
    clock, processor = time.perf_counter(), time.process_time()
    events = make_events(rows)
    made = time.perf_counter() - clock, time.process_time() - processor
    matches = cernis.query(query).run(events)
    if not matches.count() or not matches.head(3):
        raise RuntimeError("nothing was found")
    return {
        "clock": time.time() - began - made[0],
        "processor": time.process_time() - made[1],
    }


if __name__ == "__main__":
    answer = measure_answer(**json.loads(sys.stdin.read()))
    sys.stdout.write("\n" + json.dumps(answer) + "\n")
