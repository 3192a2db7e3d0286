"""Columns of exact integers, against Python's."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cernis.engine.residues import new_moduli, read_residues
from cernis.engine.words import (
    add_up,
    find_most,
    is_zero,
    join_integers,
    list_integers,
    to_floats,
    to_integers,
    widen,
    write_digits,
)
from cernis.integers import to_nearest
from cernis.results.formats.columns import count_column
from cernis.results.formats.group_columns import sum_column, to_decimal

edges = [2**bits + add for bits in (31, 32, 62, 63, 64, 127, 128, 191, 300) for add in (-1, 0, 1)]
integers = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-(10**90), 10**90),
    st.sampled_from([0, *edges, *(-edge for edge in edges)]),
)
columns = st.lists(integers, max_size=12)


@given(columns, st.integers(0, 2))
def test_words_hold_integers_of_any_size(numbers: list[int], more: int) -> None:
    words = to_integers(numbers)
    width = words.shape[1] + more if words.ndim == 2 else 1 + more
    for column in (words, widen(words, width)):
        assert list_integers(column) == numbers
        assert find_most(column) == max(map(abs, numbers), default=0)
        assert is_zero(column).tolist() == [number == 0 for number in numbers]
        assert to_floats(column).tolist() == [to_nearest(number) for number in numbers]
        begins, text = write_digits(column)
        digits = text.tobytes().decode()
        found = [digits[low:high] for low, high in pairwise(begins.tolist())]
        assert found == [str(number) for number in numbers]


@given(columns, columns)
def test_words_are_joined_and_added_up(one: list[int], other: list[int]) -> None:
    joined = join_integers([to_integers(one), to_integers(other)])
    assert list_integers(joined) == one + other
    starts = sorted({0, len(one)} - {len(joined)})
    if len(joined):
        sums = [sum(one), sum(other)] if one and other else [sum(one + other)]
        assert add_up(joined, np.array(starts)) == sums


@pytest.mark.parametrize("lanes", [2, 3, 7])
def test_residues_become_words(lanes: int) -> None:
    most = 2 ** (64 + 49 * (lanes - 1) - 1)
    numbers = [0, -1, most, -most, 2**63, -(2**63) - 1, 2**64, -(2**64), most // 3, -most // 3]
    draw = random.Random(lanes)
    numbers += [
        draw.choice((1, -1)) * draw.randrange(2 ** draw.randrange(1, 97)) for _ in range(50)
    ]
    moduli = new_moduli(lanes)
    residues = [[find_residue(number, prime) for prime in moduli.primes] for number in numbers]
    assert list_integers(read_residues(np.array(residues), moduli)) == numbers


def find_residue(number: int, modulus: int) -> int:
    """Return a number modulo a prime, or as a 64-bit integer for the modulus 0."""
    return number % int(modulus) if modulus else (number + 2**63) % 2**64 - 2**63


@pytest.mark.parametrize(
    ("most", "type_"),
    [
        (2**63 - 1, "int64"),
        (2**63, "decimal128(38, 0)"),
        (10**38 - 1, "decimal128(38, 0)"),
        (10**38, "decimal256(76, 0)"),
        (10**76 - 1, "decimal256(76, 0)"),
        (10**76, "string"),
    ],
)
@pytest.mark.parametrize("sign", [1, -1])
def test_a_column_has_the_narrowest_type_that_holds_all(most: int, type_: str, sign: int) -> None:
    numbers = [0, -7, sign * most]
    for column in (count_column(numbers), count_column(widen(to_integers(numbers), 6))):
        column.validate(full=True)
        assert str(column.type) == type_
        assert [int(value) for value in column.to_pylist()] == numbers


@given(st.lists(st.one_of(st.none(), integers), max_size=8), st.integers(0, 5))
def test_sums_of_decimals_have_their_places(numbers: list[int | None], scale: int) -> None:
    column = sum_column(numbers, None, scale)
    expected = [None if n is None else to_decimal(n, scale) for n in numbers]
    if pa.types.is_string(column.type):
        assert column.to_pylist() == [None if n is None else format(n, "f") for n in expected]
    else:
        assert column.to_pylist() == expected
