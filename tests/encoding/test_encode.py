from __future__ import annotations

import math
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cernis.encoding.encode import AtomEncoder, KnownGroups, collect_sets
from cernis.events.batch import EventBatch
from cernis.pattern.atom import Atom, TypeIs
from cernis.pattern.predicate import (
    And,
    Arithmetic,
    Attribute,
    Comparison,
    InRange,
    InSet,
    IsNull,
    Like,
    Literal,
    Negation,
    Negative,
    Or,
    Predicate,
)
from cernis.testing.predicates import holds

OPERATORS = ["=", "!=", "<", "<=", ">", ">="]
TEXTS = [
    "",
    "a",
    "ab",
    "B",
    "ü",
    "12345678",
    "123456789",
    "12345678x",
    "long-prefix-a",
    "long-prefix-b",
]
EDGES = [0, 1, -1, 127, 2**31, 2**53, 2**53 + 1, -(2**53) - 1, 2**62, 2**63 - 1, -(2**63)]
SMALL = [-3, -1, 0, 1, 2, 5]
FLOATS = [0.0, -0.0, 0.5, 2.0, -1.5, 1e300, math.inf, -math.inf, math.nan, 2.0**53, 2.0**63]


def truths(atoms: list[Atom], table: pa.Table, stream: str = "S") -> list[tuple[bool, ...]]:
    encoder = AtomEncoder(atoms)
    codes = encoder.encode(EventBatch.of(table, stream=stream))
    return [encoder.vectors[code] for code in codes]


def holding(predicate: Predicate, values: pa.Array) -> list[bool]:
    table = pa.table({"type": pa.array(["T"] * len(values)), "a": values})
    return [vector[0] for vector in truths([predicate], table)]


A = Attribute(("a",))


def less(bound: Any) -> Comparison:
    return Comparison("<", A, Literal(bound))


def equal(to: Any) -> Comparison:
    return Comparison("=", A, Literal(to))


# ------------------------------------------------------- against the oracle


def shaped(rng: Random, values: list[Any], types: list[pa.DataType]) -> pa.ChunkedArray:
    """The values in one of the types, plain or as a dictionary, in one chunk or several."""
    array = pa.array(values, rng.choice(types))
    if rng.random() < 0.5 and not pa.types.is_boolean(array.type):
        array = array.dictionary_encode()
    cut = rng.randint(0, len(values))
    if rng.random() < 0.5:
        padded = pa.concat_arrays([array.slice(0, min(3, len(array))), array])
        array = padded.slice(min(3, len(values)))
    return pa.chunked_array([array.slice(0, cut), array.slice(cut)] if cut else [array])


def table_of(seed: int) -> pa.Table:
    """A table of all kinds of columns; drawn with one seed, because cell by cell is slow."""
    rng = Random(seed)
    n = rng.randint(1, 12)

    def column(values: list[Any]) -> list[Any]:
        return [rng.choice(values) if rng.random() < 0.8 else None for _ in range(n)]

    small_types = [pa.int8(), pa.int32(), pa.int64()]
    columns = {
        "type": shaped(rng, column(["A", "B", "C"]), [pa.string(), pa.large_string()]),
        "s": shaped(rng, column(TEXTS), [pa.string(), pa.large_string()]),
        "t": shaped(rng, column(TEXTS), [pa.string()]),
        "i": shaped(rng, column(EDGES), [pa.int64()]),
        "k": shaped(rng, column(SMALL), small_types),
        "u": shaped(rng, column([0, 1, 2**64 - 1, 2**63]), [pa.uint64()]),
        "f": shaped(rng, column(FLOATS), [pa.float64()]),
        "g": shaped(rng, column([0.5, -0.25, 2.0, math.nan]), [pa.float32(), pa.float64()]),
        "b": shaped(rng, column([True, False]), [pa.bool_()]),
        "n": shaped(rng, [None] * n, [pa.null(), pa.int64(), pa.string()]),
        "o": pa.array(column([{"x": 1}, {"x": None}, {"x": 3}]), pa.struct([("x", pa.int64())])),
    }
    return pa.table(columns)


tables = st.integers(0, 2**32).map(table_of)


