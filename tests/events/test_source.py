from __future__ import annotations

import datetime as dt
import gzip
import json
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cernis
from cernis.errors import DataError
from cernis.events.reading import text
from cernis.events.reading.mistakes import Mistakes
from cernis.events.source import Source, open_events, schema_of
from cernis.schema import Kind, Schema, Stream

ROWS = [
    {"type": "SELL", "ts": 1000, "name": "MSFT", "price": 101.5},
    {"type": "BUY", "ts": 2000, "name": None, "price": None},
    {"type": "SELL", "ts": 2000, "name": "AMZN", "price": 99.0},
]
TABLE = pa.Table.from_pylist(ROWS)


def only(events: Any, **options: Any) -> Source:
    [source] = open_events(events, **options)
    return source


def rows_of(source: Source) -> list[dict[str, Any]]:
    return [row for table in source.batches() for row in table.to_pylist()]


def numbers_of(source: Source) -> list[int]:
    return [int(row) for chunk in source.chunks() for row in chunk.rows]


def ticks_of(source: Source) -> list[int]:
    return [int(t) for chunk in source.chunks() if chunk.time is not None for t in chunk.time]


def failure(events: Any, **options: Any) -> str:
    with pytest.raises(DataError) as error:
        [rows_of(source) for source in open_events(events, **options)]
    return str(error.value)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(name: str, content: str | bytes) -> str:
    data = content.encode() if isinstance(content, str) else content
    Path(name).write_bytes(data)
    return name


# ------------------------------------------------------------- what goes in


