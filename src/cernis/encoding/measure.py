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
from cernis.events.batch import Bools, EventBatch, attribute
from cernis.events.times import as_floats, is_number, value_type


def read_measure(
    batch: EventBatch, path: tuple[str, ...], *, is_real: bool
) -> tuple[npt.NDArray[Any], Bools]:
    """Return the values of an attribute as float64 or int64, and marks where there are any.

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
        name = ".".join(path)
        if not is_number(value_type(column.type)):
            raise DataError(
                f"{name!r} holds {column.type} here, and held numbers in the first events; "
                "GROUP BY aggregates values of one type"
            )
        try:
            numbers = as_floats(column) if is_real else column.cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise DataError(
                f"{name!r} held whole numbers in the first events, and does not here ({error}); "
                f"declare that it may hold fractions with CREATE STREAM: {name}:double"
            ) from error
        out["value"] = pc.fill_null(numbers, 0).to_numpy()
        out["valid"] = pc.is_valid(numbers).to_numpy()
        return out

    found = batch.interleave(read_part)
    return np.ascontiguousarray(found["value"]), np.ascontiguousarray(found["valid"])


def read_weights(batch: EventBatch, path: tuple[str, ...]) -> npt.NDArray[np.float64]:
    """Return the values of an attribute as the nearest float64; 0 where there is no number.

    >>> batch = EventBatch.of(pa.table({"type": ["A", "B"], "price": [2**60 + 1, None]}))
    >>> read_weights(batch, ("price",)).tolist()
    [1.152921504606847e+18, 0.0]
    """

    def read_part(_: str, table: pa.Table) -> npt.NDArray[np.float64]:
        column = attribute(table, path)
        type_ = pa.null() if column is None else value_type(column.type)
        if column is None or not is_number(type_):
            return np.zeros(table.num_rows)
        found = pc.fill_null(as_floats(column.cast(type_)), 0).to_numpy()
        return np.asarray(np.nan_to_num(found, nan=0.0, posinf=np.inf, neginf=-np.inf))

    return np.asarray(batch.interleave(read_part), np.float64)
