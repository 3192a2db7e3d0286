"""Inputs as they lie around: pipes, forms of CSV, compressed files, globs, folders, odd types."""

from __future__ import annotations

import bz2
import gzip
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cernis
from cernis.errors import DataError
from cernis.events import order
from cernis.events.reading import pipe
from cernis.events.reading.csv_form import CsvForm, guess_form
from cernis.events.source import Source, open_events

TEXT = "type,price,ts\nSELL,3,1000\nBUY,4,2000\n"
ROWS = [{"type": "SELL", "price": 3, "ts": 1000}, {"type": "BUY", "price": 4, "ts": 2000}]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def only(events: Any, **options: Any) -> Source:
    [source] = open_events(events, **{"names": ["S"], **options})
    return source


def rows_of(source: Source) -> list[dict[str, Any]]:
    return [row for table in source.batches() for row in table.to_pylist()]


def failure(events: Any, **options: Any) -> str:
    with pytest.raises(DataError) as error:
        rows_of(only(events, **options))
    return str(error.value)


def found(query: str, events: Any, **options: Any) -> list[dict[str, list[int]]]:
    return [match.vars for match in cernis.query(query).run(events, **options)]


@contextmanager
def piped(data: bytes) -> Iterator[str]:
    """The name of a pipe through which the data comes."""
    end, start = os.pipe()

    def write() -> None:
        with suppress(BrokenPipeError), os.fdopen(start, "wb") as file:
            file.write(data)

    writer = Thread(target=write)
    writer.start()
    try:
        yield f"/dev/fd/{end}"
    finally:
        os.close(end)
        writer.join()


# -------------------------------------------------------------------- pipes


def compressed_with(codec: str) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(TEXT.encode())
    return sink.getvalue().to_pybytes()


def arrow_stream() -> bytes:
    sink, table = pa.BufferOutputStream(), pa.Table.from_pylist(ROWS)
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize(
    "data",
    [
        TEXT.encode(),
        TEXT.replace(",", ";").encode(),
        b"\xef\xbb\xbf" + TEXT.encode(),
        b'{"type": "SELL", "price": 3, "ts": 1000}\n{"type": "BUY", "price": 4, "ts": 2000}\n',
        arrow_stream(),
        *map(compressed_with, ("gzip", "bz2", "zstd", "lz4")),
    ],
    ids=["csv", "semicolons", "mark", "jsonl", "arrow", "gzip", "bz2", "zstd", "lz4"],
)
def test_a_pipe_tells_its_form_by_its_first_bytes(data: bytes) -> None:
    with piped(data) as name:
        assert rows_of(only(name)) == ROWS


@pytest.mark.parametrize("name", ["events.csv", "events.jsonl"])
def test_text_in_utf_16_is_told_apart(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(TEXT.encode("utf-16"))
    with pytest.raises(DataError, match=f"{name}: the text is UTF-16; convert it to UTF-8"):
        cernis.query("SELECT * FROM S WHERE SELL").run(path).count()


def test_a_pipe_is_read_once() -> None:
    with piped(TEXT.encode()) as name:
        source = only(name)
        assert rows_of(source) == ROWS
        with pytest.raises(DataError, match="the events were read already and cannot be read"):
            rows_of(source)
    assert failure({"A": "-", "B": "/dev/stdin"}, names=["A", "B"]) == (
        "standard input is given twice, and can be read only once"
    )


def test_a_pipe_without_a_byte_has_no_events() -> None:
    with piped(b"") as name:
        matches = cernis.query("SELECT * FROM S WHERE A WITHIN 1 SECOND").run(name)
    assert matches.count() == 0
    assert matches.notes == (f"{name}: nothing came",)


def test_parquet_does_not_go_through_a_pipe() -> None:
    with piped(b"PAR1" + bytes(100)) as name:
        assert failure(name) == (
            f"{name}: a Parquet or Arrow file is read from its end, which a pipe does not allow; "
            "give the file itself, or an Arrow stream"
        )


def test_a_small_pipe_is_sorted_and_a_large_one_must_be_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    late = b"type,ts\nB,2\nA,1\n"
    query = "SELECT * FROM S WHERE A AS a ; B AS b"
    with piped(late) as name:
        assert found(query, name) == [{"a": [1], "b": [0]}]
    monkeypatch.setattr(order.Ordering.__init__, "__kwdefaults__", {"after": None, "load_bytes": 0})
    with piped(b"type,ts\nA,1\nB,2\n") as name:
        assert found(query, name) == [{"a": [0], "b": [1]}]
    with piped(late) as name, pytest.raises(DataError) as error:
        found(query, name)
    assert str(error.value) == (
        f"{name}, row 1, column 'ts': the event is earlier than the one before it, and the input "
        "can be read only once; sort it first, or pass all of it as one table"
    )
    with piped(late) as name, pytest.raises(DataError) as error:
        found("SELECT * FROM S, T WHERE A ; B", {"S": name, "T": ROWS})
    assert str(error.value) == (
        f"{name}: more than 0 bytes through a pipe, before another input; make it the last, or "
        "give a file"
    )


def test_a_pipe_of_garbage_ends_in_an_error_and_not_in_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pipe, "MOST_KEPT", 1 << 20)
    with piped(b"type,ts\n" + b"A,1,2\n" * 400_000) as name:
        assert failure(name, on_error="skip") == (
            f"{name}: none of the first 1,048,576 bytes can be read as events"
        )


