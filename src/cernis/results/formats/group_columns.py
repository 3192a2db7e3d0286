"""Numbers of groups as Arrow columns; integers of any size are exact.

Cost contract: linear in the groups.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cernis.engine.words import Integers
from cernis.events.evaluation.evaluate import EXACT
from cernis.events.evaluation.functions import Constant, Operand
from cernis.integers import to_nearest
from cernis.results.formats.columns import count_column
from cernis.results.terms.term import TermValue

_MOST_DIGITS = 76
"""Of a decimal with 256 bits; longer numbers are texts."""
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")


def average_column(totals: Sequence[Any], pairs: Sequence[int], scale: int | None) -> pa.Array:
    """Return totals divided by the number of pairs; NULL over no pairs."""

    def divide(total: Any, number: int) -> float | None:
        if not number:
            return None
        if isinstance(total, int):
            return float(Fraction(total, number * 10 ** (scale or 0)))
        return float(total / number)

    return pa.array(map(divide, totals, pairs), pa.float64())


def number_column(numbers: Integers, scale: int | None = None) -> pa.Array:
    """Return numbers as a column, or integers as decimals of a scale; those of any size are exact.

    >>> import numpy as np
    >>> number_column(np.array([0.5, 7])).type, number_column(np.array([5]), 2).to_pylist()
    (DataType(double), [Decimal('0.05')])
    """
    return count_column(numbers, scale) if numbers.dtype == np.int64 else pa.array(numbers)


def to_decimal(number: int, scale: int) -> Decimal:
    """Return an integer as a decimal with so many places.

    >>> to_decimal(-5, 2)
    Decimal('-0.05')
    """
    return EXACT.scaleb(Decimal(number), -scale)


def to_integer(value: Decimal | None, scale: int) -> int | None:
    """Return a decimal of so many places without its point.

    >>> to_integer(Decimal("-0.05"), 2)
    -5
    """
    return None if value is None else int(EXACT.scaleb(value, scale))


def sum_column(values: list[Any], kind: pa.DataType | None, scale: int | None) -> pa.Array:
    """Return the sums over a column of this type; None is NULL. Those of decimals are integers."""
    if kind is not None and pa.types.is_floating(kind):
        return value_column(values, pa.float64())
    column = count_column([value or 0 for value in values], scale)
    known = pa.array([value is not None for value in values], pa.bool_())
    return pc.if_else(known, column, pa.scalar(None, column.type))


def value_column(values: Sequence[Any], kind: pa.DataType | None) -> pa.Array:
    """Return values as a column of this type; numbers of any size as the nearest floats."""
    if kind is not None and pa.types.is_floating(kind):
        values = [None if each is None else to_nearest(each) for each in values]
    return pa.array(values, kind)


def to_operand(value: TermValue) -> Operand:
    """Return a value that `compare` takes: numbers beyond all decimals as floats."""
    if isinstance(value, pa.Array) and pa.types.is_string(value.type):
        texts = value.to_pylist()
        known = [text for text in texts if text is not None]
        if max(map(len, known), default=0) > _MOST_DIGITS and all(map(_NUMBER.fullmatch, known)):
            return pa.array([None if t is None else float(t) for t in texts], pa.float64())
    assert isinstance(value, Constant | pa.Array) or value is None
    return value
