"""Calls of Numba's own functions on numbers, typed once in a process and not at each use.

A third of the calls in a kernel are operators on integers, and reads of an array at an integer.
Numba finds the type of each anew: it goes through all that it knows of an operator (sets, texts,
dates), which takes longer than to find the types of everything else. The answer depends on the
types of the arguments alone, so it is remembered.

Cost: for a query with equal values, 4,500 such calls have 217 different answers.
"""

from __future__ import annotations

from copy import copy
from functools import cache
from typing import Any

from numba.core import types as _types
from numba.core.typing import context as _context

Context: Any = _context.Context
FunctionType: Any = _types.Function
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

    def resolve_value_type(self, value: Any) -> Any:
        """Return the type of a value. The type of an operator remembers its calls."""
        kind = super().resolve_value_type(value)
        return _remember_calls(kind) if type(kind) is FunctionType else kind


@cache
def _remember_calls(function: Any) -> Any:
    """Return the type of one of Numba's functions, which remembers the types of its calls."""
    find = function.get_call_type
    answers: dict[Any, Any] = {}

    def find_once(context: Any, args: Any, kws: Any) -> Any:
        if kws:
            return find(context, args, kws)
        answer = answers.get(args)
        if answer is None:
            answer = answers[args] = find(context, args, kws)
        return answer

    remembering = copy(function)
    remembering.get_call_type = find_once
    return remembering


def _are_numbers(args: tuple[Any, ...]) -> bool:
    """Return whether arguments are numbers, or an array and numbers."""
    if args and isinstance(args[0], _ARRAY):
        args = args[1:]
    return bool(args) and all(isinstance(one, _NUMBERS) for one in args)


@cache
def remember(context: Any) -> Any:
    """Return Numba's context of types, with a memory."""
    return RememberingContext(context)
