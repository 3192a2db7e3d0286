"""Parts of groups: each task aggregates over its own matches, Spark adds the parts up.

    worker: parts ─▶ groupBy(keys).agg(sum, min, max, …) ─▶ worker: SELECT, HAVING ─▶ groups

A part is a row of `Grouper.freeze`. A group may have one in each task: with slices of time, with
keys that GROUP BY does not name. The last step runs the code of the embedded engine on the sums,
so that terms, HAVING and types are the same everywhere.

An integer of a part travels as a decimal if it has at most 27 digits: Spark can add up 10^11 of
these. A longer one travels as text; Spark gathers the texts, and the last step adds them. In the
answer, integers are decimals of 38 digits, or texts of any length.

Cost contract: a row for each group and task; the last step is linear in the groups. Does not
import Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import pyarrow as pa

from cernis.errors import DataError
from cernis.integers import read_integer, write_integer
from cernis.pattern import predicate as pred
from cernis.pattern.query import Pattern, SelectedTerm
from cernis.work.carriers import carrier_of, convert

NumberForm = Literal["decimal", "text"]
"""How exact numbers come out: as decimals of 38 digits (an error beyond), or as texts."""

_SUMMED = 27
"""The digits of an integer that Spark adds up."""
_DIGITS = 38
DECIMAL = pa.decimal128(_DIGITS, 0)


class PartColumn(NamedTuple):
    """A column of a part: its name in `Grouper.freeze`, its names in Spark, how it is added up."""

    source: str
    name: str
    texts: str = ""
    """The column of integers that are too long for decimals."""
    added: Literal["key", "integer", "sum", "min", "max", "set"] = "key"


def list_columns(schema: pa.Schema) -> list[PartColumn]:
    """Return the columns of parts; `schema` is that of `Grouper.freeze`."""
    columns = []
    for i, part in enumerate(schema):
        kind, name = part.name.split(".")[0], f"p{i}"
        match kind:
            case "time":
                continue
            case "count" | "pairs":
                columns.append(PartColumn(part.name, name, f"t{i}", "integer"))
            case "total" if pa.types.is_string(part.type):
                columns.append(PartColumn(part.name, name, f"t{i}", "integer"))
            case "total":
                columns.append(PartColumn(part.name, name, added="sum"))
            case "least":
                columns.append(PartColumn(part.name, name, added="min"))
            case "greatest":
                columns.append(PartColumn(part.name, name, added="max"))
            case "distinct":
                columns.append(PartColumn(part.name, name, added="set"))
            case _:
                columns.append(PartColumn(part.name, name))
    return columns


def spark_schema(schema: pa.Schema) -> pa.Schema:
    """Return the columns of parts in the types that carry them in Spark."""
    fields: list[tuple[str, pa.DataType]] = []
    for column in list_columns(schema):
        if column.added == "integer":
            fields += [(column.name, DECIMAL), (column.texts, pa.string())]
        else:
            type_ = schema.field(column.source).type
            fields.append((column.name, carrier_of(type_) or type_))
    return pa.schema(fields)


def write_parts(parts: pa.Table, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield parts in the columns of `spark_schema`."""
    arrays: dict[str, pa.Array] = {}
    for column in list_columns(parts.schema):
        values = parts.column(column.source)
        if column.added != "integer":
            target = schema.field(column.name).type
            arrays[column.name] = convert(values, target)
            continue
        short, long = _split_integers(values.to_pylist())
        arrays[column.name] = pa.array(short, pa.string()).cast(DECIMAL)
        arrays[column.texts] = pa.array(long, pa.string())
    yield from pa.table(arrays, schema).combine_chunks().to_batches()


def _split_integers(texts: Sequence[str | None]) -> tuple[list[str | None], list[str | None]]:
    """Return the integers that Spark can add up, and the others."""
    is_short = [text is not None and len(text.lstrip("-")) <= _SUMMED for text in texts]
    pairs = list(zip(texts, is_short, strict=True))
    return (
        [text if short else None for text, short in pairs],
        [None if short else text for text, short in pairs],
    )


