"""The tables of a grammar: those of the package, and those that are kept between processes."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from cernis.languages.conjunctive.tree import ConjunctiveReader
from cernis.languages.text import tables
from cernis.languages.text.read import read_rules, read_tokens


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a process with another version of Lark."""
    monkeypatch.setattr(tables, "own_folder", lambda: tmp_path)
    monkeypatch.setattr(tables, "lark_version", "0")
    return tmp_path


def parse() -> Any:
    """Parse a query, as a new process does."""
    reader = ConjunctiveReader("Q(x) <- R(x), S(x) WITHIN 3 EVENTS")
    syntax = replace(import_module("cernis.languages.conjunctive.parse").SYNTAX)
    return read_rules(syntax, syntax.start[0], read_tokens(syntax, reader.source), reader)


@pytest.mark.parametrize("language", ["ceql", "conjunctive", "spaseq"])
def test_the_package_has_the_tables_that_lark_builds(language: str) -> None:
    grammar = import_module(f"cernis.languages.{language}.parse").SYNTAX.grammar
    assert grammar.find_shipped() is not None, "run: make pages"
    shipped, built = grammar.load(), grammar.build()
    assert {*shipped.rules} == {*built.rules}
    assert {*map(repr, shipped.terminals)} == {*map(repr, built.terminals)}
    assert shipped.options.options == built.options.options


def test_a_process_with_the_lark_of_the_package_builds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "own_folder", lambda: tmp_path)
    parse()
    assert not list(tmp_path.iterdir())


def test_a_second_process_loads_the_tables_of_the_first(folder: Path) -> None:
    first = parse()
    (file,) = folder.iterdir()
    written = file.stat().st_mtime_ns
    assert parse() == first
    assert list(folder.iterdir()) == [file]
    assert file.stat().st_mtime_ns == written


@pytest.mark.parametrize("kept", [0, 10, 200])
def test_damaged_tables_are_built_anew(folder: Path, kept: int) -> None:
    first = parse()
    (file,) = folder.iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[:kept])
    assert parse() == first
    assert file.stat().st_size > len(whole) // 2


def test_without_a_place_for_them_the_tables_are_built_in_memory(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "own_folder", lambda: None)
    parse()
    assert not list(folder.iterdir())


def test_a_folder_that_cannot_be_written_to_is_no_mistake(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "own_folder", lambda: folder / "missing")
    parse()
