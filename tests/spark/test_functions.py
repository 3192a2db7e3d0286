"""Functions on Spark: Catalyst gives the values of the embedded engine, or leaves them to it."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import cernis
import cernis.spark
from cernis.events.evaluation.evaluate import calculate_column
from cernis.pattern.functions import BUILTIN, FUNCTIONS
from cernis.spark import catalyst
from tools.cases.edges import list_calls, normalize
from tools.cases.functions import SCHEMA, make_events, make_query

TRANSLATED = {
    "ABS", "SIGN", "FLOOR", "CEIL", "SQRT", "LEAST", "GREATEST", "MOD", "LOWER", "UPPER", "TRIM",
    "LENGTH", "SUBSTRING", "CONCAT", "REPLACE", "STARTS_WITH", "ENDS_WITH", "CONTAINS", "COALESCE",
    "NULLIF", "YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND", "DAY_OF_WEEK", "CAST",
}  # fmt: skip


def compute(
    spark: SparkSession, folder: Path, name: str
) -> list[tuple[Any, dict[str, Any], list[Any], list[Any]]]:
    """Return each call that Catalyst translates, its columns, and the values of both."""
    found = []
    for number, (call, columns) in enumerate(list_calls(FUNCTIONS[name])):
        length = len(next(iter(columns.values())))
        table = pa.table({"n": pa.array(range(length)), **columns})
        path = folder / f"{name}{number}.parquet"
        pq.write_table(table, path)
        frame = spark.read.parquet(str(path))
        types = {field.name: field.dataType for field in frame.schema.fields}
        known = {column: (F.col(column), types[column]) for column in types}
        translation = catalyst._Translation(known, catalyst.Mode.EXACT)
        try:
            typed = translation._value(call)
        except catalyst._CannotTranslate:
            continue
        if not isinstance(typed, catalyst._Typed):
            continue
        rows = frame.orderBy("n").select(typed.column.alias("v")).toArrow()
        wanted = calculate_column(call, lambda path, c=columns: c[path[0]], length)  # type: ignore[misc]
        found.append((call, columns, rows.column("v").to_pylist(), wanted.to_pylist()))
    return found


@pytest.mark.parametrize("name", sorted(BUILTIN))
def test_catalyst_gives_the_same_values(spark: SparkSession, tmp_path: Path, name: str) -> None:
    translated = compute(spark, tmp_path, name)
    assert bool(translated) == (name in TRANSLATED)
    for call, columns, found, wanted in translated:
        rows = list(zip(*(column.to_pylist() for column in columns.values()), strict=True))
        for row, one, other in zip(rows, found, wanted, strict=True):
            assert normalize(one) == normalize(other), (call, row)


@pytest.mark.parametrize("seed", range(12))
def test_random_expressions_have_the_matches_of_the_embedded_engine(
    spark: SparkSession, seed: int
) -> None:
    chance = random.Random(seed)
    text = make_query(chance, depth=3)
    table = pa.Table.from_pylist(make_events(chance, 40), SCHEMA)
    wanted = cernis.query(text).run(table).to_arrow().to_pylist()
    found = cernis.spark.recognize(spark.createDataFrame(table), text).toArrow().to_pylist()
    assert sorted(map(str, found)) == sorted(map(str, wanted))


def test_a_users_function_travels_with_the_plan(spark: SparkSession) -> None:
    def weigh(values: pa.Array, texts: pa.Array) -> pa.Array:
        return pc.add(values, pc.cast(pc.utf8_length(texts), pa.float64()))

    cernis.function("weigh", weigh, returns="double", args=("double", "string"))
    try:
        text = (
            "SELECT WEIGH(y[b], y[s]) AS w FROM S WHERE A AS x ; B AS y "
            "FILTER y[WEIGH(b, s) > 2] AND WEIGH(x[b], x[s]) < WEIGH(y[b], y[s]) WITHIN 9 EVENTS"
        )
        table = pa.Table.from_pylist(make_events(random.Random(1), 60), SCHEMA)
        wanted = cernis.query(text).run(table).to_arrow()
        found = cernis.spark.recognize(spark.createDataFrame(table), text).toArrow()
        assert sorted(found["w"].to_pylist()) == sorted(wanted["w"].to_pylist()) != []
    finally:
        cernis.forget_function("weigh")


@pytest.fixture
def weigh() -> Iterator[Callable[..., None]]:
    def register(version: str = "1", **options: Any) -> None:
        def compute(values: pa.Array, texts: pa.Array) -> pa.Array:
            return pc.add(values, pc.cast(pc.utf8_length(texts), pa.float64()))

        types: Any = {"returns": "double", "args": ("double", "string")}
        cernis.function("weigh", compute, version=version, **types, **options)

    register()
    yield register
    cernis.forget_function("weigh")


@pytest.mark.parametrize(
    "key", ["REGEXP_EXTRACT(s, '(a+)')", "WEIGH(b, s)", "ROUND(b, 1)", "(a % 2)"]
)
def test_a_key_may_be_computed_in_python(
    spark: SparkSession, weigh: Callable[..., None], key: str
) -> None:
    table = pa.Table.from_pylist(make_events(random.Random(1), 40), SCHEMA)
    text = f"SELECT x, y FROM S WHERE A AS x ; B AS y PARTITION BY [{key}] WITHIN 20 EVENTS"
    wanted = cernis.query(text).run(table).to_arrow().to_pylist()
    found = cernis.spark.recognize(spark.createDataFrame(table), text).toArrow().to_pylist()
    assert sorted(map(str, found)) == sorted(map(str, wanted)) != []


def test_functions_of_users_travel_with_rules(
    spark: SparkSession, weigh: Callable[..., None]
) -> None:
    rules = {
        "heavy": "SELECT * FROM S WHERE A AS x ; B AS y FILTER y[WEIGH(b, s) > 2] WITHIN 9 EVENTS",
        "key": "SELECT * FROM S WHERE A ; B PARTITION BY [WEIGH(b, s)]",
    }
    table = pa.Table.from_pylist(make_events(random.Random(1), 60), SCHEMA)
    wanted = {name: len(own) for name, own in cernis.rules(rules).run(table).items()}
    found = cernis.spark.recognize_rules(spark.createDataFrame(table), rules)
    assert Counter(found.toArrow()["rule"].to_pylist()) == wanted
    assert all(wanted.values())


WEIGHED = "SELECT WEIGH(y[b], y[s]) AS w FROM S WHERE A AS x ; B AS y FILTER y[WEIGH(b, s) > 2]"


def recognize_query(source: DataFrame, **options: Any) -> DataFrame:
    return cernis.spark.recognize(source, WEIGHED, **options)


def recognize_rule(source: DataFrame, **options: Any) -> DataFrame:
    return cernis.spark.recognize_rules(source, {"heavy": WEIGHED}, **options)


@pytest.mark.parametrize("recognize", [recognize_query, recognize_rule])
def test_functions_of_users_run_on_streams_and_checkpoints_note_their_version(
    spark: SparkSession, tmp_path: Path, weigh: Callable[..., None], recognize: Callable[..., Any]
) -> None:
    events = make_events(random.Random(1), 30)
    table = pa.Table.from_pylist([{**row, "ts": 10**6 * row["ts"]} for row in events], SCHEMA)
    (tmp_path / "in").mkdir()
    pq.write_table(table, tmp_path / "in" / "0.parquet")
    frame = spark.createDataFrame(table)
    source = spark.readStream.schema(frame.schema).parquet(str(tmp_path / "in"))
    options: Any = {"lateness": "1s", "row": "ts", "checkpoint": str(tmp_path / "state")}
    found = recognize(source, **options)
    writer = found.writeStream.format("parquet").option("path", str(tmp_path / "out"))
    writer = writer.option("checkpointLocation", str(tmp_path / "state"))
    writer.trigger(availableNow=True).start().awaitTermination()
    got = spark.read.parquet(str(tmp_path / "out")).toArrow().to_pylist()
    wanted = cernis.query(WEIGHED).run(table).to_arrow()["w"].to_pylist()
    values = [row["w"] if "w" in row else json.loads(row["line"])["values"]["w"] for row in got]
    assert set(values) <= set(wanted)
    assert len(values) > 5  # the last events wait for others
    weigh("2")
    with pytest.raises(cernis.StateError, match="version '1' of the function WEIGH, and '2' is"):
        recognize(source, **options)
    weigh("2", accepts=("1",))
    recognize(source, **options)
