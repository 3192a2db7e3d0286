"""A SPARQL store as a contestant: each event is loaded and asked for; a list of runs joins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from benchmarks.peers.answering import Finder, Found, answer_questions
from benchmarks.spaseq.store import StoreRuns


def open_events(events: pa.Table) -> Finder:
    """Return the function that counts matches."""
    streams = dict(zip(*events.to_pydict().values(), strict=True))

    def find(request: Mapping[str, Any]) -> Found:
        return (StoreRuns(request["spaseq"], None).count(streams),)

    return find


if __name__ == "__main__":
    answer_questions(open_events)
