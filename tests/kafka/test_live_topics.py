"""Streams in one process from a real Kafka to the same: each match once, whatever ends."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from broker import Broker, read_committed
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

import cernis
from cernis.errors import CernisError
from cernis.live.prepare import LiveOptions, prepare_query
from cernis.live.run import LiveRun, Pace, resume_inputs
from cernis.live.store import LocalStore
from cernis.live.topics import TopicInput, TopicSink
from cernis.work.endpoints import Topic

PAIRS = "SELECT * FROM S WHERE A AS a ; B AS b FILTER a[v] < b[v] WITHIN 20 SECONDS"


@pytest.fixture
def servers(launched: Broker) -> str:
    launched.wait()
    return launched.servers


def create(servers: str, *names: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    made = admin.create_topics(
        [NewTopic(name, num_partitions=1, replication_factor=1) for name in names]
    )
    for name in names:
        made[name].result(60)


def put(servers: str, topic: str, events: list[dict[str, Any]]) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for event in events:
        producer.produce(topic, json.dumps(event).encode())
    assert producer.flush(60) == 0


def test_matches_reach_a_topic_once_whenever_the_process_ends(servers: str, tmp_path: Path) -> None:
    chance = random.Random(4)
    events = [
        {"type": chance.choice("AB"), "ts": 1000 * i, "v": chance.randrange(9)} for i in range(400)
    ]
    create(servers, "live-in", "live-out")
    written = 0

    def start() -> LiveRun:
        store = LocalStore(tmp_path / "checkpoint")
        inputs = {"S": TopicInput(Topic(servers, "live-in"), once=True)}
        resume_inputs(inputs, store)
        prepared = prepare_query(cernis.query(PAIRS), inputs, LiveOptions(), "lines")
        sink = TopicSink(Topic(servers, "live-out"), store.run)
        return LiveRun(prepared, inputs, store, [sink], Pace())

    while written < len(events):
        some = events[written : written + chance.randrange(40, 120)]
        put(servers, "live-in", some)
        written += len(some)
        run = start()
        run.start()
        while run.arrivals.running or run.step(0):
            run.step(0.1)
        if chance.random() < 0.5:
            run.commit()  # committed and delivered; the checkpoint does not know of the delivery
        elif chance.random() < 0.5:
            release, run._release = run._release, lambda *_: None  # type: ignore[method-assign]
            run.commit()  # committed, and ended before the delivery
            run._release = release  # type: ignore[method-assign]
        run.arrivals.stop()
        run.store.close()
    run = start()
    run.run(lambda: False)
    run.store.close()
    found = [(line["start_ts"], line["end_ts"]) for line in read_committed(servers, "live-out")]
    batch = cernis.query(PAIRS).run(events)
    assert sorted(found) == sorted((match.start_ts, match.end_ts) for match in batch)
    assert len(found) > 100


def test_a_topic_that_is_not_there_is_named(servers: str) -> None:
    input_ = TopicInput(Topic(servers, "nowhere"), once=True)
    with pytest.raises(CernisError, match=r"kafka://.*/nowhere: .*[Uu]nknown topic"):
        input_.read1(1000)


def test_events_may_have_the_time_at_which_kafka_received_them(servers: str) -> None:
    create(servers, "timeless", "timeless-graphs")
    put(servers, "timeless", [{"type": "A", "v": 1}, {"type": "B", "v": 2}])
    query = cernis.query(PAIRS)
    found = list(query.follow(f"kafka://{servers}/timeless", time="kafka_timestamp", once=True))
    assert len(found) == 1
    producer = Producer({"bootstrap.servers": servers})
    for number in range(2):
        line = f'<urn:s{number}> <urn:k> "1" <urn:g{number}> .\n'
        producer.produce(
            "timeless-graphs", (line + line.replace("k>", "v>")).encode(), timestamp=1000 + number
        )
    assert producer.flush(60) == 0
    graphs = cernis.query(
        "SELECT ?a ?b WITHIN 1 SECONDS FROM STREAM S <urn:s> WHERE { SEQ (A ; B) "
        'DEFINE GPM A ON S { ?a <urn:k> "1" } DEFINE GPM B ON S { ?b <urn:v> "1" } }',
        lang="spaseq",
    )
    source = f"kafka://{servers}/timeless-graphs"
    (match,) = graphs.follow(source, time="kafka_timestamp", once=True)
    assert match["events"] == [["S", 0], ["S", 1]]
    assert match["end_ts"] == "1970-01-01T00:00:01.001Z"


def test_a_run_may_begin_at_a_time(servers: str) -> None:
    create(servers, "from-a-time")
    producer = Producer({"bootstrap.servers": servers})
    for number in range(4):
        line = json.dumps({"type": "AB"[number % 2], "ts": 1000 * number, "v": number})
        producer.produce("from-a-time", line.encode(), timestamp=1_700_000_000_000 + 1000 * number)
    assert producer.flush(60) == 0
    query = cernis.query(PAIRS)
    for starting, ends in (("earliest", [1000, 3000, 3000]), ("2023-11-14T22:13:22Z", [3000])):
        source = f"kafka://{servers}/from-a-time?starting={starting}"
        assert sorted(m["end_ts"] for m in query.follow(source, once=True)) == ends
