from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cernis.encoding.clock import AttributeClock, Clock, from_sortable, read_time_clock, to_sortable
from cernis.errors import DataError
from cernis.events.batch import EventBatch


def batch_of(values: Any, base: int = 0) -> EventBatch:
    column = values if isinstance(values, (pa.Array, pa.ChunkedArray)) else pa.array(values)
    return EventBatch.of(pa.table({"type": ["T"] * len(column), "a": column}), base=base)


def inside(clock: Clock) -> list[list[bool]]:
    """inside[e][s]: s is in the window that ends at e."""
    usable = np.ones(len(clock.clock), np.uint8) if clock.usable is None else clock.usable
    return [
        [bool(usable[s] and usable[e] and clock.clock[s] >= clock.bound[e]) for s in range(e + 1)]
        for e in range(len(clock.clock))
    ]


sizes = st.one_of(
    st.integers(0, 10).map(Fraction),
    st.fractions(0, 100),
    st.integers(0, 2**70).map(Fraction),
    st.floats(0, 1e300).map(Fraction),
)


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=8), sizes)
def test_integer_windows_are_exact(values: list[int | None], size: Fraction) -> None:
    values.sort(key=lambda v: (v is None, v))
    clock = AttributeClock("a", size).read(batch_of(pa.array(values, pa.int64())))
    assert inside(clock) == [
        [a is not None and b is not None and b - a <= size for a in values[: e + 1]]
        for e, b in enumerate(values)
    ]


# floats that lie close together, far apart, around zero and at the ends
numbers = st.one_of(
    st.floats(allow_nan=False),
    st.floats(-4, 4, width=16),
    st.sampled_from([0.0, -0.0, 1.0, 1.0 + 2**-52, 5e-324, -5e-324, 2.0**53, math.inf, -math.inf]),
    st.integers(-60, 60).map(lambda e: 2.0**e),
)


@given(st.lists(st.none() | numbers, max_size=8), sizes)
def test_fraction_windows_are_what_float64_says(values: list[float | None], size: Fraction) -> None:
    values.sort(key=lambda v: (v is None, v))
    clock = AttributeClock("a", size).read(batch_of(pa.array(values, pa.float64())))
    assert inside(clock) == [
        [a is not None and b is not None and within(b - a, size) for a in values[: e + 1]]
        for e, b in enumerate(values)
    ]


def within(difference: float, size: Fraction) -> bool:
    return not math.isnan(difference) and difference <= size


def test_a_bound_is_below_the_difference_where_rounding_makes_it_so() -> None:
    clock = AttributeClock("a", Fraction(1)).read(batch_of([-1e-20, 1.0]))
    assert 1.0 - -1e-20 <= 1.0
    assert inside(clock)[1] == [True, True]


@given(numbers, numbers)
def test_floats_sort_like_their_integers(a: float, b: float) -> None:
    keys = to_sortable(np.array([a, b]))
    assert (keys[0] < keys[1]) == (a < b)
    assert (keys[0] == keys[1]) == (a == b)
    assert from_sortable(keys).tolist() == [a, b]


def test_null_and_nan_have_no_reading() -> None:
    clock = AttributeClock("a", Fraction(5)).read(batch_of([1.0, None, math.nan, 2.0]))
    assert clock.usable is not None
    assert clock.usable.tolist() == [1, 0, 0, 1]
    missing = AttributeClock("b", Fraction(5)).read(batch_of([1.0]))
    assert missing.usable is not None
    assert missing.usable.tolist() == [0]


def test_integers_and_fractions_of_two_streams_are_compared_as_fractions() -> None:
    parts = (
        ("L", pa.table({"type": ["T"], "a": [1]})),
        ("R", pa.table({"type": ["T"], "a": [2.5]})),
    )
    which, index = np.array([0, 1], np.int16), np.array([0, 0])
    batch = EventBatch(0, np.arange(2), None, parts, which, index)
    assert inside(AttributeClock("a", Fraction(3, 2)).read(batch)) == [[True], [True, True]]
    assert inside(AttributeClock("a", Fraction(1)).read(batch)) == [[True], [False, True]]


# ------------------------------------------------------------------- falling


def test_a_value_that_decreases_is_named() -> None:
    with pytest.raises(DataError) as error:
        AttributeClock("a", Fraction(10)).read(batch_of([3, None, 9, 5], base=14))
    assert str(error.value) == (
        "WITHIN 10 [a]: 'a' decreases at row 17 (5 after 9); "
        "the attribute of a window must never decrease"
    )


