"""A kernel's digest changes with everything that goes into its compiled code, and with no more."""

from __future__ import annotations

import os
import pkgutil
import subprocess
import sys
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any

import numba
import numpy as np
import pytest

import cernis
from cernis.compiled.identity import Unknown, identity, spelled

PARTS = """
import numpy as np
LIMIT = 3
RECORD = np.dtype([("start", np.int64), ("end", np.int64)])
TABLE = np.array([1, 2, 3])
class Refused(Exception):
    pass
def inner(x):
    return x + 1
def middle(x):
    return inner(x)
"""
KERNEL = """
from typing import NamedTuple
class Pair(NamedTuple):
    left: int
    right: int
def outside(x):
    return x
def enclosed(step):
    def f(x):
        return x + step
    return f
taken = enclosed(5)
def recursive(x):
    return x if x < LIMIT else recursive(x - 1)
def f(x, by=2):
    values = np.zeros(x, RECORD)
    if x in {"a", "b", "c"} or x > LIMIT:
        raise Refused
    return Pair(middle(x) * by, parts.FACTOR) if x else taken(TABLE[x]) + recursive(x)
"""


def kernel_of(
    parts: str = PARTS, kernel: str = KERNEL, factor: object = 7, file: str = "<one>"
) -> FunctionType:
    """The function f of a module that takes names from another one, and others by its name."""
    other, module = ModuleType("pack.parts"), ModuleType("pack.kernel")
    exec(compile(parts, file, "exec"), vars(other))
    vars(other)["FACTOR"] = factor
    taken = {name: value for name, value in vars(other).items() if not name.startswith("_")}
    del taken["FACTOR"]
    vars(module).update(taken, parts=other)
    exec(compile(kernel, file, "exec"), vars(module))
    function: FunctionType = vars(module)["f"]
    return function


CHANGES = [
    ("LIMIT = 3", "LIMIT = 4"),
    ("LIMIT = 3", "LIMIT = 3.0"),
    ("LIMIT = 3", "LIMIT = np.int32(3)"),
    ("return x + 1", "return x + 2"),
    ("return x + 1", "return x - 1"),
    ('("end", np.int64)', '("end", np.int32)'),
    ('("start", np.int64), ("end", np.int64)', '("end", np.int64), ("start", np.int64)'),
    ("[1, 2, 3]", "[1, 2, 4]"),
    ("left: int\n    right: int", "right: int\n    left: int"),
    ("enclosed(5)", "enclosed(6)"),
    ("by=2", "by=3"),
    ('{"a", "b", "c"}', '{"a", "b", "d"}'),
    ("values = np.zeros", "values = np.empty"),
    ("recursive(x - 1)", "recursive(x - 2)"),
]


@pytest.mark.parametrize(("old", "new"), CHANGES, ids=[new for _, new in CHANGES])
def test_whatever_goes_into_the_code_changes_the_digest(old: str, new: str) -> None:
    assert old in PARTS + KERNEL
    changed = kernel_of(PARTS.replace(old, new), KERNEL.replace(old, new))
    assert identity(changed) != identity(kernel_of())


def test_a_constant_that_is_read_through_its_module_changes_the_digest() -> None:
    assert identity(kernel_of(factor=8)) != identity(kernel_of(factor=7))


def test_what_the_kernel_does_not_use_leaves_the_digest_alone() -> None:
    kernel = "# a comment\n\n" + KERNEL.replace("def outside(x):\n    return x", "UNUSED = {}")
    parts = PARTS + "def unused(x):\n    return x\n"
    assert identity(kernel_of(parts, kernel, file="/elsewhere/p.zip/kernel.py")) == identity(
        kernel_of()
    )


def test_a_compiled_function_and_its_source_have_one_digest() -> None:
    plain, called = kernel_of(), kernel_of()
    called.__globals__["middle"] = numba.njit(called.__globals__["middle"])
    assert identity(called) == identity(plain)


@pytest.mark.parametrize("value", [{}, [1], object(), np.array([None]), int.__add__])
def test_what_cannot_be_told_apart_is_refused(value: object) -> None:
    with pytest.raises(Unknown):
        identity(kernel_of(factor=value))


def test_every_process_finds_the_same_digest() -> None:
    script = (
        "import runpy; from cernis.compiled.identity import identity;"
        f"print(identity(runpy.run_path({__file__!r})['kernel_of']()))"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in range(3)
    }
    assert digests == {identity(kernel_of()) + "\n"}


def test_every_kernel_of_the_package_has_a_digest_of_its_own() -> None:
    kernels = {
        value.py_func
        for found in pkgutil.walk_packages(cernis.__path__, "cernis.")
        if found.name.split(".")[1] in {"engine", "events", "results", "run"}
        for value in vars(import_module(found.name)).values()
        if isinstance(value, numba.core.dispatcher.Dispatcher)
    }
    assert len(kernels) > 50
    assert len({identity(kernel) for kernel in kernels}) == len(kernels)


def test_types_of_named_tuples_are_spelled_with_their_fields() -> None:
    scope: dict[str, Any] = dict(vars(sys.modules[kernel_of.__module__]))
    exec(KERNEL.replace("taken = enclosed(5)", ""), scope)
    one = numba.typeof((0, scope["Pair"](1, 2)))
    exec(KERNEL.replace("taken = enclosed(5)", "").replace("left", "first"), scope)
    other = numba.typeof((0, scope["Pair"](1, 2)))
    assert str(one) == str(other)
    assert spelled(one) != spelled(other)


def test_the_type_of_an_object_of_this_process_is_refused() -> None:
    with pytest.raises(Unknown):
        spelled(numba.typeof(numba.njit(lambda x: x)))
