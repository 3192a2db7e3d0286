"""Sinks: a webhook is asked again with the same key, files are whole, no server holds an end."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import KafkaError, KafkaException

import cernis
from cernis.errors import CernisError
from cernis.live.inputs import FileInput
from cernis.live.prepare import LiveOptions, prepare_query
from cernis.live.run import LiveRun, Pace, resume_inputs
from cernis.live.sinks import LINE, FolderSink, Sink, WebhookSink
from cernis.live.store import LocalStore
from cernis.live.topics import TopicSink
from cernis.work.endpoints import Topic
from cernis.work.reading import AnswerForm

PAIRS = "SELECT * FROM S WHERE A AS a ; A AS b WITHIN 1 SECOND"


class Hook(HTTPServer):
    """A server that answers with these codes, one after the other, and the last one for ever.

    0 is no answer.
    """

    def __init__(self, *codes: int) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.codes = [*codes]
        self.received: list[tuple[str, str]] = []
        """Keys and bodies."""
        self.is_released = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/alerts"


class Answer(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.received.append((self.headers["Idempotency-Key"], body))
        codes = self.server.codes
        code = codes.pop(0) if len(codes) > 1 else codes[0]
        if not code:
            self.server.is_released.wait(60)
            return
        self.send_response(code)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def hook(request: pytest.FixtureRequest) -> Iterator[Hook]:
    with Hook(*request.param) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.is_released.set()
        server.shutdown()
        thread.join()


def lines(*texts: str) -> pa.RecordBatch:
    return pa.record_batch({LINE: pa.array(texts)})


def start(folder: Path, sink: Any, form: AnswerForm = "lines", *, once: bool = True) -> LiveRun:
    """Return a run over what a file has, with one commit; `sink` makes a sink for its name.

    Without `once`, over what is written to the file.
    """
    store, inputs = LocalStore(folder / "checkpoint"), {"S": FileInput(folder / "S", once=once)}
    resume_inputs(inputs, store)
    prepared = prepare_query(cernis.query(PAIRS), inputs, LiveOptions(), form)
    return LiveRun(prepared, inputs, store, [sink(store.run)], Pace(commit=3600 if once else None))


def write(folder: Path, *times: int) -> None:
    with open(folder / "S", "a") as file:
        file.writelines(f'{{"type": "A", "ts": {time}}}\n' for time in times)


@pytest.mark.parametrize("hook", [(503, 429, 200)], indirect=True)
def test_a_webhook_is_asked_again_with_the_same_key(hook: Hook, tmp_path: Path) -> None:
    write(tmp_path, 0, 500)
    run = start(tmp_path, lambda name: WebhookSink(hook.url, name))
    run.run(lambda: False)
    run.store.close()
    assert len(hook.received) == 3
    ((key, body),) = {*hook.received}
    assert key.endswith("-1")
    assert [json.loads(line)["end_ts"] for line in body.splitlines()] == [500]


@pytest.mark.parametrize("hook", [(200,)], indirect=True)
def test_a_delivery_that_may_have_arrived_comes_again_with_its_key(
    hook: Hook, tmp_path: Path
) -> None:
    write(tmp_path, 0, 500)
    run = start(tmp_path, lambda name: WebhookSink(hook.url, name))
    run.run(lambda: False)
    run.store.close()  # the checkpoint does not know of the delivery
    write(tmp_path, 900)
    run = start(tmp_path, lambda name: WebhookSink(hook.url, name))
    run.run(lambda: False)
    run.store.close()
    first, again, second = hook.received
    assert first == again
    assert first[0] != second[0]
    assert [json.loads(line)["end_ts"] for line in second[1].splitlines()] == [900, 900]


@pytest.mark.parametrize("hook", [(0, 200)], indirect=True)
def test_events_are_read_while_a_server_takes_its_time(
    hook: Hook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cernis.live.run._COMMIT", 3600.0)  # then what was read must be bounded
    write(tmp_path, 0, 500)
    run = start(tmp_path, lambda name: WebhookSink(hook.url, name), once=False)
    run.start()
    while not hook.received:
        run.step(0.01)
    write(tmp_path, 600)
    while max(run.clock.latest.values()) * run.prepared.tick < 600_000_000:
        run.step(0.01)
    assert len(hook.received) == 1  # which has no answer yet
    hook.is_released.set()
    while len(hook.received) < 3:
        run.step(0.01)
    first, again, second = hook.received
    assert first == again
    assert [json.loads(line)["end_ts"] for line in second[1].splitlines()] == [600, 600]
    run.close()
    run.store.close()


@pytest.mark.parametrize("hook", [(404, 200)], indirect=True)
def test_a_run_ends_with_the_error_of_a_delivery(hook: Hook, tmp_path: Path) -> None:
    write(tmp_path, 0, 500)
    run = start(tmp_path, lambda name: WebhookSink(hook.url, name), once=False)
    with pytest.raises(CernisError, match="answers 404"):
        run.run(lambda: False)
    run.store.close()
    again = start(tmp_path, lambda name: WebhookSink(hook.url, name))  # it is staged still
    again.run(lambda: False)
    again.store.close()
    first, second = hook.received
    assert first == second


@pytest.mark.parametrize("hook", [(404,)], indirect=True)
def test_a_webhook_that_refuses_is_an_error(hook: Hook) -> None:
    sink = WebhookSink(hook.url, "run")
    sink.add(lines("{}"))
    with pytest.raises(CernisError, match="answers 404"):
        sink.release(1, sink.stage(1))
    assert hook.received == [("run-1", "{}\n")]


@pytest.mark.parametrize("hook", [(503,)], indirect=True)
def test_a_signal_does_not_wait_for_a_webhook(hook: Hook) -> None:
    sink = WebhookSink(hook.url, "run", lambda: len(hook.received) > 1)
    with pytest.raises(CernisError, match="cannot be reached; the matches stay staged"):
        sink.release(1, "{}\n")
    assert len(hook.received) == 2


@pytest.mark.parametrize("hook", [(0,)], indirect=True)
def test_a_signal_does_not_wait_for_the_answer_of_a_webhook(hook: Hook) -> None:
    sink = WebhookSink(hook.url, "run", lambda: True)
    with pytest.raises(CernisError, match="the matches stay staged"):
        sink.release(1, "{}\n")
    assert not hook.is_released.is_set()


class AwayProducer:
    """A producer whose broker does not answer."""

    def __init__(self) -> None:
        self.calls = 0

    def begin_transaction(self) -> None: ...
    def produce(self, topic: str, line: bytes) -> None: ...

    def send_offsets_to_transaction(self, *_: Any) -> None:
        self.calls += 1
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer", retriable=True))


def test_a_signal_does_not_wait_for_a_broker() -> None:
    producer = AwayProducer()
    sink = TopicSink(Topic("nowhere:9092", "out"), "run", lambda: producer.calls > 2)
    sink._producer, sink._group = producer, None
    with pytest.raises(CernisError, match="out: cannot be reached; the matches stay staged"):
        sink.release(1, ["{}"])
    assert producer.calls == 3


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_a_folder_has_a_file_for_each_commit_with_matches(tmp_path: Path, form: str) -> None:
    def sink(_: str) -> Sink:
        return FolderSink(tmp_path / "out", form)

    for times in ((0, 500), (5000,), (5500, 5900)):
        write(tmp_path, *times)
        run = start(tmp_path, sink, "lines" if form == "jsonl" else "events")
        run.run(lambda: False)
        run.store.close()
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == [f"matches-00000000{number}.{form}" for number in (1, 3)]
    ends = []
    for name in names:
        path = tmp_path / "out" / name
        if form == "jsonl":
            ends += [json.loads(line)["end_ts"] for line in path.read_text().splitlines()]
        else:
            ends += pq.read_table(path).column("end_ts").to_pylist()
    assert ends == [500, 5500, 5900, 5900]
