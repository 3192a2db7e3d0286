"""Events and tables as parts of a frozen state.

Tables are written in Arrow's own stream format. What is read is checked before it is used
(`cernis.state`).
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cernis.errors import DataError, StateError
from cernis.events.batch import EventBatch
from cernis.events.reading.reader import read_stream
from cernis.state import (
    MOST_EVENTS,
    array,
    frozen_record,
    is_inside,
    listed,
    number,
    optional,
    read_array,
    require,
    text,
)

Int64s = NDArray[np.int64]


@frozen_record
class FrozenBatch:
    """A batch of events: tables, and where the row of each event is."""

    base: int = number(0, MOST_EVENTS)
    type: str = text()
    time: str | None = optional(text())
    streams: list[str] = listed(text())
    tables: list[NDArray[np.uint8]] = listed(array(np.uint8, "bytes"), "streams")
    rows: Int64s = array(np.int64, "rows", low=0, below=MOST_EVENTS)
    which: NDArray[np.int16] | None = optional(array(np.int16, "rows", low=0, below="streams"))
    index: Int64s | None = optional(array(np.int64, "rows", low=0))
    positions: Int64s | None = optional(array(np.int64, "rows", low=0))
    """Those of its events, if these do not follow each other."""


def freeze_batch(batch: EventBatch, positions: Int64s | None = None) -> FrozenBatch:
    """Return the record of a batch, of which some events at these positions may be left."""
    return FrozenBatch(
        batch.base,
        batch.type_column,
        batch.time_column,
        [name for name, _ in batch.parts],
        [write_table(_decode_rows(table)) for _, table in batch.parts],
        batch.rows,
        batch.which,
        batch.index,
        positions,
    )


def thaw_batch(frozen: FrozenBatch) -> EventBatch:
    """Return the batch of a record, if its rows are sound."""
    tables = map(read_table, frozen.tables)
    parts = tuple(zip(frozen.streams, tables, strict=True))
    sizes = np.array([table.num_rows for _, table in parts], np.int64)
    which, index, n = frozen.which, frozen.index, len(frozen.rows)
    is_known = n > 0 and (which is not None or len(parts) == 1)
    if is_known and index is None:
        is_known = which is None and sizes[0] == n
    elif is_known and index is not None:
        is_known = is_inside(index, 0, sizes[:1] if which is None else sizes[which])
    require(is_known, "the rows of a batch are not those of its events")
    base, rows, type_, time = frozen.base, frozen.rows, frozen.type, frozen.time
    return EventBatch(base, rows, None, parts, which, index, type_, time)


def _decode_rows(table: pa.Table) -> pa.Table:
    """Return the table with the rows of joined tables in place: not the whole of those tables."""
    for i, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type) and pa.types.is_struct(field.type.value_type):
            chunks = [chunk.dictionary_decode() for chunk in table.column(i).chunks]
            decoded = pa.chunked_array(chunks, field.type.value_type)
            table = table.set_column(i, field.name, decoded)
    return table


def write_table(table: pa.Table) -> NDArray[np.uint8]:
    """Return a table as an array of a frozen state."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return np.frombuffer(sink.getvalue(), np.uint8)


def read_table(frozen: object) -> pa.Table:
    """Return a table of a frozen state, if it is sound."""
    written = read_array({"table": cast(Any, frozen)}, "table", np.uint8)
    try:
        table = read_stream(written.tobytes())
    except DataError as error:
        raise StateError(f"the frozen state is damaged: {error}") from error
    require(len(set(table.column_names)) == table.num_columns, "a column comes twice")
    return table
