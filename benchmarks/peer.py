"""Find an interpreter that has CORE, start `core_peer` in it, and send it queries.

The search goes through the interpreter named by `CERNIS_PEER_PYTHON`, the environment `.venv-peer`
that `make bench-peer` creates, `python3.13` and `python3` on the path. Without an interpreter that
can import `pycer` the benchmark runs without CORE, and says so.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import IO

import numpy as np
import numpy.typing as npt

from benchmarks import core_peer
from cernis.errors import CernisError

ABSENT = (
    "CORE is not here (no CPython 3.13 with the package `pycer`): its columns stay empty. "
    "`make bench-peer` installs it into .venv-peer, or name an interpreter that has it in "
    "CERNIS_PEER_PYTHON."
)
_PATIENCE = 30.0
_LONGEST_ANSWER = 600.0


@dataclass(frozen=True, slots=True)
class PeerRun:
    """The seconds and matches of CORE for one query."""

    seconds: float
    matches: int


class PeerError(CernisError):
    """CORE refused a query or ended."""


class Peer:
    """A running CORE with one stream of events in its memory."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        if process.stdin is None or process.stdout is None:
            raise PeerError("the peer has no pipes")
        self._input: IO[str] = process.stdin
        self._output: IO[str] = process.stdout
        self._kill = process.kill
        self.events = int(self._read_answer()["events"])

    def run(self, query: str) -> PeerRun:
        """Run one query on all events."""
        self._input.write(json.dumps({"query": query}) + "\n")
        self._input.flush()
        answer = self._read_answer()
        return PeerRun(answer["seconds"], int(answer["matches"]))

    def _read_answer(self) -> dict[str, float]:
        watch = Timer(_LONGEST_ANSWER, self._kill)
        watch.start()
        line = self._output.readline()
        watch.cancel()
        if not line:
            raise PeerError("CORE ended without an answer")
        answer = json.loads(line)
        if "error" in answer:
            raise PeerError(answer["error"])
        return dict(answer)


def find_peer() -> str | None:
    """Return an interpreter that can import `pycer`, if there is one."""
    candidates = [
        os.environ.get("CERNIS_PEER_PYTHON"),
        ".venv-peer/bin/python",
        shutil.which("python3.13"),
        shutil.which("python3"),
    ]
    return next((python for python in candidates if python and _has_core(python)), None)


def _has_core(python: str) -> bool:
    try:
        found = subprocess.run(
            [python, "-c", "import pycer"], capture_output=True, timeout=_PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return found.returncode == 0


@contextmanager
def start_peer(
    python: str, types: list[str], names: list[str], codes: npt.NDArray[np.uint16]
) -> Iterator[Peer]:
    """Start CORE with these events; a code is `type number * len(names) + name number`."""
    # CORE writes a log into its working directory
    with tempfile.TemporaryDirectory(prefix="cernis-peer-") as folder:
        events = Path(folder, "events.bin")
        header = json.dumps({"types": types, "names": names}) + "\n"
        events.write_bytes(header.encode() + codes.astype(np.uint16).tobytes())
        script = Path(core_peer.__file__).resolve()
        command = [str(Path(python).absolute()), "-P", str(script), str(events)]
        pipe = subprocess.PIPE
        with subprocess.Popen(
            command, cwd=folder, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
        ) as process:
            try:
                yield Peer(process)
            finally:
                if process.stdin is not None:
                    process.stdin.close()
                try:
                    process.wait(timeout=_PATIENCE)
                except subprocess.TimeoutExpired:
                    process.kill()
