"""SPAseQ in one process: what a run over whole files finds, whatever the pieces and restarts."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import cernis
from cernis.cli.main import main
from cernis.errors import DataError
from cernis.live.arrivals import Arrival, InputEnded
from cernis.live.inputs import InputStopped, PipeInput, TextInput
from cernis.live.prepare import LiveOptions
from cernis.live.rdf import GraphOptions, prepare_graphs
from cernis.live.run import LiveRun, Pace, resume_inputs
from cernis.live.sinks import FolderSink
from cernis.live.store import LocalStore
from cernis.rdf.query import GraphQuery
from cernis.run.session import RunOptions
from tools.cases.spaseq.corpus import SpaseqCase, comparable_match, read_cases

PAIR = """PREFIX : <http://example.org/>
SELECT ?x ?a ?b WITHIN 20 SECONDS FROM STREAM S <http://example.org/s>
WHERE { SEQ (A ; B) DEFINE GPM A ON S { ?a :k ?x } DEFINE GPM B ON S { ?b :k ?x . ?b :v ?n } }
"""
EX = "http://example.org/"
PROV = "<http://www.w3.org/ns/prov#generatedAtTime>"
DATE = "<http://www.w3.org/2001/XMLSchema#dateTime>"


class ScriptedText(TextInput):
    """Text that comes in pieces of random sizes; at `end` the process ends."""

    def __init__(self, label: str, text: bytes, chance: random.Random) -> None:
        super().__init__(label)
        self._text, self._chance = text, chance
        self.end = len(text)
        self._at = 0
        self._first: list[int] = [0, 0, 1, 0]

    def resume(self, position: Any, done: set[str]) -> None:
        self._first, self._at = position, position[0]

    def read_by(self, reader: Any) -> None:
        reader.position = type(reader.position)(*self._first)
        super().read_by(reader)

    @property
    def position(self) -> Any:
        return list(getattr(self._reader, "position", self._first))

    def read1(self, size: int) -> bytes:
        if self._at >= self.end < len(self._text):
            raise InputStopped
        piece = self._text[self._at : min(self.end, self._at + self._chance.randint(1, 400))]
        self._at += len(piece)
        return piece


def run_with_restarts(
    query: GraphQuery, files: dict[str, bytes], background: Any, folder: Path, seed: str
) -> list[dict[str, Any]]:
    """Read texts in pieces; the process ends at random bytes, with and without a commit."""
    chance = random.Random(seed)
    for attempt in range(4):
        store = LocalStore(folder / "checkpoint")
        inputs = {name: ScriptedText(name, text, chance) for name, text in files.items()}
        resume_inputs(inputs, store)
        for input_ in inputs.values():
            if attempt < 3:
                input_.end = chance.randint(min(input_._at + 1, input_.end), input_.end)
        options = LiveOptions(reading=RunOptions(time_unit="s"))
        graphs = GraphOptions(background=background, unit="s")
        try:
            prepared = prepare_graphs(query, inputs, options, "lines", graphs)
        except InputStopped:  # before the first event was whole
            store.close()
            continue
        sink = FolderSink(folder / "out", "jsonl")
        run = LiveRun(prepared, inputs, store, [sink], Pace(lateness=10**6))
        reading = {n: source.chunks(tick=1) for n, source in enumerate(prepared.sources)}
        while reading:
            number = chance.choice([*reading])
            try:
                chunk = next(reading[number])
                run.take([Arrival(number, chunk.table, chunk.time, run.inputs[number].position)])
            except StopIteration:
                run.take([InputEnded(number, position=run.inputs[number].position)])
                del reading[number]
            except InputStopped:
                break
            if chance.random() < 0.5:
                run.commit()
        if not reading:
            run.finish()
            run.commit()
            store.close()
            break
        store.close()
    lines = []
    for path in sorted((folder / "out").glob("matches-*")):
        lines += map(json.loads, path.read_text().splitlines())
    return lines


CORPUS = [
    pytest.param(
        case,
        id=f"{case.topic}: {case.name}",
        marks=[] if number % 16 == 0 else [pytest.mark.fuzz],  # `make soak` runs all of them
    )
    for number, case in enumerate(read_cases())
]


@pytest.mark.parametrize("case", CORPUS)
def test_the_corpus_has_its_answers_in_pieces_with_restarts(
    tmp_path: Path, case: SpaseqCase
) -> None:
    query = cernis.query(case.query, lang="spaseq")
    found = run_with_restarts(query, case.files(), case.knowledge() or None, tmp_path, case.name)
    case.check(comparable_match(SimpleNamespace(**line)) for line in found)


def write_event(number: int, second: int, *triples: str) -> str:
    graph = f"<{EX}g{number}>"
    date = f'"2024-01-02T10:00:{second:02}Z"^^{DATE}'
    lines = [f"{graph} {PROV} {date} .", *(f"{triple} {graph} ." for triple in triples)]
    return "".join(f"{line}\n" for line in lines)


def write_pair(number: int, second: int, *, valued: bool = False) -> str:
    subject = f"<{EX}s{number}>"
    triples = [f"{subject} <{EX}k> <{EX}x>"]
    return write_event(number, second, *triples, *([f'{subject} <{EX}v> "1"'] * valued))


def stream(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    main(["stream", PAIR, "--lang", "spaseq", "--once", *arguments])
    shown = capsys.readouterr()
    assert "error" not in shown.err
    return [json.loads(line) for line in shown.out.splitlines()]


def test_a_file_that_grows_goes_on_in_the_middle_of_an_event(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = write_pair(0, 0) + write_pair(1, 5, valued=True) + write_pair(2, 9)
    path = tmp_path / "S.nq"
    found = []
    for cut in (70, len(text) // 2, len(text)):
        path.write_text(text[:cut])
        if "g0> .\n" in text[:cut]:
            found += stream(
                capsys, "--source", str(path), "--sink", "-", "--checkpoint", f"{tmp_path}/state"
            )
    assert [line["events"] for line in found] == []  # the last graph may go on
    with path.open("a") as file:
        file.write(write_pair(3, 12))
    (line,) = stream(
        capsys, "--source", str(path), "--sink", "-", "--checkpoint", f"{tmp_path}/state"
    )
    assert line["events"] == [["S", 0], ["S", 1]]


def test_files_of_a_folder_have_numbers_that_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    arguments = ("--source", str(folder), "--sink", "-", "--checkpoint", f"{tmp_path}/state")
    (folder / "1.nq").write_text(write_pair(0, 0) + write_event(1, 3, f'<{EX}o> <{EX}p> "1"'))
    assert stream(capsys, *arguments) == []
    (folder / "2.trig").write_text(
        f'@prefix : <{EX}> . :g2 {{ :b :k :x ; :v 1 }}\n:g2 {PROV} "2024-01-02T10:00:04Z"^^{DATE} .'
    )
    (folder / "3.nq").write_text(write_pair(3, 6))
    (line,) = stream(capsys, *arguments)
    assert line["events"] == [["S", 0], ["S", 2]]


def test_silence_ends_an_event_of_a_pipe() -> None:
    reading, writing = os.pipe()
    os.write(
        writing, (write_pair(0, 0) + write_pair(1, 1, valued=True) + write_pair(2, 2)).encode()
    )
    query = cernis.query(PAIR, lang="spaseq")
    following = iter(query.follow(PipeInput(reading), idle="100ms"))
    assert next(following)["events"] == [["S", 0], ["S", 1]]
    os.close(writing)
    assert list(following) == []


def test_events_of_rdf_come_from_a_queue() -> None:
    queue = cernis.EventQueue()
    for number in range(3):
        queue.put(write_pair(number, number, valued=True))
    queue.close()
    query = cernis.query(PAIR, lang="spaseq")
    found = [line["events"] for line in query.follow(queue)]
    assert found == [[["S", 0], ["S", 1]], [["S", 1], ["S", 2]]]


def test_a_stray_triple_is_a_mistake_with_its_text() -> None:
    queue = cernis.EventQueue()
    queue.put({"type": "A"})
    query = cernis.query(PAIR, lang="spaseq")
    with pytest.raises(DataError, match="an event of RDF is text, not list"):
        list(query.follow(queue))
    reading, writing = os.pipe()
    os.write(writing, f'<{EX}a> <{EX}p> "1" .\n{write_pair(0, 0)}'.encode())
    os.close(writing)
    with pytest.raises(DataError, match=r"is about no event beside it: <http://example\.org/a>"):
        list(query.follow(PipeInput(reading)))


def test_a_live_background_is_read_again(tmp_path: Path) -> None:
    text = """PREFIX : <http://example.org/>
    SELECT ?a FROM STREAM S <http://example.org/s>
    WHERE { SEQ (A) DEFINE GPM A ON S { ?a :k ?x . GRAPH :kb { ?x :good true } } }"""
    known = tmp_path / "kb.ttl"
    known.write_text(f"<{EX}y> <{EX}good> true .")
    queue = cernis.EventQueue()
    queue.put(write_pair(0, 0))
    queue.put(write_pair(1, 1))
    query = cernis.query(text, lang="spaseq")
    run = query.follow(queue, background={f"{EX}kb": str(known)}, live=True)
    travel = run._run.prepared.travel
    known.write_text(f"<{EX}x> <{EX}good> true . <{EX}y> <{EX}good> true .")
    travel._looked = 0.0
    queue.put(write_pair(2, 2))
    queue.close()
    found = list(run)
    assert [match["events"] for match in found][-1] == [["S", 2]]
    assert all(match["background"] for match in found)
