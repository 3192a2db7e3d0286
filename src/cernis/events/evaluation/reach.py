"""How far a number may lie from another one: the bounds that an index compares instead.

`v - z <= c` holds of all numbers up to a greatest one, also where the difference is rounded, for
rounding never turns the order of two numbers around. So a condition on a difference of two events
is one on a value of the first and a bound that the second has, to the last bit.

Integers below 2⁵² are exact as floats. A batch with larger ones has bounds in integers.

Cost contract: some passes in NumPy, and 64 over the few rows whose bound is no sum of two floats.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cernis.events.batch import Bools, Int64s
from cernis.events.evaluation.functions import Floats, Operand, class_of, read_numbers

UP_TO, BELOW, FROM, ABOVE = "@UP_TO", "@BELOW", "@FROM", "@ABOVE"
"""The functions of (z, c) for the greatest v with v - z <= c or < c, and the least with v - z >= -c
or > -c."""

_EXACT = 2**52


def find_bound(function: str, operands: list[Operand], length: int) -> Operand:
    """Return a bound of each row; NULL: no number is inside.

    >>> find_bound(UP_TO, [pa.array([1.5, None])] + [pa.array([2, 2])], 2).to_pylist()
    [3.5, None]
    """
    if any(class_of(one) != "number" for one in operands):
        return None
    (center, known), (distance, given) = (read_numbers(one, length) for one in operands)
    valid = known & given
    is_least, is_strict = function in (FROM, ABOVE), function in (BELOW, ABOVE)
    sign = -1.0 if is_least else 1.0
    floats = center.astype(np.float64), distance.astype(np.float64)
    bound, found = _find_greatest(sign * floats[0], floats[1], is_strict)
    bound, valid = sign * bound, valid & found
    large = (np.abs(floats[0]) > _EXACT) | (np.abs(floats[1]) > _EXACT)
    if center.dtype == np.int64 and (large & valid).any():
        whole = _add_whole(center, distance, is_least, is_strict)
        edge = np.clip(
            np.nan_to_num(np.ceil(bound) if is_least else np.floor(bound)), -_EXACT, _EXACT
        )
        return pa.array(np.where(large, whole, edge.astype(np.int64)), mask=~valid)
    return pa.array(bound, mask=~valid)


def _add_whole(
    center: Int64s, distance: npt.NDArray[Any], is_least: bool, is_strict: bool
) -> Int64s:
    """Return the bounds of integers, at most at the ends of 64 bits."""
    if distance.dtype == np.int64:
        whole = distance.astype(np.int64)
    else:
        floats = distance.astype(np.float64)
        edge = np.nan_to_num(np.ceil(floats) if is_strict else np.floor(floats))
        whole = np.clip(edge, -(2.0**63), 2.0**63 - 1024).astype(np.int64)
    total = center - whole if is_least else center + whole
    wraps = ((center ^ whole) if is_least else ~(center ^ whole)) & (center ^ total) < 0
    ends = np.iinfo(np.int64)
    total = np.where(wraps, np.where((whole > 0) != is_least, ends.max, ends.min), total)
    return total + np.where(is_strict & ~wraps, 1 if is_least else -1, 0)


def _find_greatest(center: Floats, distance: Floats, is_strict: bool) -> tuple[Floats, Bools]:
    """Return the greatest v with v - z <= c, or < c, and where there is one."""

    def holds(values: Floats, rows: Bools | slice = slice(None)) -> Bools:
        rest = values - center[rows]
        return rest < distance[rows] if is_strict else rest <= distance[rows]

    with np.errstate(all="ignore"):
        bound = center + distance
        bound = np.where(holds(bound), bound, np.nextafter(bound, -np.inf))
        easy = holds(bound) & ~holds(np.nextafter(bound, np.inf)) & (bound < np.inf)
        rows = ~easy
        if not rows.any():
            return bound, easy
        count = int(rows.sum())
        top, bottom = np.full(count, np.inf), np.full(count, -np.inf)
        reaches, begins = holds(top, rows), holds(bottom, rows)
        low, high = _to_words(bottom), _to_words(top)
        for _ in range(64):
            middle = (low >> 1) + (high >> 1) + (low & high & 1)
            inside = holds(_to_floats(middle), rows)
            low, high = np.where(inside, middle, low), np.where(inside, high, middle)
        bound[rows] = np.where(reaches, np.inf, _to_floats(low))
    found = easy.copy()
    found[rows] = reaches | begins
    return bound, found


def _to_words(values: Floats) -> Int64s:
    """Return floats as integers that sort as they do."""
    words = values.view(np.int64)
    return np.where(words < 0, words ^ np.int64(2**63 - 1), words)


def _to_floats(words: Int64s) -> Floats:
    return np.where(words < 0, words ^ np.int64(2**63 - 1), words).view(np.float64)
