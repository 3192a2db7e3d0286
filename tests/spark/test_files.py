"""Files as DataFrames, what is staged and what Spark reads itself; and matches out of parts."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cernis
from cernis.errors import CernisError, DataError
from cernis.events.reading import text
from cernis.spark.batch import select_rows
from cernis.spark.files import merge as parts
from cernis.spark.files.check import check_files
from cernis.spark.files.load import load_files
from cernis.spark.files.merge import MatchFiles, write_matches
from cernis.spark.options import JobOptions
from cernis.spark.prepare import prepare_job
from cernis.work.carriers import carrier_of, convert, note_type, noted_type
from cernis.work.columns import ROW

QUERY = cernis.query("SELECT * FROM S WHERE A AS a ; B AS b WITHIN 1 SECOND")


def frames(spark: Any, path: Path, **options: Any) -> Any:
    sources = check_files(QUERY, [path], on_error=options.get("on_error", "fail"))
    return load_files(spark, sources, **options)


# --------------------------------------------------------------- DataFrames


def test_what_changes_its_type_on_the_way_is_staged_in_the_last_one(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "BLOCK_BYTES", 100)
    path = tmp_path / "s.jsonl"
    events: list[dict[str, Any]] = [{"type": "A", "ts": i, "v": i, "w": None} for i in range(20)]
    events += [{"type": "B", "ts": 20, "v": 0.5, "w": "x", "late": {"n": 1}}]
    lines = [str(event).replace("'", '"').replace("None", "null") for event in events]
    path.write_text("\n".join(lines))
    with frames(spark, path, types={"A", "B", "C"}) as staged:
        assert staged.types == {"S": {"A", "B"}}
        found = staged.frames["S"].orderBy(ROW).toArrow().to_pylist()
        assert staged.columns["S"].field("v").type == pa.float64()
    nothing = {"late": None}
    assert found == [nothing | e | {ROW: i} for i, e in enumerate(events)]


def test_filters_reach_parquet_files(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "s.parquet"
    table = pa.table({"type": ["A", "B"], "ts": pa.array([1, 2], pa.timestamp("ms"))})
    pq.write_table(table, path)
    with frames(spark, path) as staged:
        job = prepare_job(staged.frames, QUERY, JobOptions(row=staged.row))
        plan = select_rows(job)._jdf.queryExecution().toString()
        assert "In(type, [A,B])" in plan.partition("PushedFilters: ")[2]
        assert staged.frames["S"].inputFiles() == [f"file://{path}"]
        assert job.scale.own == 1_000_000, "a number counts what it counts in the file"


def test_what_was_staged_is_gone_afterwards(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_text("type,ts\nA,1\n")
    with frames(spark, path) as staged:
        [file] = staged.frames["S"].inputFiles()
        folder = Path(file.removeprefix("file://")).parent
        assert folder.is_dir()
    assert not folder.exists()


@pytest.mark.parametrize("statistics", [True, False])
def test_missing_times_are_found_with_or_without_statistics(
    tmp_path: Path, statistics: bool
) -> None:
    path = tmp_path / "s.parquet"
    table = pa.table({"type": ["A", "B"], "ts": pa.array([1, None], pa.timestamp("ms"))})
    pq.write_table(table, path, write_statistics=statistics)
    told = f"{path}, row 1, column 'ts': the time is missing"
    with pytest.raises(DataError) as error, frames(None, path):
        pass
    assert str(error.value) == told


def test_other_machines_cannot_see_what_is_staged_here(tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_text("type,ts\nA,1\n")
    cluster = SimpleNamespace(conf={"spark.master": "spark://far:7077"})
    told = "machines of spark://far:7077 cannot see"
    with pytest.raises(CernisError, match=told) as error, frames(cluster, path):
        pass
    assert str(error.value).startswith(f"{path}: ")


def test_a_type_that_spark_cannot_carry_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.parquet"
    pq.write_table(pa.table({"type": ["A"], "n": pa.array([1], pa.decimal256(50, 0))}), path)
    local = SimpleNamespace(conf={})
    query = cernis.query("SELECT * FROM S WHERE A")
    sources = check_files(query, [path])
    with pytest.raises(DataError, match="'n' holds decimal256"), load_files(local, sources):
        pass


# ------------------------------------------------------------------- types


@pytest.mark.parametrize(
    "array",
    [
        pa.array([2**64 - 1, None], pa.uint64()),
        pa.array([dt.time(10, 3), None], pa.time32("s")),
        pa.array([dt.timedelta(seconds=5)], pa.duration("s")),
        pa.array([5, None], pa.timestamp("ms", "Europe/Rome")),
        pa.array([dt.date(2020, 1, 1)], pa.date64()),
        pa.array([[1], None, []], pa.large_list(pa.uint8())),
        pa.array([[None], []], pa.list_(pa.null())),
        pa.array([{"a": None, "b": 3}, None], pa.struct({"a": pa.null(), "b": pa.timestamp("s")})),
        pa.array([[{"t": dt.time(1)}, None], None], pa.list_(pa.struct({"t": pa.time64("ns")}))),
        pa.array([b"ab"], pa.binary(2)),
        pa.array([[1, 2], None], pa.list_(pa.int8(), 2)),
        pa.array([Decimal("1.5")], pa.decimal128(38, 2)),
        pa.array([[("k", 1)]], pa.map_(pa.large_string(), pa.uint64())),
        pa.nulls(2),
    ],
    ids=lambda array: str(array.type),
)
def test_values_come_back_from_the_type_that_carries_them(array: pa.Array) -> None:
    held = convert(pa.chunked_array([array]), carrier_of(array.type))
    assert carrier_of(held.type) == held.type
    assert convert(held, array.type).combine_chunks().equals(array)
    assert noted_type(note_type(array.type)) == array.type


def test_a_value_without_a_place_is_refused() -> None:
    fine = pa.chunked_array([[1]], pa.timestamp("ns"))
    with pytest.raises(pa.ArrowInvalid):
        convert(fine, carrier_of(fine.type))


# ------------------------------------------------------------------- parts

RESULTS = pa.schema({"end": pa.int64(), "end_ts": pa.timestamp("us", "UTC"), "place": pa.int64()})
ends = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), max_size=30)


@given(st.lists(ends, min_size=1, max_size=4), st.integers(1, 5))
def test_parts_are_merged_in_the_order_of_ends(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[list[tuple[int, int]]], size: int
) -> None:
    folder = tmp_path_factory.mktemp("parts")
    found, files = [], []
    for task, times in enumerate(drawn):
        # a row is the end of matches in one task alone
        rows = sorted((time, 4 * row + task) for time, row in times)
        keyed = [(time, row + 100 * time, place) for place, (time, row) in enumerate(rows)]
        found += keyed
        # what has no deadline comes last
        columns = [[row for _, row, _ in keyed], [None if t == 9 else t for t, *_ in keyed]]
        columns.append([place for *_, place in keyed])
        table = pa.table(columns, schema=RESULTS).rename_columns(["c0", "c1", "c2"])
        files.append(folder / f"part-{task}.parquet")
        pq.write_table(table, files[-1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "_ROWS", size)
        patch.setattr(parts, "_FEWEST", size)
        merged = MatchFiles(RESULTS, ["c1", "c0"], files)
        tables = list(merged.merge())
    whole = pa.concat_tables([RESULTS.empty_table(), *tables])
    times = whole.column("end_ts").cast(pa.int64()).fill_null(9).to_pylist()
    rows = whole.column("end").to_pylist()
    got = list(zip(times, rows, whole.column("place").to_pylist(), strict=True))
    assert got == sorted(found)
    assert merged.count == len(found)


def test_parts_that_were_written_elsewhere_are_missed(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = spark.range(3).selectExpr("id as end", "timestamp_micros(id) as end_ts", "id as place")
    monkeypatch.setattr(Path, "glob", lambda *_: iter(()))
    found = write_matches(data, RESULTS, ["end_ts", "end", "place"], tmp_path, sort=True)
    with pytest.raises(CernisError, match="a folder that all of them share"), found:
        pass
    assert not [*tmp_path.iterdir()]
