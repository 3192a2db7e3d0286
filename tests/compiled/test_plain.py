"""The plain form of kernels: it reads and writes the same memory, whatever its views."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from numba.core import config

from cernis.compiled import kernel, record
from cernis.compiled.plain import viewing
from cernis.compiled.tiers import interpret

pytestmark = pytest.mark.skipif(bool(config.DISABLE_JIT), reason="nothing is compiled")

PAIR = record("start", "left")


class Memory(NamedTuple):
    pairs: Any
    used: Any
    weights: Any


def fill(memory: Any, numbers: Any) -> Any:
    memory = Memory(*memory)
    kinds = 0
    for i in range(len(numbers)):
        memory.pairs[i]["start"] = numbers[i]
        memory.pairs[i]["left"] = -i
        pair = memory.pairs[i]
        pair["left"] += 1
        memory.used[0] += memory.pairs[i]["left"]
        kinds += len(memory.pairs)
    memory.pairs[0] = memory.pairs[2]
    memory.weights[1] = memory.weights[0] / 2
    return kinds, numbers[0] - 1 < numbers[0]


def new_memory() -> Any:
    return tuple(Memory(np.zeros(3, PAIR), np.zeros(1, np.int64), np.ones(2)))


def test_views_leave_in_memory_what_compiled_code_does() -> None:
    numbers = np.array([np.iinfo(np.int64).min, 5, 7])
    viewed = viewing("memory")(kernel(fill))
    left, right = new_memory(), new_memory()
    with np.errstate(all="ignore"):
        expected = fill(right, numbers)
    assert interpret(viewed, (left, numbers)) == expected
    for mine, other in zip(left, right, strict=True):
        assert mine.tolist() == other.tolist()


def test_arguments_without_views_wrap_around_as_compiled_code_does() -> None:
    viewed = viewing("memory")(kernel(fill))
    _, is_less = interpret(viewed, (new_memory(), np.full(3, np.iinfo(np.int64).min)))
    assert not is_less


def test_a_function_without_its_text_has_a_plain_form(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> str:
        raise OSError

    monkeypatch.setattr("inspect.getsource", refuse)
    viewed = viewing("memory")(kernel(fill))
    memory = new_memory()
    interpret(viewed, (memory, np.array([4, 5, 7])))
    assert memory[0]["start"].tolist() == [7, 5, 7]
