from __future__ import annotations

import datetime as dt
import math
from copy import deepcopy
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cernis.encoding.hashing import BytesTable, IntTable
from cernis.encoding.keys import KeyCoder
from cernis.errors import StateError
from cernis.events.batch import EventBatch


def codes(coder: KeyCoder, **columns: Any) -> list[int]:
    length = len(next(iter(columns.values())))
    table = pa.table({"type": ["T"] * length, **columns})
    return coder.encode(EventBatch.of(table)).tolist()  # type: ignore[no-any-return]


# --------------------------------------------------------------- properties

integers = st.one_of(st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1))
floats = st.one_of(st.integers(-3, 3).map(float), st.floats())
texts = st.one_of(st.sampled_from(["", "a", "aa", "123456789", "123456780"]), st.text(max_size=12))


def key_of(values: list[Any]) -> Any:
    """The first value there is, tagged with its kind; None where the event has no key."""
    value = next((v for v in values if v is not None), None)
    if value is None or value != value:
        return None
    return ("number" if isinstance(value, (int, float)) else "text", value)


@st.composite
def batches(draw: st.DrawFn) -> list[dict[str, list[Any]]]:
    made = []
    for _ in range(draw(st.integers(1, 3))):
        n = draw(st.integers(1, 8))
        columns: dict[str, list[Any]] = {}
        for name in "abc":
            values = draw(st.sampled_from([integers, floats, texts]))
            columns[name] = draw(st.lists(st.none() | values, min_size=n, max_size=n))
        made.append(columns)
    return made


@given(batches=batches(), dictionary=st.booleans())
def test_codes_are_equal_exactly_when_keys_are(
    batches: list[dict[str, list[Any]]], dictionary: bool
) -> None:
    coder = KeyCoder([["a", "b"], ["c"]])
    known: dict[Any, int] = {}
    for columns in batches:
        arrays = {name: pa.array(values) for name, values in columns.items()}
        if dictionary:
            arrays = {
                n: a if pa.types.is_null(a.type) else a.dictionary_encode()
                for n, a in arrays.items()
            }
        for i, code in enumerate(codes(coder, **arrays)):
            row = {name: values[i] for name, values in columns.items()}
            first, second = key_of([row["a"], row["b"]]), key_of([row["c"]])
            if first is None or second is None:
                assert code == -1
            else:
                assert known.setdefault((first, second), code) == code
    assert sorted(known.values()) == list(range(len(coder)))


@given(batches=batches())
def test_a_thawed_coder_goes_on_with_the_same_codes(batches: list[dict[str, list[Any]]]) -> None:
    groups = [["a", "b"], ["c"]]
    coder = KeyCoder(groups)
    for columns in batches:
        codes(coder, **columns)
    other = KeyCoder(groups)
    other.thaw(deepcopy(coder.freeze()))
    new: dict[str, list[Any]] = {"a": [5, None, 99], "b": ["x", "y", "z"], "c": [1.5, 2.0, 3.0]}
    for columns in [*batches, new]:
        assert codes(other, **columns) == codes(coder, **columns)


# --------------------------------------------------------------------- kinds


def test_numbers_are_equal_across_types() -> None:
    coder = KeyCoder([["a"]])
    assert codes(coder, a=pa.array([1, 2], pa.int8())) == [0, 1]
    assert codes(coder, a=pa.array([2.0, 1.0, 1.5])) == [1, 0, 2]
    assert codes(coder, a=pa.array([Decimal("1.00"), Decimal("1.5"), Decimal("1.6")])) == [0, 2, 3]
    assert codes(coder, a=pa.array([2, 2**63], pa.uint64())) == [1, 4]


def test_numbers_texts_and_truth_values_are_never_equal() -> None:
    coder = KeyCoder([["a"]])
    assert codes(coder, a=[1, 0]) == [0, 1]
    assert codes(coder, a=["1", "0"]) == [2, 3]
    assert codes(coder, a=[True, False]) == [4, 5]
    assert codes(coder, a=[b"1"]) == [6]
    assert codes(coder, a=[0]) == [1]


def test_nan_and_null_belong_to_no_partition() -> None:
    coder = KeyCoder([["a", "b"]])
    found = codes(coder, a=[math.nan, None, None, 1.0], b=[1.0, 1.0, None, 2.0])
    assert found == [-1, 0, -1, 0]
    assert codes(KeyCoder([["missing"]]), a=[1]) == [-1]


def test_both_zeros_are_one_key() -> None:
    assert codes(KeyCoder([["a"]]), a=[0.0, -0.0, 0.0]) == [0, 0, 0]


