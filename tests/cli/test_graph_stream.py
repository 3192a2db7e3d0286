"""`cernis stream` for SPAseQ, before Spark starts: which source is which stream, how it is read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cernis.cli.main import main
from cernis.cli.streams.plan import LinkedStreamPlan, StreamArguments, make_plan
from cernis.run.session import RunOptions

Capture = pytest.CaptureFixture[str]

TWO = """PREFIX : <http://example.org/> SELECT ?x
FROM STREAM heat <http://example.org/heat> FROM STREAM A <http://example.org/air>
WHERE { SEQ (One ; Two) DEFINE GPM One ON heat { ?a :k ?x } DEFINE GPM Two ON A { ?b :k ?x } }
"""
ONE = """PREFIX : <http://example.org/> SELECT ?x FROM STREAM S <http://example.org/s>
WHERE { SEQ (One) DEFINE GPM One ON S { ?a :k ?x } }
"""
NUMBERED = "<urn:a> <http://example.org/k> <urn:x> <urn:e:5> .\n"
STAMP = '<urn:e> <http://www.w3.org/ns/sosa/resultTime> "2024-01-01T00:00:00Z" .\n'


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CERNIS_DEBUG", raising=False)
    return iter(())


def put(folder: str, **files: str) -> None:
    Path(folder).mkdir(exist_ok=True)
    for name, text in files.items():
        Path(folder, name.replace("_", ".")).write_text(text)


def plan(query: str, *sources: str, **changes: Any) -> LinkedStreamPlan:
    unit = changes.pop("unit", None)
    reading = {name: changes.pop(name) for name in ("time", "format") if name in changes}
    given: dict[str, Any] = {
        "sink": "out",
        "checkpoint": "checkpoint",
        "schema": [],
        "row": None,
        "lateness": "0s",
        "ahead": "1h",
        "late_output": None,
        "output_format": None,
        "buckets": None,
        "trigger": None,
        "max_files": None,
        "once": True,
        "explain": False,
        "cores": None,
        "metrics": None,
    }
    options = RunOptions(**reading)
    given |= changes
    arguments = StreamArguments(
        text=query, language="spaseq", source=[*sources], reading=options, unit=unit, **given
    )
    plan = make_plan(arguments)
    assert isinstance(plan, LinkedStreamPlan)
    return plan


def test_sources_are_streams_by_name_by_their_folders_or_in_order() -> None:
    for folder in ("heat", "air", "one", "two"):
        put(folder, a_nq=NUMBERED)

    def places(*sources: str) -> list[tuple[str, str]]:
        return [(one.stream, str(one.source)) for one in plan(TWO, *sources).inputs]

    assert places("air", "heat") == [("heat", "heat"), ("A", "air")]
    assert places("one", "two") == [("heat", "one"), ("A", "two")]
    assert places("A=one", "heat=two") == [("heat", "two"), ("A", "one")]


def test_the_first_file_tells_the_form_and_the_times() -> None:
    put("numbers", a_nq=NUMBERED)
    [found] = plan(ONE, "numbers", unit="s").inputs
    assert (found.format, found.dated, found.rule.unit) == ("nq", False, "s")
    assert found.rule.pattern is not None
    put("dates", a_trig="", b_trig=STAMP + "<urn:e> { <urn:a> <urn:p> <urn:b> }")
    [found] = plan(ONE, "dates").inputs
    assert (found.format, found.dated) == ("trig", True)


def test_a_checkpoint_keeps_what_the_first_file_has_told() -> None:
    put("in", a_nq=NUMBERED)
    [before] = plan(ONE, "in", unit="s").inputs
    note = {"version": 1, "buckets": [0], "reading": {"S": before.describe()}}
    put("checkpoint", cernis_json=json.dumps(note))
    Path("in/a.nq").unlink()
    [after] = plan(ONE, "in").inputs
    assert after == before
    [asked] = plan(ONE, "in", time="graph:([0-9]+)$").inputs
    assert (asked.dated, asked.rule.pattern, asked.rule.unit) == (False, "([0-9]+)$", "s")


def test_a_topic_has_dates_unless_a_unit_is_given() -> None:
    topic = "kafka://localhost:9092/graphs"
    [found] = plan(ONE, topic, format="jsonld").inputs
    assert (found.format, found.dated, found.rule.is_decided()) == ("jsonld", True, False)
    [found] = plan(ONE, topic, unit="s", time="graph:([0-9]+)$").inputs
    assert (found.dated, found.rule.pattern, found.rule.unit) == (False, "([0-9]+)$", "s")
    [found] = plan(ONE, topic, time="kafka_timestamp").inputs
    assert found.arrived


def test_events_of_the_first_file_may_be_out_of_order() -> None:
    put("in", a_nq=NUMBERED + NUMBERED.replace(":5", ":3"))
    assert plan(ONE, "in", unit="s").inputs[0].rule.pattern is not None


def test_each_new_version_of_the_background_is_told_once(tmp_path: Path) -> None:
    put("in", a_nq=NUMBERED)
    Path("kb.ttl").write_text("")
    made = plan(ONE, "in", background=("urn:kb=kb.ttl",), live=True)
    notes = Path("checkpoint", "cernis-background", "batches")
    notes.mkdir(parents=True)
    told = {0: ("v1", None), 1: ("v1", None), 3: ("v2", None), 4: ("v2", "kb.ttl: no Turtle")}
    for batch, (version, problem) in told.items():
        note = {"version": version, "read": f"now {batch}", "problem": problem}
        Path(notes, f"{batch:012}").write_text(json.dumps(note))
    said = [
        note
        for batch in (0, 1, 2, 3, 4, 0, 3, 4)
        for note in made.describe_batch(SimpleNamespace(batch=batch))  # type: ignore[arg-type]
    ]
    assert said == [
        "background v1, from micro-batch 0 on",
        "background v2, from micro-batch 3 on",
        "the background is still v2: kb.ttl: no Turtle",
    ]


def run(*arguments: str) -> int:
    Path("q.spaseq").write_text(ONE)
    Path("two.spaseq").write_text(TWO)
    query = "two.spaseq" if "two" in arguments else "q.spaseq"
    own = [argument for argument in arguments if argument != "two"]
    return main(
        ["stream", query, "--engine", "spark", "--checkpoint", "checkpoint", "--sink", "out", *own]
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-s", "none"], "none: no such folder"),
        (["-s", "empty"], "empty: no file in it tells their form by its suffix; name one with"),
        (["-s", "mixed"], "mixed: has files of nq and trig; keep them in folders of their own"),
        (["-s", "in", "--format", "csv"], "--format csv: RDF streams are nquads, trig or jsonld"),
        (["-s", "in", "--schema", "a int"], "--schema: RDF has no columns"),
        (["-s", "in", "--row", "n"], "--row: RDF has no columns; messages and files number"),
        (["-s", "in", "--table", "t=x.csv"], "--table: SPAseQ joins background knowledge"),
        (["-s", "in", "--output-format", "nq"], "only CONSTRUCT makes graphs; this query SELECTs"),
        (["-s", "T=in"], "the query has no stream 'T'; it has S"),
        (["-s", "in", "-s", "mixed"], "the query reads 1 stream (S), and there are 2 sources"),
        (["two", "-s", "A=in", "-s", "mixed"], "mixed: name the streams of all sources, as NAME="),
        (["-s", "in", "--background", "no.ttl"], "no.ttl: cannot be read: No such file"),
        (["-s", "in", "--checkpoint", "in/c"], "--checkpoint in/c lies in --source in"),
    ],
)
def test_mistakes_are_told_before_spark_starts(
    arguments: list[str], message: str, capfd: Capture
) -> None:
    put("in", a_nq=NUMBERED)
    put("empty")
    put("mixed", a_nq=NUMBERED, a_trig="")
    assert run(*arguments) == 1
    assert message in capfd.readouterr().err


def test_graphs_and_background_are_for_spaseq(capfd: Capture) -> None:
    text = "SELECT * FROM S WHERE A"
    options = ["--source", "in", "--checkpoint", "c", "--sink", "out"]
    assert main(["stream", text, *options, "--background", "x.ttl"]) == 2
    assert "--background: is for RDF queries" in capfd.readouterr().err
    assert main(["stream", text, *options, "--output-format", "nq"]) == 2
    assert "nq is for the graphs of CONSTRUCT" in capfd.readouterr().err
