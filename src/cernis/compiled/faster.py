"""The border to Numba's private parts: compilers that are faster than Numba's own, if it has them.

The modules behind it (`calls`, `compiler`, `entry`, `inner`, `cache`) subclass parts that Numba may
change in any release. A release that they were not tried with compiles small
functions first; if that fails in any way, kernels are compiled and kept Numba's way, which takes
longer, and nothing else changes. The first answers of a sequence and of an ordered index take 1.4
times the processor time then. Without one part (one run each, on a busy machine):

| part left out | sequence | ordered index | `COUNT(*)` |
|---|---|---|---|
| types found once (`calls`) | 1.2 to 1.4 | 1.25 | not measured |
| inner functions as LLVM code (`inner`) | 1.4 | not measured | not measured |
| one optimization, no vectors (`entry`), and fewer steps (`compiler`) | 1.0 | 0.9 | 1.25 |

Cost: none for a release that was tried; half a second, once in a process, for another one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
from numba import njit

_TRIED = ("0.66.", "0.67.", "0.68.")


class Compilers(NamedTuple):
    """What compiles the kinds of kernels; None: Numba's own compiler."""

    entry: Any = None
    vector: Any = None
    inner: Any = None
    apart: Any = None


def _find_compilers() -> tuple[Compilers, Any]:
    """Return the compilers and the cache of kernels that this Numba can carry."""
    try:
        from cernis.compiled.cache import KernelCache
        from cernis.compiled.entry import EntryCompiler, VectorCompiler
        from cernis.compiled.inner import ApartCompiler, InnerCompiler

        found = Compilers(EntryCompiler, VectorCompiler, InnerCompiler, ApartCompiler)
        if not numba.__version__.startswith(_TRIED):
            _try_out(found)
    except Exception:  # whatever a changed Numba answers
        return Compilers(), None
    return found, KernelCache


def _try_out(compilers: Compilers) -> None:
    """Compile a kernel that calls two others; raise an error if it does not compute."""
    make: Any = njit
    options = {"nogil": True, "no_cfunc_wrapper": True, "_nrt": False}

    def compile_one(function: Any, pipeline: Any, **more: bool) -> Any:
        return make(pipeline_class=pipeline, **options, **more)(function)

    double = compile_one(lambda x: 2 * x, compilers.inner, no_cpython_wrapper=True)
    add = compile_one(lambda x: x + 1, compilers.apart, no_cpython_wrapper=True)
    for pipeline in (compilers.entry, compilers.vector):
        if compile_one(lambda x: double(add(x)), pipeline)(3) != 8:
            raise ArithmeticError


COMPILERS, KernelCache = _find_compilers()
