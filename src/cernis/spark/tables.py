"""Tables that are joined to the frames of a query, by Spark's own join.

Rows are numbered before the join, which moves them. A row without a usable time stays whatever its
key: it is an error, or is set aside, as without a table. Spark decides whether a table is broadcast
or shuffled. On a stream the table is static: it is the one that the query was started with, and a
restart may bring another with the same columns. Events of JOIN without a row move the watermark
there, as irrelevant ones do.

Two rows with one key are looked for at once, in a job of its own: an error of a later job would
come in Spark's words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from operator import and_
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from cernis.errors import DataError
from cernis.events.source import read_table
from cernis.pattern.query import Pattern, TableJoin
from cernis.run.tables import extend_schema, find_table
from cernis.spark.catalyst import Columns, attribute
from cernis.spark.frame import Frame, arrow_type
from cernis.spark.options import JobOptions


def join_tables(frame: Frame, pattern: Pattern, options: JobOptions) -> Frame:
    """Return the frame with the rows of its tables, without the events that have none."""
    joins = [join for join in pattern.joins if join.stream == frame.stream]
    for join in joins:
        frame = _join(frame, pattern, join, options)
    return frame


def _join(frame: Frame, pattern: Pattern, join: TableJoin, options: JobOptions) -> Frame:
    table = _open(frame, join.table, options.tables)
    joined = f"j{len(frame.fields)}"
    names = [f"{joined}_{i}" for i in range(len(table.columns))]
    columns = {
        field.name: (F.col(name), field.dataType)
        for field, name in zip(table.schema, names, strict=True)
    }
    types = {field.name: arrow_type(field.dataType) for field in table.schema}
    known = pa.schema({name: type_ for name, type_ in types.items() if type_ is not None})
    extend_schema(pattern, join, frame.arrow, known)
    keys = [_find(columns, name) for _, name in join.keys]
    row = F.struct(*(column.alias(name) for name, (column, _) in columns.items()))
    named = [key.alias(f"{joined}_key{i}") for i, (key, _) in enumerate(keys)]
    rows = table.toDF(*names).filter(_is_comparable(keys)).select(*named, row.alias(joined))
    found = [f"{joined}_key{i}" for i in range(len(keys))]
    _check_keys(join, rows, found)
    own = [_find(frame.columns, name)[0] for name, _ in join.keys]
    equal = reduce(and_, (one == F.col(other) for one, other in zip(own, found, strict=True)))
    data = frame.data.join(rows, equal, "left").drop(*found)
    present = frame.present
    if not join.outer and frame.source.isStreaming:
        present = (*present, F.col(joined).isNotNull())
    elif not join.outer:
        data = data.filter(F.col(joined).isNotNull() | _is_untimed(frame))
    type_ = rows.schema[joined].dataType
    return replace(
        frame,
        data=data,
        present=present,
        fields={**frame.fields, join.table: T.StructField(join.table, type_)},
        columns={**frame.columns, join.table: (F.col(joined), type_)},
    )


def _is_untimed(frame: Frame) -> Column:
    untimed = frame.untimed
    return F.lit(False) if untimed is None else untimed


def _open(frame: Frame, name: str, given: Mapping[str, Any]) -> Any:
    """Return a table as a DataFrame."""
    table = find_table(name, given)
    if hasattr(table, "toDF") and hasattr(table, "isStreaming"):
        if table.isStreaming:
            raise DataError(f"table {name!r} is a streaming DataFrame; a table is a static one")
        return table
    return frame.source.sparkSession.createDataFrame(read_table(name, table))


def _find(columns: Columns, name: str) -> tuple[Column, T.DataType]:
    found = attribute(columns, tuple(name.split(".")))
    assert found is not None
    return found


def _is_comparable(keys: list[tuple[Column, T.DataType]]) -> Column:
    """Return where no part of a key is NULL or NaN, which equal nothing."""
    parts = [key.isNotNull() for key, _ in keys]
    floats = (key for key, type_ in keys if isinstance(type_, (T.FloatType, T.DoubleType)))
    return reduce(and_, [*parts, *(~F.isnan(key) for key in floats)])


def _check_keys(join: TableJoin, rows: Any, keys: list[str]) -> None:
    twice = rows.groupBy(*keys).count().filter("count > 1").head(1)
    if twice:
        pairs = zip(join.keys, twice[0], strict=False)
        key = ", ".join(f"{name} = {value!r}" for (_, name), value in pairs)
        raise DataError(
            f"table {join.table!r}: two rows have the same key, {key}; a key stands for one row"
        )
