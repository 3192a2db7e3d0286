"""A real Kafka: one process (KRaft), started from the jars of the Java registry.

The jars are fetched by Maven or, where that is not installed, by the Ivy that Spark carries, and
kept in Cernis' own folder: only the first run needs the registry. Where it cannot be reached,
the tests here are skipped and say so.

A registry may be behind, and have no connector for the Spark that is installed, or only some of
its parts. The newest it has is then taken and warned of: it is Spark's and the user's affair that
versions agree, and what is tested here is on this side of the connector.

Spark is the session that runs in this process already, if there is one: its class loader is
given the jars, as `spark.jars.packages` would have done when it started.
"""

from __future__ import annotations

import base64
import os
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyspark
import pytest

from cernis.folder import own_folder
from cernis.spark.local.java import find_java
from cernis.spark.local.session import local_session

KAFKA = "org.apache.kafka:kafka_2.13:4.1.1"
LOGGING = "org.slf4j:slf4j-simple:1.7.36"
CONNECTOR = ("spark-sql-kafka-0-10_2.13", "spark-token-provider-kafka-0-10_2.13")
BESIDE = ("org.apache.kafka:kafka-clients:3.9.1", "org.apache.commons:commons-pool2:2.12.1")
PROTOBUF = "spark-protobuf_2.13"
OLDER = ("4.2.0", "4.1.1", "4.0.0")

PARTITIONS = 2
SMALL = {
    "spark.sql.shuffle.partitions": "4",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
}

# ------------------------------------------------------------------- registry

_POM = """<project>
<modelVersion>4.0.0</modelVersion>
<groupId>jars</groupId><artifactId>jars</artifactId><version>1</version>
<dependencies><dependency>
<groupId>{0}</groupId><artifactId>{1}</artifactId><version>{2}</version>{alone}
</dependency></dependencies>
</project>"""
_ALONE = (
    "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
)


