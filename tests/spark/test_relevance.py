"""No event that a test of an automaton can see is dropped, and bits say which atoms hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import cernis
from cernis.automata.unary.alphabet import passes
from cernis.automata.unary.cea import ANYTHING, Both, Either, Is, Isnt, Test, find_atoms
from cernis.encoding.encode import AtomEncoder
from cernis.encoding.masks import BITS, MaskEncoder, mask_column
from cernis.events.batch import EventBatch
from cernis.pattern.atom import Atom, TypeIs
from cernis.pattern.predicate import (
    And,
    Arithmetic,
    Attribute,
    Comparison,
    InSet,
    IsNull,
    Like,
    Literal,
    Negation,
    Or,
    Predicate,
)
from cernis.spark.catalyst import Columns
from cernis.spark.relevance import make_masks, relevance_condition

A, S, X = (Attribute((name,)) for name in ("a", "s", "x"))
KEPT = Like(S, "[xy]+")
TRANSLATED: list[Atom] = [
    TypeIs("A"),
    TypeIs("B"),
    TypeIs("C", "S"),
    TypeIs("C", "R"),
    Comparison("<", A, Literal(2)),
    Comparison(">", X, Literal(0.5)),
    Comparison("!=", X, Literal(0)),
    Negation(Comparison(">=", X, Literal(1))),
    Comparison("=", Arithmetic("%", A, Literal(2)), Literal(1)),
    InSet(S, (Literal("x"), Literal("y"))),
    Like(S, "x.*"),
    IsNull(A),
]
HALF_KEPT: list[Atom] = [
    KEPT,
    Negation(KEPT),
    And((Comparison("<", A, Literal(3)), KEPT)),
    Or((Comparison("<", A, Literal(1)), KEPT)),
    Negation(And((Comparison("<", A, Literal(2)), KEPT))),
    And((Comparison(">", X, Literal(0)), Or((Negation(KEPT), IsNull(S))))),
]


@pytest.fixture(scope="module")
def events(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """Every combination of a few values."""
    numbers = [0.0, -0.0, 0.75, math.nan, None]
    values = [("A", "B", "C", None), (0, 1, 2, 3, None), ("x", "xy", "z\n", None), numbers]
    rows = [*zip(*product(*values), strict=True)]
    table = pa.table([pa.array(row) for row in rows], names=["type", "a", "s", "x"])
    path = tmp_path_factory.mktemp("relevance") / "events.parquet"
    pq.write_table(table, path, row_group_size=20)
    return spark.read.parquet(str(path))


def columns_of(df: DataFrame) -> Columns:
    return {field.name: (F.col(field.name), field.dataType) for field in df.schema}


def random_test(rng: Random, atoms: Sequence[Atom], depth: int) -> Test:
    kind = rng.random()
    if not depth or kind < 0.4:
        return Is(rng.choice(atoms))
    if kind < 0.55:
        return Isnt(random_test(rng, atoms, depth - 1))
    parts = tuple(random_test(rng, atoms, depth - 1) for _ in range(rng.randint(0, 3)))
    return Both(parts) if kind < 0.8 else Either(parts)


def seen(tests: Sequence[Test], events: pa.Table) -> list[bool]:
    """For each event, whether some test passes, by definition."""
    atoms = [*dict.fromkeys(atom for test in tests for atom in find_atoms(test))]
    encoder = AtomEncoder(atoms)
    codes = encoder.encode(EventBatch.of(events))
    truths = [dict(zip(atoms, vector, strict=True)) for vector in encoder.vectors]
    passed = [any(passes(test, truth) for test in tests) for truth in truths]
    return [passed[code] for code in codes]


def kept(df: DataFrame, cases: Sequence[Sequence[Test]]) -> list[list[bool]]:
    """For each case, which events the condition keeps, all in one job."""
    columns = columns_of(df)
    conditions = [relevance_condition(tests, columns, "type", "S") for tests in cases]
    asked = [
        F.coalesce(F.lit(True) if c is None else c, F.lit(False)).alias(f"c{i}")
        for i, c in enumerate(conditions)
    ]
    return [*df.select(*asked).toArrow().to_pydict().values()]


@settings(max_examples=max(1, settings().max_examples // 50))
@given(seed=st.integers(0, 2**32))
def test_every_event_that_a_test_can_see_is_kept(events: DataFrame, seed: int) -> None:
    rng = Random(seed)
    atoms = TRANSLATED + HALF_KEPT
    cases = [[random_test(rng, atoms, 3) for _ in range(rng.randint(1, 3))] for _ in range(40)]
    table = events.toArrow()
    for tests, found in zip(cases, kept(events, cases), strict=True):
        visible = seen(tests, table)
        assert all(k or not v for k, v in zip(found, visible, strict=True)), tests


@settings(max_examples=max(1, settings().max_examples // 50))
@given(seed=st.integers(0, 2**32))
def test_no_other_event_is_kept_where_all_atoms_are_translated(
    events: DataFrame, seed: int
) -> None:
    rng = Random(seed)
    cases = [[random_test(rng, TRANSLATED, 3) for _ in range(rng.randint(0, 3))] for _ in range(40)]
    table = events.toArrow()
    for tests, found in zip(cases, kept(events, cases), strict=True):
        assert found == seen(tests, table), tests


def test_filtered_files_give_the_events_that_are_seen(events: DataFrame) -> None:
    rng, table, columns = Random(3), events.toArrow(), columns_of(events)
    for _ in range(6):
        tests = [random_test(rng, TRANSLATED, 2) for _ in range(2)]
        found = relevance_condition(tests, columns, "type", "S")
        if found is not None:
            assert events.filter(found).count() == sum(seen(tests, table)), tests


def test_what_stays_in_python_is_bounded_by_the_rest(events: DataFrame) -> None:
    few = Comparison("<", A, Literal(3))
    table = events.toArrow()
    cases: list[tuple[Test, Predicate]] = [
        (Is(And((few, KEPT))), few),
        (Both((Is(few), Isnt(Is(KEPT)))), few),
        (Isnt(Is(Or((few, KEPT)))), Or((Negation(few), IsNull(A)))),
        (Is(Negation(Or((few, KEPT)))), Negation(few)),
    ]
    found = kept(events, [[test] for test, _ in cases])
    assert found == [seen([Is(bound)], table) for _, bound in cases]


def test_nothing_is_dropped_where_any_event_may_be_seen(events: DataFrame) -> None:
    columns = columns_of(events)
    for test in (
        ANYTHING,
        Is(KEPT),
        Isnt(Is(KEPT)),
        Isnt(Is(TypeIs("C", "R"))),
        Either((Is(TypeIs("A")), Isnt(Is(TypeIs("A"))))),
        Isnt(Both((Is(TypeIs("A")), Is(KEPT), Isnt(Is(TypeIs("A")))))),
    ):
        assert relevance_condition([Is(TypeIs("B")), test], columns, "type", "S") is None, test


def test_everything_is_dropped_where_no_event_can_be_seen(events: DataFrame) -> None:
    columns = columns_of(events)
    impossible: list[list[Test]] = [
        [],
        [Isnt(ANYTHING)],
        [Is(TypeIs("C", "R"))],
        [Is(Comparison("=", Attribute(("missing",)), Literal(1)))],
        [Is(Comparison("=", A, Literal("one")))],
        [Both((Is(TypeIs("A")), Isnt(Is(TypeIs("A")))))],
    ]
    for tests in impossible:
        found = relevance_condition(tests, columns, "type", "S")
        assert found is not None
        assert events.filter(found).isEmpty(), tests


# ------------------------------------------------------------- file sources


def plan_of(df: DataFrame) -> str:
    df.sparkSession.conf.set("spark.sql.maxMetadataStringLength", "10000")
    try:
        return str(df._jdf.queryExecution().executedPlan().toString())  # type: ignore[operator]
    finally:
        df.sparkSession.conf.unset("spark.sql.maxMetadataStringLength")


def filters(df: DataFrame, tests: Sequence[Test]) -> str:
    """The filters that reach the file."""
    found = relevance_condition(tests, columns_of(df), "type", "S")
    assert found is not None
    return plan_of(df.filter(found)).split("PushedFilters: [")[1].split("], ReadSchema")[0]


def test_a_plain_query_is_filtered_in_the_file(spark: SparkSession, tmp_path: Path) -> None:
    trades = pa.table({"type": ["SELL", "BUY"], "name": ["MSFT", "x"], "price": [1.5, 200.0]})
    pq.write_table(trades, tmp_path / "trades.parquet")
    df = spark.read.parquet(str(tmp_path / "trades.parquet"))
    query = cernis.query(
        "SELECT * FROM S WHERE SELL as msft ; SELL as oracle ; BUY as amazon"
        " FILTER msft[name = 'MSFT'] AND msft[price > 100] AND oracle[name = 'ORCL']"
        " AND amazon[name = 'AMZN']"
    )
    assert query.plan.unary is not None
    found = filters(df, [test for test in query.plan.unary.cea.tests() if test != ANYTHING])
    for part in ("EqualTo(type,SELL)", "GreaterThan(price,100.0)", "EqualTo(name,AMZN)"):
        assert part in found


def test_types_become_one_set(events: DataFrame) -> None:
    tests = [Is(TypeIs(name)) for name in "ABC"]
    assert filters(events, tests) == "In(type, [A,B,C])"
    narrower = [*tests, Both((Is(TypeIs("A")), Is(Comparison("<", A, Literal(2)))))]
    assert filters(events, narrower) == "In(type, [A,B,C])"


def test_a_wider_condition_reaches_the_file_where_the_whole_cannot(events: DataFrame) -> None:
    odd = Comparison("=", Arithmetic("%", A, Literal(2)), Literal(1))
    tests = [Both((Is(TypeIs("A")), Is(odd))), Both((Is(TypeIs("B")), Is(KEPT)))]
    assert filters(events, tests) == "In(type, [A,B])"


# ------------------------------------------------------------------- masks


def vectors(encoder: AtomEncoder | MaskEncoder, events: pa.Table, stream: str) -> list[Any]:
    codes = encoder.encode(EventBatch.of(events, stream=stream))
    return [encoder.vectors[code] for code in codes]


@pytest.mark.parametrize("stream", ["S", "R"])
def test_masks_have_a_bit_for_each_atom(events: DataFrame, stream: str) -> None:
    many: list[Atom] = [Comparison("<", X, Literal(n / 40 - 1)) for n in range(2 * BITS)]
    atoms = [*TRANSLATED, *HALF_KEPT, *many, TypeIs("A", "S"), TypeIs("A", "R")]
    found = make_masks(atoms, columns_of(events), "type", stream)
    assert [*found.atoms] == [atom for atom in atoms if atom not in HALF_KEPT]
    assert [*found.untranslated] == HALF_KEPT
    assert len(found.columns) == 3
    columns = [bits.alias(mask_column(i)) for i, bits in enumerate(found.columns)]
    table = events.select("*", *columns).toArrow()
    assert all(table.column(mask_column(i)).null_count == 0 for i in range(3))
    given = MaskEncoder(atoms, {atom: i for i, atom in enumerate(found.atoms)})
    assert vectors(given, table, stream) == vectors(AtomEncoder(atoms), table, stream)


def test_atoms_without_an_answer_that_varies_need_no_columns(events: DataFrame) -> None:
    always, never = IsNull(Attribute(("missing",))), TypeIs("A", "R")
    found = make_masks([never, always], columns_of(events), "type", "S")
    assert found.atoms == (never, always)
    assert {row[0] for row in events.select(*found.columns).collect()} == {2}
    assert make_masks([], columns_of(events), "type", "S").columns == ()
    assert make_masks([KEPT], columns_of(events), "type", "S").columns == ()
