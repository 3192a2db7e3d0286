"""The samples: their numbers are true, and every query to try runs and finds something."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from cernis.serve.check import KnownData, diagnose
from cernis.serve.data import EventData
from cernis.serve.failure import RequestError
from cernis.serve.rdf import GraphData
from cernis.serve.runs import HeldRun
from cernis.serve.samples import SAMPLES, Sample, load_sample
from cernis.serve.worker import make_run
from tools.cases.spaseq.corpus import write_stream
from tools.cases.spaseq.grammar import iri, number

SMALL = [sample for sample in SAMPLES if sample.rows <= 20_000]


@pytest.mark.parametrize("sample", SMALL, ids=lambda sample: sample.id)
def test_a_sample_has_the_streams_and_rows_that_the_list_says(sample: Sample) -> None:
    described = load_sample(sample.id).describe()
    assert tuple(stream["name"] for stream in described["streams"]) == sample.streams
    assert sum(stream["rows"] for stream in described["streams"]) == sample.rows
    assert sum(described["density"]["bins"]) == sample.rows


@pytest.mark.parametrize(
    ("sample", "turn"),
    [(sample, i) for sample in SMALL for i in range(len(sample.queries))],
    ids=lambda value: getattr(value, "id", value),
)
def test_a_query_to_try_has_no_mistake_and_finds_something(sample: Sample, turn: int) -> None:
    data, query = load_sample(sample.id), sample.queries[turn]
    known = KnownData.of(data.write_schema()) if isinstance(data, EventData) else None
    assert diagnose(query.language, query.text, known) == []
    run = make_run(query.language, query.text, data, 1 << 30)
    summary = run.summarize()
    assert int(summary["count"]) > 0
    certain = "17 matches are left out: their deadline lies after the last event"
    notes = [note["text"] for note in summary["notes"]]
    assert [note for note in notes if not note.startswith(certain)] == []
    assert len(notes) == (sample.id == "taxis" and turn == 0)
    page = run.page(0, 5)
    assert 0 < len(page["rows"]) <= 5
    assert len(page["rows"][0]["values"]) == len(page["columns"])
    rows = [row for several in page["rows"][0]["events"].values() for row in several]
    events = run.list_events(rows)["events"]
    assert [event["row"] for event in events] == rows
    if run.kind == "graphs":
        check_steps(run, page["rows"][0]["end_row"], rows)
    assert sum(map(int, run.timeline(None, None, 50, "type")["ends"]["bins"])) in (
        int(summary["count"]),
        0,  # answers and groups are not on the line of time
    )


def test_graphs_of_a_stream_that_the_query_does_not_read_move_nothing() -> None:
    def write(stream: str, moments: list[int]) -> bytes:
        graph = [(iri("n"), iri("p"), number(1))]
        return write_stream(stream, [(moment, graph) for moment in moments])

    data = GraphData({"a": write("a", [2, 4]), "b": write("b", [1, 3])})
    text = """SELECT * FROM STREAM a <urn:a> WHERE { SEQ (A : B)
      DEFINE GPM A ON a { ?s ?p 1 } DEFINE GPM B ON a { ?s ?p 1 } }"""
    run = make_run("spaseq", text, data, 1 << 30)
    steps = [run.step(row) for row in range(4)]
    assert [len(step["taken"]) for step in steps] == [0, 1, 0, 2]
    assert [step["completed"] for step in steps] == ["0", "0", "0", "1"]
    assert [one["partial"] for step in steps[1:3] for one in step["states"]] == ["1", "1"]
    assert run.explain_rows([1, 3])["matches"]
    with pytest.raises(RequestError, match="the query does not read the stream b"):
        run.explain_rows([0, 1])


def check_steps(run: HeldRun, end: int, rows: Sequence[int]) -> None:
    """Check the last event of a match of graphs, the automaton, and why its events are a match."""
    step = run.step(end)
    assert int(step["completed"]) > 0
    assert step["taken"]
    automaton = run.draw_automaton(counted=True)
    assert automaton is not None
    assert automaton["counted"] == min(run.events, 1500)
    assert {one["state"] for one in step["states"]} <= {one["id"] for one in automaton["states"]}
    assert run.explain_rows(rows)["matches"]
    broken = run.explain_rows([row for row in range(end + 1) if row not in rows][:2])
    assert not broken["matches"]
    assert broken["stopped_at"] in [one["row"] for one in broken["steps"]]