def fetch(coordinates: str, folder: Path, *, alone: bool = True) -> bool:
    """Puts a jar, and those it needs unless it is wanted alone, into a folder, if it can be had."""
    group, name, version = coordinates.split(":")
    with tempfile.TemporaryDirectory() as work:
        if maven := shutil.which("mvn"):
            pom = Path(work, "pom.xml")
            pom.write_text(_POM.format(group, name, version, alone=_ALONE if alone else ""))
            goal = ["dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
            command = [maven, "-B", "-q", "-U", "-f", str(pom), *goal]
        else:
            [ivy] = Path(pyspark.__file__).parent.glob("jars/ivy-*.jar")
            command = [java(), "-jar", str(ivy), "-cache", work, "-confs", "default"]
            command += ["-dependency", group, name, version, *(["-notransitive"] if alone else [])]
            command += ["-retrieve", f"{folder}/[artifact]-[revision](-[classifier]).[ext]"]
        try:
            done = subprocess.run(command, capture_output=True, timeout=300)
        except subprocess.TimeoutExpired:
            return False
    return done.returncode == 0 and any(folder.glob(f"{name}-*.jar"))


def kept(title: str, wanted: Sequence[Sequence[str]], *, alone: bool = True) -> list[Path]:
    """Jars, each the first of some that the registry has; from the own folder if they are there."""
    place = own_folder() or Path(tempfile.gettempdir())
    folder = place / "jars" / title
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as work:
            for choice in wanted:
                if not any(fetch(one, Path(work, "jars"), alone=alone) for one in choice):
                    pytest.skip(f"the Java registry cannot be reached, or has no {choice[0]}")
            with suppress(OSError):  # another process was faster
                os.replace(Path(work, "jars"), folder)
    return sorted(folder.glob("*.jar"))


def java() -> str:
    return str(find_java().home / "bin" / "java")


# --------------------------------------------------------------------- broker


class Broker:
    """A Kafka on this machine; it can be stopped, and started again with what it had."""

    def __init__(self, jars: Path, folder: Path) -> None:
        self.jars, self.folder = jars, folder
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
            "offsets.topic.num.partitions": "1",
            "offsets.topic.replication.factor": "1",
        }
        lines = "".join(f"{name}={value}\n" for name, value in settings.items())
        (folder / "server.properties").write_text(lines)
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        told = ["format", "-t", f"x{cluster[1:]}", "-c", str(folder / "server.properties")]
        with (folder / "log").open("wb") as log:
            command = self._command("kafka.tools.StorageTool", *told)
            subprocess.run(command, check=True, stdout=log, stderr=log)

    @property
    def servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        command = self._command("kafka.Kafka", str(self.folder / "server.properties"))
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        end = time.monotonic() + 60
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > end:
                said = (self.folder / "log").read_text(errors="replace")
                pytest.fail(f"Kafka did not start:\n{said[-3000:]}")
            time.sleep(0.1)

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

    def _command(self, main: str, *arguments: str) -> list[str]:
        options = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{self.jars}/*"]
        return [java(), *options, main, *arguments]


def free_ports(number: int) -> list[int]:
    sockets = [socket.socket() for _ in range(number)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Topics:
    """What tests write to Kafka and read from it, by Spark's batch reader and writer."""

    def __init__(self, spark: Any, broker: Broker) -> None:
        self.spark, self.broker = spark, broker
        self.servers = broker.servers

    def put(self, topic: str, *values: bytes | None, partitions: int = PARTITIONS) -> None:
        """Records, alternately in so many partitions of a topic, in this order in each of them.

        Whoever reads meanwhile may see one partition before another: give a running query, whose
        lateness does not cover that, records of one partition.
        """
        rows = [(value, i % partitions) for i, value in enumerate(values)]
        frame = self.spark.createDataFrame(rows, "value binary, partition int").coalesce(1)
        writer = frame.write.format("kafka").option("kafka.bootstrap.servers", self.servers)
        writer.option("topic", topic).save()

    def taken(self, topic: str) -> list[tuple[str, str]]:
        """All keys and values of a topic."""
        reader = self.spark.read.format("kafka").option("kafka.bootstrap.servers", self.servers)
        records = reader.option("subscribe", topic).load()
        return [
            (row.key, row.value)
            for row in records.selectExpr("string(key) as key", "string(value) as value").collect()
        ]


# ------------------------------------------------------------------- fixtures


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    jars = kept(KAFKA.replace(":", "-"), [[KAFKA], [LOGGING]], alone=False)
    broker = Broker(jars[0].parent, tmp_path_factory.mktemp("kafka"))
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture(scope="session")
def session() -> Any:
    """Spark as it is, with the connector or without."""
    return local_session(2, memory="1g", conf=SMALL)  # ends with this process


@pytest.fixture(scope="session")
def connected(session: Any) -> Any:
    """Spark with the connector."""
    installed = pyspark.__version__
    parts = [[f"org.apache.spark:{name}:{v}" for v in (installed, *OLDER)] for name in CONNECTOR]
    jars = kept(f"connector-{installed}", [*parts, *([beside] for beside in BESIDE)])
    others = [jar.name for jar in jars if "spark" in jar.name and installed not in jar.name]
    if others:
        warnings.warn(f"no connector for Spark {installed}: {' and '.join(others)}", stacklevel=1)
    add_jars(session, jars)
    return session


@pytest.fixture
def spark(connected: Any) -> Iterator[Any]:
    before = connected.conf.get("spark.sql.shuffle.partitions")
    connected.conf.set("spark.sql.shuffle.partitions", "2")
    yield connected
    for query in connected.streams.active:  # of a test that failed
        query.stop()
    connected.conf.set("spark.sql.shuffle.partitions", before)


@pytest.fixture
def topics(broker: Broker, spark: Any) -> Topics:
    return Topics(spark, broker)


@pytest.fixture
def protobuf(spark: Any) -> None:
    """The decoder of protobuf."""
    installed = pyspark.__version__
    wanted = [f"org.apache.spark:{PROTOBUF}:{installed}"]
    add_jars(spark, kept(f"protobuf-{installed}", [wanted]))


def add_jars(spark: Any, jars: Sequence[Path]) -> None:
    java = spark._jvm.java
    loader = java.lang.Thread.currentThread().getContextClassLoader()
    for jar in jars:
        loader.addURL(java.io.File(str(jar)).toURI().toURL())
