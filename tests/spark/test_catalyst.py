"""Predicates in Spark say of every event what the embedded engine says of it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, localcontext
from functools import reduce
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from cernis.encoding.encode import AtomEncoder
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
    Scalar,
    Value,
)
from cernis.spark.catalyst import Columns, Untranslated, as_column, attribute, translate_exactly

OPERATORS = ["=", "!=", "<", "<=", ">", ">="]
TEXTS = ["", "a", "ab", "B", "ü", "ü\n", "😀", "\uffff", "a\nb", "GOOG", "GOO\r", "\0", "x" * 300]
TEXTS += ["2024-01-01", "12", "true", "'", "\\", "%", "a.b", "a b"]
BITS = {"i8": 8, "i16": 16, "i32": 32, "i64": 64}
WIDE = [2**53, 2**53 + 1, -(2**53) - 1, 2**31, 2**62, 2**63, -(2**63) - 1, 10**38, 10**400]
INTS = [0, 1, -1, 2, 3, -3, 5, 57, 127, 128, -128, 32767, -32769, 2**24 + 1, 2**63 - 1, -(2**63)]
SMALL = [0, 1, -1, 2, -3]
FLOATS = [0.0, -0.0, 0.1, 0.5, -1.5, 2.5, 0.57, 1e300, -1e300, 5e-324, 1e-40, 3.4028236e38]
FLOATS += [2.0**53, 2.0**63, -(2.0**63), 9007199254740992.5, 1.0, 3.0, 16777217.0, 57.0, 10.1]
NUMBERS = [*FLOATS, math.inf, -math.inf, math.nan]
MOMENTS = [0, 1, -1, 1_704_067_200_000_000, 1_704_067_200_000_001, 1_710_054_000_000_000]
MOMENTS += [-62_135_596_800_000_000, 253_402_300_799_999_999, 1_699_174_800_000_000]
ISO = ["1970-01-01", "2024-01-01", "2024-01-01T00:00:00.000001", "2024-01-01T00:00:00.0000005"]
ISO += ["2024-01-01 00:00:00Z", "2024-03-10T02:00:00-05:00", "2024-03-10 07:00", "0000-01-01"]
ISO += ["9999-12-31T23:59:59.999999-14:00", "1969-12-31T23:59:59.999999", "2023-11-05T09:00"]
PATTERNS = ["a.*", ".*a", ".*", "", "a", "GOO.", "GOO.*", "a.*b", ".*b.*", "a|ab|ü.*", r"a\.b"]
PATTERNS += ["[a-z]+", "a.*b.*", ".*.*b", "(?i)goog", r".*\n.*", "a.*?", "\n.*", "GOO.*G|.*OOG"]
PLAIN = ["s", "t", "i8", "i16", "i32", "i64", "j64", "f32", "f64", "g64", "d9", "d18", "d38"]
PLAIN += ["yes", "no", "day", "at", "local", "then", "raw", "list", "map", "o", "a.b", "missing"]
NUMERIC = ["i8", "i16", "i32", "i64", "j64", "f32", "f64", "g64"]
PATHS = [("o", "x"), ("o", "y"), ("o", "deep", "z"), ("o", "none"), ("s", "x"), ("a", "b")]
PATHS += [("o", "X"), ("list", "x"), ("map", "x")]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def translate_filter(atom: Atom, columns: Columns) -> Column | Untranslated:
    """The condition as a filter has it; NULL counts as false."""
    found = translate_exactly(atom, columns, "type", "S")
    return found if isinstance(found, Untranslated) else as_column(found)


def translate_atom(atom: Atom, columns: Columns) -> Column | Untranslated:
    """The condition as a mask has it, never NULL."""
    found = translate_filter(atom, columns)
    return found if isinstance(found, Untranslated) else F.coalesce(found, F.lit(False))


# ------------------------------------------------------------------- cases


def moment(ticks: int) -> datetime:
    return EPOCH + timedelta(microseconds=ticks)


def table_of(rng: Random, rows: int) -> pa.Table:
    """Events with columns of all types, NULLs and the values at which types end."""

    def some(values: Sequence[Any]) -> list[Any]:
        return [rng.choice(values) if rng.random() < 0.9 else None for _ in range(rows)]

    def integers(bits: int) -> list[Any]:
        top = 2 ** (bits - 1)
        return [v for v in (*INTS, *WIDE, top - 1, -top) if -top <= v < top]

    def decimals(precision: int, scale: int) -> list[Any]:
        top = 10**precision - 1
        near = [57, 1010, 0, -57, top, -top, 10**scale, 5 * 10**scale, 10**precision // 3]
        near += [rng.randrange(-top, top) for _ in range(5)]
        near += [rng.randrange(-(10 ** (scale + 2)), 10 ** (scale + 2)) for _ in range(5)]
        return [Decimal(f"{v}E-{scale}") for v in near if abs(v) <= top]

    local = [moment(ticks).replace(tzinfo=None) for ticks in MOMENTS]
    struct = pa.struct(
        [("x", pa.int64()), ("y", pa.string()), ("deep", pa.struct([("z", pa.float64())]))]
    )
    structs = [{"x": rng.choice(INTS), "y": "a", "deep": {"z": z}} for z in NUMBERS]
    structs += [{"x": None, "y": None, "deep": None}]
    columns = {
        "type": pa.array(some(["A", "B", "C", ""]), pa.string()),
        "s": pa.array(some(TEXTS), pa.string()),
        "t": pa.array(some(TEXTS), pa.string()),
        **{name: pa.array(some(integers(bits)), f"int{bits}") for name, bits in BITS.items()},
        "j64": pa.array(some(integers(64)), pa.int64()),
        "f32": pa.array(some(NUMBERS), pa.float64()).cast(pa.float32(), safe=False),
        "f64": pa.array(some([*NUMBERS, 2.0**53 + 2, 0.57]), pa.float64()),
        "g64": pa.array(some(NUMBERS), pa.float64()),
        "d9": pa.array(some(decimals(9, 2)), pa.decimal128(9, 2)),
        "d18": pa.array(some(decimals(18, 4)), pa.decimal128(18, 4)),
        "d38": pa.array(some(decimals(38, 10)), pa.decimal128(38, 10)),
        "yes": pa.array(some([True, False]), pa.bool_()),
        "no": pa.array(some([True, False]), pa.bool_()),
        "day": pa.array(some([date(2024, 1, 1), date(1970, 1, 1), date.min, date.max])),
        "at": pa.array(some([moment(ticks) for ticks in MOMENTS]), pa.timestamp("us", "UTC")),
        "local": pa.array(some(local), pa.timestamp("us")),
        "then": pa.array(some(local), pa.timestamp("us")),
        "raw": pa.array(some([b"", b"a", b"\xff"]), pa.binary()),
        "list": pa.array(some([[], [1], [None]]), pa.list_(pa.int32())),
        "map": pa.array(some([[("x", 1)], []]), pa.map_(pa.string(), pa.int32())),
        "o": pa.array(some(structs), struct),
        "a.b": pa.array(some([1, 2]), pa.int32()),
        "a": pa.array(some([{"b": "a"}]), pa.struct([("b", pa.string())])),
    }
    return pa.table(columns)


def random_constant(rng: Random, beside: Value | None = None) -> Scalar:
    """A constant, mostly of a kind that can be compared with the value beside it."""
    name = beside.path[-1] if isinstance(beside, Attribute) else ""
    kinds: list[list[Any]] = [INTS, WIDE, NUMBERS, TEXTS, ISO, [True, False]]
    if rng.random() < 0.7:
        if name in ("s", "t", "y"):
            kinds = [TEXTS]
        elif name in ("day", "at", "local", "then"):
            kinds = [ISO]
        elif name in ("yes", "no"):
            kinds = [[True, False]]
        else:
            kinds = [INTS, WIDE, NUMBERS, FLOATS]
    return rng.choice(rng.choice(kinds))  # type: ignore[no-any-return]


def random_attribute(rng: Random, names: list[str] = PLAIN) -> Attribute:
    if names is PLAIN and rng.random() < 0.15:
        return Attribute(rng.choice(PATHS))
    return Attribute((rng.choice(names),))


def random_value(rng: Random, depth: int) -> Value:
    kind = rng.random()
    op: Any = rng.choice("+-*/%")
    if depth and kind < 0.1:
        near, far = (Literal(rng.choice([*SMALL, 2**63 - 1])) for _ in range(2))
        return Arithmetic(op, Arithmetic(op, random_attribute(rng, NUMERIC), near), far)
    if depth and kind < 0.4:
        return Arithmetic(op, random_value(rng, depth - 1), random_value(rng, depth - 1))
    if depth and kind < 0.5:
        return Negative(random_value(rng, depth - 1))
    if kind < 0.7:
        return Literal(rng.choice([*INTS, *NUMBERS, *WIDE[:-1]]))
    return random_attribute(rng, NUMERIC if rng.random() < 0.9 else PLAIN)


def random_leaf(rng: Random) -> Predicate:
    left: Value = random_attribute(rng)
    op: Any = rng.choice(OPERATORS)
    match rng.randrange(12):
        case 0 | 1 | 2:
            right: Value = Literal(random_constant(rng, left))
            return (
                Comparison(op, left, right) if rng.random() < 0.8 else Comparison(op, right, left)
            )
        case 3 | 4:
            return Comparison(op, left, random_attribute(rng))
        case 5:
            return Comparison(op, random_attribute(rng, NUMERIC), random_attribute(rng, NUMERIC))
        case 6 | 7:
            return Comparison(op, random_value(rng, 3), random_value(rng, rng.choice([0, 2])))
        case 8:
            subject = Attribute((rng.choice("sst"),)) if rng.random() < 0.8 else left
            return Like(subject, rng.choice(PATTERNS))
        case 9:
            count = rng.choice([0, 1, 2, 3, 5, 15])
            found = [random_constant(rng, left) for _ in range(count)]
            if found and rng.random() < 0.6:
                found = [value for value in found if type(value) is type(found[0])]
            return InSet(left, tuple(map(Literal, found)))
        case 10:
            body = left if rng.random() < 0.7 else random_value(rng, 2)
            ends = (Literal(random_constant(rng, body)) for _ in range(2))
            return InRange(body, *ends)
        case _:
            return IsNull(left if rng.random() < 0.5 else random_value(rng, 2), rng.random() < 0.5)


def random_predicate(rng: Random, depth: int) -> Predicate:
    if not depth or rng.random() < 0.5:
        return random_leaf(rng)
    if rng.random() < 0.4:
        return Negation(random_predicate(rng, depth - 1))
    parts = tuple(random_predicate(rng, depth - 1) for _ in range(rng.randint(1, 3)))
    return And(parts) if rng.random() < 0.5 else Or(parts)


def random_atom(rng: Random) -> Atom:
    if rng.random() < 0.03:
        return TypeIs(rng.choice(["A", "B", "?", ""]), rng.choice([None, "S", "R"]))
    return random_predicate(rng, 2)


# ------------------------------------------------- against the embedded engine


def columns_of(df: DataFrame) -> Columns:
    return {
        field.name: (F.col("`" + field.name.replace("`", "``") + "`"), field.dataType)
        for field in df.schema
    }


def embedded(atoms: Sequence[Atom], events: pa.Table) -> list[tuple[bool, ...]]:
    encoder = AtomEncoder(atoms)
    return [encoder.vectors[code] for code in encoder.encode(EventBatch.of(events))]


def in_spark(df: DataFrame, atoms: Sequence[Atom]) -> tuple[list[Atom], list[tuple[Any, ...]]]:
    """The atoms that were translated, and their truth on every row."""
    columns = columns_of(df)
    found = {atom: translate_atom(atom, columns) for atom in dict.fromkeys(atoms)}
    translated = {
        atom: column for atom, column in found.items() if not isinstance(column, Untranslated)
    }
    asked = [column.alias(f"a{i}") for i, column in enumerate(translated.values())]
    rows = df.select(*asked).toArrow().to_pydict() if asked else {}
    return [*translated], [*zip(*rows.values(), strict=True)]


def differing(df: DataFrame, atoms: Sequence[Atom]) -> Iterator[tuple[Atom, Any, bool, Any]]:
    """Translated atoms with an event on which they differ, smallest first."""
    events = df.toArrow()
    translated, found = in_spark(df, atoms)
    expected = embedded(translated, events)
    for i, atom in sorted(enumerate(translated), key=lambda pair: len(str(pair[1]))):
        for row, (a, b) in enumerate(zip(expected, found, strict=True)):
            if a[i] is not b[i]:
                yield atom, events.slice(row, 1).to_pylist()[0], a[i], b[i]
                break


ANSI, ZONE, CODE = (f"spark.sql.{x}" for x in ("ansi.enabled", "session.timeZone", "codegen"))


@contextmanager
def configured(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name) for name in wanted}
    try:
        for name, value in wanted.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            spark.conf.set(name, str(old))


@pytest.fixture(scope="module", autouse=True)
def _compiled(spark: SparkSession) -> Iterator[None]:
    """Let Spark write and compile Java, as it does for users."""
    with configured(spark, {f"{CODE}.wholeStage": "true", f"{CODE}.factoryMode": "FALLBACK"}):
        yield


@pytest.fixture(scope="module")
def events(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """Events in a file, so that Spark compiles what it is asked."""
    path = tmp_path_factory.mktemp("events") / "events.parquet"
    pq.write_table(table_of(Random(0), 150), path)
    return spark.read.parquet(str(path))


@pytest.mark.parametrize("ansi", [True, False])
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
@settings(max_examples=max(1, settings().max_examples // 100))
@given(seed=st.integers(0, 2**32))
def test_atoms_hold_on_the_events_on_which_they_hold_in_the_embedded_engine(
    spark: SparkSession, events: DataFrame, ansi: bool, zone: str, seed: int
) -> None:
    rng = Random(f"{seed} {ansi} {zone}")
    with configured(spark, {ANSI: str(ansi).lower(), ZONE: zone}):
        wrong = next(differing(events, [random_atom(rng) for _ in range(150)]), None)
    assert wrong is None, wrong


@settings(max_examples=max(1, settings().max_examples // 100))
@given(seed=st.integers(0, 2**32))
def test_what_spark_interprets_it_answers_like_what_it_compiles(
    spark: SparkSession, events: DataFrame, seed: int
) -> None:
    rng = Random(seed)
    interpreted = spark.createDataFrame(table_of(rng, 60), events.schema)
    wrong = next(differing(interpreted, [random_atom(rng) for _ in range(150)]), None)
    assert wrong is None, wrong


def test_most_random_atoms_are_translated(events: DataFrame) -> None:
    rng, columns = Random(7), columns_of(events)
    kept = [translate_atom(random_atom(rng), columns) for _ in range(200)]
    assert sum(isinstance(found, Untranslated) for found in kept) < 20


# ------------------------------------------------------------ single cases


def one_column(spark: SparkSession, values: list[Any], type_: str) -> DataFrame:
    return spark.createDataFrame([(value,) for value in values], f"a {type_}")


A = Attribute(("a",))


def holding(df: DataFrame, *atoms: Atom) -> list[tuple[bool, ...]]:
    """The truth of atoms that must all be translated."""
    translated, rows = in_spark(df, atoms)
    assert translated == [*atoms]
    return rows


def test_a_sum_that_left_int64_does_not_come_back(spark: SparkSession) -> None:
    top = one_column(spark, [2**63 - 1, 5], "bigint").repartition(1)
    up_and_down = Arithmetic("+", Arithmetic("+", A, Literal(1)), Literal(-1))
    to_nothing = Arithmetic("*", Arithmetic("*", A, Literal(2)), Literal(0))
    found = holding(top, IsNull(up_and_down), IsNull(to_nothing))
    assert sorted(found) == [(False, False), (True, True)]


def test_nan_is_in_no_order(spark: SparkSession) -> None:
    numbers = one_column(spark, [math.nan, 3.0, None], "double")
    atoms: list[Atom] = [
        *(Comparison(op, A, Literal(2.0)) for op in OPERATORS),  # type: ignore[arg-type]
        *(Negation(Comparison(op, A, Literal(2.0))) for op in OPERATORS),  # type: ignore[arg-type]
    ]
    nan, three, null = holding(numbers, *atoms)
    assert nan == (False, True, *[False] * 4, True, False, *[True] * 4)
    assert three == (False, True, False, False, True, True, True, False, True, True, False, False)
    assert null == (False,) * 12


def test_a_bigint_is_not_rounded_beside_a_fraction(spark: SparkSession) -> None:
    df = spark.createDataFrame(
        [(2**53 + 1, 2.0**53), (2**63 - 1, 2.0**63), (-(2**63), -(2.0**63)), (7, math.nan)],
        "a bigint, f double",
    )
    f = Attribute(("f",))
    found = holding(df, *(Comparison(op, A, f) for op in ("=", "<", ">", "!=")))  # type: ignore[arg-type]
    assert found == [
        (False, False, True, True),
        (False, True, False, True),
        (True, False, False, False),
        (False, False, False, True),
    ]
    above = Comparison(">", A, Literal(9007199254740992.5))
    assert [row[0] for row in holding(df, above)] == [True, True, False, False]


def test_times_do_not_depend_on_the_zone_of_the_session(spark: SparkSession) -> None:
    atoms = [Comparison("=", Attribute((name,)), Literal("1970-01-01")) for name in ("at", "local")]
    with configured(spark, {ANSI: "true", ZONE: "America/New_York"}):
        df = spark.sql(
            "SELECT timestamp_micros(h * 3600000000) AS at,"
            " TIMESTAMP_NTZ'1970-01-01 00:00:00' + make_dt_interval(0, h) AS local"
            " FROM VALUES (0), (5) AS hours(h)"
        )
        assert holding(df, *atoms) == [(True, True), (False, False)]


def test_every_decimal_meets_a_fraction_as_in_the_embedded_engine(spark: SparkSession) -> None:
    cents = pa.array([Decimal(n) / 100 for n in range(-150, 150)], pa.decimal128(9, 2))
    df = spark.createDataFrame(pa.table({"type": ["A"] * 300, "a": cents}))
    fractions = [n / 100 for n in range(-20, 150, 7)] + [1.005, 1e-300, -1e30]
    atoms = [Comparison(op, A, Literal(f)) for op in OPERATORS for f in fractions]  # type: ignore[arg-type]
    assert holding(df, *atoms) == embedded(atoms, df.toArrow())


@pytest.mark.parametrize("places", [0, 2, 10, 18, 38])
def test_decimals_meet_each_digit_of_a_constant(spark: SparkSession, places: int) -> None:
    with localcontext(prec=100):
        large = Decimal(9007199254740992) if places < 38 else Decimal("0.1")
        values = [large + Decimal(n).scaleb(-places) for n in range(-3, 4)]
        constants = [large + Decimal(n).scaleb(-places - 1) for n in range(-30, 31, 3)]
    column = pa.array(values, pa.decimal128(38, places))
    df = spark.createDataFrame(pa.table({"type": ["A"] * len(values), "a": column}))
    written = [Literal(each) for each in constants]
    atoms: list[Atom] = [Comparison(op, A, c) for op in OPERATORS for c in written]  # type: ignore[arg-type]
    atoms += [InSet(A, tuple(written)), InRange(A, written[5], written[15])]
    assert holding(df, *atoms) == embedded(atoms, df.toArrow())


def test_fields_that_differ_in_case_only_are_told_apart(spark: SparkSession) -> None:
    twins = T.StructType([T.StructField("x", T.LongType()), T.StructField("X", T.StringType())])
    schema = T.StructType([T.StructField("o", twins)])
    df = spark.createDataFrame([((1, "a"),), ((2, "b"),), (None,)], schema)
    small = Comparison("=", Attribute(("o", "x")), Literal(1))
    capital = Comparison("=", Attribute(("o", "X")), Literal("b"))
    assert holding(df, small, capital) == [(True, False), (False, True), (False, False)]


def test_an_attribute_is_found_as_in_the_embedded_engine(spark: SparkSession) -> None:
    inner = T.StructType([T.StructField("b", T.LongType()), T.StructField("c", T.LongType())])
    schema = T.StructType([T.StructField("a.b", T.StringType()), T.StructField("a", inner)])
    columns = columns_of(spark.createDataFrame([], schema))

    def type_at(*path: str) -> Any:
        found = attribute(columns, path)
        return None if found is None else found[1]

    assert type_at("a", "b") == type_at("a.b") == T.StringType()
    assert type_at("a", "c") == T.LongType()
    assert type_at("a") == inner
    assert type_at("a", "B") is type_at("A") is type_at("a", "c", "d") is None


def test_text_that_is_not_utf_8_is_no_text_for_a_regular_expression(spark: SparkSession) -> None:
    raw = one_column(spark, [b"ab", b"a\xff", b"a\n", None], "binary")
    df = raw.select(F.lit("A").alias("type"), F.col("a").cast("string").alias("a"))
    atoms = [Like(A, "a.*"), Negation(Like(A, "a.*")), Like(A, ".*"), Like(A, "a|ab")]
    found = holding(df, *atoms)
    assert found == embedded(atoms, df.toArrow())
    assert found[1] == (False, True, False, False)


HOSTILE = ["'", '"', "\\", "\\'; DROP TABLE t; --", "\0", "`", "${x}", "\r\n", "%_", "x" * 100_000]
HOSTILE += ["\ud800", "\u2028", "😀", "/*", "\\u0041"]


def test_constants_are_never_read_as_sql(spark: SparkSession) -> None:
    texts = [text for text in HOSTILE if text != "\ud800"]
    df = spark.createDataFrame(pa.table({"type": texts, "a": texts}))
    atoms: list[Atom] = [TypeIs(text) for text in HOSTILE]
    atoms += [Comparison("=", A, Literal(text)) for text in HOSTILE]
    atoms += [InSet(A, tuple(map(Literal, HOSTILE)))]
    atoms += [IsNull(Attribute((text,))) for text in HOSTILE[:4]]
    assert holding(df, *atoms) == embedded(atoms, df.toArrow())


def test_many_alternatives_do_not_overflow_the_stack(spark: SparkSession) -> None:
    df = spark.createDataFrame(pa.table({"type": ["A"] * 2, "a": [3.5, -1.0]}))
    odd = Or(tuple(Comparison("=", A, Literal(n + 0.5)) for n in range(500)))
    assert holding(df, odd) == [(True,), (False,)]


# ----------------------------------------------------------------- left out


def reason(df: DataFrame, atom: Atom) -> str:
    found = translate_atom(atom, columns_of(df))
    assert isinstance(found, Untranslated)
    return found.reason


def test_what_spark_would_answer_differently_stays_in_python(spark: SparkSession) -> None:
    df = spark.sql(
        "SELECT 'a' COLLATE UNICODE_CI AS a, 'a' AS t, 1.5BD AS d, 1.5D AS f,"
        " DATE'2024-01-01' AS day, TIMESTAMP'2024-01-01 00:00:00' AS at,"
        " CAST(1 AS DECIMAL(38, 0)) AS whole,"
        " CAST(0.1 AS DECIMAL(38, 38)) AS fine, INTERVAL '1' DAY AS long, TIME'12:00:00' AS noon"
    )

    def equal(left: str, right: Any) -> Comparison:
        value = Attribute((right,)) if right in df.columns else Literal(right)
        return Comparison("=", Attribute((left,)), value)

    assert reason(df, equal("a", "A")) == "values of type string collate UNICODE_CI"
    assert reason(df, Like(Attribute(("t",)), "[a-z]")) == (
        "LIKE: Java's regular expressions differ from RE2's"
    )
    assert reason(df, Like(Attribute(("t",)), "a.*b.*c")) == "LIKE with more than two parts"
    assert reason(df, equal("d", "f")) == "decimals against floating point: rounded differently"
    product = Arithmetic("*", Attribute(("d",)), Literal(2))
    assert reason(df, Comparison("=", product, Literal(3))) == (
        "arithmetic on decimals: rounded differently"
    )
    assert reason(df, equal("day", "at")) == "dates and timestamps of different kinds"
    assert reason(df, equal("whole", "fine")) == "decimals that need 76 digits to compare"
    product = Arithmetic("*", Literal(0.1), Literal(2))
    assert reason(df, Comparison("=", Attribute(("fine",)), product)) == (
        "decimals against floating point: rounded differently"
    )
    assert reason(df, equal("long", "1")) == "values of type interval day"
    assert reason(df, equal("noon", "12:00:00")).startswith("values of type time")
    assert reason(df, And((equal("t", "a"), equal("a", "A")))).startswith("values of type string")


def test_null_is_asked_of_any_type(spark: SparkSession) -> None:
    df = spark.sql("SELECT INTERVAL '1' DAY AS a, 'a' COLLATE UNICODE_CI AS b, NULL AS c")
    atoms = [IsNull(Attribute((name,))) for name in "abcd"]
    assert holding(df, *atoms) == [(False, False, True, True)]


# ------------------------------------------------------------- file sources


def plan_of(df: DataFrame) -> str:
    df.sparkSession.conf.set("spark.sql.maxMetadataStringLength", "10000")
    try:
        return str(df._jdf.queryExecution().executedPlan().toString())  # type: ignore[operator]
    finally:
        df.sparkSession.conf.unset("spark.sql.maxMetadataStringLength")


def pushed(df: DataFrame, atom: Atom) -> str:
    """The filters that reach the file."""
    found = translate_filter(atom, columns_of(df))
    assert not isinstance(found, Untranslated)
    return plan_of(df.filter(found)).split("PushedFilters: [")[1].split("], ReadSchema")[0]


def test_comparisons_with_constants_reach_the_file(events: DataFrame) -> None:
    def compared(name: str, op: Any, constant: Any) -> Comparison:
        return Comparison(op, Attribute.named(name), Literal(constant))

    expected = {
        TypeIs("A"): "EqualTo(type,A)",
        compared("i8", ">", 5.5): "GreaterThan(i8,5)",
        compared("i64", "<=", 2**40): "LessThanOrEqual(i64,1099511627776)",
        compared("f32", "<", 0.1): "LessThanOrEqual(f32,0.099999994)",
        compared("f64", ">", 2): "GreaterThan(f64,2.0)",
        compared("d9", ">=", 10): "GreaterThanOrEqual(d9,10.00)",
        compared("day", "<", "2024-01-01T12:00"): "LessThanOrEqual(day,2024-01-01)",
        compared("o.x", "=", 3): "EqualTo(o.x,3)",
        Negation(compared("s", "<", "b")): "GreaterThanOrEqual(s,b)",
        InSet(Attribute(("s",)), (Literal("a"), Literal("b"))): "In(s, [a,b])",
        InRange(Attribute(("i32",)), Literal(1), Literal(3)): "LessThanOrEqual(i32,3)",
        Like(Attribute(("s",)), "GOO.*"): "StringStartsWith(s,GOO)",
        IsNull(Attribute(("s",))): "IsNull(s)",
        Or((compared("i32", "=", 1), compared("s", "=", "a"))): "Or(EqualTo(i32,1),EqualTo(s,a))",
    }
    for atom, text in expected.items():
        assert text in pushed(events, atom), (atom, pushed(events, atom))
    assert "GreaterThan(at," in pushed(events, compared("at", ">", "2024-01-01T00:00:00+01:00"))
    assert "GreaterThan(local," in pushed(events, compared("local", ">", "2024-01-01"))


def test_filters_on_files_keep_nan_and_both_zeros(spark: SparkSession, tmp_path: Path) -> None:
    """Statistics in files leave NaN out, and dictionaries tell the zeros apart."""
    groups = [[5.0, math.nan], [-0.0], [0.0], [3.0, math.nan], [math.nan], [-1.0, 0.0], [None, 5.0]]
    for type_, dictionary in [("double", True), ("float", False)]:
        path = tmp_path / f"{type_}.parquet"
        schema = pa.schema({"type": pa.string(), "a": pa.type_for_alias(type_)})
        with pq.ParquetWriter(path, schema, use_dictionary=dictionary) as writer:
            for values in groups:
                writer.write_table(pa.table([["A"] * len(values), values], schema))
        df = spark.read.parquet(str(path))
        atoms: list[Predicate] = [
            Comparison(op, A, Literal(zero))  # type: ignore[arg-type]
            for op in ("=", "<", "<=", ">", ">=")
            for zero in (0.0, -0.0)
        ]
        atoms += [Negation(Comparison(op, A, Literal(5))) for op in OPERATORS]  # type: ignore[arg-type]
        atoms += [Comparison("!=", A, Literal(5)), InSet(A, (Literal(0), Literal(7.0)))]
        columns = columns_of(df)
        counts = [
            df.filter(translate_filter(atom, columns)).agg(F.count("*").alias("n"))  # type: ignore[arg-type]
            for atom in atoms
        ]
        found = [row.n for row in reduce(DataFrame.unionAll, counts).collect()]
        expected = [sum(truths) for truths in zip(*embedded(atoms, df.toArrow()), strict=True)]
        assert found == expected, type_
