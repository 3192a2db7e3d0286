"""Kafka in one process, by librdkafka.

A topic is read partition by partition, without a consumer group: the positions are those of the
checkpoint. Each message is a JSON object.

Matches go to a topic exactly once: a delivery is one transaction, which also commits its number as
an offset of a group that is named after the run. A run that goes on asks for that number, and
leaves out a delivery that has arrived. The transactional id is that of the run, so that a process
which was thought dead cannot write any more.

Cost contract: for a message the work of librdkafka, and one line of text.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from time import monotonic
from typing import Any

import pyarrow as pa

from cernis.errors import CernisError, DataError
from cernis.extras import import_extra
from cernis.live.inputs import TextInput
from cernis.live.sinks import LINE, Sink
from cernis.work.endpoints import Topic

_MOST = 4096
_WAIT = 0.05
_PATIENCE = 30.0
_LOOK_AGAIN = 30.0
_LOG_LEVEL = 2
"""librdkafka itself says what is critical; errors come back from its calls."""


class TopicInput(TextInput):
    """The messages of a topic, one JSON object each."""

    def __init__(self, topic: Topic, *, once: bool = False) -> None:
        import_extra("confluent_kafka", str(topic))
        super().__init__(str(topic), once=once)
        self._topic = topic
        self._next: dict[int, int] = {}
        """For each partition, the message that is read next."""
        self._ends: dict[int, int] = {}
        """With `once`: where each partition ends."""
        self._consumer: Any = None
        self._looked = 0.0
        self._given = 0
        self._marks: deque[tuple[int, dict[str, int]]] = deque()
        """After how many bytes of text which messages are next."""

    def resume(self, position: Any, done: set[str]) -> None:
        self._next = {int(partition): int(offset) for partition, offset in position.items()}

    @property
    def position(self) -> Any:
        read = 0 if self._reader is None else self._reader.position.offset  # type: ignore[attr-defined]
        while len(self._marks) > 1 and self._marks[1][0] <= read:
            self._marks.popleft()
        if self._marks and self._marks[0][0] <= read:
            return self._marks[0][1]
        return {str(partition): offset for partition, offset in self._first.items()}

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def read1(self, size: int) -> bytes:
        consumer = self._consumer or self._connect()
        while True:
            if not self.once and monotonic() - self._looked > _LOOK_AGAIN:
                self._assign()
            if self.once and self._has_ended():
                return b""
            lines = []
            for message in consumer.consume(_MOST, _WAIT):
                if message.error() is not None:
                    raise DataError(f"{self.label}: {message.error().str()}")
                partition, offset = message.partition(), message.offset()
                if self.once and offset >= self._ends[partition]:
                    continue
                self._next[partition] = offset + 1
                if message.value() is not None:
                    lines.append(message.value().replace(b"\n", b" "))
            if lines:
                text = b"\n".join(lines) + b"\n"
                self._given += len(text)
                told = {str(partition): offset for partition, offset in self._next.items()}
                self._marks.append((self._given, told))
                return text
            self.wait(0)

    def _has_ended(self) -> bool:
        return all(self._next[partition] >= end for partition, end in self._ends.items())

    def _connect(self) -> Any:
        from confluent_kafka import Consumer

        self._consumer = Consumer(
            {
                "bootstrap.servers": self._topic.servers,
                "group.id": "cernis",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "error",
                "log_level": _LOG_LEVEL,
            }
        )
        self._assign()
        return self._consumer

    def _assign(self) -> None:
        """Read all partitions of the topic, also those that are new."""
        from confluent_kafka import KafkaException, TopicPartition

        topic, consumer = self._topic.topic, self._consumer
        try:
            found = consumer.list_topics(topic, timeout=_PATIENCE).topics[topic]
        except KafkaException as error:
            raise DataError(f"{self.label}: {error.args[0].str()}") from error
        if found.error is not None:
            raise DataError(f"{self.label}: {found.error.str()}")
        is_first = not self._looked
        for partition in found.partitions:
            first, end = consumer.get_watermark_offsets(
                TopicPartition(topic, partition), timeout=_PATIENCE
            )
            begins = first
            if is_first and self._topic.options.get("starting") == "latest":
                begins = end
            offset = self._next.setdefault(partition, begins)
            if offset < first:
                raise DataError(
                    f"{self.label}: the messages from {offset} on of partition {partition} are "
                    f"gone (the first is {first}): begin with a new checkpoint"
                )
            if is_first:
                self._ends[partition] = end
        if is_first:
            self._first = dict(self._next)
        consumer.assign([TopicPartition(topic, p, o) for p, o in self._next.items()])
        self._looked = monotonic()

    _first: Mapping[int, int] = {}


class TopicSink(Sink):
    """Lines as messages of a topic."""

    is_exact = True

    def __init__(self, topic: Topic, run: str) -> None:
        import_extra("confluent_kafka", str(topic))
        self._topic, self._run = topic, f"cernis-{run}"
        self._lines: list[str] = []
        self._producer: Any = None
        self._delivered = -1

    def add(self, batch: pa.RecordBatch) -> None:
        self._lines += batch.column(LINE).to_pylist()

    def stage(self, number: int) -> Any:
        lines, self._lines = self._lines, []
        return lines or None

    def release(self, number: int, staged: Any) -> None:
        from confluent_kafka import KafkaException, TopicPartition

        producer = self._producer or self._connect()
        if number <= self._delivered:
            return
        try:
            producer.begin_transaction()
            for line in staged:
                while True:
                    try:
                        producer.produce(self._topic.topic, str(line).encode())
                        break
                    except BufferError:  # the queue of librdkafka is full
                        producer.poll(_WAIT)
            mark = TopicPartition(self._topic.topic, 0, number)
            producer.send_offsets_to_transaction([mark], self._group, _PATIENCE)
            producer.commit_transaction(_PATIENCE)
        except KafkaException as error:
            raise CernisError(f"{self._topic}: {error.args[0].str()}") from error
        self._delivered = number

    def _connect(self) -> Any:
        from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

        servers = {"bootstrap.servers": self._topic.servers, "log_level": _LOG_LEVEL}
        try:
            producer = Producer({**servers, "transactional.id": self._run, "linger.ms": 1})
            producer.init_transactions(_PATIENCE)
            consumer = Consumer({**servers, "group.id": self._run, "enable.auto.commit": False})
            self._group = consumer.consumer_group_metadata()
            (told,) = consumer.committed([TopicPartition(self._topic.topic, 0)], timeout=_PATIENCE)
            consumer.close()
        except KafkaException as error:
            raise CernisError(f"{self._topic}: {error.args[0].str()}") from error
        self._delivered = told.offset
        self._producer = producer
        return producer
