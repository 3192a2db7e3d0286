from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cernis.encoding.compare import INFINITY, KIND_BITS, NOTHING, TIME, Equality, OrderValues, kinds
from cernis.errors import DataError, StateError
from cernis.events.batch import EventBatch, Int64s
from cernis.events.times import UNITS
from cernis.state import split_arrays

# ------------------------------------------------- columns and what they mean

Plain = tuple[str, Any] | None
"""The reference: a value's kind and what it is within that; None for NULL."""

SECOND = 10**9


def number(value: Any) -> Plain:
    finite = not isinstance(value, float) or math.isfinite(value)
    return "number", Fraction(value) if finite else value


def ticks(kind: str, factor: int) -> Callable[[int], Plain]:
    return lambda value: (kind, value * factor)


small = st.integers(-3, 3)
int64s = (
    small
    | st.integers(-(2**63), 2**63 - 1)
    | st.sampled_from(
        [2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 2**63 - 1025, 86_400, 10**9]
    )
)
uint64s = st.integers(0, 3) | st.sampled_from(
    [2**63, 2**63 + 1, 2**64 - 1, 2**53 + 1, 2**64 - 2048]
)
floats = (
    small.map(float)
    | st.floats()
    | st.sampled_from([0.1, 2.0**53, 2.0**63, -(2.0**63), 2.0**64, 2.0**64 - 2048, -0.0])
)
decimals = st.sampled_from(
    [
        "0",
        "1.00",
        "1.5",
        "0.1",
        "-3",
        "0.1000000000000000055511151231257827",
        "9223372036854775808",
        "9007199254740993",
        "-9223372036854775808",
        "18446744073709551615",
    ]
).map(Decimal) | st.decimals(-100, 100, places=2)
texts = st.sampled_from(["", "a", "1", "1.0", "123456789", "é"])
far_seconds = st.sampled_from([253_402_214_400, -(10**12), 2**60]) | small | st.just(86_400)

Made = tuple[pa.DataType, st.SearchStrategy[Any], Callable[[Any], Plain]]
made: list[Made] = [
    (pa.int8(), small, number),
    (pa.int64(), int64s, number),
    (pa.uint64(), uint64s, number),
    (pa.float32(), st.floats(width=32) | small.map(float), number),
    (pa.float64(), floats, number),
    (pa.decimal128(12, 0), small.map(Decimal), number),
    (pa.decimal256(76, 34), decimals, number),
    (pa.bool_(), st.booleans(), lambda v: ("truth", v)),
    (pa.timestamp("s", "Europe/Rome"), far_seconds, ticks("instant", SECOND)),
    (pa.timestamp("ms"), far_seconds.map(lambda v: v % 10**15 * 1000), ticks("instant", 10**6)),
    (pa.timestamp("us", "UTC"), small | st.just(86_400 * 10**6), ticks("instant", 1000)),
    (pa.timestamp("us"), int64s, ticks("instant", 1000)),
    (pa.timestamp("ns"), int64s, ticks("instant", 1)),
    (pa.date32(), small | st.just(2_932_896), ticks("instant", 86_400 * SECOND)),
    (pa.duration("ms"), int64s, ticks("duration", 10**6)),
    (pa.time32("s"), st.integers(0, 3), ticks("clock", SECOND)),
    (pa.time64("ns"), st.integers(0, 3).map(lambda v: v * SECOND), ticks("clock", 1)),
]
unordered: list[Made] = [
    (pa.string(), texts, lambda v: ("text", v)),
    (pa.large_string(), texts, lambda v: ("text", v)),
    (pa.binary(), texts.map(str.encode), lambda v: ("bytes", v)),
    (pa.large_binary(), texts.map(str.encode), lambda v: ("bytes", v)),
    (pa.binary(1), st.sampled_from([b"a", b"1"]), lambda v: ("bytes", v)),
]


