"""Pack rows into blobs: one Arrow stream for each bucket travels through the shuffle.

Spark's stateful operator has a fixed cost for each row and each group of a micro-batch, so
there are as few of both as possible. A blob carries its arrival, so that a bucket reads its
events in the order in which they came, however the shuffle mixed them.

Cost: one stable sort of the bucket numbers and one pass over the columns. Imports Spark only
in `pack_rows`, to ask which task this is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cernis.errors import DataError
from cernis.spark.streaming.side_output import AHEAD, EVENT, REASON
from cernis.spark.worker import BUCKET, STREAM, gather

ARRIVAL, BLOB = "arrival", "blob"
PACKED = f"bucket int, {ARRIVAL} bigint, {BLOB} binary"
_SCHEMA = pa.schema({"bucket": pa.int32(), ARRIVAL: pa.int64(), BLOB: pa.binary()})

_PIECES = 1 << 31


@dataclass(frozen=True)
class Packing:
    """The work of a task that packs rows."""

    streams: tuple[str, ...]
    side_output: bool
    """Events that are not read go to their buckets too, which write them to a folder."""
    fails: bool
    """An event that cannot be read is an error."""

    def spread(self, table: pa.Table) -> Iterator[pa.Table]:
        """Yield the rows of events that are read, each with its bucket."""
        yield table


def pack_rows(packing: Packing, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task as blobs."""
    from pyspark import TaskContext

    context = TaskContext.get()
    partition = context.partitionId() if context is not None else 0
    for piece, table in enumerate(gather(batches)):
        arrival = partition * _PIECES + piece
        rejected = table.column(REASON).is_valid()
        if pc.any(rejected).as_py():
            rejected_rows, table = table.filter(rejected), table.filter(pc.invert(rejected))
            _check(packing, rejected_rows)
            if packing.side_output:
                yield from pack_buckets(select_aside(rejected_rows, BUCKET), arrival)
        if table.num_rows:
            for spread in packing.spread(table.drop_columns([REASON])):
                yield from pack_buckets(spread, arrival)


def select_aside(table: pa.Table, *more: str) -> pa.Table:
    """Return the columns that the side output needs, and some more."""
    return table.select([n for n in (*more, REASON, STREAM, EVENT) if n in table.column_names])


def _check(packing: Packing, rejected_rows: pa.Table) -> None:
    reasons = rejected_rows.column(REASON)
    bad = rejected_rows.filter(pc.not_equal(reasons, AHEAD))
    if packing.fails and bad.num_rows:
        stream = bad.column(STREAM)[0].as_py() if STREAM in bad.column_names else 0
        event = f": {bad.column(EVENT)[0]}" if EVENT in bad.column_names else ""
        raise DataError(
            f"stream {packing.streams[stream]!r}: an event cannot be read ({bad.column(REASON)[0]})"
            f"{event}; to count such events and go on: on_error='skip', or --on-error skip"
        )


def pack_buckets(table: pa.Table, arrival: int) -> Iterator[pa.RecordBatch]:
    """Yield a blob for each bucket that has rows.

    >>> table = pa.table({BUCKET: pa.array([2, 1, 2], pa.int32()), "a0": [5, 6, 7]})
    >>> [packed] = pack_buckets(table, 0)
    >>> packed["bucket"].to_pylist(), read_blob(packed[BLOB][1].as_py())["a0"].to_pylist()
    ([1, 2], [5, 7])
    """
    buckets = np.asarray(table.column(BUCKET))
    order = np.argsort(buckets, kind="stable")
    numbers, firsts = np.unique(buckets[order], return_index=True)
    rows = table.drop_columns([BUCKET]).combine_chunks()
    if len(numbers) > 1:
        rows = rows.take(pa.array(order))
    ends = [*firsts[1:], len(order)]
    packed = [
        write_blob(rows.slice(first, end - first))
        for first, end in zip(firsts.tolist(), ends, strict=True)
    ]
    columns = [
        pa.array(numbers, pa.int32()),
        pa.array([arrival] * len(packed), pa.int64()),
        pa.array(packed, pa.binary()),
    ]
    yield pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")


def write_blob(table: pa.Table, notes: dict[str, str] | None = None) -> bytes:
    """Write a table as an Arrow stream, with notes in the metadata of its schema."""
    sink = pa.BufferOutputStream()
    table = table.replace_schema_metadata(notes)
    with pa.ipc.new_stream(sink, table.schema, options=_COMPRESSED) as writer:
        writer.write_table(table)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def read_blob(blob: bytes) -> pa.Table:
    """Read the table of a blob."""
    return pa.ipc.open_stream(pa.py_buffer(blob)).read_all()
