"""Matches as flat columns, for CSV: numbers, texts and times, one value in a cell.

What has several values is JSON text: the row numbers of a variable, the values of an attribute that
SELECT names of it. Cost contract: linear in the positions, in Arrow, except for attributes that are
nested themselves.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from cernis.events.store import EventStore
from cernis.pattern.query import Variable
from cernis.results.formats.columns import MatchFields, distinct_names, record_batch
from cernis.results.formats.jsonlines import list_events, list_rows, list_values
from cernis.results.sets.matchset import MatchBlock
from cernis.results.values import iso_duration, json_texts


def flat_batch(
    block: MatchBlock, fields: MatchFields, events: EventStore, *, whole: bool = False
) -> pa.RecordBatch:
    """Return the matches of a block; with `whole`, variables are lists of events, not of rows."""
    names, columns = [], []
    batch = record_batch(block, fields.without_variables(), events)
    others = iter(zip(batch.schema.names, batch.columns, strict=True))
    for _ in range(len(batch.schema.names) - len(fields.terms)):
        name, column = next(others)
        names.append(name)
        columns.append(flatten_column(column))
    for item in fields.items:
        if not isinstance(item, Variable):
            name, column = next(others)
            names.append(name)
            columns.append(flatten_column(column))
            continue
        v = fields.variables.index(item.name)
        held = block.positions[v], block.offsets[v]
        if whole:
            names.append(item.name)
            columns.append(list_events(*held, events, item.attributes))
        elif not item.attributes:
            names.append(item.name)
            columns.append(list_rows(*held, events))
        for attribute in () if whole else item.attributes:
            names.append(f"{item.name}[{attribute}]")
            columns.append(list_values(*held, events, attribute))
    return pa.RecordBatch.from_arrays(columns, distinct_names(names))


def flatten(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch whose columns a CSV file can hold.

    >>> flatten(pa.record_batch({"a": [1], "b": [[1, 2]]})).to_pydict()
    {'a': [1], 'b': ['[1,2]']}
    """
    columns = [flatten_column(column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)


def flatten_column(column: pa.Array) -> pa.Array:
    """Return a column of numbers, texts or times as it is, any other one as text."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return flatten_column(column.dictionary_decode())
    if pa.types.is_nested(kind):
        return pc.if_else(column.is_valid(), json_texts(column), pa.scalar(None, pa.string()))
    if pa.types.is_duration(kind):
        ticks = column.cast(pa.int64()).to_pylist()
        texts = [None if tick is None else iso_duration(tick, kind.unit) for tick in ticks]
        return pa.array(texts, pa.string())
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return pa.array([None if v is None else v.hex() for v in column.to_pylist()], pa.string())
    plain = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    dated = pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_null(kind)
    return column if plain or dated or pa.types.is_string(kind) else column.cast(pa.string())
