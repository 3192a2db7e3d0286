"""The compiler of kernels: Numba's, with a memory, fewer steps and no search for cycles.

Borrowing functions have no closures, no arithmetic of whole arrays and no tuples to unroll. So the
steps that look for these are left out, each of which goes through all of a function. So is the one
that says where variables end: no references are dropped there.

A function makes a hundred thousand objects that all live until it is compiled. Python searches them
for cycles again and again, which took a sixth of the time; so it does not while a function is
compiled. That costs some 100 MB until it is done.
"""

from __future__ import annotations

from typing import Any

from numba.core import compiler as _compiler
from numba.core import typed_passes as _typed
from numba.core import untyped_passes as _untyped

from cernis.compiled.calls import remember
from cernis.cycles import make_lasting

Compiler: Any = _compiler.Compiler
_UNUSED = (
    _untyped.IRProcessing,
    _untyped.WithLifting,
    _untyped.InlineClosureLikes,
    _untyped.MakeFunctionToJitFunction,
    _untyped.InlineInlinables,
    _untyped.FindLiterallyCalls,
    _untyped.LiteralUnroll,
    _typed.InlineOverloads,
    _typed.NopythonRewrites,
    _typed.IRLegalization,
)
"""The steps for what borrowing functions do not have: closures, whole arrays, unrolled tuples, and
references to drop where variables end."""


class KernelCompiler(Compiler):  # type: ignore[misc]
    """Numba's compiler of functions that Python, or kernels, call."""

    library: Any
    """The class of what holds the code."""

    def compile_extra(self, func: Any) -> Any:
        """Compile a function, and the functions that it calls."""
        with make_lasting():
            return super().compile_extra(func)

    def define_pipelines(self) -> Any:
        """Return the steps of compiling a function."""
        state = self.state
        state.library = self.library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        state.typingctx = remember(state.typingctx)
        managers = super().define_pipelines()
        for manager in managers:
            manager.passes = [
                (each, name)
                for each, name in manager.passes
                if state.flags.nrt or each not in _UNUSED
            ]
        return managers