class Exporter:
    """Something of which only the Arrow stream interface is known."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return TABLE.__arrow_c_stream__(requested_schema)


class Streamed:
    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return iter(TABLE.to_batches(max_chunksize=2))


@pytest.mark.parametrize(
    "events",
    [
        ROWS,
        TABLE,
        TABLE.to_batches()[0],
        TABLE.to_batches(max_chunksize=2),
        pa.RecordBatchReader.from_batches(TABLE.schema, TABLE.to_batches(max_chunksize=2)),
        iter(ROWS),
        Streamed(),
        Exporter(),
        pl.DataFrame(ROWS),
        pl.DataFrame(ROWS).lazy(),
    ],
    ids=lambda events: type(events).__name__,
)
def test_anything_in_memory_is_read(events: Any) -> None:
    source = only(events)
    assert source.name == "S"
    assert rows_of(source) == ROWS


def test_a_pandas_frame_is_read_without_its_index_and_nan_is_null() -> None:
    frame = pd.DataFrame(ROWS, index=[7, 8, 9])
    assert rows_of(only(frame)) == ROWS


def test_categories_stay_dictionaries() -> None:
    for frame in (
        pd.DataFrame({"type": pd.Categorical(["A", "B"])}),
        pl.DataFrame({"type": pl.Series(["A", "B"], dtype=pl.Categorical)}),
    ):
        source = only(frame)
        assert pa.types.is_dictionary(source.schema.field("type").type)
        assert rows_of(source) == [{"type": "A"}, {"type": "B"}]


def test_layouts_that_few_functions_know_become_plain() -> None:
    table = pa.table(
        {
            "type": pa.array(["A", "B", "B"]).cast(pa.string_view()),
            "half": pa.array(np.array([1.5, 2, 3], np.float16)),
            "runs": pa.RunEndEncodedArray.from_arrays([1, 3], pa.array(["x", "y"])),
        }
    )
    source = only(table)
    assert [str(t) for t in source.schema.types] == ["large_string", "float", "string"]
    assert [row["runs"] for row in rows_of(source)] == ["x", "y", "y"]


def test_every_name_in_a_list_of_dicts_becomes_a_column() -> None:
    events = [{"type": "A"}, {"type": "B", "x": 1}, {"type": "C", "x": 2.5, "y": {"z": 3}}]
    assert rows_of(only(events)) == [
        {"type": "A", "x": None, "y": None},
        {"type": "B", "x": 1.0, "y": None},
        {"type": "C", "x": 2.5, "y": {"z": 3}},
    ]


def test_no_events_at_all_are_fine() -> None:
    inputs: list[Any] = [[], iter([]), TABLE.slice(0, 0)]
    for events in inputs:
        assert rows_of(only(events)) == []


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.csv.gz", "t.jsonl", "t.ndjson", "t.json.gz"])
def test_text_files_are_read_and_named_by_their_stem(folder: Path, name: str) -> None:
    if "json" in name:
        content = "".join(json.dumps(row) + "\n" for row in ROWS)
    else:
        cut = "\t" if "tsv" in name else ","
        lines = [["type", "ts", "name", "price"], *([str(v) for v in r.values()] for r in ROWS)]
        content = "".join(cut.join(line).replace("None", "") + "\n" for line in lines)
    data = content.encode()
    written(name, gzip.compress(data) if name.endswith("gz") else data)
    source = only(name)
    assert source.name == "t"
    assert source.reopens
    assert rows_of(source) == ROWS
    assert rows_of(source) == ROWS


def test_parquet_files_keep_their_dictionaries(folder: Path) -> None:
    pq.write_table(TABLE, "t.parquet", row_group_size=2)
    source = only(Path("t.parquet"))
    assert rows_of(source) == ROWS
    assert pa.types.is_dictionary(source.schema.field("name").type)
    assert source.reader.count == 3


@pytest.mark.parametrize("stream", [True, False])
def test_arrow_files_and_streams_are_read(folder: Path, stream: bool) -> None:
    new = pa.ipc.new_stream if stream else pa.ipc.new_file
    with pa.OSFile("t.arrow", "wb") as sink, new(sink, TABLE.schema) as writer:
        writer.write_table(TABLE, max_chunksize=2)
    source = only("t.arrow")
    assert rows_of(source) == ROWS
    assert rows_of(source) == ROWS


def test_a_format_can_be_named(folder: Path) -> None:
    written("data.txt", "type,x\nA,1\n")
    assert rows_of(only("data.txt", format="csv")) == [{"type": "A", "x": 1}]


# -------------------------------------------------------------------- names


def test_one_input_takes_the_name_that_the_query_uses(folder: Path) -> None:
    written("trades.csv", "type\nA\n")
    assert only("trades.csv", names=["Stock"]).name == "Stock"
    assert only(TABLE, names=["Stock"]).name == "Stock"
    assert only({"T": TABLE}, names=["Stock"]).name == "Stock"


def test_several_inputs_are_streams_in_the_order_given(folder: Path) -> None:
    written("b.csv", "type\nA\n")
    written("a.csv", "type\nB\n")
    assert [s.name for s in open_events(["b.csv", "a.csv"])] == ["b", "a"]
    assert [s.name for s in open_events({"y": TABLE, "x": "a.csv"})] == ["y", "x"]
    assert [s.name for s in open_events({"y": TABLE, "x": "a.csv"}, names=["x"])] == ["x"]


def test_a_stream_that_is_not_there_is_named(folder: Path) -> None:
    assert failure({"Trades": TABLE, "News": TABLE}, names=["Trade", "News"]) == (
        "the query reads from 'Trade', but the events are those of 'Trades', 'News'; "
        "did you mean 'Trades'?"
    )
    written("a.csv", "type\nA\n")
    Path("sub").mkdir()
    written("sub/a.jsonl", '{"type": "A"}\n')
    assert failure(["a.csv", "sub/a.jsonl"]) == (
        "two files give a stream named 'a': a.csv and sub/a.jsonl; name them apart"
    )


# -------------------------------------------------------------------- times


@pytest.mark.parametrize(
    ("times", "tick", "ticks"),
    [
        (pa.array([5, 7]), 1_000_000, [5, 7]),
        (pa.array([5, 7], pa.uint8()), 1_000_000, [5, 7]),
        (pa.array([5, 7], pa.timestamp("us")), 1_000, [5, 7]),
        (pa.array([5, 7], pa.timestamp("s", "Europe/Rome")), 10**9, [5, 7]),
        (pa.array([5, 7], pa.date32()), 86_400 * 10**9, [5, 7]),
        (pa.array([5, 7], pa.date32()).cast(pa.date64()), 10**6, [5 * 86_400_000, 7 * 86_400_000]),
        (pa.array([0.5, 2.0]), 1, [500_000, 2_000_000]),
        (pa.array([Decimal("0.5"), Decimal("2.0")]), 1, [500_000, 2_000_000]),
        (pa.array([36000], pa.time32("s")), 10**9, [36000]),
        (pa.array(["1970-01-01T00:00:01", "1970-01-01"]), 1, [10**9, 0]),
        (pa.array(["1970-01-01T00:00:01Z", "1970-01-01 01:00+01:00"]), 1, [10**9, 0]),
        (pa.array(["1970-01-01T00:00:01Z", "1970-01-01"]), 1, [10**9, 0]),
        (pa.array(["1970-01-02", "1970-01-02"]).dictionary_encode(), 1, [86_400 * 10**9] * 2),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_times_become_whole_ticks(times: pa.Array, tick: int, ticks: list[int]) -> None:
    source = only(pa.table({"type": ["A"] * len(times), "ts": times}))
    assert source.tick == tick
    assert ticks_of(source) == ticks


def test_the_unit_of_numbers_can_be_said() -> None:
    assert only(TABLE, time_unit="s").tick == 10**9
    assert failure(TABLE, time_unit="h") == "unknown time unit 'h'; expected one of s, ms, us, ns"


def test_without_a_time_column_there_are_no_times() -> None:
    source = only([{"type": "A"}])
    assert source.tick is None
    assert [chunk.time for chunk in source.chunks()] == [None]


def test_a_missing_column_is_named_with_a_suggestion() -> None:
    assert failure(TABLE, time="tsx") == (
        "stream 'S': no column 'tsx' for the time; did you mean 'ts'?"
    )
    assert failure(TABLE, type="kind") == (
        "stream 'S': no column 'kind' for the event type; its columns are type, ts, name, price"
    )


def test_a_column_of_the_wrong_kind_is_an_error() -> None:
    days = pa.table({"type": pa.array([1], pa.date32())})
    assert failure(days) == (
        "stream 'S': the type column 'type' holds date32[day], not text or whole numbers"
    )
    truths = [{"type": "A", "ts": True}]
    assert failure(truths) == "stream 'S': the column 'ts' holds bool, not times"


@pytest.mark.parametrize(
    ("times", "reason"),
    [
        ([1, None], "the time is missing"),
        ([1.0, float("inf")], "'inf' is not a usable time"),
        (["1970-01-01", "soon"], "'soon' is not a usable time"),
    ],
)
def test_a_row_without_a_usable_time_is_named(times: list[Any], reason: str) -> None:
    rows = [{"type": "A", "ts": time} for time in times]
    assert failure(rows) == f"stream 'S', row 1, column 'ts': {reason}"
    source = only(rows, on_error="skip")
    assert numbers_of(source) == [0]
    assert source.skipped == 1


def test_the_name_of_a_stream_without_types_is_the_type_of_its_events() -> None:
    source = only([{"x": 1}, {"x": 2}], names=["T"])
    assert rows_of(source) == [{"x": 1, "type": "T"}, {"x": 2, "type": "T"}]
    assert rows_of(only(ROWS, names=["T"])) == ROWS
    assert "no column 'kind'" in failure([{"x": 1}], names=["T"], type="kind")


# ----------------------------------------------------------- bad text files


BROKEN = "type,ts,x\nA,1,5\n\nB,2\nC,3,7\nD,4,8,9\n"


def test_a_broken_csv_row_is_named_with_its_line(folder: Path) -> None:
    written("t.csv", BROKEN)
    assert failure("t.csv") == "t.csv, line 4 (row 1): expected 3 values, found 2: 'B,2'"


def test_broken_rows_can_be_skipped_and_counted(folder: Path) -> None:
    written("t.csv", BROKEN)
    source = only("t.csv", on_error="skip")
    assert [row["type"] for row in rows_of(source)] == ["A", "C"]
    assert source.skipped == 2
    assert numbers_of(source) == [0, 2]
    assert source.skipped == 2
    assert source.reader.count == 4


def test_broken_rows_can_be_set_aside(folder: Path) -> None:
    written("t.csv", BROKEN)
    source = only("t.csv", on_error="bad.jsonl")
    rows_of(source)
    source.mistakes.complete()
    bad = [json.loads(line) for line in Path("bad.jsonl").read_text().splitlines()]
    assert bad == [
        {
            "source": "t.csv",
            "row": 1,
            "column": None,
            "reason": "expected 3 values, found 2: 'B,2'",
            "text": "B,2",
        },
        {
            "source": "t.csv",
            "row": 3,
            "column": None,
            "reason": "expected 3 values, found 4: 'D,4,8,9'",
            "text": "D,4,8,9",
        },
    ]
    seen: list[dict[str, Any]] = []
    rows_of(only("t.csv", on_error=seen.append))
    assert seen == bad


def test_one_side_output_can_serve_several_calls(folder: Path) -> None:
    written("t.csv", BROKEN)
    mistakes = Mistakes("bad.jsonl")
    for _ in range(2):
        rows_of(only("t.csv", on_error=mistakes))
    mistakes.complete()
    assert len(Path("bad.jsonl").read_text().splitlines()) == 4


def test_bad_rows_must_have_somewhere_to_go(folder: Path) -> None:
    written("t.csv", BROKEN)
    assert failure("t.csv", on_error="no/such/bad.jsonl") == (
        "no/such/bad.jsonl: cannot be written: No such file or directory"
    )


DECLARED = Schema((Stream("t", {"x": Kind.INT, "y": Kind.FLOAT, "z": Kind.BOOL}),))


@pytest.mark.parametrize(
    ("line", "column", "reason"),
    [
        ("A,five,1.5,true", "x", "'five' is not a whole number"),
        ("A,5.5,1.5,true", "x", "'5.5' is not a whole number"),
        ("A,5,much,true", "y", "'much' is not a number"),
        ("A,5,1.5,maybe", "z", "'maybe' is not true or false"),
    ],
)
def test_a_cell_that_is_not_what_was_declared_is_named(
    folder: Path, line: str, column: str, reason: str
) -> None:
    written("t.csv", f"type,x,y,z\nA,1,2,false\n{line}\n")
    assert failure("t.csv", declared=DECLARED) == (
        f"t.csv, line 3 (row 1), column {column!r}: {reason}"
    )
    source = only("t.csv", declared=DECLARED, on_error="skip")
    assert numbers_of(source) == [0]
    assert source.skipped == 1


def test_declared_types_hold_for_text(folder: Path) -> None:
    declared = Schema((Stream("t", {"x": Kind.STRING, "y": Kind.FLOAT}),))
    written("t.csv", "type,x,y\nA,007,1\n")
    written("t.jsonl", '{"type": "A", "x": "007", "y": 1}\n')
    for path in ("t.csv", "t.jsonl"):
        assert rows_of(only(path, declared=declared)) == [{"type": "A", "x": "007", "y": 1.0}]


def test_text_that_is_not_utf8_is_named(folder: Path) -> None:
    written("t.csv", b"type,x\nA,good\nA,b\xffd\n")
    assert failure("t.csv") == "t.csv, line 3 (row 1), column 'x': the text is not UTF-8"
    assert rows_of(only("t.csv", on_error="skip")) == [{"type": "A", "x": "good"}]


def test_an_empty_cell_is_null_and_a_quoted_one_is_empty_text(folder: Path) -> None:
    written("t.csv", 'type,x,y\nA,,1\nB,"",\nC,"a ""b"", c",NULL\nD,"two\nlines",4\n')
    assert rows_of(only("t.csv")) == [
        {"type": "A", "x": None, "y": 1},
        {"type": "B", "x": "", "y": None},
        {"type": "C", "x": 'a "b", c', "y": None},
        {"type": "D", "x": "two\nlines", "y": 4},
    ]


def test_byte_order_marks_and_line_ends_do_not_matter(folder: Path) -> None:
    written("t.csv", b"\xef\xbb\xbftype,x\r\nA,1\r\nB,2")
    written("t.jsonl", b'\xef\xbb\xbf{"type": "A", "x": 1}\r\n\r\n{"type": "B", "x": 2}')
    for path in ("t.csv", "t.jsonl"):
        assert rows_of(only(path)) == [{"type": "A", "x": 1}, {"type": "B", "x": 2}]


def test_a_header_alone_is_a_stream_without_events(folder: Path) -> None:
    written("t.csv", "type,ts,x\n")
    source = only("t.csv")
    assert rows_of(source) == []
    assert source.schema.names == ["type", "ts", "x"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"type": "B", "ts": 2,}', "not valid JSON: "),
        ("[1, 2]", "expected a JSON object, found [1, 2]"),
        ("nonsense", "not valid JSON: Expecting value at character 1"),
        ('{"type": "B"', "not valid JSON: Expecting ',' delimiter at character 13"),
    ],
)
def test_a_line_that_is_no_json_object_is_named(folder: Path, line: str, reason: str) -> None:
    written("t.jsonl", f'{{"type": "A", "ts": 1}}\n\n{line}\n{{"type": "C", "ts": 3}}\n')
    assert failure("t.jsonl").startswith(f"t.jsonl, line 3 (row 1): {reason}")
    source = only("t.jsonl", on_error="skip")
    assert numbers_of(source) == [0, 2]
    assert source.skipped == 1


def test_a_json_value_of_another_kind_is_named(folder: Path) -> None:
    written("t.jsonl", '{"type": "A", "x": 1}\n{"type": "B", "x": 2.5}\n{"type": "C", "x": "no"}\n')
    assert failure("t.jsonl") == ("t.jsonl, line 3 (row 2), column 'x': 'no' is not a number")
    assert [row["x"] for row in rows_of(only("t.jsonl", on_error="skip"))] == [1.0, 2.5]


def test_empty_objects_are_events_without_attributes(folder: Path) -> None:
    written("t.jsonl", '{"type": "A"}\n{}\n{}\nbad\n')
    found = rows_of(only("t.jsonl", on_error="skip"))
    assert found == [{"type": "A"}, {"type": None}, {"type": None}]
    written("t.jsonl", "{}\n{}\n")
    assert rows_of(only("t.jsonl")) == [{"type": "t"}, {"type": "t"}]
    assert failure("t.jsonl", type="kind") == (
        "t.jsonl: no column 'kind' for the event type; its columns are none"
    )


@pytest.mark.usefixtures("small_blocks")
def test_a_bad_block_without_the_usual_names_still_has_its_rows(folder: Path) -> None:
    lines = ['{"type": "A", "ts": 1}'] * 4 + ["{}", "bad", '{"ts": 2}'] + ['{"type": "B"}'] * 3
    written("t.jsonl", "\n".join(lines))
    source = only("t.jsonl", on_error="skip")
    assert numbers_of(source) == [0, 1, 2, 3, 6]
    assert source.skipped == 5


def test_json_text_that_is_not_utf8_is_named(folder: Path) -> None:
    written("t.jsonl", b'{"type": "A"}\n{"type": "b\xffd"}\n')
    assert failure("t.jsonl") == "t.jsonl, line 2 (row 1): the text is not UTF-8"
    written("t.jsonl", '{"type": "ü"}\n{"type": "\\ud800"}\n')
    assert failure("t.jsonl") == ("t.jsonl, line 2 (row 1), column 'type': '\\ud800' is not text")


@pytest.mark.parametrize("nested", ['{"a":' * 100_000, "[" * 100_000, '[1, {"b": [' * 30_000])
def test_hostile_nesting_ends_in_a_message(folder: Path, nested: str) -> None:
    deep = nested + "1" + "".join({"{": "}", "[": "]"}.get(c, "") for c in reversed(nested))
    written("t.jsonl", f'{{"type": "A"}}\n{{"type": "A", "x": {deep}}}\n{{"type": "B"}}\n')
    assert failure("t.jsonl").startswith("t.jsonl, line 2 (row 1): ")
    assert numbers_of(only("t.jsonl", on_error="skip")) == [0, 2]


def test_ordinary_nesting_and_brackets_in_text_are_fine(folder: Path) -> None:
    record = {"type": "A", "x": [[[1], [2]], []], "s": "[{" * 300}
    written("t.jsonl", (json.dumps(record) + "\n") * 3)
    assert rows_of(only("t.jsonl")) == [record] * 3
    written("t.jsonl", '{"type": "A", "x": ' + "[" * 101 + "]" * 101 + "}\n")
    assert failure("t.jsonl") == "t.jsonl, line 1 (row 0): nested more than 100 deep"


def test_cells_of_any_size_are_read(folder: Path) -> None:
    long = "x" * 300_000
    written("t.csv", f"type,s\nA,{long}\nB\n")
    assert failure("t.csv") == "t.csv, row 1: expected 2 values, found 1: 'B'"
    assert [row["s"] for row in rows_of(only("t.csv", on_error="skip"))] == [long]


def test_types_in_a_csv_file_are_text_whatever_they_look_like(folder: Path) -> None:
    written("t.csv", "type,x\n1,true\n2024-01-01,false\n")
    assert [row["type"] for row in rows_of(only("t.csv"))] == ["1", "2024-01-01"]


def test_a_json_array_is_not_json_lines(folder: Path) -> None:
    written("t.json", '[{"type": "A"}]')
    assert failure("t.json") == "t.json: expected one JSON object a line, found a JSON array"


def test_a_value_in_a_list_that_does_not_fit_is_named() -> None:
    events = [{"type": "A", "x": 1}, {"type": "A", "x": "one"}, {"type": "A", "x": 3}]
    assert failure(events) == "stream 'S', row 1, column 'x': 'one' is not a whole number"
    source = only(events, on_error="skip")
    assert numbers_of(source) == [0, 2]
    assert failure([{"type": "A"}, 5]) == "stream 'S', row 1: expected a dict, found int"
    frame = pd.DataFrame({"type": ["A", "B"], "x": [1, "one"]}, dtype=object)
    assert failure(frame) == "stream 'S', row 1, column 'x': 'one' is not a whole number"


# ------------------------------------------------- blocks and later surprises


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "BLOCK_BYTES", 64)


def column_types(source: Source, name: str) -> list[str]:
    return [str(table.schema.field(name).type) for table in source.batches()]


@pytest.mark.usefixtures("small_blocks")
def test_a_file_in_many_blocks_is_the_same_as_in_one(folder: Path) -> None:
    rows = [{"type": "A", "x": i, "s": f'a "quoted"\nline, {i}' * (i % 3)} for i in range(50)]
    frame = pd.DataFrame(rows)
    frame.to_csv("t.csv", index=False)
    frame.to_json("t.jsonl", orient="records", lines=True)
    for path in ("t.csv", "t.jsonl"):
        source = only(path)
        assert len(list(source.batches())) > 5
        found = [{**row, "s": row["s"] or ""} for row in rows_of(source)]
        assert found == rows
        assert numbers_of(source) == list(range(50))


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("path", ["t.csv", "t.jsonl"])
def test_integers_give_way_to_fractions_in_a_later_block(folder: Path, path: str) -> None:
    values = [*range(20), 20.5, *range(21, 40)]
    if path == "t.csv":
        written(path, "type,x\n" + "".join(f"A,{v}\n" for v in values))
    else:
        written(path, "".join(f'{{"type": "A", "x": {v}}}\n' for v in values))
    source = only(path)
    assert set(column_types(source, "x")) == {"int64", "double"}
    assert [row["x"] for row in rows_of(source)] == values
    assert set(column_types(source, "x")) == {"double"}


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("path", ["t.csv", "t.jsonl"])
def test_text_in_a_later_block_of_numbers_is_named(folder: Path, path: str) -> None:
    values = [*range(30), "oops", *range(5)]
    if path == "t.csv":
        written(path, "type,x\n" + "".join(f"A,{v}\n" for v in values))
        where = "t.csv, line 32 (row 30), column 'x': 'oops' is not a whole number"
    else:
        written(path, "".join(json.dumps({"type": "A", "x": v}) + "\n" for v in values))
        where = "t.jsonl, line 31 (row 30), column 'x': 'oops' is not a whole number"
    assert failure(path) == where
    source = only(path, on_error="skip")
    assert [row["x"] for row in rows_of(source)] == [*range(30), *range(5)]
    assert numbers_of(source)[-5:] == [31, 32, 33, 34, 35]


@pytest.mark.usefixtures("small_blocks")
def test_finer_times_in_a_later_block_are_kept(folder: Path) -> None:
    times = ["2024-01-01 00:00:00"] * 10 + ["2024-01-01 00:00:00.25", "2024-01-01 00:00:01"]
    written("t.csv", "type,ts\n" + "".join(f"A,{t}\n" for t in times))
    written("t.jsonl", "".join(json.dumps({"type": "A", "ts": t}) + "\n" for t in times))
    for path in ("t.csv", "t.jsonl"):
        ticks = ticks_of(only(path))
        assert [t - ticks[0] for t in ticks[-3:]] == [0, 250_000_000, 1_000_000_000]


@pytest.mark.usefixtures("small_blocks")
def test_columns_that_start_late_are_found(folder: Path) -> None:
    written("t.csv", "type,x\n" + "A,\n" * 30 + "B,5\n" * 30)
    lines = ['{"type": "A"}'] * 10 + ['{"type": "B", "x": 5}'] * 10
    written("t.jsonl", "\n".join(lines))
    for path in ("t.csv", "t.jsonl"):
        found = rows_of(only(path))
        assert [row.get("x") for row in found if row["type"] == "B"] == [5] * (len(found) // 2)


@pytest.mark.usefixtures("small_blocks")
def test_a_record_longer_than_a_block_is_read_whole(folder: Path) -> None:
    long = "x" * 500
    written("t.csv", f'type,s\nA,"{long}\n{long}"\nB,b\n')
    assert [row["s"] for row in rows_of(only("t.csv"))] == [f"{long}\n{long}", "b"]


@pytest.mark.usefixtures("small_blocks")
def test_stray_quotes_do_not_lose_rows(folder: Path) -> None:
    written("t.csv", "type,s\n" + "".join(f'A,5" pipe {i}\n' for i in range(40)))
    assert len(rows_of(only("t.csv"))) == 40
    written("t.csv", 'type,s\nA,5" pipe\n' + "A,hose\n" * 1000)
    assert len(rows_of(only("t.csv"))) == 1001


# --------------------------------------------------------- values of Python


def values_of(*values: Any, **options: Any) -> list[Any]:
    rows = [{"type": "A", "x": value} for value in values]
    (source,) = open_events(rows, **options)
    return [row["x"] for row in rows_of(source)]


INTEGERS = Schema((Stream("S", {"x": Kind.INT}),))


@pytest.mark.parametrize("value", [0.5, Decimal("0.5"), np.float32(0.5), True, np.bool_(True)])
def test_a_column_of_whole_numbers_holds_nothing_else(folder: Path, value: Any) -> None:
    rows = [{"type": "A", "x": value}]
    shown = value.item() if isinstance(value, np.generic) else value
    reason = f"column 'x': '{shown}' is not a whole number"
    assert failure(rows, declared=INTEGERS) == f"stream 'S', row 0, {reason}"
    if not isinstance(value, Decimal | np.generic):
        written("S.jsonl", json.dumps(rows[0]) + "\n")
        assert failure("S.jsonl", declared=INTEGERS) == f"S.jsonl, line 1 (row 0), {reason}"


def test_whole_values_of_other_types_are_whole_numbers() -> None:
    assert values_of(1.0, Decimal(2), np.int8(3), declared=INTEGERS) == [1, 2, 3]


def test_a_fraction_beside_a_large_number_stays_one() -> None:
    assert values_of(2**53 + 1, 0.5) == [2.0**53, 0.5]


def test_true_is_no_number_and_a_number_is_no_time() -> None:
    for values, reason in (
        ([0.5, True], "'True' is not a number"),
        ([dt.datetime(2024, 1, 1), 5], "'5' is not a time"),
    ):
        rows = [{"type": "A", "x": value} for value in values]
        assert failure(rows) == f"stream 'S', row 1, column 'x': {reason}"


def test_times_beside_texts_are_times() -> None:
    one, two = dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 2)
    assert values_of(one, "2024-01-02") == [one, two]


def test_values_of_numpy_and_pandas_are_read() -> None:
    assert values_of(np.int64(5), np.float32(0.5)) == [5.0, 0.5]
    assert values_of(np.datetime64("2024-01-01")) == [dt.datetime(2024, 1, 1)]
    assert values_of(np.datetime64("NaT"), pd.NaT, pd.NA, pd.Timestamp("2024-01-01")) == [
        *[None] * 3,
        dt.datetime(2024, 1, 1),
    ]


def test_decimals_that_are_no_numbers_are_refused() -> None:
    rows = [{"type": "A", "x": Decimal("1.5")}, {"type": "A", "x": Decimal("NaN")}]
    assert failure(rows) == "stream 'S', row 1, column 'x': 'NaN' is not a number"


def test_frames_that_arrow_cannot_read_are_refused() -> None:
    sparse = pd.DataFrame({"type": ["A"], "x": pd.arrays.SparseArray([1])})
    assert failure(sparse).startswith("stream 'S': cannot be read: Sparse pandas data")
    objects = pl.DataFrame({"type": ["A"], "x": pl.Series([object()], dtype=pl.Object)})
    message = "stream 'S', column 'x': holds Python objects, which are no values"
    assert failure(objects) == message


# ---------------------------------------------------------- files as a whole


def test_a_file_that_is_not_there_is_said_so(folder: Path) -> None:
    written("trades.csv", "type\nA\n")
    assert failure("trade.csv") == "trade.csv: no such file; did you mean 'trades.csv'?"
    assert failure("no/such.csv") == "no/such.csv: no such file"
    Path("loop.csv").symlink_to("loop.csv")
    assert failure("loop.csv") == "loop.csv: is a link that leads back to itself"
    Path("gone.csv").symlink_to("trade.csv")
    assert failure("gone.csv") == "gone.csv: is a link to trade.csv, which is no file"


def test_an_empty_path_is_not_the_present_folder(folder: Path) -> None:
    written("trades.csv", "type\nA\n")
    message = "the path of the events is empty; '.' is the folder where you are"
    for events in ("", [""], {"S": ""}, {"S": [""]}):
        assert failure(events) == message


def test_bytes_are_no_events(folder: Path) -> None:
    for events in (b"", b"type\nA\n"):
        assert failure(events).startswith("cannot read events from 'builtins.bytes'; expected a ")


def test_the_threads_of_arrow_hold_no_memory_of_python() -> None:
    block = b"type\nA\n"
    before = sys.getrefcount(block)
    file = text.open_block(block)
    assert sys.getrefcount(block) == before
    assert file.read() == block


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow"])
def test_an_empty_file_that_cannot_be_empty_is_an_error(folder: Path, name: str) -> None:
    written(name, b"")
    format_ = name.partition(".")[2]
    assert failure(name) == f"{name}: the file is empty, which no {format_} file is"


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl"])
def test_an_empty_file_has_no_events_and_a_note(folder: Path, name: str) -> None:
    written(name, b"")
    assert rows_of(only(name)) == []
    assert [*only(name).notes] == [f"{name}: the file is empty"]
    written(name, "\n\n")
    source = only(name)
    assert rows_of(source) == []
    assert [*source.notes] == [f"{name}: has no events"]


def test_an_unknown_suffix_asks_for_a_format(folder: Path) -> None:
    written("t.xyz", "type\nA\n")
    assert failure("t.xyz") == (
        "t.xyz: cannot tell the format from the suffix '.xyz'; "
        "name one of arrow, csv, jsonl, parquet, tsv"
    )
    assert failure("t.xyz", format="cvs") == (
        "unknown format 'cvs'; expected one of arrow, csv, jsonl, parquet, tsv; did you mean 'csv'?"
    )


@pytest.mark.parametrize(("name", "kind"), [("t.parquet", "Parquet"), ("t.arrow", "Arrow")])
def test_a_file_that_is_something_else_is_said_so(folder: Path, name: str, kind: str) -> None:
    written(name, b"certainly not")
    assert failure(name).startswith(f"{name}: not a readable {kind} file: ")


def test_a_damaged_parquet_file_is_said_so(folder: Path) -> None:
    pq.write_table(pa.table({"type": [f"t{i}" for i in range(5000)]}), "t.parquet")
    data = bytearray(Path("t.parquet").read_bytes())
    data[4:2000] = bytes(1996)
    written("t.parquet", bytes(data))
    assert failure("t.parquet").startswith("t.parquet: the rows from 0 on cannot be read: ")


def test_a_damaged_gzip_file_is_said_so(folder: Path) -> None:
    written("t.csv.gz", b"type,x\nA,1\n")
    assert failure("t.csv.gz").startswith("t.csv.gz: cannot be read: ")


def test_a_column_name_that_occurs_twice_is_an_error(folder: Path) -> None:
    written("t.csv", "type,x,x\nA,1,2\n")
    assert failure("t.csv") == "t.csv: the column name 'x' occurs twice"
    table = pa.table([["A"], [1], [2]], names=["type", "x", "x"])
    assert failure(table) == "stream 'S': the column name 'x' occurs twice"
    frame = pd.DataFrame([["A", 1, 2]], columns=["type", "x", "x"])
    assert failure(frame) == "stream 'S': the column name 'x' occurs twice"


def test_what_cannot_be_events_is_said_so() -> None:
    assert failure(42) == (
        "cannot read events from 'builtins.int'; expected a frame, an Arrow table, "
        "a list of dicts, a path, or a dict of names to these"
    )
    assert failure([42]) == "stream 'S', row 0: expected a dict, found int"
    assert failure(iter([42])) == "stream 'S': expected Arrow batches or dicts, found int"
    assert failure({}) == "no events: the dict of streams is empty"
    assert failure({"type": "A", "ts": 3}) == (
        "a dict maps the names of streams to their events, and this looks like one event; "
        "put it into a list: [{…}]"
    )


def test_a_reader_can_be_read_only_once() -> None:
    source = only(pa.RecordBatchReader.from_batches(TABLE.schema, TABLE.to_batches()))
    assert not source.reopens
    assert rows_of(source) == ROWS
    with pytest.raises(DataError) as error:
        rows_of(source)
    assert str(error.value) == ("stream 'S': the events were read already and cannot be read again")


# ------------------------------------------------------------------- schema


def test_the_schema_tells_kinds_with_nested_names() -> None:
    table = pa.table(
        {
            "type": pa.array(["A"]).dictionary_encode(),
            "i": pa.array([1], pa.uint8()),
            "f": [1.5],
            "d": [Decimal("1.5")],
            "b": [True],
            "t": [dt.datetime(2024, 1, 1)],
            "day": [dt.date(2024, 1, 1)],
            "l": [[1]],
            "user": [{"id": 7, "name": "x"}],
        }
    )
    assert schema_of(open_events({"S": table})) == Schema(
        (
            Stream(
                "S",
                {
                    "type": Kind.STRING,
                    "i": Kind.INT,
                    "f": Kind.FLOAT,
                    "d": Kind.FLOAT,
                    "b": Kind.BOOL,
                    "t": Kind.TIMESTAMP,
                    "day": Kind.TIMESTAMP,
                    "l": Kind.OTHER,
                    "user": Kind.OTHER,
                    "user.id": Kind.INT,
                    "user.name": Kind.STRING,
                },
                decimals=frozenset({"d"}),
            ),
        )
    )


# ------------------------------------------------------------ damaged Arrow


def with_offset(number: int, values: list[str]) -> pa.Array:
    """Text whose second offset is another number."""
    _, ends, data = pa.array(values).buffers()
    offsets = np.frombuffer(ends, np.int32).copy()
    offsets[1] = number
    return pa.StringArray.from_buffers(len(values), pa.py_buffer(offsets.tobytes()), data)


DAMAGED = {
    "offset": (
        with_offset(1 << 30, ["A", "B", "A"]),
        "Offset invariant failure: offset for slot 1",
    ),
    "negative": (with_offset(-7, ["A", "B", "A"]), "Offset invariant failure"),
    "index": (
        pa.DictionaryArray.from_arrays(pa.array([0, 9, 0]), pa.array(["A"]), safe=False),
        "Dictionary indices invalid",
    ),
    "text": (
        pa.StringArray.from_buffers(
            3, pa.py_buffer(np.array([0, 1, 2, 3], np.int32).tobytes()), pa.py_buffer(b"A\xffA")
        ),
        "Invalid UTF8 sequence at string index 1",
    ),
}


def as_file(table: pa.Table, folder: Path) -> Path:
    with pa.ipc.new_file(folder / "S.arrow", table.schema) as writer:
        writer.write_table(table)
    return folder / "S.arrow"


def as_stream(table: pa.Table, folder: Path) -> Path:
    with pa.ipc.new_stream(folder / "S.arrow", table.schema) as writer:
        writer.write_table(table)
    return folder / "S.arrow"


class Foreign:
    """An object of another library, with Arrow's stream interface."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested: object = None) -> object:
        return self.table.__arrow_c_stream__(requested)


