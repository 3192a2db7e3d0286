"""The plain form of a kernel: the same source as Python, without the compiler.

Reading a number of a NumPy array makes an object that is slow to compute with, and a field of a
record makes two. So a kernel may say which of its arguments are *viewed* (`viewing`): tables and
records of integers, which its plain form then reads as Python's own integers, through views of the
same memory. Python's integers do not wrap around: values that a kernel lets do so, such as times
and the ends of gaps, stay NumPy's.

The plain form asks for `records["field"][i]` where the source has `records[i]["field"]`, which
makes no object for the record.

Cost: making a plain form takes half a millisecond for each function with records. Viewed, the step
kernel that compares events took 1.4 seconds in place of 2.3, in one run.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any, TypeVar

import numpy as np
from numba.core.registry import CPUDispatcher as _CPUDispatcher

CPUDispatcher: Any = _CPUDispatcher
Function = TypeVar("Function", bound=Callable[..., object])

_plain: dict[int, Any] = {}
"""The plain form of each kernel and module that a plain kernel refers to."""
_viewed: dict[int, frozenset[int]] = {}
"""Per kernel, which of its arguments are viewed."""


def viewing(*names: str) -> Callable[[Function], Function]:
    """Let the plain form of a kernel view these arguments, arrays or tuples of arrays."""

    def note(kernel: Function) -> Function:
        signature = [*inspect.signature(getattr(kernel, "py_func", kernel)).parameters]
        _viewed[id(kernel)] = frozenset(map(signature.index, names))
        return kernel

    return note


def call_plain(kernel: Any, args: tuple[Any, ...]) -> Any:
    """Call the plain form of a kernel."""
    viewed = _viewed.get(id(kernel), ())
    given = [_view(value) if i in viewed else value for i, value in enumerate(args)]
    return _convert(_find_plain(kernel)(*given))


def _view(value: Any) -> Any:
    """Return a view of the integers of arrays, and any other value as it is."""
    if isinstance(value, tuple):
        parts = map(_view, value)
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, np.ndarray) and value.ndim == 1:
        if value.dtype.names is not None:
            return _RecordsView(value)
        if value.dtype.kind in "iu" and value.flags.aligned:
            return value.data
    return value


class _RecordsView(dict[Any, Any]):
    """An array of records: a view for each field, and each record by its number."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        super().__init__((name, _view(array[name])) for name in array.dtype.names or ())
        self._length = len(array)

    def __len__(self) -> int:
        return self._length

    def __missing__(self, number: int) -> _RecordView:
        return _RecordView(self, number)

    def __setitem__(self, number: int, record: Any) -> None:
        for name, field in self.items():
            field[number] = record[name]


class _RecordView:
    """One record of an array."""

    __slots__ = ("_number", "_records")

    def __init__(self, records: _RecordsView, number: int) -> None:
        self._records, self._number = records, number

    def __getitem__(self, name: str) -> Any:
        return self._records[name][self._number]

    def __setitem__(self, name: str, value: Any) -> None:
        self._records[name][self._number] = value


class _FieldsFirst(ast.NodeTransformer):
    """Rewrites `records[i]["field"]` to `records["field"][i]`."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        record = node.value
        is_field = isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)
        if not (is_field and isinstance(record, ast.Subscript)):
            return node
        fields = ast.Subscript(record.value, node.slice, ast.Load())
        return ast.Subscript(fields, record.slice, node.ctx)


def _put_fields_first(function: FunctionType) -> CodeType:
    """Return the code of a function that asks for fields first, if it has records."""
    code = function.__code__
    if code.co_freevars or not any(isinstance(each, str) for each in code.co_consts[1:]):
        return code
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except OSError:  # there is no text
        return code
    tree = _FieldsFirst().visit(ast.parse(source))
    tree.body[0].decorator_list.clear()
    ast.increment_lineno(ast.fix_missing_locations(tree), code.co_firstlineno - 1)
    made = compile(tree, code.co_filename, "exec").co_consts
    return next(each for each in made if isinstance(each, CodeType))


def _convert(value: Any) -> Any:
    """Return the numbers of a result as Python's, as compiled code does."""
    if isinstance(value, np.generic) and value.dtype.names is None:
        return value.item()
    if isinstance(value, tuple):
        parts = map(_convert, value)
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


def _find_plain(value: Any) -> Any:
    """Return the plain form of a kernel or of a module of kernels, and any other value as it is."""
    if isinstance(value, CPUDispatcher):
        return _plain.get(id(value)) or _plain.setdefault(id(value), _make_plain(value.py_func))
    if isinstance(value, ModuleType) and value.__name__.startswith("cernis."):
        return _plain.get(id(value)) or _plain.setdefault(id(value), _PlainModule(value))
    return value


def _make_plain(function: FunctionType) -> FunctionType:
    """Return a function that calls the plain forms of the kernels that it refers to."""
    scope = _plain.get(id(function.__globals__))
    if scope is None:
        scope = _plain[id(function.__globals__)] = dict(function.__globals__)
        scope |= {name: _find_plain(value) for name, value in list(scope.items())}
    cells = function.__closure__
    closure = (
        None if cells is None else tuple(CellType(_find_plain(c.cell_contents)) for c in cells)
    )
    code = _put_fields_first(function)
    plain = FunctionType(code, scope, function.__name__, function.__defaults__, closure)
    plain.__kwdefaults__ = function.__kwdefaults__
    return plain


class _PlainModule:
    """A module as plain kernels see it."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        value = _find_plain(getattr(self._module, name))
        setattr(self, name, value)
        return value
