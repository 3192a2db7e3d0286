"""Inputs that grow: files with rotation, folders, pipes; what is late; silence."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np
import pytest

import cernis
from cernis.errors import CernisError, DataError
from cernis.live.clock import EventClock
from cernis.live.inputs import (
    FileInput,
    FolderInput,
    InputStopped,
    LiveInput,
    PipeInput,
    SocketInput,
)
from cernis.live.prepare import LiveOptions, prepare_query
from cernis.live.run import LiveRun, Pace, resume_inputs
from cernis.live.sinks import FolderSink, LineSink
from cernis.live.store import LocalStore
from cernis.live.topics import TopicInput
from cernis.work.endpoints import Topic

PAIRS = "SELECT * FROM S WHERE A AS a ; A AS b WITHIN 1 SECOND"


class Watched:
    """A run in a thread, with the lines that it has put out."""

    def __init__(
        self,
        input_: LiveInput,
        query: str = PAIRS,
        folder: Path | None = None,
        **pace: Any,
    ) -> None:
        self.lines: list[dict[str, Any]] = []
        self._stopping = False
        store, inputs = LocalStore(folder), {"S": input_}
        resume_inputs(inputs, store)
        prepared = prepare_query(cernis.query(query), inputs, LiveOptions(), "lines")
        aside = pace.pop("aside", [])
        self.run = LiveRun(prepared, inputs, store, [LineSink(self._take), *aside], Pace(**pace))
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.run.run(lambda: self._stopping)
        except Exception as error:
            self.error = error
        self.run.store.close()

    def _take(self, lines: bytes) -> None:
        self.lines += map(json.loads, lines.splitlines())

    def wait_for(self, number: int) -> list[dict[str, Any]]:
        wait_until(lambda: len(self.lines) >= number or self.error is not None)
        return self.lines

    def end(self) -> list[dict[str, Any]]:
        self._stopping = True
        self._thread.join()
        if self.error is not None:
            raise self.error
        return self.lines


def wait_until(holds: Callable[[], bool]) -> None:
    began = monotonic()
    while not holds():
        assert monotonic() < began + 120, "nothing has come"
        sleep(0.005)


def event(time: int, kind: str = "A", **more: Any) -> str:
    return json.dumps({"type": kind, "ts": time, **more}) + "\n"


def append(path: Path, *lines: str) -> None:
    with open(path, "a") as file:
        file.writelines(lines)


def test_a_match_is_there_while_the_pipe_is_open() -> None:
    reading, writing = os.pipe()
    os.write(writing, event(0).encode())
    watched = Watched(PipeInput(reading))
    os.write(writing, event(500).encode())
    assert [line["end_ts"] for line in watched.wait_for(1)] == [500]
    os.close(writing)
    assert len(watched.end()) == 1


def test_a_socket_is_read_until_the_server_closes_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        watched: list[Watched] = []
        opening = threading.Thread(
            target=lambda: watched.append(Watched(SocketInput(*server.getsockname())))
        )
        opening.start()
        connection, _ = server.accept()
        with connection:
            connection.sendall(event(0).encode())
            opening.join()
            connection.sendall(event(500).encode())
            assert [line["end_ts"] for line in watched[0].wait_for(1)] == [500]
            connection.sendall(event(900).encode())
    wait_until(lambda: not watched[0].run.arrivals.running)
    assert [line["end_ts"] for line in watched[0].end()] == [500, 900, 900]


def test_a_signal_does_not_wait_for_a_topic_whose_broker_is_away() -> None:
    input_ = TopicInput(Topic("127.0.0.1:9", "away"))
    input_.stop()
    with pytest.raises(InputStopped):
        input_.read1(1000)
    input_.close()


def test_half_a_line_is_read_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    append(path, event(0), event(500)[:10])
    watched = Watched(FileInput(path))
    sleep(0.05)
    append(path, event(500)[10:])
    assert len(watched.wait_for(1)) == 1
    watched.end()


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_file_that_is_rotated_goes_on_under_its_name(tmp_path: Path, form: str) -> None:
    path, old = tmp_path / f"log.{form}", tmp_path / "old"
    head = "type,ts\n" if form == "csv" else ""
    lines = [f"A,{t}\n" if head else event(t) for t in range(0, 1500, 300)]
    append(path, head, *lines[:2])
    watched = Watched(FileInput(path), folder=tmp_path / "checkpoint")
    watched.wait_for(1)
    path.rename(old)
    append(old, lines[2])
    append(path, head, lines[3])
    watched.wait_for(6)
    watched.end()
    again = Watched(FileInput(path), folder=tmp_path / "checkpoint")
    append(path, lines[4])
    again.wait_for(3)
    found = [(line["start_ts"], line["end_ts"]) for line in [*watched.lines, *again.end()]]
    batch = cernis.query(PAIRS).run([{"type": "A", "ts": t} for t in range(0, 1500, 300)])
    assert sorted(found) == sorted((m.start_ts, m.end_ts) for m in batch)


def test_a_new_file_with_another_header_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    append(path, "type,ts\n", "A,0\n", "A,1\n")
    watched = Watched(FileInput(path))
    watched.wait_for(1)
    path.rename(tmp_path / "old")
    append(path, "ts,type\n", "2,A\n")
    wait_until(lambda: watched.error is not None)
    with pytest.raises(DataError, match="the new file has another header"):
        watched.end()


def test_files_of_a_folder_are_read_once_and_in_order(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    append(folder / "1.jsonl", event(0), event(300))
    append(folder / ".2.jsonl.tmp", event(600))
    watched = Watched(FolderInput(folder), folder=tmp_path / "checkpoint")
    watched.wait_for(1)
    (folder / ".2.jsonl.tmp").rename(folder / "2.jsonl")
    watched.wait_for(3)
    watched.end()
    append(folder / "3.jsonl", event(900))
    again = Watched(FolderInput(folder, once=True), folder=tmp_path / "checkpoint")
    again.wait_for(3)
    ends = sorted(line["end_ts"] for line in [*watched.lines, *again.end()])
    assert ends == [300, 600, 600, 900, 900, 900]


def test_late_and_hasty_events_are_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    append(path, event(1000), event(5000), event(3999), event(4000), event(10**15))
    aside = FolderSink(tmp_path / "aside", "jsonl")
    watched = Watched(FileInput(path, once=True), lateness=1.0, ahead=3600.0, aside=[aside])
    watched._thread.join()
    watched.end()
    (file,) = (tmp_path / "aside").glob("matches-*")
    lines = map(json.loads, file.read_text().splitlines())
    reasons = [(line["reason"], line["event"]["ts"]) for line in lines]
    assert reasons == [("ahead", 10**15), ("late", 3999)]
    assert [(m["start_ts"], m["end_ts"]) for m in watched.lines] == [(4000, 5000)]


def test_silence_makes_certain_what_waits_for_time() -> None:
    reading, writing = os.pipe()
    os.write(writing, event(0).encode())
    query = "SELECT * FROM S WHERE A AS a WITHOUT B FOR 100 MILLISECONDS"
    watched = Watched(PipeInput(reading), query, idle=0.05)
    assert [line["end_ts"] for line in watched.wait_for(1)] == [0]
    os.close(writing)
    watched.end()


def test_whether_an_event_is_late_does_not_depend_on_pieces() -> None:
    random = np.random.default_rng(5)
    for _ in range(200):
        times = random.integers(0, 30, 20)
        lateness = int(random.integers(0, 6))
        whole = EventClock(inputs=1, lateness=lateness).take(0, times, 0.0)
        clock, found = EventClock(inputs=1, lateness=lateness), []
        for piece in np.split(times, np.sort(random.integers(1, 20, 4))):
            if len(piece):
                found += clock.take(0, piece, 0.0).tolist()
        assert found == whole.tolist()
        reached = np.maximum.accumulate(times)
        late = times[1:] < reached[:-1] - lateness
        assert whole.tolist() == [False, *late.tolist()]


def test_an_input_that_is_silent_holds_the_others_back_until_idle() -> None:
    clock = EventClock(inputs=2, tick=10**9, idle=5.0)
    clock.pass_time(0.0)
    clock.take(0, np.array([100]), 1.0)
    assert clock.watermark is None
    clock.pass_time(4.9)
    assert clock.watermark is None
    clock.take(0, np.array([104]), 5.5)
    assert clock.watermark == 104
    clock.pass_time(20.5)
    assert clock.watermark == 119


def test_a_folder_with_the_matches_of_another_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "matches-000000007.jsonl").touch()
    with pytest.raises(CernisError, match="has the matches of another run"):
        FolderSink(tmp_path, "jsonl").recover(3)
