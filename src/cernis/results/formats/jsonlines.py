"""Blocks of matches as JSON lines.

    {"start":3,"end":9,"start_ts":…,"end_ts":…,"vars":{"b":[3],"s":[5,9]},"partition":{}}

with `"events":{"s":[{"price":20},{"price":30}]}` for variables of which SELECT names attributes,
and the answers of a conjunctive query that drops variables as

    {"end":9,"end_ts":…,"values":{"y":3}}

Arrow puts the text together column by column: it casts numbers, joins lists,
and concatenates the pieces of all lines in one pass. Rejected: `json.dumps` for
each match, which costs a Python object for each event and is some twenty times slower.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cernis.engine.words import Integers
from cernis.events.store import EventStore
from cernis.results.formats.columns import (
    SUPPRESSED,
    MatchFields,
    count_column,
    partition_columns,
    read_suppressed,
)
from cernis.results.sets.matchset import MatchBlock, Positions
from cernis.results.terms.deadline import DEADLINE
from cernis.results.values import json_texts

_Piece: TypeAlias = str | pa.Array

TextEvents: TypeAlias = Literal["named", "whole", "placed"]
"""The events that a match has as text: the attributes that SELECT names, those of all variables, or
these with their positions, which tell the order of events of several variables."""


class EndedLines(NamedTuple):
    """Lines, beside the positions, rows and times of the events that end them."""

    ends: Positions
    rows: Positions
    times: pa.Array
    lines: pa.StringArray


def match_lines(
    block: MatchBlock,
    fields: MatchFields,
    events: EventStore,
    newline: str = "\n",
    *,
    text: TextEvents = "named",
) -> EndedLines:
    """Return one line for each match, with the events that `text` asks for."""
    size, both = len(block.end), np.concatenate([block.start, block.end])
    rows, times = events.rows(both), events.times(both)
    row_texts, time_texts = _numbers(rows), json_texts(times)
    lists, held, positions = [], {}, []
    for name, attributes in fields.attributes.items():
        v = fields.variables.index(name)
        lists.append(list_rows(block.positions[v], block.offsets[v], events))
        if text != "named" or attributes:
            held[name] = list_events(block.positions[v], block.offsets[v], events, attributes)
        if text == "placed":
            positions.append(_list_texts(_numbers(block.positions[v]), block.offsets[v]))
    members: dict[str, list[_Piece]] = {
        "start": [row_texts[:size]],
        "end": [row_texts[size:]],
        "start_ts": [time_texts[:size]],
        "end_ts": [time_texts[size:]],
    }
    if fields.deadline is not None:
        members[DEADLINE] = [json_texts(fields.deadline.read(block.end, events))]
    if fields.suppresses:
        members[SUPPRESSED] = [json_texts(read_suppressed(block))]
    members["vars"] = _object(fields.shown, zip(lists))
    if held:
        members["events"] = _object(held, zip(held.values()))
    if positions:
        members["positions"] = _object(fields.shown, zip(positions))
    members["partition"] = _object_of(fields.keys, partition_columns(block.end, fields, events))
    values = fields.values(block, events)
    if values:
        members["values"] = _object_of([*values], [*values.values()])
    return EndedLines(block.end, rows[size:], times[size:], _lines(members, newline))


def count_lines(
    ends: Positions,
    counts: Integers,
    fields: MatchFields,
    events: EventStore,
    newline: str = "\n",
) -> EndedLines:
    """Return one line for each end position of a query that is `SELECT COUNT(*)` alone."""
    rows, times = events.rows(ends), events.times(ends)
    members = {
        "end": [_numbers(rows)],
        "end_ts": [json_texts(times)],
        "partition": _object_of(fields.keys, partition_columns(ends, fields, events)),
        "count": [count_column(counts).cast(pa.string())],
    }
    return EndedLines(ends, rows, times, _lines(members, newline))


def group_lines(
    groups: pa.RecordBatch, times: Sequence[str], components: Sequence[str], newline: str = "\n"
) -> pa.StringArray:
    """Return one line for each group of matches.

    >>> batch = pa.record_batch({"end": [5], "end_ts": [50], "k": ["a"], "n": [2]})
    >>> print(group_lines(batch, ["end", "end_ts"], ["k"], "")[0])
    {"end":5,"end_ts":50,"partition":{"k":"a"},"values":{"n":2}}
    """
    others = [name for name in groups.schema.names if name not in {*times, *components}]
    members: dict[str, list[_Piece]] = {name: [json_texts(groups.column(name))] for name in times}
    for title, names in (("partition", components), ("values", others)):
        members[title] = _object_of(names, [groups.column(name) for name in names])
    return _lines(members, newline)


def row_lines(rows: pa.RecordBatch, newline: str = "\n") -> pa.StringArray:
    """Return one line for each row of a statement.

    Databases have sums of whole numbers as decimals: those without places are integers in JSON.

    >>> total = pa.array([7], pa.decimal128(38, 0))
    >>> print(row_lines(pa.record_batch({"a": total, "b": ["x"]}), "")[0])
    {"a":7,"b":"x"}
    """
    names = rows.schema.names
    if not names:  # a traced clause may return none
        return pa.array(["{}" + newline] * rows.num_rows, pa.string())
    return _lines({n: [_cell_texts(c)] for n, c in zip(names, rows.columns, strict=True)}, newline)


def _cell_texts(values: pa.Array) -> pa.StringArray:
    if pa.types.is_decimal(values.type) and values.type.scale == 0:
        return pc.fill_null(values.cast(pa.string()), "null")
    return json_texts(values)


def answer_lines(
    names: Sequence[str],
    values: Sequence[pa.Array],
    ends: pa.Array,
    times: pa.Array,
    newline: str = "\n",
) -> pa.StringArray:
    """Return one line for each answer of a query whose head drops variables.

    >>> columns = [pa.array(["a"]), pa.array([None], pa.int64())]
    >>> print(answer_lines(("x", "y"), columns, pa.array([5]), pa.array([50]), "")[0])
    {"end":5,"end_ts":50,"values":{"x":"a","y":null}}
    """
    members = {
        "end": [ends.cast(pa.string())],
        "end_ts": [json_texts(times)],
        "values": _object_of(names, values),
    }
    return _lines(members, newline)


def sort_rows(rows: Positions, offsets: Positions) -> Positions:
    """Return row numbers, ascending within each match.

    Positions ascend, but row numbers need not where the input was out of order.
    """
    falls = np.flatnonzero(rows[1:] < rows[:-1]) + 1
    if np.isin(falls, offsets).all():
        return rows
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    return rows[np.lexsort((rows, owner))]


def _object(names: Iterable[str], values: Iterable[Iterable[_Piece]]) -> list[_Piece]:
    """Return the pieces of `{"name":value,…}`; each value is in pieces."""
    pieces: list[_Piece] = []
    for name, value in zip(names, values, strict=True):
        pieces += [("," if pieces else "{") + _write_key(name), *value]
    return [*pieces, "}"] if pieces else ["{}"]


@lru_cache(maxsize=1 << 10)
def _write_key(name: str) -> str:
    return json.dumps(name, ensure_ascii=False) + ":"


def _object_of(names: Iterable[str], columns: Iterable[pa.Array]) -> list[_Piece]:
    return _object(names, zip(map(json_texts, columns)))


def _numbers(rows: Positions) -> pa.Array:
    return json_texts(pa.array(rows, pa.int64()))


def list_rows(positions: Positions, offsets: Positions, events: EventStore) -> pa.Array:
    """Return the row numbers of a variable in each match, as JSON."""
    return _list_texts(_numbers(sort_rows(events.rows(positions), offsets)), offsets)


def list_events(
    positions: Positions, offsets: Positions, events: EventStore, attributes: Sequence[str]
) -> pa.Array:
    """Return the events of a variable in each match, or some attributes of them, as JSON."""
    structs = events.structs(positions, attributes or None)
    names = [field.name for field in structs.type]
    if not names:
        return _list_texts(pa.array(["{}"] * len(positions), pa.string()), offsets)
    texts = pc.binary_join_element_wise(*_object_of(names, structs.flatten()), "")
    return _list_texts(texts, offsets)


def list_values(
    positions: Positions, offsets: Positions, events: EventStore, attribute: str
) -> pa.Array:
    """Return the values of an attribute of a variable in each match, as JSON."""
    return _list_texts(json_texts(events.structs(positions, [attribute]).flatten()[0]), offsets)


def _list_texts(texts: pa.Array, offsets: Positions) -> pa.Array:
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), texts)
    return pc.binary_join_element_wise("[", pc.binary_join(lists, ","), "]", "")


def _lines(members: Mapping[str, Iterable[_Piece]], newline: str) -> pa.StringArray:
    return pc.binary_join_element_wise(*_object(members, members.values()), newline, "")


def text_of(column: pa.StringArray) -> memoryview:
    """Return all lines as one run of bytes: the data buffer of their column."""
    if not len(column):
        return memoryview(b"")
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int32)
    first, last = ends[column.offset], ends[column.offset + len(column)]
    return memoryview(data)[first:last]


def name_lines(rule: str, lines: pa.StringArray) -> pa.StringArray:
    """Return lines with the name of a rule as their first member.

    >>> name_lines("r", pa.array(['{"end":1}'])).to_pylist()
    ['{"rule":"r","end":1}']
    """
    begin = '{"rule":' + json.dumps(rule, ensure_ascii=False) + ","
    return pc.binary_replace_slice(lines.cast(pa.binary()), 0, 1, begin.encode()).cast(pa.string())
