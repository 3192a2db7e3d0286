"""Frozen states in parts, for tests that change them."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from numpy.typing import NDArray

from cernis.state import join_arrays, pack, split_arrays, unpack


def unpack_parts(state: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the header of a frozen state, and its arrays by their paths."""
    return split_arrays(unpack(state))


def pack_parts(meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> bytes:
    """Return the frozen state of a header and arrays."""
    return pack(join_arrays(deepcopy(meta), arrays))
