"""Cernis as a contestant: queries over a table, their matches as Arrow tables."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import cernis
from benchmarks.peers.answering import Finder, Found, add_up, answer_questions


def open_events(events: pa.Table) -> Finder:
    """Return the function that lists matches."""

    def find(request: Mapping[str, Any]) -> Found:
        if "spaseq" in request:
            from cernis.rdf.query import GraphQuery

            streams = dict(zip(*events.to_pydict().values(), strict=True))
            session = GraphQuery(request["spaseq"]).session()
            return (session.collect(streams).write_jsonl(io.BytesIO()),)
        if "sql" in request:
            rows = cernis.sql(request["sql"], s=events).to_arrow()
            return _sum_up(rows, "f", "l")
        texts = request["query"]
        if len(texts) == 1:
            return _sum_up(cernis.query(texts[0]).run(events).to_arrow(), "start", "end")
        rules = {f"r{number}": text for number, text in enumerate(texts)}
        found = cernis.rules(rules).run(events)
        return add_up(_sum_up(matches.to_arrow(), "start", "end") for matches in found.values())

    return find


def _sum_up(found: pa.Table, first: str, last: str) -> Found:
    return (len(found), *(pc.sum(found[name]).as_py() or 0 for name in (first, last)))


if __name__ == "__main__":
    answer_questions(open_events)
