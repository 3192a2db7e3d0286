"""Check frozen state before it is used: the kernels trust their arrays.

Bytes of a stranger may hold any numbers. So code that thaws state declares the type, the shape and
the bounds of each array and each number. `require` is for the relations between them. State that
is not sound is a `StateError`, before anything has changed.

A checksum finds accidents; these checks see that no number leads a kernel out of its arrays or into
a circle. A sound state that is not the one that was frozen cannot be told from a real one.

Cost contract: a few NumPy passes over each array.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from cernis.errors import StateError

Arrays = Mapping[str, NDArray[Any]]

LOWEST, ABOVE = -(2**63), 2**63
"""The range of int64."""
MOST_EVENTS = 2**62
"""Positions and row numbers stay below, so that sums of two fit into int64."""


def require(sound: bool | np.bool_, what: str) -> None:
    """Raise if something about a state is not as it must be."""
    if not sound:
        raise StateError(f"the frozen state is damaged: {what}")


def is_inside(
    numbers: NDArray[Any], low: int | NDArray[Any] = LOWEST, below: int | NDArray[Any] = ABOVE
) -> bool:
    """Return whether all numbers lie in [low, below).

    >>> is_inside(np.array([0, 3]), 0, 4), is_inside(np.array([0, 3]), 0, np.array([1, 3]))
    (True, False)
    """
    if not numbers.size:
        return True
    if isinstance(low, int) and isinstance(below, int):
        return low <= int(numbers.min()) and int(numbers.max()) < below
    return bool(((numbers >= low) & (numbers < below)).all())


def read_array(
    arrays: Arrays,
    name: str,
    dtype: DTypeLike,
    shape: Sequence[int | None] = (None,),
    *,
    low: int | NDArray[Any] = LOWEST,
    below: int | NDArray[Any] = ABOVE,
) -> NDArray[Any]:
    """Return an array of this type and shape (None: any length), its numbers in [low, below).

    >>> read_array({"rows": np.array([4, 9])}, "rows", np.int64, below=9)
    Traceback (most recent call last):
        ...
    cernis.StateError: the frozen state is damaged: 'rows' is out of range
    """
    array = arrays.get(name)
    if array is None:
        raise StateError(f"the frozen state is damaged: {name!r} is missing")
    fits = len(shape) == array.ndim and all(
        wanted is None or wanted == have for wanted, have in zip(shape, array.shape, strict=True)
    )
    require(array.dtype == dtype and fits, f"{name!r} has another type or shape")
    if array.dtype.kind in "iu":
        require(is_inside(array, low, below), f"{name!r} is out of range")
    return array


def read_records(arrays: Arrays, name: str, dtype: np.dtype[np.void]) -> NDArray[np.void]:
    """Return records that were frozen as the bytes of their layout."""
    written = read_array(arrays, name, np.uint8)
    require(len(written) % dtype.itemsize == 0, f"{name!r} ends inside a record")
    return np.frombuffer(written.tobytes(), dtype).copy()


def check_number(value: object, what: str, low: int = LOWEST, below: int = ABOVE) -> int:
    """Return a whole number in [low, below).

    >>> check_number(True, "position")
    Traceback (most recent call last):
        ...
    cernis.StateError: the frozen state is damaged: position is no such number
    """
    if isinstance(value, int) and not isinstance(value, bool) and low <= value < below:
        return value
    raise StateError(f"the frozen state is damaged: {what} is no such number")


def check_text(value: object, what: str) -> str:
    """Return a text that UTF-8 can hold."""
    if isinstance(value, str) and not any("\ud800" <= c <= "\udfff" for c in value):
        return value
    raise StateError(f"the frozen state is damaged: {what} is no text")


def check_list(value: object, what: str, length: int | None = None) -> list[Any]:
    """Return a list, of this length where one is given."""
    if isinstance(value, list) and length in (None, len(value)):
        return value
    raise StateError(f"the frozen state is damaged: {what} is no such list")


def check_mapping(value: object, what: str) -> dict[str, Any]:
    """Return names with their values."""
    if isinstance(value, dict):
        return value
    raise StateError(f"the frozen state is damaged: {what} is no set of names and values")
