"""Inner functions as LLVM code alone: only the kernels that call them become machine code.

Numba optimizes every function it compiles, turns it into machine code, and links it into its
callers, where both happen again: a function three calls below a kernel is optimized four times.
Python never calls an inner function. So its library stays what Numba has translated, and the
kernels above it optimize it once each, where they inline it.

Cost: compiling the kernels of a query with an ordered index took 16 processor seconds in place of
23, those of a sequence 5.8 in place of 6.2 (one run each). Rates with compiled code did not fall.
Nor did they when Numba's passes over each function alone went, which took a tenth of the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numba.core import codegen as _codegen
from numba.core import compiler as _compiler

from cernis.compiled.compiler import KernelCompiler

_LLVM: Any = vars(_codegen)["ll"]
JITCodeLibrary: Any = _codegen.JITCodeLibrary
_compile_result: Any = _compiler.compile_result
_KIND = "inner"


class KernelLibrary(JITCodeLibrary):  # type: ignore[misc]
    """The code of a function, which is optimized together with the functions that it calls."""

    def _optimize_functions(self, ll_module: Any) -> None:
        """Optimize nothing yet: Numba would optimize the function by itself first."""
        ll_module.data_layout = self._codegen._data_layout


class InnerLibrary(KernelLibrary):
    """The code of an inner function, with that of all functions it calls."""

    is_apart = False
    """Whether LLVM must not inline the function."""

    def finalize(self) -> None:
        """Link the functions that this one calls; optimize nothing."""
        self._raise_if_finalized()
        for function in self._final_module.functions if self.is_apart else ():
            if not function.is_declaration:
                function.add_function_attribute("noinline")
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return 0: there is no machine code."""
        self._ensure_finalized()
        return 0

    @property
    def codegen(self) -> Any:
        return _NoEnvironments(self._codegen)

    def serialize_using_object_code(self) -> tuple[str, str, bytes]:
        """Return the name and the code, for `rebuild_inner`."""
        self._ensure_finalized()
        return self.name, _KIND, self._final_module.as_bitcode()


class _NoEnvironments:
    """The code generator of a library that is never run by itself."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def set_env(self, name: str, environment: object) -> None:
        """Do nothing: the callers set the environments that they refer to."""


class ApartLibrary(InnerLibrary):
    """The code of an inner function that LLVM must not inline."""

    is_apart = True


class InnerCompiler(KernelCompiler):
    """The compiler of inner functions."""

    library = InnerLibrary


class ApartCompiler(KernelCompiler):
    """The compiler of inner functions that are not inlined."""

    library = ApartLibrary


def rebuild_inner(target: Any, parts: Sequence[Any]) -> Any:
    """Return the result of compiling an inner function, from its parts; None: of another kind."""
    (name, kind, bitcode), function, environment, signature = parts[:4]
    if kind != _KIND:
        return None
    reload = parts[7]
    for prepare in reload or ():
        prepare()
    library = InnerLibrary(target.codegen(), name)
    library._final_module = _LLVM.parse_bitcode(bitcode)
    library._finalized = True
    return _compile_result(
        typing_context=target.typing_context,
        target_context=target,
        library=library,
        environment=environment,
        entry_point=target.get_executable(library, function, environment),
        fndesc=function,
        signature=signature,
        objectmode=False,
        lifted=(),
        reload_init=reload,
        referenced_envs=parts[8],
    )
