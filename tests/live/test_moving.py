"""A stream moves to a host of micro-batches and back: as if it had run in one process."""

from __future__ import annotations

import json
import os
import pickle
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cernis
from cernis.errors import CernisError
from cernis.live.inputs import FileInput, FolderInput, LiveInput
from cernis.live.moving import CameTo, read_in_tasks, take_back, was_taken_back
from cernis.live.prepare import LiveOptions, Prepared, prepare_query
from cernis.live.run import LiveRun, Pace, resume_inputs
from cernis.live.sinks import FolderSink
from cernis.live.store import LocalStore
from cernis.run.session import RunOptions
from cernis.work import bucket
from cernis.work.carriers import read_blob, write_blob
from cernis.work.moving import StatePiece, StatePieces, list_pieces
from cernis.work.report import BucketCall

PAIRS = "SELECT * FROM S WHERE A AS a ; B AS b FILTER a[v] < b[v] PARTITION BY [k] WITHIN 9 SECONDS"
QUERIES = (
    PAIRS,
    f"{PAIRS} CONSUME BY PARTITION",
    "SELECT * FROM S WHERE A AS a ; A AS b PARTITION BY [k] FORGET AFTER 30 SECONDS",
    "SELECT * FROM S WHERE A AS a WITHOUT B FOR 3 SECONDS PARTITION BY [k] WITHIN 1 SECOND",
    "SELECT EVERY, COUNT(*) FROM S WHERE A AS a ; B AS b WITHIN 4 SECONDS GROUP BY EVERY 5 SECONDS",
)
_SHIFT = 2**43


class Elsewhere:
    """A host of micro-batches, which knows a stream by its state and its positions alone."""

    def __init__(self, pieces: Sequence[StatePiece], prepared: Prepared, read: Any) -> None:
        self.pieces = {(kind, number): content for kind, number, content in pieces}
        self.stream = replace(prepared.buckets, finds_late=True, shift=_SHIFT)
        self.read, self.watermark = pickle.loads(pickle.dumps(read)), 0
        self.lines: list[str] = []
        self.seen = {*read.inputs["S"].done}

    # the store of the bucket

    def header(self) -> bytes | None:
        return self.pieces.get(("header", 0))

    def put_header(self, header: bytes) -> None:
        self.pieces["header", 0] = header

    def chunk(self, number: int) -> bytes | None:
        return self.pieces.get(("chunk", number))

    def put_chunk(self, number: int, chunk: bytes) -> None:
        self.pieces["chunk", number] = chunk

    def drop_chunk(self, number: int) -> None:
        del self.pieces["chunk", number]

    def snapshot(self) -> tuple[bytes, bytes] | None:
        return self.pieces["session", 0], self.pieces["waiting", 0]

    def put_snapshot(self, session: bytes, waiting: bytes) -> None:
        self.pieces["session", 0], self.pieces["waiting", 0] = session, waiting

    def take(self, paths: Sequence[Path], *, forgets: bool) -> None:
        """Run a micro-batch over files, maybe in a worker that knows nothing."""
        if forgets:
            bucket._live.clear()
        batch = pa.record_batch({"path": [f"file:{path}" for path in paths]})
        read = [*self.read(0, batch)]
        blobs = [write_blob(table) for table, _ in read]
        call = BucketCall(0, blobs, self.watermark, lambda *_: None)
        for answer in self.stream.run(self, call):
            if answer.found is not None:
                self.lines += read_blob(answer.found).column("line").to_pylist()
        last = max((int(ticks.max()) for _, ticks in read), default=0)
        self.watermark = max(self.watermark, last + _SHIFT if last else 0)


def write_file(folder: Path, number: int, rows: Sequence[tuple[str, int, int, int]]) -> Path:
    path = folder / f"{number:03}.jsonl"
    names = ("type", "ts", "v", "k")
    path.write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows))
    os.utime(path, (number, number))
    return path


