"""The tables of `JOIN`: each event gets the row of a table that has its key.

The row is a struct attribute with the name of the table. It is a dictionary column: an index for
each event, and the table itself, which batches share. So a condition on it is decided once per row
of the table, and a column that only SELECT needs is read for the events of matches alone.

Events of `JOIN` without a row leave the stream before they get a position.

Cost contract: one look-up per event and join (`encoding.lookup`), an index of 4 bytes per stored
event. Of a table with more rows than a batch, the batch takes the rows that it needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cernis.encoding.lookup import Lookup
from cernis.errors import DataError, Diagnostic, QueryError, StateError
from cernis.events.batch import Bools, EventBatch, Int64s, select_events
from cernis.events.evaluation.attributes import attribute
from cernis.events.reading.mistakes import did_you_mean
from cernis.events.source import kind_of, read_table
from cernis.pattern.check.kinds import class_of
from cernis.pattern.query import Pattern, TableJoin
from cernis.pattern.suggest import did_you_mean as suggest


@dataclass(frozen=True, eq=False)
class JoinedTable:
    """A table that is joined to a stream, and its rows by key."""

    join: TableJoin
    rows: pa.StructArray
    lookup: Lookup

    def find_rows(self, events: pa.Table) -> Int64s:
        """Return the row of the table for each event; -1: none."""
        keys = []
        for name, _ in self.join.keys:
            column = attribute(events, tuple(name.split(".")))
            keys.append(pa.chunked_array([pa.nulls(events.num_rows)]) if column is None else column)
        return self.lookup.find(keys)

    def make_column(self, found: Int64s) -> pa.DictionaryArray:
        """Return the rows as a column of structs; NULL where an event has none."""
        rows, missing = self.rows, found < 0
        if len(rows) > len(found):
            used, found = np.unique(np.where(missing, 0, found), return_inverse=True)
            rows = rows.take(pa.array(used))
        indices = pa.array(found.astype(np.int32), mask=missing)
        return pa.DictionaryArray.from_arrays(indices, rows)


class Tables:
    """The tables that a query joins to its streams."""

    def __init__(self, pattern: Pattern, given: Mapping[str, Any]) -> None:
        self.pattern = pattern
        names = dict.fromkeys(join.table for join in pattern.joins)
        read = {name: read_table(name, find_table(name, given)) for name in names}
        self.joined = [_make_joined(pattern, join, read[join.table]) for join in pattern.joins]

    def extend(self, stream: str, schema: pa.Schema) -> pa.Schema:
        """Return the columns of a stream with those of its tables; raise where they clash."""
        for joined in self._of(stream):
            columns = pa.schema(list(joined.rows.type))
            schema = extend_schema(self.pattern, joined.join, schema, columns)
        return schema

    def join(self, batch: EventBatch) -> EventBatch:
        """Return the batch with the rows of its tables, without the events that have none."""
        return self.join_marked(batch)[0]

    def join_marked(self, batch: EventBatch) -> tuple[EventBatch, Bools]:
        """Like `join`, with marks for the events that stay."""
        parts, kept = [], []
        for number, (stream, _) in enumerate(batch.parts):
            table, keep = batch.read_part(number, self._join_part)
            parts.append((stream, table))
            kept.append(keep)
        batch = replace(batch, parts=tuple(parts), chosen=None)
        marks = iter(kept)
        stays = batch.interleave(lambda _, __: next(marks))
        return (batch if stays.all() else select_events(batch, kept)), stays

    def _join_part(self, stream: str, events: pa.Table) -> tuple[pa.Table, Bools]:
        keep = np.ones(events.num_rows, np.bool_)
        for joined in self._of(stream):
            found = joined.find_rows(events)
            if not joined.join.outer:
                keep &= found >= 0
            events = events.append_column(joined.join.table, joined.make_column(found))
        return events, keep

    def _of(self, stream: str) -> Sequence[JoinedTable]:
        return [joined for joined in self.joined if joined.join.stream == stream]

    def describe(self) -> dict[str, str]:
        """Return the columns of each table, as text: a state belongs to them."""
        return {joined.join.table: str(joined.rows.type) for joined in self.joined}

    def check_same(self, others: Mapping[str, str]) -> None:
        """Raise StateError where a table has other columns than before."""
        for name, columns in self.describe().items():
            if name in others and others[name] != columns:
                had = f"it had {others[name]}, and has {columns}"
                raise StateError(f"table {name!r} has changed its columns: {had}")


def extend_schema(
    pattern: Pattern, join: TableJoin, schema: pa.Schema, columns: pa.Schema
) -> pa.Schema:
    """Return the columns of a stream with those of a table; raise where its keys do not fit."""
    if join.table in schema.names:
        message = f"stream '{join.stream}' has a column '{join.table}' of its own"
        raise _refuse(pattern, join, message, "another name for the table")
    for name, column in join.keys:
        own = attribute(schema.empty_table(), tuple(name.split(".")))
        other = attribute(columns.empty_table(), tuple(column.split(".")))
        if own is None:
            message, known = f"unknown attribute '{name}' in ON", schema.names
            raise _refuse(pattern, join, message, ", ".join(known), suggest(name, known))
        if other is None:
            message, known = f"table '{join.table}' has no column '{column}'", columns.names
            raise _refuse(pattern, join, message, ", ".join(known), suggest(column, known))
        for side, each in ((name, own), (f"{join.table}.{column}", other)):
            if _holds_map(each.type):
                message = f"{side} holds maps, which cannot be compared"
                raise _refuse(pattern, join, message, "a key of text, numbers or times")
        one, two = (class_of(kind_of(each.type)) for each in (own, other))
        if one is not None and two is not None and one != two:
            clash = f"{name} is a {one}, {join.table}.{column} is a {two}"
            raise _refuse(pattern, join, f"type clash: {clash}")
    return schema.append(pa.field(join.table, pa.struct(list(columns))))


def _holds_map(type_: pa.DataType) -> bool:
    """Whether values of a type are maps, or have some inside."""
    if pa.types.is_struct(type_):
        return any(_holds_map(field.type) for field in type_.fields)
    is_list = pa.types.is_nested(type_) and hasattr(type_, "value_type")
    return bool(pa.types.is_map(type_)) or (is_list and _holds_map(type_.value_type))


def find_table(name: str, given: Mapping[str, Any]) -> Any:
    """Return the table of that name, in whatever form it was given."""
    if name not in given:
        known = f"; the tables are {', '.join(map(repr, given))}" if given else ""
        raise DataError(
            f"the query joins the table {name!r}, which is not given{known}"
            f"{did_you_mean(name, [*given])}; pass tables={{{name!r}: …}} or --table {name}=FILE"
        )
    return given[name]


def _refuse(
    pattern: Pattern,
    join: TableJoin,
    message: str,
    expected: str | None = None,
    suggestion: str | None = None,
) -> QueryError:
    return QueryError([Diagnostic(message, join.span, expected, suggestion)], pattern.source)


def _make_joined(pattern: Pattern, join: TableJoin, table: pa.Table) -> JoinedTable:
    keys = []
    for _, name in join.keys:
        column = attribute(table, tuple(name.split(".")))
        if column is None:
            message, known = f"table '{join.table}' has no column '{name}'", table.column_names
            raise _refuse(pattern, join, message, ", ".join(known), suggest(name, known))
        keys.append(column)
    lookup = Lookup(keys)
    if lookup.twice is not None:
        first, second = lookup.twice
        named = zip(join.keys, keys, strict=True)
        key = ", ".join(f"{name} = {column[first].as_py()!r}" for (_, name), column in named)
        raise DataError(
            f"table {join.table!r}: rows {first} and {second} have the same key, {key}; "
            "a key stands for one row"
        )
    arrays = [_to_array(column) for column in table.columns]
    return JoinedTable(join, pa.StructArray.from_arrays(arrays, names=table.column_names), lookup)


def _to_array(column: pa.ChunkedArray) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = pc.cast(column, column.type.value_type)
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