attributes = st.sampled_from(["s", "t", "i", "k", "u", "f", "g", "b", "n", "missing"]).map(
    lambda name: Attribute((name,))
) | st.just(Attribute(("o", "x")))
constants = st.sampled_from(
    [*TEXTS, *EDGES, *SMALL, 2**63, -(2**70), 10**400, True, False]
    + [f for f in FLOATS if math.isfinite(f)]
    + [0.1, 2.5]
).map(lambda value: Literal(value))  # type: ignore[arg-type]
# arithmetic on columns whose results stay inside int64
sums = st.recursive(
    st.sampled_from(["k", "g", "n", "s"]).map(lambda name: Attribute((name,)))
    | st.sampled_from([*SMALL, 0.5]).map(Literal),
    lambda inner: (
        st.builds(Arithmetic, st.sampled_from(["+", "-", "*", "/", "%"]), inner, inner)
        | st.builds(Negative, inner)
    ),
    max_leaves=4,
)
values = st.one_of(attributes, attributes, constants, sums)
leaves = st.one_of(
    st.builds(Comparison, st.sampled_from(OPERATORS), attributes, constants),
    st.builds(Comparison, st.sampled_from(OPERATORS), values, values),
    st.builds(Like, attributes, st.sampled_from(["a.*", "", "[0-9]+", "long.*b", ".", "a|ab"])),
    st.builds(InSet, values, st.lists(constants, max_size=5).map(tuple)),
    st.builds(InRange, values, constants, constants),
    st.builds(IsNull, values, st.booleans()),
)
predicates = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=4).map(lambda parts: And(tuple(parts))),
        st.lists(inner, min_size=1, max_size=4).map(lambda parts: Or(tuple(parts))),
        st.builds(Negation, inner),
    ),
    max_leaves=6,
)
atoms = st.lists(
    st.one_of(
        predicates,
        st.builds(Comparison, st.sampled_from(["=", "!="]), st.just(Attribute(("s",))), constants),
        st.builds(TypeIs, st.sampled_from("ABX"), st.sampled_from([None, "S", "R"])),
    ),
    max_size=12,
)


def expected(atom: Atom, event: dict[str, Any], stream: str) -> bool:
    if isinstance(atom, TypeIs):
        return event["type"] == atom.type and atom.stream in (None, stream)
    return holds(atom, event)


