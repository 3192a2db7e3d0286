"""SPAseQ on Spark: the source gives the events of the local reader, and queries their matches.

A job costs Spark a fraction of a second, whatever its size: queries are run many at a time, as one
union. In CI every twelfth case of the corpus runs, on two tasks; `make soak` runs all of them, on
one task and on three. `test_graph_worker.py` runs all of them each time, without Spark.
"""

from __future__ import annotations

import io
import json
import random
import warnings
from collections.abc import Iterator, Sequence
from functools import reduce
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest

from cernis.cli.main import main
from cernis.plan.plan import Distribution
from cernis.rdf.query import GraphQuery
from cernis.rdf.reading.streams import Streamset
from cernis.rdf.reading.terms import Terms
from cernis.spark.rdf.layout import choose_solution_layout
from cernis.spark.rdf.recognize import recognize_graphs
from cernis.spark.rdf.source import RdfDataSource
from cernis.testing.spaseq import oracle
from tools.cases.spaseq.corpus import SpaseqCase, comparable_match, read_cases, write_stream
from tools.cases.spaseq.grammar import (
    INTEGER,
    random_background,
    random_query,
    random_streams,
)

EXAMPLE = "http://example.org/"
PROV = "<http://www.w3.org/ns/prov#generatedAtTime>"
DATE = "http://www.w3.org/2001/XMLSchema#dateTime"

HEAD = f"PREFIX : <{EXAMPLE}> "
STREAMS = f" FROM STREAM S1 <{EXAMPLE}S1> FROM STREAM S2 <{EXAMPLE}S2> "
A = " DEFINE GPM A ON S1 { ?e :k ?x . ?e :v ?a FILTER (?a > 5) } "
B = " DEFINE GPM B ON S2 { ?f :k ?x . ?f :v ?b FILTER (?b > ?a) } "
FREE = " DEFINE GPM B ON S2 { ?f :v ?b FILTER (?b > 7) } "
NEAR = f" DEFINE GPM B ON S2 {{ ?f :k ?x . ?f :v ?b GRAPH <{EXAMPLE}kb> {{ ?x :near ?y }} }} "
QUERIES = {
    "keyed": f"{HEAD} SELECT ?x ?a ?b WITHIN 40 SECONDS {STREAMS} WHERE {{ SEQ (A ; B) {A}{B} }}",
    "sliced": f"{HEAD} SELECT ?a ?b WITHIN 5 SECONDS {STREAMS} WHERE {{ SEQ (A , B+) {A}{FREE} }}",
    "single": f"{HEAD} SELECT ?a ?b {STREAMS} WHERE {{ SEQ (A ; B) {A}{FREE} }}",
    "not shown": f"{HEAD} SELECT ?b {STREAMS} WHERE {{ SEQ (A ; B) {A}{B} }}",
    "joined": f"{HEAD} SELECT ?x (LIST(?b) AS ?all) WITHIN 20 SECONDS {STREAMS} "
    f"WHERE {{ SEQ (A ; B+;) {A}{NEAR} }}",
    "built": f"{HEAD} CONSTRUCT {{ [] :x ?x ; :b ?b }} {STREAMS} WHERE {{ SEQ (A ; B) {A}{B} }}",
}
BACKGROUND = "".join(
    f"<{EXAMPLE}k{i}> <{EXAMPLE}near> <{EXAMPLE}k{(i * 7) % 5}> .\n" for i in range(9)
)


