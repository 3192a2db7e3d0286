"""The records of each benchmark at its smallest, made once for all tests."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from benchmarks import BENCHMARKS
from benchmarks.record import Record
from benchmarks.scale import QUICK


@pytest.fixture(scope="session")
def measured() -> Callable[[str], list[Record]]:
    return cache(lambda name: BENCHMARKS[name].run(QUICK, lambda *_: None))
