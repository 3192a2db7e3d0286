"""`cernis stream`: folders in, folders and standard output out, stops and restarts.

A micro-batch costs Spark about a second, so most of these run the command once or twice.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from rich.console import Console

import cernis
from cernis.cli.main import main
from cernis.cli.streams.live import Tally, View, WatermarkClock, latest_matches, render, summarize
from cernis.spark.streaming import sinks
from cernis.spark.streaming.sinks import describe_failure
from cernis.spark.streaming.sources import ARRIVED
from cernis.work.progress import Progress

Capture = pytest.CaptureFixture[str]

PAIRS = "SELECT * FROM S WHERE A AS a ; B AS b PARTITION BY [k] WITHIN 5 SECONDS"
NOON = 1_704_189_600 * 10**6  # 2024-01-02 10:00


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("CERNIS_DEBUG", raising=False)
    (tmp_path / "in").mkdir()
    yield
    handlers = {signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)}
    assert not any("caught" in str(handler) for handler in handlers)


def events(*some: tuple[str, float | None, int]) -> pa.Table:
    """Events of a type, so many seconds after ten, with a key and a name of their own."""
    moments = [None if s is None else NOON + round(s * 10**6) for _, s, _ in some]
    return pa.table(
        {
            "type": [type_ for type_, _, _ in some],
            "ts": pa.array(moments, pa.int64()).cast(pa.timestamp("us")),
            "k": pa.array([k for _, _, k in some], pa.int64()),
            "note": [f"{type_}{s}" for type_, s, _ in some],
        }
    )


SPARK = ("--engine", "spark")


def put(path: str, table: pa.Table) -> None:
    """A file of events, put in place whole, and later than those before it."""
    target = Path(path)
    target.parent.mkdir(exist_ok=True)
    writing = target.parent / f".{target.name}"
    match target.suffix:
        case ".csv":
            pa.csv.write_csv(table, writing)
        case ".parquet":
            pq.write_table(table, writing)
        case _:
            lines = (json.dumps(event, default=str) for event in table.to_pylist())
            writing.write_text("".join(f"{line}\n" for line in lines))
    place(writing, target)


def place(writing: Path, target: Path) -> None:
    later = 10**9 + len(os.listdir(target.parent))
    os.utime(writing, (later, later))
    writing.rename(target)


def stream(query: str, *options: str, checkpoint: str = "cp", sink: str = "out") -> int:
    return main(["stream", query, *SPARK, "--checkpoint", checkpoint, "--sink", sink, *options])


def pairs(table: pa.Table) -> list[tuple[str, str]]:
    found = table.select(["a", "b"]).to_pylist()
    return sorted((row["a"][0]["note"], row["b"][0]["note"]) for row in found)


def written(spark: Any, folder: str = "out") -> pa.Table:
    """What a reader that knows of Spark's notes sees."""
    return spark.read.parquet(str(Path(folder).absolute())).toArrow()