@pytest.mark.parametrize("damage", DAMAGED)
@pytest.mark.parametrize(
    "hand_over",
    [
        as_file,
        as_stream,
        lambda table, _: table,
        lambda table, _: table.to_batches()[0],
        lambda table, _: [table, table],
        lambda table, _: iter(table.to_batches()),
        lambda table, _: table.to_reader(),
        lambda table, _: Foreign(table),
    ],
    ids=["file", "stream", "table", "batch", "tables", "batches", "reader", "interface"],
)
def test_damaged_arrow_data_is_an_error_and_ends_no_process(
    damage: str, hand_over: Any, tmp_path: Path
) -> None:
    column, reason = DAMAGED[damage]
    table = pa.table({"type": ["A", "B", "A"], "k": column})
    events = hand_over(table, tmp_path)
    with pytest.raises(DataError, match=f"column 'k': the Arrow data is damaged: .*{reason}"):
        pa.concat_tables(open_events(events, names=["S"])[0].batches())


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["é", None, ""]),
        pa.array(["a", None, "b"], pa.large_string()),
        pa.array(["x", "a", "b", "c"])[1:],
        pa.array(["a", None, "a"]).dictionary_encode(),
        pa.array(["a", "é", "a"]).dictionary_encode(),
    ],
    ids=["not ASCII", "large", "slice", "dictionary with NULL", "dictionary not in ASCII"],
)
def test_sound_arrow_data_is_read(column: pa.Array) -> None:
    table = pa.table({"type": ["A", "B", "A"], "k": column})
    [source] = open_events(table)
    assert pa.concat_tables(source.batches())["k"].to_pylist() == column.to_pylist()