def test_a_bomb_is_read_in_pieces() -> None:
    """A compressed file has no size that would tell whether it fits into memory."""
    Path("bomb.csv.gz").write_bytes(gzip.compress(TEXT.encode() + b"SELL,5,3000\n" * 50_000))
    source = only("bomb.csv.gz")
    assert source.reader.nbytes is None
    assert sum(table.num_rows for table in source.batches()) == 50_002


def test_a_bomb_that_would_have_to_be_sorted_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    late = TEXT.encode() + b"SELL,5,3000\n" * 50_000 + b"SELL,5,1\n"
    Path("bomb.csv.gz").write_bytes(gzip.compress(late))
    assert cernis.query("SELECT * FROM S WHERE BUY").run("bomb.csv.gz").count() == 1
    monkeypatch.setenv("CERNIS_SORT_BYTES", "100000")
    with pytest.raises(DataError) as error:
        cernis.query("SELECT * FROM S WHERE BUY").run("bomb.csv.gz")
    assert str(error.value) == (
        "bomb.csv.gz: the events are out of order, and more than 100,000 bytes of them would have "
        "to be sorted in memory; sort the file first (CERNIS_SORT_BYTES allows more)"
    )


# ---------------------------------------------------------------------- CSV


@pytest.mark.parametrize(
    ("text", "delimiter", "quote"),
    [
        (TEXT, ",", '"'),
        (TEXT.replace(",", ";"), ";", '"'),
        (TEXT.replace(",", "\t"), "\t", '"'),
        (TEXT.replace(",", "|"), "|", '"'),
        ("type;price\nSELL;3,5\nBUY;4,0\n", ";", '"'),
        ("type,note\nSELL,a;b;c\nBUY,d|e|f\n", ",", '"'),
        ('type;note\nSELL;"a;b"\n', ";", '"'),
        ("'type','note'\n'SELL','a,b'\n", ",", "'"),
        ("'SELL';3;'a;b'\n", ";", '"'),
        ("'SELL';3;'a'\n'BUY';3;'c;d'\n", ";", "'"),
        ("type,note\nSELL,'a'\nBUY,it's\n", ",", '"'),
        ("type,note\nSELL\nBUY,1,2\n", ",", '"'),
        ("type\nSELL\n", ",", '"'),
        ("", ",", '"'),
    ],
)
def test_the_form_of_csv_is_guessed(text: str, delimiter: str, quote: str) -> None:
    guessed = guess_form(text, CsvForm())
    assert (guessed.delimiter, guessed.quote) == (delimiter, quote)