def lines(folder: str = "out") -> list[Any]:
    files = sorted(Path(folder).glob("part-*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


END = events(("C", 3600, 9))
"""Lets all events before it be read."""


# ------------------------------------------------------------------- streams


def test_a_folder_of_csv_becomes_parquet_and_a_restart_goes_on(spark: Any, capfd: Capture) -> None:
    put("in/1.csv", events(("A", 0, 1), ("A", 0.5, 2), ("B", 2, 1), ("B", 1, 1)))
    options = ("--source", "in", "--lateness", "1s", "--once", "--buckets", "3")
    assert stream(PAIRS, *options) == 0
    out, err = capfd.readouterr()
    assert out == ""
    assert err == (
        "note: S: the columns of in/1.csv: type string, ts timestamp_ntz, k bigint, note string\n"
        "note: 2 events wait for the watermark: a run reads them once an event is later by "
        "--lateness (1s)\n"
        "4 rows in 2 micro-batches; 0 matches\n"
    )
    put("in/2.csv", events(("B", 4, 1), ("B", 6, 2), ("B", 5.1, 1)))
    put("in/3.csv.writing", END)
    put("in/4.csv", END)
    assert stream(PAIRS, *options, "--max-files", "1", "--metrics", "numbers.prom") == 0
    numbers = dict(line.rsplit(" ", 1) for line in Path("numbers.prom").read_text().splitlines())
    assert numbers["cernis_rows_total"] == "4"
    assert numbers["cernis_matches_total"] == "3"
    assert int(numbers["cernis_keys"]) >= 2
    assert int(numbers["cernis_vertices"]) > 0
    assert int(numbers["cernis_stored_events"]) > 0
    assert int(numbers["cernis_stored_bytes"]) > int(numbers["cernis_stored_events"])
    assert float(numbers['cernis_stage_seconds_total{stage="engine"}']) > 0
    found = written(spark)
    whole = pa.concat_tables([pa.csv.read_csv(f"in/{i}.csv") for i in (1, 2, 4)])
    expected = cernis.query(PAIRS).run(whole).to_arrow()
    assert pairs(found) == pairs(expected) == [("A0", "B1"), ("A0", "B2"), ("A0", "B4")]
    assert [*found.to_pylist()[0]["a"][0]] == ["type", "ts", "k", "note"]
    assert "4 rows in 3 micro-batches; 3 matches\n" in capfd.readouterr().err
    assert stream(PAIRS, *options) == 0
    assert written(spark).num_rows == 3
    assert capfd.readouterr().err.endswith("\n0 rows in 0 micro-batches; 0 matches\n")
    assert [*latest_matches(Path("out"), 0)] == []


def test_json_lines_have_the_text_of_standard_output(spark: Any, capfd: Capture) -> None:
    odd = " #\"a\\,'é\n\t\x01 "
    noted = events(("A", 0, 1), ("B", 2, 1))
    noted = noted.set_column(3, "note", pa.array([odd, odd]))
    put("in/1.jsonl", noted)
    put("in/2.jsonl", END)
    query = f"SELECT a[note] AS note, b {PAIRS.removeprefix('SELECT *')}"
    options = ["--source", "in", "--once", "--max-files", "1", "--output-format", "jsonl"]
    options += ["--schema", "type string, ts timestamp, k bigint, note string"]
    assert stream(query, *options) == 0
    capfd.readouterr()
    assert stream(query, *options, checkpoint="other", sink="-") == 0
    (file,) = (path for path in Path("out").glob("part-*") if path.stat().st_size)
    assert file.suffix == ".jsonl"
    assert file.read_text() == capfd.readouterr().out
    assert json.loads(file.read_text())["values"] == {"note": odd}


def test_a_signed_stream_goes_on_with_its_secret_only(
    spark: Any, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY", "0123456789abcdef")
    Path("key").write_text("0123456789abcdef\n")
    Path("other").write_text("fedcba9876543210\n")
    options = ["--source", "in", "--once", "--max-files", "1"]
    put("in/1.csv", events(("A", 0, 1)))
    assert stream(PAIRS, *options, "--secret", "env:KEY") == 0
    put("in/2.csv", events(("B", 2, 1)))
    put("in/3.csv", END)
    capfd.readouterr()
    checkpoint = Path("cp").absolute()
    for secret, message in (
        ([], "is signed: give the secret that it was signed with"),
        (["--secret", "other"], "was signed with another secret, or was changed since"),
    ):
        assert stream(PAIRS, *options, *secret) == 1
        assert f"error: {checkpoint}: the checkpoint {message}\n" in capfd.readouterr().err
    assert stream(PAIRS, *options, "--secret", "key") == 0
    assert pairs(written(spark)) == [("A0", "B2")]


def test_a_query_whose_processes_are_late_starts_again(
    spark: Any, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Late:
        def awaitTermination(self, seconds: float) -> bool:
            raise StreamingQueryException("Python worker failed to connect back.")

    starts = [lambda *_, **__: Late(), sinks.start]
    monkeypatch.setattr(sinks, "start", lambda *given, **named: starts.pop(0)(*given, **named))
    put("in/1.csv", events(("A", 0, 1), ("B", 2, 1)))
    put("in/2.csv", END)
    assert stream(PAIRS, "--source", "in", "--once", "--max-files", "1") == 0
    assert pairs(written(spark)) == [("A0", "B2")]
    note = "this machine was too busy to start one; the stream starts again from its checkpoint\n"
    assert note in capfd.readouterr().err


def test_json_lines_that_cannot_be_used_are_set_aside(spark: Any, capfd: Capture) -> None:
    put("in/1.jsonl", events(("A", 0, 1), ("B", 10, 1), ("B", 10**10, 1)))
    put("in/2.jsonl", events(("B", 1, 1), ("A", 10.5, 1), ("A", None, 1)))
    with Path("in/2.jsonl").open("a") as file:
        file.write('{"type": "B", "k": "one"}\nno JSON\nnor this\n')
    os.utime("in/2.jsonl", (2 * 10**9, 2 * 10**9))
    put("in/3.jsonl", events(("B", 11, 1)))
    put("in/4.jsonl", END)
    for i in (3, 4):
        os.utime(f"in/{i}.jsonl", (2 * 10**9 + i, 2 * 10**9 + i))
    options = ["--source", "in", "--lateness", "1 second", "--late-output", "aside"]
    options += ["--on-error", "skip", "--once", "--max-files", "1", "--output-format", "jsonl"]
    options += ["--schema", "type string, ts timestamp, k bigint, note string"]
    assert stream(PAIRS, *options) == 0
    assert [line["end_ts"] for line in lines()] == ["2024-01-02T10:00:11.000000Z"]
    told = [json.loads(line) for path in Path("aside").glob("*.jsonl") for line in path.open()]
    about = sorted((line["reason"], line["event"].get("note")) for line in told)
    assert about == sorted(
        [
            ("ahead", "B10000000000"),
            ("late", "B1"),
            ("no time", "ANone"),
            *[("undecodable", None)] * 3,
        ],
        key=str,
    )
    assert capfd.readouterr().err == (
        "warning: 6 of 11 rows were skipped: 1 without a time, 3 undecodable, 1 ahead of the "
        "clock, 1 late\n"
        '  help: --on-error fail (on_error="fail") says what is wrong with the first one\n'
        "11 rows in 5 micro-batches; 1 match; 1 late; 1 ahead; 3 undecodable; 1 without a time\n"
    )


def test_warnings_about_events_are_errors_where_they_are_asked_to_be(
    spark: Any, capfd: Capture
) -> None:
    kinds = ["SELL", "BUY", "SELL"]
    seconds = [1_700_000_000, 1_700_000_060, 1_700_000_120]
    put("in/1.parquet", pa.table({"type": kinds, "ts": seconds, "price": [1, 2, 3]}))
    query = "SELECT * FROM S WHERE SEL AS s ; BUY AS b FILTER b[price > 9] WITHIN 5 MINUTES"
    metrics = ("--metrics", "numbers.prom")
    assert stream(query, "--source", "in", "--once", "--strict", *metrics) == 1
    text = capfd.readouterr().err
    assert text[text.index("error: ") :] == (
        "error: the times lie in January 1970, if 'ts' counts milliseconds\n"
        "  help: in seconds they begin on 2023-11-14: write --time-unit s, in Python "
        'time_unit="s"\n'
        "error: line 1, column 23: no event has the type 'SEL' so far\n"
        f"  {query}\n"
        "                        ^^^\n"
        "  help: did you mean 'SELL'?\n"
        "error: line 1, column 50: nothing can match so far: no event satisfies b[price > 9]\n"
        f"  {query}\n"
        "                                                   ^^^^^^^^^^^^\n"
    )
    numbers = Path("numbers.prom").read_text()
    for code in ("absent-type", "odd-times", "unmet-condition"):
        assert f'cernis_warnings_total{{code="{code}"}} 1\n' in numbers


def test_streams_of_two_forms_go_to_standard_output(spark: Any, capfd: Capture) -> None:
    query = "SELECT * FROM X, Y WHERE X>A AS a ; Y>B AS b WITHIN 5 SECONDS"
    for name, form, own in (("x", "parquet", "A"), ("why", "csv", "B")):
        some = [(own, 2 * i + (own == "B"), i) for i in range(3)]
        put(f"{name}/1.{form}", events(*some[::-1], ("C", 60, 1)))
    assert stream(query, "--source", "X=x", "--source", "Y=why", "--once", sink="-") == 0
    out, err = capfd.readouterr()
    files = {"X": "x/1.parquet", "Y": "why/1.csv"}
    expected = cernis.query(query).run(files).to_arrow()
    found = [json.loads(line) for line in out.splitlines()]
    ends = [line["end_ts"] for line in found]
    assert ends == [f"{moment.isoformat()}.000000" for moment in expected["end_ts"].to_pylist()]
    assert len(ends) == 6
    assert "8 rows in 2 micro-batches; 6 matches\n" in err


def test_answers_are_lines_as_well(spark: Any, capfd: Capture) -> None:
    Path("in/1.csv").write_text(
        "type,user,item,ts\nV,ann,pen,1\nC,ann,pen,3\nV,bob,cup,4\nE,,,90\n"
    )
    query = "seen(u) <- V(u, i), C(u, i)"
    assert stream(query, "--lang", "cq", "--source", "in", "--once", sink="-") == 0
    [line] = capfd.readouterr().out.splitlines()
    assert json.loads(line)["values"] == {"u": "ann"}


def test_a_signal_lets_the_micro_batch_end_and_a_restart_goes_on(
    spark: Any, capfd: Capture
) -> None:
    source, sink, checkpoint = "in %20ä", "out put", "c p#1"
    put(f"{source}/1.parquet", events(("A", 0, 1), ("B", 1, 1), ("B", 7, 1)))
    options = ("--source", source, "--output-format", "jsonl")
    stopping = when(lambda: bool(lines(sink)), lambda: os.kill(os.getpid(), signal.SIGTERM))
    assert stream(PAIRS, *options, "--trigger", "100ms", checkpoint=checkpoint, sink=sink) == 0
    stopping.join()
    assert "3 rows in 2 micro-batches; 1 match" in capfd.readouterr().err
    started = {path.name for path in Path(checkpoint, "offsets").glob("[0-9]*")}
    assert {path.name for path in Path(checkpoint, "commits").glob("[0-9]*")} == started
    assert len([*latest_matches(Path(sink), 1)]) == 1
    put(f"{source}/2.parquet", events(("A", 8, 1), ("B", 9, 1), ("C", 3600, 1)))
    assert stream(PAIRS, *options, "--once", checkpoint=checkpoint, sink=sink) == 0
    assert len({line["end_ts"] for line in lines(sink)}) == len(lines(sink)) == 2


def when(condition: Callable[[], bool], act: Callable[[], None]) -> threading.Thread:
    """Does something, once, as soon as something holds."""

    def look() -> None:
        until = monotonic() + 300
        while not condition() and monotonic() < until:
            sleep(0.05)
        act()

    thread = threading.Thread(target=look)
    thread.start()
    return thread


def test_explaining_touches_nothing(spark: Any, capfd: Capture) -> None:
    put("in/1.csv", events(("A", 0, 1)))
    before = sorted(Path().rglob("*"))
    assert stream(PAIRS, "--source", "in", "--explain", "--lateness", "5 min") == 0
    out = capfd.readouterr().out
    assert "on Spark     streaming: by a hash of k, 4 buckets\n" in out
    assert "travelling   4 of 4 columns: type, ts, k, note\n" in out
    assert out.endswith(
        "source       S: in, csv: type string, ts timestamp_ntz, k bigint, note string\n"
        "time         lateness 5 min; ahead of the clock by at most 1h\n"
        "sink         out, parquet, exactly once\n"
        "checkpoint   cp, new\n"
    )
    assert sorted(Path().rglob("*")) == before
    assert main(["stream", PAIRS, *SPARK, "--source", "in", "--explain"]) == 0


# -------------------------------------------------------------------- errors


def test_what_cannot_be_read_ends_the_run(spark: Any, capfd: Capture) -> None:
    put("in/1.csv", events(("A", 0, 1)))
    put("in/2.csv", END)
    with Path("in/2.csv").open("a") as file:
        file.write("A,2024-01-02 10:00:00,1,a comma, and more\n")
    assert stream(PAIRS, "--source", "in", "--once", sink="-") == 1
    error = capfd.readouterr().err.splitlines()[-1]  # notes, and what the JVM says, come before
    assert error == (
        "error: stream 'S': an event cannot be read (undecodable); to count such events and go "
        "on: on_error='skip', or --on-error skip"
    )
    Path("in/2.csv").write_text("type,k,ts,note\nA,1,2024-01-02 10:00:00,x\n")
    options = ("--source", "in", "--once", "--on-error", "skip")
    assert stream(PAIRS, *options, sink="-") == 1
    error = capfd.readouterr().err.splitlines()[-1]  # notes, and what the JVM says, come before
    assert error.startswith("error: ")
    assert error.endswith(
        "in/2.csv: has the columns type, k, ts, note, and the stream has type, ts, k, note; text "
        "is read by place, so they must be the same"
    )
    put("typed/1.parquet", events(("A", 0, 1)))
    put("typed/2.parquet", events(("B", 1, 1)).set_column(2, "k", pa.array(["1"])))
    assert stream(PAIRS, "--source", "typed", "--once", checkpoint="cp2", sink="-") == 1
    assert capfd.readouterr().err.endswith(
        "typed/2.parquet: the column k is stored as BINARY, and the stream has bigint\n"
    )
    before = sorted(Path().rglob("*"))
    other = PAIRS.replace("5 SECONDS", "6 SECONDS")
    assert stream(other, "--source", "in", "--once", "--on-error", "skip") == 1
    assert (
        "cp: the checkpoint belongs to another run; nothing was touched" in capfd.readouterr().err
    )
    assert stream(PAIRS, "--source", "in", "--schema", "type strin, ts timestamp", sink="x") == 1
    assert "error: --schema type strin, ts timestamp: " in capfd.readouterr().err
    assert sorted(Path().rglob("*")) == before


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation without Spark."""
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)


DECLARED = "CREATE STREAM S { EVENT A { ts:timestamp, k:int }, EVENT B { ts:timestamp, k:int } } "


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize(
    ("query", "options", "message"),
    [
        (
            PAIRS.replace("[k]", "[kk]"),
            ["--source", "in"],
            (
                "line 1, column 53: unknown attribute 'kk' in PARTITION BY: the group covers "
                "nothing\n"
                "  SELECT * FROM S WHERE A AS a ; B AS b PARTITION BY [kk] WITHIN 5 SECONDS\n"
                "                                                      ^^\n"
                "  help: did you mean 'k'?"
            ),
        ),
        (PAIRS, ["--source", "inn"], "inn: no such folder; did you mean 'in'?"),
        (
            PAIRS,
            ["--source", "in/1.csv"],
            (
                "in/1.csv: is a file; a stream is a folder that files are put into, and cernis run "
                "reads a file"
            ),
        ),
        (
            PAIRS,
            ["--source", "empty"],
            (
                "empty: no file in it tells their form by its suffix; name one with --format "
                "(csv, tsv, jsonl, parquet)"
            ),
        ),
        (
            PAIRS,
            ["--source", "empty", "--format", "csv"],
            (
                "empty: the folder has no csv files yet that would tell the columns; give them "
                "with --schema"
            ),
        ),
        (
            PAIRS,
            ["--source", "empty", "--format", "json"],
            "empty: nothing tells the columns yet; give them with --schema",
        ),
        (
            PAIRS,
            ["--source", "in", "--format", "protobuf"],
            "in: the files of a folder are csv, tsv, jsonl, parquet, not protobuf",
        ),
        (
            PAIRS,
            ["--source", "mixed"],
            "mixed: has files of csv and jsonl; keep them in folders of their own",
        ),
        (
            PAIRS,
            ["--source", "in", "--time", "when"],
            "in/1.csv: no column 'when' for the time; its columns are type, ts, k, note",
        ),
        (
            PAIRS,
            ["--source", "bare"],
            (
                "bare/1.csv: a stream is read in order of time, and has no column 'ts'; name the "
                "one with the times with --time"
            ),
        ),
        (
            PAIRS,
            ["--source", "odd"],
            (
                "odd/1.parquet: the column 'at' holds time64[us], which Spark cannot read from "
                "Parquet; give the columns that it can with --schema"
            ),
        ),
        (
            PAIRS,
            ["--source", "odd", "--time", "note"],
            (
                "odd/1.parquet: the time column 'note' holds text, which Spark does not take for "
                "times"
            ),
        ),
        (
            PAIRS,
            ["--source", "in", "--source", "in"],
            "two sources for the stream 'in': in and in; name them apart with NAME=URI",
        ),
        (
            PAIRS,
            ["--source", "X=in", "--source", "Y=in"],
            "the query reads from 'S', but the events are those of 'X', 'Y'",
        ),
        (
            PAIRS,
            ["--source", "in", "--schema", "T=type string"],
            "--schema T=…: no such stream",
        ),
        (
            PAIRS,
            ["--source", "in", "--schema", "no.ddl"],
            "--schema no.ddl: no such file (columns as text contain spaces)",
        ),
        (
            PAIRS,
            ["--source", "in", "--lateness", "soon"],
            "--lateness soon: expected a time like '30s', '5 min' or '1 hour'",
        ),
        (
            PAIRS,
            ["--source", "in", "--sink", "in/out"],
            "--sink in/out lies in --source in: keep them apart",
        ),
        (
            PAIRS,
            ["--source", "in", "--checkpoint", "out/cp"],
            "--checkpoint out/cp lies in --sink out: keep them apart",
        ),
        (
            PAIRS,
            ["--source", "in", "--late-output", "in"],
            "--source in and --late-output in are one folder",
        ),
        (
            PAIRS,
            ["--source", "in", "--sink", "old"],
            (
                "--sink old: has the matches of another run, not those of --checkpoint cp; go on "
                "with the checkpoint of that run, or name a new folder"
            ),
        ),
        (
            PAIRS,
            ["--source", "in", "--sink", "-", "--output-format", "parquet"],
            "standard output: gets lines of JSON; Parquet goes to a folder",
        ),
        (
            PAIRS,
            ["--source", "kafka://a:1/t"],
            "kafka://a:1/t: nothing tells the columns yet; give them with --schema",
        ),
        (
            PAIRS,
            ["--source", "kafka://a:1/t", "--format", "parquet"],
            "kafka://a:1/t: the records of a topic are json, csv, protobuf, not parquet",
        ),
        (
            PAIRS,
            ["--source", "kafka://a:1/t", "--format", "protobuf"],
            (
                "kafka://a:1/t: Protocol Buffers need a descriptor file and a message: "
                "kafka://a:1/t?descriptor=FILE&message=NAME"
            ),
        ),
        (
            PAIRS,
            ["--source", "in", "--secret", "env:NO_SUCH"],
            "--secret env:NO_SUCH: the environment has no variable 'NO_SUCH'",
        ),
        (
            PAIRS,
            ["--source", "in", "--secret", "no.key"],
            "--secret no.key: cannot be read: No such file or directory",
        ),
        (
            PAIRS,
            ["--source", "in", "--secret", "empty/README"],
            "--secret empty/README: a secret has at least 16 bytes, and this one has 0",
        ),
        (PAIRS, ["--source", "in"], "Spark is not installed"),
        (PAIRS, ["--source", "ns=in"], "Spark is not installed"),
        (DECLARED + PAIRS, ["--source", "empty", "--format", "jsonl"], "Spark is not installed"),
        (DECLARED + PAIRS, ["--source", "kafka://a:1/t"], "Spark is not installed"),
    ],
)
def test_mistakes_are_told_before_spark_starts(
    query: str, options: list[str], message: str, capfd: Capture
) -> None:
    put("in/1.csv", events(("A", 0, 1)))
    put("mixed/1.csv", END)
    put("mixed/1.jsonl", END)
    put("bare/1.csv", END.drop_columns(["ts"]))
    put("odd/1.parquet", END.append_column("at", pa.array([1], pa.time64("us"))))
    Path("empty").mkdir()
    Path("empty/README").write_text("")
    Path("old/_spark_metadata").mkdir(parents=True)
    Path("old/_spark_metadata/9.compact").write_text("v1\n")
    before = sorted(Path().rglob("*"))
    assert stream(query, *options) == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith(f"error: {message}")
    assert err.endswith("\n" if "not installed" in message else f"{message}\n")
    assert sorted(Path().rglob("*")) == before


def test_metrics_do_not_replace_a_file_of_the_source(capfd: Capture) -> None:
    put("in/1.csv", events(("A", 0, 1)))
    before = Path("in/1.csv").read_bytes()
    assert stream(PAIRS, "--source", "in", "--metrics", "in/1.csv") == 1
    place = Path("in").absolute()
    assert capfd.readouterr().err == (
        f"error: in/1.csv: the metrics cannot be written there: it lies in --source {place}\n"
    )
    assert Path("in/1.csv").read_bytes() == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--sink", "out"], "is needed to run a stream"),
        (["--checkpoint", "cp"], "is needed to run a stream"),
        (
            ["--checkpoint", "cp", "--sink", "out", "--once", "--trigger", "1s"],
            "does not go with --once",
        ),
        (["--buckets", "0"], "Invalid value for '--buckets'"),
    ],
)
def test_wrong_usage_is_exit_code_2(options: Sequence[str], message: str, capfd: Capture) -> None:
    assert main(["stream", PAIRS, *SPARK, "--source", "in", *options]) == 2
    assert message in capfd.readouterr().err


# --------------------------------------------------------- what Spark tells

AROUND = (
    "[STREAM_FAILED] Query [id = 1-2, runId = 3-4] terminated with exception: {} SQLSTATE: XXKST\n"
    "=== Streaming Query ===\nIdentifier: [id = 1-2, runId = 3-4]\n\nLogical Plan:\n~Project\n"
)
IN_A_WORKER = """\
[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most recent call):
  File "cernis/spark/streaming/packing.py", line 51, in pack_rows
cernis.DataError: stream 'S': an event cannot be read (no time)
  help: look
 SQLSTATE: 38000"""
HEADER = """\
Number of column in CSV header is not equal to number of fields in the schema:
 Header length: 2, schema size: 3
CSV file: file:///a%20b/2.csv"""


@pytest.mark.parametrize(
    ("text", "causes", "expected"),
    [
        (IN_A_WORKER, [], "stream 'S': an event cannot be read (no time)\n  help: look"),
        (
            "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///a/2.csv. ",
            ["Encountered error", HEADER],
            (
                "/a b/2.csv: has 2 columns, and the stream has 3; text is read by place, so they "
                "must be the same"
            ),
        ),
        (
            "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///a/2.parquet. ",
            ["[FAILED_READ_FILE] Encountered", "file:/a/2.parquet is not Parquet\n\tat"],
            "/a/2.parquet: Spark cannot read the file: file:/a/2.parquet is not Parquet",
        ),
        (
            (
                "[STREAM_FAILED] Query terminated: An exception was raised by the Python Proxy. "
                "Return Message: Traceback\nCaused by: java.io.IOException: disk full"
            ),
            ["An exception was raised by the Python Proxy. Return Message: Traceback"],
            "Spark: disk full",
        ),
        (
            (
                "Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times, most recent "
                "failure: Lost task 0.0 in stage 3.0 (TID 7) (host executor driver): "
                "java.lang.IllegalStateException: No space left on device"
            ),
            [],
            "Spark: No space left on device",
        ),
        (IN_A_WORKER.replace("cernis.DataError", "ZeroDivisionError"), [], None),
    ],
)
def test_what_a_query_fails_of_is_told_in_few_lines(
    text: str, causes: list[str], expected: str | None
) -> None:
    assert describe_failure(AROUND.format(text), causes) == expected


def test_the_column_of_arrival_is_that_of_kafka() -> None:
    from cernis.spark.streaming.kafka import KAFKA_TIMESTAMP

    assert ARRIVED == KAFKA_TIMESTAMP


# ---------------------------------------------------------------- live view


def progress(batch: int, **numbers: Any) -> Progress:
    told = dict.fromkeys(
        ("rows", "events", "late", "ahead", "untimed", "undecodable", "waiting", "matches"), 0
    )
    spent = {"triggerExecution": 820.0, "addBatch": 700.0, "walCommit": 20.0, "commitOffsets": 30.0}
    spent |= {"queryPlanning": 60.0, "latestOffset": 10.0, "engine": 12.0, "state": 40.0}
    fixed: dict[str, Any] = {"query": "q", "run": "r", "batch": batch, "recalled": 0}
    fixed |= {"state_bytes": 0, "per_bucket": {}, "waiting_per_bucket": {}}
    fixed |= {"keys_per_bucket": {}, "records_per_bucket": {}}
    fixed |= {"watermark": None, "milliseconds": spent}
    return Progress(**{**fixed, **told, **numbers})


def text_of(view: View) -> str:
    console = Console(width=88, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(render(view))
    return "\n".join(line.rstrip() for line in console.export_text().splitlines())


def test_the_view_of_a_running_stream() -> None:
    tally = Tally("in → out")
    moment = NOON / 10**6 + 31.4
    some = {"rows": 12_000, "matches": 30, "late": 2, "undecodable": 1}
    tally.take(
        progress(6, **some, per_bucket={0: 1000, 3: 500}, waiting_per_bucket={0: 14}), moment - 10
    )
    for _ in range(2):  # told twice
        tally.take(
            progress(
                7,
                rows=1000,
                matches=7,
                waiting=200,
                per_bucket={3: 1_200_000},
                waiting_per_bucket={3: 200},
                watermark="2024-01-02T10:00:00.000Z",
            ),
            moment,
        )
    tally.take_lines(['{"start":1}', '{"start":2,"note":"' + "x" * 200])
    assert text_of(tally.view(moment)) == (
        "in → out  [running]\n"
        "rows       13,000  (1,201/s)\n"
        "matches    37  (3.4/s)\n"
        "left out   2 late, 0 ahead, 1 undecodable, 0 without a time\n"
        "waiting    214 events\n"
        "state      1.2 MB\n"
        "watermark  2024-01-02 10:00:00  (31 s ago)\n"
        "batch      7 in 820 ms: reading 10 ms, planning 60 ms, running 700 ms, committing 50 ms\n"
        "           (of all tasks: engine 12 ms, state 40 ms)\n"
        "last matches\n"
        '  {"start":2,"note":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…\n'
        '  {"start":1}'
    )
    told = summarize(tally.view(moment))
    assert told == "13,000 rows in 2 micro-batches; 37 matches; 2 late; 1 undecodable"


def test_the_view_before_anything_has_come() -> None:
    assert text_of(View(title="in → out")) == (
        "in → out  [starting]\n"
        "rows       0  (0/s)\n"
        "matches    0  (0/s)\n"
        "left out   0 late, 0 ahead, 0 undecodable, 0 without a time\n"
        "waiting    0 events\n"
        "state      0 B\n"
        "watermark  –\n"
        "batch      –"
    )


def test_times_that_are_numbers_have_watermarks_that_are() -> None:
    clock = WatermarkClock(shift_ms=2**43, unit_ns=10**9)
    assert clock.read("1970-01-01T00:00:00.000Z") == (None, None)
    moment = datetime(2024, 1, 2, 10, tzinfo=UTC)
    told = (moment + timedelta(milliseconds=2**43)).isoformat().replace("+00:00", "Z")
    assert clock.read(told) == (str(NOON // 10**6), moment)


def test_rates_are_those_of_the_last_half_minute() -> None:
    tally = Tally("")
    tally.take(progress(0, rows=6000), 1000.0)
    assert tally.view(1020.0).rows_per_second == pytest.approx(6000 / 20.82)
    assert tally.view(1040.0).rows_per_second == 0


def test_the_last_matches_are_those_of_the_newest_file(tmp_path: Path) -> None:
    notes = tmp_path / "out ä" / "_spark_metadata"
    notes.mkdir(parents=True)
    folder = notes.parent
    pq.write_table(pa.table({"end": [3, 4], "a": [[{"k": 1}], []]}), folder / "p.parquet")
    (folder / "t.txt").write_text('{"end":1}\n{"end":2}\n')
    for batch, name in ((0, "p.parquet"), (1, "t.txt")):
        told = {"path": (folder / name).as_uri(), "action": "add"}
        (notes / str(batch)).write_text(f"v1\n{json.dumps(told)}")
    assert [*latest_matches(folder, 0)] == ["end=3 a=1 event", "end=4 a=0 events"]
    assert [*latest_matches(folder, 1)] == ['{"end":2}', '{"end":1}']
    assert [*latest_matches(folder, 2)] == []
