"""The values of an attribute as numbers, for aggregates over matches.

Cost contract: a few Arrow passes over the column of each stream.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cernis.errors import DataError
from cernis.events.batch import Bools, EventBatch
from cernis.events.column_types import is_number, value_type
from cernis.events.evaluation.attributes import attribute
from cernis.events.times import as_floats

_MOST_DIGITS = 38
"""Of a decimal with 128 bits."""


class _FractionsFound(Exception):
    """Some values are no whole numbers of 64 bits."""


def read_measure(
    batch: EventBatch, path: tuple[str, ...], *, is_real: bool, scale: int = 0
) -> tuple[npt.NDArray[Any], Bools]:
    """Return the values of an attribute as float64 or int64, and marks where there are any.

    Decimals are integers with so many places after the point. Where whole numbers are expected and
    some column holds fractions, all values are float64.

    >>> batch = EventBatch.of(pa.table({"type": ["A", "B"], "price": [3, None]}))
    >>> values, valid = read_measure(batch, ("price",), is_real=False)
    >>> values.tolist(), valid.tolist()
    ([3, 0], [True, False])
    """
    kind = np.float64 if is_real else np.int64
    layout = np.dtype([("value", kind), ("valid", np.bool_)])

    def read_part(_: str, table: pa.Table) -> npt.NDArray[Any]:
        out = np.zeros(table.num_rows, layout)
        column = attribute(table, path)
        if column is None or pa.types.is_null(column.type):
            return out
        name, type_ = ".".join(path), value_type(column.type)
        own_scale = type_.scale if pa.types.is_decimal(type_) else 0
        if not is_number(type_) or not (is_real or own_scale == scale):
            held = "whole numbers" if is_number(type_) else "numbers"
            if scale:
                held = f"decimals with a scale of {scale}"
            raise DataError(
                f"{name!r} holds {column.type} here, and held {held} in the first events; "
                "GROUP BY aggregates values of one type"
            )
        try:
            out["value"], out["valid"] = read_numbers(column, is_real=is_real, scale=scale)
        except pa.ArrowInvalid as error:
            if pa.types.is_floating(type_):
                raise _FractionsFound from error
            raise DataError(
                f"{name!r} held numbers of 64 bits in the first events, and does not here "
                f"({error}); for the nearest doubles, declare CREATE STREAM: {name}:double"
            ) from error
        return out

    try:
        found = batch.interleave(read_part)
    except _FractionsFound:
        return read_measure(batch, path, is_real=True)
    return np.ascontiguousarray(found["value"]), np.ascontiguousarray(found["valid"])


def read_numbers(
    column: pa.Array | pa.ChunkedArray, *, is_real: bool, scale: int = 0
) -> tuple[npt.NDArray[Any], Bools]:
    """Return numbers as `read_measure` does; ArrowInvalid: some do not fit.

    >>> from decimal import Decimal
    >>> read_numbers(pa.array([Decimal("-0.5"), None]), is_real=False, scale=2)[0].tolist()
    [-50, 0]
    """
    valid = np.asarray(pc.is_valid(column))
    if is_real or not scale:
        numbers = as_floats(column) if is_real else column.cast(pa.int64())
        return pc.fill_null(numbers, 0).to_numpy(), valid
    wide = column.cast(pa.decimal128(_MOST_DIGITS, scale))
    if isinstance(wide, pa.ChunkedArray):
        wide = wide.combine_chunks()
    # a decimal of 128 bits is an integer, its lower half first; so Arrow has no cast for it
    halves = np.frombuffer(wide.buffers()[1], np.int64).reshape(-1, 2)
    halves = np.where(valid[:, None], halves[wide.offset : wide.offset + len(wide)], 0)
    if (halves[:, 1] != halves[:, 0] >> 63).any():
        raise pa.ArrowInvalid(f"a value has more than 64 bits with {scale} places")
    return halves[:, 0], valid


def read_weights(batch: EventBatch, path: tuple[str, ...]) -> npt.NDArray[np.float64]:
    """Return the values of an attribute as the nearest float64; NaN where there is no number.

    >>> batch = EventBatch.of(pa.table({"type": ["A", "B"], "price": [2**60 + 1, None]}))
    >>> read_weights(batch, ("price",)).tolist()
    [1.152921504606847e+18, nan]
    """

    def read_part(_: str, table: pa.Table) -> npt.NDArray[np.float64]:
        column = attribute(table, path)
        type_ = pa.null() if column is None else value_type(column.type)
        if column is None or not is_number(type_):
            return np.full(table.num_rows, np.nan)
        return np.asarray(pc.fill_null(as_floats(column.cast(type_)), np.nan).to_numpy())

    return np.asarray(batch.interleave(read_part), np.float64)
