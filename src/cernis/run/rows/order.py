"""The order of rows by the columns of PARTITION BY and ORDER BY, found by NumPy.

DuckDB sorts whole rows, and once more for windows. Where the values are plain (whole numbers,
times, numbers without NaN, texts as keys; no NULL), sorting their numbers takes a fraction of that.
Everything else is left to the host, which knows how its types compare.

Cost contract: a check for each column that is in order already; otherwise a stable sort, linear
for columns with few values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cernis.plan.rows.matcher import PARTITION, RANK, ROW

_FEW = 1 << 16
"""So many values have a linear sort."""


class RowOrder(NamedTuple):
    """Rows in order."""

    indices: NDArray[np.int64]
    """The index at which each of them was given."""
    begins: NDArray[np.bool_]
    """Which of them, in order, begin a partition."""


def find_row_order(
    keys: Sequence[pa.ChunkedArray], columns: Sequence[tuple[pa.ChunkedArray, bool]], size: int
) -> RowOrder | None:
    """Return the stable order by keys, then by columns, each with whether it descends.

    None: only the host knows it.

    >>> key, ts = pa.chunked_array([["b", "a", "b"]]), pa.chunked_array([[1, 2, 0]])
    >>> order = find_row_order([key], [(ts, True)], 3)
    >>> order.indices.tolist(), order.begins.tolist()
    ([1, 0, 2], [True, True, False])
    """
    numbered = [_number_values(key, texts=True) for key in keys]
    ordered = [_number_values(column, texts=False) for column, _ in columns]
    if any(values is None for values in (*numbered, *ordered)):
        return None
    directed = [
        values if not descends else _reverse(values)
        for values, (_, descends) in zip(ordered, columns, strict=True)
    ]
    index = np.arange(size)
    for values in reversed([*numbered, *directed]):
        current = values[index]
        if (current[1:] >= current[:-1]).all():
            continue
        index = index[np.argsort(_narrow(current), kind="stable")]
    begins = np.zeros(size, np.bool_)
    begins[:1] = True
    for values in numbered:
        current = values[index]
        begins[1:] |= current[1:] != current[:-1]
    return RowOrder(index, begins)


def add_ranks(rows: pa.Table, order: RowOrder) -> pa.Table:
    """Return rows in order, with the number of each, that of its partition, and its rank there."""
    size = len(order.indices)
    if (order.indices != np.arange(size)).any():
        rows = rows.combine_chunks().take(pa.array(order.indices))
    indices = np.arange(size)
    first = np.maximum.accumulate(np.where(order.begins, indices, 0))
    added = {ROW: indices + 1, RANK: indices - first + 1, PARTITION: first + 1}
    for name, values in added.items():
        rows = rows.append_column(name, pa.array(values))
    return rows


def _number_values(column: pa.ChunkedArray, *, texts: bool) -> Any:
    """Return numbers in the order of values; None: there are none, or a NULL or NaN."""
    kind = column.type
    if column.null_count:
        return None
    if texts and (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        coded = pa.array(column.combine_chunks()).dictionary_encode()
        ranks = np.empty(len(coded.dictionary), np.int64)
        ranks[np.asarray(pc.sort_indices(coded.dictionary))] = np.arange(len(ranks))
        return ranks[np.asarray(coded.indices)]
    if pa.types.is_floating(kind):
        numbers = column.to_numpy()
        return None if np.isnan(numbers).any() else numbers
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return column.cast(pa.int32()).to_numpy()
    if pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
        return column.cast(pa.int64()).to_numpy()
    if pa.types.is_integer(kind):
        return column.to_numpy()
    return None


def _reverse(values: Any) -> Any:
    return -values if values.dtype.kind == "f" else ~values


def _narrow(values: Any) -> Any:
    """Return whole numbers of a small range in two bytes."""
    if values.dtype.kind == "f" or not len(values):
        return values
    low, high = int(values.min()), int(values.max())
    return (values - low).astype(np.uint16) if high - low < _FEW else values