def test_instants_are_equal_across_units_and_zones() -> None:
    coder = KeyCoder([["a"]])
    day = dt.date(1970, 1, 2)
    assert codes(coder, a=pa.array([86_400], pa.timestamp("s"))) == [0]
    assert codes(coder, a=pa.array([86_400_000], pa.timestamp("ms", "Europe/Rome"))) == [0]
    assert codes(coder, a=pa.array([day])) == [0]
    assert codes(coder, a=pa.array([2**60], pa.timestamp("s"))) == [1]
    assert codes(coder, a=pa.array([86_400], pa.duration("s"))) == [2]


def test_records_and_lists_can_be_keys() -> None:
    coder = KeyCoder([["a"]])
    assert codes(coder, a=[[1, 2], [1], None, [1, 2]]) == [0, 1, -1, 0]


def test_nested_attributes_can_be_keys() -> None:
    assert codes(KeyCoder([["u.id"]]), u=[{"id": "x"}, None, {"id": "x"}]) == [0, -1, 0]


def test_slices_and_chunks_are_read_from_their_own_start() -> None:
    names = pa.array(["z", "a", None, "b", "a"])
    chunked = pa.chunked_array([names.slice(1, 2), names.slice(3)])
    assert codes(KeyCoder([["a"]]), a=chunked) == [0, -1, 1, 0]


def test_a_hundred_thousand_keys_grow_the_tables() -> None:
    numbers = np.random.default_rng(1).permutation(100_000)
    coder = KeyCoder([["a"], ["b"]])
    texts = pa.array(numbers).cast(pa.string())
    first = codes(coder, a=pa.array(numbers), b=texts)
    assert first == list(range(100_000))
    assert (
        codes(coder, a=pa.array(numbers[::-1]), b=texts.take(pa.array(range(99_999, -1, -1))))
        == (first[::-1])
    )


def test_frozen_keys_that_are_incomplete_are_refused() -> None:
    coder = KeyCoder([["a"], ["b"]])
    with pytest.raises(StateError, match="'pairs' is no such list"):
        coder.thaw({})


# -------------------------------------------------------------------- tables


@given(st.lists(st.binary(max_size=20), max_size=40))
def test_byte_strings_are_numbered_as_they_appear(values: list[bytes]) -> None:
    table, known = BytesTable(), dict[bytes, int]()
    offsets = np.cumsum([0, *(len(v) for v in values)])
    found = table.codes(offsets, np.frombuffer(b"".join(values), np.uint8))
    assert found.tolist() == [known.setdefault(v, len(known)) for v in values]
    assert len(table) == len(known)


@given(st.lists(st.lists(integers, max_size=20), max_size=4))
def test_integers_are_numbered_as_they_appear(batches: list[list[int]]) -> None:
    table, known = IntTable(), dict[int, int]()
    for values in batches:
        found = table.codes(np.array(values, np.int64))
        assert found.tolist() == [known.setdefault(v, len(known)) for v in values]
    assert table.values.tolist() == list(known)


def test_one_long_string_fits() -> None:
    data = np.frombuffer(b"x" * 1_000_000 + b"y", np.uint8)
    table = BytesTable()
    assert table.codes(np.array([0, 1_000_000, 1_000_001]), data).tolist() == [0, 1]


@pytest.mark.parametrize("missing", [False, True])
def test_a_hundred_thousand_keys_are_numbered_as_they_first_appear(missing: bool) -> None:
    chance = np.random.default_rng(5)
    keys = chance.integers(0, 100_000, 300_000)
    valid = chance.random(len(keys)) < 0.9 if missing else np.ones(len(keys), np.bool_)
    distinct, first, back = np.unique(keys[valid], return_index=True, return_inverse=True)
    expected = np.full(len(keys), -1)
    expected[valid] = np.argsort(np.argsort(first))[back]
    texts = pa.array([f"key {key}" for key in keys.tolist()])
    _, offsets, data = texts.buffers()
    ends, bytes_ = np.frombuffer(offsets, np.int32), np.frombuffer(data, np.uint8)

    numbers, names = IntTable(), BytesTable()
    for low in range(0, len(keys), 70_000):
        part = slice(low, low + 70_000)
        assert (numbers.codes(keys[part], valid[part]) == expected[part]).all()
        assert (names.codes(ends[low : low + 70_001], bytes_, valid[part]) == expected[part]).all()
    assert len(numbers) == len(names) == len(distinct)
