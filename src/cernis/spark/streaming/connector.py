"""The jars of Spark's connector for Kafka, fetched from the Java registry and kept.

Spark fetches packages itself (`spark.jars.packages`), but only in the versions that it is given. A
registry may have no connector yet for the Spark that is installed, or only some parts of it.
`fetch_connector` takes each part in Spark's version or, where the registry does not have that, in
the newest version before it, and says so.

The registry is Maven Central, or the one in DEFAULT_ARTIFACT_REPOSITORY, as for Spark. Jars are
kept in Cernis' own folder: only the first run needs the registry. While a part is older than Spark,
each run asks for a newer one, if the registry can be reached.

Cost: 9 MB to fetch, once. Rejected: Ivy, which Spark uses. It takes seconds even if it has all
jars, and fails where one part has another version than the others.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple
from urllib.error import HTTPError
from urllib.request import urlopen
from xml.etree import ElementTree as ET

import pyspark

from cernis.errors import CernisError
from cernis.folder import own_folder, write_whole

_CENTRAL = "https://repo1.maven.org/maven2"
_SPARK = "org.apache.spark"
_CONNECTOR = "spark-sql-kafka-0-10_2.13"  # Spark 4 has no other Scala than 2.13
_TOKENS = "spark-token-provider-kafka-0-10_2.13"
_PROTOBUF = "spark-protobuf_2.13"
_LIBRARIES = {"kafka-clients": "org.apache.kafka", "commons-pool2": "org.apache.commons"}
_RELEASE = re.compile(r"\d+(\.\d+)+")
_SECONDS = 30


class Connector(NamedTuple):
    """The jars for `spark.jars`, and a note for the user where they are older than Spark."""

    jars: list[Path]
    note: str | None


class UnreachableError(CernisError):
    """A jar has to be fetched, and the registry cannot be reached."""


def kafka_package(*, protobuf: bool = False, version: str | None = None) -> str:
    """Return the value of `spark.jars.packages` for the installed version of Spark or another.

    >>> kafka_package(protobuf=True, version="4.1.0")
    'org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.0,org.apache.spark:spark-protobuf_2.13:4.1.0'
    """
    names = [_CONNECTOR, *([_PROTOBUF] if protobuf else [])]
    return ",".join(f"{_SPARK}:{name}:{version or pyspark.__version__}" for name in names)


def fetch_connector(version: str = pyspark.__version__, *, protobuf: bool = False) -> Connector:
    """Return the connector for a version of Spark, and the decoder of protobuf if asked for."""
    registry = JarRegistry()
    names = [_CONNECTOR, _TOKENS, *([_PROTOBUF] if protobuf else [])]
    parts = [registry.fetch_newest(_SPARK, name, version) for name in names]
    taken = parts[0].stem.removeprefix(f"{_CONNECTOR}-")
    needed = _dependencies(registry.fetch(_SPARK, _CONNECTOR, taken, "pom"))
    libraries = [
        registry.fetch_newest(group, name, needed[name]) for name, group in _LIBRARIES.items()
    ]
    older = [part.stem for part in parts if not part.stem.endswith(f"-{version}")]
    note = (
        f"the Java registry does not have all of the Kafka connector for Spark {version}: "
        f"using {' and '.join(older)}"
    )
    return Connector([*parts, *libraries], note if older else None)


def newest_version(wanted: str, versions: Iterable[str]) -> str | None:
    """Return the version that is wanted or, without it, the newest release that may work.

    That is one of the same major version, and of no later minor version.

    >>> newest_version("4.3.0", ["3.5.4", "4.1.1", "4.2.0", "4.2.1-preview1", "4.4.0"])
    '4.2.0'
    >>> newest_version("4.1.0", ["4.0.0", "4.1.1"])
    '4.1.1'
    """
    versions = list(versions)
    if wanted in versions:
        return wanted
    limit = _numbers(wanted)[:2]
    releases = filter(_RELEASE.fullmatch, versions)
    fitting = [found for found in releases if limit[:1] <= _numbers(found)[:2] <= limit]
    return max(fitting, key=_numbers, default=None)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))


def _dependencies(pom: Path) -> dict[str, str]:
    """The versions of what a package needs, by name."""
    found = ET.parse(pom).iterfind("{*}dependencies/{*}dependency")
    return {each.findtext("{*}artifactId", ""): each.findtext("{*}version", "") for each in found}


class JarRegistry:
    """A registry in Maven's layout, with the files that were fetched from it before."""

    def __init__(self) -> None:
        self._url = os.environ.get("DEFAULT_ARTIFACT_REPOSITORY", _CENTRAL).rstrip("/")
        folder = own_folder()
        if folder is None:
            raise UnreachableError("there is no folder to keep jars in")
        self._folder = folder / "jars"
        self._folder.mkdir(exist_ok=True)

    def fetch_newest(self, group: str, name: str, wanted: str) -> Path:
        """Return a jar in the version that is wanted, or in the newest before it."""
        file = self._folder / f"{name}-{wanted}.jar"
        if file.exists():
            return file
        version = newest_version(wanted, self._versions(group, name, wanted))
        if version is None:
            raise CernisError(f"the Java registry has no {group}:{name} for version {wanted}")
        return self.fetch(group, name, version, "jar")

    def fetch(self, group: str, name: str, version: str, extension: str) -> Path:
        """Return a file of one version, fetched unless it is kept."""
        file = self._folder / f"{name}-{version}.{extension}"
        if not file.exists():
            content = self._read(group, name, f"{version}/{file.name}")
            if content is None:
                raise CernisError(f"the Java registry has no {group}:{name}:{version}")
            write_whole(file, content)
        return file

    def _versions(self, group: str, name: str, wanted: str) -> list[str]:
        """The versions in the registry; those that are kept, if it cannot be reached."""
        try:
            listed = self._read(group, name, "maven-metadata.xml")
        except UnreachableError:
            files = self._folder.glob(f"{name}-*.jar")
            kept = [file.stem.removeprefix(f"{name}-") for file in files]
            if newest_version(wanted, kept) is None:
                raise
            return kept
        if listed is None:
            return []
        return [each.text or "" for each in ET.fromstring(listed).iter("version")]

    def _read(self, group: str, name: str, path: str) -> bytes | None:
        """The content of a file; None if the registry does not have it."""
        url = f"{self._url}/{group.replace('.', '/')}/{name}/{path}"
        try:
            with urlopen(url, timeout=_SECONDS) as answer:
                content: bytes = answer.read()
                return content
        except HTTPError as error:
            if error.code == 404:
                return None
            raise UnreachableError(f"{url}: {error}") from None
        except (OSError, HTTPException) as error:
            raise UnreachableError(f"{url}: {error}") from None
