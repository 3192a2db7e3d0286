"""What Spark's workers do for SPAseQ, without Spark: spread, read apart, and found all the same."""

from __future__ import annotations

import io
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cernis.errors import DataError
from cernis.plan.plan import Distribution
from cernis.rdf.query import GraphQuery
from cernis.rdf.solving.exchange import TS
from cernis.spark.rdf.explanation import explain_graphs
from cernis.spark.rdf.files import check_graph_files, check_knowledge
from cernis.spark.rdf.layout import choose_solution_layout
from cernis.spark.rdf.solve import SolutionWork, solve_parts
from cernis.work.columns import BUCKET
from cernis.work.rdf import solution_answer_schema
from cernis.work.reading import recognize_rows
from tools.cases.spaseq.corpus import read_cases, write_background, write_stream
from tools.cases.spaseq.grammar import (
    INTEGER,
    random_background,
    random_query,
    random_streams,
)

PROV = "<http://www.w3.org/ns/prov#generatedAtTime>"
HEAD = "PREFIX : <http://example.org/> "
STREAM = " FROM STREAM S <http://example.org/s> "
A = " DEFINE GPM A ON S { ?a :k ?x } "
B = " DEFINE GPM B ON S { ?b :v ?n . ?b :k ?x } "
FREE = " DEFINE GPM B ON S { ?b :v ?n } "


def spread(
    query: GraphQuery,
    files: dict[str, Path],
    background: Any,
    tasks: int,
    piece: int,
    unit: str = "ns",
) -> list[str]:
    """The lines that some tasks find, in their order."""
    known = check_knowledge(query, background)
    opened = check_graph_files(query, files, scopes=len(known), time_unit=unit, piece=piece)
    layout = choose_solution_layout(query.plan)
    work = SolutionWork(
        plan=query.plan,
        background=known,
        unit=unit,
        numeric_times=opened.numeric_times,
        layout=layout,
        tasks=1 if layout.distribution is Distribution.SINGLE else tasks,
        low=opened.low,
        length=4 * (layout.window or 0) + 1,
        form="lines",
    )
    numbers = pa.RecordBatch.from_pydict({"id": list(range(len(opened.parts)))})
    solved = list(solve_parts(work, opened.parts, [numbers]))
    table = pa.Table.from_batches(solved, work.solution_schema())
    bucket = np.asarray(table.column(BUCKET))
    found = []
    for task in range(work.tasks):
        rows = table.filter(pa.array(bucket == task)).drop_columns([BUCKET]).sort_by(TS)
        for batch in recognize_rows(work, rows.to_batches(max_chunksize=5)):
            assert batch.schema == solution_answer_schema(work)
            found += zip(*(column.to_pylist() for column in batch.columns), strict=True)
    if layout.repeats:
        found = list(set(found))
    return [line for _, _, line in sorted(found)]


def local(query: GraphQuery, files: Any, background: Any, unit: str = "ns") -> list[str]:
    text = io.BytesIO()
    query.run(files, background=background, time_unit=unit).write_jsonl(text)
    return text.getvalue().decode().splitlines()


def test_random_queries_are_answered_alike_however_they_are_spread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cernis.rdf.solving.exchange._MANY_TERMS", 30)  # drops terms on the way
    met: Counter[Distribution] = Counter()
    for seed in range(40):
        draw = random.Random(seed)
        asked = random_query(draw)
        if asked.within is not None and seed % 4 == 0:
            asked = replace(asked, tumbling_from=3)
        query = GraphQuery(asked)
        kind = choose_solution_layout(query.plan).distribution
        long = kind is Distribution.SLICED and query.query.within is not None
        streams = random_streams(draw, draw.randrange(30, 50) if long else draw.randrange(1, 14))
        files = {name: tmp_path / f"{name}.nq" for name in streams}
        for name, events in streams.items():
            files[name].write_bytes(write_stream(name, events))
        background = {
            name[1:-1]: write_background(triples)
            for name, triples in random_background(draw).items()
        }
        expected = local(query, files, background)
        tasks = 1 + seed % 3
        assert spread(query, files, background, tasks, 500) == expected, f"{seed}: {query}"
        met[kind] += bool(expected)
    assert min(met[kind] for kind in Distribution) > 0


