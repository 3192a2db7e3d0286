"""The two ways this package compiles a kernel with Numba.

Compiled code is cached on disk between runs (`cernis.compiled.cache` says where, and when
it is valid) and releases the interpreter lock. The same source also runs as plain Python: for the
first events of a process (`cernis.compiled.tiers`), and always with `NUMBA_DISABLE_JIT=1`.

A *borrowing* kernel counts no references. Numba otherwise counts a reference to each array
of a tuple on entry to every function and drops it at the end, one atomic instruction each:
in functions that are called several times per event that was seven eighths of the time.
The arrays of a borrowing kernel belong to the Python frame that called it, which outlives
it. So it cannot make arrays (Numba refuses to compile that), and takes its scratch arrays
as arguments.

Compiling is what a first query waits for, so each function is compiled as little as possible. Only
an entry from Python gets the code that unpacks Python objects, which for tuples of arrays takes
longer to compile than many a kernel: the rest are *inner* functions, which become machine code
only as a part of their callers (`cernis.compiled.inner`), and which are optimized once there
(`cernis.compiled.entry`). And a call from another kernel
widens integers: Numba would compile a function again for each constant and each width that it is
called with. The types of a call are found once, not at each use (`cernis.compiled.calls`), and no
function gets the code that lets C call it. All of that uses private parts of Numba, and is behind
one interface (`cernis.compiled.faster`): a Numba without these parts compiles the same kernels,
more slowly. Turned down: Numba's translation to LLVM code without what LLVM would remove, which
made the first answer 1.1 times as fast.
Functions that a kernel needs now and then stay *apart* from it: LLVM takes longer for
one large function than for its parts.

A kernel also leaves out what the plan does not use. The plan passes None for it, and Numba compiles
nothing of what `if … is None` skips (`cernis.engine.correlated.stores`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit
from numba import types as _numba_types

from cernis.compiled.faster import COMPILERS, KernelCache
from cernis.compiled.tiers import add_tiers

types: Any = _numba_types

Function = TypeVar("Function", bound=Callable[..., object])
Array = TypeVar("Array", bound=np.ndarray[Any, Any])


def record(wide: str, narrow: str) -> np.dtype[np.void]:
    """Return the layout of a record: fields of 8 bytes, then fields of 4.

    >>> record("start", "left right").itemsize
    16
    """
    fields = [(name, np.int64) for name in wide.split()]
    return np.dtype([*fields, *((name, np.int32) for name in narrow.split())])


def read_only(array: Array) -> Array:
    """Return a view that cannot be written to, as kernels take arrays of the input.

    Some of them come from Arrow, and are so. Numba would compile a kernel again for the others.
    """
    view = array.view()
    view.flags.writeable = False
    return view


def kernel(function: Function) -> Function:
    """Compile a function of arrays and numbers on its first call."""
    return _compile_entry(function, COMPILERS.entry)


def borrowing(function: Function) -> Function:
    """Compile a function that makes no arrays; see the module's head."""
    return _compile_entry(function, COMPILERS.vector, _nrt=False)


def inner(function: Function) -> Function:
    """Compile a borrowing function that only kernels call, which is quicker."""
    return _compile_inner(function, COMPILERS.inner)


def apart(function: Function) -> Function:
    """Compile an inner function that LLVM must not inline, for what a kernel does now and then.

    Numba hands `forceinline` down, from an inlined function to those that it calls, and LLVM takes
    long for one large function.
    """
    return _compile_inner(function, COMPILERS.apart, forceinline=False)


def inlined(function: Function) -> Function:
    """Compile a borrowing function into each of its callers: LLVM puts its body there.

    Turned down: Numba's own inlining, which types and translates the body again for each caller.
    """
    return _compile_inner(function, COMPILERS.inner, forceinline=True)


def callable_from_python(function: Function) -> Function:
    """Return a kernel that calls an inner function, for tests: Python cannot call it itself."""
    compiler: Any = njit
    return cast(Function, compiler(lambda *args: function(*args)))


def _compile_entry(function: Function, pipeline: Any, **options: bool | str) -> Function:
    """Compile a function that Python calls."""
    compiled = _compile(function, pipeline, **options)
    add_tiers(compiled)
    return compiled


def _compile_inner(function: Function, pipeline: Any, **options: bool | str) -> Function:
    """Compile a function that Python does not call."""
    options = {"_nrt": False, "no_cpython_wrapper": True, **options}
    return _compile(function, pipeline, **options)


def _compile(function: Function, pipeline: Any, **options: bool | str) -> Function:
    compiler: Any = njit
    chosen = {} if pipeline is None else {"pipeline_class": pipeline}
    compiled = compiler(nogil=True, no_cfunc_wrapper=True, **chosen, **options)(function)
    if compiled is function:  # Numba was told to compile nothing
        return function
    _share_versions(compiled)
    if KernelCache is not None:
        compiled._cache = KernelCache(function, options)
    else:
        with suppress(RuntimeError):  # no folder to keep it in
            compiled.enable_caching()
    return cast(Function, compiled)


def _share_versions(compiled: Any) -> None:
    """Let calls from other kernels use one version for all constants and widths of integers."""
    find_version = compiled.get_call_template

    def find_wide_version(args: Any, kws: Any) -> Any:
        return find_version(tuple(map(_widen, args)), {k: _widen(v) for k, v in kws.items()})

    compiled.get_call_template = find_wide_version


def _widen(kind: Any) -> Any:
    """Return the type of a number without its value, and signed integers in 64 bits."""
    kind = types.unliteral(kind)
    return types.int64 if isinstance(kind, types.Integer) and kind.signed else kind
