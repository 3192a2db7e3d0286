"""A Numba that lacks a private part compiles kernels its own way."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numba
import pytest
from numba.core import codegen, typed_passes, untyped_passes

from cernis import compiled
from cernis.compiled import entry, faster

MODULES = ("calls", "compiler", "entry", "inner", "cache")
"""What subclasses private parts of Numba."""


def compile_and_call(found: tuple[faster.Compilers, Any], patch: pytest.MonkeyPatch) -> object:
    """Return what a kernel computes that calls two others, compiled so."""
    patch.setattr(compiled, "COMPILERS", found[0])
    patch.setattr(compiled, "KernelCache", found[1])
    double: Callable[[int], int] = compiled.inner(lambda x: 2 * x)
    add: Callable[[int], int] = compiled.apart(lambda x: x + 1)
    return compiled.callable_from_python(compiled.borrowing(lambda x: double(add(x))))(3)


@pytest.mark.parametrize(
    ("module", "part"),
    [
        (typed_passes, "InlineOverloads"),
        (codegen, "JITCodeLibrary"),
        (untyped_passes, "LiteralUnroll"),
    ],
)
def test_a_numba_without_a_private_part_compiles_its_own_way(
    module: Any, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in MODULES:
        monkeypatch.delitem(sys.modules, f"cernis.compiled.{name}")
    monkeypatch.delattr(module, part)
    found = faster._find_compilers()
    assert found == (faster.Compilers(), None)
    assert compile_and_call(found, monkeypatch) == 8


def test_a_numba_whose_private_parts_do_other_things_compiles_its_own_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*args: object, **options: object) -> None:
        raise TypeError("another signature")

    monkeypatch.setattr(numba, "__version__", "9.9.0")
    monkeypatch.setattr(entry, "_make_passes", fail)
    assert faster._find_compilers() == (faster.Compilers(), None)


def test_a_numba_that_is_not_known_is_tried_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba, "__version__", "9.9.0")
    found = faster._find_compilers()
    assert found == (faster.COMPILERS, compiled.KernelCache)
    assert compile_and_call(found, monkeypatch) == 8
