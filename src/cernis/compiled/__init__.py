"""The two ways this package compiles a kernel with Numba.

Compiled code is kept on disk between runs (where Numba finds a place it may write to:
beside the source, in the user's cache, or in NUMBA_CACHE_DIR; without one it is compiled
in every process) and releases the interpreter lock. With `NUMBA_DISABLE_JIT=1` the same
source runs as plain Python.

A *borrowing* kernel counts no references. Numba otherwise takes hold of each array of a
tuple on entry to every function and lets go of it at the end, one atomic instruction
each: in functions that are called several times per event that was seven eighths of the
time. The arrays of a borrowing kernel belong to the Python frame that called it, which
outlives it; so it cannot make arrays (Numba refuses to compile that), and takes its
scratch space as an argument.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

from numba import njit

Function = TypeVar("Function", bound=Callable[..., object])


def kernel(function: Function) -> Function:
    """Compile a function of arrays and numbers on its first call."""
    return _compiled(function)


def borrowing(function: Function) -> Function:
    """The same for a function that makes no arrays; see the module's head."""
    return _compiled(function, _nrt=False)


def _compiled(function: Function, **options: bool) -> Function:
    compiler: Any = partial(njit, nogil=True, **options)
    try:
        compiled = compiler(cache=True)(function)
    except RuntimeError:  # no place to keep it
        compiled = compiler()(function)
    return cast(Function, compiled)