def test_the_form_of_csv_can_be_said() -> None:
    Path("t.csv").write_text("type~note\nSELL~'a~b'\nBUY~5\"\n")
    rows = [{"type": "SELL", "note": "a~b"}, {"type": "BUY", "note": '5"'}]
    assert rows_of(only("t.csv", delimiter="~", quote="'")) == rows
    Path("t.csv").write_text('type,note\nSELL,"a\nBUY,b"\n')
    rows = [{"type": "SELL", "note": '"a'}, {"type": "BUY", "note": 'b"'}]
    assert rows_of(only("t.csv", quote="none")) == rows
    assert failure("t.csv", delimiter="::") == "delimiter='::': expected one ASCII sign"
    assert failure("t.csv", delimiter="'", quote="'") == 'delimiter="\'": is the quote as well'
    Path("t.jsonl").write_text("{}")
    assert failure("t.jsonl", delimiter=";") == (
        "t.jsonl: columns, delimiter and quote are for CSV, and this is jsonl"
    )


def test_csv_without_a_header_takes_its_columns_from_the_user() -> None:
    names = ["type", "price", "ts"]
    Path("t.csv").write_text(TEXT.partition("\n")[2])
    assert rows_of(only("t.csv", columns=names)) == ROWS
    assert rows_of(only({"S": "t.csv"}, columns={"S": names})) == ROWS
    assert failure("t.csv", columns=["type", "ts"]) == (
        "t.csv, line 1 (row 0): expected 2 values, found 3: 'SELL,3,1000'"
    )
    assert failure("t.csv", columns={"T": names}) == (
        "columns is given for 'T', which is no stream; did you mean 't'?"
    )
    Path("t.csv").write_text(TEXT)
    assert failure("t.csv", columns=names) == (
        "t.csv: the first line names the columns, so leave out their names"
    )


def test_a_bad_row_without_a_header_has_its_line() -> None:
    Path("t.csv").write_text("SELL,1\nBUY,2\nSELL,\n")
    assert failure("t.csv", columns=["type", "ts"]) == (
        "t.csv, line 3 (row 2), column 'ts': the time is missing"
    )


@pytest.mark.parametrize("suffix", ["gz", "bz2"])
def test_compressed_files_are_read(suffix: str) -> None:
    pack = {"gz": gzip.compress, "bz2": bz2.compress}[suffix]
    Path(f"t.csv.{suffix}").write_bytes(pack(TEXT.encode()))
    assert rows_of(only(f"t.csv.{suffix}")) == ROWS


def test_compressed_parquet_is_said_so() -> None:
    Path("t.parquet.gz").write_bytes(gzip.compress(b"PAR1"))
    assert failure("t.parquet.gz") == (
        "t.parquet.gz: a compressed parquet file cannot be read; decompress it first"
    )


# ------------------------------------------------------------- several files


def write_days() -> None:
    Path("days").mkdir()
    Path("days/1.csv").write_text("type,price,ts\nA,1,1000\n")
    Path("days/2.csv").write_text("type,price,ts,note\nA,2.5,2000,x\nB,3,3000,y\n")
    Path("days/_tmp.csv").write_text("nonsense")
    Path("days/.3.csv").write_text("nonsense")


@pytest.mark.parametrize(
    "events",
    ["days", "days/*.csv", "d*/[12].csv", ["days/1.csv", "days/2.csv"]],
    ids=["folder", "glob", "glob of folders", "list"],
)
def test_files_of_one_stream_follow_one_another(events: Any) -> None:
    write_days()
    query = "SELECT * FROM S WHERE A AS a ; B AS b FILTER a[price > 0]"
    assert found(query, events) == [{"a": [1], "b": [2]}, {"a": [0], "b": [2]}]
    assert found(query, {"S": events, "T": ROWS}) == found(query, events)
    assert found(query + " AND b[note = 'y']", events) == found(query, events)


def test_bad_rows_of_several_files_name_the_file_and_its_row() -> None:
    write_days()
    Path("days/2.csv").write_text("type,price,ts\nA,2,2000\nB,x,3000\nB,3,soon\n")
    assert failure("days") == (
        "days/2.csv, line 3 (row 1), column 'price': 'x' is not a whole number"
    )
    bad: list[Any] = []
    matches = cernis.query("SELECT * FROM S WHERE A").run("days", on_error=bad.append)
    assert matches.count() == 2
    assert matches.notes == ("days/2.csv: 2 bad rows skipped",)
    assert [(row["source"], row["row"], row["column"]) for row in bad] == [
        ("days/2.csv", 1, "price"),
        ("days/2.csv", 2, "ts"),
    ]