def events(name: str, number: int, seed: int) -> str:
    """N-Quads: a node with a key and a number in each event, sometimes two."""
    draw = random.Random(seed)
    lines, time = [], 0
    for n in range(number):
        time += draw.choice((0, 1, 1, 2, 3))
        graph = f"<http://e/{name}/{n}>"
        at = f"2024-01-02T{time // 3600:02}:{time // 60 % 60:02}:{time % 60:02}Z"
        lines.append(f'{graph} {PROV} "{at}"^^<{DATE}> .')
        for node in range(draw.choice((1, 1, 2))):
            key, value = draw.randrange(8), draw.randrange(12)
            lines.append(f"_:n{node} <{EXAMPLE}k> <{EXAMPLE}k{key}> {graph} .")
            lines.append(f'_:n{node} <{EXAMPLE}v> "{value}"^^<{INTEGER}> {graph} .')
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rdf")
    for seed, name in enumerate(("S1", "S2")):
        (folder / f"{name}.nq").write_text(events(name, 150, seed))
    (folder / "kb.nt").write_text(BACKGROUND)
    (folder / "few.trig").write_text(
        f"@prefix : <{EXAMPLE}> . :e1 {PROV} 5 . :e1 {{ [] :k :k1 ; :v 3 }} "
        f":e2 {PROV} 7 . :e2 {{ :a :k :k2 }}"
    )
    for name, text in QUERIES.items():
        (folder / f"{name}.spaseq").write_text(text)
    return folder


@pytest.fixture(autouse=True)
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "200")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "this query runs in a single task")
        yield


@pytest.fixture(scope="module")
def rows(spark: Any, folder: Path) -> Iterator[Any]:
    """Three files as rows; Spark starts processes each time that it reads them anew."""
    spark.dataSource.register(RdfDataSource)
    files = [str(folder / name) for name in ("S1.nq", "S2.nq", "few.trig")]
    read = spark.read.format("rdf").option("piece", "9000").load(files)
    kept = read.selectExpr("*", "spark_partition_id() AS part").persist()
    yield kept
    kept.unpersist()


# --------------------------------------------------------------------- source


def by_local_reader(files: dict[str, str]) -> list[tuple[Any, ...]]:
    terms, found = Terms(), []
    for batch in Streamset(files, terms):
        texts = [terms.texts(column).to_pylist() for column in (batch.s, batch.p, batch.o)]
        triples = list(zip(*texts, strict=True))
        for i in range(batch.size):
            held = frozenset(triples[batch.first[i] : batch.first[i + 1]])
            stream = list(files)[batch.streams[i]]
            found.append((stream, int(batch.numbers[i]), int(batch.times[i]), held))
    return sorted(found, key=lambda event: event[:2])


def test_the_source_gives_the_events_of_the_local_reader(rows: Any) -> None:
    files = {"S1": "S1.nq", "S2": "S2.nq", "few": "few.trig"}
    parts = rows.collect()
    found = [(r.stream, r.number, r.ts, frozenset(map(tuple, r.triples))) for r in parts]
    assert sorted(found, key=lambda event: event[:2]) == by_local_reader(files)
    assert len({row.part for row in parts}) > 5
    dated = {row.stream: row.time is not None for row in parts}
    assert dated == {"S1": True, "S2": True, "few": False}
    assert {row.graph for row in parts if row.stream == "few"} == {
        f"<{EXAMPLE}e1>",
        f"<{EXAMPLE}e2>",
    }


# -------------------------------------------------------------------- matches


def written(query: GraphQuery, files: Any, background: Any) -> list[str]:
    text = io.BytesIO()
    query.run(files, background=background).write_jsonl(text)
    return text.getvalue().decode().splitlines()


@pytest.mark.parametrize(
    ("name", "kind"),
    [("keyed", "keyed"), ("sliced", "sliced"), ("single", "single"), ("joined", "keyed")],
)
def test_queries_have_the_matches_of_the_local_engine(
    spark: Any, rows: Any, name: str, kind: str
) -> None:
    query = GraphQuery(QUERIES[name])
    files = {"S1": "S1.nq", "S2": "S2.nq"}
    background = {f"{EXAMPLE}kb": BACKGROUND.encode()} if name == "joined" else None
    events = rows.filter("stream != 'few'") if name == "sliced" else files
    lines = recognize_graphs(
        spark, query, events, background=background, matches="lines", tasks=3, piece=9000
    )
    expected = written(query, files, background)
    assert choose_solution_layout(query.plan).distribution.value == kind
    assert len(expected) > 20
    assert [row.line for row in lines.orderBy("end", "place").collect()] == expected


