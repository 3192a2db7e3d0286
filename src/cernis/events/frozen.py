"""Events and tables as parts of a frozen state.

Tables are written in Arrow's own stream format. What is read is checked before it is used
(`cernis.state`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cernis.errors import DataError, StateError
from cernis.events.batch import EventBatch
from cernis.events.reader import read_stream
from cernis.state import (
    MOST_EVENTS,
    Tree,
    check_list,
    check_mapping,
    check_number,
    check_text,
    read_array,
    require,
)


def freeze_batches(batches: Iterable[EventBatch]) -> list[Tree]:
    """Return a tree of each batch."""
    return [
        {
            "base": batch.base,
            "type": batch.type_column,
            "time": batch.time_column,
            "streams": [name for name, _ in batch.parts],
            "tables": [write_table(_decode_rows(table)) for _, table in batch.parts],
            "rows": batch.rows,
            **({} if batch.which is None else {"which": batch.which}),
            **({} if batch.index is None else {"index": batch.index}),
        }
        for batch in batches
    ]


def thaw_batches(frozen: object) -> Iterator[EventBatch]:
    """Yield the batches that `freeze_batches` has written, if they are sound."""
    for written in check_list(frozen, "the batches"):
        batch = check_mapping(written, "a batch")
        streams = check_list(batch.get("streams"), "the streams of a batch")
        tables = check_list(batch.get("tables"), "the tables of a batch", len(streams))
        named = zip(streams, tables, strict=True)
        parts = tuple((check_text(name, "a stream"), read_table(table)) for name, table in named)
        time = batch.get("time")
        rows = read_array(batch, "rows", np.int64, low=0, below=MOST_EVENTS)
        sizes = np.array([table.num_rows for _, table in parts], np.int64)
        which = index = None
        if "which" in batch:
            which = read_array(batch, "which", np.int16, rows.shape, low=0, below=len(parts))
        if "index" in batch:
            own = sizes[:1] if which is None else sizes[which]
            index = read_array(batch, "index", np.int64, rows.shape, low=0, below=own)
        require(
            len(rows) > 0
            and (which is not None or len(parts) == 1)
            and (index is not None or (which is None and sizes[0] == len(rows))),
            "the rows of a batch are not those of its events",
        )
        yield EventBatch(
            check_number(batch.get("base"), "the position of a batch", 0, MOST_EVENTS),
            rows,
            None,
            parts,
            which,
            index,
            check_text(batch.get("type"), "the type column"),
            None if time is None else check_text(time, "the time column"),
        )


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