def test_a_file_without_the_columns_of_the_others_is_named() -> None:
    write_days()
    Path("days/2.csv").write_text("type,price\nA,2\n")
    assert failure("days", time="ts") == (
        "days/2.csv: no column 'ts' for the time; its columns are type, price"
    )


def test_files_that_are_not_named_otherwise_are_those_of_the_one_stream() -> None:
    write_days()
    paths = ["days/1.csv", "days/2.csv"]
    assert found("SELECT * FROM trips WHERE A AS a", paths) == [{"a": [0]}, {"a": [1]}]
    assert [source.name for source in open_events(paths)] == ["1", "2"]


def test_a_folder_of_parquet_folders_has_their_names_as_columns() -> None:
    for day in (1, 2):
        Path(f"t/day={day}").mkdir(parents=True)
        pq.write_table(pa.table({"type": ["A"], "ts": [day]}), f"t/day={day}/x.parquet")
    assert rows_of(only("t")) == [
        {"type": "A", "ts": 1, "day": 1},
        {"type": "A", "ts": 2, "day": 2},
    ]


def test_what_a_folder_must_not_hold_is_said() -> None:
    write_days()
    Path("days/3.jsonl").write_text("{}")
    assert failure("days") == (
        "days: has files of csv and jsonl; keep them in folders of their own, or name them with a "
        "glob, such as 'days/*.csv'"
    )
    Path("days/sub").mkdir()
    assert failure("days") == (
        "days: has folders beside its files; name the files with a glob, such as 'days/**/*.csv'"
    )
    Path("table/metadata").mkdir(parents=True)
    Path("table/metadata/v1.metadata.json").write_text("{}")
    assert failure("table").startswith("table: is a table of Iceberg, and not all files in it are")
    assert failure("no-*.csv") == "no-*.csv: no file has such a name"


def test_a_file_whose_name_looks_like_a_glob_is_that_file() -> None:
    Path("a[1].csv").write_text(TEXT)
    assert rows_of(only("a[1].csv")) == ROWS


def test_a_link_does_not_lead_out_of_what_the_user_named() -> None:
    write_days()
    Path("secret.csv").write_text(TEXT)
    Path("days/4.csv").symlink_to("../secret.csv")
    said = "days/4.csv: is a link that leads out of days; name the file itself to read it"
    assert failure("days") == said
    assert failure("days/*.csv") == said
    assert rows_of(only("days/4.csv")) == ROWS
    Path("days/4.csv").unlink()
    Path("days/4.csv").symlink_to("1.csv")
    assert len(rows_of(only("days"))) == 4


def test_a_link_that_leads_back_to_itself_is_named() -> None:
    Path("a.csv").symlink_to("b.csv")
    Path("b.csv").symlink_to("a.csv")
    assert failure("a.csv") == "a.csv: is a link that leads back to itself"
    Path("c.csv").symlink_to("gone.csv")
    assert failure("c.csv") == "c.csv: is a link to gone.csv, which is no file"


def test_no_output_replaces_a_file_that_a_glob_matches() -> None:
    write_days()
    with pytest.raises(DataError, match=r"^days/2\.csv: the bad rows cannot be written there: it"):
        cernis.query("SELECT * FROM S WHERE A").run("days/*.csv", on_error="days/2.csv")


# ----------------------------------------------------------- times and types

PARKED = [{"type": "PARK", "ts1": 1000}, {"type": "PARK", "ts1": 5000}]
ROADS = [{"type": "JAM", "ts2": 3000}]
JOIN = "SELECT * FROM roads, parking WHERE PARK AS p ; JAM AS j WITHIN 10 SECONDS"


