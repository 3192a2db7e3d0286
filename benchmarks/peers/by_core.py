"""CORE as a contestant: a script for another interpreter, which has the package `pycer`.

It imports only the standard library and `pycer`, and speaks the protocol of `answering.py`. The
events have a type and nothing else, as they are asked for nothing else, and are built before the
clock starts; the clock stops when the engine's own thread has answered the last event.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from string import ascii_uppercase
from typing import Any


def main() -> None:
    """Answer questions until the input ends."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # CORE prints to standard output
    import pycer

    answers.write("{}\n")
    declaration, events = "", list[Any]()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "open" in request:
                declaration, events = read_events(pycer, Path(request["open"]))
                answer: dict[str, Any] = {}
            else:
                answer = measure(pycer, declaration, events, request["core"])
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
    os._exit(0)  # its logging thread may not survive the interpreter's own shutdown


def read_events(pycer: Any, path: Path) -> tuple[str, list[Any]]:
    """Return the declaration of a stream, and its events."""
    kinds = [line.split(",")[2] for line in path.read_text().splitlines()]
    types = ", ".join(f"EVENT {kind} {{ n:string }}" for kind in sorted({*kinds, *ascii_uppercase}))
    declaration = f"CREATE STREAM S {{ {types} }}"
    declared = pycer.PyOfflineServer().declare_stream(declaration)
    identifiers = {event.name: event.id for event in declared.events_info}
    value = pycer.PyStringValue("")
    return declaration, [pycer.PyEvent(identifiers[kind], [value]) for kind in kinds]


def measure(pycer: Any, declaration: str, events: list[Any], query: str) -> dict[str, Any]:
    """Return the seconds from the first event to the last answer, and the number of matches."""
    server = pycer.PyOfflineServer()
    server.declare_stream(declaration)
    server.add_query(query)
    begin = time.perf_counter()
    server.send_events(events)
    output = server.get_output()
    return {"seconds": time.perf_counter() - begin, "found": [output.count("\n")]}


if __name__ == "__main__":
    main()
