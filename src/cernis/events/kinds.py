"""The kind of a value: values of different kinds are neither equal nor unequal, nor ordered."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cernis.events.column_types import is_number, is_text, value_type

NULL, NUMBER, TEXT, BOOLEAN, INSTANT, CLOCK_TIME, DURATION, BYTES, LIST, RECORD, OTHER = range(11)
"""Frozen states hold these numbers."""

Int8s = npt.NDArray[np.int8]
Name = TypeVar("Name", bound=Hashable)

_TESTS: tuple[tuple[int, Callable[[pa.DataType], bool]], ...] = (
    (NULL, pa.types.is_null),
    (NUMBER, is_number),
    (TEXT, is_text),
    (BOOLEAN, pa.types.is_boolean),
    (INSTANT, pa.types.is_timestamp),
    (INSTANT, pa.types.is_date),
    (CLOCK_TIME, pa.types.is_time),
    (DURATION, pa.types.is_duration),
    (BYTES, pa.types.is_binary),
    (BYTES, pa.types.is_large_binary),
    (BYTES, pa.types.is_fixed_size_binary),
    (LIST, pa.types.is_list),
    (LIST, pa.types.is_large_list),
    (LIST, pa.types.is_fixed_size_list),
    (RECORD, pa.types.is_struct),
)


def kind_of(type_: pa.DataType) -> int:
    """Return the kind of a type's values.

    >>> kind_of(pa.int8()) == kind_of(pa.float64()), kind_of(pa.string()) == kind_of(pa.int8())
    (True, False)
    """
    values = value_type(type_)
    return next((kind for kind, test in _TESTS if test(values)), OTHER)


def kinds_in(column: pa.ChunkedArray) -> Int8s:
    """Return the kind of each value of a column; 0 for NULL.

    >>> kinds_in(pa.chunked_array([[1.5, float("nan"), None]])).tolist()
    [1, 1, 0]
    """
    kind = kind_of(column.type)
    values = np.full(len(column), kind, np.int8)
    if kind != NULL and (pa.types.is_dictionary(column.type) or column.null_count):
        values[column.is_null().to_numpy()] = NULL
    return values


def split_by_kind(
    kinds: Mapping[Name, Int8s | None],
) -> Iterator[tuple[npt.NDArray[np.int64] | None, dict[Name, int]]]:
    """Yield rows in which each column has values of one kind, with the kinds of these columns.

    A column without kinds has one anyway. Without any kinds there is one group, None: of all rows.

    >>> mixed = np.array([NUMBER, TEXT, NUMBER], np.int8)
    >>> [(rows.tolist(), held) for rows, held in split_by_kind({"a": mixed, "b": None})]
    [([0, 2], {'a': 1}), ([1], {'a': 2})]
    """
    known = {name: column for name, column in kinds.items() if column is not None}
    if not known:
        yield None, {}
        return
    combinations, group = np.unique(np.stack([*known.values()]), axis=1, return_inverse=True)
    group = group.reshape(-1)
    for i, held in enumerate(combinations.T.tolist()):
        yield np.flatnonzero(group == i), dict(zip(known, held, strict=True))
