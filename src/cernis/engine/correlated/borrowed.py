"""Kernels that borrow the arrays they are given.

Numba counts references: a function that is given `Memory` takes hold of each of its
arrays on entry and lets go of them at the end, one atomic instruction each. For functions
that are called several times per event that was seven eighths of the time spent. A
kernel compiled here counts nothing: its arrays belong to the Python frame that called
it, which outlives it. So it cannot make arrays either (Numba refuses to compile it), and
takes its scratch space as an argument.

Turned down: writing `step` as one function, which would spare the calls, but not the
counting at each use inside its loops.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

from numba import njit

Function = TypeVar("Function", bound=Callable[..., object])


def kernel(function: Function) -> Function:
    """Compile a function that makes no arrays, as `cernis.compiled.kernel` does otherwise."""
    borrowing: Any = partial(njit, nogil=True, _nrt=False)
    try:
        compiled = borrowing(cache=True)(function)
    except RuntimeError:  # no place to keep it
        compiled = borrowing()(function)
    return cast(Function, compiled)
