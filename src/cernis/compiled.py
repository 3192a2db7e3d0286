"""The one way this package compiles a kernel with Numba.

Compiled code is kept on disk between runs (where Numba finds a place it may write to:
beside the source, in the user's cache, or in NUMBA_CACHE_DIR; without one it is compiled
in every process) and releases the interpreter lock. With `NUMBA_DISABLE_JIT=1` the same
source runs as plain Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

Function = TypeVar("Function", bound=Callable[..., object])


def kernel(function: Function) -> Function:
    """Compile a function of arrays and numbers on its first call."""
    compiled: Any
    try:
        compiled = njit(cache=True, nogil=True)(function)
    except RuntimeError:  # no place to keep it
        compiled = njit(nogil=True)(function)
    return cast(Function, compiled)