def test_each_stream_may_have_its_own_time_column() -> None:
    events = {"parking": PARKED, "roads": ROADS}
    time = {"parking": "ts1", "roads": "ts2"}
    [match] = cernis.query(JOIN).run(events, time=time)
    assert (match.vars, match.start_ts, match.end_ts) == ({"p": [0], "j": [2]}, 1000, 3000)
    assert match.events("p") == [{"type": "PARK", "ts1": 1000, "ts2": None}]
    [match] = cernis.query(JOIN).run(events, time={"parking": "ts1", "*": "ts2"})
    assert match.end_ts == 3000
    assert failure(events, names=[], time={"park": "ts1"}) == (
        "time is given for 'park', which is no stream; did you mean 'parking'?"
    )


def test_the_times_of_a_stream_are_attributes_under_their_own_names() -> None:
    query = "SELECT j[ts2] - p[ts1] AS gap FROM roads, parking WHERE PARK AS p ; JAM AS j"
    [match] = cernis.query(query).run(
        {"parking": PARKED, "roads": ROADS}, time={"parking": "ts1", "roads": "ts2"}
    )
    assert match.values == {"gap": 2000}


def test_a_frozen_session_keeps_the_columns_of_each_stream() -> None:
    query = cernis.query(JOIN)
    options: dict[str, Any] = {
        "time": {"parking": "ts1", "roads": "ts2"},
        "type": {"parking": "type", "roads": None},
    }
    query = cernis.query(JOIN.replace("JAM", "roads"))
    session = query.session(**options)
    session.push({"parking": PARKED[:1], "roads": []})
    thawed = query.thaw(session.freeze())
    [match] = thawed.push({"parking": PARKED[1:], "roads": ROADS})
    assert match.vars == {"p": [0], "j": [2]}


@pytest.mark.parametrize(
    "zoned", [pa.timestamp("us", "UTC"), pa.timestamp("ms", "Asia/Tokyo")], ids=str
)
def test_times_with_and_without_a_zone_are_merged(zoned: pa.DataType) -> None:
    left = pa.table({"type": ["A"], "ts": pa.array([0], pa.timestamp("s"))})
    right = pa.table({"type": ["B"], "ts": pa.array([1_000_000], pa.timestamp("us")).cast(zoned)})
    query = "SELECT * FROM S, T WHERE A ; B WITHIN 1 SECOND"
    assert cernis.query(query).run({"S": left, "T": right}).count() == 1


KINDS = {
    "integers": pa.table({"type": [3, 4, None]}),
    "small integers": pa.table({"type": pa.array([3, 4, None], pa.uint8())}),
    "decimals": pa.table({"type": pa.array([3, 4, None], pa.decimal128(9, 0))}),
    "bytes": pa.table({"type": pa.array([b"3", b"4", None])}),
    "dictionary": pa.table({"type": pa.array([3, 4, None]).dictionary_encode()}),
    "text": pa.table({"type": pa.array(["3", "4", None]).dictionary_encode()}),
    "pandas": pd.DataFrame({"type": [3, 4, None]}),
    "pandas category": pd.DataFrame({"type": pd.Categorical([3, 4, None])}),
    "pandas text category": pd.DataFrame({"type": pd.Categorical(["3", "4", None])}),
    "polars": pl.DataFrame({"type": [3, 4, None]}),
    "polars enum": pl.DataFrame({"type": ["3", "4", None]}, schema={"type": pl.Enum(["4", "3"])}),
    "polars category": pl.DataFrame({"type": ["3", "4", None]}, schema={"type": pl.Categorical}),
    "dicts": [{"type": 3}, {"type": 4}, {"type": None}],
}


@pytest.mark.parametrize("events", KINDS.values(), ids=KINDS.keys())
def test_numbers_and_enumerations_are_types(events: Any) -> None:
    assert found("SELECT * FROM S WHERE `3` AS x ; `4` AS y", events) == [{"x": [0], "y": [1]}]


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "csv", "jsonl"])
def test_numbers_in_files_are_types(suffix: str) -> None:
    table = KINDS["integers"]
    match suffix:
        case "parquet":
            pq.write_table(table, "t.parquet")
        case "arrow":
            with pa.ipc.new_file("t.arrow", table.schema) as writer:
                writer.write_table(table)
        case "csv":
            Path("t.csv").write_text('type,x\n3,\n4,\n"",\n')
        case _:
            Path("t.jsonl").write_text('{"type": 3}\n{"type": 4}\n{"type": null}\n')
    query = "SELECT * FROM t WHERE `3` AS x ; `4` AS y"
    assert found(query, f"t.{suffix}") == [{"x": [0], "y": [1]}]


