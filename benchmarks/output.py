"""Write the matches of a query without keeping them."""

from __future__ import annotations

import pyarrow as pa

from cernis.run.query import Query


def write_matches(query: Query, events: pa.Table) -> int:
    """Write every match to Arrow, block by block, and return their number."""
    return sum(batch.num_rows for batch in query.run(events, threads=1).batches())
