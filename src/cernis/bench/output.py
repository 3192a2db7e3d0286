"""A query run to the end: every match written to Arrow, block by block, and dropped."""

from __future__ import annotations

import pyarrow as pa

from cernis.run.query import Query


def write_matches(query: Query, events: pa.Table) -> int:
    """The number of matches that were written; no more than a block is held at once."""
    return sum(batch.num_rows for batch in query.run(events).batches())
