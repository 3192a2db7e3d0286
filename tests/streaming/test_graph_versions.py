"""The versions of a live background on streams: one for each micro-batch, also if it runs again."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cernis.errors import CernisError, DataError, StateError
from cernis.rdf.query import GraphQuery
from cernis.rdf.reading.live_background import BackgroundFile
from cernis.spark.rdf import solve
from cernis.spark.rdf import versions as v
from cernis.spark.rdf.files import check_knowledge
from cernis.spark.rdf.layout import choose_solution_stream_layout
from cernis.spark.rdf.recognize import RdfOptions, check_live, recognize_rdf_stream
from cernis.spark.rdf.solve import SolutionSpreader, SolutionWork
from cernis.spark.streaming.packing import pack_buckets
from cernis.work.bucket import BucketWork, restore_bucket
from cernis.work.rdf import solution_answer_schema
from tools.cases.state_store import MemoryStore

QUERY = """PREFIX : <urn:x:> SELECT ?who ?place {} FROM STREAM S <urn:s>
WHERE {{ SEQ (In ; Out)
  DEFINE GPM In ON S {{ ?who :enters ?door GRAPH :plan {{ ?door :leads ?place }} }}
  DEFINE GPM Out ON S {{ ?who :leaves ?door }} }}
"""
KITCHEN = "<urn:x:d1> <urn:x:leads> <urn:x:kitchen> .\n"
CELLAR = "<urn:x:d1> <urn:x:leads> <urn:x:cellar> .\n"
SECOND = 10**9


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.ttl"
    path.write_text(KITCHEN)
    return path


def put(path: Path, text: str) -> None:
    path.with_suffix(".new").write_text(text)
    os.replace(path.with_suffix(".new"), path)


def forget() -> None:
    """Begin a new process, as far as this module sees."""
    solve._solvers.clear()
    v._files.clear()
    v._last.clear()


@pytest.fixture(autouse=True)
def _new_process() -> None:
    forget()


def folder(plan: Path) -> v.VersionFolder:
    return v.VersionFolder(str(plan.parent / "c"), (BackgroundFile("urn:x:plan", str(plan)),))


def accept(content: Any) -> None:
    """Nothing is wrong with it."""


def refuse(content: Any) -> None:
    raise DataError("it is no Turtle")


# ------------------------------------------------------------------------ notes


def test_a_micro_batch_that_runs_again_has_its_version(plan: Path) -> None:
    versions = folder(plan)
    first = versions.pin(0, accept)
    put(plan, CELLAR)
    second = versions.pin(1, accept)
    assert first.version != second.version
    for _ in range(2):
        assert (versions.pin(0, refuse), versions.pin(1, refuse)) == (first, second)
        forget()
    assert versions.read(first.version).contents == (KITCHEN.encode(),)
    put(plan, KITCHEN)
    assert versions.pin(2, accept).version == first.version


def test_files_that_cannot_be_read_leave_the_version_before(plan: Path) -> None:
    versions = folder(plan)
    with pytest.raises(DataError, match="no Turtle"):
        versions.pin(0, refuse)
    first = versions.pin(0, accept)
    put(plan, CELLAR)
    note = versions.pin(1, refuse)
    assert (note.version, note.problem) == (first.version, "it is no Turtle")
    plan.unlink()
    note = versions.pin(2, accept)
    assert note.version == first.version
    assert "cannot be read" in str(note.problem)
    put(plan, CELLAR)
    assert versions.pin(3, accept).problem is None


def test_the_first_task_decides_for_all(plan: Path) -> None:
    versions = folder(plan)

    def change(content: Any) -> None:
        forget()
        put(plan, CELLAR)
        other = folder(plan).pin(0, accept)  # another task is faster
        assert other.version != content.version

    note = versions.pin(0, change)
    assert versions.read(note.version).contents == (CELLAR.encode(),)


def test_a_version_that_is_gone_is_an_error_that_says_so(plan: Path) -> None:
    versions = folder(plan)
    note = versions.pin(0, accept)
    where = plan.parent / "c" / v.FOLDER
    (where / "versions" / note.version / "0.ttl").write_text(CELLAR)
    with pytest.raises(StateError, match="another version lies there"):
        versions.read(note.version)
    shutil.rmtree(where / "versions" / note.version)
    with pytest.raises(StateError, match=f"version {note.version} of the background, with which"):
        versions.read(note.version)
    (where / "batches" / f"{0:012}").write_text("{}")
    with pytest.raises(StateError, match="the checkpoint is damaged"):
        versions.pin(0, accept)


def test_old_notes_and_versions_are_dropped(plan: Path) -> None:
    versions = folder(plan)
    for batch in range(0, 301, 10):
        put(plan, KITCHEN + f"<urn:x:a> <urn:x:b> {batch} .")
        versions.pin(batch, accept)
    where = plan.parent / "c" / v.FOLDER
    assert len([*(where / "batches").iterdir()]) == len([*(where / "versions").iterdir()]) == 11


# ---------------------------------------------------------------------- matches


def make_rows(*events: tuple[int, str, str]) -> pa.Table:
    iri = "<urn:x:{}>".format
    rows = [
        {
            "stream": "S",
            "number": at,
            "ts": at * SECOND,
            "triples": [{"s": iri(who), "p": iri(does), "o": iri("d1")}],
        }
        for at, who, does in events
    ]
    triple = pa.struct({"s": pa.string(), "p": pa.string(), "o": pa.string()})
    fields = {"stream": pa.string(), "number": pa.int64(), "ts": pa.int64()}
    return pa.Table.from_pylist(rows, schema=pa.schema({**fields, "triples": pa.list_(triple)}))


class Live:
    """A query with a live background, in one bucket."""

    def __init__(self, plan: Path, within: str, monkeypatch: pytest.MonkeyPatch) -> None:
        query = GraphQuery(QUERY.format(within))
        work = SolutionWork(
            plan=query.plan,
            background=check_knowledge(query, plan),
            unit="s",
            numeric_times=True,
            layout=choose_solution_stream_layout(query.plan),
            tasks=1,
            form="lines",
            checkpoint=str(plan.parent / "c"),
        )
        work = replace(work, schema=solution_answer_schema(work))
        window = query.plan.window
        self.work = BucketWork(work=work, query="q", buckets=(0,), window=window)
        self.spread = SolutionSpreader(work, (0,), False)
        self.store = MemoryStore()
        self.now = 0
        monkeypatch.setattr("cernis.spark.rdf.solve.find_batch", lambda: self.now)

    def batch(
        self, number: int, rows: pa.Table, watermark: int, *, fails: bool = False
    ) -> list[Any]:
        self.now = number
        blobs = [
            blob.as_py()
            for solved in self.spread(rows)
            for packed in pack_buckets(solved, 0)
            for blob in packed["blob"]
        ]
        store = self.store.copy() if fails else self.store
        bucket = restore_bucket(self.work, 0, store, None)
        call: Callable[[Any, Any], None] = lambda before, after: None  # noqa: E731
        batches = [*bucket.take(store, blobs, 1000 * watermark, call)]
        lines = [json.loads(line) for batch in batches for line in batch["line"].to_pylist()]
        return [(line["bindings"]["place"], line["background"]) for line in lines]


@pytest.mark.parametrize("within", ["", "WITHIN 50 SECONDS"])
def test_matches_have_the_versions_of_their_events_also_after_a_restart(
    within: str, plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cernis.work.log.SMALLEST_SNAPSHOT", 1)
    live = Live(plan, within, monkeypatch)
    versions = folder(plan)
    assert live.batch(0, make_rows((1, "ann", "enters")), 0) == []
    kitchen = versions.pin(0, accept).version
    rows = make_rows((2, "bob", "enters"), (3, "ann", "leaves"), (4, "bob", "leaves"))
    put(plan, CELLAR)
    failed = live.batch(1, rows, 0, fails=True)
    cellar = versions.pin(1, accept).version
    put(plan, KITCHEN)  # before the micro-batch runs again
    forget()
    assert live.batch(1, rows, 0) == failed == []
    found = live.batch(2, make_rows((9, "eve", "enters")), 9)
    assert found == [
        ("<urn:x:kitchen>", [kitchen, cellar]),
        ("<urn:x:cellar>", [cellar, cellar]),
    ]


def test_a_live_background_needs_files_and_a_checkpoint(plan: Path) -> None:
    for background, message in ((None, "there is no background"), (b"", "is a file, not bytes")):
        with pytest.raises(CernisError, match=message):
            check_live(RdfOptions(background=background))
    with pytest.raises(CernisError, match="needs checkpoint=, a folder that all machines see"):
        check_live(RdfOptions(background=plan))
    with pytest.raises(CernisError, match="needs checkpoint="):
        check_live(RdfOptions(background=plan, checkpoint="s3://bucket/c"))


def test_versions_of_the_background_do_not_go_with_a_secret() -> None:
    text = "SELECT ?a FROM STREAM S <urn:s> WHERE { SEQ (A) DEFINE GPM A ON S { ?a ?b ?c } }"
    options = RdfOptions(time_unit="s", live=True, secret="0123456789abcdef")
    nothing: Any = None
    with pytest.raises(CernisError) as raised:
        recognize_rdf_stream(nothing, GraphQuery(text), {}, options)
    assert str(raised.value) == (
        "secret= does not go with live background: its versions in the checkpoint are not signed"
    )