def start(input_: LiveInput, query: str, folder: Path) -> tuple[LiveRun, LocalStore]:
    store, inputs = LocalStore(folder / "checkpoint"), {"S": input_}
    resume_inputs(inputs, store)
    options = LiveOptions(reading=RunOptions(time_unit="ms"))
    prepared = prepare_query(cernis.query(query), inputs, options, "lines")
    return LiveRun(prepared, inputs, store, [FolderSink(folder / "out", "jsonl")], Pace()), store


def run_here(query: str, folder: Path, *, last: bool = False) -> None:
    run, store = start(FolderInput(folder / "in", once=True), query, folder)
    run.run(lambda: False)
    if last:
        run.finish()
        run.commit()
    store.close()


def read_lines(lines: Sequence[str]) -> Counter[str]:
    return Counter(json.dumps(json.loads(line), sort_keys=True) for line in lines)


def read_out(folder: Path) -> list[str]:
    return [n for path in (folder / "out").glob("[!.]*") for n in path.read_text().splitlines()]


@settings(max_examples=max(6, settings.default.max_examples // 10), deadline=None)
@given(st.data(), st.sampled_from(QUERIES[:-1]))
def test_a_stream_that_moves_up_and_down_finds_what_it_finds_in_one_process(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, query: str
) -> None:
    steps = data.draw(st.lists(st.sampled_from(("here", "there", "there")), min_size=2, max_size=8))
    chance = np.random.default_rng(data.draw(st.integers(0, 2**30)))
    moved, plain = tmp_path_factory.mktemp("moved"), tmp_path_factory.mktemp("plain")
    (moved / "in").mkdir()
    (plain / "in").mkdir()
    host, lines, time = None, list[str](), 1000
    for number, step in enumerate(["here", *steps]):
        rows = []
        for _ in range(int(chance.integers(1, 12))):
            time += int(chance.integers(1, 3)) * 1000
            kind, value, key = chance.choice(["A", "B"]), chance.integers(5), chance.integers(2)
            rows.append((str(kind), time, int(value), int(key)))
        path = write_file(moved / "in", number, rows)
        write_file(plain / "in", number, rows)
        if step == "there" and host is None:
            run, store = start(FolderInput(moved / "in", once=True), query, moved)
            read = read_in_tasks(run.prepared, {"S": run.inputs[0]}, has_text=False)
            host = Elsewhere([*list_pieces(store, b"")], run.prepared, read)
            store.close()
        if step == "there" and host is not None:
            host.seen.add(path.name)
            host.take([path], forgets=bool(chance.integers(2)))
        elif host is not None:
            come_back(host, moved)
            lines, host = lines + host.lines, None
        if step == "here":
            run_here(query, moved)
    if host is not None:
        come_back(host, moved)
        lines += host.lines
    run_here(query, moved, last=True)
    run_here(query, plain, last=True)
    assert read_lines(lines + read_out(moved)) == read_lines(read_out(plain))


def come_back(host: Elsewhere, folder: Path) -> None:
    pieces, store = StatePieces(), LocalStore(folder / "checkpoint")
    for (kind, number), content in host.pieces.items():
        pieces.put(StatePiece(kind, number, content))
    positions = {str(folder / "in"): (["", 0], host.seen)}
    watermark = max(0, host.watermark - _SHIFT)
    take_back(store, b"", CameTo("run", pieces, positions, watermark, {}), 0)
    assert was_taken_back(store, "run")
    store.close()


def test_a_file_that_grows_does_not_move(tmp_path: Path) -> None:
    path = write_file(tmp_path, 0, [("A", 1, 1, 1)])
    run, store = start(FileInput(path, once=True), PAIRS, tmp_path)
    with pytest.raises(CernisError, match="only a folder or a topic moves to Spark"):
        read_in_tasks(run.prepared, {"S": run.inputs[0]}, has_text=False)
    store.close()