@st.composite
def columns(draw: st.DrawFn, size: int, choices: list[Made]) -> tuple[pa.Array, list[Plain]]:
    type_, values, meaning = draw(st.sampled_from(choices))
    drawn = draw(st.lists(st.none() | values, min_size=size, max_size=size))
    temporal = pa.types.is_temporal(type_)
    width = pa.int32() if temporal and type_.bit_width == 32 else pa.int64()
    array = pa.array(drawn, width).view(type_) if temporal else pa.array(drawn, type_)
    shape = draw(st.sampled_from(["plain", "dictionary", "chunked", "sliced"]))
    if shape == "dictionary":
        array = array.dictionary_encode()
    elif shape == "chunked":
        cut = draw(st.integers(0, size))
        array = pa.chunked_array([array.slice(0, cut), array.slice(cut)])
    elif shape == "sliced":
        array = pa.concat_arrays([pa.nulls(3, type_), array]).slice(3)
    return array, [None if v is None else meaning(v) for v in drawn]


Rows = list[dict[str, Plain]]


@st.composite
def batches(draw: st.DrawFn, choices: list[Made], names: str) -> list[tuple[EventBatch, Rows]]:
    """Batches of two parts with schemas of their own, interleaved."""
    drawn, base = [], 0
    for _ in range(draw(st.integers(1, 3))):
        parts, rows = [], []
        for part in range(2):
            size = draw(st.integers(0, 4))
            table: dict[str, Any] = {"type": ["T"] * size}
            meant: list[dict[str, Plain]] = [{} for _ in range(size)]
            for name in names:
                if draw(st.integers(0, 5)):  # else the part has no such attribute
                    table[name], values = draw(columns(size, choices))
                    for row, value in zip(meant, values, strict=True):
                        row[name] = value
            parts.append((f"S{part}", pa.table(table)))
            rows.append(meant)
        order = draw(st.permutations([(p, i) for p in range(2) for i in range(len(rows[p]))]))
        batch = EventBatch(
            base,
            np.arange(base, base + len(order)),
            None,
            tuple(parts),
            np.array([p for p, _ in order], np.int16),
            np.array([i for _, i in order], np.int64),
        )
        drawn.append((batch, [rows[p][i] for p, i in order]))
        base += len(order)
    return drawn


def batch_of(**named: Any) -> EventBatch:
    return EventBatch.of(pa.table(named))


# ---------------------------------------------------------------- equality

DOMAINS: list[list[tuple[str, ...]]] = [
    [("a",), ("b",)],
    [("a", "b"), ("b", "c")],
    [()],
    [("c", "b", "a")],
]
COLUMNS = [(d, column) for d, columns in enumerate(DOMAINS) for column in columns]


def key_of(row: dict[str, Plain], column: tuple[str, ...], partition: int | None) -> Any:
    values = [row.get(name) for name in column]
    if partition == -1 or any(v is None or v[1] != v[1] for v in values):
        return None
    return partition, *values


class Reference:
    """The codes that each key has been seen with."""

    def __init__(self, codes: Equality) -> None:
        self.codes = codes
        self.known: list[dict[Any, int]] = [{} for _ in DOMAINS]

    def check(self, batch: EventBatch, rows: Rows, keys: Int64s | None) -> None:
        found = self.codes.encode(batch, keys)
        assert found.shape == (len(COLUMNS), len(batch))
        for (domain, column), codes in zip(COLUMNS, found.tolist(), strict=True):
            for i, (row, code) in enumerate(zip(rows, codes, strict=True)):
                key = key_of(row, column, None if keys is None else int(keys[i]))
                if key is None:
                    assert code == -1
                else:
                    assert self.known[domain].setdefault(key, code) == code
        for domain, size in enumerate(self.codes.sizes()):
            numbers = list(self.known[domain].values())
            assert len(set(numbers)) == len(numbers)
            assert all(0 <= code < size for code in numbers)

    def keep_only(self, domain: int, kept: list[int]) -> None:
        self.codes.keep_only(domain, np.array(kept, np.int64))
        number = {code: i for i, code in enumerate(kept)}
        known = self.known[domain]
        self.known[domain] = {k: number[c] for k, c in known.items() if c in number}
        assert self.codes.sizes()[domain] == len(kept)

    def keep_partitions(self, kept: list[int]) -> None:
        self.codes.keep_partitions(np.array(kept, np.int64))
        number = {code: i for i, code in enumerate(kept)}
        for domain, known in enumerate(self.known):
            self.known[domain] = {
                (number[k[0]], *k[1:]): number[k[0]] if DOMAINS[domain] == [()] else code
                for k, code in known.items()
                if k[0] in number
            }


