"""What the arguments of a command stand for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer

from cernis.cli.arguments import (
    RunArguments,
    by_stream,
    check_output,
    find_rules,
    named_columns,
    named_files,
    named_graphs,
    named_tables,
    read_query,
)
from cernis.errors import CernisError
from cernis.run.session import RunOptions
from cernis.spark.streaming.sources import decide_inputs, parse_sources

QUERY = "SELECT * FROM S WHERE A"


def test_a_query_is_read_from_a_file_that_exists(tmp_path: Path) -> None:
    file = tmp_path / "a query.ceql"
    file.write_text("\ufeff" + QUERY, encoding="utf-8")
    assert read_query(str(file)) == (QUERY, "ceql")


def test_a_text_with_spaces_is_the_query_itself() -> None:
    for text in (QUERY, "SELECT *\n" + "x" * 100_000, "SELECT \0"):
        assert read_query(text) == (text, "ceql")
        assert read_query(text, "cq") == (text, "cq")


@pytest.mark.parametrize(
    ("name", "language"), [("q.cq", "cq"), ("q.ceql", "ceql"), ("q.txt", "ceql"), ("q", "ceql")]
)
def test_the_suffix_of_a_file_tells_its_language(tmp_path: Path, name: str, language: str) -> None:
    file = tmp_path / name
    file.write_text(QUERY)
    assert read_query(str(file)) == (QUERY, language)


def test_a_file_without_a_known_suffix_is_in_the_language_that_was_asked_for(
    tmp_path: Path,
) -> None:
    for name, language in (("q.txt", "cq"), ("q.ceql", "ceql")):
        (tmp_path / name).write_text(QUERY)
        assert read_query(str(tmp_path / name), "cq") == (QUERY, language)


@pytest.mark.parametrize("name", ["nothing.ceql", "my query.ceql", "nothing"])
def test_a_file_that_is_not_there_is_said_so(name: str) -> None:
    with pytest.raises(CernisError) as caught:
        read_query(name)
    assert str(caught.value) == f"{name}: no such file (a query as text contains spaces)"


def test_an_empty_text_is_an_empty_query_and_not_the_present_folder() -> None:
    assert read_query("") == ("", "ceql")
    assert find_rules("") is None


def test_an_empty_name_is_no_file() -> None:
    for argument in ("", "S="):
        with pytest.raises(CernisError) as caught:
            named_files([argument])
        there = "'.' is the folder where you are"
        assert str(caught.value) == f"{argument!r} names no file of events; {there}"
    with pytest.raises(CernisError, match=r"^--table t=: expected NAME=FILE$"):
        named_tables(["t="])


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "large.ceql"
    file.write_bytes(b" " * (2**20 + 1))
    with pytest.raises(CernisError, match=r"large\.ceql: larger than 1 MiB, which no query needs"):
        read_query(str(file))


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "q.ceql"
    file.write_bytes(b"SELECT \xff")
    with pytest.raises(CernisError, match=r"q\.ceql: not UTF-8 text at byte 7"):
        read_query(str(file))


def test_a_directory_is_no_query(tmp_path: Path) -> None:
    with pytest.raises(CernisError, match="is a directory, not a query"):
        read_query(str(tmp_path))


def test_the_suffix_tells_the_language(tmp_path: Path) -> None:
    for suffix in ("ceql", "cq", "spaseq"):
        file = tmp_path / f"q.{suffix}"
        file.write_text("?")
        assert read_query(str(file)) == ("?", suffix)


def test_background_has_the_name_of_its_graph_or_none() -> None:
    assert named_graphs(["kb.ttl", "more.nq"]) == [Path("kb.ttl"), Path("more.nq")]
    assert named_graphs(["http://x.org/a=kb.ttl", "http://x.org/a=more.ttl"]) == {
        "http://x.org/a": [Path("kb.ttl"), Path("more.ttl")]
    }
    with pytest.raises(CernisError, match="name the graph of each file of background knowledge"):
        named_graphs(["http://x.org/a=kb.ttl", "more.nq"])


def test_files_may_be_named() -> None:
    assert named_files(["a.csv", "b.csv"]) == [Path("a.csv"), Path("b.csv")]
    assert named_files(["S=a.csv", "data/b.csv.gz"]) == {
        "S": Path("a.csv"),
        "b": Path("data/b.csv.gz"),
    }
    assert named_files(["dir/x=1/a.csv"]) == [Path("dir/x=1/a.csv")]


def test_a_file_with_an_equals_sign_that_exists_is_that_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a=b.csv").touch()
    assert named_files(["a=b.csv"]) == [Path("a=b.csv")]


def test_one_stream_can_have_several_files() -> None:
    several = [Path("a.csv"), Path("b.csv"), Path("-")]
    assert named_files(["S=a.csv", "S=b.csv", "S=-"]) == {"S": several}


def test_options_by_stream_are_dicts() -> None:
    assert by_stream([]) is None
    assert by_stream(["at"]) == "at"
    assert by_stream(["a=ts1", "b=ts2"]) == {"a": "ts1", "b": "ts2"}
    assert by_stream(["http://example.org/?a=b"]) == "http://example.org/?a=b"
    assert named_columns(["S=type, ts", "x"]) == {"S": ["type", "ts"], "*": ["x"]}
    with pytest.raises(CernisError, match=r"^two columns for 'a': ts1 and ts2$"):
        by_stream(["a=ts1", "a=ts2"])


def test_the_form_of_the_output_is_known_before_the_work(tmp_path: Path) -> None:
    check_output(None)
    check_output("-")
    check_output(str(tmp_path / "m.parquet"))
    with pytest.raises(typer.BadParameter, match="told by its suffix"):
        check_output("m.txt")
    with pytest.raises(CernisError, match="there is no directory"):
        check_output(str(tmp_path / "none" / "m.jsonl"))


def test_what_rdf_streams_do_not_have_is_refused() -> None:
    for given, said in (
        (
            {"options": RunOptions(delimiter=";")},
            "--columns, --delimiter and --quote are for CSV, not for RDF streams",
        ),
        (
            {"options": RunOptions(time={"S": "p"})},
            "--time NAME=COLUMN: RDF streams have one rule for their times",
        ),
        (
            {"files": {"S": [Path("a.nq"), Path("b.nq")]}},
            "RDF streams have one file each; name them apart with NAME=FILE",
        ),
    ):
        arguments: dict[str, Any] = {"files": [], "options": RunOptions(), **given}
        with pytest.raises(CernisError) as error:
            RunArguments(text="", language="spaseq", **arguments).reading_graphs  # noqa: B018
        assert str(error.value) == said


def test_topics_have_no_form_of_csv() -> None:
    reading = RunOptions(columns=["type", "ts"])
    with pytest.raises(CernisError) as error:
        decide_inputs(parse_sources(["kafka://host:9092/t"]), ("t",), None, {}, reading)
    assert str(error.value) == (
        "kafka://host:9092/t: columns, delimiter and quote are for files, not for topics"
    )
