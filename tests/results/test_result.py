"""`Matches`, `Answers` and `GraphMatches` have the same members with the same behaviour."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cernis
from cernis.results.result import Result

pytest.importorskip("pyoxigraph")

EVENTS = [{"type": t, "ts": i, "x": i % 3} for i, t in enumerate("AABAB")]
GRAPHS = b"".join(
    f"<urn:e{i}> <urn:is> <urn:{t}> <urn:event:{i}> .\n".encode() for i, t in enumerate("AABAB")
)


def matches(events: Any = EVENTS) -> cernis.Matches:
    found = cernis.query("SELECT * FROM S WHERE (A AS a ; B AS b)").run(events)
    assert isinstance(found, cernis.Matches)
    return found


def answers(events: list[dict[str, Any]] = EVENTS) -> cernis.Answers:
    found = cernis.query("Q(x, t) <- A(x: x, ts: t), B(ts: y)", lang="cq").run(events)
    assert isinstance(found, cernis.Answers)
    return found


def graph_matches(stream: bytes = GRAPHS) -> cernis.GraphMatches:
    text = """SELECT ?a ?b FROM STREAM S <urn:s> WHERE { SEQ (A : B)
    DEFINE GPM A ON S { ?a <urn:is> <urn:A> } DEFINE GPM B ON S { ?b <urn:is> <urn:B> } }"""
    return cernis.query(text, lang="spaseq").run(stream)


def repeated_graph_matches() -> cernis.GraphMatches:
    """Several runs are one match: matches are listed and told apart."""
    text = """SELECT ?b FROM STREAM S <urn:s> WHERE { SEQ (A : B)
    DEFINE GPM A ON S { ?a <urn:is> <urn:A> } DEFINE GPM B ON S { ?b <urn:is> <urn:B> } }"""
    twice = GRAPHS.replace(b"<urn:e0>", b"<urn:f0>") + GRAPHS
    stream = b"".join(sorted(twice.splitlines(keepends=True), key=lambda line: line[-6:]))
    return cernis.query(text, lang="spaseq").run(stream)


FULL = [matches, answers, graph_matches, repeated_graph_matches]
EMPTY = [lambda: matches(EVENTS[:1]), lambda: answers(EVENTS[:1]), lambda: graph_matches(b"")]


@pytest.fixture(params=FULL, ids=lambda make: make.__name__)
def result(request: pytest.FixtureRequest) -> Result[Any]:
    made: Result[Any] = request.param()
    return made


@pytest.fixture(params=EMPTY, ids=["matches", "answers", "graph_matches"])
def empty(request: pytest.FixtureRequest) -> Result[Any]:
    made: Result[Any] = request.param()
    return made


def test_all_of_them_are_results(result: Result[Any]) -> None:
    assert isinstance(result, cernis.Result)
    assert not result.counting


def test_counting_and_iterating_agree(result: Result[Any]) -> None:
    items = list(result)
    assert result.count() == len(result) == len(items) > 2
    assert bool(result)
    assert list(result) == items  # a result can be read again
    assert len({repr(item) for item in items}) == len(items)


def test_counts_are_a_table_by_end_that_adds_up(result: Result[Any]) -> None:
    counts = result.counts()
    assert counts.column_names[-2:] == ["end_ts", "count"]
    assert sum(counts["count"].to_pylist()) == result.count()
    ends = [item.end_ts for item in result]
    assert counts["end_ts"].to_pylist() == sorted(set(ends))
    assert counts["count"].to_pylist() == [ends.count(end) for end in sorted(set(ends))]


def test_head_gives_the_first(result: Result[Any]) -> None:
    assert result.head(2) == list(result)[:2]
    assert result.head(0) == []
    assert result.head(1000) == list(result)
    assert result.head() == list(result)[:10]


def test_a_sample_is_drawn_without_repetition(result: Result[Any]) -> None:
    drawn = result.sample(2, seed=7)
    assert drawn == result.sample(2, seed=7)
    assert len(drawn) == 2
    assert drawn[0] != drawn[1]
    assert all(item in list(result) for item in drawn)
    assert sorted(map(repr, result.sample(1000))) == sorted(map(repr, result))
    assert result.sample(0) == []


def test_negative_numbers_are_refused_at_once(result: Result[Any], tmp_path: Path) -> None:
    refused = [
        lambda: result.head(-1),
        lambda: result.sample(-1),
        lambda: result.batches(-1),
        lambda: result.to_arrow(-1),
        lambda: result.to_pandas(-1),
        lambda: result.to_polars(-1),
        lambda: result.write_jsonl(tmp_path / "no.jsonl", limit=-1),
        lambda: result.write_parquet(tmp_path / "no.parquet", limit=-1),
    ]
    for call in refused:
        with pytest.raises(ValueError, match=r"a number of (matches|answers) cannot be negative"):
            call()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_without_its_library_a_frame_says_which_extra_to_install(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(cernis.CernisError) as caught:
        getattr(matches(), f"to_{library}")()
    assert str(caught.value) == (
        f"to_{library} needs {library}, which is not installed: pip install 'cernis[{library}]'"
    )


def test_arrow_pandas_and_polars_have_the_same_rows(result: Result[Any]) -> None:
    table = result.to_arrow()
    assert table.schema == result.schema
    assert table.num_rows == len(result)
    assert pa.Table.from_batches(result.batches()) == table
    assert pa.table(result) == table
    assert result.to_arrow(2) == table.slice(0, 2)
    assert sum(batch.num_rows for batch in result.batches(2)) == 2
    assert isinstance(result.batches(), Iterator)
    assert isinstance(result.to_pandas(2), pd.DataFrame)
    assert isinstance(result.to_polars(2), pl.DataFrame)
    assert result.to_pandas(2)["end_ts"].tolist() == table["end_ts"].to_pylist()[:2]
    assert result.to_polars()["end_ts"].to_list() == table["end_ts"].to_pylist()


def test_lines_go_to_a_path_an_open_file_or_standard_output(
    result: Result[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    assert result.write_jsonl("all.jsonl") == len(result)
    written = Path("all.jsonl").read_bytes()
    assert [json.loads(line)["end_ts"] for line in written.splitlines()] == [
        item.end_ts for item in result
    ]
    file = io.BytesIO()
    assert result.write_jsonl(file) == len(result)
    assert file.getvalue() == written
    assert result.write_jsonl("-") == len(result)
    assert capfdbinary.readouterr().out == written
    assert result.write_jsonl(tmp_path / "two.jsonl", limit=2) == 2
    assert Path("two.jsonl").read_bytes().splitlines() == written.splitlines()[:2]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.jsonl", "two.jsonl"]


def test_parquet_holds_the_table(result: Result[Any], tmp_path: Path) -> None:
    assert result.write_parquet(tmp_path / "all.parquet") == len(result)
    assert pq.read_table(tmp_path / "all.parquet") == result.to_arrow()
    assert result.write_parquet(tmp_path / "two.parquet", limit=2) == 2
    assert pq.read_table(tmp_path / "two.parquet") == result.to_arrow(2)


def test_a_result_shows_how_many_there_are(result: Result[Any]) -> None:
    noun = "answers" if isinstance(result, cernis.Answers) else "matches"
    assert repr(result) == f"<{len(result)} {noun}>"
    page = result._repr_html_()
    assert f"<b>{len(result)} {noun}</b>" in page
    page = re.sub("<details>.*?</details>", "", page)
    assert page.count("<tr>") == len(result) + 1
    assert page.count("<td") == page.count("<th>") * len(result)


def test_notes_and_partial_are_there(result: Result[Any]) -> None:
    assert result.notes == ()
    assert result.partial is False


def test_an_empty_result_has_all_members(empty: Result[Any], tmp_path: Path) -> None:
    assert (empty.count(), len(empty), bool(empty)) == (0, 0, False)
    assert list(empty) == empty.head() == empty.sample() == []
    assert empty.counts().num_rows == 0
    assert empty.to_arrow() == empty.schema.empty_table()
    assert empty.write_jsonl(tmp_path / "none.jsonl") == 0
    assert empty.write_parquet(tmp_path / "none.parquet") == 0
    assert "<b>0 " in empty._repr_html_()


def test_a_run_over_graphs_tells_what_it_left_out() -> None:
    text = "SELECT ?a FROM STREAM S <urn:s> WHERE { SEQ (A) DEFINE GPM A ON S { ?a <urn:is> ?b } }"
    found = cernis.query(text, lang="spaseq").run(GRAPHS + b"nonsense\n", on_error="skip")
    assert found.notes == ("S: 1 line or event was left out",)


def test_a_count_beyond_64_bits_has_no_len() -> None:
    many = cernis.query("SELECT * FROM S WHERE A+ AS run").run([{"type": "A"}] * 64)
    assert many.count() == 2**64 - 1
    assert bool(many)
    with pytest.raises(OverflowError):
        len(many)


def test_the_len_of_counts_is_the_number_of_rows() -> None:
    counting = cernis.query("SELECT COUNT(*) FROM S WHERE A AS a ; B AS b").run(EVENTS)
    assert counting.counting
    assert len(counting) == len(list(counting)) == counting.to_arrow().num_rows == 2
    assert counting.count() == 5


def test_columns_that_parquet_lacks_are_a_mistake_in_the_data(tmp_path: Path) -> None:
    nothing = matches(pa.table({"type": ["A"], "x": pa.array([{}], pa.struct([]))}))  # no fields
    with pytest.raises(cernis.DataError, match="Parquet cannot hold these columns: Cannot write"):
        nothing.write_parquet(tmp_path / "none.parquet")
