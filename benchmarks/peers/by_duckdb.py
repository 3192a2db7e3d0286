"""DuckDB as a contestant: joins by time, ASOF joins and window functions, on all cores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import duckdb
import pyarrow as pa

from benchmarks.peers.answering import Finder, Found, answer_questions


def open_events(events: pa.Table) -> Finder:
    """Return the function that runs a statement."""
    database = duckdb.connect()
    database.execute("SET memory_limit = '2GB'")
    database.register("given", events)
    database.execute("CREATE TABLE s AS SELECT * FROM given")

    def find(request: Mapping[str, Any]) -> Found:
        row = database.execute(request["duckdb"]).fetchone()
        assert row is not None
        return tuple(row)

    return find


if __name__ == "__main__":
    answer_questions(open_events)