def partitions(draw: Any, size: int) -> Int64s:
    return np.array(draw(st.lists(st.integers(-1, 2), min_size=size, max_size=size)), np.int64)


@given(batches(made + unordered, "abc"), st.booleans(), st.data())
def test_codes_are_equal_exactly_when_all_values_are(
    drawn: list[tuple[EventBatch, Rows]], partitioned: bool, data: st.DataObject
) -> None:
    reference = Reference(Equality(DOMAINS, partitioned))
    for batch, rows in drawn:
        keys = partitions(data.draw, len(batch)) if partitioned else None
        reference.check(batch, rows, keys)


@given(batches(made + unordered, "abc"), st.booleans(), st.data())
def test_forgetting_codes_changes_no_comparison(
    drawn: list[tuple[EventBatch, Rows]], partitioned: bool, data: st.DataObject
) -> None:
    reference = Reference(Equality(DOMAINS, partitioned))
    for batch, rows in [*drawn, *drawn]:
        keys = partitions(data.draw, len(batch)) if partitioned else None
        reference.check(batch, rows, keys)
        if partitioned and data.draw(st.booleans()):
            reference.keep_partitions(sorted(data.draw(st.sets(st.integers(0, 2)))))
        for domain in (0, 1, 3):
            size = reference.codes.sizes()[domain]
            if data.draw(st.booleans()):
                kept = data.draw(st.sets(st.integers(0, max(size - 1, 0)))) if size else set()
                reference.keep_only(domain, sorted(kept))


@given(batches(made + unordered, "abc"), st.booleans(), st.data())
def test_thawed_codes_go_on_as_before(
    drawn: list[tuple[EventBatch, Rows]], partitioned: bool, data: st.DataObject
) -> None:
    codes, thawed = Equality(DOMAINS, partitioned), Equality(DOMAINS, partitioned)
    keys = [partitions(data.draw, len(batch)) if partitioned else None for batch, _ in drawn]
    codes.encode(drawn[0][0], keys[0])
    if partitioned:
        codes.keep_partitions(np.array([0, 2]))
    thawed.thaw(deepcopy(codes.freeze()))
    assert thawed.sizes() == codes.sizes()
    for (batch, _), key in zip(drawn, keys, strict=True):
        assert thawed.encode(batch, key).tolist() == codes.encode(batch, key).tolist()


def test_columns_of_one_domain_share_their_codes() -> None:
    codes = Equality([[("id",), ("tweet_id",)], [("user", "day"), ("owner", "date")]])
    found = codes.encode(
        batch_of(
            id=["x", "y"],
            tweet_id=["y", "z"],
            user=[1, 2],
            day=["Mon", "Tue"],
            owner=[2.0, 1.0],
            date=["Tue", "Tue"],
        )
    )
    assert found.tolist() == [[0, 1], [1, 2], [0, 1], [1, 2]]
    assert codes.sizes() == [3, 3]


