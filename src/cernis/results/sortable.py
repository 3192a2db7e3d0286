"""Values as bytes that sort as the values do, for engines whose numbers are not ours.

Numbers of all types are exact, so that values of different tasks compare as those of one. A Python
object for each value: for a few, such as the best of a task.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_INFINITE = b"\xff" * 6


def list_sortable(values: pa.Array) -> list[Any]:
    """Return values as numbers, texts or bytes; None for NULL and NaN."""
    if isinstance(values, pa.DictionaryArray):
        values = values.dictionary_decode()
    if pa.types.is_date32(values.type) or pa.types.is_time32(values.type):
        values = values.cast(pa.int32())
    elif pa.types.is_temporal(values.type):
        values = values.cast(pa.int64())
    elif pa.types.is_floating(values.type):
        values = pc.if_else(pc.is_nan(values), None, values)
    return values.to_pylist()  # type: ignore[no-any-return]


def write_sortable(value: Any) -> bytes | None:
    """Return bytes that sort as a number, a text or bytes do among their kind.

    >>> numbers = [float("-inf"), -20, Decimal("-2.5"), -2, 0, 0.1, 3, 10**40, float("inf")]
    >>> written = [write_sortable(number) for number in numbers]
    >>> written == sorted(written)
    True
    """
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    number = Decimal(value)  # exact, whatever the context
    if number == 0:
        return b"\x80"
    digits = "".join(map(str, number.as_tuple().digits)).rstrip("0")
    written = _INFINITE
    if number.is_finite():
        written = b"\xff" + (number.adjusted() + 2**31).to_bytes(4, "big") + digits.encode() + b"\0"
    return written if number > 0 else bytes(255 - byte for byte in written)
