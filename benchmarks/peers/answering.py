"""What every contestant written in Python does: hold the events, answer question by question.

A line of JSON in, a line of JSON out. `{"open": file}` reads events; any other request is a
question, whose answer has the seconds, the number of matches, and the sums of their first and last
rows. Standard output is the channel of answers.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.peers.write import ComparedSteps, PeerSteps

Found = tuple[int, ...]
"""The number of matches, the sum of their first rows, and that of their last."""
Finder = Callable[[Mapping[str, Any]], Found]


def answer_questions(open_events: Callable[[pa.Table], Finder]) -> None:
    """Answer until the input ends."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    answers.write("{}\n")
    finder: Finder = no_events
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "open" in request:
                finder = open_events(pq.read_table(request["open"]))
                answer: dict[str, Any] = {}
            else:
                clock = time.perf_counter()
                found = finder(request)
                seconds = time.perf_counter() - clock
                answer = {"seconds": seconds, "found": [int(number) for number in found]}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")


def no_events(request: Mapping[str, Any]) -> Found:
    """Refuse a question before there are events."""
    raise ValueError(f"no events for {request}")


def read_steps(given: Mapping[str, Any]) -> PeerSteps:
    """Return the sequence that a request has as JSON."""
    fields: dict[str, Any] = {
        name: tuple(v) if isinstance(v, list) else v for name, v in given.items()
    }
    fields["compared"] = tuple(ComparedSteps(*one) for one in given["compared"])
    return PeerSteps(**fields)


def add_up(found: Iterable[Found]) -> Found:
    """Return the answer to several questions together."""
    total = [0, 0, 0]
    for one in found:
        total = [a + b for a, b in zip(total, one, strict=True)]
    return tuple(total)
