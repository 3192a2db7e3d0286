"""Inner functions inside of kernels, and beside them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import apart, borrowing, callable_from_python


@apart
def _add_first(values, unused, others):  # type: ignore[no-untyped-def]
    return values[0] + others[0]


@borrowing
def _add_firsts(values, unused, others):  # type: ignore[no-untyped-def]
    return _add_first(values, unused, others) + _add_first(others, unused, values)


def test_an_inner_function_has_all_its_arguments_beside_a_kernel_that_leaves_some_out() -> None:
    one, none, two = (np.array([number], np.int64) for number in (1, 0, 2))
    arrays: tuple[NDArray[np.int64], ...] = (one, none, two)
    assert _add_firsts(*arrays) == 6
    assert callable_from_python(_add_first)(*arrays) == 3