@pytest.mark.parametrize("tasks", [1, 3])
def test_the_corpus_is_answered_alike_by_one_task_and_by_several(
    tmp_path: Path, tasks: int
) -> None:
    for case in read_cases():
        query = GraphQuery(case.query)
        files = {name: tmp_path / f"{name}.nq" for name in case.streams}
        for name, text in case.files().items():
            files[name].write_bytes(text)
        known = case.knowledge() or None
        expected = local(query, files, known, "s")
        assert len(expected) == len(case.matches)
        assert spread(query, files, known, tasks, 300, "s") == expected, case.name


def test_a_match_found_by_two_keys_that_are_not_shown_is_one(tmp_path: Path) -> None:
    query = GraphQuery(f"{HEAD} SELECT ?n {STREAM} WHERE {{ SEQ (A : B) {A} {B} }}")
    iri = "<http://example.org/{}>".format
    event = [(iri("e"), iri("k"), iri(f"k{i}")) for i in range(9)]
    event.append((iri("e"), iri("v"), f'"1"^^<{INTEGER}>'))
    files = {"S": tmp_path / "S.nq"}
    files["S"].write_bytes(write_stream("S", [(1, event), (5, event)]))
    assert choose_solution_layout(query.plan).repeats
    assert len(local(query, files, None)) == 1
    assert spread(query, files, None, 3, 1 << 20) == local(query, files, None)


# --------------------------------------------------------------------- layout


def layout_of(steps: str, gpms: str, *, more: str = "", select: str = "*") -> Any:
    text = f"{HEAD} SELECT {select} {more} {STREAM} WHERE {{ SEQ ({steps}) {gpms} }}"
    return choose_solution_layout(GraphQuery(text).plan)


@pytest.mark.parametrize(
    ("steps", "gpms", "more", "kind", "key", "ticks"),
    [
        ("A ; B", A + B, "", "keyed", ("x",), False),
        ("A ; B", A + FREE, "", "single", (), False),
        ("A ; B", A + FREE, "WITHIN 3 SECONDS", "sliced", (), False),
        ("A , B", A + B, "WITHIN 3 SECONDS", "sliced", (), True),
        ("A , B", A + B, "WITHIN 3 SECONDS PARTITION BY (?x)", "keyed", ("x",), False),
        ("A & B", A + FREE, "", "sliced", (), False),  # of one timestamp
        ("A , B+", A + B, "", "single", (), True),
    ],
)
def test_the_plan_says_how_events_are_spread(
    steps: str, gpms: str, more: str, kind: str, key: tuple[str, ...], ticks: bool
) -> None:
    found = layout_of(steps, gpms, more=more)
    assert (found.distribution.value, found.key, found.ticks) == (kind, key, ticks)


def test_a_variable_of_one_side_of_an_and_is_no_key() -> None:
    both = A + FREE + " DEFINE GPM C ON S { ?c :k ?x } "
    assert layout_of("C ; (A & B)", both).distribution is Distribution.SINGLE


def test_the_next_timestamp_of_a_partition_is_not_that_of_a_finer_key() -> None:
    finer = " DEFINE GPM A ON S { ?a :k ?x . ?a :v ?n } "
    assert layout_of("A , B", finer + B, more="PARTITION BY (?x)").key == ("x",)
    assert layout_of("A ; B", finer + B, more="PARTITION BY (?x)").key == ("x", "n")


def test_what_spark_will_do_is_told_in_words() -> None:
    text = str(explain_graphs(f"{HEAD} SELECT * {STREAM} WHERE {{ SEQ (A ; B) {A} {B} }}", tasks=4))
    assert "on Spark     keyed: by a hash of ?x, 4 tasks" in text
    assert "travelling   solutions, not events: ?a, ?x, ?b, ?n" in text


def test_mistakes_are_told_before_spark_starts(tmp_path: Path) -> None:
    query = GraphQuery(f"{HEAD} SELECT * {STREAM} WHERE {{ SEQ (A ; B) {A} {B} }}")
    with pytest.raises(DataError, match="cannot be read"):
        check_graph_files(query, {"S": tmp_path / "none.nq"})
    with pytest.raises(DataError, match="no stream 'T'"):
        check_graph_files(query, {"T": tmp_path / "none.nq"})
    with pytest.raises(DataError, match="cannot be read"):
        check_knowledge(query, {"http://x/db": tmp_path / "none.nq"})