def test_booleans_are_types_and_fractions_are_not() -> None:
    truths = pa.table({"on": [True, False]})
    assert found("SELECT * FROM S WHERE `true` AS x ; `false` AS y", truths, type="on") == [
        {"x": [0], "y": [1]}
    ]
    assert failure(pa.table({"type": [1.0, 2.5]})) == (
        "stream 'S', row 1, column 'type': 2.5 is no type: expected text or a whole number"
    )
    bad: list[Any] = []
    half = pa.table({"type": [1.0, 2.5, 3.0], "ts": [1, 2, None]})
    assert [row["type"] for row in rows_of(only(half, on_error=bad.append))] == ["1"]
    assert [(row["row"], row["column"]) for row in bad] == [(1, "type"), (2, "ts")]


def test_a_batch_that_lacks_the_types_of_those_before_it_has_none() -> None:
    batches = [pa.table({"type": [3], "x": [1]}), pa.table({"x": [2]}), pa.table({"type": [4]})]
    query = "SELECT * FROM S WHERE `3` AS a ; * AS b ; `4` AS c"
    assert found(query, iter(batches)) == [{"a": [0], "b": [1], "c": [2]}]


def test_a_stream_without_types_has_its_name_as_the_type() -> None:
    events = {"park": [{"ts": 1}], "jam": [{"ts": 2, "type": "x"}]}
    assert found("SELECT * FROM park, jam WHERE park AS p ; jam AS j", events, type=None) == [
        {"p": [0], "j": [1]}
    ]
    both = "SELECT * FROM park, jam WHERE park AS p ; x AS j"
    assert found(both, events) == [{"p": [0], "j": [1]}]
    assert found(both, events, type={"park": None}) == [{"p": [0], "j": [1]}]
    [match] = cernis.query("SELECT * FROM jam WHERE jam AS j FILTER j[type = 'x']").run(
        events, type=None
    )
    assert match.events("j") == [{"ts": 2, "type": "x"}]
    assert found("SELECT * FROM S WHERE * AS e ; * AS f", pa.table({"x": [1, 2]})) == [
        {"e": [0], "f": [1]}
    ]


def test_a_query_without_from_knows_the_names_of_files() -> None:
    Path("park.csv").write_text("ts\n1\n")
    Path("jam.csv").write_text("ts\n2\n")
    assert found("SELECT * WHERE park AS p ; jam AS j", ["park.csv", "jam.csv"]) == [
        {"p": [0], "j": [1]}
    ]


def test_a_relation_of_duckdb_is_a_stream() -> None:
    rows = "('SELL', 3, 1000::BIGINT), ('BUY', 5, 2000), ('BUY', 2, 90000)"
    relation = duckdb.sql(f"SELECT * FROM (VALUES {rows}) AS t(type, price, ts)")
    query = cernis.query("SELECT * FROM S WHERE (SELL AS s ; BUY AS b) WITHIN 1 MINUTE")
    assert [match.vars for match in query.run(relation)] == [{"s": [0], "b": [1]}]


def test_a_sheet_of_excel_is_a_stream_through_pandas(tmp_path: Path) -> None:
    times = pd.to_datetime(["2024-01-02 10:00:00", "2024-01-02 10:00:30", "2024-01-02 11:00:00"])
    events = pd.DataFrame({"type": ["SELL", "BUY", "BUY"], "price": [3, 5, 2], "ts": times})
    events.to_excel(tmp_path / "trades.xlsx", index=False)
    query = cernis.query("SELECT * FROM S WHERE (SELL AS s ; BUY AS b) WITHIN 1 MINUTE")
    found = query.run(pd.read_excel(tmp_path / "trades.xlsx"))
    assert [match.vars for match in found] == [{"s": [0], "b": [1]}]