def test_the_columns_are_those_of_the_local_engine(spark: Any) -> None:
    query = GraphQuery(QUERIES["keyed"])
    files = ["S1.nq", "S2.nq"]
    expected = query.run(files).to_arrow()
    found = recognize_graphs(spark, query, files)
    assert found.columns == expected.column_names
    shown = [
        (r.start_ts.timestamp(), r.x, r.a, r.b, [tuple(event) for event in r.events])
        for r in found.collect()
    ]
    told = [
        (
            r["start_ts"].timestamp(),
            r["x"],
            r["a"],
            r["b"],
            [(event["stream"], event["number"]) for event in r["events"]],
        )
        for r in expected.to_pylist()
    ]
    assert sorted(shown) == sorted(told)


# ------------------------------------------------------------------ many at a time

AT_ONCE = 25


def collect_lines(frames: list[Any]) -> list[list[str]]:
    """The lines of each frame, by few jobs."""
    found: list[list[str]] = [[] for _ in frames]
    for first in range(0, len(frames), AT_ONCE):
        some = [
            frame.selectExpr(f"{i} AS i", "line")
            for i, frame in enumerate(frames[first : first + AT_ONCE], first)
        ]
        for row in reduce(lambda a, b: a.union(b), some).collect():
            found[row.i].append(row.line)
    return found


def check_corpus(spark: Any, folder: Path, chosen: Sequence[SpaseqCase], tasks: int) -> None:
    frames = []
    for number, case in enumerate(chosen):
        files = {name: folder / f"{number}-{name}.nq" for name in case.streams}
        for name, text in case.files().items():
            files[name].write_bytes(text)
        frames.append(
            recognize_graphs(
                spark,
                GraphQuery(case.query),
                files,
                background=case.knowledge() or None,
                time_unit="s",
                matches="lines",
                tasks=tasks,
            )
        )
    for case, lines in zip(chosen, collect_lines(frames), strict=True):
        case.check(comparable_match(SimpleNamespace(**json.loads(line))) for line in lines)


def test_the_corpus_has_the_answers_worked_out_by_hand(spark: Any, tmp_path: Path) -> None:
    check_corpus(spark, tmp_path, read_cases()[::25], 2)


@pytest.mark.fuzz
@pytest.mark.parametrize("tasks", [1, 3])
def test_all_of_the_corpus_has_these_answers_on_any_number_of_tasks(
    spark: Any, tmp_path: Path, tasks: int
) -> None:
    check_corpus(spark, tmp_path, read_cases(), tasks)


def found_in(line: str) -> oracle.SpaseqMatch:
    told = json.loads(line)
    bindings = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in told["bindings"].items()
    }
    held = tuple((stream, number) for stream, number in told["events"])
    return oracle.SpaseqMatch(
        told["start_ts"], told["end_ts"], held, tuple(sorted(bindings.items()))
    )


def test_random_queries_agree_with_the_oracle(spark: Any, tmp_path: Path) -> None:
    frames, expected, kinds = [], [], set()
    for seed in range(100, 125):
        draw = random.Random(seed)
        query = random_query(draw)
        streams = random_streams(draw, draw.randrange(3, 12))
        known = random_background(draw)
        files = {name: tmp_path / f"{name}{seed}.nq" for name in streams}
        for name, stream in streams.items():
            files[name].write_bytes(write_stream(name, stream))
        background = {
            name[1:-1]: "".join(f"{s} {p} {o} .\n" for s, p, o in triples).encode()
            for name, triples in known.items()
        }
        lines = recognize_graphs(
            spark,
            GraphQuery(query),
            files,
            background=background,
            time_unit="ns",
            matches="lines",
            tasks=2,
        )
        frames.append(lines)
        expected.append(oracle.find_matches(query, streams, known))
        kinds.add(choose_solution_layout(GraphQuery(query).plan).distribution)
    given = [[found_in(line) for line in lines] for lines in collect_lines(frames)]
    assert [set(one) for one in given] == expected
    assert [len(one) for one in given] == [len(one) for one in expected]
    assert kinds == set(Distribution)