def read_parts(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return added parts as `Grouper.freeze` writes them: `schema` is its own."""
    columns = {column.source: column for column in list_columns(schema)}
    arrays = []
    for field in schema:
        column = columns.get(field.name)
        if column is None:
            arrays.append(pa.chunked_array([pa.nulls(table.num_rows, field.type)]))
        elif column.added == "integer":
            sums = table.column(column.name).to_pylist()
            texts = table.column(column.texts).to_pylist()
            totals = [_add(short, long) for short, long in zip(sums, texts, strict=True)]
            arrays.append(pa.chunked_array([pa.array(totals, pa.string())]))
        else:
            arrays.append(convert(table.column(column.name), field.type))
    return pa.table(arrays, schema=schema)


def _add(short: object, long: Sequence[str]) -> str | None:
    """Return the sum of what Spark has added up and gathered; None where there is nothing."""
    if short is None and not long:
        return None
    return write_integer(int(str(short or 0)) + sum(map(read_integer, long)))


# ----------------------------------------------------------------- answers


def exact_columns(pattern: Pattern, schema: pa.Schema) -> tuple[str, ...]:
    """Return the columns of groups that are exact: COUNT, and SUM of integers and decimals."""

    def is_exact(type_: pa.DataType) -> bool:
        return bool(pa.types.is_int64(type_) or pa.types.is_decimal(type_))

    return tuple(
        item.name
        for item in pattern.select.items
        if isinstance(item, SelectedTerm)
        and is_exact(schema.field(item.name).type)
        and any(
            isinstance(part, pred.Aggregate) and part.function in ("COUNT", "SUM")
            for part in pred.walk_term(item.term)
        )
    )


def group_schema(schema: pa.Schema, exact: Sequence[str], numbers: NumberForm) -> pa.Schema:
    """Return the columns of groups with the types of exact numbers."""
    for name in exact:
        at = schema.get_field_index(name)
        type_ = pa.string() if numbers == "text" else _find_decimal(schema.field(at).type)
        schema = schema.set(at, pa.field(name, type_))
    return schema


def _find_decimal(type_: pa.DataType) -> pa.DataType:
    """Return the type that carries integers or decimals."""
    return pa.decimal128(_DIGITS, type_.scale) if pa.types.is_decimal(type_) else DECIMAL


def cast_groups(groups: pa.Table, exact: Sequence[str], numbers: NumberForm) -> pa.Table:
    """Return groups with the types of exact numbers.

    >>> cast_groups(pa.table({"n": [7]}), ["n"], "text").to_pylist()
    [{'n': '7'}]
    """
    for name in exact:
        cast = _cast_numbers(groups.column(name).combine_chunks(), numbers)
        groups = groups.set_column(groups.schema.get_field_index(name), name, cast)
    return groups


def _cast_numbers(column: pa.Array, numbers: NumberForm) -> pa.Array:
    """Return integers or decimals of any type as decimals, or as texts."""
    if pa.types.is_floating(column.type):  # arithmetic with integers beyond 64 bits
        whole = [
            None if value is None else write_integer(int(value)) for value in column.to_pylist()
        ]
        column = pa.array(whole, pa.string())
    if numbers == "text":
        return column.cast(pa.string())
    try:
        if pa.types.is_string(column.type):
            return _read_decimals(column)
        return column.cast(_find_decimal(column.type))
    except pa.ArrowInvalid as error:
        raise DataError(
            "a number has 39 digits or more, which no number of Spark's can hold; "
            'numbers="text" gives numbers as text'
        ) from error


def _read_decimals(column: pa.Array) -> pa.Array:
    """Return texts as decimals; ArrowInvalid: one is too long, of which Arrow may say nothing."""
    texts = [text for text in column.to_pylist() if text is not None]
    if any(sum(map(str.isdigit, text)) > _DIGITS for text in texts):
        raise pa.ArrowInvalid("a number is too long")
    places = max((len(text.partition(".")[2]) for text in texts), default=0)
    return column.cast(pa.decimal128(_DIGITS, places))