def test_a_csv_row_that_is_broken_and_not_utf_8_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "S.csv"
    path.write_bytes(b"type,k\nA,x\nB,\xff\nA,y,\xfe\nB,\xef\xbf\xbd\n")
    bad: list[dict[str, Any]] = []
    [source] = open_events(path, on_error=bad.append)
    assert pa.concat_tables(source.batches())["k"].to_pylist() == ["x", "\ufffd"]
    assert [(row["row"], row["reason"]) for row in bad] == [
        (1, "the text is not UTF-8"),
        (2, "expected 2 values, found 3: 'A,y,\ufffd'"),
    ]


def test_a_column_whose_name_is_not_utf_8_is_an_error(tmp_path: Path) -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema({"type": pa.string(), "names": pa.int64()})) as writer:
        writer.write_table(pa.table({"type": ["A"], "names": [1]}))
    (tmp_path / "S.arrow").write_bytes(sink.getvalue().to_pybytes().replace(b"names", b"n\xffmes"))
    with pytest.raises(DataError, match=r"S\.arrow: the name of a column is not UTF-8"):
        open_events(tmp_path / "S.arrow")


@pytest.mark.parametrize("name", [1, None, (1, 2), b"x", "\ud800"])
def test_names_of_attributes_are_text(name: Any) -> None:
    with pytest.raises(DataError, match=r"stream 'S': the column name .* is not text"):
        open_events([{"type": "A", name: 2}])


@pytest.mark.parametrize("unit", ["us", "ns"])
def test_a_time_zone_that_is_unknown_is_said(unit: str) -> None:
    times = pa.array([1000, 2000], pa.timestamp(unit, "Mars/Olympus"))
    found = cernis.query("SELECT * FROM S WHERE A AS a ; A AS b").run(
        pa.table({"type": ["A", "A"], "ts": times})
    )
    assert found.count() == 1
    with pytest.raises(DataError, match="the zone 'Mars/Olympus', which is unknown here"):
        found.head()