# --------------------------------------------------------------- command line


def run(engine: str, name: str, *options: str) -> int:
    known = ["--background", f"{EXAMPLE}kb=kb.nt"] if name == "joined" else []
    given = ["run", f"{name}.spaseq", "--engine", engine, "-e", "S1.nq", "-e", "S2.nq"]
    return main([*given, *known, *options])


@pytest.mark.parametrize("name", ["keyed", "sliced", "not shown", "joined"])
def test_the_command_line_writes_the_same_bytes(
    spark: Any, name: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert run("local", name, "-o", "-") == 0
    expected = capfdbinary.readouterr().out
    assert run("spark", name, "-o", "-") == 0
    assert capfdbinary.readouterr().out == expected
    assert expected.count(b"\n") > 20


def test_tables_counts_and_files_are_the_same_as_well(
    spark: Any, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = {}
    for engine in ("local", "spark"):
        for options in ([], ["--count"], ["--limit", "3"]):
            assert run(engine, "not shown", *options) == 0
        told[engine] = capsys.readouterr().out
        assert run(engine, "keyed", "-o", str(tmp_path / f"{engine}.parquet")) == 0
        assert run(engine, "built", "--limit", "9", "-o", str(tmp_path / f"{engine}.nq")) == 0
        assert run(engine, "sliced", "--limit", "9", "-o", str(tmp_path / f"{engine}.csv")) == 0
    assert told["local"] == told["spark"]
    local, other = (pq.read_table(tmp_path / f"{e}.parquet") for e in ("local", "spark"))
    assert local == other
    assert local.num_rows > 20
    graphs = [(tmp_path / f"{e}.nq").read_bytes() for e in ("local", "spark")]
    assert graphs[0] == graphs[1]
    assert graphs[0].count(b"\n") == 27
    texts = [(tmp_path / f"{e}.csv").read_bytes() for e in ("local", "spark")]
    assert texts[0] == texts[1]
    assert texts[0].count(b"\n") == 10


def test_where_nothing_matches_the_same_is_to_blame(
    capsys: pytest.CaptureFixture[str], spark: Any
) -> None:
    query = """PREFIX : <urn:x:> SELECT ?a WITHIN 1 MINUTES FROM STREAM S <urn:x:s>
        WHERE { SEQ (A ; B)
          DEFINE GPM A ON S { ?a :never ?p } DEFINE GPM B ON S { ?a :seen ?v } }"""
    told = []
    for engine in ("local", "spark"):
        given = ["run", query, "--lang", "spaseq", "--engine", engine, "S1.nq"]
        assert main(given) == 0
        told.append(capsys.readouterr().err)
        assert main([*given, "--count", "--strict"]) == 1
        told.append(capsys.readouterr().err)
    assert told[:2] == told[2:]
    assert "warning: line 3, column 34: no event has the predicate <urn:x:never>\n" in told[0]


def test_a_mistake_in_a_file_is_told_as_by_the_local_engine(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "S2.nq"
    bad.write_text(events("S2", 3, 1) + "<http://x/a> nonsense .\n")
    told = []
    for engine in ("local", "spark"):
        assert main(["run", "keyed.spaseq", "--engine", engine, "S1.nq", str(bad)]) == 1
        told.append(capsys.readouterr().err)
    assert told[0] == told[1]
    assert f"{bad}, line" in told[0]
    assert (
        main(["explain", "sliced.spaseq", "--engine", "spark", "-e", "S1.nq", "-e", "S2.nq"]) == 0
    )
    assert "sliced: cells of time in turn" in capsys.readouterr().out
