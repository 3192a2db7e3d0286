"""Numbers of groups as Arrow columns; integers of any size are exact.

Cost contract: linear in the groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import inf
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cernis.encoding.evaluate import Constant, Operand
from cernis.results.columns import count_column
from cernis.results.term import TermValue


def average_column(totals: Sequence[Any], pairs: Sequence[int]) -> pa.Array:
    """Return totals divided by the number of pairs; NULL over no pairs."""

    def divide(total: Any, number: int) -> float | None:
        if not number:
            return None
        return float(Fraction(total, number) if isinstance(total, int) else total / number)

    return pa.array(map(divide, totals, pairs), pa.float64())


def integer_column(numbers: NDArray[Any]) -> pa.Array:
    """Return numbers as a column; integers of any size are exact."""
    return count_column(numbers.tolist()) if numbers.dtype == object else pa.array(numbers)


def find_sum_type(kind: pa.DataType | None) -> pa.DataType:
    """Return the type of the sums of a column; int64 stands for integers of any size."""
    if kind is not None and pa.types.is_floating(kind):
        return pa.float64()
    if kind is not None and pa.types.is_decimal(kind):
        return pa.decimal128(38, kind.scale) if pa.types.is_decimal128(kind) else kind
    return pa.int64()


def sum_column(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Return sums as a column of their type; None is NULL."""
    if not pa.types.is_integer(kind):
        return pa.array(values, kind)
    column = count_column([value or 0 for value in values])
    known = pa.array([value is not None for value in values], pa.bool_())
    return pc.if_else(known, column, pa.scalar(None, column.type))


def to_operand(value: TermValue) -> Operand:
    """Return a value that `compare` takes: integers beyond all decimals as floats."""
    if isinstance(value, pa.Array) and pa.types.is_string(value.type):
        texts = value.to_pylist()
        if all(text is None or text.lstrip("-").isdigit() for text in texts):
            return pa.array([None if t is None else _to_float(int(t)) for t in texts], pa.float64())
    assert isinstance(value, Constant | pa.Array) or value is None
    return value


def _to_float(number: int) -> float:
    try:
        return float(number)
    except OverflowError:
        return inf if number > 0 else -inf
