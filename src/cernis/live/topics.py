"""Kafka in one process, by librdkafka.

A topic is read partition by partition: the positions are those of the checkpoint, and a consumer
group (`group.id`) only has a name, for the rights of the user. Each message is a JSON object.

Matches go to a topic exactly once: a delivery is one transaction, which also commits its number as
an offset of a group that is named after the run. A run that goes on asks for that number, and
leaves out a delivery that has arrived. The transactional id is that of the run, so that a process
which was thought dead cannot write any more.

Cost contract: for a message the work of librdkafka, and one line of text.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from time import monotonic
from typing import Any

import numpy as np
import pyarrow as pa

from cernis.errors import CernisError, DataError
from cernis.events.reading.text import TextPosition
from cernis.extras import import_extra
from cernis.live.inputs import ARRIVED, ArrivedTexts, TextInput
from cernis.live.sinks import LINE, Sink
from cernis.work.endpoints import Topic

_MOST = 4096
_PARTITION = 2**40
_MILLISECOND = 10**6
_WAIT = 0.05
_PATIENCE = 30.0
_STEP = 1.0
"""Seconds of a call that is repeated until the broker answers, or the run is to stop."""
_LOOK_AGAIN = 30.0
_LONGEST = 300.0
"""Seconds for which a broker that is away is waited for."""
_RETRY = 2
"""Milliseconds: while the broker ends a transaction, it refuses the offsets of the next one."""
_LOG_LEVEL = 2
"""librdkafka itself says what is critical; errors come back from its calls."""


def _connect_to(topic: Topic) -> dict[str, Any]:
    """Return the properties of librdkafka that lead to a topic."""
    return {
        "log_level": _LOG_LEVEL,
        **topic.properties,
        "bootstrap.servers": topic.servers,
    }


def _passes(error: Any) -> bool:
    """Return whether an error passes when the broker is back."""
    from confluent_kafka import KafkaError

    away = (
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TRANSPORT,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
    )
    return not error.fatal() and (error.retriable() or error.code() in away)


def _call_again(
    call: Callable[[float], Any],
    until: float,
    passes: Callable[[Any], bool],
    stop: Callable[[], None],
) -> Any:
    """Call the broker until it answers; raise an error that does not pass in time.

    A call takes some seconds at most. `stop` raises another error if the run is to stop.
    """
    from confluent_kafka import KafkaException

    while True:
        try:
            return call(_STEP)
        except KafkaException as error:
            if not passes(error.args[0]) or monotonic() > until:
                raise
            stop()


def stamp(value: bytes, milliseconds: int) -> bytes:
    """Return a JSON object with the time at which Kafka received it.

    >>> stamp(b' {"type": "A"}', 1_500)
    b'{"kafka_timestamp":"1970-01-01T00:00:01.500+00:00","type": "A"}'
    """
    text = value.strip()
    if not text.startswith(b"{"):
        return value  # a bad row, which its reader reports
    time = datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
    comma = b"" if text[1:].lstrip().startswith(b"}") else b","
    return b'{"' + ARRIVED.encode() + b'":"' + time.encode() + b'"' + comma + text[1:].lstrip()


def join_messages(values: Iterable[bytes], times: Iterable[int] | None) -> bytes:
    """Return messages as lines; `times`: when Kafka received them, if events have that."""
    lines = [value.replace(b"\n", b" ") for value in values]
    if times is not None:
        lines = [*map(stamp, lines, times)]
    return b"".join(line + b"\n" for line in lines)


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
        self.is_stamped = False
        """Whether events have a column with the time at which Kafka received them."""
        self._consumer: Any = None
        self._looked = 0.0
        self._given = 0
        self._marks: deque[tuple[int, dict[str, int]]] = deque()
        """After how many bytes of text which messages are next."""

    def resume(self, position: Any, done: set[str]) -> None:
        self._next = {int(partition): int(offset) for partition, offset in position.items()}

    @property
    def position(self) -> Any:
        read = getattr(self._reader, "position", TextPosition()).offset
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
        found = self._consume()
        times = [each.timestamp()[1] for each in found] if self.is_stamped else None
        text = join_messages([each.value() for each in found], times)
        if text:
            self._given += len(text)
            self._marks.append((self._given, self._list_next()))
        return text

    def take_texts(self) -> ArrivedTexts | None:
        """Return messages one by one, for RDF; None: there will be none."""
        found = self._consume()
        if not found:
            return None
        self._marks = deque([(0, self._list_next())])
        numbers = [each.partition() * _PARTITION + each.offset() for each in found]
        arrived = [each.timestamp()[1] * _MILLISECOND for each in found]
        texts = [bytes(each.value()) for each in found]
        return ArrivedTexts(texts, np.array(numbers, np.int64), np.array(arrived, np.int64))

    def _list_next(self) -> dict[str, int]:
        return {str(partition): offset for partition, offset in self._next.items()}

    def _consume(self) -> list[Any]:
        """Return the messages that have come, at least one; none at the end."""
        consumer = self._consumer or self._connect()
        while True:
            if not self.once and monotonic() - self._looked > _LOOK_AGAIN:
                self._look_for_partitions()
            if self.once and self._has_ended():
                return []
            found = []
            first = consumer.poll(_WAIT)  # `consume` would wait for as many as it may give
            for message in [] if first is None else [first, *consumer.consume(_MOST, 0)]:
                if message.error() is not None:
                    if _passes(message.error()):
                        continue  # librdkafka connects again
                    raise DataError(f"{self.label}: {message.error().str()}")
                partition, offset = message.partition(), message.offset()
                if self.once and offset >= self._ends[partition]:
                    continue
                self._next[partition] = offset + 1
                if message.value() is not None:
                    found.append(message)
            if found:
                return found
            self.wait(0)

    def _has_ended(self) -> bool:
        return all(self._next[partition] >= end for partition, end in self._ends.items())

    def _connect(self) -> Any:
        from confluent_kafka import Consumer, KafkaException

        try:
            self._consumer = Consumer(self._describe())
        except KafkaException as error:
            raise DataError(f"{self.label}: {error.args[0].str()}") from error
        self._assign()
        return self._consumer

    def _describe(self) -> dict[str, Any]:
        """Return the properties of its consumer."""
        return {
            "group.id": "cernis",
            **_connect_to(self._topic),
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
        }

    def _look_for_partitions(self) -> None:
        """Read partitions that are new; a broker that does not answer is asked again later."""
        from confluent_kafka import KafkaException

        self._looked = monotonic()
        try:
            found = self._consumer.list_topics(self._topic.topic, timeout=_WAIT)
        except KafkaException:
            return
        if {*found.topics[self._topic.topic].partitions} - {*self._next}:
            self._assign()

    def _assign(self) -> None:
        """Read all partitions of the topic, also those that are new."""
        from confluent_kafka import TopicPartition

        topic, consumer = self._topic.topic, self._consumer
        found = self._ask(consumer.list_topics, topic).topics[topic]
        if found.error is not None:
            raise DataError(f"{self.label}: {found.error.str()}")
        is_first = not self._looked
        for partition in found.partitions:
            asked = TopicPartition(topic, partition)
            first, end = self._ask(consumer.get_watermark_offsets, asked)
            begins = self._find_beginning(partition, first, end) if is_first else first
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

    def _ask(self, call: Callable[..., Any], what: Any) -> Any:
        """Ask the broker; a run that is to stop does not wait for it."""
        from confluent_kafka import KafkaError, KafkaException

        def ask(seconds: float) -> Any:
            if (answer := call(what, timeout=seconds)) is None:
                silent = KafkaError(KafkaError._TIMED_OUT, "the broker does not answer")
                raise KafkaException(silent)
            return answer

        try:
            return _call_again(ask, monotonic() + _PATIENCE, _passes, lambda: self.wait(0))
        except KafkaException as error:
            raise DataError(f"{self.label}: {error.args[0].str()}") from error

    def _find_beginning(self, partition: int, first: int, end: int) -> int:
        """Return the offset from which a run without a checkpoint reads a partition."""
        from confluent_kafka import TopicPartition

        starting = self._topic.starting
        if isinstance(starting, str) or partition in self._next:
            return end if starting == "latest" else first
        wanted = TopicPartition(self._topic.topic, partition, starting)
        (found,) = self._ask(self._consumer.offsets_for_times, [wanted])
        return int(found.offset) if found.offset >= 0 else end

    _first: Mapping[int, int] = {}


class TopicSink(Sink):
    """Lines as messages of a topic."""

    is_exact = True
    releases_aside = True

    def __init__(
        self, topic: Topic, run: str, stopping: Callable[[], bool] = lambda: False
    ) -> None:
        import_extra("confluent_kafka", str(topic))
        self._topic, self._run = topic, f"cernis-{run}"
        self._stopping = stopping
        self._lines: list[str] = []
        self._producer: Any = None
        self._delivered = -1

    def add(self, batch: pa.RecordBatch) -> None:
        self._lines += batch.column(LINE).to_pylist()

    @property
    def is_pressing(self) -> bool:
        return bool(self._lines)

    def stage(self, number: int) -> Any:
        lines, self._lines = self._lines, []
        return lines or None

    def release(self, number: int, staged: Any) -> None:
        from confluent_kafka import KafkaException, TopicPartition

        producer = self._producer or self._connect()
        if number <= self._delivered:
            return
        mark = TopicPartition(self._topic.topic, 0, number)
        until = monotonic() + _LONGEST
        while True:
            try:
                producer.begin_transaction()
                self._produce(producer, staged)
                self._insist(until, producer.send_offsets_to_transaction, [mark], self._group)
                self._insist(until, producer.commit_transaction)
                break
            except KafkaException as error:
                if not error.args[0].txn_requires_abort() or monotonic() > until:
                    raise CernisError(f"{self._topic}: {error.args[0].str()}") from error
                self._insist(until, producer.abort_transaction)
        self._delivered = number

    def _insist(self, until: float, call: Callable[..., Any], *arguments: Any) -> None:
        """Call again what has failed and may be repeated."""

        def stop() -> None:
            if self._stopping():
                raise CernisError(f"{self._topic}: cannot be reached; the matches stay staged")

        _call_again(
            lambda seconds: call(*arguments, seconds), until, lambda e: bool(e.retriable()), stop
        )

    def _produce(self, producer: Any, lines: Any) -> None:
        for line in lines:
            while True:
                try:
                    producer.produce(self._topic.topic, str(line).encode())
                    break
                except BufferError:  # the queue of librdkafka is full
                    producer.poll(_WAIT)

    def _connect(self) -> Any:
        from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

        servers = _connect_to(self._topic)
        try:
            own = {"linger.ms": 1, "retry.backoff.ms": _RETRY, **servers}
            producer = Producer({**own, "transactional.id": self._run})
            self._insist(monotonic() + _PATIENCE, producer.init_transactions)
            consumer = Consumer({**servers, "group.id": self._run, "enable.auto.commit": False})
            self._group = consumer.consumer_group_metadata()
            (told,) = consumer.committed([TopicPartition(self._topic.topic, 0)], timeout=_PATIENCE)
            consumer.close()
        except KafkaException as error:
            raise CernisError(f"{self._topic}: {error.args[0].str()}") from error
        self._delivered = told.offset
        self._producer = producer
        return producer
