"""The axis of time: times of events as numbers that a page can draw.

Dates are milliseconds since 1970, plain numbers stay what they are, and without a column of times
the position of an event is its time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cernis.events.times import is_number, to_ticks

Floats = NDArray[np.float64]

_MILLISECOND = 1_000_000


class Axis(NamedTuple):
    """The unit of an axis (`ms`, `number` or `row`), and the unit of plain numbers."""

    unit: str
    time_unit: str = "ms"

    @classmethod
    def of(cls, type_: pa.DataType | None, time_unit: str) -> Axis:
        """Return the axis of a column of times; None: there is none."""
        if type_ is None:
            return cls("row", time_unit)
        return cls("number" if is_number(type_) else "ms", time_unit)

    def numbers(self, column: pa.Array | pa.ChunkedArray) -> Floats:
        """Return the times of a column; NaN where there is none.

        >>> Axis("ms").numbers(pa.array([1, None], pa.timestamp("s"))).tolist()
        [1000.0, nan]
        """
        chunked = pa.chunked_array([column]) if isinstance(column, pa.Array) else column
        if self.unit != "ms":
            return np.asarray(chunked.cast(pa.float64(), safe=False).to_numpy(), np.float64)
        ticks, bad = to_ticks(chunked, self.time_unit, 1)
        numbers = to_milliseconds(ticks)
        if bad is not None:
            numbers[bad] = np.nan
        return numbers


def to_milliseconds(nanoseconds: NDArray[np.int64]) -> Floats:
    """Return nanoseconds as milliseconds; whole ones stay exact."""
    return nanoseconds // _MILLISECOND + nanoseconds % _MILLISECOND / 1e6


def find_range(numbers: Floats) -> tuple[float, float] | None:
    """Return the least and the greatest number; None where there is none."""
    usable = numbers[np.isfinite(numbers)]
    return (float(usable.min()), float(usable.max())) if len(usable) else None


def count_bins(numbers: Floats, first: float, last: float, bins: int) -> list[int]:
    """Return how many numbers lie in each of some equal parts of a range.

    >>> count_bins(np.array([0.0, 1.0, 9.0, 10.0]), 0, 10, 2)
    [2, 2]
    """
    usable = numbers[np.isfinite(numbers)]
    high = last if last > first else first + 1
    counted: list[int] = np.histogram(usable, bins, (first, high))[0].tolist()
    return counted


def to_number(value: Any) -> float | int | None:
    """Return a float as JSON has it: whole numbers without a point."""
    if value is None or not np.isfinite(value):
        return None
    return int(value) if float(value).is_integer() else float(value)
