"""Run CORE: a script for another interpreter, which has the package `pycer`.

`pycer` (CORE's own Python package) exists for CPython 3.13 only. `benchmarks.peer` starts this
file under an interpreter that has it and talks to it in JSON lines: one request in, one answer
out. The file imports only the standard library and `pycer`.

The measurement favours CORE: the events are built before the clock starts, they have the symbol's
name and no other attribute, and the clock stops when the engine's own thread has answered the
last event.

A request is `{"query": text}`; the answer `{"seconds": …, "matches": …}` or
`{"error": text}`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from array import array
from pathlib import Path
from typing import Any

DECLARATION = "CREATE STREAM S { EVENT SELL { name:string }, EVENT BUY { name:string } }"


def read_events(pycer: Any, path: Path) -> list[Any]:
    """Return the events of a file: a JSON line with `types` and `names`, then a uint16 each."""
    with path.open("rb") as file:
        header = json.loads(file.readline())
        codes = array("H", file.read())
    declared = pycer.PyOfflineServer().declare_stream(DECLARATION)
    identifiers = {event.name: event.id for event in declared.events_info}
    kinds = [identifiers[name] for name in header["types"]]
    names = header["names"]
    return [
        pycer.PyEvent(kinds[code // len(names)], [pycer.PyStringValue(names[code % len(names)])])
        for code in codes
    ]


def measure(pycer: Any, events: list[Any], query: str) -> dict[str, float]:
    """Return the seconds from the first event to the last answer, and the number of matches."""
    server = pycer.PyOfflineServer()
    server.declare_stream(DECLARATION)
    server.add_query(query)
    begin = time.perf_counter()
    server.send_events(events)
    output = server.get_output()
    seconds = time.perf_counter() - begin
    return {"seconds": seconds, "matches": output.count("\n")}


def main() -> None:
    """Answer requests until the input ends."""
    # CORE prints to standard output, so answers go to a copy of it.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    import pycer

    events = read_events(pycer, Path(sys.argv[1]))
    answers.write(json.dumps({"events": len(events)}) + "\n")
    for line in sys.stdin:
        try:
            answer: dict[str, Any] = dict(measure(pycer, events, json.loads(line)["query"]))
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
    # CORE's logging thread may not survive the interpreter's own shutdown.
    answers.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
