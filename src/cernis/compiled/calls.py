"""Calls of Numba's own functions on numbers, typed once in a process and not at each place.

A third of the calls in a kernel are operators on integers, and reads of an array at an integer.
Numba finds the type of each anew: it goes through all that it knows of an operator (sets, texts,
dates), which takes longer than to find the types of everything else. The answer depends on the
types of the arguments alone, so it is remembered.

Cost: for a query with equal values, 4,500 such calls have 217 different answers.
"""

from __future__ import annotations

import gc
from functools import cache
from typing import Any

from numba.core import compiler as _compiler
from numba.core import types as _types
from numba.core.typing import context as _context

Compiler: Any = _compiler.Compiler
Context: Any = _context.Context
_NUMBERS: Any = (_types.Number, _types.Boolean)
_ARRAY: Any = _types.Array
_ANSWERS: dict[Any, Any] = {}


class RememberingContext(Context):  # type: ignore[misc]
    """Numba's context of types, with all that it knows, and with its answers of before."""

    def __init__(self, real: Any) -> None:
        self.__dict__ = real.__dict__

    def resolve_function_type(self, func: Any, args: Any, kws: Any) -> Any:
        """Return the types of a call."""
        if kws or not _are_numbers(args):
            return super().resolve_function_type(func, args, kws)
        answer = _ANSWERS.get((func, args))
        if answer is None:
            answer = _ANSWERS[func, args] = super().resolve_function_type(func, args, kws)
        return answer


def _are_numbers(args: tuple[Any, ...]) -> bool:
    """Return whether arguments are numbers, or an array and numbers."""
    if args and isinstance(args[0], _ARRAY):
        args = args[1:]
    return bool(args) and all(isinstance(one, _NUMBERS) for one in args)


@cache
def _remember(context: Any) -> Any:
    return RememberingContext(context)


class RememberingCompiler(Compiler):  # type: ignore[misc]
    """Numba's compiler, which remembers the types of calls, and leaves garbage for later.

    A function makes a hundred thousand objects that all live until it is compiled: searching them
    for cycles again and again took a sixth of the time. It costs some 100 MB while it compiles.
    """

    def compile_extra(self, func: Any) -> Any:
        """Compile a function, and the functions that it calls."""
        collects = gc.isenabled()
        gc.disable()
        try:
            return super().compile_extra(func)
        finally:
            if collects:
                gc.enable()

    def define_pipelines(self) -> Any:
        self.state.typingctx = _remember(self.state.typingctx)
        return super().define_pipelines()
