"""The two ways this package compiles a kernel with Numba.

Compiled code is cached on disk between runs (`cernis.compiled.cache` says where, and when
it is valid) and releases the interpreter lock. With `NUMBA_DISABLE_JIT=1` the same source
runs as plain Python.

A *borrowing* kernel counts no references. Numba otherwise counts a reference to each array
of a tuple on entry to every function and drops it at the end, one atomic instruction each:
in functions that are called several times per event that was seven eighths of the time.
The arrays of a borrowing kernel belong to the Python frame that called it, which outlives
it. So it cannot make arrays (Numba refuses to compile that), and takes its scratch arrays
as arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit

try:
    from cernis.compiled.cache import KernelCache
except (ImportError, AttributeError):  # a Numba of other parts: keep code its way
    KernelCache = None  # type: ignore[assignment,misc]

Function = TypeVar("Function", bound=Callable[..., object])


def record(wide: str, narrow: str) -> np.dtype[np.void]:
    """Return the layout of a record: fields of 8 bytes, then fields of 4.

    >>> record("start", "left right").itemsize
    16
    """
    fields = [(name, np.int64) for name in wide.split()]
    return np.dtype([*fields, *((name, np.int32) for name in narrow.split())])


def kernel(function: Function) -> Function:
    """Compile a function of arrays and numbers on its first call."""
    return _compile(function)


def borrowing(function: Function) -> Function:
    """Compile a function that makes no arrays; see the module's head."""
    return _compile(function, _nrt=False)


def inner(function: Function) -> Function:
    """Compile a borrowing function that only kernels call, which is quicker."""
    return _compile(function, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def inlined(function: Function) -> Function:
    """Compile an inner function into each of its callers."""
    return _compile(
        function, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True, forceinline=True
    )


def _compile(function: Function, **options: bool) -> Function:
    compiler: Any = njit
    compiled = compiler(nogil=True, **options)(function)
    if compiled is function:  # Numba was told to compile nothing
        return function
    if KernelCache is not None:
        compiled._cache = KernelCache(function, options)
    else:
        with suppress(RuntimeError):  # no place to keep it
            compiled.enable_caching()
    return cast(Function, compiled)
