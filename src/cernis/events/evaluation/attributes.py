"""The attributes of events by their names: columns, fields of structs, and calculated ones.

The name of a calculated attribute is the text of its value, such as `LOWER(user)` or `(2 * a)`. So
keys, columns of SELECT, frozen states and tasks of Spark name one as they name any other attribute,
and nothing but this file has to know how it comes about.

Cost contract: a text is parsed once for each process; then one pass in Arrow for each operation.
The last tables that were read keep their calculated attributes, so that a key, a comparison and
another attribute that use the same function compute it once for a batch.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import lru_cache
from threading import local
from weakref import ref

import pyarrow as pa
import pyarrow.compute as pc

from cernis.errors import QueryError
from cernis.events.batch import Int64s
from cernis.events.column_types import value_type
from cernis.events.evaluation.evaluate import SharedLookup, calculate_column
from cernis.languages.ceql.parse import parse_value
from cernis.pattern.predicate import Value, attributes_of


def attribute(table: pa.Table, path: tuple[str, ...]) -> pa.ChunkedArray | None:
    """Return the column that a (dotted) attribute names, or None where the table has none.

    The name of a calculated attribute is its text: `LOWER(user)`.

    >>> attribute(pa.table({"user": [{"id": 7}, None]}), ("user", "id")).to_pylist()
    [7, None]
    """
    schema = table.schema  # an index, where `column_names` is a list that is made for each call
    if len(path) > 1 and (whole := schema.get_field_index(".".join(path))) >= 0:
        return table.column(whole)
    if (first := schema.get_field_index(path[0])) < 0:
        if path[-1].endswith(")"):
            return calculate_attribute(table, ".".join(path))
        return None
    column = table.column(first)
    for name in path[1:]:
        type_ = column.type
        shared = pa.types.is_dictionary(type_)  # the rows of a joined table
        fields = type_.value_type if shared else type_
        if not pa.types.is_struct(fields) or fields.get_field_index(name) < 0:
            return None
        column = _read_field(column, name) if shared else pc.struct_field(column, name)
    return column


def _read_field(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """Return a field of structs that are shared by index."""
    chunks = [
        pa.DictionaryArray.from_arrays(chunk.indices, pc.struct_field(chunk.dictionary, name))
        for chunk in column.chunks
    ]
    type_ = pa.dictionary(column.type.index_type, column.type.value_type.field(name).type)
    return pa.chunked_array(chunks, type_)


_parse = lru_cache(maxsize=4096)(parse_value)
"""A text that cannot be read may be one later, when its function is registered."""


def read_calculated(name: str) -> Value | None:
    """Return the value that a name stands for; None if it is no text of a value.

    >>> read_calculated("LOWER(user)").function, read_calculated("user)")
    ('LOWER', None)
    """
    try:
        return _parse(name)
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
    return pa.chunked_array([calculate_column(value, share_lookup(table), table.num_rows)])


_MOST_TABLES = 8
_RECENT = local()


def share_lookup(table: pa.Table) -> SharedLookup:
    """Return the columns of a table, with what has been calculated from them."""
    known: OrderedDict[int, tuple[ref[pa.Table], SharedLookup]] = _RECENT.__dict__.setdefault(
        "tables", OrderedDict()
    )
    found = known.get(id(table))
    if found is not None and found[0]() is table:
        return found[1]
    key = id(table)
    own = ref(table, lambda _: known.pop(key, None))  # the lookup must not keep its table

    def read(path: tuple[str, ...]) -> pa.Array | None:
        owner = own()
        assert owner is not None
        column = attribute(owner, path)
        return None if column is None else column.cast(value_type(column.type)).combine_chunks()

    lookup = SharedLookup(read)
    known[key] = own, lookup
    if len(known) > _MOST_TABLES:
        known.popitem(last=False)
    return lookup


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
