"""Streaming queries from a real Kafka to the same: what comes out is what a batch gives."""

from __future__ import annotations

import hashlib
import io
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import cernis
from cernis.cli.main import main
from cernis.errors import CernisError
from cernis.spark import progress_of, recognize
from cernis.spark.streaming.kafka import (
    KAFKA_TIMESTAMP,
    UNDECODABLE,
    kafka_package,
    read_kafka,
    write_kafka,
)

SCHEMA = "n BIGINT, type STRING, name STRING, ts TIMESTAMP"
NOON = 1_700_000_000_000
PAIRS = """SELECT * FROM trades WHERE (BUY AS b ; SELL AS s)
           PARTITION BY [name] WITHIN 5 SECONDS"""
ALERTED = """SELECT * FROM trades, news
             WHERE (news>ALERT AS a ; trades>BUY AS b ; trades>SELL AS s)
             PARTITION BY [name] WITHIN 5 SECONDS"""


def event(n: int, type_: str, seconds: float, name: str = "X") -> dict[str, Any]:
    return {"n": n, "type": type_, "name": name, "ts": NOON + round(1000 * seconds)}


def record(event: dict[str, Any]) -> bytes:
    return json.dumps({**event, "ts": stamp(event["ts"])}).encode()


def stamp(ms: int) -> str:
    moment = pa.scalar(ms, pa.timestamp("ms", "UTC")).as_py()
    return str(moment.isoformat())


def table(events: list[dict[str, Any]]) -> pa.Table:
    found = pa.Table.from_pylist(events)
    i = found.schema.get_field_index("ts")
    moments = found.column("ts").cast(pa.timestamp("ms", "UTC"))
    return found.set_column(i, "ts", moments.cast(pa.timestamp("us", "UTC")))


