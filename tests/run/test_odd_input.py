"""Empty and odd input: an answer with the right columns, and no error about a column that is there.

The same on Spark: `tests/spark/test_inputs.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cernis
from cernis.cli.main import main

NAMES = ("type", "price", "name", "ts")
WHOLE = [
    {"type": "A", "price": 4, "name": "x", "ts": 1000},
    {"type": "B", "price": 5, "name": "x", "ts": 2000},
]
QUERIES = {
    "filters": "SELECT * FROM S WHERE A AS a ; B AS b FILTER a[price > 3] AND b[name LIKE 'x.*'] "
    "WITHIN 5 MINUTES",
    "compared": "SELECT * FROM S WHERE A AS a ; B AS b FILTER a[price] < b[price] "
    "AND a[name] = b[name] PARTITION BY [name]",
    "values": "SELECT a[price] - 1 AS p, a[name] AS n, END - START AS d FROM S WHERE A AS a",
    "counts": "SELECT COUNT(*) FROM S WHERE A+ AS a PARTITION BY [name] WITHIN 1 HOUR",
    "groups": "SELECT [name], SUM(a[price]) AS s FROM S WHERE A AS a PARTITION BY [name] "
    "GROUP BY [name], EVERY 1 HOUR",
    "longest": "SELECT LONGEST a FROM S WHERE A+[5 MINUTES] AS a PARTITION BY [name]",
    "absence": "SELECT * FROM S WHERE A AS a WITHOUT (B FILTER B[price > 3]) FOR 1 HOUR",
    "best": "SELECT a[price] AS p FROM S WHERE A AS a ORDER BY a[price] LIMIT 2",
}
EMPTY = {
    "no dicts": [],
    "no rows, pandas": pd.DataFrame(columns=list(NAMES)),
    "no rows, fractions": pd.DataFrame({name: pd.Series([], dtype=float) for name in NAMES}),
    "no rows, polars": pl.DataFrame({name: [] for name in NAMES}),
    "no rows, arrow": pa.Table.from_pylist(WHOLE).slice(0, 0),
    "no columns, pandas": pd.DataFrame(),
    "no columns, polars": pl.DataFrame(),
    "no columns, arrow": pa.table({}),
    "no values": pa.table({name: pa.nulls(2) for name in NAMES}),
    "no values, dicts": [dict.fromkeys(NAMES)] * 2,
    "no types": pa.table({"type": pa.nulls(2), "price": [1, 2], "name": ["x", "y"], "ts": [1, 2]}),
    "no times": pd.DataFrame({**pd.DataFrame(WHOLE), "ts": pd.to_datetime([None, None])}),
}


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_nothing_has_an_answer_with_the_columns_of_something(query: str) -> None:
    compiled: cernis.Query[Any] = cernis.query(query)
    expected = compiled.run(WHOLE).to_arrow().schema.names
    for events in EMPTY.values():
        found = compiled.run(events, on_error="skip").to_arrow()
        assert found.schema.names == expected
        assert found.num_rows == 0


def test_rows_without_any_value_are_no_events() -> None:
    blank: dict[str, Any] = dict.fromkeys(NAMES)
    found = cernis.query("SELECT * FROM S WHERE A AS a").run([*WHOLE, blank, blank])
    assert found.count() == 1
    assert found.notes == ("stream 'S': 2 rows were left out, without a value in any column",)
    with pytest.raises(cernis.DataError, match="the time is missing"):
        cernis.query("SELECT * FROM S WHERE A AS a").run([{**blank, "type": "A"}])


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_columns_without_values_are_compared_with_anything(query: str) -> None:
    """What pandas makes of an empty column of a CSV file are fractions."""
    blank = {"price": pa.nulls(2), "name": pa.nulls(2)}
    kept = {"type": ["A", "B"], "ts": [1000, 2000]}
    of_pandas = pd.DataFrame({**kept, "price": [float("nan")] * 2, "name": [float("nan")] * 2})
    compiled: cernis.Query[Any] = cernis.query(query)
    found = compiled.run(pa.table({**kept, **blank})).to_arrow()
    assert compiled.run(of_pandas).to_arrow().equals(found)


def test_a_frame_with_only_the_type_is_enough_for_a_query_of_types() -> None:
    types = pd.DataFrame({"type": ["A", "B"]})
    query = cernis.query("SELECT * FROM S WHERE A AS a ; B AS b WITHIN 3 EVENTS")
    assert query.run(types).count() == 1
    assert query.run(types).to_arrow().schema.names == [
        "start", "end", "start_ts", "end_ts", "a", "b",
    ]  # fmt: skip


def test_an_empty_stream_beside_another_one_changes_nothing() -> None:
    query = cernis.query("SELECT * FROM S, T WHERE A AS a ; B AS b FILTER a[price > 3]")
    for nothing in ([], pd.DataFrame(), pd.DataFrame(columns=list(NAMES))):
        assert query.run({"S": WHOLE, "T": nothing}).count() == 1
        assert query.run({"T": nothing, "S": WHOLE}).count() == 1


def test_a_session_may_begin_with_nothing() -> None:
    session = cernis.query("SELECT * FROM S WHERE A AS a ; B AS b WITHIN 5 SECONDS").session()
    assert session.push([]).count() == 0
    assert session.push(WHOLE[:1]).count() == 0
    assert session.push(pa.table({})).count() == 0
    assert session.push(WHOLE[1:]).count() == 1


@pytest.mark.parametrize(
    "text", ["", "\n", "type,price,name,ts\n"], ids=["empty", "blank", "header"]
)
def test_the_command_writes_the_columns_of_nothing(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text(text)
    assert main(["run", QUERIES["filters"], "-e", "t.csv", "-o", "matches.parquet"]) == 0
    assert pq.read_schema("matches.parquet").names == [
        "start",
        "end",
        "start_ts",
        "end_ts",
        "a",
        "b",
    ]
    why = "the file is empty" if not text else "has no events"
    assert capfd.readouterr().err == f"wrote 0 matches to matches.parquet\nnote: t.csv: {why}\n"