@settings(max_examples=settings().max_examples * 8 // 10)
@given(table=tables, atoms=atoms)
def test_vectors_are_what_the_oracle_says_of_each_event(table: pa.Table, atoms: list[Atom]) -> None:
    found = truths(atoms, table)
    for event, vector in zip(table.to_pylist(), found, strict=True):
        assert vector == tuple(expected(atom, event, "S") for atom in atoms), event


@settings(max_examples=settings().max_examples * 3 // 10)
@given(first=tables, second=tables, atoms=atoms)
def test_codes_mean_the_same_from_batch_to_batch(
    first: pa.Table, second: pa.Table, atoms: list[Atom]
) -> None:
    encoder = AtomEncoder(atoms)
    for table in (first, second, first):
        codes = encoder.encode(EventBatch.of(table))
        for event, code in zip(table.to_pylist(), codes, strict=True):
            assert encoder.vectors[code] == tuple(expected(atom, event, "S") for atom in atoms)
    assert len(set(encoder.vectors)) == len(encoder.vectors)


@settings(max_examples=settings().max_examples * 2 // 10)
@given(table=tables, first=atoms, second=atoms)
def test_encoders_that_share_groups_of_atoms_agree_with_the_oracle(
    table: pa.Table, first: list[Atom], second: list[Atom]
) -> None:
    known: KnownGroups = {}
    for atoms in (first, [*first, *second], second, first):
        encoder = AtomEncoder(atoms, known=known)
        codes = encoder.encode(EventBatch.of(table))
        for event, code in zip(table.to_pylist(), codes, strict=True):
            assert encoder.vectors[code] == tuple(expected(atom, event, "S") for atom in atoms)


def test_streams_of_one_batch_are_interleaved() -> None:
    left = pa.table({"type": ["A", "B"], "x": [1, 2]})
    right = pa.table({"type": ["A"], "y": ["z"]})
    which, index = np.array([0, 1, 0], np.int16), np.array([0, 0, 1])
    parts = (("L", left), ("R", right))
    batch = EventBatch(0, np.arange(3), None, parts, which, index)
    encoder = AtomEncoder([TypeIs("A", "R"), TypeIs("A"), IsNull(Attribute(("x",)))])
    found = [encoder.vectors[code] for code in encoder.encode(batch)]
    assert found == [(False, True, False), (True, True, True), (False, False, False)]


# ------------------------------------------------------------ many vectors


@pytest.mark.parametrize("width", [3, 12, 30, 90])
def test_any_number_of_independent_atoms_fits(width: int) -> None:
    rng = np.random.default_rng(width)
    columns = {f"c{i}": rng.integers(0, 2, 200) for i in range(width)}
    table = pa.table({"type": ["T"] * 200, **columns})
    atoms: list[Atom] = [equal_at(f"c{i}", 1) for i in range(width)]
    atoms += [
        Comparison("<", Attribute((f"c{i}",)), Attribute((f"c{i + 1}",))) for i in range(width - 1)
    ]
    found = truths(atoms, table)
    for event, vector in zip(table.to_pylist(), found, strict=True):
        assert vector == tuple(holds(atom, event) for atom in atoms)  # type: ignore[arg-type]


def equal_at(name: str, value: Any) -> Comparison:
    return Comparison("=", Attribute((name,)), Literal(value))


def test_more_than_eight_atoms_on_a_decimal_column() -> None:
    values = pa.array([f"{i}.5" for i in range(12)]).cast(pa.decimal128(9, 2))
    table = pa.table({"type": ["T"] * 12, "a": values})
    found = truths([less(bound) for bound in range(12)], table)
    assert [sum(vector) for vector in found] == list(range(11, -1, -1))


def test_a_thousand_alternatives_are_one_set() -> None:
    wide = Or(tuple(equal(f"name-{i}") for i in range(1000)))
    assert collect_sets(wide) == InSet(A, tuple(Literal(f"name-{i}") for i in range(1000)))
    assert holding(wide, pa.array(["name-7", "name-1000", None])) == [True, False, False]


def test_many_short_chunks_give_the_same_as_one() -> None:
    names = pa.chunked_array([pa.array([f"n{i % 7}"]).dictionary_encode() for i in range(300)])
    table = pa.table({"type": ["T"] * 300, "a": names})
    found = [vector[0] for vector in truths([equal("n3")], table)]
    assert found == [i % 7 == 3 for i in range(300)]


def test_empty_chunks_do_not_matter() -> None:
    empty = pa.array([], pa.string())
    names = pa.chunked_array([empty, pa.array(["a"]), empty, pa.array(["b", "a"]), empty])
    table = pa.table({"type": ["T"] * 3, "a": names})
    assert truths([equal("a")], table) == [(True,), (False,), (True,)]
    assert truths([equal("a")], table.slice(0, 0)) == []


def test_half_a_surrogate_pair_equals_nothing() -> None:
    names = pa.array(["a", "\ufffd", "ü"])
    assert holding(equal("\ud800"), names) == [False, False, False]
    assert holding(InSet(A, tuple(map(Literal, ["\ud800", "b", "ü"]))), names) == [
        False,
        False,
        True,
    ]


def test_no_atoms_give_one_empty_vector() -> None:
    assert truths([], pa.table({"type": ["A", "B"]})) == [(), ()]


# ---------------------------------------------------------------- numbers


def test_integers_compare_exactly_with_fractions_beyond_2_to_53() -> None:
    big = pa.array([2**53, 2**53 + 1, 2**53 + 2])
    assert holding(equal(float(2**53)), big) == [True, False, False]
    assert holding(less(float(2**53 + 2)), big) == [True, True, False]
    both = Comparison("=", A, Arithmetic("+", Attribute(("f",)), Literal(0.0)))
    table = pa.table({"type": ["T"] * 3, "a": big, "f": [float(2**53)] * 3})
    assert [v[0] for v in truths([both], table)] == [True, False, False]


def test_fractions_compare_exactly_with_integers_beyond_2_to_53() -> None:
    big = pa.array([float(2**53), float(2**53 + 2)])
    assert holding(equal(2**53 + 1), big) == [False, False]
    assert holding(less(2**53 + 1), big) == [True, False]


def test_integer_arithmetic_that_leaves_int64_is_unknown() -> None:
    top = pa.array([2**63 - 1, 1, -(2**63)])
    up = Comparison(">", Arithmetic("+", A, Literal(1)), Literal(0))
    assert holding(up, top) == [False, True, False]
    assert holding(IsNull(Arithmetic("+", A, Literal(1))), top) == [True, False, False]
    assert holding(IsNull(Arithmetic("-", A, Literal(1))), top) == [False, False, True]
    assert holding(IsNull(Arithmetic("*", A, Literal(-1))), top) == [False, False, True]
    assert holding(IsNull(Negative(A)), top) == [False, False, True]
    assert holding(IsNull(Arithmetic("*", A, A)), pa.array([2**32, 2**31, -(2**32)])) == [
        True,
        False,
        True,
    ]


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
def test_integer_products_are_exact_or_unknown(x: int, y: int) -> None:
    table = pa.table({"type": ["T"], "a": pa.array([x]), "c": pa.array([y])})
    product = Arithmetic("*", A, Attribute(("c",)))
    fits = -(2**63) <= x * y < 2**63
    atoms: list[Atom] = [IsNull(product), Comparison("=", product, Literal(x * y))]
    assert truths(atoms, table) == [(not fits, fits)]


def test_division_is_true_division_and_by_zero_is_null() -> None:
    half = Comparison("=", Arithmetic("/", Literal(1), A), Literal(0.5))
    assert holding(half, pa.array([2, 0, None])) == [True, False, False]
    assert holding(IsNull(Arithmetic("/", Literal(1), A)), pa.array([2, 0, None])) == [
        False,
        True,
        True,
    ]
    assert holding(IsNull(Arithmetic("%", Literal(1.5), A)), pa.array([2.0, 0.0])) == [False, True]


def test_modulo_keeps_the_sign_of_the_dividend() -> None:
    rest = Comparison("=", Arithmetic("%", A, Literal(3)), Literal(-1))
    assert holding(rest, pa.array([-1, -4, 2, -(2**63)])) == [True, True, False, False]


def test_nan_equals_nothing_and_differs_from_all() -> None:
    nan = pa.array([math.nan, 3.0, None])
    assert holding(equal(3), nan) == [False, True, False]
    assert holding(Comparison("!=", A, Literal(3)), nan) == [True, False, False]
    assert holding(Comparison("!=", A, A), nan) == [True, False, False]
    assert holding(IsNull(A), nan) == [False, False, True]


def test_text_and_numbers_are_never_comparable() -> None:
    assert holding(equal("3"), pa.array([3, None])) == [False, False]
    assert holding(Negation(equal("3")), pa.array([3, None])) == [False, False]
    assert holding(Negation(equal(3)), pa.array(["3", "x"])) == [False, False]
    assert holding(Negation(InSet(A, (Literal("x"), Literal(3)))), pa.array([3, 4])) == [
        False,
        False,
    ]


def test_decimals_compare_exactly_with_integers_and_as_written_with_fractions() -> None:
    prices = pa.array(["10.10", "10.00", "0.30"]).cast(pa.decimal128(9, 2))
    assert holding(equal(10.1), prices) == [True, False, False]
    assert holding(equal(10), prices) == [False, True, False]
    assert holding(less(10), prices) == [False, False, True]
    wide = pa.array(["12345678901234567890"]).cast(pa.decimal128(38, 10))
    assert holding(equal(12345678901234567890), wide) == [True]
    assert holding(equal(12345678901234567891), wide) == [False]


def test_every_decimal_is_the_fraction_that_is_written_alike() -> None:
    prices = pa.array([f"{n / 100:.2f}" for n in range(1000)]).cast(pa.decimal128(9, 2))
    for n in range(0, 1000, 7):
        assert holding(equal(n / 100), prices) == [i == n for i in range(1000)]


def test_a_number_beyond_all_floats_is_greater_than_any() -> None:
    larger = Comparison("<", A, Arithmetic("+", A, Literal(10**400)))
    assert holding(larger, pa.array([1, None])) == [True, False]


def test_booleans_compare_with_booleans_alone() -> None:
    marks = pa.array([True, False, None])
    assert holding(equal(True), marks) == [True, False, False]
    assert holding(less(True), marks) == [False, True, False]
    assert holding(Negation(equal(1)), marks) == [False, False, False]


# ------------------------------------------------------------------- times


MORNING = np.array(["2024-01-01T08:00:00", "2024-01-01T12:00:00", "NaT"], "M8[s]")


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Rome"])
def test_timestamps_compare_with_iso_text(unit: str, zone: str | None) -> None:
    times = pa.array(MORNING).cast(pa.timestamp(unit)).cast(pa.timestamp(unit, zone))
    assert holding(less("2024-01-01T09:00"), times) == [True, False, False]
    assert holding(less("2024-01-01T09:00:00+02:00"), times) == [False, False, False]
    assert holding(equal("2024-01-01 12:00:00Z"), times) == [False, True, False]
    assert holding(Comparison(">=", A, Literal("2024-01-01T08:00:00.000000001")), times) == [
        False,
        True,
        False,
    ]
    assert holding(InRange(A, Literal("2024-01-01"), Literal("2024-01-01 08:00")), times) == [
        True,
        False,
        False,
    ]


def test_text_that_is_no_time_is_unknown() -> None:
    times = pa.array(MORNING)
    assert holding(Negation(equal("soon")), times) == [False, False, False]
    assert holding(Negation(equal(5)), times) == [False, False, False]


def test_dates_and_times_of_day_compare_with_iso_text() -> None:
    days = pa.array([0, 19723], pa.date32())
    assert holding(equal("2024-01-01"), days) == [False, True]
    assert holding(less("2024-01-01T00:00:01"), days) == [True, True]
    assert holding(less("1970-01-01"), days.cast(pa.date64())) == [False, False]
    hours = pa.array([36000, 43200], pa.time32("s"))
    assert holding(less("11:00:00"), hours) == [True, False]


def test_times_in_different_units_compare_exactly() -> None:
    table = pa.table(
        {
            "type": ["T"] * 3,
            "a": pa.array([10, 10, -5], pa.timestamp("s")),
            "c": pa.array([10_000, 10_001, -5_001], pa.timestamp("ms", "UTC")),
            "d": pa.array([0, 1, None], pa.date32()),
        }
    )
    ordered: list[Atom] = [
        Comparison(op, A, Attribute(("c",)))  # type: ignore[arg-type]
        for op in OPERATORS
    ]
    assert truths(ordered, table) == [
        (True, False, False, True, False, True),
        (False, True, True, True, False, False),
        (False, True, False, False, True, True),
    ]
    assert [v[0] for v in truths([Comparison(">", A, Attribute(("d",)))], table)] == [
        True,
        False,
        False,
    ]


# -------------------------------------------------------------------- text


def test_like_matches_the_whole_text() -> None:
    names = pa.array(["a", "ab", "ba", "a\n", None])
    assert holding(Like(A, "a"), names) == [True, False, False, False, False]
    assert holding(Like(A, "a|ab"), names) == [True, True, False, False, False]
    assert holding(Negation(Like(A, "a.*")), names) == [False, False, True, True, False]


def test_text_that_is_mostly_distinct_is_evaluated_row_by_row() -> None:
    names = pa.array([f"n{i}" for i in range(3000)])
    table = pa.table({"type": ["T"] * 3000, "a": names})
    encoder = AtomEncoder([Like(A, "n.*7"), Comparison(">", A, Literal("n5"))])
    for _ in range(2):
        codes = encoder.encode(EventBatch.of(table))
        found = [encoder.vectors[code] for code in codes]
        assert found == [(n.endswith("7"), n > "n5") for n in names.to_pylist()]


def test_texts_that_share_their_ends_are_told_apart() -> None:
    same = [f"12345678{i}87654321" for i in range(10)]
    values = pa.array([*same, "12345678?87654321", "12345678"])
    found = truths([equal(text) for text in same], pa.table({"type": ["T"] * 12, "a": values}))
    assert found == [tuple(i == j for j in range(10)) for i in range(12)]


def test_a_slice_of_an_arrow_array_is_read_from_its_own_start() -> None:
    long = pa.array(["x", "a", None, "b", "a"])
    assert holding(equal("a"), long.slice(1, 3)) == [True, False, False]
    numbers = pa.array([9, 1, None, 3])
    assert holding(less(2), numbers.slice(1)) == [True, False, False]


def test_fraction_windows_are_not_needed_for_thresholds() -> None:
    tenth = Fraction(1, 10)
    assert holding(less(float(tenth)), pa.array([0.1, 0.09999999999999999])) == [False, True]
    single = pa.array([0.1, 0.2], pa.float32())
    exact = [np.float32(0.1) < 0.1, False]
    assert holding(less(0.1), single) == [bool(float(np.float32(0.1)) < 0.1), exact[1]]
