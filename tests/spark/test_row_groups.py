"""Tasks that read row groups of Parquet files find the matches of the oracle, wherever the files
and the tasks are cut; and which files are read so."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import cernis
from cernis.events.order import Scale
from cernis.generators.stock import stock_stream
from cernis.pattern.query import Consume, Pattern, Strategy, Unit, counts_only
from cernis.run.session import RunOptions
from cernis.spark import explain, recognize
from cernis.spark.prepare import reach_ahead, reach_back
from cernis.spark.row_groups import Times, cut_lots, list_groups, number_positions
from cernis.work.columns import ROW
from cernis.work.layout import choose_layout
from cernis.work.query import QueryWork, answer_schema
from cernis.work.reading import StreamColumns
from cernis.work.row_groups import RowGroups, recognize_groups
from tools.cases.differential import assert_agrees, assert_counts_agree
from tools.cases.strategies import cases
from tools.cases.tables import make_table

Events = Sequence[dict[str, Any]]
SCALE = Scale(10**6, 10**6)
TIMES = Times("ts", "ms", SCALE)
FEATURES: dict[str, Any] = {
    "consume": (Consume.NONE,),
    "windows": (None, Unit.TIME, Unit.EVENTS),
    "size": 4,
    "untimed": False,
}
many = settings(
    max_examples=max(5, settings.default.max_examples // 20),
    suppress_health_check=list(HealthCheck),
)


def find_lines(
    pattern: Pattern, files: Sequence[Path], tasks: int, complete: bool = False
) -> Iterator[dict[str, Any]]:
    """Yield the matches that the tasks find in files."""
    query = cernis.query(pattern)
    layout = choose_layout(query.plan, timed=True)
    schema = pq.read_schema(files[0])
    work = QueryWork(
        plan=query.plan,
        streams=(StreamColumns(name="S", columns={name: name for name in schema.names}),),
        reading=RunOptions(time="ts", complete=complete),
        scale=SCALE,
        form="lines",
    )
    empty = schema.empty_table().append_column(ROW, pa.array([], pa.int64()))
    work = replace(work, schema=answer_schema(work, empty))
    types = {field.name: field.type for field in schema}
    groups = list_groups([*map(str, files)], types, TIMES)
    assert groups
    now = groups[-1].high
    if layout.ranked:
        groups = number_positions(groups)
    back = reach_back(pattern, layout, SCALE) or 0
    tasks = tasks if layout.cut or layout.ranked else 1
    lots = cut_lots(groups, back, reach_ahead(pattern, layout, SCALE), tasks)
    read = RowGroups(lots=tuple(lots), types=types, by_time=layout.cut, now=now)
    for number in range(len(lots)):
        batches = [pa.record_batch({"id": [number]})]
        for batch in recognize_groups(work, read, batches):
            yield from map(json.loads, batch.column("line").to_pylist())


@many
@given(
    case=cases(**FEATURES) | cases(after=("free", "equal"), **FEATURES),
    data=st.data(),
    tasks=st.integers(1, 4),
    complete=st.booleans(),
)
def test_row_groups_have_the_matches_of_the_oracle(
    case: tuple[Pattern, Events], data: st.DataObject, tasks: int, complete: bool
) -> None:
    pattern, given = case
    assume(given and pattern.strategy is not Strategy.ANY)  # one of them, which depends on slices
    events = sorted(
        ({**e, "ts": e.get("ts", i)} for i, e in enumerate(given)), key=lambda e: e["ts"]
    )
    sizes = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=len(events)))
    groups = []
    while events:
        size = sizes[len(groups) % len(sizes)]
        groups.append(data.draw(st.permutations(events[:size])))
        events = events[size:]
    with TemporaryDirectory() as folder:
        files = []
        for number, group in enumerate(groups):
            files.append(Path(folder, f"{number:03}.parquet"))
            pq.write_table(make_table(group, timed=True), files[-1], use_dictionary=number % 2 == 0)
        found = [*find_lines(pattern, files, tasks, complete)]
    events = [event for group in groups for event in group]
    if counts_only(pattern):
        counted = [(line["end"], line["count"]) for line in found]
        assert_counts_agree(pattern, events, counted, complete=complete)
    else:
        triples = ((line["start"], line["end"], line["vars"]) for line in found)
        assert_agrees(pattern, events, triples, complete=complete)


# ------------------------------------------------------------------- Spark

SEQUENCE = (
    "SELECT {shown} FROM S WHERE (SELL AS a {then} BUY AS b) "
    "FILTER a[volume > 800] AND LOWER(b[name]) = 'msft' {rest}"
)


def write_sequence(rest: str, then: str = ";", shown: str = "*") -> str:
    return SEQUENCE.format(rest=rest, then=then, shown=shown)


QUERIES = {
    "keyed": write_sequence("PARTITION BY [name] WITHIN 2 SECONDS"),
    "in turn": write_sequence("PARTITION BY [name] WITHIN 2 SECONDS", then=":"),
    "by time": write_sequence("WITHIN 1 SECONDS", shown="a[price], b"),
    "by positions": write_sequence("WITHIN 20 EVENTS"),
    "groups": write_sequence(
        "PARTITION BY [name] WITHIN 2 SECONDS GROUP BY [name], EVERY 1 MINUTE",
        shown="COUNT(*) AS n, MAX(b[price]) AS p",
    ),
    "absence": write_sequence("WITHOUT SELL FOR 5 MILLISECONDS WITHIN 1 SECONDS"),
    "the best": write_sequence("WITHIN 1 SECONDS ORDER BY b[price] DESC LIMIT 5 OVERALL"),
    "one task": write_sequence("WITHIN 100 MILLISECONDS CONSUME BY ANY"),
}
READ = "the row groups of"
IN_SOAK = {"in turn", "by time", "groups", "the best", "one task"}
CASES = [pytest.param(n, marks=[pytest.mark.fuzz] if n in IN_SOAK else []) for n in QUERIES]


def make_stock(rows: int = 3000) -> pa.Table:
    table = stock_stream(rows, seed=3)
    at = table.schema.get_field_index("ts")
    return table.set_column(at, "ts", table.column("ts").cast(pa.timestamp("us", "UTC")))


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("row groups")
    for number in range(3):
        part = make_stock().slice(number * 1000, 1000)
        pq.write_table(part, folder / f"{number}.parquet", row_group_size=300)
    return folder


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore:this query runs in a single task")
def test_tasks_that_read_files_give_the_answer_of_the_embedded_engine(
    spark: Any, stock: Path, name: str
) -> None:
    df, query = spark.read.parquet(str(stock)), QUERIES[name]
    found = recognize(df, query, tasks=3)
    assert "FileScan" not in found._jdf.queryExecution().executedPlan().toString()
    assert READ in str(explain(df, query, tasks=3))
    expected = cernis.query(query).run(make_stock()).to_arrow()
    order = [(column, "ascending") for column in ("end", "start", "from_ts", "name", "end_ts")]
    order = [pair for pair in order if pair[0] in expected.column_names]
    assert found.toArrow().sort_by(order).to_pylist() == expected.sort_by(order).to_pylist()
    assert expected.num_rows


def test_spark_reads_the_files_that_tasks_cannot(spark: Any, tmp_path: Path, stock: Path) -> None:
    keyed, table = QUERIES["keyed"], make_stock(300)
    mixed = table.take(pa.array([*range(1, 300, 2), *range(0, 300, 2)]))
    at = table.schema.get_field_index("ts")
    coarse = table.set_column(at, "ts", table["ts"].cast(pa.timestamp("ms")))
    files: dict[str, tuple[pa.Table, dict[str, Any], dict[str, Any], bool]] = {
        "in order": (table, {}, {}, True),
        "in another order inside a group": (mixed, {}, {}, True),
        "times that Spark counts finer": (coarse, {}, {}, True),
        "groups that overlap": (mixed, {"row_group_size": 50}, {}, False),
        "without statistics": (table, {"write_statistics": False}, {}, False),
        "where that is not wanted": (table, {}, {"read_files": False}, False),
        "a column of row numbers": (
            table.append_column("n", pa.array(range(300))), {}, {"row": "n"}, False
        ),
    }  # fmt: skip
    for name, (rows, written, asked, read) in files.items():
        pq.write_table(rows, tmp_path / "one.parquet", **written)
        df = spark.read.parquet(str(tmp_path / "one.parquet"))
        options = asked
        found = {
            (row.start, row.end)
            for row in recognize(df, keyed, **options).select("start", "end").collect()
        }
        explained = str(explain(df, keyed, **options))
        assert (READ in explained) == read, name
        untold = name in ("groups that overlap", "without statistics")
        assert ("files        Spark reads them: their footers tell" in explained) == untold, name
        assert found == {(match.start, match.end) for match in cernis.query(keyed).run(rows)}, name
    df = spark.read.parquet(str(stock))
    for changed in (df.filter("volume > 0"), df.withColumn("price", df.price * 2)):
        assert READ not in str(explain(changed, keyed))
    unbounded = keyed.replace(" WITHIN 2 SECONDS", "")
    assert READ not in str(explain(df, unbounded, tasks=2))
