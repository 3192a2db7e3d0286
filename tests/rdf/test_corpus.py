"""The corpus of SPAseQ on the embedded engine: files of N-Quads, and pieces with freezing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import cernis
from tools.cases.spaseq.corpus import SpaseqCase, comparable_match, read_cases

ox = pytest.importorskip("pyoxigraph")

CASES = [pytest.param(case, id=f"{case.topic}: {case.name}") for case in read_cases()]


def run(case: SpaseqCase, folder: Path) -> cernis.GraphMatches:
    """The matches in files, each named after its stream."""
    files: dict[str, Any] = {}
    for name, text in case.files().items():
        files[name] = folder / f"{name}.nq"
        files[name].write_bytes(text)
    known: dict[str, Any] = {}
    for number, (name, text) in enumerate(case.knowledge().items()):
        known[name] = folder / f"background{number}.nt"
        known[name].write_bytes(text)
    query = cernis.query(case.query, lang="spaseq")
    return query.run(files, background=known or None, time_unit="s")


def write_term(term: ox.Triple | ox.NamedNode | ox.BlankNode | ox.Literal) -> str:
    if isinstance(term, ox.Triple):
        return f"<<( {' '.join(map(write_term, term))} )>>"
    return str(term)


@pytest.mark.parametrize("case", CASES)
def test_the_engine_gives_the_answer_worked_out_by_hand(case: SpaseqCase, tmp_path: Path) -> None:
    matches = run(case, tmp_path)
    case.check(map(comparable_match, matches))
    assert matches.count() == len(case.matches)


@pytest.mark.parametrize("part", range(4))
def test_a_session_that_is_frozen_after_each_event_gives_the_same_answers(part: int) -> None:
    for case in read_cases()[part::4]:
        query = cernis.query(case.query, lang="spaseq")
        known: Any = case.knowledge() or None
        session = query.session(background=known, time_unit="s")
        texts = {name: list(split_events(text)) for name, text in case.files().items()}
        times = sorted(
            (time, name, number)
            for name, events in case.streams.items()
            for number, (time, _) in enumerate(events)
        )
        found = []
        for _, name, number in times:
            found += map(comparable_match, session.push({name: texts[name][number]}))
            session = query.thaw(session.freeze(), background=known)
        found += map(comparable_match, session.finish())
        case.check(found)


def split_events(text: bytes) -> Iterator[bytes]:
    """The events of a stream; each begins with the line of its time."""
    lines = text.splitlines(keepends=True)
    begins = [i for i, line in enumerate(lines) if b"generatedAtTime" in line]
    for begin, end in pairwise([*begins, len(lines)]):
        yield b"".join(lines[begin:end])


@pytest.mark.parametrize("case", [case for case in CASES if case.values[0].graphs is not None])
def test_construct_writes_the_graphs_worked_out_by_hand(case: SpaseqCase, tmp_path: Path) -> None:
    matches = run(case, tmp_path)
    matches.write_nquads(tmp_path / "graphs.nq")
    graphs: dict[str, set[tuple[str, str, str]]] = {}
    for quad in ox.parse(path=str(tmp_path / "graphs.nq")):
        if isinstance(quad.graph_name, ox.DefaultGraph):
            continue
        terms = [re.sub(r"^_:m\d+x", "_:", write_term(term)) for term in quad.triple]
        graphs.setdefault(str(quad.graph_name), set()).add((terms[0], terms[1], terms[2]))
    order = [case.matches.index(comparable_match(match)) for match in matches]
    assert case.graphs is not None
    assert list(graphs.values()) == [case.graphs[i] for i in order]
