"""The identity of a kernel: a digest of its code and of everything the code refers to.

Numba puts the functions that a kernel calls, the constants it reads and the layout of its
records into the compiled code. So the digest covers all of these, in whichever module they
are defined, and compiled code is valid exactly as long as the digest is the same. It sees
bytecode, not files: a package in a zip, unpacked elsewhere or with other comments has the
same kernels.

Turned down: the stamp of the file that holds the kernel, which is Numba's own way, and
misses what that file imports; and a digest of all source files, with which every edit
compiles everything again (40 s).

An object of another kind raises `Unknown`, and such a kernel is compiled in every process:
slow, but never stale.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

_PLAIN = (bool, int, float, complex, str, bytes, type(None), np.generic, np.dtype)


class Unknown(Exception):
    """A kernel refers to an object of a kind that has no digest."""


def identity(function: Callable[..., object]) -> str:
    """Return the digest of a kernel; see the module's head."""
    walk = _CodeWalk(_package(function))
    walk.read(function)
    return walk.digest.hexdigest()


def spelled(kind: Any) -> str:
    """Return a Numba type in words: Numba's own, and the fields of named tuples."""
    inner = [spelled(part) for part in getattr(kind, "types", ())]
    words = f"{kind} {getattr(kind, 'fields', '')} {inner}"
    if " at 0x" in words:  # an object of this process
        raise Unknown(words)
    return words


class _CodeWalk:
    """A walk from a function to everything it refers to, each object once."""

    def __init__(self, package: str) -> None:
        self.digest = sha256()
        self._package = package
        self._met: dict[object, int] = {}

    def read(self, value: Any) -> None:
        value = getattr(value, "py_func", value)  # a kernel stands for its source
        if isinstance(value, FunctionType | BuiltinFunctionType | type | np.ufunc):
            self._read_named(value)
        elif isinstance(value, _PLAIN):
            self._say(type(value).__qualname__, repr(value))
        elif type(value) is tuple:
            self._read_all(value)
        elif isinstance(value, frozenset):
            self._read_all(sorted(value, key=repr))
        elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
            self._say(repr(value.dtype), repr(value.shape), value.tobytes().hex())
        else:
            raise Unknown(f"{value!r} of type {type(value).__qualname__}")

    def _read_all(self, values: Iterable[Any]) -> None:
        parts = tuple(values)
        self._say("parts", str(len(parts)))
        for part in parts:
            self.read(part)

    def _read_named(self, value: Any) -> None:
        self._say(_package(value), getattr(value, "__qualname__", repr(value)))
        if _package(value) != self._package:
            return  # Numba has its own version of it, or the interpreter has
        if not self._is_new(value):
            return
        if isinstance(value, FunctionType):
            self._read_function(value)
        elif hasattr(value, "_fields"):
            self._say("named tuple", repr(value._fields), repr(value._field_defaults))
        elif not issubclass(value, BaseException):
            raise Unknown(repr(value))

    def _read_function(self, function: FunctionType) -> None:
        self._read_all(function.__defaults__ or ())
        self._read_all(sorted((function.__kwdefaults__ or {}).items()))
        self._read_all(cell.cell_contents for cell in function.__closure__ or ())
        self._read_code(function.__code__, function.__globals__)

    def _read_code(self, code: CodeType, scope: Mapping[str, Any]) -> None:
        self._say("code", code.co_code.hex(), code.co_exceptiontable.hex())
        self._say(repr((code.co_argcount, code.co_flags, code.co_names, code.co_varnames)))
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                self._read_code(constant, scope)
            else:
                self.read(constant)
        self._read_names(code, scope)

    def _read_names(self, code: CodeType, scope: Mapping[str, Any]) -> None:
        """Read the objects of the names in the code; after a module's name, in that module."""
        for name in code.co_names:
            if name not in scope:
                continue  # a builtin or an attribute
            value = scope[name]
            self._say("name", name)
            if not isinstance(value, ModuleType):
                self.read(value)
            elif value.__name__.partition(".")[0] != self._package:
                self._say("module", value.__name__)
            elif self._is_new((value, code)):
                self._read_names(code, vars(value))

    def _is_new(self, value: object) -> bool:
        """Whether this is the first time; the object's number goes into the digest."""
        count = len(self._met)
        number = self._met.setdefault(value, count)
        self._say("number", str(number))
        return number == count

    def _say(self, *words: str) -> None:
        for word in words:
            self.digest.update(f"{len(word)}:{word}".encode())


def _package(value: Any) -> str:
    return (getattr(value, "__module__", None) or "").partition(".")[0]
