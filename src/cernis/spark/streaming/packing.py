"""Rows as blobs: what travels through the shuffle is one Arrow stream for each bucket.

A micro-batch costs Spark's stateful operator a fixed price for each row and each group, so
there are as few rows and groups as can be. Blobs know where they come from, so that a bucket
can put its events in the order in which they came, however the shuffle mixed them.

Cost: one stable sort of the bucket numbers and one pass over the columns. Knows nothing of
Spark but, in `packed_rows`, which task this is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cernis.errors import DataError
from cernis.spark.streaming.aside import AHEAD, ASIDE, WHOLE, Aside, write_aside
from cernis.spark.worker import BUCKET, STREAM, gather

ARRIVAL, BLOB = "arrival", "blob"
PACKED = f"bucket int, {ARRIVAL} bigint, {BLOB} binary"
_SCHEMA = pa.schema({"bucket": pa.int32(), ARRIVAL: pa.int64(), BLOB: pa.binary()})

_PIECES = 1 << 31


@dataclass(frozen=True)
class Packing:
    """What a task that packs must know."""

    streams: tuple[str, ...]
    aside: Aside | None
    fails: bool
    """Whether an event that cannot be read is an error."""


def packed_rows(packing: Packing, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of a task of Spark's, as blobs."""
    from pyspark import TaskContext

    context = TaskContext.get()
    partition = context.partitionId() if context is not None else 0
    for piece, table in enumerate(gather(batches)):
        unread = table.column(ASIDE).is_valid()
        if pc.any(unread).as_py():
            left_out, table = table.filter(unread), table.filter(pc.invert(unread))
            _check(packing, left_out)
            if packing.aside is not None:
                write_aside(packing.aside, f"in-{partition}-{piece}", left_out, packing.streams)
        table = table.drop_columns([ASIDE])
        if table.num_rows:
            yield from blobs(table, partition * _PIECES + piece)


def _check(packing: Packing, left_out: pa.Table) -> None:
    reasons = left_out.column(ASIDE)
    bad = left_out.filter(pc.not_equal(reasons, AHEAD))
    if packing.fails and bad.num_rows:
        stream = bad.column(STREAM)[0].as_py() if STREAM in bad.column_names else 0
        event = f": {bad.column(WHOLE)[0]}" if WHOLE in bad.column_names else ""
        raise DataError(
            f"stream {packing.streams[stream]!r}: an event cannot be read ({bad.column(ASIDE)[0]})"
            f"{event}; to count such events and go on: on_error='skip', or --on-error skip"
        )


def blobs(table: pa.Table, arrival: int) -> Iterator[pa.RecordBatch]:
    """A blob for each bucket that has rows.

    >>> table = pa.table({BUCKET: pa.array([2, 1, 2], pa.int32()), "a0": [5, 6, 7]})
    >>> [packed] = blobs(table, 0)
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
    """A table as an Arrow stream, with notes in the metadata of its schema."""
    sink = pa.BufferOutputStream()
    table = table.replace_schema_metadata(notes)
    with pa.ipc.new_stream(sink, table.schema, options=_COMPRESSED) as writer:
        writer.write_table(table)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def read_blob(blob: bytes) -> pa.Table:
    """The table of a blob."""
    return pa.ipc.open_stream(pa.py_buffer(blob)).read_all()
