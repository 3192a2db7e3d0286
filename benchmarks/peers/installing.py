"""Fetch the engines that Cernis does not depend on, and compile the contestants that drive them.

Esper, Siddhi and what they need come from the Java registry, Flink's jars out of its Python
package, of which nothing is installed, and CORE into an environment of its own. All are kept beside
the compiled kernels of Cernis. What cannot be had without a Java compiler, CPython 3.13 or the
network is left out, and the benchmark says so.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path

from benchmarks.peer import find_peer
from cernis.errors import CernisError
from cernis.folder import own_folder
from cernis.spark.streaming.connector import JarRegistry

FLINK = "2.3.0"
ESPER = "9.0.0"
SIDDHI = "5.1.30"
CORE = "0.1.6"
_ESPER = (
    *(("com.espertech", f"esper-{part}", ESPER) for part in ("common", "compiler", "runtime")),
    ("org.codehaus.janino", "janino", "3.1.12"),
    ("org.codehaus.janino", "commons-compiler", "3.1.12"),
    ("org.antlr", "antlr4-runtime", "4.13.1"),
    ("org.slf4j", "slf4j-api", "1.7.36"),
)
_SIDDHI = (
    *(
        ("io.siddhi", f"siddhi-{part}", SIDDHI)
        for part in ("core", "query-api", "query-compiler", "annotations")
    ),
    ("org.antlr", "antlr4-runtime", "4.11.1"),
    ("com.lmax", "disruptor", "3.4.2"),
    ("com.google.guava", "guava", "33.0.0-jre"),
    ("com.google.guava", "failureaccess", "1.0.2"),
    ("com.google.code.gson", "gson", "2.10.1"),
    ("io.dropwizard.metrics", "metrics-core", "3.1.0"),
    ("org.atteo.classindex", "classindex", "3.9"),
    ("org.mvel", "mvel2", "2.4.5.Final"),
    ("org.osgi", "org.osgi.core", "6.0.0"),
    ("org.quartz-scheduler", "quartz", "2.3.2"),
    ("org.apache.logging.log4j", "log4j-api", "2.22.1"),
    ("org.apache.logging.log4j", "log4j-core", "2.22.1"),
    ("org.slf4j", "slf4j-api", "2.0.11"),
)
_FLINK = ("flink-dist-*.jar", "flink-cep-*.jar", "flink-table-*.jar", "log4j-*.jar")
_SOURCES = Path(__file__).parent / "java"


class MissingError(CernisError):
    """A contestant that cannot be had here, and why."""


def find_esper() -> list[Path]:
    """Return the jars of Esper, fetched unless they are kept."""
    registry = JarRegistry()
    return [registry.fetch(*each, "jar") for each in _ESPER]


def find_siddhi() -> list[Path]:
    """Return the jars of Siddhi, fetched unless they are kept."""
    registry = JarRegistry()
    return [registry.fetch(*each, "jar") for each in _SIDDHI]


def find_core() -> Path:
    """Return a Python that has CORE, in an environment that is made unless there is one."""
    found = find_peer()
    if found is not None:
        return Path(found).absolute()
    python = find_peers_folder() / f"core-{CORE}" / "bin" / "python"
    if not python.exists():
        call_installer(
            [_find_python(), "-m", "venv", str(python.parents[1])], "no environment for CORE"
        )
        call_installer(
            [str(python), "-m", "pip", "install", "-q", f"pycer=={CORE}"], "CORE cannot be fetched"
        )
    return python


def _find_python() -> str:
    """Return the command of a CPython 3.13, for which alone there is CORE."""
    kept = sorted(Path.home().glob(".pyenv/versions/3.13*/bin/python"))
    for candidate in (shutil.which("python3.13"), *map(str, kept)):
        if candidate is not None:
            asked = [candidate, "-c", "import sys; sys.exit(sys.version_info[:2] != (3, 13))"]
            if subprocess.run(asked, capture_output=True, check=False).returncode == 0:
                return candidate
    raise MissingError(
        "CORE (pycer) needs CPython 3.13, of which there is none on the path or in pyenv"
    )


def find_flink() -> list[Path]:
    """Return the jars of Flink and of its library of patterns, fetched unless they are kept."""
    folder = find_peers_folder() / f"flink-{FLINK}-sql"
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=folder.parent) as place:
            wanted = f"apache-flink-libraries=={FLINK}"
            command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", place]
            call_installer([*command, wanted], f"{wanted} cannot be fetched")
            (wheel,) = Path(place).glob("*.whl")
            taken = Path(place) / "jars"
            with zipfile.ZipFile(wheel) as archive:
                for name in archive.namelist():
                    base = Path(name).name
                    if any(fnmatch(base, pattern) for pattern in _FLINK):
                        taken.mkdir(exist_ok=True)
                        (taken / base).write_bytes(archive.read(name))
            taken.rename(folder)
    return sorted(folder.glob("*.jar"))


def compile_java(name: str, jars: Sequence[Path]) -> list[str]:
    """Return the command that starts a contestant written in Java."""
    compiler, java = shutil.which("javac"), shutil.which("java")
    if compiler is None or java is None:
        raise MissingError("there is no Java compiler (javac) on the path")
    sources = [_SOURCES / f"{each}.java" for each in ("Answering", "PeerEvent", name)]
    content = b"".join(source.read_bytes() for source in sources)
    digest = hashlib.sha256(content + name.encode()).hexdigest()[:16]
    classes = find_peers_folder() / f"classes-{digest}"
    if not classes.exists():
        with tempfile.TemporaryDirectory(dir=classes.parent) as place:
            made = Path(place) / "classes"
            path = ["-cp", os.pathsep.join(map(str, jars))]
            call_installer(
                [compiler, "-nowarn", *path, "-d", str(made), *map(str, sources)], "javac failed"
            )
            made.rename(classes)
    opened = [f"--add-opens=java.base/java.{each}=ALL-UNNAMED" for each in ("lang", "util")]
    path = ["-cp", os.pathsep.join(map(str, [classes, *jars]))]
    return [java, "-Xmx2500m", *opened, *path, name]


def find_peers_folder() -> Path:
    """Return the folder in which engines are kept."""
    place = own_folder()
    if place is None:
        raise MissingError("there is no folder to keep jars in")
    folder = place / "peers"
    folder.mkdir(exist_ok=True)
    return folder


def call_installer(command: Sequence[str], message: str) -> None:
    """Run a command; raise why an engine cannot be had if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MissingError(f"{message}: {done.stderr.strip()[-300:]}")