def test_a_decrease_from_batch_to_batch_is_named() -> None:
    clock = AttributeClock("a", Fraction(5, 2))
    clock.read(batch_of([1.5, 2.5]))
    with pytest.raises(DataError) as error:
        clock.read(batch_of([2.25], base=2))
    assert str(error.value) == (
        "WITHIN 2.5 [a]: 'a' decreases at row 2 (2.25 after 2.5); "
        "the attribute of a window must never decrease"
    )


def test_each_partition_has_its_own_clock() -> None:
    clock = AttributeClock("a", Fraction(1))
    keys = np.array([0, 1, -1, 0])
    clock.read(batch_of([5, 1, 0, 6]), keys)
    with pytest.raises(DataError) as error:
        clock.read(batch_of([7, 0], base=4), np.array([700, 1]))
    assert str(error.value) == (
        "WITHIN 1 [a]: 'a' decreases at row 5 (0 after 1) within its partition; "
        "the attribute of a window must never decrease"
    )


def test_a_thawed_clock_remembers() -> None:
    clock, other = AttributeClock("a", Fraction(1)), AttributeClock("a", Fraction(1))
    clock.read(batch_of([5]))
    other.thaw(clock.freeze())
    with pytest.raises(DataError, match=r"\(4 after 5\)"):
        other.read(batch_of([4], base=1))


@pytest.mark.parametrize("values", [["x"], [True], [[1]]])
def test_a_window_needs_numbers(values: list[Any]) -> None:
    type_ = pa.array(values).type
    with pytest.raises(DataError) as error:
        AttributeClock("a", Fraction(1)).read(batch_of(values))
    assert str(error.value) == f"WITHIN 1 [a]: 'a' holds {type_}; a window needs numbers"


def test_a_column_cannot_turn_from_integers_to_fractions() -> None:
    clock = AttributeClock("a", Fraction(1))
    clock.read(batch_of([1]))
    with pytest.raises(DataError) as error:
        clock.read(batch_of([1.5], base=1))
    assert str(error.value) == (
        "WITHIN 1 [a]: 'a' is float and int in turn; a window needs one kind of values"
    )


def test_numbers_without_a_sign_are_read_up_to_their_last() -> None:
    clock, thawed = AttributeClock("a", Fraction(3)), AttributeClock("a", Fraction(3))
    read = clock.read(batch_of(pa.array([0, 5, None, 2**63 + 1, 2**64 - 1], pa.uint64())))
    assert [sum(row) for row in inside(read)] == [1, 1, 0, 1, 1]
    assert read.clock[4] - read.bound[4] == 3
    assert read.usable is not None
    assert read.usable.tolist() == [1, 1, 0, 1, 1]
    thawed.thaw(clock.freeze())
    with pytest.raises(DataError, match=rf"\({2**63} after {2**64 - 1}\)"):
        thawed.read(batch_of(pa.array([2**63], pa.uint64()), base=5))


@pytest.mark.parametrize(
    ("first", "second", "where"),
    [
        (pa.array([0], pa.uint64()), pa.array([-1]), "below 0"),
        (pa.array([0]), pa.array([2**63], pa.uint64()), "above 2^63 - 1"),
    ],
)
def test_a_number_that_the_first_kind_cannot_hold_is_an_error(
    first: pa.Array, second: pa.Array, where: str
) -> None:
    clock = AttributeClock("a", Fraction(1))
    clock.read(batch_of(first))
    clock.read(batch_of(pa.array([5], second.type), base=1))
    with pytest.raises(DataError) as error:
        clock.read(batch_of(second, base=2))
    assert str(error.value) == (
        f"WITHIN 1 [a]: 'a' has numbers {where}, and whole numbers with a sign and without one in "
        "turn; a window needs one kind of values"
    )


# ---------------------------------------------------------------------- time


def test_a_time_window_reads_ticks_and_stops_at_the_ends_of_int64() -> None:
    times = np.array([-(2**63), 0, 50])
    batch = EventBatch(0, np.arange(3), times, (("S", pa.table({"type": ["T"] * 3})),))
    assert read_time_clock(batch, 20).bound.tolist() == [-(2**63), -20, 30]
    assert read_time_clock(batch, 2**80).bound.tolist() == [-(2**63)] * 3


def test_a_time_window_without_times_is_an_error() -> None:
    with pytest.raises(DataError, match=r"a time window needs a time column"):
        read_time_clock(batch_of([1]), 5)
