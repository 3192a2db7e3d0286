"""The compiler of kernels: Numba's, with a memory, a shorter translation and no search for cycles.

A function makes a hundred thousand objects that all live until it is compiled. Python searches them
for cycles again and again, which took a sixth of the time; so it does not while a function is
compiled. That costs some 100 MB until it is done.
"""

from __future__ import annotations

from typing import Any

from numba.core import compiler as _compiler

from cernis.compiled.calls import remember
from cernis.compiled.lowering import KernelLowering, NativeLowering, adapt_context
from cernis.cycles import pause_cycle_search

Compiler: Any = _compiler.Compiler


class KernelCompiler(Compiler):  # type: ignore[misc]
    """Numba's compiler of functions that Python, or kernels, call."""

    library: Any
    """The class of what holds the code."""

    def compile_extra(self, func: Any) -> Any:
        """Compile a function, and the functions that it calls."""
        with pause_cycle_search():
            return super().compile_extra(func)

    def define_pipelines(self) -> Any:
        """Return the steps of compiling a function."""
        state = self.state
        state.library = self.library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        state.typingctx = remember(state.typingctx)
        adapt_context(state.targetctx, state.typingctx)
        managers = super().define_pipelines()
        for manager in managers:
            manager.passes = [
                (KernelLowering if each is NativeLowering else each, name)
                for each, name in manager.passes
            ]
        return managers
