"""`make row-peers`: the tests that compare SQL with Trino and Flink, where these can be had.

Flink goes into an environment of its own, Trino's server is fetched from the Java registry and runs
in one process while the tests do. Both are kept beside the compiled kernels of Cernis.
`CERNIS_FLINK` and `CERNIS_TRINO` name others. What cannot be had is skipped with a sentence.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.request import urlopen

from benchmarks.peers.installing import FLINK, MissingError, call_installer, find_peers_folder
from cernis.errors import CernisError
from cernis.spark.streaming.connector import JarRegistry

TRINO = "368"
"""The last version that runs on Java 17 and on Java 11."""
_TESTS = ("tests/run/rows/test_trino.py", "tests/run/rows/test_flink.py")
_PYTHONS = ("python3.11", "python3.12", "python3.10")
_STARTED = 180
_FILES = {
    "node.properties": "node.environment=test\nnode.id=one\nnode.data-dir={0}/data\n",
    "config.properties": "coordinator=true\nnode-scheduler.include-coordinator=true\n"
    "http-server.http.port={1}\ndiscovery.uri=http://localhost:{1}\nquery.max-memory=1GB\n"
    "plugin.dir={2}/plugin\ncatalog.config-dir={0}/catalog\n",
    "catalog/memory.properties": "connector.name=memory\n",
}
_OPENED = ("java.lang", "java.nio", "java.util", "sun.nio.ch")


def find_flink() -> str:
    """Return a Python that has Flink, in an environment that is made unless there is one."""
    if given := os.environ.get("CERNIS_FLINK"):
        return given
    folder = find_peers_folder() / f"flink-{FLINK}-python"
    python = str(folder / "bin" / "python")
    asked = [python, "-c", "import pyflink.table"]
    if not folder.exists() or subprocess.run(asked, capture_output=True, check=False).returncode:
        found = next(filter(None, map(shutil.which, _PYTHONS)), None)
        if found is None:
            raise MissingError(f"Flink needs one of {', '.join(_PYTHONS)}")
        call_installer([found, "-m", "venv", "--clear", str(folder)], "no environment for Flink")
        wanted = f"apache-flink=={FLINK}"
        command = [python, "-m", "pip", "install", "-q", "setuptools<80", wanted]
        call_installer(command, f"{wanted} cannot be installed")
    return python


@contextmanager
def open_trino() -> Iterator[str]:
    """Yield the address of a server of Trino, which is started unless there is one."""
    if given := os.environ.get("CERNIS_TRINO"):
        yield given
        return
    java = shutil.which("java")
    if java is None:
        raise MissingError("Trino needs Java")
    server = _fetch_trino()
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    with TemporaryDirectory() as place:
        for name, text in _FILES.items():
            file = Path(place) / name
            file.parent.mkdir(exist_ok=True)
            file.write_text(text.format(place, port, server))
        command = [java, "-Xmx2g", "-Djdk.attach.allowAttachSelf=true", f"-Dconfig={place}"]
        command[-1] += "/config.properties"
        command += [f"-Dnode.{line}" for line in ("environment=test", "id=one")]
        command += [f"-Dnode.data-dir={place}/data", "-Dlog.enable-console=false"]
        command += [f"--add-opens=java.base/{each}=ALL-UNNAMED" for each in _OPENED]
        command += ["-cp", f"{server}/lib/*", "io.trino.server.TrinoServer"]
        with (Path(place) / "log").open("w+") as log:
            process = subprocess.Popen(command, cwd=place, stdout=log, stderr=log)
            try:
                _wait_for(f"http://localhost:{port}", process, Path(log.name))
                yield f"http://localhost:{port}"
            finally:
                process.kill()
                process.wait()


def _fetch_trino() -> Path:
    """Return the folder of Trino's server; of its plugins, the one for tables in memory."""
    folder = find_peers_folder() / f"trino-server-{TRINO}"
    if not folder.exists():
        packed = JarRegistry().fetch("io.trino", "trino-server", TRINO, "tar.gz")
        with TemporaryDirectory(dir=folder.parent) as place:
            with tarfile.open(packed, "r|gz") as archive:  # in one go: files link to others
                archive.extractall(place, filter="data")
            unpacked = Path(place) / folder.name
            for plugin in (unpacked / "plugin").iterdir():
                if plugin.name != "memory":
                    shutil.rmtree(plugin)
            unpacked.rename(folder)
        packed.unlink()
    return folder


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a server answers."""
    end = time.monotonic() + _STARTED
    while time.monotonic() < end and process.poll() is None:
        with suppress(OSError), urlopen(f"{url}/v1/info", timeout=5) as answer:
            if not json.load(answer)["starting"]:
                return
        time.sleep(1)
    told = log.read_text(errors="replace").strip().splitlines()[-1:]
    raise MissingError(f"Trino did not start: {' '.join(told)[:300]}")


def main() -> int:
    """Run the tests; return how they ended."""
    with ExitStack() as stack:
        found = {}
        for name, find in (
            ("FLINK", find_flink),
            ("TRINO", lambda: stack.enter_context(open_trino())),
        ):
            try:
                found[f"CERNIS_{name}"] = find()
            except CernisError as error:
                sys.stderr.write(f"{name.title()} is left out: {error}\n")
        command = [sys.executable, "-m", "pytest", "-v", "-rs", *_TESTS]
        return subprocess.run(command, env={**os.environ, **found}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
