"""The events of random cases and corpus cases as Arrow tables, the way executors get them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from tools.cases.grammar import DOMAINS, RISING

STREAM = "_stream"
_TYPES = {
    name: pa.array([v for v in values if isinstance(v, int | float | str)]).type
    for name, values in DOMAINS.items()
} | dict(zip(RISING, (pa.int64(), pa.float64()), strict=True))

_PYTHON = {"int64": int, "double": float, "string": str, "bool": bool}

Event = Mapping[str, Any]


def make_table(events: Sequence[Event], *, timed: bool | None = None) -> pa.Table:
    """Make a table with all attributes of the random grammar and those of the events.

    >>> make_table([{"type": "A", "a": 1}]).select(["type", "a", "k"]).to_pylist()
    [{'type': 'A', 'a': 1, 'k': None}]
    """
    columns = {"type": pa.array([event["type"] for event in events], pa.string())}
    if timed if timed is not None else any("ts" in event for event in events):
        columns["ts"] = pa.array([event.get("ts") for event in events], pa.int64())
    names = dict.fromkeys([*_TYPES, *(name for event in events for name in event)])
    for name in names:
        if name not in ("type", "ts", STREAM):
            columns[name] = _make_column([event.get(name) for event in events], _TYPES.get(name))
    return pa.table(columns)


def _make_column(values: list[Any], type_: pa.DataType | None) -> pa.Array:
    found = {type(value) for value in values if value is not None}
    if float in found:
        type_ = pa.float64()
    elif type_ is not None and found - {_PYTHON[str(type_)]}:
        type_ = None  # the name means something else here
    return pa.array(values, type_)


def split_by_stream(events: Sequence[Event]) -> tuple[list[Event], dict[str, list[Event]]]:
    """Return the events one stream after the other, in one list and apart."""
    apart: dict[str, list[Event]] = {}
    for event in sorted(events, key=lambda event: str(event.get(STREAM, "S"))):
        apart.setdefault(str(event.get(STREAM, "S")), []).append(event)
    return [event for stream in apart.values() for event in stream], apart
