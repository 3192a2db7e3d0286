"""Entries from Python: the machine code of a kernel, with all functions that it calls.

A kernel that calls inner functions is an engine: it goes from record to record, and its loops are
a few rounds long and end early. LLVM would write each of them a second time for vectors and a third
time unrolled, and then seldom run those. So vectors are left out, but for borrowing kernels: the
aggregator goes over the states of a query, and where they are many, it is a fifth slower without.

One optimization is enough for both. Numba runs two, the first to bring counts of references
together, and inner functions have none. Kernels that call no inner function are loops over columns,
and are compiled Numba's way.

Cost: compiling the kernels of a query with an ordered index took 7.8 processor seconds in place of
10.7, those of `COUNT(*)` in a window 18 in place of 24 (one run each, on a busy machine). Rates
with compiled code did not fall.
"""

from __future__ import annotations

from typing import Any

from numba.core import codegen as _codegen

from cernis.compiled.compiler import KernelCompiler
from cernis.compiled.inner import InnerLibrary, KernelLibrary

_make_passes: Any = _codegen.CPUCodegen._module_pass_manager
_NO_VECTORS = {"loop_vectorize": False, "slp_vectorize": False}


class EntryLibrary(KernelLibrary):
    """The code of a function that Python calls."""

    has_vectors = False
    """Whether the loops of an engine may go over vectors."""

    def _optimize_final_module(self) -> None:
        if not any(isinstance(one, InnerLibrary) for one in self._linking_libraries):
            super()._optimize_final_module()
            return
        self._hide_inner()
        passes, builder = _make_passes(self._codegen, **({} if self.has_vectors else _NO_VECTORS))
        passes.run(self._final_module, builder)

    def _hide_inner(self) -> None:
        """Keep inner functions to this module: LLVM then passes only the arguments that they use.

        They are private: modules that are linked later would find internal ones by their names.
        """
        inner = {
            function.name
            for library in self._linking_libraries
            if isinstance(library, InnerLibrary)
            for function in library._final_module.functions
            if not function.is_declaration
        }
        for function in self._final_module.functions:
            if function.name in inner and not function.is_declaration:
                function.linkage = "private"


class VectorLibrary(EntryLibrary):
    """The code of a function that Python calls, whose loops may go over vectors."""

    has_vectors = True


class EntryCompiler(KernelCompiler):
    """The compiler of functions that Python calls."""

    library = EntryLibrary


class VectorCompiler(KernelCompiler):
    """The compiler of functions that Python calls, whose loops may go over vectors."""

    library = VectorLibrary