def in_batch(query: str, streams: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The matches in all events, each stream in order."""
    written = io.BytesIO()
    tables = {name: table(events) for name, events in streams.items()}
    cernis.query(query).run(tables).write_jsonl(written)
    return sorted_lines(written.getvalue().decode().splitlines())


def sorted_lines(lines: Any) -> list[dict[str, Any]]:
    return sorted(map(json.loads, lines), key=lambda line: json.dumps(line))


def checked(records: list[tuple[str, str]]) -> dict[str, str]:
    """Matches by key, after a look at the keys."""
    for key, line in records:
        assert key == hashlib.md5(line.encode()).hexdigest()
    return dict(records)


def read(topics: Any, topic: str, **options: Any) -> Any:
    return read_kafka(topics.spark, topics.servers, topic, **{"schema": SCHEMA, **options})


def started(topics: Any, streams: Any, query: str, into: str, folder: Path, **options: Any) -> Any:
    checkpoint = str(folder / "checkpoint")
    told = {"row": "n", "tasks": 2, "corrupt": UNDECODABLE, "checkpoint": checkpoint, **options}
    lines = recognize(streams, query, matches="lines", **told)
    topics.create(into)
    return write_kafka(lines, topics.servers, into, checkpoint).start()


# ----------------------------------------------------------------- end to end


def test_matches_are_those_of_a_batch_whatever_is_restarted(topics: Any, tmp_path: Path) -> None:
    chance = random.Random(7)
    drawn = sorted(
        (
            chance.uniform(0, 40),
            chance.choice(["BUY", "SELL", "ALERT", "HOLD"]),
            chance.choice("XYZ"),
        )
        for _ in range(160)
    )
    trades = [e for e in drawn if e[1] != "ALERT"]
    news = [e for e in drawn if e[1] == "ALERT"]
    numbered = [event(n, type_, s, name) for n, (s, type_, name) in enumerate(trades + news)]
    given = {"trades": numbered[: len(trades)], "news": numbered[len(trades) :]}
    expected = in_batch(ALERTED, given)
    assert len(expected) > 20

    def put(piece: int, partitions: int, *last: bytes) -> None:
        records = {}
        for name, events in given.items():
            late = {e["n"]: e["ts"] + random.Random(e["n"]).uniform(0, 3000) for e in events}
            arriving = sorted(events, key=lambda e: late[e["n"]])
            assert arriving != events
            cuts = [0, len(events) // 3, 2 * len(events) // 3, len(events)]
            some = arriving[cuts[piece] : cuts[piece + 1]]
            records[f"e2e-{name}"] = [*map(record, some), *last]
        topics.put_all(records, partitions)

    def start() -> Any:
        streams = {name: read(topics, f"e2e-{name}") for name in given}
        options = {"lateness": "3 seconds", "on_error": "fail"}
        return started(topics, streams, ALERTED, "e2e-matches", tmp_path, **options)

    def stop(running: Any) -> None:
        running.processAllAvailable()
        told = [progress_of(progress) for progress in running.recentProgress]
        running.stop()
        assert sum(progress.late for progress in told if progress is not None) == 0

    put(0, partitions=2)
    running = start()
    running.processAllAvailable()
    topics.broker.stop()
    topics.broker.launch()
    topics.broker.wait()
    put(1, partitions=1)
    stop(running)
    half = topics.read("e2e-matches")
    assert 0 < len(half) < len(expected)

    running = start()
    running.processAllAvailable()
    assert sorted(topics.read("e2e-matches")) == sorted(half)
    put(2, 1, record(event(-1, "END", 1000)))
    stop(running)
    found = topics.read("e2e-matches")
    assert len(checked(found)) == len(found)
    assert sorted_lines(line for _, line in found) == expected


def test_a_batch_that_is_run_again_repeats_matches_under_their_keys(
    topics: Any, tmp_path: Path
) -> None:
    events = [event(n, "BUY" if n % 3 else "SELL", n) for n in range(20)]
    topics.put("again", *map(record, events), record(event(-1, "END", 1000)))

    def run() -> list[tuple[str, str]]:
        running = started(topics, read(topics, "again"), PAIRS, "again-matches", tmp_path, row=None)
        running.processAllAvailable()
        running.stop()
        return topics.read("again-matches")

    once = run()
    assert len(checked(once)) == len(once) == len(in_batch(PAIRS, {"trades": events}))

    checkpoint = tmp_path / "checkpoint"
    for path in [*checkpoint.glob("commits/*"), *checkpoint.glob("offsets/*")]:
        if path.parent.name == "commits" or path.name not in ("0", ".0.crc"):
            path.unlink(missing_ok=True)  # as if killed in the first batch, but for the matches
    twice = run()
    assert len(twice) > len(once)
    assert checked(twice) == checked(once)


def command_line(topics: Any, folder: Path) -> list[str]:
    options = {
        "--source": f"kafka://{topics.servers}/command",
        "--schema": SCHEMA,
        "--row": "n",
        "--sink": f"kafka://{topics.servers}/command-matches",
        "--checkpoint": str(folder / "checkpoint"),
    }
    return [
        "stream",
        PAIRS,
        "--engine",
        "spark",
        "--once",
        *(part for option in options.items() for part in option),
    ]


def test_the_command_line_goes_from_topic_to_topic(
    topics: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    events = [event(n, "BUY" if n % 3 else "SELL", n) for n in range(12)]
    topics.put("command", *map(record, events), record(event(-1, "END", 1000)))
    topics.create("command-matches")
    assert main(command_line(topics, tmp_path)) == 0
    expected = in_batch(PAIRS, {"trades": events})
    summary = f"13 rows in 2 micro-batches; {len(expected)} matches\n"
    assert capfd.readouterr().err == summary
    found = topics.read("command-matches")
    assert sorted_lines(line for _, line in found) == expected


def test_the_command_line_starts_spark_with_the_connector(
    topics: Any, connector: Any, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "cernis", *command_line(topics, tmp_path), "--explain"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stderr == ("" if connector.note is None else f"note: {connector.note}\n")
    assert f"kafka://{topics.servers}/command, json: {SCHEMA}\n" in done.stdout


# --------------------------------------------------------------------- topics


def test_a_topic_that_a_write_creates_gets_every_match(created_topics: Any, tmp_path: Path) -> None:
    """A new partition may refuse the first request of a producer and take the second."""
    lines = [f'{{"match": {i}}}' for i in range(3000)]
    (tmp_path / "lines").mkdir()
    (tmp_path / "lines" / "1.txt").write_text("\n".join(lines))
    found = created_topics.spark.readStream.text(str(tmp_path / "lines"))
    found = found.withColumnRenamed("value", "line")
    writer = write_kafka(found, created_topics.servers, "asked", str(tmp_path / "checkpoint"))
    assert created_topics.count("asked") == 0  # Kafka creates a topic that it is asked for
    writer = writer.option("topic", "written").trigger(availableNow=True)
    writer.start().awaitTermination()
    assert created_topics.count("written") == len(lines)


def test_a_topic_that_kafka_does_not_create_is_refused(topics: Any, spark: Any) -> None:
    lines = spark.readStream.format("rate").load().selectExpr("string(value) as line")

    def refuse(servers: str, topic: str, **options: str) -> str:
        options = {"kafka.max.block.ms": "500", **options}
        with pytest.raises(CernisError) as caught:
            write_kafka(lines, servers, topic, "checkpoint", options=options)
        return str(caught.value)

    help_ = "  help: check the address; create the topic if Kafka does not create topics itself"
    message = f"Kafka at {topics.servers}: no answer, or no topic 'missing'\n{help_}"
    assert refuse(topics.servers, "missing") == message
    assert (
        refuse("localhost:9", "t") == f"Kafka at localhost:9: no answer, or no topic 't'\n{help_}"
    )
    assert refuse(topics.servers, "a b") == "Kafka, topic 'a b': Invalid topics: [a b]"
    unresolvable = "Kafka, topic 't': No resolvable bootstrap urls given in bootstrap.servers"
    assert refuse("nowhere.invalid:9092", "t") == unresolvable


# ------------------------------------------------------------------- decoding


def rows(topics: Any, topic: str, **options: Any) -> list[tuple[Any, ...]]:
    """What a topic's records are decoded to, but for when they came."""
    frame = read(topics, topic, **options)
    assert frame.columns[-2:] == [UNDECODABLE, KAFKA_TIMESTAMP]
    name = topic.replace("-", "_")
    running = frame.writeStream.format("memory").queryName(name).start()
    running.processAllAvailable()
    running.stop()
    found = topics.spark.table(name)
    assert found.filter(f"{KAFKA_TIMESTAMP} > current_timestamp() - interval 1 hour").count() > 0
    return [tuple(row) for row in found.drop(KAFKA_TIMESTAMP).collect()]


def decoded(
    topics: Any, topic: str, cases: dict[bytes | None, tuple[Any, ...]], **options: Any
) -> None:
    topics.put(topic, *cases)
    found = sorted(rows(topics, topic, **options), key=repr)
    assert found == sorted(cases.values(), key=repr)


def test_json_that_is_not_of_the_schema_is_undecodable(topics: Any) -> None:
    decoded(
        topics,
        "json",
        {
            b'{"value": 1, "type": "A"}': (1, "A", None),
            b'{"type": "A", "more": [1]}': (None, "A", None),
            b"{}": (None, None, None),
            b'{"value": "one", "type": "B"}': (None, "B", '{"value": "one", "type": "B"}'),
            b'{"value": 1': (None, None, '{"value": 1'),
            b"[1]": (None, None, "[1]"),
            b"null": (None, None, "null"),
            b"": (None, None, ""),
            None: (None, None, ""),
            b'{"type": "\xff"}': (None, None, "base64:eyJ0eXBlIjogIv8ifQ=="),
        },
        schema="value INT, type STRING",
        per_trigger=4,
    )


def test_csv_that_is_not_of_the_schema_is_undecodable(topics: Any) -> None:
    decoded(
        topics,
        "csv",
        {
            b"1|A": (1, "A", None),
            b"2,A": (None, None, "2,A"),
            b'3|"A|B"': (3, "A|B", None),
            b"4|A|B": (4, "A", "4|A|B"),
            b"": (None, None, ""),
            b"\xff\xfe": (None, None, "base64://4="),
        },
        format="csv",
        schema="`the value` INT, type STRING",
        options={"sep": "|"},
    )


def descriptors(path: Path) -> Any:
    """A file with a message type, as protoc would write it, and the type."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="trade.proto", package="market", syntax="proto3")
    field = descriptor_pb2.FieldDescriptorProto
    kinds = {"n": field.TYPE_INT64, "type": field.TYPE_STRING, "name": field.TYPE_STRING}
    message = file.message_type.add(name="Trade")
    for i, (name, kind) in enumerate({**kinds, "ts": field.TYPE_INT64}.items()):
        message.field.add(name=name, number=i + 1, type=kind, label=field.LABEL_OPTIONAL)
    path.write_bytes(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("market.Trade"))


def test_a_session_without_the_decoder_of_protobuf_is_told_which_one(
    topics: Any, tmp_path: Path
) -> None:
    descriptors(tmp_path / "trade.desc")
    told = {"descriptor": str(tmp_path / "trade.desc"), "message": "market.Trade"}
    with pytest.raises(CernisError) as caught:  # the next test has it
        read(topics, "protobuf", format="protobuf", schema=None, **told)
    assert str(caught.value) == (
        "this session of Spark has no decoder of protobuf\n"
        f"  help: start it with spark.jars.packages set to {kafka_package(protobuf=True)}"
    )


@pytest.mark.usefixtures("protobuf")
def test_protobuf_is_decoded_by_its_descriptor(topics: Any, tmp_path: Path) -> None:
    trade = descriptors(tmp_path / "trade.desc")
    cases: dict[bytes | None, tuple[Any, ...]] = {
        trade(n=7, type="BUY", name="X", ts=5).SerializeToString(): (7, "BUY", "X", 5, None),
        trade(type="SELL").SerializeToString(): (0, "SELL", "", 0, None),
        b"\xff\xff": (None, None, None, None, "base64://8="),
        None: (None, None, None, None, ""),
    }
    told = {"descriptor": str(tmp_path / "trade.desc"), "message": "market.Trade"}
    decoded(topics, "protobuf", cases, format="protobuf", schema=None, **told)
    with pytest.raises(CernisError, match=r"format='protobuf': .*Order"):
        read(topics, "protobuf", format="protobuf", schema=None, **{**told, "message": "Order"})


def test_a_record_that_cannot_be_decoded_stops_the_query(topics: Any, tmp_path: Path) -> None:
    topics.put("bad", record(event(0, "BUY", 0)), b"{")
    running = started(topics, read(topics, "bad"), PAIRS, "bad-matches", tmp_path)
    with pytest.raises(Exception, match=r"an event cannot be read \(undecodable\)"):
        running.processAllAvailable()


def test_records_that_cannot_be_decoded_are_counted_and_written_aside(
    topics: Any, tmp_path: Path
) -> None:
    good = [event(0, "BUY", 0), event(1, "SELL", 1)]
    topics.put("aside", *map(record, good), b"{", b"\xff", record(event(-1, "END", 1000)))
    options = {"on_error": "skip", "late_output": str(tmp_path / "aside")}
    running = started(topics, read(topics, "aside"), PAIRS, "aside-matches", tmp_path, **options)
    running.processAllAvailable()
    told = [progress_of(progress) for progress in running.recentProgress]
    running.stop()
    assert sum(progress.undecodable for progress in told if progress is not None) == 2
    lines = [json.loads(line) for path in (tmp_path / "aside").glob("*") for line in path.open()]
    assert {line["reason"] for line in lines} == {"undecodable"}
    assert sorted(line["event"][UNDECODABLE] for line in lines) == ["base64:/w==", "{"]
    assert len(topics.read("aside-matches")) == 1


# --------------------------------------------------------------------- errors


def test_what_is_missing_is_said_before_anything_starts(session: Any, tmp_path: Path) -> None:
    def said(**changed: Any) -> str:
        told = {"servers": "localhost:9", "topic": "t", "schema": SCHEMA, **changed}
        with pytest.raises(CernisError) as caught:
            read_kafka(session, told.pop("servers"), told.pop("topic"), **told)
        return str(caught.value)

    example = "as in schema='type STRING, ts TIMESTAMP, price DOUBLE'"
    assert said(schema=None) == f"format='json' needs the columns of the payload, {example}"
    assert said(schema="a foo").startswith("schema='a foo': [UNSUPPORTED_DATATYPE]")
    assert said(schema="Undecodable INT").startswith("the column name 'Undecodable' is taken")
    assert said(format="avro") == "format='avro': expected 'json', 'csv' or 'protobuf'"
    assert said(servers=" ").startswith("no Kafka to connect to: servers=")
    assert said(topic="") == "no topic of Kafka: name it with topic="
    assert said(starting="now").startswith("starting='now': expected 'earliest', 'latest' or")
    assert said(per_trigger=0) == "per_trigger=0: at least one record is needed"
    assert said(message="M") == "descriptor= and message= are for format='protobuf'"
    assert said(format="protobuf").startswith("schema= is for JSON and CSV")
    binary = {"format": "protobuf", "schema": None, "message": "M"}
    assert said(**binary).startswith("format='protobuf' needs descriptor=")
    missing = str(tmp_path / "trade.desc")
    assert said(**binary, descriptor=missing).endswith("trade.desc': No such file or directory")
    with pytest.raises(CernisError, match="recognize it with matches='lines'"):
        write_kafka(session.readStream.format("rate").load(), "localhost:9", "t", "checkpoint")


def test_what_the_connector_refuses_is_said_before_anything_starts(spark: Any) -> None:
    options = {"kafka.auto.offset.reset": "latest"}
    with pytest.raises(CernisError, match=r"topic 't': Kafka option 'auto.offset.reset' is not"):
        read_kafka(spark, "localhost:9", "t", schema=SCHEMA, options=options)


def test_a_session_without_the_connector_is_told_which_one(session: Any) -> None:
    thread = session._jvm.java.lang.Thread.currentThread()
    loader = thread.getContextClassLoader()
    thread.setContextClassLoader(loader.getParent())  # of before the connector was added
    try:
        with pytest.raises(CernisError) as caught:
            read_kafka(session, "localhost:9", "t", schema=SCHEMA)
    finally:
        thread.setContextClassLoader(loader)
    assert str(caught.value) == (
        "this session of Spark has no connector for Kafka\n"
        f"  help: start it with spark.jars.packages set to {kafka_package()}"
    )
