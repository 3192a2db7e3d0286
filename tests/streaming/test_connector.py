"""Which jars are fetched for Kafka, from a registry on this machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from cernis.errors import CernisError
from cernis.spark.streaming import connector
from cernis.spark.streaming.connector import UnreachableError, fetch_connector

SQL = "org.apache.spark:spark-sql-kafka-0-10_2.13"
TOKENS = "org.apache.spark:spark-token-provider-kafka-0-10_2.13"
PROTOBUF = "org.apache.spark:spark-protobuf_2.13"
CLIENTS, POOL = "org.apache.kafka:kafka-clients", "org.apache.commons:commons-pool2"
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><dependencies>
<dependency><artifactId>kafka-clients</artifactId><version>3.9.2</version></dependency>
<dependency><artifactId>commons-pool2</artifactId><version>2.12.0</version></dependency>
</dependencies></project>"""


class Registry:
    """A registry of Java packages, in Maven's layout."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.paths: list[str] = []
        registry = self

        class Handler(SimpleHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                registry.paths.append(self.path)

        handler = partial(Handler, directory=str(folder))
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, args=[0.01]).start()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def put(self, package: str, *versions: str) -> None:
        """Add a package, in these versions."""
        group, name = package.split(":")
        place = self.folder / group.replace(".", "/") / name
        for version in versions:
            (place / version).mkdir(parents=True)
            (place / version / f"{name}-{version}.jar").write_bytes(b"a jar")
            (place / version / f"{name}-{version}.pom").write_text(POM)
        listed = sorted(path.name for path in place.iterdir() if path.is_dir())
        elements = "".join(f"<version>{version}</version>" for version in listed)
        text = f"<metadata><versioning><versions>{elements}</versions></versioning></metadata>"
        (place / "maven-metadata.xml").write_text(text)


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    (tmp_path / "registry").mkdir()
    (tmp_path / "own").mkdir()
    registry = Registry(tmp_path / "registry")
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", registry.url)
    monkeypatch.setattr(connector, "own_folder", lambda: tmp_path / "own")
    registry.put(CLIENTS, "3.9.1", "3.9.2", "4.0.0")
    registry.put(POOL, "2.11.0", "2.12.0")
    yield registry
    registry.stop()


def names(jars: list[Path]) -> list[str]:
    return [jar.name for jar in jars]


LIBRARIES = ["kafka-clients-3.9.2.jar", "commons-pool2-2.12.0.jar"]


def test_the_connector_has_the_version_of_spark_and_is_fetched_once(registry: Registry) -> None:
    for package in (SQL, TOKENS, PROTOBUF):
        registry.put(package, "4.1.0", "4.2.0", "4.3.0")
    jars, note = fetch_connector("4.2.0", protobuf=True)
    spark = ["spark-sql-kafka-0-10_2.13", "spark-token-provider-kafka-0-10_2.13"]
    parts = [f"{name}-4.2.0.jar" for name in [*spark, "spark-protobuf_2.13"]]
    assert names(jars) == parts + LIBRARIES
    assert note is None
    assert {jar.read_bytes() for jar in jars} == {b"a jar"}
    asked = len(registry.paths)
    assert fetch_connector("4.2.0", protobuf=True).jars == jars
    assert len(registry.paths) == asked


def test_a_part_without_the_version_of_spark_is_the_newest_before_it(registry: Registry) -> None:
    registry.put(SQL, "3.5.8", "4.1.1", "4.2.0", "4.3.0-preview1", "4.4.0")
    registry.put(TOKENS, "4.0.0", "4.0.1")
    jars, note = fetch_connector("4.3.0")
    older = ["spark-sql-kafka-0-10_2.13-4.2.0", "spark-token-provider-kafka-0-10_2.13-4.0.1"]
    assert names(jars) == [f"{name}.jar" for name in older] + LIBRARIES
    assert note == (
        "the Java registry does not have all of the Kafka connector for Spark 4.3.0: "
        f"using {older[0]} and {older[1]}"
    )
    registry.stop()
    assert fetch_connector("4.3.0") == (jars, note)


def test_a_newer_part_is_taken_when_the_registry_has_it(registry: Registry) -> None:
    registry.put(SQL, "4.2.0")
    registry.put(TOKENS, "4.2.0")
    assert fetch_connector("4.3.0").note is not None
    registry.put(SQL, "4.3.0")
    registry.put(TOKENS, "4.3.0")
    jars, note = fetch_connector("4.3.0")
    assert names(jars)[0] == "spark-sql-kafka-0-10_2.13-4.3.0.jar"
    assert note is None


def test_a_registry_without_the_connector_is_an_error(registry: Registry) -> None:
    registry.put(SQL, "4.2.0")
    registry.put(TOKENS, "3.5.8", "5.0.0")
    with pytest.raises(CernisError) as caught:
        fetch_connector("4.2.0")
    assert str(caught.value) == f"the Java registry has no {TOKENS} for version 4.2.0"
    registry.put(TOKENS, "4.2.0")
    with pytest.raises(CernisError, match=f"has no {PROTOBUF} for version 4.2.0"):
        fetch_connector("4.2.0", protobuf=True)


def test_a_registry_that_does_not_answer_is_another_error(registry: Registry) -> None:
    registry.stop()
    with pytest.raises(UnreachableError, match=r"maven-metadata\.xml: .*refused"):
        fetch_connector("4.2.0")
