"""Number the distinct values of a column, as the engine compares them.

0.0 and -0.0 are one value, and so are two NaN. A dictionary may hold a value twice. Lists and
records, which Arrow does not number, are numbered by a text.

Cost: linear in the column, in Arrow; a Python object for each list or record.
"""

from __future__ import annotations

from decimal import Decimal
from math import isfinite
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cernis.results.values import python_values


def number_distinct(column: pa.Array) -> NDArray[np.int64]:
    """Return a number for each value, in the order in which values appear; NULL has its own.

    >>> number_distinct(pa.array([0.5, -0.0, 0.0, None])), number_distinct(pa.array([[1], [1]]))
    (array([0, 1, 1, 2]), array([0, 0]))
    """
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_null(column.type):
        return np.zeros(len(column), np.int64)
    if pa.types.is_nested(column.type):
        column = pa.array([write_value(value) for value in python_values(column)], pa.string())
    elif pa.types.is_floating(column.type):
        column = pc.add(column.cast(pa.float64()), 0.0)  # -0.0 + 0.0 is 0.0
    indices = column.dictionary_encode(null_encoding="encode").indices
    return np.asarray(indices, np.int64)


def write_value(value: Any) -> str:
    """Return a text that two values share exactly when they are the same in an answer.

    >>> [write_value(v) for v in (1, 1.0, True, "1", None)]
    ['1/1', '1/1', 'True', "'1'", 'None']
    """
    if isinstance(value, float | Decimal):
        if not isfinite(value):
            return str(float(value))
        top, bottom = value.as_integer_ratio()
        return f"{top}/{bottom}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value}/1"
    return repr(value)


def make_hashable(value: Any) -> Any:
    """Return a value as a key of a dictionary; with its type, Arrow makes the value again of it.

    >>> make_hashable([1, {"a": [2]}])
    (1, ((2,),))
    """
    if isinstance(value, dict):
        return tuple(map(make_hashable, value.values()))
    return tuple(map(make_hashable, value)) if isinstance(value, list | tuple) else value
