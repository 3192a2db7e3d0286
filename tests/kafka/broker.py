"""A real Kafka: one process (KRaft), started from the jars of the Java registry.

Maven fetches the broker or, where Maven is not installed, the Ivy that Spark carries. It is kept in
Cernis' own folder: only the first run needs the registry.

The broker creates no topics by itself: they are created before anything is written to them.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import pyspark

from cernis.folder import own_folder
from cernis.spark.local.java import find_java
from cernis.spark.streaming.kafka import ONE_REQUEST

BROKER = ("org.apache.kafka:kafka_2.13:4.1.1", "org.slf4j:slf4j-simple:1.7.36")
PARTITIONS = 2

# ------------------------------------------------------------------- registry

_POM = """<project>
<modelVersion>4.0.0</modelVersion>
<groupId>jars</groupId><artifactId>jars</artifactId><version>1</version>
<dependencies>{}</dependencies>
</project>"""
_DEPENDENCY = """<dependency>
<groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>
</dependency>"""


def find_broker() -> Path | None:
    """Return the folder with the jars of the broker; None if they cannot be fetched."""
    place = own_folder() or Path(tempfile.gettempdir())
    folder = place / "jars" / "-".join(BROKER).replace(":", "-")
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as work:
            if not fetch_broker(Path(work, "jars")):
                return None
            with suppress(OSError):  # another process was faster
                os.replace(Path(work, "jars"), folder)
    return folder


def fetch_broker(folder: Path) -> bool:
    """Put the broker, with all that it needs, into a folder; return whether that worked."""
    packages = [package.split(":") for package in BROKER]
    with tempfile.TemporaryDirectory() as work:
        if maven := shutil.which("mvn"):
            pom = Path(work, "pom.xml")
            pom.write_text(_POM.format("".join(_DEPENDENCY.format(*one) for one in packages)))
            goal = ["dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
            commands = [[maven, "-B", "-q", "-U", "-f", str(pom), *goal]]
        else:
            [ivy] = Path(pyspark.__file__).parent.glob("jars/ivy-*.jar")
            run = [java(), "-jar", str(ivy), "-cache", work, "-confs", "default", "-retrieve"]
            run += [f"{folder}/[artifact]-[revision](-[classifier]).[ext]", "-dependency"]
            commands = [[*run, *one] for one in packages]
        try:
            done = [
                subprocess.run(command, capture_output=True, timeout=300) for command in commands
            ]
        except subprocess.TimeoutExpired:
            return False
    return all(each.returncode == 0 for each in done)


@cache
def java() -> str:
    return str(find_java().home / "bin" / "java")


# --------------------------------------------------------------------- broker


def read_committed(servers: str, topic: str) -> list[dict[str, Any]]:
    """Return the messages of a topic's transactions that were committed."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "read-committed",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    while (message := consumer.poll(60)) is not None and message.error() is None:
        found.append(json.loads(message.value() or b""))
    consumer.close()
    return found


class Broker:
    """A Kafka on this machine; it keeps its data when it is stopped and started again."""

    def __init__(self, jars: Path, folder: Path, **changes: str) -> None:
        self.jars, self.folder = jars, folder
        self.topics: set[str] = set()
        self.port, controller = free_ports(2)
        self.process: subprocess.Popen[bytes] | None = None
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{self.servers},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.servers}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(folder / "data"),
            "num.partitions": str(PARTITIONS),
            "auto.create.topics.enable": "false",
            "offsets.topic.num.partitions": "1",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            **{name.replace("_", "."): value for name, value in changes.items()},
        }
        lines = "".join(f"{name}={value}\n" for name, value in settings.items())
        (folder / "server.properties").write_text(lines)
        (folder / "data").mkdir()
        identity = f"version=1\nnode.id=1\ncluster.id={secrets.token_urlsafe(16)}\n"
        (folder / "data" / "meta.properties").write_text(identity)  # as `kafka-storage format` does

    @property
    def servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def launch(self) -> None:
        """Start the process; Kafka answers some seconds later."""
        options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command = [java(), *options, "-cp", f"{self.jars}/*", "kafka.Kafka"]
        command.append(str(self.folder / "server.properties"))
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def wait(self) -> None:
        """Wait until Kafka answers."""
        end = time.monotonic() + 120
        while not self._answers():
            if self.process is None or self.process.poll() is not None or time.monotonic() > end:
                log = (self.folder / "log").read_text(errors="replace")
                raise RuntimeError(f"Kafka did not start:\n{log[-3000:]}")
            time.sleep(0.05)

    def kill(self) -> None:
        """End the process at once, in the middle of what it does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True


def free_ports(number: int) -> list[int]:
    sockets = [socket.socket() for _ in range(number)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Topics:
    """The topics of a broker: created and counted by its client, read and written by Spark."""

    def __init__(self, spark: Any, broker: Broker) -> None:
        self.spark, self.broker = spark, broker
        self.servers = broker.servers

    def create(self, *names: str) -> None:
        """Create those topics that this has not created before."""
        new = [name for name in names if name not in self.broker.topics]
        self.broker.topics.update(new)
        with self._admin() as (admin, jvm):
            default = jvm.java.util.Optional.empty()  # as many partitions as the broker says
            topic = jvm.org.apache.kafka.clients.admin.NewTopic
            admin.createTopics([topic(name, default, default) for name in new]).all().get()

    def count(self, name: str) -> int:
        """Return how many records a topic has."""
        with self._admin() as (admin, jvm):
            described = admin.describeTopics([name]).allTopicNames().get()[name]
            partition = jvm.org.apache.kafka.common.TopicPartition
            latest = jvm.org.apache.kafka.clients.admin.OffsetSpec.latest()
            asked = {partition(name, each.partition()): latest for each in described.partitions()}
            return sum(each.offset() for each in admin.listOffsets(asked).all().get().values())

    @contextmanager
    def _admin(self) -> Iterator[tuple[Any, Any]]:
        jvm = self.spark._jvm
        settings = {"bootstrap.servers": self.servers}
        admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(settings)
        try:
            yield admin, jvm
        finally:
            admin.close()

    def put(self, topic: str, *values: bytes | None, partitions: int = PARTITIONS) -> None:
        self.put_all({topic: values}, partitions)

    def put_all(self, records: Mapping[str, Sequence[bytes | None]], partitions: int) -> None:
        """Write records to topics, alternately to so many partitions, each partition in order.

        A running query may see one partition before another. If its lateness does not cover that,
        write to one partition.
        """
        self.create(*records)
        rows = [
            (topic, value, i % partitions)
            for topic, values in records.items()
            for i, value in enumerate(values)
        ]
        schema = "topic string, value binary, partition int"
        writer = self.spark.createDataFrame(rows, schema).coalesce(1).write.format("kafka")
        writer.options(**ONE_REQUEST).option("kafka.bootstrap.servers", self.servers).save()

    def read(self, topic: str) -> list[tuple[str, str]]:
        """Return the keys and values of all records in a topic."""
        reader = self.spark.read.format("kafka").option("kafka.bootstrap.servers", self.servers)
        records = reader.option("subscribe", topic).load()
        return [
            (row.key, row.value)
            for row in records.selectExpr("string(key) as key", "string(value) as value").collect()
        ]


def add_jars(spark: Any, jars: Sequence[Path]) -> None:
    java = spark._jvm.java
    loader = java.lang.Thread.currentThread().getContextClassLoader()
    for jar in jars:
        loader.addURL(java.io.File(str(jar)).toURI().toURL())