def test_no_attributes_mean_one_code_or_one_for_each_partition() -> None:
    assert Equality([[()]]).encode(batch_of(a=[1, 2])).tolist() == [[0, 0]]
    codes = Equality([[(), ()]], partitioned=True)
    keys = np.array([4, -1, 2])
    assert codes.encode(batch_of(a=[1, 2, 3]), keys).tolist() == [[4, -1, 2], [4, -1, 2]]
    assert codes.sizes() == [5]
    codes.keep_partitions(np.array([2, 4]))
    assert codes.sizes() == [2]
    with pytest.raises(ValueError, match="has the partitions' codes"):
        codes.keep_only(0, np.array([0]))


def test_keys_that_come_and_go_do_not_add_up() -> None:
    codes = Equality([[("a", "b")]], partitioned=True)
    for start in range(0, 50_000, 1000):
        numbers = np.arange(start, start + 1000)
        names = pa.array(numbers).cast(pa.string())
        found = codes.encode(batch_of(a=numbers, b=names), numbers // 10)
        last = found[0, -10:]
        codes.keep_only(0, np.sort(last))
        assert codes.sizes() == codes.value_counts() == [10]
    assert sum(each.nbytes for each in split_arrays(codes.freeze())[1].values()) < 1000


def test_values_of_incomplete_tuples_are_counted() -> None:
    codes = Equality([[("a", "b")]])
    codes.encode(batch_of(a=[1, 2, 3], b=pa.nulls(3)))
    assert (codes.sizes(), codes.value_counts()) == ([0], [3])
    codes.keep_only(0, np.empty(0, np.int64))
    assert codes.value_counts() == [0]


def test_times_far_away_are_equal_across_units() -> None:
    """The last day of 9999 stands for "never" in many tables, and has no nanoseconds."""
    day = 2_932_896
    found = Equality([[("a",), ("b",), ("c",)]]).encode(
        batch_of(
            a=pa.array([day], pa.int32()).view(pa.date32()),
            b=pa.array([day * 86_400], pa.timestamp("s", "UTC")),
            c=pa.array([day * 86_400 * 10**6], pa.timestamp("us")),
        )
    )
    assert found.tolist() == [[0], [0], [0]]


def test_codes_need_partition_keys_exactly_when_they_are_partitioned() -> None:
    with pytest.raises(ValueError, match="partition keys are given exactly when"):
        Equality([[("a",)]], partitioned=True).encode(batch_of(a=[1]))


def test_columns_of_a_domain_must_be_alike() -> None:
    with pytest.raises(ValueError, match="one number of attributes"):
        Equality([[("a",), ("a", "b")]])


def test_frozen_codes_that_are_incomplete_are_refused() -> None:
    with pytest.raises(StateError, match="'domains' is no such list"):
        Equality([[("a", "b")]]).thaw({})
    with pytest.raises(StateError, match="'texts' is no such list"):
        OrderValues(["a"]).thaw({})


# ------------------------------------------------------------------- kinds


@given(batches(made + unordered, "ab"))
def test_values_differ_when_they_are_of_one_kind_and_not_equal(
    drawn: list[tuple[EventBatch, Rows]],
) -> None:
    codes = Equality([[("a",), ("b",)]])
    values: list[Plain] = []
    coded: list[tuple[int, int]] = []
    for batch, rows in drawn:
        code, kind = codes.encode(batch), kinds(batch, ["a", "b"])
        for column, name in enumerate("ab"):
            values += [row.get(name) for row in rows]
            coded += zip(kind[column].tolist(), code[column].tolist(), strict=True)
    for one, (kind_one, code_one) in zip(values, coded, strict=True):
        for other, (kind_other, code_other) in zip(values, coded, strict=True):
            differ = kind_one == kind_other > 0 and (code_one != code_other or code_one < 0)
            if one is None or other is None:
                assert not differ
            else:
                assert differ == (one[0] == other[0] and one[1] != other[1]), (one, other)


# ------------------------------------------------------------------- order


def sign(a: tuple[int, int], b: tuple[int, int]) -> int | None:
    """What an engine does with the words; None for unknown."""
    if NOTHING in (a[0], b[0]):
        return None
    if max(a[0], b[0]) > INFINITY and a[0] >> KIND_BITS != b[0] >> KIND_BITS:
        return None
    return (a > b) - (a < b)


def true_sign(a: Plain, b: Plain) -> int | None:
    if a is None or b is None or a[0] != b[0] or a[0] in ("text", "bytes"):
        return None
    if a[1] != a[1] or b[1] != b[1]:
        return None
    return int(a[1] > b[1]) - int(a[1] < b[1])


def pairs_of(words: Int64s) -> list[list[tuple[int, int]]]:
    high, low = words.tolist()
    return [list(zip(h, lo, strict=True)) for h, lo in zip(high, low, strict=True)]


@given(batches(made + unordered, "ab"))
def test_words_sort_as_values_do(drawn: list[tuple[EventBatch, Rows]]) -> None:
    order = OrderValues(["a", "b"])
    values: list[Plain] = []
    words: list[tuple[int, int]] = []
    for batch, rows in drawn:
        found = pairs_of(order.encode(batch))
        for column, name in enumerate("ab"):
            values += [row.get(name) for row in rows]
            words += found[column]
    for one, first in zip(values, words, strict=True):
        for other, second in zip(values, words, strict=True):
            assert sign(first, second) == true_sign(one, other), (one, other)


@given(st.lists(int64s | uint64s, min_size=1), st.lists(floats, min_size=1))
@example([2**63 - 1, -(2**63), 2**64 - 1], [2.0**63, -(2.0**63), 2.0**64, math.inf, -math.inf])
@example([2**53 + 1, -(2**53) - 1], [2.0**53, 2.0**53 + 2, -(2.0**53), -(2.0**53) - 2])
def test_integers_and_fractions_compare_exactly(whole: list[int], parts: list[float]) -> None:
    signed = [v for v in whole if v < 2**63]
    unsigned = [v for v in whole if v >= 0]
    order = OrderValues(["a"])
    values: list[Any] = [*signed, *unsigned, *parts]
    columns = pa.array(signed, pa.int64()), pa.array(unsigned, pa.uint64()), pa.array(parts)
    words = [word for column in columns for word in pairs_of(order.encode(batch_of(a=column)))[0]]
    for one, first in zip(values, words, strict=True):
        for other, second in zip(values, words, strict=True):
            assert sign(first, second) == true_sign(number(one), number(other)), (one, other)


@given(st.lists(st.decimals(allow_nan=False, allow_infinity=False, places=5, max_value=10**20)))
def test_decimals_compare_exactly_with_each_other(values: list[Decimal]) -> None:
    values = [v for v in values if abs(v) < 10**20]
    words = pairs_of(OrderValues(["a"]).encode(batch_of(a=pa.array(values, pa.decimal128(38, 5)))))
    for one, first in zip(values, words[0], strict=True):
        for other, second in zip(values, words[0], strict=True):
            assert sign(first, second) == (one > other) - (one < other)


def test_a_decimal_is_not_the_float_next_to_it() -> None:
    batch = batch_of(a=pa.array([Decimal("0.1")]), b=pa.array([0.1]))
    [[tenth], [near]] = pairs_of(OrderValues(["a", "b"]).encode(batch))
    assert sign(tenth, near) == -1


def test_nested_attributes_are_found() -> None:
    batch = batch_of(u=[{"age": 3}, None, {"age": 5}])
    first, second, third = pairs_of(OrderValues(["u.age"]).encode(batch))[0]
    assert (sign(first, third), sign(first, second)) == (-1, None)


def test_text_has_no_words() -> None:
    order = OrderValues(["a", "b"], [("a", "b")])
    assert (order.encode(batch_of(a=["x", "y"], b=[1, 2]))[0, 0] == NOTHING).all()
    assert order.text == {"a"}
    thawed = OrderValues(["a", "b"], [("a", "b")])
    thawed.thaw(order.freeze())
    assert thawed.text == {"a"}


def test_text_that_would_be_compared_with_text_is_refused() -> None:
    order = OrderValues(["a", "b"], [("a", "b")])
    order.encode(batch_of(a=["x"], b=[1]))
    with pytest.raises(DataError) as refused:
        order.encode(batch_of(a=[1], b=["x"]))
    assert str(refused.value) == (
        "'a' and 'b' hold text, whose order can be compared only where that is known before "
        "the query runs; declare that they are text with CREATE STREAM"
    )
    with pytest.raises(DataError, match="'a' holds text, whose order"):
        OrderValues(["a"], [("a", "a")]).encode(batch_of(a=pa.array(["x"]).dictionary_encode()))


def test_missing_text_is_not_refused() -> None:
    order = OrderValues(["a"], [("a", "a")])
    assert order.encode(batch_of(a=pa.nulls(2, pa.string()))).shape == (2, 1, 2)
    assert order.text == set()


# -------------------------------------------------------------------- time


def timed(base: int, *parts: pa.Table, which: list[int]) -> EventBatch:
    chosen = np.array(which, np.int16)
    index = np.array([which[:i].count(p) for i, p in enumerate(which)], np.int64)
    rows = np.arange(base, base + len(which))
    named = tuple((f"S{i}", part) for i, part in enumerate(parts))
    return EventBatch(base, rows, None, named, chosen, index, "type", "ts")


def times_in(*batches: EventBatch) -> list[tuple[int, int]]:
    order = OrderValues([TIME])
    return [word for batch in batches for word in pairs_of(order.encode(batch))[0]]


def test_the_position_stands_for_the_time_where_there_is_none() -> None:
    whole = EventBatch.of(pa.table({"a": [5, 4]}), base=7)
    assert times_in(whole) == pairs_of(OrderValues(["a"]).encode(batch_of(a=[7, 8])))[0]
    picked = EventBatch(
        0, np.arange(2), None, (("S", pa.table({"a": [1, 2]})),), None, np.array([1, 0])
    )
    assert times_in(picked) == pairs_of(OrderValues(["a"]).encode(batch_of(a=[0, 1])))[0]


@pytest.mark.parametrize("unit", list(UNITS))
def test_times_compare_across_units_zones_and_text(unit: str) -> None:
    one = pa.table(
        {"ts": pa.array([0, 2], pa.timestamp("s")).cast(pa.timestamp(unit, "Asia/Tokyo"))}
    )
    other = pa.table({"ts": ["1970-01-01T00:00:01Z", "1970-01-01T01:00:02+01:00"]})
    a, b, c, d = times_in(timed(0, one, other, which=[0, 1, 0, 1]))
    assert [sign(a, b), sign(b, c), sign(c, d)] == [-1, -1, 0]


def test_equal_times_have_equal_codes() -> None:
    one = pa.table({"ts": pa.array([0, 2], pa.timestamp("s"))})
    other = pa.table({"ts": ["1970-01-01T00:00:01Z", "1970-01-01T01:00:02+01:00"]})
    found = Equality([[(TIME,)]]).encode(timed(0, one, other, which=[0, 1, 0, 1]))
    assert len(set(found[0].tolist())) == 3
    assert found[0, 2] == found[0, 3]


def test_times_of_two_kinds_are_refused() -> None:
    one, other = pa.table({"ts": [1]}), pa.table({"ts": pa.array([2], pa.timestamp("s"))})
    with pytest.raises(DataError, match="numbers in one input and dates in another"):
        times_in(timed(0, one, other, which=[0, 1]))


def test_an_empty_batch_has_no_codes_and_no_words() -> None:
    empty = batch_of(a=pa.array([], pa.int64()))
    shapes: list[npt.NDArray[Any]] = [
        Equality([[("a",), ("b",)]]).encode(empty),
        OrderValues(["a", "b", TIME]).encode(empty),
        kinds(empty, ["a"]),
    ]
    assert [s.shape for s in shapes] == [(2, 0), (2, 3, 0), (1, 0)]
