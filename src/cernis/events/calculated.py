"""Attributes that are calculated from others of the event, by their names.

The name of a calculated attribute is the text of its value, such as `LOWER(user)` or `(2 * a)`. So
keys, columns of SELECT, frozen states and tasks of Spark name one as they name any other attribute,
and nothing but this file has to know how it comes about.

Cost contract: a text is parsed once for each process; then one pass in Arrow for each operation.
"""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa

from cernis.errors import QueryError
from cernis.events.batch import Int64s, attribute
from cernis.events.evaluate import calculate_column
from cernis.events.times import value_type
from cernis.languages.ceql.parse import parse_value
from cernis.pattern.predicate import Value, attributes_of


@lru_cache(maxsize=4096)
def read_calculated(name: str) -> Value | None:
    """Return the value that a name stands for; None if it is no text of a value.

    >>> read_calculated("LOWER(user)").function, read_calculated("user)")
    ('LOWER', None)
    """
    try:
        return parse_value(name)
    except QueryError:
        return None


def calculate_attribute(table: pa.Table, name: str) -> pa.ChunkedArray | None:
    """Return a calculated attribute of each row; None if the name is no text of a value.

    >>> calculate_attribute(pa.table({"user": ["A", None]}), "LOWER(user)").to_pylist()
    ['a', None]
    """
    value = read_calculated(name)
    if value is None:
        return None

    def lookup(path: tuple[str, ...]) -> pa.Array | None:
        column = attribute(table, path)
        return None if column is None else column.cast(value_type(column.type)).combine_chunks()

    return pa.chunked_array([calculate_column(value, lookup, table.num_rows)])


def take_sources(table: pa.Table, path: tuple[str, ...], rows: Int64s) -> pa.Table:
    """Return some rows of the columns that a calculated attribute is read from."""
    name = ".".join(path)
    value = None if table.schema.get_field_index(name) >= 0 else read_calculated(name)
    if value is None:
        return table.take(pa.array(rows))
    names = {each for source in attributes_of(value) for each in (source.path[0], source.name)}
    known = [column for column in table.column_names if column in names]
    if not known:  # a table without columns has no rows
        known = table.column_names[:1]
    return table.select(known).take(pa.array(rows))
