"""SPAseQ on streaming DataFrames: the answers of the corpus and of the embedded engine, with late
graphs, bad texts and restarts. A micro-batch costs Spark about a second: `make soak` runs all of
the corpus, and `tests/streaming/test_graph_bucket.py` does each time, without Spark."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from itertools import count, islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

from cernis.cli.main import main
from cernis.errors import DataError, StateError
from cernis.languages.spaseq.query import SpaseqQuery
from cernis.rdf.query import GraphQuery
from cernis.spark import parse_graphs, progress_of, recognize_graphs
from cernis.spark.rdf.texts import FILES
from cernis.testing.spaseq.oracle import SpaseqMatch, find_matches
from tools.cases.spaseq.corpus import (
    SECOND,
    SpaseqCase,
    comparable_match,
    read_cases,
    write_background,
)
from tools.cases.spaseq.grammar import random_background, random_query, random_streams

PROV = "<http://www.w3.org/ns/prov#generatedAtTime>"
DATE = "<http://www.w3.org/2001/XMLSchema#dateTime>"
PAIR = """PREFIX : <http://example.org/>
SELECT ?x ?a ?b WITHIN 20 SECONDS FROM STREAM S <http://example.org/s>
WHERE { SEQ (A ; B) DEFINE GPM A ON S { ?a :k ?x } DEFINE GPM B ON S { ?b :k ?x . ?b :v ?n } }
"""
TRIPLES = "array<struct<s: string, p: string, o: string>>"
ROWS = f"stream string, number bigint, ts bigint, triples {TRIPLES}"
FAR = 10**9


@pytest.fixture(autouse=True)
def _one_partition(spark: Any) -> Iterator[None]:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    yield
    spark.conf.set("spark.sql.shuffle.partitions", before)


def put(folder: Path, name: str, write: Any) -> None:
    """Put a file into a folder that is read in order of modification."""
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / ".writing")
    at = 10**9 + len([*folder.iterdir()])
    os.utime(folder / ".writing", (at, at))
    (folder / ".writing").rename(folder / name)


# --------------------------------------------------------------------- corpus


def make_rows(streams: Mapping[str, Iterable[Any]], tick: int) -> list[dict[str, Any]]:
    """The events of some streams as rows, in order of time; the last one lets all be read."""
    rows = [
        {
            "stream": name,
            "number": number,
            "ts": time * tick,
            "triples": [dict(zip("spo", triple, strict=True)) for triple in triples],
        }
        for name, events in streams.items()
        for number, (time, triples) in enumerate(events)
    ]
    rows.sort(key=lambda row: row["ts"])
    last = {"stream": next(iter(streams)), "number": FAR, "ts": FAR * SECOND, "triples": []}
    return [*rows, last]


def put_rows(folder: Path, number: int, rows: list[dict[str, Any]]) -> None:
    triple = pa.struct({"s": pa.string(), "p": pa.string(), "o": pa.string()})
    fields = {"stream": pa.string(), "number": pa.int64(), "ts": pa.int64()}
    schema = pa.schema({**fields, "triples": pa.list_(triple)})
    table = pa.Table.from_pylist(rows, schema=schema)
    put(folder, f"{number}.parquet", partial(pq.write_table, table))


def check_corpus(spark: Any, folder: Path, chosen: Sequence[SpaseqCase], seed: int) -> None:
    """Check the answers to some cases in one streaming query, each in two micro-batches."""
    chance = random.Random(seed)
    frames = []
    for i, case in enumerate(chosen):
        rows = make_rows(case.streams, SECOND)
        cut = chance.randint(1, len(rows) - 1)
        for n, part in enumerate((rows[:cut], rows[cut:])):
            put_rows(folder / str(i), n, part)
        source = spark.readStream.schema(ROWS).option("maxFilesPerTrigger", 1)
        found = recognize_graphs(
            spark,
            case.query,
            source.parquet(str(folder / str(i))),
            background=case.knowledge() or None,
            time_unit="s",
            matches="lines",
            tasks=2,
            ahead=None,
        )
        frames.append(found.selectExpr(f"{i} as i", "line"))
    whole = reduce(lambda a, b: a.union(b), frames)
    running = whole.writeStream.format("memory").queryName("cases").start()
    running.processAllAvailable()
    running.stop()
    lines: list[list[Any]] = [[] for _ in chosen]
    for row in spark.table("cases").collect():
        lines[row.i].append(SimpleNamespace(**json.loads(row.line)))
    for case, found in zip(chosen, lines, strict=True):
        case.check(map(comparable_match, found))


def test_cases_of_the_corpus_have_the_answers_worked_out_by_hand(
    spark: Any, tmp_path: Path
) -> None:
    cases = [case for case in read_cases() if len(case.matches) > 1]
    chance = random.Random(4)
    chosen = [
        next(case for case in cases if case.background),
        next(case for case in cases if "PARTITION BY" in case.query and "," in case.query),
        chance.choice([case for case in cases if "WITHIN" not in case.query]),
        chance.choice([case for case in cases if len(case.streams) > 1]),
    ]
    check_corpus(spark, tmp_path, chosen, 4)


PARTS = 8


@pytest.mark.fuzz
@pytest.mark.parametrize("part", range(PARTS))
def test_all_of_the_corpus_has_these_answers(spark: Any, tmp_path: Path, part: int) -> None:
    check_corpus(spark, tmp_path, read_cases()[part::PARTS], part)


# --------------------------------------------------------------------- random

MS = 10**6
CUTS, LATENESS = (5, 10), 2
"""The last times of the first files, and the lateness, in milliseconds."""


class LateCase(NamedTuple):
    """A random query on files of events, some of which come too late."""

    query: SpaseqQuery
    background: dict[str, Any]
    files: list[list[dict[str, Any]]]
    wanted: set[SpaseqMatch]


def draw_late_case(seed: int) -> LateCase | None:
    """Return a case whose matches would be others if its late events counted; None: it is none."""
    rng = random.Random(seed)
    query = random_query(rng)
    if query.within is not None:
        query = replace(query, within=query.within * MS)
    streams = {name: list(events) for name, events in random_streams(rng, 14).items()}
    first = next(iter(streams))
    streams[first] = sorted([*streams[first], *((at, []) for at in CUTS)], key=lambda one: one[0])
    known = random_background(rng)
    files: list[list[dict[str, Any]]] = [[] for _ in (*CUTS, None)]
    late = set()
    for row in make_rows(streams, MS):
        at = row["ts"] // MS
        number = sum(at > cut for cut in CUTS)
        if row["triples"] and number < len(CUTS) and rng.random() < 0.3:
            if at < CUTS[number] - LATENESS:
                late.add((row["stream"], row["number"]))
            number += 1
        files[number].append(row)

    def define(left_out: set[tuple[str, int]]) -> set[SpaseqMatch]:
        kept = {
            name: [n for n in range(len(events)) if (name, n) not in left_out]
            for name, events in streams.items()
        }
        read = {
            name: [(streams[name][n][0] * MS, streams[name][n][1]) for n in numbers]
            for name, numbers in kept.items()
        }
        begin = query.tumbling_from
        assert not isinstance(begin, str)
        return {
            match._replace(events=tuple((name, kept[name][n]) for name, n in match.events))
            for match in find_matches(query, read, known, begin)
        }

    wanted = define(late)
    if not 0 < len(wanted) < 200 or wanted == define(set()):
        return None
    background = {name[1:-1]: write_background(triples) for name, triples in known.items()}
    for file in files:
        rng.shuffle(file)
    return LateCase(query, background, files, wanted)


def test_random_queries_agree_with_the_oracle_with_late_graphs_and_a_restart(
    spark: Any, tmp_path: Path
) -> None:
    drawn = (case for seed in count() if (case := draw_late_case(seed)) is not None)
    cases = list(islice(drawn, 3))

    def run_available() -> None:
        frames = []
        for i, case in enumerate(cases):
            source = spark.readStream.schema(ROWS).option("maxFilesPerTrigger", 1)
            found = recognize_graphs(
                spark,
                GraphQuery(case.query),
                source.parquet(str(tmp_path / str(i))),
                background=case.background,
                time_unit="ns",
                matches="lines",
                tasks=2,
                lateness=f"{LATENESS} milliseconds",
                ahead=None,
            )
            frames.append(found.selectExpr(f"{i} as i", "line"))
        whole = reduce(lambda a, b: a.union(b), frames)
        writer = whole.writeStream.format("json").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        running = writer.option("path", str(tmp_path / "out")).start()
        running.awaitTermination()

    for numbers in ((0, 1), (2,)):
        for number in numbers:
            for i, case in enumerate(cases):
                put_rows(tmp_path / str(i), number, case.files[number])
        run_available()
    found: list[list[SpaseqMatch]] = [[] for _ in cases]
    for row in spark.read.json(str(tmp_path / "out")).collect():
        found[row.i].append(comparable_match(SimpleNamespace(**json.loads(row.line))))
    for case, matches in zip(cases, found, strict=True):
        assert len(matches) == len(set(matches)), str(case.query)
        assert set(matches) == case.wanted, str(case.query)


# ---------------------------------------------------------------------- texts


def write_graph(name: str, at: int, key: str) -> str:
    graph, node = f"<urn:e:{name}>", f"<http://example.org/{name}>"
    return (
        f'{graph} {PROV} "2024-01-01T00:{at // 60:02}:{at % 60:02}Z"^^{DATE} .\n'
        f"{node} <http://example.org/k> <http://example.org/{key}> {graph} .\n"
        f'{node} <http://example.org/v> "{at}" {graph} .\n'
    )


def run(spark: Any, folder: Path, query: str = PAIR) -> list[Any]:
    """Read the files that are there, and return the numbers of each micro-batch."""
    reader = spark.readStream.format("binaryFile").schema(FILES).option("maxFilesPerTrigger", 1)
    found = recognize_graphs(
        spark,
        query,
        {"S": parse_graphs(reader.load(str(folder / "in")), "S")},
        on_error="skip",
        tasks=3,
        lateness="2 seconds",
        late_output=str(folder / "late"),
        checkpoint=str(folder / "checkpoint"),
    )
    writer = found.writeStream.format("parquet").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    running = writer.option("path", str(folder / "out")).start()
    running.awaitTermination()
    return [told for one in running.recentProgress if (told := progress_of(one)) is not None]


def test_a_folder_of_files_is_read_once_across_restarts_and_late_graphs_are_set_aside(
    spark: Any, tmp_path: Path
) -> None:
    chance = random.Random(7)
    graphs = [(f"n{i}", i + chance.randint(0, 2), f"key{chance.randrange(4)}") for i in range(60)]
    late = ("late", 20, "key1")
    parts = [graphs[:25], [*graphs[25:50], late], [*graphs[50:], ("last", 200, "none")]]
    for i, part in enumerate(parts):
        text = "".join(write_graph(*one) for one in part) + "this is no quad\n" * (i == 1)
        put(tmp_path / "in", f"{i}.nq", lambda path, text=text: path.write_text(text))
        told = run(spark, tmp_path)  # Spark goes on with the checkpoint
        if i == 1:
            assert sum(one.late for one in told) == sum(one.undecodable for one in told) == 1
    table = spark.read.parquet(str(tmp_path / "out")).toArrow()
    got = sorted((row["x"], row["a"], row["b"]) for row in table.to_pylist())
    ordered = sorted(graphs, key=lambda one: one[1])
    text = "".join(write_graph(*one) for one in ordered)
    expected = GraphQuery(PAIR).run(text.encode())
    assert table.drop_columns(["events"]).schema.names == expected.to_arrow().schema.names[:-1]
    bindings = (match.bindings for match in expected)
    assert got == sorted((one["x"], one["a"], one["b"]) for one in bindings)
    aside = [
        json.loads(line)
        for file in sorted((tmp_path / "late").glob("*.jsonl"))
        for line in file.read_text().splitlines()
    ]
    aside.sort(key=lambda one: one["reason"])
    assert [one["reason"] for one in aside] == ["late", "undecodable"]
    assert aside[0]["event"]["graph"] == "<urn:e:late>"
    assert "this is no quad" in aside[1]["event"]["undecodable"]
    with pytest.raises(StateError, match="the checkpoint belongs to another run"):
        run(spark, tmp_path, PAIR.replace("20 SECONDS", "30 SECONDS"))


# --------------------------------------------------------------- command line


def test_the_graphs_of_construct_are_a_stream_again(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [f"<urn:e:{at}> {{ <urn:a{at}> <urn:x:k> <urn:key{at % 2}> }}" for at in range(1, 9)]
    chance = random.Random(3)
    chance.shuffle(lines)
    put(tmp_path / "in", "0.trig", lambda path: path.write_text("\n".join(lines)))
    put(tmp_path / "in", "1.trig", lambda path: path.write_text("<urn:e:99> { <urn:a> <urn:b> 1 }"))
    Path("pair.spaseq").write_text(
        """PREFIX : <urn:x:> CONSTRUCT { ?a :before ?b } WITHIN 20 SECONDS
        FROM STREAM S <urn:s> WHERE { SEQ (A ; B) DEFINE GPM A ON S { ?a :k ?x }
        DEFINE GPM B ON S { ?b :k ?x } }"""
    )
    options = ["--source", "in", "--checkpoint", "c", "--once", "--max-files", "1"]
    options += ["--time-unit", "s", "--lateness", "10s", "--ahead", "none"]
    assert (
        main(
            [
                "stream",
                "pair.spaseq",
                "--engine",
                "spark",
                *options,
                "--sink",
                "out",
                "--output-format",
                "nq",
            ]
        )
        == 0
    )
    assert "6 matches" in capfd.readouterr().err
    text = "\n".join(file.read_text() for file in Path("out").glob("*.txt"))
    made = GraphQuery(
        "PREFIX : <urn:x:> SELECT ?a ?b FROM STREAM M <urn:m> "
        "WHERE { SEQ (One) DEFINE GPM One ON M { ?a :before ?b } }"
    )
    rows = parse_graphs(
        spark.createDataFrame([(0, text)], "n int, content string").withColumn("path", F.lit("x")),
        "M",
        time_unit="s",
        dated=False,
    )
    again = recognize_graphs(spark, made, rows, time_unit="s").toArrow().to_pylist()
    assert sorted((row["end_ts"], row["a"], row["b"]) for row in again) == [
        (at, f"<urn:a{at - 2}>", f"<urn:a{at}>") for at in range(3, 9)
    ]


# ------------------------------------------------------------------- mistakes


def test_mistakes_about_streams_are_told_before_anything_runs(spark: Any, tmp_path: Path) -> None:
    rows = spark.readStream.format("rate").load()
    with pytest.raises(DataError, match="no column 'number'"):
        recognize_graphs(spark, PAIR, {"S": rows})
    with pytest.raises(DataError, match="no stream 'T'; it has S"):
        recognize_graphs(spark, PAIR, {"T": rows})


def test_texts_that_cannot_be_read_are_an_error_in_batches_too(spark: Any) -> None:
    texts = spark.createDataFrame([(1, "?"), (2, write_graph("a", 1, "k"))], "n int, value string")
    rows = parse_graphs(texts, "S", number="n")
    assert [row.graph for row in rows.orderBy("number").collect()] == [None, "<urn:e:a>"]
    kept = recognize_graphs(spark, PAIR, rows, on_error="skip", matches="count")
    assert kept.collect() == []
    with pytest.raises(Exception, match="an event cannot be read"):
        recognize_graphs(spark, PAIR, rows).collect()


def test_a_message_is_one_graph_in_any_format(spark: Any) -> None:
    node = '{"@id": "http://example.org/a", "http://example.org/k": {"@id": "http://example.org/x"}'
    stamped = '{"@id": "urn:g", "http://www.w3.org/ns/prov#generatedAtTime": {"@value": '
    stamped += '"2024-01-01T00:00:01Z", "@type": "http://www.w3.org/2001/XMLSchema#dateTime"}, '
    messages = {
        "jsonld": stamped + f'"@graph": [{node}}}]}}',
        "trig": f"<urn:g> {PROV} '2024-01-01T00:00:01Z'^^{DATE} . "
        "<urn:g> { <http://example.org/a> <http://example.org/k> <http://example.org/x> }",
        "ttl": "<http://example.org/a> <http://example.org/k> <http://example.org/x> ; "
        f"{PROV} '2024-01-01T00:00:01Z'^^{DATE} .",
    }
    for format_, text in messages.items():
        texts = spark.createDataFrame([(5, text)], "n int, value string")
        [row] = parse_graphs(texts, "S", number="n", format=format_).collect()
        assert (row.number, row.ts, row.undecodable) == (5, 1704067201 * SECOND, None)
        assert row.graph == (None if format_ == "ttl" else "<urn:g>")
        assert len(row.triples) == 2


def test_a_live_background_is_read_again_and_matches_name_its_versions(
    spark: Any, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.ttl"
    query = PAIR.replace("{ ?a :k ?x }", "{ ?a :k ?x GRAPH :plan { ?x :in ?room } }")
    query = query.replace("?x ?a ?b", "?b ?room")
    for i, room in enumerate(("kitchen", "cellar")):
        plan.write_text(f"<http://example.org/x> <http://example.org/in> <urn:{room}> .")
        text = "".join(write_graph(f"n{i}{at}", 100 * i + at, "x") for at in (1, 2))
        put(tmp_path / "in", f"{i}.nq", lambda path, text=text: path.write_text(text))
        texts = spark.readStream.format("binaryFile").schema(FILES).load(str(tmp_path / "in"))
        matches = recognize_graphs(
            spark,
            query,
            parse_graphs(texts, "S"),
            background=plan,
            live=True,
            checkpoint=str(tmp_path / "checkpoint"),
        )
        writer = matches.writeStream.format("parquet").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.option("path", str(tmp_path / "out")).start().awaitTermination()
    notes = sorted((tmp_path / "checkpoint" / "cernis-background" / "batches").iterdir())
    noted = [json.loads(note.read_text())["version"] for note in notes]
    assert noted[0] != noted[-1]
    [row] = spark.read.parquet(str(tmp_path / "out")).collect()
    assert (row.room, row.background) == ("<urn:kitchen>", [noted[0], noted[0]])
